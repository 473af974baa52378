/*
 * Clocks of the simulated hosts and servers.
 */
#include "clocks.h"

#define BILLION INT64_C(1000000000)
#define SIGHT (1000 * BILLION) /* no run lasts longer */

/* What `ns` of the clock are in true time, to a nanosecond or two. */
static int64_t in_true_time(const sim_clock *clock, int64_t ns) {
    int64_t rate = BILLION + clock->ppb;
    return ns / rate * BILLION + ns % rate * BILLION / rate;
}

int64_t sim_clock_read(const sim_clock *clock, sim_ns at) {
    int64_t passed = at - clock->from;
    return clock->base + passed + passed / BILLION * clock->ppb +
           passed % BILLION * clock->ppb / BILLION;
}

sim_ns sim_clock_when(const sim_clock *clock, int64_t reading) {
    int64_t left = reading - clock->base;
    if (reading == INT64_MAX || left > SIGHT)
        return SIM_NEVER;
    if (left <= 0)
        return clock->from;
    sim_ns at = clock->from + in_true_time(clock, left);
    while (sim_clock_read(clock, at) < reading)
        at++;
    while (at > clock->from && sim_clock_read(clock, at - 1) >= reading)
        at--;
    return at;
}

void sim_clock_set_rate(sim_clock *clock, sim_ns now, int64_t ppb) {
    clock->base = sim_clock_read(clock, now);
    clock->from = now;
    clock->ppb = ppb;
}

void sim_clock_step(sim_clock *clock, int64_t by_ns) {
    clock->base += by_ns;
}
