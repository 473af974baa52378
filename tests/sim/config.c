/*
 * Drawing a run from its seed. Draws are in a fixed order: a change here changes what every seed
 * means, and the named scenarios that rely on one must be looked at.
 */
#include "config.h"

#include <string.h>

#include "fake_redis.h"
#include "random.h"

#define SHIPPED_PPM 101500 /* what a client allows for by default */
#define PPM INT64_C(1000)
#define BROKEN 64 /* one run of so many breaks an assumption on purpose */

static const struct {
    const char *word;
    uint32_t least, most;
} faults[SIM_FAULT_COUNT] = {
#define ROW(upper, word, least, most) [SIM_##upper] = {word, least, most},
    SIM_FAULTS(ROW)
#undef ROW
};

const char *sim_fault_word(sim_fault fault) {
    return faults[fault].word;
}

sim_fault sim_fault_named(const char *word, size_t n) {
    int i = 0;
    while (i < SIM_FAULT_COUNT &&
           (strlen(faults[i].word) != n || memcmp(faults[i].word, word, n) != 0))
        i++;
    return (sim_fault)i;
}

/* ---- who acts ---------------------------------------------------------------------------------- */

static void cast_actor(sim_config *c, sim_kind kind, int key, uint64_t *random) {
    if (c->actors < SIM_ACTORS)
        c->cast[c->actors++] = (sim_cast){
            (uint8_t)kind, (uint8_t)sim_between(random, 0, c->hosts - 1), (uint8_t)key, false};
}

/* The last key is the Java clients' own, if there are any. */
static void draw_cast(sim_config *c, uint64_t *random) {
    bool java = sim_chance(random, 250000), mixed = sim_chance(random, 60000);
    bool plain = sim_chance(random, 250000);
    int locks = (int)sim_between(random, 1, 2);
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = locks + java;
    for (int n = (int)sim_between(random, 2, 5); n > 0; n--)
        cast_actor(c, SIM_TOKEN, (int)sim_between(random, 0, locks - 1), random);
    for (int n = plain ? (int)sim_between(random, 1, 2) : 0; n > 0; n--)
        cast_actor(c, SIM_PLAIN, (int)sim_between(random, 0, locks - 1), random);
    for (int n = java ? (int)sim_between(random, 2, 3) : 0; n > 0; n--)
        cast_actor(c, SIM_JAVA, locks, random);
    if (mixed)
        cast_actor(c, SIM_JAVA, 0, random);
    c->one_java_key = sim_chance(random, 500000);
}

/* ---- how long things take ---------------------------------------------------------------------- */

static void draw_times(sim_config *c, uint64_t *random) {
    c->ttl_ms = sim_spread(random, 20, 10000);
    c->delay = sim_spread(random, 30000, c->ttl_ms * (SIM_MS / 16));
    int64_t trip_ms = 2 * c->delay / SIM_MS + 1;
    c->attempt_ms = sim_spread(random, 6 * trip_ms, 2000);
    c->connect_ms = sim_spread(random, 8 * trip_ms, 5000);
    c->late = sim_between(random, 0, 900000);
    c->hold_ms = sim_spread(random, c->ttl_ms / 10 + 1, 3 * c->ttl_ms);
    c->idle_ms = sim_spread(random, c->ttl_ms / 20 + 1, 2 * c->ttl_ms);
    c->java_ttl_ms = sim_spread(random, 2 * c->ttl_ms, 8 * c->ttl_ms);
    int64_t until_ms = 12 * c->ttl_ms;
    until_ms = until_ms < 1000 ? 1000 : until_ms > 60000 ? 60000 : until_ms;
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
}

/* ---- clocks ------------------------------------------------------------------------------------ */

/* Each clock's rate is within drift_ppm of true; extreme ones are exactly at it, the server's at one edge, a
 * host's at the same or at the other: then one gains on the other all that is allowed. */
static void draw_clocks(sim_config *c, uint64_t *random) {
    int64_t most = c->drift_ppm * PPM;
    bool extreme = sim_chance(random, 400000);
    c->server_ppb = sim_between(random, -most, most);
    if (extreme)
        c->server_ppb = c->server_ppb > -most / 2 ? most : -most; /* rather fast */
    for (int i = 0; i < SIM_HOSTS; i++) {
        c->host_ppb[i] = sim_between(random, -most, most);
        if (extreme && sim_chance(random, 700000))
            c->host_ppb[i] = sim_chance(random, 750000) ? -c->server_ppb : c->server_ppb;
        c->wall_offset_ms[i] = 0;
        if (sim_chance(random, 500000))
            c->wall_offset_ms[i] = sim_between(random, -2 * c->java_ttl_ms, 2 * c->java_ttl_ms);
        c->wall_ppb[i] = sim_between(random, -100 * PPM, 100 * PPM);
    }
    for (int i = 0; i < SIM_REPLICAS; i++)
        c->behind_us[i] = sim_between(random, 0, c->ttl_ms * 500);
}

/* ---- the server -------------------------------------------------------------------------------- */

static uint32_t draw_level(uint64_t *random) {
    static const uint32_t levels[] = {FAKE_LEVEL(2, 6, 17), FAKE_LEVEL(2, 8, 24),
                                      FAKE_LEVEL(3, 0, 7),  FAKE_LEVEL(3, 2, 13),
                                      FAKE_LEVEL(5, 0, 14), FAKE_LEVEL(6, 2, 14)};
    if (sim_chance(random, 800000))
        return FAKE_LEVEL(7, 0, 15);
    return levels[sim_between(random, 0, sizeof levels / sizeof *levels - 1)];
}

static void draw_server(sim_config *c, uint64_t *random) {
    c->level = draw_level(random);
    c->replicas = sim_chance(random, 300000) ? (int)sim_between(random, 1, SIM_REPLICAS) : 0;
    if (c->replicas > 0 && c->level >= FAKE_LEVEL(3, 0, 0) && sim_chance(random, 400000)) {
        c->wait_replicas = (int32_t)sim_between(random, 1, c->replicas);
        c->wait_replicas_ms = (int32_t)sim_between(random, 4 * c->delay / SIM_MS + 1,
                                                   c->attempt_ms);
    }
    if (sim_chance(random, 150000))
        c->quiet_ms = sim_between(random, 1, 3 * c->ttl_ms);
}

static void draw_faults(sim_config *c, uint64_t *random) {
    uint32_t how_many = (uint32_t)sim_between(random, 0, 6) * 100000;
    for (int i = 0; i < SIM_FIRST_BROKEN; i++) {
        bool on = sim_chance(random, how_many);
        uint32_t strength = (uint32_t)sim_spread(random, faults[i].least, faults[i].most);
        c->fault[i] = on ? strength : 0;
    }
    if (c->replicas == 0)
        c->fault[SIM_FAILOVER] = 0;
}

static void draw_threads(sim_config *c, uint64_t *random) {
    static const uint32_t often[] = {0, 1000, 10000, 50000, 300000};
    c->switches = often[sim_between(random, 0, sizeof often / sizeof *often - 1)];
    c->by_name = sim_chance(random, 300000);
    if (!c->by_name)
        c->fault[SIM_NO_NAME] = 0;
    c->own_clients = sim_chance(random, 500000) ? 300000 : 0;
    for (int i = 0; i < c->actors; i++)
        c->cast[i].loops = c->cast[i].kind == SIM_TOKEN && sim_chance(random, 250000);
}

/* A few runs show what the assumptions are for. Drawn last: all others stay what they are. */
static void draw_broken(sim_config *c, uint64_t *random) {
    if (!sim_chance(random, 1000000 / BROKEN))
        return;
    int i = (int)sim_between(random, SIM_FIRST_BROKEN, SIM_LAST_BROKEN);
    c->fault[i] = (uint32_t)sim_spread(random, faults[i].least, faults[i].most);
    if ((i == SIM_LOSSY || i == SIM_QUICK) && c->replicas == 0)
        c->replicas = 1;
}

void sim_config_tame(sim_config *c, uint64_t seed) {
    uint64_t random = seed;
    *c = (sim_config){.seed = seed,
                      .drift_ppm = seed % 3 == 0 ? SHIPPED_PPM : 100,
                      .java_slack_ms = SIM_NEVER,
                      .skew_ms = SIM_NEVER,
                      .java_sleep_ms = 100};
    if (sim_chance(&random, 200000))
        c->drift_ppm = (int32_t)sim_between(&random, 1, 500);
    draw_times(c, &random);
    draw_cast(c, &random);
    draw_clocks(c, &random);
    draw_server(c, &random);
    draw_faults(c, &random);
    draw_threads(c, &random);
    draw_broken(c, &random);
}

void sim_config_draw(sim_config *c, uint64_t seed) {
    sim_config_tame(c, seed);
    sim_config_worlds(c);
}

/* ---- asking ------------------------------------------------------------------------------------ */

bool sim_config_whole(const sim_config *c) {
    for (int i = SIM_FIRST_BROKEN; i <= SIM_LAST_BROKEN; i++)
        if (c->fault[i] && !(i == SIM_FORGET && c->voters))
            return false;
    return !c->slow_clock && !c->slow_own && (!c->fault[SIM_FREEZE] || c->vmclock) &&
           !c->fault[SIM_BEYOND] && !c->ahead_us && !c->sentinel && sim_config_cluster_keeps(c) &&
           sim_config_quorum_keeps(c);
}

bool sim_config_keeps(const sim_config *c) {
    sim_config other = *c;
    other.fault[SIM_LOSSY] = 0;
    other.sentinel = other.fleet = false;
    return sim_config_whole(&other);
}

bool sim_config_calm(const sim_config *c) {
    for (int i = 0; i < SIM_FAULT_COUNT; i++)
        if (c->fault[i])
            return false;
    for (int i = 0; i < c->actors; i++)
        if (c->cast[i].kind == SIM_PLAIN || sim_config_mixed(c, c->cast[i].key))
            return false;
    if (c->stamps && !sim_config_legacy(c))
        return false;
    return !c->sentinel && !c->slow_clock && c->wait_replicas == 0 &&
           (c->quiet_ms == 0 || (c->voters && !c->unused)) && !c->dead && !c->lacks && !c->mute &&
           !c->slots && !c->touches;
}

#define PARTS 5 /* the shortest lifetime is a half; so much is left of it when it is renewed */
#define ATTEMPT_TRIPS 100 /* an attempt in an open slot is led on a few times */

bool sim_config_moves_alone(const sim_config *c) {
    sim_config other = *c;
    other.fault[SIM_MOVE] = 0;
    bool ample = c->attempt_ms * SIM_MS >= ATTEMPT_TRIPS * c->delay;
    bool brief = PARTS * (c->keys * sim_config_pause_ms(c) + c->attempt_ms) <= c->ttl_ms;
    return c->fleet && ample && sim_config_calm(&other) &&
           (!c->atomic || (brief && !c->doubtful && !c->empties));
}

bool sim_config_has(const sim_config *c, sim_kind kind, int key) {
    for (int i = 0; i < c->actors; i++)
        if (c->cast[i].kind == kind && c->cast[i].key == key)
            return true;
    return false;
}

bool sim_config_mixed(const sim_config *c, int key) {
    return sim_config_has(c, SIM_JAVA, key) &&
           (sim_config_has(c, SIM_TOKEN, key) || sim_config_has(c, SIM_PLAIN, key));
}
