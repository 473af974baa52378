/*
 * A hold is believed from the moment at which acquire has returned to that of its release, or as
 * long as the lock said that it remained, whichever is less. Beliefs are compared at the end, so
 * that a thread which the machine delays can't make a wrong one look right, nor the other way round: who
 * comes to his work when nothing remains has held nothing.
 */
#include "contest.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define CONTENDERS_MAX 16
#define HOLDS_MAX 20000
#define MARGIN_MS 40 /* no writing with less than this remaining: a thread can be held up */

typedef struct {
    int64_t from_us, until_us, released_us;
    uint64_t fence;
    int whose;
} hold;

typedef struct {
    tl_lock *lock;
    pthread_t thread;
    bool running;
    int counted, holds, overwritten;
    tl_error err; /* of the last time that it did not get it */
    hold hold[HOLDS_MAX];
} contender;

static contender *contenders[CONTENDERS_MAX];
static int contender_count;
static int64_t patience_ms, working_ms;
static atomic_bool ending;
static atomic_int number; /* read, and written after a while: only the lock makes that right */
static atomic_llong counted_us, pause_us; /* when last; the longest time between two */

/* Until when this moment's look at the lock lets its holder believe in it; 0: it doesn't. */
static int64_t believed_until(const tl_lock *lock) {
    const int64_t now_us = clock_us(), remaining_ms = tl_lock_remaining_ms(lock);
    return remaining_ms > 0 ? now_us + remaining_ms * 1000 : 0;
}

static void note_pause(void) {
    long long now_us = clock_us(), pause = now_us - atomic_exchange(&counted_us, now_us),
              longest = atomic_load(&pause_us);
    while (pause > longest && !atomic_compare_exchange_weak(&pause_us, &longest, pause)) {}
}

static void hold_once(contender *c) {
    hold h = {.from_us = clock_us(), .fence = tl_lock_fence(c->lock)};
    h.until_us = believed_until(c->lock);
    int before = atomic_load_explicit(&number, memory_order_relaxed);
    const clock_wait work = clock_wait_begin(working_ms);
    while (tl_lock_remaining_ms(c->lock) > MARGIN_MS && clock_wait_more(&work)) {}
    (void)sched_yield();
    int64_t until_us = believed_until(c->lock);
    h.until_us = until_us > h.until_us ? until_us : h.until_us;
    if (tl_lock_remaining_ms(c->lock) > MARGIN_MS) {
        int found = before;
        bool mine = atomic_compare_exchange_strong(&number, &found, before + 1);
        c->counted += mine;
        if (mine)
            note_pause();
        c->overwritten += !mine &&
                          tl_lock_remaining_ms(c->lock) > 0; /* else we were held up here */
    }
    int64_t now_us = clock_us();
    (void)tl_lock_release(c->lock, NULL);
    h.until_us = h.until_us < now_us ? h.until_us : now_us;
    h.released_us = now_us;
    if (h.until_us > h.from_us)
        c->hold[c->holds++] = h;
}

static void *contend(void *ctx) {
    contender *c = ctx;
    while (!atomic_load(&ending) && c->holds < HOLDS_MAX)
        if (tl_lock_acquire(c->lock, patience_ms, &c->err) == TL_OK)
            hold_once(c);
    return NULL;
}

void contest_start(tl_lock *const *locks, int count, int64_t wait_ms, int64_t hold_ms) {
    contest_abandon();
    assert_in_range(count, 1, CONTENDERS_MAX);
    atomic_store(&ending, false);
    atomic_store(&number, 0);
    atomic_store(&counted_us, clock_us());
    atomic_store(&pause_us, 0);
    patience_ms = wait_ms;
    working_ms = hold_ms;
    for (int i = 0; i < count; i++) {
        contender *c = calloc(1, sizeof *c);
        assert_non_null(c);
        c->lock = locks[i];
        assert_int_equal(pthread_create(&c->thread, NULL, contend, c), 0);
        c->running = true;
        contenders[contender_count++] = c;
    }
}

int contest_counted(void) {
    return atomic_load(&number);
}

int64_t contest_pause_ms(void) {
    return atomic_exchange(&pause_us, 0) / 1000;
}

static void join(void) {
    atomic_store(&ending, true);
    for (int i = 0; i < contender_count; i++) {
        if (contenders[i]->running)
            (void)pthread_join(contenders[i]->thread, NULL);
        contenders[i]->running = false;
    }
}

const char *contest_said(void) {
    join();
    for (int i = 0; i < contender_count; i++)
        if (contenders[i]->err.code != TL_OK)
            return contenders[i]->err.message;
    return "";
}

bool contest_held(void) {
    bool held = false;
    for (int i = 0; i < contender_count; i++)
        held = held || tl_lock_remaining_ms(contenders[i]->lock) > 0;
    return held;
}

static void forget(void) {
    while (contender_count > 0)
        free(contenders[--contender_count]);
}

void contest_abandon(void) {
    join();
    forget();
}

static int by_begin(const void *a, const void *b) {
    const hold *x = a, *y = b;
    return (x->from_us > y->from_us) - (x->from_us < y->from_us);
}

static void note_overlap(const hold *x, const hold *y, contest_result *ret) {
    ret->overlap_us = (int)(x->until_us - y->from_us);
    (void)snprintf(ret->who, sizeof ret->who,
                   "%d for %lld us, released after %lld, then %d; the fence grew by %lld", x->whose,
                   (long long)(x->until_us - x->from_us), (long long)(x->released_us - x->from_us),
                   y->whose, (long long)(y->fence - x->fence));
}

static void compare_holds(hold *all, int n, contest_result *ret) {
    qsort(all, (size_t)n, sizeof *all, by_begin);
    for (int i = 1; i < n; i++) {
        const int64_t both_us = all[i - 1].until_us - all[i].from_us;
        if (both_us > 0)
            print_message("%lld and %lld: held from %lld to %lld us, and from %lld to %lld\n",
                          (long long)all[i - 1].fence, (long long)all[i].fence,
                          (long long)all[i - 1].from_us, (long long)all[i - 1].until_us,
                          (long long)all[i].from_us, (long long)all[i].until_us);
        ret->overlaps += both_us > 0;
        if (both_us > ret->overlap_us)
            note_overlap(&all[i - 1], &all[i], ret);
        ret->fences_back += all[i].fence <= all[i - 1].fence;
    }
}

contest_result contest_tally(void) {
    contest_result result = {0};
    int n = 0;
    join();
    for (int i = 0; i < contender_count; i++) {
        result.counted += contenders[i]->counted;
        result.overwritten += contenders[i]->overwritten;
        n += contenders[i]->holds;
    }
    result.number = atomic_load(&number);
    hold *all = calloc((size_t)n + 1, sizeof *all);
    assert_non_null(all);
    n = 0;
    for (int i = 0; i < contender_count; i++)
        for (int k = 0; k < contenders[i]->holds; k++) {
            all[n] = contenders[i]->hold[k];
            all[n++].whose = i;
        }
    forget();
    compare_holds(all, n, &result);
    free(all);
    return result;
}

void contest_demand(const contest_result *result) {
    if (result->overlaps > 0)
        fail_msg("two holders, for %d us: contender %s", result->overlap_us, result->who);
    if (result->fences_back > 0)
        fail_msg("a fence that is not greater than the one before");
    assert_int_equal(result->overwritten, 0);
    assert_int_equal(result->number, result->counted);
    assert_true(result->counted > 0);
}

void contest_end(void) {
    const contest_result result = contest_tally();
    contest_demand(&result);
}
