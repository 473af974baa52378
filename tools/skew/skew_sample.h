/*
 * One measurement of this host's clock against a server's.
 */
#pragma once

#include "link/server_link.h"
#include "skew/judge/skew_track.h"

/** For a link used to measure clocks: what the server must support. */
extern const tl_needer skew_needer;

/** Read the server's TIME and add it to the track. The kernel is asked whether the clock may move faster than
 *  rate_ppm. False: link->status and link->message say
 *  why. */
bool skew_sample(server_link *link, skew_track *track, int32_t rate_ppm);

/** This host's clocks now. */
skew_reading skew_reading_now(void);
