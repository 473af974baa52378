/*
 * The notifications of a command: which lines are about its watchdog, who may send them, and how the rest goes on to the
 * socket around this run, unchanged and without waiting.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests.h"

#include "lock/below.h"
#include "lock/notify.h"

#define NOBODY 65534
#define MANY 2000 /* messages; more than any socket has room for */

static notify n;
static int outer = -1; /* what stands around this run */

static int open_outer(void) {
    const struct sockaddr_un any = {.sun_family = AF_UNIX};
    struct sockaddr_un address;
    socklen_t length = sizeof address;
    char name[NOTIFY_NAME_SIZE];
    outer = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (outer < 0 || bind(outer, (const struct sockaddr *)&any, sizeof any.sun_family) ||
        getsockname(outer, (struct sockaddr *)&address, &length))
        return -1;
    (void)snprintf(name, sizeof name, "@%.*s",
                   (int)(length - offsetof(struct sockaddr_un, sun_path) - 1),
                   address.sun_path + 1);
    return setenv("NOTIFY_SOCKET", name, 1);
}

static int set_up(void **state) {
    (void)state;
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return open_outer() || notify_begin(&n);
}

static int tear_down(void **state) {
    (void)state;
    notify_end(&n);
    close(outer);
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* ---- a command's part -------------------------------------------------------------------------- */

/* By libsystemd's rules: '@' stands for the NUL of an abstract name. fd -1: none. */
static bool send_to(const char *name, const char *text, size_t size, int fd) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof fd)] = {0};
    notify_address address;
    struct iovec iov = {.iov_base = (void *)(uintptr_t)text, .iov_len = size};
    assert_true(notify_read_address(name, &address));
    struct msghdr m = {.msg_name = &address.address,
                       .msg_namelen = address.length,
                       .msg_iov = &iov,
                       .msg_iovlen = 1};
    if (fd >= 0) {
        m.msg_control = control;
        m.msg_controllen = sizeof control;
        struct cmsghdr *c = CMSG_FIRSTHDR(&m);
        c->cmsg_level = SOL_SOCKET;
        c->cmsg_type = SCM_RIGHTS;
        c->cmsg_len = CMSG_LEN(sizeof fd);
        memcpy(CMSG_DATA(c), &fd, sizeof fd);
    }
    int from = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool sent = sendmsg(from, &m, MSG_DONTWAIT) == (ssize_t)size;
    close(from);
    return sent;
}

static void send_text(const char *text) {
    assert_true(send_to(n.name, text, strlen(text), -1));
}

/* Read one, as of a command below this process. */
static notify_signs read_one(void) {
    notify_signs signs;
    assert_true(notify_read(&n, getpid(), "k", &signs));
    return signs;
}

/* What has arrived outside, with one thing attached of so many bytes; NULL: nothing. */
static const char *arrived_with(void *ret, size_t n_ret) {
    static char text[NOTIFY_TEXT_MAX + 1];
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(sizeof(struct ucred))];
    struct iovec iov = {.iov_base = text, .iov_len = sizeof text - 1};
    struct msghdr m = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    ssize_t got = recvmsg(outer, &m, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0)
        return NULL;
    text[got] = '\0';
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    if (c && ret)
        memcpy(ret, CMSG_DATA(c), n_ret);
    return text;
}

/* fd -1: it has none. */
static const char *arrived(int *ret_fd) {
    if (ret_fd)
        *ret_fd = -1;
    return arrived_with(ret_fd, sizeof *ret_fd);
}

static const char *arrived_from(struct ucred *ret) {
    return arrived_with(ret, sizeof *ret);
}

static void assert_arrived(const char *text) {
    const char *found = arrived(NULL);
    assert_non_null(found);
    assert_string_equal(found, text);
}

static void assert_nothing_arrived(void) {
    assert_null(arrived(NULL));
}

/* ---- lines ------------------------------------------------------------------------------------- */

TEST(lines_of_the_watchdog_are_sorted_out) {
    static const struct {
        const char *text, *rest, *kept;
        notify_signs signs;
    } cases[] = {
        {"WATCHDOG=1", "", "WATCHDOG=1", {.alive = true}},
        {"WATCHDOG=1\n", "", "WATCHDOG=1\n", {.alive = true}},
        {"READY=1\nWATCHDOG=1\nSTATUS=on",
         "READY=1\nSTATUS=on",
         "READY=1\nWATCHDOG=1\nSTATUS=on",
         {.alive = true}},
        {"WATCHDOG=trigger", "", "", {.stalled = true}},
        {"WATCHDOG_USEC=5000000\nSTATUS=slow", "STATUS=slow", "STATUS=slow", {.timeout = true}},
        {"WATCHDOG=2", "WATCHDOG=2", "WATCHDOG=2", {.alive = false}},
        {"WATCHDOG=10", "WATCHDOG=10", "WATCHDOG=10", {.alive = false}},
        {"XWATCHDOG=1", "XWATCHDOG=1", "XWATCHDOG=1", {.alive = false}},
        {"STATUS=WATCHDOG=1", "STATUS=WATCHDOG=1", "STATUS=WATCHDOG=1", {.alive = false}},
        {"STOPPING=1\nEXTEND_TIMEOUT_USEC=9\n",
         "STOPPING=1\nEXTEND_TIMEOUT_USEC=9\n",
         "STOPPING=1\nEXTEND_TIMEOUT_USEC=9\n",
         {.alive = false}},
        {"\n\nREADY=1\n", "\n\nREADY=1\n", "\n\nREADY=1\n", {.alive = false}},
        {"", "", "", {.alive = false}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (int keeps = 0; keeps < 2; keeps++) {
            char rest[64];
            notify_signs signs;
            const char *expected = keeps ? cases[i].kept : cases[i].rest;
            size_t size = notify_sort(cases[i].text, strlen(cases[i].text), keeps, &signs, rest);
            assert_int_equal(size, strlen(expected));
            assert_memory_equal(rest, expected, size);
            assert_int_equal(signs.alive, cases[i].signs.alive);
            assert_int_equal(signs.stalled, cases[i].signs.stalled);
            assert_int_equal(signs.timeout, cases[i].signs.timeout);
        }
}

TEST(addresses_are_paths_and_abstract_names) {
    char longest[120], beyond[121];
    notify_address address;
    memset(longest, 'x', sizeof longest);
    longest[0] = '/';
    longest[107] = '\0';
    memset(beyond, 'x', sizeof beyond);
    beyond[0] = '@';
    beyond[108] = '\0';
    assert_true(notify_read_address("/run/systemd/notify", &address));
    assert_true(notify_read_address("@x", &address));
    assert_int_equal(address.address.sun_path[0], '\0');
    assert_true(notify_read_address(longest, &address));
    assert_false(notify_read_address(beyond, &address));
    assert_false(notify_read_address("", &address));
    assert_false(notify_read_address("/", &address));
    assert_false(notify_read_address("@", &address));
    assert_false(notify_read_address("vsock:2:1234", &address));
}

/* ---- passing on -------------------------------------------------------------------------------- */

TEST(what_is_not_the_watchdogs_goes_on_unchanged) {
    assert_int_equal(n.name[0], '@');
    send_text("READY=1\nSTATUS=at work\nMAINPID=12");
    send_text("WATCHDOG=1");
    send_text("STOPPING=1\nWATCHDOG=1\n");
    assert_false(read_one().alive);
    assert_true(read_one().alive);
    assert_true(read_one().alive);
    notify_signs none;
    assert_false(notify_read(&n, getpid(), "k", &none));
    assert_arrived("READY=1\nSTATUS=at work\nMAINPID=12");
    assert_arrived("STOPPING=1\n");
    assert_nothing_arrived();
}

TEST(descriptors_go_on_with_their_message) {
    int ends[2], fd;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_true(send_to(n.name, "FDSTORE=1", 9, ends[1]));
    close(ends[1]);
    (void)read_one();
    const char *text = arrived(&fd);
    assert_non_null(text);
    assert_string_equal(text, "FDSTORE=1");
    struct pollfd p = {.fd = ends[0]};
    assert_int_equal(poll(&p, 1, 0), 0); /* it is open: ours alone is left */
    close(fd);
    assert_int_equal(poll(&p, 1, 0), 1);
    close(ends[0]);
}

/* A barrier ends when what is around has come to it; without that when it is read. */
TEST(a_barrier_ends_when_its_descriptor_is_closed) {
    for (int around = 1; around >= 0; around--) {
        int ends[2], fd = -1;
        if (!around)
            n.outer.length = 0;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_true(send_to(n.name, "BARRIER=1", 9, ends[1]));
        close(ends[1]);
        struct pollfd p = {.fd = ends[0]};
        assert_int_equal(poll(&p, 1, 0), 0);
        (void)read_one();
        assert_int_equal(poll(&p, 1, 0), !around);
        if (around) {
            assert_non_null(arrived(&fd));
            close(fd);
        }
        assert_int_equal(poll(&p, 1, 0), 1);
        close(ends[0]);
    }
}

/* So the sender waits for this run alone, also if the sign goes on. */
TEST(the_descriptor_of_a_sign_is_closed_when_it_is_read) {
    for (int goes_on = 0; goes_on < 2; goes_on++) {
        int ends[2], fd;
        n.feeds_outer = goes_on;
        assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
        assert_true(send_to(n.name, "WATCHDOG=1", 10, ends[1]));
        close(ends[1]);
        struct pollfd p = {.fd = ends[0]};
        assert_int_equal(poll(&p, 1, 0), 0);
        assert_true(read_one().alive);
        assert_int_equal(poll(&p, 1, 0), 1);
        close(ends[0]);
        assert_int_equal(arrived(&fd) != NULL, goes_on);
        assert_int_equal(fd, -1);
    }
}

/* Nobody outside reads: nothing waits, and what was sent first goes on first, as soon as there is room. */
TEST(a_reader_outside_that_hangs_delays_nothing) {
    char text[32];
    int sent = 0, i;
    while (sent < MANY && !notify_is_pending(&n)) {
        (void)snprintf(text, sizeof text, "STATUS=%d", sent++);
        send_text(text);
        (void)read_one();
    }
    assert_true(notify_is_pending(&n));
    send_text("WATCHDOG=1");
    assert_true(read_one().alive);
    struct pollfd p = {.fd = n.outer_fd, .events = POLLOUT};
    assert_int_equal(poll(&p, 1, 0), 0); /* nor would poll() turn and turn */
    for (i = 0; i < sent; i++) {
        (void)snprintf(text, sizeof text, "STATUS=%d", i);
        assert_arrived(text);
        notify_flush(&n);
    }
    assert_false(notify_is_pending(&n));
}

TEST(more_than_can_wait_is_dropped) {
    notify_signs signs;
    for (int i = 0; i < MANY; i++) {
        send_text("STATUS=again");
        assert_true(notify_read(&n, getpid(), "k", &signs));
    }
    assert_int_equal(n.pending_count, NOTIFY_PENDING_MAX);
}

/* Tidelock needs descriptors of its own to renew the lock. */
TEST(only_some_descriptors_wait) {
    _Alignas(struct cmsghdr) char control[CMSG_SPACE(100 * sizeof(int))] = {0};
    notify_address address;
    int fds[100], count = 0;
    for (int i = 0; i < 100; i++)
        fds[i] = outer;
    assert_true(notify_read_address(n.name, &address));
    struct iovec iov = {.iov_base = (char[]){"FDSTORE=1"}, .iov_len = 9};
    struct msghdr m = {.msg_name = &address.address,
                       .msg_namelen = address.length,
                       .msg_iov = &iov,
                       .msg_iovlen = 1,
                       .msg_control = control,
                       .msg_controllen = sizeof control};
    struct cmsghdr *c = CMSG_FIRSTHDR(&m);
    *c = (struct cmsghdr){
        .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS, .cmsg_len = CMSG_LEN(sizeof fds)};
    memcpy(CMSG_DATA(c), fds, sizeof fds);
    for (int i = 0; i < MANY && !notify_is_pending(&n); i++) {
        send_text("STATUS=again");
        (void)read_one();
    }
    for (int i = 0; i < 5; i++) {
        assert_int_equal(sendmsg(outer, &m, MSG_DONTWAIT), 9);
        (void)read_one();
    }
    for (int i = 0; i < n.pending_count; i++)
        count += n.pending[i].fd_count;
    assert_int_equal(count, 200);
    send_text("STATUS=one more");
    int before = n.pending_count;
    (void)read_one();
    assert_int_equal(n.pending_count, before + 1);
}

/* It has the same name, but is another socket. */
TEST(a_reader_outside_that_was_started_again_is_found) {
    send_text("READY=1");
    (void)read_one();
    assert_arrived("READY=1");
    close(outer);
    outer = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_int_equal(bind(outer, (const struct sockaddr *)&n.outer.address, n.outer.length), 0);
    send_text("STATUS=again");
    (void)read_one();
    assert_arrived("STATUS=again");
}

TEST(nobody_outside_is_no_harm) {
    close(outer);
    outer = -1;
    send_text("READY=1\nWATCHDOG=1");
    assert_true(read_one().alive);
    assert_false(notify_is_pending(&n));
}

TEST(signs_go_on_to_a_watchdog_around) {
    char pid[16];
    notify_end(&n);
    setenv("WATCHDOG_USEC", "3000000", 1);
    assert_int_equal(notify_outer_watchdog_us(), 3000000);
    (void)snprintf(pid, sizeof pid, "%ld", (long)getpid());
    setenv("WATCHDOG_PID", pid, 1);
    assert_int_equal(notify_outer_watchdog_us(), 3000000);
    assert_int_equal(notify_begin(&n), 0);
    send_text("WATCHDOG=1");
    send_text("WATCHDOG=trigger");
    assert_true(read_one().alive);
    assert_true(read_one().stalled);
    assert_arrived("WATCHDOG=1");
    assert_nothing_arrived();
    setenv("WATCHDOG_PID", "1", 1); /* that is another process's */
    assert_int_equal(notify_outer_watchdog_us(), 0);
}

TEST(what_is_too_long_is_dropped) {
    static char text[NOTIFY_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    memcpy(text, "WATCHDOG=1\n", 11);
    assert_true(send_to(n.name, text, sizeof text, -1));
    assert_false(read_one().alive);
    assert_nothing_arrived();
    assert_true(send_to(n.name, text, sizeof text - 1, -1));
    assert_true(read_one().alive);
}

/* ---- who sends --------------------------------------------------------------------------------- */

/* A process that sends a sign of life, and lives until end_other(). uid 0: the same. */
static pid_t send_from_other(uid_t uid) {
    int sent[2];
    char byte;
    assert_int_equal(pipe2(sent, O_CLOEXEC), 0);
    pid_t pid = fork();
    if (pid == 0) {
        bool is = uid == 0 || (setgid(uid) == 0 && setuid(uid) == 0);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL); /* a failed test leaves nothing behind */
        if (is && send_to(n.name, "WATCHDOG=1\nREADY=1", 18, -1))
            (void)!write(sent[1], "", 1);
        (void)pause();
        _exit(0);
    }
    close(sent[1]);
    assert_int_equal(read(sent[0], &byte, 1), 1);
    close(sent[0]);
    return pid;
}

static void end_other(pid_t pid) {
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

TEST(a_process_that_the_command_has_not_started_feeds_nothing) {
    notify_signs signs;
    pid_t below = send_from_other(0), stranger = send_from_other(0);
    assert_true(notify_read(&n, stranger, "k", &signs)); /* of `below`, which is not below that */
    assert_false(signs.alive);
    assert_true(notify_read(&n, getpid(), "k", &signs));
    assert_true(signs.alive);
    end_other(below);
    end_other(stranger);
    assert_arrived("READY=1");
    assert_nothing_arrived();
}

TEST(one_that_has_ended_feeds_if_it_had_our_user) {
    notify_signs signs;
    end_other(send_from_other(0));
    assert_true(notify_read(&n, getpid(), "k", &signs));
    assert_true(signs.alive);
    if (geteuid() != 0) {
        skip();
        return;
    }
    end_other(send_from_other(NOBODY));
    assert_true(notify_read(&n, getpid(), "k", &signs));
    assert_false(signs.alive);
    pid_t alive = send_from_other(NOBODY); /* while it lives it is known */
    assert_true(notify_read(&n, getpid(), "k", &signs));
    assert_true(signs.alive);
    end_other(alive);
}

/* A service manager believes root more than others. The process is this one, as in messages of our own user. */
TEST(what_another_user_says_is_not_passed_on_as_roots) {
    static const uid_t users[] = {NOBODY, 0};
    int on = 1;
    if (geteuid() != 0) {
        skip();
        return;
    }
    assert_int_equal(setsockopt(outer, SOL_SOCKET, SO_PASSCRED, &on, sizeof on), 0);
    for (size_t i = 0; i < sizeof users / sizeof *users; i++) {
        struct ucred sender = {.pid = 0};
        pid_t other = send_from_other(users[i]);
        (void)read_one();
        end_other(other);
        assert_string_equal(arrived_from(&sender), "READY=1");
        assert_int_equal(sender.uid, users[i]);
        assert_int_equal(sender.gid, users[i]);
        assert_int_equal(sender.pid, getpid());
    }
}

TEST(ancestors_are_found) {
    pid_t other = send_from_other(0);
    assert_int_equal(below_find(other, other), BELOW_IS);
    assert_int_equal(below_find(other, getpid()), BELOW_IS);
    assert_int_equal(below_find(getpid(), other), BELOW_NOT);
    end_other(other);
    assert_int_equal(below_find(other, getpid()), BELOW_UNKNOWN);
}
