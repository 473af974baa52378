/*
 * Asking all nodes of a cluster: a wave at a time, each node in a thread of its own, so that many that don't answer take
 * no longer than one. Whom they tell of is the next wave.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "doctor/cluster_survey.h"
#include "skew/judge/skew_topology.h"

#define SAMPLES 8
#define WAVES (CLUSTER_NODES_MOST / AT_ONCE + 4)

int cluster_survey_find(const cluster_survey *m, const char *id) {
    for (unsigned i = 0; i < m->count; i++)
        if (id[0] && !m->of[i].twice && strcmp(m->of[i].id, id) == 0)
            return (int)i;
    return -1;
}

static void name(cluster_node *x) {
    if (x->port)
        (void)snprintf(x->label, sizeof x->label, strchr(x->host, ':') ? "[%s]:%u" : "%s:%u",
                       x->host, (unsigned)x->port);
    else
        (void)snprintf(x->label, sizeof x->label, "node %.40s", x->id);
}

/* Without a place it has no port. */
static cluster_node *add(cluster_survey *m, const char *host, uint16_t port) {
    if (m->count == CLUSTER_NODES_MOST) {
        m->more = true;
        return NULL;
    }
    cluster_node *x = &m->of[m->count++];
    *x = (cluster_node){.port = port};
    (void)snprintf(x->host, sizeof x->host, "%s", host);
    name(x);
    return x;
}

typedef struct {
    char id[NODE_ID_SIZE];
    redis_place place;
} node_place;

/* ---- what a node says of all ----------------------------------------------------------------- */

/* A line of CLUSTER NODES: ID IP:PORT@BUS[,NAME] FLAGS MASTER PING PONG EPOCH LINK SLOTS... */
typedef struct {
    char id[NODE_ID_SIZE], of[NODE_ID_SIZE];
    redis_place place; /* port 0: not known */
    tl_bytes flags;
    int64_t epoch;
    bool linked;
    tl_bytes slots;
} line;

static tl_bytes next(tl_bytes *rest, char end) {
    const char *at = rest->n ? memchr(rest->p, end, rest->n) : NULL;
    tl_bytes part = {rest->p, at ? (size_t)(at - rest->p) : rest->n};
    size_t used = part.n + (at != NULL);
    *rest = tl__bytes(rest->p + used, rest->n - used);
    return part;
}

static bool has_flag(tl_bytes flags, const char *flag) {
    while (flags.n)
        if (tl__bytes_eq(next(&flags, ','), tl__bytes_of(flag)))
            return true;
    return false;
}

static bool copy_id(char to[NODE_ID_SIZE], tl_bytes id) {
    if (id.n >= NODE_ID_SIZE)
        return false;
    tl__bytes_print(to, NODE_ID_SIZE, id);
    return true;
}

static bool read_line(tl_bytes text, line *ret) {
    if (text.n && text.p[text.n - 1] == '\r')
        text.n--;
    tl_bytes id = next(&text, ' '), at = next(&text, ' ');
    *ret = (line){.flags = next(&text, ' ')};
    tl_bytes of = next(&text, ' '), where = next(&at, '@');
    (void)next(&text, ' ');
    (void)next(&text, ' ');
    tl_bytes epoch = next(&text, ' ');
    ret->linked = tl__bytes_eq(next(&text, ' '), TL_LITERAL("connected"));
    ret->slots = text;
    if (has_flag(ret->flags, "noaddr") || !place_read(where.p, where.n, &ret->place))
        ret->place.port = 0;
    return id.n > 0 && copy_id(ret->id, id) && copy_id(ret->of, of) &&
           tl__bytes_to_int(epoch, &ret->epoch);
}

static bool is_there(const cluster_survey *m, const char *host, uint16_t port) {
    for (unsigned i = 0; i < m->count; i++)
        if (m->of[i].port == port && strcmp(m->of[i].host, host) == 0)
            return true;
    return false;
}

/* It was asked by the URL's name for it; clients go where nodes say that it is. */
static void learn_place(cluster_survey *m, const char *id, const redis_place *place) {
    cluster_node *x = place->port && !is_there(m, place->host, place->port)
                          ? add(m, place->host, place->port)
                          : NULL;
    if (x)
        memcpy(x->led_to, id, sizeof x->led_to);
}

/* Whom the line is about, new or not. A seed that hasn't answered is known by its place alone. */
static cluster_node *find(cluster_survey *m, const line *l) {
    int i = cluster_survey_find(m, l->id);
    if (i >= 0) {
        learn_place(m, l->id, &l->place);
        return &m->of[i];
    }
    cluster_node *x = NULL;
    for (unsigned k = 0; k < m->count && !x; k++)
        if (!m->of[k].id[0] && m->of[k].port == l->place.port &&
            strcmp(m->of[k].host, l->place.host) == 0)
            x = &m->of[k];
    if (!x)
        x = add(m, l->place.port ? l->place.host : "", l->place.port);
    if (!x)
        return NULL;
    memcpy(x->id, l->id, sizeof x->id);
    if (!x->port)
        name(x);
    return x;
}

/* "[5461->-ID]" leaves, "[5461-<-ID]" comes. */
static void learn_open(cluster_node *x, tl_bytes word) {
    open_slot o = {.leaves = false};
    tl_bytes rest = tl__bytes(word.p + 1, word.n - (word.n > 1) - (word.n > 2)),
             number = next(&rest, '-');
    int64_t slot;
    if (rest.n < 3 || !tl__bytes_to_int(number, &slot) || slot < 0 || slot >= TL_SLOTS ||
        !copy_id(o.other, tl__bytes(rest.p + 2, rest.n - 2)))
        return;
    o.slot = (uint16_t)slot;
    o.leaves = rest.p[0] == '>';
    if (x->open < NODE_OPEN_MOST)
        x->opened[x->open] = o;
    x->open++;
}

static void learn_slots(cluster_node *by, cluster_node *x, uint16_t number, tl_bytes slots) {
    while (slots.n) {
        tl_bytes word = next(&slots, ' '), last = word, first = next(&last, '-');
        int64_t from, to;
        if (word.n && word.p[0] == '[') {
            learn_open(x, word);
            continue;
        }
        if (!tl__bytes_to_int(first, &from) || from < 0 || from >= TL_SLOTS)
            continue;
        to = from;
        if (last.n && (!tl__bytes_to_int(last, &to) || to < from || to >= TL_SLOTS))
            continue;
        for (; from <= to; from++)
            by->owner[from] = number;
    }
}

/* What clients are told goes before what nodes tell each other. */
static void use_place(line *l, const node_place *led, unsigned leds) {
    for (unsigned i = 0; i < leds; i++)
        if (strcmp(led[i].id, l->id) == 0)
            l->place = led[i].place;
}

static void learn_of(cluster_survey *m, unsigned who, const line *l) {
    bool self = has_flag(l->flags, "myself");
    cluster_node *by = &m->of[who], *x = self ? by : find(m, l);

    if (!x || has_flag(l->flags, "handshake"))
        return;
    if (self || !x->asked || x->status) {
        x->master = has_flag(l->flags, "master");
        memcpy(x->of, l->of, sizeof x->of);
    }
    if (self) {
        x->epoch = l->epoch;
    } else {
        x->named++;
        x->linked += l->linked;
        x->failing = x->failing || has_flag(l->flags, "fail") || has_flag(l->flags, "fail?");
    }
    learn_slots(by, x, (uint16_t)(x - m->of), l->slots);
}

static bool learn(cluster_survey *m, unsigned who, tl_bytes text, const node_place *led,
                  unsigned leds) {
    cluster_node *by = &m->of[who];
    line l;

    by->owner = malloc(TL_SLOTS * sizeof *by->owner);
    if (!by->owner)
        return false;
    for (unsigned i = 0; i < TL_SLOTS; i++)
        by->owner[i] = TL_NOBODY;
    while (text.n)
        if (read_line(next(&text, '\n'), &l)) {
            use_place(&l, led, leds);
            learn_of(m, who, &l);
        }
    return true;
}

bool cluster_survey_learn(cluster_survey *m, unsigned who, tl_bytes text) {
    return learn(m, who, text, NULL, 0);
}

/* Who it is; one that is in the list already, by another address, is there twice. */
static void learn_self(cluster_survey *m, unsigned who, tl_bytes text) {
    cluster_node *x = &m->of[who];
    line l;

    while (text.n)
        if (read_line(next(&text, '\n'), &l) && has_flag(l.flags, "myself")) {
            int same = cluster_survey_find(m, l.id);
            x->twice = strcmp(x->led_to, l.id) == 0;
            if (x->twice)
                return;
            if (x->led_to[0] || (x->id[0] && strcmp(x->id, l.id) != 0)) {
                x->status = STATUS_UNAVAILABLE;
                (void)snprintf(x->message, sizeof x->message, "%.150s is another node", x->label);
                return;
            }
            x->twice = same >= 0 && same != (int)who;
            memcpy(x->id, l.id, sizeof x->id);
        }
}

/* ---- one of them ----------------------------------------------------------------------------- */

typedef struct {
    cluster_survey *all;
    unsigned which;
    const server_link *like;
    int32_t rate_ppm;
    char *nodes;     /* CLUSTER NODES; NULL: it hasn't answered */
    node_place *led; /* CLUSTER SLOTS: where clients are led to */
    unsigned leds;
} visit;

/* [host, port, ID, ...], from 4.0 on. An empty host is the one that was asked; "?" is none that anybody knows. */
static void take_place(visit *v, const tl_reply *node) {
    tl_bytes host = {0}, id;
    int64_t port;
    if (!tl__reply_text(tl__reply_item(node, 2), &id) || v->leds == CLUSTER_NODES_MOST ||
        !tl__reply_int(tl__reply_item(node, 1), &port) || port < 1 || port > UINT16_MAX)
        return;
    (void)tl__reply_text(tl__reply_item(node, 0), &host);
    node_place *p = &v->led[v->leds];
    if (host.n >= sizeof p->place.host || tl__bytes_eq(host, TL_LITERAL("?")) ||
        !copy_id(p->id, id))
        return;
    p->place.port = (uint16_t)port;
    if (host.n)
        tl__bytes_print(p->place.host, sizeof p->place.host, host);
    else
        memcpy(p->place.host, v->all->of[v->which].host, sizeof p->place.host);
    v->leds++;
}

static bool take_slots(void *ctx, const tl_reply *reply) {
    visit *v = ctx;
    v->led = calloc(CLUSTER_NODES_MOST, sizeof *v->led);
    for (size_t i = 0; v->led && reply->type == TL_REPLY_ARRAY && i < reply->count; i++)
        for (size_t k = 2; k < reply->items[i].count; k++)
            take_place(v, &reply->items[i].items[k]);
    return v->led && reply->type == TL_REPLY_ARRAY;
}

static bool take_nodes(void *ctx, const tl_reply *reply) {
    visit *v = ctx;
    tl_bytes text;
    if (!tl__reply_text(reply, &text))
        return false;
    v->nodes = strndup(text.p, text.n);
    return v->nodes != NULL;
}

static bool take_state(void *ctx, const tl_reply *reply) {
    cluster_node *x = ctx;
    char state[16] = "";
    tl_bytes text;
    if (!tl__reply_text(reply, &text) || !info_field(text, "cluster_state", state, sizeof state))
        return false;
    x->ok = strcmp(state, "ok") == 0;
    return true;
}

static bool take_info(void *ctx, const tl_reply *reply) {
    cluster_node *x = ctx;
    tl_bytes text;
    return tl__reply_text(reply, &text) && info_product(text, x->product);
}

static bool take_coverage(void *ctx, const tl_reply *reply) {
    cluster_node *x = ctx;
    tl_bytes text;
    if (reply->type == TL_REPLY_ARRAY && tl__reply_text(tl__reply_item(reply, 1), &text))
        tl__bytes_print(x->coverage, sizeof x->coverage, text);
    return true;
}

/* What may be denied is left open; the rest is of the cluster. */
static bool ask_all(visit *v, server_link *l) {
    static const char
        *const nodes[] = {"CLUSTER", "NODES", NULL},
               *const slots[] = {"CLUSTER", "SLOTS", NULL},
               *const state[] = {"CLUSTER", "INFO", NULL}, *const info[] = {"INFO", "server", NULL},
               *const coverage[] = {"CONFIG", "GET", "cluster-require-full-coverage", NULL};
    cluster_node *x = &v->all->of[v->which];

    if (!link_ask(l, nodes, take_nodes, v) || !link_ask(l, slots, take_slots, v) ||
        !link_ask(l, state, take_state, x) || (!link_ask(l, info, take_info, x) && !l->error) ||
        (!link_ask(l, coverage, take_coverage, x) && !l->error))
        return false;
    for (int i = 0; i < SAMPLES; i++)
        if (!skew_sample(l, &x->track, v->rate_ppm))
            return l->error;
    return true;
}

static void *ask_one(void *ctx) {
    visit *v = ctx;
    cluster_node *x = &v->all->of[v->which];
    server_link l;

    x->status = STATUS_INTERNAL;
    (void)snprintf(x->message, sizeof x->message, "out of memory");
    if (!link_open_beside(&l, v->like, x->host, x->port, false))
        return NULL;
    x->status = ask_all(v, &l) ? 0 : l.status;
    x->stranger = x->status && l.error && strstr(l.message, "cluster support disabled");
    if (x->status && l.lacks && strstr(l.message, " CLUSTER"))
        (void)snprintf(x->message, sizeof x->message, LINK_NO_CLUSTER, x->label);
    else
        (void)snprintf(x->message, sizeof x->message, l.error ? "%.100s: %.130s" : "%.0s%.230s",
                       x->label, x->status ? l.message : "");
    link_close(&l);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static bool learn_all(cluster_survey *m, const visit *v, unsigned n) {
    bool ok = true;

    for (unsigned i = 0; i < n; i++)
        if (m->of[v[i].which].status == 0)
            learn_self(m, v[i].which, tl__bytes_of(v[i].nodes));
    for (unsigned i = 0; i < n; i++)
        if (m->of[v[i].which].status == 0 && !m->of[v[i].which].twice)
            ok = learn(m, v[i].which, tl__bytes_of(v[i].nodes), v[i].led, v[i].leds) && ok;
    return ok;
}

/* As many as there is room for, from the ones on that aren't asked. *ret_n 0: all are. */
static bool send_some(cluster_survey *m, const server_link *like, int32_t rate_ppm,
                      unsigned *ret_n) {
    visit v[AT_ONCE];
    unsigned n = 0;

    for (unsigned i = 0; i < m->count && n < AT_ONCE; i++)
        if (!m->of[i].asked && m->of[i].port) {
            m->of[i].asked = true;
            v[n++] = (visit){.all = m, .which = i, .like = like, .rate_ppm = rate_ppm};
        }
    at_once(ask_one, v, sizeof *v, n);
    bool ok = learn_all(m, v, n);
    for (unsigned i = 0; i < n; i++) {
        free(v[i].nodes);
        free(v[i].led);
    }
    *ret_n = n;
    return ok;
}

static void conclude(cluster_survey *m, int32_t rate_ppm) {
    skew_reading now = skew_reading_now();
    m->answered = 0;
    for (unsigned i = 0; i < m->count; i++) {
        cluster_node *x = &m->of[i];
        if (!x->asked && !x->status)
            x->status = STATUS_UNAVAILABLE;
        m->answered += x->status == 0 && !x->twice;
        x->track.known = x->track.known && skew_unbroken(&x->track, &now);
        if (x->track.known)
            x->offset = skew_offset(&x->track, now.after, rate_ppm);
    }
}

bool cluster_survey_ask(cluster_survey *ret, const tl_endpoint *login, const tl_seeds *seeds,
                        int32_t rate_ppm) {
    server_link like = {.endpoint = *login};
    unsigned n = 1;
    bool ok;

    *ret = (cluster_survey){.of = calloc(CLUSTER_NODES_MOST, sizeof *ret->of)};
    ok = ret->of != NULL;
    for (unsigned i = 0; ok && i < seeds->count; i++) {
        cluster_node *x = is_there(ret, seeds->seed[i].host, seeds->seed[i].port)
                              ? NULL
                              : add(ret, seeds->seed[i].host, seeds->seed[i].port);
        if (x)
            x->seed = true;
    }
    for (int i = 0; ok && n > 0 && i < WAVES; i++)
        ok = send_some(ret, &like, rate_ppm, &n);
    if (ok)
        conclude(ret, rate_ppm);
    tl__endpoint_wipe(&like.endpoint);
    return ok;
}

void cluster_survey_end(cluster_survey *m) {
    for (unsigned i = 0; m->of && i < m->count; i++)
        free(m->of[i].owner);
    free(m->of);
    *m = (cluster_survey){.of = NULL};
}

int cluster_survey_trouble(const cluster_survey *m, char *to, size_t size) {
    const cluster_node *who = m->of;

    for (unsigned i = 0; i < m->count; i++)
        if (m->of[i].status == STATUS_REFUSED && who->status != STATUS_REFUSED)
            who = &m->of[i];
    if (who->stranger)
        (void)snprintf(to, size, "%.150s is no node of a cluster: give its URL as redis://",
                       who->label);
    else if (m->count == 1)
        (void)snprintf(to, size, "%s", who->message);
    else
        (void)snprintf(to, size, "none of the %u nodes in the URL leads to a cluster: %.170s",
                       m->count, who->message);
    return who->stranger ? STATUS_INTERNAL : who->status; /* as the library's TL_ESERVER */
}
