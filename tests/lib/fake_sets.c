/*
 * The fake server's commands on hashes and sets.
 */
#include "fake_inside.h"

/* The key's value if it has the type; false: out is the error. *ret is NULL when it is absent. */
static bool at(fake_conn *c, tl_bytes key, fake_type type, bool to_write, fake_object **ret,
               tl_reply *out) {
    *ret = to_write ? fake__find_write(c->r, c->db, key) : fake__find(c->r, c->db, key);
    if (*ret && (*ret)->type != type) {
        fake__wrong_type(out);
        return false;
    }
    return true;
}

static fake_entry *entry_at(const fake_object *object, tl_bytes name) {
    return object ? fake__dict_find(&object->dict, name) : NULL;
}

/* What HDEL and SREM share. */
static void remove_entries(fake_conn *c, fake_object *object, const tl_bytes *argv, size_t argc,
                           tl_reply *out) {
    int64_t n = 0;
    for (size_t i = 2; object && i < argc; i++) {
        fake_entry *entry = fake__dict_find(&object->dict, argv[i]);
        if (entry) {
            if (object->type == FAKE_HASH) {
                fake__text_free(&entry->v.text);
            }
            fake__dict_remove(&object->dict, entry);
            n++;
        }
    }
    if (n) {
        fake__touched(c->r, c->db, argv[1]);
        if (object->type == FAKE_HASH) {
            fake__event(c->r, FAKE_ON_HASH, "hdel", c->db, argv[1]);
        } else {
            fake__event(c->r, FAKE_ON_SET, "srem", c->db, argv[1]);
        }
        if (object->dict.live == 0) {
            fake__remove(c->r, c->db, argv[1]);
        }
    }
    fake__int(out, n);
}

/* ---- hashes ---------------------------------------------------------------------------------- */

FAKE_COMMAND(hget) {
    fake_object *object;
    if (!at(c, argv[1], FAKE_HASH, false, &object, out)) {
        return;
    }
    const fake_entry *entry = entry_at(object, argv[2]);
    if (entry) {
        fake__string(c, out, fake__text(&entry->v.text));
    } else {
        fake__nil(out);
    }
}

FAKE_COMMAND(hmget) {
    fake_object *object;
    if (!at(c, argv[1], FAKE_HASH, false, &object, out)) {
        return;
    }
    tl_reply *items = fake__array(c, out, argc - 2);
    for (size_t i = 2; i < argc; i++) {
        const fake_entry *entry = entry_at(object, argv[i]);
        if (entry) {
            fake__string(c, &items[i - 2], fake__text(&entry->v.text));
        }
    }
}

FAKE_COMMAND(hgetall) {
    fake_object *object;
    if (!at(c, argv[1], FAKE_HASH, false, &object, out)) {
        return;
    }
    tl_reply *item = fake__array(c, out, object ? (size_t)object->dict.live * 2 : 0);
    const fake_entry *entry;
    uint32_t i = 0;
    while (object && (entry = fake__dict_next(&object->dict, &i))) {
        fake__string(c, item++, fake__key(entry));
        fake__string(c, item++, fake__text(&entry->v.text));
    }
}

FAKE_COMMAND(hkeys) {
    fake_object *object;
    if (!at(c, argv[1], FAKE_HASH, false, &object, out)) {
        return;
    }
    tl_reply *item = fake__array(c, out, object ? (size_t)object->dict.live : 0);
    const fake_entry *entry;
    uint32_t i = 0;
    while (object && (entry = fake__dict_next(&object->dict, &i))) {
        fake__string(c, item++, fake__key(entry));
    }
}

FAKE_COMMAND(hexists) {
    fake_object *object;
    if (at(c, argv[1], FAKE_HASH, false, &object, out)) {
        fake__int(out, entry_at(object, argv[2]) != NULL);
    }
}

FAKE_COMMAND(hlen) {
    fake_object *object;
    if (at(c, argv[1], FAKE_HASH, false, &object, out)) {
        fake__int(out, object ? object->dict.live : 0);
    }
}

/* HSET and HMSET. */
FAKE_COMMAND(hset) {
    bool many = argv[0].n == 5;
    fake_object *object;
    int64_t added = 0;
    if (argc % 2) {
        if (c->r->level < FAKE_LEVEL(4, 0, 0)) {
            fake__error(out, "ERR wrong number of arguments for HMSET");
        } else {
            fake__arity(c, out, many ? "hmset" : "hset");
        }
        return;
    }
    if (!at(c, argv[1], FAKE_HASH, true, &object, out)) {
        return;
    }
    if (!object) {
        object = fake__put(c->r, c->db, argv[1], FAKE_HASH);
    }
    for (size_t i = 2; i < argc; i += 2) {
        bool new;
        fake_entry *entry = fake__dict_add(&object->dict, argv[i], &new);
        fake__text_set(&entry->v.text, argv[i + 1]);
        added += new;
    }
    fake__touched(c->r, c->db, argv[1]);
    fake__event(c->r, FAKE_ON_HASH, "hset", c->db, argv[1]);
    if (many) {
        fake__ok(out);
    } else {
        fake__int(out, added);
    }
}

FAKE_COMMAND(hsetnx) {
    fake_object *object;
    if (!at(c, argv[1], FAKE_HASH, true, &object, out)) {
        return;
    }
    bool there = entry_at(object, argv[2]);
    if (!there) {
        fake__hset(c, (tl_bytes[]){TL_LITERAL("hset"), argv[1], argv[2], argv[3]}, 4, out);
    }
    fake__int(out, !there);
}

FAKE_COMMAND(hdel) {
    fake_object *object;
    if (at(c, argv[1], FAKE_HASH, true, &object, out)) {
        remove_entries(c, object, argv, argc, out);
    }
}

FAKE_COMMAND(hincrby) {
    fake_object *object;
    int64_t by, v = 0;
    char text[TL_INT_SIZE];
    if (!fake__to_int(argv[3], &by)) {
        fake__not_an_integer(out);
        return;
    }
    if (!at(c, argv[1], FAKE_HASH, true, &object, out)) {
        return;
    }
    fake_entry *entry = entry_at(object, argv[2]);
    if (entry && !fake__to_int(fake__text(&entry->v.text), &v)) {
        fake__error(out, "ERR hash value is not an integer");
    } else if (__builtin_add_overflow(v, by, &v)) {
        fake__error(out, "ERR increment or decrement would overflow");
    } else {
        if (!object) {
            object = fake__put(c->r, c->db, argv[1], FAKE_HASH);
        }
        entry = fake__dict_add(&object->dict, argv[2], NULL);
        fake__text_set(&entry->v.text, fake__print_int(text, v));
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_HASH, "hincrby", c->db, argv[1]);
        fake__int(out, v);
    }
}

/* ---- sets ------------------------------------------------------------------------------------ */

FAKE_COMMAND(sadd) {
    fake_object *object;
    int64_t added = 0;
    if (!at(c, argv[1], FAKE_SET, true, &object, out)) {
        return;
    }
    if (!object) {
        object = fake__put(c->r, c->db, argv[1], FAKE_SET);
    }
    for (size_t i = 2; i < argc; i++) {
        bool new;
        fake__dict_add(&object->dict, argv[i], &new);
        added += new;
    }
    if (added) {
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_SET, "sadd", c->db, argv[1]);
    }
    fake__int(out, added);
}

FAKE_COMMAND(srem) {
    fake_object *object;
    if (at(c, argv[1], FAKE_SET, true, &object, out)) {
        remove_entries(c, object, argv, argc, out);
    }
}

FAKE_COMMAND(smembers) {
    fake_object *object;
    if (!at(c, argv[1], FAKE_SET, false, &object, out)) {
        return;
    }
    tl_reply *item = fake__array(c, out, object ? object->dict.live : 0);
    const fake_entry *entry;
    uint32_t i = 0;
    while (object && (entry = fake__dict_next(&object->dict, &i))) {
        fake__string(c, item++, fake__key(entry));
    }
}

FAKE_COMMAND(sismember) {
    fake_object *object;
    if (at(c, argv[1], FAKE_SET, false, &object, out)) {
        fake__int(out, entry_at(object, argv[2]) != NULL);
    }
}

FAKE_COMMAND(scard) {
    fake_object *object;
    if (at(c, argv[1], FAKE_SET, false, &object, out)) {
        fake__int(out, object ? object->dict.live : 0);
    }
}

/* Members in the order in which they came: any choice is as random as another. */
FAKE_COMMAND(srandmember) {
    fake_object *object;
    int64_t wanted = 1;
    if (argc > 3) {
        fake__syntax(out);
        return;
    }
    if (argc == 3 && !fake__to_int(argv[2], &wanted)) {
        fake__not_an_integer(out);
        return;
    }
    if (!at(c, argv[1], FAKE_SET, false, &object, out)) {
        return;
    }
    uint32_t next = 0, live = object ? object->dict.live : 0;
    if (argc == 2) {
        const fake_entry *first = object ? fake__dict_next(&object->dict, &next) : NULL;
        if (first) {
            fake__string(c, out, fake__key(first));
        } else {
            fake__nil(out);
        }
        return;
    }
    size_t n = wanted < 0 && live ? (size_t)-wanted : wanted < live ? (size_t)wanted : live;
    n = wanted < 0 && !live ? 0 : n;
    tl_reply *items = fake__array(c, out, n);
    for (size_t i = 0; i < n; i++) {
        const fake_entry *entry = fake__dict_next(&object->dict, &next);
        if (!entry) {
            next = 0;
            entry = fake__dict_next(&object->dict, &next);
        }
        fake__string(c, &items[i], fake__key(entry));
    }
}
