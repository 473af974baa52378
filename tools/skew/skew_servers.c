/*
 * Finds the servers and measures their clocks, in waves. Each server of a wave has its own thread,
 * so many servers that don't reply take no longer than one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "skew/skew_servers.h"

#define SAMPLES 8
#define WAVES 4 /* a replica, its master, that master's replicas, their replicas */
#define PLACES_TEXT_MOST 4096

/* ---- beginning and end ------------------------------------------------------------------------- */

int skew_servers_begin(skew_servers *servers, const char *places) {
    *servers = (skew_servers){.server = calloc(PLACES_MAX + 1, sizeof *servers->server)};
    if (!servers->server)
        return fail(STATUS_INTERNAL, "out of memory");
    while (*places) {
        size_t n = strcspn(places, ",");
        redis_place place;
        if (!place_read(places, n, &place)) {
            skew_servers_end(servers);
            return fail(STATUS_USAGE, "skew: --servers=%.60s: HOST:PORT,... is needed", places);
        }
        places_add(&servers->given, place.host, strlen(place.host), place.port);
        places += n + (places[n] == ',');
    }
    return 0;
}

void skew_servers_end(skew_servers *servers) {
    free(servers->server);
    *servers = (skew_servers){.server = NULL};
}

/* ---- one server ---------------------------------------------------------------------------------- */

typedef struct {
    server_link *link;
    const skew_servers *all;
    int32_t rate_ppm;
    redis_server *server;
    redis_info info;
    /* nodes of the cluster, or the servers that a Sentinel knows besides the masters */
    redis_places nodes;
    bool unserved; /* this node knows no master of some slots */
    skew_reading received;
    bool found;
} visit;

static bool take_info(void *ctx, const tl_reply *reply) {
    visit *visit = ctx;
    tl_bytes text;
    visit->received = skew_reading_now();
    return tl__reply_text(reply, &text) && info_read(text.p, text.n, &visit->info);
}

static bool take_nodes(void *ctx, const tl_reply *reply) {
    visit *visit = ctx;
    tl_bytes text;
    if (!tl__reply_text(reply, &text))
        return false;
    nodes_read(text.p, text.n, &visit->nodes);
    return true;
}

/* Reads the cluster's masters, each by the address given to clients. */
static bool take_slots(void *ctx, const tl_reply *reply) {
    visit *visit = ctx;
    tl_slot_map *map = malloc(sizeof *map);
    bool ok = map && tl__slot_map_read(map, reply);

    for (unsigned i = 0; ok && i < map->count; i++) {
        tl_bytes host = map->node[i].host.n ? map->node[i].host
                                            : tl__bytes_of(visit->link->endpoint.host);
        places_add(&visit->nodes, host.p, host.n, map->node[i].port);
    }
    visit->unserved = ok && map->served < TL_SLOTS;
    free(map);
    return ok;
}

static bool is_word(const tl_reply *reply, const char *word) {
    tl_bytes text;
    return tl__reply_text(reply, &text) && tl__bytes_eq(text, tl__bytes_of(word));
}

/* Reads a list of lists of names and values. */
static bool take_lists(void *ctx, const tl_reply *reply) {
    visit *visit = ctx;
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
            places_add(&visit->nodes, ip.p, ip.n, (uint16_t)port);
    }
    return reply->type == TL_REPLY_ARRAY;
}

static bool ask_sentinel(visit *visit) {
    const char *const replicas[] = {"SENTINEL", "SLAVES", visit->info.master, NULL},
                      *const sentinels[] = {"SENTINEL", "SENTINELS", visit->info.master, NULL};
    return !visit->info.master[0] || (link_ask(visit->link, replicas, take_lists, visit) &&
                                      link_ask(visit->link, sentinels, take_lists, visit));
}

/* A Sentinel has no TIME command, but reports its time in INFO from Redis 7 on. */
static bool sample_sentinel(visit *visit) {
    static const char *const request[] = {"INFO", "server", NULL};
    redis_info known = visit->info;
    for (int i = 0; i < SAMPLES && known.time_us >= 0; i++) {
        skew_reading sent = skew_reading_now();
        if (!link_ask(visit->link, request, take_info, visit))
            return false;
        if (visit->info.time_us >= 0)
            skew_learn(&visit->server->track, &sent, visit->info.time_us, &visit->received,
                       visit->rate_ppm);
    }
    visit->info = known;
    if (!visit->server->track.known)
        (void)snprintf(visit->server->why, sizeof visit->server->why,
                       "a Sentinel of this version does not report its time");
    return true;
}

static bool sample(visit *visit) {
    for (int i = 0; i < SAMPLES; i++)
        if (!skew_sample(visit->link, &visit->server->track, visit->rate_ppm))
            return false;
    return true;
}

static bool ask_nodes(visit *visit) {
    static const char *const nodes[] = {"CLUSTER", "NODES", NULL}, *const slots[] = {"CLUSTER",
                                                                                     "SLOTS", NULL};

    if (!visit->info.cluster)
        return true;
    if (!visit->all->only_masters && !link_ask(visit->link, nodes, take_nodes, visit))
        return false;
    return !visit->all->by_cluster || link_ask(visit->link, slots, take_slots, visit);
}

static bool look(visit *visit) {
    static const char *const info[] = {"INFO", NULL};

    if (!link_ask(visit->link, info, take_info, visit))
        return false;
    visit->found = true;
    visit->server->sentinel = visit->info.sentinel;
    memcpy(visit->server->run_id, visit->info.run_id, sizeof visit->server->run_id);
    if (visit->info.sentinel)
        return ask_sentinel(visit) && sample_sentinel(visit);
    return ask_nodes(visit) && sample(visit);
}

static void visit_one(visit *visit) {
    redis_server *server = visit->server;

    server->status = "unknown";
    if (!look(visit)) {
        server->track.known = false;
        server->status = visit->link->status == STATUS_REFUSED ? "refused" : "silent";
        (void)snprintf(server->why, sizeof server->why, "%.150s", visit->link->message);
    }
}

/* ---- waves --------------------------------------------------------------------------------------- */

static void add(skew_servers *servers, const redis_place *place) {
    for (int i = 0; i < servers->count; i++)
        if (strcmp(servers->server[i].place.host, place->host) == 0 &&
            servers->server[i].place.port == place->port)
            return;
    if (servers->count > PLACES_MAX) {
        servers->more = true;
        return;
    }
    redis_server *server = &servers->server[servers->count++];
    server->place = *place;
    (void)snprintf(server->label, sizeof server->label,
                   strchr(place->host, ':') ? "[%s]:%u" : "%s:%u", place->host,
                   (unsigned)place->port);
    if (!place->host[0]) {
        (void)snprintf(server->label, sizeof server->label, "node-without-address");
        server->status = "unknown";
        (void)snprintf(server->why, sizeof server->why,
                       "the cluster does not know where this node is");
    }
}

static void add_all(skew_servers *servers, const redis_places *places) {
    for (int i = 0; i < places->count; i++)
        add(servers, &places->place[i]);
    servers->more = servers->more || places->more;
}

static void learn(skew_servers *servers, const visit *visit) {
    if (!visit->found)
        return;
    for (int i = 0; i < servers->count && visit->server->run_id[0]; i++)
        if (&servers->server[i] != visit->server && !servers->server[i].twice &&
            strcmp(servers->server[i].run_id, visit->server->run_id) == 0)
            visit->server->twice = true;
    if (!servers->only_masters || visit->info.sentinel)
        add_all(servers, &visit->info.peers);
    add_all(servers, &visit->nodes);
    servers->unserved = servers->unserved || visit->unserved;
}

typedef struct {
    visit visit;
    server_link link;
    const server_link *like; /* the link whose login is used */
} errand;

/* Tries a second time without the password: a Sentinel may have none where the servers have one. */
static void *run_errand(void *ctx) {
    errand *errand = ctx;
    redis_server *server = errand->visit.server;
    bool again = false;

    errand->visit.link = &errand->link;
    do {
        if (!link_open_beside(&errand->link, errand->like, server->place.host, server->place.port,
                              again)) {
            server->status = "unknown";
            (void)snprintf(server->why, sizeof server->why, "out of memory");
            break;
        }
        visit_one(&errand->visit);
        again = !again && !errand->visit.found && errand->link.status == STATUS_REFUSED &&
                tl__endpoint_has_password(&errand->like->endpoint);
        link_close(&errand->link);
    } while (again);
    return NULL;
}

/* Measures the servers from `from` on; the servers that they report are the next wave. */
static bool send_wave(skew_servers *servers, int from, const server_link *link, int32_t rate_ppm) {
    int to = servers->count;
    errand *errands = calloc(AT_ONCE, sizeof *errands);

    if (!errands)
        return false;
    while (from < to) {
        int n = 0;
        for (; n < AT_ONCE && from < to; from++)
            if (servers->server[from].place.host[0])
                errands[n++] = (errand){.visit = {.all = servers,
                                                  .server = &servers->server[from],
                                                  .rate_ppm = rate_ppm},
                                        .like = link};
        at_once(run_errand, errands, sizeof *errands, (unsigned)n);
        for (int i = 0; i < n; i++)
            learn(servers, &errands[i].visit);
    }
    free(errands);
    return true;
}

/* ---- all of it ----------------------------------------------------------------------------------- */

/* Goes from a Sentinel to the only master that it watches. */
static bool follow_sentinel(skew_servers *servers, server_link *link, const redis_info *info) {
    redis_place sentinel = {.port = link->endpoint.port};

    memcpy(sentinel.host, link->endpoint.host, sizeof sentinel.host);
    if (info->masters != 1 || info->peers.count != 1) {
        link->status = STATUS_USAGE;
        (void)snprintf(link->message, sizeof link->message,
                       "this Sentinel watches %d masters: give the URL of one of them",
                       info->masters);
        return false;
    }
    if (sentinel.host[0])
        places_add(&servers->given, sentinel.host, strlen(sentinel.host), sentinel.port);
    if (link_turn(link, info->peers.place[0].host, info->peers.place[0].port))
        return true;
    link->status = STATUS_INTERNAL;
    (void)snprintf(link->message, sizeof link->message, "out of memory");
    return false;
}

static bool ask_first(skew_servers *servers, server_link *link, int32_t rate_ppm, visit *ret) {
    static const char *const info[] = {"INFO", NULL};
    redis_server *first = &servers->server[0];

    memset(servers->server, 0, (PLACES_MAX + 1) * sizeof *servers->server);
    servers->count = 1;
    servers->more = servers->unserved = false;
    *ret = (visit){.link = link, .all = servers, .server = first, .rate_ppm = rate_ppm};
    if (!link_ask(link, info, take_info, ret) ||
        (ret->info.sentinel && !follow_sentinel(servers, link, &ret->info)))
        return false;
    *ret = (visit){.link = link, .all = servers, .server = first, .rate_ppm = rate_ppm};
    if (!look(ret))
        return false;
    first->place.port = link->endpoint.port;
    memcpy(first->place.host, link->endpoint.host, sizeof first->place.host);
    memcpy(first->label, link->endpoint.label, sizeof first->label);
    first->status = "ok";
    return true;
}

/* Nothing is known of the clock that times the locks of these slots: adds a row without
 * evidence. */
static void add_unserved(skew_servers *servers) {
    static const char label[] = "slots-without-master";

    if (servers->count > PLACES_MAX) {
        servers->more = true;
        return;
    }
    redis_server *server = &servers->server[servers->count++];
    server->status = "unknown";
    memcpy(server->label, label, sizeof label);
    (void)snprintf(server->why, sizeof server->why, "some node knows no master of some slots");
}

bool skew_servers_ask(skew_servers *servers, server_link *link, int32_t rate_ppm) {
    visit *visit = calloc(1, sizeof *visit);
    bool ok = visit && ask_first(servers, link, rate_ppm, visit);

    if (ok) {
        learn(servers, visit);
        add_all(servers, &servers->given);
        for (int from = 1, wave = 0; ok && from < servers->count && wave < WAVES; wave++) {
            int to = servers->count;
            ok = send_wave(servers, from, link, rate_ppm);
            from = to;
        }
        if (servers->unserved)
            add_unserved(servers);
    }
    if (!visit || (!ok && servers->count > 1)) {
        link->status = STATUS_INTERNAL;
        (void)snprintf(link->message, sizeof link->message, "out of memory");
    }
    free(visit);
    return ok;
}

/* ---- rows ---------------------------------------------------------------------------------------- */

#define ADVISE_NODE                                                                                \
    "check that each master of the cluster can be reached with this login: its clock "             \
    "decides when locks in its slots end (tidelock doctor finds what is wrong with the "           \
    "cluster)"

static void put(skew_host *host, const char *status, const char *text) {
    host->status = status;
    (void)snprintf(host->detail, sizeof host->detail, "%s", text);
}

static void name_row(skew_host *host, const char *label) {
    size_t n = strlen(label), skip = n < sizeof host->name ? 0 : n - sizeof host->name + 1;
    (void)snprintf(host->name, sizeof host->name, "%s", label + skip);
    for (char *c = host->name; *c; c++)
        if (!strchr("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._:-[]%/", *c))
            *c = '_';
}

void skew_server_judge(const skew_servers *servers, int which, const skew_reading *now,
                       const tl_interval *own, int32_t rate_ppm, skew_host *host) {
    const redis_server *server = &servers->server[which];
    const skew_track *track = &server->track;

    name_row(host, server->label);
    host->instrument = "server";
    host->kind = server->sentinel ? SKEW_REMARK : SKEW_REDIS;
    host->age_ms = -1;
    host->samples = track->samples;
    host->advice = servers->by_cluster ? ADVISE_NODE : NULL;
    if (!track->known && server->status && strcmp(server->status, "ok") != 0) {
        put(host, server->status, server->why[0] ? server->why : "it was not measured");
        return;
    }
    if (!track->known || !skew_unbroken(track, now)) {
        put(host, "void", "a clock was set while it was measured");
        return;
    }
    if (!own) {
        put(host, "unknown", "this host's own clock could not be measured");
        return;
    }
    tl_interval off = skew_offset(track, now->after, rate_ppm); /* own clock - its */
    host->offset = which == 0 ? (tl_interval){0, 0}
                              : (tl_interval){tl__add_sat(own->lo, -off.hi),
                                              tl__add_sat(own->hi, -off.lo)};
    host->against = 1;
    host->apart = (tl_interval){tl__add_sat(0, -off.hi), tl__add_sat(0, -off.lo)};
    host->known = true;
    host->age_ms = tl__ms_until(track->at, now->after);
    put(host, "ok",
        which == 0              ? "the Redis server, against which all clocks are measured"
        : servers->only_masters ? "a master of the cluster: its clock ends the locks of its slots"
        : servers->by_cluster   ? "a node of the cluster: if it is a master, its clock ends locks"
        : server->sentinel      ? "a Sentinel: its clock ends no lock"
                                : "a Redis server: after a failover its clock may end locks");
}

void skew_server_itself(const char *label, skew_host *host) {
    name_row(host, label);
    host->instrument = "server";
    host->kind = SKEW_REDIS;
    host->known = true;
    host->offset = (tl_interval){0, 0};
    put(host, "ok", "the Redis server, whose clock times the locks of tidelock's own clients");
}
