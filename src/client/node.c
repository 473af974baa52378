/*
 * A node's beginning and end, and what it is called.
 */
#include "client/node.h"

#include <stdio.h>

#include "client/client.h"
#include "client/share.h"

void tl__node_init(tl_node *node, tl_client *client) {
    node->client = client;
    tl__cond_init(&node->pooled_freed);
}

void tl__node_end(tl_node *node) {
    for (size_t i = 0; i < TL_SHARES_MAX; i++)
        tl__share_free(atomic_load(&node->share[i]));
    tl__pool_free(node);
    tl__cond_end(&node->pooled_freed);
    tl__endpoint_wipe(&node->endpoint);
}

/* Of the others the site is of the first node's connections, or there is none. */
static bool is_of_cluster(const tl_node *node) {
    return node->site && node != &node->client->node;
}

const tl_endpoint *tl__node_face(const tl_node *node) {
    static const tl_endpoint former = {.label = "a former node of the cluster"};
    return is_of_cluster(node) ? &former : &node->endpoint;
}

const char *tl__node_label(const tl_node *node, char label[TL_LABEL_SIZE]) {
    (void)snprintf(label, TL_LABEL_SIZE, "%s", tl__node_face(node)->label);
    if (is_of_cluster(node))
        tl__site_label(node->site, label, TL_LABEL_SIZE);
    return label;
}
