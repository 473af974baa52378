/*
 * Signs of life, as the threads that give them and the renewal thread see them. The clock of this program is its own, so
 * that another thread's signs can come between the steps of a call.
 */
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests.h"

#include "client/lock.h"

#define STALL_MS 100
#define AT(ms) ((ms)*TL_NS_PER_MS)

static tl_lock lock;
static int64_t now_ns;
static int
    between; /* so many signs of others come while a sign is being given, one after each reading */
static bool is_other;

/* What the library reads: the time that is set, after which another thread gives a sign, a millisecond later. */
int clock_gettime(clockid_t id, struct timespec *ts) {
    if (id != CLOCK_BOOTTIME)
        return (int)syscall(SYS_clock_gettime, id, ts);
    int64_t read_ns = now_ns;
    if (between > 0 && !is_other) {
        between--;
        now_ns += AT(1);
        is_other = true;
        tl_lock_alive(&lock);
        is_other = false;
    }
    ts->tv_sec = read_ns / 1000000000;
    ts->tv_nsec = read_ns % 1000000000;
    return 0;
}

static int set_up(void **state) {
    const tl_rare_options rare = {.stall_ms = STALL_MS};
    (void)state;
    lock = (tl_lock){.rare = tl__rare_options_new(&rare)};
    between = 0;
    now_ns = AT(5000);
    tl_lock_alive(&lock);
    return lock.rare ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    tl__rare_options_free(lock.rare);
    return 0;
}

TESTS_WITH(set_up, tear_down);

TEST(a_lock_stalls_so_long_after_the_last_sign) {
    assert_int_equal(tl__lock_stalls_at(&lock).ns, AT(5000 + STALL_MS));
    now_ns = AT(5042);
    tl_lock_alive(&lock);
    assert_int_equal(tl__lock_stalls_at(&lock).ns, AT(5042 + STALL_MS));
}

TEST(a_lock_without_a_watchdog_never_stalls) {
    const tl_rare_options none = {.stall_ms = 0};
    tl_lock other = {.rare = tl__rare_options_new(&none)};
    tl_lock_alive(&other);
    assert_int_equal(tl__lock_stalls_at(&other).ns, TL_NEVER.ns);
    tl__rare_options_free(other.rare);
}

TEST(a_thread_held_up_before_its_write_takes_no_later_sign_back) {
    for (int others = 1; others <= 2; others++) {
        now_ns = AT(6000 * others);
        between = others;
        tl_lock_alive(&lock);
        assert_int_equal(between, 0);
        assert_int_equal(now_ns, AT(6000 * others + others));
        assert_int_equal(tl__lock_stalls_at(&lock).ns, now_ns + AT(STALL_MS));
    }
}
