/*
 * Shared by the stamp protocols: judging what the lock's key K holds, and how long our own stamp is
 * valid. stamp_script.c keeps a sidecar S by EVAL, stamp_watch.c by WATCH and MULTI. stamp_plain.c
 * uses only the four commands of the legacy clients. stamp_alone.c stands in for stamp_script.c
 * while a cluster moves the key's slot.
 */
#pragma once

#include "dialect/dialect.h"
#include "protocol/attempt.h"
#include "protocol/sidecar.h"
#include "protocol/transaction.h"

/** How a server can run this protocol: the low bits of tl_server.level. */
enum {
    TL_LEVEL_UNKNOWN,
    TL_LEVEL_SCRIPT,
    TL_LEVEL_WATCH,
    TL_LEVEL_PLAIN,
    TL_LEVEL_BITS = 0x0f /* the high bits belong to the token protocol */
};

/** An attempt of any stamp protocol. */
typedef struct {
    tl_try try; /* first */
    uint8_t level;
    bool drain; /**< stamp_script: write tokens instead of stamps */
    /* stamp_plain, stamp_watch: the request in flight; stamp_script: FIRST, EXPECTING, RENEWING */
    uint8_t phase;
    uint8_t rounds;
    /* stamp_watch */
    bool timed;         /* the server supports TIME */
    bool owned;         /* an acquire found that this client already holds the lock */
    uint8_t exec;       /* index of EXEC's reply */
    int8_t status;      /* RELEASE: its status if EXEC succeeds */
    bool sidecar_asked; /* stamp_alone: S was asked about the value found in K */
    union {
        uint64_t read_hash; /* hash of the stamp found in K */
        int64_t from_ms;    /* stamp_alone: what K held when S noted K's next value */
    };
    union {
        size_t read_n;
        int64_t proved_ms; /* stamp_alone: what K held by the last proof */
    };
    int64_t read_end_ms;
    /* stamp_plain, stamp_watch */
    tl_mono read_at; /* when our clock was read for the stamp sent */
    int64_t read_us; /* what the clock showed, at least */
    int64_t end_ms;  /* end of that stamp */
    /* stamp_alone: read_end_ms is what K holds by S, end_ms what K is to hold next */
} tl_stamp_try;

_Static_assert(sizeof(tl_stamp_try) <= TL_ATTEMPT_SIZE, "fits where attempts live");

#define TL_STAMP_ROUNDS 3 /**< how often an attempt starts over because others changed K */

/** The server's clock at event->now, us. Without a known server clock, and with `strict`, our own
 *  wall clock. */
tl_interval tl__stamp_now_us(const tl_job *job, const tl_event *event);

/** Has every legacy client's own comparison called the stamp expired for longer than L? Then no
 *  client still acts on an earlier clock reading. */
bool tl__stamp_is_free(const tl_rules *rules, const tl_stamp *stamp, int64_t now_ms);
/** When that becomes true, on our monotonic clock. TL_NEVER: the value is not a good stamp. */
tl_mono tl__stamp_free_at(const tl_rules *rules, const tl_stamp *stamp, int64_t now_ms,
                          const tl_event *event);

/** A holder found another client's stamp in K. Was it left by a client that raced with our acquire
 *  and lost, and whose clock was right? Then the lock is still ours. */
bool tl__stamp_is_losers(const tl_job *job, const tl_stamp *stamp, const tl_event *event);
/** Otherwise the lock is lost. Records whether it was stolen, and by how much the thief's clock is
 *  ahead. Ends the attempt. */
tl_status tl__stamp_stolen(tl_try *attempt, const tl_job *job, const tl_stamp *stamp,
                           int64_t now_ms, tl_out *out);

/** M; 2M where our own wall clock stands in for the server's, as both ours and theirs may be off by
 *  M. With `strict` M is enough, because the cap, which is never lifted there, covers the rest. */
int64_t tl__stamp_skew_ms(const tl_job *job, const tl_event *event);

/** L where each poll of a waiter overwrites K and only then compares the old stamp with the clock
 *  (dialect ms-pipe). There the next holder may replace a stamp up to L before it ends. Otherwise
 *  0. */
int64_t tl__stamp_late_ms(const tl_rules *rules);

/** How much earlier than its writer's clock plus T a legacy client's stamp may end, because the writer rounds
 *  its clock down and another client's reader doesn't. In most dialects 0. */
int64_t tl__stamp_early_ms(const tl_rules *rules);

/** K's own lifetime (PX) for a stamp that ends in left_ms. It only collects garbage. */
int64_t tl__stamp_px_ms(const tl_job *job, int64_t left_ms);

/** The earliest end that a stamp may have when the holder overwrites a loser's stamp: not before
 *  the deadline that the holder believes, or may yet believe. Overwriting could otherwise shorten
 *  the lock, which a renewal cannot. */
int64_t tl__stamp_least_end_ms(const tl_job *job, const tl_event *event);

/** After a successful acquire or renewal whose deadline is set: record the proof, and apply the
 *  cap. */
void tl__stamp_prove(tl_try *attempt, const tl_job *job, const tl_event *event, int64_t proved_us,
                     int64_t end_ms);

/** The latest deadline of a fresh acquire, because a racing loser may have left its own, earlier
 *  stamp. */
tl_mono tl__stamp_cap(const tl_job *job, tl_mono asked, const tl_event *event);

/** Is this a release that lets the lock rest? */
bool tl__stamp_rests(const tl_try *attempt, const tl_job *job, const tl_event *event);

/** See tl_protocol.unchanged. */
bool tl__stamp_unchanged(const tl_job *job, tl_bytes value);

/* ---- the levels: what to send, and what a reply means ------------------------------------- */

void tl__stamp_script_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                           tl_out *out);
/** Is this an acquire that was confirmed too late, and is now renewed, or was? */
bool tl__stamp_script_owns(const tl_stamp_try *stamp_try);
tl_status tl__stamp_script_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                    const tl_event *event, tl_out *out);

/** A renewal or release by requests of one key each, where try.alone is set. */
void tl__stamp_alone_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out);
tl_status tl__stamp_alone_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out);
/** Is its request in flight one that leaves the queue? The release goes on after any reply. */
bool tl__stamp_alone_leaves(const tl_stamp_try *stamp_try);
/** Is this value what K held at the hold's last proof? */
bool tl__stamp_alone_owns(const tl_job *job, tl_bytes value);

void tl__stamp_watch_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out);
/** Does the reply say that the server has no WATCH, MULTI or EXEC? Then nothing was executed. */
bool tl__stamp_watch_lacks(const tl_stamp_try *stamp_try, const tl_event *event);
/** Does the request in flight only read? */
bool tl__stamp_watch_reads(const tl_stamp_try *stamp_try);
tl_status tl__stamp_watch_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out);

void tl__stamp_plain_send(tl_stamp_try *stamp_try, const tl_job *job, const tl_event *event,
                          tl_out *out);
/** Is the request in flight only a GET? */
bool tl__stamp_plain_reads(const tl_stamp_try *stamp_try);
/** The server refused because K is not a string. */
tl_status tl__stamp_plain_wrong_type(tl_stamp_try *stamp_try, tl_out *out);
tl_status tl__stamp_plain_answered(tl_stamp_try *stamp_try, const tl_job *job,
                                   const tl_event *event, tl_out *out);

/** See tl_protocol.rules. */
tl_err tl__stamp_rules(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                       tl_rules *ret, int64_t *ttl_ms, tl_error *err);

/** runtime/watching.c: notifies a holder of a stamp when K changes. */
extern const struct tl_watching tl__watching;

/** Why a lock acquired with only the legacy clients' commands is not renewed: a reason for
 *  people. */
const char *tl__stamp_never_renewed(const tl_rules *rules);
/** Why a lock with these rules can't rest; NULL: it can. */
const char *tl__stamp_never_rests(const tl_rules *rules);
