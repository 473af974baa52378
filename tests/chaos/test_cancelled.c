/*
 * pthread_cancel of a thread that is in a call: one that waits for a lock ends, as by tl_lock_cancel, and leaves nothing behind;
 * all other calls come to their end first. The others of its client go on.
 */
#include <poll.h>
#include <pthread.h>
#include <unistd.h>

#include "arena.h"
#include "queue_look.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define RACES 40

typedef struct {
    tl_lock *lock;
    int64_t wait_ms;
    tl_err code;
    bool returned;
} waiting;

static void *wait_for_it(void *ctx) {
    waiting *w = ctx;
    w->code = tl_lock_acquire(w->lock, w->wait_ms, NULL);
    w->returned = true;
    for (;;)
        (void)poll(NULL, 0, 1000); /* until it is cancelled */
    return NULL;
}

static void cancel(pthread_t thread) {
    void *result = NULL;
    assert_int_equal(pthread_cancel(thread), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
}

static void assert_goes_on(tl_client *client, tl_lock *cancelled) {
    tl_lock *lock = make_lock(client, KEY, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(cancelled, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(cancelled, &said), TL_OK);
    drop_lock(lock);
    drop_lock(cancelled);
}

/* In the local queue, and in the server's. */
TEST(who_waits_for_a_lock_ends_at_once_and_is_in_nobodys_way) {
    for (int own = 0; own < 2; own++) {
        tl_client *client = client_direct();
        tl_lock *holder = make_lock(own ? client : client_direct(), KEY, TTL_MS);
        waiting w = {.lock = make_lock(client, KEY, TTL_MS), .wait_ms = TL_FOREVER};
        pthread_t thread;
        ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
        (void)poll(NULL, 0, 50);
        cancel(thread);
        assert_false(w.returned);
        ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
        drop_lock(holder);
        assert_goes_on(client, w.lock);
    }
}

/* There the keeper's thread asks. */
TEST(who_waits_for_the_votes_of_several_servers_ends_too) {
    char url[120];
    real_redis *more[2] = {real_redis_start(NULL), real_redis_start(NULL)};
    (void)snprintf(url, sizeof url, "redis+quorum://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   real_redis_port(server), real_redis_port(more[0]), real_redis_port(more[1]));
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = url, .attempt_ms = SOON_MS,
                                                           .connect_ms = SOON_MS,
                                                           .quiet_ms = TL_QUIET_OFF));
    tl_lock *holder = make_lock(client, KEY, TTL_MS);
    waiting w = {.lock = make_lock(client, KEY, TTL_MS), .wait_ms = TL_FOREVER};
    pthread_t thread;
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    (void)poll(NULL, 0, 50);
    cancel(thread);
    assert_false(w.returned);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    drop_lock(holder);
    assert_goes_on(client, w.lock);
    drop_client(client);
    real_redis_free(more[0]);
    real_redis_free(more[1]);
}

/* For the reply of a server that doesn't answer. */
TEST(who_waits_for_a_reply_ends_too) {
    tl_client *client = client_direct();
    waiting w = {.lock = make_lock(client, KEY, TTL_MS), .wait_ms = 60000};
    pthread_t thread;
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    real_redis_freeze(server);
    assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
    (void)poll(NULL, 0, 50);
    cancel(thread);
    assert_false(w.returned);
    real_redis_thaw(server);
    assert_goes_on(client, w.lock);
}

/* At any moment, also as it acquires the lock: then it doesn't hold it, or has returned. */
TEST(a_lock_that_was_acquired_as_its_thread_was_cancelled_is_released) {
    tl_client *client = client_direct();
    for (int i = 0; i < RACES; i++) {
        waiting w = {.lock = make_lock(client, KEY, TTL_MS), .wait_ms = TL_FOREVER};
        pthread_t thread;
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
        if (i % 4)
            (void)usleep((useconds_t)(i * 20));
        cancel(thread);
        assert_int_equal(tl_lock_remaining_ms(w.lock) > 0, w.returned && w.code == TL_OK);
        if (w.returned)
            ASSERT_RESULT(tl_lock_release(w.lock, &said), TL_OK);
        assert_goes_on(client, w.lock);
    }
}

static tl_lock *held_for_an_hour(tl_client *client) {
    return make_lock_with(client, KEY, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .min_hold_ms = HOUR_MS));
}

/* Nothing was done under it. It is handed over within the process, to a thread that is cancelled before it runs again. */
TEST(a_lock_that_was_acquired_as_its_thread_was_cancelled_does_not_rest) {
    tl_client *client = client_direct();
    int unused = 0;
    for (int i = 0; i < RACES / 2; i++) {
        tl_lock *before = make_lock(client, KEY, TTL_MS), *first = make_lock(client, KEY, TTL_MS);
        waiting w = {.lock = held_for_an_hour(client), .wait_ms = TL_FOREVER};
        pthread_t thread;
        ASSERT_RESULT(tl_lock_acquire(before, SOON_MS, &said), TL_OK);
        acquiring *a = acquiring_begin(first, TL_FOREVER);
        WAIT_FOR(SOON_MS, standing(first) == TL_QUEUED);
        assert_int_equal(pthread_create(&thread, NULL, wait_for_it, &w), 0);
        WAIT_FOR(SOON_MS, standing(w.lock) == TL_QUEUED);
        ASSERT_RESULT(tl_lock_release(before, &said), TL_OK);
        ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
        ASSERT_RESULT(tl_lock_release(first, &said), TL_OK);
        cancel(thread);
        unused += !w.returned;
        if (w.returned) {
            ASSERT_RESULT(tl_lock_release(w.lock, &said), TL_OK);
            assert_true(rest_end_us(server, KEY) > 0);
            run("DEL " KEY " tidelock:{" KEY "}");
        }
        assert_free_soon();
        drop_lock(before);
        drop_lock(first);
        drop_lock(w.lock);
    }
    print_message("%d of %d were cancelled before they returned\n", unused, RACES / 2);
}

/* As much as the header asks for. What overflows it meets the guard page. */
TEST(a_small_stack_is_enough) {
    tl_client *client = client_direct();
    waiting w = {.lock = make_lock(client, KEY, TTL_MS), .wait_ms = SOON_MS};
    pthread_attr_t attr;
    pthread_t thread;
    assert_int_equal(pthread_attr_init(&attr), 0);
    assert_int_equal(pthread_attr_setstacksize(&attr, 256 * 1024), 0);
    assert_int_equal(pthread_create(&thread, &attr, wait_for_it, &w), 0);
    (void)pthread_attr_destroy(&attr);
    WAIT_FOR(SOON_MS, tl_lock_state(w.lock) == TL_HELD);
    cancel(thread);
    ASSERT_RESULT(tl_lock_release(w.lock, &said), TL_OK);
}

static void look_for_a_cancellation(tl_log_level level, const char *line, void *ctx) {
    (void)level, (void)line, (void)ctx;
    pthread_testcancel();
}

static void count(const void *key, size_t n, const tl_lock_info *info, void *ctx) {
    (void)key, (void)n, (void)info;
    ++*(int *)ctx;
    pthread_testcancel();
}

/* Each call with a cancellation that is due: no poll, no read, no function of the program's may be where the thread ends. */
static void *call_all(void *ctx) {
    const char **last = ctx;
    tl_client *client;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                            .log = look_for_a_cancellation, .trace = true);
    tl_lock_info info = {.size = sizeof info};
    tl_stats stats = {.size = sizeof stats};
    uint64_t cursor = 0;
    int found = 0;
    (void)pthread_cancel(pthread_self());
#define CALL(what)                                                                                 \
    do {                                                                                           \
        *last = #what;                                                                             \
        (void)(what);                                                                              \
    } while (0)
    CALL(tl_client_open(&o, &client, NULL));
    CALL(tl_client_ping(client, NULL));
    CALL(tl_client_look(client, KEY, strlen(KEY), &info, NULL));
    CALL(tl_client_scan(client, NULL, &cursor, count, &found, NULL));
    CALL(tl_client_stats(client, &stats, NULL));
    tl_lock *lock = tl_lock_new(client, KEY, strlen(KEY), NULL, NULL);
    CALL(tl_lock_adopt(lock, "token", NULL));
    CALL(tl_lock_extend(lock, TTL_MS, NULL));
    CALL(tl_lock_release(lock, NULL));
    CALL(tl_client_break(client, KEY, strlen(KEY), NULL, NULL));
    CALL((tl_lock_cancel(lock), 0));
    CALL((tl_lock_free(lock), 0));
    CALL((tl_client_close(client), 0));
    *last = NULL;
    pthread_testcancel();
    return NULL;
}

TEST(other_calls_come_to_their_end) {
    const char *last = "none";
    void *result = NULL;
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, call_all, &last), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    if (last)
        fail_msg("it ended in %s", last);
}

/* A thread that is cancelled within a call that ThreadSanitizer wraps never comes out of it for that: the locks that it takes
 * as it ends aren't seen. */
#if defined(__SANITIZE_THREAD__)
#define SEES_LOCKS false
#elif defined(__has_feature)
#define SEES_LOCKS !__has_feature(thread_sanitizer)
#else
#define SEES_LOCKS true
#endif

int main(void) {
    if (!SEES_LOCKS) {
        (void)fputs("SKIP: ThreadSanitizer sees no locks of a thread that is cancelled\n", stderr);
        return 77;
    }
    server = real_redis_start(NULL);
    return tests_run();
}
