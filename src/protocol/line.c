/*
 * Reading and judging the messages to an inbox. A grant is a hold that comes without a request. So it must
 * not be believed for longer than the server certainly keeps it.
 */
#include "protocol/line.h"

#include "ground/guard.h"

#define FIRST 3         /* so many waiters watch for the holder's expiry */
#define BEHIND_MS 15000 /* the others look after this, and a second more for each rank, */
#define MOST_MS 60000   /* but after this at the latest */
#define SPREAD_MS 4
/* The second and the third poll as often as this behind a holder whose release is not announced: if the first
 * waiter gives up, nobody notifies them. */
#define SECOND_MS 1000

static bool number(tl_bytes *text, int64_t least, int64_t *ret) {
    return tl__bytes_to_int(tl__bytes_take(text, ' '), ret) && *ret >= least;
}

tl_line_message tl__line_read(tl_bytes message, tl_bytes *ret_key, tl_bytes *ret_token,
                              tl_grant *ret_grant) {
    tl_bytes rest = message, kind = tl__bytes_take(&rest, ' ');
    int64_t fence;
    if (tl__bytes_eq(kind, TL_LITERAL("look")) && rest.n > 0) {
        *ret_key = rest;
        return TL_LINE_LOOK;
    }
    if (tl__bytes_eq(kind, TL_LITERAL("near"))) {
        *ret_token = tl__bytes_take(&rest, ' ');
        *ret_key = rest;
        return ret_token->n > 0 && rest.n > 0 ? TL_LINE_NEAR : TL_LINE_NONSENSE;
    }
    if (!tl__bytes_eq(kind, TL_LITERAL("grant")))
        return TL_LINE_NONSENSE;
    *ret_token = tl__bytes_take(&rest, ' ');
    if (!number(&rest, 1, &fence) || !number(&rest, 1, &ret_grant->at_us) ||
        !number(&rest, 1, &ret_grant->lease_ms) || !number(&rest, 0, &ret_grant->others) ||
        rest.n == 0)
        return TL_LINE_NONSENSE;
    ret_grant->fence = (uint64_t)fence;
    *ret_key = rest;
    return TL_LINE_GRANT;
}

bool tl__line_believe(const tl_grant *grant, uint64_t run, const tl_job *job, const tl_event *event,
                      tl_mono *ret_deadline) {
    if ((GUARD(grant_is_enough) &&
         (job->acquire.bind || tl__job_waits(job) || job->acquire.quiet_ms > 0)) ||
        run == 0 || (GUARD(grant_of_this_run) && grant->run != run) ||
        grant->lease_ms > TL_TTL_MAX_MS || !event->server->anchor.known)
        return false;
    int64_t latest =
        tl__anchor_server_time(&event->server->anchor, event->now, event->server->drift_ppm).hi;
    int64_t lease_us = grant->lease_ms * 1000;
    int64_t left_us = tl__add_sat(grant->at_us, lease_us) - latest;
    if (GUARD(grant_by_server_time) && (left_us < lease_us / 2 || left_us > lease_us))
        return false;
    tl_mono by_server = tl__mono_add_ns(
        event->now, tl__rate_least_ns(left_us * 1000, event->server->drift_ppm));
    tl_mono by_arrival = tl__mono_add_ns(
        grant->arrived, tl__rate_least_ns(lease_us * 1000, event->server->drift_ppm));
    *ret_deadline = GUARD(grant_by_server_time) ? tl__mono_min(by_server, by_arrival) : by_arrival;
    return tl__mono_before(event->now, *ret_deadline);
}

int64_t tl__until_hint_ms(tl_mono hint, int64_t pause_ms, tl_mono now, uint64_t *random) {
    if (hint.ns == INT64_MAX)
        return pause_ms;
    int64_t left = tl__ms_until(now, hint) + 1 + tl__random_between(random, 0, SPREAD_MS);
    return left < pause_ms ? left : pause_ms;
}

/* By the rank alone. Where a dead process has left several entries in front (`fair`), the waiters behind
 * them notice an expiry later. */
int64_t tl__line_pause_ms(const tl_acquire_result *r, bool near, tl_mono now, uint64_t *random) {
    if (r->before >= FIRST) {
        int64_t pause = near ? TL_LOOK_AGAIN_MS : BEHIND_MS + (int64_t)r->before * 1000;
        return pause < MOST_MS ? pause : MOST_MS;
    }
    int64_t pause = TL_LOOK_AGAIN_MS;
    if (!r->announced)
        pause = r->before > 0 ? SECOND_MS
                              : tl__random_between(random, TL_POLL_MIN_MS, TL_POLL_MAX_MS);
    return tl__until_hint_ms(r->hint, pause, now, random);
}
