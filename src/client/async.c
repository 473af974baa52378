/*
 * Acquiring and releasing without blocking. The keeper runs the same machines as a caller
 * that blocks would, behind the same local queue; the result is told like an event of the lock. An
 * operation must be told exactly once, unless its lock is freed first, and outlive whatever its
 * machine has left to clean up.
 */
#include "client/async.h"

#include <stdlib.h>

#include "client/lock_acquire.h"
#include "ground/error.h"
#include "protocol/settle.h"

typedef struct tl_operation {
    tl_task task;
    tl_listener listener;
    tl_report report;
    tl_lock *lock; /* NULL: it has been freed */
    tl_client *client;
    tl_name *name;
    tl_done_fn done;
    void *ctx;
    bool releases; /* or else acquires */
    bool completed, lingers, over, told;
    tl_err code;
    tl_error err;
    union {
        tl_result result; /* of either */
        tl_acquiring acquire;
        tl_settle settle;
    } machine;
} tl_operation;

#define OP_OF(pointer, member) ((tl_operation *)((char *)(pointer)-offsetof(tl_operation, member)))

/* ---- life ------------------------------------------------------------------------------------ */

static tl_machine machine(tl_task *task);
static void stepped(tl_task *task, const tl_out *out, tl_status status);
static void hear(tl_listener *listener, unsigned flags);
static void tell(tl_report *report);

static tl_operation *new_op(tl_lock *lock, tl_done_fn done, void *ctx) {
    static const tl_task_kind kind = {.machine = machine, .stepped = stepped};
    tl_operation *op = calloc(1, sizeof *op);
    if (!op)
        return NULL;
    op->task = (tl_task){.kind = &kind, .listener = &op->listener};
    op->listener.hear = hear;
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

static tl_machine machine(tl_task *task) {
    tl_operation *op = OP_OF(task, task);
    return (tl_machine){&op->machine, op->releases ? tl__settle_step : tl__lock_acquire_step,
                        op->releases ? "release" : "acquire", tl__name_key(op->name)};
}

static void hear(tl_listener *listener, unsigned flags) {
    tl_operation *op = OP_OF(listener, listener);
    tl__keeper_post(&op->client->keeper, &op->task, flags);
}

/* ---- results --------------------------------------------------------------------------------- */

static tl_err acquired(tl_operation *op) {
    tl_hold hold = tl__lock_acquired(&op->machine.acquire);
    return tl__hold_begin_in(op->lock, &hold, tl__client_seed(op->client));
}

static void completed(tl_operation *op, const tl_out *out) {
    tl_lock *lock = op->lock;
    const char *words = out->words;
    bool releasing = op->releases;
    op->completed = true;
    op->code = op->machine.result.code;
    if (!lock)
        return;
    tl__keeper_report(&op->client->keeper, &op->report); /* before what befalls the hold */
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
    if (op && !op->releases && !op->completed)
        tl__keeper_post(k, &op->task, TL_WAKE_CANCEL);
    tl__keeper_unlock(k);
}

/* Without its lock it can only end, or clean up. True: it has acquired, and nobody was told. */
static bool cut_off(tl_operation *op) {
    tl_keeper *k = &op->client->keeper;
    if (!op->releases && !op->completed)
        tl__keeper_tell(k, &op->task, TL_CANCEL);
    tl__keeper_unreport(k, &op->report);
    bool holds = !op->releases && op->completed && op->code == TL_OK;
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
    tl__hold_undo(lock);
}

/* ---- the public face ------------------------------------------------------------------------- */

static tl_err start(tl_operation *op, const char *what, tl_error *err) {
    tl_lock *lock = op->lock;
    tl_keeper *k = &lock->client->keeper;
    tl_err code = tl__keeper_ready(k);
    if (!code) {
        tl__keeper_lock(k);
        atomic_store(&lock->op, op); /* from here on a cancel is posted */
        bool cancelled = !op->releases && tl__lock_was_cancelled(lock);
        code = tl__keeper_add(k, &op->task, cancelled ? TL_CANCEL : TL_START);
        tl__keeper_began(k);
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

tl_err tl_lock_acquire_async(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx,
                             tl_error *err) {
    tl_err code = tl__lock_begin_acquire(lock, wait_ms, err);
    if (code)
        return code;
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "no function to call", err);
    tl_operation *op = new_op(lock, done, ctx);
    if (!op)
        return tl__lock_fail(lock, TL_ENOMEM, "acquire", "out of memory", err);
    lock->token = tl__client_token(lock->client);
    tl__lock_acquire_init(&op->machine.acquire, lock, wait_ms, &op->listener);
    return start(op, "acquire", err);
}

tl_err tl_lock_release_async(tl_lock *lock, tl_done_fn done, void *ctx, tl_error *err) {
    bool passed = false;
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, "release", "no function to call", err);
    tl_operation *op = new_op(lock, done, ctx);
    if (!op)
        return tl__lock_fail(lock, TL_ENOMEM, "release", "out of memory", err);
    tl_mono believed = {atomic_load(&lock->deadline_ns)};
    tl_err code = tl__hold_begin_release(lock, &passed, err);
    if (code) {
        op->over = op->told = true;
        let_go(op);
        return code;
    }
    op->releases = true;
    if (passed)
        return tell_only(op);
    tl_job job = tl__lock_job(lock);
    tl__settle_init(&op->machine.settle, &job, TL_RELEASE, believed, tl__client_seed(op->client));
    return start(op, "release", err);
}

int tl_client_fd(const tl_client *client) {
    return tl__client_is_here(client) ? client->keeper.gather : -1;
}

int tl_client_dispatch(tl_client *client) {
    if (!tl__client_is_here(client) || client->keeper.ready < 0)
        return 0;
    return (int)tl__keeper_dispatch(&client->keeper);
}
