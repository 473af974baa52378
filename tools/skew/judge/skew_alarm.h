/*
 * Alarms: the hypervisor of a virtual machine warns of its clocks. An alarm never makes a verdict better. Pure.
 */
#pragma once

#include "skew/judge/skew_judge.h"

/** A status of a host, such as "imminent"; "ok" without an alarm. */
const char *skew_alarm_name(skew_alarm alarm);

/** The warning, to follow "the hypervisor", such as "announces a disruption ..."; "": none. */
const char *skew_alarm_says(skew_alarm alarm);

/** Give an alarm to a host whose clock is known and steady; any other is no safe host anyway. */
void skew_alarm_put(skew_host *host, skew_alarm alarm);

/** The clock with the worst alarm, or NULL. */
const skew_host *skew_alarm_worst(const skew_result *result);
