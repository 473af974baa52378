/*
 * See stage.h. What must hold is asked at each place where a thread may be stopped: nobody else holds what one holds,
 * and the server knows of it; fences grow; events are told in order, and callbacks once.
 */
#include "stage.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "ground/thread.h"
#include "ground/wait.h"

#define DELAY_NS 100000
#define TTL_MS 1000
#define ATTEMPT_MS 400
#define CONNECT_MS 500

static struct {
    sim_world *w;
    const sim_play *play;
    tl_client *client[SIM_PLAY_CLIENTS];
    sim_play_lock lock[SIM_PLAY_LOCKS];
    uint64_t fence[SIM_KEYS];
    const sim_play_lock *holder[SIM_KEYS];     /* whose that was */
    const char *doing[256];                    /* by thread id: the call that it is in */
    uint8_t part[256];                         /* which of the play's threads it is; 0: none */
    sim_thread *sleeper[SIM_PLAY_THREADS + 8]; /* those that wait for a callback */
    unsigned sleepers;
    const sim_thread *dispatches[SIM_PLAY_CLIENTS];
    sim_ns began, held_up;
} stage;

/* ---- the story -------------------------------------------------------------------------------------- */

static const char *name_of_thread(const sim_thread *t, char to[8]) {
    unsigned part = stage.part[t->id];
    if (t->id == 1)
        (void)snprintf(to, 8, "M");
    else if (part)
        (void)snprintf(to, 8, "T%u", part);
    else
        (void)snprintf(to, 8, "%s%u", t->detached ? "N" : "K", t->id % 10U);
    return to;
}

static const char *name_of_mutex(const void *m) {
    for (int i = 0; i < SIM_PLAY_CLIENTS; i++) {
        const tl_client *c = stage.client[i];
        if (!c)
            continue;
        if (m == &c->mutex)
            return "client.mutex";
        if (m == &c->gate.mutex)
            return "gate.mutex";
        if (m == &c->keeper.mutex)
            return "keeper.mutex";
        if (m == &c->keeper.posts_mutex)
            return "keeper.posts_mutex";
        for (const tl_waiter *x = c->waiters; x; x = x->next)
            if (m == &x->mutex)
                return "a waiter's mutex";
    }
    return "a mutex";
}

const char *sim_stage_where(const char *what, const void *m) {
    static char text[64];
    if (!sim_the_world->telling || !sim_the_world->play)
        return what;
    (void)snprintf(text, sizeof text, "%s %s", what, name_of_mutex(m));
    return text;
}

void sim_stage_tell_switch(sim_world *w, const sim_thread *me, const char *where,
                           const sim_thread *next, sim_ns ns) {
    char mine[8], theirs[8];
    if (!next)
        stage.held_up += ns;
    if (!w->telling)
        return;
    const char *doing = stage.doing[me->id];
    char what[40] = "goes on";
    if (!next)
        (void)snprintf(what, sizeof what, "it is held up for %lld us", (long long)(ns / 1000));
    sim_say(w, name_of_thread(me, mine), SIM_ALL, "STOPS%s%s, %s: %s %s", doing ? " in " : "",
            doing ? doing : "", where, next ? name_of_thread(next, theirs) : "", what);
}

/* ---- what must hold --------------------------------------------------------------------------------- */

static bool is_held(const sim_world *w, const sim_play_lock *l) {
    if (!l->handle || l->goes)
        return false;
    int state = atomic_load(&l->handle->state);
    tl_mono deadline = {atomic_load(&l->handle->deadline_ns)};
    return (state == TL_HELD || state == TL_AT_RISK) &&
           tl__mono_before(sim_host_clock(w, &w->host[0]), deadline);
}

static void look_at_fence(sim_world *w, const sim_play_lock *l) {
    uint64_t fence = atomic_load(&l->handle->fence);
    bool same = stage.holder[l->key] == l && fence == stage.fence[l->key];
    if (fence <= stage.fence[l->key] && !same)
        sim_fail(w, SIM_ALL, "%c's fence isn't larger than that of the one before", l->name);
    stage.fence[l->key] = fence;
    stage.holder[l->key] = l;
}

static void look_at_fronts(sim_world *w, int key) {
    const sim_play_lock *front[SIM_PLAY_CLIENTS] = {NULL};
    for (int i = 0; i < SIM_PLAY_LOCKS && stage.lock[i].name; i++) {
        const sim_play_lock *l = &stage.lock[i];
        if (l->key != key || !l->handle || l->handle->gate_node.state != TL_FRONT)
            continue;
        int c = l->handle->client == stage.client[0] ? 0 : 1;
        if (front[c])
            sim_fail(w, SIM_ALL, "%c and %c are both in front", front[c]->name, l->name);
        front[c] = l;
    }
}

static void look_at_key(sim_world *w, int key) {
    const sim_play_lock *holder = NULL;
    for (int i = 0; i < SIM_PLAY_LOCKS && stage.lock[i].name; i++) {
        const sim_play_lock *l = &stage.lock[i];
        if (l->key != key || !is_held(w, l))
            continue;
        if (l->told == TL_LOST)
            sim_fail(w, SIM_ALL, "%c is held, and has been told lost", l->name);
        if (holder)
            sim_fail(w, SIM_ALL, "%c and %c are held both", holder->name, l->name);
        holder = l;
    }
    if (!holder)
        return;
    look_at_fence(w, holder);
    if (!(stage.play->traits & PLAY_SPOILT) &&
        !tl__bytes_eq(sim_key_value(w, key), tl__token_bytes(&holder->handle->token)))
        sim_fail(w, SIM_ALL, "%c is held, but the server doesn't know", holder->name);
}

void sim_stage_look(sim_world *w) {
    for (int key = 0; w->play && !w->failed && key < w->cfg.keys; key++) {
        look_at_fronts(w, key);
        look_at_key(w, key);
    }
    for (int i = 0; w->play && i < SIM_PLAY_CLIENTS; i++)
        if (stage.client[i] && stage.client[i]->node.pooled_made > TL_POOLED_MAX)
            sim_fail(w, SIM_ALL, "a client has more connections than it may");
}

void play_must(bool so, const char *format, ...) {
    char text[160];
    if (so)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    (void)sim_enter();
    sim_fail(stage.w, SIM_ALL, "%s", text);
    sim_leave();
}

bool play_held_up(void) {
    return stage.held_up >= ATTEMPT_MS * SIM_MS;
}

sim_ns play_now(void) {
    return stage.w->now;
}

/* ---- calls ------------------------------------------------------------------------------------------ */

sim_play_lock *play_lock(int i) {
    return &stage.lock[i];
}

/* Stopped before it, perhaps. */
static sim_play_lock *enter(const char *call, int i) {
    char who[8];
    sim_thread *me = sim_enter();
    stage.doing[me->id] = call;
    if (stage.w->telling)
        sim_say(stage.w, name_of_thread(me, who), SIM_ALL, "%s(%c)", call, i < 0 ? '-' : 'a' + i);
    sim_thread_may_switch(stage.w, "before it");
    sim_leave();
    return i < 0 ? NULL : &stage.lock[i];
}

static void leave(const char *call, int i, tl_err code) {
    char who[8];
    sim_thread *me = sim_enter();
    stage.doing[me->id] = NULL;
    if (stage.w->telling)
        sim_say(stage.w, name_of_thread(me, who), SIM_ALL, "%s(%c) has ended: %s", call,
                i < 0 ? '-' : 'a' + i, tl_err_name(code));
    sim_stage_look(stage.w);
    sim_leave();
}

void play_pause(const char *where) {
    (void)sim_enter();
    sim_thread_may_switch(stage.w, where);
    sim_leave();
}

void play_open(int i, bool dispatch) {
    tl_client_options o = TL_CLIENT_OPTIONS(.url = stage.play->traits & PLAY_BY_NAME
                                                       ? "redis://server"
                                                       : "redis://10.0.0.1",
                                            .service = "play", .attempt_ms = ATTEMPT_MS,
                                            .connect_ms = CONNECT_MS, .drift_ppm = 100,
                                            .dispatch = dispatch);
    tl_error err;
    (void)enter("tl_client_open", -1);
    tl_err code = tl_client_open(&o, &stage.client[i], &err);
    play_must(code == TL_OK, "a client is refused");
    if (stage.w->cfg.crowds || stage.play->traits & PLAY_BY_POOL)
        stage.client[i]->crowd = stage.play->traits & PLAY_BY_POOL ? UINT_MAX : 0;
    leave("tl_client_open", -1, code);
}

void play_close(int i) {
    tl_client *c = stage.client[i];
    unsigned idle = 0;
    for (const tl_pooled *p = c->node.pooled; p; p = p->next)
        idle++;
    play_must(idle == c->node.pooled_made, "the pool has %u connections, and counts %u", idle,
              c->node.pooled_made);
    (void)enter("tl_client_close", -1);
    stage.client[i] = NULL;
    tl_client_close(c);
    leave("tl_client_close", -1, TL_OK);
}

static void told(tl_lock *handle, const tl_lock_event *event, void *ctx) {
    sim_play_lock *l = ctx;
    int i = (int)(l - stage.lock);
    (void)enter("on_event", i);
    play_must(l->handle == handle, "%c is told of after it was freed", l->name);
    play_must(l->releasing || l->done == l->begun, "%c is told of before its end", l->name);
    bool well = event->state == TL_AT_RISK ? l->told == TL_HELD
                : event->state == TL_HELD  ? l->told == TL_AT_RISK
                                           : event->state == TL_LOST && l->told != TL_LOST;
    play_must(well, "%c is told state %d after %d", l->name, (int)event->state, (int)l->told);
    play_must((l->has || l->releasing) && atomic_load(&handle->state) != TL_FREE,
              "%c is told of, but isn't had", l->name);
    l->told = event->state;
    l->losses += event->state == TL_LOST;
    if (l->on_event)
        l->on_event(i);
    play_must(l->handle == handle, "%c is freed while it is told of", l->name);
    leave("on_event", i, TL_OK);
}

void play_make(int i, int client, int key, bool events, const tl_lock_options *options) {
    tl_lock_options o = options ? *options : TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    sim_play_lock *l = &stage.lock[i];
    const sim_key *k = &stage.w->key[key];
    tl_error err;
    *l = (sim_play_lock){.name = (char)('a' + i), .key = key};
    if (events) {
        o.on_event = told;
        o.ctx = l;
    }
    (void)enter("tl_lock_new", i);
    l->handle = tl_lock_new(stage.client[client], k->k.p, k->k.n, &o, &err);
    play_must(l->handle, "a lock is refused");
    leave("tl_lock_new", i, TL_OK);
}

/* From here on it isn't looked at; its callbacks may still come until it returns. */
void play_free(int i) {
    sim_play_lock *l = enter("tl_lock_free", i);
    tl_lock *handle = l->handle;
    l->goes = true;
    tl_lock_free(handle);
    l->handle = NULL;
    l->has = false;
    leave("tl_lock_free", i, TL_OK);
}

tl_err play_acquire(int i, int64_t wait_ms) {
    tl_error err;
    sim_play_lock *l = enter("tl_lock_acquire", i);
    l->has = true; /* from when it is had on events may be told, before the call returns */
    l->told = TL_HELD;
    tl_err code = tl_lock_acquire(l->handle, wait_ms, &err);
    l->code = code;
    l->has = code == TL_OK;
    leave("tl_lock_acquire", i, code);
    return code;
}

tl_err play_release(int i) {
    tl_error err;
    sim_play_lock *l = enter("tl_lock_release", i);
    l->code = tl_lock_release(l->handle, &err);
    l->has = false;
    leave("tl_lock_release", i, l->code);
    return l->code;
}

tl_err play_extend(int i, int64_t ttl_ms) {
    tl_error err;
    sim_play_lock *l = enter("tl_lock_extend", i);
    l->code = tl_lock_extend(l->handle, ttl_ms, &err);
    l->has = l->has && l->code != TL_EEXPIRED && l->code != TL_ETAKEN;
    leave("tl_lock_extend", i, l->code);
    return l->code;
}

void play_cancel(int i) {
    sim_play_lock *l = enter("tl_lock_cancel", i);
    tl_lock_cancel(l->handle);
    leave("tl_lock_cancel", i, TL_OK);
}

void play_alive(int i) {
    sim_play_lock *l = enter("tl_lock_alive", i);
    tl_lock_alive(l->handle);
    leave("tl_lock_alive", i, TL_OK);
}

void play_stall(int i) {
    sim_play_lock *l = enter("tl_lock_stall", i);
    tl_lock_stall(l->handle);
    leave("tl_lock_stall", i, TL_OK);
}

tl_err play_ping(int i) {
    tl_error err;
    (void)enter("tl_client_ping", -1);
    tl_err code = tl_client_ping(stage.client[i], &err);
    leave("tl_client_ping", -1, code);
    return code;
}

/* ---- calls that don't block --------------------------------------------------------------------------- */

static void wake_sleepers(void) {
    for (unsigned i = 0; i < stage.sleepers; i++)
        sim_thread_ready(stage.w, stage.sleeper[i]);
    stage.sleepers = 0;
}

static void done(tl_lock *handle, tl_err code, const tl_error *why, void *ctx) {
    sim_play_lock *l = ctx;
    int i = (int)(l - stage.lock);
    const tl_client *c = handle->client;
    (void)enter("done", i);
    play_must(l->handle == handle, "%c's end is told after it was freed", l->name);
    play_must(l->done < l->begun, "%c's end is told once too often", l->name);
    play_must((code == TL_OK) == !why, "%c's end is told without its reason", l->name);
    for (int k = 0; k < SIM_PLAY_CLIENTS; k++)
        play_must(stage.client[k] != c || c->keeper.ready < 0 ||
                      stage.dispatches[k] == stage.w->thread,
                  "%c's end is told by another thread than the one that dispatches", l->name);
    l->code = code;
    l->done++;
    l->tells = true;
    l->has = l->has && code == TL_OK;
    if (l->then)
        l->then(i);
    play_must(l->handle == handle, "%c is freed while its end is told", l->name);
    l->tells = false;
    leave("done", i, code);
    (void)sim_enter();
    wake_sleepers();
    sim_leave();
}

static tl_err begin(int i, bool release, int64_t wait_ms) {
    const char *call = release ? "tl_lock_release_async" : "tl_lock_acquire_async";
    tl_error err;
    sim_play_lock *l = enter(call, i);
    bool had = l->has;
    l->has = !release;
    l->releasing = release && had;
    if (!release)
        l->told = TL_HELD;
    l->begun++;
    tl_err code = release ? tl_lock_release_async(l->handle, done, l, &err)
                          : tl_lock_acquire_async(l->handle, wait_ms, done, l, &err);
    if (code) {
        l->begun--;
        l->has = had;
    }
    l->releasing = false;
    leave(call, i, code);
    return code;
}

tl_err play_acquire_async(int i, int64_t wait_ms) {
    return begin(i, false, wait_ms);
}

tl_err play_release_async(int i) {
    return begin(i, true, 0);
}

void play_dispatch(int i, sim_ns ns) {
    struct pollfd p = {.fd = tl_client_fd(stage.client[i]), .events = POLLIN};
    tl__wait(&p, 1, tl__mono_add_ns(tl__mono_now(), ns));
    if (!p.revents)
        return;
    (void)enter("tl_client_dispatch", -1);
    stage.dispatches[i] = stage.w->thread;
    (void)tl_client_dispatch(stage.client[i]);
    stage.dispatches[i] = NULL;
    leave("tl_client_dispatch", -1, TL_OK);
}

void play_await(int i, int client) {
    const sim_play_lock *l = &stage.lock[i];
    bool dispatch = tl_client_fd(stage.client[client]) >= 0;
    while ((l->done < l->begun || l->tells) && !stage.w->failed) {
        if (dispatch) {
            play_dispatch(client, INT64_C(3600000) * SIM_MS);
            continue;
        }
        sim_thread *me = sim_enter();
        stage.sleeper[stage.sleepers++] = me;
        (void)sim_thread_block(stage.w, SIM_NEVER);
        sim_leave();
    }
}

/* ---- time, and what befalls --------------------------------------------------------------------------- */

void play_sleep(sim_ns ns) {
    (void)sim_enter();
    sim_sleep(stage.w, ns);
    sim_leave();
}

void play_sleep_to_renewal(int i) {
    (void)sim_enter();
    const tl_lock *lock = stage.lock[i].handle;
    tl_mono until = lock->client->keeper.tasks.heap[lock->task.at].until;
    sim_ns at = sim_host_when(stage.w, &stage.w->host[0], until);
    if (at > stage.w->now && at != SIM_NEVER)
        sim_sleep(stage.w, at - stage.w->now);
    sim_leave();
}

static void befall(const char *what) {
    (void)sim_enter();
    sim_thread_may_switch(stage.w, what);
    sim_tell(stage.w, "", SIM_ALL, "%s", what);
}

void play_delete(int key) {
    befall("the key is deleted");
    const tl_bytes argv[] = {TL_LITERAL("DEL"), stage.w->key[key].k};
    sim_server_set(stage.w, 0);
    (void)fake_conn_command(stage.w->server[0].runner, argv, 2);
    sim_leave();
}

bool play_listens(int client) {
    return stage.client[client]->keeper.listeners != NULL;
}

bool play_hears_inbox(int client) {
    (void)sim_enter();
    const tl_bytes argv[] = {TL_LITERAL("PUBSUB"), TL_LITERAL("NUMSUB"),
                             tl__bytes_of(stage.client[client]->keeper.inbox.name)};
    sim_server_set(stage.w, 0);
    const tl_reply *reply = fake_conn_command(stage.w->server[0].runner, argv, 3);
    bool hears = reply->items[1].integer > 0;
    sim_leave();
    return hears;
}

void play_cut(void) {
    befall("all connections are reset");
    stage.w->calm_all_along = false; /* who loses the answer to his look looks again at once */
    for (sim_socket *s = stage.w->sockets; s; s = s->all)
        if (s->host && s->fd >= 0)
            sim_socket_reset(stage.w, s);
    sim_leave();
}

void play_lose_replies(void) {
    befall("what is on its way back is lost");
    for (sim_socket *s = stage.w->sockets; s; s = s->all)
        if (s->host && s->fd >= 0)
            s->dead_down = true;
    sim_leave();
}

void play_step_clock(sim_ns ns) {
    befall("the server's clock is set forward");
    stage.w->server[0].wall.base += ns;
    sim_leave();
}

/* ---- the run ------------------------------------------------------------------------------------------ */

void sim_stage_config(sim_config *c, const sim_play *play) {
    *c = (sim_config){.seed = 1,
                      .drift_ppm = 100,
                      .java_slack_ms = SIM_NEVER,
                      .skew_ms = SIM_NEVER,
                      .java_sleep_ms = 100,
                      .ttl_ms = TTL_MS,
                      .attempt_ms = ATTEMPT_MS,
                      .connect_ms = CONNECT_MS,
                      .delay = DELAY_NS,
                      .level = FAKE_LEVEL(7, 0, 15),
                      .hosts = 1,
                      .keys = SIM_KEYS,
                      .by_name = play->traits & PLAY_BY_NAME};
}

static unsigned count_parts(const sim_play *play) {
    unsigned n = 0;
    while (n < SIM_PLAY_PARTS && play->thread[n])
        n++;
    return n;
}

static void *act(void *ctx) {
    unsigned part = (unsigned)(uintptr_t)ctx, parts = count_parts(stage.play);
    stage.part[stage.w->thread->id] = (uint8_t)part;
    stage.play->thread[part < parts ? part - 1 : parts - 1]();
    return NULL;
}

static void tidy_up(void) {
    for (int i = 0; i < SIM_PLAY_LOCKS; i++)
        if (stage.lock[i].handle)
            play_free(i);
    for (int i = 0; i < SIM_PLAY_CLIENTS; i++)
        if (stage.client[i])
            play_close(i);
}

/* What comes of being held up, such as a request that is repeated, may take as long again. */
static void check_time(void) {
    sim_ns took = stage.w->now - stage.began, most = stage.play->within + 2 * stage.held_up;
    play_must(took <= most, "it takes %lld us of %lld", (long long)(took / 1000),
              (long long)(most / 1000));
}

static void *perform(void *ctx) {
    tl_thread thread[SIM_PLAY_THREADS];
    sim_world *w = stage.w;
    const sim_play *play = stage.play;
    unsigned n = count_parts(play) + (play->traits & PLAY_CROWD ? 64 : 0);
    (void)ctx;
    play->before();
    stage.began = w->now;
    sim_choices_on(w->choices, true);
    for (unsigned i = 0; i < n; i++)
        (void)tl__thread_start(act, (void *)(uintptr_t)(i + 1), &thread[i]);
    for (unsigned i = 0; i < n; i++)
        tl__thread_join(thread[i]);
    sim_choices_on(w->choices, false);
    check_time();
    if (play->after)
        play->after();
    tidy_up();
    return NULL;
}

void sim_stage_begin(sim_world *w) {
    memset(&stage, 0, sizeof stage);
    stage.w = w;
    stage.play = w->play;
    w->stops = 0;
    for (int i = 0; i < 2; i++)
        if (w->play->stop[i])
            w->stop[w->stops++] = w->play->stop[i];
    sim_choices_begin(w->choices);
    sim_thread_new(&w->host[0], perform, NULL)->detached = true;
}

void sim_stage_end(sim_world *w) {
    sim_choices_on(w->choices, false);
    if (!w->failed && (w->host[0].fds > 0 || sim_heap_live(w->host[0].heap) > 0))
        sim_fail(w, SIM_ALL, "the process leaves %u descriptors and %zu pieces of memory",
                 w->host[0].fds, sim_heap_live(w->host[0].heap));
}
