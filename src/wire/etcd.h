/*
 * Requests to etcd: a command as a machine builds it, and its bytes as etcd's JSON gateway reads them, one
 * POST each. And the meaning of etcd's errors.
 *
 * A lock K is the range of keys K/...: the key that was created first holds the lock. This is the layout of
 * etcd's own clientv3/concurrency.Mutex and of `etcdctl lock`. The commands in argv, with their arguments:
 *
 *     GRANT lease ttl           grant a lease of ttl seconds
 *     REVOKE lease
 *     TTL lease
 *     TRY K suffix lease value  create K/suffix if K has no key; else return K/suffix and K's first key
 *     JOIN K suffix lease value create K/suffix behind K's other keys, and return the last of these;
 *                               if it exists, return it
 *     LOOK K suffix revision    the last two keys of K that were created up to this revision
 *     KEEP K suffix revision lease
 *                               if K/suffix was created at this revision, under a lower lease: attach it
 *                               to this lease, and LOOK; else return it and K's first key
 *     KEEPS lease, and for each lock K suffix revision changed
 *                               attach all these keys to this lease, or none. `changed` is the revision of
 *                               the key's last change, and must still be; 0: unknown, compare as KEEP.
 *                               If a comparison fails, return all these keys, in this order
 *     FREE K suffix revision rest
 *                               delete K/suffix if it was created at this revision, and not under the
 *                               lease `rest`
 *     REST K suffix revision rest value
 *                               if K/suffix was created at this revision: put it under the lease `rest`,
 *                               with this value; else return it and K's first key
 *     DROP K suffix revision    delete K/suffix if it was created at this revision;
 *                               else return it and K's first key
 *     UNDO K suffix             delete K/suffix, whenever it was created
 *     SEE K most more           the first `most` keys of K; and the first `more` without their values
 *     SCAN revision most        keys created at this revision or later, the oldest first, without values
 *     AUTH user password        a token
 *     STATUS, ALARMS, MEMBERS   of the member that is asked, of the cluster
 */
#pragma once

#include "wire/command.h"

/** The kind of a reply, and its content in a tl_reply (zero where etcd omits a field). */
typedef enum {
    TL_ETCD_NONE,   /**< no known command */
    TL_ETCD_GRANT,  /**< INT: the lifetime granted, s */
    TL_ETCD_REVOKE, /**< STATUS */
    TL_ETCD_TTL,    /**< ARRAY: seconds left (-1: no such lease), seconds granted */
    /** ARRAY: 1 (the comparison held) or 0, the revision, then an item for each request in the transaction:
     *  for a range an ARRAY of INT count and the keys, else NIL. A key is an ARRAY indexed by
     *  tl_etcd_key_item */
    TL_ETCD_TXN,
    TL_ETCD_RANGE, /**< the same, as a transaction of one range */
    TL_ETCD_AUTH,  /**< STRING */
    /** ARRAY: version, leader, member, bytes of data, 1 for a learner, bytes in use, cluster */
    TL_ETCD_STATUS,
    TL_ETCD_ALARMS,  /**< ARRAY of ARRAY: member, alarm */
    TL_ETCD_MEMBERS, /**< ARRAY of ARRAY: member, name, a URL for clients, 1 for a learner */
    TL_ETCD_WATCH    /**< a message of a stream: ARRAY indexed by TL_WATCH_ID and the rest */
} tl_etcd_kind;

enum {
    TL_ETCD_SUCCEEDED,
    TL_ETCD_REVISION,
    TL_ETCD_RESPONSES, /**< the first of the items for requests */
    TL_ETCD_JOINED     /**< INT, the lease: of a renewal that was combined with others */
};

enum { TL_ETCD_KEY, TL_ETCD_VALUE, TL_ETCD_CREATED, TL_ETCD_CHANGED, TL_ETCD_LEASE };

/** All INT: the watch id, 1 if created, 1 if canceled, the number of deletions in the message, the
 *  revision. */
enum { TL_WATCH_ID, TL_WATCH_CREATED, TL_WATCH_CANCELED, TL_WATCH_DELETED, TL_WATCH_REVISION };

/** The settings of a request beside its command. */
typedef struct {
    tl_bytes host;   /**< "host:port" */
    tl_bytes prefix; /**< the prefix of all keys; may be empty */
    tl_bytes token;  /**< of a login; n 0: none */
    int64_t timeout_ms;
} tl_etcd_via;

#define TL_ETCD_OPS_MAX 128 /**< comparisons in one transaction: etcd's default limit */
#define TL_ETCD_KEEPS_EACH 4

tl_etcd_kind tl__etcd_kind(const tl_command *command);

/** Encode the request; returns the bytes needed, and writes only if they fit. */
typedef size_t tl_etcd_encoder(const tl_command *command, const tl_etcd_via *via, char *to,
                               size_t size);
tl_etcd_encoder tl__etcd_encode;

/** A stream of deletions: watches `count` keys, each from its revision on, with the watch ids 1, 2 and so on.
 *  Encodes and returns as tl__etcd_encode. */
typedef struct {
    tl_bytes key;     /**< without the prefix */
    int64_t revision; /**< report deletions from this revision on; 0: from now on */
} tl_etcd_watched;
size_t tl__etcd_encode_watch(const tl_etcd_watched *watched, size_t count, const tl_etcd_via *via,
                             char *to, size_t size);

/** The same for gRPC, as messages of protobuf behind their heads, for the method of a kind. via: the prefix
 *  counts; the rest goes into gRPC's own headers. */
const char *tl__etcd_method(tl_etcd_kind kind);
tl_etcd_encoder tl__etcd_encode_proto;
size_t tl__etcd_encode_watch_proto(const tl_etcd_watched *watched, size_t count,
                                   const tl_etcd_via *via, char *to, size_t size);

/* An error is an ERROR reply "ETCD code message". The codes are gRPC's; -1: the reply did not come from
 * etcd's gateway. */
#define TL_ETCD_ERROR "ETCD "

#define TL_ETCD_UNAUTHENTICATED 16

/** Split such an error; returns the code, -1 if it is not one. */
int tl__etcd_error(tl_bytes error, tl_bytes *ret_message);

/** Was the request certainly not executed? After any other code it may have been, or may still be. For a put see
 *  also tl__etcd_refusal_of_put(). */
bool tl__etcd_is_definite(int code);

/** Was it certainly not executed because of its content, so that a request for another of its keys may
 *  succeed? */
bool tl__etcd_is_of_request(tl_bytes error);

/** Does the message say that users have changed since the login? */
bool tl__etcd_is_login_outdated(tl_bytes message);
/** Has the login expired, rather than the request been wrong? logs_in: the client has a user. */
bool tl__etcd_is_login_over(tl_bytes message, bool logs_in);
#define TL_ETCD_NO_COMMON_NAME "takes no client certificate with a common name"
/** Did the request come from nobody, or from a certificate that the gateway doesn't take? */
bool tl__etcd_lacks_user(tl_bytes error);
/** Must the client log in again, at the same member? */
bool tl__etcd_wants_login(tl_bytes error);

/** Should another member be asked, or has the login expired? */
bool tl__etcd_asks_elsewhere(tl_bytes error);
