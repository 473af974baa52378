/*
 * Faults: the server goes away under a held lock, and comes back: the log says so, once each, and does not
 * fill with a connection that comes and goes.
 */
#include "arena.h"

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static int lost, back;
static char first_lost[512];

static void add(tl_log_level level, const char *line, void *ctx) {
    (void)ctx;
    (void)pthread_mutex_lock(&mutex);
    if (level == TL_LOG_WARNING && strstr(line, "is lost") && lost++ == 0)
        (void)snprintf(first_lost, sizeof first_lost, "%s", line);
    back += level == TL_LOG_WARNING && strstr(line, "connected again");
    (void)pthread_mutex_unlock(&mutex);
}

static int count(const int *what) {
    (void)pthread_mutex_lock(&mutex);
    int n = *what;
    (void)pthread_mutex_unlock(&mutex);
    return n;
}

static int set_up(void **state) {
    if (real_redis_pid(server) < 0)
        real_redis_restart(server);
    lost = back = 0;
    first_lost[0] = '\0';
    return arena_set_up(state);
}

TESTS_WITH(set_up, arena_tear_down);

static tl_client *logging_client(const char *url) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = url, .log = add));
}

static tl_lock *held(tl_client *client, lock_events *events) {
    tl_lock *lock = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = KEPT_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* The connections that it takes to be killed are there once it has been renewed. */
static void await_renewal(tl_lock *lock) {
    WAIT_FOR(KEPT_MS, tl_lock_remaining_ms(lock) < KEPT_MS * 3 / 4);
    WAIT_FOR(KEPT_MS, tl_lock_remaining_ms(lock) > KEPT_MS * 3 / 4);
}

TEST(a_server_that_dies_under_a_held_lock_is_logged_and_its_return_too) {
    tl_lock *lock = held(logging_client(real_redis_url(server)), make_events());
    await_renewal(lock);
    real_redis_kill(server);
    WAIT_FOR(SOON_MS, count(&lost) == 1);
    assert_non_null(strstr(first_lost, "1 held lock is lost: 127.0.0.1:"));
    real_redis_restart(server);
    WAIT_FOR(SOON_MS, count(&back) == 1);
    assert_int_equal(count(&lost), 1);
}

TEST(one_that_comes_and_goes_does_not_fill_the_log) {
    tl_client *client = logging_client(proxy_url(gate));
    int64_t began = clock_ms();
    tl_lock *lock = held(client, make_events());
    await_renewal(lock);
    for (int i = 0; i < 5; i++) {
        proxy_reset(gate);
        await_renewal(lock);
    }
    int64_t most = 1 + (clock_ms() - began) / 10000;
    assert_in_range(count(&lost), 1, most);
    assert_in_range(count(&back), 1, most);
}

TEST(without_a_held_lock_there_is_nothing_to_say) {
    tl_lock *lock = held(logging_client(proxy_url(gate)), make_events());
    await_renewal(lock);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    proxy_reset(gate);
    const clock_wait moment = clock_wait_begin(300); /* nothing tells when the loss is noticed */
    while (clock_wait_more(&moment))
        assert_int_equal(count(&lost) + count(&back), 0);
}

int main(void) {
    server = real_redis_start(&(real_redis_options){.persist = true});
    return tests_run();
}
