/*
 * A report as a page: where the clocks are and where they are going, each host's interval over time, and
 * what the verdicts were.
 */
#include <stdlib.h>

#include "skew_page.h"
#include "skew_show.h"
#include "skew_story.h"

#define BUCKETS 120
#define CHANGES 30
#define HIGH 84.0 /* units of a chart's height */

static int buckets_of(const skew_story *s) {
    return s->past->runs < BUCKETS ? (int)s->past->runs : BUCKETS;
}

static void put_ends(const skew_story *s, FILE *out) {
    char at[SKEW_TIME_SIZE];
    const skew_past *p = s->past;

    (void)fprintf(out, "<div class=\"ends\"><span>%s</span>", skew_time(at, p->run[0].at_ms));
    (void)fprintf(out, "<span>%s</span></div>\n", skew_time(at, p->run[p->runs - 1].at_ms));
}

/* ---- verdicts -------------------------------------------------------------------------------------- */

/* The worse the taller, so that it needs no colour. */
static void put_strip(const skew_story *s, FILE *out) {
    static const int height[] = {
        [SKEW_SAFE] = 9, [SKEW_WARN] = 20, [SKEW_UNSAFE] = 34, [SKEW_UNKNOWN] = 14};
    story_bucket bucket[BUCKETS];
    int n = buckets_of(s);
    double wide = 1000.0 / n;

    story_run_buckets(s, bucket, n);
    (void)fputs("<svg class=\"plot strip\" viewBox=\"0 0 1000 34\" preserveAspectRatio=\"none\" "
                "role=\"img\" aria-label=\"verdicts over time\">",
                out);
    for (int i = 0; i < n; i++)
        if (bucket[i].from_ms)
            (void)fprintf(out,
                          "<rect class=\"f-%s\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" "
                          "height=\"%d\"/>",
                          page_class(bucket[i].worst), i * wide, 34 - height[bucket[i].worst],
                          wide * (n > 60 ? 1 : 0.94), height[bucket[i].worst]);
    (void)fputs("</svg>\n", out);
    put_ends(s, out);
}

static void put_history(const skew_story *s, FILE *out) {
    char at[SKEW_TIME_SIZE];
    size_t change[CHANGES], n = story_changes(s, change, CHANGES);

    page_open(out, "Verdicts",
              "The taller the worse: low is safe, half warns, full is unsafe, an empty frame is "
              "unknown. Below: when it changed.");
    put_strip(s, out);
    (void)fputs("<table>", out);
    while (n-- > 0) {
        const past_run *run = &s->past->run[change[n]];
        (void)fprintf(out, "<tr class=\"%s\"><td>%s</td><td class=\"num\"><b>",
                      page_class(run->verdict), skew_time(at, run->at_ms));
        page_sign(out, run->verdict);
        (void)fprintf(out, " %s</b></td><td>", skew_verdict_name(run->verdict));
        page_text(out, run->reason ? run->reason : "");
        (void)fputs("</td></tr>\n", out);
    }
    (void)fputs("</table>\n", out);
    page_close(out);
}

/* ---- hosts ----------------------------------------------------------------------------------------- */

/* What a chart shows. Where the bands are so wide that they would fill it, 0 is in it too. */
static tl_interval reach(const story_bucket *bucket, int n) {
    tl_interval all = {1, 0};
    int64_t widest = 0;

    for (int i = 0; i < n; i++) {
        tl_interval hull = bucket[i].hull;
        if (!bucket[i].known)
            continue;
        bool first = tl__interval_empty(all);
        all.lo = first || hull.lo < all.lo ? hull.lo : all.lo;
        all.hi = first || hull.hi > all.hi ? hull.hi : all.hi;
        widest = hull.hi - hull.lo > widest ? hull.hi - hull.lo : widest;
    }
    if (!tl__interval_empty(all) && widest >= (all.hi - all.lo) / 2) {
        all.lo = all.lo > 0 ? 0 : all.lo;
        all.hi = all.hi < 0 ? 0 : all.hi;
    }
    return all;
}

static double height_of(tl_interval all, int64_t us) {
    double span = (double)all.hi - (double)all.lo;
    return 4 + (1 - ((double)us - (double)all.lo) / (span > 0 ? span : 1)) * (HIGH - 8);
}

static void put_band(FILE *out, const story_bucket *bucket, int n, tl_interval all) {
    double wide = 1000.0 / n;

    (void)fputs("<path class=\"band\" d=\"", out);
    for (int i = 0; i < n; i++) {
        if (!bucket[i].known)
            continue;
        double top = height_of(all, bucket[i].hull.hi),
               high = height_of(all, bucket[i].hull.lo) - top;
        (void)fprintf(out, "M%.1f %.1fh%.1fv%.1fh-%.1fz", i * wide, top, wide, high < 2 ? 2 : high,
                      wide);
    }
    (void)fputs("\"/>", out);
    for (int i = 0; i < n; i++)
        if (bucket[i].unknown)
            (void)fprintf(out, "<rect class=\"none\" x=\"%.1f\" width=\"%.1f\" height=\"84\"/>",
                          i * wide, wide);
}

static void put_chart(const skew_story *s, const past_host *h, FILE *out) {
    story_bucket bucket[BUCKETS];
    int n = buckets_of(s);

    story_host_buckets(s, h, bucket, n);
    tl_interval all = reach(bucket, n);
    (void)fputs("<svg class=\"plot chart\" viewBox=\"0 0 1000 84\" preserveAspectRatio=\"none\" "
                "role=\"img\" aria-label=\"offset over time\">",
                out);
    if (!tl__interval_empty(all) && all.lo <= 0 && all.hi >= 0)
        (void)fprintf(out, "<path class=\"zero\" d=\"M0 %.1fh1000\"/>", height_of(all, 0));
    put_band(out, bucket, n, all);
    (void)fputs("</svg>", out);
    if (tl__interval_empty(all))
        return;
    (void)fputs("<div class=\"ends\"><span>between ", out);
    page_thousandths(out, all.lo);
    (void)fputs(" and ", out);
    page_thousandths(out, all.hi);
    (void)fputs(" ms</span></div>", out);
}

static void put_drift(const skew_story *s, size_t i, FILE *out) {
    const skew_trend *t = &s->drift[i];
    const past_host *h = &s->past->host[i];
    char span[SKEW_SPAN_SIZE], at[SKEW_TIME_SIZE];

    if (s->last_of[i] < 0)
        (void)fprintf(out, "not seen since %s", skew_time(at, h->point[h->count - 1].at_ms));
    else if (!t->known)
        (void)fputs("drift unknown", out);
    if (s->last_of[i] < 0 || !t->known)
        return;
    (void)fputs("drifts ", out);
    page_thousandths(out, t->ppb.lo);
    (void)fputs(" to ", out);
    page_thousandths(out, t->ppb.hi);
    (void)fputs(" ppm", out);
    if (t->to_ms > t->from_ms)
        (void)fprintf(out, " (over %s%s)", skew_span(span, t->to_ms - t->from_ms),
                      t->bent ? "; otherwise before" : "");
}

static void put_host(const skew_story *s, size_t i, FILE *out) {
    const past_host *h = &s->past->host[i];

    (void)fputs("<div class=\"row\"><div class=\"what\"><b>", out);
    page_text(out, h->name);
    (void)fputs("</b><span>", out);
    put_drift(s, i, out);
    (void)fputs("</span></div>", out);
    put_chart(s, h, out);
    (void)fputs("</div>\n", out);
}

static void put_hosts(const skew_story *s, FILE *out) {
    size_t shown = 0, all = 0;

    for (size_t i = 0; i < s->past->hosts; i++)
        all += s->past->host[i].count > 0;
    if (all == 0)
        return;
    page_open(out, "Each host's clock over time",
              "The host's clock less the server's was within the band. Grey: no evidence. The "
              "dashed line is the server's clock.");
    put_ends(s, out);
    for (size_t i = 0; i < s->past->hosts; i++) {
        if (s->past->host[i].count == 0)
            continue;
        if (shown++ == PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%zu more hosts</summary>\n", all - PAGE_HOSTS);
        put_host(s, i, out);
    }
    if (all > PAGE_HOSTS)
        (void)fputs("</details>\n", out);
    page_close(out);
}

/* ---- the page ---------------------------------------------------------------------------------------- */

static void put_outlook(const skew_story *s, FILE *out) {
    char words[STORY_WORDS];
    const skew_past *p = s->past;

    page_open(out, "Time to unsafe", NULL);
    (void)fputs("<p>", out);
    page_text(out, story_outlook(s, words));
    (void)fprintf(out, ".</p>\n<p class=\"dim\">From %zu run%s", p->runs, p->runs == 1 ? "" : "s");
    if (p->dropped)
        (void)fprintf(out, "; %lld older ones left out", (long long)p->dropped);
    if (p->skipped)
        (void)fprintf(out, "; %lld lines skipped", (long long)p->skipped);
    (void)fputs(".</p>\n", out);
    page_close(out);
}

void story_html(const skew_story *s, FILE *out) {
    const skew_result *last = &s->past->last;
    char title[64];

    (void)snprintf(title, sizeof title, "%s: clocks and locks over time",
                   skew_verdict_name(last->verdict));
    page_begin(out, title);
    page_verdict(out, last);
    put_outlook(s, out);
    put_history(s, out);
    put_hosts(s, out);
    page_heat(out, last);
    page_pairs(out, last);
    page_end(out);
}
