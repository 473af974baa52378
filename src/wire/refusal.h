/*
 * What a server's error says to a person. Some errors repeat what the server was sent, or name the
 * user, and few say what to do: those are told in words of our own.
 */
#pragma once

#include "ground/bytes.h"

#define TL_REFUSAL_SIZE 200 /**< room for the words */

/** What of an error is no argument that the server repeats, a token perhaps: such are not for a log. */
tl_bytes tl__refusal_own(tl_bytes error);

/** Is a permission of the user what is missing (NOPERM, and its like within a script)? */
bool tl__is_no_permission(tl_bytes error);

/** Write the words for an error into `to`; returns them, never empty. */
tl_bytes tl__refusal_message(char to[TL_REFUSAL_SIZE], tl_bytes error);

/** The message for a command that the user may not run: its name as ACL rules have it. */
tl_bytes tl__refusal_of_command(char to[TL_REFUSAL_SIZE], tl_bytes command);
