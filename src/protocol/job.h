/*
 * What a machine is asked to do, and what it is to know of the lock and of its hold.
 */
#pragma once

#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#include "ground/bytes.h"
#include "ground/clock.h"
#include "ground/token.h"
#include "wire/keys.h"

#define TL_FENCES 50 /**< fencing numbers that are reserved at once for passing a lock on */

typedef enum { TL_ACQUIRE, TL_RENEW, TL_RELEASE } tl_op;

/* ---- legacy clients ---------------------------------------------------------------------------- */

/** The legacy clients beside whom a client acquires locks: what its options say of them, and what
 *  else of the options bears on that. */
typedef struct {
    tl_protocol_id protocol;
    int32_t wait_replicas;
    bool wait_fsync;
    /** Its strings belong to whoever has this. */
    tl_legacy_options options;
} tl_legacy;

/** What a protocol of stamps must know of legacy clients, as the members of tl_legacy_options that have the
 *  same names. */
typedef struct {
    /** NULL: not a protocol of stamps. */
    const struct tl_dialect *dialect;
    /** M */
    int32_t clock_skew_max_ms;
    /** L */
    int32_t legacy_delay_max_ms;
    int64_t legacy_ttl_min_ms;
    bool strict;
    /** Of a cluster: scripts alone, and key by key where a slot is open. */
    bool nodes;
    /** A tl_clock_guard. */
    uint8_t clock_guard;
    /** What of the protocol's upkeep this key belongs to; NULL: it has none. */
    const void *of;
} tl_rules;

/* ---- what a hold rests on ---------------------------------------------------------------------- */

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
    /** 0: none. */
    int64_t lease;
    int64_t ttl_ms;
    /** Until when a key that is put under it may be believed. */
    tl_mono deadline;
} tl_spare_lease;

/* ---- the job ----------------------------------------------------------------------------------- */

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
    int64_t rank;
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
