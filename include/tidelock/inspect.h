/*
 * Looking at locks of any client: at one key, at its queue, or through all keys of a server. And
 * removing the lock of a holder that is known to be dead. No function here acquires a lock.
 */
#ifndef TIDELOCK_INSPECT_H
#define TIDELOCK_INSPECT_H

#include <tidelock/tidelock.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The state of a key. Text from the server is cut to fit and has control bytes replaced by '?'. */
typedef struct {
    size_t size; /**< sizeof(tl_lock_info), set by the caller */
    bool held;   /**< by any client, tidelock's or not */
    /** The holder is a tidelock client. Otherwise only `value` is known, as also before the first
     *  renewal of a tidelock client, which comes within a second */
    bool by_tidelock;
    int64_t remaining_ms; /**< until the server frees the key; -1: never, or unknown */
    /** by_tidelock: the holder's number, or up to 49 more if the lock is handed over within a
     *  process; no holder so far had a larger one. Otherwise the last number that was noted: later
     *  holders may have had a larger one. 0 unknown */
    uint64_t fence;
    int64_t held_ms; /**< for how long, since it was acquired; -1 unknown */
    char value[64];  /**< the value of the key; of a lock that rests without the time in it */
    char host[256];
    char service[64];
    int64_t pid;  /**< 0 unknown */
    int protocol; /**< a tl_protocol_id; -1: free, or unknown */
    bool guessed; /**< the dialect is a guess, from how the value looks; so is the protocol, unless
                           by_tidelock */
    char dialect[24]; /**< of a stamp; "" when it is none */
    /** Until the end that a stamp names, by the server's clock; negative: it has passed; INT64_MIN:
     *  no such end. */
    int64_t stamp_left_ms;
    char oddity[96]; /**< what is odd about the value, for a person; "" nothing */
    /** When a client of stamps may acquire the lock of a stamp: the server's clock, ms since the
     *  epoch; -1: not known */
    int64_t free_at_ms;
    /** The waiters: the entries of the queue, and the connections that listen for the release
     *  instead; -1: not known. An entry is one process, or with `fair` one waiter; a dead one
     *  counts until its turn comes. Clients that only ask again and again are not seen: other
     *  libraries, and tidelock clients with a retry strategy other than TL_RETRY_AUTO, until they
     *  listen. */
    int64_t waiters;
    int64_t in_line; /**< of these the entries of the queue; -1: not known */
    /** held: nobody holds the lock, but it is taken, since it rests (tl_lock_rest). by_tidelock:
     *  fence, host, service and pid are those of the last holder, and held_ms is -1 */
    bool rests;
    int64_t rested_ms; /**< rests: for how long; -1 unknown */
    /** rests: until when by the server's clock, ms since the epoch; -1 unknown */
    int64_t rest_end_ms;
    /** Only the key's value was read: with strict (legacy.h), while its slot is being moved, or
     *  from a server that runs no scripts. So its holder may be a tidelock client although
     *  by_tidelock is false */
    bool value_only;
} tl_lock_info;

/*
 * Stamps (see legacy.h). A client with TL_BRIDGE or TL_TIMESTAMP reads them in its own dialect. It
 * reports a lock as free when it would acquire it; remaining_ms is the time until then. To a client
 * with TL_TOKEN any stamp is held, and never freed; its dialect is a guess.
 *
 * On etcd a lock K is a range of keys. Its contenders are the keys K/LEASE (hexadecimal, under that
 * lease), which etcd's own Mutex writes, and the keys of tidelock, with their owner as the value.
 * Any other key below K blocks the lock, as it blocks the Mutex. Then held is true, protocol is -1,
 * and oddity names that key, or the lock below K's name: a lock a/b that is held blocks a.
 */

/**
 * Look at a key without touching it. Blocks at most connect_ms + attempt_ms.
 *
 * TL_EINVALID, TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 */
tl_err tl_client_look(tl_client *client, const void *key, size_t key_len, tl_lock_info *ret_info,
                      tl_error *err);

/** A queued waiter, by its own account: text is cut to fit, control bytes are replaced by '?'. */
typedef struct {
    size_t size;       /**< how much of it the library has filled in */
    int64_t place;     /**< its rank in the queue; 1: it is next */
    int64_t waited_ms; /**< since the server first saw it; -1 unknown */
    bool fair;   /**< a waiter with `fair`; else a process, perhaps with more waiters behind it */
    int64_t pid; /**< 0 unknown */
    char host[256];
    char service[64];
} tl_waiting;

/** Called for each waiter, in order, on the thread that looks. It must not call the library. w is
 *  valid during the call. */
typedef void (*tl_waiting_fn)(const tl_waiting *w, void *ctx);

#define TL_LINE_MOST 1000 /**< tl_client_look_line reports no more waiters than this */

/**
 * Look at a key and its queue: as tl_client_look, and report the first waiters, as the server saw
 * both at one moment. A waiter that was granted the lock is its holder, and is no longer queued.
 *
 * most  how many waiters to report, TL_LINE_MOST at most; ret_info->in_line says how many there are
 */
tl_err tl_client_look_line(tl_client *client, const void *key, size_t key_len,
                           tl_lock_info *ret_info, uint32_t most, tl_waiting_fn on_waiting,
                           void *ctx, tl_error *err);

/**
 * Called for each lock that a scan finds, on the scanning thread, during the scan. It must not call
 * the library. key and info are valid during the call.
 */
typedef void (*tl_found_fn)(const void *key, size_t key_len, const tl_lock_info *info, void *ctx);

/**
 * Go one step through the keys of the server, about a hundred of them, and report those that look
 * like locks. These are strings with a sidecar of tidelock's, stamps, random tokens with a
 * lifetime, and known accidents of legacy clients. A lock that exists during all of the scan is
 * reported once or twice; one that comes or goes meanwhile, perhaps. A server of millions of keys
 * takes many steps, each of which blocks it for less than a millisecond. Not for locks whose keys
 * are on different nodes.
 *
 * pattern  a glob as SCAN of Redis has it; NULL: any key. A pattern that servers read differently
 *          is refused: a '[' without ']', a '\' at the end, a range of bytes beyond ASCII
 * cursor   0 to begin with; 0 again when the scan is complete
 *
 * Needs EVAL and SCAN: Redis 2.8 or newer. Blocks at most connect_ms + attempt_ms.
 *
 * TL_EINVALID, TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 */
tl_err tl_client_scan(tl_client *client, const char *pattern, uint64_t *cursor, tl_found_fn found,
                      void *ctx, tl_error *err);

/**
 * Remove the lock of any holder, or end its rest. The key is deleted, and the sidecar keeps "host
 * pid service" of the caller in its field `broken`. A holder that is a tidelock client finds the
 * lock lost at its next renewal. The holder may still be at work: call this only when you know that
 * it isn't.
 *
 * seen  the result of tl_client_look, so that no later lock is removed; NULL: any
 *
 * TL_OK          removed
 * TL_EEXPIRED    nobody held it
 * TL_ETAKEN      another holder has it than the one that was seen; not removed
 * TL_EINVALID    the key is no lock; or, with seen NULL on etcd, its first key is no contender; not
 *                removed
 * TL_EUNCERTAIN  sent, no reply seen
 * TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 *
 * Needs EVAL; or WATCH, MULTI and EXEC, though not in a cluster. Blocks at most connect_ms +
 * attempt_ms.
 */
tl_err tl_client_break(tl_client *client, const void *key, size_t key_len, const tl_lock_info *seen,
                       tl_error *err);

#ifdef __cplusplus
}
#endif

#endif
