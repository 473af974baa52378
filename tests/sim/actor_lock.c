/*
 * A program that uses a lock, of tokens or of stamps, by the calls that block: it acquires in every way there is, holds
 * for a while with the renewal running, extends by hand sometimes, releases, starts again. It may share its
 * client with others of its process, and be cancelled by another thread.
 */
#include "world.h"

typedef struct canceller {
    sim_actor *actor;
    sim_thread *thread;
    uint32_t turn;
    bool sleeps;
    sim_ns after;
    struct canceller *next;
} canceller;

typedef struct {
    sim_lock lock; /* first: sim_lock_at */
    enum { IDLE, ACQUIRING, HOLDING, EXTENDING, RELEASING } state;
    canceller *cancellers; /* threads that may yet cancel */
    uint32_t turn;
    bool stops;
} lock_actor;

_Static_assert(sizeof(lock_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static lock_actor *self(const sim_actor *a) {
    return (lock_actor *)(uintptr_t)a->state;
}

sim_lock *sim_lock_at(const sim_actor *a) {
    return a->kind == &sim_actor_lock || a->kind == &sim_actor_loop
               ? (sim_lock *)(uintptr_t)a->state
               : NULL;
}

/* ---- cancelling --------------------------------------------------------------------------------------- */

static void cancel(sim_world *w, sim_actor *a) {
    lock_actor *t = self(a);
    if (!t->lock.handle)
        return;
    sim_tell(w, a->name, a->key, "is cancelled");
    sim_leave();
    tl_lock_cancel(t->lock.handle);
    (void)sim_enter();
}

static bool is_wanted(const canceller *c) {
    const lock_actor *t = self(c->actor);
    return t->state == ACQUIRING && t->turn == c->turn;
}

static void *cancel_later(void *ctx) {
    (void)sim_enter();
    sim_world *w = sim_the_world;
    canceller *c = ctx, **at = &self(c->actor)->cancellers;
    sim_ns until = w->now + c->after;
    c->sleeps = true;
    while (w->now < until && is_wanted(c))
        (void)sim_thread_block(w, until);
    c->sleeps = false;
    if (is_wanted(c))
        cancel(w, c->actor);
    while (*at != c)
        at = &(*at)->next;
    *at = c->next;
    sim_leave();
    return NULL;
}

static void have_cancelled(sim_world *w, sim_actor *a, sim_ns after) {
    canceller *c = sim_get(w, sizeof *c);
    lock_actor *t = self(a);
    *c = (canceller){.actor = a, .turn = t->turn, .after = after, .next = t->cancellers};
    t->cancellers = c;
    c->thread = sim_thread_new(a->host, cancel_later, c);
    c->thread->detached = true;
}

/* Those that have come too late go, sooner or later. */
static void dismiss_cancellers(sim_world *w, sim_actor *a) {
    for (canceller *c = self(a)->cancellers; c; c = c->next)
        if (c->sleeps)
            sim_thread_ready(w, c->thread);
}

/* From outside: when it is to come to an end. */
static void stop(sim_world *w, sim_actor *a) {
    self(a)->stops = true;
    if (self(a)->state == ACQUIRING)
        have_cancelled(w, a, 0);
}

/* ---- acquiring --------------------------------------------------------------------------------- */

static int64_t draw_wait_ms(sim_world *w) {
    switch (sim_draw(w, 0, 4)) {
    case 0: return 0;
    case 1: return TL_FOREVER;
    case 2: return sim_draw(w, 1, w->cfg.ttl_ms);
    default: return sim_draw(w, 1, 10 * w->cfg.ttl_ms);
    }
}

/* In a migration: behind what nobody will take away any more. And where no clock is as assumed. */
static bool may_be_left_waiting(const sim_world *w, const sim_actor *a) {
    sim_kind kind = (sim_kind)w->cfg.cast[a->id].kind;
    if (w->cfg.dead > w->cfg.voters / 2)
        return true;
    if (w->cfg.slow_clock ||
        w->cfg.fault[SIM_BEYOND]) /* each take may come too late by its server's clock */
        return true;
    if (w->cfg.slot_phases)
        return true;
    return w->cfg.migrates &&
           (!w->whole || w->cfg.forgets || kind == SIM_TOKEN || w->cfg.level < FAKE_LEVEL(3, 2, 0));
}

static tl_err acquire(sim_world *w, sim_actor *a) {
    lock_actor *t = self(a);
    int64_t wait_ms = draw_wait_ms(w);
    t->state = ACQUIRING;
    t->turn++;
    /* Cancel some; and who waits behind a stamp that nobody will remove must not wait for ever. */
    if (sim_draw(w, 0, 7) == 0)
        have_cancelled(w, a, sim_draw_part(w, 0, 300));
    else if (wait_ms == TL_FOREVER && (w->key[a->key].mixed || may_be_left_waiting(w, a)))
        have_cancelled(w, a, w->cfg.until > w->now ? w->cfg.until - w->now + SIM_MS : SIM_MS);
    tl_err code = sim_lock_acquire(w, &t->lock, wait_ms);
    t->state = IDLE;
    dismiss_cancellers(w, a);
    return code;
}

/* ---- holding ----------------------------------------------------------------------------------- */

static int64_t draw_extension(sim_world *w, sim_lock *l) {
    return w->cfg.stamps ? sim_stamp_lifetime(w, l)
                         : sim_draw(w, w->cfg.ttl_ms / 2, 2 * w->cfg.ttl_ms);
}

static sim_ns draw_pause(sim_world *w, sim_ns left) {
    if (w->cfg.by_hand) /* extended as soon as it is had, as a keeper would with a short lifetime */
        return sim_draw(w, 0, 1) ? left : sim_draw(w, 0, w->cfg.lag_ms * (SIM_MS / 8));
    return sim_draw(w, 0, 2) ? left : sim_draw(w, 0, left);
}

/* With a watchdog: it gives signs of life often enough, or hangs until the end of the rest. */
static void rest(sim_world *w, sim_lock *l, sim_ns ns) {
    sim_ns until = w->now + ns;
    if (l->stall_ms == 0) {
        sim_rest(w, ns);
        return;
    }
    bool hangs = sim_draw(w, 0, 2) == 0;
    if (hangs && sim_draw(w, 0, 3) == 0)
        sim_lock_stall(w, l);
    while (w->now < until && !w->calm && !w->failed) {
        sim_ns most = hangs ? until - w->now : sim_draw(w, SIM_MS, l->stall_ms * (SIM_MS / 3));
        sim_rest(w, until - w->now < most ? until - w->now : most);
        sim_lock_alive(w, l);
    }
}

/* True: it walks away, silently; its handle is freed, and the lock expires. */
static bool hold(sim_world *w, sim_actor *a) {
    lock_actor *t = self(a);
    sim_ns until = w->now + sim_draw(w, 0, 2 * w->cfg.hold_ms * SIM_MS);
    for (;;) {
        t->state = HOLDING;
        rest(w, &t->lock, draw_pause(w, until > w->now ? until - w->now : 0));
        if (sim_draw(w, 0, 39) == 0 && !w->calm)
            return true;
        if (t->lock.told == TL_LOST || w->now >= until || w->calm || t->stops)
            return false;
        if (w->cfg.stamps && sim_stamp_is_plain(w, &t->lock))
            continue; /* it can't be extended */
        t->state = EXTENDING;
        (void)sim_lock_extend(w, &t->lock, draw_extension(w, &t->lock));
    }
}

static void let_go(sim_world *w, sim_actor *a) {
    lock_actor *t = self(a);
    t->state = IDLE;
    while (t->cancellers)
        sim_sleep(w, SIM_MS);
    sim_lock_drop(w, &t->lock);
}

/* One handle, used a few times. */
static void use_lock(sim_world *w, sim_actor *a) {
    lock_actor *t = self(a);
    t->lock.client = sim_client_use(w, a);
    sim_lock_make(w, &t->lock);
    for (int n = (int)sim_draw(w, 1, 6); n > 0 && !w->calm && !t->stops && !w->failed; n--) {
        bool had = acquire(w, a) == TL_OK, walks = had && hold(w, a);
        if (walks) {
            sim_tell(w, a->name, a->key, "walks away from %s", w->key[a->key].name);
            break;
        }
        t->state = RELEASING; /* some let go of a lost lock in so many words, some don't */
        if (had && (t->lock.told != TL_LOST || sim_draw(w, 0, 1)))
            (void)sim_lock_release(w, &t->lock);
        t->state = IDLE;
        sim_rest(w, sim_draw(w, 0, 2 * w->cfg.idle_ms * SIM_MS));
    }
    let_go(w, a);
    sim_client_leave(w, t->lock.client);
    t->lock.client = NULL;
}

static void live(sim_world *w, sim_actor *a) {
    lock_actor *t = self(a);
    t->lock.actor = a;
    t->lock.key = a->key;
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, 2 * w->cfg.idle_ms * SIM_MS));
        if (w->calm || !sim_phase_lets(w, a))
            continue;
        t->stops = false;
        use_lock(w, a);
    }
}

static void crash(sim_world *w, sim_actor *a) {
    (void)w;
    self(a)->state = IDLE;
    self(a)->cancellers = NULL;
    sim_lock_crash(&self(a)->lock);
}

bool sim_actor_is_idle(const sim_actor *a) {
    return !sim_lock_at(a)->client;
}

const sim_actor_kind sim_actor_lock = {
    .name = "lock",
    .size = sizeof(lock_actor),
    .live = live,
    .crash = crash,
    .stop = stop,
    .holds = sim_lock_actor_holds,
    .value = sim_lock_actor_value,
    .check = sim_lock_actor_check,
};
