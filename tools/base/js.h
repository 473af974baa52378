/*
 * JSON, by jansson: what is written is one line of UTF-8, what is read is bounded. A function that makes
 * a value returns NULL when memory runs out. A function that gets such a NULL returns NULL too, and js_line
 * fails at the end.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jansson.h>

#include "wire/interval.h"

/* ---- writing -------------------------------------------------------------------------------- */

/** A string, or null for NULL. A byte that is not UTF-8 becomes the character of its number. */
json_t *js_text(const char *text);
json_t *js_bytes(const char *text, size_t len);

/** The number, or null when it is less than 0. */
json_t *js_known(int64_t value);

/** {"lo":…,"hi":…} of an interval in thousandths of the unit, or null. Beyond 1e15 (as us: 31 years)
 *  the edges are moved out to whole units. */
json_t *js_interval(bool known, tl_interval thousandths);

/** Add the value to a list or object, which then owns it. *to becomes NULL on failure. */
void js_append(json_t **to, json_t *value);
void js_set(json_t **to, const char *name, json_t *value);

/** Compact text of the value, for free(); frees the value. NULL: out of memory. */
char *js_dump(json_t *value);

/** Write the value to fd as one line, and free it. Returns 0, or -1 and errno. */
int js_line(json_t *value, int fd);

/** Write a list or object to a stream, in ASCII, and free it; with JSON_EMBED without its brackets, so that
 *  a large document can be written in parts. A NULL writes nothing, so the document is then not valid JSON. */
void js_put(json_t *value, size_t flags, FILE *out);

/* ---- reading -------------------------------------------------------------------------------- */

#define JS_DEPTH_MOST 16
#define JS_VALUES_MOST 500000

/** Read one value with nothing but spaces behind it, to be freed by json_decref. NULL, and why: it is not
 *  JSON, names a member twice, holds a zero character, is nested too deep or has too many values, or there
 *  is no memory. */
json_t *js_read(const char *text, size_t len, const char **ret_why);

/** A C string of printable ASCII: '?' replaces every other character. False: not a string, or it does not fit. */
bool js_copy(const json_t *value, char *to, size_t size);

/** Is it exactly this string? */
bool js_is(const json_t *value, const char *text);

/** A whole number of thousandths: 1.25 is 1250. False: not a number, or not a multiple of a thousandth. */
bool js_thousandths(const json_t *value, int64_t *ret);
