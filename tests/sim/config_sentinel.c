/*
 * Drawing a run with Sentinels, who have a replica take over from the master: clients ask them where it is. Its
 * random numbers are its own, so that runs without stay what they are.
 */

/*
 * A run with Sentinels: clients open `redis+sentinel://` by addresses or names, and some know only one or two of the
 * three Sentinels (sentinel.c). A failover promotes a replica with the data that it has. The Sentinels name it one after
 * the other; dead or isolated ones are last. The former master does one of these (a bit each in `ways`):
 *
 *    1  It is dead, and returns as a replica.
 *    2  It returns as the master, since it knows no better.
 *    4  It was stopped. When it resumes, perhaps before any promotion, it executes what its sockets held.
 *    8  It is cut off together with some hosts and perhaps a Sentinel. Some hosts reach both sides.
 *   16  It learns of the switch soon, as in a failover on request.
 *
 * It remains a master until it is made a replica. Its connections end then, or stay (`ends-conns`). In half of the later
 * failovers the master before takes over again. With `unfollowed` the current master dies before the former one is made
 * a replica: the former one is named again, with its own data, run and history. A former master executes commands of a
 * lost history, so the server's checks are those of the current master. Then there must hold:
 * - Where tidelock-promises(7) promises it (`sim_config_excludes`) no two hold at once, and their fences increase.
 *   That needs `quiet_ms`: a lifetime with dead masters alone, a second more with all kinds. Or all replicas confirm.
 *   Elsewhere two holders are counted.
 * - No other server executes what was built for one server.
 * - A renewal counts only if a majority named its server after the execution. An acquire counts only if a majority named
 *   its server within the second before it was sent.
 * - A renewal thread that has read of a switch sends nothing more to the former master. All limits hold as in check.c.
 * Not simulated: Sentinels that forget their configuration or disagree forever, an aborted failover,
 * `min-replicas-to-write`, passwords.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

static void draw_times(sim_config *c, uint64_t *random) {
    int64_t t = c->ttl_ms = sim_spread(random, 100, 6000);
    c->delay = sim_spread(random, 30000, t * (SIM_MS / 50));
    int64_t trip_ms = 2 * c->delay / SIM_MS + 1;
    c->attempt_ms = sim_spread(random, 6 * trip_ms, 2000);
    c->connect_ms = sim_spread(random, 16 * trip_ms, 5000);
    c->hold_ms = sim_spread(random, t / 10 + 1, 3 * t);
    c->idle_ms = sim_spread(random, t / 20 + 1, t);
    int64_t until_ms = 24 * t < 4000 ? 4000 : 24 * t > 60000 ? 60000 : 24 * t;
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
}

static void draw_cast(sim_config *c, uint64_t *random) {
    bool loops = sim_chance(random, 500000);
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, 2);
    c->actors = (int)sim_between(random, 2, 6);
    for (int i = 0; i < c->actors; i++)
        c->cast[i] = (sim_cast){SIM_TOKEN, (uint8_t)sim_between(random, 0, c->hosts - 1),
                                (uint8_t)sim_between(random, 0, c->keys - 1),
                                loops && sim_chance(random, 400000)};
}

/* What a failover can promise with it: the rows of tidelock-promises(7). */
static void draw_promise(sim_config *c, uint64_t *random) {
    bool dead = sim_chance(random, 250000), all = sim_chance(random, 250000);
    int64_t quiet = sim_between(random, 0, 3);
    c->ways = dead ? 1 << SIM_DIES : (int32_t)sim_between(random, 1, SIM_ALL_WAYS);
    c->replicas = (int)sim_between(random, 1, SIM_REPLICAS);
    c->quiet_ms = quiet == 0   ? 0
                  : quiet == 1 ? sim_config_longest_ms(c)
                               : sim_config_longest_ms(c) + SIM_COUNTS_MS;
    c->wait_replicas = all ? c->replicas : 0;
    c->wait_replicas_ms = all ? (int32_t)sim_between(random, 4 * c->delay / SIM_MS + 1,
                                                     c->attempt_ms)
                              : 0;
}

static void draw_servers(sim_config *c, uint64_t *random) {
    static const uint32_t levels[] = {FAKE_LEVEL(5, 0, 14), FAKE_LEVEL(6, 2, 14),
                                      FAKE_LEVEL(7, 0, 15)};
    bool behind = sim_chance(random, 500000);
    c->level = levels[sim_chance(random, 700000) ? 2 : sim_between(random, 0, 1)];
    for (int i = 0; i < SIM_REPLICAS; i++)
        c->behind_us[i] = behind ? sim_between(random, 0, c->ttl_ms * 500) : 0;
    c->seeds = sim_chance(random, 700000) ? SIM_SENTINELS : (int32_t)sim_between(random, 1, 2);
    c->ends_conns = sim_chance(random, 500000);
    c->stays = true; /* who listens at a replica is told what is published */
    c->goes_back = false;
}

/* Those that it has of its own, and none that break an assumption or are no concern of it. */
static void draw_faults(sim_config *c, uint64_t *random) {
    static const sim_fault none[] = {SIM_FAILOVER, SIM_RESTART, SIM_LOSSY,   SIM_FORGET,
                                     SIM_QUICK,    SIM_JUMP,    SIM_FREEZE,  SIM_BEYOND,
                                     SIM_DENY,     SIM_MOVE,    SIM_WITHHOLD};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        c->fault[none[i]] = 0;
    c->fault[SIM_SWITCH] = (uint32_t)sim_spread(random, 200, 1600);
    bool aside = sim_chance(random, 500000);
    uint32_t often = (uint32_t)sim_spread(random, 200, 2000);
    c->fault[SIM_ASIDE] = aside ? often : 0;
    if (sim_chance(random, 250000)) /* nothing else goes wrong */
        for (int i = 0; i < SIM_FIRST_BROKEN; i++)
            c->fault[i] = 0;
}

void sim_config_sentinel(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x73656e74696e656c);
    c->sentinel = true;
    draw_times(c, &random);
    draw_cast(c, &random);
    draw_servers(c, &random);
    draw_faults(c, &random);
    draw_promise(c, &random);
    c->slow_clock = c->cluster = c->one_slot = c->mute = false;
    c->ahead_us = c->lacks = c->touches = c->slots = c->events = 0;
}

bool sim_config_excludes(const sim_config *c) {
    int64_t longest = sim_config_longest_ms(c);
    int64_t needed = c->ways == 1 << SIM_DIES ? longest : longest + SIM_COUNTS_MS;
    bool confirmed = c->replicas > 0 && c->wait_replicas >= c->replicas;
    if (c->fleet)
        return sim_config_cluster_excludes(c);
    return c->sentinel && (c->quiet_ms >= needed || confirmed);
}

bool sim_config_orders(const sim_config *c) {
    bool orders = true;
    for (int i = 0; i < SIM_NODES - 1; i++)
        orders = orders && c->behind_us[i] < c->ttl_ms * 1000;
    return orders && sim_config_excludes(c);
}
