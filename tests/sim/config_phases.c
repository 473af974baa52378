/*
 * Drawing a migration: a run with stamps whose tidelock clients follow the phase of a namespace, and
 * operators that move it. Its random numbers are its own.
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
