/*
 * tidelock run: acquire, start the command, stay with it, release, and tell how it went. All that
 * happens while the command lives is in watch.c.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/js.h"
#include "base/outfile.h"
#include "base/report.h"
#include "base/tool.h"
#include "lock/childenv.h"
#include "lock/nested.h"
#include "lock/run_metrics.h"
#include "lock/watch.h"

#define NOT_GIVEN (-1)
#define RESTART_MS 1000 /* from one start of --forever to the next, and after an outage */

typedef struct {
    int64_t ttl_ms, wait_ms, max_hold_ms;
    int conflict_exit_code, on_lost, json_fd, format;
    const char *name, *metrics;
    int verbose;
    bool no_wait, fair, forever, json, new_session;
    server_care care;
} run_options;

static const run_options defaults = {
    .ttl_ms = SERVER_NO_TTL,
    .wait_ms = NOT_GIVEN,
    .max_hold_ms = NOT_GIVEN,
    .conflict_exit_code = STATUS_BUSY,
    .json_fd = NOT_GIVEN,
    .care = {.quiet_ms = SERVER_NO_QUIET},
};

#define AT(member) offsetof(run_options, member)
static const opt options[] = {
    {'t', "ttl", OPT_DURATION, AT(ttl_ms), "D", "lifetime, renewed while the command runs (30s)", 0,
     0},
    {'w', "wait", OPT_DURATION, AT(wait_ms), "D", "how long to wait for the lock (for ever)", 0, 0},
    {'n', "no-wait", OPT_FLAG, AT(no_wait), NULL, "try once", 0, 0},
    {0, "fair", OPT_FLAG, AT(fair), NULL, "wait in the order in which the server saw who waits", 0,
     0},
    {'E', "conflict-exit-code", OPT_NUMBER, AT(conflict_exit_code), "N",
     "exit status when the lock was not had in time (75)", 0, 255},
    {0, "on-lost", OPT_CHOICE, AT(on_lost), "term|kill|continue",
     "what to do when the lock is lost (term)", 0, 0},
    {0, "max-hold", OPT_DURATION, AT(max_hold_ms), "D", "end the command after D", 0, 0},
    SERVER_CARE(AT(care)),
    {0, "new-session", OPT_FLAG, AT(new_session), NULL,
     "the command gets a session of its own, and no terminal", 0, 0},
    {0, "forever", OPT_FLAG, AT(forever), NULL, "when the command ends, lock and run again", 0, 0},
    {0, "json-fd", OPT_NUMBER, AT(json_fd), "N",
     "at the end write one line of JSON to descriptor N", 0, 1 << 20},
    {0, "metrics", OPT_TEXT, AT(metrics), "FILE",
     "at the end replace FILE by how it went, for Prometheus' textfile collector", 0, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "needs --json-fd too, and adds nothing to it", 0, 0},
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, "name", OPT_TEXT, AT(name), "NAME", "the holder's name that others see (the command's)", 0,
     0},
    {'v', "verbose", OPT_COUNT, AT(verbose), NULL,
     "say what happens, on stderr; -vv: each request, reply and decision, too", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* All of a run, and what the present round of it has come to. */
typedef struct {
    const run_options *o;
    const server *server;
    const char *key;
    char shown[KEY_SHOWN];
    char **argv;
    signals signals;
    news news;
    tl_client *client;
    tl_lock *lock;
    int timer;
    int64_t started; /* the last command, by moment_ms */
    /* the round */
    tl_err result; /* of the acquisition; of the lock later on */
    tl_error err;
    int cancelled_by;
    int why; /* the command could not be started: an errno */
    int64_t waited_ms, held_ms;
    int status;
    bool stop; /* no further round */
    watch watch;
} run;

/* ---- one round ------------------------------------------------------------------------------ */

static int64_t wait_limit(const run_options *o) {
    if (o->no_wait)
        return 0;
    return o->wait_ms == NOT_GIVEN ? TL_FOREVER : o->wait_ms;
}

static bool acquire(run *r) {
    char took[DURATION_SHOWN];
    int64_t start = moment_ms();

    if (nested_holds(r->server, r->client, r->key, &r->err))
        r->result = TL_EBUSY;
    else
        r->result = signals_acquire(&r->signals, r->lock, wait_limit(r->o), &r->cancelled_by,
                                    &r->err);
    r->waited_ms = moment_ms() - start;
    if (r->result == TL_OK && r->o->verbose)
        say_if_free("%s: acquired (fence %llu) after %s", r->shown,
                    (unsigned long long)tl_lock_fence(r->lock), show_ms(took, r->waited_ms));
    return r->result == TL_OK;
}

static void not_acquired(run *r, tl_err before) {
    bool conflict = r->result == TL_EBUSY || r->result == TL_ETIMEDOUT;

    r->status = conflict ? r->o->conflict_exit_code : status_of(r->result);
    if (r->result == TL_ECANCELLED) {
        r->status = signals_status(r->cancelled_by);
        r->stop = true;
    } else if (conflict && r->o->conflict_exit_code == 0 && !r->o->verbose) {
        /* The caller has said that this is no error. */
    } else if (conflict) {
        say("%s; see: tidelock check %s", r->err.message, r->shown);
    } else if (r->result != before) { /* an outage is reported once */
        (void)fail_as(r->server, &r->err);
    }
    if (conflict || r->status == STATUS_USAGE || r->status == STATUS_REFUSED)
        r->stop = true;
}

/* The command is started, if the lock still lives: we may have been stopped since it was had. What is
 * wrong is said once the lock is released: stderr may keep us waiting. */
static bool start(run *r, char **env) {
    int64_t now = moment_ms();

    r->started = now;
    r->watch = (watch){
        .signals = &r->signals,
        .lock = r->lock,
        .news = &r->news,
        .timer = r->timer,
        .key = r->shown,
        .verbose = r->o->verbose > 0,
        .guard = guard_begin((on_lost_mode)r->o->on_lost, r->o->ttl_ms,
                             tl_lock_remaining_ms(r->lock), r->o->max_hold_ms, now),
    };
    if (tl_lock_state(r->lock) == TL_LOST) {
        r->result = TL_ELOST;
        r->status = STATUS_LOST;
        return false;
    }
    const supervisor_plan plan = {
        .signals = &r->signals,
        .argv = r->argv,
        .env = env,
        .new_session = r->o->new_session,
        .until_ms = r->o->on_lost == ON_LOST_CONTINUE
                        ? INT64_MAX
                        : now + tl_lock_remaining_ms(r->lock) - r->watch.guard.kill_lead_ms / 2,
    };
    errno = ENOMEM;
    if (env && child_start(&r->watch.child, &plan) == 0)
        return true;
    r->why = errno;
    r->result = TL_ENOMEM;
    r->status = STATUS_INTERNAL;
    return false;
}

/* Of a lock that is over before anybody has told why: the server refuses the release for the reason for which it refuses
 * renewals, while the first of these may have failed only since the connection was lost. */
static void note_refusal(run *r, tl_err code) {
    char *trouble = r->watch.trouble, *cause = strstr(trouble, ": ");
    size_t len = strlen(trouble);
    bool known = cause && strstr(r->err.message, cause + 2);

    if ((code == TL_EDENIED || code == TL_EUNAVAILABLE || code == TL_ESERVER ||
         code == TL_EUNSUPPORTED) &&
        !known)
        (void)snprintf(trouble + len, sizeof r->watch.trouble - len, "%s%s", len ? "; " : "",
                       r->err.message);
}

static void not_started(const run *r) {
    if (r->result == TL_ELOST)
        say("%s: the lock was lost before the command began", r->shown);
    else
        say("start a process: %s", strerror(r->why));
}

static void release(run *r) {
    bool lost = r->watch.guard.for_loss || tl_lock_state(r->lock) == TL_LOST;
    tl_err code = tl_lock_release(r->lock, &r->err);

    watch_last_news(&r->watch);
    if (lost)
        note_refusal(r, code);
    if (lost || code == TL_EEXPIRED || code == TL_ETAKEN || code == TL_ELOST)
        r->result = TL_ELOST;
    else if (code != TL_OK)
        say("%s: the release is not confirmed, it expires by itself: %s", r->shown, r->err.message);
    else if (r->o->verbose)
        say("%s: released", r->shown);
}

/* Ctrl-C means --forever too, also where only a command with the terminal for itself has seen it. */
static bool interrupted(const child *c) {
    int status = c->seen.exit_status;

    return c->in_front && (status == STATUS_SIGNAL + SIGINT || status == STATUS_SIGNAL + SIGQUIT);
}

/* The messages that everybody gets, and the exit status. */
static void conclude(run *r) {
    const watch *w = &r->watch;
    const supervisor_report *c = &w->child.seen;

    r->status = c->ended_by ? signals_status(c->ended_by) : c->exit_status;
    if (c->no_process) {
        r->result = TL_ENOMEM;
        r->status = fail(STATUS_INTERNAL, "start a process: %s", strerror(c->start_failed));
    } else if (c->start_failed) {
        say("%.200s: %s", r->argv[0], strerror(c->start_failed));
        r->stop = true;
    } else if (r->result == TL_ELOST) {
        r->status = STATUS_LOST;
        say("%s: the lock %s%s%s%s", r->shown,
            w->guard.for_loss ? "could not be kept, so the command was ended"
                              : "was lost while the command ran",
            w->trouble[0] ? " (" : "", w->trouble, w->trouble[0] ? ")" : "");
    } else if (w->guard.term_sent) {
        say("%s: --max-hold has passed; the command was ended", r->shown);
    }
    if (r->o->verbose)
        say("%s: the command ended with status %d", r->shown, c->exit_status);
    if (w->end_asked)
        r->stop = true;
}

static void run_command(run *r) {
    char **env = childenv_make(r->key, tl_lock_token(r->lock), tl_lock_fence(r->lock),
                               r->o->ttl_ms);

    if (start(r, env)) {
        watch_command(&r->watch);
        r->stop = interrupted(&r->watch.child);
        child_close(&r->watch.child);
        r->held_ms = moment_ms() - r->started;
        release(r);
        conclude(r);
    } else {
        (void)tl_lock_release(r->lock, NULL);
        not_started(r);
    }
    childenv_free(env);
}

/* ---- for monitoring -------------------------------------------------------------------------- */

/* The lock is given back by now, and the status is the run's own, whatever becomes of the file. */
static void write_metrics(const run *r) {
    const run_ending ending = {.key = r->key,
                               .state = r->result == TL_OK ? "free" : state_of(r->result),
                               .exit_status = r->status,
                               .waited_ms = r->waited_ms,
                               .held_ms = r->held_ms,
                               .ended_us = moment_wall_us(),
                               .client = r->client};
    (void)run_metrics_write(r->o->metrics, &ending);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

/* Why the lock was not acquired, or was lost; NULL: neither. */
static const char *error_message(const run *r, bool acquired) {
    if (acquired)
        return r->result == TL_ELOST && r->watch.trouble[0] ? r->watch.trouble : NULL;
    return r->result == TL_ECANCELLED ? NULL : r->err.message;
}

static void write_json(run *r) {
    tl_lock_info info = {.size = sizeof info};
    bool acquired = r->held_ms >= 0;
    bool busy = r->result == TL_EBUSY || r->result == TL_ETIMEDOUT;
    bool looked = busy && tl_client_look(r->client, r->key, strlen(r->key), &info, NULL) == TL_OK;
    json_t *j = json_pack("{s:o}", "key", js_text(r->key));

    js_set(&j, "protocol", js_text(protocol_name(server_protocol(r->server))));
    js_set(&j, "state", js_text(r->result == TL_OK ? "free" : state_of(r->result)));
    js_set(&j, "token", js_text(acquired ? tl_lock_token(r->lock) : NULL));
    js_set(&j, "fence", acquired ? json_integer((int64_t)tl_lock_fence(r->lock)) : json_null());
    js_set(&j, "holder", report_holder(looked ? &info : NULL));
    js_set(&j, "remaining_ms", js_known(looked && info.held ? info.remaining_ms : -1));
    js_set(&j, "waiters", json_null());
    js_set(&j, "waited_ms", json_integer(r->waited_ms));
    js_set(&j, "held_ms", js_known(r->held_ms));
    js_set(&j, "exit_status", json_integer(r->status));
    js_set(&j, "signal",
           js_known(acquired && r->watch.child.seen.ended_by ? r->watch.child.seen.ended_by : -1));
    js_set(&j, "error", js_text(error_message(r, acquired)));
    if (js_line(j, r->o->json_fd))
        say("--json-fd: %s", strerror(errno));
}

/* ---- all of it ------------------------------------------------------------------------------ */

static void one_round(run *r) {
    tl_err before = r->result;

    r->held_ms = -1;
    r->cancelled_by = 0;
    news_clear(&r->news);
    if (acquire(r))
        run_command(r);
    else
        not_acquired(r, before);
    if (r->o->json_fd != NOT_GIVEN)
        write_json(r);
    if (r->o->metrics)
        write_metrics(r);
}

/* Until it is time for the next round; a signal ends the run. */
static void pause_between(run *r) {
    int64_t since = r->held_ms >= 0 ? moment_ms() - r->started : 0;

    if (since >= RESTART_MS)
        since = RESTART_MS;
    int sig = signals_pause(&r->signals, RESTART_MS - since);
    if (sig) {
        r->status = signals_status(sig);
        r->stop = true;
    }
}

static int rounds(run *r) {
    tl_lock_options lock_options = TL_LOCK_OPTIONS(.ttl_ms = r->o->ttl_ms, .on_event = news_event,
                                                   .ctx = &r->news, .fair = r->o->fair);

    r->lock = tl_lock_new(r->client, r->key, strlen(r->key), &lock_options, &r->err);
    if (!r->lock)
        return fail(status_of(r->err.code), "%s", r->err.message);
    one_round(r);
    while (r->o->forever && !r->stop) {
        pause_between(r);
        if (!r->stop)
            one_round(r);
    }
    tl_lock_free(r->lock);
    return r->status;
}

/* The name that others see: the command's, without its directory. */
static const char *service_name(const char *argv0) {
    const char *slash = strrchr(argv0, '/');

    return slash && slash[1] ? slash + 1 : argv0;
}

static int begin(run *r, const server *s) {
    if (signals_begin(&r->signals) || news_begin(&r->news) || (r->timer = moment_timer()) < 0)
        return fail(STATUS_INTERNAL, "no descriptors are left: %s", strerror(errno));
    const char *name = r->o->name ? r->o->name : service_name(r->argv[0]);
    server to = *s;
    to.trace = r->o->verbose > 1;
    to.care = &r->o->care;
    int status = server_open(&to, "run", name, &r->client);
    if (status)
        return status;
    status = rounds(r);
    tl_client_close(r->client);
    return status;
}

/* The command must not inherit the descriptor; 0, 1 and 2 are its own, so a copy is taken. */
static int prepare_json_fd(run_options *o) {
    if (o->json_fd == NOT_GIVEN)
        return o->json || o->format ? fail(STATUS_USAGE, "run: say where the JSON goes, apart from "
                                                         "the command's output: --json-fd 3 3>FILE")
                                    : 0;
    int mode = fcntl(o->json_fd, F_GETFL);
    if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
        return fail(STATUS_USAGE, "run: --json-fd %d is not open for writing: --json-fd 3 3>FILE",
                    o->json_fd);
    if (o->json_fd <= STDERR_FILENO)
        o->json_fd = fcntl(o->json_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    else
        (void)fcntl(o->json_fd, F_SETFD, FD_CLOEXEC);
    return o->json_fd < 0 ? fail(STATUS_INTERNAL, "--json-fd: %s", strerror(errno)) : 0;
}

static int check_options(const server *s, const run_options *o) {
    if (o->ttl_ms < TL_TTL_MIN_MS || o->ttl_ms > TL_TTL_MAX_MS)
        return fail(STATUS_USAGE, "run: --ttl: a lifetime is 10ms to 1d");
    if (o->no_wait && o->wait_ms != NOT_GIVEN)
        return fail(STATUS_USAGE, "run: --wait and --no-wait exclude each other");
    if (o->fair && (o->no_wait || o->wait_ms == 0))
        return fail(STATUS_USAGE,
                    "run: --fair: who tries once doesn't wait; leave one of them out");
    if (o->fair && server_protocol(s) != TL_TOKEN)
        return fail(STATUS_USAGE, "run: --fair needs the token protocol");
    if (o->name && !*o->name)
        return fail(STATUS_USAGE, "run: --name: it is empty; leave it out for the command's own");
    if (o->max_hold_ms == 0)
        return fail(STATUS_USAGE, "run: --max-hold 0 leaves the command no time");
    int status = server_care_check("run", &o->care, o->ttl_ms);
    return status || !o->metrics ? status : outfile_check("run: --metrics", o->metrics);
}

static int run_function(const server *s, const void *given, const operands *args) {
    run_options o = *(const run_options *)given;
    run r = {.o = &o, .server = s, .key = args->word[0], .argv = args->command, .timer = -1};

    o.ttl_ms = server_ttl_ms(s, o.ttl_ms);
    r.signals.fd = r.news.fd = -1;
    int status = check_options(s, &o);
    if (status == 0)
        status = prepare_json_fd(&o);
    if (status)
        return status;
    (void)show_key(r.shown, r.key);
    status = begin(&r, s);
    if (r.timer >= 0)
        close(r.timer);
    news_end(&r.news);
    if (r.signals.fd >= 0)
        signals_end(&r.signals);
    return status;
}

const command run_row = {
    .name = "run",
    .usage = "[options] KEY -- COMMAND [ARG...]",
    .help = "run a command under a lock",
    .notes =
        "Exit status: the command's own; 128 + n when signal n killed it; 74 the lock was lost while "
        "it ran; 75 the lock was not had in time; 126, 127 the command could not be started; 64 "
        "wrong usage, 69 server not reached, 70 internal, 77 refused, 78 bad configuration.\n"
        "The command sees TIDELOCK_KEY, TIDELOCK_TOKEN, TIDELOCK_FENCE and TIDELOCK_TTL_MS.\n",
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(legacy_lock_part),
    .runs = true,
    .args_min = 1,
    .args_max = 1,
    .function = run_function,
};
