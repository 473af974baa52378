/*
 * What must hold at the server, at each command: one holder, fences, nobody who has moved on.
 */
#include "world.h"

#define KEEP_HEAD 3 /* arguments of renew.lua before those of each lock */
#define ENTRY_MAX 512
#define MOVED_TRIPS                                                                                \
    60 /* for a few requests that are led on, each with a connection and a script anew */
#define FIRST_MS 5000   /* who is first in line looks so often, whatever it hears */
#define POLL_MAX_MS 251 /* a waiter that hears nothing looks at least so often */

int sim_key_named(const sim_world *w, tl_bytes k) {
    for (int i = 0; i < w->cfg.keys; i++)
        if (tl__bytes_eq(w->key[i].k, k))
            return i;
    return -1;
}

int sim_key_beside(const sim_world *w, tl_bytes s) {
    for (int i = 0; i < w->cfg.keys; i++)
        if (tl__bytes_eq(w->key[i].s, s))
            return i;
    return -1;
}

tl_bytes sim_key_value(sim_world *w, int key) {
    tl_bytes value = {0};
    (void)fake_redis_peek(sim_store_of(w, w->key[key].k), 0, w->key[key].k, &value);
    return value;
}

bool sim_check_strict(const sim_world *w, int key) {
    return !w->key[key].mixed && w->now > w->key[key].deleted_until;
}

/* ---- taking ------------------------------------------------------------------------------------ */

void sim_check_alone(sim_world *w, int key, uint32_t number) {
    if (w->cfg.sentinel || (w->cfg.fleet && !w->whole))
        return; /* what a server gives after a failover nobody counts on before quiet_ms have passed */
    for (int i = 0; i < w->cfg.actors && !w->failed; i++) {
        const sim_actor *a = &w->actor[i];
        if (a->key != key || !a->kind->holds || !a->kind->holds(w, a))
            continue;
        bool bound = sim_check_bound(w, a);
        if (!bound && !sim_check_strict(w, key))
            continue; /* S doesn't bind for it */
        bool other = !a->kind->value || sim_token_number(w, a->kind->value(a)) != number;
        if (other && sim_check_excludes(w, key, bound))
            sim_fail(w, key, "token %u takes %s while %s holds it", (unsigned)number,
                     w->key[key].name, a->name);
    }
}

bool sim_check_fenced(const sim_world *w) {
    if (w->cfg.fleet || (w->cfg.sentinel && w->cfg.ways != 1 << SIM_DIES))
        return false; /* the former master may give larger ones for a while */
    bool forgets = w->cfg.goes_back && (w->cfg.fault[SIM_LOSSY] || w->cfg.fault[SIM_FORGET]);
    return w->cfg.level >= FAKE_LEVEL(3, 2, 0) && w->cfg.fault[SIM_JUMP] == 0 &&
           w->cfg.fault[SIM_QUICK] == 0 && !forgets;
}

/* A token to which a lossy failover gives its first stamp back has that one's fence: a resource that has
 * seen a later one refuses it. One that hasn't been had yet has shown none to anybody. */
static void check_fence(sim_world *w, int key, uint64_t fence, bool back) {
    if (fence > w->key[key].fence) {
        w->key[key].fence = fence;
        return;
    }
    w->stats.fences_back++;
    if (w->whole || (sim_check_fenced(w) && !back))
        sim_fail(w, key, "the fence goes back: %llu after %llu", (unsigned long long)fence,
                 (unsigned long long)w->key[key].fence);
    w->key[key].fence = fence;
}

/* Does the request come too late, when its sender may have moved on? Its limit is by the clock of the
 * server that it was meant for: another that takes over may be behind. */
void sim_check_in_time(sim_world *w, const sim_request *m, const sim_asked *a, tl_bytes limit,
                       int64_t spare_ns, int key) {
    const sim_host *h = m->sender;
    int64_t not_after = 0;
    tl_mono by = tl__mono_add_ns(a->by, spare_ns);
    (void)tl__bytes_to_int(limit, &not_after);
    if (not_after > 0 && w->whole && w->cfg.level >= FAKE_LEVEL(3, 2, 0) && a->hash &&
        a->boot == h->booted && w->shard[sim_shard_of(w, m->socket->server)].promoted == 0 &&
        tl__mono_before(by, sim_host_clock(w, h)))
        sim_fail(w, key, "a request takes effect after its time limit");
}

/* A renewal whose sender hasn't looked at the server's clock for long has until the latest that it can show: what its
 * sender didn't know of it, and as much again for the time until the limit and for our own clock. */
static int64_t spare_of(const sim_asked *a, int64_t unsure_ns) {
    bool binds = a->lease.until.ns != 0;
    return !binds && unsure_ns > tl__ns_until(a->sent, a->by) / 2 ? 2 * unsure_ns : 0;
}

void sim_check_promise(sim_world *w, int key, uint32_t number) {
    const sim_token *t = &w->token[number];
    if (number == w->key[key].spent && w->whole && !t->native && !t->stays)
        sim_fail(w, key, "token %u takes %s, though it has been dropped", (unsigned)number,
                 w->key[key].name);
    if (t->promise == SIM_NOT_ACQUIRED && w->whole)
        sim_fail(w, key, "token %u takes %s, but its client was told that it doesn't",
                 (unsigned)number, w->key[key].name);
    if (t->promise != SIM_MOVED_ON)
        return;
    w->stats.undone += !t->dropped;
    w->stats.orphans += t->dropped;
    sim_tell(w, "", key, "the client of token %u has moved on%s", (unsigned)number,
             t->dropped ? ", and has cleaned up: an orphan" : "");
}

/* Where nothing goes wrong, a lock that was released doesn't lie about while somebody waits for it by
 * the automatic strategy: it is announced, or polled for. */
static void check_prompt(sim_world *w, const sim_request *m, int key) {
    const sim_lock *l = m->asked->lock;
    sim_ns free_since = w->key[key].free_since;
    w->key[key].free_since = SIM_NEVER;
    bool calm = w->calm_all_along || w->moves_alone;
    if (w->cfg.stamps || !calm || !l || !l->busy || free_since == SIM_NEVER)
        return;
    sim_ns most = tl__rate_most_ns(POLL_MAX_MS * SIM_MS, w->cfg.drift_ppm) +
                  (w->moves_alone ? MOVED_TRIPS : 12) * w->cfg.delay + 4 * w->cfg.late +
                  (w->key[key].uncalled ? FIRST_MS * SIM_MS : 0) +
                  (w->cfg.atomic ? w->cfg.keys * sim_config_pause_ms(&w->cfg) * SIM_MS : 0);
    if (l->retry == TL_RETRY_AUTO && l->op_began < free_since && w->now - free_since > most)
        sim_fail(w, key, "%s lay free for %lld ms while %s waited", w->key[key].name,
                 (long long)((w->now - free_since) / SIM_MS), l->actor->name);
}

void sim_check_count(sim_world *w, int key, uint32_t number) {
    uint32_t before = w->key[key].holder;
    if (!w->cfg.voters && !w->cfg.members && w->token[number].first_us == 0) {
        w->token[number].first_at = sim_home_of(w, w->key[key].k);
        w->token[number].first_us = sim_server_us(w, &w->server[w->token[number].first_at]);
    }
    w->stats.takes++;
    sim_tell(w, "", key, "the server gives %s to token %u", w->key[key].name, (unsigned)number);
    if (before == 0 || before == number || w->token[before].released)
        return;
    if (w->token[before].crashed)
        w->stats.takeovers++;
    else
        w->stats.expiries++;
}

/* A take of a stamp? The others leave their token in K, whatever they have found. */
static bool takes_stamp(const sim_request *m) {
    return m->argc > m->nkeys + 7U && !tl__bytes_eq(m->argv[m->nkeys + 7], m->argv[m->nkeys]);
}

/* Does K hold what a take of a stamp has it hold, as S knows? Then it changes nothing: but one of a token has a stamp become
 * that. */
static bool has_own_stamp(sim_world *w, const sim_request *m, uint32_t number, tl_bytes value,
                          int key) {
    fake_redis *r = sim_store_of(w, w->key[key].s);
    tl_bytes token = {0}, stamp = {0};
    (void)fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("token"), &token);
    (void)fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("value"), &stamp);
    return m->script == TL_SCRIPT_ACQUIRE && takes_stamp(m) &&
           sim_token_number(w, token) == number && tl__bytes_eq(stamp, value);
}

bool sim_check_has(sim_world *w, const sim_request *m) {
    int key = m->argc > m->nkeys ? sim_key_named(w, m->argv[0]) : -1;
    if (key < 0)
        return false;
    uint32_t number = sim_token_number(w, m->argv[m->nkeys]);
    tl_bytes value = sim_key_value(w, key);
    if (number == 0 || value.n == 0)
        return false;
    return sim_token_number(w, value) == number || has_own_stamp(w, m, number, value, key);
}

static bool is_in_sidecar(sim_world *w, const sim_request *m, uint32_t number, int key) {
    tl_bytes token = {0};
    return fake_redis_peek_field(w->server[m->socket->server].r, 0, w->key[key].s,
                                 TL_LITERAL("token"), &token) &&
           sim_token_number(w, token) == number;
}

bool sim_check_noted(sim_world *w, const sim_request *m) {
    int key = m->argc > m->nkeys ? sim_key_named(w, m->argv[0]) : -1;
    return key >= 0 && is_in_sidecar(w, m, sim_token_number(w, m->argv[m->nkeys]), key);
}

bool sim_check_has_alone(sim_world *w, const sim_request *m) {
    int key = sim_key_named(w, m->argv[0]);
    return key >= 0 &&
           sim_token_number(w, sim_key_value(w, key)) == sim_token_number(w, m->argv[1]);
}

static void give_fence(sim_token *t, uint64_t fence, int32_t reserved) {
    if (t->taken)
        t->fence_before[t->fences_before++ % SIM_FENCES] = t->fence;
    t->taken = true;
    t->reserved = (uint8_t)reserved;
    t->fence = fence;
}

/* One that has the key already, and of which S doesn't know, is given another number each time it asks. What S knew has been
 * drawn before, on a node that wrote to the slot when it didn't know that it had moved, and has come here since. */
static void renumbered(sim_world *w, const sim_request *m, uint32_t number, int64_t fence,
                       int key) {
    sim_token *t = &w->token[number];
    w->stats.reasked++;
    w->stats.renumbered++;
    check_fence(w, key, (uint64_t)fence, false);
    t->native = t->low = false;
    if (!m->noted || m->fences > 1)
        t->taken_us = sim_server_us(w, &w->server[sim_home_of(w, w->key[key].k)]);
    give_fence(t, (uint64_t)fence, m->fences);
}

static bool is_among(uint64_t fence, uint64_t first, unsigned n) {
    return fence >= first && fence - first < n;
}

/* What a holder takes back keeps the fences that it was taken with. */
static void keep_fence(sim_token *t, const sim_request *m, uint64_t fence) {
    if (t->taken && t->ended) {
        t->reserved_back = (uint8_t)m->fences;
        t->fence_back = fence;
        return;
    }
    give_fence(t, fence, m->fences);
}

void sim_check_taken(sim_world *w, const sim_request *m, uint32_t number, int64_t fence,
                     tl_bytes expected, tl_bytes limit, int key) {
    if (number == 0)
        return;
    sim_token *t = &w->token[number];
    bool same = is_among((uint64_t)fence, t->fence, t->reserved) ||
                is_among((uint64_t)fence, t->fence_back, t->reserved_back);
    bool takes = m->script == TL_SCRIPT_ACQUIRE;
    bool known = takes && m->has && t->bound && m->fences < 2; /* it is told what S knows */
    if ((t->taken && same) || known) {
        w->stats.reasked++;
        return;
    }
    if (m->has && t->taken) {
        renumbered(w, m, number, fence, key);
        return;
    }
    if (t->promise == SIM_HAD) { /* a keep that takes back what a loser overwrote */
        w->stats.reclaims++;
        w->stats.stolen_back += t->turn != w->key[key].turns && sim_java_is_inside(w, key);
        sim_tell(w, "", key, "token %u takes %s back", (unsigned)number, w->key[key].name);
    } else if (m->asked->lease.until.ns != 0)
        sim_phase_acted(w, m->sender, m->asked->boot, &m->asked->lease, key);
    w->stats.stamps_over += expected.n > 0;
    sim_check_count(w, key, number);
    sim_rest_taken(w, m, number, true, key);
    sim_check_alone(w, key, number);
    bool back = t->taken && w->cfg.fault[SIM_LOSSY] && (w->cfg.stamps || t->promise == SIM_ASKING);
    check_fence(w, key, (uint64_t)fence, back);
    sim_check_in_time(w, m, m->asked, limit, 0, key);
    sim_check_promise(w, key, number);
    sim_line_given(w, number, m->claim, key);
    check_prompt(w, m, key);
    w->key[key].holder = number;
    t->turn = ++w->key[key].turns;
    w->key[key].stolen = false;
    t->again = t->taken;
    t->native = t->low = false;
    t->taken_us = sim_server_us(w, &w->server[m->socket->server]);
    keep_fence(t, m, (uint64_t)fence);
}

/* By native commands, which know nothing of S nor of the clock: its client judges what they found. Is it held up on its
 * way it may come when nobody wants it any more, which nothing tells it. */
static void native_taken(sim_world *w, const sim_request *m, uint32_t number, uint64_t fence,
                         int key) {
    sim_token *t = &w->token[number];
    sim_key *k = &w->key[key];
    sim_check_count(w, key, number);
    sim_rest_taken(w, m, number, false, key);
    w->stats.natives++;
    if (sim_check_strict(w, key))
        sim_check_alone(w, key, number);
    if (t->killed)
        sim_fail(w, key, "token %u takes %s over a connection that has been ended",
                 (unsigned)number, k->name);
    t->native = true;
    t->since = w->now;
    tl_bytes line = {0}, token = {0};
    fake_redis *r = w->server[m->socket->server].r;
    (void)fake_redis_peek_field(r, 0, k->s, TL_LITERAL("line"), &line);
    (void)fake_redis_peek_field(r, 0, k->s, TL_LITERAL("token"), &token);
    t->bound = t->bound && sim_token_number(w, token) == number; /* or S has told of others since */
    t->beside = line.n > 0;
    t->orphan = t->dropped || t->promise == SIM_MOVED_ON;
    t->low = fence <= k->fence;
    k->fence = t->low ? k->fence : fence;
    w->stats.native_orphans += t->orphan && t->dropped;
    sim_check_promise(w, key, number);
    if (!t->beside) /* who sees the line gives it back */
        sim_line_given(w, number, m->claim, key);
    check_prompt(w, m, key);
    k->holder = number;
    k->stolen = false;
    t->turn = ++k->turns;
    t->again = t->taken;
    t->taken_us = sim_server_us(w, &w->server[m->socket->server]);
    give_fence(t, fence, m->fences);
}

static bool is_word(tl_bytes a, const char *word) {
    return tl__bytes_eq(a, tl__bytes_of(word));
}

bool sim_check_transacted(sim_world *w, const sim_request *m, const tl_reply *exec) {
    const sim_socket *s = m->socket;
    int set = -1, incr = -1, key;
    int64_t fence = 0, by = 1;
    for (int i = 0; i < (int)s->queued; i++) {
        const tl_bytes *argv = s->command[i].argv;
        set = is_word(argv[0], "SET") ? i : set;
        incr = is_word(argv[0], "INCR") || is_word(argv[0], "INCRBY") ? i : incr;
    }
    uint32_t number = set >= 0 ? sim_token_number(w, s->command[set].argv[2]) : 0;
    if (number == 0 || incr < 0 || (key = sim_key_named(w, s->command[set].argv[1])) < 0)
        return false;
    if (s->command[incr].argc > 2)
        (void)tl__bytes_to_int(s->command[incr].argv[2], &by);
    sim_request request = *m;
    request.asked = s->command[set].asked;
    request.fences = (int32_t)by;
    const tl_reply *done = exec ? tl__reply_item(exec, (size_t)set) : NULL;
    if (done && done->type == TL_REPLY_STATUS &&
        tl__reply_int(tl__reply_item(exec, (size_t)incr), &fence))
        native_taken(w, &request, number, (uint64_t)(fence - by + 1), key);
    sim_check_key(w, key);
    return true;
}

static void check_written(sim_world *w, const sim_request *m, uint32_t number, int key) {
    if (number && !takes_stamp(m) && sim_token_number(w, sim_key_value(w, key)) != number)
        sim_fail(w, key, "token %u is told that it has %s, which doesn't hold it", (unsigned)number,
                 w->key[key].name);
}

static void taken(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t fence = 0, fences = 1;
    (void)tl__reply_int(reply->type == TL_REPLY_STRING ? reply : tl__reply_item(reply, 3), &fence);
    tl_bytes expected = m->argc > m->nkeys + 8U ? m->argv[m->nkeys + 8] : (tl_bytes){0};
    uint32_t number = sim_token_number(w, m->argv[m->nkeys]);
    if (m->argc > m->nkeys + 6U)
        (void)tl__bytes_to_int(m->argv[m->nkeys + 6], &fences);
    if (reply->type != TL_REPLY_STRING)
        fence -= fences - 1; /* the last */
    sim_request reserving = *m;
    reserving.fences = (int32_t)fences;
    sim_check_taken(w, &reserving, number, fence, expected, m->argv[m->nkeys + 2], key);
    check_written(w, m, number, key);
    w->token[number].bound = is_in_sidecar(w, m, number,
                                           key); /* others may have been there since it was */
}

static void take_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 1; /* as usual: then it says nothing but the fence */
    if (reply->type != TL_REPLY_STRING && !tl__reply_int(tl__reply_item(reply, 0), &status))
        return;
    switch (status) {
    case 1: taken(w, m, reply, key); break;
    case 0: w->stats.bound_refused += tl__reply_item(reply, 1)->type == TL_REPLY_NIL; break;
    case -1:
        w->stats.late_refused++;
        w->stats.late_phases += m->asked->lease.epoch > 0 &&
                                m->asked->lease.epoch < w->migration.epoch;
        break;
    case -2: w->stats.spent_refused++; break;
    default: break;
    }
}

/* From the first of them on S knows of the token. */
static void note_kept(sim_world *w, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    if (t->orphan)
        sim_fail(w, key, "token %u is nobody's, and is renewed", (unsigned)number);
    t->bound = true;
}

/* Arguments before those of each lock. */
size_t sim_check_heads(const sim_request *m) {
    return m->script == TL_SCRIPT_RENEW ? KEEP_HEAD : 0;
}

size_t sim_check_own_words(const sim_request *m, size_t i, tl_bytes ret[SIM_OWN_WORDS]) {
    size_t n = m->nkeys / 2, heads = sim_check_heads(m);
    size_t each = (m->argc - m->nkeys - heads - TL_JOIN_TAIL) / n, words = 2 + heads + each;
    const tl_bytes *head = m->argv + m->nkeys, *tail = m->argv + m->argc - TL_JOIN_TAIL;
    ret[0] = m->argv[2 * i];
    ret[1] = m->argv[2 * i + 1];
    memcpy(ret + 2, head, heads * sizeof *ret);
    memcpy(ret + 2 + heads, head + heads + each * i, each * sizeof *ret);
    if (m->script == TL_SCRIPT_REFRESH) /* that of the soonest; whose that is isn't known */
        ret[words++] = tail[0];
    return words;
}

int64_t sim_check_spare(const sim_asked *a, tl_bytes earliest, tl_bytes latest) {
    int64_t from = 0, to = 0;
    (void)tl__bytes_to_int(earliest, &from);
    (void)tl__bytes_to_int(latest, &to);
    return spare_of(a, (to - from) * 1000);
}

/* Of a keep the server's clock at its earliest and at its latest are arguments. */
static int64_t spare_in(const sim_request *m, const sim_asked *a) {
    return m->script == TL_SCRIPT_REFRESH
               ? spare_of(a, a->unsure_ns)
               : sim_check_spare(a, m->argv[m->nkeys], m->argv[m->argc - 1]);
}

/* One of those that a script is for, whose part of the answer is this. */
static void kept(sim_world *w, const sim_request *m, size_t i, int64_t status) {
    size_t n = m->nkeys / 2, heads = sim_check_heads(m);
    const tl_bytes *tail = m->argv + m->argc - TL_JOIN_TAIL;
    tl_bytes own[SIM_OWN_WORDS] = {{0}};
    size_t words = sim_check_own_words(m, i, own);
    int key = sim_key_named(w, own[0]);
    const sim_asked *a = sim_asked_by(m->sender, m->socket->boot,
                                      sim_hash_words(true, m->script, own, words));
    if (key < 0)
        return;
    w->stats.late_refused += status == -2;
    w->stats.joined += n > 1;
    if (status == 1) {
        w->stats.keeps++;
        w->stats.refreshed += m->script == TL_SCRIPT_REFRESH;
        sim_check_in_time(w, m, a, tail[0], spare_in(m, a), key);
        note_kept(w, sim_token_number(w, own[2 + heads]), key);
    }
    if (status == 1 && a->lease.until.ns != 0) {
        w->stats.drained++;
        sim_phase_acted(w, m->sender, a->boot, &a->lease, key);
    }
    sim_check_key(w, key);
}

/* A keep says it of each; a refresh has the numbers of those it wasn't well with, or 0. */
void sim_check_statuses(const sim_request *m, const tl_reply *reply, int64_t ret[SIM_JOINED_MAX]) {
    bool refresh = m->script == TL_SCRIPT_REFRESH;
    bool whole = reply->type == TL_REPLY_ARRAY && reply->count >= 2;
    for (size_t i = 0; i < SIM_JOINED_MAX; i++)
        if (!whole ||
            (!refresh && !tl__reply_int(tl__reply_item(tl__reply_item(reply, 2 + i), 0), &ret[i])))
            ret[i] = INT64_MIN;
        else if (refresh)
            ret[i] = 1;
    for (size_t i = 2; refresh && whole && i < reply->count; i++) {
        int64_t number = -1;
        (void)tl__reply_int(&reply->items[i], &number);
        for (int64_t j = 0; j < SIM_JOINED_MAX; j++)
            ret[j] = number == 0 ? -2 : number == j + 1 ? -3 : ret[j];
    }
}

/* What S tells of one that was extended lasts as long as K. */
static void check_bound(sim_world *w, const sim_request *m, size_t i) {
    fake_redis *r = w->server[m->socket->server].r;
    int key = sim_key_named(w, m->argv[2 * i]);
    tl_bytes until = {0};
    int64_t us = 0;
    if (key < 0)
        return;
    (void)fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("until"), &until);
    if (!tl__bytes_to_int(until, &us) || us / 1000 < fake_redis_peek_expiry(r, 0, m->argv[2 * i]))
        sim_fail(w, key, "the sidecar doesn't bind for as long as the key was refreshed for");
}

static void renewal_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int64_t status[SIM_JOINED_MAX];
    sim_check_statuses(m, reply, status);
    for (size_t i = 0; i < m->nkeys / 2U && i < SIM_JOINED_MAX; i++) {
        if (status[i] == INT64_MIN)
            continue;
        kept(w, m, i, status[i]);
        w->stats.refreshed_not += status[i] == -3;
        if (status[i] == 1 && m->script == TL_SCRIPT_REFRESH)
            check_bound(w, m, i);
    }
}

void sim_check_released(sim_world *w, int key, uint32_t number) {
    w->token[number].ours = true;
    w->key[key].free_since = w->now;
}

/* By a release, or a rest. */
static void note_spent(sim_world *w, const sim_request *m, uint32_t number, int key) {
    tl_bytes spent = {0};
    w->key[key].uncalled = sim_home_of(w, w->key[key].l) != m->socket->server;
    if (sim_key_value(w, key).n == 0) /* perhaps, to look at what is free */
        w->key[key].called = w->now;
    (void)fake_redis_peek_field(w->server[m->socket->server].r, 0, w->key[key].s,
                                TL_LITERAL("spent"), &spent);
    bool refused = w->full || w->forbids || w->cfg.lacks || w->cfg.fault[SIM_DENY]; /* perhaps */
    w->key[key].spent = refused ? sim_token_number(w, spent) : number;
    w->token[number].stays = refused && w->token[number].joined > 0;
    w->key[key].idle = spent.n > 0 && w->key[key].holder == number;
}

static void drop_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0;
    uint32_t number = sim_token_number(w, m->argv[m->nkeys]);
    w->token[number].dropped = true;
    if (tl__reply_int(reply, &status) && status == 1)
        sim_check_released(w, key, number);
    note_spent(w, m, number, key);
}

static uint64_t hash_of(tl_bytes text) {
    return text.n > 0 ? sim_hash_words(false, 0, &text, 1) : 0;
}

/* Whoever asks for that inbox is there after all, and who drops what was given to it gives it back. */
uint64_t sim_check_claim(sim_world *w, const sim_request *m) {
    fake_redis *r = w->server[m->socket->server].r;
    tl_bytes claim = {0}, token = {0};
    int key = m->is_script && m->argc > m->nkeys ? sim_key_named(w, m->argv[0]) : -1;
    bool joins = m->is_script && m->script == TL_SCRIPT_JOIN && m->argc > m->nkeys + 5U;
    bool drops = m->is_script && m->script == TL_SCRIPT_RELEASE;
    if (key < 0 || (!joins && !drops && m->script != TL_SCRIPT_ACQUIRE))
        return 0;
    (void)fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("claim"), &claim);
    (void)fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("token"), &token);
    bool comes = (joins && tl__bytes_eq(m->argv[m->nkeys + 5], claim)) ||
                 (drops && tl__bytes_eq(m->argv[m->nkeys], token));
    return comes ? 0 : hash_of(claim);
}

void sim_check_found(sim_world *w, sim_request *m) {
    fake_redis *r = w->server[m->socket->server].r;
    tl_bytes value = {0}, fence = {0};
    int key = m->is_script && m->argc > m->nkeys ? sim_key_named(w, m->argv[0]) : -1;
    if (key < 0)
        return;
    if (w->key[key].idle && fake_redis_peek_expiry(r, 0, w->key[key].s) == -2) {
        w->stats.sidecars_gone++;
        w->key[key].idle = false;
    }
    (void)fake_redis_peek(r, 0, w->key[key].k, &value);
    (void)fake_redis_peek_field(r, 0, w->key[key].s, TL_LITERAL("fence"), &fence);
    m->had = sim_token_number(w, value);
    (void)tl__bytes_to_int(fence, &m->had_fence);
}

/* ---- the line ------------------------------------------------------------------------------------ */

/* Whoever stands there with an earlier ticket, and is heard, is given the lock before. Where messages are forbidden nobody
 * is: who asks is served. And a server that has lost writes may have forgotten who came first. */
static void check_order(sim_world *w, uint32_t number, int key) {
    if (w->mute || !w->whole)
        return;
    sim_server *s = &w->server[sim_home_of(w, w->key[key].l)];
    tl_bytes argv[] = {TL_LITERAL("ZRANGE"), w->key[key].l, TL_LITERAL("0"), TL_LITERAL("0"),
                       TL_LITERAL("WITHSCORES")};
    const tl_reply *first = fake_conn_command(s->runner, argv, 5);
    const sim_token *t = &w->token[number];
    /* one that polls, and wasn't told its first place, stands at both */
    int64_t ticket = 0, own = t->inbox == hash_of(TL_LITERAL("poll")) ? t->first : t->ticket;
    if (own > 0 && tl__reply_int(tl__reply_item(first, 1), &ticket) && ticket < own)
        sim_fail(w, key, "token %u is given %s before another that stands in front of it",
                 (unsigned)number, w->key[key].name);
}

/* S names one whose turn it is, and who is to acquire the lock by itself. One that had it before and let it expire has
 * no claim. */
static void called(sim_world *w, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    tl_bytes claim = {0};
    (void)fake_redis_peek_field(sim_store_of(w, w->key[key].s), 0, w->key[key].s,
                                TL_LITERAL("claim"), &claim);
    if (number == 0 || t->lease.until.ns == 0 || hash_of(claim) != t->inbox || t->called)
        return;
    t->called = true;
    w->stats.calls++;
    check_order(w, number, key);
}

/* After a script that may give the lock to somebody in line: to whom has it? Nothing of what is given can come late, and
 * S binds at once. */
static void granted(sim_world *w, const sim_request *m, int key) {
    const sim_server *s = &w->server[sim_home_of(w, w->key[key].s)];
    tl_bytes text = {0}, named = {0}, value = sim_key_value(w, key);
    uint32_t number = sim_token_number(w, value);
    sim_token *t = &w->token[number];
    int64_t last = 0;
    if (m->claim) /* those that it sends out of the line are told to look */
        w->key[key].called = w->now;
    (void)fake_redis_peek_field(s->r, 0, w->key[key].s, TL_LITERAL("claim"), &text);
    if (m->claim && hash_of(text) != m->claim)
        sim_line_lapsed(w, m->claim, key);
    text = (tl_bytes){0};
    (void)fake_redis_peek_field(s->r, 0, w->key[key].s, TL_LITERAL("token"), &named);
    if (value.n == 0)
        called(w, sim_token_number(w, named), key);
    (void)fake_redis_peek_field(s->r, 0, w->key[key].s, TL_LITERAL("fence"), &text);
    (void)tl__bytes_to_int(text, &last);
    bool own = is_among((uint64_t)last, t->fence,
                        t->reserved) || /* as it took it, or took it back */
               is_among((uint64_t)last, t->fence_back, t->reserved_back);
    bool before = number == m->had && last == m->had_fence;
    uint64_t fence = (uint64_t)(last - (t->joined > 1 ? t->joined - 1 : 0));
    if (number == 0 || own || before || sim_token_number(w, named) != number || t->joined == 0)
        return;
    sim_request given = *m;
    given.fences = t->joined;
    given.has = m->has && m->script == TL_SCRIPT_JOIN &&
                number == sim_token_number(w, m->argv[m->nkeys]);
    bool asks = number == sim_token_number(w, m->argv[m->nkeys]);
    bool leased = asks && m->asked->lease.until.ns != 0;
    given.asked = given.has || leased ? m->asked : sim_asked_by(m->sender, m->socket->boot, 0);
    if (!asks) /* by another, who doesn't know by which phase it acts */
        sim_phase_acted(w, &w->host[t->host], t->boot, &t->lease, key);
    w->stats.grants++;
    w->stats.grants_told += m->script != TL_SCRIPT_JOIN || !asks;
    sim_check_taken(w, &given, number, (int64_t)fence, (tl_bytes){0},
                    leased && m->script == TL_SCRIPT_JOIN ? m->argv[m->nkeys + 2] : (tl_bytes){0},
                    key);
    t->bound = true;
    if (m->claim && t->inbox == m->claim && !given.has && (w->whole || !w->cfg.fleet))
        sim_fail(w, key, "token %u is given %s, though its inbox has let it lapse",
                 (unsigned)number, w->key[key].name);
    if (!given.has && !t->called)
        check_order(w, number, key);
    t->called = false;
}

static void stands(sim_world *w, const sim_request *m, const tl_reply *ticket) {
    int64_t numbers = 1;
    sim_token *t = &w->token[sim_token_number(w, m->argv[m->nkeys])];
    (void)tl__bytes_to_int(m->argv[m->nkeys + 4], &numbers);
    t->joined = (int32_t)numbers;
    t->inbox = hash_of(m->argv[m->nkeys + 5]);
    t->lease = m->asked->lease;
    t->boot = m->asked->boot;
    (void)tl__reply_int(ticket, &t->ticket);
    t->first = t->first ? t->first : t->ticket;
}

/* A script that was refused half-way may have put it in line before. */
void sim_check_erred(sim_world *w, const sim_request *m) {
    char entry[ENTRY_MAX], polled[40];
    int key = m->argc > m->nkeys + 6U ? sim_key_named(w, m->argv[0]) : -1;
    if (key < 0 || m->script != TL_SCRIPT_JOIN)
        return;
    const tl_bytes *a = m->argv + m->nkeys;
    tl_bytes inbox = a[5];
    if (tl__bytes_eq(inbox, TL_LITERAL("poll"))) {
        (void)snprintf(polled, sizeof polled, "poll:%lld",
                       (long long)sim_server_us(w, &w->server[m->socket->server]));
        inbox = tl__bytes_of(polled);
    }
    int n = snprintf(entry, sizeof entry, "%.*s %.*s %.*s %.*s %.*s", (int)a[0].n, a[0].p,
                     (int)a[1].n, a[1].p, (int)a[4].n, a[4].p, (int)inbox.n, inbox.p, (int)a[3].n,
                     a[3].p);
    tl_bytes argv[] = {TL_LITERAL("ZSCORE"), w->key[key].l, tl__bytes(entry, (size_t)n)};
    const tl_reply *score = fake_conn_command(w->server[m->socket->server].runner, argv, 3);
    if (score->type != TL_REPLY_NIL)
        stands(w, m, score);
}

static void joined(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0, ticket = 0, others = 0, told = 0;
    uint32_t number = sim_token_number(w, m->argv[m->nkeys]);
    (void)tl__reply_int(tl__reply_item(reply, 0), &status);
    w->stats.late_refused += status == -1;
    w->stats.spent_refused += status == -2;
    if (status < 0 && status != -4 && status != -5)
        return;
    stands(w, m, tl__reply_item(reply, 6)); /* also where nothing may be given yet */
    ticket = w->token[number].ticket;
    if (status < 0)
        return;
    w->stats.joins++;
    w->stats.joins_leased += m->asked->lease.until.ns != 0;
    /* A server that takes over may know it from before the one that told it so had lost the line. */
    bool tells = tl__bytes_to_int(m->argv[m->nkeys + 6], &told);
    bool before = ticket < told && ticket == w->token[number].first;
    if (tells && told != ticket && !before)
        sim_fail(w, key, "token %u stands in line elsewhere than it was told", (unsigned)number);
    w->token[number].rest_ends_wait = m->asked->lock && m->asked->lock->rest_ends_wait;
    sim_line_looked(w, reply, number, key);
    if (status == 1 && tl__reply_int(tl__reply_item(reply, 8), &others))
        sim_line_told(w, number, others);
    sim_line_comes(w, m, number, key);
    granted(w, m, key);
    if (status == 0)
        sim_line_stands(w, m, number, key);
}

/* ---- key by key, in a slot that is open ------------------------------------------------------------ */

static void alone_counts(sim_world *w, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    sim_check_count(w, key, number);
    sim_check_alone(w, key, number);
    w->key[key].spent = w->key[key].spent == number ? 0 : w->key[key].spent;
    sim_line_given(w, number, 0, key);
    w->key[key].holder = number;
    t->turn = ++w->key[key].turns;
    t->again = t->taken;
    t->taken = true;
    t->bound = t->native = t->low = false;
}

/* Led on by an ASK of before the slot was moved to and fro: another may have K where its owner is. It is nobody's until the
 * owner sends those who ask for it there. */
static void came_late(sim_world *w, uint32_t number, int key) {
    sim_key *k = &w->key[key];
    w->stats.alone_late++;
    k->late_fence = k->late == number ? k->late_fence : 0;
    k->late = number;
    w->token[number].late = true;
    sim_tell(w, "", key, "%s is token %u's at another node than its slot's", k->name,
             (unsigned)number);
}

/* K first, which is all that a server can judge: neither S nor what it has seen last can refuse it. */
static void alone_taken(sim_world *w, const sim_request *m, uint32_t number, int key) {
    const bool late = sim_cluster_is_late(w, m->socket->server, m->argv[0]);
    if ((m->has && !late) || number == 0) {
        w->stats.reasked++;
        return;
    }
    sim_key *k = &w->key[key];
    w->stats.alone_takes++;
    sim_check_in_time(w, m, m->asked, m->argv[3], 0, key);
    if (k->late == number && !m->has)
        k->late_fence = 0; /* K had gone: the number for what is taken now is still to come */
    if (late) {
        came_late(w, number, key);
        return;
    }
    if (k->late == number && !sim_cluster_late_stays(w, key))
        k->late = 0; /* what its late request left is no more */
    alone_counts(w, number, key);
    sim_rest_taken(w, m, number, false, key);
    sim_check_promise(w, key, number);
    check_prompt(w, m, key);
}

static void bound_by(sim_world *w, uint32_t number, uint64_t first, int32_t fences) {
    sim_token *t = &w->token[number];
    give_fence(t, first, fences);
    t->taken_us = t->drawn_us;
    t->native = false; /* confirmed by requests of one key each, which join no queue */
    t->bound = true;
}

/* Then a number, and S, from which on it counts, if K is still its own. Its client may be told of the number in any case: K
 * may come back to where it asks, and the slot's owner may have given it the lock by another. */
static void alone_bound(sim_world *w, const sim_request *m, uint32_t number, bool late) {
    int key = sim_key_beside(w, m->argv[0]);
    int32_t fences = m->asked->fences > 1 ? m->asked->fences : 1;
    int64_t last = 0;
    (void)tl__bytes_to_int(m->argv[5], &last);
    if (key < 0 || number == 0)
        return;
    sim_key *k = &w->key[key];
    sim_token *t = &w->token[number];
    uint64_t first = (uint64_t)(last - fences + 1);
    if (!late && sim_token_number(w, sim_key_value(w, key)) == number) {
        check_fence(w, key, first, false);
        bound_by(w, number, first, fences);
        return;
    }
    t->fence_before[t->fences_before++ % SIM_FENCES] = first;
    if (!late && k->late == number) {
        k->late_fence = first;
        k->late_fences = fences;
    }
}

/* By its late request the token has K where the slot is; or by another by now, and that was looked at then. */
static void late_counts(sim_world *w, int key) {
    sim_key *k = &w->key[key];
    uint32_t number = k->late;
    if (k->holder != number || !w->token[number].taken) {
        alone_counts(w, number, key);
        /* Where it was given back there was none of it, as far as anybody could tell: it is left for a lifetime. */
        if (w->token[number].promise == SIM_NOT_ACQUIRED)
            w->stats.orphans++;
        else
            sim_check_promise(w, key, number);
        k->free_since = SIM_NEVER;
        w->stats.late_counts++;
    }
    if (k->late_fence &&
        !w->token[number].bound) /* drawn before others', perhaps: who is told of it is checked */
        bound_by(w, number, k->late_fence, k->late_fences);
    k->late = 0;
}

void sim_check_late(sim_world *w) {
    for (int i = 0; i < w->cfg.keys; i++)
        if (sim_cluster_late_counts(w, i))
            late_counts(w, i);
}

static void alone_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int64_t status = 0;
    int key = sim_key_named(w, m->argv[0]);
    uint32_t number = sim_token_number(w, m->argv[1]);
    (void)tl__reply_int(reply->type == TL_REPLY_ARRAY ? tl__reply_item(reply, 0) : reply, &status);
    bool late = sim_cluster_is_late(w, m->socket->server, m->argv[0]);
    if (late)
        sim_cluster_came_late(w, m->argv[0]);
    if (m->script == TL_SCRIPT_NUMBER) /* by this server's clock */
        w->token[m->token].drawn_us = sim_server_us(w, &w->server[m->socket->server]);
    if (m->script == TL_SCRIPT_BIND && status == 1)
        alone_bound(w, m, number, late);
    if (key < 0)
        return;
    if (m->script == TL_SCRIPT_HOLD && status == 1) {
        bool takes = tl__bytes_eq(m->argv[4], TL_LITERAL("take"));
        w->stats.alone_keeps += !takes;
        if (takes)
            alone_taken(w, m, number, key);
    } else if (m->script == TL_SCRIPT_FREE) {
        w->stats.alone_drops++;
        w->token[number].dropped = true;
        w->key[key].uncalled = false;
        if (status == 1)
            sim_check_released(w, key, number);
        if (status == 1 && !w->token[number].bound) /* S binds another, perhaps: it is given back */
            w->key[key].free_since = SIM_NEVER;
    } else if (m->script == TL_SCRIPT_REST && !late) {
        sim_rest_executed(w, m, reply, key);
    }
    sim_check_key(w, key);
}

#ifdef TL_COMPAT
/* Of a stamp: what S is told, and then K. A release is over for others from the first of them on. */
static void stamp_alone_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int64_t status = 0;
    bool notes = m->script == TL_SCRIPT_NOTE, frees = !notes && m->argv[1].n == 0;
    int key = notes ? sim_key_beside(w, m->argv[0]) : sim_key_named(w, m->argv[0]);
    uint32_t number = notes ? sim_token_number(w, m->argv[1]) : m->token;
    sim_token *t = &w->token[number];
    (void)tl__reply_int(tl__reply_item(reply, 0), &status);
    if (key < 0)
        return;
    t->dropped = t->dropped || (notes && m->argc == 2);
    if (status == 1 && frees) {
        w->stats.stamps_freed++;
        if (t->turn == w->key[key].turns)
            sim_check_released(w, key, number);
        else if (w->whole)
            sim_fail(w, key, "token %u deletes %s, which another has taken since", (unsigned)number,
                     w->key[key].name);
    } else if (status == 1 && !notes) {
        w->stats.stamps_swapped++;
        sim_check_in_time(w, m, m->asked, m->argv[3], spare_of(m->asked, m->asked->unsure_ns), key);
        if (t->turn == 0 || t->promise == SIM_NOT_ACQUIRED || (t->dropped && t->ours))
            sim_fail(w, key, "a stamp is renewed for token %u, which doesn't have %s",
                     (unsigned)number, w->key[key].name);
    }
    sim_check_key(w, key);
}
#endif

void sim_check_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    if (w->cfg.voters) {
        sim_quorum_executed(w, m, reply);
        return;
    }
    int key = m->argc > 0 ? sim_key_named(w, m->argv[0]) : -1;
    bool alone = m->nkeys == 1 && w->cfg.fleet;
#ifdef TL_COMPAT
    if (m->script == TL_SCRIPT_NOTE || m->script == TL_SCRIPT_SWAP) {
        stamp_alone_executed(w, m, reply);
        return;
    }
#endif
    if (alone)
        alone_executed(w, m, reply);
    if (key < 0 || alone)
        return;
    switch (m->script) {
    case TL_SCRIPT_ACQUIRE:
        take_executed(w, m, reply, key);
        granted(w, m, key);
        break;
    case TL_SCRIPT_RENEW:
    case TL_SCRIPT_REFRESH: renewal_executed(w, m, reply); return;
    case TL_SCRIPT_RELEASE:
        drop_executed(w, m, reply, key);
        granted(w, m, key);
        break;
    case TL_SCRIPT_JOIN: joined(w, m, reply, key); break;
    case TL_SCRIPT_REST:
        sim_rest_executed(w, m, reply, key);
        note_spent(w, m, sim_token_number(w, m->argv[m->nkeys]), key);
        w->key[key].called = w->now;
        break;
    default: break;
    }
    sim_check_key(w, key);
}

/* ---- at any time ------------------------------------------------------------------------------- */

static void check_own(sim_world *w, const sim_actor *a, tl_bytes value) {
    if (w->cfg.stamps || !a->kind->holds(w, a) || tl__bytes_eq(value, a->kind->value(a)))
        return;
    sim_key *key = &w->key[a->key];
    if (key->mixed && !key->stolen) {
        w->stats.mixed_robberies++;
        key->stolen = true;
    }
    if (w->whole && sim_check_strict(w, a->key))
        sim_fail(w, a->key, "%s holds %s, but the server doesn't know", a->name, key->name);
    const sim_token *other = &w->token[sim_token_number(w, value)];
    if (w->whole && sim_lock_at(a) && other != w->token && sim_check_bound(w, a) &&
        (other->promise == SIM_HAD || !other->native))
        sim_fail(w, a->key, "%s holds %s, but another's token stands there", a->name, key->name);
}

/* A key that is gone leaves what was known of it. */
static void note_end(sim_world *w, int key) {
    const sim_server *s = &w->server[sim_home_of(w, w->key[key].k)];
    int64_t expiry_ms = fake_redis_peek_expiry(s->r, 0, w->key[key].k);
    if (sim_key_value(w, key).n > 0)
        w->key[key].ends = expiry_ms <= 0
                               ? SIM_NEVER
                               : w->now + (expiry_ms * 1000 - sim_server_us(w, s)) * 1000;
}

void sim_check_key(sim_world *w, int key) {
    if (w->cfg.rests)
        sim_rest_check(w, key);
    if (w->cfg.voters) {
        sim_quorum_changed(w, key);
        return;
    }
    if (w->cfg.members) {
        sim_etcd_check(w, key);
        return;
    }
    tl_bytes value = sim_key_value(w, key);
    if (w->cfg.stamps)
        sim_stamp_changed(w, key);
    note_end(w, key);
    for (int i = 0; i < w->cfg.actors && !w->failed; i++) {
        sim_actor *a = &w->actor[i];
        if (a->key != key)
            continue;
        if (a->kind->holds)
            check_own(w, a, value);
        if (a->kind->check)
            a->kind->check(w, a);
    }
}

/* ---- at the end -------------------------------------------------------------------------------- */

static void check_key_end(sim_world *w, int key) {
    if (w->cfg.voters) {
        sim_quorum_end(w, key);
        return;
    }
    tl_bytes value = sim_key_value(w, key);
    const sim_server *s = &w->server[sim_home_of(w, w->key[key].k)];
    if (sim_token_number(w, value) == 0)
        return;
    int64_t expiry_ms = fake_redis_peek_expiry(s->r, 0, w->key[key].k);
    int64_t ttl_ms = w->cfg.stamps && w->cfg.java_ttl_ms > w->cfg.ttl_ms ? w->cfg.java_ttl_ms
                                                                         : w->cfg.ttl_ms;
    int64_t most_ms = 2 * ttl_ms + 1 + w->went_back / SIM_MS;
    if (expiry_ms < 0 || expiry_ms > fake_redis_time(s->r) / 1000 + most_ms)
        sim_fail(w, key, "%s is left behind for longer than a lifetime", w->key[key].name);
}

void sim_check_end(sim_world *w) {
    for (int i = 0; i < w->cfg.keys; i++) {
        sim_check_key(w, i);
        if (!w->cfg.members)
            check_key_end(w, i);
    }
    if (w->cfg.members)
        sim_etcd_end(w);
    for (int i = 0; i < w->cfg.hosts; i++)
        if (w->host[i].threads)
            sim_fail(w, SIM_ALL, "a thread of host %c never ends", w->host[i].name);
}
