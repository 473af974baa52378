/*
 * tidelock: locks that many hosts share, kept in Redis or etcd.
 *
 * A program opens one client for a server. Then it acquires locks, works, and releases them:
 *
 *     tl_error err;
 *     tl_client *client;
 *     tl_client_options co = TL_CLIENT_OPTIONS(.url = "redis://10.0.0.5");
 *     if (tl_client_open(&co, &client, &err))
 *         die(err.message);
 *     tl_lock *lock = tl_acquire(client, "jobs:nightly", 5000, &err);
 *     if (lock) {
 *         while (more_work() && tl_lock_remaining_ms(lock) > 0)
 *             do_a_little_and_write_it(tl_lock_fence(lock));
 *         tl_release(lock, &err);
 *     }
 *     tl_client_close(client);
 *
 * The client renews a held lock in the background. While tl_lock_remaining_ms() is positive no
 * other client holds the lock. At 0 stop, or let the fencing number protect what you write.
 *
 * Ownership. The caller owns every handle: close each client, free each lock, locks before their
 * client. The library copies options and strings; only the ctx of a callback must outlive the call.
 *
 * Threads. Any thread may use a client. One thread at a time uses a lock, but any thread may call
 * tl_lock_state, tl_lock_remaining_ms, tl_lock_fence, tl_lock_cancel, tl_lock_alive and
 * tl_lock_stall while the lock exists. Callbacks run on the client's renewal thread. They must not
 * block, and may call only those six functions and the three that end in _async. With the option
 * `dispatch` they run within tl_client_dispatch, on a thread of the caller's, and may call anything
 * but tl_client_dispatch and tl_client_close. Call nothing in a signal handler: see tl_lock_cancel.
 * In a child of fork() open a new client: the handles of the parent fail there (TL_EINVALID).
 *
 * Time. Every duration is in milliseconds. Deadlines include suspend and ignore the wall clock.
 * Where the hypervisor offers a VMClock they also hold when it pauses or moves the machine.
 *
 * Read on. tl_lock_new makes a lock with options and events. The calls that end in _async are for
 * event loops. tidelock-promises(7) has the assumptions, failures and failovers,
 * tidelock-servers(7) the URLs. inspect.h looks at locks, legacy.h shares them with legacy clients,
 * tidelock.hpp is for C++17. Small programs are in share/doc/tidelock/examples. The library never
 * prints, exits, changes signal handlers or keeps global state.
 */
#ifndef TIDELOCK_H
#define TIDELOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The version of this header. Before 1.0 a minor version may change the interface (0.10), a patch
 *  version never does. From 1.0 on only a major version may. */
#define TL_VERSION "0.9.0"
#define TL_VERSION_NUMBER 9000 /**< the same to compare: 1002003 is 1.2.3 */

/** The version of the library that runs, which may be newer than TL_VERSION. */
const char *tl_version(void);

/* ---- errors ---------------------------------------------------------------------------------- */

/** Results. The numbers never change. */
typedef enum {
    TL_OK = 0,
    TL_EBUSY = 1,        /**< another holds the lock (tried once, or the retry strategy ended) */
    TL_ETIMEDOUT = 2,    /**< another held the lock until the wait ran out */
    TL_ECANCELLED = 3,   /**< tl_lock_cancel() ended the wait */
    TL_ELOST = 4,        /**< the lock was lost before; final */
    TL_EUNCERTAIN = 5,   /**< a request was sent and no reply came: its effect is unknown */
    TL_EUNAVAILABLE = 6, /**< the server could not be reached, or cannot serve now */
    TL_ECLOCK = 7,       /**< a clock is too far off: see legacy.h */
    TL_EINVALID = 8,     /**< the call, an option, the URL or the key is wrong; nothing was sent */
    TL_ENOMEM = 9,       /**< out of memory, threads or descriptors */
    TL_EDENIED = 10,     /**< the server refused: password, or permission for a command or key */
    TL_ESERVER = 11,     /**< a malformed reply, or the server isn't of the URL's kind */
    TL_EEXPIRED = 12,    /**< release: the lock had expired or been deleted */
    TL_ETAKEN = 13,      /**< release: it expired or was stolen, and another holds it */
    TL_EUNSUPPORTED = 14 /**< the server lacks a command that this needs, or runs no scripts */
} tl_err;

/** The name of a result, such as "TL_EBUSY"; never NULL. */
const char *tl_err_name(tl_err code);

/** The subject of a TL_EINVALID, for a program that reads these options from its own users and
 *  names them differently. */
typedef enum {
    TL_ABOUT_CALL = 0,  /**< the call, or an option that isn't named below */
    TL_ABOUT_URL = 1,   /**< tl_client_options.url */
    TL_ABOUT_TLS = 2,   /**< tls_ca_file, tls_cert_file, tls_key_file, tls_server_name */
    TL_ABOUT_LEGACY = 3 /**< the options of legacy.h */
} tl_about;

/** More about a failure. A call that fails fills it, if the caller passed one; a call that succeeds
 *  leaves it untouched. */
typedef struct {
    tl_err code;
    int sys_errno;     /**< the errno behind it, or the nearest one: ECONNREFUSED; ENOENT: no socket
                            at the path, or no such host; EAGAIN: the name service does not answer;
                            ETIMEDOUT: a limit has passed; and others. 0: there is none */
    tl_about about;    /**< with TL_EINVALID */
    char message[240]; /**< one line: what failed, and what to do. It has no secrets */
} tl_error;

/* ---- client ---------------------------------------------------------------------------------- */

typedef struct tl_client tl_client;
typedef struct tl_lock tl_lock;

/** How a lock is stored in the server. All but TL_TOKEN share locks with legacy clients: legacy.h
 *  describes them. */
typedef enum {
    TL_TOKEN = 0, /**< the key holds a random token with a lifetime; a release compares it */
    TL_BRIDGE = 1,
    TL_TIMESTAMP = 2,
    TL_AUTO = 3
} tl_protocol_id;

/** How much a line of the log matters. */
typedef enum {
    TL_LOG_ERROR = 0,
    TL_LOG_WARNING = 1,
    TL_LOG_INFO = 2,
    TL_LOG_DEBUG = 3
} tl_log_level;

struct tl_legacy_options; /* see legacy.h */

/** Which kind of server a password is for. */
typedef enum {
    TL_PASSWORD_SERVER,  /**< each server that stores locks */
    TL_PASSWORD_SENTINEL /**< redis+sentinel: each Sentinel */
} tl_password_for;

#define TL_PASSWORD_SIZE 16385 /**< room for any password and its NUL */

/** Which server, and how to reach it. Every member but size may stay 0 and then has the default in
 *  brackets. */
typedef struct {
    size_t size;             /**< sizeof(tl_client_options); TL_CLIENT_OPTIONS sets it */
    const char *url;         /**< the server: redis://[user:password@]host[:port][/db],
                                  unix:///path[?db=N], redis+sentinel://host,host,host/name[/db],
                                  redis+cluster://host,host[/db],
                                  redis+quorum://server,server,server, etcd://host,host[/prefix],
                                  or local:[/directory]. rediss and etcds are the same with TLS.
                                  tidelock-servers(7) has each form. "" is refused, since it
                                  is likely an unset variable [local:] */
    const char *password;    /**< instead of one in the URL, at most 16384 bytes [none] */
    const char *service;     /**< the name by which others see this holder [the program's name] */
    tl_protocol_id protocol; /**< [TL_TOKEN] */
    int64_t attempt_ms; /**< limit of one request and its reply, up to an hour [2000; wait_fsync:
                             5000] */
    int64_t connect_ms; /**< limit of resolving, connecting and logging in, up to an hour [5000] */
    /** A server that restarts or is promoted grants no lock for so long, counted from the first
     *  request to acquire after that. Held locks are renewed meanwhile. At most an hour, at least
     *  the longest ttl_ms of all clients, and the same for all of them. A former master may still
     *  reply: then a second more with redis+sentinel: and redis+cluster:. tl_lock_new refuses a
     *  longer ttl_ms. It needs a protocol with a fence, and Redis 4.0 with INFO in scripts, else
     *  TL_EUNSUPPORTED or TL_EDENIED. See tidelock-promises(7), QUIET and FAILOVER. TL_QUIET_OFF:
     *  off, also where it is on by default [0: off; redis+quorum: 30000] */
    int64_t quiet_ms;
    int32_t drift_ppm; /**< how far the rate of a clock, this host's or the server's, can be from
                            true, in millionths, at most 500000: a lifetime counts for
                            (1 - drift) / (1 + drift) of itself. Set less only where no time service
                            slews faster [101500: 10 % by the kernel's tick, 0.05 % each by its
                            frequency and by adjtime(), and the crystal] */
    /** How many replicas, at most 1000, must confirm an acquire or a renewal. With too few the lock
     *  is released: TL_EUNAVAILABLE [0] */
    int32_t wait_replicas;
    int32_t wait_replicas_ms; /**< how long they may take [attempt_ms / 2] */
    /** Called for each line of the log, on any thread. It must neither call the library nor block,
     *  since renewals wait for it. Warnings report, among other things, that the connection that
     *  renews held locks was lost, and that it is back [none] */
    void (*log)(tl_log_level level, const char *line, void *ctx);
    void *log_ctx;           /**< of log */
    const char *tls_ca_file; /**< rediss:, etcds: the authorities to trust, PEM [the system's] */
    bool dispatch; /**< tl_client_dispatch runs the callbacks, not the renewal thread [false] */
    /* rediss:, etcds: more of TLS. The client reads the files for each new connection. With other
     * URLs these three and tls_ca_file are refused. */
    /** The client's certificate, for servers that ask for one, PEM. Behind it in the file come
     *  those between it and an authority that the server trusts. Needs tls_key_file [none] */
    const char *tls_cert_file;
    const char *tls_key_file; /**< the certificate's key, PEM, without a passphrase [none] */
    /** The name in the server's certificate, and in those of Sentinels [the host in the URL, or as
     *  Sentinels announce it] */
    const char *tls_server_name;
    /** Log a line for each request, reply and decision of each lock, as TL_LOG_DEBUG: to find out
     *  why one hangs. It has no token and no password [false] */
    bool trace;
    /** The limits of the legacy clients, where locks are shared with them [legacy.h has its
     *  defaults; with TL_TOKEN it must be NULL] */
    const struct tl_legacy_options *legacy;
    /** redis+sentinel: the user and password for the Sentinels, which are not those of the master
     *  [none]. Such a user needs SENTINEL MASTER, GET-MASTER-ADDR-BY-NAME, SENTINELS and MYID
     *  (before 6.2 INFO), SUBSCRIBE and the channel +switch-master */
    const char *sentinel_user;
    const char *sentinel_password;
    /** An acquire or a renewal counts only when it is in the append-only file on the disk of the
     *  server, and of wait_replicas replicas, within wait_replicas_ms. Else the lock is released:
     *  TL_EUNAVAILABLE. Then attempt_ms is 5000 unless it is set, since with appendfsync everysec
     *  a confirmation takes up to two seconds. Use a ttl_ms of 15 s at least, or appendfsync
     *  always. Needs Redis 7.2 (WAITAOF) with appendonly yes, else TL_EUNSUPPORTED; with
     *  appendfsync no the server never confirms [false] */
    bool wait_fsync;
    /** Called for the password before each login, for passwords that change while locks are held,
     *  as access tokens do. It writes one and its NUL to ret, which has `size` bytes, and returns
     *  true. When it returns false, the login uses the password of the other options and the URL.
     *  Called on any thread, and on several at a time. It must not call the library, and must
     *  return soon, since renewals wait for it [none] */
    bool (*password_fn)(tl_password_for whose, char *ret, size_t size, void *ctx);
    void *password_ctx; /**< of password_fn */
} tl_client_options;

#define TL_QUIET_OFF (-1) /**< tl_client_options.quiet_ms: off, also where it is on by default */

/*
 * Options by name: TL_CLIENT_OPTIONS(.url = "redis://10.0.0.5"). In C++ write TL_CLIENT_OPTIONS(),
 * then set the members. TL_LOCK_OPTIONS, below, is the same.
 *
 * A struct that begins with `size` may grow at its end, to 4096 bytes at most. A program and a
 * library of two versions use the smaller part. An option that the program doesn't know has its
 * default. An option that the library doesn't know must be 0: otherwise it is refused, TL_EINVALID,
 * never ignored. In a struct that the library fills, a member that it doesn't know is 0. The
 * initialisers TL_..._OPTIONS set the size.
 */
#ifdef __cplusplus
static inline tl_client_options TL_CLIENT_OPTIONS() {
    tl_client_options o = tl_client_options();
    o.size = sizeof o;
    return o;
}
#else
#define TL_CLIENT_OPTIONS(...) ((tl_client_options){.size = sizeof(tl_client_options), __VA_ARGS__})
#endif

/**
 * Make a client. No I/O: the client connects to the server when it first needs it.
 *
 * ret_client  the client; close it with tl_client_close
 *
 * TL_EINVALID  an option or the URL is wrong; err says which
 * TL_ENOMEM    out of memory or descriptors
 */
tl_err tl_client_open(const tl_client_options *options, tl_client **ret_client, tl_error *err);

/*
 * Descriptors. Above RLIMIT_NOFILE calls fail with TL_ENOMEM or TL_EUNAVAILABLE. A client opens at
 * most:
 *
 *   - five of its own, and one for each thread that waits in a call
 *   - two for each server that it uses; in a cluster for each master
 *   - for calls that wait, as many connections as are used at once: up to 68 to a server. In a
 *     cluster up to 256 in all, or four to a master if that is more, and four more where a crowd
 *     of threads shares them
 *   - two for each Sentinel
 *   - in a cluster up to 61, over which it asks nodes about others
 *   - of an etcd one, over which it is notified that the key of a held lock was deleted
 *
 * So 100 masters and one thread that acquires locks on all of them in turn need 366 at most. The
 * client closes what led to a master that has left.
 *
 * Its threads. A client starts one thread, the renewal thread, with its first lock. The process
 * starts one for a moment for each host name that it looks up. tl_client_close doesn't wait for one
 * that hangs in the name service; then the library stays loaded, also in a plug-in that is closed
 * (dlclose). A thread that calls the library needs a stack of 256 KiB. The library's own threads
 * have the system's default (RLIMIT_STACK).
 */

/**
 * Close a client whose locks have been freed. The client still cleans up after requests that got no
 * reply, and with TL_AUTO removes its records. Blocks at most attempt_ms. NULL is fine.
 *
 * With TLS the library registers one function with atexit(), so that clients may be open when the
 * program exits. exit() then waits, at most 2 s, until none of their threads is in OpenSSL, before
 * OpenSSL cleans up. A request over TLS after that fails.
 */
void tl_client_close(tl_client *client);

/**
 * Ask the server for its time once: shows that it can be reached and that it accepts the login.
 * Blocks at most connect_ms + attempt_ms.
 *
 * TL_EINVALID  the server has no such database; or the client is used after fork
 * TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_ENOMEM
 */
tl_err tl_client_ping(tl_client *client, tl_error *err);

#define TL_STATS_RESULTS 24 /**< more than there are results: the rest stays 0 */
#define TL_STATS_CAUSES 8   /**< and causes of a loss */
#define TL_STATS_BUCKETS 28

/** The end of bucket number i of durations, in microseconds. The bucket counts the durations below
 *  its end, and not below the end of the bucket before. The last has no end. */
#define TL_STATS_BUCKET_US(i) (INT64_C(8) << (i))

/** How long something took, each time. */
typedef struct {
    uint64_t count;  /**< that of all buckets */
    uint64_t sum_us; /**< of all durations */
    uint64_t bucket[TL_STATS_BUCKETS];
} tl_durations;

/** The work of a client since it was opened. All numbers but those of the clock and those of now
 *  only grow. A reading is no snapshot: another thread may be at work meanwhile. */
typedef struct {
    size_t size; /**< sizeof(tl_stats), set by the caller */
    /** Calls, each at the index of the tl_err with which it ended: [TL_OK] were successful. A call
     *  that ends in _async counts when it has ended, or could not begin. tl_acquire and tl_release
     *  count, too. */
    uint64_t acquires[TL_STATS_RESULTS];
    uint64_t releases[TL_STATS_RESULTS];
    uint64_t extends[TL_STATS_RESULTS];
    uint64_t waited; /**< of acquires[TL_OK]: another held the lock first, or others were queued */
    uint64_t handed_over; /**< of acquires[TL_OK]: from another lock of this client, without a
                               request */
    uint64_t renewals; /**< background renewals that succeeded; redis+quorum: one for each server */
    uint64_t renewals_failed; /**< those that failed; each is retried while the lock is held */
    uint64_t at_risk;         /**< how often a lock became TL_AT_RISK */
    /** Locks that were lost while they were held, each at the index of its tl_lost_why. A loss that
     *  only a release or an extension found counts there: TL_EEXPIRED, TL_ETAKEN. */
    uint64_t lost[TL_STATS_CAUSES];
    uint64_t stolen;      /**< of lost[TL_LOST_TAKEN]: by a legacy client whose clock runs ahead */
    uint64_t connections; /**< logins that succeeded, without connections that only listen */
    uint64_t unanswered; /**< requests that were sent, at least in part, and got no reply in time */
    tl_durations wait;   /**< of acquires[TL_OK]: from the call until the lock was held */
    /** Requests that got a reply, and how long that took. One may renew a hundred locks. Requests
     *  to Sentinels, and to nodes of a cluster about others, are not counted. */
    tl_durations round_trips;
    uint32_t clocks; /**< servers whose clocks are known; etcd has none */
    /** How far the clock of a server is ahead of this host's: of the server that is furthest off,
     *  by its last reply. Negative: behind */
    int64_t clock_offset_us;
    int64_t clock_width_us; /**< the offset is wrong by at most half of this */
    int64_t clock_age_ms;   /**< since that reply */
    /** Each hold of a lock that is over, however it ended: from the acquisition (or hand-over, or
     *  tl_lock_adopt) to the call that released it, to its loss, or to tl_lock_free. */
    tl_durations hold;
    uint64_t held_now;    /**< locks that are held, as far as the renewal thread has noticed */
    uint64_t waiting_now; /**< calls that found the lock held, or others queued, and wait */
} tl_stats;

/**
 * Report what the client has done. No I/O; any thread, but not from within `log`.
 *
 * ret_stats  set its size before: tl_stats s = {.size = sizeof s}
 *
 * TL_EINVALID  its size can't be right; or the client is used after fork
 */
tl_err tl_client_stats(tl_client *client, tl_stats *ret_stats, tl_error *err);

/* ---- in two calls ---------------------------------------------------------------------------- */

/**
 * Make a lock with the default options, and acquire it: tl_lock_new, then tl_lock_acquire. Between
 * this and tl_release the caller may look at the lock (state, remaining time, fence) and extend it.
 *
 * key      text, 1..TL_KEY_MAX bytes
 * wait_ms  0 tries once; TL_FOREVER waits without limit
 * returns  the lock, held; NULL on failure, with err filled: TL_EBUSY or TL_ETIMEDOUT when another
 *          holds it, and the other results of tl_lock_acquire and tl_lock_new
 *
 * Blocks at most wait_ms; with wait_ms 0 at most connect_ms + attempt_ms.
 */
tl_lock *tl_acquire(tl_client *client, const char *key, int64_t wait_ms, tl_error *err);

/**
 * Release a lock, and free it whatever the result: the results are those of tl_lock_release. Only
 * TL_OK says that it was held all the time. NULL is fine: TL_OK.
 *
 * Blocks at most attempt_ms.
 */
tl_err tl_release(tl_lock *lock, tl_error *err);

/* ---- lock ------------------------------------------------------------------------------------ */

/** How long to pause between two attempts while another holds the lock. */
typedef enum {
    TL_RETRY_AUTO = 0,    /**< until the release is announced or the holder's time ends; 50 to
                               250 ms, at random, when the holder announces nothing */
    TL_RETRY_FIXED,       /**< retry_delay_ms each time */
    TL_RETRY_EXPONENTIAL, /**< at random up to retry_delay_ms, doubled each time up to
                               retry_max_delay_ms */
    TL_RETRY_CUSTOM       /**< the result of retry_next() */
} tl_retry_kind;

/** The state of a lock handle at this moment. */
typedef enum {
    TL_FREE = 0, /**< never acquired, or released */
    TL_HELD,     /**< held by this handle, and renewed in time */
    TL_AT_RISK,  /**< held until the deadline, but a renewal has failed, or the holder stalls; or in
                      doubt, with nothing remaining: TL_RISK_DISRUPTED */
    TL_LOST      /**< was held, and was lost */
} tl_state;

/** Why a lock was lost, or is at risk. */
typedef enum {
    TL_NOT_LOST = 0,
    TL_LOST_EXPIRED,  /**< no renewal succeeded before the deadline */
    TL_LOST_TAKEN,    /**< another holds it */
    TL_LOST_GONE,     /**< the key was deleted or evicted, or a failover lost it */
    TL_LOST_MAX_HOLD, /**< max_hold_ms has passed */
    TL_LOST_STALLED,  /**< no sign of life came for stall_ms, nor before the deadline */
    /** this virtual machine was paused, moved or restored, and no renewal has succeeded since; or
     *  it may be a copy. Only where the hypervisor offers a VMClock: tidelock-promises(7) */
    TL_LOST_DISRUPTED,
    TL_RISK_STALLED = TL_LOST_STALLED, /**< AT_RISK: no sign of life has come for stall_ms */
    /** AT_RISK: the machine was paused, moved or restored. Nothing remains until a renewal succeeds
     *  that began after that */
    TL_RISK_DISRUPTED = TL_LOST_DISRUPTED
} tl_lost_why;

/** The argument of on_event. AT_RISK and HELD alternate: a risk that ends before the callback could
 *  run is not reported. */
typedef struct {
    size_t size;    /**< how much of it the library has filled in */
    tl_state state; /**< the new one: AT_RISK; HELD again, renewed or extended; or LOST */
    /** LOST: why. AT_RISK: how the risk began: TL_RISK_STALLED, TL_RISK_DISRUPTED, or TL_NOT_LOST
     *  after a failed renewal */
    tl_lost_why why;
    int64_t remaining_ms; /**< of the safe lifetime */
    /** One line for a log, never NULL, at most 767 bytes; valid during the call. It begins with the
     *  key, printable and cut to 64 bytes, and ": ". AT_RISK, and LOST with EXPIRED or STALLED: it
     *  ends with the reason for which renewals failed, if any did, as the server or the connection
     *  gave it. Of several servers it has the reason of each, separated by "; ". HELD: "renewed
     *  again". LOST with another cause: that cause, such as "another holds it", or that the
     *  failover lost it. The text is for people and may change: programs use the other members. */
    const char *detail;
    bool stolen; /**< LOST, TAKEN: by a legacy client whose clock runs ahead, as its stamp says */
    /** stolen: how far that clock is ahead of the server's, at least; exact to the time that it
     *  took to notice. This is known only of a client whose lifetime is legacy_ttl_min_ms. One with
     *  a longer lifetime counts as ahead by the difference, even if its clock is right and it only
     *  raced and lost */
    int64_t thief_ahead_ms;
} tl_lock_event;

/** The options of a lock. Every member but size may stay 0 and then has the default in brackets. */
typedef struct {
    size_t size; /**< sizeof(tl_lock_options); TL_LOCK_OPTIONS sets it */
    /** Lifetime, 10..86400000 [30000]. etcd: 2000 at least. legacy.h has the limits and the default
     *  where the lock is shared with legacy clients */
    int64_t ttl_ms;
    /** The lock is lost by then, however long its lifetime: tl_lock_remaining_ms returns no more
     *  than this leaves. Its key stays for the rest of the lifetime, unless it is released, or the
     *  same handle acquires again [0: no limit] */
    int64_t max_hold_ms;
    bool manual_renew; /**< no background renewal: the program calls tl_lock_extend [false] */
    void (*on_event)(tl_lock *lock, const tl_lock_event *event, void *ctx); /**< renewal thread */
    void *ctx;                                                              /**< of on_event */
    tl_retry_kind retry;                                                    /**< [TL_RETRY_AUTO] */
    uint32_t retry_max_attempts; /**< end with TL_EBUSY after so many [0: no limit] */
    int64_t retry_delay_ms;      /**< FIXED, EXPONENTIAL [100] */
    int64_t retry_max_delay_ms;  /**< EXPONENTIAL [5000] */
    /** CUSTOM: returns the pause before the next attempt, in ms, or a negative number to end with
     *  TL_EBUSY. attempts so far, 1 or more; waited so far, in ms. Called on the acquiring thread;
     *  for tl_lock_acquire_async, and with redis+quorum:, on the renewal thread. It must neither
     *  block nor call the library. */
    int64_t (*retry_next)(uint32_t attempts, int64_t waited_ms, void *ctx);
    void *retry_ctx;                        /**< of retry_next */
    const struct tl_legacy_options *legacy; /**< `dialect` alone, for this key [the client's] */
    /** Wait in the order in which the server saw the waiters, over all hosts and threads; needs
     *  TL_TOKEN and TL_RETRY_AUTO: below [false] */
    bool fair;
    /** A watchdog that the holder feeds, 10..86400000: if tl_lock_alive is not called for so long,
     *  the lock is no longer renewed. So a holder that hangs loses the lock. Any relation to ttl_ms
     *  will do. Not with manual_renew, nor with strict (legacy.h) [0: off] */
    int64_t stall_ms;
    /** A release within so long of the acquire lets the lock rest until then, as tl_lock_rest does:
     *  0..TL_REST_MAX_MS. A lock that is lost, or freed while it is held, does not rest. See
     *  tl_lock_rest for what can't rest [0] */
    int64_t min_hold_ms;
    /** A wait ends with TL_EBUSY as soon as the lock is found to rest: at once, on etcd within 5 s.
     *  Has no effect with TL_BRIDGE and TL_TIMESTAMP, nor before the last phase of TL_AUTO [false:
     *  it waits for the end] */
    bool rest_ends_wait;
    /** The longest rest for which tl_lock_rest will be called, 0..TL_REST_MAX_MS. If the lock can't
     *  rest, tl_lock_new fails, or the acquire does with TL_EUNSUPPORTED where that depends on the
     *  server: so before the work, not after it [min_hold_ms] */
    int64_t will_rest_ms;
} tl_lock_options;

/*
 * Waiting. With TL_TOKEN, or with TL_AUTO while the phase is that of tokens, waiters queue on the
 * server, from Redis 3.2 on. A release hands the lock to the next one. By default a process has one
 * place in that queue for all its waiters: processes come in turn. With `fair` each waiter has its
 * own place: the order is that in which the server saw them. With TL_AUTO the server calls the next
 * waiter, which acquires the lock by itself. The key is free for it meanwhile, 5 s at most: other
 * tidelock clients wait, `SET NX` doesn't.
 *
 *   - Locks of one client on one key that wait by TL_RETRY_AUTO queue within the process, first
 *     come first served. Only the first of them asks the server. If no other process was
 *     queued when this one acquired the lock, a release may hand it to the next of them without a
 *     request, 49 times in a row and for a second at most. With `fair`, and on etcd, each
 *     waiter asks the server. There, and with redis+quorum:, no release hands over within the
 *     process.
 *   - Clients that only try `SET NX` again and again find the lock free for one round trip after
 *     each 200 grants without `fair`, while a queue lasts. They may try for minutes before they
 *     meet that moment. While only fair waiters queue they never find it free.
 *   - There is no queue below Redis 3.2, nor for a user who lacks the permission for it (`tidelock
 *     doctor` says so). Waiters then listen for the release, or ask again and again. The first that
 *     asks acquires the lock, and any waiter may starve. `fair` is no error there.
 *
 * Deleted keys. The first renewal writes the holder beside the key. It comes at a third of the
 * lifetime, but within a second of the acquire, or of a hand-over within the process. From then on
 * no other tidelock client acquires the lock before the holder's time ends, although the key was
 * deleted or evicted. Until then such a key is free at once. With manual_renew, and with TL_AUTO,
 * the acquire writes the holder.
 *
 * A first request that is held up longer than the acquire lasts may still set the key for nobody,
 * for one lifetime at most.
 */

#ifdef __cplusplus
static inline tl_lock_options TL_LOCK_OPTIONS() {
    tl_lock_options o = tl_lock_options();
    o.size = sizeof o;
    return o;
}
#else
#define TL_LOCK_OPTIONS(...) ((tl_lock_options){.size = sizeof(tl_lock_options), __VA_ARGS__})
#endif

#define TL_FOREVER INT64_MAX
#define TL_KEY_MAX 16384                    /**< bytes in a key; any byte is allowed */
#define TL_TTL_MIN_MS 10                    /**< shortest lifetime */
#define TL_TTL_MAX_MS 86400000              /**< longest lifetime: a day */
#define TL_REST_MAX_MS INT64_C(34560000000) /**< longest rest: 400 days */
#define TL_TOKEN_SIZE 37                    /**< a token's text with its final NUL */

/**
 * Make a lock on a key. No I/O. It can be acquired and released again and again.
 *
 * key, key_len  1..TL_KEY_MAX bytes
 * options       NULL for the defaults
 * returns       NULL on failure: TL_EINVALID or TL_ENOMEM in err
 */
tl_lock *tl_lock_new(tl_client *client, const void *key, size_t key_len,
                     const tl_lock_options *options, tl_error *err);

/**
 * Free a lock. One that is still held is not released: it is no longer renewed, and expires by
 * itself. An _async operation on it ends without its callback. Waits for a callback of the lock
 * that is running on another thread. NULL is fine.
 */
void tl_lock_free(tl_lock *lock);

/**
 * Acquire the lock. Then the client renews it in the background, unless manual_renew is set. Work
 * while tl_lock_remaining_ms is positive, pass tl_lock_fence to the protected resource, and end
 * with tl_lock_release. A lock that is lost meanwhile needs no release, and may be acquired again
 * at once; tl_lock_state and on_event report the loss.
 *
 * After any result but TL_OK the lock was not acquired: don't work, and don't release. The same
 * handle may try again. That can help after TL_EBUSY, TL_ETIMEDOUT, TL_EUNCERTAIN and
 * TL_EUNAVAILABLE, which pass by themselves. TL_ECANCELLED comes from the program itself. After the
 * others somebody must fix what err names.
 *
 * wait_ms  how long to wait while another holds it: 0 tries once; TL_FOREVER waits without limit
 *
 * TL_OK            held; remaining, fence and token are set. Handed over by another lock of this
 *                  client, it has half of ttl_ms left at least, and is renewed from there
 * TL_EBUSY         another holds it (wait_ms 0, or the retry strategy ended). err says so when that
 *                  is another handle of this client, as it does with TL_ETIMEDOUT. With TL_FOREVER:
 *                  another handle holds it, or on etcd a lock below its name, and the call would
 *                  never end. For the program has no other thread that could release it, the client
 *                  has no callback, and the process has no other client, which might have one. A
 *                  key of another type than string, such as a list, is no lock but counts as held,
 *                  as with TL_ETIMEDOUT: use another key. oddity of tl_client_look names the type
 * TL_ETIMEDOUT     another held it for all of wait_ms
 * TL_ECANCELLED    tl_lock_cancel was called, during this call or before it
 * TL_EUNCERTAIN    time ran out with a request unanswered. If it takes effect it is undone in the
 *                  background, at the latest by the lock's expiry: treat the lock as not held
 * TL_EUNAVAILABLE  the server was not reached: within connect_ms when wait_ms is 0 or TL_FOREVER,
 *                  within wait_ms otherwise. With wait_ms 0 it fails sooner, after a second try,
 *                  when certainly no server is there: connection refused, no such socket or host,
 *                  no route to it (but not with local:). Once the server has replied, an acquire
 *                  waits through an outage, and fails so if the server is still down after wait_ms.
 *                  The same if that long 16384 requests over one connection had no reply yet
 * TL_ECLOCK        only where shared with legacy clients: a clock is too far off, see legacy.h
 * TL_EDENIED       the server refused
 * TL_EUNSUPPORTED  the server lacks a command that this protocol needs; err names it, the version
 *                  that has it, and the protocol that works there
 * TL_ESERVER, TL_ENOMEM
 * TL_EINVALID      the handle holds it already, and still does; wait_ms is negative; or the handle
 *                  is used after fork
 *
 * Blocks at most wait_ms; with wait_ms 0 at most connect_ms + attempt_ms of tl_client_options: 7 s
 * unless they are set, 10 s with wait_fsync. It takes attempt_ms more after a hold that max_hold_ms
 * ended, whose key it removes first. tl_lock_acquire_async doesn't block.
 *
 * A thread that waits here or in tl_acquire may be cancelled (pthread_cancel, deferred, which is
 * the default). The call ends as by tl_lock_cancel, releases the lock if it has acquired it at that
 * moment, and then the thread ends. The handle and the client stay usable for others. No other call
 * of this library is a cancellation point: it returns first, after the callbacks that it runs.
 */
tl_err tl_lock_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err);

/**
 * Release the lock. With any result this handle no longer holds the lock, and may acquire it again
 * or be freed. With TL_OK all work under the lock was protected. Otherwise only the work was while
 * tl_lock_remaining_ms was positive.
 *
 * TL_OK            it was held until now
 * TL_EEXPIRED      it had expired or been deleted, and nobody holds it
 * TL_ETAKEN        it expired or was stolen, and another holds it
 * TL_EUNCERTAIN    no reply in time; the client retries in the background, and the lock expires by
 *                  itself in any case
 * TL_EUNAVAILABLE  the same, with nothing sent yet
 * TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM  it was not released; it expires by itself
 * TL_EINVALID      it was not held
 *
 * Blocks at most attempt_ms.
 */
tl_err tl_lock_release(tl_lock *lock, tl_error *err);

/**
 * Release the lock, but leave it taken for a while: it rests. Nobody holds it, and nobody acquires
 * it before `ms` have passed since this handle acquired it. For work that must be done once in a
 * period by whichever host comes first, although the hosts' clocks differ: the server's clock
 * measures the rest. It ends no earlier than that. It ends later by the round trip of the acquire,
 * and at most by twice drift_ppm of the hold; on etcd also by a second: there a lock rests for 2 s
 * at least. If `ms` have passed already the lock is released.
 *
 * ms  0..TL_REST_MAX_MS. After tl_lock_adopt it counts from the time that the server has noted for
 *     the acquire, and then the rest ends up to a second later. If the server has noted none, and
 *     with redis+quorum and etcd, it counts from the adoption
 *
 * TL_OK            it was held until now, and rests
 * TL_EEXPIRED      it had expired or been deleted: it does not rest
 * TL_ETAKEN        it expired or was stolen, and another holds it
 * TL_EUNCERTAIN    no reply in time, or replicas have not confirmed it: it may rest. The client
 *                  retries in the background while the key lasts
 * TL_EUNAVAILABLE  the same, with nothing sent yet
 * TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM  it does not rest; it expires by itself
 * TL_EINVALID      ms is out of range; it was not held; or it can't rest and is still held: with
 *                  strict (legacy.h), or the dialect ms-pipe
 *
 * A rest ends early where the server loses the key: see tidelock-promises(7). `tidelock break`
 * ends it. Blocks at most attempt_ms.
 *
 * A lock with a stamp (TL_BRIDGE, TL_TIMESTAMP, TL_AUTO) rests as a stamp: see legacy.h.
 */
tl_err tl_lock_rest(tl_lock *lock, int64_t ms, tl_error *err);

/**
 * Extend a held lock to ttl_ms from now, and renew it with that lifetime from then on, also after
 * this handle acquires it again. The server never shortens a lifetime: a smaller ttl_ms only makes
 * this handle count on less. The call is a sign of life, see tl_lock_alive.
 *
 * ttl_ms  as in tl_lock_options
 *
 * TL_OK            held for what ttl_ms counts for (see drift_ppm), less the time that the request
 *                  took
 * TL_EEXPIRED      lost, and nobody holds it; final
 * TL_ETAKEN        lost, and another holds it; final
 * TL_ELOST         it had been lost before; final
 * TL_EUNCERTAIN    sent, and no reply came: count on the old deadline
 * TL_EUNAVAILABLE  not sent: count on the old deadline, as after all that follow
 * TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 * TL_EINVALID      it is not held: never acquired, or released; ttl_ms is out of range; or the
 *                  handle is used after fork
 *
 * Blocks at most attempt_ms. With Sentinels or a cluster, and quiet_ms, an extension counts only
 * 1 s after the client first found the present master, if the lock was adopted or may be of another
 * master: then attempt_ms must be longer.
 */
tl_err tl_lock_extend(tl_lock *lock, int64_t ttl_ms, tl_error *err);

/**
 * Let this handle represent a lock that was acquired elsewhere, such as by another process that
 * passed on its token. No I/O. The lock counts as lost until tl_lock_extend has confirmed it;
 * tl_lock_release may be called at once. Its fencing number is not known: 0.
 *
 * TL_EINVALID  the lock is held, or the token is not 1..TL_TOKEN_SIZE-1 bytes
 */
tl_err tl_lock_adopt(tl_lock *lock, const char *token, tl_error *err);

/**
 * Make the acquire that is running on this lock return TL_ECANCELLED, or else the next one. Any
 * thread. It doesn't wait for the server. After fork it does nothing in the child.
 *
 * It is not async-signal-safe: it locks a mutex, which the interrupted thread may hold. In a signal
 * handler call sem_post(), or write() to a pipe or an eventfd. Let a thread that waits for that
 * call tl_lock_cancel. Or block the signal, and let a thread receive it by sigwait() or signalfd().
 */
void tl_lock_cancel(tl_lock *lock);

/**
 * Give a sign of life, for a lock with stall_ms: the work that the lock protects makes progress.
 * Call it from the work itself, not from a thread that only calls this. The acquire is such a sign,
 * too, and so is tl_lock_extend. Any thread; wait-free: no lock, no allocation, no system call but
 * the clock. Without stall_ms, after fork in the child, and while the lock isn't held, it has no
 * effect.
 *
 * After stall_ms without a sign the lock is AT_RISK with TL_RISK_STALLED, and the client renews it
 * no longer. A lock that is AT_RISK already is not reported again. A sign before the deadline has
 * it renewed within 100 ms, and HELD again. Otherwise it is LOST by the deadline, with
 * TL_LOST_STALLED, and released. The deadline is the one that stood when the holder stalled: at
 * most the lifetime later.
 */
void tl_lock_alive(tl_lock *lock);

/**
 * Call the holder stalled at once, as after stall_ms without a sign of life: for a program that
 * finds its work stuck. The next tl_lock_alive ends that. Any thread. It doesn't wait for the
 * server. Without stall_ms, after fork in the child, and while the lock isn't held, it has no
 * effect.
 */
void tl_lock_stall(tl_lock *lock);

/** The state at this moment; LOST as soon as the deadline, or max_hold_ms, has passed. Any thread,
 *  no blocking. */
tl_state tl_lock_state(const tl_lock *lock);

/** Milliseconds for which this handle certainly still holds the lock; 0 when it doesn't. Any
 *  thread, no blocking. */
int64_t tl_lock_remaining_ms(const tl_lock *lock);

/**
 * The fencing number of the present or last hold: larger for each later holder of the key, so that
 * the protected resource can refuse an older one. 0 before the first. Below 2^53. Any thread.
 *
 * It is the server's time in microseconds, or one more than the last; on etcd a create revision.
 * When the clock of a server was ahead and is set right, the numbers still rise from the last one.
 * Until the clock has caught up, a failover that forgets the last writes may repeat some of them,
 * which the clock prevents otherwise. `tidelock doctor KEY` says so.
 */
uint64_t tl_lock_fence(const tl_lock *lock);

/** The token of the present or last hold, "" before the first. Valid until the next acquire. */
const char *tl_lock_token(const tl_lock *lock);

/* ---- without blocking ------------------------------------------------------------------------ */

/**
 * How an operation ended; called exactly once, unless its lock is freed before.
 *
 * code  the result of the call that blocks
 * err   more about it, valid during the call; NULL when code is TL_OK
 */
typedef void (*tl_done_fn)(tl_lock *lock, tl_err code, const tl_error *err, void *ctx);

/**
 * Begin to acquire; `done` reports the end. Until then the lock may only be cancelled, looked at
 * (state, remaining time, fence) and freed. Does not block.
 *
 * TL_EINVALID  as for tl_lock_acquire, or another operation is in flight: done is not called
 * TL_ENOMEM
 */
tl_err tl_lock_acquire_async(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx,
                             tl_error *err);

/** Begin to release; as tl_lock_acquire_async. From now on the handle does not hold the lock. */
tl_err tl_lock_release_async(tl_lock *lock, tl_done_fn done, void *ctx, tl_error *err);

/** Begin to release and let the lock rest, as tl_lock_rest does; as tl_lock_acquire_async. From now
 *  on the handle does not hold the lock. */
tl_err tl_lock_rest_async(tl_lock *lock, int64_t ms, tl_done_fn done, void *ctx, tl_error *err);

/**
 * A descriptor for poll, epoll, libuv, libevent, GLib …: readable when tl_client_dispatch has
 * something to do. It stays the same and belongs to the client. -1 without the option `dispatch`.
 */
int tl_client_fd(const tl_client *client);

/**
 * Read replies, run the callbacks that are due, 64 at most, and send the requests that they made,
 * all on this thread; one thread at a time. Does not block. Returns how many callbacks it ran,
 * which may be none. With more to run, the descriptor stays readable. A loop that comes late delays
 * its callbacks, but no renewal.
 */
int tl_client_dispatch(tl_client *client);

#ifdef __cplusplus
}
#endif

#endif
