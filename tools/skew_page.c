/*
 * The frame of a page. Names and details come from whoever may write to the server, so that all text is
 * escaped, and the page forbids itself scripts and outside resources besides.
 */
#include <stdlib.h>
#include <string.h>

#include "skew_page.h"
#include "skew_show.h"

/* Blue, amber and red differ in lightness too, so that no kind of colour blindness joins them; hatching
 * and signs say the same. */
static const char style[] =
    ":root{color-scheme:light dark;--bg:#f4f6f9;--card:#fff;--fg:#1a2330;--dim:#566373;--line:#d8dee6;"
    "--safe:#0b62a8;--warn:#8a5a00;--unsafe:#ab1e27;--unknown:#566373;--band:#0b62a8;"
    "--s0:#e4f0fa;--s1:#c2ddf3;--s2:#92c3e8;--s3:#5fa7dc;--w:#f6c244;--u:#ab1e27;--n:#e3e7ec;"
    "--on-s:#12202e;--on-w:#2b1d00;--on-u:#fff}"
    "@media(prefers-color-scheme:dark){:root{--bg:#10151c;--card:#19212b;--fg:#e7edf4;--dim:#9fadbd;"
    "--line:#313d4b;--safe:#6ab7f5;--warn:#f0b53c;--unsafe:#ff8583;--unknown:#9fadbd;--band:#6ab7f5;"
    "--s0:#17304a;--s1:#1b4468;--s2:#205a8a;--s3:#2871ab;--w:#e0a72b;--u:#cf3238;--n:#2a3441;"
    "--on-s:#f2f7fc;--on-w:#221700;--on-u:#fff}}"
    "*{box-sizing:border-box}"
    "body{margin:0;background:var(--bg);color:var(--fg);font:15px/1.45 system-ui,sans-serif;"
    "overflow-wrap:anywhere}"
    "main{max-width:60rem;margin:0 auto;padding:1rem .75rem 3rem}"
    "section,header{background:var(--card);border:1px solid var(--line);border-radius:.6rem;"
    "padding:1rem;margin:0 0 1rem}"
    "header{border-left:.5rem solid var(--mark)}"
    ".safe{--mark:var(--safe)}.warn{--mark:var(--warn)}.unsafe{--mark:var(--unsafe)}"
    ".unknown{--mark:var(--unknown)}"
    "h1{display:flex;align-items:center;gap:.6rem;margin:0 0 .4rem;font-size:1.7rem;line-height:1.1;"
    "color:var(--mark)}h1 svg{width:2.2rem;height:2.2rem;flex:none}"
    "h2{margin:0 0 .3rem;font-size:1.1rem}p{margin:.3rem 0}"
    ".dim,small{color:var(--dim);font-size:.85rem}"
    ".do{margin:.6rem 0 .2rem;padding:.5rem .7rem;background:var(--bg);border-radius:.4rem}"
    ".sign{width:1em;height:1em;vertical-align:-.12em;color:var(--mark)}"
    "table{border-collapse:collapse;width:100%;font-size:.9rem;font-variant-numeric:tabular-nums}"
    "th,td{text-align:left;padding:.3rem .5rem .3rem 0;border-top:1px solid var(--line);"
    "vertical-align:top}th{border:0;color:var(--dim);font-weight:600}"
    "td b{color:var(--mark)}.num{white-space:nowrap}"
    ".heat{display:block;width:100%;height:auto;margin:.6rem auto}"
    ".heat text{fill:var(--fg);font-family:system-ui,sans-serif}"
    ".c{stroke:var(--card);stroke-width:1}.s0{fill:var(--s0)}.s1{fill:var(--s1)}.s2{fill:var(--s2)}"
    ".s3{fill:var(--s3)}.w{fill:var(--w)}.u{fill:var(--u)}.n{fill:var(--n)}.d{fill:none}"
    ".heat .on-s{fill:var(--on-s)}.heat .on-w{fill:var(--on-w)}.heat .on-u{fill:var(--on-u)}"
    ".hatch{stroke:var(--on-u);stroke-opacity:.45;stroke-width:1.2}"
    ".key{display:flex;flex-wrap:wrap;gap:.3rem 1rem;margin:.4rem 0 0;padding:0;list-style:none;"
    "font-size:.85rem}.key svg{width:1.1rem;height:1.1rem;vertical-align:-.25rem;margin-right:.35rem}"
    ".row{padding:.45rem 0 .5rem;border-top:1px solid var(--line)}.row:first-of-type{border:0}"
    ".what{display:flex;flex-wrap:wrap;justify-content:space-between;gap:0 1rem}"
    ".what span{font-variant-numeric:tabular-nums;color:var(--dim);font-size:.88rem}"
    ".plot{display:block;width:100%;background:var(--bg);border-radius:.25rem;margin:.2rem 0}"
    ".bar{height:14px}.chart{height:84px}.strip{height:34px}"
    ".band{fill:var(--band)}.zero{stroke:var(--dim);stroke-width:1;vector-effect:non-scaling-stroke;"
    "stroke-dasharray:3 3}.none{fill:var(--unknown);fill-opacity:.28}"
    ".f-safe{fill:var(--safe)}.f-warn{fill:var(--w)}.f-unsafe{fill:var(--u)}"
    ".f-unknown{fill:none;stroke:var(--unknown);vector-effect:non-scaling-stroke}"
    ".ends{display:flex;justify-content:space-between;gap:1rem;color:var(--dim);font-size:.8rem}"
    "@media(max-width:34rem){th{display:none}tr{display:flex;flex-wrap:wrap;gap:0 .7rem;"
    "padding:.35rem 0;border-top:1px solid var(--line)}td{border:0;padding:.05rem 0}"
    "tr:first-child{border:0}.to::before{content:\"\\2192  \"}}"
    "summary{cursor:pointer;padding:.5rem 0;color:var(--safe)}";

void page_text(FILE *out, const char *text) {
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '&')
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

void page_thousandths(FILE *out, int64_t v) {
    unsigned long long a = (unsigned long long)llabs(v);
    (void)fprintf(out, "%s%llu.%03llu", v < 0 ? "&minus;" : "+", a / 1000, a % 1000);
}

const char *page_class(skew_verdict v) {
    static const char *const names[] = {"safe", "warn", "unsafe", "unknown"};
    return names[v];
}

void page_begin(FILE *out, const char *title) {
    (void)fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">"
                "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
                "style-src 'unsafe-inline'\"><title>",
                out);
    page_text(out, title);
    (void)fprintf(out, "</title><style>%s</style></head>\n<body><main>\n", style);
    /* The signs, drawn once: a tick in a disc, a triangle, an octagon, a dashed ring. */
    (void)fputs(
        "<svg width=\"0\" height=\"0\" style=\"position:absolute\" aria-hidden=\"true\"><defs>"
        "<symbol id=\"safe\" viewBox=\"0 0 24 24\"><circle cx=\"12\" cy=\"12\" r=\"11\" "
        "fill=\"currentColor\"/><path d=\"M6.5 12.5l4 4 7-8.5\" fill=\"none\" "
        "stroke=\"var(--card)\" stroke-width=\"2.6\"/></symbol>"
        "<symbol id=\"warn\" viewBox=\"0 0 24 24\"><path d=\"M12 1.5L23.5 22.5H.5z\" "
        "fill=\"currentColor\"/><path d=\"M12 8.5v7m0 2v2.6\" stroke=\"var(--card)\" "
        "stroke-width=\"2.6\"/></symbol>"
        "<symbol id=\"unsafe\" viewBox=\"0 0 24 24\"><path d=\"M7.5.8h9l6.7 6.7v9l-6.7 "
        "6.7h-9L.8 16.5v-9z\" fill=\"currentColor\"/><path d=\"M7.5 7.5l9 9m0-9l-9 9\" "
        "stroke=\"var(--card)\" stroke-width=\"2.8\"/></symbol>"
        "<symbol id=\"unknown\" viewBox=\"0 0 24 24\"><circle cx=\"12\" cy=\"12\" r=\"10\" "
        "fill=\"none\" stroke=\"currentColor\" stroke-width=\"2.4\" stroke-dasharray=\"4 "
        "2.3\"/><path d=\"M7 12h10\" stroke=\"currentColor\" stroke-width=\"2.6\"/></symbol>"
        "<pattern id=\"hatch\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" "
        "patternTransform=\"rotate(45)\"><rect width=\"6\" height=\"6\" class=\"u\"/><path "
        "d=\"M0 0v6\" class=\"hatch\"/></pattern></defs></svg>\n",
        out);
}

void page_end(FILE *out) {
    (void)fputs(
        "<p class=\"dim\">Made by tidelock skew. Intervals hold the truth; only their edges "
        "are compared.</p>\n</main></body></html>\n",
        out);
}

void page_sign(FILE *out, skew_verdict v) {
    (void)fprintf(out,
                  "<svg class=\"sign %s\" role=\"img\" aria-label=\"%s\"><use href=\"#%s\"/></svg>",
                  page_class(v), skew_verdict_name(v), page_class(v));
}

static void put_seconds(FILE *out, int64_t us) {
    unsigned long long a = (unsigned long long)llabs(us) / 1000;
    (void)fprintf(out, "%s%llu.%03llu s", us < 0 ? "&minus;" : "", a / 1000, a % 1000);
}

void page_verdict(FILE *out, const skew_result *r) {
    char at[SKEW_TIME_SIZE];

    (void)fprintf(
        out,
        "<header class=\"%s\"><h1><svg aria-hidden=\"true\"><use href=\"#%s\"/></svg>%s</h1>\n<p>",
        page_class(r->verdict), page_class(r->verdict), skew_verdict_name(r->verdict));
    page_text(out, r->reason);
    (void)fputs("</p>\n", out);
    for (int i = 0; i < r->advices; i++) {
        (void)fputs("<p class=\"do\"><b>What to do:</b> ", out);
        page_text(out, r->advice[i]);
        (void)fputs("</p>\n", out);
    }
    (void)fputs("<p class=\"dim\">", out);
    if (r->at_ms)
        (void)fprintf(out, "%s &middot; ", skew_time(at, r->at_ms));
    (void)fprintf(out, "%d hosts &middot; locks live ", r->host_count);
    put_seconds(out, r->rule.lock_timeout_us);
    (void)fputs(" &middot; slack ", out);
    put_seconds(out, r->rule.slack_us);
    (void)fputs("</p></header>\n", out);
}

void page_open(FILE *out, const char *heading, const char *words) {
    (void)fputs("<section><h2>", out);
    page_text(out, heading);
    (void)fputs("</h2>\n", out);
    if (!words)
        return;
    (void)fputs("<p class=\"dim\">", out);
    page_text(out, words);
    (void)fputs("</p>\n", out);
}

void page_close(FILE *out) {
    (void)fputs("</section>\n", out);
}

void page_pairs(FILE *out, const skew_result *r) {
    if (r->pair_count == 0)
        return;
    page_open(out, "The worst pairs",
              "By how much the taker's clock is ahead of the holder's, in ms, with what it may "
              "drift in a lock's life.");
    (void)fputs("<table><tr><th>holder</th><th>taker</th><th>ahead, ms</th><th></th></tr>\n", out);
    for (size_t i = 0; i < r->pair_count && i < PAGE_PAIRS; i++) {
        const skew_pair *p = &r->pairs[i];
        (void)fprintf(out, "<tr class=\"%s\"><td>", page_class(p->verdict));
        page_text(out, r->hosts[p->holder].name);
        (void)fputs("</td><td class=\"to\">", out);
        page_text(out, r->hosts[p->taker].name);
        (void)fputs("</td><td><span class=\"num\">", out);
        page_thousandths(out, p->gap.lo);
        (void)fputs("</span> to <span class=\"num\">", out);
        page_thousandths(out, p->gap.hi);
        (void)fputs("</span></td><td class=\"num\"><b>", out);
        page_sign(out, p->verdict);
        (void)fprintf(out, " %s</b></td></tr>\n", skew_verdict_name(p->verdict));
    }
    (void)fputs("</table>\n", out);
    if (r->pair_count > PAGE_PAIRS)
        (void)fprintf(out, "<p class=\"dim\">and %zu more</p>\n", r->pair_count - PAGE_PAIRS);
    page_close(out);
}
