/*
 * Reads the layouts 2 and 3 of ClockBound's file, and judges them. Intervals are rounded outwards. The
 * numbers are in the byte order of the processor.
 *
 * Layout 2: magic (2 x u32), size (u32), version (u16), generation (u16); as_of, void_after (2 x i64
 * each: s, ns), bound (i64, ns), disruption marker (u64), largest drift (u32, ppb), status (i32).
 * Layout 3: the same, with the counter (u64) before as_of, with its period and the error of its period
 * (u64 each) before the bound; their shifts (u8 each) follow the status and one more byte.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/judge/skew_number.h"
#include "skew/skew_clockbound.h"

#define MAGIC_0 UINT32_C(0x414d5a4e)
#define MAGIC_1 UINT32_C(0x43420200)
/* The high byte is the oldest version whose readers can read the layout; version 2 had none yet. */
#define VERSION_2 0x0002
#define VERSION_3 0x0303
#define PPB_MOST 1000000000
#define SECONDS_MOST INT64_C(9000000000) /* in ns it fits in 63 bits */
#define DAY_NS INT64_C(86400000000000)

enum { UNKNOWN, SYNCHRONIZED, FREE_RUNNING, DISRUPTED };

typedef struct {
    size_t size, as_of, void_after, bound, drift, status;
} layout;

static const layout layouts[] = {
    {.size = 80, .as_of = 16, .void_after = 32, .bound = 48, .drift = 64, .status = 68},
    {.size = 104, .as_of = 24, .void_after = 40, .bound = 72, .drift = 88, .status = 92}};

enum { SIZE = 8, VERSION = 12, COUNTER = 16, PERIOD = 56, PERIOD_ERROR = 64, PERIOD_SHIFT = 97 };

#define HEADER 16

static bool refuse(const char **ret_status, char why[SKEW_DETAIL_SIZE], const char *status,
                   const char *text) {
    *ret_status = status;
    (void)snprintf(why, SKEW_DETAIL_SIZE, "ClockBound's %s", text);
    return false;
}

/* ---- the layout ----------------------------------------------------------------------------- */

#define NUMBER(type, name)                                                                         \
    static type name(const uint8_t *bytes, size_t at) {                                            \
        type v;                                                                                    \
        memcpy(&v, bytes + at, sizeof v);                                                          \
        return v;                                                                                  \
    }
NUMBER(uint16_t, u16_at)
NUMBER(uint32_t, u32_at)
NUMBER(uint64_t, u64_at)
NUMBER(int32_t, i32_at)
NUMBER(int64_t, i64_at)

static bool time_at(const uint8_t *bytes, size_t at, int64_t *ret_ns) {
    int64_t s = i64_at(bytes, at), ns = i64_at(bytes, at + 8);

    *ret_ns = 0;
    if (s < 0 || s > SECONDS_MOST || ns < 0 || ns >= 1000000000)
        return false;
    *ret_ns = s * 1000000000 + ns;
    return true;
}

static const layout *layout_of(const uint8_t *bytes, size_t n, int *ret_version,
                               const char **ret_status, char why[SKEW_DETAIL_SIZE]) {
    if (n < HEADER || u32_at(bytes, 0) != MAGIC_0 || u32_at(bytes, 4) != MAGIC_1) {
        (void)refuse(ret_status, why, "unreadable", "file is none of ClockBound's");
        return NULL;
    }
    unsigned version = u16_at(bytes, VERSION);
    if (version == 0) {
        (void)refuse(ret_status, why, "unsynchronised", "daemon has written nothing yet");
        return NULL;
    }
    /* Another layout has other numbers at the same places: they would look like a bound. */
    if (GUARD(clockbound_version) && version != VERSION_2 && version != VERSION_3) {
        *ret_status = "unreadable";
        (void)snprintf(why, SKEW_DETAIL_SIZE,
                       "ClockBound's file has version %u (from %u on), and only 2 and 3 are known",
                       version & 0xff, version >> 8);
        return NULL;
    }
    *ret_version = version == VERSION_2 ? 2 : 3;
    const layout *layout = &layouts[*ret_version - 2];
    if (n >= layout->size && u32_at(bytes, SIZE) >= layout->size)
        return layout;
    (void)refuse(ret_status, why, "unreadable", "file is shorter than its version says");
    return NULL;
}

/* The share of a second, or of a rate, that version 3 writes with a shift. */
static double part(uint64_t frac, int shift) {
    return ldexp((double)frac, -64 - shift);
}

/* The error of the period is an error of the rate, like the drift. */
static bool read_counter(const uint8_t *bytes, clockbound_state *ret) {
    ret->counter = u64_at(bytes, COUNTER);
    ret->period_frac = u64_at(bytes, PERIOD);
    ret->period_shift = bytes[PERIOD_SHIFT];
    ret->drift_ppb += (int64_t)(part(u64_at(bytes, PERIOD_ERROR), bytes[PERIOD_SHIFT + 1]) *
                                PPB_MOST) +
                      1;
    return ret->period_frac > 0;
}

static bool read_numbers(const uint8_t *bytes, const layout *layout, clockbound_state *ret) {
    int64_t bound_ns = i64_at(bytes, layout->bound);

    ret->drift_ppb = u32_at(bytes, layout->drift);
    ret->bound_us = bound_ns / 1000 + 1;
    return time_at(bytes, layout->as_of, &ret->as_of_ns) &&
           time_at(bytes, layout->void_after, &ret->void_after_ns) && bound_ns >= 0 &&
           ret->drift_ppb < PPB_MOST && (ret->version == 2 || read_counter(bytes, ret));
}

bool clockbound_read(const uint8_t *bytes, size_t n, clockbound_state *ret, const char **ret_status,
                     char why[SKEW_DETAIL_SIZE]) {
    *ret = (clockbound_state){.version = 0};
    const layout *layout = layout_of(bytes, n, &ret->version, ret_status, why);
    if (!layout)
        return false;
    int32_t status = i32_at(bytes, layout->status);
    /* The daemon itself calls its bound worthless, and may leave a small one in the file. */
    if (GUARD(clockbound_disrupted) && status == DISRUPTED)
        return refuse(ret_status, why, "disrupted",
                      "clock was disrupted: the machine was paused, moved or restored");
    if (GUARD(clockbound_unknown) && status == UNKNOWN)
        return refuse(ret_status, why, "unsynchronised", "daemon does not know the time");
    if (status < UNKNOWN || status > DISRUPTED || !read_numbers(bytes, layout, ret))
        return refuse(ret_status, why, "unreadable", "file has malformed numbers");
    ret->free_running = status == FREE_RUNNING;
    return true;
}

/* ---- the bound now -------------------------------------------------------------------------- */

typedef struct {
    int64_t least_ns, most_ns; /* of the file's numbers, until the wall clock was read */
} ages;

static int64_t counted_ns(const clockbound_state *state, uint64_t counter) {
    double ns = part(state->period_frac, state->period_shift) * (double)(counter - state->counter) *
                1e9;
    return ns < 2.0 * (double)DAY_NS ? (int64_t)ns : 2 * DAY_NS;
}

/* CLOCK_MONOTONIC is never behind the coarse clock that version 2 writes: the age is not too small. */
static ages ages_of(const clockbound_state *state, const clockbound_clocks *now) {
    if (state->version == 2) {
        int64_t age_ns = now->monotonic_ns - state->as_of_ns;
        return (ages){age_ns, age_ns};
    }
    if (now->counter_before < state->counter || now->counter_after < now->counter_before)
        return (ages){-1, -1};
    return (ages){counted_ns(state, now->counter_before),
                  counted_ns(state, now->counter_after) + 1};
}

/* Version 2 bounds the wall clock, which a daemon (or anybody) may begin to slew after the file was
 * written: it grows by the rate that the kernel allows, too. Version 3 bounds a clock of the daemon's
 * own, made of the counter. */
static int64_t bound_now_us(const clockbound_state *state, int64_t age_ns, int32_t rate_ppm) {
    int64_t ppb = state->drift_ppb, least_ppb = (int64_t)rate_ppm * 1000;

    if (state->version == 2 && GUARD(clockbound_grows_by_slew) && ppb < least_ppb)
        ppb = least_ppb;
    return tl__add_sat(state->bound_us,
                       GUARD(clockbound_grows) ? (age_ns / 1000000 + 1) * ppb / 1000000 + 1 : 0);
}

bool clockbound_offset(const clockbound_state *state, const clockbound_clocks *now,
                       int32_t rate_ppm, tl_interval *ret, int64_t *ret_age_ms,
                       const char **ret_status, char why[SKEW_DETAIL_SIZE]) {
    if (state->version == 3 && !now->has_counter)
        return refuse(ret_status, why, "unreadable",
                      "version 3 counts by a counter that this processor does not have");
    ages ages = ages_of(state, now);
    /* A counter or a monotonic clock that is behind belongs to another start of the machine. */
    if (GUARD(clockbound_of_this_boot) && ages.least_ns < 0)
        return refuse(ret_status, why, "void",
                      "file is from the future: of another machine, or from before a restart");
    /* The longest age keeps the calculation exact too, whatever the daemon allows itself. */
    if (GUARD(clockbound_void_after) &&
        (ages.most_ns > state->void_after_ns - state->as_of_ns || ages.most_ns > DAY_NS)) {
        *ret_status = "stale";
        (void)snprintf(why, SKEW_DETAIL_SIZE,
                       "ClockBound's daemon has written nothing for %lld s, and its bound is void",
                       (long long)(ages.most_ns / 1000000000));
        return false;
    }
    int64_t bound_us = bound_now_us(state, ages.most_ns, rate_ppm), wall_us = now->reading.wall_us;
    *ret_age_ms = ages.most_ns / 1000000;
    *ret = (tl_interval){-bound_us, bound_us};
    if (state->version == 3) { /* the true time: as_of and what has been counted since */
        ret->lo = tl__add_sat(wall_us - (state->as_of_ns + ages.most_ns) / 1000 - 1, -bound_us);
        ret->hi = tl__add_sat(wall_us + 1 - (state->as_of_ns + ages.least_ns) / 1000, bound_us);
    }
    return true;
}

/* ---- the row -------------------------------------------------------------------------------- */

/* Adds to the detail what follows for the Redis server's clock. */
static void tell(const clockbound_state *state, const tl_interval *own, skew_host *host) {
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE];
    int n = snprintf(host->detail, sizeof host->detail,
                     "from the true time, as ClockBound believes%s: %s to %s ms",
                     state->free_running ? " (free-running)" : "",
                     skew_aligned(lo, host->offset.lo, 3, false),
                     skew_aligned(hi, host->offset.hi, 3, true));
    if (own && n > 0 && (size_t)n < sizeof host->detail)
        (void)snprintf(host->detail + n, sizeof host->detail - (size_t)n,
                       "; the server then %s to %s",
                       skew_aligned(lo, tl__add_sat(host->offset.lo, -own->hi), 3, false),
                       skew_aligned(hi, tl__add_sat(host->offset.hi, -own->lo), 3, true));
}

/* A bound of version 2 is about the clock as it was before it was set; a suspend stops the clocks by
 * which both versions grow. */
static bool unbroken(const skew_reading *begun, const skew_reading *now) {
    return !tl__interval_empty(tl__interval_intersect(begun->wall, now->wall)) &&
           !tl__interval_empty(tl__interval_intersect(begun->slept, now->slept));
}

void clockbound_judge(const clockbound_report *report, const skew_reading *begun,
                      const tl_interval *own, int32_t rate_ppm, skew_host *host) {
    const char *status = report->status;
    char why[SKEW_DETAIL_SIZE];

    (void)snprintf(why, sizeof why, "%s", report->why);
    host->instrument = "clockbound";
    host->kind = SKEW_ASIDE;
    host->age_ms = -1;
    host->advice = !report->known && strcmp(status, "refused") == 0
                       ? "let only ClockBound's daemon write its file, or leave out --clockbound"
                       : "check that ClockBound's daemon runs here and knows the time, or leave "
                         "out --clockbound";
    host->known = report->known;
    if (report->known && GUARD(clockbound_void_after_step) && !unbroken(begun, &report->at.reading))
        host->known = refuse(&status, why, "void",
                             "bound is void: this host's clock was set meanwhile");
    if (host->known)
        host->known = clockbound_offset(&report->state, &report->at, rate_ppm, &host->offset,
                                        &host->age_ms, &status, why);
    host->status = host->known ? "ok" : status;
    host->samples = host->known;
    (void)snprintf(host->detail, sizeof host->detail, "%s", why);
    if (host->known)
        tell(&report->state, own, host);
}

void clockbound_compare(skew_host *host, tl_interval other, const char *who) {
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], other_lo[SKEW_NUMBER_SIZE],
        other_hi[SKEW_NUMBER_SIZE];

    if (!host->known || !GUARD(clockbound_contradicted) ||
        !tl__interval_empty(tl__interval_intersect(host->offset, other)))
        return;
    host->known = false;
    host->age_ms = -1;
    host->samples = 0;
    host->status = "inconsistent";
    (void)snprintf(
        host->detail, sizeof host->detail,
        "ClockBound believes %s to %s ms from the true time, and %.40s %s to %s: one is "
        "wrong",
        skew_aligned(lo, host->offset.lo, 3, false), skew_aligned(hi, host->offset.hi, 3, true),
        who, skew_aligned(other_lo, other.lo, 3, false), skew_aligned(other_hi, other.hi, 3, true));
    host->advice = "find out which of them is wrong (chronyc tracking; ClockBound's log), or leave "
                   "out --clockbound";
}
