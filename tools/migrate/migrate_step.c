/*
 * migrate advance and rollback: one phase forward or back. The step first checks everything that
 * can be known at once. Then it waits: for the watch, and for a lease during which the tool itself
 * has observed the epoch, on the clock that never steps. Then it checks everything again. Last
 * comes the change, which compares the epoch once more.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate.h"
#include "migrate/migrate_cluster.h"
#include "migrate/migrate_show.h"
#include "migrate/migrate_watches.h"

#define LOOK_MS 200      /* ms; how often to check while waiting */
#define MONITOR_MS 10000 /* ms; how long MONITOR is read by default */
#define SCANS_MS 2000    /* ms; shortest time between two scans of the keys, */
#define SCANS_SHARE 10   /* and scans take at most a tenth of the time */

typedef struct {
    migrate_work *work;
    int from, to;
    int64_t epoch, since_us;
    int64_t seen_ms; /* when the tool first saw this epoch */
    migrate_locks locks;
    migrate_traffic traffic;
    migrate_permissions permissions;
    bool watches;
    char keys[MIGRATE_KEYS_SIZE];
    int64_t next_scan_ms;
    unsigned ups;          /* of the connection that has shown the epoch since seen_ms */
    int64_t wait_until_ms; /* deadline for blockers that resolve by themselves; 0: none */
} step;

#define WAITS (-1) /* not an exit status: a blocker resolves by itself */

/* After a new connection the server may be another one, and earlier observations prove nothing. */
static bool is_seen_anew(step *step) {
    bool anew = step->work->migration.link.ups != step->ups;

    step->ups = step->work->migration.link.ups;
    if (anew)
        step->seen_ms = moment_ms();
    return anew;
}

/* A slot, for example. That forbids the step whatever a scan finds, and a scan that fails there would not name the slot. */
static bool is_on_its_way(const step *step) {
    const migrate_blockers *flaws = &step->work->view.flaws;

    for (int i = 0; i < flaws->count; i++)
        if (flaws->item[i].passes)
            return true;
    return false;
}

static int scan(step *step) {
    if (is_on_its_way(step))
        return 0;
    int64_t began_ms = moment_ms();
    int status = migrate_look(&step->work->migration, &step->work->view, step->work->view.reg.keys,
                              &step->work->sigs, &step->locks, &step->work->sig);
    int64_t now_ms = moment_ms(), took_ms = now_ms - began_ms;

    step->next_scan_ms = now_ms +
                         (took_ms * SCANS_SHARE > SCANS_MS ? took_ms * SCANS_SHARE : SCANS_MS);
    return status || step->work->sig ? (step->work->sig ? signals_status(step->work->sig) : status)
                                     : 0;
}

/* Clients that confirm late, or have died, are settled after three leases. */
static int64_t wait_ms(const step *step) {
    int64_t given_ms = step->work->options->wait_ms;
    return given_ms == MIGRATE_NOT_GIVEN
               ? MIGRATE_LEASES * migrate_longest_lease_ms(&step->work->view) + SCANS_MS + LOOK_MS
               : given_ms;
}

/* Is there still time to wait for these blockers? Reports the wait once. */
static bool is_waited_for(step *step, const migrate_blockers *blockers) {
    char left[DURATION_SHOWN];
    int64_t now_ms = moment_ms();

    if (!migrate_passes(blockers))
        return false;
    if (step->wait_until_ms == 0) {
        int64_t most_ms = wait_ms(step);
        step->wait_until_ms = now_ms + most_ms;
        for (int i = 0; i < blockers->count && most_ms > 0; i++)
            say("migrate %s: waiting, for %s at most: %s: %s", step->work->word,
                show_ms(left, most_ms), blockers->item[i].what, blockers->item[i].who);
    }
    return now_ms < step->wait_until_ms;
}

/* Do the latest data allow the step? */
static int judge(step *step, bool traffic) {
    migrate_blockers blockers;

    const migrate_register *reg = &step->work->view.reg;
    if (reg->readable && step->epoch &&
        (reg->epoch != step->epoch || reg->since_us != step->since_us))
        return fail(
            STATUS_REFUSED,
            "migrate %s: refused: the namespace has moved to epoch %lld, phase %d, meanwhile: "
            "another operator was faster; see: tidelock migrate status --namespace %s",
            step->work->word, (long long)reg->epoch, reg->phase, step->work->view.name);
    migrate_judge(&step->work->view, step->to, is_on_its_way(step) ? NULL : &step->locks,
                  traffic ? &step->traffic : NULL, &blockers);
    if (blockers.count == 0) {
        step->wait_until_ms = 0;
        return 0;
    }
    migrate_progress(NULL);
    return is_waited_for(step, &blockers) ? WAITS : migrate_refuse(step->work->word, &blockers);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

static int64_t lease_left_ms(const step *step) {
    int64_t lease_ms = migrate_longest_lease_ms(&step->work->view);

    if (!migrate_wants_wait(&step->work->view))
        return 0;
    return step->seen_ms + lease_ms + lease_ms / 1000 + 1 - moment_ms();
}

/* Reads and judges everything once. */
static int look(step *step, migrate_watches *watch) {
    int status = migrate_read(&step->work->migration, &step->work->view);

    if (status)
        return status;
    (void)is_seen_anew(step);
    bool monitored = step->traffic.monitoring;
    if (step->watches && !migrate_watches_look(watch)) {
        say(step->work->migration.by_cluster
                ? "migrate %s: a master was replaced or restarted, or slots have moved: the watch "
                  "begins again"
                : "migrate %s: another server replies, or it was restarted: the watch begins again",
            step->work->word);
        if (!step->work->migration.by_cluster) /* else the nodes say who is a master */
            status = migrate_check_master(&step->work->migration);
    } else if (step->traffic.monitoring && !monitored)
        say("migrate %s: SETNX or GETSET ran: reading MONITOR for %d s to see on which keys",
            step->work->word, MONITOR_MS / 1000);
    if (status == 0 && step->watches && moment_ms() >= step->next_scan_ms)
        status = scan(step);
    return status ? status : judge(step, step->watches);
}

static void tell_wait(const step *step, bool watching, int64_t left_ms, bool reported) {
    if (!reported)
        migrate_say_wait(step->work->word,
                         watching ? "watching for legacy clients"
                                  : "waiting for the leases of the phase before to end",
                         left_ms);
    migrate_progress(watching ? "watching for legacy clients: another %lld s"
                              : "waiting for the leases of the phase before to end: another %lld s",
                     (long long)((left_ms + 999) / 1000));
}

static int read_again(step *step) {
    migrate_forget(&step->work->migration);
    return migrate_read(&step->work->migration, &step->work->view);
}

/* All of it once more, and the watch ends. */
static int look_last(step *step, migrate_watches *watch) {
    int status = read_again(step);
    bool watched;

    if (status == 0)
        status = scan(step);
    if (step->watches) /* last, so that clients that appear during the scan are noticed */
        watched = migrate_watches_end(watch);
    else /* a slot may have lost its register meanwhile */
        watched = !migrate_wants_watch(&step->work->view, step->to);
    if (status == 0 && (!watched || (is_seen_anew(step) && migrate_wants_wait(&step->work->view))))
        return fail(STATUS_UNAVAILABLE,
                    "migrate %s: nothing has changed: the connection was lost; begin again",
                    step->work->word);
    return status ? status : judge(step, step->watches);
}

static int await(step *step) {
    int64_t watch_ms = step->work->options->watch_ms, monitor_ms = step->work->options->monitor_ms;
    migrate_watches watch = {.began_ms = 0};
    bool reported = false;
    int64_t doubt_ms = 0;
    int status = 0;

    step->watches = migrate_wants_watch(&step->work->view, step->to);
    if (watch_ms == MIGRATE_NOT_GIVEN)
        watch_ms = step->work->view.reg.lease_ms;
    if (monitor_ms == MIGRATE_NOT_GIVEN) { /* it costs the server a copy of every command */
        monitor_ms = watch_ms <= MONITOR_MS ? watch_ms : 0;
        doubt_ms = MONITOR_MS;
    }
    if (monitor_ms >= watch_ms && watch_ms >= lease_left_ms(step))
        monitor_ms = MIGRATE_THROUGHOUT;
    if (step->watches)
        migrate_watches_begin(&watch, &step->work->migration, step->keys, monitor_ms, doubt_ms,
                              &step->traffic);
    while (status == 0 || status == WAITS) {
        int64_t lease_ms = lease_left_ms(step), left_ms = lease_ms;
        int64_t still_ms = step->watches ? watch.began_ms + watch_ms - moment_ms() : 0;
        if (still_ms > left_ms)
            left_ms = still_ms;
        if (left_ms <= 0 && status == 0)
            break;
        if (left_ms <= 0)
            left_ms = LOOK_MS;
        tell_wait(step, still_ms >= lease_ms, left_ms, reported);
        reported = true;
        int64_t pause_ms = left_ms < LOOK_MS ? left_ms : LOOK_MS;
        if (step->watches)
            migrate_watches_pause(&watch, &step->work->sigs, pause_ms);
        step->work->sig = signals_pause(&step->work->sigs, step->watches ? 0 : pause_ms);
        status = step->work->sig ? signals_status(step->work->sig) : look(step, &watch);
    }
    migrate_progress(NULL);
    if (status == 0)
        return look_last(step, &watch);
    if (step->watches)
        (void)migrate_watches_end(&watch);
    return status;
}

/* Checks until nothing blocks the step, or a blocker doesn't resolve by itself. */
static int settle(step *step) {
    int status = judge(step, false);

    while (status == WAITS) {
        step->work->sig = signals_pause(&step->work->sigs, LOOK_MS);
        if (step->work->sig)
            return signals_status(step->work->sig);
        status = migrate_read(&step->work->migration, &step->work->view);
        if (status == 0 && moment_ms() >= step->next_scan_ms)
            status = scan(step);
        (void)is_seen_anew(step);
        if (status == 0)
            status = judge(step, false);
    }
    return status;
}

/* A failover may at any time replace a master that rejects legacy clients by a server that lets
 * them lock. */
static int check_users(step *step) {
    migrate_blockers blockers = {.count = 0};

    migrate_acl_judge(step->work, step->to, &step->permissions, &blockers);
    return blockers.count ? migrate_refuse(step->work->word, &blockers) : 0;
}

/* ---- moving ----------------------------------------------------------------------------------- */

static void summarise(const step *step, char *to, size_t size) {
    const migrate_traffic *traffic = &step->traffic;
    char watched[DURATION_SHOWN], monitored[DURATION_SHOWN], received[DURATION_SHOWN];
    int n = snprintf(
        to, size,
        "clients confirmed: %d; %lld stamp%s of tidelock's, %lld without a sidecar, "
        "%lld token%s",
        migrate_live_clients(&step->work->view), (long long)migrate_locks_ours(&step->locks),
        migrate_plural(migrate_locks_ours(&step->locks)), (long long)step->locks.strays.count,
        (long long)step->locks.tokens.count, migrate_plural(step->locks.tokens.count));

    if (step->watches && n > 0 && (size_t)n < size)
        (void)snprintf(to + n, size - (size_t)n,
                       "; watched for %s: %lld SETNX and GETSET, %lld of them seen on other keys; "
                       "MONITOR for %s; %lld other connections; %lld refused; denied to %d of %d "
                       "users; events for %s: %lld writes",
                       show_ms(watched, traffic->watch_ms),
                       (long long)(traffic->counted ? traffic->calls : -1),
                       (long long)traffic->accounted, show_ms(monitored, traffic->monitor_ms),
                       (long long)traffic->connections, (long long)traffic->refused,
                       step->permissions.denied, step->permissions.users,
                       show_ms(received, traffic->events.ms), (long long)traffic->events.writes);
}

static void show_evidence(step *step) {
    if (!step->watches)
        return;
    step->traffic.permissions = step->permissions;
    printf("what was seen of legacy clients\n");
    migrate_show_sources(&step->traffic, stdout);
}

static int move(step *step) {
    migrate_change entry = {
        .from_phase = step->from, .to_phase = step->to, .from_epoch = step->epoch};
    migrate_move move = {
        .epoch = step->epoch, .phase = step->to, .ups = step->ups, .entry = &entry};
    int64_t epoch = 0;

    (void)snprintf(entry.action, sizeof entry.action, "%s", step->work->word);
    (void)snprintf(entry.by, sizeof entry.by, "%s", step->work->migration.by);
    summarise(step, entry.evidence, sizeof entry.evidence);
    int status = migrate_change_register(&step->work->migration, &move, &epoch);
    if (epoch) {
        printf("namespace %s: phase %d (%s) -> %d (%s), epoch %lld\n", step->work->view.name,
               step->from, migrate_phase_name(step->from), step->to, migrate_phase_name(step->to),
               (long long)epoch);
        show_evidence(step);
        (void)fflush(stdout);
        step->epoch = epoch;
        step->seen_ms = moment_ms();
    }
    return status;
}

/* ---- back to 1: when may Java start? ----------------------------------------------------------- */

static int interrupted(const step *step, int status) {
    return fail(
        status,
        "migrate %s: the phase has changed, but Java may not start yet: tidelock migrate status "
        "--namespace %s says when",
        step->work->word, step->work->view.name);
}

static void tell_java_waits(const step *step) {
    char list[MIGRATE_LIST_SIZE];

    if (step->locks.tokens.count > 0)
        say("migrate %s: Java may not start yet: waiting for %lld %s: %s", step->work->word,
            (long long)step->locks.tokens.count, step->locks.tokens.count == 1 ? "token" : "tokens",
            migrate_bunch_list(list, &step->locks.tokens));
    else
        say("migrate %s: Java may not start yet: the scan did not reach all keys in time; scanning "
            "again",
            step->work->word);
}

/* Does no key hold a token? A scan takes long. After a step up in that time a token may stand behind it, and a server
 * that took over may have skipped keys: the register and the connection must be those from before it. */
static int look_for_tokens(step *step, bool *ret_none) {
    int status = scan(step);

    *ret_none = false;
    if (status || step->locks.tokens.count > 0 || !step->locks.whole)
        return status;
    status = read_again(step);
    *ret_none = status == 0 && step->work->view.reg.epoch == step->epoch && !is_seen_anew(step);
    return status;
}

/* Clients may act by phase 2 for one more lease; locks acquired until then last until they are
 * released. */
static int await_java(step *step) {
    bool reported = false, waits = false, none = false;
    int status = 0;

    step->watches = false;
    for (;;) {
        status = migrate_read(&step->work->migration, &step->work->view);
        if (status == 0 && step->work->view.reg.epoch != step->epoch)
            return judge(step, false);
        (void)is_seen_anew(step);
        int64_t left_ms = status ? 0 : lease_left_ms(step);
        if (status == 0 && left_ms <= 0)
            status = look_for_tokens(step, &none);
        if (status || none)
            break;
        if (left_ms <= 0 && step->locks.tokens.count == 0 && step->locks.whole)
            continue;
        if (left_ms > 0 && !waits)
            migrate_say_wait(step->work->word,
                             "Java may not start yet: clients may act in phase 2 for a lease",
                             left_ms);
        waits = waits || left_ms > 0;
        if (left_ms > 0)
            migrate_progress(
                "Java may not start yet: clients may act in phase 2 for another %lld s",
                (long long)((left_ms + 999) / 1000));
        else if (!reported)
            tell_java_waits(step);
        reported = reported || left_ms <= 0;
        int64_t pause_ms = left_ms > 0 ? LOOK_MS : step->next_scan_ms - moment_ms();
        step->work->sig = signals_pause(&step->work->sigs,
                                        left_ms > 0 && left_ms < pause_ms ? left_ms : pause_ms);
        if (step->work->sig)
            break;
    }
    migrate_progress(NULL);
    if (step->work->sig)
        return interrupted(step, signals_status(step->work->sig));
    if (status == 0)
        printf("namespace %s: no token is left: Java may start\n", step->work->view.name);
    return status;
}

/* ---- the commands ----------------------------------------------------------------------------- */

static int confirm_step(const step *step) {
    static const char *const notes[PHASES] = {
        "services and the old Java class share stamps, without the sidecars that mark tidelock's own",
        "services write stamps with a sidecar; the old Java class may run",
        "services write tokens; from now on the old Java class may not use these keys",
        "services write only tokens"};
    char question[400];

    if (step->from == step->to)
        (void)snprintf(question, sizeof question,
                       "Namespace %s: finish the step to phase %d (%s) in all slots? %s.",
                       step->work->view.name, step->to, migrate_phase_name(step->to),
                       notes[step->to]);
    else
        (void)snprintf(question, sizeof question,
                       "Namespace %s: from phase %d (%s) to %d (%s)? %s.", step->work->view.name,
                       step->from, migrate_phase_name(step->from), step->to,
                       migrate_phase_name(step->to), notes[step->to]);
    return migrate_confirm(step->work, question);
}

/* Reports, without blocking the step, clients with other patterns: it is not known whether such
 * names are used. */
static void tell_others(const step *step) {
    char text[MIGRATE_OTHERS_SIZE];

    if (step->to >= step->from && step->to >= PHASE_DRAIN &&
        *migrate_others(text, &step->work->view))
        say("migrate %s: note: %s", step->work->word, text);
}

static bool take_number(void *ctx, const tl_reply *reply) {
    return tl__reply_int(reply, ctx);
}

/* Below 3.2 a script can't ask the time before it writes, so an acquire has no limit on the server: one that was
 * delayed on its way sets a token when Java is back. A cluster's scripts compare the phase instead. */
static void tell_unlimited(const step *step) {
    static const char *const request[] = {"EVAL", "return redis.replicate_commands and 1 or 0", "0",
                                          NULL};
    migrate_link *migration = &step->work->migration;
    int64_t limits = 0;

    if (migration->by_cluster || step->to != PHASE_BRIDGE || step->from != PHASE_DRAIN ||
        (link_ask(&migration->link, request, take_number, &limits) && limits))
        return;
    say("migrate %s: note: this server, below Redis 3.2, can't reject an acquire that was delayed: one of a client "
        "in phase 2 may set a token after Java may start; when that is said, end all connections of clients "
        "(CLIENT KILL), and look again that no token is left: tidelock migrate status --namespace %s",
        step->work->word, step->work->view.name);
}

/* An operator who saw an earlier phase, or repeats a step, doesn't mean the next phase. */
static int check_phase(const step *step) {
    int meant = step->work->options->phase;

    if (meant == MIGRATE_NOT_GIVEN || meant == step->to || !GUARD(meant_phase) ||
        !step->work->view.reg.readable || step->to < 0 || step->to >= PHASES)
        return 0;
    return fail(STATUS_REFUSED,
                "migrate %s: refused: namespace %s is in phase %d (%s), from where it leads to %d "
                "(%s), not to %d (%s): see what has been done, and by whom: tidelock migrate "
                "status --namespace %s",
                step->work->word, step->work->view.name, step->from, migrate_phase_name(step->from),
                step->to, migrate_phase_name(step->to), meant, migrate_phase_name(meant),
                step->work->view.name);
}

/* In a cluster a step goes through all slots. */
static int move_slots(step *step) {
    char evidence[MIGRATE_EVIDENCE_SIZE / 2];
    migrate_cluster_step all = {.from = step->from,
                                .to = step->to,
                                .epoch = step->epoch,
                                .ups = step->ups,
                                .evidence = evidence};

    summarise(step, evidence, sizeof evidence);
    int status = migrate_cluster_move(step->work, &all);
    if (status == 0)
        show_evidence(step);
    return status;
}

/* While a node of a cluster can't be asked nobody knows in which phase all slots are, and where a step leads. */
static int await_order(step *step) {
    migrate_work *work = step->work;
    int status = 0;

    while (status == 0 && !migrate_knows_phase(&work->view)) {
        if (!is_waited_for(step, &work->view.flaws))
            return migrate_refuse(work->word, &work->view.flaws);
        work->sig = signals_pause(&work->sigs, LOOK_MS);
        status = work->sig ? signals_status(work->sig)
                           : migrate_read(&work->migration, &work->view);
    }
    step->wait_until_ms = 0;
    return status;
}

static void begin(step *step, int by) {
    const migrate_view *view = &step->work->view;

    step->seen_ms = moment_ms();
    step->from = migrate_phase_of(view);
    step->to = by > 0 ? migrate_next_phase(view) : migrate_former_phase(view);
    step->epoch = view->reg.readable ? view->reg.epoch : 0;
    step->since_us = view->reg.since_us;
    step->ups = step->work->migration.link.ups;
    (void)snprintf(step->keys, sizeof step->keys, "%s", view->reg.keys);
}

static int take_step(migrate_work *work, int by) {
    step step = {.work = work};
    int status = await_order(&step);

    if (status)
        return status;
    begin(&step, by);
    int64_t epoch = step.epoch;
    status = check_phase(&step);
    if (status == 0 && work->view.reg.readable && step.to >= 0 && step.to < PHASES)
        status = scan(&step);
    if (status == 0)
        status = settle(&step);
    if (status == 0)
        status = check_users(&step);
    if (status == 0) {
        tell_others(&step);
        tell_unlimited(&step);
        status = confirm_step(&step);
    }
    if (status == 0)
        status = await(&step);
    while (status == WAITS) { /* a blocker appeared meanwhile */
        status = settle(&step);
        if (status == 0)
            status = await(&step);
    }
    if (status == 0)
        status = check_users(&step);
    if (status == 0 && work->migration.by_cluster)
        return move_slots(&step);
    if (status == 0)
        status = move(&step);
    if (by > 0 || step.to != PHASE_BRIDGE || step.epoch == epoch)
        return status;
    return status ? interrupted(&step, status) : await_java(&step);
}

int migrate_advance(migrate_work *work) {
    return take_step(work, 1);
}

int migrate_rollback(migrate_work *work) {
    return take_step(work, -1);
}
