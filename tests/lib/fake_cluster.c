/*
 * A node of a cluster: the keys of one command, script or transaction must be in one slot, and that slot
 * here.
 */
#include <stdio.h>

#include "fake_inside.h"

#define SLOTS 16384

/* CRC16 of XModem. */
static unsigned crc16(tl_bytes text) {
    unsigned crc = 0;
    for (size_t i = 0; i < text.n; i++) {
        crc ^= (unsigned)(unsigned char)text.p[i] << 8;
        for (int bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000 ? crc << 1 ^ 0x1021 : crc << 1) & 0xffff;
        }
    }
    return crc;
}

/* What is in the first braces counts alone, unless there is nothing in them. */
unsigned fake_redis_slot(tl_bytes key) {
    const char *open = key.n ? memchr(key.p, '{', key.n) : NULL;
    const char *close = open ? memchr(open, '}', key.n - (size_t)(open - key.p)) : NULL;
    bool tagged = close && close > open + 1;
    return crc16(tagged ? tl__bytes(open + 1, (size_t)(close - open) - 1) : key) % SLOTS;
}

void fake_redis_set_cluster(fake_redis *r, bool cluster) {
    r->cluster = cluster;
}

void fake_redis_move_slots(fake_redis *r, unsigned first, unsigned last, fake_slots where,
                           const char *to) {
    r->slots = where;
    r->first_slot = first;
    r->last_slot = last;
    snprintf(r->slots_to, sizeof(r->slots_to), "%s", to ? to : "");
}

void fake_redis_set_nodes(fake_redis *r, const uint16_t *ports, unsigned n, unsigned self) {
    r->nodes = ports;
    r->nodes_n = n;
    r->self = self;
}

void fake_redis_on_slot(fake_redis *r, fake_where where, void *ctx) {
    r->where = where;
    r->where_ctx = ctx;
}

FAKE_COMMAND(asking) {
    if (!c->r->cluster) {
        fake__error(out, "ERR This instance has cluster support disabled");
        return;
    }
    c->asking = true;
    fake__ok(out);
}

void fake_redis_leave_keys(fake_redis *r, const char *patterns) {
    fake__keep_text(&r->keys_left, patterns);
}

/* Has it left with its slot? It is kept here all the same: for when it comes back. */
static bool has_left(const fake_redis *r, tl_bytes key) {
    return r->keys_left && fake__acl_fit(r->keys_left, key, 0);
}

typedef struct {
    unsigned slot;
    size_t here, missing;
    bool crossed;
} asked;

static void add(const fake_conn *c, const fake_said *said, asked *a) {
    const tl_bytes *keys;
    size_t n = fake__keys_of(said->row, said->argv, said->argc, &keys);
    for (size_t i = 0; i < n; i++) {
        unsigned slot = fake_redis_slot(keys[i]);
        a->crossed = a->crossed || (a->here + a->missing && slot != a->slot);
        a->slot = slot;
        if (fake__look(c->r, c->db, keys[i]) && !has_left(c->r, keys[i])) {
            a->here++;
        } else {
            a->missing++;
        }
    }
}

static unsigned first_of(const fake_redis *r, unsigned node) {
    return (SLOTS * node + r->nodes_n - 1) / r->nodes_n;
}

static fake_slots place_by_share(fake_redis *r, unsigned slot) {
    unsigned node = slot * r->nodes_n / SLOTS;
    snprintf(r->slots_to, sizeof(r->slots_to), "127.0.0.1:%u", (unsigned)r->nodes[node]);
    return node == r->self ? FAKE_SLOTS_HERE : FAKE_SLOTS_MOVED;
}

static fake_slots place_of(fake_redis *r, unsigned slot, const char **ret_to) {
    *ret_to = r->slots_to;
    if (r->nodes) {
        return place_by_share(r, slot);
    }
    if (r->where) {
        return r->where(r->where_ctx, slot, ret_to);
    }
    return slot >= r->first_slot && slot <= r->last_slot ? r->slots : FAKE_SLOTS_HERE;
}

/* Half of them are at the other end of the slot. */
static bool is_split(const fake_conn *c, const asked *a, fake_slots place) {
    if (place == FAKE_SLOTS_IMPORTING) {
        return c->asking && a->missing && a->here + a->missing > 1;
    }
    return place == FAKE_SLOTS_MIGRATING && a->missing && a->here &&
           c->r->level >= FAKE_LEVEL(7, 0, 0);
}

static bool judge(fake_conn *c, const asked *a, tl_reply *out) {
    const char *to = "";
    bool keys = a->here + a->missing > 0;
    fake_slots place = keys && !a->crossed ? place_of(c->r, a->slot, &to) : FAKE_SLOTS_HERE;
    bool moved = place == FAKE_SLOTS_MOVED || (place == FAKE_SLOTS_IMPORTING && !c->asking);
    if (a->crossed) {
        fake__error(out, "CROSSSLOT Keys in request don't hash to the same slot");
    } else if (place == FAKE_SLOTS_NOWHERE) {
        fake__error(out, "CLUSTERDOWN The cluster is down");
    } else if (moved) {
        fake__errorf(c, out, "MOVED %u %s", a->slot, to);
    } else if (is_split(c, a, place)) {
        fake__error(out, "TRYAGAIN Multiple keys request during rehashing of slot");
    } else if (place == FAKE_SLOTS_MIGRATING && a->missing) {
        fake__errorf(c, out, "ASK %u %s", a->slot, to);
    } else {
        return true;
    }
    return false;
}

bool fake__cluster_allows(fake_conn *c, const fake_said *said, tl_reply *out) {
    asked a = {0};
    if (said->row->run != fake__exec) {
        add(c, said, &a);
    }
    for (size_t i = 0; said->row->run == fake__exec && i < c->queue_count; i++) {
        const fake_queued *q = &c->queue[i];
        add(c, &(fake_said){q->row, q->argv, q->argc}, &a);
    }
    return judge(c, &a, out);
}

static void tell_slots(fake_conn *c, tl_reply *out) {
    const fake_redis *r = c->r;
    tl_reply *ranges = fake__array(c, out, r->nodes_n);
    for (unsigned i = 0; i < r->nodes_n; i++) {
        tl_reply *range = fake__array(c, &ranges[i], 3), *node;
        fake__int(&range[0], first_of(r, i));
        fake__int(&range[1], first_of(r, i + 1) - 1);
        node = fake__array(c, &range[2], 2);
        fake__static(&node[0], TL_REPLY_STRING, TL_LITERAL("127.0.0.1"));
        fake__int(&node[1], r->nodes[i]);
    }
}

/* Unless it was told of others, it knows of no other node. */
FAKE_COMMAND(cluster) {
    if (!c->r->cluster) {
        fake__error(out, "ERR This instance has cluster support disabled");
    } else if (fake__is(argv[1], "info")) {
        fake__string(c, out,
                     TL_LITERAL("cluster_enabled:1\r\ncluster_state:ok\r\ncluster_size:1\r\n"));
    } else if (c->r->nodes && fake__is(argv[1], "slots")) {
        tell_slots(c, out);
    } else {
        fake__error(out, "ERR Unknown subcommand or wrong number of arguments");
    }
}
