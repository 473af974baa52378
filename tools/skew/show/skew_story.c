/*
 * The contents of a report, computed once for all formats. Pure except for memory.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define PAUSES 101   /* latest pauses between runs; their median is the usual pause */
#define STALE_RUNS 3 /* runs that may be missing */
#define STALE_LEAST_MS INT64_C(900000)

static int find_last(const skew_result *last, const past_host *host) {
    for (int i = 0; i < last->host_count; i++)
        if (last->hosts[i].instrument == host->instrument &&
            strcmp(last->hosts[i].name, host->name) == 0)
            return i;
    return -1;
}

/* The drift from the log; if the log has only one point, from that run's own measurement. */
static skew_trend drift_of(const past_host *host, const skew_host *last) {
    skew_trend trend = trend_of(host->point, host->count);

    if (!trend.known && last && last->known && last->has_drift) {
        trend.known = true;
        trend.ppb = last->drift_ppb;
    }
    return trend;
}

static bool look_ahead(skew_story *story) {
    const skew_result *last = &story->past->last;
    skew_trend *of_last = calloc((size_t)last->host_count + 1, sizeof *of_last);

    if (!of_last)
        return false;
    for (size_t i = 0; i < story->past->hosts; i++)
        if (story->last_of[i] >= 0)
            of_last[story->last_of[i]] = story->drift[i];
    story->outlook = trend_look_ahead(last, of_last);
    free(of_last);
    return true;
}

static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Until some runs are overdue, judging by the pauses so far. */
static int64_t stale_after(const skew_past *past) {
    int64_t pause[PAUSES];
    size_t n = 0;

    for (size_t i = past->runs; i > 1 && n < PAUSES; i--)
        pause[n++] = past->run[i - 1].at_ms - past->run[i - 2].at_ms;
    if (n == 0)
        return STALE_LEAST_MS;
    qsort(pause, n, sizeof *pause, by_length);
    int64_t pauses = tl__mul_sat(pause[n / 2], STALE_RUNS);
    return pauses > STALE_LEAST_MS ? pauses : STALE_LEAST_MS;
}

bool story_begin(skew_story *story, const skew_past *past) {
    *story = (skew_story){.past = past, .stale_after_ms = stale_after(past)};
    story->drift = calloc(past->hosts + 1, sizeof *story->drift);
    story->last_of = calloc(past->hosts + 1, sizeof *story->last_of);
    if (!story->drift || !story->last_of)
        return false;
    for (size_t i = 0; i < past->hosts; i++) {
        int last = find_last(&past->last, &past->host[i]);
        story->last_of[i] = last;
        story->drift[i] = drift_of(&past->host[i], last < 0 ? NULL : &past->last.hosts[last]);
    }
    return look_ahead(story);
}

void story_end(skew_story *story) {
    free(story->drift);
    free(story->last_of);
    *story = (skew_story){.past = NULL};
}

/* ---- buckets -------------------------------------------------------------------------------------- */

static story_bucket *bucket_at(const skew_story *story, story_bucket *bucket, int buckets,
                               int64_t at_ms) {
    const skew_past *past = story->past;
    int64_t from = past->run[0].at_ms, span = past->run[past->runs - 1].at_ms - from + 1;
    int64_t i = at_ms < from ? 0 : tl__mul_sat(at_ms - from, buckets) / span;
    story_bucket *found = &bucket[i < buckets ? i : buckets - 1];

    if (found->from_ms == 0)
        found->from_ms = at_ms;
    found->to_ms = at_ms;
    return found;
}

static void widen(story_bucket *bucket, tl_interval by) {
    if (bucket->known == 0 || by.lo < bucket->hull.lo)
        bucket->hull.lo = by.lo;
    if (bucket->known == 0 || by.hi > bucket->hull.hi)
        bucket->hull.hi = by.hi;
    bucket->known++;
}

void story_host_buckets(const skew_story *story, const past_host *host, story_bucket *bucket,
                        int buckets) {
    memset(bucket, 0, (size_t)buckets * sizeof *bucket);
    for (size_t i = 0; i < host->count; i++) {
        const past_point *point = &host->point[i];
        story_bucket *into = bucket_at(story, bucket, buckets, point->at_ms);
        if (!past_known(point)) {
            into->unknown++;
            continue;
        }
        widen(into, point->offset);
    }
}

skew_verdict story_worse(skew_verdict a, skew_verdict b) {
    static const int rank[] = {
        [SKEW_SAFE] = 0, [SKEW_WARN] = 1, [SKEW_UNKNOWN] = 2, [SKEW_UNSAFE] = 3};
    return rank[a] > rank[b] ? a : b;
}

void story_run_buckets(const skew_story *story, story_bucket *bucket, int buckets) {
    memset(bucket, 0, (size_t)buckets * sizeof *bucket);
    for (size_t i = 0; i < story->past->runs; i++) {
        const past_run *run = &story->past->run[i];
        story_bucket *into = bucket_at(story, bucket, buckets, run->at_ms);
        bool is_first = into->runs[0] + into->runs[1] + into->runs[2] + into->runs[3] == 0;
        if (is_first || run->slack_us < into->slack_us)
            into->slack_us = run->slack_us;
        if (!tl__interval_empty(run->worst))
            widen(into, run->worst);
        into->runs[run->verdict]++;
        into->worst = story_worse(into->worst, run->verdict);
    }
}

size_t story_changes(const skew_story *story, size_t *change, size_t most) {
    const skew_past *past = story->past;
    size_t n = 0;

    for (size_t i = past->runs; i > 0 && n < most; i--)
        if (i == 1 || past->run[i - 1].verdict != past->run[i - 2].verdict)
            change[n++] = i - 1;
    for (size_t i = 0; i < n / 2; i++) {
        size_t x = change[i];
        change[i] = change[n - 1 - i];
        change[n - 1 - i] = x;
    }
    return n;
}

/* ---- the outlook ---------------------------------------------------------------------------------- */

bool story_earliest_known(const skew_story *story) {
    const trend_outlook *outlook = &story->outlook;
    return outlook->earliest_ms >= 0 && (outlook->earliest_ms == 0 || outlook->unknown == 0);
}

static void drifting(const skew_story *story, char buf[STORY_MESSAGE]) {
    const trend_outlook *outlook = &story->outlook;
    char first[SKEW_SPAN_SIZE], last[SKEW_SPAN_SIZE], until[SKEW_SPAN_SIZE + 32] = "perhaps never";

    if (outlook->latest_ms >= 0)
        (void)snprintf(until, sizeof until, "in %s at the latest",
                       skew_span(last, outlook->latest_ms));
    (void)snprintf(buf, STORY_MESSAGE,
                   "in %s at the earliest, %s, if the clocks go on drifting as they did (first "
                   "when %s holds and %s takes)",
                   skew_span(first, outlook->earliest_ms), until,
                   story->past->last.hosts[outlook->holder].name,
                   story->past->last.hosts[outlook->taker].name);
}

/* A clock whose drift is unknown may bring the moment nearer, so there is no earliest one. */
static void drifting_among_unknown(const skew_story *story, char buf[STORY_MESSAGE]) {
    char last[SKEW_SPAN_SIZE];

    if (story->outlook.latest_ms < 0)
        (void)snprintf(buf, STORY_MESSAGE, "not foreseen");
    else
        (void)snprintf(buf, STORY_MESSAGE,
                       "in %s at the latest, if the clocks go on drifting as they did",
                       skew_span(last, story->outlook.latest_ms));
}

static void in_doubt(const skew_story *story, char buf[STORY_MESSAGE]) {
    char last[SKEW_SPAN_SIZE];

    if (story->outlook.latest_ms < 0)
        (void)snprintf(buf, STORY_MESSAGE,
                       "a theft can't be ruled out now; when one will be possible is not foreseen");
    else
        (void)snprintf(
            buf, STORY_MESSAGE,
            "a theft can't be ruled out now, and is possible in %s at the latest, if the clocks go on "
            "drifting as they did",
            skew_span(last, story->outlook.latest_ms));
}

const char *story_outlook(const skew_story *story, char buf[STORY_MESSAGE]) {
    const trend_outlook *outlook = &story->outlook;
    size_t n;

    switch (outlook->state) {
    case TREND_UNSAFE: (void)snprintf(buf, STORY_MESSAGE, "it is unsafe now"); break;
    case TREND_DOUBT: in_doubt(story, buf); break;
    case TREND_DRIFTING:
        if (story_earliest_known(story))
            drifting(story, buf);
        else
            drifting_among_unknown(story, buf);
        break;
    case TREND_STEADY:
        (void)snprintf(buf, STORY_MESSAGE, "not foreseen: no clocks drift apart towards it");
        break;
    case TREND_UNKNOWN:
        (void)snprintf(buf, STORY_MESSAGE,
                       "unknown: the drift of two clocks at least is needed; log more runs");
        break;
    }
    n = strlen(buf);
    if (outlook->state != TREND_UNSAFE && outlook->unknown > 0 && outlook->state != TREND_UNKNOWN)
        (void)snprintf(buf + n, STORY_MESSAGE - n,
                       "; %s nothing is known of where %d of the clocks go, among them that of %s",
                       outlook->state == TREND_DRIFTING ? "no earliest moment can be given:"
                                                        : "but",
                       outlook->unknown, story->past->last.hosts[outlook->one_unknown].name);
    return buf;
}
