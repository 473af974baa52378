/*
 * Conformance: what a client tells of itself (tl_client_stats) is what was done, no more and no less.
 * timeout: 240
 */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/lock.h"
#include "conform.h"
#include "queue_look.h"

#define TTL_MS 30000
#define THREADS 4
#define ROUNDS 50

static tl_stats stats_of(tl_client *client) {
    tl_stats s = {.size = sizeof s};
    ASSERT_RESULT(tl_client_stats(client, &s, &said), TL_OK);
    return s;
}

static uint64_t sum(const uint64_t *n, size_t count) {
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all += n[i];
    return all;
}

static uint64_t calls(const uint64_t results[TL_STATS_RESULTS]) {
    return sum(results, TL_STATS_RESULTS);
}

/* No renewal is among its requests. */
static tl_lock *by_hand(conform *c, tl_client *client) {
    return conform_lock_with(c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
}

static void assert_consistent(const tl_stats *s) {
    assert_int_equal(s->wait.count, s->acquires[TL_OK]);
    assert_int_equal(s->wait.count, sum(s->wait.bucket, TL_STATS_BUCKETS));
    assert_int_equal(s->round_trips.count, sum(s->round_trips.bucket, TL_STATS_BUCKETS));
    assert_int_equal(s->hold.count, sum(s->hold.bucket, TL_STATS_BUCKETS));
    assert_int_equal(s->hold.count + s->held_now, s->acquires[TL_OK]);
    assert_int_equal(s->waiting_now, 0);
    assert_true(s->waited <= s->acquires[TL_OK]);
    assert_true(s->handed_over <= s->waited);
}

/* ---- calls ------------------------------------------------------------------------------------- */

CONFORM(a_client_that_has_done_nothing_has_counted_nothing, c) {
    const tl_stats none = {.size = sizeof none};
    tl_stats s = stats_of(conform_client(c));
    assert_memory_equal(&s, &none, sizeof s);
}

CONFORM(each_call_is_counted_by_its_result, c) {
    tl_client *client = conform_client(c), *others = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS), *other = conform_lock(c, others, TTL_MS);
    for (int i = 1; i <= 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EINVALID);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_EINVALID);
        ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_EINVALID);
        tl_stats s = stats_of(client), o = stats_of(others);
        assert_int_equal(s.acquires[TL_OK], i);
        assert_int_equal(s.acquires[TL_EINVALID], i);
        assert_int_equal(calls(s.acquires), 2 * i);
        assert_int_equal(s.releases[TL_OK], i);
        assert_int_equal(s.releases[TL_EINVALID], i);
        assert_int_equal(calls(s.releases), 2 * i);
        assert_int_equal(s.extends[TL_EINVALID], i);
        assert_int_equal(calls(s.extends), i);
        assert_int_equal(s.waited, 0);
        assert_int_equal(o.acquires[TL_EBUSY], i);
        assert_int_equal(calls(o.acquires), i);
        assert_int_equal(o.wait.count, 0);
        assert_consistent(&s);
        assert_consistent(&o);
    }
}

CONFORM_OF(an_extension_is_counted, c, CONFORM_RENEWAL) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    conform_do(c, "DEL %s", c->key);
    conform_do(c, "SET %s another", c->key); /* what binds it outlasts the key */
    tl_err code = tl_lock_extend(lock, TTL_MS, &said);
    assert_true(code == TL_ETAKEN || code == TL_EEXPIRED || code == TL_ELOST);
    tl_stats s = stats_of(client);
    assert_int_equal(s.extends[TL_OK], 1);
    assert_int_equal(s.extends[code], 1);
    assert_int_equal(calls(s.extends), 2);
    conform_do(c, "DEL %s", c->key);
}

static void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock;
    (void)err;
    atomic_store((atomic_int *)ctx, 1 + (int)code);
}

CONFORM(what_does_not_block_is_counted_when_it_has_ended, c) {
    static atomic_int told;
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS), *other = conform_lock(c, client, TTL_MS);
    atomic_store(&told, 0);
    ASSERT_RESULT(tl_lock_acquire_async(lock, 0, done, &told, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&told) == 1 + TL_OK);
    assert_int_equal(stats_of(client).held_now, 1);
    atomic_store(&told, 0);
    ASSERT_RESULT(tl_lock_acquire_async(other, 0, done, &told, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&told) == 1 + TL_EBUSY);
    ASSERT_RESULT(tl_lock_acquire_async(other, -1, done, &told, &said), TL_EINVALID);
    atomic_store(&told, 0);
    ASSERT_RESULT(tl_lock_release_async(lock, done, &told, &said), TL_OK);
    WAIT_FOR(SOON_MS, atomic_load(&told) == 1 + TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(s.acquires[TL_OK], 1);
    assert_int_equal(s.acquires[TL_EBUSY], 1);
    assert_int_equal(s.acquires[TL_EINVALID], 1);
    assert_int_equal(calls(s.acquires), 3);
    assert_int_equal(s.releases[TL_OK], 1);
    assert_int_equal(calls(s.releases), 1);
    assert_int_equal(s.held_now, 0);
    assert_consistent(&s);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

CONFORM(a_wait_is_counted_and_as_long_as_it_was, c) {
    enum { HELD_MS = 300 };
    tl_client *client = conform_client(c);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    const clock_wait held = clock_wait_begin(HELD_MS);
    while (clock_wait_more(&held))
        ;
    WAIT_FOR(SOON_MS,
             stats_of(client).round_trips.count >= 3); /* it has asked, and stands in line */
    WAIT_FOR(SOON_MS, stats_of(client).waiting_now == 1);
    assert_int_equal(stats_of(client).held_now, 0);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(s.waited, 1);
    assert_int_equal(s.handed_over, 0);
    assert_int_equal(s.wait.count, 1);
    assert_in_range(s.wait.sum_us, 1, (a->ended_us / 1000 - a->began_ms + 1) * 1000);
    unsigned i = 0;
    while (s.wait.bucket[i] == 0)
        i++;
    assert_true((int64_t)s.wait.sum_us < TL_STATS_BUCKET_US(i));
    assert_true(i == 0 || (int64_t)s.wait.sum_us >= TL_STATS_BUCKET_US(i - 1));
    assert_consistent(&s);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM(a_wait_that_is_cancelled_is_over, c) {
    tl_client *client = conform_client(c);
    tl_lock *holder = conform_lock(c, conform_client(c), TTL_MS);
    tl_lock *lock = conform_lock(c, client, TTL_MS), *freed = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, stats_of(client).waiting_now == 1);
    ASSERT_RESULT(tl_lock_acquire_async(freed, TL_FOREVER, done, NULL, &said), TL_OK);
    WAIT_FOR(SOON_MS, stats_of(client).waiting_now == 2);
    drop_lock(freed);
    WAIT_FOR(SOON_MS, stats_of(client).waiting_now == 1);
    tl_lock_cancel(lock);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    tl_stats s = stats_of(client);
    assert_consistent(&s);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
}

/* How many stand behind the lock that is at the front. */
static int queue_behind(tl_lock *front) {
    tl_gate *gate = &front->client->gate;
    int n = 0;
    tl__mutex_lock(&gate->mutex);
    for (tl_gate_node *p = front->gate_node.state == TL_FRONT ? front->gate_node.first : NULL; p;
         p = p->next)
        n++;
    tl__mutex_unlock(&gate->mutex);
    return n;
}

/* The first waiter asks the server, with another behind it; so it may pass the lock on, if soon enough. */
CONFORM_OF(what_is_passed_on_within_the_process_is_counted, c, CONFORM_FENCE | CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *lock[3];
    acquiring *a[3];
    for (int i = 0; i < 3; i++)
        lock[i] = by_hand(c, client);
    ASSERT_RESULT(tl_lock_acquire(lock[0], 0, &said), TL_OK);
    for (int i = 1; i < 3; i++) {
        a[i] = acquiring_begin(lock[i], TL_FOREVER);
        WAIT_FOR(SOON_MS, queue_behind(lock[0]) == i);
        WAIT_FOR(SOON_MS, stats_of(client).waiting_now == (uint64_t)i);
    }
    ASSERT_RESULT(tl_lock_release(lock[0], &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a[1], SOON_MS), TL_OK);
    assert_int_equal(stats_of(client).waited, 1);
    assert_int_equal(stats_of(client).handed_over, 0);
    assert_int_equal(stats_of(client).held_now, 1);
    WAIT_FOR(SOON_MS, stats_of(client).waiting_now == 1);
    lock[1]->taken = tl__mono_add_ms(lock[1]->taken,
                                     TTL_MS); /* soon enough on a busy machine, too */
    uint64_t trips = stats_of(client).round_trips.count;
    ASSERT_RESULT(tl_lock_release(lock[1], &said), TL_OK);
    ASSERT_RESULT(acquiring_end(a[2], SOON_MS), TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(s.handed_over, 1);
    assert_int_equal(s.waited, 2);
    assert_int_equal(s.acquires[TL_OK], 3);
    assert_int_equal(s.releases[TL_OK], 2);
    assert_int_equal(s.round_trips.count, trips);
    assert_int_equal(s.held_now, 1);
    assert_int_equal(s.hold.count, 2);
    assert_consistent(&s);
    ASSERT_RESULT(tl_lock_release(lock[2], &said), TL_OK);
}

/* ---- requests ---------------------------------------------------------------------------------- */

CONFORM_OF(each_request_is_a_round_trip, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *lock = by_hand(c, client);
    for (int i = 0; i < 2; i++) { /* the scripts are there from now on */
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    tl_stats before = stats_of(client);
    const uint64_t commands = conform_count(c);
    for (int i = 0; i < 10; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
    tl_stats s = stats_of(client);
    assert_int_equal(s.round_trips.count - before.round_trips.count, 20);
    assert_in_range(conform_count(c) - commands, 20, 120); /* some have several commands */
    assert_true(s.round_trips.sum_us >= before.round_trips.sum_us);
    assert_int_equal(s.connections, 1);
    assert_int_equal(s.unanswered, 0);
}

CONFORM_OF(a_request_without_an_answer_is_counted, c, CONFORM_RUNTIME) {
    proxy *p = conform_proxy(c);
    tl_client *client = conform_client_with(
        c, TL_CLIENT_OPTIONS(.url = proxy_url(p), .attempt_ms = 200));
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    WAIT_FOR(SOON_MS, tl_client_ping(client, &said) == TL_OK);
    tl_stats before = stats_of(client);
    proxy_break(p, PROXY_REPLIES, 0, PROXY_MUTE, 1);
    tl_err code = TL_EUNAVAILABLE;
    for (int i = 0; i < 100 && code == TL_EUNAVAILABLE; i++) /* nothing was sent in time */
        code = tl_lock_acquire(lock, 0, &said);
    assert_true(code == TL_EUNCERTAIN || code == TL_OK);
    tl_stats s = stats_of(client);
    assert_true(s.unanswered > before.unanswered);
    assert_int_equal(s.acquires[code], 1);
    proxy_heal(p);
}

/* ---- holding ----------------------------------------------------------------------------------- */

CONFORM_OF(renewals_are_counted, c, CONFORM_RENEWAL | CONFORM_SHORT) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, LASTING_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    WAIT_FOR(SOON_MS, stats_of(client).renewals >= 2);
    ASSERT_GOES_ON(lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(sum(s.lost, TL_STATS_CAUSES), 0);
    const clock_wait end = clock_wait_begin(LASTING_MS / 3 + 200); /* the next would have come */
    while (clock_wait_more(&end))
        assert_int_equal(stats_of(client).renewals, s.renewals);
}

CONFORM_OF(a_loss_is_counted_by_its_cause, c, CONFORM_RUNTIME | CONFORM_FENCE) {
    tl_client *client = conform_client(c);
    lock_events *events = make_events();
    tl_lock *taken = conform_lock_with(
        c, client, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(taken, 0, &said), TL_OK);
    assert_int_equal(stats_of(client).held_now, 1);
    conform_do(c, "SET %s another", c->key); /* found out by the first renewal, within a second */
    lock_event lost = lock_events_await(events, TL_LOST, SOON_MS);
    assert_int_equal(lost.why, TL_LOST_TAKEN);
    assert_int_equal(stats_of(client).lost[TL_LOST_TAKEN], 1);
    assert_int_equal(stats_of(client).stolen, 0);
    assert_int_equal(stats_of(client).held_now, 0);
    assert_int_equal(stats_of(client).hold.count, 1);
    conform_do(c, "DEL %s", c->key);
    (void)tl_lock_release(taken, &said); /* of what is lost already */
    assert_int_equal(stats_of(client).hold.count, 1);
    tl_lock *held = make_lock_with(client, "held", TL_LOCK_OPTIONS(.max_hold_ms = 100));
    tl_lock *manual = make_lock_with(client, "manual",
                                     TL_LOCK_OPTIONS(.ttl_ms = 100, .manual_renew = true));
    tl_err manually = tl_lock_acquire(manual, 0, &said);
    tl_err for_a_time = tl_lock_acquire(held, 0, &said);
    WAIT_FOR(SOON_MS, tl_lock_state(held) != TL_HELD && tl_lock_state(manual) != TL_HELD);
    WAIT_FOR(SOON_MS, sum(stats_of(client).lost, TL_STATS_CAUSES) ==
                          1U + (manually == TL_OK) + (for_a_time == TL_OK));
    tl_stats s = stats_of(client);
    assert_int_equal(s.lost[TL_LOST_TAKEN], 1);
    assert_int_equal(s.lost[TL_LOST_EXPIRED], manually == TL_OK);
    assert_int_equal(s.lost[TL_LOST_MAX_HOLD], for_a_time == TL_OK);
    assert_int_equal(s.at_risk, lock_events_count_of(events, TL_AT_RISK));
    assert_consistent(&s);
}

CONFORM(a_hold_is_as_long_as_it_was, c) {
    enum { HELD_MS = 50 };
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    tl_mono before = tl__mono_now();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    tl_mono acquired = tl__mono_now();
    const clock_wait held = clock_wait_begin(HELD_MS);
    while (clock_wait_more(&held))
        assert_int_equal(stats_of(client).held_now, 1);
    assert_int_equal(stats_of(client).hold.count, 0);
    tl_mono ends = tl__mono_now();
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(s.held_now, 0);
    assert_int_equal(s.hold.count, 1);
    assert_in_range(s.hold.sum_us, tl__ns_until(acquired, ends) / 1000,
                    tl__ns_until(before, tl__mono_now()) / 1000);
    assert_consistent(&s);
}

/* The renewal thread is held up: it notices the end only then. */
CONFORM_OF(a_hold_whose_end_is_noticed_late_ended_in_time, c, CONFORM_RUNTIME) {
    enum { HELD_MS = 400, LATE_MS = 300 };
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock_with(c, client,
                                      TL_LOCK_OPTIONS(.ttl_ms = HELD_MS, .manual_renew = true));
    if (tl_lock_acquire(lock, 0, &said))
        return; /* the machine was too slow */
    tl__keeper_lock(&client->keeper);
    while (tl_lock_state(lock) != TL_LOST)
        ;
    const clock_wait late = clock_wait_begin(LATE_MS);
    while (clock_wait_more(&late))
        ;
    tl__keeper_unlock(&client->keeper);
    WAIT_FOR(SOON_MS, stats_of(client).held_now == 0);
    assert_in_range(stats_of(client).hold.sum_us, 0, HELD_MS * 1000);
}

CONFORM_OF(a_lock_that_is_freed_is_not_held, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    drop_lock(lock);
    tl_stats s = stats_of(client);
    assert_int_equal(s.held_now, 0);
    assert_int_equal(s.hold.count, 1);
    assert_consistent(&s);
}

CONFORM_OF(an_adopted_lock_is_held_once_it_is_extended, c, CONFORM_RENEWAL) {
    tl_client *client = conform_client(c), *heir = conform_client(c);
    tl_lock *lock = by_hand(c, client), *adopted = conform_lock(c, heir, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(adopted, tl_lock_token(lock), &said), TL_OK);
    assert_int_equal(stats_of(heir).held_now, 0);
    ASSERT_RESULT(tl_lock_extend(adopted, TTL_MS, &said), TL_OK);
    assert_int_equal(stats_of(heir).held_now, 1);
    ASSERT_RESULT(tl_lock_release(adopted, &said), TL_OK);
    tl_stats s = stats_of(heir);
    assert_int_equal(s.held_now, 0);
    assert_int_equal(s.hold.count, 1);
}

/* They are renewed by one request, which finds each of them lost. */
CONFORM_OF(locks_that_are_lost_at_once_are_held_no_more, c, CONFORM_RUNTIME | CONFORM_FENCE) {
    enum { LOCKS = 10 };
    tl_client *client = conform_client(c);
    tl_lock *lock[LOCKS];
    char key[32];
    for (int i = 0; i < LOCKS; i++) {
        (void)snprintf(key, sizeof key, "at-once-%d", i);
        lock[i] = make_lock_with(client, key, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
        ASSERT_RESULT(tl_lock_acquire(lock[i], 0, &said), TL_OK);
    }
    assert_int_equal(stats_of(client).held_now, LOCKS);
    ASSERT_RESULT(tl_lock_release(lock[0], &said), TL_OK);
    for (int i = 1; i < LOCKS; i++)
        conform_do(c, "SET at-once-%d another", i);
    WAIT_FOR(SOON_MS, stats_of(client).held_now == 0);
    tl_stats s = stats_of(client);
    assert_int_equal(s.lost[TL_LOST_TAKEN], LOCKS - 1);
    assert_int_equal(s.hold.count, LOCKS);
    assert_consistent(&s);
}

CONFORM_OF(a_risk_and_the_renewals_that_failed_are_counted, c, CONFORM_RUNTIME | CONFORM_RENEWAL) {
    proxy *p = conform_proxy(c);
    lock_events *events = make_events();
    tl_client *client = conform_client_with(c, TL_CLIENT_OPTIONS(.url = proxy_url(p)));
    tl_lock *lock = conform_lock_with(
        c, client,
        TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    proxy_break(p, PROXY_REPLIES, 0, PROXY_RESET, PROXY_ALL);
    (void)lock_events_await_risk_or_loss(events, SOON_MS);
    proxy_heal(p);
    tl_stats s = stats_of(client);
    assert_true(s.renewals_failed >= 1);
    assert_true(s.at_risk + sum(s.lost, TL_STATS_CAUSES) >= 1);
}

/* ---- clocks ------------------------------------------------------------------------------------ */

CONFORM_OF(the_servers_clock_is_told, c, CONFORM_FENCE) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    tl_stats s = stats_of(client);
    assert_int_equal(s.clocks, 1);
    /* It is on this host, and has its clock. */
    assert_in_range(s.clock_width_us, 1, 60000000);
    assert_in_range(s.clock_offset_us + s.clock_width_us / 2 + 10, 0, s.clock_width_us + 20);
    assert_in_range(s.clock_age_ms, 0, 60000);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- the struct -------------------------------------------------------------------------------- */

CONFORM_OF(an_older_program_is_told_what_it_knows, c, CONFORM_RUNTIME) {
    struct {
        tl_stats stats;
        char behind[64];
    } room;
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    memset(&room, 'x', sizeof room);
    room.stats.size = offsetof(tl_stats, releases);
    ASSERT_RESULT(tl_client_stats(client, &room.stats, &said), TL_OK);
    assert_int_equal(room.stats.acquires[TL_OK], 1);
    assert_int_equal(*(char *)&room.stats.releases, 'x');
    room.stats.size = sizeof room;
    ASSERT_RESULT(tl_client_stats(client, &room.stats, &said), TL_OK);
    assert_int_equal(room.behind[0], 0);
    room.stats.size = 0;
    ASSERT_RESULT(tl_client_stats(client, &room.stats, &said), TL_EINVALID);
    ASSERT_SAID("tl_stats");
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

CONFORM_OF(a_forked_child_is_told_nothing, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    pid_t child = fork();
    if (child == 0) {
        tl_stats s = {.size = sizeof s};
        _exit(tl_client_stats(client, &s, NULL));
    }
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), TL_EINVALID);
}

/* ---- threads ----------------------------------------------------------------------------------- */

static void *contend(void *ctx) {
    tl_lock *lock = ctx;
    intptr_t times = 0;
    for (int i = 0; i < ROUNDS; i++)
        if (tl_lock_acquire(lock, TL_FOREVER, NULL) == TL_OK &&
            tl_lock_release(lock, NULL) == TL_OK)
            times++;
    return (void *)times; /* NOLINT(performance-no-int-to-ptr) */
}

CONFORM_OF(many_threads_are_counted_exactly, c, CONFORM_RUNTIME) {
    tl_client *client = conform_client(c);
    pthread_t thread[THREADS];
    uint64_t last = 0;
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&thread[i], NULL, contend, conform_lock(c, client, TTL_MS)),
                         0);
    for (int i = 0; i < ROUNDS; i++) {
        tl_stats s = stats_of(client);
        assert_true(s.acquires[TL_OK] >= last);
        last = s.acquires[TL_OK];
    }
    for (int i = 0; i < THREADS; i++) {
        void *times;
        assert_int_equal(pthread_join(thread[i], &times), 0);
        assert_int_equal((intptr_t)times, ROUNDS);
    }
    tl_stats s = stats_of(client);
    assert_int_equal(s.acquires[TL_OK], THREADS * ROUNDS);
    assert_int_equal(s.releases[TL_OK], THREADS * ROUNDS);
    assert_consistent(&s);
}

CONFORM_MAIN
