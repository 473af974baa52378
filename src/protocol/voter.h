/*
 * One server's part in acquiring a lock of a majority: it is reached, asked for its vote, and the vote is taken back;
 * one request at a time. Which, and when, is decided by who counts the votes (quorum_acquire).
 */
#pragma once

#include "protocol/quorum.h"

typedef enum {
    TL_VOTER_IDLE,
    TL_VOTER_REACHING,
    TL_VOTER_VOTING,
    TL_VOTER_DROPPING
} tl_voter_doing;

/** What became of the last request. */
typedef enum {
    TL_VOTER_REACHED,
    TL_VOTER_VOTED,
    TL_VOTER_BUSY,
    TL_VOTER_DROPPED,
    TL_VOTER_FAILED
} tl_voter_end;

typedef struct {
    tl_job job; /**< token: the one that it was asked for last */
    tl_attempt attempt;
    tl_mono until;    /**< K is that token's there until then, at least; ns 0: it isn't */
    tl_mono hint;     /**< when another's time is up, or it gives again; TL_NEVER: not known */
    tl_mono harmless; /**< doubted: after this no vote is still on its way */
    uint64_t number;  /**< drawn with the vote */
    uint64_t holder;  /**< BUSY: who, as tl__quorum_holder tells */
    uint32_t run;     /**< which of the asker's tokens it was asked for */
    uint16_t ticket;
    uint8_t doing;
    uint8_t index;  /**< which server it is */
    bool holds;     /**< K there may be that token's */
    bool doubted;   /**< a vote went unanswered: it may come yet */
    bool announced; /**< BUSY: the holder's release will be announced */
} tl_voter;

void tl__voter_init(tl_voter *voter, const tl_job *job, unsigned index);

/** Each of these is asked of one that is idle; there is a send afterwards. */
void tl__voter_reach(tl_voter *voter, uint16_t ticket, tl_mono by, tl_out *out);
/** token: number `run` of those that are asked for. again: not for the first time. least: the least number. */
void tl__voter_ask(tl_voter *voter, uint16_t ticket, const tl_token *token, uint32_t run,
                   uint64_t least, tl_mono until, const tl_event *event, tl_out *out);
void tl__voter_drop(tl_voter *voter, uint16_t ticket, tl_mono until, const tl_event *event,
                    tl_out *out);

/** A reply to it, or a failure. true: that was its end, of which *ret_end tells, and of a failure *ret_code. Else
 *  there is another send, or it was nothing of this server's. */
bool tl__voter_answer(tl_voter *voter, const tl_event *event, tl_out *out, tl_voter_end *ret_end,
                      tl_err *ret_code);

/** What is in flight will not be told any more. */
void tl__voter_abandon(tl_voter *voter);
