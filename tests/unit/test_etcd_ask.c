/*
 * Questions about locks on etcd, against answers that the test gives: which of the keys below a name are its contenders, and what
 * is said and done about those that aren't.
 */
#include "tests.h"

#include <stdio.h>
#include <string.h>

#include "protocol/etcd_ask.h"
#include "transport/gateway.h"

#if TL_HAVE_JSON

#define OWNER "host 7 me"
#define OURS "1abcdefabcdefabc"
#define OUR_LEASE (INT64_C(1) << 60)

static struct {
    tl_etcd_ask ask;
    tl_out out;
    tl_status status;
    tl_gateway *gateway;
    tl_server server;
    bool leaseless;  /* as etcd 3.7.0: where values aren't asked for, leases aren't told */
    int64_t counted; /* the number of keys that etcd says; 0: as many as there are */
    char told[200];  /* waiters, or locks that a scan found: each with a ';' */
} f;

static int set_up(void **state) {
    (void)state;
    memset(&f, 0, sizeof f);
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
    e.now.ns = INT64_C(1000000000);
    e.server = &f.server;
    e.asked.ticket = f.out.send.ticket;
    tl__out_clear(&f.out);
    f.status = tl__etcd_ask_step(&f.ask, &e, &f.out);
}

/* ---- JSON ---------------------------------------------------------------------------------------- */

static const char *coded(const char *text) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    static char room[4][200];
    static unsigned at;
    char *to = room[at++ % 4];
    size_t n = strlen(text), used = 0;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = 0;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (i + k < n ? (unsigned char)text[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            to[used++] = k > n - i ? '=' : digits[v >> (18 - 6 * k) & 63];
    }
    to[used] = '\0';
    return to;
}

typedef struct {
    const char *name, *value;
    int64_t created, lease;
} found;

static void say_keys(char *to, size_t size, const found *keys, bool values) {
    size_t n = strlen(to);
    long long count = 0;
    for (const found *k = keys; k->name; k++)
        count++;
    if (f.counted != 0)
        count = f.counted;
    n += (size_t)snprintf(to + n, size - n, "{\"response_range\":{\"count\":\"%lld\",\"kvs\":[",
                          count);
    for (const found *k = keys; k->name; k++)
        n += (size_t)snprintf(to + n, size - n,
                              "%s{\"key\":\"%s\",\"value\":\"%s\",\"create_revision\":\"%lld\","
                              "\"mod_revision\":\"1\",\"lease\":\"%lld\"}",
                              k == keys ? "" : ",", coded(k->name), coded(values ? k->value : ""),
                              (long long)k->created,
                              (long long)(values || !f.leaseless ? k->lease : 0));
    (void)snprintf(to + n, size - n, "]}}");
}

/* Answers to SEE and, if `left_s` is at least 0, to TTL. */
static void answer_see(const found *keys, int64_t left_s) {
    static char see[4000];
    char ttl[100];
    tl_reply replies[2];
    (void)snprintf(see, sizeof see,
                   "{\"header\":{\"revision\":\"9\"},\"succeeded\":true,"
                   "\"responses\":[");
    say_keys(see, sizeof see, keys, true);
    strcat(see, ",");
    say_keys(see, sizeof see, keys, false);
    strcat(see, "]}");
    (void)snprintf(ttl, sizeof ttl, "{\"TTL\":\"%lld\",\"grantedTTL\":\"9\"}", (long long)left_s);
    assert_int_equal(tl__gateway_read(f.gateway, TL_ETCD_TXN, 200, tl__bytes_of(see), &replies[0]),
                     1);
    assert_int_equal(tl__gateway_read(f.gateway, TL_ETCD_TTL, 200, tl__bytes_of(ttl), &replies[1]),
                     1);
    give((tl_event){.kind = TL_REPLY, .replied = {.reply = replies, .count = left_s < 0 ? 1 : 2}});
    tl__gateway_release(f.gateway);
}

/* ---- asking --------------------------------------------------------------------------------------- */

static void on_waiting(const tl_waiting *w, void *ctx) {
    size_t n = strlen(f.told);
    (void)ctx;
    (void)snprintf(f.told + n, sizeof f.told - n, "%d %s;", (int)w->place, w->service);
}

static void on_found(const void *key, size_t n, const tl_lock_info *info, void *ctx) {
    size_t at = strlen(f.told);
    (void)ctx;
    (void)snprintf(f.told + at, sizeof f.told - at, "%.*s %d %s;", (int)n, (const char *)key,
                   (int)info->waiters, info->oddity);
}

static void begin(tl_etcd_question question, const tl_lock_info *seen) {
    f.ask = (tl_etcd_ask){.question = question,
                          .key = TL_LITERAL("k"),
                          .attempt_ms = 1000,
                          .connect_ms = 1000,
                          .on_waiting = on_waiting,
                          .most = 10,
                          .found = on_found,
                          .pattern = TL_LITERAL("*"),
                          .seen = seen};
    f.told[0] = '\0';
    give((tl_event){.kind = TL_START});
    give((tl_event){.kind = TL_REPLY}); /* reached */
    assert_int_equal(f.out.sends, 1);
}

static void answer_left(void) {
    tl_reply ttl;
    assert_true(tl__bytes_eq(f.out.send.command[0].argv[0], TL_LITERAL("TTL")));
    assert_int_equal(
        tl__gateway_read(f.gateway, TL_ETCD_TTL, 200, TL_LITERAL("{\"TTL\":\"5\"}"), &ttl), 1);
    give((tl_event){.kind = TL_REPLY, .replied = {.reply = &ttl, .count = 1}});
    tl__gateway_release(f.gateway);
}

/* Asks nothing more: there is no lease whose end would be told. */
static void look(const found *keys) {
    begin(TL_ETCD_LOOKS, NULL);
    answer_see(keys, -1);
    if (f.status == TL_GO) /* for how long */
        answer_left();
    assert_int_equal(f.status, TL_END);
    assert_int_equal(f.ask.result.code, TL_OK);
}

TEST(a_contender_is_the_holder_and_others_in_line_are_told_without_keys_that_are_none) {
    look((const found[]){{"k/" OURS, OWNER, 3, OUR_LEASE},
                         {"k/db", "data", 4, 0},
                         {"k/abc", "", 5, 0xabc},
                         {"k/b/" OURS, OWNER, 6, OUR_LEASE},
                         {"k/1abcdefabcdefabd", "other 8 you", 7, OUR_LEASE},
                         {NULL, NULL, 0, 0}});
    const tl_lock_info *info = &f.ask.info;
    assert_true(info->held && info->by_tidelock && info->protocol == TL_TOKEN);
    assert_string_equal(info->service, "me");
    assert_string_equal(info->oddity, "");
    assert_int_equal(info->remaining_ms, 5000);
    assert_int_equal(info->in_line, 2);
    assert_string_equal(f.told, "1 ;2 you;");
}

TEST(a_count_that_no_etcd_gives_is_no_number_of_waiters) {
    f.counted = INT64_MIN;
    look((const found[]){
        {"k/" OURS, OWNER, 3, OUR_LEASE}, {"k/db", "data", 4, 0}, {NULL, NULL, 0, 0}});
    assert_true(f.ask.info.held);
    assert_int_equal(f.ask.info.in_line, 0);
}

#define REST_LEASE (INT64_C(0x1abcdefabcdefabc) + (INT64_C(1) << 61))

TEST(a_lock_that_rests_is_told_with_its_last_holder_and_when_it_ends) {
    look((const found[]){{"k/" OURS, "resting 1 " OWNER, 3, REST_LEASE},
                         {"k/1abcdefabcdefabd", "other 8 you", 7, OUR_LEASE},
                         {NULL, NULL, 0, 0}});
    const tl_lock_info *info = &f.ask.info;
    assert_true(info->held && info->rests && info->by_tidelock && info->protocol == TL_TOKEN);
    assert_string_equal(info->host, "host");
    assert_string_equal(info->service, "me");
    assert_int_equal(info->pid, 7);
    assert_string_equal(info->value, "resting " OURS ".3");
    assert_int_equal(info->remaining_ms, 5000);
    assert_true(info->rested_ms == -1 && info->rest_end_ms == -1);
    assert_string_equal(f.told, "1 you;");
    look((const found[]){{"k/" OURS, "resting 1 me", 3, OUR_LEASE}, {NULL, NULL, 0, 0}});
    assert_false(info->rests); /* a host of that name */
    assert_string_equal(info->host, "resting");
}

TEST(etcds_own_mutex_holds_by_its_lease) {
    look((const found[]){{"k/abc", "", 5, 0xabc}, {NULL, NULL, 0, 0}});
    assert_true(f.ask.info.held && !f.ask.info.by_tidelock && f.ask.info.guessed);
    assert_int_equal(f.ask.info.protocol, TL_TOKEN);
}

static void assert_blocked(const found *first, const char *value, const char *oddity) {
    look((const found[]){*first, {"k/" OURS, OWNER, 8, OUR_LEASE}, {NULL, NULL, 0, 0}});
    const tl_lock_info *info = &f.ask.info;
    assert_true(info->held && !info->by_tidelock && !info->guessed);
    assert_int_equal(info->protocol, -1);
    assert_string_equal(info->value, value);
    assert_string_equal(info->oddity, oddity);
    assert_int_equal(info->in_line, 1);
}

TEST(a_key_that_is_none_of_its_contenders_is_told_as_what_it_is) {
    assert_blocked(&(found){"k/db", "data", 4, 0}, "db",
                   "blocked by a key that is no contender: k/db");
    assert_blocked(&(found){"k/" OURS, "data of others", 4, OUR_LEASE}, OURS,
                   "blocked by a key that is no contender: k/" OURS);
    assert_blocked(&(found){"k/" OURS, OWNER, 4, 7}, OURS,
                   "blocked by a key that is no contender: k/" OURS);
    assert_blocked(&(found){"k/a/b/" OURS, OWNER, 4, OUR_LEASE}, "a/b",
                   "blocked by another lock below this name: k/a/b");
}

static void assert_removes(const char *suffix) {
    assert_int_equal(f.status, TL_GO);
    assert_true(tl__bytes_eq(f.out.send.command[0].argv[0], TL_LITERAL("DROP")));
    assert_true(tl__bytes_eq(f.out.send.command[0].argv[2], tl__bytes_of(suffix)));
}

TEST(a_break_removes_no_key_that_is_no_contender_unless_it_was_seen) {
    const found data[] = {{"k/db", "data", 4, 0}, {NULL, NULL, 0, 0}};
    const found lock[] = {{"k/" OURS, OWNER, 3, OUR_LEASE}, {NULL, NULL, 0, 0}};
    const tl_lock_info seen = {.size = sizeof seen, .fence = 4};
    begin(TL_ETCD_BREAKS, NULL);
    answer_see(data, -1);
    assert_int_equal(f.status, TL_END);
    assert_int_equal(f.ask.result.code, TL_EINVALID);
    assert_string_equal(f.out.message, "blocked by a key that is no contender: k/db");
    begin(TL_ETCD_BREAKS, &seen);
    answer_see(data, -1);
    assert_removes("db");
    begin(TL_ETCD_BREAKS, NULL);
    answer_see(lock, -1);
    assert_removes(OURS);
    begin(TL_ETCD_BREAKS, &seen);
    answer_see(lock, -1);
    assert_int_equal(f.ask.result.code, TL_ETAKEN);
    begin(TL_ETCD_BREAKS, &seen);
    answer_see((const found[]){{"k/" OURS, "resting 1 " OWNER, 4, REST_LEASE}, {NULL, NULL, 0, 0}},
               -1);
    assert_removes(OURS); /* the end of a rest */
}

/* A page of a scan with this one key, and what is found then. */
static void scan(const found *one, const found *keys) {
    begin(TL_ETCD_SCANS, NULL);
    char page[1000] = "{\"header\":{\"revision\":\"9\"},\"kvs\":[";
    size_t n = strlen(page);
    (void)snprintf(page + n, sizeof page - n,
                   "{\"key\":\"%s\",\"create_revision\":\"%lld\",\"mod_revision\":\"1\","
                   "\"lease\":\"%lld\"}]}",
                   coded(one->name), (long long)one->created,
                   (long long)(f.leaseless ? 0 : one->lease));
    tl_reply reply;
    assert_int_equal(tl__gateway_read(f.gateway, TL_ETCD_RANGE, 200, tl__bytes_of(page), &reply),
                     1);
    give((tl_event){.kind = TL_REPLY, .replied = {.reply = &reply, .count = 1}});
    tl__gateway_release(f.gateway);
    if (f.status == TL_GO)
        answer_see(keys, f.out.send.count > 1 ? 5 : -1);
    if (f.status == TL_GO && f.ask.listed > 0)
        answer_see(keys, -1);
    else if (f.status == TL_GO)
        answer_left();
    assert_int_equal(f.status, TL_END);
}

TEST(a_scan_tells_of_a_lock_once_and_of_what_is_in_its_way) {
    const found data = {"k/db", "data", 2, 0}, first = {"k/" OURS, OWNER, 3, OUR_LEASE},
                second = {"k/1abcdefabcdefabd", OWNER, 4, OUR_LEASE};
    const found held[] = {first, second, {NULL, NULL, 0, 0}};
    const found blocked[] = {data, first, second, {NULL, NULL, 0, 0}};
    scan(&first, held);
    assert_string_equal(f.told, "k 1 ;");
    scan(&second, held);
    assert_string_equal(f.told, "");
    scan(&first, blocked);
    assert_string_equal(f.told, "k 2 blocked by a key that is no contender: k/db;");
    scan(&second, blocked);
    assert_string_equal(f.told, "");
    scan(&data, blocked);
    assert_string_equal(f.told, "");
}

/* A key whose lease isn't told is judged by its name: "db" is a number, but too small. */
TEST(where_leases_are_not_told_without_values_contenders_are_known_by_their_names) {
    const found first = {"k/" OURS, OWNER, 3, OUR_LEASE}, data = {"k/db", "data", 2, 0},
                second = {"k/1abcdefabcdefabd", "other 8 you", 4, OUR_LEASE},
                tables = {"k/tables", "", 5, 0};
    const found held[] = {first, second, tables, {"k/db", "data", 6, 0}, {NULL, NULL, 0, 0}};
    const found blocked[] = {data, first, second, {NULL, NULL, 0, 0}};
    f.leaseless = true;
    look(held);
    assert_true(f.ask.info.held && f.ask.info.by_tidelock);
    assert_int_equal(f.ask.info.in_line, 1);
    scan(&first, held);
    assert_string_equal(f.told, "k 1 ;");
    assert_int_equal(f.ask.info.remaining_ms, 5000);
    scan(&second, held);
    assert_string_equal(f.told, "");
    scan(&tables, held);
    assert_string_equal(f.told, "");
    scan(&first, blocked);
    assert_string_equal(f.told, "k 2 blocked by a key that is no contender: k/db;");
    scan(&data, blocked);
    assert_string_equal(f.told, "");
}

/* Data of others whose names end as a lease's number does are no contenders: their leases and values say so. */
TEST(where_leases_are_not_told_a_scan_reads_up_to_what_it_saw) {
    const found one = {"k/1abcdefabcdef", "data", 2, 0}, two = {"k/1abcdefabcdeff", "data", 3, 0},
                lock = {"k/" OURS, OWNER, 4, OUR_LEASE}, next = {"k/1abcdefabcdefabd", OWNER, 5, 9};
    const found data[] = {one, two, {NULL, NULL, 0, 0}};
    const found locked[] = {one, two, lock, next, {NULL, NULL, 0, 0}};
    f.leaseless = true;
    for (int i = 0; i < 2; i++) {
        scan(&data[i], data);
        assert_string_equal(f.told, "");
        scan(&data[i], locked);
        assert_string_equal(f.told, "");
    }
    scan(&lock, locked);
    assert_string_equal(f.told, "k 3 blocked by a key that is no contender: k/1abcdefabcdef;");
    scan(&next, locked);
    assert_string_equal(f.told, "");
}

#else

TEST(without_jansson_nothing_can_be_asked) {
    assert_false(tl__gateway_works());
}

#endif
