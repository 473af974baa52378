/*
 * Counts what is exact on any machine: allocations and system calls of this process, and requests that
 * reach the server.
 */
#undef _FORTIFY_SOURCE /* its headers have functions of the same names */
#include "bench.h"

#include <dlfcn.h>
#include <poll.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <unistd.h>

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

/* ---- system calls ---------------------------------------------------------------------------- */

static atomic_bool counting_calls;
static atomic_ullong calls;

/* A function of this name stands before the C library's, counts, and goes on to that. */
#define COUNTED(type, name, parameters, arguments)                                                 \
    type name parameters {                                                                         \
        static _Atomic(uintptr_t) found;                                                           \
        uintptr_t next = atomic_load_explicit(&found, memory_order_relaxed);                       \
        if (!next) {                                                                               \
            next = (uintptr_t)dlsym(RTLD_NEXT, #name);                                             \
            atomic_store_explicit(&found, next, memory_order_relaxed);                             \
        }                                                                                          \
        if (atomic_load_explicit(&counting_calls, memory_order_relaxed))                           \
            atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);                            \
        return ((type(*) parameters)next)arguments;                                                \
    }

COUNTED(ssize_t, read, (int fd, void *to, size_t n), (fd, to, n))
COUNTED(ssize_t, write, (int fd, const void *from, size_t n), (fd, from, n))
COUNTED(ssize_t, readv, (int fd, const struct iovec *to, int n), (fd, to, n))
COUNTED(ssize_t, writev, (int fd, const struct iovec *from, int n), (fd, from, n))
COUNTED(ssize_t, recv, (int fd, void *to, size_t n, int flags), (fd, to, n, flags))
COUNTED(ssize_t, send, (int fd, const void *from, size_t n, int flags), (fd, from, n, flags))
COUNTED(ssize_t, recvmsg, (int fd, struct msghdr *to, int flags), (fd, to, flags))
COUNTED(ssize_t, sendmsg, (int fd, const struct msghdr *from, int flags), (fd, from, flags))
COUNTED(int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
COUNTED(int, ppoll,
        (struct pollfd * fds, nfds_t n, const struct timespec *limit, const sigset_t *mask),
        (fds, n, limit, mask))
COUNTED(int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms), (fd, events, n, ms))
COUNTED(int, epoll_ctl, (int fd, int what, int of, struct epoll_event *event),
        (fd, what, of, event))
COUNTED(int, timerfd_settime,
        (int fd, int flags, const struct itimerspec *to, struct itimerspec *before),
        (fd, flags, to, before))
COUNTED(int, eventfd_read, (int fd, eventfd_t *ret), (fd, ret))
COUNTED(int, eventfd_write, (int fd, eventfd_t value), (fd, value))

void system_calls_start(void) {
    atomic_store(&calls, 0);
    atomic_store(&counting_calls, true);
}

uint64_t system_calls_stop(void) {
    atomic_store(&counting_calls, false);
    return atomic_load(&calls);
}

/* ---- commands -------------------------------------------------------------------------------- */

static redisContext *monitor;
static real_redis *watched; /* NULL: the benchmark's own server */

static void watch(void) {
    redisReply *reply = redisCommand(monitor, "MONITOR");
    if (!reply || reply->type != REDIS_REPLY_STATUS)
        die("MONITOR: %s", reply ? reply->str : monitor->errstr);
    freeReplyObject(reply);
}

void commands_start(void) {
    watched = NULL;
    monitor = bench_connect_near();
    watch();
}

void commands_start_at(real_redis *r) {
    watched = r;
    monitor = real_redis_connect(r);
    watch();
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

#define OPERATIONS 200

double commands_each(const contender *c, void *ctx) {
    commands_start();
    for (int i = 0; i < OPERATIONS; i++)
        c->operation(ctx);
    return (double)commands_stop() / OPERATIONS;
}

uint64_t commands_stop(void) {
    uint64_t count = 0;
    bool in_transaction = false;
    static const char end[] = "ECHO end-of-the-count";
    freeReplyObject(watched ? real_redis_command(watched, end) : bench_ask(end));
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
