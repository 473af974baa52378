/*
 * The heap of the keeper's tasks. Its memory is freed only with the keeper. Each entry has four children,
 * which lie in one cache line. With very many tasks the time goes into fetching cache lines: on each level
 * down, one for the children and one for the task that moves up.
 */
#include "client/tasks.h"
#include "ground/guard.h"

#include <stdlib.h>

#define ROOM 16

static void put(tl_tasks *tasks, uint32_t at, tl_due due) {
    tasks->heap[at] = due;
    due.task->at = at;
}

static uint32_t before(uint32_t at) {
    return (at - 2) / TL_TASKS_BEHIND + 1;
}

/* The child of `at` that is due first; 0: it has no child. */
static uint32_t first_behind(const tl_tasks *tasks, uint32_t at) {
    uint32_t first = tl__tasks_behind(at), last = first + TL_TASKS_BEHIND - 1;
    if (first > tasks->count)
        return 0;
    if (last > tasks->count)
        last = tasks->count;
    for (uint32_t i = first + 1; i <= last; i++)
        first = tl__mono_before(tasks->heap[i].until, tasks->heap[first].until) ? i : first;
    return first;
}

/* Put an entry into the free place `at`, and move it up or down to where it belongs. */
static void sift(tl_tasks *tasks, uint32_t at, tl_due due) {
    for (; at > 1 && tl__mono_before(due.until, tasks->heap[before(at)].until); at = before(at))
        put(tasks, at, tasks->heap[before(at)]);
    for (uint32_t next; (next = first_behind(tasks, at)) != 0; at = next) {
        if (!tl__mono_before(tasks->heap[next].until, due.until))
            break;
        put(tasks, at, tasks->heap[next]);
    }
    put(tasks, at, due);
}

tl_err tl__tasks_add(tl_tasks *tasks, tl_task *task) {
    if (tasks->count + 1 >= tasks->room) {
        uint32_t room = tasks->room ? tasks->room * 2 : ROOM;
        tl_due *heap = realloc(tasks->heap, room * sizeof *heap);
        if (!heap)
            return TL_ENOMEM;
        tasks->heap = heap;
        tasks->room = room;
    }
    put(tasks, ++tasks->count,
        (tl_due){TL_NEVER, task}); /* it belongs there: no task is due later than never */
    return TL_OK;
}

void tl__tasks_move(tl_tasks *tasks, tl_task *task, tl_mono until) {
    sift(tasks, task->at, (tl_due){until, task});
}

void tl__tasks_remove(tl_tasks *tasks, tl_task *task) {
    if (GUARD(task_removed_once) && task->at == 0)
        return;
    tl_due last = tasks->heap[tasks->count--];
    if (GUARD(heap_without_hole) && last.task != task)
        sift(tasks, task->at, last);
    task->at = 0;
}
