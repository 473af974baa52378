/*
 * Starts, stops and torments a private redis-server for a test. It never touches a server that it
 * did not start, nor port 6379.
 */
#ifndef TL_SYSTEM_TIME_64 /* hiredis takes a struct timeval: the system's, of 32 bits in some 32-bit systems */
#undef _TIME_BITS
#endif
#include "real_redis.h"

#include "ports.h"
#include "real_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SERVERS_MAX 32
#define START_TRIES 5   /* a port may be taken between finding and binding it */
#define ANSWER_MS 60000 /* until a started server has answered */
#define ASK_S 5         /* until it is asked anew, while it starts */
#define BUS_APART 10000 /* a cluster's port for other nodes, where it can't be set */
#define SKIP 77

struct real_redis {
    pid_t pid;
    bool frozen;
    int port, bus_port;
    char dir[128], socket[160], log[160], config_path[160];
    char url[256], unix_url[192];
    char *config, *password;
    bool persist, sentinel, cluster, debug, tls;
    redisContext *context;
};

static real_redis *servers[SERVERS_MAX];
static char certificates[128], ca[160]; /* of all servers with TLS; "" before the first */
static const struct timeval limit = {.tv_sec = 30};

/* The test program ends: without a server there is nothing to test. */
__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("real_redis: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static bool program(char *to, size_t size) {
    const char *path = getenv("PATH"), *used = real_server_used();
    if (used) {
        snprintf(to, size, "%s", used);
        return access(to, X_OK) == 0;
    }
    for (path = path ? path : "/usr/bin:/bin"; *path; path += *path == ':') {
        size_t n = strcspn(path, ":");
        int used = snprintf(to, size, "%.*s/redis-server", (int)n, path);
        if (used > 0 && (size_t)used < size && access(to, X_OK) == 0) {
            return true;
        }
        path += n;
    }
    return false;
}

static void write_data(FILE *file, const real_redis *r) {
    fprintf(file, "save \"\"\nappendonly %s\nappendfsync always\n", r->persist ? "yes" : "no");
    if (r->cluster) {
        fprintf(file, "cluster-enabled yes\n");
        if (real_server_has(REAL_SEVEN)) {
            fprintf(file, "cluster-port %d\n", r->bus_port);
        }
    }
    if (r->debug && real_server_has(REAL_SEVEN)) {
        fprintf(file, "enable-debug-command yes\n");
    }
}

static void write_tls(FILE *file, const real_redis *r) {
    fprintf(file,
            "port 0\ntls-port %d\ntls-ca-cert-file %s/ca.pem\ntls-cert-file %s/server.pem\n"
            "tls-key-file %s/server.key\ntls-auth-clients no\ntls-replication yes\n%s",
            r->port, certificates, certificates, certificates,
            r->cluster ? "tls-cluster yes\n" : "");
}

static void write_config(const real_redis *r) {
    FILE *file = fopen(r->config_path, "w");
    if (!file) {
        fail("%s: %s", r->config_path, strerror(errno));
    }
    fprintf(file, "bind 127.0.0.1\nunixsocket %s\ndir %s\nlogfile %s\ndaemonize no\n", r->socket,
            r->dir, r->log);
    if (r->tls) {
        write_tls(file, r);
    } else {
        fprintf(file, "port %d\n", r->port);
    }
    if (!r->sentinel) {
        write_data(file, r);
    }
    fprintf(file, "%s%s\n%s\n", r->password ? "requirepass " : "", r->password ? r->password : "",
            r->config ? r->config : "");
    fclose(file);
}

static void set_port(real_redis *r, int port) {
    r->port = port;
    snprintf(r->url, sizeof(r->url), "redis%s://%s%s%s127.0.0.1:%d", r->tls ? "s" : "",
             r->password ? ":" : "", r->password ? r->password : "", r->password ? "@" : "", port);
}

static void spawn(real_redis *r, char *path) {
    char *argv[] = {path, r->config_path, r->sentinel ? "--sentinel" : NULL, NULL};
    pid_t parent = getpid();
    r->pid = fork();
    if (r->pid < 0) {
        fail("fork: %s", strerror(errno));
    }
    if (r->pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) {
            _exit(1);
        }
        int null = open("/dev/null", O_RDWR);
        dup2(null, 0);
        dup2(null, 1);
        dup2(null, 2);
        execv(path, argv);
        _exit(127);
    }
}

/* ---- waiting until it answers ---------------------------------------------------------------- */

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static bool has_died(real_redis *r) {
    if (waitpid(r->pid, NULL, WNOHANG) == r->pid) {
        r->pid = -1;
        return true;
    }
    return false;
}

/* Any answer will do, except that it is still loading, if that matters. */
static bool answers(const real_redis *r, bool loaded) {
    redisContext *context = redisConnectUnixWithTimeout(r->socket,
                                                        (struct timeval){.tv_sec = ASK_S});
    redisReply *reply = NULL;
    if (context && !context->err) {
        redisSetTimeout(context, (struct timeval){.tv_sec = ASK_S});
        reply = redisCommand(context, "PING");
    }
    bool loading = reply && reply->type == REDIS_REPLY_ERROR &&
                   strncmp(reply->str, "LOADING", 7) == 0;
    bool yes = reply && !(loading && loaded);
    freeReplyObject(reply);
    redisFree(context);
    return yes;
}

static bool wait_for(real_redis *r, bool loaded) {
    for (int64_t end = now_ms() + ANSWER_MS; now_ms() < end;) {
        if (answers(r, loaded)) {
            return !has_died(r);
        }
        if (has_died(r)) {
            return false;
        }
        nanosleep(&(struct timespec){.tv_nsec = 2000000}, NULL);
    }
    return false;
}

static void print_log(const real_redis *r) {
    char line[512];
    FILE *file = fopen(r->log, "r");
    while (file && fgets(line, sizeof(line), file)) {
        fputs(line, stderr);
    }
    if (file) {
        fclose(file);
    }
}

/* ---- life ------------------------------------------------------------------------------------ */

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where) {
    (void)stat;
    (void)kind;
    (void)where;
    remove(path);
    return 0;
}

static void free_all(void) {
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        real_redis_free(servers[i]);
    }
    if (certificates[0]) {
        nftw(certificates, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    }
}

static void enlist(real_redis *r) {
    static bool registered;
    size_t i = 0;
    if (!registered) {
        registered = true;
        atexit(free_all);
    }
    while (i < SERVERS_MAX && servers[i]) {
        i++;
    }
    if (i == SERVERS_MAX) {
        fail("more than %d servers", SERVERS_MAX);
    }
    servers[i] = r;
}

static void new_dir(char *to, size_t size, const char *what) {
    const char *tmp = getenv("TMPDIR");
    snprintf(to, size, "%.60s/tidelock-%s-XXXXXX", tmp && strlen(tmp) <= 60 ? tmp : "/tmp", what);
    if (!mkdtemp(to)) {
        fail("%s: %s", to, strerror(errno));
    }
}

static void make_dir(real_redis *r) {
    new_dir(r->dir, sizeof(r->dir), "redis");
    snprintf(r->socket, sizeof(r->socket), "%s/socket", r->dir);
    snprintf(r->log, sizeof(r->log), "%s/log", r->dir);
    snprintf(r->config_path, sizeof(r->config_path), "%s/redis.conf", r->dir);
    snprintf(r->unix_url, sizeof(r->unix_url), "unix:%s", r->socket);
}

static void make_certificates(void) {
    static const char script[] =
        "cd %s && exec >openssl.log 2>&1 && ec='-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes'"
        " && openssl req -x509 $ec -keyout ca.key -out ca.pem -subj /CN=ca -days 9 && "
        "echo subjectAltName=IP:127.0.0.1 >names && "
        "openssl req $ec -keyout server.key -out server.csr -subj /CN=server && "
        "openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 9 "
        "-extfile names -out server.pem";
    char command[sizeof(script) + sizeof(certificates)];
    new_dir(certificates, sizeof(certificates), "certificates");
    snprintf(ca, sizeof(ca), "%s/ca.pem", certificates);
    snprintf(command, sizeof(command), script, certificates);
    if (system(command) != 0) { // NOLINT(cert-env33-c): a test's own line
        fail("openssl can't make certificates");
    }
}

static void set_ports(real_redis *r) {
    int port = ports_claim();
    if (!r->cluster || real_server_has(REAL_SEVEN)) {
        set_port(r, port);
        r->bus_port = r->cluster ? ports_claim() : 0;
        return;
    }
    set_port(r, port);
    r->bus_port = port + BUS_APART;
}

/* One whose port somebody took just before it ends while it is asked, and the next is started: which isn't to end the test. */
static void launch(real_redis *r, bool any_port, bool loaded) {
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    char path[512];
    if (!program(path, sizeof(path))) {
        fputs("SKIP: no redis-server in PATH (Debian: apt-get install redis-server)\n", stderr);
        exit(SKIP);
    }
    for (int i = 0; i < START_TRIES; i++) {
        if (any_port) {
            set_ports(r);
            write_config(r);
        }
        spawn(r, path);
        if (wait_for(r, loaded)) {
            (void)signal(SIGPIPE, before);
            return;
        }
        real_redis_kill(r);
    }
    print_log(r);
    fail("redis-server on port %d does not answer", r->port);
}

real_redis *real_redis_start(const real_redis_options *options) {
    real_redis *r = calloc(1, sizeof(*r));
    if (!r) {
        fail("out of memory");
    }
    r->pid = -1;
    if (options) {
        r->config = options->config ? strdup(options->config) : NULL;
        r->password = options->password ? strdup(options->password) : NULL;
        r->persist = options->persist;
        r->sentinel = options->sentinel;
        r->cluster = options->cluster;
        r->debug = options->debug;
        r->tls = options->tls;
    }
    enlist(r);
    if (r->tls && !certificates[0]) {
        make_certificates();
    }
    make_dir(r);
    launch(r, true, true);
    return r;
}

bool real_redis_speaks_tls(void) {
    char line[256];
    bool asks = false;
    FILE *f = popen("redis-server --port 0 --tls-port 1 2>&1",
                    "re"); // NOLINT(cert-env33-c): a test's own line
    while (f && fgets(line, sizeof(line), f)) {
        asks = asks || strstr(line, "No tls-cert-file configured");
    }
    if (f) {
        (void)pclose(f);
    }
    if (!asks) {
        print_message("SKIP: this %s can't speak TLS\n", real_server_name());
    }
    return asks;
}

void real_redis_need_tls(void) {
    if (!real_redis_speaks_tls()) {
        exit(SKIP);
    }
}

void real_redis_free(real_redis *r) {
    if (!r) {
        return;
    }
    for (size_t i = 0; i < SERVERS_MAX; i++) {
        if (servers[i] == r) {
            servers[i] = NULL;
        }
    }
    real_redis_kill(r);
    nftw(r->dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    free(r->config);
    free(r->password);
    free(r);
}

int real_redis_port(const real_redis *r) {
    return r->port;
}

int real_redis_bus_port(const real_redis *r) {
    return r->bus_port;
}

const char *real_redis_socket(const real_redis *r) {
    return r->socket;
}

const char *real_redis_dir(const real_redis *r) {
    return r->dir;
}

pid_t real_redis_pid(const real_redis *r) {
    return r->pid;
}

bool real_redis_is_running(const real_redis *r) {
    return r->pid > 0 && !r->frozen;
}

const char *real_redis_ca(void) {
    return ca[0] ? ca : NULL;
}

const char *real_redis_url(const real_redis *r) {
    return r->url;
}

const char *real_redis_unix_url(const real_redis *r) {
    return r->unix_url;
}

void real_redis_kill(real_redis *r) {
    redisFree(r->context);
    r->context = NULL;
    if (r->pid > 0) {
        kill(r->pid, SIGKILL);
        while (waitpid(r->pid, NULL, 0) < 0 && errno == EINTR) {}
        r->pid = -1;
        r->frozen = false;
        unlink(r->socket);
    }
}

void real_redis_freeze(real_redis *r) {
    int status;
    if (r->pid > 0 && kill(r->pid, SIGSTOP) == 0) {
        waitpid(r->pid, &status, WUNTRACED);
        r->frozen = true;
    }
}

void real_redis_thaw(real_redis *r) {
    if (r->pid > 0) {
        kill(r->pid, SIGCONT);
        r->frozen = false;
    }
}

void real_redis_restart(real_redis *r) {
    real_redis_kill(r);
    launch(r, false, true);
}

void real_redis_restart_loading(real_redis *r) {
    real_redis_kill(r);
    launch(r, false, false);
}

/* ---- talking to it --------------------------------------------------------------------------- */

redisContext *real_redis_connect(const real_redis *r) {
    redisContext *context = redisConnectUnixWithTimeout(r->socket, limit);
    if (!context || context->err) {
        fail("connect %s: %s", r->socket, context ? context->errstr : "out of memory");
    }
    redisSetTimeout(context, limit);
    if (r->password) {
        freeReplyObject(redisCommand(context, "AUTH %s", r->password));
    }
    return context;
}

/* Nothing is read from it but replies, so whatever there is to read now is its end. */
static bool is_lost(const redisContext *context) {
    struct pollfd fd = {.fd = context->fd, .events = POLLIN};
    return context->err || poll(&fd, 1, 0) > 0;
}

static redisReply *command(real_redis *r, const char *format, va_list args) {
    if (r->context && is_lost(r->context)) {
        redisFree(r->context);
        r->context = NULL;
    }
    if (!r->context) {
        r->context = real_redis_connect(r);
    }
    return redisvCommand(r->context, format, args);
}

redisReply *real_redis_command(real_redis *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = command(r, format, args);
    va_end(args);
    return reply;
}

long long real_redis_int(real_redis *r, const char *format, ...) {
    va_list args;
    va_start(args, format);
    redisReply *reply = command(r, format, args);
    va_end(args);
    long long v = -1;
    if (reply && reply->type == REDIS_REPLY_INTEGER) {
        v = reply->integer;
    } else if (reply && reply->type == REDIS_REPLY_STRING) {
        v = strtoll(reply->str, NULL, 10);
    }
    freeReplyObject(reply);
    return v;
}

void real_redis_give_slots(real_redis *r, int first, int last) {
    bool ok = true, ranges = real_server_has(REAL_SEVEN);
    for (int slot = first; ok && slot <= last; slot = ranges ? last + 1 : slot + 1) {
        redisReply *reply = ranges
                                ? real_redis_command(r, "CLUSTER ADDSLOTSRANGE %d %d", first, last)
                                : real_redis_command(r, "CLUSTER ADDSLOTS %d", slot);
        ok = reply && reply->type == REDIS_REPLY_STATUS;
        freeReplyObject(reply);
    }
    if (!ok) {
        fail("slots %d to %d can't be given", first, last);
    }
}

size_t real_redis_clients(real_redis *r) {
    redisReply *list = real_redis_command(r, "CLIENT LIST");
    size_t n = 0;
    char *rest = NULL;
    for (char *line = list ? strtok_r(list->str, "\n", &rest) : NULL; line;
         line = strtok_r(NULL, "\n", &rest))
        n += strstr(line, " addr=127.0.0.1:") && !strstr(line, " flags=S") &&
             !strstr(line, " flags=M");
    freeReplyObject(list);
    return n;
}
