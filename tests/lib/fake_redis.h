/*
 * A Redis server as a value: in this process, deterministic, without I/O, clock or threads. It
 * executes one command at a time at the time it was told, and answers in the words of
 * redis-server 7.0, or of an older server where a level is set.
 *
 * A server and all its connections belong to one thread. Servers made with fake_redis_beside or
 * fake_redis_clone share compiled scripts (nothing else) and so must stay in the same thread.
 * Running out of memory aborts.
 */
#pragma once

#include "wire/reply.h"

typedef struct fake_redis fake_redis;
typedef struct fake_conn fake_conn;

/** 7.0.15 is 0x07000f; the default. */
#define FAKE_LEVEL(major, minor, patch) (((uint32_t)(major) << 16) | ((minor) << 8) | (patch))

typedef struct {
    /** A line of MONITOR, a published message, the news that a tracked key has changed, or the confirmation of a
     *  (un)subscription. Valid during the call, which
     *  may not call the fake. NULL: not wanted. */
    void (*push)(void *ctx, const tl_reply *reply);
} fake_calls;

/* ---- life ------------------------------------------------------------------------------------ */

/** Empty, at time 0, level 7.0.15. */
fake_redis *fake_redis_new(void);

/** Empty, and shares its compiled scripts with `peer`: much cheaper to make. */
fake_redis *fake_redis_beside(const fake_redis *peer);

/** A copy of data, loaded scripts, time and knobs, without connections and write hook. */
fake_redis *fake_redis_clone(const fake_redis *from);

/** Replace the data and loaded scripts of `to` by those of `from`, as a replica that is filled anew:
 *  who tracks keys is told that all have changed. Both share compiled scripts. */
void fake_redis_copy(fake_redis *to, const fake_redis *from);

/** As after a restart: no loaded scripts, no subscriptions, watches, tracking or open transactions,
 *  every connection logged out and on database 0 and with an id counted anew, and no data either
 *  unless it is kept. */
void fake_redis_restart(fake_redis *r, bool keep_data);

/** As fresh from fake_redis_new, knobs and connections included (they are closed), except that
 *  compiled scripts are kept: for the next run of a simulation. */
void fake_redis_reset(fake_redis *r);

/** NULL is fine. Open connections are closed. */
void fake_redis_free(fake_redis *r);

/* ---- time ------------------------------------------------------------------------------------ */

/** The server's wall clock, microseconds since the epoch; it may step either way. */
void fake_redis_set_time(fake_redis *r, int64_t us);
int64_t fake_redis_time(const fake_redis *r);

/** Delete what has expired, as the server does now and then; otherwise a key goes when it is looked
 *  at, and one nobody looked at comes back when the clock steps back. */
void fake_redis_expire_cycle(fake_redis *r);

/* ---- connections ----------------------------------------------------------------------------- */

/** `calls` is copied; NULL is fine. */
fake_conn *fake_redis_connect(fake_redis *r, const fake_calls *calls, void *ctx);

/** What MONITOR and CLIENT LIST call the client: "HOST:PORT", or "unix:PATH". Otherwise it is
 *  "127.0.0.1:" and a port by its id. */
void fake_conn_set_address(fake_conn *conn, const char *address);

/** Obey it whatever the knobs say, as a replica obeys its master: an administrator's. */
void fake_conn_trust(fake_conn *conn);

/** NULL is fine. Its watches, subscriptions and queued commands are forgotten. */
void fake_conn_close(fake_conn *conn);

/** Execute one command. The reply is valid until the connection's next command. NULL when every
 *  reply went to `push`: SUBSCRIBE and UNSUBSCRIBE, which answer once for each channel. */
const tl_reply *fake_conn_command(fake_conn *conn, const tl_bytes *argv, size_t argc);

/** The same with the words of a line as arguments, for tests: fake_conn_say(c, "SET k v NX"). */
const tl_reply *fake_conn_say(fake_conn *conn, const char *line);

/** Has it said QUIT? Then the transport closes it once the reply is written. */
bool fake_conn_closing(const fake_conn *conn);
/** Has another ended it? Then the transport closes it at once: what it has sent is not read any more. */
bool fake_conn_killed(const fake_conn *conn);

/* ---- writes, for replicas -------------------------------------------------------------------- */

/** A write that changed something, as a replica is to apply it: times are absolute, and an expired
 *  key that was removed is a DEL. And whatever is published, which a replica repeats to those who listen
 *  there. What one script or transaction does has the same `unit`. */
typedef void (*fake_wrote)(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc);

void fake_redis_on_write(fake_redis *r, fake_wrote wrote, void *ctx);

/** Apply such a write, whatever the knobs say. */
void fake_redis_apply(fake_redis *r, int db, const tl_bytes *argv, size_t argc);

/* ---- knobs ----------------------------------------------------------------------------------- */

/** Answer as an older server: commands and options it lacks, the texts of its errors, what its
 *  scripts may do, and below 2.2 the volatile keys that any write first deletes. */
void fake_redis_set_level(fake_redis *r, uint32_t level);

typedef enum { FAKE_ALLOW, FAKE_RENAMED, FAKE_NOPERM } fake_denial;

/** Deny the commands in `names` ("EVAL EVALSHA CLIENT|TRACKING"): as unknown, as rename-command ""
 *  does, or as an ACL does, and a subcommand only so. FAKE_ALLOW takes it back. */
void fake_redis_deny(fake_redis *r, const char *names, fake_denial denial);

/** As Valkey 9.1 without its Lua module: EVAL and EVALSHA are there, and run nothing. */
void fake_redis_set_engineless(fake_redis *r, bool engineless);

/** Of keys, and from level 6.2 on of channels, only those that fit a pattern of `patterns` ("a* b?")
 *  may be touched: else NOPERM, as an ACL does. A pattern of keys may be for reading ("%R~a*") or for
 *  writing ("%W~a*") alone, as from 7.0 on. NULL: all, the default. Who subscribes already goes on. */
void fake_redis_allow_keys(fake_redis *r, const char *patterns);
/** A script that declares keys may touch these and those that fit a pattern of `patterns`: others are an error, as on
 *  servers that run scripts side by side. Kept, not copied. The default is FAKE_UNDECLARED; NULL: all. A script without keys, such as
 *  scan.lua, looks for them, and may touch all. */
#define FAKE_UNDECLARED "tidelock:reign*" /* quiet.lua finds their names by INFO */
void fake_redis_allow_undeclared(fake_redis *r, const char *patterns);
void fake_redis_allow_channels(fake_redis *r, const char *patterns);

/** A cluster's node that has all slots: one slot in a command, script or transaction; no SELECT. */
void fake_redis_set_cluster(fake_redis *r, bool cluster);

typedef enum {
    FAKE_SLOTS_HERE,
    FAKE_SLOTS_MOVED,     /**< MOVED */
    FAKE_SLOTS_MIGRATING, /**< ASK for keys that are not here, TRYAGAIN where only some are */
    FAKE_SLOTS_IMPORTING, /**< behind ASKING it is as HERE, but TRYAGAIN where one of several isn't; else MOVED */
    FAKE_SLOTS_NOWHERE /**< CLUSTERDOWN */
} fake_slots;

/** How a cluster's node has the slots first..last; all others are here. `to`: "HOST:PORT", copied. */
void fake_redis_move_slots(fake_redis *r, unsigned first, unsigned last, fake_slots where,
                           const char *to);
/** The same by a function, which is asked of each slot; ret_to: of the other node. NULL: as above. */
#define FAKE_NODES_MAX 1024
/** It is the node `self` of `n` masters at these ports of 127.0.0.1, of which each has an equal share of the slots: it says so, and
 *  redirects what is another's. */
void fake_redis_set_nodes(fake_redis *r, const uint16_t *ports, unsigned n, unsigned self);
typedef fake_slots (*fake_where)(void *ctx, unsigned slot, const char **ret_to);
void fake_redis_on_slot(fake_redis *r, fake_where where, void *ctx);
unsigned fake_redis_slot(tl_bytes key);
/** Of slots that are migrating, the keys of these patterns are not here any more. They are kept for
 *  when they come back, and may expire meanwhile as they would elsewhere. NULL: none, the default. */
void fake_redis_leave_keys(fake_redis *r, const char *patterns);

/** A read-only replica: READONLY to writes, role slave; expired keys are hidden, not deleted. */
void fake_redis_set_replica(fake_redis *r, bool replica);
/** Above maxmemory: OOM to commands that may use more. */
void fake_redis_set_oom(fake_redis *r, bool oom);
/** What notify-keyspace-events is at the start: "KEA", "Kg$xm". "": none, the default; a letter that
 *  the level doesn't know: none. */
void fake_redis_set_events(fake_redis *r, const char *events);
void fake_redis_set_loading(fake_redis *r, bool loading);
/** NULL: none needed. Connections that are open stay logged in. */
void fake_redis_set_password(fake_redis *r, const char *password);
/** What WAIT answers. */
void fake_redis_set_replicas(fake_redis *r, int replicas);
/** What WAITAOF answers: an error without an append-only file, which is the default; or whether it is on the disk
 *  here, and on how many replicas'. */
void fake_redis_set_disks(fake_redis *r, bool appends, bool synced, int replicas);
/** When the server started, on its own clock: uptime is the time less this. Default 0. */
void fake_redis_set_started(fake_redis *r, int64_t us);
/** What INFO says of which process it is. Default 0. */
void fake_redis_set_run_id(fake_redis *r, uint64_t id);
/** And of which history of replication its data are (from 4.0). Default 0. */
void fake_redis_set_replid(fake_redis *r, uint64_t id);
/** What INFO tells of `run_id` and `master_replid` is nothing, as by a proxy. */
void fake_redis_set_nameless(fake_redis *r, bool nameless);

/* ---- looking inside -------------------------------------------------------------------------- */

/** Commands executed for clients so far, those of scripts not counted. By name, or NULL: all. */
uint64_t fake_redis_count(const fake_redis *r, const char *name);

/** A key's string value without touching anything; false when absent, expired or not a string. */
bool fake_redis_peek(const fake_redis *r, int db, tl_bytes key, tl_bytes *ret);

/** A key's expiry, server milliseconds; -1 without, -2 when absent or expired. */
int64_t fake_redis_peek_expiry(const fake_redis *r, int db, tl_bytes key);

/** A hash field's value, likewise. */
bool fake_redis_peek_field(const fake_redis *r, int db, tl_bytes key, tl_bytes field,
                           tl_bytes *ret);

/** Visit every key that has not expired. */
void fake_redis_each_key(const fake_redis *r, int db, void (*visit)(void *ctx, tl_bytes key),
                         void *ctx);
