/*
 * A worker of our own in a process of its own: it locks by the public API, or by the drop-in, tells the referee,
 * works, tells again, releases; again and again. It must not count on the lock when nothing remains.
 * What `tidelock run` runs does one turn of that.
 */
#include <poll.h>
#include <stdlib.h>
#include <string.h>

#include "distribute_lock_util.h"
#include "legacy.h"

#define POLL_MS 20
#define WAIT_MS 200
#define WAIT_IN_QUEUE_MS 2000 /* a shorter wait would give its place away */
#define PAUSE_MS 10
#define PAUSE_SPAN_MS 40
#define HOLD_MS 5
#define HOLD_SPAN_MS 15
#define LONG_ONE_IN 8
#define LONG_HOLD_MS 600 /* longer than what is left before a renewal */
#define STILL_US 50000
#define RUNS_MS 5 /* a job says so often that it runs */

typedef struct {
    tl_lock *lock;
    tl_dlu *dlu; /* in its place */
    const char *key;
    unsigned seed;
    int64_t wait_ms, told_us;
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

static int64_t remaining_ms(const worker *w) {
    return w->dlu ? tl_dlu_remaining_ms(w->dlu, w->key) : tl_lock_remaining_ms(w->lock);
}

/* The clock first: then what remains is not too much. */
static int64_t until_us(const worker *w) {
    int64_t now_us = shared_us();
    return now_us + remaining_ms(w) * 1000;
}

static void hold(worker *w, int64_t hold_ms) {
    const clock_wait wait = clock_wait_begin(hold_ms);
    while (remaining_ms(w) > 0 && clock_wait_more(&wait)) {
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
    tl_err code = w->dlu ? tl_dlu_release(w->dlu, w->key, &err) : tl_lock_release(w->lock, &err);
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
                 w->dlu ? 0 : (unsigned long long)tl_lock_fence(w->lock));
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
    if (strcmp(protocol, "token") == 0)
        return LIFE_MS; /* 0 would be 30 s, for which others wait when it is killed */
    return any ? ttl_ms[draw(w, 3)] : 0;
}

static void ended(const tl_error *err) {
    (void)printf("note %s\n", err->message);
    exit(1);
}

/* Only TL_RETRY_AUTO queues, where there is a queue: else others that do pass it by. */
static tl_lock *make(tl_client *client, const char *key, int64_t ttl_ms, bool queues) {
    tl_error err;
    tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = on_event);
    if (!queues) {
        options.retry = TL_RETRY_FIXED;
        options.retry_delay_ms = POLL_MS;
    }
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &options, &err);
    if (!lock)
        ended(&err);
    return lock;
}

static tl_err acquire(worker *w, tl_error *err) {
    if (!w->dlu)
        return tl_lock_acquire(w->lock, w->wait_ms, err);
    return tl_dlu_lock_wait(w->dlu, w->key, w->wait_ms, err) ? TL_OK : err->code;
}

static void loop(worker *w) {
    tl_error err;
    while (!is_told_to_stop(w)) {
        tl_err code = acquire(w, &err);
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
    static const struct {
        const char *name;
        tl_protocol_id protocol;
    } known[] = {{"auto", TL_AUTO}, {"dlu", TL_AUTO}, {"bridge", TL_BRIDGE}, {"token", TL_TOKEN}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(name, known[i].name) == 0)
            return known[i].protocol;
    return TL_TIMESTAMP;
}

static bool queues(const tl_client_options *options) {
    return options->protocol == TL_TOKEN || options->protocol == TL_AUTO;
}

static void with_drop_in(worker *w, const tl_client_options *options) {
    tl_error err;
    w->dlu = tl_dlu_open_with(options, &err);
    if (!w->dlu)
        ended(&err);
    (void)puts("ready");
    loop(w);
    tl_dlu_close(w->dlu);
}

static void with_lock(worker *w, const tl_client_options *options, const char *protocol) {
    tl_client *client;
    tl_error err;
    if (tl_client_open(options, &client, &err) != TL_OK)
        ended(&err);
    w->lock = make(client, w->key, draw_ttl(w, protocol), queues(options));
    (void)puts("ready");
    loop(w);
    tl_lock_free(w->lock);
    tl_client_close(client);
}

static void write_and_read_lines(void) {
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    (void)setvbuf(stdin, NULL, _IONBF, 0); /* what has come is seen by poll */
}

/* worker URL PROTOCOL KEY SEED REPLICAS */
int worker_main(int argc, char **argv) {
    if (argc != 7)
        return 2;
    bool strict = strcmp(argv[3], "strict") == 0;
    tl_client_options options = legacy_client(argv[2], protocol_of(argv[3]), strict);
    options.wait_replicas = atoi(argv[6]);
    worker w = {.key = argv[4], .seed = (unsigned)strtoul(argv[5], NULL, 10)};
    w.wait_ms = queues(&options) ? WAIT_IN_QUEUE_MS : WAIT_MS;
    write_and_read_lines();
    if (strcmp(argv[3], "dlu") == 0)
        with_drop_in(&w, &options);
    else
        with_lock(&w, &options, argv[3]);
    return 0;
}

/* It knows of no lock: `tidelock run` ends it in time. How long it ran is what it says last. */
int job_main(void) {
    worker w = {.seed = (unsigned)shared_us()};
    write_and_read_lines();
    int64_t at_us = shared_us();
    (void)printf("enter %lld %lld %s\n", (long long)at_us, (long long)at_us + 1,
                 getenv("TIDELOCK_FENCE"));
    wait_for_ok(&w);
    const clock_wait wait = clock_wait_begin(HOLD_MS + draw(&w, HOLD_SPAN_MS));
    while (clock_wait_more(&wait)) {
        (void)printf("runs %lld\n", (long long)shared_us());
        nap(RUNS_MS);
    }
    (void)printf("runs %lld\n", (long long)shared_us());
    (void)puts("leave");
    wait_for_ok(&w);
    return w.stops ? JOB_STOPS : 0;
}
