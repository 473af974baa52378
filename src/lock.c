/*
 * Floor 4: the lock. It runs the machines on the caller's thread, publishes what they found for any
 * thread to read, and has the keeper watch over a hold. It must never report HELD, or time
 * remaining, beyond the deadline that a machine has proved.
 */
#include <errno.h>
#include <stdlib.h>

#include "acquire.h"
#include "driver.h"
#include "error.h"
#include "keys.h"
#include "renew.h"
#include "settle.h"

#define TTL_MS 30000
#define KEY_SHOWN 64 /* bytes of a key in a message */

/* The names of a lock, shared with machines that outlive it. */
typedef struct {
    atomic_uint refs;
    tl_bytes key, sidecar;
    char room[];
} tl_name;

struct tl_lock {
    tl_client *client;
    tl_name *name;
    tl_retry retry;
    void (*on_event)(tl_lock *lock, const tl_lock_event *event, void *ctx);
    void *ctx;
    int64_t ttl_ms, max_hold_ms;
    bool manual_renew;
    bool adopted; /* a token from elsewhere that no answer has confirmed yet */
    tl_token token;

    /* for any thread */
    _Atomic int64_t deadline_ns;
    _Atomic uint64_t fence;
    atomic_int state; /* a tl_state, LOST not yet derived from the deadline */

    /* under client.mutex */
    tl_waiter *waiter; /* while acquiring */
    bool cancelled;

    /* under keeper.mutex */
    tl_task task;
    tl_renew renew;
    tl_report report;
    tl_lock_event event; /* the newest to report */
};

/* ---- names ----------------------------------------------------------------------------------- */

static tl_name *new_name(const void *key, size_t n) {
    tl_name *name = malloc(sizeof *name + 2 * n + TL_SIDECAR_EXTRA);
    if (!name)
        return NULL;
    atomic_init(&name->refs, 1);
    memcpy(name->room, key, n);
    name->key = tl__bytes(name->room, n);
    name->sidecar = tl__sidecar(name->room + n, name->key, NULL);
    return name;
}

static tl_name *hold_name(tl_name *name) {
    atomic_fetch_add(&name->refs, 1);
    return name;
}

static void let_name_go(void *hold) {
    tl_name *name = hold;
    if (atomic_fetch_sub(&name->refs, 1) == 1)
        free(name);
}

/* ---- making ---------------------------------------------------------------------------------- */

static tl_err check_ttl(int64_t ttl_ms, tl_error *err) {
    if (ttl_ms >= TL_TTL_MIN_MS && ttl_ms <= TL_TTL_MAX_MS)
        return TL_OK;
    return tl__fail(err, TL_EINVALID, 0, "ttl: %d to %d ms, not %lld", TL_TTL_MIN_MS, TL_TTL_MAX_MS,
                    (long long)ttl_ms);
}

static tl_err check_retry(const tl_retry *r, tl_error *err) {
    if ((unsigned)r->kind > TL_RETRY_CUSTOM || (r->kind == TL_RETRY_CUSTOM && !r->next))
        return tl__fail(err, TL_EINVALID, 0, "retry: no such kind, or CUSTOM without next");
    if (r->delay_ms < 0 || r->max_delay_ms < 0)
        return tl__fail(err, TL_EINVALID, 0, "retry: a delay is negative");
    return TL_OK;
}

static tl_err read_options(tl_lock_options *ret, const tl_lock_options *given, tl_error *err) {
    *ret = (tl_lock_options){.size = sizeof *ret};
    if (given && given->size < offsetof(tl_lock_options, max_hold_ms))
        return tl__fail(err, TL_EINVALID, 0, "options: set size, with TL_LOCK_OPTIONS");
    if (given)
        memcpy(ret, given, given->size < sizeof *ret ? given->size : sizeof *ret);
    if (ret->ttl_ms == 0)
        ret->ttl_ms = TTL_MS;
    if (ret->max_hold_ms < 0)
        return tl__fail(err, TL_EINVALID, 0, "max_hold: negative");
    if (check_retry(&ret->retry, err))
        return TL_EINVALID;
    return check_ttl(ret->ttl_ms, err);
}

static void deliver(tl_report *report);
static void stepped(tl_task *task, const tl_out *out, tl_status status);

tl_lock *tl_lock_new(tl_client *client, const void *key, size_t key_len,
                     const tl_lock_options *options, tl_error *err) {
    tl_lock_options o;
    if (!client || !tl__client_is_here(client)) {
        tl__fail(err, TL_EINVALID, 0, "lock: the client belongs to the parent process");
        return NULL;
    }
    if (!key || key_len == 0 || key_len > TL_KEY_MAX) {
        tl__fail(err, TL_EINVALID, 0, "key: 1 to %d bytes, not %zu", TL_KEY_MAX, key_len);
        return NULL;
    }
    if (read_options(&o, options, err))
        return NULL;
    tl_lock *lock = calloc(1, sizeof *lock);
    tl_name *name = new_name(key, key_len);
    if (!lock || !name) {
        free(lock);
        free(name);
        tl__fail(err, TL_ENOMEM, ENOMEM, "lock: out of memory");
        return NULL;
    }
    lock->client = client;
    lock->name = name;
    lock->retry = o.retry;
    lock->on_event = o.on_event;
    lock->ctx = o.ctx;
    lock->ttl_ms = o.ttl_ms;
    lock->max_hold_ms = o.max_hold_ms;
    lock->manual_renew = o.manual_renew;
    lock->report.deliver = deliver;
    lock->task = (tl_task){.machine = &lock->renew, .step = tl__renew_step, .stepped = stepped};
    return lock;
}

/* ---- watching over a hold -------------------------------------------------------------------- */

static tl_job make_job(const tl_lock *lock) {
    const tl_client *c = lock->client;
    return (tl_job){.protocol = c->protocol,
                    .key = lock->name->key,
                    .sidecar = lock->name->sidecar,
                    .owner = tl__bytes_of(c->owner),
                    .token = lock->token,
                    .ttl_ms = lock->ttl_ms,
                    .attempt_ms = c->attempt_ms,
                    .restart_quiet_ms = c->restart_quiet_ms,
                    .wait_replicas = c->wait_replicas,
                    .wait_replicas_ms = c->wait_replicas_ms};
}

static void publish(tl_lock *lock, tl_state state, tl_mono deadline) {
    atomic_store(&lock->deadline_ns, deadline.ns);
    atomic_store(&lock->state, (int)state);
}

/* In the background: make sure that nothing of a hold which is over stands in anyone's way. */
static void drop_left_over(tl_lock *lock) {
    tl_settle s;
    tl_job job = make_job(lock);
    tl__settle_init(&s, &job, TL_DROP, (tl_mono){0}, tl__random_seed());
    tl__keeper_detach(&lock->client->keeper, &s, sizeof s, tl__settle_step, TL_START,
                      hold_name(lock->name), let_name_go);
}

static const char *describe(const tl_lock_event *event) {
    switch (event->state) {
    case TL_AT_RISK: return "a renewal has failed";
    case TL_HELD: return "renewed again";
    default: break;
    }
    switch (event->why) {
    case TL_LOST_EXPIRED: return "no renewal succeeded in time";
    case TL_LOST_TAKEN: return "another holds it";
    case TL_LOST_GONE: return "its key is gone";
    case TL_LOST_MAX_HOLD: return "the longest hold is over";
    case TL_LOST_NOT: break;
    }
    return "";
}

/* A hold that ran out may leave the key behind, if a renewal of ours was executed unheard. But where
 * renewing is left to the caller, the token may have been passed on, and the key be another's. */
static bool leaves_something(const tl_lock *lock, const tl_lock_event *event) {
    bool gone = event->why == TL_LOST_TAKEN || event->why == TL_LOST_GONE;
    return event->state == TL_LOST &&
           (gone || (event->why == TL_LOST_EXPIRED && !lock->manual_renew));
}

static void deliver(tl_report *report) {
    tl_lock *lock = (tl_lock *)((char *)report - offsetof(tl_lock, report));
    tl_keeper *k = &lock->client->keeper;
    tl__keeper_lock(k);
    tl_lock_event event = lock->event;
    tl__keeper_unlock(k);
    event.remaining_ms = tl_lock_remaining_ms(lock);
    event.detail = describe(&event);
    if (leaves_something(lock, &event))
        drop_left_over(lock);
    if (lock->on_event)
        lock->on_event(lock, &event, lock->ctx);
}

/* After each step of the renewal, under keeper.mutex. */
static void stepped(tl_task *task, const tl_out *out, tl_status status) {
    tl_lock *lock = (tl_lock *)((char *)task - offsetof(tl_lock, task));
    static const tl_state states[] = {
        [TL_NOTE_AT_RISK] = TL_AT_RISK, [TL_NOTE_HELD] = TL_HELD, [TL_NOTE_LOST] = TL_LOST};
    atomic_store(&lock->deadline_ns, status == TL_END ? 0 : lock->renew.result.deadline.ns);
    for (unsigned i = 0; i < out->notes; i++) {
        tl_state state = states[out->note[i].kind];
        atomic_store(&lock->state, (int)state);
        lock->event = (tl_lock_event){.state = state, .why = out->note[i].why};
        tl__keeper_report(&lock->client->keeper, &lock->report);
    }
}

/* True when something of the hold may be left over that nobody has dropped. */
static bool stop_watching(tl_lock *lock) {
    tl_keeper *k = &lock->client->keeper;
    tl__keeper_lock(k);
    bool left = !lock->manual_renew && (lock->task.at != 0 || lock->report.queued);
    tl__keeper_remove(k, &lock->task);
    tl__keeper_unreport(k, &lock->report);
    tl__keeper_unlock(k);
    return left;
}

static tl_err watch(tl_lock *lock, tl_mono deadline, uint64_t seed) {
    tl_keeper *k = &lock->client->keeper;
    if (tl__keeper_ready(k))
        return TL_ENOMEM;
    tl_job job = make_job(lock);
    tl_mono hold = lock->max_hold_ms > 0 ? tl__mono_add_ms(tl__mono_now(), lock->max_hold_ms)
                                         : TL_NEVER;
    tl__keeper_lock(k);
    tl__renew_init(&lock->renew, &job, deadline, hold, lock->manual_renew, seed);
    tl_err code = tl__keeper_add(k, &lock->task, TL_START);
    tl__keeper_unlock(k);
    return code;
}

void tl_lock_free(tl_lock *lock) {
    if (!lock)
        return;
    int saved = errno;
    if (tl__client_is_here(lock->client))
        (void)stop_watching(lock);
    let_name_go(lock->name);
    free(lock);
    errno = saved;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static tl_err fail_op(const tl_lock *lock, tl_err code, const char *what, const char *words,
                      tl_error *err) {
    char key[KEY_SHOWN + 1];
    tl__bytes_print(key, sizeof key, lock->name->key);
    return tl__fail(err, code, 0, "%s %s%s: %s", what, key,
                    lock->name->key.n > KEY_SHOWN ? "..." : "", words);
}

static bool is_held(const tl_lock *lock) {
    tl_state state = tl_lock_state(lock);
    return state == TL_HELD || state == TL_AT_RISK;
}

/* Make the wait visible to tl_lock_cancel. False: it has been cancelled before it began. */
static bool open_wait(tl_lock *lock, tl_waiter *waiter) {
    tl_client *c = lock->client;
    (void)pthread_mutex_lock(&c->mutex);
    bool open = !lock->cancelled;
    lock->cancelled = false;
    lock->waiter = open ? waiter : NULL;
    (void)pthread_mutex_unlock(&c->mutex);
    return open;
}

static void close_wait(tl_lock *lock) {
    tl_client *c = lock->client;
    (void)pthread_mutex_lock(&c->mutex);
    lock->waiter = NULL;
    lock->cancelled = false;
    (void)pthread_mutex_unlock(&c->mutex);
}

void tl_lock_cancel(tl_lock *lock) {
    tl_client *c = lock->client;
    if (!tl__client_is_here(c))
        return; /* the mutex may have been held at the fork, for ever */
    (void)pthread_mutex_lock(&c->mutex);
    lock->cancelled = true;
    if (lock->waiter)
        tl__waiter_post(lock->waiter, TL_WAKE_CANCEL);
    (void)pthread_mutex_unlock(&c->mutex);
}

static tl_err begin_hold(tl_lock *lock, const tl_acquire *a, tl_error *err) {
    atomic_store(&lock->fence, a->result.fence);
    publish(lock, TL_HELD, a->result.deadline);
    if (watch(lock, a->result.deadline, a->random) == TL_OK)
        return TL_OK;
    publish(lock, TL_FREE, (tl_mono){0});
    drop_left_over(lock);
    return fail_op(lock, TL_ENOMEM, "acquire", "out of memory or threads", err);
}

static tl_err run_acquire(tl_lock *lock, int64_t wait_ms, tl_waiter *waiter, tl_error *err) {
    tl_client *c = lock->client;
    tl_acquire a;
    tl_out out;
    tl_job job = make_job(lock);
    tl__acquire_init(&a, &job, &lock->retry, wait_ms, c->connect_ms, tl__random_seed());
    tl_status status = tl__drive(c, &a, tl__acquire_step, waiter, &out);
    if (status == TL_DETACH)
        tl__keeper_detach(&c->keeper, &a, sizeof a, tl__acquire_step, TL_TIMER,
                          hold_name(lock->name), let_name_go);
    if (a.result.code == TL_OK)
        return begin_hold(lock, &a, err);
    return fail_op(lock, a.result.code, "acquire", out.words, err);
}

tl_err tl_lock_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err) {
    tl_client *c = lock->client;
    if (!tl__client_is_here(c))
        return fail_op(lock, TL_EINVALID, "acquire", "the lock belongs to the parent process", err);
    if (wait_ms < 0)
        return fail_op(lock, TL_EINVALID, "acquire", "wait: negative", err);
    if (is_held(lock))
        return fail_op(lock, TL_EINVALID, "acquire", "this handle holds it already", err);
    if (stop_watching(lock))
        drop_left_over(lock); /* it was lost a moment ago */
    publish(lock, TL_FREE, (tl_mono){0});
    lock->adopted = false;
    tl_waiter *waiter = tl__waiter_take(c);
    if (!waiter)
        return fail_op(lock, TL_ENOMEM, "acquire", "out of memory or descriptors", err);
    tl_err code;
    if (open_wait(lock, waiter)) {
        lock->token = tl__token_new();
        code = run_acquire(lock, wait_ms, waiter, err);
        close_wait(lock);
    } else {
        code = fail_op(lock, TL_ECANCELLED, "acquire", "cancelled", err);
    }
    tl__waiter_give(c, waiter);
    return code;
}

/* ---- extending and releasing ----------------------------------------------------------------- */

static tl_err settle(tl_lock *lock, tl_op op, int64_t ttl_ms, tl_settle *s, tl_out *out) {
    tl_client *c = lock->client;
    tl_job job = make_job(lock);
    job.ttl_ms = ttl_ms;
    tl_mono believed = {atomic_load(&lock->deadline_ns)};
    tl__settle_init(s, &job, op, believed, tl__random_seed());
    if (tl__drive(c, s, tl__settle_step, NULL, out) == TL_DETACH)
        tl__keeper_detach(&c->keeper, s, sizeof *s, tl__settle_step, TL_TIMER,
                          hold_name(lock->name), let_name_go);
    return s->result.code;
}

tl_err tl_lock_release(tl_lock *lock, tl_error *err) {
    tl_settle s;
    tl_out out;
    if (!tl__client_is_here(lock->client))
        return fail_op(lock, TL_EINVALID, "release", "the lock belongs to the parent process", err);
    if (atomic_load(&lock->state) == TL_FREE)
        return fail_op(lock, TL_EINVALID, "release", "it is not held", err);
    (void)stop_watching(lock);
    atomic_store(&lock->state, TL_FREE);
    lock->adopted = false;
    tl_err code = settle(lock, TL_DROP, lock->ttl_ms, &s, &out);
    atomic_store(&lock->deadline_ns, 0);
    return code ? fail_op(lock, code, "release", out.words, err) : TL_OK;
}

/* The server has said that the token holds nothing any more. */
static tl_err extend_lost(tl_lock *lock, tl_lost_why why, const char *words, tl_error *err) {
    (void)stop_watching(lock);
    drop_left_over(lock); /* the key is not the token's, but the sidecar may still bind others */
    publish(lock, TL_LOST, (tl_mono){0});
    return fail_op(lock, why == TL_LOST_TAKEN ? TL_ETAKEN : TL_EEXPIRED, "extend", words, err);
}

static tl_err extended(tl_lock *lock, int64_t ttl_ms, tl_mono deadline, tl_error *err) {
    tl_keeper *k = &lock->client->keeper;
    lock->ttl_ms = ttl_ms;
    tl__keeper_lock(k);
    bool watched = lock->task.at != 0;
    if (watched) {
        tl__renew_extended(&lock->renew, ttl_ms, deadline, tl__mono_now());
        publish(lock, TL_HELD, deadline);
        tl__keeper_tell(k, &lock->task, TL_TIMER);
    }
    tl__keeper_unlock(k);
    if (watched)
        return TL_OK;
    if (!lock->adopted) /* the keeper called it lost while we asked, and that is final */
        return fail_op(lock, TL_ELOST, "extend", "it has been lost", err);
    lock->adopted = false;
    publish(lock, TL_HELD, deadline);
    if (watch(lock, deadline, tl__random_seed()))
        return fail_op(lock, TL_ENOMEM, "extend", "out of memory or threads", err);
    return TL_OK;
}

tl_err tl_lock_extend(tl_lock *lock, int64_t ttl_ms, tl_error *err) {
    tl_settle s;
    tl_out out;
    if (!tl__client_is_here(lock->client))
        return fail_op(lock, TL_EINVALID, "extend", "the lock belongs to the parent process", err);
    if (check_ttl(ttl_ms, err))
        return TL_EINVALID;
    if (!lock->adopted && !is_held(lock))
        return atomic_load(&lock->state) == TL_FREE
                   ? fail_op(lock, TL_EINVALID, "extend", "it is not held", err)
                   : fail_op(lock, TL_ELOST, "extend", "it has been lost", err);
    tl_err code = settle(lock, TL_KEEP, ttl_ms, &s, &out);
    if (code == TL_ELOST)
        return extend_lost(lock, s.result.why, out.words, err);
    if (code)
        return fail_op(lock, code, "extend", out.words, err);
    return extended(lock, ttl_ms, s.result.deadline, err);
}

tl_err tl_lock_adopt(tl_lock *lock, const char *token, tl_error *err) {
    size_t n = token ? strlen(token) : 0;
    if (!tl__client_is_here(lock->client) || is_held(lock))
        return fail_op(lock, TL_EINVALID, "adopt", "this handle holds it, or isn't ours", err);
    if (n == 0 || n >= sizeof lock->token.text)
        return fail_op(lock, TL_EINVALID, "adopt", "a token has 1 to 36 bytes", err);
    if (stop_watching(lock))
        drop_left_over(lock);
    atomic_store(&lock->fence, 0);
    memcpy(lock->token.text, token, n + 1);
    publish(lock, TL_LOST, (tl_mono){0});
    lock->adopted = true;
    return TL_OK;
}

/* ---- looking at one's own lock --------------------------------------------------------------- */

int64_t tl_lock_remaining_ms(const tl_lock *lock) {
    int state = atomic_load(&lock->state);
    if (state == TL_FREE || state == TL_LOST || !tl__client_is_here(lock->client))
        return 0;
    return tl__ms_until(tl__mono_now(), (tl_mono){atomic_load(&lock->deadline_ns)});
}

tl_state tl_lock_state(const tl_lock *lock) {
    tl_state state = (tl_state)atomic_load(&lock->state);
    if (state == TL_FREE || state == TL_LOST)
        return state;
    tl_mono deadline = {atomic_load(&lock->deadline_ns)};
    bool over = !tl__mono_before(tl__mono_now(), deadline) || !tl__client_is_here(lock->client);
    return over ? TL_LOST : state;
}

uint64_t tl_lock_fence(const tl_lock *lock) {
    return atomic_load(&lock->fence);
}

const char *tl_lock_token(const tl_lock *lock) {
    return lock->token.text;
}
