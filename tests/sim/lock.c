/*
 * A lock as its user has it: the calls of the public header, with what the checks must know before and after.
 */
#include "world.h"

#include <stdlib.h>

/* ---- looking ---------------------------------------------------------------------------------------- */

tl_mono sim_lock_deadline(const sim_lock *l) {
    return (tl_mono){l->handle ? atomic_load(&l->handle->deadline_ns) : 0};
}

/* As tl_lock_remaining_ms() would find it, without looking. */
static bool is_in_doubt(const sim_lock *l) {
    const tl_disruptions *all = &l->handle->client->disruptions;
    bool changed = all->page && all->page->marker != atomic_load(&all->marker);
    return changed || tl__is_disrupted((tl_mono){atomic_load(&l->handle->proved_ns)},
                                       (tl_mono){atomic_load(&all->at_ns)});
}

bool sim_lock_held(const sim_world *w, const sim_lock *l) {
    if (!l->handle || is_in_doubt(l))
        return false;
    int state = atomic_load(&l->handle->state);
    return state != TL_FREE && state != TL_LOST &&
           tl__mono_before(sim_host_clock(w, l->actor->host), sim_lock_deadline(l));
}

/* Who frees the handle relies on it no more: what it was about to be told is released within that call. */
bool sim_lock_actor_holds(const sim_world *w, const sim_actor *a) {
    return a->host->up && !sim_lock_at(a)->going && sim_lock_held(w, sim_lock_at(a));
}

tl_bytes sim_lock_actor_value(const sim_actor *a) {
    return tl__token_bytes(&sim_lock_at(a)->handle->token);
}

void sim_lock_actor_check(sim_world *w, sim_actor *a) {
    if (a->host->up && sim_lock_at(a)->handle)
        sim_check_lock(w, sim_lock_at(a));
}

sim_lock *sim_lock_of(sim_world *w, const tl_lock *handle) {
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_lock *l = sim_lock_at(&w->actor[i]);
        if (l && l->handle == handle)
            return l;
    }
    return NULL;
}

void sim_lock_crash(sim_lock *l) {
    l->handle = NULL;
    l->busy = l->going = false;
}

/* ---- making ------------------------------------------------------------------------------------------ */

static void told(tl_lock *handle, const tl_lock_event *event, void *ctx) {
    sim_world *w = sim_the_world;
    sim_lock *l = ctx;
    (void)sim_enter();
    if (l->handle != handle)
        sim_fail(w, l->key, "%s is told of a lock that it has freed", l->actor->name);
    else
        sim_check_told(w, l, event);
    sim_leave();
}

static int64_t own_delay(uint32_t attempts, int64_t waited_ms, void *ctx) {
    (void)ctx;
    return attempts > 30 || waited_ms > 60000 ? -1 : (int64_t)attempts * 7 % 50;
}

static void draw_retry(sim_world *w, tl_lock_options *o) {
    if (sim_draw(w, 0, 9) < 7)
        return;
    o->retry = (tl_retry_kind)sim_draw(w, TL_RETRY_AUTO, TL_RETRY_CUSTOM);
    o->retry_delay_ms = sim_draw(w, 1, w->cfg.ttl_ms);
    o->retry_max_delay_ms = sim_draw(w, 1, w->cfg.ttl_ms);
    o->retry_max_attempts = sim_draw(w, 0, 2) ? 0 : (uint32_t)sim_draw(w, 1, 10);
    o->retry_next = own_delay;
}

static int64_t draw_stall(sim_world *w, const sim_lock *l) {
    bool may = w->cfg.stall > 0 && !l->manual_renew && !l->strict &&
               l->actor->kind == &sim_actor_lock;
    if (!may || !sim_chance(&w->random, w->cfg.stall))
        return 0;
    return TL_TTL_MIN_MS + sim_draw(w, 0, 2 * w->cfg.ttl_ms);
}

/* Not without scripts, nor where waiters overwrite a stamp. */
static bool may_rest(const sim_world *w, const sim_lock *l) {
    bool overwrites = w->cfg.stamps && sim_dialect_overwrites(w->cfg.dialect);
    return w->cfg.rests && !l->strict && !overwrites &&
           !(w->cfg.stamps && (w->cfg.no_eval || w->cfg.level < FAKE_LEVEL(2, 6, 0)));
}

static void draw_rests(sim_world *w, sim_lock *l, tl_lock_options *o) {
    l->min_hold_ms = 0;
    l->rest_ends_wait = false;
    if (!may_rest(w, l))
        return;
    o->min_hold_ms = l->min_hold_ms = sim_draw(w, 0, 3) ? 0 : sim_draw(w, 1, 2 * w->cfg.ttl_ms);
    o->rest_ends_wait = l->rest_ends_wait = sim_draw(w, 0, 3) == 0;
}

static bool may_be_fair(const sim_world *w, const tl_lock_options *o) {
    return w->cfg.fair && !w->cfg.stamps && o->retry == TL_RETRY_AUTO && o->retry_max_attempts == 0;
}

void sim_lock_make(sim_world *w, sim_lock *l) {
    tl_error err;
    tl_lock_options o = TL_LOCK_OPTIONS(.on_event = told, .ctx = l);
    l->strict = w->cfg.cast[l->actor->id].kind == SIM_STRICT;
    o.ttl_ms = l->ttl_ms = w->cfg.stamps ? sim_stamp_lifetime(w, l)
                                         : sim_draw(w, w->cfg.ttl_ms / 2, w->cfg.ttl_ms);
    o.manual_renew = l->manual_renew = sim_draw(w, 0, 9) == 0 || w->cfg.by_hand;
    o.max_hold_ms = l->max_hold_ms = sim_draw(w, 0, 9) ? 0 : sim_draw(w, 1, 2 * w->cfg.ttl_ms);
    o.stall_ms = l->stall_ms = draw_stall(w, l);
    draw_retry(w, &o);
    draw_rests(w, l, &o);
    o.fair = l->fair = may_be_fair(w, &o) && sim_chance(&w->random, w->cfg.fair);
    l->retry = o.retry;
    l->retry_max = o.retry_max_attempts;
    const sim_key *key = &w->key[l->key];
    sim_leave();
    tl_lock *handle = tl_lock_new(l->client->handle, key->k.p, key->k.n, &o, &err);
    (void)sim_enter();
    l->handle = handle;
    l->told = TL_FREE;
    l->number = 0;
    l->noted_lost = l->owes = l->has = false;
    if (!handle)
        sim_fail(w, l->key, "a lock is refused: %s", err.message);
}

void sim_lock_drop(sim_world *w, sim_lock *l) {
    tl_lock *handle = l->handle;
    if (!handle)
        return;
    if (l->number && !l->busy)
        w->token[l->number].promise = SIM_MOVED_ON;
    l->going = true;
    sim_leave();
    tl_lock_free(handle);
    (void)sim_enter();
    l->going = false;
    l->handle = NULL;
    l->busy = false;
}

/* ---- operations -------------------------------------------------------------------------------------- */

/* A sign of life was given after `from`, and before now. */
static void note_sign(sim_world *w, sim_lock *l, tl_mono from) {
    l->alive_before = l->alive_from;
    l->alive_from = from;
    l->alive_to = sim_host_clock(w, l->actor->host);
}

void sim_lock_alive(sim_world *w, sim_lock *l) {
    tl_lock *handle = l->handle;
    tl_mono from = sim_host_clock(w, l->actor->host);
    l->feeds = true;
    l->frozen = false;
    sim_leave();
    tl_lock_alive(handle);
    (void)sim_enter();
    l->feeds = false;
    note_sign(w, l, from);
}

void sim_lock_stall(sim_world *w, sim_lock *l) {
    tl_lock *handle = l->handle;
    l->alive_before.ns = l->alive_from.ns = INT64_MIN;
    sim_tell(w, l->actor->name, l->key, "calls itself stalled");
    sim_leave();
    tl_lock_stall(handle);
    (void)sim_enter();
}

void sim_lock_begin(sim_world *w, sim_lock *l, sim_op op, int64_t limit_ms) {
    l->busy = true;
    l->frozen = false;
    l->loops = false;
    l->op = op;
    l->op_began = w->now;
    l->op_ms = limit_ms;
    if (op == SIM_RELEASE)
        l->believed = sim_lock_held(w, l) ||
                      (l->noted_lost &&
                       (l->why == TL_LOST_EXPIRED || l->why == TL_LOST_MAX_HOLD ||
                        l->why == TL_LOST_STALLED) &&
                       tl__mono_before(sim_host_clock(w, l->actor->host), l->lost_deadline));
    if (op != SIM_ACQUIRE)
        return;
    l->alive_before = l->alive_from = sim_host_clock(w, l->actor->host); /* it will be a sign */
    l->stalled = false;
    l->told = TL_FREE;
    l->noted_lost = l->owes = false;
    l->overtaken = 0;
    l->former = l->drawn;
    l->behind = 0;
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_lock *b = sim_lock_at(&w->actor[i]);
        if (b)
            b->behind &= ~(UINT32_C(1) << l->actor->id);
    }
}

void sim_lock_end(sim_world *w, sim_lock *l, tl_err code) {
    uint32_t before = l->number;
    uint32_t number = sim_token_number(w, tl__token_bytes(&l->handle->token));
    l->number = number ? number : l->drawn;
    l->busy = false;
    if (code == TL_OK && l->op == SIM_ACQUIRE) {
        l->had_at = l->op_began;
        w->token[l->number].had_us = sim_server_us(w, &w->server[sim_home_of(w, w->key[l->key].k)]);
        l->fence = tl_lock_fence(l->handle);
        tl_mono hold = tl__mono_add_ms(sim_host_clock(w, l->actor->host), l->max_hold_ms);
        l->hold_by = l->max_hold_ms > 0 ? hold : TL_NEVER;
        l->alive_to = sim_host_clock(w, l->actor->host);
    }
    if (code == TL_OK && l->op != SIM_RELEASE)
        sim_check_belief(w, l->actor, sim_lock_deadline(l));
    sim_check_ended(w, l, code, l->number != before);
}

tl_err sim_lock_acquire(sim_world *w, sim_lock *l, int64_t wait_ms) {
    tl_error err;
    sim_lock_begin(w, l, SIM_ACQUIRE,
                   wait_ms == 0 ? w->cfg.connect_ms + w->cfg.attempt_ms : wait_ms);
    tl_lock *handle = l->handle;
    sim_leave();
    tl_err code = tl_lock_acquire(handle, wait_ms, &err);
    (void)sim_enter();
    sim_lock_end(w, l, code);
    sim_check_said(w, l, code, err.message);
    return code;
}

tl_err sim_lock_extend(sim_world *w, sim_lock *l, int64_t ttl_ms) {
    tl_error err;
    sim_lock_begin(w, l, SIM_EXTEND, w->cfg.attempt_ms);
    tl_lock *handle = l->handle;
    sim_leave();
    tl_err code = tl_lock_extend(handle, ttl_ms, &err);
    (void)sim_enter();
    note_sign(w, l, l->alive_from);
    w->stats.extends += code == TL_OK;
    sim_lock_end(w, l, code);
    sim_check_said(w, l, code, err.message);
    return code;
}

int64_t sim_lock_draw_rest(sim_world *w, sim_lock *l) {
    int64_t ms = may_rest(w, l) && sim_chance(&w->random, w->cfg.rests)
                     ? sim_draw(w, 0, 3 * w->cfg.ttl_ms)
                     : 0;
    w->token[l->number].rest_ms = ms > l->min_hold_ms ? ms : l->min_hold_ms;
    return ms;
}

tl_err sim_lock_release(sim_world *w, sim_lock *l) {
    tl_error err;
    int64_t rest_ms = sim_lock_draw_rest(w, l);
    sim_lock_begin(w, l, SIM_RELEASE, w->cfg.attempt_ms);
    tl_lock *handle = l->handle;
    sim_leave();
    tl_err code = rest_ms > 0 ? tl_lock_rest(handle, rest_ms, &err) : tl_lock_release(handle, &err);
    (void)sim_enter();
    sim_lock_end(w, l, code);
    sim_check_said(w, l, code, err.message);
    return code;
}
