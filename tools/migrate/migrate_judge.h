/*
 * May a namespace go from one phase to another? What was read of it, and the decision. Pure.
 */
#pragma once

#include "base/tool.h"
#include "legacy/migrate_record.h"

/** A namespace as it was read at one moment. */
typedef struct {
    const char *name;
    migrate_register reg;
    migrate_client *client; /**< the reader's, those that are gone included */
    int clients;
    int64_t now_us; /**< the server's clock */
} migrate_view;

/* ---- locks ------------------------------------------------------------------------------------ */

#define MIGRATE_EXAMPLES 5
#define NEVER_ENDS INT64_MAX

/** Keys of one kind: how many, and some of them. */
typedef struct {
    int64_t count; /**< a key that came or went meanwhile may count twice */
    int64_t over;  /**< of these, stamps whose end has passed */
    struct {
        char key[KEY_SHOWN];
        char who[160];   /**< "" unknown */
        int64_t left_ms; /**< until its end; negative: it has passed; NEVER_ENDS */
    } example[MIGRATE_EXAMPLES];
} migrate_bunch;

/** The locks of a namespace, each in one of these. */
typedef struct {
    bool whole;              /**< all keys were looked at */
    migrate_bunch own;       /**< stamps beside which a sidecar stands */
    migrate_bunch strays;    /**< stamps without, and what is like one: of legacy clients */
    migrate_bunch strangers; /**< stamps held by tidelock clients that are not registered */
    migrate_bunch tokens;
} migrate_locks;

/** All that tidelock clients hold or have left as stamps; and all there are. */
int64_t migrate_locks_ours(const migrate_locks *locks);
int64_t migrate_locks_all(const migrate_locks *locks);

/** Is its holder one of the registered clients? */
bool migrate_knows(const migrate_view *view, const tl_lock_info *info);

/** Count a lock that was found. */
void migrate_locks_learn(migrate_locks *locks, const migrate_view *view, const char *key,
                         size_t key_len, const tl_lock_info *info);

/** "jobs:a (ends in 12.3 s), jobs:b (ended 4 min ago) and 3 more". Returns buf. */
#define MIGRATE_LIST_SIZE 400
const char *migrate_bunch_list(char buf[MIGRATE_LIST_SIZE], const migrate_bunch *bunch);

/* ---- traffic ---------------------------------------------------------------------------------- */

#define MIGRATE_STRAGGLERS 8

/** One who was seen to use a command of the legacy clients on a key of the namespace. */
typedef struct {
    char address[64], name[64], command[16], key[KEY_SHOWN];
} migrate_straggler;

/** What a watch has seen. */
typedef struct {
    int64_t watch_ms;
    bool counted;         /**< the server has told its counts of commands all the time */
    int64_t calls;        /**< SETNX and GETSET executed during the watch, by anybody on any key */
    int64_t monitor_ms;   /**< how long MONITOR was read; 0: not at all */
    bool monitor_whole;   /**< for all of the watch, without a gap */
    bool monitoring;      /**< it is being read: what is unseen yet says nothing */
    int64_t accounted;    /**< of the calls, those that MONITOR has shown to be on other keys */
    char monitor_why[96]; /**< why MONITOR ended early, or was not read; "" */
    int stragglers, more_stragglers;
    migrate_straggler straggler[MIGRATE_STRAGGLERS];
    int64_t connections; /**< connections that last said what no tidelock client says */
    char suspects[MIGRATE_LIST_SIZE]; /**< some of them: a hint, no more */
} migrate_traffic;

/* ---- the decision ----------------------------------------------------------------------------- */

#define MIGRATE_BLOCKERS 16

typedef struct {
    char what[240], who[MIGRATE_LIST_SIZE], todo[240];
    bool passes; /**< it goes away by itself, sooner or later */
} migrate_blocker;

typedef struct {
    int count, more;
    migrate_blocker item[MIGRATE_BLOCKERS];
} migrate_blockers;

/** What keeps the namespace from going to phase `to`, now. locks, traffic: what was seen of them; NULL:
 *  it has not been looked at, and blocks nothing. */
void migrate_judge(const migrate_view *view, int to, const migrate_locks *locks,
                   const migrate_traffic *traffic, migrate_blockers *ret);

/** Are they all such that go away by themselves? */
bool migrate_passes(const migrate_blockers *blockers);

/** What keeps a register from being made with this phase. */
void migrate_judge_init(const migrate_view *view, int phase, const migrate_locks *locks,
                        migrate_blockers *ret);

/** Does going from one phase to another ask for evidence that no legacy client is left? */
bool migrate_wants_watch(int from, int to);

/** Is there anybody who may act on what it read before this epoch: a client's record, or a change
 *  within a lease? Then the tool waits for a lease that it has seen itself. */
bool migrate_wants_wait(const migrate_view *view);

/** The longest lease that anybody may have, ms. */
int64_t migrate_longest_lease_ms(const migrate_view *view);

/** Has a client that isn't gone seen a later epoch than the register's, or one where there is none? */
bool migrate_is_set_back(const migrate_view *view);

/** Does a client that isn't gone acquire locks by another pattern than the register's? What fits only the
 *  client's is looked at by nobody. */
bool migrate_takes_others(const migrate_view *view, const migrate_client *client);

/** May Java services run? "may run", "not yet: ...", "not known: ...", "must not run". Returns buf. */
#define MIGRATE_JAVA_SIZE 200
const char *migrate_java(char buf[MIGRATE_JAVA_SIZE], const migrate_view *view,
                         const migrate_locks *locks);

/** Clients that are not gone. */
int migrate_live_clients(const migrate_view *view);
