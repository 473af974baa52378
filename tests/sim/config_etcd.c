/*
 * Drawing a run with an etcd: one, three or five members, whose clocks run at different rates, which stop, die, are cut off and
 * lead in turn. Its random numbers are its own, so that runs without stay what they are.
 */

/*
 * A run with an etcd: clients open `etcd://` by the addresses or names of one, three or five members, in one of five
 * with a login. The members (etcd.c) are the fake of tests/lib/fake_etcd.h, connected at the bytes, so the shipped HTTP
 * and JSON run too. `conform/test_fake_etcd` compares the fake with a real etcd, also on 400 random transactions. A
 * member
 * - stops for a while, then executes what its sockets held. If another leads by then, it takes itself for the leader at
 *   first: it reports leases by its own clock, and ends those that are over by it. Requests to it are lost, or forwarded
 *   when it learns of the leader.
 * - dies and returns with its data. Requests to it are lost, or known to others already.
 * - is cut off from the others, or from a host. Without a majority no request is answered, in the end with an error. It
 *   may be executed when a majority is back.
 * - lags behind the others, for serializable reads and for watches.
 * Elections take one to two seconds. A leader measures leases from their beginning by its own clock, at a rate of its
 * own. `doubt`: errors (codes 2, 4, 14) for requests that may be executed later. `flush`: the history is compacted.
 * `deny`: login tokens expire. `wedge`: a watch stream goes silent. `oom`: the space is used up, and
 * the first request that needs some may be executed, though it is refused. `switch`: another leads. All keys of a
 * lock may be deleted by hand. Then there must hold (check_etcd.c):
 * - A holder has the key that was created first, and relies on it no longer than any member may keep its lease, by all
 *   clocks.
 * - No two hold, fences increase, LOST comes in time and for a reason, and operations end, as with Redis.
 * - A client that was refused has no key, then or later. A clean-up ends when its key no longer exists. A key of a still
 *   later request lasts for a lifetime (`etcd_orphans` counts them).
 * - A key that rests is there for as long as was asked for. No request that comes late moves or ends that.
 * - Where nothing goes wrong no result is UNCERTAIN or UNAVAILABLE, and the first in the queue acquires within a second.
 * - In the end every key has a lease, and no lease lasts longer than any lock.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

#define TTL_LEAST_MS 4000 /* locks draw from half of it on: the least that there is on etcd */

static void draw_times(sim_config *c, uint64_t *random) {
    int64_t t = c->ttl_ms = sim_spread(random, TTL_LEAST_MS, 10000);
    c->delay = sim_spread(random, 30000, 20 * SIM_MS);
    int64_t trip_ms = 2 * c->delay / SIM_MS + 1;
    c->attempt_ms = sim_spread(random, 8 * trip_ms, 3000);
    c->connect_ms = sim_spread(random, 24 * trip_ms, 8000);
    c->hold_ms = sim_spread(random, t / 20 + 1, 2 * t);
    c->idle_ms = sim_spread(random, t / 40 + 1, t);
    c->until = sim_between(random, 3 * t, 8 * t) * SIM_MS;
}

static void draw_cast(sim_config *c, uint64_t *random) {
    bool loops = sim_chance(random, 500000);
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, 2);
    c->one_slot = false;
    c->actors = (int)sim_between(random, 2, 6);
    for (int i = 0; i < c->actors; i++)
        c->cast[i] = (sim_cast){SIM_TOKEN, (uint8_t)sim_between(random, 0, c->hosts - 1),
                                (uint8_t)sim_between(random, 0, c->keys - 1),
                                loops && sim_chance(random, 400000)};
}

static void draw_members(sim_config *c, uint64_t *random) {
    int64_t size = sim_between(random, 0, 9);
    c->members = size < 1 ? 1 : size < 8 ? 3 : 5;
    c->users = sim_chance(random, 200000);
    c->level = FAKE_LEVEL(7, 0, 15);
    c->replicas = c->wait_replicas = c->wait_replicas_ms = 0;
    c->quiet_ms = 0;
    c->stays = c->goes_back = false;
    memset(c->behind_us, 0, sizeof c->behind_us);
}

/* Those that it has of its own, and none that break an assumption or are no concern of it. */
static void draw_faults(sim_config *c, uint64_t *random) {
    static const sim_fault none[] = {SIM_FAILOVER, SIM_LOSSY,    SIM_QUICK, SIM_JUMP,   SIM_FREEZE,
                                     SIM_MOVE,     SIM_WITHHOLD, SIM_STEP,  SIM_FORGET, SIM_BEYOND};
    static const sim_fault own[] = {SIM_SERVER_PAUSE, SIM_RESTART, SIM_ASIDE, SIM_SWITCH,
                                    SIM_FLUSH,        SIM_DOUBT,   SIM_WEDGE, SIM_DENY};
    bool alone = sim_chance(random, 300000);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        c->fault[none[i]] = 0;
    for (int i = 0; alone && i < SIM_FIRST_BROKEN; i++) /* nothing else goes wrong */
        c->fault[i] = 0;
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        bool on = sim_chance(random, 400000);
        uint32_t often = (uint32_t)sim_spread(random, 60, 1000);
        c->fault[own[i]] = on ? often : 0;
    }
    if (!c->users)
        c->fault[SIM_DENY] = 0;
}

void sim_config_etcd(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x65746364);
    draw_times(c, &random);
    draw_cast(c, &random);
    draw_members(c, &random);
    draw_faults(c, &random);
    if (sim_chance(&random, 80000)) /* nothing goes wrong */
        memset(c->fault, 0, sizeof c->fault);
    c->fair = 0;
    c->slow_clock = c->cluster = c->mute = false;
    c->ahead_us = c->lacks = c->touches = c->slots = c->events = 0;
}
