/*
 * What MONITOR tells, line by line: when the server executed a command, whose it was, and its first
 * words; and what the server says of how much it has in store for us. Pure; everything is bounded.
 */
#pragma once

#include "transport/conn.h" /* tl_bytes */

#define SKEW_CLIENT_SIZE 64
#define SKEW_WORD_SIZE 512
#define SKEW_WORDS 3 /* the command, the key, the value */

typedef enum {
    SKEW_BY_TCP,
    SKEW_BY_UNIX,  /**< all clients of the socket look alike */
    SKEW_BY_SCRIPT /**< within a script: nobody's own command */
} skew_by;

typedef struct {
    char bytes[SKEW_WORD_SIZE]; /**< as the server has them, any byte */
    size_t n;
    bool cut; /**< it is longer than there is room for */
} skew_word;

typedef struct {
    int64_t stamp_us; /**< the server's clock, rounded down */
    skew_by by;
    char client[SKEW_CLIENT_SIZE]; /**< BY_TCP: "10.0.0.5:40000", "[fe80::1]:40000" */
    char host[SKEW_CLIENT_SIZE];   /**< BY_TCP: the same without port and brackets */
    int words;                     /**< of those kept; more than SKEW_WORDS are not looked at */
    skew_word word[SKEW_WORDS];
} skew_heard;

/** Read a line without its '+' and its end. False: it is none of MONITOR's, or tells no address
 *  (servers before 2.6); then *ret means nothing. */
bool skew_monitor_read(tl_bytes line, skew_heard *ret);

/** Is the command this one? Case doesn't matter; `name` is in lower case. */
bool skew_heard_is(const skew_heard *heard, const char *name);

/** Out of CLIENT LIST: how many bytes the server keeps for the client with this id, or, with id 0, at
 *  most for any that monitors. 0 when there is none. */
int64_t skew_monitor_backlog(tl_bytes list, int64_t id);
