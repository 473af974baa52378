/*
 * Reads the line of "chronyc -c tracking", and judges it. Intervals are rounded outwards. A daemon
 * without a source, or without a recent update from its source, proves nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/judge/skew_number.h"
#include "skew/skew_chrony.h"
#include "transport/conn.h" /* tl_bytes */

#define FIELDS 14
#define DRIFT_PPM 50
#define STALE_INTERVALS 8 /* as many missed updates as make a server unreachable */
#define STALE_LEAST_US INT64_C(16000000)
#define FUTURE_US INT64_C(1000000)
#define SECONDS_MOST INT64_C(1000000000000)

enum { REFERENCE_ID, NAME, STRATUM, REFERENCE, SYSTEM, DELAY = 10, DISPERSION, INTERVAL, LEAP };

/* ---- fields -------------------------------------------------------------------------------------- */

static bool split(tl_bytes line, tl_bytes field[FIELDS]) {
    for (int i = 0; i < FIELDS; i++) {
        const char *comma = line.n ? memchr(line.p, ',', line.n) : NULL;
        if ((comma != NULL) != (i < FIELDS - 1))
            return false;
        size_t n = comma ? (size_t)(comma - line.p) : line.n;
        field[i] = tl__bytes(line.p, n);
        if (comma)
            line = tl__bytes(comma + 1, line.n - n - 1);
    }
    return true;
}

static bool digits(tl_bytes *rest, int64_t *ret, int most) {
    int n = 0;
    for (*ret = 0; rest->n && *rest->p >= '0' && *rest->p <= '9' && n < most; n++) {
        *ret = *ret * 10 + (*rest->p - '0');
        *rest = tl__bytes(rest->p + 1, rest->n - 1);
    }
    return n > 0;
}

/* Seconds as a decimal number, in us, rounded away from zero. */
static bool decimal_us(tl_bytes text, int64_t *ret) {
    int64_t whole, part = 0;
    bool negative = text.n && *text.p == '-';

    if (text.n && (*text.p == '-' || *text.p == '+'))
        text = tl__bytes(text.p + 1, text.n - 1);
    if (!digits(&text, &whole, 13) || whole > SECONDS_MOST)
        return false;
    if (text.n && *text.p == '.') {
        text = tl__bytes(text.p + 1, text.n - 1);
        size_t before = text.n;
        if (!digits(&text, &part, 9))
            return false;
        for (size_t n = before - text.n; n < 9; n++)
            part *= 10;
    }
    if (text.n)
        return false;
    *ret = whole * 1000000 + part / 1000 + (part % 1000 != 0);
    if (negative)
        *ret = -*ret;
    return true;
}

static bool hexadecimal(tl_bytes text, uint32_t *ret) {
    *ret = 0;
    for (size_t i = 0; i < text.n; i++) {
        const char *all = "0123456789ABCDEF", *at = strchr(all, text.p[i]);
        if (!text.p[i] || !at)
            return false;
        *ret = *ret << 4 | (uint32_t)(at - all);
    }
    return text.n == 8;
}

/* ---- the line ------------------------------------------------------------------------------------ */

typedef struct {
    uint32_t reference_id;
    int64_t stratum, delay_us, dispersion_us;
    bool normal, leap_known; /* the leap status */
    chrony_state state;
} line;

static bool read_leap(tl_bytes text, line *line) {
    line->normal = tl__bytes_eq(text, TL_LITERAL("Normal")) ||
                   tl__bytes_eq(text, TL_LITERAL("Insert second")) ||
                   tl__bytes_eq(text, TL_LITERAL("Delete second"));
    return line->normal || tl__bytes_eq(text, TL_LITERAL("Not synchronised"));
}

static bool read_line(tl_bytes text, line *line) {
    tl_bytes f[FIELDS];
    int64_t correction_us, any;

    if (text.n && text.p[text.n - 1] == '\n')
        text.n--;
    if (memchr(text.p, '\n', text.n) || memchr(text.p, '\0', text.n) || !split(text, f))
        return false;
    for (int i = REFERENCE; i < LEAP; i++)
        if (!decimal_us(f[i], &any))
            return false;
    if (!hexadecimal(f[REFERENCE_ID], &line->reference_id) ||
        !tl__bytes_to_int(f[STRATUM], &line->stratum) || !read_leap(f[LEAP], line))
        return false;
    (void)decimal_us(f[REFERENCE], &line->state.reference_us);
    (void)decimal_us(f[SYSTEM], &correction_us);
    (void)decimal_us(f[DELAY], &line->delay_us);
    (void)decimal_us(f[DISPERSION], &line->dispersion_us);
    (void)decimal_us(f[INTERVAL], &line->state.interval_us);
    line->state.system_us = -correction_us; /* chronyc prints what has to be added to the clock */
    line->state.error_us = line->dispersion_us + llabs(line->delay_us) / 2 + 1;
    return line->dispersion_us >= 0 && line->stratum >= 0 && line->state.interval_us >= 0;
}

static bool refuse(const char **ret_status, char why[SKEW_DETAIL_SIZE], const char *status,
                   const char *text) {
    *ret_status = status;
    (void)snprintf(why, SKEW_DETAIL_SIZE, "chronyd %s", text);
    return false;
}

bool chrony_read(const char *text, size_t n, int64_t now_us, chrony_state *ret,
                 const char **ret_status, char why[SKEW_DETAIL_SIZE]) {
    line line = {.stratum = 0};

    if (n == 0 || !read_line(tl__bytes(text, n), &line)) {
        *ret_status = "unreadable";
        (void)snprintf(why, SKEW_DETAIL_SIZE, "the output of chronyc is not understood");
        return false;
    }
    *ret = line.state;
    int64_t age_us = now_us - line.state.system_us - line.state.reference_us;
    int64_t stale_us = line.state.interval_us * STALE_INTERVALS;
    if (GUARD(chrony_has_source) &&
        (!line.normal || line.stratum == 0 || line.stratum >= 16 || line.reference_id == 0))
        return refuse(ret_status, why, "unsynchronised", "is not synchronised");
    if (line.reference_id >> 8 == 0x7f7f01)
        return refuse(ret_status, why, "unsynchronised",
                      "follows nothing but its own clock (local)");
    if (line.dispersion_us == 0)
        return refuse(ret_status, why, "unsynchronised",
                      "claims to be exact (dispersion 0), as no clock is");
    if (age_us < -FUTURE_US)
        return refuse(ret_status, why, "stale", "was last set at a time in the future");
    if (GUARD(chrony_heard_lately) &&
        age_us > (stale_us > STALE_LEAST_US ? stale_us : STALE_LEAST_US))
        return refuse(ret_status, why, "stale", "has had no reply from its source for too long");
    return true;
}

/* ---- the row ------------------------------------------------------------------------------------- */

/* Adds to the detail what follows for the Redis server's clock. */
static void tell(const chrony_state *state, const tl_interval *own, skew_host *host) {
    char at[SKEW_NUMBER_SIZE], by[SKEW_NUMBER_SIZE], lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE];
    int n = snprintf(host->detail, sizeof host->detail,
                     "from the true time, as chronyd believes: %s ms, to within %s",
                     skew_aligned(at, state->system_us, 3, false), skew_up(by, state->error_us, 3));
    if (own && n > 0 && (size_t)n < sizeof host->detail)
        (void)snprintf(host->detail + n, sizeof host->detail - (size_t)n,
                       "; the server then %s to %s",
                       skew_aligned(lo, state->system_us - state->error_us - own->hi, 3, false),
                       skew_aligned(hi, state->system_us + state->error_us - own->lo, 3, true));
}

tl_interval chrony_offset(const chrony_report *report, tl_mono now) {
    const chrony_state *state = &report->state;
    tl_interval offset = {state->system_us - state->error_us, state->system_us + state->error_us};
    return tl__interval_aged(offset, report->at.before, now, DRIFT_PPM);
}

void chrony_judge(const chrony_report *report, const skew_reading *now, const tl_interval *own,
                  skew_host *host) {
    bool unbroken = !tl__interval_empty(tl__interval_intersect(report->at.wall, now->wall)) &&
                    !tl__interval_empty(tl__interval_intersect(report->at.slept, now->slept));

    host->instrument = "chrony";
    host->kind = SKEW_ASIDE;
    host->age_ms = -1;
    host->status = report->status;
    (void)snprintf(host->detail, sizeof host->detail, "%s", report->why);
    if (!report->known)
        return;
    if (!unbroken) {
        host->status = "void";
        (void)snprintf(host->detail, sizeof host->detail, "this host's clock was set meanwhile");
        return;
    }
    int64_t bound_us = llabs(report->state.system_us) + report->state.error_us;
    host->known = true;
    host->status = "ok";
    host->samples = 1;
    host->age_ms = tl__ms_until(report->at.after, now->after);
    host->offset = tl__interval_aged((tl_interval){-bound_us, bound_us}, report->at.before,
                                     now->after, DRIFT_PPM);
    tell(&report->state, own, host);
}
