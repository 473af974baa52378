/*
 * Migrations: how a client keeps leases, as compat/runtime/upkeep.c does; and what must hold: nobody acts by a
 * lease that is over, and no two act in phases that are not neighbours.
 */
#include "world.h"

#ifdef TL_COMPAT
#include <stdio.h>
#include <stdlib.h>

#include "phase/phase.h"
#include "stamp/stamp.h"
#include "protocol/attempt.h"

_Static_assert(sizeof(tl_attend) <= SIM_ATTENDANT, "fits where attendants live");

/* ---- the protocol, watched ------------------------------------------------------------------------ */

/* By which lease the attempt that has just stepped acts. */
static struct {
    bool is_new;
    sim_lease lease; /* all 0: by none */
} acts;

static sim_lease summary(const tl_lease *lease) {
    return (sim_lease){.epoch = lease->epoch, .until = lease->until, .phase = lease->phase};
}

/* Does it ask for something that the phase decides: a lock, or a token in place of a stamp? */
static bool by_phase(const tl_job *job, const tl_out *out) {
    const tl_command *c = &out->send.command[0];
    if (out->sends == 0 || c->form != TL_SCRIPT)
        return false;
    return c->script == TL_SCRIPT_TAKE || (c->script == TL_SCRIPT_KEEP && job->proof.stamp_ms &&
                                           tl__bytes_eq(c->argv[5], tl__token_bytes(&job->token)));
}

static tl_status ask(tl_try *attempt, const tl_job *job, const tl_event *e, tl_out *out) {
    sim_attempt_steps++;
    tl_status status = tl__protocol_auto.send(attempt, job, e, out);
    acts.is_new = true;
    acts.lease = by_phase(job, out)
                     ? summary(tl__lease_of(e->server, tl__namespace_for(&job->rules)->index))
                     : (sim_lease){0};
    return status;
}

static tl_status was_read(tl_try *attempt, const tl_job *job, const tl_event *e, tl_out *out) {
    sim_attempt_steps++;
    tl_status status = tl__protocol_auto.answered(attempt, job, e, out);
    if (out->keeps && by_phase(job, out)) {
        acts.is_new = true;
        acts.lease = summary(tl__lease_read(out));
    }
    return status;
}

static bool reads(const tl_try *attempt) {
    return tl__protocol_auto.reads(attempt);
}

static tl_err rules(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                    tl_rules *ret, int64_t *ttl_ms, tl_error *err) {
    return tl__protocol_auto.rules(client, lock, key, ret, ttl_ms, err);
}

const tl_protocol sim_counted_auto = {.name = "auto",
                                      .size = TL_ATTEMPT_SIZE,
                                      .id = TL_AUTO,
                                      .send = ask,
                                      .answered = was_read,
                                      .refused = was_read,
                                      .reads = reads,
                                      .rules = rules,
                                      .reads_wall = true,
                                      .watching = &tl__watching};

/* ---- clients ---------------------------------------------------------------------------------------- */

const struct tl_namespace *sim_phase_space(const sim_world *w, const sim_client *c) {
    return &w->migration.names[c->host->id]->at[0];
}

void sim_phase_boot(sim_world *w, sim_client *c) {
    struct tl_namespaces **names = &w->migration.names[c->host->id];
    tl_token id;
    tl_error err;
    tl_legacy_options o = {.size = sizeof o,
                           .fallback = w->cfg.fallback == TL_PHASE_TIMESTAMP ? TL_TIMESTAMP
                                                                             : TL_BRIDGE,
                           .phase_lease_ms = w->cfg.own_lease_ms};
    c->attend = (sim_task){.client = c, .listens = -1}; /* an alarm of its last life may yet come */
    c->attend.alarm = c->attend.wake = SIM_ALARM;
    (void)snprintf(id.text, sizeof id.text, "c1ae47b0-0000-4000-8000-%012u",
                   (unsigned)++w->migration.clients % 1000000000);
    tl__namespaces_close(*names);
    *names = NULL;
    if (tl__namespaces_open(&o, tl__bytes_of(c->owner), &id, names, &err))
        abort();
}

static bool has_nothing_to_do(const sim_world *w, const sim_client *c) {
    for (int i = 0; i < w->cfg.actors; i++) {
        const sim_actor *a = &w->actor[i];
        if (&a->host->client == c && w->cfg.cast[i].kind == SIM_AUTO && !sim_actor_is_idle(a))
            return false;
    }
    return c->tasks == 1; /* the attendant itself */
}

/* When nothing new is begun any more its client is closed as soon as it can be. */
static void attended(sim_world *w, sim_task *t, const tl_out *out, tl_status status) {
    (void)out;
    (void)status;
    if (w->calm && has_nothing_to_do(w, t->client))
        sim_keep_forget(w, t);
}

static void keep_lease(sim_world *w, sim_client *c, const tl_out *out) {
    tl_lease *known = (tl_lease *)&c->server.kept[out->keeps_at];
    if (known->epoch > 0 && tl__lease_read(out)->epoch > known->epoch)
        w->stats.phases_followed++;
    if (known->epoch > 0 && tl__lease_read(out)->epoch > known->epoch + 1)
        w->stats.phases_missed++;
    if (tl__lease_read(out)->epoch < known->epoch)
        sim_fail(w, SIM_ALL, "host %c goes from epoch %lld back to %lld", c->host->name,
                 (long long)known->epoch, (long long)tl__lease_read(out)->epoch);
    tl__lease_merge(known, tl__lease_read(out));
    if (c->attend.machine)
        return;
    tl__attend_init(c->attendant, w->migration.names[c->host->id], 0, w->cfg.attempt_ms,
                    sim_random(&w->random));
    c->attend.machine = c->attendant;
    c->attend.step = tl__attend_step;
    c->attend.stepped = attended;
    sim_keep(w, &c->attend, TL_START);
}

static int phase_of(const sim_world *w, const sim_lease *lease) {
    return lease->phase == TL_PHASE_NONE ? w->cfg.fallback : lease->phase;
}

void sim_phase_stepped(sim_world *w, sim_task *t, const tl_out *out) {
    bool is_new = acts.is_new;
    acts.is_new = false;
    if (is_new)
        t->lease = acts.lease;
    if (out->keeps)
        keep_lease(w, t->client, out);
    if (!is_new || t->lease.until.ns == 0)
        return;
    sim_tell(w, t->lock ? t->lock->actor->name : "", t->key, "acts in phase %d of epoch %lld",
             phase_of(w, &t->lease), (long long)t->lease.epoch);
    if (!tl__mono_before(sim_host_now(w, t->client->host), t->lease.until))
        sim_fail(w, t->key, "host %c acts by a lease that is over", t->client->host->name);
}

/* ---- what must hold --------------------------------------------------------------------------------- */

/* The server can refuse what comes late. */
static bool refuses_late(const sim_world *w) {
    return w->cfg.level >= FAKE_LEVEL(3, 2, 0);
}

static bool are_apart(int a, int b) {
    return a - b > 1 || b - a > 1;
}

/* Is a client that may act in a phase two away? */
static void check_leases(sim_world *w, int phase, const char *what) {
    for (int i = 0; i < w->cfg.hosts && !w->failed; i++) {
        const sim_host *h = &w->host[i];
        sim_lease lease = summary(tl__lease_of(&h->client.server, 0));
        if (!h->up || !tl__mono_before(sim_host_clock(w, h), lease.until))
            continue;
        if (are_apart(phase_of(w, &lease), phase))
            sim_fail(w, SIM_ALL, "%s in phase %d while host %c may act in phase %d", what, phase,
                     h->name, phase_of(w, &lease));
    }
}

static bool is_let(const sim_world *w, sim_kind kind) {
    bool any = false;
    for (int i = 0; i < w->cfg.actors; i++)
        any = any || w->cfg.cast[i].kind == kind;
    return any && !w->migration.stopped[kind];
}

/* May somebody run who doesn't follow the phase, and can't live beside this one? */
static void check_others(sim_world *w, int phase, const char *what) {
    if ((phase >= TL_PHASE_DRAIN && is_let(w, SIM_JAVA)) ||
        (phase == TL_PHASE_TOKEN && is_let(w, SIM_BRIDGE)) ||
        (phase <= TL_PHASE_BRIDGE && is_let(w, SIM_TOKEN)))
        sim_fail(w, SIM_ALL, "%s in phase %d while those may run who can't live beside it", what,
                 phase);
}

static int64_t field(sim_world *w, tl_bytes name) {
    tl_bytes text = {0};
    int64_t v = 0;
    (void)fake_redis_peek_field(w->server[w->master].r, 0, TL_LITERAL(SIM_REGISTER), name, &text);
    return text.n > 0 && tl__bytes_to_int(text, &v) ? v : 0;
}

static void set_register(sim_world *w, int64_t epoch, int phase) {
    sim_migration *m = &w->migration;
    m->epoch = epoch;
    m->phase = phase;
    m->top = epoch > m->top ? epoch : m->top;
    sim_tell(w, "", SIM_ALL, "epoch %lld is phase %d", (long long)epoch, phase);
    if (!w->kept || epoch == 0)
        return;
    check_leases(w, phase, "the register is");
    check_others(w, phase, "the register is");
}

/* From one epoch to the next; where a failover has undone one, perhaps above all that are known. */
void sim_phase_look(sim_world *w) {
    sim_migration *m = &w->migration;
    int64_t epoch = field(w, TL_LITERAL("epoch"));
    int before = m->phase, now = (int)field(w, TL_LITERAL("phase"));
    if (epoch == m->epoch && now == before)
        return;
    bool first = m->epoch == 0, next = epoch == m->epoch + 1;
    bool anew = m->undone && epoch > m->epoch && epoch <= m->top + 1;
    if (w->kept && ((!next && !anew) || (!first && are_apart(before, now))))
        sim_fail(w, SIM_ALL, "the register goes from epoch %lld, phase %d to epoch %lld, phase %d",
                 (long long)m->epoch, before, (long long)epoch, now);
    w->stats.steps_on += !first && now > before;
    w->stats.steps_back += !first && now < before;
    w->stats.remade += !next && anew;
    m->epoch_before = m->epoch;
    m->phase_before = before;
    set_register(w, epoch, now);
    sim_faults_stepped(w);
}

/* It goes back by one change at most, as the one before was confirmed; and where nothing is lost by none. */
void sim_phase_failed_over(sim_world *w) {
    sim_migration *m = &w->migration;
    int64_t epoch = field(w, TL_LITERAL("epoch"));
    int now = (int)field(w, TL_LITERAL("phase"));
    if (epoch != m->epoch || now != m->phase) {
        if (w->kept && (w->whole || epoch != m->epoch_before || now != m->phase_before))
            sim_fail(w, SIM_ALL,
                     "a failover brings back epoch %lld, phase %d of epoch %lld, phase %d",
                     (long long)epoch, now, (long long)m->epoch, m->phase);
        w->stats.epochs_undone++;
        m->undone = true;
        set_register(w, epoch, now);
    }
    m->epoch_before = epoch;
    m->phase_before = now;
}

void sim_phase_acted(sim_world *w, const sim_msg *m, int key) {
    const sim_host *h = m->sender;
    int phase = phase_of(w, &m->lease);
    if (m->lease.until.ns == 0)
        return;
    int64_t *counts[] = {&w->stats.takes_0, &w->stats.takes_1, &w->stats.takes_2,
                         &w->stats.takes_3};
    (*counts[phase])++;
    if (!w->kept || !refuses_late(w))
        return;
    if (m->boot == h->booted && !tl__mono_before(sim_host_clock(w, h), m->lease.until))
        sim_fail(w, key, "a request of host %c takes effect after its lease", h->name);
    if (w->migration.epoch > 0 && are_apart(phase, w->migration.phase))
        sim_fail(w, key, "a lock is acquired in phase %d while the register is in phase %d", phase,
                 w->migration.phase);
    check_leases(w, phase, "a lock is acquired");
    check_others(w, phase, "a lock is acquired");
}

/* ---- whoever doesn't follow it ---------------------------------------------------------------------- */

bool sim_phase_lets(const sim_world *w, sim_kind kind) {
    return !w->cfg.migrates || !w->migration.stopped[kind];
}

void sim_phase_stop(sim_world *w, sim_kind kind) {
    if (w->migration.stopped[kind])
        return;
    w->migration.stopped[kind] = true;
    for (int i = 0; i < w->cfg.actors; i++)
        if (w->cfg.cast[i].kind == kind && w->actor[i].host->up && w->actor[i].kind->stop)
            w->actor[i].kind->stop(w, &w->actor[i]);
}

bool sim_phase_is_rid_of(const sim_world *w, sim_kind kind) {
    int64_t lag_ms = kind == SIM_JAVA ? w->cfg.lag_ms : w->cfg.attempt_ms;
    for (int i = 0; i < w->cfg.actors; i++) {
        const sim_actor *a = &w->actor[i];
        if (w->cfg.cast[i].kind == kind && a->host->up &&
            (kind == SIM_JAVA ? sim_java_is_busy(a) : !sim_actor_is_idle(a)))
            return false;
    }
    return w->migration.stopped[kind] && w->now - w->migration.asked[kind] > (lag_ms + 1) * SIM_MS;
}

bool sim_phase_has_tokens(const sim_world *w) {
    bool java = false;
    for (int i = 0; i < w->cfg.keys; i++)
        java = java || sim_config_has(&w->cfg, SIM_JAVA, i);
    return w->cfg.migrates &&
           (!java || w->migration.stopped[SIM_JAVA] || !w->whole || !refuses_late(w));
}

/* ---- a world ---------------------------------------------------------------------------------------- */

static void make_register(sim_world *w) {
    char line[160];
    (void)snprintf(line, sizeof line, "HMSET " SIM_REGISTER " phase %d epoch 1 lease_ms %lld",
                   (int)w->cfg.first_phase, (long long)w->cfg.lease_ms);
    sim_server_set(w, w->master);
    (void)fake_conn_say(w->server[w->master].runner, line);
    w->migration.epoch = w->migration.epoch_before = w->migration.top = 1;
    w->migration.phase = w->migration.phase_before = w->cfg.first_phase;
    sim_replicas_copy(w);
}

/* After the server has been made. */
void sim_phases_reset(sim_world *w) {
    sim_phases_free(w);
    w->migration = (sim_migration){0};
    acts.is_new = false;
    if (!w->cfg.migrates)
        return;
    if (w->cfg.first_phase >= 0)
        make_register(w);
    w->migration.stopped[SIM_JAVA] = w->cfg.first_phase > TL_PHASE_BRIDGE;
    w->migration.stopped[SIM_BRIDGE] = w->cfg.first_phase > TL_PHASE_DRAIN;
    w->migration.stopped[SIM_TOKEN] = w->cfg.first_phase < TL_PHASE_DRAIN;
}

void sim_phases_free(sim_world *w) {
    for (int i = 0; i < SIM_HOSTS; i++) {
        tl__namespaces_close(w->migration.names[i]);
        w->migration.names[i] = NULL;
    }
}
#else

const tl_protocol sim_counted_auto = {.name = "auto"};

const struct tl_namespace *sim_phase_space(const sim_world *w, const sim_client *c) {
    (void)w, (void)c;
    return NULL;
}
void sim_phase_boot(sim_world *w, sim_client *c) {
    (void)w, (void)c;
}
void sim_phase_stepped(sim_world *w, sim_task *t, const tl_out *out) {
    (void)w, (void)t, (void)out;
}
void sim_phase_look(sim_world *w) {
    (void)w;
}
void sim_phase_failed_over(sim_world *w) {
    (void)w;
}
void sim_phase_acted(sim_world *w, const sim_msg *m, int key) {
    (void)w, (void)m, (void)key;
}
bool sim_phase_lets(const sim_world *w, sim_kind kind) {
    (void)w, (void)kind;
    return true;
}
void sim_phase_stop(sim_world *w, sim_kind kind) {
    (void)w, (void)kind;
}
bool sim_phase_has_tokens(const sim_world *w) {
    (void)w;
    return false;
}
bool sim_phase_is_rid_of(const sim_world *w, sim_kind kind) {
    (void)w, (void)kind;
    return true;
}
void sim_phases_reset(sim_world *w) {
    (void)w;
}
void sim_phases_free(sim_world *w) {
    (void)w;
}
#endif
