/*
 * A command as a machine builds it, and its bytes on the wire of Redis.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ground/bytes.h"
#include "wire/script.h"

#define TL_ARGV_MAX 16
#define TL_COMMANDS_MAX 6  /**< written together, in one request */
#define TL_COMMANDS_BOTH 8 /**< in a request with another form */

typedef struct {
    enum {
        TL_ARGV,  /**< argv is the whole command */
        TL_SCRIPT /**< argv is the keys, then the arguments, of `script` */
    } form;
    uint8_t script; /**< a tl_script */
    uint8_t argc;
    uint8_t
        each; /**< a script that does many locks at once: how many arguments each lock has, behind
                       `head` of the whole and before TL_JOIN_TAIL; 0: it isn't one */
    uint8_t head;
    uint16_t nkeys;
    uint16_t more_argc;
    uint32_t alike;  /**< each > 0: it is only for locks that have this in common */
    bool exceptions; /**< each > 0: behind TIME the answer has the numbers of those that it isn't
                          well with (0: of all), from 1; not an item for each */
    tl_bytes argv[TL_ARGV_MAX];
    tl_bytes more; /**< more_argc arguments behind those in argv, in their encoded form */
} tl_command;

#define TL_JOIN_TAIL 2

/** The encoded form of one argument; returns the bytes needed, and writes only if they fit. */
size_t tl__argument_encode(tl_bytes argument, char *to, size_t size);

/** Encode as RESP into `to`; by_text sends a script as EVAL with its text instead of EVALSHA.
 *  Returns the bytes needed, and writes only if they fit in `size`. */
size_t tl__command_encode(const tl_command *command, int by_text, char *to, size_t size);
