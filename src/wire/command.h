/*
 * A command as a machine builds it, and its bytes in RESP, the protocol of Redis.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/bytes.h"
#include "wire/script.h"

#define TL_ARGV_MAX 17
#define TL_COMMANDS_MAX 6  /**< written together, in one request, at most */
#define TL_COMMANDS_BOTH 8 /**< with the commands of a second form of the request */

typedef struct {
    enum {
        TL_ARGV,  /**< argv is the whole command */
        TL_SCRIPT /**< argv is the keys, then the arguments, of `script` */
    } form;
    uint8_t script; /**< a tl_script */
    uint8_t argc;
    /** The arguments of each lock, for a script that handles many locks at once; they follow the `head`
     *  common ones and precede the last TL_JOIN_TAIL. 0: no such script */
    uint8_t each;
    uint8_t head;
    uint16_t nkeys;
    uint16_t more_argc;
    uint32_t alike; /**< each > 0: requests are combined only if this is the same */
    /** With `each`: after TIME the reply lists the locks that failed, by indices from 1 (0: all), instead of
     *  an item for each lock */
    bool exceptions;
    tl_bytes argv[TL_ARGV_MAX];
    tl_bytes more; /**< more_argc further arguments, already encoded */
} tl_command;

#define TL_JOIN_TAIL 2

/** Encode one argument; returns the bytes needed, and writes only if they fit. */
size_t tl__argument_encode(tl_bytes argument, char *to, size_t size);

/** Encode as RESP into `to`; by_text sends a script as EVAL with its text instead of EVALSHA. Returns the
 *  bytes needed, and writes only if they fit in `size`. */
size_t tl__command_encode(const tl_command *command, int by_text, char *to, size_t size);
