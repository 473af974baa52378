/*
 * tidelock inspect: the locks of a server, by a scan that holds it up for moments only. What it keeps
 * and how long it takes is bounded; it changes nothing, and never shows a token.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "base/report.h"
#include "base/signals.h"
#include "base/tool.h"

#define LIMIT 1000
#define LIMIT_MOST 100000
#define WATCH_MS 2000
#define NO_WATCH (-1)
#define SCAN_MOST_MS (10 * 60000)
#define PROGRESS_MS 500

typedef struct {
    int64_t watch_ms;
    int limit, format;
    bool json;
} inspect_options;

static const inspect_options defaults = {.watch_ms = NO_WATCH, .limit = LIMIT};

#define AT(member) offsetof(inspect_options, member)
static const opt options[] = {
    {0, "limit", OPT_NUMBER, AT(limit), "N", "list so many at most (1000)", 1, LIMIT_MOST},
    {0, "watch", OPT_EVERY, AT(watch_ms), "[=D]", "list them again and again, every D (2s)",
     WATCH_MS, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "an array in JSON, on one line", 0, 0},
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

typedef struct {
    char *key; /* with a zero byte behind it */
    size_t len;
    tl_lock_info info;
    report_line *line; /* NULL: nobody stands there */
} row;

typedef struct {
    const inspect_options *o;
    const char *pattern;
    const server *server;
    tl_client *client;
    signals *signals;
    row *rows;
    size_t count, room;
    bool no_memory, cut; /* cut: there are more than the limit, or it took too long */
    int sig;
} list;

/* ---- collecting ------------------------------------------------------------------------------ */

static bool make_room(list *l) {
    if (l->count < l->room)
        return true;
    size_t room = l->room ? 2 * l->room : 64;
    row *rows = realloc(l->rows, room * sizeof *rows);
    if (!rows)
        return false;
    l->rows = rows;
    l->room = room;
    return true;
}

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    list *l = ctx;

    if (l->count == (size_t)l->o->limit) {
        l->cut = true;
        return;
    }
    char *copy = malloc(key_len + 1);
    if (!copy || !make_room(l)) {
        free(copy);
        l->no_memory = true;
        return;
    }
    memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    l->rows[l->count++] = (row){.key = copy, .len = key_len, .info = *info};
}

static void forget(list *l) {
    for (size_t i = 0; i < l->count; i++) {
        free(l->rows[i].key);
        free(l->rows[i].line);
    }
    free(l->rows);
    l->rows = NULL;
    l->count = l->room = 0;
    l->cut = false;
}

static int by_key(const void *one, const void *other) {
    const row *a = one, *b = other;
    int order = memcmp(a->key, b->key, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* In order, each once: a scan may tell of a key twice. */
static void put_in_order(list *l) {
    size_t kept = 0;

    if (l->count == 0)
        return;
    qsort(l->rows, l->count, sizeof *l->rows, by_key);
    for (size_t i = 1; i < l->count; i++) {
        if (by_key(&l->rows[kept], &l->rows[i]) == 0)
            free(l->rows[i].key);
        else
            l->rows[++kept] = l->rows[i];
    }
    l->count = kept + 1;
}

/* On a terminal, for those who wait. */
static void progress(const list *l, int64_t *next_ms, bool end) {
    if (!isatty(STDERR_FILENO) || l->o->watch_ms != NO_WATCH)
        return;
    int64_t now = moment_ms();
    if (end && *next_ms > 0)
        (void)fputs("\r\033[K", stderr);
    if (!end && now >= *next_ms) {
        if (*next_ms > 0)
            (void)fprintf(stderr, "\rlooking: %zu locks so far", l->count);
        *next_ms = now + PROGRESS_MS;
    }
    (void)fflush(stderr);
}

/* Who stands in line, of the locks where anybody does: a scan only counts them. */
static int look_at_lines(list *l) {
    tl_lock_info now = {.size = sizeof now};
    tl_error err;

    for (size_t i = 0; i < l->count && !l->sig; i++) {
        row *r = &l->rows[i];
        if (r->info.in_line <= 0)
            continue;
        r->line = calloc(1, sizeof *r->line);
        if (!r->line)
            return fail(STATUS_INTERNAL, "inspect: out of memory");
        if (tl_client_look_line(l->client, r->key, r->len, &now, REPORT_LINE, report_in_line,
                                r->line, &err))
            return fail_as(l->server, &err);
        r->info.waiters = now.waiters; /* what is told together is from one moment */
        r->info.in_line = now.in_line;
        l->sig = signals_pause(l->signals, 0);
    }
    return 0;
}

/* All keys. Ends early for a signal, at the limit, and after SCAN_MOST_MS. */
static int scan(list *l) {
    int64_t end = moment_ms() + SCAN_MOST_MS, progress_ms = 0;
    uint64_t cursor = 0;
    tl_error err;

    do {
        tl_err code = tl_client_scan(l->client, l->pattern, &cursor, found, l, &err);
        if (code || l->no_memory) {
            progress(l, &progress_ms, true);
            return code ? fail_as(l->server, &err)
                        : fail(STATUS_INTERNAL, "inspect: out of memory");
        }
        progress(l, &progress_ms, false);
        l->sig = signals_pause(l->signals, 0);
        l->cut = l->cut || moment_ms() > end;
    } while (cursor != 0 && !l->sig && !l->cut);
    progress(l, &progress_ms, true);
    put_in_order(l);
    return look_at_lines(l);
}

/* ---- showing --------------------------------------------------------------------------------- */

enum { KEY, PROTOCOL, DIALECT, HOLDER, HELD, EXPIRES, FENCE, WAITERS, ODDITY, COLUMNS };
#define CELL 128

static const char *const heads[COLUMNS] = {"KEY",     "PROTOCOL", "DIALECT", "HOLDER", "HELD FOR",
                                           "EXPIRES", "FENCE",    "WAITERS", "ODDITY"};

/* One line, whatever bytes are in it. */
static void printable(char cell[CELL], const char *text, size_t len) {
    size_t n = len < CELL - 4 ? len : CELL - 4;

    for (size_t i = 0; i < n; i++)
        cell[i] = (unsigned char)text[i] < ' ' || text[i] == 0x7f ? '?' : text[i];
    (void)snprintf(cell + n, CELL - n, "%s", n < len ? "..." : "");
}

static void show_expires(char cell[CELL], const tl_lock_info *info) {
    char left[DURATION_SHOWN];
    int64_t stamp_ms = info->stamp_left_ms;

    if (!info->held)
        (void)snprintf(cell, CELL, "over");
    else if (info->remaining_ms >= 0)
        (void)snprintf(cell, CELL, "%s", show_ms(left, info->remaining_ms));
    else if (stamp_ms == INT64_MIN)
        (void)snprintf(cell, CELL, "never");
    else
        (void)snprintf(cell, CELL, "%s%s", show_ms(left, stamp_ms < 0 ? -stamp_ms : stamp_ms),
                       stamp_ms < 0 ? " ago?" : "?");
}

static void show_holder(char cell[CELL], const tl_lock_info *info) {
    if (info->by_tidelock && info->host[0])
        (void)snprintf(cell, CELL, "%.60s %lld %.40s", info->host, (long long)info->pid,
                       info->service);
    else
        (void)snprintf(cell, CELL, "%s", info->by_tidelock ? "tidelock" : "-");
}

static void fill(char cells[COLUMNS][CELL], const row *r) {
    const tl_lock_info *info = &r->info;
    const char *guess = info->guessed ? "?" : "", *protocol = protocol_name(info->protocol);
    char held[DURATION_SHOWN];

    for (int c = 0; c < COLUMNS; c++)
        (void)snprintf(cells[c], CELL, "-");
    printable(cells[KEY], r->key, r->len);
    if (protocol)
        (void)snprintf(cells[PROTOCOL], CELL, "%s%s", protocol, info->by_tidelock ? "" : guess);
    if (info->dialect[0])
        (void)snprintf(cells[DIALECT], CELL, "%s%s", info->dialect, guess);
    show_holder(cells[HOLDER], info);
    if (info->held_ms >= 0)
        (void)snprintf(cells[HELD], CELL, "%s", show_ms(held, info->held_ms));
    show_expires(cells[EXPIRES], info);
    if (info->by_tidelock && info->fence)
        (void)snprintf(cells[FENCE], CELL, "%llu", (unsigned long long)info->fence);
    if (info->waiters >= 0)
        (void)snprintf(cells[WAITERS], CELL, "%lld", (long long)info->waiters);
    (void)snprintf(cells[ODDITY], CELL, "%s", info->oddity[0] ? info->oddity : "-");
}

static void print_row(char cells[COLUMNS][CELL], const int width[COLUMNS]) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks); /* which alone have a dialect */

    for (int c = 0; c < COLUMNS - 1; c++)
        if (c != DIALECT || legacy)
            printf("%-*s  ", width[c], cells[c]);
    printf("%s\n", cells[COLUMNS - 1]);
}

static int show_table(const list *l) {
    char cells[COLUMNS][CELL];
    int width[COLUMNS];

    if (l->count == 0)
        printf("no locks\n");
    for (int c = 0; c < COLUMNS; c++)
        width[c] = (int)strlen(heads[c]);
    for (size_t i = 0; i < l->count; i++) {
        fill(cells, &l->rows[i]);
        for (int c = 0; c < COLUMNS; c++)
            if (width[c] < (int)strlen(cells[c]))
                width[c] = (int)strlen(cells[c]);
    }
    for (int c = 0; c < COLUMNS; c++)
        (void)snprintf(cells[c], CELL, "%s", heads[c]);
    if (l->count > 0)
        print_row(cells, width);
    for (size_t i = 0; i < l->count; i++) {
        fill(cells, &l->rows[i]);
        print_row(cells, width);
        if (l->rows[i].line)
            report_waiting(&l->rows[i].info, l->rows[i].line, "  ");
    }
    return fflush(stdout) || ferror(stdout) ? -1 : 0;
}

static json_t *row_json(const row *r) {
    static const report_line nobody;

    return report_facts(r->key, r->len, &r->info,
                        r->line                ? r->line
                        : r->info.in_line == 0 ? &nobody
                                               : NULL);
}

static int show_json(const list *l) {
    json_t *j = json_array();

    for (size_t i = 0; i < l->count; i++)
        js_append(&j, row_json(&l->rows[i]));
    return js_line(j, STDOUT_FILENO);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int once(list *l) {
    bool as_json = l->o->json || l->o->format, watching = l->o->watch_ms != NO_WATCH;
    int status = scan(l);

    if (status || l->sig)
        return status;
    if (watching && !as_json && isatty(STDOUT_FILENO))
        printf("\033[H\033[2J");
    if (as_json ? show_json(l) : show_table(l))
        return fail(STATUS_INTERNAL, "inspect: standard output: %s", strerror(errno));
    if (l->cut)
        say("inspect: not all: %s",
            l->count >= (size_t)l->o->limit
                ? "there are more than --limit; narrow the pattern, or raise it"
                : "it took too long; narrow the pattern");
    return 0;
}

/* A signal is how a watch ends. */
static int rounds(list *l) {
    bool watching = l->o->watch_ms != NO_WATCH;
    int status = once(l);

    forget(l);
    while (status == 0 && watching && !l->sig) {
        l->sig = signals_pause(l->signals, l->o->watch_ms);
        if (!l->sig)
            status = once(l);
        forget(l);
    }
    if (status || !l->sig)
        return status;
    return watching && l->sig == SIGINT ? STATUS_OK : signals_status(l->sig);
}

static int inspect_function(const server *s, const void *given, const operands *args) {
    const inspect_options *o = given;
    list l = {.o = o, .pattern = args->count ? args->word[0] : NULL, .server = s};
    signals sigs;

    if (o->watch_ms == 0)
        return fail(STATUS_USAGE, "inspect: --watch: a pause is 1ms at least");
    if (signals_begin(&sigs))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    l.signals = &sigs;
    int status = server_open(s, "inspect", NULL, &l.client);
    if (status == 0) {
        status = rounds(&l);
        tl_client_close(l.client);
    }
    signals_end(&sigs);
    return status;
}

const command inspect_row = {
    .name = "inspect",
    .usage = "[options] [PATTERN]",
    .help = "list the locks of a server",
    .notes =
        "PATTERN is a glob: 'jobs:*'. A question mark behind a protocol or dialect marks a guess.\n"
        "Exit status: 0 listed, 69 server not reached, 77 it refuses, or has no SCAN (before 2.8).\n",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(legacy_inspect_part),
    .args_max = 1,
    .function = inspect_function,
};
