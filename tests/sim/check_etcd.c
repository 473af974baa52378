/*
 * What must hold of locks on an etcd: who counts on one has the key that was created first, under a lease that no member
 * may end before; fences are the revisions that keys were created at; nobody makes a key who was told no, but for a request that
 * comes late; who is first hears of it; and nothing stays that no lease ends. A key that rests stays for as long as was asked for,
 * counted from when it was created, and no request moves or ends that.
 */
#include "world.h"

#include "protocol/etcd.h"

#define PROMPT_MS 1000 /* where nothing goes wrong who is first knows it by then, */
#define PROMPT_TRIPS 60

/* "jobs/1000010000000000" */
static int key_of(sim_world *w, tl_bytes name, uint32_t *ret_number) {
    size_t n = name.n > SIM_SUFFIX_DIGITS ? name.n - SIM_SUFFIX_DIGITS - 1 : 0;
    *ret_number = sim_token_number(w,
                                   tl__bytes(name.p + (n ? n + 1 : 0), n ? SIM_SUFFIX_DIGITS : 0));
    return *ret_number ? sim_key_named(w, tl__bytes(name.p, n)) : -1;
}

static uint64_t base_of(uint32_t number) {
    return (UINT64_C(1) << 60) + ((uint64_t)number << SIM_SUFFIX_SHIFT);
}

static bool rests(const fake_etcd_key *k, uint32_t number) {
    return k->lease == tl__etcd_rest_lease(&(tl_etcd_id){.base = (int64_t)base_of(number)});
}

static bool find(sim_world *w, int key, uint32_t number, fake_etcd_key *ret) {
    char name[64];
    uint64_t base = base_of(number);
    int n = snprintf(name, sizeof name, "%s/%llx", w->key[key].name, (unsigned long long)base);
    return fake_etcd_find(w->etcd.e, tl__bytes(name, (size_t)n), ret);
}

/* The first of those who have or want the lock. */
static uint32_t first_of(sim_world *w, int key, fake_etcd_key *ret) {
    char prefix[32];
    uint32_t number = 0;
    int n = snprintf(prefix, sizeof prefix, "%s/", w->key[key].name);
    if (fake_etcd_first(w->etcd.e, tl__bytes(prefix, (size_t)n), ret))
        (void)key_of(w, ret->key, &number);
    return number;
}

bool sim_etcd_has(sim_world *w, int key, uint32_t number) {
    fake_etcd_key found;
    return number && find(w, key, number, &found) && !rests(&found, number);
}

/* ---- beliefs ------------------------------------------------------------------------------------- */

/* When, in true time, any member may end that lease first; SIM_NEVER: none does by itself. */
static sim_ns end_of(sim_world *w, int64_t lease) {
    sim_ns least = SIM_NEVER;
    for (int i = 0; i < w->cfg.members; i++) {
        int64_t ends = fake_etcd_ends(w->etcd.e, lease, i);
        sim_clock theirs = sim_clock_from_here(w, &w->server[i].wall, 1);
        sim_ns when = ends == INT64_MAX ? SIM_NEVER : sim_clock_when(&theirs, ends);
        least = when < least ? when : least;
    }
    return least;
}

void sim_etcd_believed(sim_world *w, const sim_lock *l, tl_mono deadline) {
    fake_etcd_key mine;
    uint32_t number = sim_token_number(w, tl__token_bytes(&l->handle->token));
    if (!w->whole || !sim_check_strict(w, l->key))
        return;
    if (!find(w, l->key, number, &mine)) {
        sim_fail(w, l->key, "%s counts on %s, and has no key there", l->actor->name,
                 w->key[l->key].name);
        return;
    }
    sim_clock ours = sim_clock_from_here(w, &l->actor->host->boot, -1);
    sim_ns end = sim_clock_when(&ours, deadline.ns), gone = end_of(w, mine.lease);
    if (end > gone)
        sim_fail(w, l->key, "%s counts on %s for %lld us longer than its lease lasts",
                 l->actor->name, w->key[l->key].name, (long long)((end - gone + 999) / 1000));
    if (mine.lease == 0)
        sim_fail(w, l->key, "%s has a key that is under no lease", l->actor->name);
}

static void check_holder(sim_world *w, const sim_actor *a, uint32_t first) {
    if (!a->kind->holds(w, a) || !w->whole || !sim_check_strict(w, a->key))
        return;
    uint32_t number = sim_token_number(w, a->kind->value(a));
    if (number != first)
        sim_fail(w, a->key, "%s holds %s, and the key of token %u was created before its own%s",
                 a->name, w->key[a->key].name, (unsigned)first,
                 sim_etcd_has(w, a->key, number) ? "" : ", which is gone");
    else
        sim_etcd_believed(w, sim_lock_at(a), sim_lock_deadline(sim_lock_at(a)));
}

/* Where nothing goes wrong. */
static void check_prompt(sim_world *w, int key) {
    sim_ns most = PROMPT_MS * SIM_MS + PROMPT_TRIPS * w->cfg.delay + 8 * w->cfg.late;
    const sim_etcd *e = &w->etcd;
    for (int i = 0; i < w->cfg.actors && w->calm_all_along && e->first[key]; i++) {
        const sim_lock *l = sim_lock_at(&w->actor[i]);
        bool waits = l && l->busy && !l->loops && l->op == SIM_ACQUIRE && l->drawn == e->first[key];
        if (waits && w->actor[i].key == key && w->now - e->since[key] > most)
            sim_fail(w, key, "%s is first at %s for %lld ms, and doesn't have it", l->actor->name,
                     w->key[key].name, (long long)((w->now - e->since[key]) / SIM_MS));
    }
}

void sim_etcd_check(sim_world *w, int key) {
    fake_etcd_key found;
    uint32_t first = first_of(w, key, &found);
    if (w->etcd.first[key] != first) {
        w->etcd.first[key] = first;
        w->etcd.since[key] = w->now;
    }
    check_prompt(w, key);
    for (int i = 0; i < w->cfg.actors && !w->failed; i++) {
        const sim_actor *a = &w->actor[i];
        if (a->key != key)
            continue;
        if (a->kind->holds)
            check_holder(w, a, first);
        if (a->kind->check)
            a->kind->check(w, &w->actor[i]);
    }
}

/* ---- what members execute ------------------------------------------------------------------------ */

/* It is the first: so it has the lock. */
static void given(sim_world *w, uint32_t number, int key) {
    sim_check_count(w, key, number);
    w->key[key].holder = number;
    w->key[key].free_since = SIM_NEVER;
}

/* Its key: it stands in line, or has the lock. */
static void created(sim_world *w, const sim_socket *by, const fake_etcd_key *k, uint32_t number,
                    int key) {
    sim_token *t = &w->token[number];
    fake_etcd_key found;
    uint32_t first = first_of(w, key, &found);
    w->stats.etcd_waits += first != number;
    if (t->promise == SIM_NOT_ACQUIRED && w->whole)
        sim_fail(w, key, "token %u has a key of %s, and its client was told that it has none",
                 (unsigned)number, w->key[key].name);
    t->orphan = !by || by->fd < 0; /* what undoes it may have overtaken it */
    w->stats.etcd_orphans += t->promise == SIM_MOVED_ON;
    if (t->taken && t->fences_before < SIM_FENCES)
        t->fence_before[t->fences_before++] = t->fence;
    t->again = t->taken;
    t->taken = true;
    t->made = w->now;
    t->fence = (uint64_t)k->created;
    t->dropped = false;
    t->ours = t->ours && t->orphan; /* what a release has deleted before was its own */
    if (first == number && t->promise != SIM_MOVED_ON) {
        sim_check_alone(w, key, number);
        given(w, number, key);
    }
}

/* ---- rests --------------------------------------------------------------------------------------- */

/* It lasts so long at least from when its key was created: each member may have the fastest clock. */
static sim_ns least_end(const sim_world *w, uint32_t number) {
    const sim_token *t = &w->token[number];
    return t->made + tl__rate_least_ns(t->rest_ms * SIM_MS, 2 * sim_clocks_ppm(w)) - SIM_MS;
}

static bool is_judged(sim_world *w, uint32_t number, int key) {
    return w->whole && sim_check_strict(w, key) && w->token[number].rest_ms > 0;
}

static void begins_to_rest(sim_world *w, const fake_etcd_key *k, uint32_t number, int key) {
    sim_rested *r = &w->rested[key][0];
    sim_token *t = &w->token[number];
    t->dropped = t->ours = true;
    if (r->token == number) {
        w->stats.rests_again++;
        return;
    }
    *r = (sim_rested){.token = number, .begun = w->now};
    w->stats.rests++;
    sim_ns end = end_of(w, k->lease);
    if (is_judged(w, number, key) && end < least_end(w, number))
        sim_fail(w, key, "token %u rests for %lld ms less than was asked for", (unsigned)number,
                 (long long)((least_end(w, number) - end) / SIM_MS));
}

static void ends_rest(sim_world *w, uint32_t number, int key) {
    sim_rested *r = &w->rested[key][0];
    if (r->token != number)
        return;
    r->token = 0;
    w->stats.rests_over++;
    if (is_judged(w, number, key) && !w->etcd.by_hand && w->now < least_end(w, number))
        sim_fail(w, key, "the rest of token %u is ended %lld ms too soon", (unsigned)number,
                 (long long)((least_end(w, number) - w->now) / SIM_MS));
}

static void deleted(sim_world *w, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    fake_etcd_key next;
    ends_rest(w, number, key);
    t->dropped = true;
    if (w->etcd.expires)
        w->stats.etcd_expired++;
    else if (!w->etcd.by_hand)
        t->ours = true;
    uint32_t first = first_of(w, key, &next);
    if (first && first != w->etcd.first[key] && w->token[first].promise == SIM_ASKING)
        given(w, first, key);
}

void sim_etcd_changed(sim_world *w, const sim_socket *by, const fake_etcd_key *k) {
    uint32_t number;
    int key = key_of(w, k->key, &number);
    w->stats.etcd_changes++;
    sim_mark(w, (uint64_t)k->changed);
    if (key < 0)
        return;
    sim_tell(w, "", key, "etcd, at revision %lld: the key of token %u %s, lease %llx%s",
             (long long)k->changed, (unsigned)number,
             k->deleted                 ? "is deleted"
             : k->created == k->changed ? "is created"
             : rests(k, number)         ? "rests"
                                        : "is renewed",
             (unsigned long long)k->lease,
             by && by->fd < 0 ? ", by a connection that is closed" : "");
    if (k->deleted)
        deleted(w, number, key);
    else if (k->created == k->changed)
        created(w, by, k, number, key);
    else if (rests(k, number))
        begins_to_rest(w, k, number, key);
    else if (w->rested[key][0].token == number)
        sim_fail(w, key, "the rest of token %u is ended by a renewal", (unsigned)number);
    else
        w->stats.keeps++;
    sim_check_key(w, key);
}

void sim_etcd_delete(sim_world *w, int number) {
    sim_key *key = &w->key[number];
    char prefix[32];
    int n = snprintf(prefix, sizeof prefix, "%s/", key->name);
    w->stats.deletes++;
    key->deleted_until = key->shaken_until = w->now + 3 * sim_config_longest_ms(&w->cfg) * SIM_MS;
    sim_tell(w, "", number, "somebody deletes %s by hand", key->name);
    w->etcd.by_hand = true;
    fake_etcd_delete(w->etcd.e, tl__bytes(prefix, (size_t)n));
    w->etcd.by_hand = false;
    sim_sockets_answer(w);
}

/* ---- what is told -------------------------------------------------------------------------------- */

void sim_etcd_ended(sim_world *w, const sim_lock *l, tl_err code) {
    bool ample = l->op_ms == TL_FOREVER || w->now - l->op_began < l->op_ms * SIM_MS / 2;
    bool unknown = code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE;
    if (w->calm_all_along && unknown && ample && (l->op == SIM_ACQUIRE || l->believed))
        sim_fail(w, l->key, "%s is told %s, and nothing was wrong", l->actor->name,
                 tl_err_name(code));
}

/* Nothing is left of it, but what a request makes that comes later still. */
void sim_etcd_cleaned(sim_world *w, const tl_job *job) {
    uint32_t number = sim_token_number(w, tl__token_bytes(&job->token));
    int key = sim_key_named(w, job->key);
    if (key >= 0 && w->whole && sim_etcd_has(w, key, number) && !w->token[number].orphan)
        sim_fail(w, key, "cleaning up ends, and the key of token %u is still there",
                 (unsigned)number);
}

void sim_etcd_end(sim_world *w) {
    int64_t seconds, most = (sim_config_longest_ms(&w->cfg) + 999) / 1000;
    w->stats.etcd_crossed += fake_etcd_crossed(w->etcd.e);
    if (w->cfg.rests)
        most += (3 * w->cfg.ttl_ms + 999) / 1000;
    for (size_t i = 0; fake_etcd_lease(w->etcd.e, i, &seconds); i++)
        if (seconds > most)
            sim_fail(w, SIM_ALL, "a lease of %lld s is left, which is longer than any lock's",
                     (long long)seconds);
    for (int i = 0; i < w->cfg.keys; i++) {
        fake_etcd_key first;
        if (first_of(w, i, &first) &&
            (!first.lease || fake_etcd_ends(w->etcd.e, first.lease, 0) == 0))
            sim_fail(w, i, "%s has a key that no lease will end", w->key[i].name);
    }
}
