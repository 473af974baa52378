/*
 * A reader of JSON, for lines that we have written ourselves and that anything may have happened to. It
 * accepts what RFC 8259 does, up to a depth and a number of values. Pure but for memory.
 */
#ifndef TIDELOCK_JSONIN_H
#define TIDELOCK_JSONIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define JSON_DEPTH_MOST 16
#define JSON_VALUES_MOST 500000

typedef enum { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_TEXT, JSON_LIST, JSON_OBJECT } json_kind;

typedef struct json_value {
    json_kind kind;
    const char
        *text; /**< as it stands: of a TEXT what is between the quotes, of a BOOL true or false */
    size_t len;
    const char *name; /**< of a member, between its quotes */
    size_t name_len;
    size_t first, next; /**< numbers of values; 0: none */
} json_value;

typedef struct {
    json_value *value; /**< [0] is the whole */
    size_t count, room;
} json_tree;

/** Read one value with nothing behind it but spaces. The tree points into the text. It may be used again
 *  for another. False: it is not JSON, or too deep or too much, or there is no memory. */
bool json_read(json_tree *t, const char *text, size_t len);
void json_forget(json_tree *t);

/** The first of a list or object, the next of its neighbours, a member by its name, which is plain
 *  ASCII; NULL where there is none. */
const json_value *json_first(const json_tree *t, const json_value *v);
const json_value *json_next(const json_tree *t, const json_value *v);
const json_value *json_member_of(const json_tree *t, const json_value *v, const char *name);

/** A TEXT as a C string, of printable ASCII: whatever else is in it is '?'. False: it does not fit. */
bool json_copy(const json_value *v, char *to, size_t size);

/** A NUMBER without an exponent, times 10 to the power of `decimals` (0 to 6), whole: 1.25 with 3 is 1250.
 *  More decimals than that, or too large: false. */
bool json_scaled(const json_value *v, int decimals, int64_t *ret);

/** Is the TEXT exactly this? */
bool json_is(const json_value *v, const char *text);

#endif
