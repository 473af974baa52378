/*
 * Disruptions: moments at which this virtual machine was paused, moved or restored, as the VMClock shows. The
 * deadline clock may have stood still then, for nobody knows how long. So what was proved by a request that was
 * built before such a moment counts no longer.
 *
 * A disruption is noticed when somebody looks: it then has the time of that look, which is later. Only the last
 * one matters.
 */
#pragma once

#include <stdatomic.h>

#include "ground/clock.h"
#include "ground/vmclock.h"

typedef struct {
    const tl_vmclock *page; /**< NULL: there is no VMClock, and no disruption is ever noticed */
    _Atomic uint64_t marker, generation; /**< what the page showed at the last look */
    _Atomic int64_t at_ns, copied_ns;
    void (*notice)(void *ctx); /**< a disruption was noticed; any thread, whatever mutex it holds */
    void *ctx;
} tl_disruptions;

void tl__disruptions_init(tl_disruptions *all, void (*notice)(void *ctx), void *ctx);
void tl__disruptions_end(tl_disruptions *all);

/** The page has changed: look what has. */
void tl__disruptions_look(tl_disruptions *all);

/** When the last disruption was noticed; ns 0: there was none. Any thread; wait-free. */
static inline tl_mono tl__disrupted_at(tl_disruptions *all) {
    if (!all->page)
        return (tl_mono){0};
    if (!tl__vmclock_shows(all->page, atomic_load_explicit(&all->marker, memory_order_acquire),
                           atomic_load_explicit(&all->generation, memory_order_acquire)))
        tl__disruptions_look(all);
    return (tl_mono){atomic_load_explicit(&all->at_ns, memory_order_acquire)};
}

/** The same for disruptions after which this machine may be a copy of another one, restored from the same
 *  image: both have the same tokens. After tl__disrupted_at(). */
static inline tl_mono tl__copied_at(const tl_disruptions *all) {
    return (tl_mono){atomic_load_explicit(&all->copied_ns, memory_order_relaxed)};
}
