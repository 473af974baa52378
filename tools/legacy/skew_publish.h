/*
 * Telling a namespace's clients what was found of the clocks: they compare it with the margin that they
 * lock by.
 */
#pragma once

#include "link/server_link.h"
#include "skew/judge/skew_judge.h"

/** How long a verdict is believed, ms; a watch's is for three of its rounds, if that is longer. */
#define SKEW_PUBLISHED_MS INT64_C(900000)

/** How far any two clocks may be from each other, ms, rounded up; -1: no pair is known. Pure. */
int64_t skew_publish_worst_ms(const skew_result *result);

/** Write the verdict for a namespace, by the server's clock. Returns 0, or the exit status after a message. */
int skew_publish(server_link *link, const char *name, const skew_result *result, int64_t watch_ms);
