/*
 * The dialects of timestamp locks: what legacy clients write into a lock's key, and when
 * their own comparison calls it expired. Data and pure functions; no locale, no floating point.
 *
 * All times are milliseconds of the writers' and readers' clocks, since the epoch.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "ground/bytes.h"

#define TL_STAMP_SIZE 80 /**< room for any stamp's text */

typedef enum {
    TL_UNIT_MS,   /**< whole milliseconds */
    TL_UNIT_S,    /**< whole seconds */
    TL_UNIT_REAL, /**< seconds with decimals */
} tl_unit;

typedef enum {
    TL_SHAPE_BARE,      /**< the number alone */
    TL_SHAPE_NUMBER_ID, /**< the number, a separator, who wrote it */
    TL_SHAPE_ID_NUMBER  /**< who wrote it, a separator, the number */
} tl_shape;

typedef struct tl_dialect {
    const char *name;
    const char *seen_in;
    tl_unit unit;
    tl_shape shape;
    char separator;
    uint8_t decimals;       /**< REAL: how many are written */
    int16_t plus_ms;        /**< writers add this to their clock and lifetime */
    bool at_equal;          /**< expired when stored <= now; else when stored < now */
    bool waiters_overwrite; /**< each poll of a waiter leaves its own stamp */
    bool whole_readers;     /**< REAL: some readers have whole seconds, rounded down */
    const char *eternal[2]; /**< texts that mean: never expires */
} tl_dialect;

typedef enum {
    TL_STAMP_GOOD,
    TL_STAMP_ETERNAL,  /**< the dialect's way to say: never expires */
    TL_STAMP_UNLIKELY, /**< a number, but no time from 2001-09 to ten years ahead in this dialect */
    TL_STAMP_NOT_A_STAMP /**< of another kind: a token, text, nothing */
} tl_stamp_kind;

/** A stamp, read. Only GOOD ones have times. */
typedef struct {
    tl_stamp_kind kind;
    int64_t end_ms;        /**< no reader's comparison is true before this on its clock */
    int64_t first_free_ms; /**< nor can it be false from this on */
    int64_t
        written_ms; /**< end less what writers add: their clock when they wrote, plus lifetime */
} tl_stamp;

/** NULL: there is none of that name. */
const tl_dialect *tl__dialect_find(tl_bytes name);
/** The i-th, from 0; NULL after the last. The first is the default, `java`. */
const tl_dialect *tl__dialect_at(unsigned i);

/** Read what a key holds. now_ms: for what is likely; about right will do. */
tl_stamp tl__dialect_read(const tl_dialect *dialect, tl_bytes text, int64_t now_ms);

/** Write a stamp for a lock that ends `lifetime` after a clock shows now: no reader's comparison is
 *  true before end_ms. `id`: who writes it, for dialects that want it. The text is in `to`. */
tl_bytes tl__dialect_write(const tl_dialect *dialect, int64_t end_ms, tl_bytes id,
                           char to[TL_STAMP_SIZE]);

/* ---- parts ------------------------------------------------------------------------------------- */

/** From now on no stamp ends later than this. */
#define TL_STAMP_AHEAD_MS (INT64_C(3653) * 86400000)

static inline bool tl__is_digit(char c) {
    return c >= '0' && c <= '9';
}

/** Digits as a machine writes them; false for none, for anything else, and for more than fit. */
bool tl__dialect_whole(tl_bytes text, int64_t *ret);
bool tl__dialect_uuid(tl_bytes text);
/** Is it a time from 2001-09 to ten years ahead? */
bool tl__dialect_likely(int64_t ms, int64_t now_ms);
/** The number's part of the text; n 0: there is none, or what stands beside it is nobody's name. */
tl_bytes tl__dialect_number(const tl_dialect *dialect, tl_bytes text);

/* ---- for showing ------------------------------------------------------------------------------- */

/** The first dialect in which this is a GOOD stamp, or NULL. For showing only: clients of different
 *  dialects write the same text, and what is free in one may be held in another. */
const tl_dialect *tl__dialect_guess(tl_bytes text, int64_t now_ms);

/** Words for an oddity of a value that isn't GOOD in this dialect, for a person; NULL: none known.
 *  Not told from any other: a stamp of when its lock was acquired rather than of when it ends, since
 *  that is a time like another. */
const char *tl__dialect_oddity(const tl_dialect *dialect, tl_bytes text, int64_t now_ms);

/** Is it odd in a way that only a lock's stamp is: a time that was written badly? Then there is an
 *  oddity too. */
bool tl__dialect_is_accident(const tl_dialect *dialect, tl_bytes text, int64_t now_ms);
