/*
 * The connection to the server that a URL means. That is the named server, or the master that Sentinels
 * name, or in a cluster the node with the slot in which agents publish (SKEW_INDEX_KEY).
 */
#pragma once

#include "link/seeds.h"
#include "link/sentinels.h"

/** Does the URL name servers that must first be asked for the right one (Sentinels, nodes of a cluster)? */
bool link_is_led(const server *where);

/** Open a link without connecting it. If the URL names Sentinels or nodes of a cluster, it asks these
 *  first, each question for 5 s at most. Returns 0, or the exit status after a message. */
int link_open(server_link *link, const server *where);
/** The same, but it prints no message: link->message has it. */
int link_open_quietly(server_link *link, const server *where);
/** For a URL of Sentinels: ask all of them; `ret` has their replies. Without a sure master it returns 0,
 *  and link->conn is NULL. */
int link_open_by(server_link *link, const server *where, sentinels *ret);

/** For a URL of Sentinels: the replicas of its master. Returns 0, or the exit status, with the message in
 *  link. */
int link_replicas(server_link *link, const server *where, sentinel_replicas *ret);

/** For a URL of several servers: their login (ret_login refers to ret_own) and their addresses. Wipe
 *  ret_login and ret_own->secret. Returns 0, or the exit status, with the message in link. */
int link_places(server_link *link, const server *where, tl_endpoint *ret_login, link_login *ret_own,
                tl_seeds *ret_seeds);

/** Turn the link to the server that the Sentinels or the cluster's nodes name now; with any other URL do
 *  nothing. False: link->status and link->message say why they name none. */
bool link_follow(server_link *link, const server *where);
/** Did a question fail since another node of the cluster has the keys? Then link_follow leads there. */
bool link_leads_on(const server_link *link, const server *where);
/** Do the Sentinels still name this server? True with any other URL. */
bool link_is_named(server_link *link, const server *where);
