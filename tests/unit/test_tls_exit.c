/*
 * A program that exits while another of its threads is in a handshake: OpenSSL cleans up only when that thread has left it, and
 * none enters any more. This file defines ground/socket.
 */
#include "tests.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "ground/socket.h"
#include "transport/tls.h"

#if TL_HAVE_TLS

#define INSIDE_MS 300
#define LIMIT_S 60
enum { FINE = 7, STILL_INSIDE, LET_IN };

static atomic_bool inside, returns, stays;
static tl_endpoint endpoint = {.host = "example", .tls = true};
static tl_tls *tls;

int tl__socket_connect(const tl_address *to, int *ret_fd) {
    (void)to;
    *ret_fd = -1;
    return ECONNREFUSED;
}

int tl__socket_connected(int fd) {
    (void)fd;
    return ECONNREFUSED;
}

/* Called from within OpenSSL. */
ssize_t tl__socket_receive(int fd, char *to, size_t room) {
    (void)fd, (void)to, (void)room;
    atomic_store(&inside, true);
    if (atomic_load(&stays))
        (void)poll(NULL, 0, INSIDE_MS);
    atomic_store(&returns, true);
    errno = EAGAIN;
    return -1;
}

ssize_t tl__socket_send(int fd, const char *from, size_t n) {
    (void)fd, (void)from;
    return (ssize_t)n;
}

void tl__socket_shut(int fd) {
    (void)fd;
}

void tl__socket_close(int fd) {
    (void)fd;
}

/* OpenSSL has cleaned up by now: this was registered before it was used. */
static void look_last(void) {
    char words[TL_TLS_MESSAGE_SIZE] = "";
    int scarce;
    if (atomic_load(&stays) && !atomic_load(&returns))
        _exit(STILL_INSIDE);
    if (tl__tls_new(&endpoint, 0, false, &scarce, words) || !strstr(words, "exits") ||
        tl__tls_pending(tls))
        _exit(LET_IN);
    for (tl_tls_work work = TL_TLS_SHAKE; work <= TL_TLS_WRITE; work++) {
        size_t n = 1;
        if (tl__tls_do(tls, work, words, &n) != TL_TLS_BROKEN)
            _exit(LET_IN);
    }
    tl__tls_free(tls); /* as where a client is closed by a destructor */
    _exit(FINE);
}

static void *shake(void *ctx) {
    size_t none = 0;
    (void)tl__tls_do(tls, TL_TLS_SHAKE, NULL, &none);
    return ctx;
}

static void exit_with(bool another) {
    char words[TL_TLS_MESSAGE_SIZE];
    int scarce;
    pthread_t thread;
    atomic_store(&stays, another);
    if (atexit(look_last) || !(tls = tl__tls_new(&endpoint, 0, false, &scarce, words)) ||
        (another && pthread_create(&thread, NULL, shake, NULL)))
        _exit(1);
    while (another && !atomic_load(&inside))
        (void)poll(NULL, 0, 1);
    exit(0);
}

static int status_of_one_that_exits(bool another) {
    int status;
    (void)fflush(NULL);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(LIMIT_S);
        exit_with(another);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(exit_waits_for_a_thread_that_is_in_a_handshake) {
    assert_int_equal(status_of_one_that_exits(true), FINE);
}

TEST(nobody_enters_when_openssl_has_cleaned_up) {
    assert_int_equal(status_of_one_that_exits(false), FINE);
}

#else

TEST(without_tls_nothing_is_to_be_waited_for) {
    assert_false(tl__tls_built());
}

#endif
