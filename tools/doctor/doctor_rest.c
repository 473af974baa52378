/*
 * The doctor's judgement of what ends a rest early, where clients use `run --once-per` or tl_lock_rest: then a
 * job runs again in the same period. A rest lasts longer than any lock, and nobody renews it; so what protects
 * held locks is not enough. Pure.
 */
#include <string.h>

#include "doctor/doctor.h"

#define AGAIN "the job runs again in the same period"

static void check_restart(const doctor_facts *facts, doctor_report *report) {
    const char *fsync = facts->config[CONFIG_APPENDFSYNC].text;
    char ago[DURATION_SHOWN];
    int64_t aof, up_s;

    if (!doctor_info(facts, "aof_enabled", &aof)) /* "persistence" says that it isn't known */
        return;
    if (!aof) {
        bool lately = doctor_info(facts, "uptime_in_seconds", &up_s) && up_s >= 0 &&
                      up_s < facts->once_per_ms / 1000;
        doctor_found(report, "rest-restart", DOCTOR_WARNING,
                     "a restart ends rests early (appendonly no)%s%s%s",
                     lately ? "; the last one was " : "", lately ? show_span(ago, up_s * 1000) : "",
                     lately ? " ago" : "");
        doctor_why(report, AGAIN "; quiet_ms protects only locks that are held");
        doctor_fix(report, "CONFIG SET appendonly yes, %s",
                   doctor_before(facts, 2, 8, 0) ? "and in redis.conf: appendonly yes"
                                                 : "CONFIG REWRITE");
    } else if (strcmp(fsync, "no") == 0) {
        doctor_found(report, "rest-restart", DOCTOR_WARNING,
                     "when the machine dies, rests that began in the last half a minute end early "
                     "(appendfsync no)");
        doctor_why(report, AGAIN);
        doctor_fix(report, "CONFIG SET appendfsync everysec (or always)");
    } else if (doctor_syncs_late(facts) && !facts->care.wait_fsync) {
        doctor_found(report, "rest-restart", DOCTOR_WARNING,
                     "when the machine dies during a save, rests that began in the last half a "
                     "minute end early (no-appendfsync-on-rewrite yes)");
        doctor_why(report, AGAIN);
        doctor_fix(report, "CONFIG SET no-appendfsync-on-rewrite no");
    } else if (strcmp(fsync, "everysec") == 0 && !facts->care.wait_fsync) {
        doctor_found(report, "rest-restart", DOCTOR_NOTE,
                     "when the machine dies, rests that began in the last second or two end early "
                     "(appendfsync everysec)");
        doctor_why(report, AGAIN);
        doctor_fix(report, doctor_before(facts, 7, 2, 0)
                               ? "CONFIG SET appendfsync always"
                               : "CONFIG SET appendfsync always, or wait_fsync in all clients");
    }
}

static void check_eviction(const doctor_facts *facts, doctor_report *report) {
    char policy[DOCTOR_POLICY_SIZE];
    int64_t most = 0;
    bool limited = !doctor_memory_limit(facts, &most) || most > 0;

    if (!doctor_policy(facts, policy) || strcmp(policy, "noeviction") == 0)
        return;
    doctor_found(report, "rest-eviction", limited ? DOCTOR_DANGER : DOCTOR_NOTE,
                 limited ? "maxmemory-policy %s lets a full server delete the keys of rests"
                         : "maxmemory-policy %s lets a full server delete the keys of rests, but "
                           "maxmemory is 0",
                 policy);
    doctor_why(report,
               AGAIN "; the key of a rest is rarely used, so a policy by use deletes it early");
    doctor_fix(report,
               "CONFIG SET maxmemory-policy noeviction, and in redis.conf: maxmemory-policy "
               "noeviction");
}

static void check_failover(const doctor_facts *facts, doctor_report *report) {
    int64_t replicas = doctor_replicas(facts);

    if (!doctor_may_fail_over(facts) || doctor_promised(facts) == DOCTOR_ALWAYS)
        return;
    doctor_found(report, "rest-failover", DOCTOR_WARNING,
                 "a failover may end rests early (wait_replicas %d of %lld)",
                 facts->care.wait_replicas, (long long)replicas);
    doctor_why(report, facts->moving
                           ? "slots are being moved, and the replica that takes over may not know "
                             "the rests in them: " AGAIN
                           : "a replica that lacks the last writes takes over: " AGAIN
                             "; quiet_ms protects only locks that are held");
    if (facts->moving)
        doctor_fix(report, "nothing, if the slots have moved when the doctor runs again");
    else if (doctor_before(facts, 3, 0, 0))
        doctor_fix(report, "upgrade to 3.0 or newer, which has WAIT, for wait_replicas");
    else if (replicas == 0)
        doctor_fix(report, "add a replica, and use wait_replicas 1 in all clients");
    else
        doctor_fix(report, "wait_replicas %lld (run --wait-replicas %lld) in all clients",
                   (long long)replicas, (long long)replicas);
}

static void check_flush(const doctor_facts *facts, doctor_report *report) {
    if (facts->flush != COMMAND_OK)
        return;
    doctor_found(report, "rest-flush", DOCTOR_NOTE, "FLUSHALL is allowed");
    doctor_why(report, "it ends all rests: " AGAIN);
    if (doctor_before(facts, 6, 0, 0))
        doctor_fix(report,
                   "rename-command FLUSHALL \"\" and rename-command FLUSHDB \"\" in redis.conf");
    else
        doctor_fix(report, "ACL SETUSER %s -flushall -flushdb", doctor_user(facts));
}

/* Stamps need none, but to rest. */
static void check_scripts(const doctor_facts *facts, doctor_report *report) {
    if (doctor_users(facts) & (DOCTOR_TOKEN | DOCTOR_STAMP))
        return;
    doctor_found(report, "rest-scripts", DOCTOR_DANGER,
                 "no lock can rest: the server runs no script");
    doctor_why(
        report,
        "a command that has succeeded leaves a lock that expires by itself, and then " AGAIN);
    doctor_fix_scripts(facts, report);
}

void doctor_check_rest(const doctor_facts *facts, doctor_report *report) {
    char role[16] = "";

    if (facts->once_per_ms == 0 || !doctor_info_text(facts, "role", role, sizeof role) ||
        strcmp(role, "master") != 0)
        return;
    check_scripts(facts, report);
    check_restart(facts, report);
    check_eviction(facts, report);
    check_failover(facts, report);
    check_flush(facts, report);
}
