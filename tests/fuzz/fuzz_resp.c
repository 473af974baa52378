/*
 * Bytes from a server. However they are cut, the same replies come of them, and what is wrong is
 * found at the same place; memory stays bounded whatever lengths are claimed.
 *
 * The first byte of the input says how it is cut. In what follows, byte 1 repeats the byte after the
 * next as often as 32 times the next says, so that a short input makes a long line. Only the cut
 * GREEDY lets arrays claim more than hundreds of items: giving them room takes long.
 */
#include "resp.h"

#include "fuzz.h"

#define STREAM_MAX (80u << 10)
#define GREEDY 255
#define DIGITS_MAX 3
#define LONG 4096 /* what is longer is not cut into small pieces */
#define MEMORY_MAX (2 * (size_t)TL_RESP_BYTES_MAX + (4u << 20))
#define WORDS_SIZE 160

/* A sanitizer's count of what is allocated; no such count without one. */
size_t __sanitizer_get_current_allocated_bytes(void) __attribute__((weak));

typedef struct {
    uint64_t hash; /* of all replies */
    unsigned replies;
    bool broken;
} outcome;

static char *stream;

static size_t allocated(void) {
    return __sanitizer_get_current_allocated_bytes ? __sanitizer_get_current_allocated_bytes() : 0;
}

static void mix(uint64_t *hash, uint64_t v) {
    *hash = (*hash ^ v) * UINT64_C(0x100000001b3);
    *hash ^= *hash >> 29;
}

static void read_reply(const tl_reply *r, unsigned depth, uint64_t *hash) {
    MUST((unsigned)r->type <= TL_REPLY_ARRAY);
    mix(hash, r->type);
    switch (r->type) {
    case TL_REPLY_NIL: break;
    case TL_REPLY_INT: mix(hash, (uint64_t)r->integer); break;
    case TL_REPLY_STRING:
    case TL_REPLY_STATUS:
    case TL_REPLY_ERROR:
        MUST(r->text.p);
        mix(hash, r->text.n);
        for (size_t i = 0; i < r->text.n; i++)
            mix(hash, (unsigned char)r->text.p[i]);
        break;
    case TL_REPLY_ARRAY:
        MUST(depth < TL_RESP_DEPTH_MAX);
        mix(hash, r->count);
        for (size_t i = 0; i < r->count; i++)
            read_reply(&r->items[i], depth + 1, hash);
        break;
    }
}

/* Everything that has arrived; false when the rest makes no sense any more. */
static bool take_all(tl_resp *r, outcome *o, bool release) {
    tl_reply reply;
    int found;
    while ((found = tl__resp_next(r, &reply)) == 1) {
        read_reply(&reply, 0, &o->hash);
        o->replies++;
        if (release)
            tl__resp_release(r);
    }
    o->broken = found < 0;
    if (o->broken) {
        MUST(tl__resp_next(r, &reply) < 0);
        MUST(tl__resp_words(r)[0] && is_line(tl__resp_words(r), WORDS_SIZE));
    }
    return !o->broken;
}

/* After a reset it is as new. */
static void check_reset(tl_resp *r) {
    tl_reply reply;
    MUST(tl__resp_reset(r));
    tl__resp_feed(r, ":7\r\n", 4);
    MUST(tl__resp_next(r, &reply) == 1);
    MUST(reply.type == TL_REPLY_INT && reply.integer == 7);
    MUST(tl__resp_next(r, &reply) == 0);
}

static outcome run(size_t n, uint8_t cuts, bool release) {
    outcome o = {.hash = 1};
    size_t before = allocated();
    uint32_t random = cuts * 2654435761u + 1;
    tl_resp *r = tl__resp_new();
    MUST(r);
    for (size_t at = 0, part; at < n; at += part) {
        random = random * 1664525u + 1013904223u;
        part = cuts == 0 ? n : cuts == 1 ? 1 : (random >> 16) % ((size_t)cuts * cuts) + 1;
        part = part < n - at ? part : n - at;
        tl__resp_feed(r, stream + at, part);
        bool sane = take_all(r, &o, release);
        MUST(allocated() <= before + MEMORY_MAX);
        if (!sane)
            break;
    }
    check_reset(r);
    tl__resp_free(r);
    return o;
}

static void put(size_t *n, uint8_t byte, size_t times, bool greedy) {
    static size_t star; /* where the last '*' was, with only digits since */
    bool is_digit = byte >= '0' && byte <= '9';
    for (; times > 0 && *n < STREAM_MAX; times--) {
        star = byte == '*' ? *n : is_digit && *n > 0 ? star : STREAM_MAX;
        if (greedy || !is_digit || star > *n || *n - star <= DIGITS_MAX)
            stream[(*n)++] = (char)byte;
    }
}

static size_t expand(input *in, bool greedy) {
    size_t n = 0;
    while (in->n > 0 && n < STREAM_MAX) {
        uint8_t byte = in_byte(in);
        size_t times = byte == 1 ? in_byte(in) * (size_t)32 : 1;
        put(&n, byte == 1 ? in_byte(in) : byte, times, greedy);
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    if (!stream)
        stream = malloc(STREAM_MAX);
    MUST(stream);
    uint8_t cuts = in_byte(&in);
    size_t n = expand(&in, cuts == GREEDY);
    outcome whole = run(n, 0, false);
    outcome cut = run(n, n > LONG && cuts < 64 ? 64 : cuts, true);
    MUST(whole.replies == cut.replies && whole.hash == cut.hash);
    MUST(whole.broken == cut.broken);
    return 0;
}
