/*
 * The fake server's commands on strings.
 */
#include "fake_inside.h"

/* The key's value if it is a string; false: out is the error. *ret is NULL when it is absent. */
static bool string_at(fake_conn *c, tl_bytes key, bool to_write, fake_object **ret, tl_reply *out) {
    *ret = to_write ? fake__find_write(c->r, c->db, key) : fake__find(c->r, c->db, key);
    if (*ret && (*ret)->type != FAKE_STRING) {
        fake__wrong_type(out);
        return false;
    }
    return true;
}

FAKE_COMMAND(get) {
    fake_object *object;
    if (!string_at(c, argv[1], false, &object, out)) {
        return;
    }
    if (object) {
        fake__string(c, out, fake__text(&object->text));
    } else {
        fake__nil(out);
    }
}

FAKE_COMMAND(mget) {
    tl_reply *items = fake__array(c, out, argc - 1);
    for (size_t i = 1; i < argc; i++) {
        fake_object *object = fake__find(c->r, c->db, argv[i]);
        if (object && object->type == FAKE_STRING) {
            fake__string(c, &items[i - 1], fake__text(&object->text));
        }
    }
}

FAKE_COMMAND(strlen) {
    fake_object *object;
    if (string_at(c, argv[1], false, &object, out)) {
        fake__int(out, object ? (int64_t)object->text.n : 0);
    }
}

static fake_object *put(fake_conn *c, tl_bytes key, tl_bytes value) {
    fake_object *object = fake__put(c->r, c->db, key, FAKE_STRING);
    fake__text_set(&object->text, value);
    fake__touched(c->r, c->db, key);
    fake__event(c->r, FAKE_ON_STRING, "set", c->db, key);
    return object;
}

typedef struct {
    bool nx, xx, get, keep_ttl, has_ttl, seconds, absolute;
    tl_bytes ttl;
} set_options;

static bool ttl_option(const fake_redis *r, tl_bytes word, set_options *o) {
    bool new = r->level >= FAKE_LEVEL(6, 2, 0);
    o->absolute = new && (fake__is(word, "exat") || fake__is(word, "pxat"));
    o->seconds = fake__is(word, "ex") || (new &&fake__is(word, "exat"));
    return o->absolute || o->seconds || fake__is(word, "px");
}

static bool set_parse(const fake_redis *r, const tl_bytes *argv, size_t argc, set_options *o) {
    for (size_t i = 3; i < argc; i++) {
        if (fake__is(argv[i], "nx") && !o->xx) {
            o->nx = true;
        } else if (fake__is(argv[i], "xx") && !o->nx) {
            o->xx = true;
        } else if (fake__is(argv[i], "get") && r->level >= FAKE_LEVEL(6, 2, 0)) {
            o->get = true;
        } else if (fake__is(argv[i], "keepttl") && !o->has_ttl && r->level >= FAKE_LEVEL(6, 0, 0)) {
            o->keep_ttl = true;
        } else if (!o->keep_ttl && !o->has_ttl && i + 1 < argc && ttl_option(r, argv[i], o)) {
            o->has_ttl = true;
            o->ttl = argv[++i];
        } else {
            return false;
        }
    }
    return !(o->nx && o->get && r->level < FAKE_LEVEL(7, 0, 0));
}

/* The instant that a lifetime means, as SET and SETEX check it. */
static bool to_expiry(fake_conn *c, const set_options *o, const char *name, int64_t *ret,
                      tl_reply *out) {
    int64_t v;
    if (!fake__to_int(o->ttl, &v)) {
        fake__not_an_integer(out);
        return false;
    }
    int64_t base = o->absolute ? 0 : c->r->now_ms;
    if (v <= 0 || (o->seconds && v > INT64_MAX / 1000) ||
        (o->seconds ? v * 1000 : v) > INT64_MAX - base) {
        if (c->r->level >= FAKE_LEVEL(7, 0, 0)) {
            fake__errorf(c, out, "ERR invalid expire time in '%s' command", name);
        } else {
            fake__errorf(c, out, "ERR invalid expire time in %s", name);
        }
        return false;
    }
    *ret = (o->seconds ? v * 1000 : v) + base;
    return true;
}

FAKE_COMMAND(set) {
    set_options o = {0};
    int64_t expire_ms = FAKE_NEVER;
    if (argc > 3 && !set_parse(c->r, argv, argc, &o)) {
        fake__syntax(out);
        return;
    }
    if (o.has_ttl && !to_expiry(c, &o, "set", &expire_ms, out)) {
        return;
    }
    fake__ok(out);
    if (o.get) {
        fake__missed(c, argv[1]);
        fake__get(c, argv, argc, out);
        if (out->type == TL_REPLY_ERROR) {
            return;
        }
    }
    const fake_object *old = fake__find(c->r, c->db, argv[1]);
    if (old ? o.nx : o.xx) {
        if (!o.get) {
            fake__nil(out);
        }
        return;
    }
    if (old && o.keep_ttl) {
        expire_ms = old->expire_ms;
    }
    put(c, argv[1], argv[2])->expire_ms = expire_ms;
    if (o.has_ttl) {
        fake__event(c->r, FAKE_ON_GENERIC, "expire", c->db, argv[1]);
    }
}

static void set_expiring(fake_conn *c, const tl_bytes *argv, bool seconds, const char *name,
                         tl_reply *out) {
    set_options o = {.seconds = seconds, .ttl = argv[2]};
    int64_t expire_ms;
    if (to_expiry(c, &o, name, &expire_ms, out)) {
        put(c, argv[1], argv[3])->expire_ms = expire_ms;
        fake__event(c->r, FAKE_ON_GENERIC, "expire", c->db, argv[1]);
        fake__ok(out);
    }
}

FAKE_COMMAND(setex) {
    set_expiring(c, argv, true, "setex", out);
}

FAKE_COMMAND(psetex) {
    set_expiring(c, argv, false, "psetex", out);
}

FAKE_COMMAND(setnx) {
    bool there = fake__find_write(c->r, c->db, argv[1]);
    if (!there) {
        put(c, argv[1], argv[2]);
    }
    fake__int(out, !there);
}

FAKE_COMMAND(getset) {
    fake__missed(c, argv[1]);
    fake__get(c, argv, argc, out);
    if (out->type != TL_REPLY_ERROR) {
        put(c, argv[1], argv[2]);
    }
}

/* INCR, DECR and INCRBY. */
FAKE_COMMAND(incr) {
    fake_object *object;
    int64_t v = 0, by = fake__is(argv[0], "decr") ? -1 : 1;
    char text[TL_INT_SIZE];
    if (argc == 3 && !fake__to_int(argv[2], &by)) {
        fake__not_an_integer(out);
        return;
    }
    if (!string_at(c, argv[1], true, &object, out)) {
        return;
    }
    if (object && !fake__to_int(fake__text(&object->text), &v)) {
        fake__not_an_integer(out);
        return;
    }
    if (__builtin_add_overflow(v, by, &v)) {
        fake__error(out, "ERR increment or decrement would overflow");
        return;
    }
    if (!object) {
        object = fake__put(c->r, c->db, argv[1], FAKE_STRING);
    }
    fake__text_set(&object->text, fake__print_int(text, v));
    fake__touched(c->r, c->db, argv[1]);
    fake__event(c->r, FAKE_ON_STRING, "incrby", c->db, argv[1]);
    fake__int(out, v);
}
