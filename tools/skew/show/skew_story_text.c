/*
 * A report for people at a terminal: the verdict comes last.
 */
#include <string.h>

#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"

#define STRIP 60
#define CHANGES 10
#define TITLE "offset from server"

/* Writes the verdicts over time as a strip of the worst of each stretch. */
static void put_strip(const skew_story *story, FILE *out) {
    static const char mark[] = {
        [SKEW_SAFE] = '-', [SKEW_WARN] = '?', [SKEW_UNSAFE] = '!', [SKEW_UNKNOWN] = 'x'};
    story_bucket bucket[STRIP];
    char strip[STRIP + 1];

    story_run_buckets(story, bucket, STRIP);
    for (int i = 0; i < STRIP; i++)
        strip[i] = bucket[i].from_ms ? mark[bucket[i].worst] : ' ';
    strip[STRIP] = '\0';
    (void)fprintf(out, "  [%s]  - safe  ? warning  ! unsafe  x unknown\n", strip);
}

static void put_changes(const skew_story *story, FILE *out) {
    char at[SKEW_TIME_SIZE];
    size_t change[CHANGES], n = story_changes(story, change, CHANGES);

    for (size_t i = 0; i < n; i++) {
        const past_run *run = &story->past->run[change[i]];
        (void)fprintf(out, "  %s  %-7s %s\n", skew_time(at, run->at_ms),
                      skew_verdict_name(run->verdict), run->reason ? run->reason : "");
    }
}

static int longest_name(const skew_past *past) {
    size_t most = strlen(TITLE);
    for (size_t i = 0; i < past->hosts; i++)
        most = strlen(past->host[i].name) > most ? strlen(past->host[i].name) : most;
    return (int)most;
}

static void put_host(const skew_story *story, size_t i, int width, FILE *out) {
    const past_host *host = &story->past->host[i];
    const skew_trend *trend = &story->drift[i];
    const past_point *point = host->count ? &host->point[host->count - 1] : NULL;
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE],
        drift[2 * SKEW_NUMBER_SIZE + 8] = "unknown", over[SKEW_SPAN_SIZE], at[SKEW_TIME_SIZE];
    bool here = story->last_of[i] >= 0;

    int decimals = skew_decimals(trend->ppb);
    if (trend->known)
        (void)snprintf(drift, sizeof drift, "%s to %s", skew_down(lo, trend->ppb.lo, decimals),
                       skew_up(hi, trend->ppb.hi, decimals));
    decimals = point ? skew_decimals(point->offset) : 0;
    (void)fprintf(
        out, "%-*s %12s %12s  %-22s %-9s %s", width, host->name,
        here && point && past_known(point) ? skew_aligned(lo, point->offset.lo, decimals, false)
                                           : "unknown",
        here && point && past_known(point) ? skew_aligned(hi, point->offset.hi, decimals, true)
                                           : "",
        drift,
        trend->known && trend->to_ms > trend->from_ms
            ? skew_span(over, trend->to_ms - trend->from_ms)
            : "-",
        host->instrument);
    if (!here && point)
        (void)fprintf(out, ", not seen since %s", skew_time(at, point->at_ms));
    else if (here && story->past->last.hosts[story->last_of[i]].missing)
        (void)fputs(", missing", out);
    else if (trend->known && trend->bent)
        (void)fputs(", drifted otherwise before", out);
    (void)fputc('\n', out);
}

void story_text(const skew_story *story, FILE *out) {
    const skew_past *past = story->past;
    char from[SKEW_TIME_SIZE], to[SKEW_TIME_SIZE], message[STORY_MESSAGE];
    int width = longest_name(past);

    (void)fprintf(out, "%zu run%s, from %s to %s", past->runs, past->runs == 1 ? "" : "s",
                  skew_time(from, past->run[0].at_ms),
                  skew_time(to, past->run[past->runs - 1].at_ms));
    if (past->dropped)
        (void)fprintf(out, "; %lld older ones left out", (long long)past->dropped);
    if (past->skipped)
        (void)fprintf(out, "; %lld lines skipped", (long long)past->skipped);
    (void)fputc('\n', out);
    put_strip(story, out);
    put_changes(story, out);
    (void)fprintf(out, "\n%-*s %12s %12s  %-22s %-9s %s\n", width, TITLE, "from, ms", "to, ms",
                  "drift, ppm", "over", "by");
    for (size_t i = 0; i < past->hosts; i++)
        put_host(story, i, width, out);
    (void)fprintf(out, "\nTime to unsafe: %s.\n", story_outlook(story, message));
    (void)fprintf(out, "\n%s: %s\n", skew_verdict_name(past->last.verdict), past->last.reason);
    if (past->last.cause_text[0])
        (void)fprintf(out, "- %s\n", past->last.cause_text);
    for (int i = 0; i < past->last.advices; i++)
        (void)fprintf(out, "- %s\n", past->last.advice[i]);
}
