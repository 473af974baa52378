/*
 * tidelock skew: can a legacy lock be stolen, given the clocks of these hosts? Measures, judges and
 * shows the verdict, which is also the exit status.
 */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/outfile.h"
#include "link/link_open.h"
#include "skew/judge/skew_cause.h"
#include "skew/show/skew_show.h"
#include "skew/show/skew_story.h"
#include "skew/legacy_hooks.h"
#include "skew/skew_fleet.h"
#include "skew/instruments.h"
#include "skew/skew_report.h"
#include "skew/expected_hosts.h"
#include "skew/skew_watch.h"

#define UNSET INT64_MIN
#define MARGIN_MS                                                                                  \
    1000 /* ms of a lock's lifetime that tidelock's own clients leave unused by default */
#define LIFETIME_MOST_MS INT64_C(86400000)
#define SAMPLES 32
#define SAMPLES_MS 1000
#define FOR_LEAST_MS 10
#define FOR_MOST_MS INT64_C(3600000)
#define WATCH_MS 2000
#define PROGRESS_MS 1000         /* ms; a shorter measurement shows no progress */
#define STALE_MS INT64_C(900000) /* ms; as long as a published verdict is valid */
#define STALE_ROUNDS 3           /* rounds of a watch; and at least this long: */
#define STALE_LEAST_MS 60000
#define STALE_MOST_MS INT64_C(2592000000)

enum { FORMAT_TEXT, FORMAT_JSON, FORMAT_NAGIOS, FORMAT_PROMETHEUS, FORMAT_HTML };

typedef struct {
    int64_t lock_timeout_ms, longest_hold_ms, slack_ms, for_ms, watch_ms, stale_after_ms;
    int samples, format;
    const char *warn, *output, *log, *metrics;
    bool no_agents, json, all_pairs;
    expected_hosts expected;
    instrument_options instruments;
} skew_options;

static const opt skew_table[] = {
    {0, "lock-timeout", OPT_DURATION, offsetof(skew_options, lock_timeout_ms), "D",
     "lifetime of the locks (60s)", 0, 0},
    {0, "longest-hold", OPT_DURATION, offsetof(skew_options, longest_hold_ms), "D",
     "how long a holder works at most (lifetime - 1s)", 0, 0},
    {0, "warn", OPT_TEXT, offsetof(skew_options, warn), "P%",
     "warn when the worst pair uses more of the slack (50%)", 0, 0},
    {0, "for", OPT_DURATION, offsetof(skew_options, for_ms), "D", "measure this host for D", 0, 0},
    {0, "expect", OPT_TEXTS, offsetof(skew_options, expected.expect), "HOST,...",
     "hosts that must be measured; may be repeated", 0, 0},
    {0, "watch", OPT_EVERY, offsetof(skew_options, watch_ms), "[=D]",
     "repeat every D (2s), until q or Ctrl-C", WATCH_MS, 0},
    {0, "format", OPT_CHOICE, offsetof(skew_options, format), "text|json|nagios|prometheus|html",
     "the form of the output (text)", 0, 0},
    {0, "json", OPT_FLAG, offsetof(skew_options, json), NULL, "as --format json", 0, 0},
    {0, "log", OPT_TEXT, offsetof(skew_options, log), "FILE",
     "append a line of JSON each time, for \"skew report\"", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "all-pairs", OPT_FLAG, offsetof(skew_options, all_pairs), NULL,
     "json: list all pairs, also of more than a hundred hosts", 0, 0},
    {0, "slack", OPT_DURATION, offsetof(skew_options, slack_ms), "D",
     "instead of --longest-hold: lifetime - longest hold (60s: at least 27ms)", 0, 0},
    {0, "samples", OPT_NUMBER, offsetof(skew_options, samples), "N",
     "requests to the server (32, within 1 s)", 1, 100000},
    {0, "min-hosts", OPT_NUMBER, offsetof(skew_options, expected.min_hosts), "N",
     "at least N hosts must be measured", 1, SKEW_HOSTS_MAX},
    {0, "no-self", OPT_FLAG, offsetof(skew_options, expected.no_self), NULL,
     "ignore the clock of this host, which acquires none of these locks", 0, 0},
    {0, "no-agents", OPT_FLAG, offsetof(skew_options, no_agents), NULL, "measure only this host", 0,
     0},
    {0, "ntp", OPT_TEXTS, offsetof(skew_options, instruments.ntp), "HOST[:PORT]",
     "also ask the NTP server HOST for the time; may be repeated", 0, 0},
    {0, "chrony", OPT_MAYBE, offsetof(skew_options, instruments.chrony), "[=SOCKET]",
     "also ask chronyd how far this host's clock is off", 0, 0},
    {0, "clockbound", OPT_MAYBE, offsetof(skew_options, instruments.clockbound), "[=FILE]",
     "also ask ClockBound how far this host's clock is off", 0, 0},
    {0, "kernel", OPT_FLAG, offsetof(skew_options, instruments.kernel), NULL,
     "also ask the kernel how far this host's clock is off", 0, 0},
    {0, "servers", OPT_MAYBE, offsetof(skew_options, instruments.servers), "[=HOST:PORT,...]",
     "also measure the clocks of all Redis servers that may take over", 0, 0},
    {0, "output", OPT_TEXT, offsetof(skew_options, output), "FILE",
     "replace FILE atomically instead of writing to standard output", 0, 0},
    {0, "stale-after", OPT_DURATION, offsetof(skew_options, stale_after_ms), "D",
     "html: when the page calls itself stale (15m; with --watch three rounds)", 0, 0},
    {0, "metrics", OPT_TEXT, offsetof(skew_options, metrics), "FILE",
     "each time also replace FILE by metrics, for Prometheus' textfile collector", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const skew_options skew_defaults = {.lock_timeout_ms = 60000,
                                           .longest_hold_ms = UNSET,
                                           .slack_ms = UNSET,
                                           .for_ms = UNSET,
                                           .watch_ms = UNSET,
                                           .stale_after_ms = UNSET,
                                           .warn = "50%"};

/* ---- options ---------------------------------------------------------------------------------- */

static int parse_warn(const char *text, int32_t *ret) {
    char *end;

    errno = 0;
    long v = strtol(text, &end, 10);
    if (errno || end == text || text[0] < '0' || text[0] > '9' || strcmp(end, "%") != 0 || v > 100)
        return fail(STATUS_USAGE, "skew: --warn: 0%% to 100%%, as in --warn 50%%");
    *ret = (int32_t)v;
    return 0;
}

static int make_rule(const skew_options *options, skew_rule *ret) {
    bool assumed = options->longest_hold_ms == UNSET && options->slack_ms == UNSET;
    int64_t hold_ms = options->longest_hold_ms, slack_ms = assumed ? MARGIN_MS : options->slack_ms;

    if (options->lock_timeout_ms < 1 || options->lock_timeout_ms > LIFETIME_MOST_MS)
        return fail(STATUS_USAGE, "skew: --lock-timeout: 1ms to 1d");
    if (options->longest_hold_ms != UNSET && options->slack_ms != UNSET)
        return fail(STATUS_USAGE, "skew: --longest-hold and --slack exclude each other");
    if ((options->longest_hold_ms != UNSET && options->longest_hold_ms > LIFETIME_MOST_MS) ||
        (options->slack_ms != UNSET && options->slack_ms > options->lock_timeout_ms))
        return fail(STATUS_USAGE,
                    "skew: --longest-hold: at most 1d; --slack: at most the lifetime");
    if (assumed && options->lock_timeout_ms < MARGIN_MS)
        return fail(STATUS_USAGE,
                    "skew: --lock-timeout is less than 1s: give --longest-hold or --slack");
    if (hold_ms == UNSET) /* one of the two is given, the other follows from it */
        hold_ms = options->lock_timeout_ms - slack_ms;
    else
        slack_ms = options->lock_timeout_ms - hold_ms;
    *ret = (skew_rule){.lock_timeout_us = options->lock_timeout_ms * 1000,
                       .longest_hold_us = hold_ms * 1000,
                       .slack_us = slack_ms * 1000,
                       .longest_hold_assumed = assumed,
                       .hosts_assumed = options->expected.expect.count == 0 &&
                                        options->expected.min_hosts == 0,
                       .min_hosts = options->expected.min_hosts,
                       .drift_ppm = SKEW_DRIFT_PPM};
    return parse_warn(options->warn, &ret->warn_percent);
}

/* The hooks of tools/legacy for this command; NULL: none. */
static const skew_legacy_hooks *legacy_of(const void *options) {
    return options ? FROM_LEGACY(skew_legacy) : NULL;
}

static bool listens(const void *legacy_options) {
    const skew_legacy_hooks *legacy = legacy_of(legacy_options);
    return legacy && legacy->listens(legacy_options);
}

static int check_roll(const skew_options *options, const void *legacy) {
    char self[SKEW_NAME_SIZE];

    skew_self_name(self);
    if (options->expected.no_self && options->no_agents && !listens(legacy))
        return fail(STATUS_USAGE,
                    "skew: --no-self and --no-agents leave no host to measure: leave one out");
    return expected_hosts_check(&options->expected, self);
}

static int check_stale(const skew_options *options) {
    if (options->stale_after_ms == UNSET)
        return 0;
    if (options->json || options->format != FORMAT_HTML)
        return fail(STATUS_USAGE, "skew: --stale-after needs --format html");
    if (options->stale_after_ms < STALE_LEAST_MS || options->stale_after_ms > STALE_MOST_MS)
        return fail(STATUS_USAGE, "skew: --stale-after: 1m to 30d");
    return 0;
}

static int check_all_pairs(const skew_options *options) {
    return options->all_pairs && !options->json && options->format != FORMAT_JSON
               ? fail(STATUS_USAGE, "skew: --all-pairs needs --format json")
               : 0;
}

static int make_effort(const skew_options *options, skew_effort *ret) {
    *ret = (skew_effort){.samples = options->samples ? options->samples : SAMPLES,
                         .for_ms = SAMPLES_MS};
    if (options->samples)
        ret->for_ms = FOR_MOST_MS;
    if (options->for_ms == UNSET)
        return 0;
    if (options->samples)
        return fail(STATUS_USAGE, "skew: --samples and --for exclude each other");
    if (options->for_ms < FOR_LEAST_MS || options->for_ms > FOR_MOST_MS)
        return fail(STATUS_USAGE, "skew: --for: 10ms to 1h");
    ret->for_ms = options->for_ms;
    ret->samples = INT_MAX;
    ret->pause_ms = options->for_ms / 200 < 1     ? 1
                    : options->for_ms / 200 > 250 ? 250
                                                  : options->for_ms / 200;
    return 0;
}

/* ---- a session: one round, or a watch of many ----------------------------------------------- */

typedef struct {
    const skew_options *options;
    const server *where;
    int format;
    skew_rule rule;
    skew_effort effort;
    const void *legacy_options;
    const skew_legacy_hooks *legacy; /* NULL: none */
    server_link link;
    instruments instruments;
    skew_watch watch;
    bool watching;
    int rounds;
    int64_t begun_ms; /* when the round began */
    bool progress_shown;
} session;

/* Shows progress, on a terminal. */
static void show_progress(session *session, int64_t done_ms) {
    if (done_ms < PROGRESS_MS || !isatty(STDERR_FILENO))
        return;
    session->progress_shown = true;
    if (session->options->for_ms != UNSET)
        (void)fprintf(stderr, "\r\033[Kmeasuring: %lld of %lld s", (long long)(done_ms / 1000),
                      (long long)(session->options->for_ms / 1000));
    else
        (void)fprintf(stderr, "\r\033[Kmeasuring: %lld s", (long long)(done_ms / 1000));
    (void)fflush(stderr);
}

static void hide_progress(session *session) {
    if (session->progress_shown)
        (void)fputs("\r\033[K", stderr);
    session->progress_shown = false;
}

static bool go_on(void *ctx, int64_t done_ms) {
    session *session = ctx;
    show_progress(session, done_ms);
    return !session->watching || !skew_watch_pause(&session->watch, 0);
}

/* ---- output ----------------------------------------------------------------------------------- */

typedef struct {
    int format;
    const skew_result *result;
} showing;

#define COLUMNS 80 /* of a terminal that doesn't report its size */
#define ROWS 24
#define ROWS_LEAST 5
#define WATCH_ROWS 2 /* the time, and a blank line */

static void show(const void *ctx, FILE *out) {
    static void (*const faces[])(const skew_result *, FILE *) = {
        skew_show_text, skew_show_json, skew_show_nagios, skew_show_prometheus, skew_show_html};
    const showing *showing = ctx;
    faces[showing->format](showing->result, out);
}

static void show_on_terminal(const session *session, const skew_result *result) {
    struct winsize size = {.ws_row = 0};

    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || size.ws_row == 0 || size.ws_col == 0)
        size = (struct winsize){.ws_row = ROWS, .ws_col = COLUMNS};
    int rows = size.ws_row - (session->watching ? WATCH_ROWS : 0);
    skew_show_screen(result, size.ws_col, rows > ROWS_LEAST ? rows : ROWS_LEAST, stdout);
}

/* Separates the rounds of a watch, for people. On a terminal each round replaces the one before. */
static void separate(const session *session, const skew_result *result) {
    char at[SKEW_TIME_SIZE], every[DURATION_SHOWN];

    if (!session->watching || session->format != FORMAT_TEXT)
        return;
    bool terminal = isatty(STDOUT_FILENO);
    if (terminal)
        (void)fputs("\033[H\033[2J", stdout);
    else if (session->rounds > 0)
        (void)fputc('\n', stdout);
    (void)fputs(skew_time(at, result->at_ms), stdout);
    if (terminal)
        (void)printf("   every %s; %sCtrl-C ends", show_ms(every, session->options->watch_ms),
                     session->watch.keys ? "q or " : "");
    (void)fputs(terminal ? "\n\n" : "\n", stdout);
}

static int put_out(const session *session, const skew_result *result) {
    showing showing = {.format = session->format, .result = result};

    if (session->options->output)
        return outfile_replace("--output", session->options->output, show, &showing);
    separate(session, result);
    if (session->format == FORMAT_TEXT && isatty(STDOUT_FILENO))
        show_on_terminal(session, result);
    else
        show(&showing, stdout);
    if (fflush(stdout) || ferror(stdout))
        return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
    return 0;
}

static int put_log(const session *session, const skew_result *result) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = session->options->log ? open_memstream(&text, &len) : NULL;

    if (!session->options->log)
        return 0;
    if (out)
        skew_show_log(result, out);
    bool whole = out && !ferror(out);
    whole = out && fclose(out) == 0 && whole;
    int status = whole ? outfile_append("--log", session->options->log, text, len)
                       : fail(STATUS_INTERNAL, "out of memory");
    free(text);
    return status;
}

static int put_metrics(const session *session, const skew_result *result) {
    const showing showing = {.format = FORMAT_PROMETHEUS, .result = result};

    return session->options->metrics
               ? outfile_replace("--metrics", session->options->metrics, show, &showing)
               : 0;
}

/* A verdict that could not be written is a failure: the first failure is the exit status. */
static int report(session *session, const skew_result *result) {
    int status = put_out(session, result), second = put_log(session, result),
        third = put_metrics(session, result);

    session->rounds++;
    status = status ? status : second ? second : third;
    return status ? status : (int)result->verdict;
}

/* ---- the command ------------------------------------------------------------------------------ */

/* For how long a page is valid: until some rounds are overdue. */
static int64_t stale_after(const session *session) {
    if (session->options->stale_after_ms != UNSET)
        return session->options->stale_after_ms;
    if (!session->watching)
        return STALE_MS;
    int64_t rounds = tl__mul_sat(session->options->watch_ms + moment_ms() - session->begun_ms,
                                 STALE_ROUNDS);
    return rounds > STALE_LEAST_MS ? rounds : STALE_LEAST_MS;
}

static skew_result begin_result(const session *session) {
    skew_result result = {
        .rule = session->rule,
        .pairs_most = session->options->all_pairs ? SIZE_MAX : SKEW_PAIRS_MOST,
        .stale_after_ms = stale_after(session),
        .watch_ms = session->watching && session->options->output ? session->options->watch_ms : 0};

    (void)snprintf(result.server, sizeof result.server, "%s", session->link.endpoint.label);
    return result;
}

/* Reports that nothing could be measured. A monitor expects a line and one of its four statuses in
 * any case; a watch continues with its next round. */
static int unmeasured(session *session) {
    skew_result result = begin_result(session);
    bool goes_on = session->format == FORMAT_NAGIOS || (session->watching && session->rounds > 0),
         stays = session->format == FORMAT_PROMETHEUS || session->format == FORMAT_HTML;

    result.verdict = SKEW_UNKNOWN;
    result.at_ms = skew_reading_now().wall_us / 1000;
    (void)snprintf(result.reason, sizeof result.reason, "%s", session->link.message);
    if (goes_on)
        return report(session, &result);
    if (stays && session->options->output) /* else an old file would still say "safe" */
        (void)put_out(session, &result);
    (void)put_metrics(session, &result);
    (void)put_log(session, &result);
    return fail(session->link.status, "%s", session->link.message);
}

static bool publishes(const session *session) {
    return session->legacy && session->legacy->publishes(session->legacy_options);
}

static int judge(session *session, const skew_fleet *fleet, const skew_listen *listening) {
    skew_result result = begin_result(session);

    result.hosts = fleet->hosts;
    result.host_count = fleet->count;
    result.more = fleet->more;
    result.at_ms = fleet->at_ms;
    if (listening && session->legacy)
        session->legacy->tell(listening, &result);
    instruments_tell(&session->instruments, &result);
    if (!skew_judge(&result) || !skew_cause_find(&result)) {
        skew_result_end(&result);
        return fail(STATUS_INTERNAL, "out of memory");
    }
    int status = report(session, &result), published = 0;
    if (publishes(session))
        published = session->legacy->publish(session->legacy_options, &session->link, &result,
                                             session->options->watch_ms);
    skew_result_end(&result);
    return published ? published : status;
}

/* most redirections, in a cluster whose slots are being moved; each measures all again */
#define HOPS 3

static bool gather(session *session, skew_fleet *fleet, skew_listen *listening) {
    for (int i = 0; i < HOPS; i++) {
        if (!link_follow(&session->link, session->where))
            return false;
        if (instruments_ask(&session->instruments, &session->link) &&
            skew_fleet_measure(fleet, &session->link, &session->effort,
                               !session->options->no_agents, listening))
            return true;
        if (!link_leads_on(&session->link, session->where))
            return false;
    }
    return false;
}

static bool measure(session *session, skew_fleet *fleet, skew_listen *listening) {
    if (!gather(session, fleet, listening))
        return false;
    instruments_add(&session->instruments, fleet);
    if (listening && session->legacy)
        session->legacy->judge(listening, fleet->hosts, fleet->count);
    expected_hosts_apply(&session->options->expected, fleet);
    if (publishes(session) && !session->options->instruments.servers)
        instruments_add_server(&session->link, fleet);
    return true;
}

static int measure_and_judge(session *session) {
    skew_fleet fleet;
    skew_listen *listening = NULL;
    bool wanted = listens(session->legacy_options);
    session->begun_ms = moment_ms();
    if (wanted && session->legacy)
        listening = session->legacy->begin(session->legacy_options, &session->rule);

    bool room = skew_fleet_begin(&fleet) && (listening || !wanted);
    bool measured = room && measure(session, &fleet, listening);
    hide_progress(session);
    int status = measured ? judge(session, &fleet, listening)
                 : room   ? unmeasured(session)
                          : fail(STATUS_INTERNAL, "out of memory");
    if (session->legacy)
        session->legacy->end(listening);
    skew_fleet_end(&fleet);
    return status;
}

/* Measures in rounds. A verdict, a failed log, or a server that becomes unreachable doesn't end the
 * watch; any other failure does. */
static int watch_rounds(session *session) {
    int status = measure_and_judge(session);

    while ((status <= SKEW_UNKNOWN || status == STATUS_CONFIG ||
            (status == STATUS_UNAVAILABLE && session->rounds > 0)) &&
           !skew_watch_pause(&session->watch, session->options->watch_ms))
        status = measure_and_judge(session);
    return status;
}

/* Rejects options that listen or publish at a single server: in a cluster they would leave out the
 * other masters. */
static int check_cluster(const session *session, const server *where) {
    const char *why = session->legacy && server_by_cluster(where)
                          ? session->legacy->not_in_cluster(session->legacy_options)
                          : NULL;

    return why ? fail(STATUS_USAGE, "skew: %s", why) : 0;
}

static int run(session *session, const server *where) {
    int status = check_cluster(session, where);

    session->instruments.by_cluster = server_by_cluster(where);
    status = status ? status
                    : instruments_begin(&session->instruments, &session->options->instruments);

    if (status)
        return status;
    status = server_need_url(where, "skew");
    if (status == 0 && (status = link_open_quietly(&session->link, where)))
        status = link_is_led(where) && status != STATUS_USAGE && status != STATUS_CONFIG
                     ? unmeasured(session)
                     : fail(status, "%s", session->link.message);
    if (status) {
        instruments_end(&session->instruments);
        return status;
    }
    session->link.needer = &skew_needer;
    if (!session->watching) {
        status = measure_and_judge(session);
    } else if ((status = skew_watch_begin(&session->watch)) == 0) {
        status = watch_rounds(session);
        status = skew_watch_end(&session->watch, status);
    }
    link_close(&session->link);
    instruments_end(&session->instruments);
    return status;
}

/* Rejects options that a report doesn't use: the user meant something else. */
static int read_logs(const skew_options *options, const void *legacy_options,
                     const operands *args) {
    const skew_legacy_hooks *legacy = legacy_of(legacy_options);
    const skew_options *defaults = &skew_defaults;

    if (options->lock_timeout_ms != defaults->lock_timeout_ms ||
        options->longest_hold_ms != UNSET || options->slack_ms != UNSET ||
        options->for_ms != UNSET || options->watch_ms != UNSET || options->samples ||
        options->warn != defaults->warn || options->log || options->metrics || options->no_agents ||
        options->all_pairs || options->expected.expect.count || options->expected.min_hosts ||
        options->expected.no_self || options->instruments.ntp.count ||
        options->instruments.chrony || options->instruments.clockbound ||
        options->instruments.servers || options->instruments.kernel ||
        (legacy && legacy->any(legacy_options)))
        return fail(
            STATUS_USAGE,
            "skew report: its only options are --format, --json, --output and --stale-after");
    if (options->format == FORMAT_NAGIOS || options->format == FORMAT_PROMETHEUS)
        return fail(STATUS_USAGE, "skew report: --format: one of text, json, html");
    return skew_report(args->word + 1, args->count - 1,
                       options->json                    ? SKEW_REPORT_JSON
                       : options->format == FORMAT_HTML ? SKEW_REPORT_HTML
                       : options->format                ? SKEW_REPORT_JSON
                                                        : SKEW_REPORT_TEXT,
                       options->output,
                       options->stale_after_ms == UNSET ? 0 : options->stale_after_ms);
}

static int skew_command(const server *where, const void *values, const operands *args) {
    const skew_options *options = values;
    session session = {.options = options,
                       .where = where,
                       .watching = options->watch_ms != UNSET,
                       .legacy_options = where->legacy,
                       .legacy = legacy_of(where->legacy)};
    int status = check_stale(options);

    if (status)
        return status;
    if (args->count && strcmp(args->word[0], "report") == 0)
        return read_logs(options, where->legacy, args);
    if (args->count)
        return fail(STATUS_USAGE,
                    "skew: too many arguments; to summarize logs: tidelock skew report FILE...");
    if (options->watch_ms == 0)
        return fail(STATUS_USAGE, "skew: --watch: the pause is at least 1ms");
    session.format = options->json ? FORMAT_JSON : options->format;
    status = check_roll(options, where->legacy);
    if (status == 0)
        status = check_all_pairs(options);
    if (status == 0)
        status = make_rule(options, &session.rule);
    if (status == 0)
        status = make_effort(options, &session.effort);
    if (status == 0 && session.legacy)
        status = session.legacy->check(where->legacy, &session.rule);
    session.effort.go_on = go_on;
    session.effort.ctx = &session;
    return status ? status : run(&session, where);
}

const command skew_row = {
    .name = "skew",
    .usage = "[options] | skew report FILE...",
    .help = "check whether clock skew lets legacy clients' locks be stolen",
    .notes =
        "Other hosts are measured by their agents: "
        "see \"tidelock help agent\". \"skew report\" summarizes the files of --log, with drift "
        "and "
        "the time until it is unsafe; its only options are --format text|json|html, --output and "
        "--stale-after.\n",
    .statuses =
        (const status_row[]){
            {SKEW_SAFE, "safe", "SAFE"},
            {SKEW_WARN, "warning", "WARN"},
            {SKEW_UNSAFE, "unsafe", "UNSAFE"},
            {SKEW_UNKNOWN, "unknown",
             "UNKNOWN; with _nagios_ also when the server can't be reached"},
            {STATUS_REFUSED, NULL, "the server refuses, or has no TIME (before Redis 2.6)"},
            {STATUS_CONFIG, NULL, "wrong configuration, or *--output* can't be written"},
            {0, NULL, NULL}},
    .members = (const members_row[]){{"skew", members_of_skew},
                                     {"host", members_of_host},
                                     {"pair", members_of_pair},
                                     {"cause", members_of_cause},
                                     {"log", members_of_log},
                                     {"log_host", members_of_log_host},
                                     {"story", members_of_story},
                                     {"outlook", members_of_outlook},
                                     {"past_host", members_of_past_host},
                                     {"over_time", members_of_over_time},
                                     {"turn", members_of_turn},
                                     {NULL, NULL}},
    .options = skew_table,
    .defaults = &skew_defaults,
    .size = sizeof(skew_options),
    .legacy = FROM_LEGACY(skew_legacy_part),
    .args_max = 65,
    .function = skew_command,
};
