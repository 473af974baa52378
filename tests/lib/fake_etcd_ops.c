/*
 * Requests of the fake etcd in JSON, executed on its store, and what they answer. A field that is zero is left out, numbers of 64
 * bits are text, keys and values are in base64: as the gateway has it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_etcd_inside.h"

#define OPS_MAX 128
#define TTL_LEAST_S 2 /* as etcd is set up usually */
#define TTL_MOST_S INT64_C(9000000000)
#define NS INT64_C(1000000000)

static const etcd_error fine = {0};

/* ---- words ---------------------------------------------------------------------------------------------- */

void etcd_say(fake_buffer *to, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    fake_buffer_add(to, text, (size_t)n < sizeof text ? (size_t)n : sizeof text - 1);
}

static void say_int(fake_buffer *to, const char *name, int64_t v) {
    if (v)
        etcd_say(to, ",\"%s\":\"%lld\"", name, (long long)v);
}

static void say_64(fake_buffer *to, tl_bytes b) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b.n; i += 3) {
        uint32_t v = 0;
        size_t n = b.n - i < 3 ? b.n - i : 3;
        for (size_t k = 0; k < 3; k++)
            v = v << 8 | (k < n ? (unsigned char)b.p[i + k] : 0);
        char four[4] = {digits[v >> 18], digits[v >> 12 & 63], n > 1 ? digits[v >> 6 & 63] : '=',
                        n > 2 ? digits[v & 63] : '='};
        fake_buffer_add(to, four, 4);
    }
}

void etcd_say_header(const fake_etcd *e, int member, int64_t revision, fake_buffer *to) {
    etcd_say(to,
             "\"header\":{\"cluster_id\":\"14841639068965178418\",\"member_id\":\"%d\","
             "\"revision\":\"%lld\",\"raft_term\":\"%d\"}",
             member + 1, (long long)revision, e->term);
}

void etcd_say_key(const etcd_store *s, const etcd_record *r, bool values, fake_buffer *to) {
    etcd_say(to, "{\"key\":\"");
    say_64(to, s->name[r->key].name);
    etcd_say(to, "\"");
    say_int(to, "create_revision", r->created);
    say_int(to, "mod_revision", r->changed);
    say_int(to, "version", r->version);
    if (values && r->value.n > 0) {
        etcd_say(to, ",\"value\":\"");
        say_64(to, r->value);
        etcd_say(to, "\"");
    }
    say_int(to, "lease", r->lease);
    etcd_say(to, "}");
}

int64_t etcd_int(const json_t *object, const char *name) {
    const json_t *v = json_object_get(object, name);
    return json_is_string(v) ? strtoll(json_string_value(v), NULL, 10) : json_integer_value(v);
}

static bool is_set(const json_t *object, const char *name) {
    return json_is_true(json_object_get(object, name));
}

static const char *word(const json_t *object, const char *name) {
    const char *text = json_string_value(json_object_get(object, name));
    return text ? text : "";
}

static int digit(char c) {
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

tl_bytes etcd_bytes(etcd_store *s, const json_t *object, const char *name) {
    const char *text = word(object, name);
    char *to = etcd_store_room(s, strlen(text) + 1);
    size_t n = 0;
    uint32_t bits = 0;
    for (size_t i = 0; digit(text[i]) >= 0; i++) {
        bits = bits << 6 | (uint32_t)digit(text[i]);
        if (i % 4 != 0)
            to[n++] = (char)(bits >> (6 - i % 4 * 2) & 255);
    }
    return tl__bytes(to, n);
}

etcd_span etcd_span_of(etcd_store *s, const json_t *object) {
    etcd_span span = {.key = etcd_bytes(s, object, "key"),
                      .end = etcd_bytes(s, object, "range_end")};
    span.has_end = span.end.n > 0;
    return span;
}

/* ---- ranges --------------------------------------------------------------------------------------------- */

static const char *const targets[] = {"KEY", "VERSION", "CREATE", "MOD", "VALUE"};

static struct {
    const etcd_store *store;
    int target, way;
} sorting;

static int64_t sorted_by(const etcd_record *r) {
    return sorting.target == 1   ? r->version
           : sorting.target == 2 ? r->created
           : sorting.target == 3 ? r->changed
                                 : 0;
}

static int text_order(tl_bytes a, tl_bytes b) {
    int c = memcmp(a.p, b.p, a.n < b.n ? a.n : b.n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static int by_target(const void *left, const void *right) {
    const etcd_record *a = *(const etcd_record *const *)left;
    const etcd_record *b = *(const etcd_record *const *)right;
    int64_t x = sorted_by(a), y = sorted_by(b);
    int c = (x > y) - (x < y);
    if (sorting.target == 4)
        c = text_order(a->value, b->value);
    if (c == 0) /* as a stable sort of what came by its key */
        return text_order(sorting.store->name[a->key].name, sorting.store->name[b->key].name) *
               (sorting.target == 0 ? sorting.way : 1);
    return c * sorting.way;
}

static void sort(const etcd_store *s, const json_t *ask, const etcd_record **found, size_t n) {
    const char *target = word(ask, "sort_target"), *order = word(ask, "sort_order");
    sorting.store = s;
    sorting.target = 0;
    for (int i = 0; i < 5; i++)
        if (strcmp(target, targets[i]) == 0)
            sorting.target = i;
    sorting.way = strcmp(order, "DESCEND") == 0 ? -1 : 1;
    bool any = strcmp(order, "ASCEND") == 0 || sorting.way < 0 || sorting.target > 0;
    if (any && n > 1)
        qsort(found, n, sizeof *found, by_target);
}

static bool is_wanted(const json_t *ask, const etcd_record *r) {
    int64_t most_created = etcd_int(ask, "max_create_revision");
    int64_t most_changed = etcd_int(ask, "max_mod_revision");
    return r->created >= etcd_int(ask, "min_create_revision") &&
           r->changed >= etcd_int(ask, "min_mod_revision") &&
           (most_created == 0 || r->created <= most_created) &&
           (most_changed == 0 || r->changed <= most_changed);
}

/* What is in the span at that revision; those that aren't wanted are counted all the same. */
static size_t collect(etcd_store *s, const json_t *ask, int64_t revision,
                      const etcd_record ***ret_found, int64_t *ret_count) {
    static const etcd_record **found;
    static size_t room;
    etcd_span span = etcd_span_of(s, ask);
    size_t n = 0;
    *ret_count = 0;
    for (size_t i = etcd_store_from(s, span.key);
         i < s->names && etcd_span_has(&span, s->name[s->order[i]].name); i++) {
        const etcd_record *r = etcd_store_at(s, s->order[i], revision);
        *ret_count += r != NULL;
        if (!r || !is_wanted(ask, r))
            continue;
        if (n == room) {
            room = room ? room * 2 : 64;
            found = realloc(found, room * sizeof(const etcd_record *));
            if (!found)
                abort();
        }
        found[n++] = r;
    }
    *ret_found = found;
    return n;
}

/* From behind its header on. */
static etcd_error range(fake_etcd *e, const etcd_request *r, const json_t *ask, int64_t view,
                        fake_buffer *to) {
    etcd_store *s = &e->store;
    const etcd_record **found;
    int64_t count, revision = etcd_int(ask, "revision"), limit = etcd_int(ask, "limit");
    (void)r;
    if (word(ask, "key")[0] == '\0')
        return (etcd_error){3, "etcdserver: key is not provided"};
    if (revision > view)
        return (etcd_error){11, "etcdserver: mvcc: required revision is a future revision"};
    if (revision > 0 && revision < s->compacted)
        return (etcd_error){11, "etcdserver: mvcc: required revision has been compacted"};
    size_t n = collect(s, ask, revision > 0 ? revision : view, &found, &count);
    bool more = limit > 0 && n > (size_t)limit;
    if (n > 0)
        sort(s, ask, found, n);
    n = more ? (size_t)limit : n;
    if (is_set(ask, "count_only"))
        n = 0;
    for (size_t i = 0; i < n; i++) {
        etcd_say(to, i ? "," : ",\"kvs\":[");
        etcd_say_key(s, found[i], !is_set(ask, "keys_only"), to);
    }
    if (n > 0)
        etcd_say(to, "]");
    if (more)
        etcd_say(to, ",\"more\":true");
    say_int(to, "count", count);
    return fine;
}

/* ---- changes -------------------------------------------------------------------------------------------- */

static etcd_error check_put(fake_etcd *e, const json_t *put) {
    etcd_store *s = &e->store;
    int64_t lease = etcd_int(put, "lease");
    bool ignores = is_set(put, "ignore_value") || is_set(put, "ignore_lease");
    if (word(put, "key")[0] == '\0')
        return (etcd_error){3, "etcdserver: key is not provided"};
    if (is_set(put, "ignore_value") && word(put, "value")[0])
        return (etcd_error){3, "etcdserver: value is provided"};
    if (is_set(put, "ignore_lease") && lease)
        return (etcd_error){3, "etcdserver: lease is provided"};
    if (ignores && !etcd_store_now(s, etcd_bytes(s, put, "key")))
        return (etcd_error){3, "etcdserver: key not found"};
    if (lease && !etcd_store_lease(s, lease))
        return (etcd_error){5, "etcdserver: requested lease not found"};
    return fine;
}

static void say_before(const etcd_store *s, const json_t *ask, const etcd_record *before,
                       const char *begin, const char *end, fake_buffer *to) {
    if (!is_set(ask, "prev_kv") || !before)
        return;
    etcd_say(to, "%s", begin);
    etcd_say_key(s, before, true, to);
    etcd_say(to, "%s", end);
}

static void put(fake_etcd *e, const json_t *ask, int64_t revision, fake_buffer *to) {
    etcd_store *s = &e->store;
    tl_bytes key = etcd_bytes(s, ask, "key"), value = etcd_bytes(s, ask, "value");
    const etcd_record *is = etcd_store_now(s, key);
    int64_t lease = etcd_int(ask, "lease");
    say_before(s, ask, is, ",\"prev_kv\":", "", to);
    if (is && is_set(ask, "ignore_value"))
        value = is->value;
    if (is && is_set(ask, "ignore_lease"))
        lease = is->lease;
    etcd_store_put(s, key, value, lease, revision);
}

static void delete_range(fake_etcd *e, const json_t *ask, int64_t revision, fake_buffer *to) {
    etcd_store *s = &e->store;
    const etcd_record **found;
    int64_t count;
    etcd_span span = etcd_span_of(s, ask);
    size_t n = is_set(ask, "prev_kv") ? collect(s, ask, INT64_MAX, &found, &count) : 0;
    fake_buffer before = {0};
    for (size_t i = 0; i < n; i++)
        say_before(s, ask, found[i], i ? "," : ",\"prev_kvs\":[", i + 1 == n ? "]" : "", &before);
    say_int(to, "deleted", etcd_store_delete(s, &span, revision));
    fake_buffer_add(to, before.p ? before.p : "", before.n);
    fake_buffer_free(&before);
}

/* ---- transactions --------------------------------------------------------------------------------------- */

static int order_of(int64_t a, int64_t b) {
    return (a > b) - (a < b);
}

/* A key that isn't there has zeros, and no value. */
static bool holds_for(etcd_store *s, const json_t *c, const etcd_record *r) {
    static const etcd_record nothing;
    const char *target = word(c, "target"), *result = word(c, "result");
    const etcd_record *k = r ? r : &nothing;
    int order;
    if (strcmp(target, "VALUE") == 0) {
        if (!r)
            return false;
        order = text_order(k->value, etcd_bytes(s, c, "value"));
    } else {
        order = strcmp(target, "CREATE") == 0 ? order_of(k->created, etcd_int(c, "create_revision"))
                : strcmp(target, "MOD") == 0  ? order_of(k->changed, etcd_int(c, "mod_revision"))
                : strcmp(target, "LEASE") == 0 ? order_of(k->lease, etcd_int(c, "lease"))
                                               : order_of(k->version, etcd_int(c, "version"));
    }
    return strcmp(result, "GREATER") == 0     ? order > 0
           : strcmp(result, "LESS") == 0      ? order < 0
           : strcmp(result, "NOT_EQUAL") == 0 ? order != 0
                                              : order == 0;
}

static bool holds(etcd_store *s, const json_t *c) {
    const etcd_record **found;
    int64_t count;
    json_t *where = json_object();
    json_object_set(where, "key", json_object_get(c, "key"));
    if (json_object_get(c, "range_end"))
        json_object_set(where, "range_end", json_object_get(c, "range_end"));
    size_t n = collect(s, where, INT64_MAX, &found, &count);
    json_decref(where);
    bool all = n > 0 || holds_for(s, c, NULL);
    for (size_t i = 0; i < n; i++)
        all = all && holds_for(s, c, found[i]);
    return all;
}

/* Whichever is executed. */
static etcd_error check_form(etcd_store *s, const json_t *ops) {
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *p = json_object_get(json_array_get(ops, i), "request_put");
        for (size_t k = 0; p && k < json_array_size(ops); k++) {
            const json_t *op = json_array_get(ops, k), *q = json_object_get(op, "request_put");
            const json_t *d = json_object_get(op, "request_delete_range");
            bool same = q && k < i && strcmp(word(p, "key"), word(q, "key")) == 0;
            etcd_span span = etcd_span_of(s, d);
            if (same || (d && etcd_span_has(&span, etcd_bytes(s, p, "key"))))
                return (etcd_error){3, "etcdserver: duplicate key given in txn request"};
        }
    }
    return fine;
}

static etcd_error check_branch(fake_etcd *e, const json_t *ops) {
    for (size_t i = 0; i < json_array_size(ops); i++) {
        const json_t *op = json_array_get(ops, i), *p = json_object_get(op, "request_put");
        etcd_error error = p ? check_put(e, p) : fine;
        if (error.code)
            return error;
        if (json_object_get(op, "request_txn"))
            return (etcd_error){12, "a transaction in a transaction: this etcd is a fake"};
    }
    return fine;
}

static etcd_error do_op(fake_etcd *e, const etcd_request *r, const json_t *op, int64_t revision,
                        fake_buffer *to) {
    const json_t *ask;
    etcd_error error = fine;
    const char *name = (ask = json_object_get(op, "request_range")) ? "range"
                       : (ask = json_object_get(op, "request_put")) ? "put"
                                                                    : "delete_range";
    if (!ask)
        ask = json_object_get(op, "request_delete_range");
    fake_buffer said = {0};
    if (name[0] == 'r')
        error = range(e, r, ask, INT64_MAX - 1, &said);
    else if (name[0] == 'p')
        put(e, ask, revision, &said);
    else
        delete_range(e, ask, revision, &said);
    etcd_say(to, "{\"response_%s\":{\"header\":{\"revision\":\"%lld\"}", name,
             (long long)e->store.revision);
    fake_buffer_add(to, said.p ? said.p : "", said.n);
    etcd_say(to, "}}");
    fake_buffer_free(&said);
    return error;
}

static etcd_error transact(fake_etcd *e, const etcd_request *r) {
    const json_t *compares = json_object_get(r->body, "compare");
    bool succeeded = true;
    etcd_store *s = &e->store;
    for (size_t i = 0; i < json_array_size(compares); i++)
        succeeded = succeeded && holds(s, json_array_get(compares, i));
    const json_t *ops = json_object_get(r->body, succeeded ? "success" : "failure");
    const json_t *others = json_object_get(r->body, succeeded ? "failure" : "success");
    if (json_array_size(compares) > OPS_MAX || json_array_size(ops) > OPS_MAX ||
        json_array_size(others) > OPS_MAX)
        return (etcd_error){3, "etcdserver: too many operations in txn request"};
    etcd_error error = check_form(s, json_object_get(r->body, "success"));
    if (!error.code)
        error = check_form(s, json_object_get(r->body, "failure"));
    if (error.code)
        return error;
    error = check_branch(e, ops);
    if (error.code)
        return error;
    int64_t revision = s->revision + 1;
    fake_buffer said = {0};
    for (size_t i = 0; i < json_array_size(ops) && !error.code; i++) {
        etcd_say(&said, i ? "," : ",\"responses\":[");
        error = do_op(e, r, json_array_get(ops, i), revision, &said);
    }
    if (json_array_size(ops) > 0)
        etcd_say(&said, "]");
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, s->revision, r->to);
    if (succeeded)
        etcd_say(r->to, ",\"succeeded\":true");
    fake_buffer_add(r->to, said.p ? said.p : "", said.n);
    etcd_say(r->to, "}");
    fake_buffer_free(&said);
    return error;
}

/* ---- leases --------------------------------------------------------------------------------------------- */

static etcd_error grant(fake_etcd *e, const etcd_request *r) {
    etcd_store *s = &e->store;
    etcd_lease lease = {.id = etcd_int(r->body, "ID"), .seconds = etcd_int(r->body, "TTL")};
    if (lease.seconds > TTL_MOST_S)
        return (etcd_error){11, "etcdserver: too large lease TTL"};
    if (etcd_store_lease(s, lease.id))
        return (etcd_error){9, "etcdserver: lease already exists"};
    while (lease.id == 0 || etcd_store_lease(s, lease.id))
        lease.id = 7587000000000000000 + s->revision * 1000 + (int64_t)s->leases + lease.id % 7 + 1;
    if (lease.seconds < TTL_LEAST_S)
        lease.seconds = TTL_LEAST_S;
    for (int i = 0; i < FAKE_ETCD_MEMBERS; i++)
        lease.ends[i] = INT64_MAX;
    lease.ends[e->leader] = e->calls.clock(e->calls.ctx, e->leader) + lease.seconds * NS;
    etcd_store_grant(s, &lease);
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, s->revision, r->to);
    etcd_say(r->to, ",\"ID\":\"%lld\",\"TTL\":\"%lld\"}", (long long)lease.id,
             (long long)lease.seconds);
    return fine;
}

static etcd_error revoke(fake_etcd *e, const etcd_request *r) {
    int64_t id = etcd_int(r->body, "ID");
    if (!etcd_store_lease(&e->store, id))
        return (etcd_error){5, "etcdserver: requested lease not found"};
    etcd_store_revoke(&e->store, id);
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, e->store.revision, r->to);
    etcd_say(r->to, "}");
    return fine;
}

static void say_keys_of(const etcd_store *s, int64_t lease, fake_buffer *to) {
    unsigned n = 0;
    for (size_t i = 0; i < s->names; i++) {
        const etcd_record *k = etcd_store_at(s, s->order[i], INT64_MAX);
        if (!k || k->lease != lease)
            continue;
        etcd_say(to, n++ ? ",\"" : ",\"keys\":[\"");
        say_64(to, s->name[k->key].name);
        etcd_say(to, "\"");
    }
    if (n)
        etcd_say(to, "]");
}

/* By whoever calls itself the leader. */
static etcd_error live(fake_etcd *e, const etcd_request *r) {
    int64_t id = etcd_int(r->body, "ID");
    int by = e->member[r->member].leads ? r->member : e->leader;
    etcd_lease *l = etcd_store_lease(&e->store, id);
    int64_t now = e->calls.clock(e->calls.ctx, by);
    bool there = l && l->ends[by] != INT64_MAX;
    etcd_say(r->to, r->kind == ETCD_KEEP ? "{\"result\":{" : "{");
    etcd_say_header(e, r->member, r->view, r->to);
    etcd_say(r->to, ",\"ID\":\"%lld\"", (long long)id);
    if (there && r->kind == ETCD_KEEP) {
        l->ends[by] = now + l->seconds * NS;
        say_int(r->to, "TTL", l->seconds);
    } else if (there) {
        say_int(r->to, "TTL", l->ends[by] > now ? (l->ends[by] - now) / NS : 0);
        say_int(r->to, "grantedTTL", l->seconds);
        if (is_set(r->body, "keys"))
            say_keys_of(&e->store, id, r->to);
    } else if (r->kind == ETCD_TTL) {
        etcd_say(r->to, ",\"TTL\":\"-1\"");
    }
    etcd_say(r->to, r->kind == ETCD_KEEP ? "}}\n" : "}");
    return fine;
}

/* ---- the rest ------------------------------------------------------------------------------------------- */

static etcd_error compact(fake_etcd *e, const etcd_request *r) {
    int64_t revision = etcd_int(r->body, "revision");
    if (revision > e->store.revision)
        return (etcd_error){11, "etcdserver: mvcc: required revision is a future revision"};
    if (revision <= e->store.compacted)
        return (etcd_error){11, "etcdserver: mvcc: required revision has been compacted"};
    e->store.compacted = revision;
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, e->store.revision, r->to);
    etcd_say(r->to, "}");
    return fine;
}

static etcd_error authenticate(fake_etcd *e, const etcd_request *r) {
    if (!e->user[0])
        return (etcd_error){9, "etcdserver: authentication is not enabled"};
    if (strcmp(word(r->body, "name"), e->user) != 0 ||
        strcmp(word(r->body, "password"), e->password) != 0)
        return (etcd_error){3, "etcdserver: authentication failed, invalid user ID or password"};
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, e->store.revision, r->to);
    etcd_say(r->to, ",\"token\":\"fake.%u\"}", ++e->tokens);
    return fine;
}

static void say_status(fake_etcd *e, const etcd_request *r) {
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, r->view, r->to);
    etcd_say(r->to,
             ",\"version\":\"3.4.30\",\"dbSize\":\"20480\",\"leader\":\"%d\","
             "\"raftIndex\":\"%lld\",\"raftTerm\":\"%d\",\"raftAppliedIndex\":\"%lld\","
             "\"dbSizeInUse\":\"16384\"}",
             e->leader + 1, (long long)r->view, e->term, (long long)r->view);
}

static void say_members(fake_etcd *e, const etcd_request *r) {
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, r->view, r->to);
    for (int i = 0; i < e->members; i++)
        etcd_say(r->to,
                 "%s{\"ID\":\"%d\",\"name\":\"m%d\",\"peerURLs\":[\"http://10.0.0.%d:2380\"],"
                 "\"clientURLs\":[\"http://10.0.0.%d:2379\"]}",
                 i ? "," : ",\"members\":[", i + 1, i + 1, i + 1, i + 1);
    etcd_say(r->to, "]}");
}

static void say_alarms(fake_etcd *e, const etcd_request *r) {
    etcd_say(r->to, "{");
    if (e->store.alarm)
        etcd_say(r->to, "\"alarms\":[{\"memberID\":\"1\",\"alarm\":\"NOSPACE\"}]");
    etcd_say(r->to, "}");
}

/* One of them alone: its revision is the next. */
static etcd_error change(fake_etcd *e, const etcd_request *r) {
    bool puts = r->kind == ETCD_PUT;
    etcd_error error = puts ? check_put(e, r->body) : fine;
    fake_buffer said = {0};
    if (error.code)
        return error;
    (puts ? put : delete_range)(e, r->body, e->store.revision + 1, &said);
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, e->store.revision, r->to);
    fake_buffer_add(r->to, said.p ? said.p : "", said.n);
    etcd_say(r->to, "}");
    fake_buffer_free(&said);
    return fine;
}

static etcd_error look(fake_etcd *e, const etcd_request *r) {
    etcd_say(r->to, "{");
    etcd_say_header(e, r->member, r->view, r->to);
    etcd_error error = range(e, r, r->body, r->view, r->to);
    etcd_say(r->to, "}");
    return error;
}

static etcd_error execute(fake_etcd *e, const etcd_request *r) {
    switch (r->kind) {
    case ETCD_RANGE: return look(e, r);
    case ETCD_PUT:
    case ETCD_DELETE: return change(e, r);
    case ETCD_TXN: return transact(e, r);
    case ETCD_COMPACT: return compact(e, r);
    case ETCD_GRANT: return grant(e, r);
    case ETCD_REVOKE: return revoke(e, r);
    case ETCD_TTL:
    case ETCD_KEEP: return live(e, r);
    case ETCD_AUTH: return authenticate(e, r);
    case ETCD_STATUS: say_status(e, r); return fine;
    case ETCD_MEMBERS: say_members(e, r); return fine;
    case ETCD_ALARM: say_alarms(e, r); return fine;
    default: return (etcd_error){5, "Not Found"};
    }
}

static bool has_put(const json_t *ops) {
    bool any = false;
    for (size_t i = 0; i < json_array_size(ops); i++)
        any = any || json_object_get(json_array_get(ops, i), "request_put");
    return any;
}

/* Of a transaction either branch counts, whichever is executed. */
static bool takes_space(const etcd_request *r) {
    bool txn = r->kind == ETCD_TXN && (has_put(json_object_get(r->body, "success")) ||
                                       has_put(json_object_get(r->body, "failure")));
    return txn || r->kind == ETCD_PUT || r->kind == ETCD_GRANT;
}

/* Without space the first of these raises the alarm, and may be executed all the same; those after it aren't. */
etcd_error etcd_execute(fake_etcd *e, const etcd_request *r) {
    static const etcd_error no_space = {8, "etcdserver: mvcc: database space exceeded"};
    if (!e->store.full || !takes_space(r))
        return execute(e, r);
    bool refused = e->store.alarm || e->calls.choose(e->calls.ctx, 2) == 0;
    etcd_error error = refused ? no_space : execute(e, r);
    e->store.alarm = true;
    e->crossed += !refused && !error.code;
    return error.code ? error : no_space;
}

etcd_kind etcd_kind_of(tl_bytes path) {
    static const char *const paths[] = {[ETCD_RANGE] = "kv/range",
                                        [ETCD_PUT] = "kv/put",
                                        [ETCD_DELETE] = "kv/deleterange",
                                        [ETCD_TXN] = "kv/txn",
                                        [ETCD_COMPACT] = "kv/compaction",
                                        [ETCD_GRANT] = "lease/grant",
                                        [ETCD_REVOKE] = "lease/revoke",
                                        [ETCD_TTL] = "lease/timetolive",
                                        [ETCD_KEEP] = "lease/keepalive",
                                        [ETCD_AUTH] = "auth/authenticate",
                                        [ETCD_STATUS] = "maintenance/status",
                                        [ETCD_MEMBERS] = "cluster/member/list",
                                        [ETCD_ALARM] = "maintenance/alarm",
                                        [ETCD_WATCH] = "watch"};
    for (size_t i = ETCD_RANGE; i <= ETCD_WATCH; i++)
        if (tl__bytes_eq(path, tl__bytes_of(paths[i])))
            return (etcd_kind)i;
    if (tl__bytes_eq(path, TL_LITERAL("kv/lease/revoke")))
        return ETCD_REVOKE;
    return tl__bytes_eq(path, TL_LITERAL("kv/lease/timetolive")) ? ETCD_TTL : ETCD_UNKNOWN;
}
