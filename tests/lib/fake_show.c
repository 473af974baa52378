/*
 * Replies as lines for people.
 */
#include "fake_show.h"

#include <stdarg.h>
#include <stdio.h>

#define DEEPEST 50

typedef struct {
    char *p;
    size_t n;
} page;

__attribute__((format(printf, 2, 3))) static void put(page *to, const char *format, ...) {
    va_list args;
    va_start(args, format);
    size_t room = FAKE_SHOW_SIZE - to->n;
    int n = vsnprintf(to->p + to->n, room, format, args);
    va_end(args);
    if (n > 0) {
        to->n = (size_t)n < room ? to->n + (size_t)n : FAKE_SHOW_SIZE - 1;
    }
}

static void put_bytes(page *to, char mark, tl_bytes text) {
    put(to, "%c", mark);
    for (size_t i = 0; i < text.n; i++) {
        unsigned char a = (unsigned char)text.p[i];
        put(to, a >= ' ' && a <= '~' ? "%c" : "\\x%02x", a);
    }
}

static void show(page *to, const tl_reply *r, int depth) {
    switch (r->type) {
    case TL_REPLY_NIL: put(to, "nil"); return;
    case TL_REPLY_INT: put(to, ":%lld", (long long)r->integer); return;
    case TL_REPLY_STRING: put_bytes(to, '$', r->text); return;
    case TL_REPLY_STATUS: put_bytes(to, '+', r->text); return;
    case TL_REPLY_ERROR: put_bytes(to, '-', r->text); return;
    case TL_REPLY_ARRAY: break;
    }
    put(to, "[");
    for (size_t i = 0; i < r->count && depth < DEEPEST; i++) {
        put(to, "%s", i ? " " : "");
        show(to, &r->items[i], depth + 1);
    }
    put(to, "]");
}

const char *fake_show(const tl_reply *reply, char text[FAKE_SHOW_SIZE]) {
    static const char more[] = "…";
    page to = {.p = text};
    if (reply) {
        show(&to, reply, 0);
    } else {
        put(&to, "pushed");
    }
    if (to.n == FAKE_SHOW_SIZE - 1) {
        memcpy(text + FAKE_SHOW_SIZE - sizeof(more), more, sizeof(more));
    }
    return text;
}
