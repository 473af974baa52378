/*
 * Who wants to know at once when a key changes. Where the server can, it tells of changes to what
 * the keeper's connection has read (CLIENT TRACKING, from Redis 6), by way of the connection for
 * wake-ups. Where it refuses that, the keys' events are subscribed to there: they come (from 2.8) if the
 * server is configured to send them, which is for its owner to decide. Where neither comes, the regular
 * renewals and looks find out. Nothing here decides that a lock is lost.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/lock.h"
#include "stamp/stamp.h"

/* What a keeper has of it. */
typedef struct tl_watch {
    tl_keeper *keeper;
    uint32_t watched;    /* tasks and listeners with a key to watch */
    bool watches;        /* the server has been asked to tell of changes, and will */
    bool refused;        /* it will not, on these connections */
    bool events;         /* so what is watched is heard of by keyspace events, if any come */
    bool events_come;    /* some did, on this connection, of the kind that tells of a DEL */
    bool events_denied;  /* their channels may not be subscribed to */
    bool changes_armed;  /* the wake-ups hear them */
    tl_listener changes; /* of TL_TOPIC_CHANGES, while anything is watched */
} tl_watch;

static void go_by_events(tl_keeper *k);
static void leave_events(tl_keeper *k);
static void anew(tl_keeper *k);

/* What isn't armed although the connection is up has been refused. */
static void on_wake(tl_listener *listener, unsigned flags) {
    tl_keeper *k = ((tl_watch *)((char *)listener - offsetof(tl_watch, changes)))->keeper;
    if (!(flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED)))
        return;
    k->watch->changes_armed = (flags & TL_WAKE_ARMED) != 0;
    k->watch->events_denied = false;
    anew(k);
    if (!k->watch->changes_armed && tl__wakeup_up(k->first.wakeup))
        go_by_events(k);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static tl_send *ask(const tl_keeper *k, tl_send *send, const char *const *request, size_t count) {
    tl_mono now = tl__mono_now();
    *send = (tl_send){.count = 1, .by = tl__mono_add_ms(now, k->client->attempt_ms)};
    tl_command *c = &send->command[0];
    *c = (tl_command){.form = TL_ARGV};
    for (size_t i = 0; i < count; i++)
        c->argv[c->argc++] = tl__bytes_of(request[i]);
    return send;
}

static void tell_listeners(tl_keeper *k, unsigned flags) {
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->key.n > 0)
            l->on_wake(l, flags);
}

static void anew(tl_keeper *k) {
    char id[TL_INT_SIZE];
    int64_t number = k->first.wakeup ? tl__wakeup_id(k->first.wakeup) : 0;
    if (k->watch->watches)
        tell_listeners(k, TL_WAKE_UNWATCHED);
    k->watch->watches = k->watch->refused = false;
    if (k->watch->watched == 0 || !k->watch->changes_armed)
        return;
    if (number <= 0) {
        go_by_events(k);
        return;
    }
    const char *const request[] = {
        "CLIENT", "TRACKING", "ON", "REDIRECT", tl__bytes_from_int(id, number).p, "NOLOOP"};
    tl_send send;
    (void)tl__keeper_send_own(k, ask(k, &send, request, sizeof request / sizeof *request),
                              (tl_exchange){.watch = true});
}

static tl_exchange *get(tl_keeper *k, tl_bytes key, tl_exchange what) {
    static const char *const request[] = {"GET"};
    tl_send send;
    (void)ask(k, &send, request, 1);
    send.command[0].argv[send.command[0].argc++] = key;
    return tl__keeper_send_own(k, &send, what);
}

/* The one in flight may have come before the change: then once more. */
static void look_for(tl_keeper *k, tl_listener *l) {
    l->look_again = l->look != NULL;
    if (!l->look && l->key.n > 0 && k->watch->watches)
        l->look = get(k, l->key, (tl_exchange){.listener = l});
}

static void read_key(tl_keeper *k, tl_task *task) {
    task->read_again = task->reading != NULL;
    if (!task->reading)
        task->reading = get(k, task->watched, (tl_exchange){.task = task, .reads = true});
}

static void look(tl_keeper *k, tl_task *task) {
    if (task->watched.n > 0 && k->watch->watches)
        read_key(k, task);
}

static void answered(tl_keeper *k, const tl_answer *answer) {
    bool refused = answer->ok && answer->reply->type == TL_REPLY_ERROR;
    k->watch->watches = answer->ok && !refused && k->watch->changes_armed;
    if (refused)
        go_by_events(k);
    if (!k->watch->watches)
        return;
    leave_events(k);
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        look(k, k->tasks.heap[i].task);
    for (tl_listener *l = k->listeners; l; l = l->next)
        look_for(k, l);
}

/* ---- keyspace events: subscribing -------------------------------------------------------------- */

static tl_bytes prefix(const tl_keeper *k, char to[TL_TOPIC_EXTRA + 1]) {
    (void)snprintf(to, TL_TOPIC_EXTRA + 1, "__keyspace@%ld__:", (long)k->client->node.endpoint.db);
    return tl__bytes_of(to);
}

static tl_bytes topic_of(const tl_keeper *k, tl_bytes key, char to[TL_TOPIC_MAX + 1]) {
    tl_bytes before = prefix(k, to);
    memcpy(to + before.n, key.p, key.n);
    return tl__bytes(to, before.n + key.n);
}

/* n 0: it is of another kind. */
static tl_bytes key_of(const tl_keeper *k, tl_bytes topic) {
    char room[TL_TOPIC_EXTRA + 1];
    tl_bytes before = prefix(k, room);
    if (topic.n <= before.n || memcmp(topic.p, before.p, before.n) != 0)
        return (tl_bytes){0};
    return tl__bytes(topic.p + before.n, topic.n - before.n);
}

static void hear_events(tl_keeper *k, tl_bytes key, bool *hears) {
    char room[TL_TOPIC_MAX + 1];
    if (!k->watch->events || k->watch->events_denied || *hears || key.n == 0)
        return;
    *hears = true; /* before: it may be told at once */
    if (tl__wakeup_listen(k->first.wakeup, topic_of(k, key, room), tl__mono_now()))
        *hears = false;
    tl__keeper_wake(k);
}

static void ignore_events(tl_keeper *k, tl_bytes key, bool *hears) {
    char room[TL_TOPIC_MAX + 1];
    if (!*hears)
        return;
    *hears = false;
    tl__wakeup_forget(k->first.wakeup, topic_of(k, key, room), tl__mono_now());
    tl__keeper_wake(k);
}

static void go_by_events(tl_keeper *k) {
    k->watch->refused = k->watch->events = true;
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        hear_events(k, k->tasks.heap[i].task->watched, &k->tasks.heap[i].task->hears);
    for (tl_listener *l = k->listeners; l; l = l->next)
        hear_events(k, l->key, &l->hears);
}

static void leave_events(tl_keeper *k) {
    k->watch->events = false;
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        ignore_events(k, k->tasks.heap[i].task->watched, &k->tasks.heap[i].task->hears);
    for (tl_listener *l = k->listeners; l; l = l->next) {
        ignore_events(k, l->key, &l->hears);
        l->sure = false;
    }
}

/* ---- what is watched ------------------------------------------------------------------------- */

/* Once begun it goes on: to end it with each lock that is held for a moment would cost more. */
static void begin(tl_keeper *k) {
    if (k->watch->watched++ > 0 || k->watch->watches || k->watch->refused)
        return;
    k->watch->changes.on_wake = on_wake;
    if (k->watch->changes.topic.n > 0)
        anew(k);
    else
        tl__keeper_listen_in(k, &k->watch->changes, TL_TOPIC_CHANGES, (tl_bytes){0}, (tl_bytes){0},
                             (tl_bytes){0}, false);
}

static void watch_key(tl_keeper *k, tl_bytes key, bool *hears) {
    begin(k);
    hear_events(k, key, hears);
}

static void unwatch(tl_keeper *k, tl_bytes key, bool *hears) {
    k->watch->watched--;
    ignore_events(k, key, hears);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void post(tl_place *place, unsigned flags) {
    tl_lock *lock = (tl_lock *)((char *)place - offsetof(tl_lock, place));
    if (lock->task.at != 0)
        tl__keeper_post(&lock->client->keeper, &lock->task, flags);
}

/* With the keeper's and the gate's mutex held. */
static void see(tl_place *place) {
    post(place, TL_WAKE_WOKEN);
}

/* The same. It may be ourselves who have changed it: it is read first. */
static void suspect(tl_place *place) {
    post(place, TL_WAKE_UNWATCHED);
}

/* Those who wait are told when the key has been read again, or the next change could go unseen. */
static void on_changed(tl_keeper *k, tl_bytes key) {
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->key.n > 0 && (key.n == 0 || tl__bytes_eq(l->key, key)))
            look_for(k, l);
    if (key.n > 0)
        tl__gate_show(&k->client->gate, key, see);
    else
        k->rejudge = true;
}

/* Whoever is sure polls no more. Which kinds of events come is not known before they do: so nobody is until
 * one has come of the kind that tells of a DEL. */
static void assure(const tl_keeper *k, tl_listener *l, bool armed) {
    bool before = l->sure;
    l->sure = armed && k->watch->events_come;
    if (l->sure != before)
        l->on_wake(l, l->sure ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
}

static void on_events(tl_keeper *k, tl_bytes topic, bool armed) {
    tl_bytes key = k->watch->events ? key_of(k, topic) : (tl_bytes){0};
    if (key.n == 0)
        return;
    bool up = tl__wakeup_up(k->first.wakeup);
    k->watch->events_denied = !armed && up;
    k->watch->events_come = k->watch->events_come && up;
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->hears && tl__bytes_eq(l->key, key))
            assure(k, l, armed);
    if (armed) /* it may have changed before */
        tl__gate_show(&k->client->gate, key, suspect);
}

static void on_event(tl_keeper *k, tl_bytes topic, tl_bytes what) {
    tl_bytes key = k->watch->events ? key_of(k, topic) : (tl_bytes){0};
    bool expire = tl__bytes_eq(what, TL_LITERAL("expire"));      /* it ends at another time */
    if (key.n == 0 || tl__bytes_eq(what, TL_LITERAL("keymiss"))) /* which looking brings about */
        return;
    k->watch->events_come = k->watch->events_come || expire ||
                            tl__bytes_eq(what, TL_LITERAL("del"));
    if (expire)
        return;
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->hears && tl__bytes_eq(l->key, key)) {
            l->sure = k->watch->events_come;
            l->on_wake(l, l->sure ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
        }
    tl__gate_show(&k->client->gate, key, suspect);
}

/* ---- for the keeper -------------------------------------------------------------------------- */

/* The server will tell of the next change, unless it has told of one meanwhile. */
static void looked(tl_keeper *k, tl_listener *listener, bool ok) {
    listener->look = NULL;
    if (listener->look_again)
        look_for(k, listener);
    listener->on_wake(listener, ok && k->watch->watches ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
}

static tl_watch *begin_watching(tl_keeper *k) {
    tl_watch *w = calloc(1, sizeof *w);
    if (w)
        w->keeper = k;
    return w;
}

static void end_watching(tl_watch *w) {
    free(w);
}

const tl_watching tl__watching = {.begin = begin_watching,
                                  .end = end_watching,
                                  .watch = watch_key,
                                  .unwatch = unwatch,
                                  .read = read_key,
                                  .look = look,
                                  .look_for = look_for,
                                  .looked = looked,
                                  .anew = anew,
                                  .answered = answered,
                                  .changed = on_changed,
                                  .event = on_event,
                                  .events = on_events};
