/*
 * Locks on several independent servers, of which a majority counts. The renewal thread sends requests that go
 * to all servers at once, over its own connections. The caller's thread sends those that go to one server
 * after the other, over borrowed connections.
 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "client/backend.h"
#include "client/driver.h"
#include "client/keeper_inside.h"
#include "ground/error.h"
#include "protocol/quorum_acquire.h"
#include "protocol/quorum_look.h"
#include "protocol/quorum_renew.h"
#include "protocol/quorum_settle.h"
#include "wire/keys.h"

#define CURSOR_BITS 54 /* bits of a server's cursor */
#define CURSOR_MAX ((UINT64_C(1) << CURSOR_BITS) - 1)
/* quiet_ms is never off: if the servers restart empty, one after the other, a majority would forget a lock
 * that is still held, and grant it again. */
#define QUIET_MS 30000 /* the default lifetime of a lock */

/* Reject options that votes don't support. */
static tl_err open_quorum(tl_client *client, const tl_seeds *seeds,
                          const tl_client_options *options, tl_error *err) {
    const char *given = options->wait_replicas > 0 ? "wait_replicas"
                        : options->wait_fsync      ? "wait_fsync"
                                                   : NULL;
    if (given)
        return tl__fail(err, TL_EINVALID, 0,
                        "%s: not with a URL that begins with redis+quorum://: there a majority of "
                        "the servers confirms, and quiet_ms covers a restart",
                        given);
    if (options->protocol != TL_TOKEN)
        return tl__fail(err, TL_EINVALID, 0,
                        "protocol: with a URL that begins with redis+quorum:// it must be token");
    return tl__fleet_open_quorum(&client->fleet, &client->node, seeds, options, err);
}

/* ---- acquiring ------------------------------------------------------------------------------- */

/* Notifications that the machine has not received yet, a bit for each server. Under keeper.mutex. */
typedef struct {
    uint8_t armed, disarmed, woken;
} news;

/* The room (tl_asker.room) of an acquire. */
typedef struct {
    tl_quorum_acquisition machine;
    tl_listener listener[TL_QUORUM_MAX];
    news news;
    tl_keeper *keeper;
    tl_task *task;
} votes;

static votes *votes_of(const tl_acquiring *machine) {
    return machine->room;
}

/* The thread gives this to the machine when it runs the posts. Of armed and disarmed the newest counts. */
static void on_wake(tl_listener *listener, unsigned flags) {
    votes *v = (votes *)((char *)(listener - listener->server) - offsetof(votes, listener));
    uint8_t bit = (uint8_t)(1U << listener->server);
    if (flags & (TL_WAKE_ARMED | TL_WAKE_DISARMED)) {
        v->news.armed &= (uint8_t)~bit;
        v->news.disarmed &= (uint8_t)~bit;
    }
    v->news.armed |= flags & TL_WAKE_ARMED ? bit : 0;
    v->news.disarmed |= flags & TL_WAKE_DISARMED ? bit : 0;
    v->news.woken |= flags & TL_WAKE_WOKEN ? bit : 0;
    tl__keeper_post(v->keeper, v->task, TL_WAKE_WOKEN);
}

static tl_listener *attach(tl_acquiring *machine, void *room, tl_task *task) {
    votes *v = machine->room = memset(room, 0, sizeof *v);
    v->keeper = &machine->lock->client->keeper;
    v->task = task;
    for (unsigned i = 0; i < TL_QUORUM_MAX; i++) {
        v->listener[i].on_wake = on_wake;
        v->listener[i].server = (uint8_t)i;
    }
    return v->listener;
}

/* Nothing is handed over within the process, and there is no queue on the servers. */
static tl_status begin_asking(tl_acquiring *machine, tl_job *job, const tl_event *start,
                              int64_t wait_ms, int64_t connect_ms, tl_out *out) {
    tl_client *client = machine->lock->client;
    job->queue.inbox = (tl_bytes){0};
    job->fences = 1;
    tl__quorum_acquire_init(&votes_of(machine)->machine, job, client->fleet.servers,
                            &machine->lock->rare->retry, wait_ms, connect_ms,
                            tl__random_next(&machine->random));
    return tl__quorum_acquire_step(&votes_of(machine)->machine, start, out);
}

/* Turn one of the notifications into an event. false: there is none. */
static bool take_news(news *news, tl_event *event) {
    unsigned any = news->armed | news->disarmed | news->woken;
    if (!any)
        return false;
    event->from = (uint8_t)__builtin_ctz(any);
    uint8_t bit = (uint8_t)(1U << event->from);
    event->armed = news->armed & bit;
    event->kind = (news->armed | news->disarmed) & bit ? TL_ARMED : TL_WOKEN;
    uint8_t *bits = event->armed              ? &news->armed
                    : event->kind == TL_ARMED ? &news->disarmed
                                              : &news->woken;
    *bits &= (uint8_t)~bit;
    return true;
}

static bool has_news(const news *news) {
    return news->armed | news->disarmed | news->woken;
}

/* WOKEN means that there is news; or that it is first in the local queue, which it knows already. */
static tl_status step(tl_acquiring *machine, tl_event *event, tl_out *out) {
    tl_quorum_acquisition *acquisition = &votes_of(machine)->machine;
    news *news = &votes_of(machine)->news;
    if (event->kind == TL_WOKEN || event->kind == TL_TIMER) {
        event->kind = TL_TIMER;
        (void)take_news(news, event);
    }
    tl_status status = tl__quorum_acquire_step(acquisition, event, out);
    if (status == TL_GO && has_news(news))
        out->until = event->now;
    if (!machine->over)
        machine->ask.result = acquisition->result;
    return status;
}

/* The keeper runs the whole machine, so nothing is detached to it. */
static tl_machine rest(tl_acquiring *machine, size_t *ret_size) {
    *ret_size = sizeof votes_of(machine)->machine;
    return (tl_machine){&votes_of(machine)->machine, tl__quorum_acquire_step, "acquire",
                        tl__name_key(machine->lock->name)};
}

static tl_hold held(const tl_acquiring *machine) {
    const tl_quorum_acquisition *acquisition = &votes_of(machine)->machine;
    return (tl_hold){.token = acquisition->job.token,
                     .deadline = acquisition->result.deadline,
                     .proved = acquisition->result.proved,
                     .fence = acquisition->result.acquire.fence,
                     .taken = tl__mono_now(),
                     .proof = acquisition->result.proof,
                     .ballots = &acquisition->ballots};
}

static bool answered(const tl_acquiring *machine) {
    return votes_of(machine)->machine.retry.answered;
}

/* Has a majority of the servers answered since then? */
static bool was_heard(tl_client *client, tl_bytes key, tl_mono since) {
    unsigned heard = 0;
    (void)key;
    for (unsigned i = 0; i < client->fleet.servers; i++)
        heard += tl__node_heard_since(client->fleet.server[i], since);
    return heard >= tl__quorum_of(client->fleet.servers);
}

/* For how long has no majority answered? */
static int64_t mute_ms(tl_client *client, tl_bytes key, tl_mono since) {
    tl_mono mute[TL_QUORUM_MAX], now = tl__mono_now();
    (void)key;
    for (unsigned i = 0; i < client->fleet.servers; i++)
        mute[i].ns = tl__node_mute_ms(client->fleet.server[i], since, now);
    return tl__quorum_free_at(mute, client->fleet.servers).ns;
}

static const tl_asker asker = {
    .queues = true,
    .room = sizeof(votes),
    .attach = attach,
    .ask = begin_asking,
    .step = step,
    .rest = rest,
    .held = held,
    .answered = answered,
    .was_heard = was_heard,
    .mute_ms = mute_ms,
};

/* ---- holding --------------------------------------------------------------------------------- */

/* The votes, and the machine that renews them. */
static tl_quorum_renewal *hold_of(const tl_lock *lock) {
    return lock->room;
}

static tl_machine renewal(tl_task *task) {
    tl_lock *lock = (tl_lock *)((char *)task - offsetof(tl_lock, task));
    tl_job_hold *hold = &hold_of(lock)->job.hold;
    hold->disrupted = tl__disrupted_at(&lock->client->disruptions);
    hold->copied = tl__lock_is_copied(lock);
    hold_of(lock)->stalls = tl__lock_stalls_at(lock);
    return (tl_machine){hold_of(lock), tl__quorum_renew_step, "renew", tl__name_key(lock->name)};
}

static void renewal_stepped(tl_task *task, const tl_out *out, tl_status status) {
    tl_lock *lock = (tl_lock *)((char *)task - offsetof(tl_lock, task));
    const tl_mono believed = {atomic_load(&lock->deadline_ns)};
    const tl_result *result = &hold_of(lock)->result;
    const tl_mono deadline = {status == TL_END ? 0 : result->deadline.ns};
    tl__hold_prove(lock, deadline, result->proved);
    tl__hold_noted(lock, out, believed);
}

static const tl_task_kind hold_kind = {
    .renews = true, .machine = renewal, .stepped = renewal_stepped};

static void begin_hold(tl_lock *lock, tl_mono hold, uint64_t seed) {
    const tl_ballots ballots = hold_of(lock)->ballots;
    tl_job job = tl__lock_job(lock);
    tl__quorum_renew_init(hold_of(lock), &job, &ballots, hold, lock->manual_renew, seed);
}

static void vote(tl_lock *lock, const tl_ballots *ballots) {
    const tl_ballots unknown = {.count = (uint8_t)lock->client->fleet.servers};
    hold_of(lock)->ballots = ballots ? *ballots : unknown;
}

static void init_settle(void *machine, const tl_lock *lock, const tl_job *job, tl_op op,
                        uint64_t seed) {
    tl__quorum_settle_init(machine, job, &hold_of(lock)->ballots, op, seed);
}

/* A failed extension may still take effect at some servers: so their votes are in doubt. */
static bool extended(tl_lock *lock, int64_t ttl_ms, const void *machine) {
    const tl_quorum_settlement *settlement = machine;
    tl_quorum_renewal *hold = hold_of(lock);
    if (settlement->result.code) {
        hold->ballots.doubted |= settlement->ballots.doubted;
        return false;
    }
    lock->ttl_ms = (int32_t)ttl_ms;
    tl__lock_shows_life(lock);
    if (lock->task.at == 0) {
        hold->ballots = settlement->ballots;
        return false;
    }
    tl__quorum_renew_extended(hold, ttl_ms, &settlement->ballots, tl__mono_now());
    tl__hold_prove(lock, hold->result.deadline, settlement->result.proved);
    tl__hold_publish(lock, TL_HELD, hold->result.deadline);
    tl__keeper_tell(&lock->client->keeper, &lock->task, TL_TIMER);
    return true;
}

static const tl_settling settling = {.size = sizeof(tl_quorum_settlement),
                                     .step = tl__quorum_settle_step,
                                     .init = init_settle,
                                     .extended = extended};

static void drop(tl_lock *lock) {
    tl_quorum_settlement s;
    tl_job job = tl__lock_job(lock);
    init_settle(&s, lock, &job, TL_RELEASE, tl__keeper_seed(&lock->client->keeper));
    const tl_machine machine = {&s, tl__quorum_settle_step, "release", tl__name_key(lock->name)};
    tl__keeper_detach_in(&lock->client->keeper, &machine, sizeof s, TL_START,
                         tl__name_hold(lock->name), tl__name_release);
}

static const tl_holder holder = {.kind = &hold_kind,
                                 .settling = &settling,
                                 .room = sizeof(tl_quorum_renewal),
                                 .vote = vote,
                                 .begin = begin_hold,
                                 .drop = drop};

/* ---- of all at once -------------------------------------------------------------------------- */

/* A machine that the keeper runs while its caller waits. */
typedef struct {
    tl_task task; /* first */
    tl_machine machine;
    tl_waiter *waiter;
    bool over;
    char message[TL_MESSAGE_SIZE];
    int sys_errno;
} inquiry;

static tl_machine machine(tl_task *task) {
    return ((inquiry *)task)->machine;
}

static void stepped(tl_task *task, const tl_out *out, tl_status status) {
    inquiry *q = (inquiry *)task;
    if (status == TL_GO)
        return;
    memcpy(q->message, out->message, sizeof q->message);
    q->sys_errno = out->sys_errno;
    q->over = true;
    tl__waiter_post(q->waiter, TL_WAKE_ANSWERED);
}

static void await(tl_keeper *keeper, const inquiry *q) {
    while (!q->over) {
        tl__keeper_unlock(keeper);
        tl__waiter_await(q->waiter, TL_NEVER, NULL);
        (void)tl__waiter_posts(q->waiter);
        tl__keeper_lock(keeper);
    }
}

static tl_err run(tl_client *client, inquiry *q, tl_error *err) {
    static const tl_task_kind kind = {.machine = machine, .stepped = stepped};
    tl_keeper *keeper = &client->keeper;
    q->task.kind = &kind;
    q->waiter = tl__keeper_ready(keeper) ? NULL : tl__waiter_take(client);
    tl_err code = q->waiter ? TL_OK : TL_ENOMEM;
    if (!code) {
        tl__keeper_lock(keeper);
        code = tl__keeper_add(keeper, &q->task, TL_START);
        if (!code)
            await(keeper, q);
        tl__keeper_unlock(keeper);
        tl__waiter_give(client, q->waiter);
    }
    if (code)
        return tl__fail(err, code, ENOMEM, "%s: out of memory, threads or descriptors",
                        q->machine.does);
    const tl_result *result = q->machine.state;
    return result->code
               ? tl__fail(err, result->code, q->sys_errno, "%s: %s", q->machine.does, q->message)
               : TL_OK;
}

static tl_err run_look(tl_client *client, const tl_ask *ask, const char *does, tl_quorum_look *look,
                       tl_error *err) {
    if (!tl__client_is_here(client))
        return tl__fail(err, TL_EINVALID, 0, "%s: the client belongs to the parent process", does);
    tl__quorum_look_init(look, ask, client->fleet.servers);
    inquiry q = {.machine = {look, tl__quorum_look_step, does, ask->key}};
    return run(client, &q, err);
}

static tl_err ping(tl_client *client, tl_error *err) {
    tl_quorum_look l;
    tl_ask ask;
    tl__ask_init(&ask, (tl_bytes){0}, (tl_bytes){0}, client->attempt_ms, client->connect_ms);
    return run_look(client, &ask, "ping", &l, err);
}

/* There is no queue on these servers, so no waiters are listed. */
static tl_err look(tl_client *client, tl_ask *ask, tl_error *err) {
    tl_quorum_look l;
    ask->most = 0;
    tl_err code = run_look(client, ask, "look", &l, err);
    if (!code)
        ask->info = l.info;
    return code;
}

/* ---- of one after the other ------------------------------------------------------------------ */

static tl_err ask_one(tl_client *client, unsigned index, void *state, tl_step step,
                      const char *does, tl_bytes key, tl_error *err) {
    const tl_machine m = {.state = state, .step = step, .does = does, .key = key};
    const tl_result *result = state;
    tl_out out;
    (void)tl__drive(client, client->fleet.server[index], &m, false, &out);
    return result->code ? tl__fail(err, result->code, out.sys_errno, "%s: %s", does, out.message)
                        : TL_OK;
}

/* The result of a break that asked the servers one by one. */
typedef struct {
    unsigned removed, gone, others; /* servers: removed there; nobody holds it; another holds it */
    bool maybe;
    tl_err why; /* the last failure; err has its message */
} broken;

/* The break succeeds if the holder has no vote left at a majority of the servers, and it was removed
 * at one at least. */
static tl_err judge(const tl_client *client, const broken *b, tl_error *err) {
    unsigned q = tl__quorum_of(client->fleet.servers);
    if (b->removed + b->gone + b->others < q && (b->removed > 0 || b->maybe))
        return tl__fail(err, TL_EUNCERTAIN, 0,
                        "break: removed at %u of the %u servers, and no majority has answered",
                        b->removed, client->fleet.servers);
    if (b->removed + b->gone + b->others < q)
        return b->why;
    if (b->removed > 0)
        return TL_OK;
    return b->others >= q ? tl__fail(err, TL_ETAKEN, 0, "break: the lock changed hands meanwhile")
                          : tl__fail(err, TL_EEXPIRED, 0, "break: nobody holds it");
}

/* Compare only the value with what was seen, since each server draws its own fencing numbers. Where the token
 * is removed it is noted as spent, so that a holder that finds the vote missing can't acquire it again. */
static tl_err remove_lock(tl_client *client, tl_break *machine, tl_error *err) {
    broken sum = {0};
    tl_lock_info seen;
    tl_err code = ping(client, err);
    if (code)
        return code;
    if (machine->seen) {
        seen = *machine->seen;
        seen.by_tidelock = false;
    }
    for (unsigned i = 0; i < client->fleet.servers; i++) {
        tl_break one = *machine;
        one.seen = machine->seen ? &seen : NULL;
        code = ask_one(client, i, &one, tl__break_step, "break", one.key, err);
        sum.removed += code == TL_OK;
        sum.gone += code == TL_EEXPIRED;
        sum.others += code == TL_ETAKEN;
        sum.maybe = sum.maybe || code == TL_EUNCERTAIN;
        if (code == TL_EINVALID)
            return code;
        sum.why = code ? code : sum.why;
    }
    return judge(client, &sum, err);
}

/* ---- all locks ------------------------------------------------------------------------------- */

typedef struct found {
    struct found *next;
    size_t n;
    char key[];
} found;

typedef struct {
    found *first, **end;
    bool no_memory;
} finds;

static void keep(const void *key, size_t n, const tl_lock_info *info, void *ctx) {
    finds *f = ctx;
    found *one = malloc(sizeof *one + n);
    (void)info;
    f->no_memory = f->no_memory || !one;
    if (!one)
        return;
    memcpy(one->key, key, n);
    one->n = n;
    one->next = NULL;
    *f->end = one;
    f->end = &one->next;
}

/* Does a server with a lower index have this key, so that its scan reports it? A server that can't be asked
 * is left out from then on (`deaf`). */
static bool is_notified(tl_client *client, unsigned index, const tl_ask *ask, unsigned *deaf) {
    for (unsigned i = 0; i < index; i++) {
        tl_ask one = *ask;
        if (*deaf & 1U << i)
            continue;
        if (ask_one(client, i, &one, tl__ask_step, "scan", ask->key, NULL))
            *deaf |= 1U << i;
        else if (one.info.held || one.info.oddity[0])
            return true;
    }
    return false;
}

/* Report the keys that this server has found and no earlier server has, with what a majority says of each. */
static tl_err tell(tl_client *client, unsigned index, const tl_scan *scan, const finds *f,
                   tl_error *err) {
    unsigned deaf = 0;
    tl_err code = f->no_memory ? tl__fail(err, TL_ENOMEM, ENOMEM, "scan: out of memory") : TL_OK;
    for (const found *one = f->first; one && !code; one = one->next) {
        char name[TL_KEY_MAX + TL_SIDECAR_EXTRA + TL_LINE_EXTRA];
        tl_bytes key = tl__bytes(one->key, one->n);
        tl_ask ask;
        tl__ask_init(&ask, key, tl__line(name, tl__sidecar(name, key, NULL)), client->attempt_ms,
                     client->connect_ms);
        ask.legacy = scan->legacy;
        if (is_notified(client, index, &ask, &deaf))
            continue;
        code = look(client, &ask, err);
        if (!code && (ask.info.held || ask.info.oddity[0]))
            scan->found(one->key, one->n, &ask.info, scan->ctx);
    }
    return code;
}

static void free_finds(finds *f) {
    for (found *one = f->first, *next; one; one = next) {
        next = one->next;
        free(one);
    }
}

/* One scan step at one server. The cursor has the server's number in its upper bits. A server that fails is
 * left out, as long as there is a majority without it. */
static tl_err scan(tl_client *client, tl_scan *scanning, uint64_t *cursor, tl_error *err) {
    unsigned index = (unsigned)(*cursor >> CURSOR_BITS);
    finds f = {.end = &f.first};
    tl_scan one = *scanning;
    if (!tl__client_is_here(client))
        return tl__fail(err, TL_EINVALID, 0, "scan: the client belongs to the parent process");
    if (index >= client->fleet.servers)
        return tl__fail(err, TL_EINVALID, 0, "scan: the cursor is not from this client");
    one.cursor = *cursor & CURSOR_MAX;
    one.found = keep;
    one.ctx = &f;
    tl_err code = ask_one(client, index, &one, tl__scan_step, "scan", (tl_bytes){0}, err);
    if (!code && one.cursor > CURSOR_MAX)
        code = tl__fail(err, TL_ESERVER, 0, "scan: the server's cursor is too large");
    if (code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN) {
        one.cursor = 0;
        code = ping(client, err);
    } else if (!code) {
        code = tell(client, index, scanning, &f, err);
    }
    free_finds(&f);
    if (code)
        return code;
    index += one.cursor == 0;
    *cursor = index < client->fleet.servers ? (uint64_t)index << CURSOR_BITS | one.cursor : 0;
    return TL_OK;
}

const tl_backend tl__backend_quorum = {
    .scheme = "redis+quorum://",
    .protocol = &tl__protocol_quorum,
    .quiet_ms = QUIET_MS,
    .line = TL_LINE_NEVER,
    .joiner = &tl__joiner_of_scripts,
    .unreached = "no majority of the servers was reached",
    .expired = "no majority of the servers renewed it in time",
    .open = open_quorum,
    .asker = &asker,
    .holder = &holder,
    .runner = &tl__runner_of_votes,
    .ping = ping,
    .look = look,
    .scan = scan,
    .remove = remove_lock,
};
