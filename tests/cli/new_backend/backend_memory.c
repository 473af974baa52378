/*
 * A kind of server that there is only in cli/test_new_backend: the memory of this process. It shows how much a kind has to
 * say of itself, and that nothing else asks for it.
 */
#include <stddef.h>

#include "client/backend.h"
#include "ground/error.h"
#include "ground/thread.h"

#define KEYS 16
#define POLL_MS 5
#define PARTS 3

typedef struct {
    char key[64]; /* n 0: nothing is here */
    size_t n;
    tl_token token;
    tl_mono until;
    uint64_t fence;
} entry;

static entry table[KEYS];
static uint64_t last_fence;

/* There is no destructor: the process's memory lasts as long as the process. */
static tl_mutex *mutex(void) {
    static tl_mutex made;
    static atomic_int state;
    int none = 0;
    if (atomic_compare_exchange_strong(&state, &none, 1)) {
        tl__mutex_init(&made);
        atomic_store(&state, 2);
    }
    while (atomic_load(&state) != 2)
        ;
    return &made;
}

/* The one of this key, or a free one; NULL: there is no room. With the mutex held. */
static entry *entry_of(tl_bytes key, tl_mono now) {
    entry *at = NULL;
    for (entry *e = table; e < table + KEYS; e++) {
        if (e->n > 0 && !tl__mono_before(now, e->until))
            e->n = 0;
        if (tl__bytes_eq(tl__bytes(e->key, e->n), key))
            return e;
        at = e->n == 0 ? e : at;
    }
    return key.n < sizeof at->key ? at : NULL;
}

static bool is_mine(const entry *e, const tl_token *token) {
    return e && e->n > 0 && strcmp(e->token.text, token->text) == 0;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

static tl_status try(tl_acquiring *m, tl_mono now, tl_out *out) {
    tl_lock *lock = m->lock;
    tl_bytes key = tl__name_key(lock->name);
    tl__mutex_lock(mutex());
    entry *e = entry_of(key, now);
    bool free = e && e->n == 0;
    if (free) {
        *e = (entry){.n = key.n, .token = lock->token, .fence = ++last_fence};
        memcpy(e->key, key.p, key.n);
        e->until = tl__mono_add_ms(now, lock->ttl_ms);
        m->ask.result = (tl_result){.deadline = e->until, .acquire = {.fence = e->fence}};
    }
    tl__mutex_unlock(mutex());
    if (free)
        return TL_END;
    tl__out_message(out, TL_LITERAL("another holds it"));
    m->ask.result.code = m->wait_ms == 0 ? TL_EBUSY : TL_ETIMEDOUT;
    out->until = tl__mono_min(tl__mono_add_ms(now, POLL_MS), m->limit);
    return m->wait_ms == 0 || !tl__mono_before(now, m->limit) ? TL_END : TL_GO;
}

static tl_status ask(tl_acquiring *m, tl_job *job, const tl_event *start, int64_t wait_ms,
                     int64_t connect_ms, tl_out *out) {
    (void)job, (void)wait_ms, (void)connect_ms;
    return try(m, start->now, out);
}

static tl_status step(tl_acquiring *m, tl_event *e, tl_out *out) {
    if (e->kind != TL_CANCEL)
        return try(m, e->now, out);
    tl__out_message(out, TL_LITERAL("cancelled"));
    m->ask.result.code = TL_ECANCELLED;
    return TL_END;
}

static tl_hold held(const tl_acquiring *m) {
    return (tl_hold){.token = m->lock->token,
                     .deadline = m->ask.result.deadline,
                     .fence = m->ask.result.acquire.fence,
                     .taken = tl__mono_now()};
}

static bool answered(const tl_acquiring *m) {
    return m->ask.result.code != TL_OK;
}

static bool was_heard(tl_client *client, tl_bytes key, tl_mono since) {
    (void)client, (void)key, (void)since;
    return true;
}

static int64_t mute_ms(tl_client *client, tl_bytes key, tl_mono since) {
    (void)client, (void)key, (void)since;
    return 0;
}

/* `rest` isn't there: nothing detaches. */
static const tl_asker asker = {.queues = true,
                               .ask = ask,
                               .step = step,
                               .held = held,
                               .answered = answered,
                               .was_heard = was_heard,
                               .mute_ms = mute_ms};

/* ---- holding --------------------------------------------------------------------------------- */

typedef struct {
    tl_result result; /* first */
    tl_lock *lock;
    int64_t ttl_ms;
} settlement;

/* Another lifetime for what is held; 0: none. */
static bool keep(tl_lock *lock, int64_t ttl_ms, tl_mono now, tl_mono *ret_until) {
    tl__mutex_lock(mutex());
    entry *e = entry_of(tl__name_key(lock->name), now);
    bool mine = is_mine(e, &lock->token);
    if (mine && ttl_ms == 0)
        e->n = 0;
    if (mine)
        *ret_until = e->until = tl__mono_add_ms(now, ttl_ms);
    tl__mutex_unlock(mutex());
    return mine;
}

static tl_lock *lock_of(tl_task *task) {
    return (tl_lock *)((char *)task - offsetof(tl_lock, task));
}

static tl_status renew(void *machine, const tl_event *e, tl_out *out) {
    tl_lock *lock = machine;
    tl_mono until = {atomic_load(&lock->deadline_ns)};
    bool mine = tl__mono_before(e->now, until) &&
                (lock->manual_renew || keep(lock, lock->ttl_ms, e->now, &until));
    out->renewed = mine && !lock->manual_renew;
    if (mine) {
        atomic_store(&lock->deadline_ns, until.ns);
        out->until = lock->manual_renew ? until : tl__mono_add_ms(e->now, lock->ttl_ms / PARTS);
        return TL_GO;
    }
    out->note[out->notes++] = (tl_note){.kind = TL_NOTE_LOST, .why = TL_LOST_EXPIRED};
    return TL_END;
}

static tl_machine renewal(tl_task *task) {
    tl_lock *lock = lock_of(task);
    return (tl_machine){lock, renew, "renew", tl__name_key(lock->name)};
}

static void renewed(tl_task *task, const tl_out *out, tl_status status) {
    tl_lock *lock = lock_of(task);
    if (status == TL_END)
        atomic_store(&lock->deadline_ns, 0);
    tl__hold_noted(lock, out, (tl_mono){atomic_load(&lock->deadline_ns)});
}

static void init_settle(void *machine, const tl_lock *lock, const tl_job *job, tl_op op,
                        uint64_t seed) {
    (void)seed;
    *(settlement *)machine = (settlement){.result = {.op = (uint8_t)op},
                                          .lock = (tl_lock *)(uintptr_t)lock,
                                          .ttl_ms = op == TL_RENEW ? job->ttl_ms : 0};
}

static tl_status settle(void *machine, const tl_event *e, tl_out *out) {
    settlement *s = machine;
    bool done = keep(s->lock, s->ttl_ms, e->now, &s->result.deadline);
    s->result.lost.why = TL_LOST_GONE;
    s->result.code = done ? TL_OK : s->result.op == TL_RENEW ? TL_ELOST : TL_EEXPIRED;
    tl__out_message(out, TL_LITERAL("nobody holds it"));
    return TL_END;
}

static bool extended(tl_lock *lock, int64_t ttl_ms, const void *machine) {
    const tl_result *r = machine;
    if (r->code || lock->task.at == 0)
        return false;
    lock->ttl_ms = (int32_t)ttl_ms;
    tl__hold_publish(lock, TL_HELD, r->deadline);
    tl__keeper_tell(&lock->client->keeper, &lock->task, TL_TIMER);
    return true;
}

static void drop(tl_lock *lock) {
    tl_mono until;
    (void)keep(lock, 0, tl__mono_now(), &until);
}

static const tl_task_kind kind = {.renews = true, .machine = renewal, .stepped = renewed};
static const tl_settling settling = {
    .size = sizeof(settlement), .init = init_settle, .step = settle, .extended = extended};
static const tl_holder holder = {.kind = &kind, .settling = &settling, .drop = drop};

/* ---- questions ------------------------------------------------------------------------------- */

static tl_err ping(tl_client *client, tl_error *err) {
    (void)client, (void)err;
    return TL_OK;
}

static tl_err look(tl_client *client, tl_ask *question, tl_error *err) {
    tl_mono now = tl__mono_now();
    (void)client, (void)err;
    tl__mutex_lock(mutex());
    const entry *e = entry_of(question->key, now);
    question->info.held = e && e->n > 0;
    if (question->info.held)
        question->info.fence = e->fence;
    tl__mutex_unlock(mutex());
    return TL_OK;
}

static tl_err scan(tl_client *client, tl_scan *scan, uint64_t *cursor, tl_error *err) {
    (void)client, (void)scan, (void)cursor;
    return tl__fail(err, TL_EUNSUPPORTED, 0, "scan: not in memory");
}

static tl_err remove_lock(tl_client *client, tl_break *b, tl_error *err) {
    (void)client;
    tl__mutex_lock(mutex());
    entry *e = entry_of(b->key, tl__mono_now());
    bool was = e && e->n > 0;
    if (was)
        e->n = 0;
    tl__mutex_unlock(mutex());
    return was ? TL_OK : tl__fail(err, TL_EEXPIRED, 0, "break: nobody holds it");
}

const tl_backend tl__backend_memory = {
    .scheme = "memory:",
    .protocol = &tl__protocol_token,
    .line = TL_LINE_NEVER,
    .unreached = "the memory was not reached",
    .expired = "no renewal succeeded in time",
    .asker = &asker,
    .holder = &holder,
    .runner = &tl__runner_of_one,
    .joiner = &tl__joiner_of_scripts,
    .ping = ping,
    .look = look,
    .scan = scan,
    .remove = remove_lock,
};
