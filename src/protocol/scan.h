/*
 * The machine behind tl_client_scan: it reaches the server, makes one step through its keys, and reports the
 * locks.
 */
#pragma once

#include <tidelock/inspect.h>

#include "protocol/protocol.h"

typedef struct {
    tl_result result; /**< OK, or EUNAVAILABLE, EDENIED, ESERVER */
    tl_bytes pattern;
    const tl_legacy *legacy; /**< see tl__look_fill */
    tl_found_fn found;
    void *ctx;
    int64_t attempt_ms, connect_ms;
    uint64_t cursor; /**< where to go on; 0: the scan is complete */
    uint16_t ticket;
} tl_scan;

void tl__scan_init(tl_scan *scan, tl_bytes pattern, uint64_t cursor, int64_t attempt_ms,
                   int64_t connect_ms);

tl_status tl__scan_step(void *machine, const tl_event *event, tl_out *out);
