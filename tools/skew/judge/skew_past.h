/*
 * What the logs of "tidelock skew --log" tell: the verdicts, and each host's interval, over time. What is
 * kept is bounded; a line that is none of ours is skipped.
 */
#pragma once

#include "base/js.h"
#include "skew/judge/skew_judge.h"

#define PAST_LINE_MOST ((size_t)4 << 20)
#define PAST_RUNS_MOST 200000
#define PAST_POINTS_MOST 2000000
#define PAST_HOSTS_MOST 4000

/** One run's word on a host: its offset in us, or, with lo > hi, that it was not known. */
typedef struct {
    int64_t at_ms;
    tl_interval offset;
} past_point;

typedef struct {
    char name[SKEW_NAME_SIZE];
    const char *instrument;
    skew_kind kind;
    past_point *point; /**< by time, after past_settle */
    size_t count, room;
} past_host;

typedef struct {
    int64_t at_ms;
    skew_verdict verdict;
    tl_interval worst; /**< the gap of the worst pair, us; lo > hi: there was none */
    int64_t slack_us;
    char *reason; /**< of a verdict that the line before it did not have; else NULL */
} past_run;

typedef struct {
    past_run *run; /**< by time, after past_settle */
    size_t runs, run_room;
    past_host *host;
    size_t hosts, host_room, points;
    int64_t dropped;   /**< runs, the oldest, that did not fit */
    int64_t skipped;   /**< lines that were none of ours */
    char *newest;      /**< the line of the latest run */
    size_t newest_len; /**< its length */
    int64_t newest_ms; /**< its time */
    skew_result last;  /**< what it says, after past_settle */
    size_t hint;
} skew_past;

typedef enum { PAST_OK, PAST_NOT_OURS, PAST_NO_MEMORY } past_added;

/** Learn from one line, which may or may not have its newline. For what is not ours, ret_why is told. */
past_added past_add(skew_past *past, const char *line, size_t len, const char **ret_why);

/** When all lines are there: put them in order of time and read the latest in full. False: there is no
 *  run at all, or no memory. */
bool past_settle(skew_past *past);

void past_end(skew_past *past);

static inline bool past_known(const past_point *point) {
    return point->offset.lo <= point->offset.hi;
}
