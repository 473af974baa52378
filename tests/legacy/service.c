/*
 * Processes that are spoken to in lines, Java among them: started, heard, killed. None of them
 * outlives the test program.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "legacy.h"

#define SKIP 77
#define WORDS_MAX 24
#define PATH_SIZE 256

static const char *const faketime[] = {
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    "/usr/lib/faketime/libfaketime.so.1",
    "/usr/lib64/faketime/libfaketime.so.1",
};

int64_t shared_us(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

tl_client_options legacy_client(const char *url, tl_protocol_id protocol, bool strict) {
    static tl_legacy_options legacy;
    legacy = TL_LEGACY_OPTIONS(.strict = strict, .clock_skew_max_ms = SKEW_MS,
                               .legacy_delay_max_ms = LAG_MS, .legacy_ttl_min_ms = LIFE_MS,
                               .phase_lease_ms = protocol == TL_AUTO ? LEASE_MS : 0);
    return TL_CLIENT_OPTIONS(.url = url, .protocol = protocol, .attempt_ms = TURN_MS,
                             .connect_ms = LATE_MS,
                             .legacy = protocol == TL_TOKEN ? NULL : &legacy);
}

/* ---- what must be there ----------------------------------------------------------------------- */

static void give_up(const char *why) {
    (void)fprintf(stderr, "SKIP: %s\n", why);
    exit(SKIP);
}

static char classes[2 * PATH_SIZE]; /* a class path */

/* Several tests may begin at once: each compiles into a directory of its own, and the first gives its the
 * name that says what it was compiled from. Nothing there ever changes. The drop-in lies in java/, with its scripts. */
static const char compile[] =
    "set -e; cd '%s'; b=$PWD; cd \"$OLDPWD\"; "
    "c=$b/legacy/$(cat compat/java/io/tidelock/*.java tests/legacy/*.java | sha1sum | cut -c1-16); "
    "if [ ! -d \"$c\" ]; then mkdir -p \"$b/legacy\"; t=$(mktemp -d \"$c.XXXXXX\"); "
    "javac -Xlint:all -Werror -cp \"$b/java\" -d \"$t\" tests/legacy/*.java >&2 || "
    "{ rm -rf \"$t\"; exit 1; }; "
    "mv -T \"$t\" \"$c\" 2>/dev/null || rm -rf \"$t\"; fi; echo \"$c:$b/java\"";

void legacy_need_java(void) {
    char command[4 * PATH_SIZE];
    const char *build = getenv("BUILD");
    if (system("command -v java >/dev/null && command -v javac >/dev/null") != 0)
        give_up("no JDK (Debian: default-jdk-headless)");
    (void)snprintf(command, sizeof command, compile, build ? build : "build");
    FILE *shell = popen(command, "r");
    bool read = shell && fgets(classes, sizeof classes, shell);
    if (!shell || pclose(shell) != 0 || !read) {
        (void)fputs("javac failed; is there a build/java (make java)?\n", stderr);
        exit(1);
    }
    classes[strcspn(classes, "\n")] = '\0';
}

static const char *faketime_path(void) {
    for (size_t i = 0; i < sizeof faketime / sizeof *faketime; i++)
        if (access(faketime[i], R_OK) == 0)
            return faketime[i];
    return NULL;
}

void legacy_need_faketime(void) {
    if (!faketime_path())
        give_up("no libfaketime (Debian: libfaketime)");
}

/* ---- start ------------------------------------------------------------------------------------ */

/* Only the wall clock moves. */
static void shift_clock(int shift_ms) {
    char text[32];
    (void)snprintf(text, sizeof text, "%c%d.%03d", shift_ms < 0 ? '-' : '+', abs(shift_ms) / 1000,
                   abs(shift_ms) % 1000);
    (void)setenv("FAKETIME", text, 1);
    (void)setenv("FAKETIME_DONT_FAKE_MONOTONIC", "1", 1);
    (void)setenv("FAKETIME_FORCE_MONOTONIC_FIX", "0", 1); /* else Java's timed waits spin */
    (void)setenv("LD_PRELOAD", faketime_path(), 1);
}

static void become(const char *const words[], int wire, int shift_ms, const char *errors) {
    char *argv[WORDS_MAX];
    size_t n = 0;
    for (; n < WORDS_MAX - 1 && words[n]; n++)
        argv[n] = (char *)(uintptr_t)words[n];
    argv[n] = NULL;
    (void)dup2(wire, 0);
    (void)dup2(wire, 1);
    if (errors) {
        int to = open(errors, O_WRONLY | O_CREAT | O_APPEND, 0600);
        (void)dup2(to, 2);
    }
    if (shift_ms != 0)
        shift_clock(shift_ms);
    (void)execvp(argv[0], argv);
    _exit(127);
}

service service_start(const char *const words[], int shift_ms, const char *errors) {
    int ends[2];
    pid_t parent = getpid();
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    service s = {.pid = fork(), .wire = ends[0]};
    assert_true(s.pid >= 0);
    if (s.pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent)
            _exit(1);
        (void)setpgid(0, 0);
        become(words, ends[1], shift_ms, errors);
    }
    (void)setpgid(s.pid, s.pid); /* whichever of us comes first */
    (void)close(ends[1]);
    return s;
}

service service_java(const char *const args[], int shift_ms, const char *errors) {
    const char *words[WORDS_MAX] = {
        "java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xmx32m", "-cp", classes};
    size_t n = 6;
    for (size_t i = 0; n < WORDS_MAX - 1 && args[i]; i++)
        words[n++] = args[i];
    return service_start(words, shift_ms, errors);
}

service java_peer(const real_redis *server, int shift_ms) {
    char port[16], life[16];
    (void)snprintf(port, sizeof port, "%d", real_redis_port(server));
    (void)snprintf(life, sizeof life, "%d", LIFE_MS);
    service java = service_java((const char *const[]){"LegacyWorker", "peer", port, life, NULL},
                                shift_ms, NULL);
    char line[LINE_SIZE];
    service_await(&java, line);
    assert_string_equal(line, "ready");
    return java;
}

void java_answers(service *java, const char *question, const char *answer) {
    char line[LINE_SIZE];
    service_say(java, question);
    service_await(java, line);
    if (strncmp(line, answer, strlen(answer)) != 0)
        fail_msg("Java said '%s' to '%s'", line, question);
}

/* ---- lines ------------------------------------------------------------------------------------ */

static bool cut_line(service *s, char line[LINE_SIZE]) {
    char *end = memchr(s->got, '\n', s->n);
    if (!end)
        return false;
    size_t length = (size_t)(end - s->got);
    memcpy(line, s->got, length);
    line[length] = '\0';
    s->n -= length + 1;
    memmove(s->got, end + 1, s->n);
    return true;
}

int service_line(service *s, char line[LINE_SIZE]) {
    while (!cut_line(s, line)) {
        if (s->wire < 0)
            return -1;
        if (s->n == sizeof s->got)
            s->n = 0; /* too long for anything that is expected */
        ssize_t got = recv(s->wire, s->got + s->n, sizeof s->got - s->n, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EINTR))
            return 0;
        if (got <= 0)
            return -1;
        s->n += (size_t)got;
    }
    return 1;
}

void service_await(service *s, char line[LINE_SIZE]) {
    int got = service_line(s, line);
    for (const clock_wait wait = clock_wait_begin(LATE_MS); got == 0 && clock_wait_more(&wait);)
        got = service_line(s, line);
    if (got <= 0)
        fail_msg("a service has ended, or is silent");
}

void service_say(service *s, const char *line) {
    char text[LINE_SIZE];
    int n = snprintf(text, sizeof text, "%s\n", line);
    (void)send(s->wire, text, (size_t)n, MSG_NOSIGNAL);
}

int service_kill(service *s) {
    int status = 0;
    if (s->pid > 0) {
        (void)kill(-s->pid, SIGKILL); /* with what it has started */
        (void)waitpid(s->pid, &status, 0);
    }
    if (s->wire >= 0)
        (void)close(s->wire);
    *s = (service){.pid = -1, .wire = -1};
    return status;
}
