/*
 * Sharing locks with legacy clients. These store the end of a lock's lifetime in its key, an expiry
 * timestamp (short: stamp). They compare it with their own clocks, by SETNX, GET and GETSET.
 * Examples are DistributeLockUtil, jedis-lock and old redis-py. A program whose locks are all
 * tokens doesn't need this header.
 *
 *     tl_legacy_options legacy = TL_LEGACY_OPTIONS(.clock_skew_max_ms = 250);
 *     tl_client_options co = TL_CLIENT_OPTIONS(.url = "redis://10.0.0.5", .protocol = TL_BRIDGE,
 *                                              .legacy = &legacy);
 *
 * The protocols, of which tl_client_options.protocol names one:
 *
 *   TL_BRIDGE     The key holds a stamp, as legacy clients write and read it. A second key, the
 *                 sidecar, names tidelock's own holder. Needs EVAL: Redis 2.6 or later. The
 *                 client is notified at once when a legacy client deletes or overwrites the key,
 *                 from Redis 6 on; from 2.8 on, too, where notify-keyspace-events has K, g, $ and
 *                 x. Otherwise it learns that at its next renewal or poll.
 *   TL_TIMESTAMP  The same. On servers without EVAL the client uses WATCH, MULTI and EXEC. On
 *                 servers without those, or with strict, it uses only SETNX, GET, GETSET and DEL:
 *                 then there is no fence and no renewal. In both cases this host's clock counts,
 *                 too.
 *   TL_AUTO       The protocol of the phase in which the key's namespace is: `tidelock migrate`
 *                 changes the phases, from stamps to tokens.
 *
 * M is clock_skew_max_ms, L is legacy_delay_max_ms and T is legacy_ttl_min_ms below. They must be
 * true of every legacy client: otherwise two clients can hold a lock at once. They have these
 * effects:
 *
 *   - tl_lock_options.ttl_ms is T by default. It is more than 2 M + 2 L, and at most
 *     2 T - 3 M - 2 L.
 *   - A lifetime counts for M less. Until L after the acquire it counts for no more than
 *     T - 2 M - L from the acquire. In the dialect ms-pipe it counts for M + L less, and at any
 *     time for no more than T - 2 M - 2 L from the renewal. The same holds for tl_lock_extend.
 *   - In the dialects py-float and php-s some legacy clients round their clock down to seconds, and
 *     others do not. So a lock counts for 1 s less until L after the acquire, its lifetime is at
 *     most 2 s less, and T is at least 3 M + 2 L + 2 s.
 *   - While the server's memory is full (maxmemory, noeviction) no stamp is renewed, since a
 *     renewal writes another one: a lock is TL_LOST when its lifetime ends. A token, of which only
 *     the lifetime changes, is renewed all the same.
 *   - A lock that rests (tl_lock_rest) has a stamp that ends M after the rest, so that no legacy
 *     client acquires it earlier. It rests only when L has passed since the acquire: the release
 *     waits for that. On a server without EVAL the release fails with TL_EUNSUPPORTED, and the
 *     lock expires by itself; with will_rest_ms the acquire fails instead. With strict, and in the
 *     dialect ms-pipe, no lock can rest.
 *   - tl_lock_acquire can fail with TL_ECLOCK: clock_guard is TL_GUARD_REFUSE and a clock is too
 *     far off, or the clock shows a time before 2001-09-09, which no legacy client reads as one.
 *     With TL_AUTO it can fail with TL_EDENIED: the register of the phase was deleted, or went back
 *     to an earlier state.
 *
 * In a Redis Cluster (redis+cluster:) TL_BRIDGE and TL_TIMESTAMP share locks, by EVAL alone. With
 * strict a program can only look at locks there: tl_lock_new fails with TL_EINVALID. These differ
 * there:
 *
 *   - M is how far a host's clock may be from that of any node. L includes all redirections of a
 *     legacy client.
 *   - No slot may be opened again sooner than L after it was moved. Otherwise a request that
 *     follows an ASK could create a key on a node that no longer has its slot.
 *   - The client learns of a change of the key at its next renewal or poll.
 *   - While a slot is open a held lock is renewed and released, and its loss is noticed; none is
 *     acquired. A lock that is to rest does so when the slot has moved.
 *   - A key expires 2 s after its stamp is free for all clients.
 *   - TL_AUTO: each slot has a register of its own. The server compares it when it executes an
 *     acquire, so there is no lease, and no record of the client. A renewal turns no stamp into a
 *     token. A register that is lost fails no acquire: locks of its slot are stamps. By one that
 *     went back, no token is written that a later epoch, of any slot, forbids. One that can't be
 *     read is TL_ESERVER. The verdict of `tidelock skew --publish` isn't read.
 */
#ifndef TIDELOCK_LEGACY_H
#define TIDELOCK_LEGACY_H

#include <tidelock/tidelock.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The reaction to a clock that is too far off for locks that are shared with legacy clients. */
typedef enum {
    TL_GUARD_WARN = 0,   /**< log it, once a minute at most */
    TL_GUARD_REFUSE = 1, /**< acquire nothing: TL_ECLOCK */
    TL_GUARD_OFF = 2
} tl_clock_guard;

/**
 * The limits of the legacy clients that share locks with a client; of `dialect` alone, with one
 * lock. With TL_TOKEN, which shares no lock with them, they are refused. Every member but size may
 * stay 0 and then has the default in brackets.
 */
typedef struct tl_legacy_options {
    size_t size; /**< sizeof(tl_legacy_options); TL_LEGACY_OPTIONS sets it */
    /** M: how far the clock of any of their hosts may be from the server's, either way, for every
     *  server that may ever answer [1000] */
    int64_t clock_skew_max_ms;
    /** L: the longest time from a legacy client's clock read to the execution of its GETSET. In the
     *  dialect ms-pipe: until it compares the reply of GETSET with its clock [clock_skew_max_ms /
     *  2] */
    int64_t legacy_delay_max_ms;
    /** T: the shortest lifetime that any of them uses: 3 M + 2 L to a day [60000] */
    int64_t legacy_ttl_min_ms;
    /** How they write and read the end of a lifetime: a name, or for some keys another:
     *  "cron:*=redis-doc,java". See `tidelock help dialects`. A pattern here, and in namespaces,
     *  means what it means to SCAN of the server (* ? [a-z] [^a] \x); a comma in it is written
     *  "\,". A pattern that servers read differently is refused: a '[' without ']', a '\' at the
     *  end, a range of bytes beyond ASCII. Of a lock: for its key, instead of the client's [java]
     *  */
    const char *dialect;
    /** The namespace whose phase counts for a name (TL_AUTO): "cron:*=cron,jobs:*=default". The
     *  first pattern that fits counts, four at most; other names are refused. Each namespace is
     *  named once. Its pattern should be that of the register, which `tidelock migrate` looks at;
     *  "default" alone is for all names ["default"]. */
    const char *namespaces;
    /** How long a client may use a phase that it has read, at most (TL_AUTO); the register can say
     *  less [30000]. */
    int64_t phase_lease_ms;
    /** TL_AUTO, while a namespace has no register: TL_BRIDGE or TL_TIMESTAMP [TL_BRIDGE] */
    tl_protocol_id fallback;
    /** The reaction when this host's clock is provably further than clock_skew_max_ms from the
     *  server's. With TL_AUTO also when `tidelock skew --publish` found the namespace UNSAFE, or
     *  its report can't be read [TL_GUARD_WARN]. A server before 2.6 doesn't report its time, and
     *  strict doesn't ask for it: nothing is proved then, and strict refuses TL_GUARD_REFUSE. */
    tl_clock_guard clock_guard;
    /** TL_TIMESTAMP: SETNX, GET, GETSET and DEL alone, although the server has more */
    bool strict;
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
    const char *seen_in; /**< which clients write so */
    const char *unit;    /**< "ms", "s" or "s, decimals" */
    char example[80];    /**< the value of such a client for a lock that ends at end_ms */
} tl_dialect_info;

/**
 * The dialect number i, from 0; the first is the default.
 *
 * end_ms   of the example, ms since the epoch
 * returns  false after the last one, and for a wrong size
 */
bool tl_dialect_at(unsigned i, int64_t end_ms, tl_dialect_info *ret_info);

#ifdef __cplusplus
}
#endif

#endif
