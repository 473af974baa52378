/*
 * tidelock inspect: lists the locks of a server by a scan that blocks the server for moments only. Its
 * memory and its time have limits. It changes nothing, and never shows a token.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "base/printable.h"
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
    {0, "limit", OPT_NUMBER, AT(limit), "N", "list at most N locks (1000)", 1, LIMIT_MOST},
    {0, "watch", OPT_EVERY, AT(watch_ms), "[=D]", "repeat the list every D (2s)", WATCH_MS, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "print an array in JSON, on one line", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

typedef struct {
    char *key; /* with a zero byte after it */
    size_t len;
    tl_lock_info info;
    report_line *line; /* NULL: no waiter is in the queue */
} row;

typedef struct {
    const inspect_options *options;
    const char *pattern;
    const server *server;
    tl_client *client;
    signals *signals;
    row *rows;
    size_t count, room;
    bool no_memory, cut; /* cut: the list reached its limit, or the scan its time */
    int sig;
} list;

/* ---- collecting ------------------------------------------------------------------------------ */

static bool make_room(list *list) {
    if (list->count < list->room)
        return true;
    size_t room = list->room ? 2 * list->room : 64;
    row *rows = realloc(list->rows, room * sizeof *rows);
    if (!rows)
        return false;
    list->rows = rows;
    list->room = room;
    return true;
}

static void found(const void *key, size_t key_len, const tl_lock_info *info, void *ctx) {
    list *list = ctx;

    if (list->count == (size_t)list->options->limit) {
        list->cut = true;
        return;
    }
    char *copy = malloc(key_len + 1);
    if (!copy || !make_room(list)) {
        free(copy);
        list->no_memory = true;
        return;
    }
    memcpy(copy, key, key_len);
    copy[key_len] = '\0';
    list->rows[list->count++] = (row){.key = copy, .len = key_len, .info = *info};
}

static void forget(list *list) {
    for (size_t i = 0; i < list->count; i++) {
        free(list->rows[i].key);
        free(list->rows[i].line);
    }
    free(list->rows);
    list->rows = NULL;
    list->count = list->room = 0;
    list->cut = false;
}

static int by_key(const void *one, const void *other) {
    const row *a = one, *b = other;
    int order = memcmp(a->key, b->key, a->len < b->len ? a->len : b->len);

    return order ? order : (a->len > b->len) - (a->len < b->len);
}

/* Sort the list, and drop duplicates: a scan may report a key twice. */
static void put_in_order(list *list) {
    size_t kept = 0;

    if (list->count == 0)
        return;
    qsort(list->rows, list->count, sizeof *list->rows, by_key);
    for (size_t i = 1; i < list->count; i++) {
        if (by_key(&list->rows[kept], &list->rows[i]) == 0)
            free(list->rows[i].key);
        else
            list->rows[++kept] = list->rows[i];
    }
    list->count = kept + 1;
}

/* On a terminal, while the user waits. */
static void progress(const list *list, int64_t *next_ms, bool end) {
    if (!isatty(STDERR_FILENO) || list->options->watch_ms != NO_WATCH)
        return;
    int64_t now = moment_ms();
    if (end && *next_ms > 0)
        (void)fputs("\r\033[K", stderr);
    if (!end && now >= *next_ms) {
        if (*next_ms > 0)
            (void)fprintf(stderr, "\rlooking: %zu locks so far", list->count);
        *next_ms = now + PROGRESS_MS;
    }
    (void)fflush(stderr);
}

/* Read the queue of each lock that has one: a scan only counts the waiters. */
static int look_at_lines(list *list) {
    tl_lock_info now = {.size = sizeof now};
    tl_error err;

    for (size_t i = 0; i < list->count && !list->sig; i++) {
        row *row = &list->rows[i];
        if (row->info.in_line <= 0)
            continue;
        row->line = calloc(1, sizeof *row->line);
        if (!row->line)
            return fail(STATUS_INTERNAL, "inspect: out of memory");
        if (tl_client_look_line(list->client, row->key, row->len, &now, REPORT_LINE, report_in_line,
                                row->line, &err))
            return fail_as(list->server, &err);
        row->info.waiters = now.waiters; /* so that all that is shown together is of one moment */
        row->info.in_line = now.in_line;
        list->sig = signals_pause(list->signals, 0);
    }
    return 0;
}

/* Scan all keys. It ends early for a signal, at the limit, and after SCAN_MOST_MS. */
static int scan(list *list) {
    int64_t end = moment_ms() + SCAN_MOST_MS, progress_ms = 0;
    uint64_t cursor = 0;
    tl_error err;

    do {
        tl_err code = tl_client_scan(list->client, list->pattern, &cursor, found, list, &err);
        if (code || list->no_memory) {
            progress(list, &progress_ms, true);
            return code ? fail_as(list->server, &err)
                        : fail(STATUS_INTERNAL, "inspect: out of memory");
        }
        progress(list, &progress_ms, false);
        list->sig = signals_pause(list->signals, 0);
        list->cut = list->cut || moment_ms() > end;
    } while (cursor != 0 && !list->sig && !list->cut);
    progress(list, &progress_ms, true);
    put_in_order(list);
    return look_at_lines(list);
}

/* ---- showing --------------------------------------------------------------------------------- */

enum { KEY, PROTOCOL, DIALECT, HOLDER, HELD, EXPIRES, FENCE, WAITERS, ODDITY, COLUMNS };
#define CELL 128

static const char *const heads[COLUMNS] = {"KEY",     "PROTOCOL", "DIALECT", "HOLDER", "HELD FOR",
                                           "EXPIRES", "FENCE",    "WAITERS", "ODDITY"};

/* One line, whatever bytes the text has. */
static void show_text(char cell[CELL], const char *text, size_t len) {
    size_t used = len < CELL - 4 ? len : printable_cut(text, CELL - 4);
    size_t n = printable(cell, text, used);

    (void)snprintf(cell + n, CELL - n, "%s", used < len ? "..." : "");
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
    char who[HOLDER_SHOWN];

    if (report_library(info))
        (void)snprintf(cell, CELL, "%.*s", CELL - 1, report_who(who, info));
    else if (info->by_tidelock && info->host[0])
        (void)snprintf(cell, CELL, "%.60s %lld %.40s", info->host, (long long)info->pid,
                       info->service);
    else
        (void)snprintf(cell, CELL, "%s", info->by_tidelock ? "tidelock" : "-");
}

static void fill(char cells[COLUMNS][CELL], const row *row) {
    const tl_lock_info *info = &row->info;
    const char *guess = info->guessed ? "?" : "", *protocol = protocol_name(info->protocol);
    char held[DURATION_SHOWN];

    for (int c = 0; c < COLUMNS; c++)
        (void)snprintf(cells[c], CELL, "-");
    show_text(cells[KEY], row->key, row->len);
    if (protocol)
        (void)snprintf(cells[PROTOCOL], CELL, "%s%s", protocol, info->by_tidelock ? "" : guess);
    if (info->dialect[0])
        (void)snprintf(cells[DIALECT], CELL, "%s%s", info->dialect, guess);
    show_holder(cells[HOLDER], info);
    if (info->rests)
        (void)snprintf(cells[HELD], CELL, "resting");
    else if (info->held_ms >= 0)
        (void)snprintf(cells[HELD], CELL, "%s", show_ms(held, info->held_ms));
    show_expires(cells[EXPIRES], info);
    if (info->by_tidelock && info->fence)
        (void)snprintf(cells[FENCE], CELL, "%llu", (unsigned long long)info->fence);
    if (info->waiters >= 0)
        (void)snprintf(cells[WAITERS], CELL, "%lld", (long long)info->waiters);
    (void)snprintf(cells[ODDITY], CELL, "%s", info->oddity[0] ? info->oddity : "-");
}

static void print_row(char cells[COLUMNS][CELL], const int width[COLUMNS]) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks); /* only these have a dialect */

    for (int c = 0; c < COLUMNS - 1; c++)
        if (c != DIALECT || legacy)
            printf("%-*s  ", width[c], cells[c]);
    printf("%s\n", cells[COLUMNS - 1]);
}

static int show_table(const list *list) {
    char cells[COLUMNS][CELL];
    int width[COLUMNS];

    if (list->count == 0)
        printf("no locks\n");
    for (int c = 0; c < COLUMNS; c++)
        width[c] = (int)strlen(heads[c]);
    for (size_t i = 0; i < list->count; i++) {
        fill(cells, &list->rows[i]);
        for (int c = 0; c < COLUMNS; c++)
            if (width[c] < (int)strlen(cells[c]))
                width[c] = (int)strlen(cells[c]);
    }
    for (int c = 0; c < COLUMNS; c++)
        (void)snprintf(cells[c], CELL, "%s", heads[c]);
    if (list->count > 0)
        print_row(cells, width);
    for (size_t i = 0; i < list->count; i++) {
        fill(cells, &list->rows[i]);
        print_row(cells, width);
        if (list->rows[i].line)
            report_waiting(&list->rows[i].info, list->rows[i].line, "  ");
    }
    return fflush(stdout) || ferror(stdout) ? -1 : 0;
}

static json_t *row_json(const row *row) {
    static const report_line nobody;

    return report_facts(row->key, row->len, &row->info,
                        row->line                ? row->line
                        : row->info.in_line == 0 ? &nobody
                                                 : NULL);
}

static int show_json(const list *list) {
    json_t *json = json_array();

    for (size_t i = 0; i < list->count; i++)
        js_append(&json, row_json(&list->rows[i]));
    return js_line(json, STDOUT_FILENO);
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static int once(list *list) {
    bool as_json = list->options->json || list->options->format,
         watching = list->options->watch_ms != NO_WATCH;
    int status = scan(list);

    if (status || list->sig)
        return status;
    if (watching && !as_json && isatty(STDOUT_FILENO))
        printf("\033[H\033[2J");
    if (as_json ? show_json(list) : show_table(list))
        return fail(STATUS_INTERNAL, "inspect: standard output: %s", strerror(errno));
    if (list->cut)
        say("inspect: the list is incomplete: %s",
            list->count >= (size_t)list->options->limit
                ? "there are more locks than --limit; narrow the pattern, or raise the limit"
                : "the scan reached its time limit; narrow the pattern");
    return 0;
}

/* A watch ends by a signal; by an INT (Ctrl-C) with status 0. */
static int rounds(list *list) {
    bool watching = list->options->watch_ms != NO_WATCH;
    int status = once(list);

    forget(list);
    while (status == 0 && watching && !list->sig) {
        list->sig = signals_pause(list->signals, list->options->watch_ms);
        if (!list->sig)
            status = once(list);
        forget(list);
    }
    if (status || !list->sig)
        return status;
    return watching && list->sig == SIGINT ? STATUS_OK : signals_status(list->sig);
}

static int inspect_function(const server *where, const void *given, const operands *args) {
    const inspect_options *options = given;
    list list = {
        .options = options, .pattern = args->count ? args->word[0] : NULL, .server = where};
    signals sigs;

    if (options->watch_ms == 0)
        return fail(STATUS_USAGE, "inspect: --watch: the pause is at least 1ms");
    if (signals_begin(&sigs))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    list.signals = &sigs;
    int status = server_open(where, "inspect", NULL, &list.client);
    if (status == 0) {
        status = rounds(&list);
        tl_client_close(list.client);
    }
    signals_end(&sigs);
    return status;
}

const command inspect_row = {
    .name = "inspect",
    .usage = "[options] [PATTERN]",
    .help = "list the locks of a server",
    .notes =
        "PATTERN is a glob: 'jobs:*'. A question mark after a protocol or dialect marks a guess.\n",
    .statuses = (const status_row[]){{STATUS_OK, "listed",
                                      "listed, also when there are no locks; Ctrl-C ended a "
                                      "*--watch*"},
                                     {STATUS_REFUSED,
                                      "it refuses, or lacks SCAN (before Redis 2.8)",
                                      "the server refused, runs no scripts (EVAL), or lacks SCAN "
                                      "(before Redis 2.8)"},
                                     {STATUS_SIGNAL, NULL, "signal _n_ ended it"},
                                     {0, NULL, NULL}},
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(legacy_inspect_part),
    .args_max = 1,
    .function = inspect_function,
};
