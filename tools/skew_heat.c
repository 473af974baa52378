/*
 * The matrix of all pairs as a heat map. Holders whose locks are most easily stolen are on top, takers
 * that are furthest ahead on the left, so that the worst pair is in the corner. Up to some dozens of hosts
 * each cell says what it is when it is pointed at; beyond, cells of a kind are one shape.
 */
#include <stdlib.h>
#include <string.h>

#include "skew_page.h"

#define WIDTH 360           /* units; the page shows them as wide as it has room */
#define CELL_MOST 64        /* units */
#define NUMBERS_MOST 7      /* hosts: with more, cells have signs alone */
#define CELLS_APART_MOST 48 /* hosts: with more, cells of a kind are joined */
#define LABELS_MOST 48
#define LABEL_CHARS 13

enum { S0, S1, S2, S3, WARN, UNSAFE, NONE, KINDS };
static const char *const kinds[KINDS] = {"s0", "s1", "s2", "s3", "w", "u", "n"};

typedef struct {
    const skew_result *r;
    const skew_pair **pair; /* [holder * hosts + taker] */
    int n;
    int *holder, *taker; /* n of them, in the order of rows and columns */
    int64_t *as_holder, *as_taker;
    double cell, font, left, top;
} heat;

/* ---- order -------------------------------------------------------------------------------------- */

/* The clocks that pairs are of, worst first; how many. */
static int choose(const skew_result *r, int *order, const int64_t *worst) {
    int n = 0;

    for (int i = 0; i < r->host_count; i++)
        if (skew_is_clock(r->hosts[i].kind))
            order[n++] = i;
    for (int i = 1; i < n; i++) { /* few, and in order mostly */
        int x = order[i], at = i;
        for (; at > 0 && worst[order[at - 1]] < worst[x]; at--)
            order[at] = order[at - 1];
        order[at] = x;
    }
    return n;
}

static bool begin(heat *m, const skew_result *r) {
    size_t n = (size_t)r->host_count;

    *m = (heat){.r = r};
    m->pair = calloc(n * n, sizeof(void *));
    m->holder = calloc(n, sizeof *m->holder);
    m->taker = calloc(n, sizeof *m->taker);
    m->as_holder = calloc(n, sizeof *m->as_holder);
    m->as_taker = calloc(n, sizeof *m->as_taker);
    if (!m->pair || !m->holder || !m->taker || !m->as_holder || !m->as_taker)
        return false;
    for (size_t i = 0; i < n; i++)
        m->as_holder[i] = m->as_taker[i] = INT64_MIN;
    for (size_t i = 0; i < r->pair_count; i++) {
        const skew_pair *p = &r->pairs[i];
        m->pair[(size_t)p->holder * n + (size_t)p->taker] = p;
        if (p->gap.hi > m->as_holder[p->holder])
            m->as_holder[p->holder] = p->gap.hi;
        if (p->gap.hi > m->as_taker[p->taker])
            m->as_taker[p->taker] = p->gap.hi;
    }
    m->n = choose(r, m->holder, m->as_holder);
    (void)choose(r, m->taker, m->as_taker);
    return true;
}

static void end(heat *m) {
    free(m->pair);
    free(m->holder);
    free(m->taker);
    free(m->as_holder);
    free(m->as_taker);
}

static const skew_pair *pair_at(const heat *m, int row, int column) {
    size_t hosts = (size_t)m->r->host_count;
    return m->pair[(size_t)m->holder[row] * hosts + (size_t)m->taker[column]];
}

static int kind_of(const heat *m, int row, int column) {
    const skew_pair *p = pair_at(m, row, column);

    if (m->holder[row] == m->taker[column])
        return -1;
    if (!p)
        return NONE;
    if (p->verdict != SKEW_SAFE)
        return p->verdict == SKEW_UNSAFE ? UNSAFE : WARN;
    for (int part = 1; part < 4; part++)
        if (p->gap.hi <= m->r->rule.slack_us / 4 * part)
            return part - 1;
    return S3;
}

/* ---- drawing -------------------------------------------------------------------------------------- */

static int label_length(const heat *m) {
    size_t most = 6;
    for (int i = 0; i < m->r->host_count; i++)
        if (strlen(m->r->hosts[i].name) > most)
            most = strlen(m->r->hosts[i].name);
    return most > LABEL_CHARS ? LABEL_CHARS : (int)most;
}

static void measure(heat *m) {
    m->left = 6;
    if (m->n <= LABELS_MOST) {
        m->font = m->n <= 10 ? 11 : 9;
        m->left = label_length(m) * m->font * 0.62 + 8;
        double room = (WIDTH - m->left) / m->n;
        if (room < m->font) { /* then names are as small as the cells */
            m->font = room;
            m->left = label_length(m) * m->font * 0.62 + 8;
        }
    }
    m->cell = (WIDTH - m->left) / m->n;
    if (m->cell > CELL_MOST)
        m->cell = CELL_MOST;
    m->top = m->left;
}

static void put_label(FILE *out, const char *name) {
    char text[LABEL_CHARS + 1];

    (void)snprintf(text, sizeof text, "%.*s", LABEL_CHARS, name);
    if (strlen(name) > LABEL_CHARS)
        text[LABEL_CHARS - 1] = '\0';
    page_text(out, text);
    if (strlen(name) <= LABEL_CHARS)
        return;
    (void)fputs("&hellip;<title>", out);
    page_text(out, name);
    (void)fputs("</title>", out);
}

static void put_labels(const heat *m, FILE *out) {
    for (int i = 0; m->n <= LABELS_MOST && i < m->n; i++) {
        double at = m->left + (i + 0.5) * m->cell;
        (void)fprintf(out,
                      "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"end\" "
                      "dominant-baseline=\"central\">",
                      m->left - 4, at, m->font);
        put_label(out, m->r->hosts[m->holder[i]].name);
        (void)fprintf(out,
                      "</text><text transform=\"translate(%.1f %.1f) rotate(-90)\" "
                      "font-size=\"%.1f\" dominant-baseline=\"central\">",
                      at, m->top - 4, m->font);
        put_label(out, m->r->hosts[m->taker[i]].name);
        (void)fputs("</text>\n", out);
    }
}

/* In as few characters as a cell has room for. */
static void put_number(FILE *out, int64_t us) {
    int64_t a = llabs(us);
    const char *sign = us < 0 ? "&minus;" : "";

    if (a < 99950)
        (void)fprintf(out, "%s%lld.%lld", sign, (long long)(a / 1000), (long long)(a % 1000 / 100));
    else if (a < 9999500)
        (void)fprintf(out, "%s%lld", sign, (long long)(a / 1000));
    else
        (void)fprintf(out, "%s%lld s", sign, (long long)(a / 1000000));
}

static void put_cell_text(const heat *m, int kind, const skew_pair *p, double x, double y,
                          FILE *out) {
    const char *sign = kind == UNSAFE ? "!" : kind == WARN ? "?" : kind == NONE ? "&ndash;" : "";
    bool number = m->n <= NUMBERS_MOST && p;

    if (!number && !*sign)
        return;
    double font = number ? 11 : m->cell * 0.7 > 11 ? 11 : m->cell * 0.7;
    (void)fprintf(out,
                  "<text x=\"%.1f\" y=\"%.1f\" font-size=\"%.1f\" text-anchor=\"middle\" "
                  "dominant-baseline=\"central\" class=\"on-%s\">",
                  x + m->cell / 2, y + m->cell / 2, font,
                  kind == UNSAFE ? "u"
                  : kind == WARN ? "w"
                                 : "s");
    if (number)
        put_number(out, p->gap.hi);
    (void)fprintf(out, "%s%s</text>", number && *sign ? " " : "", sign);
}

static void put_cell(const heat *m, int row, int column, FILE *out) {
    int kind = kind_of(m, row, column);
    const skew_pair *p = pair_at(m, row, column);
    double x = m->left + column * m->cell, y = m->top + row * m->cell;

    if (kind < 0)
        return;
    (void)fprintf(out, "<g><title>");
    page_text(out, m->r->hosts[m->holder[row]].name);
    (void)fputs(" holds, ", out);
    page_text(out, m->r->hosts[m->taker[column]].name);
    (void)fputs(" takes: ", out);
    if (p) {
        page_thousandths(out, p->gap.lo);
        (void)fputs(" to ", out);
        page_thousandths(out, p->gap.hi);
        (void)fprintf(out, " ms, %s", skew_verdict_name(p->verdict));
    } else {
        (void)fputs("no evidence", out);
    }
    (void)fprintf(out,
                  "</title><rect x=\"%.2f\" y=\"%.2f\" width=\"%.2f\" height=\"%.2f\" class=\"c "
                  "%s\"%s/>",
                  x, y, m->cell, m->cell, kinds[kind],
                  kind == UNSAFE ? " style=\"fill:url(#hatch)\"" : "");
    put_cell_text(m, kind, p, x, y, out);
    (void)fputs("</g>\n", out);
}

/* All cells of a kind as one path, neighbours in a row joined. */
static void put_kind(const heat *m, int kind, FILE *out) {
    (void)fprintf(out, "<path class=\"%s\"%s d=\"", kinds[kind],
                  kind == UNSAFE ? " style=\"fill:url(#hatch)\"" : "");
    for (int row = 0; row < m->n; row++)
        for (int from = 0, to; from < m->n; from = to) {
            for (to = from; to < m->n && kind_of(m, row, to) == kind;)
                to++;
            if (to > from)
                (void)fprintf(out, "M%.2f %.2fh%.2fv%.2fh-%.2fz", m->left + from * m->cell,
                              m->top + row * m->cell, (to - from) * m->cell, m->cell,
                              (to - from) * m->cell);
            else
                to++;
        }
    (void)fputs("\"/>\n", out);
}

static void put_key(const skew_result *r, FILE *out) {
    static const char *const words[KINDS] = {"up to 25&nbsp;% of the slack",
                                             "up to 50&nbsp;%",
                                             "up to 75&nbsp;%",
                                             "up to 100&nbsp;%",
                                             "<b>?</b> theft can&rsquo;t be ruled out",
                                             "<b>!</b> theft is certain",
                                             "<b>&ndash;</b> no evidence, or not kept"};

    (void)fputs("<ul class=\"key\">", out);
    for (int i = r->rule.slack_us > 0 ? S0 : WARN; i < KINDS; i++)
        (void)fprintf(out,
                      "<li><svg viewBox=\"0 0 18 18\" aria-hidden=\"true\"><rect width=\"18\" "
                      "height=\"18\" class=\"%s\"%s/></svg>%s</li>",
                      kinds[i], i == UNSAFE ? " style=\"fill:url(#hatch)\"" : "", words[i]);
    (void)fputs("</ul>\n", out);
}

static void draw(const heat *m, FILE *out) {
    double width = m->left + m->n * m->cell + 1, height = m->top + m->n * m->cell + 1;

    (void)fprintf(out,
                  "<svg class=\"heat\" viewBox=\"0 0 %.1f %.1f\" style=\"max-width:%.0fpx\" "
                  "role=\"img\" aria-label=\"holders from top to bottom, takers from left to "
                  "right\">\n",
                  width, height, width * (m->n <= 10 ? 1.6 : 2.4));
    put_labels(m, out);
    for (int row = 0; m->n <= CELLS_APART_MOST && row < m->n; row++)
        for (int column = 0; column < m->n; column++)
            put_cell(m, row, column, out);
    for (int kind = S0; m->n > CELLS_APART_MOST && kind < KINDS; kind++)
        put_kind(m, kind, out);
    (void)fputs("</svg>\n", out);
}

void page_heat(FILE *out, const skew_result *r) {
    heat m;

    if (r->pair_count == 0)
        return;
    page_open(out, "Who could take whose lock",
              "Rows hold a lock, columns take it; the worst pair is in the upper left corner. A "
              "cell says by how many ms the taker's clock is ahead, at most.");
    if (begin(&m, r)) {
        measure(&m);
        draw(&m, out);
    }
    end(&m);
    put_key(r, out);
    page_close(out);
}
