/*
 * Reads legacy stamps as readings of a clock: the values that the clock can have shown when the
 * stamp was made.
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

/** The dialect of that name; a NULL name means the default. Returns NULL if there is none. */
const skew_dialect *skew_stamp_dialect(const char *name);

/** Read a key's new value. STAMP: *ret_us is the writer's clock when it was read, plus the
 *  lifetime. now_us: the server's clock, approximately. */
skew_stamp_kind skew_stamp_read(const skew_dialect *dialect, tl_bytes text, int64_t now_us,
                                tl_interval *ret_us);

/** The resolution of the clocks that this dialect's clients compare, us. */
int64_t skew_stamp_resolution_us(const skew_dialect *dialect);

/** When a stamp of this dialect may expire, relative to the end of its lifetime, on clocks that
 *  agree, us: earliest (negative) and latest. Rounding causes the difference, and the time that
 *  writers add. */
tl_interval skew_stamp_over_us(const skew_dialect *dialect);

/** Read a value that may be a stamp of any dialect. `given`: the dialect that counts if the value fits it; NULL: the
 *  first one that the value fits. *ret_us: as skew_stamp_read. dialects:
 *  the names of all dialects that write such values, the one that was read first. False: no dialect does. */
#define SKEW_ALIKE_SIZE 160
bool skew_stamp_guess(const skew_dialect *given, tl_bytes text, int64_t now_us, tl_interval *ret_us,
                      char dialects[SKEW_ALIKE_SIZE]);
