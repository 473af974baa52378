/*
 * The hypervisor's reports about this virtual machine's clocks, by its VMClock.
 */
#pragma once

#include "ground/vmclock.h"
#include "skew/judge/skew_alarm.h"

typedef struct {
    skew_alarm alarm; /**< reported last */
    bool seen;        /**< `view` is of the last look */
    tl_vmclock_view view;
} skew_vmclock;

/** Is the machine's clock in danger, or may it be wrong? Pure. */
skew_alarm skew_vmclock_alarm(const tl_vmclock_view *view);

/** The alarm now; none where there is no VMClock. */
skew_alarm skew_vmclock_now(void);

/** For an agent: look, and report on stderr what has changed. true: the machine was paused, moved or restored since
 *  the last look, so measurements of before don't apply. */
bool skew_vmclock_look(skew_vmclock *vmclock, const char *host);
