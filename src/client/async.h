/*
 * Operations that go on without a caller that blocks: the keeper runs them.
 */
#ifndef TL_ASYNC_H
#define TL_ASYNC_H

struct tl_lock;

/** Cancel the acquire that is in flight, if there is one. Any thread. */
void tl__async_cancel(struct tl_lock *lock);

/** The lock is being freed: what is in flight is given up, and cleaned up in the background; nobody
 *  is called. */
void tl__async_abandon(struct tl_lock *lock);

#endif
