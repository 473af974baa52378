/*
 * Reporting the counters of a client (tl_client_stats).
 */
#include "client/client.h"
#include "ground/cancel.h"
#include "ground/error.h"
#include "ground/options.h"

static uint64_t of(const _Atomic uint64_t *counter) {
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void tell_calls(tl_stats *ret, const tl_counts *counts) {
    uint64_t *const to[TL_COUNT_CALLS] = {ret->acquires, ret->releases, ret->extends};
    for (unsigned what = 0; what < TL_COUNT_CALLS; what++)
        for (unsigned i = 0; i < TL_STATS_RESULTS; i++)
            to[what][i] += of(&counts->call[what][i]);
}

static void tell_trips(tl_stats *ret, const tl_counts *counts) {
    ret->connections = of(&counts->connections);
    ret->unanswered += of(&counts->unanswered);
    ret->round_trips.sum_us += of(&counts->trips_us);
    for (unsigned i = 0; i < TL_STATS_BUCKETS; i++) {
        uint64_t trips = of(&counts->trips[i]);
        ret->round_trips.bucket[i] += trips;
        ret->round_trips.count += trips;
    }
}

/* ---- clocks ---------------------------------------------------------------------------------- */

/* This host's wall clock less its deadline clock, as an interval. */
static tl_interval wall_offset(tl_mono *ret_now) {
    tl_mono before = tl__mono_now();
    tl_wall wall = tl__wall_now();
    *ret_now = tl__mono_now();
    return tl__bracket(wall.us, before, *ret_now);
}

static int64_t middle(int64_t lo, int64_t hi) {
    return lo + (hi - lo) / 2;
}

static int64_t magnitude(int64_t n) {
    return n < 0 ? -n : n;
}

/* Report how far a server's clock is off, as of its last reply with the time. Later drift makes that less
 * certain; locks take this into account, but here it would hide how far off the clock was. With
 * client.mutex held. */
static void tell_clock(tl_stats *ret, const tl_node *node, tl_interval wall, tl_mono now) {
    const tl_anchor *a = &node->server.anchor;
    if (!a->known)
        return;
    int64_t lo = tl__add_sat(a->offset.lo, -wall.hi), hi = tl__add_sat(a->offset.hi, -wall.lo);
    ret->clocks++;
    if (ret->clocks > 1 && magnitude(middle(lo, hi)) <= magnitude(ret->clock_offset_us))
        return;
    ret->clock_offset_us = middle(lo, hi);
    ret->clock_width_us = hi - lo;
    ret->clock_age_ms = tl__ms_until(a->at, now);
}

static void tell_clocks(tl_stats *ret, tl_client *client) {
    tl_fleet *fleet = &client->fleet;
    unsigned at = 0;
    tl_mono now;
    tl_interval wall = wall_offset(&now);
    for (tl_node *node; (node = fleet->row->next(fleet, &at)); at++) {
        tl__mutex_lock(&client->mutex);
        tell_clock(ret, node, wall, now);
        tl__mutex_unlock(&client->mutex);
    }
}

tl_err tl_client_stats(tl_client *client, tl_stats *ret_stats, tl_error *err) {
    TL_UNCANCELLED;
    if (!tl__client_is_here(client))
        return tl__fail(err, TL_EINVALID, 0, "stats: the client belongs to the parent process");
    if (tl__info_check(ret_stats, "tl_stats", err))
        return TL_EINVALID;
    tl__keeper_lock(&client->keeper);
    tl_stats stats = client->counts.own;
    tl__keeper_unlock(&client->keeper);
    stats.size = sizeof stats;
    tell_calls(&stats, &client->counts);
    tell_trips(&stats, &client->counts);
    stats.waiting_now = of(&client->counts.waiting);
    tell_clocks(&stats, client);
    tl__info_write(ret_stats, &stats, sizeof stats);
    return TL_OK;
}
