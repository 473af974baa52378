/*
 * Tasks that jansson leaves to its caller: bytes that are not UTF-8, intervals whose rounding hides no difference, and
 * bounds on the cost of a hostile text.
 */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "ground/guard.h"

#define FORM (JSON_COMPACT | JSON_ENCODE_ANY | JSON_REAL_PRECISION(15))
#define EXACT INT64_C(1000000000000000) /* thousandths that 15 digits represent exactly */

/* ---- making values -------------------------------------------------------------------------- */

/* Length of the UTF-8 sequence that starts here; 0: none starts here. */
static size_t sequence(const char *text, size_t len) {
    for (size_t n = 1; n <= 4 && n <= len; n++) {
        json_t *one = json_stringn(text, n);
        if (one) {
            json_decref(one);
            return n;
        }
    }
    return 0;
}

json_t *js_bytes(const char *text, size_t len) {
    json_t *plain = json_stringn(text, len);
    char *utf8 = plain ? NULL : malloc(2 * len + 1);
    size_t n = 0, used;

    if (!utf8)
        return plain;
    for (size_t i = 0; i < len; i += used) {
        used = sequence(text + i, len - i);
        if (used) {
            memcpy(utf8 + n, text + i, used);
            n += used;
        } else {
            unsigned char c = (unsigned char)text[i];
            utf8[n++] = (char)(0xc0 | c >> 6);
            utf8[n++] = (char)(0x80 | (c & 0x3f));
            used = 1;
        }
    }
    plain = json_stringn(utf8, n);
    free(utf8);
    return plain;
}

json_t *js_text(const char *text) {
    return text ? js_bytes(text, strlen(text)) : json_null();
}

json_t *js_known(int64_t value) {
    return value < 0 ? json_null() : json_integer(value);
}

static double unit(int64_t thousandths, bool up) {
    int64_t whole = thousandths / 1000, rest = thousandths % 1000;

    if (llabs(thousandths) < EXACT || !GUARD(json_edges_outward))
        return (double)thousandths / 1000;
    return (double)(whole + (up && rest > 0) - (!up && rest < 0));
}

json_t *js_interval(bool known, tl_interval thousandths) {
    if (!known)
        return json_null();
    return json_pack("{s:f, s:f}", "lo", unit(thousandths.lo, false), "hi",
                     unit(thousandths.hi, true));
}

void js_append(json_t **to, json_t *value) {
    if (json_array_append_new(*to, value) == 0 || !GUARD(json_is_whole))
        return;
    json_decref(*to);
    *to = NULL;
}

void js_set(json_t **to, const char *name, json_t *value) {
    if (json_object_set_new(*to, name, value) == 0 || !GUARD(json_is_whole))
        return;
    json_decref(*to);
    *to = NULL;
}

/* ---- a line --------------------------------------------------------------------------------- */

static int write_all(int fd, const char *text, size_t len) {
    while (len > 0) {
        ssize_t n = write(fd, text, len);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        text += n;
        len -= (size_t)n;
    }
    return 0;
}

/* U+0080 to U+009F: terminals interpret these as commands. */
static bool has_controls(const char *utf8) {
    while ((utf8 = strchr(utf8, 0xc2)) != NULL)
        if ((unsigned char)*++utf8 < 0xa0)
            return true;
    return false;
}

char *js_dump(json_t *value) {
    char *text = json_dumps(value, FORM);

    json_decref(value);
    return text;
}

int js_line(json_t *value, int fd) {
    char *text = json_dumps(value, FORM);
    int result = -1, saved;

    if (GUARD(json_controls_no_terminal) && text && has_controls(text)) {
        free(text);
        text = json_dumps(value, FORM | JSON_ENSURE_ASCII);
    }
    json_decref(value);
    errno = ENOMEM;
    if (text) {
        size_t len = strlen(text);
        text[len] = '\n'; /* instead of its end, so that it is one write */
        result = write_all(fd, text, len + 1);
    }
    saved = errno;
    free(text);
    errno = saved;
    return result;
}

/* json_dumpf writes each comma by itself. */
void js_put(json_t *value, size_t flags, FILE *out) {
    char small[1024];
    size_t len = json_dumpb(value, small, sizeof small, FORM | JSON_ENSURE_ASCII | flags);

    if (len <= sizeof small)
        (void)fwrite(small, 1, len, out);
    else
        (void)json_dumpf(value, out, FORM | JSON_ENSURE_ASCII | flags);
    json_decref(value);
}

/* ---- reading -------------------------------------------------------------------------------- */

/* jansson accepts 2048 levels and any number of values, and a value may need a hundred times its bytes of text. So
 * brackets and commas are counted first. */
static const char *beyond_bounds(const char *text, size_t len) {
    size_t values = 1;
    int depth = 0;
    bool quoted = false;

    for (size_t i = 0; i < len; i++) {
        char c = text[i];
        if (quoted && c == '\\') {
            i++;
        } else if (c == '"') {
            quoted = !quoted;
        } else if (quoted) {
            continue;
        } else if (c == '[' || c == '{') {
            values++;
            if (++depth > JS_DEPTH_MOST && GUARD(json_depth))
                return "it is nested too deep";
        } else if (c == ']' || c == '}') {
            depth--;
        } else if (c == ',') {
            values++;
        }
        if (GUARD(json_values) && values > JS_VALUES_MOST)
            return "it has too many values";
    }
    return NULL;
}

json_t *js_read(const char *text, size_t len, const char **ret_why) {
    json_error_t error;
    json_t *value;

    *ret_why = beyond_bounds(text, len);
    if (*ret_why)
        return NULL;
    value = json_loadb(text, len,
                       (GUARD(json_members_once) ? JSON_REJECT_DUPLICATES : 0) | JSON_DECODE_ANY,
                       &error);
    if (value)
        return value;
    switch (json_error_code(&error)) {
    case json_error_duplicate_key: *ret_why = "it names a member twice"; break;
    case json_error_numeric_overflow: *ret_why = "it has a number that is too large"; break;
    case json_error_null_character: *ret_why = "it has a zero character"; break;
    default: *ret_why = "it is not JSON"; break;
    }
    return NULL;
}

bool js_copy(const json_t *value, char *to, size_t size) {
    const char *text = json_string_value(value);
    size_t n = 0;

    if (!text)
        return false;
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c >= 0x80 && c < 0xc0) /* within a character */
            continue;
        if (n + 1 >= size)
            return false;
        to[n++] = (char)(c < 0x20 || c > 0x7e ? '?' : c);
    }
    to[n] = '\0';
    return true;
}

bool js_is(const json_t *value, const char *text) {
    const char *is = json_string_value(value);
    return is && strcmp(is, text) == 0;
}

/* At most one multiple of a thousandth is equal to the number that jansson read. */
bool js_thousandths(const json_t *value, int64_t *ret) {
    if (json_is_integer(value))
        return !__builtin_mul_overflow(json_integer_value(value), INT64_C(1000), ret);
    double real = json_real_value(value), whole = trunc(real);
    if (!json_is_real(value) || fabs(real) > (double)INT64_MAX / 1001)
        return false;
    *ret = whole == real ? (int64_t)whole * 1000 : llround(real * 1000);
    /* stored, since an x87 would compare more digits than a double has */
    volatile double again = (double)*ret / 1000;
    return whole == real || !GUARD(json_edge_exact) || again == real;
}
