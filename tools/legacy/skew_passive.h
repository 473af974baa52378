/*
 * Clocks of hosts with nothing installed on them, from the commands that their legacy clients
 * send: a stamp is a reading of a clock, made before the server executed the SETNX and after it executed
 * the client's command before that. Pure but for memory.
 *
 * With s the server's stamp of the SETNX, p that of the connection's command before, and the value v:
 *
 *     v - s  <=  clock + lifetime - server  <  v + unit - p
 *
 * Only the sum of offset and lifetime is seen. A lifetime other than the one that is told moves all hosts
 * alike: what such hosts differ by stands, what they are off the server doesn't.
 */
#pragma once

#include "legacy/skew_monitor.h"
#include "skew/judge/skew_judge.h"
#include "legacy/skew_stamp.h"

#define SKEW_LIFETIME_UNKNOWN 0
#define SKEW_CONNECTIONS_MAX 32768 /**< a power of two */
#define SKEW_RECENT 32

/** What is known, or assumed, of the clients. */
typedef struct {
    int64_t legacy_ttl_us; /**< of their locks; LIFETIME_UNKNOWN: to be estimated */
    int64_t pool_wait_us;  /**< from reading the clock to having a connection of a pool, at most */
    bool pooled;           /**< all of them have pools; else where it shows */
    int64_t unit_us;       /**< of their stamps; 0: 1 ms */
    int32_t rate_ppm;      /**< how fast their clocks and the server's may part */
} skew_model;

typedef struct {
    char name[SKEW_CLIENT_SIZE];
    tl_interval sum;            /**< wall clock + lifetime - server, us; without what a pool adds */
    int64_t lo_at_us, hi_at_us; /**< the server's clock when its edges were true */
    int64_t at_us, first_us;    /**< the server's clock at the last and the first stamp */
    int64_t stamps, strangers;
    bool pooled;
    bool torn; /**< the stamps contradict each other */
    int64_t recent[SKEW_RECENT];
    int next;
} skew_source;

typedef struct {
    char client[SKEW_CLIENT_SIZE];
    int spell; /**< before_us and in_multi are of this one */
    bool has_before, in_multi, pinged, has_last;
    int64_t before_us; /**< the server's clock at a command that the client has waited for */
    int64_t last;      /**< the last stamp sent here */
} skew_connection;

typedef struct {
    skew_model model;
    skew_source *source;
    skew_connection *connection;
    int sources, connections, sources_max, connections_max;
    int spell;       /**< of listening without a break */
    bool full;       /**< there were more hosts or connections than fit */
    bool stepped;    /**< the server's clock went back meanwhile */
    int64_t last_us; /**< the server's clock at the last command */
} skew_passive;

/** False: no memory. */
bool skew_passive_begin(skew_passive *passive, const skew_model *model);
/** The same with room for so many; connections is a power of two. */
bool skew_passive_begin_for(skew_passive *passive, const skew_model *model, int hosts,
                            int connections);
void skew_passive_end(skew_passive *passive);

/** Learn from a command. kind, written: what its value is, if it set a key that may be a lock's. */
void skew_passive_learn(skew_passive *passive, const skew_heard *heard, skew_stamp_kind kind,
                        tl_interval written);

/** Commands may have been missed: no command is known to be the one before the next. */
void skew_passive_missed(skew_passive *passive);

/** Does the command set a key in the way that legacy locks are acquired? */
bool skew_is_take(const skew_heard *heard);

/** Add a host for each source that has sent stamps, as of now_us of the server, whose clock was last seen
 *  to have stepped at stepped_us (0: never); to `hosts`, of which there are `count`. Returns how many
 *  there are then; *ret_more: not all have found room. */
int skew_passive_hosts(const skew_passive *passive, int64_t now_us, int64_t stepped_us,
                       skew_host *hosts, int count, bool *ret_more);

/** With all hosts there: is the lifetime one that can be believed? If not, or if it is only estimated,
 *  offsets of passive hosts become relative. */
void skew_passive_judge(const skew_model *model, skew_host *hosts, int count);
