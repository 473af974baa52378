/*
 * The stamp protocols. K holds the end of its lock's lifetime. Legacy clients write and read it by
 * their own clocks. Every formula leaves room for the error of these clocks (M) and for a client's
 * delay from reading its clock to acting (L). No margin may be shortened without its model
 * (tests/model). A client must never take a stamp for its own because of its bytes alone.
 */
#include "stamp/stamp.h"

#include <stdio.h>

#include "ground/guard.h"
#include "phase/phase.h"

#define GRACE_TIMES 10
#define GRACE_MS INT64_C(3600000)
#define NODES_GRACE_MS 2000 /* dialects of whole seconds see it as free this much later */

/* ---- judging --------------------------------------------------------------------------------- */

tl_interval tl__stamp_now_us(const tl_job *job, const tl_event *event) {
    if ((!job->rules.strict || !GUARD(strict_own_clock)) && event->server->anchor.known)
        return tl__try_server_us(event, event->now);
    int64_t us = event->now.ns / 1000 + event->server->wall_us;
    return (tl_interval){us, us};
}

int64_t tl__stamp_late_ms(const tl_rules *rules) {
    return GUARD(late_waiters) && rules->dialect->waiters_overwrite ? rules->legacy_delay_max_ms
                                                                    : 0;
}

int64_t tl__stamp_early_ms(const tl_rules *rules) {
    return GUARD(spares_early_writers) * (int64_t)rules->dialect->early_ms;
}

int64_t tl__stamp_skew_ms(const tl_job *job, const tl_event *event) {
    return job->rules.clock_skew_max_ms *
           (job->rules.strict || event->server->anchor.known || !GUARD(two_clocks_skew) ? 1 : 2);
}

/* In a cluster S may not know of a renewal or release by single keys. A client that finds such a
 * stamp waits for K to expire, so K's lifetime is short there. */
int64_t tl__stamp_px_ms(const tl_job *job, int64_t left_ms) {
    int64_t grace = job->ttl_ms * GRACE_TIMES;
    if (GUARD(cluster_stamps_expire) && job->rules.nodes)
        return left_ms + job->rules.clock_skew_max_ms + job->rules.legacy_delay_max_ms +
               NODES_GRACE_MS;
    return job->ttl_ms + (grace > GRACE_MS ? grace : GRACE_MS);
}

int64_t tl__stamp_least_end_ms(const tl_job *job, const tl_event *event) {
    tl_mono cap = job->rules.dialect->waiters_overwrite ? tl__stamp_cap(job, event->now, event)
                                                        : tl__proof_stamp(&job->hold.proof).cap;
    int64_t left_ns = tl__ns_until(event->now, tl__mono_max(job->hold.believed, cap));
    int64_t most_ms = tl__rate_most_ns(left_ns, event->server->drift_ppm) / TL_NS_PER_MS;
    return tl__stamp_now_us(job, event).hi / 1000 + most_ms + tl__stamp_skew_ms(job, event) +
           tl__stamp_late_ms(&job->rules) + 2;
}

void tl__stamp_prove(tl_try *attempt, const tl_job *job, const tl_event *event, int64_t proved_us,
                     int64_t end_ms) {
    tl_proof *proof = &attempt->result.proof;
    *proof = job->hold.proof;
    proof->kind = TL_PROOF_STAMP;
    proof->stamp = tl__proof_stamp(&job->hold.proof);
    /* 0: adopted, perhaps right after the acquire */
    bool fresh = attempt->result.op == TL_ACQUIRE ||
                 (GUARD(adopted_lock_capped) && proof->stamp.proved_us == 0);
    /* Where waiters overwrite, any poll may leave a loser's stamp. */
    if (fresh || (GUARD(cap_set_anew) && job->rules.dialect->waiters_overwrite)) {
        proof->stamp.cap = tl__stamp_cap(job, attempt->asked, event);
        proof->stamp.capped_until = tl__mono_add_ns(
            event->now, GUARD(cap_outlasts_delay) *
                            tl__rate_most_ns(job->rules.legacy_delay_max_ms * TL_NS_PER_MS,
                                             event->server->drift_ppm));
    }
    proof->stamp.proved_us = proved_us;
    proof->stamp.end_ms = end_ms;
    if (GUARD(losers_cap) &&
        (GUARD(renewal_capped) ? !tl__mono_before(proof->stamp.capped_until, attempt->asked)
                               : fresh))
        attempt->result.deadline = tl__mono_min(attempt->result.deadline, proof->stamp.cap);
}

static int64_t free_from(const tl_rules *rules, const tl_stamp *stamp) {
    return stamp->first_free_ms + GUARD(free_after_skew) * rules->clock_skew_max_ms +
           GUARD(free_after_delay) * rules->legacy_delay_max_ms;
}

bool tl__stamp_is_free(const tl_rules *rules, const tl_stamp *stamp, int64_t now_ms) {
    return (stamp->kind == TL_STAMP_GOOD || !GUARD(only_known_stamps_end)) &&
           free_from(rules, stamp) < now_ms;
}

tl_mono tl__stamp_free_at(const tl_rules *rules, const tl_stamp *stamp, int64_t now_ms,
                          const tl_event *event) {
    if (stamp->kind != TL_STAMP_GOOD)
        return TL_NEVER;
    int64_t left = free_from(rules, stamp) + 1 - now_ms;
    return tl__mono_add_ms(event->now, left > 0 ? left : 0);
}

/* Where waiters overwrite: could the writer's clock, L after its reading, be past the stamp that it
 * replaced? That stamp was ours, or one that another client left since the proof. */
static bool may_have_expired(const tl_job *job, int64_t read_ms, int64_t proved_ms) {
    const tl_rules *rules = &job->rules;
    int64_t others_ms = proved_ms - 2 * (int64_t)rules->clock_skew_max_ms -
                        rules->legacy_delay_max_ms + rules->legacy_ttl_min_ms;
    int64_t own_ms = tl__proof_stamp(&job->hold.proof).end_ms;
    int64_t least_ms = own_ms < others_ms ? own_ms : others_ms;
    return read_ms + (GUARD(delay_counts_once) ? 1 : 2) * rules->legacy_delay_max_ms >= least_ms;
}

/* Was K still ours when no racing loser could write any more? Where waiters overwrite, they may at any time. */
static bool is_late_for_losers(const tl_job *job) {
    tl_mono until = tl__proof_stamp(&job->hold.proof).capped_until;
    return GUARD(losers_come_early) && !job->rules.dialect->waiters_overwrite && until.ns != 0 &&
           !tl__mono_before(job->hold.proved, until);
}

bool tl__stamp_is_losers(const tl_job *job, const tl_stamp *stamp, const tl_event *event) {
    const tl_rules *rules = &job->rules;
    if (stamp->kind != TL_STAMP_GOOD || !GUARD(losers_stamp) || is_late_for_losers(job) ||
        (GUARD(losers_while_held) && !tl__job_believes(job, job->hold.believed, event->now)))
        return false;
    int64_t read_ms = stamp->written_ms -
                      rules->legacy_ttl_min_ms; /* what its writer's clock showed */
    int64_t proved_ms = tl__proof_stamp(&job->hold.proof).proved_us / 1000 +
                        GUARD(losers_spared_skew) * tl__stamp_skew_ms(job, event);
    if (rules->dialect->waiters_overwrite)
        return !GUARD(thiefs_stamp) || !may_have_expired(job, read_ms, proved_ms);
    return !GUARD(thiefs_stamp) || read_ms <= proved_ms;
}

tl_status tl__stamp_stolen(tl_try *attempt, const tl_job *job, const tl_stamp *stamp,
                           int64_t now_ms, tl_out *out) {
    tl_lost *lost = &attempt->result.lost;
    (void)tl__try_not_renewed(attempt, 0, out);
    if (stamp->kind == TL_STAMP_GOOD)
        lost->thief_ahead_ms = stamp->written_ms - job->rules.legacy_ttl_min_ms - now_ms;
    lost->stolen = lost->thief_ahead_ms > 0; /* else its clock may be right, and K was deleted */
    return TL_END;
}

tl_mono tl__stamp_cap(const tl_job *job, tl_mono asked, const tl_event *event) {
    const tl_rules *rules = &job->rules;
    int64_t ns = (rules->legacy_ttl_min_ms - GUARD(cap_spares_delay) * rules->legacy_delay_max_ms -
                  GUARD(cap_spares_skew) * 2 * (int64_t)rules->clock_skew_max_ms -
                  GUARD(cap_spares_waiters) * tl__stamp_late_ms(rules) -
                  tl__stamp_early_ms(rules)) *
                 TL_NS_PER_MS;
    return tl__mono_add_ns(asked, tl__rate_least_ns(ns, event->server->drift_ppm));
}

/* ---- the guard ------------------------------------------------------------------------------- */

/* This host's wall clock minus the server's, us. False: not known. */
static bool clock_offset(const tl_event *event, tl_interval *ret) {
    const tl_server *s = event->server;
    if (!s->anchor.known || s->wall_us == 0)
        return false;
    tl_interval server = tl__anchor_offset(&s->anchor, event->now, s->drift_ppm);
    *ret = (tl_interval){s->wall_us - server.hi, s->wall_us + s->wall_wide_us - server.lo};
    return true;
}

/* Has `tidelock skew` published that the clocks of a namespace are too far apart? An unreadable
 * verdict counts as one. */
static bool is_said_unsafe(const tl_namespace *ns, const tl_lease *lease, tl_out *out) {
    int n = (int)ns->name.n;
    if (lease->clocks == TL_CLOCKS_UNREADABLE)
        (void)snprintf(out->clock_message, sizeof out->clock_message,
                       "the clock verdict that tidelock skew published for namespace %.*s can't be "
                       "read: delete the key %.*s, then publish again",
                       n, ns->name.p, (int)ns->skew.n, ns->skew.p);
    else if (lease->clocks == TL_CLOCKS_UNSAFE && lease->worst_ms < 0)
        (void)snprintf(out->clock_message, sizeof out->clock_message,
                       "clocks of namespace %.*s are too far apart: UNSAFE, says tidelock skew", n,
                       ns->name.p);
    else if (lease->clocks == TL_CLOCKS_UNSAFE)
        (void)snprintf(out->clock_message, sizeof out->clock_message,
                       "clocks of namespace %.*s are up to %d ms apart: UNSAFE, says tidelock skew",
                       n, ns->name.p, lease->worst_ms);
    return lease->clocks != TL_CLOCKS_FINE;
}

/* Are clocks certainly off by more than M allows? Then out has the message. */
static bool is_clock_off(const tl_job *job, const tl_event *event, tl_out *out) {
    const tl_rules *rules = &job->rules;
    int64_t m_us = (int64_t)rules->clock_skew_max_ms * 1000;
    const tl_namespace *ns = tl__namespace_for(rules);
    const tl_lease *lease = NULL;
    if (ns) /* a lease that was just read has priority */
        lease = out->keeps ? tl__lease_read(out) : tl__lease_of(event->server, ns->index);
    tl_interval off;
    if (clock_offset(event, &off) && (off.lo > m_us || off.hi < -m_us))
        (void)snprintf(
            out->clock_message, sizeof out->clock_message,
            "this host's clock is at least %lld ms %s the server's; clock_skew_max is %d ms",
            (long long)((off.lo > 0 ? off.lo : -off.hi) / 1000), off.lo > 0 ? "ahead of" : "behind",
            rules->clock_skew_max_ms);
    else
        return lease && tl__mono_before(event->now, lease->until) && is_said_unsafe(ns, lease, out);
    return true;
}

/* Would no client read our stamp as a likely time? Then the lock would count as held for ever. */
static bool is_unreadable(const tl_job *job, const tl_event *event) {
    int64_t end_ms = tl__stamp_now_us(job, event).lo / 1000 + job->ttl_ms;
    return !tl__dialect_likely(end_ms, end_ms);
}

/* Ends an acquire that the clocks forbid. */
static bool refuses(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    static const char early[] =
        "the clock shows a time before 2001-09-09: no legacy client could read such a stamp; "
        "set the clock first";
    tl_stamp_try *stamp_try = (tl_stamp_try *)attempt;
    if (attempt->result.op != TL_ACQUIRE || stamp_try->drain)
        return false;
    if (GUARD(clock_after_2001) && is_unreadable(job, event)) {
        (void)tl__try_fail(attempt, TL_ECLOCK, false, TL_LITERAL(early), out);
        return true;
    }
    if (job->rules.clock_guard == TL_GUARD_OFF || !is_clock_off(job, event, out))
        return false;
    out->clock_off = job->rules.clock_guard == TL_GUARD_WARN;
    if (out->clock_off)
        return false;
    (void)tl__try_fail(attempt, TL_ECLOCK, false, tl__bytes_of(out->clock_message), out);
    return true;
}

/* The guard notices a clock that is off by more than M only as precisely as both clocks are
 * known. */
static bool outdated(const tl_try *attempt, const tl_job *job, const tl_event *event) {
    const tl_stamp_try *stamp_try = (const tl_stamp_try *)attempt;
    bool guarded = attempt->result.op == TL_ACQUIRE && job->rules.clock_guard != TL_GUARD_OFF;
    if (job->rules.strict || (attempt->result.op != TL_ACQUIRE && !stamp_try->drain))
        return false;
    return tl__try_is_outdated(attempt, event) ||
           (guarded &&
            tl__try_fallen_ns(event, event->now) > job->rules.clock_skew_max_ms * TL_NS_PER_MS / 2);
}

/* ---- the attempt ----------------------------------------------------------------------------- */

static bool is_bridge(const tl_stamp_try *stamp_try) {
    return stamp_try->try.row == &tl__protocol_bridge;
}

/* Ends an acquire with quiet_ms where scripts are not available: only a script can check the
 * server's identity in the same step. */
static bool never_quiet(tl_try *attempt, const tl_job *job, tl_out *out) {
    return GUARD(quiet_needs_scripts) && attempt->result.op == TL_ACQUIRE &&
           job->acquire.quiet_ms > 0 && tl__try_never_quiet(attempt, false, out) == TL_END;
}

bool tl__stamp_rests(const tl_try *attempt, const tl_job *job, const tl_event *event) {
    return attempt->result.op == TL_RELEASE &&
           tl__job_rest_ms(job, event->now, event->server->drift_ppm) > 0;
}

/* Ends a release that is to let the lock rest where scripts are not available. The stamp stays until its end: nobody
 * acquires the lock before that. Ends an acquire of such a lock, too: else the refusal came after the work. */
static bool never_rests(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    static const char message[] =
        "a stamp can't rest on a server without EVAL; the lock expires by itself";
    static const char early[] = "a stamp can't rest on a server without EVAL; it is not acquired";
    bool acquires = GUARD(rest_refused_early) && attempt->result.op == TL_ACQUIRE &&
                    job->acquire.will_rest;
    bool releases = GUARD(rest_needs_scripts) && tl__stamp_rests(attempt, job, event);
    return (acquires || releases) &&
           tl__try_fail(attempt, TL_EUNSUPPORTED, false,
                        acquires ? TL_LITERAL(early) : TL_LITERAL(message), out) == TL_END;
}

/* A client that raced with our acquire and lost may overwrite K until L after it. A holder would notice; of a
 * stamp that rests nobody does. */
static tl_mono rests_from(const tl_job *job, const tl_event *event) {
    int64_t delay_ns = tl__rate_most_ns(job->rules.legacy_delay_max_ms * TL_NS_PER_MS,
                                        event->server->drift_ppm);
    return tl__mono_add_ns(job->release.rest_since, GUARD(rests_after_losers) * delay_ns);
}

/* Ends a release that can't let the lock rest yet; it is repeated. */
static bool rests_later(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    static const char early[] =
        "a legacy client may still overwrite the stamp: it rests when legacy_delay_max has passed";
    static const char moving[] =
        "the key's slot is being moved: a lock that may be a stamp can't rest until it has moved";
    tl_mono from = rests_from(job, event);
    bool is_early = tl__mono_before(event->now, from);
    if (!tl__stamp_rests(attempt, job, event) || (!attempt->alone && !is_early))
        return false;
    (void)tl__try_fail(attempt, TL_EUNAVAILABLE, false,
                       is_early ? TL_LITERAL(early) : TL_LITERAL(moving), out);
    attempt->result.rests_from = is_early ? from : (tl_mono){0};
    return true;
}

static tl_status ask(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_stamp_try *stamp_try = (tl_stamp_try *)attempt;
    if (refuses(attempt, job, event, out))
        return TL_END;
    stamp_try->level = job->rules.strict ? TL_LEVEL_PLAIN
                                         : event->server->level &
                                               (GUARD(levels_apart) ? TL_LEVEL_BITS : UINT8_MAX);
    if (is_bridge(stamp_try) || job->rules.nodes)
        stamp_try->level = TL_LEVEL_SCRIPT;
    if (stamp_try->level > TL_LEVEL_SCRIPT &&
        (never_quiet(attempt, job, out) || never_rests(attempt, job, event, out)))
        return TL_END;
    if (rests_later(attempt, job, event, out))
        return TL_END;
    switch (stamp_try->level) {
    case TL_LEVEL_PLAIN: tl__stamp_plain_send(stamp_try, job, event, out); break;
    case TL_LEVEL_WATCH: tl__stamp_watch_send(stamp_try, job, event, out); break;
    default: tl__stamp_script_send(stamp_try, job, event, out); break;
    }
    return TL_GO;
}

/* Falls back to the plain commands where the server has no WATCH. */
static tl_status watch_answered(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                                tl_out *out) {
    if (!tl__stamp_watch_lacks(stamp_try, event))
        return tl__stamp_watch_answered(stamp_try, job, event, out);
    out->level = TL_LEVEL_PLAIN;
    tl__stamp_plain_send(stamp_try, job, event, out);
    return TL_GO;
}

static tl_status answered(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_stamp_try *stamp_try = (tl_stamp_try *)attempt;
    switch (stamp_try->level) {
    case TL_LEVEL_PLAIN: return tl__stamp_plain_answered(stamp_try, job, event, out);
    case TL_LEVEL_WATCH: return watch_answered(stamp_try, job, event, out);
    default: return tl__stamp_script_answered(stamp_try, job, event, out);
    }
}

/* Is the reply an error of the command itself, not of a script, that contains this text? */
static bool is_error(const tl_event *event, const char *text) {
    tl_bytes error = event->replied.reply->text;
    return !tl__from_script(error) && tl__bytes_has(error, text);
}

/* If the server runs no script, continue with WATCH. Whether it has WATCH shows when it is used. */
static tl_status refused(tl_try *attempt, const tl_job *job, const tl_event *event, tl_out *out) {
    tl_stamp_try *stamp_try = (tl_stamp_try *)attempt;
    if (tl__stamp_alone_leaves(stamp_try))
        return tl__stamp_alone_answered(stamp_try, job, event, out);
    if (stamp_try->level == TL_LEVEL_WATCH)
        return watch_answered(stamp_try, job, event, out);
    if (stamp_try->level == TL_LEVEL_PLAIN && is_error(event, "wrong kind of value"))
        return tl__stamp_plain_wrong_type(stamp_try, out);
    if (stamp_try->level == TL_LEVEL_PLAIN || is_bridge(stamp_try) || job->rules.nodes ||
        !tl__runs_no_script(event->replied.reply->text))
        return tl__attempt_refused(attempt, job, event, out);
    out->level = TL_LEVEL_WATCH;
    attempt->bounded = false;
    if (never_quiet(attempt, job, out) || never_rests(attempt, job, event, out))
        return TL_END;
    stamp_try->owned = tl__stamp_script_owns(stamp_try); /* until it is read again */
    tl__stamp_watch_send(stamp_try, job, event, out);
    return TL_GO;
}

static bool reads(const tl_try *attempt) {
    const tl_stamp_try *stamp_try = (const tl_stamp_try *)attempt;
    return (stamp_try->level == TL_LEVEL_PLAIN && tl__stamp_plain_reads(stamp_try)) ||
           (stamp_try->level == TL_LEVEL_WATCH &&
            (tl__stamp_watch_reads(stamp_try) || !GUARD(lost_exec_uncertain)));
}

/* An attempt that found that it owns the lock, and is renewing it unless the reply says
 * otherwise; or has renewed it, and acquires it again. */
static bool leaves(const tl_try *attempt) {
    const tl_stamp_try *stamp_try = (const tl_stamp_try *)attempt;
    return (stamp_try->level != TL_LEVEL_SCRIPT && stamp_try->owned) ||
           (stamp_try->level == TL_LEVEL_SCRIPT && tl__stamp_script_owns(stamp_try) &&
            attempt->result.code != TL_EBUSY);
}

/* Compares the time alone, which two clients' stamps may share. */
bool tl__stamp_unchanged(const tl_job *job, tl_bytes value) {
    if (job->hold.proof.kind != TL_PROOF_STAMP)
        return tl__bytes_eq(value, tl__token_bytes(&job->token));
    tl_stamp stamp = tl__dialect_read(job->rules.dialect, value,
                                      job->hold.proof.stamp.proved_us / 1000);
    return GUARD(own_renewal_known) && stamp.kind == TL_STAMP_GOOD &&
           stamp.end_ms == job->hold.proof.stamp.end_ms;
}

const tl_protocol tl__protocol_timestamp = {.name = "timestamp",
                                            .size = sizeof(tl_stamp_try),
                                            .id = TL_TIMESTAMP,
                                            .send = ask,
                                            .answered = answered,
                                            .refused = refused,
                                            .outdated = outdated,
                                            .reads = reads,
                                            .leaves = leaves,
                                            .rules = tl__stamp_rules,
                                            .never_renewed = tl__stamp_never_renewed,
                                            .never_rests = tl__stamp_never_rests,
                                            .reads_wall = true,
                                            .watching = &tl__watching,
                                            .unchanged = tl__stamp_unchanged};

const tl_protocol tl__protocol_bridge = {.name = "bridge",
                                         .size = sizeof(tl_stamp_try),
                                         .id = TL_BRIDGE,
                                         .send = ask,
                                         .answered = answered,
                                         .refused = refused,
                                         .who = {"the bridge needs", TL_INSTEAD},
                                         .outdated = outdated,
                                         .reads = reads,
                                         .leaves = leaves,
                                         .rules = tl__stamp_rules,
                                         .never_renewed = tl__stamp_never_renewed,
                                         .never_rests = tl__stamp_never_rests,
                                         .reads_wall = true,
                                         .watching = &tl__watching,
                                         .unchanged = tl__stamp_unchanged};
