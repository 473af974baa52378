/*
 * A report for machines: one JSON object on one line.
 */
#include <stdlib.h>

#include "base/js.h"
#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define CHANGES 1000
#define BUCKETS 240

static json_t *outlook_json(const skew_story *story) {
    const trend_outlook *outlook = &story->outlook;
    const skew_host *hosts = story->past->last.hosts;
    char message[STORY_MESSAGE];
    json_t *json = json_pack("{s:s}", "state", trend_state_name(outlook->state));

    js_set(&json, "earliest_ms",
           story_earliest_known(story) ? json_integer(outlook->earliest_ms) : json_null());
    js_set(&json, "latest_ms", js_known(outlook->latest_ms));
    js_set(&json, "holder", js_text(outlook->holder < 0 ? NULL : hosts[outlook->holder].name));
    js_set(&json, "taker", js_text(outlook->taker < 0 ? NULL : hosts[outlook->taker].name));
    js_set(&json, "unknown_hosts", json_integer(outlook->unknown));
    js_set(&json, "detail", js_text(story_outlook(story, message)));
    return json;
}

static json_t *over_time_json(const skew_story *story, const past_host *host) {
    static story_bucket bucket[BUCKETS];
    json_t *list = json_array();

    story_host_buckets(story, host, bucket, BUCKETS);
    for (int i = 0; i < BUCKETS; i++) {
        const story_bucket *b = &bucket[i];
        if (b->known || b->unknown)
            js_append(&list, json_pack("{s:I, s:I, s:o}", "from_ms", (json_int_t)b->from_ms,
                                       "to_ms", (json_int_t)b->to_ms, "offset_ms",
                                       js_interval(b->known > 0, b->hull)));
    }
    return list;
}

static json_t *host_json(const skew_story *story, size_t i) {
    const past_host *host = &story->past->host[i];
    const skew_trend *trend = &story->drift[i];
    const past_point *point = &host->point[host->count - 1];
    bool lasts = trend->known && trend->to_ms > trend->from_ms;
    size_t known = 0;

    for (size_t n = 0; n < host->count; n++)
        known += past_known(&host->point[n]);
    json_t *json = json_pack("{s:o, s:s}", "name", js_text(host->name), "instrument",
                             host->instrument);
    js_set(&json, "offset_ms",
           js_interval(story->last_of[i] >= 0 && past_known(point), point->offset));
    js_set(&json, "drift_ppm", js_interval(trend->known, trend->ppb));
    js_set(&json, "drift_over_ms",
           lasts ? json_integer(trend->to_ms - trend->from_ms) : json_null());
    js_set(&json, "first_ms", json_integer(host->point[0].at_ms));
    js_set(&json, "last_ms", json_integer(point->at_ms));
    js_set(&json, "known", json_integer((json_int_t)known));
    js_set(&json, "unknown", json_integer((json_int_t)(host->count - known)));
    js_set(&json, "over_time", over_time_json(story, host));
    return json;
}

static json_t *verdicts_json(const skew_past *past) {
    json_int_t count[4] = {0};
    json_t *json = json_object();

    for (size_t i = 0; i < past->runs; i++)
        count[past->run[i].verdict]++;
    for (int v = SKEW_SAFE; v <= (int)SKEW_UNKNOWN; v++)
        js_set(&json, skew_verdict_name((skew_verdict)v), json_integer(count[v]));
    return json;
}

static json_t *history_json(const skew_story *story) {
    static size_t change[CHANGES];
    size_t n = story_changes(story, change, CHANGES);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const past_run *run = &story->past->run[change[i]];
        js_append(&list,
                  json_pack("{s:I, s:s, s:o}", "at_ms", (json_int_t)run->at_ms, "verdict",
                            skew_verdict_name(run->verdict), "reason", js_text(run->reason)));
    }
    return list;
}

/* The members before the hosts, and after them. */
static json_t *head_json(const skew_story *story) {
    const skew_past *past = story->past;
    json_t *json = json_pack("{s:s}", "verdict", skew_verdict_name(past->last.verdict));

    js_set(&json, "reason", js_text(past->last.reason));
    js_set(&json, "lock_timeout_ms", json_integer(past->last.rule.lock_timeout_us / 1000));
    js_set(&json, "slack_ms", json_integer(past->last.rule.slack_us / 1000));
    js_set(&json, "runs", json_integer((json_int_t)past->runs));
    js_set(&json, "from_ms", json_integer(past->run[0].at_ms));
    js_set(&json, "to_ms", json_integer(past->run[past->runs - 1].at_ms));
    js_set(&json, "skipped", json_integer(past->skipped));
    js_set(&json, "dropped", json_integer(past->dropped));
    js_set(&json, "time_to_unsafe", outlook_json(story));
    return json;
}

static json_t *tail_json(const skew_story *story) {
    const skew_result *last = &story->past->last;
    json_t *advice = json_array();

    for (int i = 0; i < last->advices; i++)
        js_append(&advice, js_text(last->advice[i]));
    return json_pack("{s:o, s:o, s:o}", "verdicts", verdicts_json(story->past), "history",
                     history_json(story), "advice", advice);
}

/* Writes host by host: all hosts over the whole time would need too much memory. */
void story_json(const skew_story *story, FILE *out) {
    const skew_past *past = story->past;
    bool comma = false;

    (void)fputc('{', out);
    js_put(head_json(story), JSON_EMBED, out);
    (void)fputs(",\"hosts\":[", out);
    for (size_t i = 0; i < past->hosts; i++) {
        if (past->host[i].count == 0)
            continue;
        (void)fputs(comma ? "," : "", out);
        js_put(host_json(story, i), 0, out);
        comma = true;
    }
    (void)fputs("],", out);
    js_put(tail_json(story), JSON_EMBED, out);
    (void)fputs("}\n", out);
}
