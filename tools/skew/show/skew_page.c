/*
 * The frame of a page. Any client of the server can write names and details, so all text is
 * escaped. The page forbids itself outside resources and all scripts but its own.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ground/guard.h"
#include "skew/show/skew_groups.h"
#include "skew/show/skew_look.h"
#include "skew/show/skew_page.h"
#include "skew/show/skew_show.h"

#define AGAIN_LEAST_S 30 /* s; a page that reloads more often can't be read */
#define LACKING_MOST 12  /* hosts without evidence named beside the verdict */

/* ---- texts and figures ---------------------------------------------------------------------------- */

void page_text(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (!GUARD(text_is_no_markup))
            (void)fputc(c, out);
        else if (c == '&')
            (void)fputs("&amp;", out);
        else if (c == '<')
            (void)fputs("&lt;", out);
        else if (c == '>')
            (void)fputs("&gt;", out);
        else if (c == '"')
            (void)fputs("&quot;", out);
        else if (c == '\'')
            (void)fputs("&#39;", out);
        else
            (void)fputc(c < 0x20 || c > 0x7e ? '?' : c, out);
    }
}

void page_name(FILE *out, const char *element, const skew_names *names, int host) {
    char text[SKEW_NAME_SIZE];
    const char *whole = names->result->hosts[host].name;

    (void)fprintf(out, "<%s", element);
    if (strcmp(skew_name_of(names, host, text), whole) != 0) {
        (void)fputs(" title=\"", out);
        page_text(out, whole);
        (void)fputc('"', out);
    }
    (void)fputc('>', out);
    page_text(out, text);
}

void page_number(FILE *out, const char *number) {
    (void)fputs(*number == '-' ? "&minus;" : "", out);
    (void)fputs(number + (*number == '-'), out);
}

void page_between(FILE *out, tl_interval v, int64_t line) {
    char buf[SKEW_NUMBER_SIZE];
    int decimals = skew_decimals_beyond(v, line);

    (void)fputs("<span class=\"num\">", out);
    page_number(out, skew_down(buf, v.lo, decimals));
    (void)fputs("</span> to <span class=\"num\">", out);
    page_number(out, skew_up(buf, v.hi, decimals));
    (void)fputs("</span>", out);
}

void page_time(FILE *out, int64_t at_ms) {
    char at[SKEW_TIME_SIZE], iso[SKEW_TIME_SIZE];
    time_t seconds = (time_t)(at_ms / 1000);
    struct tm parts;

    if (gmtime_r(&seconds, &parts) && strftime(iso, sizeof iso, "%Y-%m-%dT%H:%M:%SZ", &parts))
        (void)fprintf(out, "<time datetime=\"%s\">%s</time>", iso, skew_time(at, at_ms));
    else
        (void)fputs(skew_time(at, at_ms), out);
}

/* ---- the frame ------------------------------------------------------------------------------------ */

const char *page_class(skew_verdict v) {
    static const char *const names[] = {"safe", "warn", "unsafe", "unknown"};
    return names[v];
}

/* For programs that read the page. */
static void put_meta(FILE *out, const skew_result *result) {
    int64_t stale_at_ms = result->at_ms + result->stale_after_ms;

    (void)fprintf(out, "<meta name=\"tidelock-verdict\" content=\"%s\">",
                  skew_verdict_name(result->verdict));
    if (result->at_ms)
        (void)fprintf(out, "<meta name=\"tidelock-at-ms\" content=\"%lld\">",
                      (long long)result->at_ms);
    if (result->at_ms && result->stale_after_ms)
        (void)fprintf(out, "<meta name=\"tidelock-stale-at-ms\" content=\"%lld\">",
                      (long long)stale_at_ms);
    if (result->server[0]) {
        (void)fputs("<meta name=\"tidelock-server\" content=\"", out);
        page_text(out, result->server);
        (void)fputs("\">", out);
    }
    if (result->watch_ms) {
        long long s = (result->watch_ms + 999) / 1000;
        (void)fprintf(out, "<meta http-equiv=\"refresh\" content=\"%lld\">",
                      s > AGAIN_LEAST_S ? s : AGAIN_LEAST_S);
    }
}

/* Hidden until the script finds the page stale; visible from the start if its data are already
 * old. */
static void put_stale(FILE *out, const skew_result *result, int64_t made_ms) {
    char age[SKEW_SPAN_SIZE];
    bool old = result->at_ms && result->stale_after_ms &&
               made_ms > result->at_ms + result->stale_after_ms;

    (void)fprintf(out,
                  "<div id=\"stale\" role=\"alert\"%s><b>Stale:</b> "
                  "<span>",
                  old ? "" : " hidden");
    if (old)
        (void)fprintf(out,
                      "it was made of something measured %s before. Clocks may have moved since, "
                      "so this is no verdict on now.",
                      skew_span(age, made_ms - result->at_ms));
    (void)fputs("</span></div>\n", out);
}

void page_begin(FILE *out, const skew_result *result, const char *what, int64_t made_ms) {
    (void)fprintf(out,
                  "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                  "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                  "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                  "style-src 'unsafe-inline'; script-src 'sha256-%s'\">",
                  skew_look_script_hash);
    put_meta(out, result);
    (void)fprintf(out, "<title>%s: ", skew_verdict_name(result->verdict));
    page_text(out, what);
    (void)fputs(result->server[0] ? ", " : "", out);
    page_text(out, result->server);
    (void)fprintf(out, "</title><style>%s</style></head>\n<body>%s<main", skew_look_style,
                  skew_look_symbols);
    if (result->at_ms && result->stale_after_ms)
        (void)fprintf(out, " data-at=\"%lld\" data-good=\"%lld\"", (long long)result->at_ms,
                      (long long)result->stale_after_ms);
    (void)fputs(">\n", out);
    put_stale(out, result, made_ms);
}

void page_end(FILE *out, const skew_result *result) {
    bool ages = result->at_ms && result->stale_after_ms;

    (void)fprintf(out,
                  "<p class=\"dim\">Made by tidelock skew. All times are UTC. Figures are rounded "
                  "outward: the truth lies between them.</p>\n</main>%s%s%s</body></html>\n",
                  ages ? "<script>" : "", ages ? skew_look_script : "", ages ? "</script>" : "");
}

void page_open(FILE *out, const char *heading, const char *text) {
    (void)fputs("<section><h2>", out);
    page_text(out, heading);
    (void)fputs("</h2>\n", out);
    if (!text)
        return;
    (void)fputs("<p class=\"dim\">", out);
    page_text(out, text);
    (void)fputs("</p>\n", out);
}

void page_close(FILE *out) {
    (void)fputs("</section>\n", out);
}

/* ---- the verdict ---------------------------------------------------------------------------------- */

void page_sign(FILE *out, skew_verdict v) {
    (void)fprintf(out,
                  "<svg class=\"sign %s\" role=\"img\" aria-label=\"%s\"><use href=\"#%s\"/></svg>",
                  page_class(v), skew_verdict_name(v), page_class(v));
}

static bool is_lacking_here(const skew_host *host) {
    return host->missing || (skew_is_clock(host->kind) && !host->known);
}

/* Lists the hosts that aren't measured beside the verdict, not only far below. */
static int put_lacking(FILE *out, const skew_result *result) {
    int n = 0;

    for (int i = 0; i < result->host_count; i++) {
        if (!is_lacking_here(&result->hosts[i]))
            continue;
        if (n < LACKING_MOST) {
            (void)fputs(n ? ", " : "<p><b>Missing, or not measured:</b> ", out);
            page_text(out, result->hosts[i].name);
        }
        n++;
    }
    if (n > LACKING_MOST)
        (void)fprintf(out, " and %d more", n - LACKING_MOST);
    (void)fputs(n ? "</p>\n" : "", out);
    return n;
}

static void put_facts(FILE *out, const skew_result *result, int lacking) {
    char number[SKEW_NUMBER_SIZE];
    int clocks = 0;

    (void)fputs("<dl class=\"facts\">", out);
    if (result->server[0]) {
        (void)fputs("<div><dt>Server</dt><dd>", out);
        page_text(out, result->server);
        (void)fputs("</dd></div>", out);
    }
    if (result->at_ms) {
        (void)fputs("<div><dt>Measured</dt><dd>", out);
        page_time(out, result->at_ms);
        (void)fputs("<span id=\"age\"></span></dd></div>", out);
    }
    if (result->at_ms && result->stale_after_ms) {
        (void)fputs("<div><dt>Stale after</dt><dd>", out);
        page_time(out, result->at_ms + result->stale_after_ms);
        (void)fputs("</dd></div>", out);
    }
    for (int i = 0; i < result->host_count; i++)
        clocks += skew_is_clock(result->hosts[i].kind);
    (void)fprintf(out, "<div><dt>Clocks</dt><dd>%d", clocks);
    if (lacking)
        (void)fprintf(out, ", of which %d missing or not measured", lacking);
    (void)fputs("</dd></div><div><dt>Locks live</dt><dd>", out);
    page_number(out, skew_exact(number, result->rule.lock_timeout_us));
    (void)fputs("</dd></div><div><dt>Slack</dt><dd>", out);
    page_number(out, skew_exact(number, result->rule.slack_us));
    (void)fputs("</dd></div></dl>", out);
}

void page_verdict(FILE *out, const skew_result *result) {
    (void)fprintf(out,
                  "<header class=\"%s\"><h1><svg aria-hidden=\"true\"><use href=\"#%s\"/></svg>"
                  "<span id=\"verdict\">%s</span></h1>\n<p>",
                  page_class(result->verdict), page_class(result->verdict),
                  skew_verdict_name(result->verdict));
    page_text(out, result->reason);
    (void)fputs("</p>\n", out);
    if (result->cause_text[0]) {
        (void)fputs("<p><b>", out);
        page_text(out, result->cause_text);
        (void)fputs("</b></p>\n", out);
    }
    int lacking = put_lacking(out, result);
    for (int i = 0; i < result->advices; i++) {
        (void)fputs("<p class=\"do\"><b>What to do:</b> ", out);
        page_text(out, result->advice[i]);
        (void)fputs("</p>\n", out);
    }
    put_facts(out, result, lacking);
    (void)fputs("</header>\n", out);
}

/* ---- pairs ---------------------------------------------------------------------------------------- */

static bool is_old(const skew_result *result, const skew_pair *pair) {
    return result->hosts[pair->holder].missing || result->hosts[pair->taker].missing;
}

static page_kind safe_kind(const skew_result *result, const skew_pair *pair) {
    static const char *const looks[] = {"s0", "s1", "s2", "s3"};
    int part = 0;

    while (part < 3 && pair->gap.hi > result->rule.slack_us / 4 * (part + 1))
        part++;
    return (page_kind){looks[part], "", "safe"};
}

page_kind page_kind_of(const skew_result *result, const skew_pair *pair) {
    static const page_kind close = {"t", "~", "little slack is left"},
                           doubt = {"w", "?", "theft can't be ruled out"},
                           gone = {"w", "?", "no news any more: theft can't be ruled out"},
                           theft = {"u", "!", "theft is possible"},
                           nothing = {"n", "&ndash;", "no evidence"};

    if (!pair)
        return nothing;
    switch (skew_mark(result, pair)) {
    case ' ': return safe_kind(result, pair);
    case '!': return theft;
    case '~': return close;
    default: return is_old(result, pair) ? gone : doubt;
    }
}

/* A host of a pair, and how many others are in the same place of their group. */
static void put_pair_host(FILE *out, const char *name, int more, const char *what) {
    page_text(out, name);
    if (more > 0)
        (void)fprintf(out, " <small>and %d more %s</small>", more, what);
}

static void put_pair_row(FILE *out, const skew_result *result, const skew_group *group) {
    const skew_pair *pair = group->pair;
    int more = group->count - 1;

    (void)fprintf(out, "<tr class=\"%s\"><td>", page_class(pair->verdict));
    put_pair_host(out, result->hosts[pair->holder].name, group->by_taker ? more : 0, "holders");
    (void)fputs("</td><td class=\"to\">", out);
    put_pair_host(out, result->hosts[pair->taker].name, group->by_taker ? 0 : more, "takers");
    (void)fprintf(out, "</td><td>%s", more > 0 ? "<small>at worst</small> " : "");
    page_between(out, pair->gap, result->rule.slack_us);
    (void)fputs(" ms</td><td><b>", out);
    page_sign(out, pair->verdict);
    (void)fputc(' ', out);
    page_text(out, page_kind_of(result, pair).message);
    (void)fputs("</b></td></tr>\n", out);
}

void page_pairs(FILE *out, const skew_result *result) {
    skew_group group[PAGE_PAIRS];
    int n = skew_groups(result, group, PAGE_PAIRS);
    size_t shown = 0;

    if (n == 0)
        return;
    page_open(out, "The worst pairs",
              "By how much the taker's clock is ahead of the holder's, with what the two may "
              "drift apart in a lock's life. Pairs that one host has alike are one line.");
    (void)fputs("<table class=\"list\"><tr><th>holds the lock</th><th>takes it</th>"
                "<th>is ahead by</th><th></th></tr>\n",
                out);
    for (int i = 0; i < n; i++) {
        put_pair_row(out, result, &group[i]);
        shown += (size_t)group[i].count;
    }
    (void)fputs("</table>\n", out);
    if (result->pairs_total > shown)
        (void)fprintf(out, "<p class=\"dim\">and %zu more pairs, none of them worse</p>\n",
                      result->pairs_total - shown);
    page_close(out);
}
