/*
 * What the protocols of stamps have in common: judging what K holds, and what an own stamp is worth.
 * stamp_script keeps a sidecar, by EVAL; stamp_watch does, by WATCH and MULTI; stamp_plain knows the
 * four commands of the legacy clients only. stamp_alone goes on for stamp_script while a cluster's slot is being moved.
 */
#pragma once

#include "dialect/dialect.h"
#include "protocol/attempt.h"
#include "protocol/sidecar.h"

/** What a server can do: the lower half of tl_server.level. */
enum {
    TL_LEVEL_UNKNOWN,
    TL_LEVEL_SCRIPT,
    TL_LEVEL_WATCH,
    TL_LEVEL_PLAIN,
    TL_LEVEL_BITS = 0x0f /* the other half is the token protocol's */
};

/** An attempt of any of them. */
typedef struct {
    tl_try try; /* first */
    uint8_t level;
    bool drain;    /**< stamp_script: write tokens in the place of stamps */
    uint8_t phase; /* stamp_plain, stamp_watch: what has been asked; stamp_script: whether K's value
                      is expected */
    uint8_t rounds;
    /* stamp_watch */
    bool timed;         /* the server tells its time */
    bool owned;         /* a take has found itself the holder */
    uint8_t exec;       /* which of the replies is that of EXEC */
    int8_t status;      /* RELEASE: what it will have come to */
    bool sidecar_asked; /* stamp_alone: what was found was looked for in S, too */
    union {
        uint64_t read_hash; /* of the stamp that was found */
        int64_t from_ms;    /* stamp_alone: what K held when it was noted what it is to hold next */
    };
    union {
        size_t read_n;
        int64_t proved_ms; /* stamp_alone: what K held when that was told last */
    };
    int64_t read_end_ms;
    /* stamp_plain, stamp_watch */
    tl_mono read_at; /* when our clock was read for the stamp that was sent */
    int64_t read_us; /* what it showed, at least */
    int64_t end_ms;  /* that stamp */
    /* stamp_alone: read_end_ms is what S knew K to hold, end_ms what it is about to hold */
} tl_stamp_try;

_Static_assert(sizeof(tl_stamp_try) <= TL_ATTEMPT_SIZE, "fits where attempts live");

#define TL_STAMP_ROUNDS 3 /**< how often an attempt follows what others change under its hands */

/** The server's clock at e->now, us; where it doesn't tell its time, or mustn't be asked, our own
 *  wall clock. */
tl_interval tl__stamp_now_us(const tl_job *job, const tl_event *event);

/** Has every legacy client's comparison been true for long enough that none may still act on it? */
bool tl__stamp_is_free(const tl_rules *rules, const tl_stamp *stamp, int64_t now_ms);
/** When it will be, as a time for the asker. */
tl_mono tl__stamp_free_at(const tl_rules *rules, const tl_stamp *stamp, int64_t now_ms,
                          const tl_event *event);

/** A stamp that a holder finds in the place of its own: was it left by one that raced with the take
 *  and lost, whose clock was right, so that the lock is still ours? */
bool tl__stamp_is_losers(const tl_job *job, const tl_stamp *stamp, const tl_event *event);
/** Otherwise: lost, and what there is to know of who stole it. Ends the attempt. */
tl_status tl__stamp_stolen(tl_try *attempt, const tl_job *job, const tl_stamp *stamp,
                           int64_t now_ms, tl_out *out);

/** M, or 2M where the time is our own wall clock's, which is off by so much as others are. strict: M, as the
 *  cap, which is never lifted there, spares the rest. */
int64_t tl__stamp_skew_ms(const tl_job *job, const tl_event *event);

/** L where a waiter overwrites whatever there is, and only then compares that with its clock, as it is
 *  by then: so long before a stamp ends, who will be its next holder may have replaced it. Else 0. */
int64_t tl__stamp_late_ms(const tl_rules *rules);

/** K's own lifetime, which only collects garbage, of a stamp that ends in left_ms. */
int64_t tl__stamp_px_ms(const tl_job *job, int64_t left_ms);

/** What a holder takes back must not end before what it believes, or may yet come to believe: unlike
 *  a keep, a take can shorten. */
int64_t tl__stamp_least_end_ms(const tl_job *job, const tl_event *event);

/** A take or keep that worked, and whose deadline is set: what is proved by it, and the cap. */
void tl__stamp_prove(tl_try *attempt, const tl_job *job, const tl_event *event, int64_t proved_us,
                     int64_t end_ms);

/** Until when a fresh take may be believed at most, if a racing loser has left its stamp. */
tl_mono tl__stamp_cap(const tl_job *job, tl_mono asked, const tl_event *event);

/** See tl_protocol. */
bool tl__stamp_unchanged(const tl_job *job, tl_bytes value);

/* ---- the levels: what to send, and what an answer means ----------------------------------- */

void tl__stamp_script_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                           tl_out *out);
/** Is a take, that was confirmed too late, being renewed? */
bool tl__stamp_script_renews(const tl_stamp_try *stamp_try);
tl_status tl__stamp_script_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                    const tl_event *event, tl_out *out);

/** Key by key: of a keep or drop where try.alone is set. */
void tl__stamp_alone_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out);
tl_status tl__stamp_alone_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out);
/** Is it what K held when the hold was proved last? */
bool tl__stamp_alone_owns(const tl_job *job, tl_bytes value);

void tl__stamp_watch_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out);
/** Does the server's answer say that it knows no WATCH, MULTI or EXEC? Then nothing has been done. */
bool tl__stamp_watch_lacks(const tl_stamp_try *stamp_try, const tl_event *event);
/** Is the request in flight a mere look? */
bool tl__stamp_watch_reads(const tl_stamp_try *stamp_try);
tl_status tl__stamp_watch_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out);

void tl__stamp_plain_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out);
/** Is the request in flight a mere GET? */
bool tl__stamp_plain_reads(const tl_stamp_try *stamp_try);
/** K is of another type. */
tl_status tl__stamp_plain_wrong_type(tl_stamp_try *stamp_try, tl_out *out);
tl_status tl__stamp_plain_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out);

/** A protocol's rules: see tl_protocol. */
tl_err tl__stamp_rules(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                       tl_rules *ret, int64_t *ttl_ms, tl_error *err);

/** stamp_watch.c: how a transaction has its connection to itself. */
extern const tl_pin tl__pin_opens, tl__pin_closes;

/** runtime/watching.c: a holder of a stamp wants to know at once when K changes. */
extern const struct tl_watching tl__watching;

/** Why a lock that was acquired with the legacy clients' commands alone is not extended, in words. */
const char *tl__stamp_never_renewed(const tl_rules *rules);
