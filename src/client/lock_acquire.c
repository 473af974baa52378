/*
 * The machine that acquires a lock. It waits in the local queue, if the retry strategy allows that. Once
 * it is first, it gets the hold of the lock before it, or asks the server. Blocking callers and the
 * keeper run the same machine. When it has ended and the lock is not held, the lock must not stay first
 * in the local queue.
 */
#include "client/lock_acquire.h"

#include "client/backend.h"
#include "ground/guard.h"
#include "ground/thread.h"

#define THREADS_ALONE 2 /* the threads of a program with one thread: that one, and the keeper's */

/* ---- before ---------------------------------------------------------------------------------- */

tl_err tl__lock_may_acquire(const tl_lock *lock, int64_t wait_ms, tl_error *err) {
    tl_err code = tl__lock_check(lock, "acquire", err);
    if (code)
        return code;
    if (wait_ms < 0)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "wait: it must not be negative", err);
    if (tl__lock_is_held(lock))
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "this handle holds it already", err);
    return TL_OK;
}

static void forget_hold(tl_lock *lock) {
    tl__gate_leave(&lock->client->gate, &lock->gate_node);
    tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    lock->proof = (tl_proof){0};
    lock->adopted = false;
}

/* A hold that was lost a moment ago, or that max_hold_ms has ended, may have left its key. */
void tl__lock_begin_acquire_in(tl_lock *lock) {
    bool outlived = tl__hold_outlived(lock);
    if (tl__hold_stop_in(lock) || outlived)
        tl__hold_undo_in(lock);
    forget_hold(lock);
}

tl_err tl__lock_begin_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err) {
    tl_err code = tl__lock_may_acquire(lock, wait_ms, err);
    if (code)
        return code;
    bool outlived = tl__hold_outlived(lock);
    if (tl__hold_stop(lock) || outlived)
        tl__hold_undo(lock);
    forget_hold(lock);
    return TL_OK;
}

bool tl__lock_open_wait(tl_lock *lock, tl_waiter *waiter) {
    tl_client *client = lock->client;
    tl__mutex_lock(&client->mutex);
    bool open = !lock->cancelled || !GUARD(cancel_before_wait);
    lock->cancelled = false;
    lock->waiter = open ? waiter : NULL;
    tl__mutex_unlock(&client->mutex);
    return open;
}

void tl__lock_close_wait(tl_lock *lock) {
    tl_client *client = lock->client;
    tl__mutex_lock(&client->mutex);
    if (GUARD(waiter_forgotten))
        lock->waiter = NULL;
    if (GUARD(cancel_spent))
        lock->cancelled = false;
    tl__mutex_unlock(&client->mutex);
}

bool tl__lock_was_cancelled(tl_lock *lock) {
    if (!atomic_load(&lock->cancelled))
        return false;
    bool open = tl__lock_open_wait(lock, NULL);
    return !open;
}

static const tl_lock *lock_at(const tl_gate_node *node) {
    return (const tl_lock *)((const char *)node - offsetof(tl_lock, gate_node));
}

/* Is the lock held until someone releases it? A thread that waits gives no sign of life. */
static bool is_held_for_good(const tl_gate_node *front) {
    const tl_lock *holder = lock_at(front);
    return tl__lock_is_held(holder) && !holder->manual_renew && holder->rare->max_hold_ms == 0 &&
           holder->rare->stall_ms == 0;
}

/* Can only this thread release locks? Other threads of the program may, and so may callbacks of any lock, also
 * those that another client's keeper calls. So its thread counts. */
static bool is_alone(tl_client *client) {
    return atomic_load(&client->callers) == 0 && atomic_load(&client->keeper.operations) == 0 &&
           tl__thread_count() == THREADS_ALONE;
}

bool tl__lock_waits_for_itself(const tl_lock *lock) {
    tl_client *client = lock->client;
    if (client->backend->names_nest && is_alone(client))
        return tl__gate_blocks(&client->gate, &lock->gate_node, true, is_held_for_good);
    return tl__gate_blocks(&client->gate, &lock->gate_node, false, is_held_for_good) &&
           is_alone(client);
}

/* ---- the machine ----------------------------------------------------------------------------- */

static void on_turn(tl_turn *turn) {
    const tl_acquiring *machine = (const tl_acquiring *)((const char *)turn -
                                                         offsetof(tl_acquiring, turn));
    machine->listener->on_wake(machine->listener, TL_WAKE_WOKEN);
}

void tl__lock_acquire_init(tl_acquiring *machine, tl_lock *lock, int64_t wait_ms,
                           tl_listener *listener, uint64_t seed) {
    *machine = (tl_acquiring){.lock = lock, .wait_ms = wait_ms, .listener = listener};
    machine->asker = lock->client->backend->asker;
    machine->random = tl__random_begin(seed);
    machine->turn = (tl_turn){
        .ttl_ms = lock->ttl_ms, .by_hand = lock->manual_renew, .on_turn = on_turn};
}

/* How long, ms, the server may take to be reached, after a wait in the local queue. */
static int64_t connect_ms(const tl_acquiring *machine) {
    tl_client *client = machine->lock->client;
    tl_bytes key = tl__name_key(machine->lock->name);
    if (machine->asker->was_heard(client, key, machine->since))
        return TL_FOREVER; /* it has answered meanwhile: the acquire waits until an outage ends */
    int64_t left = client->connect_ms - machine->asker->mute_ms(client, key, machine->since);
    return left > 0 ? left : 1;
}

static tl_status end(tl_acquiring *machine, tl_err code, const char *message, tl_out *out) {
    machine->ask.result = (tl_result){.code = code};
    tl__out_message(out, tl__bytes_of(message));
    return TL_END;
}

/* The same without a wait in the local queue. */
static int64_t first_connect_ms(const tl_acquiring *machine) {
    int64_t left = machine->lock->client->connect_ms - machine->spent_ms;
    return left > 0 ? left : 1;
}

/* Outside the local queue, or first in it: ask the server. */
static tl_status ask(tl_acquiring *machine, const tl_event *event, tl_out *out) {
    tl_job job = tl__lock_job(machine->lock);
    const tl_event start = {
        .kind = TL_START, .now = event->now, .server = event->server, .servers = event->servers};
    int64_t left = tl__ms_until(event->now, machine->limit);
    int64_t wait_ms = !machine->queued || machine->wait_ms == TL_FOREVER ? machine->wait_ms
                      : left > 0                                         ? left
                                                                         : 1;
    machine->state = TL_ASKING;
    return machine->asker->ask(machine, &job, &start, wait_ms,
                               machine->queued ? connect_ms(machine) : first_connect_ms(machine),
                               out);
}

/* Was a hold handed over, and has it not expired meanwhile? The key of an expired hold is
 * left to expire, too. */
static bool is_given(tl_acquiring *machine, const tl_event *event) {
    machine->turn.given = machine->turn.given &&
                          (!GUARD(given_in_time) ||
                           tl__mono_before(event->now, machine->turn.hold.deadline));
    return machine->turn.given;
}

/* First in the local queue: take the hold that was handed over, or ask the server. */
static tl_status at_front(tl_acquiring *machine, const tl_event *event, tl_out *out) {
    machine->queued = true;
    machine->called = event->kind != TL_WOKEN;
    return is_given(machine, event) ? end(machine, TL_OK, "handed over within the process", out)
                                    : ask(machine, event, out);
}

/* Enter the local queue. True: it must wait there. A retry strategy of the program's own stays outside, so
 * that its pauses delay no other lock. So does one whose wait a rest ends: it must learn of the rest, and the
 * lock before it may wait for the end of that. A single try never queues. */
static bool stands_in_queue(tl_acquiring *machine) {
    const tl_lock *lock = machine->lock;
    const tl_retry *retry = &lock->rare->retry;
    bool patient = retry->kind == TL_RETRY_AUTO && retry->max_attempts == 0 &&
                   machine->asker->queues;
    if (machine->wait_ms > 0 &&
        (!patient || lock->fair || (GUARD(rest_ends_any_wait) && lock->rare->rest_ends_wait)))
        return false;
    return tl__gate_enter(&lock->client->gate, &machine->lock->gate_node,
                          machine->wait_ms > 0 ? &machine->turn : NULL) == TL_QUEUED;
}

static tl_status begin(tl_acquiring *machine, const tl_event *event, tl_out *out) {
    if (event->kind == TL_CANCEL)
        return end(machine, TL_ECANCELLED, "cancelled", out);
    machine->since = event->now;
    machine->limit = machine->wait_ms == TL_FOREVER ? TL_NEVER
                                                    : tl__mono_add_ms(event->now, machine->wait_ms);
    if (!stands_in_queue(machine))
        return ask(machine, event, out);
    machine->state = TL_QUEUING;
    tl__out_message(out, TL_LITERAL("in the local queue"));
    out->until = machine->limit;
    return TL_GO;
}

static bool node_holds(const tl_gate_node *node) {
    return tl__lock_is_held(lock_at(node));
}

const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *message) {
    bool busy = code == TL_EBUSY || code == TL_ETIMEDOUT;
    return busy && tl__gate_blocks(&lock->client->gate, &lock->gate_node, false, node_holds)
               ? "another handle of this process holds it already"
               : message;
}

/* The code and the message after a timeout in the local queue. If no lock of this process holds it and the
 * server has left a question without a reply, it is not known whether another holds it: TL_EUNAVAILABLE. */
static tl_err timed_out(const tl_acquiring *machine, const char **message) {
    const tl_lock *lock = machine->lock;
    tl_client *client = lock->client;
    bool held = tl__gate_blocks(&client->gate, &lock->gate_node, false, node_holds) ||
                machine->asker->mute_ms(client, tl__name_key(lock->name), machine->since) == 0;
    *message = held ? "another holds it" : client->backend->unreached;
    *message = held ? tl__lock_busy(lock, TL_ETIMEDOUT, *message) : *message;
    return held ? TL_ETIMEDOUT : TL_EUNAVAILABLE;
}

static tl_status queue(tl_acquiring *machine, const tl_event *event, tl_out *out) {
    const char *message = "cancelled";
    bool cancelled = event->kind == TL_CANCEL;
    out->until = machine->limit;
    if (event->kind == TL_WOKEN)
        return at_front(machine, event, out);
    if (!cancelled && tl__mono_before(event->now, machine->limit))
        return TL_GO;
    if (!tl__gate_quit(&machine->lock->client->gate, &machine->lock->gate_node) &&
        GUARD(turn_at_timeout)) {
        if (!cancelled)
            return at_front(machine, event, out);
        /* the hold was handed over already: as if the cancel had come a moment later */
        if (GUARD(given_before_cancel) && is_given(machine, event))
            return end(machine, TL_OK, "", out);
    }
    tl_err code = cancelled ? TL_ECANCELLED : timed_out(machine, &message);
    return end(machine, code, message, out);
}

/* May a copy of this machine ask for the lock by the same token? It may have it by now. To take this acquire back
 * would take that lock away. */
static bool is_copied(const tl_acquiring *machine) {
    tl_disruptions *disruptions = &machine->lock->client->disruptions;
    (void)tl__disrupted_at(disruptions);
    return tl__is_disrupted(machine->since, tl__copied_at(disruptions)) && GUARD(copy_ends_acquire);
}

static tl_status step(tl_acquiring *machine, tl_event *event, tl_out *out) {
    if (machine->state == TL_ASKING && !machine->over && is_copied(machine))
        return end(machine, TL_EUNCERTAIN, TL_COPIED, out);
    if (machine->state == TL_BEGINNING)
        return begin(machine, event, out);
    if (machine->state == TL_QUEUING)
        return queue(machine, event, out);
    return machine->asker->step(machine, event, out);
}

/* Is the lock waited for? Not by a single try, nor before a reply says that it is not free. */
static bool is_waiting(const tl_acquiring *machine) {
    return machine->wait_ms > 0 &&
           (machine->queued || machine->state == TL_QUEUING || machine->asker->answered(machine));
}

tl_status tl__lock_acquire_step(void *machine, const tl_event *event, tl_out *out) {
    tl_acquiring *acquiring = machine;
    tl_event e = *event;
    tl_status status = step(acquiring, &e, out);
    bool goes_on = status == TL_GO && !acquiring->over;
    bool waits = goes_on && (acquiring->waits || is_waiting(acquiring));
    if (waits != acquiring->waits) /* not once it is over: the lock may have been freed */
        tl__count_waiting(&acquiring->lock->client->counts, waits);
    acquiring->waits = waits;
    acquiring->over = !goes_on;
    return status;
}

/* ---- after ----------------------------------------------------------------------------------- */

tl_machine tl__lock_acquire_rest(tl_acquiring *machine, size_t *ret_size) {
    return machine->asker->rest(machine, ret_size);
}

uint64_t tl__lock_acquired_seed(tl_acquiring *machine) {
    return tl__random_next(&machine->random);
}

tl_hold tl__lock_acquired(const tl_acquiring *machine) {
    tl_hold hold = machine->turn.given ? machine->turn.hold : machine->asker->held(machine);
    if (!machine->turn.given)
        hold.began = machine->since;
    if (hold.proved.ns == 0)
        hold.proved = machine->since;
    hold.asked = machine->since;
    hold.handed = machine->turn.given;
    hold.waited = machine->queued || machine->asker->answered(machine);
    return hold;
}
