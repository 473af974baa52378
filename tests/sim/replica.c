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

static void keep_bytes(sim_world *w, const void *p, size_t n) {
    if (w->log_used + n > w->log_size)
        w->log_bytes = grow(w->log_bytes, &w->log_size, w->log_used + (uint32_t)n, 1);
    memcpy(w->log_bytes + w->log_used, p, n);
    w->log_used += (uint32_t)n;
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
    if ((int)server != w->master)
        sim_replica_apply(w, (int)server, w->now);
}

static void wrote(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc) {
    sim_world *w = ctx;
    if (!w->cfg.stays && tl__bytes_eq(argv[0], TL_LITERAL("PUBLISH")))
        return; /* nobody listens to replicas */
    const sim_write *before = w->log_count > 0 ? &w->log[w->log_count - 1] : NULL;
    sim_write e = {.unit = unit, .at = w->log_used, .db = (uint8_t)db, .argc = (uint8_t)argc};
    for (int i = 0; i <= w->cfg.replicas; i++)
        e.arrives[i] = arrival(w, i, before, unit);
    for (int i = 0; w->cfg.stays && i <= w->cfg.replicas; i++)
        if (e.arrives[i] != SIM_NEVER)
            sim_put(w, e.arrives[i], SIM_RANK_NET, due, w, (uint32_t)i);
    for (size_t i = 0; i < argc; i++) {
        uint32_t n = (uint32_t)argv[i].n;
        keep_bytes(w, &n, sizeof n);
        keep_bytes(w, argv[i].p, n);
    }
    if (w->log_count == w->log_room)
        w->log = grow(w->log, &w->log_room, w->log_count + 1, sizeof *w->log);
    w->log[w->log_count++] = e;
}

static void forget_log(sim_world *w) {
    w->log_count = w->log_used = 0;
    for (int i = 0; i < SIM_SERVERS; i++)
        w->applied[i] = 0;
}

void sim_replicas_reset(sim_world *w) {
    forget_log(w);
    memset(w->log_fifo, 0, sizeof w->log_fifo);
    if (w->cfg.replicas > 0)
        fake_redis_on_write(w->server[w->master].r, wrote, w);
    for (int i = 0; i <= w->cfg.replicas; i++) {
        fake_redis_set_replica(w->server[i].r, i != w->master);
        w->follows[i] = true;
    }
}

void sim_replicas_free(sim_world *w) {
    free(w->log);
    free(w->log_bytes);
}

static void apply(sim_world *w, int server, const sim_write *e) {
    tl_bytes argv[64];
    const char *p = w->log_bytes + e->at;
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
    while (w->applied[server] < w->log_count) {
        const sim_write *e = &w->log[w->applied[server]];
        if (e->arrives[server] > by && by != SIM_NEVER)
            break;
        w->applied[server]++;
        apply(w, server, e);
    }
    sim_sockets_answer(w); /* whoever hears a message there */
}

/* ---- WAIT -------------------------------------------------------------------------------------- */

int sim_replicas_confirm(sim_world *w, int needed, sim_ns by, sim_ns *ret_when) {
    int n = 0;
    sim_ns last = w->now;
    for (int i = 0; i <= w->cfg.replicas; i++) {
        if (i == w->master || !w->follows[i])
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
    sim_server *s = &w->server[server], *master = &w->server[w->master];
    sim_replica_behind(w, master, s);
    sim_server_set(w, server);
    fake_redis_set_replica(s->r, true);
    fake_redis_copy(s->r, master->r);
    w->applied[server] = w->log_count;
    w->log_fifo[server] = w->now;
    w->follows[server] = true;
}

void sim_replica_promote(sim_world *w, int server) {
    fake_redis_on_write(w->server[w->master].r, NULL, NULL);
    sim_replica_apply(w, server, w->now);
    forget_log(w);
    int former = w->master;
    w->follows[former] = false;
    w->master = server;
    fake_redis_set_replica(w->server[server].r, false);
    fake_redis_on_write(w->server[server].r, wrote, w);
    for (int i = 0; i <= w->cfg.replicas; i++)
        if (i != server && i != former)
            sim_replica_join(w, i);
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
    for (int i = 0; i <= w->cfg.replicas; i++)
        if (i != w->master)
            fake_redis_copy(w->server[i].r, w->server[w->master].r);
    forget_log(w);
}

static void promote(sim_world *w, void *who, uint32_t server) {
    sim_server *old = &w->server[w->master], *s = &w->server[server];
    (void)who;
    fake_redis_on_write(old->r, NULL, NULL);
    w->master = (int)server;
    w->failing_over = false;
    w->promoted = w->now;
    s->up = true;
    set_ahead(w, old, s);
    note_clocks(w, s);
    fake_redis_set_started(s->r, sim_server_us(w, s) - 3600 * INT64_C(1000000));
    for (int i = 0; i <= w->cfg.replicas; i++) {
        w->server[i].up = true;
        if (!w->cfg.stays)
            sim_replica_behind(w, s, &w->server[i]);
        sim_server_set(w, i);
    }
    sim_replicas_copy(w);
    sim_replicas_reset(w);
    sim_server_begin_history(w);
    sim_tell(w, "", SIM_ALL, "server %d is master now", (int)server);
    if (w->cfg.migrates)
        sim_phase_failed_over(w);
}

/* The one that has most. */
static int candidate(const sim_world *w, bool lossy) {
    int best = -1;
    for (int i = 0; i <= w->cfg.replicas; i++) {
        if (i == w->master)
            continue;
        if (best < 0 ||
            (lossy ? w->log_fifo[i] > w->log_fifo[best] : w->log_fifo[i] < w->log_fifo[best]))
            best = i;
    }
    return best;
}

void sim_failover(sim_world *w, bool lossy, bool quick) {
    int next = candidate(w, lossy);
    if (next < 0 || w->failing_over || !w->server[w->master].up)
        return;
    w->stats.failovers++;
    w->stats.stamps_promoted += w->cfg.stamps;
    w->stats.stays += w->cfg.stays;
    sim_tell(w, "", SIM_ALL, "the master, server %d, %s%s", w->master,
             w->cfg.stays ? "becomes a replica" : "dies",
             lossy ? "; its last writes are lost" : "");
    sim_replica_apply(w, next, lossy ? w->now : SIM_NEVER);
    w->failing_over = true;
    w->died_showing = sim_clock_read(&w->server[w->master].wall, w->now);
    if (w->cfg.stays)
        fake_redis_set_replica(w->server[w->master].r, true);
    else
        sim_server_kill(w, w->master);
    if (w->cfg
            .stays) /* a former master may be ahead: whoever is connected to it sees no step before */
        sim_replica_behind(w, &w->server[w->master], &w->server[next]);
    int64_t ahead_us = sim_server_us(w, &w->server[w->master]) - sim_server_us(w, &w->server[next]);
    /* So long that the time doesn't go back. */
    sim_ns least = ahead_us > 0 && !quick && !w->cfg.goes_back ? ahead_us * 1001 : 0;
    sim_put(w, w->now + least + SIM_MS + sim_draw_part(w, 0, w->cfg.goes_back ? 5 : 100),
            SIM_RANK_NET, promote, w, (uint32_t)next);
}
