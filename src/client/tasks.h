/*
 * The machines that the keeper runs: a heap, by when they are due.
 */
#pragma once

#include <stdatomic.h>

#include "protocol/protocol.h"

struct tl_exchange;
struct tl_listener;

/** A machine, and its name in a trace of its steps. */
typedef struct {
    void *state;
    tl_step step;
    const char *does; /**< "acquire" */
    tl_bytes key;     /**< its lock's key, which outlives the machine; n 0: none */
} tl_machine;

struct tl_task;

/** A kind of task. No function here may block or call back. */
typedef struct {
    bool renews; /**< it renews a held lock: at once, too, if the server's clock has stepped */
    /** The task's machine, ready for a step. */
    tl_machine (*machine)(struct tl_task *task);
    /** The machine has asked for something: keep what it needs when the reply comes. false: no memory; then
     *  the machine gets TL_FAILED, and nothing is sent. NULL: there is nothing to do. */
    bool (*stay)(struct tl_task *task);
    /** After each step: take results and notes from `out`. May free the task at TL_END. */
    void (*stepped)(struct tl_task *task, const tl_out *out, tl_status status);
} tl_task_kind;

/** A machine that the keeper runs. The code that starts it owns it. Under keeper.mutex, except its posts. */
typedef struct tl_task {
    const tl_task_kind *kind;
    /** For its topic; for several independent servers an array of one for each. NULL: it never listens. */
    struct tl_listener *listener;
    tl_bytes watched; /**< the key whose changes it watches; n 0: none */
    /** The request in flight; for several independent servers a list of all of them. */
    struct tl_exchange *exchange;
    struct tl_exchange *reading; /**< a read of `watched` in flight */
    uint32_t at;                 /**< its index in the heap, from 1; 0: not there */
    bool read_again;    /**< read `watched` again after `reading`: it has changed meanwhile */
    bool hears;         /**< the events of `watched` are subscribed to */
    atomic_bool posted; /**< in keeper.posts; written, as the rest, under posts_mutex */
    uint8_t flags;
    struct tl_task *next_post;
} tl_task;

/** An entry of the heap. It contains the due time, so that comparing two entries need not fetch the tasks. */
typedef struct {
    tl_mono until;
    tl_task *task;
} tl_due;

typedef struct {
    tl_due *heap; /**< [0] is unused */
    uint32_t count, room;
} tl_tasks;

/** The one due first; NULL: there is none. */
static inline tl_task *tl__tasks_first(const tl_tasks *tasks) {
    return tasks->count > 0 ? tasks->heap[1].task : NULL;
}

/** When that task is due; TL_NEVER: there is none. */
static inline tl_mono tl__tasks_until(const tl_tasks *tasks) {
    return tasks->count > 0 ? tasks->heap[1].until : TL_NEVER;
}

/** Prefetch a task that will be run soon. If there may be very many of its kind, its machine's state lies
 *  around the task in memory: these bytes before and after it. */
#define TL_TASK_BEFORE 256
#define TL_TASK_AFTER 112
static inline void tl__task_fetch(const tl_task *task) {
    uintptr_t from = (uintptr_t)task - TL_TASK_BEFORE, to = (uintptr_t)task + TL_TASK_AFTER;
    for (; from < to; from += 64)
        __builtin_prefetch((const void *)from);
}

/** In the heap each task has up to so many children, none of which is due earlier. */
#define TL_TASKS_BEHIND 4
static inline uint32_t tl__tasks_behind(uint32_t at) {
    return (at - 1) * TL_TASKS_BEHIND + 2;
}

/** Prefetch the children of the first: one of them is due next. */
static inline void tl__tasks_fetch_next(const tl_tasks *tasks) {
    uint32_t from = tl__tasks_behind(1);
    for (uint32_t at = from; at < from + TL_TASKS_BEHIND && at <= tasks->count; at++)
        tl__task_fetch(tasks->heap[at].task);
}

/** Add a task; it is due never, until tl__tasks_move. TL_ENOMEM */
tl_err tl__tasks_add(tl_tasks *tasks, tl_task *task);
/** The task is due at `until` instead. */
void tl__tasks_move(tl_tasks *tasks, tl_task *task, tl_mono until);
/** Fine for one that isn't there. */
void tl__tasks_remove(tl_tasks *tasks, tl_task *task);
