/*
 * tidelock migrate: moves the locks of a namespace from the legacy clients' protocol to tokens, and
 * back, one phase at a time. This file has the options and the subcommands that only show. Each
 * subcommand that changes something has its own file.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/outfile.h"
#include "ground/glob.h"
#include "migrate/migrate.h"
#include "migrate/migrate_metrics.h"
#include "migrate/migrate_show.h"
#include "migrate/migrate_survey.h"
#include "migrate/migrate_watches.h"

#define AT(member) offsetof(migrate_options, member)
#define LEGACY(member) (AT(legacy) + offsetof(legacy_options, member))

static const opt options[] = {
    {0, "namespace", OPT_TEXT, AT(name), "NS", "the namespace (default)", 0, 0},
    {0, "keys", OPT_TEXT, AT(keys), "PATTERN", "init, survey, cluster's sweep: glob of the locks",
     0, 0},
    {'y', "yes", OPT_FLAG, AT(yes), NULL, "init, advance, rollback: don't ask", 0, 0},
    {0, "dry-run", OPT_FLAG, AT(dry_run), NULL, "sweep: only print what would be removed", 0, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "status, clients, survey, sweep: in JSON", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, "phase", OPT_NUMBER, AT(phase), "N",
     "init: the phase to begin in; advance, rollback: fail unless this is the next phase", 0,
     PHASES - 1},
    {0, "lease", OPT_DURATION, AT(lease_ms), "D",
     "init: how long a client may rely on the phase that it has read (30s)", 0, 0},
    {0, "again", OPT_FLAG, AT(again), NULL,
     "init: change the keys, or repair a register that went back", 0, 0},
    {0, "watch", OPT_DURATION, AT(watch_ms), "D",
     "advance to phase 2: watch for legacy clients for D (the lease). survey: read keys for D (until all are "
     "read, 10s at least, 10m at most)",
     0, 0},
    {0, "monitor", OPT_DURATION, AT(monitor_ms), "D",
     "advance to phase 2: of that time, read MONITOR for D (10s, when in doubt). survey: then read "
     "MONITOR for D, at each master in turn (not at all)",
     0, 0},
    {0, "rate", OPT_NUMBER, AT(rate), "N", "survey: read at most N keys a second (20000)", 100,
     1000000},
    {0, "force", OPT_FLAG, AT(force), NULL, "with --watch 0s: don't look for legacy clients at all",
     0, 0},
    {0, "wait", OPT_DURATION, AT(wait_ms), "D",
     "advance, rollback: how long to wait for obstacles that end by themselves (three leases; in a "
     "cluster 90 s)",
     0, 0},
    {0, "metrics", OPT_TEXT, AT(metrics), "FILE",
     "status: also replace FILE by metrics, for Prometheus' textfile collector", 0, 0},
    {0, "history", OPT_FLAG, AT(history), NULL, "status: also print all changes", 0, 0},
    {0, "dialect", OPT_TEXT, LEGACY(dialect), "NAME", "how legacy clients write stamps (java)", 0,
     0},
    {0, "legacy-ttl-min", OPT_DURATION, LEGACY(legacy_ttl_min_ms), "D",
     "the shortest lifetime that legacy clients use (60s)", 0, 0},
    {0, "clock-skew-max", OPT_DURATION, LEGACY(clock_skew_max_ms), "D",
     "sweep: how far legacy clients' clocks may be off the server's (1s)", 0, 0},
    {0, "legacy-delay-max", OPT_DURATION, LEGACY(legacy_delay_max_ms), "D",
     "sweep: how long a legacy client may take for one step (half of --clock-skew-max)", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const migrate_options defaults = {.name = "default",
                                         .phase = MIGRATE_NOT_GIVEN,
                                         .lease_ms = MIGRATE_NOT_GIVEN,
                                         .watch_ms = MIGRATE_NOT_GIVEN,
                                         .monitor_ms = MIGRATE_NOT_GIVEN,
                                         .wait_ms = MIGRATE_NOT_GIVEN,
                                         .legacy = {LEGACY_DEFAULTS}};

/* ---- subcommands that only show ------------------------------------------------------------- */

static int written(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
}

static bool as_json(const migrate_work *work) {
    return work->options->json || work->options->format;
}

static int clients(migrate_work *work) {
    if (!as_json(work)) {
        migrate_show_clients(&work->view, stdout);
        return 0;
    }
    return migrate_show_line(migrate_clients_json(&work->view));
}

typedef struct {
    migrate_change *list;
    int count;
} history;

static void keep(void *ctx, const migrate_change *change) {
    history *history = ctx;
    if (history->list && history->count < MIGRATE_LOG_MOST)
        history->list[history->count++] = *change;
}

static int show(migrate_work *work, const migrate_locks *locks, const history *history) {
    migrate_traffic traffic;
    int next = migrate_next_phase(&work->view), back = migrate_former_phase(&work->view);
    migrate_status status = {.view = &work->view,
                             .locks = locks,
                             .traffic = &traffic,
                             .history = history->list,
                             .changes = history->count};

    migrate_watches_glance(&work->migration, work->view.reg.keys, &traffic);
    migrate_judge(&work->view, next, locks, NULL, &status.next);
    migrate_acl_judge(work, next, &traffic.permissions, &status.next);
    migrate_judge(&work->view, back, locks, NULL, &status.back);
    int result = 0;
    if (as_json(work))
        result = migrate_show_line(migrate_status_json(&status));
    else
        migrate_show_text(&status, stdout);
    int written = work->options->metrics ? migrate_metrics_write(work->options->metrics, &status)
                                         : 0;
    return result ? result : written;
}

static int status(migrate_work *work) {
    history history = {
        .list = work->options->history ? calloc(MIGRATE_LOG_MOST, sizeof *history.list) : NULL};
    migrate_locks locks = {.whole = false};
    bool look = work->view.reg.readable;

    int result = look ? migrate_look(&work->migration, &work->view, work->view.reg.keys,
                                     &work->sigs, &locks, &work->sig)
                      : 0;
    if (result == 0 && work->options->history)
        result = history.list ? migrate_history(&work->migration, keep, &history)
                              : fail(STATUS_INTERNAL, "migrate status: out of memory");
    if (result == 0 && !work->sig)
        result = show(work, look ? &locks : NULL, &history);
    free(history.list);
    return result == 0 && work->sig ? signals_status(work->sig) : result;
}

/* ---- subcommands ---------------------------------------------------------------------------- */

enum {
    INIT_ONLY = 1,
    STEP_ONLY = 2,
    ASKS = 4,
    SWEEP_ONLY = 8,
    STATUS_ONLY = 16,
    REPORTS = 32,
    MOVES = 64,
    NO_PHASE = 128,
    LISTS = 256,
    LOOKS = 512
};

static const struct {
    const char *name;
    unsigned takes;
    int (*function)(migrate_work *w);
} words_known[] = {
    {"survey", LOOKS | REPORTS | NO_PHASE, migrate_survey},
    {"init", INIT_ONLY | ASKS, migrate_init},
    {"status", STATUS_ONLY | REPORTS, status},
    {"advance", STEP_ONLY | MOVES | ASKS, migrate_advance},
    {"rollback", MOVES | ASKS, migrate_rollback},
    {"sweep", SWEEP_ONLY | REPORTS | NO_PHASE, migrate_sweep},
    {"clients", REPORTS | LISTS, clients},
    {"acl", NO_PHASE, migrate_acl},
};
#define WORDS (sizeof words_known / sizeof *words_known)

/* Rejects options that the subcommand doesn't take. */
static int check_options(const char *word, unsigned takes, const migrate_options *options) {
    const struct {
        bool given;
        unsigned needs;
        const char *name, *whose;
    } all[] = {
        {options->keys != NULL, INIT_ONLY | SWEEP_ONLY | LOOKS, "--keys",
         "init, survey, and sweep of a cluster"},
        {options->phase != MIGRATE_NOT_GIVEN, INIT_ONLY | MOVES, "--phase",
         "init, advance and rollback"},
        {options->lease_ms != MIGRATE_NOT_GIVEN, INIT_ONLY, "--lease", "init"},
        {options->again, INIT_ONLY, "--again", "init"},
        {options->watch_ms != MIGRATE_NOT_GIVEN, STEP_ONLY | LOOKS, "--watch",
         "advance and survey"},
        {options->monitor_ms != MIGRATE_NOT_GIVEN, STEP_ONLY | LOOKS, "--monitor",
         "advance and survey"},
        {options->rate != 0, LOOKS, "--rate", "survey"},
        {options->force, STEP_ONLY, "--force", "advance"},
        {options->wait_ms != MIGRATE_NOT_GIVEN, MOVES, "--wait", "advance and rollback"},
        {options->yes, ASKS, "--yes", "init, advance and rollback"},
        {options->dry_run, SWEEP_ONLY, "--dry-run", "sweep"},
        {options->history, STATUS_ONLY, "--history", "status"},
        {options->metrics != NULL, STATUS_ONLY, "--metrics", "status"},
        {options->json || options->format, REPORTS, "--json", "status, clients, survey and sweep"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !(takes & all[i].needs))
            return fail(STATUS_USAGE, "migrate %s: %s is for %s", word, all[i].name, all[i].whose);
    return 0;
}

static int check_looks(const migrate_options *options) {
    if (options->watch_ms == 0)
        return fail(STATUS_USAGE, "migrate survey: --watch: at least 1ms");
    if (options->monitor_ms > INT64_C(3600000))
        return fail(STATUS_USAGE, "migrate survey: --monitor: 1h at most");
    return 0;
}

static int check_waits(unsigned takes, const migrate_options *options) {
    if (options->watch_ms > INT64_C(31) * 86400000 || options->wait_ms > INT64_C(31) * 86400000)
        return fail(STATUS_USAGE, "migrate: --watch and --wait: 31d at most");
    if (takes & LOOKS)
        return check_looks(options);
    if (options->watch_ms == 0 && !options->force)
        return fail(
            STATUS_USAGE,
            "migrate advance: with --watch 0s it doesn't look for legacy clients, and one that is "
            "overlooked holds locks beside other clients: add --force if that is meant");
    if (options->force && options->watch_ms != 0)
        return fail(STATUS_USAGE, "migrate advance: --force requires --watch 0s");
    return 0;
}

static int check_values(const char *word, unsigned takes, const migrate_options *options) {
    if (!migrate_name_ok(options->name))
        return fail(STATUS_USAGE, "migrate: --namespace: 1 to %d letters, digits and any of _ . -",
                    MIGRATE_NAME_MAX);
    if ((takes & INIT_ONLY) && !options->keys)
        return fail(STATUS_USAGE,
                    "migrate init: --keys PATTERN is missing: which keys are its locks?");
    if (options->keys && (!*options->keys || strlen(options->keys) >= MIGRATE_KEYS_SIZE))
        return fail(STATUS_USAGE, "migrate %s: --keys: 1 to %d bytes", word, MIGRATE_KEYS_SIZE - 1);
    const char *flaw = options->keys ? tl__glob_flaw(tl__bytes_of(options->keys)) : NULL;
    if (flaw)
        return fail(STATUS_USAGE, "migrate %s: --keys: the pattern has a %s", word, flaw);
    if (options->lease_ms != MIGRATE_NOT_GIVEN &&
        (options->lease_ms < MIGRATE_LEASE_LEAST_MS || options->lease_ms > MIGRATE_LEASE_MOST_MS))
        return fail(STATUS_USAGE, "migrate init: --lease: 1s to 10m");
    if (check_waits(takes, options))
        return STATUS_USAGE;
    if (options->metrics && outfile_check("migrate status: --metrics", options->metrics))
        return STATUS_CONFIG;
    if ((takes & ASKS) && !options->yes && !isatty(STDIN_FILENO))
        return fail(STATUS_USAGE, "migrate %s: no terminal to ask on: confirm with --yes", word);
    return 0;
}

/* In a cluster no client has a lease, nor is one registered. */
static int check_cluster(unsigned takes, const migrate_options *options, bool cluster) {
    if (cluster && options->lease_ms != MIGRATE_NOT_GIVEN)
        return fail(STATUS_USAGE,
                    "migrate init: --lease: in a cluster no client has a lease: each acquire is "
                    "judged by the register of its slot");
    if (cluster && (takes & LISTS))
        return fail(STATUS_USAGE,
                    "migrate clients: in a cluster no client is registered: each acquire is judged "
                    "by the register of its slot, so no step waits for clients");
    if (!cluster && (takes & SWEEP_ONLY) && options->keys)
        return fail(
            STATUS_USAGE,
            "migrate sweep: --keys is only for a cluster: here the namespace's register names the "
            "keys");
    return 0;
}

/* In a cluster a sweep may come before the namespace is registered. */
static bool reads_phase(const migrate_work *work, int (*function)(migrate_work *w)) {
    return function != migrate_acl && function != migrate_survey &&
           !(function == migrate_sweep && work->options->keys);
}

static int work_on(migrate_work *work, int (*function)(migrate_work *w)) {
    bool reads = reads_phase(work, function); /* acl needs no scripts */
    if (signals_begin(&work->sigs))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    int result = reads ? migrate_read(&work->migration, &work->view) : 0;
    if (result == 0)
        result = function(work);
    if (result == 0)
        result = written();
    migrate_view_end(&work->view);
    signals_end(&work->sigs);
    return result;
}

static int migrate_function(const server *where, const void *given, const operands *args) {
    migrate_work work = {.options = given, .word = args->word[0]};
    size_t i = 0;

    while (i < WORDS && strcmp(words_known[i].name, work.word) != 0)
        i++;
    if (i == WORDS)
        return fail(STATUS_USAGE,
                    "migrate: unknown argument %.40s: say survey, init, status, advance, rollback, "
                    "sweep, clients or acl; see: tidelock help migrate",
                    work.word);
    unsigned takes = words_known[i].takes;
    int result = check_options(work.word, takes, work.options);
    if (result == 0)
        result = check_values(work.word, takes, work.options);
    if (result == 0)
        result = check_cluster(takes, work.options, server_by_cluster(where));
    if (result == 0)
        result = migrate_link_open(&work.migration, where, work.word, !(takes & NO_PHASE),
                                   work.options->name, &work.options->legacy);
    if (result)
        return result;
    result = work_on(&work, words_known[i].function);
    migrate_link_close(&work.migration);
    return result;
}

const command migrate_row = {
    .name = "migrate",
    .usage = "survey|init|status|advance|rollback|sweep|clients|acl",
    .help = "migrate a namespace's locks from legacy stamps to tokens",
    .notes = "  survey    look for legacy locks and their clients; propose options\n"
             "  init      register a namespace: its keys, and the phase to begin in\n"
             "  status    print its phase, its clients, and what blocks the next phase\n"
             "  advance   go to the next phase, once nothing blocks it\n"
             "  rollback  go to the previous phase\n"
             "  sweep     remove stamps that have expired for every client\n"
             "  clients   list the clients, and the phase that each has confirmed\n"
             "  acl       print ACL rules that make the server refuse legacy clients\n"
             "\nPhases: 0 timestamp, 1 bridge, 2 drain, 3 token. The old Java class: 0 and 1.\n",
    .statuses =
        (const status_row[]){
            {STATUS_OK, "done", "done; also of *status*, whatever it prints"},
            {STATUS_USAGE, NULL,
             "wrong usage. Also *clients* and *--lease* with a *redis+cluster://* URL"},
            {STATUS_UNAVAILABLE, "server unreachable",
             "the server was not reached, or is a replica. Or not all replicas have confirmed the "
             "present epoch, or a change"},
            {STATUS_REFUSED, "refused: something blocks it",
             "refused: something is in the way, or the answer was no. Or the server runs "
             "no scripts (EVAL), or lacks SCAN (before Redis 2.8), which lists keys. Or it is a node of a "
             "cluster with several masters, whose locks would be missed"},
            {STATUS_SIGNAL, NULL, "signal _n_ ended it"},
            {0, NULL, NULL}},
    .members = (const members_row[]){{"register", members_of_register},
                                     {"slots", members_of_slots},
                                     {"status", members_of_status},
                                     {"client", members_of_client},
                                     {"evidence", members_of_evidence},
                                     {"source", members_of_source},
                                     {"bunch", members_of_bunch},
                                     {"example", members_of_example},
                                     {"step", members_of_step},
                                     {"blocker", members_of_blocker},
                                     {"change", members_of_change},
                                     {"sweep", members_of_sweep},
                                     {"survey", members_of_survey},
                                     {"surveyed", members_of_surveyed},
                                     {"pattern", members_of_pattern},
                                     {"form", members_of_form},
                                     {"samples", members_of_samples},
                                     {"user", members_of_user},
                                     {"offset", members_of_offset},
                                     {"suggestion", members_of_suggestion},
                                     {NULL, NULL}},
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .args_min = 1,
    .args_max = 1,
    .function = migrate_function,
};
