/*
 * The fake server's commands about the connection, the server and publishing.
 */
#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"

#define INFO_SIZE 16384

/* ---- the connection -------------------------------------------------------------------------- */

FAKE_COMMAND(ping) {
    if (argc > 2) {
        fake__arity(c, out, "ping");
    } else if (c->channels.live) {
        tl_reply *items = fake__array(c, out, 2);
        fake__static(&items[0], TL_REPLY_STRING, TL_LITERAL("pong"));
        fake__string(c, &items[1], argc == 2 ? argv[1] : TL_LITERAL(""));
    } else if (argc == 2) {
        fake__string(c, out, argv[1]);
    } else {
        fake__status(out, "PONG");
    }
}

FAKE_COMMAND(echo) {
    fake__string(c, out, argv[1]);
}

FAKE_COMMAND(quit) {
    c->closing = true;
    fake__ok(out);
}

FAKE_COMMAND(auth) {
    fake_redis *r = c->r;
    bool users = r->level >= FAKE_LEVEL(6, 0, 0);
    tl_bytes user = argc == 3 ? argv[1] : TL_LITERAL("default");
    if (argc > 3) {
        fake__syntax(out);
    } else if (argc == 3 && !users) {
        fake__arity(c, out, "auth");
    } else if (!r->password && argc == 2) {
        if (users) {
            fake__error(
                out,
                "ERR AUTH <password> called without any password configured for the default user. "
                "Are you sure your configuration is correct?");
        } else {
            fake__error(out, "ERR Client sent AUTH, but no password is set");
        }
    } else if (tl__bytes_eq(user, TL_LITERAL("default")) &&
               (!r->password || tl__bytes_eq(argv[argc - 1], tl__bytes_of(r->password)))) {
        c->authed = true;
        fake__ok(out);
    } else if (users) {
        fake__error(out, "WRONGPASS invalid username-password pair or user is disabled.");
    } else {
        fake__error(out, "ERR invalid password");
    }
}

static void set_name(fake_conn *c, tl_bytes name, tl_reply *out) {
    for (size_t i = 0; i < name.n; i++) {
        if (name.p[i] < '!' || name.p[i] > '~') {
            fake__error(out,
                        "ERR Client names cannot contain spaces, newlines or special characters.");
            return;
        }
    }
    fake__text_set(&c->name, name);
    fake__ok(out);
}

static int client_line(const fake_conn *c, char *to, size_t size) {
    const char *path = strncmp(c->address, "unix:", 5) == 0 ? c->address + 5 : NULL;
    long long age = (long long)((c->r->now_us - c->since_us) / 1000000);
    return snprintf(to, size,
                    "id=%lld addr=%s%s fd=%lld name=%.*s age=%lld idle=0 flags=%s db=%d sub=%u "
                    "psub=0 multi=%d qbuf=0 qbuf-free=0 obl=0 oll=0 omem=0 events=r cmd=%s\n",
                    (long long)c->id, path ? path : c->address, path ? ":0" : "",
                    (long long)c->id + 5, (int)c->name.n, c->name.p ? c->name.p : "", age,
                    c->monitor         ? "O"
                    : c->channels.live ? "P"
                    : c->tracking      ? "t"
                                       : "N",
                    c->db, c->channels.live, c->multi ? (int)c->queue_count : -1,
                    c->last ? c->last->name : "NULL");
}

/* The oldest first. */
static void client_list(fake_conn *c, tl_reply *out) {
    size_t n = 0, room = 0, used = 0;
    const fake_conn *at = c->r->conns;
    for (; at && at->next; at = at->next) {
        n++;
    }
    room = (n + 1) * (400 + 64) + 1;
    for (const fake_conn *i = c->r->conns; i; i = i->next) {
        room += i->name.n;
    }
    char *text = fake__arena_get(&c->arena, room);
    for (; at; at = at->prev) {
        used += at->master || at->killed ? 0 : (size_t)client_line(at, text + used, room - used);
    }
    fake__static(out, TL_REPLY_STRING, tl__bytes(text, used));
}

typedef struct {
    int64_t id; /* 0: any */
    tl_bytes address;
    bool spares_me;
} kill_filter;

/* Of the filters of 7.0 those by which a single connection is meant. */
static bool read_filter(const fake_conn *c, const tl_bytes *argv, size_t argc, kill_filter *ret,
                        tl_reply *out) {
    bool ranged = c->r->level >= FAKE_LEVEL(7, 0, 0);
    for (size_t i = 2; i < argc; i += 2) {
        bool more = i + 1 < argc;
        if (more && fake__is(argv[i], "id")) {
            if (!tl__bytes_to_int(argv[i + 1], &ret->id) || (ranged && ret->id < 1)) {
                fake__static(out, TL_REPLY_ERROR,
                             ranged ? TL_LITERAL("ERR client-id should be greater than 0")
                                    : TL_LITERAL("ERR value is not an integer or out of range"));
                return false;
            }
        } else if (more && fake__is(argv[i], "addr")) {
            ret->address = argv[i + 1];
        } else if (more && fake__is(argv[i], "skipme") &&
                   (fake__is(argv[i + 1], "yes") || fake__is(argv[i + 1], "no"))) {
            ret->spares_me = fake__is(argv[i + 1], "yes");
        } else {
            fake__syntax(out);
            return false;
        }
    }
    return true;
}

static bool is_meant(const fake_conn *at, const fake_conn *by, const kill_filter *filter) {
    return !at->master && !at->killed && (filter->id == 0 || at->id == filter->id) &&
           (filter->address.n == 0 || tl__bytes_eq(filter->address, tl__bytes_of(at->address))) &&
           (at != by || !filter->spares_me);
}

/* Who ends itself is told so before; another is gone at once, with what it has asked for. */
static int64_t kill_conns(fake_conn *by, const kill_filter *filter) {
    int64_t n = 0;
    for (fake_conn *at = by->r->conns; at; at = at->next) {
        if (!is_meant(at, by, filter)) {
            continue;
        }
        n++;
        at->closing = true;
        if (at != by) {
            at->killed = true;
            fake__unsubscribe_all(at, false);
            fake__forget_transaction(at);
            fake__track_forget(at);
            fake__monitor_forget(at);
        }
    }
    return n;
}

/* An address alone, or filters. */
static void client_kill(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out) {
    kill_filter filter = {.spares_me = argc > 3};
    if (argc == 3) {
        filter.address = argv[2];
        if (argv[2].n > 0 && kill_conns(c, &filter) > 0) {
            fake__ok(out);
        } else {
            fake__error(out, "ERR No such client");
        }
    } else if (read_filter(c, argv, argc, &filter, out)) {
        fake__int(out, kill_conns(c, &filter));
    }
}

FAKE_COMMAND(client) {
    if (fake__is(argv[1], "id")) {
        fake__int(out, c->id);
    } else if (fake__is(argv[1], "setname")) {
        set_name(c, argv[2], out);
    } else if (fake__is(argv[1], "tracking")) {
        fake__track(c, argv, argc, out);
    } else if (fake__is(argv[1], "list")) {
        client_list(c, out);
    } else if (fake__is(argv[1], "kill")) {
        client_kill(c, argv, argc, out);
    } else if (fake__is(argv[1], "getredir")) {
        fake__int(out, c->tracking ? c->redirect : -1);
    } else if (c->name.n) {
        fake__string(c, out, fake__text(&c->name));
    } else {
        fake__nil(out);
    }
}

/* ---- the server ------------------------------------------------------------------------------ */

FAKE_COMMAND(time) {
    char text[TL_INT_SIZE];
    tl_reply *items = fake__array(c, out, 2);
    fake__string(c, &items[0], fake__print_int(text, c->r->now_us / 1000000));
    fake__string(c, &items[1], fake__print_int(text, c->r->now_us % 1000000));
}

static size_t command_stats(const fake_redis *r, char *text, size_t size, bool follows) {
    size_t n = (size_t)snprintf(text, size, "%s# Commandstats\r\n", follows ? "\r\n" : "");
    for (size_t i = 0; i < fake__row_count; i++) {
        if (r->calls[i]) {
            n += (size_t)snprintf(text + n, size - n,
                                  "cmdstat_%s:calls=%llu,usec=0,usec_per_call=0.00\r\n",
                                  fake__rows[i].name, (unsigned long long)r->calls[i]);
        }
    }
    return n;
}

static size_t info_id(const fake_redis *r, char *text, size_t size, const char *name, uint64_t id) {
    if (r->nameless) {
        return 0;
    }
    return (size_t)snprintf(text, size, "%s:%040llx\r\n", name, (unsigned long long)id);
}

FAKE_COMMAND(info) {
    const fake_redis *r = c->r;
    char text[INFO_SIZE];
    size_t n = 0;
    bool all = argc == 1 || fake__is(argv[1], "all") || fake__is(argv[1], "default") ||
               fake__is(argv[1], "everything");
    if (all || fake__is(argv[1], "server")) {
        n += (size_t)snprintf(text, sizeof(text),
                              "# Server\r\nredis_version:%u.%u.%u\r\nredis_mode:%s\r\n"
                              "process_id:1\r\n",
                              r->level >> 16, r->level >> 8 & 255, r->level & 255,
                              r->cluster ? "cluster" : "standalone");
        n += info_id(r, text + n, sizeof(text) - n, "run_id", r->run_id);
        n += (size_t)snprintf(text + n, sizeof(text) - n, "uptime_in_seconds:%lld\r\n",
                              (long long)((r->now_us - r->started_us) / 1000000));
    }
    if (all || fake__is(argv[1], "replication")) {
        n += (size_t)snprintf(
            text + n, sizeof(text) - n, "%s# Replication\r\nrole:%s\r\nconnected_slaves:%d\r\n",
            n ? "\r\n" : "", r->replica ? "slave" : "master", r->replica ? 0 : r->replicas);
        if (r->level >= FAKE_LEVEL(4, 0, 0)) {
            n += info_id(r, text + n, sizeof(text) - n, "master_replid", r->replid);
        }
    }
    if ((all || fake__is(argv[1], "cluster")) && r->level >= FAKE_LEVEL(3, 0, 0)) {
        n += (size_t)snprintf(text + n, sizeof(text) - n, "%s# Cluster\r\ncluster_enabled:%d\r\n",
                              n ? "\r\n" : "", r->cluster);
    }
    if (all || fake__is(argv[1], "commandstats")) {
        n += command_stats(r, text + n, sizeof(text) - n, n > 0);
    }
    fake__string(c, out, tl__bytes(text, n));
}

/* It never saves: the answer is when it started, as a real one's then is. */
FAKE_COMMAND(lastsave) {
    fake__int(out, c->r->started_us / 1000000);
}

FAKE_COMMAND(role) {
    tl_reply *items = fake__array(c, out, 3);
    fake__static(&items[0], TL_REPLY_STRING,
                 c->r->replica ? TL_LITERAL("slave") : TL_LITERAL("master"));
    fake__int(&items[1], 0);
    fake__array(c, &items[2], 0);
}

FAKE_COMMAND(wait) {
    int64_t n, timeout;
    if (!fake__to_int(argv[1], &n)) {
        fake__not_an_integer(out);
    } else if (!fake__to_int(argv[2], &timeout)) {
        fake__error(out, "ERR timeout is not an integer or out of range");
    } else if (timeout < 0) {
        fake__error(out, "ERR timeout is negative");
    } else if (c->r->replica && c->r->level >= FAKE_LEVEL(4, 0, 0)) {
        const char *name = c->r->level < FAKE_LEVEL(5, 0, 0) ? "slave" : "replica";
        fake__errorf(
            c, out,
            "ERR WAIT cannot be used with %s instances. Please also note that since Redis "
            "4.0 if a %s is configured to be writable (which is not the default) writes to "
            "%ss are just local and are not propagated.",
            name, name, name);
    } else {
        fake__int(out, c->r->replicas);
    }
}

FAKE_COMMAND(waitaof) {
    int64_t here, n, timeout;
    if (!fake__to_int(argv[1], &here)) {
        fake__not_an_integer(out);
    } else if (here < 0 || here > 1) {
        fake__error(out, "ERR value is out of range, value must between 0 and 1");
    } else if (!fake__to_int(argv[2], &n) || n < 0) {
        fake__error(out, "ERR value is out of range, must be positive");
    } else if (!fake__to_int(argv[3], &timeout)) {
        fake__error(out, "ERR timeout is not an integer or out of range");
    } else if (timeout < 0) {
        fake__error(out, "ERR timeout is negative");
    } else if (c->r->replica) {
        fake__error(out, "ERR WAITAOF cannot be used with replica instances. Please also note that "
                         "writes to replicas are just local and are not propagated.");
    } else if (here > 0 && !c->r->appends) {
        fake__error(out, "ERR WAITAOF cannot be used when numlocal is set but appendonly is "
                         "disabled.");
    } else {
        tl_reply *items = fake__array(c, out, 2);
        fake__int(&items[0], c->r->appends && c->r->synced);
        fake__int(&items[1], c->r->replicas_synced);
    }
}

static void config_get(fake_conn *c, tl_bytes name, tl_reply *out) {
    static const char *const settings[][2] = {
        {"maxmemory", "0"},          {"maxmemory-policy", "noeviction"}, {"appendonly", "no"},
        {"appendfsync", "everysec"}, {"notify-keyspace-events", NULL},   {"timeout", "0"},
    };
    size_t count = sizeof(settings) / sizeof(settings[0]), n = 0;
    tl_reply *items = fake__array(c, out, 2 * count);
    for (size_t i = 0; i < count; i++) {
        const char *value = settings[i][1];
        bool here = value || c->r->level >= FAKE_LEVEL(2, 8, 0);
        if (here && (fake__is(name, settings[i][0]) || fake__is(name, "*"))) {
            fake__static(&items[n++], TL_REPLY_STRING, tl__bytes_of(settings[i][0]));
            fake__static(&items[n++], TL_REPLY_STRING,
                         value ? tl__bytes_of(value) : fake__events_print(c));
        }
    }
    out->count = n;
}

/* Only what the server tells of keys can be set. */
static void config_set(fake_conn *c, const tl_bytes *argv, tl_reply *out) {
    fake_redis *r = c->r;
    bool new = r->level >= FAKE_LEVEL(7, 0, 0);
    unsigned events;
    if (r->level < FAKE_LEVEL(2, 8, 0) || !fake__is(argv[2], "notify-keyspace-events")) {
        fake__errorf(c, out,
                     new ? "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'"
                         : "ERR Unsupported CONFIG parameter: %.*s",
                     (int)argv[2].n, argv[2].p);
    } else if (fake__events_read(r, argv[3], &events)) {
        r->events = events;
        fake__ok(out);
    } else if (new) {
        fake__error(out, "ERR CONFIG SET failed (possibly related to argument "
                         "'notify-keyspace-events') - Invalid event class character. Use "
                         "'Ag$lshzxeKEtmdn'.");
    } else {
        fake__errorf(c, out, "ERR Invalid argument '%.*s' for CONFIG SET 'notify-keyspace-events'",
                     (int)argv[3].n, argv[3].p);
    }
}

FAKE_COMMAND(config) {
    if (fake__is(argv[1], "get")) {
        config_get(c, argv[2], out);
    } else {
        config_set(c, argv, out);
    }
}

/* ---- publish and subscribe ------------------------------------------------------------------- */

void fake__push(fake_conn *c, tl_bytes kind, tl_bytes channel, const tl_reply *payload) {
    tl_reply items[3] = {{.type = TL_REPLY_STRING, .text = kind},
                         {.type = channel.p ? TL_REPLY_STRING : TL_REPLY_NIL, .text = channel},
                         *payload};
    tl_reply message = {.type = TL_REPLY_ARRAY, .items = items, .count = 3};
    if (c->calls.push) {
        c->calls.push(c->ctx, &message);
    }
}

static void push_count(fake_conn *c, tl_bytes kind, tl_bytes channel) {
    tl_reply count;
    fake__int(&count, c->channels.live);
    fake__push(c, kind, channel, &count);
}

static void subscribers_add(fake_redis *r, fake_conn *c) {
    if (r->subscriber_count == r->subscriber_room) {
        r->subscriber_room = r->subscriber_room ? r->subscriber_room * 2 : 8;
        r->subscribers = fake__alloc(r->subscribers, r->subscriber_room * sizeof(fake_conn *));
    }
    r->subscribers[r->subscriber_count++] = c;
}

static void subscribers_remove(fake_redis *r, const fake_conn *c) {
    size_t i = 0;
    while (r->subscribers[i] != c) {
        i++;
    }
    r->subscriber_count--;
    memmove(&r->subscribers[i], &r->subscribers[i + 1],
            (r->subscriber_count - i) * sizeof(fake_conn *));
}

FAKE_COMMAND(subscribe) {
    for (size_t i = 1; i < argc; i++) {
        if (!c->channels.live) {
            subscribers_add(c->r, c);
        }
        fake__dict_add(&c->channels, argv[i], NULL);
        push_count(c, TL_LITERAL("subscribe"), argv[i]);
    }
    fake__nil(out);
    c->silent = true;
}

static void unsubscribe(fake_conn *c, fake_entry *entry) {
    fake__dict_remove(&c->channels, entry);
    if (!c->channels.live) {
        subscribers_remove(c->r, c);
    }
}

void fake__unsubscribe_all(fake_conn *c, bool tell) {
    uint32_t i = 0;
    fake_entry *entry;
    while ((entry = fake__dict_next(&c->channels, &i))) {
        tl_bytes channel = fake__arena_copy(&c->arena, fake__key(entry));
        unsubscribe(c, entry);
        if (tell) {
            push_count(c, TL_LITERAL("unsubscribe"), channel);
        }
    }
}

FAKE_COMMAND(unsubscribe) {
    if (argc == 1 && c->channels.live) {
        fake__unsubscribe_all(c, true);
    } else if (argc == 1) {
        push_count(c, TL_LITERAL("unsubscribe"), (tl_bytes){0});
    }
    for (size_t i = 1; i < argc; i++) {
        fake_entry *entry = fake__dict_find(&c->channels, argv[i]);
        if (entry) {
            unsubscribe(c, entry);
        }
        push_count(c, TL_LITERAL("unsubscribe"), argv[i]);
    }
    fake__nil(out);
    c->silent = true;
}

int64_t fake__send(fake_redis *r, tl_bytes channel, tl_bytes message) {
    int64_t n = 0;
    tl_reply payload = {.type = TL_REPLY_STRING, .text = message};
    for (size_t i = 0; i < r->subscriber_count; i++) {
        fake_conn *to = r->subscribers[i];
        if (fake__dict_find(&to->channels, channel)) {
            fake__push(to, TL_LITERAL("message"), channel, &payload);
            n++;
        }
    }
    return n;
}

/* Replicas repeat it, whether anybody has heard it here or not. */
FAKE_COMMAND(publish) {
    fake__int(out, fake__send(c->r, argv[1], argv[2]));
    if (c->r->wrote) {
        c->r->wrote(c->r->wrote_ctx, c->r->unit, c->db, argv, argc);
    }
}

static int64_t subscribers_of(const fake_redis *r, tl_bytes channel) {
    int64_t n = 0;
    for (size_t i = 0; i < r->subscriber_count; i++)
        n += fake__dict_find(&r->subscribers[i]->channels, channel) != NULL;
    return n;
}

FAKE_COMMAND(pubsub) {
    if (!fake__is(argv[1], "numsub")) {
        fake__errorf(c, out, "ERR unknown subcommand '%.*s'. Try PUBSUB HELP.", (int)argv[1].n,
                     argv[1].p);
        return;
    }
    tl_reply *items = fake__array(c, out, 2 * (argc - 2));
    for (size_t i = 2; i < argc; i++) {
        fake__string(c, &items[2 * (i - 2)], argv[i]);
        fake__int(&items[2 * (i - 2) + 1], subscribers_of(c->r, argv[i]));
    }
}
