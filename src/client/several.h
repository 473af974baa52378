/*
 * Questions to several independent servers: whether a majority can be reached, what it holds, and a lock's removal. The
 * calls of the public header, for a client of such servers; whoever calls them has checked what was given.
 */
#ifndef TL_SEVERAL_H
#define TL_SEVERAL_H

#include "client/client.h"
#include "protocol/ask.h"
#include "protocol/break.h"
#include "protocol/scan.h"

tl_err tl__several_ping(tl_client *client, tl_error *err);
/** ask: as tl__ask_init made it. */
tl_err tl__several_look(tl_client *client, const tl_ask *ask, tl_lock_info *ret, tl_error *err);
/** b: for each server. Of `seen` the value alone counts: each server draws its own fencing numbers. */
tl_err tl__several_break(tl_client *client, const tl_break *b, tl_error *err);
/** s: for each server. */
tl_err tl__several_scan(tl_client *client, const tl_scan *s, uint64_t *cursor, tl_error *err);

#endif
