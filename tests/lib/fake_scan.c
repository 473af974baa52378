/*
 * The fake server's commands that go through all keys. A real one tells keys in an order of its own: here
 * it is that in which they came, and for SCAN that of their hashes.
 */
#include <stdlib.h>

#include "fake_inside.h"
#include "ground/glob.h"

typedef struct {
    tl_bytes pattern;
    tl_bytes *list; /* NULL: they are counted only */
    size_t n;
} listing;

static void list_one(void *ctx, tl_bytes key) {
    listing *l = ctx;
    if (!tl__glob_fits(l->pattern, key)) {
        return;
    }
    if (l->list) {
        l->list[l->n] = key;
    }
    l->n++;
}

static void list_keys(fake_conn *c, tl_bytes pattern, tl_reply *out) {
    listing l = {.pattern = pattern};
    fake_redis_each_key(c->r, c->db, list_one, &l);
    size_t n = l.n;
    l.list = fake__arena_get(&c->arena, (n + 1) * sizeof(*l.list));
    l.n = 0;
    fake_redis_each_key(c->r, c->db, list_one, &l);
    tl_reply *items = fake__array(c, out, n);
    for (size_t i = 0; i < n; i++) {
        fake__string(c, &items[i], l.list[i]);
    }
}

FAKE_COMMAND(keys) {
    list_keys(c, argv[1], out);
}

FAKE_COMMAND(randomkey) {
    tl_reply all;
    list_keys(c, TL_LITERAL("*"), &all);
    if (all.count) {
        *out = all.items[0];
    } else {
        fake__nil(out);
    }
}

/* ---- SCAN ------------------------------------------------------------------------------------ */

typedef struct {
    tl_bytes pattern, type;
    uint64_t cursor, count;
} scan_options;

static bool scan_parse(const fake_conn *c, const tl_bytes *argv, size_t argc, scan_options *o,
                       tl_reply *out) {
    int64_t v;
    if (!fake__to_int(argv[1], &v) || v < 0) {
        fake__error(out, "ERR invalid cursor");
        return false;
    }
    *o = (scan_options){.pattern = TL_LITERAL("*"), .cursor = (uint64_t)v, .count = 10};
    for (size_t i = 2; i < argc; i += 2) {
        if (i + 1 < argc && fake__is(argv[i], "match")) {
            o->pattern = argv[i + 1];
        } else if (i + 1 < argc && fake__is(argv[i], "type") &&
                   c->r->level >= FAKE_LEVEL(6, 0, 0)) {
            o->type = argv[i + 1];
        } else if (i + 1 == argc || !fake__is(argv[i], "count")) {
            fake__syntax(out);
            return false;
        } else if (!fake__to_int(argv[i + 1], &v)) {
            fake__not_an_integer(out);
            return false;
        } else if (v < 1) {
            fake__syntax(out);
            return false;
        } else {
            o->count = (uint64_t)v;
        }
    }
    return true;
}

/* Where a key stands in a scan: never 0, and the same however many others come and go. */
static uint64_t place(const fake_entry *entry) {
    return (entry->hash >> 16) + 1;
}

static int by_place(const void *a, const void *b) {
    uint64_t x = place(*(const fake_entry *const *)a), y = place(*(const fake_entry *const *)b);
    return x < y ? -1 : x > y;
}

/* The keys from the cursor on, in the order of a scan. */
static const fake_entry **from_cursor(fake_conn *c, uint64_t cursor, size_t *ret_n) {
    const fake_dict *db = &c->r->db[c->db];
    const fake_entry **list = fake__arena_get(&c->arena, (db->live + 1) * sizeof(fake_entry *));
    const fake_entry *entry;
    uint32_t i = 0;
    *ret_n = 0;
    while ((entry = fake__dict_next(db, &i))) {
        if (place(entry) >= cursor) {
            list[(*ret_n)++] = entry;
        }
    }
    qsort(list, *ret_n, sizeof(fake_entry *), by_place);
    return list;
}

static bool wanted(const fake_conn *c, const scan_options *o, const fake_entry *entry) {
    const fake_object *object = fake__look(c->r, c->db, fake__key(entry));
    return object && tl__glob_fits(o->pattern, fake__key(entry)) &&
           (!o->type.p || fake__is(o->type, fake__type_name(object)));
}

FAKE_COMMAND(scan) {
    scan_options o;
    char text[TL_INT_SIZE];
    size_t n, i = 0, found = 0;
    if (!scan_parse(c, argv, argc, &o, out)) {
        return;
    }
    const fake_entry **list = from_cursor(c, o.cursor, &n);
    tl_reply *items = fake__array(c, out, 2);
    tl_reply *keys = fake__array(c, &items[1], n);
    for (; i < n && (i < o.count || place(list[i]) == place(list[i - 1])); i++) {
        if (wanted(c, &o, list[i])) {
            fake__string(c, &keys[found++], fake__key(list[i]));
        }
    }
    items[1].count = found;
    fake__string(c, &items[0], fake__print_int(text, i < n ? (int64_t)place(list[i]) : 0));
}
