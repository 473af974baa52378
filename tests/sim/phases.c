/*
 * Migrations, what must hold: nobody acts by a lease that is over, and no two act in phases that are not
 * neighbours.
 */
#include "world.h"

#ifdef TL_COMPAT
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "phase/phase.h"
#include "stamp/stamp.h"
#include "protocol/attempt.h"

/* ---- leases ---------------------------------------------------------------------------------------- */

static sim_lease summary(const tl_lease *lease) {
    return (sim_lease){.epoch = lease->epoch, .until = lease->until, .phase = lease->phase};
}

sim_lease sim_lease_known(const tl_server *server) {
    return summary(tl__lease_of(server, 0));
}

sim_lease sim_lease_read(const tl_out *out) {
    return summary(tl__lease_read(out));
}

int64_t sim_phase_epoch(const tl_client *client) {
    return tl__lease_of(&client->node.server, 0)->epoch;
}

void sim_phase_kept(sim_world *w, const sim_host *h, int64_t before, const tl_out *out) {
    int64_t now = tl__lease_read(out)->epoch;
    if (w->cfg.slot_phases)
        return; /* of another slot */
    w->stats.phases_followed += before > 0 && now > before;
    w->stats.phases_missed += before > 0 && now > before + 1;
    if (now < before)
        sim_fail(w, SIM_ALL, "host %c goes from epoch %lld back to %lld", h->name,
                 (long long)before, (long long)now);
}

static int phase_of(const sim_world *w, const sim_lease *lease) {
    return lease->phase == TL_PHASE_NONE ? w->cfg.fallback : lease->phase;
}

void sim_phase_asked(sim_world *w, const sim_host *h, const sim_lock *lock, const sim_lease *lease,
                     tl_mono now) {
    if (lease->until.ns == 0)
        return;
    sim_tell(w, lock ? lock->actor->name : "", lock ? lock->key : SIM_ALL,
             "acts in phase %d of epoch %lld", phase_of(w, lease), (long long)lease->epoch);
    if (!tl__mono_before(now, lease->until))
        sim_fail(w, SIM_ALL, "host %c acts by a lease that is over", h->name);
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
    for (int i = 0; i < w->cfg.hosts * SIM_CLIENTS && !w->failed; i++) {
        const sim_host *h = &w->host[i / SIM_CLIENTS];
        const sim_client *c = &h->client[i % SIM_CLIENTS];
        if (!h->up || !sim_client_follows(c))
            continue;
        sim_lease lease = sim_lease_known(&c->handle->node.server);
        if (tl__mono_before(sim_host_clock(w, h), lease.until) &&
            are_apart(phase_of(w, &lease), phase))
            sim_fail(w, SIM_ALL, "%s in phase %d while host %c may act in phase %d", what, phase,
                     h->name, phase_of(w, &lease));
    }
    for (int i = 0; i < w->cfg.actors && !w->failed; i++) {
        const sim_actor *a = &w->actor[i];
        sim_lease lease;
        if (a->kind == &sim_actor_drop_in && sim_drop_in_lease(w, a, &lease) &&
            are_apart(lease.phase, phase))
            sim_fail(w, SIM_ALL, "%s in phase %d while %s may act in phase %d", what, phase,
                     a->name, lease.phase);
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
    (void)fake_redis_peek_field(w->server[w->shard[0].master].r, 0, TL_LITERAL(SIM_REGISTER), name,
                                &text);
    return text.n > 0 && tl__bytes_to_int(text, &v) ? v : 0;
}

/* Who is forgotten may overwrite a token there, just when a stamp was over: against what is assumed. */
static void let_rob(sim_world *w, int phase) {
    if (w->cfg.forgets > 0 && phase >= TL_PHASE_DRAIN)
        w->key[w->cfg.cast[w->cfg.forgets - 1].key].mixed = true;
}

static void set_register(sim_world *w, int64_t epoch, int phase) {
    sim_migration *m = &w->migration;
    let_rob(w, phase);
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

void sim_phase_acted(sim_world *w, const sim_host *h, int64_t boot, const sim_lease *lease,
                     int key) {
    int phase = phase_of(w, lease);
    if (lease->until.ns == 0 || w->cfg.slot_phases)
        return;
    int64_t *counts[] = {&w->stats.takes_0, &w->stats.takes_1, &w->stats.takes_2,
                         &w->stats.takes_3};
    (*counts[phase])++;
    if (!w->kept || !refuses_late(w))
        return;
    if (boot == h->booted && !tl__mono_before(sim_host_clock(w, h), lease->until))
        sim_fail(w, key, "a request of host %c takes effect after its lease", h->name);
    if (w->migration.epoch > 0 && are_apart(phase, w->migration.phase))
        sim_fail(w, key, "a lock is acquired in phase %d while the register is in phase %d", phase,
                 w->migration.phase);
    check_leases(w, phase, "a lock is acquired");
    check_others(w, phase, "a lock is acquired");
}

/* ---- whoever doesn't follow it ---------------------------------------------------------------------- */

bool sim_phase_is_outside(const sim_world *w, int key) {
    return w->cfg.outside && key == w->cfg.keys - 1;
}

bool sim_phase_lets(const sim_world *w, const sim_actor *a) {
    return !(w->cfg.migrates || w->cfg.slot_phases) ||
           !w->migration.stopped[w->cfg.cast[a->id].kind] || w->cfg.forgets == a->id + 1 ||
           sim_phase_is_outside(w, a->key);
}

/* Where the plan goes from this phase, which is the one to stay in when it has been carried out. */
static int64_t planned(sim_world *w, int64_t phase) {
    char digits[TL_INT_SIZE];
    tl_bytes text = tl__bytes_from_int(digits, w->cfg.plan);
    int *done = &w->migration.done;
    while ((size_t)*done < text.n && text.p[*done] - '0' == phase)
        w->stats.planned += (size_t)++ * done == text.n;
    return (size_t)*done < text.n ? text.p[*done] - '0' : phase;
}

int64_t sim_phase_next(sim_world *w, int64_t phase, bool on) {
    if (w->cfg.plan == 0)
        return phase == 0 || (on && phase < 3) ? phase + 1 : phase - 1;
    int64_t to = planned(w, phase);
    return phase < 0 ? to : to > phase ? phase + 1 : to < phase ? phase - 1 : to;
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
    if (w->cfg.slot_phases)
        return !java || w->migration.stopped[SIM_JAVA] || !sim_config_cluster_keeps(&w->cfg);
    return w->cfg.migrates &&
           (!java || w->migration.stopped[SIM_JAVA] || !w->whole || !refuses_late(w));
}

/* ---- a world ---------------------------------------------------------------------------------------- */

static void make_register(sim_world *w) {
    char line[240];
    sim_server_set(w, w->shard[0].master);
    (void)snprintf(
        line, sizeof line,
        "HMSET " SIM_REGISTER " phase %d epoch 1 lease_ms %lld keys %s since %lld by nobody",
        (int)w->cfg.first_phase, (long long)w->cfg.lease_ms, sim_config_glob(&w->cfg).keys,
        (long long)sim_server_us(w, &w->server[w->shard[0].master]));
    (void)fake_conn_say(w->server[w->shard[0].master].runner, line);
    w->migration.epoch = w->migration.epoch_before = w->migration.top = 1;
    w->migration.phase = w->migration.phase_before = w->cfg.first_phase;
    let_rob(w, w->cfg.first_phase);
    sim_replicas_copy(w);
}

static void make_slot_register(sim_world *w, int key) {
    char name[SIM_SLOT_REGISTER], text[] = "0 1";
    tl_bytes argv[] = {TL_LITERAL("SET"), sim_slot_register(w, key, name), tl__bytes_of(text)};
    text[0] = (char)('0' + w->cfg.first_phase);
    (void)fake_conn_command(w->server[sim_home_of(w, argv[1])].runner, argv, 3);
}

tl_bytes sim_slot_register(const sim_world *w, int key, char to[SIM_SLOT_REGISTER]) {
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(w->key[key].k));
    (void)snprintf(to, SIM_SLOT_REGISTER, "tidelock:phase:slot:{%s}:default", tag.text);
    return tl__bytes_of(to);
}

/* After the server has been made. */
void sim_phases_reset(sim_world *w) {
    w->migration = (sim_migration){0};
    if (w->cfg.slot_phases) {
        for (int i = 0; i < w->cfg.keys && w->cfg.first_phase >= 0; i++)
            make_slot_register(w, i);
        w->migration.top = 1;
        w->migration.stopped[SIM_JAVA] = w->cfg.first_phase > TL_PHASE_BRIDGE;
        return;
    }
    if (!w->cfg.migrates)
        return;
    if (w->cfg.first_phase >= 0)
        make_register(w);
    w->migration.stopped[SIM_JAVA] = w->cfg.first_phase > TL_PHASE_BRIDGE;
    /* who works by what compat/MIGRATION.md says keeps both out of phase 2 */
    int spare = w->cfg.tool;
    w->migration.stopped[SIM_BRIDGE] = w->cfg.first_phase > TL_PHASE_DRAIN - spare;
    w->migration.stopped[SIM_TOKEN] = w->cfg.first_phase < TL_PHASE_DRAIN + spare;
}

#else

sim_lease sim_lease_known(const tl_server *server) {
    (void)server;
    return (sim_lease){0};
}
sim_lease sim_lease_read(const tl_out *out) {
    (void)out;
    return (sim_lease){0};
}
int64_t sim_phase_epoch(const tl_client *client) {
    (void)client;
    return 0;
}
void sim_phase_kept(sim_world *w, const sim_host *h, int64_t before, const tl_out *out) {
    (void)w, (void)h, (void)before, (void)out;
}
void sim_phase_asked(sim_world *w, const sim_host *h, const sim_lock *lock, const sim_lease *lease,
                     tl_mono now) {
    (void)w, (void)h, (void)lock, (void)lease, (void)now;
}
void sim_phase_acted(sim_world *w, const sim_host *h, int64_t boot, const sim_lease *lease,
                     int key) {
    (void)w, (void)h, (void)boot, (void)lease, (void)key;
}
void sim_phase_look(sim_world *w) {
    (void)w;
}
void sim_phase_failed_over(sim_world *w) {
    (void)w;
}
bool sim_phase_lets(const sim_world *w, const sim_actor *a) {
    (void)w, (void)a;
    return true;
}
bool sim_phase_is_outside(const sim_world *w, int key) {
    (void)w, (void)key;
    return false;
}
int64_t sim_phase_next(sim_world *w, int64_t phase, bool on) {
    (void)w, (void)on;
    return phase;
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
tl_bytes sim_slot_register(const sim_world *w, int key, char to[SIM_SLOT_REGISTER]) {
    (void)w, (void)key, (void)to;
    return (tl_bytes){0};
}
void sim_phases_reset(sim_world *w) {
    (void)w;
}
#endif
