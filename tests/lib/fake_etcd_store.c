/*
 * The fake etcd's store: every version of each key, by revision, and leases. What it knows is what all members know in the
 * end; one that lags reads it at an earlier revision.
 */
#include <stdlib.h>
#include <string.h>

#include "fake_etcd_inside.h"

#define CHUNK 65536

static void *grown(void *p, size_t *room, size_t count, size_t size) {
    if (count < *room)
        return p;
    *room = *room ? *room * 2 : 64;
    p = realloc(p, *room * size);
    if (!p)
        abort();
    return p;
}

char *etcd_store_room(etcd_store *s, size_t n) {
    etcd_chunk **at = &s->at;
    while (*at && (*at)->used + n > (*at)->size)
        at = &(*at)->next;
    if (!*at) {
        size_t size = n > CHUNK ? n : CHUNK;
        *at = calloc(1, sizeof **at + size);
        if (!*at)
            abort();
        (*at)->size = size;
        if (!s->chunks)
            s->chunks = *at;
    }
    s->at = *at;
    s->at->used += n;
    return s->at->bytes + s->at->used - n;
}

static tl_bytes keep(etcd_store *s, tl_bytes b) {
    char *to = etcd_store_room(s, b.n + 1);
    if (b.n)
        memcpy(to, b.p, b.n);
    return tl__bytes(to, b.n);
}

void etcd_store_reset(etcd_store *s) {
    for (etcd_chunk *c = s->chunks; c; c = c->next)
        c->used = 0;
    s->at = s->chunks;
    s->records = s->names = s->leases = 0;
    s->revision = 1; /* as a new etcd's */
    s->compacted = 0;
    s->full = s->alarm = false;
}

void etcd_store_free(etcd_store *s) {
    for (etcd_chunk *c = s->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(s->record);
    free(s->name);
    free(s->order);
    free(s->lease);
}

/* ---- keys ----------------------------------------------------------------------------------------------- */

static int compare(tl_bytes a, tl_bytes b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.p, b.p, n) : 0;
    return c ? c : a.n < b.n ? -1 : a.n > b.n;
}

bool etcd_span_has(const etcd_span *span, tl_bytes key) {
    if (!span->has_end)
        return tl__bytes_eq(key, span->key);
    bool open = span->end.n == 1 && span->end.p[0] == '\0';
    return compare(key, span->key) >= 0 && (open || compare(key, span->end) < 0);
}

size_t etcd_store_from(const etcd_store *s, tl_bytes key) {
    size_t lo = 0, hi = s->names;
    while (lo < hi) {
        size_t mid = (lo + hi) / 2;
        if (compare(s->name[s->order[mid]].name, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

const etcd_record *etcd_store_at(const etcd_store *s, uint32_t name, int64_t revision) {
    int32_t i = s->name[name].last;
    while (i >= 0 && s->record[i].changed > revision)
        i = s->record[i].before;
    return i >= 0 && !s->record[i].deleted ? &s->record[i] : NULL;
}

static bool find(const etcd_store *s, tl_bytes key, uint32_t *ret) {
    size_t at = etcd_store_from(s, key);
    if (at == s->names || !tl__bytes_eq(s->name[s->order[at]].name, key))
        return false;
    *ret = s->order[at];
    return true;
}

const etcd_record *etcd_store_now(const etcd_store *s, tl_bytes key) {
    uint32_t name;
    return find(s, key, &name) ? etcd_store_at(s, name, INT64_MAX) : NULL;
}

static uint32_t name_of(etcd_store *s, tl_bytes key) {
    uint32_t name;
    if (find(s, key, &name))
        return name;
    size_t at = etcd_store_from(s, key), room = s->name_room;
    s->name = grown(s->name, &s->name_room, s->names, sizeof *s->name);
    s->order = grown(s->order, &room, s->names, sizeof *s->order);
    memmove(s->order + at + 1, s->order + at, (s->names - at) * sizeof *s->order);
    s->order[at] = (uint32_t)s->names;
    s->name[s->names] = (etcd_name){.name = keep(s, key), .last = -1};
    return (uint32_t)s->names++;
}

static void add(etcd_store *s, uint32_t name, etcd_record record) {
    s->record = grown(s->record, &s->record_room, s->records, sizeof *s->record);
    record.key = name;
    record.before = s->name[name].last;
    s->name[name].last = (int32_t)s->records;
    s->record[s->records++] = record;
    s->revision = record.changed;
}

void etcd_store_put(etcd_store *s, tl_bytes key, tl_bytes value, int64_t lease, int64_t revision) {
    uint32_t name = name_of(s, key);
    const etcd_record *is = etcd_store_at(s, name, INT64_MAX);
    add(s, name,
        (etcd_record){.value = keep(s, value),
                      .created = is ? is->created : revision,
                      .changed = revision,
                      .version = is ? is->version + 1 : 1,
                      .lease = lease});
}

static void delete (etcd_store *s, uint32_t name, int64_t revision) {
    add(s, name, (etcd_record){.changed = revision, .deleted = true});
}

int64_t etcd_store_delete(etcd_store *s, const etcd_span *span, int64_t revision) {
    int64_t n = 0;
    for (size_t i = etcd_store_from(s, span->key);
         i < s->names && etcd_span_has(span, s->name[s->order[i]].name); i++)
        if (etcd_store_at(s, s->order[i], INT64_MAX)) {
            delete (s, s->order[i], revision);
            n++;
        }
    return n;
}

/* ---- leases --------------------------------------------------------------------------------------------- */

etcd_lease *etcd_store_lease(const etcd_store *s, int64_t id) {
    for (size_t i = 0; i < s->leases; i++)
        if (s->lease[i].id == id)
            return &s->lease[i];
    return NULL;
}

void etcd_store_grant(etcd_store *s, const etcd_lease *lease) {
    s->lease = grown(s->lease, &s->lease_room, s->leases, sizeof *s->lease);
    s->lease[s->leases++] = *lease;
}

void etcd_store_revoke(etcd_store *s, int64_t id) {
    etcd_lease *l = etcd_store_lease(s, id);
    int64_t revision = s->revision + 1;
    if (!l)
        return;
    *l = s->lease[--s->leases];
    for (size_t i = 0; i < s->names; i++) {
        const etcd_record *r = etcd_store_at(s, s->order[i], INT64_MAX);
        if (r && r->lease == id)
            delete (s, s->order[i], revision);
    }
}
