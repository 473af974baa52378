/*
 * The row of each protocol.
 */
#include "protocol/protocol.h"

const tl_protocol *tl__protocol_row(tl_protocol_id id) {
    static const tl_protocol *const rows[] = {
        [TL_TOKEN] = &tl__protocol_token,
        [TL_BRIDGE] = TL_FROM_COMPAT(tl__protocol_bridge),
        [TL_TIMESTAMP] = TL_FROM_COMPAT(tl__protocol_timestamp),
        [TL_AUTO] = TL_FROM_COMPAT(tl__protocol_auto),
    };
    return (size_t)id < sizeof rows / sizeof *rows ? rows[id] : NULL;
}
