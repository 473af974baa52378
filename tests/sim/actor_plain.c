/*
 * A client that knows nothing of tidelock: SET K random NX PX, and a compare-and-delete script; it
 * doesn't renew, and counts its lifetime from before the request (redis-py, redlock, ...).
 */
#include "world.h"

#include <stdio.h>

typedef struct {
    sim_raw raw;
    unsigned takes;
    tl_mono deadline; /**< 0: not held */
    char value[24];
} plain_actor;

_Static_assert(sizeof(plain_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static plain_actor *self(const sim_actor *a) {
    return (plain_actor *)(uintptr_t)a->state;
}

static const tl_reply *ask(sim_world *w, sim_actor *a, const tl_bytes *argv, uint8_t argc) {
    tl_command c = {.form = TL_ARGV, .argc = argc};
    memcpy(c.argv, argv, argc * sizeof *argv);
    return sim_raw_ask(w, &self(a)->raw, &c, 1, w->cfg.attempt_ms);
}

/* Among legacy clients a shorter one: a racing loser's stamp may take its place. */
static int64_t lifetime_ms(const sim_world *w) {
    const sim_config *c = &w->cfg;
    return c->stamps ? c->java_ttl_ms - 2 * c->skew_ms - c->lag_ms : c->ttl_ms;
}

/* True: it is to be released, whether it was had or not. */
static bool take(sim_world *w, sim_actor *a) {
    plain_actor *p = self(a);
    char px[TL_INT_SIZE];
    (void)snprintf(p->value, sizeof p->value, "plain-%s-%u", a->name, ++p->takes);
    tl_bytes argv[] = {TL_LITERAL("SET"), w->key[a->key].k, tl__bytes_of(p->value),
                       TL_LITERAL("NX"),  TL_LITERAL("PX"), tl__bytes_from_int(px, lifetime_ms(w))};
    const tl_reply *r = ask(w, a, argv, 6);
    if (!r)
        return p->raw.maybe;
    if (r->type != TL_REPLY_STATUS)
        return false;
    p->deadline = tl__mono_add_ns(p->raw.sent,
                                  tl__rate_least_ns(lifetime_ms(w) * SIM_MS, w->cfg.drift_ppm));
    w->stats.plain_takes++;
    w->key[a->key].turns++;
    sim_tell(w, a->name, a->key, "takes %s with SET NX", w->key[a->key].name);
    sim_check_belief(w, a, p->deadline);
    sim_rest(w, sim_draw(w, 0, w->cfg.hold_ms * SIM_MS));
    return true;
}

static void release(sim_world *w, sim_actor *a) {
    static const char script[] = "if redis.call('get', KEYS[1]) == ARGV[1] then "
                                 "return redis.call('del', KEYS[1]) else return 0 end";
    plain_actor *p = self(a);
    p->deadline = (tl_mono){0};
    tl_bytes argv[] = {TL_LITERAL("EVAL"), TL_LITERAL(script), TL_LITERAL("1"), w->key[a->key].k,
                       tl__bytes_of(p->value)};
    (void)ask(w, a, argv, 5);
}

static void live(sim_world *w, sim_actor *a) {
    self(a)->raw.fd = -1;
    self(a)->raw.never_after = SIM_NEVER;
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, w->cfg.idle_ms * SIM_MS));
        if (!w->calm && take(w, a))
            release(w, a);
    }
    sim_raw_end(&self(a)->raw);
}

static void crash(sim_world *w, sim_actor *a) {
    (void)w;
    self(a)->deadline = (tl_mono){0};
}

static bool holds(const sim_world *w, const sim_actor *a) {
    return a->host->up && tl__mono_before(sim_host_clock(w, a->host), self(a)->deadline);
}

static tl_bytes value(const sim_actor *a) {
    return tl__bytes_of(self(a)->value);
}

const sim_actor_kind sim_actor_plain = {
    .name = "plain",
    .size = sizeof(plain_actor),
    .live = live,
    .crash = crash,
    .holds = holds,
    .value = value,
};
