/*
 * Faults: this side has no descriptors or threads left, or the server's socket is not there. Each is
 * said in its own words, and what was refused works as soon as it can.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - no descriptors left (RLIMIT_NOFILE): NOMEM "too many open files"; no thread for the renewal: NOMEM "threads",
 *   nothing is acquired.
 * - no socket at the path, or one without a listener: UNAVAILABLE "no such file", "connection refused", with errno.
 */
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "arena.h"

/* ---- descriptors ------------------------------------------------------------------------------- */

static struct rlimit had;

/* The next one would have the number of the limit. */
static void use_up_descriptors(void) {
    struct rlimit none = had;
    int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
    assert_true(next >= 0);
    (void)close(next);
    none.rlim_cur = (rlim_t)next;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
}

static void have_descriptors(void) {
    (void)setrlimit(RLIMIT_NOFILE, &had);
}

static int set_up(void **state) {
    (void)getrlimit(RLIMIT_NOFILE, &had);
    return arena_set_up(state);
}

static int tear_down(void **state) {
    have_descriptors();
    return arena_tear_down(state);
}

#define SCARCE_TEST(name) TEST_WITH(name, set_up, tear_down)
#define SOCKET_TEST(name) TEST_WITH(name, arena_set_up, restart)

SCARCE_TEST(a_client_cannot_be_opened_without_descriptors) {
    tl_client *client = NULL;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = real_redis_url(server));
    use_up_descriptors();
    tl_err code = tl_client_open(&options, &client, &said);
    have_descriptors();
    ASSERT_RESULT(code, TL_ENOMEM);
    ASSERT_SAID("descriptors");
    assert_int_equal(said.sys_errno, EMFILE);
    assert_null(client);
    ASSERT_RESULT(tl_client_ping(client_direct(), &said), TL_OK);
}

SCARCE_TEST(without_descriptors_nothing_connects_and_it_is_said_at_once) {
    tl_client *client = client_direct();
    tl_lock *lock = by_hand(client, AGES_MS), *before = by_hand(client, AGES_MS);
    tl_error err[3] = {0};
    tl_lock_cancel(before);
    ASSERT_RESULT(tl_lock_acquire(before, 0, &said), TL_ECANCELLED); /* has what a wait needs */
    int64_t began = clock_ms();
    use_up_descriptors();
    tl_err codes[] = {tl_client_ping(client, &err[0]), tl_lock_acquire(lock, 0, &err[1]),
                      tl_lock_acquire(lock, 10000, &err[2])};
    have_descriptors();
    ASSERT_TOOK(began, 0, 2 * (CONNECT_MS + ATTEMPT_MS));
    for (int i = 0; i < 3; i++) {
        said = err[i];
        ASSERT_RESULT(codes[i], TL_ENOMEM);
        ASSERT_SAID("too many open files");
        assert_int_equal(said.sys_errno, EMFILE);
        ASSERT_SAID(strstr(real_redis_url(server), "127."));
    }
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK); /* the same handles */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

SCARCE_TEST(a_wait_cannot_begin_without_descriptors) {
    tl_client *client = client_direct();
    tl_lock *lock = by_hand(client, AGES_MS);
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    use_up_descriptors();
    tl_err code = tl_lock_acquire(lock, 10000, &said);
    have_descriptors();
    ASSERT_RESULT(code, TL_ENOMEM);
    ASSERT_SAID("descriptors");
    ASSERT_RESULT(tl_lock_acquire(lock, 10000, &said), TL_OK);
}

/* What renews has a connection of its own, and can't get it: for a while, and for good. */
SCARCE_TEST(a_holder_goes_on_or_is_told_in_time) {
    for (int i = 0; i < 2; i++) {
        const int64_t ttl_ms = i ? BRIEF_MS : SAFE_MS;
        lock_events *events = make_events();
        tl_client *client = client_direct();
        tl_lock *first = make_lock(client, KEY, AGES_MS);
        tl_lock *lock = make_lock_with(
            client, KEY,
            TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
        lock_event seen;
        ASSERT_RESULT(tl_lock_acquire(first, SOON_MS, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
        use_up_descriptors();
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK); /* on the connection that is there */
        assert_told_of_risk(events, ttl_ms);
        if (i == 0)
            have_descriptors();
        WAIT_FOR(SOON_MS, lock_events_find(events, 1 - i, i ? TL_LOST : TL_HELD, &seen));
        if (i == 0) {
            assert_belief_is_true(lock);
            ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
            continue;
        }
        assert_int_equal(seen.why, TL_LOST_EXPIRED);
        have_descriptors();
        int64_t began = clock_ms();
        assert_free_soon();
        ASSERT_TOOK(began, 0, ttl_ms);
    }
}

/* ---- threads ------------------------------------------------------------------------------------- */

/* None can be had from here on: no stack is as large as the next one's. */
static void use_up_threads(pthread_attr_t *ret_had) {
    pthread_attr_t huge;
    assert_int_equal(pthread_getattr_default_np(ret_had), 0);
    assert_int_equal(pthread_attr_init(&huge), 0);
    assert_int_equal(pthread_attr_setstacksize(&huge, SIZE_MAX / 16 * 15), 0);
    assert_int_equal(pthread_setattr_default_np(&huge), 0);
    (void)pthread_attr_destroy(&huge);
}

static void have_threads(pthread_attr_t *before) {
    assert_int_equal(pthread_setattr_default_np(before), 0);
    (void)pthread_attr_destroy(before);
}

SCARCE_TEST(a_lock_that_nobody_could_keep_is_not_taken) {
    pthread_attr_t before;
    tl_lock *lock = make_lock(client_direct(), KEY, AGES_MS);
    use_up_threads(&before);
    tl_err code = tl_lock_acquire(lock, 0, &said);
    have_threads(&before);
    ASSERT_RESULT(code, TL_ENOMEM);
    ASSERT_SAID("threads");
    assert_false(key_exists());
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
}

SCARCE_TEST(a_token_that_nobody_could_keep_is_adopted_later) {
    pthread_attr_t before;
    tl_lock *first = by_hand(client_direct(), AGES_MS);
    tl_lock *lock = make_lock(client_direct(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(first, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_adopt(lock, tl_lock_token(first), &said), TL_OK);
    use_up_threads(&before);
    tl_err code = tl_lock_extend(lock, AGES_MS, &said);
    have_threads(&before);
    ASSERT_RESULT(code, TL_ENOMEM);
    ASSERT_SAID("threads");
    ASSERT_RESULT(tl_lock_extend(lock, AGES_MS, &said), TL_OK);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- sockets ----------------------------------------------------------------------------------- */

static int restart(void **state) {
    if (real_redis_pid(server) < 0)
        real_redis_restart(server);
    return arena_tear_down(state);
}

SOCKET_TEST(a_socket_that_is_not_there_is_waited_for) {
    tl_client *client = hasty_client_at(real_redis_unix_url(server));
    tl_lock *lock = by_hand(client, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    release_hastily(lock, KEY);
    real_redis_kill(server); /* and its socket is removed */
    ASSERT_RESULT(tl_client_ping(client, &said), TL_EUNAVAILABLE);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 300, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("no such file or directory");
    assert_int_equal(said.sys_errno, ENOENT);
    ASSERT_SAID(real_redis_socket(server));
    ASSERT_TOOK(began, 300, 300);
    acquiring *waiter = acquiring_begin(lock, 60000);
    real_redis_restart(server);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
    release_hastily(lock, KEY);
}

SOCKET_TEST(a_socket_that_nobody_listens_on_is_refused) {
    char aside[256];
    tl_lock *lock = by_hand(hasty_client_at(real_redis_unix_url(server)), AGES_MS);
    (void)snprintf(aside, sizeof aside, "%s.aside", real_redis_socket(server));
    assert_int_equal(link(real_redis_socket(server), aside), 0);
    real_redis_kill(server);
    assert_int_equal(rename(aside, real_redis_socket(server)), 0);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 300, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("connection refused");
    ASSERT_SAID(real_redis_socket(server));
    ASSERT_TOOK(began, 300, 300);
    acquiring *waiter = acquiring_begin(lock, 60000);
    real_redis_restart(server);
    ASSERT_RESULT(acquiring_end(waiter, 2 * SOON_MS), TL_OK);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
