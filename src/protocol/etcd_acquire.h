/*
 * The machine that acquires a lock on etcd: try, or stand in line, give up, clean up.
 *
 * Who waits in the usual way (TL_RETRY_AUTO) puts its key behind the last, and holds the lock when no older key of K's
 * is left; it keeps its key by renewing it as a holder does. It listens to the deletion of the one before it (the topic
 * "REVISION K/SUFFIX": after the revision that it was seen at), and looks by itself now and then. Other strategies, and who tries once, create their
 * key only where K has none.
 */
#pragma once

#include "protocol/acquire.h"
#include "protocol/etcd.h"

typedef struct {
    tl_result result; /**< final at END or DETACH; code OK: held, with deadline and fence */
    tl_job job;
    tl_retrier retry;
    tl_etcd_id id;    /**< its revision: 0 while the key isn't known to be there */
    tl_mono deadline; /**< of the key, as far as it may be believed */
    tl_mono keep_at;  /**< when the key is to be renewed next */
    tl_spare_lease
        spare; /**< that nothing is under, as far as is known; the driver's again when it has ended */
    int64_t lease;       /**< of the request in flight */
    int64_t ahead;       /**< as in tl_etcd_proof */
    int64_t doubtful[2]; /**< leases of requests that went unanswered; 0: none */
    int64_t under;       /**< the lease that the key is known to be under; 0: it isn't */
    int64_t changed;     /**< when it was put there, a revision */
    int64_t behind;      /**< the revision of the key before ours; 0: it isn't known */
    uint16_t ticket;
    uint8_t word;
    bool uncertain; /**< a request of ours may have created the key, or may yet */
    bool woken;     /**< since the request in flight was built */
    bool by_spare;  /**< the request in flight has the spare lease */
    bool listening, armed;
    uint8_t
        topic_at; /**< which of both it listens to: that is still wanted when the next is written */
    char topic[2][TL_ETCD_TOPIC_MAX];
} tl_etcd_acquisition;

/** As tl__acquire_init, but that the key is named by `seed`, which nobody else may ever have. */
void tl__etcd_acquire_init(tl_etcd_acquisition *acquisition, const tl_job *job,
                           const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                           uint64_t seed);

tl_status tl__etcd_acquire_step(void *machine, const tl_event *event, tl_out *out);
