/*
 * What the kernel says of its clock, and what follows for how fast that may move: a daemon that corrects it
 * turns up the length of its ticks. Here the kernel is told what to say.
 */
#include <limits.h>
#include <sys/timex.h>
#include <unistd.h>

#include "tests.h"
#include "base/moment.h"

static struct timex said;
static int answer;
static long adjtime_left_us; /* LONG_MIN: a kernel that doesn't tell */
static int kernel(struct timex *t) {
    bool of_adjtime = t->modes == ADJ_OFFSET_SS_READ;
    assert_true(t->modes == 0 || of_adjtime); /* it changes nothing */
    *t = said;
    if (of_adjtime)
        t->offset = adjtime_left_us;
    return of_adjtime && adjtime_left_us == LONG_MIN ? -1 : answer;
}

/* A tick of 1/100 s takes so many us; the frequency is in ppm. */
static kernel_clock with(long tick, long ppm, long offset) {
    long ticks = sysconf(_SC_CLK_TCK) > 0 ? sysconf(_SC_CLK_TCK) : 100;
    said = (struct timex){.tick = 1000000 / ticks + (tick - 10000) * 100 / ticks,
                          .freq = ppm * 65536,
                          .offset = offset,
                          .maxerror = 777};
    answer = TIME_OK;
    return moment_kernel_says(kernel);
}

TEST(a_clock_that_nobody_corrects_is_not_slewed) {
    for (long ppm = -100; ppm <= 100; ppm += 20) { /* for good, against its crystal's error */
        kernel_clock k = with(10000, ppm, 0);
        assert_true(k.known && k.synchronised && !k.leaping);
        assert_int_equal(k.slew_ppm, 0);
        assert_int_equal(k.max_error_us, 777);
    }
}

TEST(a_correction_may_be_as_fast_as_daemons_make_it) {
    for (int sign = -1; sign <= 1; sign += 2) {
        assert_int_equal(with(10000 + sign * 10, 0, 0).slew_ppm, 83333); /* 1,000 ppm just now */
        assert_int_equal(with(10000 + sign * 800, 0, 0).slew_ppm, 83333);
        assert_int_equal(with(10000 + sign * 1000, 0, 0).slew_ppm, 100000);
        assert_int_equal(with(10000 + sign * 10, -sign * 500, 0).slew_ppm,
                         500); /* 500 ppm in all */
        assert_int_equal(with(10000 + sign * 10, -sign * 900, 0).slew_ppm, 0);
        assert_int_equal(with(10000, sign * 101, 0).slew_ppm, 500); /* more than a crystal is off */
        assert_int_equal(with(10000, 0, sign * 3).slew_ppm, 500);   /* by the kernel's own loop */
    }
}

/* What is left of an offset in the loop of a kernel that counts in ns, with this constant. */
static kernel_clock loop(long constant, long left_us, long ppm) {
    (void)with(10000, ppm, left_us * 1000);
    said.constant = constant;
    said.status = STA_NANO;
    return moment_kernel_says(kernel);
}

TEST(the_kernels_loop_may_be_faster_than_its_frequency) {
    /* timesyncd, 400 ms off: an eighth in the first second, 50 ms, of which 350 ms are left. */
    assert_int_equal(loop(1, 350000, 0).slew_ppm, 50001);
    assert_int_equal(loop(1, -350000, 0).slew_ppm, 50001);
    assert_int_equal(loop(0, 375000, 0).slew_ppm, 125001);
    assert_int_equal(loop(-7, 375000, 0).slew_ppm, 125001);
    assert_int_equal(loop(7, 350000, 0).slew_ppm, 685);
    assert_int_equal(loop(10, 400000, 0).slew_ppm, 500);
    assert_int_equal(loop(99, 400000, 0).slew_ppm, 500);
    assert_int_equal(loop(1, 7000, 300).slew_ppm, 1301); /* and its frequency */
    assert_int_equal(loop(1, 7000, 90).slew_ppm, 1001);  /* that of its crystal */
    (void)with(10000, 0, 8000);                          /* in us */
    said.constant = 1;
    assert_int_equal(moment_kernel_says(kernel).slew_ppm, 1143);
}

TEST(adjtime_is_seen) {
    adjtime_left_us = 20000;
    assert_int_equal(with(10000, 0, 0).slew_ppm, 500);
    assert_int_equal(with(10000, 60, 0).slew_ppm, 500);
    assert_int_equal(with(10000, 300, 0).slew_ppm, 800);
    assert_int_equal(with(10100, 0, 0).slew_ppm, 83333);
    adjtime_left_us = LONG_MIN; /* an old kernel, or one that forbids the question */
    assert_int_equal(with(10000, 0, 0).slew_ppm, 0);
    adjtime_left_us = -1;
    assert_int_equal(with(10000, 0, 0).slew_ppm, 500);
    adjtime_left_us = 0;
    assert_int_equal(with(10000, 0, 0).slew_ppm, 0);
}

TEST(what_the_kernel_says_of_itself_is_told) {
    (void)with(10000, 0, 0);
    said.status = STA_UNSYNC;
    assert_false(moment_kernel_says(kernel).synchronised);
    said.status = 0;
    answer = TIME_ERROR;
    assert_false(moment_kernel_says(kernel).synchronised);
    assert_false(moment_kernel_says(kernel).leaping);
    answer = TIME_INS;
    assert_true(moment_kernel_says(kernel).leaping);
    answer = -1;
    assert_false(moment_kernel_says(kernel).known);
}
