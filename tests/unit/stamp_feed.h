/*
 * Feeding an attempt of the protocols of stamps by hand. M is 1 s, L half a second, the legacy
 * lifetime a minute; our own is the same unless a test says otherwise.
 */
#pragma once

#include "attempt_feed.h"
#include "stamp/stamp.h"

#define UNTIL_MS 600000
#define M_MS 1000
#define L_MS 500
#define LEGACY_MS 60000
#define T_MS LEGACY_MS
#define START_MS (FEED_SERVER_US / 1000) /* the server's clock when a test begins */
#define GRACE_MS 3600000                 /* what K outlives its stamp by */
#define CAP_MS (LEGACY_MS - L_MS - 2 * M_MS)
/* What the drift bound takes from a lifetime. */
#define DRIFT_OF(ms) FEED_LOSS_OF(ms)

static inline const tl_dialect *dialect(const char *name) {
    const tl_dialect *d = tl__dialect_find(tl__bytes_of(name));
    assert_non_null(d);
    return d;
}

static inline tl_job stamp_job(const tl_protocol *protocol) {
    tl_job job = feed_job();
    job.protocol = protocol;
    job.acquire.bind = true;
    job.ttl_ms = T_MS;
    job.rules = (tl_rules){.dialect = dialect("java"),
                           .clock_skew_max_ms = M_MS,
                           .legacy_delay_max_ms = L_MS,
                           .legacy_ttl_min_ms = LEGACY_MS};
    return job;
}

/* Of a hold that was taken at the start and is believed to its cap. */
static inline void is_held(tl_job *job) {
    job->hold.believed = feed_ms(CAP_MS);
    job->hold.proof = (tl_proof){.kind = TL_PROOF_STAMP,
                                 .stamp = {.cap = job->hold.believed,
                                           .capped_until = feed_ms(L_MS),
                                           .proved_us = FEED_SERVER_US,
                                           .end_ms = START_MS + T_MS}};
}

static inline void prepare(feed *f, const tl_protocol *protocol, tl_op op) {
    memset(&m, 0x5a, sizeof m);
    m.job = stamp_job(protocol);
    if (op != TL_ACQUIRE)
        is_held(&m.job);
    feed_init(f, &m, one_step);
    f->server.wall_us = FEED_OFFSET_US;
    tl__attempt_init(&m.attempt, protocol, op, TICKET, feed_ms(UNTIL_MS));
}

/* Of a keep that found the lock another's or its key gone. */
static inline void expect_lost(const feed *f, tl_lost_why why, bool stolen) {
    expect(f, TL_ELOST, false);
    assert_int_equal(result()->lost.why, why);
    assert_int_equal(result()->lost.stolen, stolen);
}

/* The server's clock now, ms, rounded down. */
static inline int64_t server_ms(const feed *f) {
    return FEED_OFFSET_US / 1000 + f->now.ns / 1000000;
}

/* Text of a number, in one of a few rooms that are used in turn. */
static inline const char *text_of(int64_t v) {
    static char rooms[8][TL_INT_SIZE];
    static unsigned used;
    char *room = rooms[used++ % 8];
    (void)snprintf(room, TL_INT_SIZE, "%lld", (long long)v);
    return room;
}

/* A value in quotation marks, or nil. */
static inline const char *quoted(const char *value) {
    static char room[FEED_TEXT_MAX];
    if (!value)
        return "nil";
    (void)snprintf(room, sizeof room, "'%s'", value);
    return room;
}

/* The answers of the scripts; value NULL: nothing, or no string. */
static inline tl_status answer_take(feed *f, int status, const char *value, int64_t left_ms,
                                    bool known) {
    return feed_reply(f, "[%d %s %lld '77' %s 1 %d]", status, quoted(value), (long long)left_ms,
                      feed_time(f), known);
}

static inline tl_status answer_keep(feed *f, int status, const char *value, int64_t left_ms) {
    return feed_reply(f, "[%s [%d %s %lld]]", feed_time(f), status, quoted(value),
                      (long long)left_ms);
}

static inline tl_status answer_drop(feed *f, int status, const char *value) {
    return status == 0 && value ? feed_reply(f, "%s", quoted(value)) : feed_reply(f, "%d", status);
}

/* The last send is one command of these words. */
static inline void assert_said(const feed *f, const char *const *words) {
    const tl_command *c = &f->last.command[0];
    size_t n = 0;
    assert_int_equal(f->last.count, 1);
    assert_int_equal(c->form, TL_ARGV);
    for (; words[n]; n++) {
        assert_true(n < c->argc);
        assert_string_equal(c->argv[n].p, words[n]);
    }
    assert_int_equal(c->argc, n);
}

#define SAID(f, ...) assert_said((f), (const char *const[]){__VA_ARGS__, NULL})
