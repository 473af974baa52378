/*
 * Lets contenders take turns in short slices, so that whatever else the machine does meets all of
 * them alike. Each slice is a process of its own: nothing is warm, open or in the way that would not be so
 * in a user's program. Its process is forked by one that has opened nothing.
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define WARM_PART 4           /* of a slice, before it */
#define COUNT_WARM (200 * MS) /* as if it were a slice */

int64_t now_ns(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

void meter_start(meter *m) {
    m->from_server = bench_server_cpu_ns();
    m->from_client = bench_client_cpu_ns();
    m->from_ns = now_ns();
    m->running = true;
}

void meter_stop(meter *m) {
    if (!m->running)
        return;
    m->ns += now_ns() - m->from_ns;
    m->client_ns += bench_client_cpu_ns() - m->from_client;
    m->server_ns += bench_server_cpu_ns() - m->from_server;
    m->running = false;
}

/* ---- processes ------------------------------------------------------------------------------- */

void *share(size_t n) {
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        die("shared memory: %s", strerror(errno));
    return p;
}

void apart(void (*work)(void *), void *ctx) {
    int status;
    (void)fflush(NULL); /* else a child that dies would print it again */
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        die("fork: %s", strerror(errno));
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        work(ctx);
        _exit(0);
    }
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
    if (status != 0)
        die("a contender has ended with wait status %d", status);
}

/* ---- slices ---------------------------------------------------------------------------------- */

/* In memory that the contender's process shares with us. */
typedef struct {
    const contender *c;
    int64_t slice_ns;
    double (*count)(const contender *c, void *ctx);
    meter used;
    hist hist;
    double counted;
} turn;

uint64_t repeat(const contender *c, void *ctx, int64_t until_ns) {
    uint64_t n = 0;
    do {
        c->operation(ctx);
        n++;
    } while (now_ns() < until_ns);
    return n;
}

static void work(const contender *c, void *ctx, int64_t slice_ns, meter *m) {
    meter_start(m);
    int64_t until_ns = m->from_ns + slice_ns;
    m->operations += c->run ? c->run(ctx, until_ns, m) : repeat(c, ctx, until_ns);
    meter_stop(m);
}

static void begin_and_work(void *arg) {
    turn *t = arg;
    meter warm = {0};
    void *ctx = t->c->open(t->c->ctx);
    work(t->c, ctx, t->slice_ns / WARM_PART, &warm);
    if (t->c->hist)
        hist_clear(t->c->hist);
    if (t->count)
        t->counted = t->count(t->c, ctx);
    else
        work(t->c, ctx, t->slice_ns, &t->used);
    if (t->c->hist)
        t->hist = *t->c->hist;
}

static turn *begin_apart(const turn *first) {
    static turn *t;
    t = t ? t : share(sizeof *t);
    *t = *first;
    apart(begin_and_work, t);
    return t;
}

static void slice(const contender *c, int64_t slice_ns, meter *m) {
    if (!c->open) {
        work(c, c->ctx, slice_ns, m);
        return;
    }
    const turn *t = begin_apart(&(turn){.c = c, .slice_ns = slice_ns, .used = *m});
    *m = t->used;
    if (c->hist)
        hist_merge(c->hist, &t->hist);
}

double count_apart(const contender *c, double (*count)(const contender *c, void *ctx)) {
    return begin_apart(&(turn){.c = c, .slice_ns = COUNT_WARM, .count = count})->counted;
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void write_down(figures *f, int round, const meter *m, const hist *h) {
    double n = m->operations ? (double)m->operations : 1;
    f->rate[round] = (double)m->operations / ((double)m->ns / SECOND);
    f->client_us[round] = (double)m->client_ns / n / 1000;
    f->server_us[round] = (double)m->server_ns / n / 1000;
    f->core_rate[round] = n * SECOND / (double)(m->client_ns + m->server_ns + 1);
    f->p50_us[round] = h ? hist_us(h, 0.50) : 0;
    f->p99_us[round] = h ? hist_us(h, 0.99) : 0;
}

void take_turns(const contender *c, int n, int64_t slice_ns, int slices, figures *ret) {
    meter warm = {0};
    for (int i = 0; i < n; i++)
        if (!c[i].open)
            slice(&c[i], slice_ns, &warm);
    for (int round = 0; round < rounds; round++) {
        meter m[CONTENDERS_MAX] = {0};
        for (int i = 0; i < n; i++)
            if (c[i].hist)
                hist_clear(c[i].hist);
        for (int s = 0; s < slices; s++)
            for (int i = s; i < s + n; i++) /* each is the first as often as others */
                slice(&c[i % n], slice_ns, &m[i % n]);
        for (int i = 0; i < n; i++)
            write_down(&ret[i], round, &m[i], c[i].hist);
    }
}
