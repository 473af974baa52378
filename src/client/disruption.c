/*
 * Looks at the VMClock. No disruption may be missed; one that is noticed twice only costs a renewal.
 */
#include "client/disruption.h"

#include "ground/guard.h"

void tl__disruptions_init(tl_disruptions *all, void (*notice)(void *ctx), void *ctx) {
    const char *why;
    all->notice = notice;
    all->ctx = ctx;
    all->page = tl__vmclock_open(TL_VMCLOCK_PATH, &why);
    if (!all->page)
        return;
    const tl_vmclock_view seen = tl__vmclock_read(all->page);
    atomic_init(&all->marker, seen.marker);
    atomic_init(&all->generation, seen.generation);
}

void tl__disruptions_end(tl_disruptions *all) {
    tl__vmclock_close(all->page);
}

static void raise(_Atomic int64_t *ns, int64_t least) {
    int64_t known = atomic_load(ns);
    while (known < least && !atomic_compare_exchange_weak(ns, &known, least))
        ;
}

/* The time is read after the page, and stored before what the page showed. So a thread that finds the page as it
 * was seen also finds the disruption. Threads that look at the same moment may note an older view, or half of each:
 * then the next look notices the disruption again.
 *
 * A page that can't be read is one disruption, when that begins, and one when it ends. Meanwhile it shows nothing,
 * as if there were none: else a hypervisor that leaves it so would let nobody hold a lock. */
void tl__disruptions_look(tl_disruptions *all) {
    const tl_vmclock_view seen = tl__vmclock_read(all->page);
    uint64_t generation = atomic_load(&all->generation);
    bool same = seen.marker == atomic_load(&all->marker);
    bool other = !seen.torn && (seen.flags & TL_VMCLOCK_COUNTS) && seen.generation != generation;
    bool changed = (!same || other) && GUARD(marker_is_compared);
    int64_t now_ns = changed ? tl__mono_now().ns : 0;
    if (changed && other && GUARD(generation_is_compared))
        raise(&all->copied_ns, now_ns);
    if (changed)
        raise(&all->at_ns, now_ns);
    if (!seen.torn)
        atomic_store(&all->generation, seen.generation);
    atomic_store(&all->marker, seen.marker);
    if (changed)
        all->notice(all->ctx);
}
