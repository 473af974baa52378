/*
 * Faults of TLS, against a real server: certificates that are missing, not trusted or changed, handshakes
 * that break at each of many bytes, connections that are killed. What is refused for a certificate is
 * denied at once; what breaks costs a moment.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - no certificate where one is required, one that is not trusted, a server with another name or authority: DENIED at
 *   once, "asks for a client certificate", "does not accept the certificate", "is not accepted".
 * - reset at each of many bytes of the handshake, connections killed, certificates renewed: a short delay; counted.
 */
#include "arena.h"
#include "contest.h"
#include "transport/tls.h"

#define SCRIPT                                                                                         \
    "cd %s && exec >openssl.log 2>&1 && ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes' && "   \
    "for n in ca nobody; do openssl req -x509 $ec -keyout $n.key -out $n.pem -subj /CN=$n -days 9 || " \
    "exit; done && echo subjectAltName=IP:127.0.0.1 >names && for n in server renewed client; do "     \
    "openssl req $ec -keyout $n.key -out $n.csr -subj /CN=$n && openssl x509 -req -in $n.csr "         \
    "-CA ca.pem -CAkey ca.key -CAcreateserial -days 9 -extfile names -out $n.pem || exit; done"
#define PATH_SIZE 200

static proxy *secure; /* before the port that speaks TLS */
static char ca[PATH_SIZE], nobody[PATH_SIZE], nobody_key[PATH_SIZE], ours[PATH_SIZE],
    our_key[PATH_SIZE];

static void name_file(char *to, const char *file) {
    (void)snprintf(to, PATH_SIZE, "%s/%s", real_redis_dir(server), file);
}

static void make_certificates(void) {
    char command[1500];
    (void)snprintf(command, sizeof command, SCRIPT, real_redis_dir(server));
    if (system(command) != 0) { // NOLINT(cert-env33-c): a test's own line
        print_message("openssl can't make certificates\n");
        exit(77);
    }
    name_file(ca, "ca.pem");
    name_file(nobody, "nobody.pem");
    name_file(nobody_key, "nobody.key");
    name_file(ours, "client.pem");
    name_file(our_key, "client.key");
}

static bool configured(const char *settings) {
    char command[1000];
    (void)snprintf(command, sizeof command, "CONFIG SET %s", settings);
    redisReply *reply = real_redis_command(server, command);
    bool ok = reply && reply->type == REDIS_REPLY_STATUS;
    freeReplyObject(reply);
    return ok;
}

static void present(const char *name) {
    char settings[1000];
    const char *dir = real_redis_dir(server);
    (void)snprintf(settings, sizeof settings,
                   "tls-cert-file %s/%s.pem tls-key-file %s/%s.key tls-ca-cert-file %s/ca.pem", dir,
                   name, dir, name, dir);
    assert_true(configured(settings));
}

/* A port that speaks TLS, which is free, or soon another is. */
static int open_port(void) {
    for (int i = 0; i < 50; i++) {
        char settings[64];
        int port = 20000 + (int)((real_redis_pid(server) * 7 + i * 131) % 30000);
        (void)snprintf(settings, sizeof settings, "tls-port %d", port);
        if (configured(settings))
            return port;
    }
    print_message("the server doesn't speak TLS\n");
    exit(77);
}

static int tls_port;

static int set_up(void **state) {
    present("server");
    assert_true(configured("tls-auth-clients no"));
    secure = proxy_start(tls_port);
    return arena_set_up(state);
}

static int tear_down(void **state) {
    contest_abandon();
    int failed = arena_tear_down(state);
    proxy_free(secure);
    secure = NULL;
    return failed;
}

TESTS_WITH(set_up, tear_down);

static tl_client *client_with(tl_client_options options) {
    char url[64];
    (void)snprintf(url, sizeof url, "rediss://127.0.0.1:%d", proxy_port(secure));
    options.url = url;
    if (!options.tls_ca_file)
        options.tls_ca_file = ca;
    options.attempt_ms = SOON_MS;
    if (!options.connect_ms)
        options.connect_ms = SOON_MS;
    return make_client_with(options);
}

static tl_client *client_without(void) {
    return client_with(TL_CLIENT_OPTIONS(.url = NULL));
}

static tl_client *client_certified(void) {
    return client_with(TL_CLIENT_OPTIONS(.tls_cert_file = ours, .tls_key_file = our_key));
}

/* ---- certificates ------------------------------------------------------------------------------ */

TEST(a_lock_goes_from_one_to_another) {
    assert_true(configured("tls-auth-clients yes"));
    tl_client *client = client_certified();
    tl_lock *holder = make_lock(client, KEY, SAFE_MS);
    tl_lock *next = by_hand(client_certified(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(next, 0, &said), TL_EBUSY);
    acquiring *waiter = acquiring_begin(next, TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1));
    WAIT_FOR(SOON_MS, renewals_of(client) >= 1);
    ASSERT_GOES_ON(holder);
    uint64_t fence = tl_lock_fence(holder);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(waiter, SOON_MS), TL_OK);
    assert_true(tl_lock_fence(next) > fence);
    ASSERT_RESULT(tl_lock_release(next, &said), TL_OK);
}

static void denied(tl_client *client, const char *words) {
    tl_lock_info info = {.size = sizeof info};
    tl_lock *lock = by_hand(client, AGES_MS);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_client_ping(client, &said), TL_EDENIED);
    ASSERT_SAID(words);
    ASSERT_RESULT(tl_client_look(client, KEY, strlen(KEY), &info, &said), TL_EDENIED);
    ASSERT_SAID(words);
    ASSERT_RESULT(tl_lock_acquire(lock, 0, &said), TL_EDENIED);
    ASSERT_SAID(words);
    ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_EDENIED);
    ASSERT_SAID(words);
    ASSERT_SAID("127.0.0.1:");
    ASSERT_TOOK(began, 0, 0);
}

TEST(who_must_have_a_certificate_is_told_so_at_once) {
    static const char *const versions[] = {"tls-protocols TLSv1.2", "tls-protocols TLSv1.3"};
    assert_true(configured("tls-auth-clients yes"));
    for (size_t i = 0; i < 2; i++) {
        assert_true(configured(versions[i]));
        denied(client_without(), "asks for a client certificate");
        denied(client_with(TL_CLIENT_OPTIONS(.tls_cert_file = nobody, .tls_key_file = nobody_key)),
               "does not accept the certificate");
        ASSERT_RESULT(tl_client_ping(client_certified(), &said), TL_OK);
    }
}

TEST(a_server_of_another_authority_is_denied) {
    denied(client_with(TL_CLIENT_OPTIONS(.tls_ca_file = nobody)), "is not accepted");
    present("nobody");
    denied(client_without(), "is not accepted");
    denied(client_with(TL_CLIENT_OPTIONS(.tls_ca_file = nobody)), "mismatch");
}

static void cut_connections(void) {
    run("CLIENT KILL TYPE normal SKIPME yes");
    run("CLIENT KILL TYPE pubsub");
}

/* From now on the server wants one. */
TEST(a_holder_that_may_not_come_back_is_told_in_time) {
    lock_events *events = make_events();
    tl_lock *lock = make_lock_with(
        client_without(), KEY,
        TL_LOCK_OPTIONS(.ttl_ms = BRIEF_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    assert_true(configured("tls-auth-clients yes"));
    cut_connections();
    assert_int_equal(lock_events_await(events, TL_LOST, 2 * SOON_MS).why, TL_LOST_EXPIRED);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    int64_t began = clock_ms();
    ASSERT_RESULT(tl_lock_acquire(by_hand(client_certified(), AGES_MS), SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, 0, BRIEF_MS);
}

TEST(a_servers_new_certificate_costs_nothing) {
    lock_events *events = make_events();
    tl_client *client = client_certified();
    tl_lock *other = make_lock(client, "chaos:other", SAFE_MS);
    tl_lock *lock = make_lock_with(
        client, KEY,
        TL_LOCK_OPTIONS(.ttl_ms = SAFE_MS, .on_event = lock_events_add, .ctx = events));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    WAIT_FOR(SOON_MS, renewals_of(client) >= 1);
    present("renewed");
    cut_connections();
    (void)connected(client);
    ASSERT_RESULT(tl_lock_acquire(other, SOON_MS, &said), TL_OK);
    const uint64_t before = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) > before); /* on another connection, within a second */
    ASSERT_GOES_ON(lock);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

/* ---- connections ------------------------------------------------------------------------------- */

/* What a client and the server say before the server has answered the login, at least. */
static const arena_cut ways[] = {{PROXY_REQUESTS, 1200, 97}, {PROXY_REPLIES, 1000, 83}};

TEST(a_handshake_that_breaks_once_is_made_again) {
    assert_true(configured("tls-auth-clients yes"));
    for (size_t w = 0; w < 2; w++)
        survives_one_reset(secure, &ways[w], client_certified);
}

TEST(a_handshake_that_stalls_ends_by_the_limit) {
    for (size_t w = 0; w < 2; w++) {
        tl_client *client = client_with(TL_CLIENT_OPTIONS(.connect_ms = CONNECT_MS));
        proxy_break(secure, ways[w].way, 100, PROXY_MUTE, PROXY_ALL);
        int64_t began = clock_ms();
        ASSERT_RESULT(tl_client_ping(client, &said), TL_EUNAVAILABLE);
        if (!strstr(said.message, "no reply in")) /* it didn't even come to connecting */
            ASSERT_SAID("no TLS handshake in");
        ASSERT_TOOK(began, CONNECT_MS, CONNECT_MS);
        proxy_heal(secure);
        drop_client(client);
    }
}

TEST(connections_that_are_killed_cost_a_moment) {
    enum { CLIENTS = 4, KILLS = 8 };
    tl_lock *locks[CLIENTS];
    assert_true(configured("tls-auth-clients yes"));
    for (int i = 0; i < CLIENTS; i++)
        locks[i] = make_lock(client_certified(), KEY, TTL_MS);
    contest_start(locks, CLIENTS, 3000, 1);
    for (int i = 0; i < KILLS; i++) {
        int counted = contest_counted();
        WAIT_FOR(2 * SOON_MS, contest_counted() > counted + 3);
        if (i % 2)
            cut_connections();
        else
            proxy_reset(secure);
    }
    contest_end();
}

int main(void) {
    if (!tl__tls_built()) {
        print_message("TLS is not in this build\n");
        return 77;
    }
    real_redis_need_tls();
    server = real_redis_start(NULL);
    make_certificates();
    present("server");
    tls_port = open_port();
    return tests_run();
}
