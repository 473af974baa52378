/*
 * Retrying: the part that all machines share which ask until a limit. When to ask next, why the last request
 * failed, and what to report at the end.
 */
#pragma once

#include "protocol/protocol.h"

/** A strategy of waiting, from the lock options retry and retry_*. */
typedef struct {
    tl_retry_kind kind;
    int64_t delay_ms, max_delay_ms;
    uint32_t max_attempts;
    int64_t (*next)(uint32_t attempts, int64_t waited_ms, void *ctx);
    void *ctx;
} tl_retry;

#define TL_RESTS "it rests: nobody holds it, and nobody acquires it before the rest ends"

/** The present activity of a machine that acquires a lock. */
typedef enum { TL_REACHES, TL_KILLS, TL_ASKS, TL_PAUSES, TL_CLEANS } tl_doing;

/** The state of retrying. */
typedef struct {
    /** The caller has its result by then. After that: the end of cleaning up. */
    tl_mono limit;
    /** When to ask again; TL_NEVER while a request to clean up, extend or release is in flight. */
    tl_mono next;
    uint64_t random;
    uint32_t failures; /**< in a row */
    /** Why the last request failed, or that another holds the lock; sys_errno is the errno behind it, or
     *  0. */
    char message[TL_MESSAGE_SIZE];
    int sys_errno;
    bool lasts; /**< the message is a refusal that will be the same next time */

    /* Acquiring: */
    bool answered; /**< another client held the lock, at least once */
    bool extra; /**< the next attempt only looks again since listening began: it is not counted */
    uint8_t doing;    /**< a tl_doing */
    uint8_t absences; /**< in a row: no server was at the address */
    uint32_t attempts;
    tl_retry strategy;
    int64_t wait_ms, connect_ms;
    tl_mono start;
    tl_mono began;       /**< when the request in flight, or the round of requests, began */
    tl_mono planned;     /**< `next` before the extra attempt */
    int64_t quickest_ns; /**< the shortest time between a request and its reply */
} tl_retrier;

/* ---- the message ------------------------------------------------------------------------------- */

void tl__retry_say(tl_retrier *retrier, tl_bytes message);
/** Note that a request failed with this code. The message of a lasting failure stays; so does an earlier
 *  message when the limit cut this attempt short, since the earlier one says more. */
void tl__retry_blame(tl_retrier *retrier, const tl_event *event, tl_err code, tl_bytes message);
void tl__retry_report(const tl_retrier *retrier, tl_out *out);

/* ---- pauses ------------------------------------------------------------------------------------ */

/** Count a failure; returns when to ask again. at_once: after the first failure there is no pause. */
tl_mono tl__retry_after(tl_retrier *retrier, tl_mono now, bool at_once);
/** When the machine needs its next timer, if no request is in flight. */
tl_mono tl__retry_wakes(const tl_retrier *retrier);
/** When everything that a lock's requests may have written has expired, so that cleaning up is useless.
 *  `believed` counts, too: a lock that was handed over or extended may have been believed for longer than its
 *  ttl_ms. */
tl_mono tl__retry_cleans_until(const tl_job *job, tl_mono believed, tl_mono now, int32_t drift_ppm);

/* ---- acquiring --------------------------------------------------------------------------------- */

/** wait_ms and connect_ms as for tl__acquire_init. */
tl_retrier tl__retry_init(const tl_retry *strategy, int64_t wait_ms, int64_t connect_ms,
                          uint64_t seed);
void tl__retry_begin(tl_retrier *retrier, tl_mono now);
/** The server has been reached: the lock is asked for now. */
void tl__retry_ask(tl_retrier *retrier, tl_mono now, int64_t attempt_ms);
/** Is the wait over, although the server has been reached just now? Then nothing is asked. */
bool tl__retry_is_too_late(tl_retrier *retrier, const tl_event *event);
/** The server could not be reached. Returns whether to go on. in_doubt: an earlier request may have acquired
 *  the lock. */
bool tl__retry_unreached(tl_retrier *retrier, const tl_event *event, bool in_doubt);
/** With wait_ms 0 the machine does not wait for a server to start: it gives up after more than `most`
 *  absences in a row. In doubt it goes on as long as it can, to learn what its requests have done. */
bool tl__retry_is_hopeless(const tl_retrier *retrier, unsigned most, bool in_doubt);
void tl__retry_note_absence(tl_retrier *retrier, const tl_event *event);
/** The server was reached: from now on a wait without a limit has none. */
void tl__retry_lift_limit(tl_retrier *retrier);
/** Note that another client holds the lock. */
void tl__retry_held(tl_retrier *retrier, tl_bytes message, tl_out *out);
/** The pause in ms before the next attempt by the strategy; negative: there is no next attempt. For
 *  TL_RETRY_AUTO it returns 0, and the machine chooses the pause. */
int64_t tl__retry_pause_ms(tl_retrier *retrier, tl_mono now);
int64_t tl__retry_poll_ms(tl_retrier *retrier);
/** The pause of TL_RETRY_AUTO, in ms, by the hint (the expected end of the hold). notified: that end will be
 *  announced. */
int64_t tl__retry_auto_ms(tl_retrier *retrier, tl_mono hint, bool notified, tl_mono now);
/** Is the next attempt already planned? An extra attempt does not move it. */
bool tl__retry_is_planned(const tl_retrier *retrier);
/** `next`, or the limit if an attempt begun at `next` would probably be cut short by the limit. Such an
 *  attempt could only cause doubt. */
tl_mono tl__retry_in_time(tl_retrier *retrier, tl_mono now, tl_mono next);
tl_status tl__retry_pause(tl_retrier *retrier, tl_mono next, tl_out *out);
tl_status tl__retry_stay(const tl_retrier *retrier, tl_out *out);
/** The code at the limit. TIMEDOUT only if the last reply was "another holds it", and no attempt has failed
 *  since. */
tl_err tl__retry_ran_out(const tl_retrier *retrier, bool in_doubt);
/** The caller has its result. Until a new limit the machine undoes what it may have left behind. */
void tl__retry_clean(tl_retrier *retrier, const tl_job *job, tl_mono now, int32_t drift_ppm);
