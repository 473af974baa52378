/*
 * The connection to the server that the URL means: itself, or the master that its Sentinels name.
 */
#ifndef TIDELOCK_LINK_OPEN_H
#define TIDELOCK_LINK_OPEN_H

#include "link/sentinels.h"

/** Does not connect; asks Sentinels for the master, if it is they whom the URL names. Returns 0, or the exit status
 *  after a message. */
int link_open(skew_link *l, const server *s);
/** The same without a message: l->words is it. */
int link_open_quietly(skew_link *l, const server *s);
/** Of a URL of Sentinels: ask all of them. `ret` is what they said; without a sure master it returns 0 and l->conn is
 *  NULL. */
int link_open_by(skew_link *l, const server *s, sentinels *ret);

/** Go on with another if the Sentinels name another by now; with any other URL nothing is done. False: l->status and
 *  l->words say why they don't name one. */
bool link_follow(skew_link *l, const server *s);
/** Do they name this one still? True with any other URL. */
bool link_is_named(skew_link *l, const server *s);

#endif
