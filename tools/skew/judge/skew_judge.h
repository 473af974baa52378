/*
 * The verdict: with these clocks, can a legacy lock be taken from a holder that still works?
 * Pure but for memory.
 */
#pragma once

#include <stddef.h>

#include "wire/interval.h"

#define SKEW_HOSTS_MAX 1000
#define SKEW_NAME_SIZE 65
#define SKEW_DETAIL_SIZE 160
#define SKEW_REASON_SIZE 640
#define SKEW_PLACE_SIZE 280

/** The bound on the drift between two clocks that nobody corrects. */
#define SKEW_DRIFT_PPM 200

/** In the order of the exit statuses. */
typedef enum { SKEW_SAFE, SKEW_WARN, SKEW_UNSAFE, SKEW_UNKNOWN } skew_verdict;

/** "SAFE" and so on. */
const char *skew_verdict_name(skew_verdict v);

/** What a row is evidence of. */
typedef enum {
    SKEW_CLOCK,  /**< the clock of a host that acquires locks */
    SKEW_SERVED, /**< the time that a host's daemon serves, which its clock may differ from */
    SKEW_REDIS,  /**< the clock of a server of locks */
    SKEW_ASIDE,  /**< what a daemon says of a clock that has a row already: in no pair */
    SKEW_REMARK  /**< the same, and when it is unknown nothing is missing */
} skew_kind;

/** "clock" and so on, for logs. */
const char *skew_kind_name(skew_kind kind);

/** Has a place in pairs, known or not. */
static inline bool skew_is_clock(skew_kind kind) {
    return kind != SKEW_ASIDE && kind != SKEW_REMARK;
}

typedef struct {
    char name[SKEW_NAME_SIZE];
    const char *instrument; /**< "server", "agent", ... */
    skew_kind kind;
    bool covered; /**< SERVED: the host's own clock has a row too, and the two agree */
    bool known;   /**< else offset means nothing */
    bool self;    /**< the host that measures */
    bool missing; /**< it was to be heard of, and isn't: what is known of it may be true no more */
    bool
        unsteady; /**< its clock runs wrong, or is set again and again: what is known of it may be true no more */
    bool relative;      /**< not known, but right up to what all such hosts are off by in common */
    tl_interval offset; /**< wall clock - server, us, at the moment of judging */
    int against;        /**< 1 + the number of the host that measured it; 0: the server was asked */
    tl_interval apart;  /**< against > 0: its clock - that host's, us, at the moment of judging */
    bool has_drift;
    tl_interval drift_ppb;
    int32_t slew_ppm; /**< what a daemon that corrects the clock may add; 0: none is at work */
    int64_t age_ms;   /**< of the newest evidence; -1: there is none */
    int64_t samples;
    const char *status; /**< "ok" or one word that says why not */
    const char *
        advice; /**< what to do when it lacks evidence, with "%1$s" for its name; NULL: run agents */
    char detail[SKEW_DETAIL_SIZE];
} skew_host;

typedef struct {
    int64_t lock_timeout_us; /**< T */
    int64_t
        longest_hold_us; /**< the longest time that a holder works; 0: not known, as of a log's line */
    int64_t slack_us;    /**< T less that; may be negative */
    bool longest_hold_assumed; /**< nobody has said how long holders work */
    int min_hosts;             /**< so many are to be measured; 0: nothing is said */
    int32_t warn_percent;      /**< of the slack */
    int32_t drift_ppm;         /**< bound on the drift between two clocks that nobody corrects */
    int64_t early_us;          /**< by so much a stamp may be over too early; 0: 1 ms */
    int64_t late_us;           /**< or too late, if that is more */
} skew_rule;

/** The first three of a rule, in us. */
#define SKEW_HOLD(lock_timeout, longest_hold)                                                      \
    .lock_timeout_us = (lock_timeout), .longest_hold_us = (longest_hold),                          \
    .slack_us = (lock_timeout) - (longest_hold)

typedef struct {
    int holder, taker; /**< numbers of hosts */
    tl_interval gap;   /**< by how much the taker's clock is ahead, us, widened for T */
    skew_verdict
        verdict; /**< SAFE; WARN: in doubt, or more of the slack is used than the warning allows; UNSAFE */
} skew_pair;

typedef struct {
    skew_rule rule;
    skew_host *hosts; /**< the caller's */
    int host_count;
    bool more;              /**< there are more hosts than fit */
    int64_t at_ms;          /**< when, on the server's clock; 0: not known */
    int64_t stale_after_ms; /**< it counts for so long from then on; 0: not known */
    int64_t watch_ms;       /**< a watch replaces it after so long; 0: it is of no watch */
    /** The server that was asked, "host:port" or the like, without secrets; "": not known. */
    char server[SKEW_PLACE_SIZE];
    /** Evidence that the caller looked for and didn't find, and what to do about it; NULL: none. */
    const char *unheard, *unheard_advice;
    const char *cost; /**< in words; NULL: none worth telling */
    skew_pair *pairs; /**< every ordered pair of known hosts, worst first */
    size_t pair_count;
    skew_verdict verdict;
    char reason[SKEW_REASON_SIZE];
    char advice[3][SKEW_REASON_SIZE];
    int advices;
} skew_result;

/** An edge of a gap against the slack. */
skew_verdict skew_judge_gap(tl_interval gap, int64_t slack_us);

/** The mark of a pair, in every output: ' ' safe, '~' near the slack, '?' in doubt, '!' theft. */
char skew_mark(const skew_result *result, const skew_pair *pair);

/** How much to widen the gap of two hosts: drift and slew over the lifetime, and the format's ms. */
int64_t skew_widening_us(const skew_rule *rule, const skew_host *a, const skew_host *b);
/** The gap, widened by that; its low edge by more where stamps last longer than they say. */
tl_interval skew_widened(const skew_rule *rule, const skew_host *a, const skew_host *b,
                         tl_interval gap);

/** Does the host lack evidence: none at all, only old, of a clock that runs wrong, or only the time that its daemon serves? */
static inline bool skew_is_lacking(const skew_host *host) {
    return (!host->known && host->kind != SKEW_REMARK) || host->missing || host->unsteady ||
           (host->known && host->kind == SKEW_SERVED && !host->covered);
}

/** Fill pairs, verdict, reason and advice from rule, hosts and more. Hosts whose evidence
 *  contradicts itself become unknown. False: no memory. */
bool skew_judge(skew_result *result);
void skew_result_end(skew_result *result);
