/*
 * The arithmetic of a majority. Each of N independent servers votes for a token by holding K for it. While q
 * = N / 2 + 1 of them hold K for one token at the same moment, no other token can have q. All else follows
 * from that.
 */
#pragma once

#include "protocol/attempt.h"

#define TL_QUORUM_MIN 3 /**< the number of servers; it is always odd */
#define TL_QUORUM_MAX 7

extern const tl_protocol tl__protocol_quorum;

/** An ACQUIRE that found K another's: a number that stands for the bytes of K's value; 0: not known. OK:
 *  *ret_kept says whether the token held K before. */
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

/** One server's attempt, as part of a machine that asks several: the event is of that server, and its send
 *  goes there. */
tl_status tl__quorum_begin(tl_attempt *attempt, const tl_job *job, tl_op op, uint16_t ticket,
                           tl_mono until, unsigned server, const tl_event *event, tl_out *out);
tl_status tl__quorum_step(tl_attempt *attempt, const tl_job *job, unsigned server,
                          const tl_event *event, tl_out *out);

/** The votes, and how long each lasts. */
typedef struct tl_ballots {
    tl_mono
        until[TL_QUORUM_MAX]; /**< the token holds K there at least until then; ns 0: it doesn't */
    tl_mono proved[TL_QUORUM_MAX]; /**< when the request for that was built */
    uint8_t count;                 /**< servers */
    /** a bit for each server: a vote was requested that may still come, or has come */
    uint8_t doubted;
    /** The latest time, us, that each server's clock could show when the lock was acquired; 0: not known. */
    int64_t seen_us[TL_QUORUM_MAX];
} tl_ballots;

/** The end of the majority: the q-th latest end of the servers' votes; ns 0: there is no majority. */
tl_mono tl__ballots_deadline(const tl_ballots *ballots);
/** The votes that were requested after a disruption: they alone count then. */
tl_ballots tl__ballots_proved(const tl_ballots *ballots, tl_mono disrupted);
/** When the earliest vote was requested; ns 0: there is none. */
tl_mono tl__ballots_since(const tl_ballots *ballots);

/** A majority has replied to the requests sent at `began`: until when to wait for the others. It is a
 *  fraction of the time so far. */
tl_mono tl__quorum_grace(tl_mono began, tl_mono now);

/** When a majority of the servers is free, from the time of each; TL_NEVER where that isn't known. */
tl_mono tl__quorum_free_at(const tl_mono *free, unsigned count);

/** The least number that a round of votes asks for, the same from all servers. It is not lower than the
 *  latest that any server's clock can show, and higher than `seen`. It ignores a clock half a day ahead of
 *  the median. */
uint64_t tl__quorum_proposal(const tl_server *servers, unsigned count, tl_mono now, uint64_t seen);

typedef struct {
    uint64_t number;
    /** a bit for each server where the counter must be raised to `number` before it counts */
    unsigned raise;
} tl_quorum_fence;

/** The fencing number of a hold, from the numbers of the votes (0: no vote). If a majority of all servers
 *  gave the same number, it is that. Else it is the greatest, once a majority has it. The next holder has the
 *  vote of one of these servers, and so draws a larger number. */
tl_quorum_fence tl__quorum_fence(const uint64_t *numbers, unsigned count);

/** Turn `job` into a request for a vote that the holder has lost. Like one for a new hold it is refused for
 *  quiet_ms after the server's start. Its number keeps the counter from falling behind the hold's. */
void tl__quorum_ask_again(tl_job *job, const tl_event *event, unsigned count);

/** The message why there is no majority, with what happened at one of the servers. */
tl_bytes tl__quorum_message(char to[TL_MESSAGE_SIZE], unsigned count, const char *message);

/** The index of the first server for a key. The others follow in the order of the URL, cyclically. */
unsigned tl__quorum_first(tl_bytes key, unsigned count);
