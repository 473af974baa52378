/*
 * Independent servers, of which a majority counts. Each is a node like any, which never changes: there is nobody to ask
 * who they are, and nothing to follow.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/client.h"
#include "ground/error.h"

/* The first is the client's own. */
static void end(tl_fleet *fleet) {
    for (unsigned i = 1; i < fleet->servers; i++) {
        tl__node_end(fleet->server[i]);
        free(fleet->server[i]);
    }
    *fleet = (tl_fleet){.row = NULL};
}

tl_err tl__fleet_open_quorum(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                             const tl_client_options *options, tl_error *err) {
    static const tl_fleet_row row = {.end = end};
    tl_endpoint like = node->endpoint;
    fleet->row = &row;
    for (unsigned i = 0; i < seeds->count; i++) {
        tl_node *n = i == 0 ? node : calloc(1, sizeof *n);
        if (!n)
            break;
        if (i > 0)
            tl__node_init(n, node->client);
        tl__endpoint_at_seed(&n->endpoint, &like, seeds, i);
        n->server.drift_ppm = options->drift_ppm;
        fleet->server[fleet->servers++] = n;
    }
    tl__endpoint_wipe(&like);
    return fleet->servers == seeds->count
               ? TL_OK
               : tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
}
