/*
 * Difference constraints, tightened by Floyd and Warshall's algorithm. An edge only ever gets
 * smaller, so that nothing measured directly is widened.
 */
#include <stdlib.h>

#include "skew/judge/skew_web.h"

bool skew_web_begin(skew_web *w, int clocks) {
    *w = (skew_web){.clocks = clocks};
    if (clocks < 1 || clocks > SKEW_WEB_MAX)
        return false;
    size_t edges = (size_t)clocks * (size_t)clocks;
    w->most = malloc(edges * sizeof *w->most);
    if (!w->most)
        return false;
    for (size_t i = 0; i < edges; i++)
        w->most[i] = SKEW_UNBOUNDED;
    for (size_t i = 0; i < (size_t)clocks; i++)
        w->most[i * (size_t)clocks + i] = 0;
    return true;
}

void skew_web_end(skew_web *w) {
    free(w->most);
    *w = (skew_web){.most = NULL};
}

static int64_t *edge(const skew_web *w, int a, int b) {
    return &w->most[(size_t)a * (size_t)w->clocks + (size_t)b];
}

static void lower(int64_t *to, int64_t by) {
    if (by > SKEW_UNBOUNDED)
        by = SKEW_UNBOUNDED;
    if (by < -SKEW_UNBOUNDED)
        by = -SKEW_UNBOUNDED;
    if (by < *to)
        *to = by;
}

void skew_web_bind(skew_web *w, int a, int b, tl_interval difference) {
    lower(edge(w, a, b), difference.hi);
    lower(edge(w, b, a), difference.lo == INT64_MIN ? INT64_MAX : -difference.lo);
}

/* Paths over one clock. What is bounded by nothing stays so, and no sum leaves the range. */
static void over(skew_web *w, int via) {
    const int64_t *from = edge(w, via, 0);
    for (int a = 0; a < w->clocks; a++) {
        int64_t to_via = *edge(w, a, via);
        if (to_via >= SKEW_UNBOUNDED)
            continue;
        int64_t *row = edge(w, a, 0);
        for (int b = 0; b < w->clocks; b++) {
            int64_t sum = to_via + from[b];
            if (sum < row[b] && from[b] < SKEW_UNBOUNDED)
                row[b] = sum < -SKEW_UNBOUNDED ? -SKEW_UNBOUNDED : sum;
        }
    }
}

/* It stops at the first contradiction: going on would spread it to every clock that can reach it. */
bool skew_web_close(skew_web *w) {
    for (int via = 0; via < w->clocks; via++) {
        over(w, via);
        for (int i = 0; i < w->clocks; i++)
            if (*edge(w, i, i) < 0) {
                w->torn_via = via;
                return false;
            }
    }
    return true;
}

bool skew_web_torn(const skew_web *w, int clock) {
    return *edge(w, clock, clock) < 0 || (clock > 0 && clock == w->torn_via);
}

tl_interval skew_web_between(const skew_web *w, int a, int b) {
    return (tl_interval){-*edge(w, b, a), *edge(w, a, b)};
}
