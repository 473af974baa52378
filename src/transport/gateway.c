/*
 * The only user of jansson in the library. A reply becomes a tree in an arena; a malformed one is rejected as
 * a whole. A missing field means zero, and must never mean anything else.
 */
#include "transport/gateway.h"

#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "ground/token.h"
#include "transport/grpc.h"
#include "transport/http.h"
#include "transport/reply_room.h"

#if TL_HAVE_JSON
#include <jansson.h>
#endif

#define MESSAGE_SIZE 160

struct tl_gateway {
    tl_http http;
    tl_bytes prefix;
    tl_reply_room room;
    bool logs_in;
    const char *problem;
    char message[MESSAGE_SIZE];
};

void tl__gateway_release(tl_gateway *gateway) {
    tl__reply_room_release(&gateway->room);
}

void tl__gateway_free(tl_gateway *gateway) {
    if (!gateway)
        return;
    tl__reply_room_free(&gateway->room);
    tl__http_free(&gateway->http);
    free(gateway);
}

void tl__gateway_logs_in(tl_gateway *gateway, bool does) {
    gateway->logs_in = does;
}

void tl__gateway_reset(tl_gateway *gateway) {
    tl__gateway_release(gateway);
    tl__http_reset(&gateway->http);
    gateway->problem = NULL;
}

void tl__gateway_feed(tl_gateway *gateway, const char *bytes, size_t n) {
    tl__http_feed(&gateway->http, bytes, n);
}

bool tl__gateway_closes(const tl_gateway *gateway) {
    return gateway->http.closes;
}

bool tl__gateway_is_out_of_memory(const tl_gateway *gateway) {
    return gateway->problem == tl__http_no_memory;
}

const char *tl__gateway_problem(const tl_gateway *gateway) {
    return gateway->message;
}

static int fail(tl_gateway *gateway, const char *problem) {
    gateway->problem = problem;
    tl__bytes_print(gateway->message, sizeof gateway->message, tl__bytes_of(problem));
    return -1;
}

static bool none_left(tl_gateway *gateway) {
    gateway->problem = gateway->room.full ? TL_REPLY_ROOM_FULL : tl__http_no_memory;
    return false;
}

static bool make_error(tl_gateway *gateway, int64_t code, const char *message, tl_reply *ret) {
    return tl__reply_make_error(&gateway->room, code, tl__bytes_of(message), ret) ||
           none_left(gateway);
}

#if TL_HAVE_JSON

bool tl__gateway_works(void) {
    return true;
}

tl_gateway *tl__gateway_new(tl_bytes prefix) {
    tl_gateway *gateway = calloc(1, sizeof *gateway);
    json_object_seed((size_t)tl__random_seed() |
                     1); /* otherwise jansson would read a seed from a file, once */
    if (gateway)
        gateway->prefix = prefix;
    return gateway;
}

static bool copy(tl_gateway *gateway, const char *text, size_t n, tl_reply *ret) {
    return tl__reply_make_text(&gateway->room, tl__bytes(text, n), ret) || none_left(gateway);
}

static bool odd(tl_gateway *gateway, const char *problem) {
    if (!gateway->problem)
        gateway->problem = problem;
    return false;
}

/* ---- values ------------------------------------------------------------------------------------ */

/* Read a number, which may be text or a JSON number; absent: 0. Unsigned ones keep their bits. */
static bool get_int(tl_gateway *gateway, const json_t *object, const char *name, tl_reply *ret) {
    const json_t *v = json_object_get(object, name);
    *ret = tl__reply_of_int(0);
    if (!v)
        return true;
    if (json_is_integer(v)) {
        ret->integer = json_integer_value(v);
        return true;
    }
    uint64_t u;
    tl_bytes text = {json_string_value(v), json_string_length(v)};
    if (tl__bytes_to_int(text, &ret->integer))
        return true;
    if (!tl__bytes_to_uint(text, 10, &u))
        return odd(gateway, "a malformed number");
    ret->integer = (int64_t)u;
    return true;
}

static tl_reply get_flag(const json_t *object, const char *name) {
    return tl__reply_of_int(json_is_true(json_object_get(object, name)));
}

static bool get_text(tl_gateway *gateway, const json_t *object, const char *name, tl_reply *ret) {
    const json_t *v = json_object_get(object, name);
    if (v && !json_is_string(v))
        return odd(gateway, "a malformed text");
    return copy(gateway, v ? json_string_value(v) : "", v ? json_string_length(v) : 0, ret);
}

static int digit_64(char c) {
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

/* Read and decode base64. */
static bool get_bytes(tl_gateway *gateway, const json_t *object, const char *name, tl_reply *ret) {
    if (!get_text(gateway, object, name, ret))
        return false;
    char *to = (char *)(uintptr_t)ret->text.p; /* our own copy; decoding only shortens it */
    size_t n = ret->text.n, used = 0;
    uint32_t bits = 0;
    if (n % 4 != 0)
        return odd(gateway, "malformed base64");
    while (n > 0 && ret->text.n - n < 2 && ret->text.p[n - 1] == '=')
        n--;
    for (size_t i = 0; i < n; i++) {
        int d = digit_64(to[i]);
        if (d < 0)
            return odd(gateway, "malformed base64");
        bits = bits << 6 | (uint32_t)d;
        if (i % 4 != 0)
            to[used++] = (char)(bits >> (6 - i % 4 * 2) & 255);
    }
    ret->text.n = used;
    return true;
}

static bool make_array(tl_gateway *gateway, size_t n, tl_reply **ret_items, tl_reply *ret) {
    return tl__reply_make_array(&gateway->room, n, ret_items, ret) || none_left(gateway);
}

/* ---- replies ----------------------------------------------------------------------------------- */

static bool read_key(tl_gateway *gateway, const json_t *kv, tl_reply *ret) {
    tl_reply *item;
    if (!json_is_object(kv))
        return odd(gateway, "a malformed key");
    if (!make_array(gateway, 5, &item, ret) || !get_bytes(gateway, kv, "key", &item[TL_ETCD_KEY]) ||
        !get_bytes(gateway, kv, "value", &item[TL_ETCD_VALUE]) ||
        !get_int(gateway, kv, "create_revision", &item[TL_ETCD_CREATED]) ||
        !get_int(gateway, kv, "mod_revision", &item[TL_ETCD_CHANGED]) ||
        !get_int(gateway, kv, "lease", &item[TL_ETCD_LEASE]))
        return false;
    tl_bytes *key = &item[TL_ETCD_KEY].text;
    if (key->n < gateway->prefix.n || (GUARD(key_below_prefix) && gateway->prefix.n &&
                                       memcmp(key->p, gateway->prefix.p, gateway->prefix.n) != 0))
        return odd(gateway, "a key that wasn't asked for");
    *key = tl__bytes(key->p + gateway->prefix.n, key->n - gateway->prefix.n);
    return true;
}

/* Make INT count, then the keys. */
static bool read_range(tl_gateway *gateway, const json_t *range, tl_reply *ret) {
    const json_t *kvs = json_object_get(range, "kvs");
    size_t n = json_array_size(kvs);
    tl_reply *item;
    if (!json_is_object(range) || (kvs && !json_is_array(kvs)))
        return odd(gateway, "a malformed range");
    if (!make_array(gateway, n + 1, &item, ret) || !get_int(gateway, range, "count", &item[0]))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read_key(gateway, json_array_get(kvs, i), &item[i + 1]))
            return false;
    return true;
}

static bool get_revision(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    const json_t *header = json_object_get(root, "header");
    if (!json_is_object(header))
        return odd(gateway, "a reply without a header");
    return get_int(gateway, header, "revision", ret);
}

static bool read_transaction(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    const json_t *responses = json_object_get(root, "responses");
    size_t n = json_array_size(responses);
    tl_reply *item;
    if (!make_array(gateway, n + TL_ETCD_RESPONSES, &item, ret) ||
        !get_revision(gateway, root, &item[TL_ETCD_REVISION]))
        return false;
    item[TL_ETCD_SUCCEEDED] = get_flag(root, "succeeded");
    for (size_t i = 0; i < n; i++) {
        const json_t *range = json_object_get(json_array_get(responses, i), "response_range");
        if (range && !read_range(gateway, range, &item[TL_ETCD_RESPONSES + i]))
            return false;
    }
    return true;
}

/* Make the reply of a transaction of one range. */
static bool read_one_range(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    tl_reply *item;
    if (!make_array(gateway, TL_ETCD_RESPONSES + 1, &item, ret) ||
        !get_revision(gateway, root, &item[TL_ETCD_REVISION]))
        return false;
    item[TL_ETCD_SUCCEEDED] = tl__reply_of_int(1);
    return read_range(gateway, root, &item[TL_ETCD_RESPONSES]);
}

static bool read_ttl(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    tl_reply *item;
    return make_array(gateway, 2, &item, ret) && get_int(gateway, root, "TTL", &item[0]) &&
           get_int(gateway, root, "grantedTTL", &item[1]);
}

static bool read_status(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    tl_reply *item;
    const json_t *header = json_object_get(root, "header");
    if (!make_array(gateway, 7, &item, ret))
        return false;
    item[4] = get_flag(root, "isLearner");
    return get_text(gateway, root, "version", &item[0]) &&
           get_int(gateway, root, "leader", &item[1]) &&
           get_int(gateway, header, "member_id", &item[2]) &&
           get_int(gateway, root, "dbSize", &item[3]) &&
           get_int(gateway, root, "dbSizeInUse", &item[5]) &&
           get_int(gateway, header, "cluster_id", &item[6]);
}

static bool read_alarm(tl_gateway *gateway, const json_t *alarm, tl_reply *ret) {
    tl_reply *item;
    return make_array(gateway, 2, &item, ret) && get_int(gateway, alarm, "memberID", &item[0]) &&
           get_text(gateway, alarm, "alarm", &item[1]);
}

static bool read_member(tl_gateway *gateway, const json_t *member, tl_reply *ret) {
    tl_reply *item;
    const json_t *url = json_array_get(json_object_get(member, "clientURLs"), 0);
    const char *text = json_is_string(url) ? json_string_value(url) : "";
    if (!make_array(gateway, 4, &item, ret))
        return false;
    item[3] = get_flag(member, "isLearner");
    return get_int(gateway, member, "ID", &item[0]) &&
           get_text(gateway, member, "name", &item[1]) &&
           copy(gateway, text, strlen(text), &item[2]);
}

static bool read_list(tl_gateway *gateway, const json_t *list,
                      bool (*read)(tl_gateway *gateway, const json_t *one, tl_reply *ret),
                      tl_reply *ret) {
    size_t n = json_array_size(list);
    tl_reply *item;
    if (!make_array(gateway, n, &item, ret))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!read(gateway, json_array_get(list, i), &item[i]))
            return false;
    return true;
}

static int64_t deletions(const json_t *events) {
    int64_t n = 0;
    for (size_t i = 0; i < json_array_size(events); i++) {
        const char *type = json_string_value(json_object_get(json_array_get(events, i), "type"));
        n += type && strcmp(type, "DELETE") == 0;
    }
    return n;
}

static bool read_watch(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    const json_t *result = json_object_get(root, "result");
    tl_reply *item;
    if (!json_is_object(result))
        return odd(gateway, "a malformed message");
    if (!make_array(gateway, 5, &item, ret) ||
        !get_int(gateway, result, "watch_id", &item[TL_WATCH_ID]) ||
        !get_revision(gateway, result, &item[TL_WATCH_REVISION]))
        return false;
    item[TL_WATCH_CREATED] = get_flag(result, "created");
    item[TL_WATCH_CANCELED] = get_flag(result, "canceled");
    item[TL_WATCH_DELETED] = tl__reply_of_int(deletions(json_object_get(result, "events")));
    return true;
}

static bool read_granted(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    return get_int(gateway, root, "TTL", ret);
}

static bool read_revoked(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    (void)gateway, (void)root;
    *ret = (tl_reply){.type = TL_REPLY_STATUS, .text = TL_LITERAL("OK")};
    return true;
}

static bool read_token(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    return get_text(gateway, root, "token", ret);
}

static bool read_alarms(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    return read_list(gateway, json_object_get(root, "alarms"), read_alarm, ret);
}

static bool read_members(tl_gateway *gateway, const json_t *root, tl_reply *ret) {
    return read_list(gateway, json_object_get(root, "members"), read_member, ret);
}

static bool (*const readers[])(tl_gateway *gateway, const json_t *root, tl_reply *ret) = {
    [TL_ETCD_GRANT] = read_granted,   [TL_ETCD_REVOKE] = read_revoked,
    [TL_ETCD_TTL] = read_ttl,         [TL_ETCD_TXN] = read_transaction,
    [TL_ETCD_RANGE] = read_one_range, [TL_ETCD_AUTH] = read_token,
    [TL_ETCD_STATUS] = read_status,   [TL_ETCD_ALARMS] = read_alarms,
    [TL_ETCD_MEMBERS] = read_members, [TL_ETCD_WATCH] = read_watch};

/* ---- errors ------------------------------------------------------------------------------------ */

/* Read an error: {"error", "message", "code"} of a reply, {"error": {"message", "grpc_code"}} within a
 * stream. */
static bool read_error(tl_gateway *gateway, const json_t *root, int status, tl_reply *ret) {
    const json_t *inner = json_object_get(root, "error");
    const json_t *from = json_is_object(inner) ? inner : root;
    const char *message = json_string_value(json_object_get(from, "message"));
    char http[32];
    tl_reply code = tl__reply_of_int(-1);
    (void)snprintf(http, sizeof http, "HTTP status %d", status);
    if (json_object_get(from, "code")
            ? !get_int(gateway, from, "code", &code)
            : json_object_get(from, "grpc_code") && !get_int(gateway, from, "grpc_code", &code))
        return false;
    if (code.integer < 0 || code.integer > 16)
        code.integer = -1;
    if (message && tl__etcd_is_login_over(tl__bytes_of(message), gateway->logs_in))
        code.integer = TL_ETCD_UNAUTHENTICATED;
    return make_error(gateway, code.integer,
                      message                 ? message
                      : json_is_string(inner) ? json_string_value(inner)
                                              : http,
                      ret);
}

static bool read_root(tl_gateway *gateway, tl_etcd_kind kind, int status, const json_t *root,
                      tl_reply *ret) {
    if (status != 200 || json_object_get(root, "error"))
        return read_error(gateway, root, status, ret);
    if (!json_is_object(root))
        return odd(gateway, "no JSON object");
    return readers[kind](gateway, root, ret);
}

/* Is it a response of some other HTTP server, or of an etcd without this path? Then nothing has been
 * executed. */
static bool is_of_others(int status, const json_t *root) {
    const char *message = json_string_value(json_object_get(root, "message"));
    return status >= 300 && status < 500 &&
           (!json_is_object(root) || (message && strcmp(message, "Not Found") == 0));
}

/* An etcd without its gateway, which a build with libnghttp2 doesn't need. */
static const char gateway_off[] =
    "; is it an etcd with --enable-grpc-gateway=false? Build tidelock with libnghttp2";

static int fail_of_others(tl_gateway *gateway, int status) {
    gateway->problem = "of another server";
    (void)snprintf(gateway->message, sizeof gateway->message, "HTTP status %d%s", status,
                   status == 404 && !tl__grpc_works() ? gateway_off : "");
    return -1;
}

#define DENIED 7 /* gRPC's PERMISSION_DENIED */
static const char common_name[] = "etcd's gateway " TL_ETCD_NO_COMMON_NAME
                                  " (CN) while etcd's auth is on";

/* The gateway sends this as plain text, before it passes anything on to etcd. */
static bool is_of_common_name(int status, tl_bytes body) {
    return status == 400 && tl__bytes_has(body, "CommonName");
}

/* The tree of jansson takes up to 220 bytes for each two of these, so 115 MiB at most. In the largest replies, lists
 * of keys, there is one in 16 bytes, six for each key: none of 16 MiB has as many. */
#define MARKS_MAX ((size_t)1 << 20)

static bool is_too_large(tl_bytes body) {
    size_t marks = 0;
    for (size_t i = 0; i < body.n; i++)
        marks += body.p[i] == '{' || body.p[i] == '[' || body.p[i] == ',';
    return marks > MARKS_MAX;
}

int tl__gateway_read(tl_gateway *gateway, tl_etcd_kind kind, int status, tl_bytes body,
                     tl_reply *ret) {
    json_error_t error;
    if (kind == TL_ETCD_NONE || (size_t)kind >= sizeof readers / sizeof *readers)
        return fail(gateway, "a reply to no request");
    if (is_too_large(body))
        return fail(gateway, TL_REPLY_ROOM_FULL);
    json_t *root = body.n ? json_loadb(body.p, body.n, JSON_ALLOW_NUL, &error) : NULL;
    if (body.n && !root && json_error_code(&error) == json_error_out_of_memory)
        return fail(gateway, tl__http_no_memory);
    if (GUARD(others_are_told_apart) && is_of_others(status, root)) {
        json_decref(root);
        if (!is_of_common_name(status, body))
            return fail_of_others(gateway, status);
        return make_error(gateway, DENIED, common_name, ret) ? 1 : fail(gateway, gateway->problem);
    }
    bool ok = (root || status != 200) ? read_root(gateway, kind, status, root, ret)
                                      : odd(gateway, "no JSON");
    json_decref(root);
    return ok ? 1 : fail(gateway, gateway->problem ? gateway->problem : "no JSON");
}

#else

bool tl__gateway_works(void) {
    return false;
}

tl_gateway *tl__gateway_new(tl_bytes prefix) {
    (void)prefix;
    return NULL;
}

int tl__gateway_read(tl_gateway *gateway, tl_etcd_kind kind, int status, tl_bytes body,
                     tl_reply *ret) {
    (void)kind, (void)status, (void)body, (void)ret;
    return fail(gateway, "built without jansson");
}

#endif

int tl__gateway_next(tl_gateway *gateway, tl_etcd_kind kind, tl_reply *ret) {
    tl_bytes body;
    int got = gateway->problem ? -1 : tl__http_next(&gateway->http, &body);
    if (got < 0)
        return fail(gateway, gateway->problem ? gateway->problem : gateway->http.problem);
    return got == 0 ? 0 : tl__gateway_read(gateway, kind, gateway->http.status, body, ret);
}

int tl__gateway_message(tl_gateway *gateway, tl_reply *ret) {
    tl_bytes line = {0};
    int got = gateway->problem ? -1 : tl__http_line(&gateway->http, &line);
    if (got < 0)
        return fail(gateway, gateway->problem ? gateway->problem : gateway->http.problem);
    if (got == 0)
        return 0;
    if (got == 2)
        return make_error(gateway, -1, "the stream has ended", ret)
                   ? 1
                   : fail(gateway, gateway->problem);
    return tl__gateway_read(gateway, TL_ETCD_WATCH, gateway->http.status, line, ret);
}
