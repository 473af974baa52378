/*
 * The clients of a simulated process. Most of its actors share one; some have one of their own, which they open
 * and close as they like. The last one to leave closes it.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define CLOSE_MS 50 /* a close may take so much longer than it says */

sim_client *sim_client_of(sim_world *w, const tl_client *handle) {
    for (int i = 0; i < w->cfg.hosts; i++)
        for (int k = 0; k < SIM_CLIENTS; k++)
            if (w->host[i].client[k].handle == handle)
                return &w->host[i].client[k];
    return NULL;
}

/* One that is being closed acquires nothing any more. */
bool sim_client_follows(const sim_client *c) {
    return c->handle && c->users > 0 && c->kind == SIM_AUTO;
}

static void log_line(tl_log_level level, const char *line, void *ctx) {
    (void)level;
    sim_observe_log(ctx, line);
}

static tl_protocol_id protocol_of(sim_kind kind) {
    return kind == SIM_BRIDGE                        ? TL_BRIDGE
           : kind == SIM_STAMP || kind == SIM_STRICT ? TL_TIMESTAMP
           : kind == SIM_AUTO                        ? TL_AUTO
                                                     : TL_TOKEN;
}

/* Where it can be had by all, and no shorter than any lock; and users who may do little are not to have it. */
static int64_t quiet_ms(const sim_config *f, sim_kind kind) {
    bool can = f->level >= FAKE_LEVEL(4, 0, 0) && !f->no_eval && f->lacks == 0 &&
               kind != SIM_STRICT;
    int64_t least, longest = sim_config_longest_ms(f);
    if (f->stamps)
        sim_config_lifetimes(f, &least, &longest);
    if (!can || f->quiet_ms == 0)
        return f->voters ? TL_QUIET_OFF : 0;
    return f->quiet_ms > longest ? f->quiet_ms : longest;
}

/* Some know but one or two of the Sentinels. */
static const char *url_of_sentinels(const sim_config *f) {
    static const char *const names[] = {"redis+sentinel://s2/m", "redis+sentinel://s3,s1/m",
                                        "redis+sentinel://s1,s2,s3/m"};
    static const char *const addresses[] = {"redis+sentinel://10.0.2.2/m",
                                            "redis+sentinel://10.0.2.3,10.0.2.1/m",
                                            "redis+sentinel://10.0.2.1,10.0.2.2,10.0.2.3/m"};
    int i = f->seeds < 1 ? 0 : f->seeds > SIM_SENTINELS ? SIM_SENTINELS - 1 : f->seeds - 1;
    return f->by_name ? names[i] : addresses[i];
}

/* Any of its nodes leads to all. */
static const char *url_of_cluster(const sim_config *f) {
    static const char *const addresses[] = {
        "redis+cluster://10.0.0.2", "redis+cluster://10.0.0.6,10.0.0.1",
        "redis+cluster://10.0.0.1,10.0.0.2,10.0.0.3,10.0.0.4,10.0.0.5,10.0.0.6"};
    return addresses[f->seeds < 1 ? 0 : f->seeds > 3 ? 2 : f->seeds - 1];
}

/* All of them, in the order that they are numbered. One may be named twice. */
static const char *url_of_quorum(const sim_world *w) {
    static char url[160];
    size_t n = (size_t)snprintf(url, sizeof url, "redis+quorum://");
    for (int i = 0; i < w->cfg.voters; i++) {
        int server = sim_quorum_at(w, i) + 1;
        const char *comma = i > 0 ? "," : "";
        n += (size_t)(w->cfg.by_name ? snprintf(url + n, sizeof url - n, "%s%c%d", comma,
                                                server == i + 1 ? 'q' : 'r', server)
                                     : snprintf(url + n, sizeof url - n, "%s10.0.%d.%d", comma,
                                                server == i + 1 ? 0 : 3, server));
    }
    return url;
}

/* Any of its members leads to all. */
static const char *url_of_etcd(const sim_world *w) {
    static char url[160];
    size_t n = (size_t)snprintf(url, sizeof url, "etcd://%s", w->cfg.users ? "me:secret@" : "");
    for (int i = 0; i < w->cfg.members; i++)
        n += (size_t)snprintf(url + n, sizeof url - n, "%s%s%d", i > 0 ? "," : "",
                              w->cfg.by_name ? "q" : "10.0.0.", i + 1);
    return url;
}

const char *sim_client_url(const sim_world *w) {
    if (w->cfg.members)
        return url_of_etcd(w);
    if (w->cfg.voters)
        return url_of_quorum(w);
    if (w->cfg.fleet)
        return url_of_cluster(&w->cfg);
    if (w->cfg.sentinel)
        return url_of_sentinels(&w->cfg);
    return w->cfg.by_name ? "redis://server" : "redis://10.0.0.1";
}

static void open_client(sim_world *w, sim_client *c, sim_kind kind, bool dispatch) {
    const sim_config *f = &w->cfg;
    bool waits = kind != SIM_STRICT; /* which refuses to */
    tl_legacy_options room;
    tl_error err;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = sim_client_url(w), .protocol = protocol_of(kind),
                                            .service = "sim", .attempt_ms = f->attempt_ms,
                                            .connect_ms = f->connect_ms,
                                            .quiet_ms = quiet_ms(f, kind),
                                            .drift_ppm = f->drift_ppm,
                                            .wait_replicas = waits ? f->wait_replicas : 0,
                                            .wait_replicas_ms = waits ? f->wait_replicas_ms : 0,
                                            .log = log_line, .log_ctx = c,
                                            .trace = f->trace && w->telling, .dispatch = dispatch,
                                            .legacy = sim_stamp_options(w, kind, &room));
    c->kind = (uint8_t)kind;
    c->dispatch = dispatch;
    sim_leave();
    tl_err code = tl_client_open(&o, &c->handle, &err);
    (void)sim_enter();
    w->stats.clients++;
    if (c->handle && f->crowds)
        c->handle->crowd = 0;
    if (code) {
        c->handle = NULL;
        sim_fail(w, SIM_ALL, "a client is refused: %s", err.message);
    }
}

/* Of the same kind, and whose may it be? */
static bool may_use(const sim_client *c, const sim_actor *a, sim_kind kind, bool own,
                    bool dispatch) {
    return (c->handle || c->opening) && c->kind == kind && c->dispatch == dispatch &&
           (own ? c->owner == a : !c->owner);
}

/* Tokens without a phase are all of one kind. */
static sim_client *find(sim_actor *a, sim_kind kind, bool own, bool dispatch) {
    sim_host *h = a->host;
    for (int i = 0; i < SIM_CLIENTS; i++)
        if (may_use(&h->client[i], a, kind, own, dispatch))
            return &h->client[i];
    for (int i = 0; i < SIM_CLIENTS; i++)
        if (!h->client[i].handle && !h->client[i].opening)
            return &h->client[i];
    return NULL;
}

sim_client *sim_client_use(sim_world *w, sim_actor *a) {
    sim_kind kind = (sim_kind)w->cfg.cast[a->id].kind;
    bool dispatch = a->kind == &sim_actor_loop;
    bool own = dispatch || sim_chance(&w->random, w->cfg.own_clients);
    sim_client *c;
    while (!(c = find(a, kind, own, dispatch)) || c->opening) {
        own = dispatch;
        sim_sleep(w, SIM_MS);
    }
    c->users++;
    if (c->handle)
        return c;
    sim_alarm none = SIM_ALARM;
    *c = (sim_client){.host = a->host, .opening = true, .users = 1, .pause = none};
    c->owner = own ? a : NULL;
    open_client(w, c, kind, dispatch);
    c->opening = false;
    return c;
}

void sim_client_leave(sim_world *w, sim_client *c) {
    if (--c->users > 0)
        return;
    c->opening = true;
    sim_ns began = w->now;
    tl_client *handle = c->handle;
    sim_leave();
    tl_client_close(handle);
    (void)sim_enter();
    w->stats.closes++;
    sim_ns most = tl__rate_most_ns((w->cfg.attempt_ms + CLOSE_MS) * SIM_MS, sim_clocks_ppm(w));
    if (w->now - began > most && c->host->stalled <= began)
        sim_fail(w, SIM_ALL, "closing a client of host %c takes %lld ms of %lld", c->host->name,
                 (long long)((w->now - began) / SIM_MS), (long long)w->cfg.attempt_ms);
    c->handle = NULL;
    c->opening = false;
}
