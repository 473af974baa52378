/*
 * What the machines count on is asserted in the library that tests are linked with: whoever feeds one what isn't for it is
 * aborted.
 */
#include "feed.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/attempt.h"
#include "protocol/settle.h"

static void assert_aborts(void (*does)(void)) {
    int status = 0;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        (void)signal(SIGABRT, SIG_DFL); /* the test's own handler reports */
        (void)freopen("/dev/null", "w", stderr);
        does();
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
}

static void end_by_a_reply(void) {
    tl_result machine = {0};
    tl_out out;
    const tl_event reply = {.kind = TL_REPLY};
    (void)tl__end_failed(&machine, &reply, false, &out);
}

static void acquire_by_settling(void) {
    static tl_settle m;
    const tl_job job = feed_job();
    tl__settle_init(&m, &job, TL_ACQUIRE, feed_ms(0), 1);
}

static void reach_by_a_reply(void) {
    tl_retrier retry = {.doing = TL_REACHES};
    const tl_event reply = {.kind = TL_REPLY};
    (void)tl__retry_unreached(&retry, &reply, false);
}

static void wait_twice(void) {
    static const tl_retry strategy = {.kind = TL_RETRY_AUTO};
    tl_retrier retry = tl__retry_init(&strategy, 1000, 1000, 7);
    tl__retry_begin(&retry, feed_ms(0));
    tl__retry_begin(&retry, feed_ms(1));
}

static void find_a_renewal_busy(void) {
    tl_try renewal = {.result = {.op = TL_RENEW}};
    const tl_event reply = {.kind = TL_REPLY};
    (void)tl__try_busy(&renewal, &reply, 1);
}

static void lose_what_is_acquired(void) {
    tl_try acquire = {.result = {.op = TL_ACQUIRE}};
    tl_out out;
    (void)tl__try_not_renewed(&acquire, 0, &out);
}

TEST(a_result_of_another_operation_is_none_to_write) {
    assert_aborts(find_a_renewal_busy);
    assert_aborts(lose_what_is_acquired);
}

TEST(an_event_of_another_kind_is_none_to_read) {
    assert_aborts(end_by_a_reply);
    assert_aborts(reach_by_a_reply);
}

TEST(a_machine_for_two_operations_does_no_third) {
    assert_aborts(acquire_by_settling);
}

TEST(a_wait_begins_once) {
    assert_aborts(wait_twice);
}
