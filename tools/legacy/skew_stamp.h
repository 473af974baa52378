/*
 * Reading legacy stamps as readings of a clock: which value a clock can have shown when a stamp
 * was made of it.
 */
#pragma once

#include "transport/conn.h" /* tl_bytes */
#include "wire/interval.h"

typedef struct tl_dialect skew_dialect;

typedef enum {
    SKEW_STAMP,
    SKEW_STRANGE, /**< a time, but not in this dialect */
    SKEW_NO_STAMP
} skew_stamp_kind;

/** The one of that name; NULL stands for the default. NULL: there is none. */
const skew_dialect *skew_stamp_dialect(const char *name);

/** What a key was set to. STAMP: *ret_us is the writer's clock when it was read, more the lifetime.
 *  now_us: the server's clock; about right will do. */
skew_stamp_kind skew_stamp_read(const skew_dialect *dialect, tl_bytes text, int64_t now_us,
                                tl_interval *ret_us);

/** How coarse the clocks are that this dialect's clients compare, us. */
int64_t skew_stamp_resolution_us(const skew_dialect *dialect);

/** By how much a stamp of this dialect may be over before its lifetime has passed on clocks that agree (a
 *  negative number), and how long after it at most, us: what rounding takes, and what writers add. */
tl_interval skew_stamp_over_us(const skew_dialect *dialect);
