/*
 * Logs, gathered. When more is told than is kept, the older half goes; the latest run is kept in full.
 */
#include <stdlib.h>
#include <string.h>

#include "skew/judge/skew_logline.h"
#include "skew/judge/skew_past.h"

/* Room for one more of something. */
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

/* ---- learning ------------------------------------------------------------------------------------ */

static bool is_host(const past_host *h, const skew_host *x) {
    return h->instrument == x->instrument && strcmp(h->name, x->name) == 0;
}

/* Lines tend to name the same hosts in the same order. NULL: no memory, or too many. */
static past_host *host_for(skew_past *p, const skew_host *x) {
    for (size_t i = 0; i < p->hosts; i++) {
        size_t at = (p->hint + i) % p->hosts;
        if (is_host(&p->host[at], x)) {
            p->hint = at + 1;
            return &p->host[at];
        }
    }
    if (p->hosts == PAST_HOSTS_MOST ||
        !grow((void **)&p->host, &p->host_room, p->hosts, sizeof *p->host))
        return NULL;
    past_host *h = &p->host[p->hosts++];
    *h = (past_host){.instrument = x->instrument, .kind = x->kind};
    memcpy(h->name, x->name, sizeof h->name);
    return h;
}

static bool add_point(skew_past *p, int64_t at_ms, const skew_host *x) {
    past_host *h = host_for(p, x);

    if (!h)
        return p->hosts == PAST_HOSTS_MOST; /* further ones are in the latest run alone */
    if (!grow((void **)&h->point, &h->room, h->count, sizeof *h->point))
        return false;
    h->point[h->count++] = (past_point){
        .at_ms = at_ms,
        .offset = x->known && !x->missing ? x->offset : (tl_interval){1, 0},
    };
    p->points++;
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

static void put_in_order(skew_past *p) {
    if (p->runs)
        qsort(p->run, p->runs, sizeof *p->run, by_time);
    for (size_t i = 0; i < p->hosts; i++)
        if (p->host[i].count)
            qsort(p->host[i].point, p->host[i].count, sizeof *p->host[i].point, points_by_time);
}

/* The older half of the runs, and what they said. */
static void drop_oldest(skew_past *p) {
    put_in_order(p);
    size_t gone = p->runs / 2;
    int64_t before_ms = p->run[gone].at_ms;
    for (size_t i = 0; i < gone; i++)
        free(p->run[i].reason);
    memmove(p->run, p->run + gone, (p->runs - gone) * sizeof *p->run);
    p->runs -= gone;
    p->dropped += (int64_t)gone;
    p->points = 0;
    for (size_t i = 0; i < p->hosts; i++) {
        past_host *h = &p->host[i];
        size_t old = 0;
        while (old < h->count && h->point[old].at_ms < before_ms)
            old++;
        if (old)
            memmove(h->point, h->point + old, (h->count - old) * sizeof *h->point);
        h->count -= old;
        p->points += h->count;
    }
}

static bool keep_newest(skew_past *p, int64_t at_ms, const char *line, size_t len) {
    if (p->newest && at_ms < p->newest_ms)
        return true;
    char *copy = malloc(len + 1);
    if (!copy)
        return false;
    memcpy(copy, line, len);
    copy[len] = '\0';
    free(p->newest);
    p->newest = copy;
    p->newest_len = len;
    p->newest_ms = at_ms;
    return true;
}

/* All hosts of a line make sense, so that a line counts whole or not at all. */
static bool hosts_are_sound(const json_t *line, const char **ret_why) {
    skew_host h;
    size_t n = 0;

    while (logline_host(line, n, &h, ret_why))
        if (++n > SKEW_HOSTS_MAX) {
            *ret_why = "it has too many hosts";
            break;
        }
    return *ret_why == NULL;
}

/* Of long texts only those that are news. */
static void add_run(skew_past *p, const json_t *line, const skew_result *head) {
    char reason[SKEW_REASON_SIZE];
    past_run *run = &p->run[p->runs];
    const json_t *text = json_object_get(line, "reason");

    *run = (past_run){
        .at_ms = head->at_ms, .verdict = head->verdict, .slack_us = head->rule.slack_us};
    if (!logline_worst(line, &run->worst))
        run->worst = (tl_interval){1, 0};
    if ((p->runs == 0 || run[-1].verdict != run->verdict) && js_copy(text, reason, sizeof reason))
        run->reason = strdup(reason);
    p->runs++;
}

static past_added add(skew_past *p, const json_t *line, const char *text, size_t len,
                      const char **ret_why) {
    skew_result head = {.hosts = NULL};
    skew_host h;

    if (!logline_head(line, &head, ret_why) || !hosts_are_sound(line, ret_why))
        return PAST_NOT_OURS;
    if (p->runs == PAST_RUNS_MOST || p->points >= PAST_POINTS_MOST)
        drop_oldest(p);
    if (!grow((void **)&p->run, &p->run_room, p->runs, sizeof *p->run) ||
        !keep_newest(p, head.at_ms, text, len))
        return PAST_NO_MEMORY;
    add_run(p, line, &head);
    p->hint = 0;
    for (size_t i = 0; logline_host(line, i, &h, ret_why); i++)
        if (!add_point(p, head.at_ms, &h))
            return PAST_NO_MEMORY;
    return PAST_OK;
}

past_added past_add(skew_past *p, const char *line, size_t len, const char **ret_why) {
    json_t *read = js_read(line, len, ret_why);

    if (!read)
        return PAST_NOT_OURS;
    past_added added = add(p, read, line, len, ret_why);
    json_decref(read);
    return added;
}

/* ---- the end of it --------------------------------------------------------------------------------- */

bool past_settle(skew_past *p) {
    const char *why;

    put_in_order(p);
    json_t *line = p->newest ? js_read(p->newest, p->newest_len, &why) : NULL;
    bool settled = line && logline_all(line, &p->last, &why);
    json_decref(line);
    return settled;
}

void past_end(skew_past *p) {
    for (size_t i = 0; i < p->hosts; i++)
        free(p->host[i].point);
    for (size_t i = 0; i < p->runs; i++)
        free(p->run[i].reason);
    free(p->host);
    free(p->run);
    free(p->newest);
    logline_end(&p->last);
    *p = (skew_past){.run = NULL};
}
