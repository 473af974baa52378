/*
 * The doctor's judgement of what a restart or a failover can do to locks, with such a server and such
 * clients. It finds the row of tidelock-promises(7) that applies, and says what leads to a better one. Pure.
 */
#include <string.h>

#include "ground/guard.h"
#include "doctor/doctor.h"

#define NAMED_MS 1000 /* TL_NAMED_MS of the library */
#define SPARE_S 2     /* the lag is reported once a second, and checked once a second */

/* ---- facts ----------------------------------------------------------------------------------- */

bool doctor_stops_scripts(const doctor_facts *facts) {
    if (!doctor_before(facts, 6, 2, 0))
        return !doctor_before(facts, 6, 2, 7);
    return !doctor_before(facts, 6, 0, 17);
}

static int64_t replicas_here(const doctor_facts *facts) {
    int64_t n = 0;
    (void)doctor_info(facts, "connected_slaves", &n);
    return n;
}

static int64_t replicas_known(const doctor_facts *facts) {
    int64_t most = facts->known;
    for (unsigned i = 0; facts->by_sentinels && i < facts->heard.count; i++)
        if (facts->heard.of[i].status == 0 && facts->heard.of[i].replicas > most)
            most = facts->heard.of[i].replicas;
    return most;
}

/* All that may take over, unreachable ones included: such a replica returns with its old data, and may be
 * promoted. */
int64_t doctor_replicas(const doctor_facts *facts) {
    int64_t here = replicas_here(facts), known = replicas_known(facts);
    return GUARD(absent_replica_counts) && known > here ? known : here;
}

bool doctor_may_fail_over(const doctor_facts *facts) {
    return facts->by_sentinels || facts->sentinels > 0 || doctor_replicas(facts) > 0;
}

/* Do clients check after each reply that the server is still the master? */
static bool is_asked_about(const doctor_facts *facts) {
    return facts->by_sentinels || facts->by_cluster;
}

bool doctor_syncs_late(const doctor_facts *facts) {
    int64_t aof;
    return doctor_info(facts, "aof_enabled", &aof) && aof &&
           strcmp(facts->config[CONFIG_APPENDFSYNC].text, "no") != 0 &&
           strcmp(facts->config[CONFIG_NO_FSYNC].text, "yes") == 0;
}

/* A client that waits for the disk holds nothing that is forgotten: a server that syncs late confirms late. */
bool doctor_forgets(const doctor_facts *facts) {
    int64_t aof;
    return doctor_info(facts, "aof_enabled", &aof) &&
           (!aof || strcmp(facts->config[CONFIG_APPENDFSYNC].text, "no") == 0 ||
            (GUARD(late_sync_forgets) && doctor_syncs_late(facts) && !facts->care.wait_fsync));
}

bool doctor_is_quiet(const doctor_facts *facts) {
    return !doctor_before(facts, 4, 0, 0) && facts->care.quiet_ms > 0 &&
           facts->care.quiet_ms >= facts->ttl_ms;
}

/* Does each lock wait for all replicas? */
static bool is_confirmed(const doctor_facts *facts) {
    int64_t replicas = doctor_replicas(facts);
    return !doctor_before(facts, 3, 0, 0) && replicas > 0 && facts->care.wait_replicas >= replicas;
}

/* For how long after a promotion replies of the former master may count, in ms; -1: without limit. A master
 * that was stopped checks its replicas only after it has replied to the requests in its sockets. */
static int64_t answers_ms(const doctor_facts *facts) {
    int64_t least = 0, lag_s = 0, replicas = doctor_replicas(facts);
    if (is_asked_about(facts))
        return NAMED_MS;
    if (!doctor_stops_scripts(facts) || !doctor_number(facts, CONFIG_MIN_REPLICAS, &least) ||
        !doctor_number(facts, CONFIG_MIN_LAG, &lag_s) || lag_s == 0 || replicas == 0)
        return -1;
    return least >= replicas ? (lag_s + SPARE_S) * 1000 : -1;
}

doctor_promise doctor_promised(const doctor_facts *facts) {
    const int64_t late_ms = answers_ms(facts);

    if (!doctor_may_fail_over(facts))
        return !doctor_forgets(facts)   ? DOCTOR_NEVER
               : doctor_is_quiet(facts) ? DOCTOR_GENERAL
                                        : DOCTOR_FENCE;
    if (is_confirmed(facts) && (!facts->moving || !GUARD(moving_slot_unknown)))
        return DOCTOR_ALWAYS;
    if (!doctor_is_quiet(facts))
        return DOCTOR_FENCE;
    return late_ms >= 0 &&
                   facts->care.quiet_ms >= facts->ttl_ms + GUARD(late_answers_count) * late_ms
               ? DOCTOR_GENERAL
               : DOCTOR_DEAD;
}

/* ---- findings -------------------------------------------------------------------------------- */

/* The scheme of a URL with which clients check that. */
static const char *scheme(const doctor_facts *facts) {
    char mode[16] = "";

    (void)doctor_info_text(facts, "redis_mode", mode, sizeof mode);
    return facts->by_cluster || strcmp(mode, "cluster") == 0 ? "redis+cluster://"
                                                             : "redis+sentinel://";
}

static void found_always(const doctor_facts *facts, doctor_report *report) {
    doctor_found(report, "failover", DOCTOR_NOTE,
                 "a failover forgets nothing: all replicas (%lld) confirm what is held",
                 (long long)doctor_replicas(facts));
    doctor_why(
        report,
        "the server that takes over has every lock; but a lock then ends by that server's clock, "
        "earlier by as much as that clock is ahead");
    doctor_fix(report,
               facts->care.wait_fsync
                   ? "keep wait_replicas at the number of all that may take over"
                   : "keep wait_replicas at the number of all replicas that may take over; with "
                     "wait_fsync (7.2) they may lose power, too");
}

static void found_general(const doctor_facts *facts, int64_t late_ms, doctor_report *report) {
    char quiet[DURATION_SHOWN], late[DURATION_SHOWN];

    doctor_found(
        report, "failover", DOCTOR_NOTE,
        "no two clients hold a lock at once in a failover: quiet_ms is %s, and a former master is "
        "trusted for %s at most",
        show_ms(quiet, facts->care.quiet_ms), show_ms(late, late_ms));
    doctor_why(
        report,
        facts->by_sentinels
            ? "a reply counts only while a majority of the Sentinels names the server; a client "
              "with another URL doesn't check that"
        : facts->by_cluster
            ? "a reply counts only when each replica confirms afterwards that it is still one; if "
              "a replica doesn't respond, it counts if the other masters learn of an election "
              "within 200 ms"
            : "a former master refuses writes without its replicas; but one that was stopped "
              "(SIGSTOP, a paused machine) first executes the requests that it received meanwhile");
    doctor_fix(report,
               is_asked_about(facts) ? "a %s URL in all clients"
                                     : "a %s URL in all clients has no such gap",
               scheme(facts));
}

#define LAG_S 10

/* Advise what this version has: quiet_ms from 4.0 on, wait_replicas from 3.0. */
static void fix_to_general(const doctor_facts *facts, doctor_report *report) {
    int64_t late_ms = answers_ms(facts), replicas = doctor_replicas(facts);
    char quiet[DURATION_SHOWN], least[128] = "", wait[48] = "";

    if (doctor_stops_scripts(facts) && replicas > 0)
        (void)snprintf(
            least, sizeof least,
            "; or min-replicas-to-write %lld, min-replicas-max-lag %d and quiet_ms of %s",
            (long long)replicas, LAG_S,
            show_ms(quiet, facts->ttl_ms + GUARD(advice_suffices) * (LAG_S + SPARE_S) * 1000));
    if (replicas > 0)
        (void)snprintf(wait, sizeof wait, "wait_replicas %lld", (long long)replicas);
    if (doctor_before(facts, 4, 0, 0))
        doctor_fix(report, "%s%supgrade to 4.0 or newer", doctor_before(facts, 3, 0, 0) ? "" : wait,
                   doctor_before(facts, 3, 0, 0) || !*wait ? "" : ", or ");
    else if (late_ms < 0)
        doctor_fix(report, "a %s URL and quiet_ms of %s in all clients%s%s%s", scheme(facts),
                   show_ms(quiet, facts->ttl_ms + NAMED_MS), least, *wait ? "; or " : "", wait);
    else
        doctor_fix(report, "quiet_ms of %s in all clients (the longest lifetime, and %lld s)%s%s",
                   show_ms(quiet, facts->ttl_ms + late_ms), (long long)late_ms / 1000,
                   *wait && !facts->moving ? "; or " : "",
                   facts->moving && GUARD(advice_suits_moving) ? "" : wait);
}

static void found_dead(const doctor_facts *facts, doctor_report *report) {
    doctor_found(
        report, "failover", DOCTOR_WARNING,
        "no two clients hold a lock at once after a failover if the former master is dead, or cut "
        "off from the holders");
    doctor_why(
        report,
        "if it still responds for a time, as one that was stopped and continues, a lock that it "
        "renews is granted to another client");
    fix_to_general(facts, report);
}

static void found_fence(const doctor_facts *facts, doctor_report *report) {
    doctor_found(
        report, "failover", DOCTOR_WARNING,
        "two clients may hold a lock at once after a failover, for one lifetime (quiet_ms %lld, "
        "wait_replicas %d of %lld)",
        (long long)facts->care.quiet_ms, facts->care.wait_replicas,
        (long long)doctor_replicas(facts));
    doctor_why(
        report,
        facts->moving && is_confirmed(facts)
            ? "slots are being moved, and the replica that takes over may not know that: it treats "
              "the keys that were moved away as free, whatever wait_replicas is"
            : "the new master grants again the locks that it does not know; only the fencing "
              "number distinguishes the two holders");
    fix_to_general(facts, report);
}

/* An unreachable replica does no harm now, but may do so when it returns. */
static void check_replicas(const doctor_facts *facts, doctor_report *report) {
    int64_t here, known = replicas_known(facts);

    if (!doctor_info(facts, "connected_slaves", &here))
        return;
    if (facts->care.wait_replicas > here) {
        doctor_found(report, "replication", DOCTOR_DANGER,
                     "wait_replicas is %d, and the server has %lld", facts->care.wait_replicas,
                     (long long)here);
        doctor_why(report,
                   "fewer than that can confirm a lock: none can be acquired, and held ones are "
                   "lost");
        doctor_fix(report, known >= facts->care.wait_replicas
                               ? "start the replicas that are down"
                               : "add replicas, or use a smaller wait_replicas in all clients");
    }
    if (facts->by_sentinels && known > here) {
        doctor_found(report, "replication", DOCTOR_WARNING,
                     "the Sentinels know of %lld replicas, and the master has %lld",
                     (long long)known, (long long)here);
        doctor_why(
            report,
            "a replica that returns while the master is down may take over with its old data: "
            "locks acquired since then are forgotten");
        doctor_fix(
            report,
            "start them; or, if they were removed for good, SENTINEL RESET %s on each Sentinel, "
            "one after the other",
            facts->heard.master);
    }
}

/* Why quiet_ms is needed; "": it isn't. */
static const char *reasons(const doctor_facts *facts) {
    bool over = doctor_may_fail_over(facts) && doctor_promised(facts) != DOCTOR_ALWAYS;
    const char *heirs = doctor_replicas(facts) > 0 ? "there are replicas" : "there are Sentinels";

    if (!doctor_forgets(facts))
        return over ? heirs : "";
    return !over                        ? "a restart forgets locks"
           : doctor_replicas(facts) > 0 ? "there are replicas, and a restart forgets locks"
                                        : "there are Sentinels, and a restart forgets locks";
}

static void check_quiet(const doctor_facts *facts, doctor_report *report) {
    char quiet[DURATION_SHOWN];
    int64_t late_ms = answers_ms(facts);

    if (facts->care.quiet_ms > 0 || !reasons(facts)[0] || doctor_before(facts, 4, 0, 0))
        return;
    doctor_found(report, "quiet", DOCTOR_WARNING, "quiet_ms is off, and %s", reasons(facts));
    doctor_why(
        report,
        "a lock that the server has forgotten is granted to another client while it is held");
    doctor_fix(
        report,
        "quiet_ms (--quiet) of %s in all clients, or longer; give the doctor the same --quiet to "
        "see the result",
        show_ms(quiet, facts->ttl_ms + (late_ms > 0 && doctor_may_fail_over(facts) ? late_ms : 0)));
}

/* ---- options that this version lacks --------------------------------------------------------- */

static void check_age(const doctor_facts *facts, doctor_report *report) {
    if (facts->care.quiet_ms > 0 && doctor_before(facts, 4, 0, 0)) {
        doctor_found(report, "quiet", DOCTOR_DANGER, "quiet_ms needs Redis 4.0, and this is %s",
                     facts->product);
        doctor_why(
            report,
            "in an older version a script can't read which master a replica copied: no lock can be "
            "acquired");
        doctor_fix(report, doctor_before(facts, 3, 0, 0)
                               ? "upgrade to 4.0 or newer; until then without quiet_ms"
                               : "upgrade to 4.0 or newer; until then without quiet_ms, and with "
                                 "wait_replicas in its place");
    }
    if (facts->care.wait_replicas > 0 && doctor_before(facts, 3, 0, 0)) {
        doctor_found(report, "replication", DOCTOR_DANGER,
                     "wait_replicas needs WAIT, which came with Redis 3.0, and this is %s",
                     facts->product);
        doctor_why(report, "no lock can be acquired");
        doctor_fix(report, "upgrade to 4.0 or newer, which has quiet_ms, too");
    }
}

/* ---- wait_fsync ------------------------------------------------------------------------------ */

#define EACH_SECOND_TTL_MS 15000 /* a third of it is enough for two renewals of two seconds each */

static void found_no_fsync(doctor_report *report, const char *what, const char *fix) {
    doctor_found(report, "fsync", DOCTOR_DANGER, "%s", what);
    doctor_why(
        report,
        "with wait_fsync a lock counts once it is in the append-only file on disk: no lock can be "
        "acquired");
    doctor_fix(report, "%s", fix);
}

static void found_each_second(const doctor_facts *facts, doctor_report *report) {
    doctor_found(report, "fsync", facts->ttl_ms < EACH_SECOND_TTL_MS ? DOCTOR_WARNING : DOCTOR_NOTE,
                 "appendfsync is everysec, and clients wait for the disk");
    doctor_why(
        report,
        facts->ttl_ms < EACH_SECOND_TTL_MS
            ? "each acquisition and renewal takes up to two seconds, and too little is left of a "
              "short lifetime: locks are lost while they are held"
            : "each lock and renewal takes up to two seconds");
    doctor_fix(report, "CONFIG SET appendfsync always%s",
               facts->ttl_ms < EACH_SECOND_TTL_MS ? ", or a ttl of 15 s at least" : "");
}

static void found_late(doctor_report *report) {
    doctor_found(report, "fsync", DOCTOR_WARNING,
                 "no-appendfsync-on-rewrite is yes, and clients wait for the disk");
    doctor_why(
        report,
        "while the server saves, rewrites its append-only file or copies its data for a replica, "
        "it confirms nothing: no lock can be acquired, and held ones are lost if that takes long");
    doctor_fix(report, "CONFIG SET no-appendfsync-on-rewrite no");
}

static void check_fsync(const doctor_facts *facts, doctor_report *report) {
    const char *fsync = facts->config[CONFIG_APPENDFSYNC].text;
    int64_t aof;

    if (!facts->care.wait_fsync)
        return;
    if (doctor_before(facts, 7, 2, 0))
        found_no_fsync(report, "wait_fsync needs WAITAOF, which came with Redis 7.2",
                       "upgrade to 7.2 or newer; or quiet_ms in its place");
    else if (doctor_info(facts, "aof_enabled", &aof) && !aof)
        found_no_fsync(report, "wait_fsync needs an append-only file, and appendonly is no",
                       "CONFIG SET appendonly yes, CONFIG REWRITE");
    else if (strcmp(fsync, "no") == 0)
        found_no_fsync(report, "appendfsync is no: the server never reports what is on its disk",
                       "CONFIG SET appendfsync always (or everysec)");
    else if (strcmp(fsync, "everysec") == 0)
        found_each_second(facts, report);
    if (!doctor_before(facts, 7, 2, 0) && doctor_syncs_late(facts))
        found_late(report);
}

void doctor_check_failover(const doctor_facts *facts, doctor_report *report) {
    char role[16] = "";

    if (!doctor_info_text(facts, "role", role, sizeof role) || strcmp(role, "master") != 0)
        return;
    check_age(facts, report);
    check_quiet(facts, report);
    check_fsync(facts, report);
    check_replicas(facts, report);
    if (!doctor_may_fail_over(facts))
        return;
    switch (doctor_promised(facts)) {
    case DOCTOR_ALWAYS: found_always(facts, report); break;
    case DOCTOR_GENERAL: found_general(facts, answers_ms(facts), report); break;
    case DOCTOR_DEAD: found_dead(facts, report); break;
    case DOCTOR_FENCE: found_fence(facts, report); break;
    case DOCTOR_NEVER: break;
    }
}
