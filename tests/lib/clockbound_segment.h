/*
 * ClockBound's file as the published layouts 2 and 3 have it, made field by field at the places that the
 * page of the layout names. It shares nothing with the reader that it tests.
 */
#pragma once

#include <stdint.h>
#include <string.h>

typedef struct {
    uint16_t version; /* 2, 0x0303, or another one */
    uint16_t generation;
    uint32_t size; /* 0: that of the version */
    int64_t as_of_ns, void_after_ns, bound_ns;
    uint32_t drift_ppb;
    int32_t status;
    uint64_t counter, period_frac, error_frac; /* version 3 */
    uint8_t period_shift, error_shift;
} segment;

#define SEGMENT_SIZE 104

static inline void segment_put(uint8_t *to, size_t at, const void *from, size_t n) {
    memcpy(to + at, from, n);
}

static inline void segment_put_time(uint8_t *to, size_t at, int64_t ns) {
    int64_t parts[2] = {ns / 1000000000, ns % 1000000000};
    segment_put(to, at, parts, sizeof parts);
}

/** The bytes that the version has. */
static inline size_t segment_make(const segment *segment, uint8_t bytes[SEGMENT_SIZE]) {
    static const uint32_t magic[2] = {0x414D5A4E, 0x43420200};
    int is_3 = segment->version >> 8 == 3;
    uint32_t n = is_3 ? 104 : 80, size = segment->size ? segment->size : n;

    memset(bytes, 0, SEGMENT_SIZE);
    segment_put(bytes, 0, magic, 8);
    segment_put(bytes, 8, &size, 4);
    segment_put(bytes, 12, &segment->version, 2);
    segment_put(bytes, 14, &segment->generation, 2);
    if (is_3) {
        segment_put(bytes, 16, &segment->counter, 8);
        segment_put_time(bytes, 24, segment->as_of_ns);
        segment_put_time(bytes, 40, segment->void_after_ns);
        segment_put(bytes, 56, &segment->period_frac, 8);
        segment_put(bytes, 64, &segment->error_frac, 8);
        segment_put(bytes, 72, &segment->bound_ns, 8);
        segment_put(bytes, 88, &segment->drift_ppb, 4);
        segment_put(bytes, 92, &segment->status, 4);
        bytes[96] = 1;
        bytes[97] = segment->period_shift;
        bytes[98] = segment->error_shift;
    } else {
        segment_put_time(bytes, 16, segment->as_of_ns);
        segment_put_time(bytes, 32, segment->void_after_ns);
        segment_put(bytes, 48, &segment->bound_ns, 8);
        segment_put(bytes, 64, &segment->drift_ppb, 4);
        segment_put(bytes, 68, &segment->status, 4);
        bytes[72] = 1;
    }
    return n;
}
