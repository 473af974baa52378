/*
 * Trying again: what the machines have in common that ask until a limit. When they ask next, why the last request
 * failed, and what they report when they give up.
 */
#pragma once

#include "protocol/protocol.h"

/** A strategy of waiting, as the options of a lock state it in their members retry and retry_*. */
typedef struct {
    tl_retry_kind kind;
    int64_t delay_ms, max_delay_ms;
    uint32_t max_attempts;
    int64_t (*next)(uint32_t attempts, int64_t waited_ms, void *ctx);
    void *ctx;
} tl_retry;

/** What a machine that acquires a lock is doing. */
typedef enum { TL_REACHES, TL_KILLS, TL_ASKS, TL_PAUSES, TL_CLEANS } tl_doing;

/** What such a machine keeps beside what it asks. */
typedef struct {
    /** The caller has its result by then. Once it has: no use in cleaning up longer. */
    tl_mono limit;
    /** When to ask again; TL_NEVER while a request to clean up, extend or release is in flight. */
    tl_mono next;
    uint64_t random;
    uint32_t failures; /**< in a row */
    /** Why the last request failed, or that another holds the lock; with the errno behind it, or 0. */
    char message[TL_MESSAGE_SIZE];
    int sys_errno;
    bool lasts; /**< the message is of a refusal that will be the same next time */

    /* Acquiring: */
    bool answered;    /**< the lock was held by another, at least once */
    bool extra;       /**< the next attempt looks again because listening began: not counted */
    uint8_t doing;    /**< a tl_doing */
    uint8_t absences; /**< in a row: nobody was there to connect to */
    uint32_t attempts;
    tl_retry strategy;
    int64_t wait_ms, connect_ms;
    tl_mono start;
    tl_mono began;       /**< the request in flight, or the round of requests */
    tl_mono planned;     /**< `next` before the extra attempt */
    int64_t quickest_ns; /**< that a request was answered in */
} tl_retrier;

/* ---- the message ------------------------------------------------------------------------------- */

void tl__retry_say(tl_retrier *retrier, tl_bytes message);
/** A request has failed with this code. An attempt cut short by the limit says less of what is wrong than one before
 *  it; and what passes says less than what lasts. */
void tl__retry_blame(tl_retrier *retrier, const tl_event *event, tl_err code, tl_bytes message);
void tl__retry_report(const tl_retrier *retrier, tl_out *out);

/* ---- pauses ------------------------------------------------------------------------------------ */

/** Another failure: when to ask again. at_once: the first one is asked again without a pause. */
tl_mono tl__retry_after(tl_retrier *retrier, tl_mono now, bool at_once);
/** When the machine wants its next timer, if no request is in flight. */
tl_mono tl__retry_wakes(const tl_retrier *retrier);
/** When nothing is left of what a lock's requests may have done, so that cleaning up is of no use. A lock that was
 *  handed over or extended may have been believed for longer than its ttl_ms. */
tl_mono tl__retry_cleans_until(const tl_job *job, tl_mono believed, tl_mono now, int32_t drift_ppm);

/* ---- acquiring --------------------------------------------------------------------------------- */

/** wait_ms and connect_ms as for tl__acquire_init. */
tl_retrier tl__retry_init(const tl_retry *strategy, int64_t wait_ms, int64_t connect_ms,
                          uint64_t seed);
void tl__retry_begin(tl_retrier *retrier, tl_mono now);
/** The server has been reached, and is asked for the lock. */
void tl__retry_ask(tl_retrier *retrier, tl_mono now, int64_t attempt_ms);
/** The server has not been reached. true: go on. in_doubt: an earlier request may have acquired the lock. */
bool tl__retry_unreached(tl_retrier *retrier, const tl_event *event, bool in_doubt);
/** With wait_ms 0 there is no waiting for somebody to start a server: it was absent more than `most` times in a row. But
 *  what its requests may have done the machine asks as long as it can. */
bool tl__retry_is_hopeless(const tl_retrier *retrier, unsigned most, bool in_doubt);
void tl__retry_note_absence(tl_retrier *retrier, const tl_event *event);
/** The server was reached: a wait without a limit has none from now on. */
void tl__retry_lift_limit(tl_retrier *retrier);
/** Another holds the lock. */
void tl__retry_held(tl_retrier *retrier, tl_bytes message, tl_out *out);
/** The pause that the strategy wants before the next attempt; negative: none follows. That of TL_RETRY_AUTO, here 0, is
 *  up to the machine. */
int64_t tl__retry_pause_ms(tl_retrier *retrier, tl_mono now);
int64_t tl__retry_poll_ms(tl_retrier *retrier);
/** By its hint, when the holder's time is up. told: its end will be announced. */
int64_t tl__retry_auto_ms(tl_retrier *retrier, tl_mono hint, bool notified, tl_mono now);
/** An extra attempt changes nothing of when the next one is due. */
bool tl__retry_is_planned(const tl_retrier *retrier);
/** An attempt that the limit would cut short, as it seems, is not begun: all that it could bring is doubt. */
tl_mono tl__retry_in_time(tl_retrier *retrier, tl_mono now, tl_mono next);
tl_status tl__retry_pause(tl_retrier *retrier, tl_mono next, tl_out *out);
tl_status tl__retry_stay(const tl_retrier *retrier, tl_out *out);
/** The limit has come. TIMEDOUT only if the last reply was "another holds it", and no attempt has failed since. */
tl_err tl__retry_ran_out(const tl_retrier *retrier, bool in_doubt);
/** The caller has its result. Until the new limit the machine undoes what it may have left behind. */
void tl__retry_clean(tl_retrier *retrier, const tl_job *job, tl_mono now, int32_t drift_ppm);
