/*
 * One result as a page: the verdict, the heat map, the worst pairs, each host's clock.
 */
#include <stdlib.h>

#include "skew_page.h"
#include "skew_show.h"

#define SPAN 1000.0 /* units of a bar's width */

/* What the bars show: from the clock that is furthest behind to the one furthest ahead, and 0. */
static tl_interval reach(const skew_result *r) {
    tl_interval all = {0, 0};
    for (int i = 0; i < r->host_count; i++) {
        const skew_host *h = &r->hosts[i];
        if (h->known && h->offset.lo < all.lo)
            all.lo = h->offset.lo;
        if (h->known && h->offset.hi > all.hi)
            all.hi = h->offset.hi;
    }
    if (all.lo == all.hi)
        all.hi = 1;
    return all;
}

static double place(tl_interval all, int64_t us) {
    return ((double)us - (double)all.lo) / ((double)all.hi - (double)all.lo) * (SPAN - 12) + 6;
}

static void put_words(FILE *out, const skew_host *h) {
    (void)fputs("<div class=\"what\"><b>", out);
    page_text(out, h->name);
    (void)fputs("</b><span>", out);
    if (h->known) {
        page_thousandths(out, h->offset.lo);
        (void)fputs(" to ", out);
        page_thousandths(out, h->offset.hi);
        (void)fputs(" ms", out);
    } else {
        (void)fputs("&ndash; no evidence", out);
    }
    (void)fputs("</span></div>", out);
}

static void put_bar(FILE *out, const skew_host *h, tl_interval all) {
    double zero = place(all, 0);

    (void)fprintf(out,
                  "<svg class=\"plot bar\" viewBox=\"0 0 1000 14\" preserveAspectRatio=\"none\" "
                  "aria-hidden=\"true\"><path class=\"zero\" d=\"M%.1f 0v14\"/>",
                  zero);
    if (h->known) {
        double from = place(all, h->offset.lo), width = place(all, h->offset.hi) - from;
        if (width < 8) { /* to be seen at all */
            from -= (8 - width) / 2;
            width = 8;
        }
        (void)fprintf(out, "<rect class=\"band\" x=\"%.1f\" y=\"2\" width=\"%.1f\" height=\"10\"/>",
                      from, width);
    } else {
        (void)fputs("<rect class=\"none\" width=\"1000\" height=\"14\"/>", out);
    }
    (void)fputs("</svg>", out);
}

static void put_details(FILE *out, const skew_host *h) {
    char age[SKEW_SPAN_SIZE];

    (void)fputs("<small>by ", out);
    page_text(out, h->instrument);
    if (h->age_ms >= 0)
        (void)fprintf(out, ", %s old", skew_span(age, h->age_ms));
    if (h->known && h->has_drift) {
        (void)fputs(", drifts ", out);
        page_thousandths(out, h->drift_ppb.lo);
        (void)fputs(" to ", out);
        page_thousandths(out, h->drift_ppb.hi);
        (void)fputs(" ppm", out);
    }
    if (h->detail[0]) {
        (void)fputs("; ", out);
        page_text(out, h->detail);
    }
    (void)fputs("</small>", out);
}

/* Those without evidence first, then from ahead to behind. */
static int by_need(const void *a, const void *b) {
    const skew_host *x = *(const skew_host *const *)a, *y = *(const skew_host *const *)b;
    if (x->known != y->known)
        return x->known - y->known;
    if (x->known && x->offset.hi != y->offset.hi)
        return x->offset.hi < y->offset.hi ? 1 : -1;
    return (x > y) - (x < y);
}

static void put_rows(FILE *out, const skew_result *r, const skew_host **host) {
    tl_interval all = reach(r);

    (void)fputs("<div class=\"ends\"><span>", out);
    page_thousandths(out, all.lo);
    (void)fputs(" ms</span><span>", out);
    page_thousandths(out, all.hi);
    (void)fputs(" ms</span></div>\n", out);
    for (int i = 0; i < r->host_count; i++) {
        if (i == PAGE_HOSTS)
            (void)fprintf(out, "<details><summary>%d more hosts</summary>\n",
                          r->host_count - PAGE_HOSTS);
        (void)fputs("<div class=\"row\">", out);
        put_words(out, host[i]);
        put_bar(out, host[i], all);
        put_details(out, host[i]);
        (void)fputs("</div>\n", out);
    }
    if (r->host_count > PAGE_HOSTS)
        (void)fputs("</details>\n", out);
}

static void put_hosts(FILE *out, const skew_result *r) {
    const skew_host **host = calloc((size_t)r->host_count + 1, sizeof(void *));

    if (r->host_count == 0 || !host) {
        free(host);
        return;
    }
    for (int i = 0; i < r->host_count; i++)
        host[i] = &r->hosts[i];
    qsort(host, (size_t)r->host_count, sizeof(void *), by_need);
    page_open(out, "Each host's clock",
              "The host's clock less the server's is within the bar. The dashed line is the "
              "server's clock.");
    put_rows(out, r, host);
    page_close(out);
    free(host);
}

void skew_show_html(const skew_result *r, FILE *out) {
    char title[64];

    (void)snprintf(title, sizeof title, "%s: clocks and locks", skew_verdict_name(r->verdict));
    page_begin(out, title);
    page_verdict(out, r);
    page_heat(out, r);
    page_pairs(out, r);
    put_hosts(out, r);
    page_end(out);
}
