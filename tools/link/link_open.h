/*
 * The connection to the server that the URL means: itself, the master that its Sentinels name, or of a cluster the node that
 * has the slot where agents publish (SKEW_INDEX_KEY).
 */
#pragma once

#include "link/seeds.h"
#include "link/sentinels.h"

/** Does the URL name servers that are asked which one it is? */
bool link_is_led(const server *where);

/** Does not connect; asks Sentinels for the master, or a cluster's nodes for theirs, if it is they whom the URL names. Returns
 *  0, or the exit status after a message. */
int link_open(server_link *link, const server *where);
/** The same without a message: link->message is it. */
int link_open_quietly(server_link *link, const server *where);
/** Of a URL of Sentinels: ask all of them. `ret` is what they said; without a sure master it returns 0 and link->conn is
 *  NULL. */
int link_open_by(server_link *link, const server *where, sentinels *ret);

/** Of a URL of Sentinels: the replicas of the master that `link` leads to. Returns 0, or the exit status with a message in link. */
int link_replicas(server_link *link, const server *where, sentinel_replicas *ret);

/** Where several servers are named: how to log in to them. login, what of it is in own, and seeds are set by it; wipe login and
 *  own->secret. Returns 0, or the exit status with a message in link. */
int link_places(server_link *link, const server *where, tl_endpoint *ret_login, link_login *ret_own,
                tl_seeds *ret_seeds);

/** Go on with another if the Sentinels, or the cluster's nodes, name another by now; with any other URL nothing is done. False:
 *  link->status and link->message say why they don't name one. */
bool link_follow(server_link *link, const server *where);
/** Has a question failed since another node of the cluster has the keys, so that link_follow leads on? */
bool link_leads_on(const server_link *link, const server *where);
/** Do they name this one still? True with any other URL. */
bool link_is_named(server_link *link, const server *where);
