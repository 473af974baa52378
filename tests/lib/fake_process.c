/*
 * The way of a command through the fake server: found, checked as redis-server checks it and in the
 * same order, queued or run, and told to replicas.
 */
#include <stdio.h>

#include "fake_inside.h"

#define WORDS_MAX 64 /* arguments of a line given to fake_conn_say */

bool fake__arity_fits(const fake_row *row, const fake_redis *r, size_t argc) {
    int n = (int)argc;
    if (row->run == fake__set && r->level < FAKE_LEVEL(2, 6, 12)) {
        return n == 3;
    }
    if (row->run == fake__hset && r->level < FAKE_LEVEL(4, 0, 0) &&
        fake__is(TL_LITERAL("hset"), row->name)) {
        return n == 4;
    }
    return row->arity >= 0 ? n == row->arity : n >= -row->arity;
}

size_t fake__keys_of(const fake_row *row, const tl_bytes *argv, size_t argc, const tl_bytes **ret) {
    int64_t n;
    *ret = argv + 1;
    if (row->flags & FAKE_KEY) {
        return 1;
    }
    if (row->flags & FAKE_KEYS) {
        return argc - 1;
    }
    *ret = argv + 3;
    bool some = row->flags & FAKE_SCRIPT_KEYS && fake__to_int(argv[2], &n) && n > 0 &&
                n <= (int64_t)argc - 3;
    return some ? (size_t)n : 0;
}

void fake__tell(fake_redis *r, int db, const fake_row *row, const tl_bytes *argv, size_t argc) {
    if (!(row->flags & FAKE_EXPIRES)) {
        r->wrote(r->wrote_ctx, r->unit, db, argv, argc);
        return;
    }
    char when[TL_INT_SIZE];
    const fake_object *object = fake__look(r, db, argv[1]);
    bool set = row->run == fake__set || row->run == fake__setex || row->run == fake__psetex;
    tl_bytes stamp = {0};
    if (object && object->expire_ms != FAKE_NEVER) {
        stamp = tl__bytes(
            when, (size_t)snprintf(when, sizeof(when), "%lld", (long long)object->expire_ms));
    }
    if (!object) {
        r->wrote(r->wrote_ctx, r->unit, db, (tl_bytes[]){TL_LITERAL("DEL"), argv[1]}, 2);
    } else if (set) {
        r->wrote(r->wrote_ctx, r->unit, db,
                 (tl_bytes[]){TL_LITERAL("SET"), argv[1], fake__text(&object->text),
                              TL_LITERAL("PXAT"), stamp},
                 stamp.n ? 5 : 3);
    } else {
        r->wrote(r->wrote_ctx, r->unit, db, (tl_bytes[]){TL_LITERAL("PEXPIREAT"), argv[1], stamp},
                 3);
    }
}

static bool is_wrong_type(const tl_reply *reply) {
    static const char code[] = "WRONGTYPE ";
    return reply->type == TL_REPLY_ERROR && reply->text.n > sizeof(code) &&
           memcmp(reply->text.p, code, sizeof(code) - 1) == 0;
}

static void unknown(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out) {
    char args[300] = "";
    size_t n = 0;
    int name = argv[0].n < 128 ? (int)argv[0].n : 128;
    if (c->r->level < FAKE_LEVEL(5, 0, 0)) {
        fake__errorf(c, out, "ERR unknown command '%.*s'", name, argv[0].p);
        return;
    }
    bool new = c->r->level >= FAKE_LEVEL(7, 0, 0);
    for (size_t i = 1; i < argc && n < 128; i++) {
        size_t room = 128 - n < argv[i].n ? 128 - n : argv[i].n;
        n += (size_t)snprintf(args + n, sizeof(args) - n, new ? "'%.*s' " : "`%.*s`, ", (int)room,
                              argv[i].p);
    }
    fake__errorf(c, out,
                 new ? "ERR unknown command '%.*s', with args beginning with: %s"
                     : "ERR unknown command `%.*s`, with args beginning with: %s",
                 name, argv[0].p, args);
}

/* ---- subcommands ----------------------------------------------------------------------------- */

static const char *before_5(const fake_row *row, uint32_t level) {
    if (row->run == fake__script) {
        return "ERR Unknown SCRIPT subcommand or wrong # of args.";
    }
    if (row->run == fake__config) {
        return level < FAKE_LEVEL(2, 8, 0)
                   ? "ERR CONFIG subcommand must be one of GET, SET, RESETSTAT"
                   : "ERR CONFIG subcommand must be one of GET, SET, RESETSTAT, REWRITE";
    }
    return level < FAKE_LEVEL(2, 6, 9) ? "ERR Syntax error, try CLIENT (LIST | KILL ip:port)"
           : level < FAKE_LEVEL(3, 2, 0)
               ? "ERR Syntax error, try CLIENT (LIST | KILL ip:port | GETNAME | SETNAME "
                 "connection-name)"
               : "ERR Syntax error, try CLIENT (LIST | KILL | GETNAME | SETNAME | PAUSE | REPLY)";
}

static void no_subcommand(fake_conn *c, const fake_row *row, tl_bytes name, tl_reply *out) {
    uint32_t level = c->r->level;
    const char *parent = row->run == fake__script   ? "SCRIPT"
                         : row->run == fake__client ? "CLIENT"
                                                    : "CONFIG";
    int n = name.n < 128 ? (int)name.n : 128;
    if (level >= FAKE_LEVEL(7, 0, 0)) {
        fake__errorf(c, out, "ERR unknown subcommand '%.*s'. Try %s HELP.", n, name.p, parent);
    } else if (level >= FAKE_LEVEL(5, 0, 0)) {
        bool dot = level >= FAKE_LEVEL(6, 0, 0) || row->run != fake__client;
        fake__errorf(
            c, out, "ERR Unknown subcommand or wrong number of arguments for '%.*s'. Try %s HELP%s",
            n, name.p, parent, dot ? "." : "");
    } else {
        fake__static(out, TL_REPLY_ERROR, tl__bytes_of(before_5(row, level)));
    }
}

const fake_sub *fake__sub_of(const fake_redis *r, const fake_row *row, tl_bytes name) {
    for (const fake_sub *sub = fake__subs; sub->name; sub++) {
        if (sub->parent == row->run && fake__is(name, sub->name) && sub->since <= r->level) {
            return sub;
        }
    }
    return NULL;
}

static bool subcommand_fits(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc,
                            tl_reply *out) {
    const fake_sub *sub = fake__sub_of(c->r, row, argv[1]);
    int n = (int)argc;
    bool fits = sub && (sub->arity >= 0 ? n == sub->arity : n >= -sub->arity);
    if (sub && !fits && c->r->level >= FAKE_LEVEL(7, 0, 0)) {
        fake__errorf(c, out, "ERR wrong number of arguments for '%s|%s' command", row->name,
                     sub->name);
    } else if (!fits) {
        no_subcommand(c, row, argv[1], out);
    }
    return fits;
}

/* ---- running --------------------------------------------------------------------------------- */

/* In a script its own keys count as read, not those that the command has: from 6.0 to 7.0 it is so. */
static void track(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc) {
    const fake_said *outer = &c->r->outer;
    if (c->r->in_script) {
        fake__track_read(c, outer->row, outer->argv, outer->argc);
    } else {
        fake__track_read(c, row, argv, argc);
    }
}

static void tell_missing(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc) {
    const tl_bytes *keys;
    size_t n = fake__keys_of(row, argv, argc, &keys);
    for (size_t i = 0; i < n; i++) {
        fake__missed(c, keys[i]);
    }
}

void fake__call(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc,
                tl_reply *out) {
    fake_redis *r = c->r;
    uint64_t dirty = r->dirty;
    int db = c->db;
    if (!r->in_script) {
        r->outer = (fake_said){row, argv, argc};
        c->last = row;
    }
    bool shown = fake__monitor_shows(r, row, argv), before = shown && fake__monitor_before(r, row);
    fake_said said = {row, argv, argc};
    r->calls[row - fake__rows]++;
    if (before) {
        fake__monitor_tell(c, &said);
    }
    bool looks = r->events & FAKE_ON_MISS && row->flags & FAKE_READ;
    if (looks && row->flags & FAKE_KEYS) {
        tell_missing(c, row, argv, argc);
    }
    if (!(row->flags & FAKE_PARENT) || r->level >= FAKE_LEVEL(7, 0, 0) ||
        subcommand_fits(c, row, argv, argc, out)) {
        row->run(c, argv, argc, out);
    }
    if (shown && !before) {
        fake__monitor_tell(c, &said);
    }
    if (looks && !(row->flags & FAKE_KEYS) && out->type != TL_REPLY_ERROR) {
        tell_missing(c, row, argv, argc); /* what is asked in vain doesn't look */
    }
    if (r->level < FAKE_LEVEL(2, 8, 0) && is_wrong_type(out)) {
        fake__error(out, "ERR Operation against a key holding the wrong kind of value");
    }
    if (r->wrote && r->dirty != dirty && row->flags & FAKE_WRITE) {
        fake__tell(r, db, row, argv, argc);
    }
    if (c->tracking && row->flags & FAKE_READ) {
        track(c, row, argv, argc);
    }
}

/* From 6.0 a transaction is refused as a whole while memory is full. */
static bool needs_memory(const fake_conn *c, const fake_row *row) {
    bool whole = c->r->level >= FAKE_LEVEL(6, 0, 0);
    bool exec = row->run == fake__exec && c->queued_flags & FAKE_DENY_OOM;
    bool queued = c->multi && !(row->flags & FAKE_ENDS_MULTI);
    return row->flags & FAKE_DENY_OOM || (whole && (exec || queued));
}

static void refuse_memory(const fake_redis *r, tl_reply *out) {
    if (r->level >= FAKE_LEVEL(2, 6, 0)) {
        fake__error(out, "OOM command not allowed when used memory > 'maxmemory'.");
    } else {
        fake__error(out, "ERR command not allowed when used memory > 'maxmemory'");
    }
}

/* Whether it may run at all; out is the error if not. */
static bool allowed(fake_conn *c, const fake_said *said, tl_reply *out) {
    fake_redis *r = c->r;
    const fake_row *row = said->row;
    unsigned flags = row->flags | (row->run == fake__exec ? c->queued_flags : 0);
    if (c->master) {
        return true;
    }
    if (!c->authed && !(row->flags & FAKE_NO_AUTH)) {
        fake__error(out, "NOAUTH Authentication required.");
    } else if (c->multi && row->flags & FAKE_NO_MULTI) {
        fake__error(out, "ERR Command not allowed inside a transaction");
    } else if (!fake__acl_allows(c, said, out)) {
        return false;
    } else if (r->cluster && !fake__cluster_allows(c, said, out)) {
        c->elsewhere = true;
    } else if (r->oom && needs_memory(c, row)) {
        refuse_memory(r, out);
    } else if (r->replica && flags & FAKE_WRITE) {
        fake__error(out, "READONLY You can't write against a read only replica.");
    } else if (c->channels.live && !(row->flags & FAKE_PUBSUB)) {
        fake__errorf(
            c, out,
            "ERR Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / "
            "RESET are allowed in this context",
            row->name);
    } else if (r->loading && !(row->flags & FAKE_LOADING)) {
        fake__error(out, "LOADING Redis is loading the dataset in memory");
    } else {
        return true;
    }
    return false;
}

static void enqueue(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc,
                    tl_reply *out) {
    if (c->queue_count == c->queue_room) {
        c->queue_room = c->queue_room ? c->queue_room * 2 : 8;
        c->queue = fake__alloc(c->queue, c->queue_room * sizeof(*c->queue));
    }
    fake_queued *queued = &c->queue[c->queue_count++];
    queued->row = row;
    queued->argc = argc;
    queued->argv = fake__arena_get(&c->kept, argc * sizeof(tl_bytes));
    for (size_t i = 0; i < argc; i++) {
        queued->argv[i] = fake__arena_copy(&c->kept, argv[i]);
    }
    c->queued_flags |= row->flags;
    fake__status(out, "QUEUED");
}

/* A refused command spoils the transaction, from 2.6.5 on; a refused EXEC ends it. */
static void refused(fake_conn *c, const fake_said *said, tl_reply *out) {
    const fake_row *row = said->row;
    if (c->elsewhere && row->run == fake__exec) {
        fake__forget_transaction(c);
    } else if (row && row->run == fake__exec) {
        size_t code = out->text.n > 4 && memcmp(out->text.p, "ERR ", 4) == 0 ? 4 : 0;
        fake__forget_transaction(c);
        fake__errorf(c, out, "EXECABORT Transaction discarded because of: %.*s",
                     (int)(out->text.n - code), out->text.p + code);
        if (c->r->monitors) {
            fake__monitor_tell(c, said); /* of all that is refused this alone */
        }
    } else if (c->multi) {
        c->abort = c->r->level >= FAKE_LEVEL(2, 6, 5);
    }
}

static void process(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out) {
    fake_redis *r = c->r;
    const fake_row *row = fake__lookup(r, argv[0]);
    r->unit++;
    r->total++;
    c->elsewhere = false;
    if (!row) {
        unknown(c, argv, argc, out);
    } else if (!fake__arity_fits(row, r, argc)) {
        fake__arity(c, out, row->name);
    } else if (row->flags & FAKE_PARENT && r->level >= FAKE_LEVEL(7, 0, 0) &&
               !subcommand_fits(c, row, argv, argc, out)) {
        /* from 7.0 on subcommands are looked up before anything else, as commands are */
    } else if (allowed(c, &(fake_said){row, argv, argc}, out)) {
        r->count[row - fake__rows]++;
        if (c->multi && !(row->flags & FAKE_AT_ONCE)) {
            enqueue(c, row, argv, argc, out);
        } else {
            fake__call(c, row, argv, argc, out);
        }
        return;
    }
    refused(c, &(fake_said){row, argv, argc}, out);
}

const tl_reply *fake_conn_command(fake_conn *c, const tl_bytes *argv, size_t argc) {
    fake__arena_reset(&c->arena);
    fake__nil(&c->reply);
    c->silent = false;
    if (argc == 0) {
        fake__error(&c->reply, "ERR Protocol error: an empty command");
        return &c->reply;
    }
    c->r->current = c;
    bool asking = c->asking;
    process(c, argv, argc, &c->reply);
    c->asking = c->asking && !asking;
    if (c->r->owed.live) {
        fake__track_done(c);
    }
    c->r->current = NULL;
    return c->silent ? NULL : &c->reply;
}

const tl_reply *fake_conn_say(fake_conn *c, const char *line) {
    tl_bytes argv[WORDS_MAX];
    size_t argc = 0;
    for (line += strspn(line, " "); *line && argc < WORDS_MAX; line += strspn(line, " ")) {
        argv[argc++] = tl__bytes(line, strcspn(line, " "));
        line += argv[argc - 1].n;
    }
    return fake_conn_command(c, argv, argc);
}

void fake_redis_apply(fake_redis *r, int db, const tl_bytes *argv, size_t argc) {
    if (!r->applier) {
        r->applier = fake_redis_connect(r, NULL, NULL);
        r->applier->master = true;
    }
    r->applier->db = db;
    uint64_t total = r->total;
    fake_conn_command(r->applier, argv, argc);
    r->total = total;
}
