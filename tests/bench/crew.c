/*
 * Starts the threads of a slice, stops them, and adds up. Making them is not measured, nor what they do before the kernel
 * has spread them over the processors: programs have their threads for longer than a slice.
 */
#include "crew.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define WARM_NS (60 * MS)

typedef struct {
    const crew *crew;
    pthread_barrier_t *ready;
    atomic_bool *counts, *over;
    void *ctx;
    _Alignas(64) atomic_ullong done; /* apart from the other threads' */
    hist hist;
} hand;

static void *work(void *arg) {
    hand *h = arg;
    (void)pthread_barrier_wait(h->ready);
    int64_t start = now_ns();
    while (!atomic_load_explicit(h->over, memory_order_relaxed)) {
        h->crew->operation(h->ctx);
        atomic_fetch_add_explicit(&h->done, 1, memory_order_relaxed);
        int64_t end = now_ns();
        if (atomic_load_explicit(h->counts, memory_order_relaxed))
            hist_add(&h->hist, end - start);
        start = end;
    }
    return NULL;
}

static void sleep_until(int64_t ns) {
    const struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static uint64_t sum(const hand *hands, int n) {
    uint64_t done = 0;
    for (int i = 0; i < n; i++)
        done += atomic_load_explicit(&hands[i].done, memory_order_relaxed);
    return done;
}

uint64_t crew_run(void *ctx, int64_t until_ns, meter *m) {
    const crew *c = ctx;
    int64_t length = until_ns - now_ns();
    pthread_t threads[CREW_MAX];
    pthread_barrier_t ready;
    atomic_bool counts = false, over = false;
    hand *hands = aligned_alloc(64, sizeof *hands * (size_t)c->size);
    if (!hands || pthread_barrier_init(&ready, NULL, (unsigned)c->size + 1) != 0)
        die("out of memory");
    memset(hands, 0, sizeof *hands * (size_t)c->size);
    for (int i = 0; i < c->size; i++) {
        hands[i].crew = c;
        hands[i].ready = &ready;
        hands[i].counts = &counts;
        hands[i].over = &over;
        hands[i].ctx = c->ctx[i];
        if (pthread_create(&threads[i], NULL, work, &hands[i]) != 0)
            die("threads: %s", strerror(errno));
    }
    (void)pthread_barrier_wait(&ready);
    sleep_until(now_ns() + WARM_NS);
    uint64_t before = sum(hands, c->size);
    atomic_store(&counts, true);
    meter_start(m);
    sleep_until(now_ns() + length);
    uint64_t done = sum(hands, c->size) - before;
    meter_stop(m);
    atomic_store(&over, true);
    for (int i = 0; i < c->size; i++) {
        (void)pthread_join(threads[i], NULL);
        if (c->hist)
            hist_merge(c->hist, &hands[i].hist);
    }
    (void)pthread_barrier_destroy(&ready);
    free(hands);
    return done;
}
