/*
 * A connection that many callers use at a time. Past a few of them each system call and each wake-up costs
 * more than the request that it is for. So callers leave their requests here, and whoever comes next writes what all
 * have left, and reads for all. One of those who wait, the poller, watches the connection; the others watch for
 * their own answers, and sleep if that takes long.
 *
 * A larger crowd goes in groups, each with its connection, up to TL_SHARES_MAX: all of one are answered together, so
 * that the server would have nothing to do while they make their next requests.
 *
 * All of it is under the mutex, and so is what an answer leads to, which is run by whichever thread has read it.
 */
#pragma once

#include "client/client.h"

/** A caller, as long as it has something in flight here. Zeroed but for `answered` and `waiter`. */
typedef struct tl_sharer {
    /** One of its requests has been answered. */
    void (*answered)(struct tl_sharer *sharer, const tl_answer *answer);
    tl_waiter *waiter;        /**< by which it is woken; NULL: it borrows one, should it sleep */
    unsigned in_flight;       /**< requests without an answer yet */
    atomic_bool news;         /**< something was answered */
    tl_waiter *sleeps;        /* by which it is to be woken now; NULL: it is awake */
    struct tl_sharer *behind; /* of those who sleep, but for the poller */
} tl_sharer;

typedef struct tl_share tl_share;

/** Where so many ask at a time that they had better share: a connection for that, with its mutex held. NULL: it
 *  is better to have one of one's own. */
tl_share *tl__share_enter(tl_node *node);

/** Leave it, and its mutex: an answer that is still to come is nobody's. */
void tl__share_leave(tl_share *share, tl_sharer *sharer);

/** Send a request; it is written a little later, with those of others. TL_ENOMEM, TL_EUNAVAILABLE */
tl_err tl__share_send(tl_share *share, tl_sharer *sharer, const tl_send *send, tl_mono now);

/** Let the mutex go until something of the sharer's is answered, something is posted to its waiter, or that
 *  long. It may return early. */
void tl__share_await(tl_share *share, tl_sharer *sharer, tl_mono until);

tl_conn *tl__share_conn(const tl_share *share);
tl_node *tl__share_node(const tl_share *share);

/** Nobody uses it any more. NULL is fine. */
void tl__share_free(tl_share *share);
