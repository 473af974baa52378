/*
 * The fake server: its life, knobs and connections, and what others may look at. It never reads a
 * clock.
 */
#include "fake_redis.h"

#include <stdio.h>
#include <stdlib.h>

#include "fake_inside.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void set_defaults(fake_redis *r) {
    r->now_us = r->now_ms = r->started_us = 0;
    r->level = FAKE_LEVEL(7, 0, 15);
    r->replica = r->oom = r->loading = r->engineless = false;
    free(r->password);
    r->password = NULL;
    r->replicas = 0;
    fake_redis_set_disks(r, false, false, 0);
    r->events = r->events_set = 0;
    r->cluster = false;
    r->slots = FAKE_SLOTS_HERE;
    fake_redis_on_slot(r, NULL, NULL);
    fake_redis_leave_keys(r, NULL);
    fake_redis_allow_keys(r, NULL);
    fake_redis_allow_channels(r, NULL);
    fake_redis_allow_undeclared(r, FAKE_UNDECLARED);
    r->denied_subs = 0;
    memset(r->denied, 0, sizeof(r->denied));
    memset(r->count, 0, sizeof(r->count));
    memset(r->calls, 0, sizeof(r->calls));
    r->total = r->dirty = r->unit = r->run_id = r->replid = 0;
    r->nameless = false;
    r->random = 0x1234abcd330e;
    r->last_id = 0;
    r->wrote = NULL;
    r->wrote_ctx = NULL;
}

static fake_redis *new_with(fake_lua *lua) {
    fake_redis *r = fake__alloc(NULL, sizeof(*r));
    memset(r, 0, sizeof(*r));
    r->lua = lua;
    fake__index_names(r->index);
    set_defaults(r);
    return r;
}

fake_redis *fake_redis_new(void) {
    return new_with(fake__lua_new());
}

fake_redis *fake_redis_beside(const fake_redis *peer) {
    return new_with(fake__lua_share(peer->lua));
}

fake_redis *fake_redis_clone(const fake_redis *from) {
    fake_redis *r = fake_redis_beside(from);
    fake__copy_data(r, from);
    r->now_us = from->now_us;
    r->now_ms = from->now_ms;
    r->started_us = from->started_us;
    r->level = from->level;
    r->replica = from->replica;
    r->oom = from->oom;
    r->loading = from->loading;
    r->engineless = from->engineless;
    r->replicas = from->replicas;
    fake_redis_set_disks(r, from->appends, from->synced, from->replicas_synced);
    r->random = from->random;
    r->events = from->events;
    r->events_set = from->events_set;
    memcpy(r->denied, from->denied, sizeof(r->denied));
    fake_redis_set_password(r, from->password);
    r->cluster = from->cluster;
    fake_redis_move_slots(r, from->first_slot, from->last_slot, from->slots, from->slots_to);
    fake_redis_on_slot(r, from->where, from->where_ctx);
    fake_redis_leave_keys(r, from->keys_left);
    fake_redis_allow_keys(r, from->keys_allowed);
    fake_redis_allow_channels(r, from->channels_allowed);
    fake_redis_allow_undeclared(r, from->undeclared);
    r->denied_subs = from->denied_subs;
    return r;
}

void fake_redis_copy(fake_redis *to, const fake_redis *from) {
    if (to->lua != from->lua) {
        fake__lua_free(to->lua);
        to->lua = fake__lua_share(from->lua);
    }
    fake__copy_data(to, from);
    fake__track_flushed(to);
}

static void clear_data(fake_redis *r) {
    for (int db = 0; db < FAKE_DATABASES; db++) {
        if (r->db[db].used) {
            fake__clear(r, db);
        }
    }
}

void fake_redis_restart(fake_redis *r, bool keep_data) {
    r->last_id = 0;
    memset(r->calls, 0, sizeof(r->calls));
    r->events = r->events_set;
    for (fake_conn *c = r->conns; c; c = c->next) {
        fake__unsubscribe_all(c, false);
        fake__forget_transaction(c);
        fake__track_forget(c);
        fake__monitor_forget(c);
        c->tracking = c->noloop = false;
        c->redirect = 0;
        c->asking = false;
        c->id = ++r->last_id;
        c->authed = !r->password;
        c->db = 0;
        c->name.n = 0;
    }
    fake__dict_free(&r->scripts);
    if (!keep_data) {
        clear_data(r);
    }
}

void fake_redis_reset(fake_redis *r) {
    for (fake_conn *c = r->conns, *next; c; c = next) {
        next = c->next;
        fake_conn_close(c);
    }
    r->applier = NULL;
    fake__dict_free(&r->scripts);
    clear_data(r);
    set_defaults(r);
}

void fake_redis_free(fake_redis *r) {
    if (r) {
        fake_redis_reset(r);
        for (int db = 0; db < FAKE_DATABASES; db++) {
            fake__dict_free(&r->db[db]);
        }
        fake__lua_free(r->lua);
        free(r->subscribers);
        free(r);
    }
}

/* ---- knobs ----------------------------------------------------------------------------------- */

void fake_redis_set_time(fake_redis *r, int64_t us) {
    r->now_us = us;
    r->now_ms = us / 1000;
}

int64_t fake_redis_time(const fake_redis *r) {
    return r->now_us;
}

void fake_redis_on_write(fake_redis *r, fake_wrote wrote, void *ctx) {
    r->wrote = wrote;
    r->wrote_ctx = ctx;
}

void fake_redis_set_level(fake_redis *r, uint32_t level) {
    r->level = level;
}

/* "client|tracking" */
static void deny_subcommand(fake_redis *r, tl_bytes name, fake_denial denial) {
    char full[64];
    for (const fake_sub *sub = fake__subs; sub->name; sub++) {
        for (size_t i = 0; i < fake__row_count; i++) {
            snprintf(full, sizeof(full), "%s|%s", fake__rows[i].name, sub->name);
            if (fake__rows[i].run == sub->parent && fake__is(name, full)) {
                uint32_t bit = 1u << (sub - fake__subs);
                r->denied_subs = denial == FAKE_NOPERM ? r->denied_subs | bit
                                                       : r->denied_subs & ~bit;
            }
        }
    }
}

void fake_redis_deny(fake_redis *r, const char *names, fake_denial denial) {
    while (*names) {
        size_t n = strcspn(names, " ");
        for (size_t i = 0; i < fake__row_count; i++) {
            if (fake__is(tl__bytes(names, n), fake__rows[i].name)) {
                r->denied[i] = (uint8_t)denial;
            }
        }
        deny_subcommand(r, tl__bytes(names, n), denial);
        names += n + strspn(names + n, " ");
    }
}

void fake_redis_set_engineless(fake_redis *r, bool engineless) {
    r->engineless = engineless;
    if (engineless) {
        fake__dict_free(&r->scripts);
    }
}

void fake_redis_set_replica(fake_redis *r, bool replica) {
    r->replica = replica;
}

void fake_redis_set_oom(fake_redis *r, bool oom) {
    r->oom = oom;
}

void fake_redis_set_loading(fake_redis *r, bool loading) {
    r->loading = loading;
}

void fake_redis_set_password(fake_redis *r, const char *password) {
    free(r->password);
    r->password = NULL;
    if (password) {
        size_t size = strlen(password) + 1;
        r->password = memcpy(fake__alloc(NULL, size), password, size);
    }
}

void fake_redis_set_replicas(fake_redis *r, int replicas) {
    r->replicas = replicas;
}

void fake_redis_set_disks(fake_redis *r, bool appends, bool synced, int replicas) {
    r->appends = appends;
    r->synced = synced;
    r->replicas_synced = replicas;
}

void fake_redis_set_started(fake_redis *r, int64_t us) {
    r->started_us = us;
}

void fake_redis_set_replid(fake_redis *r, uint64_t id) {
    r->replid = id;
}

void fake_redis_set_nameless(fake_redis *r, bool nameless) {
    r->nameless = nameless;
}

void fake_redis_set_run_id(fake_redis *r, uint64_t id) {
    r->run_id = id;
}

/* ---- connections ----------------------------------------------------------------------------- */

fake_conn *fake_redis_connect(fake_redis *r, const fake_calls *calls, void *ctx) {
    fake_conn *c = fake__alloc(NULL, sizeof(*c));
    memset(c, 0, sizeof(*c));
    c->r = r;
    c->ctx = ctx;
    if (calls) {
        c->calls = *calls;
    }
    c->id = ++r->last_id;
    snprintf(c->address, sizeof(c->address), "127.0.0.1:%lld", (long long)(10000 + c->id % 50000));
    c->since_us = r->now_us;
    c->authed = !r->password;
    c->next = r->conns;
    if (c->next) {
        c->next->prev = c;
    }
    r->conns = c;
    return c;
}

void fake_conn_close(fake_conn *c) {
    if (!c) {
        return;
    }
    fake__unsubscribe_all(c, false);
    fake__forget_transaction(c);
    fake__track_forget(c);
    fake__monitor_forget(c);
    fake__dict_free(&c->channels);
    if (c->next) {
        c->next->prev = c->prev;
    }
    if (c->r->conns == c) {
        c->r->conns = c->next;
    } else {
        c->prev->next = c->next;
    }
    fake__arena_free(&c->arena);
    fake__arena_free(&c->kept);
    free(c->watch);
    free(c->queue);
    free(c->name.p);
    free(c);
}

fake_conn *fake__conn_of(const fake_redis *r, int64_t id) {
    fake_conn *c = r->conns;
    while (c && (c->id != id || c->master || c->killed)) {
        c = c->next;
    }
    return c;
}

void fake_conn_trust(fake_conn *c) {
    c->master = true;
}

bool fake_conn_closing(const fake_conn *c) {
    return c->closing;
}

bool fake_conn_killed(const fake_conn *c) {
    return c->killed;
}

/* ---- looking inside -------------------------------------------------------------------------- */

uint64_t fake_redis_count(const fake_redis *r, const char *name) {
    for (size_t i = 0; name && i < fake__row_count; i++) {
        if (fake__is(tl__bytes_of(name), fake__rows[i].name)) {
            return r->count[i];
        }
    }
    return name ? 0 : r->total;
}

bool fake_redis_peek(const fake_redis *r, int db, tl_bytes key, tl_bytes *ret) {
    const fake_object *object = fake__look(r, db, key);
    if (!object || object->type != FAKE_STRING) {
        return false;
    }
    *ret = fake__text(&object->text);
    return true;
}

int64_t fake_redis_peek_expiry(const fake_redis *r, int db, tl_bytes key) {
    const fake_object *object = fake__look(r, db, key);
    return !object ? -2 : object->expire_ms == FAKE_NEVER ? -1 : object->expire_ms;
}

bool fake_redis_peek_field(const fake_redis *r, int db, tl_bytes key, tl_bytes field,
                           tl_bytes *ret) {
    const fake_object *object = fake__look(r, db, key);
    const fake_entry *entry = object && object->type == FAKE_HASH
                                  ? fake__dict_find(&object->dict, field)
                                  : NULL;
    if (entry) {
        *ret = fake__text(&entry->v.text);
    }
    return entry;
}

void fake_redis_each_key(const fake_redis *r, int db, void (*visit)(void *ctx, tl_bytes key),
                         void *ctx) {
    uint32_t i = 0;
    const fake_entry *entry;
    while ((entry = fake__dict_next(&r->db[db], &i))) {
        if (fake__look(r, db, fake__key(entry))) {
            visit(ctx, fake__key(entry));
        }
    }
}
