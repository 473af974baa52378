/*
 * The machines that the keeper runs, the one that is due first at the front: a heap.
 */
#pragma once

#include "protocol/protocol.h"

struct tl_exchange;
struct tl_listener;

/** A machine, and what it is called where its steps are told. */
typedef struct {
    void *state;
    tl_step step;
    const char *does; /**< "acquire" */
    tl_bytes key;     /**< of its lock, n 0: of none; it outlives the machine */
} tl_machine;

struct tl_task;

/** What all tasks of a kind have in common. Nothing here may block or call back. */
typedef struct {
    bool renews; /**< a hold: to be renewed when the server's clock has stepped */
    /** Its machine, ready for a step. */
    tl_machine (*machine)(struct tl_task *task);
    /** NULL, or: it has asked, and its machine must be there when the answer comes. false: no memory; then it
     *  is told that nothing was sent. */
    bool (*stay)(struct tl_task *task);
    /** After each step: take over results and notes. May free the task at TL_END. */
    void (*stepped)(struct tl_task *task, const tl_out *out, tl_status status);
} tl_task_kind;

/** A machine that the keeper runs. Owned by whoever starts it; all under keeper.mutex but the posts. */
typedef struct tl_task {
    const tl_task_kind *kind;
    struct tl_listener *
        listener; /**< for its topic, or of several independent servers one for each; NULL: it never listens */
    tl_bytes watched; /**< the key whose changes it wants to be woken by; n 0: none */
    struct tl_exchange *
        exchange; /**< the one in flight; of several independent servers all of them, one behind the other */
    struct tl_exchange *reading; /**< of what is watched, in flight */
    uint32_t at;                 /**< place in the heap, from 1; 0: not there */
    bool read_again;             /**< after `reading`: there has been a change meanwhile */
    bool hears;                  /**< the events of what is watched are subscribed to */
    bool posted;                 /**< in the list of posts; with what follows under posts_mutex */
    uint8_t flags;
    struct tl_task *next_post;
} tl_task;

/** Beside the task stands when it is due: to compare two the tasks themselves need not be fetched. */
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

/** When that is; TL_NEVER: there is none. */
static inline tl_mono tl__tasks_until(const tl_tasks *tasks) {
    return tasks->count > 0 ? tasks->heap[1].until : TL_NEVER;
}

/** A task's machine lies around it, if there may be very many of its kind: have that fetched, for it is to be run soon. */
#define TL_TASK_BEFORE 256
#define TL_TASK_AFTER 112
static inline void tl__task_fetch(const tl_task *task) {
    uintptr_t from = (uintptr_t)task - TL_TASK_BEFORE, to = (uintptr_t)task + TL_TASK_AFTER;
    for (; from < to; from += 64)
        __builtin_prefetch((const void *)from);
}

/** In the heap each task has so many behind it, none of which is due earlier. */
#define TL_TASKS_BEHIND 4
static inline uint32_t tl__tasks_behind(uint32_t at) {
    return (at - 1) * TL_TASKS_BEHIND + 2;
}

/** The same of those that may be due next, behind the first. */
static inline void tl__tasks_fetch_next(const tl_tasks *tasks) {
    uint32_t from = tl__tasks_behind(1);
    for (uint32_t at = from; at < from + TL_TASKS_BEHIND && at <= tasks->count; at++)
        tl__task_fetch(tasks->heap[at].task);
}

/** Due never, until it says otherwise. TL_ENOMEM */
tl_err tl__tasks_add(tl_tasks *tasks, tl_task *task);
/** It is due at another time. */
void tl__tasks_move(tl_tasks *tasks, tl_task *task, tl_mono until);
/** Fine for one that isn't there. */
void tl__tasks_remove(tl_tasks *tasks, tl_task *task);
