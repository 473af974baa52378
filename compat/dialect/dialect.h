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
    TL_SHAPE_NUMBER_ID, /**< the number, a separator, the writer's ID */
    TL_SHAPE_ID_NUMBER  /**< the writer's ID, a separator, the number */
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
    bool whole_readers;     /**< REAL: some readers use whole seconds, rounded down */
    /** Some writers round down what other readers don't: a stamp ends up to so much before its writer's
     *  clock plus its lifetime. Where all readers round as the writers do, or plus_ms covers it: 0. */
    int16_t early_ms;
    const char *eternal[2]; /**< texts that mean: never expires */
} tl_dialect;

typedef enum {
    TL_STAMP_GOOD,
    TL_STAMP_ETERNAL, /**< the dialect's text for: never expires */
    /** a number, but not a time from 2001-09 to ten years ahead in this dialect */
    TL_STAMP_UNLIKELY,
    TL_STAMP_NOT_A_STAMP /**< anything else: a token, text, nothing */
} tl_stamp_kind;

/** A stamp that was read. Only GOOD stamps have times. */
typedef struct {
    tl_stamp_kind kind;
    int64_t end_ms;        /**< before this, by its own clock, no reader calls it expired */
    int64_t first_free_ms; /**< from this on, every reader calls it expired */
    int64_t written_ms;    /**< end_ms minus plus_ms: the writer's clock plus the lifetime */
} tl_stamp;

/** The dialect of that name; NULL: none. */
const tl_dialect *tl__dialect_find(tl_bytes name);
/** The i-th dialect, from 0; NULL after the last. The first is the default, `java`. */
const tl_dialect *tl__dialect_at(unsigned i);

/** Read what a key holds. now_ms: an approximate time, to judge which times are likely. */
tl_stamp tl__dialect_read(const tl_dialect *dialect, tl_bytes text, int64_t now_ms);

/** Write a stamp of a lock that ends at end_ms: before that no reader calls it expired. `id`: the
 *  writer, for dialects that name it. The text is in `to`. */
tl_bytes tl__dialect_write(const tl_dialect *dialect, int64_t end_ms, tl_bytes id,
                           char to[TL_STAMP_SIZE]);

/* ---- parts ------------------------------------------------------------------------------------- */

/** A stamp that ends later than this from now is not likely. */
#define TL_STAMP_AHEAD_MS (INT64_C(3653) * 86400000)

static inline bool tl__is_digit(char c) {
    return c >= '0' && c <= '9';
}

/** Read digits as a program writes them. False: no digits, anything else, or a number that is too
 *  large. */
bool tl__dialect_whole(tl_bytes text, int64_t *ret);
bool tl__dialect_uuid(tl_bytes text);
/** Is it a time from 2001-09 to ten years ahead? */
bool tl__dialect_likely(int64_t ms, int64_t now_ms);
/** The part of the text with the number. n 0: none, or the part beside it can't be a writer's
 *  ID. */
tl_bytes tl__dialect_number(const tl_dialect *dialect, tl_bytes text);

/* ---- for showing ------------------------------------------------------------------------------- */

/** The first dialect in which this is a GOOD stamp, or NULL. For display only: clients of different
 *  dialects write the same text, and a lock that is free in one may be held in another. */
const tl_dialect *tl__dialect_guess(tl_bytes text, int64_t now_ms);

/** A message about what is odd in a value that isn't GOOD in this dialect; NULL: nothing known. A
 *  stamp that holds the time of the acquire instead of the end can't be recognised: it is a valid
 *  time. */
const char *tl__dialect_oddity(const tl_dialect *dialect, tl_bytes text, int64_t now_ms);

/** Is it odd as only a lock's stamp can be: a badly written time? Then there is an oddity, too. */
bool tl__dialect_is_accident(const tl_dialect *dialect, tl_bytes text, int64_t now_ms);
