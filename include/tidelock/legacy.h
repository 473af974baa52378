/*
 * Sharing locks with legacy clients: those that keep the end of a lock's lifetime in its key, an expiry
 * timestamp (short: stamp), and compare it with their own clocks (SETNX, GET, GETSET: DistributeLockUtil,
 * jedis-lock, old redis-py and their like). A program whose locks are all tokens needs nothing of this.
 *
 *     tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 250);
 *     tl_client_options co = TL_CLIENT_OPTIONS(.url = "redis://10.0.0.5", .protocol = TL_BRIDGE,
 *                                              .legacy = &legacy);
 *
 * The protocols, of which tl_client_options.protocol names one:
 *
 *   TL_BRIDGE     The key holds a stamp, as legacy clients write and read it, and beside it stands what
 *                 keeps tidelock's own locks apart. Needs EVAL: Redis 2.6 or newer. A legacy client's DEL or
 *                 overwriting is known at once from Redis 6 on; from 2.8 on too where
 *                 notify-keyspace-events has K, g, $ and x; else by the next renewal or poll.
 *   TL_TIMESTAMP  The same; on servers without EVAL by WATCH, MULTI and EXEC, or by SETNX, GET, GETSET and DEL
 *                 alone: then without fence or renewal, and this host's clock counts too.
 *   TL_AUTO       Whatever the phase says that the key's namespace is in: `tidelock migrate` leads from
 *                 stamps to tokens through them.
 *
 * M is clock_skew_max_ms, L legacy_delay_max_ms and T legacy_ttl_min_ms below. They must be true of every
 * legacy client, or a lock can be held twice. What they cost:
 *
 *   - tl_lock_options.ttl_ms is T by default; it is more than 2 M + 2 L, and at most 2 T - 3 M - 2 L.
 *   - A lifetime counts for M less; and until L after the take for no more than T - 2 M - L from the take. In the
 *     dialect ms-pipe it counts for M + L less, and at any time for no more than T - 2 M - 2 L from the
 *     renewal. tl_lock_extend obeys the same.
 *   - While the server's memory is full (maxmemory, noeviction) no stamp is renewed, as that writes another one: a lock is
 *     TL_LOST when its lifetime is over. A token, of which only the lifetime changes, is renewed all the same.
 *   - tl_lock_acquire can fail with TL_ECLOCK: clock_guard is TL_GUARD_REFUSE and a clock is too far
 *     off, or the clock shows a time before 2001-09-09, which no legacy client reads as one; and with
 *     TL_EDENIED (TL_AUTO): the register of the phase has gone, or gone back.
 *
 * In a Redis Cluster (redis+cluster:) locks are shared by TL_BRIDGE and TL_TIMESTAMP, by EVAL alone: with strict locks are looked
 * at there, and tl_lock_new says TL_EINVALID; TL_AUTO isn't opened. M is how far a host's clock may be from that of any node, L
 * counts with all that a legacy client is led about, and no slot is opened again sooner than L after it was moved: what an
 * ASK has led on makes a key where its slot isn't any more. A change of the key is known by the next renewal or poll.
 * While a slot is open a held lock is renewed, released and known to be lost, and none is acquired. A key ends by itself 2 s
 * after its stamp is free for everybody.
 */
#ifndef TIDELOCK_LEGACY_H
#define TIDELOCK_LEGACY_H

#include <tidelock/tidelock.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What to do when a clock is found to be too far off for locks that are shared with legacy clients. */
typedef enum {
    TL_GUARD_WARN = 0,   /**< log it, once a minute at most */
    TL_GUARD_REFUSE = 1, /**< acquire nothing: TL_ECLOCK */
    TL_GUARD_OFF = 2
} tl_clock_guard;

/**
 * What is true of the legacy clients that share locks with a client, or, of `dialect` alone, with one
 * lock. Refused with TL_TOKEN, which shares no lock with them. Every member but size may stay 0 and
 * then has the default in brackets.
 */
typedef struct tl_legacy_options {
    size_t size;               /**< sizeof(tl_legacy_options); TL_LEGACY_OPTIONS sets it */
    int64_t clock_skew_max_ms; /**< M: how far any of their hosts' clocks may be from the server's,
                                      either way, for every server that may ever answer [1000] */
    int64_t
        legacy_delay_max_ms; /**< L: the longest time from a legacy client's reading its clock to the
                                      execution of its GETSET; in the dialect ms-pipe to its comparing what
                                      GETSET answered with its clock [clock_skew_max_ms / 2] */
    int64_t legacy_ttl_min_ms; /**< T: the shortest lifetime that any of them uses: 3 M + 2 L to a
                                      day [60000] */
    /** How they write and read the end of a lifetime: a name, or for some keys another:
     *  "cron:*=redis-doc,java". See `tidelock help dialects`. A pattern here, and in namespaces, means
     *  what it means to SCAN of the server (* ? [a-z] [^a] \x); a comma in it is written "\,". What
     *  servers don't all read alike is refused: a '[' without ']', a '\' at the end, a range of bytes
     *  beyond ASCII. Of a lock: for its key, instead of the client's [java] */
    const char *dialect;
    /** Whose phase counts for which names (TL_AUTO): "cron:*=cron,jobs:*=default": the first that fits,
     *  four at most; other names are refused. A pattern should be that of the register, which `tidelock
     *  migrate` looks at; "default" alone is for all names ["default"]. */
    const char *namespaces;
    /** How long a phase that was read may be acted by, at most (TL_AUTO); the register can say less
     *  [30000]. */
    int64_t phase_lease_ms;
    tl_protocol_id
        fallback; /**< TL_AUTO, while a namespace has no register: TL_BRIDGE or TL_TIMESTAMP
                                  [TL_BRIDGE] */
    /** When this host's clock is provably further than clock_skew_max_ms from the server's, or (TL_AUTO)
     *  `tidelock skew --publish` has found the namespace UNSAFE, or what it published can't be read
     *  [TL_GUARD_WARN]. A server before 2.6 doesn't tell its time, and strict doesn't ask for it: then nothing
     *  is ever proved, and strict refuses TL_GUARD_REFUSE. */
    tl_clock_guard clock_guard;
    bool strict; /**< TL_TIMESTAMP: SETNX, GET, GETSET and DEL alone, whatever the server can */
} tl_legacy_options;

/* Options by name, as TL_CLIENT_OPTIONS. */
#ifdef __cplusplus
static inline tl_legacy_options TL_LEGACY_OPTIONS() {
    tl_legacy_options o = tl_legacy_options();
    o.size = sizeof o;
    return o;
}
#else
#define TL_LEGACY_OPTIONS(...) ((tl_legacy_options){.size = sizeof(tl_legacy_options), __VA_ARGS__})
#endif

/** How legacy clients write the end of a lifetime. */
typedef struct {
    size_t size;         /**< sizeof(tl_dialect_info), set by the caller */
    const char *name;    /**< for the option `dialect` */
    const char *seen_in; /**< which clients do so */
    const char *unit;    /**< "ms", "s" or "s, decimals" */
    char example[80];    /**< what such a client writes for a lock that ends at end_ms */
} tl_dialect_info;

/**
 * The dialect number i, from 0; the first is the default.
 *
 * end_ms   of the example, ms since the epoch
 * returns  false after the last one, and for a size that can't be
 */
bool tl_dialect_at(unsigned i, int64_t end_ms, tl_dialect_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
