/*
 * The verdict: with these clocks, can a legacy lock be stolen from a holder that still works? Pure
 * except for memory.
 */
#pragma once

#include <stddef.h>

#include "wire/interval.h"

#define SKEW_HOSTS_MAX 5000
#define SKEW_NAME_SIZE 65
#define SKEW_DETAIL_SIZE 160
#define SKEW_REASON_SIZE 640
#define SKEW_PLACE_SIZE 280
/** So many of the worst pairs are kept, and so many UNSAFE ones: all pairs of a hundred hosts. */
#define SKEW_PAIRS_MOST 10000

/** The bound on the drift between two uncorrected clocks. */
#define SKEW_DRIFT_PPM 200

/** In the order of the exit statuses. */
typedef enum { SKEW_SAFE, SKEW_WARN, SKEW_UNSAFE, SKEW_UNKNOWN } skew_verdict;

/** "SAFE" and so on. */
const char *skew_verdict_name(skew_verdict v);

/** The kind of evidence in a row. */
typedef enum {
    SKEW_CLOCK,  /**< the clock of a host that acquires locks */
    SKEW_SERVED, /**< the time that a host's daemon serves; the host's clock may differ */
    SKEW_REDIS,  /**< the clock of a lock server */
    SKEW_ASIDE,  /**< a daemon's report on a clock that has its own row: in no pair */
    SKEW_REMARK  /**< the same; no evidence is lacking if it is unknown */
} skew_kind;

/** The kind's name in logs, such as "clock". */
const char *skew_kind_name(skew_kind kind);

/** Does a row of this kind belong in pairs, known or not? */
static inline bool skew_is_clock(skew_kind kind) {
    return kind != SKEW_ASIDE && kind != SKEW_REMARK;
}

/** The hypervisor's warning of a host's clocks, the worst last: judge/skew_alarm.h. */
typedef enum {
    SKEW_NO_ALARM,
    SKEW_FREERUNNING, /**< its own clock is not synchronized */
    SKEW_UNRELIABLE,  /**< its own clock may be wrong */
    SKEW_SOON,        /**< a disruption within about a day */
    SKEW_IMMINENT     /**< within about an hour */
} skew_alarm;

typedef struct {
    char name[SKEW_NAME_SIZE];
    const char *instrument; /**< "server", "agent", ... */
    skew_kind kind;
    bool covered;  /**< SERVED: the host's own clock also has a row, and the two agree */
    bool known;    /**< else offset means nothing */
    bool self;     /**< the host that measures */
    bool missing;  /**< it is expected but silent: the evidence may be outdated */
    bool unsteady; /**< its clock runs wrong, or is set repeatedly: the evidence may be outdated */
    bool relative; /**< not known, except for an error that all such hosts share */
    skew_alarm alarm;
    tl_interval offset; /**< wall clock - server, us, at the moment of judging */
    /** 1 + the index of the host that measured it; 0: measured against the server */
    int against;
    tl_interval apart; /**< against > 0: its clock - that host's, us, at the moment of judging */
    bool has_drift;
    tl_interval drift_ppb;
    int32_t slew_ppm; /**< extra rate of a daemon that corrects the clock; 0: none */
    int64_t age_ms;   /**< of the newest evidence; -1: none */
    int64_t samples;
    const char *status; /**< "ok", or one word with the reason */
    /** what to do if evidence is missing, with "%1$s" for the name; NULL: run agents */
    const char *advice;
    char detail[SKEW_DETAIL_SIZE];
} skew_host;

typedef struct {
    int64_t lock_timeout_us; /**< T */
    int64_t
        longest_hold_us; /**< longest time that a holder works; 0: not known, as in a log line */
    int64_t slack_us;    /**< T - that; may be negative */
    bool longest_hold_assumed; /**< no option says how long holders work */
    bool hosts_assumed;        /**< no option says which hosts, or how many, there are */
    int min_hosts;             /**< hosts that must be measured; 0: not given */
    int32_t warn_percent;      /**< of the slack */
    int32_t drift_ppm;         /**< bound on the drift between two uncorrected clocks */
    int64_t early_us;          /**< by how much a stamp may expire too early; 0: 1 ms */
    int64_t late_us;           /**< by how much it may expire too late, if that is more */
} skew_rule;

/** The first three members of a rule, in us. */
#define SKEW_HOLD(lock_timeout, longest_hold)                                                      \
    .lock_timeout_us = (lock_timeout), .longest_hold_us = (longest_hold),                          \
    .slack_us = (lock_timeout) - (longest_hold)

typedef struct {
    int holder, taker; /**< indices of hosts */
    tl_interval gap;   /**< by how much the taker's clock is ahead, us, widened for T */
    /** SAFE; WARN: in doubt, or it uses more of the slack than the warning allows; UNSAFE */
    skew_verdict verdict;
} skew_pair;

/** A smallest set of hosts that causes the verdict: without them no two clocks are too far apart. */
#define SKEW_CAUSE_MOST 3
#define SKEW_CAUSES_MOST 8
typedef struct {
    int host[SKEW_CAUSE_MOST], hosts; /**< indices, ascending; their number */
    skew_verdict verdict;             /**< on the other hosts */
    bool alarmed;                     /**< only an alarm keeps that from SAFE */
    bool any_pair;                    /**< are the others more than one? */
    tl_interval worst;                /**< their worst gap, us, if there is one */
} skew_cause;

/** Where gaps of all pairs come from: judge/skew_gaps.h. */
typedef struct skew_gaps skew_gaps;

typedef struct {
    skew_rule rule;
    skew_host *hosts; /**< the caller's */
    int host_count;
    bool more;              /**< there are more hosts than fit */
    int64_t at_ms;          /**< the server's clock then; 0: not known */
    int64_t stale_after_ms; /**< it is valid for so long from then; 0: not known */
    int64_t watch_ms;       /**< a watch replaces it after so long; 0: not a watch */
    /** The server, as "host:port" or the like, without secrets; "": not known. */
    char server[SKEW_PLACE_SIZE];
    /** Evidence that the caller did not find, and what to do about it; NULL: none. */
    const char *unheard, *unheard_advice;
    const char *cost;  /**< a text; NULL: not worth reporting */
    size_t pairs_most; /**< the caller's; 0: SKEW_PAIRS_MOST */
    /** Ordered pairs of known hosts, worst first: all of them, or the worst and the worst UNSAFE ones
     *  of more than pairs_most. The one with the surest theft is always here. */
    skew_pair *pairs;
    size_t pair_count;  /**< pairs that are here */
    size_t pairs_total; /**< pairs that exist */
    skew_gaps *gaps;    /**< of all pairs; NULL: only `pairs` are known */
    skew_verdict verdict;
    bool alarmed; /**< only an alarm keeps the verdict from SAFE */
    char reason[SKEW_REASON_SIZE];
    char advice[3][SKEW_REASON_SIZE];
    int advices;
    int advice_where; /**< the advice that says whose clock to look at; -1: none */
    /** By skew_cause_find: the smallest sets of hosts, each of which may be the cause. Several: it is
     *  not known which one. */
    skew_cause cause[SKEW_CAUSES_MOST];
    int causes;
    char cause_text[SKEW_REASON_SIZE]; /**< the same in words; "": none */
} skew_result;

/** Judge a gap against the slack. */
skew_verdict skew_judge_gap(tl_interval gap, int64_t slack_us);

/** The verdict on a pair with this gap. */
skew_verdict skew_pair_verdict(const skew_result *result, const skew_pair *pair);

/** Does the pair use more of the slack than the warning allows? */
bool skew_is_close(const skew_result *result, const skew_pair *pair);

/** Does a gap keep its pair from being safe, or use more of the slack than the warning allows? */
bool skew_is_beyond(const skew_result *result, int64_t gap_us);

/** The mark of a pair, in every output: ' ' safe, '~' near the slack, '?' in doubt, '!' theft. */
char skew_mark(const skew_result *result, const skew_pair *pair);

/** A clock's possible rate beyond the usual drift. */
int64_t skew_extra_ppm(const skew_rule *rule, const skew_host *host);
/** By how much to widen a gap; extra_ppm: of both hosts. */
int64_t skew_widening_by(const skew_rule *rule, int64_t extra_ppm);
tl_interval skew_widened_by(const skew_rule *rule, int64_t extra_ppm, tl_interval gap);

/** By how much to widen the gap of two hosts: drift and slew over the lifetime, and the rounding of
 *  stamps. */
int64_t skew_widening_us(const skew_rule *rule, const skew_host *a, const skew_host *b);
/** The gap, widened by that; the low edge by more where stamps last longer than they say. */
tl_interval skew_widened(const skew_rule *rule, const skew_host *a, const skew_host *b,
                         tl_interval gap);

/** Does the host lack evidence? There is none, or it is old, or its clock runs wrong, or only the
 *  time that its daemon serves is known. */
static inline bool skew_is_lacking(const skew_host *host) {
    return (!host->known && host->kind != SKEW_REMARK) || host->missing || host->unsteady ||
           (host->known && host->kind == SKEW_SERVED && !host->covered);
}

/** Fill pairs, verdict, reason and advice from rule, hosts and more. Hosts with contradictory
 *  evidence become unknown. False: out of memory. */
bool skew_judge(skew_result *result);
void skew_result_end(skew_result *result);
