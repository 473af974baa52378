/*
 * A client as src/client/client.c, src/client/driver.c and src/client/keeper.c are: callers borrow a connection for each
 * exchange, the keeper runs its machines on one of its own. Threads of a host run one at a time.
 */
#include "world.h"

#include <stdio.h>
#include <stdlib.h>

#define UPTIME_ERROR_US 1000000 /* INFO rounds both ends of it down to whole seconds */
#define STALE_MS 100            /* a line idle for longer is looked at before use */
#define KEEPER_NS 200000        /* the keeper's thread gets to its reports within about so long */

static void timer(sim_world *w, void *who, uint32_t tag);
static void woken(sim_world *w, void *who, uint32_t tag);
static void step(sim_world *w, sim_task *t, const tl_event *event);
static void rejudge(sim_world *w, sim_client *c);

/* ---- the client -------------------------------------------------------------------------------- */

static bool told_of_step(sim_world *w, sim_client *c, bool stepped) {
    if (stepped) {
        w->stats.steps_seen++;
        sim_check_step(w, c);
        sim_tell(w, "", SIM_ALL, "host %c sees that the server's clock has stepped", c->host->name);
    }
    return stepped;
}

bool sim_client_learn(sim_world *w, sim_client *c, tl_interval bracket, tl_mono now) {
    return told_of_step(w, c, tl__anchor_learn(&c->server.anchor, bracket, now, w->cfg.drift_ppm));
}

static void on_up(sim_world *w, sim_conn *conn, const tl_interval *bracket, int64_t uptime_us) {
    sim_client *c = conn->owner;
    tl_mono now = sim_host_now(w, c->host);
    c->server.level = 0;
    if (uptime_us >= UPTIME_ERROR_US)
        c->server.up_since = tl__mono_add_ns(now, -tl__mul_sat(uptime_us - UPTIME_ERROR_US, 1000));
    else if (uptime_us >= 0)
        c->server.up_since = now;
    tl_anchor *anchor = &c->server.anchor;
    bool stepped = bracket && tl__anchor_renew(anchor, *bracket, now, w->cfg.drift_ppm);
    anchor->known = bracket != NULL;
    if (told_of_step(w, c, stepped))
        rejudge(w, c);
}

/* An answer, on a line or on the keeper's connection. */
static void on_answer(sim_world *w, sim_conn *conn, void *who, tl_event *e) {
    sim_task *t = who;
    (void)conn;
    if (t->keeper)
        t->asked = NULL;
    else
        t->in_flight--;
    step(w, t, e);
}

static const sim_calls calls = {.answer = on_answer, .up = on_up};

void sim_client_boot(sim_world *w, sim_host *host) {
    sim_client *c = &host->client;
    *c = (sim_client){.host = host};
    c->wake.alarm = c->alarm = SIM_ALARM;
    c->server.drift_ppm = w->cfg.drift_ppm;
    (void)snprintf(c->owner, sizeof c->owner, "%c 1 sim", host->name);
    if (w->cfg.migrates)
        sim_phase_boot(w, c);
}

void sim_client_ready(sim_world *w, sim_client *c) {
    if (c->keeper)
        return;
    c->keeper = sim_conn_new(w, c->host, &calls, c);
    c->keeper->polled = true;
}

static void give_task_back(sim_world *w, sim_task *t) {
    t->next = w->spare_task;
    w->spare_task = t;
}

void sim_client_crash(sim_world *w, sim_client *c) {
    while (c->tasks > 0) {
        sim_task *t = c->task[--c->tasks];
        t->running = false;
        t->alarm.at = SIM_NEVER;
        if (!t->lock && t != &c->attend)
            give_task_back(w, t);
    }
    for (sim_conn *line = c->idle, *next; line; line = next) {
        next = line->next;
        sim_conn_free(w, line);
    }
    sim_conn_free(w, c->keeper);
    sim_wake_crash(w, &c->wake);
    c->idle = c->keeper = NULL;
    c->alarm.at = SIM_NEVER;
}

/* ---- lines ------------------------------------------------------------------------------------- */

static sim_conn *take_line(sim_world *w, sim_client *c) {
    sim_conn *line = c->idle;
    if (!line)
        return sim_conn_new(w, c->host, &calls, c);
    c->idle = line->next;
    if (tl__ms_until(line->idle_since, sim_host_clock(w, c->host)) >= STALE_MS)
        sim_conn_look(w, line);
    return line;
}

static void give_line_back(sim_world *w, sim_task *t) {
    sim_conn *line = t->line;
    if (!line)
        return;
    t->line = NULL;
    if (t->in_flight > 0) {
        sim_conn_free(w, line);
        return;
    }
    line->idle_since = sim_host_clock(w, t->client->host);
    line->next = t->client->idle;
    t->client->idle = line;
}

/* ---- one step ---------------------------------------------------------------------------------- */

static void count_step(sim_world *w, sim_task *t) {
    w->stats.steps++;
    if (t->instant != w->now)
        t->at_instant = 0;
    t->instant = w->now;
    if (++t->at_instant > SIM_STEPS_AT_ONCE)
        sim_fail(w, t->key, "a machine loops: it asks for more and more at one instant");
}

static void sign(sim_world *w, const sim_task *t, sim_msg *m, const tl_send *send) {
    if (!w->cfg.stamps)
        return;
    const tl_job *job = t->step == tl__acquire_step ? &t->room.acquire.job : &t->room.settle.job;
    m->token = t->lock ? t->lock->number : sim_token_number(w, tl__token_bytes(&job->token));
    m->lease = t->lease;
    if (t->lock)
        w->migration.asked[w->cfg.cast[t->lock->actor->id].kind] = w->now;
    m->never_after = sim_stamp_never_after(w, t, send);
}

static void send_it(sim_world *w, sim_task *t, const tl_out *out) {
    sim_client *c = t->client;
    if (!out->sends)
        return;
    if (t->keeper) {
        t->owes = false;
        if (t->asked)
            t->asked->who = NULL; /* a machine that asks anew has given up what it asked before */
        t->asked = sim_conn_send(w, c->keeper, &out->send, t);
        sign(w, t, t->asked, &out->send);
        return;
    }
    if (!t->line)
        t->line = take_line(w, c);
    t->in_flight++;
    sign(w, t, sim_conn_send(w, t->line, &out->send, t), &out->send);
}

static void remove_task(sim_world *w, sim_task *t) {
    sim_client *c = t->client;
    int i = 0;
    t->running = false;
    t->alarm.at = SIM_NEVER;
    if (t->asked)
        t->asked->who = NULL;
    t->asked = NULL;
    while (i < c->tasks && c->task[i] != t)
        i++;
    if (i == c->tasks)
        return;
    for (c->tasks--; i < c->tasks; i++)
        c->task[i] = c->task[i + 1];
    (void)w;
}

static void end_drive(sim_world *w, sim_task *t) {
    t->running = false;
    t->alarm.at = t->wake.at = SIM_NEVER;
    t->flags = 0;
    give_line_back(w, t);
    sim_wake_forget(w, t);
}

static void step(sim_world *w, sim_task *t, const tl_event *event) {
    tl_out out;
    tl_server server = t->client->server;
    tl_event e = *event;
    e.server = &server;
    server.wall_us = sim_host_wall_us(w, t->client->host);
    tl__out_clear(&out);
    count_step(w, t);
    if (tl__mono_before(e.now, t->last))
        sim_fail(w, t->key, "the simulator itself: a clock that went back");
    t->last = e.now;
    tl_status status = t->step(t->machine, &e, &out);
    sim_mark(w, (uint64_t)status << 8 | out.sends << 4 | out.notes);
    if (out.has_bracket && sim_client_learn(w, t->client, out.bracket, e.now))
        rejudge(w, t->client);
    if (out.level)
        t->client->server.level = out.level;
    if (w->cfg.migrates)
        sim_phase_stepped(w, t, &out);
    if (status == TL_END || (status == TL_DETACH && !t->keeper)) { /* the keeper goes on */
        if (t->keeper)
            remove_task(w, t);
        else
            end_drive(w, t);
        t->stepped(w, t, &out, status);
        return;
    }
    t->until = out.until;
    if (out.arm && !t->keeper && t->listens < 0)
        sim_wake_listen(w, t, t->key);
    if (out.disarm && !t->keeper)
        sim_wake_forget(w, t);
    send_it(w, t, &out);
    if (!t->keeper && t->in_flight == 0)
        give_line_back(w, t);
    sim_ns at = sim_host_when(w, t->client->host, t->until);
    sim_alarm_set(&w->queue, &t->alarm, at, SIM_RANK_TIMER, timer, t);
    t->stepped(w, t, &out, status);
}

static void give(sim_world *w, sim_task *t, tl_event_kind kind) {
    tl_event e = {.kind = kind, .now = sim_host_now(w, t->client->host)};
    step(w, t, &e);
}

static void timer(sim_world *w, void *who, uint32_t tag) {
    sim_task *t = who;
    sim_host *h = t->client->host;
    if (sim_host_alarm(w, h, &t->alarm, SIM_RANK_TIMER, timer, who, tag) && t->running)
        give(w, t, TL_TIMER);
}

/* ---- a caller that waits ----------------------------------------------------------------------- */

void sim_task_post(sim_world *w, sim_task *t, unsigned flags) {
    t->flags |= flags;
    sim_ns at = w->now + sim_draw(w, 0, KEEPER_NS / 4);
    sim_alarm_set(&w->queue, &t->wake, at, SIM_RANK_WAKE, woken, t);
}

static void woken(sim_world *w, void *who, uint32_t tag) {
    sim_task *t = who;
    if (!sim_host_alarm(w, t->client->host, &t->wake, SIM_RANK_WAKE, woken, who, tag) ||
        !t->running)
        return;
    unsigned flags = t->flags;
    uint32_t run = t->run;
    t->flags = 0;
    if (flags & SIM_WAKE_CANCEL)
        give(w, t, TL_CANCEL);
    if (t->running && t->run == run && flags & (SIM_WAKE_ARMED | SIM_WAKE_DISARMED)) {
        tl_event e = {.kind = TL_ARMED, .now = sim_host_now(w, t->client->host)};
        e.armed = !(flags & SIM_WAKE_DISARMED);
        w->stats.disarmed += !e.armed;
        step(w, t, &e);
    }
    if (t->running && t->run == run && flags & SIM_WOKEN) {
        w->stats.woken++;
        give(w, t, TL_WOKEN);
    }
}

static void begin(sim_task *t, bool keeper) {
    t->keeper = keeper;
    t->running = true;
    t->run++;

    t->line = NULL;
    t->asked = NULL;
    t->owes = false;
    t->in_flight = t->flags = 0;
    t->listens = -1;
    t->last = (tl_mono){INT64_MIN};
}

void sim_drive(sim_world *w, sim_task *t) {
    begin(t, false);
    give(w, t, TL_START);
}

/* ---- the keeper -------------------------------------------------------------------------------- */

void sim_keep(sim_world *w, sim_task *t, tl_event_kind kind) {
    sim_client *c = t->client;
    sim_client_ready(w, c);
    if (c->tasks == SIM_TASKS)
        abort();
    c->task[c->tasks++] = t;
    begin(t, true);
    give(w, t, kind);
}

void sim_keep_tell(sim_world *w, sim_task *t, tl_event_kind kind) {
    if (t->running)
        give(w, t, kind);
}

void sim_keep_forget(sim_world *w, sim_task *t) {
    if (t->running)
        remove_task(w, t);
}

static void detached_stepped(sim_world *w, sim_task *t, const tl_out *out, tl_status status) {
    (void)out;
    if (status != TL_END)
        return;
    w->stats.cleaned++;
    sim_check_cleaned(w, t);
    give_task_back(w, t);
}

void sim_detach(sim_world *w, sim_client *c, const void *machine, size_t size, tl_step machine_step,
                tl_event_kind kind, int key) {
    sim_task *t = w->spare_task;
    if (t) {
        w->spare_task = t->next;
    } else {
        t = sim_get(w, sizeof *t);
        t->alarm = t->wake = SIM_ALARM;
    }
    memcpy(&t->room, machine, size);
    t->client = c;
    t->machine = &t->room;
    t->step = machine_step;
    t->stepped = detached_stepped;
    t->lock = NULL;
    t->key = (uint8_t)key;
    sim_keep(w, t, kind);
}

/* Every lock is renewed at once: the keeper's thread does so when it is through with this. */
static void rejudged(sim_world *w, void *who, uint32_t tag) {
    sim_client *c = who;
    if (!sim_host_alarm(w, c->host, &c->alarm, SIM_RANK_TIMER, rejudged, who, tag))
        return;
    sim_task *all[SIM_TASKS];
    int n = c->tasks;
    memcpy(all, c->task, (size_t)n * sizeof(sim_task *));
    for (int i = 0; i < n; i++)
        if (all[i]->running)
            give(w, all[i], TL_WOKEN);
}

static void rejudge(sim_world *w, sim_client *c) {
    if (c->keeper)
        sim_alarm_set(&w->queue, &c->alarm, w->now + sim_draw(w, 0, KEEPER_NS), SIM_RANK_TIMER,
                      rejudged, c);
}
