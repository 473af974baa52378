/*
 * The fake server's commands on keys of any type, their lifetimes, and whole databases.
 */
#include "fake_inside.h"

FAKE_COMMAND(del) {
    int64_t n = 0;
    for (size_t i = 1; i < argc; i++) {
        n += fake__remove(c->r, c->db, argv[i]);
    }
    fake__int(out, n);
}

FAKE_COMMAND(exists) {
    int64_t n = 0;
    if (argc > 2 && c->r->level < FAKE_LEVEL(3, 0, 3)) {
        fake__arity(c, out, "exists");
        return;
    }
    for (size_t i = 1; i < argc; i++) {
        n += fake__find(c->r, c->db, argv[i]) != NULL;
    }
    fake__int(out, n);
}

const char *fake__type_name(const fake_object *object) {
    static const char *const names[] = {"string", "hash", "set", "zset", "list"};
    return object ? names[object->type] : "none";
}

FAKE_COMMAND(type) {
    const fake_object *object = fake__find(c->r, c->db, argv[1]);
    fake__static(out, TL_REPLY_STATUS, tl__bytes_of(fake__type_name(object)));
}

/* TTL, PTTL, EXPIRETIME and PEXPIRETIME. */
FAKE_COMMAND(ttl) {
    bool ms = argv[0].p[0] == 'p' || argv[0].p[0] == 'P';
    bool absolute = argv[0].n > 4;
    const fake_object *object = fake__find(c->r, c->db, argv[1]);
    if (!object || object->expire_ms == FAKE_NEVER) {
        fake__int(out, object || c->r->level < FAKE_LEVEL(2, 8, 0) ? -1 : -2);
        return;
    }
    int64_t v = absolute ? object->expire_ms : object->expire_ms - c->r->now_ms;
    v = v < 0 ? 0 : v;
    fake__int(out, ms ? v : v / 1000 + (v % 1000 >= 500));
}

typedef struct {
    bool nx, xx, gt, lt;
} expire_options;

static bool expire_parse(fake_conn *c, const tl_bytes *argv, size_t argc, expire_options *o,
                         tl_reply *out) {
    for (size_t i = 3; i < argc; i++) {
        if (fake__is(argv[i], "nx")) {
            o->nx = true;
        } else if (fake__is(argv[i], "xx")) {
            o->xx = true;
        } else if (fake__is(argv[i], "gt")) {
            o->gt = true;
        } else if (fake__is(argv[i], "lt")) {
            o->lt = true;
        } else {
            fake__errorf(c, out, "ERR Unsupported option %.*s", (int)argv[i].n, argv[i].p);
            return false;
        }
    }
    if (o->nx && (o->xx || o->gt || o->lt)) {
        fake__error(out, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (o->gt && o->lt) {
        fake__error(out, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

static const char *lower(tl_bytes name) {
    static const char *const names[] = {"expire", "pexpire", "expireat", "pexpireat"};
    size_t i = 0;
    while (i < 3 && !fake__is(name, names[i])) {
        i++;
    }
    return names[i];
}

/* The instant that is meant; negative ones are allowed, and delete. */
static bool expire_when(fake_conn *c, const tl_bytes *argv, int64_t *ret, tl_reply *out) {
    const char *name = lower(argv[0]);
    int64_t base = name[strlen(name) - 1] == 't' ? 0 : c->r->now_ms;
    int64_t v;
    if (!fake__to_int(argv[2], &v)) {
        fake__not_an_integer(out);
        return false;
    }
    if (name[0] != 'p') {
        if (__builtin_mul_overflow(v, 1000, &v)) {
            goto invalid;
        }
    }
    if (v > 0 && v > INT64_MAX - base) {
        goto invalid;
    }
    *ret = v + base;
    return true;
invalid:
    fake__errorf(c, out, "ERR invalid expire time in '%s' command", name);
    return false;
}

static bool expire_wanted(const expire_options *o, int64_t old, int64_t when) {
    if (o->nx) {
        return old == FAKE_NEVER;
    }
    return !(o->xx && old == FAKE_NEVER) && !(o->gt && (old == FAKE_NEVER || when <= old)) &&
           !(o->lt && old != FAKE_NEVER && when >= old);
}

/* EXPIRE, PEXPIRE, EXPIREAT and PEXPIREAT. */
FAKE_COMMAND(expire) {
    expire_options o = {0};
    int64_t when;
    if (argc > 3 && c->r->level < FAKE_LEVEL(7, 0, 0)) {
        fake__arity(c, out, lower(argv[0]));
        return;
    }
    if (!expire_parse(c, argv, argc, &o, out) || !expire_when(c, argv, &when, out)) {
        return;
    }
    fake_object *object = fake__find(c->r, c->db, argv[1]);
    bool old_rule = c->r->level < FAKE_LEVEL(2, 2, 0) && object && object->expire_ms != FAKE_NEVER;
    if (!object || old_rule || !expire_wanted(&o, object->expire_ms, when)) {
        fake__int(out, 0);
        return;
    }
    if (when <= c->r->now_ms && !c->r->replica) {
        fake__remove(c->r, c->db, argv[1]);
    } else {
        object->expire_ms = when;
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_GENERIC, "expire", c->db, argv[1]);
    }
    fake__int(out, 1);
}

FAKE_COMMAND(persist) {
    fake_object *object = fake__find(c->r, c->db, argv[1]);
    bool had = object && object->expire_ms != FAKE_NEVER;
    if (had) {
        object->expire_ms = FAKE_NEVER;
        fake__touched(c->r, c->db, argv[1]);
        fake__event(c->r, FAKE_ON_GENERIC, "persist", c->db, argv[1]);
    }
    fake__int(out, had);
}

/* ---- databases ------------------------------------------------------------------------------- */

/* FLUSHALL and FLUSHDB. */
FAKE_COMMAND(flush) {
    bool known = argc == 1 ||
                 (argc == 2 && (fake__is(argv[1], "async") || fake__is(argv[1], "sync")));
    if (!known) {
        fake__syntax(out);
        return;
    }
    bool all = fake__is(argv[0], "flushall");
    for (int db = all ? 0 : c->db; db < (all ? FAKE_DATABASES : c->db + 1); db++) {
        fake__clear(c->r, db);
    }
    fake__track_flushed(c->r);
    c->r->dirty++;
    fake__ok(out);
}

FAKE_COMMAND(dbsize) {
    fake__int(out, c->r->db[c->db].live);
}

FAKE_COMMAND(select) {
    int64_t db;
    if (!fake__to_int(argv[1], &db)) {
        fake__not_an_integer(out);
    } else if (db < INT32_MIN || db > INT32_MAX) {
        fake__error(out,
                    "ERR value is out of range, value must between -2147483648 and 2147483647");
    } else if (c->r->cluster && db != 0) {
        fake__error(out, "ERR SELECT is not allowed in cluster mode");
    } else if (db < 0 || db >= FAKE_DATABASES) {
        fake__error(out, "ERR DB index is out of range");
    } else {
        c->db = (int)db;
        fake__ok(out);
    }
}
