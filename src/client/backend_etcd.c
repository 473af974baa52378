/*
 * Locks on etcd. Any of its members can be asked.
 */
#include <errno.h>
#include <stddef.h>

#include "client/backend.h"
#include "client/driver.h"
#include "ground/error.h"
#include "ground/guard.h"
#include "protocol/etcd.h"
#include "protocol/etcd_ask.h"
#include "protocol/settle.h"

/* Reject options that etcd does not need, or that work differently there. */
static tl_err check_options(const tl_client *client, const tl_client_options *options,
                            tl_error *err) {
    static const char raft[] = "a majority of the members confirms each write, and forgets none";
    const char *given = options->wait_replicas > 0 ? "wait_replicas"
                        : options->wait_fsync      ? "wait_fsync"
                        : options->quiet_ms > 0    ? "quiet_ms"
                                                   : NULL;
    if (given)
        return tl__fail(err, TL_EINVALID, 0, "%s: not with a URL that begins with etcd://: %s",
                        given, raft);
    if (options->protocol != TL_TOKEN)
        return tl__fail(err, TL_EINVALID, 0,
                        "protocol: with a URL that begins with etcd:// it must be token");
    if (tl__endpoint_has_password(&client->node.endpoint) && !client->node.endpoint.user[0])
        return tl__fail(err, TL_EINVALID, 0,
                        "password: etcd has none without a user: etcd://USER@HOST");
    return TL_OK;
}

static tl_err open_members(tl_client *client, const tl_seeds *seeds,
                           const tl_client_options *options, tl_error *err) {
    tl_err code = check_options(client, options, err);
    if (code)
        return code;
    client->members = tl__members_new(&client->node.endpoint, seeds);
    if (!client->members)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    client->node.endpoint = client->members->endpoint[0];
    return TL_OK;
}

/* ---- acquiring ------------------------------------------------------------------------------- */

/* All waiters queue on etcd, those of this process as well. */
static tl_status begin_asking(tl_acquiring *machine, tl_job *job, const tl_event *start,
                              int64_t wait_ms, int64_t connect_ms, tl_out *out) {
    const tl_lock *lock = machine->lock;
    tl_client *client = lock->client;
    if (!lock->manual_renew) /* with manual_renew the program counts on the whole lifetime */
        job->spare = tl__leases_take(&client->leases, job->ttl_ms, start->now,
                                     start->server->drift_ppm);
    tl__etcd_acquire_init(&machine->etcd, job, &lock->rare->retry, wait_ms, connect_ms,
                          tl__random_seed());
    return tl__etcd_acquire_step(&machine->etcd, start, out);
}

/* Once `over` is set the machine only cleans up, and the lock may have been freed. */
static tl_status step(tl_acquiring *machine, tl_event *event, tl_out *out) {
    tl_status status = tl__etcd_acquire_step(&machine->etcd, event, out);
    if (status != TL_GO && !machine->over)
        tl__leases_give(&machine->lock->client->leases, &machine->etcd.spare);
    return status;
}

static tl_machine rest(tl_acquiring *machine, size_t *ret_size) {
    *ret_size = sizeof machine->etcd;
    return (tl_machine){&machine->etcd, tl__etcd_acquire_step, "acquire",
                        tl__name_key(machine->lock->name)};
}

static tl_hold held(const tl_acquiring *machine) {
    return (tl_hold){.token = tl__etcd_token(&machine->etcd.id),
                     .deadline = machine->etcd.result.deadline,
                     .proved = machine->etcd.result.proved,
                     .fence = machine->etcd.result.acquire.fence,
                     .taken = tl__mono_now(),
                     .proof = machine->etcd.result.proof};
}

static bool answered(const tl_acquiring *machine) {
    return machine->etcd.retry.answered;
}

static const tl_asker asker = {
    .ask = begin_asking,
    .step = step,
    .rest = rest,
    .held = held,
    .answered = answered,
    .was_heard = tl__server_was_heard,
    .mute_ms = tl__server_mute_ms,
};

/* ---- holding --------------------------------------------------------------------------------- */

static void drop(tl_lock *lock) {
    tl_job job = tl__lock_job(lock);
    job.release.revoke = true;
    const tl_etcd_proof known = tl__proof_etcd(&job.hold.proof);
    job.hold.proof = (tl_proof){.kind = TL_PROOF_ETCD,
                                .stood_ms = job.hold.proof.stood_ms,
                                .unbound = job.hold.proof.unbound,
                                .etcd = {.lease = known.lease, .spared = known.spared}};
    tl__hold_drop_in(lock, &job);
}

/* The key of a held lock may have been deleted: renew at once to find out. */
static void suspect(tl_gate_node *node) {
    tl_lock *lock = (tl_lock *)((char *)node - offsetof(tl_lock, gate_node));
    if (lock->task.at != 0)
        tl__keeper_post(&lock->client->keeper, &lock->task, TL_WAKE_WOKEN);
}

static void deleted(tl_client *client, tl_bytes topic) {
    tl__gate_show(&client->gate, tl__etcd_topic_key(topic), suspect);
}

/* Watch for the deletion of the key from the revision in the proof on. */
static void listen(const tl_lock *lock, const tl_proof *before) {
    char room[TL_ETCD_TOPIC_MAX];
    int64_t changed = tl__proof_etcd(&lock->proof).changed;
    if (changed == 0 || (before && changed == tl__proof_etcd(before).changed))
        return;
    tl_bytes topic = tl__etcd_topic(room, tl__name_key(lock->name), &lock->token);
    if (topic.n > 0)
        tl__keeper_seen_in(&lock->client->keeper, topic, changed, deleted);
}

static void ignore(const tl_lock *lock) {
    char room[TL_ETCD_TOPIC_MAX];
    if (!lock->client->keeper.holds)
        return;
    tl_bytes topic = tl__etcd_topic(room, tl__name_key(lock->name), &lock->token);
    if (topic.n > 0)
        tl__keeper_unseen_in(&lock->client->keeper, topic);
}

/* Keep the lease that only this key is under for the next lock, if the client wants it. Else revoke it. */
static void release(tl_lock *lock, tl_job *job) {
    tl_client *client = lock->client;
    tl_spare_lease spare = {0};
    if (!job->hold.proof.doubted || !GUARD(doubted_not_spared))
        spare = (tl_spare_lease){tl__proof_etcd(&job->hold.proof).lease, job->ttl_ms,
                                 job->hold.believed};
    job->release.revoke = !tl__leases_want(&client->leases, &spare, tl__mono_now(),
                                           client->drift_ppm);
    if (!job->release.revoke)
        job->spare = spare;
}

/* A release that was sent again (job.again) revokes the lease. */
static void released(tl_lock *lock, const void *machine) {
    const tl_settle *settlement = machine;
    if (settlement->result.code == TL_OK && !settlement->maybe &&
        (!settlement->job.again || !GUARD(spared_not_revoked)))
        tl__leases_give(&lock->client->leases, &settlement->job.spare);
}

static void extend(tl_lock *lock, tl_job *job, int64_t ttl_ms) {
    if (GUARD(extension_raises))
        tl__hold_raise(lock, ttl_ms);
    if (GUARD(extension_keeps_most))
        job->renew.least_ms = job->ttl_ms;
}

static const tl_holder holder = {
    .kind = &tl__hold_kind,
    .settling = &tl__hold_settling,
    .listen = listen,
    .ignore = ignore,
    .drop = drop,
    .release = release,
    .released = released,
    .extend = extend,
};

/* ---- questions ------------------------------------------------------------------------------- */

static tl_err ask(tl_client *client, tl_etcd_ask *asking, const char *what, tl_error *err) {
    asking->attempt_ms = client->attempt_ms;
    asking->connect_ms = client->connect_ms;
    return tl__inquire(client, NULL, asking->key, asking, tl__etcd_ask_step, what, err);
}

static tl_err ping(tl_client *client, tl_error *err) {
    tl_etcd_ask a = {.question = TL_ETCD_PING};
    return ask(client, &a, "ping", err);
}

static tl_err look(tl_client *client, tl_ask *how, tl_error *err) {
    tl_etcd_ask a = {.question = TL_ETCD_LOOKS,
                     .key = how->key,
                     .on_waiting = how->on_waiting,
                     .most = how->most,
                     .ctx = how->ctx};
    tl_err code = ask(client, &a, "look", err);
    if (!code)
        how->info = a.info;
    return code;
}

static tl_err scan(tl_client *client, tl_scan *how, uint64_t *cursor, tl_error *err) {
    tl_etcd_ask a = {.question = TL_ETCD_SCANS,
                     .pattern = how->pattern,
                     .cursor = *cursor,
                     .found = how->found,
                     .ctx = how->ctx};
    if (*cursor > INT64_MAX)
        return tl__fail(err, TL_EINVALID, 0, "scan: the cursor is not from this client");
    tl_err code = ask(client, &a, "scan", err);
    if (!code)
        *cursor = a.cursor;
    return code;
}

static tl_err remove_lock(tl_client *client, tl_break *machine, tl_error *err) {
    tl_etcd_ask a = {.question = TL_ETCD_BREAKS, .key = machine->key, .seen = machine->seen};
    return ask(client, &a, "break", err);
}

const tl_backend tl__backend_etcd = {
    .scheme = "etcd://",
    .codec = &tl__codec_grpc,
    .protocol = &tl__protocol_etcd,
    .ttl_least_ms = TL_ETCD_TTL_MIN_MS,
    .ttl_why = "etcd grants no less",
    .line = TL_LINE_ALWAYS,
    .names_nest = true,
    .joiner = &tl__joiner_of_etcd,
    .unreached = "the server was not reached",
    .expired = "no renewal succeeded in time",
    .open = open_members,
    .asker = &asker,
    .holder = &holder,
    .runner = &tl__runner_of_one,
    .ping = ping,
    .look = look,
    .scan = scan,
    .remove = remove_lock,
};
