/*
 * Conformance: locks with and without a fence on one key exclude each other, and wait for each other.
 */
#include "client/lock.h"
#include "conform.h"
#include "queue_look.h"
#include "wire/script.h"

#define TTL_MS 30000

static tl_lock *with(conform *c, bool no_fence, int64_t ttl_ms) {
    return make_lock_with(
        conform_client(c), c->key,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .manual_renew = true, .no_fence = no_fence));
}

CONFORM_OF(locks_of_both_kinds_exclude_each_other, c, CONFORM_NO_FENCE) {
    tl_lock *mine = with(c, c->no_fence, TTL_MS), *other = with(c, !c->no_fence, TTL_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(mine, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
        ASSERT_RESULT(acquire_to_limit(other, 500), TL_ETIMEDOUT);
        ASSERT_RESULT(tl_lock_extend(mine, TTL_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(mine, &said), TL_OK);
        /* Who has given up leaves the line a moment later, and may be given the lock until then. */
        ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(mine, 0, &said), TL_EBUSY);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    }
}

/* For the announcement that there is without a fence, or in line. */
static bool waits(conform *c) {
    return conform_int(c, "PUBLISH tidelock:{%s} x", c->key) == 1 ||
           conform_int(c, "ZCARD tidelock:{%s}:line", c->key) == 1;
}

CONFORM_OF(a_waiter_of_the_other_kind_is_woken_by_the_release, c, CONFORM_NO_FENCE) {
    tl_lock *mine = with(c, c->no_fence, TTL_MS), *other = with(c, !c->no_fence, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(mine, 0, &said), TL_OK);
    acquiring *next = acquiring_begin(other, TL_FOREVER);
    WAIT_FOR(SOON_MS, waits(c));
    ASSERT_RESULT(tl_lock_release(mine, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(next, SOON_MS), TL_OK);
}

CONFORM_OF(a_waiter_takes_over_when_the_other_kinds_time_is_up, c, CONFORM_NO_FENCE) {
    tl_lock *mine = with(c, c->no_fence, 1000), *other = with(c, !c->no_fence, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(mine, SOON_MS, &said), TL_OK);
    int64_t began = clock_ms(), left = tl_lock_remaining_ms(mine);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, left, 1000);
    ASSERT_RESULT(tl_lock_release(mine, &said), TL_ETAKEN);
    ASSERT_RESULT(tl_lock_extend(other, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

CONFORM_OF(a_lock_without_fence_leaves_nothing_but_its_key, c, CONFORM_NO_FENCE) {
    tl_lock *lock = with(c, true, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    assert_true(conform_holds(c, c->key, tl_lock_token(lock)));
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    assert_int_equal(tl_lock_fence(lock), 0);
    assert_int_equal(conform_int(c, "EXISTS tidelock:{%s}", c->key), 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

CONFORM_OF(a_fence_goes_on_over_holds_without_one, c, CONFORM_NO_FENCE) {
    tl_lock *fenced = with(c, false, TTL_MS), *other = with(c, true, TTL_MS);
    uint64_t last = 0;
    for (int i = 0; i < 5; i++) {
        ASSERT_RESULT(tl_lock_acquire(fenced, 0, &said), TL_OK);
        assert_true(tl_lock_fence(fenced) > last);
        last = tl_lock_fence(fenced);
        ASSERT_RESULT(tl_lock_release(fenced, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    }
}

CONFORM_OF(a_take_whose_answer_is_lost_finds_itself_the_holder, c, CONFORM_NO_FENCE) {
    proxy *p = conform_proxy(c);
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.url = proxy_url(p)));
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    proxy_break(p, PROXY_REPLIES, 0, PROXY_RESET, 1);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_int_equal(proxy_struck(p), 1);
    long long left = conform_int(c, "PTTL %s", c->key);
    assert_true(tl_lock_remaining_ms(lock) <= left);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
}

static acquiring *begin_queued(tl_lock *lock) {
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, standing(lock) == TL_QUEUED);
    return a;
}

CONFORM_OF(a_hold_does_not_pass_on_to_a_lock_of_the_other_kind, c, CONFORM_NO_FENCE) {
    tl_client *client = conform_client(c);
    tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .no_fence = !c->no_fence);
    tl_lock *before = conform_lock(c, client, TTL_MS), *first = conform_lock(c, client, TTL_MS);
    tl_lock *other = make_lock_with(client, c->key, options);
    tl_lock *elsewhere = with(c, c->no_fence, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(before, 0, &said), TL_OK);
    acquiring *a = begin_queued(first), *b = begin_queued(other);
    ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    first->taken = tl__mono_add_ms(first->taken, TTL_MS); /* it would pass on however slow we are */
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_OK);
    assert_int_equal(tl_lock_fence(other) != 0, c->no_fence);
    ASSERT_RESULT(tl_lock_extend(other, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(elsewhere, 0, &said), TL_OK); /* nothing is left in its way */
    ASSERT_RESULT(tl_lock_release(elsewhere, &said), TL_OK);
}

/* ---- requests that come late ------------------------------------------------------------------- */

/* What the script for repeats and renewals answers to one that should have come by `not_after`. */
static long long hold(conform *c, const char *not_after, const char *what) {
    tl_bytes text = tl__script_text(TL_SCRIPT_HOLD);
    c->asked++;
    redisReply *reply = redisCommand(c->context, "EVAL %b 1 %s mine 30000 %s %s", text.p, text.n,
                                     c->key, not_after, what);
    assert_true(reply && reply->type == REDIS_REPLY_ARRAY && reply->elements == 6);
    assert_int_equal(reply->element[5]->integer, 1); /* this server checks */
    long long status = reply->element[0]->integer;
    freeReplyObject(reply);
    return status;
}

CONFORM_OF(a_request_past_its_limit_takes_and_keeps_nothing, c, CONFORM_NO_FENCE) {
    conform_needs_server(c, REAL_LINE);
    static const char never[] = "4102444800000000", past[] = "1700000000000000";
    assert_int_equal(hold(c, past, "take"), -2);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 0);
    conform_do(c, "SET %s mine PX 15000", c->key);
    assert_int_equal(hold(c, past, "keep"), -2);
    assert_true(conform_int(c, "PTTL %s", c->key) <= 15000);
    assert_int_equal(hold(c, past, "take"), 1); /* an earlier one has taken it: it only tells */
    assert_true(conform_int(c, "PTTL %s", c->key) <= 15000);
    assert_int_equal(hold(c, never, "keep"), 1);
    assert_true(conform_int(c, "PTTL %s", c->key) > 15000);
    conform_do(c, "DEL %s", c->key);
    assert_int_equal(hold(c, never, "keep"), -1);
    assert_int_equal(hold(c, never, "take"), 1);
    conform_do(c, "SET %s another PX 60000", c->key);
    assert_int_equal(hold(c, never, "keep"), 0);
    assert_int_equal(hold(c, never, "take"), 0);
    assert_true(conform_holds(c, c->key, "another"));
}

CONFORM_MAIN
