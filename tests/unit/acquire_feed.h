/*
 * Feeding the machine that acquires: attempt, wait, back off, give up, clean up; each with every answer, at
 * every moment.
 */
#pragma once

#include "feed.h"
#include "protocol/acquire.h"

static tl_acquisition m;
static tl_retry retry;
static tl_job job;

static inline void prepare(feed *f) {
    job = feed_job();
    retry = (tl_retry){0};
    feed_init(f, &m, tl__acquire_step);
}

static inline void go(feed *f, int64_t wait_ms) {
    tl__acquire_init(&m, &job, &retry, wait_ms, CONNECT_MS, 42);
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, "");
}

/* Begun, the server reached, the first take in flight. */
static inline void begin(feed *f, int64_t wait_ms) {
    prepare(f);
    go(f, wait_ms);
    assert_int_equal(feed_reached(f), TL_GO);
    feed_assert_asked(f, "acquire");
}

/* The pause is over: reach the server, and take again. */
static inline void again(feed *f) {
    assert_int_equal(feed_await(f), TL_GO);
    feed_assert_asked(f, "");
    assert_int_equal(f->out.sends, 1);
    assert_int_equal(feed_reached(f), TL_GO);
    feed_assert_asked(f, "acquire");
}

static inline void expect(const feed *f, tl_status status, tl_err code) {
    assert_int_equal(f->status, status);
    assert_int_equal(m.result.code, code);
    assert_int_equal(f->out.sends, 0);
    if (code != TL_OK)
        assert_string_not_equal(f->out.message, "");
}

/* Busy, listened for in vain or not, and busy again at 2 ms: the pause that then begins. */
static inline void settle_down(feed *f, int64_t wait_ms, bool armed, int64_t left_ms,
                               bool announced) {
    begin(f, wait_ms);
    (void)feed_busy(f, left_ms, announced);
    feed_at(f, 2);
    (void)feed_armed(f, armed);
    (void)feed_reached(f);
    (void)feed_busy(f, left_ms, announced);
}
