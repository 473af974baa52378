/*
 * The order of hosts in all output.
 */
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
