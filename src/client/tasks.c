/*
 * The heap of what the keeper runs. It gives room back only with the keeper.
 */
#include "client/tasks.h"

#include <stdlib.h>

#define ROOM 16

static void put(tl_tasks *t, uint32_t at, tl_due due) {
    t->heap[at] = due;
    due.task->at = at;
}

/* To its place, from one that is free. */
static void sift(tl_tasks *t, uint32_t at, tl_due due) {
    for (; at > 1 && tl__mono_before(due.until, t->heap[at / 2].until); at /= 2)
        put(t, at, t->heap[at / 2]);
    for (uint32_t child; (child = at * 2) <= t->count; at = child) {
        if (child < t->count && tl__mono_before(t->heap[child + 1].until, t->heap[child].until))
            child++;
        if (!tl__mono_before(t->heap[child].until, due.until))
            break;
        put(t, at, t->heap[child]);
    }
    put(t, at, due);
}

tl_err tl__tasks_add(tl_tasks *t, tl_task *task) {
    if (t->count + 1 >= t->room) {
        uint32_t room = t->room ? t->room * 2 : ROOM;
        tl_due *heap = realloc(t->heap, room * sizeof *heap);
        if (!heap)
            return TL_ENOMEM;
        t->heap = heap;
        t->room = room;
    }
    put(t, ++t->count,
        (tl_due){TL_NEVER, task}); /* the last is in its place: none is due later than never */
    return TL_OK;
}

void tl__tasks_move(tl_tasks *t, tl_task *task, tl_mono until) {
    sift(t, task->at, (tl_due){until, task});
}

void tl__tasks_remove(tl_tasks *t, tl_task *task) {
    if (task->at == 0)
        return;
    tl_due last = t->heap[t->count--];
    if (last.task != task)
        sift(t, task->at, last);
    task->at = 0;
}
