/*
 * The contents of a report, and its output formats. Each writes one format to a stream, and depends
 * on nothing else.
 */
#pragma once

#include <stdio.h>

#include "base/members.h"
#include "skew/judge/skew_past.h"
#include "skew/judge/skew_trend.h"

typedef struct {
    const skew_past *past;
    skew_trend *drift; /**< for each of past->host */
    int *last_of;      /**< for each of past->host: its index among the latest run's hosts, or -1 */
    trend_outlook outlook;
    int64_t stale_after_ms; /**< a page is valid for so long from the latest run on */
    int64_t made_ms;        /**< the wall clock when the report is made; 0: not known */
} skew_story;

/** Compute the story of a settled `past`. False: out of memory. */
bool story_begin(skew_story *story, const skew_past *past);
void story_end(skew_story *story);

void story_text(const skew_story *story, FILE *out);
void story_json(const skew_story *story, FILE *out);
extern const member members_of_story[], members_of_outlook[], members_of_past_host[],
    members_of_over_time[], members_of_turn[];
void story_html(const skew_story *story, FILE *out);

/* ---- shared by the formats ------------------------------------------------------------------ */

/** A stretch of time that is shown as one: the reach of a host's intervals in it, and the worst
 *  verdict. */
typedef struct {
    int64_t from_ms, to_ms; /**< times of its first and last run */
    size_t known, unknown;  /**< of a host: number of points */
    /** us; hull of the known ones: a host's offsets, or the worst gaps of all */
    tl_interval hull;
    int64_t slack_us; /**< of all hosts: the least slack */
    size_t runs[4];   /**< of all hosts: number of runs for each verdict */
    skew_verdict worst;
} story_bucket;

/** Divide the time from the first run to the last into equal buckets; at least one is not empty. */
void story_host_buckets(const skew_story *story, const past_host *host, story_bucket *bucket,
                        int buckets);
void story_run_buckets(const skew_story *story, story_bucket *bucket, int buckets);

/** The one of two verdicts that should be shown: unsafe, unknown, warning, safe. */
skew_verdict story_worse(skew_verdict a, skew_verdict b);

/** When the fleet will be unsafe, as a sentence without a full stop. */
#define STORY_MESSAGE 512
const char *story_outlook(const skew_story *story, char buf[STORY_MESSAGE]);
/** May earliest_ms be shown as a bound? Not if nothing is known about some clocks. */
bool story_earliest_known(const skew_story *story);

/** Indices of runs whose verdict differs from the run before, in order; the last `most` of them.
 *  Returns how many. */
size_t story_changes(const skew_story *story, size_t *change, size_t most);
