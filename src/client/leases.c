/*
 * Spare leases of etcd. A lease that is forgotten here expires by itself. A lease that a key may be under
 * must never be kept here.
 */
#include "client/leases.h"

#include "ground/guard.h"
#include "protocol/etcd.h"

void tl__leases_init(tl_leases *leases) {
    tl__mutex_init(&leases->mutex);
}

void tl__leases_end(tl_leases *leases) {
    tl__mutex_end(&leases->mutex);
}

/* Forget the leases of which too little is left. */
static void sort_out(tl_leases *leases, tl_mono now, int32_t drift_ppm) {
    unsigned n = 0;
    for (unsigned i = 0; i < leases->count; i++)
        if (tl__etcd_is_worth(&leases->of[i], now, drift_ppm))
            leases->of[n++] = leases->of[i];
    leases->count = n;
}

tl_spare_lease tl__leases_take(tl_leases *leases, int64_t ttl_ms, tl_mono now, int32_t drift_ppm) {
    tl_leases *spare = leases;
    tl_spare_lease taken = {0};
    tl__mutex_lock(&spare->mutex);
    sort_out(spare, now, drift_ppm);
    for (unsigned i = 0; i < spare->count; i++)
        if (spare->of[i].ttl_ms == ttl_ms || !GUARD(lease_of_same_lifetime)) {
            taken = spare->of[i];
            if (GUARD(lease_for_one_lock))
                spare->of[i] = spare->of[--spare->count];
            break;
        }
    tl__mutex_unlock(&spare->mutex);
    return taken;
}

/* Leases must not pile up in etcd. From the client's second release on, the lease of a clean release is kept
 * while two thirds of it are left; so is that of an acquire in vain. Otherwise a release revokes its lease.
 * So do a release in doubt, a hold that has ended and an acquire that gives up. A lease that another key may
 * be under is never revoked: it expires, and so does a lease that a renewal has replaced. */
bool tl__leases_want(tl_leases *leases, const tl_spare_lease *spare, tl_mono now,
                     int32_t drift_ppm) {
    tl_leases *l = leases;
    tl__mutex_lock(&l->mutex);
    sort_out(l, now, drift_ppm);
    bool wants = (l->used || !GUARD(first_lease_is_revoked)) && l->count < TL_LEASES_MAX &&
                 tl__etcd_is_worth(spare, now, drift_ppm);
    l->used = true;
    tl__mutex_unlock(&l->mutex);
    return wants;
}

void tl__leases_give(tl_leases *leases, const tl_spare_lease *spare) {
    tl__mutex_lock(&leases->mutex);
    if (spare->lease != 0 && leases->count < TL_LEASES_MAX)
        leases->of[leases->count++] = *spare;
    tl__mutex_unlock(&leases->mutex);
}
