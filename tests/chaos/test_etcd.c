/*
 * Locks on a real etcd of one member: its history compacted, the member restarted; users, passwords and certificates; and on
 * servers that are none.
 *
 * timeout: 180
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - the history compacted behind a watch; the member restarted: the waiter acquires as soon as the lock is released.
 * - a wrong password, no user, no permission, users changed meanwhile, a foreign certificate: DENIED, "login", "etcd
 *   wants a user", "permission denied"; a held lock stays held.
 * - no client certificate where one is required; one with a common name while auth is on: DENIED, "asks for a client
 *   certificate", "common name".
 * - the URL of a Redis server: UNCERTAIN (a ping: UNAVAILABLE), "is it an etcd?"; of another HTTP server: ESERVER "HTTP
 *   status 404".
 * - stopped during an extension: UNCERTAIN; renewals use the longer lifetime from then on.
 */
#include "etcd_faults.h"
#include "real_redis.h"
#include "transport/grpc.h"

TEST(a_history_that_was_compacted_hides_no_release) {
    real_etcd *e = real_etcd_start(1);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e)));
    tl_lock *lock = new_lock(c, "k", 60000), *waits = new_lock(c, "k", 60000);
    told = 0;
    acquire(lock, 0);
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(300);
    for (int i = 0; i < 5; i++)
        assert_non_null(real_etcd_ctl(e, "put x y"));
    char compact[64];
    (void)snprintf(compact, sizeof compact, "compact %llu",
                   (unsigned long long)tl_lock_fence(lock) + 5);
    assert_non_null(real_etcd_ctl(e, compact));
    real_etcd_restart(
        e, 0); /* so that the watch is asked for again, from where there is nothing any more */
    pause_ms(1500);
    assert_int_equal(told, 0);
    assert_true(tl_lock_remaining_ms(lock) > 0);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_told(ENOUGH_MS);
    assert_int_equal(told_code, TL_OK);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(waits);
    tl_client_close(c);
    real_etcd_free(e);
}

/* With the certificates of this one; NULL: without one. */
static tl_err try_for(int64_t limit_ms, const char *url, const char *ca, const real_etcd *as,
                      const char *words) {
    tl_error err = {0};
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .attempt_ms = limit_ms,
                                            .connect_ms = limit_ms, .tls_ca_file = ca);
    if (as)
        o.tls_cert_file = real_etcd_cert(as), o.tls_key_file = real_etcd_key(as);
    tl_client *c = open_with(o);
    tl_lock *lock = new_lock(c, "k", 60000);
    tl_err code = tl_lock_acquire(lock, 0, &err);
    if (code == TL_OK)
        assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    else if (!strstr(err.message, words))
        fail_msg("%s", err.message);
    tl_lock_free(lock);
    tl_client_close(c);
    return code;
}

static tl_err try_at(const char *url, const char *ca, const real_etcd *as, const char *words) {
    return try_for(0, url, ca, as, words);
}

static tl_err try_with(const char *url, const char *words) {
    return try_at(url, NULL, NULL, words);
}

TEST(with_users_only_they_get_locks_and_say_so_otherwise) {
    real_etcd *e = real_etcd_start(1);
    char url[3][200];
    const char *place = strstr(real_etcd_url(e), "127");
    (void)snprintf(url[0], sizeof url[0], "etcd://root:secret@%s", place);
    (void)snprintf(url[1], sizeof url[1], "etcd://root:wrong@%s", place);
    (void)snprintf(url[2], sizeof url[2], "etcd://mean:secret@%s", place);
    assert_int_equal(try_with(url[0], ""), TL_OK); /* etcd has no users yet, and asks for none */
    assert_non_null(real_etcd_ctl(e, "user add root:secret"));
    assert_non_null(real_etcd_ctl(e, "user grant-role root root"));
    assert_non_null(real_etcd_ctl(e, "user add mean:secret"));
    assert_non_null(real_etcd_ctl(e, "auth enable"));
    assert_int_equal(try_with(url[0], ""), TL_OK);
    assert_int_equal(try_with(url[1], "login"), TL_EDENIED);
    assert_int_equal(try_with(url[2], "permission denied"), TL_EDENIED);
    assert_int_equal(try_with(real_etcd_url(e), "etcd wants a user and a password"), TL_EDENIED);
    /* A waiter's stream logs in, too; and a login that has run out, as by a change of users, is made anew. */
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url[0]));
    tl_lock *lock = new_lock(c, "k", 15000), *waits = new_lock(c, "k", 15000);
    told = 0;
    acquire(lock, 0);
    await_renewal(lock); /* what was asked before a login is said with its token */
    assert_non_null(real_etcd_ctl(e, "--user root:secret user add more:secret"));
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    await_renewal(lock);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_told(ENOUGH_MS);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(waits);
    tl_client_close(c);
    real_etcd_free(e);
}

TEST(over_tls_whoever_proves_to_be_the_host_is_asked) {
    tl_client *c;
    tl_error err;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = "etcds://127.0.0.1");
    if (tl_client_open(&o, &c, &err)) {
        assert_non_null(strstr(err.message, "TLS"));
        return;
    }
    tl_client_close(c);
    real_etcd *e = real_etcd_start_tls(1);
    assert_int_equal(try_with(real_etcd_url(e), "certificate"), TL_EDENIED);
    c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .tls_ca_file = real_etcd_ca(e)));
    tl_lock *lock = new_lock(c, "k", 60000), *waits = new_lock(c, "k", 60000);
    told = 0;
    acquire(lock, 0);
    assert_int_equal(tl_lock_acquire_async(waits, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(500);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    await_told(ENOUGH_MS);
    assert_int_equal(tl_lock_release(waits, NULL), TL_OK);
    tl_lock_free(lock);
    tl_lock_free(waits);
    tl_client_close(c);
    real_etcd_free(e);
}

/* By gRPC a certificate's name is a user's, unless one logs in; here it may do nothing. The gateway refuses it where
 * there are users. */
TEST(a_client_certificate_is_shown_and_is_no_user) {
    tl_client *c;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = "etcds://127.0.0.1");
    if (tl_client_open(&o, &c, NULL))
        return; /* without TLS */
    tl_client_close(c);
    real_etcd *e = real_etcd_start_mutual(1);
    assert_int_equal(
        try_at(real_etcd_url(e), real_etcd_ca(e), NULL, "asks for a client certificate"),
        TL_EDENIED);
    tl_error err;
    c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .tls_ca_file = real_etcd_ca(e)));
    assert_int_equal(tl_client_ping(c, &err), TL_EDENIED);
    assert_null(strstr(err.message, "is it an etcd"));
    tl_client_close(c);
    assert_int_equal(try_at(real_etcd_url(e), real_etcd_ca(e), e, ""), TL_OK);
    assert_non_null(real_etcd_ctl(e, "user add root:secret"));
    assert_non_null(real_etcd_ctl(e, "user grant-role root root"));
    assert_non_null(real_etcd_ctl(e, "auth enable"));
    const char *why = tl__grpc_works() ? "permission denied" : "with a common name (CN)";
    assert_int_equal(try_at(real_etcd_url(e), real_etcd_ca(e), e, why), TL_EDENIED);
    char url[200];
    (void)snprintf(url, sizeof url, "etcds://root:secret@%s", strstr(real_etcd_url(e), "127"));
    assert_int_equal(try_at(url, real_etcd_ca(e), e, why), tl__grpc_works() ? TL_OK : TL_EDENIED);
    real_etcd_free(e);
}

/* What was asked for may be carried out late: no renewal may shorten it. */
TEST(an_extension_in_doubt_leaves_renewals_that_last_as_long) {
    real_etcd *e = real_etcd_start(1);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .attempt_ms = 3000));
    tl_lock *lock = new_lock(c, "k", 15000);
    acquire(lock, ENOUGH_MS);
    real_etcd_freeze(e, 0);
    assert_int_equal(tl_lock_extend(lock, 60000, NULL), TL_EUNCERTAIN);
    real_etcd_thaw(e, 0);
    for (int64_t end = now_ms() + ENOUGH_MS; now_ms() < end && tl_lock_remaining_ms(lock) < 20000;)
        pause_ms(20);
    assert_true(tl_lock_remaining_ms(lock) > 20000);
    (void)tl_lock_release(lock, NULL);
    tl_lock_free(lock);
    tl_client_close(c);
    real_etcd_free(e);
}

/* Is a lease of this number there? */
static bool is_lease(const real_etcd *e, long long lease) {
    char hex[32];
    const char *text = real_etcd_ctl(e, "lease list");
    (void)snprintf(hex, sizeof hex, "%llx", lease);
    assert_non_null(text);
    return strstr(text, hex) != NULL;
}

/* That the lock's key is under. */
static long long lease_of_key(const real_etcd *e) {
    static const char before[] = "\"Lease\" : ";
    const char *text = real_etcd_ctl(e, "get --prefix k/ -w fields");
    assert_non_null(text);
    const char *at = strstr(text, before);
    assert_non_null(at);
    return strtoll(at + sizeof before - 1, NULL, 10);
}

/* Of what went unanswered nobody knows what is done yet: the lease isn't for the next lock, but revoked. */
TEST(a_lock_that_was_taken_in_doubt_leaves_its_lease_to_nobody) {
    real_etcd *e = real_etcd_start(1);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = real_etcd_url(e), .attempt_ms = 4000));
    tl_lock *lock = new_lock(c, "k", 120000);
    acquire(lock, ENOUGH_MS); /* a client spares none before its second release */
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    told = 0;
    /* Over the connection that is used again below: a member that is stopped gets no request over a new one. */
    assert_int_equal(tl_lock_acquire_async(lock, TL_FOREVER, done, NULL, NULL), TL_OK);
    await_told(ENOUGH_MS);
    long long lease = lease_of_key(e);
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    assert_true(is_lease(e, lease)); /* for the next */
    told = 0;
    real_etcd_freeze(e, 0);
    assert_int_equal(tl_lock_acquire_async(lock, TL_FOREVER, done, NULL, NULL), TL_OK);
    pause_ms(5000); /* longer than an attempt */
    real_etcd_thaw(e, 0);
    await_told(ENOUGH_MS);
    assert_int_equal(told_code, TL_OK);
    lease = lease_of_key(e);
    assert_true(is_lease(e, lease));
    assert_int_equal(tl_lock_release(lock, NULL), TL_OK);
    for (int64_t end = now_ms() + ENOUGH_MS; now_ms() < end && is_lease(e, lease);)
        pause_ms(20);
    assert_false(is_lease(e, lease));
    tl_lock_free(lock);
    tl_client_close(c);
    real_etcd_free(e);
}

/* A Redis server closes the connection: what it has done isn't known to us. */
TEST(a_server_that_is_no_etcd_is_told_as_such) {
    real_redis *r = real_redis_start(&(real_redis_options){0});
    char url[100];
    (void)snprintf(url, sizeof url, "etcd://127.0.0.1:%d", real_redis_port(r));
    assert_int_equal(try_for(3000, url, NULL, NULL, "without a reply: is it an etcd?"),
                     TL_EUNCERTAIN);
    tl_client *c = open_with(TL_CLIENT_OPTIONS(.url = url, .attempt_ms = 5000, .connect_ms = 5000));
    tl_error err;
    assert_int_equal(tl_client_ping(c, &err), TL_EUNAVAILABLE);
    assert_non_null(strstr(err.message, "is it an etcd?"));
    tl_client_close(c);
    real_redis_free(r);
}
