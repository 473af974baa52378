/*
 * A histogram of durations: fixed memory, about 1 % wide steps.
 */
#pragma once

#include <stdint.h>

#define HIST_STEPS 64 /**< to a doubling */
#define HIST_SIZE (40 * HIST_STEPS)

typedef struct {
    uint32_t count[HIST_SIZE];
    uint64_t total;
} hist;

void hist_clear(hist *h);
void hist_add(hist *h, int64_t ns);
void hist_merge(hist *into, const hist *from);
/** The duration, us, that this share of them does not exceed; 0 when there are none. */
double hist_us(const hist *h, double share);
