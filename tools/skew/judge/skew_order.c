/*
 * The order of hosts.
 */
#include "skew/judge/skew_order.h"

static int rank(const skew_host *h) {
    if (!skew_is_clock(h->kind))
        return 3;
    return h->known ? 0 : h->relative ? 1 : 2;
}

static int64_t middle(const skew_host *h) {
    return h->known || h->relative ? h->offset.lo / 2 + h->offset.hi / 2 : 0;
}

static bool comes_before(const skew_host *a, const skew_host *b) {
    if (rank(a) != rank(b))
        return rank(a) < rank(b);
    return middle(a) > middle(b);
}

void skew_order(const skew_result *r, int *order) {
    for (int i = 0; i < r->host_count; i++) { /* few, and those alike stay as they are */
        int at = i;
        for (; at > 0 && comes_before(&r->hosts[i], &r->hosts[order[at - 1]]); at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
}
