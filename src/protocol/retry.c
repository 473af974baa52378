/*
 * Retrying. Pure, as all of this room.
 */
#include "protocol/retry.h"

#include "ground/assert.h"
#include "ground/guard.h"
#include "protocol/line.h"

#define DELAY_MS 100
#define DELAY_MAX_MS 5000

/* ---- the message ------------------------------------------------------------------------------- */

void tl__retry_say(tl_retrier *retrier, tl_bytes message) {
    tl__bytes_print(retrier->message, sizeof retrier->message, message);
    retrier->sys_errno = 0;
    retrier->lasts = false;
}

void tl__retry_blame(tl_retrier *retrier, const tl_event *event, tl_err code, tl_bytes message) {
    bool lasts = GUARD(lasting_reason) && !tl__may_pass(code);
    bool late = retrier->failures > 0 && !tl__mono_before(event->now, retrier->limit);
    if (!lasts && (late || retrier->lasts))
        return;
    tl__retry_say(retrier, message);
    retrier->sys_errno = event->kind == TL_FAILED ? event->failed.sys_errno : 0;
    retrier->lasts = lasts;
}

void tl__retry_report(const tl_retrier *retrier, tl_out *out) {
    tl__out_message(out, tl__bytes_of(retrier->message));
    out->sys_errno = retrier->sys_errno;
}

/* ---- pauses ------------------------------------------------------------------------------------ */

tl_mono tl__retry_after(tl_retrier *retrier, tl_mono now, bool at_once) {
    retrier->failures++;
    int64_t ms = at_once && retrier->failures == 1
                     ? 0
                     : tl__backoff_ms(retrier->failures, &retrier->random);
    return tl__mono_add_ms(now, ms);
}

tl_mono tl__retry_wakes(const tl_retrier *retrier) {
    return tl__mono_min(retrier->next, GUARD(wait_has_limit) ? retrier->limit : TL_NEVER);
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

void tl__retry_begin(tl_retrier *retrier, tl_mono now) {
    TL_ASSERT(retrier->start.ns == 0 && retrier->random != 0);
    bool open = retrier->wait_ms == 0 || retrier->wait_ms == TL_FOREVER;
    retrier->start = now;
    retrier->limit = tl__mono_add_ms(now, open ? retrier->connect_ms : retrier->wait_ms);
}

void tl__retry_ask(tl_retrier *retrier, tl_mono now, int64_t attempt_ms) {
    if (retrier->wait_ms == 0 && retrier->attempts == 0)
        retrier->limit = tl__mono_add_ms(now, attempt_ms);
    retrier->doing = TL_ASKS;
    retrier->absences = 0;
    retrier->began = now;
    retrier->attempts += !retrier->extra;
}

bool tl__retry_is_too_late(tl_retrier *retrier, const tl_event *event) {
    static const char message[] = "the wait's time was up when the server was reached";
    if (tl__mono_before(event->now, retrier->limit) || !GUARD(asks_within_wait))
        return false;
    if (!retrier->answered)
        tl__retry_blame(retrier, event, TL_EUNAVAILABLE, TL_LITERAL(message));
    return true;
}

bool tl__retry_unreached(tl_retrier *retrier, const tl_event *event, bool in_doubt) {
    TL_ASSERT(event->kind == TL_FAILED && retrier->doing != TL_PAUSES &&
              retrier->doing != TL_CLEANS);
    tl__retry_blame(retrier, event, TL_EUNAVAILABLE,
                    event->failed.message); /* the reason to report if it ends here */
    tl__retry_note_absence(retrier, event);
    bool goes_on = tl__mono_before(event->now, retrier->limit) &&
                   !tl__retry_is_hopeless(retrier, 1, in_doubt);
    retrier->failures += !goes_on;
    return goes_on;
}

bool tl__retry_is_hopeless(const tl_retrier *retrier, unsigned most, bool in_doubt) {
    return GUARD(gives_up_on_nobody) && retrier->wait_ms == 0 && retrier->absences > most &&
           (!in_doubt || !GUARD(doubt_goes_on));
}

void tl__retry_note_absence(tl_retrier *retrier, const tl_event *event) {
    retrier->absences = (uint8_t)(event->kind == TL_FAILED && event->failed.absent
                                      ? retrier->absences + (retrier->absences < UINT8_MAX)
                                      : 0);
}

void tl__retry_lift_limit(tl_retrier *retrier) {
    if (GUARD(waits_forever) && retrier->wait_ms == TL_FOREVER)
        retrier->limit = TL_NEVER;
}

void tl__retry_held(tl_retrier *retrier, tl_bytes message, tl_out *out) {
    TL_ASSERT(retrier->doing == TL_ASKS);
    retrier->answered = true;
    retrier->failures = 0;
    tl__retry_lift_limit(retrier);
    tl__retry_say(retrier, message);
    tl__out_message(out, message);
}

int64_t tl__retry_pause_ms(tl_retrier *retrier, tl_mono now) {
    const tl_retry *s = &retrier->strategy;
    bool spent = s->max_attempts > 0 && retrier->attempts >= s->max_attempts && !retrier->extra;
    int64_t delay = s->delay_ms > 0 ? s->delay_ms : DELAY_MS;
    int64_t most = s->max_delay_ms > 0 ? s->max_delay_ms : DELAY_MAX_MS;
    if (retrier->wait_ms == 0 || spent)
        return -1;
    if (s->kind == TL_RETRY_AUTO)
        return 0;
    if (s->kind == TL_RETRY_CUSTOM)
        return s->next(retrier->attempts, tl__ms_until(retrier->start, now), s->ctx);
    if (s->kind == TL_RETRY_FIXED)
        return delay;
    for (uint32_t i = 1; i < retrier->attempts && delay < most; i++)
        delay = tl__mul_sat(delay, 2);
    return tl__random_between(&retrier->random, 1, delay < most ? delay : most);
}

int64_t tl__retry_poll_ms(tl_retrier *retrier) {
    return tl__random_between(&retrier->random, TL_POLL_MIN_MS, TL_POLL_MAX_MS);
}

int64_t tl__retry_auto_ms(tl_retrier *retrier, tl_mono hint, bool notified, tl_mono now) {
    int64_t pause = notified ? TL_LOOK_AGAIN_MS : tl__retry_poll_ms(retrier);
    return tl__until_hint_ms(hint, pause, now, &retrier->random);
}

bool tl__retry_is_planned(const tl_retrier *retrier) {
    return retrier->extra && retrier->strategy.kind != TL_RETRY_AUTO;
}

tl_mono tl__retry_in_time(tl_retrier *retrier, tl_mono now, tl_mono next) {
    int64_t took_ns = tl__ns_until(retrier->began, now);
    if (took_ns < retrier->quickest_ns)
        retrier->quickest_ns = took_ns;
    int64_t room_ns = retrier->quickest_ns + retrier->quickest_ns / 2 + TL_NS_PER_MS;
    bool has_room = tl__mono_before(tl__mono_add_ns(next, room_ns), retrier->limit);
    return has_room || !GUARD(attempt_has_room) ? next : retrier->limit;
}

tl_status tl__retry_pause(tl_retrier *retrier, tl_mono next, tl_out *out) {
    retrier->doing = TL_PAUSES;
    retrier->next = next;
    retrier->extra = false;
    return tl__retry_stay(retrier, out);
}

/* A request in flight ends by the limit. Then the machine waits only for that end, which another thread may
 * report. */
tl_status tl__retry_stay(const tl_retrier *retrier, tl_out *out) {
    if (retrier->doing == TL_PAUSES || !GUARD(waits_without_steps))
        out->until = tl__retry_wakes(retrier);
    return TL_GO;
}

tl_err tl__retry_ran_out(const tl_retrier *retrier, bool in_doubt) {
    bool held = retrier->answered && (retrier->failures == 0 || !GUARD(last_reply_counts));
    if (in_doubt)
        return TL_EUNCERTAIN;
    if (!held)
        return TL_EUNAVAILABLE;
    return retrier->wait_ms == 0 ? TL_EBUSY : TL_ETIMEDOUT;
}

void tl__retry_clean(tl_retrier *retrier, const tl_job *job, tl_mono now, int32_t drift_ppm) {
    retrier->doing = TL_CLEANS;
    retrier->limit = tl__retry_cleans_until(job, (tl_mono){0}, now, drift_ppm);
    retrier->failures = 0;
}
