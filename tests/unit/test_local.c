/*
 * The directory of local: and the start of its server, with programs that only look like one.
 */
#include "tests.h"
#include "transport/local/local.h"

#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "clock_wait.h"
#include "runtime_dir.h"
#include "thread_count.h"

TESTS_WITH(runtime_begin, runtime_end);

#define LIMIT_MS 20000 /* for what ends by itself */
#define SHORT_MS 300

/* ---- which directory --------------------------------------------------------------------------- */

/* How they meet there, and what they refuse, is shown by cli/test_local_default. */
TEST(the_directory_depends_on_the_user_alone) {
    static const char *const names[] = {"XDG_RUNTIME_DIR", "TMPDIR", "HOME"};
    char dir[TL_LOCAL_DIR_SIZE], want[64], was[512] = "";
    (void)snprintf(want, sizeof want, "/tmp/tidelock-%lu", (unsigned long)geteuid());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *value = getenv(names[i]);
        (void)snprintf(was, sizeof was, "%s", value ? value : "");
        assert_int_equal(setenv(names[i], runtime_dir(), 1), 0);
        tl__local_default_dir(dir);
        assert_string_equal(dir, want);
        assert_int_equal(value ? setenv(names[i], was, 1) : unsetenv(names[i]), 0);
    }
    if (geteuid() != 0)
        return;
    assert_int_equal(seteuid(12345), 0);
    tl__local_default_dir(dir);
    assert_int_equal(seteuid(0), 0);
    assert_string_equal(dir, "/tmp/tidelock-12345");
}

static void refused(tl_err code, const char *words) {
    tl_local_problem problem;
    assert_int_equal(tl__local_open_dir(runtime_local(), true, &problem), -1);
    assert_int_equal(problem.code, code);
    if (!strstr(problem.message, words) || !strstr(problem.message, runtime_local()))
        fail_msg("%s", problem.message);
}

TEST(a_directory_is_made_for_its_user_alone) {
    tl_local_problem problem;
    struct stat s;
    mode_t was = umask(0);
    assert_int_equal(tl__local_open_dir(runtime_local(), false, &problem), -1);
    assert_int_equal(problem.code, TL_OK);
    int fd = tl__local_open_dir(runtime_local(), true, &problem);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);
    assert_int_equal(fcntl(fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    close(fd);
    fd = tl__local_open_dir(runtime_local(), false, &problem);
    assert_true(fd >= 0);
    close(fd);
    (void)umask(was);
}

TEST(a_symbolic_link_is_refused) {
    assert_int_equal(mkdir(runtime_file("/elsewhere"), 0700), 0);
    assert_int_equal(symlink(runtime_file("/elsewhere"), runtime_local()), 0);
    refused(TL_EDENIED, "a symbolic link or no directory");
}

TEST(a_directory_that_others_may_enter_is_refused) {
    for (mode_t bit = 1; bit <= 040; bit <<= 1) {
        assert_int_equal(mkdir(runtime_local(), 0700), 0);
        assert_int_equal(chmod(runtime_local(), 0700 | bit), 0);
        refused(TL_EDENIED, "others may enter");
        assert_int_equal(rmdir(runtime_local()), 0);
    }
}

TEST(anothers_directory_is_refused) {
    if (geteuid() != 0)
        skip();
    assert_int_equal(mkdir(runtime_local(), 0700), 0);
    assert_int_equal(chown(runtime_local(), 12345, 12345), 0);
    refused(TL_EDENIED, "belongs to user 12345, not 0");
}

TEST(a_file_or_a_missing_parent_is_said) {
    runtime_write(runtime_local(), "");
    refused(TL_EDENIED, "a symbolic link or no directory");
    assert_int_equal(unlink(runtime_local()), 0);
    assert_int_equal(rmdir(runtime_dir()), 0);
    refused(TL_EUNAVAILABLE, "No such file or directory");
}

TEST(who_listens_is_known) {
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_true(tl__local_is_ours(pair[0]));
    close(pair[0]);
    close(pair[1]);
    assert_false(tl__local_is_ours(-1));
    if (geteuid() != 0)
        return;
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) { /* a pair made by the other user: both of its ends are his */
        int theirs[2];
        bool ok = setegid(12345) == 0 && seteuid(12345) == 0 &&
                  socketpair(AF_UNIX, SOCK_STREAM, 0, theirs) == 0 && seteuid(0) == 0;
        _exit(ok && !tl__local_is_ours(theirs[0]) ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

/* ---- starting ---------------------------------------------------------------------------------- */

/* Try, and say what came of it: "" when something answers. */
static const char *tried(int64_t limit_ms) {
    static char words[TL_LOCAL_MESSAGE_SIZE];
    int64_t began = clock_ms();
    tl_local *l = tl__local_start(runtime_local(), limit_ms);
    assert_non_null(l);
    struct pollfd p = {.fd = tl__local_fd(l), .events = POLLIN};
    assert_int_equal(poll(&p, 1, (int)limit_ms + 60000), 1);
    assert_true(tl__local_done(l));
    assert_true(clock_ms() - began < limit_ms + 30000);
    const tl_local_problem *problem = tl__local_problem(l);
    (void)snprintf(words, sizeof words, "%s", problem ? problem->message : "");
    assert_int_equal(problem ? problem->code : TL_EUNAVAILABLE, TL_EUNAVAILABLE);
    tl__local_free(l);
    return words;
}

static void fails_with(int64_t limit_ms, const char *words) {
    const char *said = tried(limit_ms);
    if (!strstr(said, words) || strncmp(said, "local: ", 7) != 0)
        fail_msg("\"%s\" instead of \"%s\"", said, words);
}

TEST(a_missing_program_is_said_with_what_to_install) {
    runtime_no_program();
    fails_with(LIMIT_MS, "no redis-server in PATH: install it");
    assert_int_equal(mkdir(runtime_file("/bin/redis-server"), 0755), 0);
    fails_with(LIMIT_MS, "no redis-server in PATH: install it");
}

TEST(no_relative_part_of_path_is_searched) {
    int here = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    runtime_fake("touch ran");
    assert_int_equal(chdir(runtime_dir()), 0);
    static const char *const paths[] = {"bin", ".", "./bin", ":bin:", "::", ""};
    for (size_t i = 0; i < 5; i++) {
        (void)setenv("PATH", paths[i], 1);
        fails_with(LIMIT_MS, "no redis-server in PATH");
    }
    assert_string_equal(runtime_read(runtime_file("ran")), "");
    assert_int_equal(fchdir(here), 0);
    close(here);
}

TEST(a_program_that_ends_at_once_is_quoted) {
    runtime_fake(
        "echo first; echo '12:M 21 Nov 2026 13:40:00.123 # the disk is on fire' >&2; exit 1");
    fails_with(LIMIT_MS, "ended at once: the disk is on fire");
    runtime_fake("exit 0");
    fails_with(LIMIT_MS, "ended at once and printed nothing"); /* not with the words of another */
    runtime_fake("printf 'a\\033b\\n\\n'");
    fails_with(LIMIT_MS, "ended at once: a?b");
    assert_int_equal(runtime_servers(NULL), 0);
}

TEST(a_program_that_cannot_be_run_is_said) {
    runtime_fake("");
    runtime_write(runtime_file("/bin/redis-server"), "#!/nonexistent/interpreter\n");
    fails_with(LIMIT_MS, "/bin/redis-server: No such file or directory");
}

/* The one that hangs has the directory for as long as it lives, so that there is never a second. */
TEST(a_program_that_never_answers_is_started_once) {
    runtime_fake("echo >>starts; exec sleep 1000");
    clock_wait wait = clock_wait_begin(SOON_MS);
    fails_with(SHORT_MS, "does not answer in 300 ms: see ");
    while (runtime_servers(NULL) == 0 && clock_wait_more(&wait))
        (void)tried(SHORT_MS); /* that was too short a time to start anything */
    WAIT_FOR(SOON_MS, *runtime_read(runtime_file("starts")));
    pid_t pid = runtime_server();
    char words[64];
    (void)snprintf(words, sizeof words, "redis-server (pid %ld) does not answer", (long)pid);
    fails_with(SHORT_MS, words);
    assert_int_equal(runtime_server(), pid);
    assert_string_equal(runtime_read(runtime_file("starts")), "\n");
}

TEST(another_who_starts_it_is_waited_for_only_so_long) {
    tl_local_problem problem;
    int dir = tl__local_open_dir(runtime_local(), true, &problem);
    int lock = openat(dir, "start.lock", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    runtime_fake("echo >>starts; exit 1");
    assert_int_equal(flock(lock, LOCK_EX), 0);
    fails_with(SHORT_MS, "does not answer in 300 ms");
    assert_string_equal(runtime_read(runtime_file("starts")), "");
    close(lock);
    close(dir);
}

TEST(who_gives_up_leaves_nothing_behind) {
    int before = thread_count();
    runtime_fake("exit 1");
    for (int i = 0; i < 20; i++)
        tl__local_free(tl__local_start(runtime_local(), LIMIT_MS));
    tl__local_free(NULL);
    fails_with(LIMIT_MS, "ended at once");
    WAIT_FOR(SOON_MS, thread_count() <= before); /* of those who gave up, too */
    assert_int_equal(runtime_servers(NULL), 0);
}

/* ---- what the server gets of its starter ------------------------------------------------------- */

static bool has_line(const char *text, const char *line) {
    size_t n = strlen(line);
    for (const char *p = strstr(text, line); p; p = strstr(p + 1, line))
        if ((p == text || p[-1] == '\n') && (p[n] == '\n' || p[n] == '\0'))
            return true;
    return false;
}

/* Without 32 and 33, which belong to the C library. */
static uint64_t mask_of(const char *text, const char *name) {
    const char *at = strstr(text, name);
    assert_non_null(at);
    return strtoull(at + strlen(name), NULL, 16) & ~(UINT64_C(3) << 31);
}

static void show_starter(void) {
    runtime_fake("grep -E '^(SigBlk|SigIgn|Umask):' /proc/self/status >state\n"
                 "ls -l /proc/$$/fd >fds; env >environment; pwd >cwd\n"
                 "ps -o sid= -p $$ >session; ls -l /proc/$$/exe >>fds; echo done");
    fails_with(LIMIT_MS, "ended at once: done");
}

TEST(the_server_shares_nothing_with_its_starter) {
    sigset_t set, was;
    int marker = open(runtime_file("/marker"), O_RDWR | O_CREAT, 0600); /* not close-on-exec */
    int high = fcntl(marker, F_DUPFD, 500);
    assert_true(marker >= 0 && high >= 500);
    (void)setenv("TIDELOCK_PASSWORD", "hunter2", 1);
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)sigprocmask(SIG_BLOCK, &set, &was);
    (void)signal(SIGINT, SIG_IGN);
    (void)signal(SIGPIPE, SIG_IGN);
    mode_t mask = umask(0);
    show_starter();
    (void)umask(mask);
    (void)signal(SIGINT, SIG_DFL);
    (void)signal(SIGPIPE, SIG_DFL);
    (void)sigprocmask(SIG_SETMASK, &was, NULL);
    (void)unsetenv("TIDELOCK_PASSWORD");
    const char *seen = runtime_read(runtime_file("state"));
    assert_int_equal(mask_of(seen, "SigBlk:"), 0);
    assert_int_equal(mask_of(seen, "SigIgn:"), 0);
    assert_true(has_line(seen, "Umask:\t0077"));
    const char *fds = runtime_read(runtime_file("fds"));
    assert_null(strstr(fds, "marker"));
    assert_null(strstr(fds, "start.lock"));
    assert_null(strstr(fds, "pipe:"));
    assert_null(strstr(fds, "eventfd"));
    assert_null(strstr(runtime_read(runtime_file("environment")), "hunter2"));
    assert_null(strstr(runtime_read(runtime_file("environment")), "XDG"));
    assert_int_not_equal(strtol(runtime_read(runtime_file("session")), NULL, 10), getsid(0));
    close(marker);
    close(high);
}

/* With 0, 1 and 2 closed the descriptors that are handed on are those numbers themselves. */
TEST(a_starter_without_standard_files_can_start_it) {
    runtime_fake("readlink /proc/$$/fd/0 >zero; readlink /proc/$$/fd/1; exit 1");
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        for (int i = 0; i < 3; i++)
            close(i);
        tl_local *l = tl__local_start(runtime_local(), LIMIT_MS);
        struct pollfd p = {.fd = l ? tl__local_fd(l) : -1, .events = POLLIN};
        bool ended = l && poll(&p, 1, LIMIT_MS) == 1 && tl__local_done(l) && tl__local_problem(l);
        _exit(ended && strstr(tl__local_problem(l)->message, "redis.log") ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    assert_true(has_line(runtime_read(runtime_file("zero")), runtime_local()));
}

TEST(a_large_log_is_put_aside) {
    struct stat s;
    runtime_fake("exit 1");
    fails_with(LIMIT_MS, "ended at once");
    assert_int_equal(truncate(runtime_file("redis.log"), 70000), 0);
    fails_with(LIMIT_MS, "ended at once");
    assert_int_equal(stat(runtime_file("redis.log"), &s), 0);
    assert_int_equal(s.st_size, 0);
    assert_int_equal(stat(runtime_file("redis.log.old"), &s), 0);
    assert_int_equal(s.st_size, 70000);
}
