/*
 * Measures the clocks of hosts on which nothing is installed, from the commands of their legacy clients.
 * A stamp is a reading of the client's clock. It was made before the server executed the SETNX, and after
 * the server executed the client's command before that. Pure except for memory.
 *
 * s is the server's time of the SETNX, p its time of the connection's command before, v the value:
 *
 *    v - s  <=  clock + lifetime - server  <  v + unit - p
 *
 * Only the sum of offset and lifetime can be measured. If the real lifetime differs from the given one,
 * all hosts' offsets are shifted alike: their differences stay right, their distances from the server don't.
 */
#pragma once

#include "legacy/skew_monitor.h"
#include "skew/judge/skew_judge.h"
#include "legacy/skew_stamp.h"

#define SKEW_LIFETIME_UNKNOWN 0
#define SKEW_CONNECTIONS_MAX 32768 /**< a power of two */
#define SKEW_RECENT 32

/** Facts and assumptions about the clients. */
typedef struct {
    int64_t legacy_ttl_us; /**< their locks' lifetime; SKEW_LIFETIME_UNKNOWN: to be estimated */
    /** longest time from reading the clock to getting a pooled connection */
    int64_t pool_wait_us;
    bool pooled;      /**< all clients have pools; else only where the stamps show it */
    int64_t unit_us;  /**< unit of their stamps; 0: 1 ms */
    int32_t rate_ppm; /**< how fast their clocks and the server's may drift apart */
} skew_model;

typedef struct {
    char name[SKEW_CLIENT_SIZE];
    tl_interval sum;            /**< wall clock + lifetime - server, us; without a pool's wait */
    int64_t lo_at_us, hi_at_us; /**< the server's clock when each edge was measured */
    int64_t at_us, first_us;    /**< the server's clock at the last and the first stamp */
    int64_t stamps, strangers;
    bool pooled;
    bool torn; /**< the stamps contradict each other */
    int64_t recent[SKEW_RECENT];
    int next;
} skew_source;

typedef struct {
    char client[SKEW_CLIENT_SIZE];
    int spell; /**< before_us and in_multi belong to this one */
    bool has_before, in_multi, pinged, has_last;
    int64_t before_us; /**< the server's clock at a command whose reply the client awaited */
    int64_t last;      /**< the last stamp sent on this connection */
} skew_connection;

typedef struct {
    skew_model model;
    skew_source *source;
    skew_connection *connection;
    int sources, connections, sources_max, connections_max;
    int spell;       /**< number of the present uninterrupted period of listening */
    bool full;       /**< more hosts or connections than fit */
    bool stepped;    /**< the server's clock was set back meanwhile */
    int64_t last_us; /**< the server's clock at the last command */
} skew_passive;

/** False: out of memory. */
bool skew_passive_begin(skew_passive *passive, const skew_model *model);
/** The same with room for so many; `connections` must be a power of two. */
bool skew_passive_begin_for(skew_passive *passive, const skew_model *model, int hosts,
                            int connections);
void skew_passive_end(skew_passive *passive);

/** Process a command. kind, written: its value, if it set a key that may be a lock's. */
void skew_passive_learn(skew_passive *passive, const skew_heard *heard, skew_stamp_kind kind,
                        tl_interval written);

/** Call when commands may have been missed: then no command is known to be the one before the
 *  next. */
void skew_passive_missed(skew_passive *passive);

/** Does the command set a key as legacy locks are acquired? */
bool skew_is_take(const skew_heard *heard);

/** Add to `hosts`, which has `count` entries, a host for each source of stamps, as of now_us of the
 *  server. stepped_us: when the server's clock was last noticed to have stepped (0: never). Returns
 *  the new count; *ret_more: not all fitted. */
int skew_passive_hosts(const skew_passive *passive, int64_t now_us, int64_t stepped_us,
                       skew_host *hosts, int count, bool *ret_more);

/** Call after all hosts were added: is the lifetime credible? If not, or if it is only estimated,
 *  the offsets of passive hosts become relative. */
void skew_passive_judge(const skew_model *model, skew_host *hosts, int count);

/** The lifetime that the hosts' sums suggest: `hosts` as skew_passive_hosts adds them for an unknown lifetime.
 *  0: none was measured. */
int64_t skew_passive_lifetime_us(const skew_host *hosts, int count);
