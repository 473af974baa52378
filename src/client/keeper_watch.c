/*
 * Who wants to know at once when a key changes. Where the server can, it tells of changes to what
 * the keeper's connection has read (CLIENT TRACKING, from Redis 6), by way of the connection for
 * wake-ups. Where it refuses that, the keys' events are subscribed to there: they come (from 2.8) if the
 * server is configured to send them, which is for its owner to decide. Where neither comes, the regular
 * renewals and looks find out. Nothing here decides that a lock is lost.
 */
#include <stdio.h>

#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/lock.h"

static void go_by_events(tl_keeper *k);
static void leave_events(tl_keeper *k);

/* What isn't armed although the connection is up has been refused. */
static void hear(tl_listener *listener, unsigned flags) {
    tl_keeper *k = (tl_keeper *)((char *)listener - offsetof(tl_keeper, changes));
    if (!(flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED)))
        return;
    k->changes_armed = (flags & TL_WAKE_ARMED) != 0;
    k->events_denied = false;
    tl__keeper_watch_anew(k);
    if (!k->changes_armed && tl__wakeup_up(k->wakeup))
        go_by_events(k);
}

/* ---- asking ---------------------------------------------------------------------------------- */

static tl_send *ask(const tl_keeper *k, tl_send *send, const char *const *words, size_t count) {
    tl_mono now = tl__mono_now();
    *send = (tl_send){.count = 1, .by = tl__mono_add_ms(now, k->client->attempt_ms)};
    tl_command *c = &send->command[0];
    *c = (tl_command){.form = TL_ARGV};
    for (size_t i = 0; i < count; i++)
        c->argv[c->argc++] = tl__bytes_of(words[i]);
    return send;
}

static void tell_listeners(tl_keeper *k, unsigned flags) {
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->key.n > 0)
            l->hear(l, flags);
}

void tl__keeper_watch_anew(tl_keeper *k) {
    char id[TL_INT_SIZE];
    int64_t number = k->wakeup ? tl__wakeup_id(k->wakeup) : 0;
    if (k->watches)
        tell_listeners(k, TL_WAKE_UNWATCHED);
    k->watches = k->refused = false;
    if (k->watched == 0 || !k->changes_armed)
        return;
    if (number <= 0) {
        go_by_events(k);
        return;
    }
    const char *const words[] = {
        "CLIENT", "TRACKING", "ON", "REDIRECT", tl__bytes_from_int(id, number).p, "NOLOOP"};
    tl_send send;
    (void)tl__keeper_send_own(k, ask(k, &send, words, sizeof words / sizeof *words),
                              (tl_exchange){.watch = true});
}

static tl_exchange *get(tl_keeper *k, tl_bytes key, tl_exchange what) {
    static const char *const words[] = {"GET"};
    tl_send send;
    (void)ask(k, &send, words, 1);
    send.command[0].argv[send.command[0].argc++] = key;
    return tl__keeper_send_own(k, &send, what);
}

/* The one in flight may have come before the change: then once more. */
void tl__keeper_look_for(tl_keeper *k, tl_listener *l) {
    l->look_again = l->look != NULL;
    if (!l->look && l->key.n > 0 && k->watches)
        l->look = get(k, l->key, (tl_exchange){.listener = l});
}

void tl__keeper_read(tl_keeper *k, tl_task *task) {
    task->read_again = task->reading != NULL;
    if (!task->reading)
        task->reading = get(k, task->watched, (tl_exchange){.task = task, .reads = true});
}

void tl__keeper_look(tl_keeper *k, tl_task *task) {
    if (task->watched.n > 0 && k->watches)
        tl__keeper_read(k, task);
}

void tl__keeper_watch_answer(tl_keeper *k, const tl_answer *answer) {
    bool refused = answer->ok && answer->reply->type == TL_REPLY_ERROR;
    k->watches = answer->ok && !refused && k->changes_armed;
    if (refused)
        go_by_events(k);
    if (!k->watches)
        return;
    leave_events(k);
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        tl__keeper_look(k, k->tasks.heap[i]);
    for (tl_listener *l = k->listeners; l; l = l->next)
        tl__keeper_look_for(k, l);
}

/* ---- keyspace events: subscribing -------------------------------------------------------------- */

static tl_bytes prefix(const tl_keeper *k, char to[TL_TOPIC_EXTRA + 1]) {
    (void)snprintf(to, TL_TOPIC_EXTRA + 1, "__keyspace@%ld__:", (long)k->client->endpoint.db);
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
    if (!k->events || k->events_denied || *hears || key.n == 0)
        return;
    *hears = true; /* before: it may be told at once */
    if (tl__wakeup_listen(k->wakeup, topic_of(k, key, room), tl__mono_now()))
        *hears = false;
    tl__keeper_wake(k);
}

static void ignore_events(tl_keeper *k, tl_bytes key, bool *hears) {
    char room[TL_TOPIC_MAX + 1];
    if (!*hears)
        return;
    *hears = false;
    tl__wakeup_forget(k->wakeup, topic_of(k, key, room), tl__mono_now());
    tl__keeper_wake(k);
}

static void go_by_events(tl_keeper *k) {
    k->refused = k->events = true;
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        hear_events(k, k->tasks.heap[i]->watched, &k->tasks.heap[i]->hears);
    for (tl_listener *l = k->listeners; l; l = l->next)
        hear_events(k, l->key, &l->hears);
}

static void leave_events(tl_keeper *k) {
    k->events = false;
    for (uint32_t i = 1; i <= k->tasks.count; i++)
        ignore_events(k, k->tasks.heap[i]->watched, &k->tasks.heap[i]->hears);
    for (tl_listener *l = k->listeners; l; l = l->next) {
        ignore_events(k, l->key, &l->hears);
        l->sure = false;
    }
}

/* ---- what is watched ------------------------------------------------------------------------- */

/* Once begun it goes on: to end it with each lock that is held for a moment would cost more. */
static void begin(tl_keeper *k) {
    if (k->watched++ > 0 || k->watches || k->refused)
        return;
    k->changes.hear = hear;
    if (k->changes.topic.n > 0)
        tl__keeper_watch_anew(k);
    else
        tl__keeper_listen_in(k, &k->changes, TL_TOPIC_CHANGES, (tl_bytes){0});
}

void tl__keeper_watch(tl_keeper *k, tl_bytes key, bool *hears) {
    begin(k);
    hear_events(k, key, hears);
}

void tl__keeper_unwatch(tl_keeper *k, tl_bytes key, bool *hears) {
    k->watched--;
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
void tl__keeper_on_changed(void *ctx, tl_bytes key) {
    tl_keeper *k = ctx;
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->key.n > 0 && (key.n == 0 || tl__bytes_eq(l->key, key)))
            tl__keeper_look_for(k, l);
    if (key.n > 0)
        tl__gate_show(&k->client->gate, key, see);
    else
        k->rejudge = true;
}

/* Whoever is sure polls no more. Which kinds of events come is not known before they do: so nobody is until
 * one has come of the kind that tells of a DEL. */
static void assure(const tl_keeper *k, tl_listener *l, bool armed) {
    bool before = l->sure;
    l->sure = armed && k->events_come;
    if (l->sure != before)
        l->hear(l, l->sure ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
}

void tl__keeper_on_events(tl_keeper *k, tl_bytes topic, bool armed) {
    tl_bytes key = k->events ? key_of(k, topic) : (tl_bytes){0};
    if (key.n == 0)
        return;
    bool up = tl__wakeup_up(k->wakeup);
    k->events_denied = !armed && up;
    k->events_come = k->events_come && up;
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->hears && tl__bytes_eq(l->key, key))
            assure(k, l, armed);
    if (armed) /* it may have changed before */
        tl__gate_show(&k->client->gate, key, suspect);
}

void tl__keeper_on_event(tl_keeper *k, tl_bytes topic, tl_bytes what) {
    tl_bytes key = k->events ? key_of(k, topic) : (tl_bytes){0};
    bool expire = tl__bytes_eq(what, TL_LITERAL("expire"));      /* it ends at another time */
    if (key.n == 0 || tl__bytes_eq(what, TL_LITERAL("keymiss"))) /* which looking brings about */
        return;
    k->events_come = k->events_come || expire || tl__bytes_eq(what, TL_LITERAL("del"));
    if (expire)
        return;
    for (tl_listener *l = k->listeners; l; l = l->next)
        if (l->hears && tl__bytes_eq(l->key, key)) {
            l->sure = k->events_come;
            l->hear(l, l->sure ? TL_WAKE_WATCHED : TL_WAKE_UNWATCHED);
        }
    tl__gate_show(&k->client->gate, key, suspect);
}
