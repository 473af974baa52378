/*
 * Reads keyspace events. A script of tidelock sets a value with its lifetime, so the server reports "set" and,
 * directly behind it, "expire" of the same key. DistributeLockUtil's SETNX and GETSET leave no lifetime: their
 * "set" is followed by something else.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "ground/wait.h"
#include "legacy/skew_monitor.h"
#include "migrate/migrate_events.h"
#include "migrate/migrate_monitor.h"

#define WAIT_MS 5000
#define TAKES_MOST 64  /* reads at once: others may cause events faster than they are read */
#define SCRIPT_MS 1000 /* the events of one script arrive within this */

static void note(migrate_events *events, migrate_access access, const char *what,
                 tl_bytes message) {
    char text[80];

    tl__bytes_print(text, sizeof text, message);
    events->seen->events.access = access;
    (void)snprintf(events->seen->events.why, sizeof events->seen->events.why, "%s%s", what, text);
}

/* ---- messages --------------------------------------------------------------------------------- */

bool migrate_events_suffice(tl_bytes classes) {
    bool all = tl__bytes_has(classes, "A");

    return tl__bytes_has(classes, "K") && (all || tl__bytes_has(classes, "$")) &&
           (all || tl__bytes_has(classes, "g"));
}

static void name_key(migrate_traffic *traffic, const char *key) {
    migrate_straggler straggler = {.address = "not known: events don't name it",
                                   .command = "SETNX, GETSET or SET"};

    (void)snprintf(straggler.key, sizeof straggler.key, "%s", key);
    for (int i = 0; i < traffic->stragglers; i++)
        if (strcmp(traffic->straggler[i].key, straggler.key) == 0)
            return;
    if (traffic->stragglers < MIGRATE_STRAGGLERS)
        traffic->straggler[traffic->stragglers++] = straggler;
    else
        traffic->more_stragglers++;
}

/* No lifetime followed. */
static void settle(migrate_events *events) {
    if (!events->open)
        return;
    events->open = false;
    if (!GUARD(bare_write_seen))
        return;
    events->seen->events.bare++;
    name_key(events->seen, events->key);
}

/* The key of "__keyspace@0__:KEY". */
static tl_bytes key_of(tl_bytes channel) {
    (void)tl__bytes_take(&channel, ':');
    return channel;
}

static void wrote(migrate_events *events, tl_bytes channel) {
    tl_bytes key = key_of(channel);

    settle(events);
    /* A pattern like "*" has tidelock's own keys too. Its fencing counters have no lifetime. */
    if (tl__bytes_starts(key, "tidelock:"))
        return;
    events->seen->events.writes++;
    events->open = true;
    events->open_ms = moment_ms();
    events->channel = tl__bytes_hash(0, channel);
    tl__bytes_print(events->key, sizeof events->key, key);
}

/* From Redis 8.2 on a write may report these too. */
static bool is_part_of_write(tl_bytes event) {
    return tl__bytes_eq(event, TL_LITERAL("new")) ||
           tl__bytes_eq(event, TL_LITERAL("overwritten")) ||
           tl__bytes_eq(event, TL_LITERAL("type_changed"));
}

void migrate_events_message(migrate_events *events, const tl_reply *reply) {
    tl_bytes kind = {0}, channel = {0}, event = {0};

    if (!tl__reply_text(tl__reply_item(reply, 0), &kind))
        return;
    events->began = events->began || tl__bytes_eq(kind, TL_LITERAL("psubscribe"));
    events->ended = events->ended || tl__bytes_eq(kind, TL_LITERAL("punsubscribe"));
    if (!tl__bytes_eq(kind, TL_LITERAL("pmessage")) ||
        !tl__reply_text(tl__reply_item(reply, 2), &channel) ||
        !tl__reply_text(tl__reply_item(reply, 3), &event))
        return;
    if (tl__bytes_eq(event, TL_LITERAL("set")))
        wrote(events, channel);
    else if (tl__bytes_eq(event, TL_LITERAL("expire")) &&
             events->channel == tl__bytes_hash(0, channel))
        events->open = false;
    else if (!is_part_of_write(event))
        settle(events);
}

/* ---- the connection --------------------------------------------------------------------------- */

static void heard(void *ctx, const tl_reply *reply) {
    migrate_events *events = ctx;

    if (reply->type == TL_REPLY_ERROR) {
        note(events, MIGRATE_DENIED, "the subscription was refused: ", reply->text);
        events->failed = true;
    } else {
        migrate_events_message(events, reply);
    }
}

static void lost(void *ctx, tl_bytes message) {
    migrate_events *events = ctx;

    if (!events->failed)
        note(events, MIGRATE_DENIED, "the subscription was lost: ", message);
    events->failed = true;
}

static void drive(migrate_events *events, int64_t most_ms) {
    struct pollfd p = {.fd = tl__conn_fd(events->conn), .events = tl__conn_events(events->conn)};
    tl_mono until = tl__mono_add_ms(tl__mono_now(), most_ms), due = tl__conn_until(events->conn);

    tl__wait(&p, 1, tl__mono_min(due, until));
    tl__conn_drive(events->conn, tl__mono_now());
}

static void drive_until(migrate_events *events, const bool *done) {
    int64_t until_ms = moment_ms() + WAIT_MS;

    for (int64_t left = WAIT_MS; !events->failed && !*done && left > 0;
         left = until_ms - moment_ms())
        drive(events, left);
}

static bool say_to(migrate_events *events, const char *word, const char *argument) {
    tl_command command = {
        .form = TL_ARGV, .argc = 2, .argv = {tl__bytes_of(word), tl__bytes_of(argument)}};

    return events->conn && tl__conn_say(events->conn, &command, tl__mono_now()) == TL_OK;
}

static const char *pattern(char *buf, size_t size, const migrate_events *events) {
    (void)snprintf(buf, size, "__keyspace@%d__:%s", (int)events->migration->link.endpoint.db,
                   events->keys);
    return buf;
}

static void subscribe(migrate_events *events) {
    tl_conn_limits limits = {
        .connect_ms = WAIT_MS, .ask_id = true, .no_time = true, .subscriber = true};
    tl_conn_calls calls = {.down = lost, .push = heard, .ctx = events};
    char channels[MIGRATE_KEYS_SIZE + 32];

    events->began = events->ended = events->failed = events->open = false;
    events->conn = tl__conn_new(&events->migration->link.endpoint, &limits, &calls);
    if (say_to(events, "PSUBSCRIBE", pattern(channels, sizeof channels, events)))
        drive_until(events, &events->began);
    events->began_ms = moment_ms();
    if (events->began && !events->failed) {
        events->seen->events.access = MIGRATE_READ;
        return;
    }
    if (!events->failed)
        note(events, MIGRATE_DENIED, "the subscription had no reply in 5 s", (tl_bytes){0});
    migrate_events_stop(events);
}

/* ---- its setting ------------------------------------------------------------------------------ */

static bool take_classes(void *ctx, const tl_reply *reply) {
    migrate_events *events = ctx;
    tl_bytes classes;

    if (!tl__reply_text(tl__reply_item(reply, 1), &classes))
        note(events, MIGRATE_LACKS, "the server has none (from Redis 2.8 on)", (tl_bytes){0});
    else if (!migrate_events_suffice(classes))
        note(events, MIGRATE_OFF, "notify-keyspace-events lacks K, $ or g: it is ",
             classes.n > 0 ? classes : TL_LITERAL("empty"));
    else
        events->seen->events.access = MIGRATE_READ;
    return true;
}

static void ask_setting(migrate_events *events) {
    static const char *const request[] = {"CONFIG", "GET", "notify-keyspace-events", NULL};
    server_link *link = &events->migration->link;

    if (!link_ask(link, request, take_classes, events))
        note(events, MIGRATE_DENIED, "its setting can't be read: ", tl__bytes_of(link->message));
}

/* ---- the life of a watch ---------------------------------------------------------------------- */

void migrate_events_begin(migrate_events *events, migrate_link *migration, const char *keys,
                          migrate_traffic *seen) {
    *events = (migrate_events){.seen = seen, .migration = migration, .keys = keys};
    ask_setting(events);
    if (seen->events.access == MIGRATE_READ && keys)
        subscribe(events);
}

void migrate_events_stop(migrate_events *events) {
    if (!events->conn)
        return;
    tl__conn_free(events->conn);
    events->conn = NULL;
    events->seen->events.ms += events->began ? moment_ms() - events->began_ms : 0;
}

/* Writes in between stay unknown. */
static void resume(migrate_events *events) {
    bool served = events->began;

    migrate_events_stop(events);
    events->seen->events.gaps += served;
    if (served)
        subscribe(events);
}

void migrate_events_take(migrate_events *events) {
    struct pollfd p = {.events = POLLIN, .revents = POLLIN};

    for (int i = 0; i < TAKES_MOST && events->conn && p.revents; i++) {
        p.fd = tl__conn_fd(events->conn);
        tl__wait(&p, 1, tl__mono_now());
        drive(events, 0);
        if (events->failed)
            resume(events);
    }
    if (events->conn && !p.revents && moment_ms() >= events->open_ms + SCRIPT_MS)
        settle(events);
}

void migrate_events_cost(migrate_events *events, tl_bytes list) {
    int64_t id = events->conn ? tl__conn_id(events->conn) : 0;

    if (id <= 0 || skew_monitor_backlog(list, id) <= MIGRATE_BACKLOG_MOST)
        return;
    note(events, MIGRATE_DENIED, "they were left off: the server buffered more than 1 MB",
         (tl_bytes){0});
    migrate_events_stop(events);
}

void migrate_events_end(migrate_events *events) {
    char channels[MIGRATE_KEYS_SIZE + 32];

    if (!events->conn)
        return;
    if (say_to(events, "PUNSUBSCRIBE", pattern(channels, sizeof channels, events)))
        drive_until(events, &events->ended);
    if (!events->ended) {
        events->seen->events.gaps++;
        events->open = false;
    }
    settle(events);
    migrate_events_stop(events);
}
