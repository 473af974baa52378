/*
 * The contents of the logs of "tidelock skew --log": the verdicts, and each host's interval, over
 * time. Memory is bounded; foreign lines are skipped.
 */
#pragma once

#include "base/js.h"
#include "skew/judge/skew_judge.h"

#define PAST_LINE_MOST ((size_t)4 << 20)
#define PAST_RUNS_MOST 200000
#define PAST_POINTS_MOST 2000000
#define PAST_HOSTS_MOST 20000

/** A host in one run: its offset in us; lo > hi: it was not known. */
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
    tl_interval worst; /**< gap of the worst pair, us; lo > hi: no pair */
    int64_t slack_us;
    char *reason; /**< if the verdict differs from the line before; else NULL */
} past_run;

typedef struct {
    past_run *run; /**< by time, after past_settle */
    size_t runs, run_room;
    past_host *host;
    size_t hosts, host_room, points;
    int64_t dropped;   /**< oldest runs that did not fit */
    int64_t skipped;   /**< foreign lines */
    char *newest;      /**< the line of the latest run */
    size_t newest_len; /**< its length */
    int64_t newest_ms; /**< its time */
    skew_result last;  /**< that line's contents, after past_settle */
    size_t hint;
} skew_past;

typedef enum { PAST_OK, PAST_NOT_OURS, PAST_NO_MEMORY } past_added;

/** Add one line, with or without its newline. For a foreign line, ret_why has the reason. */
past_added past_add(skew_past *past, const char *line, size_t len, const char **ret_why);

/** After all lines: sort them by time, and read the latest in full. False: there is no run, or no
 *  memory. */
bool past_settle(skew_past *past);

void past_end(skew_past *past);

static inline bool past_known(const past_point *point) {
    return point->offset.lo <= point->offset.hi;
}
