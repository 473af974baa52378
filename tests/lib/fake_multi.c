/*
 * The fake server's transactions: MULTI, EXEC, DISCARD, and the keys that WATCH guards.
 */
#include "fake_inside.h"

void fake__unwatch(fake_conn *c) {
    c->r->watchers -= c->watch_count;
    c->watch_count = 0;
    c->raced = false;
    if (!c->queue_count) {
        fake__arena_reset(&c->kept);
    }
}

void fake__forget_transaction(fake_conn *c) {
    c->queue_count = 0;
    c->queued_flags = 0;
    c->multi = c->abort = false;
    fake__unwatch(c);
}

FAKE_COMMAND(multi) {
    if (c->multi) {
        fake__error(out, "ERR MULTI calls can not be nested");
        return;
    }
    c->multi = true;
    fake__ok(out);
}

FAKE_COMMAND(discard) {
    if (!c->multi) {
        fake__error(out, "ERR DISCARD without MULTI");
        return;
    }
    fake__forget_transaction(c);
    fake__ok(out);
}

/* A watched key that has expired since, and that nobody looked at, has been touched too. */
static bool raced(fake_conn *c) {
    for (size_t i = 0; i < c->watch_count && !c->raced; i++) {
        const fake_watch *watch = &c->watch[i];
        const fake_entry *entry = fake__dict_find(&c->r->db[watch->db], watch->key);
        bool expired = entry && !fake__look(c->r, watch->db, watch->key);
        c->raced = expired && !watch->was_expired && c->r->level >= FAKE_LEVEL(6, 0, 9);
    }
    return c->raced;
}

FAKE_COMMAND(exec) {
    if (!c->multi) {
        fake__error(out, "ERR EXEC without MULTI");
        return;
    }
    if (c->abort) {
        fake__forget_transaction(c);
        fake__error(out, "EXECABORT Transaction discarded because of previous errors.");
        return;
    }
    if (raced(c)) {
        fake__forget_transaction(c);
        fake__nil(out);
        return;
    }
    c->r->watchers -= c->watch_count;
    c->watch_count = 0;
    tl_reply *items = fake__array(c, out, c->queue_count);
    for (size_t i = 0; i < c->queue_count; i++) {
        const fake_queued *q = &c->queue[i];
        if (c->master ||
            fake__acl_still_allows(c, &(fake_said){q->row, q->argv, q->argc}, &items[i])) {
            fake__call(c, q->row, q->argv, q->argc, &items[i]);
        }
    }
    fake__forget_transaction(c);
}

FAKE_COMMAND(watch) {
    if (c->multi) {
        fake__error(out, "ERR WATCH inside MULTI is not allowed");
        return;
    }
    for (size_t i = 1; i < argc; i++) {
        if (c->watch_count == c->watch_room) {
            c->watch_room = c->watch_room ? c->watch_room * 2 : 4;
            c->watch = fake__alloc(c->watch, c->watch_room * sizeof(*c->watch));
        }
        bool there = fake__dict_find(&c->r->db[c->db], argv[i]);
        c->watch[c->watch_count++] = (fake_watch){.key = fake__arena_copy(&c->kept, argv[i]),
                                                  .db = c->db,
                                                  .was_expired = there &&
                                                                 !fake__look(c->r, c->db, argv[i])};
        c->r->watchers++;
    }
    fake__ok(out);
}

FAKE_COMMAND(unwatch_command) {
    fake__unwatch(c);
    fake__ok(out);
}
