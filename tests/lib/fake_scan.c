/*
 * The fake server's commands that go through all keys. A real one tells keys in an order of its own: here
 * it is that in which they came, and SCAN sees them all in one step.
 */
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

FAKE_COMMAND(scan) {
    tl_bytes pattern = TL_LITERAL("*");
    int64_t v;
    if (!fake__to_int(argv[1], &v) || v < 0) {
        fake__error(out, "ERR invalid cursor");
        return;
    }
    for (size_t i = 2; i < argc; i += 2) {
        bool match = fake__is(argv[i], "match"), count = fake__is(argv[i], "count");
        if (i + 1 == argc || (!match && !count)) {
            fake__syntax(out);
            return;
        }
        if (match) {
            pattern = argv[i + 1];
        } else if (!fake__to_int(argv[i + 1], &v)) {
            fake__not_an_integer(out);
            return;
        } else if (v < 1) {
            fake__syntax(out);
            return;
        }
    }
    tl_reply *items = fake__array(c, out, 2);
    fake__string(c, &items[0], TL_LITERAL("0"));
    list_keys(c, pattern, &items[1]);
}
