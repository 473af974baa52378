/*
 * The server: it executes what arrives, one command at a time, on its own clock, and answers. It may
 * stop, die and start again.
 */
#include "world.h"

#define EPOCH_NS INT64_C(1700000000000000000)
#define WORDS_MAX 20 /* of a command */

int64_t sim_server_us(const sim_world *w, const sim_server *s) {
    return sim_clock_read(&s->wall, w->now) / 1000;
}

int64_t sim_server_uptime_us(const sim_world *w, int server) {
    const sim_server *s = &w->server[server];
    return (sim_server_us(w, s) / 1000000 - s->started_us / 1000000) * 1000000;
}

void sim_server_set(sim_world *w, int server) {
    sim_server *s = &w->server[server];
    fake_redis_set_time(s->r, sim_server_us(w, s));
}

/* ---- life -------------------------------------------------------------------------------------- */

/* Another after each death. */
static void set_run_id(sim_world *w, int i) {
    fake_redis_set_run_id(w->server[i].r, (uint64_t)i << 32 | w->server[i].epoch);
}

static void fresh(sim_world *w, int i) {
    sim_server *s = &w->server[i];
    fake_redis *r = s->r;
    if (r)
        fake_redis_reset(r);
    else
        r = i == 0 ? fake_redis_new() : fake_redis_beside(w->server[0].r);
    int64_t behind_ns = i == 0 ? 0 : w->cfg.behind_us[i - 1] * 1000;
    *s = (sim_server){.r = r, .up = true, .wall = {EPOCH_NS - behind_ns, 0, w->cfg.server_ppb}};
    s->started_us = sim_server_us(w, s) - 1000000 * w->cfg.ttl_ms;
    fake_redis_set_level(r, w->cfg.level);
    if (w->cfg.no_eval)
        fake_redis_deny(r, "EVAL EVALSHA", FAKE_RENAMED);
    s->runner = fake_redis_connect(r, NULL, NULL);
    set_run_id(w, i);
    sim_server_set(w, i);
}

void sim_servers_reset(sim_world *w) {
    w->master = 0;
    w->failing_over = false;
    w->promoted = 0;
    for (int i = 0; i <= w->cfg.replicas; i++)
        fresh(w, i);
    sim_replicas_reset(w);
}

void sim_servers_free(sim_world *w) {
    for (int i = 0; i < SIM_SERVERS; i++)
        fake_redis_free(w->server[i].r);
    sim_replicas_free(w);
}

/* Its connections end: the hosts hear of it, or find out by themselves. */
void sim_server_kill(sim_world *w, int server) {
    sim_server *s = &w->server[server];
    s->up = false;
    s->epoch++;
    set_run_id(w, server);
    s->busy_until = 0;
    for (sim_conn *c = w->conns; c; c = c->all) {
        if (!c->host || c->server != server || c->state == SIM_DOWN)
            continue;
        fake_conn_close(c->remote);
        c->remote = NULL;
        c->dead_up = c->dead_down = true; /* to those that are not told it is silent */
        if (sim_draw(w, 0, 3))
            sim_conn_reset(w, c);
    }
}

void sim_server_start(sim_world *w, int server, bool keep_data) {
    sim_server *s = &w->server[server];
    s->up = true;
    s->started_us = sim_server_us(w, s);
    sim_server_set(w, server);
    fake_redis_restart(s->r, keep_data);
}

/* ---- executing --------------------------------------------------------------------------------- */

static const tl_reply *execute_script(sim_world *w, const sim_msg *m, const sim_order *o) {
    tl_bytes argv[WORDS_MAX];
    char keys[2] = {(char)('0' + o->nkeys)};
    argv[0] = m->by_text ? TL_LITERAL("EVAL") : TL_LITERAL("EVALSHA");
    argv[1] = m->by_text ? tl__script_text((tl_script)o->script)
                         : tl__script_sha1((tl_script)o->script);
    argv[2] = tl__bytes(keys, 1);
    memcpy(argv + 3, o->argv, o->argc * sizeof(tl_bytes));
    return fake_conn_command(w->server[m->server].runner, argv, o->argc + 3U);
}

/* WAIT: the reply comes when enough replicas have confirmed. */
static void execute_wait(sim_world *w, sim_msg *m, int i, sim_ns *when) {
    int64_t needed = 0, ms = 0;
    (void)tl__bytes_to_int(m->order[i].argv[1], &needed);
    (void)tl__bytes_to_int(m->order[i].argv[2], &ms);
    tl_reply reply = {.type = TL_REPLY_INT};
    reply.integer = sim_replicas_confirm(w, (int)needed, w->now + ms * SIM_MS, when);
    w->stats.too_few += reply.integer < needed;
    sim_msg_answer(m, i, &reply);
}

static sim_ns execute(sim_world *w, sim_msg *m) {
    sim_ns when = w->now;
    fake_conn *runner = m->session ? m->session->at : w->server[m->server].runner;
    for (int i = 0; i < m->count; i++) {
        const sim_order *o = &m->order[i];
        w->stats.commands++;
        if (!o->is_script && tl__bytes_eq(o->argv[0], TL_LITERAL("WAIT"))) {
            execute_wait(w, m, i, &when);
            continue;
        }
        const tl_reply *r = o->is_script ? execute_script(w, m, o)
                                         : fake_conn_command(runner, o->argv, o->argc);
        sim_msg_answer(m, i, r);
        sim_mark(w, (uint64_t)r->type << 8 | (uint64_t)r->count);
        if (o->is_script && r->type != TL_REPLY_ERROR)
            sim_check_executed(w, m, o, r);
        else if (w->cfg.stamps && !o->is_script && !m->session)
            sim_stamp_executed(w, m, o, r);
        if (w->cfg.migrates)
            sim_phase_look(w);
    }
    if (m->pin && m->pin->closes)
        sim_stamp_transacted(w, m);
    return when;
}

/* ---- arriving ---------------------------------------------------------------------------------- */

/* What has been published goes to the subscribers. */
static void deliver_pushed(sim_world *w) {
    while (w->pushed) {
        sim_msg *m = w->pushed;
        sim_conn *c = m->conn;
        w->pushed = m->next;
        if (c->dead_down) {
            sim_msg_let_go(w, m);
            continue;
        }
        sim_put(w, sim_link_down(w, c->host, &c->fifo_down), SIM_RANK_NET, sim_wake_pushed, m,
                c->gen);
    }
}

/* A subscriber's command: everything that answers it is pushed. */
static void execute_subscriber(sim_world *w, sim_msg *m) {
    const sim_order *o = &m->order[0];
    w->stats.commands++;
    w->pushing = m;
    const tl_reply *r = fake_conn_command(m->conn->remote, o->argv, o->argc);
    if (r)
        sim_wake_push(w, m->conn, r, m->ticket);
    w->pushing = NULL;
    sim_msg_let_go(w, m);
}

static bool reply_is_lost(sim_world *w, sim_msg *m) {
    sim_conn *c = m->conn;
    if (c->gen != m->gen || c->dead_down || m->epoch != w->server[m->server].epoch)
        return true;
    if (!sim_roll(w, SIM_LOSE_REPLY))
        return false;
    w->stats.lost_replies++;
    c->dead_down = true;
    if (sim_draw(w, 0, 3) == 0)
        sim_conn_reset(w, c);
    return true;
}

static void answer(sim_world *w, void *who, uint32_t gen) {
    sim_msg *m = who;
    if (reply_is_lost(w, m)) {
        sim_msg_let_go(w, m);
        return;
    }
    sim_ns at = sim_link_down(w, m->conn->host, &m->conn->fifo_down);
    sim_put(w, at, SIM_RANK_NET, sim_conn_replied, m, gen);
}

/* With a WAIT in it the answer comes later, and the server reads no more from this client. */
static void answer_at(sim_world *w, sim_msg *m, sim_ns when) {
    if (when <= w->now) {
        answer(w, m, m->gen);
        return;
    }
    if (m->conn->gen == m->gen)
        m->conn->blocked = when + 1;
    sim_put(w, when, SIM_RANK_NET, answer, m, m->gen);
}

/* Against what is assumed: it and what follows never come. */
static bool too_late(sim_world *w, const sim_msg *m) {
    bool open = m->conn->gen == m->gen;
    if (open && m->conn->withheld)
        return true;
    if (w->now <= m->never_after)
        return false;
    w->stats.kept_away++;
    w->calm_all_along = false; /* the client waits for an answer as it does when a reply is lost */
    if (open)
        m->conn->withheld = m->conn->dead_up = m->conn->dead_down = true;
    return true;
}

/* Is it executed at all? What was sent before the client closed may be, long afterwards. */
static bool is_lost(sim_world *w, const sim_msg *m) {
    const sim_server *s = &w->server[m->server];
    if (m->epoch != s->epoch || !s->up || m->server != w->master || too_late(w, m))
        return true;
    if (m->conn->gen == m->gen)
        return m->subscriber && !m->conn->remote;
    if (m->subscriber || sim_draw(w, 0, 1))
        return true;
    w->stats.late++;
    sim_tell(w, "", SIM_ALL, "a request of a connection that is closed is executed");
    return false;
}

void sim_server_arrive(sim_world *w, void *who, uint32_t gen) {
    sim_msg *m = who;
    sim_server *s = &w->server[m->server];
    if (is_lost(w, m)) {
        sim_msg_let_go(w, m);
        return;
    }
    sim_ns free_at = s->busy_until;
    if (m->conn->gen == m->gen && m->conn->blocked > free_at)
        free_at = m->conn->blocked;
    if (w->now < free_at) {
        sim_put_off(w, free_at, sim_server_arrive, m, gen);
        return;
    }
    sim_server_set(w, m->server);
    if (m->subscriber)
        execute_subscriber(w, m);
    else
        answer_at(w, m, execute(w, m));
    deliver_pushed(w);
}
