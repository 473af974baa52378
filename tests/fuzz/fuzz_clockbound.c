/*
 * What may be in ClockBound's file: believed only when a second reader, in floating point, takes the same bytes
 * for the same, and then never to less than they say. The input is 40 bytes of this host's clocks and the file.
 */

/*
 * Given the bytes of ClockBound's file, and this host's clocks. It asserts:
 * - The clock is known only for the versions 2 and 3, with a status that has a bound, within its limit.
 * - The interval contains what the bytes say, as computed in floating point. A message is one line.
 */
#include "fuzz.h"

#include <math.h>

#include "skew/skew_clockbound.h"

static uint64_t number(const uint8_t *at, size_t n) {
    uint64_t v = 0;
    for (size_t i = n; i-- > 0;) /* this program's machines are little-endian */
        v = v << 8 | at[i];
    return v;
}

static double seconds(const uint8_t *at) {
    return (double)(int64_t)number(at, 8) + (double)(int64_t)number(at + 8, 8) / 1e9;
}

static void must_mean(const uint8_t *b, size_t n, const clockbound_clocks *now,
                      const skew_host *h) {
    bool is_3 = number(b + 12, 2) == 0x0303;
    MUST(n >= (is_3 ? 104U : 80U) && (is_3 || number(b + 12, 2) == 2));
    MUST(number(b, 4) == 0x414d5a4e && number(b + 4, 4) == 0x43420200);
    int32_t status = (int32_t)number(b + (is_3 ? 92 : 68), 4);
    MUST(status == 1 || status == 2);
    double as_of = seconds(b + (is_3 ? 24 : 16)), until = seconds(b + (is_3 ? 40 : 32)),
           bound = (double)(int64_t)number(b + (is_3 ? 72 : 48), 8) / 1e3,
           ppb = (double)number(b + (is_3 ? 88 : 64), 4);
    double age = (double)now->monotonic_ns / 1e9 - as_of, off = 0;
    if (is_3) {
        double period = ldexp((double)number(b + 56, 8), -64 - b[97]),
               ticks = (double)(now->counter_after - number(b + 16, 8));
        age = ticks * period;
        off = (double)now->reading.wall_us - (as_of + age) * 1e6;
        ppb += ldexp((double)number(b + 64, 8), -64 - b[98]) * 1e9;
    }
    double slack = 3.0 + fabs(as_of) * 1e-9 + fabs((double)now->reading.wall_us) * 1e-15;
    MUST(bound >= 0 && ppb < 2.1e9 && age <= until - as_of + 1e-5 && age <= 86401);
    bound += age * ppb / 1e3;
    MUST((double)h->offset.hi >= off + bound * (1 - 1e-9) - slack);
    MUST((double)h->offset.lo <= off - bound * (1 - 1e-9) + slack);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    clockbound_report r = {.status = NULL};
    if (size < 40)
        return 0;
    r.at.monotonic_ns = (int64_t)(number(data, 8) >> 2);
    r.at.reading.wall_us = (int64_t)(number(data + 8, 8) >> 10);
    r.at.counter_before = number(data + 16, 8);
    r.at.counter_after = r.at.counter_before + (number(data + 24, 8) >> 40);
    r.at.has_counter = data[32] & 1;
    r.at.reading.slept = r.at.reading.wall = (tl_interval){0, 1};
    r.known = clockbound_read(data + 40, size - 40, &r.state, &r.status, r.why);
    MUST(r.known || (r.status && is_line(r.why, sizeof r.why) && r.why[0]));
    tl_interval own = {-5, 5};
    skew_host h = {.known = false};
    clockbound_judge(&r, &r.at.reading, &own, (int32_t)(number(data + 36, 4) & 0x7ffff), &h);
    MUST(h.status && is_line(h.detail, sizeof h.detail) && h.detail[0] && h.kind == SKEW_ASIDE);
    if (!h.known)
        return 0;
    MUST(h.offset.lo <= h.offset.hi && strcmp(h.status, "ok") == 0);
    must_mean(data + 40, size - 40, &r.at, &h);
    return 0;
}
