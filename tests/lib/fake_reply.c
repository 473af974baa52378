/*
 * Replies of the fake server, built in a connection's arena, and the numbers in them.
 */
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"

#define CHUNK 4096

/* ---- arenas ---------------------------------------------------------------------------------- */

static fake_chunk *new_chunk(size_t room) {
    fake_chunk *chunk = fake__alloc(NULL, sizeof(*chunk) + room);
    chunk->next = NULL;
    chunk->room = room;
    chunk->used = 0;
    return chunk;
}

static void *get_slowly(fake_arena *arena, size_t size) {
    if (!arena->at) {
        arena->first = arena->at = new_chunk(size > CHUNK ? size : CHUNK);
    }
    while (arena->at->room - arena->at->used < size) {
        if (!arena->at->next) {
            size_t room = arena->at->room * 2;
            arena->at->next = new_chunk(size > room ? size : room);
        }
        arena->at = arena->at->next;
        arena->at->used = 0;
    }
    void *p = arena->at->bytes + arena->at->used;
    arena->at->used += size;
    return p;
}

void *fake__arena_get(fake_arena *arena, size_t size) {
    size = (size + 15) & ~(size_t)15;
    fake_chunk *at = arena->at;
    if (!at || at->room - at->used < size) {
        return get_slowly(arena, size);
    }
    void *p = at->bytes + at->used;
    at->used += size;
    return p;
}

tl_bytes fake__arena_copy(fake_arena *arena, tl_bytes from) {
    char *p = fake__arena_get(arena, from.n + 1);
    if (from.n) {
        memcpy(p, from.p, from.n);
    }
    p[from.n] = '\0';
    return tl__bytes(p, from.n);
}

fake_mark fake__arena_mark(fake_arena *arena) {
    fake__arena_get(arena, 0);
    return (fake_mark){arena->at, arena->at->used};
}

void fake__arena_back(fake_arena *arena, fake_mark mark) {
    arena->at = mark.at;
    arena->at->used = mark.used;
}

void fake__arena_reset(fake_arena *arena) {
    arena->at = arena->first;
    if (arena->at) {
        arena->at->used = 0;
    }
}

void fake__arena_free(fake_arena *arena) {
    for (fake_chunk *chunk = arena->first, *next; chunk; chunk = next) {
        next = chunk->next;
        free(chunk);
    }
    arena->first = arena->at = NULL;
}

/* ---- replies --------------------------------------------------------------------------------- */

void fake__nil(tl_reply *out) {
    *out = (tl_reply){.type = TL_REPLY_NIL};
}

void fake__int(tl_reply *out, int64_t v) {
    *out = (tl_reply){.type = TL_REPLY_INT, .integer = v};
}

void fake__static(tl_reply *out, tl_reply_type type, tl_bytes text) {
    *out = (tl_reply){.type = type, .text = text};
}

void fake__string(fake_conn *c, tl_reply *out, tl_bytes text) {
    *out = (tl_reply){.type = TL_REPLY_STRING, .text = fake__arena_copy(&c->arena, text)};
}

/* An error is one line: line ends become blanks, those at the end go. */
void fake__errorf(fake_conn *c, tl_reply *out, const char *format, ...) {
    va_list args;
    va_start(args, format);
    int n = vsnprintf(NULL, 0, format, args);
    va_end(args);
    char *p = fake__arena_get(&c->arena, (size_t)n + 1);
    va_start(args, format);
    vsnprintf(p, (size_t)n + 1, format, args);
    va_end(args);
    while (n > 0 && (p[n - 1] == '\n' || p[n - 1] == '\r')) {
        n--;
    }
    for (int i = 0; i < n; i++) {
        if (p[i] == '\n' || p[i] == '\r') {
            p[i] = ' ';
        }
    }
    *out = (tl_reply){.type = TL_REPLY_ERROR, .text = tl__bytes(p, (size_t)n)};
}

void fake__arity(fake_conn *c, tl_reply *out, const char *name) {
    fake__errorf(c, out, "ERR wrong number of arguments for '%s' command", name);
}

tl_reply *fake__array(fake_conn *c, tl_reply *out, size_t n) {
    tl_reply *items = fake__arena_get(&c->arena, n * sizeof(tl_reply));
    for (size_t i = 0; i < n; i++) {
        fake__nil(&items[i]);
    }
    *out = (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = n};
    return items;
}

void fake__double(fake_conn *c, tl_reply *out, double v) {
    char text[40];
    int n;
    if (isinf(v)) {
        n = snprintf(text, sizeof(text), "%s", v > 0 ? "inf" : "-inf");
    } else {
        n = snprintf(text, sizeof(text), "%.17g", v);
    }
    fake__string(c, out, tl__bytes(text, (size_t)n));
}

/* ---- numbers --------------------------------------------------------------------------------- */

bool fake__to_int(tl_bytes text, int64_t *ret) {
    if (text.n == 0 || text.n > 20) {
        return false;
    }
    if (text.n == 1 && text.p[0] == '0') {
        *ret = 0;
        return true;
    }
    bool negative = text.p[0] == '-';
    size_t i = negative;
    if (i == text.n || text.p[i] < '1' || text.p[i] > '9') {
        return false;
    }
    uint64_t v = 0;
    for (; i < text.n; i++) {
        unsigned digit = (unsigned char)text.p[i] - '0';
        if (digit > 9 || v > (UINT64_MAX - digit) / 10) {
            return false;
        }
        v = v * 10 + digit;
    }
    if (v > (uint64_t)INT64_MAX + negative) {
        return false;
    }
    *ret = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

tl_bytes fake__print_int(char *buffer, int64_t v) {
    char *p = buffer + TL_INT_SIZE;
    uint64_t rest = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
    do {
        *--p = (char)('0' + rest % 10);
        rest /= 10;
    } while (rest);
    if (v < 0) {
        *--p = '-';
    }
    return tl__bytes(p, (size_t)(buffer + TL_INT_SIZE - p));
}

bool fake__to_double(tl_bytes text, double *ret) {
    char copy[256];
    char *end;
    if (text.n == 0 || text.n >= sizeof(copy) || strchr(" \t\n\v\f\r", text.p[0])) {
        return false;
    }
    memcpy(copy, text.p, text.n);
    copy[text.n] = '\0';
    errno = 0;
    *ret = strtod(copy, &end);
    return end == copy + text.n && !isnan(*ret) &&
           !(errno == ERANGE && (fabs(*ret) == HUGE_VAL || *ret == 0));
}

bool fake__is(tl_bytes text, const char *word) {
    for (size_t i = 0; i < text.n; i++) {
        char a = text.p[i];
        if (a >= 'A' && a <= 'Z') {
            a = (char)(a - 'A' + 'a');
        }
        if (word[i] == '\0' || a != word[i]) {
            return false;
        }
    }
    return word[text.n] == '\0';
}
