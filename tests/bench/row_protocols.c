/*
 * Acquire and release by each protocol, beside tokens: what a team pays in each phase of its way from
 * stamps to tokens.
 */
#include <tidelock/legacy.h>
#include <stdio.h>

#include "bench.h"
#include "spawn.h"

#define SLICE (250 * MS)
#define SLICES 1
#define ROW "protocols"

#ifdef TL_COMPAT

typedef struct {
    const char *name;
    tl_protocol_id protocol;
    bool strict;
    const char *namespaces, *phase; /* NULL: no register */
} kind;

static const kind kinds[] = {
    {"token", TL_TOKEN, false, NULL, NULL}, /* first: what the others are compared with */
    {"bridge", TL_BRIDGE, false, NULL, NULL},
    {"timestamp", TL_TIMESTAMP, false, NULL, NULL},
    {"strict", TL_TIMESTAMP, true, NULL, NULL},
    {"auto, phase 0", TL_AUTO, false, "bench0", "0"},
    {"auto, phase 1", TL_AUTO, false, "bench1", "1"},
    {"auto, phase 2", TL_AUTO, false, "bench2", "2"},
    {"auto, phase 3", TL_AUTO, false, "bench3", "3"},
};
#define KINDS ((int)(sizeof kinds / sizeof *kinds))
_Static_assert(sizeof kinds / sizeof *kinds <= CONTENDERS_MAX, "all take turns");

static void make_register(const kind *k, const char *key) {
    const char *const words[] = {"migrate", "init",    "--namespace", k->namespaces, "--keys",
                                 key,       "--phase", k->phase,      "--yes",       NULL};
    (void)spawn_run(words);
}

/* The kind's number, which its key ends with. */
static void name(const kind *k, char *ret, size_t size) {
    (void)snprintf(ret, size, "bench:protocol:%d", (int)(k - kinds));
}

static void *begin(void *how) {
    char key[32];
    const kind *k = how;
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.strict = k->strict,
                                                       .namespaces = k->namespaces);
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url(), .protocol = k->protocol,
                                                        .legacy = k->protocol == TL_TOKEN
                                                                      ? NULL
                                                                      : &legacy);
    name(k, key, sizeof key);
    return bench_lock(&options, key);
}

/* ---- reports --------------------------------------------------------------------------------- */

static void report_cost(const kind *k, const figures *f, const figures *token) {
    char what[2][48];
    (void)snprintf(what[0], sizeof what[0], "%s: CPU of a pair, beside token", k->name);
    (void)snprintf(what[1], sizeof what[1], "%s: the server's share of it", k->name);
    double all[ROUNDS_MAX], of_token[ROUNDS_MAX];
    for (int i = 0; i < rounds; i++) {
        all[i] = 1e6 / f->core_rate[i];
        of_token[i] = 1e6 / token->core_rate[i];
    }
    report(&(label){ROW, what[0], "us", ONE, NULL}, all, of_token, rounds);
    report(&(label){ROW, what[1], "us", ONE, NULL}, f->server_us, token->server_us, rounds);
}

static void report_time(regime r, const kind *k, const figures *f, const figures *token) {
    double ours[ROUNDS_MAX], theirs[ROUNDS_MAX], unit = r == DELAY ? 5000 : 1;
    char what[48];
    (void)snprintf(what, sizeof what, "%s: a pair, beside token", k->name);
    for (int i = 0; i < rounds; i++) {
        ours[i] = 1e6 / f->rate[i] / unit;
        theirs[i] = 1e6 / token->rate[i] / unit;
    }
    report(&(label){ROW, what, r == DELAY ? "round trips" : "us", r, NULL}, ours, theirs, rounds);
}

void row_protocols(regime r) {
    static figures f[KINDS];
    contender c[KINDS];
    double token_commands = 0;
    for (int i = 0; i < KINDS; i++) {
        char key[32];
        name(&kinds[i], key, sizeof key);
        if (kinds[i].phase)
            make_register(&kinds[i], key);
        c[i] = (contender){.open = begin, .ctx = (void *)&kinds[i], .operation = bench_pair};
    }
    take_turns(c, KINDS, SLICE, SLICES, f);
    for (int i = 0; i < KINDS; i++) {
        if (i > 0 && r == ONE)
            report_cost(&kinds[i], &f[i], &f[0]);
        else if (i > 0)
            report_time(r, &kinds[i], &f[i], &f[0]);
        double commands = r == ONE ? count_apart(&c[i], commands_each) : 0;
        if (i == 0)
            token_commands = commands;
        else if (r == ONE)
            report_two(&(label){ROW, "... commands", "counted", r, NULL}, commands, token_commands);
    }
}

#else

void row_protocols(regime r) {
    report_skip(ROW, r, "there is only one without compat");
}

#endif
