/*
 * A copy of a process: an image of its memory (CRIU, a virtual machine's snapshot) that is started twice. It has the same pid,
 * and nothing tells either that there is another. Made by fork, unnoticed: this file defines ground/process.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "client/client.h"
#include "ground/process.h"
#include "real_etcd.h"
#include "real_redis.h"
#include "tests.h"

#define TTL_MS 600000
#define LIMIT_S 300

tl_process tl__process_this(void) {
    return (tl_process){.host = "image", .pid = 7, .program = "copied"};
}

const volatile unsigned char *tl__process_mark(void) {
    static const unsigned char mark = 1;
    return &mark;
}

void tl__process_unmark(const volatile unsigned char *mark) {
    (void)mark;
}

static tl_client *client_of(const char *url) {
    tl_client *client = NULL;
    tl_error err = {0};
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .attempt_ms = 30000, .connect_ms = 30000);
    if (tl_client_open(&o, &client, &err))
        fail_msg("%s", err.message);
    (void)tl__client_seed(client); /* so that there are bytes that were fetched ahead */
    return client;
}

static tl_lock *lock_of(tl_client *client, const char *key) {
    tl_error err = {0};
    tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &o, &err);
    if (!lock)
        fail_msg("%s", err.message);
    return lock;
}

/* What a copy has done. */
typedef struct {
    tl_err code;
    tl_token token, drawn;
    uint64_t number;
} deed;

static deed act(tl_lock *lock) {
    deed d = {.drawn = tl__token_draw(), .number = tl__random_seed()};
    if (!lock)
        return d;
    d.code = tl_lock_acquire(lock, 0, NULL);
    (void)snprintf(d.token.text, sizeof d.token.text, "%s", tl_lock_token(lock));
    return d;
}

/* It goes on until its input ends, as one that holds a lock does. */
static deed start_copy(tl_lock *lock, pid_t *ret_pid, int *ret_ends) {
    const pid_t parent = getpid();
    int told[2], ends[2];
    deed d;
    assert_true(pipe(told) == 0 && pipe(ends) == 0);
    (void)fflush(NULL);
    *ret_pid = fork();
    assert_true(*ret_pid >= 0);
    if (*ret_pid == 0) {
        char none;
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(LIMIT_S);
        if (getppid() != parent)
            _exit(1);
        (void)close(ends[1]);
        d = act(lock);
        (void)!write(told[1], &d, sizeof d);
        (void)!read(ends[0], &none, 1);
        _exit(0);
    }
    (void)close(told[1]);
    (void)close(ends[0]);
    assert_int_equal(read(told[0], &d, sizeof d), (ssize_t)sizeof d);
    (void)close(told[0]);
    *ret_ends = ends[1];
    return d;
}

static void end_copy(pid_t pid, int ends) {
    int status;
    (void)close(ends);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Whatever was drawn before: what was fetched ahead would be the same. */
TEST(copies_draw_neither_a_token_nor_a_number_that_another_draws) {
    tl_client *client = client_of("redis://127.0.0.1:1");
    for (int i = 0; i < 3; i++) {
        int ends;
        pid_t pid;
        deed theirs = start_copy(NULL, &pid, &ends), ours = act(NULL);
        end_copy(pid, ends);
        assert_string_not_equal(theirs.drawn.text, ours.drawn.text);
        assert_true(theirs.number != ours.number);
    }
    tl_client_close(client);
}

static void assert_held_once(const char *url) {
    tl_client *client = client_of(url), *other = client_of(url);
    tl_lock *lock = lock_of(client, "copied"), *again = lock_of(other, "copied");
    int ends;
    pid_t pid;
    deed theirs = start_copy(lock, &pid, &ends), ours = act(lock);
    assert_int_equal(theirs.code, TL_OK);
    assert_int_equal(ours.code, TL_EBUSY);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_string_not_equal(theirs.token.text, ours.token.text);
    assert_int_equal(tl_lock_acquire(again, 0, NULL), TL_EBUSY); /* theirs isn't undone */
    end_copy(pid, ends);
    tl_lock_free(lock);
    tl_lock_free(again);
    tl_client_close(client);
    tl_client_close(other);
}

TEST(of_two_copies_one_holds_a_lock) {
    real_redis *server = real_redis_start(NULL);
    assert_held_once(real_redis_url(server));
    real_redis_free(server);
}

TEST(of_two_copies_one_holds_a_lock_on_etcd) {
    real_etcd *server = real_etcd_start(1);
    assert_held_once(real_etcd_url(server));
    real_etcd_free(server);
}
