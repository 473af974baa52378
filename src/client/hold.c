/*
 * A hold, from the reply that proves it to its end. The keeper renews it and reports its changes. The lock
 * must never report HELD, or time remaining, beyond the deadline that a machine has proved.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/backend.h"
#include "client/lock.h"
#include "client/trace.h"
#include "ground/guard.h"
#include "protocol/settle.h"

#define LOCK_OF(task) ((tl_lock *)((char *)(task)-offsetof(tl_lock, task)))

static tl_machine machine(tl_task *task);
static bool stay(tl_task *task);
static void stepped(tl_task *task, const tl_out *out, tl_status status);

const tl_task_kind tl__hold_kind = {
    .renews = true, .machine = machine, .stay = stay, .stepped = stepped};

/* A thread that sees the state also sees what was stored before it, as the deadline. */
static void publish_state(tl_lock *lock, tl_state state) {
    atomic_store_explicit(&lock->state, (int)state, memory_order_release);
}

void tl__hold_publish(tl_lock *lock, tl_state state, tl_mono deadline) {
    atomic_store_explicit(&lock->deadline_ns, deadline.ns, memory_order_relaxed);
    publish_state(lock, state);
}

void tl__hold_prove(tl_lock *lock, tl_mono deadline, tl_mono proved) {
    atomic_store_explicit(&lock->deadline_ns, deadline.ns, memory_order_relaxed);
    atomic_store_explicit(&lock->proved_ns, proved.ns, memory_order_release);
}

void tl__hold_limit(tl_lock *lock) {
    const tl_rare_options *t = lock->rare;
    if (t->hold_ns)
        atomic_store(t->hold_ns, tl__mono_add_ms(tl__mono_now(), t->max_hold_ms).ns);
    if (t->alive_ns && GUARD(acquire_is_a_sign))
        atomic_store(t->alive_ns, tl__mono_now().ns);
}

void tl__hold_unlimit(tl_lock *lock) {
    if (lock->rare->hold_ns && GUARD(adopted_is_not_outlived))
        atomic_store(lock->rare->hold_ns, 0);
}

/* Not with manual_renew, as the program may have passed the token on: see leaves_something(). */
bool tl__hold_outlived(const tl_lock *lock) {
    tl_mono hold = tl__lock_hold_end(lock);
    return hold.ns != 0 && !lock->manual_renew && tl_lock_state(lock) == TL_LOST &&
           !(tl__lock_is_copied(lock) && GUARD(copy_releases_nothing)) &&
           !tl__mono_before(tl__mono_now(), hold);
}

/* ---- leftovers on the server ----------------------------------------------------------------- */

void tl__hold_drop_in(tl_lock *lock, const tl_job *job) {
    tl_settle s;
    tl_mono believed = {atomic_load(&lock->deadline_ns)};
    tl__settle_init(&s, job, TL_RELEASE, believed, tl__keeper_seed(&lock->client->keeper));
    const tl_machine machine = {&s, tl__settle_step, "release", tl__name_key(lock->name)};
    tl__keeper_detach_in(&lock->client->keeper, &machine, sizeof s, TL_START,
                         tl__name_hold(lock->name), tl__name_release);
}

static const tl_holder *holder_of(const tl_lock *lock) {
    return lock->client->backend->holder;
}

void tl__hold_undo_in(tl_lock *lock) {
    if (!tl__lock_is_copied(lock) || !GUARD(copy_undoes_nothing))
        holder_of(lock)->drop(lock);
}

void tl__hold_undo(tl_lock *lock) {
    tl_keeper *keeper = &lock->client->keeper;
    if (tl__keeper_ready(keeper))
        return; /* it expires by itself */
    tl__keeper_lock(keeper);
    tl__hold_undo_in(lock);
    tl__keeper_unlock(keeper);
}

/* May the hold have left something on the server? A hold that expired may have left its key, if a renewal was
 * executed whose reply was lost. But with manual_renew the program may have passed the token on, so that the
 * key is another's. */
static bool leaves_something(const tl_lock *lock, tl_lost_why why) {
    return why == TL_LOST_TAKEN || why == TL_LOST_GONE ||
           (why == TL_LOST_STALLED && GUARD(stall_cleans_up)) ||
           ((why == TL_LOST_EXPIRED || why == TL_LOST_DISRUPTED) && !lock->manual_renew);
}

/* ---- reports --------------------------------------------------------------------------------- */

/* Why renewals have failed, for each server; empty if that is not known. */
static void describe_causes(const tl_causes *causes, char *to, size_t size) {
    size_t n = 0;
    *to = '\0';
    for (unsigned i = 0; causes && i < TL_QUORUM_MAX; i++) {
        const char *message = causes->of[i].message;
        if (message[0] && n < size)
            n += (size_t)snprintf(to + n, size - n, "%s%s", n ? "; " : ": ", message);
    }
}

/* The cause of a loss or of a risk. */
static const char *cause_message(const tl_events *events, char message[TL_DETAIL_SIZE]) {
    const tl_lock_event *event = &events->event;
    switch (event->why) {
    case TL_LOST_EXPIRED: return events->lock->client->backend->expired;
    case TL_LOST_TAKEN:
        if (!event->stolen)
            return "another holds it";
        (void)snprintf(message, TL_DETAIL_SIZE,
                       "stolen by a client whose clock is at least %lld ms ahead, or whose "
                       "lifetime is longer than legacy_ttl_min by as much",
                       (long long)event->thief_ahead_ms);
        return message;
    case TL_LOST_GONE:
        return events->failover ? "the failover lost it" : "its key no longer exists";
    case TL_LOST_MAX_HOLD: return "max_hold has passed";
    case TL_LOST_STALLED:
        (void)snprintf(message, TL_DETAIL_SIZE, "stalled: no sign of life for %lld ms",
                       (long long)events->lock->rare->stall_ms);
        return message;
    case TL_LOST_DISRUPTED: return "this machine was paused, moved or restored";
    case TL_NOT_LOST: break;
    }
    return "a renewal has failed";
}

/* The detail of the newest event. */
static void describe(const tl_events *events, char message[TL_DETAIL_SIZE]) {
    const tl_lock_event *event = &events->event;
    char room[TL_DETAIL_SIZE], causes[TL_DETAIL_SIZE], key[TL_KEY_SHOWN_SIZE];
    bool renewals = event->state == TL_AT_RISK || event->why == TL_LOST_EXPIRED ||
                    event->why == TL_LOST_STALLED || event->why == TL_LOST_DISRUPTED;
    const char *what = event->state == TL_HELD ? "renewed again" : cause_message(events, room);
    describe_causes(renewals ? events->causes : NULL, causes, sizeof causes);
    tl__lock_key_shown(events->lock, key);
    (void)snprintf(message, TL_DETAIL_SIZE, "%s: %s%.*s", key, what,
                   (int)(TL_DETAIL_SIZE - 3 - strlen(key) - strlen(what)), causes);
}

static void tell(tl_report *report) {
    tl_events *events = (tl_events *)((char *)report - offsetof(tl_events, report));
    tl_lock *lock = events->lock;
    tl_keeper *keeper = &lock->client->keeper;
    tl__keeper_lock(keeper);
    tl_lock_event event = events->event;
    char message[TL_DETAIL_SIZE];
    describe(events, message);
    bool over = event.state == events->reported; /* it changed back after this call began */
    events->reported = event.state;
    tl__keeper_unlock(keeper);
    if (GUARD(outdated_event) && over)
        return;
    event.remaining_ms = tl_lock_remaining_ms(lock);
    event.detail = message;
    events->call(lock, &event, events->ctx);
}

/* Was the last proof of the hold given by another server than the one that is asked now? Then the present
 * server may never have had the key. `believed`: the deadline by that proof. */
static bool is_of_former_server(const tl_lock *lock, tl_mono believed) {
    const tl_site *site = tl__fleet_node(lock->client, tl__name_key(lock->name))->site;
    int64_t lasts_ns = tl__rate_least_ns(lock->ttl_ms * TL_NS_PER_MS, lock->client->drift_ppm);
    return site && tl__site_has_changed(site, tl__mono_add_ns(believed, -lasts_ns));
}

/* Queue an event. If the state is the one that was reported last, withdraw it instead: of a risk and its end
 * the program gets both events, or neither. */
static void report(tl_lock *lock, tl_state state, const tl_note *note) {
    tl_keeper *keeper = &lock->client->keeper;
    tl_events *events = lock->events;
    if (!events)
        return;
    events->event = (tl_lock_event){.size = sizeof events->event,
                                    .state = state,
                                    .why = note->why,
                                    .stolen = note->stolen,
                                    .thief_ahead_ms = note->thief_ahead_ms};
    if (state == events->reported)
        tl__keeper_withdraw(keeper, &events->report);
    else
        tl__keeper_report(keeper, &events->report);
}

void tl__hold_init(tl_lock *lock) {
    lock->task.kind = holder_of(lock)->kind;
    if (lock->events)
        lock->events->report = (tl_report){.call = tell, .owner = lock};
}

/* ---- renewals -------------------------------------------------------------------------------- */

/* Make the renewal machine again from what remember() has kept. */
static tl_renew *resume(tl_lock *lock) {
    tl_keeper *keeper = &lock->client->keeper;
    if (keeper->step.job.protocol) /* filled by an earlier step of some lock */
        tl__lock_refill_job(&keeper->step.job, lock);
    else
        tl__lock_fill_job(&keeper->step.job, lock);
    tl__renew_resume(&keeper->step, keeper->step.job.hold.believed, tl__lock_stalls_at(lock),
                     &lock->rest);
    keeper->step.result.proved = (tl_mono){atomic_load(&lock->proved_ns)};
    if (lock->renewal)
        keeper->step.attempt = lock->renewal->attempt;
    keeper->steps = &lock->task;
    return &keeper->step;
}

static void drop_renewal(tl_lock *lock) {
    if (lock->renewal)
        tl__keeper_give_renewal(&lock->client->keeper, lock->renewal);
    lock->renewal = NULL;
}

static void listen(const tl_lock *lock, const tl_proof *before) {
    if (holder_of(lock)->listen)
        holder_of(lock)->listen(lock, before);
}

static void ignore(const tl_lock *lock) {
    if (holder_of(lock)->ignore)
        holder_of(lock)->ignore(lock);
}

/* Keep what the machine needs for its next step. An idle renewal is there: stay() has made sure of that. */
static void remember(tl_lock *lock) {
    tl_keeper *keeper = &lock->client->keeper;
    const tl_proof before = lock->proof;
    lock->proof = keeper->step.job.hold.proof;
    listen(lock, &before);
    lock->rest = keeper->step.rest;
    if (!lock->rest.asking) {
        if (GUARD(rest_keeps_no_room))
            drop_renewal(lock);
    } else if (!lock->renewal) {
        lock->renewal = tl__keeper_take_renewal(keeper);
    }
    if (lock->renewal)
        lock->renewal->attempt = keeper->step.attempt;
    const tl_result *result = &keeper->step.result;
    if (result->deadline.ns != atomic_load(&lock->deadline_ns) ||
        result->proved.ns != atomic_load(&lock->proved_ns)) /* only one of two steps changes them */
        tl__hold_prove(lock, result->deadline, result->proved);
    keeper->steps = NULL;
}

static tl_machine machine(tl_task *task) {
    tl_lock *lock = LOCK_OF(task);
    return (tl_machine){resume(lock), tl__renew_step, "renew", tl__name_key(lock->name)};
}

static bool stay(tl_task *task) {
    return tl__keeper_have_renewal(&LOCK_OF(task)->client->keeper);
}

static void forget_causes(tl_lock *lock) {
    if (!lock->events)
        return;
    free(lock->events->causes);
    lock->events->causes = NULL;
}

void tl__hold_free_events(tl_lock *lock) {
    forget_causes(lock);
    free(lock->events);
}

/* Note why a renewal failed. Near the deadline a renewal has only a few ms, in which not even a refusal may
 * arrive. So "no reply" does not replace an earlier refusal. */
static void note_cause(tl_lock *lock, const tl_out *out) {
    tl_events *events = lock->events;
    if (!events || !(out->missed || (out->renewed && events->causes)))
        return;
    if (!events->causes)
        events->causes = calloc(1, sizeof *events->causes);
    if (!events->causes)
        return;
    bool silent = out->sys_errno == ETIMEDOUT;
    tl_cause *cause = &events->causes->of[out->renewal_of];
    if (GUARD(past_causes_forgotten) && out->renewed)
        cause->message[0] = '\0';
    else if (out->message[0] &&
             (!GUARD(refusal_over_silence) || !silent || cause->silent || !cause->message[0])) {
        memcpy(cause->message, out->message, sizeof cause->message);
        cause->silent = silent;
    }
}

static void count_held(tl_lock *lock, bool held) {
    lock->counted = held;
    tl__count_held(&lock->client->counts, held);
}

/* The hold is over. One whose end is noticed late was over at its deadline. */
static void count_end(tl_lock *lock, tl_mono deadline) {
    if (!lock->counted)
        return;
    tl_mono end = tl__mono_min(tl__mono_now(), deadline), limit = tl__lock_hold_end(lock);
    if (limit.ns != 0)
        end = tl__mono_min(end, limit);
    count_held(lock, false);
    tl__count_hold(&lock->client->counts, tl__ns_until(lock->since, end));
}

void tl__hold_noted(tl_lock *lock, const tl_out *out, tl_mono believed) {
    static const tl_state states[] = {
        [TL_NOTE_AT_RISK] = TL_AT_RISK, [TL_NOTE_HELD] = TL_HELD, [TL_NOTE_LOST] = TL_LOST};
    tl__count_step(&lock->client->counts, out);
    note_cause(lock, out);
    for (unsigned i = 0; i < out->notes; i++) {
        tl_state state = states[out->note[i].kind];
        if (GUARD(past_causes_forgotten) && state == TL_HELD)
            forget_causes(lock);
        atomic_store(&lock->state, (int)state);
        if (lock->events)
            lock->events->failover = state == TL_LOST && is_of_former_server(lock, believed);
        if (GUARD(change_is_reported))
            report(lock, state, &out->note[i]);
        if (state != TL_LOST)
            continue;
        count_end(lock, believed);
        if (GUARD(loss_cleans_up) && leaves_something(lock, out->note[i].why))
            tl__hold_undo_in(lock);
        if (out->note[i].why != TL_LOST_MAX_HOLD && lock->rare->hold_ns)
            atomic_store(lock->rare->hold_ns, 0);
        if (GUARD(loss_leaves_front))
            tl__gate_leave(&lock->client->gate, &lock->gate_node);
    }
}

/* After each step of the renewal, under keeper.mutex. */
static void stepped(tl_task *task, const tl_out *out, tl_status status) {
    tl_lock *lock = LOCK_OF(task);
    const tl_mono believed = {atomic_load(&lock->deadline_ns)};
    if (lock->client->keeper.steps == task) /* else the client is being closed */
        remember(lock);
    if (status == TL_END) {
        drop_renewal(lock);
        ignore(lock);
        atomic_store(&lock->deadline_ns, 0);
    }
    tl__hold_noted(lock, out, believed);
}

/* Must the key be watched for changes? No client overwrites a token, so such a key need not be watched. */
static bool is_watched(const tl_lock *lock) {
    bool token = lock->proof.held_by == 1 + TL_TOKEN;
    return lock->client->keeper.watching && !lock->rare->rules.strict && !token;
}

/* ---- beginning and ending -------------------------------------------------------------------- */

/* Begin to renew the hold, whose deadline is published. With keeper.mutex held. */
static tl_err watch_in(tl_lock *lock, uint64_t seed) {
    tl_keeper *keeper = &lock->client->keeper;
    tl_mono hold = tl__lock_hold_end(lock);
    if (hold.ns == 0)
        hold = TL_NEVER;
    lock->task.watched = is_watched(lock) ? tl__name_key(lock->name) : (tl_bytes){0};
    if (GUARD(past_causes_forgotten))
        forget_causes(lock);
    if (lock->events)
        lock->events->reported = TL_HELD;
    lock->rest = tl__rest_begin(hold, lock->manual_renew, seed);
    listen(lock, NULL);
    if (holder_of(lock)->begin)
        holder_of(lock)->begin(lock, hold, seed);
    count_held(lock, true); /* first: its first step may find that it is lost */
    tl_err code = tl__keeper_add(keeper, &lock->task, TL_START);
    if (code)
        count_held(lock, false);
    return code;
}

tl_err tl__hold_watch(tl_lock *lock, uint64_t seed) {
    tl_keeper *keeper = &lock->client->keeper;
    tl__keeper_lock(keeper);
    tl_err code = watch_in(lock, seed);
    tl__keeper_unlock(keeper);
    return code;
}

tl_err tl__hold_begin_in(tl_lock *lock, const tl_hold *hold, uint64_t seed) {
    lock->token = hold->token;
    lock->passes = (uint8_t)hold->passes;
    lock->proof = hold->proof;
    atomic_store(&lock->began_ns, hold->began.ns);
    lock->taken = hold->taken;
    lock->taken_us = hold->taken_us;
    lock->since = hold->handed ? tl__mono_now() : hold->taken;
    atomic_store_explicit(&lock->fence, hold->fence, memory_order_relaxed);
    if (holder_of(lock)->vote && hold->ballots)
        holder_of(lock)->vote(lock, hold->ballots);
    if (lock->gate_node.state !=
        TL_FRONT) /* it did not queue; if it is first, no other thread changes that */
        (void)tl__gate_enter(&lock->client->gate, &lock->gate_node, NULL);
    tl__hold_limit(lock);
    tl__hold_prove(lock, hold->deadline, hold->proved);
    tl__hold_publish(lock, TL_HELD, hold->deadline);
    if (watch_in(lock, seed) == TL_OK) {
        tl__count_wait(&lock->client->counts, tl__ns_until(hold->asked, lock->since), hold->waited,
                       hold->handed);
        return TL_OK;
    }
    tl__hold_publish(lock, TL_FREE, (tl_mono){0});
    tl__hold_undo_in(lock);
    return TL_ENOMEM;
}

tl_err tl__hold_begin(tl_lock *lock, const tl_hold *hold, uint64_t seed) {
    tl_keeper *keeper = &lock->client->keeper;
    tl__keeper_lock(keeper);
    tl_err code = tl__hold_begin_in(lock, hold, seed);
    tl__keeper_unlock(keeper);
    return code;
}

tl_job tl__hold_job(tl_lock *lock) {
    tl__keeper_lock(&lock->client->keeper);
    tl_job job = tl__lock_job(lock);
    tl__keeper_unlock(&lock->client->keeper);
    return job;
}

void tl__hold_raise(tl_lock *lock, int64_t ttl_ms) {
    tl__keeper_lock(&lock->client->keeper);
    if (ttl_ms > lock->ttl_ms)
        lock->ttl_ms = (int32_t)ttl_ms;
    tl__keeper_unlock(&lock->client->keeper);
}

/* stood_ms, the lifetime of its entry in the server's queue, and `unlimited` are from the acquire: an
 * extension's proof lacks them. */
static bool extended(tl_lock *lock, int64_t ttl_ms, const void *machine) {
    const tl_result *result = machine;
    int32_t stood_ms = lock->proof.stood_ms;
    bool unlimited = lock->proof.unlimited;
    if (result->code)
        return false;
    lock->ttl_ms = (int32_t)ttl_ms;
    lock->proof = result->proof;
    lock->proof.stood_ms = stood_ms;
    lock->proof.unlimited = unlimited;
    tl__lock_shows_life(lock);
    if (GUARD(lost_not_extended) && lock->task.at == 0)
        return false;
    tl__renew_extended(resume(lock), ttl_ms, result->deadline, tl__mono_now());
    lock->client->keeper.step.result.proved = result->proved;
    remember(lock);
    atomic_store(&lock->state, (int)TL_HELD);
    tl__keeper_tell(&lock->client->keeper, &lock->task, TL_TIMER);
    return true;
}

static void init_settle(void *machine, const tl_lock *lock, const tl_job *job, tl_op op,
                        uint64_t seed) {
    (void)lock;
    tl__settle_init(machine, job, op, job->hold.believed, seed);
}

const tl_settling tl__hold_settling = {
    .size = sizeof(tl_settle), .step = tl__settle_step, .init = init_settle, .extended = extended};

bool tl__hold_extended(tl_lock *lock, int64_t ttl_ms, const void *machine) {
    tl_keeper *keeper = &lock->client->keeper;
    tl__keeper_lock(keeper);
    bool renewed = holder_of(lock)->settling->extended(lock, ttl_ms, machine);
    tl__keeper_unlock(keeper);
    return renewed;
}

bool tl__hold_stop_in(tl_lock *lock) {
    tl_keeper *keeper = &lock->client->keeper;
    bool left = !lock->manual_renew && lock->task.at != 0;
    tl__keeper_remove(keeper, &lock->task);
    count_end(lock, (tl_mono){atomic_load(&lock->deadline_ns)});
    if (holder_of(lock)->room == 0)
        drop_renewal(lock);
    ignore(lock);
    if (lock->events)
        tl__keeper_withdraw(keeper, &lock->events->report);
    if (GUARD(stop_awaits_callback))
        tl__keeper_await_reported(keeper, lock);
    return left;
}

bool tl__hold_stop(tl_lock *lock) {
    tl__keeper_lock(&lock->client->keeper);
    bool left = tl__hold_stop_in(lock);
    tl__keeper_unlock(&lock->client->keeper);
    return left;
}

/* May the hold pass on? Only if it is HELD, and its token is not from elsewhere. */
static bool is_passable(const tl_lock *lock, tl_hold *ret) {
    if (lock->adopted || atomic_load(&lock->state) != TL_HELD || tl__lock_is_in_doubt(lock))
        return false;
    *ret = (tl_hold){.token = lock->token,
                     .deadline = {atomic_load(&lock->deadline_ns)},
                     .proved = {atomic_load(&lock->proved_ns)},
                     .began = {atomic_load(&lock->began_ns)},
                     .fence = atomic_load(&lock->fence),
                     .passes = lock->passes,
                     .proof = lock->proof,
                     .taken = lock->taken,
                     .taken_us = lock->taken_us};
    return true;
}

/* Hand the hold over to the next lock of this process, without a request to the server. The state is FREE
 * before that: a thread that looks at both locks must not see two holders. */
static bool pass_on(tl_lock *lock) {
    tl_hold hold;
    bool passable = is_passable(lock, &hold);
    if (GUARD(free_before_released))
        publish_state(lock, TL_FREE);
    const tl_mono now = passable && hold.passes > 0 ? tl__mono_now() : (tl_mono){0};
    bool passed = passable && tl__gate_pass(&lock->client->gate, &lock->gate_node, &hold, now);
    if (passed)
        tl__trace(lock->client, tl__name_key(lock->name), "release",
                  "handed over within the process");
    return passed;
}

/* A hold that was handed over counts from then. */
void tl__hold_rest(const tl_lock *lock, int64_t rest_ms, tl_job *job) {
    int64_t handed_ns = tl__rate_most_ns(tl__ns_until(lock->taken, lock->since),
                                         lock->client->drift_ppm);
    job->release.rest_ms = rest_ms;
    job->release.rest_since = lock->since;
    job->release.rest_since_us = lock->taken_us > 0
                                     ? lock->taken_us + GUARD(rest_counts_from_hand_over) *
                                                            (handed_ns / 1000 + 1)
                                     : 0;
}

/* Does a release at this moment let the lock rest? */
static bool rests_now(const tl_lock *lock, int64_t rest_ms) {
    tl_job job = {0};
    tl__hold_rest(lock, rest_ms, &job);
    return GUARD(rest_is_not_passed_on) && rest_ms > 0 &&
           tl__job_rest_ms(&job, tl__mono_now(), lock->client->drift_ppm) > 0;
}

/* The key of a lock that is lost may still be there, after a stall or the longest hold. */
static bool is_lost(const tl_lock *lock) {
    return !lock->adopted && tl_lock_state(lock) == TL_LOST;
}

tl_err tl__hold_begin_release(tl_lock *lock, bool in, int64_t *rest_ms, bool *ret_passed,
                              tl_error *err) {
    const char *what = *rest_ms > 0 ? "rest" : "release";
    const tl_protocol *protocol = lock->client->protocol;
    tl_err code = tl__lock_check(lock, what, err);
    if (code)
        return code;
    if (atomic_load(&lock->state) == TL_FREE)
        return tl__lock_fail(lock, TL_EINVALID, what, "it is not held", err);
    const char *never = *rest_ms > 0 && protocol->never_rests
                            ? protocol->never_rests(&lock->rare->rules)
                            : NULL;
    if (never)
        return tl__lock_fail(lock, TL_EINVALID, what, never, err);
    if (GUARD(copy_releases_nothing) && tl__lock_is_copied(lock)) {
        (void)(in ? tl__hold_stop_in(lock) : tl__hold_stop(lock));
        tl__hold_publish(lock, TL_FREE, (tl_mono){0});
        tl__gate_leave(&lock->client->gate, &lock->gate_node);
        return tl__lock_fail(lock, TL_EEXPIRED, what, TL_COPIED, err);
    }
    if (GUARD(lost_does_not_rest) && *rest_ms > 0 && is_lost(lock))
        *rest_ms = 0;
    if (GUARD(release_ends_renewals))
        (void)(in ? tl__hold_stop_in(lock) : tl__hold_stop(lock));
    if (!rests_now(lock, *rest_ms))
        *ret_passed = pass_on(lock);
    else if (GUARD(free_before_released))
        publish_state(lock, TL_FREE);
    lock->adopted = false;
    if (*ret_passed)
        atomic_store(&lock->deadline_ns, 0);
    return TL_OK;
}
