/*
 * A report for machines: one object on a line.
 */
#include <stdlib.h>

#include "base/js.h"
#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define CHANGES 1000
#define BUCKETS 240

static json_t *outlook_json(const skew_story *s) {
    const trend_outlook *o = &s->outlook;
    const skew_host *hosts = s->past->last.hosts;
    char message[STORY_MESSAGE];
    json_t *j = json_pack("{s:s}", "state", trend_state_name(o->state));

    js_set(&j, "earliest_ms", story_earliest_known(s) ? json_integer(o->earliest_ms) : json_null());
    js_set(&j, "latest_ms", js_known(o->latest_ms));
    js_set(&j, "holder", js_text(o->holder < 0 ? NULL : hosts[o->holder].name));
    js_set(&j, "taker", js_text(o->taker < 0 ? NULL : hosts[o->taker].name));
    js_set(&j, "unknown_hosts", json_integer(o->unknown));
    js_set(&j, "detail", js_text(story_outlook(s, message)));
    return j;
}

static json_t *over_time_json(const skew_story *s, const past_host *h) {
    static story_bucket bucket[BUCKETS];
    json_t *list = json_array();

    story_host_buckets(s, h, bucket, BUCKETS);
    for (int i = 0; i < BUCKETS; i++) {
        const story_bucket *b = &bucket[i];
        if (b->known || b->unknown)
            js_append(&list, json_pack("{s:I, s:I, s:o}", "from_ms", (json_int_t)b->from_ms,
                                       "to_ms", (json_int_t)b->to_ms, "offset_ms",
                                       js_interval(b->known > 0, b->hull)));
    }
    return list;
}

static json_t *host_json(const skew_story *s, size_t i) {
    const past_host *h = &s->past->host[i];
    const skew_trend *t = &s->drift[i];
    const past_point *x = &h->point[h->count - 1];
    bool lasts = t->known && t->to_ms > t->from_ms;
    size_t known = 0;

    for (size_t n = 0; n < h->count; n++)
        known += past_known(&h->point[n]);
    json_t *j = json_pack("{s:o, s:s}", "name", js_text(h->name), "instrument", h->instrument);
    js_set(&j, "offset_ms", js_interval(s->last_of[i] >= 0 && past_known(x), x->offset));
    js_set(&j, "drift_ppm", js_interval(t->known, t->ppb));
    js_set(&j, "drift_over_ms", lasts ? json_integer(t->to_ms - t->from_ms) : json_null());
    js_set(&j, "first_ms", json_integer(h->point[0].at_ms));
    js_set(&j, "last_ms", json_integer(x->at_ms));
    js_set(&j, "known", json_integer((json_int_t)known));
    js_set(&j, "unknown", json_integer((json_int_t)(h->count - known)));
    js_set(&j, "over_time", over_time_json(s, h));
    return j;
}

static json_t *verdicts_json(const skew_past *p) {
    json_int_t count[4] = {0};
    json_t *j = json_object();

    for (size_t i = 0; i < p->runs; i++)
        count[p->run[i].verdict]++;
    for (int v = SKEW_SAFE; v <= (int)SKEW_UNKNOWN; v++)
        js_set(&j, skew_verdict_name((skew_verdict)v), json_integer(count[v]));
    return j;
}

static json_t *history_json(const skew_story *s) {
    static size_t change[CHANGES];
    size_t n = story_changes(s, change, CHANGES);
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++) {
        const past_run *run = &s->past->run[change[i]];
        js_append(&list,
                  json_pack("{s:I, s:s, s:o}", "at_ms", (json_int_t)run->at_ms, "verdict",
                            skew_verdict_name(run->verdict), "reason", js_text(run->reason)));
    }
    return list;
}

/* What stands before the hosts, and behind them. */
static json_t *head_json(const skew_story *s) {
    const skew_past *p = s->past;
    json_t *j = json_pack("{s:s}", "verdict", skew_verdict_name(p->last.verdict));

    js_set(&j, "reason", js_text(p->last.reason));
    js_set(&j, "lock_timeout_ms", json_integer(p->last.rule.lock_timeout_us / 1000));
    js_set(&j, "slack_ms", json_integer(p->last.rule.slack_us / 1000));
    js_set(&j, "runs", json_integer((json_int_t)p->runs));
    js_set(&j, "from_ms", json_integer(p->run[0].at_ms));
    js_set(&j, "to_ms", json_integer(p->run[p->runs - 1].at_ms));
    js_set(&j, "skipped", json_integer(p->skipped));
    js_set(&j, "dropped", json_integer(p->dropped));
    js_set(&j, "time_to_unsafe", outlook_json(s));
    return j;
}

static json_t *tail_json(const skew_story *s) {
    const skew_result *last = &s->past->last;
    json_t *advice = json_array();

    for (int i = 0; i < last->advices; i++)
        js_append(&advice, js_text(last->advice[i]));
    return json_pack("{s:o, s:o, s:o}", "verdicts", verdicts_json(s->past), "history",
                     history_json(s), "advice", advice);
}

/* All hosts over all the time are too much for memory at once. */
void story_json(const skew_story *s, FILE *out) {
    const skew_past *p = s->past;
    bool comma = false;

    (void)fputc('{', out);
    js_put(head_json(s), JSON_EMBED, out);
    (void)fputs(",\"hosts\":[", out);
    for (size_t i = 0; i < p->hosts; i++) {
        if (p->host[i].count == 0)
            continue;
        (void)fputs(comma ? "," : "", out);
        js_put(host_json(s, i), 0, out);
        comma = true;
    }
    (void)fputs("],", out);
    js_put(tail_json(s), JSON_EMBED, out);
    (void)fputs("}\n", out);
}
