/*
 * The machine behind the questions about locks on etcd. Can etcd serve? Which keys does a lock have? It also
 * makes one step of a scan of all keys, and removes a holder's key.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/etcd.h"

typedef enum { TL_ETCD_PING, TL_ETCD_LOOKS, TL_ETCD_SCANS, TL_ETCD_BREAKS } tl_etcd_question;

typedef struct {
    /** OK, or EUNAVAILABLE, EUNCERTAIN, EDENIED, ESERVER. BREAKS: EEXPIRED, ETAKEN, too */
    tl_result result;
    tl_etcd_question question;
    tl_bytes key; /**< LOOKS, BREAKS */
    int64_t attempt_ms, connect_ms;
    tl_lock_info info;        /**< LOOKS, SCANS: the answer */
    tl_waiting_fn on_waiting; /**< LOOKS: called for at most `most` waiters */
    uint32_t most;
    tl_bytes pattern; /**< SCANS */
    uint64_t cursor;  /**< SCANS: where to go on; 0: the scan is complete */
    tl_found_fn found;
    const tl_lock_info *seen; /**< BREAKS: the lock that was seen; NULL: remove any lock */
    void *ctx;
    tl_mono limit;
    uint32_t listed; /**< SCANS: so many keys are read with their values at last; 0: none */
    uint8_t exchange, again;
    /** SCANS: the name of the lock that it asks about. BREAKS: the part of the holder's key behind "K/" */
    char room[TL_KEY_MAX];
    size_t room_n;
} tl_etcd_ask;

tl_status tl__etcd_ask_step(void *machine, const tl_event *event, tl_out *out);
