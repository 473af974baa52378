/*
 * The tool's clocks, and its only timer: CLOCK_BOOTTIME, as the library's
 * deadlines, so that a laptop that slept past a deadline acts on it as soon as it wakes.
 */
#include <errno.h>
#include <stdlib.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

#include "base/moment.h"
#include "base/tool.h"
#include "ground/clock.h"
#include "ground/guard.h"

int64_t moment_ms(void) {
    return tl__mono_now().ns / TL_NS_PER_MS;
}

int64_t moment_wall_us(void) {
    return tl__wall_now().us;
}

int moment_timer(void) {
    return timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK);
}

void moment_timer_set(int fd, int64_t in_ms) {
    struct itimerspec when = {.it_value = {0}};

    if (in_ms != MOMENT_NEVER) {
        if (in_ms < 0)
            in_ms = 0;
        when.it_value.tv_sec = in_ms / 1000;
        when.it_value.tv_nsec = in_ms % 1000 * 1000000 + 1; /* all zero would disarm it */
    }
    (void)timerfd_settime(fd, 0, &when, NULL);
}

/* ---- steps of the wall clock --------------------------------------------------------------------------- */

#define NEVER_S                                                                                    \
    253402300800 /* the year 10000: the timer never expires; a step of the clock cancels it */

static bool arm(int fd) {
    const struct itimerspec never = {.it_value = {.tv_sec = (time_t)NEVER_S}};
    return timerfd_settime(fd, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &never, NULL) == 0;
}

int moment_set_begin(void) {
    int fd = timerfd_create(CLOCK_REALTIME, TFD_CLOEXEC | TFD_NONBLOCK);
    if (fd >= 0 && !arm(fd)) {
        close(fd);
        fd = -1;
    }
    return fd;
}

/* ECANCELED: the clock was set. Any other result may mean the same; only EAGAIN and EINTR do not. */
bool moment_set_seen(int fd) {
    uint64_t times;
    if (fd < 0 || (read(fd, &times, sizeof times) < 0 && (errno == EAGAIN || errno == EINTR)))
        return false;
    (void)arm(fd);
    return true;
}

/* ---- all clocks ---------------------------------------------------------------------------------------- */

static int64_t read_ns(clockid_t id) {
    struct timespec t = {0};

    (void)clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* The narrowest of a few readings, so that a pause during one of them does no harm. */
moments moment_all(void) {
    moments best = {0};

    for (int i = 0; i < 5; i++) {
        moments moments;
        moments.before_ns = read_ns(CLOCK_BOOTTIME);
        int64_t wall = read_ns(CLOCK_REALTIME);
        moments.monotonic_ns = read_ns(CLOCK_MONOTONIC);
        moments.after_ns = read_ns(CLOCK_BOOTTIME);
        moments.wall_us = wall / 1000 - (wall % 1000 < 0);
        if (i == 0 || moments.after_ns - moments.before_ns < best.after_ns - best.before_ns)
            best = moments;
        if (best.after_ns - best.before_ns < 5000)
            break;
    }
    return best;
}

/* CLOCK_MONOTONIC_RAW is the only clock that is not slewed. */
int64_t moment_slewed_us(void) {
    int64_t best_ns = INT64_MAX, slewed_ns = 0;

    for (int i = 0; i < 5; i++) {
        int64_t before = read_ns(CLOCK_MONOTONIC_RAW), monotonic = read_ns(CLOCK_MONOTONIC),
                after = read_ns(CLOCK_MONOTONIC_RAW);
        if (after - before < best_ns) {
            best_ns = after - before;
            slewed_ns = monotonic - before - best_ns / 2;
        }
    }
    return slewed_ns / 1000;
}

/* The barriers keep the reading between the two of other clocks. */
uint64_t moment_counter(void) {
#if defined __x86_64__
    __builtin_ia32_lfence();
    uint64_t counter = __builtin_ia32_rdtsc();
    __builtin_ia32_lfence();
    return counter;
#elif defined __aarch64__
    uint64_t counter;
    __asm__ volatile("isb; mrs %0, cntvct_el0; isb" : "=r"(counter)::"memory");
    return counter;
#else
    return 0;
#endif
}

#define CRYSTAL_PPM                                                                                \
    100 /* a permanent correction of the clock's rate; more than that may be temporary */
#define NORMAL_PPM                                                                                 \
    500 /* the most that the kernel's frequency may be set to; adjtime(3) slews so fast */
#define SLEW_PPM 83333 /* how fast chronyd corrects an offset by default */
#define LOOP_SHIFT 2   /* the kernel's SHIFT_PLL */
#define LOOP_CONSTANT_MOST 10

/* The kernel's loop corrects a part of its offset in each second, 1/2^(2 + constant), and reports what is
 * left. systemd-timesyncd begins with a constant of 1, ntpd with one of 3 to 10. So it may be much faster
 * than the frequency can be. */
static int64_t loop_ppm(const struct timex *t) {
    int64_t left_us = llabs(t->offset) / (t->status & STA_NANO ? 1000 : 1) + (t->offset != 0);
    int constant = t->constant < 0                    ? 0
                   : t->constant < LOOP_CONSTANT_MOST ? (int)t->constant
                                                      : LOOP_CONSTANT_MOST;
    int64_t parts = (1 << (LOOP_SHIFT + constant)) - 1; /* of what is left */
    return (left_us + parts - 1) / parts;
}

/* adjtime(3), which ntpd -x and OpenNTPD use, has an offset of its own; asking for it changes nothing. */
static int64_t adjtime_ppm(int (*ask)(struct timex *)) {
    struct timex t = {.modes = ADJ_OFFSET_SS_READ};
    return GUARD(slew_of_adjtime) && ask(&t) >= 0 && t.offset != 0 ? NORMAL_PPM : 0;
}

kernel_clock moment_kernel_says(int (*ask)(struct timex *)) {
    struct timex t = {.modes = 0};
    int state = ask(&t);

    if (state < 0)
        return (kernel_clock){.known = false};
    long ticks = sysconf(_SC_CLK_TCK) > 0 ? sysconf(_SC_CLK_TCK) : 100;
    /* a tick more or less in each of the ticks of a second; the frequency counts in 1/65536 ppm */
    int64_t ppm = (t.tick - 1000000 / ticks) * ticks + t.freq / 65536;
    kernel_clock kernel = {.known = true,
                           .synchronised = state != TIME_ERROR && !(t.status & STA_UNSYNC),
                           .leaping = state != TIME_OK && state != TIME_ERROR,
                           .max_error_us = t.maxerror};
    int64_t slew_ppm = (llabs(ppm) > CRYSTAL_PPM ? llabs(ppm) : 0) + adjtime_ppm(ask);
    if (GUARD(slew_of_the_loop))
        slew_ppm += loop_ppm(&t);
    if (llabs(ppm) > NORMAL_PPM && slew_ppm < SLEW_PPM)
        slew_ppm = SLEW_PPM;
    kernel.slew_ppm = slew_ppm == 0 || slew_ppm > NORMAL_PPM ? (int32_t)slew_ppm : NORMAL_PPM;
    return kernel;
}

kernel_clock moment_kernel(void) {
    return moment_kernel_says(adjtimex);
}
