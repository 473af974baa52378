/*
 * The heap of what the keeper runs. It gives room back only with the keeper.
 */
#include "client/tasks.h"

#include <stdlib.h>

#define ROOM 16

static void put(tl_tasks *t, uint32_t at, tl_task *task) {
    t->heap[at] = task;
    task->at = at;
}

static void sift(tl_tasks *t, tl_task *task) {
    uint32_t at = task->at;
    for (; at > 1 && tl__mono_before(task->until, t->heap[at / 2]->until); at /= 2)
        put(t, at, t->heap[at / 2]);
    for (uint32_t child; (child = at * 2) <= t->count; at = child) {
        if (child < t->count && tl__mono_before(t->heap[child + 1]->until, t->heap[child]->until))
            child++;
        if (!tl__mono_before(t->heap[child]->until, task->until))
            break;
        put(t, at, t->heap[child]);
    }
    put(t, at, task);
}

tl_err tl__tasks_add(tl_tasks *t, tl_task *task) {
    if (t->count + 1 >= t->room) {
        uint32_t room = t->room ? t->room * 2 : ROOM;
        tl_task **heap = realloc(t->heap, room * sizeof(tl_task *));
        if (!heap)
            return TL_ENOMEM;
        t->heap = heap;
        t->room = room;
    }
    task->until = TL_NEVER;
    put(t, ++t->count, task); /* the last is in its place: none is due later than never */
    return TL_OK;
}

void tl__tasks_move(tl_tasks *t, tl_task *task, tl_mono until) {
    task->until = until;
    sift(t, task);
}

void tl__tasks_remove(tl_tasks *t, tl_task *task) {
    if (task->at == 0)
        return;
    tl_task *last = t->heap[t->count--];
    if (last != task) {
        last->at = task->at;
        sift(t, last);
    }
    task->at = 0;
}
