/*
 * To be preloaded into an agent: its wall clock, and where ODD_CLOCK_ALL is set all of its clocks, run by ODD_CLOCK_PPM too fast,
 * and the wall clock is ahead by the microseconds that the file ODD_CLOCK_SHIFT holds (8 bytes), read anew each time. Who
 * has set the clock, the kernel tells by a timer; here whoever writes to the FIFO ODD_CLOCK_NEWS does.
 *
 * From a moment on the clocks are slewed, as a daemon lets the kernel do it: all but CLOCK_MONOTONIC_RAW run by the ppm that
 * the file ODD_CLOCK_SLEW holds too fast, and adjtimex() tells of it in one of several ways.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/timex.h>
#include <time.h>
#include <unistd.h>

static int news = -1;

static int64_t true_ns(clockid_t id) {
    struct timespec t;
    (void)syscall(SYS_clock_gettime, id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static const volatile int64_t *numbers(const char *variable, const int64_t *none, size_t size) {
    const char *path = getenv(variable);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *at = fd >= 0 ? mmap(NULL, size, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (fd >= 0)
        close(fd);
    return at == MAP_FAILED ? none : at;
}

/* Since and until are of CLOCK_MONOTONIC_RAW; until 0: it goes on. Base: what earlier slews have gained. The sequence is odd
 * while somebody writes: a slew's first moment is read while it is odd, so nobody reads a clock between that moment and the
 * slew. */
enum { SEQUENCE, SINCE_NS, PPM, WAY, UNTIL_NS, BASE_NS, NUMBERS };
enum { BY_TICKS, BY_ADJTIME, BY_LOOP };
/* Two clocks that are read within this time are read at one moment. Where reading takes longer, so be it. */
#define TOGETHER_NS 20000
#define TRIES 100

typedef struct {
    int64_t gained_ns, ppm, way; /* ppm 0: it is not slewed */
    int64_t ns; /* the clock that was asked for, at the same moment, without the gain */
} slewing;

static slewing look(clockid_t id) {
    static const volatile int64_t *slew;
    static const int64_t none[NUMBERS];
    int64_t v[NUMBERS], ns, before, now;
    int tries = 0;
    if (!slew)
        slew = numbers("ODD_CLOCK_SLEW", none, sizeof none);
    do {
        for (int i = 0; i < NUMBERS; i++)
            v[i] = slew[i];
        before = true_ns(CLOCK_MONOTONIC_RAW);
        ns = true_ns(id);
        now = true_ns(CLOCK_MONOTONIC_RAW);
    } while (v[SEQUENCE] % 2 == 1 || v[SEQUENCE] != slew[SEQUENCE] ||
             (now - before > TOGETHER_NS && ++tries < TRIES));
    int64_t until = v[UNTIL_NS] && v[UNTIL_NS] < now ? v[UNTIL_NS] : now;
    return (slewing){v[BASE_NS] + (until - v[SINCE_NS]) / 1000 * v[PPM] / 1000,
                     until == now ? v[PPM] : 0, v[WAY], ns};
}

int adjtimex(struct timex *t) {
    unsigned asked = t->modes;
    int state = (int)syscall(SYS_adjtimex, t);
    slewing now = look(CLOCK_REALTIME);
    int64_t ppm = now.ppm;
    if (state < 0 || !ppm)
        return state;
    if (asked == ADJ_OFFSET_SS_READ) {
        t->offset = now.way == BY_ADJTIME ? 1000000 : 0;
    } else if (now.way == BY_TICKS) {
        t->tick = 10000 + ppm / 100;
        t->freq = ppm % 100 * 65536;
    } else if (now.way == BY_LOOP) { /* with a constant of 1: an eighth in each second */
        t->constant = 1;
        t->status &= ~STA_NANO;
        t->offset = ppm * 7;
    }
    return state;
}

static int64_t gained_ns(void) {
    static int64_t began, ppm;
    if (!began) {
        const char *text = getenv("ODD_CLOCK_PPM");
        ppm = text ? strtoll(text, NULL, 10) : 0;
        began = true_ns(CLOCK_BOOTTIME);
    }
    return (true_ns(CLOCK_BOOTTIME) - began) / 1000 * ppm / 1000;
}

static int64_t shift_ns(void) {
    static const volatile int64_t *shift;
    static const int64_t none;
    if (!shift)
        shift = numbers("ODD_CLOCK_SHIFT", &none, sizeof none);
    return *shift * 1000;
}

int clock_gettime(clockid_t id, struct timespec *ret) {
    slewing now = look(id);
    int64_t ns = now.ns + (id == CLOCK_MONOTONIC_RAW ? 0 : now.gained_ns);
    if (id == CLOCK_REALTIME)
        ns += gained_ns() + shift_ns();
    else if (getenv("ODD_CLOCK_ALL"))
        ns += gained_ns();
    *ret = (struct timespec){ns / 1000000000, ns % 1000000000};
    return 0;
}

int timerfd_create(int id, int flags) {
    const char *fifo = getenv("ODD_CLOCK_NEWS");
    if (id != CLOCK_REALTIME)
        return (int)syscall(SYS_timerfd_create, id, flags);
    if (!fifo)
        errno = ENOSYS; /* a kernel that doesn't tell */
    else
        news = open(fifo, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    return news;
}

int timerfd_settime(int fd, int flags, const struct itimerspec *when, struct itimerspec *was) {
    if (fd == news && fd >= 0)
        return flags == (TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET) ? 0 : -1;
    return (int)syscall(SYS_timerfd_settime, fd, flags, when, was);
}

ssize_t read(int fd, void *to, size_t n) {
    ssize_t got = syscall(SYS_read, fd, to, n);
    if (fd != news || fd < 0 || got <= 0)
        return got;
    errno = ECANCELED;
    return -1;
}
