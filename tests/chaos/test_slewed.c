/*
 * A server whose clock runs fast by all that a kernel can slew it: its keys expire early by our clock.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - the server's clock runs fast by a tenth: no client relies on a lock that the server has granted to another.
 */
#include <unistd.h>

#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define LIFE_MS clock_patient_ms(1500)

/* The server's only: this program's own clock is as it is. */
static real_redis *start_fast(void) {
    char library[4096];
    ssize_t n = readlink("/proc/self/exe", library, sizeof library - sizeof "fast_clock.so");
    char *name = n > 0 ? memrchr(library, '/', (size_t)n) : NULL;
    assert_non_null(name);
    (void)strcpy(name + 1, "fast_clock.so");
    (void)setenv("LD_PRELOAD", library, 1);
    real_redis *fast = real_redis_start(NULL);
    (void)unsetenv("LD_PRELOAD");
    return fast;
}

/* Who waits gets it when the server says so; by then the holder must have stopped counting on it. */
TEST(no_holder_counts_on_a_lock_that_a_fast_server_has_given_away) {
    tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS, .manual_renew = true);
    tl_lock *holder = make_lock_with(client_direct(), KEY, options);
    tl_lock *next = make_lock_with(client_direct(), KEY, options);
    ASSERT_RESULT(tl_lock_acquire(holder, SOON_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    assert_int_equal(tl_lock_remaining_ms(holder), 0);
    (void)tl_lock_release(holder, &said);
    (void)tl_lock_release(next, &said); /* which on a busy machine may be over, too */
}

/* No more than what the slowest clock shows while the fastest shows the lifetime. */
TEST(a_holder_counts_on_what_the_rates_of_two_clocks_leave) {
    tl_lock *holder = make_lock(client_direct(), KEY, AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    assert_true(tl_lock_remaining_ms(holder) <= AGES_MS * INT64_C(9) / 11);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
}

int main(void) {
    server = start_fast();
    return tests_run();
}
