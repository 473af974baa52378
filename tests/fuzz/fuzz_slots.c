/*
 * What a cluster's node says of slots, which decides where a request goes next. The input is an error when its first
 * byte is even, else a reply to CLUSTER SLOTS: ranges with a place each, or anything instead of a part.
 */

/*
 * Given an error, or a reply to CLUSTER SLOTS. It asserts:
 * - An error is a redirection exactly when its first word is one. Slot and place are in range, and the host is in the
 *   text itself.
 * - A map that is believed has no slot twice and no node twice. It counts as many slots as it gives to nodes.
 */
#include "wire/slots.h"

#include "fuzz.h"

#define RANGES 64
#define PARTS 4

static bool is_printable(tl_bytes text) {
    for (size_t i = 0; i < text.n; i++)
        if (text.p[i] <= ' ' || text.p[i] > '~')
            return false;
    return text.n <= TL_NODE_NAME_MAX;
}

static bool lies_in(tl_bytes part, tl_bytes text) {
    return part.n == 0 || (part.p >= text.p && part.p + part.n <= text.p + text.n);
}

/* ---- an error ---------------------------------------------------------------------------------- */

static tl_redirect_kind kind_of(tl_bytes error) {
    static const char *const words[] = {"", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN"};
    const char *space = error.n ? memchr(error.p, ' ', error.n) : NULL;
    tl_bytes first = tl__bytes(error.p, space ? (size_t)(space - error.p) : error.n);
    for (int i = TL_MOVED; i <= TL_CLUSTER_DOWN; i++)
        if (tl__bytes_eq(first, tl__bytes_of(words[i])))
            return (tl_redirect_kind)i;
    return TL_NOT_ELSEWHERE;
}

static void check_error(tl_bytes error) {
    char slot[16], port[16];
    tl_redirect r = tl__redirect_read(error);
    MUST(r.kind == kind_of(error));
    MUST((r.slot == TL_NOBODY) == (r.node.port == 0));
    MUST(lies_in(r.node.host, error) && is_printable(r.node.host));
    if (r.slot == TL_NOBODY)
        return;
    MUST(r.kind == TL_MOVED || r.kind == TL_ASK);
    MUST(r.slot < TL_SLOTS);
    MUST(memmem(error.p, error.n, slot, (size_t)snprintf(slot, sizeof slot, "%u", r.slot)));
    MUST(memmem(error.p, error.n, port, (size_t)snprintf(port, sizeof port, "%u", r.node.port)));
}

/* ---- a map ------------------------------------------------------------------------------------- */

static tl_reply range[RANGES], part[RANGES][PARTS], place[RANGES][PARTS], more[RANGES][2];

static tl_reply array(const tl_reply *items, size_t n) {
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = n};
}

static tl_reply text(tl_bytes bytes) {
    return (tl_reply){.type = TL_REPLY_STRING, .text = bytes};
}

static tl_reply number(int64_t v) {
    return (tl_reply){.type = TL_REPLY_INT, .integer = v};
}

static int64_t in_slot(input *in) {
    uint8_t how = in_byte(in);
    return how == 255 ? in_int(in) : how << 6 | (in_byte(in) & 63);
}

static void make_range(input *in, int i) {
    int64_t first = in_slot(in);
    part[i][0] = number(first);
    part[i][1] = number((int64_t)((uint64_t)first + in_byte(in)));
    place[i][0] = text(in_bytes(in, 300));
    place[i][1] = number(in_byte(in) < 250 ? 7000 + in_byte(in) % 4 : in_int(in));
    place[i][2] = text(TL_LITERAL("id"));
    more[i][0] = text(TL_LITERAL("ip"));
    more[i][1] = text(in_bytes(in, 20));
    place[i][3] = array(more[i], 2);
    part[i][2] = array(place[i], in_byte(in) % (PARTS + 1));
    range[i] = array(part[i], 3);
    uint8_t spoiled = in_byte(in);
    if (spoiled < 3)
        part[i][spoiled] = (tl_reply){.type = TL_REPLY_NIL};
    else if (spoiled < 6)
        place[i][0] = (tl_reply){.type = spoiled == 3 ? TL_REPLY_ERROR : TL_REPLY_NIL};
}

static void check_map(const tl_slot_map *map, int ranges) {
    unsigned served = 0;
    MUST(map->count <= (unsigned)ranges);
    for (unsigned i = 0; i < map->count; i++) {
        MUST(map->node[i].port > 0 && is_printable(map->node[i].host));
        for (unsigned k = 0; k < i; k++)
            MUST(map->node[k].port != map->node[i].port ||
                 !tl__bytes_eq(map->node[k].host, map->node[i].host));
    }
    for (unsigned slot = 0; slot < TL_SLOTS; slot++) {
        unsigned owners = 0, node = map->node_of[slot];
        MUST(node == TL_NOBODY || node < map->count);
        served += node != TL_NOBODY;
        for (int i = 0; i < ranges; i++)
            owners += part[i][0].integer <= slot && slot <= part[i][1].integer &&
                      (node == TL_NOBODY ||
                       (place[i][1].integer == map->node[node].port &&
                        (tl__bytes_eq(place[i][0].text, map->node[node].host) ||
                         tl__bytes_eq(more[i][1].text, map->node[node].host))));
        MUST(node == TL_NOBODY || owners > 0);
    }
    MUST(served == map->served);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static tl_slot_map map;
    input in = {data, size};
    if (in_byte(&in) % 2 == 0) {
        check_error(tl__bytes(in.p, in.n));
        return 0;
    }
    int ranges = 0;
    while (ranges < RANGES && in.n > 0)
        make_range(&in, ranges++);
    tl_reply reply = array(range, (size_t)ranges);
    if (tl__slot_map_read(&map, &reply))
        check_map(&map, ranges);
    return 0;
}
