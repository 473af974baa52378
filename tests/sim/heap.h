/*
 * The memory of a simulated process: whatever the library allocates while one of its threads runs. When
 * the process crashes all of it goes at once; when it ends in good order none may be left.
 */
#pragma once

#include <stddef.h>

typedef struct sim_heap sim_heap;

/** One of a few, made once: 0, 1 ... */
sim_heap *sim_heap_get(unsigned which);
/** Forget all that was allocated. */
void sim_heap_clear(sim_heap *heap);
/** How many pieces have not been freed; 0 where the build keeps no heaps apart. */
size_t sim_heap_live(const sim_heap *heap);
/** Allocate from this one from now on; NULL: the program's own. Returns the one before. */
sim_heap *sim_heap_use(sim_heap *heap);
