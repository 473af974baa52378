/*
 * local: with a real redis-server: found, started and recovered, whoever asks, however many at once,
 * and whatever became of the server before.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks.h"
#include "real_server.h"
#include "runtime_dir.h"
#include "tests.h"

#define CROWD 20
#define LONG_MS 120000 /* many wait for one lock, each program needs a second to start */
#define SHORT_MS 300

/* of the test's own server */
static tl_client_options patient = {
    .size = sizeof patient, .connect_ms = LONG_MS, .attempt_ms = LONG_MS / 3};
static tl_client_options hasty = {.size = sizeof hasty, .connect_ms = SHORT_MS};

static tl_lock *lock_of(const tl_client_options *options) {
    return make_lock(make_client_with(*options), "k", LONG_MS);
}

/* ---- other processes --------------------------------------------------------------------------- */

/* In a process of its own, which says by its exit status how it went. */
static pid_t elsewhere(bool (*task)(void)) {
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        _exit(task() ? 0 : 1);
    return pid;
}

static void went_well(pid_t pid) {
    int status = -1;
    WAIT_FOR(2 * LONG_MS, waitpid(pid, &status, WNOHANG) == pid);
    assert_int_equal(status, 0);
}

/* Have the lock once, for a moment. */
static bool lock_once(void) {
    tl_client_options options = patient;
    tl_client *client;
    tl_error err;
    if (tl_client_open(&options, &client, &err))
        return false;
    tl_lock *lock = tl_lock_new(client, "k", 1, NULL, &err);
    tl_err code = tl_lock_acquire(lock, LONG_MS, &err);
    if (code == TL_OK)
        code = tl_lock_release(lock, &err);
    if (code)
        (void)fprintf(stderr, "%s\n", err.message);
    tl_lock_free(lock);
    tl_client_close(client);
    return code == TL_OK;
}

/* ---- finding and starting ---------------------------------------------------------------------- */

TEST(a_crowd_of_processes_starts_one_server) {
    pid_t crowd[CROWD];
    for (int i = 0; i < CROWD; i++)
        crowd[i] = elsewhere(lock_once);
    for (int i = 0; i < CROWD; i++)
        went_well(crowd[i]);
    (void)runtime_server();
    const char *log = runtime_read(runtime_file("redis.log"));
    const char *starts = strstr(log, " is starting") ? " is starting" : "Server started, ";
    const char *first = strstr(log, starts);
    assert_non_null(first);
    assert_null(strstr(first + 1, starts));
}

TEST(a_crowd_of_threads_starts_one_server) {
    acquiring *all[CROWD];
    for (int i = 0; i < CROWD; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "k%d", i);
        all[i] = acquiring_begin(make_lock(make_client_with(patient), key, LONG_MS), LONG_MS);
    }
    for (int i = 0; i < CROWD; i++)
        ASSERT_RESULT(acquiring_end(all[i], 2 * LONG_MS), TL_OK);
    (void)runtime_server();
}

/* Most likely a variable that isn't set, on each of many hosts. */
TEST(an_empty_url_is_refused) {
    tl_client_options options = TL_CLIENT_OPTIONS(.url = "");
    tl_client *client;
    ASSERT_RESULT(tl_client_open(&options, &client, &said), TL_EINVALID);
    ASSERT_SAID("URL: it is empty: give a server's, or local:");
}

TEST(a_socket_that_a_dead_server_left_is_replaced) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    assert_int_equal(mkdir(runtime_local(), 0700), 0);
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", runtime_file("redis.sock"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&un, sizeof un), 0);
    close(fd);
    ASSERT_RESULT(tl_lock_acquire(lock_of(&patient), 0, &said), TL_OK);
    (void)runtime_server();
}

TEST(the_settings_keep_locks) {
    ASSERT_RESULT(tl_lock_acquire(lock_of(&patient), 0, &said), TL_OK);
    char command[2 * RUNTIME_PATH], out[512] = "";
    (void)snprintf(command, sizeof command,
                   "for o in port save appendonly appendfsync maxmemory maxmemory-policy "
                   "unixsocketperm loglevel; do redis-cli -s %s config get $o | tail -1; done",
                   runtime_file("redis.sock"));
    FILE *p = popen(command, "r");
    assert_non_null(p);
    assert_true(fread(out, 1, sizeof out - 1, p) > 0);
    (void)pclose(p);
    assert_string_equal(out, "0\n\nyes\neverysec\n0\nnoeviction\n700\nwarning\n");
    struct stat s;
    assert_int_equal(stat(runtime_file("redis.sock"), &s), 0);
    assert_int_equal(s.st_mode & 0777, 0700);
}

/* ---- the program that starts it ---------------------------------------------------------------- */

static bool start_with_children_ignored(void) {
    (void)signal(SIGCHLD, SIG_IGN);
    return lock_once();
}

static volatile sig_atomic_t interrupted;
static void interrupt(int sig) {
    interrupted = sig;
}

/* Its own child is the only one that is left to wait for, and its handler is still its own. */
static bool start_with_a_child(void) {
    struct sigaction mine = {.sa_handler = interrupt}, now;
    (void)sigaction(SIGUSR1, &mine, NULL);
    pid_t child = fork();
    if (child == 0) {
        (void)pause();
        _exit(0);
    }
    bool ok = lock_once() && waitpid(-1, NULL, WNOHANG) == 0;
    (void)sigaction(SIGUSR1, NULL, &now);
    ok = ok && now.sa_handler == interrupt;
    (void)kill(child, SIGKILL);
    ok = ok && waitpid(-1, NULL, 0) == child;
    return ok && waitpid(-1, NULL, 0) == -1;
}

TEST(a_program_that_ignores_its_children_can_start_it) {
    went_well(elsewhere(start_with_children_ignored));
    (void)runtime_server();
}

TEST(a_program_with_children_of_its_own_keeps_them_apart) {
    went_well(elsewhere(start_with_a_child));
    (void)runtime_server();
}

TEST(the_server_outlives_its_starter_and_its_terminal) {
    went_well(elsewhere(lock_once));
    pid_t pid = runtime_server();
    assert_int_not_equal(getsid(pid), getsid(0));
    assert_int_not_equal(getpgid(pid), getpgid(0));
    went_well(elsewhere(lock_once));
    assert_int_equal(runtime_server(), pid);
}

/* What the server has open is its own: nothing of the starter's, and nobody else's lock. */
TEST(no_descriptor_leaks_into_the_server) {
    int marker = open(runtime_file("/marker"), O_RDWR | O_CREAT, 0600); /* not close-on-exec */
    int high = fcntl(marker, F_DUPFD, 700);
    int tube[2];
    assert_int_equal(pipe(tube), 0);
    ASSERT_RESULT(tl_lock_acquire(lock_of(&patient), 0, &said), TL_OK);
    char fd[64], at[RUNTIME_PATH], mine[RUNTIME_PATH], path[64];
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", tube[0]);
    ssize_t n = readlink(path, mine, sizeof mine - 1);
    assert_true(n > 0);
    mine[n] = '\0';
    pid_t pid = runtime_server();
    for (int i = 0; i < 1024; i++) {
        (void)snprintf(fd, sizeof fd, "/proc/%ld/fd/%d", (long)pid, i);
        n = readlink(fd, at, sizeof at - 1);
        at[n > 0 ? n : 0] = '\0';
        assert_null(strstr(at, "marker"));
        assert_null(strstr(at, "start.lock"));
        assert_string_not_equal(at, mine);
        if (i == 0)
            assert_string_equal(at, runtime_local());
        if (i == 1 || i == 2)
            assert_string_equal(at, runtime_file("redis.log"));
    }
    close(marker);
    close(high);
    close(tube[0]);
    close(tube[1]);
}

/* ---- crashes ----------------------------------------------------------------------------------- */

TEST(a_held_lock_survives_a_crash) {
    tl_lock *held = lock_of(&patient), *other = lock_of(&patient);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    uint64_t fence = tl_lock_fence(held);
    pid_t first = runtime_server();
    runtime_kill();
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_EBUSY);
    assert_int_not_equal(runtime_server(), first);
    ASSERT_RESULT(tl_lock_extend(held, LONG_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    assert_true(tl_lock_fence(other) > fence);
}

TEST(a_holder_brings_the_server_back_to_renew) {
    tl_lock *held = lock_of(&patient);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    pid_t first = runtime_server(), now = 0;
    runtime_kill();
    WAIT_FOR(LONG_MS, runtime_servers(&now) == 1 && now != first);
    ASSERT_RESULT(tl_lock_acquire(lock_of(&patient), 0, &said), TL_EBUSY);
    ASSERT_GOES_ON(held);
}

static const char *aof(void) {
    struct stat s;
    const char *path = runtime_file("appendonlydir/appendonly.aof.1.incr.aof");
    return stat(path, &s) == 0 ? path : runtime_file("appendonly.aof"); /* Redis below 7 */
}

static void append(const char *text) {
    FILE *file = fopen(aof(), "ae");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

TEST(a_torn_end_of_its_file_is_cut_off) {
    tl_lock *held = lock_of(&patient);
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    runtime_kill();
    append("*3\r\n$3\r\nSET\r\n$1\r\nx\r\n$10\r\nab");
    ASSERT_RESULT(tl_lock_acquire(lock_of(&patient), 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_lock_extend(held, LONG_MS, &said), TL_OK);
}

TEST(a_broken_file_is_said_with_the_last_words_of_the_log) {
    tl_client *client = make_client_with(patient);
    ASSERT_RESULT(tl_client_ping(client, &said), TL_OK);
    drop_client(client); /* it would be the first to start the server again */
    runtime_kill();
    append("rubbish\r\nrubbish\r\n");
    ASSERT_RESULT(tl_client_ping(make_client_with(patient), &said), TL_EUNAVAILABLE);
    ASSERT_SAID("local: redis-server ended at once: Bad file format");
    assert_int_equal(runtime_servers(NULL), 0);
}

/* ---- what must not become two ------------------------------------------------------------------ */

#define WAITS "echo >>starts; while [ ! -e go ]; do sleep 0.01; done; exec $REAL \"$@\""

TEST(a_starter_that_is_killed_leaves_one_server) {
    runtime_fake(WAITS);
    (void)setenv("PATH", runtime_file("/bin"), 1);
    pid_t starter = elsewhere(lock_once);
    WAIT_FOR(LONG_MS, runtime_read(runtime_file("starts"))[0]);
    assert_int_equal(kill(starter, SIGKILL), 0);
    assert_int_equal(waitpid(starter, NULL, 0), starter);
    acquiring *a = acquiring_begin(lock_of(&patient), LONG_MS);
    WAIT_FOR(LONG_MS, access(runtime_file("start.lock"), F_OK) == 0);
    runtime_write(runtime_file("go"), "");
    ASSERT_RESULT(acquiring_end(a, LONG_MS), TL_OK);
    (void)runtime_server();
    assert_string_equal(runtime_read(runtime_file("starts")), "\n");
}

TEST(a_server_whose_socket_was_removed_gets_no_rival) {
    ASSERT_RESULT(tl_lock_acquire(lock_of(&patient), 0, &said), TL_OK);
    pid_t pid = runtime_server();
    assert_int_equal(unlink(runtime_file("redis.sock")), 0);
    ASSERT_RESULT(tl_client_ping(make_client_with(hasty), &said), TL_EUNAVAILABLE);
    ASSERT_SAID("local: redis-server");
    assert_int_equal(runtime_server(), pid);
}

TEST(a_frozen_server_is_given_up_in_time_and_gets_no_rival) {
    ASSERT_RESULT(tl_client_ping(make_client_with(patient), &said), TL_OK);
    pid_t pid = runtime_server();
    assert_int_equal(kill(pid, SIGSTOP), 0);
    ASSERT_RESULT(tl_client_ping(make_client_with(hasty), &said), TL_EUNAVAILABLE);
    if (!strstr(said.message,
                "no reply in")) /* it didn't even come to connecting in so short a time */
        ASSERT_SAID("local: no reply to the login");
    assert_int_equal(runtime_server(), pid);
    assert_int_equal(kill(pid, SIGCONT), 0);
    ASSERT_RESULT(tl_client_ping(make_client_with(patient), &said), TL_OK);
}

/* ---- what is refused --------------------------------------------------------------------------- */

TEST(a_foreign_directory_is_refused_at_once) {
    assert_int_equal(mkdir(runtime_local(), 0755), 0);
    tl_lock *lock = lock_of(&patient);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EDENIED);
    ASSERT_SAID("others may enter");
    assert_int_equal(rmdir(runtime_local()), 0);
    assert_int_equal(symlink("/tmp", runtime_local()), 0);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EDENIED);
    ASSERT_SAID("a symbolic link or no directory");
}

/* Somebody has put his socket into a directory that was ours to trust. */
TEST(a_server_of_another_user_is_refused) {
    if (geteuid() != 0) {
        print_message("SKIP: only root can be another user\n");
        skip();
    }
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    assert_int_equal(mkdir(runtime_local(), 0700), 0);
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s", runtime_file("redis.sock"));
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(seteuid(12345), 0);
    int listening = listen(fd, 1);
    assert_int_equal(seteuid(0), 0);
    assert_int_equal(listening, 0);
    ASSERT_RESULT(tl_client_ping(make_client_with(patient), &said), TL_EDENIED);
    ASSERT_SAID("local: the server on its socket belongs to another user");
    close(fd);
}

/* Who is in haste may have heard nothing yet. */
TEST(a_missing_program_is_said_within_the_limit) {
    runtime_no_program();
    ASSERT_RESULT(tl_lock_acquire(lock_of(&hasty), 0, &said), TL_EUNAVAILABLE);
    if (!strstr(said.message, "does not answer in"))
        ASSERT_SAID("local: no redis-server in PATH: install it");
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_client_ping(make_client_with(patient), &said), TL_EUNAVAILABLE);
    ASSERT_SAID("local: no redis-server in PATH: install it");
    ASSERT_TOOK(began, 0, 0);
}

TEST(a_server_that_never_answers_is_given_up_within_the_limit) {
    runtime_fake("exec sleep 1000");
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(lock_of(&hasty), 0, &said), TL_EUNAVAILABLE);
    ASSERT_SAID("redis-server");
    ASSERT_SAID("does not answer");
    assert_true(clock_ms() - began < LONG_MS);
    WAIT_FOR(LONG_MS, runtime_servers(NULL) == 1); /* it may only now have got there */
}

static int begin(void **state) {
    int failed = runtime_begin(state);
    patient.url = hasty.url = runtime_url();
    return failed;
}

static int clean_up(void **state) {
    return locks_clean_up(state) + runtime_end(state);
}

TESTS_WITH(begin, clean_up);

int main(void) {
    real_server_need(REAL_SCAN);
    runtime_need_program();
    return tests_run();
}
