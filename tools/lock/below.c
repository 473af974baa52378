/*
 * The processes below another one, from /proc. It calls the kernel directly: readdir() allocates, which a
 * process that was forked from one with threads must not do.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "ground/guard.h"
#include "base/tool.h"
#include "lock/below.h"

#define PID_LIMIT (1 << 22) /* the kernel's own limit */
#define PASSES_MAX 64       /* each finds what was started during the previous one */
#define QUEUE_MAX 65536     /* below root; if there are more, all processes are looked at */
#define ANCESTORS_MAX 4096
#define CLIMBS_MAX 8
#define STAT_SIZE 1024
#define NAME_SIZE 24

typedef unsigned char pid_set[PID_LIMIT / 8];

static pid_set found, queued;

static bool is_noted(const pid_set set, pid_t pid) {
    return pid >= 0 && pid < PID_LIMIT && set[pid / 8] & (1U << (pid % 8));
}

static void note(pid_set set, pid_t pid) {
    if (pid >= 0 && pid < PID_LIMIT)
        set[pid / 8] |= (unsigned char)(1U << (pid % 8));
}

static void forget(pid_set set, pid_t pid) {
    if (pid >= 0 && pid < PID_LIMIT)
        set[pid / 8] &= (unsigned char)~(1U << (pid % 8));
}

/* Skip blanks and read a number below 2^31. Returns what follows it; NULL: there is none. */
static const char *number(const char *at, const char *end, pid_t *ret) {
    bool minus = false;
    int64_t n = 0;

    while (at < end && *at == ' ')
        at++;
    if (at < end && *at == '-') {
        minus = true;
        at++;
    }
    const char *begin = at;
    for (; at < end && *at >= '0' && *at <= '9' && n < INT32_MAX; at++)
        n = n * 10 + (*at - '0');
    *ret = (pid_t)(minus ? -n : n);
    return at > begin && n <= INT32_MAX ? at : NULL;
}

/* "123 (name) S 1 123 ...". The name may contain anything, also ") R 1 ". Of a process that was collected during
 * the call the kernel writes "123 (name) X 0 -1 ...", as if it had no parent. */
bool below_parse(const char *stat, size_t n, below_process *ret) {
    const char *end = stat + n;
    const char *close = GUARD(process_by_any_name) ? memrchr(stat, ')', n) : memchr(stat, ')', n);

    if (!number(stat, end, &ret->pid) || !close || end - close < 4)
        return false;
    ret->state = close[2];
    const char *at = number(close + 3, end, &ret->parent);
    return at && number(at, end, &ret->group) && (ret->group >= 0 || !GUARD(ended_has_no_group));
}

static bool look(int proc, const char *pid, below_process *ret) {
    char path[NAME_SIZE + sizeof "/stat"], text[STAT_SIZE];
    size_t n = strlen(pid);

    if (n >= NAME_SIZE)
        return false;
    memcpy(path, pid, n);
    memcpy(path + n, "/stat", sizeof "/stat");
    int fd = openat(proc, path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    ssize_t got = read(fd, text, sizeof text);
    close(fd);
    return got > 0 && below_parse(text, (size_t)got, ret);
}

bool below_look(pid_t pid, below_process *ret) {
    char name[NAME_SIZE];
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    (void)snprintf(name, sizeof name, "%ld", (long)pid);
    bool seen = proc >= 0 && look(proc, name, ret);
    if (proc >= 0)
        close(proc);
    return seen;
}

/* From the process up to root, or to a process whose parent is unknown. */
static below_place climb(pid_t pid, pid_t root) {
    below_process process = {.parent = pid};

    for (int i = 0; i < ANCESTORS_MAX; i++) {
        if (process.parent == root)
            return BELOW_IS;
        if (process.parent <= 1)
            return BELOW_NOT;
        if (!below_look(process.parent, &process))
            return BELOW_UNKNOWN;
    }
    return BELOW_NOT;
}

/* An ancestor that ends meanwhile gives the process another parent: look again. */
below_place below_find(pid_t pid, pid_t root) {
    below_place place = BELOW_UNKNOWN;
    below_process process;

    for (int i = 0; i < CLIMBS_MAX && place == BELOW_UNKNOWN && below_look(pid, &process); i++)
        place = climb(pid, root);
    return place;
}

/* An entry as getdents64(2) writes it. */
typedef struct {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
} entry;

typedef union {
    entry first;
    char bytes[32768];
} entries;

static bool is_number(const entry *entry) {
    return entry->name[0] >= '1' && entry->name[0] <= '9';
}

/* One walk. `found` has the processes for which fn was called. */
typedef struct {
    int proc;
    int64_t until_ms;
    below_fn fn;
    void *ctx;
    int fresh;     /* found in this pass */
    size_t queued; /* entries of `queue`, with the kernel's lists only */
} walk;

static bool is_over(const walk *walk) {
    return GUARD(walk_ends_in_time) && walk->until_ms != MOMENT_NEVER &&
           moment_ms() >= walk->until_ms;
}

static void find(walk *walk, const below_process *process) {
    note(found, process->pid);
    walk->fresh++;
    walk->fn(walk->ctx, process);
}

/* ---- by the kernel's lists of children ------------------------------------------------------- */

/* In the order in which they were found, root first. Each pass asks all of them for their children. */
static pid_t queue[QUEUE_MAX];

static const char *name_of(pid_t pid, char text[NAME_SIZE]) {
    size_t at = NAME_SIZE - 1;

    text[at] = '\0';
    do
        text[--at] = (char)('0' + pid % 10);
    while ((pid /= 10) > 0 && at > 0);
    return text + at;
}

static void meet(walk *walk, pid_t pid) {
    char name[NAME_SIZE];
    below_process process;

    if (is_noted(queued, pid) || walk->queued == QUEUE_MAX)
        return;
    note(queued, pid);
    queue[walk->queued++] = pid;
    if (!is_noted(found, pid) && look(walk->proc, name_of(pid, name), &process))
        find(walk, &process);
}

/* "12 345 " of any length, read piece by piece. */
static void meet_children(walk *walk, int list) {
    char text[512];
    pid_t pid = 0;
    ssize_t n;

    while ((n = read(list, text, sizeof text)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (text[i] >= '0' && text[i] <= '9' && pid < PID_LIMIT) {
                pid = pid * 10 + (text[i] - '0');
            } else {
                if (pid > 0)
                    meet(walk, pid);
                pid = 0;
            }
        }
    if (pid > 0)
        meet(walk, pid);
}

/* Each thread has its own list of children. */
static void ask(walk *walk, pid_t pid) {
    static entries threads;
    char name[NAME_SIZE], path[NAME_SIZE + sizeof "/children"];
    const char *digits = name_of(pid, name);
    size_t n = strlen(digits);
    long got;

    memcpy(path, digits, n);
    memcpy(path + n, "/task", sizeof "/task");
    int tasks = openat(walk->proc, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    while (tasks >= 0 && (got = syscall(SYS_getdents64, tasks, &threads, sizeof threads)) > 0)
        for (long at = 0; at < got;) {
            const entry *entry = (const void *)(threads.bytes + at);
            at += entry->size;
            n = strlen(entry->name);
            if (!is_number(entry) || n >= NAME_SIZE ||
                (!GUARD(children_of_each_thread) && strcmp(entry->name, digits) != 0))
                continue;
            memcpy(path, entry->name, n);
            memcpy(path + n, "/children", sizeof "/children");
            int list = openat(tasks, path, O_RDONLY | O_CLOEXEC);
            if (list < 0)
                continue;
            meet_children(walk, list);
            close(list);
        }
    if (tasks >= 0)
        close(tasks);
}

/* False: there are more processes than fit. */
static bool pass_lists(walk *walk, pid_t root) {
    walk->queued = 1;
    queue[0] = root;
    note(queued, root);
    for (size_t i = 0; i < walk->queued && !is_over(walk); i++)
        ask(walk, queue[i]);
    for (size_t i = 0; i < walk->queued; i++)
        forget(queued, queue[i]);
    return walk->queued < QUEUE_MAX;
}

static bool has_lists(int proc) {
    int list = openat(proc, "thread-self/children", O_RDONLY | O_CLOEXEC);

    if (list >= 0)
        close(list);
    return list >= 0;
}

/* ---- by all processes ------------------------------------------------------------------------ */

/* Look at all processes once. False: /proc can't be read. */
static bool pass_all(walk *walk) {
    static entries list;
    below_process process;
    long n;

    if (lseek(walk->proc, 0, SEEK_SET) < 0)
        return false;
    while ((n = syscall(SYS_getdents64, walk->proc, &list, sizeof list)) > 0) {
        for (long at = 0; at < n && !is_over(walk);) {
            const entry *entry = (const void *)(list.bytes + at);
            at += entry->size;
            if (is_number(entry) && look(walk->proc, entry->name, &process) &&
                is_noted(found, process.parent) && !is_noted(found, process.pid))
                find(walk, &process);
        }
    }
    return n == 0;
}

bool below_each(pid_t root, int64_t until_ms, below_fn fn, void *ctx) {
    return below_each_by(true, root, until_ms, fn, ctx);
}

bool below_each_by(bool lists, pid_t root, int64_t until_ms, below_fn fn, void *ctx) {
    int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    walk walk = {.proc = proc, .until_ms = until_ms, .fn = fn, .ctx = ctx};
    bool read = true;

    if (proc < 0)
        return false;
    lists = lists && has_lists(proc);
    memset(found, 0, sizeof found);
    note(found, root);
    for (int i = 0; i < PASSES_MAX && read; i++) {
        walk.fresh = 0;
        if (lists)
            lists = pass_lists(&walk, root);
        if (!lists)
            read = pass_all(&walk);
        if (walk.fresh == 0 || is_over(&walk))
            break;
    }
    close(proc);
    return read;
}

/* ---- end processes --------------------------------------------------------------------------- */

typedef struct {
    int sig;
    pid_t signalled;
} ending;

static void end_one(void *ctx, const below_process *process) {
    const ending *ending = ctx;

    if (process->state == 'Z')
        return;
    if (process->pid != ending->signalled)
        (void)kill(process->pid, ending->sig);
    if (process->state == 'T')
        (void)kill(process->pid, SIGCONT);
}

bool below_end(pid_t root, int64_t until_ms, int sig, pid_t signalled) {
    return below_each(root, until_ms, end_one, &(ending){sig, signalled});
}
