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
 * For the caller it works as in Java: lock() returns true or false at once, a lock lasts 60 s, and
 * release() is harmless when there is nothing to release. On the server it is tidelock's bridge
 * protocol, or by option the timestamp protocol: the key holds what the Java class writes and
 * reads. But it never deletes or overwrites a lock that may be another client's.
 *
 * Threads. Any thread may use a handle. A handle records each hold separately, where the Java class
 * has one flag for all keys. A hold belongs to its thread: tl_dlu_release by another thread changes
 * nothing. So a `release` in a clean-up path, after a lock() that returned false, is harmless. If
 * one thread acquires a lock and another releases it, use tl_dlu_release_any; see there what it
 * can't know.
 *
 * A lock is not renewed: it ends 60 s after the acquire, released or not. So a forgotten lock
 * blocks others no longer than one of the Java class. The holder may rely on less, because clocks
 * may differ: with the defaults, on 46.9 s. Work that takes longer needs a tl_lock, which is
 * renewed while it is held; its option max_hold_ms limits that.
 *
 * A handle belongs to the process that opened it: after a fork the child cannot use it, and opens
 * its own. It never prints or exits, and two handles share nothing. For more, see MIGRATION.md in
 * share/doc/tidelock.
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
 * Make a handle, with the bridge protocol and the defaults of tl_legacy_options: clock_skew_max_ms
 * 1 s, legacy_delay_max_ms 500 ms, locks of 60 s. Where Java can take longer than 500 ms from its clock
 * read to its GETSET (three socket time-outs and a pause), use tl_dlu_open_with. No I/O.
 *
 * url      as in tl_client_options; NULL is local:
 * returns  NULL on failure: TL_EINVALID, TL_ENOMEM
 */
tl_dlu *tl_dlu_open(const char *url, tl_error *err);

/**
 * Make a handle with other options; otherwise as tl_dlu_open. The options must name the protocol:
 * TL_BRIDGE, TL_TIMESTAMP or TL_AUTO. TL_TOKEN, which is also the value of an unset protocol, is
 * rejected with TL_EINVALID: these handles lock by stamps, or by the phase. A service that locks by
 * tokens uses tl_client_open and tl_lock. Locks last legacy_ttl_min_ms. Options that leave no
 * validity are also rejected: TL_EINVALID.
 *
 * options  NULL is tl_dlu_open(NULL)
 */
tl_dlu *tl_dlu_open_with(const tl_client_options *options, tl_error *err);

/**
 * Close a handle, when no thread is in a call. Locks that are held are not released, because their
 * work may still go on: they expire. Blocks at most attempt_ms. NULL is allowed.
 */
void tl_dlu_close(tl_dlu *dlu);

/**
 * Acquire the lock for 60 s if it is free. Only a return of true means that it was acquired. Sends
 * one request to the server; none if this handle already holds the key. Blocks at most connect_ms +
 * attempt_ms.
 *
 * key  text, 1..TL_KEY_MAX bytes; exactly the key of the Java services
 * err  on false; may be NULL:
 *     TL_EBUSY         another client holds it, or this handle does
 *     TL_EUNCERTAIN    no reply in time. If the request takes effect it is undone in the
 *                      background; at the latest the lock expires
 *     TL_EUNAVAILABLE  the server was not reached; or, in a cluster, the key's slot is being moved
 *     TL_EUNSUPPORTED  the server has no EVAL, which the bridge needs: choose TL_TIMESTAMP
 *     TL_ECLOCK        clock_guard is TL_GUARD_REFUSE, and a clock is too far off
 *     TL_EINVALID      the key is invalid, or (TL_AUTO) matches no namespace; or after a fork
 *     TL_EDENIED, TL_ESERVER, TL_ENOMEM
 */
bool tl_dlu_lock(tl_dlu *dlu, const char *key, tl_error *err);

/**
 * Acquire the lock, and wait for it: as tl_dlu_lock, instead of a loop of lock() and sleep(). It
 * also waits for another thread of the same handle, and for a hold of the calling thread until that
 * expires.
 *
 * wait_ms  0 is tl_dlu_lock; TL_FOREVER waits without limit. Blocks at most this long
 * err      also TL_ETIMEDOUT: others held it for the whole wait
 */
bool tl_dlu_lock_wait(tl_dlu *dlu, const char *key, int64_t wait_ms, tl_error *err);

/**
 * Release the lock if this thread locked it. Otherwise nothing is sent, and nothing changes. The
 * result may be ignored, as it calls for no action: it says whether the lock lasted until the
 * release. Blocks at most attempt_ms.
 *
 * TL_OK            it was ours until now, unless a client deleted it, and another locked it within
 *                  clock_skew_max_ms of us
 * TL_EINVALID      this thread doesn't hold it, or its hold expired so long ago that it was
 *                  forgotten: with the defaults at least 46.9 s, since it expired or since this
 *                  handle locked the key again
 * TL_EEXPIRED      it expired or was deleted, and no other holder is known
 * TL_ETAKEN        it had expired, or a client whose clock is off overwrote it; another holds it
 * TL_EUNCERTAIN    no reply in time; it is tried again in the background, and the lock expires
 * TL_EUNAVAILABLE  the same, with nothing sent yet
 */
tl_err tl_dlu_release(tl_dlu *dlu, const char *key, tl_error *err);

/**
 * As tl_dlu_release, for a lock that any thread of this handle has locked. If the calling thread
 * has locked the key itself, its own lock is meant. Where a lock has expired without a release and
 * this handle, or this thread, has locked the key again, the handle can't know which of both is
 * meant: this ends the expired one first, with TL_ETAKEN or TL_EEXPIRED, and the next call ends the
 * later one. So a late release leaves the successor's lock. But:
 *
 * - If the expired lock is never released, the later one stays locked until it expires.
 * - The expired one counts for no longer than the lock lasts that came after it. A release that is
 *   later than that ends the lock of another thread, which may still work: stop when
 *   tl_dlu_remaining_ms is 0, or use tl_dlu_release.
 */
tl_err tl_dlu_release_any(tl_dlu *dlu, const char *key, tl_error *err);

/** Milliseconds for which this thread certainly holds the key; 0 when it doesn't. A lock of another
 *  thread doesn't count: it may be the next holder's. Does not block. */
int64_t tl_dlu_remaining_ms(tl_dlu *dlu, const char *key);

#ifdef __cplusplus
}
#endif

#endif
