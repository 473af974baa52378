/*
 * A connection as src/transport/conn_redis.c behaves: requests wait in one queue, replies go to the oldest, a
 * request whose limit passes is answered FAILED, and an overdue oldest one ends the connection.
 */
#include "world.h"

static void alarmed(sim_world *w, void *who, uint32_t tag);

/* ---- life -------------------------------------------------------------------------------------- */

sim_conn *sim_conn_new(sim_world *w, sim_host *host, const sim_calls *calls, void *owner) {
    sim_conn *c = w->spare_conn;
    if (c) {
        w->spare_conn = c->next;
    } else {
        c = sim_get(w, sizeof *c);
        c->alarm = SIM_ALARM;
        c->w = w;
        c->all = w->conns;
        w->conns = c;
    }
    c->next = NULL;
    c->host = host;
    c->owner = owner;
    c->calls = calls;
    c->state = SIM_DOWN;
    c->served = c->dead_up = c->dead_down = c->withheld = c->hung_up = c->polled = false;
    c->subscriber = c->pinned = false;
    c->planned = TL_NEVER;
    c->failures = 0;
    c->retry_at = 0;
    c->head = c->tail = NULL;
    c->idle_since = (tl_mono){0};
    return c;
}

static void close_stream(sim_conn *c) {
    c->gen++;
    c->state = SIM_DOWN;
    c->served = c->dead_up = c->dead_down = c->withheld = c->hung_up = false;
    fake_conn_close(c->remote);
    c->remote = NULL;
    sim_session_leave(&c->session);
}

void sim_conn_free(sim_world *w, sim_conn *c) {
    if (!c)
        return;
    close_stream(c);
    while (c->head) {
        sim_msg *m = c->head;
        c->head = m->next;
        sim_msg_let_go(w, m);
    }
    c->tail = NULL;
    c->alarm.at = SIM_NEVER;
    c->host = NULL;
    c->next = w->spare_conn;
    w->spare_conn = c;
}

/* ---- the queue --------------------------------------------------------------------------------- */

static void enqueue(sim_conn *c, sim_msg *m) {
    m->next = NULL;
    if (c->tail)
        c->tail->next = m;
    else
        c->head = m;
    c->tail = m;
}

static sim_msg *cut_head(sim_conn *c) {
    sim_msg *m = c->head;
    c->head = m->next;
    if (!c->head)
        c->tail = NULL;
    m->next = NULL;
    return m;
}

static tl_event failed(const sim_world *w, const sim_conn *c, const sim_msg *m, tl_err why,
                       const char *words) {
    return (tl_event){.kind = TL_FAILED,
                      .now = sim_host_now(w, c->host),
                      .ticket = m->ticket,
                      .sent = m->sent,
                      .maybe_sent = !m->unsent || m->effect,
                      .why = why,
                      .words = tl__bytes_of(words)};
}

/* m is in no queue. */
static void answer(sim_world *w, sim_conn *c, sim_msg *m, tl_event *e) {
    void *who = m->who;
    if (who && !m->given_up)
        c->calls->answer(w, c, who, e);
    sim_msg_let_go(w, m);
}

/* ---- the end of a connection ------------------------------------------------------------------- */

static int64_t backoff_ns(sim_world *w, const sim_conn *c) {
    int64_t ms = 20;
    for (unsigned i = 1; i < c->failures && ms < 1000; i++)
        ms *= 2;
    int64_t half = (ms < 1000 ? ms : 1000) * SIM_MS / 2;
    return half + sim_draw(w, 0, half - 1);
}

static sim_msg *requeue(sim_conn *c, sim_msg *list) {
    sim_msg *left = NULL, **end = &left;
    while (list) {
        sim_msg *m = list;
        list = m->next;
        if (m->unsent && !m->effect && !m->given_up && !(m->pin && m->pin->closes)) {
            enqueue(c, m);
            continue;
        }
        *end = m;
        end = &m->next;
    }
    *end = NULL;
    return left;
}

void sim__conn_lose(sim_world *w, sim_conn *c, tl_err why, const char *words, bool wait) {
    bool served = c->served;
    uint32_t gen = c->gen;
    c->failures = served ? 0 : c->failures + 1;
    c->retry_at = served ? w->now : w->now + backoff_ns(w, c);
    close_stream(c);
    sim_msg *list = c->head;
    c->head = c->tail = NULL;
    if (served && wait)
        list = requeue(c, list);
    if (c->calls->down)
        c->calls->down(w, c);
    while (list) {
        sim_msg *m = list;
        list = m->next;
        tl_event e = failed(w, c, m, why, words);
        answer(w, c, m, &e);
    }
    if (c->gen == gen + 1 && c->host)
        sim__conn_plan(w, c);
}

void sim_conn_close(sim_world *w, sim_conn *c) {
    if (c->state != SIM_DOWN)
        sim__conn_lose(w, c, TL_EUNAVAILABLE, "closed", false);
}

static void notice_reset(sim_world *w, void *who, uint32_t gen) {
    sim_conn *c = who;
    if (c->gen != gen)
        return;
    if (!sim_host_awake(w, c->host, notice_reset, who, gen))
        return;
    if (c->head || c->polled) {
        sim__conn_lose(w, c, TL_EUNAVAILABLE, "connection reset", true);
        return;
    }
    c->hung_up = true;
}

void sim_conn_reset(sim_world *w, sim_conn *c) {
    if (c->state == SIM_DOWN)
        return;
    c->dead_up = c->dead_down = true;
    sim_put(w, sim_link_down(w, c->host, &c->fifo_down), SIM_RANK_NET, notice_reset, c, c->gen);
}

void sim_conn_look(sim_world *w, sim_conn *c) {
    if (c->state == SIM_UP && c->hung_up)
        sim__conn_lose(w, c, TL_EUNAVAILABLE, "connection reset", true);
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* What the network does to a request: it may vanish with all that follow, or lie about for long. */
static void transmit(sim_world *w, sim_conn *c, sim_msg *m) {
    m->unsent = false;
    m->sent = sim_host_clock(w, c->host);
    m->sender = c->host;
    m->boot = c->host->booted;
    m->gen = c->gen;
    m->epoch = c->epoch;
    m->subscriber = c->subscriber;
    m->server = c->server;
    m->conn = c;
    if (m->pin)
        sim_session_join(w, m, c);
    if (sim_roll(w, SIM_RESET)) {
        w->stats.resets++;
        sim_conn_reset(w, c);
        if (sim_draw(w, 0, 1))
            return;
        if (sim_draw(w, 0, 1))
            c->fifo_up = w->now + sim_draw_part(w, 0, 50);
    } else if (sim_roll(w, SIM_LOSE_REQUEST)) {
        c->dead_up = true;
        if (sim_draw(w, 0, 3) == 0)
            sim_conn_reset(w, c);
        w->stats.lost_requests++;
        return;
    } else if (c->dead_up) {
        w->stats.lost_requests++;
        return;
    }
    sim_ns at = sim_link_up(w, c->host, &c->fifo_up);
    if (sim_roll(w, SIM_STUCK)) {
        w->stats.stuck++;
        at = c->fifo_up += sim_draw_part(w, 0, 300);
    }
    m->refs++;
    sim_put(w, at, SIM_RANK_NET, sim_server_arrive, m, m->gen);
}

/* A transaction has the connection for itself. */
static bool is_held(const sim_conn *c) {
    bool held = c->pinned;
    for (const sim_msg *m = c->head; m && !held; m = m->next)
        held = m->pin && !m->unsent;
    return held;
}

/* Must one more wait: for its end, or behind others that do? */
static bool is_blocked(const sim_conn *c) {
    bool blocked = is_held(c);
    for (const sim_msg *m = c->head; m && !blocked; m = m->next)
        blocked = m->unsent && m->count > 0;
    return blocked;
}

void sim__conn_write(sim_world *w, sim_conn *c) {
    uint32_t gen = c->gen;
    bool held = is_held(c);
    for (sim_msg *m = c->head; m && c->gen == gen && !held; m = m->next) {
        if (m->unsent && m->count > 0)
            transmit(w, c, m);
        held = m->pin != NULL;
    }
}

/* Requests that say nothing are answered in their turn. */
static void answer_empty(sim_world *w, sim_conn *c, uint32_t gen) {
    while (c->gen == gen && c->head && c->head->count == 0) {
        sim_msg *m = cut_head(c);
        tl_mono now = sim_host_now(w, c->host);
        tl_event e = {.kind = TL_REPLY, .now = now, .sent = now, .ticket = m->ticket};
        answer(w, c, m, &e);
    }
}

static void pumped(sim_world *w, void *who, uint32_t gen) {
    sim_conn *c = who;
    if (c->gen != gen || c->state != SIM_UP)
        return;
    if (!sim_host_awake(w, c->host, pumped, who, gen))
        return;
    answer_empty(w, c, gen);
}

void sim__conn_pump(sim_world *w, sim_conn *c) {
    if (c->head && c->head->count == 0 && c->state == SIM_UP)
        sim_put(w, w->now, SIM_RANK_NET, pumped, c, c->gen);
}

/* Written to a peer that has gone: the first write may go through, or tell. */
static void write_to_dead(sim_world *w, sim_conn *c, sim_msg *m) {
    if (sim_draw(w, 0, 1) && m->count > 0) {
        m->unsent = false;
        m->sent = sim_host_clock(w, c->host);
    }
    sim_put(w, w->now, SIM_RANK_NET, notice_reset, c, c->gen);
}

/* Before those that wait for the end of a transaction. */
static void put_first(sim_conn *c, sim_msg *m) {
    m->next = c->head;
    c->head = m;
    if (!c->tail)
        c->tail = m;
    c->pinned = false;
}

sim_msg *sim_conn_send(sim_world *w, sim_conn *c, const tl_send *send, void *who) {
    sim_msg *m = sim_msg_new(w);
    sim_msg_write(m, send);
    m->who = who;
    m->conn = c;
    if (m->pin && m->pin->closes) { /* written when the answer has been given */
        if (!c->pinned)
            sim_fail(w, SIM_ALL, "a transaction is closed that isn't open");
        put_first(c, m);
        return m;
    }
    bool idle = !c->head, blocked = is_blocked(c);
    enqueue(c, m);
    if (c->state == SIM_UP && c->hung_up)
        write_to_dead(w, c, m);
    else if (c->state == SIM_UP && m->count > 0 && !blocked)
        transmit(w, c, m);
    else if (c->state == SIM_UP && idle)
        sim__conn_pump(w, c);
    sim__conn_plan(w, c);
    return m;
}

void sim_conn_say(sim_world *w, sim_conn *c, const char *word, tl_bytes topic, uint32_t number) {
    tl_send send = {.by = TL_NEVER, .count = 1};
    send.command[0] = (tl_command){
        .form = TL_ARGV, .argc = topic.n ? 2 : 1, .argv = {tl__bytes_of(word), topic}};
    sim_msg *m = sim_msg_new(w);
    sim_msg_write(m, &send);
    m->ticket = (uint16_t)number;
    if (c->state == SIM_UP)
        transmit(w, c, m);
    sim_msg_let_go(w, m); /* it is not in the queue: no answer of its own is expected */
}

/* ---- replies ----------------------------------------------------------------------------------- */

static bool is_noscript(const tl_reply *r) {
    return r->type == TL_REPLY_ERROR && r->text.n >= 8 && memcmp(r->text.p, "NOSCRIPT", 8) == 0;
}

static bool again_by_text(sim_world *w, sim_conn *c, sim_msg *m) {
    int unknown = 0;
    for (int i = 0; i < m->count; i++)
        unknown += is_noscript(&m->reply[i]);
    if (unknown == 0 || m->by_text || m->given_up)
        return false;
    w->stats.by_text++;
    m->by_text = true;
    m->effect = unknown < m->count;
    m->nodes = 0;
    m->unsent = true;
    bool blocked = is_blocked(c);
    enqueue(c, m);
    if (!blocked)
        transmit(w, c, m);
    return true;
}

/* Is the connection in a transaction when this has been answered? */
static bool is_open(const sim_msg *m) {
    bool ended = false;
    bool closes = m->pin && m->pin->closes;
    for (int i = 0; closes && i < m->count; i++)
        ended = ended || m->reply[i].type == TL_REPLY_ARRAY || m->reply[i].type == TL_REPLY_NIL;
    return m->pin && !ended;
}

static void discard(sim_world *w, sim_conn *c) {
    tl_send send = {.count = 2, .by = tl__mono_add_ms(sim_host_now(w, c->host), w->cfg.connect_ms)};
    send.command[0] = (tl_command){.argc = 1, .argv = {TL_LITERAL("DISCARD")}};
    send.command[1] = (tl_command){.argc = 1, .argv = {TL_LITERAL("UNWATCH")}};
    sim_msg *m = sim_msg_new(w);
    sim_msg_write(m, &send);
    sim_session_join(w, m, c);
    m->conn = c;
    m->given_up = true;
    put_first(c, m);
}

/* What was held back goes on, behind what the answer has led to. */
static void go_on(sim_world *w, sim_conn *c, uint32_t gen) {
    if (c->gen == gen && c->pinned)
        discard(w, c);
    c->pinned = false;
    if (c->gen == gen && c->state == SIM_UP)
        sim__conn_write(w, c);
}

static void complete(sim_world *w, sim_conn *c, sim_msg *m) {
    tl_mono now = sim_host_now(w, c->host);
    uint32_t gen = c->gen;
    c->served = true;
    c->failures = 0;
    if (c->head && c->head->given_up) /* the server isn't late with those behind */
        c->head->by = tl__mono_max(c->head->by, tl__mono_add_ms(now, w->cfg.attempt_ms));
    if (again_by_text(w, c, m))
        return;
    tl_event e = {.kind = TL_REPLY,
                  .now = now,
                  .ticket = m->ticket,
                  .sent = m->sent,
                  .reply = m->reply,
                  .count = m->count,
                  .maybe_sent = true};
    bool pin = m->pin != NULL;
    c->pinned = is_open(m);
    answer(w, c, m, &e);
    if (pin)
        go_on(w, c, gen);
}

void sim_conn_replied(sim_world *w, void *who, uint32_t gen) {
    sim_msg *m = who;
    sim_conn *c = m->conn;
    if (c->gen != gen) {
        sim_msg_let_go(w, m);
        return;
    }
    if (!sim_host_awake(w, c->host, sim_conn_replied, who, gen))
        return;
    answer_empty(w, c, gen);
    if (c->gen != gen) {
        sim_msg_let_go(w, m);
        return;
    }
    if (c->head != m)
        sim_fail(w, SIM_ALL, "the simulator itself: a reply out of its turn");
    m->refs--; /* that of being in flight; the queue has the other */
    complete(w, c, cut_head(c));
    if (c->gen == gen)
        sim__conn_pump(w, c);
    sim__conn_plan(w, c);
}

/* ---- limits ------------------------------------------------------------------------------------ */

void sim__conn_plan(sim_world *w, sim_conn *c) {
    tl_mono soonest = c->state == SIM_OPENING ? c->login_by : TL_NEVER;
    for (const sim_msg *m = c->head; m; m = m->next)
        if (!m->given_up || m == c->head)
            soonest = tl__mono_min(soonest, m->by);
    if (c->state != SIM_DOWN && soonest.ns == c->planned.ns && c->alarm.at != SIM_NEVER)
        return;
    c->planned = soonest;
    sim_ns at = sim_host_when(w, c->host, soonest);
    if (c->state == SIM_DOWN && c->head && c->retry_at < at)
        at = c->retry_at;
    sim_alarm_set(&w->queue, &c->alarm, at < w->now ? w->now : at, SIM_RANK_LIMIT, alarmed, c);
}

static void give_up(sim_world *w, sim_conn *c, sim_msg *m) {
    tl_event e = failed(w, c, m, TL_EUNAVAILABLE, "no reply in time");
    void *who = m->who;
    w->stats.time_limits++;
    m->given_up = true;
    if (who)
        c->calls->answer(w, c, who, &e);
}

/* The queue without those that have been given up and of which nothing was sent. */
static void sweep(sim_world *w, sim_conn *c) {
    sim_msg *list = c->head;
    c->head = c->tail = NULL;
    while (list) {
        sim_msg *m = list;
        list = m->next;
        if (m->given_up && m->unsent)
            sim_msg_let_go(w, m);
        else
            enqueue(c, m);
    }
}

static void expire(sim_world *w, sim_conn *c) {
    tl_mono now = sim_host_now(w, c->host);
    uint32_t gen = c->gen;
    if (c->head && !c->head->unsent && !tl__mono_before(now, c->head->by)) {
        w->stats.time_limits++;
        sim__conn_lose(w, c, TL_EUNAVAILABLE, "no reply in time", false);
        return;
    }
    for (sim_msg *m = c->head; m; m = m->next) {
        if (m->given_up || tl__mono_before(now, m->by))
            continue;
        give_up(w, c, m);
        if (c->gen != gen || !c->host)
            return;
    }
    sweep(w, c);
}

static void alarmed(sim_world *w, void *who, uint32_t tag) {
    sim_conn *c = who;
    if (tag == 0 && !sim_alarm_due(&w->queue, &c->alarm, w->now, SIM_RANK_LIMIT, alarmed, who))
        return;
    if (!c->host || !sim_host_awake(w, c->host, alarmed, who, 1))
        return;
    if (c->state == SIM_DOWN && c->head && w->now >= c->retry_at)
        sim__conn_open(w, c);
    uint32_t gen = c->gen;
    if (c->state == SIM_OPENING && !tl__mono_before(sim_host_now(w, c->host), c->login_by))
        sim__conn_lose(w, c, TL_EUNAVAILABLE, "no reply to the login in time", false);
    else
        expire(w, c);
    if (c->gen == gen)
        sim__conn_plan(w, c);
}
