/*
 * src/ground/thread.h in the simulated world: threads are fibers, of which one runs at a time until it waits or
 * lets others go first. Which one is next, who is woken, who gets a mutex, is drawn from the seed, or tried in all ways.
 * True time stands still while anybody is ready.
 */
#include "world.h"

#include <errno.h>
#include <stdlib.h>

#include "choices.h"
#include "ground/cancel.h"
#include "ground/thread.h"
#include "stage.h"

#define YIELD_NS 12500 /* a turn of one who looks again and again */

/** What is in a tl_mutex and a tl_cond here. */
typedef struct {
    sim_thread *owner, *first;
} mutex;
typedef struct {
    sim_thread *first;
} cond;

_Static_assert(sizeof(mutex) <= sizeof(tl_mutex) && sizeof(cond) <= sizeof(tl_cond), "fits");

/* ---- entering and leaving ------------------------------------------------------------------------ */

sim_thread *sim_enter(void) {
    (void)sim_heap_use(NULL);
    return sim_the_world->thread;
}

void sim_leave(void) {
    (void)sim_heap_use(sim_the_world->thread->host->heap);
}

/* ---- who runs ------------------------------------------------------------------------------------ */

unsigned sim_choose(sim_world *w, unsigned ways) {
    if (ways < 2)
        return 0;
    return w->choices ? sim_choices_next(w->choices, ways)
                      : (unsigned)(sim_random(&w->random) % ways);
}

static void append_ready(sim_world *w, sim_thread *t) {
    if (w->ready_count == w->ready_room) {
        w->ready_room = w->ready_room ? 2 * w->ready_room : 64;
        w->ready = realloc(w->ready, w->ready_room * sizeof(sim_thread *));
        if (!w->ready)
            abort();
    }
    t->state = SIM_READY;
    w->ready[w->ready_count++] = t;
}

static void released(sim_world *w, void *who, uint32_t life) {
    sim_thread *t = who;
    if (t->life == life && t->state == SIM_HELD_UP)
        append_ready(w, t);
}

static void hold_up(sim_world *w, sim_thread *t, sim_ns until) {
    t->state = SIM_HELD_UP;
    sim_put(w, until, SIM_RANK_RESUME, released, t, t->life);
}

/* The system gives the processor to others first, for long. */
static bool is_starved(sim_world *w, sim_thread *t) {
    if (!sim_roll(w, SIM_STARVE))
        return false;
    sim_ns until = w->now + sim_draw_part(w, 0, sim_draw(w, 0, 7) ? 5 : 120);
    w->stats.starved++;
    if (t->host->stalled < until)
        t->host->stalled = until;
    hold_up(w, t, until);
    return true;
}

void sim_thread_ready(sim_world *w, sim_thread *t) {
    if (t->state != SIM_WAITS)
        return;
    t->alarm.at = SIM_NEVER;
    if (!is_starved(w, t))
        append_ready(w, t);
}

static void to_main(sim_world *w, sim_thread *me) {
    w->thread = NULL;
    fiber_switch(&me->fiber, &w->main);
}

/* Of those that are tried in all ways the one that has waited longest is the usual one to go on. */
static void take_ready(sim_world *w, unsigned i) {
    w->ready_count--;
    if (w->choices)
        memmove(w->ready + i, w->ready + i + 1, (w->ready_count - i) * sizeof *w->ready);
    else
        w->ready[i] = w->ready[w->ready_count];
}

void sim_threads_run(sim_world *w) {
    unsigned i = w->next ? w->next - 1 : sim_choose(w, w->ready_count);
    w->next = 0;
    sim_thread *t = w->ready[i];
    take_ready(w, i);
    if (w->now < t->host->paused_until) {
        hold_up(w, t, t->host->paused_until);
        return;
    }
    sim_mark(w, (uint64_t)t->host->id << 8 | t->id);
    w->stats.switches++;
    t->state = SIM_RUNS;
    w->thread = t;
    fiber_switch(&w->main, &t->fiber);
    (void)sim_heap_use(NULL);
}

/* It goes on; or one of those that are ready does; or it is held up, for one of a few times. */
static void switch_as_chosen(sim_world *w, sim_thread *me, const char *where) {
    unsigned others = w->ready_count;
    sim_stage_look(w);
    unsigned way = sim_choose(w, 1 + others + w->stops);
    if (way == 0)
        return;
    if (way <= others) {
        sim_stage_tell_switch(w, me, where, w->ready[way - 1], 0);
        w->next = way;
        append_ready(w, me);
    } else {
        sim_ns ns = w->stop[way - 1 - others];
        sim_stage_tell_switch(w, me, where, NULL, ns);
        me->host->stalled = w->now + ns;
        hold_up(w, me, w->now + ns);
    }
    to_main(w, me);
}

void sim_thread_may_switch(sim_world *w, const char *where) {
    sim_thread *me = w->thread;
    if (w->mark == 0)
        return; /* the only one of a forked child */
    if (w->choices) {
        switch_as_chosen(w, me, where);
    } else if (sim_chance(&w->random, w->cfg.switches)) {
        append_ready(w, me);
        to_main(w, me);
    }
}

bool sim_thread_block(sim_world *w, sim_ns until) {
    sim_thread *me = w->thread;
    sim_forked_must_not(w);
    extern void sim__thread_alarmed(sim_world * world, void *who, uint32_t tag);
    me->state = SIM_WAITS;
    me->woken = false;
    if (until != SIM_NEVER)
        sim_alarm_set(&w->queue, &me->alarm, until, SIM_RANK_TIMER, sim__thread_alarmed, me);
    to_main(w, me);
    me->waits_for = NULL;
    return w->now >= until;
}

void sim__thread_alarmed(sim_world *w, void *who, uint32_t tag) {
    sim_thread *t = who;
    (void)tag;
    if (sim_alarm_due(&w->queue, &t->alarm, w->now, SIM_RANK_TIMER, sim__thread_alarmed, who))
        sim_thread_ready(w, t);
}

/* ---- life ---------------------------------------------------------------------------------------- */

static void unlist(sim_thread *t) {
    sim_thread **at = &t->host->threads;
    while (*at != t)
        at = &(*at)->all;
    *at = t->all;
    t->host->thread_count--;
}

static void give_back(sim_world *w, sim_thread *t) {
    unlist(t);
    t->life++;
    t->alarm.at = SIM_NEVER;
    t->state = SIM_SPARE;
    t->next = w->spare_thread;
    w->spare_thread = t;
}

static void wake_all_who_wait_for(sim_world *w, const sim_host *h, const void *what) {
    for (sim_thread *t = h->threads; t; t = t->all)
        if (t->waits_for == what)
            sim_thread_ready(w, t);
}

static void run_thread(void) {
    sim_thread *me = sim_the_world->thread;
    sim_leave();
    (void)me->work(me->ctx);
    (void)sim_enter();
    sim_world *w = sim_the_world;
    if (me->held > 0)
        sim_fail(w, SIM_ALL, "a thread of host %c ends with a mutex", me->host->name);
    me->state = SIM_OVER;
    sim_host *h = me->host;
    wake_all_who_wait_for(w, h, me);
    if (me->detached)
        give_back(w, me);
    if (!h->threads)
        sim_check_left(w, h);
    to_main(w, me);
    abort();
}

sim_thread *sim_thread_new(sim_host *host, void *(*work)(void *ctx), void *ctx) {
    sim_world *w = host->w;
    sim_thread *t = w->spare_thread;
    if (t) {
        w->spare_thread = t->next;
    } else {
        t = sim_get(w, sizeof *t);
        t->alarm = SIM_ALARM;
        t->fiber = fiber_spare();
    }
    t->host = host;
    t->work = work;
    t->ctx = ctx;
    t->waits_for = NULL;
    t->fds = NULL;
    t->fd_count = t->held = 0;
    t->detached = t->woken = false;
    t->lease = (sim_lease){0};
    t->tool = NULL;
    t->id = (uint8_t)++host->threads_made;
    t->all = host->threads;
    host->threads = t;
    host->thread_count++;
    fiber_begin(&t->fiber, run_thread);
    append_ready(w, t);
    return t;
}

void sim_threads_kill(sim_world *w, sim_host *host) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < w->ready_count; i++)
        if (w->ready[i]->host != host)
            w->ready[n++] = w->ready[i];
    w->ready_count = n;
    while (host->threads)
        give_back(w, host->threads);
}

void sim_threads_reset(sim_world *w) {
    w->ready_count = w->next = 0;
    w->thread = NULL;
    w->resting = 0;
    fibers_reset();
}

/* ---- src/ground/thread.h: threads ------------------------------------------------------------------ */

int tl__thread_start(void *(*work)(void *), void *ctx, tl_thread *ret_thread) {
    sim_thread *me = sim_enter();
    sim_thread *t = sim_thread_new(me->host, work, ctx);
    t->detached = !ret_thread;
    if (ret_thread)
        ret_thread->system = (pthread_t)(uintptr_t)t;
    sim_thread_may_switch(sim_the_world, "has started a thread");
    sim_leave();
    return 0;
}

void tl__thread_join(tl_thread thread) {
    sim_thread *me = sim_enter(), *t = (sim_thread *)(uintptr_t)thread.system;
    while (t->state != SIM_OVER) {
        me->waits_for = t;
        (void)sim_thread_block(sim_the_world, SIM_NEVER);
    }
    give_back(sim_the_world, t);
    sim_leave();
}

void tl__thread_detach(tl_thread thread) {
    sim_thread *t = (sim_thread *)(uintptr_t)thread.system;
    (void)sim_enter();
    if (t->state == SIM_OVER)
        give_back(sim_the_world, t);
    else
        t->detached = true;
    sim_leave();
}

tl_thread tl__thread_self(void) {
    return (tl_thread){(pthread_t)(uintptr_t)sim_the_world->thread};
}

bool tl__thread_is_self(tl_thread thread) {
    return (sim_thread *)(uintptr_t)thread.system == sim_the_world->thread;
}

void tl__thread_yield(void) {
    (void)sim_enter();
    (void)sim_thread_block(sim_the_world, sim_the_world->now + YIELD_NS);
    sim_leave();
}

unsigned tl__thread_count(void) {
    unsigned n = 0;
    for (sim_thread *t = sim_the_world->thread->host->threads; t; t = t->all)
        n += t->state != SIM_OVER;
    return n;
}

/* ---- mutexes --------------------------------------------------------------------------------------- */

static void push(sim_thread **list, sim_thread *t) {
    t->next = NULL;
    while (*list)
        list = &(*list)->next;
    *list = t;
}

static void take_out(sim_thread **list, sim_thread *t) {
    while (*list && *list != t)
        list = &(*list)->next;
    if (*list)
        *list = t->next;
}

static sim_thread *any_of(sim_world *w, sim_thread *list) {
    unsigned n = 0;
    for (sim_thread *t = list; t; t = t->next)
        n++;
    for (unsigned i = sim_choose(w, n); i > 0; i--)
        list = list->next;
    return list;
}

void tl__mutex_init(tl_mutex *m) {
    memset(m, 0, sizeof *m);
}

void tl__mutex_end(tl_mutex *m) {
    const mutex *x = (const mutex *)m;
    if (x->owner || x->first)
        sim_fail(sim_the_world, SIM_ALL, "a mutex ends while it is in use");
}

static void lock(sim_world *w, sim_thread *me, mutex *m) {
    if (m->owner == me)
        sim_fail(w, SIM_ALL, "a thread of host %c locks a mutex twice", me->host->name);
    while (m->owner) {
        push(&m->first, me);
        me->waits_for = m;
        (void)sim_thread_block(w, SIM_NEVER);
    }
    m->owner = me;
    me->held++;
}

static void unlock(sim_world *w, sim_thread *me, mutex *m) {
    if (m->owner != me)
        sim_fail(w, SIM_ALL, "a thread of host %c unlocks a mutex that it hasn't locked",
                 me->host->name);
    m->owner = NULL;
    me->held--;
    if (!m->first)
        return;
    sim_thread *next = any_of(w, m->first);
    take_out(&m->first, next);
    sim_thread_ready(w, next);
}

void tl__mutex_lock(tl_mutex *m) {
    sim_thread *me = sim_enter();
    sim_thread_may_switch(sim_the_world, sim_stage_where("before it locks", m));
    lock(sim_the_world, me, (mutex *)m);
    sim_leave();
}

bool tl__mutex_try(tl_mutex *m) {
    sim_thread *me = sim_enter();
    sim_thread_may_switch(sim_the_world, sim_stage_where("before it tries to lock", m));
    bool free = !((mutex *)m)->owner;
    if (free)
        lock(sim_the_world, me, (mutex *)m);
    sim_leave();
    return free;
}

void tl__mutex_unlock(tl_mutex *m) {
    sim_thread *me = sim_enter();
    unlock(sim_the_world, me, (mutex *)m);
    sim_thread_may_switch(sim_the_world, sim_stage_where("having unlocked", m));
    sim_leave();
}

/* ---- conditions ------------------------------------------------------------------------------------ */

void tl__cond_init(tl_cond *c) {
    memset(c, 0, sizeof *c);
}

void tl__cond_end(tl_cond *c) {
    if (((const cond *)c)->first)
        sim_fail(sim_the_world, SIM_ALL, "a condition ends while somebody waits for it");
}

static bool wait_until(tl_cond *c, tl_mutex *m, sim_ns until) {
    sim_thread *me = sim_enter();
    sim_world *w = sim_the_world;
    cond *x = (cond *)c;
    if (me->held > 1)
        sim_fail(w, SIM_ALL, "a thread of host %c waits with a mutex", me->host->name);
    push(&x->first, me);
    unlock(w, me, (mutex *)m);
    me->waits_for = x;
    bool over = sim_thread_block(w, until);
    take_out(&x->first, me);
    lock(w, me, (mutex *)m);
    sim_leave();
    return over;
}

void tl__cond_wait(tl_cond *c, tl_mutex *m) {
    (void)wait_until(c, m, SIM_NEVER);
}

bool tl__cond_wait_by(tl_cond *c, tl_mutex *m, tl_mono by) {
    sim_thread *me = sim_the_world->thread;
    if (!tl__mono_before(sim_host_clock(sim_the_world, me->host), by))
        return false;
    (void)wait_until(c, m, sim_host_when(sim_the_world, me->host, by));
    return true;
}

void tl__cond_wake(tl_cond *c) {
    cond *x = (cond *)c;
    (void)sim_enter();
    if (x->first) {
        sim_thread *t = any_of(sim_the_world, x->first);
        take_out(&x->first, t);
        sim_thread_ready(sim_the_world, t);
    }
    sim_leave();
}

void tl__cond_wake_all(tl_cond *c) {
    cond *x = (cond *)c;
    (void)sim_enter();
    while (x->first) {
        sim_thread *t = x->first;
        x->first = t->next;
        sim_thread_ready(sim_the_world, t);
    }
    sim_leave();
}

/* ---- cancelling ------------------------------------------------------------------------------------ */

int tl__cancel_off(void) {
    return 0; /* nobody is cancelled here */
}

void tl__cancel_back(const int *was) {
    (void)was;
}

void tl__cancel_guard(void (*work)(void *ctx), void (*undo)(void *ctx), void *ctx) {
    (void)undo;
    work(ctx);
}
