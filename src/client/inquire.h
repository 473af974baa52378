/*
 * One question, asked by a caller that blocks.
 */
#ifndef TL_INQUIRE_H
#define TL_INQUIRE_H

#include "client/client.h"

/** Run a machine that asks once: of a key, or at a node (NULL: the key's own, or the client's first). `state` begins with its
 *  tl_result. The machine's code, with "what: why" in err. */
tl_err tl__inquire(tl_client *client, tl_node *node, tl_bytes key, void *state, tl_step step,
                   const char *what, tl_error *err);

#endif
