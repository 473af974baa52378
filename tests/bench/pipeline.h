/*
 * The baseline of renewal: a thread that renews plain locks at an even pace, an EVALSHA for each,
 * those that are due at one time pipelined. And its limit: an EVALSHA for a hundred of them.
 */
#pragma once

#include <stdint.h>

typedef struct pipeline pipeline;

#define PIPELINE_JOINED 100

/** Take `count` plain locks and renew each once in `cycle_ns`; up to `joined` by one script. */
pipeline *pipeline_start(int count, int64_t ttl_ms, int64_t cycle_ns, int joined);
uint64_t pipeline_renewed(pipeline *p); /**< so far */
void pipeline_stop(pipeline *p);
