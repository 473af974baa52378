/*
 * The machine that acquires a lock on etcd: it tries or queues, gives up, and cleans up.
 *
 * A usual waiter (TL_RETRY_AUTO) creates its key behind the others. It holds the lock when no older key of K
 * is left. While it waits it renews its key as a holder does. It listens for the deletion of the key before
 * its own (the topic "REVISION K/SUFFIX", from the revision at which it saw that key), and also looks now and
 * then. With other strategies, or with a single try, the machine creates its key only where K has none.
 */
#pragma once

#include "protocol/acquire.h"
#include "protocol/etcd.h"

typedef struct {
    tl_result result; /**< final at END or DETACH; code OK: held, with deadline and fence */
    tl_job job;
    tl_retrier retry;
    tl_etcd_id id;    /**< its revision is 0 while the key isn't known to exist */
    tl_mono deadline; /**< of the key: until when it may be believed */
    tl_mono proved;   /**< as in tl_result */
    tl_mono keep_at;  /**< when the key is to be renewed next */
    /** a lease without a key, as far as is known; the machine returns it to the driver at the end */
    tl_spare_lease spare;
    int64_t lease;       /**< the lease of the request in flight */
    int64_t ahead;       /**< as in tl_etcd_proof */
    int64_t doubtful[2]; /**< leases of requests that went unanswered; 0: none */
    int64_t under;       /**< the lease that is known to hold the key; 0: none */
    int64_t changed;     /**< the revision at which the key was put under it */
    int64_t behind;      /**< the revision of the key before ours; 0: not known */
    tl_mono
        undo_again; /**< a deletion of the key that begins sooner is repeated then; 0: none is */
    uint16_t ticket;
    uint8_t word;
    bool uncertain; /**< a request of ours may have created the key, or may still do so */
    bool woken;     /**< a notification came after the request in flight was built */
    bool by_spare;  /**< the request in flight uses the spare lease */
    bool rests;     /**< by the last reply nobody holds the lock: it rests */
    bool listening, armed;
    /** the index of the topic it listens to; the other one is used for the next topic, since the driver still
     *  reads this one */
    uint8_t topic_at;
    char topic[2][TL_ETCD_TOPIC_MAX];
} tl_etcd_acquisition;

/** As tl__acquire_init, but `seed` also determines the key's name: nobody else may ever use the same seed. */
void tl__etcd_acquire_init(tl_etcd_acquisition *acquisition, const tl_job *job,
                           const tl_retry *retry, int64_t wait_ms, int64_t connect_ms,
                           uint64_t seed);

tl_status tl__etcd_acquire_step(void *machine, const tl_event *event, tl_out *out);
