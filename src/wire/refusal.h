/*
 * Turns a server's error into a message for people. Some errors repeat what the server received, or name the
 * user, and few say what to do: those get a text of our own.
 */
#pragma once

#include "ground/bytes.h"

#define TL_REFUSAL_SIZE 200 /**< room for the message */

/** The error without the arguments that the server repeats: one may be a token, which must not get into a
 *  log. */
tl_bytes tl__refusal_own(tl_bytes error);

/** Does the user lack a permission (NOPERM, and similar errors within a script)? */
bool tl__is_no_permission(tl_bytes error);

/** Write the message for an error into `to`; returns it, never empty. */
tl_bytes tl__refusal_message(char to[TL_REFUSAL_SIZE], tl_bytes error);

/** The message for a command that the user may not run; its name is written as in ACL rules. */
tl_bytes tl__refusal_of_command(char to[TL_REFUSAL_SIZE], tl_bytes command);
