/*
 * The Lua scripts that run on the server. Their texts are src/wire/scripts/NAME.lua and
 * compat/scripts/NAME.lua; the head of each lists its arguments and replies.
 */
#pragma once

#include "ground/bytes.h"

/** TL_SCRIPT_ACQUIRE and so on, one for each file; those of ../compat come last. */
typedef enum {
#define TL_SCRIPT_ROW(upper, name, text, sha1) TL_SCRIPT_##upper,
#include "scripts.inc"
#undef TL_SCRIPT_ROW
    TL_SCRIPTS
} tl_script;

tl_bytes tl__script_name(tl_script script);
tl_bytes tl__script_text(tl_script script);
tl_bytes tl__script_sha1(tl_script script); /**< 40 hexadecimal digits */
