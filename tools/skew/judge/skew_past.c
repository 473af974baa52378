/*
 * Collects the lines of logs. Beyond the limits it drops the older half; the latest run is kept in
 * full.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_logline.h"
#include "skew/judge/skew_past.h"

/* Makes room for one more element. */
static bool grow(void **array, size_t *room, size_t count, size_t size) {
    if (count < *room)
        return true;
    size_t more = *room ? 2 * *room : 16;
    void *bigger = realloc(*array, more * size);
    if (!bigger)
        return false;
    *array = bigger;
    *room = more;
    return true;
}

/* ---- adding lines --------------------------------------------------------------------------- */

static bool is_host(const past_host *past, const skew_host *now) {
    return past->instrument == now->instrument && strcmp(past->name, now->name) == 0;
}

/* Searches from the last host found, because lines tend to name the same hosts in the same order.
 * NULL: no memory, or too many hosts. */
static past_host *host_for(skew_past *past, const skew_host *now) {
    for (size_t i = 0; i < past->hosts; i++) {
        size_t at = (past->hint + i) % past->hosts;
        if (is_host(&past->host[at], now)) {
            past->hint = at + 1;
            return &past->host[at];
        }
    }
    if (past->hosts == PAST_HOSTS_MOST ||
        !grow((void **)&past->host, &past->host_room, past->hosts, sizeof *past->host))
        return NULL;
    past_host *host = &past->host[past->hosts++];
    *host = (past_host){.instrument = now->instrument, .kind = now->kind};
    memcpy(host->name, now->name, sizeof host->name);
    return host;
}

static bool add_point(skew_past *past, int64_t at_ms, const skew_host *now) {
    past_host *host = host_for(past, now);

    if (!host)
        return past->hosts == PAST_HOSTS_MOST; /* further hosts appear only in the latest run */
    if (!grow((void **)&host->point, &host->room, host->count, sizeof *host->point))
        return false;
    host->point[host->count++] = (past_point){
        .at_ms = at_ms,
        .offset = now->known && !now->missing ? now->offset : (tl_interval){1, 0},
    };
    past->points++;
    return true;
}

static int by_time(const void *a, const void *b) {
    int64_t x = ((const past_run *)a)->at_ms, y = ((const past_run *)b)->at_ms;
    return (x > y) - (x < y);
}

static int points_by_time(const void *a, const void *b) {
    int64_t x = ((const past_point *)a)->at_ms, y = ((const past_point *)b)->at_ms;
    return (x > y) - (x < y);
}

static void put_in_order(skew_past *past) {
    if (past->runs)
        qsort(past->run, past->runs, sizeof *past->run, by_time);
    for (size_t i = 0; i < past->hosts; i++)
        if (past->host[i].count)
            qsort(past->host[i].point, past->host[i].count, sizeof *past->host[i].point,
                  points_by_time);
}

/* Drops the older half of the runs, and their points. */
static void drop_oldest(skew_past *past) {
    put_in_order(past);
    size_t gone = past->runs / 2;
    int64_t before_ms = past->run[gone].at_ms;
    for (size_t i = 0; i < gone; i++)
        free(past->run[i].reason);
    memmove(past->run, past->run + gone, (past->runs - gone) * sizeof *past->run);
    past->runs -= gone;
    past->dropped += (int64_t)gone;
    past->points = 0;
    for (size_t i = 0; i < past->hosts; i++) {
        past_host *host = &past->host[i];
        size_t old = 0;
        while (old < host->count && host->point[old].at_ms < before_ms)
            old++;
        if (old)
            memmove(host->point, host->point + old, (host->count - old) * sizeof *host->point);
        host->count -= old;
        past->points += host->count;
    }
}

static bool keep_newest(skew_past *past, int64_t at_ms, const char *line, size_t len) {
    if (past->newest && at_ms < past->newest_ms)
        return true;
    char *copy = malloc(len + 1);
    if (!copy)
        return false;
    memcpy(copy, line, len);
    copy[len] = '\0';
    free(past->newest);
    past->newest = copy;
    past->newest_len = len;
    past->newest_ms = at_ms;
    return true;
}

/* Are all hosts of a line valid? A line counts whole or not at all. */
static bool hosts_are_sound(const json_t *line, const char **ret_why) {
    skew_host host;
    size_t n = 0;

    while (logline_host(line, n, &host, ret_why))
        if (++n > SKEW_HOSTS_MAX) {
            *ret_why = "it has too many hosts";
            break;
        }
    return *ret_why == NULL;
}

/* Keeps a reason only where the verdict changes, since reasons are long. */
static void add_run(skew_past *past, const json_t *line, const skew_result *head) {
    char reason[SKEW_REASON_SIZE];
    past_run *run = &past->run[past->runs];
    const json_t *text = json_object_get(line, "reason");

    *run = (past_run){
        .at_ms = head->at_ms, .verdict = head->verdict, .slack_us = head->rule.slack_us};
    if (!logline_worst(line, &run->worst))
        run->worst = (tl_interval){1, 0};
    if ((past->runs == 0 || run[-1].verdict != run->verdict) &&
        js_copy(text, reason, sizeof reason))
        run->reason = strdup(reason);
    past->runs++;
}

static past_added add(skew_past *past, const json_t *line, const char *text, size_t len,
                      const char **ret_why) {
    skew_result head = {.hosts = NULL};
    skew_host host;

    if (!logline_head(line, &head, ret_why) || !hosts_are_sound(line, ret_why))
        return PAST_NOT_OURS;
    if (past->runs == PAST_RUNS_MOST || past->points >= PAST_POINTS_MOST)
        drop_oldest(past);
    if (!grow((void **)&past->run, &past->run_room, past->runs, sizeof *past->run) ||
        !keep_newest(past, head.at_ms, text, len))
        return PAST_NO_MEMORY;
    add_run(past, line, &head);
    past->hint = 0;
    for (size_t i = 0; logline_host(line, i, &host, ret_why); i++)
        if (!add_point(past, head.at_ms, &host))
            return PAST_NO_MEMORY;
    return PAST_OK;
}

past_added past_add(skew_past *past, const char *line, size_t len, const char **ret_why) {
    json_t *read = js_read(line, len, ret_why);

    if (!read)
        return PAST_NOT_OURS;
    past_added added = add(past, read, line, len, ret_why);
    json_decref(read);
    return added;
}

/* ---- finishing ------------------------------------------------------------------------------ */

bool past_settle(skew_past *past) {
    const char *why;

    put_in_order(past);
    json_t *line = past->newest ? js_read(past->newest, past->newest_len, &why) : NULL;
    bool settled = line && logline_all(line, &past->last, &why);
    json_decref(line);
    return settled;
}

void past_end(skew_past *past) {
    for (size_t i = 0; i < past->hosts; i++)
        free(past->host[i].point);
    for (size_t i = 0; i < past->runs; i++)
        free(past->run[i].reason);
    free(past->host);
    free(past->run);
    free(past->newest);
    logline_end(&past->last);
    *past = (skew_past){.run = NULL};
}
