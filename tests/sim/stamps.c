/*
 * What is special where locks are stamps: the rules that the shipped code makes of the options, what
 * is assumed of requests without scripts, and what must hold at such a key.
 */
#include "world.h"

#include <stdlib.h>

#define POLL_MAX_MS 251 /* a waiter that hears nothing looks at least so often */
#define DROP_IN_MS 500  /* in the queue, if it is a service with the drop-in */
#define LOOK_MS 5000    /* and one that was told when the stamp ends */

const tl_legacy_options *sim_stamp_options(const sim_world *w, sim_kind kind,
                                           tl_legacy_options *room) {
    if (kind == SIM_TOKEN)
        return NULL;
    *room = (tl_legacy_options){.size = sizeof *room,
                                .clock_skew_max_ms = (int32_t)w->cfg.skew_ms,
                                .legacy_delay_max_ms = (int32_t)w->cfg.lag_ms,
                                .legacy_ttl_min_ms = w->cfg.java_ttl_ms,
                                .dialect = w->cfg.dialect ? sim_dialect_name(w) : NULL,
                                .strict = kind == SIM_STRICT};
    if (kind == SIM_AUTO) {
        room->fallback = w->cfg.fallback == 0 ? TL_TIMESTAMP : TL_BRIDGE;
        room->phase_lease_ms = w->cfg.own_lease_ms;
        room->namespaces = w->cfg.tool ? sim_config_glob(&w->cfg).namespaces : NULL;
    }
    return room;
}

static bool fits(const sim_lock *l, int64_t ttl_ms) {
    const tl_client *c = l->client->handle;
    tl_rules rules;
    tl_error err;
    return c->protocol->rules(&c->legacy, NULL, (tl_bytes){0}, &rules, &ttl_ms, &err) == TL_OK;
}

int64_t sim_stamp_lifetime(sim_world *w, const sim_lock *l) {
    int64_t least, most, legacy = w->cfg.java_ttl_ms, wanted = w->cfg.own_ttl_ms;
    sim_config_lifetimes(&w->cfg, &least, &most);
    if (w->cfg.cast[l->actor->id].kind == SIM_TOKEN)
        return sim_draw(w, legacy / 2, legacy);
    if (wanted > 0)
        return fits(l, wanted) ? wanted : most;
    switch (sim_draw(w, 0, 5)) {
    case 0: return least;
    case 1: return most;
    case 2: return sim_draw(w, least, most);
    default: return legacy < least ? least : legacy > most ? most : legacy;
    }
}

bool sim_stamp_watches(const sim_world *w) {
    return w->cfg.stamps && w->cfg.no_eval && w->cfg.level >= FAKE_LEVEL(2, 2, 0);
}

bool sim_stamp_is_plain(const sim_world *w, const sim_lock *l) {
    return w->cfg.stamps && (l->strict || (w->cfg.no_eval && !sim_stamp_watches(w)));
}

bool sim_stamp_by_own_clock(const sim_world *w) {
    return w->cfg.stamps && (w->cfg.level < FAKE_LEVEL(2, 6, 0) || w->cfg.no_time);
}

bool sim_stamp_binds(const sim_world *w, const sim_actor *a) {
    sim_kind kind = (sim_kind)w->cfg.cast[a->id].kind;
    bool sidecar = !w->cfg.no_eval ||
                   (sim_stamp_watches(w) && (w->legacy || !sim_stamp_by_own_clock(w)));
    return kind == SIM_TOKEN || kind == SIM_AUTO || kind == SIM_DROP_IN ||
           ((kind == SIM_BRIDGE || kind == SIM_STAMP) && sidecar);
}

/* ---- requests without scripts ------------------------------------------------------------------ */

static bool is_word(const tl_bytes *argv, const char *word) {
    return tl__bytes_eq(argv[0], tl__bytes_of(word));
}

/* Nothing on such a server can stop them later. */
sim_ns sim_stamp_never_after(const sim_world *w, const sim_host *h, const tl_send *send) {
    const tl_command *c = &send->command[0];
    if (send->count == 0 || c->form != TL_ARGV || send->pin || w->cfg.slow_own)
        return SIM_NEVER;
    sim_clock clock = sim_clock_from_here(w, &h->boot, 1);
    return sim_clock_when(&clock, send->by.ns);
}

/* Who was told that it has nothing gets nothing. */
static void stamp_taken(sim_world *w, const sim_request *m, int key) {
    const sim_token *t = &w->token[m->token];
    w->stats.stamp_takes++;
    w->key[key].writer = m->token;
    w->token[m->token].turn = ++w->key[key].turns;
    sim_tell(w, "", key, "the server gives %s to token %u", w->key[key].name, (unsigned)m->token);
    if (t->promise == SIM_NOT_ACQUIRED && w->whole)
        sim_fail(w, key, "token %u takes %s, but its client was told that it doesn't",
                 (unsigned)m->token, w->key[key].name);
}

/* Of a stamp that could be taken, or of a faster one's? */
static void getset(sim_world *w, const sim_request *m, int key) {
    const sim_key *k = &w->key[key];
    bool lost = k->stamp_ms > 0 &&
                k->stamp_ms > sim_clock_read(&w->server[m->socket->server].wall, w->now) / SIM_MS;
    w->stats.stamps_over += !lost;
    w->stats.undercuts += lost;
    if (!lost)
        stamp_taken(w, m, key);
}

static void tell_command(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    char who[] = {m->sender->name, 0};
    tl_bytes value = m->argc > 2 ? m->argv[2] : (tl_bytes){0};
    bool text = reply->type == TL_REPLY_STRING;
    if (is_word(m->argv, "GET") || is_word(m->argv, "SET") ||
        (is_word(m->argv, "SETNX") && reply->integer == 0))
        return;
    sim_say(w, who, key, "%.*s %.*s -> %.*s", (int)m->argv[0].n, m->argv[0].p,
            value.n < 20 ? (int)value.n : 0, value.p, text ? (int)reply->text.n : 2,
            text                                            ? reply->text.p
            : reply->type == TL_REPLY_INT && reply->integer ? "1 "
                                                            : "- ");
}

static void keep_legacy(sim_key *k, tl_bytes text) {
    k->legacy_n = text.n <= sizeof k->legacy ? text.n : 0;
    memcpy(k->legacy, text.p, k->legacy_n);
}

void sim_stamp_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    size_t at = is_word(m->argv, "EVAL") ? 3 : 1; /* a script that isn't the library's */
    int key = m->argc > at ? sim_key_named(w, m->argv[at]) : -1;
    if (key < 0)
        return;
    if (w->telling)
        tell_command(w, m, reply, key);
    w->key[key].writer = is_word(m->argv, "GET") ? w->key[key].writer : 0;
    if (!m->token && ((is_word(m->argv, "SETNX") && reply->integer == 1) ||
                      (is_word(m->argv, "GETSET") && reply->type != TL_REPLY_ERROR)))
        keep_legacy(&w->key[key], m->argv[2]);
    if (m->token && is_word(m->argv, "SETNX") && reply->integer == 1)
        stamp_taken(w, m, key);
    if (m->token && is_word(m->argv, "DEL") && reply->integer == 1)
        w->token[m->token].ours = w->token[m->token].turn == w->key[key].turns;
    if (m->token && is_word(m->argv, "GETSET") && reply->type != TL_REPLY_ERROR)
        getset(w, m, key);
    sim_check_key(w, key);
}

/* ---- transactions ------------------------------------------------------------------------------ */

static tl_bytes field_of(const tl_bytes *argv, size_t argc, const char *field) {
    for (size_t i = 2; i + 1 < argc; i += 2)
        if (tl__bytes_eq(argv[i], tl__bytes_of(field)))
            return argv[i + 1];
    return (tl_bytes){0};
}

/* A stamp is written: for a new holder, or for the one that there is. */
static void wrote(sim_world *w, const sim_request *m, const tl_bytes *argv, size_t argc, int key) {
    const sim_token *t = &w->token[m->token];
    const sim_key *k = &w->key[key];
    int64_t fence = 0;
    bool over = k->stamp_ms > 0; /* what stood there before */
    if (tl__bytes_to_int(field_of(argv, argc, "fence"), &fence)) {
        sim_request reserving = *m;
        reserving.fences = m->socket->command[0].fences;
        sim_check_taken(w, &reserving, m->token, fence - (reserving.fences - 1),
                        over ? TL_LITERAL("=") : (tl_bytes){0}, (tl_bytes){0}, key);
        if (t->dropped && w->whole)
            sim_fail(w, key, "token %u takes %s after its drop has touched the sidecar",
                     (unsigned)m->token, k->name);
        w->stats.watch_takes++;
        return;
    }
    w->stats.watch_keeps++;
    if (t->turn == 0 || t->promise == SIM_NOT_ACQUIRED)
        sim_fail(w, key, "a stamp is renewed for token %u, which has never had %s",
                 (unsigned)m->token, k->name);
    if (t->dropped && t->ours && w->whole)
        sim_fail(w, key, "a stamp is renewed for token %u, which has given %s back",
                 (unsigned)m->token, k->name);
}

static void gave_up(sim_world *w, const sim_request *m, const tl_bytes *argv, int key) {
    w->token[m->token].dropped = true;
    if (is_word(argv, "DEL"))
        sim_check_released(w, key, m->token);
}

static void tell_transaction(sim_world *w, const sim_request *m, const tl_reply *exec, int key) {
    char who[] = {m->sender->name, 0};
    const sim_socket *s = m->socket;
    tl_bytes value = field_of(s->command[0].argv, s->command[0].argc, "value");
    sim_say(w, who, key, "token %u: %.*s %.*s and EXEC -> %s%s", (unsigned)m->token,
            (int)s->command[0].argv[0].n, s->command[0].argv[0].p, (int)value.n,
            value.p ? value.p : "",
            exec->type == TL_REPLY_ARRAY ? "done"
            : exec->type == TL_REPLY_NIL ? "raced"
                                         : "refused",
            m->late ? ", late" : "");
}

void sim_stamp_transacted(sim_world *w, const sim_request *exec_request, const tl_reply *exec) {
    const sim_socket *s = exec_request->socket;
    sim_request m = *exec_request;
    int key = -1;
    for (unsigned i = 0; i < s->queued && key < 0; i++)
        if (s->command[i].argc > 1)
            key = sim_key_beside(w, s->command[i].argv[1]);
    if (key < 0)
        return;
    const tl_bytes *first = s->command[0].argv;
    size_t argc = s->command[0].argc;
    m.token = sim_token_number(w, field_of(first, argc, "token"));
    if (m.token == 0)
        m.token = s->command[0].token;
    if (w->telling)
        tell_transaction(w, &m, exec, key);
    bool done = exec->type == TL_REPLY_ARRAY, part = s->command[0].refused;
    w->stats.watch_raced += exec->type == TL_REPLY_NIL;
    w->stats.watch_late += m.late && done;
    w->stats.watch_parts += done && part;
    if (!done)
        return;
    if (!part && is_word(first, "HMSET") && field_of(first, argc, "value").n > 0)
        wrote(w, &m, first, argc, key);
    else if (!part)
        gave_up(w, &m, first, key);
    w->key[key].writer = 0;
    sim_check_key(w, key);
}

/* ---- at any time ------------------------------------------------------------------------------- */

/* Where times are whole seconds a legacy client may have written the same bytes since: S knows its own token yet when
 * the release was forbidden to write to it. */
bool sim_stamp_is_of(sim_world *w, int key, uint32_t number) {
    const sim_key *k = &w->key[key];
    tl_bytes token = {0}, value = {0}, own = sim_key_value(w, key);
    fake_redis *r = sim_store_of(w, k->s);
    if (!fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("token"), &token) ||
        !fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("value"), &value))
        return false;
    return own.n > 0 && !tl__bytes_eq(own, tl__bytes(k->legacy, k->legacy_n)) &&
           tl__bytes_eq(own, value) && sim_token_number(w, token) == number;
}

/* Where nothing goes wrong a lock that may be taken is taken while somebody waits. */
static void check_prompt(sim_world *w, int key) {
    sim_ns from = w->key[key].free_from;
    int64_t poll_ms = sim_config_has(&w->cfg, SIM_DROP_IN, key) ? DROP_IN_MS : POLL_MAX_MS;
    sim_ns most = (poll_ms + 2 * w->cfg.skew_ms) * SIM_MS + 12 * w->cfg.delay + 4 * w->cfg.late;
    /* he may wait for that by a slow clock */
    most += tl__rate_most_ns(LOOK_MS * SIM_MS, w->cfg.drift_ppm) - LOOK_MS * SIM_MS;
    if (!w->calm_all_along || from == SIM_NEVER || w->now - from <= most)
        return;
    for (int i = 0; i < w->cfg.actors; i++) {
        const sim_actor *a = &w->actor[i];
        const sim_lock *l = sim_lock_at(a);
        sim_kind kind = (sim_kind)w->cfg.cast[i].kind;
        /* which never takes a stamp over, as others don't in phase 3: its key goes 2 s later */
        bool token = kind == SIM_TOKEN || (w->cfg.slot_phases && kind == SIM_AUTO);
        if (l && !token && a->key == key && l->busy && l->op == SIM_ACQUIRE &&
            l->retry == TL_RETRY_AUTO && l->op_began < from)
            sim_fail(w, key, "%s could be taken for %lld ms while %s waited", w->key[key].name,
                     (long long)((w->now - from) / SIM_MS), a->name);
    }
}

/* S may bind longer than the stamp in K does, when its holder's was rightly taken over. */
static sim_ns bound_until(sim_world *w, int key) {
    tl_bytes token = {0}, until = {0};
    const sim_server *s = &w->server[sim_home_of(w, w->key[key].s)];
    int64_t us = 0;
    (void)fake_redis_peek_field(s->r, 0, w->key[key].s, TL_LITERAL("token"), &token);
    (void)fake_redis_peek_field(s->r, 0, w->key[key].s, TL_LITERAL("until"), &until);
    if (token.n == 0 || !tl__bytes_to_int(until, &us))
        return 0;
    return sim_clock_when(&s->wall, us * 1000 + SIM_MS);
}

static bool is_plain_clients(tl_bytes value) {
    static const char start[] = "plain-";
    return value.n >= sizeof start - 1 && memcmp(value.p, start, sizeof start - 1) == 0;
}

void sim_stamp_changed(sim_world *w, int key) {
    sim_key *k = &w->key[key];
    tl_bytes value = sim_key_value(w, key);
    int64_t stamp = 0;
    bool unreadable = value.n > 0 && !is_plain_clients(value) &&
                      !sim_dialect_read(w, value, &stamp);
    if (value.n == 0 || unreadable || is_plain_clients(value))
        stamp = 0;
    if (unreadable && !sim_phase_has_tokens(w))
        sim_fail(w, key, "%s holds what a legacy client can't read: %.*s", k->name, (int)value.n,
                 value.p);
    bool was_free = k->stamp_ms == 0 && k->free_from != SIM_NEVER;
    if (stamp == k->stamp_ms && (stamp != 0 || (value.n == 0) == was_free))
        return;
    if (value.n > 0)
        check_prompt(w, key);
    k->stamp_ms = stamp;
    k->free_from = SIM_NEVER;
    if (value.n == 0)
        k->free_from = w->now;
    else if (stamp > 0)
        k->free_from = sim_clock_when(&w->server[sim_home_of(w, k->k)].wall,
                                      (stamp + w->cfg.skew_ms + w->cfg.lag_ms + 2) * SIM_MS);
    sim_ns bound = bound_until(w, key);
    if (k->free_from != SIM_NEVER && bound > k->free_from)
        k->free_from = bound;
}
