/*
 * Slots and their nodes, as nodes report them. It must never use half of a text as an address, nor assign a
 * slot to two nodes.
 */
#include "wire/slots.h"

#include "ground/guard.h"

/* ---- addresses --------------------------------------------------------------------------------- */

static bool is_host(tl_bytes host) {
    return host.n > 0 && host.n <= TL_NODE_NAME_MAX && tl__bytes_is_visible(host);
}

/* A node that is set to announce its host name, but has none, reports "?". */
static bool is_nameless(tl_bytes host) {
    return tl__bytes_eq(host, TL_LITERAL("?"));
}

static bool read_port(tl_bytes text, uint16_t *ret) {
    int64_t port;
    if (!tl__bytes_to_int(text, &port) || port < 1 || port > UINT16_MAX)
        return false;
    *ret = (uint16_t)port;
    return true;
}

static tl_bytes without_brackets(tl_bytes host) {
    bool has = host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']';
    return has ? tl__bytes(host.p + 1, host.n - 2) : host;
}

/* "HOST:PORT". IPv6 addresses have no brackets here: the port follows the last colon. */
static tl_slot_node read_place(tl_bytes text) {
    const char *colon = text.n ? memrchr(text.p, ':', text.n) : NULL;
    tl_slot_node node = {0};
    if (!colon)
        return node;
    tl_bytes host = tl__bytes(text.p, (size_t)(colon - text.p));
    tl_bytes port = tl__bytes(colon + 1, text.n - host.n - 1);
    host = without_brackets(host);
    if ((GUARD(whole_place) && host.n > 0 && !is_host(host)) || is_nameless(host) ||
        !read_port(port, &node.port))
        return (tl_slot_node){0};
    node.host = host;
    return node;
}

/* ---- an error ---------------------------------------------------------------------------------- */

/* "SLOT HOST:PORT" */
static void read_rest(tl_redirect *r, tl_bytes rest) {
    int64_t slot;
    if (!tl__bytes_to_int(tl__bytes_take(&rest, ' '), &slot) || slot < 0 || slot >= TL_SLOTS)
        return;
    tl_slot_node node = read_place(rest);
    if (GUARD(whole_redirection) && node.port == 0)
        return;
    r->slot = (uint16_t)slot;
    r->node = node;
}

tl_redirect tl__redirect_read(tl_bytes error) {
    static const struct {
        const char *word;
        tl_redirect_kind kind;
    } rows[] = {{"MOVED", TL_MOVED},
                {"ASK", TL_ASK},
                {"TRYAGAIN", TL_TRY_AGAIN},
                {"CLUSTERDOWN", TL_CLUSTER_DOWN}};
    tl_redirect r = {.kind = TL_NOT_ELSEWHERE, .slot = TL_NOBODY};
    tl_bytes rest = error, word = tl__bytes_take(&rest, ' ');
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (tl__bytes_eq(word, tl__bytes_of(rows[i].word)))
            r.kind = rows[i].kind;
    if (r.kind == TL_MOVED || r.kind == TL_ASK)
        read_rest(&r, rest);
    return r;
}

/* ---- CLUSTER SLOTS ----------------------------------------------------------------------------- */

/* The metadata of a node, from 7.0 on: its numeric address or its host name, unless that is its main name. */
static tl_bytes further(const tl_reply *node, tl_bytes which) {
    const tl_reply *more = tl__reply_item(node, 3);
    tl_bytes name, value;
    for (size_t i = 0; more->type == TL_REPLY_ARRAY && i + 1 < more->count; i += 2)
        if (tl__reply_text(&more->items[i], &name) && tl__bytes_eq(name, which) &&
            tl__reply_text(&more->items[i + 1], &value) && is_host(value) && !is_nameless(value))
            return value;
    return (tl_bytes){0};
}

static tl_bytes id_of(const tl_reply *node) {
    tl_bytes id;
    bool known = tl__reply_text(tl__reply_item(node, 2), &id) && is_host(id) &&
                 id.n <= TL_NODE_ID_MAX;
    return known ? id : (tl_bytes){0};
}

/* [host, port, id, [name, value, ...]]; the host may be nil or empty. */
static bool read_node(const tl_reply *item, tl_slot_node *ret) {
    const tl_reply *host = tl__reply_item(item, 0);
    int64_t port;
    tl_bytes text = {0};
    *ret = (tl_slot_node){0};
    if ((host->type != TL_REPLY_NIL && !tl__reply_text(host, &text)) ||
        (text.n > 0 && !is_host(text)) || !tl__reply_int(tl__reply_item(item, 1), &port) ||
        port < 0 || port > UINT16_MAX)
        return false;
    tl_bytes address = further(item, TL_LITERAL("ip"));
    bool nameless = is_nameless(text);
    if (nameless)
        text = address;
    if (!nameless || text.n > 0)
        *ret = (tl_slot_node){.host = text,
                              .port = (uint16_t)port,
                              .id = id_of(item),
                              .other = {address, further(item, TL_LITERAL("hostname"))}};
    return true;
}

static bool is_at(const tl_slot_node *a, const tl_slot_node *b) {
    return a->port == b->port && tl__bytes_eq(a->host, b->host);
}

/* Returns the node's index, new or known; TL_NOBODY: no room. If two nodes report the same id, the second
 * gets none. */
static uint16_t add_node(tl_slot_map *map, const tl_slot_node *node) {
    bool twice = false;
    for (unsigned i = 0; i < map->count; i++) {
        if (is_at(&map->node[i], node))
            return (uint16_t)i;
        twice = twice || (node->id.n > 0 && tl__bytes_eq(map->node[i].id, node->id));
    }
    if (map->count == TL_SLOT_NODES_MAX)
        return TL_NOBODY;
    map->node[map->count] = *node;
    if (twice)
        map->node[map->count].id = (tl_bytes){0};
    return (uint16_t)map->count++;
}

static bool give(tl_slot_map *map, int64_t first, int64_t last, uint16_t node) {
    for (int64_t slot = first; slot <= last; slot++) {
        if (GUARD(one_master_a_slot) && map->node_of[slot] != TL_NOBODY)
            return false;
        map->node_of[slot] = node;
    }
    map->served += (unsigned)(last - first + 1);
    return true;
}

/* Every range of a master lists the same replicas: those of the first are read. */
static void add_replicas(tl_slot_map *map, uint16_t master, const tl_reply *range) {
    for (size_t i = 3; i < range->count; i++) {
        tl_slot_node node;
        bool known = read_node(&range->items[i], &node) && node.port > 0;
        if (!known || map->replicas == TL_SLOT_NODES_MAX) {
            map->incomplete[master] = true;
            continue;
        }
        map->master_of[map->replicas] = master;
        map->replica[map->replicas++] = node;
    }
}

/* [first, last, master, replica, ...] */
static bool read_range(tl_slot_map *map, const tl_reply *item) {
    int64_t first, last;
    tl_slot_node master;
    if (!tl__reply_int(tl__reply_item(item, 0), &first) ||
        !tl__reply_int(tl__reply_item(item, 1), &last) || first < 0 || first > last ||
        last >= TL_SLOTS || !read_node(tl__reply_item(item, 2), &master))
        return false;
    if (master.port == 0)
        return true;
    unsigned known = map->count;
    uint16_t node = add_node(map, &master);
    if (map->count > known) {
        map->incomplete[node] = false;
        add_replicas(map, node, item);
    }
    return node != TL_NOBODY && give(map, first, last, node);
}

bool tl__slot_map_read(tl_slot_map *ret, const tl_reply *reply) {
    ret->served = ret->count = ret->replicas = 0;
    for (unsigned i = 0; i < TL_SLOTS; i++)
        ret->node_of[i] = TL_NOBODY;
    if (reply->type != TL_REPLY_ARRAY || reply->count > TL_SLOTS)
        return false;
    for (size_t i = 0; i < reply->count; i++)
        if (!read_range(ret, &reply->items[i]))
            return false;
    return true;
}
