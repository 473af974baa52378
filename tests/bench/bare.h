/*
 * The baseline: what a program does that uses hiredis as its manual shows. SET with a token, NX and
 * PX, then a script that compares and deletes; one blocking connection.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdbool.h>

typedef struct bare bare;

/** Connects by the way of the regime. The key is copied. */
bare *bare_open(const char *key);
/** The same over a connection to any server, which is given away. */
bare *bare_open_on(redisContext *c, const char *key);
void bare_close(bare *b);
/** A contender's open and operation: ctx is the key, then the bare. It acquires and releases; ends the program when
 *  either fails. */
void *bare_begin(void *key);
void bare_pair(void *ctx);
bool bare_take(bare *b); /**< ask once; false: another has it */
void bare_drop(bare *b); /**< what was taken */
