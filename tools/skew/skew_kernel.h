/*
 * The kernel's report on this host's clock. Its value is limited: under chronyd it leaves out the
 * correction still to come, and its flag depends on how the daemon is configured. Pure.
 */
#pragma once

#include "base/moment.h"
#include "skew/judge/skew_judge.h"

/** Fill this host's row, all but the name, with the distance from the true time that the kernel
 *  reports. */
void kernel_judge(const kernel_clock *kernel, skew_host *host);
