/*
 * The machine behind the questions about locks on etcd: whether it can serve, what a lock's keys are, a step through all
 * keys, and the removal of a holder's key.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/etcd.h"

typedef enum { TL_ETCD_PING, TL_ETCD_LOOKS, TL_ETCD_SCANS, TL_ETCD_BREAKS } tl_etcd_question;

typedef struct {
    tl_result result; /**< OK, or EUNAVAILABLE, EUNCERTAIN, EDENIED, ESERVER. BREAKS: EEXPIRED,
                           ETAKEN, too */
    tl_etcd_question question;
    tl_bytes key; /**< LOOKS, BREAKS */
    int64_t attempt_ms, connect_ms;
    tl_lock_info info;        /**< LOOKS: what was found */
    tl_waiting_fn on_waiting; /**< LOOKS: of so many in line at most; 0: of none */
    uint32_t most;
    tl_bytes pattern; /**< SCANS */
    uint64_t cursor;  /**< SCANS: where to go on; 0: at the end */
    tl_found_fn found;
    const tl_lock_info *seen; /**< BREAKS: NULL: whatever is there */
    void *ctx;
    tl_mono limit;
    uint8_t exchange, again;
    char room
        [TL_KEY_MAX]; /**< SCANS: the lock of the key that is asked about; BREAKS: what stands behind "K/" */
    size_t room_n;
} tl_etcd_ask;

tl_status tl__etcd_ask_step(void *machine, const tl_event *event, tl_out *out);
