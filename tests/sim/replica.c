/*
 * Replicas: each write of the master reaches them after a while, in order, and so does what is published, which
 * they repeat to those who listen to them. One takes over when the master dies, with everything (the
 * assumption), or with what it has; or the master becomes its replica, and whoever is connected to it stays so.
 */
#include "world.h"

#include <stdlib.h>

#define NEWEST FAKE_LEVEL(7, 0, 15)

/* ---- the stream of writes ---------------------------------------------------------------------- */

static void *grow(void *p, uint32_t *room, uint32_t least, size_t size) {
    uint32_t n = *room ? *room : 256;
    while (n < least)
        n *= 2;
    *room = n;
    p = realloc(p, n * size);
    if (!p)
        abort();
    return p;
}

static void keep_bytes(sim_shard *h, const void *p, size_t n) {
    if (h->log_used + n > h->log_size)
        h->log_bytes = grow(h->log_bytes, &h->log_size, h->log_used + (uint32_t)n, 1);
    memcpy(h->log_bytes + h->log_used, p, n);
    h->log_used += (uint32_t)n;
}

/* Is it one of the shard's, or was it? */
static bool is_of(const sim_world *w, const sim_shard *h, int server) {
    return server < sim_servers(w) && &w->shard[sim_shard_of(w, server)] == h;
}

static sim_ns arrival(sim_world *w, int i, const sim_write *before, uint64_t unit) {
    if (!w->follows[i])
        return SIM_NEVER;
    if (before && before->unit == unit)
        return before->arrives[i]; /* together or not at all */
    sim_ns at = w->now + w->cfg.delay / 2 + sim_draw(w, 0, w->cfg.delay);
    if (sim_draw(w, 0, w->cfg.migrates && w->cfg.fault[SIM_LOSSY] ? 3 : 15) == 0)
        at += sim_draw_part(w, 0, 50); /* it lags now and then */
    if (at < w->log_fifo[i])
        at = w->log_fifo[i];
    return w->log_fifo[i] = at;
}

/* It reaches a replica, which somebody may be connected to. */
static void due(sim_world *w, void *who, uint32_t server) {
    (void)who;
    if ((int)server != sim_master_of(w, (int)server))
        sim_replica_apply(w, (int)server, w->now);
}

static void wrote(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc) {
    sim_shard *h = ctx;
    sim_world *w = h->w;
    bool said = tl__bytes_eq(argv[0], TL_LITERAL("PUBLISH"));
    if (said && w->cfg.fleet)
        sim_cluster_repeat(w, h->master, argv[1], argv[2]);
    if (said && (!w->cfg.stays || w->cfg.fleet))
        return; /* nobody listens to replicas */
    const sim_write *before = h->log_count > 0 ? &h->log[h->log_count - 1] : NULL;
    sim_write e = {.unit = unit, .at = h->log_used, .db = (uint8_t)db, .argc = (uint8_t)argc};
    for (int i = 0; i < SIM_NODES; i++)
        e.arrives[i] = is_of(w, h, i) ? arrival(w, i, before, unit) : SIM_NEVER;
    for (int i = 0; w->cfg.stays && i < sim_servers(w); i++)
        if (e.arrives[i] != SIM_NEVER)
            sim_put(w, e.arrives[i], SIM_RANK_NET, due, w, (uint32_t)i);
    for (size_t i = 0; i < argc; i++) {
        uint32_t n = (uint32_t)argv[i].n;
        keep_bytes(h, &n, sizeof n);
        keep_bytes(h, argv[i].p, n);
    }
    if (h->log_count == h->log_room)
        h->log = grow(h->log, &h->log_room, h->log_count + 1, sizeof *h->log);
    h->log[h->log_count++] = e;
}

static void forget_log(sim_world *w, sim_shard *h) {
    h->log_count = h->log_used = 0;
    for (int i = 0; i < SIM_NODES; i++)
        if (is_of(w, h, i))
            w->applied[i] = 0;
}

void sim_replicas_reset(sim_world *w) {
    memset(w->log_fifo, 0, sizeof w->log_fifo);
    for (int k = 0; k < sim_shards(w); k++) {
        sim_shard *h = &w->shard[k];
        h->w = w;
        forget_log(w, h);
        if (w->cfg.replicas > 0)
            fake_redis_on_write(w->server[h->master].r, wrote, h);
    }
    for (int i = 0; i < sim_servers(w); i++) {
        fake_redis_set_replica(w->server[i].r, i != sim_master_of(w, i));
        w->follows[i] = true;
    }
}

void sim_replicas_free(sim_world *w) {
    for (int k = 0; k < SIM_NODES; k++) {
        free(w->shard[k].log);
        free(w->shard[k].log_bytes);
    }
}

static void apply(sim_world *w, int server, const sim_write *e) {
    tl_bytes argv[64];
    const char *p = w->shard[sim_shard_of(w, server)].log_bytes + e->at;
    sim_server *s = &w->server[server];
    for (int i = 0; i < e->argc && i < 64; i++) {
        uint32_t n;
        memcpy(&n, p, sizeof n);
        argv[i] = tl__bytes(p + sizeof n, n);
        p += sizeof n + n;
    }
    fake_redis_set_time(s->r, 1); /* a replica leaves it to its master to find something expired */
    fake_redis_set_level(s->r, NEWEST); /* the stream speaks of PXAT, whatever the master's level */
    fake_redis_apply(s->r, e->db, argv, e->argc);
    fake_redis_set_level(s->r, w->cfg.level);
}

void sim_replica_apply(sim_world *w, int server, sim_ns by) {
    const sim_shard *h = &w->shard[sim_shard_of(w, server)];
    while (w->applied[server] < h->log_count) {
        const sim_write *e = &h->log[w->applied[server]];
        if (e->arrives[server] > by && by != SIM_NEVER)
            break;
        w->applied[server]++;
        apply(w, server, e);
    }
    sim_sockets_answer(w); /* whoever hears a message there */
}

/* ---- WAIT -------------------------------------------------------------------------------------- */

int sim_replicas_confirm(sim_world *w, int master, int needed, sim_ns by, sim_ns *ret_when) {
    int n = 0;
    sim_ns last = w->now;
    for (int i = 0; i < sim_servers(w); i++) {
        if (i == master || sim_master_of(w, i) != master || !w->follows[i])
            continue;
        sim_ns at = (w->log_fifo[i] > w->now ? w->log_fifo[i] : w->now) + w->cfg.delay;
        if (at > by)
            continue;
        n++;
        last = at > last ? at : last;
    }
    if (n < needed)
        last = by;
    *ret_when = last;
    return n;
}

/* ---- beginning to follow ------------------------------------------------------------------------ */

void sim_replica_join(sim_world *w, int server) {
    sim_server *s = &w->server[server], *master = &w->server[sim_master_of(w, server)];
    sim_replica_behind(w, master, s);
    sim_server_set(w, server);
    fake_redis_set_replica(s->r, true);
    fake_redis_copy(s->r, master->r);
    w->applied[server] = w->shard[sim_shard_of(w, server)].log_count;
    w->log_fifo[server] = w->now;
    w->follows[server] = true;
}

void sim_replica_promote(sim_world *w, int server) {
    sim_shard *h = &w->shard[sim_shard_of(w, server)];
    int former = h->master;
    fake_redis_on_write(w->server[former].r, NULL, NULL);
    sim_replica_apply(w, server, w->now);
    forget_log(w, h);
    w->follows[former] = false;
    h->master = server;
    fake_redis_set_replica(w->server[server].r, false);
    fake_redis_on_write(w->server[server].r, wrote, h);
    for (int i = 0; i < sim_servers(w); i++)
        if (i != server && i != former && is_of(w, h, i))
            sim_replica_join(w, i);
}

/* It has never known that it was not the master: it goes on with what it has. */
void sim_replica_return(sim_world *w, int server) {
    sim_shard *h = &w->shard[sim_shard_of(w, server)];
    fake_redis_on_write(w->server[h->master].r, NULL, NULL);
    forget_log(w, h);
    w->follows[h->master] = false;
    h->master = server;
    fake_redis_on_write(w->server[server].r, wrote, h);
}

/* ---- failing over ------------------------------------------------------------------------------ */

/* No replica is ahead of its master, so that the time doesn't go forward by a failover: assumed. */
void sim_replica_behind(sim_world *w, const sim_server *old, sim_server *s) {
    int64_t ahead_ns = sim_clock_read(&s->wall, w->now) - sim_clock_read(&old->wall, w->now);
    if (ahead_ns > 0)
        sim_clock_step(
            &s->wall, -ahead_ns - (w->cfg.stamps ? 0 : sim_draw(w, 0, w->cfg.ttl_ms * SIM_MS / 2)));
}

/* Against what is assumed: then the time goes forward by it. */
static void set_ahead(sim_world *w, const sim_server *old, sim_server *s) {
    int64_t is_ns = sim_clock_read(&s->wall, w->now) - sim_clock_read(&old->wall, w->now);
    if (w->cfg.ahead_us == 0)
        return;
    w->stats.promoted_ahead++;
    sim_clock_step(&s->wall, sim_draw(w, 1, w->cfg.ahead_us) * 1000 - is_ns);
}

static void note_clocks(sim_world *w, const sim_server *s) {
    int64_t back_ns = w->died_showing - sim_clock_read(&s->wall, w->now);
    if (back_ns <= 0)
        return;
    w->stats.promoted_behind++;
    w->went_back += back_ns;
}

/* Everybody has what the master has. */
void sim_replicas_copy(sim_world *w) {
    for (int i = 0; i < sim_servers(w); i++)
        if (i != w->shard[0].master)
            fake_redis_copy(w->server[i].r, w->server[w->shard[0].master].r);
    forget_log(w, &w->shard[0]);
}

static void promote(sim_world *w, void *who, uint32_t server) {
    sim_server *old = &w->server[w->shard[0].master], *s = &w->server[server];
    (void)who;
    fake_redis_on_write(old->r, NULL, NULL);
    sim_rest_replaced(w, w->shard[0].master, (int)server);
    w->shard[0].master = (int)server;
    w->failing_over = false;
    w->shard[0].promoted = w->now;
    s->up = true;
    set_ahead(w, old, s);
    note_clocks(w, s);
    fake_redis_set_started(s->r, sim_server_us(w, s) - 3600 * INT64_C(1000000));
    for (int i = 0; i < sim_servers(w); i++) {
        w->server[i].up = true;
        if (!w->cfg.stays)
            sim_replica_behind(w, s, &w->server[i]);
        sim_server_set(w, i);
    }
    sim_replicas_copy(w);
    sim_replicas_reset(w);
    sim_server_begin_history(w, 0);
    sim_tell(w, "", SIM_ALL, "server %d is master now", (int)server);
    if (w->cfg.migrates)
        sim_phase_failed_over(w);
}

/* The one that has most. */
static int candidate(const sim_world *w, bool lossy) {
    int best = -1;
    for (int i = 0; i < sim_servers(w); i++) {
        if (i == w->shard[0].master)
            continue;
        if (best < 0 ||
            (lossy ? w->log_fifo[i] > w->log_fifo[best] : w->log_fifo[i] < w->log_fifo[best]))
            best = i;
    }
    return best;
}

void sim_failover(sim_world *w, bool lossy, bool quick) {
    int next = candidate(w, lossy);
    if (next < 0 || w->failing_over || !w->server[w->shard[0].master].up)
        return;
    w->stats.failovers++;
    w->stats.stamps_promoted += w->cfg.stamps;
    w->stats.stays += w->cfg.stays;
    sim_tell(w, "", SIM_ALL, "the master, server %d, %s%s", w->shard[0].master,
             w->cfg.stays ? "becomes a replica" : "dies",
             lossy ? "; its last writes are lost" : "");
    sim_replica_apply(w, next, lossy ? w->now : SIM_NEVER);
    w->failing_over = true;
    w->died_showing = sim_clock_read(&w->server[w->shard[0].master].wall, w->now);
    if (w->cfg.stays)
        fake_redis_set_replica(w->server[w->shard[0].master].r, true);
    else
        sim_server_kill(w, w->shard[0].master);
    if (w->cfg
            .stays) /* a former master may be ahead: whoever is connected to it sees no step before */
        sim_replica_behind(w, &w->server[w->shard[0].master], &w->server[next]);
    int64_t ahead_us = sim_server_us(w, &w->server[w->shard[0].master]) -
                       sim_server_us(w, &w->server[next]);
    /* So long that the time doesn't go back. */
    sim_ns least = ahead_us > 0 && !quick && !w->cfg.goes_back ? ahead_us * 1001 : 0;
    sim_put(w, w->now + least + SIM_MS + sim_draw_part(w, 0, w->cfg.goes_back ? 5 : 100),
            SIM_RANK_NET, promote, w, (uint32_t)next);
}

sim_ns sim_former_leaves(sim_world *w, sim_ns promoted) {
    static const char *const words[SIM_WAYS] = {"dies", "dies, and will come back as a master",
                                                "stops", "is cut off", "is to be followed"};
    int way = w->change.way;
    sim_tell(w, "", SIM_ALL, "the master, server %d, %s", (int)w->change.former, words[way]);
    sim_ns until = promoted + sim_draw_part(w, -20, 250) + sim_draw(w, 0, 1) * 1200 * SIM_MS;
    w->stats.died += way == SIM_DIES;
    w->stats.returned += way == SIM_RETURNS;
    w->stats.woke += way == SIM_WAKES;
    w->stats.parted += way == SIM_PARTED;
    w->stats.led += way == SIM_LED;
    return until <= w->now ? w->now + SIM_MS : until;
}
