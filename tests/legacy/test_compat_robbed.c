/*
 * Java services that break what is assumed, one at a time: a clock far ahead, which takes what is
 * held; and a process that stands still until its lock is another's, and then deletes. The holder
 * hears of it, and two of tidelock's own never hold at once all the same.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "legacy.h"
#include "tests.h"

#define KEY "stolen"
#define AHEAD_MS 5000
#define ROBBERIES 2
#define TRIES 8 /* on a busy machine */
/* When a holder looks next, at the latest: a third of what the lock is good for. Nobody tells it
 * before that. */
#define NOTICE_MS ((LIFE_MS - SLACK_OF_JAVA_MS) / 3)

static real_redis *server;
static service java = {.pid = -1, .wire = -1};

typedef struct {
    pthread_mutex_t mutex;
    tl_lock_event event;
    int64_t at_us;
    bool lost;
} witness;

static witness seen = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int clean_up(void **state) {
    int failed = locks_clean_up(state);
    (void)service_kill(&java);
    (void)real_redis_int(server, "FLUSHALL");
    return failed;
}

TESTS_WITH(NULL, clean_up);

/* ---- holders ---------------------------------------------------------------------------------- */

static void on_event(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock;
    (void)ctx;
    (void)pthread_mutex_lock(&seen.mutex);
    if (event->state == TL_LOST && !seen.lost) {
        seen.event = *event;
        seen.at_us = shared_us();
        seen.lost = true;
    }
    (void)pthread_mutex_unlock(&seen.mutex);
}

static bool is_lost(void) {
    (void)pthread_mutex_lock(&seen.mutex);
    bool lost = seen.lost;
    (void)pthread_mutex_unlock(&seen.mutex);
    return lost;
}

/* How long this process or the server has stood still, at the longest between two looks. A holder that hears
 * of nothing must have that to show for it. */
static int64_t looked_us, still_us;

static void begin_to_look(void) {
    looked_us = shared_us();
    still_us = 0;
}

static bool look(void) {
    (void)real_redis_int(server, "EXISTS " KEY);
    int64_t now_us = shared_us();
    still_us = now_us - looked_us > still_us ? now_us - looked_us : still_us;
    looked_us = now_us;
    return true;
}

static bool stood_still(void) {
    return seen.event.why == TL_LOST_EXPIRED && still_us >= TURN_MS * 1000 / 2;
}

static tl_lock *ours(tl_protocol_id protocol, bool strict, bool manual) {
    seen.lost = false;
    return make_lock_with(make_client_with(legacy_client(real_redis_url(server), protocol, strict)),
                          KEY, TL_LOCK_OPTIONS(.on_event = on_event, .manual_renew = manual));
}

/* ---- a clock far ahead ------------------------------------------------------------------------ */

/* False: nothing was stolen. The holder stood still until its lock had expired; or it renewed the lock between Java's GET
 * and GETSET, so Java read another value than it had seen, and does not own the lock. */
static bool rob(tl_lock *lock, const char *who) {
    char line[LINE_SIZE];
    seen.lost = false;
    ASSERT_RESULT(tl_lock_acquire(lock, FREE_MS + LATE_MS, &said), TL_OK);
    int64_t least_us = shared_us();
    begin_to_look();
    service_say(&java, "acquire " KEY);
    service_await(&java, line);
    if (strncmp(line, "no", 2) == 0) {
        (void)tl_lock_release(lock, &said);
        (void)real_redis_int(server, "FLUSHALL");
        return false;
    }
    assert_int_equal(strncmp(line, "yes", 3), 0);
    WAIT_FOR(LIFE_MS + LATE_MS, look() && is_lost());
    int64_t noticed_ms = (seen.at_us - least_us) / 1000;
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    if (stood_still()) {
        (void)tl_lock_release(lock, &said);
        java_answers(&java, "release " KEY, "done");
        return false;
    }
    assert_int_equal(seen.event.why, TL_LOST_TAKEN);
    assert_true(seen.event.stolen);
    print_message("%s: noticed within %lld ms, thief_ahead_ms %lld of %d\n", who,
                  (long long)noticed_ms, (long long)seen.event.thief_ahead_ms, AHEAD_MS);
    /* Less by what has passed since, and no more than the clock is ahead. */
    const int64_t least_ms = noticed_ms < AHEAD_MS ? AHEAD_MS - noticed_ms - 1 : 0;
    assert_in_range(seen.event.thief_ahead_ms, least_ms, AHEAD_MS + 1);
    assert_in_range(noticed_ms, 0, NOTICE_MS + LATE_MS);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_int_equal(real_redis_int(server, "EXISTS " KEY), 1);
    java_answers(&java, "release " KEY, "done");
    return true;
}

static void robberies(tl_protocol_id protocol, bool strict, const char *who) {
    java = java_peer(server, AHEAD_MS);
    tl_lock *lock = ours(protocol, strict, false);
    int heard_of = 0;
    for (int i = 0; i < TRIES && heard_of < ROBBERIES; i++)
        heard_of += rob(lock, who);
    assert_int_equal(heard_of, ROBBERIES);
}

TEST(a_robbed_bridge_hears_by_how_much_the_robbers_clock_is_ahead) {
    robberies(TL_BRIDGE, false, "bridge");
}

TEST(a_robbed_timestamp_hears_by_how_much_the_robbers_clock_is_ahead) {
    robberies(TL_TIMESTAMP, false, "timestamp");
}

TEST(a_robbed_strict_hears_by_how_much_the_robbers_clock_is_ahead) {
    robberies(TL_TIMESTAMP, true, "strict");
}

/* ---- a late holder ---------------------------------------------------------------------------- */

/* Java takes, and stands still until its lock is ours. */
static tl_lock *take_over(tl_protocol_id protocol, bool strict, bool manual) {
    int status;
    java = java_peer(server, 0);
    java_answers(&java, "acquire " KEY, "yes");
    assert_int_equal(kill(java.pid, SIGSTOP), 0);
    assert_int_equal(waitpid(java.pid, &status, WUNTRACED), java.pid);
    tl_lock *lock = ours(protocol, strict, manual);
    ASSERT_RESULT(tl_lock_acquire(lock, FREE_MS + LATE_MS, &said), TL_OK);
    assert_int_equal(kill(java.pid, SIGCONT), 0);
    return lock;
}

/* Whoever stood still until nothing was left: all begins again. */
static void start_over(tl_lock *lock) {
    drop_lock(lock);
    (void)service_kill(&java);
    (void)real_redis_int(server, "FLUSHALL");
}

TEST(a_late_holders_delete_is_heard_of) {
    tl_lock *lock = NULL;
    int64_t least_us = 0;
    for (int i = 0; i < TRIES && (i == 0 || stood_still()); i++) {
        if (lock)
            start_over(lock);
        lock = take_over(TL_BRIDGE, false, false);
        least_us = shared_us();
        begin_to_look();
        java_answers(&java, "release " KEY, "done");
        WAIT_FOR(LIFE_MS + LATE_MS, look() && is_lost());
    }
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(seen.event.why, TL_LOST_GONE);
    assert_false(seen.event.stolen);
    print_message("late delete: noticed within %lld ms\n",
                  (long long)(seen.at_us - least_us) / 1000);
    assert_in_range((seen.at_us - least_us) / 1000, 0, NOTICE_MS + LATE_MS);
}

/* The first never looks, and so believes to its deadline; the second tries all the time. */
TEST(after_a_late_delete_no_second_of_ours_gets_in_beside_the_first) {
    tl_lock *first = take_over(TL_BRIDGE, false, true);
    tl_lock *second = make_lock_with(
        make_client_with(legacy_client(real_redis_url(server), TL_BRIDGE, false)), KEY,
        TL_LOCK_OPTIONS(.retry = TL_RETRY_FIXED, .retry_delay_ms = 1));
    java_answers(&java, "release " KEY, "done");
    assert_int_equal(real_redis_int(server, "EXISTS " KEY), 0);
    int64_t left_ms = tl_lock_remaining_ms(first);
    ASSERT_RESULT(tl_lock_acquire(second, FREE_MS + LATE_MS, &said), TL_OK);
    assert_int_equal(tl_lock_remaining_ms(first), 0);
    print_message("late delete with %lld ms left: the second waited for them\n",
                  (long long)left_ms);
}

/* To whom nobody tells of the delete, a Java that gets in within M of our last look can't be told from
 * one that raced with it and lost; then its own release is what is heard of. */
TEST(after_a_late_delete_the_next_java_is_heard_of_when_it_releases) {
    (void)take_over(TL_TIMESTAMP, true, false);
    java_answers(&java, "release " KEY, "done");
    java_answers(&java, "acquire " KEY, "yes");
    java_answers(&java, "release " KEY, "done");
    WAIT_FOR(LIFE_MS + LATE_MS, is_lost());
}

TEST(after_a_late_delete_the_next_java_is_heard_of_if_it_comes_later) {
    tl_lock *lock = NULL;
    for (int i = 0; i < TRIES && (i == 0 || stood_still()); i++) {
        if (lock)
            start_over(lock);
        lock = take_over(TL_TIMESTAMP, true, false);
        int64_t taken_us = shared_us();
        begin_to_look();
        java_answers(&java, "release " KEY, "done");
        WAIT_FOR(SKEW_MS + LATE_MS, look() && shared_us() - taken_us > (SKEW_MS + 1) * 1000);
        java_answers(&java, "acquire " KEY, "yes");
        WAIT_FOR(LIFE_MS + LATE_MS, look() && is_lost());
    }
    assert_int_not_equal(seen.event.why, TL_LOST_EXPIRED);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
}

int main(void) {
    legacy_need_java();
    legacy_need_faketime();
    server = real_redis_start(NULL);
    return tests_run();
}
