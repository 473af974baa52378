/*
 * Writes requests to etcd as protobuf, for gRPC, from the templates of etcd.c. It must encode each of them as
 * the gateway would, which turns the JSON into the same messages. Fields are those of etcd's rpc.proto and
 * kv.proto. A zero is written as any other value: in a comparison it is the value to compare with.
 */
#include <string.h>

#include "ground/guard.h"
#include "wire/etcd_inside.h"
#include "wire/proto.h"

typedef struct {
    const char *name;
    uint8_t number;
    enum { NUMBER, BYTES, CHOICE, MESSAGE } kind;
    const void *type; /* CHOICE: the names of its values 0, 1 and so on; MESSAGE: its fields */
} field;

static const char *const results[] = {"EQUAL", "GREATER", "LESS", "NOT_EQUAL", NULL},
                         *const targets[] = {"VERSION", "CREATE", "MOD", "VALUE", "LEASE", NULL},
                         *const orders[] = {"NONE", "ASCEND", "DESCEND", NULL},
                         *const sorts[] = {"KEY", "VERSION", "CREATE", NULL},
                         *const actions[] = {"GET", NULL};

static const field compare[] = {{"key", 3, BYTES, NULL},
                                {"range_end", 64, BYTES, NULL},
                                {"target", 2, CHOICE, targets},
                                {"result", 1, CHOICE, results},
                                {"create_revision", 5, NUMBER, NULL},
                                {"mod_revision", 6, NUMBER, NULL},
                                {"lease", 8, NUMBER, NULL},
                                {NULL, 0, NUMBER, NULL}},
                   range[] = {{"key", 1, BYTES, NULL},
                              {"range_end", 2, BYTES, NULL},
                              {"limit", 3, NUMBER, NULL},
                              {"sort_order", 5, CHOICE, orders},
                              {"sort_target", 6, CHOICE, sorts},
                              {"keys_only", 8, NUMBER, NULL},
                              {"min_create_revision", 12, NUMBER, NULL},
                              {"max_create_revision", 13, NUMBER, NULL},
                              {NULL, 0, NUMBER, NULL}},
                   put[] = {{"key", 1, BYTES, NULL},
                            {"value", 2, BYTES, NULL},
                            {"lease", 3, NUMBER, NULL},
                            {"ignore_value", 5, NUMBER, NULL},
                            {NULL, 0, NUMBER, NULL}},
                   delete_range[] = {{"key", 1, BYTES, NULL}, {NULL, 0, NUMBER, NULL}},
                   operation[] = {{"request_range", 1, MESSAGE, range},
                                  {"request_put", 2, MESSAGE, put},
                                  {"request_delete_range", 3, MESSAGE, delete_range},
                                  {NULL, 0, NUMBER, NULL}},
                   transaction[] = {{"compare", 1, MESSAGE, compare},
                                    {"success", 2, MESSAGE, operation},
                                    {"failure", 3, MESSAGE, operation},
                                    {NULL, 0, NUMBER, NULL}},
                   grant[] = {{"TTL", 1, NUMBER, NULL},
                              {"ID", 2, NUMBER, NULL},
                              {NULL, 0, NUMBER, NULL}},
                   by_id[] = {{"ID", 1, NUMBER, NULL}, {NULL, 0, NUMBER, NULL}},
                   login[] = {{"name", 1, BYTES, NULL},
                              {"password", 2, BYTES, NULL},
                              {NULL, 0, NUMBER, NULL}},
                   alarm[] = {{"action", 1, CHOICE, actions}, {NULL, 0, NUMBER, NULL}},
                   nothing[] = {{NULL, 0, NUMBER, NULL}};

static const struct {
    const char *path;
    const field *request;
} methods[] = {[TL_ETCD_GRANT] = {"/etcdserverpb.Lease/LeaseGrant", grant},
               [TL_ETCD_REVOKE] = {"/etcdserverpb.Lease/LeaseRevoke", by_id},
               [TL_ETCD_TTL] = {"/etcdserverpb.Lease/LeaseTimeToLive", by_id},
               [TL_ETCD_TXN] = {"/etcdserverpb.KV/Txn", transaction},
               [TL_ETCD_RANGE] = {"/etcdserverpb.KV/Range", range},
               [TL_ETCD_AUTH] = {"/etcdserverpb.Auth/Authenticate", login},
               [TL_ETCD_STATUS] = {"/etcdserverpb.Maintenance/Status", nothing},
               [TL_ETCD_ALARMS] = {"/etcdserverpb.Maintenance/Alarm", alarm},
               [TL_ETCD_MEMBERS] = {"/etcdserverpb.Cluster/MemberList", nothing},
               [TL_ETCD_WATCH] = {"/etcdserverpb.Watch/Watch", nothing}};

const char *tl__etcd_method(tl_etcd_kind kind) {
    return methods[kind].path;
}

/* ---- writing ----------------------------------------------------------------------------------- */

static void put_varint(tl_etcd_writer *to, uint64_t v) {
    char bytes[TL_VARINT_MAX];
    tl__etcd_put(to, tl__bytes(bytes, tl__varint_write(bytes, v)));
}

static void put_number(tl_etcd_writer *to, unsigned number, int64_t v) {
    put_varint(to, (uint64_t)number << 3 | TL_PROTO_VARINT);
    put_varint(to, (uint64_t)v);
}

/* Begin a field whose length is known at its end; returns where it begins. */
static size_t begin(tl_etcd_writer *to, unsigned number) {
    put_varint(to, (uint64_t)number << 3 | TL_PROTO_BYTES);
    return to->used;
}

/* Move the field, to write its length before it. */
static void end(tl_etcd_writer *to, size_t start) {
    char length[TL_VARINT_MAX];
    size_t n = to->used - start, k = tl__varint_write(length, n);
    if (to->used + k <= to->size) {
        memmove(to->to + start + k, to->to + start, n);
        memcpy(to->to + start, length, k);
    }
    to->used += k;
}

/* ---- templates --------------------------------------------------------------------------------- */

typedef struct {
    tl_etcd_writer *to;
    const char *at;
    const tl_command *command;
    tl_bytes prefix;
} reader;

/* Skip commas, and the marks of guards with what they remove. */
static char next(reader *from) {
#ifdef TL_GUARDS
    while (strchr(",<|>", *from->at) && *from->at)
        from->at = (*from->at == '<' || *from->at == '|' ? tl__etcd_choose(from->at) : from->at) +
                   1;
#else
    while (*from->at == ',')
        from->at++;
#endif
    return *from->at;
}

/* The inside of the quoted text that begins here, which is skipped. */
static tl_bytes quoted(reader *from) {
    const char *begins = from->at + 1, *ends = strchr(begins, '\'');
    from->at = ends + 1;
    return tl__bytes(begins, (size_t)(ends - begins));
}

static const field *field_of(const field *fields, tl_bytes name) {
    while (fields->name && !tl__bytes_eq(name, tl__bytes_of(fields->name)))
        fields++;
    return fields;
}

static int64_t choice_of(const char *const *names, tl_bytes name) {
    int64_t i = 0;
    while (names[i] && !tl__bytes_eq(name, tl__bytes_of(names[i])))
        i++;
    return i;
}

/* A number, which may be an argument. */
static int64_t number_of(reader *from) {
    char text[TL_INT_SIZE];
    int64_t v = 0;
    if (*from->at == 't') { /* true */
        from->at += 4;
        return 1;
    }
    tl_bytes part = quoted(from);
    tl_etcd_writer to = {.to = text, .size = sizeof text, .plain = true};
    tl__etcd_put_part(&to, part.p, part.n, from->command, from->prefix);
    return to.used <= sizeof text && tl__bytes_to_int(tl__bytes(text, to.used), &v) ? v : 0;
}

static void put_bytes(reader *from, unsigned number) {
    size_t start = begin(from->to, number);
    tl_bytes part = quoted(from);
    tl__etcd_put_part(from->to, part.p, part.n, from->command, from->prefix);
    end(from->to, start);
}

static void put_message(reader *from, const field *fields);

static void put_field(reader *from, const field *of) {
    if (of->kind == NUMBER) {
        put_number(from->to, of->number, number_of(from));
    } else if (of->kind == BYTES) {
        put_bytes(from, of->number);
    } else if (of->kind == CHOICE) {
        put_number(from->to, of->number, choice_of(of->type, quoted(from)));
    } else {
        size_t start = begin(from->to, of->number);
        put_message(from, of->type);
        end(from->to, start);
    }
}

/* All messages of a list, up to its end. */
static void put_list(reader *from, const field *of) {
    while (next(from) == '{')
        put_field(from, of);
}

/* The fields between braces. */
static void put_message(reader *from, const field *fields) {
    from->at++;
    while (next(from) == '\'') {
        const field *of = field_of(fields, quoted(from));
        from->at++; /* the colon */
        if (*from->at != '[') {
            put_field(from, of);
            continue;
        }
        from->at++;
        put_list(from, of);
        from->at++;
    }
    from->at++;
}

static void put_one(void *ctx, const char *list, const char *part, const tl_command *one,
                    bool first) {
    reader *from = ctx;
    reader of_one = {from->to, part, one, from->prefix};
    (void)first;
    put_list(&of_one, field_of(transaction, tl__bytes_of(list)));
}

/* ---- requests ---------------------------------------------------------------------------------- */

/* Begin a message of gRPC: it isn't compressed, and has four bytes for its length. */
static size_t begin_message(tl_etcd_writer *to) {
    static const char head[TL_GRPC_HEAD];
    tl__etcd_put(to, tl__bytes(head, sizeof head));
    return to->used;
}

static void end_message(tl_etcd_writer *to, size_t start) {
    size_t n = to->used - start;
    for (size_t i = 1; i < TL_GRPC_HEAD && to->used <= to->size; i++)
        to->to[start - i] = (char)(n >> (8 * (i - 1)) & 255);
}

size_t tl__etcd_encode_proto(const tl_command *command, const tl_etcd_via *via, char *to,
                             size_t size) {
    const tl_etcd_row *row = tl__etcd_row(command);
    tl_etcd_writer writer = {.to = to, .size = size, .plain = true};
    if (!row)
        return 0;
    reader from = {&writer, row->body, command, via->prefix};
    size_t start = begin_message(&writer);
    if (row->body)
        put_message(&from, methods[row->kind].request);
    else
        tl__etcd_each(command, put_one, &from);
    end_message(&writer, start);
    return writer.used;
}

#define CREATE 1 /* of WatchRequest */
enum { KEY = 1, START = 3, FILTERS = 5, WATCH_ID = 7 };
#define NOPUT 0

size_t tl__etcd_encode_watch_proto(const tl_etcd_watched *watched, size_t count,
                                   const tl_etcd_via *via, char *to, size_t size) {
    tl_etcd_writer writer = {.to = to, .size = size, .plain = true};
    for (size_t i = 0; i < count; i++) {
        size_t message = begin_message(&writer), create = begin(&writer, CREATE);
        size_t key = begin(&writer, KEY);
        tl__etcd_put(&writer, via->prefix);
        tl__etcd_put(&writer, watched[i].key);
        end(&writer, key);
        put_number(&writer, START, watched[i].revision);
        put_number(&writer, FILTERS, NOPUT);
        put_number(&writer, WATCH_ID, (int64_t)i + 1);
        end(&writer, create);
        end_message(&writer, message);
    }
    return writer.used;
}
