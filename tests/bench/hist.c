/*
 * Counts durations by the logarithm of their length.
 */
#include "hist.h"

#include <math.h>
#include <string.h>

void hist_clear(hist *h) {
    memset(h, 0, sizeof *h);
}

static int step_of(int64_t ns) {
    int i = ns < 1 ? 0 : (int)(log2((double)ns) * HIST_STEPS);
    return i < HIST_SIZE ? i : HIST_SIZE - 1;
}

void hist_add(hist *h, int64_t ns) {
    h->count[step_of(ns)]++;
    h->total++;
}

void hist_merge(hist *into, const hist *from) {
    for (int i = 0; i < HIST_SIZE; i++)
        into->count[i] += from->count[i];
    into->total += from->total;
}

double hist_us(const hist *h, double share) {
    double wanted = share * (double)h->total, seen = 0;
    for (int i = 0; i < HIST_SIZE && h->total; i++) {
        seen += h->count[i];
        if (seen >= wanted)
            return exp2((i + 0.5) / HIST_STEPS) / 1000;
    }
    return 0;
}
