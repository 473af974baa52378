/*
 * Publishes the verdict on clocks to a namespace's clients, which compare it with the margin of
 * their locks.
 */
#pragma once

#include "link/server_link.h"
#include "skew/judge/skew_judge.h"

/** ms; how long a verdict is valid. A watch's is valid for three of its rounds, if that is
 *  longer. */
#define SKEW_PUBLISHED_MS INT64_C(900000)

/** The greatest possible distance of two clocks, ms, rounded up; -1: no pair is known. Pure. */
int64_t skew_publish_worst_ms(const skew_result *result);

/** Write the verdict for a namespace, with times of the server's clock. Returns 0, or the exit
 *  status after a message. */
int skew_publish(server_link *link, const char *name, const skew_result *result, int64_t watch_ms);
