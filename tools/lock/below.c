/*
 * The processes below one, from /proc. It calls the kernel directly: readdir() allocates, which a
 * process that was forked with threads must not do.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "lock/below.h"

#define PID_LIMIT (1 << 22) /* the kernel's own limit */
#define PASSES_MAX 64       /* each finds what was started during the one before */
#define STAT_SIZE 1024
#define NAME_SIZE 24

static unsigned char found[PID_LIMIT / 8];

static bool is_found(pid_t pid) {
    return pid >= 0 && pid < PID_LIMIT && found[pid / 8] & (1U << (pid % 8));
}

static void note(pid_t pid) {
    if (pid >= 0 && pid < PID_LIMIT)
        found[pid / 8] |= (unsigned char)(1U << (pid % 8));
}

/* Skips blanks, then reads a number below 2^31; NULL: there is none. */
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

/* "123 (name) S 1 123 ...", where the name may have anything in it, also ") R 1 ". */
bool below_parse(const char *stat, size_t n, below_process *ret) {
    const char *end = stat + n;
    const char *close = memrchr(stat, ')', n);

    if (!number(stat, end, &ret->pid) || !close || end - close < 4)
        return false;
    ret->state = close[2];
    const char *at = number(close + 3, end, &ret->parent);
    return at && number(at, end, &ret->group);
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

/* As getdents64(2) fills it. */
typedef struct {
    uint64_t inode;
    int64_t next;
    unsigned short size;
    unsigned char type;
    char name[];
} entry;

/* Once through /proc. Returns how many were new; below 0: it can't be read. */
static int pass(int proc, below_fn fn, void *ctx) {
    static union {
        entry first;
        char bytes[32768];
    } list;
    below_process p;
    int fresh = 0;
    long n;

    while ((n = syscall(SYS_getdents64, proc, &list, sizeof list)) > 0) {
        for (long at = 0; at < n;) {
            const entry *e = (const void *)(list.bytes + at);
            at += e->size;
            if (e->name[0] < '1' || e->name[0] > '9' || !look(proc, e->name, &p))
                continue;
            if (!is_found(p.parent) || is_found(p.pid))
                continue;
            note(p.pid);
            fresh++;
            fn(ctx, &p);
        }
    }
    return n < 0 ? -1 : fresh;
}

bool below_each(pid_t root, below_fn fn, void *ctx) {
    int fresh = 0;

    memset(found, 0, sizeof found);
    note(root);
    for (int i = 0; i < PASSES_MAX; i++) {
        int proc = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
        if (proc < 0)
            return false;
        fresh = pass(proc, fn, ctx);
        close(proc);
        if (fresh <= 0)
            break;
    }
    return fresh >= 0;
}
