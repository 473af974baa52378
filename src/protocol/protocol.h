/*
 * The contract of a step machine.
 *
 * A machine is a plain struct without pointers into itself. It is told what happened, with the time
 * as data, and answers what to do next. It reads no clock, does no I/O, allocates nothing and starts
 * no thread, so that the blocking driver, the keeper, the simulator and a test that feeds it by hand
 * all run the same code.
 *
 *     step(machine, event, out) -> TL_GO | TL_DETACH | TL_END
 *
 * The driver's part:
 *   - The first event is TL_START. Before each step it clears `out` with tl__out_clear.
 *   - It sends out->send, if there is one, before the next step: its commands are encoded at once. Each
 *     send gets exactly one TL_REPLY or TL_FAILED with its ticket: FAILED at `by` at the latest.
 *   - It gives TL_TIMER at `until`, which each answer states anew (TL_NEVER: none). A timer may come
 *     late, or early: the machine looks at `now`. Up to slack_ns late is fine: so that a driver of
 *     many machines can wake for several at once.
 *   - A driver of many machines may join their sends into one request, where command.each says how,
 *     and deal out the items of the reply; refused, it sends each by itself, as it was built.
 *   - out->arm asks it to listen for `topic`, and with out->disarm to stop listening before. TL_ARMED
 *     tells when that is in force (armed) or could not be had (not armed); from then on each message
 *     is a TL_WOKEN. When listening is lost later it says TL_ARMED with armed false.
 *   - With `watched` set it asks to be told of changes to that key as well. Where the server can,
 *     TL_WATCHED tells that the next change will be (armed); a change is a TL_WATCHED again, since
 *     what is told once must be asked for anew; and armed false says that there may have been one, and
 *     that the next may not be told.
 *   - With `token` set the topic is an inbox: a message that grants the lock to this token is a TL_GRANTED, one
 *     that says to look a TL_WOKEN, and one that it is among the first by now a TL_NEAR. out->run says which
 *     server is to tell it: listening elsewhere, as at an old master, it begins anew.
 *   - A hold whose key may have been changed by whomever, itself included, is given what it holds now by
 *     TL_CHANGED. (Where it can be told from its own changes, TL_WOKEN says so at once.)
 *   - It merges out->bracket into the anchor of the server that answered.
 *   - To a machine of several independent servers (quorum_*.h) a send names one of them. What is sent to one is carried
 *     out there in the order in which it was asked for, over one connection, also by the machines that follow for the
 *     same lock; a connection with a request that nobody waits for any more is kept until that was answered. What it
 *     asks to listen for it asks of all.
 *   - It has out->kept kept, by the protocol's upkeep.
 *   - TL_CANCEL may come at any time; the machine then ends soon, and says how.
 *   - TL_DETACH: the result is final, the caller may return; the struct lives on in the keeper until
 *     TL_END, to clean up. It comes with no sends; what was outstanding is given up without an
 *     answer, and the keeper goes on with a TL_TIMER at once.
 *   - At TL_END and TL_DETACH listening ends by itself.
 *   - An event for a ticket that is not expected is ignored by the machine.
 *
 * `now` never goes backwards from one event to the next.
 */
#ifndef TL_PROTOCOL_H
#define TL_PROTOCOL_H

#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"
#include "ground/clock.h"
#include "ground/token.h"
#include "wire/command.h"
#include "wire/interval.h"
#include "wire/keys.h"
#include "wire/reply.h"
#include "wire/slots.h"

/** Something of ../compat, which enters all else by constant tables alone: its address, or NULL in a build
 *  without that folder. */
#ifdef TL_COMPAT
#define TL_FROM_COMPAT(x) (&(x))
#else
#define TL_FROM_COMPAT(x) NULL
#endif

#define TL_NOTE_MAX 2
#define TL_HOPS_MAX 8   /**< redirections in a row */
#define TL_SCRATCH 1024 /**< room in tl_out for the text of numbers and stamps */
#define TL_WORDS_SIZE 200
#define TL_KEPT_MAX 4
#define TL_FENCES 50 /**< fencing numbers that are reserved at once for passing a lock on */

/** Something that a protocol of ../compat has read, and wants kept for all of a client's machines. What
 *  it is, is its own business. */
typedef struct {
    int64_t room[6];
} tl_kept;

/** What the driver knows of the server that a machine talks to. */
typedef struct {
    uint32_t
        generation; /**< grows with each server that takes the place of another; 0: not known, or never */
    bool has_epoch; /**< it is named the master by a configuration, */
    int64_t epoch;  /**< of this epoch */
    tl_anchor anchor;
    int32_t drift_ppm;
    uint8_t level; /**< what out->level has said of it since it was connected to; 0: nothing. Of
                           its halves the lower is for stamps, the upper for tokens */
    int64_t
        wall_us; /**< own wall clock less own deadline clock, for protocols that want it: at least
                          this, and at most wall_wide_us more */
    int64_t wall_wide_us;
    tl_kept kept[TL_KEPT_MAX]; /**< what out->kept has said */
} tl_server;

/** How a send has its connection to itself (../compat: a transaction over two exchanges). Nothing is written
 *  behind it before it was answered. One of the kind that opens is followed, from the step that is given
 *  its REPLY, by one that closes; if it isn't, or is open still after that, the connection sends `undo` by
 *  itself. A send that closes is FAILED, unsent, when that connection is lost. */
typedef struct {
    bool closes;
    bool (*is_open)(const tl_reply *reply, uint8_t count); /**< with the replies to it */
    const tl_command *undo;                                /**< `undos` of them */
    uint8_t undos;
} tl_pin;

/** Ask for one exchange: `count` commands written together, all answered in one TL_REPLY. With count
 *  0 nothing is sent: the REPLY, with no reply in it, says that the server has been reached, so that
 *  its clock is known where it tells it. */
typedef struct {
    uint16_t ticket;
    uint8_t count;
    /** The last of these commands, behind `count` others, that are sent in their place by a connection over which
     *  the counter of `slot` was raised by a script not longer than TL_RAISED_MS ago (tl__conn_raised). 0: none. */
    uint8_t native;
    tl_slot_tag slot;
    uint8_t
        to;    /**< whose it is, of several independent servers: a bit for each; 0: the key's own */
    bool here; /**< over the connection that has answered last, or not at all */
    /** With count 0: the REPLY says that, after this was asked for, the server was still the one to ask, as whoever
     *  names the master has confirmed. Where nobody does it is answered at once. */
    bool confirm;
    bool
        alone; /**< its commands have one key between them: a redirection may be followed by the letter */
    bool asking;         /**< it goes where TL_ASK led, each command behind ASKING */
    uint32_t generation; /**< of the server that it was built for, by the driver; 0: any */
    const tl_pin *pin;   /**< NULL: none */
    tl_mono by;          /**< no answer by then: FAILED */
    tl_command command[TL_COMMANDS_BOTH];
} tl_send;

typedef enum {
    TL_START,
    TL_REPLY,
    TL_FAILED,
    TL_ARMED,
    TL_WATCHED,
    TL_CHANGED,
    TL_WOKEN,
    TL_GRANTED,
    TL_NEAR,
    TL_TIMER,
    TL_CANCEL
} tl_event_kind;

/** A lock is given to one who stands in line: what the message says, and how it came. */
typedef struct {
    uint64_t fence;   /**< the first of those reserved */
    int64_t at_us;    /**< when, by the server's clock */
    int64_t lease_ms; /**< for so long from then on it is kept for him */
    int64_t others;   /**< who stand in line behind him */
    uint64_t run;     /**< of the server that sent it, as tl_event's */
    tl_mono arrived;
} tl_grant;

/** The request that an event is about. */
typedef struct {
    uint16_t ticket;
    /** It was sent in its native form. */
    bool native;
    /** Of the server that was asked; 0: no other can take its place, or none was asked. */
    uint32_t generation;
    /** Before its first byte left. */
    tl_mono sent;
    /** The run of the server that was asked, and the number by which it knows the connection; 0: not known. */
    uint64_t run;
    int64_t id;
} tl_asked;

/** REPLY */
typedef struct {
    /** `count` of them, valid during this step only. */
    const tl_reply *reply;
    uint8_t count;
    /** A native form: too long after the counter was raised for its number to be believed. */
    bool stale;
    /** The server wasn't named as the one to ask lately when it answered. */
    bool unnamed;
    /** Who answered, for people; or empty. */
    tl_bytes place;
} tl_replied;

/** FAILED */
typedef struct {
    /** TL_EUNAVAILABLE, TL_EDENIED, TL_EELSEWHERE ... */
    tl_err why;
    /** Behind it, or 0. */
    int sys_errno;
    /** TL_EELSEWHERE: a tl_redirect_kind, as a cluster's node has said it; 0: none has. */
    uint8_t redirect;
    /** Some byte may have reached the server. */
    bool maybe_sent;
    /** Nobody is there to connect to, and will not be in a moment. */
    bool absent;
    tl_bytes message;
} tl_failure;

typedef struct {
    tl_event_kind kind;
    /** Of several independent servers, which one sent ARMED, WATCHED or WOKEN. */
    uint8_t from;
    tl_mono now;
    const tl_server *server;
    /** Of several independent servers all, in the order of the URL; else NULL. */
    const tl_server *servers;
    /** REPLY and FAILED. CANCEL: what is in flight: its `native`, `run` and `id`. */
    tl_asked asked;
    /** One of them, by `kind`. */
    union {
        tl_replied replied;
        tl_failure failed;
        /** ARMED and WATCHED */
        bool armed;
        /** CHANGED: what the key of a hold holds, or an error. */
        const tl_reply *value;
        /** GRANTED */
        const tl_grant *grant;
    };
} tl_event;

typedef enum { TL_NOTE_AT_RISK, TL_NOTE_HELD, TL_NOTE_LOST } tl_note_kind;

/** Something that the lock's owner wants to know. */
typedef struct {
    tl_note_kind kind;
    tl_lost_why why;
    bool stolen;
    int64_t thief_ahead_ms; /**< stolen: how far that client's clock was ahead of the server's */
} tl_note;

typedef struct {
    tl_send send;
    uint8_t sends; /**< 0, or 1: it asks for that */
    bool arm, disarm;
    tl_bytes topic;
    tl_bytes watched; /**< arm: n 0: no key */
    tl_bytes token;   /**< arm: the topic is an inbox; n 0: it isn't */
    bool armed; /**< arm, an inbox: its messages come in already, as it seems; told if they don't */
    uint64_t run; /**< not 0: the inbox is to be listened to at this run of the server */
    tl_mono until;
    int64_t slack_ns; /**< TIMER may come so much later without harm */
    bool raised;      /**< this reply says that a script has raised the counter of `slot` */
    tl_slot_tag slot;
    bool has_bracket;
    tl_interval bracket;
    uint8_t level;  /**< learned of the server, in the protocol's own terms; 0: nothing */
    bool clock_off; /**< a clock is too far off for what was asked, as words_off tells */
    char words_off[TL_WORDS_SIZE];
    bool keeps; /**< kept is to be, as number keeps_at of tl_server.kept: by tl_upkeep's keep */
    uint8_t keeps_at;
    tl_kept kept;
    tl_note note[TL_NOTE_MAX];
    uint8_t notes;
    bool renewed,
        missed; /**< a renewal was confirmed; or it wasn't, for the reason that `words` has */
    uint8_t renewal_of; /**< renewed, missed: which of several servers it was asked of; else 0 */
    char words
        [TL_WORDS_SIZE]; /**< END or DETACH, not OK, and missed: what went wrong, for a person */
    int sys_errno;       /**< behind it, or 0 */
    char scratch[TL_SCRATCH]; /**< where commands keep the text of their numbers */
    uint16_t scratch_used;
} tl_out;

typedef enum { TL_GO, TL_DETACH, TL_END } tl_status;

/** Empty it, without touching the parts that the counts already mark as empty. */
static inline void tl__out_clear(tl_out *out) {
    out->sends = out->notes = 0;
    out->renewed = out->missed = false;
    out->renewal_of = 0;
    out->arm = out->disarm = out->has_bracket = out->keeps = out->clock_off = out->raised = false;
    out->until = TL_NEVER;
    out->slack_ns = 0;
    out->level = 0;
    out->run = 0;
    out->sys_errno = 0;
    out->scratch_used = 0;
    out->words[0] = '\0';
}

/* ---- attempts: what a protocol has to say ------------------------------------------------------ */

typedef enum { TL_ACQUIRE, TL_RENEW, TL_RELEASE } tl_op;

/** A result within the library only: the server that was asked is not, or not any more, the one to ask, and has
 *  certainly not executed it. Whoever asked builds the request anew, for the other. */
#define TL_EELSEWHERE ((tl_err)64)

/** The legacy clients beside whom a client acquires locks: what its options say of them, and what
 *  else of the options bears on that. */
typedef struct {
    tl_protocol_id protocol;
    int32_t wait_replicas;
    bool wait_fsync;
    tl_legacy_options options; /**< its strings belong to whoever has this */
} tl_legacy;

/** What a protocol of stamps must know of legacy clients, as the members of tl_legacy_options that have the
 *  same names. */
typedef struct {
    const struct tl_dialect *dialect; /**< NULL: not a protocol of stamps */
    int32_t clock_skew_max_ms;        /**< M */
    int32_t legacy_delay_max_ms;      /**< L */
    int64_t legacy_ttl_min_ms;
    bool strict;
    bool nodes;          /**< of a cluster: scripts alone, and key by key where a slot is open */
    uint8_t clock_guard; /**< a tl_clock_guard */
    const void *of; /**< what of the protocol's upkeep this key belongs to; NULL: it has none */
} tl_rules;

/** TOKEN: a renewal the short way needs that S has all that there is to know. */
typedef struct {
    /** When a renewal was asked that wrote it, in s from 1 on; 0: none was. */
    uint32_t noted_s;
    /** A part of the run of the server that did. */
    uint32_t noted_run;
} tl_token_proof;

/** STAMP, as ../compat writes it. */
typedef struct {
    /** No renewal asked before capped_until proves more than `cap`. ns 0: nothing is capped; TL_NEVER: acquired without
     *  scripts. */
    tl_mono cap, capped_until;
    /** The server's time of the last acquire or renewal; 0: it was acquired elsewhere. */
    int64_t proved_us;
    /** The end that K's stamp told then. */
    int64_t end_ms;
} tl_stamp_proof;

/** ETCD */
typedef struct {
    /** That the key is under, and no other key is; 0: not known. */
    int64_t lease;
    /** By how much the hold's leases are numbered higher than by this host's clock alone. */
    int64_t ahead;
    /** The revision that the key was written at last; 0: not known. */
    int64_t changed;
    /** `lease` was a spare one. A copy of this process, from an image of its memory, has the same spare ones, and perhaps a
     *  key under it: it is left to expire. */
    bool spared;
} tl_etcd_proof;

typedef enum { TL_PROOF_NONE, TL_PROOF_TOKEN, TL_PROOF_STAMP, TL_PROOF_ETCD } tl_proof_kind;

/** What is known of a hold besides its deadline. */
typedef struct {
    uint8_t kind;
    /** TL_AUTO: 1 + the protocol that K is held by; 0: not known. */
    uint8_t held_by;
    /** A request for it went unanswered: it may come yet. */
    bool doubted : 1;
    /** S doesn't know of it before its first renewal. */
    bool unbound : 1;
    /** It was acquired by another handle, of which only the token is known. */
    bool elsewhere : 1;
    /** It was acquired past its own entry in line, of this lifetime; 0: it wasn't. */
    int32_t stood_ms;
    /** One of them, by `kind`. */
    union {
        tl_token_proof token;
        tl_stamp_proof stamp;
        tl_etcd_proof etcd;
    };
} tl_proof;

/** What is known of the stamp, or on etcd, if the proof is of that. */
static inline tl_stamp_proof tl__proof_stamp(const tl_proof *proof) {
    return proof->kind == TL_PROOF_STAMP ? proof->stamp : (tl_stamp_proof){0};
}
static inline tl_etcd_proof tl__proof_etcd(const tl_proof *proof) {
    return proof->kind == TL_PROOF_ETCD ? proof->etcd : (tl_etcd_proof){0};
}

/** On etcd: a lease that no key is under, of somebody's who has no use for it any more. */
typedef struct {
    int64_t lease; /**< 0: none */
    int64_t ttl_ms;
    tl_mono deadline; /**< until when a key that is put under it may be believed */
} tl_spare_lease;

/** ACQUIRE */
typedef struct {
    /** So long after a restart or a failover no lock is granted; 0: off. */
    int64_t quiet_ms;
    /** A vote: the least number to draw. */
    uint64_t fence;
    /** S is to bind others from the acquire on, not from the first renewal. */
    bool bind;
} tl_job_acquire;

/** ACQUIRE, to stand in line; RELEASE, to leave it. */
typedef struct {
    /** By which it is told when its turn has come; n 0: it stands in none. */
    tl_bytes inbox;
    /** As the server told it last; 0: none. */
    int64_t place;
    /** ACQUIRE: stand in line, or look how far it has come. */
    bool join;
    /** It may stand in line. */
    bool stands;
    /** It takes its turn in line whatever happens. */
    bool fair;
} tl_job_queue;

/** RENEW and RELEASE: the hold. */
typedef struct {
    tl_proof proof;
    /** The deadline so far. */
    tl_mono believed;
    /** RENEW: for S, should it not be known there. */
    uint64_t fence;
} tl_job_hold;

/** RENEW */
typedef struct {
    /** On etcd: what is believed meanwhile, so that the lease must last as long. */
    int64_t least_ms;
    /** It counts only when the server is confirmed to be the one to ask, afterwards. */
    bool confirms;
} tl_job_renew;

/** RELEASE */
typedef struct {
    /** Of what may be, or may yet be, where an acquire went unanswered. */
    bool in_vain;
    /** Of a vote: nobody is told. */
    bool silent;
    /** On etcd: the lease of the proof, too, which nobody else will use. */
    bool revoke;
} tl_job_release;

/** What a machine is asked to do. Bytes outlive the machine, detached or not. One job serves a machine for all that it does:
 *  an acquire cleans up by a release, a renewal may ask for a vote. So what belongs to each stands side by side. */
typedef struct {
    const struct tl_protocol *protocol;
    tl_bytes key, sidecar, line;
    /** Of all these keys. */
    tl_slot_tag slot;
    /** "host pid service", for others to read. */
    tl_bytes owner;
    tl_token token;
    int64_t ttl_ms;
    int64_t attempt_ms;
    int32_t wait_replicas, wait_replicas_ms;
    /** It counts once it is on disk, here and at these replicas. */
    bool wait_fsync;
    /** ACQUIRE: not the first with this token, so that an earlier one may have worked. On etcd RENEW and RELEASE: the one
     *  before has failed, so that it may have. */
    bool again;
    /** ACQUIRE: how many fencing numbers to reserve; 0 as 1. Its entry in line says so, too. */
    int32_t fences;
    /** On etcd. ACQUIRE: to be used while two thirds of it are left. RELEASE: the client keeps it if that works. */
    tl_spare_lease spare;
    tl_rules rules;
    tl_job_acquire acquire;
    tl_job_queue queue;
    tl_job_hold hold;
    tl_job_renew renew;
    tl_job_release release;
} tl_job;

/** Is there anything that must confirm a take or a keep, behind it in the same request? */
static inline bool tl__job_waits(const tl_job *job) {
    return job->wait_replicas > 0 || job->wait_fsync;
}

static inline int32_t tl__job_fences(const tl_job *job) {
    return job->fences > 1 ? job->fences : 1;
}

/** ACQUIRE */
typedef struct {
    /** OK: the first of the fencing numbers reserved. */
    uint64_t fence;
    /** Not OK: when the holder's time is up, or the server grants locks again, as far as is known now; TL_NEVER when it
     *  isn't. */
    tl_mono hint;
    /** In line: its place, how many are before it, how many stand there, and the server's time then. */
    int64_t place;
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

/** One step of a machine that a driver can run. */
typedef tl_status (*tl_step)(void *machine, const tl_event *event, tl_out *out);

#define TL_ATTEMPT_SIZE 256

/** Room for any protocol's attempt. */
typedef union {
    tl_result result;
    char room[TL_ATTEMPT_SIZE];
} tl_attempt;

struct tl_client;

/** What a protocol of ../compat keeps up for all of a client's locks, beside them; its own state is
 *  tl_client.upkeep. All are called by the runtime. */
typedef struct {
    /** As a client is opened. TL_EINVALID, TL_ENOMEM */
    tl_err (*open)(struct tl_client *client, tl_error *err);
    /** What a key belongs to. TL_EINVALID: to nothing that it could. */
    tl_err (*of)(const struct tl_client *client, tl_bytes key, const void **ret, tl_error *err);
    /** out->keeps: keep it. in: with keeper.mutex held. */
    void (*keep)(struct tl_client *client, const tl_out *out, bool in);
    /** Before the keeper is closed; with keeper.mutex held, the last thing that it does; after that. */
    void (*end)(struct tl_client *client);
    void (*leave)(struct tl_client *client);
    void (*free)(struct tl_client *client);
} tl_upkeep;

/** Who can't do without what a server lacks. */
typedef struct {
    const char *needs;   /**< "tokens need" */
    const char *instead; /**< what works there if it is EVAL; NULL: nothing does */
} tl_needer;

#ifdef TL_COMPAT
#define TL_INSTEAD "protocol timestamp works there"
#define TL_INSTEAD_LOOK "protocol timestamp can look there"
#else
#define TL_INSTEAD NULL
#define TL_INSTEAD_LOOK NULL
#endif

struct tl_try;

/** A protocol: what its attempts say and what the answers mean; `attempt` makes them. One file, and one
 *  row in protocol/rows. */
typedef struct tl_protocol {
    const char *name;
    size_t size;       /**< of its attempt, which begins with a tl_try; at most TL_ATTEMPT_SIZE */
    tl_protocol_id id; /**< that a hold of its own is renewed by */
    /** Ask; or end the attempt where nothing may be asked. */
    tl_status (*send)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** What an answer means, whose first reply is no error. It may ask again. */
    tl_status (*answered)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    /** NULL, or the same for an error; tl__attempt_refused for those that it doesn't know. */
    tl_status (*refused)(struct tl_try *a, const tl_job *job, const tl_event *e, tl_out *out);
    tl_needer who; /**< who can't do without what it sends */
    /** NULL, or: is the last reading of the server's clock too old for this? Then TIME first. */
    bool (*outdated)(const struct tl_try *a, const tl_job *job, const tl_event *e);
    /** NULL, or: does what has been asked change nothing, answered or not? */
    bool (*reads)(const struct tl_try *a);
    /** NULL, or: does an attempt that fails now leave something behind in any case? */
    bool (*leaves)(const struct tl_try *a);
    /** NULL, or for a protocol of stamps: what holds for this key (n 0: whatever key), from what
     *  the client's options say and those of the lock (NULL: nothing). Sets *ttl_ms if it is 0, and says
     *  whether it leaves any validity. TL_EINVALID */
    tl_err (*rules)(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                    tl_rules *ret, int64_t *ttl_ms, tl_error *err);
    /** Why a hold that was acquired without scripts is not extended, in words; NULL: all are. */
    const char *(*never_renewed)(const tl_rules *rules);
    /** NULL: those who wait don't stand in line; or: may they now, at this server, for all we know? */
    bool (*lines)(const tl_server *server, const tl_rules *rules, tl_mono now);
    /** Those in line are called when it is their turn, and acquire the lock: nobody may do it for them. */
    bool called;
    bool binds_late; /**< S is told of a hold by its first renewal; false: by the take */
    bool reads_wall; /**< it wants tl_server.wall_us */
    /** How a holder, or who waits for one, is told at once when K changes; NULL: it isn't. */
    const struct tl_watching *watching;
    /** watching: is this what K held when the hold was proved last? A keep finds out whether it's still ours;
     *  this, whether there is any need for one. */
    bool (*unchanged)(const tl_job *job, tl_bytes value);
    const tl_upkeep *upkeep; /**< NULL: none */
} tl_protocol;

extern const tl_protocol tl__protocol_token;
extern const tl_protocol tl__protocol_timestamp, tl__protocol_bridge,
    tl__protocol_auto; /* ../compat */

/** The row of a protocol, or NULL. */
const tl_protocol *tl__protocol_row(tl_protocol_id id);

/* ---- for machines: building an answer ---------------------------------------------------------- */

/** The next send, empty, with its ticket and limit. */
tl_send *tl__out_send(tl_out *out, uint16_t ticket, tl_mono by);
/** Listen to a topic, without a key and as no inbox. */
void tl__out_listen(tl_out *out, tl_bytes topic);
/** Number as text in out's scratch room. */
tl_bytes tl__out_int(tl_out *out, int64_t v);
/** Two byte strings, one behind the other, in out's scratch room. */
tl_bytes tl__out_copy(tl_out *out, tl_bytes a, tl_bytes b);
/** A moment as the scripts read it, "@" and digits, in out's scratch room. */
tl_bytes tl__out_at(tl_out *out, int64_t us);
/** Keep words for a person: printable, cut to fit. */
void tl__out_words(tl_out *out, tl_bytes words);
/** Put who said so before words that were kept, if it is known: "place: words". */
void tl__out_place(tl_out *out, tl_bytes place);
tl_note *tl__out_note(tl_out *out, tl_note_kind kind, tl_lost_why why);

/** An error reply as a result: TL_EDENIED, TL_EUNAVAILABLE, TL_EUNSUPPORTED, TL_ESERVER. */
tl_err tl__refusal(tl_bytes error);
/** A script has touched a key that is on the move to another node of a cluster, or has gone there. */
bool tl__is_not_local(tl_bytes error);
/** A key holds something else than a string, which such a command is for. */
bool tl__is_of_other_type(tl_bytes error);
/** Of a failure: will the same server say the same next time, whenever that is, until somebody changes something? */
static inline bool tl__is_lasting(tl_err code) {
    return code == TL_EDENIED || code == TL_ESERVER || code == TL_EINVALID ||
           code == TL_EUNSUPPORTED;
}

/** Is this the server's fault, so that a message should name it? */
bool tl__is_of_server(tl_err code);

/** May the same request have another answer next time? */
static inline bool tl__may_pass(tl_err code) {
    return code == TL_EUNAVAILABLE || code == TL_EUNCERTAIN || code == TL_EELSEWHERE;
}

/** Of an error reply that is TL_EUNSUPPORTED: which command the server lacks, who needs it (NULL:
 *  not said), from which version on it is there, and what works without. */
void tl__lacks(char *to, size_t size, tl_bytes error, const tl_needer *who);

/** Keep what any error reply says, in words that repeat nothing of what the server was sent; if it
 *  is TL_EUNSUPPORTED, those of tl__lacks. */
void tl__out_refusal(tl_out *out, tl_bytes error, const tl_needer *who);

/** Does an error reply say that the server doesn't know the command itself? */
bool tl__is_unknown_command(tl_bytes error);

/** Does an error reply say that another server may be the one to ask by now? Whoever reached this one
 *  by its name should look the name up again. */
bool tl__asks_elsewhere(tl_bytes error);

/** Does it say that this one isn't, and so that certainly nothing of the request was executed? */
bool tl__is_elsewhere(tl_bytes error);

/** Was an error reply raised within a script, so that some of its writes may have been made? */
bool tl__from_script(tl_bytes error);

/** End a machine that has asked a question: what came of it, and why. */
tl_status tl__end(void *machine, tl_err code, tl_bytes message, tl_out *out);
tl_status tl__end_malformed(void *machine, tl_out *out);
tl_status tl__end_cancelled(void *machine, tl_out *out);
/** By an error reply. */
tl_status tl__end_refused(void *machine, tl_bytes error, const tl_needer *who, tl_out *out);
/** By a FAILED, after which it doesn't ask again. A server that wasn't the one to ask, or may have been asked, is as good
 *  as away. in_doubt: the request may have changed something. */
tl_status tl__end_failed(void *machine, const tl_event *e, bool in_doubt, tl_out *out);

/** Take the server's time into out's bracket: the TIME at items i and i + 1 of a reply, if it is one. */
void tl__out_time(tl_out *out, const tl_reply *reply, size_t i, const tl_event *event);

void tl__out_server_us(tl_out *out, int64_t server_us, const tl_event *event);

/** A pause before trying again after `failures` (1 or more) in a row: 20 ms doubling to 1 s, at
 *  random between half of it and all. */
int64_t tl__backoff_ms(uint32_t failures, uint64_t *random);

/** The next of a sequence of random numbers (xorshift); *random must not be 0. */
uint64_t tl__random_next(uint64_t *random);

/** Where it begins. */
static inline uint64_t tl__random_begin(uint64_t seed) {
    return seed ? seed : 1;
}

/** One of least..most. */
int64_t tl__random_between(uint64_t *random, int64_t least, int64_t most);

#endif
