/*
 * The result for people: each host's clock, who could steal whose lock, and last, where it is seen
 * on any terminal, the verdict and what to do. It says what it leaves out for want of room.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_show.h"

#define MATRIX_MOST 8 /* hosts side by side; more are told as a list */
#define LIST_MOST 20
#define LABEL_MOST 24 /* of a row of the matrix */
#define COLUMN_LEAST 11
#define COLUMN_MOST 15
#define NUMBER 11 /* a column of numbers, with the space before it */
#define DRIFT 17
#define AGE 9
#define HOSTS_LEAST 4 /* lines: a head, a host, how many are left out, what their names end in */
#define PAIRS_LEAST 4

typedef struct {
    const skew_result *r;
    FILE *out;
    int columns;             /* 0: no limit */
    int *host;               /* those that are shown, in their order */
    int hosts;               /* so many of them */
    bool *chosen;            /* of each host, whether it is among them */
    const skew_pair **worst; /* all pairs: by which a theft is possible, then by which one may be */
} sheet;

/* ---- numbers, names and lines ----------------------------------------------------------------- */

/* Of the columns, for each of so many names; 0: no limit. */
static int left_of(const sheet *s, int others, int names) {
    int left = (s->columns - others) / names;
    return s->columns == 0 ? 0 : left < 1 ? 1 : left;
}

static void put_name(const sheet *s, const skew_names *n, int i, int width) {
    char name[SKEW_NAME_SIZE];
    (void)fprintf(s->out, "%-*s", width, skew_name_of(n, i, name));
}

/* The end of a line, of which a part is left out where there is no room for it. */
static void put_rest(const sheet *s, int used, const char *text) {
    int len = (int)strlen(text), room = s->columns ? s->columns - used : len;

    if (len > room && room > 2)
        (void)fprintf(s->out, "%.*s..\n", room - 2, text);
    else
        (void)fprintf(s->out, "%s\n", len > room ? "" : text);
}

/* Words, up to the right edge; lines but the first begin with so many spaces. */
static void put_wrapped(FILE *out, const char *text, int indent, int columns) {
    int at = 0;

    for (bool first = true; *text; first = false) {
        int word = (int)strcspn(text, " ");
        if (!first && columns && at + 1 + word > columns) {
            (void)fprintf(out, "\n%*s", indent, "");
            at = indent;
        } else if (!first) {
            (void)fputc(' ', out);
            at++;
        }
        (void)fprintf(out, "%.*s", word, text);
        at += word;
        text += word;
        text += strspn(text, " ");
    }
    (void)fputc('\n', out);
}

/* ---- hosts ------------------------------------------------------------------------------------ */

static bool any_drift(const skew_result *r) {
    for (int i = 0; i < r->host_count; i++)
        if (r->hosts[i].known && r->hosts[i].has_drift)
            return true;
    return false;
}

static bool any_missing(const skew_result *r) {
    for (int i = 0; i < r->host_count; i++)
        if (r->hosts[i].missing)
            return true;
    return false;
}

static void put_drift(const sheet *s, const skew_host *h) {
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], text[2 * SKEW_NUMBER_SIZE + 8] = "-";
    int decimals = skew_decimals(h->drift_ppb);

    if (h->known && h->has_drift)
        (void)snprintf(text, sizeof text, "%s to %s", skew_down(lo, h->drift_ppb.lo, decimals),
                       skew_up(hi, h->drift_ppb.hi, decimals));
    (void)fprintf(s->out, " %*s", DRIFT - 1, text);
}

/* By which instrument, and what is not as it should be. */
static const char *origin(const skew_host *h, char buf[SKEW_DETAIL_SIZE + 64]) {
    bool plain = h->known && h->kind == SKEW_CLOCK && !h->missing && !h->unsteady;

    if (h->self)
        (void)snprintf(buf, SKEW_DETAIL_SIZE + 64, "%s%s", h->known && !plain ? "" : "this host",
                       plain      ? ""
                       : h->known ? ""
                                  : ": ");
    else
        (void)snprintf(buf, SKEW_DETAIL_SIZE + 64, "%s%s%s", h->instrument,
                       h->missing ? ", missing" : "", plain ? "" : ": ");
    size_t n = strlen(buf);
    (void)snprintf(buf + n, SKEW_DETAIL_SIZE + 64 - n, "%s", plain ? "" : h->detail);
    return buf;
}

static void put_host_row(const sheet *s, const skew_names *names, int i, int width, bool drifts) {
    const skew_host *h = &s->r->hosts[i];
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], age[SKEW_SPAN_SIZE] = "-",
                                                     by[SKEW_DETAIL_SIZE + 64];
    int decimals = skew_decimals(h->offset), used = width + NUMBER + 2;

    put_name(s, names, i, width);
    if (!h->known) {
        (void)fprintf(s->out, " %*s  ", NUMBER - 1, "unknown");
        put_rest(s, used, origin(h, by));
        return;
    }
    (void)fprintf(s->out, " %*s %*s", NUMBER - 1, skew_aligned(lo, h->offset.lo, decimals, false),
                  NUMBER - 1, skew_aligned(hi, h->offset.hi, decimals, true));
    if (drifts)
        put_drift(s, h);
    if (h->age_ms >= 0)
        (void)skew_span(age, h->age_ms);
    (void)fprintf(s->out, " %*s  ", AGE - 1, age);
    put_rest(s, used + NUMBER + (drifts ? DRIFT : 0) + AGE, origin(h, by));
}

static void put_host_table(const sheet *s) {
    static const char title[] = "clock less server's";
    const skew_result *r = s->r;
    bool drifts = any_drift(r);
    int others = 2 * NUMBER + (drifts ? DRIFT : 0) + AGE + 2 +
                 (int)strlen(any_missing(r) ? "agent, missing" : "this host"),
        left_out = r->host_count - s->hosts;
    skew_names names = skew_names_in(r, left_of(s, others, 1));
    int width = skew_names_longest(&names, (int)strlen(title));

    (void)fprintf(s->out, "%-*s %*s %*s", width, title, NUMBER - 1, "from, ms", NUMBER - 1,
                  "to, ms");
    if (drifts)
        (void)fprintf(s->out, " %*s", DRIFT - 1, "drift, ppm");
    (void)fprintf(s->out, " %*s  by\n", AGE - 1, "age");
    for (int i = 0; i < s->hosts; i++)
        put_host_row(s, &names, s->host[i], width, drifts);
    if (GUARD(left_out_is_said) && left_out > 0)
        (void)fprintf(s->out, "... and %d host%s more, in no worse pair; --json has all\n",
                      left_out, left_out == 1 ? "" : "s");
    if (names.suffix)
        (void)fprintf(s->out, ".. at the end of a name: %s\n", names.suffix);
}

/* ---- pairs ------------------------------------------------------------------------------------ */

static const skew_pair *pair_of(const skew_result *r, int holder, int taker) {
    for (size_t i = 0; i < r->pair_count; i++)
        if (r->pairs[i].holder == holder && r->pairs[i].taker == taker)
            return &r->pairs[i];
    return NULL;
}

static void put_legend(const sheet *s) {
    bool seen[128] = {false};

    for (size_t i = 0; i < s->r->pair_count; i++)
        seen[(int)skew_mark(s->r, &s->r->pairs[i])] = true;
    (void)fprintf(s->out, "slack %lld ms%s%s", (long long)(s->r->rule.slack_us / 1000),
                  seen['!'] ? "  ! theft is possible" : "",
                  seen['?'] ? "  ? can't be ruled out" : "");
    if (seen['~'])
        (void)fprintf(s->out, "  ~ over %d%% of the slack", (int)s->r->rule.warn_percent);
    (void)fputc('\n', s->out);
}

/* As many decimals for all as the pair has that is known best. */
static int matrix_decimals(const skew_result *r) {
    int most = 0;
    for (size_t i = 0; i < r->pair_count; i++) {
        int n = skew_decimals(r->pairs[i].gap);
        most = n > most ? n : most;
    }
    return most;
}

static int matrix_width(const skew_result *r) {
    char number[SKEW_NUMBER_SIZE];
    int most = COLUMN_LEAST, decimals = matrix_decimals(r);

    for (size_t i = 0; i < r->pair_count; i++) {
        int n = (int)strlen(skew_up(number, r->pairs[i].gap.hi, decimals)) +
                3; /* space, sign, mark */
        most = n > most ? n : most;
    }
    return most;
}

static int count_columns(const skew_result *r) {
    int n = 0;
    for (int i = 0; i < r->host_count; i++)
        n += skew_is_clock(r->hosts[i].kind);
    return n;
}

/* How wide a column can be; 0: the matrix has no room. */
static int matrix_column(const skew_result *r, int columns) {
    int n = count_columns(r), need = matrix_width(r), room = COLUMN_MOST;

    if (n == 0 || n > MATRIX_MOST)
        return 0;
    if (columns)
        room = (columns - LABEL_MOST / 2) / n;
    if (room < need)
        return 0;
    return room < COLUMN_MOST ? room : need > COLUMN_MOST ? need : COLUMN_MOST;
}

static void put_gap(const sheet *s, int holder, int taker, int width, int decimals) {
    const skew_pair *p = pair_of(s->r, holder, taker);
    char number[SKEW_NUMBER_SIZE], cell[SKEW_NUMBER_SIZE + 8];

    if (p) {
        (void)skew_up(number, p->gap.hi, decimals);
        (void)snprintf(cell, sizeof cell, "%s%s%c", number[0] == '-' ? "" : "+", number,
                       skew_mark(s->r, p));
    } else {
        (void)snprintf(cell, sizeof cell, "%s ", holder == taker ? "." : "unknown");
    }
    (void)fprintf(s->out, "%*s", width, cell);
}

static void put_matrix(const sheet *s, int column) {
    static const char corner[] = "holder \\ taker";
    const skew_result *r = s->r;
    int decimals = matrix_decimals(r), n = count_columns(r),
        label = s->columns ? s->columns - n * column : LABEL_MOST;
    char name[SKEW_NAME_SIZE];

    label = label > LABEL_MOST ? LABEL_MOST : label;
    skew_names rows = skew_names_in(r, label), heads = skew_names_in(r, column - 2);
    label = skew_names_longest(&rows, label < (int)strlen(corner) ? label : (int)strlen(corner));
    (void)fprintf(
        s->out,
        "By how many ms a taker's clock (columns) is ahead of a holder's (rows), at most:\n");
    (void)fprintf(s->out, "%-*.*s", label, label, corner);
    for (int t = 0; t < r->host_count; t++)
        if (skew_is_clock(r->hosts[t].kind))
            (void)fprintf(s->out, "%*s ", column - 1, skew_name_of(&heads, t, name));
    (void)fputc('\n', s->out);
    for (int h = 0; h < r->host_count; h++) {
        if (!skew_is_clock(r->hosts[h].kind))
            continue;
        put_name(s, &rows, h, label);
        for (int t = 0; t < r->host_count; t++)
            if (skew_is_clock(r->hosts[t].kind))
                put_gap(s, h, t, column, decimals);
        (void)fputc('\n', s->out);
    }
    put_legend(s);
}

static void put_list(const sheet *s, size_t most) {
    const skew_result *r = s->r;
    size_t n = r->pair_count < most ? r->pair_count : most;
    skew_names names = skew_names_in(r, left_of(s, 2 * NUMBER + 3, 2));
    int width = skew_names_longest(&names, 6);
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE];

    (void)fprintf(s->out, "%-*s %-*s %*s %*s\n", width, "holder", width, "taker, ahead", NUMBER - 1,
                  "from, ms", NUMBER - 1, "to, ms");
    for (size_t i = 0; i < n; i++) {
        const skew_pair *p = s->worst[i];
        int decimals = skew_decimals(p->gap);
        put_name(s, &names, p->holder, width + 1);
        put_name(s, &names, p->taker, width);
        (void)fprintf(s->out, " %*s %*s%c\n", NUMBER - 1,
                      skew_aligned(lo, p->gap.lo, decimals, false), NUMBER - 1,
                      skew_aligned(hi, p->gap.hi, decimals, true), skew_mark(r, p));
    }
    if (r->pair_count > n)
        (void)fprintf(s->out, "... and %zu pairs more, none of them worse; --json has all\n",
                      r->pair_count - n);
    put_legend(s);
}

/* ---- the verdict ------------------------------------------------------------------------------ */

/* What it has cost, the verdict, what to do. */
static void put_verdict(const skew_result *r, int columns, FILE *out) {
    char line[SKEW_REASON_SIZE + 16];

    if (r->cost) {
        (void)snprintf(line, sizeof line, "%s.", r->cost);
        put_wrapped(out, line, 0, columns);
    }
    (void)snprintf(line, sizeof line, "%s: %s", skew_verdict_name(r->verdict), r->reason);
    put_wrapped(out, line, 2, columns);
    for (int i = 0; i < r->advices; i++) {
        (void)snprintf(line, sizeof line, "- %s", r->advice[i]);
        put_wrapped(out, line, 2, columns);
    }
}

static int count_lines(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- what there is room for ------------------------------------------------------------------- */

static void pick(sheet *s, int i, int most) {
    if (s->hosts < most && !s->chosen[i]) {
        s->chosen[i] = true;
        s->hosts++;
    }
}

/* First the worst pair's, then those that nothing is known of, then the next pairs'; order kept. */
static void pick_hosts(sheet *s, int most) {
    const skew_result *r = s->r;
    int n = 0;

    if (r->pair_count) {
        pick(s, s->worst[0]->holder, most);
        pick(s, s->worst[0]->taker, most);
    }
    for (int i = 0; i < r->host_count; i++)
        if (!r->hosts[i].known || r->hosts[i].missing || r->hosts[i].unsteady)
            pick(s, i, most);
    for (size_t i = 0; i < r->pair_count && s->hosts < most; i++) {
        pick(s, s->worst[i]->holder, most);
        pick(s, s->worst[i]->taker, most);
    }
    for (int i = 0; i < r->host_count; i++)
        pick(s, i, most);
    for (int i = 0; i < r->host_count; i++)
        if (s->chosen[i])
            s->host[n++] = i;
}

/* Both tables, in so many lines; 0: as many as they take. */
static void put_tables(sheet *s, int lines) {
    const skew_result *r = s->r;
    int clocks = count_columns(r), column = r->pair_count ? matrix_column(r, s->columns) : 0,
        pairs = r->pair_count == 0 ? 0
                : column           ? clocks + 3
                         : (int)(r->pair_count < LIST_MOST ? r->pair_count : LIST_MOST) + 3,
        hosts = r->host_count + 2, between = pairs > 0;

    if (GUARD(tables_fit_terminal) && lines && hosts + between + pairs > lines) {
        int half = (lines - between) / 2;
        pairs = pairs < half ? pairs : hosts < half ? lines - between - hosts : half;
        if (pairs < PAIRS_LEAST)
            pairs = between = 0;
        hosts = lines - between - pairs;
        if (column && pairs < clocks + 3)
            column = 0;
    }
    if (hosts >= HOSTS_LEAST || hosts >= r->host_count + 2) {
        pick_hosts(s, lines && hosts < r->host_count + 2 ? hosts - 3 : r->host_count);
        put_host_table(s);
        if (pairs)
            (void)fputc('\n', s->out);
    }
    if (pairs && column)
        put_matrix(s, column);
    else if (pairs)
        put_list(s, (size_t)(pairs - 3));
}

static bool order_pairs(sheet *s) {
    const skew_result *r = s->r;
    size_t n = 0;

    s->worst = calloc(r->pair_count + 1, sizeof *s->worst);
    if (!s->worst)
        return false;
    for (int unsafe = 1; unsafe >= 0; unsafe--)
        for (size_t i = 0; i < r->pair_count; i++)
            if ((r->pairs[i].verdict == SKEW_UNSAFE) == unsafe)
                s->worst[n++] = &r->pairs[i];
    return true;
}

static bool begin_sheet(sheet *s) {
    s->host = calloc((size_t)s->r->host_count + 1, sizeof *s->host);
    s->chosen = calloc((size_t)s->r->host_count + 1, sizeof *s->chosen);
    return order_pairs(s) && s->host && s->chosen;
}

static void end_sheet(sheet *s) {
    free(s->host);
    free(s->chosen);
    free(s->worst);
}

void skew_show_screen(const skew_result *r, int columns, int rows, FILE *out) {
    sheet s = {.r = r, .out = out, .columns = columns};
    char *verdict = NULL;
    size_t len = 0;
    FILE *last = open_memstream(&verdict, &len);

    if (last)
        put_verdict(r, columns, last);
    bool whole = last && fclose(last) == 0;
    if (begin_sheet(&s) && whole && r->host_count) {
        int room = rows - 2 - count_lines(verdict); /* a blank line, and one for the prompt */
        if (rows == 0 || room >= HOSTS_LEAST) {
            put_tables(&s, rows ? room : 0);
            (void)fputc('\n', out);
        }
    }
    if (whole)
        (void)fputs(verdict, out);
    else
        put_verdict(r, columns, out);
    free(verdict);
    end_sheet(&s);
}

void skew_show_text(const skew_result *r, FILE *out) {
    skew_show_screen(r, 0, 0, out);
}
