/*
 * The result for people: each host's clock, the possible thefts, and last, where any terminal shows
 * it, the verdict and what to do. It reports what it leaves out for lack of room.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/show/skew_groups.h"
#include "skew/show/skew_names.h"
#include "skew/show/skew_show.h"

#define MATRIX_MOST 8 /* hosts side by side; more become a list */
#define LIST_MOST 20
#define GROUP 20      /* width of "  4999 holders alike" */
#define LABEL_MOST 24 /* letters of a row's label in the matrix */
#define COLUMN_LEAST 11
#define COLUMN_MOST 15
#define NUMBER 11 /* width of a column of numbers, with the space before it */
#define DRIFT 17
#define AGE 9
#define HOSTS_LEAST 4 /* lines: a head, a host, how many are left out, the common end of names */
#define PAIRS_LEAST 4

typedef struct {
    const skew_result *result;
    FILE *out;
    int columns;             /* 0: no limit */
    int *host;               /* the hosts shown, in order */
    int hosts;               /* number of hosts shown */
    bool *chosen;            /* for each host: is it shown? */
    const skew_pair **worst; /* the pairs: first those with a possible theft, then those in doubt */
    skew_group group[LIST_MOST];
    int groups;
} sheet;

/* ---- numbers, names and lines ----------------------------------------------------------------- */

/* Columns that remain for each of `names` names; 0: no limit. */
static int left_of(const sheet *sheet, int others, int names) {
    int left = (sheet->columns - others) / names;
    return sheet->columns == 0 ? 0 : left < 1 ? 1 : left;
}

static void put_name(const sheet *sheet, const skew_names *names, int i, int width) {
    char name[SKEW_NAME_SIZE];
    (void)fprintf(sheet->out, "%-*s", width, skew_name_of(names, i, name));
}

/* Writes the end of a line, shortened if there is no room. */
static void put_rest(const sheet *sheet, int used, const char *text) {
    int len = (int)strlen(text), room = sheet->columns ? sheet->columns - used : len;

    if (len > room && room > 2)
        (void)fprintf(sheet->out, "%.*s..\n", room - 2, text);
    else
        (void)fprintf(sheet->out, "%s\n", len > room ? "" : text);
}

/* Writes a text, wrapped at the right edge; all lines but the first are indented. */
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

static bool any_drift(const skew_result *result) {
    for (int i = 0; i < result->host_count; i++)
        if (result->hosts[i].known && result->hosts[i].has_drift)
            return true;
    return false;
}

static bool any_missing(const skew_result *result) {
    for (int i = 0; i < result->host_count; i++)
        if (result->hosts[i].missing)
            return true;
    return false;
}

static void put_drift(const sheet *sheet, const skew_host *host) {
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], text[2 * SKEW_NUMBER_SIZE + 8] = "-";
    int decimals = skew_decimals(host->drift_ppb);

    if (host->known && host->has_drift)
        (void)snprintf(text, sizeof text, "%s to %s", skew_down(lo, host->drift_ppb.lo, decimals),
                       skew_up(hi, host->drift_ppb.hi, decimals));
    (void)fprintf(sheet->out, " %*s", DRIFT - 1, text);
}

/* The instrument, and anything wrong. */
static const char *origin(const skew_host *host, char buf[SKEW_DETAIL_SIZE + 64]) {
    bool plain = host->known && host->kind == SKEW_CLOCK && !host->missing && !host->unsteady &&
                 host->alarm == SKEW_NO_ALARM;

    if (host->self)
        (void)snprintf(buf, SKEW_DETAIL_SIZE + 64, "%s%s", host->known && !plain ? "" : "this host",
                       plain         ? ""
                       : host->known ? ""
                                     : ": ");
    else
        (void)snprintf(buf, SKEW_DETAIL_SIZE + 64, "%s%s%s", host->instrument,
                       host->missing ? ", missing" : "", plain ? "" : ": ");
    size_t n = strlen(buf);
    (void)snprintf(buf + n, SKEW_DETAIL_SIZE + 64 - n, "%s", plain ? "" : host->detail);
    return buf;
}

static void put_host_row(const sheet *sheet, const skew_names *names, int i, int width,
                         bool drifts) {
    const skew_host *host = &sheet->result->hosts[i];
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], age[SKEW_SPAN_SIZE] = "-",
                                                     by[SKEW_DETAIL_SIZE + 64];
    int decimals = skew_decimals(host->offset), used = width + NUMBER + 2;

    put_name(sheet, names, i, width);
    if (!host->known) {
        (void)fprintf(sheet->out, " %*s  ", NUMBER - 1, "unknown");
        put_rest(sheet, used, origin(host, by));
        return;
    }
    (void)fprintf(sheet->out, " %*s %*s", NUMBER - 1,
                  skew_aligned(lo, host->offset.lo, decimals, false), NUMBER - 1,
                  skew_aligned(hi, host->offset.hi, decimals, true));
    if (drifts)
        put_drift(sheet, host);
    if (host->age_ms >= 0)
        (void)skew_span(age, host->age_ms);
    (void)fprintf(sheet->out, " %*s  ", AGE - 1, age);
    put_rest(sheet, used + NUMBER + (drifts ? DRIFT : 0) + AGE, origin(host, by));
}

static void put_host_table(const sheet *sheet) {
    static const char title[] = "offset from server";
    const skew_result *result = sheet->result;
    bool drifts = any_drift(result);
    int others = 2 * NUMBER + (drifts ? DRIFT : 0) + AGE + 2 +
                 (int)strlen(any_missing(result) ? "agent, missing" : "this host"),
        left_out = result->host_count - sheet->hosts;
    skew_names names = skew_names_in(result, left_of(sheet, others, 1));
    int width = skew_names_longest(&names, (int)strlen(title));

    (void)fprintf(sheet->out, "%-*s %*s %*s", width, title, NUMBER - 1, "from, ms", NUMBER - 1,
                  "to, ms");
    if (drifts)
        (void)fprintf(sheet->out, " %*s", DRIFT - 1, "drift, ppm");
    (void)fprintf(sheet->out, " %*s  by\n", AGE - 1, "age");
    for (int i = 0; i < sheet->hosts; i++)
        put_host_row(sheet, &names, sheet->host[i], width, drifts);
    if (GUARD(left_out_is_said) && left_out > 0)
        (void)fprintf(sheet->out, "... and %d host%s more, in no worse pair; --json has all\n",
                      left_out, left_out == 1 ? "" : "s");
    if (names.suffix)
        (void)fprintf(sheet->out, ".. at the end of a name: %s\n", names.suffix);
}

/* ---- pairs ------------------------------------------------------------------------------------ */

/* Are all pairs kept? */
static bool is_complete(const skew_result *result) {
    return result->pair_count == result->pairs_total;
}

static const skew_pair *pair_of(const skew_result *result, int holder, int taker) {
    for (size_t i = 0; i < result->pair_count; i++)
        if (result->pairs[i].holder == holder && result->pairs[i].taker == taker)
            return &result->pairs[i];
    return NULL;
}

static void put_legend(const sheet *sheet) {
    bool seen[128] = {false};

    for (size_t i = 0; i < sheet->result->pair_count; i++)
        seen[(int)skew_mark(sheet->result, &sheet->result->pairs[i])] = true;
    (void)fprintf(sheet->out, "slack %lld ms%s%s", (long long)(sheet->result->rule.slack_us / 1000),
                  seen['!'] ? "  ! theft is possible" : "",
                  seen['?'] ? "  ? can't be ruled out" : "");
    if (seen['~'])
        (void)fprintf(sheet->out, "  ~ over %d%% of the slack",
                      (int)sheet->result->rule.warn_percent);
    (void)fputc('\n', sheet->out);
}

/* Decimals for all cells: as many as the most precise pair has. */
static int matrix_decimals(const skew_result *result) {
    int most = 0;
    for (size_t i = 0; i < result->pair_count; i++) {
        int n = skew_decimals(result->pairs[i].gap);
        most = n > most ? n : most;
    }
    return most;
}

static int matrix_width(const skew_result *result) {
    char number[SKEW_NUMBER_SIZE];
    int most = COLUMN_LEAST, decimals = matrix_decimals(result);

    for (size_t i = 0; i < result->pair_count; i++) {
        int n = (int)strlen(skew_up(number, result->pairs[i].gap.hi, decimals)) +
                3; /* space, sign, mark */
        most = n > most ? n : most;
    }
    return most;
}

static int count_columns(const skew_result *result) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++)
        n += skew_is_clock(result->hosts[i].kind);
    return n;
}

/* The width of a column; 0: no room for a matrix. */
static int matrix_column(const skew_result *result, int columns) {
    int n = count_columns(result), room = COLUMN_MOST;

    if (n == 0 || n > MATRIX_MOST)
        return 0;
    int need = matrix_width(result);
    if (columns)
        room = (columns - LABEL_MOST / 2) / n;
    if (room < need)
        return 0;
    return room < COLUMN_MOST ? room : need > COLUMN_MOST ? need : COLUMN_MOST;
}

static void put_gap(const sheet *sheet, int holder, int taker, int width, int decimals) {
    const skew_pair *pair = pair_of(sheet->result, holder, taker);
    char number[SKEW_NUMBER_SIZE], cell[SKEW_NUMBER_SIZE + 8];

    if (pair) {
        (void)skew_up(number, pair->gap.hi, decimals);
        (void)snprintf(cell, sizeof cell, "%s%s%c", number[0] == '-' ? "" : "+", number,
                       skew_mark(sheet->result, pair));
    } else {
        (void)snprintf(cell, sizeof cell, "%s ", holder == taker ? "." : "unknown");
    }
    (void)fprintf(sheet->out, "%*s", width, cell);
}

static void put_matrix(const sheet *sheet, int column) {
    static const char corner[] = "holder \\ taker";
    const skew_result *result = sheet->result;
    int decimals = matrix_decimals(result), n = count_columns(result),
        label = sheet->columns ? sheet->columns - n * column : LABEL_MOST;
    char name[SKEW_NAME_SIZE];

    label = label > LABEL_MOST ? LABEL_MOST : label;
    skew_names rows = skew_names_in(result, label), heads = skew_names_in(result, column - 2);
    label = skew_names_longest(&rows, label < (int)strlen(corner) ? label : (int)strlen(corner));
    (void)fprintf(
        sheet->out,
        "By how many ms a taker's clock (columns) is ahead of a holder's (rows), at most:\n");
    (void)fprintf(sheet->out, "%-*.*s", label, label, corner);
    for (int t = 0; t < result->host_count; t++)
        if (skew_is_clock(result->hosts[t].kind))
            (void)fprintf(sheet->out, "%*s ", column - 1, skew_name_of(&heads, t, name));
    (void)fputc('\n', sheet->out);
    for (int h = 0; h < result->host_count; h++) {
        if (!skew_is_clock(result->hosts[h].kind))
            continue;
        put_name(sheet, &rows, h, label);
        for (int t = 0; t < result->host_count; t++)
            if (skew_is_clock(result->hosts[t].kind))
                put_gap(sheet, h, t, column, decimals);
        (void)fputc('\n', sheet->out);
    }
    put_legend(sheet);
}

/* How many holders the taker has in such pairs, or takers the holder has. */
static void put_group(const skew_group *group, FILE *out) {
    if (group->count > 1)
        (void)fprintf(out, "  %d %s alike", group->count, group->by_taker ? "holders" : "takers");
    (void)fputc('\n', out);
}

static bool any_group(const sheet *sheet) {
    for (int i = 0; i < sheet->groups; i++)
        if (sheet->group[i].count > 1)
            return true;
    return false;
}

static void put_list(const sheet *sheet, int most) {
    const skew_result *result = sheet->result;
    int n = sheet->groups < most ? sheet->groups : most;
    skew_names names = skew_names_in(
        result, left_of(sheet, 2 * NUMBER + 3 + (any_group(sheet) ? GROUP : 0), 2));
    int width = skew_names_longest(&names, 6);
    size_t shown = 0;
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE];

    (void)fprintf(sheet->out, "%-*s %-*s %*s %*s\n", width, "holder", width, "taker, ahead",
                  NUMBER - 1, "from, ms", NUMBER - 1, "to, ms");
    for (int i = 0; i < n; i++) {
        const skew_pair *pair = sheet->group[i].pair;
        int decimals = skew_decimals(pair->gap);
        put_name(sheet, &names, pair->holder, width + 1);
        put_name(sheet, &names, pair->taker, width);
        (void)fprintf(sheet->out, " %*s %*s%c", NUMBER - 1,
                      skew_aligned(lo, pair->gap.lo, decimals, false), NUMBER - 1,
                      skew_aligned(hi, pair->gap.hi, decimals, true), skew_mark(result, pair));
        put_group(&sheet->group[i], sheet->out);
        shown += (size_t)sheet->group[i].count;
    }
    if (result->pairs_total > shown)
        (void)fprintf(sheet->out, "... and %zu pairs more, none of them worse; --json%s has all\n",
                      result->pairs_total - shown, is_complete(result) ? "" : " --all-pairs");
    put_legend(sheet);
}

/* ---- the verdict ------------------------------------------------------------------------------ */

/* Writes the cost, the verdict, and what to do. */
static void put_verdict(const skew_result *result, int columns, FILE *out) {
    char line[SKEW_REASON_SIZE + 16];

    if (result->cost) {
        (void)snprintf(line, sizeof line, "%s.", result->cost);
        put_wrapped(out, line, 0, columns);
    }
    (void)snprintf(line, sizeof line, "%s: %s", skew_verdict_name(result->verdict), result->reason);
    put_wrapped(out, line, 2, columns);
    if (result->cause_text[0]) {
        (void)snprintf(line, sizeof line, "- %s", result->cause_text);
        put_wrapped(out, line, 2, columns);
    }
    for (int i = 0; i < result->advices; i++) {
        (void)snprintf(line, sizeof line, "- %s", result->advice[i]);
        put_wrapped(out, line, 2, columns);
    }
}

static int count_lines(const char *text) {
    int n = 0;
    for (; *text; text++)
        n += *text == '\n';
    return n;
}

/* ---- choosing what fits --------------------------------------------------------------------- */

static void pick(sheet *sheet, int i, int most) {
    if (sheet->hosts < most && !sheet->chosen[i]) {
        sheet->chosen[i] = true;
        sheet->hosts++;
    }
}

/* Picks first the worst pair's hosts, then hosts of which nothing is known or that have an alarm,
 * then the next pairs' hosts. The order is kept. Not all pairs of a large fleet are kept: a host of none of them may be in
 * a worse pair than another such host, so if one is left out, all are. */
static void pick_hosts(sheet *sheet, int most) {
    const skew_result *result = sheet->result;
    int n = 0;

    if (result->pair_count) {
        pick(sheet, sheet->worst[0]->holder, most);
        pick(sheet, sheet->worst[0]->taker, most);
    }
    for (int i = 0; i < result->host_count; i++)
        if (!result->hosts[i].known || result->hosts[i].missing || result->hosts[i].unsteady ||
            result->hosts[i].alarm != SKEW_NO_ALARM)
            pick(sheet, i, most);
    for (size_t i = 0; i < result->pair_count && sheet->hosts < most; i++) {
        pick(sheet, sheet->worst[i]->holder, most);
        pick(sheet, sheet->worst[i]->taker, most);
    }
    for (int i = 0; i < result->host_count && (is_complete(result) || most == result->host_count);
         i++)
        pick(sheet, i, most);
    for (int i = 0; i < result->host_count; i++)
        if (sheet->chosen[i])
            sheet->host[n++] = i;
}

/* Writes both tables in so many lines; 0: no limit. */
static void put_tables(sheet *sheet, int lines) {
    const skew_result *result = sheet->result;
    int clocks = count_columns(result),
        column = result->pair_count ? matrix_column(result, sheet->columns) : 0,
        pairs = result->pair_count == 0 ? 0
                : column                ? clocks + 3
                                        : sheet->groups + 3,
        hosts = result->host_count + 2, between = pairs > 0;

    if (GUARD(tables_fit_terminal) && lines && hosts + between + pairs > lines) {
        int half = (lines - between) / 2;
        pairs = pairs < half ? pairs : hosts < half ? lines - between - hosts : half;
        if (pairs < PAIRS_LEAST)
            pairs = between = 0;
        hosts = lines - between - pairs;
        if (column && pairs < clocks + 3)
            column = 0;
    }
    if (hosts >= HOSTS_LEAST || hosts >= result->host_count + 2) {
        pick_hosts(sheet, lines && hosts < result->host_count + 2 ? hosts - 3 : result->host_count);
        put_host_table(sheet);
        if (pairs)
            (void)fputc('\n', sheet->out);
    }
    if (pairs && column)
        put_matrix(sheet, column);
    else if (pairs)
        put_list(sheet, pairs - 3);
}

static bool begin_sheet(sheet *sheet) {
    sheet->host = calloc((size_t)sheet->result->host_count + 1, sizeof *sheet->host);
    sheet->chosen = calloc((size_t)sheet->result->host_count + 1, sizeof *sheet->chosen);
    sheet->worst = skew_pairs_in_order(sheet->result);
    sheet->groups = skew_groups(sheet->result, sheet->group, LIST_MOST);
    return sheet->worst && sheet->host && sheet->chosen;
}

static void end_sheet(sheet *sheet) {
    free(sheet->host);
    free(sheet->chosen);
    free(sheet->worst);
}

void skew_show_screen(const skew_result *result, int columns, int rows, FILE *out) {
    sheet sheet = {.result = result, .out = out, .columns = columns};
    char *verdict = NULL;
    size_t len = 0;
    FILE *last = open_memstream(&verdict, &len);

    if (last)
        put_verdict(result, columns, last);
    bool whole = last && fclose(last) == 0;
    if (begin_sheet(&sheet) && whole && result->host_count) {
        int room = rows - 2 - count_lines(verdict); /* a blank line, and one for the prompt */
        if (rows == 0 || room >= HOSTS_LEAST) {
            put_tables(&sheet, rows ? room : 0);
            (void)fputc('\n', out);
        }
    }
    if (whole)
        (void)fputs(verdict, out);
    else
        put_verdict(result, columns, out);
    free(verdict);
    end_sheet(&sheet);
}

void skew_show_text(const skew_result *result, FILE *out) {
    skew_show_screen(result, 0, 0, out);
}
