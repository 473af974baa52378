/*
 * Faults: connections that break while they log in, at every byte of what is heard and many of what
 * is said. A login that breaks once costs a moment; one that always breaks is unavailable, at the
 * limit.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - connection reset at each byte of a login: the client logs in again; UNAVAILABLE at the limit.
 */
#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define PASSWORD "correct-horse"
#define SAID                                                                                       \
    "*2\r\n$4\r\nAUTH\r\n$13\r\n" PASSWORD "\r\n*2\r\n$6\r\nSELECT\r\n$1\r\n1\r\n"                 \
    "*1\r\n$4\r\nTIME\r\n"
#define HEARD_LEAST "+OK\r\n+OK\r\n*2\r\n$10\r\n1700000000\r\n$1\r\n1\r\n"

static const arena_cut ways[] = {{PROXY_REQUESTS, sizeof SAID - 1, 5},
                                 {PROXY_REPLIES, sizeof HEARD_LEAST - 1, 1}};

/* Not connected yet. */
static tl_client *new_client(int db, int64_t connect_ms) {
    char url[64];
    (void)snprintf(url, sizeof url, "%s/%d", proxy_url(gate), db);
    return make_client_with(TL_CLIENT_OPTIONS(.url = url, .password = PASSWORD,
                                              .attempt_ms = SOON_MS, .connect_ms = connect_ms));
}

static tl_client *usual_client(void) {
    return new_client(1, SOON_MS);
}

static void refused_at_gate(tl_err code) {
    ASSERT_RESULT(code, TL_EUNAVAILABLE);
    ASSERT_SAID(proxy_url(gate) + strlen("redis://"));
    assert_null(strstr(said.message, PASSWORD));
}

TEST(a_login_that_breaks_once_is_made_again) {
    for (int w = 0; w < 2; w++)
        survives_one_reset(gate, &ways[w], usual_client);
}

TEST(a_login_that_always_breaks_is_unavailable) {
    for (int w = 0; w < 2; w++)
        for (size_t byte = 0; byte < ways[w].bytes; byte += ways[w].stride) {
            tl_client *client = new_client(1, CONNECT_MS);
            tl_lock *lock = by_hand(client, AGES_MS);
            proxy_break(gate, ways[w].way, byte, PROXY_RESET, PROXY_ALL);
            int64_t began = clock_ms();
            refused_at_gate(tl_client_ping(client, &said));
            ASSERT_TOOK(began, 0, CONNECT_MS + ATTEMPT_MS);
            began = clock_ms();
            refused_at_gate(tl_lock_acquire(lock, 20, &said));
            ASSERT_TOOK(began, 20, 20);
            drop_lock(lock);
            drop_client(client);
        }
    assert_false(has_executed("evalsha", 1));
}

TEST(a_login_that_gets_no_further_ends_at_its_limit) {
    static const size_t bytes[] = {0, 3, 6, 20};
    const int64_t connect_ms = clock_patient_ms(100);
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
        tl_lock *lock = by_hand(new_client(1, connect_ms), AGES_MS);
        proxy_break(gate, PROXY_REPLIES, bytes[i], PROXY_MUTE, 1);
        int64_t began = clock_ms();
        ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK); /* the next one gets through */
        ASSERT_TOOK(began, connect_ms, connect_ms);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        lock = by_hand(new_client(1, connect_ms), AGES_MS);
        proxy_break(gate, PROXY_REPLIES, bytes[i], PROXY_MUTE, PROXY_ALL);
        began = clock_ms();
        refused_at_gate(tl_lock_acquire(lock, 0, &said));
        if (!strstr(said.message,
                    "no reply in")) /* it didn't even come to connecting in so short a time */
            ASSERT_SAID("no reply to the login");
        ASSERT_TOOK(began, connect_ms, connect_ms + ATTEMPT_MS);
        proxy_heal(gate);
    }
}

static tl_lock *held(lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        new_client(0, CONNECT_MS), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* The connections are gone, and the new ones break while they log in. */
static void cut_off(void) {
    proxy_break(gate, PROXY_REPLIES, 7, PROXY_RESET, PROXY_ALL);
    proxy_reset(gate);
}

/* For a while, and for good. */
TEST(a_holder_that_cannot_log_in_again_is_told_in_time) {
    lock_events *events = make_events();
    tl_lock *lock = held(events, SAFE_MS);
    lock_event again;
    cut_off();
    (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
    proxy_heal(gate);
    WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
    release_hastily(lock, KEY);
    events = make_events();
    lock = held(events, BRIEF_MS);
    cut_off();
    assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_EXPIRED);
    int64_t began = clock_ms();
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    WAIT_FOR(BRIEF_MS + SLACK_MS, !key_exists()); /* nobody is there to release it */
    ASSERT_TOOK(began, 0, BRIEF_MS);
    proxy_heal(gate); /* its client asks as it closes */
}

int main(void) {
    server = real_redis_start(&(real_redis_options){.password = PASSWORD});
    return tests_run();
}
