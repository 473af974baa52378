/*
 * The matrix of all pairs: rows hold, columns take, both in the same order. Up to some dozens of
 * hosts it is a table. Its cells have figures, marks and texts, and on a small screen it scrolls in
 * its own box. For more hosts it is a drawing, in which neighbours of one kind form one shape. A
 * page has too few dots for thousands of hosts: a line of the drawing then stands for several.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_worst.h"
#include "skew/show/skew_page.h"

#define NUMBERS_MOST 24 /* hosts; with more, cells have only marks */
#define CELLS_MOST 64   /* hosts; with more, it is a drawing */
#define NAME_LEAST 20   /* letters of a name; more if needed to keep all names distinct */
#define NAME_MOST 30
#define WIDTH 900.0     /* units of the drawing */
#define LINES_MOST 1000 /* of the drawing */

typedef struct {
    const skew_result *result;
    int *order, count; /* the clocks, which form the pairs */
    skew_pair *pair;   /* of the present row: the pair with each host as the taker */
    bool *there;       /* for each: is there such a pair? */
    skew_names names;
} heat;

static bool begin(heat *ret, const skew_result *result) {
    size_t n = (size_t)result->host_count;

    *ret = (heat){.result = result,
                  .order = calloc(n, sizeof *ret->order),
                  .pair = calloc(n, sizeof *ret->pair),
                  .there = calloc(n, sizeof *ret->there)};
    if (!ret->pair || !ret->order || !ret->there)
        return false;
    skew_order(result, ret->order);
    while (ret->count < result->host_count &&
           skew_is_clock(result->hosts[ret->order[ret->count]].kind))
        ret->count++;
    return true;
}

static void end(heat *heat) {
    free(heat->order);
    free(heat->pair);
    free(heat->there);
}

/* Finds the pairs of a holder. Of a log line only those that it lists are known. */
static void read_row(const heat *heat, int row) {
    const skew_result *result = heat->result;
    int holder = heat->order[row];

    for (int i = 0; i < result->host_count; i++)
        heat->there[i] = result->gaps && skew_judge_pair(result, holder, i, &heat->pair[i]);
    for (size_t i = 0; i < result->pair_count && !result->gaps; i++)
        if (result->pairs[i].holder == holder) {
            heat->pair[result->pairs[i].taker] = result->pairs[i];
            heat->there[result->pairs[i].taker] = true;
        }
}

/* Of the row that was read; NULL: none. */
static const skew_pair *pair_in(const heat *heat, int column) {
    int taker = heat->order[column];
    return heat->there[taker] ? &heat->pair[taker] : NULL;
}

static bool is_worst(const skew_result *result, const skew_pair *pair) {
    return pair && pair->holder == result->pairs->holder && pair->taker == result->pairs->taker;
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
    const skew_pair *pair = pair_in(heat, column);
    page_kind kind = page_kind_of(heat->result, pair);
    bool number = heat->count <= NUMBERS_MOST && pair;

    if (row == column) {
        (void)fputs("<td>&middot;</td>", out);
        return;
    }
    (void)fprintf(out, "<td class=\"%s%s\"", kind.look,
                  is_worst(heat->result, pair) ? " worst" : "");
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
        read_row(heat, row);
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

/* In the order in which they hide others in the same cell. 0: nothing is drawn. */
static const char *const looks[] = {"", "s0", "s1", "s2", "s3", "n", "t", "w", "u"};
#define LOOKS (sizeof looks / sizeof *looks)

typedef struct {
    int lines, hosts;    /* hosts: of a line, but for the last */
    unsigned char *look; /* [row * lines + column] */
} drawing;

static unsigned char look_of(const heat *heat, int column) {
    const char *look = page_kind_of(heat->result, pair_in(heat, column)).look;
    unsigned char i = 1;

    while (i < LOOKS - 1 && strcmp(looks[i], look) != 0)
        i++;
    return i;
}

/* Each cell has the worst kind of its pairs. */
static void draw_row(const heat *heat, drawing *drawing, int row) {
    unsigned char *line = &drawing->look[(size_t)(row / drawing->hosts) * (size_t)drawing->lines];

    read_row(heat, row);
    for (int column = 0; column < heat->count; column++) {
        unsigned char look = row == column ? 0 : look_of(heat, column),
                      *cell = &line[column / drawing->hosts];
        *cell = look > *cell ? look : *cell;
    }
}

/* All cells of a kind as one path, neighbours in a row joined. */
static void put_kind(const drawing *drawing, unsigned char look, FILE *out) {
    double cell = WIDTH / drawing->lines;

    (void)fprintf(out, "<path class=\"%s\" d=\"", looks[look]);
    for (int row = 0; row < drawing->lines; row++) {
        const unsigned char *line = &drawing->look[(size_t)row * (size_t)drawing->lines];
        for (int from = 0, to; from < drawing->lines; from = to) {
            for (to = from; to < drawing->lines && line[to] == look;)
                to++;
            if (to > from)
                (void)fprintf(out, "M%.2f %.2fh%.2fv%.2fh-%.2fz", from * cell, row * cell,
                              (to - from) * cell, cell, (to - from) * cell);
            else
                to++;
        }
    }
    (void)fputs("\"/>\n", out);
}

static void put_drawing(const heat *heat, FILE *out) {
    static const unsigned char order[] = {1, 2, 3, 4, 6, 7, 8, 5};
    drawing drawing = {.hosts = (heat->count + LINES_MOST - 1) / LINES_MOST};

    drawing.lines = (heat->count + drawing.hosts - 1) / drawing.hosts;
    drawing.look = calloc((size_t)drawing.lines, (size_t)drawing.lines);
    if (!drawing.look)
        return;
    for (int row = 0; row < heat->count; row++)
        draw_row(heat, &drawing, row);
    (void)fprintf(out,
                  "<p class=\"dim\">Of %d hosts, without their names: rows from top to bottom and "
                  "columns from left to right are in the order of the list below. &darr; holds it, "
                  "&rarr; takes it.",
                  heat->count);
    if (drawing.hosts > 1)
        (void)fprintf(out,
                      " Each line stands for %d neighbours, and each cell shows the worst of their "
                      "pairs.",
                      drawing.hosts);
    (void)fprintf(out,
                  "</p><svg class=\"heat\" viewBox=\"0 0 %.0f %.0f\" role=\"img\" "
                  "aria-label=\"holders from top to bottom, takers from left to right\">\n",
                  WIDTH, WIDTH);
    for (size_t i = 0; i < sizeof order; i++)
        put_kind(&drawing, order[i], out);
    (void)fputs("</svg>\n", out);
    free(drawing.look);
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
