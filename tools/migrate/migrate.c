/*
 * tidelock migrate: moves the locks of a namespace from the legacy clients' protocol to tokens, and back, one
 * phase at a time. This file has the options and what only shows; each word that changes something has a
 * file of its own.
 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ground/glob.h"
#include "migrate/migrate.h"
#include "migrate/migrate_show.h"
#include "migrate/migrate_traffic.h"

#define AT(member) offsetof(migrate_options, member)
#define LEGACY(member) (AT(legacy) + offsetof(legacy_options, member))

static const opt options[] = {
    {0, "namespace", OPT_TEXT, AT(name), "NS", "the namespace (default)", 0, 0},
    {0, "keys", OPT_TEXT, AT(keys), "PATTERN",
     "init; sweep of a cluster: a glob of its locks' names, and of nothing else", 0, 0},
    {0, "phase", OPT_NUMBER, AT(phase), "N",
     "init: the phase to begin in; advance, rollback: the one to go to, and no other", 0,
     PHASES - 1},
    {0, "lease", OPT_DURATION, AT(lease_ms), "D",
     "init: how long a client may act by what it has read (30s)", 0, 0},
    {0, "again", OPT_FLAG, AT(again), NULL,
     "init: change the keys, or set right a register that went back", 0, 0},
    {0, "watch", OPT_DURATION, AT(watch_ms), "D",
     "advance to phase 2: watch for legacy clients so long (the lease)", 0, 0},
    {0, "monitor", OPT_DURATION, AT(monitor_ms), "D",
     "of that, read MONITOR for so long to name them (10s)", 0, 0},
    {0, "force", OPT_FLAG, AT(force), NULL, "with --watch 0s: look for no legacy client at all", 0,
     0},
    {0, "wait", OPT_DURATION, AT(wait_ms), "D",
     "advance, rollback: how long to wait for what goes away by itself (three leases)", 0, 0},
    {'y', "yes", OPT_FLAG, AT(yes), NULL, "init, advance, rollback: don't ask", 0, 0},
    {0, "dry-run", OPT_FLAG, AT(dry_run), NULL, "sweep: only say what would be removed", 0, 0},
    {0, "history", OPT_FLAG, AT(history), NULL, "status: all changes too", 0, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "status, clients, sweep: JSON, on one line", 0, 0},
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, "dialect", OPT_TEXT, LEGACY(dialect), "NAME", "how legacy clients write stamps (java)", 0,
     0},
    {0, "legacy-ttl-min", OPT_DURATION, LEGACY(legacy_ttl_min_ms), "D",
     "the shortest lifetime that they use (60s)", 0, 0},
    {0, "clock-skew-max", OPT_DURATION, LEGACY(clock_skew_max_ms), "D",
     "sweep: how far their clocks may be off the server's (1s)", 0, 0},
    {0, "legacy-delay-max", OPT_DURATION, LEGACY(legacy_delay_max_ms), "D",
     "sweep: how long they may take over one step (half of --clock-skew-max)", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const migrate_options defaults = {.name = "default",
                                         .phase = MIGRATE_NOT_GIVEN,
                                         .lease_ms = MIGRATE_NOT_GIVEN,
                                         .watch_ms = MIGRATE_NOT_GIVEN,
                                         .monitor_ms = MIGRATE_NOT_GIVEN,
                                         .wait_ms = MIGRATE_NOT_GIVEN,
                                         .legacy = {LEGACY_DEFAULTS}};

/* ---- what only shows -------------------------------------------------------------------------- */

static int written(void) {
    if (fflush(stdout) == 0 && !ferror(stdout))
        return STATUS_OK;
    return fail(STATUS_INTERNAL, "standard output: %s", strerror(errno));
}

static bool as_json(const migrate_work *w) {
    return w->o->json || w->o->format;
}

static int clients(migrate_work *w) {
    if (!as_json(w)) {
        migrate_show_clients(&w->v, stdout);
        return 0;
    }
    return migrate_show_line(migrate_clients_json(&w->v));
}

typedef struct {
    migrate_change *list;
    int count;
} history;

static void keep(void *ctx, const migrate_change *c) {
    history *h = ctx;
    if (h->list && h->count < MIGRATE_LOG_MOST)
        h->list[h->count++] = *c;
}

static int show(migrate_work *w, const migrate_locks *locks, const history *h) {
    migrate_traffic traffic;
    migrate_watch watch;
    migrate_status s = {.view = &w->v,
                        .locks = locks,
                        .traffic = &traffic,
                        .history = h->list,
                        .changes = h->count};

    migrate_watch_begin(&watch, &w->m, "", 0, &traffic);
    s.calls = watch.base;
    migrate_judge(&w->v, w->v.reg.phase + 1, locks, NULL, &s.next);
    migrate_acl_judge(w, w->v.reg.phase, w->v.reg.phase + 1, &s.next);
    migrate_judge(&w->v, w->v.reg.phase - 1, locks, NULL, &s.back);
    if (!as_json(w)) {
        migrate_show_text(&s, stdout);
        return 0;
    }
    return migrate_show_line(migrate_status_json(&s));
}

static int status(migrate_work *w) {
    history h = {.list = w->o->history ? calloc(MIGRATE_LOG_MOST, sizeof *h.list) : NULL};
    migrate_locks locks = {.whole = false};
    bool look = w->v.reg.readable;

    int result = look ? migrate_look(&w->m, &w->v, w->v.reg.keys, &w->sigs, &locks, &w->sig) : 0;
    if (result == 0 && w->o->history)
        result = h.list ? migrate_history(&w->m, keep, &h)
                        : fail(STATUS_INTERNAL, "migrate status: out of memory");
    if (result == 0 && !w->sig)
        result = show(w, look ? &locks : NULL, &h);
    free(h.list);
    return result == 0 && w->sig ? signals_status(w->sig) : result;
}

/* ---- words ------------------------------------------------------------------------------------ */

enum {
    INIT_ONLY = 1,
    STEP_ONLY = 2,
    ASKS = 4,
    SWEEP_ONLY = 8,
    STATUS_ONLY = 16,
    REPORTS = 32,
    MOVES = 64,
    NO_PHASE = 128
};

static const struct {
    const char *name;
    unsigned takes;
    int (*function)(migrate_work *w);
} words_known[] = {
    {"init", INIT_ONLY | ASKS, migrate_init},
    {"status", STATUS_ONLY | REPORTS, status},
    {"advance", STEP_ONLY | MOVES | ASKS, migrate_advance},
    {"rollback", MOVES | ASKS, migrate_rollback},
    {"sweep", SWEEP_ONLY | REPORTS | NO_PHASE, migrate_sweep},
    {"clients", REPORTS, clients},
    {"acl", NO_PHASE, migrate_acl},
};
#define WORDS (sizeof words_known / sizeof *words_known)

/* Which options were given that only some words take. */
static int check_options(const char *word, unsigned takes, const migrate_options *o) {
    const struct {
        bool given;
        unsigned needs;
        const char *name, *whose;
    } all[] = {
        {o->keys != NULL, INIT_ONLY | SWEEP_ONLY, "--keys", "init, and sweep of a cluster"},
        {o->phase != MIGRATE_NOT_GIVEN, INIT_ONLY | MOVES, "--phase", "init, advance and rollback"},
        {o->lease_ms != MIGRATE_NOT_GIVEN, INIT_ONLY, "--lease", "init"},
        {o->again, INIT_ONLY, "--again", "init"},
        {o->watch_ms != MIGRATE_NOT_GIVEN, STEP_ONLY, "--watch", "advance"},
        {o->monitor_ms != MIGRATE_NOT_GIVEN, STEP_ONLY, "--monitor", "advance"},
        {o->force, STEP_ONLY, "--force", "advance"},
        {o->wait_ms != MIGRATE_NOT_GIVEN, MOVES, "--wait", "advance and rollback"},
        {o->yes, ASKS, "--yes", "init, advance and rollback"},
        {o->dry_run, SWEEP_ONLY, "--dry-run", "sweep"},
        {o->history, STATUS_ONLY, "--history", "status"},
        {o->json || o->format, REPORTS, "--json", "status, clients and sweep"},
    };

    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (all[i].given && !(takes & all[i].needs))
            return fail(STATUS_USAGE, "migrate %s: %s is for %s", word, all[i].name, all[i].whose);
    return 0;
}

static int check_waits(const migrate_options *o) {
    if (o->watch_ms > INT64_C(31) * 86400000 || o->wait_ms > INT64_C(31) * 86400000)
        return fail(STATUS_USAGE, "migrate: --watch and --wait: 31d at most");
    if (o->watch_ms == 0 && !o->force)
        return fail(STATUS_USAGE,
                    "migrate advance: --watch 0s looks for no legacy client at all, and "
                    "one that is missed holds locks beside others: say --force too");
    if (o->force && o->watch_ms != 0)
        return fail(STATUS_USAGE, "migrate advance: --force is for --watch 0s alone");
    return 0;
}

static int check_values(const char *word, unsigned takes, const migrate_options *o) {
    if (!migrate_name_ok(o->name))
        return fail(STATUS_USAGE, "migrate: --namespace: 1 to %d letters, digits and any of _ . -",
                    MIGRATE_NAME_MAX);
    if ((takes & INIT_ONLY) && !o->keys)
        return fail(STATUS_USAGE,
                    "migrate init: --keys PATTERN is missing: which keys are its locks?");
    if (o->keys && (!*o->keys || strlen(o->keys) >= MIGRATE_KEYS_SIZE))
        return fail(STATUS_USAGE, "migrate %s: --keys: 1 to %d bytes", word, MIGRATE_KEYS_SIZE - 1);
    const char *flaw = o->keys ? tl__glob_flaw(tl__bytes_of(o->keys)) : NULL;
    if (flaw)
        return fail(STATUS_USAGE, "migrate %s: --keys: the pattern has a %s", word, flaw);
    if (o->lease_ms != MIGRATE_NOT_GIVEN &&
        (o->lease_ms < MIGRATE_LEASE_LEAST_MS || o->lease_ms > MIGRATE_LEASE_MOST_MS))
        return fail(STATUS_USAGE, "migrate init: --lease: 1s to 10m");
    if (check_waits(o))
        return STATUS_USAGE;
    if ((takes & ASKS) && !o->yes && !isatty(STDIN_FILENO))
        return fail(STATUS_USAGE, "migrate %s: no terminal to ask on: confirm with --yes", word);
    return 0;
}

/* Which keys a sweep goes through is said once: by the register, or where there is none. */
static int check_cluster(const char *word, unsigned takes, const migrate_options *o, bool cluster) {
    if (cluster && (takes & NO_PHASE) && strcmp(o->name, defaults.name) != 0)
        return fail(STATUS_USAGE, "migrate %s: --namespace: in a cluster there is none", word);
    if (cluster && (takes & SWEEP_ONLY) && !o->keys)
        return fail(STATUS_USAGE,
                    "migrate sweep: --keys PATTERN is missing: in a cluster no register says "
                    "which keys are locks");
    if (!cluster && (takes & SWEEP_ONLY) && o->keys)
        return fail(STATUS_USAGE,
                    "migrate sweep: --keys is for a cluster: here the namespace's register has "
                    "the keys");
    return 0;
}

static int work_on(migrate_work *w, int (*function)(migrate_work *w)) {
    bool reads = function != migrate_acl && !w->m.by_cluster; /* acl needs no scripts */
    if (signals_begin(&w->sigs))
        return fail(STATUS_INTERNAL, "signals: %s", strerror(errno));
    int result = reads ? migrate_read(&w->m, &w->v) : 0;
    if (result == 0)
        result = function(w);
    if (result == 0)
        result = written();
    migrate_view_end(&w->v);
    signals_end(&w->sigs);
    return result;
}

static int migrate_function(const server *s, const void *given, const operands *args) {
    migrate_work w = {.o = given, .word = args->word[0]};
    size_t i = 0;

    while (i < WORDS && strcmp(words_known[i].name, w.word) != 0)
        i++;
    if (i == WORDS)
        return fail(STATUS_USAGE,
                    "migrate: unknown argument %.40s: say init, status, advance, rollback, sweep, "
                    "clients or acl; see: tidelock help migrate",
                    w.word);
    unsigned takes = words_known[i].takes;
    int result = check_options(w.word, takes, w.o);
    if (result == 0)
        result = check_values(w.word, takes, w.o);
    if (result == 0)
        result = check_cluster(w.word, takes, w.o, server_by_cluster(s));
    if (result == 0)
        result = migrate_link_open(&w.m, s, w.word, !(takes & NO_PHASE), w.o->name, &w.o->legacy);
    if (result)
        return result;
    result = work_on(&w, words_known[i].function);
    migrate_link_close(&w.m);
    return result;
}

const command migrate_row = {
    .name = "migrate",
    .usage = "[options] init|status|advance|rollback|sweep|clients|acl",
    .help = "take a namespace's locks from legacy clients' stamps to tokens",
    .notes = "  init      register a namespace: its keys, and the phase to begin in\n"
             "  status    its phase, who follows it, and what keeps it from the next one\n"
             "  advance   to the next phase, once nothing is in the way\n"
             "  rollback  to the phase before\n"
             "  sweep     remove stamps that are over for everybody\n"
             "  clients   who follows the phase, and what each has confirmed\n"
             "  acl       print how the server can refuse legacy clients\n"
             "\nPhases: 0 timestamp, 1 bridge, 2 drain, 3 token. Java may run in 0 and 1.\n"
             "Exit status: 0 done, 69 server not reached, 77 refused: something is in the way.\n",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .args_min = 1,
    .args_max = 1,
    .function = migrate_function,
};
