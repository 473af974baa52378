/*
 * Structs that begin with their size, between programs and libraries of different versions: what the
 * one doesn't know is never ignored by the other, nor overrun.
 */
#include <stdlib.h>
#include <string.h>

#include <tidelock/inspect.h>
#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>
#ifdef TL_COMPAT
#include "distribute_lock_util.h"
#endif

#include "tests.h"
#include "ground/options.h"

#define URL "redis://127.0.0.1:1" /* where nobody is */

static tl_error said;

/* A struct of a newer program: one of ours, and behind it what we don't know. */
typedef union {
    size_t size;
    tl_client_options client;
    tl_lock_options lock;
    tl_lock_info info;
    tl_legacy_options legacy;
    tl_dialect_info dialect;
    unsigned char byte[TL_SIZED_MOST + 8];
} newer;

static void assert_unknown(const char *name) {
    assert_int_equal(said.code, TL_EINVALID);
    assert_memory_equal(said.message, name, strlen(name));
    assert_non_null(strstr(said.message, "older than the header"));
    assert_non_null(strstr(said.message, tl_version()));
    said = (tl_error){0};
}

static void assert_size(const char *name) {
    assert_int_equal(said.code, TL_EINVALID);
    assert_memory_equal(said.message, name, strlen(name));
    assert_non_null(strstr(said.message, "sizeof"));
    said = (tl_error){0};
}

/* ---- each struct that is given to the library ------------------------------------------------- */

typedef tl_err (*give)(const newer *n, tl_error *err);

static tl_err open_client(const newer *n, tl_error *err) {
    tl_client *client = NULL;
    tl_err code = tl_client_open(&n->client, &client, err);
    assert_true(code ? !client : client != NULL);
    tl_client_close(client);
    return code;
}

static tl_client *some_client(void) {
    const tl_client_options o = TL_CLIENT_OPTIONS(.url = URL, .connect_ms = 1);
    tl_client *client = NULL;
    assert_int_equal(tl_client_open(&o, &client, NULL), TL_OK);
    return client;
}

static tl_err make_lock(const newer *n, tl_error *err) {
    tl_client *client = some_client();
    tl_lock *lock = tl_lock_new(client, "k", 1, &n->lock, err);
    tl_err code = lock ? TL_OK : err->code;
    tl_lock_free(lock);
    tl_client_close(client);
    return code;
}

static tl_err break_lock(const newer *n, tl_error *err) {
    tl_client *client = some_client();
    tl_err code = tl_client_break(client, "k", 1, &n->info, err);
    tl_client_close(client);
    return code == TL_EUNAVAILABLE ? TL_OK : code; /* it was asked for */
}

#ifdef TL_COMPAT
static tl_client_options with_legacy(const newer *n) {
    return TL_CLIENT_OPTIONS(.url = URL, .protocol = TL_BRIDGE, .legacy = &n->legacy);
}

static tl_err open_legacy(const newer *n, tl_error *err) {
    newer client = {.client = with_legacy(n)};
    return open_client(&client, err);
}

static tl_err make_legacy_lock(const newer *n, tl_error *err) {
    const tl_client_options o = TL_CLIENT_OPTIONS(.url = URL, .protocol = TL_BRIDGE);
    const tl_lock_options lo = TL_LOCK_OPTIONS(.legacy = &n->legacy);
    tl_client *client = NULL;
    assert_int_equal(tl_client_open(&o, &client, NULL), TL_OK);
    tl_lock *lock = tl_lock_new(client, "k", 1, &lo, err);
    tl_err code = lock ? TL_OK : err->code;
    tl_lock_free(lock);
    tl_client_close(client);
    return code;
}

static tl_err open_dlu(const newer *n, tl_error *err) {
    tl_dlu *locks = tl_dlu_open_with(&n->client, err);
    tl_err code = locks ? TL_OK : err->code;
    tl_dlu_close(locks);
    return code;
}
#endif

static const struct {
    const char *name;
    give give;
    size_t size, least;
} given[] = {
    {"tl_client_options", open_client, sizeof(tl_client_options),
     offsetof(tl_client_options, password)},
    {"tl_lock_options", make_lock, sizeof(tl_lock_options), offsetof(tl_lock_options, max_hold_ms)},
    {"tl_lock_info", break_lock, sizeof(tl_lock_info), offsetof(tl_lock_info, host)},
#ifdef TL_COMPAT
    {"tl_client_options", open_dlu, sizeof(tl_client_options),
     offsetof(tl_client_options, password)},
    {"tl_legacy_options", open_legacy, sizeof(tl_legacy_options),
     offsetof(tl_legacy_options, legacy_delay_max_ms)},
    {"tl_legacy_options", make_legacy_lock, sizeof(tl_legacy_options),
     offsetof(tl_legacy_options, legacy_delay_max_ms)},
#endif
};

#define EACH(i) for (size_t i = 0; i < sizeof given / sizeof *given; i++)

static newer of(size_t i, size_t size) {
    newer n = {.byte = {0}};
    if (strcmp(given[i].name, "tl_client_options") == 0)
        n.client.url = URL;
#ifdef TL_COMPAT
    if (given[i].give == open_dlu)
        n.client.protocol = TL_BRIDGE;
#endif
    n.size = size;
    return n;
}

TEST(what_a_newer_program_leaves_at_0_is_welcome) {
    EACH(i) {
        const size_t sizes[] = {given[i].size, given[i].size + 1, given[i].size + 64,
                                TL_SIZED_MOST};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            newer n = of(i, sizes[s]);
            n.byte[sizes[s]] = 1; /* which isn't its own any more */
            assert_int_equal(given[i].give(&n, &said), TL_OK);
        }
    }
}

TEST(what_a_newer_program_sets_is_refused) {
    EACH(i) {
        const size_t at[] = {given[i].size, given[i].size + 7, TL_SIZED_MOST - 1};
        for (size_t s = 0; s < sizeof at / sizeof *at; s++) {
            newer n = of(i, TL_SIZED_MOST);
            n.byte[at[s]] = 0x80;
            assert_int_equal(given[i].give(&n, &said), TL_EINVALID);
            assert_unknown(given[i].name);
        }
    }
}

TEST(what_an_older_program_does_not_have_is_not_read) {
    EACH(i) {
        newer n = of(i, given[i].least);
        memset(n.byte + given[i].least, 0xff, given[i].size - given[i].least);
        assert_int_equal(given[i].give(&n, &said), TL_OK);
    }
}

TEST(a_size_that_cannot_be_is_refused) {
    EACH(i) {
        const size_t sizes[] = {0, 1, given[i].least - 1, TL_SIZED_MOST + 1, SIZE_MAX};
        for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
            newer n = of(i, sizes[s]);
            assert_int_equal(given[i].give(&n, &said), TL_EINVALID);
            assert_size(given[i].name);
        }
    }
}

/* ---- what is wrong -------------------------------------------------------------------------------- */

static void assert_about(tl_client_options o, tl_about about) {
    tl_client *client = NULL;
    memset(&said, 0x5a, sizeof said);
    assert_int_equal(tl_client_open(&o, &client, &said), TL_EINVALID);
    assert_int_equal(said.about, about);
}

TEST(what_is_wrong_with_a_clients_options_is_told_apart_without_reading_the_message) {
    assert_about(TL_CLIENT_OPTIONS(.url = "http://host"), TL_ABOUT_URL);
    assert_about(TL_CLIENT_OPTIONS(.url = URL, .tls_ca_file = "ca.pem"), TL_ABOUT_TLS);
    assert_about(TL_CLIENT_OPTIONS(.url = URL, .attempt_ms = -1), TL_ABOUT_CALL);
    assert_about(TL_CLIENT_OPTIONS(.url = URL, .legacy = &TL_LEGACY_OPTIONS(0)), TL_ABOUT_LEGACY);
#ifdef TL_COMPAT
    assert_about(TL_CLIENT_OPTIONS(.url = URL, .protocol = TL_BRIDGE,
                                   .legacy = &TL_LEGACY_OPTIONS(.dialect = "cobol")),
                 TL_ABOUT_LEGACY);
    assert_about(TL_CLIENT_OPTIONS(.url = URL, .protocol = TL_AUTO,
                                   .legacy = &TL_LEGACY_OPTIONS(.namespaces = "a b")),
                 TL_ABOUT_LEGACY);
#endif
}

/* ---- those that the library fills in ------------------------------------------------------------ */

TEST(what_is_filled_in_has_0_where_the_program_is_newer) {
    newer from = {.byte = {0}}, to;
    memset(from.byte, 0x11, sizeof(tl_lock_info));
    memset(&to, 0x5a, sizeof to);
    to.size = sizeof(tl_lock_info) + 40;
    assert_int_equal(tl__info_check(&to, "tl_lock_info", &said), TL_OK);
    tl__info_write(&to, &from, sizeof(tl_lock_info));
    assert_int_equal(to.size, sizeof(tl_lock_info) + 40);
    assert_memory_equal(to.byte + sizeof to.size, from.byte + sizeof to.size,
                        to.size - sizeof to.size);
    assert_int_equal(to.byte[to.size], 0x5a);
}

TEST(what_is_filled_in_is_cut_where_the_program_is_older) {
    newer from, to;
    memset(&from, 0x11, sizeof from);
    memset(&to, 0x5a, sizeof to);
    to.size = offsetof(tl_lock_info, value);
    tl__info_write(&to, &from, sizeof(tl_lock_info));
    assert_int_equal(to.size, offsetof(tl_lock_info, value));
    assert_int_equal(to.byte[offsetof(tl_lock_info, value) - 1], 0x11);
    for (size_t i = offsetof(tl_lock_info, value); i < sizeof to; i++)
        assert_int_equal(to.byte[i], 0x5a);
}

TEST(nothing_is_filled_in_without_a_size) {
    tl_client *client = some_client();
    for (size_t size = 0; size < 3; size++) {
        newer n = {.size = size == 2 ? TL_SIZED_MOST + 1 : size};
        assert_int_equal(tl_client_look(client, "k", 1, &n.info, &said), TL_EINVALID);
        assert_size("tl_lock_info");
#ifdef TL_COMPAT
        assert_false(tl_dialect_at(0, 0, &n.dialect));
#endif
    }
    tl_client_close(client);
}

#ifdef TL_COMPAT
TEST(a_dialect_is_told_to_older_and_newer_programs) {
    newer n;
    memset(&n, 0x5a, sizeof n);
    n.size = sizeof(tl_dialect_info) + 16;
    assert_true(tl_dialect_at(0, 0, &n.dialect));
    assert_string_equal(n.dialect.name, "java");
    for (size_t i = sizeof(tl_dialect_info); i < n.size; i++)
        assert_int_equal(n.byte[i], 0);
    memset(&n, 0x5a, sizeof n);
    n.size = offsetof(tl_dialect_info, seen_in);
    assert_true(tl_dialect_at(0, 0, &n.dialect));
    assert_string_equal(n.dialect.name, "java");
    assert_int_equal(n.byte[n.size], 0x5a);
}
#endif
