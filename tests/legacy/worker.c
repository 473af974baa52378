/*
 * A worker of our own in a process of its own: it locks by the public API, tells the referee, works,
 * tells again, releases; again and again. It must not count on the lock when nothing remains.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "legacy.h"

#define POLL_MS 20
#define WAIT_MS 200
#define PAUSE_MS 10
#define PAUSE_SPAN_MS 40
#define HOLD_MS 5
#define HOLD_SPAN_MS 15
#define LONG_ONE_IN 8
#define LONG_HOLD_MS 600 /* longer than what is left before a renewal */
#define STILL_US 50000

typedef struct {
    tl_lock *lock;
    unsigned seed;
    int64_t told_us;
    bool stops;
} worker;

static void nap(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

static int64_t draw(worker *w, int64_t span) {
    return rand_r(&w->seed) % span;
}

static void wait_for_ok(worker *w) {
    char line[16];
    do {
        if (!fgets(line, sizeof line, stdin))
            exit(1);
        w->stops |= strcmp(line, "stop\n") == 0;
    } while (strcmp(line, "ok\n") != 0);
}

static bool is_told_to_stop(const worker *w) {
    struct pollfd p = {.fd = 0, .events = POLLIN};
    return w->stops || poll(&p, 1, 0) > 0;
}

/* The clock first: then what remains is not too much. */
static int64_t until_us(const worker *w) {
    int64_t now_us = shared_us();
    return now_us + tl_lock_remaining_ms(w->lock) * 1000;
}

static void hold(worker *w, int64_t hold_ms) {
    const clock_wait wait = clock_wait_begin(hold_ms);
    while (tl_lock_remaining_ms(w->lock) > 0 && clock_wait_more(&wait)) {
        if (shared_us() - w->told_us > STILL_US) {
            (void)printf("still %lld\n", (long long)until_us(w));
            w->told_us = shared_us();
        }
    }
}

/* Whether the lock was ours until the very release. A worker that is frozen in between may reach the server after its time. */
static void release(worker *w) {
    tl_error err;
    int64_t end_us = until_us(w);
    tl_err code = tl_lock_release(w->lock, &err);
    int64_t left_us = end_us - shared_us();
    if (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE)
        (void)printf("note slow release: %s\n", err.message);
    else if (code != TL_OK && left_us > 0)
        (void)printf("note released with %lld us left: %s\n", (long long)left_us, err.message);
    else if (code != TL_OK)
        (void)printf("note expired before it was released: %s\n", err.message);
}

static void turn(worker *w) {
    bool is_long = draw(w, LONG_ONE_IN) == 0;
    w->told_us = shared_us();
    (void)printf("enter %lld %lld %llu\n", (long long)w->told_us, (long long)until_us(w),
                 (unsigned long long)tl_lock_fence(w->lock));
    wait_for_ok(w);
    hold(w, is_long ? LONG_HOLD_MS : HOLD_MS + draw(w, HOLD_SPAN_MS));
    (void)puts("leave");
    wait_for_ok(w);
    release(w);
}

static void on_event(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock;
    (void)ctx;
    if (event->state == TL_LOST)
        (void)printf("note %s: %s\n", event->why == TL_LOST_EXPIRED ? "expired" : "lost",
                     event->detail);
}

/* Of the bridge's lifetimes some are shorter and some longer than those of the legacy clients. */
static int64_t draw_ttl(worker *w, const char *protocol) {
    static const int64_t ttl_ms[] = {0, LIFE_MS * 3 / 5, LIFE_MS * 3 / 2};
    bool any = strcmp(protocol, "bridge") == 0 || strcmp(protocol, "auto") == 0;
    return any ? ttl_ms[draw(w, 3)] : 0;
}

static tl_lock *make(tl_client *client, const char *key, int64_t ttl_ms) {
    tl_error err;
    tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = on_event,
                                              .retry = TL_RETRY_FIXED, .retry_delay_ms = POLL_MS);
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &options, &err);
    if (!lock) {
        (void)printf("note %s\n", err.message);
        exit(1);
    }
    return lock;
}

static void loop(worker *w) {
    tl_error err;
    while (!is_told_to_stop(w)) {
        tl_err code = tl_lock_acquire(w->lock, WAIT_MS, &err);
        if (code == TL_OK)
            turn(w);
        else if (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE)
            (void)printf("note slow acquire: %s\n", err.message);
        else if (code != TL_ETIMEDOUT)
            (void)printf("note refused: %s\n", err.message);
        nap(PAUSE_MS + draw(w, PAUSE_SPAN_MS));
    }
    (void)puts("end");
}

static tl_protocol_id protocol_of(const char *name) {
    if (strcmp(name, "auto") == 0)
        return TL_AUTO;
    return strcmp(name, "bridge") == 0 ? TL_BRIDGE : TL_TIMESTAMP;
}

/* worker URL PROTOCOL KEY SEED */
int worker_main(int argc, char **argv) {
    tl_client *client;
    tl_error err;
    if (argc != 6)
        return 2;
    bool strict = strcmp(argv[3], "strict") == 0;
    tl_client_options options = legacy_client(argv[2], protocol_of(argv[3]), strict);
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* what has come is seen by poll */
    if (tl_client_open(&options, &client, &err) != TL_OK) {
        (void)printf("note %s\n", err.message);
        return 1;
    }
    worker w = {.seed = (unsigned)strtoul(argv[5], NULL, 10)};
    w.lock = make(client, argv[4], draw_ttl(&w, argv[3]));
    (void)puts("ready");
    loop(&w);
    tl_lock_free(w.lock);
    tl_client_close(client);
    return 0;
}
