/*
 * The hypervisor's reports about this virtual machine's clocks, by its VMClock, for the agent.
 */
#pragma once

#include "ground/vmclock.h"

#define SKEW_VMCLOCK_SIZE 160

typedef struct {
    char trouble[SKEW_VMCLOCK_SIZE]; /**< reported last; "": none */
    bool seen;                       /**< `view` is of the last look */
    tl_vmclock_view view;
} skew_vmclock;

/** Write why these clocks are in danger, or "". Pure. */
void skew_vmclock_judge(const tl_vmclock_view *view, char to[SKEW_VMCLOCK_SIZE]);

/** Look, and report on stderr what has changed. true: the machine was paused, moved or restored since the last
 *  look, so measurements of before don't apply. */
bool skew_vmclock_look(skew_vmclock *vmclock, const char *host);
