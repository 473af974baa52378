/*
 * Faults: the server's name takes long to resolve, or can't be resolved. No call waits for it beyond
 * its limit, and a name that is known again is found.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - a name that resolves slowly, is not known, or whose name service is down: UNAVAILABLE "resolve ... no reply in",
 *   "no such host".
 */
#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>

#include "arena.h"
#include "names_as.h"
#include "thread_count.h"

#define HOST "redis.example"

static atomic_int begun, ended;
static atomic_bool hanging; /* a lookup doesn't return while this is so */
static atomic_int result;   /* what it returns then; 0: the address */

static int look_up(const char *host, const char *service, const struct addrinfo *hints,
                   struct addrinfo **ret) {
    (void)host;
    atomic_fetch_add(&begun, 1);
    while (atomic_load(&hanging))
        (void)poll(NULL, 0, 1);
    int code = atomic_load(&result);
    if (code == 0)
        code = getaddrinfo("127.0.0.1", service, hints, ret);
    atomic_fetch_add(&ended, 1);
    return code;
}

static int threads_before;

static int set_up(void **state) {
    threads_before = thread_count();
    atomic_store(&begun, 0);
    atomic_store(&ended, 0);
    atomic_store(&hanging, false);
    atomic_store(&result, 0);
    names_as(look_up);
    return arena_set_up(state);
}

/* No lookup outlives the test. */
static int tear_down(void **state) {
    int failed = arena_tear_down(state);
    atomic_store(&hanging, false);
    const clock_wait limit = clock_wait_begin(SOON_MS);
    while (atomic_load(&ended) < atomic_load(&begun) && clock_wait_more(&limit)) {}
    names_as(NULL);
    /* What one leaves is a leak. */
    while (thread_count() > threads_before && clock_wait_more(&limit)) {}
    return failed || atomic_load(&ended) < atomic_load(&begun);
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_by_name(void) {
    char url[64];
    (void)snprintf(url, sizeof url, "redis://" HOST ":%d", proxy_port(gate));
    return hasty_client_at(url);
}

static tl_client *patient_client_by_name(void) {
    char url[64];
    (void)snprintf(url, sizeof url, "redis://" HOST ":%d", proxy_port(gate));
    return client_at(url);
}

static tl_lock *watched(tl_client *client, lock_events *events, int64_t ttl_ms) {
    tl_lock *lock = make_lock_with(
        client, KEY, TL_LOCK_OPTIONS(.ttl_ms = ttl_ms, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

TEST(a_name_that_takes_long_is_waited_for) {
    tl_lock *lock = by_hand(client_by_name(), AGES_MS);
    atomic_store(&hanging, true);
    acquiring *waiter = acquiring_begin(lock, 10 * SOON_MS);
    WAIT_FOR(SOON_MS, atomic_load(&begun) > 0);
    const clock_wait longer_than_connecting_may = clock_wait_begin(CONNECT_MS + 100);
    while (clock_wait_more(&longer_than_connecting_may))
        assert_false(atomic_load(&waiter->done));
    atomic_store(&hanging, false);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    release_hastily(lock, KEY);
}

TEST(a_name_that_takes_too_long_is_unavailable_in_time) {
    char words[96];
    tl_client *client = client_by_name();
    tl_lock *lock = by_hand(client, AGES_MS);
    tl_lock_info info = {.size = sizeof info};
    atomic_store(&hanging, true);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_client_ping(client, &said), TL_EUNAVAILABLE);
    (void)snprintf(words, sizeof words, "resolve " HOST ": no reply in %d ms", (int)CONNECT_MS);
    ASSERT_SAID(words);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("resolve " HOST ": no reply in");
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS + ATTEMPT_MS);
    began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock, 150, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("resolve " HOST ": no reply in");
    ASSERT_TOOK(began, 150, 150);
    began = clock_ms();
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, CONNECT_MS + ATTEMPT_MS);
    WAIT_FOR(SOON_MS, atomic_load(&begun) > 0); /* in a thread that a busy machine holds up */
    drop_lock(lock);
    began = clock_ms();
    drop_client(client); /* the lookup still hangs */
    ASSERT_TOOK(began, 0, ATTEMPT_MS);
    assert_int_equal(atomic_load(&ended), 0);
    assert_in_range(atomic_load(&begun), 1, 2); /* it is not asked again and again */
}

/* The limit may cut the last look short, or the only one. */
static void unresolved_to_limit(tl_lock *lock, int64_t wait_ms) {
    for (int i = 0; i < 20; i++) {
        int64_t began = clock_ms();
        ASSERT_RESULT(tl_lock_acquire(lock, wait_ms, &said), TL_EUNAVAILABLE);
        ASSERT_TOOK(began, wait_ms, wait_ms);
        if (!strstr(said.message, "no reply in"))
            return;
    }
}

TEST(a_name_that_cannot_be_resolved_is_said_and_found_later) {
    static const struct {
        int result;
        const char *words;
        int sys_errno;
    } cases[] = {{EAI_NONAME, "resolve " HOST ": no such host", ENOENT},
                 {EAI_AGAIN, "resolve " HOST ": the name service does not answer", EAGAIN},
                 {EAI_FAIL, "resolve " HOST ": ", EIO}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tl_client *client = patient_client_by_name();
        tl_lock *lock = by_hand(client, AGES_MS);
        atomic_store(&result, cases[i].result);
        ASSERT_RESULT(tl_client_ping(client, &said), TL_EUNAVAILABLE);
        ASSERT_SAID(cases[i].words);
        unresolved_to_limit(lock, 200);
        ASSERT_SAID(cases[i].words);
        assert_int_equal(said.sys_errno, cases[i].sys_errno);
        acquiring *waiter = acquiring_begin(lock, 10 * SOON_MS);
        int asked = atomic_load(&begun);
        WAIT_FOR(SOON_MS, atomic_load(&begun) > asked + 1);
        atomic_store(&result, 0);
        ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

/* Nobody knows it: two looks, whatever the limit. While the name service is away, the limit counts. */
TEST(trying_once_with_an_unknown_name_is_over_at_once) {
    char url[64];
    (void)snprintf(url, sizeof url, "redis://" HOST ":%d", proxy_port(gate));
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = url, .connect_ms = 60000));
    atomic_store(&result, EAI_NONAME);
    ASSERT_RESULT(tl_lock_acquire(by_hand(client, AGES_MS), 0, &said), TL_EUNAVAILABLE);
    assert_int_equal(said.sys_errno, ENOENT);
    assert_int_equal(atomic_load(&begun), 2);
    atomic_store(&result, EAI_AGAIN);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(by_hand(client_by_name(), AGES_MS), 0, &said), TL_EUNAVAILABLE);
    ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS);
}

#define CALLERS 20

static void *ask_in_vain(void *client) {
    (void)tl_client_ping(client, NULL);
    (void)tl_client_ping(client, NULL);
    return NULL;
}

/* However many connections there are, and also when those who asked first have given up. */
TEST(a_name_that_hangs_is_looked_up_once) {
    tl_client *client = client_by_name();
    pthread_t caller[CALLERS];
    int before = thread_count();
    atomic_store(&hanging, true);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_create(&caller[i], NULL, ask_in_vain, client), 0);
    for (int i = 0; i < CALLERS; i++)
        assert_int_equal(pthread_join(caller[i], NULL), 0);
    WAIT_FOR(SOON_MS, atomic_load(&begun) > 0);
    WAIT_FOR(SOON_MS, thread_count() <= before + 1); /* the callers' are just ending */
    assert_int_equal(atomic_load(&begun), 1);
    atomic_store(&hanging, false);
    WAIT_FOR(SOON_MS, tl_client_ping(client, &said) == TL_OK);
    drop_client(client);
    WAIT_FOR(SOON_MS, thread_count() <= before); /* none is left when it is closed */
}

static void lose_the_name(bool hangs) {
    atomic_store(&hanging, hangs);
    atomic_store(&result, hangs ? 0 : EAI_AGAIN);
    proxy_reset(gate);
}

static void have_the_name(void) {
    atomic_store(&hanging, false);
    atomic_store(&result, 0);
}

/* Its connections are gone, and the name can't be had: for a while, and for good. */
TEST(a_holder_without_a_name_goes_on_or_is_told_in_time) {
    for (int i = 0; i < 2; i++) {
        lock_events *events = make_events();
        tl_lock *lock = watched(client_by_name(), events, SAFE_MS);
        lock_event again;
        lose_the_name(i == 0);
        (void)lock_events_await(events, TL_AT_RISK, SOON_MS);
        have_the_name();
        WAIT_FOR(SOON_MS, lock_events_find(events, 1, TL_HELD, &again));
        assert_belief_is_true(lock);
        release_hastily(lock, KEY);
        events = make_events();
        lock = watched(client_by_name(), events, BRIEF_MS);
        lose_the_name(i == 0);
        assert_int_equal(lock_events_await(events, TL_LOST, SOON_MS).why, TL_LOST_EXPIRED);
        int64_t began = clock_ms();
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        assert_free_soon();
        ASSERT_TOOK(began, 0, BRIEF_MS);
        have_the_name();
    }
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
