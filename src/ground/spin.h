/*
 * Waiting for an answer without sleeping: whether it pays. To sleep and be woken costs more than what
 * a near server needs for an answer; where the server is far, looking again and again is wasted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TL_SPIN_NS INT64_C(50000) /**< no longer than this */
#define TL_SPINNERS_MAX 4         /**< no more callers of a client at a time */
#define TL_SPIN_REST_MAX 1024     /**< try again after so many answers at the latest */

/** What a connection has learned. Zeroed: nothing. */
typedef struct {
    uint16_t rest; /**< answers to sleep for, before it is tried again */
    uint16_t miss; /**< how many that will be after the next that comes too late; 0 as 1 */
} tl_spin;

/** How long to look for the next answer, ns; 0: sleep at once. `others` do so at present. */
int64_t tl__spin_ns(tl_spin *spin, unsigned others);

/** Was the answer there in that time? */
void tl__spin_learn(tl_spin *spin, bool there);
