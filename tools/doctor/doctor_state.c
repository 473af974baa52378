/*
 * The doctor's judgement of what can happen to a lock in the server: it is evicted, forgotten in a restart,
 * lost in a failover, or refused. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

#define LAG_MOST_S 10
#define YOUNG_S 60
#define REPLICAS_MOST 20

static bool info_is(const doctor_facts *facts, const char *name, const char *value) {
    char text[64];
    return doctor_info_text(facts, name, text, sizeof text) && strcmp(text, value) == 0;
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void check_memory(const doctor_facts *facts, int64_t most, doctor_report *report) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks);
    int64_t used;

    if (most == 0 || !doctor_info(facts, "used_memory", &used) || used <= most / 10 * 9)
        return;
    doctor_found(report, "memory", used >= most ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "%lld of %lld MB of maxmemory are used", (long long)(used >> 20),
                 (long long)(most >> 20));
    doctor_why(report, "when it is full the server refuses to write: no lock can be acquired%s",
               legacy ? legacy->full : "");
    doctor_fix(report, "CONFIG SET maxmemory %lld, or delete something", 2 * (long long)most);
}

static void check_eviction(const doctor_facts *facts, doctor_report *report) {
    char policy[DOCTOR_POLICY_SIZE];
    int64_t most = 0;
    bool known = doctor_policy(facts, policy);

    if (doctor_memory_limit(facts, &most) && most == 0) {
        if (!known || strcmp(policy, "noeviction") == 0)
            return;
        doctor_found(report, "eviction", DOCTOR_NOTE,
                     "maxmemory-policy is %s, which has no effect while maxmemory is 0", policy);
        doctor_why(report, "with a limit the server would delete held locks");
        doctor_fix(report, "CONFIG SET maxmemory-policy noeviction, before maxmemory is ever set");
    } else if (!known) {
        doctor_found(report, "eviction", DOCTOR_UNSEEN, "the eviction policy");
        doctor_why(report, "with any policy but noeviction a full server deletes held locks");
        doctor_fix(report, "run the doctor as a user that may ask INFO or CONFIG GET");
    } else if (strcmp(policy, "noeviction") == 0) {
        check_memory(facts, most, report);
    } else {
        doctor_found(report, "eviction", DOCTOR_DANGER, "maxmemory-policy is %s", policy);
        doctor_why(
            report,
            "when its memory is full the server deletes held locks: other clients acquire them at "
            "once");
        doctor_fix(report,
                   "CONFIG SET maxmemory-policy noeviction, and in redis.conf: maxmemory-policy "
                   "noeviction");
    }
}

/* A lock's key is another one with each holder, so it can't be kept; the counter of its slot stays. It needs to
 * be kept only once: neither a restart nor a failover nor a write forgets it. */
static void check_bless(const doctor_facts *facts, doctor_report *report) {
    const char *counter = facts->counter[0] ? facts->counter : "tidelock:fence:{...}";
    bool counts = doctor_users(facts) & (DOCTOR_TOKEN | DOCTOR_STAMP);

    if (facts->bless != COMMAND_OK || facts->blessed || !counts || !doctor_evicts_all(facts))
        return;
    doctor_found(report, "fence", DOCTOR_NOTE, "a full server may delete the fencing counter %s",
                 counter);
    doctor_why(report,
               "numbers then go on by the server's clock: if that was set back, some repeat");
    doctor_fix(report,
               facts->counter[0] ? "BLESS SET %s NO-EVICT, once a lock has made it; locks "
                                   "themselves need maxmemory-policy noeviction"
                                 : "BLESS SET %s NO-EVICT: `tidelock doctor KEY` names the "
                                   "counter; locks themselves need maxmemory-policy noeviction",
               counter);
}

/* No danger if clients wait until forgotten locks have expired. */
static doctor_level unless_quiet(const doctor_facts *facts) {
    return doctor_is_quiet(facts) ? DOCTOR_NOTE : DOCTOR_WARNING;
}

/* ---- persistence ----------------------------------------------------------------------------- */

static void fix_by_aof(const doctor_facts *facts, doctor_report *report) {
    doctor_fix(
        report,
        "CONFIG SET appendonly yes, %s; or let clients wait with quiet_ms, no shorter than any ttl",
        doctor_before(facts, 2, 8, 0) ? "and in redis.conf: appendonly yes" : "CONFIG REWRITE");
}

static void check_aof(const doctor_facts *facts, doctor_report *report) {
    const char *fsync = facts->config[CONFIG_APPENDFSYNC].text;

    if (info_is(facts, "aof_last_write_status", "err")) {
        doctor_found(report, "persistence", DOCTOR_DANGER, "the append-only file can't be written");
        doctor_why(report,
                   "the server refuses all writes (MISCONF): no lock can be acquired or renewed");
        doctor_fix(report, "make room on the server's disk");
    }
    if (strcmp(fsync, "no") == 0) {
        doctor_found(report, "persistence", unless_quiet(facts), "appendfsync is no");
        doctor_why(
            report,
            "when the machine dies, locks of the last half a minute are forgotten while they are "
            "held");
        doctor_fix(report, "CONFIG SET appendfsync everysec (or always)");
    } else if (doctor_syncs_late(facts) && !facts->care.wait_fsync) {
        doctor_found(report, "persistence", unless_quiet(facts),
                     "no-appendfsync-on-rewrite is yes");
        doctor_why(
            report,
            "the server doesn't sync while it saves, rewrites its append-only file or copies its data "
            "for a replica: when the machine dies then, held locks of the last half a minute are "
            "forgotten");
        doctor_fix(report, "CONFIG SET no-appendfsync-on-rewrite no");
    } else if (strcmp(fsync, "everysec") == 0 && !facts->care.wait_fsync) {
        doctor_found(report, "persistence", DOCTOR_NOTE, "appendfsync is everysec");
        doctor_why(report,
                   "when the machine dies, locks of the last second or two may be forgotten");
        doctor_fix(
            report,
            "CONFIG SET appendfsync always, or let clients wait with quiet_ms, no shorter than any "
            "ttl");
    }
}

static bool saves_nothing(const doctor_facts *facts) {
    return facts->config[CONFIG_SAVE].known && !facts->config[CONFIG_SAVE].text[0];
}

/* After a failed save the server refuses writes only if it saves by itself, and stop-writes-on-bgsave-error is
 * yes, the default. */
static bool may_refuse(const doctor_facts *facts) {
    return !saves_nothing(facts) && strcmp(facts->config[CONFIG_STOP_WRITES].text, "no") != 0;
}

static void check_save(const doctor_facts *facts, doctor_report *report) {
    int64_t aof = 0;

    if (!info_is(facts, "rdb_last_bgsave_status", "err"))
        return;
    (void)doctor_info(facts, "aof_enabled", &aof);
    doctor_found(report, "persistence",
                 may_refuse(facts) ? DOCTOR_DANGER
                 : aof             ? DOCTOR_NOTE
                                   : unless_quiet(facts),
                 "the last save failed");
    doctor_why(
        report,
        may_refuse(facts)
            ? "the server may refuse all writes (MISCONF): no lock can be acquired or renewed"
        : aof ? "the server writes on, and the append-only file keeps locks; but a new "
                "replica may get no copy of the data"
              : "the server writes on, but a restart goes back to an older snapshot, or to "
                "none");
    doctor_fix(report, "read the server's log; make room on its disk; BGSAVE");
}

static void check_persistence(const doctor_facts *facts, doctor_report *report) {
    int64_t aof;

    check_save(facts, report);
    if (!doctor_info(facts, "aof_enabled", &aof)) {
        doctor_found(report, "persistence", DOCTOR_UNSEEN, "whether locks survive a restart: %s",
                     facts->info_why[0] ? facts->info_why : "INFO does not report it");
        doctor_why(report, "a restart may forget held locks: other clients acquire them");
        doctor_fix(report, "run the doctor as a user that may ask INFO");
    } else if (aof) {
        check_aof(facts, report);
    } else if (saves_nothing(facts)) {
        doctor_found(report, "persistence", unless_quiet(facts),
                     "no data survives a restart (appendonly no, save \"\")");
        doctor_why(report,
                   "a restart forgets all locks: other clients acquire them while they are held");
        fix_by_aof(facts, report);
    } else {
        doctor_found(report, "persistence", unless_quiet(facts),
                     "a restart goes back to the last snapshot (appendonly no)");
        doctor_why(
            report,
            "it forgets all locks acquired since then: other clients acquire them while they are "
            "held");
        fix_by_aof(facts, report);
    }
}

static void check_uptime(const doctor_facts *facts, doctor_report *report) {
    int64_t up_s;

    if (!doctor_info(facts, "uptime_in_seconds", &up_s) || up_s < 0 || up_s >= YOUNG_S)
        return;
    doctor_found(report, "restart", DOCTOR_NOTE, "the server started %lld s ago", (long long)up_s);
    doctor_why(report, "locks acquired before that exist only if they were saved");
    doctor_fix(
        report,
        "with quiet_ms clients wait after a restart until no lock acquired before it can still be "
        "held");
}

/* ---- replicas -------------------------------------------------------------------------------- */

static void check_replica(const doctor_facts *facts, doctor_report *report) {
    char host[128] = "its master";
    int64_t read_only = !doctor_before(facts, 2, 6, 0); /* older ones may all be written to */
    bool old = doctor_before(facts, 5, 0, 0);

    (void)doctor_info_text(facts, "master_host", host, sizeof host);
    (void)doctor_info(facts, "slave_read_only", &read_only);
    doctor_found(report, "replica", DOCTOR_DANGER, "this server is a replica of %s, %s", host,
                 read_only ? "and read-only" : "and may be written to");
    if (read_only) {
        doctor_why(report, "no lock can be acquired here");
        doctor_fix(report, "name the master in --url (%s)", host);
    } else {
        doctor_why(report,
                   "locks acquired here exclude no client of the master, which overwrites them");
        doctor_fix(report,
                   doctor_before(facts, 2, 6, 0) ? "name the master in --url (%s)"
                   : old ? "CONFIG SET slave-read-only yes, and name the master in --url (%s)"
                         : "CONFIG SET replica-read-only yes, and name the master in --url (%s)",
                   host);
    }
    if (info_is(facts, "master_link_status", "down")) {
        doctor_found(report, "replication", DOCTOR_WARNING, "the replica has lost its master");
        doctor_why(report, "in a failover it would forget all locks acquired since then");
        doctor_fix(report, "read the logs of both; %s again", old ? "SLAVEOF" : "REPLICAOF");
    }
}

/* "slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0"; before 2.8
 * "slave0:10.0.0.2,6379,online" */
static bool field(const char *line, const char *name, char *to, size_t size) {
    const char *at = strstr(line, name);

    if (!at)
        return false;
    at += strlen(name);
    tl__bytes_print(to, size, tl__bytes(at, strcspn(at, ",")));
    return true;
}

static void check_lag(const char *line, doctor_report *report) {
    char ip[80] = "?", port[16] = "?", state[32] = "?", lag[16] = "0";
    int64_t lag_s = 0;

    if (!field(line, "ip=", ip, sizeof ip) || !field(line, "port=", port, sizeof port) ||
        !field(line, "state=", state, sizeof state))
        (void)sscanf(line, "%79[^,],%15[^,],%31[^,]", ip, port, state);
    (void)field(line, "lag=", lag, sizeof lag);
    (void)tl__bytes_to_int(tl__bytes_of(lag), &lag_s);
    if (strcmp(state, "online") == 0 && lag_s <= LAG_MOST_S)
        return;
    doctor_found(report, "replication", DOCTOR_WARNING,
                 "the replica %s:%s is %s, and last reported %lld s ago", ip, port, state,
                 (long long)lag_s);
    doctor_why(report, "in a failover to it, held locks are forgotten");
    doctor_fix(report, "read its log; a larger repl-backlog-size helps a slow replica");
}

/* A former master that goes on granting is harmless where its grants don't count, or can't be confirmed. */
static doctor_level unless_promised(const doctor_facts *facts) {
    doctor_promise promise = doctor_promised(facts);
    return promise == DOCTOR_ALWAYS || promise == DOCTOR_GENERAL ? DOCTOR_NOTE : DOCTOR_WARNING;
}

#define GIVEN_TWICE "a master that was cut off still grants locks, which its successor grants again"

static void check_old_failover(const doctor_facts *facts, int64_t least, doctor_report *report) {
    const char *name = doctor_before(facts, 5, 0, 0) ? "min-slaves-to-write"
                                                     : "min-replicas-to-write";

    if (doctor_before(facts, 2, 8, 0))
        doctor_found(
            report, "replication", unless_promised(facts),
            "there are replicas, and %s has no min-slaves-to-write (2.8) and no WAIT (3.0)",
            facts->product);
    else if (least > 0)
        doctor_found(report, "replication", unless_promised(facts),
                     "%s is %lld, but doesn't stop scripts, which locks are, in %s", name,
                     (long long)least, facts->product);
    else
        doctor_found(report, "replication", unless_promised(facts),
                     "there are replicas, and %s doesn't stop scripts, which locks are, in %s",
                     name, facts->product);
    doctor_why(report, GIVEN_TWICE);
    doctor_fix(report,
               doctor_before(facts, 3, 0, 0)
                   ? "upgrade to 7.0 or newer (from 3.0 on clients can use wait_replicas)"
                   : "wait_replicas in the clients, or upgrade to 7.0 or newer (6.2.7, 6.0.17)");
}

static void check_lacking(const doctor_facts *facts, int64_t good, int64_t least,
                          doctor_report *report) {
    bool all = doctor_stops_scripts(facts);

    if (good >= least)
        return;
    doctor_found(report, "replication", all ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "%lld of at least %lld replicas are there", (long long)good, (long long)least);
    doctor_why(
        report,
        all ? "the server refuses all writes (NOREPLICAS): no lock can be acquired or renewed"
            : "the server refuses writes (NOREPLICAS), though not those of scripts: a lock "
              "may be lost in a failover");
    doctor_fix(report, "start the replicas, or CONFIG SET %s %lld",
               doctor_before(facts, 5, 0, 0) ? "min-slaves-to-write" : "min-replicas-to-write",
               (long long)good);
}

static void check_failover(const doctor_facts *facts, int64_t replicas, doctor_report *report) {
    int64_t least = 0, good = replicas, lag_s;
    bool known = doctor_number(facts, CONFIG_MIN_REPLICAS, &least);

    if (!doctor_stops_scripts(facts)) {
        check_old_failover(facts, least, report);
    } else if (!known) {
        doctor_found(report, "replication", DOCTOR_UNSEEN, "min-replicas-to-write");
        doctor_why(report,
                   "without it a master that was cut off still grants locks, which are lost");
        doctor_fix(report, "run the doctor as a user with +config|get");
    } else if (least == 0) {
        doctor_found(report, "replication", unless_promised(facts),
                     "there are replicas, and min-replicas-to-write is 0");
        doctor_why(report, GIVEN_TWICE);
        doctor_fix(
            report,
            "CONFIG SET min-replicas-to-write 1, min-replicas-max-lag 10; and wait_replicas in "
            "the clients");
    } else if (doctor_number(facts, CONFIG_MIN_LAG, &lag_s) && lag_s == 0) {
        doctor_found(report, "replication", unless_promised(facts),
                     "min-replicas-max-lag is 0: min-replicas-to-write has no effect");
        doctor_why(report, GIVEN_TWICE);
        doctor_fix(report, "CONFIG SET min-replicas-max-lag 10");
    }
    if (least > 0)
        (void)doctor_info(facts, "min_slaves_good_slaves", &good);
    check_lacking(facts, good, least, report);
}

bool doctor_is_sentinel(const doctor_facts *facts) {
    return info_is(facts, "redis_mode", "sentinel") || info_is(facts, "server_mode", "sentinel");
}

static void found_sentinel(doctor_report *report) {
    doctor_found(report, "replica", DOCTOR_DANGER, "this is a Sentinel, which keeps no locks");
    doctor_why(report, "no lock can be acquired here");
    doctor_fix(report, "name the master in --url, or redis+sentinel://HOST/NAME");
}

static void check_copies(const doctor_facts *facts, doctor_report *report) {
    int64_t replicas = 0, least = 0;
    char line[256], name[16];

    if (info_is(facts, "role", "slave")) {
        check_replica(facts, report);
        return;
    }
    (void)doctor_info(facts, "connected_slaves", &replicas);
    (void)doctor_number(facts, CONFIG_MIN_REPLICAS, &least);
    if (replicas > 0 || least > 0)
        check_failover(facts, replicas, report);
    for (int i = 0; i < replicas && i < REPLICAS_MOST; i++) {
        (void)snprintf(name, sizeof name, "slave%d", i);
        if (doctor_info_text(facts, name, line, sizeof line))
            check_lag(line, report);
    }
}

/* ---- all checks ------------------------------------------------------------------------------ */

static void check_unseen(const doctor_facts *facts, doctor_report *report) {
    if (facts->config_why[0]) {
        doctor_found(report, "config", DOCTOR_UNSEEN, "the configuration: %s", facts->config_why);
        doctor_why(
            report,
            "save, appendfsync, timeout, tcp-keepalive and the settings of memory, replicas and "
            "protection could not be read, so they may be wrong");
        doctor_fix(report, facts->config_lacks ? "read redis.conf: CONFIG is renamed"
                                               : "run the doctor as a user with +config|get");
    }
    if (facts->info_why[0]) {
        doctor_found(report, "info", DOCTOR_UNSEEN, "the state of the server: %s", facts->info_why);
        doctor_why(report, "version, memory, persistence and replication could not be read");
        doctor_fix(report, "run the doctor as a user that may ask INFO (+info)");
    }
}

/* With a redis:// URL a client can't use the keys of other nodes. */
static void check_node(const doctor_facts *facts, doctor_report *report) {
    if (facts->by_cluster || !info_is(facts, "redis_mode", "cluster"))
        return;
    doctor_found(report, "cluster", DOCTOR_WARNING,
                 "this is a node of a cluster, and only this one is checked");
    doctor_why(report, "with this URL no lock can be acquired whose slot another node has");
    doctor_fix(report, "a redis+cluster:// URL, for clients and for the doctor");
}

void doctor_check_state(const doctor_facts *facts, doctor_report *report) {
    check_eviction(facts, report);
    check_bless(facts, report);
    check_persistence(facts, report);
    check_uptime(facts, report);
    check_copies(facts, report);
    doctor_check_failover(facts, report);
    check_node(facts, report);
    check_unseen(facts, report);
}

void doctor_check(const doctor_facts *facts, doctor_report *report) {
    report->count = 0;
    if (facts->by_sentinels)
        doctor_check_sentinels(&facts->heard, report);
    if (!facts->unasked && doctor_is_sentinel(facts)) {
        found_sentinel(report); /* nothing else of a Sentinel matters to locks */
    } else if (!facts->unasked) {
        doctor_check_kind(facts, report);
        doctor_check_state(facts, report);
        doctor_check_able(facts, report);
        doctor_check_rest(facts, report);
    }
    doctor_sort(report);
}

/* Worst first; equal ones in the order in which they were found. */
void doctor_sort(doctor_report *report) {
    for (int i = 1; i < report->count; i++) {
        doctor_finding finding = report->finding[i];
        int at = i;
        for (; at > 0 && report->finding[at - 1].level < finding.level; at--)
            report->finding[at] = report->finding[at - 1];
        report->finding[at] = finding;
    }
}
