/*
 * The result for people: the verdict and why, each host's clock, and who could rob whom.
 */
#include <stdlib.h>
#include <string.h>

#include "skew_show.h"

#define MATRIX_MOST 8 /* hosts side by side; more are told as a list */
#define LIST_MOST 20

static const char *shown(char buf[32], int64_t us) {
    unsigned long long a = (unsigned long long)llabs(us);
    (void)snprintf(buf, 32, "%s%llu.%03llu", us < 0 ? "-" : "+", a / 1000, a % 1000);
    return buf;
}

static void put_hosts(const skew_result *r, FILE *out) {
    char lo[32], hi[32];

    (void)fprintf(out, "\n%-24s %12s %12s  %-20s %9s  %s\n", "host", "from ms", "to ms",
                  "drift ppm", "age ms", "by");
    for (int i = 0; i < r->host_count; i++) {
        const skew_host *h = &r->hosts[i];
        char drift[64] = "-", age[32] = "-";
        if (h->known && h->has_drift)
            (void)snprintf(drift, sizeof drift, "%s %s", shown(lo, h->drift_ppb.lo),
                           shown(hi, h->drift_ppb.hi));
        if (h->age_ms >= 0)
            (void)snprintf(age, sizeof age, "%lld", (long long)h->age_ms);
        (void)fprintf(out, "%-24s %12s %12s  %-20s %9s  %s", h->name,
                      h->known ? shown(lo, h->offset.lo) : "unknown",
                      h->known ? shown(hi, h->offset.hi) : "", drift, age, h->instrument);
        if (h->known && h->kind == SKEW_CLOCK && !h->missing)
            (void)fputc('\n', out);
        else
            (void)fprintf(out, ": %s\n", h->detail);
    }
    (void)fputs("A host's clock less the server's lies between the two.\n", out);
}

static const skew_pair *pair_of(const skew_result *r, int holder, int taker) {
    for (size_t i = 0; i < r->pair_count; i++)
        if (r->pairs[i].holder == holder && r->pairs[i].taker == taker)
            return &r->pairs[i];
    return NULL;
}

static char mark(skew_verdict v) {
    return v == SKEW_SAFE ? ' ' : v == SKEW_WARN ? '?' : '!';
}

static void put_matrix(const skew_result *r, FILE *out) {
    char hi[32];

    (void)fprintf(out, "\n%-16s", "holder\\taker");
    for (int t = 0; t < r->host_count; t++)
        if (skew_is_clock(r->hosts[t].kind))
            (void)fprintf(out, " %13.12s", r->hosts[t].name);
    (void)fputc('\n', out);
    for (int h = 0; h < r->host_count; h++) {
        if (!skew_is_clock(r->hosts[h].kind))
            continue;
        (void)fprintf(out, "%-16.16s", r->hosts[h].name);
        for (int t = 0; t < r->host_count; t++) {
            if (!skew_is_clock(r->hosts[t].kind))
                continue;
            const skew_pair *p = pair_of(r, h, t);
            (void)fprintf(out, " %12s%c",
                          p        ? shown(hi, p->gap.hi)
                          : h == t ? "."
                                   : "unknown",
                          p ? mark(p->verdict) : ' ');
        }
        (void)fputc('\n', out);
    }
}

static void put_list(const skew_result *r, FILE *out) {
    char lo[32], hi[32];

    (void)fprintf(out, "\n%-24s %-24s %12s %12s\n", "holder", "taker", "from ms", "to ms");
    for (size_t i = 0; i < r->pair_count && i < LIST_MOST; i++) {
        const skew_pair *p = &r->pairs[i];
        (void)fprintf(out, "%-24s %-24s %12s %12s%c\n", r->hosts[p->holder].name,
                      r->hosts[p->taker].name, shown(lo, p->gap.lo), shown(hi, p->gap.hi),
                      mark(p->verdict));
    }
    if (r->pair_count > LIST_MOST)
        (void)fprintf(out, "... and %zu more; --json has them all\n", r->pair_count - LIST_MOST);
}

void skew_show_text(const skew_result *r, FILE *out) {
    char slack[32];

    (void)fprintf(out, "%s: %s\n", skew_verdict_name(r->verdict), r->reason);
    for (int i = 0; i < r->advices; i++)
        (void)fprintf(out, "  %s\n", r->advice[i]);
    if (r->host_count)
        put_hosts(r, out);
    if (r->cost)
        (void)fprintf(out, "%s.\n", r->cost);
    if (r->pair_count == 0)
        return;
    bool few = r->host_count <= MATRIX_MOST;
    if (few)
        put_matrix(r, out);
    else
        put_list(r, out);
    (void)fprintf(
        out,
        "By how many ms the taker's clock is ahead, at most; the slack is %s.  ! theft is "
        "certain  ? can't be ruled out\n",
        shown(slack, r->rule.slack_us) + 1 * (r->rule.slack_us >= 0));
}
