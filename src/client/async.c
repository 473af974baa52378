/*
 * Acquiring and releasing without blocking. The keeper runs the same machines as a caller
 * that blocks would, behind the same local queue; the result is told like an event of the lock. An
 * operation must be told exactly once, unless its lock is freed first, and outlive whatever its
 * machine has left to clean up.
 */
#include "client/async.h"

#include <stddef.h>
#include <stdlib.h>

#include "client/lock_acquire.h"
#include "ground/cancel.h"
#include "ground/error.h"
#include "ground/guard.h"
#include "protocol/quorum_settle.h"
#include "protocol/settle.h"

typedef enum { ACQUIRES, RELEASES, EXTENDS } does;

/* What it has of several servers. */
typedef struct {
    tl_listener listener[TL_QUORUM_MAX];
    tl_news news;
    union {
        tl_result result;
        tl_quorum_acquisition acquire;
        tl_quorum_settlement settle;
    } machine;
} votes;

typedef struct tl_operation {
    tl_task task;
    tl_listener listener;
    tl_report report;
    tl_lock *lock; /* NULL: it has been freed */
    tl_client *client;
    tl_name *name;
    tl_done_fn done;
    void *ctx;
    tl_waiter *waiter; /* a caller that blocks; NULL: `done` is called */
    does does;
    bool renewed; /* EXTENDS: the keeper renews it still */
    bool completed, lingers, over, told;
    tl_err code;
    tl_error err;
    votes *votes;   /* of several servers: it has the machine; NULL: of one */
    int64_t ttl_ms; /* EXTENDS */
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
static void hear_one(tl_listener *listener, unsigned flags);
static void tell(tl_report *report);

/* In one piece: a pointer back from `votes` is a matter of arithmetic. */
typedef struct {
    tl_operation op; /* first */
    votes votes;
} op_with_votes;

static void add_votes(tl_operation *op) {
    static const tl_task_kind kind = {.votes = true, .machine = machine, .stepped = stepped};
    op->votes = &((op_with_votes *)op)->votes;
    op->task = (tl_task){.kind = &kind, .listener = op->votes->listener};
    for (unsigned i = 0; i < TL_QUORUM_MAX; i++) {
        op->votes->listener[i].hear = hear_one;
        op->votes->listener[i].server = (uint8_t)i;
    }
}

static tl_operation *new_op(tl_lock *lock, tl_done_fn done, void *ctx) {
    static const tl_task_kind kind = {.machine = machine, .stepped = stepped};
    tl_operation *op = calloc(1, tl__lock_has_votes(lock) ? sizeof(op_with_votes) : sizeof *op);
    if (!op)
        return NULL;
    op->task = (tl_task){.kind = &kind, .listener = &op->listener};
    op->listener.hear = hear;
    if (tl__lock_has_votes(lock))
        add_votes(op);
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
    if ((GUARD(operation_until_its_end) && !op->over) ||
        (GUARD(operation_until_reported) && !(op->told || !op->lock)))
        return;
    atomic_fetch_sub(&op->client->callers, 1);
    tl__name_release(op->name);
    free(op);
}

static const char *const names[] = {
    [ACQUIRES] = "acquire", [RELEASES] = "release", [EXTENDS] = "extend"};

static tl_machine machine(tl_task *task) {
    tl_operation *op = OP_OF(task, task);
    tl_machine m = {&op->machine, tl__lock_acquire_step, names[op->does], tl__name_key(op->name)};
    if (op->does == ACQUIRES)
        return m;
    m.state = op->votes ? (void *)&op->votes->machine : &op->machine;
    m.step = op->votes ? tl__quorum_settle_step : tl__settle_step;
    return m;
}

static const tl_result *result_of(const tl_operation *op) {
    return op->votes && op->does != ACQUIRES ? &op->votes->machine.result : &op->machine.result;
}

static void hear(tl_listener *listener, unsigned flags) {
    tl_operation *op = OP_OF(listener, listener);
    tl__keeper_post(&op->client->keeper, &op->task, flags);
}

static void forget_armed(tl_news *news, uint8_t bit) {
    news->armed &= (uint8_t)~bit;
    news->disarmed &= (uint8_t)~bit;
}

/* Of one of several servers: its machine is given that when the thread looks after posts. */
static void hear_one(tl_listener *listener, unsigned flags) {
    votes *v = (votes *)((char *)(listener - listener->server) - offsetof(votes, listener));
    tl_operation *op = (tl_operation *)((char *)v - offsetof(op_with_votes, votes));
    uint8_t bit = (uint8_t)(1U << listener->server);
    if (flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED))
        forget_armed(&v->news, bit); /* the newest counts */
    v->news.armed |= flags & TL_WAKE_ARMED ? bit : 0;
    v->news.disarmed |= flags & TL_WAKE_DISARMED ? bit : 0;
    v->news.woken |= flags & TL_WAKE_WOKEN ? bit : 0;
    tl__keeper_post(&op->client->keeper, &op->task, TL_WAKE_WOKEN);
}

/* ---- results --------------------------------------------------------------------------------- */

static tl_err acquired(tl_operation *op) {
    tl_hold hold = tl__lock_acquired(&op->machine.acquire);
    return tl__hold_begin_in(op->lock, &hold, tl__client_seed(op->client));
}

/* A caller that blocks counts his call himself. */
static void count(const tl_operation *op) {
    static const tl_counted what[] = {TL_COUNT_ACQUIRES, TL_COUNT_RELEASES, TL_COUNT_EXTENDS};
    if (!op->waiter)
        (void)tl__count_call(&op->client->counts, what[op->does], op->code);
}

static void completed(tl_operation *op, const tl_out *out) {
    tl_lock *lock = op->lock;
    const char *words = out->words;
    op->completed = true;
    op->code = result_of(op)->code;
    if (!lock) {
        count(op);
        return;
    }
    if (!op->waiter && GUARD(end_before_loss))
        tl__keeper_report(&op->client->keeper, &op->report); /* before what befalls the hold */
    if (op->does == ACQUIRES && op->code == TL_OK && acquired(op)) {
        op->code = TL_ENOMEM;
        words = "out of memory";
    }
    if (op->does == RELEASES)
        tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    if (op->does == ACQUIRES && GUARD(cancel_spent_async))
        (void)tl__lock_was_cancelled(lock);
    if ((op->does == RELEASES && GUARD(async_release_leaves_front)) ||
        (op->does == ACQUIRES && op->code && GUARD(async_failure_leaves_front)))
        tl__gate_leave(&op->client->gate, &lock->place);
    if (op->does == EXTENDS && op->code == TL_OK)
        op->renewed = tl__hold_extended_in(lock, op->ttl_ms, &op->votes->machine.settle.ballots);
    if (op->does == EXTENDS && op->code) /* what it has asked for may come yet */
        lock->votes->ballots.doubted |= op->votes->machine.settle.ballots.doubted;
    if (op->code)
        (void)tl__lock_fail_by(lock, op->code, names[op->does],
                               op->does == ACQUIRES ? tl__lock_busy(lock, op->code, words) : words,
                               out->sys_errno, &op->err);
    if (!op->waiter && !GUARD(end_before_loss))
        tl__keeper_report(&op->client->keeper, &op->report);
    count(op);
    if (op->waiter)
        tl__waiter_post(op->waiter, TL_WAKE_ANSWERED);
}

/* Closing the client waits a while for it. */
static void linger(tl_operation *op) {
    if (!op->lingers && GUARD(close_awaits_operation))
        op->client->keeper.detached++;
    op->lingers = GUARD(close_awaits_operation);
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
    if (GUARD(callback_may_begin_next))
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
    if (GUARD(cancel_ends_operation) && op && op->does == ACQUIRES && !op->completed)
        tl__keeper_post(k, &op->task, TL_WAKE_CANCEL);
    tl__keeper_unlock(k);
}

/* Without its lock it can only end, or clean up. True: it has acquired, and nobody was told. */
static bool cut_off(tl_operation *op) {
    tl_keeper *k = &op->client->keeper;
    if (GUARD(free_cancels_acquire) && op->does == ACQUIRES && !op->completed)
        tl__keeper_tell(k, &op->task, TL_CANCEL);
    if (GUARD(freed_is_not_called))
        tl__keeper_unreport(k, &op->report);
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
    tl_keeper *k = &lock->client->keeper;
    tl__keeper_lock(k);
    if (GUARD(free_awaits_done))
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

/* ---- beginning ------------------------------------------------------------------------------- */

static void init_acquire(tl_operation *op, int64_t wait_ms) {
    tl_acquiring *m = &op->machine.acquire;
    op->lock->token = tl__client_token(op->client);
    tl__lock_acquire_init(m, op->lock, wait_ms, &op->listener);
    if (op->votes)
        tl__lock_acquire_votes(m, &op->votes->machine.acquire, &op->votes->news);
}

/* ttl_ms 0: it releases. */
static void init_settle(tl_operation *op, int64_t ttl_ms) {
    tl_lock *lock = op->lock;
    uint64_t seed = tl__client_seed(op->client);
    tl__keeper_lock(&op->client->keeper);
    tl_job job = tl__lock_job(lock);
    op->ttl_ms = ttl_ms;
    job.ttl_ms = ttl_ms ? ttl_ms : job.ttl_ms;
    tl__quorum_settle_init(&op->votes->machine.settle, &job, &lock->votes->ballots,
                           ttl_ms ? TL_RENEW : TL_RELEASE, seed);
    tl__keeper_unlock(&op->client->keeper);
}

/* ---- the public face ------------------------------------------------------------------------- */

static tl_err start(tl_operation *op, tl_error *err) {
    tl_lock *lock = op->lock;
    tl_keeper *k = &lock->client->keeper;
    tl_err code = tl__keeper_ready(k);
    if (!code) {
        tl__keeper_lock(k);
        atomic_store(&lock->op, op); /* from here on a cancel is posted */
        bool cancelled = GUARD(cancel_before_start) && op->does == ACQUIRES &&
                         tl__lock_was_cancelled(lock);
        code = tl__keeper_add(k, &op->task, cancelled ? TL_CANCEL : TL_START);
        tl__keeper_began(k);
        tl__keeper_unlock(k);
    }
    if (!code)
        return TL_OK;
    const char *what = names[op->does];
    atomic_store(&lock->op, NULL);
    if (op->does != EXTENDS)
        tl__gate_leave(&lock->client->gate, &lock->place); /* a release that could not begin */
    op->over = op->told = true;
    let_go(op);
    (void)tl__lock_fail(lock, code, what, "out of memory or threads", err);
    return code;
}

/* It has been passed on already: only to be told, by a keeper that runs since it was held. */
static tl_err tell_only(tl_operation *op) {
    tl_keeper *k = &op->client->keeper;
    op->completed = op->over = true;
    count(op);
    tl__keeper_lock(k);
    atomic_store(&op->lock->op, op);
    tl__keeper_report(k, &op->report);
    tl__keeper_unlock(k);
    return TL_OK;
}

static tl_err acquire(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx, tl_error *err) {
    tl_err code = tl__lock_begin_acquire(lock, wait_ms, err);
    if (code)
        return code;
    if (!done)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "no function to call", err);
    tl_operation *op = new_op(lock, done, ctx);
    if (!op)
        return tl__lock_fail(lock, TL_ENOMEM, "acquire", "out of memory", err);
    init_acquire(op, wait_ms);
    return start(op, err);
}

/* What has begun counts when it has ended. */
static tl_err begun(const tl_lock *lock, tl_counted what, tl_err code) {
    return code ? tl__count_call(&lock->client->counts, what, code) : TL_OK;
}

tl_err tl_lock_acquire_async(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx,
                             tl_error *err) {
    TL_UNCANCELLED;
    return begun(lock, TL_COUNT_ACQUIRES, acquire(lock, wait_ms, done, ctx, err));
}

static tl_err release(tl_lock *lock, tl_done_fn done, void *ctx, tl_error *err) {
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
    op->does = RELEASES;
    if (passed)
        return tell_only(op);
    tl_job job = tl__lock_job(lock);
    if (op->votes)
        init_settle(op, 0);
    else
        tl__settle_init(&op->machine.settle, &job, TL_RELEASE, believed,
                        tl__client_seed(op->client));
    return start(op, err);
}

tl_err tl_lock_release_async(tl_lock *lock, tl_done_fn done, void *ctx, tl_error *err) {
    TL_UNCANCELLED;
    return begun(lock, TL_COUNT_RELEASES, release(lock, done, ctx, err));
}

/* ---- several servers, for callers that block --------------------------------------------------- */

typedef struct {
    tl_operation *op;
    tl_lock *lock;
    const tl_votes_cancel *cancel; /* NULL: the thread isn't cancelled */
} caller;

/* The keeper stays locked. */
static void await_end(void *of) {
    const caller *c = of;
    tl_operation *op = c->op;
    tl_keeper *k = &op->client->keeper;
    tl__keeper_lock(k);
    while (!op->completed) {
        tl__keeper_unlock(k);
        if (c->cancel)
            tl__waiter_await_cancel(op->waiter, TL_NEVER, &c->cancel->state);
        else
            tl__waiter_await(op->waiter, TL_NEVER);
        (void)tl__waiter_posts(op->waiter);
        tl__keeper_lock(k);
    }
}

/* The operation lives on where something is left to clean up. */
static tl_err conclude(tl_operation *op, tl_votes_extension *ret, tl_error *err) {
    tl_keeper *k = &op->client->keeper;
    tl_err code = op->code;
    if (code && err)
        *err = op->err;
    if (ret)
        *ret = (tl_votes_extension){.renewed = op->renewed, .why = result_of(op)->why};
    atomic_store(&op->lock->op, NULL);
    op->told = true;
    let_go(op);
    tl__keeper_unlock(k);
    return code;
}

/* What it has acquired all the same nobody would release. */
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

static void await_caller(tl_lock *lock, tl_operation *op, const tl_votes_cancel *cancel) {
    caller c = {.op = op, .lock = lock, .cancel = cancel};
    if (cancel)
        tl__cancel_guard(await_end, thread_ends, &c);
    else
        await_end(&c);
}

/* cancel: for one who acquires. */
static tl_err call(tl_lock *lock, does does, int64_t ms, const tl_votes_cancel *cancel,
                   tl_votes_extension *ret, tl_error *err) {
    tl_waiter *waiter = tl__waiter_take(lock->client);
    tl_operation *op = waiter ? new_op(lock, NULL, NULL) : NULL;
    tl_err code = TL_ENOMEM;
    if (op) {
        op->waiter = waiter;
        op->does = does;
        if (does == ACQUIRES)
            init_acquire(op, ms);
        else
            init_settle(op, ms);
        code = start(op, err);
        if (code == TL_OK) {
            await_caller(lock, op, cancel);
            code = conclude(op, ret, err);
        }
    } else {
        (void)tl__lock_fail(lock, code, names[does], "out of memory or descriptors", err);
    }
    if (waiter)
        tl__waiter_give(lock->client, waiter);
    return code;
}

tl_err tl__votes_acquire(tl_lock *lock, int64_t wait_ms, const tl_votes_cancel *cancel,
                         tl_error *err) {
    return call(lock, ACQUIRES, wait_ms, cancel, NULL, err);
}

tl_err tl__votes_release(tl_lock *lock, tl_error *err) {
    return call(lock, RELEASES, 0, NULL, NULL, err);
}

tl_err tl__votes_extend(tl_lock *lock, int64_t ttl_ms, tl_votes_extension *ret, tl_error *err) {
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
