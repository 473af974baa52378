/*
 * What a report tells, and its faces. Each writes to a stream what it has to say, and knows nothing else.
 */
#pragma once

#include <stdio.h>

#include "skew/judge/skew_past.h"
#include "skew/judge/skew_trend.h"

typedef struct {
    const skew_past *past;
    skew_trend *drift; /**< of each of past->host */
    int *last_of;      /**< of each of past->host: its number among the latest run's hosts, or -1 */
    trend_outlook outlook;
    int64_t stale_after_ms; /**< a page of it counts for so long from the latest run on */
    int64_t made_ms;        /**< the wall clock when it is told; 0: not known */
} skew_story;

/** Work out what past, which is settled, has to tell. False: no memory. */
bool story_begin(skew_story *story, const skew_past *past);
void story_end(skew_story *story);

void story_text(const skew_story *story, FILE *out);
void story_json(const skew_story *story, FILE *out);
void story_html(const skew_story *story, FILE *out);

/* ---- what the faces share ---------------------------------------------------------------------- */

/** A stretch of time of which something is told as one: how far a host's intervals in it reach, and what
 *  was the worst verdict. */
typedef struct {
    int64_t from_ms, to_ms; /**< the first and the last that fell into it */
    size_t known, unknown;  /**< of a host: how many were what */
    tl_interval hull;       /**< of those known, us: a host's offsets, or of all the worst gaps */
    int64_t slack_us;       /**< of all: the least */
    size_t runs[4];         /**< of all: how many had which verdict */
    skew_verdict worst;
} story_bucket;

/** The time from the first run to the last in so many equal buckets; one at least has something. */
void story_host_buckets(const skew_story *story, const past_host *host, story_bucket *bucket,
                        int buckets);
void story_run_buckets(const skew_story *story, story_bucket *bucket, int buckets);

/** Of verdicts, the one that should be told: unsafe, unknown, warning, safe. */
skew_verdict story_worse(skew_verdict a, skew_verdict b);

/** When it will be unsafe, as a sentence without an end. */
#define STORY_MESSAGE 512
const char *story_outlook(const skew_story *story, char buf[STORY_MESSAGE]);
/** May earliest_ms be told as a bound? Not when there are clocks of which nothing is known. */
bool story_earliest_known(const skew_story *story);

/** Numbers of runs at which the verdict is another than before, in order; the last `most` of them. Returns
 *  how many. */
size_t story_changes(const skew_story *story, size_t *change, size_t most);
