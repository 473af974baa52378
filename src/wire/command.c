/*
 * Formats the bytes of a command. It knows nothing of what commands mean.
 */
#include "wire/command.h"

typedef struct {
    char *to;
    size_t size, used;
} writer;

static void put(writer *to, tl_bytes b) {
    if (b.n > 0 && b.n <= to->size && to->used <= to->size - b.n)
        memcpy(to->to + to->used, b.p, b.n);
    to->used += b.n;
}

#define SHORT 99      /* a count, or the bytes of an argument, that has at most two digits, */
#define SHORT_EXTRA 7 /* the bytes that RESP puts around such an argument, */
#define COUNT_EXTRA 5 /* and those of such a count */

static char *put_short_count(char *p, char kind, size_t n) {
    *p++ = kind;
    if (n > 9)
        *p++ = (char)('0' + n / 10);
    *p++ = (char)('0' + n % 10);
    *p++ = '\r';
    *p++ = '\n';
    return p;
}

static void put_count(writer *to, char kind, size_t n) {
    char text[TL_INT_SIZE];
    if (n <= SHORT && to->used < to->size && to->size - to->used >= COUNT_EXTRA) {
        to->used = (size_t)(put_short_count(to->to + to->used, kind, n) - to->to);
        return;
    }
    put(to, tl__bytes(&kind, 1));
    put(to, tl__bytes_from_int(text, (int64_t)n));
    put(to, TL_LITERAL("\r\n"));
}

/* The fast path for short arguments: a renewal sends the names and tokens of very many locks. */
static void put_short(writer *to, tl_bytes b) {
    char *p = put_short_count(to->to + to->used, '$', b.n);
    if (b.n > 0)
        memcpy(p, b.p, b.n);
    p += b.n;
    *p++ = '\r';
    *p++ = '\n';
    to->used = (size_t)(p - to->to);
}

static void put_bulk(writer *to, tl_bytes b) {
    if (b.n <= SHORT && to->used < to->size && to->size - to->used >= b.n + SHORT_EXTRA) {
        put_short(to, b);
        return;
    }
    put_count(to, '$', b.n);
    put(to, b);
    put(to, TL_LITERAL("\r\n"));
}

size_t tl__command_encode(const tl_command *command, int by_text, char *to, size_t size) {
    writer w = {to, size, 0};
    if (command->form == TL_SCRIPT) {
        char keys[TL_INT_SIZE];
        tl_script script = (tl_script)command->script;
        put_count(&w, '*', command->argc + (size_t)command->more_argc + 3);
        put_bulk(&w, by_text ? TL_LITERAL("EVAL") : TL_LITERAL("EVALSHA"));
        put_bulk(&w, by_text ? tl__script_text(script) : tl__script_sha1(script));
        put_bulk(&w, tl__bytes_from_int(keys, command->nkeys));
    } else {
        put_count(&w, '*', command->argc + (size_t)command->more_argc);
    }
    for (size_t i = 0; i < command->argc; i++)
        put_bulk(&w, command->argv[i]);
    put(&w, command->more);
    return w.used;
}

size_t tl__argument_encode(tl_bytes argument, char *to, size_t size) {
    writer w = {to, size, 0};
    put_bulk(&w, argument);
    return w.used;
}
