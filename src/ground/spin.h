/*
 * Waiting for a reply without sleeping (spinning): when it pays. To sleep and be woken costs more time than a
 * nearby server needs for a reply. With a distant server, spinning is wasted.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#define TL_SPIN_NS INT64_C(50000) /**< spin no longer than this */
#define TL_SPINNERS_MAX 4         /**< callers of one client that spin at the same time, at most */
#define TL_SPIN_REST_MAX 1024     /**< after at most this many replies, spin again */

/** The experience of a connection so far. Zeroed: none. */
typedef struct {
    uint16_t rest; /**< replies to sleep for before spinning is tried again */
    uint16_t miss; /**< length of the last rest: doubled by a miss, halved by a hit; 0: none yet */
} tl_spin;

/** How long to spin for the next reply, ns; 0: sleep at once. `others`: callers that spin at present. */
int64_t tl__spin_ns(tl_spin *spin, unsigned others);

/** Record whether the reply arrived while the caller spun. */
void tl__spin_learn(tl_spin *spin, bool there);
