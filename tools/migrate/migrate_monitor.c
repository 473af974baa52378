/*
 * Reads MONITOR. After a gap nothing is proved. So an unreadable line, a lost connection, or too
 * large a backlog ends the reading, and is reported.
 */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "ground/glob.h"
#include "ground/guard.h"
#include "ground/wait.h"
#include "legacy/skew_monitor.h"
#include "migrate/migrate_monitor.h"

#define BEGIN_MS 5000
#define LINE_MOST 4096 /* bytes of a line that are read */
#define TAKES_MOST 64  /* reads at once: others may cause lines faster than they are read */

static void give_up(migrate_monitor *monitor, const char *what, tl_bytes message) {
    char text[64];

    tl__bytes_print(text, sizeof text, message);
    if (!monitor->failed)
        (void)snprintf(monitor->seen->monitor_why, sizeof monitor->seen->monitor_why,
                       "MONITOR %s%s", what, text);
    monitor->failed = true;
}

/* ---- lines ------------------------------------------------------------------------------------ */

static const char *address_of(const skew_heard *heard) {
    if (heard->by == SKEW_BY_SCRIPT)
        return "a script";
    return heard->by == SKEW_BY_UNIX ? "a client of the unix socket" : heard->client;
}

static bool is_named(const migrate_traffic *traffic, const migrate_straggler *straggler) {
    for (int i = 0; i < traffic->stragglers; i++)
        if (strcmp(traffic->straggler[i].address, straggler->address) == 0 &&
            strcmp(traffic->straggler[i].key, straggler->key) == 0)
            return true;
    return false;
}

static void name(migrate_traffic *traffic, const skew_heard *heard, const char *command) {
    migrate_straggler straggler = {.name = ""};

    (void)snprintf(straggler.address, sizeof straggler.address, "%s", address_of(heard));
    (void)snprintf(straggler.command, sizeof straggler.command, "%s", command);
    tl__bytes_print(straggler.key, sizeof straggler.key,
                    tl__bytes(heard->word[1].bytes, heard->word[1].n));
    if (is_named(traffic, &straggler))
        return;
    if (traffic->stragglers < MIGRATE_STRAGGLERS)
        traffic->straggler[traffic->stragglers++] = straggler;
    else
        traffic->more_stragglers++;
}

static bool is_marker(const migrate_monitor *monitor, const skew_heard *heard) {
    return heard->words >= 2 && skew_heard_is(heard, "echo") &&
           tl__bytes_eq(tl__bytes(heard->word[1].bytes, heard->word[1].n),
                        tl__bytes_of(monitor->marker));
}

void migrate_monitor_line(migrate_monitor *monitor, tl_bytes line) {
    skew_heard heard;

    if (!skew_monitor_read(line, &heard)) {
        give_up(monitor, "sent a line that can't be read", tl__bytes("", 0));
        return;
    }
    monitor->marked = monitor->marked || is_marker(monitor, &heard);
    bool setnx = skew_heard_is(&heard, "setnx");
    if (!GUARD(legacy_commands_seen) || heard.words < 2 ||
        (!setnx && !skew_heard_is(&heard, "getset")))
        return;
    /* a key too long to be read whole may be one of ours */
    if (heard.word[1].cut ||
        tl__glob_fits(tl__bytes_of(monitor->keys), tl__bytes(heard.word[1].bytes, heard.word[1].n)))
        name(monitor->seen, &heard, setnx ? "SETNX" : "GETSET");
}

/* ---- the connection --------------------------------------------------------------------------- */

static void heard(void *ctx, const tl_reply *reply) {
    migrate_monitor *monitor = ctx;

    if (reply->type == TL_REPLY_ERROR)
        give_up(monitor, "is refused: ", reply->text);
    else if (reply->type != TL_REPLY_STATUS)
        give_up(monitor, "got a malformed reply", tl__bytes("", 0));
    else if (!monitor->began && tl__bytes_eq(reply->text, TL_LITERAL("OK")))
        monitor->began = true;
    else
        migrate_monitor_line(monitor, reply->text);
}

static void lost(void *ctx, tl_bytes message) {
    give_up(ctx, "was lost: ", message);
}

static void drive(migrate_monitor *monitor, signals *sigs, int64_t most_ms) {
    struct pollfd p[] = {
        {.fd = tl__conn_fd(monitor->conn), .events = tl__conn_events(monitor->conn)},
        {.fd = sigs ? sigs->fd : -1, .events = POLLIN}};
    tl_mono until = tl__mono_add_ms(tl__mono_now(), most_ms), due = tl__conn_until(monitor->conn);

    tl__wait(p, 2, tl__mono_min(due, until));
    tl__conn_drive(monitor->conn, tl__mono_now());
}

void migrate_monitor_stop(migrate_monitor *monitor) {
    if (!monitor->conn)
        return;
    tl__conn_free(monitor->conn);
    monitor->conn = NULL;
    monitor->seen->monitor_ms = monitor->began ? moment_ms() - monitor->began_ms : 0;
    monitor->seen->monitoring = false;
}

void migrate_monitor_begin(migrate_monitor *monitor, migrate_link *migration, const char *keys,
                           migrate_traffic *seen) {
    tl_conn_limits limits = {.connect_ms = BEGIN_MS,
                             .ask_id = true,
                             .no_time = true,
                             .subscriber = true,
                             .line_most = LINE_MOST};
    tl_command command = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("MONITOR")}};

    *monitor = (migrate_monitor){.seen = seen, .keys = keys, .unseen = seen->calls};
    tl_conn_calls calls = {.down = lost, .push = heard, .ctx = monitor};
    (void)snprintf(monitor->marker, sizeof monitor->marker, "tidelock migrate %lld %lld",
                   (long long)getpid(), (long long)moment_ms());
    monitor->conn = tl__conn_new(&migration->link.endpoint, &limits, &calls);
    if (!monitor->conn || tl__conn_say(monitor->conn, &command, tl__mono_now()) != TL_OK)
        give_up(monitor, "could not be asked for", tl__bytes("", 0));
    int64_t until_ms = moment_ms() + BEGIN_MS;
    for (int64_t left = BEGIN_MS; !monitor->failed && !monitor->began && left > 0;
         left = until_ms - moment_ms())
        drive(monitor, NULL, left);
    if (!monitor->began)
        give_up(monitor, "had no reply in 5 s", tl__bytes("", 0));
    monitor->began_ms = moment_ms();
    seen->monitoring = !monitor->failed;
    if (monitor->failed)
        migrate_monitor_stop(monitor);
}

void migrate_monitor_listen(migrate_monitor *monitor, signals *sigs, int64_t ms) {
    int64_t until_ms = moment_ms() + ms;

    for (int64_t left = ms; monitor->conn && left > 0; left = until_ms - moment_ms()) {
        struct pollfd p = {.fd = sigs->fd, .events = POLLIN};
        drive(monitor, sigs, left);
        if (monitor->failed)
            migrate_monitor_stop(monitor);
        tl__wait(&p, 1, tl__mono_now());
        if (p.revents)
            return;
    }
}

void migrate_monitor_take(migrate_monitor *monitor) {
    struct pollfd p = {.events = POLLIN, .revents = POLLIN};

    for (int i = 0; i < TAKES_MOST && monitor->conn && p.revents; i++) {
        p.fd = tl__conn_fd(monitor->conn);
        tl__wait(&p, 1, tl__mono_now());
        drive(monitor, NULL, 0);
        if (monitor->failed)
            migrate_monitor_stop(monitor);
    }
}

void migrate_monitor_cost(migrate_monitor *monitor, tl_bytes list) {
    int64_t id = monitor->conn ? tl__conn_id(monitor->conn) : 0;

    if (!monitor->conn || skew_monitor_backlog(list, id) <= MIGRATE_BACKLOG_MOST)
        return;
    give_up(monitor, "was aborted, since the server buffered more than 1 MB for it",
            tl__bytes("", 0));
    migrate_monitor_stop(monitor);
}

void migrate_monitor_end(migrate_monitor *monitor, migrate_link *migration) {
    const char *const request[] = {"ECHO", monitor->marker, NULL};
    int64_t until_ms = moment_ms() + BEGIN_MS;

    if (!monitor->conn)
        return;
    int64_t calls = monitor->seen->calls;
    bool asked = link_ask(&migration->link, request, NULL, NULL);
    for (int64_t left = BEGIN_MS; asked && !monitor->failed && !monitor->marked && left > 0;
         left = until_ms - moment_ms())
        drive(monitor, NULL, left);
    if (!monitor->marked)
        give_up(monitor, "did not end in time", tl__bytes("", 0));
    migrate_monitor_stop(monitor);
    if (!monitor->failed)
        monitor->seen->accounted += calls - monitor->unseen;
}
