/*
 * Acquiring. It drives a protocol's attempts, and between them waits for the release, the
 * expiry or a poll. It must never say "not acquired" of a lock that one of its own requests may
 * still take without cleaning up after itself, and never wait past its limit.
 */
#include "protocol/acquire.h"

#include "protocol/attempt.h"

#define DELAY_MS 100
#define DELAY_MAX_MS 5000
#define POLL_MIN_MS 50
#define POLL_MAX_MS 250
#define FLOOR_MS 5000      /* look again at least so often, whatever was promised */
#define EXPIRY_SPREAD_MS 4 /* waiters for one expiry don't all come at once */

enum { REACHING, TAKING, PAUSING, CLEANING };

void tl__acquire_init(tl_acquisition *a, const tl_job *job, const tl_retry *retry, int64_t wait_ms,
                      int64_t connect_ms, uint64_t seed) {
    *a = (tl_acquisition){.job = *job,
                          .retry = *retry,
                          .wait_ms = wait_ms,
                          .connect_ms = connect_ms,
                          .quickest_ns = INT64_MAX};
    a->random = seed ? seed : 1;
    a->job.proof = (tl_proof){0}; /* of an earlier hold, if of any */
    a->job.believed = (tl_mono){0};
}

static bool wait_is_open(const tl_acquisition *a) {
    return a->wait_ms == 0 || a->wait_ms == TL_FOREVER;
}

static void keep_words(tl_acquisition *a, tl_bytes words) {
    tl__bytes_print(a->words, sizeof a->words, words);
    a->sys_errno = 0;
}

/* It will be the same next time: what the caller is told. */
static bool is_final(tl_err code) {
    return code == TL_EDENIED || code == TL_ESERVER || code == TL_EINVALID || code == TL_ENOMEM ||
           code == TL_ECLOCK || code == TL_EUNSUPPORTED;
}

/* An attempt cut short by the limit says less of what is wrong than one before it; one that ended by itself says
 * why. */
static void keep_trouble(tl_acquisition *a, const tl_event *e, tl_err code, tl_bytes words) {
    if (a->failures > 0 && !is_final(code) && !tl__mono_before(e->now, a->limit))
        return;
    keep_words(a, words);
    a->sys_errno = e->kind == TL_FAILED ? e->sys_errno : 0;
}

/* ---- attempts -------------------------------------------------------------------------------- */

static tl_status reach(tl_acquisition *a, tl_out *out) {
    a->state = REACHING;
    a->woken = a->called = false; /* the state will be read after this */
    tl__out_send(out, ++a->ticket, a->limit);
    return TL_GO;
}

static tl_status attempt_ended(tl_acquisition *a, const tl_event *e, tl_out *out);

static tl_status take(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (a->wait_ms == 0 && a->attempts == 0)
        a->limit = tl__mono_add_ms(e->now, a->job.attempt_ms);
    a->state = TAKING;
    a->absences = 0;
    a->began = e->now;
    a->woken = a->called = false;
    a->job.again = a->attempts > 0;
    a->attempts += !a->extra;
    tl__attempt_init(&a->attempt, a->job.protocol, TL_ACQUIRE, ++a->ticket, a->limit);
    tl_event start = {.kind = TL_START, .now = e->now, .server = e->server};
    tl_status status = tl__attempt_step(&a->attempt, &a->job, &start, out);
    return status == TL_END ? attempt_ended(a, e, out) : status; /* refused before it was sent */
}

/* ---- the end --------------------------------------------------------------------------------- */

/* The caller gets `code`; what may have been left behind is dropped in the background. */
static tl_status give_up(tl_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    a->result = (tl_result){.code = code, .maybe = a->uncertain || a->unwanted};
    tl__out_words(out, tl__bytes_of(a->words));
    out->sys_errno = a->sys_errno;
    if (!a->result.maybe)
        return TL_END;
    a->state = CLEANING;
    int64_t most_ns = tl__rate_most_ns(a->job.ttl_ms * TL_NS_PER_MS, e->server->drift_ppm);
    a->limit = tl__mono_add_ms(tl__mono_add_ns(e->now, most_ns), a->job.attempt_ms);
    a->failures = 0;
    a->next = e->now;
    out->until = e->now;
    return TL_DETACH;
}

/* TIMEDOUT only if the last reply was "another holds it", and no attempt has failed since. */
static tl_status run_out(tl_acquisition *a, const tl_event *e, tl_out *out) {
    bool held = a->answered && a->failures == 0;
    if (a->uncertain)
        return give_up(a, e, TL_EUNCERTAIN, out);
    return give_up(a, e, held ? TL_ETIMEDOUT : TL_EUNAVAILABLE, out);
}

/* ---- pauses ---------------------------------------------------------------------------------- */

static tl_status stay(const tl_acquisition *a, tl_out *out) {
    if (a->state == PAUSING)
        out->until = tl__mono_min(a->next, a->limit);
    return TL_GO;
}

static tl_status pause_until(tl_acquisition *a, tl_mono next, tl_out *out) {
    a->state = PAUSING;
    a->next = next;
    a->extra = false;
    return stay(a, out);
}

static int64_t between(tl_acquisition *a, int64_t least, int64_t most) {
    return least + (int64_t)(tl__random_next(&a->random) % (uint64_t)(most - least + 1));
}

static int64_t auto_pause(tl_acquisition *a, const tl_event *e) {
    const tl_result *r = &a->attempt.result;
    bool told = (r->announced && a->armed) || a->watching;
    int64_t pause = told ? FLOOR_MS : between(a, POLL_MIN_MS, POLL_MAX_MS);
    if (r->hint.ns != INT64_MAX) {
        int64_t left = tl__ms_until(e->now, r->hint) + 1 + between(a, 0, EXPIRY_SPREAD_MS);
        pause = left < pause ? left : pause;
    }
    return pause;
}

/* The strategy's pause; negative to stop. */
static int64_t next_pause(tl_acquisition *a, const tl_event *e) {
    const tl_retry *r = &a->retry;
    int64_t delay = r->delay_ms > 0 ? r->delay_ms : DELAY_MS;
    int64_t most = r->max_delay_ms > 0 ? r->max_delay_ms : DELAY_MAX_MS;
    if (r->max_attempts > 0 && a->attempts >= r->max_attempts && !a->extra)
        return -1;
    switch (r->kind) {
    case TL_RETRY_AUTO: return auto_pause(a, e);
    case TL_RETRY_FIXED: return delay;
    case TL_RETRY_EXPONENTIAL:
        for (uint32_t i = 1; i < a->attempts && delay < most; i++)
            delay = tl__mul_sat(delay, 2);
        return between(a, 1, delay < most ? delay : most);
    case TL_RETRY_CUSTOM: return r->next(a->attempts, tl__ms_until(a->start, e->now), r->ctx);
    }
    return -1;
}

/* A take that the limit would cut short, as it seems, is not begun: all that it could bring is doubt. */
static tl_mono in_time(tl_acquisition *a, const tl_event *e, tl_mono next) {
    int64_t took_ns = tl__ns_until(a->began, e->now);
    if (took_ns < a->quickest_ns)
        a->quickest_ns = took_ns;
    int64_t room_ns = a->quickest_ns + a->quickest_ns / 2 + TL_NS_PER_MS;
    return tl__mono_before(tl__mono_add_ns(next, room_ns), a->limit) ? next : a->limit;
}

/* The server has been reached: a wait without limit has none from now on. */
static void lift_limit(tl_acquisition *a) {
    if (a->wait_ms == TL_FOREVER)
        a->limit = TL_NEVER;
}

static tl_status busy(tl_acquisition *a, const tl_event *e, tl_out *out) {
    a->answered = true;
    a->failures = 0;
    a->unwanted = false;
    lift_limit(a);
    keep_words(a, TL_LITERAL("another holds it"));
    tl__out_words(out, TL_LITERAL("another holds it"));
    if (a->uncertain && a->attempt.result.checked && !tl__mono_before(e->sent, a->harmless))
        a->uncertain = false; /* the takes that were in flight are over, and K isn't ours */
    tl_mono next = a->planned;
    if (!a->extra || a->retry.kind == TL_RETRY_AUTO) {
        int64_t pause = a->wait_ms == 0 ? -1 : next_pause(a, e);
        if (pause < 0)
            return give_up(a, e, a->uncertain ? TL_EUNCERTAIN : TL_EBUSY, out);
        next = in_time(a, e, tl__mono_add_ms(e->now, pause));
    }
    if (!a->listening && !a->attempt.result.silent) {
        a->listening = true;
        out->arm = true;
        out->topic = a->job.sidecar;
        bool watch = a->job.protocol->watching && a->retry.kind == TL_RETRY_AUTO;
        out->watched = watch ? a->job.key : (tl_bytes){0};
    }
    if (!a->woken)
        return pause_until(a, next, out);
    a->planned = next;
    tl_status status = pause_until(a, e->now, out);
    a->extra = !a->called;
    return status;
}

static void doubt(tl_acquisition *a, tl_mono harmless) {
    a->harmless = a->uncertain ? tl__mono_max(a->harmless, harmless) : harmless;
    a->uncertain = true;
}

/* No answer, or one that may pass: try again with the same token, at once if a first request got
 * lost, since it may have taken effect. */
static tl_status failed(tl_acquisition *a, const tl_event *e, tl_err code, tl_out *out) {
    if (is_final(code))
        return give_up(a, e, code, out);
    a->failures++;
    int64_t pause = a->failures == 1 && code == TL_EUNCERTAIN
                        ? 0
                        : tl__backoff_ms(a->failures, &a->random);
    return pause_until(a, tl__mono_add_ms(e->now, pause), out);
}

static tl_status attempt_ended(tl_acquisition *a, const tl_event *e, tl_out *out) {
    const tl_result *r = &a->attempt.result;
    if (r->code == TL_OK && tl__mono_before(e->now, r->deadline)) {
        a->result = *r;
        return TL_END;
    }
    if (r->code == TL_OK) { /* confirmed too late to be of use: have it confirmed again */
        a->unwanted = true;
        keep_words(a, TL_LITERAL("confirmed too late"));
        return failed(a, e, TL_EUNAVAILABLE, out);
    }
    if (r->code == TL_EBUSY)
        return busy(a, e, out);
    if (r->maybe && r->code == TL_EUNCERTAIN)
        doubt(a, r->harmless);
    else if (r->maybe) {
        a->unwanted = true;
        lift_limit(a);
    }
    keep_trouble(a, e, r->code, tl__bytes_of(out->words));
    return failed(a, e, r->code, out);
}

/* ---- cleaning up ----------------------------------------------------------------------------- */

static tl_status drop(tl_acquisition *a, const tl_event *e, tl_out *out) {
    tl__attempt_init(&a->attempt, a->job.protocol, TL_RELEASE, ++a->ticket, a->limit);
    tl_event start = {.kind = TL_START, .now = e->now, .server = e->server};
    a->next = TL_NEVER;
    tl_status status = tl__attempt_step(&a->attempt, &a->job, &start, out);
    out->until = a->limit;
    return status;
}

static tl_status clean(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (!tl__mono_before(e->now, a->limit))
        return TL_END; /* by now it has expired */
    if (!tl__mono_before(e->now, a->next))
        return drop(a, e, out);
    if (e->kind == TL_REPLY || e->kind == TL_FAILED) {
        if (tl__attempt_step(&a->attempt, &a->job, e, out) != TL_END) {
            out->until = tl__mono_min(a->next, a->limit);
            return TL_GO;
        }
        tl_err code = a->attempt.result.code;
        if (code != TL_EUNAVAILABLE && code != TL_EUNCERTAIN)
            return TL_END;
        a->next = tl__mono_add_ms(e->now, tl__backoff_ms(++a->failures, &a->random));
    }
    out->until = tl__mono_min(a->next, a->limit);
    return TL_GO;
}

/* ---- events ---------------------------------------------------------------------------------- */

static tl_status begin(tl_acquisition *a, const tl_event *e, tl_out *out) {
    a->start = e->now;
    a->limit = tl__mono_add_ms(e->now, wait_is_open(a) ? a->connect_ms : a->wait_ms);
    return reach(a, out);
}

/* Whoever tries once doesn't wait for somebody to start the server. But what a request of his may
 * have done, he asks as long as he can. */
static bool is_hopeless(tl_acquisition *a, const tl_event *e) {
    a->absences = (uint8_t)(e->absent && a->absences < UINT8_MAX ? a->absences + 1 : 0);
    return a->wait_ms == 0 && a->absences > 1 && !a->uncertain && !a->unwanted;
}

static tl_status on_answer(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (e->ticket != a->ticket || a->state == PAUSING)
        return stay(a, out);
    if (a->state == REACHING) {
        if (e->kind == TL_REPLY)
            return take(a, e, out);
        keep_trouble(a, e, TL_EUNAVAILABLE, e->words); /* as it ends, if it does here */
        if (tl__mono_before(e->now, a->limit) && !is_hopeless(a, e))
            return failed(a, e, e->why, out);
        a->failures++;
        return run_out(a, e, out);
    }
    tl_status status = tl__attempt_step(&a->attempt, &a->job, e, out);
    return status == TL_END ? attempt_ended(a, e, out) : status;
}

static tl_status on_timer(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (a->state != PAUSING)
        return TL_GO;
    if (!tl__mono_before(e->now, a->limit))
        return run_out(a, e, out);
    if (!tl__mono_before(e->now, a->next))
        return reach(a, out);
    return stay(a, out);
}

/* Something may have changed, or nobody will tell any more: look at once, unless it is the server
 * that is away. */
static tl_status on_wake(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (e->kind == TL_WATCHED)
        a->watching = e->armed;
    else
        a->armed = e->kind == TL_WOKEN || e->armed;
    a->woken = true;
    a->called = a->called || e->kind == TL_WOKEN;
    if (a->state == PAUSING && a->failures == 0) {
        a->extra = e->kind != TL_WOKEN;
        a->planned = a->next;
        a->next = e->now;
    }
    return on_timer(a, e, out);
}

static tl_status on_cancel(tl_acquisition *a, const tl_event *e, tl_out *out) {
    if (a->state == TAKING)
        doubt(a, TL_NEVER);
    keep_words(a, TL_LITERAL("cancelled"));
    return give_up(a, e, TL_ECANCELLED, out);
}

tl_status tl__acquire_step(void *machine, const tl_event *e, tl_out *out) {
    tl_acquisition *a = machine;
    if (a->state == CLEANING)
        return clean(a, e, out);
    switch (e->kind) {
    case TL_START: return begin(a, e, out);
    case TL_REPLY:
    case TL_FAILED: return on_answer(a, e, out);
    case TL_ARMED:
    case TL_WATCHED:
    case TL_WOKEN: return on_wake(a, e, out);
    case TL_TIMER: return on_timer(a, e, out);
    case TL_CANCEL: return on_cancel(a, e, out);
    }
    return TL_GO;
}
