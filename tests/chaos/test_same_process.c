/*
 * One process, two handles on one key: it is said that it holds the lock itself, a thread that would wait
 * for itself is told at once, and whoever may be waiting for another thread waits. Each is played in a
 * process of its own, whose threads are known.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks.h"
#include "real_redis.h"
#include "tests.h"

/* ThreadSanitizer gives each program one more. */
#if defined(__SANITIZE_THREAD__)
#define SANITIZER_HAS_THREAD true
#elif defined(__has_feature)
#define SANITIZER_HAS_THREAD __has_feature(thread_sanitizer)
#else
#define SANITIZER_HAS_THREAD false
#endif

#define LONG_MS 30000
#define SHORT_MS 100
#define ALREADY "acquire k: another handle of this process holds it already"

static real_redis *server;

typedef struct {
    tl_client *client;
    tl_lock *first, *second;
    tl_error err;
} pair;

static bool open_pair(pair *p, tl_lock_options options) {
    tl_client_options co = TL_CLIENT_OPTIONS(.url = real_redis_unix_url(server),
                                             .attempt_ms = LONG_MS, .connect_ms = LONG_MS);
    const int64_t ends_ms = options.max_hold_ms + options.stall_ms;
    options.ttl_ms = ends_ms ? 10 * ends_ms : LONG_MS;
    if (tl_client_open(&co, &p->client, &p->err))
        return false;
    p->first = tl_lock_new(p->client, "k", 1, &options, &p->err);
    p->second = tl_lock_new(p->client, "k", 1, NULL, &p->err);
    return p->first && p->second;
}

static void command(const char *text) {
    redisReply *reply = real_redis_command(server, text);
    assert_non_null(reply);
    freeReplyObject(reply);
}

/* The acquire fails so, for that reason. */
static bool refused(pair *p, tl_lock *lock, int64_t wait_ms, tl_err code) {
    p->err = (tl_error){.code = TL_OK};
    tl_err got = tl_lock_acquire(lock, wait_ms, &p->err);
    if (got == code && strcmp(p->err.message, ALREADY) == 0)
        return true;
    (void)fprintf(stderr, "%s: %s\n", tl_err_name(got), p->err.message);
    return false;
}

/* In a process of its own, which says by its exit status how it went. */
static void play(bool (*scene)(pair *p), tl_lock_options options) {
    pair p = {.client = NULL};
    int status = -1;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(open_pair(&p, options) && scene(&p) ? 0 : 1);
    WAIT_FOR(2 * LONG_MS, waitpid(pid, &status, WNOHANG) == pid);
    assert_int_equal(status, 0);
}

static bool try_and_wait(pair *p) {
    return tl_lock_acquire(p->first, 0, &p->err) == TL_OK && refused(p, p->second, 0, TL_EBUSY) &&
           refused(p, p->second, SHORT_MS, TL_ETIMEDOUT) &&
           tl_lock_release(p->first, &p->err) == TL_OK &&
           tl_lock_acquire(p->second, 0, &p->err) == TL_OK;
}

TEST(a_handle_is_told_that_its_process_holds_the_lock) {
    play(try_and_wait, TL_LOCK_OPTIONS());
}

static bool wait_for_oneself(pair *p) {
    return tl_lock_acquire(p->first, TL_FOREVER, &p->err) == TL_OK &&
           refused(p, p->second, TL_FOREVER, TL_EBUSY) && tl_lock_state(p->first) == TL_HELD &&
           tl_lock_release(p->first, &p->err) == TL_OK &&
           tl_lock_acquire(p->second, TL_FOREVER, &p->err) == TL_OK &&
           refused(p, p->first, TL_FOREVER, TL_EBUSY);
}

TEST(the_only_thread_does_not_wait_for_itself) {
    if (SANITIZER_HAS_THREAD) {
        print_message("SKIP: ThreadSanitizer calls it a deadlock\n");
        skip();
    }
    play(wait_for_oneself, TL_LOCK_OPTIONS());
}

/* ---- what may end by itself is waited for ------------------------------------------------------ */

/* Behind what the main thread holds a third one waits for a moment: by then the second does, too. */
static void *release_first_handle(void *arg) {
    pair *p = arg;
    tl_lock *third = tl_lock_new(p->client, "k", 1, NULL, NULL);
    if (tl_lock_acquire(third, SHORT_MS, NULL) == TL_ETIMEDOUT)
        (void)tl_lock_release(p->first, NULL);
    tl_lock_free(third);
    return NULL;
}

static bool hand_over_to_a_thread(pair *p) {
    pthread_t thread;
    return tl_lock_acquire(p->first, 0, &p->err) == TL_OK &&
           pthread_create(&thread, NULL, release_first_handle, p) == 0 &&
           tl_lock_acquire(p->second, TL_FOREVER, &p->err) == TL_OK &&
           pthread_join(thread, NULL) == 0;
}

TEST(what_another_thread_may_release_is_waited_for) {
    play(hand_over_to_a_thread, TL_LOCK_OPTIONS());
}

static bool outlast(pair *p) {
    return tl_lock_acquire(p->first, 0, &p->err) == TL_OK &&
           tl_lock_acquire(p->second, TL_FOREVER, &p->err) == TL_OK &&
           tl_lock_state(p->first) == TL_LOST;
}

TEST(what_ends_by_itself_is_waited_for) {
    play(outlast, TL_LOCK_OPTIONS(.max_hold_ms = SHORT_MS));
    command("FLUSHALL");
    play(outlast, TL_LOCK_OPTIONS(.stall_ms = SHORT_MS));
}

/* ---- callbacks --------------------------------------------------------------------------------- */

static void released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock;
    (void)code;
    (void)err;
    (void)ctx;
}

/* On the keeper's thread: another key is had, and that ends what the main thread holds. */
static void release_first(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    pair *p = ctx;
    (void)lock;
    (void)err;
    if (code == TL_OK)
        (void)tl_lock_release_async(p->first, released, NULL, NULL);
}

static bool await_a_callback(pair *p) {
    tl_lock *gate = tl_lock_new(p->client, "gate", 4, NULL, &p->err);
    return gate && tl_lock_acquire(p->first, 0, &p->err) == TL_OK &&
           tl_lock_acquire_async(gate, TL_FOREVER, release_first, p, &p->err) == TL_OK &&
           tl_lock_acquire(p->second, TL_FOREVER, &p->err) == TL_OK;
}

/* Of another lock, which is lost by then. */
static void release_held(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    pair *p = ctx;
    (void)lock;
    if (event->state == TL_LOST)
        (void)tl_lock_release_async(p->first, released, NULL, NULL);
}

static bool await_an_event(pair *p) {
    tl_lock_options o = TL_LOCK_OPTIONS(.max_hold_ms = SHORT_MS, .on_event = release_held,
                                        .ctx = p);
    tl_lock *other = tl_lock_new(p->client, "gate", 4, &o, &p->err);
    bool had = other && tl_lock_acquire(p->first, 0, &p->err) == TL_OK &&
               tl_lock_acquire(other, 0, &p->err) == TL_OK &&
               tl_lock_acquire(p->second, TL_FOREVER, &p->err) == TL_OK;
    tl_lock_free(other);
    return had;
}

TEST(what_another_locks_event_may_release_is_waited_for) {
    play(await_an_event, TL_LOCK_OPTIONS());
}

/* Somebody else has the other key for a moment, so that the callback comes while the main thread waits. */
TEST(what_a_callback_may_release_is_waited_for) {
    command("SET gate other PX 500");
    play(await_a_callback, TL_LOCK_OPTIONS());
}

/* Of another client, whose thread is no thread of the program but may call it. */
static bool await_another_client(pair *p) {
    tl_client_options co = TL_CLIENT_OPTIONS(.url = real_redis_unix_url(server));
    tl_lock_options o = TL_LOCK_OPTIONS(.max_hold_ms = SHORT_MS, .on_event = release_held,
                                        .ctx = p);
    tl_client *client = NULL;
    tl_lock *other = tl_client_open(&co, &client, &p->err) == TL_OK
                         ? tl_lock_new(client, "gate", 4, &o, &p->err)
                         : NULL;
    bool had = other && tl_lock_acquire(p->first, 0, &p->err) == TL_OK &&
               tl_lock_acquire(other, 0, &p->err) == TL_OK &&
               tl_lock_acquire(p->second, TL_FOREVER, &p->err) == TL_OK;
    tl_lock_free(other);
    tl_client_close(client);
    return had;
}

TEST(what_another_clients_event_may_release_is_waited_for) {
    play(await_another_client, TL_LOCK_OPTIONS());
}

static int start(void **state) {
    (void)state;
    server = real_redis_start(NULL);
    return 0;
}

static int flush(void **state) {
    (void)state;
    command("FLUSHALL");
    return 0;
}

TESTS_WITH(flush, NULL);

int main(void) {
    return tests_run_group("tests", 0, start, NULL);
}
