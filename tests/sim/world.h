/*
 * The simulated world, as its parts see it. One thread of the system, one seed; nothing depends on an address.
 *
 * What ships runs as it is, on what stands below its seams: thread (threads, mutexes, conditions), ground (clocks, waiting,
 * names, randomness), socket (connections and the network). Beside it: server (the fake server, its
 * replicas and its clock), faults, actors, observe (what the library does, seen from outside), check (what must
 * hold), story.
 */
#pragma once

#include <tidelock/inspect.h>
#include <tidelock/legacy.h>
#include <tidelock/tidelock.h>

#include "client/lock.h"
#include "clocks.h"
#include "config.h"
#include "fake_etcd.h"
#include "fake_redis.h"
#include "fake_resp.h"
#include "fiber.h"
#include "heap.h"
#include "phases.h"
#include "random.h"
#include "sim.h"
#include "stats.h"
#include "tool.h"
#include "transport/resp.h"
#include "wire/keys.h"

#define SIM_FDS 192    /* descriptors of a host */
#define SIM_ASKED 1024 /* requests of a host that are remembered */
#define SIM_ACTOR_STATE 2048
#define SIM_STAMP_SIZE 80  /* room for any stamp's text */
#define SIM_JOINED_MAX 128 /* locks of a request */
#define SIM_OWN_WORDS 16
#define SIM_STEPS_AT_ONCE 60 /* a machine that steps more often at one instant loops */

typedef struct sim_world sim_world;
typedef struct sim_host sim_host;
typedef struct sim_thread sim_thread;
typedef struct sim_socket sim_socket;
typedef struct sim_client sim_client;
typedef struct sim_lock sim_lock;
typedef struct sim_actor sim_actor;

/* ---- threads ----------------------------------------------------------------------------------- */

/** A thread of a simulated process. */
struct sim_thread {
    fiber fiber;
    sim_host *host;
    sim_thread *next; /**< spare ones, or those that wait for the same */
    sim_thread *all;  /**< the next of its host's */
    enum { SIM_SPARE, SIM_READY, SIM_RUNS, SIM_WAITS, SIM_HELD_UP, SIM_OVER } state;
    uint32_t life; /**< grows with each that it stands for */
    uint8_t id;
    bool detached, woken;
    const void *waits_for; /**< a mutex, a condition, a thread; NULL: none of these */
    void *(*work)(void *ctx);
    void *ctx;
    const struct pollfd *fds; /**< or descriptors */
    unsigned fd_count;
    sim_alarm alarm;
    tl_mono seen;     /**< the clock as it was read last */
    sim_lease lease;  /**< on the phase, as the step that runs was given it, */
    bool begins;      /**< and in which an attempt has begun, that acts by it until its end */
    tl_server server; /**< what that step was told of the server */
    unsigned held;    /**< mutexes */
    sim_tool *tool;   /**< the command that it runs; NULL: none */
};

/* ---- what was asked ------------------------------------------------------------------------------ */

/** A request, as the machine that built it knows it. */
typedef struct {
    uint64_t hash; /**< of its words; 0: none */
    int64_t boot;  /**< of its host */
    uint32_t run, number, token;
    int32_t fences; /**< that are reserved */
    sim_lock *lock; /**< NULL: nobody's any more, or not a lock's */
    tl_mono by, sent;
    sim_ns at;          /**< when, in true time */
    sim_ns never_after; /**< assumed: it isn't executed later */
    int64_t unsure_ns;  /**< a refresh: of the server's clock, when it was built */
    sim_lease lease;    /**< by which a phase decides what it does; until.ns 0: none */
    uint8_t servers;    /**< for which it was built, a bit each; 0: any */
} sim_asked;

/** A command that the server executes. */
typedef struct sim_request {
    sim_socket *socket;
    const sim_host *sender;
    const sim_asked *asked; /**< what is known of it, or all 0 */
    uint8_t script;
    uint16_t nkeys;
    bool is_script, late; /**< late: its connection has been closed */
    bool has;             /**< a take whose token holds the key already, */
    bool noted;           /**< and is in S there: it has a number */
    uint64_t claim;       /**< the inbox that hadn't come for what it was given, before; 0: none */
    uint32_t had;         /**< a script: the token that its key held before; 0: none */
    int64_t had_fence;    /**< the last number that S told of then */
    const tl_bytes *argv; /**< of a script keys, then arguments; else the whole command */
    size_t argc;
    uint32_t token; /**< for which it is; 0: none */
    int32_t fences; /**< that it reserves */
} sim_request;

/* ---- sockets ------------------------------------------------------------------------------------- */

#define SIM_QUEUED 12 /* commands of a transaction that are remembered */

/** The far end of a descriptor, and what is on its way. It lives until nothing is. */
struct sim_socket {
    sim_socket *next; /**< spare */
    sim_socket *all;
    sim_world *w;
    sim_host *host;
    int64_t boot;
    unsigned refs; /**< its descriptor, and what is in flight */
    int fd;        /**< -1: closed */
    uint8_t server;
    uint32_t epoch;
    enum { SIM_CONNECTING, SIM_OPEN, SIM_REFUSED, SIM_BROKEN } state; /**< as its host knows */
    bool dead_up, dead_down; /**< nothing gets through any more */
    bool withheld;           /**< nor what is in flight */
    bool late;          /**< closed by the host, and what was in flight is executed all the same */
    bool dropped;       /**< closed, and it is not */
    bool listed;        /**< in sim_world.answers */
    bool ended;         /**< the server has closed it in good order */
    bool raw;           /**< of a program that isn't tidelock's */
    bool postponed;     /**< the server executes its next command when a pause is over */
    fake_conn *session; /**< at the server, */
    fake_etcd_conn *etcd; /**< or at a member of an etcd */
    sim_tool *tool;       /**< that has opened it, in a run of it; NULL: something else */
    uint32_t tool_run;
    fake_buffer up, input, out, down,
        in; /**< in flight; at the server; answers; in flight; at the host */
    sim_ns fifo_up, fifo_down, blocked; /**< blocked: the server waits for replicas until then */
    sim_ns closed;                      /**< when its host closed it */
    sim_ns never_after; /**< assumed of a legacy client: nothing is executed later */
    /* of a Sentinel: what it has told of, and when its host has read that */
    uint64_t answered, read, reported_at; /**< bytes; told_at 0: of nothing */
    uint8_t told_former;
    /* a transaction */
    bool multi;
    unsigned queued;
    struct {
        fake_buffer text;
        tl_bytes argv[TL_ARGV_MAX];
        size_t argc;
        bool refused;
        int32_t fences;
        uint32_t token;
        const sim_asked *asked;
    } command[SIM_QUEUED];
};

typedef struct {
    enum { SIM_CLOSED, SIM_WAKE, SIM_TIMER, SIM_SOCKET, SIM_GATHER } kind;
    int gather; /**< it has been added to this descriptor; 0: to none */
    bool posted;
    tl_mono at; /**< TIMER */
    sim_alarm alarm;
    sim_host *host;
    sim_socket *socket;
} sim_fd;

/* ---- hosts ------------------------------------------------------------------------------------- */

/** A tl_client. */
struct sim_client {
    sim_host *host;
    tl_client *handle;
    unsigned users;
    bool opening; /**< or closing: wait */
    bool dispatch;
    uint8_t kind;
    sim_ns step_seen; /**< when a server's clock was last seen to have stepped; 0: never */
    sim_actor *owner; /**< whose alone it is; NULL: everybody's of the host */
    sim_alarm pause;
};

#define SIM_CLIENTS 4
#define SIM_LED_TO 32 /* generations of a host's clients that are remembered */

/** Where a client's connections led to in one generation. */
typedef struct {
    const void *site;
    uint32_t generation;
    uint8_t server;
} sim_led;

/** A keeper has read that another has taken over from this server. */
typedef struct {
    const sim_thread *keeper;
    uint32_t life; /**< of that */
    uint8_t former;
    sim_ns at; /**< 0: not, or it leads there again */
} sim_switched;

struct sim_host {
    char name;
    uint8_t id;
    bool up;
    sim_world *w;
    sim_clock boot;       /**< the deadline clock */
    int64_t suspended_ns; /**< with `suspends`: what System.nanoTime has not shown of it */
    int64_t booted;       /**< what it showed first: tells one life from another */
    sim_clock wall;       /**< ns since the epoch; legacy clients look at it */
    tl_mono frozen;       /**< with `vmclock`: the clock at the last such pause */
    tl_vmclock page;      /**< with `vmclock`: what the hypervisor tells it */
    sim_ns paused_until,
        stalled; /**< stalled: the end of the last stop, of it or of one of its threads */
    sim_ns cut_up, cut_down; /**< partitioned until */
    bool java_flag;          /**< DistributeLockUtil's one field */
    sim_heap *heap;
    sim_thread *threads;
    unsigned thread_count, threads_made;
    sim_fd fd[SIM_FDS];
    unsigned fds; /**< open ones */
    sim_client client[SIM_CLIENTS];
    sim_led led[SIM_LED_TO];
    unsigned leads; /**< so far */
    sim_switched switched[SIM_CLIENTS];
    sim_asked asked[SIM_ASKED]; /**< last: not zeroed */
};

typedef enum { SIM_ACQUIRE, SIM_EXTEND, SIM_RELEASE } sim_op;

/** A tl_lock, and what its user knows of it. */
struct sim_lock {
    tl_lock *handle; /**< NULL: none is made */
    sim_client *client;
    sim_actor *actor;
    uint8_t key;
    bool strict;
    bool fair;
    int64_t ttl_ms, max_hold_ms, stall_ms, min_hold_ms;
    bool rest_ends_wait;
    sim_ns had_at; /**< when its last acquire began: a rest counts from then, or from later */
    /** The last two signs of life were not given before these; the last one not after `alive_to`. */
    tl_mono alive_before, alive_from, alive_to;
    bool stalled; /**< its machine has noted it */
    bool feeds;   /**< a sign is being given */
    bool
        frozen; /**< stalled without a sign since: nothing may move its deadline beyond the one then */
    tl_mono frozen_deadline;
    tl_retry_kind retry;
    uint32_t retry_max;
    bool manual_renew;
    bool busy;  /**< an operation is in flight */
    bool going; /**< it is being freed */
    bool loops; /**< which is told by an event loop, that may be late */
    sim_op op;
    int64_t op_ms; /**< how long it may take, or TL_FOREVER */
    sim_ns op_began;
    bool believed;   /**< when the release began */
    tl_mono hold_by; /**< it is to be lost by then */
    bool has;        /**< from the answer to the release */
    bool owes;       /**< the server's clock has stepped, and nothing was asked since */
    bool noted_lost; /**< by its machine */
    tl_mono lost_deadline;
    tl_lost_why why;
    tl_state told;   /**< the last event; FREE: none yet */
    uint32_t number; /**< of the token of the last operation */
    uint32_t drawn;  /**< the last that was asked for, */
    uint32_t former; /**< and when the operation began */
    uint64_t fence;  /**< of the last hold */
    uint32_t behind; /**< whom it stands in the local queue; a bit each */
    sim_ns lost_at;
    uint32_t overtaken; /**< by how many holds, while it has waited */
    struct {
        sim_lease lease; /**< by which an attempt for this token has begun, */
        uint32_t token;
    } acts[2]; /**< to keep, to take */
};

#define SIM_KEPT 4 /**< renewals of a token that are remembered */

/** A renewal that a server has executed. */
typedef struct {
    sim_ns at;
    uint8_t server;
} sim_kept;

#define SIM_FENCES 8 /**< given to one token before the last are known */

/** What was promised about a token. */
typedef struct {
    enum { SIM_ASKING, SIM_HAD, SIM_MOVED_ON, SIM_NOT_ACQUIRED } promise;
    bool maybe, detached, ended; /**< as the machine that asked for it ended */
    bool goes_on;                /**< the machine that releases it, without its caller */
    bool passed;                 /**< to another lock of the process, who hasn't heard of it yet */
    bool cancelled;              /**< the acquire that asked for it was */
    bool asks;                   /**< several servers, */
    bool refused;                /**< and by one of them */
    uint8_t freed;               /**< these have dropped it, a bit each */
    uint32_t
        undone[SIM_VOTERS]; /**< which of its forms each has been told to give back; a bit each */
    uint8_t fences;         /**< reserved, the first included, as its machine has it, */
    uint8_t reserved;       /**< and as the server, */
    uint8_t reserved_back;  /**< also when its holder took it back */
    uint8_t host;
    bool taken, crashed, released;
    uint32_t turn;  /**< with stamps: which of the key's it was */
    bool again;     /**< taken a second time, by a late request */
    bool stays;     /**< in line, as its drop was perhaps not allowed to strike it out */
    bool dropped;   /**< a drop of it has been executed, */
    bool ours;      /**< and found it there */
    uint64_t fence; /**< the last that was given */
    uint64_t fence_before[SIM_FENCES]; /**< and those before, to requests of it that came late */
    unsigned fences_before;            /**< how many there were */
    int64_t taken_us;                  /**< when, by the clock of the server */
    int first_at;                      /**< at which server first, */
    sim_ns made;                       /**< on etcd: when its key was created */
    int64_t first_us, had_us; /**< the first time that it was, likewise; when its user had it */
    sim_ns held_at;      /**< of several servers: when its machine found that it has a majority */
    int64_t rest_ms;     /**< from its acquire on it was to rest for so long */
    bool rest_ends_wait; /**< whoever waits for it looks for that, too */
    int64_t drawn_us;    /**< when a number was drawn that S isn't told of yet, likewise */
    bool native;         /**< taken by commands of which no script has judged the number */
    bool bound;          /**< S knows of it */
    bool
        late; /**< a take of its came late, and has perhaps left K at a node that has the slot no more */
    int32_t joined;  /**< it has stood in line, for so many fences */
    int64_t ticket;  /**< as it was told, */
    int64_t first;   /**< and the first time, whether it heard of it or not; 0: it never was */
    uint64_t inbox;  /**< by which it is told */
    sim_ns since;    /**< when it was taken by native commands, */
    bool beside;     /**< while others stood in line */
    sim_lease lease; /**< by which it joined; */
    int64_t boot;    /**< of its host then */
    bool called;     /**< it was its turn, and S is kept for it: that was by the order */
    bool low;        /**< which must not be believed: others had as large ones before */
    bool orphan;     /**< taken for nobody, by such commands that were held up on their way */
    bool killed;     /**< the connection over which it was asked for so is known to have ended */
    uint64_t fence_back; /**< of the last of its takes by which its holder took it back */
    /* in line: check_line.c */
    bool waits;       /**< it stands there */
    sim_ns stood;     /**< since when it does, or did; 0: it never did */
    bool inherits;    /**< the place of another of its process */
    bool others;      /**< stood there when it was given the lock, as its client was told */
    uint32_t before;  /**< so many may be given the lock before it, */
    uint32_t holds;   /**< and have it, passed on within their process or not */
    uint32_t passes;  /**< how often it was passed on, */
    sim_ns given;     /**< since when */
    sim_ns looked;    /**< the last time that it looked; 0: it hasn't, */
    int64_t pause_ms; /**< and for how long it need not look again */
    sim_kept kept[SIM_KEPT];
    unsigned keeps; /**< how many there were */
} sim_token;

/* ---- Sentinels ------------------------------------------------------------------------------------ */

#define SIM_SWITCHES 60 /**< failovers of a run, at most */

/** One of them. */
typedef struct {
    uint8_t names;     /**< the server that it calls the master, */
    int64_t epoch;     /**< by a configuration of this epoch */
    sim_ns down_until; /**< by a fault */
    sim_ns parted;     /**< cut off from the others until then */
    unsigned turns;    /**< how often that has changed, and when */
    struct {
        sim_ns at;
        uint8_t names;
    } turn[SIM_SWITCHES + 1];
} sim_sentinel;

/** A failover, from its beginning until the former master is a replica. */
typedef struct {
    bool on;
    bool silent; /**< nobody answers at the former master's address */
    uint8_t way, former, next, leader;
    sim_ns demoted; /**< not before */
} sim_switch;

/* ---- a cluster ------------------------------------------------------------------------------------ */

#define SIM_SLOT_NOBODY (-1)

/** What a node knows of it; news reach it late, and those of others may be old. */
typedef struct {
    bool down; /**< it has lost the others, or has only just come back: it serves nothing */
    uint8_t owner[SIM_KEYS];    /**< the shard of each key's slot, */
    uint32_t epoch[SIM_KEYS];   /**< by a configuration of this epoch; */
    uint8_t master[SIM_SHARDS]; /**< and each shard's master, */
    uint32_t term[SIM_SHARDS];  /**< likewise; */
    int8_t exports
        [SIM_KEYS]; /**< to which shard it moves a slot of its own; SIM_SLOT_NOBODY: to none */
    bool imports[SIM_KEYS]; /**< and one of another's moves here */
    uint32_t config;        /**< the epoch of its own shard's configuration */
} sim_view;

/** A slot that locks are in. */
typedef struct {
    unsigned number;
    uint8_t owner;
    int to; /**< the shard that it is moved to; SIM_SLOT_NOBODY: it stays */
    uint32_t epoch;
    sim_ns closed; /**< when it was moved last */
} sim_slot;

/** A slot that changes masters at one moment: cluster_atomic.c. */
typedef struct {
    enum {
        SIM_STAYS,
        SIM_COPIES,  /**< its keys are being copied; */
        SIM_PAUSES,  /**< its owner writes nothing, until the other has all, */
        SIM_ASKS,    /**< and asks for it; */
        SIM_GRANTED, /**< it has been given away, */
        SIM_TAKEN    /**< and is the other's, which its former owner doesn't know yet */
    } state;
    uint8_t from, to, heir; /**< servers; and the second one's shard */
    bool paused;            /**< the first postpones writes, */
    sim_ns until;           /**< as far as its time goes */
    uint32_t number;        /**< of the slot's migrations */
} sim_handover;

typedef struct {
    sim_slot slot[SIM_KEYS];
    sim_handover handover[SIM_KEYS];
    int slots;
    sim_view view[SIM_NODES];
    uint32_t epoch, term[SIM_SHARDS];     /**< the last of slots; of each shard's masters */
    uint32_t configs, config[SIM_SHARDS]; /**< so many configurations; the epoch of each shard's */
    bool repeats;                         /**< a message that it has been told */
    bool parted[SIM_NODES];               /**< from the others */
    sim_ns deaf[SIM_NODES];               /**< it hears no news until then */
} sim_cluster;

/* ---- a quorum ------------------------------------------------------------------------------------- */

#define SIM_GHOSTS 4 /* that are remembered */

/** What is remembered of a key at one of its servers. */
typedef struct {
    struct {
        char token[TL_TOKEN_SIZE]; /**< whose it was when that was lost, or deleted by hand, */
        int64_t until_ms;          /**< and would have been until then, by that server's clock */
    } ghost[SIM_GHOSTS];
    unsigned ghosts;
    char dropped[TL_TOKEN_SIZE]; /**< which token was given back there last */
    uint32_t orphan; /**< number of one that has come late, when a drop had overtaken it; 0: none */
} sim_vote;

typedef struct {
    sim_vote vote[SIM_KEYS][SIM_VOTERS];
    bool silent[SIM_VOTERS];   /**< nobody answers at its address while it is dead */
    sim_ns forgot[SIM_VOTERS]; /**< when it has restarted empty; 0: never */
    sim_ns back[SIM_VOTERS];   /**< when it came back last; 0: it never died */
} sim_quorum;

/* ---- locks that rest ------------------------------------------------------------------------------- */

typedef struct {
    uint32_t token;
    int64_t us; /**< when it was given the vote, by that server's clock, */
    sim_ns at;  /**< and in true time */
} sim_rested_voted;

/** A key that rests, at a server. */
typedef struct {
    uint32_t token;  /**< number of the last holder's; 0: it doesn't */
    char text[80];   /**< what it holds, */
    int64_t ends_ms; /**< until then, by that server's clock */
    int64_t ends_us; /**< then others may have it, likewise */
    int server;      /**< where it was seen last */
    sim_ns begun;
    bool gone;  /**< deleted by hand, */
    bool binds; /**< and S keeps others out */
    sim_rested_voted voted;
} sim_rested;

/* ---- an etcd -------------------------------------------------------------------------------------- */

typedef struct {
    fake_etcd *e;
    sim_ns cut[SIM_MEMBERS];   /**< it doesn't reach the others before */
    bool catches[SIM_MEMBERS]; /**< it hears of the last changes soon */
    bool votes;                /**< who is to lead is looked at soon, */
    bool ticks;                /**< and which leases are over */
    bool expires, by_hand;     /**< that is what changes keys just now */
    sim_ns doubt_until;        /**< what is told as an error may be executed later */
    sim_ns led;                /**< since when it has been led; SIM_NEVER: it isn't */
    uint32_t first[SIM_KEYS];  /**< number of the token whose key was created first; 0: none, */
    sim_ns since[SIM_KEYS];    /**< since when */
} sim_etcd;

/* ---- servers and keys -------------------------------------------------------------------------- */

typedef struct {
    fake_redis *r;
    fake_conn *runner;
    sim_clock wall;
    bool up;
    uint32_t epoch; /**< grows when it dies, and whatever was sent to it is lost */
    sim_ns busy_until;
} sim_server;

typedef struct {
    uint64_t unit;
    sim_ns arrives[SIM_NODES];
    uint32_t at; /**< in log_bytes */
    uint8_t db, argc;
} sim_write;

/** A master, those that follow it, and the stream of its writes to them: of a cluster there are several. */
typedef struct {
    sim_world *w;
    int master;
    uint64_t history; /**< which one of replication their data have */
    sim_ns promoted;  /**< when the present master became it; 0: it has been from the start */
    sim_write *log;
    uint32_t log_count, log_room, log_used, log_size;
    char *log_bytes;
} sim_shard;

typedef struct {
    char name[16], sidecar[32], line[40], counter[TL_COUNTER_SIZE];
    tl_bytes k, s, l, f; /**< the lock, its sidecar, the line, the counter of its slot */
    uint64_t fence;      /**< the largest that was given, and may be believed */
    uint64_t told_fence; /**< and of those that were told theirs */
    uint32_t holder;     /**< number of the token taken last; 0: none */
    uint32_t passed;     /**< number of the token passed on last within a process */
    bool mixed;          /**< Java clients meet others on it */
    bool stolen;         /**< and its holder has suffered from that */
    sim_ns free_since;   /**< its release; SIM_NEVER: it is held, or has expired */
    sim_ns ends;    /**< when it expires, as it was at the last command; SIM_NEVER: it doesn't */
    sim_ns called;  /**< when the first in line was called to look */
    bool uncalled;  /**< its release couldn't call anybody in line, which is at another node */
    uint32_t spent; /**< number of the token that the server remembers as dropped */
    bool idle;      /**< by a sidecar that has nothing else to tell, and expires soon */
    uint32_t
        late; /**< number of the token whose K is, by a request that came late, at the node that the open slot moves to: for
                        nobody until the slot's owner sends those there who ask for it; 0: of none */
    uint64_t late_fence;  /**< the first of its numbers that S was told of; 0: it wasn't */
    int32_t late_fences;  /**< and how many */
    bool late_beside[3];  /**< likewise its sidecar, its line, its counter */
    sim_ns deleted_until; /**< deleted by hand: plain clients may meet a holder until then */
    sim_ns shaken_until;  /**< a holder may find it gone at some servers of a quorum until then */
    uint32_t tries;       /**< requests about votes since it was released */
    sim_ns rested;        /**< until when it rests, or did last */
    sim_ns reached;       /**< a holder could renew it, since then; SIM_NEVER: it can't */
    /* with stamps */
    int64_t stamp_ms; /**< the last at which a reader may call it held; 0: it holds no stamp */
    sim_ns free_from; /**< when it may be taken; SIM_NEVER: not by itself */
    uint32_t writer;  /**< number of the token for which it was written without a script */
    uint32_t turns;   /**< how often it has been taken, by whomever */
    char legacy[SIM_STAMP_SIZE]; /**< what a legacy client has written last */
    size_t legacy_n;
} sim_key;

/* ---- actors ------------------------------------------------------------------------------------ */

/** A kind of actor: one file. `state` is zeroed before it lives, also after a crash. */
typedef struct {
    const char *name;
    size_t size;
    void (*live)(
        sim_world *w,
        sim_actor *a); /**< in a thread of its own; it returns when nothing new is to begin */
    void (*crash)(sim_world *w,
                  sim_actor *a); /**< its host is gone: forget everything; may be NULL */
    /** Does it count on its key being its own now? NULL: it has no such right. */
    bool (*holds)(const sim_world *w, const sim_actor *a);
    tl_bytes (*value)(const sim_actor *a);     /**< what the key then holds */
    void (*stop)(sim_world *w, sim_actor *a);  /**< it is to come to an end soon; may be NULL */
    void (*check)(sim_world *w, sim_actor *a); /**< its own promises; may be NULL */
    void (*calm)(sim_world *w, sim_actor *a);  /**< it needn't go on; may be NULL */
} sim_actor_kind;

extern const sim_actor_kind sim_actor_lock, sim_actor_loop, sim_actor_plain, sim_actor_java,
    sim_actor_operator, sim_actor_migrate, sim_actor_drop_in, sim_actor_slots;

struct sim_actor {
    const sim_actor_kind *kind;
    sim_world *w;
    sim_host *host;
    uint8_t id, key;
    bool lives; /**< its thread is there */
    char name[4];
    _Alignas(16) char state[SIM_ACTOR_STATE];
};

void sim_actor_start(sim_world *w, sim_actor *a);
/** Asleep for about so long: a host may stop meanwhile. For the thread that runs. */
void sim_sleep(sim_world *w, sim_ns ns);
/** The same until there is calm, or that has passed. */
void sim_rest(sim_world *w, sim_ns ns);

/* ---- the world --------------------------------------------------------------------------------- */

struct sim_world {
    sim_config cfg;
    sim_queue queue;
    sim_ns now;
    uint64_t random, hash, event;
    uint32_t run;        /**< number of it */
    uint32_t asked;      /**< requests, so far */
    bool calm;           /**< no more faults, and nothing new is begun */
    bool whole;          /**< the assumptions hold */
    bool kept;           /**< those that phases rest on, too: a failover may lose writes */
    bool legacy;         /**< those about legacy clients, too */
    bool calm_all_along; /**< no faults in this run, */
    bool moves_alone;    /**< but for slots that move */
    int slots, forbids;  /**< as sim_slots_move and sim_keys_forbid were told last */
    bool full;           /**< the master's memory */
    bool mute;           /**< nobody may publish */
    fiber main;          /**< of the world itself */
    sim_thread *thread;  /**< that runs; NULL: none does */
    sim_thread **ready;
    uint32_t ready_count, ready_room;
    sim_thread *spare_thread;
    sim_thread *rests[SIM_ACTORS]; /**< those that wait for calm */
    int resting;
    sim_host host[SIM_HOSTS];
    sim_key key[SIM_KEYS];
    sim_actor actor[SIM_ACTORS];
    sim_server server[SIM_NODES]; /**< Sentinels are the last of them */
    sim_shard shard[SIM_NODES];   /**< without a cluster or a quorum the first is all */
    bool follows[SIM_NODES];      /**< as its master's replica */
    sim_sentinel sentinel[SIM_SENTINELS];
    sim_switch change;                       /**< the present failover */
    int64_t config_epoch;                    /**< of the last, which is how many there were */
    uint8_t config_master[SIM_SWITCHES + 1]; /**< by each of these */
    int telling_former;                      /**< of which a Sentinel is just telling */
    sim_ns cut[SIM_HOSTS][SIM_NODES];        /**< nothing gets through before */
    sim_cluster cluster;
    sim_quorum quorum;
    sim_rested rested[SIM_KEYS][SIM_VOTERS]; /**< without a quorum the first is all */
    sim_etcd etcd;
    bool excludes; /**< no two locks may be held at once, though a failover forgets some */
    bool failing_over;
    int64_t died_showing; /**< the clock of the master that failed last */
    sim_ns went_back;     /**< by how much failovers have set the time back */
    uint32_t applied[SIM_NODES];
    sim_ns log_fifo[SIM_NODES];
    sim_token *token;
    uint32_t tokens, token_room;
    sim_socket *spare_socket, *sockets;
    sim_socket *answers[64]; /**< to whom the server has answered at this instant */
    unsigned answer_count;
    struct sim_chunk *chunks, *chunk_at; /**< what all these are cut from */
    sim_migration migration;
    sim_stats stats;
    struct sim_choices *choices; /**< NULL: as the seed draws */
    const struct sim_play *play; /**< instead of actors: stage.h; NULL: none */
    sim_ns stop[2];              /**< with choices: for how long one may be held up; */
    unsigned stops;              /**< so many of them are tried */
    unsigned next;               /**< 1 and more: the place of the one that is to run next */
    unsigned char mark;          /**< 0: this is a forked child */
    bool telling;
    struct sim_story *story;
    bool failed;
    int failed_key;
    sim_ns failed_at;
    char failure[240];
    const char *failure_kind;
};

/** The world that runs: what ships has no other way to it. */
extern sim_world *sim_the_world;

/* ---- world.c ----------------------------------------------------------------------------------- */

void sim_put(sim_world *w, sim_ns at, unsigned rank, sim_fire fire, void *who, uint32_t tag);
/** The present event happens later. */
void sim_put_off(sim_world *w, sim_ns at, sim_fire fire, void *who, uint32_t tag);
/** Zeroed memory that lives until the world is freed. */
void *sim_get(sim_world *w, size_t size);

static inline bool sim_roll(sim_world *w, sim_fault fault) {
    return !w->calm && sim_chance(&w->random, w->cfg.fault[fault]);
}
static inline int64_t sim_draw(sim_world *w, int64_t least, int64_t most) {
    return sim_between(&w->random, least, most);
}
/** As long as the lock's lifetime times from/100 .. to/100. */
sim_ns sim_draw_part(sim_world *w, int from, int to);
static inline void sim_mark(sim_world *w, uint64_t what) {
    w->hash = (w->hash ^ what) * UINT64_C(0x100000001B3);
}

/* ---- thread.c ---------------------------------------------------------------------------------- */

/** One of several ways to go on: drawn, or as an exhaustive search has it. */
unsigned sim_choose(sim_world *w, unsigned ways);
void sim_threads_reset(sim_world *w);
/** Run one of those that are ready. */
void sim_threads_run(sim_world *w);
sim_thread *sim_thread_new(sim_host *host, void *(*work)(void *ctx), void *ctx);
/** It may run again. */
void sim_thread_ready(sim_world *w, sim_thread *t);
/** For the one that runs: others may go first. where: for the story */
void sim_thread_may_switch(sim_world *w, const char *where);
/** For the one that runs: until sim_thread_ready, or until then. True: that has passed. */
bool sim_thread_block(sim_world *w, sim_ns until);
/** All threads of a host that has crashed. */
void sim_threads_kill(sim_world *w, sim_host *host);
/** What ships calls: within, memory is the simulator's own. */
sim_thread *sim_enter(void);
void sim_leave(void);

/* ---- ground.c ------------------------------------------------------------------------------------ */

/** A descriptor's readiness may have changed. */
void sim_fd_changed(sim_world *w, sim_host *host, int fd);
sim_fd *sim_fd_at(sim_host *host, int fd);
/** -1: there is none left. */
int sim_fd_open(sim_host *host, int kind);
void sim_fd_close(sim_host *host, int fd);

/* ---- socket.c ------------------------------------------------------------------------------------ */

/** The connection has been reset, or its server has died: the host learns of it now. */
void sim_socket_reset(sim_world *w, sim_socket *s);
/** What the server has answered goes to the hosts. */
void sim_sockets_answer(sim_world *w);
/** The host is gone. */
void sim_socket_abandon(sim_world *w, sim_socket *s);
void sim_socket_let_go(sim_world *w, sim_socket *s);
/** What it has sent is executed, after a pause of the server's. */
void sim_socket_resume(sim_world *w, void *who, uint32_t unused);
/** Its end at the server. */
void sim_socket_hang_up(sim_socket *s);

/* ---- link.c ------------------------------------------------------------------------------------ */

/** Its usual one-way delay. */
sim_ns sim_link_delay(const sim_world *w, const sim_host *host);
/** When something sent now arrives, behind what was sent before. */
sim_ns sim_link_up(sim_world *w, const sim_host *host, sim_ns *fifo);
sim_ns sim_link_down(sim_world *w, const sim_host *host, sim_ns *fifo);

/* ---- raw.c: a connection of programs that aren't tidelock's ------------------------------------------ */

typedef struct {
    int fd; /**< -1: none */
    tl_resp *resp;
    bool maybe;   /**< the last request may have been executed, though it has no answer */
    bool by_text; /**< scripts are sent whole */
    bool moved;   /**< the server is a replica by now, as its last answer says: it connects anew */
    tl_mono sent; /**< before its first byte left */
    sim_ns never_after;
    unsigned opened; /**< how often it has connected */
    uint8_t node;    /**< of a cluster: which is asked first */
    tl_reply reply[4];
} sim_raw;

/** Ask, and wait for as many answers as there are commands, at most 4. NULL: none came in time. Valid until the next. In a cluster one
 *  command, of one key. */
const tl_reply *sim_raw_ask(sim_world *w, sim_raw *raw, const tl_command *commands, unsigned count,
                            int64_t limit_ms);
void sim_raw_close(sim_raw *raw);
/** The same, and its memory. */
void sim_raw_end(sim_raw *raw);

/* ---- host.c ------------------------------------------------------------------------------------ */

void sim_host_boot(sim_world *w, sim_host *host);
void sim_host_crash(sim_world *w, sim_host *host);
void sim_host_pause(sim_host *host, sim_ns until);
/** Its clock as it is. */
tl_mono sim_host_clock(const sim_world *w, const sim_host *host);
/** A clock that may be slewed, as it goes on if it is slewed to run as fast (way 1) or as slow (-1) as ever. */
sim_clock sim_clock_from_here(const sim_world *w, const sim_clock *clock, int way);
/** How far any clock's rate is from true at most, ppm. */
int32_t sim_clocks_ppm(const sim_world *w);
/** When a timer for this instant goes off. */
sim_ns sim_host_when(sim_world *w, const sim_host *host, tl_mono at);
/** Its wall clock less true time, ns. */
int64_t sim_host_skew(const sim_world *w, const sim_host *host);
int64_t sim_host_wall_ms(const sim_world *w, const sim_host *host);
/** The lease on the phase by which a service with the drop-in may act now. False: by none. */
bool sim_drop_in_lease(const sim_world *w, const sim_actor *a, sim_lease *ret);
/** Is a Java client of it between reading the clock and its DEL? */
bool sim_java_is_busy(const sim_actor *a);
/** Is one inside its job on this key? */
bool sim_java_is_inside(const sim_world *w, int key);
/** Has it run without a stop, so that what was due by `at` is to have been done? */
bool sim_host_could(const sim_world *w, const sim_host *host, tl_mono at);

/* ---- client.c ----------------------------------------------------------------------------------- */

/** A client of the host for this actor: made when it is first needed. */
sim_client *sim_client_use(sim_world *w, sim_actor *actor);
/** Closed when nobody uses it. */
void sim_client_leave(sim_world *w, sim_client *client);
/** The one that this handle is. */
sim_client *sim_client_of(sim_world *w, const tl_client *handle);
/** Where the server is. */
const char *sim_client_url(const sim_world *w);
/** Follows phases. */
bool sim_client_follows(const sim_client *client);

/* ---- lock.c -------------------------------------------------------------------------------------- */

/** A handle, with the lock's present options. NULL handle: it was refused, which fails the run. */
void sim_lock_make(sim_world *w, sim_lock *lock);
void sim_lock_drop(sim_world *w, sim_lock *lock);
/** Give a sign of life; call the holder stalled. */
void sim_lock_alive(sim_world *w, sim_lock *lock);
void sim_lock_stall(sim_world *w, sim_lock *lock);
tl_err sim_lock_acquire(sim_world *w, sim_lock *lock, int64_t wait_ms);
tl_err sim_lock_extend(sim_world *w, sim_lock *lock, int64_t ttl_ms);
tl_err sim_lock_release(sim_world *w, sim_lock *lock);
/** For how long from its acquire on it is to rest when it is released now: drawn; 0: it is not to. And what is to be asked for. */
int64_t sim_lock_draw_rest(sim_world *w, sim_lock *lock);
/** What these do before and after the call, for calls that don't block. */
void sim_lock_begin(sim_world *w, sim_lock *lock, sim_op op, int64_t limit_ms);
void sim_lock_end(sim_world *w, sim_lock *lock, tl_err code);
/** The host is gone. */
void sim_lock_crash(sim_lock *lock);
bool sim_lock_held(const sim_world *w, const sim_lock *lock);
tl_mono sim_lock_deadline(const sim_lock *lock);
/** Whose handle it is; NULL: nobody's any more. */
sim_lock *sim_lock_of(sim_world *w, const tl_lock *handle);
/** The lock that an actor has, NULL: none, or of another kind. */
sim_lock *sim_lock_at(const sim_actor *a);

/** For actors that have such a lock. */
bool sim_lock_actor_holds(const sim_world *w, const sim_actor *a);
tl_bytes sim_lock_actor_value(const sim_actor *a);
void sim_lock_actor_check(sim_world *w, sim_actor *a);

/* ---- observe.c ------------------------------------------------------------------------------------- */

/** A hash of a command's words, as both sides see it. */
/** What isn't a request's own, at its end, where it may have been joined with others'. */
static inline size_t sim_joined_tail(uint8_t script) {
    return script == TL_SCRIPT_RENEW ? TL_JOIN_TAIL : script == TL_SCRIPT_REFRESH;
}
uint64_t sim_hash_words(bool is_script, uint8_t script, const tl_bytes *argv, size_t argc);
/** A request that is no machine's is about to be sent: what there is to know of it but its number. */
void sim_asked_note(sim_world *w, sim_host *host, const sim_asked *what, const tl_command *command);
/** A request that is no machine's is about to be sent: what there is to know of it but its number. */
void sim_asked_note(sim_world *w, sim_host *host, const sim_asked *what, const tl_command *command);
const sim_asked *sim_asked_by(const sim_host *host, int64_t boot, uint64_t hash);
/** A client logs a line. */
void sim_observe_log(sim_client *client, const char *line);

/* ---- which server is what --------------------------------------------------------------------------- */

/** How many masters there are, and servers: those that lie behind them are Sentinels, or none. */
static inline int sim_shards(const sim_world *w) {
    return w->cfg.voters ? w->cfg.voters : w->cfg.fleet ? SIM_SHARDS : 1;
}
static inline int sim_servers(const sim_world *w) {
    return w->cfg.voters    ? w->cfg.voters
           : w->cfg.members ? w->cfg.members
           : w->cfg.fleet   ? 2 * SIM_SHARDS
                            : w->cfg.replicas + 1;
}
static inline int sim_shard_of(const sim_world *w, int server) {
    return w->cfg.voters ? server : w->cfg.fleet ? server % SIM_SHARDS : 0;
}
/** Each server has an address of its own, which clients name or are told. */
static inline bool sim_is_named(const sim_world *w) {
    return w->cfg.sentinel || w->cfg.fleet || w->cfg.voters || w->cfg.members;
}
/** The master of its shard. */
static inline int sim_master_of(const sim_world *w, int server) {
    return w->shard[sim_shard_of(w, server)].master;
}
/** The master at which a key of a lock is, or would be. */
int sim_home_of(sim_world *w, tl_bytes key);
/** Is what that node sets there, behind an ASKING, not what the slot's owner sends anybody to? */
bool sim_cluster_is_late(sim_world *w, int server, tl_bytes key);
/** That node has executed such a request of this key, which isn't a lock's own. */
void sim_cluster_came_late(sim_world *w, tl_bytes key);
/** Is what such a request has set still there, beside what is where the slot is? */
bool sim_cluster_late_stays(sim_world *w, int key);
/** Is the lock's key by now of the token by whose late request it was set? */
bool sim_cluster_late_counts(sim_world *w, int key);
/** The same server at the present time, to look inside. */
fake_redis *sim_store_of(sim_world *w, tl_bytes key);

/* ---- server.c, replica.c --------------------------------------------------------------------------- */

void sim_servers_reset(sim_world *w);
void sim_servers_free(sim_world *w);
/** What has arrived there is executed, as far as it is whole. */
void sim_server_execute(sim_world *w, sim_socket *s);
/** Somebody has connected. */
void sim_server_accept(sim_world *w, sim_socket *s);
/** It answers, or says something by itself. */
void sim_server_answer(sim_socket *s, const tl_reply *reply);
void sim_server_answered(sim_socket *s); /**< it has been added to `out` */
int64_t sim_server_us(const sim_world *w, const sim_server *server);
/** Its time, to look inside. */
void sim_server_set(sim_world *w, int server);
/** All servers forbid a command, number 1 to SIM_DENIABLE, or allow it again. */
void sim_server_deny(sim_world *w, int which, bool denied);
/** It dies, and whoever is connected is told or not. */
/** Of replication. */
void sim_server_begin_history(sim_world *w, int shard);
void sim_server_kill(sim_world *w, int server);
void sim_server_start(sim_world *w, int server, bool keep_data);
/** What WAIT answers, and when. */
int sim_replicas_confirm(sim_world *w, int master, int needed, sim_ns by, sim_ns *ret_when);
/** Apply what has arrived at a replica by then; SIM_NEVER: everything. */
void sim_replica_apply(sim_world *w, int server, sim_ns by);
void sim_replicas_reset(sim_world *w);
void sim_replicas_free(sim_world *w);
/** Everybody has what the master has. */
void sim_replicas_copy(sim_world *w);
/** A replica takes over: with everything, or with what had arrived by the master's death. quick: its
 *  clock may still show less than the master's did. */
void sim_failover(sim_world *w, bool lossy, bool quick);

/** The same as after a failover: no clock is ahead of the master's. */
void sim_replica_behind(sim_world *w, const sim_server *master, sim_server *replica);
/** One begins to follow the master, with all that it has. */
void sim_replica_join(sim_world *w, int server);
/** Of a failover that begins: tells how the former master goes, and counts it. Until when it knows nothing of the promotion. */
sim_ns sim_former_leaves(sim_world *w, sim_ns promoted);
/** Another is the master: all but the former one follow it, and have what it has. */
void sim_replica_return(sim_world *w, int server);
void sim_replica_promote(sim_world *w, int server);

/* ---- sentinel.c, check_sentinel.c: masters that others take over from -------------------------------- */

void sim_sentinels_reset(sim_world *w);
/** What has arrived at one of them is answered. */
void sim_sentinel_execute(sim_world *w, sim_socket *s);
/** The server or Sentinel at an address; SIM_NODES: nobody. By name, as an address. */
int sim_node_at(const sim_world *w, const void *address);
uint32_t sim_node_named(const char *name);
/** When something gets through that would arrive then. */
sim_ns sim_node_through(const sim_world *w, const sim_socket *s, sim_ns at);
/** Is anybody's word to be heard that there is nobody? */
bool sim_node_is_silent(const sim_world *w, int node);
/** Another has taken over from it, and it doesn't know. */
static inline bool sim_server_is_former(const sim_world *w, int server) {
    return w->change.on && server == w->change.former && server != sim_master_of(w, server);
}
/** Sentinels have another server take over; one of them is down, or cut off from a host. */
void sim_switch_over(sim_world *w);
void sim_sentinel_aside(sim_world *w);

/** A server, whichever, has executed a command: was it built for it? */
void sim_sentinel_executed(sim_world *w, const sim_request *m, const tl_reply *reply);
/** The same of one that is of no history that lasts. */
void sim_sentinel_forgotten(sim_world *w, const sim_request *m, const tl_reply *reply);
/** For which server a client builds what it asks; 0: for any. */
uint8_t sim_sentinel_built_for(const sim_host *host, const void *site, uint32_t generation);
/** An answer counts: as a renewal's, or (asked) as that of a request to acquire, built then. */
void sim_sentinel_counted(sim_world *w, const sim_lock *lock, uint32_t number, tl_bytes by,
                          const tl_mono *asked);
/** Its host has read what one of them has told it, or sends to a server. */
void sim_sentinel_read(sim_world *w, sim_socket *s);
void sim_sentinel_sends(sim_world *w, const sim_socket *s);
/** One of them has said to a subscriber that another has taken over. */
void sim_sentinel_told(sim_socket *s, int former);

/* ---- cluster.c: a cluster of several masters ---------------------------------------------------------- */

void sim_cluster_reset(sim_world *w);
/** CLUSTER SLOTS or INFO, as this node has it. */
const tl_reply *sim_cluster_say(sim_world *w, int server, tl_bytes what);
/** Has a master executed what another has the key of? It may only if it doesn't know that the slot is open. */
bool sim_cluster_astray(sim_world *w, const sim_request *m, const tl_reply *reply);
/** What is published at one node is repeated by all. */
void sim_cluster_repeat(sim_world *w, int server, tl_bytes channel, tl_bytes message);
/** Begin to move a slot; another takes over from a master; a node, or a host and some of them, are apart for a while. */
void sim_cluster_move(sim_world *w);
void sim_cluster_switch(sim_world *w);
void sim_cluster_aside(sim_world *w);
/** One of the masters. */
int sim_cluster_any(sim_world *w);
/** Does it go on, and hear of the others? */
bool sim_cluster_is_well(const sim_world *w, int server);
/** Is it the key's master, as far as it knows? No key: it is. */
bool sim_cluster_serves(sim_world *w, int server, tl_bytes key);
/** All keys of the slot, with their ends, in place of what is there; and without copies. */
void sim_cluster_copy_slot(sim_world *w, const sim_slot *slot, int from, int to);
void sim_cluster_drop_slot(sim_world *w, const sim_slot *slot, int server);
/** A master dies, and comes back without data. */
void sim_cluster_empty(sim_world *w, int server);
/** It is another shard's; the others hear of it, its former owner among the first. */
void sim_cluster_give(sim_world *w, sim_slot *slot, int shard, int from);

/* ---- cluster_atomic.c: slots that change masters at one moment -------------------------------------------- */

/** It begins to move. */
void sim_atomic_move(sim_world *w, sim_slot *slot);
/** A server has had news. */
void sim_atomic_heard(sim_world *w, int server);
/** Another has taken over from it. */
void sim_atomic_replaced(sim_world *w, int former);
/** Is this command one that the server doesn't execute yet? Then it is looked at again when the pause is over. */
bool sim_atomic_postpones(sim_world *w, sim_socket *s, const tl_bytes *argv, size_t argc);

/* ---- quorum.c, check_quorum.c: independent servers, of which a majority counts --------------------------- */

void sim_quorum_reset(sim_world *w);
/** The server that this place of the URL leads to. */
int sim_quorum_at(const sim_world *w, int place);
/** Any of them. */
int sim_quorum_any(sim_world *w);
/** One dies, and comes back with its data or without; one is cut off; somebody deletes a key at one. */
void sim_quorum_restart(sim_world *w, bool keep_data);
void sim_quorum_aside(sim_world *w);
void sim_quorum_delete(sim_world *w, int number);

/** So many servers hold the key for this token, whichever of its forms. */
unsigned sim_quorum_votes(sim_world *w, int key, uint32_t number);
/** Does a majority hold it for the very token of the lock? */
bool sim_quorum_has(sim_world *w, const sim_lock *lock);
/** A server has executed a script. */
void sim_quorum_executed(sim_world *w, const sim_request *m, const tl_reply *reply);
/** A machine has been stepped: does it count no more votes than there are? */
void sim_quorum_counts(sim_world *w, const tl_machine *machine, tl_status status);
/** The lock is said to be held until then. */
void sim_quorum_believed(sim_world *w, const sim_lock *lock, tl_mono deadline);
/** A lock was had, by a number that stands at a majority? */
void sim_quorum_had(sim_world *w, const sim_lock *lock);
/** An operation has ended so: is it true? */
void sim_quorum_ended(sim_world *w, const sim_lock *lock, tl_err code, bool asked);
/** A machine that cleans up has ended. */
void sim_quorum_cleaned(sim_world *w, const tl_job *job, bool releases, bool acquired);
/** The key may have changed hands; at the end of a run. */
void sim_quorum_changed(sim_world *w, int key);
void sim_quorum_end(sim_world *w, int key);

/* ---- etcd.c, check_etcd.c: members of an etcd ---------------------------------------------------------------- */

void sim_etcd_reset(sim_world *w);
void sim_etcd_free(sim_world *w);
/** Somebody has connected; what has arrived is executed, as far as it may be. */
void sim_etcd_accept(sim_world *w, sim_socket *s);
void sim_etcd_execute(sim_world *w, sim_socket *s);
/** Any of them; the leader in one of two. */
int sim_etcd_any(sim_world *w);
/** A member stops until its server's busy_until; dies, and comes back; is cut off; another leads. */
void sim_etcd_stopped(sim_world *w, int member);
void sim_etcd_restart(sim_world *w);
void sim_etcd_aside(sim_world *w);
void sim_etcd_transfer(sim_world *w);
/** What befalls it all. */
void sim_etcd_compact(sim_world *w);
void sim_etcd_forget_logins(sim_world *w);
void sim_etcd_doubt(sim_world *w, sim_ns until);
void sim_etcd_wedge(sim_world *w);
void sim_etcd_delete(sim_world *w, int key);

/** A key has changed, by a request that came over this connection; NULL: by itself, or nobody knows. */
void sim_etcd_changed(sim_world *w, const sim_socket *by, const fake_etcd_key *key);
/** Is the key of that token there, of whichever revision? */
bool sim_etcd_has(sim_world *w, int key, uint32_t number);
void sim_etcd_believed(sim_world *w, const sim_lock *lock, tl_mono deadline);
/** A lock was had, or not; a machine that cleans up has ended in time; the key may have changed hands; the end. */
void sim_etcd_ended(sim_world *w, const sim_lock *lock, tl_err code);
void sim_etcd_cleaned(sim_world *w, const tl_job *job);
void sim_etcd_check(sim_world *w, int key);
void sim_etcd_end(sim_world *w);

/* ---- check_rest.c: locks that rest ---------------------------------------------------------------------- */

/** A server has executed a request for a rest. */
void sim_rest_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key);
/** A server has given a new vote. */
void sim_rest_voted(sim_world *w, int server, uint32_t number, int key);
/** The key is about to be deleted there by hand. */
void sim_rest_deleted(sim_world *w, int server, int key);
/** The next one is about to take over from the former master. */
void sim_rest_replaced(sim_world *w, int former, int next);
/** Has anything moved a rest? */
void sim_rest_check(sim_world *w, int key);
/** A token has been given the key. heeds: by a request that heeds S, too */
void sim_rest_taken(sim_world *w, const sim_request *m, uint32_t number, bool heeds, int key);
/** A legacy client believes to have it. */
void sim_rest_stolen(sim_world *w, const sim_actor *a, int key);
/** A lock was had; a release has ended. */
void sim_rest_had(sim_world *w, const sim_lock *lock);
void sim_rest_ended(sim_world *w, const sim_lock *lock, tl_err code);

/* ---- reach.c ----------------------------------------------------------------------------------------- */

/** The slots of a cluster are elsewhere or on the way there, 1 to SIM_MOVES, or 0: here. */
void sim_slots_move(sim_world *w, int how);
/** What they do next, from where they are. */
int sim_slots_next(sim_world *w);
/** All servers forbid to touch some keys, 1 to SIM_TOUCHES, or 0: none. */
void sim_keys_forbid(sim_world *w, int which);
/** Could a holder of the key have renewed it all the time since then? */
bool sim_in_reach(const sim_world *w, int key, sim_ns since);

/* ---- faults.c --------------------------------------------------------------------------------------- */

void sim_faults_start(sim_world *w);
/** The register has moved: some failovers come just then. */
void sim_faults_stepped(sim_world *w);

/* ---- check.c, check_server.c -------------------------------------------------------------------------- */

void sim_fail(sim_world *w, int key, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sim_tokens_reset(sim_world *w);
uint32_t sim_token_new(sim_world *w, const sim_host *host, tl_token *ret);
/** The number in a token's text; 0: it is none. */
uint32_t sim_token_number(const sim_world *w, tl_bytes text);
#define SIM_SUFFIX_DIGITS                                                                          \
    16 /* of an etcd's key; its number is the one of its token, from this bit on */
#define SIM_SUFFIX_SHIFT 36
/** By its name, or by its sidecar's; -1. */
int sim_key_named(const sim_world *w, tl_bytes k);
int sim_key_beside(const sim_world *w, tl_bytes s);
/** What the key holds at the master; n 0: nothing. */
tl_bytes sim_key_value(sim_world *w, int key);

/** A token has been given a key. expected: what the key had to hold; limit: after which it should have
 *  been refused; n 0: neither. */
void sim_check_taken(sim_world *w, const sim_request *m, uint32_t number, int64_t fence,
                     tl_bytes expected, tl_bytes limit, int key);
bool sim_check_has(sim_world *w, const sim_request *m);
bool sim_check_noted(sim_world *w, const sim_request *m); /**< its token is in S there */
bool sim_check_has(sim_world *w, const sim_request *m);
bool sim_check_has_alone(sim_world *w, const sim_request *m); /**< of one that has but the key */
/** Before a script is executed: the inbox of one to whom the key was given in vain; 0: none. */
uint64_t sim_check_claim(sim_world *w, const sim_request *m);
/** Before a script is executed: whose its key is, so that what it gives is told from what was given before. */
void sim_check_found(sim_world *w, sim_request *m);
/** What all of them are checked for: while another holds the key; by a client that was told no; after its sender's limit. And
 *  it is counted. */
void sim_check_alone(sim_world *w, int key, uint32_t number);
/** Before a command: what came late may count by now. */
void sim_check_late(sim_world *w);
void sim_check_promise(sim_world *w, int key, uint32_t number);
void sim_check_in_time(sim_world *w, const sim_request *m, const sim_asked *asked, tl_bytes limit,
                       int64_t spare_ns, int key);
/** By how much a renewal may come later than its sender's limit: as is said of the server's clock, at its earliest, latest. */
int64_t sim_check_spare(const sim_asked *asked, tl_bytes earliest, tl_bytes latest);
void sim_check_count(sim_world *w, int key, uint32_t number);
/** A token has given a key back. */
void sim_check_released(sim_world *w, int key, uint32_t number);
/** A script has been executed. */
void sim_check_executed(sim_world *w, const sim_request *m, const tl_reply *reply);
/** The same for a script that was answered with an error. */
void sim_check_erred(sim_world *w, const sim_request *m);
/** Of a renewal: words before those of each lock; what is answered of each, INT64_MIN: nothing; the words of the i-th, as
 *  its machine has asked for it, and how many. */
size_t sim_check_heads(const sim_request *m);
void sim_check_statuses(const sim_request *m, const tl_reply *reply, int64_t ret[SIM_JOINED_MAX]);
size_t sim_check_own_words(const sim_request *m, size_t i, tl_bytes ret[SIM_OWN_WORDS]);
/** A transaction has been executed, or refused. False: none of tokens. */
bool sim_check_transacted(sim_world *w, const sim_request *m, const tl_reply *exec);
/** Do fencing numbers increase, whatever this run breaks? */
bool sim_check_fenced(const sim_world *w);
/** Does S keep all others who go by it from the key of this actor, should it be deleted? */
bool sim_check_bound(const sim_world *w, const sim_actor *a);
/** To be called whenever a key may have changed hands. */
void sim_check_key(sim_world *w, int key);
/** Has nobody the right to touch a holder's key, so that it must hold the holder's value? */
bool sim_check_strict(const sim_world *w, int key);
/** Somebody is inside: is somebody else, who should not be? */
void sim_check_two(sim_world *w, const sim_actor *a);
/** Would it be wrong for two locks, of which this is one, to be held at once? bound: S binds both. */
bool sim_check_excludes(const sim_world *w, int key, bool bound);
/** Somebody has begun to count on its key, or counts on it for longer. */
void sim_check_belief(sim_world *w, const sim_actor *a, tl_mono deadline);
/** A lock is at risk, since its keys are said to be out of reach. */
void sim_check_refused(sim_world *w, const sim_lock *lock);
/** A client believes in a fence that it was given, while it knows so much of the server's time. */
void sim_check_number(sim_world *w, const sim_lock *lock, uint32_t number, uint64_t fence,
                      tl_interval now);
/** A client calls the lock's holder stalled. Returns whether its last sign was before it looked. */
bool sim_check_stalled(sim_world *w, const sim_lock *lock);
void sim_check_lost(sim_world *w, sim_lock *lock, tl_mono deadline, tl_lost_why why);
/** An operation has ended. asked: with a token of its own */
void sim_check_ended(sim_world *w, sim_lock *lock, tl_err code, bool asked);
/** An event is told. */
void sim_check_told(sim_world *w, sim_lock *lock, const tl_lock_event *event);
/** A lock was had: before somebody who waited longer? */
void sim_check_turn(sim_world *w, const sim_lock *lock);
/** check_line.c: a token comes to the line, perhaps to the place of another; */
void sim_line_comes(sim_world *w, const sim_request *m, uint32_t number, int key);
/** if it isn't given the lock at once it stands there; */
void sim_line_stands(sim_world *w, const sim_request *m, uint32_t number, int key);
/** it has looked, and was answered; */
void sim_line_looked(sim_world *w, const tl_reply *reply, uint32_t number, int key);
/** an inbox has let the lock lapse, and all that stand there go out, whoever is given it; */
void sim_line_lapsed(sim_world *w, uint64_t claim, int key);
/** a token is given the lock, and told how many stand in line; */
void sim_line_given(sim_world *w, uint32_t number, uint64_t claim, int key);
void sim_line_told(sim_world *w, uint32_t number, int64_t others);
/** its user has it, and passes it on within the process. */
void sim_line_had(sim_world *w, const sim_lock *lock);
void sim_line_passed(sim_world *w, const sim_lock *lock);
/** What its user is told of an operation that failed. */
void sim_check_said(sim_world *w, const sim_lock *lock, tl_err code, const char *words);
/** What a lock owes at any time. */
void sim_check_lock(sim_world *w, const sim_lock *lock);
/** A machine that goes on without its caller has ended. refused: by an answer that says no */
void sim_check_cleaned(sim_world *w, const sim_host *host, const tl_job *job, tl_mono limit,
                       bool refused);
/** A client has seen a server's clock step. */
void sim_check_step(sim_world *w, sim_client *client);
void sim_check_end(sim_world *w);
/** The last thing of a process is done: has it left anything? */
void sim_check_left(sim_world *w, sim_host *host);

/* ---- stamps.c: what is special about them ----------------------------------------------------------- */

/** The options of a client of this kind; NULL: it has none. */
const tl_legacy_options *sim_stamp_options(const sim_world *w, sim_kind kind,
                                           tl_legacy_options *room);
/** A lifetime that these leave: own_ttl_ms, if it is one. */
int64_t sim_stamp_lifetime(sim_world *w, const sim_lock *lock);
/** Does the server know WATCH, but not EVAL? */
bool sim_stamp_watches(const sim_world *w);
/** Does it do without both, so that there is no sidecar, no fence and no renewal? */
bool sim_stamp_is_plain(const sim_world *w, const sim_lock *lock);
/** Is the server unable to tell the time, so that each client judges stamps by its own clock? */
bool sim_stamp_by_own_clock(const sim_world *w);
/** Is the lock under whatever S says, whoever has written to K? */
bool sim_stamp_binds(const sim_world *w, const sim_actor *a);
/** Until when a request of a lock without scripts may be executed, as is assumed. */
sim_ns sim_stamp_never_after(const sim_world *w, const sim_host *host, const tl_send *send);
/** A command that is no script has been executed. */
void sim_stamp_executed(sim_world *w, const sim_request *m, const tl_reply *reply);
/** A transaction has been executed, or refused. */
void sim_stamp_transacted(sim_world *w, const sim_request *m, const tl_reply *exec);
/** K's stamp may have changed. */
void sim_stamp_changed(sim_world *w, int key);
/** Does S say that the token holds K, and no legacy client has written what it holds? */
bool sim_stamp_is_of(sim_world *w, int key, uint32_t number);

/* ---- dialect.c: that of the run's legacy clients -------------------------------------------------------- */

const char *sim_dialect_name(const sim_world *w);
/** Does the text name this one as its writer? */
bool sim_dialect_is_by(const sim_world *w, const sim_actor *a, tl_bytes text);
/** What one writes now, by its clock, for a lock of this lifetime. */
tl_bytes sim_dialect_write(const sim_world *w, const sim_actor *a, int64_t ttl_ms,
                           char to[SIM_STAMP_SIZE]);
/** Does one call it expired now, by its clock? false: it can't read it. */
bool sim_dialect_expired(const sim_world *w, const sim_actor *a, tl_bytes text, bool *ret);
/** As the library reads it: the last ms at which any of them may call it held. false: it is no stamp. */
bool sim_dialect_read(const sim_world *w, tl_bytes text, int64_t *ret_last_ms);

/* ---- forks.c ------------------------------------------------------------------------------------------ */

/** A process forks, and its child tries whatever it has inherited. */
void sim_fork(sim_world *w, sim_host *host);
/** In such a child: this must not happen. */
void sim_forked_must_not(const sim_world *w);

/* ---- story.c ----------------------------------------------------------------------------------------- */

#define SIM_ALL (-1) /* concerns every key */
void sim_say(sim_world *w, const char *who, int key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define sim_tell(w, ...) ((w)->telling ? sim_say(w, __VA_ARGS__) : (void)0)
void sim_story_reset(sim_world *w);
void sim_story_free(sim_world *w);
