/*
 * Acquiring and releasing without blocking. The keeper runs the machines that a caller that blocks would run,
 * behind the same local queue. The result is reported like an event of the lock.
 *
 * An operation must report its result exactly once, unless its lock is freed first. It must live until its
 * machine has cleaned up. With tl_runner.asks_all the keeper also runs the operations of callers that block.
 */
#include "client/async.h"

#include <stddef.h>
#include <stdlib.h>

#include "client/backend.h"
#include "client/lock_acquire.h"
#include "ground/cancel.h"
#include "ground/guard.h"

typedef enum { ACQUIRES, RELEASES, EXTENDS } does;

typedef struct tl_operation {
    tl_task task;
    tl_listener listener;
    tl_report report;
    tl_lock *lock; /* NULL: it was freed */
    tl_client *client;
    tl_name *name; /* also held by the lock, unless it `lingers` */
    tl_done_fn done;
    void *ctx;
    tl_waiter *waiter; /* a caller that blocks; NULL: `done` is called */
    does does;
    bool renewed; /* EXTENDS: the keeper still renews the lock */
    bool completed, lingers, over, reported;
    bool unrested; /* RELEASES: it was to rest, and is lost */
    tl_err code;
    tl_error err;
    int64_t
        ms; /* EXTENDS: the lifetime; RELEASES: how long the lock rests from its acquire on, 0: not at all */
    /* Begins with its result. ACQUIRES: a tl_acquiring, followed by tl_asker.room bytes; else
     * tl_settling.size bytes. */
    _Alignas(max_align_t) unsigned char machine[];
} tl_operation;

#define OP_OF(pointer, member) ((tl_operation *)((char *)(pointer)-offsetof(tl_operation, member)))

/* ---- life ------------------------------------------------------------------------------------ */

static tl_machine machine(tl_task *task);
static void stepped(tl_task *task, const tl_out *out, tl_status status);
static void on_wake(tl_listener *listener, unsigned flags);
static void tell(tl_report *report);
static void after_call(tl_report *report);

static const tl_settling *settling_of(const tl_operation *op) {
    return op->client->backend->holder->settling;
}

static size_t room_of(const tl_backend *backend) {
    size_t acquires = sizeof(tl_acquiring) + backend->asker->room;
    size_t settles = backend->holder->settling->size;
    return sizeof(tl_operation) + (acquires > settles ? acquires : settles);
}

/* With keeper.mutex held, as for all functions of an operation, but for its report. */
static tl_operation *new_op(tl_lock *lock, does does, tl_done_fn done, void *ctx) {
    static const tl_task_kind kind = {.machine = machine, .stepped = stepped};
    tl_client *client = lock->client;
    tl_operation *op = tl__keeper_take_room(&client->keeper, room_of(client->backend));
    if (!op)
        return NULL;
    *op = (tl_operation){.task.kind = &kind,
                         .listener.on_wake = on_wake,
                         .report = {.call = tell, .called = after_call, .owner = lock},
                         .lock = lock,
                         .client = client,
                         .name = lock->name,
                         .done = done,
                         .ctx = ctx,
                         .does = does};
    tl__keeper_operates(&client->keeper, 1);
    return op;
}

/* Free the operation, once its machine has ended and its result was reported (or its lock freed). */
static void let_go(tl_operation *op) {
    if ((GUARD(operation_until_its_end) && !op->over) ||
        (GUARD(operation_until_reported) && !(op->reported || !op->lock)))
        return;
    tl__keeper_operates(&op->client->keeper, -1);
    if (op->lingers)
        tl__name_release(op->name);
    tl__keeper_give_room(&op->client->keeper, op);
}

static const char *const names[] = {
    [ACQUIRES] = "acquire", [RELEASES] = "release", [EXTENDS] = "extend"};

static const char *name_of(const tl_operation *op) {
    return op->does == RELEASES && (op->ms > 0 || op->unrested) ? "rest" : names[op->does];
}

static tl_machine machine(tl_task *task) {
    tl_operation *op = OP_OF(task, task);
    tl_step step = op->does == ACQUIRES ? tl__lock_acquire_step : settling_of(op)->step;
    return (tl_machine){op->machine, step, name_of(op), tl__name_key(op->name)};
}

static const tl_result *result_of(const tl_operation *op) {
    return (const tl_result *)op->machine;
}

static void on_wake(tl_listener *listener, unsigned flags) {
    tl_operation *op = OP_OF(listener, listener);
    tl__keeper_post(&op->client->keeper, &op->task, flags);
}

/* ---- results --------------------------------------------------------------------------------- */

static tl_err acquired(tl_operation *op) {
    tl_acquiring *machine = (tl_acquiring *)op->machine;
    tl_hold hold = tl__lock_acquired(machine);
    return tl__hold_begin_in(op->lock, &hold, tl__lock_acquired_seed(machine));
}

/* For callers that block, the blocking function counts. */
static void count(const tl_operation *op) {
    static const tl_counted what[] = {TL_COUNT_ACQUIRES, TL_COUNT_RELEASES, TL_COUNT_EXTENDS};
    if (!op->waiter)
        tl__count_call_in(&op->client->counts, what[op->does], op->code);
}

static void completed(tl_operation *op, const tl_out *out) {
    tl_lock *lock = op->lock;
    const char *message = out->message;
    op->completed = true;
    op->code = result_of(op)->code;
    if (!lock) {
        count(op);
        return;
    }
    if (!op->waiter && GUARD(end_before_loss))
        tl__keeper_report(&op->client->keeper, &op->report); /* before any event of the hold */
    if (op->does == ACQUIRES && op->code == TL_OK && acquired(op)) {
        op->code = TL_ENOMEM;
        message = "out of memory";
    }
    if (op->unrested && op->code == TL_OK) {
        op->code = TL_EEXPIRED;
        message = TL_LOST_RESTS_NOT;
    }
    if (op->does == RELEASES)
        tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    if (op->does == ACQUIRES && GUARD(cancel_spent_async))
        (void)tl__lock_was_cancelled(lock);
    if ((op->does == RELEASES && GUARD(async_release_leaves_front)) ||
        (op->does == ACQUIRES && op->code && GUARD(async_failure_leaves_front)))
        tl__gate_leave(&op->client->gate, &lock->gate_node);
    if (op->does == EXTENDS)
        op->renewed = settling_of(op)->extended(lock, op->ms, op->machine);
    if (op->code)
        (void)tl__lock_fail_by(lock, op->code, name_of(op),
                               op->does == ACQUIRES ? tl__lock_busy(lock, op->code, message)
                                                    : message,
                               out->sys_errno, &op->err);
    if (!op->waiter && !GUARD(end_before_loss))
        tl__keeper_report(&op->client->keeper, &op->report);
    count(op);
    if (op->waiter)
        tl__waiter_post(op->waiter, TL_WAKE_ANSWERED);
}

/* It may outlive its lock. tl_client_close waits a while for it. */
static void linger(tl_operation *op) {
    if (op->lingers)
        return;
    op->lingers = true;
    (void)tl__name_hold(op->name);
    if (GUARD(close_awaits_operation))
        op->client->keeper.detached++;
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
    if (op->over && op->lingers && GUARD(close_awaits_operation))
        op->client->keeper.detached--;
    let_go(op);
}

static void tell(tl_report *report) {
    tl_operation *op = OP_OF(report, report);
    tl_lock *lock = op->lock;
    tl_err code = op->code;
    if (GUARD(callback_may_begin_next))
        atomic_store(&lock->op, NULL); /* from here on the lock may begin another operation */
    op->done(lock, code, code ? &op->err : NULL, op->ctx);
}

static void after_call(tl_report *report) {
    tl_operation *op = OP_OF(report, report);
    op->reported = true;
    let_go(op);
}

void tl__async_cancel(tl_lock *lock) {
    tl_keeper *keeper = &lock->client->keeper;
    if (!atomic_load(&lock->op))
        return;
    tl__keeper_lock(keeper);
    tl_operation *op = atomic_load(&lock->op);
    if (GUARD(cancel_ends_operation) && op && op->does == ACQUIRES && !op->completed)
        tl__keeper_post(keeper, &op->task, TL_WAKE_CANCEL);
    tl__keeper_unlock(keeper);
}

/* The lock is being freed: the operation can only end or clean up. True: it has acquired the lock. */
static bool cut_off(tl_operation *op) {
    tl_keeper *keeper = &op->client->keeper;
    if (GUARD(free_cancels_acquire) && op->does == ACQUIRES && !op->completed)
        tl__keeper_tell(keeper, &op->task, TL_CANCEL);
    if (GUARD(freed_is_not_called))
        tl__keeper_unreport(keeper, &op->report);
    bool holds = GUARD(free_releases_acquired) && op->does == ACQUIRES && op->completed &&
                 op->code == TL_OK;
    if (GUARD(freed_lock_forgotten))
        op->lock = NULL;
    if (!op->over)
        linger(op);
    let_go(op);
    return holds;
}

void tl__async_abandon(tl_lock *lock) {
    tl_keeper *keeper = &lock->client->keeper;
    tl__keeper_lock(keeper);
    if (GUARD(free_awaits_done))
        tl__keeper_await_reported(keeper, lock);
    tl_operation *op = atomic_load(&lock->op);
    bool holds = op && cut_off(op);
    atomic_store(&lock->op, NULL);
    tl__keeper_unlock(keeper);
    if (!holds)
        return;
    (void)tl__hold_stop(lock);
    tl__hold_undo(lock);
}

/* ---- beginning ------------------------------------------------------------------------------- */

static void init_acquire(tl_operation *op, int64_t wait_ms, const tl_token *token) {
    tl_acquiring *machine = (tl_acquiring *)op->machine;
    op->lock->token = *token;
    tl__lock_acquire_init(machine, op->lock, wait_ms, &op->listener,
                          tl__keeper_seed(&op->client->keeper));
    op->task.listener = machine->asker->attach
                            ? machine->asker->attach(machine, machine + 1, &op->task)
                            : &op->listener;
}

/* Extend or release; ms: as op->ms. */
static void init_settle(tl_operation *op, int64_t ms) {
    tl_lock *lock = op->lock;
    uint64_t seed = tl__keeper_seed(&op->client->keeper);
    tl_job job = tl__lock_job(lock);
    bool extends = op->does == EXTENDS;
    op->ms = ms;
    if (extends)
        job.ttl_ms = ms;
    else
        tl__hold_rest(lock, ms, &job);
    settling_of(op)->init(op->machine, lock, &job, extends ? TL_RENEW : TL_RELEASE, seed);
}

/* ---- the public face ------------------------------------------------------------------------- */

static tl_err start(tl_operation *op) {
    tl_lock *lock = op->lock;
    tl_keeper *keeper = &lock->client->keeper;
    atomic_store(&lock->op, op); /* from here on tl__async_cancel posts to it */
    bool cancelled = GUARD(cancel_before_start) && op->does == ACQUIRES &&
                     tl__lock_was_cancelled(lock);
    tl_err code = tl__keeper_add(keeper, &op->task, cancelled ? TL_CANCEL : TL_START);
    tl__keeper_began(keeper);
    if (!code)
        return TL_OK;
    atomic_store(&lock->op, NULL);
    if (op->does != EXTENDS)
        tl__gate_leave(&lock->client->gate, &lock->gate_node); /* a release that could not begin */
    op->over = op->reported = true;
    let_go(op);
    return code;
}

/* The hold was passed on already, so only the result must be reported. The keeper runs since
 * the lock was held. */
static tl_err tell_only(tl_operation *op) {
    op->completed = op->over = true;
    count(op);
    atomic_store(&op->lock->op, op);
    tl__keeper_report(&op->client->keeper, &op->report);
    return TL_OK;
}

static tl_err fail(const tl_lock *lock, tl_err code, const char *what, tl_error *err) {
    return code ? tl__lock_fail(lock, code, what, "out of memory or threads", err) : TL_OK;
}

static tl_err acquire_in(tl_lock *lock, int64_t wait_ms, const tl_token *token, tl_done_fn done,
                         void *ctx) {
    tl_operation *op = new_op(lock, ACQUIRES, done, ctx);
    tl__lock_begin_acquire_in(lock);
    if (!op)
        return TL_ENOMEM;
    init_acquire(op, wait_ms, token);
    return start(op);
}

static tl_err acquire(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx, tl_error *err) {
    tl_keeper *keeper = &lock->client->keeper;
    tl_err code = tl__lock_may_acquire(lock, wait_ms, err);
    if (code)
        return code;
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "the callback `done` is NULL", err);
    code = tl__keeper_ready(keeper);
    if (!code) {
        const tl_token token = tl__token_draw(); /* a system call: not with the mutex */
        tl__keeper_lock(keeper);
        code = acquire_in(lock, wait_ms, &token, done, ctx);
        tl__keeper_unlock(keeper);
    }
    return fail(lock, code, "acquire", err);
}

/* Count a call that could not begin. One that has begun is counted when it ends. */
static tl_err begun(const tl_lock *lock, tl_counted what, tl_err code) {
    return code ? tl__count_call(&lock->client->counts, what, code) : TL_OK;
}

tl_err tl_lock_acquire_async(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx,
                             tl_error *err) {
    TL_UNCANCELLED;
    return begun(lock, TL_COUNT_ACQUIRES, acquire(lock, wait_ms, done, ctx, err));
}

/* There is no memory for a request: the handle doesn't hold the lock any more, and it expires by itself. */
static tl_err release_without(tl_lock *lock, int64_t rest_ms, tl_error *err) {
    const char *what = rest_ms > 0 ? "rest" : "release";
    bool passed = false;
    tl_err code = tl__hold_begin_release(lock, true, &rest_ms, &passed, err);
    if (code)
        return code;
    if (!passed)
        tl__gate_leave(&lock->client->gate, &lock->gate_node);
    return fail(lock, TL_ENOMEM, what, err);
}

/* asked: to rest, and not only by min_hold_ms. */
static tl_err release_in(tl_lock *lock, int64_t rest_ms, bool asked, tl_done_fn done, void *ctx,
                         tl_error *err) {
    const char *what = rest_ms > 0 ? "rest" : "release";
    const int64_t wanted_ms = rest_ms;
    bool passed = false;
    tl_operation *op = new_op(lock, RELEASES, done, ctx);
    if (!op)
        return release_without(lock, rest_ms, err);
    tl_err code = tl__hold_begin_release(lock, true, &rest_ms, &passed, err);
    if (code) {
        op->over = op->reported = true;
        let_go(op);
        return code;
    }
    if (passed)
        return tell_only(op);
    op->unrested = asked && rest_ms != wanted_ms;
    init_settle(op, rest_ms);
    return fail(lock, start(op), what, err);
}

static tl_err release(tl_lock *lock, int64_t rest_ms, bool asked, tl_done_fn done, void *ctx,
                      tl_error *err) {
    tl_keeper *keeper = &lock->client->keeper;
    const char *what = rest_ms > 0 ? "rest" : "release";
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, what, "the callback `done` is NULL", err);
    /* First of all: in a forked child the mutex may be locked for ever. */
    tl_err code = tl__lock_check(lock, what, err);
    if (code)
        return code;
    code = tl__keeper_ready(keeper);
    if (code)
        return fail(lock, code, what, err);
    tl__keeper_lock(keeper);
    code = release_in(lock, rest_ms, asked, done, ctx, err);
    tl__keeper_unlock(keeper);
    return code;
}

tl_err tl_lock_release_async(tl_lock *lock, tl_done_fn done, void *ctx, tl_error *err) {
    TL_UNCANCELLED;
    return begun(lock, TL_COUNT_RELEASES,
                 release(lock, lock->rare->min_hold_ms, false, done, ctx, err));
}

tl_err tl_lock_rest_async(tl_lock *lock, int64_t ms, tl_done_fn done, void *ctx, tl_error *err) {
    TL_UNCANCELLED;
    tl_err code = tl__lock_check_rest(lock, &ms, err);
    return begun(lock, TL_COUNT_RELEASES, code ? code : release(lock, ms, true, done, ctx, err));
}

/* ---- for callers that block --------------------------------------------------------------------- */

typedef struct {
    tl_operation *op;
    tl_lock *lock;
    const tl_operation_cancel *cancel; /* NULL: the thread isn't cancelled */
} caller;

/* Wait until the operation has completed. Returns with keeper.mutex locked. */
static void await_end(void *of) {
    const caller *c = of;
    tl_operation *op = c->op;
    tl_keeper *keeper = &op->client->keeper;
    tl__keeper_lock(keeper);
    while (!op->completed) {
        tl__keeper_unlock(keeper);
        tl__waiter_await(op->waiter, TL_NEVER, c->cancel ? &c->cancel->state : NULL);
        (void)tl__waiter_posts(op->waiter);
        tl__keeper_lock(keeper);
    }
}

/* Take the result, and unlock keeper.mutex. The operation lives on if it has something to clean up. */
static tl_err conclude(tl_operation *op, tl_operation_extended *ret, tl_error *err) {
    tl_keeper *keeper = &op->client->keeper;
    tl_err code = op->code;
    if (code && err)
        *err = op->err;
    if (ret)
        *ret = (tl_operation_extended){.renewed = op->renewed, .result = *result_of(op)};
    atomic_store(&op->lock->op, NULL);
    op->reported = true;
    let_go(op);
    tl__keeper_unlock(keeper);
    return code;
}

/* The thread was cancelled while it waited. If the lock was acquired all the same, release it:
 * nobody else would. */
static void thread_ends(void *of) {
    caller *c = of;
    tl_client *client = c->lock->client;
    tl_waiter *waiter = c->op->waiter;
    tl_err (*undo)(tl_lock *, tl_error *) = c->cancel->release;
    c->cancel = NULL;
    tl__async_cancel(c->lock);
    await_end(c);
    tl_err code = conclude(c->op, NULL, NULL);
    tl__waiter_give(client, waiter);
    if (tl__count_call(&client->counts, TL_COUNT_ACQUIRES, code) == TL_OK)
        (void)undo(c->lock, NULL);
}

static void await_caller(tl_lock *lock, tl_operation *op, const tl_operation_cancel *cancel) {
    caller c = {.op = op, .lock = lock, .cancel = cancel};
    if (cancel)
        tl__cancel_guard(await_end, thread_ends, &c);
    else
        await_end(&c);
}

static tl_err call_in(tl_lock *lock, does does, int64_t ms, const tl_token *token,
                      tl_waiter *waiter, tl_operation **ret) {
    tl_operation *op = *ret = new_op(lock, does, NULL, NULL);
    if (!op)
        return TL_ENOMEM;
    op->waiter = waiter;
    if (does == ACQUIRES)
        init_acquire(op, ms, token);
    else
        init_settle(op, ms);
    return start(op);
}

/* cancel: for ACQUIRES only. */
static tl_err call(tl_lock *lock, does does, int64_t ms, const tl_operation_cancel *cancel,
                   tl_operation_extended *ret, tl_error *err) {
    tl_client *client = lock->client;
    tl_operation *op = NULL;
    tl_waiter *waiter = tl__keeper_ready(&client->keeper) ? NULL : tl__waiter_take(client);
    tl_err code = TL_ENOMEM;
    if (waiter) {
        const tl_token token = does == ACQUIRES ? tl__token_draw() : (tl_token){0};
        tl__keeper_lock(&client->keeper);
        code = call_in(lock, does, ms, &token, waiter, &op);
        tl__keeper_unlock(&client->keeper);
    }
    if (code) {
        (void)tl__lock_fail(lock, code, names[does], "out of memory, threads or descriptors", err);
    } else {
        await_caller(lock, op, cancel);
        code = conclude(op, ret, err);
    }
    if (waiter)
        tl__waiter_give(client, waiter);
    return code;
}

tl_err tl__operation_acquire(tl_lock *lock, int64_t wait_ms, const tl_operation_cancel *cancel,
                             tl_error *err) {
    return call(lock, ACQUIRES, wait_ms, cancel, NULL, err);
}

tl_err tl__operation_release(tl_lock *lock, int64_t rest_ms, tl_error *err) {
    return call(lock, RELEASES, rest_ms, NULL, NULL, err);
}

tl_err tl__operation_extend(tl_lock *lock, int64_t ttl_ms, tl_operation_extended *ret,
                            tl_error *err) {
    return call(lock, EXTENDS, ttl_ms, NULL, ret, err);
}

int tl_client_fd(const tl_client *client) {
    return tl__client_is_here(client) ? client->keeper.gather : -1;
}

int tl_client_dispatch(tl_client *client) {
    TL_UNCANCELLED;
    if (!tl__client_is_here(client) || client->keeper.ready < 0)
        return 0;
    return (int)tl__keeper_dispatch(&client->keeper);
}
