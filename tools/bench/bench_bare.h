/*
 * The least that a lock on one server can cost: SET NX PX and a compared delete, by blocking calls of
 * hiredis.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/conn.h"

typedef struct bench_bare bench_bare;

/** NULL: not available, as over TLS, or where scripts are refused. */
bench_bare *bench_bare_open(const tl_endpoint *endpoint, const char *key);
/** Removes its key. NULL is fine. */
void bench_bare_close(bench_bare *bare);

/** Acquire and release once. False: it failed; don't use `bare` again, except to close it. */
bool bench_bare_pair(bench_bare *bare);

/** CPU time of the server's process so far; negative: not known. */
int64_t bench_bare_cpu_us(bench_bare *bare);

/** Remove a key of the benchmark. */
void bench_bare_remove(bench_bare *bare, const char *key);
