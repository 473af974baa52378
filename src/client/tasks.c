/*
 * The heap of what the keeper runs. It gives room back only with the keeper. Each has four behind it, which lie in a
 * line of the cache: with very many tasks it is the lines fetched, one for each step down and one for the task that
 * moves up there, that take time.
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

/* Of those behind `at` the one that is due first; 0: there is none. */
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

/* To its place, from one that is free. */
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
        (tl_due){TL_NEVER, task}); /* the last is in its place: none is due later than never */
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
