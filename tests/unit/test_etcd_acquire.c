/*
 * Acquiring, renewing and releasing on etcd, against answers that the test gives: JSON as etcd would write it. Each request
 * lost, late, refused; contenders; what is left behind.
 */
#include "tests.h"
#include "renewals.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/etcd_acquire.h"
#include "protocol/renew.h"
#include "protocol/settle.h"
#include "transport/gateway.h"

#if TL_HAVE_JSON

#define TTL_MS 9000
#define ATTEMPT_MS 2000
#define CONNECT_MS 5000
#define S INT64_C(1000000000)
#define LEAST 9 / 11 /* of a lifetime, as drift_ppm has it */

/* One machine, and the time. */
static struct {
    void *machine;
    tl_step step;
    tl_out out;
    tl_status status;
    tl_mono now;
    tl_server server;
    tl_gateway *gateway;
} f;

static tl_etcd_acquisition m;
static tl_job job;

static int set_up(void **state) {
    (void)state;
    memset(&f, 0, sizeof f);
    f.now.ns = 1000 * S;
    f.server.drift_ppm = 100000;
    f.gateway = tl__gateway_new((tl_bytes){0});
    return f.gateway == NULL;
}

static int tear_down(void **state) {
    (void)state;
    tl__gateway_free(f.gateway);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static void give(tl_event e) {
    e.now = f.now;
    e.server = &f.server;
    e.asked.ticket = f.out.send.ticket;
    tl__out_clear(&f.out);
    f.status = f.step(f.machine, &e, &f.out);
}

static void event(tl_event_kind kind) {
    tl_event e = {.kind = kind};
    if (kind == TL_ARMED)
        e.armed = true;
    give(e);
}

static void later_ms(int64_t ms) {
    f.now = tl__mono_add_ms(f.now, ms);
}

static const char *word(unsigned i) {
    static char room[32];
    assert_true(f.out.sends == 1 && i < f.out.send.count);
    tl_bytes b = f.out.send.command[i].argv[0];
    (void)snprintf(room, sizeof room, "%.*s", (int)b.n, b.p);
    return room;
}

static int64_t arg(unsigned i, unsigned k) {
    int64_t v = -1;
    assert_true(tl__bytes_to_int(f.out.send.command[i].argv[k], &v));
    return v;
}

static void assert_asks(const char *first, const char *second) {
    assert_string_equal(word(0), first);
    assert_int_equal(f.out.send.count, second ? 2 : 1);
    if (second)
        assert_string_equal(word(1), second);
}

/* The answers to what was asked last, in JSON; those that begin with '!' are errors of that code, with words behind a space. */
static void answer_of(const tl_etcd_kind *kinds, const char *const *json, uint8_t count) {
    tl_reply replies[3];
    for (unsigned i = 0; i < count; i++) {
        bool error = json[i][0] == '!';
        char text[200];
        const char *space = error ? strchr(json[i], ' ') : NULL;
        (void)snprintf(text, sizeof text, "{\"message\":\"%s\",\"code\":%d}",
                       space ? space + 1 : "words", error ? atoi(json[i] + 1) : 0);
        assert_int_equal(tl__gateway_read(f.gateway, kinds[i], error ? 500 : 200,
                                          tl__bytes_of(error ? text : json[i]), &replies[i]),
                         1);
    }
    give((tl_event){.kind = TL_REPLY,
                    .replied = {.reply = replies, .count = count, .place = TL_LITERAL("etcd:1")}});
    tl__gateway_release(f.gateway);
}

static void answers(const char *grant, const char *transaction) {
    answer_of((const tl_etcd_kind[]){TL_ETCD_GRANT, TL_ETCD_TXN},
              (const char *const[]){grant, transaction}, 2);
}

static void answer(tl_etcd_kind kind, const char *json) {
    answer_of(&kind, &json, 1);
}

#define GRANTED "{\"header\":{\"revision\":\"1\"},\"TTL\":\"9\"}"

/* A key of K's, as JSON. */
static const char *key(const char *suffix, int64_t created, int64_t lease) {
    static char room[4][300];
    static unsigned at;
    char plain[64], *to = room[at++ % 4];
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char coded[100] = "";
    size_t n = (size_t)snprintf(plain, sizeof plain, "k/%s", suffix);
    for (size_t i = 0; i < n; i += 3) {
        unsigned left = (unsigned)(n - i);
        uint32_t bits = (uint32_t)(unsigned char)plain[i] << 16 |
                        (left > 1 ? (uint32_t)(unsigned char)plain[i + 1] << 8 : 0) |
                        (left > 2 ? (uint32_t)(unsigned char)plain[i + 2] : 0);
        char four[5] = {digits[bits >> 18], digits[bits >> 12 & 63],
                        left > 1 ? digits[bits >> 6 & 63] : '=', left > 2 ? digits[bits & 63] : '=',
                        0};
        strcat(coded, four);
    }
    (void)snprintf(
        to, sizeof room[0],
        "{\"key\":\"%s\",\"create_revision\":\"%lld\",\"mod_revision\":\"%lld\",\"lease\":\"%lld\"}",
        coded, (long long)created, (long long)created, (long long)lease);
    return to;
}

/* {"header", "succeeded", a range of these keys (NULL: none)} */
static const char *transaction(bool succeeded, int64_t revision, const char *first,
                               const char *second) {
    static char room[1000];
    (void)snprintf(
        room, sizeof room,
        "{\"header\":{\"revision\":\"%lld\"},\"succeeded\":%s,\"responses\":[{\"response_range\":"
        "{\"count\":\"3\",\"kvs\":[%s%s%s]}}]}",
        (long long)revision, succeeded ? "true" : "false", first ? first : "", second ? "," : "",
        second ? second : "");
    return room;
}

static const char *range(int64_t revision, const char *first, const char *second) {
    static char room[1000];
    (void)snprintf(room, sizeof room, "{\"header\":{\"revision\":\"%lld\"},\"kvs\":[%s%s%s]}",
                   (long long)revision, first ? first : "", second ? "," : "",
                   second ? second : "");
    return room;
}

static const char *mine(int64_t created) {
    return key(m.id.suffix, created, m.lease);
}

static tl_job a_job(void) {
    return (tl_job){.protocol = &tl__protocol_etcd,
                    .key = TL_LITERAL("k"),
                    .owner = TL_LITERAL("host 1 me"),
                    .ttl_ms = TTL_MS,
                    .attempt_ms = ATTEMPT_MS};
}

static void begin_by(int64_t wait_ms, tl_retry retry) {
    job = a_job();
    tl__etcd_acquire_init(&m, &job, &retry, wait_ms, CONNECT_MS, 42);
    f.machine = &m;
    f.step = tl__etcd_acquire_step;
    event(TL_START);
    assert_true(f.out.sends == 1 && f.out.send.count == 0);
    event(TL_REPLY); /* reached */
}

static void begin(int64_t wait_ms) {
    begin_by(wait_ms, (tl_retry){.kind = TL_RETRY_AUTO});
}

static void assert_held(int64_t fence, int64_t asked_ms_ago) {
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(m.result.acquire.fence, fence);
    int64_t left = tl__ns_until(f.now, m.result.deadline) + asked_ms_ago * 1000000;
    assert_int_equal(left / 1000, TTL_MS * INT64_C(1000) * LEAST);
}

static void detached(tl_err code) {
    assert_int_equal(f.status, TL_DETACH);
    assert_int_equal(m.result.code, code);
    event(TL_TIMER);
}

/* ---- trying ------------------------------------------------------------------------------------ */

TEST(a_try_takes_a_lease_and_creates_a_key_in_one_exchange) {
    begin(0);
    assert_asks("GRANT", "TRY");
    assert_int_equal(arg(0, 1), arg(1, 3)); /* the lease */
    assert_int_equal(arg(0, 2), 9);
    later_ms(100);
    answers(GRANTED, transaction(true, 5, NULL, NULL));
    assert_held(5, 100); /* from the time when it was asked */
    assert_false(m.result.proof.doubted);
}

TEST(the_lifetime_that_was_granted_counts_if_it_is_less_and_never_more) {
    begin(0);
    answers("{\"header\":{},\"TTL\":\"4\"}", transaction(true, 5, NULL, NULL));
    assert_int_equal(tl__ns_until(f.now, m.result.deadline) / 1000, 4000000 * LEAST);
    begin(0);
    answers("{\"header\":{},\"TTL\":\"60\"}", transaction(true, 5, NULL, NULL));
    assert_held(5, 0);
}

TEST(who_tries_once_is_told_that_another_holds_it) {
    begin(0);
    answers(
        GRANTED,
        "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{}},{\"response_range\":{}}]}");
    assert_int_equal(f.status, TL_END); /* nothing is left behind */
    assert_int_equal(m.result.code, TL_EBUSY);
}

/* The first of K's range is this key. */
static void assert_tried_and_told(const char *suffix, int64_t lease, const char *words) {
    char busy[700];
    (void)snprintf(busy, sizeof busy,
                   "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{}},"
                   "{\"response_range\":{\"kvs\":[%s]}}]}",
                   key(suffix, 4, lease));
    begin(0);
    answers(GRANTED, busy);
    assert_int_equal(m.result.code, TL_EBUSY);
    assert_string_equal(f.out.message, words);
}

TEST(what_is_in_the_way_and_no_contender_is_told_by_its_name_and_never_by_a_token) {
    static const char key_in_way[] = "blocked by a key that is no contender: k/";
    char words[100];
    assert_tried_and_told("abc", 0xabc, "another holds it");
    assert_tried_and_told("1abcdefabcdefabc", INT64_C(1) << 60, "another holds it");
    assert_tried_and_told("7abcdefabcdefabc", INT64_C(0x7abcdefabcdefabc), "another holds it");
    assert_tried_and_told("b/abc", 0xabc, "blocked by another lock below this name: k/b");
    assert_tried_and_told("b/1abcdefabcdefabc", INT64_C(1) << 61,
                          "blocked by another lock below this name: k/b");
    static const struct {
        const char *suffix;
        int64_t lease;
    } others[] = {{"db", 0},
                  {"abc", 0},
                  {"abc", 0xabd},
                  {"0abc", 0xabc},
                  {"ABC", 0xabc},
                  {"1abcdefabcdefabc", 0xabc},
                  {"2abcdefabcdefabc", INT64_C(1) << 61},
                  {"abc/", 0xabc},
                  {"b/abc", 0}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        (void)snprintf(words, sizeof words, "%s%s", key_in_way, others[i].suffix);
        assert_tried_and_told(others[i].suffix, others[i].lease, words);
    }
}

TEST(a_waiter_behind_such_a_key_is_told_so_when_its_time_is_up) {
    begin(60000);
    answers(GRANTED, transaction(true, 5, key("db", 4, 0), NULL));
    assert_int_equal(f.status, TL_GO);
    later_ms(60000);
    event(TL_TIMER);
    assert_int_equal(f.status, TL_DETACH);
    assert_int_equal(m.result.code, TL_ETIMEDOUT);
    assert_string_equal(f.out.message, "blocked by a key that is no contender: k/db");
}

TEST(a_key_that_was_created_unheard_is_put_under_a_new_lease_before_it_counts) {
    begin(0);
    int64_t lost = m.lease;
    give((tl_event){.kind = TL_FAILED, .failed = {.maybe_sent = true, .why = TL_EUNAVAILABLE}});
    event(TL_TIMER);
    event(TL_REPLY);
    assert_asks("GRANT", "TRY");
    later_ms(50);
    answers(GRANTED, transaction(false, 5, key(m.id.suffix, 4, lost), NULL));
    assert_int_equal(f.status, TL_GO);
    assert_asks("GRANT", "KEEP");
    assert_int_equal(arg(1, 3), 4);
    assert_true(arg(1, 4) > lost);
    answers(GRANTED, transaction(true, 6, mine(4), NULL));
    assert_held(4, 0);
    assert_true(m.result.proof.doubted); /* its lease isn't spared */
}

TEST(an_error_that_is_not_definite_leaves_a_doubt_which_is_cleared_up) {
    begin(0);
    int64_t lease = m.lease;
    answers("!14", "!14");
    assert_int_equal(f.status, TL_GO); /* again */
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    detached(TL_EUNCERTAIN);
    assert_asks("UNDO", "REVOKE");
    assert_int_equal(arg(1, 1), lease);
    answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_REVOKE},
              (const char *const[]){transaction(true, 8, NULL, NULL), "!5"}, 2);
    assert_int_equal(f.status, TL_END);
}

TEST(a_definite_error_leaves_no_doubt) {
    begin(0);
    answers(GRANTED, "!7");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EDENIED);
}

#define NO_SPACE "!8 etcdserver: mvcc: database space exceeded"

/* etcd has executed the put that crosses its quota, and says so of none. */
TEST(a_key_that_etcd_may_have_put_with_the_last_of_its_space_is_cleaned_up) {
    begin(0);
    int64_t lease = m.lease;
    answers(GRANTED, NO_SPACE);
    event(TL_TIMER);
    event(TL_REPLY);
    assert_asks("GRANT", "TRY");
    answers(NO_SPACE, NO_SPACE);
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    detached(TL_EUNCERTAIN);
    assert_asks("UNDO", "REVOKE");
    assert_int_equal(arg(1, 1), lease);
    begin(60000); /* likewise, if the reason why no lease was granted is another */
    answers("!14", NO_SPACE);
    event(TL_CANCEL);
    detached(TL_ECANCELLED);
    assert_asks("UNDO", "REVOKE");
}

TEST(an_etcd_that_grants_no_lease_for_want_of_space_has_put_nothing) {
    begin(0);
    answers(NO_SPACE, NO_SPACE);
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNAVAILABLE);
}

/* As at any other server: also who waits is told at once. */
TEST(what_will_be_the_same_next_time_is_told_at_once) {
    static const tl_err final[] = {TL_EDENIED, TL_ESERVER,      TL_EINVALID,
                                   TL_ENOMEM,  TL_EUNSUPPORTED, TL_ECLOCK};
    for (size_t i = 0; i < sizeof final / sizeof *final; i++) {
        begin(10000);
        give((tl_event){.kind = TL_FAILED,
                        .failed = {.why = final[i], .message = TL_LITERAL("no")}});
        assert_int_equal(f.status, TL_END);
        assert_int_equal(m.result.code, final[i]);
    }
}

/* What left a doubt may pass, whatever it was: the reason is what stands in the way afterwards. */
TEST(the_newest_failure_is_the_reason_also_after_a_doubt) {
    begin(0);
    give((tl_event){.kind = TL_FAILED,
                    .failed = {.maybe_sent = true,
                               .why = TL_ENOMEM,
                               .message = TL_LITERAL("out of memory for a reply")}});
    event(TL_TIMER);
    give((tl_event){
        .kind = TL_FAILED,
        .failed = {.why = TL_EUNAVAILABLE, .message = TL_LITERAL("connection refused")}});
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
    assert_string_equal(f.out.message, "connection refused");
}

/* The connection logs in anew: what is asked again over the next may work. */
TEST(a_login_that_is_over_may_pass_and_none_at_all_does_not) {
    tl_out out;
    tl__out_clear(&out);
    assert_int_equal(tl__etcd_refusal(TL_LITERAL("ETCD 16 etcdserver: user name is empty"), &out),
                     TL_EUNAVAILABLE);
    assert_int_equal(tl__etcd_refusal(TL_LITERAL("ETCD 3 etcdserver: user name is empty"), &out),
                     TL_EDENIED);
    begin(0);
    answers(GRANTED, "!16");
    assert_int_equal(f.status, TL_GO);
    later_ms(500);
    event(TL_TIMER);
    event(TL_REPLY);
    assert_asks("GRANT", "TRY");
}

TEST(a_lease_that_was_not_granted_holds_nothing) {
    begin(0);
    answers("!9", transaction(true, 5, NULL, NULL)); /* the lease is another's, as it seems */
    assert_int_equal(f.status, TL_GO);
    assert_asks("GRANT", "KEEP");
    assert_int_equal(arg(1, 3), 5);
}

TEST(other_strategies_try_again_as_they_say) {
    begin_by(60000, (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 700, .max_attempts = 2});
    assert_asks("GRANT", "TRY");
    static const char none[] =
        "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{}}]}";
    answers(GRANTED, none);
    assert_int_equal(tl__ms_until(f.now, f.out.until), 700);
    later_ms(700);
    event(TL_TIMER);
    event(TL_REPLY);
    assert_asks("TRY", NULL); /* under the lease that is there already */
    answer(TL_ETCD_TXN, none);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EBUSY);
    assert_true(m.spare.lease != 0); /* for whoever is next */
}

TEST(a_lease_for_less_than_was_asked_for_is_no_spare_one) {
    begin_by(60000, (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 700, .max_attempts = 2});
    answers("{\"header\":{},\"TTL\":\"4\"}",
            "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{}}]}");
    assert_int_equal(m.spare.lease, 0);
    later_ms(700);
    event(TL_TIMER);
    event(TL_REPLY);
    assert_asks("GRANT", "TRY");
}

#define SPARE INT64_C(3000000000000000000)

static void begin_with_spare(int64_t wait_ms, int64_t left_ms) {
    const tl_retry retry = {.kind = TL_RETRY_AUTO};
    job = a_job();
    job.spare = (tl_spare_lease){SPARE, TTL_MS, tl__mono_add_ms(f.now, left_ms)};
    tl__etcd_acquire_init(&m, &job, &retry, wait_ms, CONNECT_MS, 42);
    f.machine = &m;
    f.step = tl__etcd_acquire_step;
    event(TL_START);
    event(TL_REPLY);
}

TEST(a_spare_lease_is_used_while_two_thirds_of_it_are_left) {
    const int64_t whole_ms = (int64_t)TTL_MS * LEAST, enough_ms = whole_ms * 2 / 3 + 2;
    begin_with_spare(0, enough_ms);
    assert_asks("TRY", NULL);
    assert_int_equal(arg(0, 3), SPARE);
    later_ms(100);
    answer(TL_ETCD_TXN, transaction(true, 5, NULL, NULL));
    assert_int_equal(m.result.code, TL_OK);
    assert_int_equal(tl__ms_until(f.now, m.result.deadline), enough_ms - 100); /* its own */
    /* proved when that lease was granted */
    assert_int_equal(tl__ms_until(m.result.proved, m.result.deadline), whole_ms);
    assert_true(m.result.proof.etcd.lease == SPARE && m.result.proof.etcd.spared);
    assert_true(tl__etcd_lease(&m.id, m.result.proof.etcd.ahead, f.now) > SPARE); /* and so on */
    assert_int_equal(m.spare.lease, 0);
    begin_with_spare(0, whole_ms * 2 / 3 - 10);
    assert_asks("GRANT", "TRY");
    answers(GRANTED, transaction(true, 5, NULL, NULL));
    assert_held(5, 0);
}

TEST(a_spare_lease_that_is_gone_is_replaced_at_once) {
    begin_with_spare(60000, 7000);
    assert_asks("JOIN", NULL);
    answer(TL_ETCD_TXN, "!5");
    assert_asks("GRANT", "JOIN");
    assert_true(arg(1, 3) != SPARE);
    assert_int_equal(m.spare.lease, 0);
}

/* A copy of the process may have a key under it: that is not to go with ours. */
TEST(a_spare_lease_in_doubt_is_nobodys_any_more_and_not_revoked) {
    begin_with_spare(0, 7000);
    answer(TL_ETCD_TXN, "!14");
    assert_int_equal(m.spare.lease, 0);
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    detached(TL_EUNCERTAIN);
    assert_asks("UNDO", NULL);
}

/* No lease was granted for it: so there is no telling whether the key was put. */
TEST(a_key_that_etcd_may_have_put_under_a_spare_lease_is_cleaned_up) {
    begin_with_spare(0, 7000);
    answer(TL_ETCD_TXN, NO_SPACE);
    assert_int_equal(m.spare.lease, 0);
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    detached(TL_EUNCERTAIN);
    assert_asks("UNDO", NULL);
}

TEST(who_leaves_the_line_lets_a_spare_lease_expire) {
    begin_with_spare(60000, 7000);
    answer(TL_ETCD_TXN, transaction(true, 5, key("abc", 4, 1), NULL));
    assert_int_equal(f.status, TL_GO);
    event(TL_CANCEL);
    detached(TL_ECANCELLED);
    assert_asks("UNDO", NULL);
}

static void undone(void) {
    assert_asks("UNDO", NULL);
    answer(TL_ETCD_TXN, transaction(true, 8, NULL, NULL));
}

/* etcd may execute the deletion first: the two go over different streams. */
TEST(a_cancelled_request_by_a_spare_lease_is_undone_once_more) {
    for (int waits = 0; waits < 2; waits++) {
        begin_with_spare(waits ? 60000 : 0, 7000);
        assert_asks(waits ? "JOIN" : "TRY", NULL);
        event(TL_CANCEL);
        detached(TL_ECANCELLED);
        undone();
        assert_int_equal(f.status, TL_GO);
        assert_int_equal(tl__ms_until(f.now, f.out.until), ATTEMPT_MS / 4);
        later_ms(ATTEMPT_MS / 4);
        event(TL_TIMER);
        undone();
        assert_int_equal(f.status, TL_END);
    }
}

/* So may a request that went unanswered, or met an error that is no outcome: the wait is cancelled a moment later. */
TEST(a_request_in_doubt_by_a_spare_lease_is_undone_once_more) {
    for (int i = 0; i < 4; i++) {
        int64_t pause_ms = i / 2 * ATTEMPT_MS / 4;
        begin_with_spare(60000, 7000);
        if (i % 2)
            answer(TL_ETCD_TXN, "!14");
        else
            give((tl_event){.kind = TL_FAILED,
                            .failed = {.maybe_sent = true, .why = TL_EUNAVAILABLE}});
        assert_int_equal(f.status, TL_GO);
        later_ms(pause_ms);
        event(TL_CANCEL);
        detached(TL_ECANCELLED);
        undone();
        if (pause_ms == 0) {
            assert_int_equal(f.status, TL_GO);
            assert_int_equal(tl__ms_until(f.now, f.out.until), ATTEMPT_MS / 4);
            later_ms(ATTEMPT_MS / 4);
            event(TL_TIMER);
            undone();
        }
        assert_int_equal(f.status, TL_END);
    }
}

TEST(a_cancelled_pause_is_undone_once) {
    begin_with_spare(60000, 7000);
    answer(TL_ETCD_TXN, transaction(true, 5, key("abc", 4, 1), NULL));
    event(TL_CANCEL);
    detached(TL_ECANCELLED);
    undone();
    assert_int_equal(f.status, TL_END);
}

/* ---- in line ----------------------------------------------------------------------------------- */

static void stand_behind(int64_t other, int64_t revision) {
    begin(60000);
    assert_asks("GRANT", "JOIN");
    answers(GRANTED, transaction(true, revision, key("abc", other, 1), NULL));
    assert_int_equal(f.status, TL_GO);
    assert_true(f.out.arm);
}

TEST(who_waits_stands_behind_the_last_and_listens_to_that_one_alone) {
    stand_behind(4, 7);
    assert_true(tl__bytes_eq(f.out.topic, TL_LITERAL("7 k/abc")));
    event(TL_ARMED);
    assert_true(f.out.until.ns == m.keep_at.ns); /* no sooner than its own renewal */
    event(TL_WOKEN);
    event(TL_REPLY);
    assert_asks("LOOK", NULL);
    assert_int_equal(arg(0, 3), 7);
    answer(TL_ETCD_RANGE, range(9, mine(7), NULL));
    assert_held(7, 0);
}

TEST(nobody_before_it_and_it_is_held_at_once) {
    begin(60000);
    answers(GRANTED, transaction(true, 7, NULL, NULL));
    assert_held(7, 0);
}

TEST(when_the_one_before_gives_up_it_listens_to_the_next) {
    stand_behind(6, 7);
    tl_bytes former = f.out.topic;
    event(TL_WOKEN);
    event(TL_REPLY);
    answer(TL_ETCD_RANGE, range(9, mine(7), key("ab", 4, 1)));
    assert_int_equal(f.status, TL_GO);
    assert_true(f.out.arm && f.out.disarm);
    assert_true(tl__bytes_eq(f.out.topic, TL_LITERAL("9 k/ab")));
    assert_true(tl__bytes_eq(former, TL_LITERAL("7 k/abc"))); /* it is forgotten by its name */
}

TEST(it_keeps_its_place_by_new_leases_while_it_waits) {
    stand_behind(4, 7);
    int64_t first = m.lease;
    event(TL_ARMED);
    later_ms(TTL_MS / 3);
    event(TL_TIMER);
    event(TL_REPLY);
    assert_asks("GRANT", "KEEP");
    assert_true(arg(1, 4) > first);
    answers(GRANTED, transaction(true, 9, mine(7), key("abc", 4, 1)));
    assert_int_equal(f.status, TL_GO);
    assert_false(f.out.arm); /* the same as before */
    assert_int_equal(tl__ms_until(f.now, m.keep_at), TTL_MS / 3);
}

TEST(a_place_that_was_lost_is_taken_anew_at_the_end) {
    stand_behind(4, 7);
    event(TL_WOKEN);
    event(TL_REPLY);
    answer(TL_ETCD_RANGE, range(9, key("abc", 4, 1), NULL)); /* ours isn't there */
    assert_asks("GRANT", "JOIN");
    answers(GRANTED, transaction(true, 10, key("x", 8, 1), NULL));
    assert_int_equal(m.id.revision, 10);
    assert_int_equal(f.status, TL_GO);
}

TEST(the_first_with_little_left_renews_before_it_holds) {
    stand_behind(4, 7);
    event(TL_ARMED);
    m.keep_at = TL_NEVER;
    later_ms(TTL_MS / 2);
    event(TL_WOKEN);
    event(TL_REPLY);
    assert_asks("LOOK", NULL);
    answer(TL_ETCD_RANGE, range(9, mine(7), NULL));
    assert_int_equal(f.status, TL_GO);
    assert_asks("GRANT", "KEEP");
    answers(GRANTED, transaction(true, 10, mine(7), NULL));
    assert_held(7, 0);
}

TEST(without_a_stream_it_looks_often_and_from_a_later_revision) {
    stand_behind(4, 7);
    give((tl_event){.kind = TL_ARMED, .armed = false});
    event(TL_REPLY);
    assert_asks("LOOK", NULL);
    answer(TL_ETCD_RANGE, range(30, mine(7), key("abc", 4, 1)));
    assert_true(f.out.arm);
    assert_true(tl__bytes_eq(f.out.topic, TL_LITERAL("30 k/abc")));
    assert_true(tl__ms_until(f.now, f.out.until) <= 250);
}

TEST(who_gives_up_leaves_the_line) {
    stand_behind(4, 7);
    int64_t lease = m.lease;
    later_ms(60000);
    event(TL_TIMER);
    detached(TL_ETIMEDOUT);
    assert_asks("UNDO", "REVOKE");
    give((tl_event){.kind = TL_FAILED, .failed = {.maybe_sent = true, .why = TL_EUNAVAILABLE}});
    assert_int_equal(f.status, TL_GO);
    later_ms(100);
    event(TL_TIMER);
    assert_asks("UNDO", "REVOKE");
    assert_int_equal(arg(1, 1), lease);
    answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_REVOKE},
              (const char *const[]){transaction(true, 8, NULL, NULL), "{\"header\":{}}"}, 2);
    assert_int_equal(f.status, TL_END);
}

TEST(a_cancel_in_the_middle_of_a_join_undoes_it_and_its_lease) {
    begin(TL_FOREVER);
    int64_t lease = m.lease;
    event(TL_CANCEL);
    detached(TL_ECANCELLED);
    assert_asks("UNDO", "REVOKE");
    assert_int_equal(arg(1, 1), lease);
}

TEST(a_place_that_is_too_long_to_listen_to_is_looked_at_often) {
    char suffix[40], name[TL_ETCD_TOPIC_MAX + 10];
    memset(suffix, 'a', sizeof suffix - 1);
    suffix[sizeof suffix - 1] = '\0';
    memset(name, 'n', sizeof name);
    begin(60000);
    m.job.key = tl__bytes(name, sizeof name);
    tl_reply item[5] = {{.type = TL_REPLY_STRING, .text = {name, sizeof name}},
                        {.type = TL_REPLY_STRING, .text = {"", 0}},
                        {.type = TL_REPLY_INT, .integer = 4},
                        {.type = TL_REPLY_INT, .integer = 4},
                        {.type = TL_REPLY_INT, .integer = 4}};
    tl_reply kv = {.type = TL_REPLY_ARRAY, .items = item, .count = 5};
    tl_reply in[2] = {{.type = TL_REPLY_INT, .integer = 1}, kv};
    tl_reply parts[3] = {{.type = TL_REPLY_INT, .integer = 1},
                         {.type = TL_REPLY_INT, .integer = 7},
                         {.type = TL_REPLY_ARRAY, .items = in, .count = 2}};
    tl_reply both[2] = {{.type = TL_REPLY_INT, .integer = 9},
                        {.type = TL_REPLY_ARRAY, .items = parts, .count = 3}};
    give((tl_event){.kind = TL_REPLY, .replied = {.reply = both, .count = 2}});
    assert_false(f.out.arm);
    assert_true(tl__ms_until(f.now, f.out.until) <= 250);
}

TEST(who_cleans_up_doesnt_hammer_an_etcd_that_answers_errors) {
    begin(TL_FOREVER);
    event(TL_CANCEL);
    detached(TL_ECANCELLED);
    assert_asks("UNDO", "REVOKE");
    for (int i = 0; i < 3; i++) {
        answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_REVOKE},
                  (const char *const[]){"{\"error\":\"no leader\",\"code\":14}",
                                        "{\"error\":\"no leader\",\"code\":14}"},
                  2);
        assert_int_equal(f.status, TL_GO);
        assert_true(f.now.ns < f.out.until.ns);
        later_ms(5000);
        event(TL_TIMER);
    }
}

/* Whoever drives the connection may be late; to be stepped at once, again and again, would be no use. */
TEST(a_request_in_flight_is_waited_for_though_time_is_up) {
    begin(500);
    event(TL_TIMER);
    assert_int_equal(f.out.until.ns, TL_NEVER.ns);
    later_ms(600);
    event(TL_TIMER);
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(f.out.until.ns, TL_NEVER.ns);
}

/* What etcd said before is no reason any more: nobody knows who holds the lock by now. */
TEST(an_etcd_silent_since_it_said_busy_is_unavailable) {
    stand_behind(4, 7);
    event(TL_WOKEN);
    event(TL_REPLY);
    assert_asks("LOOK", NULL);
    later_ms(60000);
    give((tl_event){.kind = TL_FAILED,
                    .failed = {.maybe_sent = true,
                               .why = TL_EUNAVAILABLE,
                               .message = TL_LITERAL("no reply in time")}});
    event(TL_TIMER);
    detached(TL_EUNAVAILABLE);
}

TEST(nothing_is_asked_that_the_limit_would_cut_short) {
    begin(1000);
    later_ms(400);
    answers(GRANTED, transaction(true, 7, key("abc", 4, 1), NULL));
    assert_int_equal(f.status, TL_GO);
    assert_int_equal(tl__ms_until(f.now, f.out.until), 600); /* not after 250 ms at most */
    later_ms(600);
    event(TL_TIMER);
    detached(TL_ETIMEDOUT);
    begin(5000);
    later_ms(1500);
    answers(GRANTED, transaction(true, 7, key("abc", 4, 1), NULL));
    event(TL_ARMED);
    assert_int_equal(tl__ms_until(f.now, f.out.until), 3500); /* nor to renew its key at 3000 ms */
}

/* The host was stopped when it was to look again: its wait is over when it hears that the member is reached. */
TEST(a_member_that_is_reached_after_the_wait_is_not_asked) {
    stand_behind(4, 7);
    event(TL_ARMED);
    event(TL_WOKEN);
    later_ms(60000);
    event(TL_REPLY);
    detached(TL_ETIMEDOUT);
    assert_asks("UNDO", "REVOKE");
}

TEST(no_other_try_is_begun_that_the_limit_would_cut_short) {
    begin_by(1000, (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 300});
    later_ms(400);
    answers(GRANTED, "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{}}]}");
    assert_int_equal(tl__ms_until(f.now, f.out.until), 600);
    later_ms(600);
    event(TL_TIMER);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_ETIMEDOUT);
}

/* ---- what is held ------------------------------------------------------------------------------ */

static tl_renew r;
static tl_settle s;
static tl_etcd_id id;

static tl_job held_job(void) {
    tl_job held = a_job();
    id = tl__etcd_id_draw(77);
    id.revision = 5;
    held.token = tl__etcd_token(&id);
    return held;
}

static void renew(void) {
    job = held_job();
    renew_begin(&r, &job, tl__mono_add_ms(f.now, 6000), TL_NEVER, false, 1);
    f.machine = &r;
    f.step = tl__renew_step;
    event(TL_START);
    later_ms(2000);
    event(TL_TIMER);
    assert_asks("GRANT", "KEEP");
    assert_int_equal(arg(1, 3), 5);
}

TEST(a_token_is_its_suffix_and_its_revision) {
    tl_etcd_id back;
    tl_job held = held_job();
    assert_true(tl__etcd_id_read(&back, &held.token));
    assert_string_equal(back.suffix, id.suffix);
    assert_int_equal(back.base, id.base);
    assert_int_equal(back.revision, 5);
    static const char *const bad[] = {"",
                                      "1",
                                      "1fff.5",
                                      "1000000000000000",
                                      "1000000000000000.",
                                      "1000000000000000.0",
                                      "1000000000000000.x",
                                      "x000000000000000.5",
                                      "2000000000000000.5",
                                      "0000000000000000.5",
                                      "0b9d4a1e-3a63-4d4a-9d8b-aaaaaaaaaaaa"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tl_token token = {""};
        (void)snprintf(token.text, sizeof token.text, "%s", bad[i]);
        assert_false(tl__etcd_id_read(&back, &token));
    }
    id.revision = INT64_MAX;
    tl_token longest = tl__etcd_token(&id); /* fits */
    assert_true(tl__etcd_id_read(&back, &longest));
}

TEST(a_renewal_is_a_new_lease_each_time_with_a_higher_number) {
    renew();
    int64_t first = arg(1, 4);
    answers(GRANTED, transaction(true, 6, NULL, NULL));
    assert_int_equal(tl__ns_until(f.now, r.result.deadline) / 1000, TTL_MS * INT64_C(1000) * LEAST);
    later_ms(3000);
    event(TL_TIMER);
    assert_asks("GRANT", "KEEP");
    assert_true(arg(1, 4) > first);
}

/* It is joined with others where it is known when the key was changed last, and by itself where one of them is gone. */
TEST(a_renewal_is_joined_by_the_last_change_and_by_itself_after_one_in_vain) {
    renew();
    assert_int_equal(f.out.send.command[0].each, TL_ETCD_KEEPS_EACH);
    assert_int_equal(f.out.send.command[0].alike, 9);
    assert_int_equal(arg(1, 5), 0);
    assert_true(f.out.send.alone); /* by no other's number, where that isn't known */
    answers(GRANTED, transaction(true, 6, NULL, NULL));
    assert_int_equal(r.job.hold.proof.etcd.lease, arg(1, 4));
    later_ms(3000);
    event(TL_TIMER);
    assert_int_equal(arg(1, 5), 6);
    assert_false(f.out.send.alone);
    int64_t first = arg(1, 4);
    for (int i = 0; i < 2;
         i++) { /* of those that it was joined with one was gone, or it was changed */
        answers(GRANTED, transaction(false, 7, key(id.suffix, 5, first - 1), NULL));
        assert_asks("GRANT", "KEEP");
        assert_int_equal(arg(1, 5), 5); /* when the answer says that it was changed */
        assert_int_equal(f.out.send.alone, i == 1);
    }
    assert_true(arg(1, 4) >= first);
    answers(
        GRANTED,
        "!14"); /* it may have been carried out, or will be, joined with others: no later than a newer one */
    event(TL_TIMER);
    assert_false(f.out.send.alone);
    assert_int_equal(arg(1, 5), 6);
    answers(GRANTED, transaction(true, 9, NULL, NULL));
    later_ms(3000);
    event(TL_TIMER);
    assert_int_equal(arg(1, 5), 9);
}

/* Which lease a joined one is under the answer tells: it is others', too, and the next must be higher. */
TEST(a_joined_renewal_goes_above_the_lease_of_all) {
    renew();
    int64_t theirs = arg(1, 4) + INT64_C(1000000000000);
    tl_reply items[] = {{.type = TL_REPLY_INT, .integer = 1},
                        {.type = TL_REPLY_INT, .integer = 6},
                        {.type = TL_REPLY_NIL},
                        {.type = TL_REPLY_INT, .integer = theirs}};
    tl_reply replies[] = {{.type = TL_REPLY_INT, .integer = 9},
                          {.type = TL_REPLY_ARRAY, .items = items, .count = 4}};
    give((tl_event){.kind = TL_REPLY, .replied = {.reply = replies, .count = 2}});
    assert_int_equal(r.job.hold.proof.etcd.lease, 0);
    assert_int_equal(tl__ns_until(f.now, r.result.deadline) / 1000, TTL_MS * INT64_C(1000) * LEAST);
    later_ms(3000);
    event(TL_TIMER);
    assert_true(arg(1, 4) > theirs);
}

/* An extension that was begun meanwhile has raised it. */
TEST(a_renewal_lasts_no_longer_than_its_own_lease_whatever_the_lifetime_is_by_now) {
    renew();
    tl_mono asked = f.now;
    r.job.ttl_ms = 9999;
    answers(GRANTED, transaction(true, 6, NULL, NULL));
    assert_int_equal(tl__ns_until(asked, r.result.deadline) / 1000, 9000 * INT64_C(1000) * LEAST);
}

TEST(a_renewal_whose_outcome_is_unknown_moves_no_deadline) {
    renew();
    tl_mono before = r.result.deadline;
    answers(GRANTED, "!4");
    assert_int_equal(r.result.deadline.ns, before.ns);
    assert_int_equal(f.out.note[0].kind, TL_NOTE_AT_RISK);
    assert_int_equal(f.status, TL_GO);
    event(TL_TIMER);
    answers("!9",
            transaction(true, 6, NULL, NULL)); /* under a lease that wasn't granted for this */
    assert_int_equal(r.result.deadline.ns, before.ns);
}

/* Without space neither is a lease granted nor a key put: no renewal counts, and the cause is told with what to do. */
TEST(a_renewal_that_is_refused_says_why) {
    static const struct {
        const char *grant, *keep, *words;
    } cases[] = {
        {NO_SPACE, NO_SPACE,
         "etcd has no space left (NOSPACE), and grants and renews no lock: compact and defragment "
         "it, then disarm the alarm"},
        {GRANTED, NO_SPACE, "etcd has no space left (NOSPACE)"},
        {GRANTED, "!8 etcdserver: too many requests", "too many requests"},
        {GRANTED, "!7 etcdserver: permission denied", "permission denied"},
        {"!14 etcdserver: no leader", "!14 etcdserver: no leader", "no leader"},
        {GRANTED, "!16 etcdserver: invalid auth token", "invalid auth token"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        renew();
        tl_mono before = r.result.deadline;
        answers(cases[i].grant, cases[i].keep);
        assert_int_equal(r.result.deadline.ns, before.ns);
        assert_int_equal(f.out.note[0].kind, TL_NOTE_AT_RISK);
        assert_non_null(strstr(f.out.message, cases[i].words));
    }
    renew();
    give((tl_event){.kind = TL_FAILED,
                    .failed = {.why = TL_EUNAVAILABLE, .message = TL_LITERAL("no reply")}});
    assert_string_equal(f.out.message, "no reply");
}

TEST(a_renewal_that_meets_a_higher_lease_goes_above_it) {
    renew();
    int64_t higher = arg(1, 4) + INT64_C(1000000000000);
    answers(GRANTED, transaction(false, 6, key(id.suffix, 5, higher), NULL));
    assert_asks("GRANT", "KEEP");
    assert_true(arg(1, 4) > higher);
    answers(GRANTED, transaction(true, 7, NULL, NULL));
    assert_int_equal(f.status, TL_GO);
    later_ms(3000);
    event(TL_TIMER);
    assert_true(arg(1, 4) > higher); /* and stays there */
}

/* Ours isn't there, and another is the first. */
static const char *gone_with(const char *suffix, int64_t lease) {
    static char two[600];
    (void)snprintf(two, sizeof two,
                   "{\"header\":{\"revision\":\"6\"},\"responses\":[{\"response_range\":{}},"
                   "{\"response_range\":{\"kvs\":[%s]}}]}",
                   key(suffix, 6, lease));
    return two;
}

static const char *gone_with_another(void) {
    return gone_with("b", 0xb);
}

TEST(a_renewal_that_finds_no_key_of_its_own_loses_the_lock) {
    renew();
    answers(GRANTED, gone_with_another());
    assert_int_equal(r.result.code, TL_ELOST);
    assert_int_equal(r.result.lost.why, TL_LOST_TAKEN);
    renew();
    answers(GRANTED, gone_with("b", 1)); /* which is no contender */
    assert_int_equal(r.result.code, TL_ELOST);
    assert_int_equal(r.result.lost.why, TL_LOST_GONE);
    renew();
    answers(GRANTED, transaction(false, 6, NULL, NULL));
    assert_int_equal(f.status, TL_END);
    assert_int_equal(r.result.code, TL_ELOST);
    assert_int_equal(r.result.lost.why, TL_LOST_GONE);
    renew();
    answers(GRANTED, transaction(false, 6, key(id.suffix, 6, 1), NULL));
    assert_int_equal(r.result.code, TL_ELOST);
}

static void settle(tl_job with, const char *first) {
    job = with;
    tl__settle_init(&s, &job, TL_RELEASE, tl__mono_add_ms(f.now, 1000), 1);
    f.machine = &s;
    f.step = tl__settle_step;
    event(TL_START);
    assert_asks(first, NULL);
}

static const char *done(void) {
    return transaction(true, 6, NULL, NULL);
}

static const char *not_done(void) {
    return "{\"header\":{\"revision\":\"6\"}}";
}

TEST(a_release_deletes_its_own_key_and_asks_no_more) {
    settle(held_job(), "FREE");
    assert_int_equal(arg(0, 3), 5);
    assert_int_equal(arg(0, 4), tl__etcd_rest_lease(&id));
    answer(TL_ETCD_TXN, done());
    assert_int_equal(f.status, TL_END);
    assert_int_equal(s.result.code, TL_OK);
}

/* So does one of another handle's hold: its key may be somebody's next hold by now. */
TEST(a_release_that_found_nothing_of_its_own_asks_whose_the_lock_is) {
    tl_job adopted = held_job();
    adopted.hold.proof.elsewhere = true;
    for (int i = 0; i < 2; i++) {
        tl_job of = i ? adopted : held_job();
        settle(of, "FREE");
        answer(TL_ETCD_TXN, not_done());
        assert_asks("SEE", NULL);
        answer(TL_ETCD_TXN, transaction(false, 6, NULL, NULL));
        assert_int_equal(s.result.code, TL_EEXPIRED);
        settle(of, "FREE");
        answer(TL_ETCD_TXN, not_done());
        answer(TL_ETCD_TXN, transaction(true, 6, key("abc", 4, 0xabc), NULL));
        assert_int_equal(s.result.code, TL_ETAKEN);
        settle(of, "FREE");
        answer(TL_ETCD_TXN, not_done());
        answer(TL_ETCD_TXN, transaction(true, 6, key("db", 4, 0), NULL));
        assert_int_equal(s.result.code, TL_EEXPIRED);
    }
}

TEST(a_release_without_an_answer_is_asked_again_and_counts) {
    settle(held_job(), "FREE");
    answer(TL_ETCD_TXN, "!14");
    assert_int_equal(f.status, TL_GO);
    event(TL_TIMER);
    assert_asks("FREE", NULL);
    answer(TL_ETCD_TXN, not_done()); /* the first has done it */
    assert_asks("SEE", NULL);
    answer(TL_ETCD_TXN, transaction(true, 6, key("abc", 4, 0xabc), NULL));
    assert_int_equal(s.result.code, TL_OK);
}

/* Until the answer comes its holder counts on what it had before. */
TEST(an_extension_for_less_leaves_the_key_under_a_lease_of_as_much_as_before) {
    job = held_job();
    job.renew.least_ms = 12000;
    tl__settle_init(&s, &job, TL_RENEW, tl__mono_add_ms(f.now, 11000), 1);
    f.machine = &s;
    f.step = tl__settle_step;
    event(TL_START);
    assert_asks("GRANT", "KEEP");
    assert_int_equal(arg(0, 2), 12);
    tl_mono asked = f.now;
    later_ms(100);
    answers("{\"TTL\":\"12\"}", transaction(true, 50, NULL, NULL));
    assert_int_equal(f.status, TL_END);
    assert_int_equal(s.result.code, TL_OK);
    assert_true(s.result.deadline.ns <= tl__mono_add_ms(asked, job.ttl_ms).ns);
}

/* A renewal that is in flight meanwhile may change the key, whatever its revision. */
TEST(an_extension_does_not_compare_when_the_key_was_changed) {
    job = held_job();
    job.hold.proof.kind = TL_PROOF_ETCD;
    job.hold.proof.etcd.changed = (INT64_C(1) << 40) + 6;
    tl__settle_init(&s, &job, TL_RENEW, tl__mono_add_ms(f.now, 11000), 1);
    f.machine = &s;
    f.step = tl__settle_step;
    event(TL_START);
    assert_asks("GRANT", "KEEP");
    assert_int_equal(arg(1, 5), 0);
}

/* Where nothing else is under it, as far as is known. */
TEST(a_release_in_doubt_revokes_the_lease_and_so_does_one_that_is_told_to) {
    tl_job held = held_job();
    held.hold.proof.kind = TL_PROOF_ETCD;
    held.hold.proof.etcd.lease = 77;
    settle(held, "FREE");
    answer(TL_ETCD_TXN, "!14");
    event(TL_TIMER);
    assert_asks("FREE", "REVOKE");
    assert_int_equal(arg(1, 1), 77);
    answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_REVOKE},
              (const char *const[]){transaction(true, 6, NULL, NULL), "!14"}, 2);
    assert_int_equal(s.result.code, TL_OK); /* the key is gone all the same */
    job = held;
    job.release.revoke = true;
    tl__settle_init(&s, &job, TL_RELEASE, tl__mono_add_ms(f.now, 1000), 1);
    event(TL_START);
    assert_asks("FREE", "REVOKE");
}

TEST(a_release_lets_a_lease_expire_that_was_a_spare_one) {
    tl_job held = held_job();
    held.hold.proof.kind = TL_PROOF_ETCD;
    held.hold.proof.etcd.lease = 77;
    held.hold.proof.etcd.spared = true;
    held.release.revoke = true;
    settle(held, "FREE");
    assert_asks("FREE", NULL);
    answer(TL_ETCD_TXN, "!14");
    event(TL_TIMER);
    assert_asks("FREE", NULL);
}

TEST(a_renewal_puts_it_under_a_lease_that_nobody_else_has) {
    renew();
    r.job.hold.proof.etcd.spared = true;
    answers(GRANTED, transaction(true, 6, NULL, NULL));
    assert_false(r.job.hold.proof.etcd.spared);
}

TEST(a_token_of_another_kind_of_server_holds_nothing_here) {
    tl_job held = held_job();
    (void)snprintf(held.token.text, sizeof held.token.text, "123");
    settle(held, "FREE");
    answer(TL_ETCD_TXN, not_done());
    answer(TL_ETCD_TXN, transaction(false, 6, NULL, NULL));
    assert_int_equal(s.result.code, TL_EEXPIRED);
}

/* ---- rests ------------------------------------------------------------------------------------- */

/* Which still has to rest for 10 s, but for what has passed since the answer to its acquire. */
static tl_job resting_job(int64_t passed_ms) {
    tl_job held = held_job();
    held.release.rest_ms = 10000;
    held.release.rest_since = tl__mono_add_ms(f.now, -passed_ms);
    held.hold.proof.kind = TL_PROOF_ETCD;
    held.hold.proof.etcd.lease = 77;
    held.release.revoke = true; /* which a rest doesn't */
    return held;
}

static void rest(int64_t passed_ms) {
    job = resting_job(passed_ms);
    tl__settle_init(&s, &job, TL_RELEASE, tl__mono_add_ms(f.now, 1000), 1);
    f.machine = &s;
    f.step = tl__settle_step;
    event(TL_START);
    assert_asks("GRANT", "REST");
    assert_int_equal(arg(0, 1), tl__etcd_rest_lease(&id));
    assert_int_equal(arg(1, 4), arg(0, 1));
}

static const char *resting_key(void) {
    return key(id.suffix, 5, tl__etcd_rest_lease(&id));
}

TEST(a_rest_puts_the_key_under_a_lease_for_the_rest_of_the_time_in_whole_seconds) {
    rest(0);
    assert_int_equal(arg(0, 2), 10);
    assert_int_equal(arg(1, 3), 5);
    tl_bytes value = f.out.send.command[1].argv[5];
    assert_true(tl__bytes_eq(value, TL_LITERAL("resting 1 host 1 me")));
    answers("{\"TTL\":\"10\"}", done());
    assert_int_equal(f.status, TL_END);
    assert_int_equal(s.result.code, TL_OK);
    rest(5500); /* by etcd's clock perhaps 4500 */
    assert_int_equal(arg(0, 2), 6);
    rest(10000);
    assert_int_equal(arg(0, 2), 2);
    job = resting_job(12300); /* it has been held for long enough */
    tl__settle_init(&s, &job, TL_RELEASE, tl__mono_add_ms(f.now, 1000), 1);
    event(TL_START);
    assert_asks("FREE", "REVOKE");
}

/* Also above a lease that it had with others. */
TEST(the_lease_of_a_rest_is_above_those_of_all_holds) {
    const tl_mono late = {.ns = INT64_C(100) * 366 * 86400 * S};
    tl_etcd_id least = tl__etcd_id_draw(0), most = tl__etcd_id_draw((UINT64_C(1) << 60) - 1);
    assert_true(tl__etcd_rest_lease(&least) > tl__etcd_lease(&most, 1000000, late));
    assert_true(tl__etcd_rest_lease(&most) > tl__etcd_rest_lease(&least));
}

/* The lease of the first one counts, so that the end doesn't move. */
TEST(a_rest_without_an_answer_is_asked_for_again_under_the_same_lease) {
    rest(0);
    int64_t lease = arg(0, 1);
    give((tl_event){.kind = TL_FAILED, .failed = {.maybe_sent = true, .why = TL_EUNAVAILABLE}});
    event(TL_TIMER);
    assert_asks("GRANT", "REST");
    assert_int_equal(arg(0, 1), lease);
    answers("!9 etcdserver: lease already exists", done());
    assert_int_equal(f.status, TL_END);
    assert_int_equal(s.result.code, TL_OK);
}

TEST(a_rest_that_finds_no_key_of_its_own_says_whose_the_lock_is) {
    rest(0);
    answers(GRANTED, transaction(false, 6, NULL, NULL));
    assert_int_equal(s.result.code, TL_EEXPIRED);
    rest(0);
    answers(GRANTED, gone_with_another());
    assert_int_equal(s.result.code, TL_ETAKEN);
    rest(0);
    answers(GRANTED, "!14"); /* it may rest, or may have expired */
    event(TL_TIMER);
    answers(GRANTED, transaction(false, 6, NULL, NULL));
    assert_int_equal(s.result.code, TL_EEXPIRED);
    rest(0);
    answers(NO_SPACE, NO_SPACE);
    assert_int_equal(f.status, TL_GO);
    rest(0);
    answer(TL_ETCD_GRANT, GRANTED); /* malformed */
    assert_int_equal(s.result.code, TL_ESERVER);
}

static void assert_ends_uncertain(void) {
    answers(GRANTED, NO_SPACE);
    event(TL_TIMER);
    answers(NO_SPACE, NO_SPACE);
    assert_int_equal(f.status, TL_GO);
    later_ms(ATTEMPT_MS);
    event(TL_TIMER);
    assert_int_equal(s.result.code, TL_EUNCERTAIN);
}

/* With the last of its space, though it reports that there is none. */
TEST(a_rest_or_an_extension_that_etcd_may_have_executed_is_uncertain) {
    rest(0);
    assert_ends_uncertain();
    assert_int_equal(f.status, TL_DETACH);
    job = held_job();
    tl__settle_init(&s, &job, TL_RENEW, tl__mono_add_ms(f.now, 11000), 1);
    event(TL_START);
    assert_asks("GRANT", "KEEP");
    assert_ends_uncertain();
    assert_int_equal(f.status, TL_END);
}

/* The end has come while it was asked again: what rests still does so for the rest of a second. */
TEST(a_rest_that_is_repeated_when_it_is_over_releases_and_leaves_what_rests) {
    rest(11000);
    give((tl_event){.kind = TL_FAILED, .failed = {.maybe_sent = true, .why = TL_EUNAVAILABLE}});
    later_ms(900);
    s.retry.next = f.now;
    job.release.rest_ms = s.job.release.rest_ms = 9000;
    event(TL_TIMER);
    assert_asks("FREE", "REVOKE"); /* of the lease that it was held under */
    assert_int_equal(arg(1, 1), 77);
    answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_REVOKE},
              (const char *const[]){not_done(), "!5"}, 2);
    assert_asks("SEE", "REVOKE");
    char first[700];
    (void)snprintf(first, sizeof first,
                   "{\"header\":{\"revision\":\"6\"},\"responses\":[{\"response_range\":{}},"
                   "{\"response_range\":{\"kvs\":[%s]}}]}",
                   resting_key());
    answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_REVOKE},
              (const char *const[]){first, "!5"}, 2);
    assert_int_equal(s.result.code, TL_OK);
}

/* Another handle has let it rest. */
TEST(a_renewal_that_finds_its_key_resting_loses_the_lock) {
    renew();
    answers(GRANTED, transaction(false, 6, resting_key(), NULL));
    assert_int_equal(f.status, TL_END);
    assert_int_equal(r.result.code, TL_ELOST);
    assert_int_equal(r.result.lost.why, TL_LOST_TAKEN);
}

/* The key of another client, which rests. */
static const char *resting_other(int64_t created) {
    tl_etcd_id other = tl__etcd_id_draw(99);
    return key(other.suffix, created, tl__etcd_rest_lease(&other));
}

TEST(a_try_says_that_the_lock_rests) {
    char busy[700];
    (void)snprintf(busy, sizeof busy,
                   "{\"header\":{\"revision\":\"5\"},\"responses\":[{\"response_range\":{}},"
                   "{\"response_range\":{\"kvs\":[%s]}}]}",
                   resting_other(4));
    begin(0);
    answers(GRANTED, busy);
    assert_int_equal(m.result.code, TL_EBUSY);
    assert_true(m.result.acquire.rests);
    assert_string_equal(f.out.message, TL_RESTS);
    begin_by(60000, (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 700});
    answers(GRANTED, busy);
    assert_int_equal(f.status, TL_GO);
    begin_by(60000, (tl_retry){.kind = TL_RETRY_FIXED, .delay_ms = 700});
    m.job.acquire.rest_ends_wait = true;
    answers(GRANTED, busy);
    assert_int_equal(m.result.code, TL_EBUSY);
}

TEST(a_waiter_waits_for_the_end_of_a_rest) {
    begin(60000);
    assert_asks("GRANT", "JOIN");
    answers(GRANTED, transaction(true, 7, resting_other(4), NULL));
    assert_int_equal(f.status, TL_GO);
    assert_true(f.out.arm);
    later_ms(60000);
    event(TL_TIMER);
    detached(TL_ETIMEDOUT);
    assert_string_equal(m.retry.message, TL_RESTS);
}

/* What K's first key is, and then what the word answers, with a waiter before ours. */
static void answers_of_waiter(const char *first, const char *answer_text, bool grants) {
    char see[1000], text[1000];
    (void)snprintf(text, sizeof text, "%s", answer_text);
    (void)snprintf(see, sizeof see, "%s", transaction(false, 8, first, NULL));
    if (grants)
        answer_of((const tl_etcd_kind[]){TL_ETCD_GRANT, TL_ETCD_TXN, TL_ETCD_TXN},
                  (const char *const[]){GRANTED, see, text}, 3);
    else
        answer_of((const tl_etcd_kind[]){TL_ETCD_TXN, TL_ETCD_RANGE},
                  (const char *const[]){see, text}, 2);
}

static void wait_unless_it_rests(void) {
    job = a_job();
    job.acquire.rest_ends_wait = true;
    tl__etcd_acquire_init(&m, &job, &(tl_retry){.kind = TL_RETRY_AUTO}, 60000, CONNECT_MS, 42);
    f.machine = &m;
    f.step = tl__etcd_acquire_step;
    event(TL_START);
    event(TL_REPLY);
    assert_int_equal(f.out.send.count, 3);
    assert_string_equal(word(1), "SEE");
    assert_string_equal(word(2), "JOIN");
}

TEST(a_wait_that_a_rest_ends_looks_at_the_first_key_and_not_only_at_the_one_before) {
    wait_unless_it_rests();
    answers_of_waiter(resting_other(4), transaction(true, 7, key("abc", 6, 1), NULL), true);
    detached(TL_EBUSY);
    assert_true(m.result.acquire.rests);
    assert_asks("UNDO", "REVOKE"); /* it leaves the line */
    wait_unless_it_rests();
    answers_of_waiter(key("ab", 4, 1), transaction(true, 7, key("abc", 6, 1), NULL), true);
    assert_int_equal(f.status, TL_GO);
    event(TL_WOKEN);
    event(TL_REPLY);
    assert_asks("SEE", "LOOK");
    answers_of_waiter(key("ab", 4, 1), range(9, mine(7), key("abc", 6, 1)), false);
    event(TL_ARMED);
    later_ms(TTL_MS / 3);
    event(TL_TIMER);
    event(TL_REPLY);
    assert_string_equal(word(2), "KEEP");
    answers_of_waiter(resting_other(4), transaction(true, 9, mine(7), key("abc", 6, 1)), true);
    detached(TL_EBUSY);
}

/* The rest has ended meanwhile. */
TEST(a_wait_that_a_rest_ends_holds_the_lock_when_no_key_is_before_its_own) {
    wait_unless_it_rests();
    answers_of_waiter(resting_other(4), transaction(true, 7, NULL, NULL), true);
    assert_held(7, 0);
}

#else

TEST(without_jansson_nothing_can_be_read) {
    assert_false(tl__gateway_works());
}

#endif
