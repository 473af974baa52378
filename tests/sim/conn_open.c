/*
 * Connecting: to whatever server is master now, through the link, then the login with its TIME.
 */
#include "world.h"

static void opened(sim_world *w, void *who, uint32_t gen);
static void logged_in(sim_world *w, void *who, uint32_t gen);

static void refused(sim_world *w, void *who, uint32_t gen) {
    sim_conn *c = who;
    if (c->gen != gen || !sim_host_awake(w, c->host, refused, who, gen))
        return;
    w->stats.refused++;
    sim__conn_lose(w, c, TL_EUNAVAILABLE, "connection refused", false);
}

void sim__conn_open(sim_world *w, sim_conn *c) {
    c->gen++;
    c->state = SIM_OPENING;
    c->server = (uint8_t)w->master;
    c->fifo_up = c->fifo_down = c->blocked = 0;
    c->login_by = tl__mono_add_ms(sim_host_now(w, c->host), w->cfg.connect_ms);
    sim_ns there = sim_link_up(w, c->host, &c->fifo_up), back = there + w->cfg.delay;
    if (back < c->host->cut_down)
        back = c->host->cut_down;
    const sim_server *s = &w->server[c->server];
    c->epoch = s->epoch;
    if (!w->failing_over) /* an address where nobody answers is silent */
        sim_put(w, back, SIM_RANK_NET, s->up ? opened : refused, c, c->gen);
    sim__conn_plan(w, c);
}

/* The login reaches the server. */
static void asked(sim_world *w, void *who, uint32_t gen) {
    sim_conn *c = who;
    sim_server *s = &w->server[c->server];
    if (c->gen != gen || c->epoch != s->epoch)
        return;
    if (w->now < s->busy_until) {
        sim_put_off(w, s->busy_until, asked, who, gen);
        return;
    }
    sim_server_set(w, c->server);
    const tl_reply *info = fake_conn_say(s->runner, "TIME");
    if (w->cfg.no_time || !tl__reply_time(info, 0, &c->stamp_us))
        c->stamp_us = -1;
    c->uptime_us = sim_server_uptime_us(w, c->server);
    w->stats.commands++;
    if (!c->dead_down)
        sim_put(w, sim_link_down(w, c->host, &c->fifo_down), SIM_RANK_NET, logged_in, c, gen);
}

static void opened(sim_world *w, void *who, uint32_t gen) {
    sim_conn *c = who;
    if (c->gen != gen || !sim_host_awake(w, c->host, opened, who, gen))
        return;
    if (c->epoch != w->server[c->server].epoch) {
        refused(w, who, gen);
        return;
    }
    c->login_sent = sim_host_clock(w, c->host);
    sim_put(w, sim_link_up(w, c->host, &c->fifo_up), SIM_RANK_NET, asked, c, gen);
}

/* The login's TIME, as shipped code reads it. */
static void read_time(const sim_world *w, const sim_conn *c, tl_out *out) {
    tl_server server = {.drift_ppm = w->cfg.drift_ppm};
    tl_reply items[] = {{.type = TL_REPLY_INT, .integer = c->stamp_us / 1000000},
                        {.type = TL_REPLY_INT, .integer = c->stamp_us % 1000000}};
    tl_reply reply = {.type = TL_REPLY_ARRAY, .items = items, .count = 2};
    tl_event e = {.sent = c->login_sent, .now = sim_host_now(w, c->host), .server = &server};
    tl__out_clear(out);
    if (c->stamp_us >= 0)
        tl__out_time(out, &reply, 0, &e);
}

static void logged_in(sim_world *w, void *who, uint32_t gen) {
    sim_conn *c = who;
    if (c->gen != gen || !sim_host_awake(w, c->host, logged_in, who, gen))
        return;
    tl_out out;
    read_time(w, c, &out);
    c->state = SIM_UP;
    if (c->calls->up)
        c->calls->up(w, c, out.has_bracket ? &out.bracket : NULL,
                     w->cfg.quiet_ms > 0 ? c->uptime_us : -1);
    if (c->gen == gen)
        sim__conn_write(w, c);
    if (c->gen == gen)
        sim__conn_pump(w, c);
    if (c->gen == gen)
        sim__conn_plan(w, c);
}
