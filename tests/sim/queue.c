/*
 * The queue of events. It never allocates for an event once it has grown.
 */
#include "queue.h"

#include <stdlib.h>

static bool before(const sim_event *a, const sim_event *b) {
    return a->at < b->at || (a->at == b->at && a->order < b->order);
}

static void grow(sim_queue *q) {
    q->room = q->room ? q->room * 2 : 256;
    q->heap = realloc(q->heap, q->room * sizeof(sim_event));
    if (!q->heap)
        abort();
}

uint64_t sim_queue_next(const sim_queue *q, unsigned rank) {
    return (uint64_t)rank << SIM_RANK_SHIFT | (q->number + 1);
}

static void put(sim_queue *q, sim_event e) {
    if (q->count + 1 >= q->room)
        grow(q);
    size_t i = ++q->count;
    for (; i > 1 && before(&e, &q->heap[i / 2]); i /= 2)
        q->heap[i] = q->heap[i / 2];
    q->heap[i] = e;
}

void sim_queue_put(sim_queue *q, sim_ns at, unsigned rank, sim_fire fire, void *who, uint32_t tag) {
    put(q, (sim_event){at, sim_queue_next(q, rank), fire, who, tag});
    q->number++;
}

void sim_queue_put_off(sim_queue *q, sim_ns at, uint64_t order, sim_fire fire, void *who,
                       uint32_t tag) {
    put(q, (sim_event){at, order, fire, who, tag});
}

bool sim_queue_take(sim_queue *q, sim_event *ret) {
    if (q->count == 0)
        return false;
    *ret = q->heap[1];
    sim_event last = q->heap[q->count--];
    size_t i = 1;
    for (size_t child; (child = i * 2) <= q->count; i = child) {
        if (child < q->count && before(&q->heap[child + 1], &q->heap[child]))
            child++;
        if (!before(&q->heap[child], &last))
            break;
        q->heap[i] = q->heap[child];
    }
    q->heap[i] = last;
    return true;
}

void sim_queue_clear(sim_queue *q) {
    q->count = 0;
    q->number = 0;
}

void sim_queue_free(sim_queue *q) {
    free(q->heap);
    *q = (sim_queue){0};
}

void sim_alarm_set(sim_queue *q, sim_alarm *alarm, sim_ns at, unsigned rank, sim_fire fire,
                   void *who) {
    alarm->at = at;
    if (at >= alarm->queued)
        return;
    alarm->queued = at;
    sim_queue_put(q, at, rank, fire, who, 0);
}

bool sim_alarm_due(sim_queue *q, sim_alarm *alarm, sim_ns now, unsigned rank, sim_fire fire,
                   void *who) {
    if (now < alarm->queued)
        return false; /* an entry that an earlier one has replaced */
    alarm->queued = SIM_NEVER;
    if (alarm->at == SIM_NEVER)
        return false;
    if (now >= alarm->at) {
        alarm->at = SIM_NEVER;
        return true;
    }
    sim_alarm_set(q, alarm, alarm->at, rank, fire, who);
    return false;
}
