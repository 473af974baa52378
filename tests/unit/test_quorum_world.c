/*
 * The machines of a majority in many small worlds drawn from seeds: never two who believe, numbers that increase, and a
 * loss told in time, whatever is lost, late, restarted or dead.
 *
 * QUORUM_RUNS=1000000 plays more of them, QUORUM_SEED=n one.
 */
#include <stdlib.h>

#include "quorum_world.h"

static qw_world world;

static qw_settings draw_settings(void) {
    qw_settings is = {.servers = draw(3) == 0 ? 5 : 3,
                      .clients = 2 + (unsigned)draw(3),
                      .ttl_ms = 200 + draw(2000),
                      .attempt_ms = 50 + draw(300),
                      .length_ms = 4000,
                      .skew_us = draw(2) * draw(100000),
                      .drift_ppm = (int32_t)(draw(3) * 500),
                      .delay_us = 100 + draw(5000),
                      .break_of = (int)(draw(3) * (3 + draw(20))),
                      .restart_of = (int)(draw(3) * (20 + draw(100))),
                      .die_of = (int)(draw(3) * (50 + draw(200))),
                      .cut_of = (int)(draw(3) * (10 + draw(100))),
                      .draw_of = (int)(draw(3) * (1 + draw(20))),
                      .keep_data = draw(2) == 0};
    is.quiet_ms = is.ttl_ms;
    is.calm_ms = 2000 + 10 * is.ttl_ms;
    return is;
}

static unsigned runs(unsigned usual) {
    const char *text = getenv("QUORUM_RUNS");
    return text ? (unsigned)strtoul(text, NULL, 10) : tests_whole() ? usual : usual / 10;
}

typedef struct {
    uint64_t holds, lost, calm_holds, events, restarts, breaks, idle, commands;
} totals;

static const char *play(uint64_t seed, const qw_settings *is, totals *t) {
    seed_begin(seed);
    qw_settings drawn = draw_settings();
    qw_begin(&world, is ? is : &drawn);
    qw_run(&world);
    t->holds += world.holds;
    t->lost += world.lost;
    t->calm_holds += world.calm_holds;
    t->events += world.events;
    t->restarts += world.restarts;
    t->breaks += world.breaks;
    t->commands += world.commands;
    t->idle += world.calm_holds == 0;
    return world.wrong;
}

TEST(no_two_believe_and_numbers_increase_in_any_world) {
    const char *one = getenv("QUORUM_SEED");
    uint64_t first = one ? strtoull(one, NULL, 10) : 1;
    unsigned count = one ? 1 : runs(3000);
    totals t = {0};
    for (uint64_t seed = first; seed < first + count; seed++) {
        const char *wrong = play(seed, NULL, &t);
        if (wrong)
            fail_msg("QUORUM_SEED=%llu, after %lld ms: %s", (unsigned long long)seed,
                     (long long)(world.now_us / 1000), wrong);
        if (world.calm_holds == 0)
            fail_msg("QUORUM_SEED=%llu: nobody gets the lock when all is well again",
                     (unsigned long long)seed);
    }
    print_message(
        "%u worlds: %llu events, %llu holds, %llu lost, %llu restarts, %llu breaks, %llu commands\n",
        count, (unsigned long long)t.events, (unsigned long long)t.holds,
        (unsigned long long)t.lost, (unsigned long long)t.restarts, (unsigned long long)t.breaks,
        (unsigned long long)t.commands);
    if (!one)
        assert_true(t.holds > 3 * count && t.lost > count / 30);
}
