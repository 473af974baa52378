/*
 * Looking at locks, whoever holds them: at one key, through all keys of a server, and removing the lock
 * of a holder that is known to be dead. None of it acquires anything.
 */
#ifndef TIDELOCK_INSPECT_H
#define TIDELOCK_INSPECT_H

#include <tidelock/tidelock.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a key holds. Text from the server is cut to fit and has control bytes replaced by '?'. */
typedef struct {
    size_t size;      /**< sizeof(tl_lock_info), set by the caller */
    bool held;        /**< by anybody, of whatever kind */
    bool by_tidelock; /**< the holder is a tidelock client; else only value is known, as also of a
                               client of tidelock before its first renewal, which comes within a second */
    int64_t remaining_ms; /**< until the server lets it go; -1: never, or unknown */
    uint64_t fence;  /**< by_tidelock: no holder so far has had a larger one: that of the present
                               one, or up to 49 more if it is passed on within a process. Otherwise the
                               last that was noted: later holders may have had a larger. 0 unknown */
    int64_t held_ms; /**< for how long, since it was acquired; -1 unknown */
    char value[64];  /**< what the key holds */
    char host[256];
    char service[64];
    int64_t pid;      /**< 0 unknown */
    int protocol;     /**< a tl_protocol_id; -1: free, or it can't be told */
    bool guessed;     /**< the dialect is a guess, from how the value looks; so is the
                                protocol, unless by_tidelock */
    char dialect[24]; /**< of a stamp; "" when it is none */
    /** Until the end that a stamp names, by the server's clock; negative: it has passed; INT64_MIN: no
     *  such end. */
    int64_t stamp_left_ms;
    char oddity[96];    /**< what is odd about the value, for a person; "" nothing */
    int64_t free_at_ms; /**< of a stamp, to a client of stamps: the server's clock from which on it
                                takes it, ms since the epoch; -1: not known */
    /** Who waits for it: the entries of its line, and those connections that listen for its release instead;
     *  -1: not known. An entry is one process, or with `fair` one waiter; who has died counts until its turn has
     *  come. Those that only ask again and again are not seen: other libraries, and of tidelock who has a retry
     *  strategy of its own, until it listens. */
    int64_t waiters;
    int64_t in_line; /**< of these the entries of the line; -1: not known */
} tl_lock_info;

/*
 * Stamps (see legacy.h). A client with TL_BRIDGE or TL_TIMESTAMP reads them in the dialect that it was given, and
 * calls free what it would take; remaining_ms is then the time until it would. To a client with
 * TL_TOKEN any stamp is held, and never let go; its dialect is a guess.
 */

/*
 * On etcd a lock K is a range of keys, and holders are its contenders: K/LEASE in hexadecimal under that lease, as etcd's own Mutex
 * writes it, and what tidelock writes, with its owner as the value. Any other key below K blocks it as it would block the Mutex. Then
 * held is true, protocol -1, and oddity says which key it is, or which lock below K's name: so a/b, while it is held, blocks a.
 */

/**
 * Look at a key without touching it. Blocks at most connect_ms + attempt_ms.
 *
 * TL_EINVALID, TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 */
tl_err tl_client_look(tl_client *client, const void *key, size_t key_len, tl_lock_info *ret_info,
                      tl_error *err);

/** One who stands in line, by its own account: cut to fit, control bytes replaced by '?'. */
typedef struct {
    size_t size;       /**< how much of it the library has filled in */
    int64_t place;     /**< 1: it is next */
    int64_t waited_ms; /**< since the server first saw it; -1 unknown */
    bool fair;   /**< a waiter with `fair`; else a process, perhaps with more waiters behind it */
    int64_t pid; /**< 0 unknown */
    char host[256];
    char service[64];
} tl_waiting;

/** Told of each, in order, on the asking thread: it must not call the library. w is valid during the call. */
typedef void (*tl_waiting_fn)(const tl_waiting *w, void *ctx);

#define TL_LINE_MOST 1000 /**< so many of a line are told at most */

/**
 * Look at a key and its line: as tl_client_look, and tell of the first who wait, as the server saw both at one moment. Who was
 * given the lock already is its holder, and no longer in line.
 *
 * most  of how many to tell, TL_LINE_MOST at most; ret_info->in_line says how many there are
 */
tl_err tl_client_look_line(tl_client *client, const void *key, size_t key_len,
                           tl_lock_info *ret_info, uint32_t most, tl_waiting_fn told, void *ctx,
                           tl_error *err);

/**
 * Told of each lock that a scan finds, on the scanning thread, while it talks to the server: it must
 * not call the library. key and info are valid during the call.
 */
typedef void (*tl_found_fn)(const void *key, size_t key_len, const tl_lock_info *info, void *ctx);

/**
 * Go one step through the keys of the server, about a hundred of them, and tell of those that look
 * like locks: strings with a sidecar of tidelock's, stamps, random tokens with a lifetime, and
 * known accidents of legacy clients. What is there during all of the scan is reported once or
 * twice; what comes or goes meanwhile, perhaps. A server of millions of keys takes many steps, each of
 * which holds it up for less than a millisecond. Not for locks whose keys are on different nodes.
 *
 * pattern  a glob as SCAN of Redis has it; NULL: any key. Refused is what servers don't all read alike: a
 *          '[' without ']', a '\' at the end, a range of bytes beyond ASCII
 * cursor   0 to begin with; 0 again when all has been seen
 *
 * Needs EVAL and SCAN: Redis 2.8 or newer. Blocks at most connect_ms + attempt_ms.
 *
 * TL_EINVALID, TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 */
tl_err tl_client_scan(tl_client *client, const char *pattern, uint64_t *cursor, tl_found_fn found,
                      void *ctx, tl_error *err);

/**
 * Remove a lock, whoever holds it: its key is deleted, a holder of tidelock's finds it lost when it
 * renews it next, and the sidecar keeps "host pid service" of the caller in its field `broken`. The
 * holder may work on for all that: this is for people who know that it doesn't.
 *
 * seen  the result of tl_client_look, so that no later lock is removed; NULL: any
 *
 * TL_OK          removed
 * TL_EEXPIRED    nobody held it
 * TL_ETAKEN      another holds it than the one that was seen; not removed
 * TL_EINVALID    the key holds something that is no lock, or with seen NULL: on etcd, a key that is no contender comes first; not removed
 * TL_EUNCERTAIN  sent, no reply seen
 * TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 *
 * Needs EVAL. Blocks at most connect_ms + attempt_ms.
 */
tl_err tl_client_break(tl_client *client, const void *key, size_t key_len, const tl_lock_info *seen,
                       tl_error *err);

#ifdef __cplusplus
}
#endif

#endif
