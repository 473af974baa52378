/*
 * One server's part in acquiring a lock of a majority. It reaches the server, asks for its vote, and takes
 * the vote back, one request at a time. quorum_acquire, which counts the votes, decides which and when.
 */
#pragma once

#include "protocol/quorum.h"

typedef enum {
    TL_VOTER_IDLE,
    TL_VOTER_REACHING,
    TL_VOTER_VOTING,
    TL_VOTER_DROPPING
} tl_voter_doing;

/** The result of the last request. */
typedef enum {
    TL_VOTER_REACHED,
    TL_VOTER_VOTED,
    TL_VOTER_BUSY,
    TL_VOTER_DROPPED,
    TL_VOTER_FAILED
} tl_voter_end;

typedef struct {
    tl_job job; /**< token: the one it was last asked to vote for */
    tl_attempt attempt;
    tl_mono until; /**< that token holds K there at least until then; ns 0: it doesn't */
    /** when another's hold expires, or the server grants again; TL_NEVER: not known */
    tl_mono proved; /**< when the request for that was built */
    tl_mono hint;
    tl_mono harmless; /**< valid if `doubted`: after this no request for a vote is in flight */
    uint64_t number;  /**< the fencing number of the vote */
    uint64_t holder;  /**< BUSY: the holder, as in tl__quorum_holder */
    uint32_t run;     /**< the index of the token it was asked for */
    uint16_t ticket;
    uint8_t doing;
    uint8_t index;  /**< the index of the server */
    bool holds;     /**< that token may hold K there */
    bool doubted;   /**< a request for a vote is unanswered: the vote may still come */
    bool announced; /**< BUSY: the holder's release will be announced */
    bool rests;     /**< BUSY: nobody holds it; it rests */
    tl_mono seen;   /**< when its last vote came, */
    int64_t
        seen_us; /**< and the latest time, us, that the server's clock could show then; 0: not known */
} tl_voter;

/** The latest time, us, that the clock of a server that has voted can show now; 0: not known. */
int64_t tl__voter_server_us(const tl_voter *voter, const tl_event *event);
void tl__voter_init(tl_voter *voter, const tl_job *job, unsigned index);

/** Call each of these only while idle. Each makes a send. */
void tl__voter_reach(tl_voter *voter, uint16_t ticket, tl_mono by, tl_out *out);
/** token: the one with index `run`. least: the least fencing number. */
void tl__voter_ask(tl_voter *voter, uint16_t ticket, const tl_token *token, uint32_t run,
                   uint64_t least, tl_mono until, const tl_event *event, tl_out *out);
void tl__voter_drop(tl_voter *voter, uint16_t ticket, tl_mono until, const tl_event *event,
                    tl_out *out);

/** Handle a reply or a failure. true: the request has ended, with *ret_end, and after a failure *ret_code.
 *  Else there is another send, or the event is not of this server. */
bool tl__voter_answer(tl_voter *voter, const tl_event *event, tl_out *out, tl_voter_end *ret_end,
                      tl_err *ret_code);

/** Forget the request in flight: its reply will not be reported. */
void tl__voter_abandon(tl_voter *voter);
