/*
 * What a report tells, worked out once for all its faces. Pure but for memory.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define PAUSES 101   /* between runs, of which the middle one is what is usual */
#define STALE_RUNS 3 /* that may be missing */
#define STALE_LEAST_MS INT64_C(900000)

static int find_last(const skew_result *last, const past_host *h) {
    for (int i = 0; i < last->host_count; i++)
        if (last->hosts[i].instrument == h->instrument && strcmp(last->hosts[i].name, h->name) == 0)
            return i;
    return -1;
}

/* From the log; where that has one word of it only, from what its own measurement said. */
static skew_trend drift_of(const past_host *h, const skew_host *last) {
    skew_trend t = trend_of(h->point, h->count);

    if (!t.known && last && last->known && last->has_drift) {
        t.known = true;
        t.ppb = last->drift_ppb;
    }
    return t;
}

static bool look_ahead(skew_story *s) {
    const skew_result *last = &s->past->last;
    skew_trend *of_last = calloc((size_t)last->host_count + 1, sizeof *of_last);

    if (!of_last)
        return false;
    for (size_t i = 0; i < s->past->hosts; i++)
        if (s->last_of[i] >= 0)
            of_last[s->last_of[i]] = s->drift[i];
    s->outlook = trend_look_ahead(last, of_last);
    free(of_last);
    return true;
}

static int by_length(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Until some runs have not come, going by how they came so far. */
static int64_t stale_after(const skew_past *p) {
    int64_t pause[PAUSES];
    size_t n = 0;

    for (size_t i = p->runs; i > 1 && n < PAUSES; i--)
        pause[n++] = p->run[i - 1].at_ms - p->run[i - 2].at_ms;
    if (n == 0)
        return STALE_LEAST_MS;
    qsort(pause, n, sizeof *pause, by_length);
    int64_t pauses = tl__mul_sat(pause[n / 2], STALE_RUNS);
    return pauses > STALE_LEAST_MS ? pauses : STALE_LEAST_MS;
}

bool story_begin(skew_story *s, const skew_past *past) {
    *s = (skew_story){.past = past, .stale_after_ms = stale_after(past)};
    s->drift = calloc(past->hosts + 1, sizeof *s->drift);
    s->last_of = calloc(past->hosts + 1, sizeof *s->last_of);
    if (!s->drift || !s->last_of)
        return false;
    for (size_t i = 0; i < past->hosts; i++) {
        int last = find_last(&past->last, &past->host[i]);
        s->last_of[i] = last;
        s->drift[i] = drift_of(&past->host[i], last < 0 ? NULL : &past->last.hosts[last]);
    }
    return look_ahead(s);
}

void story_end(skew_story *s) {
    free(s->drift);
    free(s->last_of);
    *s = (skew_story){.past = NULL};
}

/* ---- buckets -------------------------------------------------------------------------------------- */

static story_bucket *bucket_at(const skew_story *s, story_bucket *bucket, int buckets,
                               int64_t at_ms) {
    const skew_past *p = s->past;
    int64_t from = p->run[0].at_ms, span = p->run[p->runs - 1].at_ms - from + 1;
    int64_t i = at_ms < from ? 0 : tl__mul_sat(at_ms - from, buckets) / span;
    story_bucket *b = &bucket[i < buckets ? i : buckets - 1];

    if (b->from_ms == 0)
        b->from_ms = at_ms;
    b->to_ms = at_ms;
    return b;
}

static void widen(story_bucket *b, tl_interval by) {
    if (b->known == 0 || by.lo < b->hull.lo)
        b->hull.lo = by.lo;
    if (b->known == 0 || by.hi > b->hull.hi)
        b->hull.hi = by.hi;
    b->known++;
}

void story_host_buckets(const skew_story *s, const past_host *h, story_bucket *bucket,
                        int buckets) {
    memset(bucket, 0, (size_t)buckets * sizeof *bucket);
    for (size_t i = 0; i < h->count; i++) {
        const past_point *x = &h->point[i];
        story_bucket *b = bucket_at(s, bucket, buckets, x->at_ms);
        if (!past_known(x)) {
            b->unknown++;
            continue;
        }
        widen(b, x->offset);
    }
}

skew_verdict story_worse(skew_verdict a, skew_verdict b) {
    static const int rank[] = {
        [SKEW_SAFE] = 0, [SKEW_WARN] = 1, [SKEW_UNKNOWN] = 2, [SKEW_UNSAFE] = 3};
    return rank[a] > rank[b] ? a : b;
}

void story_run_buckets(const skew_story *s, story_bucket *bucket, int buckets) {
    memset(bucket, 0, (size_t)buckets * sizeof *bucket);
    for (size_t i = 0; i < s->past->runs; i++) {
        const past_run *run = &s->past->run[i];
        story_bucket *b = bucket_at(s, bucket, buckets, run->at_ms);
        bool is_first = b->runs[0] + b->runs[1] + b->runs[2] + b->runs[3] == 0;
        if (is_first || run->slack_us < b->slack_us)
            b->slack_us = run->slack_us;
        if (!tl__interval_empty(run->worst))
            widen(b, run->worst);
        b->runs[run->verdict]++;
        b->worst = story_worse(b->worst, run->verdict);
    }
}

size_t story_changes(const skew_story *s, size_t *change, size_t most) {
    const skew_past *p = s->past;
    size_t n = 0;

    for (size_t i = p->runs; i > 0 && n < most; i--)
        if (i == 1 || p->run[i - 1].verdict != p->run[i - 2].verdict)
            change[n++] = i - 1;
    for (size_t i = 0; i < n / 2; i++) {
        size_t x = change[i];
        change[i] = change[n - 1 - i];
        change[n - 1 - i] = x;
    }
    return n;
}

/* ---- the outlook ---------------------------------------------------------------------------------- */

bool story_earliest_known(const skew_story *s) {
    const trend_outlook *o = &s->outlook;
    return o->earliest_ms >= 0 && (o->earliest_ms == 0 || o->unknown == 0);
}

static void drifting(const skew_story *s, char buf[STORY_MESSAGE]) {
    const trend_outlook *o = &s->outlook;
    char first[SKEW_SPAN_SIZE], last[SKEW_SPAN_SIZE], until[SKEW_SPAN_SIZE + 32] = "perhaps never";

    if (o->latest_ms >= 0)
        (void)snprintf(until, sizeof until, "in %s at the latest", skew_span(last, o->latest_ms));
    (void)snprintf(buf, STORY_MESSAGE,
                   "in %s at the earliest, %s, if the clocks go on drifting as they did (first "
                   "when %s holds and %s takes)",
                   skew_span(first, o->earliest_ms), until, s->past->last.hosts[o->holder].name,
                   s->past->last.hosts[o->taker].name);
}

static void in_doubt(const skew_story *s, char buf[STORY_MESSAGE]) {
    char last[SKEW_SPAN_SIZE];

    if (s->outlook.latest_ms < 0)
        (void)snprintf(buf, STORY_MESSAGE,
                       "a theft can't be ruled out now; when one will be possible is not foreseen");
    else
        (void)snprintf(
            buf, STORY_MESSAGE,
            "a theft can't be ruled out now, and is possible in %s at the latest, if the clocks go on "
            "drifting as they did",
            skew_span(last, s->outlook.latest_ms));
}

const char *story_outlook(const skew_story *s, char buf[STORY_MESSAGE]) {
    const trend_outlook *o = &s->outlook;
    size_t n;

    switch (o->state) {
    case TREND_UNSAFE: (void)snprintf(buf, STORY_MESSAGE, "it is unsafe now"); break;
    case TREND_DOUBT: in_doubt(s, buf); break;
    case TREND_DRIFTING: drifting(s, buf); break;
    case TREND_STEADY:
        (void)snprintf(buf, STORY_MESSAGE, "not foreseen: no clocks drift apart towards it");
        break;
    case TREND_UNKNOWN:
        (void)snprintf(buf, STORY_MESSAGE,
                       "unknown: the drift of two clocks at least is needed; log more runs");
        break;
    }
    n = strlen(buf);
    if (o->state != TREND_UNSAFE && o->unknown > 0 && o->state != TREND_UNKNOWN)
        (void)snprintf(buf + n, STORY_MESSAGE - n,
                       "; but nothing is known of where %d of the clocks go, among them that of %s",
                       o->unknown, s->past->last.hosts[o->one_unknown].name);
    return buf;
}
