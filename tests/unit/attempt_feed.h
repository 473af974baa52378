/*
 * Feeding one attempt of a protocol by hand, and what it comes to.
 */
#pragma once

#include "feed.h"
#include "protocol/attempt.h"

#define TICKET 9

typedef struct {
    tl_attempt attempt; /* first: its result */
    tl_job job;
} one;

static one m;

static inline tl_status one_step(void *machine, const tl_event *e, tl_out *out) {
    one *o = machine;
    return tl__attempt_step(&o->attempt, &o->job, e, out);
}

static inline const tl_result *result(void) {
    return &m.attempt.result;
}

static inline void expect(const feed *f, tl_err code, bool maybe) {
    assert_int_equal(f->status, TL_END);
    assert_int_equal(result()->code, code);
    assert_int_equal(result()->maybe, maybe);
    assert_int_equal(f->out.message[0] != '\0', code != TL_OK && code != TL_EBUSY);
}
