/*
 * Drawing a run with a Redis Cluster: slots that move, and replicas that take over. Its random numbers are its own, so that runs
 * without stay what they are.
 */

/*
 * A run with a cluster: clients open `redis+cluster://` by one, two or all of six nodes (cluster.c): three masters with
 * a replica each. Their clocks may differ by nearly a lifetime. Each node answers CLUSTER SLOTS, MOVED, ASK, TRYAGAIN
 * and CLUSTERDOWN by what it knows. News reaches it late, sometimes after two lifetimes. Each node repeats what is
 * published at one, after a delay of its own.
 *
 * - Slots move (`move`). A slot is opened at both ends one after the other. Its keys move one at a time, at once or over
 *   several lifetimes. Then it is closed, at the new owner first. A key keeps its lifetime at the new node, by that
 *   node's clock.
 * - Masters fail over (`switch`, `ways` as with Sentinels). The master is dead; or returns, and serves nothing until it
 *   has news. Or it was stopped, and executes what its sockets held. Or it is cut off with some hosts, and stops serving
 *   when another may take over. Or it hands over all data (16, CLUSTER FAILOVER). Otherwise the replica has what had
 *   arrived.
 * - Hosts are cut off from some nodes, replicas die and return (`aside`), and all else goes wrong with hosts and
 *   messages.
 *
 * A new master knows which of its slots are open, or does not (`forgets-open`: as Redis up to 7). Then there must hold:
 * - Where failovers lose nothing and new masters know the open slots (`sim_config_cluster_keeps`): all of check.c. No
 *   held lock is lost by a slot that moves nor by a requested failover. Limits are by the clock of the node for which a
 *   request was built.
 * - Where tidelock-promises(7) promises it (`sim_config_cluster_excludes`): no two hold at once, fences increase.
 *   That needs `quiet_ms` of a lifetime, a second more where a master wakes, and news within 200 ms; or all replicas
 *   confirm and no slot moves.
 * - No other node executes what was built for one node, and no node executes what it knows another to own.
 * - Where nothing but slots goes wrong a waiter acquires a released lock within a poll and the redirections. If the
 *   release finds that the queue moved before K and S, it cannot notify: then within 5 s.
 * Not promised, and counted in scenarios. In `cluster-wakes` a stopped master executes what its sockets held after
 * another took over: two holders, since `quiet_ms` is not a lifetime and a second (`cluster-wakes-quiet` has none). In
 * `cluster-forgets-open` a failover happens in an open slot, and the new master treats moved keys as absent: a held lock
 * is granted again (`cluster-forgets-quiet` prevents it). With `wait_replicas` a key that moved may not survive its new
 * master, since MIGRATE does not wait for replicas.
 *
 * `cluster-atomic`: slots change masters at one moment (cluster_atomic.c), by the steps of Valkey or of Redis. The source
 * postpones writes for up to two lifetimes, or 10 s. One migration of eight is cancelled. Failovers are as above, at
 * either end and at each step. The masters' clocks are the same, or slots move only to masters that are behind. All of
 * the above must hold. One run of ten breaks an assumption: the source may write again before it has heard of the
 * target, or a target's clock is ahead. Then two may hold a lock. With `quiet_ms` of T and a second two were seen after
 * the former only where a slot returned with its reign key (`cluster-atomic-returns`); and where the source granted what
 * had expired there, while its holder had renewed it at the target. Where it hears of nothing for long (`deaf`), though
 * clients reach it, the latter happens often (`cluster-atomic-deaf`). Where the target restarts without data
 * (`empties`), `quiet_ms` of T suffices. `cluster-atomic=stamps`: the same with what follows.
 *
 * `cluster-stamps`: one to three tidelock clients (bridge and timestamp) and up to two Java clients on one or two keys.
 * Java follows redirections (raw.c). M is how far any legacy clock is from any server's; each server keeps to half of
 * it. Failovers lose nothing, except in runs without Java, where `quiet_ms` is a lifetime and a second. Assumed: no slot
 * is opened again sooner than L after it moved. All of config_stamps.c and of the above must hold, and no client deletes
 * a stamp that another has acquired since. Not simulated: slots without an owner, two masters that claim one slot, a
 * lost election, an aborted move, sharded channels, scan, the tool.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

#define SHIPPED_PAUSE_MS 10000 /* of Valkey and Redis, as they are shipped */

static void draw_times(sim_config *c, uint64_t *random) {
    int64_t t = c->ttl_ms = sim_spread(random, 100, 6000);
    c->delay = sim_spread(random, 30000, t * (SIM_MS / 100));
    int64_t trip_ms = 2 * c->delay / SIM_MS + 1;
    c->attempt_ms = sim_spread(random, 10 * trip_ms, 2000);
    c->connect_ms = sim_spread(random, 20 * trip_ms, 5000);
    c->hold_ms = sim_spread(random, t / 10 + 1, 3 * t);
    c->idle_ms = sim_spread(random, t / 20 + 1, t);
    int64_t until_ms = 24 * t < 4000 ? 4000 : 24 * t > 60000 ? 60000 : 24 * t;
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
}

static void draw_cast(sim_config *c, uint64_t *random) {
    bool loops = sim_chance(random, 500000);
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, SIM_KEYS);
    c->one_slot = sim_chance(random, 300000);
    c->actors = (int)sim_between(random, 2, 7);
    for (int i = 0; i < c->actors; i++)
        c->cast[i] = (sim_cast){SIM_TOKEN, (uint8_t)sim_between(random, 0, c->hosts - 1),
                                (uint8_t)sim_between(random, 0, c->keys - 1),
                                loops && sim_chance(random, 400000)};
}

static void draw_servers(sim_config *c, uint64_t *random) {
    static const uint32_t levels[] = {FAKE_LEVEL(5, 0, 14), FAKE_LEVEL(6, 2, 14),
                                      FAKE_LEVEL(7, 0, 15)};
    bool apart = sim_chance(random, 500000), behind = sim_chance(random, 300000);
    c->level = levels[sim_chance(random, 700000) ? 2 : sim_between(random, 0, 1)];
    for (int i = 1; i < SIM_SHARDS; i++)
        c->behind_us[i - 1] = apart ? sim_between(random, -c->ttl_ms * 900, c->ttl_ms * 900) : 0;
    for (int i = SIM_SHARDS; i < 2 * SIM_SHARDS; i++) {
        int64_t master_us = i == SIM_SHARDS ? 0 : c->behind_us[i - SIM_SHARDS - 1];
        c->behind_us[i - 1] = master_us + (behind ? sim_between(random, 0, c->ttl_ms * 100) : 0);
    }
    c->replicas = 1;
    c->seeds = (int32_t)sim_between(random, 1, 3);
    c->ends_conns = sim_chance(random, 500000);
    c->stays = c->goes_back = c->by_name = false;
}

static void draw_faults(sim_config *c, uint64_t *random) {
    static const sim_fault none[] = {SIM_FAILOVER, SIM_RESTART, SIM_LOSSY,  SIM_FORGET,
                                     SIM_QUICK,    SIM_JUMP,    SIM_FREEZE, SIM_BEYOND,
                                     SIM_DENY,     SIM_OOM,     SIM_DELETE, SIM_WITHHOLD,
                                     SIM_SWITCH,   SIM_ASIDE,   SIM_NO_NAME};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        c->fault[none[i]] = 0;
    bool moves = sim_chance(random, 800000), switches = sim_chance(random, 700000),
         aside = sim_chance(random, 500000), alone = sim_chance(random, 300000);
    uint32_t move = (uint32_t)sim_spread(random, 50, 1000),
             change = (uint32_t)sim_spread(random, 200, 1600),
             often = (uint32_t)sim_spread(random, 200, 2000);
    for (int i = 0; alone && i < SIM_FIRST_BROKEN; i++) /* nothing else goes wrong */
        c->fault[i] = 0;
    c->fault[SIM_MOVE] = moves ? move : 0;
    c->fault[SIM_SWITCH] = switches ? change : 0;
    c->fault[SIM_ASIDE] = aside && !alone ? often : 0;
}

/* What a failover can promise with it: the rows of tidelock-promises(7). */
static void draw_promise(sim_config *c, uint64_t *random) {
    bool led = sim_chance(random, 300000), all = sim_chance(random, 200000);
    bool sudden = sim_chance(random, 300000);
    c->forgets_open = sim_chance(random, 300000);
    c->ways = led      ? 1 << SIM_LED
              : sudden ? (int32_t)sim_between(random, 1, SIM_ALL_WAYS)
                       : (int32_t)sim_between(random, 1, SIM_ALL_WAYS) & ~(1 << SIM_WAKES);
    if (c->ways == 0)
        c->ways = 1 << SIM_DIES;
    c->quiet_ms = sim_chance(random, led ? 200000 : 700000) ? sim_config_longest_ms(c) : 0;
    c->wait_replicas = all ? c->replicas : 0;
    c->wait_replicas_ms = all ? (int32_t)sim_between(random, 4 * c->delay / SIM_MS + 1,
                                                     c->attempt_ms)
                              : 0;
    if (c->quiet_ms > 0 && sim_chance(random, 500000))
        c->quiet_ms += SIM_COUNTS_MS;
}

void sim_config_cluster(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x636c7573746572);
    c->fleet = c->cluster = true;
    draw_times(c, &random);
    draw_cast(c, &random);
    draw_servers(c, &random);
    draw_faults(c, &random);
    draw_promise(c, &random);
    c->slow_clock = c->mute = false;
    c->ahead_us = c->lacks = c->touches = c->slots = c->events = 0;
}

/* ---- with slots that move at one moment ------------------------------------------------------------ */

/* In a few runs what is assumed of it doesn't hold. */
void sim_config_atomic(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x61746f6d6963);
    bool same = sim_chance(&random, 600000), shipped = sim_chance(&random, 300000);
    int64_t broken = sim_between(&random, 0, 19);
    c->atomic = true;
    c->forgets_open = false;
    c->fault[SIM_MOVE] = (uint32_t)sim_spread(&random, 50, 600);
    c->drains = sim_chance(&random, 500000);
    c->pause_ms = sim_spread(&random, c->ttl_ms / 20 + 1, 2 * c->ttl_ms);
    if (shipped)
        c->pause_ms = SHIPPED_PAUSE_MS;
    c->doubtful = broken == 0;
    c->uphill = broken == 1;
    for (int i = 2 * SIM_SHARDS - 1; same && i >= SIM_SHARDS; i--)
        c->behind_us[i - 1] -= i == SIM_SHARDS ? 0 : c->behind_us[i - SIM_SHARDS - 1];
    for (int i = 1; same && i < SIM_SHARDS; i++)
        c->behind_us[i - 1] = 0;
}

int64_t sim_config_pause_ms(const sim_config *c) {
    return !c->atomic ? 0 : c->pause_ms + (c->drains ? 0 : SIM_GRANT_MS);
}

/* ---- what holds ------------------------------------------------------------------------------------ */

/* Failovers lose nothing, and who takes over knows which slots are open; and each slot has one owner, which keeps its locks to
 * their ends. */
static bool loses_nothing(const sim_config *c) {
    bool led = c->fault[SIM_SWITCH] == 0 || c->ways == 1 << SIM_LED;
    bool open = c->fault[SIM_MOVE] && c->fault[SIM_SWITCH];
    return led && !(open && c->forgets_open) && !c->doubtful && !c->uphill && !c->empties;
}

bool sim_config_cluster_keeps(const sim_config *c) {
    return !c->fleet || loses_nothing(c);
}

/* Former masters may wake, and what they answer counts for a second at most: where those who are asked about them have news
 * soon enough. */
bool sim_config_cluster_tells_soon(const sim_config *c) {
    return c->fault[SIM_SWITCH] && c->ways >> SIM_WAKES & 1 &&
           c->quiet_ms >= sim_config_longest_ms(c) + SIM_COUNTS_MS;
}

bool sim_config_cluster_excludes(const sim_config *c) {
    bool wakes = c->fault[SIM_SWITCH] && c->ways >> SIM_WAKES & 1;
    bool quiet = c->quiet_ms >= sim_config_longest_ms(c) &&
                 (!wakes || sim_config_cluster_tells_soon(c));
    bool confirmed = c->wait_replicas >= c->replicas && c->fault[SIM_MOVE] == 0;
    return !c->doubtful && !c->uphill && (loses_nothing(c) || quiet || confirmed);
}

/* ---- with stamps --------------------------------------------------------------------------------- */

/* M is how far any legacy clock is from any server's: each of these keeps to a half. */
static void draw_margins(sim_config *c, uint64_t *random) {
    int64_t t = c->java_ttl_ms = c->ttl_ms = sim_spread(random, 600, 10000);
    c->delay = sim_spread(random, 30000, t * (SIM_MS / 200));
    c->lag_ms = sim_between(random, 10, 20) * (c->delay / SIM_MS + 1);
    c->skew_ms = sim_spread(random, 2, t / 6);
    while (c->lag_ms > 1 && 5 * c->skew_ms + 4 * c->lag_ms + 2 > 2 * t)
        c->lag_ms /= 2;
    int64_t trip_ms = 2 * c->delay / SIM_MS + 1;
    c->attempt_ms = sim_spread(random, 12 * trip_ms, 2000);
    c->connect_ms = sim_spread(random, 20 * trip_ms, 5000);
    c->hold_ms = sim_spread(random, t / 10 + 1, 3 * t);
    c->idle_ms = sim_spread(random, t / 20 + 1, t);
    int64_t until_ms = 20 * t < 4000 ? 4000 : 20 * t > 60000 ? 60000 : 20 * t;
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
}

static int64_t half_of(const sim_config *c, uint64_t *random) {
    int64_t m = c->skew_ms / 2;
    return sim_chance(random, 300000)   ? m
           : sim_chance(random, 300000) ? -m
                                        : sim_between(random, -m, m);
}

static void draw_legacy_clocks(sim_config *c, uint64_t *random) {
    for (int i = 1; i < 2 * SIM_SHARDS; i++)
        c->behind_us[i - 1] = half_of(c, random) * 1000 / 2;
    c->wall_off_ms = c->skew_ms;
    for (int i = 0; i < SIM_HOSTS; i++) {
        c->wall_ppb[i] = c->server_ppb;
        c->wall_offset_ms[i] = half_of(c, random);
    }
}

static void draw_legacy_cast(sim_config *c, uint64_t *random) {
    c->actors = 0;
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, 2);
    c->one_slot = sim_chance(random, 300000);
    for (int key = 0; key < c->keys; key++) {
        for (int n = (int)sim_between(random, 1, 3); n > 0; n--)
            c->cast[c->actors++] = (sim_cast){sim_chance(random, 300000) ? SIM_STAMP : SIM_BRIDGE,
                                              (uint8_t)sim_between(random, 0, c->hosts - 1),
                                              (uint8_t)key, false};
        for (int n = (int)sim_between(random, 0, 2); n > 0 && c->actors < SIM_ACTORS; n--)
            c->cast[c->actors++] = (sim_cast){
                SIM_JAVA, (uint8_t)sim_between(random, 0, c->hosts - 1), (uint8_t)key, false};
    }
}

/* Without legacy clients, which know nothing of quiet_ms, replicas may take over with less than all. */
static void draw_legacy_failovers(sim_config *c, uint64_t *random) {
    bool among_us = sim_chance(random, 150000);
    c->wait_replicas = 0;
    if (among_us) {
        for (int i = 0; i < c->actors; i++)
            c->cast[i].kind = c->cast[i].kind == SIM_JAVA ? SIM_BRIDGE : c->cast[i].kind;
        c->quiet_ms = sim_config_longest_ms(c) + SIM_COUNTS_MS;
        return;
    }
    c->quiet_ms = 0;
    if (!sim_chance(random, 200000))
        c->fault[SIM_SWITCH] = 0;
    if (!sim_chance(random, 100000)) {
        c->ways = 1 << SIM_LED;
        c->forgets_open = false;
    }
}

void sim_config_cluster_stamps(sim_config *c) {
    sim_config_cluster(c);
    uint64_t random = c->seed ^ UINT64_C(0x6a617661);
    c->stamps = c->one_java_key = true;
    c->no_eval = c->no_time = c->plain_level = false;
    draw_margins(c, &random);
    draw_legacy_cast(c, &random);
    draw_legacy_clocks(c, &random);
    c->java_writes_ms = sim_chance(&random, 700000) ? c->java_ttl_ms : 0;
    sim_config_stamps_others(c);
    c->ttl_ms = c->java_ttl_ms;
    draw_legacy_failovers(c, &random);
    c->fair = 0;
    c->fault[SIM_STEP] = 0;
    c->java_slack_ms = 2 * c->skew_ms + c->lag_ms;
    c->own_ttl_ms = 0;
}
