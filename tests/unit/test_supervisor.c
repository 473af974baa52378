/* The process between `tidelock run` and its command: a command whose deadline has passed does not begin. */
#include "tests.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/supervisor.h"

#define TIMES 100 /* without the check the supervisor's KILL is sometimes the first */
#define FAR_MS 600000

static signals before;

static int set_up(void **state) {
    (void)state;
    return signals_begin(&before);
}

static int tear_down(void **state) {
    (void)state;
    sigprocmask(SIG_SETMASK, &before.old_mask, NULL);
    signals_end(&before);
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* The last report of the command, which writes a byte to `out` if it begins. */
static supervisor_report ended(int64_t until_ms, int out) {
    char text[] = "echo >&0000000000";
    char *argv[] = {"sh", "-c", text, NULL}, *env[] = {NULL};
    const supervisor_plan plan = {
        .signals = &before, .argv = argv, .env = env, .until_ms = until_ms};
    supervisor_report report = {.ended = false};
    int link;

    (void)snprintf(text, sizeof text, "echo >&%d", out);
    pid_t pid = supervisor_start(&plan, &link);
    assert_true(pid > 0);
    while (!report.ended || !report.empty) {
        struct pollfd p = {.fd = link, .events = POLLIN};
        assert_int_equal(poll(&p, 1, FAR_MS), 1);
        assert_int_equal(recv(link, &report, sizeof report, 0), sizeof report);
    }
    close(link);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    return report;
}

static bool has_begun(int pipe) {
    struct pollfd p = {.fd = pipe, .events = POLLIN};

    return poll(&p, 1, 0) == 1;
}

TEST(a_command_does_not_begin_after_its_deadline) {
    int begun[2];

    assert_int_equal(pipe(begun), 0);
    for (int i = 0; i < TIMES; i++) {
        supervisor_report report = ended(moment_ms(), begun[1]);
        assert_false(has_begun(begun[0]));
        assert_true(report.expired);
        assert_int_equal(report.ended_by, SIGKILL);
        assert_int_equal(report.start_failed, 0);
    }
    close(begun[0]);
    close(begun[1]);
}

TEST(before_its_deadline_it_begins) {
    int begun[2];

    assert_int_equal(pipe(begun), 0);
    supervisor_report report = ended(moment_ms() + FAR_MS, begun[1]);
    assert_true(has_begun(begun[0]));
    assert_false(report.expired);
    assert_int_equal(report.exit_status, 0);
    close(begun[0]);
    close(begun[1]);
}
