/*
 * The Lua scripts that run in the server; their texts are src/wire/scripts/NAME.lua, where each
 * says what it takes and answers.
 */
#ifndef TL_SCRIPT_H
#define TL_SCRIPT_H

#include "ground/bytes.h"

typedef enum {
    TL_SCRIPT_BREAK,
    TL_SCRIPT_DROP,
    TL_SCRIPT_FREE,
    TL_SCRIPT_HOLD,
    TL_SCRIPT_KEEP,
    TL_SCRIPT_LOOK,
    TL_SCRIPT_PHASE,
    TL_SCRIPT_SCAN,
    TL_SCRIPT_TAKE,
    TL_SCRIPTS
} tl_script;

tl_bytes tl__script_name(tl_script script);
tl_bytes tl__script_text(tl_script script);
tl_bytes tl__script_sha1(tl_script script); /**< 40 hexadecimal digits */

#endif
