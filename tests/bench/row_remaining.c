/*
 * What costs nothing but memory and a clock reading: looking at a lock, feeding it, holding many, here and at the
 * server, and whether renewing them allocates.
 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "bench.h"

#define SLICE (20 * MS)
#define SLICES 4
#define BLOCK 1000
#define LOCKS 10000
#define TTL_MS 6000 /* renewed every third of it */
#define ROW "remaining"

/* ---- looking --------------------------------------------------------------------------------- */

static volatile int64_t sink; /* the results are used */

static uint64_t look(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    int64_t s = 0;
    (void)m;
    do {
        for (int i = 0; i < BLOCK; i++)
            s += tl_lock_remaining_ms(ctx);
        n += BLOCK;
    } while (now_ns() < until_ns);
    sink = s;
    return n;
}

static uint64_t feed(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)m;
    do {
        for (int i = 0; i < BLOCK; i++)
            tl_lock_alive(ctx);
        n += BLOCK;
    } while (now_ns() < until_ns);
    return n;
}

static uint64_t read_clock(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    struct timespec t = {0};
    int64_t s = 0;
    (void)ctx;
    (void)m;
    do {
        for (int i = 0; i < BLOCK; i++) {
            (void)clock_gettime(CLOCK_BOOTTIME, &t);
            s += t.tv_nsec;
        }
        n += BLOCK;
    } while (now_ns() < until_ns);
    sink = s;
    return n;
}

static void measure_look(regime r, tl_client *client) {
    static figures f[2];
    static const char key[] = "bench:look";
    double mine[ROUNDS_MAX], clock[ROUNDS_MAX];
    tl_error err;
    tl_lock *lock = tl_lock_new(client, key, sizeof key - 1, NULL, &err);
    if (!lock || tl_lock_acquire(lock, 0, &err))
        die("%s", err.message);
    const contender c[] = {{.ctx = lock, .run = look}, {.run = read_clock}};
    take_turns(c, 2, SLICE, SLICES, f);
    for (int i = 0; i < rounds; i++) {
        mine[i] = f[0].client_us[i] * 1000;
        clock[i] = f[1].client_us[i] * 1000;
    }
    report(&(label){ROW, "tl_lock_remaining_ms, beside clock_gettime", "ns CPU", r, "<= 30 ns"},
           mine, clock, rounds);
    tl_lock_free(lock);
}

static void measure_feed(regime r, tl_client *client) {
    static figures f[2];
    static const char key[] = "bench:feed";
    double fed[ROUNDS_MAX], looked[ROUNDS_MAX];
    const tl_lock_options options = TL_LOCK_OPTIONS(.stall_ms = TL_TTL_MAX_MS);
    tl_error err;
    tl_lock *lock = tl_lock_new(client, key, sizeof key - 1, &options, &err);
    if (!lock || tl_lock_acquire(lock, 0, &err))
        die("%s", err.message);
    const contender c[] = {{.ctx = lock, .run = feed}, {.ctx = lock, .run = look}};
    take_turns(c, 2, SLICE, SLICES, f);
    for (int i = 0; i < rounds; i++) {
        fed[i] = f[0].client_us[i] * 1000;
        looked[i] = f[1].client_us[i] * 1000;
    }
    report(&(label){ROW, "tl_lock_alive, beside tl_lock_remaining_ms", "ns CPU", r, "<= 40 ns"},
           fed, looked, rounds);
    tl_lock_free(lock);
}

/* ---- holding --------------------------------------------------------------------------------- */

static double heap(void) {
    struct mallinfo2 info = mallinfo2();
    return (double)info.uordblks + (double)info.hblkhd;
}

static void pause_ms(int64_t ms) {
    const struct timespec t = {.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000 * MS)};
    (void)nanosleep(&t, NULL);
}

static void hold_all(tl_client *client, tl_lock **locks) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_error err;
    for (int i = 0; i < LOCKS; i++) {
        char key[32];
        int n = snprintf(key, sizeof key, "bench:held:%05d", i);
        locks[i] = tl_lock_new(client, key, (size_t)n, &options, &err);
        if (!locks[i] || tl_lock_acquire(locks[i], 0, &err))
            die("%s", err.message);
    }
}

static void measure_held(regime r, tl_client *client) {
    tl_lock **locks = calloc(LOCKS, sizeof(tl_lock *));
    if (!locks)
        die("out of memory");
    double before = heap();
    hold_all(client, locks);
    report_one(&(label){ROW, "memory of a held lock, 16-byte key", "bytes", r, "<= 512"},
               (heap() - before) / LOCKS);
    pause_ms(TTL_MS / 3); /* each has been renewed once: all is warm */
    report_one(&(label){ROW, "... once each has been renewed", "bytes", r, "<= 512"},
               (heap() - before) / LOCKS);
    allocations_start();
    pause_ms(TTL_MS / 3);
    report_one(&(label){ROW, "allocations while 10,000 are renewed", "counted", r, "0"},
               (double)allocations_stop());
    int lost = 0;
    for (int i = 0; i < LOCKS; i++) {
        lost += tl_lock_state(locks[i]) != TL_HELD;
        tl_lock_free(locks[i]);
    }
    report_one(&(label){ROW, "locks lost meanwhile", "counted", r, "0"}, lost);
    free(locks);
}

/* ---- what they take at the server ------------------------------------------------------------ */

static double server_memory(void) {
    static const char name[] = "used_memory:";
    redisReply *info = bench_ask("INFO memory");
    const char *at = strstr(info->str, name);
    double bytes = at ? strtod(at + strlen(name), NULL) : 0;
    freeReplyObject(info);
    return bytes;
}

/* A key and a token as long as ours, and nothing else: whoever keeps a lock in a key needs as much. */
static double memory_of_keys(void) {
    redisContext *c = bench_connect();
    double before = server_memory();
    for (int i = 0; i < LOCKS; i++)
        redisAppendCommand(c, "SET bench:held:%05d 6f1c2d52-8a0b-4c57-9d3e-%012d NX PX 60000", i,
                           i);
    for (int i = 0; i < LOCKS; i++) {
        redisReply *reply = NULL;
        if (redisGetReply(c, (void **)&reply) != REDIS_OK || reply->type != REDIS_REPLY_STATUS)
            die("SET: %s", c->errstr);
        freeReplyObject(reply);
    }
    double bytes = (server_memory() - before) / LOCKS;
    redisFree(c);
    return bytes;
}

static void measure_server(regime r, double plain_bytes) {
    static const char *const words[] = {"server's memory of a held lock",
                                        "server's memory, once renewed",
                                        "server's memory, once released"};
    double used[3];
    tl_lock **locks = calloc(LOCKS, sizeof(tl_lock *));
    tl_client *client = bench_client();
    tl_error err;
    if (!locks)
        die("out of memory");
    double before = server_memory();
    hold_all(client, locks);
    used[0] = (server_memory() - before) / LOCKS;
    pause_ms(TTL_MS / 3);
    used[1] = (server_memory() - before) / LOCKS;
    for (int i = 0; i < LOCKS; i++) {
        if (tl_lock_release(locks[i], &err))
            die("%s", err.message);
        tl_lock_free(locks[i]);
    }
    used[2] = (server_memory() - before) / LOCKS;
    for (int i = 0; i < 3; i++) {
        label l = {ROW, words[i], "bytes", r, NULL};
        if (i < 2)
            report_three(&l, used[i], plain_bytes, plain_bytes);
        else
            report_one(&l, used[i]);
    }
    free(locks);
    tl_client_close(client);
    bench_flush();
}

void row_remaining(regime r) {
    tl_client *client = bench_client();
    measure_look(r, client);
    measure_feed(r, client);
    measure_held(r, client);
    tl_client_close(client);
    bench_flush();
    double bytes = memory_of_keys();
    bench_flush();
    measure_server(r, bytes);
}
