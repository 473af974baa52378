/*
 * tidelock skew: can a lock of the old kind be stolen with the clocks of these hosts? It measures,
 * judges and shows; what it shows is also its exit status.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "skew_fleet.h"
#include "skew_more.h"
#include "skew_show.h"

#define UNSET INT64_MIN
#define MARGIN_MS                                                                                  \
    1000 /* what tidelock's own clients leave of a lock's life unless told otherwise */
#define LIFETIME_MOST_MS INT64_C(86400000)
#define SAMPLES 32
#define SAMPLES_MS 1000
#define FOR_LEAST_MS 10
#define FOR_MOST_MS INT64_C(3600000)

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_NAGIOS, FORMAT_PROMETHEUS };

typedef struct {
    int64_t lock_timeout_ms, max_hold_ms, slack_ms, for_ms;
    int samples, format;
    const char *warn, *output;
    bool no_agents, json;
    skew_asked asked;
} skew_options;

static const opt skew_table[] = {
    {0, "lock-timeout", OPT_DURATION, offsetof(skew_options, lock_timeout_ms), "D",
     "lifetime of the locks (60s)", 0, 0},
    {0, "max-hold", OPT_DURATION, offsetof(skew_options, max_hold_ms), "D",
     "the longest that a holder works under one (the lifetime less 1s)", 0, 0},
    {0, "slack", OPT_DURATION, offsetof(skew_options, slack_ms), "D",
     "instead: what of the lifetime no holder works in", 0, 0},
    {0, "warn", OPT_TEXT, offsetof(skew_options, warn), "P%",
     "warn when the worst pair uses more of the slack (50%)", 0, 0},
    {0, "samples", OPT_NUMBER, offsetof(skew_options, samples), "N",
     "questions to the server (32, in 1 s at most)", 1, 100000},
    {0, "for", OPT_DURATION, offsetof(skew_options, for_ms), "D", "measure this host for so long",
     0, 0},
    {0, "no-agents", OPT_FLAG, offsetof(skew_options, no_agents), NULL, "only this host", 0, 0},
    {0, "ntp", OPT_TEXTS, offsetof(skew_options, asked.ntp), "HOST[:PORT]",
     "also the time that HOST serves; again and again", 0, 0},
    {0, "chrony", OPT_MAYBE, offsetof(skew_options, asked.chrony), "[=SOCKET]",
     "also what chronyd believes of this host's clock", 0, 0},
    {0, "kernel", OPT_FLAG, offsetof(skew_options, asked.kernel), NULL,
     "also what the kernel says of it", 0, 0},
    {0, "servers", OPT_MAYBE, offsetof(skew_options, asked.servers), "[=HOST:PORT,...]",
     "also the clocks of all Redis servers that may take over", 0, 0},
    {0, "format", OPT_CHOICE, offsetof(skew_options, format), "text|json|nagios|prometheus",
     "how to say it", 0, 0},
    {0, "json", OPT_FLAG, offsetof(skew_options, json), NULL, "as --format json", 0, 0},
    {0, "output", OPT_TEXT, offsetof(skew_options, output), "FILE",
     "write to FILE, which is replaced at once", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const skew_options skew_defaults = {.lock_timeout_ms = 60000,
                                           .max_hold_ms = UNSET,
                                           .slack_ms = UNSET,
                                           .for_ms = UNSET,
                                           .warn = "50%"};

/* ---- options ---------------------------------------------------------------------------------- */

static int parse_warn(const char *text, int32_t *ret) {
    char *end;

    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || text[0] < '0' || text[0] > '9' || strcmp(end, "%") != 0 || v > 100)
        return fail(STATUS_USAGE, "--warn: 0%% to 100%%, as in --warn 50%%");
    *ret = (int32_t)v;
    return 0;
}

static int make_rule(const skew_options *o, skew_rule *ret) {
    int64_t slack_ms = MARGIN_MS;

    if (o->lock_timeout_ms < 1 || o->lock_timeout_ms > LIFETIME_MOST_MS)
        return fail(STATUS_USAGE, "--lock-timeout: 1ms to 1d");
    if (o->max_hold_ms != UNSET && o->slack_ms != UNSET)
        return fail(STATUS_USAGE, "--max-hold and --slack say the same twice: leave one out");
    if ((o->max_hold_ms != UNSET && o->max_hold_ms > LIFETIME_MOST_MS) ||
        (o->slack_ms != UNSET && o->slack_ms > o->lock_timeout_ms))
        return fail(STATUS_USAGE, "--max-hold: at most 1d; --slack: at most the lifetime");
    if (o->max_hold_ms != UNSET)
        slack_ms = o->lock_timeout_ms - o->max_hold_ms;
    else if (o->slack_ms != UNSET)
        slack_ms = o->slack_ms;
    else if (slack_ms > o->lock_timeout_ms)
        return fail(STATUS_USAGE, "--lock-timeout is under 1s: say --max-hold or --slack");
    *ret = (skew_rule){.lock_timeout_us = o->lock_timeout_ms * 1000,
                       .slack_us = slack_ms * 1000,
                       .drift_ppm = SKEW_DRIFT_PPM};
    return parse_warn(o->warn, &ret->warn_percent);
}

static int make_effort(const skew_options *o, skew_effort *ret) {
    *ret = (skew_effort){.samples = o->samples ? o->samples : SAMPLES, .for_ms = SAMPLES_MS};
    if (o->samples)
        ret->for_ms = FOR_MOST_MS;
    if (o->for_ms == UNSET)
        return 0;
    if (o->samples)
        return fail(STATUS_USAGE, "--samples and --for: leave one out");
    if (o->for_ms < FOR_LEAST_MS || o->for_ms > FOR_MOST_MS)
        return fail(STATUS_USAGE, "--for: 10ms to 1h");
    ret->for_ms = o->for_ms;
    ret->samples = INT_MAX;
    ret->pause_ms = o->for_ms / 200 < 1 ? 1 : o->for_ms / 200 > 250 ? 250 : o->for_ms / 200;
    return 0;
}

/* ---- output ----------------------------------------------------------------------------------- */

static void show(const skew_options *o, const skew_result *r, FILE *out) {
    static void (*const faces[])(const skew_result *, FILE *) = {
        skew_show_text, skew_show_json, skew_show_nagios, skew_show_prometheus};
    faces[o->json ? FORMAT_JSON : o->format](r, out);
}

/* Beside the file first, so that whoever reads it never sees half. */
static int show_to_file(const skew_options *o, const skew_result *r) {
    char path[PATH_MAX];
    int n = snprintf(path, sizeof path, "%s.%lld", o->output, (long long)getpid());

    if (n < 0 || (size_t)n >= sizeof path)
        return fail(STATUS_USAGE, "--output: too long a path");
    FILE *out = fopen(path, "wxe");
    if (!out)
        return fail(STATUS_CONFIG, "--output %.200s: %s", o->output, strerror(errno));
    show(o, r, out);
    bool ok = !ferror(out);
    ok = fclose(out) == 0 && ok;
    if (ok && rename(path, o->output) == 0)
        return 0;
    int saved = errno;
    (void)unlink(path);
    return fail(STATUS_CONFIG, "--output %.200s: %s", o->output, strerror(saved));
}

static int report(const skew_options *o, const skew_result *r) {
    if (o->output) {
        int status = show_to_file(o, r);
        return status ? status : (int)r->verdict;
    }
    show(o, r, stdout);
    if (fflush(stdout) || ferror(stdout))
        return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
    return (int)r->verdict;
}

/* ---- the command ------------------------------------------------------------------------------ */

/* A monitor wants a line and one of its four statuses whatever happens. */
static int unmeasured(const skew_options *o, const skew_rule *rule, const skew_link *l) {
    skew_result r = {.rule = *rule, .verdict = SKEW_UNKNOWN};

    if (o->json || o->format != FORMAT_NAGIOS)
        return fail(l->status, "%s", l->words);
    (void)snprintf(r.reason, sizeof r.reason, "%s", l->words);
    for (char *c = r.reason; *c; c++)
        *c = (char)(*c == '|' ? '/' : *c);
    return report(o, &r);
}

static int judge(const skew_options *o, const skew_rule *rule, const skew_fleet *f) {
    skew_result r = {
        .rule = *rule, .hosts = f->hosts, .host_count = f->count, .missing = f->missing};

    if (!skew_judge(&r)) {
        skew_result_end(&r);
        return fail(STATUS_INTERNAL, "out of memory");
    }
    int status = report(o, &r);
    skew_result_end(&r);
    return status;
}

static int measure_and_judge(const skew_options *o, const skew_rule *rule,
                             const skew_effort *effort, skew_link *l, skew_more *more) {
    skew_fleet fleet;

    if (!skew_fleet_begin(&fleet))
        return fail(STATUS_INTERNAL, "out of memory");
    bool measured = skew_more_gather(more, l) &&
                    skew_fleet_measure(&fleet, l, effort, !o->no_agents);
    if (measured)
        skew_more_add(more, &fleet);
    int status = measured ? judge(o, rule, &fleet) : unmeasured(o, rule, l);
    skew_fleet_end(&fleet);
    return status;
}

static int skew_command(const server *s, const void *options, const operands *words) {
    const skew_options *o = options;
    skew_rule rule;
    skew_effort effort;
    skew_link link;
    skew_more more;

    (void)words;
    int status = make_rule(o, &rule);
    if (status == 0)
        status = make_effort(o, &effort);
    if (status == 0)
        status = skew_more_begin(&more, &o->asked);
    if (status)
        return status;
    status = skew_link_open(&link, s);
    if (status == 0) {
        status = measure_and_judge(o, &rule, &effort, &link, &more);
        skew_link_close(&link);
    }
    skew_more_end(&more);
    return status;
}

const command skew_row = {
    .name = "skew",
    .usage = "[options]",
    .help = "whether locks of the old kind can be stolen with these hosts' clocks",
    .notes =
        "Exit: 0 safe, 1 warning, 2 unsafe, 3 unknown. Other hosts are known by their agents:\n"
        "see \"tidelock help agent\".\n",
    .options = skew_table,
    .defaults = &skew_defaults,
    .size = sizeof(skew_options),
    .function = skew_command,
};
