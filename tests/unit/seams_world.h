/*
 * A small world in place of the system: all eight modules of src/ground that ask it for something, defined
 * anew. Threads are coroutines that one thread of the system runs, switched at each lock, wait, receive,
 * send and yield, in an order drawn from a seed; the clock moves when all of them wait; a socket ends at a fake
 * server in memory. So a run is the same wherever and whenever it is repeated.
 *
 * For one test program, which includes it once.
 */
#pragma once

#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "fake_resp.h"
#include "fiber.h"
#include "ground/cancel.h"
#include "ground/names.h"
#include "ground/process.h"
#include "ground/random.h"
#include "ground/socket.h"
#include "ground/thread.h"
#include "ground/vmclock.h"
#include "ground/wait.h"

#define THREADS_MAX 8
#define FDS_MAX 32
#define FD_FIRST 1000 /* no descriptor of the system's */
#ifndef LATENCY_NS
#define LATENCY_NS TL_NS_PER_MS
#endif
#define LOOKUP_MS 20
#define YIELD_NS 1000
#define EPOCH_US INT64_C(1800000000000000)

typedef struct coroutine {
    fiber fiber;
    void *(*work)(void *ctx);
    void *ctx;
    bool used, over, detached;
    /* What it waits for: ready says whether that is so; NULL: it only lets others go first. */
    bool (*ready)(const struct coroutine *me);
    const void *what;
    const struct pollfd *fds;
    unsigned fd_count;
    bool woken;
    tl_mono by;
} coroutine;

typedef enum { CLOSED, WAKE, TIMER, SOCKET, GATHER } fd_kind;

typedef struct {
    fd_kind kind;
    bool posted;     /* WAKE */
    tl_mono at;      /* TIMER: readable; SOCKET: connected, then when what is in `in` has arrived */
    int gather;      /* it has been added to this one; 0: to none */
    fake_conn *conn; /* SOCKET */
    fake_buffer in, out;
} descriptor;

static struct {
    uint64_t order, luck; /* generators: who runs next; the random bytes */
    uint64_t trace;       /* of who ran when */
    tl_mono now;
    coroutine thread[THREADS_MAX];
    coroutine *running;
    descriptor fd[FDS_MAX];
    fake_redis *redis;
    bool silent;      /* the server takes no notice any more */
    bool serving;     /* what runs is the world's own, and the server's */
    int64_t ahead_us; /* the server's clock, of ours */
    unsigned started, switches;
    tl_mono sent;                            /* when something was sent last */
    tl_mono asked;                           /* a script came then, */
    unsigned scripts, at_once, most_at_once; /* of them all; of those at that moment; and at any */
} world;

/* Of the world itself: it may be called on any stack, so it doesn't return to the test. */
__attribute__((noreturn)) static void world_broke(const char *what) {
    (void)fprintf(stderr, "the world broke at %lld ns: %s\n", (long long)world.now.ns, what);
    abort();
}

static uint64_t draw(uint64_t *generator) {
    *generator ^= *generator << 13;
    *generator ^= *generator >> 7;
    *generator ^= *generator << 17;
    return *generator;
}

/* ---- who runs ---------------------------------------------------------------------------------- */

static descriptor *descriptor_of(int fd) {
    if (fd < FD_FIRST || fd >= FD_FIRST + FDS_MAX || world.fd[fd - FD_FIRST].kind == CLOSED)
        world_broke("that is no descriptor");
    return &world.fd[fd - FD_FIRST];
}

static bool is_past(tl_mono t) {
    return !tl__mono_before(world.now, t);
}

static bool is_readable(const descriptor *d) {
    return d->kind == WAKE ? d->posted : is_past(d->at) && (d->kind == TIMER || d->in.n > 0);
}

/* The next of those that a gather stands for, after `at`, or itself alone if it is none; NULL: that was the last. */
static const descriptor *next_of(const descriptor *d, const descriptor *at) {
    int fd = FD_FIRST + (int)(d - world.fd);
    if (d->kind != GATHER)
        return at ? NULL : d;
    for (at = at ? at + 1 : world.fd; at < world.fd + FDS_MAX; at++)
        if (at->kind != CLOSED && at->gather == fd)
            return at;
    return NULL;
}

static short events_of(const struct pollfd *p) {
    if (p->fd < 0)
        return 0;
    const descriptor *d = descriptor_of(p->fd);
    bool in = false;
    for (const descriptor *at = NULL; (at = next_of(d, at));)
        in = in || is_readable(at);
    bool out = d->kind == SOCKET && is_past(d->at);
    return (short)(p->events & ((in ? POLLIN : 0) | (out ? POLLOUT : 0)));
}

static bool may_run(const coroutine *c) {
    return c->used && !c->over && (!c->ready || c->ready(c) || is_past(c->by));
}

/* When it may run, unless somebody else does something before. */
static tl_mono runs_at(const coroutine *c) {
    tl_mono at = c->used && !c->over ? c->by : TL_NEVER;
    for (unsigned i = 0; c->used && !c->over && c->ready && i < c->fd_count; i++) {
        const descriptor *d = c->fds[i].fd >= 0 ? descriptor_of(c->fds[i].fd) : NULL;
        for (const descriptor *one = NULL; d && (one = next_of(d, one));)
            if (!is_past(one->at))
                at = tl__mono_min(at, one->at);
    }
    return at;
}

static void let_time_pass(void) {
    tl_mono next = TL_NEVER;
    for (int i = 0; i < THREADS_MAX; i++)
        next = tl__mono_min(next, runs_at(&world.thread[i]));
    if (next.ns == INT64_MAX)
        world_broke("everybody waits for ever");
    world.now = tl__mono_max(world.now, next);
}

static coroutine *choose(void) {
    coroutine *may[THREADS_MAX];
    unsigned n = 0;
    while (n == 0) {
        for (int i = 0; i < THREADS_MAX; i++)
            if (may_run(&world.thread[i]))
                may[n++] = &world.thread[i];
        if (n == 0)
            let_time_pass();
    }
    return may[draw(&world.order) % n];
}

static void switch_over(void) {
    coroutine *me = world.running, *next = choose();
    world.trace = (world.trace ^ (uint64_t)(next - world.thread) ^ (uint64_t)world.now.ns) *
                  1099511628211U;
    world.running = next;
    world.switches += next != me;
    if (next == me)
        return;
    fiber_switch(&me->fiber, &next->fiber);
}

/* Others may run, and must until it is ready or `by` has come. */
static void block(bool (*ready)(const coroutine *me), const void *what, tl_mono by) {
    coroutine *me = world.running;
    me->ready = ready;
    me->what = what;
    me->by = by;
    switch_over();
    me->ready = NULL;
}

static void let_others_run(void) {
    block(NULL, NULL, TL_NEVER);
}

/* ---- clock, process, random -------------------------------------------------------------------- */

tl_mono tl__mono_now(void) {
    return world.now;
}

tl_wall tl__wall_now(void) {
    return (tl_wall){EPOCH_US + world.now.ns / 1000};
}

struct timespec tl__monotonic_in(int64_t ns) {
    (void)ns;
    world_broke("only the system's conditions need that");
}

tl_process tl__process_this(void) {
    return (tl_process){.host = "small-world", .pid = 7, .program = "inhabitant"};
}

const volatile unsigned char *tl__process_mark(void) {
    static const unsigned char mark = 1;
    return &mark;
}

void tl__process_unmark(const volatile unsigned char *mark) {
    (void)mark;
}

const tl_vmclock *tl__vmclock_open(const char *path, const char **ret_why) {
    (void)path;
    *ret_why = "there is none";
    return NULL;
}

void tl__vmclock_close(const tl_vmclock *page) {
    (void)page;
}

tl_vmclock_view tl__vmclock_read(const tl_vmclock *page) {
    (void)page;
    world_broke("there is no VMClock");
}

void tl__random_bytes(void *to, size_t n) {
    for (size_t i = 0; i < n; i++)
        ((unsigned char *)to)[i] = (unsigned char)(draw(&world.luck) >> 24);
}

/* ---- threads ----------------------------------------------------------------------------------- */

static void run_coroutine(void) {
    coroutine *me = world.running;
    (void)me->work(me->ctx);
    me->over = true;
    me->used = !me->detached;
    switch_over();
}

int tl__thread_start(void *(*work)(void *), void *ctx, tl_thread *ret_thread) {
    coroutine *c = world.thread;
    while (c < world.thread + THREADS_MAX && c->used)
        c++;
    if (c == world.thread + THREADS_MAX)
        return EAGAIN;
    fiber stack = c->fiber.stack ? c->fiber : fiber_spare();
    *c = (coroutine){.fiber = stack, .work = work, .ctx = ctx, .used = true, .by = TL_NEVER};
    c->detached = !ret_thread;
    fiber_begin(&c->fiber, run_coroutine);
    if (ret_thread)
        ret_thread->system = (pthread_t)(uintptr_t)(c - world.thread);
    world.started++;
    let_others_run();
    return 0;
}

static bool has_ended(const coroutine *me) {
    return ((const coroutine *)me->what)->over;
}

void tl__thread_join(tl_thread thread) {
    coroutine *c = &world.thread[(uintptr_t)thread.system];
    while (!c->over)
        block(has_ended, c, TL_NEVER);
    c->used = false;
}

void tl__thread_detach(tl_thread thread) {
    coroutine *c = &world.thread[(uintptr_t)thread.system];
    c->detached = true;
    c->used = !c->over;
}

tl_thread tl__thread_self(void) {
    return (tl_thread){(pthread_t)(uintptr_t)(world.running - world.thread)};
}

bool tl__thread_is_self(tl_thread thread) {
    return &world.thread[(uintptr_t)thread.system] == world.running;
}

void tl__thread_yield(void) {
    world.now = tl__mono_add_ns(world.now, YIELD_NS);
    let_others_run();
}

unsigned tl__thread_count(void) {
    unsigned n = 0;
    for (int i = 0; i < THREADS_MAX; i++)
        n += world.thread[i].used && !world.thread[i].over;
    return n;
}

int tl__cancel_off(void) {
    return 0; /* nobody is cancelled here */
}

void tl__cancel_back(const int *was) {
    (void)was;
}

void tl__cancel_guard(void (*work)(void *ctx), void (*undo)(void *ctx), void *ctx) {
    (void)undo;
    work(ctx);
}

/* The first byte of a mutex says whether it is held. */
void tl__mutex_init(tl_mutex *mutex) {
    memset(mutex, 0, sizeof *mutex);
}

void tl__mutex_end(tl_mutex *mutex) {
    if (*(unsigned char *)mutex)
        world_broke("a mutex ends while it is held");
}

static bool is_free(const coroutine *me) {
    return *(const unsigned char *)me->what == 0;
}

void tl__mutex_lock(tl_mutex *mutex) {
    let_others_run();
    while (*(unsigned char *)mutex)
        block(is_free, mutex, TL_NEVER);
    *(unsigned char *)mutex = 1;
}

bool tl__mutex_try(tl_mutex *mutex) {
    let_others_run();
    bool free = !*(unsigned char *)mutex;
    *(unsigned char *)mutex = 1;
    return free;
}

void tl__mutex_unlock(tl_mutex *mutex) {
    if (!*(unsigned char *)mutex)
        world_broke("a mutex is let go that nobody holds");
    *(unsigned char *)mutex = 0;
}

void tl__cond_init(tl_cond *cond) {
    memset(cond, 0, sizeof *cond);
}

void tl__cond_end(tl_cond *cond) {
    (void)cond;
}

static bool is_woken(const coroutine *me) {
    return me->woken;
}

bool tl__cond_wait_by(tl_cond *cond, tl_mutex *mutex, tl_mono by) {
    if (is_past(by))
        return false;
    tl__mutex_unlock(mutex);
    world.running->woken = false;
    block(is_woken, cond, by);
    tl__mutex_lock(mutex);
    return true;
}

void tl__cond_wait(tl_cond *cond, tl_mutex *mutex) {
    (void)tl__cond_wait_by(cond, mutex, TL_NEVER);
}

static void wake(const tl_cond *cond, unsigned most) {
    for (unsigned i = 0; i < THREADS_MAX && most > 0; i++) {
        coroutine *c = &world.thread[i];
        if (c->used && !c->over && c->ready == is_woken && c->what == cond && !c->woken) {
            c->woken = true;
            most--;
        }
    }
}

void tl__cond_wake(tl_cond *cond) {
    wake(cond, 1);
}

void tl__cond_wake_all(tl_cond *cond) {
    wake(cond, THREADS_MAX);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

static int open_descriptor(fd_kind kind) {
    for (int i = 0; i < FDS_MAX; i++)
        if (world.fd[i].kind == CLOSED) {
            world.fd[i] = (descriptor){.kind = kind, .at = TL_NEVER};
            return FD_FIRST + i;
        }
    errno = EMFILE;
    return -1;
}

static bool has_event(const coroutine *me) {
    bool has = false;
    for (unsigned i = 0; i < me->fd_count; i++)
        has = has || events_of(&me->fds[i]) != 0;
    return has;
}

void tl__wait(struct pollfd *fds, unsigned count, tl_mono until) {
    coroutine *me = world.running;
    me->fds = fds;
    me->fd_count = count;
    block(has_event, NULL, until);
    me->fd_count = 0;
    for (unsigned i = 0; i < count; i++)
        fds[i].revents = events_of(&fds[i]);
}

int tl__wake_open(void) {
    return open_descriptor(WAKE);
}

int tl__timer_open(void) {
    return open_descriptor(TIMER);
}

int tl__gather_open(void) {
    return open_descriptor(GATHER);
}

bool tl__gather_add(int gather, int fd) {
    descriptor_of(fd)->gather = gather;
    return true;
}

void tl__gather_drop(int gather, int fd) {
    if (descriptor_of(fd)->gather != gather)
        world_broke("that was not added");
    descriptor_of(fd)->gather = 0;
}

static void close_descriptor(descriptor *d) {
    if (d->gather)
        world_broke("closed before it was dropped");
    d->kind = CLOSED;
}

void tl__wake_close(int fd) {
    close_descriptor(descriptor_of(fd));
}

void tl__wake_post(int fd) {
    descriptor_of(fd)->posted = true;
}

void tl__timer_set(int fd, tl_mono at) {
    descriptor_of(fd)->at = at;
}

void tl__wake_clear(int fd) {
    descriptor *d = descriptor_of(fd);
    d->posted = false;
    if (is_past(d->at))
        d->at = TL_NEVER;
}

/* ---- names, sockets and what is behind them ------------------------------------------------------ */

static bool never(const coroutine *me) {
    (void)me;
    return false;
}

static void world_sleep_until(tl_mono at) {
    block(never, NULL, at);
}

static void world_sleep_ms(int64_t ms) {
    world_sleep_until(tl__mono_add_ms(world.now, ms));
}

int tl__names_ask(const char *host, const char *service, const struct addrinfo *hints,
                  struct addrinfo **ret) {
    struct {
        struct addrinfo info;
        struct sockaddr_in at;
    } * answer;
    (void)service;
    if (hints->ai_flags & AI_NUMERICHOST)
        return EAI_NONAME;
    world_sleep_ms(LOOKUP_MS);
    answer = strcmp(host, "server.world") == 0 ? calloc(1, sizeof *answer) : NULL;
    if (!answer)
        return EAI_NONAME;
    answer->at.sin_family = AF_INET;
    answer->info.ai_addr = (struct sockaddr *)&answer->at;
    answer->info.ai_addrlen = sizeof answer->at;
    *ret = &answer->info;
    return 0;
}

void tl__names_free(struct addrinfo *list) {
    free(list);
}

static void arrive(descriptor *d, const tl_reply *reply) {
    fake_resp_write(&d->in, reply);
    d->at = tl__mono_add_ns(world.now, LATENCY_NS);
}

static void on_push(void *ctx, const tl_reply *reply) {
    arrive(ctx, reply);
}

int tl__socket_connect(const tl_address *to, int *ret_fd) {
    (void)to;
    *ret_fd = open_descriptor(SOCKET);
    if (*ret_fd < 0)
        return errno;
    descriptor *d = descriptor_of(*ret_fd);
    world.serving = true;
    d->conn = fake_redis_connect(world.redis, &(fake_calls){.push = on_push}, d);
    world.serving = false;
    d->at = tl__mono_add_ns(world.now, LATENCY_NS);
    return EINPROGRESS;
}

int tl__socket_connected(int fd) {
    return is_past(descriptor_of(fd)->at) ? 0 : EINPROGRESS;
}

ssize_t tl__socket_receive(int fd, char *to, size_t room) {
    let_others_run();
    descriptor *d = descriptor_of(fd);
    size_t n = d->in.n < room ? d->in.n : room;
    if (n == 0 || !is_past(d->at)) {
        errno = EAGAIN;
        return -1;
    }
    memcpy(to, d->in.p, n);
    fake_buffer_cut(&d->in, n);
    return (ssize_t)n;
}

static void count_script(tl_bytes command) {
    if (!tl__bytes_eq(command, TL_LITERAL("EVALSHA")))
        return;
    world.at_once = world.asked.ns == world.now.ns ? world.at_once + 1 : 1;
    world.asked = world.now;
    world.scripts++;
    if (world.most_at_once < world.at_once)
        world.most_at_once = world.at_once;
}

static void execute(descriptor *d) {
    static tl_bytes argv[FAKE_RESP_ARGS_MAX];
    size_t argc, used;
    fake_redis_set_time(world.redis, tl__wall_now().us + world.ahead_us);
    while (fake_resp_read(tl__bytes(d->out.p, d->out.n), argv, &argc, &used) == FAKE_RESP_READY) {
        count_script(argv[0]);
        const tl_reply *reply = fake_conn_command(d->conn, argv, argc);
        if (reply)
            arrive(d, reply);
        fake_buffer_cut(&d->out, used);
    }
}

ssize_t tl__socket_send(int fd, const char *from, size_t n) {
    let_others_run();
    descriptor *d = descriptor_of(fd);
    world.serving = true;
    world.sent = world.now;
    if (!world.silent) {
        fake_buffer_add(&d->out, from, n);
        execute(d);
    }
    world.serving = false;
    return (ssize_t)n;
}

void tl__socket_shut(int fd) {
    descriptor_of(fd)->at = world.now; /* nothing here leads elsewhere */
}

void tl__socket_close(int fd) {
    descriptor *d = descriptor_of(fd);
    world.serving = true;
    fake_conn_close(d->conn);
    fake_buffer_free(&d->in);
    fake_buffer_free(&d->out);
    world.serving = false;
    close_descriptor(d);
}

/* ---- its beginning and end ----------------------------------------------------------------------- */

static void world_begin(uint64_t seed) {
    memset(&world, 0, sizeof world);
    world.order = seed * 2654435761U + 1;
    world.luck = world.order ^ 0x9e3779b97f4a7c15U;
    world.now = (tl_mono){1000000000};
    world.thread[0].used = true;
    world.running = &world.thread[0];
    world.redis = fake_redis_new();
}

/* What the library has left: threads that haven't been joined or ended, and descriptors. */
static unsigned world_left(void) {
    unsigned n = 0;
    for (int i = 1; i < THREADS_MAX; i++)
        n += world.thread[i].used;
    for (int i = 0; i < FDS_MAX; i++)
        n += world.fd[i].kind != CLOSED;
    return n;
}

static void world_end(void) {
    fake_redis_free(world.redis);
    fibers_free();
}
