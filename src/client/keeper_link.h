/*
 * The keeper's own connections to its nodes: always to the first, to the other nodes of a fleet once they are
 * needed. The keeper's mutex is held for all functions.
 */
#pragma once

#include "client/keeper.h"
#include "client/node.h"
#include "ground/wait.h"

/** Make what the first node's link lacks. false: no memory. */
bool tl__keeper_make_first(tl_keeper *keeper);
/** The link of a node, made if there is none; NULL: out of memory. */
tl_link *tl__keeper_link(tl_keeper *keeper, tl_node *node);
/** The connection for requests to the node; NULL: out of memory. */
tl_conn *tl__keeper_conn(tl_keeper *keeper, tl_node *node);

/* For all links but the first: */
unsigned tl__links_fds(const tl_keeper *keeper, struct pollfd *ret);
unsigned tl__links_count(const tl_keeper *keeper);
tl_mono tl__links_until(const tl_keeper *keeper);
void tl__links_drive(tl_keeper *keeper);
void tl__links_free(tl_keeper *keeper);

/** Other nodes may have the slots now: move each listener to the node of its key. */
void tl__keeper_relocate(tl_keeper *keeper);
