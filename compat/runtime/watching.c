/*
 * Notifies holders and waiters at once when a key changes. From Redis 6 on the server reports
 * changes of the keys that the keeper's connection has read (CLIENT TRACKING), over the connection
 * for wake-ups. Where the server refuses that, the wake-up connection subscribes to the keys'
 * keyspace events. These come (from 2.8) only if the server's owner has configured them. Where
 * neither comes, the regular renewals and polls notice the change. Nothing here decides that a lock
 * is lost.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/lock.h"
#include "stamp/stamp.h"

/* The state of watching, one for each keeper. */
typedef struct tl_watch {
    tl_keeper *keeper;
    uint32_t watched;    /* tasks and listeners with a key to watch */
    bool watches;        /* tracking is on: the server reports changes */
    bool refused;        /* the server refused tracking on these connections */
    bool events;         /* keyspace events are used instead, if any come */
    bool events_come;    /* an event of DEL's class came on this connection */
    bool events_denied;  /* the server denied a subscription to them */
    bool changes_armed;  /* the wake-up connection receives tracking messages */
    tl_listener changes; /* listens to TL_TOPIC_CHANGES, while any key is watched */
} tl_watch;

static void go_by_events(tl_keeper *keeper);
static void leave_events(tl_keeper *keeper);
static void anew(tl_keeper *keeper);

/* If the connection is up but the topic isn't armed, the server has refused it. */
static void on_wake(tl_listener *listener, unsigned flags) {
    tl_keeper *keeper = ((tl_watch *)((char *)listener - offsetof(tl_watch, changes)))->keeper;
    if (!(flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED)))
        return;
    keeper->watch->changes_armed = (flags & TL_WAKE_ARMED) != 0;
    keeper->watch->events_denied = false;
    anew(keeper);
    if (!keeper->watch->changes_armed && tl__wakeup_up(keeper->first.wakeup))
        go_by_events(keeper);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static tl_send *ask(const tl_keeper *keeper, tl_send *send, const char *const *request,
                    size_t count) {
    tl_mono now = tl__mono_now();
    *send = (tl_send){.count = 1, .by = tl__mono_add_ms(now, keeper->client->attempt_ms)};
    tl_command *command = &send->command[0];
    *command = (tl_command){.form = TL_ARGV};
    for (size_t i = 0; i < count; i++)
        command->argv[command->argc++] = tl__bytes_of(request[i]);
    return send;
}

static void tell_listeners(tl_keeper *keeper, unsigned flags) {
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next)
        if (listener->key.n > 0)
            listener->on_wake(listener, flags);
}

static void anew(tl_keeper *keeper) {
    char id[TL_INT_SIZE];
    int64_t number = keeper->first.wakeup ? tl__wakeup_id(keeper->first.wakeup) : 0;
    if (keeper->watch->watches)
        tell_listeners(keeper, TL_WAKE_UNWATCHED);
    keeper->watch->watches = keeper->watch->refused = false;
    if (keeper->watch->watched == 0 || !keeper->watch->changes_armed)
        return;
    if (number <= 0) {
        go_by_events(keeper);
        return;
    }
    const char *const request[] = {
        "CLIENT", "TRACKING", "ON", "REDIRECT", tl__bytes_from_int(id, number).p, "NOLOOP"};
    tl_send send;
    (void)tl__keeper_send_own(keeper, ask(keeper, &send, request, sizeof request / sizeof *request),
                              (tl_exchange){.watch = true});
}

static tl_exchange *get(tl_keeper *keeper, tl_bytes key, tl_exchange what) {
    static const char *const request[] = {"GET"};
    tl_send send;
    (void)ask(keeper, &send, request, 1);
    send.command[0].argv[send.command[0].argc++] = key;
    return tl__keeper_send_own(keeper, &send, what);
}

/* Reads a listener's key. The read in flight may have come before the change: then the key is read
 * once more. */
static void look_for(tl_keeper *keeper, tl_listener *listener) {
    listener->look_again = listener->look != NULL;
    if (!listener->look && listener->key.n > 0 && keeper->watch->watches)
        listener->look = get(keeper, listener->key, (tl_exchange){.listener = listener});
}

static void read_key(tl_keeper *keeper, tl_task *task) {
    task->read_again = task->reading != NULL;
    if (!task->reading)
        task->reading = get(keeper, task->watched, (tl_exchange){.task = task, .reads = true});
}

static void look(tl_keeper *keeper, tl_task *task) {
    if (task->watched.n > 0 && keeper->watch->watches)
        read_key(keeper, task);
}

static void answered(tl_keeper *keeper, const tl_answer *answer) {
    bool refused = answer->ok && answer->reply->type == TL_REPLY_ERROR;
    keeper->watch->watches = answer->ok && !refused && keeper->watch->changes_armed;
    if (refused)
        go_by_events(keeper);
    if (!keeper->watch->watches)
        return;
    leave_events(keeper);
    for (uint32_t i = 1; i <= keeper->tasks.count; i++)
        look(keeper, keeper->tasks.heap[i].task);
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next)
        look_for(keeper, listener);
}

/* ---- keyspace events: subscribing -------------------------------------------------------------- */

static tl_bytes prefix(const tl_keeper *keeper, char to[TL_TOPIC_EXTRA + 1]) {
    (void)snprintf(to, TL_TOPIC_EXTRA + 1,
                   "__keyspace@%ld__:", (long)keeper->client->node.endpoint.db);
    return tl__bytes_of(to);
}

static tl_bytes topic_of(const tl_keeper *keeper, tl_bytes key, char to[TL_TOPIC_MAX + 1]) {
    tl_bytes before = prefix(keeper, to);
    memcpy(to + before.n, key.p, key.n);
    return tl__bytes(to, before.n + key.n);
}

/* The key of a keyspace topic; n 0: another kind of topic. */
static tl_bytes key_of(const tl_keeper *keeper, tl_bytes topic) {
    char room[TL_TOPIC_EXTRA + 1];
    tl_bytes before = prefix(keeper, room);
    if (topic.n <= before.n || memcmp(topic.p, before.p, before.n) != 0)
        return (tl_bytes){0};
    return tl__bytes(topic.p + before.n, topic.n - before.n);
}

static void hear_events(tl_keeper *keeper, tl_bytes key, bool *hears) {
    char room[TL_TOPIC_MAX + 1];
    if (!keeper->watch->events || keeper->watch->events_denied || *hears || key.n == 0)
        return;
    *hears = true; /* set first: the listener may be notified at once */
    if (tl__wakeup_listen(keeper->first.wakeup, topic_of(keeper, key, room), tl__mono_now()))
        *hears = false;
    tl__keeper_wake(keeper);
}

static void ignore_events(tl_keeper *keeper, tl_bytes key, bool *hears) {
    char room[TL_TOPIC_MAX + 1];
    if (!*hears)
        return;
    *hears = false;
    tl__wakeup_forget(keeper->first.wakeup, topic_of(keeper, key, room), tl__mono_now());
    tl__keeper_wake(keeper);
}

static void go_by_events(tl_keeper *keeper) {
    keeper->watch->refused = keeper->watch->events = true;
    for (uint32_t i = 1; i <= keeper->tasks.count; i++)
        hear_events(keeper, keeper->tasks.heap[i].task->watched,
                    &keeper->tasks.heap[i].task->hears);
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next)
        hear_events(keeper, listener->key, &listener->hears);
}

static void leave_events(tl_keeper *keeper) {
    keeper->watch->events = false;
    for (uint32_t i = 1; i <= keeper->tasks.count; i++)
        ignore_events(keeper, keeper->tasks.heap[i].task->watched,
                      &keeper->tasks.heap[i].task->hears);
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next) {
        ignore_events(keeper, listener->key, &listener->hears);
        listener->sure = false;
    }
}

/* ---- what is watched ------------------------------------------------------------------------- */

/* Once begun, tracking stays on: ending it after each short hold would cost more. */
static void begin(tl_keeper *keeper) {
    if (keeper->watch->watched++ > 0 || keeper->watch->watches || keeper->watch->refused)
        return;
    keeper->watch->changes.on_wake = on_wake;
    if (keeper->watch->changes.topic.n > 0)
        anew(keeper);
    else
        tl__keeper_listen_in(keeper, &keeper->watch->changes, TL_TOPIC_CHANGES, (tl_bytes){0},
                             (tl_bytes){0}, (tl_bytes){0}, false);
}

static void watch_key(tl_keeper *keeper, tl_bytes key, bool *hears) {
    begin(keeper);
    hear_events(keeper, key, hears);
}

static void unwatch(tl_keeper *keeper, tl_bytes key, bool *hears) {
    keeper->watch->watched--;
    ignore_events(keeper, key, hears);
}

/* ---- changes --------------------------------------------------------------------------------- */

static void post(tl_gate_node *node, unsigned flags) {
    tl_lock *lock = (tl_lock *)((char *)node - offsetof(tl_lock, gate_node));
    if (lock->task.at != 0)
        tl__keeper_post(&lock->client->keeper, &lock->task, flags);
}

/* With the keeper's and the gate's mutexes held. */
static void see(tl_gate_node *node) {
    post(node, TL_WAKE_WOKEN);
}

/* As see(). The change may be our own, so the key is read first. */
static void suspect(tl_gate_node *node) {
    post(node, TL_WAKE_UNWATCHED);
}

/* Waiters are notified after the key was read again: otherwise the next change could be missed. */
static void on_changed(tl_keeper *keeper, tl_bytes key) {
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next)
        if (listener->key.n > 0 && (key.n == 0 || tl__bytes_eq(listener->key, key)))
            look_for(keeper, listener);
    if (key.n > 0)
        tl__gate_show(&keeper->client->gate, key, see);
    else
        keeper->rejudge = true;
}

/* A waiter that is sure of notifications stops polling. It is not known in advance which classes of
 * events come. So no waiter is sure until an event of DEL's class has come. */
static void assure(const tl_keeper *keeper, tl_listener *listener, bool armed) {
    bool before = listener->sure;
    listener->sure = armed && keeper->watch->events_come;
    if (listener->sure != before)
        listener->on_wake(listener, listener->sure ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
}

static void on_events(tl_keeper *keeper, tl_bytes topic, bool armed) {
    tl_bytes key = keeper->watch->events ? key_of(keeper, topic) : (tl_bytes){0};
    if (key.n == 0)
        return;
    bool up = tl__wakeup_up(keeper->first.wakeup);
    keeper->watch->events_denied = !armed && up;
    keeper->watch->events_come = keeper->watch->events_come && up;
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next)
        if (listener->hears && tl__bytes_eq(listener->key, key))
            assure(keeper, listener, armed);
    if (armed) /* the key may have changed before the subscription */
        tl__gate_show(&keeper->client->gate, key, suspect);
}

static void on_event(tl_keeper *keeper, tl_bytes topic, tl_bytes what) {
    tl_bytes key = keeper->watch->events ? key_of(keeper, topic) : (tl_bytes){0};
    bool expire = tl__bytes_eq(what, TL_LITERAL("expire"));      /* the key's lifetime changed */
    if (key.n == 0 || tl__bytes_eq(what, TL_LITERAL("keymiss"))) /* caused by our own reads */
        return;
    keeper->watch->events_come = keeper->watch->events_come || expire ||
                                 tl__bytes_eq(what, TL_LITERAL("del"));
    if (expire)
        return;
    for (tl_listener *listener = keeper->listeners; listener; listener = listener->next)
        if (listener->hears && tl__bytes_eq(listener->key, key)) {
            listener->sure = keeper->watch->events_come;
            listener->on_wake(listener, listener->sure ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
        }
    tl__gate_show(&keeper->client->gate, key, suspect);
}

/* ---- for the keeper -------------------------------------------------------------------------- */

/* The key was read: the server now reports the next change, unless it already reported one
 * meanwhile. */
static void looked(tl_keeper *keeper, tl_listener *listener, bool ok) {
    listener->look = NULL;
    if (listener->look_again)
        look_for(keeper, listener);
    listener->on_wake(listener, ok && keeper->watch->watches ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
}

static tl_watch *begin_watching(tl_keeper *keeper) {
    tl_watch *watch = calloc(1, sizeof *watch);
    if (watch)
        watch->keeper = keeper;
    return watch;
}

static void end_watching(tl_watch *watch) {
    free(watch);
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
