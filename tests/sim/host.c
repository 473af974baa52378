/*
 * A host: its two clocks, being stopped, crashing. One that is stopped runs none of its threads; they find all that
 * has happened when it goes on.
 */
#include "world.h"

#define EPOCH_NS INT64_C(1700000000000000000)
#define REBOOT_MS 200 /* a crashed host is away for at least so long */

void sim_host_boot(sim_world *w, sim_host *h) {
    h->w = w;
    h->up = true;
    h->paused_until = h->cut_up = h->cut_down = 0;
    h->stalled = 0;
    h->suspended_ns = 0;
    h->java_flag = false;
    h->boot = (sim_clock){sim_draw(w, 1, INT64_C(1000000000000)), w->now, w->cfg.host_ppb[h->id]};
    h->booted = h->boot.base;
    h->heap = sim_heap_get(h->id);
    sim_heap_clear(h->heap);
    if (h->wall.base == 0) {
        int64_t offset = w->cfg.wall_offset_ms[h->id] * SIM_MS;
        h->wall = (sim_clock){EPOCH_NS + offset, w->now, w->cfg.wall_ppb[h->id]};
    }
}

static void reboot(sim_world *w, void *who, uint32_t tag) {
    sim_host *h = who;
    (void)tag;
    sim_tell(w, "", SIM_ALL, "host %c is back", h->name);
    sim_host_boot(w, h);
    for (int i = 0; i < w->cfg.actors; i++)
        if (w->actor[i].host == h)
            sim_actor_start(w, &w->actor[i]);
}

/* Its threads, descriptors and memory; what it had sent is still on its way. */
static void forget_process(sim_world *w, sim_host *h) {
    sim_threads_kill(w, h);
    for (int i = 0; i < SIM_FDS; i++) {
        if (h->fd[i].kind == SIM_SOCKET)
            sim_socket_abandon(w, h->fd[i].socket);
        h->fd[i].kind = SIM_CLOSED;
        h->fd[i].alarm.at = SIM_NEVER;
    }
    h->fds = 0;
    for (int i = 0; i < SIM_CLIENTS; i++)
        h->client[i] = (sim_client){.host = h};
    for (int i = 0; i < w->resting; i++)
        if (w->rests[i]->host == h)
            w->rests[i--] = w->rests[--w->resting];
    sim_heap_clear(h->heap);
}

void sim_host_crash(sim_world *w, sim_host *h) {
    if (!h->up)
        return;
    sim_tell(w, "", SIM_ALL, "host %c crashes", h->name);
    w->stats.crashes++;
    h->up = false;
    for (uint32_t i = 1; i <= w->tokens; i++)
        if (w->token[i].host == h->id)
            w->token[i].crashed = true;
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_actor *a = &w->actor[i];
        if (a->host != h)
            continue;
        a->lives = false;
        if (a->kind->crash)
            a->kind->crash(w, a);
    }
    forget_process(w, h);
    sim_put(w, w->now + REBOOT_MS * SIM_MS + sim_draw_part(w, 0, 300), SIM_RANK_ACTOR, reboot, h,
            0);
}

void sim_host_pause(sim_host *h, sim_ns until) {
    const sim_world *w = h->w;
    if (!h->up || until <= h->paused_until)
        return;
    if (w->cfg.suspends)
        h->suspended_ns += sim_clock_read(&h->boot, until) -
                           sim_clock_read(&h->boot,
                                          w->now > h->paused_until ? w->now : h->paused_until);
    h->paused_until = until;
    if (h->stalled < until)
        h->stalled = until;
}

/* ---- clocks ------------------------------------------------------------------------------------ */

tl_mono sim_host_clock(const sim_world *w, const sim_host *h) {
    return (tl_mono){sim_clock_read(&h->boot, w->now)};
}

sim_clock sim_clock_from_here(const sim_world *w, const sim_clock *clock, int way) {
    sim_clock from_here = *clock;
    int64_t ppm = w->cfg.fault[SIM_BEYOND] ? SIM_BEYOND_PPM : w->cfg.drift_ppm;
    if (w->cfg.fault[SIM_SLEW] || w->cfg.fault[SIM_BEYOND])
        sim_clock_set_rate(&from_here, w->now, way * ppm * INT64_C(1000));
    return from_here;
}

int32_t sim_clocks_ppm(const sim_world *w) {
    int64_t most = w->cfg.fault[SIM_BEYOND] ? SIM_BEYOND_PPM : w->cfg.drift_ppm;
    for (int i = 0; i < w->cfg.hosts && w->cfg.slow_clock; i++) {
        int64_t ppm = w->cfg.host_ppb[i] / 1000;
        most = ppm > most ? ppm : -ppm > most ? -ppm : most;
    }
    return (int32_t)most;
}

/* Whoever is called too early, as the clock may be slewed, asks again. */
sim_ns sim_host_when(sim_world *w, const sim_host *h, tl_mono at) {
    sim_clock clock = sim_clock_from_here(w, &h->boot, 1);
    sim_ns when = sim_clock_when(&clock, at.ns);
    if (when == SIM_NEVER)
        return SIM_NEVER;
    return (when < w->now ? w->now : when) + sim_draw(w, 0, w->cfg.late);
}

int64_t sim_host_skew(const sim_world *w, const sim_host *h) {
    return sim_clock_read(&h->wall, w->now) - EPOCH_NS - w->now;
}

int64_t sim_host_wall_ms(const sim_world *w, const sim_host *h) {
    return sim_clock_read(&h->wall, w->now) / SIM_MS;
}

bool sim_host_could(const sim_world *w, const sim_host *h, tl_mono at) {
    sim_ns when = sim_clock_when(&h->boot, at.ns);
    sim_ns late = w->cfg.slow_clock || w->cfg.fault[SIM_BEYOND]
                      ? 2 * SIM_MS
                      : SIM_MS; /* timers may be late by less */
    sim_ns after = sim_clock_when(&h->boot, tl__mono_add_ns(at, late).ns);
    return h->up && after != SIM_NEVER && h->stalled + SIM_MS < when && w->now > after;
}
