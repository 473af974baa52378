/*
 * A step in a cluster: all slots, one after the other, while clients acquire by what each of them says. A stamp is
 * safe whatever a register says. So the rules are about tokens alone: none may be written, nor be left, while
 * Java may run.
 *
 * Up: the record is changed first, and then the slots. Each server that may take over has the record before a
 * slot changes, so that nothing can say that Java may run from then on. Down to phase 1: the slots are changed
 * first, each to an epoch that no register ever had. Then the tokens must go. The record is changed last, and
 * then Java may start.
 *
 * Of two operators at once one gives up. The record is read before the registers, and claimed (its epoch grows)
 * before the first of them is written. A register is only written if it still says what it said between. So no
 * write of this command fits anything that was written after another's claim.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate_cluster.h"
#include "migrate/migrate_show.h"

#define WRITE_MS 30000 /* for so long slots are written again and again */
#define LOOK_MS 200
#define SCAN_MS 2000
#define LEASE_MS 30000 /* a record has one, as a register has, but no client reads it */

typedef struct {
    migrate_work *work;
    const migrate_cluster_step *step;
    migrate_slot *before, want;
    int64_t epoch; /* of the record, as it is now */
    int highest;   /* phase of the record until the step is done */
    bool down;
    migrate_locks locks;
} mover;

static migrate_link *link_of(const mover *mover) {
    return &mover->work->migration;
}

static int interrupted(const mover *mover, int status) {
    char list[MIGRATE_TALLY_SIZE];

    return fail(status,
                "migrate %s: the step is not finished: %s%s: give the same command again, or: "
                "tidelock migrate status --namespace %s",
                mover->work->word, migrate_tally_list(list, &link_of(mover)->fleet->tally),
                mover->step->to <= PHASE_BRIDGE && mover->step->from >= PHASE_DRAIN
                    ? "; Java may not start yet"
                    : "",
                mover->work->view.name);
}

static bool is_asked_to_end(mover *mover, int64_t pause_ms) {
    mover->work->sig = signals_pause(&mover->work->sigs, pause_ms);
    return mover->work->sig != 0;
}

/* ---- the record ------------------------------------------------------------------------------- */

/* Claim or change the record. */
static int change(mover *mover, int from, int to, const char *evidence) {
    const migrate_cluster_step *step = mover->step;
    bool anew = step->keys && mover->epoch == step->epoch;
    migrate_change entry = {
        .from_phase = mover->epoch ? from : -1, .to_phase = to, .from_epoch = mover->epoch};
    migrate_move move = {.epoch = mover->epoch,
                         .phase = to,
                         .ups = mover->epoch == step->epoch ? step->ups : link_of(mover)->link.ups,
                         .keys = anew ? step->keys : NULL,
                         .lease_ms = LEASE_MS,
                         .entry = &entry};
    int64_t epoch = 0;

    (void)snprintf(entry.action, sizeof entry.action, "%s", mover->work->word);
    (void)snprintf(entry.by, sizeof entry.by, "%s", link_of(mover)->by);
    (void)snprintf(entry.evidence, sizeof entry.evidence, "%s", evidence);
    int status = migrate_change_register(link_of(mover), &move, &epoch);
    mover->epoch = epoch ? epoch : mover->epoch;
    return status;
}

/* Is the record as this command has left it? A failover may have lost that, while another operator claims what came
 * back. Also leads the link to the record's present master. */
static int check_record(mover *mover, int phase) {
    const migrate_register *reg = &mover->work->view.reg;
    int status = migrate_read(link_of(mover), &mover->work->view);

    if (status || migrate_is_left_so(reg, mover->epoch, phase, link_of(mover)->by_register))
        return status;
    return fail(STATUS_REFUSED,
                "migrate %s: the record of namespace %s has epoch %lld, phase %d, by %.100s "
                "meanwhile: another operator is at work, or a failover has lost this command's "
                "change",
                mover->work->word, mover->work->view.name, (long long)reg->epoch, reg->phase,
                reg->by[0] ? reg->by : "?");
}

/* Nobody else changes slots from here on. The phase that the record has forbids Java to start, and each server that
 * may take over has that. */
static int claim(mover *mover) {
    const migrate_cluster_step *step = mover->step;
    int from = mover->work->view.reg.readable ? mover->work->view.reg.phase : step->from;
    int status = change(mover, from, mover->highest, step->evidence);

    if (status == 0)
        status = migrate_fleet_settle(link_of(mover), "no slot has changed");
    if (status == 0)
        status = check_record(mover, mover->highest);
    return status && mover->epoch != step->epoch ? interrupted(mover, status) : status;
}

/* ---- the slots -------------------------------------------------------------------------------- */

static bool (*wanted(const mover *mover))(migrate_slot is, migrate_slot want) {
    return mover->down ? migrate_slot_goes_down : migrate_slot_goes_up;
}

/* Slots that aren't there yet; -1: one was changed by another. */
static int left(const mover *mover, unsigned *ret_other) {
    const migrate_slot *slots = link_of(mover)->fleet->slot;
    int count = 0;

    for (unsigned i = 0; i < TL_SLOTS; i++) {
        if (!wanted(mover)(slots[i], mover->want))
            continue;
        count++;
        *ret_other = i;
        if (slots[i].phase != SLOT_UNREAD && !migrate_slot_same(slots[i], mover->before[i]))
            return -1;
    }
    return count;
}

static int changed_by_another(const mover *mover, unsigned slot) {
    char text[MIGRATE_SLOT_TEXT_SIZE];

    (void)migrate_slot_text(text, link_of(mover)->fleet->slot[slot]);
    return fail(
        STATUS_REFUSED,
        "migrate %s: slot %u says '%s' meanwhile: another operator is at work, or a failover "
        "has lost a change",
        mover->work->word, slot, text);
}

static int not_all(const mover *mover) {
    const migrate_blockers *flaws = &link_of(mover)->fleet->flaws;

    if (flaws->count)
        (void)fail(STATUS_UNAVAILABLE, "migrate %s: %s: %s: %s", mover->work->word,
                   flaws->item[0].what, flaws->item[0].who, flaws->item[0].todo);
    return interrupted(mover, STATUS_UNAVAILABLE);
}

/* Has a node denied the last write to this user? That won't change by itself. */
static int denied(const mover *mover) {
    const struct migrate_fleet *fleet = link_of(mover)->fleet;

    for (unsigned i = 0; i < fleet->count; i++)
        if (fleet->node[i].denies) {
            (void)fail(STATUS_REFUSED, "migrate %s: %.100s: %.240s", mover->work->word,
                       fleet->node[i].label, fleet->node[i].message);
            return STATUS_REFUSED;
        }
    return 0;
}

/* Write each slot until it is read to be there. */
static int write_slots(mover *mover) {
    int64_t until_ms = moment_ms() + WRITE_MS;
    unsigned other = 0;

    for (;;) {
        int count = left(mover, &other);
        if (count < 0)
            return interrupted(mover, changed_by_another(mover, other));
        if (count == 0)
            return 0;
        if (moment_ms() >= until_ms)
            return not_all(mover);
        migrate_progress("writing the registers of %d slot%s", count, migrate_plural(count));
        migrate_fleet_write(link_of(mover), mover->before, mover->want, wanted(mover));
        int refused = denied(mover), status = migrate_fleet_read(link_of(mover), 0);
        status = status ? status : refused;
        if (status)
            return interrupted(mover, status);
        if (is_asked_to_end(mover, left(mover, &other) ? LOOK_MS : 0))
            return interrupted(mover, signals_status(mover->work->sig));
    }
}

/* ---- up --------------------------------------------------------------------------------------- */

static void tell_step(const mover *mover) {
    const migrate_cluster_step *step = mover->step;

    migrate_progress(NULL);
    printf("namespace %s: phase %d (%s)", mover->work->view.name, step->from,
           migrate_phase_name(step->from));
    if (step->from != step->to)
        printf(" -> %d (%s)", step->to, migrate_phase_name(step->to));
    printf(", epoch %lld, in all %d slots\n", (long long)mover->epoch, TL_SLOTS);
    (void)fflush(stdout);
}

static void tell_record(const mover *mover) {
    char list[MIGRATE_TALLY_SIZE];

    printf("namespace %s: registered, epoch %lld; %s\n", mover->work->view.name,
           (long long)mover->epoch, migrate_tally_list(list, &link_of(mover)->fleet->tally));
}

/* The step is done. A failover that loses the last change makes it seem unfinished, which is safe. */
static int confirm(mover *mover) {
    return migrate_fleet_settle(link_of(mover), "changed, so don't repeat it");
}

static int go_up(mover *mover) {
    int status = claim(mover);

    if (status == 0 && mover->step->record_only) {
        tell_record(mover);
        return 0;
    }
    status = status ? status : write_slots(mover);
    if (status)
        return status;
    tell_step(mover);
    return confirm(mover);
}

/* ---- down to 1 -------------------------------------------------------------------------------- */

static void tell_java_waits(const mover *mover) {
    char list[MIGRATE_LIST_SIZE];
    const migrate_bunch *tokens = &mover->locks.tokens;

    if (tokens->count > 0)
        say("migrate %s: Java may not start yet: waiting for %lld %s: %s", mover->work->word,
            (long long)tokens->count, tokens->count == 1 ? "token" : "tokens",
            migrate_bunch_list(list, tokens));
    else
        say("migrate %s: Java may not start yet: the scan did not reach all keys in time; scanning "
            "again",
            mover->work->word);
}

static int look_for_tokens(mover *mover) {
    migrate_work *work = mover->work;
    int status = migrate_look(&work->migration, &work->view, work->view.reg.keys, &work->sigs,
                              &mover->locks, &work->sig);
    return status || !work->sig ? status : signals_status(work->sig);
}

/* Wait until no token is left at any server that may take over: *ret_done. Slots that have changed meanwhile are
 * written again by the caller. */
static int await_tokens(mover *mover, bool *reported, bool *ret_done) {
    const char *what = "Java may not start yet";
    int status = migrate_fleet_settle(link_of(mover), what);
    uint64_t identity = link_of(mover)->fleet->identity;
    unsigned other;

    status = status ? status : look_for_tokens(mover);
    if (status)
        return status;
    if ((mover->locks.tokens.count > 0 && GUARD(tokens_forbid_java)) || !mover->locks.whole) {
        if (!*reported)
            tell_java_waits(mover);
        *reported = true;
        return is_asked_to_end(mover, SCAN_MS) ? signals_status(mover->work->sig) : 0;
    }
    status = migrate_fleet_settle(link_of(mover), what);
    *ret_done = status == 0 && link_of(mover)->fleet->identity == identity &&
                left(mover, &other) == 0;
    return status;
}

static int finish(mover *mover) {
    int status = check_record(mover, mover->highest);
    return status ? status
                  : change(mover, mover->step->from, mover->step->to, mover->step->evidence);
}

/* This process may have been stopped for long behind the change of the record, and another operator have gone up. A slot
 * of which nothing is known may be in any phase. The record comes last, since a step up claims it first. */
static int check_end(mover *mover) {
    int status = migrate_fleet_read(link_of(mover), 0);
    const migrate_tally *tally = &link_of(mover)->fleet->tally;

    if (status || !GUARD(end_is_checked))
        return status;
    if (tally->unread)
        return fail(STATUS_UNAVAILABLE, "migrate %s: %d registers can't be read", mover->work->word,
                    tally->unread);
    if (migrate_tally_most(tally) > mover->step->to)
        return fail(STATUS_REFUSED, "migrate %s: slots have gone up again meanwhile",
                    mover->work->word);
    return check_record(mover, mover->step->to);
}

static int go_down_to_java(mover *mover) {
    char unsaved[MIGRATE_LIST_SIZE];
    bool done = false, reported = false;
    int status = 0;

    while (status == 0 && !done) {
        status = write_slots(mover);
        if (status)
            return status;
        status = await_tokens(mover, &reported, &done);
    }
    migrate_progress(NULL);
    status = status ? status : finish(mover);
    if (status)
        return interrupted(mover, status);
    status = check_end(mover);
    if (status)
        return fail(status,
                    "migrate %s: the record has changed to phase %d, but whether Java may start is "
                    "not known: tidelock migrate status --namespace %s",
                    mover->work->word, mover->step->to, mover->work->view.name);
    tell_step(mover);
    printf("namespace %s: no token is left: Java may start\n", mover->work->view.name);
    (void)fflush(stdout);
    if (*migrate_fleet_unsaved(unsaved, link_of(mover)->fleet))
        say("migrate %s: note: %s " MIGRATE_UNSAVED, mover->work->word, unsaved);
    return confirm(mover);
}

static int go_down(mover *mover) {
    int status = claim(mover);

    if (status)
        return status;
    if (mover->step->to == PHASE_BRIDGE && mover->step->from >= PHASE_DRAIN)
        return go_down_to_java(mover);
    status = write_slots(mover);
    if (status)
        return status;
    status = finish(mover);
    if (status)
        return interrupted(mover, status);
    tell_step(mover);
    return confirm(mover);
}

/* ---- the step --------------------------------------------------------------------------------- */

int migrate_cluster_move(migrate_work *work, const migrate_cluster_step *step) {
    struct migrate_fleet *fleet = work->migration.fleet;
    mover mover = {.work = work,
                   .step = step,
                   .epoch = step->epoch,
                   .highest = step->to > step->from ? step->to : step->from};

    mover.down = step->to < step->from || step->to <= PHASE_BRIDGE;
    mover.before = malloc(sizeof fleet->slot);
    mover.want = (migrate_slot){.phase = step->to,
                                .epoch = migrate_slot_epoch(moment_wall_us(), &fleet->tally)};
    if (!mover.before)
        return fail(STATUS_INTERNAL, "migrate: out of memory");
    memcpy(mover.before, fleet->slot, sizeof fleet->slot);
    int status =
        mover.want.epoch
            ? 0
            : fail(STATUS_REFUSED,
                   "migrate %s: refused: a slot's register has the epoch %lld, beyond which there "
                   "is none",
                   work->word, (long long)fleet->tally.top);
    if (status == 0)
        status = step->to < step->from ? go_down(&mover) : go_up(&mover);
    free(mover.before);
    return status;
}
