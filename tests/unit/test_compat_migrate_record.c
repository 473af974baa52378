/*
 * The register and the clients' records as the server has them: read as they are written, and anything else
 * is unreadable, never a plausible number.
 */
#include "tests.h"
#include "legacy/migrate_record.h"

#define NOW INT64_C(1763700000000000)

/* ---- clients ---------------------------------------------------------------------------------- */

static migrate_client client(const char *text) {
    migrate_client c;
    migrate_client_read(TL_LITERAL("4d0e"), tl__bytes_of(text), &c);
    return c;
}

TEST(a_record_is_read_as_it_is_written) {
    migrate_client c = client("7 2 30000 1763700000000000 0.1.0 db1 4711 nightly batch job");
    assert_true(c.readable);
    assert_int_equal(c.epoch, 7);
    assert_int_equal(c.phase, 2);
    assert_int_equal(c.lease_ms, 30000);
    assert_int_equal(c.seen_us, NOW);
    assert_string_equal(c.version, "0.1.0");
    assert_string_equal(c.host, "db1");
    assert_int_equal(c.pid, 4711);
    assert_string_equal(c.service, "nightly batch job");
    char who[MIGRATE_WHO_SIZE];
    assert_string_equal(migrate_client_who(who, &c), "nightly batch job on db1 (pid 4711)");
    assert_string_equal(c.keys, "");
    c = client("7 2 3600000 1763700000000000 0.1.0 db1 4711 nightly\tbatch\tjobs:* and more");
    assert_true(c.readable && c.lease_ms == 3600000);
    assert_string_equal(c.service, "nightly?batch");
    assert_string_equal(c.keys, "jobs:* and more");
    c = client("0 1 1000 1763700000000000 0.1.0 db1 4711 ");
    assert_true(c.readable && c.service[0] == '\0');
    assert_string_equal(migrate_client_who(who, &c), "a client on db1 (pid 4711)");
}

TEST(any_other_record_is_unreadable) {
    static const char *const bad[] = {
        "",
        "nonsense",
        "7 2 30000 1763700000000000 0.1.0 db1",
        "7 4 30000 1763700000000000 0.1.0 db1 4711 x",
        "7 -1 30000 1763700000000000 0.1.0 db1 4711 x",
        "-7 2 30000 1763700000000000 0.1.0 db1 4711 x",
        "7 2 0 1763700000000000 0.1.0 db1 4711 x",
        "07 2 30000 1763700000000000 0.1.0 db1 4711 x",
        "7 2 3600001 1763700000000000 0.1.0 db1 4711 x",
        "7 2 30000 0 0.1.0 db1 4711 x",
        "7 2 30000 99999999999999999999 0.1.0 db1 4711 x",
        "7 2 30000 9223372036854775807 0.1.0 db1 4711 x",
        "7 2 30000 1763700000000000  db1 4711 x",
        "7 2 30000 1763700000000000 0.1.0 db1 pid x",
        "7 2 30000 1763700000000000 0.1.0 db1 -1 x",
        "7  2 30000 1763700000000000 0.1.0 db1 4711 x",
        " 7 2 30000 1763700000000000 0.1.0 db1 4711 x",
        "1e3 2 30000 1763700000000000 0.1.0 db1 4711 x",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (client(bad[i]).readable)
            fail_msg("this is read: '%s'", bad[i]);
    migrate_client c = client("bad \x1b[31m");
    assert_string_equal(c.text, "bad ?[31m");
    assert_false(migrate_client_is_gone(&c, INT64_MAX / 2)); /* doubt stays */
}

TEST(a_client_is_gone_when_three_leases_are_missed) {
    migrate_client c = client("7 2 30000 1763700000000000 0.1.0 db1 4711 x");
    assert_false(migrate_client_is_gone(&c, NOW));
    assert_false(migrate_client_is_gone(&c, NOW + 90000000));
    assert_true(migrate_client_is_gone(&c, NOW + 90000001));
    assert_false(migrate_client_is_gone(&c, NOW - 90000000)); /* the server's clock was set back */
}

/* ---- the register ----------------------------------------------------------------------------- */

static migrate_register reg(const char *const *words) {
    tl_reply items[16] = {{0}};
    tl_reply fields = {.type = TL_REPLY_ARRAY, .items = items};
    migrate_register r;
    for (; words[fields.count]; fields.count++)
        items[fields.count] = (tl_reply){.type = TL_REPLY_STRING,
                                         .text = tl__bytes_of(words[fields.count])};
    migrate_register_read(&fields, &r);
    return r;
}

#define REG(...) reg((const char *const[]){__VA_ARGS__, NULL})
#define REST "since", "1763700000000000", "by", "db1 7 root"

TEST(a_register_is_read_as_it_is_written) {
    migrate_register r = REG("phase", "1", "epoch", "4", "keys", "jobs:*", "lease_ms", "30000",
                             REST, "from", "2");
    assert_true(r.there && r.readable);
    assert_int_equal(r.phase, 1);
    assert_int_equal(r.from, 2);
    assert_int_equal(r.epoch, 4);
    assert_int_equal(r.lease_ms, 30000);
    assert_int_equal(r.since_us, NOW);
    assert_string_equal(r.keys, "jobs:*");
    assert_string_equal(r.by, "db1 7 root");
    r = REG("phase", "1", "epoch", "4", "keys", "jobs:*", "lease_ms", "30000", REST);
    assert_true(r.readable && r.from == -1);
}

TEST(any_other_register_is_unreadable) {
    const migrate_register bad[] = {
        REG("phase", "4", "epoch", "4", "keys", "j", "lease_ms", "30000", REST),
        REG("phase", "", "epoch", "4", "keys", "j", "lease_ms", "30000", REST),
        REG("epoch", "4", "keys", "j", "lease_ms", "30000", REST),
        REG("phase", "1", "epoch", "0", "keys", "j", "lease_ms", "30000", REST),
        REG("phase", "1", "epoch", "4", "keys", "", "lease_ms", "30000", REST),
        REG("phase", "1", "epoch", "4", "keys", "j", "lease_ms", "0", REST),
        REG("phase", "1", "epoch", "4", "keys", "j", "lease_ms", "600001", REST),
        REG("phase", "1", "epoch", "4", "keys", "j", "lease_ms", "30000", "by", "x"),
        REG("phase", "1", "epoch", "4", "keys", "j", "lease_ms"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (!bad[i].there || bad[i].readable)
            fail_msg("number %zu is read", i);
    tl_reply none = {.type = TL_REPLY_ARRAY};
    migrate_register r;
    migrate_register_read(&none, &r);
    assert_false(r.there || r.readable);
}

/* ---- names ------------------------------------------------------------------------------------ */

TEST(names) {
    static const char *const bad[] = {"", "a b", "a{b}", "a:b", "a/b", "\xc3\xa4", "a\n"};
    char key[MIGRATE_KEY_SIZE];
    assert_true(migrate_name_ok("default"));
    assert_true(migrate_name_ok("A-z_0.9"));
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(migrate_name_ok(bad[i]));
    assert_string_equal(migrate_key(key, "cron", ":clients"), "tidelock:phase:{cron}:clients");
}
