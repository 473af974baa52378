/*
 * Bytes from a server. However they are cut, the same replies come of them, and what is wrong is
 * found at the same place; memory stays bounded whatever lengths are claimed.
 *
 * The first byte of the input says how it is cut. In what follows, byte 1 repeats the byte after the
 * next as often as 32 times the next says, so that a short input makes a long line. What takes long
 * is for few inputs, those that are ROOMY: only they are longer than SHORT_MAX, and only GREEDY ones
 * let arrays claim more than hundreds of items.
 */

/*
 * It asserts:
 * - The same replies, and the same end, however they are cut and whether replies are released at once or never.
 * - Nesting stays within its limit. No line without an end is longer than its limit. A message is one line.
 * - Under a sanitizer that counts: memory is within twice the limit, and little is left after a reset. Then the reader
 *   is as new.
 */
#include "transport/resp.h"

#include "fuzz.h"

#define STREAM_MAX (80u << 10)
#define SHORT_MAX 1024
#define BYTEWISE_MAX 256 /* hiredis looks for the end of a line anew with each piece */
#define ROOMY 240        /* this first byte or more, and a sum of all that ROOMY_SHARE divides */
#define ROOMY_SHARE 64
#define GREEDY 255
#define DIGITS_MAX 3
#define MEMORY_MAX (2 * (size_t)TL_RESP_BYTES_MAX + (4u << 20))
#define KEPT_MAX (160u << 10) /* after a reset */
#define MESSAGE_SIZE 160

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

/* Eight at a time: each byte is read, but not each is a step for the fuzzer to watch. */
static void mix_bytes(uint64_t *hash, const char *p, size_t n) {
    uint64_t v;
    for (; n >= sizeof v; p += sizeof v, n -= sizeof v) {
        memcpy(&v, p, sizeof v);
        mix(hash, v);
    }
    v = 0;
    memcpy(&v, p, n);
    mix(hash, v);
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
        mix_bytes(hash, r->text.p, r->text.n);
        break;
    case TL_REPLY_ARRAY:
        MUST(depth < TL_RESP_DEPTH_MAX);
        mix(hash, r->count);
        for (size_t i = 0; i < r->count; i++)
            read_reply(&r->items[i], depth + 1, hash);
        break;
    }
}

/* Everything that has arrived. */
static void take_all(tl_resp *r, outcome *o, bool release) {
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
        MUST(tl__resp_message(r)[0] && is_line(tl__resp_message(r), MESSAGE_SIZE));
    }
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

static size_t next_part(uint8_t cuts, size_t left, uint32_t *random) {
    *random = *random * 1664525u + 1013904223u;
    size_t any = *random >> 16;
    size_t most = cuts < ROOMY ? cuts * (size_t)4 : any & 1 ? 64 : 32768;
    size_t part = cuts == 0 ? left : cuts == 1 ? 1 : (any >> 1) % most + 1;
    return part < left ? part : left;
}

static outcome run(size_t n, uint8_t cuts, bool release) {
    outcome o = {.hash = 1};
    size_t before = allocated();
    uint32_t random = cuts * 2654435761u + 1;
    tl_resp *r = tl__resp_new();
    MUST(r);
    for (size_t at = 0, part; at < n && !o.broken; at += part) {
        part = next_part(cuts, n - at, &random);
        tl__resp_feed(r, stream + at, part);
        take_all(r, &o, release);
        if (cuts >= ROOMY || at + part == n || o.broken) /* counting takes long */
            MUST(allocated() <= before + MEMORY_MAX);
    }
    check_reset(r);
    MUST(allocated() <= before + KEPT_MAX);
    tl__resp_free(r);
    return o;
}

/* What is made of the input. */
typedef struct {
    size_t n, max;
    size_t digits; /* that an array's claim may still have */
    bool claim, greedy;
} expansion;

static void put(expansion *e, uint8_t byte, size_t times) {
    size_t room = e->max - e->n;
    if (times == 0)
        return;
    e->claim = byte == '*' || (e->claim && byte >= '0' && byte <= '9');
    if (byte == '*')
        e->digits = e->greedy ? STREAM_MAX : DIGITS_MAX;
    else if (e->claim)
        room = room < e->digits ? room : e->digits;
    times = times < room ? times : room;
    if (e->claim && byte != '*')
        e->digits -= times;
    memset(stream + e->n, byte, times);
    e->n += times;
}

static size_t expand(input *in, size_t max, bool greedy) {
    expansion e = {.max = max, .greedy = greedy};
    while (in->n > 0 && e.n < e.max) {
        uint8_t byte = in_byte(in);
        size_t times = byte == 1 ? in_byte(in) * (size_t)32 : 1;
        put(&e, byte == 1 ? in_byte(in) : byte, times);
    }
    return e.n;
}

/* A sum is not what a mutation keeps, so it stays rare. The second byte is there to make it right. */
static bool roomy(uint8_t cuts, input *in) {
    if (cuts < ROOMY)
        return false;
    unsigned sum = cuts;
    for (size_t i = 0; i < in->n; i++)
        sum += in->p[i];
    (void)in_byte(in);
    return sum % ROOMY_SHARE == 0;
}

/* Does it begin with a line that has no end where it must have one? */
static bool endless(size_t n) {
    return n > TL_RESP_LINE_MAX + 1 && strchr("+-:", stream[0]) &&
           !memchr(stream, '\n', TL_RESP_LINE_MAX + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    if (!stream)
        stream = malloc(STREAM_MAX);
    MUST(stream);
    uint8_t cuts = in_byte(&in);
    bool room = roomy(cuts, &in);
    size_t max = room ? STREAM_MAX : cuts == 1 ? BYTEWISE_MAX : SHORT_MAX;
    size_t n = expand(&in, max, room && cuts == GREEDY);
    outcome whole = run(n, 0, false);
    outcome cut = run(n, cuts, true);
    MUST(whole.replies == cut.replies && whole.hash == cut.hash);
    MUST(whole.broken == cut.broken);
    MUST(cut.broken || !endless(n));
    return 0;
}
