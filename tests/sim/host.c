/*
 * A host: its two clocks, being stopped, crashing. Everything that happens on a host passes through
 * sim_host_awake, so that a stopped one finds it all at once when it goes on.
 */
#include "world.h"

#define EPOCH_NS INT64_C(1700000000000000000)
#define REBOOT_MS 200 /* a crashed host is away for at least so long */

void sim_host_boot(sim_world *w, sim_host *h) {
    h->up = true;
    h->paused_until = h->cut_up = h->cut_down = 0;
    h->stalled = 0;
    h->stale_event = 0;
    h->java_flag = false;
    h->boot = (sim_clock){sim_draw(w, 1, INT64_C(1000000000000)), w->now, w->cfg.host_ppb[h->id]};
    h->booted = h->boot.base;
    if (h->wall.base == 0) {
        int64_t offset = w->cfg.wall_offset_ms[h->id] * SIM_MS;
        h->wall = (sim_clock){EPOCH_NS + offset, w->now, w->cfg.wall_ppb[h->id]};
    }
    sim_client_boot(w, h);
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
        a->alarm.at = SIM_NEVER;
        if (a->kind->crash)
            a->kind->crash(w, a);
    }
    sim_client_crash(w, &h->client);
    sim_put(w, w->now + REBOOT_MS * SIM_MS + sim_draw_part(w, 0, 300), SIM_RANK_ACTOR, reboot, h,
            0);
}

void sim_host_pause(sim_host *h, sim_ns until) {
    if (!h->up || until <= h->paused_until)
        return;
    h->paused_until = h->stalled = until;
}

/* Stopped between reading the clock and acting on it: this very event comes first afterwards. */
static bool stop_after_reading(sim_world *w, sim_host *h, sim_fire fire, void *who, uint32_t tag) {
    if (!sim_roll(w, SIM_STALE))
        return false;
    w->stats.stale++;
    h->stale = sim_host_clock(w, h);
    sim_host_pause(h, w->now + sim_draw_part(w, 0, sim_draw(w, 0, 3) ? 20 : 200));
    h->stale_event = sim_queue_next(&w->queue, SIM_RANK_RESUME);
    sim_put(w, h->paused_until, SIM_RANK_RESUME, fire, who, tag);
    return true;
}

bool sim_host_awake(sim_world *w, sim_host *h, sim_fire fire, void *who, uint32_t tag) {
    if (w->now < h->paused_until) {
        sim_put_off(w, h->paused_until, fire, who, tag);
        return false;
    }
    if (h->stale_event == w->event) {
        h->stale_event = 0;
        h->now_is_stale = true;
        w->gated = h;
        return true;
    }
    if (sim_rank(w->event) == SIM_RANK_RESUME) { /* of a life before a crash */
        sim_put(w, w->now, SIM_RANK_NET, fire, who, tag);
        return false;
    }
    return !stop_after_reading(w, h, fire, who, tag);
}

bool sim_host_alarm(sim_world *w, sim_host *h, sim_alarm *alarm, unsigned rank, sim_fire fire,
                    void *who, uint32_t tag) {
    if (tag == 0 && !sim_alarm_due(&w->queue, alarm, w->now, rank, fire, who))
        return false;
    return sim_host_awake(w, h, fire, who, 1);
}

/* ---- clocks ------------------------------------------------------------------------------------ */

tl_mono sim_host_clock(const sim_world *w, const sim_host *h) {
    return (tl_mono){sim_clock_read(&h->boot, w->now)};
}

tl_mono sim_host_now(const sim_world *w, const sim_host *h) {
    return h->now_is_stale ? h->stale : sim_host_clock(w, h);
}

sim_clock sim_clock_from_here(const sim_world *w, const sim_clock *clock, int way) {
    sim_clock from_here = *clock;
    if (w->cfg.fault[SIM_SLEW])
        sim_clock_set_rate(&from_here, w->now, way * w->cfg.drift_ppm * INT64_C(1000));
    return from_here;
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

int64_t sim_host_wall_us(const sim_world *w, const sim_host *h) {
    return (sim_clock_read(&h->wall, w->now) - sim_clock_read(&h->boot, w->now)) / 1000;
}

bool sim_host_could(const sim_world *w, const sim_host *h, tl_mono at) {
    sim_ns when = sim_clock_when(&h->boot, at.ns);
    sim_ns after = sim_clock_when(&h->boot,
                                  tl__mono_add_ns(at, SIM_MS).ns); /* timers may be late by less */
    return h->up && after != SIM_NEVER && h->stalled + SIM_MS < when && w->now > after;
}
