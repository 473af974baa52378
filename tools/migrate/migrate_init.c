/*
 * migrate init: makes a namespace's register. Clients that already lock by their fallback protocol
 * read it within a lease. Until then they act in a neighbouring phase; otherwise the register is
 * not made.
 */
#include <stdio.h>
#include <string.h>

#include "migrate/migrate_cluster.h"
#include "migrate/migrate_overlap.h"
#include "migrate/migrate_show.h"

#define LEASE_MS 30000
#define LOOK_MS 200

/* ---- an existing register ------------------------------------------------------------------- */

static int asked_phase(const migrate_work *work) {
    return work->options->phase != MIGRATE_NOT_GIVEN ? work->options->phase : work->view.reg.phase;
}

static bool is_as_asked(const migrate_work *work) {
    const migrate_register *reg = &work->view.reg;
    return strcmp(reg->keys, work->options->keys) == 0 && asked_phase(work) == reg->phase &&
           migrate_is_whole(&work->view) &&
           (work->options->lease_ms == MIGRATE_NOT_GIVEN ||
            work->options->lease_ms == reg->lease_ms);
}

static int otherwise(const migrate_work *work) {
    const migrate_register *reg = &work->view.reg;
    char lease[DURATION_SHOWN];

    return fail(
        STATUS_REFUSED,
        "migrate init: refused: namespace %s is already registered differently by %s: phase %d, "
        "keys %.100s%s%s: a phase is changed by advance and rollback, keys in phase 0 and 1 by "
        "init --again",
        work->view.name, reg->by, reg->phase, reg->keys, work->view.by_slots ? "" : ", lease ",
        work->view.by_slots ? "" : show_ms(lease, reg->lease_ms));
}

/* May the register be made again with these values? The keys can change while no client writes
 * tokens, because no step has checked the new ones. The phase can change only if the register was
 * set back by lost writes. */
static int refuse_again(const migrate_work *work) {
    const migrate_register *reg = &work->view.reg;
    int phase = asked_phase(work);

    if (work->view.by_slots && migrate_phase_of(&work->view) > PHASE_BRIDGE)
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: slots of namespace %s are in phase %d, from which advance and "
            "rollback lead on: --again is for phase 0 and 1",
            work->view.name, migrate_phase_of(&work->view));

    if (work->options->lease_ms != MIGRATE_NOT_GIVEN && work->options->lease_ms != reg->lease_ms)
        return otherwise(work);
    if (phase != reg->phase && !migrate_is_set_back(&work->view))
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: namespace %s is in phase %d, and no client knows a later "
            "epoch than its %lld: a phase is changed by advance and rollback",
            work->view.name, reg->phase, (long long)reg->epoch);
    if (phase - reg->phase > 1 || reg->phase - phase > 1)
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: clients may act in phase %d of namespace %s, which is no "
            "neighbour of %d",
            reg->phase, work->view.name, phase);
    if (strcmp(reg->keys, work->options->keys) != 0 &&
        (phase > PHASE_BRIDGE || reg->phase > PHASE_BRIDGE))
        return fail(STATUS_REFUSED,
                    "migrate init: refused: the keys of namespace %s can change in phase 0 and 1 "
                    "only, as legacy clients may still use others: they are %.100s",
                    work->view.name, reg->keys);
    return 0;
}

/* Does the register already exist as requested, or may it be made again? 0: continue. */
static int exists(const migrate_work *work, bool *ret_done) {
    const migrate_register *reg = &work->view.reg;

    *ret_done = true;
    if (!reg->readable)
        return fail(
            STATUS_REFUSED,
            "migrate init: refused: the register of namespace %s can't be read; to see it: HGETALL "
            "%s",
            work->view.name, work->migration.reg);
    if (is_as_asked(work) && !(work->options->again && migrate_is_set_back(&work->view))) {
        printf("namespace %s is registered already: phase %d (%s), epoch %lld\n", work->view.name,
               reg->phase, migrate_phase_name(reg->phase), (long long)reg->epoch);
        return STATUS_OK;
    }
    *ret_done = false;
    return work->options->again ? refuse_again(work) : otherwise(work);
}

/* ---- making it -------------------------------------------------------------------------------- */

/* Counts clients that found no register at their last read, and whose lease may not have ended. */
static int unread(const migrate_view *view) {
    int n = 0;
    for (int i = 0; i < view->clients; i++) {
        const migrate_client *client = &view->client[i];
        n += client->readable && client->epoch < view->reg.epoch &&
             !migrate_client_is_gone(client, view->now_us);
    }
    return n;
}

/* Waits until each client has read the register, or can no longer act without having read it. */
static int await_leases(migrate_work *work) {
    int64_t lease_ms = migrate_longest_lease_ms(&work->view);
    int64_t until_ms = moment_ms() + lease_ms + lease_ms / 1000 + 1;
    bool reported = false;
    int status = 0;

    for (int64_t left = 1; left > 0 && !work->sig; left = until_ms - moment_ms()) {
        status = migrate_read(&work->migration, &work->view);
        if (status || unread(&work->view) == 0)
            break;
        if (!reported)
            migrate_say_wait(work->word, "registered; waiting until all clients have read it",
                             until_ms - moment_ms());
        reported = true;
        migrate_progress("registered; %d client%s not read it yet, which takes %lld s at most",
                         unread(&work->view), unread(&work->view) == 1 ? " has" : "s have",
                         (long long)((until_ms - moment_ms() + 999) / 1000));
        work->sig = signals_pause(&work->sigs, left < LOOK_MS ? left : LOOK_MS);
    }
    migrate_progress(NULL);
    if (status == 0 && work->sig)
        return fail(
            signals_status(work->sig),
            "migrate init: registered; not all clients have read it yet: see: tidelock migrate "
            "status --namespace %s",
            work->view.name);
    return status;
}

/* In a cluster: the record, and the register of each slot. Slots that have registers already, of a record that is lost,
 * keep them: advance and rollback go on from there. */
static int make_slots(migrate_work *work, int phase, unsigned ups, const char *evidence) {
    const migrate_register *reg = &work->view.reg;
    migrate_cluster_step step = {.from = phase,
                                 .to = phase,
                                 .epoch = reg->epoch,
                                 .ups = ups,
                                 .keys = work->options->keys,
                                 .record_only = migrate_tally_most(&work->view.slots) >
                                                PHASE_BRIDGE,
                                 .evidence = evidence};

    return migrate_cluster_move(work, &step);
}

/* A record that is lost doesn't tell which phase the slots are in; they do. */
static int check_slots(const migrate_work *work, int phase) {
    int most = migrate_tally_most(&work->view.slots);

    if (!work->view.by_slots || most <= PHASE_BRIDGE || most == phase)
        return 0;
    return fail(
        STATUS_REFUSED,
        "migrate init: refused: slots of namespace %s are in phase %d (%s): give --phase %d, and "
        "then go on by advance and rollback",
        work->view.name, most, migrate_phase_name(most), most);
}

/* ups: of the connection on which all was looked at. After another one a server may have lost locks. */
static int make(migrate_work *work, int phase, unsigned ups, const migrate_locks *locks) {
    const migrate_register *reg = &work->view.reg;
    migrate_change entry = {.action = "init", .from_phase = -1, .to_phase = phase};
    int64_t lease_ms = work->options->lease_ms, epoch = 0;
    int live = migrate_live_clients(&work->view);

    if (reg->there)
        entry.from_phase = reg->phase;
    entry.from_epoch = reg->epoch;
    if (lease_ms == MIGRATE_NOT_GIVEN)
        lease_ms = reg->there ? reg->lease_ms : LEASE_MS;
    migrate_move move = {.epoch = reg->epoch,
                         .phase = phase,
                         .ups = ups,
                         .keys = work->options->keys,
                         .lease_ms = lease_ms,
                         .entry = &entry};

    (void)snprintf(entry.by, sizeof entry.by, "%s", work->migration.by);
    (void)snprintf(entry.evidence, sizeof entry.evidence,
                   "clients: %d; %lld stamp%s of tidelock's, %lld without a sidecar, %lld token%s; "
                   "keys %.200s",
                   live, (long long)migrate_locks_ours(locks),
                   migrate_plural(migrate_locks_ours(locks)), (long long)locks->strays.count,
                   (long long)locks->tokens.count, migrate_plural(locks->tokens.count),
                   work->options->keys);
    if (work->migration.by_cluster)
        return make_slots(work, phase, ups, entry.evidence);
    int status = migrate_change_register(&work->migration, &move, &epoch);
    if (status == 0 && live > 0)
        status = await_leases(work);
    if (epoch)
        printf("namespace %s: phase %d (%s), epoch %lld\n", work->view.name, phase,
               migrate_phase_name(phase), (long long)epoch);
    return status;
}

int migrate_init(migrate_work *work) {
    int phase = asked_phase(work);
    unsigned ups = work->migration.link.ups;
    char question[900], list[MIGRATE_LIST_SIZE];
    migrate_blockers blockers;
    migrate_locks locks = {.whole = false};

    bool done = false;
    int status = work->view.reg.there ? exists(work, &done) : 0;
    if (status || done)
        return status;
    if (!work->view.reg.there && work->options->phase == MIGRATE_NOT_GIVEN)
        return fail(
            STATUS_USAGE,
            "migrate init: --phase N is missing: 1 (bridge) while legacy clients run or may "
            "return, 3 (token) where none ever will; see: tidelock help migrate");
    status = check_slots(work, phase);
    if (status)
        return status;
    status = migrate_look(&work->migration, &work->view, work->options->keys, &work->sigs, &locks,
                          &work->sig);
    if (status || work->sig)
        return work->sig ? signals_status(work->sig) : status;
    migrate_judge_init(&work->view, phase, &locks, &blockers);
    if (blockers.count)
        return migrate_refuse(work->word, &blockers);
    status = migrate_tell_overlap(work, work->options->keys);
    if (status || work->sig)
        return work->sig ? signals_status(work->sig) : status;
    migrate_bunch all = locks.strays;
    if (all.count == 0)
        all = locks.tokens.count ? locks.tokens : locks.own;
    (void)snprintf(
        question, sizeof question,
        "Register namespace %s %sin phase %d (%s) for the keys %.100s, %lld of which are "
        "locks now%s%s?%s",
        work->view.name, work->view.reg.there ? "again, " : "", phase, migrate_phase_name(phase),
        work->options->keys, (long long)migrate_locks_all(&locks), all.count ? ": " : "",
        migrate_bunch_list(list, &all),
        phase >= PHASE_DRAIN
            ? " tidelock does not look for Java clients here: none may use these keys."
            : "");
    status = migrate_confirm(work, question);
    return status ? status : make(work, phase, ups, &locks);
}
