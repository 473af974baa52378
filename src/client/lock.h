/*
 * What a lock is inside, for the files that share it, each above the one before: lock_state (what it
 * is), hold (watching over what is held), lock_acquire (the machine that acquires it), async (the calls
 * that don't block), lock (the calls that do).
 */
#pragma once

#include "client/client.h"
#include "client/gate.h"
#include "protocol/acquire.h"
#include "protocol/renew.h"
#include "wire/keys.h"

/** The names of a lock, shared with machines that outlive it: all three are parts of the line's. */
typedef struct tl_name {
    atomic_uint refs;
    tl_slot_tag slot;
    uint16_t key_n, line_n; /**< bytes of these names */
    uint8_t key_at;         /**< where the key stands in the line's name, */
    char text[];            /**< which begins with the sidecar's */
} tl_name;

_Static_assert(TL_KEY_MAX + TL_SIDECAR_EXTRA + TL_LINE_EXTRA <= UINT16_MAX, "room for names");

/** What most locks leave at 0, and share then. */
typedef struct {
    tl_retry retry;
    tl_rules rules;
    int64_t max_hold_ms;
    _Atomic int64_t *
        hold_ns; /**< the hold ends then, if nothing has ended it before; 0: it doesn't. NULL: without max_hold_ms */
} tl_rare_options;

/** Why the latest renewals did not count, of each server that was asked; made when the first of them fails. */
typedef struct {
    bool silent; /**< there was no reply in time */
    char message[TL_MESSAGE_SIZE];
} tl_cause;

typedef struct {
    tl_cause of[TL_QUORUM_MAX];
} tl_causes;

#define TL_DETAIL_SIZE 768 /**< of an event */

/** Who wants to be told what becomes of the hold. All but the first two under keeper.mutex. */
typedef struct {
    void (*call)(tl_lock *lock, const tl_lock_event *event, void *ctx);
    void *ctx;
    tl_lock *lock;
    tl_report report;
    tl_lock_event event; /**< the newest to report */
    bool failover;       /**< and a failover has brought it about */
    tl_causes
        *causes; /**< since it was HELD last; NULL: no renewal has failed, or there was no memory */
    tl_state reported; /**< the last that was */
} tl_events;

struct tl_operation;

/** There may be very many: what is wanted only while a request is in flight is elsewhere, see tl_renewal. */
struct tl_lock {
    tl_client *client;
    tl_name *name;
    const tl_rare_options *rare;
    tl_events *events; /* NULL: nobody */
    int32_t ttl_ms;
    bool manual_renew;
    bool fair;
    bool adopted;   /* a token from elsewhere that no answer has confirmed yet */
    bool contended; /* it had to wait the last time, or others stood in line */
    uint8_t passes; /* how often this hold may pass on yet within the process */
    tl_token token;
    bool cancelled; /* under client.mutex */
    tl_mono taken;  /* from the server, perhaps by another lock of this client */
    tl_proof proof; /* of the present hold; under keeper.mutex while the keeper watches */
    tl_gate_node gate_node;

    /* for any thread */
    _Atomic int64_t deadline_ns;
    _Atomic uint64_t fence;
    atomic_int state;                  /* a tl_state, LOST not yet derived from the deadline */
    _Atomic(struct tl_operation *) op; /* what goes on without a caller that blocks */

    /* under client.mutex */
    tl_waiter *waiter; /* while acquiring */

    /* under keeper.mutex */
    tl_task task;
    tl_rest rest;
    union {
        tl_renewal *renewal; /* the one in flight; NULL: none is */
        void *room;          /* tl_holder.room: what it has there all the time */
    };
};

/** How a hold is released and extended at a kind of server. */
typedef struct {
    size_t
        size; /**< of the machine, which begins with its result; at most sizeof(tl_settle), but where tl_runner.asks_all */
    tl_step step;
    /** op: TL_RELEASE or TL_RENEW, which extends. Where tl_runner.asks_all with keeper.mutex held. */
    void (*init)(void *machine, const tl_lock *lock, const tl_job *job, tl_op op, uint64_t seed);
    /** An extension has ended, with TL_OK or not: what the hold learns by it. true: its renewals go on, and know. With
     *  keeper.mutex held. */
    bool (*extended)(tl_lock *lock, int64_t ttl_ms, const void *machine);
} tl_settling;

/** What a kind of server does with a hold in its own way: its row is client.backend->holder. All but `release`, `released` and
 *  `extend` with keeper.mutex held. */
typedef struct tl_holder {
    const tl_task_kind *kind; /**< how the keeper renews it */
    const tl_settling *settling;
    size_t room; /**< so many bytes a lock has all the time, and no tl_renewal; 0: none */
    /** NULL, or: note whose votes it has; NULL: that isn't known, of a token from elsewhere. */
    void (*vote)(tl_lock *lock, const tl_ballots *ballots);
    /** NULL, or: make its machine, of a hold that lasts until `hold` at most. */
    void (*begin)(tl_lock *lock, tl_mono hold, uint64_t seed);
    /** NULL, or: have oneself told when its key is deleted, now that a renewal has replaced the proof `before`, or that the
     *  hold begins (NULL); and no more. */
    void (*listen)(const tl_lock *lock, const tl_proof *before);
    void (*ignore)(const tl_lock *lock);
    /** Give back, in the background, what may be left of it. */
    void (*drop)(tl_lock *lock);
    /** NULL, or: a release begins that the caller's thread runs; and it has ended. */
    void (*release)(tl_lock *lock, tl_job *job);
    void (*released)(tl_lock *lock, const void *machine);
    /** NULL, or: an extension begins. */
    void (*extend)(tl_lock *lock, tl_job *job, int64_t ttl_ms);
} tl_holder;

/* ---- lock_state.c ---------------------------------------------------------------------------- */

tl_name *tl__name_new(const void *key, size_t n);
tl_name *tl__name_hold(tl_name *name);
void tl__name_release(void *hold);

static inline tl_bytes tl__name_key(const tl_name *name) {
    return tl__bytes(name->text + name->key_at, name->key_n);
}

static inline tl_bytes tl__name_line(const tl_name *name) {
    return tl__bytes(name->text, name->line_n);
}

static inline tl_bytes tl__name_sidecar(const tl_name *name) {
    return tl__bytes(name->text, name->line_n - (size_t)TL_LINE_EXTRA);
}

/** Terms of its own, or the shared ones. NULL: no memory */
const tl_rare_options *tl__rare_options_new(const tl_rare_options *of);
void tl__rare_options_free(const tl_rare_options *rare);
/** When max_hold_ms ends the hold; 0: it doesn't. Any thread */
static inline tl_mono tl__lock_hold_end(const tl_lock *lock) {
    _Atomic int64_t *hold_ns = lock->rare->hold_ns;
    return (tl_mono){hold_ns ? atomic_load(hold_ns) : 0};
}

tl_job tl__lock_job(const tl_lock *lock);
void tl__lock_fill_job(tl_job *ret, const tl_lock *lock);
/** The same of one that was filled for a lock of the client's, and has been of renewals alone since. */
void tl__lock_refill_job(tl_job *ret, const tl_lock *lock);
bool tl__lock_is_held(const tl_lock *lock);
/** The key as messages show it: printable, and cut with "..." at its end. */
void tl__lock_key_shown(const tl_lock *lock, char to[TL_KEY_SHOWN_SIZE]);
/** Fill err with "what KEY: message". */
tl_err tl__lock_fail(const tl_lock *lock, tl_err code, const char *what, const char *message,
                     tl_error *err);
/** The same, and the errno behind it. */
tl_err tl__lock_fail_by(const tl_lock *lock, tl_err code, const char *what, const char *message,
                        int sys_errno, tl_error *err);
/** May an operation begin? TL_OK, or TL_EINVALID. */
tl_err tl__lock_check(const tl_lock *lock, const char *what, tl_error *err);

/* ---- hold.c: all but tl__hold_init, tl__hold_free_events and the queries take the keeper's mutex, or want it (_in) --- */

void tl__hold_init(tl_lock *lock);
/** How the keeper renews by the machine of renew.h. */
extern const tl_task_kind tl__hold_kind;
/** A step of its renewal has said this of it; it was believed in until then before. */
void tl__hold_noted(tl_lock *lock, const tl_out *out, tl_mono believed);
/** By the machine of settle.h: for tl_holder.drop. */
void tl__hold_drop_in(tl_lock *lock, const tl_job *job);
/** Of a lock that is not held, and is being freed. */
void tl__hold_free_events(tl_lock *lock);
void tl__hold_publish(tl_lock *lock, tl_state state, tl_mono deadline);
/** Before it is published that it is held: its longest hold begins. */
void tl__hold_limit(tl_lock *lock);
/** Has max_hold_ms ended it, and is its key still there for the rest of the lifetime? */
bool tl__hold_outlived(const tl_lock *lock);
/** HELD from now on, and watched over by the keeper, which is ready. TL_ENOMEM: FREE, and what was
 *  taken is dropped. */
tl_err tl__hold_begin(tl_lock *lock, const tl_hold *hold, uint64_t seed);
tl_err tl__hold_begin_in(tl_lock *lock, const tl_hold *hold, uint64_t seed);
/** Watch over the deadline that is published, which an extension has proved; the keeper is ready. TL_ENOMEM */
tl_err tl__hold_watch(tl_lock *lock, uint64_t seed);
/** tl__lock_job of what is held and may be renewed meanwhile. */
tl_job tl__hold_job(tl_lock *lock);
/** On etcd, before an extension is asked for: renewals last as long from now on, so that one which is carried out after it
 *  shortens nothing. (An extension for less lasts as long as a renewal, for the same reason: tl_job.least_ms.) */
void tl__hold_raise(tl_lock *lock, int64_t ttl_ms);
/** How the machine of settle.h releases and extends. */
extern const tl_settling tl__hold_settling;
/** An extension has ended by `machine` with TL_OK. false: the hold is lost already, or nobody renews it. */
bool tl__hold_extended(tl_lock *lock, int64_t ttl_ms, const void *machine);
/** True when something of the hold may be left over that nobody has dropped. */
bool tl__hold_stop(tl_lock *lock);
/** In the background: make sure that nothing of a hold which is over stands in anyone's way. */
void tl__hold_undo(tl_lock *lock);
/** As the first thing of a release: TL_EINVALID when it is not held. Passed: it is done already, and
 *  the hold is another lock's of this process. */
tl_err tl__hold_begin_release(tl_lock *lock, bool *ret_passed, tl_error *err);
