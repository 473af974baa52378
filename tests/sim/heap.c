/*
 * malloc and its like, defined anew for the simulator: a piece comes from the heap that is in use, and goes back
 * to the one whose range it lies in. A build with sanitizers keeps theirs.
 */
#include "heap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define HEAPS 8
#define HEAP_SIZE ((size_t)64 << 20)
#define CLASSES 22 /* of sizes: 16 bytes, 32, 64 ... */
#define HEAD 16    /* before a piece: its class */

struct sim_heap {
    char *base, *top;
    size_t live;
    void *spare[CLASSES];
};

#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__ || !defined __GLIBC__
#define ONE_HEAP 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define ONE_HEAP 1
#endif
#endif

#ifdef ONE_HEAP

static sim_heap none;

int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void) {
    return 1; /* what a process had that crashed is never freed */
}

sim_heap *sim_heap_get(unsigned which) {
    (void)which;
    return &none;
}
void sim_heap_clear(sim_heap *heap) {
    (void)heap;
}
size_t sim_heap_live(const sim_heap *heap) {
    (void)heap;
    return 0;
}
sim_heap *sim_heap_use(sim_heap *heap) {
    (void)heap;
    return NULL;
}

#else

static sim_heap heaps[HEAPS], *used;
static char *range;

void *__libc_malloc(size_t n);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

sim_heap *sim_heap_get(unsigned which) {
    if (!range) {
        range = mmap(NULL, HEAPS * HEAP_SIZE, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (range == MAP_FAILED)
            abort();
    }
    sim_heap *h = &heaps[which % HEAPS];
    h->base = range + (size_t)(h - heaps) * HEAP_SIZE;
    if (!h->top)
        h->top = h->base;
    return h;
}

void sim_heap_clear(sim_heap *h) {
    h->top = h->base;
    h->live = 0;
    memset(h->spare, 0, sizeof h->spare);
}

size_t sim_heap_live(const sim_heap *h) {
    return h->live;
}

sim_heap *sim_heap_use(sim_heap *heap) {
    sim_heap *before = used;
    used = heap;
    return before;
}

static sim_heap *heap_of(const void *p) {
    uintptr_t at = (uintptr_t)p - (uintptr_t)range;
    return range && at < HEAPS * HEAP_SIZE ? &heaps[at / HEAP_SIZE] : NULL;
}

static size_t size_of_class(unsigned c) {
    return (size_t)16 << c;
}

static void *get(sim_heap *h, size_t n) {
    unsigned c = 0;
    while (c < CLASSES && size_of_class(c) < n)
        c++;
    if (c == CLASSES)
        return NULL;
    h->live++;
    if (h->spare[c]) {
        void *p = h->spare[c];
        memcpy(&h->spare[c], p, sizeof p);
        return p;
    }
    if (HEAD + size_of_class(c) > (size_t)(h->base + HEAP_SIZE - h->top))
        abort();
    char *p = h->top + HEAD;
    memcpy(h->top, &c, sizeof c);
    h->top = p + size_of_class(c);
    return p;
}

static unsigned class_of(const void *p) {
    unsigned c;
    memcpy(&c, (const char *)p - HEAD, sizeof c);
    return c;
}

void *malloc(size_t n) {
    return used ? get(used, n) : __libc_malloc(n);
}

void *calloc(size_t n, size_t size) {
    if (!used)
        return __libc_calloc(n, size);
    if (size && n > SIZE_MAX / size)
        return NULL;
    void *p = get(used, n * size);
    return p ? memset(p, 0, n * size) : NULL;
}

void free(void *p) {
    sim_heap *h = heap_of(p);
    if (!h) {
        __libc_free(p);
        return;
    }
    unsigned c = class_of(p);
    memset(p, 0xdd,
           size_of_class(c) < 256 ? size_of_class(c) : 256); /* whoever still reads it, notices */
    memcpy(p, &h->spare[c], sizeof p);
    h->spare[c] = p;
    h->live--;
}

void *realloc(void *p, size_t n) {
    sim_heap *h = heap_of(p);
    if (p && !h)
        return __libc_realloc(p, n);
    if (!p)
        return malloc(n);
    size_t has = size_of_class(class_of(p));
    if (n <= has)
        return p;
    void *q = get(h, n);
    if (!q)
        return NULL;
    memcpy(q, p, has);
    free(p);
    return q;
}

#endif
