/*
 * The way to a node of a Redis Cluster, from those that the URL names.
 */
#pragma once

#include "link/server_link.h"
#include "wire/slots.h"

/** Turn the link to the node that has the key's slot, as most of the seeds say, which are asked all at once; login: how they
 *  let us in, and its TLS. False: link->status and link->message say why there is none. */
bool seeds_lead(server_link *link, const tl_endpoint *login, const tl_seeds *seeds,
                const char *key);

/** The same by what the link was told last (MOVED), else by what its node says now; it stays where it is if that has the
 *  slot. False: also when the node doesn't answer. */
bool seeds_go_on(server_link *link, const char *key);
