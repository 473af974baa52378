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
        TL_LOCK_OPTIONS(.ttl_ms = SAFE_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

/* The connections that it takes to be killed are there once it has been renewed: within a second of the acquire. */
static void await_renewal(tl_client *client) {
    const uint64_t before = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) > before);
}

/* Another lock of the client is held until it has been renewed, over a connection that is there again. One that was asked for
 * twice would be renewed later. */
static void renew_another(tl_client *client) {
    tl_lock *other = make_lock(client, "chaos:other", SAFE_MS);
    (void)connected(client);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    await_renewal(client);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    drop_lock(other);
}

TEST(a_server_that_dies_under_a_held_lock_is_logged_and_its_return_too) {
    tl_client *client = logging_client(real_redis_url(server));
    (void)held(client, make_events());
    await_renewal(client);
    real_redis_kill(server);
    WAIT_FOR(SOON_MS, count(&lost) == 1);
    assert_non_null(strstr(first_lost, "1 held lock is lost: 127.0.0.1:"));
    real_redis_restart(server);
    renew_another(client);
    WAIT_FOR(SOON_MS, count(&back) == 1);
    assert_int_equal(count(&lost), 1);
}

TEST(one_that_comes_and_goes_does_not_fill_the_log) {
    tl_client *client = logging_client(proxy_url(gate));
    int64_t began = clock_ms();
    (void)held(client, make_events());
    await_renewal(client);
    for (int i = 0; i < 5; i++) {
        proxy_reset(gate);
        renew_another(client);
    }
    int64_t most = 1 + (clock_ms() - began) / 10000;
    assert_in_range(count(&lost), 1, most);
    assert_in_range(count(&back), 1, most);
}

TEST(without_a_held_lock_there_is_nothing_to_say) {
    tl_client *client = logging_client(proxy_url(gate));
    tl_lock *lock = held(client, make_events());
    await_renewal(client);
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
