/*
 * Hosts' names where there is little room: ".." stands for the domain that most are in, and for the
 * middle; two that are different look different. Pure but for memory.
 */
#pragma once

#include "skew/judge/skew_judge.h"

typedef struct {
    const skew_result *result;
    const char *suffix; /**< a domain that most of them are in, and that is left out; NULL: none */
    size_t width;       /**< 0: no limit */
    size_t head;        /**< of a name that is too long, so many bytes from its beginning */
    bool alike;         /**< some can't be told from each other like that: they get their number */
} skew_names;

/** Names of so many characters at most (8 at least); 0: as they are. */
skew_names skew_names_in(const skew_result *result, int width);

/** The name of the result's host i. Returns buf. */
const char *skew_name_of(const skew_names *names, int i, char buf[SKEW_NAME_SIZE]);

/** The longest, as it is shown; at least least. */
int skew_names_longest(const skew_names *names, int least);
