/*
 * An operator with `tidelock migrate`: reads a namespace's register, waits until everybody has confirmed it
 * and for a lease that it has itself seen it at this server, sees to what the next phase can't live beside,
 * has the replicas confirm the epoch, and makes one step, by comparing epoch and server in a script that
 * comes too late after a while. It may stop, crash, and have rivals.
 *
 * The shipped command does the same in actor_migrate.c. This one stays beside it as it goes where that one doesn't: leases
 * below a second, steps at any time instead of a look each 200 ms, services that are started as soon as that is
 * safe at all and not when the runbook says, and half the time for a seed.
 */
#include "world.h"

#include <stdio.h>

#include "ground/guard.h"

#define RUN_ID 40
#define NOWHERE (-1)

typedef struct {
    sim_raw raw;
    int64_t epoch;           /**< that it has seen, */
    tl_mono seen;            /**< since when; ns 0: none */
    unsigned gen;            /**< by which connection, */
    char run_id[RUN_ID + 1]; /**< at which server */
    tl_mono asked;           /**< when the reading in flight was begun */
    int64_t has;             /**< the epoch that all replicas are known to have; 0: none */
    bool on;                 /**< it means to advance */
    int64_t pauses_ms;       /**< before it goes on with this epoch */
    int64_t to;              /**< the phase of the step that it makes; NOWHERE */
    bool anew;               /**< which makes the register again, above all epochs */
    int64_t until_us;        /**< and is not carried out later, on the server's clock */
} operator_actor;

_Static_assert(sizeof(operator_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static operator_actor *self(const sim_actor *a) {
    return (operator_actor *)(uintptr_t)a->state;
}

/* ---- what it asks ------------------------------------------------------------------------------------ */

/* The register, the longest lease of those that may act, how many of these show another epoch or a later
 * one, what stands on the locks' keys, how many records there are, since when the register is as it is,
 * what time it is, and which server this. ARGV: which check is left out, '' none. */
static const char reading[] =
    "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] "
    "local r = redis.call('HMGET', KEYS[1], 'phase', 'epoch', 'lease_ms', 'since') "
    "local all, e, most, old = redis.call('HGETALL', KEYS[2]), r[2] or '0', tonumber(r[3] or 0), 0 "
    "local ahead = 0 "
    "for i = 2, #all, 2 do "
    "local epoch, l, seen = string.match(all[i], '^(%d+) %d+ (%d+) (%d+) ') "
    "if now <= seen + 3000 * l then "
    "if ARGV[1] ~= 'confirmed' then most = math.max(most, l) if epoch ~= e then old = old + 1 end end "
    "if tonumber(epoch) > tonumber(e) then ahead = ahead + 1 end end "
    "end "
    "local n = {0, 0} "
    "for i = 3, #KEYS do local v = redis.call('GET', KEYS[i]) "
    "if v then local k = string.find(v, '^%d+$') and 1 or 2 n[k] = n[k] + 1 end end "
    "return {tonumber(r[1] or -1), tonumber(e), most, old, n[1], n[2], ahead, #all / 2, "
    "tonumber(r[4] or 0), now, string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')}";

/* ARGV: the epoch that it must have, the new phase, the lease, whether it is made anew, the server that was
 * judged, until when it may be carried out, and which check is left out: '' none. */
static const char stepping[] =
    "if redis.replicate_commands then redis.replicate_commands() end "
    "redis.call('HDEL', KEYS[1], '-') "
    "local want, to, anew, omits = ARGV[1], tonumber(ARGV[2]), ARGV[4] == '1', ARGV[7] "
    "local epoch = omits == 'epoch' and want or redis.call('HGET', KEYS[1], 'epoch') or '0' "
    "if epoch ~= want then return 'epoch' end "
    "if string.match(redis.call('INFO', 'server'), 'run_id:(%x+)') ~= ARGV[5] then return 'server' end "
    "local t = redis.call('TIME') local now = t[1] * 1000000 + t[2] "
    "if now > tonumber(ARGV[6]) then return 'late' end "
    "local all, top = redis.call('HGETALL', KEYS[2]), tonumber(want) "
    "for i = 2, #all, 2 do "
    "local epoch, acts, l, seen = string.match(all[i], '^(%d+) (%d+) (%d+) (%d+) ') "
    "local early = not anew and omits ~= 'epoch' and omits ~= 'confirmed' and epoch ~= want "
    "local two = anew and omits ~= 'phase' and math.abs(acts - to) > 1 "
    "if now <= seen + 3000 * l and (early or two) then return 'client' end "
    "if anew then top = math.max(top, epoch) end "
    "end "
    "redis.call('HMSET', KEYS[1], 'phase', to, 'epoch', string.format('%.0f', top + 1), "
    "'lease_ms', ARGV[3], 'since', string.format('%.0f', now), "
    "'keys', redis.call('HGET', KEYS[1], 'keys') or '*') "
    "return 'done'";

/* The check that is left out: none, unless a guard is removed. */
static tl_bytes omitted(void) {
    if (!GUARD(step_by_epoch))
        return TL_LITERAL("epoch");
    if (!GUARD(step_confirmed))
        return TL_LITERAL("confirmed");
    return GUARD(no_step_of_two) ? TL_LITERAL("") : TL_LITERAL("phase");
}

/* What is asked together. */
typedef struct {
    tl_command command[2];
    unsigned count;
} question;

static const tl_reply *send(sim_world *w, sim_actor *a, const question *what) {
    return sim_raw_ask(w, &self(a)->raw, what->command, what->count, w->cfg.attempt_ms);
}

static void add(question *to, const tl_bytes *argv, uint8_t argc) {
    tl_command *c = &to->command[to->count++];
    *c = (tl_command){.form = TL_ARGV, .argc = argc};
    memcpy(c->argv, argv, argc * sizeof *argv);
}

/* Until all replicas have what was asked before it, or not for long. */
static void add_wait(sim_world *w, question *to, char room[2][TL_INT_SIZE]) {
    tl_bytes argv[] = {TL_LITERAL("WAIT"), tl__bytes_from_int(room[0], w->cfg.replicas),
                       tl__bytes_from_int(room[1], w->cfg.attempt_ms / 2)};
    if (w->cfg.replicas > 0)
        add(to, argv, 3);
}

static const tl_reply *read_register(sim_world *w, sim_actor *a) {
    tl_bytes argv[6 + SIM_KEYS] = {TL_LITERAL("EVAL"), TL_LITERAL(reading), TL_LITERAL(""),
                                   TL_LITERAL(SIM_REGISTER), TL_LITERAL(SIM_REGISTER ":clients")};
    char count[TL_INT_SIZE];
    question what = {.count = 0};
    argv[2] = tl__bytes_from_int(count, 2 + w->cfg.keys);
    for (int i = 0; i < w->cfg.keys; i++)
        argv[5 + i] = w->key[i].k;
    argv[5 + w->cfg.keys] = omitted();
    self(a)->asked = sim_host_clock(w, a->host);
    add(&what, argv, (uint8_t)(6 + w->cfg.keys));
    return send(w, a, &what);
}

/* Have all replicas confirmed what stands before the WAIT? */
static bool is_confirmed(sim_world *w, const tl_reply *r) {
    int64_t n = 0;
    bool all = w->cfg.replicas == 0 || (tl__reply_int(&r[1], &n) && n >= w->cfg.replicas);
    w->stats.unconfirmed += !all;
    return all;
}

static void stepped(sim_world *w, sim_actor *a, const tl_reply *r) {
    operator_actor *o = self(a);
    tl_bytes word = {0};
    if (!r)
        return;
    (void)tl__reply_text(r, &word);
    w->stats.steps_raced += tl__bytes_eq(word, TL_LITERAL("epoch"));
    w->stats.steps_early += tl__bytes_eq(word, TL_LITERAL("client"));
    w->stats.steps_elsewhere += tl__bytes_eq(word, TL_LITERAL("server"));
    w->stats.steps_late += tl__bytes_eq(word, TL_LITERAL("late"));
    if (tl__bytes_eq(word, TL_LITERAL("done")) && w->cfg.replicas > 0 && is_confirmed(w, r) &&
        !o->anew && o->gen == o->raw.opened)
        o->has = o->epoch + 1;
}

static void send_step(sim_world *w, sim_actor *a) {
    const operator_actor *o = self(a);
    char epoch[TL_INT_SIZE], to[TL_INT_SIZE], lease[TL_INT_SIZE], until[TL_INT_SIZE];
    char room[2][TL_INT_SIZE];
    tl_bytes argv[] = {TL_LITERAL("EVAL"),
                       TL_LITERAL(stepping),
                       TL_LITERAL("2"),
                       TL_LITERAL(SIM_REGISTER),
                       TL_LITERAL(SIM_REGISTER ":clients"),
                       tl__bytes_from_int(epoch, o->epoch),
                       tl__bytes_from_int(to, o->to),
                       tl__bytes_from_int(lease, w->cfg.lease_ms),
                       o->anew ? TL_LITERAL("1") : TL_LITERAL("0"),
                       tl__bytes_of(o->run_id),
                       tl__bytes_from_int(until, o->until_us),
                       omitted()};
    question what = {.count = 0};
    sim_tell(w, a->name, SIM_ALL, "makes phase %lld of epoch %lld%s", (long long)o->to,
             (long long)o->epoch, o->anew ? ", anew" : "");
    add(&what, argv, sizeof argv / sizeof *argv);
    add_wait(w, &what, room);
    stepped(w, a, send(w, a, &what));
}

/* The present epoch must not be lost with a failover any more: else another could be led on from. */
static bool settle(sim_world *w, sim_actor *a) {
    static const char touch[] =
        "return redis.call('EXISTS', KEYS[1]) == 1 and redis.call('HINCRBY', KEYS[1], 'epoch', 0)";
    tl_bytes argv[] = {TL_LITERAL("EVAL"), TL_LITERAL(touch), TL_LITERAL("1"),
                       TL_LITERAL(SIM_REGISTER)};
    char room[2][TL_INT_SIZE];
    question what = {.count = 0};
    add(&what, argv, sizeof argv / sizeof *argv);
    add_wait(w, &what, room);
    operator_actor *o = self(a);
    unsigned gen = o->gen;
    const tl_reply *r = send(w, a, &what);
    bool all = r && is_confirmed(w, r);
    if (all && gen == o->raw.opened)
        o->has = o->epoch;
    return all;
}

/* Nobody starts a service meanwhile: assumed. */
static void make_step(sim_world *w, sim_actor *a, int64_t now_us, int64_t phase, bool anew) {
    operator_actor *o = self(a);
    o->to = phase;
    o->anew = anew;
    o->until_us = now_us + 2 * w->cfg.attempt_ms * 1000;
    sim_clock slow = sim_clock_from_here(w, &w->server[w->shard[0].master].wall, -1);
    sim_ns until = sim_clock_when(&slow, (o->until_us + 1) * 1000);
    if (w->migration.steps_until < until)
        w->migration.steps_until = until;
    /* It looks through the keys: another server may be master then. */
    if (GUARD(step_replicated) && w->cfg.replicas > 0) {
        sim_sleep(w, sim_draw(w, 0, w->cfg.attempt_ms * (SIM_MS / 2)));
        if (w->calm || !settle(w, a) || w->calm)
            return;
        sim_sleep(w, sim_draw(w, 0, w->cfg.attempt_ms * (SIM_MS / 4)));
    }
    send_step(w, a);
}

/* ---- deciding ---------------------------------------------------------------------------------------- */

typedef struct {
    int64_t phase, epoch, lease_ms, others, stamps, tokens, ahead, clients, since_us, now_us;
    tl_bytes run_id;
} view;

/* Java may come back beside phase 1 or 0, when nobody acts in 2 any more and its tokens have gone;
 * fixed clients with stamps up to phase 2, with tokens from it on. */
static bool may_begin(const view *v, sim_kind kind, int64_t to) {
    switch (kind) {
    case SIM_JAVA: return v->phase <= 1 && v->tokens == 0 && to != 2;
    case SIM_BRIDGE: return v->phase <= 2 && to != 3;
    case SIM_TOKEN: return v->phase >= 2 && to != 1;
    default: return false;
    }
}

/* Whoever may begin does; true: not before the replicas have this epoch, as a failover would bring back
 * one that they can't live beside. */
static bool let_begin(sim_world *w, const operator_actor *o, const view *v, int64_t to) {
    bool *stopped = w->migration.stopped, lacks = false;
    if (w->now <= w->migration.steps_until || w->migration.epoch != v->epoch)
        return false; /* assumed: nobody starts a service while another operator makes a step */
    for (int kind = 0; kind < SIM_KIND_COUNT; kind++) {
        if (!stopped[kind] || !may_begin(v, (sim_kind)kind, to))
            continue;
        stopped[kind] = GUARD(service_after_replicas) && w->cfg.replicas > 0 && o->has != v->epoch;
        lacks = lacks || stopped[kind];
    }
    return lacks;
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

/* Another server may answer by a connection that is new: what was seen so far says nothing. */
static bool is_same_server(const operator_actor *o, const view *v) {
    return o->gen == o->raw.opened && tl__bytes_eq(tl__bytes_of(o->run_id), v->run_id);
}

static void notice(sim_world *w, sim_actor *a, const view *v, tl_mono now) {
    operator_actor *o = self(a);
    bool same = is_same_server(o, v), known = o->seen.ns != 0 && o->epoch == v->epoch;
    o->gen = o->raw.opened;
    (void)snprintf(o->run_id, sizeof o->run_id, "%.*s", (int)v->run_id.n, v->run_id.p);
    o->has = same ? o->has : 0;
    if (known && (same || !GUARD(wait_at_one_server)))
        return;
    w->stats.seen_anew += known;
    o->epoch = v->epoch;
    o->seen = GUARD(wait_from_answer) ? now : o->asked;
    o->on = sim_draw(w, 0, 9) < 7;
    o->pauses_ms = sim_draw(w, 0, 3) ? 0 : sim_draw(w, 0, 6 * w->cfg.lease_ms);
}

/* Clients know a later epoch than there is: a failover has undone it, and they refuse. */
static void set_right(sim_world *w, sim_actor *a, const view *v) {
    int64_t to = v->phase + (w->cfg.plan ? 0 : sim_draw(w, -1, 1));
    to = to < 0 ? 0 : to > 3 ? 3 : to;
    if (is_ready_for(w, v, to))
        make_step(w, a, v->now_us, to, true);
}

/* Beside tokens alone a stamp that somebody left would lie on its key for ever. */
static void begin_register(sim_world *w, sim_actor *a, const view *v) {
    int64_t to = w->cfg.plan ? sim_phase_next(w, -1, true) : sim_draw(w, 0, 1);
    if (to != 3 || v->stamps == 0)
        make_step(w, a, v->now_us, to, true);
}

/* Has it been seen for long enough, if there may be anybody who acts by what was before? */
static bool is_seen(const operator_actor *o, const view *v) {
    int64_t wait_ms = v->lease_ms + v->lease_ms / 1000 + 1;
    bool wants_wait = v->clients > 0 || v->now_us - v->since_us < wait_ms * 1000;
    bool seen = !tl__mono_before(o->asked, tl__mono_add_ms(o->seen, wait_ms));
    return seen || !wants_wait || !GUARD(waits_for_leases);
}

static void decide(sim_world *w, sim_actor *a, const view *v, tl_mono now) {
    operator_actor *o = self(a);
    notice(w, a, v, now);
    if (v->phase < 0 || v->ahead > 0) {
        if (v->phase < 0)
            begin_register(w, a, v);
        else
            set_right(w, a, v);
        return;
    }
    int64_t to = sim_phase_next(w, v->phase, o->on);
    bool seen = is_seen(o, v);
    bool pauses = tl__mono_before(o->asked, tl__mono_add_ms(o->seen, o->pauses_ms));
    if (seen && v->others == 0 && let_begin(w, o, v, pauses ? v->phase : to))
        (void)settle(w, a);
    else if (seen && v->others == 0 && !pauses && to != v->phase && is_ready_for(w, v, to))
        make_step(w, a, v->now_us, to, false);
}

/* ---- its life ------------------------------------------------------------------------------------------ */

static bool parse(const tl_reply *r, view *ret) {
    int64_t *all[] = {&ret->phase,  &ret->epoch, &ret->lease_ms, &ret->others,   &ret->stamps,
                      &ret->tokens, &ret->ahead, &ret->clients,  &ret->since_us, &ret->now_us};
    size_t n = sizeof all / sizeof *all;
    for (size_t i = 0; i < n; i++)
        if (!tl__reply_int(tl__reply_item(r, i), all[i]))
            return false;
    return tl__reply_text(tl__reply_item(r, n), &ret->run_id);
}

static void live(sim_world *w, sim_actor *a) {
    view v;
    self(a)->raw.fd = -1;
    self(a)->raw.never_after = SIM_NEVER;
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, w->cfg.lease_ms * (SIM_MS / 4)));
        const tl_reply *r = w->calm ? NULL : read_register(w, a);
        if (r && r->type == TL_REPLY_ARRAY && parse(r, &v) && !w->calm)
            decide(w, a, &v, sim_host_clock(w, a->host));
    }
    sim_raw_end(&self(a)->raw);
}

const sim_actor_kind sim_actor_operator = {
    .name = "operator",
    .size = sizeof(operator_actor),
    .live = live,
};
