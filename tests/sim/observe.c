/*
 * What the library does, seen from outside: the linker gives each call of the functions below to us first. So
 * the checks know what each machine was told, decided and asked, though what ships knows nothing of them.
 */
#include "world.h"

#include <stddef.h>

#include "client/backend.h"
#include "client/run.h"
#include "protocol/attempt.h"
#include "protocol/quorum_acquire.h"
#include "protocol/quorum_renew.h"
#include "protocol/quorum_settle.h"
#include "protocol/settle.h"

#ifdef TL_COMPAT
#include "phase/phase.h"
#endif

#define WAYS 8  /* places that what is asked may have */
#define SEEN 64 /* machines whose steps at one instant are counted */

tl_status __real_tl__run_step(const tl_run *run, const tl_event *event, tl_out *out);
tl_status __wrap_tl__run_step(const tl_run *run, const tl_event *event, tl_out *out);
bool __real_tl__gate_pass(tl_gate *gate, tl_gate_node *node, const tl_hold *hold, tl_mono now);
bool __wrap_tl__gate_pass(tl_gate *gate, tl_gate_node *node, const tl_hold *hold, tl_mono now);
int __real_tl__gate_enter(tl_gate *gate, tl_gate_node *node, tl_turn *turn);
int __wrap_tl__gate_enter(tl_gate *gate, tl_gate_node *node, tl_turn *turn);
void __real_tl__attempt_init(void *a, const tl_protocol *row, tl_op op, uint16_t n, tl_mono until);
void __wrap_tl__attempt_init(void *a, const tl_protocol *row, tl_op op, uint16_t n, tl_mono until);
typedef void begins_on_etcd(tl_etcd_acquisition *a, const tl_job *job, const tl_retry *retry,
                            int64_t wait_ms, int64_t connect_ms, uint64_t seed);
begins_on_etcd __wrap_tl__etcd_acquire_init, __real_tl__etcd_acquire_init;
const tl_server *__real_tl__node_server(tl_node *node, tl_mono now, tl_server *room);
const tl_server *__wrap_tl__node_server(tl_node *node, tl_mono now, tl_server *room);

/* ---- whose ----------------------------------------------------------------------------------------- */

typedef struct {
    const tl_job *job; /* NULL: it isn't a lock's */
    const tl_result *result;
    tl_mono limit;
    bool acquires, renews, releases, detached;
    bool waits_quietly; /* for the server to have been up for long enough */
} machine;

/* The same of several servers. Until it asks them the one that acquires has no job. */
static bool read_votes(const tl_machine *m, machine *ret) {
    if (m->step == tl__lock_acquire_step) {
        const tl_acquiring *a = m->state;
        const tl_quorum_acquisition *asks = a->room; /* first in it */
        if (!asks)
            return false;
        ret->job = a->state == TL_ASKING ? &asks->job : NULL;
        ret->limit = asks->retry.limit;
        ret->acquires = true;
        ret->detached = a->over;
    } else if (m->step == tl__quorum_settle_step) {
        const tl_quorum_settlement *s = m->state;
        ret->job = &s->job;
        ret->limit = s->retry.limit;
        ret->releases = s->result.op == TL_RELEASE;
        ret->detached = s->detached;
    } else if (m->step == tl__quorum_renew_step) {
        ret->job = &((const tl_quorum_renewal *)m->state)->job;
        ret->renews = true;
    } else {
        return false;
    }
    return true;
}

/* The same on etcd: what renews and releases there are the machines of a single server. */
static bool read_etcd(const tl_machine *m, machine *ret) {
    const tl_etcd_acquisition *e = m->state;
    if (m->step == tl__lock_acquire_step) {
        const tl_acquiring *a = m->state;
        if (a->asker != tl__backend_etcd.asker)
            return false;
        e = &a->etcd;
        ret->detached = a->over;
        ret->job = a->state == TL_ASKING ? &e->job : NULL;
    } else if (m->step == tl__etcd_acquire_step) {
        ret->detached = true;
        ret->job = &e->job;
    } else {
        return false;
    }
    ret->result = &e->result;
    ret->limit = e->retry.limit;
    ret->acquires = true;
    return true;
}

static machine read_machine(const tl_machine *m) {
    machine r = {.result = m->state};
    if (read_votes(m, &r) || read_etcd(m, &r))
        return r;
    if (m->step == tl__lock_acquire_step || m->step == tl__acquire_step) {
        const tl_acquisition *a = m->state;
        r.job = &a->job;
        r.limit = a->retry.limit;
        r.acquires = true;
        r.waits_quietly = a->attempt.result.code == TL_EUNAVAILABLE &&
                          a->attempt.result.acquire.hint.ns != INT64_MAX &&
                          a->attempt.result.acquire.hint.ns != 0;
        r.detached = m->step == tl__acquire_step;
    } else if (m->step == tl__settle_step) {
        const tl_settle *s = m->state;
        r.job = &s->job;
        r.limit = s->retry.limit;
        r.releases = s->result.op == TL_RELEASE;
        r.detached = s->detached;
    } else if (m->step == tl__renew_step) {
        r.job = &((const tl_renew *)m->state)->job;
        r.renews = true;
    }
    return r;
}

/* Whose hold or operation this is now: who has passed it on knows its token too. */
static sim_lock *lock_of(sim_world *w, const sim_host *h, const tl_job *job) {
    tl_bytes token = tl__token_bytes(&job->token);
    uint32_t number = w->cfg.voters ? sim_token_number(w, token) : 0;
    sim_lock *one = NULL;
    for (int i = 0; i < w->cfg.actors; i++) {
        sim_actor *a = &w->actor[i];
        sim_lock *l = a->host == h ? sim_lock_at(a) : NULL;
        if (l && l->handle && tl__bytes_eq(tl__name_key(l->handle->name), job->key) &&
            (tl__bytes_eq(tl__token_bytes(&l->handle->token), token) ||
             (number && number == sim_token_number(w, tl__token_bytes(&l->handle->token)))) &&
            (!one || l->handle->task.at != 0))
            one = l;
    }
    return one;
}

/* Where a stamp is the only token that there is, the one that was drawn counts. */
static uint32_t number_of(const sim_world *w, const tl_job *job, const sim_lock *l) {
    uint32_t n = sim_token_number(w, tl__token_bytes(&job->token));
    return n || !l ? n : l->drawn;
}

/* ---- what is asked ----------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t h, tl_bytes b) {
    uint64_t part;
    for (; b.n >= sizeof part; b.p += sizeof part, b.n -= sizeof part) {
        memcpy(&part, b.p, sizeof part);
        h = (h ^ part) * UINT64_C(0x9E3779B97F4A7C15);
        h ^= h >> 29;
    }
    part = b.n + 1;
    for (; b.n > 0; b.n--)
        part = part << 8 | (unsigned char)b.p[b.n - 1];
    h = (h ^ part) * UINT64_C(0x9E3779B97F4A7C15);
    return h ^ h >> 32;
}

uint64_t sim_hash_words(bool is_script, uint8_t script, const tl_bytes *argv, size_t argc) {
    uint64_t h = is_script ? script + 2U : 1;
    for (size_t i = 0; i < argc; i++)
        h = mix(h, argv[i]);
    return h ? h : 1;
}

const sim_asked *sim_asked_by(const sim_host *h, int64_t boot, uint64_t hash) {
    static const sim_asked nobody = {.never_after = SIM_NEVER, .fences = 1};
    for (unsigned i = 0; hash && i < WAYS; i++) {
        const sim_asked *a = &h->asked[(hash + i) % SIM_ASKED];
        if (a->hash == hash && a->run == h->w->run && a->boot == boot)
            return a;
    }
    return &nobody;
}

/* In place of the same, or of the oldest that may be in its place. */
static void keep_asked(sim_host *h, const sim_asked *asked) {
    sim_asked *to = &h->asked[asked->hash % SIM_ASKED];
    for (unsigned i = 1; i < WAYS; i++) {
        sim_asked *a = &h->asked[(asked->hash + i) % SIM_ASKED];
        bool better = a->hash == asked->hash || a->run != asked->run || a->number < to->number;
        if (to->hash != asked->hash && to->run == asked->run && better)
            to = a;
    }
    bool again = to->hash == asked->hash && to->run == asked->run && to->boot == asked->boot;
    uint8_t servers = !again                          ? asked->servers
                      : to->servers && asked->servers ? to->servers | asked->servers
                                                      : 0;
    *to = *asked;
    to->servers = servers; /* the same words, perhaps, for one after the other */
}

void sim_asked_note(sim_world *w, sim_host *h, const sim_asked *what, const tl_command *c) {
    sim_asked asked = *what;
    bool script = c->form == TL_SCRIPT;
    asked.hash = sim_hash_words(script, c->script, c->argv,
                                script ? c->argc - sim_joined_tail(c->script) : c->argc);
    asked.boot = h->booted;
    asked.run = w->run;
    asked.number = ++w->asked;
    asked.at = w->now;
    keep_asked(h, &asked);
}

/* The lease by which this attempt acts: it has decided by it when it began, which may be some replies ago, and
 * another thread may have read a later one since. */
static void note_begin(sim_world *w, const machine *m, const tl_out *out) {
    sim_lock *l = lock_of(w, w->thread->host, m->job);
    if (!l)
        return;
    l->acts[m->acquires].token = number_of(w, m->job, l);
    l->acts[m->acquires].lease = out->keeps ? sim_lease_read(out) : w->thread->lease;
}

static sim_lease acts_by(const sim_world *w, const machine *m, const sim_lock *l, uint32_t token) {
    if (!l)
        return w->thread->lease;
    return l->acts[m->acquires].token == token ? l->acts[m->acquires].lease : (sim_lease){0};
}

/* A lease by which a phase decides what is asked: a lock, or a token in place of a stamp. */
static sim_lease lease_of(const tl_run *run, const machine *m, const sim_lease *acts,
                          const tl_out *out) {
    const tl_job *job = m->job;
    const tl_command *c = &out->send.command[0];
    sim_lease none = {0};
#ifdef TL_COMPAT
    if (run->client->protocol->id != TL_AUTO || out->send.count == 0 || c->form != TL_SCRIPT)
        return none;
    bool turns = c->script == TL_SCRIPT_RENEW && job->hold.proof.kind == TL_PROOF_STAMP &&
                 tl__bytes_eq(c->argv[6], tl__token_bytes(&job->token));
    bool takes = c->script == TL_SCRIPT_ACQUIRE || c->script == TL_SCRIPT_JOIN;
    if (!(takes && m->acquires) && !turns)
        return none;
    return *acts;
#else
    (void)run, (void)job, (void)c, (void)acts;
    return none;
#endif
}

/* S is to know of a lock a second after a native take, however long it lasts. */
static void check_first_renewal(sim_world *w, const sim_lock *l, uint32_t number) {
    const sim_token *t = &w->token[number];
    const sim_host *h = w->thread->host;
    sim_ns most = 2 * SIM_MS * 1000 + w->cfg.attempt_ms * SIM_MS;
    bool held_up = h->stalled > t->since || w->cfg.fault[SIM_STARVE] || w->cfg.fault[SIM_STALE];
    if (l && t->native && !t->bound && t->since > 0 && !held_up && w->now - t->since > most)
        sim_fail(w, l->key, "%s is renewed for the first time %lld ms after it was taken",
                 l->actor->name, (long long)((w->now - t->since) / SIM_MS));
}

/* A message is worth something to one whom the same run of a server has told that it stands in line. */
static void check_grant(sim_world *w, const machine *m, const tl_acquisition *a) {
    bool by_message = m->result->code == TL_OK && a->grant.fence > 0 &&
                      m->result->acquire.fence == a->grant.fence && m->result->proof.unbound;
    if (by_message && a->grant.run != a->run)
        sim_fail(w, SIM_ALL,
                 "host %c believes what another server says than that at which it waits",
                 w->thread->host->name);
}

/* By what the step was told, before it learned more from its answer. */
static int64_t unsure_ns(const sim_world *w, tl_mono now) {
    const tl_server *server = &w->thread->server;
    tl_interval us = tl__anchor_server_time(&server->anchor, now, server->drift_ppm);
    return (us.hi - us.lo) * 1000;
}

static uint8_t built_for(const sim_world *w, const tl_run *run, const tl_out *out) {
    if (w->cfg.voters)
        return (uint8_t)(1U << sim_quorum_at(w, __builtin_ctz(out->send.to)));
    return sim_sentinel_built_for(w->thread->host, run->node ? run->node->site : NULL,
                                  out->send.generation);
}

/* Those of a renewal that say nothing of how unsure their sender is of the server's clock. */
static bool tells_clock(uint8_t script) {
#ifdef TL_COMPAT
    if (script == TL_SCRIPT_SWAP)
        return false;
#endif
    return script != TL_SCRIPT_REFRESH;
}

static void note_asked(sim_world *w, const tl_run *run, const machine *m, const tl_event *e,
                       const tl_out *out) {
    sim_host *h = w->thread->host;
    const tl_send *send = &out->send;
    sim_lock *l = lock_of(w, h, m->job);
    uint32_t token = number_of(w, m->job, l);
    sim_lease acts = acts_by(w, m, l, token);
    if (m->renews && !w->cfg.stamps && !w->cfg.voters && !w->cfg.members &&
        ((const tl_renew *)run->machine->state)->rest.ticket == 1)
        check_first_renewal(w, l, token);
    sim_asked asked = {.boot = h->booted,
                       .run = w->run,
                       .number = ++w->asked,
                       .token = token,
                       .fences = m->job->fences > 1 ? m->job->fences : 1,
                       .lock = l,
                       .by = send->by,
                       .sent = e->now,
                       .at = w->now,
                       .never_after = SIM_NEVER,
                       .lease = lease_of(run, m, &acts, out),
                       .servers = built_for(w, run, out)};
    if (w->cfg.stamps)
        asked.never_after = sim_stamp_never_after(w, h, send);
    if (send->count > 0 && send->command[0].form == TL_SCRIPT &&
        !tells_clock(send->command[0].script))
        asked.unsure_ns = unsure_ns(w, e->now);
    for (int i = 0; i < send->count + send->native; i++) { /* either form */
        const tl_command *c = &send->command[i];
        bool script = c->form == TL_SCRIPT;
        if (c->argc < 2)
            continue; /* of which there are many */
        size_t argc = script ? c->argc - sim_joined_tail(c->script) : c->argc;
        asked.hash = sim_hash_words(script, c->script, c->argv, argc);
        keep_asked(h, &asked);
    }
    w->token[token].asks |= m->acquires;
    if (asked.lock) {
        if (m->acquires)
            l->drawn = asked.token;
        asked.lock->owes = false;
        w->migration.asked[w->cfg.cast[asked.lock->actor->id].kind] = w->now;
    }
    w->stats.phases_overtaken += asked.lease.until.ns != 0 &&
                                 asked.lease.epoch < w->thread->lease.epoch;
    sim_phase_asked(w, h, asked.lock, &asked.lease, e->now);
}

/* ---- what is found ----------------------------------------------------------------------------------- */

static void note_lost(sim_world *w, sim_lock *l, const tl_note *note, tl_mono deadline) {
    sim_stats *s = &w->stats;
    s->lost_expired += note->why == TL_LOST_EXPIRED;
    s->lost_taken += note->why == TL_LOST_TAKEN;
    s->lost_gone += note->why == TL_LOST_GONE;
    s->lost_max_hold += note->why == TL_LOST_MAX_HOLD;
    s->lost_disrupted += note->why == TL_LOST_DISRUPTED;
    s->lost_stalled += note->why == TL_LOST_STALLED;
    s->stolen += note->stolen;
    if (!l)
        return;
    /* A renewal by a shorter lifetime than it was believed for until now may prove less. */
    deadline = tl__mono_max(deadline, sim_lock_deadline(l));
    s->lost_kept += !l->manual_renew && note->why != TL_LOST_MAX_HOLD;
    l->noted_lost = true;
    l->lost_at = w->now;
    l->lost_deadline = deadline;
    l->why = note->why;
    sim_check_lost(w, l, deadline, note->why);
}

/* The keys are at another node, or on the way there, or forbidden. */
static bool is_out_of_reach(const char *words) {
    return strstr(words, ": MOVED ") || strstr(words, ": ASK ") || strstr(words, ": TRYAGAIN ") ||
           strstr(words, "access one of the keys");
}

static void note_stall(sim_world *w, sim_lock *l, const tl_note *note, tl_mono deadline) {
    bool stalls = note->kind == TL_NOTE_AT_RISK && note->why == TL_RISK_STALLED;
    w->stats.stalls += stalls;
    if (!l)
        return;
    w->stats.revived += note->kind == TL_NOTE_HELD && l->stalled;
    l->stalled = stalls;
    l->frozen = stalls && !l->feeds && !l->busy && sim_check_stalled(w, l);
    l->frozen_deadline = tl__mono_max(deadline, sim_lock_deadline(l));
}

static void note_notes(sim_world *w, const machine *m, const tl_out *out) {
    static const char *const words[] = {
        [TL_NOTE_AT_RISK] = "at risk", [TL_NOTE_HELD] = "held again", [TL_NOTE_LOST] = "LOST"};
    sim_lock *l = lock_of(w, w->thread->host, m->job);
    for (unsigned i = 0; i < out->notes; i++) {
        const tl_note *n = &out->note[i];
        sim_tell(w, l ? l->actor->name : "", l ? l->key : SIM_ALL, "%s%s", words[n->kind],
                 n->stolen ? ": stolen" : "");
        w->stats.at_risk += n->kind == TL_NOTE_AT_RISK;
        w->stats.saved += n->kind == TL_NOTE_HELD;
        if (n->kind == TL_NOTE_AT_RISK && l && is_out_of_reach(out->message))
            sim_check_refused(w, l);
        note_stall(w, l, n, m->result->deadline);
        if (n->kind == TL_NOTE_LOST)
            note_lost(w, l, n, m->result->deadline);
    }
}

/* Of a machine that acquires: as it was when its caller went on. */
static void note_end(sim_world *w, const machine *m, const tl_event *e, tl_status status,
                     const tl_out *out, bool first) {
    sim_token *t = &w->token[number_of(w, m->job, lock_of(w, w->thread->host, m->job))];
    if (first && m->releases) {
        t->goes_on = t->goes_on || status == TL_DETACH; /* the keeper may release it, too */
    } else if (first && m->acquires && !t->ended) {
        t->ended = true;
        t->maybe = m->result->maybe;
        t->detached = status == TL_DETACH;
        t->fences = (uint8_t)(m->acquires && m->job->fences > 0 ? m->job->fences : 1);
    } else if (!first && status == TL_END && (m->acquires || m->releases)) {
        w->stats.cleaned++;
        sim_check_cleaned(w, w->thread->host, m->job, m->limit, is_out_of_reach(out->message));
    }
    bool cleans = !first && tl__mono_before(sim_host_clock(w, w->thread->host), m->limit);
    bool had = first && m->acquires && m->result->code == TL_OK; /* and nothing is left */
    if (w->cfg.voters && status == TL_END && (cleans || had))
        sim_quorum_cleaned(w, m->job, m->releases, m->result->code == TL_OK);
    if (w->cfg.members && status == TL_END && cleans)
        sim_etcd_cleaned(w, m->job);
    sim_lock *l = first && m->acquires && m->result->code == TL_OK
                      ? lock_of(w, w->thread->host, m->job)
                      : NULL;
    tl_event informed = {.server = &w->thread->server};
    if (l && !w->cfg.voters && !w->cfg.members)
        sim_check_number(w, l, (uint32_t)(t - w->token), m->result->acquire.fence,
                         tl__try_server_us(&informed, e->now));
    if (first && !m->releases && m->result->code == TL_OK &&
        !tl__mono_before(e->now, m->result->deadline))
        sim_fail(w, SIM_ALL, "host %c is told that it holds a lock that is over already",
                 w->thread->host->name);
}

/* What another lock of the process has handed over. Where a stamp is the only token that there is, it is still the other's. */
static void note_given(sim_world *w, const tl_acquiring *m, const tl_event *e) {
    sim_lock *l = m->turn.given ? sim_lock_of(w, m->lock) : NULL;
    bool over = !tl__mono_before(e->now, m->turn.hold.deadline);
    if (m->turn.given && m->ask.result.code == TL_OK && over)
        sim_fail(w, SIM_ALL, "host %c is given a lock that is over already", w->thread->host->name);
    if (!l)
        return;
    l->drawn = w->key[l->key].passed;
    if (m->ask.result.code != TL_OK && !over)
        sim_fail(w, l->key, "%s is handed a lock, and leaves it", l->actor->name);
}

/* ---- steps ------------------------------------------------------------------------------------------- */

static void count_step(sim_world *w, const void *state) {
    static struct {
        const void *state;
        uint32_t run;
        sim_ns at;
        unsigned count;
    } seen[SEEN];
    unsigned i = (unsigned)((uintptr_t)state / 16 % SEEN);
    w->stats.steps++;
    if (seen[i].state != state || seen[i].at != w->now || seen[i].run != w->run)
        seen[i].count = 0;
    seen[i].run = w->run;
    seen[i].state = state;
    seen[i].at = w->now;
    if (++seen[i].count <= SIM_STEPS_AT_ONCE)
        return;
    sim_fail(w, SIM_ALL, "a machine loops: it asks for more and more at one instant");
    if (w->mark != 0) /* it would never give the processor away; a forked child has but this one */
        (void)sim_thread_block(w, SIM_NEVER);
}

void __wrap_tl__attempt_init(void *a, const tl_protocol *row, tl_op op, uint16_t n, tl_mono until) {
    __real_tl__attempt_init(a, row, op, n, until);
    if (sim_the_world && sim_the_world->thread)
        sim_the_world->thread->begins = true;
}

/* So that a key on etcd tells whose it is. */
void __wrap_tl__etcd_acquire_init(tl_etcd_acquisition *a, const tl_job *job, const tl_retry *retry,
                                  int64_t wait_ms, int64_t connect_ms, uint64_t seed) {
    uint64_t number = sim_token_number(sim_the_world, tl__token_bytes(&job->token));
    __real_tl__etcd_acquire_init(a, job, retry, wait_ms, connect_ms, seed);
    a->id = tl__etcd_id_draw(number << SIM_SUFFIX_SHIFT);
}

const tl_server *__wrap_tl__node_server(tl_node *node, tl_mono now, tl_server *room) {
    const tl_server *server = __real_tl__node_server(node, now, room);
    sim_the_world->thread->lease = sim_lease_known(server);
    sim_the_world->thread->server = *server;
    return server;
}

bool __wrap_tl__gate_pass(tl_gate *gate, tl_gate_node *node, const tl_hold *hold, tl_mono now) {
    bool passed = __real_tl__gate_pass(gate, node, hold, now);
    if (!passed)
        return false;
    sim_world *w = sim_the_world;
    (void)sim_enter();
    const tl_lock *handle = (const tl_lock *)((const char *)node - offsetof(tl_lock, gate_node));
    sim_lock *l = sim_lock_of(w, handle);
    w->stats.passed++;
    if (l) { /* not of a play */
        w->token[l->number].passed = true;
        w->key[l->key].passed = l->number;
        sim_line_passed(w, l);
    }
    sim_leave();
    return true;
}

/* Whoever stands in the queue before the call is served before. */
int __wrap_tl__gate_enter(tl_gate *gate, tl_gate_node *node, tl_turn *turn) {
    sim_world *w = sim_the_world;
    (void)sim_enter();
    sim_lock *l = sim_lock_of(w,
                              (const tl_lock *)((const char *)node - offsetof(tl_lock, gate_node)));
    for (int i = 0; l && turn && i < w->cfg.actors; i++) {
        const sim_lock *b = sim_lock_at(&w->actor[i]);
        if (b && b != l && b->handle && b->client == l->client && b->key == l->key &&
            b->handle->gate_node.state == TL_QUEUED)
            l->behind |= UINT32_C(1) << i;
    }
    sim_leave();
    return __real_tl__gate_enter(gate, node, turn);
}

/* An answer is counted: a renewal by which a lock lasts longer, an extension, a lock that was asked for. */
static void note_counted(sim_world *w, const tl_run *run, const machine *m, const tl_event *e,
                         tl_status status, tl_mono before) {
    const void *state = run->machine->state;
    const tl_try *attempt = m->renews ? (const tl_try *)&((const tl_renew *)state)->attempt
                            : m->acquires
                                ? (const tl_try *)&((const tl_acquisition *)state)->attempt
                                : (const tl_try *)&((const tl_settle *)state)->attempt;
    w->stats.foreign += e->kind == TL_FAILED && e->failed.why == TL_EELSEWHERE;
    w->stats.unconfirmed_keeps += e->kind == TL_FAILED && attempt->confirming;
    if (e->kind != TL_REPLY)
        return;
    bool kept = m->renews ? m->result->deadline.ns != before.ns
                          : status == TL_END && m->result->code == TL_OK && !m->releases;
    sim_lock *l = kept ? lock_of(w, w->thread->host, m->job) : NULL;
    if (l)
        sim_sentinel_counted(w, l, number_of(w, m->job, l), e->replied.place,
                             m->acquires ? &attempt->asked : NULL);
}

tl_status __wrap_tl__run_step(const tl_run *run, const tl_event *event, tl_out *out) {
    sim_world *w = sim_the_world;
    machine was = read_machine(run->machine);
    bool was_detached = was.detached;
    tl_mono deadline = was.renews ? was.result->deadline : (tl_mono){0};
    int64_t epoch = sim_phase_epoch(run->client);
    bool outer = w->thread->begins; /* what is learned may have another machine begin */
    w->thread->begins = false;
    tl_status status = __real_tl__run_step(run, event, out);
    bool begins = w->thread->begins;
    w->thread->begins = outer;
    (void)sim_enter();
    if (event->kind != TL_WOKEN || out->sends > 0) /* messages may have piled up */
        count_step(w, run->machine->state);
    sim_mark(w, (uint64_t)status << 8 | out->sends << 4 | out->notes);
    machine m = read_machine(run->machine);
    w->stats.woken += event->kind == TL_WOKEN && m.acquires;
    if (m.acquires && event->kind == TL_REPLY && status == TL_GO && m.waits_quietly)
        w->stats.quiet_refused++;
    w->stats.time_limits += event->kind == TL_FAILED &&
                            tl__bytes_has_word(event->failed.message, "no reply in");
    w->stats.disarmed += event->kind == TL_ARMED && !event->armed;
    if (status == TL_END && run->machine->step == tl__lock_acquire_step)
        note_given(w, run->machine->state, event);
    if (m.job && m.job->key.n > 0) {
        if (w->cfg.voters)
            sim_quorum_counts(w, run->machine, was_detached ? TL_GO : status);
        if (w->cfg.sentinel)
            note_counted(w, run, &m, event, status, deadline);
        if (begins)
            note_begin(w, &m, out);
        if (out->sends && status == TL_GO)
            note_asked(w, run, &m, event, out);
        if (out->notes)
            note_notes(w, &m, out);
        if (status == TL_END && m.acquires && !w->cfg.members)
            check_grant(w, &m, run->machine->state);
        if (status != TL_GO && !m.renews)
            note_end(w, &m, event, status, out, !was_detached);
    }
    if (out->keeps)
        sim_phase_kept(w, w->thread->host, epoch, out);
    sim_leave();
    return status;
}

void sim_observe_log(sim_client *c, const char *line) {
    sim_world *w = sim_the_world;
    (void)sim_enter();
    if (w->telling && w->cfg.trace) {
        char who[] = {c->host->name, '.', (char)('a' + w->thread->id % 26), 0};
        sim_say(w, who, SIM_ALL, "%s", line);
    }
    w->stats.same += strstr(line, "another server of the URL is the same") != NULL;
    if (strstr(line, "the server's clock has stepped")) {
        w->stats.steps_seen++;
        sim_check_step(w, c);
        sim_tell(w, "", SIM_ALL, "host %c sees that the server's clock has stepped", c->host->name);
    }
    sim_leave();
}
