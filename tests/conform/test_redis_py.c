/*
 * Conformance: redis-py's lock and a token lock on the same key exclude each other, both ways.
 * Skipped where the system's python has no redis.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "locks.h"
#include "real_redis.h"
#include "tests.h"

#define PYTHON "/usr/bin/python3"
#define PEER "tests/conform/redis_py_peer.py"
#define KEY "conform:redis-py"
#define TTL_MS 30000
#define SKIP 77
#define SERVER_US "local t = redis.call('TIME') return t[1] * 1000000 + t[2]"

static real_redis *server;
static pid_t python;
static int wire; /* a line to it, a line from it */

/* ---- redis-py ---------------------------------------------------------------------------------- */

static void read_line(char *to, size_t size) {
    size_t n = 0;
    const clock_wait bound = clock_wait_begin(2 * SOON_MS);
    while (n == 0 || to[n - 1] != '\n') {
        struct pollfd p = {.fd = wire, .events = POLLIN};
        (void)poll(&p, 1, 100);
        ssize_t got = recv(wire, to + n, 1, MSG_DONTWAIT);
        if (got == 0 || n == size - 2 || !clock_wait_more(&bound))
            fail_msg("redis-py ended, or is silent");
        n += got > 0;
    }
    to[n - 1] = '\0';
}

static void py_say(const char *command) {
    assert_int_equal(send(wire, command, strlen(command), MSG_NOSIGNAL), strlen(command));
    assert_int_equal(send(wire, "\n", 1, MSG_NOSIGNAL), 1);
}

static void py_answers(const char *expected) {
    char line[128];
    read_line(line, sizeof line);
    assert_string_equal(line, expected);
}

static void py(const char *command, const char *expected) {
    py_say(command);
    py_answers(expected);
}

static int start_python(void **state) {
    int ends[2];
    char port[16];
    (void)state;
    (void)snprintf(port, sizeof port, "%d", real_redis_port(server));
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return 1;
    python = fork();
    if (python == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)dup2(ends[1], 0);
        (void)dup2(ends[1], 1);
        (void)execl(PYTHON, PYTHON, PEER, port, KEY, (char *)NULL);
        _exit(127);
    }
    (void)close(ends[1]);
    wire = ends[0];
    py_answers("ready");
    return python < 0;
}

static int stop_python(void **state) {
    (void)state;
    (void)close(wire);
    (void)kill(python, SIGKILL);
    return waitpid(python, NULL, 0) != python;
}

static int clean_up(void **state) {
    int failed = locks_clean_up(state);
    (void)real_redis_int(server, "FLUSHALL");
    return failed;
}

TESTS_WITH(NULL, clean_up);

static tl_lock *lock_of_ours(int64_t ttl_ms) {
    return make_lock(make_client(real_redis_url(server)), KEY, ttl_ms);
}

/* ---- promises ---------------------------------------------------------------------------------- */

TEST(redis_py_is_kept_out_by_ours) {
    tl_lock *lock = lock_of_ours(TTL_MS);
    for (int i = 0; i < 3; i++) {
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        py("acquire 60000 0", "no");
        py("acquire 60000 100", "no");
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
        py("acquire 60000 0", "yes");
        py("release", "ok");
    }
}

TEST(redis_py_is_kept_out_while_ours_rests) {
    enum { REST_MS = 1500 };
    tl_lock *lock = lock_of_ours(TTL_MS);
    const long long began_us = real_redis_int(server, "EVAL %s 0", SERVER_US);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, REST_MS, &said), TL_OK);
    py("acquire 60000 60000", "yes");
    assert_true(real_redis_int(server, "EVAL %s 0", SERVER_US) >= began_us + REST_MS * 1000);
    py("release", "ok");
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_rest(lock, 3600000, &said), TL_OK);
    py("acquire 60000 0", "no");
    py("acquire 60000 200", "no");
}

TEST(ours_is_kept_out_by_redis_py) {
    tl_lock *lock = lock_of_ours(TTL_MS);
    for (int i = 0; i < 3; i++) {
        py("acquire 60000 0", "yes");
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EBUSY);
        ASSERT_RESULT(acquire_to_limit(lock, 200), TL_ETIMEDOUT);
        /* its place in line is given up in the background, and who only tries is behind whoever stands there */
        WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS tidelock:{" KEY "}:line") == 0);
        py("release", "ok");
        ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

TEST(each_waits_for_the_other) {
    tl_lock *lock = lock_of_ours(TTL_MS);
    py("acquire 60000 0", "yes");
    acquiring *waiter = acquiring_begin(lock, TL_FOREVER);
    py("extend 70000", "ok");
    assert_false(atomic_load(&waiter->done));
    py("release", "ok");
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    py_say("acquire 60000 60000");
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    py_answers("yes");
    py("release", "ok");
}

TEST(a_lock_of_redis_py_without_lifetime_is_honoured) {
    tl_lock *lock = lock_of_ours(TTL_MS);
    py("acquire 0 0", "yes");
    ASSERT_RESULT(acquire_to_limit(lock, 200), TL_ETIMEDOUT);
    py("release", "ok");
    /* What the wait has left in line may be given the lock for a moment, until that is undone. */
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
}

TEST(an_expired_lock_of_redis_py_is_ours_and_stays_ours) {
    tl_lock *lock = lock_of_ours(TTL_MS);
    py("acquire 200 0", "yes");
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    py("release", "LockNotOwnedError");
    py("acquire 60000 0", "no");
    ASSERT_RESULT(tl_lock_extend(lock, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

TEST(an_expired_lock_of_ours_is_redis_pys_and_stays_so) {
    tl_lock *lock = make_lock_with(make_client(real_redis_url(server)), KEY,
                                   TL_LOCK_OPTIONS(.ttl_ms = 500, .manual_renew = true));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    py("acquire 60000 60000", "yes");
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_ETAKEN);
    py("release", "ok");
}

int main(void) {
    if (system(PYTHON " -c 'import redis.lock' 2>/dev/null") != 0) {
        (void)fprintf(stderr, "SKIP: no redis-py for " PYTHON " (Debian: python3-redis)\n");
        return SKIP;
    }
    server = real_redis_start(NULL);
    return tests_run_group("tests", 0, start_python, stop_python);
}
