/*
 * The keeper's own connections to the nodes of a fleet that has several: for renewals and for wake-ups. The first node's
 * are the keeper's members of these names, and not here: a client of one server has no link. All with the keeper's
 * mutex held.
 */
#ifndef TL_KEEPER_LINK_H
#define TL_KEEPER_LINK_H

#include "client/keeper.h"
#include "client/node.h"
#include "ground/wait.h"

typedef struct tl_link {
    tl_keeper *keeper;
    tl_node *node;
    tl_conn *conn;
    tl_wakeup *wakeup;
    tl_loss loss;
    tl_inbox inbox; /**< without a name of its own */
    struct tl_link *next;
} tl_link;

/** The link of a node, made if need be; NULL: the node is the first, or out of memory, which *ret_ok tells apart. */
tl_link *tl__keeper_link(tl_keeper *keeper, tl_node *node, bool *ret_ok);
/** By which the node is asked; NULL: out of memory. */
tl_conn *tl__keeper_conn(tl_keeper *keeper, tl_node *node);

unsigned tl__links_fds(const tl_keeper *keeper, struct pollfd *ret);
unsigned tl__links_count(const tl_keeper *keeper);
tl_mono tl__links_until(const tl_keeper *keeper);
void tl__links_drive(tl_keeper *keeper);
void tl__links_free(tl_keeper *keeper);

/** Other nodes may have the slots now: listen there. */
void tl__keeper_relocate(tl_keeper *keeper);

#endif
