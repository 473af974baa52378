/*
 * A stand-in for the Java class DistributeLockUtil, for C services that share its locks with it:
 *
 *     tl_error err;
 *     tl_dlu *locks = tl_dlu_open("redis://10.0.0.5", &err);
 *     if (!locks)
 *         die(err.message);
 *     if (tl_dlu_lock(locks, "jobs:nightly", NULL)) {
 *         while (more_work() && tl_dlu_remaining_ms(locks, "jobs:nightly") > 0)
 *             do_a_little();
 *         tl_dlu_release(locks, "jobs:nightly", NULL);
 *     }
 *     tl_dlu_close(locks);
 *
 * For the caller it is as in Java: lock() says true or false at once, a lock lasts 60 s, and
 * release() is harmless when there is nothing to release. In the server it is tidelock's bridge
 * protocol, or with the options the timestamp protocol: the key holds what the Java class writes and
 * reads, but nothing is deleted or taken over that may be another's.
 *
 * Threads. A handle may be used from any thread, and keeps each hold apart, where the Java class has
 * one flag for all keys. A hold is its thread's: tl_dlu_release of another thread changes nothing, so that
 * a `release` in a clean-up path, after a lock() that said false, is as harmless as it looks. A lock
 * that one thread takes and another gives back needs tl_dlu_release_any.
 *
 * A lock is not renewed: it ends 60 s after the take, whether it is released or not, so that one that
 * is forgotten blocks nobody for longer than one of the Java class. Its holder counts on less of it,
 * by what clocks may be off: with the defaults on 46.9 s. Work that takes longer needs a tl_lock,
 * which is renewed while it is held, with a limit to that, max_hold_ms.
 *
 * A handle belongs to the process that opened it: after a fork the child has nothing of it, and opens
 * its own. It never prints or exits, and two handles share nothing. MIGRATION.md, in share/doc/tidelock, tells
 * the rest.
 */
#ifndef TIDELOCK_DISTRIBUTE_LOCK_UTIL_H
#define TIDELOCK_DISTRIBUTE_LOCK_UTIL_H

#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tl_dlu tl_dlu;

/**
 * Make a handle, with the bridge protocol and the defaults of tl_legacy_options: clock_skew_max_ms 1 s,
 * legacy_delay_max_ms 500 ms, locks of 60 s. No I/O.
 *
 * url      as in tl_client_options; NULL is local:
 * returns  NULL on failure: TL_EINVALID, TL_ENOMEM
 */
tl_dlu *tl_dlu_open(const char *url, tl_error *err);

/**
 * Make a handle with options of one's own, else as tl_dlu_open. They must say which protocol: TL_BRIDGE, TL_TIMESTAMP or
 * TL_AUTO. TL_TOKEN, which is also what is there when nothing is said, is refused: the drop-in locks by stamps, or as the phase
 * says, and a service that locks by tokens uses tl_client_open and tl_lock. Locks last legacy_ttl_min_ms. Options that leave no
 * validity are refused here, too: TL_EINVALID.
 *
 * options  NULL is tl_dlu_open(NULL)
 */
tl_dlu *tl_dlu_open_with(const tl_client_options *options, tl_error *err);

/**
 * Close a handle, when no thread is in a call any more. What is held is not released, but expires by
 * itself: its work may still go on. Blocks at most attempt_ms. NULL is fine.
 */
void tl_dlu_close(tl_dlu *dlu);

/**
 * Acquire the lock if it is free, for 60 s: only true is a yes. Asks the server once; where this handle
 * holds the key already, not at all. Blocks at most connect_ms + attempt_ms.
 *
 * key  text, 1..TL_KEY_MAX bytes; exactly the key of the Java services
 * err  when false, may be NULL:
 *      TL_EBUSY         another holds it, or this handle does
 *      TL_EUNCERTAIN    no answer in time. If the request takes effect it is undone in the
 *                       background, at the latest by the lock's expiry
 *      TL_EUNAVAILABLE  the server was not reached; or, in a cluster, the key's slot is being moved
 *      TL_EUNSUPPORTED  no EVAL there, which the bridge needs: choose TL_TIMESTAMP
 *      TL_ECLOCK        clock_guard is TL_GUARD_REFUSE, and a clock is too far off
 *      TL_EINVALID      the key can't be, or (TL_AUTO) no namespace has it; or after a fork
 *      TL_EDENIED, TL_ESERVER, TL_ENOMEM
 */
bool tl_dlu_lock(tl_dlu *dlu, const char *key, tl_error *err);

/**
 * Acquire the lock, and wait for it: as tl_dlu_lock, in place of a loop around lock() and sleep(). Also for another thread
 * of the same handle, and for a hold of the caller's own until that expires.
 *
 * wait_ms  0 is tl_dlu_lock; TL_FOREVER waits without limit. Blocks at most this long
 * err      also TL_ETIMEDOUT: another held it all the time
 */
bool tl_dlu_lock_wait(tl_dlu *dlu, const char *key, int64_t wait_ms, tl_error *err);

/**
 * Release what this thread has locked. Otherwise nothing is sent, and nothing changes. The result
 * may be ignored, as there is nothing left to do: it says whether the lock was there to the end.
 * Blocks at most attempt_ms.
 *
 * TL_OK            it was ours until now
 * TL_EINVALID      this thread doesn't hold it, or the handle has forgotten a hold that expired
 * TL_EEXPIRED      it expired or was deleted, and nobody is known to have it
 * TL_ETAKEN        it had expired, or was taken by a client whose clock is off; another has it
 * TL_EUNCERTAIN    no answer in time; it is tried again in the background, and expires by itself
 * TL_EUNAVAILABLE  the same, with nothing sent yet
 */
tl_err tl_dlu_release(tl_dlu *dlu, const char *key, tl_error *err);

/** Release it as tl_dlu_release, whichever thread of this process has locked it. */
tl_err tl_dlu_release_any(tl_dlu *dlu, const char *key, tl_error *err);

/** Milliseconds for which this handle certainly holds the key, by whichever thread; 0 when it
 *  doesn't. Does not block. */
int64_t tl_dlu_remaining_ms(tl_dlu *dlu, const char *key);

#ifdef __cplusplus
}
#endif

#endif
