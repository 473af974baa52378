/*
 * `tidelock run KEY -- true` beside plain `true`, and what it adds in round trips: the difference
 * between a near server and one that is a delay away. Four are the least: to connect, to log in, to acquire
 * and to release. reach() in protocol/acquire.c says why no acquire goes out with the login.
 */
#include <errno.h>
#include <poll.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "bench.h"

#define PAUSE_MS 100 /* before each */
#define SLICES 10
#define ROUND_TRIP_MS 5.0
#define ROW "cli"

extern char **environ;

static double near_ms; /* median over exec in regime free; 0 unknown */

typedef struct {
    char **argv;
    double cpu_ms; /* of all runs and what they started */
    uint64_t runs;
} program;

static double ms_of(struct timeval t) {
    return (double)t.tv_sec * 1000 + (double)t.tv_usec / 1000;
}

static void spawn(program *p) {
    pid_t pid;
    struct rusage used;
    int status, code = posix_spawnp(&pid, p->argv[0], NULL, NULL, p->argv, environ);
    if (code != 0)
        die("%s: %s", p->argv[0], strerror(code));
    while (wait4(pid, &status, 0, &used) < 0 && errno == EINTR) {}
    if (status != 0)
        die("%s: wait status %d", p->argv[0], status);
    p->cpu_ms += ms_of(used.ru_utime) + ms_of(used.ru_stime);
    p->runs++;
}

/* One, some time after the one before: people and timers start it, and other work has had the caches meanwhile. */
static uint64_t spawn_later(void *ctx, int64_t until_ns, meter *m) {
    (void)until_ns;
    (void)poll(NULL, 0, PAUSE_MS);
    meter_start(m);
    spawn(ctx);
    return 1;
}

void row_cli(regime r) {
    static figures f[2];
    const char *tool = getenv("TIDELOCK");
    char *run[] = {
        (char *)(tool ? tool : "build/tidelock"), "run", "bench:cli", "--", "true", NULL};
    char *plain[] = {"true", NULL};
    program ours = {.argv = run}, base = {.argv = plain};
    const contender c[] = {{.ctx = &ours, .run = spawn_later}, {.ctx = &base, .run = spawn_later}};
    double with[ROUNDS_MAX], without[ROUNDS_MAX], over[ROUNDS_MAX], trips[ROUNDS_MAX];
    if (setenv("TIDELOCK_URL", bench_url(), 1) != 0)
        die("setenv: %s", strerror(errno));
    take_turns(c, 2, 0, SLICES, f);
    for (int i = 0; i < rounds; i++) {
        with[i] = 1000 / f[0].rate[i];
        without[i] = 1000 / f[1].rate[i];
        over[i] = with[i] - without[i];
        trips[i] = (over[i] - near_ms) / ROUND_TRIP_MS;
    }
    report(&(label){ROW, "run KEY -- true, beside true", "ms", r, NULL}, with, without, rounds);
    report(&(label){ROW, "over exec", "ms", r, r == FREE ? "<= 3" : "<= 23"}, over, NULL, rounds);
    report_two(&(label){ROW, "CPU of a run, beside true's", "ms", r, NULL},
               ours.cpu_ms / (double)ours.runs, base.cpu_ms / (double)base.runs);
    if (r == FREE)
        near_ms = median(over, rounds);
    else if (near_ms > 0)
        report(&(label){ROW, "over exec, beyond a near server", "round trips", r, "<= 4.1"}, trips,
               NULL, rounds);
}
