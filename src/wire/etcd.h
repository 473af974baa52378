/*
 * What is said to etcd: a request as a machine builds it, in words, and its bytes as the JSON gateway of
 * etcd reads them, POST by POST. And what an error of etcd's means.
 *
 * A lock K is the range of keys K/..., of which the one that was created first holds it: the layout of etcd's own
 * clientv3/concurrency.Mutex and of `etcdctl lock`. The words, with what stands behind each in argv:
 *
 *     GRANT lease ttl             a lease, in seconds
 *     REVOKE lease
 *     TTL lease
 *     TRY K suffix lease value    create K/suffix if there is no key of K's
 *     JOIN K suffix lease value   create K/suffix, behind the last; the last is told
 *     LOOK K suffix revision      the last two of K's that were created by then
 *     KEEP K suffix revision lease     K/suffix, created then, goes under this lease, if that is above its own; and LOOK
 *     KEEPS lease, and of each lock K suffix revision changed    all of these keys go under this lease, or none does: those of
 *                                 which it is known when they were changed last if they weren't since, the others as by KEEP;
 *                                 or else each is told, in this order
 *     FREE K suffix               delete K/suffix, and tell what it was
 *     DROP K suffix revision      delete K/suffix, created then; or else it and the first of K's are told
 *     UNDO K suffix               delete K/suffix, whenever it was created
 *     SEE K most more             the first of K's; and so many of them without their values
 *     SCAN revision most          keys that were created then or later, the oldest first; without their values
 *     AUTH user password          a token
 *     STATUS, ALARMS, MEMBERS     of the member that is asked, of the cluster
 */
#pragma once

#include "wire/command.h"

/** What an answer tells, in a tl_reply (zero where etcd leaves a field out). */
typedef enum {
    TL_ETCD_NONE,   /**< no word of these */
    TL_ETCD_GRANT,  /**< INT: the lifetime granted, s */
    TL_ETCD_REVOKE, /**< STATUS */
    TL_ETCD_TTL,    /**< ARRAY: s that are left (-1: there is no such lease), s granted */
    TL_ETCD_TXN, /**< ARRAY: 1 or 0, the revision, and for each request in it: of a range an ARRAY,
                     *   INT count and then keys; of others NIL. A key is an ARRAY as of tl_etcd_key_item */
    TL_ETCD_RANGE, /**< the same, as of a transaction of one range */
    TL_ETCD_FREE,  /**< the same, of the keys that were deleted */
    TL_ETCD_AUTH,  /**< STRING */
    TL_ETCD_STATUS, /**< ARRAY: version, leader, member, bytes of data, 1 for a learner, bytes in use, cluster */
    TL_ETCD_ALARMS,  /**< ARRAY of ARRAY: member, which */
    TL_ETCD_MEMBERS, /**< ARRAY of ARRAY: member, name, a URL for clients, 1 for a learner */
    TL_ETCD_WATCH    /**< of a stream: ARRAY as of tl_etcd_watch_item */
} tl_etcd_kind;

enum {
    TL_ETCD_SUCCEEDED,
    TL_ETCD_REVISION,
    TL_ETCD_RESPONSES, /**< the first of those behind */
    TL_ETCD_JOINED     /**< of a renewal that was joined with others: the lease, INT */
};

enum { TL_ETCD_KEY, TL_ETCD_VALUE, TL_ETCD_CREATED, TL_ETCD_CHANGED, TL_ETCD_LEASE };

/** INT watch id, INT 1: created, INT 1: canceled, INT deletions told, INT revision. */
enum { TL_WATCH_ID, TL_WATCH_CREATED, TL_WATCH_CANCELED, TL_WATCH_DELETED, TL_WATCH_REVISION };

/** How it is said. */
typedef struct {
    tl_bytes host;   /**< "host:port" */
    tl_bytes prefix; /**< what stands before all keys; it may be empty */
    tl_bytes token;  /**< of a login; n 0: none */
    int64_t timeout_ms;
} tl_etcd_via;

#define TL_ETCD_OPS_MAX 128 /**< comparisons in a transaction, as etcd is set up usually */
#define TL_ETCD_KEEPS_EACH 4

tl_etcd_kind tl__etcd_kind(const tl_command *command);

/** The bytes of the request; returns how many, and writes only if they fit. */
size_t tl__etcd_encode(const tl_command *command, const tl_etcd_via *via, char *to, size_t size);

/** A stream of deletions: `count` keys, each from its revision on, under watch ids 1 and up. The same. */
typedef struct {
    tl_bytes key;     /**< without the prefix */
    int64_t revision; /**< told from it on; 0: from now on */
} tl_etcd_watched;
size_t tl__etcd_encode_watch(const tl_etcd_watched *watched, size_t count, const tl_etcd_via *via,
                             char *to, size_t size);

/* An error is told as ERROR "ETCD code message". Codes are gRPC's; -1: no gateway of etcd's has answered so. */
#define TL_ETCD_ERROR "ETCD "

#define TL_ETCD_UNAUTHENTICATED 16

/** Take one apart. */
int tl__etcd_error(tl_bytes error, tl_bytes *ret_message);

/** Was it certainly not executed? All else may have been, or may be yet. */
bool tl__etcd_is_definite(int code);

/** Certainly not, because of what is in it: another of its keys may be well? */
bool tl__etcd_is_of_request(tl_bytes error);

/** Does the message say that users have changed since the login? */
bool tl__etcd_is_login_outdated(tl_bytes message);
/** Must whoever asked log in anew, at the same member? */
bool tl__etcd_wants_login(tl_bytes error);

/** Is another member the one to ask, or has the login run out? A learner's refusal is definite from 3.5 on. */
bool tl__etcd_asks_elsewhere(tl_bytes error);
