/*
 * A lock on etcd, as its machines see it: which keys and leases belong to a token, and what an answer of etcd's
 * amounts to. wire/etcd.h has the words that are sent.
 *
 * A contender's key is K/SUFFIX, with the revision r that it was created at: the lowest r holds the lock. Its token
 * is "SUFFIX.r". A lease is never kept alive, since a leader that was stopped and woken may answer that it was, and
 * revoke it nevertheless: each renewal puts the key under a new lease, in a transaction that compares r. The numbers of leases
 * only grow, and a key goes under none that is lower than its own: so a renewal that comes late changes nothing.
 */
#pragma once

#include "protocol/attempt.h"
#include "wire/etcd.h"

#define TL_ETCD_TTL_MIN_MS 2000 /**< etcd grants no less, as it is set up usually */
#define TL_ETCD_SUFFIX_SIZE 17  /**< hexadecimal, with its NUL */

#define TL_ETCD_TOPIC_MAX 640 /**< who would listen to a longer one looks often instead */

/** Whose key it is, and what its leases are called. */
typedef struct {
    char suffix[TL_ETCD_SUFFIX_SIZE];
    int64_t base;     /**< the suffix, as a number */
    int64_t revision; /**< that the key was created at; 0: it isn't known */
} tl_etcd_id;

/** What the machine's token begins with: a suffix, of a random number. */
tl_etcd_id tl__etcd_id_draw(uint64_t random);
/** Of a token. false: it is none. */
bool tl__etcd_id_read(tl_etcd_id *ret, const tl_token *token);
tl_token tl__etcd_token(const tl_etcd_id *id);

/** The topic of the deletion of the key that a token is of, "REVISION K/SUFFIX"; n 0: it is too long, or the token of another kind. */
tl_bytes tl__etcd_topic(char room[TL_ETCD_TOPIC_MAX], tl_bytes key, const tl_token *token);
/** K, of such a topic. */
tl_bytes tl__etcd_topic_key(tl_bytes topic);

/** The lease of a request that is built now: higher than that of any before. `ahead`: see tl_etcd_proof. */
int64_t tl__etcd_lease(const tl_etcd_id *id, int64_t ahead, tl_mono now);
/** The key has been found under this lease: what `ahead` must be for later ones to be higher. */
int64_t tl__etcd_ahead(const tl_etcd_id *id, int64_t lease, tl_mono now);

/** Add to a send: a lease for ttl_ms, and the transaction of this word that puts the key under it. */
void tl__etcd_grant(tl_send *send, int64_t lease, int64_t ttl_ms, tl_out *out);
void tl__etcd_revoke(tl_send *send, int64_t lease, tl_out *out);
void tl__etcd_say(tl_send *send, tl_bytes word, tl_bytes key, tl_bytes suffix);
void tl__etcd_add_int(tl_send *send, int64_t v, tl_out *out);
void tl__etcd_add(tl_send *send, tl_bytes argument);

/** What an error amounts to: TL_EUNCERTAIN for all but those that etcd gives of what it has not executed; with words for a
 *  person. */
tl_err tl__etcd_refusal(tl_bytes error, tl_out *out);

/** A key of an answer. false: there is no such key in it. */
typedef struct {
    tl_bytes key, value;
    int64_t created, changed, lease;
} tl_etcd_found;
/** Key i of a response of a transaction. */
bool tl__etcd_find(const tl_reply *transaction, size_t response, size_t i, tl_etcd_found *ret);
/** How many keys the whole range has, by a response. */
int64_t tl__etcd_count(const tl_reply *transaction, size_t response);
bool tl__etcd_succeeded(const tl_reply *transaction);
/** 0: it is malformed. */
int64_t tl__etcd_revision(const tl_reply *transaction);

/** Is it a contender of K's? That is K/LEASE in hexadecimal under that lease, as etcd's own Mutex writes it, or K/SUFFIX as tidelock
 *  does, with its owner as the value. One that was read without its value is judged by the rest. Any other key
 *  of the range blocks K all the same, as it blocks the Mutex, and is nobody's hold. */
bool tl__etcd_contends(tl_bytes k, const tl_etcd_found *found);

#define TL_ETCD_OBSTACLE 96 /**< what a tl_lock_info has room for */
/** What such a key is, for a person. Of another lock the name alone: its key would tell the token. */
void tl__etcd_obstacle(char to[TL_ETCD_OBSTACLE], tl_bytes k, const tl_etcd_found *found);
/** The key of the lock whose contender a key seems to be; n 0: of none's. */
tl_bytes tl__etcd_lock_of(const tl_etcd_found *found);
/** What stands behind "K/"; n 0: it is none of K's range. */
tl_bytes tl__etcd_suffix_of(tl_bytes key, tl_bytes k);
/** Does it look like the key of a holder of tidelock's? */
bool tl__etcd_is_ours(tl_bytes k, const tl_etcd_found *found);

/** For how long a lease was granted, no longer than ttl_ms, by the answer to GRANT; 0: that isn't known. */
int64_t tl__etcd_granted_ms(const tl_reply *grant, int64_t ttl_ms);
/** Until when a holder may believe a lease for ttl_ms, of which the grant was built at `asked`. */
tl_mono tl__etcd_deadline(tl_mono asked, int64_t ttl_ms, int32_t drift_ppm);

/** Is enough of a lease left for another key? */
bool tl__etcd_is_worth(const tl_spare_lease *spare, tl_mono now, int32_t drift_ppm);

/** Renewing and releasing; acquiring is etcd_acquire.h's. */
extern const tl_protocol tl__protocol_etcd;
