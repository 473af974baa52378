/*
 * The simulated world, as its parts see it. One thread, one seed; nothing depends on an address.
 *
 * Parts: link (the network), conn (a connection as src/transport/conn_redis.c behaves), wake (src/transport/wakeup.c),
 * client (src/client/driver.c and src/client/keeper.c), lock (src/client/lock.c), server (the fake server, its replicas
 * and its clock), faults, actors, check (what must hold), story.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "clocks.h"
#include "config.h"
#include "fake_redis.h"
#include "phases.h"
#include "protocol/acquire.h"
#include "protocol/renew.h"
#include "protocol/settle.h"
#include "random.h"
#include "sim.h"
#include "stats.h"

#define SIM_TEXT 2048 /* bytes of a message and its reply */
#define SIM_NODES 24  /* items of a reply */
#define SIM_TASKS 64  /* of a keeper */
#define SIM_ACTOR_STATE 6144
#define SIM_STEPS_AT_ONCE 40 /* a machine that steps more often at one instant loops */

typedef struct sim_world sim_world;
typedef struct sim_host sim_host;
typedef struct sim_conn sim_conn;
typedef struct sim_task sim_task;
typedef struct sim_client sim_client;
typedef struct sim_lock sim_lock;
typedef struct sim_actor sim_actor;
typedef struct sim_msg sim_msg;

/* ---- messages and connections ------------------------------------------------------------------ */

typedef struct {
    uint8_t script, nkeys, argc;
    bool is_script;
    tl_bytes argv[TL_ARGV_MAX];
} sim_order;

/** Of a lease on a phase, what checks want to know. */
typedef struct {
    int64_t epoch;
    tl_mono until;
    int8_t phase;
} sim_lease;

/** A connection as the server has it, with what it watches: it outlives the client's end for as long
 *  as something of it is in flight. */
typedef struct {
    fake_conn *at;
    unsigned refs;
} sim_session;

/** A request, then also its reply. In a connection's queue, or in flight, or both. */
struct sim_msg {
    struct sim_msg *next;
    sim_conn *conn;
    uint32_t gen;   /**< of the connection when it was sent */
    uint32_t epoch; /**< of the server */
    const sim_host *sender;
    int64_t boot; /**< tells whether it has crashed since */
    void *who;    /**< the answer is for; NULL: nobody any more */
    uint16_t ticket;
    uint8_t count, refs, server;
    const tl_pin *pin;    /**< NULL: none */
    sim_session *session; /**< of a transaction's */
    bool unsent, given_up, by_text, effect, subscriber;
    uint32_t token;     /**< of the lock that it is for; 0: none */
    sim_ns never_after; /**< assumed: it isn't executed later */
    tl_mono by, sent;
    sim_order order[TL_COMMANDS_MAX];
    tl_reply reply[TL_COMMANDS_MAX], node[SIM_NODES];
    sim_lease lease; /**< by which a phase decides what it does; until.ns 0: none */
    uint32_t nodes, used;
    char text[SIM_TEXT];
};

/** What a connection tells its owner. The event lacks `server`. */
typedef struct {
    void (*answer)(sim_world *w, sim_conn *conn, void *who, tl_event *e);
    void (*up)(sim_world *w, sim_conn *conn, const tl_interval *bracket, int64_t uptime_us);
    void (*down)(sim_world *w, sim_conn *conn);
} sim_calls;

struct sim_conn {
    sim_conn *next; /**< of those that are free, or idle in a client's pool */
    sim_conn *all;  /**< the next of all there are */
    sim_world *w;
    sim_host *host;
    void *owner;
    const sim_calls *calls;
    uint32_t gen; /**< grows whenever it is closed: what was in flight is another's */
    uint32_t epoch;
    uint8_t server;
    enum { SIM_DOWN, SIM_OPENING, SIM_UP } state;
    bool served;
    bool dead_up, dead_down; /**< nothing gets through any more */
    bool withheld;           /**< nor what is in flight */
    bool hung_up;            /**< the host has been told of the end, but nobody has looked */
    bool polled;             /**< somebody always looks */
    bool subscriber;
    bool pinned; /**< a transaction is open, and the answer is being given that may close it */
    sim_session *session;
    tl_mono planned;
    unsigned failures;
    sim_ns retry_at;
    tl_mono login_by, login_sent, idle_since;
    int64_t stamp_us, uptime_us;
    sim_ns fifo_up, fifo_down, blocked; /**< blocked: the server waits for replicas until then */
    sim_msg *head, *tail;
    sim_alarm alarm;
    fake_conn *remote; /**< at the server; subscribers only */
};

/* ---- hosts ------------------------------------------------------------------------------------- */

typedef struct {
    int listeners;
    enum { SIM_UNTOLD, SIM_ARMED, SIM_NOT_ARMED } told;
    uint32_t asked; /**< number of the SUBSCRIBE */
} sim_topic;

typedef struct {
    sim_conn *conn; /**< NULL: not needed yet */
    sim_topic topic[SIM_KEYS];
    sim_task *waiter[SIM_ACTORS];
    int waiters;
    uint32_t said, answered;
    sim_alarm alarm;
    tl_mono heard;
} sim_wake;

/* ---- tasks and locks --------------------------------------------------------------------------- */

enum { SIM_WOKEN = 1, SIM_WAKE_ARMED = 2, SIM_WAKE_DISARMED = 4, SIM_WAKE_CANCEL = 8 };

/** A machine that is run: by a caller's thread (a line of its own) or by the keeper. */
struct sim_task {
    sim_task *next; /**< of those that are free */
    sim_client *client;
    void *machine;
    tl_step step;
    void (*stepped)(sim_world *w, sim_task *task, const tl_out *out, tl_status status);
    sim_lock *lock;
    bool keeper, running;
    sim_conn *line; /**< driver: NULL while nothing is in flight */
    sim_msg *asked; /**< keeper: the one in flight, */
    bool owes;      /**< the server's clock has stepped, and it hasn't asked since */
    unsigned in_flight;
    tl_mono until;
    sim_alarm alarm, wake;
    unsigned flags; /**< posted to a caller that waits */
    int listens;    /**< key; -1: none */
    uint32_t run;   /**< grows with each machine that it runs */
    tl_mono last;   /**< the clock at the last step */
    sim_ns instant; /**< of the last step, and how many there were */
    unsigned at_instant;
    uint8_t key;
    sim_lease lease; /**< by which its attempt acts; until.ns 0: none */
    union {
        tl_acquisition acquire;
        tl_settle settle;
    } room; /**< the machine of a detached task */
};

/** A tl_client with its keeper. */
struct sim_client {
    sim_host *host;
    tl_server server;
    sim_conn *idle;
    sim_conn *keeper; /**< NULL: not needed yet */
    sim_wake wake;
    sim_task *task[SIM_TASKS]; /**< that the keeper runs, in the order of starting */
    int tasks;
    sim_alarm alarm;  /**< to rejudge every lock */
    sim_ns step_seen; /**< when a server's clock was last seen to have stepped; 0: never */
    char owner[16];
    sim_task attend; /**< that keeps its lease fresh; machine NULL: none was read yet */
    _Alignas(16) char attendant[SIM_ATTENDANT];
};

struct sim_host {
    char name;
    uint8_t id;
    bool up;
    sim_clock boot;               /**< the deadline clock */
    int64_t booted;               /**< what it showed first: tells one life from another */
    sim_clock wall;               /**< ns since the epoch; legacy clients look at it */
    sim_ns paused_until, stalled; /**< stalled: the end of the last stop */
    sim_ns cut_up, cut_down;      /**< partitioned until */
    tl_mono stale;                /**< what the clock showed before the stop ... */
    uint64_t stale_event;         /**< ... for this event; 0: none */
    bool now_is_stale;
    bool java_flag; /**< DistributeLockUtil's one field */
    sim_client client;
};

typedef enum { SIM_ACQUIRE, SIM_EXTEND, SIM_RELEASE } sim_op;

/** A tl_lock. */
struct sim_lock {
    sim_client *client;
    sim_actor *actor;
    uint8_t key;
    const tl_protocol *protocol;
    bool strict;
    tl_rules rules;
    tl_proof proof;
    tl_retry retry;
    int64_t ttl_ms, max_hold_ms;
    bool manual_renew;
    tl_token token;
    uint32_t number; /**< of the token */
    tl_mono deadline;
    uint64_t fence;
    tl_state state;
    bool cancelled;
    bool busy; /**< an operation is in flight */
    sim_op op;
    int64_t op_ms; /**< how long it may take, or TL_FOREVER */
    sim_ns op_began;
    tl_mono hold_by; /**< it is to be lost by then */
    bool believed;   /**< when the release began */
    int64_t extend_ms;
    sim_task drive, watch;
    tl_renew renew;
    bool reported, told_held; /**< a report is queued; AT_RISK has been told */
    tl_lock_event event;
    sim_alarm report;
    union {
        tl_acquisition acquire;
        tl_settle settle;
    } machine;
    /** An operation has ended, or an event is reported (op unused). */
    void (*done)(sim_world *w, sim_lock *lock, tl_err code);
    void (*told)(sim_world *w, sim_lock *lock, const tl_lock_event *event);
};

/** What was promised about a token. */
typedef struct {
    enum { SIM_ASKING, SIM_HAD, SIM_MOVED_ON, SIM_NOT_ACQUIRED } promise;
    uint8_t host, key;
    bool taken, crashed, released;
    uint32_t turn;         /**< with stamps: which of the key's it was */
    bool again;            /**< taken a second time, by a late request */
    bool dropped;          /**< a drop of it has been executed, */
    bool ours;             /**< and found it there */
    uint64_t fence;        /**< the last that was given */
    uint64_t fence_before; /**< and the one before, to whom took it a second time */
} sim_token;

/* ---- servers and keys -------------------------------------------------------------------------- */

typedef struct {
    fake_redis *r;
    fake_conn *runner;
    sim_clock wall;
    bool up;
    uint32_t epoch; /**< grows when it dies, and whatever was sent to it is lost */
    sim_ns busy_until;
    int64_t started_us; /**< on its own clock */
} sim_server;

typedef struct {
    uint64_t unit;
    sim_ns arrives[SIM_SERVERS];
    uint32_t at; /**< in log_bytes */
    uint8_t db, argc;
} sim_write;

typedef struct {
    char name[16], sidecar[32];
    tl_bytes k, s;
    uint64_t fence;       /**< the last */
    uint32_t holder;      /**< number of the token taken last; 0: none */
    bool mixed;           /**< Java clients meet others on it */
    bool stolen;          /**< and its holder has suffered from that */
    sim_ns free_since;    /**< its release; SIM_NEVER: it is held, or has expired */
    uint32_t spent;       /**< number of the token that the server remembers as dropped */
    sim_ns deleted_until; /**< deleted by hand: plain clients may meet a holder until then */
    /* with stamps */
    int64_t stamp_ms; /**< that it holds; 0: something else, or nothing */
    sim_ns free_from; /**< when it may be taken; SIM_NEVER: not by itself */
    uint32_t writer;  /**< number of the token for which it was written without a script */
    uint32_t turns;   /**< how often it has been taken, by whomever */
} sim_key;

/* ---- actors ------------------------------------------------------------------------------------ */

/** A kind of actor: one file. `state` is zeroed before start, also after a crash. */
typedef struct {
    const char *name;
    size_t size;
    void (*start)(sim_world *w, sim_actor *a);
    void (*act)(sim_world *w, sim_actor *a); /**< its alarm */
    void (*crash)(sim_world *w,
                  sim_actor *a); /**< its host is gone: forget everything; may be NULL */
    /** Does it count on its key being its own now? NULL: it has no such right. */
    bool (*holds)(const sim_world *w, const sim_actor *a);
    tl_bytes (*value)(const sim_actor *a);     /**< what the key then holds */
    void (*stop)(sim_world *w, sim_actor *a);  /**< it is to come to an end soon; may be NULL */
    void (*check)(sim_world *w, sim_actor *a); /**< its own promises; may be NULL */
    void (*end)(sim_world *w, sim_actor *a);   /**< the run is over: nothing may be in flight */
} sim_actor_kind;

extern const sim_actor_kind sim_actor_token, sim_actor_plain, sim_actor_java, sim_actor_stamp,
    sim_actor_operator;

struct sim_actor {
    const sim_actor_kind *kind;
    sim_host *host;
    uint8_t id, key;
    char name[4];
    sim_alarm alarm;
    _Alignas(16) char state[SIM_ACTOR_STATE];
};

/** Zero its state, and start it. */
void sim_actor_start(sim_world *w, sim_actor *a);
/** Its alarm, from now on. */
void sim_actor_wait(sim_world *w, sim_actor *a, sim_ns ns);

/* ---- the world --------------------------------------------------------------------------------- */

struct sim_world {
    sim_config cfg;
    sim_queue queue;
    sim_ns now;
    uint64_t random, hash, event;
    bool calm;           /**< no more faults, and nothing new is begun */
    bool whole;          /**< the assumptions hold */
    bool kept;           /**< those that phases rest on, too: a failover may lose writes */
    bool legacy;         /**< those about legacy clients, too */
    bool calm_all_along; /**< no faults in this run */
    bool full;           /**< the master's memory */
    sim_host *gated;     /**< whose clock is shown as it was, during this event */
    sim_host host[SIM_HOSTS];
    sim_key key[SIM_KEYS];
    sim_actor actor[SIM_ACTORS];
    sim_server server[SIM_SERVERS];
    int master;
    bool failing_over;
    sim_ns promoted; /**< when the present master became it; 0: it has been from the start */
    sim_write *log;
    uint32_t log_count, log_room, log_used, log_size;
    char *log_bytes;
    uint32_t applied[SIM_SERVERS];
    sim_ns log_fifo[SIM_SERVERS];
    sim_token *token;
    uint32_t tokens, token_room;
    sim_msg *spare_msg;
    sim_conn *spare_conn, *conns;
    sim_task *spare_task;
    struct sim_chunk *chunks, *chunk_at; /**< what all these are cut from */
    sim_msg *pushed;                     /**< while the server executes: what it publishes */
    const sim_msg *pushing;              /**< the subscriber\'s command that it executes */
    sim_migration migration;
    sim_stats stats;
    bool telling;
    struct sim_story *story;
    bool failed;
    int failed_key;
    sim_ns failed_at;
    char failure[240];
    const char *failure_kind;
};

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

/* ---- host.c ------------------------------------------------------------------------------------ */

void sim_host_boot(sim_world *w, sim_host *host);
void sim_host_crash(sim_world *w, sim_host *host);
void sim_host_pause(sim_host *host, sim_ns until);
/** May an event reach the host now? If not it is put off, and fires again. */
bool sim_host_awake(sim_world *w, sim_host *host, sim_fire fire, void *who, uint32_t tag);
/** The same for an alarm on it. One that was put off, and set anew meanwhile, may come early. */
bool sim_host_alarm(sim_world *w, sim_host *host, sim_alarm *alarm, unsigned rank, sim_fire fire,
                    void *who, uint32_t tag);
/** Its clock as it is. */
tl_mono sim_host_clock(const sim_world *w, const sim_host *host);
/** Its clock as the program knows it, that may have been stopped since. */
tl_mono sim_host_now(const sim_world *w, const sim_host *host);
/** A clock that may be slewed, as it goes on if it is slewed to run as fast (way 1) or as slow (-1) as ever. */
sim_clock sim_clock_from_here(const sim_world *w, const sim_clock *clock, int way);
/** When a timer for this instant goes off. */
sim_ns sim_host_when(sim_world *w, const sim_host *host, tl_mono at);
/** Its wall clock less true time, ns. */
int64_t sim_host_skew(const sim_world *w, const sim_host *host);
int64_t sim_host_wall_ms(const sim_world *w, const sim_host *host);
/** Its wall clock less its deadline clock. */
int64_t sim_host_wall_us(const sim_world *w, const sim_host *host);
/** Is a Java client of it between reading the clock and its DEL? */
bool sim_java_is_busy(const sim_actor *a);
/** Is one inside its job on this key? */
bool sim_java_is_inside(const sim_world *w, int key);
/** Has it run without a stop, so that what was due by `at` is to have been done? */
bool sim_host_could(const sim_world *w, const sim_host *host, tl_mono at);

/* ---- link.c ------------------------------------------------------------------------------------ */

/** When something sent now arrives, behind what was sent before. */
sim_ns sim_link_up(sim_world *w, const sim_host *host, sim_ns *fifo);
sim_ns sim_link_down(sim_world *w, const sim_host *host, sim_ns *fifo);

/* ---- conn.c, conn_open.c, msg.c ------------------------------------------------------------------ */

sim_conn *sim_conn_new(sim_world *w, sim_host *host, const sim_calls *calls, void *owner);
/** What is in flight goes unheard. NULL is fine. */
void sim_conn_free(sim_world *w, sim_conn *conn);
sim_msg *sim_conn_send(sim_world *w, sim_conn *conn, const tl_send *send, void *who);
/** Before it is used again: has the server hung up meanwhile? */
void sim_conn_look(sim_world *w, sim_conn *conn);
/** The connection has been reset, or its server has died: the host learns of it now. */
void sim_conn_reset(sim_world *w, sim_conn *conn);
void sim_conn_close(sim_world *w, sim_conn *conn);
/** A message of its own, to be said: subscribers. */
void sim_conn_say(sim_world *w, sim_conn *conn, const char *word, tl_bytes topic, uint32_t number);

void sim__conn_open(sim_world *w, sim_conn *conn);
void sim__conn_plan(sim_world *w, sim_conn *conn);
void sim__conn_lose(sim_world *w, sim_conn *conn, tl_err why, const char *words, bool wait);
void sim__conn_pump(sim_world *w, sim_conn *conn);
void sim__conn_write(sim_world *w, sim_conn *conn);
/** A reply has arrived at the host. */
void sim_conn_replied(sim_world *w, void *who, uint32_t gen);

sim_msg *sim_msg_new(sim_world *w);
void sim_msg_let_go(sim_world *w, sim_msg *msg);
void sim_msg_write(sim_msg *msg, const tl_send *send);
void sim_msg_answer(sim_msg *msg, int i, const tl_reply *reply);
/** The session of the connection that it is sent on, for a transaction. */
void sim_session_join(sim_world *w, sim_msg *msg, sim_conn *conn);
/** NULL is fine; sets it to NULL. */
void sim_session_leave(sim_session **session);

/* ---- wake.c ------------------------------------------------------------------------------------- */

void sim_wake_listen(sim_world *w, sim_task *task, int key);
void sim_wake_forget(sim_world *w, sim_task *task);
void sim_wake_crash(sim_world *w, sim_wake *k);
/** A push has arrived. */
void sim_wake_pushed(sim_world *w, void *who, uint32_t gen);
/** The server says something to a subscriber; number: of the command that it answers, or 0. */
void sim_wake_push(sim_world *w, sim_conn *conn, const tl_reply *reply, uint16_t number);

/* ---- client.c ----------------------------------------------------------------------------------- */

void sim_client_boot(sim_world *w, sim_host *host);
void sim_client_crash(sim_world *w, sim_client *client);
void sim_client_ready(sim_world *w, sim_client *client);
bool sim_client_learn(sim_world *w, sim_client *client, tl_interval bracket, tl_mono now);
/** Run a task on a line of its own. */
void sim_drive(sim_world *w, sim_task *task);
/** Have the keeper run it; `kind` is given to it at once. */
void sim_keep(sim_world *w, sim_task *task, tl_event_kind kind);
/** Have the keeper run a copy of a machine. */
void sim_detach(sim_world *w, sim_client *client, const void *machine, size_t size, tl_step step,
                tl_event_kind kind, int key);
void sim_keep_tell(sim_world *w, sim_task *task, tl_event_kind kind);
void sim_keep_forget(sim_world *w, sim_task *task);
void sim_task_post(sim_world *w, sim_task *task, unsigned flags);

/* ---- lock.c -------------------------------------------------------------------------------------- */

void sim_lock_init(sim_world *w, sim_lock *lock, sim_actor *actor);
void sim_lock_acquire(sim_world *w, sim_lock *lock, int64_t wait_ms);
void sim_lock_extend(sim_world *w, sim_lock *lock, int64_t ttl_ms);
void sim_lock_release(sim_world *w, sim_lock *lock);
void sim_lock_cancel(sim_world *w, sim_lock *lock);
void sim_lock_crash(sim_world *w, sim_lock *lock);
/** Stop watching it, as tl_lock_free does. */
void sim_lock_drop(sim_world *w, sim_lock *lock);
bool sim_lock_held(const sim_world *w, const sim_lock *lock, sim_ns at);

/* ---- server.c, replica.c --------------------------------------------------------------------------- */

void sim_servers_reset(sim_world *w);
void sim_servers_free(sim_world *w);
/** A request arrives at its server. */
void sim_server_arrive(sim_world *w, void *who, uint32_t gen);
int64_t sim_server_us(const sim_world *w, const sim_server *server);
/** What INFO says: whole seconds, each end rounded down as redis-server does. */
int64_t sim_server_uptime_us(const sim_world *w, int server);
/** Its time, to look inside. */
void sim_server_set(sim_world *w, int server);
/** It dies, and whoever is connected is told or not. */
void sim_server_kill(sim_world *w, int server);
void sim_server_start(sim_world *w, int server, bool keep_data);
/** What WAIT answers, and when. */
int sim_replicas_confirm(sim_world *w, int needed, sim_ns by, sim_ns *ret_when);
/** Apply what has arrived at a replica by then; SIM_NEVER: everything. */
void sim_replica_apply(sim_world *w, int server, sim_ns by);
void sim_replicas_reset(sim_world *w);
void sim_replicas_free(sim_world *w);
/** Everybody has what the master has. */
void sim_replicas_copy(sim_world *w);
/** A replica takes over: with everything, or with what had arrived by the master's death. quick: its
 *  clock may still show less than the master's did. */
void sim_failover(sim_world *w, bool lossy, bool quick);

/* ---- faults.c --------------------------------------------------------------------------------------- */

void sim_faults_start(sim_world *w);
/** The register has moved: some failovers come just then. */
void sim_faults_stepped(sim_world *w);

/* ---- check.c, check_server.c -------------------------------------------------------------------------- */

void sim_fail(sim_world *w, int key, const char *format, ...) __attribute__((format(printf, 3, 4)));
void sim_tokens_reset(sim_world *w);
uint32_t sim_token_new(sim_world *w, const sim_lock *lock, tl_token *ret);
/** The number in a token's text; 0: it is none. */
uint32_t sim_token_number(const sim_world *w, tl_bytes text);
/** By its name, or by its sidecar's; -1. */
int sim_key_named(const sim_world *w, tl_bytes k);
int sim_key_beside(const sim_world *w, tl_bytes s);
/** What the key holds at the master; n 0: nothing. */
tl_bytes sim_key_value(sim_world *w, int key);

/** A token has been given a key. expected: what the key had to hold; limit: after which it should have
 *  been refused; n 0: neither. */
void sim_check_taken(sim_world *w, const sim_msg *m, uint32_t number, int64_t fence,
                     tl_bytes expected, tl_bytes limit, int key);
/** A token has given a key back. */
void sim_check_released(sim_world *w, int key, uint32_t number);
/** A script has been executed. */
void sim_check_executed(sim_world *w, const sim_msg *msg, const sim_order *order,
                        const tl_reply *reply);
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
void sim_check_lost(sim_world *w, const sim_lock *lock, tl_mono deadline, tl_lost_why why);
/** An operation has ended. maybe: something may be left behind. */
void sim_check_ended(sim_world *w, sim_lock *lock, tl_err code, bool maybe, bool detached);
/** What a lock owes at any time. */
void sim_check_lock(sim_world *w, const sim_lock *lock);
/** A detached machine has ended. */
void sim_check_cleaned(sim_world *w, const sim_task *task);
/** A client has seen a server's clock step. */
void sim_check_step(sim_world *w, sim_client *client);
void sim_check_end(sim_world *w);

/* ---- stamps.c: what is special about them ----------------------------------------------------------- */

/** A protocol's row by the kind of actor, NULL: tidelock is built without. */
const tl_protocol *sim_stamp_row(sim_kind kind);
/** The rules for a lock, as src/client/lock.c asks for them; sets its lifetime when it is 0. */
void sim_stamp_rules(sim_world *w, const sim_lock *lock, tl_rules *ret, int64_t *ttl_ms);
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
sim_ns sim_stamp_never_after(const sim_world *w, const sim_task *task, const tl_send *send);
/** A command that is no script has been executed. */
void sim_stamp_executed(sim_world *w, const sim_msg *msg, const sim_order *order,
                        const tl_reply *reply);
/** A transaction has been executed, or refused. */
void sim_stamp_transacted(sim_world *w, const sim_msg *msg);
/** K's stamp may have changed. */
void sim_stamp_changed(sim_world *w, int key);
/** Does S say that the token holds K? */
bool sim_stamp_is_of(sim_world *w, int key, uint32_t number);

/** The token protocol, whose steps are counted. */
extern const tl_protocol sim_counted_token;
extern int64_t sim_attempt_steps,
    sim_attempts_quiet; /**< sent away since the server has restarted */

/* ---- story.c ----------------------------------------------------------------------------------------- */

#define SIM_ALL (-1) /* concerns every key */
void sim_say(sim_world *w, const char *who, int key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
#define sim_tell(w, ...) ((w)->telling ? sim_say(w, __VA_ARGS__) : (void)0)
void sim_story_reset(sim_world *w);
void sim_story_free(sim_world *w);

#endif
