/*
 * The way from the nodes that a URL names to the right node of a Redis Cluster.
 */
#pragma once

#include "link/server_link.h"
#include "wire/slots.h"

/** Turn the link to the node that has the key's slot. It asks all seeds at once, and follows the owner that
 *  most of them name. login: their login and TLS. False: link->status and link->message say why there is
 *  none. */
bool seeds_lead(server_link *link, const tl_endpoint *login, const tl_seeds *seeds,
                const char *key);

/** Turn the link to the node that has the key's slot: the one of the last error (MOVED), else the one that
 *  the link's own node names now. It stays where it is if that node has the slot. False: also when the node
 *  doesn't reply. */
bool seeds_go_on(server_link *link, const char *key);
