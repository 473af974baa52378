/*
 * The baseline of renewal: a thread that renews plain locks at an even pace, an EVALSHA for each,
 * those that are due at one time pipelined.
 */
#ifndef PIPELINE_H
#define PIPELINE_H

#include <stdint.h>

typedef struct pipeline pipeline;

/** Take `count` plain locks and renew each once in `cycle_ns`. */
pipeline *pipeline_start(int count, int64_t ttl_ms, int64_t cycle_ns);
uint64_t pipeline_renewed(pipeline *p); /**< so far */
void pipeline_stop(pipeline *p);

#endif
