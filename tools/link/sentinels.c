/*
 * Asking Sentinels, each in a thread of its own: one that is cut off must not hold up the others. What follows from
 * their answers is the library's judgement.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "link/sentinels.h"

typedef struct {
    sentinels *all;
    unsigned which;
    const server_link *like;
    char run_id[64];
    char host[TL_HOST_SIZE]; /* the master's, */
    char port[8];
    bool named;
    tl_sentinel_view view;
    unsigned others; /* whom it knows beside itself */
    sentinel other[SENTINELS_MOST];
} question;

/* ---- one of them ----------------------------------------------------------------------------- */

static bool take_info(void *ctx, const tl_reply *reply) {
    question *q = ctx;
    tl_bytes text;

    return tl__reply_text(reply, &text) &&
           (info_field(text, "run_id", q->run_id, sizeof q->run_id) || true);
}

static bool take_id(void *ctx, const tl_reply *reply) {
    question *q = ctx;

    tl__sentinel_view_read_id(&q->view, reply);
    return true;
}

static bool take_address(void *ctx, const tl_reply *reply) {
    question *q = ctx;
    tl_bytes host, port;

    q->named = reply->type == TL_REPLY_ARRAY && reply->count == 2;
    if (!q->named)
        return reply->type == TL_REPLY_NIL;
    if (!tl__reply_text(&reply->items[0], &host) || !tl__reply_text(&reply->items[1], &port) ||
        host.n >= sizeof q->host || port.n >= sizeof q->port)
        return false;
    memcpy(q->host, host.p, host.n);
    memcpy(q->port, port.p, port.n);
    return true;
}

/* 0: it isn't told. */
static int64_t number_of(const tl_reply *master, const char *field) {
    tl_bytes name, value;
    int64_t number = 0;

    for (size_t i = 0; i + 1 < master->count; i += 2)
        if (tl__reply_text(&master->items[i], &name) && tl__bytes_eq(name, tl__bytes_of(field)) &&
            tl__reply_text(&master->items[i + 1], &value))
            (void)tl__bytes_to_int(value, &number);
    return number;
}

/* Only whether two are the same matters. */
static uint64_t hash(const char *text) {
    return tl__bytes_hash(0, tl__bytes_of(text));
}

static bool take_master(void *ctx, const tl_reply *reply) {
    question *q = ctx;
    tl_reply part[2] = {{.type = TL_REPLY_STRING, .text = tl__bytes_of(q->host)},
                        {.type = TL_REPLY_STRING, .text = tl__bytes_of(q->port)}};
    tl_reply address = {.type = TL_REPLY_ARRAY, .items = part, .count = 2};

    uint64_t id = q->view.id;

    if (reply->type != TL_REPLY_ARRAY ||
        !tl__sentinel_view_read(&q->view, reply, &address, q->run_id[0] ? hash(q->run_id) : 0))
        return false;
    q->view.id = id;
    q->all->of[q->which].quorum = number_of(reply, "quorum");
    q->all->of[q->which].replicas = number_of(reply, "num-slaves");
    return true;
}

static bool take_others(void *ctx, const tl_reply *reply) {
    question *q = ctx;
    tl_bytes host;
    uint16_t port;

    for (size_t i = 0; reply->type == TL_REPLY_ARRAY && i < reply->count; i++)
        if (q->others < SENTINELS_MOST && tl__sentinel_view_other(&reply->items[i], &host, &port) &&
            host.n < TL_HOST_SIZE) {
            sentinel *s = &q->other[q->others++];
            memcpy(s->host, host.p, host.n);
            s->port = port;
        }
    return true;
}

/* NIL is of a name that it doesn't know, as is an error of the next question. */
static bool ask_for_master(question *q, server_link *l) {
    const char *name = q->all->master;
    const char *const address[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name, NULL},
                      *const master[] = {"SENTINEL", "MASTER", name, NULL},
                      *const others[] = {"SENTINEL", "SENTINELS", name, NULL};

    if (!link_ask(l, address, take_address, q))
        return false;
    if (q->named && link_ask(l, master, take_master, q)) {
        q->view.alone = !link_ask(l, others, take_others, q);
        return !q->view.alone || l->error; /* who may not, may do the rest */
    }
    if (q->named && !(l->error && strstr(l->message, "No such master")))
        return false;
    q->view.kind = TL_VIEW_UNKNOWN;
    q->view.run = q->run_id[0] ? hash(q->run_id) : 0;
    return true;
}

/* An error of its own doesn't say whose it is. */
static void say_why(sentinel *s, const server_link *l) {
    const char *label = l->endpoint.label;

    s->stranger = l->lacks;
    if (s->stranger)
        s->status = STATUS_INTERNAL; /* as the library's TL_ESERVER */
    if (s->stranger)
        (void)snprintf(s->message, sizeof s->message, "%.100s is no Sentinel", label);
    else if (l->error && strncmp(l->message, "NOAUTH", 6) == 0)
        (void)snprintf(s->message, sizeof s->message, "%.100s: the Sentinel asks for a password",
                       label);
    else
        (void)snprintf(s->message, sizeof s->message, l->error ? "%.100s: %.130s" : "%.0s%.230s",
                       label, l->message);
}

static void *ask_one(void *ctx) {
    static const char *const info[] = {"INFO", "server", NULL}, *const id[] = {"SENTINEL", "MYID",
                                                                               NULL};
    question *q = ctx;
    sentinel *s = &q->all->of[q->which];
    server_link l;

    if (!link_open_beside(&l, q->like, s->host, s->port, false)) {
        s->status = STATUS_INTERNAL;
        (void)snprintf(s->message, sizeof s->message, "out of memory");
        return NULL;
    }
    memcpy(s->label, l.endpoint.label, sizeof s->label);
    bool ok = link_ask(&l, info, take_info, q) || l.error; /* who may not, may do the rest */
    ok = ok && (link_ask(&l, id, take_id, q) || l.error);  /* not before 6.2 */
    ok = ok && ask_for_master(q, &l);
    s->status = ok ? 0 : l.status;
    s->message[0] = '\0';
    if (!ok)
        say_why(s, &l);
    q->all->view[q->which] = ok ? q->view : (tl_sentinel_view){.kind = TL_VIEW_NONE};
    link_close(&l);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool is_known(const sentinels *all, const sentinel *s) {
    for (unsigned i = 0; i < all->count; i++)
        if (all->of[i].port == s->port && strcmp(all->of[i].host, s->host) == 0)
            return true;
    return false;
}

static void add(sentinels *all, const sentinel *s) {
    if (all->count < SENTINELS_MOST && !is_known(all, s))
        all->of[all->count++] = *s;
}

/* Those from..count, and then those that they told of are behind them. */
static bool ask_from(sentinels *all, unsigned from, const server_link *like) {
    unsigned n = all->count - from;
    question *q = calloc(n > 0 ? n : 1, sizeof *q);

    if (!q)
        return false;
    for (unsigned i = 0; i < n; i++)
        q[i] = (question){.all = all, .which = from + i, .like = like};
    at_once(ask_one, q, sizeof *q, n);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < q[i].others; k++)
            add(all, &q[i].other[k]);
    free(q);
    return true;
}

bool sentinels_ask(sentinels *ret, const tl_endpoint *login, const tl_seeds *seeds, bool all) {
    server_link like = {.endpoint = *login};

    *ret = (sentinels){.count = 0};
    memcpy(ret->master, seeds->master, sizeof ret->master);
    for (unsigned i = 0; i < seeds->count; i++) {
        sentinel s = {.port = seeds->seed[i].port};
        memcpy(s.host, seeds->seed[i].host, sizeof s.host);
        add(ret, &s);
    }
    ret->seeds = ret->count;
    bool ok = ask_from(ret, 0, &like);
    unsigned asked = ret->seeds;
    ret->verdict = tl__sentinel_views_judge(ret->view, ret->count, ret->seeds, 0);
    if (ok && (all || !ret->verdict.sure) && ret->count > asked) {
        unsigned to = ret->count;
        ok = ask_from(ret, asked, &like);
        asked = to;
    }
    ret->count = asked;
    ret->verdict = tl__sentinel_views_judge(ret->view, asked, ret->seeds, 0);
    tl__endpoint_wipe(&like.endpoint);
    return ok;
}

/* ---- replicas -------------------------------------------------------------------------------- */

static bool is_listed(const sentinel_replicas *r, tl_bytes host, uint16_t port) {
    for (unsigned i = 0; i < r->count; i++)
        if (r->of[i].port == port && tl__bytes_eq(tl__bytes_of(r->of[i].host), host))
            return true;
    return false;
}

static bool take_replicas(void *ctx, const tl_reply *reply) {
    sentinel_replicas *r = ctx;
    tl_bytes host;
    uint16_t port;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count; i++) {
        if (!tl__sentinel_view_other(&reply->items[i], &host, &port) || host.n >= TL_HOST_SIZE ||
            is_listed(r, host, port))
            continue;
        r->more = r->more || r->count == SENTINELS_REPLICAS_MOST;
        if (r->more)
            break;
        memcpy(r->of[r->count].host, host.p, host.n);
        r->of[r->count].host[host.n] = '\0';
        r->of[r->count++].port = port;
    }
    return true;
}

/* One that was added a moment ago may be known to some of them alone. */
bool sentinels_replicas(const sentinels *s, const tl_endpoint *login, sentinel_replicas *ret) {
    const char *const request[] = {"SENTINEL", "SLAVES", s->master, NULL};
    server_link like = {.endpoint = *login}, l;
    bool answered = false;

    *ret = (sentinel_replicas){.count = 0};
    for (unsigned i = 0; i < s->count; i++) {
        if (s->of[i].status || !link_open_beside(&l, &like, s->of[i].host, s->of[i].port, false))
            continue;
        answered = link_ask(&l, request, take_replicas, ret) || answered;
        link_close(&l);
    }
    tl__endpoint_wipe(&like.endpoint);
    return answered;
}

/* Of those that don't answer, the first. */
static const sentinel *silent(const sentinels *s) {
    for (unsigned i = 0; i < s->count; i++)
        if (s->of[i].status)
            return &s->of[i];
    return NULL;
}

/* Nothing that waiting mends. */
static bool is_final(int status) {
    return status == STATUS_REFUSED || status == STATUS_INTERNAL;
}

int sentinels_trouble(const sentinels *s, char *to, size_t size) {
    const tl_sentinel_verdict *v = &s->verdict;
    const sentinel *who = silent(s);

    if (v->answered > 0 && v->unknown == v->answered)
        (void)snprintf(to, size, "%s: the Sentinels know no master of this name; check the URL",
                       s->master);
    else if (v->answered < v->majority && v->nameless > 0)
        (void)snprintf(to, size, "%s: " TL_SENTINELS_NAMELESS, s->master);
    else if (v->answered < v->majority)
        (void)snprintf(to, size, "%s: no majority of the Sentinels: %u of %u answer (%.160s)",
                       s->master, v->answered, v->total, who ? who->message : "no answer");
    else
        (void)snprintf(to, size, "%s: the Sentinels don't agree yet on who is the master",
                       s->master);
    return v->answered < v->majority && who && is_final(who->status) ? who->status
                                                                     : STATUS_UNAVAILABLE;
}
