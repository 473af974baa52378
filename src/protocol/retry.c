/*
 * Trying again. Pure, as all of this room.
 */
#include "protocol/retry.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/line.h"

#define DELAY_MS 100
#define DELAY_MAX_MS 5000

/* ---- the message ------------------------------------------------------------------------------- */

void tl__retry_say(tl_retrier *r, tl_bytes message) {
    tl__bytes_print(r->message, sizeof r->message, message);
    r->sys_errno = 0;
    r->lasts = false;
}

void tl__retry_blame(tl_retrier *r, const tl_event *e, tl_err code, tl_bytes message) {
    bool lasts = GUARD(lasting_reason) && !tl__may_pass(code);
    bool late = r->failures > 0 && !tl__mono_before(e->now, r->limit);
    if (!lasts && (late || r->lasts))
        return;
    tl__retry_say(r, message);
    r->sys_errno = e->kind == TL_FAILED ? e->failed.sys_errno : 0;
    r->lasts = lasts;
}

void tl__retry_report(const tl_retrier *r, tl_out *out) {
    tl__out_words(out, tl__bytes_of(r->message));
    out->sys_errno = r->sys_errno;
}

/* ---- pauses ------------------------------------------------------------------------------------ */

tl_mono tl__retry_after(tl_retrier *r, tl_mono now, bool at_once) {
    r->failures++;
    int64_t ms = at_once && r->failures == 1 ? 0 : tl__backoff_ms(r->failures, &r->random);
    return tl__mono_add_ms(now, ms);
}

tl_mono tl__retry_wakes(const tl_retrier *r) {
    return tl__mono_min(r->next, GUARD(wait_has_limit) ? r->limit : TL_NEVER);
}

tl_mono tl__retry_cleans_until(const tl_job *job, tl_mono believed, tl_mono now,
                               int32_t drift_ppm) {
    int64_t most_ns = tl__rate_most_ns(job->ttl_ms * TL_NS_PER_MS, drift_ppm);
    tl_mono expiry = tl__mono_max(tl__mono_add_ns(now, most_ns), believed);
    return tl__mono_add_ms(expiry, job->attempt_ms);
}

/* ---- acquiring --------------------------------------------------------------------------------- */

tl_retrier tl__retry_init(const tl_retry *strategy, int64_t wait_ms, int64_t connect_ms,
                          uint64_t seed) {
    return (tl_retrier){.strategy = *strategy,
                        .wait_ms = wait_ms,
                        .connect_ms = connect_ms,
                        .quickest_ns = INT64_MAX,
                        .random = tl__random_begin(seed)};
}

void tl__retry_begin(tl_retrier *r, tl_mono now) {
    TL_ASSERT(r->start.ns == 0 && r->random != 0);
    bool open = r->wait_ms == 0 || r->wait_ms == TL_FOREVER;
    r->start = now;
    r->limit = tl__mono_add_ms(now, open ? r->connect_ms : r->wait_ms);
}

void tl__retry_ask(tl_retrier *r, tl_mono now, int64_t attempt_ms) {
    if (r->wait_ms == 0 && r->attempts == 0)
        r->limit = tl__mono_add_ms(now, attempt_ms);
    r->doing = TL_ASKS;
    r->absences = 0;
    r->began = now;
    r->attempts += !r->extra;
}

bool tl__retry_unreached(tl_retrier *r, const tl_event *e, bool in_doubt) {
    TL_ASSERT(e->kind == TL_FAILED && r->doing != TL_PAUSES && r->doing != TL_CLEANS);
    tl__retry_blame(r, e, TL_EUNAVAILABLE, e->failed.message); /* as it ends, if it does here */
    tl__retry_note_absence(r, e);
    bool goes_on = tl__mono_before(e->now, r->limit) && !tl__retry_is_hopeless(r, 1, in_doubt);
    r->failures += !goes_on;
    return goes_on;
}

bool tl__retry_is_hopeless(const tl_retrier *r, unsigned most, bool in_doubt) {
    return GUARD(gives_up_on_nobody) && r->wait_ms == 0 && r->absences > most &&
           (!in_doubt || !GUARD(doubt_goes_on));
}

void tl__retry_note_absence(tl_retrier *r, const tl_event *e) {
    r->absences = (uint8_t)(e->kind == TL_FAILED && e->failed.absent
                                ? r->absences + (r->absences < UINT8_MAX)
                                : 0);
}

void tl__retry_lift_limit(tl_retrier *r) {
    if (GUARD(waits_forever) && r->wait_ms == TL_FOREVER)
        r->limit = TL_NEVER;
}

void tl__retry_held(tl_retrier *r, tl_bytes message, tl_out *out) {
    TL_ASSERT(r->doing == TL_ASKS);
    r->answered = true;
    r->failures = 0;
    tl__retry_lift_limit(r);
    tl__retry_say(r, message);
    tl__out_words(out, message);
}

int64_t tl__retry_pause_ms(tl_retrier *r, tl_mono now) {
    const tl_retry *s = &r->strategy;
    bool spent = s->max_attempts > 0 && r->attempts >= s->max_attempts && !r->extra;
    int64_t delay = s->delay_ms > 0 ? s->delay_ms : DELAY_MS;
    int64_t most = s->max_delay_ms > 0 ? s->max_delay_ms : DELAY_MAX_MS;
    if (r->wait_ms == 0 || spent)
        return -1;
    if (s->kind == TL_RETRY_AUTO)
        return 0;
    if (s->kind == TL_RETRY_CUSTOM)
        return s->next(r->attempts, tl__ms_until(r->start, now), s->ctx);
    if (s->kind == TL_RETRY_FIXED)
        return delay;
    for (uint32_t i = 1; i < r->attempts && delay < most; i++)
        delay = tl__mul_sat(delay, 2);
    return tl__random_between(&r->random, 1, delay < most ? delay : most);
}

int64_t tl__retry_poll_ms(tl_retrier *r) {
    return tl__random_between(&r->random, TL_POLL_MIN_MS, TL_POLL_MAX_MS);
}

int64_t tl__retry_auto_ms(tl_retrier *r, tl_mono hint, bool told, tl_mono now) {
    int64_t pause = told ? TL_LOOK_AGAIN_MS : tl__retry_poll_ms(r);
    return tl__until_hint_ms(hint, pause, now, &r->random);
}

bool tl__retry_is_planned(const tl_retrier *r) {
    return r->extra && r->strategy.kind != TL_RETRY_AUTO;
}

tl_mono tl__retry_in_time(tl_retrier *r, tl_mono now, tl_mono next) {
    int64_t took_ns = tl__ns_until(r->began, now);
    if (took_ns < r->quickest_ns)
        r->quickest_ns = took_ns;
    int64_t room_ns = r->quickest_ns + r->quickest_ns / 2 + TL_NS_PER_MS;
    bool has_room = tl__mono_before(tl__mono_add_ns(next, room_ns), r->limit);
    return has_room || !GUARD(attempt_has_room) ? next : r->limit;
}

tl_status tl__retry_pause(tl_retrier *r, tl_mono next, tl_out *out) {
    r->doing = TL_PAUSES;
    r->next = next;
    r->extra = false;
    return tl__retry_stay(r, out);
}

/* A request in flight ends by the limit: beyond that there is nothing to wait for but its end, which another thread may
 * bring. */
tl_status tl__retry_stay(const tl_retrier *r, tl_out *out) {
    if (r->doing == TL_PAUSES || !GUARD(waits_without_steps))
        out->until = tl__retry_wakes(r);
    return TL_GO;
}

tl_err tl__retry_ran_out(const tl_retrier *r, bool in_doubt) {
    bool held = r->answered && (r->failures == 0 || !GUARD(last_reply_counts));
    if (in_doubt)
        return TL_EUNCERTAIN;
    if (!held)
        return TL_EUNAVAILABLE;
    return r->wait_ms == 0 ? TL_EBUSY : TL_ETIMEDOUT;
}

void tl__retry_clean(tl_retrier *r, const tl_job *job, tl_mono now, int32_t drift_ppm) {
    r->doing = TL_CLEANS;
    r->limit = tl__retry_cleans_until(job, (tl_mono){0}, now, drift_ppm);
    r->failures = 0;
}
