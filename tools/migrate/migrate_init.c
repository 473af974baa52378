/*
 * migrate init: makes a namespace's register. Clients that are already at work by the protocol that they
 * fall back to read it within a lease; until then they act in a neighbouring phase, or it is not made.
 */
#include <stdio.h>
#include <string.h>

#include "migrate/migrate_overlap.h"
#include "migrate/migrate_show.h"

#define LEASE_MS 30000
#define LOOK_MS 200

/* ---- a register that is there ----------------------------------------------------------------- */

static int asked_phase(const migrate_work *w) {
    return w->o->phase != MIGRATE_NOT_GIVEN ? w->o->phase : w->v.reg.phase;
}

static bool is_as_asked(const migrate_work *w) {
    const migrate_register *r = &w->v.reg;
    return strcmp(r->keys, w->o->keys) == 0 && asked_phase(w) == r->phase &&
           (w->o->lease_ms == MIGRATE_NOT_GIVEN || w->o->lease_ms == r->lease_ms);
}

static int otherwise(const migrate_work *w) {
    const migrate_register *r = &w->v.reg;
    char lease[DURATION_SHOWN];

    return fail(
        STATUS_REFUSED,
        "migrate init: refused: namespace %s is already registered differently by %s: phase %d, keys "
        "%.100s, lease %s: a phase is changed by advance and rollback, keys in phase 0 and 1 by "
        "init --again",
        w->v.name, r->by, r->phase, r->keys, show_ms(lease, r->lease_ms));
}

/* May it be made again like this? Keys can change while nobody writes tokens: no step has looked at the
 * new ones. A phase only where the register has been set back, as writes were lost. */
static int refuse_again(const migrate_work *w) {
    const migrate_register *r = &w->v.reg;
    int phase = asked_phase(w);

    if (w->o->lease_ms != MIGRATE_NOT_GIVEN && w->o->lease_ms != r->lease_ms)
        return otherwise(w);
    if (phase != r->phase && !migrate_is_set_back(&w->v))
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: namespace %s is in phase %d, and no client knows a later "
            "epoch than its %lld: a phase is changed by advance and rollback",
            w->v.name, r->phase, (long long)r->epoch);
    if (phase - r->phase > 1 || r->phase - phase > 1)
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: clients may act in phase %d of namespace %s, which is no "
            "neighbour of %d",
            r->phase, w->v.name, phase);
    if (strcmp(r->keys, w->o->keys) != 0 && (phase > PHASE_BRIDGE || r->phase > PHASE_BRIDGE))
        return fail(STATUS_REFUSED,
                    "migrate init: refused: the keys of namespace %s can change in phase 0 and 1 "
                    "only, as legacy clients may still use others: they are %.100s",
                    w->v.name, r->keys);
    return 0;
}

/* Is what was asked for there already, or may it be made again? 0: go on. */
static int exists(const migrate_work *w, bool *ret_done) {
    const migrate_register *r = &w->v.reg;

    *ret_done = true;
    if (!r->readable)
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: namespace %s has a register that can't be read: look at "
            "it: HGETALL %s",
            w->v.name, w->m.reg);
    if (is_as_asked(w) && !(w->o->again && migrate_is_set_back(&w->v))) {
        printf("namespace %s is registered already: phase %d (%s), epoch %lld\n", w->v.name,
               r->phase, migrate_phase_name(r->phase), (long long)r->epoch);
        return STATUS_OK;
    }
    *ret_done = false;
    return w->o->again ? refuse_again(w) : otherwise(w);
}

/* ---- making it -------------------------------------------------------------------------------- */

/* Clients whose last reading found no register, and whose lease may not be over. */
static int unread(const migrate_view *v) {
    int n = 0;
    for (int i = 0; i < v->clients; i++) {
        const migrate_client *c = &v->client[i];
        n += c->readable && c->epoch < v->reg.epoch && !migrate_client_is_gone(c, v->now_us);
    }
    return n;
}

/* Until each client has read the register, or can't act any more by not having done so. */
static int await_leases(migrate_work *w) {
    int64_t lease_ms = migrate_longest_lease_ms(&w->v);
    int64_t until_ms = moment_ms() + lease_ms + lease_ms / 1000 + 1;
    bool reported = false;
    int status = 0;

    for (int64_t left = 1; left > 0 && !w->sig; left = until_ms - moment_ms()) {
        status = migrate_read(&w->m, &w->v);
        if (status || unread(&w->v) == 0)
            break;
        if (!reported)
            migrate_say_wait(w->word, "registered; waiting until all clients have read it",
                             until_ms - moment_ms());
        reported = true;
        migrate_progress("registered; %d clients have not read it yet, which takes %lld s at most",
                         unread(&w->v), (long long)((until_ms - moment_ms() + 999) / 1000));
        w->sig = signals_pause(&w->sigs, left < LOOK_MS ? left : LOOK_MS);
    }
    migrate_progress(NULL);
    if (status == 0 && w->sig)
        return fail(
            signals_status(w->sig),
            "migrate init: registered; not all clients have read it yet: see: tidelock migrate status --namespace %s",
            w->v.name);
    return status;
}

static int make(migrate_work *w, int phase, const migrate_locks *locks) {
    const migrate_register *r = &w->v.reg;
    migrate_change entry = {.action = "init", .from_phase = -1, .to_phase = phase};
    int64_t lease_ms = w->o->lease_ms, epoch = 0;
    int live = migrate_live_clients(&w->v);

    if (r->there)
        entry.from_phase = r->phase;
    entry.from_epoch = r->epoch;
    if (lease_ms == MIGRATE_NOT_GIVEN)
        lease_ms = r->there ? r->lease_ms : LEASE_MS;
    migrate_move move = {.epoch = r->epoch,
                         .phase = phase,
                         .ups = w->m.link.ups,
                         .keys = w->o->keys,
                         .lease_ms = lease_ms,
                         .entry = &entry};

    (void)snprintf(entry.by, sizeof entry.by, "%s", w->m.by);
    (void)snprintf(entry.evidence, sizeof entry.evidence,
                   "%d clients; %lld stamps of tidelock's, %lld without a sidecar, %lld tokens; "
                   "keys %.200s",
                   live, (long long)migrate_locks_ours(locks), (long long)locks->strays.count,
                   (long long)locks->tokens.count, w->o->keys);
    int status = migrate_change_register(&w->m, &move, &epoch);
    if (status == 0 && live > 0)
        status = await_leases(w);
    if (epoch)
        printf("namespace %s: phase %d (%s), epoch %lld\n", w->v.name, phase,
               migrate_phase_name(phase), (long long)epoch);
    return status;
}

int migrate_init(migrate_work *w) {
    int phase = asked_phase(w);
    char question[900], list[MIGRATE_LIST_SIZE];
    migrate_blockers blockers;
    migrate_locks locks = {.whole = false};

    bool done = false;
    int status = w->v.reg.there ? exists(w, &done) : 0;
    if (status || done)
        return status;
    if (!w->v.reg.there && w->o->phase == MIGRATE_NOT_GIVEN)
        return fail(
            STATUS_USAGE,
            "migrate init: --phase N is missing: 1 (bridge) while legacy clients run or may "
            "come back, 3 (token) where none ever will; see: tidelock help migrate");
    status = migrate_look(&w->m, &w->v, w->o->keys, &w->sigs, &locks, &w->sig);
    if (status || w->sig)
        return w->sig ? signals_status(w->sig) : status;
    migrate_judge_init(&w->v, phase, &locks, &blockers);
    if (blockers.count)
        return migrate_refuse(w->word, &blockers);
    status = migrate_tell_overlap(w, w->o->keys);
    if (status || w->sig)
        return w->sig ? signals_status(w->sig) : status;
    migrate_bunch all = locks.strays;
    if (all.count == 0)
        all = locks.tokens.count ? locks.tokens : locks.own;
    (void)snprintf(
        question, sizeof question,
        "Register namespace %s %sin phase %d (%s) for the keys %.100s, %lld of which are "
        "locks now%s%s?%s",
        w->v.name, w->v.reg.there ? "again, " : "", phase, migrate_phase_name(phase), w->o->keys,
        (long long)migrate_locks_all(&locks), all.count ? ": " : "", migrate_bunch_list(list, &all),
        phase >= PHASE_DRAIN ? " Nobody watches for Java here: none may run on them." : "");
    status = migrate_confirm(w, question);
    return status ? status : make(w, phase, &locks);
}
