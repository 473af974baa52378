/*
 * Floor 4: holders that want to know at once when their key changes. Where the server can, it tells of
 * changes to what the keeper's connection has read (CLIENT TRACKING, from Redis 6), by way of the
 * connection for wake-ups; the lock concerned is then renewed at once, which finds out what has
 * happened. Where it can't, the regular renewals do. Nothing here decides that a lock is lost.
 */
#include "client.h"
#include "keeper_inside.h"
#include "lock.h"

static void hear(tl_listener *listener, unsigned flags) {
    tl_keeper *k = (tl_keeper *)((char *)listener - offsetof(tl_keeper, changes));
    if (!(flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED)))
        return;
    k->changes_armed = (flags & TL_WAKE_ARMED) != 0;
    tl__keeper_watch_anew(k);
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
    k->watches = false;
    if (k->watched == 0 || !k->changes_armed || number <= 0)
        return;
    const char *const words[] = {
        "CLIENT", "TRACKING", "ON", "REDIRECT", tl__bytes_from_int(id, number).p, "NOLOOP"};
    tl_send send;
    tl__keeper_send_own(k, ask(k, &send, words, sizeof words / sizeof *words), true, NULL);
}

static void look(tl_keeper *k, tl_bytes key, tl_listener *listener) {
    static const char *const words[] = {"GET"};
    tl_send send;
    if (key.n == 0 || !k->watches)
        return;
    (void)ask(k, &send, words, 1);
    send.command[0].argv[send.command[0].argc++] = key;
    tl__keeper_send_own(k, &send, false, listener);
}

void tl__keeper_look(tl_keeper *k, const tl_task *task) {
    look(k, task->watched, NULL);
}

/* The one under way may have come before the change: then once more. */
void tl__keeper_look_for(tl_keeper *k, tl_listener *l) {
    l->look_again = l->look != NULL;
    if (!l->look)
        look(k, l->key, l);
}

void tl__keeper_watch_answer(tl_keeper *k, bool watches) {
    k->watches = watches && k->changes_armed;
    for (uint32_t i = 1; k->watches && i <= k->tasks.count; i++)
        tl__keeper_look(k, k->tasks.heap[i]);
    for (tl_listener *l = k->listeners; k->watches && l; l = l->next)
        tl__keeper_look_for(k, l);
}

/* ---- what is watched ------------------------------------------------------------------------- */

/* Once begun it goes on: to end it with each lock that is held for a moment would cost more. */
void tl__keeper_watch(tl_keeper *k) {
    if (k->watched++ > 0 || k->watches)
        return;
    k->changes.hear = hear;
    if (k->changes.topic.n > 0)
        tl__keeper_watch_anew(k);
    else
        tl__keeper_listen_in(k, &k->changes, TL_TOPIC_CHANGES, (tl_bytes){0});
}

void tl__keeper_unwatch(tl_keeper *k) {
    k->watched--;
}

/* ---- changes --------------------------------------------------------------------------------- */

/* With the keeper's and the gate's mutex held. */
static void see(tl_place *place) {
    tl_lock *lock = (tl_lock *)((char *)place - offsetof(tl_lock, place));
    if (lock->task.at != 0)
        tl__keeper_post(&lock->client->keeper, &lock->task, TL_WAKE_WOKEN);
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
