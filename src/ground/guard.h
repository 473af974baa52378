/*
 * Guards: conditions without which a promise would be broken. Each has a name. tests/guards.txt says what it
 * protects and which test fails without it.
 */
#pragma once

#include <stdbool.h>

/** Always true in a shipped build: `if (GUARD(late_reply) && is_late(r))` costs nothing. The libraries that
 *  `make mutations` builds read TL_WITHOUT=late_reply from the environment: there this guard is false, and
 *  all others are true. */
#ifdef TL_GUARDS
#define GUARD(name) tl__guard(#name)
#else
#define GUARD(name) true
#endif

bool tl__guard(const char *name); /**< defined only with TL_GUARDS */
