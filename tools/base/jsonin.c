/*
 * A reader of JSON: first all of the line, strictly, into an array of values; then questions to it. A
 * depth and a number of values bound what a hostile line can cost.
 */
#include <stdlib.h>
#include <string.h>

#include "base/jsonin.h"

typedef struct {
    json_tree *tree;
    const char *at, *end;
    int depth;
} reader;

static bool read_value(reader *r, size_t *ret);

static void skip_spaces(reader *r) {
    while (r->at < r->end && (*r->at == ' ' || *r->at == '\t' || *r->at == '\n' || *r->at == '\r'))
        r->at++;
}

static bool eat(reader *r, char c) {
    skip_spaces(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

static bool add(reader *r, json_value v, size_t *ret) {
    json_tree *t = r->tree;

    if (t->count == JSON_VALUES_MOST)
        return false;
    if (t->count == t->room) {
        size_t room = t->room ? 2 * t->room : 256;
        json_value *value = realloc(t->value, room * sizeof *value);
        if (!value)
            return false;
        t->value = value;
        t->room = room;
    }
    *ret = t->count;
    t->value[t->count++] = v;
    return true;
}

/* ---- words -------------------------------------------------------------------------------------- */

static bool is_hex(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Behind the opening quote: up to the closing one. */
static bool read_quoted(reader *r, const char **ret, size_t *ret_len) {
    *ret = r->at;
    for (; r->at < r->end && *r->at != '"'; r->at++) {
        if ((unsigned char)*r->at < 0x20)
            return false;
        if (*r->at != '\\')
            continue;
        if (++r->at == r->end || !*r->at || !strchr("\"\\/bfnrtu", *r->at))
            return false;
        for (int i = 0; *r->at == 'u' && i < 4; i++)
            if (r->end - r->at <= i + 1 || !is_hex(r->at[i + 1]))
                return false;
    }
    if (r->at == r->end)
        return false;
    *ret_len = (size_t)(r->at++ - *ret);
    return true;
}

static size_t digits(reader *r) {
    const char *begin = r->at;
    while (r->at < r->end && *r->at >= '0' && *r->at <= '9')
        r->at++;
    return (size_t)(r->at - begin);
}

static bool next_is(const reader *r, const char *any) {
    return r->at < r->end && *r->at && strchr(any, *r->at);
}

static bool read_number(reader *r) {
    if (next_is(r, "-"))
        r->at++;
    bool zero = next_is(r, "0");
    size_t n = digits(r);
    if (n == 0 || (zero && n > 1))
        return false;
    if (next_is(r, ".")) {
        r->at++;
        if (digits(r) == 0)
            return false;
    }
    if (!next_is(r, "eE"))
        return true;
    r->at++;
    if (next_is(r, "+-"))
        r->at++;
    return digits(r) > 0;
}

static bool read_word(reader *r, const char *word) {
    size_t n = strlen(word);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, word, n) != 0)
        return false;
    r->at += n;
    return true;
}

/* ---- lists and objects ----------------------------------------------------------------------------- */

static bool read_name(reader *r, const char **name, size_t *len) {
    return eat(r, '"') && read_quoted(r, name, len) && eat(r, ':');
}

/* Behind the opening bracket. */
static bool read_items(reader *r, size_t self, bool object) {
    char close = object ? '}' : ']';
    size_t last = 0;

    if (eat(r, close))
        return true;
    do {
        const char *name = NULL;
        size_t name_len = 0, item;
        if ((object && !read_name(r, &name, &name_len)) || !read_value(r, &item))
            return false;
        json_value *v = r->tree->value;
        v[item].name = name;
        v[item].name_len = name_len;
        *(last ? &v[last].next : &v[self].first) = item;
        last = item;
    } while (eat(r, ','));
    return eat(r, close);
}

static bool read_nested(reader *r, json_kind kind, size_t *ret) {
    if (r->depth == JSON_DEPTH_MOST || !add(r, (json_value){.kind = kind}, ret))
        return false;
    r->at++;
    r->depth++;
    bool ok = read_items(r, *ret, kind == JSON_OBJECT);
    r->depth--;
    return ok;
}

static bool read_value(reader *r, size_t *ret) {
    json_value v = {.kind = JSON_NULL};
    bool ok;

    skip_spaces(r);
    if (r->at == r->end)
        return false;
    if (*r->at == '{' || *r->at == '[')
        return read_nested(r, *r->at == '{' ? JSON_OBJECT : JSON_LIST, ret);
    v.text = r->at;
    if (*r->at == '"') {
        v.kind = JSON_TEXT;
        r->at++;
        return read_quoted(r, &v.text, &v.len) && add(r, v, ret);
    }
    if (*r->at == 'n') {
        ok = read_word(r, "null");
    } else if (*r->at == 't' || *r->at == 'f') {
        v.kind = JSON_BOOL;
        ok = read_word(r, *r->at == 't' ? "true" : "false");
    } else {
        v.kind = JSON_NUMBER;
        ok = read_number(r);
    }
    v.len = (size_t)(r->at - v.text);
    return ok && add(r, v, ret);
}

bool json_read(json_tree *t, const char *text, size_t len) {
    reader r = {.tree = t, .at = text, .end = text + len};
    size_t whole;

    t->count = 0;
    if (!read_value(&r, &whole))
        return false;
    skip_spaces(&r);
    return r.at == r.end;
}

void json_forget(json_tree *t) {
    free(t->value);
    *t = (json_tree){.value = NULL};
}

/* ---- questions ---------------------------------------------------------------------------------- */

const json_value *json_first(const json_tree *t, const json_value *v) {
    return v && v->first ? &t->value[v->first] : NULL;
}

const json_value *json_next(const json_tree *t, const json_value *v) {
    return v && v->next ? &t->value[v->next] : NULL;
}

const json_value *json_member_of(const json_tree *t, const json_value *v, const char *name) {
    size_t n = strlen(name);

    if (!v || v->kind != JSON_OBJECT)
        return NULL;
    for (const json_value *m = json_first(t, v); m; m = json_next(t, m))
        if (m->name_len == n && memcmp(m->name, name, n) == 0)
            return m;
    return NULL;
}

static unsigned long point_of(const char *hex) {
    char digit[5] = "";
    memcpy(digit, hex, 4);
    return strtoul(digit, NULL, 16);
}

/* The character behind a backslash, for people. */
static char unescaped(const char *c, size_t *ret_used) {
    *ret_used = 2;
    if (c[1] == '"' || c[1] == '\\' || c[1] == '/')
        return c[1];
    if (c[1] != 'u')
        return '?';
    *ret_used = 6;
    unsigned long point = point_of(c + 2);
    return (char)(point < 0x20 || point > 0x7e ? '?' : point);
}

bool json_copy(const json_value *v, char *to, size_t size) {
    size_t n = 0, used;

    if (!v || v->kind != JSON_TEXT)
        return false;
    for (size_t i = 0; i < v->len; i += used, n++) {
        const char *c = v->text + i;
        if (n + 1 >= size)
            return false;
        used = 1;
        if (*c == '\\')
            to[n] = unescaped(c, &used);
        else
            to[n] = (char)((unsigned char)*c > 0x7e ? '?' : *c);
    }
    to[n] = '\0';
    return true;
}

bool json_scaled(const json_value *v, int decimals, int64_t *ret) {
    bool minus, point = false;
    int64_t n = 0;

    if (!v || v->kind != JSON_NUMBER)
        return false;
    minus = *v->text == '-';
    for (size_t i = minus; i < v->len; i++) {
        char c = v->text[i];
        if (c == '.' && !point) {
            point = true;
            continue;
        }
        if (c < '0' || c > '9' || (point && --decimals < 0) || n > (INT64_MAX - 9) / 10)
            return false;
        n = n * 10 + (c - '0');
    }
    for (; decimals > 0; decimals--) {
        if (n > INT64_MAX / 10)
            return false;
        n *= 10;
    }
    *ret = minus ? -n : n;
    return true;
}

bool json_is(const json_value *v, const char *text) {
    size_t n = strlen(text);
    return v && v->kind == JSON_TEXT && v->len == n && memcmp(v->text, text, n) == 0;
}
