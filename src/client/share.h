/*
 * A connection that many callers use at a time. With more than a few callers, each system call and each
 * wake-up costs more than its request. So callers queue their requests here, and one thread writes for all
 * and reads for all. Of the waiting callers one, the poller, polls the connection. The others look for their
 * own replies, and sleep if that takes long.
 *
 * A larger crowd is split into up to TL_SHARES_MAX groups, each with its own connection. The callers of a
 * group are answered together: with a single group the server would be idle while they make new requests.
 *
 * All of it is under the share's mutex. So is the step that follows a reply; the thread that has
 * read the reply runs it.
 */
#pragma once

#include "client/client.h"

/** A caller, as long as it has something in flight here. All but `answered` and `waiter` begins as zero. */
typedef struct tl_sharer {
    /** One of its requests was answered, or has failed. */
    void (*answered)(struct tl_sharer *sharer, const tl_answer *answer);
    tl_waiter *waiter;   /**< wakes it; NULL: it borrows one when it sleeps */
    unsigned in_flight;  /**< requests that are not answered yet */
    atomic_bool news;    /**< something was answered since the caller looked last */
    tl_mono ready_since; /* with news: when it came, and its place in the list of those */
    struct tl_sharer *ready_next, **ready_at;
    tl_waiter *sleeps;        /* while it sleeps: wakes it; NULL: it is awake */
    struct tl_sharer *behind; /* in the list of sleepers, which doesn't include the poller */
} tl_sharer;

typedef struct tl_share tl_share;

/** If so many callers ask at a time that they should share: a share, with its mutex locked. NULL: the caller
 *  should use its own connection; or no memory. */
tl_share *tl__share_enter(tl_node *node);

/** Leave the share and unlock its mutex; a reply that is still to come is ignored. */
void tl__share_leave(tl_share *share, tl_sharer *sharer);

/** Queue a request; it is written a little later, with those of others. TL_ENOMEM, TL_EUNAVAILABLE */
tl_err tl__share_send(tl_share *share, tl_sharer *sharer, const tl_send *send, tl_mono now);

/** Unlock the mutex until a request of the sharer is answered, bits are posted to its waiter, or `until`. It
 *  may return early. */
void tl__share_await(tl_share *share, tl_sharer *sharer, tl_mono until);

tl_conn *tl__share_conn(const tl_share *share);
tl_node *tl__share_node(const tl_share *share);

/** Nobody uses it any more. NULL is fine. */
void tl__share_free(tl_share *share);
