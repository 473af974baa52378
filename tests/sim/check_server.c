/*
 * What must hold at the server, at each command: one holder, fences, nobody who has moved on.
 */
#include "world.h"

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
    sim_server_set(w, w->master);
    (void)fake_redis_peek(w->server[w->master].r, 0, w->key[key].k, &value);
    return value;
}

bool sim_check_strict(const sim_world *w, int key) {
    return !w->key[key].mixed && w->now > w->key[key].deleted_until;
}

/* ---- taking ------------------------------------------------------------------------------------ */

static void check_alone(sim_world *w, int key, uint32_t number) {
    for (int i = 0; i < w->cfg.actors && !w->failed; i++) {
        const sim_actor *a = &w->actor[i];
        if (a->key != key || !a->kind->holds || !a->kind->holds(w, a))
            continue;
        bool bound = sim_stamp_binds(w, a);
        if (!bound && !sim_check_strict(w, key))
            continue; /* S doesn't bind for it */
        bool other = !a->kind->value || sim_token_number(w, a->kind->value(a)) != number;
        if (other && sim_check_excludes(w, key, bound))
            sim_fail(w, key, "token %u takes %s while %s holds it", (unsigned)number,
                     w->key[key].name, a->name);
    }
}

/* A token to which a lossy failover gives its first stamp back has that one's fence: a resource that has
 * seen a later one refuses it. One that hasn't been had yet has shown none to anybody. */
static void check_fence(sim_world *w, int key, uint64_t fence, bool back) {
    bool forgets = w->cfg.goes_back && (w->cfg.fault[SIM_LOSSY] || w->cfg.fault[SIM_FORGET]);
    bool told = w->cfg.level >= FAKE_LEVEL(3, 2, 0) && w->cfg.fault[SIM_JUMP] == 0 &&
                w->cfg.fault[SIM_QUICK] == 0 && !back && !forgets;
    if (fence > w->key[key].fence) {
        w->key[key].fence = fence;
        return;
    }
    w->stats.fences_back++;
    if (w->whole || told)
        sim_fail(w, key, "the fence goes back: %llu after %llu", (unsigned long long)fence,
                 (unsigned long long)w->key[key].fence);
    w->key[key].fence = fence;
}

/* Does the request come too late, when its sender may have moved on? Its limit is by the clock of the
 * server that it was meant for: another that takes over may be behind. */
static void check_in_time(sim_world *w, const sim_host *h, const sim_asked *a, tl_bytes limit,
                          int64_t spare_ns, int key) {
    int64_t not_after = 0;
    tl_mono by = tl__mono_add_ns(a->by, spare_ns);
    (void)tl__bytes_to_int(limit, &not_after);
    if (not_after > 0 && w->whole && w->cfg.level >= FAKE_LEVEL(3, 2, 0) && a->hash &&
        a->boot == h->booted && w->promoted == 0 && tl__mono_before(by, sim_host_clock(w, h)))
        sim_fail(w, key, "a request takes effect after its time limit");
}

/* A renewal whose sender hasn't looked at the server's clock for long has until the latest that it can show: what its
 * sender didn't know of it, and as much again for the time until the limit and for our own clock. */
static int64_t spare_of_keep(const sim_asked *a, tl_bytes at_its_earliest, tl_bytes at_its_latest) {
    int64_t earliest = 0, latest = 0;
    (void)tl__bytes_to_int(at_its_earliest, &earliest);
    (void)tl__bytes_to_int(at_its_latest, &latest);
    int64_t unsure_ns = (latest - earliest) * 1000;
    bool binds = a->lease.until.ns != 0;
    return !binds && unsure_ns > tl__ns_until(a->sent, a->by) / 2 ? 2 * unsure_ns : 0;
}

static void check_promise(sim_world *w, int key, uint32_t number) {
    const sim_token *t = &w->token[number];
    if (number == w->key[key].spent && w->whole)
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
    if (w->cfg.stamps || !w->calm_all_along || !l || !l->busy || free_since == SIM_NEVER)
        return;
    sim_ns most = tl__rate_most_ns(POLL_MAX_MS * SIM_MS, w->cfg.drift_ppm) + 12 * w->cfg.delay +
                  4 * w->cfg.late;
    if (l->retry == TL_RETRY_AUTO && l->op_began < free_since && w->now - free_since > most)
        sim_fail(w, key, "%s lay free for %lld ms while %s waited", w->key[key].name,
                 (long long)((w->now - free_since) / SIM_MS), l->actor->name);
}

static void count_take(sim_world *w, int key, uint32_t number) {
    uint32_t before = w->key[key].holder;
    w->stats.takes++;
    sim_tell(w, "", key, "the server gives %s to token %u", w->key[key].name, (unsigned)number);
    if (before == 0 || before == number || w->token[before].released)
        return;
    if (w->token[before].crashed)
        w->stats.takeovers++;
    else
        w->stats.expiries++;
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
    t->fence_before = t->taken ? t->fence : fence;
    t->taken = true;
    t->reserved = (uint8_t)m->fences;
    t->fence = fence;
}

void sim_check_taken(sim_world *w, const sim_request *m, uint32_t number, int64_t fence,
                     tl_bytes expected, tl_bytes limit, int key) {
    if (number == 0)
        return;
    sim_token *t = &w->token[number];
    bool same = is_among((uint64_t)fence, t->fence, t->reserved) ||
                is_among((uint64_t)fence, t->fence_back, t->reserved_back);
    if (t->taken && same) {
        w->stats.reasked++;
        return;
    }
    if (t->promise == SIM_HAD) { /* a keep that takes back what a loser overwrote */
        w->stats.reclaims++;
        w->stats.stolen_back += t->turn != w->key[key].turns && sim_java_is_inside(w, key);
        sim_tell(w, "", key, "token %u takes %s back", (unsigned)number, w->key[key].name);
    } else if (m->asked->lease.until.ns != 0)
        sim_phase_acted(w, m->sender, m->asked->boot, &m->asked->lease, key);
    w->stats.stamps_over += expected.n > 0;
    count_take(w, key, number);
    check_alone(w, key, number);
    bool back = t->taken && w->cfg.fault[SIM_LOSSY] && (w->cfg.stamps || t->promise == SIM_ASKING);
    check_fence(w, key, (uint64_t)fence, back);
    check_in_time(w, m->sender, m->asked, limit, 0, key);
    check_promise(w, key, number);
    check_prompt(w, m, key);
    w->key[key].holder = number;
    t->turn = ++w->key[key].turns;
    w->key[key].stolen = false;
    t->again = t->taken;
    keep_fence(t, m, (uint64_t)fence);
}

static void taken(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t fence = 0, fences = 1;
    (void)tl__reply_int(reply->type == TL_REPLY_STRING ? reply : tl__reply_item(reply, 3), &fence);
    tl_bytes expected = m->argc > 9 ? m->argv[9] : (tl_bytes){0};
    uint32_t number = sim_token_number(w, m->argv[2]);
    if (m->argc > 11)
        (void)tl__bytes_to_int(m->argv[11], &fences);
    if (reply->type != TL_REPLY_STRING)
        fence -= fences - 1; /* the last */
    sim_request reserving = *m;
    reserving.fences = (int32_t)fences;
    sim_check_taken(w, &reserving, number, fence, expected, m->argv[4], key);
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

static void kept(sim_world *w, const sim_request *m, size_t i, const tl_reply *item) {
    size_t n = m->nkeys / 2, each = (m->argc - m->nkeys - TL_JOIN_HEAD - TL_JOIN_TAIL) / n;
    const tl_bytes *head = m->argv + m->nkeys, *tail = m->argv + m->argc - TL_JOIN_TAIL;
    tl_bytes own[16] = {m->argv[2 * i], m->argv[2 * i + 1], head[0], head[1]};
    int64_t status = 0;
    int key = sim_key_named(w, own[0]);
    memcpy(own + 4, head + TL_JOIN_HEAD + each * i, each * sizeof *own);
    const sim_asked *a = sim_asked_by(m->sender, m->socket->boot,
                                      sim_hash_words(true, m->script, own, 4 + each));
    if (key < 0 || !tl__reply_int(tl__reply_item(item, 0), &status))
        return;
    w->stats.late_refused += status == -2;
    w->stats.joined += n > 1;
    if (status == 1) {
        w->stats.keeps++;
        check_in_time(w, m->sender, a, tail[0], spare_of_keep(a, head[0], tail[1]), key);
    }
    if (status == 1 && a->lease.until.ns != 0) {
        w->stats.drained++;
        sim_phase_acted(w, m->sender, a->boot, &a->lease, key);
    }
    sim_check_key(w, key);
}

static void keep_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    for (size_t i = 0; i < m->nkeys / 2U; i++)
        kept(w, m, i, tl__reply_item(reply, 2 + i));
}

void sim_check_released(sim_world *w, int key, uint32_t number) {
    w->token[number].ours = true;
    w->key[key].free_since = w->now;
}

static void drop_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0;
    tl_bytes spent = {0};
    uint32_t number = sim_token_number(w, m->argv[2]);
    w->token[number].dropped = true;
    if (tl__reply_int(reply, &status) && status == 1)
        sim_check_released(w, key, number);
    (void)fake_redis_peek_field(w->server[m->socket->server].r, 0, w->key[key].s,
                                TL_LITERAL("spent"), &spent);
    w->key[key].spent = w->full ? sim_token_number(w, spent) : number;
}

/* A lock without a fence: no sidecar, and no fence to compare. */
static void plain_taken(sim_world *w, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    if (t->taken && w->key[key].holder == number) {
        w->stats.reasked++;
        return;
    }
    count_take(w, key, number);
    if (sim_check_strict(w, key))
        check_alone(w, key, number);
    check_promise(w, key, number);
    w->key[key].free_since = SIM_NEVER;
    w->key[key].holder = number;
    w->stats.plain_locks++;
    t->turn = ++w->key[key].turns;
    t->taken = true;
}

void sim_check_set(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int key = m->argc > 2 ? sim_key_named(w, m->argv[1]) : -1;
    uint32_t number = m->argc > 2 ? sim_token_number(w, m->argv[2]) : 0;
    if (key < 0 || number == 0)
        return;
    if (reply->type == TL_REPLY_STATUS)
        plain_taken(w, number, key);
    sim_check_key(w, key);
}

static void plain_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0;
    bool taking = m->argc > 4 && tl__bytes_eq(m->argv[4], TL_LITERAL("take"));
    if (m->script == TL_SCRIPT_HOLD && taking && tl__reply_int(tl__reply_item(reply, 0), &status) &&
        status == 1)
        plain_taken(w, sim_token_number(w, m->argv[1]), key);
    sim_token *t = &w->token[sim_token_number(w, m->argv[1])];
    if (m->script == TL_SCRIPT_FREE && tl__reply_int(reply, &status)) {
        t->dropped = true;
        t->ours = t->ours || status == 1;
    }
    sim_check_key(w, key);
}

void sim_check_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int key = m->argc > 0 ? sim_key_named(w, m->argv[0]) : -1;
    if (key < 0)
        return;
    switch (m->script) {
    case TL_SCRIPT_TAKE: take_executed(w, m, reply, key); break;
    case TL_SCRIPT_KEEP: keep_executed(w, m, reply); return;
    case TL_SCRIPT_DROP: drop_executed(w, m, reply, key); break;
    case TL_SCRIPT_HOLD:
    case TL_SCRIPT_FREE: plain_executed(w, m, reply, key); return;
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
    if (w->whole && sim_lock_at(a) && sim_token_number(w, value) &&
        (w->cfg.no_fence == 0 || sim_check_strict(w, a->key)))
        sim_fail(w, a->key, "%s holds %s, but another's token stands there", a->name, key->name);
}

void sim_check_key(sim_world *w, int key) {
    tl_bytes value = sim_key_value(w, key);
    if (w->cfg.stamps)
        sim_stamp_changed(w, key);
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
    tl_bytes value = sim_key_value(w, key);
    const sim_server *s = &w->server[w->master];
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
        check_key_end(w, i);
    }
    for (int i = 0; i < w->cfg.hosts; i++)
        if (w->host[i].threads)
            sim_fail(w, SIM_ALL, "a thread of host %c never ends", w->host[i].name);
}
