/*
 * Coroutines: stacks of their own, between which one thread of the system goes to and fro.
 */
#pragma once

#include <stddef.h>

typedef struct {
    void *at;    /**< where it goes on; internal */
    char *stack; /**< NULL: the program's own, or none yet */
} fiber;

/** Make it ready to call `entry`, which must not return. Its stack is kept for the next time. */
void fiber_begin(fiber *fiber, void (*entry)(void));
/** Leave the one that is running, to be gone on with, for the other. */
void fiber_switch(fiber *from, fiber *to);
/** One with a stack that has been used before, if there is one. */
fiber fiber_spare(void);
/** None of those given out runs any more: all stacks are spare. */
void fibers_reset(void);
/** Free the stacks. */
void fibers_free(void);
