/*
 * A report for people at a terminal.
 */
#include <stdlib.h>
#include <string.h>

#include "skew_show.h"
#include "skew_story.h"

#define STRIP 60
#define CHANGES 10

static const char *shown(char buf[32], int64_t thousandths) {
    unsigned long long a = (unsigned long long)llabs(thousandths);
    (void)snprintf(buf, 32, "%s%llu.%03llu", thousandths < 0 ? "-" : "+", a / 1000, a % 1000);
    return buf;
}

/* Verdicts over time as a strip, the worst of each stretch. */
static void put_strip(const skew_story *s, FILE *out) {
    static const char mark[] = {
        [SKEW_SAFE] = '-', [SKEW_WARN] = '?', [SKEW_UNSAFE] = '!', [SKEW_UNKNOWN] = 'x'};
    story_bucket bucket[STRIP];
    char strip[STRIP + 1];

    story_run_buckets(s, bucket, STRIP);
    for (int i = 0; i < STRIP; i++)
        strip[i] = bucket[i].from_ms ? mark[bucket[i].worst] : ' ';
    strip[STRIP] = '\0';
    (void)fprintf(out, "  [%s]  - safe  ? warning  ! unsafe  x unknown\n", strip);
}

static void put_changes(const skew_story *s, FILE *out) {
    char at[SKEW_TIME_SIZE];
    size_t change[CHANGES], n = story_changes(s, change, CHANGES);

    for (size_t i = 0; i < n; i++) {
        const past_run *run = &s->past->run[change[i]];
        (void)fprintf(out, "  %s  %-7s %s\n", skew_time(at, run->at_ms),
                      skew_verdict_name(run->verdict), run->reason ? run->reason : "");
    }
}

static void put_host(const skew_story *s, size_t i, FILE *out) {
    const past_host *h = &s->past->host[i];
    const skew_trend *t = &s->drift[i];
    const past_point *x = h->count ? &h->point[h->count - 1] : NULL;
    char lo[32], hi[32], drift[80] = "unknown", over[SKEW_SPAN_SIZE], at[SKEW_TIME_SIZE];
    bool here = s->last_of[i] >= 0;

    if (t->known)
        (void)snprintf(drift, sizeof drift, "%s %s", shown(lo, t->ppb.lo), shown(hi, t->ppb.hi));
    (void)fprintf(out, "%-24s %12s %12s  %-22s %-9s %s", h->name,
                  here && x && past_known(x) ? shown(lo, x->offset.lo) : "unknown",
                  here && x && past_known(x) ? shown(hi, x->offset.hi) : "", drift,
                  t->known && t->to_ms > t->from_ms ? skew_span(over, t->to_ms - t->from_ms) : "-",
                  h->instrument);
    if (!here && x)
        (void)fprintf(out, ", not seen since %s", skew_time(at, x->at_ms));
    else if (t->known && t->bent)
        (void)fputs(", drifted otherwise before", out);
    (void)fputc('\n', out);
}

void story_text(const skew_story *s, FILE *out) {
    const skew_past *p = s->past;
    char from[SKEW_TIME_SIZE], to[SKEW_TIME_SIZE], words[STORY_WORDS];

    (void)fprintf(out, "%s: %s\n", skew_verdict_name(p->last.verdict), p->last.reason);
    for (int i = 0; i < p->last.advices; i++)
        (void)fprintf(out, "  %s\n", p->last.advice[i]);
    (void)fprintf(out, "\nTime to unsafe: %s.\n", story_outlook(s, words));
    (void)fprintf(out, "\n%zu run%s, from %s to %s", p->runs, p->runs == 1 ? "" : "s",
                  skew_time(from, p->run[0].at_ms), skew_time(to, p->run[p->runs - 1].at_ms));
    if (p->dropped)
        (void)fprintf(out, "; %lld older ones left out", (long long)p->dropped);
    if (p->skipped)
        (void)fprintf(out, "; %lld lines skipped", (long long)p->skipped);
    (void)fputc('\n', out);
    put_strip(s, out);
    put_changes(s, out);
    (void)fprintf(out, "\n%-24s %12s %12s  %-22s %-9s %s\n", "host", "from ms", "to ms",
                  "drift ppm", "over", "by");
    for (size_t i = 0; i < p->hosts; i++)
        put_host(s, i, out);
    (void)fputs("A host's clock less the server's, and how fast it moves, lie between the two.\n",
                out);
}
