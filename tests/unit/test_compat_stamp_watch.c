/*
 * Stamps by WATCH and MULTI: what is read, what is written, and what each answer is worth.
 */
#include "stamp_feed.h"

#include "protocol/acquire.h"
#include "protocol/settle.h"

#define LINE_SIZE 2048
#define READ_BOTH                                                                                  \
    "WATCH " KEY " " SIDECAR "; GET " KEY "; TTL " KEY "; HMGET " SIDECAR " token value until fence"
#define OTHER "00000000-0000-4000-8000-00000000000b"

/* Of S, less what the server must have made up to spare M. */
#define UNTIL(end_ms) (((end_ms) + M_MS) * INT64_C(1000))

/* ---- asking and answering -------------------------------------------------------------------- */

/* The last send as one line. */
static const char *said(const feed *f) {
    static char line[LINE_SIZE];
    size_t n = 0;
    line[0] = '\0';
    for (uint8_t i = 0; i < f->last.count; i++) {
        assert_int_equal(f->last.command[i].form, TL_ARGV);
        for (uint8_t j = 0; j < f->last.command[i].argc; j++)
            n += (size_t)snprintf(line + n, sizeof line - n, "%s%s",
                                  j   ? " "
                                  : i ? "; "
                                      : "",
                                  f->last.command[i].argv[j].p);
    }
    return line;
}

static void assert_reads(const feed *f, bool timed) {
    assert_string_equal(said(f), timed ? READ_BOTH "; TIME; MULTI" : READ_BOTH "; MULTI");
    assert_ptr_equal(f->last.pin, &tl__pin_opens);
}

static void assert_writes(const feed *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void assert_writes(const feed *f, const char *format, ...) {
    char want[LINE_SIZE];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(want, sizeof want, format, args);
    va_end(args);
    assert_int_equal(f->status, TL_GO);
    assert_string_equal(said(f), want);
    assert_ptr_equal(f->last.pin, &tl__pin_closes);
}

/* What K and S hold: K's value (NULL none), its lifetime s (0 none); S's token (NULL none), value, until,
 * fence. */
typedef struct {
    const char *value;
    int ttl;
    const char *token, *bound;
    int64_t until_us, fence;
} stored;

static tl_status answer_state(feed *f, const stored *s) {
    char side[512] = "[nil nil nil nil]";
    if (s->token)
        (void)snprintf(side, sizeof side, "['%s' '%s' '%lld' '%lld']", s->token,
                       s->bound ? s->bound : "", (long long)s->until_us, (long long)s->fence);
    if (!f->server.anchor.known)
        return feed_reply(f, "+OK %s %d %s +OK", quoted(s->value), s->ttl ? s->ttl : -1, side);
    return feed_reply(f, "+OK %s %d %s [%s] +OK", quoted(s->value), s->ttl ? s->ttl : -1, side,
                      feed_time(f));
}

#define FIND(f, ...) answer_state((f), &(stored){.value = __VA_ARGS__})

/* A stamp was written. */
static tl_status answer_wrote(feed *f) {
    if (!f->server.anchor.known)
        return feed_reply(f, "+QUEUED +QUEUED +QUEUED [+OK 1 +OK]");
    return feed_reply(f, "+QUEUED +QUEUED +QUEUED +QUEUED [+OK 1 +OK [%s]]", feed_time(f));
}

static tl_status answer_raced(feed *f) {
    return feed_reply(f, "+QUEUED +QUEUED +QUEUED +QUEUED nil");
}

static void begin_at(feed *f, tl_op op, bool timed) {
    prepare(f, &tl__protocol_timestamp, op);
    f->server.level = TL_LEVEL_WATCH;
    f->server.anchor.known = timed;
    assert_int_equal(feed_start(f), TL_GO);
    assert_reads(f, timed);
}

static void begin(feed *f, tl_op op) {
    begin_at(f, op, true);
}

/* Read as ours, ending T after the start. */
static const char *own(void) {
    return text_of(START_MS + T_MS);
}

static tl_status answer_ours(feed *f) {
    return FIND(f, own(), .token = TOKEN, .bound = own(), .until_us = UNTIL(START_MS + T_MS),
                .fence = 77);
}

/* ---- taking ---------------------------------------------------------------------------------- */

static void assert_takes(const feed *f, int64_t end_ms, int64_t fence, int64_t since_us) {
    assert_writes(
        f,
        "HMSET " SIDECAR " value %lld until %lld token " TOKEN " fence %lld since %lld owner " OWNER
        "; EXPIRE " SIDECAR " %lld; SET " KEY " %lld; TIME; EXEC",
        (long long)end_ms, (long long)UNTIL(end_ms), (long long)fence, (long long)since_us,
        (long long)(T_MS + GRACE_MS + 1800000) / 1000 + 1, (long long)end_ms);
}

/* Each number is by the edge of the server's clock that costs us, not others. */
TEST(a_stamp_counts_from_the_earliest_and_a_fence_from_the_latest) {
    feed f;
    begin(&f, TL_ACQUIRE);
    f.server.anchor.offset.lo -= 700000;
    f.server.anchor.offset.hi += 90000;
    (void)FIND(&f, NULL);
    assert_takes(&f, START_MS - 700 + T_MS, FEED_SERVER_US + 90000, FEED_SERVER_US - 700000);
    begin(&f, TL_ACQUIRE);
    f.server.anchor.offset.hi += 90000;
    (void)FIND(&f, NULL, .token = "", .fence = FEED_SERVER_US + 10);
    assert_takes(&f, START_MS + T_MS, FEED_SERVER_US + 90000, FEED_SERVER_US);
}

TEST(a_free_key_is_taken_and_ours_for_what_its_stamp_leaves) {
    feed f;
    begin(&f, TL_ACQUIRE);
    assert_int_equal(feed_since(f.last.by), ATTEMPT_MS);
    feed_at(&f, 100);
    f.server.anchor.at = f.now;
    (void)FIND(&f, NULL);
    assert_takes(&f, server_ms(&f) + T_MS, feed_server_us(100), feed_server_us(100));
    assert_int_equal(feed_since(f.last.by), 100 + ATTEMPT_MS);
    feed_at(&f, 300);
    (void)answer_wrote(&f);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->acquire.fence, feed_server_us(100));
    /* At first no longer than a racing loser's stamp; then what it ends less what has passed. */
    assert_int_equal(result()->deadline.ns, feed_ms(100 + CAP_MS).ns - DRIFT_OF(CAP_MS));
    assert_int_equal(result()->proof.stamp.cap.ns, result()->deadline.ns);
    assert_int_equal(feed_since(result()->proof.stamp.capped_until), 300 + L_MS);
    assert_int_equal(result()->proof.stamp.proved_us, feed_server_us(300));
    assert_int_equal(result()->proof.stamp.end_ms, START_MS + 100 + T_MS);
    assert_false(result()->acquire.checked); /* a busy answer proves nothing of one that was lost */
    assert_false(result()->acquire.stamp_is_token);
}

TEST(a_short_lifetime_is_worth_itself_less_the_way_and_m) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    m.job.ttl_ms = 30000;
    (void)feed_start(&f);
    (void)FIND(&f, NULL);
    feed_at(&f, 400);
    (void)answer_wrote(&f);
    assert_int_equal(result()->deadline.ns,
                     feed_ms(30000 - 400 - M_MS).ns - DRIFT_OF(30000 - 400 - M_MS));
}

/* Where the time is our own wall clock's, which is off by M as everybody's. */
TEST(without_time_our_own_clock_is_spared_too) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    f.server.anchor.known = false;
    m.job.ttl_ms = 30000;
    (void)feed_start(&f);
    assert_reads(&f, false);
    feed_at(&f, 100);
    (void)FIND(&f, NULL);
    assert_null(strstr(said(&f), "TIME"));
    feed_at(&f, 500);
    (void)answer_wrote(&f);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns,
                     feed_ms(100 + 30000 - 400 - 2 * M_MS).ns - DRIFT_OF(30000 - 400 - 2 * M_MS));
    assert_int_equal(result()->proof.stamp.proved_us,
                     feed_server_us(100)); /* no later than it was so */
}

TEST(fences_rise_and_are_reserved) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    m.job.fences = 64;
    (void)feed_start(&f);
    int64_t last = feed_server_us(5000);
    (void)FIND(&f, NULL, .token = "", .fence = last);
    assert_takes(&f, server_ms(&f) + T_MS, last + 64, FEED_SERVER_US);
    (void)answer_wrote(&f);
    assert_int_equal(result()->acquire.fence, last + 1);
}

TEST(fences_at_their_end_are_refused) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, NULL, .token = "", .fence = (INT64_C(1) << 53) - 1);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(result()->code, TL_ESERVER);
}

/* A legacy client's stamp that ended `ago_ms` before now. */
static tl_status find_ended(feed *f, int64_t ago_ms) {
    return FIND(f, text_of(server_ms(f) - ago_ms));
}

TEST(a_stamp_is_taken_when_m_and_l_have_passed) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)find_ended(&f, M_MS + L_MS + 1);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 1);
    begin(&f, TL_ACQUIRE);
    (void)find_ended(&f, M_MS + L_MS + 2);
    assert_takes(&f, server_ms(&f) + T_MS, FEED_SERVER_US, FEED_SERVER_US);
}

TEST(what_is_no_stamp_is_held) {
    static const char *const values[] = {"", OTHER, "1", "99999999999999999"};
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)FIND(&f, values[i]);
        expect(&f, TL_EBUSY, false);
        assert_int_equal(result()->acquire.hint.ns, INT64_MAX);
        assert_false(result()->acquire.announced);
    }
}

TEST(a_key_of_another_kind_is_held) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f,
                     "+OK -ERR Operation against a key holding the wrong kind of value\n -1 "
                     "[nil nil nil nil] [%s] +OK",
                     feed_time(&f));
    expect(&f, TL_EBUSY, false);
}

TEST(a_stamp_with_a_lifetime_that_s_does_not_know_is_held) {
    feed f;
    begin(&f, TL_ACQUIRE);
    const char *old = text_of(START_MS - 100000);
    (void)FIND(&f, old, .ttl = 7);
    expect(&f, TL_EBUSY, false);
    assert_int_equal(feed_since(result()->acquire.hint), 8001);
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, old, .ttl = 7, .token = OTHER, .bound = old);
    assert_string_equal(f.last.command[0].argv[0].p, "HMSET");
}

TEST(s_binds_while_k_is_gone) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, NULL, .token = OTHER, .bound = "x", .until_us = FEED_SERVER_US);
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.announced);
    assert_int_equal(feed_since(result()->acquire.hint), 2);
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, NULL, .token = OTHER, .bound = "x", .until_us = FEED_SERVER_US - 1);
    assert_string_equal(f.last.command[0].argv[0].p, "HMSET");
}

TEST(a_tidelock_holder_is_announced) {
    feed f;
    const char *value = text_of(START_MS + 20000);
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, value, .token = OTHER, .bound = value, .until_us = UNTIL(START_MS + 20000));
    expect(&f, TL_EBUSY, false);
    assert_true(result()->acquire.announced);
    assert_int_equal(feed_since(result()->acquire.hint), 20000 + M_MS + L_MS + 2);
}

/* Its own, whether the answer was lost or came too late: never by the bytes alone. */
TEST(a_take_that_finds_its_token_writes_anew_and_keeps_the_fence) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 5000);
    f.server.anchor.at = f.now;
    (void)answer_ours(&f);
    assert_writes(&f,
                  "HMSET " SIDECAR " value %lld until %lld; EXPIRE " SIDECAR " 5461; SET " KEY
                  " %lld; TIME; EXEC",
                  (long long)server_ms(&f) + T_MS, (long long)UNTIL(server_ms(&f) + T_MS),
                  (long long)server_ms(&f) + T_MS);
    (void)answer_wrote(&f);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->acquire.fence, 77);
    assert_int_equal(result()->deadline.ns, feed_ms(5000 + CAP_MS).ns - DRIFT_OF(CAP_MS));
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, own(), .token = OTHER, .bound = own(), .fence = 77);
    expect(&f, TL_EBUSY, false);
}

TEST(a_take_that_finds_its_token_never_shortens) {
    feed f;
    const char *later = text_of(START_MS + T_MS + 40000);
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, later, .token = TOKEN, .bound = later, .fence = 77);
    char want[64];
    (void)snprintf(want, sizeof want, "SET " KEY " %s;", later);
    assert_non_null(strstr(said(&f), want));
}

/* The fence is taken over from S, and must be one that can have been given. */
TEST(a_fence_that_cannot_be_is_refused_with_its_token) {
    const int64_t fences[] = {0, INT64_C(1) << 53};
    for (size_t i = 0; i < sizeof fences / sizeof *fences; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)FIND(&f, own(), .token = TOKEN, .bound = own(), .fence = fences[i]);
        expect(&f, TL_ESERVER, true);
    }
}

TEST(one_that_found_itself_the_holder_has_left_something_behind) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)answer_ours(&f);
    (void)feed_refused(&f);
    expect(&f, TL_EUNAVAILABLE, true);
}

/* ---- what comes of writing ------------------------------------------------------------------- */

TEST(an_unanswered_exec_is_doubt_an_unanswered_look_is_none) {
    for (int op = TL_ACQUIRE; op <= TL_RELEASE; op++) {
        feed f;
        begin(&f, (tl_op)op);
        (void)feed_lost(&f);
        expect(&f, TL_EUNAVAILABLE, false);
        begin(&f, (tl_op)op);
        (void)(op == TL_ACQUIRE ? FIND(&f, NULL) : answer_ours(&f));
        (void)feed_lost(&f);
        expect(&f, TL_EUNCERTAIN, true);
        assert_int_equal(result()->harmless.ns, INT64_MAX);
        assert_false(result()->last); /* asking again does no harm */
        begin(&f, (tl_op)op);
        (void)(op == TL_ACQUIRE ? FIND(&f, NULL) : answer_ours(&f));
        (void)feed_refused(&f); /* the connection was lost before it could be written */
        expect(&f, TL_EUNAVAILABLE, false);
    }
}

/* Asked for by a script first, whose time limit a transaction hasn't. */
TEST(a_transaction_has_no_time_limit_after_a_script_either) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    assert_int_equal(feed_start(&f), TL_GO);
    feed_assert_asked(&f, "acquire");
    (void)feed_reply(&f, "-ERR unknown command 'EVALSHA'");
    assert_reads(&f, true);
    (void)FIND(&f, NULL);
    assert_ptr_equal(f.last.pin, &tl__pin_closes);
    (void)feed_lost(&f);
    expect(&f, TL_EUNCERTAIN, true);
    assert_int_equal(result()->harmless.ns, INT64_MAX);
}

TEST(who_is_disturbed_looks_again_a_few_times) {
    static const tl_err ends[] = {TL_EBUSY, TL_EUNAVAILABLE, TL_EUNAVAILABLE};
    for (int op = TL_ACQUIRE; op <= TL_RELEASE; op++) {
        feed f;
        begin(&f, (tl_op)op);
        for (int i = 0; i <= TL_STAMP_ROUNDS; i++) {
            if (i > 0)
                assert_reads(&f, true);
            (void)(op == TL_ACQUIRE ? FIND(&f, NULL) : answer_ours(&f));
            (void)(op == TL_RELEASE ? feed_reply(&f, "+QUEUED +QUEUED nil 0") : answer_raced(&f));
        }
        expect(&f, ends[op], false);
    }
}

/* What was its own at the first look has been another's since: it is taken whole, with a fence of its own. */
TEST(a_take_that_lost_its_lock_between_two_looks_takes_it_anew) {
    feed f;
    begin(&f, TL_ACQUIRE);
    feed_at(&f, 100);
    f.server.anchor.at = f.now;
    (void)answer_ours(&f);
    (void)answer_raced(&f);
    assert_reads(&f, true);
    (void)FIND(&f, NULL, .token = "", .fence = feed_server_us(5000));
    assert_takes(&f, server_ms(&f) + T_MS, feed_server_us(5000) + 1, feed_server_us(100));
    (void)answer_wrote(&f);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->acquire.fence, feed_server_us(5000) + 1);
}

TEST(nobody_looks_again_when_the_time_is_up) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, NULL);
    feed_at(&f, UNTIL_MS);
    (void)answer_raced(&f);
    expect(&f, TL_EBUSY, false);
}

/* From 2.6.5 on a transaction with a refused command is not executed. */
TEST(a_refused_transaction_has_done_nothing) {
    feed f;
    begin(&f, TL_ACQUIRE);
    f.place = "place";
    (void)FIND(&f, NULL);
    (void)feed_reply(&f, "-OOM command not allowed\n+QUEUED -OOM command not allowed\n+QUEUED "
                         "-EXECABORT Transaction discarded because of previous errors.");
    expect(&f, TL_EUNAVAILABLE, false);
    assert_string_equal(f.out.message, "place: OOM command not allowed");
    begin(&f, TL_ACQUIRE);
    (void)FIND(&f, NULL);
    (void)feed_reply(&f, "+QUEUED +QUEUED +QUEUED +QUEUED -NOPERM this user has no permissions");
    expect(&f, TL_EDENIED, false);
}

/* Below, the rest of it is; then nothing is ours, but something may stand there. */
TEST(one_that_was_executed_in_part_is_undone) {
    static const char *const parts[] = {
        "-ERR command not allowed when used memory > 'maxmemory'\n+QUEUED +QUEUED +QUEUED "
        "[1 +OK ['1' '2']]",
        "+QUEUED +QUEUED -ERR command not allowed when used memory > 'maxmemory'\n+QUEUED "
        "[+OK 1 ['1' '2']]",
        "+QUEUED +QUEUED +QUEUED +QUEUED [-ERR command not allowed when used memory > 'maxmemory'\n"
        " 1 +OK ['1' '2']]"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        for (int op = TL_ACQUIRE; op <= TL_RENEW; op++) {
            feed f;
            begin(&f, (tl_op)op);
            (void)(op == TL_ACQUIRE ? FIND(&f, NULL) : answer_ours(&f));
            (void)feed_reply(&f, "%s", parts[i]);
            expect(&f, TL_EUNAVAILABLE, true);
        }
    }
}

TEST(answers_that_make_no_sense_prove_nothing) {
    static const char *const looks[] = {"+OK", "+OK nil -1 [nil] [1 2] +OK",
                                        "+OK nil 'x' [nil nil nil nil] ['1' '2'] +OK",
                                        "+OK nil -1 7 ['1' '2'] +OK"};
    static const char *const writes[] = {"+OK", "+QUEUED +QUEUED +QUEUED +QUEUED +OK",
                                         "+QUEUED +QUEUED +QUEUED +QUEUED [+OK 1 +OK]",
                                         "+QUEUED +QUEUED +QUEUED +QUEUED []"};
    feed f;
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "%s", looks[i]);
        expect(&f, TL_ESERVER, false);
    }
    for (size_t i = 0; i < sizeof writes / sizeof *writes; i++) {
        begin(&f, TL_ACQUIRE);
        (void)FIND(&f, NULL);
        (void)feed_reply(&f, "%s", writes[i]);
        expect(&f, TL_ESERVER, true);
    }
}

TEST(a_look_that_is_refused_is_told_and_changes_nothing) {
    static const char *const replies[] = {
        ("-LOADING Redis is loading the dataset in memory\n-LOADING x\n-LOADING x\n-LOADING "
         "x\n-LOADING x\n-LOADING x"),
        "+OK -LOADING Redis is loading the dataset in memory\n-1 [nil nil nil nil] ['1' '2'] +OK",
        "+OK nil -1 [nil nil nil nil] ['1' '2'] -LOADING Redis is loading the dataset in memory"};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        feed f;
        begin(&f, TL_ACQUIRE);
        (void)feed_reply(&f, "%s", replies[i]);
        expect(&f, TL_EUNAVAILABLE, false);
        assert_string_equal(f.out.message, "LOADING Redis is loading the dataset in memory");
    }
}

TEST(a_sidecar_of_another_kind_is_told) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "+OK nil -1 -WRONGTYPE Operation against a key holding the wrong kind of "
                         "value\n['1' '2'] +OK");
    expect(&f, TL_ESERVER, false);
}

/* It told the time at login, but doesn't any more. */
TEST(a_time_that_is_refused_is_done_without) {
    feed f;
    begin(&f, TL_ACQUIRE);
    (void)feed_reply(&f, "+OK nil -1 [nil nil nil nil] -ERR unknown command 'TIME'\n+OK");
    assert_int_equal(f.status, TL_GO);
    assert_null(strstr(said(&f), "TIME"));
}

/* Then what is left counts from the latest that the server's clock can show. */
TEST(without_an_answer_of_time_the_latest_counts) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    m.job.ttl_ms = 30000;
    (void)feed_start(&f);
    (void)feed_reply(&f, "+OK nil -1 [nil nil nil nil] -ERR unknown command 'TIME'\n+OK");
    assert_int_equal(f.status, TL_GO);
    f.server.anchor.offset.hi += 90000;
    (void)feed_reply(&f, "+QUEUED +QUEUED +QUEUED [+OK 1 +OK]");
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns,
                     feed_ms(30000 - 90 - M_MS).ns - DRIFT_OF(30000 - 90 - M_MS));
}

TEST(too_few_replicas_are_no_lock) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    m.job.wait_replicas = 1;
    m.job.wait_replicas_ms = 500;
    (void)feed_start(&f);
    (void)FIND(&f, NULL);
    assert_non_null(strstr(said(&f), "; EXEC; WAIT 1 500"));
    (void)feed_reply(&f, "+QUEUED +QUEUED +QUEUED +QUEUED [+OK 1 +OK [%s]] 0", feed_time(&f));
    expect(&f, TL_EUNAVAILABLE, true);
}

/* ---- which level ----------------------------------------------------------------------------- */

#define UNKNOWN "-ERR unknown command 'X'\n"

TEST(a_server_without_watch_multi_or_exec_is_spoken_to_in_plain) {
    static const char *const looks[] = {
        UNKNOWN "nil -1 [nil nil nil nil] ['1' '2'] +OK",
        "+OK nil -1 [nil nil nil nil] ['1' '2'] " UNKNOWN,
    };
    static const char *const first[] = {"SETNX", "GET", "GET"};
    for (int op = TL_ACQUIRE; op <= TL_RELEASE; op++) {
        feed f;
        for (size_t i = 0; i < sizeof looks / sizeof *looks; i++) {
            begin(&f, (tl_op)op);
            (void)feed_reply(&f, "%s", looks[i]);
            assert_int_equal(f.status, TL_GO);
            assert_int_equal(f.out.level, TL_LEVEL_PLAIN);
            assert_string_equal(f.last.command[0].argv[0].p, first[op]);
            assert_null(f.last.pin);
        }
        begin(&f, (tl_op)op);
        (void)(op == TL_ACQUIRE ? FIND(&f, NULL) : answer_ours(&f));
        (void)feed_reply(&f, op == TL_RELEASE ? "+QUEUED +QUEUED " UNKNOWN "0"
                                              : "+QUEUED +QUEUED +QUEUED +QUEUED " UNKNOWN);
        assert_int_equal(f.out.level, TL_LEVEL_PLAIN);
        assert_string_equal(f.last.command[0].argv[0].p, first[op]);
    }
}

TEST(strict_and_the_bridge_never_watch) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    m.job.rules.strict = true;
    (void)feed_start(&f);
    assert_string_equal(f.last.command[0].argv[0].p, "SETNX");
    prepare(&f, &tl__protocol_bridge, TL_ACQUIRE);
    f.server.level = TL_LEVEL_WATCH;
    (void)feed_start(&f);
    feed_assert_asked(&f, "acquire");
}

/* ---- keeping --------------------------------------------------------------------------------- */

TEST(a_keep_writes_a_later_stamp_and_lifts_the_cap) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, 20000);
    f.server.anchor.at = f.now;
    (void)answer_ours(&f);
    int64_t end_ms = server_ms(&f) + T_MS;
    assert_writes(&f,
                  "HMSET " SIDECAR " value %lld until %lld; EXPIRE " SIDECAR " 5461; SET " KEY
                  " %lld; TIME; EXEC",
                  (long long)end_ms, (long long)UNTIL(end_ms), (long long)end_ms);
    feed_at(&f, 20100);
    (void)answer_wrote(&f);
    expect(&f, TL_OK, false);
    assert_int_equal(result()->deadline.ns,
                     feed_ms(20000 + T_MS - 100 - M_MS).ns - DRIFT_OF(T_MS - 100 - M_MS));
    assert_int_equal(result()->proof.stamp.proved_us, feed_server_us(20100));
    assert_int_equal(result()->proof.stamp.end_ms, end_ms);
}

TEST(a_keep_within_l_of_the_take_leaves_the_cap) {
    feed f;
    begin(&f, TL_RENEW);
    feed_at(&f, L_MS);
    (void)answer_ours(&f);
    (void)answer_wrote(&f);
    assert_int_equal(result()->deadline.ns, feed_ms(CAP_MS).ns);
    begin(&f, TL_RENEW);
    feed_at(&f, L_MS + 1);
    (void)answer_ours(&f);
    (void)answer_wrote(&f);
    assert_true(tl__mono_before(feed_ms(CAP_MS), result()->deadline));
}

TEST(a_keep_never_shortens) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_RENEW);
    f.server.level = TL_LEVEL_WATCH;
    m.job.ttl_ms = 10000;
    (void)feed_start(&f);
    (void)answer_ours(&f);
    assert_non_null(strstr(said(&f), "HMSET " SIDECAR " value 170000"));
    char want[64];
    (void)snprintf(want, sizeof want, "SET " KEY " %s;", own());
    assert_non_null(strstr(said(&f), want));
}

TEST(a_keep_that_finds_it_gone_or_anothers_is_lost) {
    feed f;
    begin(&f, TL_RENEW);
    (void)FIND(&f, NULL, .token = TOKEN, .bound = own());
    expect_lost(&f, TL_LOST_GONE, false);
    begin(&f, TL_RENEW); /* our bytes, but S names another: equal bytes are no identity */
    (void)FIND(&f, own(), .token = OTHER, .bound = own());
    expect_lost(&f, TL_LOST_TAKEN, false);
    begin(&f, TL_RENEW); /* removed by force */
    (void)FIND(&f, own(), .token = "", .bound = "");
    expect_lost(&f, TL_LOST_TAKEN, false);
    begin(&f, TL_RENEW);
    (void)FIND(&f, OTHER, .token = TOKEN, .bound = own());
    expect_lost(&f, TL_LOST_TAKEN, false);
    begin(&f, TL_RENEW);
    (void)feed_reply(&f,
                     "+OK -WRONGTYPE Operation against a key holding the wrong kind of value\n -1 "
                     "['" TOKEN "' '%s' '1' '77'] [%s] +OK",
                     own(), feed_time(&f));
    expect_lost(&f, TL_LOST_TAKEN, false);
}

/* Of a client whose clock showed `read_ms` after the start when it began. */
static tl_status find_written(feed *f, int64_t read_ms) {
    return FIND(f, text_of(START_MS + read_ms + LEGACY_MS), .token = TOKEN, .bound = own(),
                .fence = 77);
}

TEST(a_losers_stamp_is_taken_back_and_ends_no_sooner) {
    feed f;
    prepare(&f, &tl__protocol_timestamp, TL_RENEW);
    f.server.level = TL_LEVEL_WATCH;
    m.job.ttl_ms = 10000;
    (void)feed_start(&f);
    (void)find_written(&f, M_MS);
    assert_int_equal(f.status, TL_GO);
    assert_string_equal(f.last.command[0].argv[0].p, "HMSET");
    int64_t end_ms = 0;
    assert_true(tl__bytes_to_int(f.last.command[0].argv[3], &end_ms));
    assert_in_range(end_ms, START_MS + CAP_MS + M_MS, START_MS + CAP_MS + M_MS + 100);
    (void)answer_wrote(&f);
    expect(&f, TL_OK, false);
}

TEST(a_thiefs_clock_is_named) {
    feed f;
    begin(&f, TL_RENEW);
    (void)find_written(&f, M_MS + 1);
    expect_lost(&f, TL_LOST_TAKEN, true);
    assert_int_equal(result()->lost.thief_ahead_ms, M_MS + 1);
}

/* ---- releasing ------------------------------------------------------------------------------- */

TEST(a_release_deletes_what_is_ours_and_tells_who_waits) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)answer_ours(&f);
    assert_writes(&f, "DEL " KEY "; HDEL " SIDECAR " token; EXEC; PUBLISH " SIDECAR " ");
    (void)feed_reply(&f, "+QUEUED +QUEUED [1 1] 2");
    expect(&f, TL_OK, false);
    begin(&f, TL_RELEASE); /* it had no need of being told */
    (void)answer_ours(&f);
    (void)feed_reply(&f, "+QUEUED +QUEUED [1 1] -NOPERM this user has no permissions");
    expect(&f, TL_OK, false);
}

TEST(a_key_that_went_by_itself_was_over) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)answer_ours(&f);
    (void)feed_reply(&f, "+QUEUED +QUEUED [0 1] 2");
    expect(&f, TL_EEXPIRED, false);
}

TEST(a_release_deletes_nothing_that_is_not_provably_ours) {
    feed f;
    begin(&f, TL_RELEASE); /* our bytes, another's token */
    (void)FIND(&f, own(), .token = OTHER, .bound = own());
    assert_writes(&f, "HMSET " SIDECAR " spent " TOKEN "; EXEC");
    (void)feed_reply(&f, "+QUEUED [+OK]");
    expect(&f, TL_ETAKEN, false);
    begin(&f, TL_RELEASE); /* our token, another's bytes */
    (void)find_written(&f, 2 * M_MS);
    assert_writes(&f, "HDEL " SIDECAR " token; EXEC; PUBLISH " SIDECAR " ");
    (void)feed_reply(&f, "+QUEUED [1] 0");
    expect(&f, TL_ETAKEN, false);
    begin(&f, TL_RELEASE);
    (void)FIND(&f, NULL, .token = TOKEN, .bound = own());
    assert_writes(&f, "HDEL " SIDECAR " token; EXEC; PUBLISH " SIDECAR " ");
    (void)feed_reply(&f, "+QUEUED [1] 0");
    expect(&f, TL_EEXPIRED, false);
    begin(&f, TL_RELEASE); /* a racing loser's: ours until now */
    (void)find_written(&f, M_MS);
    assert_writes(&f, "HDEL " SIDECAR " token; EXEC; PUBLISH " SIDECAR " ");
    (void)feed_reply(&f, "+QUEUED [1] 0");
    expect(&f, TL_OK, false);
}

/* A take that is still on its way finds S touched: also where there is none yet. */
TEST(a_release_always_touches_the_sidecar) {
    feed f;
    begin(&f, TL_RELEASE);
    (void)FIND(&f, NULL);
    assert_writes(&f, "HMSET " SIDECAR " spent " TOKEN "; EXPIRE " SIDECAR " 3600; EXEC");
    (void)feed_reply(&f, "+QUEUED +QUEUED [+OK 1]");
    expect(&f, TL_EEXPIRED, false);
    begin(&f, TL_RELEASE); /* one that is there has a lifetime, perhaps a longer one */
    (void)FIND(&f, NULL, .token = "", .fence = 77);
    assert_writes(&f, "HMSET " SIDECAR " spent " TOKEN "; EXEC");
}

/* ---- within the machines that drive it ------------------------------------------------------- */

/* The answer to EXEC is lost: it is asked again, finds that it worked, and never deletes blindly. */
TEST(a_release_that_was_not_answered_is_asked_again) {
    static tl_settle s;
    feed f;
    tl_job job = stamp_job(&tl__protocol_timestamp);
    is_held(&job);
    feed_init(&f, &s, tl__settle_step);
    f.server.level = TL_LEVEL_WATCH;
    f.server.wall_us = FEED_OFFSET_US;
    tl__settle_init(&s, &job, TL_RELEASE, job.hold.believed, 1);
    (void)feed_start(&f);
    (void)answer_ours(&f);
    feed_later(&f, 10);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "connection reset");
    (void)feed_await(&f);
    assert_reads(&f, true);
    /* A successor has it by now, with the same bytes. */
    (void)FIND(&f, own(), .token = OTHER, .bound = own());
    assert_null(strstr(said(&f), "DEL "));
    (void)feed_reply(&f, "+QUEUED [+OK]");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(s.result.code, TL_OK);
}

/* A take whose EXEC is not answered, and that is given up, is dropped in the background. */
TEST(a_take_that_was_given_up_is_undone) {
    static tl_acquisition a;
    static const tl_retry retry = {.kind = TL_RETRY_AUTO};
    feed f;
    tl_job job = stamp_job(&tl__protocol_timestamp);
    feed_init(&f, &a, tl__acquire_step);
    f.server.level = TL_LEVEL_WATCH;
    f.server.wall_us = FEED_OFFSET_US;
    tl__acquire_init(&a, &job, &retry, 0, CONNECT_MS, 1);
    (void)feed_start(&f);
    (void)feed_reached(&f);
    (void)FIND(&f, NULL);
    (void)feed_lost(&f);
    while (f.status == TL_GO)
        (void)feed_await(&f);
    assert_int_equal(f.status, TL_DETACH);
    assert_int_equal(a.result.code, TL_EUNCERTAIN);
    (void)feed_await(&f);
    assert_reads(&f, true);
    (void)answer_ours(&f);
    assert_writes(&f, "DEL " KEY "; HDEL " SIDECAR " token; EXEC; PUBLISH " SIDECAR " ");
    (void)feed_reply(&f, "+QUEUED +QUEUED [1 1] 2");
    assert_int_equal(f.status, TL_END);
}
