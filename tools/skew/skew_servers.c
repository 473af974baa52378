/*
 * Finding the servers and asking them their time: a wave at a time, each server in a thread of its own, so
 * that many that don't answer take no longer than one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "skew/skew_servers.h"

#define SAMPLES 8
#define WAVES 4 /* replica, its master, that one's replicas, theirs */
#define PLACES_TEXT_MOST 4096

/* ---- beginning and end ------------------------------------------------------------------------- */

int skew_servers_begin(skew_servers *s, const char *places) {
    *s = (skew_servers){.server = calloc(PLACES_MAX + 1, sizeof *s->server)};
    if (!s->server)
        return fail(STATUS_INTERNAL, "out of memory");
    while (*places) {
        size_t n = strcspn(places, ",");
        redis_place place;
        if (!place_read(places, n, &place)) {
            skew_servers_end(s);
            return fail(STATUS_USAGE, "skew: --servers=%.60s: HOST:PORT,... is needed", places);
        }
        places_add(&s->given, place.host, strlen(place.host), place.port);
        places += n + (places[n] == ',');
    }
    return 0;
}

void skew_servers_end(skew_servers *s) {
    free(s->server);
    *s = (skew_servers){.server = NULL};
}

/* ---- one server ---------------------------------------------------------------------------------- */

typedef struct {
    server_link *link;
    const skew_servers *all;
    int32_t rate_ppm;
    redis_server *server;
    redis_info info;
    redis_places nodes; /* of the cluster, or what a Sentinel knows besides the masters */
    bool unserved;      /* some slots have no master that this node knows */
    skew_reading received;
    bool found;
} visit;

static bool take_info(void *ctx, const tl_reply *reply) {
    visit *v = ctx;
    tl_bytes text;
    v->received = skew_reading_now();
    return tl__reply_text(reply, &text) && info_read(text.p, text.n, &v->info);
}

static bool take_nodes(void *ctx, const tl_reply *reply) {
    visit *v = ctx;
    tl_bytes text;
    if (!tl__reply_text(reply, &text))
        return false;
    nodes_read(text.p, text.n, &v->nodes);
    return true;
}

/* Its masters, each by the address that clients are told. */
static bool take_slots(void *ctx, const tl_reply *reply) {
    visit *v = ctx;
    tl_slot_map *map = malloc(sizeof *map);
    bool ok = map && tl__slot_map_read(map, reply);

    for (unsigned i = 0; ok && i < map->count; i++) {
        tl_bytes host = map->node[i].host.n ? map->node[i].host
                                            : tl__bytes_of(v->link->endpoint.host);
        places_add(&v->nodes, host.p, host.n, map->node[i].port);
    }
    v->unserved = ok && map->served < TL_SLOTS;
    free(map);
    return ok;
}

static bool is_word(const tl_reply *reply, const char *word) {
    tl_bytes text;
    return tl__reply_text(reply, &text) && tl__bytes_eq(text, tl__bytes_of(word));
}

/* A list of lists of names and values. */
static bool take_lists(void *ctx, const tl_reply *reply) {
    visit *v = ctx;
    for (size_t i = 0; reply->type == TL_REPLY_ARRAY && i < reply->count; i++) {
        const tl_reply *list = &reply->items[i];
        tl_bytes ip = {NULL, 0};
        int64_t port = 0;
        for (size_t k = 0; list->type == TL_REPLY_ARRAY && k + 1 < list->count; k += 2) {
            if (is_word(&list->items[k], "ip"))
                (void)tl__reply_text(&list->items[k + 1], &ip);
            else if (is_word(&list->items[k], "port"))
                (void)tl__reply_int(&list->items[k + 1], &port);
        }
        if (ip.n && port > 0 && port < 65536)
            places_add(&v->nodes, ip.p, ip.n, (uint16_t)port);
    }
    return reply->type == TL_REPLY_ARRAY;
}

static bool ask_sentinel(visit *v) {
    const char *const replicas[] = {"SENTINEL", "SLAVES", v->info.master, NULL},
                      *const sentinels[] = {"SENTINEL", "SENTINELS", v->info.master, NULL};
    return !v->info.master[0] || (link_ask(v->link, replicas, take_lists, v) &&
                                  link_ask(v->link, sentinels, take_lists, v));
}

/* A Sentinel has no TIME, but says it in its INFO from Redis 7 on. */
static bool sample_sentinel(visit *v) {
    static const char *const request[] = {"INFO", "server", NULL};
    redis_info known = v->info;
    for (int i = 0; i < SAMPLES && known.time_us >= 0; i++) {
        skew_reading sent = skew_reading_now();
        if (!link_ask(v->link, request, take_info, v))
            return false;
        if (v->info.time_us >= 0)
            skew_learn(&v->server->track, &sent, v->info.time_us, &v->received, v->rate_ppm);
    }
    v->info = known;
    if (!v->server->track.known)
        (void)snprintf(v->server->why, sizeof v->server->why,
                       "a Sentinel of this version does not tell its time");
    return true;
}

static bool sample(visit *v) {
    for (int i = 0; i < SAMPLES; i++)
        if (!skew_sample(v->link, &v->server->track, v->rate_ppm))
            return false;
    return true;
}

static bool ask_nodes(visit *v) {
    static const char *const nodes[] = {"CLUSTER", "NODES", NULL}, *const slots[] = {"CLUSTER",
                                                                                     "SLOTS", NULL};

    if (!v->info.cluster)
        return true;
    if (!v->all->only_masters && !link_ask(v->link, nodes, take_nodes, v))
        return false;
    return !v->all->by_cluster || link_ask(v->link, slots, take_slots, v);
}

static bool look(visit *v) {
    static const char *const info[] = {"INFO", NULL};

    if (!link_ask(v->link, info, take_info, v))
        return false;
    v->found = true;
    v->server->sentinel = v->info.sentinel;
    memcpy(v->server->run_id, v->info.run_id, sizeof v->server->run_id);
    if (v->info.sentinel)
        return ask_sentinel(v) && sample_sentinel(v);
    return ask_nodes(v) && sample(v);
}

static void visit_one(visit *v) {
    redis_server *s = v->server;

    s->status = "unknown";
    if (!look(v)) {
        s->track.known = false;
        s->status = v->link->status == STATUS_REFUSED ? "refused" : "silent";
        (void)snprintf(s->why, sizeof s->why, "%.150s", v->link->message);
    }
}

/* ---- waves --------------------------------------------------------------------------------------- */

static void add(skew_servers *s, const redis_place *place) {
    for (int i = 0; i < s->count; i++)
        if (strcmp(s->server[i].place.host, place->host) == 0 &&
            s->server[i].place.port == place->port)
            return;
    if (s->count > PLACES_MAX) {
        s->more = true;
        return;
    }
    redis_server *x = &s->server[s->count++];
    x->place = *place;
    (void)snprintf(x->label, sizeof x->label, strchr(place->host, ':') ? "[%s]:%u" : "%s:%u",
                   place->host, (unsigned)place->port);
    if (!place->host[0]) {
        (void)snprintf(x->label, sizeof x->label, "node-without-address");
        x->status = "unknown";
        (void)snprintf(x->why, sizeof x->why, "the cluster does not know where this node is");
    }
}

static void add_all(skew_servers *s, const redis_places *p) {
    for (int i = 0; i < p->count; i++)
        add(s, &p->place[i]);
    s->more = s->more || p->more;
}

static void learn(skew_servers *s, const visit *v) {
    if (!v->found)
        return;
    for (int i = 0; i < s->count && v->server->run_id[0]; i++)
        if (&s->server[i] != v->server && !s->server[i].twice &&
            strcmp(s->server[i].run_id, v->server->run_id) == 0)
            v->server->twice = true;
    if (!s->only_masters || v->info.sentinel)
        add_all(s, &v->info.peers);
    add_all(s, &v->nodes);
    s->unserved = s->unserved || v->unserved;
}

typedef struct {
    visit visit;
    server_link link;
    const server_link *like; /* how to log in */
} errand;

/* A Sentinel may have no password where the servers have one. */
static void *run_errand(void *ctx) {
    errand *e = ctx;
    redis_server *s = e->visit.server;
    bool again = false;

    e->visit.link = &e->link;
    do {
        if (!link_open_beside(&e->link, e->like, s->place.host, s->place.port, again)) {
            s->status = "unknown";
            (void)snprintf(s->why, sizeof s->why, "out of memory");
            break;
        }
        visit_one(&e->visit);
        again = !again && !e->visit.found && e->link.status == STATUS_REFUSED &&
                tl__endpoint_has_password(&e->like->endpoint);
        link_close(&e->link);
    } while (again);
    return NULL;
}

/* Everyone from..count; whom they tell of is the next wave. */
static bool send_wave(skew_servers *s, int from, const server_link *l, int32_t rate_ppm) {
    int to = s->count;
    errand *e = calloc(AT_ONCE, sizeof *e);

    if (!e)
        return false;
    while (from < to) {
        int n = 0;
        for (; n < AT_ONCE && from < to; from++)
            if (s->server[from].place.host[0])
                e[n++] = (errand){
                    .visit = {.all = s, .server = &s->server[from], .rate_ppm = rate_ppm},
                    .like = l};
        at_once(run_errand, e, sizeof *e, (unsigned)n);
        for (int i = 0; i < n; i++)
            learn(s, &e[i].visit);
    }
    free(e);
    return true;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

/* From a Sentinel on to the only master that it watches. */
static bool follow_sentinel(skew_servers *s, server_link *l, const redis_info *info) {
    redis_place sentinel = {.port = l->endpoint.port};

    memcpy(sentinel.host, l->endpoint.host, sizeof sentinel.host);
    if (info->masters != 1 || info->peers.count != 1) {
        l->status = STATUS_USAGE;
        (void)snprintf(l->message, sizeof l->message,
                       "this Sentinel watches %d masters: give the URL of one of them",
                       info->masters);
        return false;
    }
    if (sentinel.host[0])
        places_add(&s->given, sentinel.host, strlen(sentinel.host), sentinel.port);
    if (link_turn(l, info->peers.place[0].host, info->peers.place[0].port))
        return true;
    l->status = STATUS_INTERNAL;
    (void)snprintf(l->message, sizeof l->message, "out of memory");
    return false;
}

static bool ask_first(skew_servers *s, server_link *l, int32_t rate_ppm, visit *v) {
    static const char *const info[] = {"INFO", NULL};
    redis_server *first = &s->server[0];

    memset(s->server, 0, (PLACES_MAX + 1) * sizeof *s->server);
    s->count = 1;
    s->more = s->unserved = false;
    *v = (visit){.link = l, .all = s, .server = first, .rate_ppm = rate_ppm};
    if (!link_ask(l, info, take_info, v) || (v->info.sentinel && !follow_sentinel(s, l, &v->info)))
        return false;
    *v = (visit){.link = l, .all = s, .server = first, .rate_ppm = rate_ppm};
    if (!look(v))
        return false;
    first->place.port = l->endpoint.port;
    memcpy(first->place.host, l->endpoint.host, sizeof first->place.host);
    memcpy(first->label, l->endpoint.label, sizeof first->label);
    first->status = "ok";
    return true;
}

/* Whose clock judges there isn't known: a row that lacks evidence. */
static void add_unserved(skew_servers *s) {
    static const char label[] = "slots-without-master";

    if (s->count > PLACES_MAX) {
        s->more = true;
        return;
    }
    redis_server *x = &s->server[s->count++];
    x->status = "unknown";
    memcpy(x->label, label, sizeof label);
    (void)snprintf(x->why, sizeof x->why, "some node knows no master of some slots");
}

bool skew_servers_ask(skew_servers *s, server_link *l, int32_t rate_ppm) {
    visit *v = calloc(1, sizeof *v);
    bool ok = v && ask_first(s, l, rate_ppm, v);

    if (ok) {
        learn(s, v);
        add_all(s, &s->given);
        for (int from = 1, wave = 0; ok && from < s->count && wave < WAVES; wave++) {
            int to = s->count;
            ok = send_wave(s, from, l, rate_ppm);
            from = to;
        }
        if (s->unserved)
            add_unserved(s);
    }
    if (!v || (!ok && s->count > 1)) {
        l->status = STATUS_INTERNAL;
        (void)snprintf(l->message, sizeof l->message, "out of memory");
    }
    free(v);
    return ok;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define ADVISE_NODE                                                                                \
    "see that each master of the cluster can be reached with this login: the locks of its slots "  \
    "are judged by its clock (tidelock doctor says what is wrong with the cluster)"

static void put(skew_host *h, const char *status, const char *text) {
    h->status = status;
    (void)snprintf(h->detail, sizeof h->detail, "%s", text);
}

static void name_row(skew_host *h, const char *label) {
    size_t n = strlen(label), skip = n < sizeof h->name ? 0 : n - sizeof h->name + 1;
    (void)snprintf(h->name, sizeof h->name, "%s", label + skip);
    for (char *c = h->name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-[]%/", *c))
            *c = '_';
}

void skew_server_judge(const skew_servers *s, int which, const skew_reading *now,
                       const tl_interval *own, int32_t rate_ppm, skew_host *h) {
    const redis_server *x = &s->server[which];
    const skew_track *t = &x->track;

    name_row(h, x->label);
    h->instrument = "server";
    h->kind = x->sentinel ? SKEW_REMARK : SKEW_REDIS;
    h->age_ms = -1;
    h->samples = t->samples;
    h->advice = s->by_cluster ? ADVISE_NODE : NULL;
    if (!t->known && x->status && strcmp(x->status, "ok") != 0) {
        put(h, x->status, x->why[0] ? x->why : "it was not asked");
        return;
    }
    if (!t->known || !skew_unbroken(t, now)) {
        put(h, "void", "a clock was set while it was asked");
        return;
    }
    if (!own) {
        put(h, "unknown", "this host's own clock could not be measured");
        return;
    }
    tl_interval off = skew_offset(t, now->after, rate_ppm); /* own clock - its */
    h->offset = which == 0
                    ? (tl_interval){0, 0}
                    : (tl_interval){tl__add_sat(own->lo, -off.hi), tl__add_sat(own->hi, -off.lo)};
    h->against = 1;
    h->apart = (tl_interval){tl__add_sat(0, -off.hi), tl__add_sat(0, -off.lo)};
    h->known = true;
    h->age_ms = tl__ms_until(t->at, now->after);
    put(h, "ok",
        which == 0        ? "the Redis server that all is measured against"
        : s->only_masters ? "a master of the cluster: its clock judges the locks of its slots"
        : s->by_cluster   ? "a node of the cluster: where it is a master its clock judges"
        : x->sentinel     ? "a Sentinel: its clock judges no lock"
                          : "a Redis server: after a failover its clock may judge");
}

void skew_server_itself(const char *label, skew_host *h) {
    name_row(h, label);
    h->instrument = "server";
    h->kind = SKEW_REDIS;
    h->known = true;
    h->offset = (tl_interval){0, 0};
    put(h, "ok", "the Redis server, whose clock times the locks of tidelock's own clients");
}
