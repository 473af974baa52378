/*
 * What must hold of a lock that rests, at each command of a server: it is acquired by nobody before its end, by that server's
 * clock; no request of the last holder that comes late ends the rest, makes it shorter or longer; a waiter acquires the lock soon
 * after its end. The end is no earlier than was asked for, counted from when the server gave the lock, and hardly later. Whoever
 * is told that the lock rests is told the truth.
 *
 * Somebody may delete the key by hand. Then S still keeps others out. A server of a quorum may come back empty.
 */
#include "world.h"

#include <stdio.h>
#include <string.h>

#define WORD "resting "
#define LOOK_MS 5000 /* who waits for an end looks so often, whatever it hears, */
#define POLL_MS 251  /* or where nothing is to be heard */
#define TRIPS 60
#define LEASE_US 5000000
#define MOVED_US 2100 /* by how much another node may keep it for longer, or shorter */
#define UNSURE_US                                                                                  \
    300000 /* which a client may not know of a clock that it has looked at a second ago */

static sim_rested *rested_at(sim_world *w, int server, int key) {
    return &w->rested[key][w->cfg.voters ? server : 0];
}

/* The server where it rests. */
static int server_of(sim_world *w, int index, int key) {
    return w->cfg.voters ? index : sim_home_of(w, w->key[key].k);
}

static int records(const sim_world *w) {
    return w->cfg.voters ? w->cfg.voters : 1;
}

static int64_t now_us(const sim_world *w, int server) {
    return sim_server_us(w, &w->server[server]);
}

/* By that server's clock. A replica that takes over has the same end, and a clock of its own. */
static bool is_on(sim_world *w, int index, int key) {
    const sim_rested *r = &w->rested[key][index];
    int server = server_of(w, index, key);
    bool replaced = sim_shard_of(w, server) == sim_shard_of(w, r->server);
    return r->token > 0 && now_us(w, replaced ? server : r->server) < r->ends_us;
}

static bool is_rest_of(const sim_world *w, tl_bytes value, uint32_t number) {
    const size_t n = sizeof WORD - 1;
    const char *space = value.n > n && memcmp(value.p, WORD, n) == 0
                            ? memchr(value.p + n, ' ', value.n - n)
                            : NULL;
    size_t left = space ? (size_t)(value.p + value.n - space - 1) : 0;
    return space && sim_token_number(w, tl__bytes(space + 1, left)) == number;
}

/* May a legacy client delete the key, or overwrite it? */
static bool is_disturbed(const sim_world *w, int key) {
    return w->cfg.stamps ? !w->legacy || !sim_check_strict(w, key) : w->key[key].mixed;
}

/* Do the assumptions hold by which a rest is what was asked for? A server that takes over has a clock of its own, and so does
 * one that the slot has moved to. */
static bool is_assumed(const sim_world *w, uint32_t number, int server, int key) {
    bool same = w->cfg.voters || w->token[number].first_at == server;
    return w->whole && !is_disturbed(w, key) && !w->cfg.sentinel && same &&
           w->shard[sim_shard_of(w, server)].promoted == 0;
}

static void forget(sim_rested *r) {
    sim_rested_voted voted = r->voted;
    *r = (sim_rested){.voted = voted};
}

/* ---- it begins ------------------------------------------------------------------------------------ */

/* When this server gave it the lock, by its clock; 0: that isn't known. */
static int64_t given_us(const sim_world *w, const sim_rested *r, uint32_t number) {
    if (!w->cfg.voters)
        return w->token[number].first_us;
    bool counted = r->voted.token == number && r->voted.at <= w->token[number].held_at;
    return counted ? r->voted.us : 0;
}

static void check_end(sim_world *w, const sim_request *m, const sim_rested *r, int key) {
    const sim_token *t = &w->token[r->token];
    int64_t given = given_us(w, r, r->token), asked_us = t->rest_ms * 1000;
    int64_t slack_us = 2100 * (w->cfg.attempt_ms + w->cfg.connect_ms) + UNSURE_US;
    int64_t held_us = now_us(w, m->socket->server) - t->had_us;
    if (t->joined) /* a grant is believed while its lease is at half at least */
        slack_us += held_us * 3 * w->cfg.drift_ppm / 1000000 + LEASE_US / 2;
    if (given == 0 || t->rest_ms == 0 || !is_assumed(w, r->token, m->socket->server, key))
        return;
    if (r->ends_us < given + asked_us)
        sim_fail(w, key, "token %u rests for %lld us less than was asked for", (unsigned)r->token,
                 (long long)(given + asked_us - r->ends_us));
    bool tells = w->cfg.level >= FAKE_LEVEL(3, 2, 0) && !w->cfg.voters && t->had_us > 0 &&
                 !w->cfg.fault[SIM_FREEZE] &&                      /* the hold seemed shorter */
                 r->ends_us > now_us(w, m->socket->server) + 3000; /* it was not over */
    if (tells && r->ends_us > t->had_us + asked_us + slack_us)
        sim_fail(w, key, "token %u rests for %lld us more than was asked for", (unsigned)r->token,
                 (long long)(r->ends_us - t->had_us - asked_us));
}

void sim_rest_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int server = m->socket->server;
    sim_rested *r = rested_at(w, server, key);
    tl_bytes value = {0};
    int64_t status = 0;
    uint32_t number = sim_token_number(w, m->argv[m->nkeys]);
    w->token[number].dropped = true;
    if (!tl__reply_int(reply, &status) || status != 1)
        return;
    w->token[number].ours = true;
    (void)fake_redis_peek(w->server[server].r, 0, w->key[key].k, &value);
    tl_bytes rest = value; /* a stamp is one as S says */
    if (w->cfg.stamps && !is_rest_of(w, value, number))
        (void)fake_redis_peek_field(w->server[server].r, 0, w->key[key].s, TL_LITERAL("token"),
                                    &rest);
    if (!is_rest_of(w, rest, number) || value.n >= sizeof r->text)
        sim_fail(w, key, "token %u is told that it rests, and it doesn't", (unsigned)number);
    if (r->token == number || w->failed) {
        w->stats.rests_again++;
        return;
    }
    forget(r);
    r->token = number;
    r->begun = w->now;
    r->server = server;
    r->ends_ms = fake_redis_peek_expiry(w->server[server].r, 0, w->key[key].k);
    r->ends_us = (r->ends_ms + 1) * 1000;
    (void)snprintf(r->text, sizeof r->text, "%.*s", (int)value.n, value.p);
    if (w->cfg.stamps) /* K outlasts the rest, for clocks that are behind */
        r->ends_us = given_us(w, r, number) + w->token[number].rest_ms * 1000;
    w->key[key].rested = sim_clock_when(&w->server[server].wall, r->ends_us * 1000);
    w->stats.rests++;
    w->stats.rests_alone += m->nkeys == 1;
    sim_tell(w, "", key, "token %u rests until %lld ms, by the clock of server %d",
             (unsigned)number, (long long)(w->key[key].rested / SIM_MS), server);
    check_end(w, m, r, key);
}

/* A rest counts from the first vote. A holder that has lost one may ask for it again. */
void sim_rest_voted(sim_world *w, int server, uint32_t number, int key) {
    sim_rested *r = rested_at(w, server, key);
    if (r->voted.token != number)
        r->voted = (sim_rested_voted){number, now_us(w, server), w->now};
}

/* What was over by the clock of the former master is over, whatever that of the next one shows. Below 3.2 S binds by what
 * a client takes for the server's clock. */
void sim_rest_replaced(sim_world *w, int former, int next) {
    for (int key = 0; key < w->cfg.keys; key++) {
        sim_rested *r = &w->rested[key][0];
        if (r->server == former && now_us(w, former) >= r->ends_us)
            forget(r);
        else if (r->server == former)
            r->server = next, r->binds = r->binds && w->cfg.level >= FAKE_LEVEL(3, 2, 0);
    }
}

/* ---- nothing moves it ----------------------------------------------------------------------------- */

/* By hand. S binds for 1 ms less. */
void sim_rest_deleted(sim_world *w, int server, int key) {
    sim_rested *r = rested_at(w, server, key);
    const fake_redis *store = w->server[server].r;
    tl_bytes token = {0}, until = {0};
    if (!is_on(w, w->cfg.voters ? server : 0, key) || r->gone)
        return;
    (void)fake_redis_peek_field(store, 0, w->key[key].s, TL_LITERAL("token"), &token);
    (void)fake_redis_peek_field(store, 0, w->key[key].s, TL_LITERAL("until"), &until);
    r->gone = true;
    r->binds = tl__bytes_eq(token, tl__bytes_of(r->text)) && tl__bytes_to_int(until, &r->ends_us);
}

/* With its slot, for what is left; or to a replica, which has the same end. */
static void note_place(sim_world *w, sim_rested *r, int server, int key) {
    int64_t left_us = r->ends_us - now_us(w, r->server);
    int64_t ends_ms = fake_redis_peek_expiry(w->server[server].r, 0, w->key[key].k);
    int64_t more_us = (ends_ms + 1) * 1000 - now_us(w, server) - left_us;
    if (ends_ms != r->ends_ms && (more_us > MOVED_US || more_us < -MOVED_US))
        sim_fail(w, key, "the rest of token %u is moved by %lld us on its way", (unsigned)r->token,
                 (long long)more_us);
    r->server = server;
    r->ends_ms = ends_ms;
    r->ends_us = (ends_ms + 1) * 1000;
    w->key[key].rested = sim_clock_when(&w->server[server].wall, r->ends_us * 1000);
}

static void check_unmoved(sim_world *w, int index, int key) {
    sim_rested *r = &w->rested[key][index];
    int server = server_of(w, index, key);
    tl_bytes value = {0};
    if (!is_on(w, index, key) || r->gone)
        return;
    bool forgot = w->cfg.voters && w->quorum.forgot[server] > r->begun;
    bool replaced = w->cfg.stamps && (w->shard[sim_shard_of(w, server)].promoted > r->begun ||
                                      server != r->server); /* its end is by another clock */
    if (!w->whole || w->cfg.sentinel || is_disturbed(w, key) || forgot || replaced) {
        forget(r);
        return;
    }
    sim_server_set(w, server);
    (void)fake_redis_peek(w->server[server].r, 0, w->key[key].k, &value);
    if (server != r->server && tl__bytes_eq(value, tl__bytes_of(r->text)))
        note_place(w, r, server, key);
    int64_t ends_ms = fake_redis_peek_expiry(w->server[server].r, 0, w->key[key].k);
    if (!tl__bytes_eq(value, tl__bytes_of(r->text)))
        sim_fail(w, key, "the rest of token %u is ended %lld ms too soon", (unsigned)r->token,
                 (long long)(r->ends_ms - now_us(w, server) / 1000));
    else if (ends_ms != r->ends_ms)
        sim_fail(w, key, "the rest of token %u is moved by %lld ms", (unsigned)r->token,
                 (long long)(ends_ms - r->ends_ms));
}

void sim_rest_check(sim_world *w, int key) {
    for (int i = 0; i < records(w) && !w->failed; i++)
        check_unmoved(w, i, key);
}

/* ---- it ends -------------------------------------------------------------------------------------- */

/* Where nothing goes wrong, one who has waited for it in the usual way acquires the lock soon. */
static void check_prompt(sim_world *w, const sim_request *m, int key) {
    const sim_lock *l = m->asked->lock;
    sim_ns over = w->key[key].rested;
    w->key[key].rested = SIM_NEVER;
    if (!w->calm_all_along || w->cfg.stamps || !l || !l->busy || over > w->now)
        return;
    sim_ns most = tl__rate_most_ns((LOOK_MS + POLL_MS) * SIM_MS, w->cfg.drift_ppm) +
                  TRIPS * w->cfg.delay + 8 * w->cfg.late;
    if (l->retry == TL_RETRY_AUTO && l->op_began < over && w->now - over > most)
        sim_fail(w, key, "%s lay free for %lld ms after a rest while %s waited", w->key[key].name,
                 (long long)((w->now - over) / SIM_MS), l->actor->name);
}

/* heeds: by a request that heeds S, too. */
void sim_rest_taken(sim_world *w, const sim_request *m, uint32_t number, bool heeds, int key) {
    int on = 0, known = 0;
    for (int i = 0; i < records(w); i++) {
        sim_rested *r = &w->rested[key][i];
        if (w->cfg.stamps && w->shard[0].promoted > r->begun)
            forget(r); /* it ends by another clock, and a stamp tells of none */
        known += r->token > 0;
        on += is_on(w, i, key) && (!r->gone || (r->binds && heeds)) &&
              (!w->cfg.voters || w->quorum.forgot[i] < r->begun);
    }
    if (known == 0)
        return;
    if (on > records(w) / 2 && w->whole && !w->cfg.sentinel && !is_disturbed(w, key))
        sim_fail(w, key, "token %u takes %s, which rests", (unsigned)number, w->key[key].name);
    check_prompt(w, m, key);
    w->stats.rests_over++;
    for (int i = 0; i < records(w); i++)
        if (!is_on(w, i, key))
            forget(&w->rested[key][i]);
}

/* A legacy client has acquired it. After somebody has deleted it by hand, one may delete another's. */
void sim_rest_stolen(sim_world *w, const sim_actor *a, int key) {
    const sim_rested *r = &w->rested[key][0];
    bool excluded = w->whole && w->legacy && !w->cfg.late_dels && !w->cfg.sentinel &&
                    w->shard[0].promoted <= r->begun && w->key[key].deleted_until < r->begun;
    if (is_on(w, 0, key) && !r->gone && excluded)
        sim_fail(w, key, "%s locks %s, which rests for token %u", a->name, w->key[key].name,
                 (unsigned)r->token);
}

/* ---- what is told --------------------------------------------------------------------------------- */

/* A lock was had. Native commands, which don't heed S, may have set the key while S kept others out: that is none. */
void sim_rest_had(sim_world *w, const sim_lock *l) {
    const sim_rested *r = &w->rested[l->key][0];
    if (w->cfg.voters || !is_on(w, 0, l->key) || r->begun > l->op_began || !w->whole)
        return;
    if (r->token != l->number && (!r->gone || r->binds) && !w->key[l->key].mixed &&
        !w->cfg.sentinel)
        sim_fail(w, l->key, "%s has %s, which rests", l->actor->name, w->key[l->key].name);
}

/* Long enough ago for the rest to be over. */
static bool may_be_over(sim_world *w, const sim_lock *l) {
    const sim_token *t = &w->token[l->number];
    if (!w->cfg.voters && !w->cfg.members)
        return now_us(w, sim_home_of(w, w->key[l->key].k)) >= t->first_us + t->rest_ms * 1000;
    return w->now - l->had_at >=
           tl__rate_least_ns(t->rest_ms * SIM_MS, 2 * sim_clocks_ppm(w)) - SIM_MS;
}

/* The release of a lock that was to rest has ended so. */
void sim_rest_ended(sim_world *w, const sim_lock *l, tl_err code) {
    const sim_token *t = &w->token[l->number];
    int rests = 0, home = w->cfg.voters ? 0 : sim_home_of(w, w->key[l->key].k);
    for (int i = 0; i < records(w); i++) {
        const sim_rested *r = &w->rested[l->key][i];
        rests += r->token == l->number || (w->cfg.voters && w->quorum.forgot[i] > l->op_began);
    }
    bool ends = l->max_hold_ms > 0 ||
                l->stall_ms > 0; /* by themselves: what is lost doesn't rest */
    bool deleted = w->key[l->key].deleted_until >= l->op_began;
    bool counts = code == TL_OK && !deleted && t->rest_ms > 0 && t->first_us + l->had_at > 0 &&
                  l->believed && !ends && !l->noted_lost &&
                  is_assumed(w, l->number, home, l->key) && !may_be_over(w, l);
    if (counts && rests <= records(w) / 2)
        sim_fail(w, l->key, "%s is told that %s rests, and it doesn't", l->actor->name,
                 w->key[l->key].name);
}
