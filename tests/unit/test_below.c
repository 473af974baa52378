/* The processes below one, which run ends when the lock is lost; and the table of signals. */
#include "tests.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/signals.h"
#include "base/tool.h"
#include "lock/below.h"

static below_process parsed(const char *text) {
    below_process p = {0};
    assert_true(below_parse(text, strlen(text), &p));
    return p;
}

TEST(a_line_of_a_process_is_read_whatever_its_name_is) {
    below_process p = parsed("4194303 (sh) S 1 4194302 7 0 -1");
    assert_int_equal(p.pid, 4194303);
    assert_int_equal(p.parent, 1);
    assert_int_equal(p.group, 4194302);
    assert_int_equal(p.state, 'S');
    p = parsed("12 (a) R 3 4 (b) 5 6) T 77 88 9\n");
    assert_int_equal(p.state, 'T');
    assert_int_equal(p.parent, 77);
    assert_int_equal(p.group, 88);
}

TEST(what_is_no_such_line_is_no_process) {
    static const char *const wrong[] = {"",
                                        "12",
                                        "12 (sh",
                                        "12 (sh)",
                                        "12 (sh) S",
                                        "(sh) S 1 2",
                                        "12 (sh) S x 2",
                                        "12 (sh) S 1",
                                        "12 (sh) S 1 99999999999",
                                        "12 (sh) X 0 -1 -1 0 -1"}; /* collected meanwhile */
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        below_process p;
        assert_false(below_parse(wrong[i], strlen(wrong[i]), &p));
    }
}

typedef struct {
    pid_t wanted[3];
    int found[3], others;
} seen;

static void note(void *ctx, const below_process *p) {
    seen *s = ctx;
    bool known = false;
    for (int i = 0; i < 3; i++)
        if (s->wanted[i] == p->pid) {
            s->found[i]++;
            known = true;
        }
    s->others += !known;
}

/* qemu-user has no such call: an orphan would go to another process. */
static void adopt_orphans(void) {
    if (prctl(PR_SET_CHILD_SUBREAPER, 1) == 0)
        return;
    assert_int_equal(errno, EINVAL);
    (void)printf("SKIP: no PR_SET_CHILD_SUBREAPER here\n");
    skip();
}

/* A child, its child in another session, and that one's orphan, which comes to us. */
static void find_all(bool lists) {
    int to[2];
    seen s = {.others = 0};
    adopt_orphans();
    assert_int_equal(pipe(to), 0);
    pid_t stranger = fork();
    if (stranger == 0) {
        pause();
        _exit(0);
    }
    pid_t child = fork();
    if (child == 0) {
        pid_t in_session = fork();
        if (in_session == 0) {
            (void)setsid();
            pid_t last = fork();
            if (last > 0) {
                pid_t all[2] = {getpid(), last};
                (void)!write(to[1], all, sizeof all);
            }
        }
        pause();
        _exit(0);
    }
    s.wanted[0] = child;
    assert_int_equal(read(to[0], &s.wanted[1], 2 * sizeof(pid_t)), 2 * sizeof(pid_t));
    assert_true(below_each_by(lists, child, INT64_MAX, note, &s));
    assert_int_equal(s.found[0], 0); /* the root itself */
    assert_int_equal(s.found[1], 1);
    assert_int_equal(s.found[2], 1);
    assert_int_equal(s.others, 0);
    (void)kill(s.wanted[1], SIGKILL);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(waitpid(s.wanted[1], NULL, 0), s.wanted[1]);
    s = (seen){.wanted = {stranger, s.wanted[2], -1}};
    assert_true(below_each_by(lists, getpid(), INT64_MAX, note, &s));
    assert_int_equal(s.found[0], 1);
    assert_int_equal(s.found[1], 1); /* the orphan */
    (void)kill(s.wanted[0], SIGKILL);
    (void)kill(s.wanted[1], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {}
    close(to[0]);
    close(to[1]);
}

TEST(all_below_a_process_is_found_once_and_nothing_else) {
    find_all(true);
}

TEST(all_are_found_where_the_kernel_keeps_no_lists_of_children) {
    find_all(false);
}

/* So that a test that fails leaves nobody, even if the parent has ended before this is called. */
static void die_with_parent(pid_t parent) {
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(0);
}

static void *fork_one(void *child) {
    const pid_t parent = getpid();
    *(pid_t *)child = fork();
    if (*(pid_t *)child == 0) {
        die_with_parent(parent);
        pause();
        _exit(0);
    }
    (void)pause();
    return NULL;
}

/* A thread that is not the first has children of its own. */
TEST(the_children_of_each_thread_are_found) {
    int to[2];
    assert_int_equal(pipe(to), 0);
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        pthread_t thread;
        pid_t grandchild = 0;
        die_with_parent(parent);
        (void)pthread_create(&thread, NULL, fork_one, &grandchild);
        while (__atomic_load_n(&grandchild, __ATOMIC_SEQ_CST) == 0)
            (void)usleep(1000);
        (void)!write(to[1], &grandchild, sizeof grandchild);
        (void)pause();
        _exit(0);
    }
    seen s = {.others = 0};
    assert_int_equal(read(to[0], &s.wanted[0], sizeof(pid_t)), sizeof(pid_t));
    assert_true(below_each(child, INT64_MAX, note, &s));
    assert_int_equal(s.found[0], 1);
    assert_int_equal(s.others, 0);
    (void)kill(child, SIGKILL);
    (void)kill(s.wanted[0], SIGKILL);
    while (waitpid(-1, NULL, 0) > 0) {}
    close(to[0]);
    close(to[1]);
}

/* So that what is due then isn't late for the sake of what is looked at. */
TEST(a_walk_ends_at_its_moment) {
    const pid_t parent = getpid(), child = fork();
    if (child == 0) {
        die_with_parent(parent);
        pause();
        _exit(0);
    }
    for (int lists = 0; lists <= 1; lists++) {
        seen s = {.wanted = {child}};
        assert_true(below_each_by(lists, getpid(), moment_ms(), note, &s));
        assert_int_equal(s.found[0] + s.others, 0);
        assert_true(below_each_by(lists, getpid(), INT64_MAX, note, &s));
        assert_int_equal(s.found[0], 1);
    }
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

TEST(a_process_is_looked_at_by_its_number) {
    below_process p;
    assert_true(below_look(getpid(), &p));
    assert_int_equal(p.pid, getpid());
    assert_int_equal(p.parent, getppid());
    assert_false(below_look(1 << 22, &p));
}

/* What ends a process by default must be passed on, or be a failing write's own: else the lock outlives it. */
TEST(no_signal_that_ends_a_process_by_default_is_left_to_its_default) {
    for (int sig = 1; sig <= SIGRTMAX; sig++) {
        signal_role role = signals_role(sig);
        if (sig >= SIGRTMIN)
            assert_int_equal(role, SIGNAL_PASSED);
        if (sig == SIGPIPE || sig == SIGXFSZ)
            assert_int_equal(role, SIGNAL_IGNORED);
        if (sig == SIGTSTP || sig == SIGTTIN || sig == SIGTTOU)
            assert_int_equal(role, SIGNAL_JOB);
    }
    static const int ends[] = {SIGINT,  SIGTERM, SIGHUP, SIGQUIT, SIGALRM, SIGVTALRM,
                               SIGPROF, SIGXCPU, SIGPWR, SIGPOLL, SIGABRT, SIGSEGV,
                               SIGBUS,  SIGFPE,  SIGILL, SIGTRAP, SIGSYS};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
        assert_int_equal(signals_role(ends[i]), SIGNAL_ENDING);
}
