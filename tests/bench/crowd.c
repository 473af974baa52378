/*
 * A member takes one order after the other from its place in the shared memory. Whoever fails says
 * why and ends, which the parent notices; all end with it.
 */
#include "crowd.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bare.h"
#include "bench.h"

#define KEY "bench:crowd"
#define QUEUE "bench:queue"
#define ASK_NS (20 * MS)   /* between two questions of a bare one */
#define TURNS_MAX 16384    /* of a member; pages that nobody writes to take no memory */
#define AT_ONCE 32         /* that reach the server */
#define BETWEEN_NS 100000  /* two that begin to wait: nobody's socket overflows */
#define LOOK_NS (100 * MS) /* whether all still live */
#define QUIET_NS (30 * MS) /* some round trips of any regime */
#define QUIET_SHARE 0.04   /* of a core: the server has no requests to serve */
#define PATIENCE_NS (60 * SECOND)
#define DESCRIPTORS 4 /* of a client, at most, in the server and twice in a delay */

typedef enum { KEEP, ONCE, AGAIN } order;

typedef struct {
    sem_t reported;
    order order;
    atomic_bool waits;
    atomic_uint turns;
    turn turn[TURNS_MAX];
} place;

struct crowd {
    sem_t done;
    atomic_bool over;
    int64_t hold_ns;
    crowd_kind kind;
    int members, processes, busy; /* busy: members that were told something, and aren't done */
    size_t size;                  /* of all this */
    pid_t *pid;
    place place[];
};

/* ---- a member -------------------------------------------------------------------------------- */

typedef struct {
    crowd *crowd;
    int number;
    tl_lock *lock;       /* or else */
    bare *bare;          /* or else */
    redisContext *queue; /* of its crowd's kind */
} member;

static void sleep_until(int64_t ns) {
    const struct timespec t = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) == EINTR) {}
}

static void await_order(place *p) {
    while (sem_wait(&p->reported) != 0 && errno == EINTR) {}
}

static void queue_command(const member *m, const char *command) {
    redisReply *reply = redisCommand(m->queue, command);
    if (!reply || (reply->type != REDIS_REPLY_ARRAY && reply->type != REDIS_REPLY_INTEGER))
        die("%s: %s", command, reply ? "no element" : m->queue->errstr);
    freeReplyObject(reply);
}

/* False: a bare one has given up, because nobody else shall go on. */
static bool acquire(const member *m) {
    tl_error err;
    if (m->queue)
        queue_command(m, "BLPOP " QUEUE " 0");
    else if (m->lock && tl_lock_acquire(m->lock, TL_FOREVER, &err))
        die("%s", err.message);
    while (m->bare && !bare_take(m->bare)) {
        if (atomic_load(&m->crowd->over))
            return false;
        sleep_until(now_ns() + ASK_NS);
    }
    return true;
}

static void release(const member *m) {
    tl_error err;
    if (m->queue)
        queue_command(m, "RPUSH " QUEUE " element");
    else if (m->bare)
        bare_drop(m->bare);
    else if (tl_lock_release(m->lock, &err))
        die("%s", err.message);
}

/* NULL: it has given up. */
static turn *begin_turn(const member *m, place *p) {
    unsigned k = atomic_load(&p->turns);
    if (k == TURNS_MAX)
        die("more than %d turns of one", TURNS_MAX);
    p->turn[k] = (turn){.asked_ns = now_ns(), .member = m->number};
    atomic_store(&p->waits, true);
    if (!acquire(m)) {
        atomic_store(&p->waits, false);
        return NULL;
    }
    p->turn[k].acquired_ns = now_ns();
    return &p->turn[k];
}

static void end_turn(const member *m, place *p, turn *t) {
    t->release_ns = now_ns();
    atomic_fetch_add(&p->turns, 1);
    atomic_store(&p->waits, false);
    release(m);
}

static void take_turn(const member *m, place *p) {
    turn *t = begin_turn(m, p);
    if (!t)
        return;
    if (m->crowd->hold_ns > 0)
        sleep_until(t->acquired_ns + m->crowd->hold_ns);
    end_turn(m, p, t);
}

static void keep_until_told(const member *m, place *p) {
    turn *t = begin_turn(m, p);
    (void)sem_post(&m->crowd->done);
    await_order(p);
    if (t)
        end_turn(m, p, t);
}

static void *serve(void *arg) {
    const member *m = arg;
    place *p = &m->crowd->place[m->number];
    (void)prctl(PR_SET_TIMERSLACK, 1);
    for (;;) {
        await_order(p);
        switch (p->order) {
        case KEEP: keep_until_told(m, p); break;
        case ONCE: take_turn(m, p); break;
        case AGAIN:
            while (!atomic_load(&m->crowd->over))
                take_turn(m, p);
        }
        (void)sem_post(&m->crowd->done);
    }
    return NULL;
}

static tl_client *reach(const crowd_part *part) {
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = part->url ? part->url : bench_url());
    tl_client *client;
    tl_error err;
    if (tl_client_open(&options, &client, &err) || tl_client_ping(client, &err))
        die("%s", err.message);
    return client;
}

static void equip(member *m, crowd *c, int number, tl_client *client) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = 30000, .fair = c->kind == CROWD_FAIR);
    *m = (member){.crowd = c, .number = number};
    tl_error err;
    if (c->kind == CROWD_BARE)
        m->bare = bare_open(KEY);
    else if (c->kind == CROWD_QUEUE)
        m->queue = bench_connect();
    else if (!(m->lock = tl_lock_new(client, KEY, strlen(KEY), &options, &err)))
        die("%s", err.message);
}

__attribute__((noreturn)) static void become(crowd *c, const crowd_part *part, int first) {
    member *m = calloc((size_t)part->threads, sizeof *m);
    pthread_t thread;
    tl_client *client = c->kind == CROWD_LOCK || c->kind == CROWD_FAIR ? reach(part) : NULL;
    if (!m)
        die("out of memory");
    for (int i = 0; i < part->threads; i++) {
        equip(&m[i], c, first + i, client);
        if (i > 0 && pthread_create(&thread, NULL, serve, &m[i]) != 0)
            die("threads: %s", strerror(errno));
    }
    (void)sem_post(&c->done);
    (void)serve(&m[0]);
    _exit(0);
}

/* ---- the crowd ------------------------------------------------------------------------------- */

void crowd_check(crowd *c) {
    for (int i = 0; i < c->processes; i++) {
        siginfo_t info = {0};
        if (waitid(P_PID, (id_t)c->pid[i], &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid)
            die("a process of the crowd has ended");
    }
}

/* One that was told something is done; false: not by then. */
static bool await_one(crowd *c, int64_t until_ns) {
    for (int64_t now; (now = now_ns()) < until_ns; crowd_check(c)) {
        struct timespec t;
        int64_t most = until_ns - now < LOOK_NS ? until_ns - now : LOOK_NS;
        (void)clock_gettime(CLOCK_REALTIME, &t);
        t.tv_nsec += (long)most;
        t.tv_sec += t.tv_nsec / SECOND;
        t.tv_nsec %= SECOND;
        if (sem_timedwait(&c->done, &t) == 0) {
            c->busy--;
            return true;
        }
    }
    return false;
}

static void await_all(crowd *c) {
    int64_t until_ns = now_ns() + PATIENCE_NS;
    while (c->busy > 0)
        if (!await_one(c, until_ns))
            die("%d of the crowd did not end their turns", c->busy);
}

static void tell(crowd *c, int number, order what) {
    c->place[number].order = what;
    (void)sem_post(&c->place[number].reported);
    c->busy++;
}

static void fork_part(crowd *c, const crowd_part *part, int *member_n) {
    pid_t parent = getpid();
    int64_t until_ns = now_ns() + PATIENCE_NS;
    for (int i = 0; i < part->processes; i++) {
        pid_t pid = fork();
        if (pid < 0)
            die("fork: %s", strerror(errno));
        if (pid == 0) {
            (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent)
                _exit(1);
            become(c, part, *member_n);
        }
        c->pid[c->processes++] = pid;
        *member_n += part->threads;
        c->busy++;
        if (c->busy >= AT_ONCE && !await_one(c, until_ns))
            die("a process of the crowd does not reach the server");
    }
}

static crowd *make(int members, int processes) {
    const int access = PROT_READ | PROT_WRITE;
    size_t size = sizeof(crowd) + (size_t)members * sizeof(place);
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    crowd *c = mmap(NULL, size, access, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (c == MAP_FAILED)
        die("the crowd's memory: %s", strerror(errno));
    c->size = size;
    c->members = members;
    c->pid = calloc((size_t)processes, sizeof *c->pid);
    if (!c->pid || sem_init(&c->done, 1, 0) != 0)
        die("out of memory");
    for (int i = 0; i < members; i++)
        if (sem_init(&c->place[i].reported, 1, 0) != 0)
            die("sem_init: %s", strerror(errno));
    return c;
}

crowd *crowd_open(const crowd_part part[CROWD_PARTS], crowd_kind kind) {
    struct rlimit files;
    crowd_part p[CROWD_PARTS];
    int members = 0, processes = 0, member_n = 0;
    for (int i = 0; i < CROWD_PARTS; i++) {
        p[i] = part[i];
        p[i].threads += p[i].threads == 0;
        processes += p[i].processes;
        members += p[i].processes * p[i].threads;
    }
    if (getrlimit(RLIMIT_NOFILE, &files) != 0 || files.rlim_cur < DESCRIPTORS * (rlim_t)processes)
        return NULL;
    crowd *c = make(members, processes);
    c->kind = kind;
    (void)fflush(NULL); /* else each of them would print it again */
    for (int i = 0; i < CROWD_PARTS; i++)
        fork_part(c, &p[i], &member_n);
    await_all(c);
    return c;
}

void crowd_kill(crowd *c) {
    for (int i = 0; i < c->processes; i++)
        (void)kill(c->pid[i], SIGKILL);
    for (int i = 0; i < c->processes; i++)
        while (waitpid(c->pid[i], NULL, 0) < 0 && errno == EINTR) {}
    c->processes = 0;
    bench_flush();
}

void crowd_close(crowd *c) {
    if (!c)
        return;
    crowd_kill(c);
    free(c->pid);
    (void)munmap(c, c->size);
}

/* ---- once, and again and again --------------------------------------------------------------- */

/* Until all of them wait, and the server has nothing more to do for them. */
static void await_waiting(crowd *c, int n) {
    int64_t until_ns = now_ns() + PATIENCE_NS;
    for (int i = 1; i <= n; i++)
        while (!atomic_load(&c->place[i].waits) && now_ns() < until_ns)
            sleep_until(now_ns() + BETWEEN_NS);
    for (double share = 1; share > QUIET_SHARE && now_ns() < until_ns;) {
        int64_t from_ns = now_ns(), from_cpu = bench_server_cpu_ns();
        sleep_until(from_ns + QUIET_NS);
        share = (double)(bench_server_cpu_ns() - from_cpu) / (double)(now_ns() - from_ns);
    }
    crowd_check(c);
}

int crowd_once(crowd *c, int n, int64_t hold_ns, int64_t limit_ns) {
    c->hold_ns = hold_ns;
    tell(c, 0, KEEP);
    await_all(c);
    for (int i = 1; i <= n; i++) {
        tell(c, i, ONCE);
        sleep_until(now_ns() + BETWEEN_NS);
    }
    await_waiting(c, n);
    int64_t until_ns = now_ns() + limit_ns;
    (void)sem_post(&c->place[0].reported);
    c->busy++;
    while (c->busy > 0 && await_one(c, until_ns)) {}
    return c->busy;
}

void crowd_begin(crowd *c, int from, int n, int64_t hold_ns) {
    c->hold_ns = hold_ns;
    atomic_store(&c->over, false);
    if (c->kind == CROWD_QUEUE)
        freeReplyObject(bench_ask("RPUSH " QUEUE " element"));
    for (int i = from; i < from + n; i++)
        tell(c, i, AGAIN);
}

void crowd_end(crowd *c) {
    atomic_store(&c->over, true);
    await_all(c);
    if (c->kind == CROWD_QUEUE)
        freeReplyObject(bench_ask("DEL " QUEUE));
}

/* ---- what they wrote down -------------------------------------------------------------------- */

void crowd_forget(crowd *c) {
    for (int i = 0; i < c->members; i++)
        atomic_store(&c->place[i].turns, 0);
}

uint32_t crowd_turns_of(const crowd *c, int member) {
    return atomic_load(&c->place[member].turns);
}

uint64_t crowd_turns(const crowd *c) {
    uint64_t n = 0;
    for (int i = 0; i < c->members; i++)
        n += crowd_turns_of(c, i);
    return n;
}

double crowd_held_ns(const crowd *c) {
    double ns = 0;
    for (int i = 0; i < c->members; i++)
        for (uint32_t k = 0, n = crowd_turns_of(c, i); k < n; k++)
            ns += (double)(c->place[i].turn[k].release_ns - c->place[i].turn[k].acquired_ns);
    return ns;
}

static int by_time(const void *a, const void *b) {
    const turn *x = a, *y = b;
    return (x->acquired_ns > y->acquired_ns) - (x->acquired_ns < y->acquired_ns);
}

turn *crowd_story(const crowd *c, int *ret_n) {
    turn *all = calloc((size_t)crowd_turns(c) + (size_t)c->members + 1, sizeof *all);
    int n = 0;
    if (!all)
        die("out of memory");
    for (int i = 0; i < c->members; i++) {
        uint32_t k = crowd_turns_of(c, i);
        memcpy(all + n, c->place[i].turn, k * sizeof *all);
        n += (int)k;
    }
    qsort(all, (size_t)n, sizeof *all, by_time);
    for (int i = 1; i < n; i++)
        if (all[i].acquired_ns < all[i - 1].release_ns)
            die("two held the lock at once");
    *ret_n = n;
    return all;
}

double jain(const double *shares, int n) {
    double sum = 0, squares = 0;
    for (int i = 0; i < n; i++) {
        sum += shares[i];
        squares += shares[i] * shares[i];
    }
    return squares > 0 ? sum * sum / (n * squares) : 0;
}
