/*
 * A lock on etcd: which keys and leases belong to a token, and what a reply of etcd means. wire/etcd.h
 * describes the requests.
 *
 * A contender's key is K/SUFFIX, with the revision r that it was created at. The lowest r holds the lock. Its
 * token is "SUFFIX.r". A lease is never kept alive: a leader that was stopped and woken may answer that it
 * kept the lease alive, and revoke it nevertheless. Instead each renewal puts the key under a new lease, in a
 * transaction that compares r. The numbers of leases only grow, and a key never goes under a lower one than
 * its own. So a renewal that comes late changes nothing.
 *
 * A lock that rests (tl_job_release.rest_ms) keeps its key, which stays the first: it goes under one lease for the
 * rest of the time. That lease's number follows from the suffix, and is above those of all holds. So a renewal
 * that comes late changes nothing, a release that does compares it, and a repeated request uses the same lease.
 */
#pragma once

#include "protocol/attempt.h"
#include "wire/etcd.h"

#define TL_ETCD_TTL_MIN_MS 2000 /**< with its usual settings etcd grants no less */
#define TL_ETCD_SUFFIX_SIZE 17  /**< hexadecimal digits and a NUL */

#define TL_ETCD_TOPIC_MAX 640 /**< with a longer topic a waiter polls instead of listening */

/** The identity of a contender: its suffix, from which its leases are numbered. */
typedef struct {
    char suffix[TL_ETCD_SUFFIX_SIZE];
    int64_t base;     /**< the suffix as a number */
    int64_t revision; /**< the revision at which the key was created; 0: not known */
} tl_etcd_id;

/** Draw the suffix, from a random number. */
tl_etcd_id tl__etcd_id_draw(uint64_t random);
/** Read the identity from a token. false: the token is of another kind. */
bool tl__etcd_id_read(tl_etcd_id *ret, const tl_token *token);
tl_token tl__etcd_token(const tl_etcd_id *id);

/** The lease under which the key rests. */
int64_t tl__etcd_rest_lease(const tl_etcd_id *id);

/** The topic that reports the deletion of a token's key, "REVISION K/SUFFIX". n 0: it is too long, or the
 *  token is of another kind. */
tl_bytes tl__etcd_topic(char room[TL_ETCD_TOPIC_MAX], tl_bytes key, const tl_token *token);
/** K from such a topic. */
tl_bytes tl__etcd_topic_key(tl_bytes topic);

/** The lease of a request that is built now: higher than every earlier one. `ahead`: see tl_etcd_proof. */
int64_t tl__etcd_lease(const tl_etcd_id *id, int64_t ahead, tl_mono now);
/** The key is under this lease: the `ahead` that makes later leases higher. */
int64_t tl__etcd_ahead(const tl_etcd_id *id, int64_t lease, tl_mono now);

/** Add to a send. grant: a lease for ttl_ms. say: a request of this name (wire/etcd.h), such as the
 *  transaction that puts the key under the lease. */
void tl__etcd_grant(tl_send *send, int64_t lease, int64_t ttl_ms, tl_out *out);
void tl__etcd_revoke(tl_send *send, int64_t lease, tl_out *out);
void tl__etcd_say(tl_send *send, tl_bytes word, tl_bytes key, tl_bytes suffix);
void tl__etcd_add_int(tl_send *send, int64_t v, tl_out *out);
void tl__etcd_add(tl_send *send, tl_bytes argument);
/** Ask for the first `most` keys of K, and for the first `more` without their values. */
void tl__etcd_see(tl_send *send, tl_bytes key, int64_t most, int64_t more, tl_out *out);

/** The result code of an error, and its message in `out`. TL_EUNCERTAIN for all errors but those that prove
 *  that etcd executed nothing. */
tl_err tl__etcd_refusal(tl_bytes error, tl_out *out);
/** The same for a transaction that puts a key. grant: the reply to the GRANT before it; NULL: there was none,
 *  as its lease is older. */
tl_err tl__etcd_refusal_of_put(tl_bytes error, const tl_reply *grant, tl_out *out);

/** A key in a reply. */
typedef struct {
    tl_bytes key, value;
    int64_t created, changed, lease;
} tl_etcd_found;
/** Find key i in a response of a transaction. false: there is none. */
bool tl__etcd_find(const tl_reply *transaction, size_t response, size_t i, tl_etcd_found *ret);
/** The same in a response that was read without values. etcd 3.7.0 to 3.7.3 leave the leases out, too: where no
 *  key of the response has one, each lease is TL_ETCD_NO_LEASE_KNOWN. */
bool tl__etcd_find_name(const tl_reply *transaction, size_t response, size_t i, tl_etcd_found *ret);
#define TL_ETCD_NO_LEASE_KNOWN (-1)
/** How many keys the whole range has, by a response of a transaction. */
int64_t tl__etcd_count(const tl_reply *transaction, size_t response);
bool tl__etcd_succeeded(const tl_reply *transaction);
/** The revision of a transaction; 0: the reply is malformed. */
int64_t tl__etcd_revision(const tl_reply *transaction);

/** Is this key a contender for K? Contenders are K/LEASE in hexadecimal under that lease, as etcd's own Mutex
 *  writes it, and K/SUFFIX with its owner as the value, as tidelock writes it. A key that was read without
 *  its value is judged by the rest, and without its lease by its name: data of others may be taken for one.
 *  Any other key of the range blocks K as it blocks the Mutex, but nobody holds the lock by it. */
bool tl__etcd_contends(tl_bytes k, const tl_etcd_found *found);

/** Is it the key of a lock that rests? Then *ret_owner is the owner of the last hold. A key that was read
 *  without its value has no owner. */
bool tl__etcd_rests(tl_bytes k, const tl_etcd_found *found, tl_bytes *ret_owner);

#define TL_ETCD_OBSTACLE 96 /**< the size of tl_lock_info.oddity */
/** Write a message about a key that blocks K. For another lock's key it shows only that lock's name, since
 *  the rest of the key is its token. */
void tl__etcd_obstacle(char to[TL_ETCD_OBSTACLE], tl_bytes k, const tl_etcd_found *found);
/** The lock that a key seems to contend for; n 0: none. */
tl_bytes tl__etcd_lock_of(const tl_etcd_found *found);
/** The part behind "K/"; n 0: the key is not in K's range. */
tl_bytes tl__etcd_suffix_of(tl_bytes key, tl_bytes k);
/** Does it look like the key of a tidelock client? */
bool tl__etcd_is_ours(tl_bytes k, const tl_etcd_found *found);

/** The lifetime of a lease by the reply to GRANT, at most ttl_ms; 0: not known. */
int64_t tl__etcd_granted_ms(const tl_reply *grant, int64_t ttl_ms);
/** Until when a holder may believe a lease for ttl_ms whose grant was built at `asked`. */
tl_mono tl__etcd_deadline(tl_mono asked, int64_t ttl_ms, int32_t drift_ppm);

/** Is enough of a spare lease left for another key? */
bool tl__etcd_is_worth(const tl_spare_lease *spare, tl_mono now, int32_t drift_ppm);

/** Renews and releases; etcd_acquire.h acquires. */
extern const tl_protocol tl__protocol_etcd;
