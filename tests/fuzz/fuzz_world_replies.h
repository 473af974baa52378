/*
 * Replies out of the input: of any shape, and of the shape of each script with something odd in it.
 */
#pragma once

#include "fuzz_world_stamps.h"

#define DEPTH_MAX 7
#define ITEMS_MAX 12

static inline tl_reply *new_nodes(fuzz_world *w, size_t n) {
    if (w->nodes_used + n > NODES_MAX)
        return NULL;
    w->nodes_used += n;
    return &w->nodes[w->nodes_used - n];
}

static inline tl_reply digits(fuzz_world *w, int64_t v) {
    tl_reply *node = new_nodes(w, 1);
    if (!node)
        return (tl_reply){.type = TL_REPLY_NIL};
    return (tl_reply){.type = TL_REPLY_STRING,
                      .text = tl__bytes_from_int(w->texts[node - w->nodes], v)};
}

static inline tl_reply number(int64_t v) {
    return (tl_reply){.type = TL_REPLY_INT, .integer = v};
}

static inline tl_reply any_reply(fuzz_world *w, unsigned depth) {
    tl_reply r = {.type = TL_REPLY_NIL};
    uint8_t what = in_byte(&w->in) % 8;
    switch (what) {
    case 1:
    case 2: return number(in_int(&w->in));
    case 3: return digits(w, in_int(&w->in));
    case 4:
    case 5:
    case 6:
        r.type = what == 4 ? TL_REPLY_STRING : what == 5 ? TL_REPLY_STATUS : TL_REPLY_ERROR;
        r.text = in_bytes(&w->in, 64);
        return r;
    case 7: break;
    default: return r;
    }
    size_t n = in_byte(&w->in) % (ITEMS_MAX + 1);
    tl_reply *items = depth < DEPTH_MAX ? new_nodes(w, n) : NULL;
    for (size_t i = 0; items && i < n; i++)
        items[i] = any_reply(w, depth + 1);
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = items ? n : 0};
}

static inline tl_reply value(fuzz_world *w) {
#ifdef TL_COMPAT
    if (w->stamps)
        return any_value(w);
#endif
    return (tl_reply){.type = TL_REPLY_STRING, .text = in_bytes(&w->in, 40)};
}

/* What a script answers, letter by letter: s status, v a value, l what is left, f a fence, t TIME
 * (two items), b a flag, n nothing, 2 the time since, [ the rest within an array. */
static inline tl_reply shaped(fuzz_world *w, const char *shape) {
    size_t n = strlen(shape) + (strchr(shape, 't') != NULL), at = 0;
    int64_t us = tl__add_sat(w->offset_us, w->now.ns / 1000);
    tl_reply *items = new_nodes(w, n);
    if (!items)
        return (tl_reply){.type = TL_REPLY_NIL};
    for (const char *c = shape; *c; c++) {
        switch (*c) {
        case 's': items[at++] = number(in_byte(&w->in) % 8 - 5); break;
        case 'v': items[at++] = value(w); break;
        case 'l': items[at++] = number(in_int(&w->in)); break;
        case 'f': items[at++] = digits(w, in_int(&w->in)); break;
        case 't':
            items[at++] = digits(w, us / 1000000);
            items[at++] = digits(w, us % 1000000);
            break;
        case 'b': items[at++] = number(in_byte(&w->in) & 1); break;
        case '[':
            items[at++] = shaped(w, c + 1);
            c += strlen(c) - 1;
            break;
        default: items[at++] = (tl_reply){.type = TL_REPLY_NIL};
        }
    }
    uint8_t odd = in_byte(&w->in);
    if (odd > 0 && odd <= at)
        items[odd - 1] = any_reply(w, 1);
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = at};
}

static inline tl_reply status_reply(const char *text) {
    return (tl_reply){.type = TL_REPLY_STATUS, .text = tl__bytes_of(text)};
}

/* What SET, INCR and HMGET S token until fence line bring: mostly K, a number of now, and nothing of S. */
static inline tl_reply exec_reply(fuzz_world *w) {
    uint8_t how = in_byte(&w->in);
    int64_t us = tl__add_sat(w->offset_us, w->now.ns / 1000);
    tl_reply *items = new_nodes(w, 3), *s = items ? new_nodes(w, 4) : NULL;
    if (!s)
        return (tl_reply){.type = TL_REPLY_NIL};
    items[0] = status_reply("OK");
    if (how & 1)
        items[0] = (tl_reply){.type = TL_REPLY_NIL};
    items[1] = number(how & 2 ? in_int(&w->in) : us);
    for (size_t i = 0; i < 4; i++)
        s[i] = (tl_reply){.type = TL_REPLY_NIL};
    if ((how & 4) && (how & 0x80))
        s[0] = value(w);
    else if (how & 4)
        s[0] = (tl_reply){.type = TL_REPLY_STRING, .text = tl__token_bytes(&w->job.token)};
    if (how & 8)
        s[1] = digits(w, tl__add_sat(us, in_int(&w->in)));
    if (how & 16)
        s[2] = digits(w, tl__add_sat(us, in_int(&w->in)));
    if (how & 32)
        s[3] = (tl_reply){.type = TL_REPLY_STRING, .text = in_bytes(&w->in, 8)};
    items[2] = (tl_reply){.type = TL_REPLY_ARRAY, .items = s, .count = 4};
    if (how & 64)
        items[in_byte(&w->in) % 3] = any_reply(w, 1);
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = 3};
}

static inline tl_reply waitaof_reply(fuzz_world *w) {
    static tl_reply items[2];
    items[0] = number(in_byte(&w->in) & 1);
    items[1] = number(in_int(&w->in));
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = 2};
}

static inline tl_reply native_reply(fuzz_world *w, const tl_command *c) {
    if (in_byte(&w->in) % 8 == 7)
        return any_reply(w, 0);
    if (tl__bytes_eq(c->argv[0], TL_LITERAL("EXEC")))
        return exec_reply(w);
    if (tl__bytes_eq(c->argv[0], TL_LITERAL("WAIT")))
        return number(in_int(&w->in));
    if (tl__bytes_eq(c->argv[0], TL_LITERAL("WAITAOF")))
        return waitaof_reply(w);
    return status_reply(tl__bytes_eq(c->argv[0], TL_LITERAL("MULTI")) ? "OK" : "QUEUED");
}

static inline tl_reply reply_to(fuzz_world *w, const tl_command *c) {
    static const char *const shapes[TL_SCRIPTS] = {[TL_SCRIPT_ACQUIRE] = "svlftbb",
                                                   [TL_SCRIPT_RENEW] = "t[svl",
                                                   [TL_SCRIPT_HOLD] = "svltb",
                                                   [TL_SCRIPT_LOOK] = "vvlvfffvt"};
    if (in_byte(&w->in) % 4 == 3)
        return any_reply(w, 0);
#ifdef TL_COMPAT
    if (w->stamps && c->form == TL_SCRIPT && in_byte(&w->in) % 8 == 7)
        return error_reply("ERR unknown command 'EVALSHA'");
    if (w->stamps && word_of(c) != NO_WORD)
        return plain_reply(w, word_of(c));
#endif
    if (c->form == TL_SCRIPT && (c->script == TL_SCRIPT_RELEASE || c->script == TL_SCRIPT_FREE)) {
        int64_t status = in_byte(&w->in) % 5 - 2;
        return status == 0 && in_byte(&w->in) % 2 ? value(w) : number(status);
    }
    if (c->form == TL_SCRIPT && c->script == TL_SCRIPT_ACQUIRE && in_byte(&w->in) % 2)
        return digits(w, tl__add_sat(w->offset_us, w->now.ns / 1000));
    if (c->form == TL_SCRIPT && c->script == TL_SCRIPT_REFRESH) {
        static const char *const kinds[] = {"t", "t", "tb", "b"};
        return shaped(w, kinds[in_byte(&w->in) % 4]);
    }
    if (c->form == TL_SCRIPT)
        return shaped(w, shapes[c->script]);
    if (tl__bytes_eq(c->argv[0], TL_LITERAL("WAITAOF")))
        return waitaof_reply(w);
    return c->argc == 1 ? shaped(w, "t") : number(in_int(&w->in));
}
