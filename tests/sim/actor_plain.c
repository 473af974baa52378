/*
 * A client that knows nothing of tidelock: SET K random NX PX, and a compare-and-delete script; it
 * doesn't renew, and counts its lifetime from before the request (redis-py, redlock, ...).
 */
#include "world.h"

#include <stdio.h>

typedef struct {
    sim_conn *conn;
    enum { IDLE, TAKING, HOLDING, RELEASING } state;
    unsigned takes;
    tl_mono deadline; /**< 0: not held */
    char value[24];
} plain_actor;

static plain_actor *self(sim_actor *a) {
    return (plain_actor *)a->state;
}

static void rest(sim_world *w, sim_actor *a) {
    self(a)->state = IDLE;
    sim_actor_wait(w, a, sim_draw(w, 0, w->cfg.idle_ms * SIM_MS));
}

static tl_send ask(sim_world *w, sim_actor *a, const tl_bytes *argv, uint8_t argc) {
    tl_send send = {.count = 1, .by = tl__mono_add_ms(sim_host_now(w, a->host), w->cfg.attempt_ms)};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = argc};
    memcpy(send.command[0].argv, argv, argc * sizeof *argv);
    return send;
}

/* Among legacy clients a shorter one: a racing loser's stamp may take its place. */
static int64_t lifetime_ms(const sim_world *w) {
    const sim_config *c = &w->cfg;
    return c->stamps ? c->java_ttl_ms - 2 * c->skew_ms - c->lag_ms : c->ttl_ms;
}

static void take(sim_world *w, sim_actor *a) {
    plain_actor *p = self(a);
    char px[TL_INT_SIZE];
    p->state = TAKING;
    (void)snprintf(p->value, sizeof p->value, "plain-%s-%u", a->name, ++p->takes);
    tl_bytes argv[] = {TL_LITERAL("SET"), w->key[a->key].k, tl__bytes_of(p->value),
                       TL_LITERAL("NX"),  TL_LITERAL("PX"), tl__bytes_from_int(px, lifetime_ms(w))};
    tl_send send = ask(w, a, argv, 6);
    (void)sim_conn_send(w, p->conn, &send, a);
}

static void release(sim_world *w, sim_actor *a) {
    static const char script[] = "if redis.call('get', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('del', KEYS[1]) else return 0 end";
    plain_actor *p = self(a);
    p->state = RELEASING;
    p->deadline = (tl_mono){0};
    tl_bytes argv[] = {TL_LITERAL("EVAL"), TL_LITERAL(script), TL_LITERAL("1"), w->key[a->key].k,
                       tl__bytes_of(p->value)};
    tl_send send = ask(w, a, argv, 5);
    (void)sim_conn_send(w, p->conn, &send, a);
}

static void taken(sim_world *w, sim_actor *a, const tl_event *e) {
    plain_actor *p = self(a);
    p->deadline = tl__mono_add_ns(e->sent,
                                  tl__rate_least_ns(lifetime_ms(w) * SIM_MS, w->cfg.drift_ppm));
    p->state = HOLDING;
    w->stats.plain_takes++;
    w->key[a->key].turns++;
    sim_tell(w, a->name, a->key, "takes %s with SET NX", w->key[a->key].name);
    sim_check_belief(w, a, p->deadline);
    sim_actor_wait(w, a, sim_draw(w, 0, w->cfg.hold_ms * SIM_MS));
}

static void answer(sim_world *w, sim_conn *conn, void *who, tl_event *e) {
    sim_actor *a = who;
    bool ok = e->kind == TL_REPLY && e->reply->type == TL_REPLY_STATUS;
    (void)conn;
    if (self(a)->state == TAKING && ok)
        taken(w, a, e);
    else if (self(a)->state == TAKING && e->kind == TL_FAILED && e->maybe_sent)
        release(w, a);
    else
        rest(w, a);
}

static const sim_calls calls = {.answer = answer};

static void act(sim_world *w, sim_actor *a) {
    if (self(a)->state == HOLDING)
        release(w, a);
    else if (self(a)->state == IDLE && !w->calm)
        take(w, a);
}

static void start(sim_world *w, sim_actor *a) {
    self(a)->conn = sim_conn_new(w, a->host, &calls, a);
    rest(w, a);
}

static void crash(sim_world *w, sim_actor *a) {
    sim_conn_free(w, self(a)->conn);
    self(a)->conn = NULL;
    self(a)->deadline = (tl_mono){0};
    self(a)->state = IDLE;
}

static bool holds(const sim_world *w, const sim_actor *a) {
    const plain_actor *p = (const plain_actor *)a->state;
    return a->host->up && tl__mono_before(sim_host_clock(w, a->host), p->deadline);
}

static tl_bytes value(const sim_actor *a) {
    return tl__bytes_of(((const plain_actor *)a->state)->value);
}

static void end(sim_world *w, sim_actor *a) {
    if (self(a)->state != IDLE)
        sim_fail(w, a->key, "%s never ends", a->name);
}

const sim_actor_kind sim_actor_plain = {
    .name = "plain",
    .size = sizeof(plain_actor),
    .start = start,
    .act = act,
    .crash = crash,
    .holds = holds,
    .value = value,
    .end = end,
};
