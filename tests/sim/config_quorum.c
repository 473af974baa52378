/*
 * Drawing a run with a quorum: three, five or seven independent servers, whose clocks differ, and which restart, with their data
 * or empty, stop, and are cut off. Its random numbers are its own, so that runs without stay what they are.
 */

/*
 * A run with a quorum: clients open `redis+quorum://` by the addresses or names of three, five or seven independent
 * servers (quorum.c). Their clocks run at either edge of the drift bound and differ by up to most of a lifetime; in one
 * run of sixteen one is off by 11 to 30 hours. In one of twenty, two places of the URL lead to one server.
 *
 * - A server dies, and returns with its data (`restart`) or empty (`forget`). Meanwhile its address refuses, or is
 *   silent. Without `quiet_ms` nothing is promised about an empty one: there two holders are counted (a sixteenth of
 *   such runs).
 * - It stops, and executes what its sockets held when it resumes. It is full. It loses its scripts. A lock's key is
 *   deleted by hand.
 * - It is cut off (`aside`): a host from some servers, a server from all hosts, or some hosts and servers from the
 *   others.
 *
 * Then there must hold (check_quorum.c):
 * - No majority holds a key for one token while a client relies on another. This is checked at each vote, so before that
 *   client knows.
 * - Each vote that a client counts exists for as long as it counts it, to the nanosecond of both clocks. A vote that a
 *   server forgot, or that was deleted by hand, counts as existing while no other client can have it. No server counts
 *   twice. No lock outlasts a majority of its votes.
 * - The number of a hold is at a majority when it is believed, and increases over holds. Where servers restart empty
 *   this needs clocks closer than half of `quiet_ms`.
 * - A token whose vote was released gets no vote afterwards, unless `spent` names another token by then: that orphan
 *   lasts a lifetime and is counted. A clean-up leaves no vote of its token, nor of its former forms.
 * - BUSY and TIMEDOUT are reported only where a server refused. A client that has just returned a majority never reports
 *   EXPIRED. LOST, except by time, is reported only where votes may have been lost. Else as for one server (check.c).
 * - Where nothing goes wrong a waiter acquires a released lock within a second, by at most twenty requests about votes
 *   for each server and actor. No operation is UNCERTAIN or UNAVAILABLE unless its time was short. A release works, or
 *   comes after the end.
 * With `dead` that many servers are dead from the start. With `in-turn` they restart empty one after the other,
 * `quiet_ms`, a lifetime and the time to connect apart: then no renewed lock is lost. Two places may count one server for up to a lifetime after it
 * restarted, if the second reaches it first. That makes no majority for another, since all places of a server are one
 * holder's. A request by the second place, sent before the client knew, may leave a vote for a lifetime. Not simulated:
 * servers before 4.0, forbidden commands and keys, `tl_client_look` and `_break` of several servers, adopting a token.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

#define HOUR_US INT64_C(3600000000)

static void draw_times(sim_config *c, uint64_t *random) {
    int64_t t = c->ttl_ms = sim_spread(random, 100, 6000);
    c->delay = sim_spread(random, 30000, t * (SIM_MS / 100));
    int64_t trip_ms = 2 * c->delay / SIM_MS + 1;
    c->attempt_ms = sim_spread(random, 8 * trip_ms, 2000);
    c->connect_ms = sim_spread(random, 16 * trip_ms, 5000);
    c->hold_ms = sim_spread(random, t / 10 + 1, 3 * t);
    c->idle_ms = sim_spread(random, t / 20 + 1, t);
    int64_t until_ms = 20 * t < 3000 ? 3000 : 20 * t > 40000 ? 40000 : 20 * t;
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
}

static void draw_cast(sim_config *c, uint64_t *random) {
    bool loops = sim_chance(random, 500000);
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, 2);
    c->one_slot = sim_chance(random, 300000);
    c->actors = (int)sim_between(random, 2, 6);
    for (int i = 0; i < c->actors; i++)
        c->cast[i] = (sim_cast){SIM_TOKEN, (uint8_t)sim_between(random, 0, c->hosts - 1),
                                (uint8_t)sim_between(random, 0, c->keys - 1),
                                loops && sim_chance(random, 400000)};
}

/* Some are off by most of a lifetime; now and then one is off by so much that it says nothing of numbers, or has no vote. */
static void draw_clocks(sim_config *c, uint64_t *random) {
    int64_t most = sim_chance(random, 500000) ? c->ttl_ms * 900 : 0;
    int64_t off = sim_between(random, 11, 30) * HOUR_US;
    bool far = sim_chance(random, 60000), ahead = sim_chance(random, 500000);
    for (int i = 0; i < SIM_VOTERS - 1; i++)
        c->behind_us[i] = most ? sim_between(random, -most, most) : 0;
    if (far)
        c->behind_us[sim_between(random, 0, c->voters - 2)] = ahead ? -off : off;
}

static void draw_servers(sim_config *c, uint64_t *random) {
    static const uint32_t levels[] = {FAKE_LEVEL(4, 0, 14), FAKE_LEVEL(5, 0, 14),
                                      FAKE_LEVEL(6, 2, 14), FAKE_LEVEL(7, 0, 15)};
    int64_t size = sim_between(random, 0, 9);
    c->voters = size < 5 ? 3 : size < 9 ? 5 : 7;
    c->level = levels[sim_chance(random, 700000) ? 3 : sim_between(random, 0, 2)];
    c->twice = sim_chance(random, 50000) ? (int32_t)sim_between(random, 2, c->voters) : 0;
    c->unused = sim_chance(random, 200000);
    draw_clocks(c, random);
    c->replicas = 0;
    c->wait_replicas = c->wait_replicas_ms = 0;
    c->stays = c->goes_back = false;
}

/* Without quiet_ms nothing is promised where one forgets. */
static void draw_promise(sim_config *c, uint64_t *random) {
    bool quiet = sim_chance(random, 750000), forgets = sim_chance(random, 500000);
    bool broken = sim_chance(random, 60000);
    uint32_t often = (uint32_t)sim_spread(random, 300, 3000);
    c->quiet_ms = quiet ? sim_config_longest_ms(c) : 0;
    c->fault[SIM_FORGET] = forgets && (quiet || broken) ? often : 0;
}

/* Those that it has of its own, and none that break an assumption or are no concern of it. */
static void draw_faults(sim_config *c, uint64_t *random) {
    static const sim_fault none[] = {SIM_FAILOVER, SIM_LOSSY,  SIM_QUICK, SIM_JUMP,
                                     SIM_FREEZE,   SIM_BEYOND, SIM_DENY,  SIM_MOVE,
                                     SIM_WITHHOLD, SIM_SWITCH, SIM_STEP,  SIM_FORGET};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        c->fault[none[i]] = 0;
    bool aside = sim_chance(random, 500000), alone = sim_chance(random, 250000);
    bool restarts = sim_chance(random, 500000);
    uint32_t often = (uint32_t)sim_spread(random, 100, 2000);
    uint32_t restart = (uint32_t)sim_spread(random, 100, 2000);
    for (int i = 0; alone && i < SIM_FIRST_BROKEN; i++) /* nothing else goes wrong */
        c->fault[i] = 0;
    c->fault[SIM_RESTART] = restarts ? restart : 0;
    c->fault[SIM_ASIDE] = aside ? often : 0;
}

void sim_config_quorum(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x71756f72756d);
    draw_times(c, &random);
    draw_cast(c, &random);
    draw_servers(c, &random);
    draw_faults(c, &random);
    draw_promise(c, &random);
    if (sim_chance(&random, 80000)) /* nothing goes wrong */
        memset(c->fault, 0, sizeof c->fault);
    c->fair = 0;
    c->slow_clock = c->cluster = c->mute = false;
    c->ahead_us = c->lacks = c->touches = c->slots = c->events = 0;
}

bool sim_config_quorum_keeps(const sim_config *c) {
    return !c->voters || !c->fault[SIM_FORGET] || c->quiet_ms >= sim_config_longest_ms(c);
}

/* What is forgotten of numbers their clocks make good, who have gone on for quiet_ms at least since then. */
bool sim_config_quorum_orders(const sim_config *c) {
    int64_t least = 0, most = 0;
    for (int i = 0; i < c->voters - 1; i++) {
        least = c->behind_us[i] < least ? c->behind_us[i] : least;
        most = c->behind_us[i] > most ? c->behind_us[i] : most;
    }
    return !c->fault[SIM_FORGET] || most - least < c->quiet_ms * 500;
}
