/*
 * What the targets share: an input that is read from its front and gives zeros when it is used up,
 * and a check that ends the process whatever NDEBUG says.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/bytes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(what) ((what) ? (void)0 : fuzz_broken(#what, __FILE__, __LINE__))

static inline _Noreturn void fuzz_broken(const char *what, const char *file, int line) {
    (void)fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
    abort();
}

typedef struct {
    const uint8_t *p;
    size_t n;
} input;

static inline uint8_t in_byte(input *in) {
    if (in->n == 0)
        return 0;
    in->n--;
    return *in->p++;
}

/** Up to `max` bytes, as many as the next byte says and there are. */
static inline tl_bytes in_bytes(input *in, size_t max) {
    size_t n = in_byte(in);
    n = n < max ? n : max;
    n = n < in->n ? n : in->n;
    tl_bytes bytes = tl__bytes(in->p, n);
    in->p += n;
    in->n -= n;
    return bytes;
}

/** A number: one byte for those that are known to be awkward, nine for any. */
static inline int64_t in_int(input *in) {
    static const int64_t awkward[] = {
        0,
        1,
        -1,
        -2,
        2,
        10,
        999,
        1000,
        30000,
        999999,
        1000000,
        86400000,
        1700000000,
        INT32_MAX,
        INT32_MIN,
        UINT32_MAX,
        9007199254,
        9007199255,
        INT64_C(1) << 53,
        INT64_MAX / 1000000,
        INT64_MAX / 1000,
        INT64_MAX - 1,
        INT64_MAX,
        INT64_MIN,
        INT64_MIN + 1,
    };
    size_t n = sizeof awkward / sizeof *awkward;
    uint8_t first = in_byte(in);
    if (first < n)
        return awkward[first];
    if (first < 255)
        return first;
    uint64_t v = 0;
    for (int i = 0; i < 8; i++)
        v = v << 8 | in_byte(in);
    return (int64_t)v;
}

/** A number from least to most. */
static inline int64_t in_range(input *in, int64_t least, int64_t most) {
    int64_t v = in_int(in);
    return v < least ? least : v > most ? most : v;
}

/** Is it a C string within `size`, all of it printable ASCII? */
static inline bool is_line(const char *text, size_t size) {
    size_t n = strnlen(text, size);
    for (size_t i = 0; i < n; i++)
        if (text[i] < ' ' || text[i] > '~')
            return false;
    return n < size;
}
