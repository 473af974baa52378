/*
 * A server as a machine sees it, and a send: the request to it. protocol.h says when.
 */
#pragma once

#include "ground/clock.h"
#include "wire/command.h"
#include "wire/interval.h"
#include "wire/reply.h"
#include "wire/slots.h"

#define TL_KEPT_MAX 4
#define TL_HOPS_MAX 8 /**< redirections in a row */

/** Something that a protocol of ../compat has read and keeps for all machines of a client. Only that protocol
 *  knows what it means. */
typedef struct {
    int64_t room[6];
} tl_kept;

/** The driver's facts about the server that a machine talks to. */
typedef struct {
    /** Grows each time another server takes over; 0: not known, or no other server can take over. */
    uint32_t generation;
    /** A configuration of this epoch names it as the master. */
    bool has_epoch;
    int64_t epoch;
    tl_anchor anchor;
    /** When the last disruption of this host was noticed (client/disruption.h); ns 0: none was. */
    tl_mono disrupted;
    int32_t drift_ppm;
    /** The last out->level since the driver connected; 0: none. The lower half is for stamps, the upper half
     *  for tokens. */
    uint8_t level;
    /** This host's wall clock minus its deadline clock, in us, for protocols that need it: at least wall_us,
     *  at most wall_wide_us more. */
    int64_t wall_us;
    int64_t wall_wide_us;
    /** The values of out->kept. */
    tl_kept kept[TL_KEPT_MAX];
} tl_server;

/** A send that has its connection to itself (../compat: a transaction over two exchanges). Nothing else is
 *  written on the connection before the reply. A send that opens a transaction must be followed, from the
 *  step that receives its REPLY, by one that closes it. If it isn't, or the transaction is still open after
 *  that, the connection sends `undo` by itself. A send that closes is FAILED, unsent, when that connection is
 *  lost. */
typedef struct {
    bool closes;
    /** By the replies to this send: is a transaction open? */
    bool (*is_open)(const tl_reply *reply, uint8_t count);
    /** `undos` commands. */
    const tl_command *undo;
    uint8_t undos;
} tl_pin;

/** A request for one exchange: `count` commands written together, whose replies come in one TL_REPLY. With
 *  count 0 nothing is sent: the REPLY, with no reply in it, says that the server has been reached. The
 *  server's clock is then known, if the server reports it. */
typedef struct {
    uint16_t ticket;
    uint8_t count;
    /** The native form: so many commands behind the first `count`. They are sent instead of those over a
     *  connection where a script raised the counter of `slot` not longer than TL_RAISED_MS ago
     *  (tl__conn_raised). 0: none. */
    uint8_t native;
    tl_slot_tag slot;
    /** Of several independent servers: a bit for each that it goes to; 0: to the server of the key. */
    uint8_t to;
    /** Send over the connection that replied last, or fail. */
    bool here;
    /** With count 0: the REPLY says that the server was still the master after this send was made, by the
     *  authority that names masters. Without such an authority the REPLY comes at once. */
    bool confirm;
    /** With `confirm`, for a renewal: another handle acquired the lock, perhaps at a former master. */
    bool adopted;
    /** All its commands together have one key: a redirection may be followed literally. */
    bool alone;
    /** It renews a held lock: a connection with many requests in flight still has room for it. */
    bool keeps;
    /** It goes to the node that a TL_ASK named, with ASKING before each command. */
    bool asking;
    /** The generation of the server that it was built for, set by the driver; 0: any. */
    uint32_t generation;
    /** NULL: none. */
    const tl_pin *pin;
    /** Without a reply by then it is FAILED. */
    tl_mono by;
    tl_command command[TL_COMMANDS_BOTH];
} tl_send;
