/*
 * Drawing what few seeds have: worlds of their own. Their random numbers are, too, so that a seed which has none of
 * them stays what it is.
 */

/*
 * The worlds, which the setting `tame`, given first, leaves out:
 *
 * - A clock is faster or slower than assumed (`rate`, fault `beyond`), or stands still while its host is paused
 *   (`freeze`). Results that rest on clocks are counted, and all else must hold.
 * - Hosts are at unequal distances (`distances`). Locks have `fair` (per million).
 * - A former master stays as a replica, over its old connections (`stays`). It refuses writes, knows old data, and
 *   repeats what the new master publishes to its own subscribers.
 * - A replica takes over with a clock behind (`goes-back`), or ahead, which is not assumed (`ahead-us`). Stamps have
 *   failovers and `wait_replicas`.
 * - Permissions lack one command (`lacks`, fault `deny`) or all channels (`mute`). In a third of the seeds the callers
 *   of a client share a connection, however few they are (`crowds`). The server has keyspace events (`events`).
 * - Permissions are for some keys (`touches`, fault `withhold`; reach.c): K without S, S without K, the keys of the
 *   first lock, all others, or none. From 7.0 on they may be read-only or write-only (`%R~`, `%W~`).
 * - The server is a cluster's node (`cluster`), with the keys in several slots or in one (`one-slot`). Slots of one key
 *   or of all are elsewhere and come back (`slots` from the start, fault `move` later): MOVED. Or they are on the way,
 *   with nothing, K or S moved already: ASK and TRYAGAIN.
 * - Processes fork while their threads work (`fork`). The child must be refused whatever it inherits, and harm nothing.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

#define DIALECTS 32   /* that might be known */
#define OVERWRITES 20 /* in one run of so many waiters overwrite at each poll */

static bool one_of(uint64_t *random, uint32_t n) {
    return sim_chance(random, 1000000 / n);
}

/* Clocks that are slewed beyond the bound, or that stand still with their machine. */
static void draw_clocks(sim_config *c, uint64_t *random) {
    uint32_t frozen = (uint32_t)sim_between(random, 200, 3000);
    uint32_t beyond = (uint32_t)sim_between(random, 100, 1000);
    if (one_of(random, 80))
        c->fault[SIM_FREEZE] = frozen;
    if (one_of(random, 80))
        c->fault[SIM_BEYOND] = beyond;
}

/* What it forbids, from the start or for a while; what it tells; and whether it is a cluster's. */
static void draw_permissions(sim_config *c, uint64_t *random) {
    uint32_t often = (uint32_t)sim_between(random, 300, 3000);
    int32_t lacks = (int32_t)sim_between(random, 1, SIM_DENIABLE);
    bool cluster = one_of(random, 10), mute = one_of(random, 40);
    if (one_of(random, 40))
        c->lacks = lacks;
    if (one_of(random, 20))
        c->fault[SIM_DENY] = often;
    if (one_of(random, 3) && c->level >= FAKE_LEVEL(2, 8, 0))
        c->events = (int32_t)sim_between(random, 1, 2);
    c->cluster = cluster && c->level >= FAKE_LEVEL(3, 0, 0);
    c->mute = mute && c->level >= FAKE_LEVEL(6, 2, 0);
}

/* Slots that are elsewhere, or on the way there, from the start or for a while; keys that are forbidden. */
static void draw_reach(sim_config *c, uint64_t *random) {
    uint32_t moves = (uint32_t)sim_between(random, 300, 3000);
    uint32_t withholds = (uint32_t)sim_between(random, 300, 3000);
    int32_t slots = (int32_t)sim_between(random, 1, SIM_MOVES);
    int32_t most = c->level < FAKE_LEVEL(7, 0, 0) ? SIM_TOUCHES_PLAIN : SIM_TOUCHES;
    int32_t touches = (int32_t)sim_between(random, 1, most);
    bool one_slot = one_of(random, 2), first = one_of(random, 6), later = one_of(random, 3);
    bool lacks = one_of(random, 40), for_a_while = one_of(random, 30);
    c->one_slot = c->cluster && one_slot;
    if (c->cluster && first)
        c->slots = slots;
    if (c->cluster && later)
        c->fault[SIM_MOVE] = moves;
    if (lacks && c->level >= FAKE_LEVEL(6, 0, 0))
        c->touches = touches;
    if (for_a_while && c->level >= FAKE_LEVEL(6, 0, 0))
        c->fault[SIM_WITHHOLD] = withholds;
}

static void draw_forks(sim_config *c, uint64_t *random) {
    uint32_t often = (uint32_t)sim_between(random, 300, 3000);
    if (one_of(random, 60))
        c->fault[SIM_FORK] = often;
}

/* The usual delay is that of the farthest: one of them may be far, or one near. */
static void draw_distances(sim_config *c, uint64_t *random) {
    int far = (int)sim_between(random, 0, SIM_HOSTS - 1), way = (int)sim_between(random, 0, 2);
    int32_t near = (int32_t)sim_between(random, 1, 50), each[SIM_HOSTS];
    for (int i = 0; i < SIM_HOSTS; i++)
        each[i] = (int32_t)sim_between(random, 1, 100);
    if (!one_of(random, 4))
        return;
    for (int i = 0; i < SIM_HOSTS; i++)
        c->near[i] = way == 0 ? each[i] : (way == 1) == (i == far) ? 100 : near;
}

/* Who takes over has a clock of its own: behind, so that the time may go back, or ahead, which is not assumed. */
static void draw_promoted(sim_config *c, uint64_t *random) {
    bool back = one_of(random, 5), ahead = one_of(random, 20);
    int64_t ttl_us = c->ttl_ms * 1000, ahead_us = sim_between(random, 1, 2 * ttl_us);
    for (int i = 0; i < SIM_REPLICAS; i++) {
        int64_t behind_us = sim_between(random, 0, 3 * ttl_us);
        if (back && c->fault[SIM_FAILOVER])
            c->behind_us[i] = behind_us;
    }
    c->goes_back = back && c->fault[SIM_FAILOVER];
    if (ahead && c->fault[SIM_FAILOVER])
        c->ahead_us = ahead_us;
}

/* The old master becomes a replica of the new one, in every other run. */
static void draw_stays(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x7374617973);
    bool fails_over = c->fault[SIM_FAILOVER] || c->fault[SIM_LOSSY] || c->fault[SIM_QUICK];
    c->stays = one_of(&random, 2) && fails_over;
}

/* Some have what takes many callers otherwise. */
static void draw_crowds(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x63726f776473);
    c->crowds = one_of(&random, 3);
}

/* Some have locks that are to be given in the order of coming. */
static void draw_fair(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x66616972);
    c->fair = one_of(&random, 8) ? (uint32_t)sim_between(&random, 2, 10) * 100000 : 0;
}

void sim_config_worlds(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x776f726c6473);
    draw_crowds(c);
    draw_fair(c);
    draw_clocks(c, &random);
    draw_distances(c, &random);
    draw_promoted(c, &random);
    draw_forks(c, &random);
    draw_permissions(c, &random);
    draw_reach(c, &random);
    draw_stays(c);
}

/* ---- with stamps ------------------------------------------------------------------------------------- */

/* Legacy clocks are within M of every server that may answer: a server that takes over is behind by less than M / 2,
 * and they spare that. */
static void draw_behind(sim_config *c, uint64_t *random) {
    int64_t most = c->skew_ms / 2;
    c->spare_ms = sim_chance(random, 500000) ? sim_between(random, 0, most) : 0;
    for (int i = 0; i < SIM_REPLICAS; i++)
        c->behind_us[i] = sim_between(random, 0, c->spare_ms * 1000);
    for (int i = 0; i < SIM_HOSTS; i++) {
        bool moves = c->wall_ppb[i] != c->server_ppb;
        if (c->wall_offset_ms[i] + (moves ? most : 0) > c->skew_ms - c->spare_ms)
            c->wall_offset_ms[i] -= c->spare_ms;
    }
    c->goes_back = sim_chance(random, 500000);
}

/* Not Java's, if there are others. Where lifetimes are whole seconds the shortest mostly is, as it is told. */
static void draw_dialect(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x6469616c656374);
    uint64_t other = c->seed ^ UINT64_C(0x6f7665727772);
    int32_t known[DIALECTS] = {0}, n = 0, overwrites = 0;
    for (int32_t i = 1; i < DIALECTS && sim_dialect_is_known(i); i++)
        if (sim_dialect_overwrites(i))
            overwrites = i;
        else
            known[n++] = i;
    c->dialect = n > 0 && one_of(&random, 4) ? known[sim_between(&random, 0, n - 1)] : 0;
    if (overwrites && one_of(&other, OVERWRITES))
        c->dialect = overwrites;
    if (sim_chance(&random, 750000)) {
        c->java_ttl_ms = sim_dialect_lifetime(c, c->java_ttl_ms);
        c->java_writes_ms = sim_dialect_lifetime(c, c->java_writes_ms);
    }
    int64_t early_ms = sim_dialect_early_ms(c); /* the margins leave less of a lifetime */
    c->java_ttl_ms += 2 * early_ms;
    c->java_writes_ms += c->java_writes_ms > 0 ? 2 * early_ms : 0;
}

/* In every fourth some of those with stamps have an event loop. */
static void draw_loops(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x6c6f6f7073);
    bool some = one_of(&random, 4);
    for (int i = 0; i < c->actors; i++) {
        bool stamps = c->cast[i].kind == SIM_BRIDGE || c->cast[i].kind == SIM_STAMP;
        c->cast[i].loops = sim_chance(&random, 400000) && stamps && some;
    }
}

void sim_config_stamps_others(sim_config *c) {
    draw_dialect(c);
    draw_loops(c);
}

/* The level is another now, perhaps. */
static void keep_reach(sim_config *c) {
    c->cluster = c->cluster && c->level >= FAKE_LEVEL(3, 0, 0);
    c->one_slot = c->one_slot && c->cluster;
    if (!c->cluster)
        c->slots = 0, c->fault[SIM_MOVE] = 0;
    if (c->level < FAKE_LEVEL(6, 0, 0))
        c->touches = 0, c->fault[SIM_WITHHOLD] = 0;
    else if (c->level < FAKE_LEVEL(7, 0, 0) && c->touches > SIM_TOUCHES_PLAIN)
        c->touches = SIM_TOUCHES_PLAIN;
}

void sim_config_stamps_worlds(sim_config *c) {
    keep_reach(c);
    draw_dialect(c);
    draw_loops(c);
    uint64_t random = c->seed ^ UINT64_C(0x6661696c6f766572);
    bool on = sim_chance(&random, 200000), lossy = one_of(&random, 8), ahead = one_of(&random, 8);
    uint32_t often = (uint32_t)sim_between(&random, 300, 3000);
    c->ahead_us = 0;
    c->goes_back = false;
    memset(c->behind_us, 0, sizeof c->behind_us);
    if (!on)
        return;
    c->replicas = (int)sim_between(&random, 1, SIM_REPLICAS);
    c->fault[lossy ? SIM_LOSSY : SIM_FAILOVER] = often;
    draw_behind(c, &random);
    if (ahead)
        c->ahead_us = sim_between(&random, 1, 4 * c->skew_ms * 1000);
    if (c->level >= FAKE_LEVEL(3, 0, 0) && sim_chance(&random, 600000)) {
        c->wait_replicas = (int32_t)sim_between(&random, 1, c->replicas);
        c->wait_replicas_ms = (int32_t)sim_between(&random, 4 * c->delay / SIM_MS + 1,
                                                   c->attempt_ms);
    }
}
