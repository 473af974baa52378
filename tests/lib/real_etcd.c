/*
 * Starts, stops and torments members of an etcd for a test. It never touches an etcd that it did not start, nor the
 * usual ports.
 */
#include "real_etcd.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <tidelock/tidelock.h>
#include <time.h>
#include <unistd.h>

#include "ports.h"
#include "transport/gateway.h"

#define CLUSTERS_MAX 8
#define START_TRIES 5
#define ANSWER_MS 60000
#define ARGUMENTS_MAX 40
#define SKIP 77
#define MEMORY "/dev/shm"
#define MEMORY_LEAST (4ULL << 30) /* a member sets a file of 64 MiB aside */

typedef struct {
    pid_t pid;
    bool frozen;
    int port, peer_port;
    char url[96], log[160];
} member;

struct real_etcd {
    unsigned count;
    bool tls, mutual, jwt;
    unsigned quota; /* bytes; 0: as etcd has it */
    char dir[96], url[256], ca[128], cert[128], key[128];
    member of[REAL_ETCD_MAX];
};

static real_etcd *clusters[CLUSTERS_MAX];

__attribute__((noreturn, format(printf, 1, 2))) static void fail(const char *format, ...) {
    va_list args;
    va_start(args, format);
    fputs("real_etcd: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static bool has_program(const char *name) {
    char path[256];
    const char *from = getenv("PATH");
    for (from = from ? from : "/usr/bin:/bin"; *from; from += *from == ':') {
        size_t n = strcspn(from, ":");
        (void)snprintf(path, sizeof path, "%.*s/%s", (int)n, from, name);
        if (access(path, X_OK) == 0)
            return true;
        from += n;
    }
    return false;
}

static void need_programs(void) {
    const char *missing = !has_program("etcd")      ? "etcd (Debian: etcd-server)"
                          : !has_program("etcdctl") ? "etcdctl (Debian: etcd-client)"
                          : !tl__gateway_works()    ? "jansson, in this build"
                                                    : NULL;
    if (!missing)
        return;
    printf("skipped: there is no %s\n", missing);
    exit(SKIP);
}

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

/* ---- processes --------------------------------------------------------------------------------- */

/* out: where its standard output goes, and with `quiet` its errors; -1: nowhere. */
static pid_t spawn(char *const *argv, int out, bool quiet) {
    pid_t parent = getpid(), pid = fork();
    if (pid < 0)
        fail("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    int null = open("/dev/null", O_RDWR);
    dup2(null, 0);
    dup2(out >= 0 ? out : null, 1);
    if (quiet)
        dup2(out >= 0 ? out : null, 2);
    unsetenv("ETCD_UNSUPPORTED_ARCH");
    setenv("ETCD_UNSUPPORTED_ARCH", "arm64", 1); /* elsewhere it says nothing */
    execvp(argv[0], argv);
    _exit(127);
}

static void start_member(real_etcd *e, unsigned i, bool anew) {
    member *m = &e->of[i];
    char text[14][256];
    const char *scheme = e->tls ? "https" : "http";
    char all[512] = "";
    for (unsigned k = 0; k < e->count; k++)
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%sm%u=http://127.0.0.1:%d",
                       k ? "," : "", k, e->of[k].peer_port);
    (void)snprintf(text[0], sizeof *text, "--name=m%u", i);
    (void)snprintf(text[1], sizeof *text, "--data-dir=%s/m%u", e->dir, i);
    (void)snprintf(text[2], sizeof *text, "--listen-client-urls=%s://127.0.0.1:%d", scheme,
                   m->port);
    (void)snprintf(text[3], sizeof *text, "--advertise-client-urls=%s://127.0.0.1:%d", scheme,
                   m->port);
    (void)snprintf(text[4], sizeof *text, "--listen-peer-urls=http://127.0.0.1:%d", m->peer_port);
    (void)snprintf(text[5], sizeof *text, "--initial-advertise-peer-urls=http://127.0.0.1:%d",
                   m->peer_port);
    (void)snprintf(text[6], sizeof *text, "--initial-cluster-state=%s", anew ? "new" : "existing");
    (void)snprintf(text[7], sizeof *text, "--cert-file=%s/server.pem", e->dir);
    (void)snprintf(text[8], sizeof *text, "--key-file=%s/server.key", e->dir);
    (void)snprintf(text[9], sizeof *text, "--trusted-ca-file=%s/ca.pem", e->dir);
    char cluster[600], asks[] = "--client-cert-auth";
    (void)snprintf(cluster, sizeof cluster, "--initial-cluster=%s", all);
    char etcd[] = "etcd", quiet[] = "--logger=zap";
    if (e->jwt)
        (void)snprintf(text[10], sizeof *text,
                       "--auth-token=jwt,priv-key=%s/token.key,sign-method=HS256,ttl=10m", e->dir);
    else
        (void)snprintf(text[10], sizeof *text, "--auth-token=simple");
    (void)snprintf(text[11], sizeof *text, "--quota-backend-bytes=%u", e->quota);
    char *argv[] = {etcd,
                    text[0],
                    text[1],
                    text[2],
                    text[3],
                    text[4],
                    text[5],
                    text[6],
                    cluster,
                    quiet,
                    text[10],
                    text[11],
                    e->tls ? text[7] : NULL,
                    text[8],
                    e->mutual ? text[9] : NULL,
                    asks,
                    NULL};
    int log = open(m->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    m->pid = spawn(argv, log, true);
    m->frozen = false;
    close(log);
}

static bool has_died(member *m) {
    if (m->pid > 0 && waitpid(m->pid, NULL, WNOHANG) == m->pid)
        m->pid = -1;
    return m->pid < 0;
}

static bool answers(const real_etcd *e, unsigned i) {
    tl_client *client;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = e->of[i].url, .attempt_ms = 5000,
                                            .connect_ms = 5000);
    if (e->tls)
        o.tls_ca_file = e->ca;
    if (e->mutual)
        o.tls_cert_file = e->cert, o.tls_key_file = e->key;
    if (tl_client_open(&o, &client, NULL))
        return false;
    bool yes = tl_client_ping(client, NULL) == TL_OK;
    tl_client_close(client);
    return yes;
}

static bool wait_for(real_etcd *e, unsigned i) {
    for (int64_t end = now_ms() + ANSWER_MS; now_ms() < end; pause_ms(20)) {
        if (has_died(&e->of[i]))
            return false;
        if (answers(e, i))
            return true;
    }
    return false;
}

static int remove_one(const char *path, const struct stat *stat, int kind, struct FTW *where) {
    (void)stat, (void)kind, (void)where;
    return remove(path);
}

/* ---- life -------------------------------------------------------------------------------------- */

static void end_all(void) {
    for (size_t i = 0; i < CLUSTERS_MAX; i++)
        real_etcd_free(clusters[i]);
}

static void set_ports(real_etcd *e) {
    e->url[0] = '\0';
    for (unsigned i = 0; i < e->count; i++) {
        member *m = &e->of[i];
        m->port = ports_claim();
        m->peer_port = ports_claim();
        (void)snprintf(m->url, sizeof m->url, "etcd%s://127.0.0.1:%d", e->tls ? "s" : "", m->port);
        (void)snprintf(m->log, sizeof m->log, "%s/m%u.log", e->dir, i);
        (void)snprintf(e->url + strlen(e->url), sizeof e->url - strlen(e->url), "%s%s",
                       i ? "," : "", i ? strstr(m->url, "127") : m->url);
    }
}

static void make_certificates(real_etcd *e) {
    char command[1400];
    (void)snprintf(
        command, sizeof command,
        "cd %s && openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca "
        "2>/dev/null && openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj "
        "/CN=etcd 2>/dev/null && printf 'subjectAltName=IP:127.0.0.1' >ext && openssl x509 -req -in "
        "server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile ext -out server.pem "
        "2>/dev/null && openssl req -newkey rsa:2048 -nodes -keyout me.key -out me.csr -subj /CN=me 2>/dev/null && "
        "openssl x509 -req -in me.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -out me.pem 2>/dev/null",
        e->dir);
    if (system(command) != 0)
        fail("no certificates could be made");
    (void)snprintf(e->ca, sizeof e->ca, "%s/ca.pem", e->dir);
    (void)snprintf(e->cert, sizeof e->cert, "%s/me.pem", e->dir);
    (void)snprintf(e->key, sizeof e->key, "%s/me.key", e->dir);
}

static void make_token_key(const real_etcd *e) {
    char path[128];
    (void)snprintf(path, sizeof path, "%s/token.key", e->dir);
    FILE *f = fopen(path, "w");
    if (!f || fputs("a secret of this test alone, with which tokens are signed", f) < 0 ||
        fclose(f))
        fail("%s: %s", path, strerror(errno));
}

typedef struct {
    bool tls, mutual, jwt;
    unsigned quota;
} kind;

/* An etcd writes each change to its disk before it answers. On a disk that others keep busy that takes seconds, so that locks
 * expire which nothing is wrong with. So it lies in memory, where there is enough. */
static const char *base_dir(void) {
    const char *dir = getenv("TMPDIR");
    struct statvfs fs;
    if (dir)
        return dir;
    bool fits = statvfs(MEMORY, &fs) == 0 && access(MEMORY, W_OK) == 0 &&
                (uint64_t)fs.f_bavail * fs.f_frsize > MEMORY_LEAST;
    return fits ? MEMORY : "/tmp";
}

static real_etcd *start(unsigned members, kind of) {
    need_programs();
    real_etcd *e = calloc(1, sizeof *e);
    if (!e || members < 1 || members > REAL_ETCD_MAX)
        fail("%u members", members);
    e->count = members;
    e->tls = of.tls;
    e->mutual = of.mutual;
    e->jwt = of.jwt;
    e->quota = of.quota;
    (void)snprintf(e->dir, sizeof e->dir, "%.60s/tidelock-etcd-XXXXXX", base_dir());
    if (!mkdtemp(e->dir))
        fail("%s: %s", e->dir, strerror(errno));
    size_t slot = 0;
    while (slot < CLUSTERS_MAX && clusters[slot])
        slot++;
    if (slot == CLUSTERS_MAX)
        fail("too many clusters");
    static bool registered;
    if (!registered)
        (void)atexit(end_all);
    registered = true;
    clusters[slot] = e;
    if (e->tls)
        make_certificates(e);
    if (e->jwt)
        make_token_key(e);
    for (int tries = 0; tries < START_TRIES; tries++) {
        bool all = true;
        set_ports(e);
        for (unsigned i = 0; i < members; i++)
            start_member(e, i, true);
        for (unsigned i = 0; i < members && all; i++)
            all = wait_for(e, i);
        if (all)
            return e;
        for (unsigned i = 0; i < members; i++)
            real_etcd_kill(e, i);
    }
    fail("no etcd has answered: see its log, %s", e->of[0].log);
}

real_etcd *real_etcd_start(unsigned members) {
    return start(members, (kind){.tls = false});
}

real_etcd *real_etcd_start_tls(unsigned members) {
    return start(members, (kind){.tls = true});
}

real_etcd *real_etcd_start_mutual(unsigned members) {
    return start(members, (kind){.tls = true, .mutual = true});
}

real_etcd *real_etcd_start_jwt(unsigned members) {
    return start(members, (kind){.jwt = true});
}

real_etcd *real_etcd_start_small(unsigned members, unsigned bytes) {
    return start(members, (kind){.quota = bytes});
}

void real_etcd_free(real_etcd *e) {
    if (!e)
        return;
    for (unsigned i = 0; i < e->count; i++)
        real_etcd_kill(e, i);
    (void)nftw(e->dir, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    for (size_t i = 0; i < CLUSTERS_MAX; i++)
        if (clusters[i] == e)
            clusters[i] = NULL;
    free(e);
}

const char *real_etcd_url(const real_etcd *e) {
    return e->url;
}

const char *real_etcd_url_of(const real_etcd *e, unsigned i) {
    return e->of[i].url;
}

const char *real_etcd_ca(const real_etcd *e) {
    return e->ca;
}

const char *real_etcd_cert(const real_etcd *e) {
    return e->cert;
}

const char *real_etcd_key(const real_etcd *e) {
    return e->key;
}

void real_etcd_kill(real_etcd *e, unsigned i) {
    member *m = &e->of[i];
    if (m->pid <= 0)
        return;
    kill(m->pid, SIGKILL);
    waitpid(m->pid, NULL, 0);
    m->pid = -1;
    m->frozen = false;
}

void real_etcd_restart(real_etcd *e, unsigned i) {
    real_etcd_kill(e, i);
    start_member(e, i, false);
    if (!wait_for(e, i))
        fail("a member doesn't answer after its restart");
}

/* The signal goes to one of its threads; until that runs, the others go on, and may confirm a write yet. */
void real_etcd_freeze(real_etcd *e, unsigned i) {
    int status = 0;
    pid_t pid = e->of[i].pid;
    bool told = pid > 0 && kill(pid, SIGSTOP) == 0;
    if (!told || waitpid(pid, &status, WUNTRACED) != pid || !WIFSTOPPED(status))
        fail("a member can't be stopped");
    e->of[i].frozen = true;
}

void real_etcd_thaw(real_etcd *e, unsigned i) {
    kill(e->of[i].pid, SIGCONT);
    e->of[i].frozen = false;
}

/* ---- etcdctl ----------------------------------------------------------------------------------- */

static pid_t run_ctl(const real_etcd *e, const char *endpoints, const char *arguments, int out) {
    char room[2048], where[512], cacert[160], cert[160], key[160];
    char *argv[ARGUMENTS_MAX];
    int n = 0;
    (void)snprintf(room, sizeof room, "%s", arguments);
    (void)snprintf(where, sizeof where, "--endpoints=%s", endpoints);
    (void)snprintf(cacert, sizeof cacert, "--cacert=%s", e->ca);
    static char etcdctl[] = "etcdctl";
    argv[n++] = etcdctl;
    argv[n++] = where;
    static char limits[][32] = {"--command-timeout=30s", "--dial-timeout=30s"};
    argv[n++] = limits[0];
    argv[n++] = limits[1];
    (void)snprintf(cert, sizeof cert, "--cert=%s", e->cert);
    (void)snprintf(key, sizeof key, "--key=%s", e->key);
    if (e->tls)
        argv[n++] = cacert;
    if (e->mutual)
        argv[n++] = cert, argv[n++] = key;
    char *rest;
    for (char *word = strtok_r(room, " ", &rest); word && n < ARGUMENTS_MAX - 1;
         word = strtok_r(NULL, " ", &rest))
        argv[n++] = word;
    argv[n] = NULL;
    return spawn(argv, out, false);
}

static void running(const real_etcd *e, char *to, size_t size) {
    to[0] = '\0';
    for (unsigned i = 0; i < e->count; i++)
        if (e->of[i].pid > 0 && !e->of[i].frozen)
            (void)snprintf(to + strlen(to), size - strlen(to), "%shttp%s://127.0.0.1:%d",
                           to[0] ? "," : "", e->tls ? "s" : "", e->of[i].port);
}

pid_t real_etcd_ctl_start(const real_etcd *e, const char *arguments) {
    char endpoints[400];
    running(e, endpoints, sizeof endpoints);
    return run_ctl(e, endpoints, arguments, -1);
}

static const char *ctl_at(const real_etcd *e, const char *endpoints, const char *arguments) {
    static char room[4096];
    char name[160];
    (void)snprintf(name, sizeof name, "%s/out", e->dir);
    int out = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600), status = 1;
    pid_t pid = run_ctl(e, endpoints, arguments, out), ended = 0;
    for (int64_t end = now_ms() + ANSWER_MS; now_ms() < end && ended == 0; pause_ms(5))
        ended = waitpid(pid, &status, WNOHANG);
    if (ended == 0) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
    }
    ssize_t n = pread(out, room, sizeof room - 1, 0);
    room[n > 0 ? n : 0] = '\0';
    close(out);
    return ended > 0 && WIFEXITED(status) && WEXITSTATUS(status) == 0 ? room : NULL;
}

const char *real_etcd_ctl(const real_etcd *e, const char *arguments) {
    char endpoints[400];
    running(e, endpoints, sizeof endpoints);
    return ctl_at(e, endpoints, arguments);
}

/* The number behind the name, as a text; "": there is none. */
static const char *number_of(const char *json, const char *name, char to[24]) {
    const char *at = json ? strstr(json, name) : NULL;
    to[0] = '\0';
    if (at)
        (void)sscanf(at + strlen(name), "%23[0-9]", to);
    return to;
}

unsigned real_etcd_leader(const real_etcd *e) {
    char member[24], leader[24];
    for (int64_t end = now_ms() + ANSWER_MS; now_ms() < end; pause_ms(50)) {
        for (unsigned i = 0; i < e->count; i++) {
            char endpoint[64];
            if (e->of[i].pid <= 0 || e->of[i].frozen)
                continue;
            (void)snprintf(endpoint, sizeof endpoint, "http%s://127.0.0.1:%d", e->tls ? "s" : "",
                           e->of[i].port);
            const char *text = ctl_at(e, endpoint, "endpoint status -w json --command-timeout=2s");
            (void)number_of(text, "\"member_id\":", member);
            if (member[0] && strcmp(member, number_of(text, "\"leader\":", leader)) == 0)
                return i;
        }
    }
    fail("no member leads");
}
