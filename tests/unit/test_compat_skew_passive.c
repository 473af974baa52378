/*
 * Clocks from commands: each clause of what a stamp says, by hand.
 */
#include <stdio.h>

#include "passive_feed.h"

static const skew_model usual = {.legacy_ttl_us = T, .pool_wait_us = WAIT, .rate_ppm = 0};

static int forget(void **state) {
    (void)state;
    skew_passive_end(&p);
    return 0;
}

static void begin(skew_model m) {
    skew_passive_end(&p);
    assert_true(skew_passive_begin(&p, &m));
    count = 0;
}

/* ---- what a server says ------------------------------------------------------------------------ */

/* A command at T0 + at. */
static void says(const char *host, int port, const char *command, int64_t at) {
    skew_heard c = heard(host, port, command, T0 + at);
    skew_passive_learn(&p, &c, SKEW_NO_STAMP, (tl_interval){0, 0});
}

/* One with the stamp of a clock that shows T0 + clock, in whole ms. */
static void stamps(const char *host, int port, const char *command, int64_t at, int64_t clock) {
    skew_heard c = heard(host, port, command, T0 + at);
    int64_t ms = (T0 + clock + T) / 1000;
    skew_passive_learn(&p, &c, SKEW_STAMP, (tl_interval){ms * 1000, ms * 1000 + 1000});
}

static void conclude(int64_t at) {
    bool more;
    count = skew_passive_hosts(&p, T0 + at, 0, hosts, 0, &more);
    assert_false(more);
    skew_passive_judge(&p.model, hosts, count);
}

static const skew_host *host(const char *name) {
    for (int i = 0; i < count; i++)
        if (strcmp(hosts[i].name, name) == 0)
            return &hosts[i];
    fail_msg("there is no %s", name);
    return NULL;
}

static void assert_offset(const char *name, int64_t lo, int64_t hi) {
    const skew_host *h = host(name);
    if (!h->known)
        fail_msg("%s is %s: %s", name, h->status, h->detail);
    if (h->offset.lo != lo || h->offset.hi != hi)
        fail_msg("%s: %lld..%lld us", name, (long long)h->offset.lo, (long long)h->offset.hi);
}

static void assert_status(const char *name, const char *status) {
    const skew_host *h = host(name);
    if (strcmp(h->status, status) != 0)
        fail_msg("%s is %s: %s", name, h->status, h->detail);
    assert_true(h->known == (strcmp(status, "ok") == 0));
    assert_true(h->detail[0] != '\0');
}

/* ---- one stamp --------------------------------------------------------------------------------- */

TEST(a_stamp_is_a_reading_between_two_commands) {
    begin(usual);
    says("a", 1, "get", 10 * MS);
    stamps("a", 1, "setnx", 12 * MS, 111 * MS);
    conclude(12 * MS);
    assert_offset("a", 99 * MS - 1, 102 * MS); /* 111 - 12, 111 + 1 - 10 */
    assert_int_equal(host("a")->samples, 1);
    assert_string_equal(host("a")->instrument, "passive");
}

TEST(the_first_command_of_a_connection_bounds_from_below_only) {
    begin(usual);
    stamps("a", 1, "setnx", 12 * MS, 111 * MS);
    conclude(12 * MS);
    assert_status("a", "unknown");
    says("a", 2, "get", 13 * MS); /* another connection's is no predecessor */
    stamps("a", 1, "setnx", 14 * MS, 113 * MS);
    conclude(14 * MS);
    assert_offset("a", 99 * MS - 1, 102 * MS);
}

TEST(brackets_of_all_connections_of_a_host_are_intersected) {
    begin(usual);
    says("a", 1, "del", 0);
    says("a", 2, "del", 0);
    stamps("a", 1, "setnx", 5 * MS, 1 * MS);   /* -4..2 */
    stamps("a", 2, "setnx", 20 * MS, 19 * MS); /* -1..20 */
    conclude(20 * MS);
    assert_offset("a", -1 * MS - 1, 2 * MS);
    assert_int_equal(host("a")->samples, 2);
}

TEST(hosts_are_told_apart_by_address) {
    begin(usual);
    says("a", 1, "get", 0);
    says("b", 1, "get", 0);
    stamps("a", 1, "setnx", MS, 500 * MS);
    stamps("b", 1, "setnx", MS, -500 * MS);
    conclude(MS);
    assert_offset("a", 499 * MS - 1, 501 * MS);
    assert_offset("b", -501 * MS - 1, -499 * MS);
}

/* ---- what is no predecessor ---------------------------------------------------------------------- */

TEST(what_a_library_says_by_itself_is_no_predecessor) {
    static const char *const asides[] = {"select", "CLIENT", "echo", "hello", "auth", "watch"};
    for (size_t i = 0; i < sizeof asides / sizeof *asides; i++) {
        begin(usual);
        says("a", 1, "get", 0);
        says("a", 1, asides[i], 4 * MS);
        stamps("a", 1, "setnx", 6 * MS, 3 * MS);
        conclude(6 * MS);
        assert_offset("a", -3 * MS - 1, 4 * MS);
    }
}

TEST(a_ping_shows_a_pool_and_widens_all_upper_edges) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, 1 * MS); /* -1..2 */
    conclude(2 * MS);
    assert_offset("a", -1 * MS - 1, 2 * MS);
    says("a", 2, "get", 3 * MS);
    says("a", 2, "ping", 8 * MS);
    stamps("a", 2, "setnx", 9 * MS, 5 * MS); /* -4..3 */
    conclude(9 * MS);
    assert_offset("a", -1 * MS - 1, 2 * MS + WAIT);
}

TEST(a_pool_wait_that_is_told_is_everybodys) {
    skew_model m = usual;
    m.pooled = true;
    m.pool_wait_us = 20 * MS;
    begin(m);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, 1 * MS);
    conclude(2 * MS);
    assert_offset("a", -1 * MS - 1, 22 * MS);
}

TEST(stamps_out_of_order_show_threads_that_share_a_connection) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 4 * MS, 3 * MS); /* -1..4 */
    stamps("a", 1, "setnx", 5 * MS, 2 * MS); /* read before the other was executed: -3..-1 */
    conclude(5 * MS);
    assert_offset("a", -1 * MS - 1, -1 * MS + WAIT);
}

TEST(a_contradiction_that_a_pool_explains_shows_the_pool) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, 1 * MS); /* -1..2 */
    says("a", 2, "get", 10 * MS);
    stamps("a", 2, "setnx", 12 * MS, 6 * MS); /* -6..-3 */
    conclude(12 * MS);
    assert_offset("a", -1 * MS - 1, -3 * MS + WAIT);
}

TEST(within_multi_the_command_before_it_counts) {
    begin(usual);
    says("a", 1, "get", 0);
    says("a", 1, "multi", 5 * MS);
    says("a", 1, "del", 9 * MS);
    stamps("a", 1, "setnx", 9 * MS, 3 * MS); /* -6..4 */
    says("a", 1, "exec", 9 * MS);
    conclude(9 * MS);
    assert_offset("a", -6 * MS - 1, 4 * MS);
    stamps("a", 1, "setnx", 11 * MS, 11 * MS); /* 0..3 */
    conclude(11 * MS);
    assert_offset("a", -1, 3 * MS);
}

TEST(what_was_missed_is_no_predecessor) {
    begin(usual);
    says("a", 1, "get", 0);
    skew_passive_missed(&p);
    stamps("a", 1, "setnx", 2 * MS, MS);
    conclude(2 * MS);
    assert_status("a", "unknown");
    begin(usual);
    says("a", 1, "get", 0);
    says("a", 1, "quit", MS); /* the port may be another's from here */
    stamps("a", 1, "setnx", 2 * MS, MS);
    conclude(2 * MS);
    assert_status("a", "unknown");
}

/* ---- values that are sent again ------------------------------------------------------------------ */

TEST(getset_with_the_setnxs_value_counts_from_before_the_setnx) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, MS); /* -1..2 */
    says("a", 1, "get", 8 * MS);
    stamps("a", 1, "getset", 10 * MS, MS); /* from the GET it would be -9..-6 */
    conclude(10 * MS);
    assert_offset("a", -1 * MS - 1, 2 * MS);
}

TEST(getset_with_a_value_of_its_own_bounds_from_below) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 12 * MS, MS); /* -11..2 */
    says("a", 1, "get", 14 * MS);
    stamps("a", 1, "getset", 16 * MS, 13 * MS); /* perhaps read before the GET: -3.. */
    conclude(16 * MS);
    assert_offset("a", -3 * MS - 1, 2 * MS);
}

TEST(a_setnx_with_a_value_of_before_has_no_upper_edge) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, MS);  /* -1..2 */
    stamps("a", 1, "setnx", 50 * MS, MS); /* a loop that waits with one stamp */
    says("a", 2, "get", 60 * MS);
    stamps("a", 2, "setnx", 70 * MS, MS); /* on whichever connection */
    conclude(70 * MS);
    assert_offset("a", -1 * MS - 1, 2 * MS);
}

/* ---- whose it isn't ------------------------------------------------------------------------------ */

TEST(scripts_and_sockets_are_no_clients_of_a_host) {
    begin(usual);
    skew_heard c = heard("a", 1, "setnx", T0);
    tl_interval written = {T0 + T, T0 + T + 1000};
    c.by = SKEW_BY_SCRIPT;
    assert_false(skew_is_take(&c));
    skew_passive_learn(&p, &c, SKEW_STAMP, written);
    c.by = SKEW_BY_UNIX;
    assert_false(skew_is_take(&c));
    skew_passive_learn(&p, &c, SKEW_STAMP, written);
    conclude(0);
    assert_int_equal(count, 0);
}

TEST(only_setnx_and_getset_take) {
    const char *const others[] = {"set", "get", "setex", "msetnx", "getsetx", ""};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        skew_heard c = heard("a", 1, others[i], T0);
        assert_false(skew_is_take(&c));
    }
    skew_heard c = heard("a", 1, "SetNX", T0);
    assert_true(skew_is_take(&c));
    c.words = 2;
    assert_false(skew_is_take(&c));
}

/* ---- time ---------------------------------------------------------------------------------------- */

TEST(both_edges_age_by_drift) {
    skew_model m = usual;
    m.rate_ppm = RATE;
    begin(m);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, MS);
    conclude(10 * S);
    int64_t by = 10 * MS * RATE / 1000; /* 2 ms in 10 s */
    const skew_host *h = host("a");
    assert_in_range(h->offset.lo + by + MS + 1 + 2000, 2000 - 3, 2000 + 3);
    assert_in_range(h->offset.hi - by - 2 * MS + 2000, 2000 - 3, 2000 + 3);
    assert_int_equal(h->age_ms, 9998);
}

/* Read right after the GET, a clock may have gained 200 ppm of 100 s until the SETNX was executed. */
TEST(the_upper_edge_has_the_drift_of_its_own_bracket) {
    skew_model m = usual;
    m.rate_ppm = RATE;
    begin(m);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 100 * S, MS);
    conclude(100 * S);
    assert_true(host("a")->offset.hi >= 22 * MS && host("a")->offset.hi <= 22 * MS + 10);
}

TEST(rounding_doesnt_add_up) {
    skew_model m = usual;
    m.rate_ppm = RATE;
    begin(m);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, MS);
    for (int i = 0; i < 5000; i++) /* nothing to learn from them */
        stamps("a", 2, "getset", 2 * MS + i, -S);
    conclude(7 * MS);
    assert_true(host("a")->offset.lo >= -MS - 10);
}

TEST(after_a_step_of_the_server_all_is_void) {
    bool more;
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 2 * MS, MS);
    count = skew_passive_hosts(&p, T0 + 10 * MS, T0 + 5 * MS, hosts, 0, &more);
    assert_status("a", "void");
    count = skew_passive_hosts(&p, T0 + 10 * MS, T0 + MS, hosts, 0, &more);
    assert_status("a", "ok");
    count = skew_passive_hosts(&p, T0, 0, hosts, 0, &more); /* measured in the future */
    assert_status("a", "void");
    says("a", 1, "get", MS); /* backwards */
    conclude(10 * MS);
    assert_status("a", "void");
}

/* ---- MODEL-MISMATCH ------------------------------------------------------------------------------ */

static void sound(const char *name, int64_t at, int64_t offset) {
    says(name, 1, "get", at);
    stamps(name, 1, "setnx", at + MS, at + MS / 2 + offset);
}

static void assert_mismatch(const char *name) {
    assert_status(name, "model-mismatch");
    assert_true(strncmp(host(name)->detail, "MODEL-MISMATCH", 14) == 0);
}

TEST(an_empty_intersection_is_a_mismatch) {
    begin(usual);
    sound("a", 0, 0);
    sound("a", 10 * MS, 30 * S); /* a lock of another lifetime */
    sound("b", 11 * MS, 0);
    conclude(20 * MS);
    assert_mismatch("a");
    assert_false(host("a")->relative);
    assert_status("b", "ok");
}

TEST(all_off_by_more_than_a_second_is_a_mismatch) {
    for (int sign = -1; sign <= 1; sign += 2) {
        begin(usual);
        sound("a", 0, sign * 30 * S);
        sound("b", 1 * MS, sign * 30 * S + 100 * MS);
        conclude(10 * MS);
        assert_mismatch("a");
        assert_mismatch("b");
        assert_true(host("a")->relative && host("b")->relative);
        assert_in_range(host("b")->offset.lo - host("a")->offset.hi + 200 * MS, 298 * MS - 10,
                        300 * MS);
    }
}

TEST(one_host_alone_that_is_off_is_taken_at_its_word) {
    begin(usual);
    sound("a", 0, 3 * S);
    sound("b", MS, 0);
    conclude(10 * MS);
    assert_status("a", "ok");
    assert_status("b", "ok");
}

TEST(a_dialect_that_adds_a_second_is_noticed) {
    begin(usual);
    sound("a", 0, S);
    conclude(2 * MS);
    assert_mismatch("a");
    begin(usual);
    sound("a", 0, -S);
    conclude(2 * MS);
    assert_mismatch("a");
    begin(usual);
    sound("a", 0, 990 * MS);
    sound("b", 2 * MS, -990 * MS);
    conclude(3 * MS);
    assert_status("a", "ok");
}

TEST(whole_seconds_are_no_mismatch_but_one_too_many_is) {
    skew_model m = usual;
    m.unit_us = S;
    for (int off = -1; off <= 1; off++) {
        begin(m);
        for (int i = 0; i < 30; i++) { /* every 100 ms */
            int64_t at = i * 100 * MS, ms = (T0 + at + MS + T) / S * 1000 + off * 1000;
            skew_heard c = heard("a", 1, "setnx", T0 + at + 2 * MS);
            says("a", 1, "get", at);
            skew_passive_learn(&p, &c, SKEW_STAMP, (tl_interval){ms * MS, ms * MS + S});
        }
        conclude(3 * S);
        assert_status("a", off <= 0 ? "ok" : "model-mismatch");
        if (off <= 0) /* one too few: as far as is known, it may be */
            assert_true(host("a")->offset.lo <= 0 && host("a")->offset.hi >= 0);
    }
}

TEST(poor_evidence_doesnt_hide_a_wrong_lifetime) {
    begin(usual);
    says("a", 1, "get", 0);
    stamps("a", 1, "setnx", 40 * S, 10 * S); /* it did nothing for long: -30..+10 s */
    conclude(40 * S);
    assert_mismatch("a");
}

TEST(another_instrument_that_agrees_backs_them) {
    bool more;
    for (int i = 0; i < 3; i++) {
        begin(usual);
        sound("a", 0, 5 * S);
        hosts[0] = (skew_host){.name = "agent",
                               .instrument = i == 2 ? "chrony" : "agent",
                               .kind = i == 2 ? SKEW_ASIDE : SKEW_CLOCK, /* what it believes */
                               .known = true,
                               .offset = {i ? 5 * S : 0, i ? 5 * S : 0}};
        count = skew_passive_hosts(&p, T0 + 2 * MS, 0, hosts, 1, &more);
        skew_passive_judge(&p.model, hosts, count);
        assert_status("a", i == 1 ? "ok" : "model-mismatch");
        assert_true(hosts[0].known);
    }
}

TEST(stamps_of_another_dialect_are_a_mismatch) {
    begin(usual);
    skew_heard c = heard("a", 1, "setnx", T0);
    skew_passive_learn(&p, &c, SKEW_STRANGE, (tl_interval){0, 0});
    conclude(0);
    assert_mismatch("a");
    assert_int_equal(host("a")->age_ms, -1);
}

TEST(a_lifetime_that_is_estimated_is_told_and_not_believed) {
    skew_model m = usual;
    m.legacy_ttl_us = SKEW_LIFETIME_UNKNOWN;
    begin(m);
    sound("a", 0, 20 * MS);
    sound("b", MS, -10 * MS);
    sound("c", 2 * MS, 700 * MS);
    conclude(10 * MS);
    for (int i = 0; i < count; i++) {
        assert_status(hosts[i].name, "relative");
        assert_true(hosts[i].relative);
        assert_non_null(strstr(hosts[i].detail, "60000 ms"));
    }
}

/* ---- bounds --------------------------------------------------------------------------------------- */

TEST(more_hosts_and_connections_than_fit_are_missing) {
    char name[16];
    bool more;
    begin(usual);
    for (int i = 0; i <= SKEW_HOSTS_MAX; i++) {
        (void)snprintf(name, sizeof name, "h%d", i);
        sound(name, 2 * i * MS, 0);
    }
    count = skew_passive_hosts(&p, T0 + 5 * S, 0, hosts, 0, &more);
    assert_int_equal(count, SKEW_HOSTS_MAX);
    assert_true(more);
    assert_int_equal(skew_passive_hosts(&p, T0 + 5 * S, 0, hosts, SKEW_HOSTS_MAX, &more),
                     SKEW_HOSTS_MAX);
    begin(usual);
    for (int i = 0; i < 2 * SKEW_CONNECTIONS_MAX; i++)
        says("a", i, "get", i);
    assert_true(p.full);
    assert_true(p.connections < SKEW_CONNECTIONS_MAX);
}

TEST(names_are_made_fit_to_show) {
    begin(usual);
    sound("fe80::1%eth\"0", 0, 0);
    conclude(MS);
    assert_string_equal(hosts[0].name, "fe80::1_eth_0");
}

int main(void) {
    return tests_run_group("tests", 0, NULL, forget);
}
