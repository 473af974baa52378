/*
 * Random commands for a server of either kind: few keys, many collisions, hostile values, and a
 * mistake now and then. All of it follows from the seed.
 */
#pragma once

#include "ground/bytes.h"

#define FAKE_ORDER_MAX 24

/** How the replies of two servers are to be compared. */
typedef enum {
    FAKE_LIKE_EXACT,
    FAKE_LIKE_SECONDS, /**< numbers may differ by the time between the two */
    FAKE_LIKE_TIMES,   /**< the same in milliseconds, and microseconds where they are that large */
    FAKE_LIKE_ANY_ORDER, /**< an array in any order */
    FAKE_LIKE_ANY_PAIRS, /**< an array of pairs in any order */
} fake_likeness;

/** A command. It may point into itself: don't copy. */
typedef struct {
    fake_likeness like;
    size_t argc;
    tl_bytes argv[FAKE_ORDER_MAX];
    char name[24];
} fake_order;

typedef struct {
    uint64_t state;
} fake_workload;

fake_workload fake_workload_seeded(uint64_t seed);

/** 0 .. below - 1 */
uint64_t fake_workload_draw(fake_workload *w, uint64_t below);

/** Any command. */
void fake_workload_next(fake_workload *w, fake_order *ret);

/** EVAL of script `i` with random keys and arguments; i below fake_workload_scripts(). */
void fake_workload_script(fake_workload *w, size_t i, fake_order *ret);
size_t fake_workload_scripts(void);

/** Words, of which %k %f %v %i … are drawn; the list of them is in the source. */
void fake_workload_words(fake_workload *w, const char *words, fake_order *ret);
