/*
 * Leases of etcd that a client has no use for at the moment: whoever acquires a lock next needs no new one. Any thread.
 */
#pragma once

#include "ground/thread.h"
#include "protocol/protocol.h"

#define TL_LEASES_MAX 16

typedef struct {
    tl_mutex mutex;
    tl_spare_lease of[TL_LEASES_MAX];
    unsigned count;
    bool used; /**< some lock was released before: the client may acquire another */
} tl_leases;

void tl__leases_init(tl_leases *leases);
void tl__leases_end(tl_leases *leases);

/** One for this lifetime, of which enough is left, or none. */
tl_spare_lease tl__leases_take(tl_leases *leases, int64_t ttl_ms, tl_mono now, int32_t drift_ppm);

/** A lock is about to be released: will its lease be kept, should that work? Else it should be revoked. */
bool tl__leases_want(tl_leases *leases, const tl_spare_lease *spare, tl_mono now,
                     int32_t drift_ppm);

/** Keep one, if it is one and there is room. No key may be under it, nor come to be by a request that is on its way. */
void tl__leases_give(tl_leases *leases, const tl_spare_lease *spare);
