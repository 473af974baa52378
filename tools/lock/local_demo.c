/*
 * Several servers on this host, in a directory of this user: started together, shown, and ended together.
 * Their kind and ports are written down before they are started, so that "stop" always finds them. It must
 * never end a process that it didn't start, nor start a second set beside one that runs.
 */
#include "lock/local_demo.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/tool.h"
#include "lock/local_ask.h"

#define NODES_MAX 6
#define MASTER "demo" /* the master's name */
#define NOTES "servers"
#define LEADERLESS "without leader"
/* 20000 to 22759, and BUS above each for its peers: below 32768, where Linux begins to assign ports to
 * clients. */
#define PORT_FIRST 20000
#define PORTS 2760
#define BUS 10000
#define READY_MS 10000
#define WHOLE_MS 30000 /* limit for all servers to find each other */
#define END_MS 5000
#define NAP_MS 50
#define PATH_SIZE (TL_LOCAL_DIR_SIZE + 64)

enum { STATUS_NO_DEMO = 1 };

typedef struct {
    const char *name, *scheme;
    int servers, sentinels;
    bool cluster, replicas, quorum, etcd;
    const char *says;
} kind;

static const kind kinds[] = {
    {"sentinel", "redis+sentinel", 3, 3, false, true, false, false,
     "a master, two replicas and three Sentinels run"},
    {"cluster", "redis+cluster", 6, 0, true, false, false, false,
     "a cluster of three masters with a replica each runs"},
    {"quorum", "redis+quorum", 5, 0, false, false, true, false, "five independent servers run"},
    {"etcd", "etcd", 3, 0, false, false, false, true, "an etcd of three members runs"},
};

typedef struct {
    char path[TL_LOCAL_DIR_SIZE];
    int dir; /* locked by this process */
    const kind *kind;
    uint16_t port[NODES_MAX]; /* the servers' first, beginning with the master's */
} demo;

static int count_of(const demo *demo) {
    return demo->kind->servers + demo->kind->sentinels;
}

static bool is_sentinel(const demo *demo, int i) {
    return i >= demo->kind->servers;
}

static const kind *kind_named(const char *name) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strcmp(kinds[i].name, name) == 0)
            return &kinds[i];
    return NULL;
}

static void show_url(const demo *demo, char to[256]) {
    int first = demo->kind->sentinels ? demo->kind->servers : 0;
    int n = snprintf(to, 256, "%s://", demo->kind->scheme);
    for (int i = first; i < count_of(demo); i++)
        n += snprintf(to + n, 256 - (size_t)n, "%s127.0.0.1:%u", i > first ? "," : "",
                      demo->port[i]);
    if (demo->kind->sentinels)
        (void)snprintf(to + n, 256 - (size_t)n, "/" MASTER);
}

/* ---- its directory --------------------------------------------------------------------------- */

/* Lock the directory: one command at a time uses it. It returns 0 and leaves demo->dir -1 if there is
 * none. */
static int enter(demo *demo, const char *beside, bool make) {
    tl_local_problem problem;
    int n = snprintf(demo->path, sizeof demo->path, "%s-demo", beside);
    if (n < 0 || (size_t)n >= sizeof demo->path)
        return fail(STATUS_USAGE, "local demo: the name of the directory is too long");
    demo->dir = tl__local_open_dir(demo->path, make, &problem);
    if (demo->dir < 0 && problem.code)
        return fail(status_of(problem.code), "%s", problem.message);
    if (demo->dir >= 0 && flock(demo->dir, LOCK_EX | LOCK_NB) != 0) {
        close(demo->dir);
        return fail(STATUS_BUSY, "local demo: another \"tidelock local demo\" is running");
    }
    return 0;
}

static FILE *open_notes(const demo *demo, const char *how, int flags) {
    int fd = openat(demo->dir, NOTES, flags | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);
    FILE *f = fd >= 0 ? fdopen(fd, how) : NULL;
    if (!f && fd >= 0)
        close(fd);
    return f;
}

/* Read what was started here. False: nothing. */
static bool read_notes(demo *demo) {
    char name[16];
    FILE *f = open_notes(demo, "r", O_RDONLY);
    bool ok = f && fscanf(f, "%15s", name) == 1 && (demo->kind = kind_named(name)) != NULL;
    for (int i = 0; ok && i < count_of(demo); i++)
        ok = fscanf(f, "%hu", &demo->port[i]) == 1;
    if (f)
        (void)fclose(f);
    return ok;
}

static bool write_notes(const demo *demo) {
    FILE *f = open_notes(demo, "w", O_WRONLY | O_CREAT | O_TRUNC);
    if (!f)
        return false;
    (void)fprintf(f, "%s", demo->kind->name);
    for (int i = 0; i < count_of(demo); i++)
        (void)fprintf(f, " %u", demo->port[i]);
    (void)fputc('\n', f);
    bool ok = !ferror(f);
    return !fclose(f) && ok;
}

static int remove_one(const char *path, const struct stat *s, int type, struct FTW *at) {
    (void)s, (void)type, (void)at;
    return remove(path);
}

static int remove_all(const demo *demo) {
    if (nftw(demo->path, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0 || errno == ENOENT)
        return 0;
    return fail(STATUS_INTERNAL, "local demo: %s: %s", demo->path, strerror(errno));
}

/* ---- one server ------------------------------------------------------------------------------ */

static bool open_line(const demo *demo, int i, local_line *line) {
    tl_endpoint endpoint;
    tl_seeds seeds;
    tl_error err;
    char url[32];
    (void)snprintf(url, sizeof url, "%s://127.0.0.1:%u", demo->kind->etcd ? "etcd" : "redis",
                   demo->port[i]);
    return !tl__endpoint_parse_seeds(&endpoint, NULL, &seeds, url, &err) &&
           (demo->kind->etcd ? local_ask_open_etcd(line, &endpoint, &seeds)
                             : local_ask_open(line, &endpoint, is_sentinel(demo, i)));
}

static bool ask(const demo *demo, int i, const char *const *request,
                bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    local_line line;
    if (!open_line(demo, i, &line))
        return false;
    bool ok = local_ask(&line, request, take, ctx);
    local_ask_close(&line);
    return ok;
}

static bool answers(const demo *demo, int i) {
    static const char *const ping[] = {"PING", NULL}, *const status[] = {"STATUS", NULL};
    return ask(demo, i, demo->kind->etcd ? status : ping, NULL, NULL);
}

static bool take_role(void *ctx, const tl_reply *reply) {
    tl_bytes text;
    if (!tl__reply_text(tl__reply_item(reply, 0), &text))
        return false;
    tl__bytes_print(ctx, 16, text);
    return true;
}

/* The role of a member of etcd, from its reply to STATUS (wire/etcd.h). */
static bool take_status(void *ctx, const tl_reply *reply) {
    int64_t leader, self;
    if (!tl__reply_int(tl__reply_item(reply, 1), &leader) ||
        !tl__reply_int(tl__reply_item(reply, 2), &self))
        return false;
    (void)snprintf(ctx, 16, "%s",
                   leader == 0      ? LEADERLESS
                   : leader == self ? "leader"
                                    : "follower");
    return true;
}

/* "": no reply */
static const char *role_of(const demo *demo, int i, char room[16]) {
    static const char *const request[] = {"ROLE", NULL}, *const status[] = {"STATUS", NULL};
    room[0] = '\0';
    if (demo->kind->etcd)
        return ask(demo, i, status, take_status, room) ? room : "";
    if (is_sentinel(demo, i))
        return answers(demo, i) ? "Sentinel" : "";
    if (!ask(demo, i, request, take_role, room))
        return "";
    return strcmp(room, "slave") == 0 ? "replica" : room;
}

static bool is_anybody_there(const demo *demo) {
    for (int i = 0; i < count_of(demo); i++)
        if (answers(demo, i))
            return true;
    return false;
}

/* ---- ending ---------------------------------------------------------------------------------- */

static ssize_t read_file(const char *path, char *to, size_t size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    ssize_t n = fd >= 0 ? read(fd, to, size - 1) : -1;
    if (fd >= 0)
        close(fd);
    to[n > 0 ? n : 0] = '\0';
    return n;
}

/* The pid in the server's file, if that process is the server: its command line has the port. 0: it doesn't
 * run. */
static pid_t pid_of(const demo *demo, int i) {
    char path[PATH_SIZE], text[256], port[24];
    int64_t pid = 0;
    (void)snprintf(path, sizeof path, "%s/%u/pid", demo->path, demo->port[i]);
    ssize_t n = read_file(path, text, sizeof text);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n <= 0 || !tl__bytes_to_int(tl__bytes(text, (size_t)n), &pid))
        pid = 0;
    (void)snprintf(path, sizeof path, "/proc/%lld/cmdline", (long long)pid);
    (void)snprintf(port, sizeof port, "127.0.0.1:%u", demo->port[i]);
    n = pid > 1 ? read_file(path, text, sizeof text) : 0;
    for (ssize_t at = 0; at + 1 < n; at++)
        text[at] = text[at] ? text[at] : ' ';
    bool is = n > 0 && strstr(text, demo->kind->etcd ? "etcd" : "redis") && strstr(text, port);
    return is ? (pid_t)pid : 0;
}

static void end_one(const demo *demo, int i) {
    static const char *const request[] = {"SHUTDOWN", "NOSAVE", NULL};
    pid_t pid = pid_of(demo, i);
    if (pid == 0)
        return;
    (void)kill(pid, SIGCONT); /* it may have been stopped, to try that */
    if (demo->kind->etcd)
        /* Nothing is kept. After a TERM a leader would first look for another one. */
        (void)kill(pid, SIGKILL);
    else
        (void)ask(demo, i, request, NULL, NULL);
    for (int ms = 0; pid_of(demo, i) == pid && ms < END_MS; ms += NAP_MS)
        (void)poll(NULL, 0, NAP_MS);
    if (pid_of(demo, i) == pid)
        (void)kill(pid, SIGKILL);
}

/* Sentinels first, since they would find the others down; masters last, since they would wait for their
 * replicas. */
static void end_servers(const demo *demo) {
    char room[16];
    for (int i = count_of(demo) - 1; i >= 0; i--)
        if (strcmp(role_of(demo, i, room), "master") != 0)
            end_one(demo, i);
    for (int i = 0; i < count_of(demo); i++)
        end_one(demo, i);
}

static int stop(demo *demo) {
    if (demo->dir < 0)
        return 0;
    if (read_notes(demo))
        end_servers(demo);
    return remove_all(demo);
}

/* ---- starting -------------------------------------------------------------------------------- */

/* A socket that is bound to the port, or -1. */
static int take_port(int port) {
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((uint16_t)port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, sizeof at) == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return -1;
}

static bool is_free(int port) {
    int fd = take_port(port), above = take_port(port + BUS);
    if (fd >= 0)
        close(fd);
    if (above >= 0)
        close(above);
    return fd >= 0 && above >= 0;
}

/* Reserve a port against other demos that start, to which it looks free until the server listens. The
 * reservation ends with this process. */
static bool claim_port(int port) {
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    int n = snprintf(at.sun_path + 1, sizeof at.sun_path - 1, "tidelock-demo-%d", port);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)n);

    if (fd >= 0 && bind(fd, (const struct sockaddr *)&at, size) == 0)
        return true; // cppcheck-suppress resourceLeak ; the descriptor is the claim
    if (fd >= 0)
        close(fd);
    return false;
}

static int choose_ports(demo *demo) {
    int n = 0, from = (int)(((long)getpid() * 37) % PORTS);
    for (int i = 0; i < PORTS && n < count_of(demo); i++) {
        int port = PORT_FIRST + (from + i) % PORTS;
        if (claim_port(port) && is_free(port))
            demo->port[n++] = (uint16_t)port;
    }
    return n == count_of(demo) ? 0 : fail(STATUS_UNAVAILABLE, "local demo: no free ports");
}

static void write_config(const demo *demo, int i, FILE *f) {
    (void)fprintf(f,
                  "bind 127.0.0.1\nport %u\ndir \"%s/%u\"\nlogfile \"%s/%u/log\"\n"
                  "pidfile \"%s/%u/pid\"\ndaemonize yes\n",
                  demo->port[i], demo->path, demo->port[i], demo->path, demo->port[i], demo->path,
                  demo->port[i]);
    if (is_sentinel(demo, i))
        (void)fprintf(f,
                      "sentinel monitor " MASTER " 127.0.0.1 %u 2\n"
                      "sentinel down-after-milliseconds " MASTER " 2000\n"
                      "sentinel failover-timeout " MASTER " 10000\n",
                      demo->port[0]);
    else
        (void)fprintf(f, "save \"\"\nappendonly no\nrepl-diskless-sync yes\n"
                         "repl-diskless-sync-delay 0\n");
    if (!is_sentinel(demo, i) && demo->kind->replicas && i > 0)
        (void)fprintf(f, "replicaof 127.0.0.1 %u\n", demo->port[0]);
    if (demo->kind->cluster)
        (void)fprintf(f, "cluster-enabled yes\ncluster-config-file nodes.conf\n"
                         "cluster-node-timeout 2000\n");
}

/* The port on which the other members reach this one. */
static unsigned peer_port(const demo *demo, int i) {
    return demo->port[i] + (unsigned)BUS;
}

/* Write a shell script that leaves a member running. The member's pid is in a file before the member
 * begins. */
static void write_start(const demo *demo, int i, FILE *f) {
    (void)fprintf(f,
                  "cd \"${0%%/*}\" || exit\ncommand -v etcd >/dev/null || exit %d\nrm -f pid\n"
                  "setsid /bin/sh -c 'echo $$ >pid; exec env -i PATH=\"$PATH\" "
                  "ETCD_UNSUPPORTED_ARCH=arm64 etcd --listen-client-urls http://127.0.0.1:%u "
                  "--advertise-client-urls http://127.0.0.1:%u --listen-peer-urls "
                  "http://127.0.0.1:%u --initial-advertise-peer-urls http://127.0.0.1:%u "
                  "--name m%d --data-dir data --logger zap --initial-cluster ",
                  STATUS_NOT_FOUND, demo->port[i], demo->port[i], peer_port(demo, i),
                  peer_port(demo, i), i);
    for (int k = 0; k < count_of(demo); k++)
        (void)fprintf(f, "%sm%d=http://127.0.0.1:%u", k ? "," : "", k, peer_port(demo, k));
    (void)fputs("' >>log 2>&1 </dev/null &\n"
                "while [ ! -s pid ] && kill -0 $! 2>/dev/null; do sleep 0.05; done\n",
                f);
}

static int configure(const demo *demo, int i) {
    char path[PATH_SIZE];
    (void)snprintf(path, sizeof path, "%s/%u", demo->path, demo->port[i]);
    if (mkdir(path, S_IRWXU) != 0)
        return fail(STATUS_UNAVAILABLE, "local demo: %s: %s", path, strerror(errno));
    (void)snprintf(path, sizeof path, "%s/%u/conf", demo->path, demo->port[i]);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR);
    FILE *f = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (!f)
        return fail(STATUS_UNAVAILABLE, "local demo: %s: %s", path, strerror(errno));
    (demo->kind->etcd ? write_start : write_config)(demo, i, f);
    bool ok = !ferror(f);
    return !fclose(f) && ok ? 0 : fail(STATUS_UNAVAILABLE, "local demo: %s: can't write", path);
}

static void signals_as_ever(posix_spawnattr_t *attr) {
    sigset_t none, all;
    (void)sigemptyset(&none);
    (void)sigfillset(&all);
    (void)posix_spawnattr_setsigmask(attr, &none);
    (void)posix_spawnattr_setsigdefault(attr, &all);
    (void)posix_spawnattr_setflags(attr, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
}

/* Run a program to its end, without its output. Returns what a shell would report; -1: see errno. */
static int run(const char *const *argv) {
    posix_spawn_file_actions_t files;
    posix_spawnattr_t attr;
    pid_t pid;
    int status;
    if (posix_spawn_file_actions_init(&files) || posix_spawnattr_init(&attr))
        return -1;
    signals_as_ever(&attr);
    for (int fd = 0; fd < 3; fd++)
        (void)posix_spawn_file_actions_addopen(&files, fd, "/dev/null", O_RDWR, 0);
    errno = posix_spawnp(&pid, argv[0], &files, &attr, (char *const *)(uintptr_t)argv, environ);
    (void)posix_spawn_file_actions_destroy(&files);
    (void)posix_spawnattr_destroy(&attr);
    if (errno)
        return -1;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR)
            return -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : STATUS_SIGNAL;
}

static int not_run(const char *program, const char *package, int result) {
    if (result == STATUS_NOT_FOUND || (result < 0 && errno == ENOENT))
        return fail(STATUS_UNAVAILABLE,
                    "local demo: no %s in PATH: install it (Debian: apt install %s)", program,
                    package);
    if (result < 0)
        return fail(STATUS_UNAVAILABLE, "local demo: %s: %s", program, strerror(errno));
    return fail(STATUS_UNAVAILABLE, "local demo: %s ended with status %d", program, result);
}

/* A member replies once a majority of the members run, so await_whole() waits for all of them. */
static int launch_member(const demo *demo, int i) {
    char conf[PATH_SIZE];
    (void)snprintf(conf, sizeof conf, "%s/%u/conf", demo->path, demo->port[i]);
    const char *const argv[] = {"/bin/sh", conf, NULL};
    int status = configure(demo, i), result = status ? 0 : run(argv);
    return result ? not_run("etcd", "etcd-server", result) : status;
}

static int launch(const demo *demo, int i) {
    char conf[PATH_SIZE];
    (void)snprintf(conf, sizeof conf, "%s/%u/conf", demo->path, demo->port[i]);
    const char *const argv[] = {"redis-server", conf, is_sentinel(demo, i) ? "--sentinel" : NULL,
                                NULL};
    int status = configure(demo, i);
    int result = status ? 0 : run(argv);
    if (result)
        return not_run("redis-server", "redis-server", result);
    for (int ms = 0; !status && !answers(demo, i); ms += NAP_MS) {
        if (ms >= READY_MS)
            return fail(STATUS_UNAVAILABLE,
                        "local demo: the server of port %u does not answer: see %s/%u/log",
                        demo->port[i], demo->path, demo->port[i]);
        (void)poll(NULL, 0, NAP_MS);
    }
    return status;
}

/* ---- wait until all know each other ---------------------------------------------------------- */

static int64_t number_in(const tl_reply *list, const char *name) {
    tl_bytes text;
    int64_t value = -1;
    for (size_t i = 0; list->type == TL_REPLY_ARRAY && i + 1 < list->count; i += 2)
        if (tl__reply_text(&list->items[i], &text) && tl__bytes_eq(text, tl__bytes_of(name)) &&
            tl__reply_text(&list->items[i + 1], &text) && tl__bytes_to_int(text, &value))
            return value;
    return -1;
}

static bool take_known(void *ctx, const tl_reply *reply) {
    const demo *demo = ctx;
    return number_in(reply, "num-slaves") == demo->kind->servers - 1 &&
           number_in(reply, "num-other-sentinels") == demo->kind->sentinels - 1;
}

static bool take_state(void *ctx, const tl_reply *reply) {
    tl_bytes text;
    (void)ctx;
    return tl__reply_text(reply, &text) && tl__bytes_has(text, "cluster_state:ok");
}

static bool is_whole(demo *demo, int i) {
    static const char *const known[] = {"SENTINEL", "MASTER", MASTER, NULL}, *const state[] = {
                                                                                 "CLUSTER", "INFO",
                                                                                 NULL};
    char room[16];
    if (demo->kind->etcd)
        return *role_of(demo, i, room) && strcmp(room, LEADERLESS) != 0;
    if (is_sentinel(demo, i))
        return ask(demo, i, known, take_known, demo);
    return !demo->kind->cluster || ask(demo, i, state, take_state, NULL);
}

static int join_cluster(const demo *demo) {
    char at[NODES_MAX][24];
    const char *argv[NODES_MAX + 8] = {"redis-cli", "--cluster", "create"};
    int n = 3;
    for (int i = 0; i < count_of(demo); i++) {
        (void)snprintf(at[i], sizeof at[i], "127.0.0.1:%u", demo->port[i]);
        argv[n++] = at[i];
    }
    argv[n++] = "--cluster-replicas";
    argv[n++] = "1";
    argv[n] = "--cluster-yes";
    int result = run(argv);
    return result ? not_run("redis-cli", "redis-tools", result) : 0;
}

static int await_whole(demo *demo) {
    int64_t by = moment_ms() + WHOLE_MS;
    for (int i = 0; i < count_of(demo); i++)
        while (!is_whole(demo, i)) {
            if (moment_ms() >= by)
                return fail(
                    STATUS_UNAVAILABLE,
                    "local demo: the servers did not find each other within %d s: see %s/%u/log",
                    WHOLE_MS / 1000, demo->path, demo->port[i]);
            (void)poll(NULL, 0, NAP_MS);
        }
    return 0;
}

/* No lock was held on these servers before, so they needn't be quiet at first. This key of
 * src/wire/scripts/with/quiet.lua says so. */
static int let_vote(const demo *demo) {
    static const char script[] =
        "local t = '\\n' .. redis.call('INFO', 'server') .. '\\n' .. redis.call('INFO', "
        "'replication') "
        "local run, history = string.match(t, '\\nrun_id:(%x+)'), string.match(t, "
        "'\\nmaster_replid:(%x+)') "
        "return redis.call('SET', 'tidelock:reign', run .. '-' .. history .. ' 1')";
    static const char *const request[] = {"EVAL", script, "0", NULL};
    for (int i = 0; demo->kind->quorum && i < count_of(demo); i++)
        if (!ask(demo, i, request, NULL, NULL))
            return fail(STATUS_UNAVAILABLE, "local demo: 127.0.0.1:%u doesn't take its first key",
                        demo->port[i]);
    return 0;
}

/* ---- the commands ---------------------------------------------------------------------------- */

static int refuse_second(const demo *demo) {
    char url[256];
    show_url(demo, url);
    return fail(
        STATUS_REFUSED,
        "local demo: a demo of %s runs already, at %s; \"tidelock local demo stop\" ends it",
        demo->kind->name, url);
}

static int launch_all(demo *demo) {
    int status = write_notes(demo) ? 0
                                   : fail(STATUS_UNAVAILABLE, "local demo: %s/" NOTES ": %s",
                                          demo->path, strerror(errno));
    for (int i = 0; !status && i < count_of(demo); i++)
        status = demo->kind->etcd ? launch_member(demo, i) : launch(demo, i);
    if (!status && demo->kind->cluster)
        status = join_cluster(demo);
    if (!status)
        status = await_whole(demo);
    if (!status)
        status = let_vote(demo);
    if (status)
        end_servers(demo); /* their logs stay, to find out why */
    return status;
}

/* A build without jansson has no etcd. */
static int can_speak(const demo *demo) {
    tl_endpoint endpoint;
    tl_seeds seeds;
    tl_error err;
    char url[256];
    show_url(demo, url);
    return tl__endpoint_parse_seeds(&endpoint, NULL, &seeds, url, &err)
               ? fail(STATUS_CONFIG, "local demo: %s", err.message)
               : 0;
}

static int start(demo *demo, const kind *what) {
    char url[256];
    if (read_notes(demo) && is_anybody_there(demo))
        return refuse_second(demo);
    demo->kind = what;
    int status = choose_ports(demo);
    status = status ? status : can_speak(demo);
    status = status ? status : launch_all(demo);
    if (status)
        return status;
    show_url(demo, url);
    say("%s on this host, for experiments: without a password, and without data on disk; "
        "\"tidelock local demo status\" shows their pids, so that you can kill one, \"tidelock "
        "local demo stop\" ends all",
        what->says);
    printf("%s\n", url);
    return fflush(stdout) ? fail(STATUS_INTERNAL, "local: standard output: %s", strerror(errno))
                          : 0;
}

/* With the pid to kill it by, or the command to start it again. */
static void show_one(const demo *demo, int i, const char *role) {
    pid_t pid = pid_of(demo, i);

    printf("127.0.0.1:%u  %s", demo->port[i], *role ? role : "no answer");
    if (pid)
        printf(", pid %lld\n", (long long)pid);
    else if (*role)
        putchar('\n');
    else
        printf("; to start it again: %s %s/%u/conf%s\n", demo->kind->etcd ? "sh" : "redis-server",
               demo->path, demo->port[i], is_sentinel(demo, i) ? " --sentinel" : "");
}

static int show(demo *demo) {
    char url[256], room[16];
    int there = 0;
    if (demo->dir < 0 || !read_notes(demo)) {
        printf("no demo runs\n");
        return STATUS_NO_DEMO;
    }
    show_url(demo, url);
    printf("%s\n", url);
    for (int i = 0; i < count_of(demo); i++) {
        const char *role = role_of(demo, i, room);
        there += *role != '\0';
        show_one(demo, i, role);
    }
    return there ? 0 : STATUS_NO_DEMO;
}

int local_demo(const char *beside, const char *what) {
    demo demo = {.dir = -1};
    const kind *wanted = kind_named(what);
    bool shows = strcmp(what, "status") == 0;
    if (!wanted && !shows && strcmp(what, "stop") != 0)
        return fail(STATUS_USAGE,
                    "local demo: say sentinel, cluster, quorum, etcd, status or stop");
    int status = enter(&demo, beside, wanted != NULL);
    if (!status)
        status = wanted ? start(&demo, wanted) : shows ? show(&demo) : stop(&demo);
    if (demo.dir >= 0)
        close(demo.dir);
    return status;
}
