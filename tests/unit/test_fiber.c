/*
 * The coroutines of the simulator, tests/lib/fiber.c.
 */
#include "fiber.h"
#include "tests.h"

#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

static fiber whole, part;
static char *seen;

/* It is left where it waits, as a client is whose world ends. */
static void wait_for_ever(void) {
    char page[2000];
    memset(page, 'x', sizeof page);
    seen = page;
    for (;;)
        fiber_switch(&part, &whole);
}

static long peak_kb(void) {
    struct rusage use;
    assert_int_equal(getrusage(RUSAGE_SELF, &use), 0);
    return use.ru_maxrss;
}

/* With AddressSanitizer each has a second stack beside it. When that was not used again, this needed 140 MB more. */
TEST(a_coroutine_that_is_left_and_begun_again_needs_no_more_memory) {
    part = fiber_spare();
    long before = 0;
    for (int i = 0; i < 5000; i++) {
        fiber_begin(&part, wait_for_ever);
        for (int turns = 0; turns < 3; turns++) {
            fiber_switch(&whole, &part);
            assert_int_equal(seen[1999], 'x');
        }
        if (i == 10)
            before = peak_kb();
    }
    assert_in_range(peak_kb() - before, 0, 20000);
    fibers_free();
}
