/*
 * Conformance: what is refused before anything is sent, each in one clear line; and what a forked
 * child may not do.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "conform.h"
#include "transport/tls.h"

#define TTL_MS 30000
#define SECRET "hush-hush"
#define CHILD_LIMIT_S 120 /* for one that hangs */

static void assert_one_clear_line(const char *about) {
    assert_int_equal(said.code, TL_EINVALID);
    assert_true(strlen(said.message) > 10);
    ASSERT_SAID(about);
    assert_null(strstr(said.message, SECRET));
    said = (tl_error){0};
}

/* ---- options of a client ----------------------------------------------------------------------- */

static void refuse_client(const tl_client_options *options, const char *about) {
    tl_client *client = NULL;
    assert_int_equal(tl_client_open(options, &client, &said), TL_EINVALID);
    assert_null(client);
    assert_one_clear_line(about);
}

#define URL "redis://127.0.0.1:1"
#define REFUSE_CLIENT(about, ...)                                                                  \
    do {                                                                                           \
        const tl_client_options options_ = TL_CLIENT_OPTIONS(__VA_ARGS__);                         \
        refuse_client(&options_, about);                                                           \
    } while (0)

CONFORM(a_clients_options_are_checked, c) {
    static char long_text[20000];
    memset(long_text, 'x', sizeof long_text - 1);
    refuse_client(NULL, "options");
    refuse_client(&(tl_client_options){.url = URL}, "options");
    REFUSE_CLIENT("attempt_ms", .url = URL, .attempt_ms = -1);
    REFUSE_CLIENT("attempt_ms", .url = URL, .attempt_ms = INT64_MAX);
    REFUSE_CLIENT("connect_ms", .url = URL, .connect_ms = -1);
    REFUSE_CLIENT("connect_ms", .url = URL, .connect_ms = INT64_MIN);
    REFUSE_CLIENT("quiet_ms", .url = URL, .quiet_ms = -2);
    REFUSE_CLIENT("quiet_ms", .url = URL, .quiet_ms = 3600001);
    REFUSE_CLIENT("wait_replicas_ms", .url = URL, .wait_replicas_ms = -1);
    REFUSE_CLIENT("drift_ppm", .url = URL, .drift_ppm = -1);
    REFUSE_CLIENT("drift_ppm", .url = URL, .drift_ppm = 500001);
    REFUSE_CLIENT("wait_replicas", .url = URL, .wait_replicas = -1);
    REFUSE_CLIENT("wait_replicas", .url = URL, .wait_replicas = 1001);
    REFUSE_CLIENT("protocol", .url = URL, .protocol = (tl_protocol_id)99);
    REFUSE_CLIENT("legacy: needs protocol", .url = URL, .legacy = &TL_LEGACY_OPTIONS(0));
    REFUSE_CLIENT("legacy: needs protocol", .url = URL,
                  .legacy = &TL_LEGACY_OPTIONS(.legacy_ttl_min_ms = 60000));
    REFUSE_CLIENT("password", .url = URL, .password = long_text);
    REFUSE_CLIENT("tls_ca_file", .url = URL, .tls_ca_file = long_text);
    REFUSE_CLIENT("URL", .url = long_text);
    /* In the clear none of these would protect anything. */
    REFUSE_CLIENT("tls_ca_file: only with", .url = URL, .tls_ca_file = "ca.pem");
    REFUSE_CLIENT("tls_cert_file: only with", .url = URL, .tls_cert_file = "c",
                  .tls_key_file = "k");
    REFUSE_CLIENT("tls_key_file: only with", .url = "local:", .tls_key_file = "k");
    REFUSE_CLIENT("tls_server_name: only with", .url = "unix:///s", .tls_server_name = "redis");
}

#define TLS_URL "rediss://127.0.0.1:1"

CONFORM(options_of_tls_are_checked, c) {
    static char long_text[5000];
    memset(long_text, 'x', sizeof long_text - 1);
    if (!tl__tls_built()) {
        REFUSE_CLIENT("rediss: (TLS) is not in this build", .url = TLS_URL);
        return;
    }
    REFUSE_CLIENT("tls_cert_file: requires tls_key_file", .url = TLS_URL, .tls_cert_file = "c");
    REFUSE_CLIENT("tls_key_file: requires tls_cert_file", .url = TLS_URL, .tls_key_file = "k");
    REFUSE_CLIENT("tls_key_file: requires", .url = TLS_URL, .tls_cert_file = "",
                  .tls_key_file = "k");
    REFUSE_CLIENT("tls_cert_file: longer", .url = TLS_URL, .tls_cert_file = long_text);
    REFUSE_CLIENT("tls_key_file: longer", .url = TLS_URL, .tls_key_file = long_text);
    REFUSE_CLIENT("tls_server_name: longer", .url = TLS_URL, .tls_server_name = long_text);
    REFUSE_CLIENT("tls_server_name: a host", .url = TLS_URL, .tls_server_name = "a b");
    tl_client *client = NULL;
    const tl_client_options all = TL_CLIENT_OPTIONS(.url = TLS_URL, .tls_ca_file = "a",
                                                    .tls_cert_file = "c", .tls_key_file = "k",
                                                    .tls_server_name = "2001:db8::5");
    ASSERT_RESULT(tl_client_open(&all, &client, &said), TL_OK);
    tl_client_close(client);
}

CONFORM(a_url_is_checked_and_never_repeated, c) {
    static const char *const urls[] = {
        "localhost",
        "http://localhost",
        "redis:localhost",
        "redis://",
        "redis://host:0",
        "redis://host:65536",
        "redis://host:port",
        "redis://host/x",
        "redis://host/-1",
        "redis://host/99999999999",
        "redis://host?db=1x",
        "redis://host#part",
        "redis://host/0#part",
        "redis://[::1",
        "redis://[nonsense]",
        "redis://[::1]x",
        "redis://ho st",
        "redis://h\xc3\xb6st",
        "redis://:" SECRET "/@host",
        "redis://user:" SECRET "@host:99999",
        "redis://user:" SECRET "@",
        "redis://:" SECRET "%zz@host",
        "redis://:" SECRET "%@host",
        "redis://:" SECRET "#@host",
        "redis://:" SECRET "\n@host",
        "unix:",
        "unix:relative",
        "unix://host/path",
        "unix:///path?db=x",
        "unix:///path?x=1",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        REFUSE_CLIENT("URL", .url = urls[i]);
}

CONFORM_OF(a_client_of_an_older_program_is_welcome, c, CONFORM_SCRIPTS) {
    tl_client_options options = TL_CLIENT_OPTIONS(.url = c->url, .drift_ppm = -1);
    options.size = offsetof(tl_client_options, drift_ppm); /* what follows isn't looked at */
    tl_client *client = make_client_with(options);
    ASSERT_RESULT(tl_lock_acquire(conform_lock(c, client, TTL_MS), 0, &said), TL_OK);
}

/* ---- options of a lock ------------------------------------------------------------------------- */

static void refuse_lock(conform *c, const void *key, size_t n, const tl_lock_options *options,
                        const char *about) {
    tl_client *client = conform_client(c);
    assert_null(tl_lock_new(client, key, n, options, &said));
    assert_one_clear_line(about);
    drop_client(client);
}

#define REFUSE_LOCK(about, ...)                                                                    \
    do {                                                                                           \
        const tl_lock_options options_ = TL_LOCK_OPTIONS(__VA_ARGS__);                             \
        refuse_lock(c, "k", 1, &options_, about);                                                  \
    } while (0)

CONFORM(a_locks_options_are_checked, c) {
    static char long_key[TL_KEY_MAX + 1];
    assert_null(tl_lock_new(NULL, "k", 1, NULL, &said));
    assert_one_clear_line("the client is NULL");
    refuse_lock(c, NULL, 3, NULL, "key");
    refuse_lock(c, "", 0, NULL, "key");
    refuse_lock(c, long_key, sizeof long_key, NULL, "key");
    refuse_lock(c, "k", 1, &(tl_lock_options){.ttl_ms = TTL_MS}, "options");
    REFUSE_LOCK("ttl", .ttl_ms = TL_TTL_MIN_MS - 1);
    REFUSE_LOCK("ttl", .ttl_ms = TL_TTL_MAX_MS + 1);
    REFUSE_LOCK("ttl", .ttl_ms = -1);
    REFUSE_LOCK("max_hold", .max_hold_ms = -1);
    REFUSE_LOCK("stall", .stall_ms = -1);
    REFUSE_LOCK("stall", .stall_ms = TL_TTL_MIN_MS - 1);
    REFUSE_LOCK("stall", .stall_ms = TL_TTL_MAX_MS + 1);
    REFUSE_LOCK("manual_renew", .stall_ms = TTL_MS, .manual_renew = true);
    REFUSE_LOCK("retry", .retry = (tl_retry_kind)99);
    REFUSE_LOCK("retry", .retry = TL_RETRY_CUSTOM);
    REFUSE_LOCK("retry", .retry_delay_ms = -1);
    REFUSE_LOCK("retry", .retry_max_delay_ms = -1);
}

/* It must last as long as any lock, and be asked for by a script that draws a fence. */
CONFORM(a_lock_that_quiet_ms_does_not_cover_is_refused, c) {
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = URL, .quiet_ms = TTL_MS, .attempt_ms = 100, .connect_ms = 100));
    const tl_lock_options longer = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS + 1),
                          just = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    assert_null(tl_lock_new(client, "k", 1, &longer, &said));
    assert_one_clear_line("quiet_ms");
    tl_lock *lock = tl_lock_new(client, "k", 1, &just, &said);
    assert_non_null(lock);
    ASSERT_RESULT(tl_lock_adopt(lock, "00000000-0000-4000-8000-000000000001", &said), TL_OK);
    assert_int_equal(tl_lock_extend(lock, TTL_MS + 1, &said), TL_EINVALID);
    assert_one_clear_line("quiet_ms");
    tl_lock_free(lock);
}

CONFORM(a_negative_wait_is_refused, c) {
    tl_lock *lock = conform_lock(c, conform_client(c), TTL_MS);
    assert_int_equal(tl_lock_acquire(lock, -1, &said), TL_EINVALID);
    assert_one_clear_line("wait");
    assert_int_equal(tl_lock_acquire(lock, INT64_MIN, &said), TL_EINVALID);
    assert_one_clear_line("wait");
}

CONFORM(a_lock_of_an_older_program_is_welcome, c) {
    tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .max_hold_ms = -1);
    options.size = offsetof(tl_lock_options, max_hold_ms);
    ASSERT_RESULT(tl_lock_acquire(conform_lock_with(c, conform_client(c), options), 0, &said),
                  TL_OK);
}

CONFORM(null_handles_can_be_freed, c) {
    tl_lock_free(NULL);
    tl_client_close(NULL);
}

CONFORM(every_result_has_a_name, c) {
    for (int code = TL_OK; code <= TL_ETAKEN; code++) {
        assert_memory_equal(tl_err_name((tl_err)code), code ? "TL_E" : "TL_O", 4);
        for (int other = TL_OK; other < code; other++)
            assert_string_not_equal(tl_err_name((tl_err)code), tl_err_name((tl_err)other));
    }
    assert_non_null(tl_err_name((tl_err)9999));
}

CONFORM(its_version_is_text_and_number, c) {
    unsigned major = 0, minor = 0, patch = 0;

    assert_string_equal(tl_version(), TL_VERSION);
    assert_int_equal(sscanf(TL_VERSION, "%u.%u.%u", &major, &minor, &patch), 3);
    assert_int_equal(TL_VERSION_NUMBER, (major * 1000 + minor) * 1000 + patch);
}

/* ---- fork -------------------------------------------------------------------------------------- */

/* In the child: 0 when everything is refused. */
static int child_tries(tl_client *client, tl_lock *held, tl_lock *other) {
    tl_lock_info info = {.size = sizeof info};
    const tl_err codes[] = {
        tl_client_ping(client, NULL),        tl_client_look(client, "k", 1, &info, NULL),
        tl_lock_acquire(other, 0, NULL),     tl_lock_extend(held, TTL_MS, NULL),
        tl_lock_adopt(other, "token", NULL), tl_lock_release(held, NULL),
    };
    for (int i = 0; i < (int)(sizeof codes / sizeof *codes); i++)
        if (codes[i] != TL_EINVALID)
            return i + 1;
    if (tl_lock_new(client, "k", 1, NULL, NULL))
        return 20;
    if (tl_lock_remaining_ms(held) != 0)
        return 21;
    if (tl_lock_state(held) == TL_HELD)
        return 22;
    tl_lock_cancel(other);
    tl_lock_free(held);
    tl_lock_free(other);
    tl_client_close(client);
    return 0;
}

CONFORM_OF(a_forked_child_is_refused_and_the_parent_goes_on, c, CONFORM_RENEWAL) {
    tl_client *client = conform_client(c);
    tl_lock *held = conform_lock(c, client, LASTING_MS);
    tl_lock *other = make_lock(client, "conform:fork", TTL_MS);
    int status;
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)alarm(CHILD_LIMIT_S);
        _exit(child_tries(client, held, other));
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    const uint64_t renewals = renewals_of(client);
    WAIT_FOR(SOON_MS, renewals_of(client) > renewals);
    ASSERT_GOES_ON(held);
    assert_int_equal(conform_int(c, "EXISTS %s", c->key), 1);
    ASSERT_RESULT(tl_lock_acquire(other, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
}

#if defined(__has_feature)
#define UNDER_TSAN __has_feature(thread_sanitizer)
#define UNDER_ASAN __has_feature(address_sanitizer)
#else
#if defined(__SANITIZE_THREAD__)
#define UNDER_TSAN 1
#else
#define UNDER_TSAN 0
#endif
#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ASAN 1
#else
#define UNDER_ASAN 0
#endif
#endif

CONFORM(a_forked_child_may_open_a_client_of_its_own, c) {
    if (UNDER_TSAN) {
        print_message("SKIP: ThreadSanitizer ends a forked child that starts a thread\n");
        skip();
    }
    if (UNDER_ASAN) {
        print_message("SKIP: AddressSanitizer's allocator may be locked in a forked child\n");
        skip();
    }
    tl_lock *held = conform_lock(c, conform_client(c), TTL_MS);
    int status;
    ASSERT_RESULT(tl_lock_acquire(held, 0, &said), TL_OK);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const tl_client_options options = TL_CLIENT_OPTIONS(.url = c->url, .protocol = c->protocol,
                                                            .attempt_ms = SOON_MS,
                                                            .connect_ms = SOON_MS);
        tl_client *mine;
        (void)alarm(CHILD_LIMIT_S);
        if (tl_client_open(&options, &mine, NULL))
            _exit(1);
        tl_lock *lock = tl_lock_new(mine, c->key, strlen(c->key), NULL, NULL);
        bool kept_out = lock && tl_lock_acquire(lock, 0, NULL) == TL_EBUSY;
        tl_lock_free(lock);
        tl_client_close(mine);
        _exit(kept_out ? 0 : 2);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    ASSERT_RESULT(tl_lock_release(held, &said), TL_OK);
}

typedef struct {
    tl_lock *lock;
    atomic_bool ending;
} busybody;

static void *cancel_all_the_time(void *ctx) {
    busybody *b = ctx;
    while (!atomic_load(&b->ending))
        tl_lock_cancel(b->lock);
    return NULL;
}

/* Another thread may be anywhere inside of the library at the moment of the fork. */
CONFORM(a_forked_child_is_never_stuck, c) {
    tl_client *client = conform_client(c);
    tl_lock *lock = conform_lock(c, client, TTL_MS);
    static busybody busy;
    pthread_t thread;
    int status = 0;
    busy.lock = make_lock(client, "conform:busy", TTL_MS);
    atomic_store(&busy.ending, false);
    assert_int_equal(pthread_create(&thread, NULL, cancel_all_the_time, &busy), 0);
    for (int i = 0; i < 50 && status == 0; i++) {
        pid_t child = fork();
        if (child == 0) {
            (void)alarm(CHILD_LIMIT_S);
            tl_lock_cancel(lock);
            _exit(tl_lock_acquire(lock, TL_FOREVER, NULL) == TL_EINVALID ? 0 : 1);
        }
        if (child < 0 || waitpid(child, &status, 0) != child)
            status = -1;
    }
    atomic_store(&busy.ending, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(status, 0);
}

CONFORM_MAIN
