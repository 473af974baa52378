/*
 * The fake etcd's connections and members: HTTP in and out, who may execute what now, who has heard of what, watches.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fake_etcd_inside.h"

#define NS INT64_C(1000000000)
#define OWN_MS 7000       /* no request waits for longer, whatever it says */
#define CHUNKED_FROM 2048 /* a longer answer comes in chunks */
#define ELECTION_NS NS    /* leases last for so long more when another leads */
#define NOBODY (-1)

typedef struct {
    int64_t id, next; /* next: the first revision that hasn't been told */
    etcd_span span;
    bool on, no_put, no_delete, before;
} watcher;

struct fake_etcd_conn {
    fake_etcd *e;
    fake_etcd_conn *next;
    void *ctx;
    int member;
    fake_buffer in;
    bool waits, watches, wedged, ended, needs_leader, feeds;
    uint32_t number; /* of what waits */
    int64_t limit_ms;
    watcher *watcher;
    size_t watchers, room;
    int64_t ids; /* given by the server */
};

/* What can't be executed yet. */
typedef struct etcd_entry {
    int member; /* NOBODY: whoever leads */
    etcd_kind kind;
    json_t *body;
    fake_etcd_conn *conn; /* NULL: nobody waits for the answer any more */
    void *by;
    bool late; /* not before fake_etcd_late */
} entry;

/* ---- life ----------------------------------------------------------------------------------------------- */

fake_etcd *fake_etcd_new(const fake_etcd_calls *calls) {
    fake_etcd *e = calloc(1, sizeof *e);
    if (!e)
        abort();
    e->calls = *calls;
    fake_etcd_reset(e, 1);
    return e;
}

static void drop_entry(fake_etcd *e, size_t i) {
    json_decref(e->entry[i].body);
    memmove(e->entry + i, e->entry + i + 1, (--e->entries - i) * sizeof *e->entry);
}

void fake_etcd_reset(fake_etcd *e, int members) {
    while (e->conns)
        fake_etcd_close(e->conns);
    while (e->entries > 0)
        drop_entry(e, e->entries - 1);
    etcd_store_reset(&e->store);
    e->members = members;
    e->leader = 0;
    e->term = 2;
    e->tokens = e->tokens_from = e->doubt = e->waits = e->crossed = 0;
    e->told = 0;
    e->user[0] = '\0';
    for (int i = 0; i < members; i++) {
        e->member[i].runs = e->member[i].reaches = true;
        e->member[i].leads = i == 0;
        e->member[i].lost = false;
        e->member[i].view = e->store.revision;
    }
}

void fake_etcd_free(fake_etcd *e) {
    if (!e)
        return;
    fake_etcd_reset(e, 1);
    etcd_store_free(&e->store);
    fake_buffer_free(&e->scratch);
    free(e->entry);
    free(e);
}

void fake_etcd_set_user(fake_etcd *e, const char *name, const char *password) {
    (void)snprintf(e->user, sizeof e->user, "%s", name ? name : "");
    (void)snprintf(e->password, sizeof e->password, "%s", name ? password : "");
}

fake_etcd_conn *fake_etcd_connect(fake_etcd *e, int member, void *ctx) {
    fake_etcd_conn *c = calloc(1, sizeof *c);
    if (!c)
        abort();
    c->e = e;
    c->ctx = ctx;
    c->member = member;
    c->next = e->conns;
    e->conns = c;
    return c;
}

void fake_etcd_close(fake_etcd_conn *c) {
    if (!c)
        return;
    fake_etcd_conn **at = &c->e->conns;
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    for (size_t i = 0; i < c->e->entries; i++)
        if (c->e->entry[i].conn == c) {
            c->e->entry[i].conn = NULL;
            c->e->entry[i].by = NULL;
        }
    fake_buffer_free(&c->in);
    free(c->watcher);
    free(c);
}

/* ---- answers -------------------------------------------------------------------------------------------- */

static void send(fake_etcd_conn *c, const char *bytes, size_t n) {
    c->e->calls.send(c->e->calls.ctx, c->ctx, bytes, n);
}

static int status_of(int code) {
    static const int statuses[17] = {[3] = 400, [4] = 504,  [5] = 404,  [7] = 403,  [8] = 429,
                                     [9] = 412, [11] = 400, [12] = 501, [14] = 503, [16] = 401};
    return code == 0 ? 200 : statuses[code] ? statuses[code] : 500;
}

static void answer(fake_etcd_conn *c, int status, tl_bytes body) {
    fake_buffer head = {0};
    bool chunked = body.n >= CHUNKED_FROM;
    etcd_say(&head, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", status,
             status == 200 ? "OK" : "Error");
    if (chunked)
        etcd_say(&head, "Transfer-Encoding: chunked\r\n\r\n%zx\r\n", body.n);
    else
        etcd_say(&head, "Content-Length: %zu\r\n\r\n", body.n);
    fake_buffer_add(&head, body.p, body.n);
    if (chunked)
        etcd_say(&head, "\r\n0\r\n\r\n");
    send(c, head.p, head.n);
    fake_buffer_free(&head);
}

static void refuse(fake_etcd_conn *c, etcd_error error) {
    char body[400];
    int n = snprintf(body, sizeof body, "{\"error\":\"%s\",\"code\":%d,\"message\":\"%s\"}",
                     error.message, error.code, error.message);
    answer(c, status_of(error.code), tl__bytes(body, (size_t)n));
}

/* ---- watches -------------------------------------------------------------------------------------------- */

static void say_chunk(fake_etcd_conn *c, tl_bytes line) {
    fake_buffer b = {0};
    if (c->wedged)
        return;
    etcd_say(&b, "%zx\r\n", line.n);
    fake_buffer_add(&b, line.p, line.n);
    etcd_say(&b, "\r\n");
    send(c, b.p, b.n);
    fake_buffer_free(&b);
}

static void begin_message(fake_etcd_conn *c, int64_t id, fake_buffer *to) {
    to->n = 0;
    etcd_say(to, "{\"result\":{");
    etcd_say_header(c->e, c->member, c->e->member[c->member].view, to);
    if (id)
        etcd_say(to, ",\"watch_id\":\"%lld\"", (long long)id);
}

static void end_message(fake_etcd_conn *c, fake_buffer *b) {
    etcd_say(b, "}}\n");
    say_chunk(c, tl__bytes(b->p, b->n));
}

static void cancel(fake_etcd_conn *c, watcher *w, int64_t compacted) {
    fake_buffer *b = &c->e->scratch;
    w->on = false;
    begin_message(c, w->id, b);
    etcd_say(b, ",\"canceled\":true");
    if (compacted)
        etcd_say(b, ",\"compact_revision\":\"%lld\"", (long long)compacted);
    end_message(c, b);
}

static size_t record_from(const etcd_store *s, int64_t revision) {
    size_t lo = 0, hi = s->records;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (s->record[mid].changed < revision)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static void say_event(fake_etcd_conn *c, const watcher *w, const etcd_record *r, fake_buffer *b) {
    const etcd_store *s = &c->e->store;
    etcd_say(b, r->deleted ? "{\"type\":\"DELETE\",\"kv\":" : "{\"kv\":");
    etcd_say_key(s, r, true, b);
    if (w->before && r->before >= 0 && !s->record[r->before].deleted) {
        etcd_say(b, ",\"prev_kv\":");
        etcd_say_key(s, &s->record[r->before], true, b);
    }
    etcd_say(b, "}");
}

/* What the member has heard of since. */
static void tell_watcher(fake_etcd_conn *c, watcher *w) {
    const etcd_store *s = &c->e->store;
    fake_buffer *b = &c->e->scratch;
    int64_t view = c->e->member[c->member].view;
    unsigned n = 0;
    if (w->next < s->compacted) { /* it was too slow */
        cancel(c, w, s->compacted);
        return;
    }
    for (size_t i = record_from(s, w->next); i < s->records && s->record[i].changed <= view; i++) {
        const etcd_record *r = &s->record[i];
        if (!etcd_span_has(&w->span, s->name[r->key].name) ||
            (r->deleted ? w->no_delete : w->no_put))
            continue;
        if (n == 0)
            begin_message(c, w->id, b);
        etcd_say(b, n++ ? "," : ",\"events\":[");
        say_event(c, w, r, b);
    }
    if (w->next <= view)
        w->next = view + 1;
    if (n == 0)
        return;
    etcd_say(b, "]");
    end_message(c, b);
}

static void tell_conn(fake_etcd_conn *c) {
    for (size_t i = 0; i < c->watchers; i++)
        if (c->watcher[i].on)
            tell_watcher(c, &c->watcher[i]);
}

static bool has_filter(const json_t *ask, const char *name, const char *number) {
    const json_t *filters = json_object_get(ask, "filters");
    for (size_t i = 0; i < json_array_size(filters); i++) {
        const char *text = json_string_value(json_array_get(filters, i));
        if (text && (strcmp(text, name) == 0 || strcmp(text, number) == 0))
            return true;
    }
    return false;
}

static void create(fake_etcd_conn *c, const json_t *ask) {
    etcd_store *s = &c->e->store;
    fake_buffer *b = &c->e->scratch;
    int64_t start = etcd_int(ask, "start_revision"), id = etcd_int(ask, "watch_id");
    if (c->watchers == c->room) {
        c->room = c->room ? c->room * 2 : 8;
        c->watcher = realloc(c->watcher, c->room * sizeof *c->watcher);
        if (!c->watcher)
            abort();
    }
    watcher *w = &c->watcher[c->watchers++];
    *w = (watcher){.id = id ? id : c->ids++,
                   .span = etcd_span_of(s, ask),
                   .on = true,
                   .no_put = has_filter(ask, "NOPUT", "0"),
                   .no_delete = has_filter(ask, "NODELETE", "1"),
                   .before = json_is_true(json_object_get(ask, "prev_kv"))};
    w->next = start > 0 ? start : c->e->member[c->member].view + 1;
    begin_message(c, w->id, b);
    etcd_say(b, ",\"created\":true");
    end_message(c, b);
    tell_watcher(c, w);
}

static void end_stream(fake_etcd_conn *c, etcd_error error) {
    fake_buffer b = {0};
    etcd_say(&b,
             "{\"error\":{\"grpc_code\":%d,\"http_code\":%d,\"message\":\"%s\","
             "\"http_status\":\"Error\"}}\n",
             error.code, status_of(error.code), error.message);
    say_chunk(c, tl__bytes(b.p, b.n));
    if (!c->wedged)
        send(c, "0\r\n\r\n", 5);
    c->ended = true;
    c->watches = false;
    c->watchers = 0;
    fake_buffer_free(&b);
}

/* One request or more, one behind the other. */
static void watch(fake_etcd_conn *c, tl_bytes body) {
    static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                               "Transfer-Encoding: chunked\r\n\r\n";
    json_error_t at;
    send(c, head, sizeof head - 1);
    c->watches = true;
    while (body.n > 0) {
        json_t *ask = json_loadb(body.p, body.n, JSON_DISABLE_EOF_CHECK, &at);
        if (!ask)
            break;
        const json_t *made = json_object_get(ask, "create_request");
        const json_t *over = json_object_get(ask, "cancel_request");
        if (made)
            create(c, made);
        for (size_t i = 0; over && i < c->watchers; i++)
            if (c->watcher[i].on && c->watcher[i].id == etcd_int(over, "watch_id"))
                cancel(c, &c->watcher[i], 0);
        json_decref(ask);
        body = tl__bytes(body.p + at.position, body.n - (size_t)at.position);
    }
}

/* ---- members -------------------------------------------------------------------------------------------- */

static bool is_live(const fake_etcd *e, int i) {
    return e->member[i].runs && e->member[i].reaches;
}

bool fake_etcd_has_quorum(const fake_etcd *e) {
    int n = 0;
    for (int i = 0; i < e->members; i++)
        n += is_live(e, i);
    return n > e->members / 2;
}

int fake_etcd_leader(const fake_etcd *e) {
    return e->leader;
}

bool fake_etcd_is_led(const fake_etcd *e) {
    return is_live(e, e->leader) && e->member[e->leader].leads && fake_etcd_has_quorum(e);
}

bool fake_etcd_is_stale(const fake_etcd *e, int i) {
    return e->member[i].leads && i != e->leader;
}

bool fake_etcd_is_behind(const fake_etcd *e, int i) {
    return e->member[i].view < e->store.revision;
}

/* May what was asked of this one be executed now? */
static bool is_served(const fake_etcd *e, int member) {
    if (!fake_etcd_is_led(e))
        return false;
    return member == NOBODY || (is_live(e, member) && !fake_etcd_is_stale(e, member));
}

/* Of each change, once. */
static void tell_changes(fake_etcd *e) {
    const etcd_store *s = &e->store;
    for (; e->told < s->records; e->told++) {
        const etcd_record *r = &s->record[e->told];
        const etcd_record *k = r->deleted && r->before >= 0 ? &s->record[r->before] : r;
        const fake_etcd_key key = {.key = s->name[r->key].name,
                                   .value = k->value,
                                   .created = k->created,
                                   .changed = r->changed,
                                   .lease = k->lease,
                                   .deleted = r->deleted};
        if (e->calls.changed)
            e->calls.changed(e->calls.ctx, e->by, &key);
    }
}

void fake_etcd_catch_up(fake_etcd *e, int member) {
    e->member[member].view = e->store.revision;
    for (fake_etcd_conn *c = e->conns; c; c = c->next)
        if (c->member == member && c->watches)
            tell_conn(c);
}

/* Done by the leader; whoever was asked knows of it, and answers. */
static void execute(fake_etcd *e, int member, etcd_kind kind, const json_t *body, fake_etcd_conn *c,
                    void *by) {
    fake_buffer said = {0};
    int at = member == NOBODY ? e->leader : member;
    bool behind = fake_etcd_is_behind(e, at);
    int64_t before = e->store.revision;
    const etcd_request r = {.kind = kind, .member = at, .view = before, .body = body, .to = &said};
    e->member[at].view = before;
    e->by = by;
    etcd_error error = etcd_execute(e, &r);
    e->member[at].view = e->member[e->leader].view = e->store.revision;
    tell_changes(e);
    e->by = NULL;
    if (c && error.code)
        refuse(c, error);
    else if (c)
        answer(c, 200, tl__bytes(said.p, said.n));
    fake_buffer_free(&said);
    if (behind || before != e->store.revision)
        fake_etcd_catch_up(e, at);
    if (before != e->store.revision && e->leader != at)
        fake_etcd_catch_up(e, e->leader);
}

static void serve(fake_etcd_conn *c);

/* In the order that it was asked in. */
static void settle(fake_etcd *e) {
    for (size_t i = 0; i < e->entries;) {
        entry one = e->entry[i];
        if (one.late || !is_served(e, one.member)) {
            i++;
            continue;
        }
        json_incref(one.body);
        drop_entry(e, i);
        if (one.conn)
            one.conn->waits = false;
        execute(e, one.member, one.kind, one.body, one.conn, one.by);
        json_decref(one.body);
        if (one.conn)
            serve(one.conn);
        i = 0;
    }
}

void fake_etcd_set_member(fake_etcd *e, int member, bool runs, bool reaches) {
    e->member[member].runs = runs;
    e->member[member].reaches = reaches;
    if (fake_etcd_is_led(e))
        for (int i = 0; i < e->members; i++)
            e->member[i].lost = e->member[i].lost && !is_live(e, i);
    settle(e);
}

/* From here on it measures no leases. */
static void demote(fake_etcd *e, int member) {
    e->member[member].leads = false;
    for (size_t i = 0; i < e->store.leases; i++)
        e->store.lease[i].ends[member] = INT64_MAX;
}

static bool changes(etcd_kind kind) {
    return kind != ETCD_RANGE && kind != ETCD_TTL && kind != ETCD_KEEP;
}

void fake_etcd_kill(fake_etcd *e, int member) {
    e->member[member].runs = false;
    demote(e, member); /* when it is back, it has to be elected */
    for (size_t i = e->entries; i-- > 0;) {
        entry *one = &e->entry[i];
        if (one->member != member)
            continue;
        if (changes(one->kind) && e->calls.choose(e->calls.ctx, 4) == 0)
            *one = (entry){.member = NOBODY, .kind = one->kind, .body = one->body};
        else
            drop_entry(e, i);
    }
}

/* What it was asked when it couldn't do anything may have been known to the next already. */
void fake_etcd_elect(fake_etcd *e, int member) {
    int former = e->leader;
    e->leader = member;
    e->term++;
    if (is_live(e, former) || former == member)
        demote(e, former);
    e->member[member].leads = true;
    for (int i = 0; i < e->members; i++)
        e->member[i].lost = e->member[i].lost && !is_live(e, i);
    for (size_t i = 0; i < e->store.leases; i++)
        e->store.lease[i].ends[member] = e->calls.clock(e->calls.ctx, member) +
                                         e->store.lease[i].seconds * NS + ELECTION_NS;
    for (size_t i = 0; i < e->entries; i++) {
        entry *one = &e->entry[i];
        if (one->member == former && !is_live(e, former) && changes(one->kind) &&
            e->calls.choose(e->calls.ctx, 4) == 0)
            *one = (entry){
                .member = NOBODY, .kind = one->kind, .body = one->body, .late = one->late};
    }
    fake_etcd_catch_up(e, member);
    settle(e);
}

/* What it had taken for its own to decide is lost, or handed on. */
void fake_etcd_learn(fake_etcd *e, int member) {
    bool was = fake_etcd_is_stale(e, member);
    if (member != e->leader)
        demote(e, member);
    e->member[member].lost = false;
    for (size_t i = was ? e->entries : 0; i-- > 0;)
        if (e->entry[i].member == member && changes(e->entry[i].kind) &&
            e->calls.choose(e->calls.ctx, 2) == 0)
            drop_entry(e, i); /* who waits for it is told that its time is up */
    fake_etcd_catch_up(e, member);
    settle(e);
}

void fake_etcd_orphan(fake_etcd *e, int member) {
    static const etcd_error error = {14, "etcdserver: no leader"};
    if (is_served(e, member))
        return;
    e->member[member].lost = true;
    for (fake_etcd_conn *c = e->conns; c; c = c->next)
        if (c->member == member && c->watches && c->needs_leader)
            end_stream(c, error);
}

/* ---- requests ------------------------------------------------------------------------------------------- */

static void add_entry(fake_etcd *e, entry one) {
    if (e->entries == e->entry_room) {
        e->entry_room = e->entry_room ? e->entry_room * 2 : 16;
        e->entry = realloc(e->entry, e->entry_room * sizeof *e->entry);
        if (!e->entry)
            abort();
    }
    json_incref(one.body);
    e->entry[e->entries++] = one;
}

void fake_etcd_give_up(fake_etcd_conn *c, uint32_t number) {
    fake_etcd *e = c->e;
    if (!c->waits || c->number != number)
        return;
    for (size_t i = e->entries; i-- > 0;) {
        if (e->entry[i].conn != c)
            continue;
        e->entry[i].conn = NULL;
        if (!changes(e->entry[i].kind))
            drop_entry(e, i);
    }
    c->waits = false;
    refuse(c, c->limit_ms < OWN_MS ? (etcd_error){4, "context deadline exceeded"}
                                   : (etcd_error){14, "etcdserver: request timed out"});
    serve(c);
}

static void await(fake_etcd_conn *c, etcd_kind kind, json_t *body) {
    fake_etcd *e = c->e;
    c->waits = true;
    c->number = ++e->waits;
    add_entry(e, (entry){.member = c->member, .kind = kind, .body = body, .conn = c, .by = c->ctx});
    e->calls.waits(e->calls.ctx, c->ctx, c->number, c->limit_ms);
}

void fake_etcd_set_doubt(fake_etcd *e, uint32_t ways) {
    e->doubt = ways;
}

/* Half of what was told to have failed was known to a majority. */
void fake_etcd_late(fake_etcd *e) {
    for (size_t i = e->entries; i-- > 0;) {
        e->entry[i].late = e->entry[i].late && false;
        if (e->entry[i].member == NOBODY && !e->entry[i].conn &&
            e->calls.choose(e->calls.ctx, 2) == 0)
            drop_entry(e, i);
    }
    settle(e);
}

static bool is_doubted(fake_etcd_conn *c, etcd_kind kind, json_t *body) {
    static const etcd_error errors[] = {{14, "etcdserver: request timed out"},
                                        {14, "etcdserver: leader changed"},
                                        {4, "context deadline exceeded"},
                                        {2, "raft: stopped"}};
    fake_etcd *e = c->e;
    if (!e->doubt || !changes(kind) || e->calls.choose(e->calls.ctx, e->doubt) != 0)
        return false;
    add_entry(e, (entry){.member = NOBODY, .kind = kind, .body = body, .late = true});
    refuse(c, errors[e->calls.choose(e->calls.ctx, 4)]);
    return true;
}

static bool is_local(const fake_etcd_conn *c, etcd_kind kind, const json_t *body) {
    bool reads = kind == ETCD_RANGE && json_is_true(json_object_get(body, "serializable"));
    bool asks = kind == ETCD_STATUS || kind == ETCD_MEMBERS || kind == ETCD_ALARM;
    bool leads = (kind == ETCD_TTL || kind == ETCD_KEEP) && c->e->member[c->member].leads;
    return reads || asks || leads;
}

/* By what this member knows. */
static void answer_here(fake_etcd_conn *c, etcd_kind kind, const json_t *body) {
    fake_buffer said = {0};
    const etcd_request r = {.kind = kind,
                            .member = c->member,
                            .view = c->e->member[c->member].view,
                            .body = body,
                            .to = &said};
    etcd_error error = etcd_execute(c->e, &r);
    if (error.code)
        refuse(c, error);
    else
        answer(c, 200, tl__bytes(said.p, said.n));
    fake_buffer_free(&said);
}

static void ask(fake_etcd_conn *c, etcd_kind kind, json_t *body) {
    static const etcd_error no_leader = {14, "etcdserver: no leader"};
    fake_etcd *e = c->e;
    if (is_local(c, kind, body))
        answer_here(c, kind, body);
    else if (is_doubted(c, kind, body))
        return;
    else if (is_served(e, c->member))
        execute(e, c->member, kind, body, c, c->ctx);
    else if (e->member[c->member].lost && e->calls.choose(e->calls.ctx, 2) == 0)
        refuse(c, no_leader);
    else
        await(c, kind, body);
}

static etcd_error check_token(const fake_etcd *e, etcd_kind kind, tl_bytes token) {
    static const char begin[] = "fake.";
    int64_t n = 0;
    if (!e->user[0] || kind == ETCD_AUTH || kind == ETCD_STATUS)
        return (etcd_error){0};
    if (token.n == 0)
        return (etcd_error){3, "etcdserver: user name is empty"};
    if (token.n > sizeof begin - 1 && memcmp(token.p, begin, sizeof begin - 1) == 0)
        (void)tl__bytes_to_int(tl__bytes(token.p + sizeof begin - 1, token.n - (sizeof begin - 1)),
                               &n);
    if (n > e->tokens_from && n <= e->tokens)
        return (etcd_error){0};
    return (etcd_error){16, "etcdserver: invalid auth token"};
}

void fake_etcd_forget_tokens(fake_etcd *e) {
    e->tokens_from = e->tokens;
}

/* ---- HTTP ----------------------------------------------------------------------------------------------- */

typedef struct {
    tl_bytes path, token, body;
    int64_t timeout_ms;
    bool needs_leader;
} request;

/* A header's value; n 0: there is none. */
static tl_bytes header(tl_bytes head, const char *name) {
    size_t n = strlen(name);
    for (const char *p = head.p, *end = head.p + head.n; p < end;) {
        const char *line = memchr(p, '\n', (size_t)(end - p));
        size_t length = (size_t)((line ? line : end) - p);
        if (length > n && strncasecmp(p, name, n) == 0 && p[n] == ':') {
            tl_bytes v = tl__bytes(p + n + 1, length - n - 1);
            while (v.n && (*v.p == ' '))
                v = tl__bytes(v.p + 1, v.n - 1);
            while (v.n && (v.p[v.n - 1] == '\r' || v.p[v.n - 1] == ' '))
                v.n--;
            return v;
        }
        p += length + 1;
    }
    return (tl_bytes){0};
}

static int64_t number_of(tl_bytes text) {
    int64_t n = 0;
    for (size_t i = 0; i < text.n && text.p[i] >= '0' && text.p[i] <= '9'; i++)
        n = n * 10 + (text.p[i] - '0');
    return n;
}

/* How many bytes the first request has; 0: it isn't whole yet. */
static size_t read_request(tl_bytes in, request *ret) {
    const char *end = in.n ? memmem(in.p, in.n, "\r\n\r\n", 4) : NULL;
    if (!end)
        return 0;
    size_t n = (size_t)(end - in.p) + 4;
    tl_bytes head = tl__bytes(in.p, n), path = {0};
    int64_t body = number_of(header(head, "Content-Length"));
    if (in.n - n < (size_t)body)
        return 0;
    const char *from = memmem(in.p, n, "/v3/", 4), *to = from ? strchr(from, ' ') : NULL;
    if (to && to < end)
        path = tl__bytes(from + 4, (size_t)(to - from) - 4);
    tl_bytes timeout = header(head, "Grpc-Timeout");
    int64_t unit = timeout.n && timeout.p[timeout.n - 1] == 'S' ? 1000 : 1;
    *ret = (request){.path = path,
                     .token = header(head, "Authorization"),
                     .body = tl__bytes(in.p + n, (size_t)body),
                     .timeout_ms = number_of(timeout) * unit,
                     .needs_leader = header(head, "Grpc-Metadata-hasleader").n > 0};
    return n + (size_t)body;
}

static void take(fake_etcd_conn *c, const request *r) {
    static const etcd_error no_leader = {14, "etcdserver: no leader"};
    etcd_kind kind = etcd_kind_of(r->path);
    etcd_error error = check_token(c->e, kind, r->token);
    json_error_t at;
    if (kind == ETCD_UNKNOWN)
        error = (etcd_error){5, "Not Found"};
    if (error.code) {
        refuse(c, error);
        return;
    }
    if (kind == ETCD_WATCH) {
        c->needs_leader = r->needs_leader;
        watch(c, r->body);
        if (c->needs_leader && c->e->member[c->member].lost)
            end_stream(c, no_leader);
        return;
    }
    json_t *body = json_loadb(r->body.p, r->body.n, 0, &at);
    c->limit_ms = r->timeout_ms > 0 && r->timeout_ms < OWN_MS ? r->timeout_ms : OWN_MS;
    if (body)
        ask(c, kind, body);
    else
        refuse(c, (etcd_error){3, "invalid character"});
    json_decref(body);
}

/* One at a time; a stream that has ended is no more use. */
static void serve(fake_etcd_conn *c) {
    request r;
    size_t n;
    if (c->feeds)
        return;
    c->feeds = true;
    while (!c->waits && !c->watches && !c->ended &&
           (n = read_request(tl__bytes(c->in.p, c->in.n), &r)) > 0) {
        take(c, &r);
        fake_buffer_cut(&c->in, n);
    }
    c->feeds = false;
}

void fake_etcd_feed(fake_etcd_conn *c, const char *bytes, size_t n) {
    fake_buffer_add(&c->in, bytes, n);
    serve(c);
}

/* ---- what befalls it ------------------------------------------------------------------------------------ */

static void end_lease(fake_etcd *e, int member, int64_t id) {
    if (member == e->leader) {
        etcd_store_revoke(&e->store, id);
        tell_changes(e);
        return;
    }
    json_t *body = json_object(); /* by one that led: it hands that on */
    char text[24];
    (void)snprintf(text, sizeof text, "%lld", (long long)id);
    json_object_set_new(body, "ID", json_string(text));
    add_entry(e, (entry){.member = member, .kind = ETCD_REVOKE, .body = body});
    json_decref(body);
}

int64_t fake_etcd_expire(fake_etcd *e) {
    int64_t next = INT64_MAX;
    for (int m = 0; m < e->members; m++) {
        bool own = m == e->leader;
        if (!e->member[m].runs || !e->member[m].leads || (own && !fake_etcd_is_led(e)))
            continue;
        int64_t now = e->calls.clock(e->calls.ctx, m);
        for (size_t i = e->store.leases; i-- > 0;) {
            etcd_lease *l = &e->store.lease[i];
            if (l->ends[m] <= now) {
                l->ends[m] = own ? l->ends[m] : INT64_MAX; /* once */
                end_lease(e, m, l->id);
            } else if (own && l->ends[m] < next) {
                next = l->ends[m];
            }
        }
    }
    if (e->member[e->leader].view < e->store.revision)
        fake_etcd_catch_up(e, e->leader);
    return next;
}

void fake_etcd_set_full(fake_etcd *e, bool full) {
    e->store.full = full;
    e->store.alarm = false;
}

uint32_t fake_etcd_crossed(const fake_etcd *e) {
    return e->crossed;
}

void fake_etcd_compact(fake_etcd *e) {
    e->store.compacted = e->store.revision;
}

void fake_etcd_wedge(fake_etcd *e) {
    for (fake_etcd_conn *c = e->conns; c; c = c->next)
        if (c->watches && !c->wedged) {
            c->wedged = true;
            return;
        }
}

void fake_etcd_delete(fake_etcd *e, tl_bytes prefix) {
    etcd_span span = {.key = prefix, .has_end = true};
    char *end = etcd_store_room(&e->store, prefix.n);
    memcpy(end, prefix.p, prefix.n);
    end[prefix.n - 1]++;
    span.end = tl__bytes(end, prefix.n);
    (void)etcd_store_delete(&e->store, &span, e->store.revision + 1);
    tell_changes(e);
    fake_etcd_catch_up(e, e->leader);
}

/* ---- looking -------------------------------------------------------------------------------------------- */

int64_t fake_etcd_revision(const fake_etcd *e) {
    return e->store.revision;
}

static fake_etcd_key key_of(const etcd_store *s, const etcd_record *r) {
    return (fake_etcd_key){.key = s->name[r->key].name,
                           .value = r->value,
                           .created = r->created,
                           .changed = r->changed,
                           .lease = r->lease};
}

bool fake_etcd_find(const fake_etcd *e, tl_bytes key, fake_etcd_key *ret) {
    const etcd_record *r = etcd_store_now(&e->store, key);
    if (r)
        *ret = key_of(&e->store, r);
    return r != NULL;
}

bool fake_etcd_first(const fake_etcd *e, tl_bytes prefix, fake_etcd_key *ret) {
    const etcd_store *s = &e->store;
    const etcd_record *first = NULL;
    for (size_t i = etcd_store_from(s, prefix); i < s->names; i++) {
        tl_bytes name = s->name[s->order[i]].name;
        if (name.n < prefix.n || memcmp(name.p, prefix.p, prefix.n) != 0)
            break;
        const etcd_record *r = etcd_store_at(s, s->order[i], INT64_MAX);
        if (r && (!first || r->created < first->created))
            first = r;
    }
    if (first)
        *ret = key_of(s, first);
    return first != NULL;
}

int64_t fake_etcd_ends(const fake_etcd *e, int64_t lease, int member) {
    const etcd_lease *l = etcd_store_lease(&e->store, lease);
    return l ? l->ends[member] : 0;
}

int64_t fake_etcd_lease(const fake_etcd *e, size_t i, int64_t *ret_seconds) {
    if (i >= e->store.leases)
        return 0;
    *ret_seconds = e->store.lease[i].seconds;
    return e->store.lease[i].id;
}
