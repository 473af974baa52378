/*
 * The fake etcd beside a real one: the same conversation with both, word for word, and what they answer. What differs between
 * any two etcds is left out: who answers, and the term.
 */
#include "tests.h"

#include <arpa/inet.h>
#include <jansson.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fake_etcd.h"
#include "real_etcd.h"
#include "transport/http.h"

#define ANSWER_MS 60000
#define LEASE_S 6 /* so that it is there when its key is put */
#define RANDOM_RUNS 400
#define MESSAGES_MAX 64

static real_etcd *real;
static fake_etcd *fake;
static int64_t fake_now_ns;

/* A connection to either. */
typedef struct {
    int fd;               /* to the real one; -1: */
    fake_etcd_conn *conn; /* to the fake */
    tl_http http;
} line;

static int64_t clock_of(void *ctx, int member) {
    (void)ctx, (void)member;
    return fake_now_ns;
}

static uint32_t choose(void *ctx, uint32_t ways) {
    (void)ctx, (void)ways;
    return 0;
}

static void said(void *ctx, void *conn, const char *bytes, size_t n) {
    line *l = conn;
    (void)ctx;
    tl__http_feed(&l->http, bytes, n);
}

static void waits(void *ctx, void *conn, uint32_t number, int64_t ms) {
    (void)ctx, (void)conn, (void)number, (void)ms;
    fail_msg("the fake can't answer at once");
}

/* Both begin at the same revision. */
static int set_up(void **state) {
    static const fake_etcd_calls calls = {
        .clock = clock_of, .choose = choose, .send = said, .waits = waits};
    (void)state;
    real_etcd_free(real);
    real = real_etcd_start(1);
    if (!fake)
        fake = fake_etcd_new(&calls);
    fake_etcd_reset(fake, 1);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    real_etcd_free(real);
    real = NULL;
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* ---- speaking ---------------------------------------------------------------------------------- */

static void open_real(line *l) {
    const char *port = strrchr(real_etcd_url(real), ':');
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                             .sin_port = htons((uint16_t)atoi(port + 1))};
    *l = (line){.fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    assert_true(l->fd >= 0 && connect(l->fd, (struct sockaddr *)&to, sizeof to) == 0);
}

static void open_fake(line *l) {
    *l = (line){.fd = -1};
    l->conn = fake_etcd_connect(fake, 0, l);
}

static void close_line(line *l) {
    if (l->fd >= 0)
        close(l->fd);
    fake_etcd_close(l->conn);
    tl__http_free(&l->http);
}

static void say(line *l, const char *path, const char *body, const char *token) {
    char text[8192];
    int n = snprintf(text, sizeof text,
                     "POST /v3/%s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                     "%s%s%sContent-Length: %zu\r\n\r\n%s",
                     path, token ? "Authorization: " : "", token ? token : "", token ? "\r\n" : "",
                     strlen(body), body);
    assert_true((size_t)n < sizeof text);
    if (l->fd >= 0)
        assert_int_equal(send(l->fd, text, (size_t)n, MSG_NOSIGNAL), n);
    else
        fake_etcd_feed(l->conn, text, (size_t)n);
}

static bool hear_more(line *l, int ms) {
    char bytes[4096];
    struct pollfd p = {.fd = l->fd, .events = POLLIN};
    if (l->fd < 0 || poll(&p, 1, ms) <= 0)
        return false;
    ssize_t n = recv(l->fd, bytes, sizeof bytes, 0);
    if (n > 0)
        tl__http_feed(&l->http, bytes, (size_t)n);
    return n > 0;
}

static json_t *hear(line *l, int *ret_status) {
    tl_bytes body;
    json_error_t at;
    int got;
    while ((got = tl__http_next(&l->http, &body)) == 0)
        if (!hear_more(l, ANSWER_MS))
            fail_msg("%s answers nothing", l->fd >= 0 ? "etcd" : "the fake");
    assert_int_equal(got, 1);
    *ret_status = l->http.status;
    json_t *answer = json_loadb(body.p, body.n, 0, &at);
    if (!answer)
        fail_msg("no JSON: %.*s", (int)body.n, body.p);
    return answer;
}

/* ---- comparing --------------------------------------------------------------------------------- */

static void forget(json_t *object, const char *name) {
    (void)json_object_del(object, name);
}

/* Whatever lies inside: headers tell the revision alone; how long a lease has still is a matter of time. */
static void level(json_t *v) {
    for (size_t i = 0; i < json_array_size(v); i++)
        level(json_array_get(v, i));
    if (!json_is_object(v))
        return;
    if (json_object_get(v, "grantedTTL"))
        forget(v, "TTL");
    forget(v, "details"); /* of errors, and the two texts that some have of them */
    forget(v, "error");
    json_t *header = json_object_get(v, "header");
    forget(header, "cluster_id");
    forget(header, "member_id");
    forget(header, "raft_term");
    if (json_object_size(header) == 0)
        forget(v, "header");
    for (void *at = json_object_iter(v); at; at = json_object_iter_next(v, at))
        level(json_object_iter_value(at));
}

static char *text_of(json_t *v) {
    return json_dumps(v, JSON_SORT_KEYS | JSON_COMPACT);
}

#define FAILED_PRECONDITION 9

/* What etcd says otherwise from 3.5 on than 3.4, which the fake is like, and the client does not look at: its gateway gives
 * gRPC's failed precondition the status 400 of HTTP, not 412; and it tells a revision with the alarms. */
static int as_3_4(const char *path, json_t *v, int status) {
    json_int_t code = json_integer_value(json_object_get(v, "code"));
    if (strcmp(path, "maintenance/alarm") == 0)
        forget(v, "header");
    return status == 400 && code == FAILED_PRECONDITION ? 412 : status;
}

static void must_be_alike(const char *path, const char *body, json_t *a, int a_status, json_t *b,
                          int b_status) {
    level(a);
    level(b);
    a_status = as_3_4(path, a, a_status);
    char *x = text_of(a), *y = text_of(b);
    if (strcmp(x, y) != 0 || a_status != b_status)
        fail_msg("%s %s\netcd: %d %s\nfake: %d %s", path, body, a_status, x, b_status, y);
    free(x);
    free(y);
}

static line to_real, to_fake;

static void open_both(void) {
    open_real(&to_real);
    open_fake(&to_fake);
}

static void close_both(void) {
    close_line(&to_real);
    close_line(&to_fake);
}

static void both(const char *path, const char *body) {
    int status[2];
    say(&to_real, path, body, NULL);
    say(&to_fake, path, body, NULL);
    json_t *a = hear(&to_real, &status[0]), *b = hear(&to_fake, &status[1]);
    must_be_alike(path, body, a, status[0], b, status[1]);
    json_decref(a);
    json_decref(b);
}

/* ---- what is said ------------------------------------------------------------------------------ */

/* In base64: k/a, k/b, k/c, k/ and k0; v, w. */
#define A "'key':'ay9h'"
#define B "'key':'ay9i'"
#define C "'key':'ay9j'"
#define ALL "'key':'ay8=','range_end':'azA='"
#define V "'value':'dg=='"
#define W "'value':'dw=='"
#define CREATED "'target':'CREATE','result':'EQUAL','create_revision'"
#define FIRST "'sort_target':'CREATE','sort_order':'ASCEND'"
#define LAST "'sort_target':'CREATE','sort_order':'DESCEND'"

static const struct {
    const char *path, *body;
} conversation[] = {
    {"kv/range", "{" A "}"},
    {"kv/range", "{}"},
    {"kv/put", "{" A "," V "}"},
    {"kv/put", "{" A "," W ",'prev_kv':true}"},
    {"kv/put", "{" B "," V ",'lease':'77'}"},
    {"lease/grant", "{'ID':'77','TTL':'1000'}"},
    {"lease/grant", "{'ID':'77','TTL':'1000'}"},
    {"lease/grant", "{'ID':'78','TTL':'1000'}"},
    {"lease/grant", "{'ID':'80','TTL':'1'}"},
    {"lease/grant", "{'ID':'79','TTL':'9000000001'}"},
    {"kv/put", "{" B "," V ",'lease':'77'}"},
    {"kv/put", "{" B ",'ignore_value':true,'lease':'78'}"},
    {"kv/put", "{" C ",'ignore_value':true}"},
    {"kv/put", "{" B ",'ignore_value':true," W "}"},
    {"kv/range", "{" ALL "}"},
    {"kv/range", "{" ALL "," LAST ",'limit':'1'}"},
    {"kv/range", "{" ALL ",'limit':'1','keys_only':true}"},
    {"kv/range", "{" ALL ",'count_only':true}"},
    {"kv/range", "{" ALL ",'max_create_revision':'2'," LAST ",'limit':'2'}"},
    {"kv/range", "{" ALL ",'min_create_revision':'3'}"},
    {"kv/range", "{" ALL ",'revision':'2'}"},
    {"kv/range", "{" ALL ",'revision':'1000'}"},
    {"kv/range", "{'key':'AA==','range_end':'AA==','serializable':true}"},
    {"lease/timetolive", "{'ID':'77','keys':true}"},
    {"lease/timetolive", "{'ID':'1234'}"},
    {"kv/txn", "{'compare':[{" ALL "," CREATED ":'0'}],'success':[{'request_put':{" C "," V
               "}}],'failure':[{'request_range':{" C "}},{'request_range':{" ALL "," FIRST
               ",'limit':'1'}}]}"},
    {"kv/txn", "{'compare':[{" C "," CREATED ":'0'}],'success':[{'request_range':{" ALL "," LAST
               ",'limit':'1'}},{'request_put':{" C "," V ",'lease':'77'}}],'failure':[{"
               "'request_range':{" C "}}]}"},
    {"kv/txn", "{'compare':[{" C "," CREATED ":'0'}],'success':[{'request_put':{" C "," V
               "}}],'failure':[{'request_range':{" C "}}]}"},
    {"kv/txn",
     "{'compare':[{" C ",'target':'LEASE','result':'LESS','lease':'78'}],'success':[{"
     "'request_put':{" C ",'ignore_value':true,'lease':'78'}},{'request_range':{" C "}}]}"},
    {"kv/txn", "{'compare':[{" C ",'target':'LEASE','result':'GREATER','lease':'77'},{" A
               ",'target':'VALUE','result':'NOT_EQUAL'," V "}],'success':[{'request_range':{" A
               "}},{'request_delete_range':{" A "}},{'request_range':{" A "}}]}"},
    {"kv/txn", "{'compare':[{" A ",'target':'VALUE','result':'NOT_EQUAL'," V
               "}],'failure':[{'request_range':{" A "}}]}"},
    {"kv/txn", "{'compare':[{" A ",'target':'VERSION','result':'EQUAL'}]}"},
    {"kv/txn", "{'compare':[{" C ",'target':'MOD','result':'GREATER','mod_revision':'1'}],"
               "'success':[{'request_put':{" A "," V ",'lease':'4444'}}]}"},
    {"kv/txn", "{'success':[{'request_put':{" A "," V "}},{'request_put':{" A "," W "}}]}"},
    {"kv/txn", "{'success':[{'request_delete_range':{" A "}}]}"},
    {"kv/txn", "{'success':[{'request_put':{" A "," V "}},{'request_put':{'key':'ay9k'," W "}}]}"},
    {"kv/deleterange", "{" A ",'prev_kv':true}"},
    {"kv/deleterange", "{" A "}"},
    {"lease/revoke", "{'ID':'77'}"},
    {"lease/revoke", "{'ID':'77'}"},
    {"lease/revoke", "{'ID':'78'}"},
    {"kv/range", "{" ALL "}"},
    {"lease/timetolive", "{'ID':'77'}"},
    {"kv/compaction", "{'revision':'1000'}"},
    {"kv/compaction", "{'revision':'5'}"},
    {"kv/compaction", "{'revision':'5'}"},
    {"kv/range", "{" ALL ",'revision':'3'}"},
    {"kv/range", "{" ALL ",'revision':'5'}"},
    {"auth/authenticate", "{'name':'a','password':'b'}"},
    {"maintenance/alarm", "{'action':'GET'}"},
};

/* JSON with single quotes. */
static const char *quoted(const char *body, char *to, size_t size) {
    assert_true(strlen(body) < size);
    strcpy(to, body);
    for (char *c = to; *c; c++)
        if (*c == '\'')
            *c = '"';
    return to;
}

TEST(the_fake_answers_as_a_real_one) {
    char body[2048];
    open_both();
    for (size_t i = 0; i < sizeof conversation / sizeof *conversation; i++)
        both(conversation[i].path, quoted(conversation[i].body, body, sizeof body));
    close_both();
}

/* ---- at random --------------------------------------------------------------------------------- */

static uint32_t random_state;

static uint32_t below(uint32_t n) {
    random_state = random_state * 1103515245 + 12345;
    return (random_state >> 16) % n;
}

static const char *any_key(void) {
    static const char *const keys[] = {A, B, C, "'key':'ay9k'", ALL};
    return keys[below(5)];
}

static const char *one_key(void) {
    static const char *const keys[] = {A, B, C, "'key':'ay9k'"};
    return keys[below(4)];
}

static void add_op(char *to, size_t size, const char *separator) {
    size_t n = strlen(to);
    switch (below(4)) {
    case 0:
        (void)snprintf(to + n, size - n, "%s{'request_put':{%s,%s,'lease':'%u'%s}}", separator,
                       one_key(), below(2) ? V : W, below(3) ? 0 : 70 + below(3),
                       below(4) ? "" : ",'prev_kv':true");
        break;
    case 1:
        (void)snprintf(to + n, size - n, "%s{'request_delete_range':{%s%s}}", separator, any_key(),
                       below(2) ? "" : ",'prev_kv':true");
        break;
    default:
        (void)snprintf(to + n, size - n, "%s{'request_range':{%s,%s,'limit':'%u'}}", separator,
                       any_key(), below(2) ? FIRST : LAST, below(3));
    }
}

static void add_compare(char *to, size_t size, const char *separator) {
    static const char *const results[] = {"EQUAL", "GREATER", "LESS", "NOT_EQUAL"};
    static const char *const targets[] = {
        "'target':'CREATE','create_revision':'%u'", "'target':'MOD','mod_revision':'%u'",
        "'target':'VERSION','version':'%u'", "'target':'LEASE','lease':'%u'"};
    char target[80];
    size_t n = strlen(to);
    unsigned which = below(4);
    (void)snprintf(target, sizeof target, targets[which],
                   below(4) == 0 ? 0
                   : which == 3  ? 70 + below(3)
                   : which == 2  ? below(4)
                                 : 1 + below(200));
    (void)snprintf(to + n, size - n, "%s{%s,'result':'%s',%s}", separator, any_key(),
                   results[below(4)], target);
}

static void any_transaction(char *to, size_t size) {
    const char *const branches[] = {"],'success':[", "],'failure':["};
    strcpy(to, "{'compare':[");
    for (unsigned i = 0, n = below(3); i < n; i++)
        add_compare(to, size, i ? "," : "");
    for (int b = 0; b < 2; b++) {
        strcat(to, branches[b]);
        for (unsigned i = 0, n = below(4); i < n; i++)
            add_op(to, size, i ? "," : "");
    }
    strcat(to, "]}");
}

TEST(and_so_it_does_at_random) {
    char text[4096], body[4096];
    random_state = 7;
    open_both();
    for (unsigned i = 0; i < RANDOM_RUNS; i++) {
        const char *path = below(12) == 0   ? "lease/grant"
                           : below(12) == 0 ? "lease/revoke"
                                            : "kv/txn";
        if (path[0] == 'k')
            any_transaction(text, sizeof text);
        else
            (void)snprintf(text, sizeof text, "{'ID':'%u'%s}", 70 + below(3),
                           path[6] == 'g' ? ",'TTL':'5000'" : "");
        both(path, quoted(text, body, sizeof body));
    }
    close_both();
}

/* ---- watches ----------------------------------------------------------------------------------- */

/* By watch: what has been told, in order. How events are packed into messages is a matter of time. */
static void note_message(json_t *told, json_t *message) {
    json_t *result = json_object_get(message, "result");
    const char *id = json_string_value(json_object_get(result, "watch_id"));
    json_t *list = json_object_get(told, id ? id : "0");
    level(message);
    assert_non_null(result);
    if (!list)
        (void)json_object_set_new(told, id ? id : "0", list = json_array());
    if (json_object_get(result, "created"))
        (void)json_array_append_new(list, json_string("created"));
    json_t *events = json_object_get(result, "events");
    for (size_t i = 0; i < json_array_size(events); i++)
        (void)json_array_append(list, json_array_get(events, i));
    if (json_object_get(result, "canceled"))
        (void)json_array_append_new(
            list, json_pack("{s:O?}", "canceled at", json_object_get(result, "compact_revision")));
}

static void take_messages(line *l, json_t *told) {
    tl_bytes text;
    json_error_t at;
    while (tl__http_line(&l->http, &text) == 1) {
        json_t *message = text.n ? json_loadb(text.p, text.n, 0, &at) : NULL;
        if (message)
            note_message(told, message);
        json_decref(message);
    }
}

TEST(watches_are_told_the_same) {
    static const char *const changes[] = {"{'success':[{'request_put':{" A "," W
                                          "}},{'request_delete_range':{" B "}}]}",
                                          "{'success':[{'request_put':{" C "," W "}}]}",
                                          "{'success':[{'request_delete_range':{" ALL "}}]}"};
    char body[2048], text[1200];
    line real_watch, fake_watch;
    open_both();
    for (int i = 0; i < 3; i++) /* revisions 2, 3, 4 */
        both("kv/put", quoted(i == 0   ? "{" A "," V "}"
                              : i == 1 ? "{" B "," V "}"
                                       : "{" C "," V "}",
                              body, sizeof body));
    both("kv/compaction", quoted("{'revision':'3'}", body, sizeof body));
    static const char watches[] = "{'create_request':{" A
                                  ",'start_revision':'4','filters':['NOPUT'],'watch_id':'1'}}\n"
                                  "{'create_request':{" ALL
                                  ",'start_revision':'3','watch_id':'2','prev_kv':true}}\n"
                                  "{'create_request':{" ALL
                                  ",'start_revision':'2','watch_id':'3'}}\n"
                                  "{'create_request':{" B
                                  ",'start_revision':'1000','watch_id':'4'}}\n"
                                  "{'create_request':{" C
                                  ",'start_revision':'5','watch_id':'5','filters':['NODELETE']}}\n";
    open_real(&real_watch);
    open_fake(&fake_watch);
    say(&real_watch, "watch", quoted(watches, text, sizeof text), NULL);
    say(&fake_watch, "watch", text, NULL);
    for (int i = 0; i < 3; i++)
        both("kv/txn", quoted(changes[i], body, sizeof body));
    json_t *of_fake = json_object(), *of_real = json_object();
    take_messages(&fake_watch, of_fake);
    time_t end = time(NULL) + ANSWER_MS / 1000;
    while (!json_equal(of_fake, of_real) && time(NULL) < end) {
        (void)hear_more(&real_watch, 500);
        take_messages(&real_watch, of_real);
    }
    char *x = text_of(of_real), *y = text_of(of_fake);
    assert_string_equal(x, y);
    assert_non_null(strstr(x, "canceled at"));
    assert_non_null(strstr(x, "prev_kv"));
    free(x);
    free(y);
    json_decref(of_fake);
    json_decref(of_real);
    close_line(&real_watch);
    close_line(&fake_watch);
    close_both();
}

/* "REVISION": of the answer to one watch that begins now. */
static int64_t begin_now(line *l) {
    char text[200];
    json_error_t at;
    tl_bytes body;
    say(l, "watch",
        quoted("{'create_request':{" A ",'start_revision':'0','watch_id':'1'}}\n", text,
               sizeof text),
        NULL);
    while (tl__http_line(&l->http, &body) == 0)
        if (!hear_more(l, ANSWER_MS))
            fail_msg("no watch is created");
    json_t *message = json_loadb(body.p, body.n, 0, &at);
    json_t *result = json_object_get(message, "result");
    assert_true(json_is_true(json_object_get(result, "created")));
    const char *revision = json_string_value(
        json_object_get(json_object_get(result, "header"), "revision"));
    int64_t n = revision ? atoll(revision) : 0;
    json_decref(message);
    return n;
}

/* The answer names the last revision of which nothing is told; all that comes later is. */
TEST(a_watch_that_begins_now_says_when) {
    char body[200];
    line watch[2];
    open_both();
    open_real(&watch[0]);
    open_fake(&watch[1]);
    both("kv/put", quoted("{" A "," V "}", body, sizeof body)); /* revision 2 */
    for (int i = 0; i < 2; i++)
        assert_int_equal(begin_now(&watch[i]), 2);
    both("kv/put", quoted("{" A "," W "}", body, sizeof body));
    for (int i = 0; i < 2; i++) {
        json_t *told = json_object();
        while (json_object_size(told) == 0) {
            take_messages(&watch[i], told);
            if (json_object_size(told) == 0 && !hear_more(&watch[i], ANSWER_MS))
                fail_msg("nothing is told");
        }
        char *text = text_of(told);
        assert_non_null(strstr(text, "\"mod_revision\":\"3\""));
        assert_null(strstr(text, "\"mod_revision\":\"2\""));
        free(text);
        json_decref(told);
        close_line(&watch[i]);
    }
    close_both();
}

/* ---- leases, logins ---------------------------------------------------------------------------- */

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool is_there(line *l, const char *body) {
    int status;
    say(l, "kv/range", body, NULL);
    json_t *answer = hear(l, &status);
    bool there = json_object_get(answer, "kvs") != NULL;
    json_decref(answer);
    return there;
}

TEST(a_lease_ends_no_sooner_than_it_says_and_takes_its_keys_along) {
    char body[400], range[100], grant[60];
    open_both();
    int64_t asked = now_ms();
    (void)snprintf(grant, sizeof grant, "{'ID':'9','TTL':'%d'}", LEASE_S);
    both("lease/grant", quoted(grant, body, sizeof body));
    both("kv/put", quoted("{" A "," V ",'lease':'9'}", body, sizeof body));
    (void)quoted("{" A "}", range, sizeof range);
    while (is_there(&to_real, range) && now_ms() < asked + ANSWER_MS)
        (void)poll(NULL, 0, 20);
    assert_false(is_there(&to_real, range));
    assert_true(now_ms() - asked >= LEASE_S * 1000);
    fake_now_ns += LEASE_S * INT64_C(1000000000) - 1;
    assert_int_equal(fake_etcd_expire(fake), fake_now_ns + 1);
    assert_true(is_there(&to_fake, range));
    fake_now_ns++;
    assert_true(fake_etcd_expire(fake) == INT64_MAX);
    both("kv/range", range);
    both("lease/timetolive", quoted("{'ID':'9'}", body, sizeof body));
    close_both();
}

static void both_by(const char *path, const char *body, const char *by_real, const char *by_fake) {
    int status[2];
    say(&to_real, path, body, by_real);
    say(&to_fake, path, body, by_fake);
    json_t *a = hear(&to_real, &status[0]), *b = hear(&to_fake, &status[1]);
    must_be_alike(path, body, a, status[0], b, status[1]);
    json_decref(a);
    json_decref(b);
}

static char *token_of(line *l, const char *body) {
    int status;
    say(l, "auth/authenticate", body, NULL);
    json_t *answer = hear(l, &status);
    const char *text = json_string_value(json_object_get(answer, "token"));
    assert_non_null(text);
    char *token = strdup(text);
    json_decref(answer);
    return token;
}

TEST(who_must_log_in_is_told_the_same) {
    static const char *const setting_up[] = {"user add root:secret", "user grant-role root root",
                                             "auth enable"};
    char range[100], login[100];
    for (int i = 0; i < 3; i++)
        (void)real_etcd_ctl(real, setting_up[i]);
    fake_etcd_set_user(fake, "root", "secret");
    open_both();
    (void)quoted("{" A "}", range, sizeof range);
    both("kv/range", range);
    both("auth/authenticate", quoted("{'name':'root','password':'x'}", login, sizeof login));
    (void)quoted("{'name':'root','password':'secret'}", login, sizeof login);
    char *by_real = token_of(&to_real, login), *by_fake = token_of(&to_fake, login);
    both_by("kv/range", range, by_real, by_fake);
    both_by("kv/range", range, "nonsense.1", "nonsense.1");
    free(by_real);
    free(by_fake);
    close_both();
}
