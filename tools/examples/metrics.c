/*
 * A client's counts and gauges, in Prometheus' text format. The names are those of `tidelock run
 * --metrics` and two gauges more, so that the alerts and the dashboard of tools/monitoring show this program,
 * too. A server would print this wherever Prometheus asks it; here it is printed once, while the lock is held.
 *
 *     cc metrics.c $(pkg-config --cflags --libs tidelock) -o metrics
 *     ./metrics redis://localhost jobs:42
 */
#include <inttypes.h>
#include <stdio.h>
#include <tidelock/tidelock.h>

#define US_PER_S 1000000

static void head(const char *name, const char *type, const char *help) {
    printf("# HELP tidelock_%s %s\n# TYPE tidelock_%s %s\n", name, help, name, type);
}

static void put(const char *name, const char *type, const char *help, uint64_t value) {
    head(name, type, help);
    printf("tidelock_%s %" PRIu64 "\n", name, value);
}

static void put_us(const char *name, const char *before, uint64_t us, const char *behind) {
    printf("tidelock_%s%s%" PRIu64 ".%06" PRIu64 "%s", name, before, us / US_PER_S, us % US_PER_S,
           behind);
}

static void put_durations(const char *name, const char *help, const tl_durations *durations) {
    uint64_t count = 0;
    head(name, "histogram", help);
    for (int i = 0; i + 1 < TL_STATS_BUCKETS; i++) {
        count += durations->bucket[i];
        put_us(name, "_bucket{le=\"", (uint64_t)TL_STATS_BUCKET_US(i), "\"} ");
        printf("%" PRIu64 "\n", count);
    }
    printf("tidelock_%s_bucket{le=\"+Inf\"} %" PRIu64 "\n", name, durations->count);
    put_us(name, "_sum ", durations->sum_us, "\n");
    printf("tidelock_%s_count %" PRIu64 "\n", name, durations->count);
}

static void put_losses(const tl_stats *stats) {
    static const char *const causes[] = {
        [TL_LOST_EXPIRED] = "expired", [TL_LOST_TAKEN] = "taken",
        [TL_LOST_GONE] = "gone",       [TL_LOST_MAX_HOLD] = "max_hold",
        [TL_LOST_STALLED] = "stalled", [TL_LOST_DISRUPTED] = "disrupted"};
    head("losses_total", "counter", "Locks that were lost while they were held, by cause.");
    for (size_t i = 0; i < sizeof causes / sizeof *causes; i++)
        if (causes[i])
            printf("tidelock_losses_total{cause=\"%s\"} %" PRIu64 "\n", causes[i], stats->lost[i]);
}

static tl_err put_client(tl_client *client, tl_error *err) {
    tl_stats stats = {.size = sizeof stats};
    tl_err code = tl_client_stats(client, &stats, err);
    if (code)
        return code;
    put("held_now", "gauge", "Locks that are held now.", stats.held_now);
    put("waiting_now", "gauge", "Calls that wait for a lock now.", stats.waiting_now);
    put("at_risk_total", "counter", "How often a lock was at risk.", stats.at_risk);
    put_losses(&stats);
    put_durations("wait_seconds", "From the call until the lock was held.", &stats.wait);
    put_durations("hold_seconds", "From the acquisition until the lock was released or lost.",
                  &stats.hold);
    return TL_OK;
}

int main(int argc, char **argv) {
    tl_error err;
    tl_client *client;
    if (argc != 3) {
        fprintf(stderr, "usage: metrics URL KEY\n");
        return 2;
    }
    tl_client_options co = TL_CLIENT_OPTIONS(.url = argv[1], .service = "metrics example");
    if (tl_client_open(&co, &client, &err)) {
        fprintf(stderr, "%s\n", err.message);
        return 1;
    }
    tl_lock *lock = tl_acquire(client, argv[2], 10000, &err);
    tl_err code = lock ? put_client(client, &err) : err.code;
    if (lock && tl_release(lock, code ? NULL : &err) && !code)
        code = err.code;
    if (code)
        fprintf(stderr, "%s\n", err.message);
    tl_client_close(client);
    return code != TL_OK;
}
