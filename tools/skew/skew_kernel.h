/*
 * What the kernel says of this host's clock. Shown for what it is worth: under chronyd it leaves out what
 * is still to be corrected, and its flag depends on how the daemon is set up. Pure.
 */
#pragma once

#include "base/moment.h"
#include "skew/judge/skew_judge.h"

/** Fill the row of this host, all but the name: from the true time, as the kernel believes. */
void kernel_judge(const kernel_clock *kernel, skew_host *host);
