/*
 * What must hold of a quorum: no client counts a vote for longer than its server keeps the key, nor a number that stands at
 * fewer than a majority; no token takes what has been given back, nor after its client was told no; and what is told is true.
 *
 * A majority that another has while somebody counts on the lock is found when it comes together.
 */
#include "world.h"
#include "renewals.h"

#include "client/lock_acquire.h"
#include "protocol/quorum_acquire.h"
#include "protocol/quorum_renew.h"

#define PROMPT_MS 1000 /* a released lock lies free for no longer, */
#define PROMPT_TRIPS 60
#define TRIES                                                                                      \
    20 /* and costs no more requests about votes, for each server and each that may contend */

enum { VOTE_TOKEN = 3, VOTE_NOT_AFTER = 5, VOTE_LEAST = 10 }; /* arguments, keys included */

/* ---- what servers have --------------------------------------------------------------------------- */

static tl_bytes value_at(sim_world *w, int server, int key) {
    tl_bytes value = {0};
    sim_server_set(w, server);
    (void)fake_redis_peek(w->server[server].r, 0, w->key[key].k, &value);
    return value;
}

/* Which of them hold the key for exactly this token. */
static unsigned holding(sim_world *w, int key, tl_bytes token) {
    unsigned n = 0;
    for (int i = 0; i < w->cfg.voters; i++)
        n += tl__bytes_eq(value_at(w, i, key), token);
    return n;
}

unsigned sim_quorum_votes(sim_world *w, int key, uint32_t number) {
    unsigned n = 0;
    for (int i = 0; i < w->cfg.voters; i++)
        n += sim_token_number(w, value_at(w, i, key)) == number &&
             w->quorum.vote[key][i].orphan != number;
    return n;
}

/* Which of the forms of its number it is. */
static uint32_t form_of(tl_bytes token) {
    char end = token.p[token.n - 1];
    return UINT32_C(1) << (end <= '9' ? end - '0' : end - 'a' + 10);
}

static unsigned majority(const sim_world *w) {
    return tl__quorum_of((unsigned)w->cfg.voters);
}

bool sim_quorum_has(sim_world *w, const sim_lock *l) {
    return holding(w, l->key, tl__token_bytes(&l->handle->token)) >= majority(w);
}

/* Until when it would have been this one's, had it not been lost there; 0: it wasn't. */
static int64_t ghost_ms(const sim_vote *v, tl_bytes token) {
    int64_t until_ms = 0;
    for (unsigned i = 0; i < SIM_GHOSTS; i++)
        if (tl__bytes_eq(tl__bytes_of(v->ghost[i].token), token) && v->ghost[i].until_ms > until_ms)
            until_ms = v->ghost[i].until_ms;
    return until_ms;
}

/* When, in true time, the server keeps the key for that token no longer; 0: it doesn't. */
static sim_ns end_at(sim_world *w, int server, int key, tl_bytes token) {
    const sim_server *s = &w->server[server];
    int64_t expiry_ms = ghost_ms(&w->quorum.vote[key][server], token);
    if (tl__bytes_eq(value_at(w, server, key), token)) {
        int64_t is_ms = fake_redis_peek_expiry(s->r, 0, w->key[key].k);
        expiry_ms = is_ms > expiry_ms ? is_ms : expiry_ms;
    }
    sim_clock theirs = sim_clock_from_here(w, &s->wall, 1);
    return expiry_ms > 0 ? sim_clock_when(&theirs, (expiry_ms + 1) * SIM_MS) : 0;
}

/* ---- votes that count ---------------------------------------------------------------------------- */

static void check_ballots(sim_world *w, int key, tl_bytes token, const tl_ballots *b) {
    const sim_host *h = w->thread->host;
    tl_mono now = sim_host_clock(w, h);
    sim_clock ours = sim_clock_from_here(w, &h->boot, -1);
    unsigned seen = 0;
    for (int i = 0; i < b->count && w->whole; i++) {
        int server = sim_quorum_at(w, i);
        if (!tl__mono_before(now, b->until[i]) || tl__is_disrupted(b->proved[i], h->frozen))
            continue; /* the holder is in doubt of this one */
        sim_ns end = sim_clock_when(&ours, b->until[i].ns), gone = end_at(w, server, key, token);
        if (gone == 0)
            sim_fail(w, key, "host %c counts a vote of server %d, which it hasn't", h->name,
                     server);
        else if (end > gone)
            sim_fail(w, key, "host %c counts a vote of server %d for %lld us longer than it lasts",
                     h->name, server, (long long)((end - gone + 999) / 1000));
        bool lately = w->quorum.back[server] > 0 &&
                      w->now < w->quorum.back[server] + sim_config_longest_ms(&w->cfg) * SIM_MS;
        if (seen >> server & 1 && !lately) /* then it is told by the other place, too late */
            sim_fail(w, key, "host %c counts server %d twice", h->name, server);
        seen |= 1U << server;
    }
}

/* By which the lock ends. */
static void check_deadline(sim_world *w, int key, const tl_ballots *b, tl_mono deadline) {
    if (tl__mono_before(tl__ballots_deadline(b), deadline))
        sim_fail(w, key, "host %c counts on a lock for longer than a majority of its votes lasts",
                 w->thread->host->name);
}

/* It stands there at a majority, but where a server has forgotten it since. */
static void check_number(sim_world *w, int key, uint64_t fence) {
    unsigned n = 0;
    for (int i = 0; i < w->cfg.voters; i++) {
        tl_bytes text = {0};
        int64_t counted = 0;
        sim_server_set(w, i);
        (void)fake_redis_peek(w->server[i].r, 0, w->key[key].f, &text);
        bool stands = tl__bytes_to_int(text, &counted) && (uint64_t)counted >= fence;
        n += stands || w->quorum.forgot[i] > 0;
    }
    if (n < majority(w) && w->whole)
        sim_fail(w, key, "host %c believes in a number that stands at %u servers",
                 w->thread->host->name, n);
}

static void acquired(sim_world *w, const tl_quorum_acquisition *a) {
    int key = sim_key_named(w, a->job.key);
    if (key < 0 || a->result.code != TL_OK)
        return;
    check_ballots(w, key, tl__token_bytes(&a->job.token), &a->ballots);
    check_deadline(w, key, &a->ballots, a->result.deadline);
    check_number(w, key, a->result.acquire.fence);
    w->token[sim_token_number(w, tl__token_bytes(&a->job.token))].held_at = w->now;
}

void sim_quorum_counts(sim_world *w, const tl_machine *m, tl_status status) {
    if (m->step == tl__lock_acquire_step) {
        const tl_quorum_acquisition *a = ((const tl_acquiring *)m->state)->room; /* first in it */
        if (a && status != TL_GO && a->result.code == TL_OK)
            acquired(w, a);
    } else if (m->step == tl__quorum_renew_step && status == TL_GO) {
        const tl_quorum_renewal *r = m->state;
        int key = sim_key_named(w, r->job.key);
        check_ballots(w, key, tl__token_bytes(&r->job.token), &r->ballots);
        check_deadline(w, key, &r->ballots, r->result.deadline);
    }
}

void sim_quorum_believed(sim_world *w, const sim_lock *l, tl_mono deadline) {
    const tl_ballots *b = &((const tl_quorum_renewal *)l->handle->room)->ballots;
    check_ballots(w, l->key, tl__token_bytes(&l->handle->token), b);
    check_deadline(w, l->key, b, deadline);
}

/* ---- what a server executes ---------------------------------------------------------------------- */

/* Where nothing goes wrong one who waits in the usual way has it soon. */
static void check_prompt(sim_world *w, const sim_request *m, int key) {
    const sim_lock *l = m->asked->lock;
    sim_ns free_since = w->key[key].free_since;
    w->key[key].free_since = SIM_NEVER;
    if (!w->calm_all_along || !l || !l->busy || free_since == SIM_NEVER)
        return;
    sim_ns most = PROMPT_MS * SIM_MS + PROMPT_TRIPS * w->cfg.delay + 8 * w->cfg.late;
    if (l->retry == TL_RETRY_AUTO && l->op_began < free_since && w->now - free_since > most)
        sim_fail(w, key, "%s lay free for %lld ms while %s waited", w->key[key].name,
                 (long long)((w->now - free_since) / SIM_MS), l->actor->name);
}

static void check_tries(sim_world *w, int key) {
    uint32_t tries = w->key[key].tries;
    w->key[key].tries = 0;
    if (w->stats.tries_most < tries)
        w->stats.tries_most = tries;
    if (w->calm_all_along && tries > (uint32_t)(TRIES * w->cfg.voters * w->cfg.actors))
        sim_fail(w, key, "%s costs %u requests about votes", w->key[key].name, (unsigned)tries);
}

/* So many have voted for it that nobody else may have it. */
static void given(sim_world *w, const sim_request *m, uint32_t number, int key) {
    sim_token *t = &w->token[number];
    sim_check_count(w, key, number);
    sim_rest_taken(w, m, number, true, key);
    check_tries(w, key);
    check_prompt(w, m, key);
    w->key[key].holder = number;
    t->turn = ++w->key[key].turns;
    t->again = t->taken;
    t->taken = true;
}

static void voted(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t had = 0;
    tl_bytes token = m->argv[VOTE_TOKEN];
    uint32_t number = sim_token_number(w, token);
    sim_token *t = &w->token[number];
    sim_vote *v = &w->quorum.vote[key][m->socket->server];
    (void)tl__reply_int(tl__reply_item(reply, 7), &had);
    w->stats.votes++;
    w->stats.votes_raised += had;
    if (had)
        return;
    sim_rest_voted(w, m->socket->server, number, key);
    w->stats.votes_again += t->promise == SIM_HAD;
    bool twice = w->cfg.twice; /* asked for by the other place, before it was known to be one */
    if (tl__bytes_eq(tl__bytes_of(v->dropped), token) && !w->cfg.fault[SIM_OOM] && !twice)
        sim_fail(w, key, "server %d votes for token %u, though that has been given back there",
                 (int)m->socket->server, (unsigned)number);
    sim_check_in_time(w, m, m->asked, m->argv[VOTE_NOT_AFTER], 0, key);
    w->stats.votes_late += t->promise == SIM_MOVED_ON;
    w->stats.votes_cancelled += t->promise == SIM_MOVED_ON && t->cancelled;
    v->orphan = t->undone[m->socket->server] & form_of(token) ? number : 0;
    w->stats.votes_orphaned += v->orphan > 0;
    if (v->orphan == 0)
        sim_check_promise(w, key, number);
    if (holding(w, key, token) != majority(w))
        return;
    sim_check_alone(w, key, number);
    if (t->promise == SIM_ASKING)
        given(w, m, number, key);
}

static void vote_executed(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0;
    sim_token *t = &w->token[sim_token_number(w, m->argv[VOTE_TOKEN])];
    if (!tl__reply_int(tl__reply_item(reply, 0), &status))
        return;
    w->key[key].tries += w->key[key].free_since != SIM_NEVER;
    switch (status) {
    case 1: voted(w, m, reply, key); break;
    case 0:
        w->stats.votes_refused++;
        t->refused = true;
        break;
    case -1: w->stats.late_refused++; break;
    case -2: w->stats.spent_refused++; break;
    case -4:
        w->stats.votes_withheld++;
        w->stats.quiet_refused++;
        t->refused = true;
        break;
    default: break;
    }
}

/* A vote is given back, or a lock is released. */
static void dropped(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0;
    int server = m->socket->server;
    tl_bytes token = m->argv[m->nkeys];
    uint32_t number = sim_token_number(w, token);
    sim_token *t = &w->token[number];
    sim_vote *v = &w->quorum.vote[key][server];
    bool ours = tl__reply_int(reply, &status) && status == 1;
    t->dropped = true;
    t->undone[server] |= form_of(token);
    (void)snprintf(v->dropped, sizeof v->dropped, "%.*s", (int)token.n, token.p);
    w->key[key].tries += m->script == TL_SCRIPT_UNVOTE && w->key[key].free_since != SIM_NEVER;
    w->stats.votes_back += ours && m->script == TL_SCRIPT_UNVOTE;
    if (!ours || m->script == TL_SCRIPT_UNVOTE)
        return;
    t->freed |= (uint8_t)(1U << server);
    t->ours = true;
    if (m->script == TL_SCRIPT_REST)
        sim_rest_executed(w, m, reply, key);
    else if (w->key[key].holder == number)
        w->key[key].free_since = w->now;
}

static void kept(sim_world *w, const sim_request *m, const tl_reply *reply, int key) {
    int64_t status = 0;
    size_t heads = m->nkeys + sim_check_heads(m);
    if (!tl__reply_int(tl__reply_item(tl__reply_item(reply, 2), 0), &status))
        return;
    w->stats.late_refused += status == -2;
    if (status != 1)
        return;
    int64_t spare = sim_check_spare(m->asked, m->argv[m->nkeys], m->argv[m->argc - 1]);
    w->stats.keeps++;
    w->stats.votes_kept++;
    sim_check_in_time(w, m, m->asked, m->argv[m->argc - 2], spare, key);
    w->token[sim_token_number(w, m->argv[heads])].bound = true;
}

static void check_built_for(sim_world *w, const sim_request *m) {
    const sim_asked *a = m->asked;
    if (a->hash && a->servers && !(a->servers >> m->socket->server & 1))
        sim_fail(w, SIM_ALL, "server %d executes for host %c what was built for another",
                 (int)m->socket->server, m->sender->name);
}

void sim_quorum_executed(sim_world *w, const sim_request *m, const tl_reply *reply) {
    int key = m->argc > 0 ? sim_key_named(w, m->argv[0]) : -1;
    check_built_for(w, m);
    if (key < 0)
        return;
    switch (m->script) {
    case TL_SCRIPT_VOTE: vote_executed(w, m, reply, key); break;
    case TL_SCRIPT_UNVOTE:
    case TL_SCRIPT_REST:
    case TL_SCRIPT_RELEASE: dropped(w, m, reply, key); break;
    case TL_SCRIPT_RENEW: kept(w, m, reply, key); break;
    default: break;
    }
    sim_check_key(w, key);
}

/* ---- what is told -------------------------------------------------------------------------------- */

void sim_quorum_had(sim_world *w, const sim_lock *l) {
    const tl_ballots *b = &((const tl_quorum_renewal *)l->handle->room)->ballots;
    unsigned live = ballots_live(b, sim_host_clock(w, w->thread->host));
    w->stats.shared += live < b->count;
}

static void check_acquire(sim_world *w, const sim_lock *l, tl_err code) {
    const sim_token *t = &w->token[l->number];
    bool busy = code == TL_EBUSY || code == TL_ETIMEDOUT;
    if (busy && t->asks && !t->refused && w->whole)
        sim_fail(w, l->key, "%s is told that another has the lock, which no server has said",
                 l->actor->name);
    bool ample = l->op_ms == TL_FOREVER || w->now - l->op_began < l->op_ms * SIM_MS / 2;
    bool all_needed = w->cfg.twice &&
                      w->cfg.voters == 3; /* then one that another has is enough to fail it */
    if (w->calm_all_along && ample && !all_needed &&
        (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE))
        sim_fail(w, l->key, "%s is told %s, and nothing was wrong", l->actor->name,
                 tl_err_name(code));
}

static void check_release(sim_world *w, const sim_lock *l, tl_err code) {
    const sim_token *t = &w->token[l->number];
    bool over = code == TL_EEXPIRED || code == TL_ETAKEN;
    bool rests = t->rest_ms >
                 0; /* a lock that is lost meanwhile doesn't, though it is given back */
    if (over && w->whole && l->believed && !l->noted_lost && !rests &&
        tl__quorum_bits(t->freed) >= majority(w))
        sim_fail(w, l->key, "%s is told that its lock was over, and a majority has given it back",
                 l->actor->name);
    if (w->calm_all_along && code != TL_OK && !over && l->believed) /* it may end on the way */
        sim_fail(w, l->key, "%s is told %s, and nothing was wrong", l->actor->name,
                 tl_err_name(code));
}

void sim_quorum_ended(sim_world *w, const sim_lock *l, tl_err code, bool asked) {
    if (l->op == SIM_ACQUIRE && code != TL_OK && asked)
        check_acquire(w, l, code);
    else if (l->op == SIM_RELEASE)
        check_release(w, l, code);
}

/* Of a release, of that token; of who has acquired it, of the others; of who hasn't, of all that it has asked for. */
void sim_quorum_cleaned(sim_world *w, const tl_job *job, bool releases, bool acquired) {
    int key = sim_key_named(w, job->key);
    uint32_t number = sim_token_number(w, tl__token_bytes(&job->token));
    if (w->cfg.twice) /* what one place has asked the other may not take back */
        return;
    for (int i = 0; i < w->cfg.voters && key >= 0; i++) {
        tl_bytes value = value_at(w, i, key);
        bool same = tl__bytes_eq(value, tl__token_bytes(&job->token));
        bool meant = sim_token_number(w, value) == number && (same ? !acquired : !releases);
        if (meant && w->quorum.vote[key][i].orphan != number)
            sim_fail(w, key, "cleaning up ends, and server %d still holds %s for token %u", i,
                     w->key[key].name, (unsigned)number);
    }
}

/* ---- at any time, and at the end ------------------------------------------------------------------ */

void sim_quorum_changed(sim_world *w, int key) {
    for (int i = 0; i < w->cfg.actors && !w->failed; i++)
        if (w->actor[i].key == key && w->actor[i].kind->check)
            w->actor[i].kind->check(w, &w->actor[i]);
}

void sim_quorum_end(sim_world *w, int key) {
    int64_t most_ms = sim_config_longest_ms(&w->cfg) + 1;
    for (int i = 0; i < w->cfg.voters; i++) {
        bool there = sim_token_number(w, value_at(w, i, key)) > 0;
        const fake_redis *r = w->server[i].r;
        int64_t expiry_ms = fake_redis_peek_expiry(r, 0, w->key[key].k);
        if (there && (expiry_ms < 0 || expiry_ms > fake_redis_time(r) / 1000 + most_ms))
            sim_fail(w, key, "%s is left behind at server %d for longer than a lifetime",
                     w->key[key].name, i);
    }
}
