/*
 * The least that a lock on one server can cost: SET NX PX and a compared delete, by blocking calls of hiredis.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "transport/conn.h"

typedef struct bench_bare bench_bare;

/** NULL: it can't be had there, as over TLS, or where a script is refused. */
bench_bare *bench_bare_open(const tl_endpoint *endpoint, const char *key);
/** Removes its key. NULL is fine. */
void bench_bare_close(bench_bare *bare);

/** Acquire and release. False: it failed, and is of no more use. */
bool bench_bare_pair(bench_bare *bare);

/** How long the server's process has computed so far; negative: it doesn't tell. */
int64_t bench_bare_cpu_us(bench_bare *bare);

/** Remove a key of ours. */
void bench_bare_remove(bench_bare *bare, const char *key);
