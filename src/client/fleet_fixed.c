/*
 * Fleets whose servers never change: one server, or several independent ones of which a majority counts.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/client.h"
#include "ground/error.h"

tl_node *tl__fleet_first(const tl_fleet *fleet, tl_bytes key) {
    (void)key;
    return fleet->server[0];
}

tl_node *tl__fleet_server(tl_fleet *fleet, unsigned *from) {
    return *from < fleet->servers ? fleet->server[*from] : NULL;
}

void tl__fleet_init(tl_fleet *fleet, tl_node *node) {
    static const tl_fleet_row row = {.node_of = tl__fleet_first, .next = tl__fleet_server};
    *fleet = (tl_fleet){.row = &row, .servers = 1, .server = {node}};
}

/* ---- several --------------------------------------------------------------------------------- */

/* The first server is the client's own node, which is freed elsewhere. */
static void end(tl_fleet *fleet) {
    for (unsigned i = 1; i < fleet->servers; i++) {
        tl__node_end(fleet->server[i]);
        free(fleet->server[i]);
    }
}

tl_err tl__fleet_open_quorum(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                             const tl_client_options *options, tl_error *err) {
    static const tl_fleet_row row = {
        .end = end, .node_of = tl__fleet_first, .next = tl__fleet_server};
    tl_endpoint like = node->endpoint;
    fleet->row = &row;
    fleet->servers = 0;
    for (unsigned i = 0; i < seeds->count; i++) {
        tl_node *entry = i == 0 ? node : calloc(1, sizeof *entry);
        if (!entry)
            break;
        if (i > 0)
            tl__node_init(entry, node->client);
        tl__endpoint_at_seed(&entry->endpoint, &like, seeds, i);
        entry->server.drift_ppm = options->drift_ppm;
        fleet->server[fleet->servers++] = entry;
    }
    tl__endpoint_wipe(&like);
    return fleet->servers == seeds->count
               ? TL_OK
               : tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
}
