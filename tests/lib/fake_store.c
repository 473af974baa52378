/*
 * The fake server's memory: dictionaries that keep their order, and keys that expire. It knows no
 * command and no connection but those that watch a key.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"

#define SMALL 8 /* up to this many entries are searched without an index */

void *fake__alloc(void *old, size_t size) {
    void *p = realloc(old, size ? size : 1);
    if (!p) {
        fputs("fake_redis: out of memory\n", stderr);
        abort();
    }
    return p;
}

void fake__text_set(fake_text *to, tl_bytes from) {
    if (from.n > to->room || !to->p) {
        to->room = from.n + 16;
        to->p = fake__alloc(to->p, to->room);
    }
    if (from.n) {
        memmove(to->p, from.p, from.n);
    }
    to->n = from.n;
}

void fake__text_free(fake_text *text) {
    free(text->p);
    memset(text, 0, sizeof(*text));
}

/* ---- dictionaries ---------------------------------------------------------------------------- */

static inline uint64_t hash_of(tl_bytes key) {
    uint64_t h = key.n * 0x9e3779b97f4a7c15u, word;
    const char *p = key.p;
    size_t n = key.n;
    for (; n >= 8; p += 8, n -= 8) {
        memcpy(&word, p, 8);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
        h ^= h >> 32;
    }
    if (n) {
        word = 0;
        memcpy(&word, p, n);
        h = (h ^ word) * 0xff51afd7ed558ccdu;
    }
    return h ^ h >> 29;
}

static inline bool same(const fake_entry *entry, uint64_t hash, tl_bytes key) {
    return entry->hash == hash && entry->key && entry->key_n == key.n &&
           (key.n == 0 || memcmp(entry->key, key.p, key.n) == 0);
}

static fake_entry *find(const fake_dict *dict, uint64_t hash, tl_bytes key) {
    if (!dict->index) {
        for (uint32_t i = 0; i < dict->used; i++) {
            if (same(&dict->entry[i], hash, key)) {
                return &dict->entry[i];
            }
        }
        return NULL;
    }
    for (uint32_t at = (uint32_t)hash & (dict->slots - 1); dict->index[at];
         at = (at + 1) & (dict->slots - 1)) {
        fake_entry *entry = &dict->entry[dict->index[at] - 1];
        if (same(entry, hash, key)) {
            return entry;
        }
    }
    return NULL;
}

fake_entry *fake__dict_find(const fake_dict *dict, tl_bytes key) {
    return find(dict, hash_of(key), key);
}

static void index_entry(fake_dict *dict, uint32_t number) {
    uint32_t at = (uint32_t)dict->entry[number].hash & (dict->slots - 1);
    while (dict->index[at]) {
        at = (at + 1) & (dict->slots - 1);
    }
    dict->index[at] = number + 1;
}

/* Squeeze out what was removed, and double the room when there was too little of that. The index
 * has twice as many slots as entries can be added before the next squeeze. */
static void make_room(fake_dict *dict) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < dict->used; i++) {
        if (dict->entry[i].key) {
            dict->entry[n++] = dict->entry[i];
        }
    }
    dict->used = n;
    if (n > dict->room / 4 * 3 || !dict->room) {
        dict->room = dict->room ? dict->room * 2 : SMALL;
        dict->entry = fake__alloc(dict->entry, dict->room * sizeof(fake_entry));
        if (dict->room > SMALL) {
            dict->slots = dict->room * 2;
            dict->index = fake__alloc(dict->index, dict->slots * sizeof(uint32_t));
        }
    }
    if (dict->index) {
        memset(dict->index, 0, dict->slots * sizeof(uint32_t));
        for (uint32_t i = 0; i < n; i++) {
            index_entry(dict, i);
        }
    }
}

fake_entry *fake__dict_add(fake_dict *dict, tl_bytes key, bool *ret_added) {
    uint64_t hash = hash_of(key);
    fake_entry *entry = find(dict, hash, key);
    if (ret_added) {
        *ret_added = !entry;
    }
    if (entry) {
        return entry;
    }
    if (dict->used == dict->room) {
        make_room(dict);
    }
    entry = &dict->entry[dict->used++];
    memset(entry, 0, sizeof(*entry));
    entry->hash = hash;
    entry->key = fake__alloc(NULL, key.n);
    entry->key_n = key.n;
    if (key.n) {
        memcpy(entry->key, key.p, key.n);
    }
    dict->live++;
    if (dict->index) {
        index_entry(dict, dict->used - 1);
    }
    return entry;
}

void fake__dict_remove(fake_dict *dict, fake_entry *entry) {
    free(entry->key);
    entry->key = NULL;
    dict->live--;
    while (!dict->index && dict->used && !dict->entry[dict->used - 1].key) {
        dict->used--;
    }
}

void fake__dict_free(fake_dict *dict) {
    uint32_t i = 0;
    fake_entry *entry;
    while ((entry = fake__dict_next(dict, &i))) {
        free(entry->key);
    }
    free(dict->entry);
    free(dict->index);
    memset(dict, 0, sizeof(*dict));
}

void fake__hash_clear(fake_dict *dict) {
    uint32_t i = 0;
    fake_entry *entry;
    while ((entry = fake__dict_next(dict, &i))) {
        free(entry->v.text.p);
    }
    fake__dict_free(dict);
}

/* ---- values ---------------------------------------------------------------------------------- */

static void empty(fake_object *object) {
    if (object->type == FAKE_HASH || object->type == FAKE_LIST) {
        fake__hash_clear(&object->dict);
    } else if (object->type != FAKE_STRING) {
        fake__dict_free(&object->dict);
    }
    free(object->rank);
    object->rank = NULL;
    object->rank_room = 0;
}

static void free_object(fake_object *object) {
    empty(object);
    free(object->text.p);
    free(object);
}

static fake_object *copy_object(const fake_object *from) {
    fake_object *to = fake__alloc(NULL, sizeof(*to));
    memset(to, 0, sizeof(*to));
    to->type = from->type;
    to->expire_ms = from->expire_ms;
    to->pushed = from->pushed;
    if (from->type == FAKE_STRING) {
        fake__text_set(&to->text, fake__text(&from->text));
    }
    uint32_t i = 0;
    const fake_entry *entry;
    while ((entry = fake__dict_next(&from->dict, &i))) {
        fake_entry *copy = fake__dict_add(&to->dict, fake__key(entry), NULL);
        if (from->type == FAKE_HASH || from->type == FAKE_LIST) {
            fake__text_set(&copy->v.text, fake__text(&entry->v.text));
        } else {
            copy->v = entry->v;
        }
    }
    if (from->rank) {
        to->rank_room = from->dict.live;
        to->rank = fake__alloc(NULL, to->rank_room * sizeof(fake_rank));
        for (i = 0; i < from->dict.live; i++) {
            to->rank[i].score = from->rank[i].score;
            to->rank[i].member = fake__key(fake__dict_find(&to->dict, from->rank[i].member));
        }
    }
    return to;
}

/* ---- the keyspace ---------------------------------------------------------------------------- */

static bool expired(const fake_redis *r, const fake_object *object) {
    return object->expire_ms != FAKE_NEVER && r->now_ms > object->expire_ms;
}

static void remove_entry(fake_redis *r, int db, fake_entry *entry) {
    free_object(entry->v.object);
    fake__dict_remove(&r->db[db], entry);
}

/* A watched key that had already expired when WATCH saw it does not count as touched by going. */
static void tell_watchers(fake_redis *r, int db, tl_bytes key) {
    for (fake_conn *c = r->conns; c; c = c->next) {
        for (size_t i = 0; i < c->watch_count; i++) {
            fake_watch *watch = &c->watch[i];
            if (watch->db != db || !tl__bytes_eq(watch->key, key)) {
                continue;
            }
            if (watch->was_expired && r->vanishing) {
                watch->was_expired = false;
            } else {
                c->raced = true;
            }
        }
    }
}

static void tell(fake_redis *r, int db, tl_bytes key) {
    if (r->watchers) {
        tell_watchers(r, db, key);
    }
    if (r->tracked) {
        fake__track_changed(r, key);
    }
}

void fake__touched(fake_redis *r, int db, tl_bytes key) {
    r->dirty++;
    tell(r, db, key);
}

static void expire(fake_redis *r, int db, fake_entry *entry) {
    tl_bytes key = fake__key(entry);
    fake__event(r, FAKE_ON_EXPIRED, "expired", db, key);
    r->vanishing = true;
    tell(r, db, key);
    r->vanishing = false;
    if (r->wrote) {
        r->wrote(r->wrote_ctx, r->unit, db, (tl_bytes[]){TL_LITERAL("DEL"), key}, 2);
    }
    remove_entry(r, db, entry);
}

static fake_entry *find_live(fake_redis *r, int db, tl_bytes key) {
    fake_entry *entry = fake__dict_find(&r->db[db], key);
    if (!entry || !expired(r, entry->v.object)) {
        return entry;
    }
    if (r->replica && r->current && r->current->master) {
        return entry; /* it is for the master to say what has expired */
    }
    if (!r->replica) {
        expire(r, db, entry);
    }
    return NULL;
}

fake_object *fake__find(fake_redis *r, int db, tl_bytes key) {
    fake_entry *entry = find_live(r, db, key);
    return entry ? entry->v.object : NULL;
}

const fake_object *fake__look(const fake_redis *r, int db, tl_bytes key) {
    const fake_entry *entry = fake__dict_find(&r->db[db], key);
    return entry && !expired(r, entry->v.object) ? entry->v.object : NULL;
}

fake_object *fake__find_write(fake_redis *r, int db, tl_bytes key) {
    fake_entry *entry = find_live(r, db, key);
    if (entry && r->level < FAKE_LEVEL(2, 2, 0) && entry->v.object->expire_ms != FAKE_NEVER) {
        remove_entry(r, db, entry);
        return NULL;
    }
    return entry ? entry->v.object : NULL;
}

fake_object *fake__put(fake_redis *r, int db, tl_bytes key, fake_type type) {
    bool added;
    fake_entry *entry = fake__dict_add(&r->db[db], key, &added);
    if (added) {
        entry->v.object = fake__alloc(NULL, sizeof(fake_object));
        memset(entry->v.object, 0, sizeof(fake_object));
        fake__event(r, FAKE_ON_NEW, "new", db, key);
    } else {
        empty(entry->v.object);
    }
    entry->v.object->type = type;
    entry->v.object->expire_ms = FAKE_NEVER;
    entry->v.object->text.n = 0;
    return entry->v.object;
}

bool fake__remove(fake_redis *r, int db, tl_bytes key) {
    fake_entry *entry = find_live(r, db, key);
    if (!entry) {
        return false;
    }
    fake__touched(r, db, key);
    fake__event(r, FAKE_ON_GENERIC, "del", db, key);
    remove_entry(r, db, entry);
    return true;
}

void fake__clear(fake_redis *r, int db) {
    uint32_t i = 0;
    fake_entry *entry;
    r->vanishing = true;
    while ((entry = fake__dict_next(&r->db[db], &i))) {
        if (r->watchers) {
            tell_watchers(r, db, fake__key(entry));
        }
        free_object(entry->v.object);
    }
    r->vanishing = false;
    fake__dict_free(&r->db[db]);
}

void fake__copy_data(fake_redis *to, const fake_redis *from) {
    for (int db = 0; db < FAKE_DATABASES; db++) {
        fake__clear(to, db);
        uint32_t i = 0;
        const fake_entry *entry;
        while ((entry = fake__dict_next(&from->db[db], &i))) {
            fake_entry *copy = fake__dict_add(&to->db[db], fake__key(entry), NULL);
            copy->v.object = copy_object(entry->v.object);
        }
    }
    uint32_t i = 0;
    const fake_entry *entry;
    fake__dict_free(&to->scripts);
    while ((entry = fake__dict_next(&from->scripts, &i))) {
        fake__dict_add(&to->scripts, fake__key(entry), NULL)->v = entry->v;
    }
}

void fake_redis_expire_cycle(fake_redis *r) {
    for (int db = 0; db < FAKE_DATABASES && !r->replica; db++) {
        uint32_t i = 0;
        fake_entry *entry;
        while ((entry = fake__dict_next(&r->db[db], &i))) {
            if (expired(r, entry->v.object)) {
                r->unit++;
                expire(r, db, entry);
            }
        }
    }
}
