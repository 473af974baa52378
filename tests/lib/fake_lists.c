/*
 * The fake server's commands on lists: as much of them as a history needs. An item's key is its number, so
 * that they stand in the order in which they came.
 */
#include "fake_inside.h"

static bool at(fake_conn *c, tl_bytes key, bool to_write, fake_object **ret, tl_reply *out) {
    *ret = to_write ? fake__find_write(c->r, c->db, key) : fake__find(c->r, c->db, key);
    if (*ret && (*ret)->type != FAKE_LIST) {
        fake__wrong_type(out);
        return false;
    }
    return true;
}

FAKE_COMMAND(rpush) {
    fake_object *object;
    if (!at(c, argv[1], true, &object, out)) {
        return;
    }
    if (!object) {
        object = fake__put(c->r, c->db, argv[1], FAKE_LIST);
    }
    for (size_t i = 2; i < argc; i++) {
        uint64_t number = object->pushed++;
        fake_entry *item = fake__dict_add(&object->dict, tl__bytes(&number, sizeof(number)), NULL);
        fake__text_set(&item->v.text, argv[i]);
    }
    fake__touched(c->r, c->db, argv[1]);
    fake__event(c->r, FAKE_ON_LIST, "rpush", c->db, argv[1]);
    fake__int(out, object->dict.live);
}

FAKE_COMMAND(llen) {
    fake_object *object;
    if (at(c, argv[1], false, &object, out)) {
        fake__int(out, object ? object->dict.live : 0);
    }
}

/* KEY START STOP: the list, and which of its items; *last < *first: none. */
static bool range(fake_conn *c, const tl_bytes *argv, bool to_write, fake_object **ret,
                  int64_t *first, int64_t *last, tl_reply *out) {
    if (!fake__to_int(argv[2], first) || !fake__to_int(argv[3], last)) {
        fake__not_an_integer(out);
        return false;
    }
    if (!at(c, argv[1], to_write, ret, out)) {
        return false;
    }
    int64_t n = *ret ? (*ret)->dict.live : 0;
    *first += *first < 0 ? n : 0;
    *last += *last < 0 ? n : 0;
    *first = *first < 0 ? 0 : *first;
    *last = *last >= n ? n - 1 : *last;
    return true;
}

FAKE_COMMAND(lrange) {
    fake_object *object;
    int64_t first, last, n = 0;
    if (!range(c, argv, false, &object, &first, &last, out)) {
        return;
    }
    uint32_t next = 0;
    tl_reply *items = fake__array(c, out, last < first ? 0 : (size_t)(last - first + 1));
    for (const fake_entry *e; object && n <= last && (e = fake__dict_next(&object->dict, &next));
         n++) {
        if (n >= first) {
            fake__string(c, &items[n - first], fake__text(&e->v.text));
        }
    }
}

FAKE_COMMAND(ltrim) {
    fake_object *object;
    int64_t first, last, n = 0;
    if (!range(c, argv, true, &object, &first, &last, out)) {
        return;
    }
    uint32_t next = 0;
    for (fake_entry *e; object && (e = fake__dict_next(&object->dict, &next)); n++) {
        if (n < first || n > last) {
            fake__text_free(&e->v.text);
            fake__dict_remove(&object->dict, e);
        }
    }
    if (object) {
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_LIST, "ltrim", c->db, argv[1]);
        if (object->dict.live == 0) {
            fake__remove(c->r, c->db, argv[1]);
        }
    }
    fake__ok(out);
}
