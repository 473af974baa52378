/*
 * Locks on one server: that of the URL, or the master that Sentinels name.
 */
#include "client/backend.h"
#include "client/driver.h"
#include "ground/guard.h"

/* ---- acquiring ------------------------------------------------------------------------------- */

/* A lock that has waited in the local queue, or has others behind it, reserves fencing
 * numbers for hand-offs. */
static tl_status begin_asking(tl_acquiring *machine, tl_job *job, const tl_event *start,
                              int64_t wait_ms, int64_t connect_ms, tl_out *out) {
    tl_lock *lock = machine->lock;
    tl_client *client = lock->client;
    const tl_retry *retry = &lock->rare->retry;
    bool lines = client->protocol->lines && machine->wait_ms != 0 && retry->kind == TL_RETRY_AUTO &&
                 retry->max_attempts == 0;
    job->queue.inbox = lines ? tl__bytes_of(client->keeper.inbox.name) : (tl_bytes){0};
    job->queue.fair = lock->fair;
    job->queue.join = lines && (lock->fair || lock->contended);
    job->queue.rank = machine->turn.rank;
    job->fences = lock->fair ? 1
                  : machine->queued || tl__gate_has_queue(&client->gate, &lock->gate_node)
                      ? TL_FENCES
                      : 1;
    tl__acquire_init(&machine->ask, job, retry, wait_ms, connect_ms,
                     tl__random_next(&machine->random));
    if (lines && tl__keeper_hears(&client->keeper, job->key))
        tl__acquire_armed(&machine->ask);
    return tl__acquire_step(&machine->ask, start, out);
}

/* For the next acquire of this lock: whether to begin in the server's queue. For the next lock in the local
 * queue: the rank that this one has in the server's queue and gives up. */
static void learn(tl_acquiring *machine) {
    const tl_result *result = &machine->ask.result;
    machine->lock->contended = machine->ask.retry.answered || result->acquire.waiting > 0;
    if (result->code != TL_OK)
        machine->lock->gate_node.rank = machine->ask.job.queue.rank;
}

static tl_status step(tl_acquiring *machine, tl_event *event, tl_out *out) {
    if (event->kind == TL_WOKEN &&
        machine->called) { /* it is first in the local queue, which it knows already */
        machine->called = false;
        event->kind = TL_TIMER;
    }
    tl_status status = tl__acquire_step(&machine->ask, event, out);
    if (status != TL_GO && !machine->over) /* later the lock may have been freed */
        learn(machine);
    return status;
}

static tl_machine rest(tl_acquiring *machine, size_t *ret_size) {
    *ret_size = sizeof machine->ask;
    return (tl_machine){&machine->ask, tl__acquire_step, "acquire",
                        tl__name_key(machine->lock->name)};
}

static tl_hold held(const tl_acquiring *machine) {
    const tl_acquisition *acquisition = &machine->ask;
    /* Nothing is handed over within the process while other processes queue at the server. No reply reports
     * those that come later: they wait for a second at most (gate.c). */
    tl_hold hold = {.token = machine->lock->token,
                    .deadline = acquisition->result.deadline,
                    .proved = acquisition->result.proved,
                    .fence = acquisition->result.acquire.fence,
                    .passes = GUARD(server_queue_first) && acquisition->result.acquire.waiting > 0
                                  ? 0
                                  : (unsigned)acquisition->job.fences - 1,
                    .taken = acquisition->result.acquire.seen,
                    .taken_us = acquisition->result.acquire.seen_us,
                    .proof = acquisition->result.proof};
    if (acquisition->result.acquire.stamp_is_token) {
        char text[TL_INT_SIZE];
        tl_bytes token = tl__bytes_from_int(text, hold.proof.stamp.end_ms);
        memcpy(hold.token.text, token.p, token.n + 1);
    }
    return hold;
}

static bool answered(const tl_acquiring *machine) {
    return machine->ask.retry.answered;
}

bool tl__server_was_heard(tl_client *client, tl_bytes key, tl_mono since) {
    return tl__node_heard_since(tl__fleet_node(client, key), since);
}

int64_t tl__server_mute_ms(tl_client *client, tl_bytes key, tl_mono since) {
    return tl__node_mute_ms(tl__fleet_node(client, key), since, tl__mono_now());
}

const tl_asker tl__server_asker = {
    .queues = true,
    .ask = begin_asking,
    .step = step,
    .rest = rest,
    .held = held,
    .answered = answered,
    .was_heard = tl__server_was_heard,
    .mute_ms = tl__server_mute_ms,
};

/* ---- holding --------------------------------------------------------------------------------- */

/* The job has no proof of a stamp, so that a stamp that was acquired without scripts expires by itself. A DEL
 * could delete a successor's lock, as the caller's own release, another DEL, may be in flight. */
static void drop(tl_lock *lock) {
    tl_job job = tl__lock_job(lock);
    job.hold.proof = (tl_proof){.stood_ms = job.hold.proof.stood_ms,
                                .unbound = job.hold.proof.unbound,
                                .unlimited = job.hold.proof.unlimited};
    tl__hold_drop_in(lock, &job);
}

const tl_holder tl__server_holder = {
    .kind = &tl__hold_kind, .settling = &tl__hold_settling, .drop = drop};

/* ---- questions ------------------------------------------------------------------------------- */

tl_err tl__server_reach(tl_client *client, const char *what, tl_error *err) {
    tl_ask a;
    tl__ask_init(&a, (tl_bytes){0}, (tl_bytes){0}, client->attempt_ms, client->connect_ms);
    return tl__inquire(client, NULL, (tl_bytes){0}, &a, tl__ask_step, what, err);
}

tl_err tl__server_ping(tl_client *client, tl_error *err) {
    return tl__server_reach(client, "ping", err);
}

tl_err tl__server_look(tl_client *client, tl_ask *ask, tl_error *err) {
    return tl__inquire(client, NULL, ask->key, ask, tl__ask_step, "look", err);
}

tl_err tl__server_remove(tl_client *client, tl_break *machine, tl_error *err) {
    machine->transacts = !client->backend->slotted; /* in a cluster all locks are scripts */
    return tl__inquire(client, NULL, machine->key, machine, tl__break_step, "break", err);
}

static tl_err scan(tl_client *client, tl_scan *scanning, uint64_t *cursor, tl_error *err) {
    scanning->cursor = *cursor;
    tl_err code = tl__inquire(client, NULL, (tl_bytes){0}, scanning, tl__scan_step, "scan", err);
    if (!code)
        *cursor = scanning->cursor;
    return code;
}

static tl_err open_sentinels(tl_client *client, const tl_seeds *seeds,
                             const tl_client_options *options, tl_error *err) {
    return tl__fleet_open_sentinels(&client->fleet, &client->node, seeds, options, err);
}

const tl_backend tl__backend_server = {
    .scheme = "redis://",
    .watches = true,
    .ping = tl__server_ping,
    .look = tl__server_look,
    .scan = scan,
    .remove = tl__server_remove,
    TL_BACKEND_OF_ONE,
};

const tl_backend tl__backend_sentinel = {
    .scheme = "redis+sentinel://",
    .sentinel_login = true,
    .watches = true,
    .open = open_sentinels,
    .ping = tl__server_ping,
    .look = tl__server_look,
    .scan = scan,
    .remove = tl__server_remove,
    TL_BACKEND_OF_ONE,
};
