/*
 * Initializing and ending a node.
 */
#include "client/node.h"

#include "client/client.h"
#include "client/share.h"

void tl__node_init(tl_node *node, tl_client *client) {
    node->client = client;
    atomic_init(&node->changes, 1);
    tl__cond_init(&node->pooled_freed);
}

void tl__node_end(tl_node *node) {
    for (size_t i = 0; i < TL_SHARES_MAX; i++)
        tl__share_free(atomic_load(&node->share[i]));
    tl__pool_free(node);
    tl__cond_end(&node->pooled_freed);
    tl__endpoint_wipe(&node->endpoint);
}
