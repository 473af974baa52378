/*
 * Waiting in tests: for an event, with a bound; never for time to pass.
 */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

/** For what happens at once: only what hangs takes so long, however busy the machine. As a limit of a client it is reached by
 *  faults alone. */
#define SOON_MS clock_patient_ms(30000)
/** By how much a call may end after its limit: a machine may stop each process for seconds, and several times. */
#define SLACK_MS clock_patient_ms(20000)

/** CLOCK_BOOTTIME. */
int64_t clock_ms(void);
int64_t clock_us(void);

/** A lifetime or a wait that a test must meet itself: longer where VALGRIND=1, or a build with sanitizers,
 *  slows the test down. What is renewed, or is answered in time, wants a second at least. */
int64_t clock_patient_ms(int64_t ms);

typedef struct {
    int64_t since_us, until_ms;
} clock_wait;

clock_wait clock_wait_begin(int64_t bound_ms);
/** Naps for a moment, which grows with what has been waited, to 5 ms; false when the bound has passed. */
bool clock_wait_more(const clock_wait *wait);

/** The condition becomes true within bound_ms, or the test fails. */
#define WAIT_FOR(bound_ms, condition)                                                              \
    do {                                                                                           \
        const clock_wait wait_ = clock_wait_begin(bound_ms);                                       \
        while (!(condition)) {                                                                     \
            if (!clock_wait_more(&wait_))                                                          \
                fail_msg("not within %d ms: %s", (int)(bound_ms), #condition);                     \
        }                                                                                          \
    } while (0)

/** Since `start_ms` at least so much has passed, and at most so much and the slack. */
#define ASSERT_TOOK(start_ms, least_ms, most_ms)                                                   \
    assert_in_range(clock_ms() - (start_ms), (least_ms), (most_ms) + SLACK_MS)

/**
 * Was the client's connection too long idle when a call began? It sends an acquire at once if the server has
 * answered within a second; else it asks first whether the server is there. A test that relies on the former
 * starts over if the machine was too slow. heard_ms: clock_ms() before the last reply; least_ms: how long the
 * call takes at least, with this result. An idle client that loses the reply to its question asks again, and may succeed
 * soon.
 */
#define WAS_IDLE(heard_ms, least_ms) (clock_ms() - (least_ms) - (heard_ms) >= 1000)
