/*
 * tidelock run: acquires the lock, starts the command, waits for its end, releases the lock and reports.
 * All that happens while the command runs is in watch.c.
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
#include "lock/not_found.h"
#include "lock/notify.h"
#include "lock/rest.h"
#include "lock/run_metrics.h"
#include "lock/watch.h"

#define NOT_GIVEN (-1)
#define US_PER_MS INT64_C(1000)
#define RESTART_MS 1000 /* at least, from one start of --forever to the next, and after an outage */

typedef struct {
    int64_t ttl_ms, wait_ms, max_hold_ms, watchdog_ms, once_per_ms, hold_at_least_ms;
    int conflict_exit_code, on_lost, on_failure, json_fd, format;
    const char *name, *metrics;
    int verbose;
    bool no_wait, fair, forever, json, new_session;
    server_care care;
} run_options;

enum { ON_FAILURE_RELEASE, ON_FAILURE_REST }; /* the words of --on-failure */

static const run_options defaults = {
    .ttl_ms = SERVER_NO_TTL,
    .wait_ms = NOT_GIVEN,
    .max_hold_ms = NOT_GIVEN,
    .watchdog_ms = NOT_GIVEN,
    .once_per_ms = REST_NOT_GIVEN,
    .hold_at_least_ms = REST_NOT_GIVEN,
    .on_failure = NOT_GIVEN,
    .conflict_exit_code = STATUS_BUSY,
    .json_fd = NOT_GIVEN,
    .care = {.quiet_ms = SERVER_NO_QUIET},
};

#define AT(member) offsetof(run_options, member)
static const opt options[] = {
    {'t', "ttl", OPT_DURATION, AT(ttl_ms), "D", "lifetime, renewed while the command runs (30s)", 0,
     0},
    {'w', "wait", OPT_DURATION, AT(wait_ms), "D", "wait for the lock at most so long (for ever)", 0,
     0},
    {'n', "no-wait", OPT_FLAG, AT(no_wait), NULL, "try once", 0, 0},
    {0, "fair", OPT_FLAG, AT(fair), NULL, "acquire in the order of arrival at the server", 0, 0},
    {'E', "conflict-exit-code", OPT_NUMBER, AT(conflict_exit_code), "N",
     "exit status when it was not acquired in time (75)", 0, 255},
    {0, "on-lost", OPT_CHOICE, AT(on_lost), "term|kill|continue",
     "what to do when the lock is lost (term)", 0, 0},
    {0, "max-hold", OPT_DURATION, AT(max_hold_ms), "D", "end the command after D", 0, 0},
    {0, "watchdog", OPT_DURATION, AT(watchdog_ms), "D",
     "lose the lock D after the last sign of life", 0, 0},
    {0, "once-per", OPT_DURATION, AT(once_per_ms), "D",
     "run it once in D over all hosts; without -w it tries once", 0, 0},
    {0, "name", OPT_TEXT, AT(name), "NAME", "the holder's name that others see (the command's)", 0,
     0},
    {'v', "verbose", OPT_COUNT, AT(verbose), NULL,
     "report each step on stderr; -vv: each request too", 0, 0},
    OPT_RARE_FOLLOW,
    {0, "on-failure", OPT_CHOICE, AT(on_failure), "release|rest",
     "with --once-per: whether another host may run a failed command again (release)", 0, 0},
    {0, "hold-at-least", OPT_DURATION, AT(hold_at_least_ms), "D",
     "at the end leave the lock taken until D after the acquire", 0, 0},
    SERVER_CARE(AT(care)),
    {0, "new-session", OPT_FLAG, AT(new_session), NULL,
     "run the command in a session of its own, without a terminal", 0, 0},
    {0, "forever", OPT_FLAG, AT(forever), NULL,
     "when the command ends, acquire the lock and run it again", 0, 0},
    {0, "json-fd", OPT_NUMBER, AT(json_fd), "N",
     "at the end write one line of JSON to descriptor N", 0, 1 << 20},
    {0, "metrics", OPT_TEXT, AT(metrics), "FILE",
     "at the end replace FILE by metrics, for Prometheus' textfile collector", 0, 0},
    {0, "json", OPT_FLAG, AT(json), NULL, "requires --json-fd, and changes nothing else", 0, 0},
    {0, "format", OPT_CHOICE, AT(format), "text|json", "json: as --json", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

/* All of a run, and the state of its present round. */
typedef struct {
    const run_options *options;
    const server *server;
    const char *key;
    char shown[KEY_SHOWN];
    char **argv;
    signals signals;
    news news;
    tl_client *client;
    tl_lock *lock;
    notify notify; /* of the present command */
    int timer;
    int64_t started; /* the start of the last command, by moment_ms */
    /* the round */
    tl_err result; /* of the acquisition; later of the lock */
    tl_error err;
    tl_lock_info found; /* what the key holds, while another client holds the lock */
    bool looked, known;
    int cancelled_by;
    int why; /* the errno, if the command could not be started */
    int64_t waited_ms, held_ms;
    int64_t acquired; /* by moment_ms */
    int64_t rests_ms; /* how long from then on the lock rests; 0: it doesn't */
    int64_t left_ms;  /* how long a lock that was left to expire remains; 0: it was not */
    int status;
    bool stop; /* there is no further round */
    watch watch;
} run;

/* ---- one round ------------------------------------------------------------------------------ */

static bool is_once(const run_options *options) {
    return options->once_per_ms != REST_NOT_GIVEN;
}

static int64_t wait_limit(const run_options *options) {
    if (options->no_wait || (is_once(options) && options->wait_ms == NOT_GIVEN))
        return 0;
    return options->wait_ms == NOT_GIVEN ? TL_FOREVER : options->wait_ms;
}

static bool acquire(run *run) {
    char took[DURATION_SHOWN];
    int64_t start = moment_ms();

    if (nested_holds(run->server, run->client, run->key, &run->err))
        run->result = TL_EBUSY;
    else
        run->result = signals_acquire(&run->signals, run->lock, wait_limit(run->options),
                                      &run->cancelled_by, &run->err);
    run->acquired = moment_ms();
    run->waited_ms = run->acquired - start;
    if (run->result == TL_OK && run->options->verbose)
        say_if_free("%s: acquired (fence %llu) after %s", run->shown,
                    (unsigned long long)tl_lock_fence(run->lock), show_ms(took, run->waited_ms));
    return run->result == TL_OK;
}

static bool is_conflict(const run *run) {
    return run->result == TL_EBUSY || run->result == TL_ETIMEDOUT;
}

/* The content of the key, if the lock was not acquired because another client holds it; NULL: not known. */
static const tl_lock_info *found(run *run) {
    if (is_conflict(run) && !run->looked) {
        run->looked = true; /* once: a server that hangs now would hang again */
        run->found = (tl_lock_info){.size = sizeof run->found};
        run->known = tl_client_look(run->client, run->key, strlen(run->key), &run->found, NULL) ==
                     TL_OK;
    }
    return is_conflict(run) && run->known ? &run->found : NULL;
}

static void not_acquired(run *run, tl_err before) {
    bool conflict = is_conflict(run);
    const tl_lock_info *info = found(run);
    int busy = info && report_is_endless(info) ? STATUS_BUSY : run->options->conflict_exit_code;

    run->status = conflict ? busy : status_of(run->result);
    if (run->result == TL_ECANCELLED) {
        run->status = signals_status(run->cancelled_by);
        run->stop = true;
    } else if (conflict && busy == 0 && !run->options->verbose) {
        /* With -E 0 a conflict is not an error. */
    } else if (conflict) {
        report_conflict(run->key, &run->err, info, is_once(run->options));
    } else if (run->result != before) { /* an outage is reported once */
        (void)fail_as(run->server, &run->err);
    }
    if (conflict || run->status == STATUS_USAGE || run->status == STATUS_REFUSED)
        run->stop = true;
}

static bool not_startable(run *run, int why) {
    run->why = why;
    run->result = TL_ENOMEM;
    run->status = STATUS_INTERNAL;
    return false;
}

/* A signal came after the acquisition. A command that is started later would not receive a terminal's. */
static bool not_wanted(run *run, int sig) {
    run->result = TL_ECANCELLED;
    run->status = signals_status(sig);
    run->stop = true;
    return false;
}

/* Start the command, if the lock is still held: this process may have been stopped since the acquisition.
 * Errors are reported after the release, since writing to stderr may block. */
static bool start(run *run, const childenv *env) {
    int sig = signals_pause(&run->signals, 0);
    int64_t now = moment_ms();

    run->started = now;
    run->watch = (watch){
        .signals = &run->signals,
        .lock = run->lock,
        .news = &run->news,
        .notify = run->notify.fd >= 0 ? &run->notify : NULL,
        .watchdog_ms = run->options->watchdog_ms,
        .sign_at = now,
        .timer = run->timer,
        .key = run->shown,
        .verbose = run->options->verbose > 0,
        .guard = guard_begin((on_lost_mode)run->options->on_lost, run->options->ttl_ms,
                             tl_lock_remaining_ms(run->lock), run->options->max_hold_ms, now),
    };
    if (sig)
        return not_wanted(run, sig);
    if (tl_lock_state(run->lock) == TL_LOST) {
        run->result = TL_ELOST;
        run->status = STATUS_LOST;
        return false;
    }
    const supervisor_plan plan = {
        .signals = &run->signals,
        .argv = run->argv,
        .env = env->list,
        .own_pid = env->own_pid,
        .new_session = run->options->new_session,
        .until_ms = run->options->on_lost == ON_LOST_CONTINUE
                        ? INT64_MAX
                        : now + tl_lock_remaining_ms(run->lock) - run->watch.guard.kill_lead_ms / 2,
    };
    if (child_start(&run->watch.child, &plan) == 0)
        return true;
    return not_startable(run, errno);
}

/* For a lock that was lost: add why the server refuses the release, if that is not reported yet. It refuses
 * renewals for the same reason, but the first of these may have failed only by a lost connection. */
static void note_refusal(run *run, tl_err code) {
    char *trouble = run->watch.trouble, *cause = strstr(trouble, ": ");
    size_t len = strlen(trouble);
    bool known = cause && strstr(run->err.message, cause + 2);

    if ((code == TL_EDENIED || code == TL_EUNAVAILABLE || code == TL_ESERVER ||
         code == TL_EUNSUPPORTED) &&
        !known)
        (void)snprintf(trouble + len, sizeof run->watch.trouble - len, "%s%s", len ? "; " : "",
                       run->err.message);
}

static void not_started(const run *run) {
    if (run->result == TL_ELOST)
        say("%s: the lock was lost before the command began", run->shown);
    else if (run->result != TL_ECANCELLED)
        say("start a process: %s", strerror(run->why));
}

/* For how long from the acquire on the lock is to rest. A command that never began has done nothing: another
 * host may have it. */
static int64_t rest_wanted(const run *run) {
    const run_options *options = run->options;
    const supervisor_report *report = &run->watch.child.seen;

    if (report->start_failed)
        return 0;
    if (options->hold_at_least_ms != REST_NOT_GIVEN)
        return options->hold_at_least_ms;
    bool done = report->exit_status == 0 || options->on_failure == ON_FAILURE_REST;
    return is_once(options) && done ? options->once_per_ms : 0;
}

static int64_t rest_left_ms(const run *run, int64_t rest_ms) {
    int64_t left_ms = run->acquired + rest_ms - moment_ms();

    return left_ms > 0 ? left_ms : 0;
}

static void say_released(const run *run) {
    char left[DURATION_SHOWN];

    if (run->rests_ms > 0)
        say("%s: it rests; free again in %s", run->shown,
            show_span(left, rest_left_ms(run, run->rests_ms)));
    else
        say("%s: released", run->shown);
}

static bool is_lost(const run *run) {
    return run->watch.guard.for_loss || tl_lock_state(run->lock) == TL_LOST;
}

static void release(run *run) {
    bool lost = is_lost(run);
    int64_t rest_ms = lost ? 0 : rest_wanted(run);
    tl_err code = rest_ms > 0 ? tl_lock_rest(run->lock, rest_ms, &run->err)
                              : tl_lock_release(run->lock, &run->err);

    watch_last_news(&run->watch);
    if (lost && !run->watch.stalled)
        note_refusal(run, code);
    if (lost || code == TL_EEXPIRED || code == TL_ETAKEN || code == TL_ELOST)
        run->result = TL_ELOST;
    else if (code == TL_OK)
        run->rests_ms = rest_left_ms(run, rest_ms) > 0 ? rest_ms : 0;
    else if (rest_left_ms(run, rest_ms) > 0)
        run->result = code;
    else
        say("%s: the release is not confirmed; the lock expires by itself: %s", run->shown,
            run->err.message);
    if (code == TL_OK && run->result == TL_OK && run->options->verbose)
        say_released(run);
}

/* After the end of the supervisor nobody can end what the command started. So the lock is left to expire, and
 * there is no further round. */
static void leave(run *run) {
    watch_last_news(&run->watch);
    run->stop = true;
    if (is_lost(run))
        run->result = TL_ELOST;
    else
        run->left_ms = tl_lock_remaining_ms(run->lock);
}

/* Ctrl-C ends --forever, too, even if only a command that has the terminal for itself received it. */
static bool interrupted(const child *child) {
    int status = child->seen.exit_status;

    return child->in_front &&
           (status == STATUS_SIGNAL + SIGINT || status == STATUS_SIGNAL + SIGQUIT);
}

static void say_lost(run *run) {
    const watch *watch = &run->watch;
    bool ended = watch->guard.for_loss;

    run->status = STATUS_LOST;
    if (watch->stalled)
        say("%s: %s; %s", run->shown, watch->trouble,
            ended ? "the command was ended" : "the lock was lost while the command ran");
    else
        say("%s: the lock %s%s%s%s", run->shown,
            ended ? "could not be renewed, so the command was ended"
                  : "was lost while the command ran",
            watch->trouble[0] ? " (" : "", watch->trouble, watch->trouble[0] ? ")" : "");
}

/* The promise of --once-per or --hold-at-least is not kept: that is no success, whatever the command says. */
static void say_not_resting(run *run) {
    say("%s: the rest is not confirmed, so another host may %s: %s", run->shown,
        is_once(run->options) ? "run the command again" : "acquire the lock before its end",
        run->err.message);
    if (run->status == 0)
        run->status = status_of(run->result);
}

/* That is no success, whatever the command says. */
static void say_left(run *run) {
    say("%s: tl-supervisor was killed, so what the command started may still run%s", run->shown,
        run->result == TL_OK ? "; the lock is not released, and expires by itself" : "");
    if (run->status == 0)
        run->status = STATUS_INTERNAL;
}

/* Print the messages about the end of the command, and set the exit status. */
static void conclude(run *run) {
    const watch *watch = &run->watch;
    const supervisor_report *report = &watch->child.seen;

    run->status = report->ended_by ? signals_status(report->ended_by) : report->exit_status;
    if (watch->child.lost)
        say_left(run);
    if (report->no_process) {
        run->result = TL_ENOMEM;
        run->status = fail(STATUS_INTERNAL, "start a process: %s", strerror(report->start_failed));
    } else if (report->start_failed) {
        char advice[NOT_FOUND_ADVICE] = "";
        bool any = report->start_failed == ENOENT && not_found_advice(advice, run->argv);
        say("%.200s: %s%s%s", run->argv[0], strerror(report->start_failed), any ? "; " : "",
            advice);
        run->stop = true;
    } else if (run->result == TL_ELOST) {
        say_lost(run);
    } else if (watch->guard.term_sent) {
        say("%s: --max-hold has passed; the command was ended", run->shown);
    }
    if (run->result != TL_OK && run->result != TL_ELOST && !report->no_process)
        say_not_resting(run);
    if (run->options->verbose)
        say("%s: the command ended with status %d", run->shown, report->exit_status);
    if (watch->end_asked)
        run->stop = true;
}

static void close_notify(run *run) {
    if (run->notify.fd >= 0)
        notify_end(&run->notify);
}

/* The time that the command is given is that of the outer watchdog, if that is shorter. */
static int64_t watchdog_us(const run *run) {
    int64_t us = run->options->watchdog_ms * US_PER_MS, outer_us = notify_outer_watchdog_us();

    return outer_us > 0 && outer_us < us ? outer_us : us;
}

/* The socket is new for each command: what an earlier one has left must not feed this one. */
static bool prepare(run *run, childenv *ret) {
    childenv_values values = {.key = run->key,
                              .token = tl_lock_token(run->lock),
                              .fence = tl_lock_fence(run->lock),
                              .ttl_ms = run->options->ttl_ms};

    *ret = (childenv){.list = NULL};
    run->notify.fd = -1;
    if (run->options->watchdog_ms != NOT_GIVEN) {
        if (notify_begin(&run->notify))
            return not_startable(run, errno);
        values.notify_socket = run->notify.name;
        values.watchdog_us = watchdog_us(run);
    }
    return childenv_make(&values, ret) || not_startable(run, ENOMEM);
}

static void run_command(run *run) {
    childenv env;

    if (prepare(run, &env) && start(run, &env)) {
        watch_command(&run->watch);
        run->stop = interrupted(&run->watch.child);
        child_close(&run->watch.child);
        close_notify(run);
        run->held_ms = moment_ms() - run->started;
        if (run->watch.child.lost)
            leave(run);
        else
            release(run);
        conclude(run);
    } else {
        (void)tl_lock_release(run->lock, NULL);
        close_notify(run);
        not_started(run);
    }
    childenv_free(&env);
}

/* ---- the end, for programs -------------------------------------------------------------------- */

static const char *run_state(run *run) {
    const tl_lock_info *info = found(run);

    if (run->result == TL_OK)
        return run->rests_ms > 0 ? "resting" : run->watch.child.lost ? "held" : "free";
    return info && info->rests ? "resting" : state_of(run->result);
}

/* ---- metrics --------------------------------------------------------------------------------- */

/* The lock is released. The exit status is the run's own, even if the file can't be written. */
static void write_metrics(run *run) {
    const run_ending ending = {.key = run->key,
                               .state = run_state(run),
                               .exit_status = run->status,
                               .waited_ms = run->waited_ms,
                               .held_ms = run->held_ms,
                               .ended_us = moment_wall_us(),
                               .client = run->client};
    (void)run_metrics_write(run->options->metrics, &ending);
}

/* ---- JSON ----------------------------------------------------------------------------------- */

#define RUN_MEMBERS(M, of)                                                                         \
    M(of, waited_ms, "how long the lock was waited for")                                           \
    M(of, held_ms, "how long the command had it")                                                  \
    M(of, exit_status, "the exit status")                                                          \
    M(of, signal, "the signal that ended the command, or null")                                    \
    M(of, error,                                                                                   \
      "why the lock was not acquired, why it was lost (with the server's reason, where renewals "  \
      "failed), or why it may not rest, or null")
MEMBERS(run, RUN_MEMBERS);

/* Why the lock was not acquired, was lost, or may not rest; NULL: nothing of it. */
static const char *error_message(const run *run, bool acquired) {
    if (acquired && run->result == TL_ELOST)
        return run->watch.trouble[0] ? run->watch.trouble : NULL;
    if (run->result == TL_OK || run->result == TL_ECANCELLED ||
        (acquired && run->watch.child.seen.no_process))
        return NULL;
    const char *other = is_conflict(run) && run->known ? report_other_type(&run->found) : NULL;
    return other ? other : run->err.message;
}

static int64_t remaining_ms(run *run) {
    const tl_lock_info *info = found(run);

    if (run->rests_ms > 0)
        return rest_left_ms(run, run->rests_ms);
    if (run->left_ms > 0)
        return run->left_ms;
    return info && info->held ? info->remaining_ms : -1;
}

static void write_json(run *run) {
    bool acquired = run->held_ms >= 0;
    report_lock lock = {.key = run->key,
                        .key_len = strlen(run->key),
                        .protocol = server_protocol(run->server),
                        .state = run_state(run),
                        .token = acquired ? tl_lock_token(run->lock) : NULL,
                        .fence = acquired ? (int64_t)tl_lock_fence(run->lock) : -1,
                        .found = found(run),
                        .remaining_ms = remaining_ms(run),
                        .waiters = -1};
    json_t *json = report_lock_json(&lock);

    js_set(&json, waited_ms_of_run, json_integer(run->waited_ms));
    js_set(&json, held_ms_of_run, js_known(run->held_ms));
    js_set(&json, exit_status_of_run, json_integer(run->status));
    js_set(
        &json, signal_of_run,
        js_known(acquired && run->watch.child.seen.ended_by ? run->watch.child.seen.ended_by : -1));
    js_set(&json, error_of_run, js_text(error_message(run, acquired)));
    if (js_line(json, run->options->json_fd))
        say("--json-fd: %s", strerror(errno));
}

/* ---- the run --------------------------------------------------------------------------------- */

static void one_round(run *run) {
    tl_err before = run->result;

    run->held_ms = -1;
    run->rests_ms = 0;
    run->left_ms = 0;
    run->looked = run->known = false;
    run->cancelled_by = 0;
    news_clear(&run->news);
    if (acquire(run))
        run_command(run);
    else
        not_acquired(run, before);
    if (run->options->json_fd != NOT_GIVEN)
        write_json(run);
    if (run->options->metrics)
        write_metrics(run);
}

/* Wait until the next round is due; a signal ends the run. */
static void pause_between(run *run) {
    int64_t since = run->held_ms >= 0 ? moment_ms() - run->started : 0;

    if (since >= RESTART_MS)
        since = RESTART_MS;
    int sig = signals_pause(&run->signals, RESTART_MS - since);
    if (sig) {
        run->status = signals_status(sig);
        run->stop = true;
    }
}

/* The longest time for which the lock may have to rest; 0: it never rests. */
static int64_t most_rest_ms(const run_options *options) {
    int64_t ms = is_once(options) ? options->once_per_ms : options->hold_at_least_ms;

    return ms != REST_NOT_GIVEN ? ms : 0;
}

static int rounds(run *run) {
    tl_lock_options lock_options = TL_LOCK_OPTIONS(.ttl_ms = run->options->ttl_ms,
                                                   .on_event = news_event, .ctx = &run->news,
                                                   .fair = run->options->fair,
                                                   .rest_ends_wait = is_once(run->options),
                                                   .will_rest_ms = most_rest_ms(run->options));

    if (run->options->watchdog_ms != NOT_GIVEN)
        lock_options.stall_ms = run->options->watchdog_ms;

    run->lock = tl_lock_new(run->client, run->key, strlen(run->key), &lock_options, &run->err);
    if (!run->lock)
        return rest_fail(is_once(run->options) ? "run: --once-per" : "run: --hold-at-least",
                         &run->err);
    one_round(run);
    while (run->options->forever && !run->stop) {
        pause_between(run);
        if (!run->stop)
            one_round(run);
    }
    tl_lock_free(run->lock);
    return run->status;
}

/* The holder's name: the command's, without its directory. */
static const char *service_name(const char *argv0) {
    const char *slash = strrchr(argv0, '/');

    return slash && slash[1] ? slash + 1 : argv0;
}

static int begin(run *run, const server *where) {
    if (signals_begin(&run->signals) || news_begin(&run->news) || (run->timer = moment_timer()) < 0)
        return fail(STATUS_INTERNAL, "no file descriptor is left: %s", strerror(errno));
    const char *name = run->options->name ? run->options->name : service_name(run->argv[0]);
    server to = *where;
    to.trace = run->options->verbose > 1;
    to.care = &run->options->care;
    int status = server_open(&to, "run", name, &run->client);
    if (status)
        return status;
    status = rounds(run);
    tl_client_close(run->client);
    return status;
}

/* The command must not inherit the descriptor. 0, 1 and 2 belong to the command, so the JSON goes to a copy
 * of them. */
static int prepare_json_fd(run_options *options) {
    if (options->json_fd == NOT_GIVEN)
        return options->json || options->format
                   ? fail(STATUS_USAGE, "run: say where the JSON goes, apart from "
                                        "the command's output: --json-fd 3 3>FILE")
                   : 0;
    int mode = fcntl(options->json_fd, F_GETFL);
    if (mode < 0 || (mode & O_ACCMODE) == O_RDONLY)
        return fail(STATUS_USAGE, "run: --json-fd %d is not open for writing: --json-fd 3 3>FILE",
                    options->json_fd);
    if (options->json_fd <= STDERR_FILENO)
        options->json_fd = fcntl(options->json_fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    else
        (void)fcntl(options->json_fd, F_SETFD, FD_CLOEXEC);
    return options->json_fd < 0 ? fail(STATUS_INTERNAL, "--json-fd: %s", strerror(errno)) : 0;
}

static int check_rest(const server *where, const run_options *options) {
    bool once = is_once(options);
    int status = rest_check("run: --once-per", options->once_per_ms);

    if (status == 0)
        status = rest_check("run: --hold-at-least", options->hold_at_least_ms);
    if (status)
        return status;
    if (once && options->hold_at_least_ms != REST_NOT_GIVEN)
        return fail(STATUS_USAGE, "run: --once-per and --hold-at-least exclude each other");
    if (once && options->forever)
        return fail(STATUS_USAGE, "run: --once-per and --forever exclude each other");
    if (!once && options->on_failure != NOT_GIVEN)
        return fail(STATUS_USAGE, "run: --on-failure needs --once-per");
    if (once && wait_limit(options) > 0 && !rest_ends_wait(where))
        return fail(STATUS_USAGE, "run: --once-per with --wait needs the token protocol");
    return 0;
}

static int check_options(const server *where, const run_options *options) {
    if (options->ttl_ms < TL_TTL_MIN_MS || options->ttl_ms > TL_TTL_MAX_MS)
        return fail(STATUS_USAGE, "run: --ttl: a lifetime is 10ms to 1d");
    if (options->no_wait && options->wait_ms != NOT_GIVEN)
        return fail(STATUS_USAGE, "run: --wait and --no-wait exclude each other");
    if (options->fair && wait_limit(options) == 0)
        return fail(STATUS_USAGE, "run: --fair needs --wait: with --no-wait there is no queue");
    if (options->fair && server_protocol(where) != TL_TOKEN)
        return fail(STATUS_USAGE, "run: --fair needs the token protocol");
    if (options->name && !*options->name)
        return fail(STATUS_USAGE, "run: --name is empty; leave it out to use the command's name");
    if (options->max_hold_ms == 0)
        return fail(STATUS_USAGE, "run: --max-hold 0 leaves the command no time");
    if (options->watchdog_ms != NOT_GIVEN &&
        (options->watchdog_ms < TL_TTL_MIN_MS || options->watchdog_ms > TL_TTL_MAX_MS))
        return fail(STATUS_USAGE, "run: --watchdog: 10ms to 1d");
    int status = check_rest(where, options);
    if (status == 0)
        status = server_care_check("run", &options->care, options->ttl_ms);
    return status || !options->metrics ? status : outfile_check("run: --metrics", options->metrics);
}

static int run_function(const server *where, const void *given, const operands *args) {
    run_options options = *(const run_options *)given;
    run run = {.options = &options,
               .server = where,
               .key = args->word[0],
               .argv = args->command,
               .timer = -1};

    options.ttl_ms = server_ttl_ms(where, options.ttl_ms);
    run.signals.fd = run.news.fd = -1;
    int status = check_options(where, &options);
    if (status == 0)
        status = prepare_json_fd(&options);
    if (status)
        return status;
    (void)show_key(run.shown, run.key);
    status = begin(&run, where);
    if (run.timer >= 0)
        close(run.timer);
    news_end(&run.news);
    if (run.signals.fd >= 0)
        signals_end(&run.signals);
    return status;
}

const command run_row = {
    .name = "run",
    .usage = "[options] KEY -- COMMAND [ARG...]",
    .help = "run a command under a lock",
    .notes = "The command's environment has TIDELOCK_KEY, _TOKEN, _FENCE and _TTL_MS.\n",
    .statuses =
        (const status_row[]){
            {STATUS_OF_COMMAND, "the command's own", NULL},
            {STATUS_UNAVAILABLE, NULL,
             "the server was not reached within the wait, or was unavailable when the wait ended. "
             "With *--no-wait*: not within 5 s of connecting; at once when the connection is "
             "refused, or there is no such socket or host. Too few replicas or disks confirmed "
             "the lock. The command succeeded, but the server did not confirm the rest that "
             "*--once-per* or *--hold-at-least* wants"},
            {STATUS_LOST, "the lock was lost while it ran",
             "the lock was lost while the command ran, or the command was ended because it was "
             "about to be lost"},
            {STATUS_BUSY, "the lock was not acquired in time",
             "the lock was not acquired in time; it rests, so with *--once-per* the command has "
             "run; or a run around this one holds it (or _N_ of *-E*)"},
            {STATUS_REFUSED, NULL,
             "the server refused: the password, or a permission; or it lacks a command that the "
             "protocol needs"},
            {STATUS_NOT_EXECUTABLE, "it could not be executed",
             "the command could not be executed"},
            {STATUS_NOT_FOUND, "it was not found", "the command was not found"},
            {STATUS_SIGNAL, "signal n ended it",
             "signal _n_ ended the command, or the wait. After INT and QUIT tidelock dies of the "
             "signal itself, without a core"},
            {0, NULL, NULL}},
    .members = (const members_row[]){{"run", members_of_run}, {NULL, NULL}},
    .options = options,
    .defaults = &defaults,
    .size = sizeof defaults,
    .legacy = FROM_LEGACY(legacy_lock_part),
    .runs = true,
    .args_min = 1,
    .args_max = 1,
    .function = run_function,
};
