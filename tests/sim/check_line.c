/*
 * What those who stand in line are promised, where nothing goes wrong and no others share the key: their turn, soon, for few
 * requests. Each bound follows from what is documented, not from what is seen:
 *
 *   - the lock is given in the order in which the server saw them, and to nobody else while they stand there;
 *   - the holder may pass it on within its process 49 times and for a second, if nobody stood there when it was given the lock;
 *   - so whoever comes waits for 49 holds at most, the present one, and one for each that stands before it;
 *   - a lock that is released is given to the first as soon as messages and a look take, one that has run out 5 s later at
 *     most by the clock of who is the first;
 *   - a waiter looks when it is told to, or after as long as it was told by its place and by the time that the key has left.
 */
#include "world.h"

#define PASSES 49
#define PASS_MS 1000
#define FIRST 3 /* so many look at the end of the key's time */
#define FIRST_MS 5000
#define BEHIND_MS 15000
#define MOST_MS 60000
#define POLL_MS 50
#define SECOND_MS 1000
#define NAMED_MS 2 /* as in src/transport/conn_site.c: it is looked for so often */

/* For some messages and answers, a new connection included, and those who wait for them. In a cluster the master is to be
 * confirmed besides, before and perhaps after. */
static sim_ns trips(const sim_world *w) {
    sim_ns confirmed = w->cfg.fleet ? 8 * w->cfg.delay + 2 * NAMED_MS * SIM_MS : 0;
    return 12 * w->cfg.delay + 4 * w->cfg.late + confirmed;
}

static bool is_promised(const sim_world *w) {
    return w->calm_all_along && !w->cfg.stamps && w->cfg.level >= FAKE_LEVEL(3, 2, 0);
}

/* The token for which a lock stands in line now; NULL: it doesn't. */
static sim_token *standing(sim_world *w, const sim_actor *a, int key) {
    const sim_lock *l = sim_lock_at(a);
    if (!l || !l->busy || l->op != SIM_ACQUIRE || l->key != key || l->drawn == l->former)
        return NULL;
    sim_token *t = &w->token[l->drawn];
    return t->waits && !t->dropped ? t : NULL;
}

void sim_line_comes(sim_world *w, const sim_request *m, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    bool had = t->taken && !t->beside; /* what was taken beside the line has been given back */
    if (t->stood > 0 || had || !is_promised(w))
        return;
    t->inherits = m->argv[m->nkeys + 6].n > 0;
    for (int i = 0; t->inherits && i < w->cfg.actors; i++) {
        sim_token *b = standing(w, &w->actor[i], key);
        if (b && b != t && b->ticket > t->ticket) { /* who stood before it has come back */
            b->before++;
            b->holds++;
        }
    }
}

void sim_line_stands(sim_world *w, const sim_request *m, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    sim_server *s = &w->server[sim_home_of(w, w->key[key].l)];
    char text[600];
    int64_t before = 0;
    if (t->waits || !is_promised(w)) /* one that took it natively may have had to give it back */
        return;
    int n = snprintf(text, sizeof text, "%.*s %.*s %.*s %.*s %.*s", (int)m->argv[m->nkeys].n,
                     m->argv[m->nkeys].p, (int)m->argv[m->nkeys + 1].n, m->argv[m->nkeys + 1].p,
                     (int)m->argv[m->nkeys + 4].n, m->argv[m->nkeys + 4].p,
                     (int)m->argv[m->nkeys + 5].n, m->argv[m->nkeys + 5].p,
                     (int)m->argv[m->nkeys + 3].n, m->argv[m->nkeys + 3].p);
    tl_bytes argv[] = {TL_LITERAL("ZRANK"), w->key[key].l, tl__bytes(text, (size_t)n)};
    if (!tl__reply_int(fake_conn_command(s->runner, argv, 3), &before))
        return;
    t->waits = true;
    t->stood = w->now;
    t->before = (uint32_t)before;
    t->holds = (uint32_t)before + 1 + PASSES;
}

/* ---- whose turn it is -------------------------------------------------------------------------------- */

static void check_order(sim_world *w, const sim_token *t, const sim_actor *a, sim_token *b,
                        int key) {
    if (b->before == 0)
        sim_fail(w, key, "%s is given to one more before %s than stood in line before it",
                 w->key[key].name, a->name);
    else
        b->before--;
    if (!t->inherits && b->stood < (t->stood > 0 ? t->stood : w->now))
        sim_fail(w, key, "%s is given to another before %s, who has stood in line for longer",
                 w->key[key].name, a->name);
}

static void check_idle(sim_world *w, const sim_actor *a, const sim_token *b, int key) {
    const sim_key *k = &w->key[key];
    bool released = k->free_since != SIM_NEVER;
    sim_ns since = released ? k->free_since : k->ends;
    sim_ns idle = w->now - (since > b->stood ? since : b->stood);
    sim_ns look = tl__rate_most_ns(FIRST_MS * SIM_MS, w->cfg.drift_ppm);
    if (idle > trips(w) + (released ? 0 : look))
        sim_fail(w, key, "%s lay free for %lld ms while %s stood in line", w->key[key].name,
                 (long long)(idle / SIM_MS), a->name);
}

/* It goes out, and comes back: those of one process in any order. */
static void go_out(sim_token *t) {
    t->waits = false;
    t->stood = 0;
}

void sim_line_lapsed(sim_world *w, uint64_t claim, int key) {
    for (int i = 0; i < w->cfg.actors && is_promised(w); i++) {
        sim_token *t = standing(w, &w->actor[i], key);
        if (t && t->inbox == claim)
            go_out(t);
    }
}

void sim_line_given(sim_world *w, uint32_t number, uint64_t claim, int key) {
    sim_token *t = &w->token[number];
    t->passes = 0;
    t->given = w->now;
    for (int i = 0; i < w->cfg.actors && !w->failed && is_promised(w); i++) {
        sim_token *b = standing(w, &w->actor[i], key);
        if (!b)
            continue;
        if (claim && b->inbox == claim) {
            go_out(b);
            continue;
        }
        check_idle(w, &w->actor[i], b, key);
        if (b != t)
            check_order(w, t, &w->actor[i], b, key);
    }
    t->waits = false;
}

/* ---- how long it takes ------------------------------------------------------------------------------- */

/* It knows of what it was given, and another process's waiters have one hold less to wait for. */
void sim_line_had(sim_world *w, const sim_lock *l) {
    const sim_token *given = &w->token[l->number];
    bool passed = l->fence != given->fence; /* within the process, on one that was reserved */
    bool knows = passed || l->loops || given->stood == 0 || w->now - given->given <= trips(w);
    if (!knows && is_promised(w))
        sim_fail(w, l->key, "%s has been given %s for %lld ms before it knows", l->actor->name,
                 w->key[l->key].name, (long long)((w->now - given->given) / SIM_MS));
    for (int i = 0; i < w->cfg.actors && !w->failed && is_promised(w); i++) {
        const sim_lock *b = sim_lock_at(&w->actor[i]);
        sim_token *t = standing(w, &w->actor[i], l->key);
        if (!t || b == l || b->client == l->client)
            continue;
        if (t->holds == 0)
            sim_fail(w, l->key, "%s stands in line for more holds of others than is promised",
                     w->actor[i].name);
        else
            t->holds--;
    }
}

void sim_line_told(sim_world *w, uint32_t number, int64_t others) {
    w->token[number].others = others > 0;
}

void sim_line_passed(sim_world *w, const sim_lock *l) {
    sim_token *t = &w->token[l->number];
    sim_ns most = tl__rate_most_ns(PASS_MS * SIM_MS, w->cfg.drift_ppm) + trips(w);
    if (++t->passes > PASSES)
        sim_fail(w, l->key, "%s passes on what has been passed on %d times", l->actor->name,
                 PASSES);
    if (l->fair)
        sim_fail(w, l->key, "%s is to be fair, and passes the lock on", l->actor->name);
    if (!is_promised(w))
        return;
    if (w->now - t->given > most)
        sim_fail(w, l->key, "%s passes on what the process has had for %lld ms", l->actor->name,
                 (long long)((w->now - t->given) / SIM_MS));
    if (t->others)
        sim_fail(w, l->key, "%s passes the lock on, though others stood in line when it was given",
                 l->actor->name);
}

/* ---- requests ---------------------------------------------------------------------------------------- */

static int64_t told_pause_ms(const tl_reply *reply) {
    int64_t left = -1, before = 0, announced = 0;
    (void)tl__reply_int(tl__reply_item(reply, 2), &left);
    (void)tl__reply_int(tl__reply_item(reply, 7), &before);
    (void)tl__reply_int(tl__reply_item(reply, 9), &announced);
    if (before >= FIRST) {
        int64_t pause = BEHIND_MS + before * 1000;
        return pause < MOST_MS ? pause : MOST_MS;
    }
    int64_t pause = announced ? FIRST_MS : before > 0 ? SECOND_MS : POLL_MS;
    return left >= 0 && left < pause ? left : pause;
}

void sim_line_looked(sim_world *w, const tl_reply *reply, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    sim_ns since = w->now - t->looked;
    int64_t before = 0;
    (void)tl__reply_int(tl__reply_item(reply, 7), &before);
    int64_t pause_ms = before < FIRST && t->pause_ms > FIRST_MS ? FIRST_MS : t->pause_ms;
    sim_ns least = tl__rate_least_ns(pause_ms * SIM_MS, w->cfg.drift_ppm);
    /* A call that came while it looked may have been sent before that was executed. */
    bool called = t->taken || t->rest_ends_wait || w->key[key].called + trips(w) >= t->looked;
    bool leads = w->cfg.fleet; /* what is learned of a slot has its waiters look, too */
    if (t->looked > 0 && is_promised(w) && !called && !leads && since < least)
        sim_fail(w, key, "token %u looks again after %lld ms, and nobody has called it",
                 (unsigned)number, (long long)(since / SIM_MS));
    t->looked = w->now;
    t->pause_ms = told_pause_ms(reply);
}
