/*
 * Drawing a migration: a run with stamps whose tidelock clients follow the phase of a namespace, and
 * operators that move it. Its random numbers are its own.
 */

/*
 * A migration: tidelock clients follow the phase of a namespace, beside Java and fixed bridge and token clients, which
 * run only in the phases that allow them. One or two operators (actor_operator.c) step on or back, at random or by a
 * plan; they stop and crash too. Leases last from a quarter of T_legacy to twice that, at most 5 s. Requests may be in
 * flight for longer than a lease.
 *
 * Besides check.c and config_stamps.c there must hold:
 * - An acquire, or a renewal that turns a stamp into a token, begins and takes effect within its lease. That is the
 *   lease by which its attempt began, whatever other threads of the client have read since. Its phase is within one of
 *   the register's phase, and of the phase of every client that may act at that time.
 * - The register moves by one phase and one epoch, and never while a client may act two phases away.
 * - A client never returns to an older epoch, and refuses if the register has been removed. No token is on a key while
 *   Java may run.
 *
 * Every fourth run has failovers, where the server has WAIT. Half of those lose what the replica lacks, some just after
 * a step. All replicas confirm an epoch before an operator steps on from it or lets a client start by it. An operator
 * restarts its wait on another connection or server, and remakes a register that went back above all epochs that clients
 * know. Then there must hold:
 * - A failover undoes at most one change of the register, and none if it loses nothing.
 * - Locks may be lost, but phases two apart never act at once. A client that knows a later epoch refuses.
 * - No client runs that is incompatible with the phase that is back.
 * - Where replicas confirm each lock, no lock has two holders (`phase-undone`).
 *
 * In three of ten such seeds (`migration=tool`: in all; `migration=plain`: in none) people use the shipped command
 * (actor_migrate.c). `status`, `init`, `advance`, `rollback` and `sweep` run, several at once. They have watches, waits
 * and MONITOR of any length. They are interrupted, and crash with their host. People act on the output and the exit
 * status, as compat/RUNBOOK.md says. They know of failovers and of each other's work, but may have looked before a
 * colleague's step: each names the phase that it wants (`--phase`). Keys are in the namespace by one of several
 * patterns, and SETNX may be used on one outside. In some seeds one Java service is forgotten (`forgets=`).
 *
 * - `advance` goes to phase 2 only if for `--watch` before its last look no SETNX or GETSET was executed on a key of the
 *   namespace. Commands that the server refuses (OOM, an ACL) are not seen.
 * - A service that stayed unseen runs on in phases 2 and 3. It may overwrite a token, whose holder reports LOST;
 *   tidelock's own clients still exclude each other.
 *
 * Assumed: no service is started during another operator's step, nor before that step can no longer be executed. A
 * register begins in phase 0 or 1. Servers that take over have the same time. A server below 3.2 cannot refuse late
 * requests: there only tidelock's own clients exclude each other.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

#define UNTIL_MS 60000

static int64_t within(int64_t v, int64_t least, int64_t most) {
    return v < least ? least : v > most ? most : v;
}

/* ---- who acts ---------------------------------------------------------------------------------------- */

static void cast_actor(sim_config *c, sim_kind kind, int key, uint64_t *random) {
    if (c->actors < SIM_ACTORS)
        c->cast[c->actors++] = (sim_cast){
            (uint8_t)kind, (uint8_t)sim_between(random, 0, c->hosts - 1), (uint8_t)key, false};
}

static void draw_cast(sim_config *c, uint64_t *random) {
    c->actors = 0;
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, 2);
    c->one_java_key = true;
    c->plain_level = c->no_time = c->no_eval = false;
    for (int n = (int)sim_between(random, 1, 2); n > 0; n--)
        cast_actor(c, SIM_OPERATOR, 0, random);
    for (int key = 0; key < c->keys; key++) {
        for (int n = (int)sim_between(random, 1, 3); n > 0; n--)
            cast_actor(c, SIM_AUTO, key, random);
        for (int n = (int)sim_between(random, 0, 2); n > 0; n--)
            cast_actor(c, SIM_JAVA, key, random);
        if (sim_chance(random, 200000))
            cast_actor(c, SIM_BRIDGE, key, random);
        if (sim_chance(random, 200000))
            cast_actor(c, SIM_TOKEN, key, random);
    }
}

/* ---- how it goes ------------------------------------------------------------------------------------- */

/* Most servers can refuse what comes too late. */
static void draw_level(sim_config *c, uint64_t *random) {
    static const uint32_t levels[] = {FAKE_LEVEL(3, 2, 13), FAKE_LEVEL(5, 0, 14),
                                      FAKE_LEVEL(6, 2, 14), FAKE_LEVEL(2, 8, 24)};
    c->level = FAKE_LEVEL(7, 0, 15);
    if (sim_chance(random, 200000))
        c->level = levels[sim_between(random, 0, sizeof levels / sizeof *levels - 1)];
}

static void draw_leases(sim_config *c, uint64_t *random) {
    int64_t t = c->java_ttl_ms, hops_ms = 8 * (c->delay / SIM_MS + 1);
    c->lease_ms = within(sim_between(random, t / 4, 2 * t), 100 + hops_ms, 5000);
    c->own_lease_ms = c->lease_ms;
    switch (sim_between(random, 0, 3)) {
    case 0: c->own_lease_ms = sim_between(random, c->lease_ms, 3 * c->lease_ms); break;
    case 1: c->own_lease_ms = sim_between(random, c->lease_ms / 2 + 50, c->lease_ms); break;
    default: break;
    }
    if (sim_chance(random, 400000)) /* a request may be in flight for longer than a lease */
        c->attempt_ms = sim_between(random, c->lease_ms / 2, 2 * c->lease_ms);
    int64_t until_ms = within(30 * c->lease_ms, 8 * t, UNTIL_MS);
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
}

static void draw_beginning(sim_config *c, uint64_t *random) {
    c->fallback = (int32_t)sim_between(random, 0, 1);
    c->first_phase = (int32_t)sim_between(random, 0, 3);
    if (sim_chance(random, 500000))
        c->first_phase = (int32_t)sim_between(random, -1, 1);
}

/* In every fourth run, where the server has WAIT. Half of them lose what the replica lacks. The servers'
 * clocks agree, so that legacy ones are within M of each that may take over. */
static void draw_failovers(sim_config *c, uint64_t *random) {
    memset(c->behind_us, 0, sizeof c->behind_us);
    bool on = sim_chance(random, 250000), lossy = sim_chance(random, 500000);
    int64_t often = sim_between(random, 100, 1500);
    if (!on || c->level < FAKE_LEVEL(3, 0, 0))
        return;
    c->replicas = (int)sim_between(random, 1, SIM_REPLICAS);
    if (c->wait_replicas > c->replicas)
        c->wait_replicas = c->replicas;
    c->fault[lossy ? SIM_LOSSY : SIM_FAILOVER] = (uint32_t)often;
}

/* ---- by the shipped command ------------------------------------------------------------------------------ */

#define GLOB(keys)                                                                                 \
    { keys, keys "=default" }

/* Of the keys jobs and mail, or of the first alone. */
sim_glob sim_config_glob(const sim_config *c) {
    static const sim_glob both[] = {GLOB("*"), GLOB("[jm]*"), GLOB("????"), GLOB("*[ls]")};
    static const sim_glob one[] = {GLOB("jobs"), GLOB("j*"), GLOB("[^m]*s"), GLOB("?o?s")};
    unsigned i = (unsigned)c->glob % 4;
    return c->outside ? one[i] : both[i];
}

/* The last key becomes one of other programs, which lock as Java does. */
static void draw_outside(sim_config *c) {
    int key = c->keys++;
    c->outside = true;
    if (c->actors < SIM_ACTORS)
        c->cast[c->actors++] = (sim_cast){SIM_JAVA, (uint8_t)(c->seed % (uint64_t)c->hosts),
                                          (uint8_t)key, false};
}

static int32_t draw_forgotten(const sim_config *c, uint64_t *random) {
    int32_t found = 0, javas = 0;
    for (int i = 0; i < c->actors; i++)
        if (c->cast[i].kind == SIM_JAVA && !(c->outside && c->cast[i].key == c->keys - 1) &&
            sim_between(random, 0, javas++) == 0)
            found = i + 1;
    return found;
}

/* It knows no lease below a second. */
void sim_config_tool(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x746f6f6c);
    int64_t lease_ms = within(c->lease_ms, 1000, 5000);
    c->tool = true;
    c->own_lease_ms = c->own_lease_ms * lease_ms / c->lease_ms;
    c->lease_ms = lease_ms;
    c->glob = (int32_t)sim_between(&random, 0, 3);
    if (c->keys == 1 && sim_chance(&random, 400000))
        draw_outside(c);
    if (sim_chance(&random, 250000))
        c->forgets = draw_forgotten(c, &random);
    if (c->until < 12 * lease_ms * SIM_MS)
        c->until = sim_between(&random, 12, 24) * lease_ms * SIM_MS;
}

/* On each key, and in the place of another where there is no room. They speak Java's own dialect. */
void sim_config_drop_ins(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x64726f70696e);
    c->dialect = 0;
    for (int key = 0; key < c->keys - c->outside; key++) {
        for (int n = (int)sim_between(&random, 1, 2); n > 0; n--)
            cast_actor(c, SIM_DROP_IN, key, &random);
        for (int i = 0; i < c->actors && !sim_config_has(c, SIM_DROP_IN, key); i++)
            if (c->cast[i].kind == SIM_AUTO && c->cast[i].key == key)
                c->cast[i] = (sim_cast){SIM_DROP_IN, c->cast[i].host, (uint8_t)key, false};
    }
}

void sim_config_tool_maybe(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x6f70657261746f72);
    if (sim_chance(&random, 300000))
        sim_config_tool(c);
}

bool sim_config_follows(const sim_config *c) {
    return !c->migrates || c->level >= FAKE_LEVEL(3, 2, 0);
}

void sim_config_migration(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x706861736573);
    sim_config_stamps(c);
    c->migrates = true;
    c->ahead_us = 0;
    c->lacks = c->touches = c->slots = 0; /* nor could its register be made */
    c->goes_back = c->one_slot = false;
    c->plan = 0;
    c->tool = c->outside = false;
    c->forgets = c->glob = 0;
    draw_cast(c, &random);
    draw_level(c, &random);
    draw_leases(c, &random);
    draw_beginning(c, &random);
    draw_failovers(c, &random);
}
