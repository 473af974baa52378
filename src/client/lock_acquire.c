/*
 * The machine that acquires a lock: it stands in the local queue, for a strategy that may, and at its
 * front gets the hold of the one before it or asks the server. Blocking callers and the keeper run it
 * alike. Whatever it comes to, the lock must leave the front of the queue when it is not held.
 */
#include "client/lock_acquire.h"

#include "client/backend.h"
#include "ground/guard.h"
#include "ground/thread.h"

#define THREADS_ALONE 2 /* of a program with one thread: that, and the keeper */

/* ---- before ---------------------------------------------------------------------------------- */

tl_err tl__lock_begin_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err) {
    tl_err code = tl__lock_check(lock, "acquire", err);
    if (code)
        return code;
    if (wait_ms < 0)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "wait: it must not be negative", err);
    if (tl__lock_is_held(lock))
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "this handle holds it already", err);
    bool outlived = tl__hold_outlived(lock);
    if (tl__hold_stop(lock) || outlived)
        tl__hold_undo(lock); /* it was lost a moment ago, or its key is there still */
    tl__gate_leave(&lock->client->gate, &lock->place);
    tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    lock->proof = (tl_proof){0};
    lock->adopted = false;
    return TL_OK;
}

bool tl__lock_open_wait(tl_lock *lock, tl_waiter *waiter) {
    tl_client *c = lock->client;
    tl__mutex_lock(&c->mutex);
    bool open = !lock->cancelled || !GUARD(cancel_before_wait);
    lock->cancelled = false;
    lock->waiter = open ? waiter : NULL;
    tl__mutex_unlock(&c->mutex);
    return open;
}

void tl__lock_close_wait(tl_lock *lock) {
    tl_client *c = lock->client;
    tl__mutex_lock(&c->mutex);
    if (GUARD(waiter_forgotten))
        lock->waiter = NULL;
    if (GUARD(cancel_spent))
        lock->cancelled = false;
    tl__mutex_unlock(&c->mutex);
}

bool tl__lock_was_cancelled(tl_lock *lock) {
    bool open = tl__lock_open_wait(lock, NULL);
    return !open;
}

static const tl_lock *lock_at(const tl_place *place) {
    return (const tl_lock *)((const char *)place - offsetof(tl_lock, place));
}

/* Held until it is released? */
static bool is_held_for_good(const tl_place *front) {
    const tl_lock *holder = lock_at(front);
    return tl__lock_is_held(holder) && !holder->manual_renew && holder->rare->max_hold_ms == 0;
}

/* Other threads of the program may release what is held, and so may callbacks, of whichever lock. */
static bool is_alone(tl_client *c) {
    return atomic_load(&c->callers) == 0 && tl__thread_count() == THREADS_ALONE;
}

bool tl__lock_waits_for_itself(const tl_lock *lock) {
    tl_client *c = lock->client;
    if (c->backend->names_nest && is_alone(c))
        return tl__gate_blocks(&c->gate, &lock->place, true, is_held_for_good);
    return tl__gate_blocks(&c->gate, &lock->place, false, is_held_for_good) && is_alone(c);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void on_turn(tl_turn *turn) {
    const tl_acquiring *m = (const tl_acquiring *)((const char *)turn -
                                                   offsetof(tl_acquiring, turn));
    m->listener->on_wake(m->listener, TL_WAKE_WOKEN);
}

void tl__lock_acquire_init(tl_acquiring *m, tl_lock *lock, int64_t wait_ms, tl_listener *listener) {
    *m = (tl_acquiring){.lock = lock, .wait_ms = wait_ms, .listener = listener};
    m->asker = lock->client->backend->asker;
    m->turn = (tl_turn){.ttl_ms = lock->ttl_ms, .on_turn = on_turn};
}

/* How long to try to reach the server, for one that has waited since then. */
static int64_t connect_ms(const tl_acquiring *m) {
    tl_client *c = m->lock->client;
    tl_bytes key = tl__name_key(m->lock->name);
    if (m->asker->was_heard(c, key, m->since))
        return TL_FOREVER; /* it was there: an outage is waited out */
    int64_t left = c->connect_ms - m->asker->mute_ms(c, key, m->since);
    return left > 0 ? left : 1;
}

static tl_status end(tl_acquiring *m, tl_err code, const char *words, tl_out *out) {
    m->ask.result = (tl_result){.code = code};
    tl__out_words(out, tl__bytes_of(words));
    return TL_END;
}

/* How long the server may take to be reached, by one that has not waited for its turn. */
static int64_t first_connect_ms(const tl_acquiring *m) {
    int64_t left = m->lock->client->connect_ms - m->spent_ms;
    return left > 0 ? left : 1;
}

/* Outside or at the front: ask the server. */
static tl_status ask(tl_acquiring *m, const tl_event *e, tl_out *out) {
    tl_job job = tl__lock_job(m->lock);
    const tl_event start = {
        .kind = TL_START, .now = e->now, .server = e->server, .servers = e->servers};
    int64_t left = tl__ms_until(e->now, m->limit);
    int64_t wait_ms = !m->queued || m->wait_ms == TL_FOREVER ? m->wait_ms : left > 0 ? left : 1;
    m->state = TL_ASKING;
    return m->asker->ask(m, &job, &start, wait_ms, m->queued ? connect_ms(m) : first_connect_ms(m),
                         out);
}

/* Handed over, and not over by itself before we came to know of it? That is then left to expire. */
static bool is_given(tl_acquiring *m, const tl_event *e) {
    m->turn.given = m->turn.given &&
                    (!GUARD(given_in_time) || tl__mono_before(e->now, m->turn.hold.deadline));
    return m->turn.given;
}

/* With a hold, or to ask the server. */
static tl_status at_front(tl_acquiring *m, const tl_event *e, tl_out *out) {
    m->queued = true;
    m->called = e->kind != TL_WOKEN;
    return is_given(m, e) ? end(m, TL_OK, "handed over within the process", out) : ask(m, e, out);
}

/* A strategy of the caller's own stays outside, where its pauses are nobody else's; one that tries once
 * doesn't queue. */
static bool stands_in_queue(tl_acquiring *m) {
    const tl_lock *lock = m->lock;
    const tl_retry *retry = &lock->rare->retry;
    bool patient = retry->kind == TL_RETRY_AUTO && retry->max_attempts == 0 && m->asker->queues;
    if (m->wait_ms > 0 && (!patient || lock->fair))
        return false;
    return tl__gate_enter(&lock->client->gate, &m->lock->place, m->wait_ms > 0 ? &m->turn : NULL) ==
           TL_QUEUED;
}

static tl_status begin(tl_acquiring *m, const tl_event *e, tl_out *out) {
    if (e->kind == TL_CANCEL)
        return end(m, TL_ECANCELLED, "cancelled", out);
    m->since = e->now;
    m->limit = m->wait_ms == TL_FOREVER ? TL_NEVER : tl__mono_add_ms(e->now, m->wait_ms);
    if (!stands_in_queue(m))
        return ask(m, e, out);
    m->state = TL_QUEUING;
    tl__out_words(out, TL_LITERAL("in the local queue"));
    out->until = m->limit;
    return TL_GO;
}

static bool place_holds(const tl_place *place) {
    return tl__lock_is_held(lock_at(place));
}

const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *words) {
    bool busy = code == TL_EBUSY || code == TL_ETIMEDOUT;
    return busy && tl__gate_blocks(&lock->client->gate, &lock->place, false, place_holds)
               ? "another handle of this process holds it already"
               : words;
}

/* Nobody holds the lock here, and a question to the server is left without an answer: who knows? */
static tl_err timed_out(const tl_acquiring *m, const char **words) {
    const tl_lock *lock = m->lock;
    tl_client *c = lock->client;
    bool held = tl__gate_blocks(&c->gate, &lock->place, false, place_holds) ||
                m->asker->mute_ms(c, tl__name_key(lock->name), m->since) == 0;
    *words = held ? "another holds it" : c->backend->unreached;
    *words = held ? tl__lock_busy(lock, TL_ETIMEDOUT, *words) : *words;
    return held ? TL_ETIMEDOUT : TL_EUNAVAILABLE;
}

static tl_status queue(tl_acquiring *m, const tl_event *e, tl_out *out) {
    const char *words = "cancelled";
    bool cancelled = e->kind == TL_CANCEL;
    out->until = m->limit;
    if (e->kind == TL_WOKEN)
        return at_front(m, e, out);
    if (!cancelled && tl__mono_before(e->now, m->limit))
        return TL_GO;
    if (!tl__gate_quit(&m->lock->client->gate, &m->lock->place) && GUARD(turn_at_timeout)) {
        if (!cancelled)
            return at_front(m, e, out);
        /* ours already: as if the cancel had come a moment later */
        if (GUARD(given_before_cancel) && is_given(m, e))
            return end(m, TL_OK, "", out);
    }
    tl_err code = cancelled ? TL_ECANCELLED : timed_out(m, &words);
    return end(m, code, words, out);
}

tl_status tl__lock_acquire_step(void *machine, const tl_event *event, tl_out *out) {
    tl_acquiring *m = machine;
    tl_event e = *event;
    if (m->state == TL_BEGINNING)
        return begin(m, &e, out);
    if (m->state == TL_QUEUING)
        return queue(m, &e, out);
    return m->asker->step(m, &e, out);
}

/* ---- after ----------------------------------------------------------------------------------- */

tl_machine tl__lock_acquire_rest(tl_acquiring *m, size_t *ret_size) {
    return m->asker->rest(m, ret_size);
}

tl_hold tl__lock_acquired(const tl_acquiring *m) {
    tl_hold hold = m->turn.given ? m->turn.hold : m->asker->held(m);
    hold.asked = m->since;
    hold.handed = m->turn.given;
    hold.waited = m->queued || m->asker->answered(m);
    return hold;
}
