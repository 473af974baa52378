/*
 * Memory for the interpreter in the fake server: scripts make and drop thousands of small strings
 * and tables, and most of them get the place that one of the same size has just left. It gives
 * nothing back until the interpreter is closed.
 */
#include <stdlib.h>

#include "fake_lua.h"

#define STEP 16 /* sizes are rounded up to it */
#define SLAB 65536

struct fake_slab {
    struct fake_slab *next;
    _Alignas(16) char bytes[SLAB];
};

struct fake_hole {
    struct fake_hole *next;
};

static bool is_small(size_t size) {
    return size <= FAKE_LUA_SIZES * STEP;
}

static size_t rank(size_t size) {
    return (size - 1) / STEP;
}

static void *cut(fake_lua_memory *m, size_t size) {
    if (SLAB - m->used < size || !m->slabs) {
        struct fake_slab *slab = fake__alloc(NULL, sizeof(*slab));
        slab->next = m->slabs;
        m->slabs = slab;
        m->used = 0;
    }
    void *p = m->slabs->bytes + m->used;
    m->used += size;
    return p;
}

static void *get(fake_lua_memory *m, size_t size) {
    if (!is_small(size)) {
        return fake__alloc(NULL, size);
    }
    struct fake_hole **hole = &m->holes[rank(size)], *p = *hole;
    if (!p) {
        return cut(m, (rank(size) + 1) * STEP);
    }
    *hole = p->next;
    return p;
}

static void put_back(fake_lua_memory *m, void *p, size_t size) {
    if (!is_small(size)) {
        free(p);
        return;
    }
    struct fake_hole *hole = p;
    hole->next = m->holes[rank(size)];
    m->holes[rank(size)] = hole;
}

void *fake__lua_memory(void *memory, void *old, size_t old_size, size_t size) {
    if (old && old_size && size && !is_small(old_size) && !is_small(size)) {
        return fake__alloc(old, size);
    }
    if (old_size && size && is_small(old_size) && is_small(size) && rank(old_size) == rank(size)) {
        return old;
    }
    void *new = size ? get(memory, size) : NULL;
    if (old_size && size) {
        memcpy(new, old, old_size < size ? old_size : size);
    }
    if (old_size) {
        put_back(memory, old, old_size);
    }
    return new;
}

void fake__lua_memory_free(fake_lua_memory *m) {
    while (m->slabs) {
        struct fake_slab *slab = m->slabs;
        m->slabs = slab->next;
        free(slab);
    }
}
