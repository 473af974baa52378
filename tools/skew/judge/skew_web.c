/*
 * Difference constraints, tightened by Floyd and Warshall's algorithm. An edge only gets smaller,
 * so no direct measurement is widened.
 */
#include <stdlib.h>

#include "skew/judge/skew_web.h"

bool skew_web_begin(skew_web *web, int clocks) {
    *web = (skew_web){.clocks = clocks};
    if (clocks < 1 || clocks > SKEW_WEB_MAX)
        return false;
    size_t edges = (size_t)clocks * (size_t)clocks;
    web->most = malloc(edges * sizeof *web->most);
    if (!web->most)
        return false;
    for (size_t i = 0; i < edges; i++)
        web->most[i] = SKEW_UNBOUNDED;
    for (size_t i = 0; i < (size_t)clocks; i++)
        web->most[i * (size_t)clocks + i] = 0;
    return true;
}

void skew_web_end(skew_web *web) {
    free(web->most);
    *web = (skew_web){.most = NULL};
}

static int64_t *edge(const skew_web *web, int a, int b) {
    return &web->most[(size_t)a * (size_t)web->clocks + (size_t)b];
}

int64_t skew_web_edge(int64_t us) {
    return us > SKEW_UNBOUNDED ? SKEW_UNBOUNDED : us < -SKEW_UNBOUNDED ? -SKEW_UNBOUNDED : us;
}

int64_t skew_web_sum(int64_t a, int64_t b) {
    return a >= SKEW_UNBOUNDED || b >= SKEW_UNBOUNDED ? SKEW_UNBOUNDED : skew_web_edge(a + b);
}

static void lower(int64_t *to, int64_t by) {
    by = skew_web_edge(by);
    if (by < *to)
        *to = by;
}

void skew_web_bind(skew_web *web, int a, int b, tl_interval difference) {
    lower(edge(web, a, b), difference.hi);
    lower(edge(web, b, a), difference.lo == INT64_MIN ? INT64_MAX : -difference.lo);
}

/* Paths through one clock. An unbounded edge stays unbounded, and no sum overflows. */
static void over(skew_web *web, int via) {
    const int64_t *from = edge(web, via, 0);
    for (int a = 0; a < web->clocks; a++) {
        int64_t to_via = *edge(web, a, via);
        if (to_via >= SKEW_UNBOUNDED)
            continue;
        int64_t *row = edge(web, a, 0);
        for (int b = 0; b < web->clocks; b++) {
            int64_t sum = to_via + from[b];
            if (sum < row[b] && from[b] < SKEW_UNBOUNDED)
                row[b] = sum < -SKEW_UNBOUNDED ? -SKEW_UNBOUNDED : sum;
        }
    }
}

bool skew_web_pass(skew_web *web, int via) {
    over(web, via);
    for (int i = 0; i < web->clocks; i++)
        if (*edge(web, i, i) < 0) {
            web->torn_via = via;
            return false;
        }
    return true;
}

/* Stops at the first contradiction: continuing would spread it to every connected clock. */
bool skew_web_close(skew_web *web) {
    for (int via = 0; via < web->clocks; via++)
        if (!skew_web_pass(web, via))
            return false;
    return true;
}

bool skew_web_torn(const skew_web *web, int clock) {
    return *edge(web, clock, clock) < 0 || (clock > 0 && clock == web->torn_via);
}

tl_interval skew_web_between(const skew_web *web, int a, int b) {
    return (tl_interval){-*edge(web, b, a), *edge(web, a, b)};
}
