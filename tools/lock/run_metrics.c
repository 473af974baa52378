/*
 * The metrics of a run. The time of the last success must outlive later failures: it is copied from the
 * file that exists.
 */
#include <stdlib.h>
#include <string.h>

#include "base/metrics.h"
#include "base/outfile.h"
#include "lock/run_metrics.h"

#define SUCCESS "run_last_success_timestamp_seconds"
#define LINE_MAX_SIZE 4096
#define US_PER_MS 1000
#define US_PER_S INT64_C(1000000)

typedef struct {
    const run_ending *ending;
    tl_stats stats;
    int64_t success_us; /* 0: not known */
} writing;

/* Only a line with exactly this run's labels counts: neither one with more labels nor one of another key. */
static bool read_success(const char *line, const char *begin, int64_t *ret_us) {
    size_t n = strlen(begin);
    char *end;
    if (strncmp(line, begin, n) != 0)
        return false;
    double s = strtod(line + n, &end);
    if (end == line + n || *end != '\n' || !(s > 0 && s < 1e11))
        return false;
    *ret_us = (int64_t)(s * (double)US_PER_S);
    return true;
}

/* The beginning of the line for this key, up to the value; NULL: no memory. */
static char *success_line(const char *key) {
    char *text = NULL, *space;
    size_t len = 0;
    metrics metrics = {.out = open_memstream(&text, &len), .label = {{"key", key}}};
    if (!metrics.out)
        return NULL;
    metrics_int(&metrics, SUCCESS, NULL, 0);
    if (fclose(metrics.out) != 0) {
        free(text);
        return NULL;
    }
    space = strrchr(text, ' '); /* before the value */
    if (space)
        space[1] = '\0';
    return text;
}

/* 0: the file doesn't say. */
static int64_t former_success(const char *path, const char *key) {
    char line[LINE_MAX_SIZE];
    int64_t us = 0;
    char *begin = success_line(key);
    FILE *in = begin && outfile_is_plain(path) ? fopen(path, "re") : NULL;
    while (in && fgets(line, sizeof line, in) && !read_success(line, begin, &us))
        ;
    if (in)
        (void)fclose(in);
    free(begin);
    return us;
}

static void put_state(const metrics *metrics, const run_ending *ending) {
    const metrics_label state = {"state", ending->state};
    metrics_head(metrics, "run_state", "gauge", "1 for the state in which the last run ended.");
    metrics_int(metrics, "run_state", &state, 1);
    metrics_head(metrics, "run_exit_status", "gauge", "Exit status of the last run.");
    metrics_int(metrics, "run_exit_status", NULL, ending->exit_status);
}

static void put_times(const metrics *metrics, const writing *writing) {
    const run_ending *ending = writing->ending;
    metrics_head(metrics, "run_end_timestamp_seconds", "gauge", "When the last run ended.");
    metrics_seconds(metrics, "run_end_timestamp_seconds", NULL, ending->ended_us);
    if (writing->success_us > 0) {
        metrics_head(metrics, SUCCESS, "gauge",
                     "End of the last run that held the lock throughout and ended with status 0.");
        metrics_seconds(metrics, SUCCESS, NULL, writing->success_us);
    }
    metrics_head(metrics, "run_waited_seconds", "gauge",
                 "How long the last run waited for the lock.");
    metrics_seconds(metrics, "run_waited_seconds", NULL, ending->waited_ms * US_PER_MS);
    if (ending->held_ms < 0)
        return;
    metrics_head(metrics, "run_held_seconds", "gauge", "How long the last run held the lock.");
    metrics_seconds(metrics, "run_held_seconds", NULL, ending->held_ms * US_PER_MS);
}

static void put(const void *ctx, FILE *out) {
    const writing *writing = ctx;
    const metrics metrics = {.out = out, .label = {{"key", writing->ending->key}}};
    put_state(&metrics, writing->ending);
    put_times(&metrics, writing);
    metrics_client(&metrics, &writing->stats);
}

int run_metrics_write(const char *path, const run_ending *ending) {
    writing writing = {.ending = ending, .stats = {.size = sizeof writing.stats}};
    bool well = ending->exit_status == 0 && ending->held_ms >= 0;
    (void)tl_client_stats(ending->client, &writing.stats, NULL); /* it can't fail here */
    writing.success_us = well ? ending->ended_us : former_success(path, ending->key);
    return outfile_replace("run: --metrics", path, put, &writing);
}
