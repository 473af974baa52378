/*
 * The lock, as a caller that blocks uses it: it runs the machines on the caller's thread,
 * behind the local queue. Whatever an operation comes to, it must leave the front of that queue when
 * it does not hold the lock.
 */
#include <errno.h>
#include <stdlib.h>

#include "client/async.h"
#include "client/driver.h"
#include "client/lock.h"
#include "ground/error.h"
#include "ground/thread.h"
#include "protocol/settle.h"
#include "wire/keys.h"

#define TTL_MS 30000
#define KEY_SHOWN 64    /* bytes of a key in a message */
#define THREADS_ALONE 2 /* of a program with one thread: that, and the keeper */

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

tl_name *tl__name_hold(tl_name *name) {
    atomic_fetch_add(&name->refs, 1);
    return name;
}

void tl__name_release(void *hold) {
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
    if (ret->max_hold_ms < 0)
        return tl__fail(err, TL_EINVALID, 0, "max_hold: negative");
    return check_retry(&ret->retry, err);
}

/* The lifetime, and for stamps what else holds for this key. */
static tl_err read_rules(const tl_client *client, tl_lock_options *o, tl_bytes key, tl_rules *ret,
                         tl_error *err) {
    *ret = (tl_rules){0};
    if (!client->protocol->rules && o->dialect)
        return tl__fail(err, TL_EINVALID, 0, "dialect: the client's protocol has no such");
    if (client->protocol->rules &&
        client->protocol->rules(&client->legacy, o, key, ret, &o->ttl_ms, err))
        return TL_EINVALID;
    if (client->namespaces) {
        ret->ns = client->protocol->phases->of(client->namespaces, key);
        if (!ret->ns)
            return tl__fail(err, TL_EINVALID, 0, "namespaces: none of the client's has this key");
    }
    if (o->ttl_ms == 0)
        o->ttl_ms = TTL_MS;
    return check_ttl(o->ttl_ms, err);
}

tl_lock *tl_lock_new(tl_client *client, const void *key, size_t key_len,
                     const tl_lock_options *options, tl_error *err) {
    tl_lock_options o;
    tl_rules rules;
    if (!client || !tl__client_is_here(client)) {
        tl__fail(err, TL_EINVALID, 0, "lock: the client belongs to the parent process");
        return NULL;
    }
    if (!key || key_len == 0 || key_len > TL_KEY_MAX) {
        tl__fail(err, TL_EINVALID, 0, "key: 1 to %d bytes, not %zu", TL_KEY_MAX, key_len);
        return NULL;
    }
    if (read_options(&o, options, err) ||
        read_rules(client, &o, tl__bytes(key, key_len), &rules, err))
        return NULL;
    if (o.no_fence && !client->protocol->no_fence) {
        tl__fail(err, TL_EINVALID, 0, "no_fence: the client's protocol has no such locks");
        return NULL;
    }
    tl_lock *lock = calloc(1, sizeof *lock);
    tl_name *name = new_name(key, key_len);
    if (!lock || !name) {
        free(lock);
        free(name);
        tl__fail(err, TL_ENOMEM, ENOMEM, "lock: out of memory");
        return NULL;
    }
    lock->client = client;
    lock->protocol = o.no_fence ? client->protocol->no_fence : client->protocol;
    lock->name = name;
    lock->retry = o.retry;
    lock->on_event = o.on_event;
    atomic_fetch_add(&client->callers, o.on_event != NULL);
    lock->ctx = o.ctx;
    lock->rules = rules;
    lock->ttl_ms = o.ttl_ms;
    lock->max_hold_ms = o.max_hold_ms;
    lock->manual_renew = o.manual_renew;
    lock->place = (tl_place){.key = name->key, .hash = tl__gate_hash(name->key)};
    tl__hold_init(lock);
    return lock;
}

tl_job tl__lock_job(const tl_lock *lock) {
    const tl_client *c = lock->client;
    return (tl_job){.protocol = lock->protocol,
                    .key = lock->name->key,
                    .sidecar = lock->name->sidecar,
                    .owner = tl__bytes_of(c->owner),
                    .token = lock->token,
                    .ttl_ms = lock->ttl_ms,
                    .attempt_ms = c->attempt_ms,
                    .restart_quiet_ms = c->restart_quiet_ms,
                    .wait_replicas = c->wait_replicas,
                    .wait_replicas_ms = c->wait_replicas_ms,
                    .rules = lock->rules,
                    .proof = lock->proof,
                    .believed = {atomic_load(&lock->deadline_ns)}};
}

void tl_lock_free(tl_lock *lock) {
    if (!lock)
        return;
    int saved = errno;
    if (tl__client_is_here(lock->client)) {
        tl__async_abandon(lock);
        (void)tl__hold_stop(lock);
        tl__gate_leave(&lock->client->gate, &lock->place);
    }
    atomic_fetch_sub(&lock->client->callers, lock->on_event != NULL);
    tl__name_release(lock->name);
    free(lock);
    errno = saved;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

tl_err tl__lock_fail_by(const tl_lock *lock, tl_err code, const char *what, const char *words,
                        int sys_errno, tl_error *err) {
    char key[KEY_SHOWN + 1];
    tl__bytes_print(key, sizeof key, lock->name->key);
    return tl__fail(err, code, sys_errno, "%s %s%s: %s", what, key,
                    lock->name->key.n > KEY_SHOWN ? "..." : "", words);
}

tl_err tl__lock_fail(const tl_lock *lock, tl_err code, const char *what, const char *words,
                     tl_error *err) {
    return tl__lock_fail_by(lock, code, what, words, 0, err);
}

bool tl__lock_is_held(const tl_lock *lock) {
    tl_state state = tl_lock_state(lock);
    return state == TL_HELD || state == TL_AT_RISK;
}

tl_err tl__lock_check(const tl_lock *lock, const char *what, tl_error *err) {
    const char *words = NULL;
    if (!tl__client_is_here(lock->client))
        words = "the lock belongs to the parent process";
    else if (atomic_load(&lock->op))
        words = "another operation on this handle is under way";
    return words ? tl__lock_fail(lock, TL_EINVALID, what, words, err) : TL_OK;
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

bool tl__lock_was_cancelled(tl_lock *lock) {
    bool open = open_wait(lock, NULL);
    return !open;
}

void tl_lock_cancel(tl_lock *lock) {
    tl_client *c = lock->client;
    if (!tl__client_is_here(c))
        return; /* the mutex may have been held at the fork, for ever */
    (void)pthread_mutex_lock(&c->mutex);
    lock->cancelled = true;
    if (lock->waiter) {
        tl__waiter_post(lock->waiter, TL_WAKE_CANCEL);
        tl__gate_nudge(&c->gate, &lock->place);
        (void)pthread_cond_broadcast(&c->line_freed);
    }
    (void)pthread_mutex_unlock(&c->mutex);
    tl__async_cancel(lock); /* after: one that begins meanwhile finds either */
}

tl_hold tl__lock_hold_of(const tl_lock *lock, const tl_acquire *a) {
    tl_hold hold = {.protocol = lock->protocol,
                    .token = lock->token,
                    .deadline = a->result.deadline,
                    .fence = a->result.fence,
                    .passes = (unsigned)a->job.fences - 1,
                    .taken = tl__mono_now(),
                    .proof = a->result.proof};
    if (a->result.stamp_is_token) {
        char text[TL_INT_SIZE];
        tl_bytes token = tl__bytes_from_int(text, hold.proof.stamp_ms);
        memcpy(hold.token.text, token.p, token.n + 1);
    }
    return hold;
}

static tl_err begin_hold(tl_lock *lock, const tl_hold *hold, tl_error *err) {
    if (tl__hold_begin(lock, hold, tl__client_seed(lock->client)) == TL_OK)
        return TL_OK;
    tl__gate_leave(&lock->client->gate, &lock->place);
    return tl__lock_fail(lock, TL_ENOMEM, "acquire", "out of memory", err);
}

int64_t tl__lock_connect_ms(const tl_lock *lock, tl_mono since) {
    tl_client *c = lock->client;
    if (tl__client_heard_since(c, since))
        return TL_FOREVER; /* it was there: an outage is waited out */
    int64_t left = c->connect_ms - tl__client_mute_ms(c, since, tl__mono_now());
    return left > 0 ? left : 1;
}

/* Outside or at the front: ask the server. `queued`: others of this process have stood here. */
static tl_err contend(tl_lock *lock, int64_t wait_ms, bool queued, tl_mono since, tl_waiter *waiter,
                      tl_error *err) {
    tl_client *c = lock->client;
    tl_acquire a;
    tl_out out;
    tl_job job = tl__lock_job(lock);
    job.fences = queued || tl__gate_has_queue(&c->gate, &lock->place) ? TL_FENCES : 1;
    int64_t connect_ms = queued ? tl__lock_connect_ms(lock, since) : c->connect_ms;
    tl__acquire_init(&a, &job, &lock->retry, wait_ms, connect_ms, tl__client_seed(c));
    tl_status status = tl__drive(c, &a, tl__acquire_step, waiter, &out);
    if (status == TL_DETACH)
        tl__keeper_detach(&c->keeper, &a, sizeof a, tl__acquire_step, TL_TIMER,
                          tl__name_hold(lock->name), tl__name_release);
    if (a.result.code == TL_OK) {
        tl_hold hold = tl__lock_hold_of(lock, &a);
        return begin_hold(lock, &hold, err);
    }
    tl__gate_leave(&c->gate, &lock->place);
    return tl__lock_fail_by(lock, a.result.code, "acquire",
                            tl__lock_busy(lock, a.result.code, out.words), out.sys_errno, err);
}

static const tl_lock *lock_at(const tl_place *place) {
    return (const tl_lock *)((const char *)place - offsetof(tl_lock, place));
}

static bool place_holds(const tl_place *place) {
    return tl__lock_is_held(lock_at(place));
}

const char *tl__lock_busy(const tl_lock *lock, tl_err code, const char *words) {
    bool busy = code == TL_EBUSY || code == TL_ETIMEDOUT;
    return busy && tl__gate_front_is(&lock->client->gate, &lock->place, place_holds)
               ? "this process holds it already, by another handle"
               : words;
}

tl_err tl__lock_queue_timeout(const tl_lock *lock, tl_mono since, const char **words) {
    tl_client *c = lock->client;
    bool held = tl__gate_front_is(&c->gate, &lock->place, place_holds) ||
                tl__client_mute_ms(c, since, tl__mono_now()) == 0;
    *words = held ? "another holds it" : "the server was not reached";
    *words = held ? tl__lock_busy(lock, TL_ETIMEDOUT, *words) : *words;
    return held ? TL_ETIMEDOUT : TL_EUNAVAILABLE;
}

static tl_err stand_in_queue(tl_lock *lock, tl_queuer *q, int64_t wait_ms, tl_waiter *waiter,
                             tl_error *err) {
    tl_client *c = lock->client;
    tl_mono since = tl__mono_now();
    tl_mono limit = wait_ms == TL_FOREVER ? TL_NEVER : tl__mono_add_ms(since, wait_ms);
    const char *words = "cancelled";
    if (!tl__gate_await(&c->gate, &lock->place, q, &waiter->flags, TL_WAKE_CANCEL, limit)) {
        tl_err code = atomic_load(&waiter->flags) & TL_WAKE_CANCEL
                          ? TL_ECANCELLED
                          : tl__lock_queue_timeout(lock, since, &words);
        return tl__lock_fail(lock, code, "acquire", words, err);
    }
    if (q->turn.given)
        return begin_hold(lock, &q->turn.hold, err);
    int64_t left = wait_ms == TL_FOREVER ? TL_FOREVER : tl__ms_until(tl__mono_now(), limit);
    return contend(lock, left > 0 ? left : 1, true, since, waiter, err);
}

int tl__lock_enter(tl_lock *lock, int64_t wait_ms, tl_turn *turn) {
    bool patient = lock->retry.kind == TL_RETRY_AUTO && lock->retry.max_attempts == 0;
    if (wait_ms > 0 && !patient)
        return TL_OUTSIDE;
    return tl__gate_enter(&lock->client->gate, &lock->place, wait_ms > 0 ? turn : NULL);
}

/* Held until it is released? */
static bool is_held_for_good(const tl_place *front) {
    const tl_lock *holder = lock_at(front);
    return tl__lock_is_held(holder) && !holder->manual_renew && holder->max_hold_ms == 0;
}

/* Is there nobody who could end this wait? Other threads of the program may release what is held, and so may
 * callbacks, of whichever lock. */
static bool waits_for_itself(const tl_lock *lock) {
    tl_client *c = lock->client;
    return tl__gate_front_is(&c->gate, &lock->place, is_held_for_good) &&
           atomic_load(&c->callers) == 0 && tl__thread_count() == THREADS_ALONE;
}

static tl_err run_acquire(tl_lock *lock, int64_t wait_ms, tl_waiter *waiter, tl_error *err) {
    tl_queuer q;
    if (wait_ms == TL_FOREVER && waits_for_itself(lock))
        return tl__lock_fail(lock, TL_EBUSY, "acquire", tl__lock_busy(lock, TL_EBUSY, ""), err);
    tl__queuer_init(&q, lock->ttl_ms, lock->protocol);
    tl_err code = tl__lock_enter(lock, wait_ms, &q.turn) == TL_QUEUED
                      ? stand_in_queue(lock, &q, wait_ms, waiter, err)
                      : contend(lock, wait_ms, false, tl__mono_now(), waiter, err);
    tl__queuer_end(&q);
    return code;
}

tl_err tl__lock_begin_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err) {
    tl_err code = tl__lock_check(lock, "acquire", err);
    if (code)
        return code;
    if (wait_ms < 0)
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "wait: negative", err);
    if (tl__lock_is_held(lock))
        return tl__lock_fail(lock, TL_EINVALID, "acquire", "this handle holds it already", err);
    if (tl__hold_stop(lock))
        tl__hold_drop(lock); /* it was lost a moment ago */
    tl__gate_leave(&lock->client->gate, &lock->place);
    tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    lock->proof = (tl_proof){0};
    lock->adopted = false;
    return TL_OK;
}

tl_err tl_lock_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err) {
    tl_client *c = lock->client;
    tl_err code = tl__lock_begin_acquire(lock, wait_ms, err);
    if (code)
        return code;
    /* First of all: what is taken must have a keeper. */
    tl_waiter *waiter = tl__keeper_ready(&c->keeper) ? NULL : tl__waiter_take(c);
    if (!waiter)
        return tl__lock_fail(lock, TL_ENOMEM, "acquire", "out of memory, threads or descriptors",
                             err);
    if (open_wait(lock, waiter)) {
        lock->token = tl__client_token(c);
        code = run_acquire(lock, wait_ms, waiter, err);
        close_wait(lock);
    } else {
        code = tl__lock_fail(lock, TL_ECANCELLED, "acquire", "cancelled", err);
    }
    tl__waiter_give(c, waiter);
    return code;
}

/* ---- extending and releasing ----------------------------------------------------------------- */

static tl_err settle(tl_lock *lock, tl_op op, int64_t ttl_ms, tl_settle *s, tl_out *out) {
    tl_client *c = lock->client;
    tl_job job = tl__lock_job(lock);
    job.ttl_ms = ttl_ms;
    tl_mono believed = {atomic_load(&lock->deadline_ns)};
    tl__settle_init(s, &job, op, believed, tl__client_seed(lock->client));
    if (tl__drive(c, s, tl__settle_step, NULL, out) == TL_DETACH)
        tl__keeper_detach(&c->keeper, s, sizeof *s, tl__settle_step, TL_TIMER,
                          tl__name_hold(lock->name), tl__name_release);
    return s->result.code;
}

/* To the next of this process, without a word to the server? From here on it isn't held any more:
 * whoever looks at both must not see two holders. */
static bool pass_on(tl_lock *lock) {
    tl_hold hold;
    bool passable = tl__hold_passable(lock, &hold);
    atomic_store(&lock->state, TL_FREE);
    return passable && tl__gate_pass(&lock->client->gate, &lock->place, &hold, tl__mono_now());
}

tl_err tl__lock_begin_release(tl_lock *lock, bool *ret_passed, tl_error *err) {
    tl_err code = tl__lock_check(lock, "release", err);
    if (code)
        return code;
    if (atomic_load(&lock->state) == TL_FREE)
        return tl__lock_fail(lock, TL_EINVALID, "release", "it is not held", err);
    (void)tl__hold_stop(lock);
    *ret_passed = pass_on(lock);
    lock->adopted = false;
    if (*ret_passed)
        atomic_store(&lock->deadline_ns, 0);
    return TL_OK;
}

tl_err tl_lock_release(tl_lock *lock, tl_error *err) {
    tl_settle s;
    tl_out out;
    bool passed = false;
    tl_err code = tl__lock_begin_release(lock, &passed, err);
    if (code || passed)
        return code;
    code = settle(lock, TL_DROP, lock->ttl_ms, &s, &out);
    atomic_store(&lock->deadline_ns, 0);
    tl__gate_leave(&lock->client->gate, &lock->place);
    return code ? tl__lock_fail_by(lock, code, "release", out.words, out.sys_errno, err) : TL_OK;
}

/* The server has said that the token holds nothing any more. */
static tl_err extend_lost(tl_lock *lock, tl_lost_why why, const char *words, tl_error *err) {
    (void)tl__hold_stop(lock);
    tl__gate_leave(&lock->client->gate, &lock->place);
    tl__hold_drop(lock); /* the key is not the token's, but the sidecar may still bind others */
    tl__hold_publish(lock, TL_LOST, (tl_mono){0});
    return tl__lock_fail(lock, why == TL_LOST_TAKEN ? TL_ETAKEN : TL_EEXPIRED, "extend", words,
                         err);
}

static tl_err extended(tl_lock *lock, int64_t ttl_ms, const tl_result *r, tl_error *err) {
    tl_keeper *k = &lock->client->keeper;
    tl_mono deadline = r->deadline;
    lock->ttl_ms = ttl_ms;
    tl__keeper_lock(k);
    bool watched = lock->task.at != 0;
    lock->proof = r->proof;
    if (watched) {
        lock->renew.job.proof = r->proof;
        tl__renew_extended(&lock->renew, ttl_ms, deadline, tl__mono_now());
        tl__hold_publish(lock, TL_HELD, deadline);
        tl__keeper_tell(k, &lock->task, TL_TIMER);
    }
    tl__keeper_unlock(k);
    if (watched)
        return TL_OK;
    if (!lock->adopted) /* the keeper called it lost while we asked, and that is final */
        return tl__lock_fail(lock, TL_ELOST, "extend", "it has been lost", err);
    lock->adopted = false;
    tl__hold_publish(lock, TL_HELD, deadline);
    if (tl__hold_watch(lock, deadline, tl__client_seed(lock->client)))
        return tl__lock_fail(lock, TL_ENOMEM, "extend", "out of memory", err);
    return TL_OK;
}

/* Taken without scripts? */
static bool never_renewed(const tl_lock *lock) {
    return lock->rules.strict || lock->proof.capped_until.ns == INT64_MAX;
}

tl_err tl_lock_extend(tl_lock *lock, int64_t ttl_ms, tl_error *err) {
    tl_settle s;
    tl_out out;
    if (tl__lock_check(lock, "extend", err) || check_ttl(ttl_ms, err))
        return TL_EINVALID;
    if (!lock->adopted && !tl__lock_is_held(lock))
        return atomic_load(&lock->state) == TL_FREE
                   ? tl__lock_fail(lock, TL_EINVALID, "extend", "it is not held", err)
                   : tl__lock_fail(lock, TL_ELOST, "extend", "it has been lost", err);
    if (never_renewed(lock))
        return tl__lock_fail(lock, TL_EINVALID, "extend", tl__never_renewed(lock->rules.strict),
                             err);
    tl_rules rules;
    if (lock->protocol->rules &&
        lock->protocol->rules(&lock->client->legacy, NULL, lock->name->key, &rules, &ttl_ms, err))
        return TL_EINVALID;
    if (tl__keeper_ready(&lock->client->keeper))
        return tl__lock_fail(lock, TL_ENOMEM, "extend", "out of memory or threads", err);
    tl__hold_prove(lock);
    tl_err code = settle(lock, TL_KEEP, ttl_ms, &s, &out);
    if (code == TL_ELOST)
        return extend_lost(lock, s.result.why, out.words, err);
    if (code)
        return tl__lock_fail_by(lock, code, "extend", out.words, out.sys_errno, err);
    return extended(lock, ttl_ms, &s.result, err);
}

tl_err tl_lock_adopt(tl_lock *lock, const char *token, tl_error *err) {
    size_t n = token ? strlen(token) : 0;
    if (tl__lock_check(lock, "adopt", err))
        return TL_EINVALID;
    if (tl__lock_is_held(lock))
        return tl__lock_fail(lock, TL_EINVALID, "adopt", "this handle holds it", err);
    if (n == 0 || n >= sizeof lock->token.text)
        return tl__lock_fail(lock, TL_EINVALID, "adopt", "a token has 1 to 36 bytes", err);
    if (tl__hold_stop(lock))
        tl__hold_drop(lock);
    tl__gate_leave(&lock->client->gate, &lock->place);
    lock->passes = 0; /* nothing to pass it on with */
    atomic_store(&lock->fence, 0);
    memcpy(lock->token.text, token, n + 1);
    lock->proof = (tl_proof){.elsewhere = true};
    if (!tl__bytes_to_int(tl__bytes(token, n), &lock->proof.stamp_ms))
        lock->proof.stamp_ms = 0;
    tl__hold_publish(lock, TL_LOST, (tl_mono){0});
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
