/*
 * Counts what is exact on any machine: allocations of this process, and requests that reach the
 * server.
 */
#include "bench.h"

#include <stdatomic.h>
#include <string.h>

/* ---- allocations ----------------------------------------------------------------------------- */

/* The C library's own, by the names under which it lets a program put itself before them. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t n);

static atomic_bool counting;
static atomic_ullong allocations;

static void note(void) {
    if (atomic_load_explicit(&counting, memory_order_relaxed))
        atomic_fetch_add_explicit(&allocations, 1, memory_order_relaxed);
}

void *malloc(size_t n) {
    note();
    return __libc_malloc(n);
}

void *calloc(size_t count, size_t size) {
    note();
    return __libc_calloc(count, size);
}

void *realloc(void *p, size_t n) {
    note();
    return __libc_realloc(p, n);
}

void allocations_start(void) {
    atomic_store(&allocations, 0);
    atomic_store(&counting, true);
}

uint64_t allocations_stop(void) {
    atomic_store(&counting, false);
    return atomic_load(&allocations);
}

/* ---- commands -------------------------------------------------------------------------------- */

static redisContext *monitor;

void commands_start(void) {
    monitor = bench_connect_near();
    redisReply *reply = redisCommand(monitor, "MONITOR");
    if (!reply || reply->type != REDIS_REPLY_STATUS)
        die("MONITOR: %s", reply ? reply->str : monitor->errstr);
    freeReplyObject(reply);
}

/* Does this line end a request? A line is: time [db address] "command" ... and a script's address is
 * "lua". A transaction comes in one piece, and EXEC is shown behind what it executes. */
static bool ends_request(const char *line, bool *in_transaction) {
    const char *place = strchr(line, '[');
    const char *command = place ? strstr(place, "] \"") : NULL;
    if (!command || strncmp(command - 4, " lua", 4) == 0)
        return false;
    command += 3;
    if (strncasecmp(command, "MULTI\"", 6) == 0)
        *in_transaction = true;
    else if (strncasecmp(command, "EXEC\"", 5) == 0 || strncasecmp(command, "DISCARD\"", 8) == 0)
        *in_transaction = false;
    return !*in_transaction;
}

uint64_t commands_stop(void) {
    uint64_t count = 0;
    bool in_transaction = false;
    freeReplyObject(bench_ask("ECHO end-of-the-count"));
    for (bool more = true; more;) {
        redisReply *line = NULL;
        if (redisGetReply(monitor, (void **)&line) != REDIS_OK)
            die("MONITOR: %s", monitor->errstr);
        more = !strstr(line->str, "end-of-the-count");
        count += more && ends_request(line->str, &in_transaction);
        freeReplyObject(line);
    }
    redisFree(monitor);
    monitor = NULL;
    return count;
}
