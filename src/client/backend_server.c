/*
 * One server, and one that Sentinels name.
 */
#include "client/backend.h"
#include "client/driver.h"
#include "ground/guard.h"

/* ---- acquiring ------------------------------------------------------------------------------- */

static tl_status begin_asking(tl_acquiring *m, tl_job *job, const tl_event *start, int64_t wait_ms,
                              int64_t connect_ms, tl_out *out) {
    tl_lock *lock = m->lock;
    tl_client *c = lock->client;
    const tl_retry *retry = &lock->rare->retry;
    bool lines = c->protocol->lines && m->wait_ms != 0 && retry->kind == TL_RETRY_AUTO &&
                 retry->max_attempts == 0;
    job->queue.inbox = lines ? tl__bytes_of(c->keeper.inbox.name) : (tl_bytes){0};
    job->queue.fair = lock->fair;
    job->queue.join = lines && (lock->fair || lock->contended);
    job->queue.place = m->turn.place;
    job->fences = lock->fair                                                ? 1
                  : m->queued || tl__gate_has_queue(&c->gate, &lock->place) ? TL_FENCES
                                                                            : 1;
    tl__acquire_init(&m->ask, job, retry, wait_ms, connect_ms, tl__client_seed(c));
    if (lines && tl__keeper_hears(&c->keeper, job->key))
        tl__acquire_armed(&m->ask);
    return tl__acquire_step(&m->ask, start, out);
}

/* For the next who acquires it: whether to begin in line; and where this one has stood, in vain. */
static void learn(tl_acquiring *m) {
    const tl_result *r = &m->ask.result;
    m->lock->contended = m->ask.retry.answered || r->acquire.waiting > 0;
    if (r->code != TL_OK)
        m->lock->place.place = m->ask.job.queue.place;
}

static tl_status step(tl_acquiring *m, tl_event *e, tl_out *out) {
    if (e->kind == TL_WOKEN && m->called) { /* of its turn, which it had found out before */
        m->called = false;
        e->kind = TL_TIMER;
    }
    tl_status status = tl__acquire_step(&m->ask, e, out);
    if (status != TL_GO && !m->over) /* while it cleans up the lock may be gone */
        learn(m);
    m->over = m->over || status != TL_GO;
    return status;
}

static tl_machine rest(tl_acquiring *m, size_t *ret_size) {
    *ret_size = sizeof m->ask;
    return (tl_machine){&m->ask, tl__acquire_step, "acquire", tl__name_key(m->lock->name)};
}

static tl_hold held(const tl_acquiring *m) {
    const tl_acquisition *a = &m->ask;
    tl_hold hold = {.token = m->lock->token,
                    .deadline = a->result.deadline,
                    .fence = a->result.acquire.fence,
                    .passes = GUARD(server_queue_first) && a->result.acquire.waiting > 0
                                  ? 0
                                  : (unsigned)a->job.fences - 1,
                    .taken = tl__mono_now(),
                    .proof = a->result.proof};
    if (a->result.acquire.stamp_is_token) {
        char text[TL_INT_SIZE];
        tl_bytes token = tl__bytes_from_int(text, hold.proof.stamp.end_ms);
        memcpy(hold.token.text, token.p, token.n + 1);
    }
    return hold;
}

static bool answered(const tl_acquiring *m) {
    return m->ask.retry.answered;
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

/* Without a proof, so that a stamp without scripts is left to run out: the caller's own release may be in flight, and the
 * second of two DELs finds a successor's lock. */
static void drop(tl_lock *lock) {
    tl_job job = tl__lock_job(lock);
    job.hold.proof = (tl_proof){.stood_ms = job.hold.proof.stood_ms,
                                .unbound = job.hold.proof.unbound};
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

tl_err tl__server_remove(tl_client *client, tl_break *b, tl_error *err) {
    return tl__inquire(client, NULL, b->key, b, tl__break_step, "break", err);
}

static tl_err scan(tl_client *client, tl_scan *s, uint64_t *cursor, tl_error *err) {
    s->cursor = *cursor;
    tl_err code = tl__inquire(client, NULL, (tl_bytes){0}, s, tl__scan_step, "scan", err);
    if (!code)
        *cursor = s->cursor;
    return code;
}

static tl_err open_sentinels(tl_client *client, const tl_seeds *seeds, const tl_client_options *o,
                             tl_error *err) {
    return tl__fleet_open_sentinels(&client->fleet, &client->node, seeds, o, err);
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
