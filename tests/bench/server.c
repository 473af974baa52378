/*
 * The server, where it and we run, and the way between the two. It must never touch a server that it
 * did not start.
 */
#ifndef TL_SYSTEM_TIME_64 /* hiredis takes a struct timeval: the system's, of 32 bits in some 32-bit systems */
#undef _TIME_BITS
#endif
#include <errno.h>
#include <dirent.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "delay.h"
#include "real_redis.h"

#define ROUND_TRIP_NS (5 * MS)
#define FURTHER_NS (6 * MS)
#define PINGS 30 /* for one measurement of the round trip */

/* A delay, and what its round trip was calibrated to. */
typedef struct {
    delay *delay;
    int64_t trip_ns, each_ns; /* each: one way */
    char url[64];
} way;

static real_redis *server;
static cpu_set_t all, of_servers; /* that we may use; where the regime has its server */
static int core[2], cores;        /* the first two that we may use; of how many */
static regime present;
static pid_t own; /* of the program; what it forks is another */
static way usual, further;
static real_redis *const *counted; /* whose CPU; where counted_n is 0, the server's */
static int counted_n;
static const struct timeval limit = {.tv_sec = 20};

void die(const char *format, ...) {
    va_list args;
    (void)fflush(stdout);
    fputs("bench: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (own != getpid())
        _exit(1);
    exit(1);
}

/* A thousand clients take several descriptors each of the server and of the delay. */
static void raise_limit(void) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        die("getrlimit: %s", strerror(errno));
    files.rlim_cur = files.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &files);
}

void bench_start(void) {
    const real_redis_options options = {.config = "tcp-backlog 4096"};
    own = getpid();
    raise_limit();
    if (sched_getaffinity(0, sizeof all, &all) != 0)
        die("sched_getaffinity: %s", strerror(errno));
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &all) && cores++ < 2)
            core[cores - 1] = i;
    server = real_redis_start(&options);
}

/* ---- pinning --------------------------------------------------------------------------------- */

static bool pin_task(pid_t task, const cpu_set_t *to) {
    return sched_setaffinity(task, sizeof *to, to) == 0;
}

/* All threads of a server. */
static bool pin_server(const real_redis *r, const cpu_set_t *to) {
    char path[64];
    bool done = true;
    (void)snprintf(path, sizeof path, "/proc/%ld/task", (long)real_redis_pid(r));
    DIR *dir = opendir(path);
    if (!dir)
        return false;
    // cppcheck-suppress readdirCalled ; no other thread reads this directory
    for (struct dirent *e; (e = readdir(dir));)
        if (e->d_name[0] != '.')
            done = pin_task((pid_t)strtol(e->d_name, NULL, 10), to) && done;
    closedir(dir);
    return done;
}

static const char *pin(bool pinned, int server_core, int client_core) {
    cpu_set_t s = all, c = all;
    if (pinned) {
        CPU_ZERO(&s);
        CPU_ZERO(&c);
        CPU_SET(server_core, &s);
        CPU_SET(client_core, &c);
    }
    of_servers = s;
    return pin_server(server, &s) && pin_task(0, &c) ? NULL
                                                     : "this machine does not let us choose cores";
}

void bench_pin(const real_redis *r, bool serves) {
    if (!pin_server(r, serves ? &of_servers : &all))
        die("a server can't be pinned");
}

/* ---- the delay ------------------------------------------------------------------------------- */

static int by_size(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static redisContext *connected(redisContext *c) {
    if (!c || c->err)
        die("connect: %s", c ? c->errstr : "out of memory");
    redisSetTimeout(c, limit);
    return c;
}

static redisContext *connect_by(const way *w) {
    return connected(redisConnectWithTimeout("127.0.0.1", delay_port(w->delay), limit));
}

/* Of PINGs, sorted, ns. Closes the connection. */
static void round_trips(redisContext *c, int64_t *ret) {
    for (int i = 0; i < PINGS + 3; i++) { /* the first few don't count */
        int64_t start = now_ns();
        freeReplyObject(redisCommand(c, "PING"));
        ret[i % PINGS] = now_ns() - start;
    }
    redisFree(c);
    qsort(ret, PINGS, sizeof *ret, by_size);
}

/* Choose the delay so that a PING takes what a round trip shall take, wake-ups and all. */
static void calibrate(way *w, int64_t trip_ns) {
    int64_t trip[PINGS], each = trip_ns / 2;
    char what[64];
    for (int i = 0; i < 3; i++) {
        delay_set(w->delay, each);
        round_trips(connect_by(w), trip);
        each += (trip_ns - trip[PINGS / 2]) / 2;
    }
    delay_set(w->delay, each);
    w->each_ns = each;
    round_trips(connect_by(w), trip);
    double ms[] = {(double)trip[PINGS / 10] / MS, (double)trip[PINGS / 2] / MS,
                   (double)trip[PINGS * 9 / 10] / MS};
    (void)snprintf(what, sizeof what, "a PING's round trip, %.2f by choice, 10..90 of 100",
                   (double)trip_ns / MS);
    report(&(label){"delay", what, "ms", present, NULL}, ms, NULL, 3);
    w->trip_ns = trip_ns;
}

/* Its process may run anywhere, whatever the regime. */
static void open_way(way *w, int64_t trip_ns) {
    cpu_set_t mine;
    if (sched_getaffinity(0, sizeof mine, &mine) != 0)
        die("sched_getaffinity: %s", strerror(errno));
    (void)pin_task(0, &all);
    w->delay = delay_start(real_redis_port(server));
    (void)pin_task(0, &mine);
    (void)snprintf(w->url, sizeof w->url, "redis://127.0.0.1:%d", delay_port(w->delay));
    calibrate(w, trip_ns);
}

delay *bench_delay(int port) {
    delay *d = delay_start(port);
    delay_set(d, usual.each_ns);
    return d;
}

int64_t bench_round_trip_ns(void) {
    int64_t trip[PINGS];
    round_trips(bench_connect(), trip);
    return trip[PINGS / 2];
}

/* ---- regimes --------------------------------------------------------------------------------- */

const char *bench_enter(regime r) {
    const char *problem = NULL;
    present = r;
    switch (r) {
    case ONE: problem = pin(true, core[0], core[0]); break;
    case CROSS: problem = cores < 2 ? "it needs two cores" : pin(true, core[0], core[1]); break;
    default: problem = pin(false, 0, 0); break;
    }
    if (r == DELAY && !problem && !usual.delay)
        open_way(&usual, ROUND_TRIP_NS);
    return problem;
}

const char *bench_url(void) {
    return present == DELAY ? usual.url : real_redis_url(server);
}

const char *bench_unix_url(void) {
    return real_redis_unix_url(server);
}

int bench_port(void) {
    return present == DELAY ? delay_port(usual.delay) : real_redis_port(server);
}

const char *bench_further_url(void) {
    int64_t trip_ns = FURTHER_NS + (present == DELAY ? ROUND_TRIP_NS : 0);
    if (!further.delay)
        open_way(&further, trip_ns);
    else if (further.trip_ns != trip_ns)
        calibrate(&further, trip_ns);
    return further.url;
}

redisContext *bench_connect_near(void) {
    return connected(redisConnectUnixWithTimeout(real_redis_socket(server), limit));
}

redisContext *bench_connect(void) {
    return connected(redisConnectWithTimeout("127.0.0.1", bench_port(), limit));
}

tl_client *bench_client(void) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = bench_url());
    tl_client *client;
    tl_error err;
    if (tl_client_open(&options, &client, &err) || tl_client_ping(client, &err))
        die("%s", err.message);
    return client;
}

tl_lock *bench_lock(const tl_client_options *options, const char *key) {
    tl_client *client;
    tl_lock *lock;
    tl_error err;
    if (tl_client_open(options, &client, &err) || tl_client_ping(client, &err) ||
        !(lock = tl_lock_new(client, key, strlen(key), NULL, &err)))
        die("%s", err.message);
    return lock;
}

void bench_pair(void *lock) {
    tl_error err;
    if (tl_lock_acquire(lock, 0, &err) || tl_lock_release(lock, &err))
        die("%s", err.message);
}

redisReply *bench_ask(const char *command) {
    redisReply *reply = real_redis_command(server, command);
    if (!reply)
        die("%s: no answer", command);
    return reply;
}

void bench_flush(void) {
    freeReplyObject(bench_ask("FLUSHALL"));
}

/* ---- numbers --------------------------------------------------------------------------------- */

static int64_t cpu_ns(clockid_t clock) {
    struct timespec t = {0};
    (void)clock_gettime(clock, &t);
    return t.tv_sec * SECOND + t.tv_nsec;
}

void bench_count_cpu_of(real_redis *const *r, int n) {
    counted = r;
    counted_n = n;
}

static int64_t cpu_of(const real_redis *r) {
    clockid_t clock;
    return clock_getcpuclockid(real_redis_pid(r), &clock) == 0 ? cpu_ns(clock) : 0;
}

int64_t bench_server_cpu_ns(void) {
    int64_t ns = counted_n ? 0 : cpu_of(server);
    for (int i = 0; i < counted_n; i++)
        ns += cpu_of(counted[i]);
    return ns;
}

int64_t bench_client_cpu_ns(void) {
    return cpu_ns(CLOCK_PROCESS_CPUTIME_ID);
}

const char *bench_describe(void) {
    static char words[160];
    double load = 0;
    (void)getloadavg(&load, 1);
    redisReply *info = bench_ask("INFO server");
    const char *at = strstr(info->str, "redis_version:");
    at = at ? at + strlen("redis_version:") : "?";
    (void)snprintf(words, sizeof words,
                   "tidelock %s, %d cores with a load of %.1f, redis %.*s, hiredis %d.%d.%d",
                   tl_version(), cores, load, (int)strcspn(at, "\r\n"), at, HIREDIS_MAJOR,
                   HIREDIS_MINOR, HIREDIS_PATCH);
    freeReplyObject(info);
    return words;
}
