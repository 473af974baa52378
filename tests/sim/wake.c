/*
 * Wake-ups as src/transport/wakeup.c has them: one connection a client on which it subscribes, at each new
 * connection again; what is said on it is answered in order.
 */
#include "world.h"

#include <stdlib.h>

#define SILENCE_MS 10000 /* then PING */

static void alarmed(sim_world *w, void *who, uint32_t tag);

static void post(sim_world *w, sim_wake *k, int key, unsigned flags) {
    for (int i = 0; i < k->waiters; i++)
        if (k->waiter[i]->listens == key)
            sim_task_post(w, k->waiter[i], flags);
}

static void tell(sim_world *w, sim_wake *k, int key, bool armed) {
    k->topic[key].told = armed ? SIM_ARMED : SIM_NOT_ARMED;
    post(w, k, key, armed ? SIM_WAKE_ARMED : SIM_WAKE_DISARMED);
}

static void plan(sim_world *w, sim_wake *k) {
    sim_host *h = k->conn->host;
    bool waits = k->said > k->answered;
    if (w->calm && !waits)
        return; /* nothing is lost any more */
    tl_mono at = tl__mono_add_ms(k->heard, waits ? w->cfg.attempt_ms : SILENCE_MS);
    sim_alarm_set(&w->queue, &k->alarm, sim_host_when(w, h, at), SIM_RANK_TIMER, alarmed, k);
}

static void say(sim_world *w, sim_wake *k, const char *word, tl_bytes topic) {
    if (k->said++ == k->answered)
        k->heard = sim_host_now(w, k->conn->host);
    sim_conn_say(w, k->conn, word, topic, k->said);
    plan(w, k);
}

static void subscribe(sim_world *w, sim_wake *k, int key) {
    say(w, k, "SUBSCRIBE", w->key[key].s);
    k->topic[key].asked = k->said;
}

/* Nothing is sent by this, but it has a connection made. */
static void knock(sim_world *w, sim_wake *k) {
    if (k->conn->state == SIM_DOWN && !k->conn->head)
        (void)sim_conn_send(w, k->conn, &(tl_send){.by = TL_NEVER}, k);
}

static bool wanted(const sim_wake *k) {
    for (int i = 0; i < SIM_KEYS; i++)
        if (k->topic[i].listeners > 0)
            return true;
    return false;
}

static void alarmed(sim_world *w, void *who, uint32_t tag) {
    sim_wake *k = who;
    if (!k->conn ||
        !sim_host_alarm(w, k->conn->host, &k->alarm, SIM_RANK_TIMER, alarmed, who, tag) ||
        k->conn->state != SIM_UP)
        return;
    bool waits = k->said > k->answered;
    tl_mono by = tl__mono_add_ms(k->heard, waits ? w->cfg.attempt_ms : SILENCE_MS);
    if (tl__mono_before(sim_host_now(w, k->conn->host), by))
        plan(w, k);
    else if (waits)
        sim_conn_close(w, k->conn);
    else
        say(w, k, "PING", (tl_bytes){0});
}

/* ---- what the server says ----------------------------------------------------------------------- */

void sim_wake_push(sim_world *w, sim_conn *conn, const tl_reply *reply, uint16_t number) {
    sim_msg *m = sim_msg_new(w);
    m->conn = conn;
    m->count = 1;
    m->ticket = number;
    sim_msg_answer(m, 0, reply);
    m->next = w->pushed;
    w->pushed = m;
}

static void push(void *ctx, const tl_reply *reply) {
    sim_conn *conn = ctx;
    sim_world *w = conn->w;
    sim_wake_push(w, conn, reply, w->pushing ? w->pushing->ticket : 0);
}

static const fake_calls pushes = {.push = push};

/* ---- the connection ---------------------------------------------------------------------------- */

static void on_up(sim_world *w, sim_conn *conn, const tl_interval *bracket, int64_t uptime_us) {
    sim_client *c = conn->owner;
    sim_wake *k = &c->wake;
    (void)bracket, (void)uptime_us;
    conn->remote = fake_redis_connect(w->server[conn->server].r, &pushes, conn);
    k->said = k->answered = 0;
    for (int i = 0; i < SIM_KEYS; i++)
        if (k->topic[i].listeners > 0)
            subscribe(w, k, i);
}

static void on_down(sim_world *w, sim_conn *conn) {
    sim_client *c = conn->owner;
    sim_wake *k = &c->wake;
    k->said = k->answered = 0;
    for (int i = 0; i < SIM_KEYS; i++) {
        k->topic[i].asked = 0;
        if (k->topic[i].listeners > 0 && k->topic[i].told != SIM_NOT_ARMED)
            tell(w, k, i, false);
    }
    if (wanted(k))
        knock(w, k);
}

/* The knock is answered, or has failed. */
static void on_answer(sim_world *w, sim_conn *conn, void *who, tl_event *e) {
    sim_client *c = conn->owner;
    (void)who;
    if (e->kind == TL_FAILED && wanted(&c->wake))
        knock(w, &c->wake);
}

static const sim_calls calls = {.answer = on_answer, .up = on_up, .down = on_down};

static void on_subscribed(sim_world *w, sim_client *c, sim_msg *m) {
    sim_wake *k = &c->wake;
    for (int i = 0; i < SIM_KEYS; i++)
        if (k->topic[i].listeners > 0 && k->topic[i].asked == m->ticket)
            tell(w, k, i, true);
}

void sim_wake_pushed(sim_world *w, void *who, uint32_t gen) {
    sim_msg *m = who;
    sim_conn *conn = m->conn;
    if (conn->gen != gen) {
        sim_msg_let_go(w, m);
        return;
    }
    if (!sim_host_awake(w, conn->host, sim_wake_pushed, who, gen))
        return;
    sim_client *c = conn->owner;
    tl_bytes word, topic;
    c->wake.heard = sim_host_now(w, c->host);
    conn->served = true;
    conn->failures = 0;
    bool words = tl__reply_text(tl__reply_item(&m->reply[0], 0), &word);
    if (words && tl__bytes_eq(word, TL_LITERAL("message"))) {
        if (tl__reply_text(tl__reply_item(&m->reply[0], 1), &topic))
            post(w, &c->wake, sim_key_beside(w, topic), SIM_WOKEN);
    } else {
        c->wake.answered++;
        if (words && tl__bytes_eq(word, TL_LITERAL("subscribe")))
            on_subscribed(w, c, m);
    }
    sim_msg_let_go(w, m);
    plan(w, &c->wake);
}

/* ---- listening --------------------------------------------------------------------------------- */

void sim_wake_listen(sim_world *w, sim_task *task, int key) {
    sim_client *c = task->client;
    sim_wake *k = &c->wake;
    sim_client_ready(w, c);
    if (!k->conn) {
        k->conn = sim_conn_new(w, c->host, &calls, c);
        k->conn->polled = k->conn->subscriber = true;
    }
    task->listens = key;
    if (k->waiters == SIM_ACTORS)
        abort();
    k->waiter[k->waiters++] = task;
    sim_topic *t = &k->topic[key];
    if (t->listeners++ > 0) {
        if (t->told != SIM_UNTOLD)
            sim_task_post(w, task, t->told == SIM_ARMED ? SIM_WAKE_ARMED : SIM_WAKE_DISARMED);
        return;
    }
    t->told = SIM_UNTOLD;
    t->asked = 0;
    if (k->conn->state == SIM_UP)
        subscribe(w, k, key);
    else
        knock(w, k);
}

void sim_wake_forget(sim_world *w, sim_task *task) {
    if (task->listens < 0)
        return;
    sim_wake *k = &task->client->wake;
    sim_topic *t = &k->topic[task->listens];
    int key = task->listens;
    task->listens = -1;
    int i = 0;
    while (k->waiter[i] != task)
        i++;
    k->waiter[i] = k->waiter[--k->waiters];
    if (--t->listeners > 0)
        return;
    if (t->asked > 0 && k->conn->state == SIM_UP)
        say(w, k, "UNSUBSCRIBE", w->key[key].s);
    t->asked = 0;
    t->told = SIM_UNTOLD;
}

void sim_wake_crash(sim_world *w, sim_wake *k) {
    sim_conn_free(w, k->conn);
    k->alarm.at = SIM_NEVER;
    k->conn = NULL;
    memset(k->topic, 0, sizeof k->topic);
    k->said = k->answered = 0;
    k->waiters = 0;
}
