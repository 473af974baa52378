/*
 * One JSON object, or an array of them, on one line, built in memory and written at once.
 */
#ifndef TIDELOCK_JSONOUT_H
#define TIDELOCK_JSONOUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

typedef struct {
    FILE *out; /**< in memory; NULL when there was none to be had */
    char *text;
    size_t len;
    bool comma; /**< the next member needs one before it */
} json;

void json_begin(json *j);

/** Members. A NULL text is null. Bytes that are no UTF-8 stand as \u00XX, one for each byte. */
void json_text(json *j, const char *name, const char *value);
void json_int(json *j, const char *name, int64_t value);
void json_null(json *j, const char *name);
void json_bool(json *j, const char *name, bool value);
/** A text that may hold zero bytes too; there is one more behind it. */
void json_bytes(json *j, const char *name, const char *value, size_t len);
/** The number, or null when it is less than 0. */
void json_known(json *j, const char *name, int64_t value);
/** An object as a member, up to json_close. */
void json_open(json *j, const char *name);
void json_close(json *j);

/** An array of objects as a member, each from json_item to json_close, up to json_close_list. */
void json_open_list(json *j, const char *name);
void json_close_list(json *j);

/** Instead of json_begin: an array of objects, each from json_item to json_close. */
void json_begin_list(json *j);
void json_item(json *j);
/** Instead of json_end. */
int json_end_list(json *j, int fd);

/** End the line, write it to fd, and free. Returns 0, or -1 and errno. */
int json_end(json *j, int fd);

/** Instead of json_end: the object's text without an end of line, to be freed; NULL: no memory. */
char *json_take(json *j);

#endif
