/*
 * A report for people at a terminal: the verdict comes last.
 */
#include <string.h>

#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define STRIP 60
#define CHANGES 10
#define TITLE "clock less server's"

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

static int longest_name(const skew_past *p) {
    size_t most = strlen(TITLE);
    for (size_t i = 0; i < p->hosts; i++)
        most = strlen(p->host[i].name) > most ? strlen(p->host[i].name) : most;
    return (int)most;
}

static void put_host(const skew_story *s, size_t i, int width, FILE *out) {
    const past_host *h = &s->past->host[i];
    const skew_trend *t = &s->drift[i];
    const past_point *x = h->count ? &h->point[h->count - 1] : NULL;
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE],
        drift[2 * SKEW_NUMBER_SIZE + 8] = "unknown", over[SKEW_SPAN_SIZE], at[SKEW_TIME_SIZE];
    bool here = s->last_of[i] >= 0;

    int decimals = skew_decimals(t->ppb);
    if (t->known)
        (void)snprintf(drift, sizeof drift, "%s to %s", skew_down(lo, t->ppb.lo, decimals),
                       skew_up(hi, t->ppb.hi, decimals));
    decimals = x ? skew_decimals(x->offset) : 0;
    (void)fprintf(
        out, "%-*s %12s %12s  %-22s %-9s %s", width, h->name,
        here && x && past_known(x) ? skew_aligned(lo, x->offset.lo, decimals, false) : "unknown",
        here && x && past_known(x) ? skew_aligned(hi, x->offset.hi, decimals, true) : "", drift,
        t->known && t->to_ms > t->from_ms ? skew_span(over, t->to_ms - t->from_ms) : "-",
        h->instrument);
    if (!here && x)
        (void)fprintf(out, ", not seen since %s", skew_time(at, x->at_ms));
    else if (here && s->past->last.hosts[s->last_of[i]].missing)
        (void)fputs(", missing", out);
    else if (t->known && t->bent)
        (void)fputs(", drifted otherwise before", out);
    (void)fputc('\n', out);
}

void story_text(const skew_story *s, FILE *out) {
    const skew_past *p = s->past;
    char from[SKEW_TIME_SIZE], to[SKEW_TIME_SIZE], message[STORY_MESSAGE];
    int width = longest_name(p);

    (void)fprintf(out, "%zu run%s, from %s to %s", p->runs, p->runs == 1 ? "" : "s",
                  skew_time(from, p->run[0].at_ms), skew_time(to, p->run[p->runs - 1].at_ms));
    if (p->dropped)
        (void)fprintf(out, "; %lld older ones left out", (long long)p->dropped);
    if (p->skipped)
        (void)fprintf(out, "; %lld lines skipped", (long long)p->skipped);
    (void)fputc('\n', out);
    put_strip(s, out);
    put_changes(s, out);
    (void)fprintf(out, "\n%-*s %12s %12s  %-22s %-9s %s\n", width, TITLE, "from, ms", "to, ms",
                  "drift, ppm", "over", "by");
    for (size_t i = 0; i < p->hosts; i++)
        put_host(s, i, width, out);
    (void)fprintf(out, "\nTime to unsafe: %s.\n", story_outlook(s, message));
    (void)fprintf(out, "\n%s: %s\n", skew_verdict_name(p->last.verdict), p->last.reason);
    for (int i = 0; i < p->last.advices; i++)
        (void)fprintf(out, "- %s\n", p->last.advice[i]);
}
