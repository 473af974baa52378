/*
 * A run: the world is made from its configuration; whoever is ready runs, and when nobody is the next event happens,
 * until nothing is left to happen or a promise is broken. Memory is kept for the next run.
 */
#include "world.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "stage.h"

#define CHUNK 65536
#define TURNS_MAX 1000000 /* a run that has more goes on without faults, so that it ends */
#define CALM_MS 600000    /* everything is over by then */

sim_world *sim_the_world;

typedef struct sim_chunk {
    struct sim_chunk *next;
    size_t used, size;
    _Alignas(16) char bytes[];
} chunk;

static chunk *new_chunk(size_t size) {
    size_t room = size > CHUNK ? size : CHUNK;
    chunk *c = calloc(1, sizeof *c + room);
    if (!c)
        abort();
    c->size = room;
    return c;
}

void *sim_get(sim_world *w, size_t size) {
    size = (size + 15) & ~(size_t)15;
    chunk **at = &w->chunk_at;
    while (*at && (*at)->used + size > (*at)->size)
        at = &(*at)->next;
    if (!*at) {
        *at = new_chunk(size);
        if (!w->chunks)
            w->chunks = *at;
    }
    w->chunk_at = *at;
    void *p = w->chunk_at->bytes + w->chunk_at->used;
    w->chunk_at->used += size;
    return memset(p, 0, size);
}

void sim_put(sim_world *w, sim_ns at, unsigned rank, sim_fire fire, void *who, uint32_t tag) {
    sim_queue_put(&w->queue, at < w->now ? w->now : at, rank, fire, who, tag);
}

void sim_put_off(sim_world *w, sim_ns at, sim_fire fire, void *who, uint32_t tag) {
    sim_queue_put_off(&w->queue, at, w->event, fire, who, tag);
}

sim_ns sim_draw_part(sim_world *w, int from, int to) {
    return sim_draw(w, w->cfg.ttl_ms * from * (SIM_MS / 100), w->cfg.ttl_ms * to * (SIM_MS / 100));
}

sim_world *sim_new(void) {
    sim_world *w = calloc(1, sizeof *w);
    if (!w)
        abort();
    return w;
}

static void free_buffers(sim_world *w) {
    for (sim_socket *s = w->sockets; s; s = s->all) {
        fake_buffer *all[] = {&s->up, &s->input, &s->out, &s->down, &s->in};
        for (size_t i = 0; i < sizeof all / sizeof *all; i++)
            fake_buffer_free(all[i]);
        for (int i = 0; i < SIM_QUEUED; i++)
            fake_buffer_free(&s->command[i].text);
    }
}

void sim_free(sim_world *w) {
    free_buffers(w);
    sim_servers_free(w);
    free(w->ready);
    fibers_free();
    sim_story_free(w);
    sim_queue_free(&w->queue);
    free(w->token);
    for (chunk *c = w->chunks, *next; c; c = next) {
        next = c->next;
        free(c);
    }
    free(w);
}

/* ---- making ------------------------------------------------------------------------------------ */

static void make_key(sim_world *w, int i) {
    static const char *const names[SIM_KEYS] = {"jobs", "mail", "{x}y"};
    static const char *const tagged[SIM_KEYS] = {"jobs", "{jobs}mail", "x{jobs}y"};
    sim_key *key = &w->key[i];
    bool mixed = !w->cfg.migrates && sim_config_mixed(&w->cfg, i);
    memset(w->rested[i], 0, sizeof w->rested[i]);
    *key = (sim_key){.mixed = mixed, .free_since = SIM_NEVER, .ends = SIM_NEVER};
    (void)snprintf(key->name, sizeof key->name, "%s", w->cfg.one_slot ? tagged[i] : names[i]);
    key->k = tl__bytes_of(key->name);
    key->s = tl__sidecar(key->sidecar, key->k, NULL);
    key->l = tl__line(key->line, key->s);
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(key->k));
    key->f = tl__counter(key->counter, &tag);
}

static void make_actor(sim_world *w, int i) {
    const sim_actor_kind *const kinds[SIM_KIND_COUNT] = {
        [SIM_TOKEN] = &sim_actor_lock,
        [SIM_PLAIN] = &sim_actor_plain,
        [SIM_JAVA] = &sim_actor_java,
        [SIM_BRIDGE] = &sim_actor_lock,
        [SIM_STAMP] = &sim_actor_lock,
        [SIM_STRICT] = &sim_actor_lock,
        [SIM_AUTO] = &sim_actor_lock,
        [SIM_DROP_IN] = &sim_actor_drop_in,
        [SIM_OPERATOR] = w->cfg.slot_phases ? &sim_actor_slots
                         : w->cfg.tool      ? &sim_actor_migrate
                                            : &sim_actor_operator};
    sim_actor *a = &w->actor[i];
    const sim_cast *cast = &w->cfg.cast[i];
    a->kind = cast->loops ? &sim_actor_loop : kinds[cast->kind];
    a->w = w;
    a->host = &w->host[cast->host];
    a->key = cast->key;
    a->id = (uint8_t)i;
    (void)snprintf(a->name, sizeof a->name, "%c%d", a->host->name, i);
}

static void *live(void *ctx) {
    sim_actor *a = ctx;
    (void)sim_enter();
    a->kind->live(a->w, a);
    a->lives = false;
    sim_leave();
    return NULL;
}

void sim_actor_start(sim_world *w, sim_actor *a) {
    (void)w;
    memset(a->state, 0, a->kind->size);
    a->lives = true;
    sim_thread_new(a->host, live, a)->detached = true;
}

/* Whatever is in use belongs to the former run: make it spare again. */
static void collect(sim_world *w) {
    free_buffers(w);
    for (chunk *c = w->chunks; c; c = c->next)
        c->used = 0;
    w->chunk_at = w->chunks;
    w->spare_socket = w->sockets = NULL;
    w->spare_thread = NULL;
    w->answer_count = 0;
}

static void make_host(sim_world *w, int i) {
    sim_host *h = &w->host[i];
    memset(h, 0, offsetof(sim_host, asked));
    h->id = (uint8_t)i;
    h->name = (char)('A' + i);
    for (int k = 0; k < SIM_CLIENTS; k++)
        h->client[k].host = h;
}

static void make(sim_world *w, const sim_config *config, bool tell) {
    w->cfg = *config;
    w->telling = tell;
    w->random = config->seed ^ UINT64_C(0x7469646c6f636b);
    w->now = 0;
    w->run++;
    w->hash = w->event = 0;
    w->calm = w->failed = false;
    w->whole = sim_config_whole(config);
    w->kept = sim_config_keeps(config);
    w->legacy = sim_config_legacy(config) && sim_config_follows(config);
    w->calm_all_along = sim_config_calm(config);
    w->moves_alone = sim_config_moves_alone(config);
    w->full = false;
    sim_tokens_reset(w);
    w->mark = 1;
    sim_threads_reset(w);
    sim_queue_clear(&w->queue);
    collect(w);
    sim_story_reset(w);
    for (int i = 0; i < SIM_KEYS; i++)
        make_key(w, i);
    sim_servers_reset(w);
    sim_phases_reset(w);
    for (int i = 0; i < w->cfg.hosts; i++) {
        make_host(w, i);
        sim_host_boot(w, &w->host[i]);
    }
    for (int i = 0; i < w->cfg.actors; i++)
        make_actor(w, i);
    for (int i = 0; i < w->cfg.actors; i++)
        sim_actor_start(w, &w->actor[i]);
    if (w->play)
        sim_stage_begin(w);
    sim_faults_start(w);
}

/* ---- running ----------------------------------------------------------------------------------- */

static void begin_calm(sim_world *w) {
    w->calm = true;
    for (int i = 0; i < w->resting; i++)
        sim_thread_ready(w, w->rests[i]);
    for (int i = 0; i < w->cfg.actors; i++)
        if (w->actor[i].kind->calm)
            w->actor[i].kind->calm(w, &w->actor[i]);
    sim_tell(w, "", SIM_ALL, "from here on no more faults, and nothing new is begun");
}

static void happen(sim_world *w, const sim_event *e) {
    w->now = e->at;
    w->event = e->order;
    sim_mark(w, (uint64_t)e->at);
    e->fire(w, e->who, e->tag);
}

/* The next thing that happens, when nobody is ready any more. False: there is none. */
static bool go_on(sim_world *w, int64_t turns) {
    sim_event e;
    if (!sim_queue_take(&w->queue, &e))
        return false;
    if (!w->calm && (e.at >= w->cfg.until || turns >= TURNS_MAX))
        begin_calm(w);
    if (e.at > w->cfg.until + CALM_MS * SIM_MS || turns > 2 * TURNS_MAX)
        sim_fail(w, SIM_ALL, "it never comes to rest");
    else
        happen(w, &e);
    return true;
}

static void run(sim_world *w) {
    int64_t turns = 0;
    bool more = true;
    while (!w->failed && more) {
        if (++turns > 2 * TURNS_MAX)
            sim_fail(w, SIM_ALL, "it never comes to rest");
        else if (w->ready_count > 0)
            sim_threads_run(w);
        else
            more = go_on(w, turns);
    }
    if (!w->failed)
        sim_check_end(w);
    if (w->play)
        sim_stage_end(w);
}

void sim_stats_add(sim_stats *to, const sim_stats *from) {
    const int64_t *a = (const int64_t *)from;
    int64_t *b = (int64_t *)to;
    for (size_t i = 0; i < sizeof *to / sizeof *a; i++)
        b[i] += a[i];
}

sim_result sim_run(sim_world *w, const sim_config *config, bool tell, sim_stats *stats) {
    w->stats = (sim_stats){.runs = 1,
                           .broken = !sim_config_whole(config),
                           .unequal = config->near[0] != config->near[1],
                           .legacy_broken = config->stamps && !sim_config_legacy(config)};
    sim_the_world = w;
    make(w, config, tell);
    sim_tool_begin(w);
    run(w);
    sim_tool_end(w);
    if (stats)
        sim_stats_add(stats, &w->stats);
    sim_result result = {.failed = w->failed,
                         .at = w->failed ? w->failed_at : w->now,
                         .hash = w->hash,
                         .kind = w->failed ? w->failure_kind : ""};
    if (w->failed)
        memcpy(result.what, w->failure, sizeof result.what);
    return result;
}

sim_result sim_run_many(sim_world *w, uint64_t seed, uint64_t runs, const char *changes,
                        sim_stats *stats, uint64_t *ret_seed) {
    sim_result r = {0};
    uint64_t hash = 0;
    for (uint64_t i = 0; i < runs && !r.failed; i++) {
        sim_config c;
        sim_config_draw(&c, seed + i);
        if (changes)
            (void)sim_config_change(&c, changes);
        r = sim_run(w, &c, false, stats);
        hash = hash * 31 + r.hash;
        *ret_seed = seed + i;
    }
    r.hash = hash;
    return r;
}
