/*
 * A lock of a majority that is lost says of each server why it did not renew it.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "fake_tcp.h"
#include "tests.h"

#include "tidelock/tidelock.h"

#define SERVERS 3
#define TTL_MS 3000
#define LIMIT_MS 60000
#define KEY "jobs:42"

typedef struct {
    fake_tcp *server[SERVERS];
    tl_client *client;
    tl_lock *lock;
    _Atomic bool lost;
    char detail[640];
} quorum;

static void note(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    quorum *q = ctx;
    (void)lock;
    if (event->state != TL_LOST)
        return;
    (void)snprintf(q->detail, sizeof q->detail, "%s", event->detail);
    q->lost = true;
}

static int set_up(void **state) {
    static quorum q;
    tl_error err = {0};
    char url[200];
    memset(&q, 0, sizeof q);
    for (unsigned i = 0; i < SERVERS; i++) {
        q.server[i] = fake_tcp_start(NULL);
        fake_redis_set_run_id(fake_tcp_lock(q.server[i]), 1000 + i);
        fake_tcp_unlock(q.server[i]);
    }
    (void)snprintf(url, sizeof url, "redis+quorum://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d",
                   fake_tcp_port(q.server[0]), fake_tcp_port(q.server[1]),
                   fake_tcp_port(q.server[2]));
    assert_int_equal(
        tl_client_open(&TL_CLIENT_OPTIONS(.url = url, .quiet_ms = TL_QUIET_OFF), &q.client, &err),
        TL_OK);
    q.lock = tl_lock_new(q.client, KEY, strlen(KEY),
                         &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = note, .ctx = &q), &err);
    assert_non_null(q.lock);
    assert_int_equal(tl_lock_acquire(q.lock, LIMIT_MS, &err), TL_OK);
    *state = &q;
    return 0;
}

static int tear_down(void **state) {
    quorum *q = *state;
    tl_lock_free(q->lock);
    tl_client_close(q->client);
    for (unsigned i = 0; i < SERVERS; i++)
        fake_tcp_free(q->server[i]);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static void deny(fake_tcp *t) {
    fake_redis_deny(fake_tcp_lock(t), "EVAL EVALSHA", FAKE_NOPERM);
    fake_tcp_unlock(t);
}

static void refuse(fake_tcp *t) {
    fake_tcp_set_door(t, FAKE_TCP_REFUSE);
    fake_tcp_disconnect(t);
}

/* What is said of this server: from its place to the next. */
static void assert_said_of(const quorum *q, unsigned i, const char *words) {
    char place[32];
    (void)snprintf(place, sizeof place, "127.0.0.1:%d: ", fake_tcp_port(q->server[i]));
    const char *at = strstr(q->detail, place);
    assert_non_null(at);
    const char *found = strstr(at, words), *end = strstr(at, "; 127.");
    if (!found)
        fail_msg("of server %u not '%s': %s", i, words, q->detail);
    assert_true(!end || found < end);
}

TEST_ON(the_loss_says_of_each_server_why_it_did_not_renew, quorum *q) {
    static const char begins[] = KEY ": no majority of the servers renewed it in time: ";
    refuse(q->server[0]);
    deny(q->server[2]);
    for (int waited = 0; !q->lost && waited < LIMIT_MS; waited += 10)
        usleep(10000);
    assert_true(q->lost);
    assert_int_equal(strncmp(q->detail, begins, strlen(begins)), 0);
    assert_said_of(q, 0, "refused");
    assert_said_of(q, 2, "NOPERM");
}
