/*
 * The keeper's own connections to its nodes: to the first always, to the others of a fleet once they are needed. All with the
 * keeper's mutex held.
 */
#pragma once

#include "client/keeper.h"
#include "client/node.h"
#include "ground/wait.h"

/** The first node's link; make what it lacks. false: no memory. */
bool tl__keeper_make_first(tl_keeper *keeper);
/** The link of a node, made if need be; NULL: out of memory. */
tl_link *tl__keeper_link(tl_keeper *keeper, tl_node *node);
/** By which the node is asked; NULL: out of memory. */
tl_conn *tl__keeper_conn(tl_keeper *keeper, tl_node *node);

/* Of all but the first: */
unsigned tl__links_fds(const tl_keeper *keeper, struct pollfd *ret);
unsigned tl__links_count(const tl_keeper *keeper);
tl_mono tl__links_until(const tl_keeper *keeper);
void tl__links_drive(tl_keeper *keeper);
void tl__links_free(tl_keeper *keeper);

/** Other nodes may have the slots now: listen there. */
void tl__keeper_relocate(tl_keeper *keeper);
