/*
 * An operator with `tidelock migrate`: reads a namespace's register, waits until everybody has confirmed it
 * and for a lease that it has itself seen it, sees to what the next phase can't live beside, and makes
 * one step, by comparing the epoch in a script. It may stop, crash, and have rivals.
 */
#include "world.h"

#include <stdio.h>

typedef struct {
    sim_conn *conn;
    enum { IDLE, READING, STEPPING } state;
    int64_t epoch;     /**< that it has seen, */
    tl_mono seen;      /**< since when; ns 0: none */
    tl_mono asked;     /**< when the reading under way was begun */
    bool on;           /**< it means to advance */
    int64_t pauses_ms; /**< before it goes on with this epoch */
} operator_actor;

_Static_assert(sizeof(operator_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static operator_actor *self(sim_actor *a) {
    return (operator_actor *)a->state;
}

/* ---- what it asks ------------------------------------------------------------------------------------ */

/* The register, the longest lease of those that may act, how many of these show another epoch, and what
 * stands on the locks' keys. */
static const char reading[] =
    "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] "
    "local r = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'lease_ms') "
    "local all, e, most, old = redis.call('HGETALL', KEYS[2]), r[2] or '0', tonumber(r[3] or 0), 0 "
    "for i = 2, #all, 2 do "
    "local epoch, l, seen = string.match(all[i], '^(%d+) %d+ (%d+) (%d+) ') "
    "if now <= seen + 3000 * l then most = math.max(most, l) if epoch ~= e then old = old + 1 end end "
    "end "
    "local n = {0, 0} "
    "for i = 3, #KEYS do local v = redis.call('GET', KEYS[i]) "
    "if v then local k = string.find(v, '^%d+$') and 1 or 2 n[k] = n[k] + 1 end end "
    "return {tonumber(r[1] or -1), tonumber(e), most, old, n[1], n[2]}";

/* ARGV: the epoch that it must have, the new phase, the lease. */
static const char stepping[] =
    "if redis.replicate_commands then redis.replicate_commands() end "
    "redis.call('HDEL', KEYS[1], '-') "
    "local want, to = ARGV[1], tonumber(ARGV[2]) "
    "if (redis.call('HGET', KEYS[1], 'epoch') or '0') ~= want then return 'epoch' end "
    "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] "
    "local all = redis.call('HGETALL', KEYS[2]) "
    "for i = 2, #all, 2 do "
    "local epoch, acts, l, seen = string.match(all[i], '^(%d+) (%d+) (%d+) (%d+) ') "
    "if now <= seen + 3000 * l and (want == '0' and math.abs(acts - to) > 1 or "
    "want ~= '0' and epoch ~= want) then return 'client' end "
    "end "
    "redis.call('HMSET', KEYS[1], 'phase', to, 'epoch', want + 1, 'lease_ms', ARGV[3]) "
    "return 'done'";

static sim_msg *ask(sim_world *w, sim_actor *a, int state, const tl_bytes *argv, uint8_t argc) {
    tl_send send = {.count = 1, .by = tl__mono_add_ms(sim_host_now(w, a->host), w->cfg.attempt_ms)};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = argc};
    memcpy(send.command[0].argv, argv, argc * sizeof *argv);
    self(a)->state = state;
    return sim_conn_send(w, self(a)->conn, &send, a);
}

static void read_register(sim_world *w, sim_actor *a) {
    tl_bytes argv[5 + SIM_KEYS] = {TL_LITERAL("EVAL"), TL_LITERAL(reading), TL_LITERAL(""),
                                   TL_LITERAL(SIM_REGISTER), TL_LITERAL(SIM_REGISTER ":clients")};
    char count[TL_INT_SIZE];
    argv[2] = tl__bytes_from_int(count, 2 + w->cfg.keys);
    for (int i = 0; i < w->cfg.keys; i++)
        argv[5 + i] = w->key[i].k;
    self(a)->asked = sim_host_now(w, a->host);
    (void)ask(w, a, READING, argv, (uint8_t)(5 + w->cfg.keys));
}

static void make_step(sim_world *w, sim_actor *a, int64_t phase) {
    char epoch[TL_INT_SIZE], to[TL_INT_SIZE], lease[TL_INT_SIZE];
    tl_bytes argv[] = {TL_LITERAL("EVAL"),
                       TL_LITERAL(stepping),
                       TL_LITERAL("2"),
                       TL_LITERAL(SIM_REGISTER),
                       TL_LITERAL(SIM_REGISTER ":clients"),
                       tl__bytes_from_int(epoch, self(a)->epoch),
                       tl__bytes_from_int(to, phase),
                       tl__bytes_from_int(lease, w->cfg.lease_ms)};
    sim_tell(w, a->name, SIM_ALL, "makes phase %lld of epoch %lld", (long long)phase,
             (long long)self(a)->epoch);
    sim_ns until = w->now + w->cfg.attempt_ms * SIM_MS;
    ask(w, a, STEPPING, argv, 8)->never_after = until;
    if (w->migration.steps_until < until)
        w->migration.steps_until = until;
}

/* ---- deciding ---------------------------------------------------------------------------------------- */

typedef struct {
    int64_t phase, epoch, lease_ms, others, stamps, tokens;
} view;

static void look_again(sim_world *w, sim_actor *a) {
    self(a)->state = IDLE;
    sim_actor_wait(w, a, sim_draw(w, 0, w->cfg.lease_ms * (SIM_MS / 4)));
}

/* Where the plan goes from this phase, which is the one to stay in when it has been carried out. */
static int64_t planned(sim_world *w, int64_t phase) {
    char digits[TL_INT_SIZE];
    tl_bytes text = tl__bytes_from_int(digits, w->cfg.plan);
    int *done = &w->migration.done;
    while ((size_t)*done < text.n && text.p[*done] - '0' == phase)
        w->stats.planned += (size_t)++ * done == text.n;
    return (size_t)*done < text.n ? text.p[*done] - '0' : phase;
}

/* The next phase by the plan, if there is one; else where this operator means to go. */
static int64_t next_phase(sim_world *w, const operator_actor *o, const view *v) {
    if (w->cfg.plan == 0)
        return v->phase == 0 || (o->on && v->phase < 3) ? v->phase + 1 : v->phase - 1;
    int64_t to = planned(w, v->phase);
    return to > v->phase ? v->phase + 1 : to < v->phase ? v->phase - 1 : to;
}

/* Java may come back beside phase 1 or 0, when nobody acts in 2 any more and its tokens have gone;
 * fixed clients with stamps up to phase 2, with tokens from it on. */
static void let_begin(sim_world *w, const view *v, int64_t to) {
    bool *stopped = w->migration.stopped;
    if (w->now <= w->migration.steps_until || w->migration.epoch != v->epoch)
        return; /* assumed: nobody starts a service while another operator makes a step */
    if (v->phase <= 1 && v->tokens == 0 && to != 2)
        stopped[SIM_JAVA] = false;
    if (v->phase <= 2 && to != 3)
        stopped[SIM_BRIDGE] = false;
    if (v->phase >= 2 && to != 1)
        stopped[SIM_TOKEN] = false;
}

/* Is everything gone that phase `to` can't live beside? */
static bool is_ready_for(sim_world *w, const view *v, int64_t to) {
    if (v->phase == 1 && to == 2) {
        sim_phase_stop(w, SIM_JAVA);
        return sim_phase_is_rid_of(w, SIM_JAVA);
    }
    if (to == 3) {
        sim_phase_stop(w, SIM_BRIDGE);
        return sim_phase_is_rid_of(w, SIM_BRIDGE) && v->stamps == 0;
    }
    if (to == 1 && v->phase == 2) {
        sim_phase_stop(w, SIM_TOKEN);
        return sim_phase_is_rid_of(w, SIM_TOKEN);
    }
    return to != 0 || v->tokens == 0;
}

static void notice(sim_world *w, sim_actor *a, const view *v, tl_mono now) {
    operator_actor *o = self(a);
    if (o->seen.ns != 0 && o->epoch == v->epoch)
        return;
    o->epoch = v->epoch;
    o->seen = now;
    o->on = sim_draw(w, 0, 9) < 7;
    o->pauses_ms = sim_draw(w, 0, 3) ? 0 : sim_draw(w, 0, 6 * w->cfg.lease_ms);
}

static void decide(sim_world *w, sim_actor *a, const view *v, tl_mono now) {
    operator_actor *o = self(a);
    notice(w, a, v, now);
    if (v->phase < 0) {
        make_step(w, a, w->cfg.plan ? planned(w, -1) : sim_draw(w, 0, 1));
        return;
    }
    int64_t to = next_phase(w, o, v), wait_ms = v->lease_ms + v->lease_ms / 1000 + 1;
    bool seen = !tl__mono_before(o->asked, tl__mono_add_ms(o->seen, wait_ms));
    bool pauses = tl__mono_before(o->asked, tl__mono_add_ms(o->seen, o->pauses_ms));
    if (seen && v->others == 0)
        let_begin(w, v, pauses ? v->phase : to);
    if (!seen || v->others > 0 || pauses || to == v->phase || !is_ready_for(w, v, to))
        look_again(w, a);
    else
        make_step(w, a, to);
}

/* ---- events -------------------------------------------------------------------------------------------- */

static bool parse(const tl_reply *r, view *ret) {
    int64_t *all[] = {&ret->phase,  &ret->epoch,  &ret->lease_ms,
                      &ret->others, &ret->stamps, &ret->tokens};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!tl__reply_int(tl__reply_item(r, i), all[i]))
            return false;
    return true;
}

static void stepped(sim_world *w, sim_actor *a, const tl_reply *r) {
    tl_bytes word = {0};
    (void)tl__reply_text(r, &word);
    w->stats.steps_raced += tl__bytes_eq(word, TL_LITERAL("epoch"));
    w->stats.steps_early += tl__bytes_eq(word, TL_LITERAL("client"));
    look_again(w, a);
}

static void answer(sim_world *w, sim_conn *conn, void *who, tl_event *e) {
    sim_actor *a = who;
    view v;
    (void)conn;
    if (e->kind == TL_REPLY && self(a)->state == STEPPING)
        stepped(w, a, e->reply);
    else if (e->kind == TL_REPLY && e->reply->type == TL_REPLY_ARRAY && parse(e->reply, &v) &&
             !w->calm)
        decide(w, a, &v, e->now);
    else
        look_again(w, a);
}

static const sim_calls calls = {.answer = answer};

static void act(sim_world *w, sim_actor *a) {
    if (self(a)->state == IDLE && !w->calm)
        read_register(w, a);
}

static void start(sim_world *w, sim_actor *a) {
    self(a)->conn = sim_conn_new(w, a->host, &calls, a);
    look_again(w, a);
}

static void crash(sim_world *w, sim_actor *a) {
    (void)w;
    sim_conn_free(w, self(a)->conn);
    self(a)->conn = NULL;
    self(a)->state = IDLE;
}

static void end(sim_world *w, sim_actor *a) {
    if (self(a)->state != IDLE)
        sim_fail(w, a->key, "%s never ends", a->name);
}

const sim_actor_kind sim_actor_operator = {
    .name = "operator",
    .size = sizeof(operator_actor),
    .start = start,
    .act = act,
    .crash = crash,
    .end = end,
};
