/*
 * A server as a machine sees it, and what is asked of it: a send. protocol.h says when.
 */
#pragma once

#include "ground/clock.h"
#include "wire/command.h"
#include "wire/interval.h"
#include "wire/reply.h"
#include "wire/slots.h"

#define TL_KEPT_MAX 4
#define TL_HOPS_MAX 8 /**< redirections in a row */

/** Something that a protocol of ../compat has read, and wants kept for all of a client's machines. What
 *  it is, is its own business. */
typedef struct {
    int64_t room[6];
} tl_kept;

/** What the driver knows of the server that a machine talks to. */
typedef struct {
    /** Grows with each server that takes the place of another; 0: not known, or never. */
    uint32_t generation;
    /** It is named the master by a configuration, of this epoch. */
    bool has_epoch;
    int64_t epoch;
    tl_anchor anchor;
    int32_t drift_ppm;
    /** What out->level has said of it since it was connected to; 0: nothing. Of its halves the lower is for stamps, the
     *  upper for tokens. */
    uint8_t level;
    /** Own wall clock less own deadline clock, for protocols that want it: at least this, and at most wall_wide_us more. */
    int64_t wall_us;
    int64_t wall_wide_us;
    /** What out->kept has said. */
    tl_kept kept[TL_KEPT_MAX];
} tl_server;

/** How a send has its connection to itself (../compat: a transaction over two exchanges). Nothing is written
 *  behind it before it was answered. One of the kind that opens is followed, from the step that is given
 *  its REPLY, by one that closes; if it isn't, or is open still after that, the connection sends `undo` by
 *  itself. A send that closes is FAILED, unsent, when that connection is lost. */
typedef struct {
    bool closes;
    /** With the replies to it. */
    bool (*is_open)(const tl_reply *reply, uint8_t count);
    /** `undos` of them. */
    const tl_command *undo;
    uint8_t undos;
} tl_pin;

/** Ask for one exchange: `count` commands written together, all answered in one TL_REPLY. With count
 *  0 nothing is sent: the REPLY, with no reply in it, says that the server has been reached, so that
 *  its clock is known where it tells it. */
typedef struct {
    uint16_t ticket;
    uint8_t count;
    /** The last of these commands, behind `count` others, that are sent in their place by a connection over which
     *  the counter of `slot` was raised by a script not longer than TL_RAISED_MS ago (tl__conn_raised). 0: none. */
    uint8_t native;
    tl_slot_tag slot;
    /** Whose it is, of several independent servers: a bit for each; 0: the key's own. */
    uint8_t to;
    /** Over the connection that has answered last, or not at all. */
    bool here;
    /** With count 0: the REPLY says that, after this was asked for, the server was still the one to ask, as whoever
     *  names the master has confirmed. Where nobody does it is answered at once. */
    bool confirm;
    /** Its commands have one key between them: a redirection may be followed by the letter. */
    bool alone;
    /** It goes where TL_ASK led, each command behind ASKING. */
    bool asking;
    /** Of the server that it was built for, by the driver; 0: any. */
    uint32_t generation;
    /** NULL: none. */
    const tl_pin *pin;
    /** No answer by then: FAILED. */
    tl_mono by;
    tl_command command[TL_COMMANDS_BOTH];
} tl_send;
