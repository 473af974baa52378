/*
 * What has come of a job, or of a question.
 */
#pragma once

#include "protocol/job.h"

/** A result within the library only: the server that was asked is not, or not any more, the one to ask, and has
 *  certainly not executed it. Whoever asked builds the request anew, for the other. */
#define TL_EELSEWHERE ((tl_err)64)

/** Of a failure: will the same server say the same next time, whenever that is, until somebody changes something? */
static inline bool tl__is_lasting(tl_err code) {
    return code == TL_EDENIED || code == TL_ESERVER || code == TL_EINVALID ||
           code == TL_EUNSUPPORTED;
}

/** May the same request have another answer next time? */
static inline bool tl__may_pass(tl_err code) {
    return code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN || code == TL_EELSEWHERE;
}

/** Is this the server's fault, so that a message should name it? */
bool tl__is_of_server(tl_err code);

/** ACQUIRE */
typedef struct {
    /** OK: the first of the fencing numbers reserved. */
    uint64_t fence;
    /** Not OK: when the holder's time is up, or the server grants locks again, as far as is known now; TL_NEVER when it
     *  isn't. */
    tl_mono hint;
    /** In line: its place, how many are before it, how many stand there, and the server's time then. */
    int64_t rank;
    int32_t before, waiting;
    int64_t server_us;
    /** Answered: this server refuses requests that come too late. */
    bool checked;
    /** EBUSY: the holder's release will be announced on the topic. */
    bool announced;
    /** EBUSY: nothing is ever announced there. */
    bool silent;
    /** EBUSY: the line stands still, or there is none: look again soon. */
    bool polls;
    /** Not OK: a request that gives the key back may come yet, until `hint`. */
    bool giving;
    /** OK: the end of the stamp that proves it, as text, is the only token that there is. */
    bool stamp_is_token;
} tl_acquire_result;

/** RENEW, ELOST */
typedef struct {
    tl_lost_why why;
    /** By a client whose clock was so far ahead of the server's. */
    bool stolen;
    int64_t thief_ahead_ms;
} tl_lost;

/** What came of it; the first member of every machine and of every attempt. */
typedef struct {
    /** ACQUIRE: OK, EBUSY. RENEW: OK, ELOST. RELEASE: OK, EEXPIRED, ETAKEN. All: EUNCERTAIN, EUNAVAILABLE, EDENIED, ESERVER */
    tl_err code;
    /** A tl_op. */
    uint8_t op;
    /** Not OK: a request may have taken effect, or may yet (EUNCERTAIN), or has (any other code). */
    bool maybe;
    /** EUNCERTAIN: asking again could do harm. */
    bool last;
    /** EUNAVAILABLE: no failure of the server's: the limit had passed when it could have been asked, or when the request came
     *  there. */
    bool late;
    /** `maybe`: after this a request still in flight is refused by a server that checks; TL_NEVER when it carries no limit. */
    tl_mono harmless;
    /** ACQUIRE and RENEW, OK: ours until then, and what is known of it. */
    tl_mono deadline;
    tl_proof proof;
    /** One of them, by `op`; nothing for RELEASE. */
    union {
        tl_acquire_result acquire;
        tl_lost lost;
    };
} tl_result;

/** Why a lock is lost, if the result says so. */
static inline tl_lost tl__result_lost(const tl_result *result) {
    return result->op == TL_RENEW && result->code == TL_ELOST ? result->lost : (tl_lost){0};
}
