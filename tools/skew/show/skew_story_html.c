/*
 * A report as a page: the clocks and their drift, how near the worst pair came to the end of the
 * slack, each host's interval over time, and the verdicts over time.
 */
#include <stdlib.h>

#include "skew/show/skew_chart.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define CHANGES 30
#define TALL 132
#define STRIP 34
#define MARKS 5

static void put_from_to(const skew_story *story, FILE *out) {
    (void)fputs("<p class=\"dim\">From ", out);
    page_time(out, story->past->run[0].at_ms);
    (void)fputs(" to ", out);
    page_time(out, story->past->run[story->past->runs - 1].at_ms);
    (void)fputs("; all times are UTC.</p>\n", out);
}

/* ---- verdicts -------------------------------------------------------------------------------------- */

/* A worse verdict has a taller bar, so that colour is not needed. */
static void put_strip(const skew_story *story, FILE *out) {
    static const int height[] = {
        [SKEW_SAFE] = 9, [SKEW_WARN] = 20, [SKEW_UNSAFE] = 34, [SKEW_UNKNOWN] = 14};
    story_bucket bucket[CHART_BUCKETS];
    int n = chart_buckets(story);
    double wide = 1000.0 / n;
    skew_axis times = chart_times(story);

    story_run_buckets(story, bucket, n);
    (void)fputs("<div class=\"graph\"><div></div><svg class=\"plot strip\" viewBox=\"0 0 1000 34\" "
                "preserveAspectRatio=\"none\" role=\"img\" aria-label=\"verdicts over time\">",
                out);
    for (int i = 0; i < n; i++)
        if (bucket[i].from_ms)
            (void)fprintf(out,
                          "<rect class=\"f-%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                          "height=\"%d\"/>",
                          page_class(bucket[i].worst), i * wide, STRIP - height[bucket[i].worst],
                          wide * (n > 60 ? 1 : 0.94), height[bucket[i].worst]);
    (void)fputs("</svg>", out);
    axis_times(out, &times);
    (void)fputs("</div>\n", out);
}

static void put_history(const skew_story *story, FILE *out) {
    size_t change[CHANGES], n = story_changes(story, change, CHANGES);

    page_open(out, "Verdicts",
              "The taller the worse: low is safe, half warns, full is unsafe, an empty frame is "
              "unknown. Below: when it changed, the latest first.");
    put_strip(story, out);
    (void)fputs("<table class=\"list\">", out);
    while (n-- > 0) {
        const past_run *run = &story->past->run[change[n]];
        (void)fprintf(out, "<tr class=\"%s\"><td class=\"num\">", page_class(run->verdict));
        page_time(out, run->at_ms);
        (void)fputs("</td><td class=\"num\"><b>", out);
        page_sign(out, run->verdict);
        (void)fprintf(out, " %s</b></td><td>", skew_verdict_name(run->verdict));
        page_text(out, run->reason ? run->reason : "");
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</table>\n", out);
    page_close(out);
}

/* ---- the worst gap --------------------------------------------------------------------------------- */

static tl_interval gaps_reach(const story_bucket *bucket, int n) {
    tl_interval all = {0, 0};

    for (int i = 0; i < n; i++) {
        if (bucket[i].from_ms && bucket[i].slack_us > all.hi)
            all.hi = bucket[i].slack_us;
        if (bucket[i].known && bucket[i].hull.hi > all.hi)
            all.hi = bucket[i].hull.hi;
        if (bucket[i].known && bucket[i].hull.lo < all.lo)
            all.lo = bucket[i].hull.lo;
    }
    return all;
}

static void put_lines(const skew_story *story, FILE *out) {
    const skew_rule *rule = &story->past->last.rule;
    char number[SKEW_NUMBER_SIZE];

    (void)fputs("<ul class=\"lines\"><li><svg viewBox=\"0 0 20 10\" aria-hidden=\"true\"><path "
                "class=\"edge\" d=\"M0 5h20\"/></svg>the slack, ",
                out);
    page_number(out, skew_exact(number, rule->slack_us));
    (void)fprintf(
        out,
        " in the latest run: past it theft is possible</li><li><svg viewBox=\"0 0 20 "
        "10\" aria-hidden=\"true\"><path class=\"half\" d=\"M0 5h20\"/></svg>%d&nbsp;%% of "
        "it: past that it warns</li></ul>\n",
        rule->warn_percent);
}

static void put_gaps(const skew_story *story, FILE *out) {
    story_bucket bucket[CHART_BUCKETS];
    int64_t slack[CHART_BUCKETS], warn[CHART_BUCKETS];
    int n = chart_buckets(story), known = 0;

    story_run_buckets(story, bucket, n);
    for (int i = 0; i < n; i++)
        known += bucket[i].known > 0;
    if (known == 0)
        return;
    skew_chart chart = {.times = chart_times(story),
                        .values = axis_of(gaps_reach(bucket, n), MARKS),
                        .buckets = n,
                        .high = TALL,
                        .look = "tall",
                        .label = "the gap of the worst pair over time, and the slack"};
    chart_slack(bucket, n, 100, slack);
    chart_slack(bucket, n, story->past->last.rule.warn_percent, warn);
    page_open(out, "The worst pair over time",
              "By how much the clock of the one that takes was ahead of the holder's, in the worst "
              "pair of each run.");
    put_from_to(story, out);
    put_lines(story, out);
    chart_open(out, &chart);
    chart_band(out, &chart, bucket, slack, NULL);
    chart_line(out, &chart, "half", warn);
    chart_line(out, &chart, "edge", slack);
    chart_close(out, &chart);
    page_close(out);
}

/* ---- the page ---------------------------------------------------------------------------------------- */

static void put_outlook(const skew_story *story, FILE *out) {
    char message[STORY_MESSAGE];
    const skew_past *past = story->past;

    page_open(out, "Time to unsafe", NULL);
    (void)fputs("<p>", out);
    page_text(out, story_outlook(story, message));
    (void)fprintf(out, ".</p>\n<p class=\"dim\">From %zu run%s, the latest at ", past->runs,
                  past->runs == 1 ? "" : "s");
    page_time(out, past->run[past->runs - 1].at_ms);
    if (past->dropped)
        (void)fprintf(out, "; %lld older ones left out", (long long)past->dropped);
    if (past->skipped)
        (void)fprintf(out, "; %lld lines skipped", (long long)past->skipped);
    (void)fputs(".</p>\n", out);
    page_close(out);
}

void story_html(const skew_story *story, FILE *out) {
    skew_result last = story->past->last;

    last.stale_after_ms = story->stale_after_ms;
    page_begin(out, &last, "clocks and locks over time", story->made_ms);
    page_verdict(out, &last);
    put_outlook(story, out);
    put_gaps(story, out);
    put_history(story, out);
    chart_hosts(story, out);
    page_pairs(out, &last);
    page_heat(out, &last);
    page_end(out, &last);
}
