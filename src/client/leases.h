/*
 * Spare leases of etcd: the client does not use them at the moment, and its next acquire needs no
 * new one. Any thread.
 */
#pragma once

#include "ground/thread.h"
#include "protocol/protocol.h"

#define TL_LEASES_MAX 16

typedef struct {
    tl_mutex mutex;
    tl_spare_lease of[TL_LEASES_MAX];
    unsigned count;
    bool used; /**< a lock was released before: the client may well acquire another */
} tl_leases;

void tl__leases_init(tl_leases *leases);
void tl__leases_end(tl_leases *leases);

/** Take a lease for this lifetime of which enough is left; .lease 0: there is none. */
tl_spare_lease tl__leases_take(tl_leases *leases, int64_t ttl_ms, tl_mono now, int32_t drift_ppm);

/** Before a release: will the lock's lease be kept if the release works? false: it should be revoked. */
bool tl__leases_want(tl_leases *leases, const tl_spare_lease *spare, tl_mono now,
                     int32_t drift_ppm);

/** Keep a lease, if .lease isn't 0 and there is room. No key may be under it, nor may a request in
 *  flight put one there. */
void tl__leases_give(tl_leases *leases, const tl_spare_lease *spare);
