/*
 * Short forms of hosts' names: ".." stands for the domain that most hosts share, and for the middle
 * of a name. Different names get different forms. Pure except for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

typedef struct {
    const skew_result *result;
    const char *suffix; /**< the domain that most hosts share, which is left out; NULL: none */
    size_t width;       /**< 0: no limit */
    size_t head;        /**< bytes kept from the beginning of a name that is too long */
    bool alike;         /**< some forms would be the same: these names get their number */
} skew_names;

/** Names of at most `width` characters (at least 8); 0: unshortened. */
skew_names skew_names_in(const skew_result *result, int width);

/** The name of the result's host i. Returns buf. */
const char *skew_name_of(const skew_names *names, int i, char buf[SKEW_NAME_SIZE]);

/** The length of the longest form; at least `least`. */
int skew_names_longest(const skew_names *names, int least);
