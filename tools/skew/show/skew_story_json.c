/*
 * A report for machines: one object on a line.
 */
#include <stdlib.h>

#include "base/jsonbits.h"
#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define CHANGES 1000
#define BUCKETS 240

static void put_known(FILE *out, const char *name, bool known, int64_t value) {
    if (known)
        (void)fprintf(out, ",\"%s\":%lld", name, (long long)value);
    else
        (void)fprintf(out, ",\"%s\":null", name);
}

static void put_outlook(const skew_story *s, FILE *out) {
    const trend_outlook *o = &s->outlook;
    const skew_host *hosts = s->past->last.hosts;
    char words[STORY_WORDS];

    (void)fprintf(out, ",\"time_to_unsafe\":{\"state\":\"%s\"", trend_state_name(o->state));
    put_known(out, "earliest_ms", story_earliest_known(s), o->earliest_ms);
    put_known(out, "latest_ms", o->latest_ms >= 0, o->latest_ms);
    (void)fputc(',', out);
    jsonbits_text(out, "holder", o->holder < 0 ? NULL : hosts[o->holder].name);
    (void)fputc(',', out);
    jsonbits_text(out, "taker", o->taker < 0 ? NULL : hosts[o->taker].name);
    (void)fprintf(out, ",\"unknown_hosts\":%d,", o->unknown);
    jsonbits_text(out, "detail", story_outlook(s, words));
    (void)fputc('}', out);
}

static void put_over_time(const skew_story *s, const past_host *h, FILE *out) {
    static story_bucket bucket[BUCKETS];
    bool comma = false;

    story_host_buckets(s, h, bucket, BUCKETS);
    (void)fputs(",\"over_time\":[", out);
    for (int i = 0; i < BUCKETS; i++) {
        if (!bucket[i].known && !bucket[i].unknown)
            continue;
        (void)fprintf(out, "%s{\"from_ms\":%lld,\"to_ms\":%lld,", comma ? "," : "",
                      (long long)bucket[i].from_ms, (long long)bucket[i].to_ms);
        jsonbits_interval(out, "offset_ms", bucket[i].known > 0, bucket[i].hull);
        (void)fputc('}', out);
        comma = true;
    }
    (void)fputc(']', out);
}

static void put_host(const skew_story *s, size_t i, FILE *out) {
    const past_host *h = &s->past->host[i];
    const skew_trend *t = &s->drift[i];
    const past_point *x = &h->point[h->count - 1];
    size_t known = 0;

    for (size_t n = 0; n < h->count; n++)
        known += past_known(&h->point[n]);
    (void)fputc('{', out);
    jsonbits_text(out, "name", h->name);
    (void)fputc(',', out);
    jsonbits_text(out, "instrument", h->instrument);
    (void)fputc(',', out);
    jsonbits_interval(out, "offset_ms", s->last_of[i] >= 0 && past_known(x), x->offset);
    (void)fputc(',', out);
    jsonbits_interval(out, "drift_ppm", t->known, t->ppb);
    put_known(out, "drift_over_ms", t->known && t->to_ms > t->from_ms, t->to_ms - t->from_ms);
    (void)fprintf(out, ",\"first_ms\":%lld,\"last_ms\":%lld,\"known\":%zu,\"unknown\":%zu",
                  (long long)h->point[0].at_ms, (long long)x->at_ms, known, h->count - known);
    put_over_time(s, h, out);
    (void)fputc('}', out);
}

static void put_history(const skew_story *s, FILE *out) {
    static size_t change[CHANGES];
    size_t n = story_changes(s, change, CHANGES), count[4] = {0};

    for (size_t i = 0; i < s->past->runs; i++)
        count[s->past->run[i].verdict]++;
    (void)fputs(",\"verdicts\":{", out);
    for (int v = SKEW_SAFE; v <= (int)SKEW_UNKNOWN; v++)
        (void)fprintf(out, "%s\"%s\":%zu", v ? "," : "", skew_verdict_name((skew_verdict)v),
                      count[v]);
    (void)fputs("},\"history\":[", out);
    for (size_t i = 0; i < n; i++) {
        const past_run *run = &s->past->run[change[i]];
        (void)fprintf(out, "%s{\"at_ms\":%lld,\"verdict\":\"%s\",", i ? "," : "",
                      (long long)run->at_ms, skew_verdict_name(run->verdict));
        jsonbits_text(out, "reason", run->reason);
        (void)fputc('}', out);
    }
    (void)fputc(']', out);
}

void story_json(const skew_story *s, FILE *out) {
    const skew_past *p = s->past;
    bool comma = false;

    (void)fputc('{', out);
    jsonbits_text(out, "verdict", skew_verdict_name(p->last.verdict));
    (void)fputc(',', out);
    jsonbits_text(out, "reason", p->last.reason);
    (void)fprintf(out,
                  ",\"lock_timeout_ms\":%lld,\"slack_ms\":%lld,\"runs\":%zu,\"from_ms\":%lld,"
                  "\"to_ms\":%lld,\"skipped\":%lld,\"dropped\":%lld",
                  (long long)(p->last.rule.lock_timeout_us / 1000),
                  (long long)(p->last.rule.slack_us / 1000), p->runs, (long long)p->run[0].at_ms,
                  (long long)p->run[p->runs - 1].at_ms, (long long)p->skipped,
                  (long long)p->dropped);
    put_outlook(s, out);
    (void)fputs(",\"hosts\":[", out);
    for (size_t i = 0; i < p->hosts; i++) {
        if (p->host[i].count == 0)
            continue;
        (void)fputs(comma ? "," : "", out);
        put_host(s, i, out);
        comma = true;
    }
    (void)fputc(']', out);
    put_history(s, out);
    (void)fputs(",\"advice\":[", out);
    for (int i = 0; i < p->last.advices; i++) {
        (void)fputs(i ? "," : "", out);
        jsonbits_quoted(out, p->last.advice[i]);
    }
    (void)fputs("]}\n", out);
}
