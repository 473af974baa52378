/*
 * Which margins, lifetimes and dialect hold for a key, and which options are refused.
 */
#include "feed.h"

#include "stamp/stamp.h"

static tl_rules rules;
static int64_t ttl_ms;
static tl_error said;

/* The rules for KEY; ttl_ms is that of the lock before, and what they made of it after. */
static tl_err read_rules(tl_legacy client, int64_t ttl, const char *key) {
    tl_legacy_options lock = TL_LEGACY_OPTIONS(0);
    if (!client.protocol)
        client.protocol = TL_BRIDGE;
    memset(&rules, 0x5a, sizeof rules);
    ttl_ms = ttl;
    said = (tl_error){0};
    return tl__stamp_rules(&client, &lock, tl__bytes_of(key), &rules, &ttl_ms, &said);
}

#define ACCEPTS(ttl, ...) assert_int_equal(read_rules((tl_legacy){__VA_ARGS__}, (ttl), KEY), TL_OK)
#define REFUSES(ttl, words, ...)                                                                   \
    do {                                                                                           \
        assert_int_equal(read_rules((tl_legacy){__VA_ARGS__}, (ttl), KEY), TL_EINVALID);           \
        assert_non_null(strstr(said.message, (words)));                                            \
    } while (0)

TEST(the_defaults) {
    ACCEPTS(0, .options.strict = false);
    assert_int_equal(rules.clock_skew_max_ms, 1000);
    assert_int_equal(rules.legacy_delay_max_ms, 500);
    assert_int_equal(rules.legacy_ttl_min_ms, 60000);
    assert_false(rules.strict);
    assert_string_equal(rules.dialect->name, "java");
    assert_int_equal(ttl_ms, 60000);
}

TEST(the_lag_follows_the_skew_rounded_up) {
    ACCEPTS(0, .options.clock_skew_max_ms = 301);
    assert_int_equal(rules.legacy_delay_max_ms, 151);
    ACCEPTS(0, .options.clock_skew_max_ms = 1);
    assert_int_equal(rules.legacy_delay_max_ms, 1);
    ACCEPTS(0, .options.clock_skew_max_ms = 301, .options.legacy_delay_max_ms = 7);
    assert_int_equal(rules.legacy_delay_max_ms, 7);
}

TEST(margins_are_from_a_millisecond_to_an_hour) {
    REFUSES(0, "clock_skew_max: 1 to 3600000 ms, not -1", .options.clock_skew_max_ms = -1);
    REFUSES(0, "clock_skew_max", .options.clock_skew_max_ms = 3600001);
    REFUSES(0, "legacy_delay_max", .options.legacy_delay_max_ms = -1);
    REFUSES(0, "legacy_delay_max", .options.legacy_delay_max_ms = 3600001);
    REFUSES(0, "legacy_ttl_min", .options.legacy_ttl_min_ms = 9);
    REFUSES(0, "legacy_ttl_min", .options.legacy_ttl_min_ms = 86400001);
    ACCEPTS(0, .options.clock_skew_max_ms = 3600000, .options.legacy_delay_max_ms = 3600000,
            .options.legacy_ttl_min_ms = 86400000);
}

/* 2 M + L of it is spared; and as it is our own lifetime, unless told otherwise, it must be one. */
TEST(a_legacy_lifetime_that_leaves_no_validity_is_refused) {
    REFUSES(0, "legacy_ttl_min: 2500 ms leave no validity", .options.legacy_ttl_min_ms = 2500);
    REFUSES(0, "legacy_ttl_min: 3999 ms leave no validity", .options.legacy_ttl_min_ms = 3999);
    REFUSES(0, "legacy_delay_max 500 ms: at least 4000", .options.legacy_ttl_min_ms = 3000);
    ACCEPTS(0, .options.legacy_ttl_min_ms = 4000);
}

TEST(a_lifetime_is_more_than_2_m_and_2_l) {
    REFUSES(3000, "ttl: more than 3000 ms", .options.strict = false);
    ACCEPTS(3001, .options.strict = false);
    assert_int_equal(ttl_ms, 3001);
}

/* Beyond that, bytes that are equal to ours might be another's. */
TEST(a_lifetime_is_at_most_twice_the_legacy_one_less_3_m_and_2_l) {
    ACCEPTS(116000, .options.strict = false);
    REFUSES(116001, "ttl: at most 116000 ms", .options.strict = false);
    REFUSES(3901, "ttl: at most 3900 ms", .options.legacy_ttl_min_ms = 3950);
}

TEST(strict_is_for_timestamps_without_replicas) {
    ACCEPTS(0, .protocol = TL_TIMESTAMP, .options.strict = true);
    assert_true(rules.strict);
    REFUSES(0, "strict: only for the timestamp protocol", .protocol = TL_BRIDGE,
            .options.strict = true);
    REFUSES(0, "strict: the server isn't asked for its time", .protocol = TL_TIMESTAMP,
            .options.strict = true, .options.clock_guard = TL_GUARD_REFUSE);
    REFUSES(0, "clock_guard: unknown value 3", .options.clock_guard = (tl_clock_guard)3);
    ACCEPTS(0, .options.clock_guard = TL_GUARD_OFF);
    REFUSES(0, "strict: cannot be combined with wait_replicas", .protocol = TL_TIMESTAMP,
            .options.strict = true, .wait_replicas = 1);
    REFUSES(0, "strict: cannot be combined with wait_fsync", .protocol = TL_TIMESTAMP,
            .options.strict = true, .wait_fsync = true);
}

/* ---- dialects -------------------------------------------------------------------------------- */

static const char *dialect_of(const char *choices, const char *key) {
    assert_int_equal(read_rules((tl_legacy){.options.dialect = choices}, 0, key), TL_OK);
    return rules.dialect->name;
}

TEST(the_first_pattern_that_fits_chooses_the_dialect) {
    assert_string_equal(dialect_of("php-s", KEY), "php-s");
    assert_string_equal(dialect_of("jobs:*=redis-doc,java", KEY), "redis-doc");
    assert_string_equal(dialect_of("jobs:*=redis-doc,php-s", "cron:x"), "php-s");
    assert_string_equal(dialect_of("cron:*=redis-doc", KEY), "java"); /* none fits */
    assert_string_equal(dialect_of("*=rb-pid,jobs:*=redis-doc", KEY), "rb-pid");
    assert_string_equal(dialect_of("", KEY), "java");
    assert_string_equal(dialect_of("php-s,", KEY), "php-s");
    assert_string_equal(dialect_of("a=b=php-s", "a=b"), "php-s"); /* the last '=' divides */
}

TEST(a_pattern_means_what_it_means_to_the_server) {
    assert_string_equal(dialect_of("job[qrs]:*=php-s", "jobs:x"), "php-s");
    assert_string_equal(dialect_of("job[qrs]:*=php-s", "job[qrs]:x"), "java");
    assert_string_equal(dialect_of("a?b=php-s", "axb"), "php-s");
    assert_string_equal(dialect_of("a\\*b=php-s", "axb"), "java");
    assert_string_equal(dialect_of("a\\,b=php-s,redis-doc", "a,b"), "php-s");
    assert_string_equal(dialect_of("a\\,b=php-s,redis-doc", "b"), "redis-doc");
    REFUSES(0, "dialect: the pattern 'job[q:*' has a '[' without ']'",
            .options.dialect = "job[q:*=java");
    REFUSES(0, "dialect: the pattern 'x\\' has a '\\' at the end",
            .options.dialect = "java,x\\=java");
}

TEST(each_dialect_named_must_exist_even_where_it_does_not_fit) {
    REFUSES(0, "dialect: 'cobol' is unknown; see: tidelock help dialects",
            .options.dialect = "cobol");
    REFUSES(0, "'cobol' is unknown", .options.dialect = "java,x=cobol");
    REFUSES(0, "'' is unknown", .options.dialect = "java,,php-s");
    REFUSES(0, "'' is unknown", .options.dialect = "jobs:*=");
    REFUSES(0, "'a?b' is unknown", .options.dialect = "a\nb");
}

TEST(a_locks_own_dialect_comes_before_the_clients) {
    const tl_legacy client = {.protocol = TL_BRIDGE, .options.dialect = "php-s"};
    tl_legacy_options lock = TL_LEGACY_OPTIONS(.dialect = "rb-pid");
    ttl_ms = 0;
    assert_int_equal(tl__stamp_rules(&client, &lock, TL_LITERAL(KEY), &rules, &ttl_ms, &said),
                     TL_OK);
    assert_string_equal(rules.dialect->name, "rb-pid");
    lock.dialect = "";
    assert_int_equal(tl__stamp_rules(&client, &lock, TL_LITERAL(KEY), &rules, &ttl_ms, &said),
                     TL_OK);
    assert_string_equal(rules.dialect->name, "php-s");
    assert_int_equal(tl__stamp_rules(&client, NULL, TL_LITERAL(KEY), &rules, &ttl_ms, &said),
                     TL_OK);
    assert_string_equal(rules.dialect->name, "php-s");
}

TEST(a_lock_says_its_dialect_alone_of_legacy_clients) {
    static const tl_legacy_options more[] = {
        {.clock_skew_max_ms = 1}, {.legacy_delay_max_ms = 1},   {.legacy_ttl_min_ms = 60000},
        {.namespaces = "x"},      {.phase_lease_ms = 1000},     {.fallback = TL_TIMESTAMP},
        {.strict = true},         {.clock_guard = TL_GUARD_OFF}};
    const tl_legacy client = {.protocol = TL_TIMESTAMP};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        ttl_ms = 0;
        assert_int_equal(
            tl__stamp_rules(&client, &more[i], TL_LITERAL(KEY), &rules, &ttl_ms, &said),
            TL_EINVALID);
        assert_non_null(strstr(said.message, "legacy: a lock can only set the dialect"));
    }
}

/* ---- cap ------------------------------------------------------------------------------------- */

TEST(the_cap_is_the_legacy_lifetime_less_l_2_m_and_the_drift) {
    const tl_server server = {.drift_ppm = 100000};
    const tl_event e = {.server = &server};
    tl_job job = {.rules = {.dialect = tl__dialect_find(TL_LITERAL("java")),
                            .clock_skew_max_ms = 1000,
                            .legacy_delay_max_ms = 500,
                            .legacy_ttl_min_ms = 60000}};
    assert_int_equal(tl__stamp_cap(&job, feed_ms(7), &e).ns,
                     feed_ms(7).ns + INT64_C(57500000000) * 9 / 11);
    /* L once more where waiters overwrite before they compare */
    job.rules.dialect = tl__dialect_find(TL_LITERAL("ms-pipe"));
    assert_int_equal(tl__stamp_cap(&job, feed_ms(7), &e).ns,
                     feed_ms(7).ns + INT64_C(57000000000) * 9 / 11);
}

/* redis-py before 2.8 writes int(time()) + timeout, from 2.8 on it reads with time(); in PHP time() and
 * microtime(true) */
TEST(a_second_is_spared_where_some_writers_alone_round_down) {
    const tl_server server = {0};
    const tl_event e = {.server = &server};
    for (unsigned i = 0; tl__dialect_at(i); i++) {
        const tl_dialect *d = tl__dialect_at(i);
        bool early = !strcmp(d->name, "py-float") || !strcmp(d->name, "php-s");
        bool late = d->waiters_overwrite;
        tl_job job = {.rules = {.dialect = d,
                                .clock_skew_max_ms = 1000,
                                .legacy_delay_max_ms = 500,
                                .legacy_ttl_min_ms = 60000}};
        assert_int_equal(tl__stamp_cap(&job, feed_ms(7), &e).ns,
                         feed_ms(7 + 57500 - 1000 * early - 500 * late).ns);
    }
    REFUSES(0, "legacy_delay_max 500 ms: at least 6000", .options.dialect = "py-float",
            .options.legacy_ttl_min_ms = 3500);
    REFUSES(0, "at least 6000", .options.dialect = "php-s", .options.legacy_ttl_min_ms = 5999);
    ACCEPTS(0, .options.dialect = "py-float", .options.legacy_ttl_min_ms = 6000);
    REFUSES(3001, "leave no validity", .options.dialect = "py-float",
            .options.legacy_ttl_min_ms = 3500);
    REFUSES(114001, "ttl: at most 114000 ms", .options.dialect = "py-float");
}

/* ---- rests ------------------------------------------------------------------------------------- */

TEST(a_lock_rests_unless_it_is_strict_or_waiters_overwrite_its_stamp) {
    ACCEPTS(0, .options.dialect = "java");
    assert_null(tl__stamp_never_rests(&rules));
    ACCEPTS(0, .options.dialect = "ms-pipe");
    assert_non_null(strstr(tl__stamp_never_rests(&rules), "overwrite"));
    ACCEPTS(0, .protocol = TL_TIMESTAMP, .options.strict = true);
    assert_non_null(strstr(tl__stamp_never_rests(&rules), "strict"));
}
