/*
 * Guards: conditions without which a promise would be broken. Each has a name, and tests/guards.txt says what it
 * keeps and which test fails without it.
 */
#pragma once

#include <stdbool.h>

/** Always true in what ships: `if (GUARD(late_reply) && is_late(r))` costs nothing. The libraries that `make mutations`
    builds ask TL_WITHOUT=late_reply in the environment, which makes this guard false there, and no other. */
#ifdef TL_GUARDS
#define GUARD(name) tl__guard(#name)
#else
#define GUARD(name) true
#endif

bool tl__guard(const char *name); /**< only where TL_GUARDS is defined */
