/*
 * Are the replies of two servers alike, as far as can be asked?
 */
#pragma once

#include "fake_workload.h"
#include "wire/reply.h"

#define FAKE_ALIKE_LATE_MS 20000 /**< how far apart in time the two may have executed the command */
#define FAKE_ALIKE_ITEMS_MAX 512 /**< of an array in any order */

typedef struct {
    fake_likeness like;
    /** The array is EXEC's, and its items are to be compared as each of these asks. NULL: not. */
    const fake_likeness *items;
    size_t count;
} fake_alikeness;

bool fake_alike(const fake_alikeness *how, const tl_reply *a, const tl_reply *b);
