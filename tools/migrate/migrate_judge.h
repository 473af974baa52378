/*
 * May a namespace go from one phase to another? The data that was read, and the decision. Pure.
 */
#pragma once

#include "base/tool.h"
#include "migrate/migrate_slots.h"

/** "s", or "" behind a count of 1. */
static inline const char *migrate_plural(int64_t count) {
    return count == 1 ? "" : "s";
}

#define MIGRATE_LIST_SIZE 400
#define MIGRATE_BLOCKERS 16

typedef struct {
    char what[240], who[MIGRATE_LIST_SIZE], todo[240];
    bool passes; /**< it resolves by itself in time */
} migrate_blocker;

typedef struct {
    int count, more;
    migrate_blocker item[MIGRATE_BLOCKERS];
} migrate_blockers;

/** A namespace as it was read at one moment. */
typedef struct {
    const char *name;
    migrate_register reg;
    migrate_client *client; /**< owned by the reader; includes expired clients */
    int clients;
    int64_t now_us; /**< the server's clock */
    /** A cluster: clients follow the registers of the slots, and `reg` is the record that this command keeps. Its phase
     *  rises before that of the slots, and falls behind it. */
    bool by_slots;
    migrate_tally slots;
    migrate_blockers flaws; /**< what of the cluster forbids a step */
    /** Of a cluster, "": none. The masters of slots in a later phase than the record's, where no step leaves them: old data has
     *  come back. And the masters to which it would come back if they were restarted. */
    char later[MIGRATE_LIST_SIZE], unsaved[MIGRATE_LIST_SIZE];
} migrate_view;

/** The namespace's phase. In a cluster it is the highest that the record or a slot says. */
int migrate_phase_of(const migrate_view *view);

/** Is each slot in that phase, and the record? False: a step was not finished, or a node has lost registers. */
bool migrate_is_whole(const migrate_view *view);

/** The phase to which a step forward leads: the next one, or the present one if that is not whole. */
int migrate_next_phase(const migrate_view *view);

/** Is it known in which phase all slots are? */
bool migrate_knows_phase(const migrate_view *view);

/** Has this author left the record so? */
bool migrate_is_left_so(const migrate_register *record, int64_t epoch, int phase, const char *by);

/** The phase to which a step back leads; -1: none. In a cluster whose registers contradict each other about Java it
 *  is 1, which is safe from any mixture. */
int migrate_former_phase(const migrate_view *view);

/* ---- locks ------------------------------------------------------------------------------------ */

#define MIGRATE_EXAMPLES 5
#define NEVER_ENDS INT64_MAX

/** Keys of one kind: their number, and examples. */
typedef struct {
    int64_t count; /**< a key that appeared or vanished meanwhile may count twice */
    int64_t over;  /**< of these, expired stamps */
    struct {
        char key[KEY_SHOWN];
        char who[160];   /**< "" unknown */
        int64_t left_ms; /**< until its end; negative: already expired; or NEVER_ENDS */
    } example[MIGRATE_EXAMPLES];
} migrate_bunch;

/** The locks of a namespace, by kind. */
typedef struct {
    bool whole;              /**< all keys were read */
    bool crowded;            /**< a survey could not keep all of them */
    migrate_bunch own;       /**< stamps with a sidecar */
    migrate_bunch strays;    /**< stamps (or similar) without one, of legacy clients */
    migrate_bunch strangers; /**< stamps held by tidelock clients that are not registered */
    migrate_bunch tokens;
} migrate_locks;

/** The number of stamps that tidelock clients hold or have left; and of all locks. */
int64_t migrate_locks_ours(const migrate_locks *locks);
int64_t migrate_locks_all(const migrate_locks *locks);

/** Is its holder one of the registered clients? */
bool migrate_knows(const migrate_view *view, const tl_lock_info *info);

/** Count a lock found by the scan. */
void migrate_locks_learn(migrate_locks *locks, const migrate_view *view, const char *key,
                         size_t key_len, const tl_lock_info *info);

/** "jobs:a (ends in 12.3 s), jobs:b (ended 4 min ago) and 3 more". Returns buf. */
const char *migrate_bunch_list(char buf[MIGRATE_LIST_SIZE], const migrate_bunch *bunch);

/* ---- traffic ---------------------------------------------------------------------------------- */

#define MIGRATE_STRAGGLERS 8

/** A client that was seen to use a legacy clients' command on a key of the namespace. */
typedef struct {
    char address[64], name[64], command[24], key[KEY_SHOWN];
} migrate_straggler;

/** Could a kind of evidence be read? */
typedef enum {
    MIGRATE_NOT_ASKED,
    MIGRATE_LACKS,  /**< this server doesn't have it */
    MIGRATE_DENIED, /**< this user may not read it, or there was no reply */
    MIGRATE_OFF,    /**< it is switched off there */
    MIGRATE_READ
} migrate_access;

#define MIGRATE_WHY_SIZE 120

/** The server's keyspace events. They don't name the writer, and an attempt that failed causes none. */
typedef struct {
    migrate_access access;
    int64_t ms;     /**< how long they were received */
    int64_t writes; /**< of values, to keys of the namespace, by any client */
    int64_t bare;   /**< of these, those that left no lifetime: tidelock always sets one */
    int64_t gaps;   /**< how often the subscription was lost */
    char why[MIGRATE_WHY_SIZE];
} migrate_event_counts;

/** Which users may use the commands of legacy clients. */
typedef struct {
    migrate_access access;
    int users,
        denied;   /**< users, also those that are off; of these, who are denied both commands */
    int servers;  /**< that were asked: the master, and each server that may become master */
    int replicas; /**< connected ones that were not asked */
    char why[MIGRATE_WHY_SIZE];
} migrate_permissions;

/** Denied commands in the server's ACL LOG, which is bounded and may be reset. */
typedef struct {
    migrate_access access;
    int64_t count;  /**< during the watch; without one: all that are there */
    int64_t age_ms; /**< of the newest */
    char who[MIGRATE_LIST_SIZE];
    char why[MIGRATE_WHY_SIZE];
} migrate_denials;

/** The results of a watch. */
typedef struct {
    int64_t watch_ms;
    bool counted; /**< the server reported its command counts throughout */
    bool reset;   /**< not counted: because they went back meanwhile */
    /** SETNX and GETSET executed during the watch, by any client on any key */
    int64_t calls;
    int64_t
        refused; /**< the same that the server refused to execute; -1: not reported (before 6.2) */
    int64_t monitor_ms;   /**< how long MONITOR was read; 0: it wasn't */
    bool monitor_whole;   /**< MONITOR was read throughout, without a gap */
    bool monitoring;      /**< MONITOR is still being read: missing commands prove nothing yet */
    int64_t accounted;    /**< of the calls, those that MONITOR showed to be on other keys */
    char monitor_why[96]; /**< why MONITOR ended early, or was not read; "" */
    migrate_event_counts events;
    migrate_permissions permissions;
    migrate_denials denials;
    int stragglers, more_stragglers;
    migrate_straggler straggler[MIGRATE_STRAGGLERS];
    migrate_access listed; /**< the list of clients */
    int64_t connections;   /**< connections whose last command is not one of tidelock's */
    char suspects[MIGRATE_LIST_SIZE]; /**< some of them, as a hint */
} migrate_traffic;

/** Are SETNX and GETSET denied to every user of every server that was asked? */
bool migrate_denies_all(const migrate_permissions *permissions);

/* ---- the decision ----------------------------------------------------------------------------- */

/** Find what now blocks the step to phase `to`. locks, traffic: what was found; NULL: not checked,
 *  so it blocks nothing. */
void migrate_judge(const migrate_view *view, int to, const migrate_locks *locks,
                   const migrate_traffic *traffic, migrate_blockers *ret);

/** Will all of them resolve by themselves? */
bool migrate_passes(const migrate_blockers *blockers);

/** Find what blocks making a register with this phase. */
void migrate_judge_init(const migrate_view *view, int phase, const migrate_locks *locks,
                        migrate_blockers *ret);

/** Does the step to phase `to` need evidence that no legacy client is left? */
bool migrate_wants_watch(const migrate_view *view, int to);

/** May any client still act by what it read before this epoch? True if there is a client's record,
 *  or if the last change is less than a lease ago. Then the tool waits for a lease that it has
 *  observed itself. */
bool migrate_wants_wait(const migrate_view *view);

/** The longest lease that any client may have, ms. */
int64_t migrate_longest_lease_ms(const migrate_view *view);

/** Has a live client seen a later epoch than the register's, or an epoch where there is no
 *  register? */
bool migrate_is_set_back(const migrate_view *view);

/** Does a live client acquire locks by another pattern than the register's? No step checks names
 *  that fit only the client's pattern. */
bool migrate_takes_others(const migrate_view *view, const migrate_client *client);

/** May Java services run? "may run", "not yet: ...", "not known: ...", "must not run". Returns buf. */
#define MIGRATE_JAVA_SIZE 200
const char *migrate_java(char buf[MIGRATE_JAVA_SIZE], const migrate_view *view,
                         const migrate_locks *locks);

/** The number of live clients. */
int migrate_live_clients(const migrate_view *view);
