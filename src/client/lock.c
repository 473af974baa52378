/*
 * The lock's blocking calls. They run the machines on the caller's thread, unless tl_runner.asks_all is set.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/async.h"
#include "client/backend.h"
#include "client/driver.h"
#include "client/lock_acquire.h"
#include "ground/cancel.h"
#include "ground/error.h"
#include "ground/guard.h"
#include "ground/options.h"
#include "protocol/settle.h"

#define TTL_MS 30000

/* ---- making ---------------------------------------------------------------------------------- */

/* With quiet_ms the lifetime is at most that: after a restart a server grants nothing for quiet_ms, so that
 * the locks that it may have forgotten have expired. */
static tl_err check_ttl(const tl_client *client, int64_t ttl_ms, tl_error *err) {
    const tl_backend *backend = client->backend;
    if (ttl_ms < TL_TTL_MIN_MS || ttl_ms > TL_TTL_MAX_MS)
        return tl__fail(err, TL_EINVALID, 0, "ttl: %d to %d ms, not %lld", TL_TTL_MIN_MS,
                        TL_TTL_MAX_MS, (long long)ttl_ms);
    if (ttl_ms < backend->ttl_least_ms)
        return tl__fail(err, TL_EINVALID, 0,
                        "ttl: at least %lld ms with a URL that begins with %s, not %lld: %s",
                        (long long)backend->ttl_least_ms, backend->scheme, (long long)ttl_ms,
                        backend->ttl_why);
    if (client->quiet_ms > 0 && ttl_ms > client->quiet_ms)
        return tl__fail(
            err, TL_EINVALID, 0,
            "ttl: at most quiet_ms, which is %lld ms, not %lld: quiet_ms (--quiet) must "
            "last as long as any lock",
            (long long)client->quiet_ms, (long long)ttl_ms);
    return TL_OK;
}

static tl_err check_retry(const tl_lock_options *options, tl_error *err) {
    if ((unsigned)options->retry > TL_RETRY_CUSTOM)
        return tl__fail(err, TL_EINVALID, 0, "retry: unknown kind %d", (int)options->retry);
    if (options->retry == TL_RETRY_CUSTOM && !options->retry_next)
        return tl__fail(err, TL_EINVALID, 0, "retry: TL_RETRY_CUSTOM needs retry_next");
    if (options->retry_delay_ms < 0 || options->retry_max_delay_ms < 0)
        return tl__fail(err, TL_EINVALID, 0, "retry: a delay must not be negative");
    return TL_OK;
}

static tl_err check_fair(const tl_client *client, const tl_lock_options *options, tl_error *err) {
    tl_line_kind line = client->backend->line;
    if (line == TL_LINE_NEVER)
        return tl__fail(err, TL_EINVALID, 0,
                        "fair: not with a URL that begins with %s: there is no queue there",
                        client->backend->scheme);
    if (line == TL_LINE_BY_PROTOCOL && (!client->protocol->lines || client->protocol->called))
        return tl__fail(err, TL_EINVALID, 0, "fair: needs protocol token");
    if (options->retry != TL_RETRY_AUTO || options->retry_max_attempts > 0)
        return tl__fail(err, TL_EINVALID, 0,
                        "fair: needs TL_RETRY_AUTO without retry_max_attempts");
    return TL_OK;
}

static tl_err check_stall(const tl_lock_options *options, tl_error *err) {
    int64_t stall_ms = options->stall_ms;
    if (stall_ms != 0 && (stall_ms < TL_TTL_MIN_MS || stall_ms > TL_TTL_MAX_MS))
        return tl__fail(err, TL_EINVALID, 0, "stall: %d to %d ms, or 0 for no watchdog, not %lld",
                        TL_TTL_MIN_MS, TL_TTL_MAX_MS, (long long)stall_ms);
    if (stall_ms != 0 && options->manual_renew)
        return tl__fail(err, TL_EINVALID, 0,
                        "stall: not with manual_renew: a watchdog stops the renewals in the "
                        "background, and there are none");
    return TL_OK;
}

static tl_err check_rest_ms(int64_t ms, const char *option, tl_error *err) {
    if (ms < 0 || ms > TL_REST_MAX_MS)
        return tl__fail(err, TL_EINVALID, 0, "%s: 0 to %lld ms (400 days), not %lld", option,
                        (long long)TL_REST_MAX_MS, (long long)ms);
    return TL_OK;
}

static tl_err read_options(tl_lock_options *ret, const tl_lock_options *given, tl_error *err) {
    *ret = (tl_lock_options){.size = sizeof *ret};
    if (given && tl__options_read(ret, sizeof *ret, given, offsetof(tl_lock_options, max_hold_ms),
                                  "tl_lock_options", err))
        return TL_EINVALID;
    if (ret->max_hold_ms < 0)
        return tl__fail(err, TL_EINVALID, 0, "max_hold: it must not be negative");
    if (check_stall(ret, err) || check_rest_ms(ret->min_hold_ms, "min_hold", err) ||
        check_rest_ms(ret->will_rest_ms, "will_rest", err))
        return TL_EINVALID;
    return check_retry(ret, err);
}

/* Set the lifetime, and for protocols of stamps the rules for this key. */
static tl_err read_rules(const tl_client *client, tl_lock_options *options, tl_bytes key,
                         tl_rules *ret, tl_error *err) {
    *ret = (tl_rules){0};
    tl_legacy_options legacy;
    if (!client->protocol->rules && options->legacy)
        return tl__fail(err, TL_EINVALID, 0, "legacy: needs protocol bridge, timestamp or auto");
    if (options->legacy && tl__options_read(&legacy, sizeof legacy, options->legacy,
                                            offsetof(tl_legacy_options, legacy_delay_max_ms),
                                            "tl_legacy_options", err))
        return TL_EINVALID;
    if (client->protocol->rules &&
        client->protocol->rules(&client->legacy, options->legacy ? &legacy : NULL, key, ret,
                                &options->ttl_ms, err))
        return TL_EINVALID;
    ret->nodes = client->backend->slotted;
    if (client->upkeep && client->protocol->upkeep->of(client, key, &ret->of, err))
        return TL_EINVALID;
    if (options->ttl_ms == 0)
        options->ttl_ms = TTL_MS;
    return check_ttl(client, options->ttl_ms, err);
}

/* Can the lock rest where an option wants that? */
static tl_err check_rests(const tl_client *client, const tl_lock_options *options,
                          const tl_rules *rules, tl_error *err) {
    const char *never = client->protocol->never_rests ? client->protocol->never_rests(rules) : NULL;
    if (never && options->min_hold_ms > 0)
        return tl__fail(err, TL_EINVALID, 0, "min_hold: %s", never);
    if (never && options->will_rest_ms > 0)
        return tl__fail(err, TL_EINVALID, 0, "will_rest: %s", never);
    return TL_OK;
}

/* A watchdog can stop nothing where no lock is renewed. */
static tl_err check_renewed(const tl_client *client, const tl_lock_options *options,
                            const tl_rules *rules, tl_error *err) {
    if (options->stall_ms > 0 && rules->strict && client->protocol->never_renewed)
        return tl__fail(err, TL_EINVALID, 0, "stall: %s", client->protocol->never_renewed(rules));
    return TL_OK;
}

static tl_events *new_events(tl_lock *lock, const tl_lock_options *options) {
    tl_events *events = calloc(1, sizeof *events);
    if (events)
        *events = (tl_events){.call = options->on_event, .ctx = options->ctx, .lock = lock};
    return events;
}

static void free_parts(tl_lock *lock) {
    if (lock->name)
        tl__name_release(lock->name);
    if (lock->rare)
        tl__rare_options_free(lock->rare);
    tl__hold_free_events(lock);
    if (lock->client->backend->holder->room > 0)
        free(lock->room);
    free(lock);
}

/* NULL: out of memory. */
static tl_lock *new_lock(tl_client *client, tl_bytes key, const tl_lock_options *options,
                         const tl_rules *rules) {
    const tl_rare_options rare = {.retry = {.kind = options->retry,
                                            .delay_ms = options->retry_delay_ms,
                                            .max_delay_ms = options->retry_max_delay_ms,
                                            .max_attempts = options->retry_max_attempts,
                                            .next = options->retry_next,
                                            .ctx = options->retry_ctx},
                                  .rules = *rules,
                                  .max_hold_ms = options->max_hold_ms,
                                  .stall_ms = options->stall_ms,
                                  .min_hold_ms = options->min_hold_ms,
                                  .rest_ends_wait = options->rest_ends_wait,
                                  .will_rest = options->will_rest_ms > 0 ||
                                               options->min_hold_ms > 0};
    tl_lock *lock = calloc(1, sizeof *lock);
    if (!lock)
        return NULL;
    lock->client = client;
    lock->name = tl__name_new(key.p, key.n);
    lock->rare = tl__rare_options_new(&rare);
    lock->events = options->on_event ? new_events(lock, options) : NULL;
    tl__hold_init(lock);
    size_t room = client->backend->holder->room;
    lock->room = room > 0 ? calloc(1, room) : NULL;
    if (!lock->name || !lock->rare || (options->on_event && !lock->events) ||
        (room > 0 && !lock->room)) {
        free_parts(lock);
        return NULL;
    }
    atomic_fetch_add(&client->callers, lock->events != NULL);
    lock->fair = options->fair;
    lock->ttl_ms = (int32_t)options->ttl_ms;
    lock->manual_renew = options->manual_renew;
    key = tl__name_key(lock->name); /* the lock's own copy */
    lock->gate_node = (tl_gate_node){.key = key, .hash = tl__gate_hash(key)};
    return lock;
}

tl_lock *tl_lock_new(tl_client *client, const void *key, size_t key_len,
                     const tl_lock_options *options, tl_error *err) {
    TL_UNCANCELLED;
    tl_lock_options o;
    tl_rules rules;
    if (!client || !tl__client_is_here(client)) {
        tl__fail(err, TL_EINVALID, 0,
                 client ? "lock: the client belongs to the parent process"
                        : "lock: the client is NULL; did tl_client_open fail?");
        return NULL;
    }
    if (!key || key_len == 0 || key_len > TL_KEY_MAX) {
        tl__fail(err, TL_EINVALID, 0, "key: 1 to %d bytes, not %zu", TL_KEY_MAX, key_len);
        return NULL;
    }
    if (read_options(&o, options, err) ||
        read_rules(client, &o, tl__bytes(key, key_len), &rules, err) ||
        check_renewed(client, &o, &rules, err) || check_rests(client, &o, &rules, err))
        return NULL;
    if (client->backend->check_key &&
        client->backend->check_key(client, tl__bytes(key, key_len), false, err))
        return NULL;
    if (o.fair && check_fair(client, &o, err))
        return NULL;
    tl_lock *lock = new_lock(client, tl__bytes(key, key_len), &o, &rules);
    if (!lock)
        tl__fail(err, TL_ENOMEM, ENOMEM, "lock: out of memory");
    return lock;
}

void tl_lock_free(tl_lock *lock) {
    TL_UNCANCELLED;
    if (!lock)
        return;
    int saved = errno;
    if (tl__client_is_here(lock->client)) {
        if (GUARD(free_ends_operation))
            tl__async_abandon(lock);
        if (GUARD(free_ends_renewals))
            (void)tl__hold_stop(lock);
        if (GUARD(free_leaves_front))
            tl__gate_leave(&lock->client->gate, &lock->gate_node);
    }
    atomic_fetch_sub(&lock->client->callers, lock->events != NULL);
    free_parts(lock);
    errno = saved;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

void tl_lock_cancel(tl_lock *lock) {
    TL_UNCANCELLED;
    tl_client *client = lock->client;
    if (!tl__client_is_here(client))
        return; /* another thread may have had the mutex at the fork: then it stays locked */
    tl__mutex_lock(&client->mutex);
    lock->cancelled = true;
    if (lock->waiter) {
        if (GUARD(cancel_wakes_caller))
            tl__waiter_post(lock->waiter, TL_WAKE_CANCEL);
        tl__pool_wake(client);
    }
    tl__mutex_unlock(&client->mutex);
    if (GUARD(cancel_reaches_async))
        tl__async_cancel(lock); /* last: an operation that begins meanwhile sees `cancelled` */
}

void tl_lock_stall(tl_lock *lock) {
    TL_UNCANCELLED;
    tl_keeper *keeper = &lock->client->keeper;
    _Atomic int64_t *alive_ns = lock->rare->alive_ns;
    if (!alive_ns || !tl__client_is_here(lock->client))
        return;
    atomic_store(alive_ns, TL_STALLED_NS);
    tl__keeper_lock(keeper);
    if (GUARD(stall_wakes_keeper))
        tl__keeper_tell(keeper, &lock->task, TL_TIMER);
    tl__keeper_unlock(keeper);
}

/* May the call use a shared connection? Not with a retry function of the program, which must run on the
 * caller's thread. And WAIT, WAITAOF and transactions need a connection for themselves. */
static bool may_share(const tl_lock *lock) {
    return lock->client->protocol == &tl__protocol_token &&
           lock->rare->retry.kind != TL_RETRY_CUSTOM && lock->client->wait_replicas == 0 &&
           !lock->client->wait_fsync;
}

/* Begin the hold, or fail, on the caller's thread. */
static tl_err end_acquire(tl_acquiring *machine, const tl_out *out, tl_error *err) {
    tl_lock *lock = machine->lock;
    tl_err code = machine->ask.result.code;
    const char *message = tl__lock_busy(lock, code, out->message);
    int sys_errno = out->sys_errno;
    if (code == TL_OK) {
        tl_hold hold = tl__lock_acquired(machine);
        code = tl__hold_begin(lock, &hold, tl__lock_acquired_seed(machine));
        if (code == TL_OK)
            return TL_OK;
        message = "out of memory";
        sys_errno = 0;
    }
    if (GUARD(failure_leaves_front))
        tl__gate_leave(&lock->client->gate, &lock->gate_node);
    return tl__lock_fail_by(lock, code, "acquire", message, sys_errno, err);
}

typedef struct {
    tl_lock *lock;
    tl_waiter *waiter;
    tl_acquiring m;
    tl_out out;
} acquirer;

static tl_err release(tl_lock *lock, int64_t *rest_ms, tl_error *err);

/* The thread was cancelled while it acquired the lock: release it without a rest, since nothing was done under
 * it. */
static tl_err release_unused(tl_lock *lock, tl_error *err) {
    int64_t rest_ms = 0;
    return tl__count_call(&lock->client->counts, TL_COUNT_RELEASES, release(lock, &rest_ms, err));
}

static tl_err ran(acquirer *a, tl_status status, tl_error *err) {
    if (status == TL_DETACH) {
        size_t size;
        const tl_machine rest = tl__lock_acquire_rest(&a->m, &size);
        tl__keeper_detach(&a->lock->client->keeper, &rest, size, TL_TIMER,
                          tl__name_hold(a->lock->name), tl__name_release);
    }
    return end_acquire(&a->m, &a->out, err);
}

/* The thread was cancelled, which acts like tl_lock_cancel. If the lock was acquired all the same, release
 * it: nobody else would. */
static void thread_ends(void *ctx, tl_status status) {
    acquirer *a = ctx;
    tl_lock *lock = a->lock;
    tl_err code = ran(a, status, NULL);
    tl__lock_close_wait(lock);
    tl__waiter_give(lock->client, a->waiter);
    if (tl__count_call(&lock->client->counts, TL_COUNT_ACQUIRES, code) == TL_OK)
        (void)release_unused(lock, NULL);
}

static tl_err run_acquire(tl_lock *lock, int64_t wait_ms, int64_t spent_ms, tl_waiter *waiter,
                          int cancel, tl_error *err) {
    static const char below[] =
        "this program holds a lock below its name, and would wait for itself";
    acquirer a; /* its machine is initialized below, `out` by each step */
    const tl_on_cancel on_cancel = {.state = cancel, .end = thread_ends, .ctx = &a};
    if (wait_ms == TL_FOREVER && tl__lock_waits_for_itself(lock))
        return tl__lock_fail(lock, TL_EBUSY, "acquire", tl__lock_busy(lock, TL_EBUSY, below), err);
    a.lock = lock;
    a.waiter = waiter;
    lock->token = tl__token_draw();
    tl__lock_acquire_init(&a.m, lock, wait_ms, &waiter->listener, tl__client_seed(lock->client));
    a.m.spent_ms = spent_ms;
    const tl_machine all = {&a.m, tl__lock_acquire_step, "acquire", tl__name_key(lock->name)};
    return ran(
        &a, tl__drive_cancellable(lock->client, &all, waiter, may_share(lock), &on_cancel, &a.out),
        err);
}

static bool keeper_asks(const tl_lock *lock) {
    return lock->client->backend->runner->asks_all;
}

static tl_err acquire_by_keeper(tl_lock *lock, int64_t wait_ms, int cancel, tl_error *err) {
    if (wait_ms == TL_FOREVER && tl__lock_waits_for_itself(lock))
        return tl__lock_fail(lock, TL_EBUSY, "acquire", tl__lock_busy(lock, TL_EBUSY, ""), err);
    return tl__operation_acquire(
        lock, wait_ms, &(tl_operation_cancel){.state = cancel, .release = release_unused}, err);
}

/* Release a hold that max_hold_ms has ended and whose key is still there: else the acquire would wait for its
 * own key. Returns how long that took, ms. If a release may take longer than there is time for, the key is
 * removed in the background instead (tl__lock_begin_acquire); then a single try may still find it. */
static int64_t release_outlived(tl_lock *lock, int64_t wait_ms) {
    const tl_client *client = lock->client;
    int64_t most = wait_ms != 0 ? wait_ms : keeper_asks(lock) ? 0 : client->connect_ms;
    if (most < client->attempt_ms || !tl__hold_outlived(lock))
        return 0;
    tl_mono began = tl__mono_now(), now;
    int64_t rest_ms = 0;
    (void)release(lock, &rest_ms, NULL);
    now = tl__mono_now();
    return tl__ns_until(began, now) / TL_NS_PER_MS + 1;
}

static tl_err acquire(tl_lock *lock, int64_t wait_ms, int cancel, tl_error *err) {
    tl_client *client = lock->client;
    int64_t spent_ms = release_outlived(lock, wait_ms);
    if (wait_ms > 0 && wait_ms != TL_FOREVER)
        wait_ms = wait_ms > spent_ms ? wait_ms - spent_ms : 1;
    tl_err code = tl__lock_begin_acquire(lock, wait_ms, err);
    if (code)
        return code;
    if (keeper_asks(lock))
        return acquire_by_keeper(lock, wait_ms, cancel, err);
    /* The keeper must run before the acquire: it renews the lock. */
    tl_waiter *waiter = tl__keeper_ready(&client->keeper) ? NULL : tl__waiter_take(client);
    if (!waiter)
        return tl__lock_fail(lock, TL_ENOMEM, "acquire", "out of memory, threads or descriptors",
                             err);
    if (tl__lock_open_wait(lock, waiter)) {
        code = run_acquire(lock, wait_ms, spent_ms, waiter, cancel, err);
        tl__lock_close_wait(lock);
    } else {
        code = tl__lock_fail(lock, TL_ECANCELLED, "acquire", "cancelled", err);
    }
    tl__waiter_give(client, waiter);
    return code;
}

tl_err tl_lock_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err) {
    TL_UNCANCELLED;
    return tl__count_call(&lock->client->counts, TL_COUNT_ACQUIRES,
                          acquire(lock, wait_ms, cancel, err));
}

/* ---- extending and releasing ----------------------------------------------------------------- */

/* Room for a machine that releases or extends. */
typedef union {
    tl_result result;
    tl_settle largest;
} settlement;

static tl_err settle(tl_lock *lock, tl_op op, const tl_job *job, settlement *s, tl_out *out) {
    tl_client *client = lock->client;
    const tl_settling *settling = client->backend->holder->settling;
    settling->init(s, lock, job, op, tl__client_seed(client));
    const char *what = op != TL_RELEASE ? "extend" : job->release.rest_ms > 0 ? "rest" : "release";
    const tl_machine machine = {s, settling->step, what, tl__name_key(lock->name)};
    if (tl__drive(client, NULL, &machine, may_share(lock), out) == TL_DETACH)
        tl__keeper_detach(&client->keeper, &machine, settling->size, TL_TIMER,
                          tl__name_hold(lock->name), tl__name_release);
    return s->result.code;
}

static tl_err release_here(tl_lock *lock, int64_t rest_ms, tl_error *err) {
    settlement s;
    tl_out out;
    tl_job job = tl__lock_job(lock);
    const tl_holder *holder = lock->client->backend->holder;
    if (holder->release)
        holder->release(lock, &job);
    tl__hold_rest(lock, rest_ms, &job);
    tl_err code = settle(lock, TL_RELEASE, &job, &s, &out);
    if (holder->released)
        holder->released(lock, &s);
    const char *what = rest_ms > 0 ? "rest" : "release";
    return code ? tl__lock_fail_by(lock, code, what, out.message, out.sys_errno, err) : TL_OK;
}

/* *rest_ms becomes 0 if the lock is lost. */
static tl_err release(tl_lock *lock, int64_t *rest_ms, tl_error *err) {
    bool passed = false;
    tl_err code = tl__hold_begin_release(lock, false, rest_ms, &passed, err);
    if (code || passed)
        return code;
    code = keeper_asks(lock) ? tl__operation_release(lock, *rest_ms, err)
                             : release_here(lock, *rest_ms, err);
    atomic_store(&lock->deadline_ns, 0);
    if (GUARD(release_leaves_front))
        tl__gate_leave(&lock->client->gate, &lock->gate_node);
    return code;
}

tl_err tl_lock_release(tl_lock *lock, tl_error *err) {
    TL_UNCANCELLED;
    int64_t rest_ms = lock->rare->min_hold_ms;
    return tl__count_call(&lock->client->counts, TL_COUNT_RELEASES, release(lock, &rest_ms, err));
}

static tl_err rest(tl_lock *lock, int64_t ms, tl_error *err) {
    tl_err code = tl__lock_check_rest(lock, &ms, err);
    int64_t rest_ms = ms;
    if (!code)
        code = release(lock, &rest_ms, err);
    return code || rest_ms == ms ? code
                                 : tl__lock_fail(lock, TL_EEXPIRED, "rest", TL_LOST_RESTS_NOT, err);
}

tl_err tl_lock_rest(tl_lock *lock, int64_t ms, tl_error *err) {
    TL_UNCANCELLED;
    return tl__count_call(&lock->client->counts, TL_COUNT_RELEASES, rest(lock, ms, err));
}

/* The server has replied that the token no longer holds the lock. */
static tl_err extend_lost(tl_lock *lock, tl_lost_why why, tl_error *err) {
    if (GUARD(extend_ends_renewals))
        (void)tl__hold_stop(lock);
    if (GUARD(lost_before_next_holds))
        atomic_store(&lock->state, (int)TL_LOST); /* before the next lock becomes first */
    if (GUARD(extend_leaves_front))
        tl__gate_leave(&lock->client->gate, &lock->gate_node);
    if (GUARD(extend_cleans_up))
        tl__hold_undo(lock); /* the key is another's, but the sidecar may still exclude others */
    tl__hold_publish(lock, TL_LOST, (tl_mono){0});
    tl_err code = why == TL_LOST_TAKEN ? TL_ETAKEN : TL_EEXPIRED;
    if (err) {
        err->code = code;
        err->sys_errno = 0;
    }
    return code;
}

/* An extension of a lock that nobody renews has worked. An adopted lock is held from now on. */
static tl_err keep_adopted(tl_lock *lock, const tl_result *result, tl_error *err) {
    if (!lock->adopted) /* the keeper has reported LOST meanwhile, and that is final */
        return tl__lock_fail(lock, TL_ELOST, "extend", "the lock was lost", err);
    lock->adopted = false;
    tl__hold_limit(lock);
    tl__hold_prove(lock, result->deadline, result->proved);
    tl__hold_publish(lock, TL_HELD, result->deadline);
    if (tl__hold_watch(lock, tl__client_seed(lock->client)))
        return tl__lock_fail(lock, TL_ENOMEM, "extend", "out of memory", err);
    return TL_OK;
}

static tl_err extend_here(tl_lock *lock, tl_job *job, int64_t ttl_ms, tl_operation_extended *ret,
                          tl_error *err) {
    settlement s;
    tl_out out;
    if (lock->client->backend->holder->extend)
        lock->client->backend->holder->extend(lock, job, ttl_ms);
    job->ttl_ms = ttl_ms;
    tl_err code = settle(lock, TL_RENEW, job, &s, &out);
    *ret = (tl_operation_extended){.result = s.result};
    if (code)
        return tl__lock_fail_by(lock, code, "extend", out.message, out.sys_errno, err);
    ret->renewed = tl__hold_extended(lock, ttl_ms, &s);
    return TL_OK;
}

/* Why a lock that was acquired without scripts can't be extended; NULL: it can. */
static const char *never_renewed(const tl_job *job) {
    bool never = job->rules.strict ||
                 tl__proof_stamp(&job->hold.proof).capped_until.ns == TL_NEVER.ns;
    return never && job->protocol->never_renewed ? job->protocol->never_renewed(&job->rules) : NULL;
}

static tl_err extend(tl_lock *lock, int64_t ttl_ms, tl_error *err) {
    tl_operation_extended e;
    if (tl__lock_check(lock, "extend", err) || check_ttl(lock->client, ttl_ms, err))
        return TL_EINVALID;
    if (!lock->adopted && !tl__lock_is_held(lock))
        return atomic_load(&lock->state) == TL_FREE
                   ? tl__lock_fail(lock, TL_EINVALID, "extend", "it is not held", err)
                   : tl__lock_fail(lock, TL_ELOST, "extend", "the lock was lost", err);
    if (GUARD(copy_extends_nothing) && tl__lock_is_copied(lock)) /* adopted before that */
        return tl__lock_fail(lock, TL_ELOST, "extend", TL_COPIED, err);
    tl__lock_shows_life(lock);
    tl_job job = tl__hold_job(lock);
    if (never_renewed(&job))
        return tl__lock_fail(lock, TL_EINVALID, "extend", never_renewed(&job), err);
    tl_rules rules;
    if (lock->client->protocol->rules &&
        lock->client->protocol->rules(&lock->client->legacy, NULL, tl__name_key(lock->name), &rules,
                                      &ttl_ms, err))
        return TL_EINVALID;
    if (tl__keeper_ready(&lock->client->keeper))
        return tl__lock_fail(lock, TL_ENOMEM, "extend", "out of memory or threads", err);
    tl_err code = keeper_asks(lock) ? tl__operation_extend(lock, ttl_ms, &e, err)
                                    : extend_here(lock, &job, ttl_ms, &e, err);
    if (code == TL_ELOST)
        return extend_lost(lock, e.result.lost.why, err);
    return code || e.renewed ? code : keep_adopted(lock, &e.result, err);
}

tl_err tl_lock_extend(tl_lock *lock, int64_t ttl_ms, tl_error *err) {
    TL_UNCANCELLED;
    return tl__count_call(&lock->client->counts, TL_COUNT_EXTENDS, extend(lock, ttl_ms, err));
}

tl_err tl_lock_adopt(tl_lock *lock, const char *token, tl_error *err) {
    TL_UNCANCELLED;
    size_t n = token ? strlen(token) : 0;
    if (tl__lock_check(lock, "adopt", err))
        return TL_EINVALID;
    if (tl__lock_is_held(lock))
        return tl__lock_fail(lock, TL_EINVALID, "adopt", "this handle holds it", err);
    if (n == 0 || n >= sizeof lock->token.text)
        return tl__lock_fail(lock, TL_EINVALID, "adopt", "a token has 1 to 36 bytes", err);
    if (tl__hold_stop(lock))
        tl__hold_undo(lock);
    tl__gate_leave(&lock->client->gate, &lock->gate_node);
    lock->passes = 0; /* no fencing numbers are reserved */
    atomic_store(&lock->fence, 0);
    memcpy(lock->token.text, token, n + 1);
    lock->proof = (tl_proof){.elsewhere = true, .unlimited = true};
    lock->taken = lock->since = tl__mono_now();
    atomic_store(&lock->began_ns, lock->taken.ns);
    lock->taken_us = 0;
    tl__hold_unlimit(lock);
    int64_t end_ms;
    if (tl__bytes_to_int(tl__bytes(token, n), &end_ms) && end_ms != 0) {
        lock->proof.kind = TL_PROOF_STAMP; /* protocols of stamps use a number as the token */
        lock->proof.stamp.end_ms = end_ms;
    }
    if (lock->client->backend->holder->vote)
        lock->client->backend->holder->vote(lock, NULL);
    tl__hold_publish(lock, TL_LOST, (tl_mono){0});
    lock->adopted = true;
    return TL_OK;
}
