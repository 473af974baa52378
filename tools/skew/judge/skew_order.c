/*
 * The order of hosts in all output.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_order.h"

static int rank(const skew_host *host) {
    if (!skew_is_clock(host->kind))
        return 3;
    return host->known ? 0 : host->relative ? 1 : 2;
}

static int64_t middle(const skew_host *host) {
    return host->known || host->relative ? host->offset.lo / 2 + host->offset.hi / 2 : 0;
}

static bool comes_before(const skew_host *a, const skew_host *b) {
    if (rank(a) != rank(b))
        return rank(a) < rank(b);
    return middle(a) > middle(b);
}

void skew_order(const skew_result *result, int *order) {
    /* insertion into the sorted part, behind its equals: a stable order, without memory */
    for (int i = 0; i < result->host_count; i++) {
        int from = 0, to = i;
        while (from < to) {
            int middle = from + (to - from) / 2;
            if (comes_before(&result->hosts[i], &result->hosts[order[middle]]))
                to = middle;
            else
                from = middle + 1;
        }
        memmove(&order[from + 1], &order[from], (size_t)(i - from) * sizeof *order);
        order[from] = i;
    }
}

/* ---- the middle of the fleet ------------------------------------------------------------------- */

static int by_value(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

int64_t skew_median(int64_t *value, size_t count) {
    qsort(value, count, sizeof *value, by_value);
    int64_t low = value[(count - 1) / 2], high = value[count / 2];
    return low / 2 + high / 2;
}

bool skew_fleet_middle(const skew_result *result, int64_t *ret) {
    int64_t *of = calloc((size_t)result->host_count + 1, sizeof *of);
    size_t n = 0;

    for (int i = 0; of && i < result->host_count; i++)
        if (rank(&result->hosts[i]) == 0)
            of[n++] = middle(&result->hosts[i]);
    if (n > 1)
        *ret = skew_median(of, n);
    free(of);
    return n > 1;
}
