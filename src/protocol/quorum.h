/*
 * The arithmetic of a majority: of N independent servers, each of which votes for a token by holding K for it. What
 * q = N / 2 + 1 of them hold at one moment nobody else can hold; all else follows from that.
 */
#pragma once

#include "protocol/attempt.h"

#define TL_QUORUM_MIN 3 /**< servers, and always an odd number */
#define TL_QUORUM_MAX 7

extern const tl_protocol tl__protocol_quorum;

/** ACQUIRE that found K another's: whose, as a number that stands for the bytes; 0: that of nobody who is known. OK:
 *  *ret_kept: K was the token's before. */
uint64_t tl__quorum_holder(const void *attempt, bool *ret_kept);

static inline unsigned tl__quorum_of(unsigned count) {
    return count / 2 + 1;
}

static inline unsigned tl__quorum_bits(unsigned mask) {
    unsigned bits = 0;
    for (; mask; mask &= mask - 1)
        bits++;
    return bits;
}

/** One server's attempt, as part of a machine that asks several: the event is of that server, and its send goes there. */
tl_status tl__quorum_begin(tl_attempt *attempt, const tl_job *job, tl_op op, uint16_t ticket,
                           tl_mono until, unsigned server, const tl_event *event, tl_out *out);
tl_status tl__quorum_step(tl_attempt *attempt, const tl_job *job, unsigned server,
                          const tl_event *event, tl_out *out);

/** Who has voted, for how long. */
typedef struct tl_ballots {
    tl_mono
        until[TL_QUORUM_MAX]; /**< K is the token's there until then, at least; ns 0: it isn't */
    uint8_t count;            /**< servers */
    uint8_t doubted; /**< a bit for each: a vote was asked for that may come yet, or have come */
} tl_ballots;

/** As long as a majority of them lasts: the q-th largest of the servers' own; ns 0: there is no majority. */
tl_mono tl__ballots_deadline(const tl_ballots *ballots);

/** A majority has answered what was asked at `began`: until when to wait for the others, a part of what that took. */
tl_mono tl__quorum_grace(tl_mono began, tl_mono now);

/** When a majority of the servers is free, by when each is; TL_NEVER where that isn't known. */
tl_mono tl__quorum_free_at(const tl_mono *free, unsigned count);

/** The least number that a round of votes asks for, of all servers alike: not behind the latest that any of their
 *  clocks can show, and larger than `seen`. A clock that is half a day ahead of the middle one says nothing. */
uint64_t tl__quorum_proposal(const tl_server *servers, unsigned count, tl_mono now, uint64_t seen);

typedef struct {
    uint64_t number;
    unsigned raise; /**< the servers where the counter must be brought up to it before it counts */
} tl_quorum_fence;

/** The fencing number of a hold, from what the votes have drawn (0: no vote): that which a majority of all servers gave
 *  in common; else the greatest, once it stands at a majority. Whoever holds the lock next has the vote of one of
 *  these, and draws a larger one. */
tl_quorum_fence tl__quorum_fence(const uint64_t *numbers, unsigned count);

/** Make it the job of asking for a vote that a holder has lost. It is no new hold: nothing is withheld from who believes
 *  already, and its number keeps the counter from falling behind the hold's. */
void tl__quorum_ask_again(tl_job *job, const tl_event *event, unsigned count);

/** Why there is no majority of them: what one of the servers said, or what happened there. */
tl_bytes tl__quorum_message(char to[TL_MESSAGE_SIZE], unsigned count, const char *message);

/** The server that is the first for a key. Those behind it follow in their order, and around. */
unsigned tl__quorum_first(tl_bytes key, unsigned count);
