/*
 * What a run consists of: all of it follows from the seed, and may then be changed by a scenario or
 * by the shrinking of a failure. Each seed draws which faults are on and how strong.
 */
#pragma once

#include "queue.h"

#define SIM_HOSTS 4
#define SIM_KEYS 3
#define SIM_ACTORS 9
#define SIM_REPLICAS 2
#define SIM_SERVERS (1 + SIM_REPLICAS)
#define SIM_SENTINELS 3
#define SIM_VOTERS 7         /* of a quorum, at most */
#define SIM_MEMBERS 5        /* of an etcd, at most */
#define SIM_NODES SIM_VOTERS /* whatever can be connected to */
#define SIM_SHARDS                                                                                 \
    3 /* masters of a cluster; their replicas are the servers behind them, in the same order */

_Static_assert(2 * SIM_SHARDS <= SIM_NODES, "room for a cluster's");
_Static_assert(SIM_SERVERS + SIM_SENTINELS <= SIM_NODES, "and for Sentinels");

/** Faults: name, word, usual strength from .. to. The first are per million messages; those from
 *  PARTITION on happen on the average each so many hundredths of the lock's lifetime. */
#define SIM_FAULTS(X)                                                                              \
    X(SLOW, "slow", 2000, 60000)                 /* a message takes 10 to 1000 times as long */    \
    X(LOSE_REQUEST, "lose-request", 1000, 40000) /* and all that follow on the connection */       \
    X(LOSE_REPLY, "lose-reply", 1000, 40000)     /* the same, on the way back */                   \
    X(STUCK, "stuck", 500, 20000)                /* a request lies in a buffer for long */         \
    X(RESET, "reset", 500, 20000)                /* the connection is reset */                     \
    X(STALE, "stale", 500, 20000)                /* stopped after reading the clock */             \
    X(STARVE, "starve", 500, 20000)              /* a thread gets the processor late */            \
    X(SHORT, "short", 2000, 100000)              /* a part is sent or received */                  \
    X(NO_NAME, "no-name", 20000, 200000)         /* a name is not found */                         \
    X(PARTITION, "partition", 100, 2000)         /* a host and the server, one or both ways */     \
    X(PAUSE, "pause", 100, 2000)                 /* a host's processes stop */                     \
    X(CRASH, "crash", 200, 2000)                 /* a host loses everything */                     \
    X(SERVER_PAUSE, "server-pause", 100, 2000)   /* the server stops for a while */                \
    X(RESTART, "restart", 300, 3000)             /* the server restarts with its data */           \
    X(FAILOVER, "failover", 300, 3000)           /* a replica that has everything takes over */    \
    X(FLUSH, "flush", 100, 2000)                 /* SCRIPT FLUSH */                                \
    X(OOM, "oom", 200, 2000)                     /* memory is full for a while */                  \
    X(DELETE, "delete", 100, 2000)               /* somebody deletes a lock's key by hand */       \
    X(STEP, "step", 200, 2000)                   /* a host's wall clock steps, or is slewed */     \
    X(LOSSY, "lossy", 300, 3000)                 /* broken: a failover loses the last writes */    \
    X(FORGET, "forget", 300, 3000)               /* broken: a restart loses everything */          \
    X(QUICK, "quick", 300, 3000) /* broken: so does one before the new clock is there */           \
    X(JUMP, "jump", 200, 2000)   /* broken: the server's clock jumps forward */                    \
    X(SLEW, "slew", 30, 1000)    /* a clock is slewed to another rate; only if it is asked for */  \
    X(FREEZE, "freeze", 200,                                                                       \
      3000) /* broken without `vmclock`: a host is paused, its deadline clock, too */              \
    X(BEYOND, "beyond", 100, 1000) /* broken: a clock is slewed beyond what is assumed, or back */ \
    X(FORK, "fork", 300, 3000)     /* a process forks, whatever its threads are doing */           \
    X(DENY, "deny", 300, 3000)     /* a command is forbidden for a while */                        \
    X(MOVE, "move", 300, 3000)     /* a cluster's slots go elsewhere for a while */                \
    X(WITHHOLD, "withhold", 300, 3000) /* keys are forbidden for a while */                        \
    X(SWITCH, "switch", 200, 2000)     /* Sentinels have another take over */                      \
    X(ASIDE, "aside", 200, 2000)       /* a Sentinel is down, or cut off from a host */            \
    X(DOUBT, "doubt", 200, 2000)       /* errors of etcd for what may be executed later */         \
    X(WEDGE, "wedge", 200, 2000)       /* a stream of etcd's watches goes silent for ever */

#define SIM_FAULT_ENUM(upper, word, least, most) SIM_##upper,
typedef enum { SIM_FAULTS(SIM_FAULT_ENUM) SIM_FAULT_COUNT } sim_fault;

#define SIM_FIRST_TIMED SIM_PARTITION
#define SIM_FIRST_BROKEN SIM_LOSSY
#define SIM_LAST_BROKEN SIM_JUMP
#define SIM_DENIABLE 9        /* commands that a server may forbid: sim_server_deny */
#define SIM_MOVES 16          /* ways of slots to be elsewhere: sim_slots_move */
#define SIM_TOUCHES 8         /* sets of keys that may be touched: sim_keys_forbid; */
#define SIM_TOUCHES_PLAIN 5   /* those of them that a server before 7.0 can tell */
#define SIM_BEYOND_PPM 400000 /* no clock is further off */

/** What becomes of the master that Sentinels have another take over from. */
typedef enum {
    SIM_DIES,    /**< it is dead, and comes back as a replica */
    SIM_RETURNS, /**< it comes back, and is the master as far as it knows */
    SIM_WAKES,   /**< it is stopped, and when it goes on it executes what lay in its sockets */
    SIM_PARTED,  /**< it and some hosts are cut off from the others */
    SIM_LED,     /**< it is told to be a replica soon after */
    SIM_WAYS
} sim_way;

#define SIM_ALL_WAYS ((1 << SIM_WAYS) - 1)
#define SIM_GRANT_MS 2000 /* Valkey postpones for so long after it has given a slot away */
#define SIM_COUNTS_MS                                                                              \
    1000 /* what one that isn't the master any more says counts for so long at most */

/** BRIDGE, STAMP and STRICT speak stamps; STRICT: with the commands of the legacy clients alone. */
typedef enum {
    SIM_TOKEN,
    SIM_PLAIN,
    SIM_JAVA,
    SIM_BRIDGE,
    SIM_STAMP,
    SIM_STRICT,
    SIM_AUTO,     /**< follows the phase of the namespace */
    SIM_OPERATOR, /**< moves it */
    SIM_DROP_IN,  /**< follows it too: a Java service with the drop-in */
    SIM_KIND_COUNT
} sim_kind;

typedef struct {
    uint8_t kind, host, key;
    bool loops; /**< an event loop, by calls that don't block */
} sim_cast;

typedef struct {
    uint64_t seed;
    sim_ns until; /**< no more faults, nothing new is begun */
    int hosts, keys, actors, replicas;
    sim_cast cast[SIM_ACTORS];
    int64_t ttl_ms, attempt_ms, connect_ms, quiet_ms;
    int32_t wait_replicas, wait_replicas_ms, drift_ppm;
    uint32_t level;     /**< of the server, as FAKE_LEVEL */
    sim_ns delay, late; /**< usual one-way delay; how late timers are at most */
    int64_t server_ppb, host_ppb[SIM_HOSTS]; /**< rates; within the bound unless `slow_clock` */
    int64_t wall_offset_ms[SIM_HOSTS], wall_ppb[SIM_HOSTS]; /**< legacy clocks */
    int64_t behind_us
        [SIM_NODES -
         1]; /**< a server's clock, behind the first one's; a replica's is behind its master's */
    int64_t java_ttl_ms;
    int64_t java_slack_ms; /**< jobs end so long before their stamp at the latest; SIM_NEVER: any */
    int64_t skew_ms;       /**< legacy clocks are right or off by it; SIM_NEVER: any */
    int64_t hold_ms, idle_ms; /**< about how long */
    bool slow_clock;          /**< broken: the rates differ by more than drift_ppm */
    bool one_java_key;    /**< each Java process uses one key only, so its one flag does no harm */
    bool tame;            /**< without what few seeds have */
    bool trace;           /**< a story tells what each thread's machines do */
    bool by_name;         /**< the server's name is looked up for each connection */
    uint32_t switches;    /**< per million places where a thread may be stopped for another */
    uint32_t own_clients; /**< per million uses of a lock: with a client of its own */
    uint32_t fair;        /**< per million locks that wait in the usual way: `fair` */
    uint32_t stall;       /**< per million locks that are renewed: with a watchdog */
    uint32_t rests;       /**< per million releases: the lock rests */
    uint32_t fault[SIM_FAULT_COUNT]; /**< 0: off */
    /* with stamps: skew_ms is M, java_ttl_ms the legacy lifetime */
    bool stamps;
    bool no_eval;           /**< the server knows no EVAL, whatever its level */
    bool plain_level;       /**< some tidelock clients do without scripts */
    bool no_time;           /**< clients don't ask it the time */
    bool by_hand;           /**< no lock is renewed by itself */
    bool late_dels;         /**< broken: legacy DELs come at any time, also of others' locks */
    bool slow_javas;        /**< broken: legacy attempts take longer than lag_ms */
    bool slow_own;          /**< broken: so do our own, without EVAL */
    int64_t lag_ms;         /**< L */
    int64_t own_ttl_ms;     /**< of tidelock's locks; 0: any that the rules leave */
    int64_t java_writes_ms; /**< what Java clients add to their clock; 0: java_ttl_ms and more */
    int64_t java_sleep_ms;  /**< between a Java client's attempts */
    int64_t wall_off_ms;    /**< how far legacy clocks really are off at most */
    int32_t dialect;        /**< of legacy clients, by its number; 0: Java's */
    /* migrations, which are with stamps too */
    bool migrates;
    bool slot_phases;               /**< in a cluster: each slot has a register, config_slots.c */
    int64_t lease_ms, own_lease_ms; /**< the register's; the longest that clients want */
    int64_t plan;                   /**< phases to go to, as digits; 0: as operators like */
    int32_t first_phase;            /**< -1: there is no register at first */
    int32_t fallback;               /**< the phase that clients act in where there is none */
    bool tool;                      /**< operators use the shipped command */
    bool outside;                   /**< the last key is in no namespace */
    int32_t glob;                   /**< by which pattern the others are in theirs */
    int32_t forgets; /**< a Java client that nobody stops: one more than its number */
    /* worlds of some seeds: config_worlds.c */
    int32_t near[SIM_HOSTS]; /**< a host's usual delay, in hundredths of `delay`; 0: all of it */
    int64_t ahead_us;        /**< broken: who takes over has a clock that is ahead by up to it */
    int64_t spare_ms;  /**< legacy clocks stay so far below M, as servers behind may take over */
    int32_t lacks;     /**< the command that is forbidden from the start; 0: none */
    int32_t events;    /**< keyspace events that the server is set to: none, some, all */
    bool cluster;      /**< the server is a cluster's node */
    bool one_slot;     /**< its keys are in one slot */
    int32_t slots;     /**< where slots are at first; 0: here */
    int32_t touches;   /**< which keys may be touched alone; 0: all */
    bool mute;         /**< no channel may be subscribed to */
    bool suspends;     /**< a host that is stopped is suspended: System.nanoTime stands still */
    bool vmclock;      /**< a page tells a host that was paused so, and `freeze` breaks nothing */
    bool crowds;       /**< a client's callers share a connection, however few they are */
    bool goes_back;    /**< who takes over may be so soon that the server's time goes back */
    bool sentinel;     /**< Sentinels say who is the master: config_sentinel.c */
    int32_t ways;      /**< how it is taken over from; a bit each */
    int32_t seeds;     /**< how many of the Sentinels clients are told of */
    bool ends_conns;   /**< a server that changes its role ends its connections */
    bool unfollowed;   /**< a former master is named again before it is made a replica */
    bool fleet;        /**< a cluster of several masters: config_cluster.c */
    bool forgets_open; /**< who takes over there doesn't know which slots are open */
    bool atomic;       /**< slots change masters at one moment: cluster_atomic.c */
    bool drains;       /**< so as Redis does it, and not Valkey */
    bool doubtful;     /**< broken: the former owner may write again before it has heard */
    int64_t deaf_ms;   /**< broken: and hears of nothing for so long */
    bool empties;      /**< the target restarts without data, before or after it takes the slot */
    bool uphill;       /**< broken: they move to masters whose clock is ahead, too */
    bool clears_reign; /**< operators delete the reign keys of slots that move */
    int64_t pause_ms;  /**< writes are postponed for so long at most */
    int32_t voters;    /**< so many independent servers, of which a majority counts; 0: no quorum */
    int32_t twice;     /**< this place of their URL leads to the server before it; 0: none does */
    int32_t dead;      /**< so many of them are dead for good */
    bool in_turn;      /**< they restart empty one after the other, quiet_ms apart */
    bool unused;       /**< nobody has ever asked them what quiet_ms is about */
    int32_t members;   /**< so many members of an etcd; 0: there is none */
    bool users;        /**< who asks it has to log in */
    bool
        stays; /**< a master that another takes over from lives on as its replica, and keeps its connections */
} sim_config;

void sim_config_draw(sim_config *c, uint64_t seed);
/** The same without what few seeds have. */
void sim_config_tame(sim_config *c, uint64_t seed);

/** What few seeds have: clocks beyond what is assumed, distances, servers' clocks. */
void sim_config_worlds(sim_config *config);
/** The same of those with stamps: other dialects; replicas that take over, and confirm. */
void sim_config_stamps_worlds(sim_config *config);
/** Of these the dialect, and who has an event loop. */
void sim_config_stamps_others(sim_config *config);

/** Is there a dialect of that number? */
bool sim_dialect_is_known(int64_t number);
/** Does each poll of a waiter leave its own stamp in that one, whatever stands there? */
bool sim_dialect_overwrites(int64_t number);
/** The lifetime that a legacy client gives a lock, which would like this one: some have whole seconds only. */
int64_t sim_dialect_lifetime(const sim_config *config, int64_t ttl_ms);
/** How much earlier than its writer's clock plus lifetime a stamp may end for another program. */
int64_t sim_dialect_early_ms(const sim_config *config);

/** Make it one with Sentinels, and the failovers that they make. */
void sim_config_sentinel(sim_config *config);
/** Among these no two may hold a lock at once, whatever a failover forgets. */
bool sim_config_excludes(const sim_config *config);
/** And fences increase, as the servers' clocks differ by less than a lifetime. */
bool sim_config_orders(const sim_config *config);
/** The longest lifetime of any lock, ms. */
static inline int64_t sim_config_longest_ms(const sim_config *config) {
    return 2 * config->ttl_ms; /* what is held is extended to that */
}

/** Make it one with a Redis Cluster. */
void sim_config_cluster(sim_config *config);
/** Of one: its slots change masters at one moment; for how long writes are postponed then, at most. */
void sim_config_atomic(sim_config *config);
int64_t sim_config_pause_ms(const sim_config *config);
/** And with stamps, which legacy clients of the cluster share. */
void sim_config_cluster_stamps(sim_config *config);
/** And with a register of the phase in each slot. */
void sim_config_cluster_phases(sim_config *config);
/** Of one: nothing that a node knows is lost; no two may hold a lock at once, whatever is. */
bool sim_config_cluster_keeps(const sim_config *config);
bool sim_config_cluster_excludes(const sim_config *config);
bool sim_config_cluster_tells_soon(const sim_config *config);

/** Make it one with a quorum of independent servers. */
void sim_config_quorum(sim_config *config);
/** Nothing but what its clients may forget: no two may hold a lock at once. */
bool sim_config_quorum_keeps(const sim_config *config);
/** And fences increase: the servers' clocks tell more than a server that restarts empty forgets. */
bool sim_config_quorum_orders(const sim_config *config);

/** Make it one with an etcd. */
void sim_config_etcd(sim_config *config);

/** Make it one with stamps: legacy clients, and tidelock's that share their keys. */
void sim_config_stamps(sim_config *config);
/** Make it a migration: tidelock's clients follow a phase, which operators move. */
void sim_config_migration(sim_config *config);
/** And one by the shipped command. */
void sim_config_tool(sim_config *config);
void sim_config_drop_ins(sim_config *config);   /**< among others, services with Java's drop-in */
void sim_config_tool_maybe(sim_config *config); /**< if the seed wants it */
typedef struct {
    const char *keys, *namespaces;
} sim_glob;
sim_glob sim_config_glob(const sim_config *config);
/** A server on which nothing outlasts its lease, if it matters. */
bool sim_config_follows(const sim_config *config);
/** The lifetimes that the rules leave for tidelock's own locks, ms. */
void sim_config_lifetimes(const sim_config *config, int64_t *ret_least, int64_t *ret_most);
/** What is assumed of legacy clients holds. */
bool sim_config_legacy(const sim_config *config);

/** Within the assumptions: no invariant may fail. */
bool sim_config_whole(const sim_config *config);
/** Within those that phases rest on: a failover may lose the last writes. */
bool sim_config_keeps(const sim_config *config);
/** No fault at all, and tokens have the keys for themselves. */
bool sim_config_calm(const sim_config *config);
/** The same of a cluster but for slots that move, with time enough for the requests that are led on, or postponed. */
bool sim_config_moves_alone(const sim_config *config);
/** May tokens and legacy clients meet on this key? */
bool sim_config_mixed(const sim_config *config, int key);
bool sim_config_has(const sim_config *config, sim_kind kind, int key);

const char *sim_fault_word(sim_fault fault);
/** By its word; SIM_FAULT_COUNT: there is none. */
sim_fault sim_fault_named(const char *word, size_t n);
