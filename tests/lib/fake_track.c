/*
 * Telling who has read a key that it has changed: CLIENT TRACKING as a client that speaks RESP2 can use
 * it, by way of another connection. A key is told of once, and by its name alone, whatever database it
 * is in; whoever turns it off and on again is still told of what it had read before.
 */
#include "fake_inside.h"

/* ---- telling --------------------------------------------------------------------------------- */

/* The other connection hears it when it subscribes to anything at all. key NULL: all have changed. */
static void tell(fake_conn *c, const tl_bytes *key) {
    tl_reply item = {.type = TL_REPLY_STRING};
    tl_reply payload = {.type = TL_REPLY_NIL};
    fake_conn *to = fake__conn_of(c->r, c->redirect);
    if (!to || !to->channels.live) {
        return;
    }
    if (key) {
        item.text = *key;
        payload = (tl_reply){.type = TL_REPLY_ARRAY, .items = &item, .count = 1};
    }
    fake__push(to, TL_LITERAL("message"), TL_LITERAL("__redis__:invalidate"), &payload);
}

/* Whoever is at work is told once it is done. */
static void tell_or_owe(fake_conn *c, const tl_bytes *key) {
    fake_redis *r = c->r;
    if (c != r->current) {
        tell(c, key);
        return;
    }
    uint32_t number = r->owed.live;
    fake_entry *entry = fake__dict_add(&r->owed, tl__bytes((char *)&number, sizeof(number)), NULL);
    if (key) {
        fake__text_set(&entry->v.text, *key);
    }
}

void fake__track_done(fake_conn *c) {
    uint32_t i = 0;
    const fake_entry *entry;
    while ((entry = fake__dict_next(&c->r->owed, &i))) {
        tl_bytes key = fake__text(&entry->v.text);
        tell(c, key.p ? &key : NULL);
    }
    fake__hash_clear(&c->r->owed);
}

/* ---- reading and changing -------------------------------------------------------------------- */

void fake__track_read(fake_conn *c, const fake_row *row, const tl_bytes *argv, size_t argc) {
    const tl_bytes *keys;
    size_t n = fake__keys_of(row, argv, argc, &keys);
    for (size_t i = 0; i < n; i++) {
        bool added;
        fake__dict_add(&c->tracked, keys[i], &added);
        c->r->tracked += added;
    }
}

void fake__track_changed(fake_redis *r, tl_bytes key) {
    for (fake_conn *c = r->conns; c; c = c->next) {
        fake_entry *entry = c->tracked.live ? fake__dict_find(&c->tracked, key) : NULL;
        if (!entry) {
            continue;
        }
        fake__dict_remove(&c->tracked, entry);
        r->tracked--;
        if (c->tracking && !(c->noloop && c == r->current)) {
            tell_or_owe(c, &key);
        }
    }
}

void fake__track_flushed(fake_redis *r) {
    for (fake_conn *c = r->conns; c; c = c->next) {
        fake__track_forget(c);
        if (c->tracking) {
            tell_or_owe(c, NULL);
        }
    }
}

void fake__track_forget(fake_conn *c) {
    c->r->tracked -= c->tracked.live;
    fake__dict_free(&c->tracked);
}

/* ---- asking for it --------------------------------------------------------------------------- */

typedef struct {
    bool noloop, other;
    int64_t redirect;
} options;

static bool parse(const fake_conn *c, const tl_bytes *argv, size_t argc, options *o,
                  tl_reply *out) {
    for (size_t i = 3; i < argc; i++) {
        if (fake__is(argv[i], "noloop")) {
            o->noloop = true;
        } else if (fake__is(argv[i], "bcast") || fake__is(argv[i], "optin") ||
                   fake__is(argv[i], "optout")) {
            o->other = true;
        } else if (fake__is(argv[i], "prefix") && i + 1 < argc) {
            o->other = true;
            i++;
        } else if (!fake__is(argv[i], "redirect") || i + 1 == argc) {
            fake__syntax(out);
            return false;
        } else if (o->redirect) {
            fake__error(out, "ERR A client can only redirect to a single other client");
            return false;
        } else if (!fake__to_int(argv[++i], &o->redirect)) {
            fake__not_an_integer(out);
            return false;
        } else if (!fake__conn_of(c->r, o->redirect)) {
            fake__error(out, "ERR The client ID you want redirect to does not exist");
            return false;
        }
    }
    return true;
}

void fake__track(fake_conn *c, const tl_bytes *argv, size_t argc, tl_reply *out) {
    options o = {0};
    bool on = fake__is(argv[2], "on");
    if (!parse(c, argv, argc, &o, out)) {
        return;
    }
    if (!on && !fake__is(argv[2], "off")) {
        fake__syntax(out);
    } else if (on && o.other) {
        fake__error(out, "ERR the fake server knows neither BCAST nor PREFIX, OPTIN, OPTOUT");
    } else {
        c->tracking = on;
        c->noloop = on && o.noloop;
        c->redirect = on ? o.redirect : 0;
        fake__ok(out);
    }
}
