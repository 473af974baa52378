/*
 * The inside of a lock, for the files that share it. Each may use those before it: lock_state (names and
 * state), hold (renewing a held lock), lock_acquire (the machine that acquires), async (calls that don't
 * block), lock (calls that block).
 */
#pragma once

#include "client/client.h"
#include "client/gate.h"
#include "protocol/acquire.h"
#include "protocol/renew.h"
#include "wire/keys.h"

/** The names of a lock's keys K, S and L, shared with machines that outlive the lock. `text` is the name of
 *  L, the server's queue; it begins with the name of S, the sidecar, which contains K. */
typedef struct tl_name {
    atomic_uint refs;
    tl_slot_tag slot;
    uint16_t key_n, line_n; /**< bytes of the names of K and L */
    uint8_t key_at;         /**< where K begins in `text` */
    char text[];
} tl_name;

_Static_assert(TL_KEY_MAX + TL_SIDECAR_EXTRA + TL_LINE_EXTRA <= UINT16_MAX, "room for names");

/** Options that most locks leave at 0; these locks share one struct. */
typedef struct {
    tl_retry retry;
    tl_rules rules;
    int64_t max_hold_ms, stall_ms, min_hold_ms;
    bool rest_ends_wait, will_rest;
    /** The instant at which max_hold_ms ends the present hold; 0: none. NULL: without max_hold_ms. */
    _Atomic int64_t *hold_ns;
    /** The instant of the holder's last sign of life; any thread. NULL: without stall_ms. */
    _Atomic int64_t *alive_ns;
} tl_rare_options;

#define TL_STALLED_NS INT64_MIN /**< alive_ns: the holder has said that it is stalled */

/** Why the latest renewal at each server did not count; allocated when a renewal first fails. */
typedef struct {
    bool silent; /**< there was no reply in time */
    char message[TL_MESSAGE_SIZE];
} tl_cause;

typedef struct {
    tl_cause of[TL_QUORUM_MAX];
} tl_causes;

#define TL_DETAIL_SIZE 768 /**< bytes of an event's detail */

/** The event callback of a lock. All but the first two members under keeper.mutex. */
typedef struct {
    void (*call)(tl_lock *lock, const tl_lock_event *event, void *ctx);
    void *ctx;
    tl_lock *lock;
    tl_report report;
    tl_lock_event event; /**< the newest to report */
    bool failover;       /**< a failover has caused that event */
    /** Since it was HELD last. NULL: no renewal has failed since, or no memory. */
    tl_causes *causes;
    tl_state reported; /**< the state of the last event that was reported */
} tl_events;

struct tl_operation;

/** A program may have very many locks. So what a lock needs only while a request is in flight
 *  is in tl_renewal. */
struct tl_lock {
    tl_client *client;
    tl_name *name;
    const tl_rare_options *rare;
    tl_events *events; /* NULL: no callback */
    int32_t ttl_ms;
    bool manual_renew;
    bool fair;
    bool adopted;   /* a token from elsewhere that no reply has confirmed yet */
    bool contended; /* the last acquire had to wait, or others were in the server's queue */
    bool counted;   /* as held, in tl_counts; under keeper.mutex */
    uint8_t passes; /* how many more times this hold may pass on within the process */
    tl_token token;
    atomic_bool cancelled; /* written under client.mutex */
    tl_mono taken;         /* when the hold was acquired from the server, perhaps by another lock */
    tl_mono since;         /* when this handle acquired or adopted it */
    int64_t
        taken_us; /* the latest time, us, that the server's clock could show at `taken`; 0: not known */
    tl_proof proof; /* of the present hold; under keeper.mutex while the keeper renews it */
    tl_gate_node gate_node;

    /* For any thread: */
    _Atomic int64_t deadline_ns;
    _Atomic int64_t proved_ns; /* as in tl_result; written after the deadline, and read before it */
    _Atomic int64_t began_ns;  /* when the acquire began that has drawn the token */
    _Atomic uint64_t fence;
    atomic_int state;                  /* a tl_state; not yet LOST when the deadline passes */
    _Atomic(struct tl_operation *) op; /* the operation in the background; NULL: none */

    /* Under client.mutex: */
    tl_waiter *waiter; /* while acquiring */

    /* Under keeper.mutex: */
    tl_task task;
    tl_rest rest;
    union {
        tl_renewal *renewal; /* the one in flight; NULL: none */
        void *room;          /* with tl_holder.room: that many bytes, all the time */
    };
};

/** How a hold is released and extended at a kind of server. */
typedef struct {
    /** Bytes of the machine, which begins with its result. At most sizeof(tl_settle), unless
     *  tl_runner.asks_all. */
    size_t size;
    tl_step step;
    /** op: TL_RELEASE; or TL_RENEW, which extends. With tl_runner.asks_all, keeper.mutex is held. */
    void (*init)(void *machine, const tl_lock *lock, const tl_job *job, tl_op op, uint64_t seed);
    /** An extension has ended, with TL_OK or not: update the hold. true: its renewals go on, with the new
     *  deadline. With keeper.mutex held. */
    bool (*extended)(tl_lock *lock, int64_t ttl_ms, const void *machine);
} tl_settling;

/** How a kind of server treats a hold: its row is client.backend->holder. Called with keeper.mutex
 *  held, except `release`, `released` and `extend`. Any function but `drop` may be NULL: then there
 *  is nothing to do. */
typedef struct tl_holder {
    const tl_task_kind *kind; /**< how the keeper renews it */
    const tl_settling *settling;
    size_t room; /**< bytes that a lock has all the time, instead of a tl_renewal; 0: none */
    /** Note which servers have given their votes; ballots NULL: not known, for a token from elsewhere. */
    void (*vote)(tl_lock *lock, const tl_ballots *ballots);
    /** Initialize the machine that renews; the hold lasts until `hold` at most. */
    void (*begin)(tl_lock *lock, tl_mono hold, uint64_t seed);
    /** listen: ask to be notified when its key is deleted. Called when the hold begins (before NULL), and
     *  when a renewal has replaced the proof `before`. ignore: undo that. */
    void (*listen)(const tl_lock *lock, const tl_proof *before);
    void (*ignore)(const tl_lock *lock);
    /** Release, in the background, what may be left of the hold on the server. */
    void (*drop)(tl_lock *lock);
    /** A release by the caller's thread begins; it has ended. */
    void (*release)(tl_lock *lock, tl_job *job);
    void (*released)(tl_lock *lock, const void *machine);
    /** An extension by the caller's thread begins. */
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

/** A copy, or the shared struct if all of them are 0. NULL: no memory. */
const tl_rare_options *tl__rare_options_new(const tl_rare_options *of);
void tl__rare_options_free(const tl_rare_options *rare);
/** When max_hold_ms ends the hold; ns 0: it doesn't. Any thread. */
static inline tl_mono tl__lock_hold_end(const tl_lock *lock) {
    _Atomic int64_t *hold_ns = lock->rare->hold_ns;
    return (tl_mono){hold_ns ? atomic_load(hold_ns) : 0};
}

/** When the lock stalls without a further sign of life; TL_NEVER: it doesn't. */
static inline tl_mono tl__lock_stalls_at(const tl_lock *lock) {
    _Atomic int64_t *alive_ns = lock->rare->alive_ns;
    return alive_ns ? tl__mono_add_ms((tl_mono){atomic_load(alive_ns)}, lock->rare->stall_ms)
                    : TL_NEVER;
}

/** Has a disruption put the hold in doubt? Any thread; wait-free. */
static inline bool tl__lock_is_in_doubt(const tl_lock *lock) {
    tl_mono disrupted = tl__disrupted_at(&lock->client->disruptions);
    return tl__is_disrupted((tl_mono){atomic_load(&lock->proved_ns)}, disrupted);
}

/** May a copy of this machine have the lock's token? Then only the lifetime ends that hold: a request of ours could
 *  release the copy's lock, or share it. */
static inline bool tl__lock_is_copied(const tl_lock *lock) {
    (void)tl__disrupted_at(&lock->client->disruptions);
    return tl__is_disrupted((tl_mono){atomic_load(&lock->began_ns)},
                            tl__copied_at(&lock->client->disruptions));
}

/** A call of the program was a sign of life. */
void tl__lock_shows_life(tl_lock *lock);

tl_job tl__lock_job(const tl_lock *lock);
void tl__lock_fill_job(tl_job *ret, const tl_lock *lock);
/** The same for a job that was filled for a lock of this client and has been used only for renewals since. */
void tl__lock_refill_job(tl_job *ret, const tl_lock *lock);
bool tl__lock_is_held(const tl_lock *lock);
/** The key as messages show it: printable; a long one is cut and ends with "...". */
void tl__lock_key_shown(const tl_lock *lock, char to[TL_KEY_SHOWN_SIZE]);
/** Fill err with "what KEY: message". Returns `code`. */
tl_err tl__lock_fail(const tl_lock *lock, tl_err code, const char *what, const char *message,
                     tl_error *err);
/** The same, with the errno of the failure. */
tl_err tl__lock_fail_by(const tl_lock *lock, tl_err code, const char *what, const char *message,
                        int sys_errno, tl_error *err);
/** May an operation begin? TL_OK, or TL_EINVALID. */
tl_err tl__lock_check(const tl_lock *lock, const char *what, tl_error *err);

/** Is it a time for which a lock can rest? TL_OK, or TL_EINVALID. Raises *ms to min_hold_ms. */
tl_err tl__lock_check_rest(const tl_lock *lock, int64_t *ms, tl_error *err);

/* ---- hold.c ------------------------------------------------------------------------------------ */

/* These functions lock keeper.mutex. Those with _in, and tl__hold_noted, are called with it
 * held. tl__hold_init, tl__hold_free_events, tl__hold_publish, tl__hold_prove, tl__hold_limit,
 * tl__hold_unlimit and tl__hold_outlived don't use it. */

void tl__hold_init(tl_lock *lock);
/** How the keeper renews a hold with the machine of renew.h. */
extern const tl_task_kind tl__hold_kind;
/** Apply what a renewal's step has noted in `out`; `believed` was the deadline before the step. */
void tl__hold_noted(tl_lock *lock, const tl_out *out, tl_mono believed);
/** tl_holder.drop with the machine of settle.h. */
void tl__hold_drop_in(tl_lock *lock, const tl_job *job);
/** For a lock that is not held and is being freed. */
void tl__hold_free_events(tl_lock *lock);
void tl__hold_publish(tl_lock *lock, tl_state state, tl_mono deadline);
/** Set the deadline and when its proof was requested. */
void tl__hold_prove(tl_lock *lock, tl_mono deadline, tl_mono proved);
/** max_hold_ms and stall_ms begin. Before HELD is published. */
void tl__hold_limit(tl_lock *lock);
/** A token from elsewhere replaces that of a former hold, and must not end as that one did: the next acquire would
 *  release what may be another's lock. */
void tl__hold_unlimit(tl_lock *lock);
/** Has max_hold_ms ended the hold, so that its key is still there until its lifetime ends? */
bool tl__hold_outlived(const tl_lock *lock);
/** The lock is HELD from now on, and the keeper renews it; the keeper is ready. TL_ENOMEM: it is FREE, and
 *  the hold is released in the background. */
tl_err tl__hold_begin(tl_lock *lock, const tl_hold *hold, uint64_t seed);
tl_err tl__hold_begin_in(tl_lock *lock, const tl_hold *hold, uint64_t seed);
/** The keeper, which is ready, renews the hold from now on. An extension has proved the published
 *  deadline. TL_ENOMEM */
tl_err tl__hold_watch(tl_lock *lock, uint64_t seed);
/** tl__lock_job for a lock that is held, so that the keeper may renew it at the same time. */
tl_job tl__hold_job(tl_lock *lock);
/** On etcd, before an extension is sent: renewals ask for the same lifetime from now on, so that one that is
 *  executed after the extension does not shorten it. For the same reason an extension by less lasts as long
 *  as a renewal (tl_job_renew.least_ms). */
void tl__hold_raise(tl_lock *lock, int64_t ttl_ms);
/** How the machine of settle.h releases and extends. */
extern const tl_settling tl__hold_settling;
/** An extension by `machine` has ended with TL_OK. false: the hold is lost already, or nobody renews it. */
bool tl__hold_extended(tl_lock *lock, int64_t ttl_ms, const void *machine);
/** End the renewals, and wait for an event callback in progress. true: something of the hold may be left on
 *  the server, and nobody has released it. */
bool tl__hold_stop(tl_lock *lock);
bool tl__hold_stop_in(tl_lock *lock);
/** Release in the background what may be left on the server of a hold that is over, so that
 *  it blocks nobody. */
void tl__hold_undo(tl_lock *lock);
void tl__hold_undo_in(tl_lock *lock);
#define TL_COPIED "this machine was restored from an image, and a copy of it may hold the lock"
#define TL_LOST_RESTS_NOT "it had been lost: it does not rest"
/** The first step of a release, after which the lock rests until *rest_ms after it was acquired; 0: it doesn't
 *  rest. *rest_ms becomes 0 if the lock is lost. TL_EINVALID: the lock is not held, or can't rest. *ret_passed:
 *  the release is complete, and another lock of this process has the hold. in: keeper.mutex is held. */
tl_err tl__hold_begin_release(tl_lock *lock, bool in, int64_t *rest_ms, bool *ret_passed,
                              tl_error *err);
/** Let the release of this job rest as tl__hold_begin_release says. */
void tl__hold_rest(const tl_lock *lock, int64_t rest_ms, tl_job *job);
