/*
 * Java sees a lock that rests as held, until the end of the rest at least, though its clock is ahead.
 */
#include "legacy.h"
#include "tests.h"

#define KEY "rests"
#define AHEAD_MS (SKEW_MS - 15) /* as far as Java's clocks are off in all of these tests */
#define SHORT_MS 900            /* a rest that moves the stamp back, and one that moves it ahead */
#define LONG_MS 2500

static real_redis *server;
static service java = {.pid = -1, .wire = -1};

static int clean_up(void **state) {
    int failed = locks_clean_up(state);
    (void)service_kill(&java);
    (void)real_redis_int(server, "FLUSHALL");
    return failed;
}

TESTS_WITH(NULL, clean_up);

static bool java_acquires(void) {
    char line[LINE_SIZE];
    service_say(&java, "acquire " KEY);
    service_await(&java, line);
    return line[0] == 'y';
}

static void rests_for(tl_protocol_id protocol, int64_t ms) {
    java = java_peer(server, AHEAD_MS);
    tl_lock *lock = make_lock(
        make_client_with(legacy_client(real_redis_url(server), protocol, false)), KEY, LIFE_MS);
    const int64_t from_us = shared_us();
    ASSERT_RESULT(tl_lock_acquire(lock, FREE_MS + LATE_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, ms, &said), TL_OK);
    const clock_wait bound = clock_wait_begin(ms + LATE_MS);
    int64_t asked = 0, passed_us = 0;
    bool had = false;
    while (!had && clock_wait_more(&bound)) {
        asked++;
        had = java_acquires();
        passed_us = shared_us() - from_us;
    }
    assert_true(had);
    print_message("Java asked %lld times, and acquired it %lld ms after the end\n",
                  (long long)asked, (long long)(passed_us / 1000 - ms));
    assert_in_range(passed_us, ms * 1000, INT64_MAX);
    java_answers(&java, "release " KEY, "done");
    ASSERT_RESULT(tl_lock_acquire(lock, FREE_MS + LATE_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST(java_ahead_acquires_no_bridge_that_rests) {
    rests_for(TL_BRIDGE, LONG_MS);
}

TEST(java_ahead_acquires_no_bridge_that_rests_for_less_than_its_lifetime) {
    rests_for(TL_BRIDGE, SHORT_MS);
}

TEST(java_ahead_acquires_no_timestamp_that_rests) {
    rests_for(TL_TIMESTAMP, LONG_MS);
}

int main(void) {
    legacy_need_java();
    legacy_need_faketime();
    server = real_redis_start(NULL);
    return tests_run();
}
