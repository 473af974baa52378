/*
 * The fields of etcd's replies that tidelock reads; rpc.proto and kv.proto have the numbers. A malformed
 * message is rejected as a whole. A missing field means zero, and must never mean anything else.
 */
#include "transport/grpc_reply.h"

#include "ground/guard.h"
#include "wire/proto.h"

typedef struct {
    tl_reply_room *room;
    tl_bytes prefix;
    const char *problem;
} reader;

static bool odd(reader *by, const char *problem) {
    by->problem = by->room->exhausted ? "out of memory for a reply"
                  : by->room->full    ? TL_REPLY_ROOM_FULL
                                      : problem;
    return false;
}

static bool make_array(reader *by, size_t n, tl_reply **ret_items, tl_reply *ret) {
    return tl__reply_make_array(by->room, n, ret_items, ret) || odd(by, "");
}

static tl_reply of_text(tl_bytes text) {
    return (tl_reply){.type = TL_REPLY_STRING, .text = text.p ? text : TL_LITERAL("")};
}

/* ---- fields ------------------------------------------------------------------------------------ */

/* The fields to read of a message: numbers and texts, each with its place among the items. */
typedef struct {
    uint8_t number, item;
    bool text;
} place;

static bool read_places(reader *by, tl_bytes message, const place *places, size_t count,
                        tl_reply *items) {
    tl_proto_field field;
    int got;
    for (size_t i = 0; i < count; i++)
        items[places[i].item] = places[i].text ? of_text((tl_bytes){0}) : tl__reply_of_int(0);
    while ((got = tl__proto_next(&message, &field)) > 0)
        for (size_t i = 0; i < count; i++) {
            if (field.number != places[i].number)
                continue;
            if (field.kind != (places[i].text ? TL_PROTO_BYTES : TL_PROTO_VARINT))
                return odd(by, "a field of another type");
            items[places[i].item] = places[i].text ? of_text(field.bytes)
                                                   : tl__reply_of_int(field.integer);
        }
    return got == 0 || odd(by, "malformed protobuf");
}
#define READ(by, message, places, items)                                                           \
    read_places(by, message, places, sizeof(places) / sizeof *(places), items)

/* How often this field of a message is there, each time a message of its own; -1: it is malformed. */
static int64_t count_of(reader *by, tl_bytes message, unsigned number) {
    tl_proto_field field;
    int got;
    int64_t n = 0;
    while ((got = tl__proto_next(&message, &field)) > 0)
        if (field.number == number) {
            if (field.kind != TL_PROTO_BYTES)
                return odd(by, "a field of another type") - 1;
            n++;
        }
    return got == 0 ? n : odd(by, "malformed protobuf") - 1;
}

/* The next of these; the message is well-formed. */
static bool next_of(tl_bytes *message, unsigned number, tl_bytes *ret) {
    tl_proto_field field;
    while (tl__proto_next(message, &field) > 0)
        if (field.number == number) {
            *ret = field.bytes;
            return true;
        }
    return false;
}

static bool read_each(reader *by, tl_bytes message, unsigned number, tl_reply *items,
                      bool (*read)(reader *by, tl_bytes one, tl_reply *ret)) {
    tl_bytes one;
    while (next_of(&message, number, &one))
        if (!read(by, one, items++))
            return false;
    return true;
}

/* ---- replies ----------------------------------------------------------------------------------- */

static bool read_key(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {{1, TL_ETCD_KEY, true},
                                   {2, TL_ETCD_CREATED, false},
                                   {3, TL_ETCD_CHANGED, false},
                                   {5, TL_ETCD_VALUE, true},
                                   {6, TL_ETCD_LEASE, false}};
    tl_reply *item;
    if (!make_array(by, 5, &item, ret) || !READ(by, message, places, item))
        return false;
    tl_bytes *key = &item[TL_ETCD_KEY].text, prefix = by->prefix;
    if (key->n < prefix.n ||
        (GUARD(grpc_key_below_prefix) && prefix.n && memcmp(key->p, prefix.p, prefix.n) != 0))
        return odd(by, "a key that wasn't asked for");
    *key = tl__bytes(key->p + prefix.n, key->n - prefix.n);
    return true;
}

/* Make INT count, then the keys. */
static bool read_range(reader *by, tl_bytes message, tl_reply *ret) {
    enum { KVS = 2 };
    static const place places[] = {{4, 0, false}};
    int64_t n = count_of(by, message, KVS);
    tl_reply *item;
    return n >= 0 && make_array(by, (size_t)n + 1, &item, ret) && READ(by, message, places, item) &&
           read_each(by, message, KVS, item + 1, read_key);
}

/* The header is the first field of each reply. */
static bool read_header(reader *by, tl_bytes message, const place *places, size_t count,
                        tl_reply *items) {
    tl_bytes header;
    int64_t n = count_of(by, message, 1);
    if (n < 0)
        return false;
    if (n == 0)
        return odd(by, "a reply without a header");
    (void)next_of(&message, 1, &header);
    return read_places(by, header, places, count, items);
}

static bool read_revision(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {{3, 0, false}};
    return read_header(by, message, places, 1, ret);
}

/* The response to one request of a transaction; NIL for anything but a range. */
static bool read_response(reader *by, tl_bytes message, tl_reply *ret) {
    tl_bytes range;
    int64_t n = count_of(by, message, 1);
    return n >= 0 && (!next_of(&message, 1, &range) || read_range(by, range, ret));
}

static bool read_transaction(reader *by, tl_bytes message, tl_reply *ret) {
    enum { RESPONSES = 3 };
    static const place places[] = {{2, TL_ETCD_SUCCEEDED, false}};
    int64_t n = count_of(by, message, RESPONSES);
    tl_reply *item;
    return n >= 0 && make_array(by, (size_t)n + TL_ETCD_RESPONSES, &item, ret) &&
           READ(by, message, places, item) && read_revision(by, message, &item[TL_ETCD_REVISION]) &&
           read_each(by, message, RESPONSES, item + TL_ETCD_RESPONSES, read_response);
}

/* Make the reply of a transaction of one range. */
static bool read_one_range(reader *by, tl_bytes message, tl_reply *ret) {
    tl_reply *item;
    if (!make_array(by, TL_ETCD_RESPONSES + 1, &item, ret) ||
        !read_revision(by, message, &item[TL_ETCD_REVISION]))
        return false;
    item[TL_ETCD_SUCCEEDED] = tl__reply_of_int(1);
    return read_range(by, message, &item[TL_ETCD_RESPONSES]);
}

static bool read_granted(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {{3, 0, false}};
    return READ(by, message, places, ret);
}

static bool read_revoked(reader *by, tl_bytes message, tl_reply *ret) {
    *ret = (tl_reply){.type = TL_REPLY_STATUS, .text = TL_LITERAL("OK")};
    return count_of(by, message, 1) >= 0;
}

static bool read_ttl(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {{3, 0, false}, {4, 1, false}};
    tl_reply *item;
    return make_array(by, 2, &item, ret) && READ(by, message, places, item);
}

static bool read_token(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {{2, 0, true}};
    return READ(by, message, places, ret);
}

static bool read_status(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {
        {2, 0, true}, {4, 1, false}, {3, 3, false}, {10, 4, false}, {9, 5, false}};
    static const place header[] = {{2, 2, false}, {1, 6, false}};
    tl_reply *item;
    return make_array(by, 7, &item, ret) && READ(by, message, places, item) &&
           read_header(by, message, header, 2, item);
}

/* The names of alarms, as JSON has them. */
static bool read_alarm(reader *by, tl_bytes message, tl_reply *ret) {
    static const place places[] = {{1, 0, false}, {2, 1, false}};
    static const char *const names[] = {"NONE", "NOSPACE", "CORRUPT"};
    tl_reply *item;
    if (!make_array(by, 2, &item, ret) || !READ(by, message, places, item))
        return false;
    int64_t i = item[1].integer;
    item[1] = of_text(tl__bytes_of(i >= 0 && i < 3 ? names[i] : "UNKNOWN"));
    return true;
}

static bool read_member(reader *by, tl_bytes message, tl_reply *ret) {
    enum { URLS = 4 };
    static const place places[] = {{1, 0, false}, {2, 1, true}, {5, 3, false}};
    tl_bytes url = {0};
    tl_reply *item;
    if (!make_array(by, 4, &item, ret) || !READ(by, message, places, item) ||
        count_of(by, message, URLS) < 0)
        return false;
    (void)next_of(&message, URLS, &url);
    item[2] = of_text(url);
    return true;
}

static bool read_list(reader *by, tl_bytes message,
                      bool (*read)(reader *by, tl_bytes one, tl_reply *ret), tl_reply *ret) {
    enum { LIST = 2 };
    int64_t n = count_of(by, message, LIST);
    tl_reply *item;
    return n >= 0 && make_array(by, (size_t)n, &item, ret) &&
           read_each(by, message, LIST, item, read);
}

static bool read_alarms(reader *by, tl_bytes message, tl_reply *ret) {
    return read_list(by, message, read_alarm, ret);
}

static bool read_members(reader *by, tl_bytes message, tl_reply *ret) {
    return read_list(by, message, read_member, ret);
}

static bool read_watch(reader *by, tl_bytes message, tl_reply *ret) {
    enum { EVENTS = 11, DELETED = 1 };
    static const place places[] = {
        {2, TL_WATCH_ID, false}, {3, TL_WATCH_CREATED, false}, {4, TL_WATCH_CANCELED, false}};
    static const place type[] = {{1, 0, false}};
    tl_reply *item, event;
    tl_bytes one, rest = message;
    int64_t deletions = 0;
    if (!make_array(by, 5, &item, ret) || !READ(by, message, places, item) ||
        !read_revision(by, message, &item[TL_WATCH_REVISION]) || count_of(by, message, EVENTS) < 0)
        return false;
    while (next_of(&rest, EVENTS, &one)) {
        if (!READ(by, one, type, &event))
            return false;
        deletions += event.integer == DELETED;
    }
    item[TL_WATCH_DELETED] = tl__reply_of_int(deletions);
    return true;
}

static bool (*const readers[])(reader *by, tl_bytes message, tl_reply *ret) = {
    [TL_ETCD_GRANT] = read_granted,   [TL_ETCD_REVOKE] = read_revoked,
    [TL_ETCD_TTL] = read_ttl,         [TL_ETCD_TXN] = read_transaction,
    [TL_ETCD_RANGE] = read_one_range, [TL_ETCD_AUTH] = read_token,
    [TL_ETCD_STATUS] = read_status,   [TL_ETCD_ALARMS] = read_alarms,
    [TL_ETCD_MEMBERS] = read_members, [TL_ETCD_WATCH] = read_watch};

const char *tl__grpc_read(tl_reply_room *room, tl_etcd_kind kind, tl_bytes message, tl_bytes prefix,
                          tl_reply *ret) {
    reader by = {.room = room, .prefix = prefix};
    if (kind == TL_ETCD_NONE || (size_t)kind >= sizeof readers / sizeof *readers)
        return "a reply to no request";
    return readers[kind](&by, message, ret) ? NULL : by.problem;
}
