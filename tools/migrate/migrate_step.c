/*
 * migrate advance and rollback: one phase on or back. First whatever can be known at once; then a wait, for
 * a lease that the tool itself has seen the epoch for, on the clock that never steps, and for the watch;
 * then all of it again; and then the change, which compares the epoch once more.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "migrate/migrate.h"
#include "migrate/migrate_show.h"
#include "migrate/migrate_traffic.h"

#define LOOK_MS 200      /* how often to look while waiting */
#define MONITOR_MS 10000 /* how long MONITOR is read unless told otherwise */
#define SCANS_MS 2000    /* no sooner after a scan of the keys comes the next, */
#define SCANS_SHARE 10   /* nor before it has cost a tenth of the time */

typedef struct {
    migrate_work *w;
    int from, to;
    int64_t epoch, since_us;
    int64_t seen_ms; /* when the tool has first seen it */
    migrate_locks locks;
    migrate_traffic traffic;
    bool watches;
    char keys[MIGRATE_KEYS_SIZE];
    int64_t next_scan_ms;
    unsigned ups;          /* of the connection by which the epoch has been seen since seen_ms */
    int64_t wait_until_ms; /* for what goes away by itself; 0: there is nothing such */
} step;

#define WAITS (-1) /* no exit status: something is in the way that goes away by itself */

/* After a connection that is new another server may answer, and what was seen so far says nothing. */
static bool is_seen_anew(step *s) {
    bool anew = s->w->m.link.ups != s->ups;

    s->ups = s->w->m.link.ups;
    if (anew)
        s->seen_ms = moment_ms();
    return anew;
}

static int scan(step *s) {
    int64_t began_ms = moment_ms();
    int status = migrate_look(&s->w->m, &s->w->v, s->w->v.reg.keys, &s->w->sigs, &s->locks,
                              &s->w->sig);
    int64_t now_ms = moment_ms(), took_ms = now_ms - began_ms;

    s->next_scan_ms = now_ms +
                      (took_ms * SCANS_SHARE > SCANS_MS ? took_ms * SCANS_SHARE : SCANS_MS);
    return status || s->w->sig ? (s->w->sig ? signals_status(s->w->sig) : status) : 0;
}

/* Who confirms late, or has died, is done with after three leases. */
static int64_t wait_ms(const step *s) {
    int64_t given_ms = s->w->o->wait_ms;
    return given_ms == MIGRATE_NOT_GIVEN
               ? MIGRATE_LEASES * migrate_longest_lease_ms(&s->w->v) + SCANS_MS + LOOK_MS
               : given_ms;
}

/* May what is in the way be waited for, still? It is said once. */
static bool is_waited_for(step *s, const migrate_blockers *b) {
    char left[DURATION_SHOWN];
    int64_t now_ms = moment_ms();

    if (!migrate_passes(b))
        return false;
    if (s->wait_until_ms == 0) {
        int64_t most_ms = wait_ms(s);
        s->wait_until_ms = now_ms + most_ms;
        for (int i = 0; i < b->count && most_ms > 0; i++)
            say("migrate %s: waiting, for %s at most: %s: %s", s->w->word, show_ms(left, most_ms),
                b->item[i].what, b->item[i].who);
    }
    return now_ms < s->wait_until_ms;
}

/* What was read and looked at last: does it allow the step? */
static int judge(step *s, bool traffic) {
    migrate_blockers b;

    const migrate_register *r = &s->w->v.reg;
    if (r->readable && s->epoch && (r->epoch != s->epoch || r->since_us != s->since_us))
        return fail(
            STATUS_REFUSED,
            "migrate %s: refused: the namespace has moved to epoch %lld, phase %d, meanwhile: "
            "another operator was faster; see: tidelock migrate status --namespace %s",
            s->w->word, (long long)r->epoch, r->phase, s->w->v.name);
    migrate_judge(&s->w->v, s->to, &s->locks, traffic ? &s->traffic : NULL, &b);
    if (b.count == 0) {
        s->wait_until_ms = 0;
        return 0;
    }
    migrate_progress(NULL);
    return is_waited_for(s, &b) ? WAITS : migrate_refuse(s->w->word, &b);
}

/* ---- waiting ---------------------------------------------------------------------------------- */

static int64_t lease_left_ms(const step *s) {
    int64_t lease_ms = migrate_longest_lease_ms(&s->w->v);

    if (!migrate_wants_wait(&s->w->v))
        return 0;
    return s->seen_ms + lease_ms + lease_ms / 1000 + 1 - moment_ms();
}

/* One look at everything. */
static int look(step *s, migrate_watch *watch) {
    int status = migrate_read(&s->w->m, &s->w->v);

    if (status)
        return status;
    (void)is_seen_anew(s);
    if (s->watches && !migrate_watch_look(watch))
        say("migrate %s: another server answers, or it was started again: watching anew",
            s->w->word);
    if (s->watches && moment_ms() >= s->next_scan_ms)
        status = scan(s);
    return status ? status : judge(s, s->watches);
}

static void tell_wait(const step *s, bool watching, int64_t left_ms, bool reported) {
    if (!reported)
        migrate_say_wait(s->w->word,
                         watching ? "watching for legacy clients"
                                  : "waiting for the leases of the phase before to end",
                         left_ms);
    migrate_progress(watching ? "watching for legacy clients: another %lld s"
                              : "waiting for the leases of the phase before to end: another %lld s",
                     (long long)((left_ms + 999) / 1000));
}

static int await(step *s) {
    int64_t watch_ms = s->w->o->watch_ms, monitor_ms = s->w->o->monitor_ms;
    migrate_watch watch = {.began_ms = 0};
    bool watched = true, reported = false;
    int status = 0;

    s->watches = migrate_wants_watch(s->from, s->to);
    if (watch_ms == MIGRATE_NOT_GIVEN)
        watch_ms = s->w->v.reg.lease_ms;
    if (monitor_ms == MIGRATE_NOT_GIVEN)
        monitor_ms = watch_ms < MONITOR_MS ? watch_ms : MONITOR_MS;
    if (monitor_ms >= watch_ms && watch_ms >= lease_left_ms(s))
        monitor_ms = MIGRATE_THROUGHOUT;
    if (s->watches)
        migrate_watch_begin(&watch, &s->w->m, s->keys, monitor_ms, &s->traffic);
    while (status == 0 || status == WAITS) {
        int64_t lease_ms = lease_left_ms(s), left_ms = lease_ms;
        int64_t still_ms = s->watches ? watch.began_ms + watch_ms - moment_ms() : 0;
        if (still_ms > left_ms)
            left_ms = still_ms;
        if (left_ms <= 0 && status == 0)
            break;
        if (left_ms <= 0)
            left_ms = LOOK_MS;
        tell_wait(s, still_ms >= lease_ms, left_ms, reported);
        reported = true;
        int64_t pause_ms = left_ms < LOOK_MS ? left_ms : LOOK_MS;
        if (s->watches)
            migrate_watch_pause(&watch, &s->w->sigs, pause_ms);
        s->w->sig = signals_pause(&s->w->sigs, s->watches ? 0 : pause_ms);
        status = s->w->sig ? signals_status(s->w->sig) : look(s, &watch);
    }
    migrate_progress(NULL);
    if (status == 0)
        status = migrate_read(&s->w->m, &s->w->v);
    if (status == 0)
        status = scan(s);
    if (s->watches) /* last: who comes during the scan is seen too */
        watched = migrate_watch_end(&watch);
    if (status == 0 && (!watched || (is_seen_anew(s) && migrate_wants_wait(&s->w->v))))
        return fail(STATUS_UNAVAILABLE,
                    "migrate %s: nothing has changed: the connection was lost; begin again",
                    s->w->word);
    return status ? status : judge(s, s->watches);
}

/* Look until nothing is in the way, or something that doesn't go away by itself. */
static int settle(step *s) {
    int status = judge(s, false);

    while (status == WAITS) {
        s->w->sig = signals_pause(&s->w->sigs, LOOK_MS);
        if (s->w->sig)
            return signals_status(s->w->sig);
        status = migrate_read(&s->w->m, &s->w->v);
        if (status == 0 && moment_ms() >= s->next_scan_ms)
            status = scan(s);
        (void)is_seen_anew(s);
        if (status == 0)
            status = judge(s, false);
    }
    return status;
}

/* A master that refuses legacy clients may be replaced, at any moment, by a server that lets them lock. */
static int check_users(const step *s) {
    migrate_blockers b = {.count = 0};

    migrate_acl_judge(s->w, s->from, s->to, &b);
    return b.count ? migrate_refuse(s->w->word, &b) : 0;
}

/* ---- moving ----------------------------------------------------------------------------------- */

static void summarise(const step *s, char *to, size_t size) {
    const migrate_traffic *t = &s->traffic;
    char watched[DURATION_SHOWN], monitored[DURATION_SHOWN];
    int n = snprintf(to, size,
                     "%d clients confirmed; %lld stamps of tidelock's, %lld without a sidecar, "
                     "%lld tokens",
                     migrate_live_clients(&s->w->v), (long long)migrate_locks_ours(&s->locks),
                     (long long)s->locks.strays.count, (long long)s->locks.tokens.count);

    if (s->watches && n > 0 && (size_t)n < size)
        (void)snprintf(to + n, size - (size_t)n,
                       "; watched for %s: %lld SETNX and GETSET, %lld of them seen on other keys; "
                       "MONITOR for %s; %lld other connections",
                       show_ms(watched, t->watch_ms), (long long)(t->counted ? t->calls : -1),
                       (long long)t->accounted, show_ms(monitored, t->monitor_ms),
                       (long long)t->connections);
}

static int move(step *s) {
    migrate_change entry = {.from_phase = s->from, .to_phase = s->to, .from_epoch = s->epoch};
    migrate_move move = {.epoch = s->epoch, .phase = s->to, .ups = s->ups, .entry = &entry};
    int64_t epoch = 0;

    (void)snprintf(entry.action, sizeof entry.action, "%s", s->w->word);
    (void)snprintf(entry.by, sizeof entry.by, "%s", s->w->m.by);
    summarise(s, entry.evidence, sizeof entry.evidence);
    int status = migrate_change_register(&s->w->m, &move, &epoch);
    if (epoch) {
        printf("namespace %s: phase %d (%s) -> %d (%s), epoch %lld\n", s->w->v.name, s->from,
               migrate_phase_name(s->from), s->to, migrate_phase_name(s->to), (long long)epoch);
        (void)fflush(stdout);
        s->epoch = epoch;
        s->seen_ms = moment_ms();
    }
    return status;
}

/* ---- back to 1: when may Java start? ----------------------------------------------------------- */

static int interrupted(const step *s, int status) {
    return fail(
        status,
        "migrate %s: the phase has changed, but Java may not start yet: tidelock migrate status "
        "--namespace %s says when",
        s->w->word, s->w->v.name);
}

static void tell_java_waits(const step *s) {
    char list[MIGRATE_LIST_SIZE];

    if (s->locks.tokens.count > 0)
        say("migrate %s: Java may not start yet: waiting for %lld %s: %s", s->w->word,
            (long long)s->locks.tokens.count, s->locks.tokens.count == 1 ? "token" : "tokens",
            migrate_bunch_list(list, &s->locks.tokens));
    else
        say("migrate %s: Java may not start yet: not all keys were looked at in time; looking again",
            s->w->word);
}

/* Phase 2 may be acted in for a lease; what is taken by then lives until it is released. */
static int await_java(step *s) {
    bool reported = false, waits = false;
    int status = 0;

    s->watches = false;
    for (;;) {
        status = migrate_read(&s->w->m, &s->w->v);
        if (status == 0 && s->w->v.reg.epoch != s->epoch)
            return judge(s, false);
        (void)is_seen_anew(s);
        int64_t left_ms = status ? 0 : lease_left_ms(s);
        if (status == 0 && left_ms <= 0)
            status = scan(s);
        if (status || (left_ms <= 0 && s->locks.tokens.count == 0 && s->locks.whole))
            break;
        if (left_ms > 0 && !waits)
            migrate_say_wait(s->w->word,
                             "Java may not start yet: clients may act in phase 2 for a lease",
                             left_ms);
        waits = waits || left_ms > 0;
        if (left_ms > 0)
            migrate_progress(
                "Java may not start yet: clients may act in phase 2 for another %lld s",
                (long long)((left_ms + 999) / 1000));
        else if (!reported)
            tell_java_waits(s);
        reported = reported || left_ms <= 0;
        int64_t pause_ms = left_ms > 0 ? LOOK_MS : s->next_scan_ms - moment_ms();
        s->w->sig = signals_pause(&s->w->sigs,
                                  left_ms > 0 && left_ms < pause_ms ? left_ms : pause_ms);
        if (s->w->sig)
            break;
    }
    migrate_progress(NULL);
    if (s->w->sig)
        return interrupted(s, signals_status(s->w->sig));
    if (status == 0)
        printf("namespace %s: no token is left: Java may start\n", s->w->v.name);
    return status;
}

/* ---- the commands ----------------------------------------------------------------------------- */

static int confirm_step(const step *s) {
    static const char *const notes[PHASES] = {
        "C services and Java share stamps, without what tells tidelock's own apart",
        "C services write stamps with a sidecar; Java may run",
        "C services write tokens; no Java service may run on these keys any more",
        "C services write tokens alone"};
    char question[400];

    (void)snprintf(question, sizeof question, "Namespace %s: from phase %d (%s) to %d (%s)? %s.",
                   s->w->v.name, s->from, migrate_phase_name(s->from), s->to,
                   migrate_phase_name(s->to), notes[s->to]);
    return migrate_confirm(s->w, question);
}

/* Not in the way of the step, as nobody knows whether such names are used; but it should be seen. */
static void tell_others(const step *s) {
    char text[MIGRATE_OTHERS_SIZE];

    if (s->to > s->from && s->to >= PHASE_DRAIN && *migrate_others(text, &s->w->v))
        say("migrate %s: note: %s", s->w->word, text);
}

/* Who has looked at an earlier phase, or repeats a step, doesn't mean the one that is next now. */
static int check_phase(const step *s) {
    int meant = s->w->o->phase;

    if (meant == MIGRATE_NOT_GIVEN || meant == s->to || !GUARD(meant_phase) ||
        !s->w->v.reg.readable || s->to < 0 || s->to >= PHASES)
        return 0;
    return fail(STATUS_REFUSED,
                "migrate %s: refused: namespace %s is in phase %d (%s), from where it leads to %d "
                "(%s), not to %d (%s): see what has been done, and by whom: tidelock migrate "
                "status --namespace %s",
                s->w->word, s->w->v.name, s->from, migrate_phase_name(s->from), s->to,
                migrate_phase_name(s->to), meant, migrate_phase_name(meant), s->w->v.name);
}

static int take_step(migrate_work *w, int by) {
    step s = {.w = w,
              .seen_ms = moment_ms(),
              .from = w->v.reg.phase,
              .to = w->v.reg.phase + by,
              .epoch = w->v.reg.readable ? w->v.reg.epoch : 0,
              .since_us = w->v.reg.since_us,
              .ups = w->m.link.ups};
    int64_t epoch = s.epoch;

    (void)snprintf(s.keys, sizeof s.keys, "%s", w->v.reg.keys);
    int status = check_phase(&s);
    if (status == 0 && w->v.reg.readable && s.to >= 0 && s.to < PHASES)
        status = scan(&s);
    if (status == 0)
        status = settle(&s);
    if (status == 0)
        status = check_users(&s);
    if (status == 0) {
        tell_others(&s);
        status = confirm_step(&s);
    }
    if (status == 0)
        status = await(&s);
    while (status == WAITS) { /* it has come meanwhile */
        status = settle(&s);
        if (status == 0)
            status = await(&s);
    }
    if (status == 0)
        status = check_users(&s);
    if (status == 0)
        status = move(&s);
    if (by > 0 || s.to != PHASE_BRIDGE || s.epoch == epoch)
        return status;
    return status ? interrupted(&s, status) : await_java(&s);
}

int migrate_advance(migrate_work *w) {
    return take_step(w, 1);
}

int migrate_rollback(migrate_work *w) {
    return take_step(w, -1);
}
