/*
 * A program that uses a lock, of tokens or of stamps, through the shipped machines: it acquires in every
 * way there is, holds for a while with the renewal running, extends by hand sometimes, releases,
 * starts again.
 */
#include "world.h"

typedef struct {
    sim_lock lock;
    enum { IDLE, ACQUIRING, HOLDING, EXTENDING, RELEASING } state;
    sim_ns hold_until;
    bool lost;
} token_actor;

_Static_assert(sizeof(token_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static token_actor *self(sim_actor *a) {
    return (token_actor *)a->state;
}

static void rest(sim_world *w, sim_actor *a) {
    self(a)->state = IDLE;
    sim_actor_wait(w, a, sim_draw(w, 0, 2 * w->cfg.idle_ms * SIM_MS));
}

/* ---- acquiring --------------------------------------------------------------------------------- */

static int64_t own_delay(uint32_t attempts, int64_t waited_ms, void *ctx) {
    (void)ctx;
    return attempts > 30 || waited_ms > 60000 ? -1 : (int64_t)attempts * 7 % 50;
}

static tl_retry draw_retry(sim_world *w) {
    tl_retry r = {.kind = TL_RETRY_AUTO, .next = own_delay};
    if (sim_draw(w, 0, 1))
        return r;
    r.kind = (tl_retry_kind)sim_draw(w, TL_RETRY_AUTO, TL_RETRY_CUSTOM);
    r.delay_ms = sim_draw(w, 1, w->cfg.ttl_ms);
    r.max_delay_ms = sim_draw(w, 1, w->cfg.ttl_ms);
    r.max_attempts = sim_draw(w, 0, 2) ? 0 : (uint32_t)sim_draw(w, 1, 10);
    return r;
}

static int64_t draw_wait_ms(sim_world *w) {
    switch (sim_draw(w, 0, 4)) {
    case 0: return 0;
    case 1: return TL_FOREVER;
    case 2: return sim_draw(w, 1, w->cfg.ttl_ms);
    default: return sim_draw(w, 1, 10 * w->cfg.ttl_ms);
    }
}

/* In a migration: behind what nobody will take away any more. */
static bool may_be_left_waiting(const sim_world *w, const sim_lock *l) {
    return w->cfg.migrates &&
           (!w->whole || l->protocol == &sim_counted_token || w->cfg.level < FAKE_LEVEL(3, 2, 0));
}

static void acquire(sim_world *w, sim_actor *a) {
    token_actor *t = self(a);
    sim_lock *l = &t->lock;
    int64_t wait_ms = draw_wait_ms(w);
    l->retry = draw_retry(w);
    l->ttl_ms = w->cfg.stamps ? sim_stamp_lifetime(w, l)
                              : sim_draw(w, w->cfg.ttl_ms / 2, w->cfg.ttl_ms);
    l->manual_renew = sim_draw(w, 0, 9) == 0 || w->cfg.by_hand;
    l->max_hold_ms = sim_draw(w, 0, 9) ? 0 : sim_draw(w, 1, 2 * w->cfg.ttl_ms);
    t->state = ACQUIRING;
    t->lost = false;
    /* Cancel some; and who waits behind a stamp that nobody will remove must not wait for ever. */
    if (sim_draw(w, 0, 7) == 0)
        sim_actor_wait(w, a, sim_draw_part(w, 0, 300));
    else if (wait_ms == TL_FOREVER && (w->key[a->key].mixed || may_be_left_waiting(w, l)))
        sim_actor_wait(w, a, w->cfg.until > w->now ? w->cfg.until - w->now + SIM_MS : SIM_MS);
    sim_lock_acquire(w, l, wait_ms);
}

/* ---- holding ----------------------------------------------------------------------------------- */

static void release(sim_world *w, sim_actor *a) {
    self(a)->state = RELEASING;
    sim_lock_release(w, &self(a)->lock);
}

static void hold_on(sim_world *w, sim_actor *a) {
    token_actor *t = self(a);
    t->state = HOLDING;
    sim_ns left = t->hold_until > w->now ? t->hold_until - w->now : 0;
    if (w->cfg
            .by_hand) { /* extended as soon as it is had, as a keeper would with a short lifetime */
        sim_actor_wait(w, a,
                       sim_draw(w, 0, 1) ? left : sim_draw(w, 0, w->cfg.lag_ms * (SIM_MS / 8)));
        return;
    }
    sim_actor_wait(w, a, sim_draw(w, 0, 2) ? left : sim_draw(w, 0, left));
}

static void go_on_holding(sim_world *w, sim_actor *a) {
    token_actor *t = self(a);
    if (t->lost) {
        rest(w, a); /* some let go of a lost lock in so many words, some don't */
    } else if (w->now >= t->hold_until || w->calm) {
        release(w, a);
    } else if (w->cfg.stamps && sim_stamp_is_plain(w, &t->lock)) {
        hold_on(w, a); /* it can't be extended */
    } else {
        t->state = EXTENDING;
        sim_lock_extend(w, &t->lock,
                        w->cfg.stamps ? sim_stamp_lifetime(w, &t->lock)
                                      : sim_draw(w, w->cfg.ttl_ms / 2, 2 * w->cfg.ttl_ms));
    }
}

/* Silently: its handle is freed, and the lock expires. */
static bool walks_away(sim_world *w, sim_actor *a) {
    if (sim_draw(w, 0, 39) || w->calm)
        return false;
    sim_tell(w, a->name, a->key, "walks away from %s", w->key[a->key].name);
    sim_lock_drop(w, &self(a)->lock);
    rest(w, a);
    return true;
}

/* ---- events ------------------------------------------------------------------------------------ */

static void done(sim_world *w, sim_lock *l, tl_err code) {
    sim_actor *a = l->actor;
    token_actor *t = self(a);
    switch (t->state) {
    case ACQUIRING:
        if (code != TL_OK) {
            rest(w, a);
            return;
        }
        t->hold_until = w->now + sim_draw(w, 0, 2 * w->cfg.hold_ms * SIM_MS);
        hold_on(w, a);
        return;
    case EXTENDING:
        t->lost = t->lost || l->state == TL_LOST;
        hold_on(w, a);
        return;
    default: rest(w, a); return;
    }
}

static void told(sim_world *w, sim_lock *l, const tl_lock_event *event) {
    sim_actor *a = l->actor;
    token_actor *t = self(a);
    if (event->state != TL_LOST)
        return;
    t->lost = true;
    if (t->state == HOLDING && sim_draw(w, 0, 1))
        release(w, a);
}

static void act(sim_world *w, sim_actor *a) {
    token_actor *t = self(a);
    switch (t->state) {
    case IDLE:
        if (!w->calm && !sim_phase_lets(w, (sim_kind)w->cfg.cast[a->id].kind))
            rest(w, a);
        else if (!w->calm)
            acquire(w, a);
        return;
    case ACQUIRING:
        sim_tell(w, a->name, a->key, "cancels");
        sim_lock_cancel(w, &t->lock);
        return;
    case HOLDING:
        if (!walks_away(w, a))
            go_on_holding(w, a);
        return;
    default: return;
    }
}

static void start(sim_world *w, sim_actor *a) {
    token_actor *t = self(a);
    sim_lock_init(w, &t->lock, a);
    t->lock.done = done;
    t->lock.told = told;
    rest(w, a);
}

static void crash(sim_world *w, sim_actor *a) {
    self(a)->state = IDLE;
    sim_lock_crash(w, &self(a)->lock);
}

/* It lets go of what it has as it would anyway, and waits for nothing more. */
static void stop(sim_world *w, sim_actor *a) {
    if (self(a)->state == ACQUIRING)
        sim_lock_cancel(w, &self(a)->lock);
}

bool sim_actor_is_idle(const sim_actor *a) {
    const token_actor *t = (const token_actor *)a->state;
    return t->state == IDLE && !t->lock.watch.running;
}

static bool holds(const sim_world *w, const sim_actor *a) {
    const token_actor *t = (const token_actor *)a->state;
    return a->host->up && sim_lock_held(w, &t->lock, w->now);
}

static tl_bytes value(const sim_actor *a) {
    return tl__token_bytes(&((const token_actor *)a->state)->lock.token);
}

static void check(sim_world *w, sim_actor *a) {
    if (a->host->up)
        sim_check_lock(w, &self(a)->lock);
}

static void end(sim_world *w, sim_actor *a) {
    if (self(a)->lock.busy)
        sim_fail(w, a->key, "%s's operation never ends", a->name);
}

#define KIND(title)                                                                                \
    {                                                                                              \
        .name = (title), .size = sizeof(token_actor), .start = start, .act = act, .crash = crash,  \
        .holds = holds, .value = value, .stop = stop, .check = check, .end = end                   \
    }

const sim_actor_kind sim_actor_token = KIND("token");

/* The same program with the stamps of legacy clients. */
const sim_actor_kind sim_actor_stamp = KIND("stamp");
