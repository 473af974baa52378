/*
 * A Redis Cluster: three masters, each with a replica. What each node knows of it, which may be old; slots that are moved key
 * by key, and left open; a replica that takes over, with all that its master has or with what has arrived, while that
 * one is dead, or goes on for a while; and who is cut off from whom.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world.h"

#define SLOTS 16384
#define PORT 6379
#define TEXT_SIZE 24
#define KEY_SIZE 80 /* room for the name of any key */
#define RANGES (SIM_SHARDS + 2 * SIM_KEYS)
#define NEWS_MS 200 /* as in src/client/cluster_ask.c */
#define PAIRS 20    /* of a key's content that are written at once */
#define CONTENT 64  /* keys of a slot, at most */

static const char *host_of(int server) {
    static char text[SIM_NODES][TEXT_SIZE];
    (void)snprintf(text[server], TEXT_SIZE, "10.0.0.%d", server + 1);
    return text[server];
}

static const char *place_of(int server) {
    static char text[SIM_NODES][TEXT_SIZE];
    (void)snprintf(text[server], TEXT_SIZE, "10.0.0.%d:%d", server + 1, PORT);
    return text[server];
}

/* ---- slots --------------------------------------------------------------------------------------- */

/* Slots that no lock is in stay where they are. */
static int shard_of_slot(unsigned slot) {
    return (int)(slot * SIM_SHARDS / SLOTS);
}

static int slot_at(const sim_world *w, unsigned number) {
    int i = 0;
    while (i < w->cluster.slots && w->cluster.slot[i].number != number)
        i++;
    return i;
}

static bool has(sim_world *w, int server, tl_bytes key) {
    sim_server_set(w, server);
    return fake_redis_peek_expiry(w->server[server].r, 0, key) != -2;
}

/* Of an open slot: does its owner send those to the other node who ask for this key? */
static bool sends_there(sim_world *w, const sim_slot *s, tl_bytes key) {
    int owner = w->shard[s->owner].master;
    return w->cluster.view[owner].exports[s - w->cluster.slot] == s->to && !has(w, owner, key);
}

/* NULL: it is none of these. */
static bool *late_beside(sim_world *w, tl_bytes key) {
    for (int i = 0; i < w->cfg.keys; i++) {
        sim_key *k = &w->key[i];
        const tl_bytes beside[] = {k->s, k->l, k->f};
        for (size_t n = 0; n < sizeof beside / sizeof *beside; n++)
            if (tl__bytes_eq(beside[n], key))
                return &k->late_beside[n];
    }
    return NULL;
}

/* Is it there by a request that came late? */
static bool came_late(sim_world *w, int to, tl_bytes key) {
    int i = sim_key_named(w, key);
    const bool *beside = i < 0 ? late_beside(w, key) : NULL;
    tl_bytes value = {0};
    if (i < 0)
        return beside && *beside;
    if (w->key[i].late == 0)
        return false;
    sim_server_set(w, to);
    (void)fake_redis_peek(w->server[to].r, 0, key, &value);
    return sim_token_number(w, value) == w->key[i].late;
}

int sim_home_of(sim_world *w, tl_bytes key) {
    if (!w->cfg.fleet)
        return w->shard[0].master;
    unsigned number = fake_redis_slot(key);
    int i = slot_at(w, number);
    if (i == w->cluster.slots)
        return w->shard[shard_of_slot(number)].master;
    const sim_slot *s = &w->cluster.slot[i];
    int from = w->shard[s->owner].master,
        to = s->to == SIM_SLOT_NOBODY ? -1 : w->shard[s->to].master;
    /* What came late may be the token's where the slot is, too, by now. */
    bool late = to >= 0 && (came_late(w, to, key) || (w->whole && has(w, from, key)));
    bool there = to >= 0 && has(w, to, key) && (!late || sends_there(w, s, key));
    return there ? to : from;
}

bool sim_cluster_is_late(sim_world *w, int server, tl_bytes key) {
    int i = slot_at(w, fake_redis_slot(key));
    const sim_slot *s = &w->cluster.slot[i];
    return i < w->cluster.slots && s->to != SIM_SLOT_NOBODY && w->shard[s->to].master == server &&
           !sends_there(w, s, key);
}

void sim_cluster_came_late(sim_world *w, tl_bytes key) {
    bool *beside = late_beside(w, key);
    if (beside)
        *beside = true;
}

/* Wherever the slot is now: what is there is the lock's. */
static void counts(sim_world *w, tl_bytes key) {
    bool *beside = late_beside(w, key);
    if (beside)
        *beside = false;
}

bool sim_cluster_late_stays(sim_world *w, int key) {
    int i = slot_at(w, fake_redis_slot(w->key[key].k));
    const sim_slot *s = &w->cluster.slot[i];
    return i < w->cluster.slots && s->to != SIM_SLOT_NOBODY &&
           came_late(w, w->shard[s->to].master, w->key[key].k);
}

bool sim_cluster_late_counts(sim_world *w, int key) {
    const sim_key *k = &w->key[key];
    if (k->late == 0 || sim_token_number(w, sim_key_value(w, key)) != k->late)
        return false;
    int i = slot_at(w, fake_redis_slot(k->k)), to = SIM_SLOT_NOBODY;
    if (i < w->cluster.slots)
        to = w->cluster.slot[i].to;
    return to == SIM_SLOT_NOBODY || sim_home_of(w, k->k) == w->shard[to].master;
}

/* ---- what a node says ---------------------------------------------------------------------------- */

bool sim_cluster_is_well(const sim_world *w, int server) {
    return w->server[server].up && w->server[server].busy_until <= w->now &&
           !w->cluster.parted[server];
}

bool sim_cluster_serves(sim_world *w, int server, tl_bytes key) {
    const sim_view *v = &w->cluster.view[server];
    unsigned number = key.n > 0 ? fake_redis_slot(key) : 0;
    int i = slot_at(w, number), mine = sim_shard_of(w, server);
    int owner = i < w->cluster.slots ? v->owner[i] : shard_of_slot(number);
    return key.n == 0 || (owner == mine && v->master[mine] == server && !v->down);
}

/* By what it knows. */
static fake_slots where(void *ctx, unsigned number, const char **ret_to) {
    sim_world *w = sim_the_world;
    int server = (int)((sim_server *)ctx - w->server), mine = sim_shard_of(w, server);
    const sim_view *v = &w->cluster.view[server];
    int i = slot_at(w, number);
    bool moves = i < w->cluster.slots, master = v->master[mine] == server;
    int owner = moves ? v->owner[i] : shard_of_slot(number);
    *ret_to = place_of(v->master[owner]);
    if (v->down)
        return FAKE_SLOTS_NOWHERE;
    if (owner != mine || !master)
        return master && moves && v->imports[i] ? FAKE_SLOTS_IMPORTING : FAKE_SLOTS_MOVED;
    if (!moves || v->exports[i] == SIM_SLOT_NOBODY)
        return FAKE_SLOTS_HERE;
    *ret_to = place_of(v->master[v->exports[i]]);
    return FAKE_SLOTS_MIGRATING;
}

static tl_reply number_of(int64_t n) {
    tl_reply r = {.type = TL_REPLY_INT};
    r.integer = n;
    return r;
}

static tl_reply array_of(const tl_reply *items, size_t n) {
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = (tl_reply *)(uintptr_t)items, .count = n};
}

typedef struct {
    tl_reply range[RANGES], item[RANGES][4], node[RANGES][2][2];
    size_t n;
} map;

static void add_node(map *m, int at, int server) {
    tl_reply *node = m->node[m->n][at];
    node[0] = (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(host_of(server))};
    node[1] = number_of(PORT);
    m->item[m->n][2 + at] = array_of(node, 2);
}

static void add_range(map *m, const sim_view *v, unsigned first, unsigned last, int shard) {
    int master = v->master[shard];
    if (first > last)
        return;
    m->item[m->n][0] = number_of(first);
    m->item[m->n][1] = number_of(last);
    add_node(m, 0, master);
    add_node(m, 1, (master + SIM_SHARDS) % (2 * SIM_SHARDS));
    m->range[m->n] = array_of(m->item[m->n], 4);
    m->n++;
}

/* The next slot of a lock from there on; SLOTS: there is none. */
static unsigned next_slot(const sim_world *w, unsigned from, int *ret) {
    unsigned next = SLOTS;
    for (int i = 0; i < w->cluster.slots; i++)
        if (w->cluster.slot[i].number >= from && w->cluster.slot[i].number < next) {
            next = w->cluster.slot[i].number;
            *ret = i;
        }
    return next;
}

static const tl_reply *say_config(const sim_view *v) {
    static char text[2 * TEXT_SIZE];
    static tl_reply r = {.type = TL_REPLY_STRING};
    (void)snprintf(text, sizeof text, "cluster_my_epoch:%u\r\n", (unsigned)v->config);
    r.text = tl__bytes_of(text);
    return &r;
}

const tl_reply *sim_cluster_say(sim_world *w, int server, tl_bytes what) {
    static map m;
    static tl_reply all;
    const sim_view *v = &w->cluster.view[server];
    if (w->cfg.atomic && tl__bytes_eq(what, TL_LITERAL("INFO")))
        return say_config(v);
    m.n = 0;
    w->stats.maps++;
    for (unsigned first = 0; first < SLOTS;) {
        int shard = shard_of_slot(first), i = 0;
        unsigned end = first, next = next_slot(w, first, &i);
        while (end < SLOTS && end < next && shard_of_slot(end) == shard)
            end++;
        if (end > first)
            add_range(&m, v, first, end - 1, shard);
        if (end == next && next < SLOTS)
            add_range(&m, v, next, next, v->owner[i]);
        first = end == next ? end + 1 : end;
    }
    all = array_of(m.range, m.n);
    return &all;
}

typedef struct {
    unsigned slot;
    int server;
    int64_t n, wanted;
    tl_bytes key;
} search;

static void count_keys(void *ctx, tl_bytes key) {
    search *s = ctx;
    s->n += fake_redis_slot(key) == s->slot && !came_late(sim_the_world, s->server, key);
}

/* Keys of the slot that the node has but for those that came late. */
static int64_t count_there(sim_world *w, int to, unsigned number) {
    search there = {.slot = number, .server = to};
    sim_server_set(w, to);
    fake_redis_each_key(w->server[to].r, 0, count_keys, &there);
    return there.n;
}

static bool is_late_there(sim_world *w, const sim_slot *s) {
    bool late = false;
    for (int i = 0; i < w->cfg.keys; i++)
        late = late || (fake_redis_slot(w->key[i].k) == s->number &&
                        has(w, w->shard[s->to].master, w->key[i].k) &&
                        sim_home_of(w, w->key[i].k) != w->shard[s->to].master);
    return late;
}

/* Who has taken over as its owner, and doesn't know that it is open, may only until the other has any of its keys. */
static bool may_serve(sim_world *w, int server, unsigned number) {
    int i = slot_at(w, number), shard = sim_shard_of(w, server);
    const sim_slot *s = &w->cluster.slot[i];
    if (i == w->cluster.slots)
        return shard == shard_of_slot(number);
    if (shard != s->owner || s->to == SIM_SLOT_NOBODY ||
        w->cluster.view[server].exports[i] != SIM_SLOT_NOBODY)
        return shard == s->owner || shard == s->to;
    return count_there(w, w->shard[s->to].master, number) == 0 || is_late_there(w, s);
}

/* It has the key as well as the other: it has written it when it didn't know that it had moved, or has taken over without
 * having heard that it was deleted. */
static bool is_double(sim_world *w, int server, tl_bytes key) {
    return !w->whole && has(w, server, key) && sim_home_of(w, key) != server;
}

bool sim_cluster_astray(sim_world *w, const sim_request *m, const tl_reply *reply) {
    tl_bytes key = m->is_script && m->nkeys > 0 ? m->argv[0] : (tl_bytes){0};
    int server = m->socket->server;
    if (!w->cfg.fleet || key.n == 0 || reply->type == TL_REPLY_ERROR)
        return false;
    bool may = may_serve(w, server, fake_redis_slot(key));
    if (may && !is_double(w, server, key))
        return false;
    w->stats.astray++;
    if (!may && !w->cfg.forgets_open && !w->cfg.doubtful)
        sim_fail(w, SIM_ALL, "server %d executes for host %c what another has the key of", server,
                 m->sender->name);
    sim_sentinel_forgotten(w, m, reply);
    return true;
}

/* ---- messages ------------------------------------------------------------------------------------ */

typedef struct {
    size_t channel_n, message_n;
    char text[];
} message;

static void repeat(sim_world *w, void *who, uint32_t server) {
    const message *m = who;
    const sim_server *s = &w->server[server];
    tl_bytes argv[] = {TL_LITERAL("PUBLISH"), tl__bytes(m->text, m->channel_n),
                       tl__bytes(m->text + m->channel_n, m->message_n)};
    if (s->busy_until > w->now) {
        sim_put(w, s->busy_until, SIM_RANK_NET, repeat, who, server);
        return;
    }
    if (!sim_cluster_is_well(w, (int)server))
        return;
    w->cluster.repeats = true;
    sim_server_set(w, (int)server);
    (void)fake_conn_command(s->runner, argv, 3);
    w->cluster.repeats = false;
    w->stats.repeated++;
    sim_sockets_answer(w);
}

void sim_cluster_repeat(sim_world *w, int server, tl_bytes channel, tl_bytes text) {
    if (w->cluster.repeats || w->cluster.parted[server])
        return;
    message *m = sim_get(w, sizeof *m + channel.n + text.n);
    m->channel_n = channel.n;
    m->message_n = text.n;
    memcpy(m->text, channel.p, channel.n);
    if (text.n > 0)
        memcpy(m->text + channel.n, text.p, text.n);
    for (int i = 0; i < sim_servers(w); i++)
        if (i != server)
            sim_put(w, w->now + sim_draw(w, w->cfg.delay / 4, 2 * w->cfg.delay), SIM_RANK_NET,
                    repeat, m, (uint32_t)i);
}

/* ---- news ---------------------------------------------------------------------------------------- */

static void hear_of_slots(sim_world *w, sim_view *v, int mine) {
    for (int i = 0; i < w->cluster.slots; i++) {
        const sim_slot *s = &w->cluster.slot[i];
        if (s->epoch <= v->epoch[i])
            continue;
        v->owner[i] = s->owner;
        v->epoch[i] = s->epoch;
        if (s->owner != mine)
            v->exports[i] = SIM_SLOT_NOBODY;
        v->imports[i] = v->imports[i] && s->owner != mine;
    }
}

/* All that is so by now; that it is a master no more it hears when it becomes a replica. */
static void hear(sim_world *w, void *who, uint32_t server) {
    sim_view *v = who;
    int mine = sim_shard_of(w, (int)server);
    if (w->cluster.deaf[server] > w->now) {
        sim_put(w, w->cluster.deaf[server], SIM_RANK_NET, hear, v, server);
        return;
    }
    if (!sim_cluster_is_well(w, (int)server)) {
        sim_put(w, w->now + 2 * SIM_MS + sim_draw_part(w, 0, 20), SIM_RANK_NET, hear, v, server);
        return;
    }
    hear_of_slots(w, v, mine);
    for (int i = 0; i < SIM_SHARDS; i++)
        if (w->cluster.term[i] > v->term[i] &&
            !(i == mine && sim_server_is_former(w, (int)server))) {
            v->master[i] = (uint8_t)w->shard[i].master;
            v->term[i] = w->cluster.term[i];
        }
    if (!sim_server_is_former(w, (int)server))
        v->config = w->cluster.config[mine];
    if (w->cfg.atomic)
        sim_atomic_heard(w, (int)server);
}

/* To some soon, to others later; now and then much later, but where they are relied on. */
static void spread(sim_world *w) {
    sim_ns most = sim_draw_part(w, 1, sim_draw(w, 0, 3) ? 20 : 200);
    if (sim_config_cluster_tells_soon(&w->cfg) && most > NEWS_MS * SIM_MS - 2 * w->cfg.delay)
        most = NEWS_MS * SIM_MS - 2 * w->cfg.delay;
    for (int i = 0; i < sim_servers(w); i++)
        sim_put(w, w->now + w->cfg.delay + sim_draw(w, 0, most), SIM_RANK_NET, hear,
                &w->cluster.view[i], (uint32_t)i);
}

/* ---- moving a key -------------------------------------------------------------------------------- */

static const tl_reply *ask(sim_world *w, int server, const char *command, tl_bytes key) {
    tl_bytes argv[5] = {tl__bytes_of(command), key};
    size_t argc = 2;
    if (strcmp(command, "ZRANGE") == 0) {
        argv[2] = TL_LITERAL("0");
        argv[3] = TL_LITERAL("-1");
        argv[4] = TL_LITERAL("WITHSCORES");
        argc = 5;
    }
    return fake_conn_command(w->server[server].runner, argv, argc);
}

/* A hash's fields, or a sorted set's members, which come behind their scores. */
static void put_pairs(sim_world *w, int to, tl_bytes key, bool sorted, const tl_reply *all) {
    tl_bytes argv[2 + 2 * PAIRS] = {sorted ? TL_LITERAL("ZADD") : TL_LITERAL("HMSET"), key};
    for (size_t i = 0; i + 1 < all->count;) {
        size_t argc = 2;
        for (; argc < 2 + 2 * PAIRS && i + 1 < all->count; i += 2) {
            argv[argc++] = all->items[i + sorted].text;
            argv[argc++] = all->items[i + !sorted].text;
        }
        (void)fake_conn_command(w->server[to].runner, argv, argc);
    }
}

static void put_content(sim_world *w, int from, int to, tl_bytes key) {
    tl_bytes type = ask(w, from, "TYPE", key)->text;
    if (tl__bytes_eq(type, TL_LITERAL("string"))) {
        tl_bytes argv[] = {TL_LITERAL("SET"), key, ask(w, from, "GET", key)->text};
        (void)fake_conn_command(w->server[to].runner, argv, 3);
        return;
    }
    bool sorted = tl__bytes_eq(type, TL_LITERAL("zset"));
    put_pairs(w, to, key, sorted, ask(w, from, sorted ? "ZRANGE" : "HGETALL", key));
}

/* In place of what is there, to last for so long or until then; `ms` below 0: for ever. */
static void put_key(sim_world *w, int from, int to, tl_bytes key, const char *expire, int64_t ms) {
    char text[TEXT_SIZE];
    tl_bytes argv[] = {tl__bytes_of(expire), key, {0}};
    fake_conn *there = w->server[to].runner;
    (void)fake_conn_say(there, "MULTI");
    (void)ask(w, to, "DEL", key);
    put_content(w, from, to, key);
    (void)snprintf(text, sizeof text, "%lld", (long long)ms);
    argv[2] = tl__bytes_of(text);
    if (ms >= 0)
        (void)fake_conn_command(there, argv, 3);
    (void)fake_conn_say(there, "EXEC");
}

/* As MIGRATE with REPLACE does: at the other node it lasts as long as it did here, by that one's clock. On its way nothing
 * of a millisecond is lost. */
static void move_key(sim_world *w, int from, int to, tl_bytes key) {
    sim_server_set(w, from);
    sim_server_set(w, to);
    int64_t left_ms = ask(w, from, "PTTL", key)->integer;
    put_key(w, from, to, key, "PEXPIRE", left_ms < 0 ? left_ms : left_ms + 1);
    (void)ask(w, from, "DEL", key);
    counts(w, key);
    w->stats.keys_moved++;
    sim_sockets_answer(w); /* whoever is told of events */
    sim_tell(w, "", SIM_ALL, "%.*s moves from server %d to server %d", (int)key.n, key.p, from, to);
}

static void find_key(void *ctx, tl_bytes key) {
    search *s = ctx;
    if (fake_redis_slot(key) == s->slot && s->n++ == s->wanted)
        s->key = key;
}

/* Any of the slot's; n 0: there is none. */
static tl_bytes find_some_key(sim_world *w, const sim_slot *s, int server, char name[KEY_SIZE]) {
    search found = {.slot = s->number, .wanted = -1};
    sim_server_set(w, server);
    fake_redis_each_key(w->server[server].r, 0, find_key, &found);
    if (found.n == 0)
        return (tl_bytes){0};
    found.wanted = sim_draw(w, 0, found.n - 1);
    found.n = 0;
    fake_redis_each_key(w->server[server].r, 0, find_key, &found);
    (void)snprintf(name, KEY_SIZE, "%.*s", (int)found.key.n, found.key.p);
    return tl__bytes_of(name);
}

static bool move_some_key(sim_world *w, const sim_slot *s, int from, int to) {
    char name[KEY_SIZE];
    tl_bytes key = find_some_key(w, s, from, name);
    if (key.n == 0)
        return false;
    move_key(w, from, to, key);
    for (int i = 0; i < w->cfg.keys && !w->failed; i++)
        sim_check_key(w, i);
    return true;
}

/* ---- all keys of a slot -------------------------------------------------------------------------- */

typedef struct {
    unsigned slot;
    size_t n;
    char name[CONTENT][KEY_SIZE];
} content;

static void note_key(void *ctx, tl_bytes key) {
    content *all = ctx;
    if (fake_redis_slot(key) != all->slot)
        return;
    if (all->n == CONTENT || key.n >= KEY_SIZE)
        abort();
    (void)snprintf(all->name[all->n++], KEY_SIZE, "%.*s", (int)key.n, key.p);
}

static void read_content(sim_world *w, const sim_slot *s, int server, content *ret) {
    ret->slot = s->number;
    ret->n = 0;
    sim_server_set(w, server);
    fake_redis_each_key(w->server[server].r, 0, note_key, ret);
}

void sim_cluster_drop_slot(sim_world *w, const sim_slot *s, int server) {
    content all;
    read_content(w, s, server, &all);
    for (size_t i = 0; i < all.n; i++)
        (void)ask(w, server, "DEL", tl__bytes_of(all.name[i]));
    sim_sockets_answer(w);
}

void sim_cluster_copy_slot(sim_world *w, const sim_slot *s, int from, int to) {
    content all;
    sim_cluster_drop_slot(w, s, to);
    read_content(w, s, from, &all);
    fake_redis_set_time(w->server[to].r,
                        1); /* it deletes nothing that is over before it has the slot */
    for (size_t i = 0; i < all.n; i++) {
        tl_bytes key = tl__bytes_of(all.name[i]);
        int64_t ends_ms = fake_redis_peek_expiry(w->server[from].r, 0, key);
        if (w->cfg.clears_reign && memmem(key.p, key.n, "tidelock:reign", 14))
            continue;
        put_key(w, from, to, key, "PEXPIREAT", ends_ms);
        w->stats.keys_moved++;
    }
    sim_server_set(w, to);
    sim_sockets_answer(w);
}

/* ---- moving a slot ------------------------------------------------------------------------------- */

static void step(sim_world *w, void *who, uint32_t unused);

/* Often at once, now and then after several lifetimes. */
static void go_on(sim_world *w, sim_slot *s) {
    int64_t way = sim_draw(w, 0, 9);
    sim_ns pause = w->calm || way < 4 ? sim_draw(w, 0, 2 * SIM_MS)
                   : way < 9          ? sim_draw_part(w, 0, 60)
                                      : sim_draw_part(w, 50, 400);
    sim_put(w, w->now + pause, SIM_RANK_NET, step, s, 0);
}

/* The new owner is told first. */
static void give_slot(sim_world *w, sim_slot *s, int shard) {
    int i = (int)(s - w->cluster.slot), to = w->shard[shard].master;
    sim_view *v = &w->cluster.view[to];
    s->owner = (uint8_t)shard;
    s->to = SIM_SLOT_NOBODY;
    s->epoch = ++w->cluster.epoch;
    s->closed = w->now;
    v->owner[i] = s->owner;
    v->epoch[i] = s->epoch;
    v->imports[i] = false;
    v->exports[i] = SIM_SLOT_NOBODY;
    for (int k = 0; k < w->cfg.keys; k++)
        if (fake_redis_slot(w->key[k].k) == s->number)
            memset(w->key[k].late_beside, 0, sizeof w->key[k].late_beside);
    w->stats.slots_closed++;
    sim_tell(w, "", SIM_ALL, "slot %u is server %d's", s->number, to);
}

static void close_slot(sim_world *w, sim_slot *s, int from) {
    give_slot(w, s, s->to);
    sim_put(w, w->now + sim_draw(w, 0, 3 * w->cfg.delay), SIM_RANK_NET, hear,
            &w->cluster.view[from], (uint32_t)from);
    spread(w);
}

void sim_cluster_give(sim_world *w, sim_slot *s, int shard, int from) {
    uint32_t *config = &w->cluster.config[shard];
    give_slot(w, s, shard);
    if (*config != w->cluster.configs) /* the greatest needn't be greater */
        *config = ++w->cluster.configs;
    w->cluster.view[w->shard[shard].master].config = *config;
    w->cluster.deaf[from] = w->cfg.deaf_ms > 0 ? w->now + w->cfg.deaf_ms * SIM_MS : 0;
    sim_ns most = w->cfg.doubtful ? NEWS_MS * SIM_MS : 3 * w->cfg.delay;
    sim_put(w, w->now + sim_draw(w, w->cfg.delay / 2, most), SIM_RANK_NET, hear,
            &w->cluster.view[from], (uint32_t)from);
    spread(w);
}

/* Who moves it sees to it that both ends know, also where another has taken over at one of them. */
static void step(sim_world *w, void *who, uint32_t unused) {
    sim_slot *s = who;
    int i = (int)(s - w->cluster.slot);
    int from = w->shard[s->owner].master, to = w->shard[s->to].master;
    sim_view *a = &w->cluster.view[from], *b = &w->cluster.view[to];
    (void)unused;
    if (sim_cluster_is_well(w, from) && sim_cluster_is_well(w, to) && !a->down && !b->down) {
        if (!b->imports[i])
            b->imports[i] = true;
        else if (a->exports[i] != s->to)
            a->exports[i] = (int8_t)s->to;
        else if (!move_some_key(w, s, from, to)) {
            close_slot(w, s, from);
            return;
        }
    }
    go_on(w, s);
}

void sim_cluster_move(sim_world *w) {
    sim_slot *s = &w->cluster.slot[sim_draw(w, 0, w->cluster.slots - 1)];
    /* Assumed where there are legacy clients: nothing of theirs is on its way for so long that the slot is opened again. */
    bool soon = w->cfg.stamps && w->now < s->closed + w->cfg.lag_ms * SIM_MS;
    if (s->to != SIM_SLOT_NOBODY || soon)
        return;
    if (w->cfg.atomic) {
        sim_atomic_move(w, s);
        return;
    }
    s->to = (int)((s->owner + sim_draw(w, 1, SIM_SHARDS - 1)) % SIM_SHARDS);
    w->stats.moves++;
    sim_tell(w, "", SIM_ALL, "slot %u begins to move from server %d to server %d", s->number,
             w->shard[s->owner].master, w->shard[s->to].master);
    go_on(w, s);
}

/* ---- failing over -------------------------------------------------------------------------------- */

static void set_history(sim_world *w, int shard) {
    sim_shard *h = &w->shard[shard];
    h->history++;
    for (int i = 0; i < sim_servers(w); i++)
        if (sim_shard_of(w, i) == shard && (i == h->master || w->follows[i]))
            fake_redis_set_replid(w->server[i].r, h->history * SIM_SHARDS + (uint64_t)shard);
}

static void end_connections(sim_world *w, int node) {
    for (sim_socket *c = w->sockets; c; c = c->all) {
        if (!c->host || c->server != node || !c->session)
            continue;
        fake_conn_close(c->session);
        c->session = NULL;
        c->input.n = 0;
        sim_socket_reset(w, c);
    }
}

/* It becomes a replica, and has what the master has. */
static void demote(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    int shard = sim_shard_of(w, c->former);
    sim_view *v = &w->cluster.view[c->former];
    (void)who, (void)unused;
    if (w->server[c->former].busy_until > w->now) {
        sim_put(w, w->server[c->former].busy_until + sim_draw(w, 0, SIM_MS), SIM_RANK_NET, demote,
                w, 0);
        return;
    }
    sim_replica_join(w, c->former);
    fake_redis_set_replid(w->server[c->former].r,
                          w->shard[shard].history * SIM_SHARDS + (uint64_t)shard);
    w->cluster.parted[c->former] = v->down = false;
    v->master[shard] = (uint8_t)w->shard[shard].master;
    v->term[shard] = w->cluster.term[shard];
    for (int i = 0; i < SIM_KEYS; i++) {
        v->exports[i] = SIM_SLOT_NOBODY;
        v->imports[i] = false;
    }
    c->on = false;
    if (w->cfg.ends_conns)
        end_connections(w, c->former);
    sim_tell(w, "", SIM_ALL, "server %d is a replica now", (int)c->former);
    hear(w, v, c->former);
}

/* Until it has heard of the others it serves nothing. */
static void come_back(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    (void)who, (void)unused;
    w->cluster.view[c->former].down = true;
    sim_server_start(w, c->former, true);
    sim_tell(w, "", SIM_ALL, "server %d is back", (int)c->former);
    sim_put(w, w->now + (c->way == SIM_DIES ? 0 : sim_draw_part(w, 0, 200)), SIM_RANK_NET, demote,
            w, 0);
}

/* What a replica knows of slots that move: as its master does, or nothing. */
static void inherit(sim_world *w, int former, int next) {
    const sim_view *a = &w->cluster.view[former];
    sim_view *b = &w->cluster.view[next];
    for (int i = 0; i < w->cluster.slots; i++) {
        bool knows = !w->cfg.forgets_open && a->epoch[i] >= b->epoch[i];
        b->exports[i] = (int8_t)(knows ? a->exports[i] : SIM_SLOT_NOBODY);
        b->imports[i] = knows && a->imports[i];
        if (a->epoch[i] > b->epoch[i]) {
            b->epoch[i] = a->epoch[i];
            b->owner[i] = a->owner[i];
        }
    }
}

/* What it has of slots that aren't its shard's is of before they moved: it goes. */
static void forget_slots(sim_world *w, int server) {
    char name[KEY_SIZE];
    for (int i = 0; i < w->cluster.slots; i++) {
        const sim_slot *s = &w->cluster.slot[i];
        int shard = sim_shard_of(w, server);
        while (s->owner != shard && s->to != shard && find_some_key(w, s, server, name).n > 0)
            (void)ask(w, server, "DEL", tl__bytes_of(name));
    }
}

static void promote(sim_world *w, void *who, uint32_t unused) {
    sim_switch *c = &w->change;
    int shard = sim_shard_of(w, c->next);
    sim_view *v = &w->cluster.view[c->next];
    (void)who, (void)unused;
    int64_t back_ns = sim_clock_read(&w->server[c->former].wall, w->now) -
                      sim_clock_read(&w->server[c->next].wall, w->now);
    w->went_back += back_ns > 0 ? back_ns : 0;
    if (c->way == SIM_LED)
        sim_replica_apply(w, c->next, SIM_NEVER);
    sim_rest_replaced(w, c->former, c->next);
    sim_replica_promote(w, c->next);
    w->shard[shard].promoted = w->now;
    w->config_epoch++;
    inherit(w, c->former, c->next);
    if (w->cfg.atomic) /* nobody votes for one who claims what has moved */
        hear_of_slots(w, v, shard);
    forget_slots(w, c->next);
    if (w->cfg.atomic)
        sim_atomic_replaced(w, c->former);
    set_history(w, shard);
    v->master[shard] = c->next;
    v->term[shard] = ++w->cluster.term[shard];
    v->config = w->cluster.config[shard] = ++w->cluster.configs;
    if (w->cfg.ends_conns)
        end_connections(w, c->next);
    sim_tell(w, "", SIM_ALL, "server %d is promoted", (int)c->next);
    spread(w);
    if (c->way == SIM_DIES || c->way == SIM_RETURNS) {
        sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, 300), SIM_RANK_NET, come_back, w, 0);
        return;
    }
    if (c->way == SIM_LED) { /* it executes nothing in between, also when it is stopped just now */
        sim_server *former = &w->server[c->former];
        sim_ns busy = former->busy_until;
        former->busy_until = 0;
        demote(w, w, 0);
        former->busy_until = busy;
        return;
    }
    sim_ns at = c->demoted > w->now ? c->demoted : w->now;
    sim_put(w, at + sim_draw_part(w, 0, 60), SIM_RANK_NET, demote, w, 0);
}

static void cut(sim_world *w, int host, int node, sim_ns until) {
    if (w->cut[host][node] < until)
        w->cut[host][node] = until;
}

static void stop_serving(sim_world *w, void *who, uint32_t server) {
    (void)who;
    if (w->change.on && w->change.former == server)
        w->cluster.view[server].down = true;
}

/* It and some hosts from all others, some hosts reach all. It serves nothing any more when another may take over. */
static void part(sim_world *w, sim_ns promoted, sim_ns until) {
    sim_switch *c = &w->change;
    w->cluster.parted[c->former] = true;
    w->follows[c->next] = false;
    sim_put(w, w->now + sim_draw(w, 0, promoted - w->now - 1), SIM_RANK_NET, stop_serving, w,
            c->former);
    for (int h = 0; h < w->cfg.hosts; h++) {
        int64_t side = sim_draw(w, 0, 3); /* 0: it reaches all */
        for (int n = 0; n < sim_servers(w); n++)
            if (side > 0 && (n == c->former) != (side < 2))
                cut(w, h, n, until);
    }
}

/* What becomes of the former master by then. */
static void leave_master(sim_world *w, sim_ns promoted) {
    sim_switch *c = &w->change;
    sim_ns until = sim_former_leaves(w, promoted);
    switch ((sim_way)c->way) {
    case SIM_DIES:
    case SIM_RETURNS: sim_server_kill(w, c->former); break;
    case SIM_WAKES: w->server[c->former].busy_until = c->demoted = until; break;
    case SIM_PARTED: part(w, promoted, c->demoted = until); break;
    case SIM_LED: /* it executes nothing until its replica has all */
    default: w->server[c->former].busy_until = c->demoted = promoted; break;
    }
}

static int draw_way(sim_world *w) {
    int way;
    do
        way = (int)sim_draw(w, 0, SIM_WAYS - 1);
    while (!(w->cfg.ways >> way & 1));
    return way;
}

void sim_cluster_switch(sim_world *w) {
    sim_switch *c = &w->change;
    int former = sim_cluster_any(w), next = (former + SIM_SHARDS) % (2 * SIM_SHARDS);
    if (c->on || !sim_cluster_is_well(w, former) || !sim_cluster_is_well(w, next) ||
        !w->follows[next] || w->config_epoch == SIM_SWITCHES || (w->cfg.ways & SIM_ALL_WAYS) == 0)
        return;
    *c = (sim_switch){.on = true,
                      .silent = sim_draw(w, 0, 1),
                      .way = (uint8_t)draw_way(w),
                      .former = (uint8_t)former,
                      .next = (uint8_t)next};
    w->stats.switched++;
    /* So long that the time doesn't go back. */
    int64_t ahead_us = sim_server_us(w, &w->server[former]) - sim_server_us(w, &w->server[next]);
    sim_ns least = ahead_us > 0 ? ahead_us * 1001 : 0, most = c->way == SIM_LED ? 5 : 120;
    sim_ns at = w->now + least + 2 * SIM_MS + sim_draw_part(w, 0, (int)most);
    leave_master(w, at);
    sim_put(w, at, SIM_RANK_NET, promote, w, 0);
}

int sim_cluster_any(sim_world *w) {
    return w->shard[sim_draw(w, 0, SIM_SHARDS - 1)].master;
}

/* ---- one is not there ---------------------------------------------------------------------------- */

static void replica_back(sim_world *w, void *who, uint32_t server) {
    (void)who;
    sim_server_start(w, (int)server, true);
    sim_replica_join(w, (int)server);
    hear(w, &w->cluster.view[server], server);
    sim_tell(w, "", SIM_ALL, "server %d is back", (int)server);
}

static void back_empty(sim_world *w, void *who, uint32_t server) {
    int replica = ((int)server + SIM_SHARDS) % (2 * SIM_SHARDS);
    (void)who;
    sim_server_start(w, (int)server, false);
    if (w->follows[replica] && w->server[replica].up)
        sim_replica_join(w, replica);
    sim_tell(w, "", SIM_ALL, "server %d is back, empty", (int)server);
}

void sim_cluster_empty(sim_world *w, int server) {
    w->stats.restarts++;
    sim_server_kill(w, server);
    sim_tell(w, "", SIM_ALL, "server %d dies", server);
    sim_put(w, w->now + SIM_MS + sim_draw_part(w, 0, 60), SIM_RANK_NET, back_empty, w,
            (uint32_t)server);
}

static void kill_replica(sim_world *w, int server, sim_ns until) {
    if (w->change.on || !w->follows[server] || !w->server[server].up)
        return;
    w->follows[server] = false;
    sim_server_kill(w, server);
    sim_tell(w, "", SIM_ALL, "server %d, a replica, dies", server);
    sim_put(w, until, SIM_RANK_NET, replica_back, w, (uint32_t)server);
}

/* A replica is dead, or some nodes are cut off from a host. */
void sim_cluster_aside(sim_world *w) {
    int first = sim_cluster_any(w), n = (int)sim_draw(w, 0, SIM_SHARDS);
    int host = (int)sim_draw(w, 0, w->cfg.hosts - 1);
    sim_ns until = w->now + SIM_MS + sim_draw_part(w, 0, sim_draw(w, 0, 2) ? 100 : 300);
    w->stats.asides++;
    if (n == 0) {
        kill_replica(w, (first + SIM_SHARDS) % (2 * SIM_SHARDS), until);
        return;
    }
    for (int i = 0; i < n; i++)
        cut(w, host, (first + i) % (2 * SIM_SHARDS), until);
    sim_tell(w, "", SIM_ALL, "host %c is cut off from %d nodes until %lld", w->host[host].name, n,
             (long long)(until / SIM_MS));
}

/* ---- beginning ----------------------------------------------------------------------------------- */

static void make_slots(sim_world *w) {
    sim_cluster *c = &w->cluster;
    for (int i = 0; i < w->cfg.keys; i++) {
        unsigned number = fake_redis_slot(w->key[i].k);
        if (slot_at(w, number) < c->slots)
            continue;
        c->slot[c->slots] = (sim_slot){.number = number,
                                       .owner = (uint8_t)shard_of_slot(number),
                                       .to = SIM_SLOT_NOBODY,
                                       .epoch = 1};
        c->slots++;
    }
    c->epoch = 1;
    for (int i = 0; i < SIM_SHARDS; i++)
        c->config[i] = ++c->configs;
}

void sim_cluster_reset(sim_world *w) {
    w->cluster = (sim_cluster){.slots = 0};
    if (!w->cfg.fleet)
        return;
    make_slots(w);
    for (int s = 0; s < sim_servers(w); s++) {
        sim_view *v = &w->cluster.view[s];
        for (int i = 0; i < SIM_KEYS; i++)
            v->exports[i] = SIM_SLOT_NOBODY;
        for (int i = 0; i < w->cluster.slots; i++) {
            v->owner[i] = w->cluster.slot[i].owner;
            v->epoch[i] = 1;
        }
        for (int i = 0; i < SIM_SHARDS; i++)
            v->master[i] = (uint8_t)i;
        v->config = w->cluster.config[sim_shard_of(w, s)];
        fake_redis_on_slot(w->server[s].r, where, &w->server[s]);
    }
}
