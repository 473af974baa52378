/*
 * Chooses decimals: the last one printed is worth at most a twentieth of the interval's width.
 */
#include <stdio.h>
#include <time.h>

#include "skew/judge/skew_number.h"
#include "ground/guard.h"

#define PARTS 20

int skew_decimals(tl_interval thousandths) {
    uint64_t width = (uint64_t)thousandths.hi - (uint64_t)thousandths.lo;
    int decimals = 0;

    for (uint64_t unit = 1000; decimals < 3 && (width < unit * PARTS || !GUARD(known_digits_only));
         unit /= 10)
        decimals++;
    return decimals;
}

int skew_decimals_beyond(tl_interval thousandths, int64_t line) {
    static const int64_t unit[] = {1000, 100, 10, 1};
    int n = skew_decimals(thousandths);

    while (n < 3 && thousandths.lo > line &&
           thousandths.lo - (thousandths.lo % unit[n] + unit[n]) % unit[n] <= line)
        n++;
    return n;
}

static const char *round_to(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals,
                            bool up) {
    int64_t unit = 1000, parts;

    for (int i = 0; i < decimals; i++)
        unit /= 10;
    parts = thousandths / unit;
    if (GUARD(rounds_outward) && thousandths % unit > 0 && up)
        parts++;
    if (GUARD(rounds_outward) && thousandths % unit < 0 && !up)
        parts--;
    uint64_t a = parts < 0 ? 0 - (uint64_t)parts : (uint64_t)parts, whole = 1000 / (uint64_t)unit;
    const char *sign = parts < 0 ? "-" : "";
    if (decimals)
        (void)snprintf(buf, SKEW_NUMBER_SIZE, "%s%llu.%0*llu", sign,
                       (unsigned long long)(a / whole), decimals, (unsigned long long)(a % whole));
    else
        (void)snprintf(buf, SKEW_NUMBER_SIZE, "%s%llu", sign, (unsigned long long)a);
    return buf;
}

const char *skew_down(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals) {
    return round_to(buf, thousandths, decimals, false);
}

const char *skew_up(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals) {
    return round_to(buf, thousandths, decimals, true);
}

const char *skew_aligned(char buf[SKEW_NUMBER_SIZE], int64_t thousandths, int decimals, bool up) {
    char number[SKEW_NUMBER_SIZE - 6];

    (void)snprintf(number, sizeof number, "%s", round_to(buf, thousandths, decimals, up));
    (void)snprintf(buf, SKEW_NUMBER_SIZE, "%s%s%*s", number[0] == '-' ? "" : "+", number,
                   decimals ? 3 - decimals : 4, "");
    return buf;
}

const char *skew_exact(char buf[SKEW_NUMBER_SIZE], int64_t us) {
    if (us % 1000000 == 0)
        (void)snprintf(buf, SKEW_NUMBER_SIZE, "%lld s", (long long)(us / 1000000));
    else
        (void)snprintf(buf, SKEW_NUMBER_SIZE, "%lld ms", (long long)(us / 1000));
    return buf;
}

const char *skew_time(char buf[SKEW_TIME_SIZE], int64_t at_ms) {
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm parts;

    if (!gmtime_r(&seconds, &parts) ||
        strftime(buf, SKEW_TIME_SIZE, "%Y-%m-%d %H:%M:%S UTC", &parts) == 0)
        (void)snprintf(buf, SKEW_TIME_SIZE, "at %lld ms", (long long)at_ms);
    return buf;
}

const char *skew_span(char buf[SKEW_SPAN_SIZE], int64_t ms) {
    static const struct {
        int64_t ms;
        const char *unit;
    } units[] = {{INT64_C(365) * 86400000, "years"},
                 {86400000, "days"},
                 {3600000, "h"},
                 {60000, "min"},
                 {1000, "s"}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (ms >= 2 * units[i].ms) {
            (void)snprintf(buf, SKEW_SPAN_SIZE, "%lld %s", (long long)(ms / units[i].ms),
                           units[i].unit);
            return buf;
        }
    (void)snprintf(buf, SKEW_SPAN_SIZE, "%lld ms", (long long)ms);
    return buf;
}
