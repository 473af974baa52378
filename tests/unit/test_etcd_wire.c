/*
 * What is said to etcd and read of it: requests byte for byte, answers as etcd 3.4 gives them and in every way that
 * they can be cut, and what is malformed.
 */
#include "tests.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transport/gateway.h"
#include "transport/http.h"
#include "wire/etcd.h"

#define HEAD "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
#define HEADER "\"header\":{\"revision\":\"7\"}"

static tl_command say(size_t argc, const char *const *argv) {
    tl_command c = {.form = TL_ARGV, .argc = (uint8_t)argc};
    for (size_t i = 0; i < argc; i++)
        c.argv[i] = tl__bytes_of(argv[i]);
    return c;
}
#define SAY(...)                                                                                   \
    say(sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *),                               \
        (const char *const[]){__VA_ARGS__})

/* The body of a request; its Content-Length is right. */
static const char *body(tl_command c, const char *prefix) {
    static char room[4096];
    const tl_etcd_via via = {
        .host = TL_LITERAL("h:1"), .prefix = tl__bytes_of(prefix), .timeout_ms = 20};
    size_t n = tl__etcd_encode(&c, &via, NULL, 0);
    assert_true(n > 0 && n < sizeof room);
    assert_int_equal(tl__etcd_encode(&c, &via, room, sizeof room), n);
    room[n] = '\0';
    char *found = strstr(room, "\r\n\r\n"), *length = strstr(room, "Content-Length: ");
    assert_non_null(found);
    assert_non_null(length);
    assert_int_equal(strtol(length + strlen("Content-Length: "), NULL, 10), strlen(found + 4));
    return found + 4;
}

TEST(a_request_is_a_post_with_its_limit_and_its_token) {
    char room[512];
    const tl_etcd_via via = {
        .host = TL_LITERAL("h:1"), .token = TL_LITERAL("abc.7"), .timeout_ms = 2000};
    const tl_command c = SAY("GRANT", "123", "30");
    size_t n = tl__etcd_encode(&c, &via, room, sizeof room);
    room[n] = '\0';
    assert_string_equal(room, "POST /v3/lease/grant HTTP/1.1\r\n"
                              "Host: h:1\r\n"
                              "Content-Type: application/json\r\n"
                              "Authorization: abc.7\r\n"
                              "Grpc-Timeout: 2000m\r\n"
                              "Content-Length: 23\r\n"
                              "\r\n"
                              "{\"ID\":\"123\",\"TTL\":\"30\"}");
    assert_int_equal(tl__etcd_encode(&c, &via, room, 10), n); /* and writes nothing beyond */
}

TEST(a_try_creates_only_where_the_whole_range_is_empty) {
    assert_string_equal(
        body(SAY("TRY", "a", "1f", "77", "me"), ""),
        "{\"compare\":[{\"key\":\"YS8=\",\"range_end\":\"YTA=\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"0\"}],"
        "\"success\":[{\"request_put\":{\"key\":\"YS8xZg==\",\"value\":\"bWU=\",\"lease\":\"77\"}}],"
        "\"failure\":[{\"request_range\":{\"key\":\"YS8xZg==\"}},"
        "{\"request_range\":{\"key\":\"YS8=\",\"range_end\":\"YTA=\",\"sort_target\":\"CREATE\","
        "\"sort_order\":\"ASCEND\",\"limit\":\"1\"}}]}");
}

TEST(a_keep_compares_the_revision_and_that_the_lease_is_higher) {
    const char *text = body(SAY("KEEP", "a", "1f", "5", "78"), "");
    assert_non_null(strstr(
        text,
        "{\"key\":\"YS8xZg==\",\"target\":\"CREATE\",\"result\":\"EQUAL\",\"create_revision\":\"5\"}"));
    assert_non_null(strstr(
        text, "{\"key\":\"YS8xZg==\",\"target\":\"LEASE\",\"result\":\"LESS\",\"lease\":\"78\"}"));
    assert_non_null(strstr(text, "\"ignore_value\":true,\"lease\":\"78\""));
    assert_non_null(strstr(text, "\"max_create_revision\":\"5\""));
    assert_non_null(
        strstr(/* if it fails: ours, and who is the first */
               text,
               "\"failure\":[{\"request_range\":{\"key\":\"YS8xZg==\"}},"
               "{\"request_range\":{\"key\":\"YS8=\",\"range_end\":\"YTA=\",\"sort_target\":\"CREATE\","
               "\"sort_order\":\"ASCEND\",\"limit\":\"1\"}}]}"));
}

TEST(a_release_compares_the_revision_and_that_the_key_does_not_rest) {
    assert_string_equal(
        body(SAY("FREE", "a", "1f", "5", "78"), ""),
        "{\"compare\":[{\"key\":\"YS8xZg==\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"5\"},{\"key\":\"YS8xZg==\",\"target\":\"LEASE\","
        "\"result\":\"NOT_EQUAL\",\"lease\":\"78\"}],"
        "\"success\":[{\"request_delete_range\":{\"key\":\"YS8xZg==\"}}]}");
}

TEST(a_rest_compares_the_revision_and_changes_the_value_and_the_lease) {
    assert_string_equal(
        body(SAY("REST", "a", "1f", "5", "78", "me"), ""),
        "{\"compare\":[{\"key\":\"YS8xZg==\",\"target\":\"CREATE\",\"result\":\"EQUAL\","
        "\"create_revision\":\"5\"}],\"success\":[{\"request_put\":{\"key\":\"YS8xZg==\","
        "\"value\":\"bWU=\",\"lease\":\"78\"}}],"
        "\"failure\":[{\"request_range\":{\"key\":\"YS8xZg==\"}},"
        "{\"request_range\":{\"key\":\"YS8=\",\"range_end\":\"YTA=\",\"sort_target\":\"CREATE\","
        "\"sort_order\":\"ASCEND\",\"limit\":\"1\"}}]}");
}

/* Of both the revisions are compared: of one the last, of the other the first, and the lease. */
TEST(keeps_put_all_keys_under_one_lease_or_tell_each) {
    tl_command c = {.form = TL_ARGV,
                    .argc = 2,
                    .argv = {TL_LITERAL("KEEPS"), TL_LITERAL("9")},
                    .more_argc = 8,
                    .more = TL_LITERAL("$1\r\na\r\n$1\r\n1\r\n$1\r\n5\r\n$1\r\n7\r\n"
                                       "$1\r\nb\r\n$1\r\n2\r\n$1\r\n6\r\n$1\r\n0\r\n")};
    const tl_etcd_via via = {.host = TL_LITERAL("h:1")};
    char text[2000];
    size_t n = tl__etcd_encode(&c, &via, text, sizeof text);
    assert_true(n < sizeof text);
    text[n] = '\0';
    assert_string_equal(
        strstr(text, "\r\n\r\n") + 4,
        "{\"compare\":[{\"key\":\"YS8x\",\"target\":\"MOD\",\"result\":\"EQUAL\",\"mod_revision\":\"7\"},"
        "{\"key\":\"Yi8y\",\"target\":\"CREATE\",\"result\":\"EQUAL\",\"create_revision\":\"6\"},"
        "{\"key\":\"Yi8y\",\"target\":\"LEASE\",\"result\":\"LESS\",\"lease\":\"9\"}],\"success\":["
        "{\"request_put\":{\"key\":\"YS8x\",\"ignore_value\":true,\"lease\":\"9\"}},"
        "{\"request_put\":{\"key\":\"Yi8y\",\"ignore_value\":true,\"lease\":\"9\"}}],\"failure\":["
        "{\"request_range\":{\"key\":\"YS8x\"}},{\"request_range\":{\"key\":\"Yi8y\"}}]}");
}

TEST(keys_stand_below_the_prefix) {
    const char *see = body(SAY("SEE", "a", "1", "100"), "t/");
    assert_non_null(
        strstr(see, "\"key\":\"dC9hLw==\",\"range_end\":\"dC9hMA==\","
                    "\"sort_target\":\"CREATE\",\"sort_order\":\"ASCEND\",\"limit\":\"1\"}"));
    assert_non_null(strstr(see, "\"limit\":\"100\",\"keys_only\":true}"));
    assert_non_null(
        strstr(body(SAY("SCAN", "1", "5"), "t/"), "\"key\":\"dC8=\",\"range_end\":\"dDA=\""));
    assert_non_null(
        strstr(body(SAY("SCAN", "1", "5"), ""), "\"key\":\"AA==\",\"range_end\":\"AA==\""));
}

TEST(a_password_is_escaped) {
    assert_string_equal(body(SAY("AUTH", "a\"b", "c\\d\n"), ""),
                        "{\"name\":\"a\\\"b\",\"password\":\"c\\\\d\\u000a\"}");
}

TEST(several_watches_are_one_body) {
    char room[2048];
    const tl_etcd_via via = {.host = TL_LITERAL("h:1")};
    const tl_etcd_watched watched[] = {{TL_LITERAL("a/1"), 5}, {TL_LITERAL("b/2"), 6}};
    size_t n = tl__etcd_encode_watch(watched, 2, &via, room, sizeof room);
    room[n] = '\0';
    const char *found = strstr(room, "\r\n\r\n");
    assert_non_null(found);
    assert_non_null(strstr(room, "\r\nGrpc-Metadata-hasleader: true\r\nConnection: close\r\n\r\n"));
    assert_null(strstr(room, "Grpc-Timeout")); /* it has no end */
    assert_string_equal(
        found + 4,
        "{\"create_request\":{\"key\":\"YS8x\",\"start_revision\":\"5\",\"filters\":[\"NOPUT\"],\"watch_id\":\"1\"}}\n"
        "{\"create_request\":{\"key\":\"Yi8y\",\"start_revision\":\"6\",\"filters\":[\"NOPUT\"],\"watch_id\":\"2\"}}\n");
}

TEST(what_says_for_certain_that_nothing_was_executed) {
    for (int code = -1; code <= 17; code++) {
        bool definite = code == 3 || code == 5 || code == 7 || code == 8 || code == 9 ||
                        code == 11 || code == 16;
        assert_int_equal(tl__etcd_is_definite(code), definite);
    }
    tl_bytes words;
    assert_int_equal(tl__etcd_error(TL_LITERAL("ETCD 14 no leader"), &words), 14);
    assert_true(tl__bytes_eq(words, TL_LITERAL("no leader")));
    assert_int_equal(tl__etcd_error(TL_LITERAL("ETCD x"), &words), -1);
    assert_int_equal(tl__etcd_error(TL_LITERAL("ERR"), &words), -1);
}

/* Definite or not: a learner refuses by 14 in 3.4, and by 9 later. */
TEST(a_learner_and_one_without_a_leader_lead_to_another_member) {
    static const char *const elsewhere[] = {"ETCD 14 etcdserver: rpc not supported for learner",
                                            "ETCD 9 etcdserver: rpc not supported for learner",
                                            "ETCD 14 no leader", "ETCD 16 invalid auth token",
                                            "ETCD -1 HTTP status 502"};
    for (size_t i = 0; i < sizeof elsewhere / sizeof *elsewhere; i++)
        assert_true(tl__etcd_asks_elsewhere(tl__bytes_of(elsewhere[i])));
    assert_false(tl__etcd_asks_elsewhere(TL_LITERAL("ETCD 9 lease already exists")));
    assert_false(tl__etcd_asks_elsewhere(TL_LITERAL("ETCD 7 permission denied")));
}

/* ---- answers ----------------------------------------------------------------------------------- */

static tl_http http;

static int feed_http(const char *bytes, size_t n, tl_bytes *ret) {
    tl__http_feed(&http, bytes, n);
    return tl__http_next(&http, ret);
}

TEST(answers_are_the_same_however_they_are_cut) {
    static const char two[] = HEAD
        "Content-Length: 5\r\n\r\nhello"
        "HTTP/1.1 412 Precondition Failed\r\nTransfer-Encoding: chunked\r\n"
        "Trailer: X\r\n\r\n3\r\nabc\r\n2;x=1\r\nde\r\n0\r\nX: y\r\n\r\n";
    for (size_t step = 1; step < sizeof two; step++) {
        char got[64] = "";
        int statuses = 0;
        tl__http_reset(&http);
        for (size_t at = 0; at < sizeof two - 1; at += step) {
            size_t n = sizeof two - 1 - at < step ? sizeof two - 1 - at : step;
            tl_bytes b;
            for (int r = feed_http(two + at, n, &b); r != 0; r = tl__http_next(&http, &b)) {
                assert_int_equal(r, 1);
                (void)snprintf(got + strlen(got), sizeof got - strlen(got), "%.*s|", (int)b.n, b.p);
                statuses = statuses * 1000 + http.status;
            }
        }
        assert_string_equal(got, "hello|abcde|");
        assert_int_equal(statuses, 200412);
    }
    tl__http_free(&http);
}

TEST(what_is_no_http_is_refused) {
    static const char *const bad[] = {"+OK\r\n\r\n",
                                      "HTTP/1.1 2x0 OK\r\n\r\n",
                                      "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
                                      HEAD "Content-Length: -1\r\n\r\n",
                                      HEAD "Content-Length: 99999999999\r\n\r\n",
                                      HEAD "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
                                      HEAD
                                      "Content-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
                                      HEAD "Transfer-Encoding: gzip\r\n\r\n",
                                      HEAD "\r\n",
                                      HEAD "Transfer-Encoding: chunked\r\n\r\nxyz\r\n",
                                      HEAD "Transfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
                                      HEAD "Transfer-Encoding: chunked\r\n\r\nfffffffff\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tl_bytes b;
        tl__http_reset(&http);
        assert_int_equal(feed_http(bad[i], strlen(bad[i]), &b), -1);
        assert_non_null(http.problem);
    }
    tl__http_reset(&http);
    char line[1024];
    memset(line, 'x', sizeof line);
    int r = 0;
    for (int i = 0; i < 64 && r == 0; i++) {
        tl_bytes b;
        r = feed_http(line, sizeof line, &b);
    }
    assert_int_equal(r, -1); /* headers without an end */
    tl__http_free(&http);
}

TEST(a_stream_is_given_line_by_line) {
    static const char begin[] = HEAD "Transfer-Encoding: chunked\r\n\r\n";
    tl_bytes line;
    tl__http_reset(&http);
    tl__http_feed(&http, begin, sizeof begin - 1);
    assert_int_equal(tl__http_line(&http, &line), 0);
    for (int i = 0; i < 100; i++) {
        tl__http_feed(&http, "4\r\nab\nc\r\n", 9);
        assert_int_equal(tl__http_line(&http, &line), 1);
        assert_true(line.n == (i == 0 ? 2 : 3));
        assert_int_equal(tl__http_line(&http, &line), 0);
    }
    tl__http_feed(&http, "0\r\n\r\n", 5);
    assert_int_equal(tl__http_line(&http, &line), 1);
    assert_int_equal(line.n, 1);
    assert_int_equal(tl__http_line(&http, &line), 2);
    assert_int_equal(http.state, TL_HTTP_WHOLE);
    tl__http_free(&http);
}

static int feed_chunk(tl_http *http, const char *bytes, tl_bytes *ret_line) {
    char chunk[64];
    int n = snprintf(chunk, sizeof chunk, "%zx\r\n%s\r\n", strlen(bytes), bytes);
    tl__http_feed(http, chunk, (size_t)n);
    return tl__http_line(http, ret_line);
}

/* A line end that is put where it has looked already isn't seen. Otherwise the time that a long line takes, in many
 * chunks, would rise with the square of its length. */
TEST(each_byte_of_a_stream_is_looked_at_once) {
    static const char head[] = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n";
    tl_http http = {0};
    tl_bytes line;
    tl__http_feed(&http, head, sizeof head - 1);
    assert_int_equal(feed_chunk(&http, "first\nabc", &line), 1);
    assert_int_equal(tl__http_line(&http, &line), 0);
    char *seen = http.body.bytes + http.body.n - 2;
    *seen = '\n';
    assert_int_equal(feed_chunk(&http, "d", &line), 0);
    assert_int_equal(tl__http_line(&http, &line), 0);
    http.body.bytes[http.body.n - 3] = 'b';
    assert_int_equal(feed_chunk(&http, "e\nf\n\ng", &line), 1);
    assert_true(tl__bytes_eq(line, TL_LITERAL("abcde")));
    assert_int_equal(tl__http_line(&http, &line), 1);
    assert_true(tl__bytes_eq(line, TL_LITERAL("f")));
    assert_int_equal(tl__http_line(&http, &line), 1);
    assert_int_equal(line.n, 0);
    assert_int_equal(tl__http_line(&http, &line), 0);
    assert_int_equal(feed_chunk(&http, "\n", &line), 1);
    assert_true(tl__bytes_eq(line, TL_LITERAL("g")));
    tl__http_free(&http);
}

#if TL_HAVE_JSON

static tl_gateway *gateway;

static int set_up(void **state) {
    (void)state;
    gateway = tl__gateway_new(TL_LITERAL("t/"));
    return gateway == NULL;
}

static int tear_down(void **state) {
    (void)state;
    tl__gateway_free(gateway);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static tl_reply read_as(tl_etcd_kind kind, int status, const char *text) {
    tl_reply r;
    assert_int_equal(tl__gateway_read(gateway, kind, status, tl__bytes_of(text), &r), 1);
    return r;
}

static int64_t int_at(const tl_reply *r, size_t i) {
    assert_int_equal(tl__reply_item(r, i)->type, TL_REPLY_INT);
    return tl__reply_item(r, i)->integer;
}

TEST(a_field_that_is_absent_is_zero) {
    tl_reply r = read_as(TL_ETCD_TXN, 200, "{" HEADER "}");
    assert_int_equal(int_at(&r, TL_ETCD_SUCCEEDED), 0);
    assert_int_equal(int_at(&r, TL_ETCD_REVISION), 7);
    assert_int_equal(r.count, TL_ETCD_RESPONSES);
    r = read_as(TL_ETCD_RANGE, 200, "{" HEADER "}");
    assert_int_equal(int_at(tl__reply_item(&r, TL_ETCD_RESPONSES), 0), 0);
    r = read_as(TL_ETCD_GRANT, 200, "{" HEADER "}");
    assert_int_equal(r.integer, 0);
    r = read_as(TL_ETCD_TTL, 200, "{" HEADER ",\"TTL\":\"-1\"}");
    assert_int_equal(int_at(&r, 0), -1);
}

TEST(keys_and_values_are_base64_below_the_prefix) {
    tl_reply r = read_as(
        TL_ETCD_TXN, 200,
        "{" HEADER ",\"succeeded\":true,\"responses\":[{\"response_put\":{}},"
        "{\"response_range\":{\"count\":\"2\",\"kvs\":[{\"key\":\"dC9hLzE=\","
        "\"create_revision\":\"3\",\"mod_revision\":\"4\",\"value\":\"AP8=\",\"lease\":\"9\"}]}}]}");
    const tl_reply *range = tl__reply_item(&r, TL_ETCD_RESPONSES + 1);
    const tl_reply *key = tl__reply_item(range, 1);
    assert_int_equal(int_at(&r, TL_ETCD_SUCCEEDED), 1);
    assert_int_equal(tl__reply_item(&r, TL_ETCD_RESPONSES)->type, TL_REPLY_NIL);
    assert_int_equal(int_at(range, 0), 2);
    assert_true(tl__bytes_eq(tl__reply_item(key, TL_ETCD_KEY)->text, TL_LITERAL("a/1")));
    assert_true(tl__bytes_eq(tl__reply_item(key, TL_ETCD_VALUE)->text, tl__bytes("\0\377", 2)));
    assert_int_equal(int_at(key, TL_ETCD_CREATED), 3);
    assert_int_equal(int_at(key, TL_ETCD_LEASE), 9);
}

TEST(a_login_that_users_have_changed_since_is_over_whatever_the_code) {
    static const char *const said[] = {
        "{\"message\":\"etcdserver: revision of auth store is old\",\"code\":3}",
        "{\"message\":\"auth: revision in header is old\",\"code\":2}",
        "{\"code\":16,\"message\":\"etcdserver: revision of auth store is old\",\"details\":[]}"};
    tl_gateway *g = tl__gateway_new((tl_bytes){0});
    tl_reply r;
    for (size_t i = 0; i < sizeof said / sizeof *said; i++) {
        assert_int_equal(tl__gateway_read(g, TL_ETCD_TXN, 400, tl__bytes_of(said[i]), &r), 1);
        assert_true(r.type == TL_REPLY_ERROR && tl__etcd_wants_login(r.text));
    }
    assert_false(tl__etcd_wants_login(TL_LITERAL("ETCD 16 etcdserver: invalid auth token")));
    assert_false(tl__etcd_wants_login(TL_LITERAL("ETCD 7 etcdserver: permission denied")));
    tl__gateway_free(g);
}

TEST(an_error_has_its_code_whatever_the_form) {
    tl_reply r = read_as(TL_ETCD_TXN, 404,
                         "{\"error\":\"no lease\",\"message\":\"no lease\",\"code\":5}");
    assert_int_equal(r.type, TL_REPLY_ERROR);
    assert_true(tl__bytes_eq(r.text, TL_LITERAL("ETCD 5 no lease")));
    r = read_as(TL_ETCD_TXN, 503, "{\"code\":14,\"message\":\"no leader\",\"details\":[]}");
    assert_true(tl__bytes_eq(r.text, TL_LITERAL("ETCD 14 no leader")));
    r = read_as(TL_ETCD_WATCH, 200,
                "{\"error\":{\"grpc_code\":14,\"http_code\":503,\"message\":\"gone\"}}");
    assert_true(tl__bytes_eq(r.text, TL_LITERAL("ETCD 14 gone")));
    r = read_as(TL_ETCD_TXN, 502, "<html>");
    assert_true(tl__bytes_eq(r.text, TL_LITERAL("ETCD -1 HTTP status 502")));
}

/* Nor an etcd that is too old, or has its gateway turned off. */
TEST(an_answer_of_another_http_server_is_none_of_etcds) {
    static const struct {
        int status;
        const char *body;
        bool etcds;
    } rows[] = {
        {404, "<html>404 page not found</html>", false},
        {404, "", false},
        {404, "{\"error\":\"Not Found\",\"message\":\"Not Found\",\"code\":5}", false},
        {301, "", false},
        {405, "[]", false},
        {404, "{\"message\":\"etcdserver: requested lease not found\",\"code\":5}", true},
        {503, "<html>busy</html>", true}}; /* of a proxy: whether it was executed isn't known */
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tl_reply reply;
        tl_gateway *g = tl__gateway_new((tl_bytes){0});
        int got = tl__gateway_read(g, TL_ETCD_TXN, rows[i].status, tl__bytes_of(rows[i].body),
                                   &reply);
        assert_int_equal(got, rows[i].etcds ? 1 : -1);
        if (!rows[i].etcds)
            assert_non_null(strstr(tl__gateway_problem(g), "HTTP status"));
        tl__gateway_free(g);
    }
}

/* In plain text, and without a code. */
TEST(a_certificate_with_a_common_name_is_denied_and_told_so) {
    static const char body[] = "CommonName of client sending a request against gateway will be "
                               "ignored and not used as expected";
    tl_reply r = read_as(TL_ETCD_TXN, 400, body);
    assert_int_equal(r.type, TL_REPLY_ERROR);
    assert_non_null(memmem(r.text.p, r.text.n, "ETCD 7 ", 7));
    assert_non_null(memmem(r.text.p, r.text.n, "common name", 11));
    tl_gateway *g = tl__gateway_new((tl_bytes){0});
    assert_int_equal(tl__gateway_read(g, TL_ETCD_TXN, 404, tl__bytes_of(body), &r), -1);
    tl__gateway_free(g);
}

TEST(what_is_malformed_is_refused_whole) {
    static const char *const bad[] = {
        "",
        "[]",
        "{\"succeeded\":true}",
        "{\"header\":{\"revision\":\"x\"}}",
        "{\"header\":{\"revision\":\"99999999999999999999999\"}}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[7]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"dC9\"}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"dC9*\"}]}}]}",
        "{" HEADER
        ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"YQ==\"}]}}]}", /* not below t/ */
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"eC9hLzE=\"}]}}]}",
        "{" HEADER ",\"responses\":[{\"response_range\":{\"kvs\":[{\"key\":\"dA==\"}]}}]}",
        "{" HEADER "} {"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        tl_reply r;
        tl__gateway_reset(gateway);
        assert_int_equal(tl__gateway_read(gateway, TL_ETCD_TXN, 200, tl__bytes_of(bad[i]), &r), -1);
    }
}

/* Its tree would take many times as much memory. */
TEST(what_has_too_many_values_is_refused_unread) {
    size_t n = 9 << 20;
    char *many = malloc(n);
    tl_reply reply;
    assert_non_null(many);
    for (size_t i = 0; i < n; i++)
        many[i] = "{},"[i % 3];
    many[0] = '[';
    tl_gateway *by = tl__gateway_new((tl_bytes){0});
    assert_int_equal(tl__gateway_read(by, TL_ETCD_RANGE, 200, tl__bytes(many, n), &reply), -1);
    assert_non_null(strstr(tl__gateway_problem(by), "takes more than 64 MiB"));
    tl__gateway_free(by);
    free(many);
}

TEST(a_deletion_is_told_and_a_compaction) {
    tl_reply r = read_as(TL_ETCD_WATCH, 200,
                         "{\"result\":{" HEADER
                         ",\"watch_id\":\"2\",\"events\":[{\"type\":\"DELETE\",\"kv\":{}}]}}");
    assert_int_equal(int_at(&r, TL_WATCH_ID), 2);
    assert_int_equal(int_at(&r, TL_WATCH_DELETED), 1);
    assert_int_equal(int_at(&r, TL_WATCH_CANCELED), 0);
    r = read_as(TL_ETCD_WATCH, 200,
                "{\"result\":{" HEADER
                ",\"watch_id\":\"1\",\"canceled\":true,\"compact_revision\":\"5\"}}");
    assert_int_equal(int_at(&r, TL_WATCH_CANCELED), 1);
    r = read_as(TL_ETCD_WATCH, 200,
                "{\"result\":{" HEADER ",\"watch_id\":\"1\",\"events\":[{\"kv\":{}}]}}");
    assert_int_equal(int_at(&r, TL_WATCH_DELETED), 0); /* a PUT, which is zero and so absent */
}

#else

TEST(without_jansson_nothing_can_be_read) {
    assert_false(tl__gateway_works());
}

#endif
