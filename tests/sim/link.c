/*
 * The network: how long something takes from a host to the server or back. A partition holds back
 * what is sent, as TCP does; what is in order stays in order on one connection.
 */
#include "world.h"

sim_ns sim_link_delay(const sim_world *w, const sim_host *host) {
    int32_t near = w->cfg.near[host->id];
    return near ? w->cfg.delay / 100 * near : w->cfg.delay;
}

static sim_ns delay(sim_world *w, const sim_host *host) {
    sim_ns usual = sim_link_delay(w, host), d = usual / 2 + sim_draw(w, 0, usual);
    if (!sim_roll(w, SIM_SLOW))
        return d;
    w->stats.slow++;
    sim_ns most = 10 * w->cfg.ttl_ms * SIM_MS;
    d *= sim_draw(w, 10, sim_draw(w, 0, 7) ? 100 : 1000);
    return d < most ? d : most;
}

static sim_ns arrive(sim_world *w, const sim_host *host, sim_ns cut, sim_ns *fifo) {
    sim_ns at = (cut > w->now ? cut : w->now) + delay(w, host);
    if (at < *fifo)
        at = *fifo;
    return *fifo = at;
}

sim_ns sim_link_up(sim_world *w, const sim_host *host, sim_ns *fifo) {
    return arrive(w, host, host->cut_up, fifo);
}

sim_ns sim_link_down(sim_world *w, const sim_host *host, sim_ns *fifo) {
    return arrive(w, host, host->cut_down, fifo);
}
