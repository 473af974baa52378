/*
 * The token protocol's attempts: what each asks, and what each branch of each answer means.
 */
#include <errno.h>

#include "attempt_feed.h"
#include "protocol/attempt.h"
#include "wire/refusal.h"

/* An attempt of which the asker waits until `until_ms`; its job may be changed before feed_start. */
static void prepare(feed *f, tl_op op, int64_t until_ms) {
    memset(&m, 0x5a, sizeof m);
    m.job = feed_job();
    feed_init(f, &m, one_step);
    tl__attempt_init(&m.attempt, m.job.protocol, op, TICKET, feed_ms(until_ms));
}

static void begin(feed *f, tl_op op) {
    prepare(f, op, 60000);
    assert_int_equal(feed_start(f), TL_GO);
}

/* ---- asking ---------------------------------------------------------------------------------- */

TEST(take_says_all_that_the_script_needs) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(f.last.ticket, TICKET);
    assert_int_equal(f.last.count, 1);
    const tl_command *c = &f.last.command[0];
    assert_int_equal(c->nkeys, 4);
    assert_int_equal(c->argc, 10);
    assert_string_equal(c->argv[0].p, KEY);
    assert_string_equal(c->argv[1].p, SIDECAR);
    assert_string_equal(c->argv[2].p, COUNTER);
    assert_string_equal(c->argv[3].p, LINE);
    assert_string_equal(feed_arg(&f, 0), TOKEN);
    assert_string_equal(feed_arg(&f, 1), "30000");
    /* the earliest that the server's clock can show at the limit: 2 s at 100 ppm each are 400 us less */
    assert_int_equal(feed_arg_int(&f, 2), feed_server_us(ATTEMPT_MS) - 400);
    assert_int_equal(feed_arg_int(&f, 3), feed_server_us(0));
    assert_int_equal(feed_arg_int(&f, 4), feed_server_us(0)); /* and the latest now */
    assert_string_equal(feed_arg(&f, 5), "");                 /* S is left to the first renewal */
}

TEST(a_take_that_is_to_bind_at_once_names_its_owner) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.acquire.bind = true;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
    assert_string_equal(feed_arg(&f, 5), OWNER);
    assert_int_equal(f.last.native, 0);
}

/* An earlier one may arrive later: it must find in S whose the key is, or it gives its own away. */
TEST(a_repeated_take_names_its_owner_at_once) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.again = true;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
    assert_string_equal(feed_arg(&f, 5), OWNER);
}

TEST(keep_says_all_that_the_script_needs) {
    feed f;
    prepare(&f, TL_RENEW, 60000);
    m.job.hold.fence = 77;
    (void)feed_start(&f);
    feed_assert_asked(&f, "renew");
    assert_int_equal(f.last.count, 1);
    assert_int_equal(f.last.command[0].argc, 12);
    assert_int_equal(feed_arg_int(&f, 0), feed_server_us(0));
    assert_string_equal(feed_arg(&f, 1), "3600000");
    assert_string_equal(feed_arg(&f, 2), OWNER);
    assert_string_equal(feed_arg(&f, 3), TOKEN);
    assert_string_equal(feed_arg(&f, 4), TOKEN);
    assert_string_equal(feed_arg(&f, 5), "30000");
    assert_string_equal(feed_arg(&f, 6), "30000");
    assert_string_equal(feed_arg(&f, 7), "77"); /* for S, should it not be known there */
    assert_int_equal(feed_arg_int(&f, 8), feed_server_us(ATTEMPT_MS) - 400);
    assert_int_equal(feed_arg_int(&f, 9), feed_server_us(0));
}

TEST(drop_says_all_that_the_script_needs) {
    feed f;
    begin(&f, TL_RELEASE);
    feed_assert_asked(&f, "release");
    assert_int_equal(f.last.count, 1);
    assert_int_equal(f.last.command[0].nkeys, 4);
    assert_int_equal(f.last.command[0].argc, 6);
    assert_string_equal(feed_arg(&f, 0), TOKEN);
}

/* The not_after of each request for the token has passed a minute before. */
TEST(what_a_drop_leaves_behind_outlasts_all_requests_for_the_token) {
    feed f;
    prepare(&f, TL_RELEASE, 60000);
    (void)feed_start(&f);
    assert_int_equal(feed_arg_int(&f, 1), 60000 + ATTEMPT_MS);
}

TEST(a_drop_says_nothing_of_how_late_a_request_may_come_where_that_is_not_known) {
    for (int unlimited = 0; unlimited <= 1; unlimited++) {
        feed f;
        prepare(&f, TL_RELEASE, 60000);
        m.job.hold.proof.unlimited = unlimited;
        f.server.anchor.known = unlimited;
        (void)feed_start(&f);
        assert_string_equal(feed_arg(&f, 1), "");
    }
}

/* Its request may be on its way yet: the token must find the door shut. */
TEST(a_drop_of_what_was_asked_for_in_vain_says_so) {
    feed f;
    prepare(&f, TL_RELEASE, 60000);
    m.job.release.in_vain = true;
    (void)feed_start(&f);
    assert_int_equal(f.last.command[0].argc, 7);
    assert_string_equal(feed_arg(&f, 2), "");
}

TEST(an_attempt_ends_at_its_own_limit_or_when_the_asker_moves_on) {
    feed f;
    begin(&f, TL_ACQUIRE);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    prepare(&f, TL_ACQUIRE, 700);
    (void)feed_start(&f);
    assert_int_equal(feed_since(f.last.by), 700);
    assert_int_equal(feed_arg_int(&f, 2), feed_server_us(700) - 140);
}

TEST(not_after_counts_the_earliest_that_the_servers_clock_can_show) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    f.server.anchor.offset.hi += 900000; /* however late it may be */
    f.server.anchor.offset.lo -= 50000;
    f.server.anchor.at = feed_ms(-10000);
    (void)feed_start(&f);
    /* 12 s at 100 ppm each */
    assert_int_equal(feed_arg_int(&f, 2), feed_server_us(ATTEMPT_MS) - 50000 - 2400);
    assert_int_equal(feed_arg_int(&f, 3), feed_server_us(0) - 50000 - 2000);
}

/* The clock was looked at so long ago, and may be slewed so fast, that a take in time might be refused. */
static void begin_outdated(feed *f, tl_op op, int64_t ago_ms) {
    prepare(f, op, 60000);
    f->server.drift_ppm = 100000;
    f->server.anchor.at = feed_ms(-ago_ms);
    (void)feed_start(f);
}

TEST(a_take_asks_for_the_time_first_when_it_was_told_long_ago) {
    feed f;
    /* the earliest falls back by 2/11 of what passes: with 3.5 s and the 2 s of the attempt by 1 s, half of these */
    begin_outdated(&f, TL_ACQUIRE, 3500);
    feed_assert_asked(&f, "acquire");
    begin_outdated(&f, TL_ACQUIRE, 3501);
    assert_string_equal(f.last.command[0].argv[0].p, "TIME");
    assert_int_equal(f.last.command[0].argc, 1);
    assert_int_equal(f.last.ticket, TICKET);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    feed_at(&f, 10);
    (void)feed_reply(&f, "['1700005000' '10000']");
    assert_int_equal(f.status, TL_GO);
    feed_assert_asked(&f, "acquire");
    assert_int_equal(feed_arg_int(&f, 3), feed_server_us(10));
    /* known to the 10 ms of that exchange, and 2/11 of what is left to the limit are 361.8 ms */
    assert_int_equal(feed_arg_int(&f, 2), feed_server_us(ATTEMPT_MS) - 361819);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    feed_at(&f, 20);
    (void)feed_reply(&f, "[1 '" TOKEN "' 30000 '1700005000020000' '1700005000' '20000' 1 1]");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(10).ns + TTL_MS * TL_NS_PER_MS * 9 / 11);
}

/* As it may when its host was stopped: not every server can refuse what comes too late. */
TEST(a_take_is_not_asked_when_the_time_is_told_after_its_limit) {
    feed f;
    begin_outdated(&f, TL_ACQUIRE, 60000);
    feed_at(&f, ATTEMPT_MS);
    (void)feed_reply(&f, "['1700005000' '10000']");
    expect(&f, TL_EUNAVAILABLE, false);
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(f.out.sys_errno, ETIMEDOUT); /* so that no earlier refusal is forgotten */
}

TEST(asking_for_the_time_leaves_nothing_behind) {
    feed f;
    begin_outdated(&f, TL_ACQUIRE, 60000);
    (void)feed_lost(&f);
    expect(&f, TL_EUNAVAILABLE, false);
    begin_outdated(&f, TL_ACQUIRE, 60000);
    (void)feed_reply(&f, "-LOADING Redis is loading the dataset in memory\n");
    expect(&f, TL_EUNAVAILABLE, false);
    begin_outdated(&f, TL_ACQUIRE, 60000);
    (void)feed_reply(&f, "-NOPERM this user has no permissions to run the 'time' command\n");
    expect(&f, TL_EDENIED, false);
    begin_outdated(&f, TL_ACQUIRE, 60000);
    (void)feed_reply(&f, "['soon' '1']");
    expect(&f, TL_ESERVER, false);
}

/* It touches only what is still ours: one that comes late prolongs a dead lock once at worst. */
TEST(a_keep_is_given_until_the_latest_when_the_time_was_told_long_ago) {
    feed f;
    begin_outdated(&f, TL_RENEW, 3500);
    assert_int_equal(feed_arg_int(&f, 8), feed_server_us(ATTEMPT_MS) - 1000000);
    begin_outdated(&f, TL_RENEW, 7000);
    feed_assert_asked(&f, "renew");
    assert_int_equal(feed_arg_int(&f, 8),
                     feed_server_us(ATTEMPT_MS) + 2000000); /* 9 s * 11/9 - 9 s */
}

TEST(a_server_whose_clock_is_unknown_is_given_no_limit) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    f.server.anchor.known = false;
    (void)feed_start(&f);
    assert_string_equal(feed_arg(&f, 2), "0");
    assert_string_equal(feed_arg(&f, 3), "0");
    (void)feed_lost(&f);
    expect(&f, TL_EUNCERTAIN, true);
    assert_int_equal(result()->harmless.ns, INT64_MAX); /* it may take effect whenever it arrives */
}

TEST(a_server_at_the_epoch_is_never_told_a_negative_time) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    f.server.anchor.offset = (tl_interval){-FEED_START_NS / 1000 - 5000000, 0};
    (void)feed_start(&f);
    assert_string_equal(feed_arg(&f, 2), "0");
    assert_string_equal(feed_arg(&f, 3), "0");
    (void)feed_lost(&f);
    assert_int_equal(result()->harmless.ns, INT64_MAX);
}

TEST(wait_follows_take_and_keep_in_the_same_exchange) {
    const tl_op ops[] = {TL_ACQUIRE, TL_RENEW};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        prepare(&f, ops[i], 60000);
        m.job.wait_replicas = 2;
        m.job.wait_replicas_ms = 750;
        (void)feed_start(&f);
        assert_int_equal(f.last.count, 2);
        const tl_command *c = &f.last.command[1];
        assert_int_equal(c->form, TL_ARGV);
        assert_int_equal(c->argc, 3);
        assert_string_equal(c->argv[0].p, "WAIT");
        assert_string_equal(c->argv[1].p, "2");
        assert_string_equal(c->argv[2].p, "750");
    }
}

TEST(a_drop_waits_for_no_replica) {
    feed f;
    prepare(&f, TL_RELEASE, 60000);
    m.job.wait_replicas = 2;
    m.job.wait_fsync = true;
    (void)feed_start(&f);
    assert_int_equal(f.last.count, 1);
}

/* ---- take: answers --------------------------------------------------------------------------- */

TEST(a_fresh_take_is_ours_from_the_sending_less_the_drift) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 800); /* when the answer came doesn't count */
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_int_equal(result()->acquire.fence, 77);
    assert_true(result()->acquire.checked);
}

TEST(the_usual_take_has_all_the_lifetime_and_the_servers_time_for_a_fence) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 800);
    (void)feed_just_taken(&f);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_true(result()->acquire.fence == (uint64_t)feed_server_us(800));
    assert_true(result()->acquire.checked);
}

TEST(already_ours_counts_what_the_key_has_left_never_the_whole_lifetime) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 100);
    (void)feed_taken(&f, 1234);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(1234).ns - FEED_LOSS_OF(1234));
}

TEST(more_left_than_was_asked_for_counts_for_nothing) {
    const int64_t more[] = {TTL_MS + 1, 86400000, INT64_MAX};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_taken(&f, more[i]);
        assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    }
}

TEST(a_key_that_somebody_persisted_is_ours_for_our_lifetime) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_taken(&f, -1);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
}

TEST(nonsense_left_leaves_nothing) {
    const int64_t nonsense[] = {-2, -1000, INT64_MIN};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_taken(&f, nonsense[i]);
        assert_int_equal(result()->deadline.ns, feed_ms(0).ns);
    }
}

TEST(busy_tells_when_to_come_back) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 30);
    (void)feed_busy(&f, 5000, true);
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.announced && result()->acquire.checked);
    assert_int_equal(feed_since(result()->acquire.hint),
                     30 + 5000 + 1); /* the latest: from the receipt */
}

TEST(busy_for_no_whole_millisecond_more_is_over_after_one) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_busy(&f, 0, true);
    assert_int_equal(feed_since(result()->acquire.hint), 1);
}

TEST(busy_without_a_lifetime_gives_no_hint) {
    const int64_t none[] = {-1, -2, INT64_MIN};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_busy(&f, none[i], false);
        expect(&f, TL_EBUSY, false);
        assert_false(result()->acquire.announced);
        assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
    }
}

TEST(busy_for_an_absurdly_long_time_gives_no_hint_either) {
    const int64_t absurd[] = {INT64_MAX, INT64_MAX - 1, INT64_MAX / 1000000};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_busy(&f, absurd[i], false);
        expect(&f, TL_EBUSY, false);
        assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
    }
}

TEST(a_server_that_cannot_check_lateness_says_so) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "[0 'another' 5000 '77' %s 0 1]", feed_time(&f));
    expect(&f, TL_EBUSY, false);
    assert_false(result()->acquire.checked);
}

TEST(too_late_left_nothing_behind) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_too_late(&f);
    expect(&f, TL_EUNAVAILABLE, false);
    assert_true(f.out.has_bracket); /* so that the next one carries the right time */
}

TEST(a_spent_token_takes_nothing) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "[-2 nil -1 '77' %s 1 0]", feed_time(&f));
    expect(&f, TL_ESERVER, false);
}

TEST(an_old_server_without_a_sound_fence_is_not_believed) {
    const char *const fences[] = {
        "'0'", "'-5'", "'nan'", "'1e15'", "nil", "''", "'99999999999999999999'"};
    for (size_t i = 0; i < sizeof fences / sizeof *fences; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "[1 '" TOKEN "' 30000 %s %s 1 1]", fences[i], feed_time(&f));
        expect(&f, TL_ESERVER, true);
    }
}

TEST(any_other_take_answer_is_malformed_and_may_have_taken) {
    const char *const bad[] = {
        "nil",
        "7",
        "'OK'",
        "'0'",
        "'-5'",
        "'9007199254740992'", /* 2^53 */
        "+OK",
        "[]",
        "[1]",
        "[nil]",
        "['x' 't' 30000 '77' '1' '2' 1 1]",
        "[[1] 't' 30000 '77' '1' '2' 1 1]",
        "[2 't' 30000 '77' '1' '2' 1 1]",
        "[-3 't' 30000 '77' '1' '2' 1 1]",
        "[9223372036854775807 't' 30000 '77' '1' '2' 1 1]",
        "[1 't' 30000 '77' '1' '2']",   /* not told whether it checks */
        "[1 't' nil '77' '1' '2' 1 1]", /* nor what is left */
        "[1 't' 'x' '77' '1' '2' 1 1]",
        "[0 't' nil '77' '1' '2' 1 1]",
        "[0 't' 5000 '77' '1' '2' 1]", /* nor whether it is announced */
        "[0 't' 5000 '77' '1' '2' nil 1]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
        assert_int_equal(result()->harmless.ns, feed_ms(ATTEMPT_MS).ns);
    }
}

TEST(a_reply_without_any_reply_is_malformed) {
    const tl_op ops[] = {TL_ACQUIRE, TL_RENEW, TL_RELEASE};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, ops[i]);
        (void)feed_event(&f,
                         (tl_event){.kind = TL_REPLY, .asked = {.ticket = TICKET, .sent = f.sent}});
        expect(&f, TL_ESERVER, true);
    }
}

TEST(each_answer_to_take_and_keep_brings_a_bracket) {
    feed f;
    for (int i = 0; i < 5; i++) {
        begin(&f, i == 3 ? TL_RENEW : TL_ACQUIRE);
        feed_at(&f, 10);
        switch (i) {
        case 0: (void)feed_taken(&f, TTL_MS); break;
        case 1: (void)feed_busy(&f, 5000, true); break;
        case 2: (void)feed_too_late(&f); break;
        case 3: (void)feed_kept(&f, TTL_MS); break;
        default: (void)feed_just_taken(&f); break;
        }
        assert_true(f.out.has_bracket);
        assert_int_equal(f.out.bracket.lo, FEED_OFFSET_US);
        assert_int_equal(f.out.bracket.hi, FEED_OFFSET_US + 10000 + 1);
    }
}

TEST(a_time_that_cannot_be_right_brings_none) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "[1 '" TOKEN "' 30000 '77' nil nil 0 1]");
    expect(&f, TL_OK, false);
    assert_false(f.out.has_bracket);
}

/* ---- the native form of a take ---------------------------------------------------------------- */

#define OTHER "00000000-0000-4000-8000-0000000000bb"
#define BEHIND_US 1000000
#define FENCE_END (INT64_C(1) << 53)
#define DAY_US INT64_C(86400000000)

static void assert_words(const tl_command *c, const char *words) {
    char text[256] = "";
    assert_int_equal(c->form, TL_ARGV);
    for (uint8_t i = 0; i < c->argc; i++) {
        (void)strncat(text, i ? " " : "", sizeof text - strlen(text) - 1);
        (void)strncat(text, c->argv[i].p, sizeof text - strlen(text) - 1);
    }
    assert_string_equal(text, words);
}

/* What SET and INCR answer, and items of HMGET. */
static tl_status feed_native(feed *f, const char *set, int64_t last, const char *items) {
    char text[512];
    (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED [%s %lld [%s]]", set,
                   (long long)last, items);
    return feed_native_reply(f, text);
}

static int64_t clock_us(const feed *f) {
    return FEED_OFFSET_US + f->now.ns / 1000;
}

/* The script is asked, with the same token, for what is left of the asker's time. */
static void assert_left_to_the_script(const feed *f) {
    assert_int_equal(f->status, TL_GO);
    feed_assert_asked(f, "acquire");
    assert_int_equal(f->last.native, 0);
    assert_int_equal(f->last.ticket, TICKET);
    assert_string_equal(feed_arg(f, 0), TOKEN);
}

TEST(a_first_take_has_a_native_form) {
    feed f;
    begin(&f, TL_ACQUIRE);
    assert_int_equal(f.last.native, 5);
    assert_string_equal(f.last.slot.text, "0DT");
    const tl_command *c = &f.last.command[f.last.count];
    assert_words(&c[0], "MULTI");
    assert_words(&c[1], "SET " KEY " " TOKEN " NX PX 30000");
    assert_words(&c[2], "INCR " COUNTER);
    assert_words(&c[3], "HMGET " SIDECAR " token until fence line");
    assert_words(&c[4], "EXEC");
}

TEST(the_native_form_reserves_numbers_and_waits_for_replicas) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.fences = 64;
    m.job.wait_replicas = 2;
    m.job.wait_replicas_ms = 750;
    (void)feed_start(&f);
    assert_int_equal(f.last.native, 6);
    const tl_command *c = &f.last.command[f.last.count];
    assert_words(&c[2], "INCRBY " COUNTER " 64");
    assert_words(&c[5], "WAIT 2 750");
    char text[256];
    int64_t last = clock_us(&f);
    (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED [+OK %lld [nil nil nil nil]] 2",
                   (long long)last);
    (void)feed_native_reply(&f, text);
    expect(&f, TL_OK, false);
    assert_true(result()->acquire.fence == (uint64_t)last - 63);
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.wait_replicas = 2;
    (void)feed_start(&f);
    (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED [+OK %lld [nil nil nil nil]] 1",
                   (long long)last);
    (void)feed_native_reply(&f, text);
    expect(&f, TL_EUNAVAILABLE, true);
}

TEST(what_may_not_be_native_has_no_native_form) {
    for (int i = 0; i < 6; i++) {
        feed f;
        prepare(&f, i == 4 ? TL_RENEW : i == 5 ? TL_RELEASE : TL_ACQUIRE, 60000);
        m.job.again = i == 0;        /* it may be held already */
        m.job.acquire.bind = i == 1; /* S is to be written at once */
        f.server.anchor.known = i != 2;
        f.server.level = i == 3 ? 0x10 : 0; /* the server refuses it */
        (void)feed_start(&f);
        assert_int_equal(f.last.count, 1);
        assert_int_equal(f.last.native, 0);
    }
}

TEST(a_native_take_is_ours_from_the_sending_and_unknown_to_the_sidecar) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 800);
    (void)feed_native(&f, "+OK", clock_us(&f), "nil nil nil nil");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_true(result()->acquire.fence == (uint64_t)clock_us(&f));
    assert_true(result()->proof.unbound);
    assert_false(f.out.raised); /* INCR doesn't bring the counter to the clock */
}

TEST(a_script_that_drew_a_number_has_raised_the_counter) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_just_taken(&f);
    assert_true(f.out.raised);
    assert_string_equal(f.out.slot.text, "0DT");
    assert_true(result()->proof.unbound);
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "[1 '" TOKEN "' 30000 '%lld' %s 1 1]", (long long)clock_us(&f) + 63,
                     feed_time(&f));
    assert_true(f.out.raised);
    begin(&f, TL_ACQUIRE);
    (void)feed_busy(&f, 5000, true);
    assert_false(f.out.raised);
}

/* S knew the token: no number was drawn, and the counter may be behind. */
TEST(a_repeated_take_that_drew_no_number_has_raised_nothing) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.again = true;
    (void)feed_start(&f);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_OK, false);
    assert_false(f.out.raised);
    prepare(&f, TL_ACQUIRE, 60000); /* where the time is told behind the number */
    m.job.again = true;
    (void)feed_start(&f);
    (void)feed_reply(&f, "[1 '" TOKEN "' 30000 '%lld' %s 0 1]", (long long)clock_us(&f) + 9,
                     feed_time(&f));
    expect(&f, TL_OK, false);
    assert_false(f.out.raised);
}

TEST(a_take_that_binds_is_known_to_the_sidecar) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.acquire.bind = true;
    (void)feed_start(&f);
    (void)feed_just_taken(&f);
    assert_false(result()->proof.unbound);
}

TEST(native_busy_tells_how_long_the_sidecar_binds_another) {
    char items[128];
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_native(&f, "nil", clock_us(&f), "nil nil nil nil");
    expect(&f, TL_EBUSY, false);
    assert_false(result()->acquire.announced || result()->acquire.checked);
    assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
    begin(&f, TL_ACQUIRE);
    (void)snprintf(items, sizeof items, "'" OTHER "' '%lld' '1' nil",
                   (long long)clock_us(&f) + 5000000);
    (void)feed_native(&f, "nil", clock_us(&f), items);
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.announced);
    assert_int_equal(feed_since(result()->acquire.hint), 5001);
    begin(&f, TL_ACQUIRE); /* over: it says nothing of who holds K now */
    (void)snprintf(items, sizeof items, "'" OTHER "' '%lld' '1' nil", (long long)clock_us(&f) - 1);
    (void)feed_native(&f, "nil", clock_us(&f), items);
    assert_false(result()->acquire.announced);
    assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
}

TEST(what_the_sidecar_binds_to_another_is_left_to_the_script) {
    const struct {
        int64_t until_us; /* from now */
        bool binds;
    } known[] = {{5000000, true}, {0, true}, {-1, false}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        char items[128];
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)snprintf(items, sizeof items, "'" OTHER "' '%lld' '1' nil",
                       (long long)(clock_us(&f) + known[i].until_us));
        (void)feed_native(&f, "+OK", clock_us(&f), items);
        if (known[i].binds)
            assert_left_to_the_script(&f);
        else
            expect(&f, TL_OK, false);
    }
}

/* Of a clock that is known to a second it counts the earliest: until then another may believe. */
TEST(the_sidecar_binds_until_the_earliest_that_the_clock_can_show) {
    char items[128];
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    f.server.anchor.offset.lo -= 1000000;
    (void)feed_start(&f);
    (void)snprintf(items, sizeof items, "'" OTHER "' '%lld' '1' nil",
                   (long long)clock_us(&f) - 999999);
    (void)feed_native(&f, "+OK", clock_us(&f), items);
    assert_left_to_the_script(&f);
}

TEST(own_or_released_the_sidecar_binds_nobody) {
    const char *const tokens[] = {"''", "'" TOKEN "'", "nil"};
    for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++) {
        char items[128];
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)snprintf(items, sizeof items, "%s '%lld' '1' ''", tokens[i],
                       (long long)clock_us(&f) + 5000000);
        (void)feed_native(&f, "+OK", clock_us(&f), items);
        expect(&f, TL_OK, false);
    }
}

TEST(who_stands_in_line_is_left_to_the_script) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_native(&f, "+OK", clock_us(&f), "nil nil nil '" COUNTER "'");
    assert_left_to_the_script(&f);
}

/* Ahead of it is a counter whose server's clock has been set back. */
TEST(a_number_behind_the_clock_or_beyond_the_last_is_not_believed) {
    const int64_t from_now[] = {-BEHIND_US - 1, FENCE_END - FEED_SERVER_US, -FEED_SERVER_US,
                                -FEED_SERVER_US - 7};
    for (size_t i = 0; i < sizeof from_now / sizeof *from_now; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_native(&f, "+OK", clock_us(&f) + from_now[i], "nil nil nil nil");
        assert_left_to_the_script(&f);
    }
    const int64_t good[] = {-BEHIND_US, 0, 1, 2 * DAY_US, 3000 * DAY_US};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_native(&f, "+OK", clock_us(&f) + good[i], "nil nil nil nil");
        expect(&f, TL_OK, false);
        assert_int_equal(result()->acquire.fence, clock_us(&f) + good[i]);
    }
}

TEST(a_number_not_above_what_the_sidecar_knows_is_not_believed) {
    for (int more = -1; more <= 1; more++) {
        char items[128];
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)snprintf(items, sizeof items, "'' '1' '%lld' nil", (long long)clock_us(&f));
        (void)feed_native(&f, "+OK", clock_us(&f) + more, items);
        if (more <= 0)
            assert_left_to_the_script(&f);
        else
            expect(&f, TL_OK, false);
    }
}

/* A counter that holds no number, a sidecar of another type: the script says what is wrong. */
TEST(what_has_another_type_is_left_to_the_script) {
    static const char *const wrong[] = {
        "[+OK -ERR value is not an integer or out of range\n [nil nil nil nil]]",
        "[+OK 1700005000000000 -WRONGTYPE Operation against a key holding the wrong kind\n]"};
    for (size_t i = 0; i < 2; i++) {
        char text[256];
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED %s", wrong[i]);
        (void)feed_native_reply(&f, text);
        assert_left_to_the_script(&f);
        (void)feed_reply(&f, "-ERR wrong\n");
        expect(&f, TL_ESERVER, true); /* K has the token */
    }
}

TEST(what_the_script_says_of_it_counts) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_native(&f, "+OK", 7, "nil nil nil nil");
    (void)feed_busy(&f, 5000, true); /* it has given K back */
    expect(&f, TL_EBUSY, false);
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 100);
    (void)feed_native(&f, "+OK", 7, "nil nil nil nil");
    assert_int_equal(feed_since(f.last.by), 100 + ATTEMPT_MS);
    feed_at(&f, 200);
    (void)feed_taken(&f, 29000);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(100 + 29000).ns - FEED_LOSS_OF(29000));
    assert_int_equal(result()->acquire.fence, 77);
}

/* K is ours, though nobody believes in it: it must be given up. */
TEST(a_second_exchange_without_an_answer_leaves_the_key) {
    feed f;
    for (int i = 0; i < 4; i++) {
        begin(&f, TL_ACQUIRE);
        (void)feed_native(&f, "+OK", 7, "nil nil nil nil");
        switch (i) {
        case 0: (void)feed_lost(&f); break;
        case 1: (void)feed_refused(&f); break; /* it never left */
        case 2: (void)feed_reply(&f, "-LOADING Redis is loading the dataset in memory\n"); break;
        default: (void)feed_reply(&f, "[7]"); break;
        }
        assert_int_equal(f.status, TL_END);
        assert_int_not_equal(result()->code, TL_OK);
        assert_true(result()->maybe);
    }
}

TEST(no_second_exchange_begins_at_the_limit) {
    feed f;
    prepare(&f, TL_ACQUIRE, 700);
    (void)feed_start(&f);
    feed_at(&f, 700);
    (void)feed_native(&f, "+OK", 7, "nil nil nil nil");
    expect(&f, TL_EUNAVAILABLE, true);
    assert_int_equal(f.out.sends, 0);
}

/* SET heeds no time: when it arrives it takes effect. */
TEST(a_native_take_without_an_answer_is_in_doubt_for_good) {
    for (int native = 0; native <= 1; native++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        feed_at(&f, ATTEMPT_MS);
        (void)feed_event(
            &f, (tl_event){.kind = TL_FAILED,
                           .asked = {.ticket = TICKET, .sent = f.sent, .native = native == 1},
                           .failed = {.maybe_sent = true,
                                      .why = TL_EUNAVAILABLE,
                                      .message = TL_LITERAL("no reply in time")}});
        expect(&f, TL_EUNCERTAIN, true);
        assert_int_equal(result()->harmless.ns,
                         native ? INT64_MAX : feed_ms(ATTEMPT_MS).ns); /* the script heeds it */
    }
}

TEST(a_server_that_refuses_the_native_form_is_asked_by_script_from_then_on) {
    static const char *const refusals[] = {
        /* nothing was executed */
        "+OK +QUEUED -NOPERM this user has no permissions to run the 'incr' command\n +QUEUED "
        "-EXECABORT Transaction discarded because of previous errors.\n",
        "+OK +QUEUED -ERR unknown command 'INCR'\n +QUEUED "
        "-EXECABORT Transaction discarded because of previous errors.\n",
        /* MULTI was, so each of them was executed, or not */
        "-ERR unknown command 'MULTI'\n +OK 1700005000000000 [nil nil nil nil] "
        "-ERR unknown command 'EXEC'\n",
        "-NOPERM this user has no permissions to run the 'multi' command\n nil 1700005000000000 "
        "[nil nil nil nil] -ERR EXEC without MULTI\n",
        /* SET knows no NX */
        "+OK +QUEUED +QUEUED +QUEUED [-ERR syntax error\n 1700005000000000 [nil nil nil nil]]"};
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_native_reply(&f, refusals[i]);
        assert_left_to_the_script(&f);
        assert_true(f.out.level != 0);
        f.server.level = f.out.level;
        (void)feed_lost(&f);
        expect(&f, TL_EUNCERTAIN, true);
        prepare(&f, TL_ACQUIRE, 60000);
        f.server.level = 0x10;
        (void)feed_start(&f);
        assert_int_equal(f.last.native, 0);
    }
}

/* Where MULTI alone was refused. */
TEST(a_set_outside_of_a_transaction_leaves_the_key) {
    for (int set = 0; set <= 1; set++) {
        char text[256];
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)snprintf(text, sizeof text,
                       "-ERR unknown command 'MULTI'\n %s 1700005000000000 [nil nil nil nil] "
                       "-ERR unknown command 'EXEC'\n",
                       set ? "+OK" : "nil");
        (void)feed_native_reply(&f, text);
        assert_left_to_the_script(&f);
        (void)feed_refused(&f); /* that one has not left */
        expect(&f, TL_EUNAVAILABLE, set == 1);
    }
}

TEST(a_refusal_that_may_pass_leaves_nothing_behind) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_native_reply(&f, "+OK -OOM command not allowed when used memory > 'maxmemory'.\n "
                                "+QUEUED +QUEUED -EXECABORT Transaction discarded.\n");
    assert_int_equal(f.status, TL_END);
    assert_int_not_equal(result()->code, TL_OK);
    assert_false(result()->maybe);
    assert_int_equal(f.out.level, 0);
    assert_non_null(strstr(f.out.message, "OOM"));
    begin(&f, TL_ACQUIRE);
    (void)feed_native_reply(&f, "-LOADING Redis is loading the dataset in memory\n"
                                "-LOADING x\n -LOADING x\n -LOADING x\n -LOADING x\n");
    expect(&f, TL_EUNAVAILABLE, false);
}

TEST(any_other_native_answer_is_malformed_and_may_have_taken) {
    static const char *const bad[] = {"nil",
                                      "[]",
                                      "[+OK]",
                                      "[+OK 1700005000000000]",
                                      "['x' 1700005000000000 [nil nil nil nil]]",
                                      "[7 1700005000000000 [nil nil nil nil]]",
                                      "+OK"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char text[256];
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED %s", bad[i]);
        (void)feed_native_reply(&f, text);
        expect(&f, TL_ESERVER, true);
        assert_int_equal(result()->harmless.ns, INT64_MAX);
    }
}

/* ---- replicas and restarts ------------------------------------------------------------------- */

static void replicas(feed *f, tl_op op, const char *second) {
    prepare(f, op, 60000);
    m.job.wait_replicas = 2;
    m.job.wait_replicas_ms = 750;
    (void)feed_start(f);
    feed_at(f, 50);
    if (op == TL_ACQUIRE)
        (void)feed_reply(f, "[1 '" TOKEN "' 30000 '77' %s 1 1] %s", feed_time(f), second);
    else
        (void)feed_reply(f, "[%s [1 '" TOKEN "' 30000]] %s", feed_time(f), second);
}

TEST(waitaof_follows_them_where_it_must_be_on_disk) {
    const tl_op ops[] = {TL_ACQUIRE, TL_RENEW};
    for (int i = 0; i < 4; i++) {
        feed f;
        prepare(&f, ops[i & 1], 60000);
        m.job.wait_fsync = true;
        m.job.wait_replicas = i < 2 ? 0 : 2;
        m.job.wait_replicas_ms = 750;
        (void)feed_start(&f);
        assert_int_equal(f.last.count, 2);
        assert_words(&f.last.command[1], i < 2 ? "WAITAOF 1 0 750" : "WAITAOF 1 2 750");
    }
}

/* What WAITAOF answers, and what that comes to. */
static void on_disks(tl_op op, bool native, int32_t wanted, const char *answer, tl_err code,
                     const char *words) {
    feed f;
    prepare(&f, op, 60000);
    m.job.wait_fsync = true;
    m.job.wait_replicas = wanted;
    m.job.wait_replicas_ms = 750;
    (void)feed_start(&f);
    feed_at(&f, 50);
    char text[512];
    (void)snprintf(text, sizeof text, "+OK +QUEUED +QUEUED +QUEUED [+OK %lld [nil nil nil nil]] %s",
                   (long long)clock_us(&f), answer);
    if (native)
        (void)feed_native_reply(&f, text);
    else if (op == TL_ACQUIRE)
        (void)feed_reply(&f, "[1 '" TOKEN "' 30000 '77' %s 1 1] %s", feed_time(&f), answer);
    else
        (void)feed_reply(&f, "[%s [1 '" TOKEN "' 30000]] %s", feed_time(&f), answer);
    expect(&f, code, code != TL_OK);
    if (words) {
        assert_string_equal(f.out.message, words);
        assert_int_equal(result()->harmless.ns, feed_ms(50).ns); /* it may be dropped at once */
    }
}

TEST(a_take_or_a_keep_counts_only_when_the_disks_have_it) {
    static const char here[] = "the server did not have the lock on its disk in time";
    static const char there[] = "too few replicas had the lock on their disks in time";
    for (int i = 0; i < 3; i++) {
        tl_op op = i < 2 ? TL_ACQUIRE : TL_RENEW;
        on_disks(op, i == 1, 0, "[1 0]", TL_OK, NULL);
        on_disks(op, i == 1, 2, "[1 2]", TL_OK, NULL);
        on_disks(op, i == 1, 2, "[1 3]", TL_OK, NULL);
        on_disks(op, i == 1, 0, "[0 0]", TL_EUNAVAILABLE, here);
        on_disks(op, i == 1, 0, "[0 5]", TL_EUNAVAILABLE, here);
        on_disks(op, i == 1, 2, "[1 1]", TL_EUNAVAILABLE, there);
        on_disks(op, i == 1, 2, "[0 2]", TL_EUNAVAILABLE, here);
        /* What WAIT would answer, or nobody, says nothing of disks. */
        on_disks(op, i == 1, 0, "1", TL_EUNAVAILABLE, here);
        on_disks(op, i == 1, 0, "[1]", TL_EUNAVAILABLE, here);
        on_disks(op, i == 1, 0, "[1 0 0]", TL_EUNAVAILABLE, here);
        on_disks(op, i == 1, 0, "nil", TL_EUNAVAILABLE, here);
        on_disks(op, i == 1, 0, "-UNBLOCKED instance state changed", TL_EUNAVAILABLE, here);
    }
}

TEST(a_server_that_can_not_say_what_is_on_its_disk_is_named) {
    for (int i = 0; i < 3; i++) {
        tl_op op = i < 2 ? TL_ACQUIRE : TL_RENEW;
        on_disks(op, i == 1, 1,
                 "-ERR unknown command 'WAITAOF', with args beginning with: ", TL_EUNSUPPORTED,
                 "the server has no WAITAOF, which wait_fsync needs: Redis 7.2 or newer, not "
                 "renamed");
        on_disks(op, i == 1, 1,
                 "-ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
                 TL_EUNSUPPORTED,
                 "the server keeps no append-only file, which wait_fsync needs: appendonly yes");
    }
}

TEST(enough_replicas_are_enough) {
    feed f;
    replicas(&f, TL_ACQUIRE, "2");
    expect(&f, TL_OK, false);
    replicas(&f, TL_ACQUIRE, "3");
    expect(&f, TL_OK, false);
    replicas(&f, TL_RENEW, "2");
    expect(&f, TL_OK, false);
}

TEST(too_few_replicas_are_no_lock_but_the_key_may_be_set) {
    const char *const few[] = {"1", "0", "-1", "nil", "'x'", "[2]", "-ERR WAIT cannot be used", ""};
    const tl_op ops[] = {TL_ACQUIRE, TL_RENEW};
    for (size_t i = 0; i < sizeof few / sizeof *few; i++)
        for (size_t j = 0; j < 2; j++) {
            feed f;
            replicas(&f, ops[j], few[i]);
            expect(&f, TL_EUNAVAILABLE, true);
            assert_int_equal(result()->harmless.ns,
                             feed_ms(50).ns); /* it is over, not on its way */
            assert_int_equal(result()->deadline.ns, 0);
        }
}

#define QUIET_MS 45000

static void quiet(feed *f, bool join) {
    prepare(f, TL_ACQUIRE, 60000);
    m.job.acquire.quiet_ms = QUIET_MS;
    m.job.queue.join = join;
    if (join)
        m.job.queue.inbox = TL_LITERAL("tidelock:inbox:me");
    (void)feed_start(f);
    feed_assert_asked(f, join ? "join" : "acquire");
    feed_at(f, 50);
}

/* What else may follow is said, too. */
TEST(the_script_is_told_for_how_long_nothing_may_be_given) {
    feed f;
    quiet(&f, false);
    assert_int_equal(f.last.native, 0); /* which couldn't ask */
    assert_int_equal(f.last.command[0].argc, 4 + 11);
    assert_string_equal(feed_arg(&f, 6), "1");
    assert_string_equal(feed_arg(&f, 7), TOKEN);
    assert_string_equal(feed_arg(&f, 8), "");
    assert_int_equal(feed_arg_int(&f, 9), TTL_MS);
    assert_int_equal(feed_arg_int(&f, 10), QUIET_MS);
    quiet(&f, true);
    assert_int_equal(f.last.command[0].argc, 4 + 8);
    assert_int_equal(feed_arg_int(&f, 7), QUIET_MS);
    prepare(&f, TL_ACQUIRE, 60000);
    (void)feed_start(&f);
    assert_int_equal(f.last.command[0].argc, 4 + 6);
}

/* Where Sentinels name the server: in which epoch. */
TEST(the_script_is_told_by_which_epoch_its_server_is_the_master) {
    for (int join = 0; join < 2; join++) {
        feed f;
        prepare(&f, TL_ACQUIRE, 60000);
        m.job.acquire.quiet_ms = QUIET_MS;
        m.job.queue.join = join;
        m.job.queue.inbox = join ? TL_LITERAL("tidelock:inbox:me") : (tl_bytes){0};
        f.server.has_epoch = true;
        f.server.epoch = 0;
        (void)feed_start(&f);
        assert_string_equal(feed_arg(&f, join ? 7 : 10), "45000 0");
        f.server.epoch = INT64_MAX;
        (void)feed_start(&f);
        assert_string_equal(feed_arg(&f, join ? 7 : 10), "45000 9223372036854775807");
    }
}

static void withheld(bool join, int64_t left_ms) {
    feed f;
    quiet(&f, join);
    if (join)
        (void)feed_reply(&f, "[-4 '" TOKEN "' %lld 0 %s '77' 0 1 0]", (long long)left_ms,
                         feed_time(&f));
    else
        (void)feed_withheld(&f, left_ms);
    expect(&f, TL_EUNAVAILABLE, true); /* K may be its own */
    assert_int_equal(feed_since(result()->acquire.hint), 50 + left_ms);
    assert_non_null(strstr(f.out.message, "quiet_ms"));
    assert_int_equal(result()->acquire.rank, join ? 77 : 0);
}

TEST(what_is_not_given_yet_is_not_believed) {
    for (int join = 0; join < 2; join++) {
        withheld(join, 1);
        withheld(join, QUIET_MS);
    }
}

TEST(a_server_that_does_not_tell_who_it_is_is_not_taken_from) {
    for (int join = 0; join < 2; join++) {
        feed f;
        quiet(&f, join);
        if (join)
            (void)feed_reply(&f, "[-5 nil -1 0 %s '77' 0 1 0]", feed_time(&f));
        else
            (void)feed_reply(&f, "[-5 nil -1 '0' %s 0 0]", feed_time(&f));
        expect(&f, TL_EUNSUPPORTED, true);
        assert_non_null(strstr(f.out.message, "quiet_ms"));
        assert_non_null(strstr(f.out.message, "run_id"));
    }
}

TEST(who_may_not_ask_is_told_what_needs_it_and_may_stand_in_line) {
    for (int join = 0; join < 2; join++) {
        feed f;
        quiet(&f, join);
        (void)feed_reply(&f, "-ERR The user executing the script can't run this command or "
                             "subcommand (info)\n");
        expect(&f, TL_EDENIED, false);
        assert_non_null(strstr(f.out.message, "+info"));
        assert_non_null(strstr(f.out.message, "quiet_ms"));
        assert_int_equal(f.out.level, 0);
    }
}

/* Where there is no line, which has no such answer. */
TEST(who_cannot_stand_in_line_is_asked_for_all_the_same) {
    feed f;
    quiet(&f, true);
    (void)feed_reply(&f, "[-3]");
    feed_assert_asked(&f, "acquire");
    assert_int_equal(feed_arg_int(&f, 10), QUIET_MS);
}

/* ---- keep: answers --------------------------------------------------------------------------- */

TEST(kept_counts_from_the_sending_what_the_key_has_left) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, 800);
    (void)feed_kept(&f, TTL_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    begin(&f, TL_RENEW);
    (void)feed_kept(&f, 20000);
    assert_int_equal(result()->deadline.ns, feed_ms(20000).ns - FEED_LOSS_OF(20000));
    begin(&f, TL_RENEW);
    (void)feed_kept(&f, 50000); /* a longer lifetime of before */
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
}

TEST(a_keep_that_finds_anothers_or_nothing_has_lost) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_not_kept(&f, 0);
    expect(&f, TL_ELOST, false);
    assert_int_equal(result()->lost.why, TL_LOST_TAKEN);
    begin(&f, TL_RENEW);
    (void)feed_not_kept(&f, -1);
    expect(&f, TL_ELOST, false);
    assert_int_equal(result()->lost.why, TL_LOST_GONE);
}

TEST(a_keep_that_came_too_late_proves_no_loss) {
    feed f;
    begin(&f, TL_RENEW);
    (void)feed_reply(&f, "['1' '2' [-2 't' -1]]");
    expect(&f, TL_EUNAVAILABLE, false);
}

TEST(any_other_keep_answer_is_malformed_and_proves_no_loss) {
    const char *const bad[] = {
        "nil",
        "1",
        "'OK'",
        "[]",
        "['1' '2']",
        "['1' '2' nil]",
        "['1' '2' 1]",
        "['1' '2' []]",
        "['1' '2' [1 't']]",
        "['1' '2' [1 't' nil]]",
        "['1' '2' [nil 't' 30000]]",
        "['1' '2' ['x' 't' 30000]]",
        "['1' '2' [2 't' 30000]]",
        "['1' '2' [-3 't' 30000]]",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_RENEW);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
    }
}

/* ---- keep, the short way ----------------------------------------------------------------------- */

static uint32_t second_of(int64_t ms) {
    return (uint32_t)(feed_ms(ms).ns / 1000000000 + 1);
}

/* A renewal has written S `ms` before the start. */
static void begin_noted(feed *f, int64_t ms) {
    prepare(f, TL_RENEW, 60000);
    m.job.hold.proof.kind = TL_PROOF_TOKEN;
    m.job.hold.proof.token.noted_s = second_of(-ms);
    (void)feed_start(f);
}

#define MINUTE 60000

TEST(the_short_way_says_whose_it_is_until_when_and_for_how_long) {
    feed f;
    begin_noted(&f, 1);
    feed_assert_asked(&f, "refresh");
    assert_int_equal(f.last.count, 1);
    assert_int_equal(f.last.command[0].nkeys, 2);
    assert_int_equal(f.last.command[0].argc, 5);
    assert_string_equal(feed_arg(&f, 0), TOKEN);
    assert_int_equal(feed_arg_int(&f, 1), feed_server_us(ATTEMPT_MS) - 400);
    assert_string_equal(feed_arg(&f, 2), "30000");
}

TEST(the_short_way_counts_from_the_sending_for_all_the_lifetime) {
    feed f;
    begin_noted(&f, 7);
    feed_at(&f, 800);
    (void)feed_refreshed(&f, true);
    expect(&f, TL_OK, false);
    assert_true(f.out.has_bracket);
    assert_int_equal(result()->deadline.ns, feed_ms(TTL_MS).ns - DRIFT_NS);
    assert_int_equal(result()->proof.token.noted_s, second_of(-7));
}

TEST(a_renewal_that_was_answered_opens_the_short_way_from_its_asking_on) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, 300);
    (void)feed_kept(&f, TTL_MS);
    assert_int_equal(result()->proof.token.noted_s, second_of(0));
    begin(&f, TL_ACQUIRE);
    (void)feed_taken(&f, TTL_MS);
    assert_int_equal(result()->proof.token.noted_s, 0);
}

/* It may be lost, or have been extended to more, or S may be gone: a script that asks for all says which. */
TEST(what_is_odd_about_it_the_long_way_finds_out_in_the_same_attempt) {
    feed f;
    begin_noted(&f, 1);
    feed_at(&f, 500);
    assert_int_equal(feed_refreshed(&f, false), TL_GO);
    feed_assert_asked(&f, "renew");
    assert_int_equal(feed_since(f.last.by), 500 + ATTEMPT_MS);
    (void)feed_kept(&f, TTL_MS);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns, feed_ms(500 + TTL_MS).ns - DRIFT_NS);
    assert_int_equal(result()->proof.token.noted_s, 0); /* it may be odd the next time, too */
    for (int status = -1; status <= 0; status++) {
        begin_noted(&f, 1);
        (void)feed_not_kept(&f, status);
        expect(&f, TL_ELOST, false);
        assert_int_equal(result()->lost.why, status ? TL_LOST_GONE : TL_LOST_TAKEN);
    }
}

/* It may have K, and an S of before: the long way sees to that. */
TEST(what_another_run_of_the_server_says_is_not_all) {
    feed f;
    begin(&f, TL_RENEW);
    f.run = 77;
    (void)feed_kept(&f, TTL_MS);
    tl_proof proof = result()->proof;
    for (uint64_t run = 76; run <= 78; run++) {
        prepare(&f, TL_RENEW, 60000);
        m.job.hold.proof = proof;
        f.run = run;
        (void)feed_start(&f);
        feed_assert_asked(&f, "refresh");
        assert_int_equal(feed_refreshed(&f, true), run == 77 ? TL_END : TL_GO);
        if (run != 77)
            feed_assert_asked(&f, "renew");
    }
}

TEST(there_is_no_long_way_when_no_time_is_left) {
    feed f;
    prepare(&f, TL_RENEW, 700);
    m.job.hold.proof.kind = TL_PROOF_TOKEN;
    m.job.hold.proof.token.noted_s = second_of(-1);
    (void)feed_start(&f);
    feed_at(&f, 700);
    (void)feed_refreshed(&f, false);
    expect(&f, TL_EUNAVAILABLE, true);
}

TEST(the_short_way_that_came_too_late_proves_no_loss) {
    feed f;
    begin_noted(&f, 1);
    (void)feed_reply(&f, "['1' '2' 0]");
    expect(&f, TL_EUNAVAILABLE, false);
}

/* S lives for an hour from the last that wrote all of it, and a lock for its lifetime. */
TEST(the_long_way_comes_back_in_time) {
    feed f;
    begin_noted(&f, 30 * MINUTE - 1000);
    feed_assert_asked(&f, "refresh");
    begin_noted(&f, 30 * MINUTE);
    feed_assert_asked(&f, "renew");
    prepare(&f, TL_RENEW, 60 * MINUTE);
    m.job.hold.proof.kind = TL_PROOF_TOKEN;
    m.job.hold.proof.token.noted_s = second_of(-1);
    m.job.ttl_ms = 10 * MINUTE + 1;
    (void)feed_start(&f);
    feed_assert_asked(&f, "renew");
}

TEST(a_server_that_has_no_short_way_is_not_asked_for_it_again) {
    static const char *const never[] = {
        "[0]",
        "-NOPERM this user has no permissions to run the 'mget' command script: f, on @user_script:1."};
    for (size_t i = 0; i < 2; i++) {
        feed f;
        begin_noted(&f, 1);
        assert_int_equal(feed_reply(&f, "%s", never[i]), TL_GO);
        feed_assert_asked(&f, "renew");
        assert_int_not_equal(f.out.level, 0);
        uint8_t level = f.out.level;
        prepare(&f, TL_RENEW, 60000);
        m.job.hold.proof.kind = TL_PROOF_TOKEN;
        m.job.hold.proof.token.noted_s = second_of(-1);
        f.server.level = level;
        (void)feed_start(&f);
        feed_assert_asked(&f, "renew");
    }
}

TEST(what_is_refused_of_one_lock_is_asked_for_the_long_way) {
    static const char *const refused[] = {
        "-WRONGTYPE Operation against a key holding the wrong kind of value",
        "-NOPERM this user has no permissions to access one of the keys used as arguments",
        "-ERR user_script:1: Script attempted to access a non local key"};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin_noted(&f, 1);
        assert_int_equal(feed_reply(&f, "%s", refused[i]), TL_GO);
        feed_assert_asked(&f, "renew");
        assert_int_equal(f.out.level, 0);
    }
}

TEST(what_passes_is_not_asked_for_again_at_once) {
    static const char *const passing[] = {"-BUSY Redis is busy", "-OOM command not allowed",
                                          "-TRYAGAIN Multiple keys", "-LOADING x"};
    for (size_t i = 0; i < 4; i++) {
        feed f;
        begin_noted(&f, 1);
        (void)feed_reply(&f, "%s", passing[i]);
        expect(&f, TL_EUNAVAILABLE, false);
    }
    feed f;
    begin_noted(&f, 1);
    (void)feed_reply(&f, "-READONLY You can't write against a read only replica.");
    expect(&f, TL_EELSEWHERE, false);
}

TEST(any_other_answer_to_the_short_way_is_malformed_and_proves_no_loss) {
    static const char *const bad[] = {"nil",           "1",
                                      "'OK'",          "[]",
                                      "[1]",           "['x']",
                                      "['1' 'x']",     "['1' '2' 2]",
                                      "['1' '2' nil]", "['1' '2' -1]",
                                      "['1' '2' 1 1]", "['1' '2' []]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin_noted(&f, 1);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
    }
}

TEST(replicas_confirm_the_short_way_as_the_long) {
    feed f;
    prepare(&f, TL_RENEW, 60000);
    m.job.hold.proof.kind = TL_PROOF_TOKEN;
    m.job.hold.proof.token.noted_s = second_of(-1);
    m.job.wait_replicas = 2;
    m.job.wait_replicas_ms = 500;
    (void)feed_start(&f);
    assert_int_equal(f.last.count, 2);
    (void)feed_reply(&f, "[%s] 1", feed_time(&f));
    expect(&f, TL_EUNAVAILABLE, true);
}

/* ---- drop: answers --------------------------------------------------------------------------- */

TEST(drop_tells_released_expired_and_taken_apart) {
    const tl_err codes[] = {TL_EEXPIRED, TL_ETAKEN, TL_OK};
    for (int status = -1; status <= 1; status++) {
        feed f;
        begin(&f, TL_RELEASE);
        (void)feed_dropped(&f, status);
        expect(&f, codes[status + 1], false);
    }
}

TEST(a_drop_told_what_the_key_holds_is_anothers) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)feed_reply(&f, "'somebody'");
    expect(&f, TL_ETAKEN, false);
}

TEST(any_other_drop_answer_is_malformed) {
    const char *const bad[] = {"nil", "2", "-2", "+OK", "[]", "[1]", "[1 nil '1' '2']"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        feed f;
        begin(&f, TL_RELEASE);
        (void)feed_reply(&f, "%s", bad[i]);
        expect(&f, TL_ESERVER, true);
    }
}

/* ---- errors ---------------------------------------------------------------------------------- */

TEST(errors_are_told_apart_by_class) {
    static const struct {
        const char *text;
        tl_err code;
        bool maybe;
    } all[] = {
        {"NOAUTH Authentication required.", TL_EDENIED, false},
        {"ERR Protocol error: unauthenticated multibulk length", TL_EDENIED, false},
        {"ERR operation not permitted", TL_EDENIED, false},
        {"WRONGPASS invalid username-password pair or user is disabled.", TL_EDENIED, false},
        {"NOPERM this user has no permissions to run the 'evalsha' command", TL_EDENIED, false},
        {"LOADING Redis is loading the dataset in memory", TL_EUNAVAILABLE, false},
        {"MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
         TL_EELSEWHERE, false},
        {"READONLY You can't write against a read only replica.", TL_EELSEWHERE, false},
        {"READONLY You can't write against a read only replica. script: 123, on @user_script:8.",
         TL_EELSEWHERE, false}, /* nothing of the script can have been written */
        {"ERR Error running script (call to f_12): @user_script:8: -READONLY You can't write",
         TL_EELSEWHERE, false},
        {"CLUSTERDOWN The cluster is down", TL_EUNAVAILABLE, false},
        {"ERR Script attempted to execute a command while the cluster is down script: 1, on "
         "@user_script:8.",
         TL_EUNAVAILABLE, true},
        {"TRYAGAIN Multiple keys request during rehashing of slot", TL_EUNAVAILABLE, false},
        {"MISCONF Redis is configured to save RDB snapshots", TL_EUNAVAILABLE, false},
        {"NOREPLICAS Not enough good replicas to write.", TL_EUNAVAILABLE, false},
        {"OOM command not allowed when used memory > 'maxmemory'.", TL_EUNAVAILABLE, false},
        {"OOM command not allowed when used memory > 'maxmemory'. script: 123, on @user_script:8.",
         TL_EUNAVAILABLE, true},
        {"ERR Error running script (call to f_12): @user_script:8: -OOM command not allowed",
         TL_EUNAVAILABLE, true},
        {"ERR Error running script (call to f_12): @user_script:8: user_script:8: attempt to index",
         TL_ESERVER, true},
        {"WRONGTYPE Operation against a key holding the wrong kind of value script: 1, on "
         "@user_script:8.",
         TL_ESERVER, true},
        {"NOSCRIPT No matching script. Please use EVAL.", TL_ESERVER, false},
        {"ERR unknown command 'EVALSHA'", TL_EUNSUPPORTED, false},
        {"ERR Error running script (call to f_12): Unknown Redis command called from Lua script",
         TL_EUNSUPPORTED, true}, /* as 2.6 says it */
        {"ERR Unknown Redis command called from script script: 1, on @user_script:8.",
         TL_EUNSUPPORTED, true},
        {"MOVED 12739 10.0.0.6:6379", TL_ESERVER, false},
        {"ERR", TL_ESERVER, false},
    };
    const tl_op ops[] = {TL_ACQUIRE, TL_RENEW, TL_RELEASE};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        for (size_t j = 0; j < 3; j++) {
            feed f;
            begin(&f, ops[j]);
            feed_at(&f, 70);
            (void)feed_reply(&f, "-%s", all[i].text);
            expect(&f, all[i].code, all[i].maybe);
            char words[TL_REFUSAL_SIZE]; /* the server's, but where it repeats what it was sent */
            (void)tl__refusal_message(words, tl__bytes_of(all[i].text));
            if (all[i].code != TL_EUNSUPPORTED) /* which says what is missing */
                assert_string_equal(f.out.message, words);
            assert_int_equal(result()->harmless.ns, feed_ms(70).ns); /* answered: it is over */
        }
}

TEST(a_server_busy_with_a_script_has_not_run_ours) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or "
                         "SHUTDOWN NOSAVE.");
    expect(&f, TL_EUNAVAILABLE, false);
}

TEST(a_command_forbidden_within_a_script_is_denied) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "-ERR The user executing the script can't run this command or subcommand "
                         "script: 659d22f897aae09830744d800b50dc21b55bcf06, on @user_script:38.");
    expect(&f, TL_EDENIED, true);
}

TEST(a_keys_name_in_an_error_does_not_decide_its_class) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "-ERR unknown command 'EVALSHA', with args beginning with: '8f' '2' "
                         "'jobs:LOADING' ");
    expect(&f, TL_EUNSUPPORTED, false);
    assert_null(strstr(f.out.message, "8f")); /* the token is for no log */
}

#ifdef TL_COMPAT
#define INSTEAD "; protocol timestamp works there"
#else
#define INSTEAD ""
#endif

TEST(what_the_server_lacks_is_named_with_its_version) {
    static const struct {
        const char *text, *words;
    } all[] = {
        {"ERR unknown command 'EVALSHA'",
         "the server has no EVALSHA, which tokens need: Redis 2.6 or newer, not renamed" INSTEAD},
        {"ERR unknown command `EVAL`, with args beginning with: `return 1`, ", /* from 4.0 on */
         "the server has no EVAL, which tokens need: it is renamed or forbidden there" INSTEAD},
        {"ERR unknown command 'WAITAOF', with args beginning with: '1' ",
         "the server has no WAITAOF, which tokens need: Redis 7.2 or newer, not renamed"},
        {"ERR Could not find scripting engine 'lua'",
         "the server has no EVAL, which tokens need: its Lua module is not loaded (loadmodule "
         "PATH/libvalkeylua.so)" INSTEAD},
        {"ERR unknown command 'GET'",
         "the server has no GET, which tokens need: it is renamed or forbidden there"},
        {"ERR unknown command",
         "the server has no such command, which tokens need: it is renamed or forbidden there"},
        {"ERR unknown command '\x01'",
         "the server has no ?, which tokens need: it is renamed or forbidden there"},
        {"ERR Error running script (call to f_12): Unknown Redis command called from Lua script",
         "a script needs a command that the server lacks, or has renamed: `tidelock doctor` finds out "
         "which"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "-%s", all[i].text);
        assert_string_equal(f.out.message, all[i].words);
        assert_int_equal(result()->code, TL_EUNSUPPORTED);
    }
}

/* There stamps are scripts, too. */
TEST(in_a_cluster_without_scripts_no_other_protocol_is_named) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.rules.nodes = true;
    (void)feed_start(&f);
    (void)feed_reply(&f, "-ERR unknown command `EVAL`, with args beginning with: `return 1`, ");
    assert_string_equal(
        f.out.message,
        "the server has no EVAL, which tokens need: it is renamed or forbidden there");
}

TEST(replicas_that_the_server_can_not_wait_for_are_no_outage) {
    feed f;
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.wait_replicas = 1;
    (void)feed_start(&f);
    (void)feed_reply(&f, "'%lld' -ERR unknown command 'WAIT'",
                     (long long)(FEED_OFFSET_US + f.now.ns / 1000));
    expect(&f, TL_EUNSUPPORTED, true);
    assert_string_equal(f.out.message,
                        "the server has no WAIT, which wait_replicas needs: Redis 3.0 "
                        "or newer, not renamed");
}

TEST(an_error_of_long_or_binary_words_is_cut_and_printable) {
    char text[700] = "-ERR \x1b[31m";
    memset(text + strlen(text), 'x', 600);
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "%s", text);
    assert_int_equal(strlen(f.out.message), TL_MESSAGE_SIZE - 1);
    assert_memory_equal(f.out.message, "ERR ?[31mxx", 11);
}

TEST(an_error_after_other_replies_is_not_the_scripts) {
    feed f;
    replicas(&f, TL_ACQUIRE, "2");
    expect(&f, TL_OK, false);
    prepare(&f, TL_ACQUIRE, 60000);
    m.job.wait_replicas = 2;
    (void)feed_start(&f);
    (void)feed_reply(&f, "nil -NOAUTH Authentication required.");
    expect(&f, TL_ESERVER, true);
}

/* ---- no answer ------------------------------------------------------------------------------- */

TEST(a_request_that_may_have_left_is_uncertain) {
    const tl_op ops[] = {TL_ACQUIRE, TL_RENEW, TL_RELEASE};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, ops[i]);
        feed_at(&f, 300);
        (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection lost");
        expect(&f, TL_EUNCERTAIN, true);
        assert_string_equal(f.out.message, "connection lost");
        /* only a take carries a limit, and that is when its sender moves on, not now */
        assert_int_equal(result()->harmless.ns, i == 0 ? feed_ms(ATTEMPT_MS).ns : INT64_MAX);
    }
}

TEST(a_request_that_never_left_has_the_reason_as_its_result) {
    const tl_err whys[] = {TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_ENOMEM, TL_EINVALID};
    for (size_t i = 0; i < sizeof whys / sizeof *whys; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_failed(&f, false, whys[i], "no");
        expect(&f, whys[i], false);
    }
}

TEST(an_answer_to_another_ticket_is_ignored) {
    feed f;
    begin(&f, TL_ACQUIRE);
    assert_int_equal(feed_reply_to(&f, TICKET - 1, "[1 't' 30000 '77' '1' '2' 1 1]"), TL_GO);
    assert_int_equal(feed_event(&f, (tl_event){.kind = TL_FAILED, .asked = {.ticket = TICKET + 1}}),
                     TL_GO);
    assert_int_equal(feed_timer(&f), TL_GO);
    assert_int_equal(feed_woken(&f), TL_GO);
    (void)feed_taken(&f, TTL_MS);
    expect(&f, TL_OK, false);
}

/* ---- rows, pauses ---------------------------------------------------------------------------- */

TEST(each_protocol_has_a_row_and_nothing_else_has) {
    const tl_protocol *row = tl__protocol_row(TL_TOKEN);
    assert_ptr_equal(row, &tl__protocol_token);
    assert_string_equal(row->name, "token");
    assert_true(row->size <= TL_ATTEMPT_SIZE);
    assert_null(tl__protocol_row((tl_protocol_id)1000));
    assert_null(tl__protocol_row((tl_protocol_id)-1));
}

TEST(a_back_off_doubles_from_20_ms_to_a_second_and_is_jittered) {
    uint64_t random = 42;
    const int64_t most[] = {20, 40, 80, 160, 320, 640, 1000, 1000, 1000};
    for (uint32_t failures = 1; failures <= 9; failures++) {
        bool below = false, above = false;
        for (int i = 0; i < 500; i++) {
            int64_t ms = tl__backoff_ms(failures, &random), top = most[failures - 1];
            assert_in_range(ms, top / 2, top);
            below = below || ms < top * 3 / 4;
            above = above || ms > top * 3 / 4;
        }
        assert_true(below && above);
    }
    assert_in_range(tl__backoff_ms(UINT32_MAX, &random), 500, 1000);
}

TEST(what_is_wrong_with_a_server_is_said_with_its_place) {
    static const struct {
        const char *reply, *words;
    } said[] = {
        {"-READONLY You can't write", "10.0.0.5:6379: READONLY You can't write"},
        {"'nonsense'", "10.0.0.5:6379: malformed reply from the server"},
    };
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        f.place = "10.0.0.5:6379";
        (void)feed_reply(&f, "%s", said[i].reply);
        assert_string_equal(f.out.message, said[i].words);
    }
    feed f;
    begin(&f, TL_RELEASE);
    f.place = "10.0.0.5:6379";
    (void)feed_reply(&f, "-1"); /* nothing is wrong with the server */
    assert_string_equal(f.out.message, "it expired or was deleted");
}
