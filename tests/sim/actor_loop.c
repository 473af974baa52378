/*
 * A program with an event loop: one thread, a client with `dispatch`, and one lock at a time by the calls
 * that don't block. It may cancel, free what is in flight, and be late with its loop.
 */
#include "world.h"

#include "client/client.h"
#include "ground/wait.h"

typedef struct {
    sim_lock lock; /* first: sim_lock_at */
    unsigned calls;
    tl_err code;
    bool stops;
} loop_actor;

_Static_assert(sizeof(loop_actor) <= SIM_ACTOR_STATE, "fits where actors live");

static loop_actor *self(const sim_actor *a) {
    return (loop_actor *)(uintptr_t)a->state;
}

static void done(tl_lock *handle, tl_err code, const tl_error *why, void *ctx) {
    sim_actor *a = ctx;
    loop_actor *t = self(a);
    (void)sim_enter();
    if (handle != t->lock.handle || t->calls++ > 0)
        sim_fail(a->w, a->key, "%s is called back once too often", a->name);
    if ((code == TL_OK) != (why == NULL))
        sim_fail(a->w, a->key, "%s is told %s and %s", a->name, tl_err_name(code),
                 why ? "why" : "not why");
    t->code = code;
    if (why)
        sim_check_said(a->w, &t->lock, code, why->message);
    if (t->lock.handle)
        sim_lock_end(a->w, &t->lock, code);
    sim_leave();
}

/* One turn of the loop, until something is to be told or that has passed. */
static void turn(sim_world *w, sim_actor *a, sim_ns until) {
    const tl_client *handle = self(a)->lock.client->handle;
    struct pollfd p = {.fd = tl_client_fd(handle), .events = POLLIN};
    sim_ns left = until > w->now ? until - w->now : 0;
    sim_leave();
    tl__wait(&p, 1, tl__mono_add_ns(tl__mono_now(), left));
    if (p.revents)
        (void)tl_client_dispatch(self(a)->lock.client->handle);
    (void)sim_enter();
    w->stats.lent += p.revents && handle->keeper.lent;
}

/* For so long, or until what was begun has ended. */
static void loop(sim_world *w, sim_actor *a, sim_ns ns, bool for_end) {
    sim_ns until = w->now + ns;
    while (w->now < until && !w->failed && !(for_end && self(a)->calls > 0)) {
        if (sim_draw(w, 0, 19) == 0)
            sim_sleep(w, sim_draw_part(w, 0, 10)); /* it has other work */
        turn(w, a, until);
    }
}

/* ---- acquiring and releasing ------------------------------------------------------------------------- */

static bool begin(sim_world *w, sim_actor *a, sim_op op, int64_t wait_ms) {
    loop_actor *t = self(a);
    tl_error err;
    tl_lock *handle = t->lock.handle;
    int64_t limit = op == SIM_RELEASE ? w->cfg.attempt_ms
                    : wait_ms == 0    ? w->cfg.connect_ms + w->cfg.attempt_ms
                                      : wait_ms;
    int64_t rest_ms = op == SIM_RELEASE ? sim_lock_draw_rest(w, &t->lock) : 0;
    t->calls = 0;
    sim_lock_begin(w, &t->lock, op, limit);
    t->lock.loops = true;
    sim_leave();
    tl_err code = op == SIM_ACQUIRE ? tl_lock_acquire_async(handle, wait_ms, done, a, &err)
                  : rest_ms > 0     ? tl_lock_rest_async(handle, rest_ms, done, a, &err)
                                    : tl_lock_release_async(handle, done, a, &err);
    (void)sim_enter();
    w->stats.begun++;
    if (code == TL_OK)
        return true;
    sim_fail(w, a->key, "%s's call is refused: %s", a->name, err.message);
    t->lock.busy = false;
    return false;
}

static void cancel(sim_world *w, sim_actor *a) {
    sim_tell(w, a->name, a->key, "cancels");
    sim_leave();
    tl_lock_cancel(self(a)->lock.handle);
    (void)sim_enter();
    loop(w, a, SIM_NEVER / 2, true);
}

/* True: it is in flight no more, and its handle is there. */
static bool see_to_its_end(sim_world *w, sim_actor *a, bool for_ever) {
    loop_actor *t = self(a);
    switch (sim_draw(w, 0, 11)) {
    case 0:
        loop(w, a, sim_draw_part(w, 0, 100), true);
        if (t->calls == 0)
            cancel(w, a);
        return true;
    case 1:
        loop(w, a, sim_draw_part(w, 0, 60), true);
        if (t->calls > 0)
            return true;
        sim_sleep(w, sim_draw_part(w, 0, sim_draw(w, 0, 30))); /* it may have ended, untold */
        w->stats.freed++;
        sim_tell(w, a->name, a->key, "frees what is in flight");
        sim_lock_drop(w, &t->lock);
        return false;
    default: break;
    }
    sim_ns left = w->cfg.until > w->now ? w->cfg.until - w->now : SIM_MS;
    loop(w, a, for_ever ? left : SIM_NEVER / 2, true);
    if (t->calls == 0)
        cancel(w, a);
    return true;
}

static int64_t draw_wait_ms(sim_world *w) {
    static const int64_t most[] = {0, 1, 10, 10};
    int64_t n = most[sim_draw(w, 0, 3)];
    return sim_draw(w, 0, 4) ? sim_draw(w, n > 0, n * w->cfg.ttl_ms) : TL_FOREVER;
}

/* False: its handle has gone. */
static bool use_once(sim_world *w, sim_actor *a) {
    loop_actor *t = self(a);
    int64_t wait_ms = draw_wait_ms(w);
    if (!begin(w, a, SIM_ACQUIRE, wait_ms) || !see_to_its_end(w, a, wait_ms == TL_FOREVER))
        return false;
    if (t->code)
        return true;
    loop(w, a, sim_draw(w, 0, 2 * w->cfg.hold_ms * SIM_MS), false);
    if (sim_draw(w, 0, 29) == 0)
        return false; /* walks away */
    if (t->lock.told == TL_LOST && sim_draw(w, 0, 1))
        return true;
    return begin(w, a, SIM_RELEASE, 0) && see_to_its_end(w, a, false);
}

static void use_lock(sim_world *w, sim_actor *a) {
    loop_actor *t = self(a);
    t->lock.client = sim_client_use(w, a);
    sim_lock_make(w, &t->lock);
    for (int n = (int)sim_draw(w, 1, 6); n > 0 && !w->calm && !t->stops && !w->failed; n--) {
        if (!use_once(w, a))
            break;
        loop(w, a, sim_draw(w, 0, w->calm ? 0 : 2 * w->cfg.idle_ms * SIM_MS), false);
    }
    sim_lock_drop(w, &t->lock);
    sim_client_leave(w, t->lock.client);
    t->lock.client = NULL;
}

static void live(sim_world *w, sim_actor *a) {
    loop_actor *t = self(a);
    t->lock.actor = a;
    t->lock.key = a->key;
    while (!w->calm && !w->failed) {
        sim_rest(w, sim_draw(w, 0, 2 * w->cfg.idle_ms * SIM_MS));
        t->stops = false;
        if (!w->calm && sim_phase_lets(w, a))
            use_lock(w, a);
    }
}

static void crash(sim_world *w, sim_actor *a) {
    (void)w;
    sim_lock_crash(&self(a)->lock);
}

static void stop(sim_world *w, sim_actor *a) {
    (void)w;
    self(a)->stops = true;
}

const sim_actor_kind sim_actor_loop = {.name = "loop",
                                       .size = sizeof(loop_actor),
                                       .live = live,
                                       .crash = crash,
                                       .holds = sim_lock_actor_holds,
                                       .value = sim_lock_actor_value,
                                       .stop = stop,
                                       .check = sim_lock_actor_check};
