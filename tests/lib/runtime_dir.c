/*
 * A private directory, and the processes at work in its tidelock directory, found by where they
 * work: so also those that a test did not expect are seen and ended.
 */
#include "runtime_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "clock_wait.h"

#define TURNS 4
#define TEXT_SIZE 8192
#define SKIP 77

static char dir[64], local[96], url[112], path_before[4096], real_program[PATH_MAX];

static void find_real(void) {
    const char *path = path_before;
    while (*path) {
        size_t n = strcspn(path, ":");
        (void)snprintf(real_program, sizeof real_program, "%.*s/redis-server", (int)n, path);
        if (access(real_program, X_OK) == 0)
            return;
        path += path[n] ? n + 1 : n;
    }
    real_program[0] = '\0';
}

static void look_around(void) {
    const char *path = getenv("PATH");
    (void)snprintf(path_before, sizeof path_before, "%s", path ? path : "/usr/bin:/bin");
    find_real();
}

void runtime_need_program(void) {
    look_around();
    if (real_program[0])
        return;
    (void)fputs("SKIP: no redis-server in PATH (Debian: apt-get install redis-server)\n", stderr);
    exit(SKIP);
}

int runtime_begin(void **state) {
    (void)state;
    look_around();
    (void)snprintf(dir, sizeof dir, "/tmp/tidelock-runtime-XXXXXX");
    assert_non_null(mkdtemp(dir));
    (void)snprintf(local, sizeof local, "%s/tidelock", dir);
    (void)snprintf(url, sizeof url, "local:%s", local);
    return 0;
}

static int remove_one(const char *path, const struct stat *s, int kind, struct FTW *where) {
    (void)s;
    (void)kind;
    (void)where;
    return remove(path);
}

int runtime_end(void **state) {
    (void)state;
    runtime_kill();
    (void)nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    (void)setenv("PATH", path_before, 1);
    return 0;
}

const char *runtime_dir(void) {
    return dir;
}

const char *runtime_local(void) {
    return local;
}

const char *runtime_url(void) {
    return url;
}

const char *runtime_file(const char *name) {
    static char text[TURNS][RUNTIME_PATH];
    static int turn;
    char *to = text[turn++ % TURNS];
    (void)snprintf(to, RUNTIME_PATH, name[0] == '/' ? "%s%s" : "%s/%s",
                   name[0] == '/' ? dir : local, name);
    return to;
}

/* ---- the program ------------------------------------------------------------------------------- */

void runtime_no_program(void) {
    const char *bin = runtime_file("/bin");
    assert_true(mkdir(bin, S_IRWXU) == 0 || errno == EEXIST);
    assert_int_equal(setenv("PATH", bin, 1), 0);
}

void runtime_fake(const char *script) {
    char text[2048];
    const char *program = runtime_file("/bin/redis-server");
    runtime_no_program();
    (void)snprintf(text, sizeof text, "#!/bin/sh\nREAL=%s\n%s\n", real_program, script);
    runtime_write(program, text);
    assert_int_equal(chmod(program, S_IRWXU), 0);
}

/* ---- processes --------------------------------------------------------------------------------- */

static bool works_here(const char *pid) {
    char link[64], at[PATH_MAX];
    (void)snprintf(link, sizeof link, "/proc/%.20s/cwd", pid);
    ssize_t n = readlink(link, at, sizeof at - 1);
    return n > 0 && (size_t)n == strlen(local) && memcmp(at, local, (size_t)n) == 0;
}

int runtime_servers(pid_t *ret_pid) {
    DIR *proc = opendir("/proc");
    int count = 0;
    const struct dirent *e;
    assert_non_null(proc);
    // cppcheck-suppress readdirCalled ; a DIR of this thread's own
    while ((e = readdir(proc))) {
        if (e->d_name[0] < '0' || e->d_name[0] > '9' || !works_here(e->d_name))
            continue;
        if (ret_pid)
            *ret_pid = (pid_t)strtol(e->d_name, NULL, 10);
        count++;
    }
    closedir(proc);
    return count;
}

pid_t runtime_server(void) {
    pid_t pid = 0;
    assert_int_equal(runtime_servers(&pid), 1);
    return pid;
}

/* Until then, and no sooner, its sockets are closed for certain. */
static void await_end(int pidfd) {
    struct pollfd p = {.fd = pidfd, .events = POLLIN};
    assert_true(pidfd >= 0);
    assert_int_equal(poll(&p, 1, SOON_MS), 1);
    close(pidfd);
}

void runtime_kill(void) {
    pid_t pid = 0;
    while (runtime_servers(&pid) > 0) {
        int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
        if (pidfd < 0 && errno == ESRCH)
            continue; /* it has just gone by itself */
        (void)kill(pid, SIGKILL);
        await_end(pidfd);
    }
}

/* ---- files ------------------------------------------------------------------------------------- */

const char *runtime_read(const char *path) {
    static char text[TURNS][TEXT_SIZE];
    static int turn;
    char *to = text[turn++ % TURNS];
    FILE *file = fopen(path, "re");
    size_t n = file ? fread(to, 1, TEXT_SIZE - 1, file) : 0;
    to[n] = '\0';
    if (file)
        (void)fclose(file);
    return to;
}

void runtime_write(const char *path, const char *text) {
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}
