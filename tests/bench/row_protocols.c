/*
 * Acquire and release by each protocol, beside tokens: what a team pays in each phase of its way from
 * stamps to tokens.
 */
#include <tidelock/legacy.h>
#include <stdio.h>
#include <string.h>

#include "bench.h"
#include "spawn.h"

#define SLICE (20 * MS)
#define LONG_SLICE (40 * MS) /* where a pair takes 10 ms */
#define SLICES 8
#define COUNTED 200 /* pairs */
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

typedef struct {
    char key[32];
    tl_client *client;
    tl_lock *lock;
} pairing;

static void make_register(const kind *k, const char *key) {
    const char *const words[] = {"migrate", "init",    "--namespace", k->namespaces, "--keys",
                                 key,       "--phase", k->phase,      "--yes",       NULL};
    (void)spawn_run(words);
}

static void open_pairing(pairing *p, const kind *k) {
    const tl_legacy_options legacy = TL_LEGACY_OPTIONS(.strict = k->strict,
                                                       .namespaces = k->namespaces);
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url(), .protocol = k->protocol,
                                                        .legacy = k->protocol == TL_TOKEN
                                                                      ? NULL
                                                                      : &legacy);
    tl_error err;
    if (tl_client_open(&options, &p->client, &err) || tl_client_ping(p->client, &err))
        die("%s: %s", k->name, err.message);
    p->lock = tl_lock_new(p->client, p->key, strlen(p->key), NULL, &err);
    if (!p->lock)
        die("%s: %s", k->name, err.message);
}

static void close_pairing(pairing *p) {
    tl_lock_free(p->lock);
    tl_client_close(p->client);
}

static void pair(const pairing *p) {
    tl_error err;
    if (tl_lock_acquire(p->lock, 0, &err) || tl_lock_release(p->lock, &err))
        die("%s", err.message);
}

static uint64_t pair_on(void *ctx, int64_t until_ns, meter *m) {
    uint64_t n = 0;
    (void)m;
    do {
        pair(ctx);
        n++;
    } while (now_ns() < until_ns);
    return n;
}

static double commands_of(const pairing *p) {
    commands_start();
    for (int i = 0; i < COUNTED; i++)
        pair(p);
    return (double)commands_stop() / COUNTED;
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
    pairing p[KINDS] = {0};
    contender c[KINDS];
    double token_commands = 0;
    for (int i = 0; i < KINDS; i++) {
        (void)snprintf(p[i].key, sizeof p[i].key, "bench:protocol:%d", i);
        if (kinds[i].phase)
            make_register(&kinds[i], p[i].key);
    }
    for (int i = 0; i < KINDS; i++) {
        open_pairing(&p[i], &kinds[i]);
        c[i] = (contender){&p[i], pair_on, NULL};
    }
    take_turns(c, KINDS, r == DELAY ? LONG_SLICE : SLICE, SLICES, f);
    for (int i = 0; i < KINDS; i++) {
        if (i > 0 && r == ONE)
            report_cost(&kinds[i], &f[i], &f[0]);
        else if (i > 0)
            report_time(r, &kinds[i], &f[i], &f[0]);
        double commands = r == ONE ? commands_of(&p[i]) : 0;
        if (i == 0)
            token_commands = commands;
        else if (r == ONE)
            report_two(&(label){ROW, "... commands", "counted", r, NULL}, commands, token_commands);
    }
    for (int i = 0; i < KINDS; i++)
        close_pairing(&p[i]);
}

#else

void row_protocols(regime r) {
    report_skip(ROW, r, "there is only one without compat");
}

#endif
