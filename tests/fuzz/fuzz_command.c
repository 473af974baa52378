/*
 * Commands: what is encoded must be read back, by the reader of replies, as the same words.
 */

/*
 * Given a command's words. It asserts: the encoding reads back as the same words. The size reported is the same in any
 * room, and nothing is written beyond it.
 */
#include "wire/command.h"

#include "fuzz.h"
#include "transport/resp.h"

static tl_resp *reader;

/* What goes before the arguments of a script. */
static size_t preamble(const tl_command *c, bool by_text, tl_bytes *to, char *number) {
    if (c->form != TL_SCRIPT)
        return 0;
    tl_script script = (tl_script)c->script;
    to[0] = tl__bytes_of(by_text ? "EVAL" : "EVALSHA");
    to[1] = by_text ? tl__script_text(script) : tl__script_sha1(script);
    to[2] = tl__bytes_from_int(number, c->nkeys);
    return 3;
}

static void read_back(tl_bytes wire, const tl_bytes *words, size_t n) {
    tl_reply reply;
    tl__resp_feed(reader, wire.p, wire.n);
    MUST(tl__resp_next(reader, &reply) == 1);
    MUST(reply.type == TL_REPLY_ARRAY && reply.count == n);
    for (size_t i = 0; i < n; i++)
        MUST(reply.items[i].type == TL_REPLY_STRING && tl__bytes_eq(reply.items[i].text, words[i]));
    MUST(tl__resp_next(reader, &reply) == 0);
    tl__resp_release(reader);
}

/* The same size is asked for however little room there is, and no byte goes beyond that room. */
static void check_room(const tl_command *c, bool by_text, size_t needed, size_t room) {
    char *to = malloc(room ? room : 1);
    MUST(to && tl__command_encode(c, by_text, to, room) == needed);
    free(to);
}

static void check(const tl_command *c, bool by_text, size_t room) {
    tl_bytes words[3 + TL_ARGV_MAX];
    char number[TL_INT_SIZE];
    size_t n = preamble(c, by_text, words, number);
    for (size_t i = 0; i < c->argc; i++)
        words[n++] = c->argv[i];
    size_t needed = tl__command_encode(c, by_text, NULL, 0);
    char *wire = malloc(needed);
    MUST(wire && tl__command_encode(c, by_text, wire, needed) == needed);
    read_back(tl__bytes(wire, needed), words, n);
    free(wire);
    check_room(c, by_text, needed, room % needed);
    check_room(c, by_text, needed, needed - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input in = {data, size};
    tl_command c = {.form = TL_ARGV};
    if (!reader)
        reader = tl__resp_new();
    MUST(reader);
    uint8_t how = in_byte(&in);
    size_t room = in_byte(&in);
    if (how & 1)
        c.form = TL_SCRIPT;
    c.script = in_byte(&in) % TL_SCRIPTS;
    c.nkeys = in_byte(&in);
    while (in.n > 0 && c.argc < TL_ARGV_MAX)
        c.argv[c.argc++] = in_bytes(&in, 255);
    check(&c, how & 2, room);
    return 0;
}
