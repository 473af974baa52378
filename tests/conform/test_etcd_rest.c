/*
 * A lock that rests on a real etcd: nobody acquires it before the end, and no request of its hold that comes late ends it
 * earlier. What the client would send is sent by hand, when it is late.
 *
 * timeout: 180
 */
#include "tests.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <tidelock/inspect.h>
#include <unistd.h>

#include "client/lock.h"
#include "clock_wait.h"
#include "protocol/etcd.h"
#include "real_etcd.h"
#include "transport/gateway.h"

#define TTL_MS 30000
#define HOUR_MS 3600000 /* a rest that no test outlasts */
#define BRIEF_MS 3000   /* one that is waited out */
#define RESTS "it rests: nobody holds it, and nobody acquires it before the rest ends"

static real_etcd *etcd;
static tl_client *client, *other;
static tl_error said;

static tl_client *open_client(const char *service) {
    tl_client *c;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = real_etcd_url(etcd), .service = service,
                                            .attempt_ms = SOON_MS, .connect_ms = SOON_MS);
    if (tl_client_open(&o, &c, &said))
        fail_msg("%s", said.message);
    return c;
}

static int set_up(void **state) {
    (void)state;
    if (!etcd)
        etcd = real_etcd_start(1);
    client = open_client("one");
    other = open_client("two");
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tl_client_close(client);
    tl_client_close(other);
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* ---- locks ------------------------------------------------------------------------------------- */

static tl_lock *new_lock(tl_client *of, const char *key, tl_lock_options options) {
    tl_lock *lock = tl_lock_new(of, key, strlen(key), &options, &said);
    if (!lock)
        fail_msg("%s", said.message);
    return lock;
}

static tl_lock *plain(tl_client *of, const char *key) {
    return new_lock(of, key, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
}

static void must(tl_err code) {
    if (code)
        fail_msg("%s", said.message);
}

static tl_lock *held(const char *key) {
    tl_lock *lock = plain(client, key);
    must(tl_lock_acquire(lock, SOON_MS, &said));
    return lock;
}

static tl_lock_info look(const char *key) {
    tl_lock_info info = {.size = sizeof info};
    must(tl_client_look(client, key, strlen(key), &info, &said));
    return info;
}

/* For about an hour, as of the hold of "one". */
static void assert_rests(const char *key) {
    const tl_lock_info info = look(key);
    assert_true(info.held && info.rests);
    assert_string_equal(info.service, "one");
    assert_in_range(info.remaining_ms, HOUR_MS - 600000, HOUR_MS + 1000);
}

static void end_rest(const char *key) {
    must(tl_client_break(client, key, strlen(key), NULL, &said));
    assert_false(look(key).held);
}

/* How many keys there are below K/. */
static unsigned contenders(const char *key) {
    char arguments[200];
    (void)snprintf(arguments, sizeof arguments, "get --prefix --keys-only %s/", key);
    const char *text = real_etcd_ctl(etcd, arguments);
    unsigned n = 0;
    assert_non_null(text);
    for (; *text; text++)
        n += *text == '/';
    return n;
}

/* ---- what comes late --------------------------------------------------------------------------- */

static tl_command make(size_t argc, const char *const *argv) {
    tl_command c = {.form = TL_ARGV, .argc = (uint8_t)argc};
    for (size_t i = 0; i < argc; i++)
        c.argv[i] = tl__bytes_of(argv[i]);
    return c;
}

static int connected(void) {
    const char *port = strrchr(real_etcd_url(etcd), ':');
    const struct sockaddr_in to = {.sin_family = AF_INET,
                                   .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                   .sin_port = htons((uint16_t)atoi(port + 1))};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0 && connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* Does it succeed? An error is none. */
static bool comes(tl_command command) {
    char bytes[4096];
    const tl_etcd_via via = {.host = TL_LITERAL("h:1")};
    tl_gateway *gateway = tl__gateway_new((tl_bytes){0});
    tl_reply reply;
    size_t n = tl__etcd_encode(&command, &via, bytes, sizeof bytes);
    int fd = connected(), got;
    assert_true(gateway && n > 0 && n < sizeof bytes);
    assert_int_equal(send(fd, bytes, n, MSG_NOSIGNAL), n);
    while ((got = tl__gateway_next(gateway, tl__etcd_kind(&command), &reply)) == 0) {
        ssize_t more = recv(fd, bytes, sizeof bytes, 0);
        assert_true(more > 0);
        tl__gateway_feed(gateway, bytes, (size_t)more);
    }
    assert_int_equal(got, 1);
    bool succeeds = reply.type == TL_REPLY_ARRAY ? tl__etcd_succeeded(&reply)
                                                 : reply.type != TL_REPLY_ERROR;
    close(fd);
    tl__gateway_free(gateway);
    return succeeds;
}
#define COMES(...)                                                                                 \
    comes(make(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),                        \
               (const char *const[]){__VA_ARGS__}))

typedef struct {
    char text[TL_INT_SIZE + 1];
} number;

static number number_of(int64_t v) {
    number n;
    (void)snprintf(n.text, sizeof n.text, "%lld", (long long)v);
    return n;
}

/* A joined renewal of this one key. */
static bool keeps_come(const char *lease, const char *key, const tl_etcd_id *id,
                       const char *changed) {
    char more[300];
    const number created = number_of(id->revision);
    tl_command c = make(2, (const char *const[]){"KEEPS", lease});
    int n = snprintf(more, sizeof more, "$%zu\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n$%zu\r\n%s\r\n",
                     strlen(key), key, strlen(id->suffix), id->suffix, strlen(created.text),
                     created.text, strlen(changed), changed);
    c.more_argc = TL_ETCD_KEEPS_EACH;
    c.more = tl__bytes(more, (size_t)n);
    return comes(c);
}

/* Their leases are granted in time: so nothing but a comparison keeps them from the key. */
TEST(no_request_of_the_hold_that_comes_late_ends_a_rest_or_moves_its_end) {
    tl_lock *lock = held("late");
    tl_etcd_id id, most = tl__etcd_id_draw((UINT64_C(1) << 60) - 1);
    assert_true(tl__etcd_id_read(&id, &lock->token));
    const tl_mono later = tl__mono_add_ms(tl__mono_now(), HOUR_MS);
    const number created = number_of(id.revision), under = number_of(lock->proof.etcd.lease),
                 rest = number_of(tl__etcd_rest_lease(&id)),
                 own = number_of(tl__etcd_lease(&id, 0, later)),
                 joined = number_of(tl__etcd_lease(&most, 0, later));
    assert_true(COMES("GRANT", own.text, "600") && COMES("GRANT", joined.text, "600"));
    must(tl_lock_rest(lock, HOUR_MS, &said));
    assert_rests("late");
    assert_false(COMES("KEEP", "late", id.suffix, created.text, own.text, "0"));
    assert_false(COMES("KEEP", "late", id.suffix, created.text, joined.text, "0"));
    assert_false(keeps_come(joined.text, "late", &id, "0"));
    assert_false(keeps_come(joined.text, "late", &id, created.text));
    assert_false(COMES("FREE", "late", id.suffix, created.text, rest.text));
    (void)COMES("REVOKE", under.text);
    assert_rests("late");
    assert_true(COMES("REVOKE", own.text) && COMES("REVOKE", joined.text));
    assert_rests("late");
    /* and the same again, from one that has counted less of the time */
    assert_false(COMES("GRANT", rest.text, "7200"));
    assert_true(COMES("REST", "late", id.suffix, created.text, rest.text, "resting 1 host 1 one"));
    assert_rests("late");
    assert_int_equal(contenders("late"), 1);
    end_rest("late");
    assert_false(COMES("REST", "late", id.suffix, created.text, rest.text, "resting 1 host 1 one"));
    assert_false(look("late").held);
    tl_lock_free(lock);
}

/* And what it was held by is left to expire: a revocation that is executed alone would free the lock. */
TEST(the_lease_of_the_hold_is_not_revoked_by_a_rest) {
    tl_lock *lock = held("left");
    const number under = number_of(lock->proof.etcd.lease);
    must(tl_lock_rest(lock, HOUR_MS, &said));
    assert_true(COMES("REVOKE", under.text)); /* it was still there */
    assert_rests("left");
    end_rest("left");
    tl_lock_free(lock);
}

/* ---- promises ---------------------------------------------------------------------------------- */

TEST(a_waiter_acquires_it_when_the_rest_ends_and_not_before) {
    tl_lock *lock = plain(client, "brief"), *next = plain(other, "brief");
    const int64_t began = clock_ms();
    must(tl_lock_acquire(lock, SOON_MS, &said));
    must(tl_lock_rest(lock, BRIEF_MS, &said));
    assert_int_equal(tl_lock_state(lock), TL_FREE);
    assert_int_equal(tl_lock_acquire(next, 0, &said), TL_EBUSY);
    assert_non_null(strstr(said.message, RESTS));
    must(tl_lock_acquire(next, SOON_MS, &said));
    assert_in_range(clock_ms() - began, BRIEF_MS - BRIEF_MS / 100, SOON_MS);
    assert_true(tl_lock_fence(next) > tl_lock_fence(lock));
    must(tl_lock_release(next, &said));
    tl_lock_free(lock);
    tl_lock_free(next);
}

TEST(a_lock_that_was_held_for_long_enough_is_released) {
    tl_lock *lock = held("enough");
    const clock_wait wait = clock_wait_begin(1200);
    while (clock_wait_more(&wait)) {}
    must(tl_lock_rest(lock, 100, &said));
    assert_int_equal(contenders("enough"), 0);
    tl_lock_free(lock);
}

TEST(a_handle_that_passed_its_token_on_and_releases_leaves_the_rest_of_the_other) {
    tl_lock *lock = new_lock(client, "passed",
                             TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
    tl_client *same = open_client("one");
    tl_lock *adopter = plain(same, "passed");
    must(tl_lock_acquire(lock, SOON_MS, &said));
    must(tl_lock_adopt(adopter, tl_lock_token(lock), &said));
    must(tl_lock_rest(adopter, HOUR_MS, &said));
    assert_int_equal(tl_lock_release(lock, &said), TL_ETAKEN);
    assert_rests("passed");
    must(tl_lock_adopt(adopter, tl_lock_token(lock), &said));
    assert_int_equal(tl_lock_release(adopter, &said), TL_ETAKEN);
    assert_rests("passed");
    must(tl_lock_adopt(adopter, tl_lock_token(lock), &said));
    must(tl_lock_rest(adopter, 2 * HOUR_MS, &said)); /* it rests already: nothing moves */
    assert_rests("passed");
    end_rest("passed");
    tl_lock_free(adopter);
    tl_lock_free(lock);
    tl_client_close(same);
}

static void note(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock;
    if (event->state == TL_LOST)
        atomic_store((atomic_int *)ctx, event->why);
}

TEST(a_handle_that_renews_a_lock_which_another_lets_rest_loses_it_and_leaves_the_rest) {
    static atomic_int why;
    tl_lock *lock = new_lock(client, "renewed",
                             TL_LOCK_OPTIONS(.ttl_ms = 6000, .on_event = note, .ctx = &why));
    tl_client *same = open_client("one");
    tl_lock *adopter = plain(same, "renewed");
    atomic_store(&why, 0);
    must(tl_lock_acquire(lock, SOON_MS, &said));
    must(tl_lock_adopt(adopter, tl_lock_token(lock), &said));
    must(tl_lock_rest(adopter, HOUR_MS, &said));
    WAIT_FOR(SOON_MS, atomic_load(&why) != 0);
    assert_int_equal(atomic_load(&why), TL_LOST_TAKEN);
    tl_lock_free(lock); /* which has cleaned up */
    const clock_wait wait = clock_wait_begin(500);
    while (clock_wait_more(&wait)) {}
    assert_rests("renewed");
    end_rest("renewed");
    tl_lock_free(adopter);
    tl_client_close(same);
}

/* ---- waiters ----------------------------------------------------------------------------------- */

typedef struct {
    tl_lock *lock;
    pthread_t thread;
    tl_err code;
    tl_error err;
} waiter;

static void *wait_for_it(void *ctx) {
    waiter *w = ctx;
    w->code = tl_lock_acquire(w->lock, TL_FOREVER, &w->err);
    return NULL;
}

static void begin(waiter *w, tl_lock *lock) {
    w->lock = lock;
    assert_int_equal(pthread_create(&w->thread, NULL, wait_for_it, w), 0);
}

/* The key before its own is another waiter's. It looks now and then. */
TEST(a_wait_that_a_rest_ends_ends_also_behind_another_waiter) {
    tl_lock *lock = held("queue");
    waiter w;
    pid_t before = real_etcd_ctl_start(etcd, "lock queue");
    WAIT_FOR(SOON_MS, contenders("queue") == 2);
    begin(&w, new_lock(other, "queue", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .rest_ends_wait = true)));
    WAIT_FOR(SOON_MS, contenders("queue") == 3);
    must(tl_lock_rest(lock, HOUR_MS, &said));
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_int_equal(w.code, TL_EBUSY);
    assert_non_null(strstr(w.err.message, RESTS));
    WAIT_FOR(SOON_MS, contenders("queue") == 2);
    assert_rests("queue");
    begin(&w, w.lock); /* it rests already */
    assert_int_equal(pthread_join(w.thread, NULL), 0);
    assert_int_equal(w.code, TL_EBUSY);
    kill(before, SIGKILL);
    (void)waitpid(before, NULL, 0);
    must(tl_client_break(client, "queue", 5, NULL, &said));
    tl_lock_free(w.lock);
    tl_lock_free(lock);
}
