/*
 * The local queue before a server that is away: nobody in it waits longer than if it were alone.
 */
#include "arena.h"
#include "client/lock.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define WAITERS 8

static int queue_behind(tl_lock *front) {
    tl_gate *queue = &front->client->gate;
    int n = 0;
    tl__mutex_lock(&queue->mutex);
    for (tl_gate_node *p = front->gate_node.first; p; p = p->next)
        n++;
    tl__mutex_unlock(&queue->mutex);
    return n;
}

static void begin_all(tl_client *client, int64_t wait_ms, acquiring **a) {
    for (int i = 0; i < WAITERS; i++)
        a[i] = acquiring_begin(make_lock(client, KEY, AGES_MS), wait_ms);
}

TEST(waits_without_limit_end_together_when_the_server_is_not_reached) {
    acquiring *a[WAITERS];
    tl_client *client = hasty_client_direct();
    real_redis_kill(server);
    int64_t began = clock_ms();
    begin_all(client, TL_FOREVER, a);
    for (int i = 0; i < WAITERS; i++)
        ASSERT_RESULT(acquiring_end(a[i], SOON_MS), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS);
    real_redis_restart(server);
}

TEST(waits_with_a_limit_say_that_the_server_was_not_reached) {
    acquiring *a[WAITERS];
    tl_client *client = hasty_client_behind_gate();
    proxy_stop(gate);
    int64_t began = clock_ms();
    begin_all(client, 200, a);
    for (int i = 0; i < WAITERS; i++) { /* the first of them has asked */
        tl_err code = acquiring_end(a[i], SOON_MS);
        if (code != TL_EUNCERTAIN)
            ASSERT_RESULT(code, TL_EUNAVAILABLE);
    }
    ASSERT_TOOK(began, 200, 200);
    proxy_heal(gate);
    assert_free_soon();
}

/* The holder is alive, and knows that it holds: that the server is away is not why they wait. */
TEST(waits_behind_a_holder_time_out_though_the_server_is_away) {
    acquiring *a[WAITERS];
    tl_client *client = client_direct();
    tl_lock *holder = by_hand(client, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    real_redis_freeze(server);
    begin_all(client, 200, a);
    for (int i = 0; i < WAITERS; i++)
        ASSERT_RESULT(acquiring_end(a[i], SOON_MS), TL_ETIMEDOUT);
    real_redis_thaw(server);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
}

static int first_done(acquiring **a) {
    for (int i = 0; i < WAITERS; i++)
        if (a[i]->running && atomic_load(&a[i]->done))
            return i;
    return -1;
}

TEST(those_behind_a_holder_that_is_cut_off_go_on_when_the_server_is_back) {
    acquiring *a[WAITERS];
    tl_client *client = hasty_client_behind_gate();
    lock_events *events = make_events();
    tl_lock *holder = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = BRIEF_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    begin_all(client, 20 * SOON_MS, a);
    proxy_stop(gate);
    (void)lock_events_await(events, TL_LOST, SOON_MS);
    proxy_heal(gate);
    for (int i = 0; i < WAITERS; i++) { /* in which order, only they know */
        int next = -1;
        WAIT_FOR(2 * SOON_MS, (next = first_done(a)) >= 0);
        ASSERT_RESULT(acquiring_end(a[next], SOON_MS), TL_OK);
        tl_err code = tl_lock_release(a[next]->lock, &said);
        if (code != TL_EUNCERTAIN &&
            code != TL_EUNAVAILABLE) /* not in time: it is released all the same */
            ASSERT_RESULT(code, TL_OK);
    }
    assert_free_soon();
}

TEST(a_wait_without_limit_that_saw_the_server_waits_out_an_outage) {
    tl_client *client = hasty_client_direct();
    lock_events *events = NULL;
    acquiring *a = NULL;
    for (int i = 0; i < 20 && !a; i++) {
        events = make_events();
        tl_lock *holder = make_lock_with(
            client, KEY,
            TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
        ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
        a = acquiring_begin(make_lock(client, KEY, AGES_MS), TL_FOREVER);
        forget_executed();
        WAIT_FOR(SOON_MS, has_executed("evalsha", 2)); /* two renewals */
        real_redis_kill(server);
        if (lock_events_count_of(events, TL_LOST) == 0)
            break;
        real_redis_restart(server); /* a busy machine has lost it before the outage: once more */
        ASSERT_RESULT(acquiring_end(a, 2 * SOON_MS), TL_OK);
        release_hastily(a->lock, KEY);
        a = NULL;
    }
    assert_non_null(a);
    (void)lock_events_await(events, TL_LOST, SOON_MS);
    int64_t lost = clock_ms();
    WAIT_FOR(SOON_MS, clock_ms() - lost > 2 * CONNECT_MS);
    assert_false(atomic_load(&a->done));
    real_redis_restart(server);
    ASSERT_RESULT(acquiring_end(a, 2 * SOON_MS), TL_OK);
}

/* Its key has as long to live as it was taken for. */
TEST(a_handed_lock_of_short_lifetime_is_released_after_an_outage_too) {
    tl_client *client = hasty_client_behind_gate();
    tl_lock *before = make_lock(client, KEY, AGES_MS);
    tl_lock *first = by_hand(client, AGES_MS), *second = by_hand(client, 50);
    ASSERT_RESULT(tl_lock_acquire(before, SOON_MS, &said), TL_OK);
    acquiring *a = acquiring_begin(first, TL_FOREVER);
    WAIT_FOR(SOON_MS, queue_behind(before) == 1);
    acquiring *b = acquiring_begin(second, TL_FOREVER);
    WAIT_FOR(SOON_MS, queue_behind(before) == 2);
    tl_err code = tl_lock_release(before, &said);
    if (code != TL_EUNCERTAIN &&
        code != TL_EUNAVAILABLE) /* no answer in time: it is released all the same */
        ASSERT_RESULT(code, TL_OK);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
    first->taken = tl__mono_add_ms(first->taken, AGES_MS); /* it passes on however slow we are */
    ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(b, SOON_MS), TL_OK);
    assert_string_equal(tl_lock_token(second), tl_lock_token(first));
    proxy_stop(gate);
    assert_int_not_equal(tl_lock_release(second, &said), TL_OK);
    int64_t released = clock_ms();
    WAIT_FOR(SOON_MS, clock_ms() - released > 3 * ATTEMPT_MS);
    assert_true(key_exists());
    proxy_reset(gate); /* what was on its way is lost */
    proxy_heal(gate);
    WAIT_FOR(2 * SOON_MS, !key_exists());
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
