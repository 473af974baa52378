/*
 * Names of keys, and the globs that match them: which names belong together, and the pattern of a
 * family of names. Pure. A pattern is a proposal: it matches every name that was learned, and may
 * match others.
 */
#pragma once

#include "ground/bytes.h"

#define NAMES_HEAD 128
#define NAMES_TAIL 64
#define NAMES_PATTERN (4 * (NAMES_HEAD + NAMES_TAIL)) /**< each byte may need a backslash */
#define NAMES_FAMILY 96

/** The common parts of the names of a family. */
typedef struct {
    char head[NAMES_HEAD], tail[NAMES_TAIL];
    size_t head_n, tail_n;
    size_t shortest;
    int64_t count;
    bool alike; /**< so far all names are the same, and `head` has it whole */
} names;

/** The family of a name: its first one or two parts, with "*" for each that has a digit. Names of one
 *  family begin with the same words. Returns buf. */
const char *names_family(char buf[NAMES_FAMILY], tl_bytes name);

/** The parent of a family, "app:" of "app:lock:"; "" is the parent of all others. Returns buf. */
const char *names_parent(char buf[NAMES_FAMILY], const char *family);

void names_learn(names *all, tl_bytes name);
void names_merge(names *into, const names *other);

/** The glob of the names; "" if they have nothing in common, or there are none. Returns buf. */
const char *names_pattern(char buf[NAMES_PATTERN], const names *names);

/** Quote text as one word for a shell. Returns buf; "" if it doesn't fit. */
const char *names_quote(char *buf, size_t size, const char *text);
