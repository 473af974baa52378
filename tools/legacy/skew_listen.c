/*
 * MONITOR costs the server a copy of each command. Ten times a second, and after each megabyte, it is asked how
 * much of them it keeps for us, on the link's connection; beyond a megabyte it is over, and what was heard until
 * then counts.
 */
#include <poll.h>
#include <string.h>

#include "ground/glob.h"
#include "legacy/skew_listen.h"

#define BEGIN_MS 5000
#define LOOK_MS 100
#define LINE_MOST 4096 /* as much of a line as is looked at */
#define BREAKS_MOST 5  /* connections lost while it listens */

typedef struct {
    skew_listen *x;
    tl_conn *conn;
    bool began, failed;
    bool by_id; /* the server can list one client */
    int breaks, status;
    char message[240];
} monitor_link;

bool skew_listen_begin(skew_listen *x, const skew_listen_options *options) {
    *x = (skew_listen){.options = *options};
    return skew_passive_begin(&x->passive, &options->model);
}

void skew_listen_end(skew_listen *x) {
    skew_passive_end(&x->passive);
}

/* ---- a command -------------------------------------------------------------------------------- */

static bool is_wanted(const skew_listen *x, const skew_heard *c) {
    if (!skew_is_take(c))
        return false;
    if (!x->options.keys)
        return true;
    if (c->word[1].cut)
        return false;
    return tl__glob_fits(tl__bytes_of(x->options.keys), tl__bytes(c->word[1].bytes, c->word[1].n));
}

static void take_line(skew_listen *x, tl_bytes line) {
    skew_heard c;
    tl_interval written = {0, 0};
    skew_stamp_kind kind = SKEW_NO_STAMP;

    x->commands++;
    if (!skew_monitor_read(line, &c)) {
        x->strange++;
        return;
    }
    if (is_wanted(x, &c) && !c.word[2].cut)
        kind = skew_stamp_read(x->options.dialect, tl__bytes(c.word[2].bytes, c.word[2].n),
                               c.stamp_us, &written);
    skew_passive_learn(&x->passive, &c, kind, written);
}

/* ---- the connection --------------------------------------------------------------------------- */

static void fail_with(monitor_link *e, int status, const char *what, tl_bytes message) {
    char text[200];

    tl__bytes_print(text, sizeof text, message);
    e->failed = true;
    e->status = status;
    (void)snprintf(e->message, sizeof e->message, "%s%s", what, text);
}

static void heard(void *ctx, const tl_reply *reply) {
    monitor_link *e = ctx;

    if (reply->type == TL_REPLY_ERROR)
        fail_with(e, STATUS_REFUSED, "MONITOR is refused: ", reply->text);
    else if (reply->type != TL_REPLY_STATUS)
        fail_with(e, STATUS_UNAVAILABLE, "",
                  TL_LITERAL("MONITOR: malformed reply from the server"));
    else if (tl__bytes_eq(reply->text, TL_LITERAL("OK")))
        e->began = true;
    else
        take_line(e->x, reply->text);
}

static void ask(monitor_link *e) {
    tl_command c = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("MONITOR")}};

    if (tl__conn_say(e->conn, &c, tl__mono_now()) != TL_OK)
        fail_with(e, STATUS_INTERNAL, "", TL_LITERAL("out of memory"));
}

/* What is missed meanwhile makes no edge wrong: it may only be missing. */
static void lost(void *ctx, tl_bytes message) {
    monitor_link *e = ctx;

    skew_passive_missed(&e->x->passive);
    if (!e->began || ++e->breaks > BREAKS_MOST)
        fail_with(e, STATUS_UNAVAILABLE, "MONITOR: ", message);
    else if (!e->failed)
        ask(e);
}

/* ---- what it costs ---------------------------------------------------------------------------- */

typedef struct {
    int64_t id, bytes;
} backlog;

static bool take_backlog(void *ctx, const tl_reply *reply) {
    backlog *b = ctx;
    tl_bytes text;

    if (!tl__reply_text(reply, &text))
        return false;
    b->bytes = skew_monitor_backlog(text, b->id);
    return true;
}

/* CLIENT LIST for one client alone is known from 6.2 on. */
static bool look(monitor_link *e, server_link *l) {
    char id[TL_INT_SIZE];
    backlog b = {.id = tl__conn_id(e->conn)};
    const char *one[] = {"CLIENT", "LIST", "ID", NULL, NULL};
    static const char *const all[] = {"CLIENT", "LIST", NULL};

    one[3] = tl__bytes_from_int(id, b.id).p;
    e->by_id = e->by_id && b.id > 0 && link_ask(l, one, take_backlog, &b);
    if (!e->by_id && !link_ask(l, all, take_backlog, &b)) {
        char why[sizeof l->message];
        (void)snprintf(why, sizeof why, "%s", l->message);
        fail_with(e, l->status,
                  "what MONITOR costs can't be watched: CLIENT LIST: ", tl__bytes_of(why));
        return false;
    }
    if (b.bytes > e->x->backlog_most)
        e->x->backlog_most = b.bytes;
    e->x->aborted = b.bytes > SKEW_BACKLOG_MOST;
    return !e->x->aborted;
}

static void count_cost(skew_listen *x) {
    (void)snprintf(
        x->message, sizeof x->message,
        "MONITOR %s %lld.%lld s: %lld commands, %lld kB; the server kept %lld kB of them "
        "at most",
        x->aborted ? "was given up, as the server kept too much, after" : "ran for",
        (long long)(x->took_ms / 1000), (long long)(x->took_ms % 1000 / 100),
        (long long)x->commands, (long long)((x->bytes + 999) / 1000),
        (long long)((x->backlog_most + 999) / 1000));
}

/* ---- listening -------------------------------------------------------------------------------- */

static void wait_until(monitor_link *e, int64_t until_ms) {
    struct pollfd p = {.fd = tl__conn_fd(e->conn), .events = tl__conn_events(e->conn)};
    int64_t ms = tl__ms_until(tl__mono_now(), tl__conn_until(e->conn));
    int64_t left_ms = until_ms - moment_ms();

    if (ms > left_ms)
        ms = left_ms;
    (void)poll(&p, 1, ms < 0 ? 0 : (int)ms + (ms > 0));
    tl__conn_drive(e->conn, tl__mono_now());
}

static bool reach(monitor_link *e) {
    int64_t until_ms = moment_ms() + BEGIN_MS;

    ask(e);
    while (!e->failed && !e->began && moment_ms() < until_ms)
        wait_until(e, until_ms);
    if (!e->failed && !e->began)
        fail_with(e, STATUS_UNAVAILABLE, "", TL_LITERAL("MONITOR: no answer in 5 s"));
    return !e->failed;
}

/* It looks first: a process that was stopped finds out before it takes in what has piled up. */
static void listen_on(monitor_link *e, server_link *l, const skew_effort *effort) {
    int64_t began_ms = moment_ms(), until_ms = began_ms + e->x->options.passive_ms;

    for (int64_t now_ms = began_ms; !e->failed && now_ms < until_ms; now_ms = moment_ms()) {
        int64_t next_ms = now_ms + LOOK_MS < until_ms ? now_ms + LOOK_MS : until_ms;
        if (!look(e, l) || (effort->go_on && !effort->go_on(effort->ctx, now_ms - began_ms)))
            break;
        uint64_t enough = tl__conn_bytes(e->conn) + SKEW_BACKLOG_MOST;
        do
            wait_until(e, next_ms);
        while (!e->failed && moment_ms() < next_ms && tl__conn_bytes(e->conn) < enough);
    }
    e->x->took_ms = moment_ms() - began_ms;
    e->x->bytes = (int64_t)tl__conn_bytes(e->conn);
}

bool skew_listen_run(skew_listen *x, server_link *l, const skew_effort *effort) {
    tl_conn_limits limits = {.connect_ms = BEGIN_MS,
                             .ask_id = true,
                             .no_time = true,
                             .subscriber = true,
                             .line_most = LINE_MOST};
    monitor_link e = {.x = x, .by_id = true};
    tl_conn_calls calls = {.down = lost, .push = heard, .ctx = &e};

    e.conn = tl__conn_new(&l->endpoint, &limits, &calls);
    if (!e.conn)
        fail_with(&e, STATUS_INTERNAL, "", TL_LITERAL("out of memory"));
    if (e.conn && reach(&e))
        listen_on(&e, l, effort);
    tl__conn_free(e.conn);
    count_cost(x);
    if (e.failed) {
        l->status = e.status;
        (void)snprintf(l->message, sizeof l->message, "%s", e.message);
    }
    return !e.failed;
}
