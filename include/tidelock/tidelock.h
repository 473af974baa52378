/*
 * tidelock: locks that many hosts share, kept in Redis or etcd.
 *
 * A program opens one client for a server, and then locks, works, and unlocks:
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
 * tl_lock_new makes a lock with options and events, to be acquired again and again; the calls that
 * end in _async are for event loops. Each has a small program in share/doc/tidelock/examples.
 *
 * What a lock promises. While tl_lock_remaining_ms() is positive nobody else can hold the lock,
 * whatever the network and the other clients do. The moment it reaches 0 that is over: stop, or let
 * the fencing number protect what you write. The lifetime is renewed in the background while the
 * lock is held. It rests on these assumptions:
 *
 *   - The server keeps its data: it isn't restarted without them, and no replica without the last
 *     writes takes over; or quiet_ms, wait_replicas or wait_fsync make up for that: see below.
 *   - The server's clock isn't set forward. It may be slewed.
 *   - Both clocks, the server's and this host's, run at the rate of true time to within drift_ppm.
 *     The default is all that Linux lets a clock be slewed by, a tenth: a lifetime counts for 0.82
 *     of itself (9/11), since one clock may be fast and the other slow.
 *   - This host's CLOCK_BOOTTIME goes on. It does in suspend. It stands still while a virtual
 *     machine is paused, migrated or restored from a snapshot, and a holder there believes for
 *     longer by as much. Where that can happen let the fencing number protect what you write.
 *   - An image of a process, or of a machine, that is started more than once (CRIU, a snapshot) was made while the process
 *     held no lock, and acquired and released none. The copies share no connection: the platform closes those of before. And
 *     the kernel gives each copy other random bytes. CRIU's kernel does; a virtual machine's does from Linux 5.18 on where
 *     it has a VM Generation ID. Then each copy is a client of its own: a lock is one copy's, and no copy releases or
 *     confirms anything of another's. Only places in a queue aren't promised: one copy may lose its own when another
 *     dies. A client that follows a migration (TL_AUTO) is opened in the copy, unless CLOCK_BOOTTIME has gone on meanwhile.
 *
 * What a failover can promise, where a server comes back, or a replica takes over, without the last writes:
 *
 *   - The old server is dead, or cut off from whoever holds a lock: no two hold one at once if quiet_ms is at least
 *     the longest ttl_ms of all clients.
 *   - The old master goes on answering for a time after another has taken over: if quiet_ms is longer by that
 *     time. That is 1 s at most with a redis+sentinel: URL in all clients, which count an answer only while a majority of
 *     the Sentinels names the server, and what is renewed after a change only a second after it: a lock that ends
 *     before is lost. The same with a redis+cluster: URL, where the master's replicas must say that none of them has
 *     taken its place, or the other masters, where a replica can't be asked: see below. With other URLs it is bounded
 *     where the old master stops by itself, min-replicas-to-write as many as it has: by min-replicas-max-lag and 2 s;
 *     but one that was stopped (SIGSTOP, a paused machine) and wakes answers first what it was sent meanwhile. Else it
 *     isn't bounded.
 *   - wait_replicas is the number of all replicas that may take over, of those that are away, too: a failover forgets
 *     nothing, also with quiet_ms 0. But a lock ends by the clock of the new master, earlier by as much as that is ahead. And
 *     a master that comes back without its last writes before another takes over has forgotten them all the same.
 *   - wait_fsync, and nobody takes over: a restart forgets nothing, nor does a loss of power, as far as the disk keeps
 *     what it says that it has written. With wait_replicas of all that may take over both are true.
 *   - Otherwise two can hold a lock at once for one lifetime, and nothing but the fencing number protects what they write.
 *
 * `tidelock doctor --ttl D --quiet D --wait-replicas N --wait-fsync` says which of these it is for a server and such clients.
 *
 * quiet_ms is minded by the server itself, by its own clock, which must not be set forward meanwhile: the script that
 * acquires compares run_id and master_replid of INFO with those in the key tidelock:reign, in a cluster one for each
 * slot. So a time passes without need after the first use, after each restart, when a slot has moved, when a first
 * replica is attached or a master has been without replicas for repl-backlog-ttl (an hour). It is not heeded by
 * tl_lock_adopt, nor noticed if a virtual machine with the server goes back to a snapshot of its memory.
 *
 * A master that hung, or was cut off, while another took over may be the master again before it was made a replica: its run_id
 * and master_replid are those of before, and it knows nothing of the locks that the other gave. With quiet_ms:
 *
 *   - redis+sentinel: it counts as another, by the epoch of the Sentinels' configuration, which each take brings along and the
 *     server notes in tidelock:reign:epoch. So a time passes without need when a client first brings one. It rests on all
 *     clients being of a version that does so, and on epochs that grow: Sentinels that are all set up anew count from 0 again.
 *     Delete tidelock:reign* on all servers once they are.
 *   - redis+cluster: a node becomes master as a replica alone, and has another history from then on: nothing more is needed. But
 *     who gives slots back by hand to a node that has lost them (CLUSTER ADDSLOTS) deletes tidelock:reign* there before.
 *   - redis: where a name or an address moves to another server and back: nothing tells, and two can hold a lock at once for one
 *     lifetime. Whoever moves it back makes that server a replica of the other first, restarts it, or deletes tidelock:reign* there.
 *   - redis+quorum, etcd: nobody takes over.
 *
 * In a Redis Cluster (redis+cluster:) each lock is on the master that has its key's slot, by tokens, or by stamps (legacy.h says
 * what is different there; a client with TL_AUTO isn't opened: TL_EINVALID). Slots
 * may be moved while locks are held and waited for: as long as one is open locks in it are renewed and released, and
 * acquired in several requests; who waits polls, in no order. With quiet_ms, and by stamps, none is acquired there before the
 * slot has moved (TL_EUNAVAILABLE).
 * While slots are moved to or from a master each of its failovers counts as one that loses the last writes, also one that
 * was asked for (CLUSTER FAILOVER), whatever wait_replicas is: the replica that takes over need not know that a slot is
 * open (Redis 7.0 doesn't tell it), and takes what has left for absent.
 * What a master answers counts only if afterwards each of its replicas says that it is a replica still; with takes at most a
 * second may lie between. Where one doesn't answer, or none is known, enough of the other masters must still name that
 * master: this rests on one of them at least being told within 200 ms of an election that it voted in (at once, where no
 * replica is known). And a replica that is new, or comes back, isn't asked in its first 10 s.
 *
 * With independent servers (redis+quorum:), three, five or seven of which none is a replica of another, a majority holds a
 * lock, by votes that each server gives for a lifetime of its own. It is held, acquired and released while fewer than half are
 * away; TL_AT_RISK from the first that fails, lost no later than the majority's votes end, and at once when a majority has
 * said that it holds nothing. Fencing numbers increase. A server that lost the key gets it again. quiet_ms is on there unless
 * told otherwise: when all are restarted empty one after the other, at least that far apart, what is held stays held, and nobody
 * else gets it. Token locks alone, without fair, wait_replicas and wait_fsync (TL_EINVALID); nobody stands in line and
 * nothing is passed on within a process: who waits is told by a majority of the servers, and asks again. The token of a lock may
 * change in its last digits while it is being acquired. All that is asked the keeper's thread asks, retry_next too.
 *
 * With etcd (etcd:, version 3.4 or later, with its JSON gateway) a majority of the members confirms each write, and no failover forgets
 * one: what is promised above needs no quiet_ms there. A lock K is the range of keys PREFIX/K/..., the one that was created first holds
 * it, as with etcd's own concurrency.Mutex and `etcdctl lock`, which stand in the same line; so names nest: whoever holds a/b is in the
 * way of a, and so is any other key below a, as it is for the Mutex; TL_EBUSY and TL_ETIMEDOUT name it then. Who waits in the usual way always stands in line, also with others of its process, as with `fair`; nothing is passed on
 * within a process. Lifetimes are at least 2 s, and whole seconds in etcd; they end by the clock of the member that leads, whose rate drift_ppm bounds as
 * that of any server. They are renewed by new leases, never kept alive: what a leader says that was stopped and wakes harms nobody. Fencing numbers are create
 * revisions. Up to 128 locks of one lifetime are renewed by one transaction; one that is gone costs the others nothing. A key that somebody
 * deletes is noticed at once while up to 1000 locks of a client are held for more than half a second, and of the others at the next
 * renewal. Token locks alone, without wait_replicas, wait_fsync and quiet_ms (TL_EINVALID). A take that went
 * unanswered may leave a key behind for one lifetime, though it is undone where that can be. An etcd
 * without space (its alarm NOSPACE) grants no lease and puts no key: no lock is acquired or renewed there, each that is held is at risk, is lost by
 * its deadline, and can be released; compact and defragment it, then disarm the alarm. With etcd's auth user and password go in
 * the URL; a login that is over, as when users have changed, or auth was enabled only since, is made anew; a client certificate with a common name is refused by etcd's gateway then (TL_EDENIED). An HTTP server that is no
 * etcd is TL_ESERVER; one that closes the connection without an answer, as Redis does, TL_EUNAVAILABLE, or TL_EUNCERTAIN to who acquires.
 *
 * Ownership. The caller owns every handle: close what you opened, free what you made, locks before
 * their client. Options and strings are copied; nothing passed in need outlive its call, except
 * the ctx pointers of callbacks.
 *
 * Threads. A client may be used from any thread. A lock is used by one thread at a time, except
 * tl_lock_state, tl_lock_remaining_ms, tl_lock_fence and tl_lock_cancel, which any thread may call
 * at any time while the lock exists. Callbacks run on the client's own keeper thread: they must
 * not block, and may call only those four functions and the two that end in _async. With the option
 * `dispatch` they run within tl_client_dispatch, on a thread of the caller's, and may call anything
 * but tl_client_dispatch and tl_client_close.
 *
 * A thread that waits in tl_lock_acquire or tl_acquire may be cancelled (pthread_cancel, deferred as by default): the call ends
 * as by tl_lock_cancel, what it has acquired at that moment is released, and then the thread ends. The handle and the client
 * stay good for others. Nothing else here is a cancellation point: every other call returns first, after what it calls of the program.
 *
 * Descriptors. A client has one thread, from the first lock on, and for a moment one for each host name that is looked up, whoever
 * asks for it. One that hangs in the name service is not waited for when the client is closed: then the library stays loaded,
 * also in a plug-in that is closed (dlclose). A thread that calls the library needs a stack of 256 KiB; the
 * library's own have what the system gives a thread (RLIMIT_STACK). A client opens
 * five descriptors of its own at most; two for each server that it uses, in a cluster each master; one for each
 * thread that waits in a call; for such calls as many connections as are used at once, up to 68 to a server, in a cluster
 * up to 256 in all, or four to a master if that is more, and four more where a crowd shares them; two for each Sentinel; and up to 61 that
 * nodes of a cluster are asked over about others; of an etcd one, over which it hears that a held lock's key is deleted. What led to a master that has gone is closed. So 100 masters and one thread
 * that acquires locks on all of them in turn: 366 at most. Above RLIMIT_NOFILE calls fail with TL_ENOMEM or TL_EUNAVAILABLE.
 *
 * Locks of one client on one key that wait in the usual way (TL_RETRY_AUTO) line up within the
 * process, first come first served: only the first of them asks the server, and what it releases may
 * pass to the next without being given back (up to 49 times in a row and for a second, so that other
 * processes have their turn).
 *
 * Versions. A struct that begins with `size` may grow at its end, and a program and a library of two
 * versions agree on the smaller part. What a program doesn't know has its default. What a library
 * doesn't know must be 0: a newer option is refused, TL_EINVALID, never ignored; in what a library
 * fills in it is 0. The initialisers TL_..._OPTIONS set the size; no struct will be larger than 4096 bytes.
 *
 * Time. Every duration is in milliseconds. Deadlines count time in suspend and never follow the
 * wall clock.
 *
 * Beside this header: tidelock.hpp is for C++17; inspect.h looks at locks, lists them, and removes a dead host's; legacy.h is for locks
 * that are shared with clients which keep a time in the key.
 *
 * What it never does: print, exit, change signal handlers, or keep global state. With TLS it registers one function with
 * atexit(): when the program exits its clients may be open. exit() then waits, at most 2 s, until no thread of theirs is in
 * OpenSSL, before OpenSSL cleans up; what is asked for over TLS after that fails.
 */
#ifndef TIDELOCK_H
#define TIDELOCK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TL_VERSION "0.1.0"

/** The version of the library that is running, which may be newer than TL_VERSION. */
const char *tl_version(void);

/* ---- errors ---------------------------------------------------------------------------------- */

/** Results. The numbers never change. */
typedef enum {
    TL_OK = 0,
    TL_EBUSY = 1,        /**< another holds the lock (tried once, or the retry strategy gave up) */
    TL_ETIMEDOUT = 2,    /**< another held the lock until the wait ran out */
    TL_ECANCELLED = 3,   /**< tl_lock_cancel() ended the wait */
    TL_ELOST = 4,        /**< the lock is no longer ours; final */
    TL_EUNCERTAIN = 5,   /**< a request was sent and no reply was seen: its effect is unknown */
    TL_EUNAVAILABLE = 6, /**< the server could not be reached, or cannot serve now */
    TL_ECLOCK = 7,       /**< a clock is too far off: see legacy.h */
    TL_EINVALID = 8,     /**< the call, an option, the URL or the key is wrong; nothing was sent */
    TL_ENOMEM = 9,       /**< out of memory, threads or descriptors */
    TL_EDENIED = 10,     /**< the server refused: password, or permission for a command or key */
    TL_ESERVER =
        11, /**< the server answered something that cannot be right, or isn't of the URL's kind */
    TL_EEXPIRED = 12,    /**< release: the lock had expired or been deleted */
    TL_ETAKEN = 13,      /**< release: it expired or was stolen, and another holds it */
    TL_EUNSUPPORTED = 14 /**< the server lacks a command that this needs: too old, or renamed */
} tl_err;

/** The name of a result, such as "TL_EBUSY"; never NULL. */
const char *tl_err_name(tl_err code);

/** What a TL_EINVALID is about, for programs that are given options by others and name them in their own
 *  words. */
typedef enum {
    TL_ABOUT_CALL = 0,  /**< the call, or an option that isn't named below */
    TL_ABOUT_URL = 1,   /**< tl_client_options.url */
    TL_ABOUT_TLS = 2,   /**< tls_ca_file, tls_cert_file, tls_key_file, tls_server_name */
    TL_ABOUT_LEGACY = 3 /**< what is said of legacy clients */
} tl_about;

/** More about a failure: filled by a call that fails, if the caller passed one; untouched by one that
 *  succeeds. */
typedef struct {
    tl_err code;
    int sys_errno;  /**< the errno behind it, or what comes nearest: ECONNREFUSED; ENOENT: no socket
                            at the path, or no such host; EAGAIN: the name service does not answer;
                            ETIMEDOUT: nothing came within a limit; and others. 0: there is none */
    tl_about about; /**< with TL_EINVALID */
    char message[240]; /**< one line that says what happened and what to do; no secrets in it */
} tl_error;

/* ---- client ---------------------------------------------------------------------------------- */

typedef struct tl_client tl_client;
typedef struct tl_lock tl_lock;

/** The rule by which a lock is kept in the server. All but TL_TOKEN are for locks that are shared with
 *  legacy clients: legacy.h says what they do. */
typedef enum {
    TL_TOKEN = 0, /**< the key holds a random token with a lifetime, deleted only by comparing it */
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

/** Who is logged in to. */
typedef enum {
    TL_PASSWORD_SERVER,  /**< each server that keeps locks */
    TL_PASSWORD_SENTINEL /**< redis+sentinel: each Sentinel */
} tl_password_for;

#define TL_PASSWORD_SIZE 16385 /**< room for any password and its NUL */

/** Which server, and how to reach it. Every member but size may stay 0 and then has the default in
 *  brackets. */
typedef struct {
    size_t size;             /**< sizeof(tl_client_options); TL_CLIENT_OPTIONS sets it */
    const char *url;         /**< redis://[user:password@]host[:port][/db], rediss:// for TLS,
                                  redis+sentinel://[user:password@]host[:port],host,.../name[/db]
                                  for the master that Sentinels know by this name, rediss+sentinel://,
                                  redis+cluster://[user:password@]host[:port],host,... for a Redis
                                  Cluster that these nodes lead to, rediss+cluster://,
                                  redis+quorum://[user:password@]server,server,server (3, 5 or 7,
                                  each host[:port] or unix:/path) for a majority of independent
                                  servers, rediss+quorum://,
                                  etcd://[user:password@]host[:port],host,...[/prefix] for the
                                  members of an etcd, etcds:// with TLS,
                                  unix:///path[?db=N], local: or local:/directory for a private
                                  server of this user on this host, started when it is needed.
                                  "" is refused: it is likely a variable that isn't set [local:] */
    const char *password;    /**< instead of one in the URL, at most 16384 bytes [none] */
    const char *service;     /**< the name that others see as this holder's [the program's name] */
    tl_protocol_id protocol; /**< [TL_TOKEN] */
    int64_t attempt_ms;      /**< limit of one request and its reply [2000; wait_fsync: 5000] */
    int64_t connect_ms;      /**< limit of resolving, connecting and logging in [5000] */
    int64_t quiet_ms;      /**< give nothing before the server is known to have been the same for so
                                   long: neither restarted, nor a replica that took over. At most an
                                   hour, at least the longest ttl_ms of all clients, and the same for
                                   all of them; a longer ttl_ms is refused here. Needs a fence, and
                                   Redis 4.0 with INFO in scripts, else TL_EUNSUPPORTED or TL_EDENIED.
                                   What it is good for, and its limits: above, "What a failover can
                                   promise". TL_QUIET_OFF: off, also where it isn't by default [0: off; with
                                   redis+quorum: 30000] */
    int32_t drift_ppm;     /**< how far the rate of a clock, this host's or the server's, can be
                                  from true, in millionths, at most 500000: a lifetime counts for
                                  (1 - drift) / (1 + drift) of itself. Set less only where no time
                                  service slews faster [101500: 10 % by the kernel's tick, 0.05 %
                                  each by its frequency and by adjtime(), and the crystal] */
    int32_t wait_replicas; /**< replicas that must confirm a take or a renewal [0]; with too few
                                  the lock is given back: TL_EUNAVAILABLE */
    int32_t wait_replicas_ms; /**< how long they may take [attempt_ms / 2] */
    /** From any thread; it must neither call the library nor block, since renewals wait for it.
     *  Warnings tell, among other things, when the connection by which held locks are renewed is
     *  lost, and when it is back [none]. */
    void (*log)(tl_log_level level, const char *line, void *ctx);
    void *log_ctx;
    const char *tls_ca_file; /**< rediss:, etcds: the authorities to trust, PEM [the system's] */
    bool dispatch; /**< callbacks are made by tl_client_dispatch, not by the keeper [false] */
    /* rediss:, etcds: more of TLS. The files are read for each new connection; with other URLs these three
     * and tls_ca_file are refused. */
    /** This side's certificate, for servers that ask for one, and behind it those between it and an
     *  authority that the server trusts, PEM; its key is needed too [none] */
    const char *tls_cert_file;
    const char *tls_key_file; /**< the certificate's key, PEM, without a passphrase [none] */
    const char
        *tls_server_name; /**< what the server's certificate is for, and those of Sentinels [the
                                      host in the URL, or as Sentinels announce it] */
    bool trace; /**< log, as TL_LOG_DEBUG, a line for each request, reply and decision of each lock:
                     to find out why one hangs. No token or password is in it [false] */
    /** What is true of the legacy clients, where locks are shared with them [legacy.h has its
     *  defaults; with TL_TOKEN it must be NULL] */
    const struct tl_legacy_options *legacy;
    /** redis+sentinel: what to log in to the Sentinels with, which is not what the URL and password log in to the
     *  master with [none]. Such a user needs SENTINEL MASTER, GET-MASTER-ADDR-BY-NAME, SENTINELS and MYID (before 6.2
     *  INFO), SUBSCRIBE and the channel +switch-master */
    const char *sentinel_user;
    const char *sentinel_password;
    bool wait_fsync; /**< a take or a renewal counts only when it is in the append-only file on the
                          disk of the server, and of wait_replicas replicas, within
                          wait_replicas_ms; else the lock is given back: TL_EUNAVAILABLE. Then
                          attempt_ms is 5000 unless told otherwise, since with appendfsync everysec
                          it takes up to two seconds: a ttl_ms of 15 s at least, or appendfsync
                          always. Needs Redis 7.2 (WAITAOF) with appendonly yes, else
                          TL_EUNSUPPORTED; appendfsync no never confirms [false] */
    /** Asked for the password before each login, for passwords that change while locks are held, as access tokens
     *  do: it writes one and its NUL to ret, which has `size` bytes, and returns true. When it returns false, the login
     *  uses the password of the other options and the URL. From any thread, and from several at a time; it must not call
     *  the library, and must return soon, since renewals wait for it [none] */
    bool (*password_fn)(tl_password_for whose, char *ret, size_t size, void *ctx);
    void *password_ctx; /**< of password_fn */
} tl_client_options;

#define TL_QUIET_OFF (-1)    /**< tl_client_options.quiet_ms: off, also where it isn't by default */
#define TL_HAS_WAIT_FSYNC 1  /**< tl_client_options has wait_fsync */
#define TL_HAS_SENTINEL 1    /**< tl_client_options has sentinel_user and sentinel_password */
#define TL_HAS_PASSWORD_FN 1 /**< tl_client_options has password_fn and password_ctx */

/* Options by name: TL_CLIENT_OPTIONS(.url = "redis://10.0.0.5"). In C++ TL_CLIENT_OPTIONS() alone,
 * whose members are then set. TL_LOCK_OPTIONS, below, is the same. */
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
 * Make a client. No I/O: the server is reached when it is first needed.
 *
 * ret_client  the client; close it with tl_client_close
 *
 * TL_EINVALID  an option or the URL is wrong; err says which
 * TL_ENOMEM    out of memory or descriptors
 */
tl_err tl_client_open(const tl_client_options *options, tl_client **ret_client, tl_error *err);

/**
 * Close a client whose locks have been freed. Requests that were abandoned without a reply are
 * still cleaned up, and with TL_AUTO the client's records taken away, for at most attempt_ms;
 * blocks at most that long. NULL is fine.
 */
void tl_client_close(tl_client *client);

/**
 * Ask the server for its time once: proves that it can be reached and that it lets us in.
 * Blocks at most connect_ms + attempt_ms.
 *
 * TL_EINVALID  the server has no such database; or the client is used after fork
 * TL_EUNAVAILABLE, TL_EDENIED, TL_ESERVER, TL_ENOMEM
 */
tl_err tl_client_ping(tl_client *client, tl_error *err);

#define TL_HAS_STATS 1      /**< there is tl_client_stats */
#define TL_STATS_RESULTS 24 /**< more than there are results: the rest stays 0 */
#define TL_STATS_CAUSES 8   /**< and causes of a loss */
#define TL_STATS_BUCKETS 28

/** What bucket number i of durations ends at, in microseconds: it counts those that were shorter, and no shorter than
 *  the end of the one before. The last has no end. */
#define TL_STATS_BUCKET_US(i) (INT64_C(8) << (i))

/** How long something took, each time. */
typedef struct {
    uint64_t count;  /**< that of all buckets */
    uint64_t sum_us; /**< of all durations */
    uint64_t bucket[TL_STATS_BUCKETS];
} tl_durations;

/** What a client has done since it was opened. All but the clock only grows; one reading may be in the middle of what
 *  another thread is doing. */
typedef struct {
    size_t size; /**< sizeof(tl_stats), set by the caller */
    /** Calls, by how they ended, each at the index of its tl_err: [TL_OK] were successful. Those that end in
     *  _async count when they have ended, or could not begin. tl_acquire and tl_release are among them. */
    uint64_t acquires[TL_STATS_RESULTS];
    uint64_t releases[TL_STATS_RESULTS];
    uint64_t extends[TL_STATS_RESULTS];
    uint64_t
        waited; /**< of acquires[TL_OK]: another held the lock first, or it stood behind others */
    uint64_t
        handed_over; /**< of acquires[TL_OK]: by another lock of this client, without a request */
    uint64_t
        renewals; /**< in the background, that succeeded; with redis+quorum: one of each server */
    uint64_t renewals_failed; /**< and that didn't; each is tried again while the lock is held */
    uint64_t at_risk;         /**< how often a lock became TL_AT_RISK */
    /** Locks that were lost while they were held, each at the index of its tl_lost_why. What only a release or an
     *  extension found out is in releases and extends: TL_EEXPIRED, TL_ETAKEN. */
    uint64_t lost[TL_STATS_CAUSES];
    uint64_t stolen; /**< of lost[TL_LOST_TAKEN]: by a legacy client whose clock runs ahead */
    uint64_t
        connections; /**< that were made to servers and let us in, those that only listen not counted */
    uint64_t unanswered; /**< requests that were sent, or begun to be, and not answered in time */
    tl_durations wait;   /**< of acquires[TL_OK]: from the call until it was held */
    /** Requests that were answered, and how long that took. One may renew a hundred locks. Those to Sentinels, and
     *  to nodes of a cluster about others, are not counted. */
    tl_durations round_trips;
    /** The servers whose clocks are known, and how far the clock of one of them is ahead of this host's: of that
     *  which is furthest off, as it was told last. etcd tells no time. */
    uint32_t clocks;
    int64_t clock_offset_us; /**< negative: behind */
    int64_t clock_width_us;  /**< it is at most half of this from the truth */
    int64_t clock_age_ms;    /**< since it was told */
} tl_stats;

/**
 * Tell what the client has done. No I/O; any thread, but not from within `log`.
 *
 * ret_stats  set its size before: tl_stats s = {.size = sizeof s}
 *
 * TL_EINVALID  its size can't be; or the client is used after fork
 */
tl_err tl_client_stats(tl_client *client, tl_stats *ret_stats, tl_error *err);

/* ---- in two calls ----------------------------------------------------------------------------- */

/**
 * Make a lock with the default options, and acquire it: tl_lock_new, then tl_lock_acquire. What
 * tells of a lock (its state, remaining time, fence) and extends it may be used between the two.
 *
 * key      text, 1..TL_KEY_MAX bytes
 * wait_ms  0 tries once; TL_FOREVER waits without limit
 * returns  the lock, held; NULL on failure, with err filled: TL_EBUSY or TL_ETIMEDOUT when another
 *          holds it, and whatever else tl_lock_acquire and tl_lock_new fail with
 *
 * Blocks at most wait_ms; with wait_ms 0 at most connect_ms + attempt_ms.
 */
tl_lock *tl_acquire(tl_client *client, const char *key, int64_t wait_ms, tl_error *err);

/**
 * Release a lock, and free it whatever comes of that: the results are those of tl_lock_release. Only
 * TL_OK says that it was held all the time. NULL is fine: TL_OK.
 *
 * Blocks at most attempt_ms.
 */
tl_err tl_release(tl_lock *lock, tl_error *err);

/* ---- lock ------------------------------------------------------------------------------------ */

/** How long to pause between two attempts while another holds the lock. */
typedef enum {
    TL_RETRY_AUTO = 0,    /**< until the release is announced or the holder's time is up; 50 to
                               250 ms, at random, when its holder announces nothing */
    TL_RETRY_FIXED,       /**< retry_delay_ms each time */
    TL_RETRY_EXPONENTIAL, /**< at random up to retry_delay_ms, doubled each time up to
                               retry_max_delay_ms */
    TL_RETRY_CUSTOM       /**< whatever retry_next() says */
} tl_retry_kind;

/** What a lock is at this moment. */
typedef enum {
    TL_FREE = 0, /**< never acquired, or released */
    TL_HELD,     /**< ours, and renewed in time */
    TL_AT_RISK,  /**< ours until the deadline, but a renewal has failed */
    TL_LOST      /**< was ours, and is not any more */
} tl_state;

/** Why a lock was lost. */
typedef enum {
    TL_NOT_LOST = 0,
    TL_LOST_EXPIRED, /**< no renewal succeeded before the deadline */
    TL_LOST_TAKEN,   /**< another holds it */
    TL_LOST_GONE,    /**< the key was deleted or evicted */
    TL_LOST_MAX_HOLD /**< max_hold_ms is over */
} tl_lost_why;

/** What on_event gets. AT_RISK and HELD alternate: a risk that ends before the callback could
 *  run is not reported. */
typedef struct {
    size_t size;            /**< how much of it the library has filled in */
    tl_state state;         /**< the new one: AT_RISK; HELD again, renewed or extended; or LOST */
    tl_lost_why why;        /**< with LOST */
    int64_t remaining_ms;   /**< of the safe lifetime */
    const char *detail;     /**< one line for a log; valid during the call. AT_RISK, and LOST with
                                 EXPIRED: it ends with the reason for which the renewals failed, as the
                                 server or the connection gave it; of several servers, of each */
    bool stolen;            /**< LOST, TAKEN: by a legacy client whose clock runs ahead */
    int64_t thief_ahead_ms; /**< stolen: how far ahead of the server's clock, at least; exact to the
                                 time that it took to notice */
} tl_lock_event;

/** What a lock is like. Every member but size may stay 0 and then has the default in brackets. */
typedef struct {
    size_t size;    /**< sizeof(tl_lock_options); TL_LOCK_OPTIONS sets it */
    int64_t ttl_ms; /**< lifetime, 10..86400000 [30000]; legacy.h has the limits and the default
                              where the lock is shared with legacy clients */
    int64_t
        max_hold_ms; /**< the lock is lost by then, however long its lifetime: tl_lock_remaining_ms tells no more
                              than this leaves. Its key stays for the rest of the lifetime, unless it is
                              released, or the same handle acquires anew [0: no limit] */
    bool manual_renew; /**< leave renewing to tl_lock_extend [false] */
    void (*on_event)(tl_lock *lock, const tl_lock_event *event, void *ctx); /**< keeper thread */
    void *ctx;                                                              /**< of on_event */
    tl_retry_kind retry;                                                    /**< [TL_RETRY_AUTO] */
    uint32_t retry_max_attempts; /**< give up with TL_EBUSY after so many [0: no limit] */
    int64_t retry_delay_ms;      /**< FIXED, EXPONENTIAL [100] */
    int64_t retry_max_delay_ms;  /**< EXPONENTIAL [5000] */
    /** CUSTOM: the pause before the next attempt, or a negative number to stop with TL_EBUSY.
     *  attempts so far, 1 or more; waited so far. Called on the acquiring thread, or on the keeper's
     *  for tl_lock_acquire_async and with redis+quorum:; must neither block nor call the library. */
    int64_t (*retry_next)(uint32_t attempts, int64_t waited_ms, void *ctx);
    void *retry_ctx;
    const struct tl_legacy_options *legacy; /**< `dialect` alone, for this key [the client's] */
    bool
        fair; /**< wait in the order in which the server saw who waits, over all hosts and threads; needs
                    TL_TOKEN and TL_RETRY_AUTO: below [false] */
} tl_lock_options;

#define TL_HAS_FAIR 1 /**< tl_lock_options has `fair` */

/*
 * Waiting, with TL_TOKEN, or with TL_AUTO while the phase is that of tokens, from Redis 3.2 on: who waits
 * stands in line at the server, which gives the lock to the next when it is released. By default a process stands
 * there once for all that wait in it: they come in turn by process. Within one the lock is passed on, 49 times and for
 * a second at most, if no other stood there when the process was given it. With `fair` each waiter stands there by
 * itself: the order is that in which the server saw them, and nothing is passed on. With TL_AUTO the next is called,
 * and acquires the lock by itself, for which the key is kept free, 5 s at most: others of tidelock stay out meanwhile,
 * `SET NX` doesn't.
 *   - Clients that only try `SET NX` again and again get no turn while a line lasts but after each 200 grants
 *     without `fair`; while only fair ones wait, none at all.
 *   - Below 3.2, and for a user who lacks the permission to stand in line (`tidelock
 *     doctor` tells), who waits listens for the release, or asks again and again: whoever is first then has it, and
 *     anybody may starve. `fair` is no error there.
 *
 * What protects a hold: its first renewal, at a third of the lifetime but within a second of the acquire (or of its
 * being passed on within a process, which goes on for a second at most), notes the holder beside the key. From then on
 * a key that is deleted by hand or evicted is not given to others of tidelock before the holder's time is up; until
 * then it is free at once. With manual_renew, and with TL_AUTO, it is noted from the start. A first request that is
 * held up on its way, beyond the acquire it belongs to, may still set the key for nobody: for one lifetime at most.
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
#define TL_KEY_MAX 16384       /**< bytes in a key; any byte is allowed */
#define TL_TTL_MIN_MS 10       /**< shortest lifetime */
#define TL_TTL_MAX_MS 86400000 /**< longest lifetime: a day */
#define TL_TOKEN_SIZE 37       /**< a token's text with its final NUL */

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
 * itself; what goes on without blocking is given up. Waits for a callback of it that is running on
 * another thread. NULL is fine.
 */
void tl_lock_free(tl_lock *lock);

/**
 * Acquire the lock. Then it is renewed in the background (but with manual_renew): work while
 * tl_lock_remaining_ms is positive, hand tl_lock_fence to whatever the lock protects, and end with
 * tl_lock_release. A lock that is lost meanwhile, which tl_lock_state and on_event tell, needs no
 * release, and may be acquired again at once.
 *
 * After any result but TL_OK nothing was acquired: don't work, and don't release. The same handle may
 * try again whenever you like. It is of use after TL_EBUSY, TL_ETIMEDOUT, TL_EUNCERTAIN and
 * TL_EUNAVAILABLE, which pass by themselves. TL_ECANCELLED is your own doing; after the others somebody
 * has to mend what err names.
 *
 * wait_ms  how long to wait while another holds it: 0 tries once; TL_FOREVER waits without limit
 *
 * TL_OK            held; remaining, fence and token are set. Passed on by another lock of this
 *                  client, it has half of ttl_ms left at least, and is renewed from there
 * TL_EBUSY         another holds it (wait_ms 0, or the retry strategy gave up). err says so when
 *                  that is another handle of this client, as it does with TL_ETIMEDOUT. With
 *                  TL_FOREVER: another handle holds it, or on etcd a lock below its name, until it is released, and nobody could
 *                  release it: the program has no other thread, and the client no function to call
 * TL_ETIMEDOUT     another held it for all of wait_ms
 * TL_ECANCELLED    tl_lock_cancel was called, during this call or before it
 * TL_EUNCERTAIN    time ran out with a request unanswered. If it takes effect it is undone in the
 *                  background, at the latest by the lock's expiry: treat the lock as not held
 * TL_EUNAVAILABLE  the server was not reached: within connect_ms when wait_ms is 0 or TL_FOREVER,
 *                  within wait_ms otherwise. With wait_ms 0 it fails sooner, after a second try,
 *                  when certainly no server is there: connection refused, no such socket or host,
 *                  no route to it (but not with local:). Once the server has replied, an acquire
 *                  waits through an outage, and fails so if the server is still away after wait_ms
 * TL_ECLOCK        shared with legacy clients alone: a clock is too far off, see legacy.h
 * TL_EDENIED       the server refused
 * TL_EUNSUPPORTED  the server lacks a command that this protocol needs; err names it, the version
 *                  that has it, and the protocol that works there
 * TL_ESERVER, TL_ENOMEM
 * TL_EINVALID      the handle holds it already, and still does; wait_ms is negative; or the handle is
 *                  used after fork
 *
 * Blocks at most wait_ms; with wait_ms 0 at most connect_ms + attempt_ms of tl_client_options: 7 s
 * unless they are set, 10 s with wait_fsync; and attempt_ms more after a hold that max_hold_ms has
 * ended, whose key is removed first. tl_lock_acquire_async doesn't block.
 */
tl_err tl_lock_acquire(tl_lock *lock, int64_t wait_ms, tl_error *err);

/**
 * Release the lock. Whatever is returned, the lock is not held any more by this handle, which may
 * acquire it again or be freed. With TL_OK all that was done under it was protected; otherwise only
 * what was done while tl_lock_remaining_ms was positive.
 *
 * TL_OK            it was ours until now
 * TL_EEXPIRED      it had expired or been deleted, and nobody has it
 * TL_ETAKEN        it expired or was stolen, and another has it
 * TL_EUNCERTAIN    no reply in time; it is tried again in the background, and the lock expires by
 *                  itself in any case
 * TL_EUNAVAILABLE  the same, with nothing sent yet
 * TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM  it was not released; it expires by itself
 * TL_EINVALID      it was not held
 *
 * Blocks at most attempt_ms.
 */
tl_err tl_lock_release(tl_lock *lock, tl_error *err);

/**
 * Extend a held lock to ttl_ms from now, and renew it with that lifetime from then on. The server
 * never shortens a lifetime; a smaller ttl_ms only makes this side expect less.
 *
 * ttl_ms  as in tl_lock_options
 *
 * TL_OK            held for what ttl_ms counts for (see drift_ppm), less the time that the request
 *                  took
 * TL_EEXPIRED      no longer ours, and nobody has it; final
 * TL_ETAKEN        no longer ours, and another has it; final
 * TL_ELOST         it had been lost before; final
 * TL_EUNCERTAIN    sent, no reply seen: count on the old deadline
 * TL_EUNAVAILABLE  not sent: count on the old deadline, as after all that follow
 * TL_EDENIED, TL_ESERVER, TL_EUNSUPPORTED, TL_ENOMEM
 * TL_EINVALID      it is not held, was never or was released; ttl_ms can't be; or the handle is used
 *                  after fork
 *
 * Blocks at most attempt_ms.
 */
tl_err tl_lock_extend(tl_lock *lock, int64_t ttl_ms, tl_error *err);

/**
 * Let this handle speak for a lock that was acquired elsewhere, say by another process that passed
 * on its token. No I/O. The lock counts as lost until tl_lock_extend has confirmed it;
 * tl_lock_release may be called at once. Its fencing number is not known: 0.
 *
 * TL_EINVALID  the lock is held, or the token is not 1..TL_TOKEN_SIZE-1 bytes
 */
tl_err tl_lock_adopt(tl_lock *lock, const char *token, tl_error *err);

/** Make the acquire that is running, or else the next one, return TL_ECANCELLED. Any thread. */
void tl_lock_cancel(tl_lock *lock);

/** The state at this moment; LOST as soon as the deadline, or max_hold_ms, has passed. Any thread, no blocking. */
tl_state tl_lock_state(const tl_lock *lock);

/** Milliseconds for which the lock is certainly still ours, 0 when it is not. Any thread. */
int64_t tl_lock_remaining_ms(const tl_lock *lock);

/**
 * The fencing number of the present or last hold: larger for each later holder of the key, so that
 * whatever the lock protects can refuse an older one. 0 before the first. Below 2^53. Any thread.
 *
 * It is the server's time in us, or one more than the last. A server whose clock was ahead and is set right goes on from
 * there: the numbers go on rising. Only until the clock has caught up, a failover that forgets the last writes may
 * give some of them again, which else the clock prevents. `tidelock doctor KEY` says so.
 */
uint64_t tl_lock_fence(const tl_lock *lock);

/** The token of the present or last hold, "" before the first. Valid until the next acquire. */
const char *tl_lock_token(const tl_lock *lock);

/* ---- without blocking ------------------------------------------------------------------------- */

/**
 * How an operation ended; called exactly once, unless its lock is freed before.
 *
 * code  what the call that blocks would have returned
 * err   with more about it, valid during the call; NULL when code is TL_OK
 */
typedef void (*tl_done_fn)(tl_lock *lock, tl_err code, const tl_error *err, void *ctx);

/**
 * Begin to acquire; `done` tells the end. Until then nothing else may be done with the lock but
 * cancelling, looking at its state, and freeing it. Does not block.
 *
 * TL_EINVALID  as for tl_lock_acquire, or another operation is in flight: done is not called
 * TL_ENOMEM
 */
tl_err tl_lock_acquire_async(tl_lock *lock, int64_t wait_ms, tl_done_fn done, void *ctx,
                             tl_error *err);

/** Begin to release; as tl_lock_acquire_async. From now on the lock is not held any more. */
tl_err tl_lock_release_async(tl_lock *lock, tl_done_fn done, void *ctx, tl_error *err);

/**
 * A descriptor for poll, epoll, libuv, libevent, GLib …: readable when tl_client_dispatch has
 * something to do. It stays the same and belongs to the client. -1 without the option `dispatch`.
 */
int tl_client_fd(const tl_client *client);

/**
 * Read answers, make the callbacks that are due, 64 at most, and write what they have asked for, all
 * on this thread; one thread at a time. Does not block. Returns how many callbacks were made, which
 * may be none; with more to make, the descriptor stays readable. A loop that comes late delays what
 * it is told, but no renewal.
 */
int tl_client_dispatch(tl_client *client);

#ifdef __cplusplus
}
#endif

#endif
