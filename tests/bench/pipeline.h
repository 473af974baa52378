/*
 * The baseline of renewal: a thread that renews plain locks at an even pace, an EVALSHA for each,
 * those that are due at one time pipelined. And its limit: an EVALSHA for a hundred of them.
 */
#pragma once

#include <hiredis/hiredis.h>
#include <stdint.h>

typedef struct pipeline pipeline;

#define PIPELINE_JOINED 100
#define PIPELINE_BY_HAND 0 /**< no script: an MGET, and a PEXPIRE for each */

/** Take `count` plain locks over this connection, to renew them by pipeline_renew: up to `joined` by one script. */
pipeline *pipeline_open(redisContext *c, int count, int64_t ttl_ms, int joined);
/** Renew the next n; by hand at most PIPELINE_JOINED. */
void pipeline_renew(pipeline *p, int n);

/** A thread does so, and renews each once in `cycle_ns`. */
pipeline *pipeline_start(int count, int64_t ttl_ms, int64_t cycle_ns, int joined);
uint64_t pipeline_renewed(pipeline *p); /**< so far */
void pipeline_stop(pipeline *p);
