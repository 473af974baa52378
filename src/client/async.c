/*
 * Acquiring and releasing without blocking. The keeper runs the same machines as a caller
 * that blocks would, behind the same local queue; the result is told like an event of the lock. An
 * operation must be told exactly once, unless its lock is freed first, and outlive whatever its
 * machine has left to clean up.
 */
#include "client/async.h"

#include <stdlib.h>

#include "client/lock.h"
#include "ground/error.h"
#include "protocol/settle.h"

typedef struct tl_operation {
    tl_task task;
    tl_listener listener;
    tl_turn turn;
    tl_report report;
    tl_lock *lock; /* NULL: it has been freed */
    tl_client *client;
    tl_name *name;
    tl_done done;
    void *ctx;
    enum { OP_QUEUING, OP_ACQUIRING, OP_RELEASING } kind;
    bool queued; /* it has stood in the local queue */
    bool completed, lingers, over, told;
    int64_t wait_ms;
    tl_mono since, limit;
    tl_err code;
    tl_error err;
    union {
        tl_result result; /* of either */
        tl_acquire acquire;
        tl_settle settle;
    } machine;
} tl_operation;

#define OP_OF(pointer, member) ((tl_operation *)((char *)(pointer)-offsetof(tl_operation, member)))

/* ---- life ------------------------------------------------------------------------------------ */

static tl_status step(void *machine, const tl_event *event, tl_out *out);
static void stepped(tl_task *task, const tl_out *out, tl_status status);
static void hear(tl_listener *listener, unsigned flags);
static void come(tl_turn *turn);
static void tell(tl_report *report);

static tl_operation *new_op(tl_lock *lock, tl_done done, void *ctx) {
    tl_operation *op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    op->task = (tl_task){
        .machine = op, .step = step, .stepped = stepped, .listener = &op->listener};
    op->listener.hear = hear;
    op->turn = (tl_turn){.ttl_ms = lock->ttl_ms, .protocol = lock->protocol, .come = come};
    op->report = (tl_report){.call = tell, .owner = lock};
    op->lock = lock;
    op->client = lock->client;
    atomic_fetch_add(&lock->client->callers, 1);
    op->name = tl__name_hold(lock->name);
    op->done = done;
    op->ctx = ctx;
    return op;
}

/* When its machine has ended and nobody is to be told any more. */
static void let_go(tl_operation *op) {
    if (!op->over || !(op->told || !op->lock))
        return;
    atomic_fetch_sub(&op->client->callers, 1);
    tl__name_release(op->name);
    free(op);
}

/* ---- the local queue ------------------------------------------------------------------------- */

static void hear(tl_listener *listener, unsigned flags) {
    tl_operation *op = OP_OF(listener, listener);
    tl__keeper_post(&op->client->keeper, &op->task, flags);
}

static void come(tl_turn *turn) {
    tl_operation *op = OP_OF(turn, turn);
    tl__keeper_post(&op->client->keeper, &op->task, TL_WAKE_WOKEN);
}

static tl_status contend(tl_operation *op, const tl_event *e, tl_out *out) {
    tl_lock *lock = op->lock;
    tl_job job = tl__lock_job(lock);
    int64_t left = tl__ms_until(e->now, op->limit);
    int64_t wait_ms = !op->queued || op->wait_ms == TL_FOREVER ? op->wait_ms : left > 0 ? left : 1;
    bool others = op->queued || tl__gate_has_queue(&op->client->gate, &lock->place);
    job.fences = others ? TL_FENCES : 1;
    op->kind = OP_ACQUIRING;
    int64_t connect_ms = op->queued ? tl__lock_connect_ms(lock, op->since) : op->client->connect_ms;
    tl__acquire_init(&op->machine.acquire, &job, &lock->retry, wait_ms, connect_ms,
                     tl__client_seed(op->client));
    return tl__acquire_step(&op->machine.acquire, e, out);
}

static tl_status end_queuing(tl_operation *op, tl_err code, const char *words, tl_out *out) {
    op->machine.result.code = code;
    tl__out_words(out, tl__bytes_of(words));
    return TL_END;
}

/* At the front: with a hold, or to ask the server. */
static tl_status at_front(tl_operation *op, const tl_event *e, tl_out *out) {
    tl_event start = {.kind = TL_START, .now = e->now, .server = e->server};
    op->queued = true;
    return op->turn.given ? end_queuing(op, TL_OK, "", out) : contend(op, &start, out);
}

static tl_status queue(tl_operation *op, const tl_event *e, tl_out *out) {
    tl_gate *gate = &op->client->gate;
    const char *words = "cancelled";
    out->until = op->limit;
    bool timed_out = !tl__mono_before(e->now, op->limit);
    if (e->kind == TL_WOKEN)
        return at_front(op, e, out);
    if (e->kind != TL_CANCEL && !timed_out)
        return TL_GO;
    if (!tl__gate_quit(gate, &op->lock->place)) {
        if (e->kind != TL_CANCEL)
            return at_front(op, e, out);
        if (op->turn.given) /* ours already: as if the cancel had come a moment later */
            return end_queuing(op, TL_OK, "", out);
    }
    tl_err code = e->kind == TL_CANCEL ? TL_ECANCELLED
                                       : tl__lock_queue_timeout(op->lock, op->since, &words);
    return end_queuing(op, code, words, out);
}

static tl_status begin(tl_operation *op, const tl_event *e, tl_out *out) {
    tl_lock *lock = op->lock;
    if (tl__lock_was_cancelled(lock)) /* it is seen from here on: a later one is posted */
        return end_queuing(op, TL_ECANCELLED, "cancelled", out);
    op->since = e->now;
    op->limit = op->wait_ms == TL_FOREVER ? TL_NEVER : tl__mono_add_ms(e->now, op->wait_ms);
    if (tl__lock_enter(lock, op->wait_ms, &op->turn) != TL_QUEUED)
        return contend(op, e, out);
    out->until = op->limit;
    return TL_GO;
}

static tl_status step(void *machine, const tl_event *e, tl_out *out) {
    tl_operation *op = machine;
    switch (op->kind) {
    case OP_QUEUING: return e->kind == TL_START ? begin(op, e, out) : queue(op, e, out);
    case OP_ACQUIRING: return tl__acquire_step(&op->machine.acquire, e, out);
    case OP_RELEASING: return tl__settle_step(&op->machine.settle, e, out);
    }
    return TL_END;
}

/* ---- results --------------------------------------------------------------------------------- */

static tl_err acquired(tl_operation *op) {
    tl_hold hold = op->kind == OP_QUEUING ? op->turn.hold
                                          : tl__lock_hold_of(op->lock, &op->machine.acquire);
    return tl__hold_begin_in(op->lock, &hold, tl__client_seed(op->client));
}

static void completed(tl_operation *op, const tl_out *out) {
    tl_lock *lock = op->lock;
    const char *words = out->words;
    bool releasing = op->kind == OP_RELEASING;
    op->completed = true;
    op->code = op->machine.result.code;
    if (!lock)
        return;
    if (!releasing && op->code == TL_OK && acquired(op)) {
        op->code = TL_ENOMEM;
        words = "out of memory";
    }
    if (releasing)
        tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    else
        (void)tl__lock_was_cancelled(lock);
    if (releasing || op->code)
        tl__gate_leave(&op->client->gate, &lock->place);
    if (op->code)
        (void)tl__lock_fail_by(lock, op->code, releasing ? "release" : "acquire",
                               releasing ? words : tl__lock_busy(lock, op->code, words),
                               out->sys_errno, &op->err);
    tl__keeper_report(&op->client->keeper, &op->report);
}

/* Closing the client waits a while for it. */
static void linger(tl_operation *op) {
    if (!op->lingers)
        op->client->keeper.detached++;
    op->lingers = true;
}

/* After each step, under keeper.mutex. */
static void stepped(tl_task *task, const tl_out *out, tl_status status) {
    tl_operation *op = OP_OF(task, task);
    if (status == TL_GO)
        return;
    if (!op->completed)
        completed(op, out);
    if (status == TL_DETACH)
        linger(op);
    op->over = status == TL_END;
    if (op->over && op->lingers)
        op->client->keeper.detached--;
    let_go(op);
}

static void tell(tl_report *report) {
    tl_operation *op = OP_OF(report, report);
    tl_lock *lock = op->lock;
    tl_keeper *k = &op->client->keeper;
    tl_err code = op->code;
    atomic_store(&lock->op, NULL); /* from here on the lock may begin another */
    op->done(lock, code, code ? &op->err : NULL, op->ctx);
    tl__keeper_lock(k);
    op->told = true;
    let_go(op);
    tl__keeper_unlock(k);
}

void tl__async_cancel(tl_lock *lock) {
    tl_keeper *k = &lock->client->keeper;
    if (!atomic_load(&lock->op))
        return;
    tl__keeper_lock(k);
    tl_operation *op = atomic_load(&lock->op);
    if (op && op->kind != OP_RELEASING && !op->completed)
        tl__keeper_post(k, &op->task, TL_WAKE_CANCEL);
    tl__keeper_unlock(k);
}

/* Without its lock it can only end, or clean up. True: it has acquired, and nobody was told. */
static bool cut_off(tl_operation *op) {
    tl_keeper *k = &op->client->keeper;
    if (op->kind != OP_RELEASING && !op->completed)
        tl__keeper_tell(k, &op->task, TL_CANCEL);
    tl__keeper_unreport(k, &op->report);
    bool holds = op->kind != OP_RELEASING && op->completed && op->code == TL_OK;
    op->lock = NULL;
    if (!op->over)
        linger(op);
    let_go(op);
    return holds;
}

void tl__async_abandon(tl_lock *lock) {
    tl_keeper *k = &lock->client->keeper;
    tl__keeper_lock(k);
    tl__keeper_await_told(k, lock);
    tl_operation *op = atomic_load(&lock->op);
    bool holds = op && cut_off(op);
    atomic_store(&lock->op, NULL);
    tl__keeper_unlock(k);
    if (!holds)
        return;
    (void)tl__hold_stop(lock);
    tl__hold_drop(lock);
}

/* ---- the public face ------------------------------------------------------------------------- */

static tl_err start(tl_operation *op, const char *what, tl_error *err) {
    tl_lock *lock = op->lock;
    tl_keeper *k = &lock->client->keeper;
    tl_err code = tl__keeper_ready(k);
    if (!code) {
        tl__keeper_lock(k);
        atomic_store(&lock->op, op);
        code = tl__keeper_add(k, &op->task, TL_START);
        tl__keeper_unlock(k);
    }
    if (!code)
        return TL_OK;
    atomic_store(&lock->op, NULL);
    tl__gate_leave(&lock->client->gate, &lock->place); /* a release that could not begin */
    op->over = op->told = true;
    let_go(op);
    return tl__lock_fail(lock, code, what, "out of memory or threads", err);
}

/* It has been passed on already: only to be told, by a keeper that runs since it was held. */
static tl_err tell_only(tl_operation *op) {
    tl_keeper *k = &op->client->keeper;
    op->completed = op->over = true;
    tl__keeper_lock(k);
    atomic_store(&op->lock->op, op);
    tl__keeper_report(k, &op->report);
    tl__keeper_unlock(k);
    return TL_OK;
}

tl_err tl_lock_acquire_async(tl_lock *lock, int64_t wait_ms, tl_done done, void *ctx,
                             tl_error *err) {
    tl_err code = tl__lock_begin_acquire(lock, wait_ms, err);
    if (code)
        return code;
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "no function to call", err);
    tl_operation *op = new_op(lock, done, ctx);
    if (!op)
        return tl__lock_fail(lock, TL_ENOMEM, "acquire", "out of memory", err);
    op->wait_ms = wait_ms;
    lock->token = tl__client_token(lock->client);
    return start(op, "acquire", err);
}

tl_err tl_lock_release_async(tl_lock *lock, tl_done done, void *ctx, tl_error *err) {
    bool passed = false;
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, "release", "no function to call", err);
    tl_operation *op = new_op(lock, done, ctx);
    if (!op)
        return tl__lock_fail(lock, TL_ENOMEM, "release", "out of memory", err);
    tl_mono believed = {atomic_load(&lock->deadline_ns)};
    tl_err code = tl__lock_begin_release(lock, &passed, err);
    if (code) {
        op->over = op->told = true;
        let_go(op);
        return code;
    }
    op->kind = OP_RELEASING;
    if (passed)
        return tell_only(op);
    tl_job job = tl__lock_job(lock);
    tl__settle_init(&op->machine.settle, &job, TL_DROP, believed, tl__client_seed(op->client));
    return start(op, "release", err);
}

int tl_client_fd(const tl_client *client) {
    return tl__client_is_here(client) ? client->keeper.ready : -1;
}

int tl_client_dispatch(tl_client *client) {
    if (!tl__client_is_here(client) || client->keeper.ready < 0)
        return 0;
    return (int)tl__keeper_dispatch(&client->keeper);
}
