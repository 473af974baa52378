/*
 * Finds the server of local:, or has it started, in a thread of its own for each caller. The locks of
 * local_inside.h coordinate these threads, in all processes. Caller and thread share a tl_local, which the
 * last one to leave frees. It must never start a second server beside a live one, nor wait for anything
 * without a limit.
 */
#include "transport/local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "ground/cancel.h"
#include "ground/stay.h"
#include "ground/thread.h"
#include "ground/wait.h"
#include "transport/local/local_inside.h"

#define START_LOCK "start.lock"
#define NAP_MS 10
#define NAP_LONG_MS 100 /* between tries for a name that is in use */
#define HIDDEN_MS 1000  /* a server that ends releases its directory first, then its name */
#define ANSWER_MS 100   /* wait for the reply to one PING, then try again */
#define MOST_MS 60000   /* a thread lives no longer, whatever limit its caller gave */
#define LINE_SIZE 160

struct tl_local {
    atomic_int holders; /* the caller and the thread */
    atomic_bool done;   /* the rest is written and stays unchanged */
    int fd;
    int64_t limit_ms;
    char path[TL_LOCAL_DIR_SIZE];
    tl_local_problem problem;
};

/* The search, in the thread. */
typedef struct {
    tl_local *local;
    tl_mono by;
    int dir, start;
    bool starting; /* start.lock is ours */
    bool launched;
    bool hidden; /* its name was in use */
    tl_mono hidden_by;
    int64_t logged; /* bytes of the log before the launch */
} search;

/* ---- is it there? ------------------------------------------------------------------------------ */

/* Send it one PING. A server that we have started also gets the log level "warning", so that the log of a
 * server that runs for years stays small. */
static bool ask(int fd, bool hush) {
    static const char words[] = "PING\r\nCONFIG SET loglevel warning\r\n";
    struct pollfd p = {.fd = fd, .events = POLLIN};
    char reply[64];
    size_t n = hush ? sizeof words - 1 : strlen("PING\r\n");
    if (send(fd, words, n, MSG_NOSIGNAL) != (ssize_t)n || poll(&p, 1, ANSWER_MS) <= 0)
        return false;
    ssize_t got = recv(fd, reply, sizeof reply, 0);
    bool loading = got >= 8 && memcmp(reply, "-LOADING", 8) == 0;
    return got > 0 && !loading;
}

static bool answers(const search *state) {
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    (void)snprintf(un.sun_path, sizeof un.sun_path, "%s/" TL_LOCAL_SOCKET, state->local->path);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    bool result = false;
    if (fd < 0)
        return false;
    if (connect(fd, (const struct sockaddr *)&un, sizeof un) == 0)
        result = ask(fd, state->launched);
    else if (errno == EAGAIN)
        result = true; /* so many clients that its backlog is full */
    close(fd);
    return result;
}

/* ---- starting it ------------------------------------------------------------------------------- */

static bool ended(search *state) {
    char line[LINE_SIZE];
    tl__local_last_line(state->dir, state->logged, line, sizeof line);
    return !tl__local_failed(&state->local->problem, TL_EUNAVAILABLE,
                             "local: redis-server ended at once%s %s", line[0] ? ":" : "",
                             line[0] ? line : "and printed nothing");
}

/* The name is in use. true: for longer than a server needs to end. */
static bool stays_hidden(search *state) {
    tl_mono now = tl__mono_now();
    if (!state->hidden)
        state->hidden_by = tl__mono_add_ms(now, HIDDEN_MS);
    state->hidden = true;
    return !tl__mono_before(now, state->hidden_by) &&
           !tl__local_hidden(state->local->path, &state->local->problem);
}

/* true: nothing more can be tried. */
static bool launch(search *state) {
    tl_local *local = state->local;
    int log = tl__local_open_log(state->dir, &state->logged);
    if (log < 0)
        return !tl__local_failed(&local->problem, TL_EUNAVAILABLE, "local: %s/" TL_LOCAL_LOG ": %s",
                                 local->path, strerror(errno));
    tl_launch_result result = tl__local_launch(local->path, state->dir, log, state->by,
                                               &local->problem);
    close(log);
    state->launched = result == TL_LAUNCHED;
    if (result == TL_LAUNCH_HIDDEN)
        return stays_hidden(state);
    return result == TL_LAUNCH_FAILED;
}

static bool too_late(search *state) {
    tl_local *local = state->local;
    if (state->hidden && !state->launched)
        return !tl__local_hidden(local->path, &local->problem);
    local->problem.late = true;
    long long pid = state->launched || !tl__local_is_alive(state->dir) ? 0
                                                                       : tl__local_pid(state->dir);
    if (pid)
        return !tl__local_failed(
            &local->problem, TL_EUNAVAILABLE,
            "local: redis-server (pid %lld) does not answer: see %s/" TL_LOCAL_LOG
            ", or end it: tidelock local stop --force",
            pid, local->path);
    return !tl__local_failed(&local->problem, TL_EUNAVAILABLE,
                             "local: redis-server does not answer in %lld ms: see %s/" TL_LOCAL_LOG,
                             (long long)local->limit_ms, local->path);
}

/* Check everything once. true: the search is over. */
static bool settled(search *state) {
    if (answers(state))
        return true;
    if (state->launched && !tl__local_is_alive(state->dir))
        return ended(state);
    if (state->starting && !state->launched && !tl__local_is_alive(state->dir) && launch(state))
        return true;
    if (atomic_load(&state->local->holders) == 1)
        return true; /* the caller has left */
    if (!tl__mono_before(tl__mono_now(), state->by))
        return too_late(state);
    if (!state->starting)
        state->starting = flock(state->start, LOCK_EX | LOCK_NB) == 0;
    (void)poll(NULL, 0, state->hidden ? NAP_LONG_MS : NAP_MS);
    return false;
}

static void find_or_start(tl_local *local) {
    search s = {
        .local = local, .start = -1, .by = tl__mono_add_ms(tl__mono_now(), local->limit_ms)};
    s.dir = tl__local_open_dir(local->path, true, &local->problem);
    if (s.dir < 0)
        return;
    s.start = openat(s.dir, START_LOCK, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW,
                     S_IRUSR | S_IWUSR);
    if (s.start < 0)
        (void)tl__local_failed(&local->problem, TL_EUNAVAILABLE, "local: %s/" START_LOCK ": %s",
                               local->path, strerror(errno));
    else
        while (!settled(&s)) {}
    if (s.starting)
        (void)flock(s.start, LOCK_UN); /* a process that was forked meanwhile may share the lock */
    if (s.start >= 0)
        close(s.start);
    close(s.dir);
}

/* ---- the two sides ----------------------------------------------------------------------------- */

static void leave(tl_local *local) {
    if (atomic_fetch_sub(&local->holders, 1) > 1)
        return;
    tl__wake_close(local->fd);
    free(local);
}

static void *work(void *box) {
    tl_local *local = box;
    (void)tl__cancel_off();
    find_or_start(local);
    atomic_store(&local->done, true);
    tl__wake_post(local->fd);
    leave(local);
    return NULL;
}

tl_local *tl__local_start(const char *path, int64_t limit_ms) {
    tl_local *local = calloc(1, sizeof *local);
    if (!local)
        return NULL;
    (void)snprintf(local->path, sizeof local->path, "%s", path);
    local->limit_ms = limit_ms < MOST_MS ? limit_ms : MOST_MS;
    atomic_init(&local->holders, 2);
    local->fd = tl__wake_open();
    if (local->fd < 0)
        goto out;
    int result = tl__thread_start(work, local, NULL);
    if (result == 0)
        return local;
    tl__wake_close(local->fd);
    errno = result;
out:
    free(local);
    return NULL;
}

int tl__local_fd(const tl_local *local) {
    return local->fd;
}

bool tl__local_done(const tl_local *local) {
    return atomic_load(&local->done);
}

const tl_local_problem *tl__local_problem(const tl_local *local) {
    return local->problem.code ? &local->problem : NULL;
}

void tl__local_free(tl_local *local) {
    int saved = errno;
    if (local && !tl__local_done(local))
        tl__stay_loaded(); /* the thread goes on, even if the program unloads the library */
    if (local)
        leave(local);
    errno = saved;
}
