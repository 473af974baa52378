/*
 * A job: the request that a machine carries out, with its facts about the lock and the hold.
 */
#pragma once

#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"
#include "ground/clock.h"
#include "ground/token.h"
#include "wire/keys.h"

#define TL_FENCES 50 /**< fencing numbers that one request reserves, for local hand-offs */

typedef enum { TL_ACQUIRE, TL_RENEW, TL_RELEASE } tl_op;

/* ---- legacy clients ---------------------------------------------------------------------------- */

/** The legacy clients that share locks with this client, and the client options that bear on that. */
typedef struct {
    tl_protocol_id protocol;
    int32_t wait_replicas;
    bool wait_fsync;
    /** Its strings belong to the owner of this struct. */
    tl_legacy_options options;
} tl_legacy;

/** The facts about legacy clients that a protocol of stamps needs. Members with the names of those of
 *  tl_legacy_options mean the same. */
typedef struct {
    /** NULL: not a protocol of stamps. */
    const struct tl_dialect *dialect;
    /** M in the formulas of ../compat */
    int32_t clock_skew_max_ms;
    /** L in the formulas of ../compat */
    int32_t legacy_delay_max_ms;
    int64_t legacy_ttl_min_ms;
    bool strict;
    /** The server is a cluster: only scripts are used, and one key at a time while a slot is being moved. */
    bool nodes;
    /** A tl_clock_guard. */
    uint8_t clock_guard;
    /** The part of the protocol's upkeep that this key belongs to (tl_upkeep.of); NULL: none. */
    const void *of;
} tl_rules;

/* ---- the proof of a hold ----------------------------------------------------------------------- */

/** TOKEN: a renewal by the short script `refresh` needs an S with all facts about the hold. */
typedef struct {
    /** When the last renewal was sent that wrote S, in s from 1 on; 0: there was none. */
    uint32_t noted_s;
    /** A part of the run of the server that executed it. */
    uint32_t noted_run;
} tl_token_proof;

/** STAMP, as ../compat writes it. */
typedef struct {
    /** A renewal that was sent before capped_until proves no more than `cap`. ns 0: there is no cap;
     *  TL_NEVER: the lock was acquired without scripts. */
    tl_mono cap, capped_until;
    /** The server's time of the last acquire or renewal; 0: another handle acquired the lock. */
    int64_t proved_us;
    /** The expiry in K's stamp at that time. */
    int64_t end_ms;
} tl_stamp_proof;

/** ETCD */
typedef struct {
    /** The lease that holds the key, and no other key; 0: not known. */
    int64_t lease;
    /** How much higher the hold's lease numbers are than this host's clock alone would make them. */
    int64_t ahead;
    /** The revision of the key's last change; 0: not known. */
    int64_t changed;
    /** `lease` was a spare one. If this process runs as a copy (from an image of its memory), the copy has
     *  the same spare leases, and perhaps a key under this one. So the lease is not revoked: it is left to
     *  expire. */
    bool spared;
} tl_etcd_proof;

typedef enum { TL_PROOF_NONE, TL_PROOF_TOKEN, TL_PROOF_STAMP, TL_PROOF_ETCD } tl_proof_kind;

/** The facts about a hold besides its deadline. */
typedef struct {
    uint8_t kind;
    /** TL_AUTO: 1 + the protocol that K is held by; 0: not known. */
    uint8_t held_by;
    /** A request for this hold is unanswered: it may still be executed. */
    bool doubted : 1;
    /** S does not know of this hold before its first renewal. */
    bool unbound : 1;
    /** Another handle acquired it: only the token is known. */
    bool elsewhere : 1;
    /** Until when an acquire with this token may be executed isn't known: another process may have sent it, or it
     *  went out without not_after. */
    bool unlimited : 1;
    /** The lock was acquired while its own entry may still be in the queue: the lifetime in that entry, ms.
     *  0: no entry. */
    int32_t stood_ms;
    /** One of them, by `kind`. */
    union {
        tl_token_proof token;
        tl_stamp_proof stamp;
        tl_etcd_proof etcd;
    };
} tl_proof;

/** The stamp's proof or etcd's, if the proof is of that kind; else zeros. */
static inline tl_stamp_proof tl__proof_stamp(const tl_proof *proof) {
    return proof->kind == TL_PROOF_STAMP ? proof->stamp : (tl_stamp_proof){0};
}
static inline tl_etcd_proof tl__proof_etcd(const tl_proof *proof) {
    return proof->kind == TL_PROOF_ETCD ? proof->etcd : (tl_etcd_proof){0};
}

/** On etcd: a lease without a key, left over from an earlier use. */
typedef struct {
    /** 0: none. */
    int64_t lease;
    int64_t ttl_ms;
    /** A key under this lease may be believed until then. */
    tl_mono deadline;
} tl_spare_lease;

/* ---- the job ----------------------------------------------------------------------------------- */

/** ACQUIRE */
typedef struct {
    /** For this long after a restart or a failover the server grants no lock; 0: off. */
    int64_t quiet_ms;
    /** A vote: the least fencing number to draw. */
    uint64_t fence;
    /** The acquire writes S, which keeps other clients out; else the first renewal does. */
    bool bind;
    /** A wait ends with EBUSY as soon as the lock is found to rest. */
    bool rest_ends_wait;
    /** The lock is to rest later: it is not acquired where nothing can rest. */
    bool will_rest;
} tl_job_acquire;

/** ACQUIRE, to queue on the server; RELEASE, to leave the queue. */
typedef struct {
    /** The channel on which the waiter is notified of its turn; n 0: it does not queue. */
    tl_bytes inbox;
    /** The rank that the server reported last; 0: none. */
    int64_t rank;
    /** ACQUIRE: join the queue, or look how far the entry has advanced. */
    bool join;
    /** Its entry may be in the queue. */
    bool stands;
    /** Each acquire of this lock has an entry of its own in the queue (the option `fair`). */
    bool fair;
} tl_job_queue;

/** RENEW and RELEASE: the hold. */
typedef struct {
    tl_proof proof;
    /** The deadline so far. */
    tl_mono believed;
    /** When the request was built that proves it (tl_result). */
    tl_mono proved;
    /** When the last disruption (client/disruption.h) was noticed; ns 0: none was. A request that was built before it
     *  proves nothing. */
    tl_mono disrupted;
    /** After it, a copy of this machine may have the same token. */
    bool copied;
    /** RENEW: the fencing number to write into S, if S does not have it. */
    uint64_t fence;
} tl_job_hold;

/** RENEW */
typedef struct {
    /** On etcd: the new lease lasts at least this long, since a holder may still believe the former
     *  lifetime. */
    int64_t least_ms;
    /** The renewal counts only after the server has been confirmed as the master. */
    bool confirms;
} tl_job_renew;

/** RELEASE */
typedef struct {
    /** No hold is known: an acquire went unanswered, and may have been executed or may still be. */
    bool in_vain;
    /** A vote: don't notify waiters. */
    bool silent;
    /** On etcd: revoke the proof's lease, too; nothing else will use it. */
    bool revoke;
    /** The lock rests: nobody holds it, and nobody acquires it, for so long from the acquire on. 0: it doesn't;
     *  the release frees it. */
    int64_t rest_ms;
    /** rest_ms: this host's clock when the reply to the acquire had come. */
    tl_mono rest_since;
    /** rest_ms: the latest time, us, that the server's clock could show then; 0: not known, so the server counts
     *  from the time of the acquire that it has noted; -1: nor from that. */
    int64_t rest_since_us;
} tl_job_release;

/** The job of a machine. Its bytes outlive the machine, detached or not. One job serves for all requests of
 *  the machine: an acquire cleans up by a release, and a renewal may ask for a vote. So the parts for each
 *  operation stand side by side. */
typedef struct {
    const struct tl_protocol *protocol;
    tl_bytes key, sidecar, line;
    /** The slot of all these keys. */
    tl_slot_tag slot;
    /** "host pid service", shown to other clients' users. */
    tl_bytes owner;
    tl_token token;
    int64_t ttl_ms;
    int64_t attempt_ms;
    int32_t wait_replicas, wait_replicas_ms;
    /** A write counts once it is on disk, on this server and on these replicas. */
    bool wait_fsync;
    /** ACQUIRE: not the first request with this token, so an earlier one may have worked. RENEW and RELEASE
     *  on etcd: the request before has failed, but may have worked. */
    bool again;
    /** ACQUIRE: how many fencing numbers to reserve; 0 means 1. The entry in the queue has this number,
     *  too. */
    int32_t fences;
    /** On etcd. ACQUIRE: a spare lease to use while two thirds of it are left. RELEASE: the client keeps this
     *  lease if the release works. */
    tl_spare_lease spare;
    tl_rules rules;
    tl_job_acquire acquire;
    tl_job_queue queue;
    tl_job_hold hold;
    tl_job_renew renew;
    tl_job_release release;
} tl_job;

/** Must replicas or a disk confirm an acquire or a renewal, by a command behind it in the same request? */
static inline bool tl__job_waits(const tl_job *job) {
    return job->wait_replicas > 0 || job->wait_fsync;
}

static inline int32_t tl__job_fences(const tl_job *job) {
    return job->fences > 1 ? job->fences : 1;
}
