/*
 * Clocks that lie: each runs at its own rate beside true time and may be stepped. Integers only.
 */
#pragma once

#include "queue.h"

typedef struct {
    int64_t base; /**< what it showed, ns, at the true time `from` */
    sim_ns from;
    int64_t ppb; /**< how much it gains */
} sim_clock;

int64_t sim_clock_read(const sim_clock *clock, sim_ns at);

/** The first true time at which it shows `reading` or more; SIM_NEVER when that is out of sight. */
sim_ns sim_clock_when(const sim_clock *clock, int64_t reading);

void sim_clock_set_rate(sim_clock *clock, sim_ns now, int64_t ppb);
void sim_clock_step(sim_clock *clock, int64_t by_ns);
