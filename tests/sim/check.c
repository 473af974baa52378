/*
 * What must hold on the clients' side: promises that operations make, and beliefs.
 */

/*
 * The promises that hold in every run while its assumptions hold. `grep -rA3 'sim_fail(' tests/sim` prints the
 * messages.
 *
 * The lock:
 * - While a holder may rely on its lock, the key has its value. No other token or plain client acquires or relies on it.
 * - A holder's deadline is no later than the earliest expiry of the key, to the nanosecond of both clocks.
 * - Fencing numbers strictly increase from holder to holder, whatever is lost. None is more than a second behind the
 *   server's clock.
 * - A number drawn by a native command counts only if no earlier number was larger. A number that a process passes on
 *   was reserved.
 * - No acquire and no renewal takes effect after its sender's limit (from 3.2), nor an acquire of the token that was
 *   released last.
 * - A client acquires nothing over a connection that it has ended by CLIENT KILL ID. It ends no other client's
 *   connection.
 * - No key stays for longer than a lifetime. Where nothing goes wrong, a released lock is not idle while a waiter
 *   exists.
 *
 * Results:
 * - LOST is reported by the deadline and by the longest hold, and only for a reason. A lock that is reported as held has
 *   not expired.
 * - No holder that gives signs of life often enough is called stalled. One that gives none holds the lock for no longer
 *   than stall_ms and a lifetime.
 * - A released lock is free or another client's. A release that reports "held until now" is right.
 * - After BUSY, TIMEDOUT or UNAVAILABLE with nothing left to undo, the client never acquires the lock by that call.
 * - Leftovers are cleaned up. The clean-up ends with an executed release, or when a release has no use.
 * - A refusal is one line with the server and the reason: the missing permission, or the node that has the key. It comes
 *   at once.
 * - No lock is AT_RISK because its neighbours' keys are out of reach.
 * - Every operation ends by its limit. Every machine ends, and none makes steps forever at one instant.
 * - A client reports a step of the server's clock only when there was one. It then checks all its locks at once.
 * - An event is reported once, in order, within a millisecond if its thread could run. A callback runs once, none after
 *   a free.
 * - Closing a client ends by its limit. Then no thread, descriptor or piece of memory of its process is left.
 * - No thread waits or ends with a mutex, or frees one in use.
 *
 * The queue (check_line.c has its bounds):
 * - A waiter whose inbox has a subscriber is granted the lock before all later ones, unless no client may publish.
 * - An inbox that let a grant lapse receives none until it looks again. A waiter keeps the rank that it was given.
 * - A grant counts only if it comes from the server at which the client waits.
 * - A client that acquires natively while others queue has a script grant the lock onwards. S knows of a lock soon after
 *   a second.
 * - Within a client, no lock that waits in the usual way is served before one that queued earlier. It is passed on with
 *   the next of the reserved numbers, larger than all that were reported before.
 *
 * Exceptions: a stopped host's time limits begin again when it resumes. After a deletion by hand a plain client may hold
 * beside the holder, since S does not bind it. Where Java shares a key with tokens its late DEL or GETSET may remove a
 * key: then only tokens exclude each other, and the others are counted. A cancelled acquire may leave an orphan for one
 * lifetime, which is counted: it lay in a buffer, and its own release and another client's release overtook it.
 *
 * Assumptions broken on purpose: one seed of 64 has `jump`, `lossy`, `quick` or `forget`. There two holders at once and
 * fences that do not increase are counted, and all else must hold. `slow-clocks` is for scenarios. A server's clock
 * never steps back.
 */
#include "world.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define BEHIND_US 1000000 /* so far a fence may be behind the server's clock */
#define SLACK_MS                                                                                   \
    3 /* two timers may be late by less than one each, and a wait that is over is given one */

void sim_fail(sim_world *w, int key, const char *format, ...) {
    if (w->failed)
        return;
    va_list args;
    va_start(args, format);
    (void)vsnprintf(w->failure, sizeof w->failure, format, args);
    va_end(args);
    w->failed = true;
    w->failed_at = w->now;
    w->failed_key = key;
    w->failure_kind = format;
    sim_tell(w, "", key, "FAILS: %s", w->failure);
}

/* ---- tokens ------------------------------------------------------------------------------------ */

#define TOKEN_START "51b0c4de-0000-4000-8000-"

void sim_tokens_reset(sim_world *w) {
    w->tokens = 0;
    if (w->token_room == 0) {
        w->token_room = 1024;
        w->token = malloc(w->token_room * sizeof(sim_token));
    }
    if (!w->token)
        abort();
    w->token[0] = (sim_token){0}; /* stands for those that are nobody's */
}

/* Whoever asks several servers makes others of it, which differ in the last six digits. */
static size_t last_digit(const sim_world *w) {
    return w->cfg.voters ? sizeof TOKEN_START + 4 : sizeof TOKEN_START + 10;
}

uint32_t sim_token_new(sim_world *w, const sim_host *host, tl_token *ret) {
    uint32_t n = ++w->tokens;
    if (n == w->token_room) {
        w->token_room *= 2;
        w->token = realloc(w->token, w->token_room * sizeof(sim_token));
        if (!w->token)
            abort();
    }
    w->token[n] = (sim_token){.host = host->id};
    memcpy(ret->text, TOKEN_START "000000000000", sizeof TOKEN_START + 12);
    for (size_t i = last_digit(w); n > 0; n /= 10)
        ret->text[i--] = (char)('0' + n % 10);
    return w->tokens;
}

/* "1000010000000000.17": on etcd it is the number that a key's suffix was made of. */
static uint32_t number_of_suffix(const sim_world *w, tl_bytes text) {
    uint64_t base = 0;
    for (size_t i = 0; i < SIM_SUFFIX_DIGITS; i++) {
        const char *digits = "0123456789abcdef";
        const char *at = i < text.n && text.p[i] ? strchr(digits, text.p[i]) : NULL;
        if (!at)
            return 0;
        base = base << 4 | (uint64_t)(at - digits);
    }
    uint64_t n = base << 4 >> (SIM_SUFFIX_SHIFT + 4);
    return n <= w->tokens ? (uint32_t)n : 0;
}

uint32_t sim_token_number(const sim_world *w, tl_bytes text) {
    int64_t n;
    size_t start = sizeof TOKEN_START - 1;
    if (w->cfg.members && text.n >= SIM_SUFFIX_DIGITS &&
        (text.n == SIM_SUFFIX_DIGITS || text.p[SIM_SUFFIX_DIGITS] == '.'))
        return number_of_suffix(w, text);
    if (text.n != TL_TOKEN_SIZE - 1 || memcmp(text.p, TOKEN_START, start) != 0)
        return 0;
    if (!tl__bytes_to_int(tl__bytes(text.p + start, last_digit(w) + 1 - start), &n) ||
        n > w->tokens)
        return 0;
    return (uint32_t)n;
}

/* ---- beliefs ----------------------------------------------------------------------------------- */

/* S knows a lock from its first renewal on, or from its take, where that has written it. */
bool sim_check_bound(const sim_world *w, const sim_actor *a) {
    if (w->cfg.voters || w->cfg.members)
        return false; /* a server where it doesn't may be enough; etcd has no S */
    const sim_lock *l = sim_lock_at(a);
    return sim_stamp_binds(w, a) && (w->cfg.cast[a->id].kind != SIM_TOKEN || !l || !l->handle ||
                                     w->token[sim_token_number(w, a->kind->value(a))].bound);
}

bool sim_check_excludes(const sim_world *w, int key, bool bound) {
    (void)key;
    return w->excludes || (w->whole && (bound || !w->cfg.stamps || w->legacy));
}

/* Which of the key's holders it was. */
static uint32_t turn_of(const sim_world *w, const sim_actor *a) {
    return a->kind->value ? w->token[sim_token_number(w, a->kind->value(a))].turn : 0;
}

void sim_check_two(sim_world *w, const sim_actor *a) {
    for (int i = 0; i < w->cfg.actors && !w->failed; i++) {
        const sim_actor *b = &w->actor[i];
        if (b == a || b->key != a->key || !b->kind->holds || !b->kind->holds(w, b))
            continue;
        bool bound = sim_stamp_binds(w, a) && sim_stamp_binds(w, b) &&
                     sim_check_bound(w, turn_of(w, a) < turn_of(w, b) ? a : b);
        if (!bound && !sim_check_strict(w, a->key))
            continue; /* S doesn't bind for a plain client */
        if (sim_check_excludes(w, a->key, bound))
            sim_fail(w, a->key, "%s and %s both hold %s", a->name, b->name, w->key[a->key].name);
        w->stats.overlaps += w->cfg.sentinel || w->cfg.fleet || w->cfg.voters || w->cfg.members;
        if (w->whole)
            w->stats.legacy_two++;
        else
            w->stats.two_holders++;
        sim_tell(w, "", a->key, "TWO HOLDERS: %s is inside its validity", b->name);
    }
}

void sim_check_belief(sim_world *w, const sim_actor *a, tl_mono deadline) {
    int key = a->key;
    if (a->kind->holds(w, a))
        sim_check_two(w, a);
    if (w->cfg.voters && a->kind->holds(w, a))
        sim_quorum_believed(w, sim_lock_at(a), deadline);
    if (w->cfg.members && a->kind->holds(w, a))
        sim_etcd_believed(w, sim_lock_at(a), deadline);
    if ((w->cfg.stamps && !w->cfg.migrates) || w->cfg.voters || w->cfg.members || !w->whole ||
        !sim_check_strict(w, key) || !a->kind->holds(w, a))
        return;
    if (!tl__bytes_eq(sim_key_value(w, key), a->kind->value(a))) {
        if (w->cfg.stamps)
            return; /* a stamp */
        sim_fail(w, key, "%s counts on %s, but the key isn't its own", a->name, w->key[key].name);
        return;
    }
    const sim_server *s = &w->server[sim_home_of(w, w->key[key].k)];
    int64_t expiry_ms = fake_redis_peek_expiry(s->r, 0, w->key[key].k);
    if (expiry_ms == -1)
        return;
    sim_clock theirs = sim_clock_from_here(w, &s->wall, 1);
    sim_clock ours = sim_clock_from_here(w, &a->host->boot, -1);
    sim_ns gone = sim_clock_when(&theirs, (expiry_ms + 1) * SIM_MS);
    sim_ns end = sim_clock_when(&ours, deadline.ns);
    if (end > gone)
        sim_fail(w, key, "%s counts on %s for %lld us longer than the server keeps it", a->name,
                 w->key[key].name, (long long)((end - gone + 999) / 1000));
}

/* A loser's stamp is told by its writer's lifetime, which is taken to be the shortest that was said, and by when ours
 * was executed, which a server without TIME doesn't say: it then counts from when it was sent. And the
 * stamps of clients without scripts are by clocks of their own. */
static bool may_be_misjudged(const sim_world *w, const sim_lock *l) {
    if (!w->cfg.stamps)
        return false;
    bool strict = false;
    for (int i = 0; i < w->cfg.actors; i++)
        strict = strict || (w->cfg.cast[i].kind == SIM_STRICT && w->cfg.cast[i].key == l->key);
    return strict || sim_stamp_is_plain(w, l) || sim_stamp_by_own_clock(w) || !w->legacy ||
           w->cfg.java_writes_ms != w->cfg.java_ttl_ms ||
           sim_dialect_lifetime(&w->cfg, w->cfg.java_ttl_ms) != w->cfg.java_ttl_ms;
}

/* The sign before the last: the last may have come after the machine looked. */
bool sim_check_stalled(sim_world *w, const sim_lock *l) {
    tl_mono now = sim_host_clock(w, l->actor->host);
    if (tl__mono_before(now, tl__mono_add_ms(l->alive_before, l->stall_ms)))
        sim_fail(w, l->key, "%s is called stalled, and gives signs of life", l->actor->name);
    return !tl__mono_before(now, tl__mono_add_ms(l->alive_from, l->stall_ms));
}

/* Its holder has given no sign of life for so long that no renewal can have prolonged it until now. */
static bool outlasts_stall(const sim_world *w, const sim_lock *l) {
    int64_t least_ms, most_ms = sim_config_longest_ms(&w->cfg);
    if (w->cfg.stamps)
        sim_config_lifetimes(&w->cfg, &least_ms, &most_ms);
    tl_mono end = tl__mono_add_ms(l->alive_to, l->stall_ms + most_ms);
    return l->stall_ms > 0 && !l->busy && sim_host_could(w, l->actor->host, end);
}

/* Where nothing but slots goes wrong, there is time enough to renew. */
static bool is_needless(const sim_world *w, const sim_lock *l, tl_lost_why why) {
    return why == TL_LOST_EXPIRED && w->moves_alone && w->cfg.atomic && !w->cfg.stamps &&
           !l->manual_renew;
}

void sim_check_lost(sim_world *w, sim_lock *l, tl_mono deadline, tl_lost_why why) {
    const sim_host *h = l->actor->host;
    /* When the clock that stamps are judged by goes ahead, a keep may find its lock long over. */
    bool ahead = w->cfg.stamps &&
                 (w->cfg.fault[SIM_JUMP] || (sim_stamp_by_own_clock(w) && w->cfg.fault[SIM_STEP]));
    bool over = why == TL_LOST_EXPIRED || why == TL_LOST_STALLED;
    if (over && !ahead && sim_host_could(w, h, tl__mono_add_ms(deadline, -1)))
        sim_fail(w, l->key, "%s is told LOST after its deadline", l->actor->name);
    if (why == TL_LOST_STALLED)
        (void)sim_check_stalled(w, l);
    if (is_needless(w, l, why))
        sim_fail(w, l->key, "%s loses %s by a pause", l->actor->name, w->key[l->key].name);
    if ((why == TL_LOST_TAKEN || why == TL_LOST_GONE) && w->whole && sim_check_strict(w, l->key) &&
        w->now > w->key[l->key].shaken_until && tl__mono_before(sim_host_clock(w, h), deadline) &&
        !may_be_misjudged(w, l))
        sim_fail(w, l->key, "%s is told LOST for no reason", l->actor->name);
}

/* What its neighbours in a request were refused for is nothing to it: all its keys are there, and have been in reach
 * since it asked. While a slot moves a sidecar that isn't written yet counts as one that has left. */
void sim_check_refused(sim_world *w, const sim_lock *l) {
    bool there = sim_token_number(w, sim_key_value(w, l->key)) == l->number;
    tl_bytes token;
    if (w->cfg.fleet)
        return; /* they are, of others that are followed */
    bool noted = fake_redis_peek_field(sim_store_of(w, w->key[l->key].s), 0, w->key[l->key].s,
                                       TL_LITERAL("token"), &token);
    if (there && noted && !w->cfg.stays && /* it may have asked a former master */
        sim_in_reach(w, l->key, w->now - w->cfg.attempt_ms * SIM_MS))
        sim_fail(w, l->key, "%s is at risk, as its neighbours' keys are out of reach",
                 l->actor->name);
}

/* A host that was stopped has all the time that the operation may take, from when it goes on; its clock may be slow. */
static bool is_overdue(const sim_world *w, const sim_lock *l) {
    const sim_host *h = l->actor->host;
    sim_ns from = h->stalled > l->op_began ? h->stalled : l->op_began;
    if (l->op_ms == TL_FOREVER || l->loops)
        return false;
    sim_ns most = (l->op_ms + SLACK_MS) * SIM_MS * 1010 / 1000;
    return w->now > from + tl__rate_most_ns(most, sim_clocks_ppm(w));
}

/* Does its client's keeper watch over it? */
static bool is_watched(const sim_lock *l) {
    return l->handle && l->handle->task.at != 0;
}

/* A step of the server's clock has been seen: every lock is asked about at once. */
static bool is_unjudged(const sim_world *w, const sim_lock *l) {
    const sim_host *h = l->actor->host;
    sim_ns seen = l->client ? l->client->step_seen : 0;
    return is_watched(l) && l->owes && w->now > seen + SIM_MS && h->stalled < seen;
}

void sim_check_lock(sim_world *w, const sim_lock *l) {
    const sim_host *h = l->actor->host;
    int state = atomic_load(&l->handle->state);
    bool held = is_watched(l) && (state == TL_HELD || state == TL_AT_RISK);
    if (is_unjudged(w, l))
        sim_fail(w, l->key, "the server's clock has stepped, and %s isn't judged anew",
                 l->actor->name);
    if (held && sim_host_could(w, h, sim_lock_deadline(l)))
        sim_fail(w, l->key, "%s is past its deadline and hasn't been told LOST", l->actor->name);
    if (held && !l->busy && l->hold_by.ns != INT64_MAX && sim_host_could(w, h, l->hold_by))
        sim_fail(w, l->key, "%s is past its longest hold and hasn't been told LOST",
                 l->actor->name);
    if (held && l->frozen && tl__mono_before(l->frozen_deadline, sim_lock_deadline(l)))
        sim_fail(w, l->key, "%s gives no sign of life, and its lock is prolonged", l->actor->name);
    if (held && outlasts_stall(w, l))
        sim_fail(w, l->key, "%s gives no sign of life, and its lock is renewed", l->actor->name);
    bool told = l->told == TL_LOST || l->busy || l->client->dispatch;
    if (l->noted_lost && l->has && !told && w->now > l->lost_at + SIM_MS && h->stalled < l->lost_at)
        sim_fail(w, l->key, "%s has lost its lock, and its callback isn't called", l->actor->name);
    if (l->busy && is_overdue(w, l))
        sim_fail(w, l->key, "%s's operation outlasts its time limit", l->actor->name);
}

/* A risk and its end take turns, and after LOST nothing is told. */
void sim_check_told(sim_world *w, sim_lock *l, const tl_lock_event *event) {
    bool well = event->state == TL_AT_RISK ? l->told == TL_FREE || l->told == TL_HELD
                : event->state == TL_HELD  ? l->told == TL_AT_RISK
                                           : event->state == TL_LOST && l->told != TL_LOST;
    w->stats.told++;
    if (!well)
        sim_fail(w, l->key, "%s is told state %d after %d", l->actor->name, (int)event->state,
                 (int)l->told);
    if (!l->has && !l->busy)
        sim_fail(w, l->key, "%s is told of a lock that it doesn't have", l->actor->name);
    l->told = event->state;
}

/* ---- operations that have ended ---------------------------------------------------------------- */

static void say_ended(sim_world *w, const sim_lock *l, tl_err code) {
    static const char *const ops[] = {"take", "extend", "release"};
    const char *name = w->key[l->key].name, *op = ops[l->op];
    if (code == TL_OK && l->op != SIM_RELEASE) {
        sim_ns end = sim_clock_when(&l->actor->host->boot, sim_lock_deadline(l).ns);
        sim_say(w, l->actor->name, l->key, "%s %s -> token %u, fence ..%llu, valid to %lld.%03lld",
                op, name, (unsigned)l->number, (unsigned long long)(l->fence % 1000000000),
                (long long)(end / SIM_MS), (long long)(end / 1000 % 1000));
        return;
    }
    sim_say(w, l->actor->name, l->key, "%s %s -> %s, token %u", op, name, tl_err_name(code),
            (unsigned)l->number);
}

static void count_ended(sim_world *w, const sim_lock *l, tl_err code) {
    sim_stats *s = &w->stats;
    s->releases += code == TL_OK && l->op == SIM_RELEASE;
    s->busy += code == TL_EBUSY;
    s->timedout += code == TL_ETIMEDOUT;
    s->cancelled += code == TL_ECANCELLED;
    s->denied += code == TL_EDENIED;
    s->uncertain += code == TL_EUNCERTAIN;
    s->unavailable += code == TL_EUNAVAILABLE;
}

/* Does the server say that its token holds the key? */
static bool is_its_own(sim_world *w, const sim_lock *l) {
    if (w->cfg.stamps)
        return sim_stamp_is_of(w, l->key, l->number);
    if (w->cfg.members)
        return sim_etcd_has(w, l->key, l->number);
    if (w->cfg.voters)
        return l->op == SIM_RELEASE ? sim_quorum_has(w, l)
                                    : sim_quorum_votes(w, l->key, l->number) > 0;
    return sim_token_number(w, sim_key_value(w, l->key)) == l->number;
}

/* What native commands have counted is believed only if it is larger than all before it, whatever was lost; and no
 * number lags behind the clock of the server by more than a second, and what its client doesn't know of that. */
void sim_check_number(sim_world *w, const sim_lock *l, uint32_t number, uint64_t fence,
                      tl_interval now) {
    const sim_token *t = &w->token[number];
    bool its = t->taken && fence >= t->fence && fence < t->fence + t->reserved;
    if (!its || w->cfg.stamps)
        return;
    w->stats.natives_believed += t->native;
    w->stats.fences_back += t->low;
    if (t->low && (w->whole || sim_check_fenced(w)))
        sim_fail(w, l->key, "%s believes in fence %llu, though another had a larger one",
                 l->actor->name, (unsigned long long)fence);
    if (t->native && t->beside)
        sim_fail(w, l->key, "%s keeps what native commands have taken while others stand in line",
                 l->actor->name);
    bool tells = t->native || w->cfg.level >= FAKE_LEVEL(3, 2, 0);
    int64_t lag_us = t->taken_us - (int64_t)fence - (now.hi - now.lo);
    if (tells && w->kept && lag_us > BEHIND_US)
        sim_fail(w, l->key, "%s believes in a fence that is %lld us behind the server's clock",
                 l->actor->name, (long long)(t->taken_us - (int64_t)fence));
}

/* To this token, by any of its requests: those that come late are given others, while its holder knows of the first. */
static bool was_given(const sim_token *t, uint64_t fence) {
    uint64_t n = t->fences > 0 ? t->fences : 1;
    bool given = fence >= t->fence && fence - t->fence < n;
    for (unsigned i = 0; i < t->fences_before && i < SIM_FENCES; i++)
        given = given || (fence >= t->fence_before[i] && fence - t->fence_before[i] < n);
    return t->taken && given;
}

/* A fence that was reserved for it, larger than whoever had the lock before. */
static void check_fence(sim_world *w, sim_lock *l, const sim_token *t) {
    sim_key *key = &w->key[l->key];
    uint64_t f = l->fence;
    if (!(w->whole || sim_config_orders(&w->cfg)) || sim_stamp_is_plain(w, l))
        return;
    if (w->whole && !w->cfg.voters && !was_given(t, f))
        sim_fail(w, l->key, "%s has a fence that the server never gave", l->actor->name);
    bool alone = sim_check_excludes(w, l->key, sim_stamp_binds(w, l->actor)) &&
                 (sim_check_strict(w, l->key) || sim_check_bound(w, l->actor));
    if (w->cfg.voters)
        sim_quorum_had(w, l);
    if (!sim_lock_held(w, l) || !alone) /* told too late, by a thread that was stopped */
        return;
    w->stats.fences_back += w->cfg.voters && f <= key->told_fence;
    if (f <= key->told_fence && sim_config_quorum_orders(&w->cfg))
        sim_fail(w, l->key, "%s has fence %llu, after another had %llu", l->actor->name,
                 (unsigned long long)f, (unsigned long long)key->told_fence);
    key->told_fence = f;
}

static void had(sim_world *w, sim_lock *l, sim_token *t) {
    sim_line_had(w, l);
    t->promise = SIM_HAD;
    w->stats.handed += t->passed;
    t->passed = t->dropped = t->ours = t->released = t->goes_on = false;
    l->has = true;
    sim_check_turn(w, l);
    sim_rest_had(w, l);
    if (t->turn == 0) /* a clock beyond M: it has taken what hadn't run out */
        t->turn = ++w->key[l->key].turns;
    check_fence(w, l, t);
}

/* Those of one client that wait in the usual way are served in the order of their coming. */
void sim_check_turn(sim_world *w, const sim_lock *l) {
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_lock *b = sim_lock_at(&w->actor[i]);
        if (!b || b == l || !b->busy || b->op != SIM_ACQUIRE || b->key != l->key)
            continue;
        b->overtaken++;
        if (w->stats.overtaken < b->overtaken)
            w->stats.overtaken = b->overtaken;
        if (b->client == l->client && b->handle->gate_node.state == TL_QUEUED &&
            l->behind >> b->actor->id & 1)
            sim_fail(w, l->key, "%s has %s before %s, who stood before it in the local queue",
                     l->actor->name, w->key[l->key].name, b->actor->name);
    }
}

static void ended_acquire(sim_world *w, sim_lock *l, tl_err code, bool asked) {
    sim_token *t = &w->token[l->number];
    if (code == TL_OK) {
        had(w, l, t);
        return;
    }
    if (code == TL_ETIMEDOUT && l->op_ms == TL_FOREVER)
        sim_fail(w, l->key, "%s was to wait for ever, and is told that its time is up",
                 l->actor->name);
    bool same = code == TL_EINVALID && w->cfg.twice; /* too few of its servers are different ones */
    if ((code == TL_EINVALID && !same) || code == TL_ENOMEM)
        sim_fail(w, l->key, "%s's call is refused: %s", l->actor->name, tl_err_name(code));
    if (!asked)
        return;
    t->promise = t->maybe ? SIM_MOVED_ON : SIM_NOT_ACQUIRED;
    t->cancelled = code == TL_ECANCELLED;
    if (t->maybe && !t->detached)
        sim_fail(w, l->key, "%s may have left a lock behind, and nobody cleans up", l->actor->name);
    w->stats.left_stamps += w->cfg.stamps && w->key[l->key].writer == l->number;
    if (!t->maybe && w->whole && is_its_own(w, l))
        sim_fail(w, l->key, "%s is told that it doesn't have the lock, but it has", l->actor->name);
}

static void ended_release(sim_world *w, sim_lock *l, tl_err code) {
    sim_token *t = &w->token[l->number];
    bool unknown = code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE;
    l->has = false;
    if (t->passed)
        return;
    sim_rest_ended(w, l, code);
    t->promise = SIM_MOVED_ON;
    t->released = true;
    if (unknown && !t->goes_on && !sim_stamp_is_plain(w, l)) /* a DEL is never repeated */
        sim_fail(w, l->key, "%s's release is unknown, and nobody goes on with it", l->actor->name);
    /* Without scripts it goes by K, which may still be its own when it is believed no longer. */
    bool untaken = sim_stamp_is_plain(w, l) &&
                   (t->turn == w->key[l->key].turns || l->actor->host->stalled > l->op_began ||
                    !sim_check_strict(w, l->key));
    if (code == TL_OK && w->whole && !t->ours && !l->believed && !untaken)
        sim_fail(w, l->key, "%s's release says that the lock was its own, which it wasn't",
                 l->actor->name);
    bool refused = code == TL_EDENIED || code == TL_EUNSUPPORTED || /* it was not released */
                   (code == TL_ESERVER && w->cfg.cluster);
    if (!unknown && !refused && !t->late && w->whole && !t->again && is_its_own(w, l))
        sim_fail(w, l->key, "%s has released its lock, but still holds it", l->actor->name);
}

/* One line, which names the server and says what is wrong. What lies with another node is refused at once, and not
 * waited for. */
void sim_check_said(sim_world *w, const sim_lock *l, tl_err code, const char *words) {
    if (code == TL_OK)
        return;
    const char *who = l->actor->name;
    bool keys = !w->cfg.lacks && !w->cfg.fault[SIM_DENY]; /* are all that may be forbidden */
    bool denied = code == TL_EDENIED && !w->cfg.migrates, server = code == TL_ESERVER;
    bool elsewhere = strstr(words, ": MOVED ") || strstr(words, ": ASK ");
    bool by_force = strstr(words, "released already") != NULL;
    w->stats.rests_end_waits += code == TL_EBUSY && l->rest_ends_wait && l->op_ms == TL_FOREVER &&
                                l->retry == TL_RETRY_AUTO;
    if (!*words || strchr(words, '\n'))
        sim_fail(w, l->key, "%s isn't told in one line what is wrong: %s", who, words);
    if (denied && !strstr(words, keys ? "one of the keys" : "NOPERM"))
        sim_fail(w, l->key, "%s isn't told what it may not do: %s", who, words);
    if (server && !elsewhere && !by_force)
        sim_fail(w, l->key, "%s isn't told why it is refused: %s", who, words);
    if (elsewhere && !server)
        sim_fail(w, l->key, "%s is told %s of what is elsewhere: %s", who, tl_err_name(code),
                 words);
    if ((denied || server) && !strstr(words, w->cfg.members ? ":2379: " : ":6379: "))
        sim_fail(w, l->key, "%s isn't told by which server: %s", who, words);
}

void sim_check_ended(sim_world *w, sim_lock *l, tl_err code, bool asked) {
    if (w->telling)
        say_ended(w, l, code);
    count_ended(w, l, code);
    if (is_overdue(w, l))
        sim_fail(w, l->key, "%s's operation outlasts its time limit", l->actor->name);
    if (w->cfg.voters)
        sim_quorum_ended(w, l, code, asked);
    if (w->cfg.members)
        sim_etcd_ended(w, l, code);
    if (l->op == SIM_ACQUIRE)
        ended_acquire(w, l, code, asked);
    else if (l->op == SIM_RELEASE)
        ended_release(w, l, code);
    else
        l->has = l->has && code != TL_EEXPIRED && code != TL_ETAKEN;
}

/* ---- in the background ------------------------------------------------------------------------- */

void sim_check_cleaned(sim_world *w, const sim_host *h, const tl_job *job, tl_mono limit,
                       bool refused) {
    const sim_token *token = &w->token[sim_token_number(w, tl__token_bytes(&job->token))];
    bool plain = w->cfg.no_eval && !sim_stamp_watches(w);
    bool leaves = w->cfg.stamps && (plain || job->rules.strict); /* to run out */
    bool lacks = w->cfg.lacks || w->cfg.fault[SIM_DENY];
    if (tl__mono_before(sim_host_clock(w, h), limit) && !token->dropped && !leaves && !lacks &&
        !refused && !w->cfg.voters && !w->cfg.members)
        sim_fail(w, SIM_ALL, "cleaning up ends without a drop that was executed");
}

/* In the middle of a step the machine knows better than what is remembered of it. */
static bool is_asking(const tl_lock *lock) {
    const tl_keeper *k = &lock->client->keeper;
    return k->steps == &lock->task ? k->step.rest.asking : lock->rest.asking;
}

void sim_check_step(sim_world *w, sim_client *c) {
    c->step_seen = w->now;
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_lock *l = sim_lock_at(&w->actor[i]);
        if (l && l->client == c && l->handle)
            l->owes = is_watched(l) && !is_asking(l->handle) &&
                      !w->cfg.voters; /* a vote that is asked for is asked for again afterwards */
    }
    if (w->whole && w->cfg.fault[SIM_FAILOVER] == 0 && !w->cfg.fleet && !w->cfg.fault[SIM_FREEZE])
        sim_fail(w, SIM_ALL, "host %c sees a step of the server's clock that didn't happen",
                 c->host->name);
}

void sim_check_left(sim_world *w, sim_host *h) {
    if (w->failed || !w->calm)
        return;
    for (int i = 0; i < w->cfg.actors; i++)
        if (w->actor[i].host == h && w->actor[i].lives)
            return;
    if (h->fds > 0)
        sim_fail(w, SIM_ALL, "host %c leaves %u descriptors open", h->name, h->fds);
    if (sim_heap_live(h->heap) > 0)
        sim_fail(w, SIM_ALL, "host %c leaves %zu pieces of memory", h->name,
                 sim_heap_live(h->heap));
}
