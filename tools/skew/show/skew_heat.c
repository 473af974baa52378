/*
 * The matrix of all pairs: rows hold, columns take, both in the same order. Up to some dozens of
 * hosts it is a table. Its cells have figures, marks and texts, and on a small screen it scrolls in
 * its own box. For more hosts it is a drawing, in which neighbours of one kind form one shape.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/show/skew_page.h"

#define NUMBERS_MOST 24 /* hosts; with more, cells have only marks */
#define CELLS_MOST 64   /* hosts; with more, it is a drawing */
#define NAME_LEAST 20   /* letters of a name; more if needed to keep all names distinct */
#define NAME_MOST 30
#define WIDTH 900.0 /* units of the drawing */

typedef struct {
    const skew_result *result;
    const skew_pair **pair; /* [holder * hosts + taker] */
    int *order, count;      /* the clocks, which form the pairs */
    skew_names names;
} heat;

static bool begin(heat *ret, const skew_result *result) {
    size_t n = (size_t)result->host_count;

    *ret = (heat){
        .result = result, .pair = calloc(n * n, sizeof(void *)), .order = calloc(n, sizeof(int))};
    if (!ret->pair || !ret->order)
        return false;
    for (size_t i = 0; i < result->pair_count; i++)
        ret->pair[(size_t)result->pairs[i].holder * n + (size_t)result->pairs[i].taker] =
            &result->pairs[i];
    skew_order(result, ret->order);
    while (ret->count < result->host_count &&
           skew_is_clock(result->hosts[ret->order[ret->count]].kind))
        ret->count++;
    return true;
}

static void end(heat *heat) {
    free(heat->pair);
    free(heat->order);
}

static const skew_pair *pair_at(const heat *heat, int row, int column) {
    return heat->pair[(size_t)heat->order[row] * (size_t)heat->result->host_count +
                      (size_t)heat->order[column]];
}

static const skew_host *host_at(const heat *heat, int i) {
    return &heat->result->hosts[heat->order[i]];
}

/* ---- the table ------------------------------------------------------------------------------------ */

/* Chooses the shortest names that stay distinct. */
static void cut_names(heat *heat) {
    int width = NAME_LEAST;

    do
        heat->names = skew_names_in(heat->result, width);
    while (heat->names.alike && ++width <= NAME_MOST);
}

static void put_head(const heat *heat, FILE *out) {
    (void)fputs("<thead><tr><th class=\"axes\">takes it &rarr;<br>holds it &darr;</th>", out);
    for (int i = 0; i < heat->count; i++) {
        (void)fputs("<th class=\"col\" scope=\"col\">", out);
        page_name(out, "span", &heat->names, heat->order[i]);
        (void)fputs("</span></th>", out);
    }
    (void)fputs("</tr></thead>\n", out);
}

/* In s if ms would have too many digits. */
static void put_number(FILE *out, const skew_pair *pair, int64_t slack_us) {
    char buf[SKEW_NUMBER_SIZE];
    bool seconds = llabs(pair->gap.hi) >= 100000000;

    if (seconds)
        page_number(out, skew_up(buf, pair->gap.hi / 1000 + (pair->gap.hi > 0), 0));
    else
        page_number(out, skew_up(buf, pair->gap.hi, skew_decimals_beyond(pair->gap, slack_us)));
    (void)fputs(seconds ? "&nbsp;s" : "", out);
}

static void put_words(const heat *heat, int row, int column, const skew_pair *pair, FILE *out) {
    char buf[SKEW_NUMBER_SIZE];

    page_text(out, host_at(heat, row)->name);
    (void)fputs(" holds, ", out);
    page_text(out, host_at(heat, column)->name);
    (void)fputs(" takes: ", out);
    if (pair) {
        int decimals = skew_decimals_beyond(pair->gap, heat->result->rule.slack_us);
        page_number(out, skew_down(buf, pair->gap.lo, decimals));
        (void)fputs(" to ", out);
        page_number(out, skew_up(buf, pair->gap.hi, decimals));
        (void)fputs(" ms ahead, ", out);
    }
    page_text(out, page_kind_of(heat->result, pair).message);
}

static void put_cell(const heat *heat, int row, int column, FILE *out) {
    const skew_pair *pair = pair_at(heat, row, column);
    page_kind kind = page_kind_of(heat->result, pair);
    bool number = heat->count <= NUMBERS_MOST && pair;

    if (row == column) {
        (void)fputs("<td>&middot;</td>", out);
        return;
    }
    (void)fprintf(out, "<td class=\"%s%s\"", kind.look,
                  pair && pair == heat->result->pairs ? " worst" : "");
    if (number || (pair && *kind.mark)) {
        (void)fputs(" title=\"", out);
        put_words(heat, row, column, pair, out);
        (void)fputc('"', out);
    }
    (void)fputc('>', out);
    if (number)
        put_number(out, pair, heat->result->rule.slack_us);
    (void)fprintf(out, "%s%s</td>", number && *kind.mark ? "&#8239;" : "", kind.mark);
}

static void put_holder(const heat *heat, int row, FILE *out) {
    const skew_host *host = host_at(heat, row);

    (void)fputs("<th scope=\"row\">", out);
    page_name(out, "span", &heat->names, heat->order[row]);
    (void)fputs("</span>", out);
    if (host->self || host->missing)
        (void)fprintf(out, " <span class=\"tag\">%s</span>", host->self ? "this host" : "missing");
    (void)fputs("</th>", out);
}

static void put_table(heat *heat, FILE *out) {
    cut_names(heat);
    (void)fprintf(out, "<div class=\"box\"><table class=\"heat%s\">\n",
                  heat->count <= NUMBERS_MOST ? "" : " small");
    put_head(heat, out);
    (void)fputs("<tbody>", out);
    for (int row = 0; row < heat->count; row++) {
        (void)fputs("<tr>", out);
        put_holder(heat, row, out);
        for (int column = 0; column < heat->count; column++)
            put_cell(heat, row, column, out);
        (void)fputs("</tr>\n", out);
    }
    (void)fputs("</tbody></table></div>\n", out);
    if (heat->names.suffix) {
        (void)fputs("<p class=\"dim\">&ldquo;..&rdquo; at the end of a name stands for ", out);
        page_text(out, heat->names.suffix);
        (void)fputs("</p>\n", out);
    }
}

/* ---- the drawing ---------------------------------------------------------------------------------- */

static bool is_kind(const heat *heat, int row, int column, const char *look) {
    return row != column &&
           strcmp(page_kind_of(heat->result, pair_at(heat, row, column)).look, look) == 0;
}

/* All cells of a kind as one path, neighbours in a row joined. */
static void put_kind(const heat *heat, const char *look, FILE *out) {
    double cell = WIDTH / heat->count;

    (void)fprintf(out, "<path class=\"%s\" d=\"", look);
    for (int row = 0; row < heat->count; row++)
        for (int from = 0, to; from < heat->count; from = to) {
            for (to = from; to < heat->count && is_kind(heat, row, to, look);)
                to++;
            if (to > from)
                (void)fprintf(out, "M%.2f %.2fh%.2fv%.2fh-%.2fz", from * cell, row * cell,
                              (to - from) * cell, cell, (to - from) * cell);
            else
                to++;
        }
    (void)fputs("\"/>\n", out);
}

static void put_drawing(const heat *heat, FILE *out) {
    static const char *const looks[] = {"s0", "s1", "s2", "s3", "t", "w", "u", "n"};

    (void)fprintf(out,
                  "<p class=\"dim\">Of %d hosts, without their names: rows from top to bottom and "
                  "columns from left to right are in the order of the list below. &darr; holds it, "
                  "&rarr; takes it.</p><svg class=\"heat\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                  "aria-label=\"holders from top to bottom, takers from left to right\">\n",
                  heat->count, WIDTH, WIDTH);
    for (size_t i = 0; i < sizeof looks / sizeof *looks; i++)
        put_kind(heat, looks[i], out);
    (void)fputs("</svg>\n", out);
}

/* ---- both ----------------------------------------------------------------------------------------- */

static void put_key(FILE *out, const skew_result *result) {
    char number[SKEW_NUMBER_SIZE];
    int warn = result->rule.warn_percent,
        shades = result->rule.slack_us <= 0 ? 0 : (warn + 24) / 25;

    (void)fputs("<p class=\"dim\">What a pair uses of the slack of ", out);
    page_number(out, skew_exact(number, result->rule.slack_us));
    (void)fputs(", at most:</p><ul class=\"key\">", out);
    for (int i = 0; i < shades; i++)
        (void)fprintf(out, "<li><i class=\"s%d\"></i>%d&nbsp;%%</li>", i,
                      25 * (i + 1) < warn ? 25 * (i + 1) : warn);
    if (result->rule.slack_us > 0 && warn < 100)
        (void)fprintf(out, "<li><i class=\"t\">~</i>more than %d&nbsp;%%: little is left</li>",
                      warn);
    (void)fputs(
        "<li><i class=\"w\">?</i>perhaps more than 100&nbsp;%: theft can&rsquo;t be ruled out</li>"
        "<li><i class=\"u\">!</i>more than 100&nbsp;%: theft is possible</li>"
        "<li><i class=\"n\">&ndash;</i>no evidence, or not kept</li></ul>\n",
        out);
}

void page_heat(FILE *out, const skew_result *result) {
    heat heat;

    if (result->pair_count == 0)
        return;
    page_open(
        out, "Hosts that could steal each other's locks",
        "Each row holds a lock, each column takes it. A cell says by how many ms the clock of "
        "the one that takes is ahead of the holder's, at most. Both are in one order, from "
        "the clock furthest ahead to the one furthest behind, so that the worst is on the "
        "lower left.");
    if (begin(&heat, result)) {
        if (heat.count <= CELLS_MOST)
            put_table(&heat, out);
        else
            put_drawing(&heat, out);
    }
    end(&heat);
    put_key(out, result);
    page_close(out);
}
