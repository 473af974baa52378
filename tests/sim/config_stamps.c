/*
 * Drawing a run with stamps: legacy clients, and tidelock's that share their keys. Its random numbers
 * are its own, so that runs without stamps stay what they are.
 */

/*
 * A run with stamps, on one or two keys. There are one to three tidelock clients: bridge and timestamp, some of them
 * strict, or all without scripts. There are up to three Java clients, and perhaps one that uses SET NX PX.
 *
 * - T_legacy, the shortest legacy lifetime, is 0.3 to 10 s. M, the maximum clock skew, is up to a sixth of it. L, the
 *   bound from a clock reading to its GETSET, is six to fourteen hops. tidelock's lifetimes are T_legacy, the least and
 *   the most that `tl__stamp_rules` leaves, and any between. Java's are T_legacy, longer, or several. Legacy clocks are
 *   at either edge of M, within it, drift, or step.
 * - In one of four runs the legacy clients speak another dialect (dialect.c), and tidelock's clients know it. In one of
 *   twenty it is `ms-pipe`: SETNX, and EXPIRE if that worked; else GETSET without a GET at each poll. The client
 *   compares the reply with the clock at that time. It sends a GET before the DEL, and no DEL if a waiter has
 *   overwritten the stamp. These clients poll less often, since a key that is polled all the time never expires.
 *
 * Besides check.c there must hold:
 * - Never two holders: a tidelock client until its deadline, a Java client from its reply to its DEL, a plain one until
 *   its own limit. Two tidelock clients with scripts never hold together, whatever legacy clients do.
 * - K never holds a value on which `parseLong` throws, unless a plain client wrote it.
 * - An expired stamp is acquired by a waiter M + L and a poll later. At the end of a run no client waits forever.
 * - LOST without a reason never happens if all legacy clients have T_legacy and all of tidelock's have scripts. A poll
 *   in `ms-pipe` is no reason.
 * - Without scripts: a client that reported "not acquired" never acquires later. A stamp that an unanswered SETNX or
 *   GETSET leaves for a lifetime is counted.
 *
 * The simulator keeps these assumptions. Requests of legacy clients, and ours without scripts, are executed within L of
 * their clock reading. An `ms-pipe` client compares within L too, and throws otherwise. No DEL comes after the end of
 * the job or deletes another's lock. Legacy jobs end 2M + L before their stamp (4M + L where clocks step during a job).
 * Where lifetimes differ, jobs end as if they had the shortest: a racing loser with a shorter one cuts them short by the
 * difference. In a dialect some of whose programs round down (tl_dialect.early_ms) they end so much earlier, and all
 * lifetimes are longer by twice that. A plain client's lifetime ends 2M + L before T_legacy. One run of 24 breaks one of these: clocks beyond M,
 * attempts beyond L, late DELs, shorter lifetimes. After a deletion by hand the legacy clients of that key delete each
 * other's locks, and only clients with a sidecar exclude each other.
 */
#include <string.h>

#include "config.h"
#include "fake_redis.h"
#include "random.h"

#define PPM INT64_C(1000)
#define RUN_MS 400000 /* no wall clock is looked at later */
#define BROKEN 24     /* one run of so many breaks what is assumed of legacy clients */

/* ---- how long things take ---------------------------------------------------------------------- */

static void draw_margins(sim_config *c, uint64_t *random) {
    int64_t t = c->java_ttl_ms = sim_spread(random, 300, 10000);
    c->delay = sim_spread(random, 30000, t * (SIM_MS / 100));
    int64_t hop_ms = c->delay / SIM_MS + 1;
    c->lag_ms = sim_between(random, 6, 14) * hop_ms;
    c->skew_ms = sim_spread(random, 1, t / 6);
    while (c->lag_ms > 1 && 5 * c->skew_ms + 4 * c->lag_ms + 2 > 2 * t)
        c->lag_ms /= 2;
}

static void draw_times(sim_config *c, uint64_t *random) {
    int64_t t = c->java_ttl_ms, trip_ms = 2 * c->delay / SIM_MS + 1;
    c->ttl_ms = t;
    c->attempt_ms = sim_spread(random, 6 * trip_ms, 2000);
    c->connect_ms = sim_spread(random, 8 * trip_ms, 5000);
    c->late = sim_between(random, 0, 900000);
    c->hold_ms = sim_spread(random, t / 10 + 1, 3 * t);
    c->idle_ms = sim_spread(random, t / 20 + 1, 2 * t);
    int64_t until_ms = 16 * t > 60000 ? 60000 : 16 * t;
    c->until = sim_between(random, until_ms / 2, until_ms) * SIM_MS;
    c->quiet_ms = sim_chance(random, 50000) ? sim_between(random, 1, 3 * t) : 0;
    c->wait_replicas = c->replicas = 0;
}

void sim_config_lifetimes(const sim_config *c, int64_t *ret_least, int64_t *ret_most) {
    *ret_least = 2 * c->skew_ms + 2 * c->lag_ms + 1;
    *ret_most = 2 * c->java_ttl_ms - 3 * c->skew_ms - 2 * c->lag_ms - 2 * sim_dialect_early_ms(c);
}

/* ---- who acts ---------------------------------------------------------------------------------- */

static void cast_actor(sim_config *c, sim_kind kind, int key, uint64_t *random) {
    if (c->actors < SIM_ACTORS)
        c->cast[c->actors++] = (sim_cast){
            (uint8_t)kind, (uint8_t)sim_between(random, 0, c->hosts - 1), (uint8_t)key, false};
}

static void draw_server(sim_config *c, uint64_t *random) {
    static const uint32_t old[] = {FAKE_LEVEL(2, 0, 4), FAKE_LEVEL(2, 2, 15), FAKE_LEVEL(2, 4, 18)};
    c->no_eval = sim_chance(random, 300000);
    if (c->no_eval && sim_chance(random, 700000))
        c->level = old[sim_between(random, 0, 2)];
}

static sim_kind draw_kind(const sim_config *c, bool strict, uint64_t *random) {
    if (strict && sim_chance(random, 500000))
        return SIM_STRICT;
    return c->no_eval || sim_chance(random, 300000) ? SIM_STAMP : SIM_BRIDGE;
}

static void draw_cast(sim_config *c, uint64_t *random) {
    bool strict = sim_chance(random, 250000);
    bool plain = sim_chance(random, 250000) && !c->no_eval && c->level >= FAKE_LEVEL(2, 6, 12);
    c->actors = 0;
    c->hosts = (int)sim_between(random, 2, SIM_HOSTS);
    c->keys = (int)sim_between(random, 1, 2);
    c->one_java_key = true;
    for (int key = 0; key < c->keys; key++) {
        for (int n = (int)sim_between(random, 1, 3); n > 0; n--)
            cast_actor(c, draw_kind(c, strict, random), key, random);
        for (int n = (int)sim_between(random, 0, 3); n > 0; n--)
            cast_actor(c, SIM_JAVA, key, random);
        if (plain)
            cast_actor(c, SIM_PLAIN, key, random);
    }
    c->no_time = sim_chance(random, 500000);
    c->plain_level = c->no_eval && c->level < FAKE_LEVEL(2, 2, 0);
    for (int i = 0; i < c->actors; i++) {
        c->plain_level = c->plain_level || c->cast[i].kind == SIM_STRICT;
        c->no_time = c->no_time && c->cast[i].kind != SIM_STAMP && c->cast[i].kind != SIM_BRIDGE;
    }
}

/* ---- clocks ------------------------------------------------------------------------------------ */

/* Within M of the server's for as long as the run lasts: at its edge, or moving across. */
static void draw_walls(sim_config *c, uint64_t *random) {
    int64_t m = c->skew_ms;
    c->wall_off_ms = m;
    for (int i = 0; i < SIM_HOSTS; i++) {
        c->wall_ppb[i] = c->server_ppb;
        c->wall_offset_ms[i] = sim_between(random, -m, m);
        switch (sim_between(random, 0, 3)) {
        case 0: c->wall_offset_ms[i] = m; break;
        case 1: c->wall_offset_ms[i] = -m; break;
        case 2:
            c->wall_offset_ms[i] /= 2;
            c->wall_ppb[i] += sim_between(random, -1, 1) * (m * 500000 / RUN_MS) * PPM / 1000;
            break;
        default: break;
        }
    }
}

/* ---- assumptions ------------------------------------------------------------------------------- */

static void break_one(sim_config *c, uint64_t *random) {
    switch (sim_between(random, 0, 3)) {
    case 0: c->late_dels = true; break;
    case 1: c->slow_javas = true; break;
    case 2: c->java_writes_ms = sim_between(random, c->java_ttl_ms / 4, c->java_ttl_ms - 1); break;
    default:
        c->wall_off_ms = sim_between(random, c->skew_ms + 1, 2 * c->java_ttl_ms);
        for (int i = 0; i < SIM_HOSTS; i++)
            if (sim_chance(random, 500000))
                c->wall_offset_ms[i] = sim_between(random, -c->wall_off_ms, c->wall_off_ms);
        break;
    }
}

/* One lifetime for all Java clients: the shortest or a longer one; or several. */
static void draw_lifetimes(sim_config *c, uint64_t *random) {
    int64_t t = c->java_ttl_ms;
    switch (sim_between(random, 0, 3)) {
    case 0: c->java_writes_ms = 0; break;
    case 1: c->java_writes_ms = sim_between(random, t, 3 * t); break;
    default: c->java_writes_ms = t; break;
    }
}

bool sim_config_legacy(const sim_config *c) {
    return !c->late_dels && !c->slow_javas && c->wall_off_ms <= c->skew_ms &&
           (c->java_writes_ms == 0 || c->java_writes_ms >= c->java_ttl_ms);
}

void sim_config_stamps(sim_config *c) {
    uint64_t random = c->seed ^ UINT64_C(0x7374616d7073);
    c->stamps = true;
    draw_margins(c, &random);
    draw_times(c, &random);
    draw_server(c, &random);
    draw_cast(c, &random);
    draw_walls(c, &random);
    c->fault[SIM_LOSSY] = c->fault[SIM_QUICK] = c->fault[SIM_FAILOVER] = 0;
    c->stays = false;
    if (sim_chance(&random, 750000))
        c->fault[SIM_DELETE] = 0;
    /* A clock that steps during a job needs 2M more. */
    int64_t slack = 2 * c->skew_ms + c->lag_ms;
    if (c->fault[SIM_STEP] && slack + 2 * c->skew_ms < c->java_ttl_ms &&
        sim_chance(&random, 500000))
        slack += 2 * c->skew_ms;
    c->java_slack_ms = slack;
    draw_lifetimes(c, &random);
    c->own_ttl_ms = 0;
    if (sim_chance(&random, 1000000 / BROKEN))
        break_one(c, &random);
}
