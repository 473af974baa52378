/*
 * Hosts that don't exist, by the records of their agents.
 */
#pragma once

#include "link/server_link.h"
#include "skew/judge/skew_judge.h"

#define FLEET_MOST SKEW_HOSTS_MAX

/** Measure this host over the link, and make the records that so many agents would publish of hosts
 *  whose clocks are up to 20 ms from its. */
void fleet_make(server_link *l, int hosts);

/** Put those records where agents put theirs. */
void fleet_publish(void);

/** Read them, as of 5 s after they were made: fills `hosts`. */
void fleet_read(skew_host *hosts);

/** Let each second host have been measured by the one before it as well, to 5 us. */
void fleet_bind(skew_host *hosts);
