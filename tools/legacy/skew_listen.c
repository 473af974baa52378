/*
 * MONITOR costs the server a copy of each command. Ten times a second, and after each megabyte, the
 * link's connection reads how much the server buffers for us. Above a megabyte listening ends; the
 * commands received until then count.
 */
#include <poll.h>
#include <string.h>

#include "ground/glob.h"
#include "legacy/skew_listen.h"

#define BEGIN_MS 5000
#define LOOK_MS 100
#define LINE_MOST 4096 /* bytes of a line that are read */
#define BREAKS_MOST 5  /* connections that may be lost while listening */

typedef struct {
    skew_listen *listening;
    tl_conn *conn;
    bool began, failed;
    bool by_id; /* the server can list one client */
    int breaks, status;
    char message[240];
} monitor_link;

bool skew_listen_begin(skew_listen *listening, const skew_listen_options *options) {
    *listening = (skew_listen){.options = *options};
    return skew_passive_begin(&listening->passive, &options->model);
}

void skew_listen_end(skew_listen *listening) {
    skew_passive_end(&listening->passive);
}

/* ---- a command -------------------------------------------------------------------------------- */

static bool is_wanted(const skew_listen *listening, const skew_heard *heard) {
    if (!skew_is_take(heard))
        return false;
    if (!listening->options.keys)
        return true;
    if (heard->word[1].cut)
        return false;
    return tl__glob_fits(tl__bytes_of(listening->options.keys),
                         tl__bytes(heard->word[1].bytes, heard->word[1].n));
}

static void take_line(skew_listen *listening, tl_bytes line) {
    skew_heard heard;
    tl_interval written = {0, 0};
    skew_stamp_kind kind = SKEW_NO_STAMP;

    listening->commands++;
    if (!skew_monitor_read(line, &heard)) {
        listening->strange++;
        return;
    }
    if (listening->options.each)
        listening->options.each(listening->options.each_ctx, &heard);
    if (is_wanted(listening, &heard) && !heard.word[2].cut)
        kind = skew_stamp_read(listening->options.dialect,
                               tl__bytes(heard.word[2].bytes, heard.word[2].n), heard.stamp_us,
                               &written);
    skew_passive_learn(&listening->passive, &heard, kind, written);
}

/* ---- the connection --------------------------------------------------------------------------- */

static void fail_with(monitor_link *monitor, int status, const char *what, tl_bytes message) {
    char text[200];

    tl__bytes_print(text, sizeof text, message);
    monitor->failed = true;
    monitor->status = status;
    (void)snprintf(monitor->message, sizeof monitor->message, "%s%s", what, text);
}

static void heard(void *ctx, const tl_reply *reply) {
    monitor_link *monitor = ctx;

    if (reply->type == TL_REPLY_ERROR)
        fail_with(monitor, STATUS_REFUSED, "MONITOR is refused: ", reply->text);
    else if (reply->type != TL_REPLY_STATUS)
        fail_with(monitor, STATUS_UNAVAILABLE, "",
                  TL_LITERAL("MONITOR: malformed reply from the server"));
    else if (tl__bytes_eq(reply->text, TL_LITERAL("OK")))
        monitor->began = true;
    else
        take_line(monitor->listening, reply->text);
}

static void ask(monitor_link *monitor) {
    tl_command command = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("MONITOR")}};

    if (tl__conn_say(monitor->conn, &command, tl__mono_now()) != TL_OK)
        fail_with(monitor, STATUS_INTERNAL, "", TL_LITERAL("out of memory"));
}

/* A missed command makes no edge wrong; an edge may only be missing. */
static void lost(void *ctx, tl_bytes message) {
    monitor_link *monitor = ctx;

    skew_passive_missed(&monitor->listening->passive);
    if (!monitor->began || ++monitor->breaks > BREAKS_MOST)
        fail_with(monitor, STATUS_UNAVAILABLE, "MONITOR: ", message);
    else if (!monitor->failed)
        ask(monitor);
}

/* ---- the cost ------------------------------------------------------------------------------- */

typedef struct {
    int64_t id, bytes;
} backlog;

static bool take_backlog(void *ctx, const tl_reply *reply) {
    backlog *backlog = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    backlog->bytes = skew_monitor_backlog(text, backlog->id);
    return true;
}

/* Reads the backlog. CLIENT LIST ID exists from 6.2 on. */
static bool look(monitor_link *monitor, server_link *link) {
    char id[TL_INT_SIZE];
    backlog backlog = {.id = tl__conn_id(monitor->conn)};
    const char *one[] = {"CLIENT", "LIST", "ID", NULL, NULL};
    static const char *const all[] = {"CLIENT", "LIST", NULL};

    one[3] = tl__bytes_from_int(id, backlog.id).p;
    monitor->by_id = monitor->by_id && backlog.id > 0 &&
                     link_ask(link, one, take_backlog, &backlog);
    if (!monitor->by_id && !link_ask(link, all, take_backlog, &backlog)) {
        char why[sizeof link->message];
        (void)snprintf(why, sizeof why, "%s", link->message);
        fail_with(monitor, link->status,
                  "the cost of MONITOR can't be watched: CLIENT LIST: ", tl__bytes_of(why));
        return false;
    }
    if (backlog.bytes > monitor->listening->backlog_most)
        monitor->listening->backlog_most = backlog.bytes;
    monitor->listening->aborted = backlog.bytes > SKEW_BACKLOG_MOST;
    return !monitor->listening->aborted;
}

static void count_cost(skew_listen *listening) {
    (void)snprintf(
        listening->message, sizeof listening->message,
        "MONITOR %s %lld.%lld s: %lld commands, %lld kB; the server buffered at most %lld kB of "
        "them",
        listening->aborted ? "was aborted, since the server buffered too much, after" : "ran for",
        (long long)(listening->took_ms / 1000), (long long)(listening->took_ms % 1000 / 100),
        (long long)listening->commands, (long long)((listening->bytes + 999) / 1000),
        (long long)((listening->backlog_most + 999) / 1000));
}

/* ---- listening -------------------------------------------------------------------------------- */

static void wait_until(monitor_link *monitor, int64_t until_ms) {
    struct pollfd p = {.fd = tl__conn_fd(monitor->conn), .events = tl__conn_events(monitor->conn)};
    int64_t ms = tl__ms_until(tl__mono_now(), tl__conn_until(monitor->conn));
    int64_t left_ms = until_ms - moment_ms();

    if (ms > left_ms)
        ms = left_ms;
    (void)poll(&p, 1, ms < 0 ? 0 : (int)ms + (ms > 0));
    tl__conn_drive(monitor->conn, tl__mono_now());
}

static bool reach(monitor_link *monitor) {
    int64_t until_ms = moment_ms() + BEGIN_MS;

    ask(monitor);
    while (!monitor->failed && !monitor->began && moment_ms() < until_ms)
        wait_until(monitor, until_ms);
    if (!monitor->failed && !monitor->began)
        fail_with(monitor, STATUS_UNAVAILABLE, "", TL_LITERAL("MONITOR: no reply in 5 s"));
    return !monitor->failed;
}

/* Checks the backlog first: a process that was stopped notices it before it reads what has piled
 * up. */
static void listen_on(monitor_link *monitor, server_link *link, const skew_effort *effort) {
    int64_t began_ms = moment_ms(), until_ms = began_ms + monitor->listening->options.passive_ms;

    for (int64_t now_ms = began_ms; !monitor->failed && now_ms < until_ms; now_ms = moment_ms()) {
        int64_t next_ms = now_ms + LOOK_MS < until_ms ? now_ms + LOOK_MS : until_ms;
        if (!look(monitor, link) ||
            (effort->go_on && !effort->go_on(effort->ctx, now_ms - began_ms)))
            break;
        uint64_t enough = tl__conn_bytes(monitor->conn) + SKEW_BACKLOG_MOST;
        do
            wait_until(monitor, next_ms);
        while (!monitor->failed && moment_ms() < next_ms && tl__conn_bytes(monitor->conn) < enough);
    }
    monitor->listening->took_ms = moment_ms() - began_ms;
    monitor->listening->bytes = (int64_t)tl__conn_bytes(monitor->conn);
}

bool skew_listen_run(skew_listen *listening, server_link *link, const skew_effort *effort) {
    tl_conn_limits limits = {.connect_ms = BEGIN_MS,
                             .ask_id = true,
                             .no_time = true,
                             .subscriber = true,
                             .line_most = LINE_MOST};
    monitor_link monitor = {.listening = listening, .by_id = true};
    tl_conn_calls calls = {.down = lost, .push = heard, .ctx = &monitor};

    monitor.conn = tl__conn_new(&link->endpoint, &limits, &calls);
    if (!monitor.conn)
        fail_with(&monitor, STATUS_INTERNAL, "", TL_LITERAL("out of memory"));
    if (monitor.conn && reach(&monitor))
        listen_on(&monitor, link, effort);
    tl__conn_free(monitor.conn);
    count_cost(listening);
    if (monitor.failed) {
        link->status = monitor.status;
        (void)snprintf(link->message, sizeof link->message, "%s", monitor.message);
    }
    return !monitor.failed;
}
