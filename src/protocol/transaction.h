/*
 * A transaction over two exchanges, for servers that run no scripts. The first has WATCH, the reads, and MULTI
 * at its end; the second the writes and EXEC. The caller judges in between what was read.
 *
 * MULTI is sent with the reads, and its reply is awaited: if MULTI were refused, writes sent behind it would be
 * executed at once.
 */
#pragma once

#include "protocol/attempt.h"

/** Both exchanges need the same connection: on another one nothing would be watched. */
extern const tl_pin tl__pin_opens, tl__pin_closes;

/** Add a command to the send; the caller may add more words. key.n 0: none. */
tl_command *tl__say(tl_send *send, const char *name, tl_bytes key);

/** The first reply that is an error; NULL: none. */
const tl_reply *tl__first_error(const tl_reply *replies, size_t count);
