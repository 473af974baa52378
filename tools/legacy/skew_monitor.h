/*
 * Reads MONITOR line by line: when the server executed a command, from which client, and its first
 * words. Also reads how much the server buffers for us. Pure; everything is bounded.
 */
#pragma once

#include "transport/conn.h" /* tl_bytes */

#define SKEW_CLIENT_SIZE 64
#define SKEW_WORD_SIZE 512
#define SKEW_WORDS 3 /* the command, the key, the value */

typedef enum {
    SKEW_BY_TCP,
    SKEW_BY_UNIX,  /**< the socket's clients can't be distinguished */
    SKEW_BY_SCRIPT /**< within a script: not a client's own command */
} skew_by;

typedef struct {
    char bytes[SKEW_WORD_SIZE]; /**< the server's bytes; any byte is possible */
    size_t n;
    bool cut; /**< it did not fit */
} skew_word;

typedef struct {
    int64_t stamp_us; /**< the server's clock, rounded down */
    skew_by by;
    char client[SKEW_CLIENT_SIZE]; /**< BY_TCP: "10.0.0.5:40000", "[fe80::1]:40000" */
    char host[SKEW_CLIENT_SIZE];   /**< BY_TCP: the same without port and brackets */
    int words;                     /**< number of words kept; words beyond SKEW_WORDS are ignored */
    skew_word word[SKEW_WORDS];
} skew_heard;

/** Read a line without its '+' and its line end. False: it is not a line of MONITOR, or has no
 *  address (servers before 2.6); then *ret means nothing. */
bool skew_monitor_read(tl_bytes line, skew_heard *ret);

/** Is the command this one? Case doesn't matter; `name` is in lower case. */
bool skew_heard_is(const skew_heard *heard, const char *name);

/** Read from CLIENT LIST how many bytes the server buffers for the client with this ID; with id 0,
 *  the most that it buffers for any client in MONITOR. 0: there is none. */
int64_t skew_monitor_backlog(tl_bytes list, int64_t id);
