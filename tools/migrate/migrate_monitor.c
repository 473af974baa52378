/*
 * Reading MONITOR. What was missed proves nothing: so a line that can't be read, a lost connection, or
 * too much in store ends it, and says so.
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
#define LINE_MOST 4096 /* as much of a line as is looked at */

static void give_up(migrate_monitor *x, const char *what, tl_bytes message) {
    char text[64];

    tl__bytes_print(text, sizeof text, message);
    if (!x->failed)
        (void)snprintf(x->seen->monitor_why, sizeof x->seen->monitor_why, "MONITOR %s%s", what,
                       text);
    x->failed = true;
}

/* ---- lines ------------------------------------------------------------------------------------ */

static const char *address_of(const skew_heard *c) {
    if (c->by == SKEW_BY_SCRIPT)
        return "a script";
    return c->by == SKEW_BY_UNIX ? "a client of the unix socket" : c->client;
}

static bool is_named(const migrate_traffic *t, const migrate_straggler *s) {
    for (int i = 0; i < t->stragglers; i++)
        if (strcmp(t->straggler[i].address, s->address) == 0 &&
            strcmp(t->straggler[i].key, s->key) == 0)
            return true;
    return false;
}

static void name(migrate_traffic *t, const skew_heard *c, const char *command) {
    migrate_straggler s = {.name = ""};

    (void)snprintf(s.address, sizeof s.address, "%s", address_of(c));
    (void)snprintf(s.command, sizeof s.command, "%s", command);
    tl__bytes_print(s.key, sizeof s.key, tl__bytes(c->word[1].bytes, c->word[1].n));
    if (is_named(t, &s))
        return;
    if (t->stragglers < MIGRATE_STRAGGLERS)
        t->straggler[t->stragglers++] = s;
    else
        t->more_stragglers++;
}

static bool is_marker(const migrate_monitor *x, const skew_heard *c) {
    return c->words >= 2 && skew_heard_is(c, "echo") &&
           tl__bytes_eq(tl__bytes(c->word[1].bytes, c->word[1].n), tl__bytes_of(x->marker));
}

void migrate_monitor_line(migrate_monitor *x, tl_bytes line) {
    skew_heard c;

    if (!skew_monitor_read(line, &c)) {
        give_up(x, "told something that can't be read", tl__bytes("", 0));
        return;
    }
    x->marked = x->marked || is_marker(x, &c);
    bool setnx = skew_heard_is(&c, "setnx");
    if (!GUARD(legacy_commands_seen) || c.words < 2 || (!setnx && !skew_heard_is(&c, "getset")))
        return;
    /* a key that is too long to be seen whole may be one of ours */
    if (c.word[1].cut ||
        tl__glob_fits(tl__bytes_of(x->keys), tl__bytes(c.word[1].bytes, c.word[1].n)))
        name(x->seen, &c, setnx ? "SETNX" : "GETSET");
}

/* ---- the connection --------------------------------------------------------------------------- */

static void heard(void *ctx, const tl_reply *reply) {
    migrate_monitor *x = ctx;

    if (reply->type == TL_REPLY_ERROR)
        give_up(x, "is refused: ", reply->text);
    else if (reply->type != TL_REPLY_STATUS)
        give_up(x, "got a malformed reply", tl__bytes("", 0));
    else if (!x->began && tl__bytes_eq(reply->text, TL_LITERAL("OK")))
        x->began = true;
    else
        migrate_monitor_line(x, reply->text);
}

static void lost(void *ctx, tl_bytes message) {
    give_up(ctx, "was lost: ", message);
}

static void drive(migrate_monitor *x, signals *sigs, int64_t most_ms) {
    struct pollfd p[] = {{.fd = tl__conn_fd(x->conn), .events = tl__conn_events(x->conn)},
                         {.fd = sigs ? sigs->fd : -1, .events = POLLIN}};
    tl_mono until = tl__mono_add_ms(tl__mono_now(), most_ms), due = tl__conn_until(x->conn);

    tl__wait(p, 2, tl__mono_min(due, until));
    tl__conn_drive(x->conn, tl__mono_now());
}

void migrate_monitor_stop(migrate_monitor *x) {
    if (!x->conn)
        return;
    tl__conn_free(x->conn);
    x->conn = NULL;
    x->seen->monitor_ms = x->began ? moment_ms() - x->began_ms : 0;
    x->seen->monitoring = false;
}

void migrate_monitor_begin(migrate_monitor *x, migrate_link *m, const char *keys,
                           migrate_traffic *seen) {
    tl_conn_limits limits = {.connect_ms = BEGIN_MS,
                             .ask_id = true,
                             .no_time = true,
                             .subscriber = true,
                             .line_most = LINE_MOST};
    tl_command c = {.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("MONITOR")}};

    *x = (migrate_monitor){.seen = seen, .keys = keys};
    tl_conn_calls calls = {.down = lost, .push = heard, .ctx = x};
    (void)snprintf(x->marker, sizeof x->marker, "tidelock migrate %lld %lld", (long long)getpid(),
                   (long long)moment_ms());
    x->conn = tl__conn_new(&m->link.endpoint, &limits, &calls);
    if (!x->conn || tl__conn_say(x->conn, &c, tl__mono_now()) != TL_OK)
        give_up(x, "could not be asked for", tl__bytes("", 0));
    int64_t until_ms = moment_ms() + BEGIN_MS;
    for (int64_t left = BEGIN_MS; !x->failed && !x->began && left > 0;
         left = until_ms - moment_ms())
        drive(x, NULL, left);
    if (!x->began)
        give_up(x, "was not answered in 5 s", tl__bytes("", 0));
    x->began_ms = moment_ms();
    seen->monitoring = !x->failed;
    if (x->failed)
        migrate_monitor_stop(x);
}

void migrate_monitor_listen(migrate_monitor *x, signals *sigs, int64_t ms) {
    int64_t until_ms = moment_ms() + ms;

    for (int64_t left = ms; x->conn && left > 0; left = until_ms - moment_ms()) {
        struct pollfd p = {.fd = sigs->fd, .events = POLLIN};
        drive(x, sigs, left);
        if (x->failed)
            migrate_monitor_stop(x);
        tl__wait(&p, 1, tl__mono_now());
        if (p.revents)
            return;
    }
}

void migrate_monitor_cost(migrate_monitor *x, tl_bytes list) {
    int64_t id = x->conn ? tl__conn_id(x->conn) : 0;

    if (!x->conn || skew_monitor_backlog(list, id) <= MIGRATE_BACKLOG_MOST)
        return;
    give_up(x, "was given up, as the server kept over 1 MB for it", tl__bytes("", 0));
    migrate_monitor_stop(x);
}

void migrate_monitor_end(migrate_monitor *x, migrate_link *m) {
    const char *const request[] = {"ECHO", x->marker, NULL};
    int64_t until_ms = moment_ms() + BEGIN_MS;

    if (!x->conn)
        return;
    int64_t calls = x->seen->calls;
    bool asked = link_ask(&m->link, request, NULL, NULL);
    for (int64_t left = BEGIN_MS; asked && !x->failed && !x->marked && left > 0;
         left = until_ms - moment_ms())
        drive(x, NULL, left);
    if (!x->marked)
        give_up(x, "did not come to its end", tl__bytes("", 0));
    migrate_monitor_stop(x);
    if (!x->failed)
        x->seen->accounted = calls;
}
