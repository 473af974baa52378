/*
 * Who of etcd's members is asked. It does no I/O.
 */
#include "transport/members.h"

#include <stdlib.h>

tl_members *tl__members_new(const tl_endpoint *like, const tl_seeds *seeds) {
    tl_members *m = calloc(1, sizeof *m + seeds->count * sizeof *m->endpoint);
    if (!m)
        return NULL;
    m->count = seeds->count;
    memcpy(m->prefix_text, seeds->prefix, sizeof m->prefix_text);
    m->prefix = tl__bytes_of(m->prefix_text);
    for (unsigned i = 0; i < m->count; i++)
        tl__endpoint_at_seed(&m->endpoint[i], like, seeds, i);
    return m;
}

void tl__members_free(tl_members *members) {
    if (!members)
        return;
    for (unsigned i = 0; i < members->count; i++)
        tl__endpoint_wipe(&members->endpoint[i]);
    free(members);
}

void tl__members_pass(tl_members *members, unsigned failed) {
    (void)atomic_compare_exchange_strong(&members->at, &failed, (failed + 1) % members->count);
}
