/*
 * The base of a lock's other files: its names, its state and signs of life for any thread, the jobs of its
 * machines, and its error messages.
 */
#include <stdio.h>
#include <stdlib.h>

#include "client/lock.h"
#include "ground/error.h"
#include "ground/guard.h"
#include "wire/keys.h"

/* ---- names ----------------------------------------------------------------------------------- */

tl_name *tl__name_new(const void *key, size_t n) {
    tl_bytes bytes = tl__bytes(key, n);
    size_t room = offsetof(tl_name, text) + n + TL_SIDECAR_EXTRA + TL_LINE_EXTRA;
    tl_name *name = malloc(room > sizeof *name ? room : sizeof *name);
    if (!name)
        return NULL;
    atomic_init(&name->refs, 1);
    tl_bytes sidecar = tl__sidecar(name->text, bytes, NULL);
    /* The sidecar's name begins with the key, or ends with it and a brace. */
    name->key_at = (uint8_t)(memcmp(name->text, key, n) == 0 ? 0 : sidecar.n - 1 - n);
    name->key_n = (uint16_t)n;
    name->line_n = (uint16_t)tl__line(name->text, sidecar).n;
    name->slot = tl__slot_tag(tl__hash_slot(bytes));
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

/* ---- rare options ---------------------------------------------------------------------------- */

static const tl_rare_options usual;

/* The rare options of one lock, the end of its hold and its last sign of life, which change. */
typedef struct {
    tl_rare_options rare; /* the first member */
    _Atomic int64_t hold_ns, alive_ns;
} own_options;

static bool is_usual(const tl_rare_options *t) {
    const tl_retry *r = &t->retry;
    return r->kind == TL_RETRY_AUTO && r->delay_ms == 0 && r->max_delay_ms == 0 &&
           r->max_attempts == 0 && !t->rules.dialect && !t->rules.of && t->max_hold_ms == 0 &&
           t->stall_ms == 0 && t->min_hold_ms == 0 && !t->rest_ends_wait && !t->will_rest;
}

const tl_rare_options *tl__rare_options_new(const tl_rare_options *of) {
    if (is_usual(of))
        return &usual;
    own_options *own = calloc(1, sizeof *own);
    if (!own)
        return NULL;
    own->rare = *of;
    own->rare.hold_ns = of->max_hold_ms > 0 ? &own->hold_ns : NULL;
    own->rare.alive_ns = of->stall_ms > 0 ? &own->alive_ns : NULL;
    return &own->rare;
}

void tl__rare_options_free(const tl_rare_options *rare) {
    if (rare != &usual)
        free((void *)rare);
}

/* ---- state ----------------------------------------------------------------------------------- */

/* The latest end of the hold, if no renewal comes. */
static tl_mono end_of(const tl_lock *lock) {
    tl_mono deadline = {atomic_load(&lock->deadline_ns)}, hold = tl__lock_hold_end(lock);
    return hold.ns != 0 ? tl__mono_min(deadline, hold) : deadline;
}

int64_t tl_lock_remaining_ms(const tl_lock *lock) {
    int state = atomic_load(&lock->state);
    if (state == TL_FREE || state == TL_LOST || !tl__client_is_here(lock->client) ||
        tl__lock_is_in_doubt(lock))
        return 0;
    return tl__ms_until(tl__mono_now(), end_of(lock));
}

tl_state tl_lock_state(const tl_lock *lock) {
    tl_state state = (tl_state)atomic_load(&lock->state);
    if (state == TL_FREE || state == TL_LOST)
        return state;
    bool in_doubt = tl__lock_is_in_doubt(lock); /* before the deadline: see proved_ns */
    bool over = !tl__mono_before(tl__mono_now(), end_of(lock)) ||
                !tl__client_is_here(lock->client) || tl__lock_is_copied(lock);
    return over ? TL_LOST : in_doubt ? TL_AT_RISK : state;
}

/* Each try reads the value before the clock, so the value never goes back. If two signs of other threads come
 * between, the second of them has read the clock after this call began, and counts for both. So two tries
 * are enough, and a thread that is held up between its reading and its write does no harm. */
void tl_lock_alive(tl_lock *lock) {
    _Atomic int64_t *alive_ns = lock->rare->alive_ns;
    for (int tries = 0; alive_ns && tries < 2; tries++) {
        int64_t seen = atomic_load(alive_ns), now = tl__mono_now().ns;
        if (!GUARD(sign_never_goes_back))
            atomic_store(alive_ns, now);
        else if (atomic_compare_exchange_strong(alive_ns, &seen, now))
            return;
    }
}

void tl__lock_shows_life(tl_lock *lock) {
    if (GUARD(extension_is_a_sign))
        tl_lock_alive(lock);
}

uint64_t tl_lock_fence(const tl_lock *lock) {
    return atomic_load(&lock->fence);
}

const char *tl_lock_token(const tl_lock *lock) {
    return lock->token.text;
}

bool tl__lock_is_held(const tl_lock *lock) {
    tl_state state = tl_lock_state(lock);
    return state == TL_HELD || state == TL_AT_RISK;
}

/* ---- jobs ------------------------------------------------------------------------------------ */

/* Set what is the same for all locks of the client, and the rest to 0. */
static void fill_client(tl_job *ret, const tl_client *client) {
    *ret = (tl_job){
        .owner = tl__bytes(client->owner, client->owner_n),
        .attempt_ms = client->attempt_ms,
        .wait_replicas = client->wait_replicas,
        .wait_replicas_ms = client->wait_replicas_ms,
        .wait_fsync = client->wait_fsync,
        .acquire = {.quiet_ms = client->quiet_ms},
        .queue = {.inbox = tl__bytes(client->keeper.inbox.name, client->keeper.inbox.name_n)},
        .renew = {.confirms = client->node.site != NULL}};
}

void tl__lock_refill_job(tl_job *ret, const tl_lock *lock) {
    const tl_name *name = lock->name;
    int32_t stood_ms = lock->proof.stood_ms;
    ret->protocol = lock->client->protocol;
    ret->key = tl__name_key(name);
    ret->sidecar = tl__name_sidecar(name);
    ret->line = tl__name_line(name);
    ret->slot = name->slot;
    ret->token = lock->token;
    ret->acquire.bind = lock->manual_renew || !ret->protocol->binds_late;
    ret->acquire.rest_ends_wait = lock->rare->rest_ends_wait;
    ret->acquire.will_rest = lock->rare->will_rest;
    ret->hold.fence = atomic_load(&lock->fence);
    ret->ttl_ms = lock->ttl_ms;
    ret->queue.stands = stood_ms > 0;
    ret->fences = stood_ms == 0 ? 0 : lock->fair ? 1 : TL_FENCES;
    ret->rules = lock->rare->rules;
    ret->hold.proof = lock->proof;
    ret->hold.proved = (tl_mono){atomic_load(&lock->proved_ns)};
    ret->hold.disrupted = tl__disrupted_at(&lock->client->disruptions);
    ret->hold.copied = tl__lock_is_copied(lock);
    ret->hold.believed = (tl_mono){atomic_load(&lock->deadline_ns)};
}

void tl__lock_fill_job(tl_job *ret, const tl_lock *lock) {
    fill_client(ret, lock->client);
    tl__lock_refill_job(ret, lock);
}

tl_job tl__lock_job(const tl_lock *lock) {
    tl_job job;
    tl__lock_fill_job(&job, lock);
    return job;
}

void tl__lock_key_shown(const tl_lock *lock, char to[TL_KEY_SHOWN_SIZE]) {
    char key[TL_KEY_SHOWN + 1];
    tl_bytes name = tl__name_key(lock->name);
    tl__bytes_print(key, sizeof key, name);
    (void)snprintf(to, TL_KEY_SHOWN_SIZE, "%s%s", key, name.n > TL_KEY_SHOWN ? "..." : "");
}

tl_err tl__lock_fail_by(const tl_lock *lock, tl_err code, const char *what, const char *message,
                        int sys_errno, tl_error *err) {
    char key[TL_KEY_SHOWN_SIZE];
    tl__lock_key_shown(lock, key);
    return tl__fail(err, code, sys_errno, "%s %s: %s", what, key, message);
}

tl_err tl__lock_fail(const tl_lock *lock, tl_err code, const char *what, const char *message,
                     tl_error *err) {
    return tl__lock_fail_by(lock, code, what, message, 0, err);
}

tl_err tl__lock_check(const tl_lock *lock, const char *what, tl_error *err) {
    const char *message = NULL;
    if (!tl__client_is_here(lock->client))
        message = "the lock belongs to the parent process";
    else if (atomic_load(&lock->op))
        message = "another operation on this handle is in progress";
    return message ? tl__lock_fail(lock, TL_EINVALID, what, message, err) : TL_OK;
}

tl_err tl__lock_check_rest(const tl_lock *lock, int64_t *ms, tl_error *err) {
    int64_t least_ms = lock->rare->min_hold_ms;
    if (*ms < 0 || *ms > TL_REST_MAX_MS)
        return tl__fail(err, TL_EINVALID, 0, "rest: 0 to %lld ms (400 days), not %lld",
                        (long long)TL_REST_MAX_MS, (long long)*ms);
    if (*ms < least_ms)
        *ms = least_ms;
    return TL_OK;
}
