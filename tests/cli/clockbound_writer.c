/*
 * In place of ClockBound's daemon: writes FILE once, in layout VERSION, as the daemon would about this host's clock.
 * Usage: FILE VERSION STATUS BOUND_US [AGE_MS [AHEAD_US [GENERATION]]]. AGE_MS ago it knew the true time, from which the
 * wall clock is AHEAD_US; version 2 has no place for that. A version other than 2 and 3 is written in the layout of 3.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "../lib/clockbound_segment.h"

static int64_t ns_of(clockid_t id) {
    struct timespec t;
    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static uint64_t counter(void) {
#if defined __x86_64__
    return __builtin_ia32_rdtsc();
#elif defined __aarch64__
    uint64_t v;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(v)::"memory");
    return v;
#else
    return 0;
#endif
}

/* A clock and the counter at one moment: of many readings the one that was held up least. */
static int64_t moment(clockid_t id, uint64_t *ret_counter) {
    uint64_t least = UINT64_MAX;
    int64_t at = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t before = counter();
        int64_t ns = ns_of(id);
        uint64_t took = counter() - before;
        if (took >= least)
            continue;
        least = took;
        *ret_counter = before + took / 2;
        at = ns;
    }
    return at;
}

/* The period of the counter, measured for 50 ms, to within one part in a thousand. */
static double period_ns(void) {
    uint64_t first = 0, last = 0;
    int64_t from = moment(CLOCK_MONOTONIC, &first);
    while (ns_of(CLOCK_MONOTONIC) - from < 50000000)
        ;
    int64_t to = moment(CLOCK_MONOTONIC, &last);
    return last > first ? (double)(to - from) / (double)(last - first) : 1;
}

static void tell_time(segment *segment, int64_t age_ns, int64_t ahead_ns) {
    double period = period_ns(), scaled = period / 1e9;
    uint64_t ticks = 0;
    segment->as_of_ns = moment(CLOCK_REALTIME, &ticks) - age_ns - ahead_ns;
    segment->counter = ticks - (uint64_t)((double)age_ns / period);
    while (scaled < 0.5 && segment->period_shift < 63) {
        scaled *= 2;
        segment->period_shift++;
    }
    segment->period_frac = (uint64_t)(scaled * 18446744073709551616.0);
    segment->error_frac = UINT64_C(1) << 54; /* 2^-10 */
}

int main(int argc, char **argv) {
    if (argc < 5)
        return 64;
    int version = atoi(argv[2]);
    int64_t age_ns = argc > 5 ? strtoll(argv[5], NULL, 10) * 1000000 : 0;
    segment segment = {.version = (uint16_t)(version == 3 ? 0x0303 : version),
                       .generation = (uint16_t)(argc > 7 ? atoi(argv[7]) : 2),
                       .size = SEGMENT_SIZE,
                       .as_of_ns = ns_of(CLOCK_MONOTONIC) - age_ns,
                       .bound_ns = strtoll(argv[4], NULL, 10) * 1000,
                       .drift_ppb = 1000,
                       .status = atoi(argv[3])};
    if (version != 2)
        tell_time(&segment, age_ns, argc > 6 ? strtoll(argv[6], NULL, 10) * 1000 : 0);
    segment.void_after_ns = segment.as_of_ns + INT64_C(1000000000000);
    uint8_t bytes[SEGMENT_SIZE];
    size_t n = segment_make(&segment, bytes);
    FILE *out = fopen(argv[1], "wb");
    return !out || fwrite(bytes, 1, n, out) != n || fclose(out) ? 1 : 0;
}
