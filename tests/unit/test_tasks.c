/*
 * The heap of what the keeper runs: whatever is added, moved and removed, the first is due first.
 */
#include <stdlib.h>

#include "tests.h"
#include "client/tasks.h"

#define MANY 500
#define MOVES 20000

static uint64_t next_random(uint64_t *random) {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    return *random;
}

/* Each is where it says, and none behind it is due before it. */
static void assert_in_order(const tl_tasks *t) {
    for (uint32_t i = 1; i <= t->count; i++) {
        assert_int_equal(t->heap[i].task->at, i);
        uint32_t from = tl__tasks_behind(i);
        for (uint32_t n = from; n < from + TL_TASKS_BEHIND && n <= t->count; n++)
            assert_false(tl__mono_before(t->heap[n].until, t->heap[i].until));
    }
}

TEST(an_empty_one_has_no_first) {
    tl_tasks t = {0};
    tl_task task = {0};
    assert_null(tl__tasks_first(&t));
    tl__tasks_remove(&t, &task); /* not there: nothing */
    assert_int_equal(tl__tasks_add(&t, &task), TL_OK);
    assert_ptr_equal(tl__tasks_first(&t), &task);
    assert_int_equal(tl__tasks_until(&t).ns, INT64_MAX);
    tl__tasks_remove(&t, &task);
    assert_null(tl__tasks_first(&t));
    free(t.heap);
}

TEST(they_come_out_as_they_are_due) {
    tl_tasks t = {0};
    tl_task *tasks = calloc(MANY, sizeof *tasks);
    assert_non_null(tasks);
    for (int64_t i = 0; i < MANY; i++) {
        assert_int_equal(tl__tasks_add(&t, &tasks[i]), TL_OK);
        tl__tasks_move(&t, &tasks[i], (tl_mono){i * 7919 % MANY});
    }
    assert_in_order(&t);
    for (int64_t i = 0; i < MANY; i++) {
        assert_int_equal(tl__tasks_until(&t).ns, i);
        tl__tasks_remove(&t, tl__tasks_first(&t));
    }
    assert_int_equal(t.count, 0);
    free(tasks);
    free(t.heap);
}

TEST(whatever_is_moved_and_removed_the_order_holds) {
    tl_tasks t = {0};
    uint64_t random = 88172645463325252U;
    tl_task *tasks = calloc(MANY, sizeof *tasks);
    assert_non_null(tasks);
    for (int i = 0; i < MOVES; i++) {
        tl_task *task = &tasks[next_random(&random) % MANY];
        if (task->at == 0)
            assert_int_equal(tl__tasks_add(&t, task), TL_OK);
        else if (next_random(&random) % 3 == 0)
            tl__tasks_remove(&t, task);
        else
            tl__tasks_move(&t, task, (tl_mono){(int64_t)(next_random(&random) % 100)});
        if (i % 16 == 0)
            assert_in_order(&t);
    }
    free(tasks);
    free(t.heap);
}
