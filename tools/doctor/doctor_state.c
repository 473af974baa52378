/*
 * The doctor's judgement of what becomes of a lock in the server: whether it is evicted, forgotten in a
 * restart, lost in a failover, refused. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

#define LAG_MOST_S 10
#define YOUNG_S 60
#define REPLICAS_MOST 20

static bool info_is(const doctor_facts *f, const char *name, const char *value) {
    char text[64];
    return doctor_info_text(f, name, text, sizeof text) && strcmp(text, value) == 0;
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

/* INFO tells of memory from 3.2 on. */
static bool memory_limit(const doctor_facts *f, int64_t *ret) {
    return doctor_info(f, "maxmemory", ret) || doctor_number(f, CONFIG_MAXMEMORY, ret);
}

static void check_memory(const doctor_facts *f, int64_t most, doctor_report *r) {
    const legacy_locks_hooks *legacy = FROM_LEGACY(legacy_locks);
    int64_t used;

    if (most == 0 || !doctor_info(f, "used_memory", &used) || used <= most / 10 * 9)
        return;
    doctor_found(r, "memory", used >= most ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "%lld of %lld MB of maxmemory are used", (long long)(used >> 20),
                 (long long)(most >> 20));
    doctor_why(r, "when it is full the server refuses to write: no lock can be acquired%s",
               legacy ? legacy->full : "");
    doctor_fix(r, "CONFIG SET maxmemory %lld, or delete something", 2 * (long long)most);
}

static void check_eviction(const doctor_facts *f, doctor_report *r) {
    char policy[64];
    int64_t most = 0;
    bool known = doctor_info_text(f, "maxmemory_policy", policy, sizeof policy);

    if (!known && f->config[CONFIG_POLICY].known) {
        (void)snprintf(policy, sizeof policy, "%.60s", f->config[CONFIG_POLICY].text);
        known = true;
    }
    if (memory_limit(f, &most) && most == 0) {
        if (!known || strcmp(policy, "noeviction") == 0)
            return;
        doctor_found(r, "eviction", DOCTOR_NOTE,
                     "maxmemory-policy is %s, which does nothing as long as maxmemory is 0",
                     policy);
        doctor_why(r, "with a limit the server would delete locks that are held");
        doctor_fix(r, "CONFIG SET maxmemory-policy noeviction, before maxmemory is ever set");
    } else if (!known) {
        doctor_found(r, "eviction", DOCTOR_UNSEEN, "the eviction policy");
        doctor_why(r, "with any but noeviction a server that is full deletes locks that are held");
        doctor_fix(r, "run the doctor as a user that may ask INFO or CONFIG GET");
    } else if (strcmp(policy, "noeviction") == 0) {
        check_memory(f, most, r);
    } else {
        doctor_found(r, "eviction", DOCTOR_DANGER, "maxmemory-policy is %s", policy);
        doctor_why(
            r,
            "when its memory is full the server deletes locks that are held: another client acquires "
            "them at once");
        doctor_fix(r, "CONFIG SET maxmemory-policy noeviction, and in redis.conf: maxmemory-policy "
                      "noeviction");
    }
}

/* What the clients wait out is no danger. */
static doctor_level unless_quiet(const doctor_facts *f) {
    return doctor_is_quiet(f) ? DOCTOR_NOTE : DOCTOR_WARNING;
}

/* ---- persistence -------------------------------------------------------------------------------------------- */

static void fix_by_aof(const doctor_facts *f, doctor_report *r) {
    doctor_fix(
        r,
        "CONFIG SET appendonly yes, %s; or let clients wait with quiet_ms, no shorter than any ttl",
        doctor_before(f, 2, 8, 0) ? "and in redis.conf: appendonly yes" : "CONFIG REWRITE");
}

static void check_aof(const doctor_facts *f, doctor_report *r) {
    const char *fsync = f->config[CONFIG_APPENDFSYNC].text;

    if (info_is(f, "aof_last_write_status", "err")) {
        doctor_found(r, "persistence", DOCTOR_DANGER, "the append-only file can't be written");
        doctor_why(r,
                   "the server refuses all writes (MISCONF): no lock can be acquired or renewed");
        doctor_fix(r, "make room on the server's disk");
    }
    if (strcmp(fsync, "no") == 0) {
        doctor_found(r, "persistence", unless_quiet(f), "appendfsync is no");
        doctor_why(
            r,
            "when the machine dies, locks of the last half a minute are forgotten while they are "
            "held");
        doctor_fix(r, "CONFIG SET appendfsync everysec (or always)");
    } else if (strcmp(fsync, "everysec") == 0 && !f->care.wait_fsync) {
        doctor_found(r, "persistence", DOCTOR_NOTE, "appendfsync is everysec");
        doctor_why(r, "when the machine dies, locks of the last second or two may be forgotten");
        doctor_fix(
            r,
            "CONFIG SET appendfsync always, or let clients wait with quiet_ms, no shorter than any ttl");
    }
}

static void check_persistence(const doctor_facts *f, doctor_report *r) {
    int64_t aof;

    if (info_is(f, "rdb_last_bgsave_status", "err")) {
        doctor_found(r, "persistence", DOCTOR_DANGER, "the last save failed");
        doctor_why(
            r, "the server may refuse all writes (MISCONF): no lock can be acquired or renewed");
        doctor_fix(r, "look into the server's log; make room on its disk; BGSAVE");
    }
    if (!doctor_info(f, "aof_enabled", &aof)) {
        doctor_found(r, "persistence", DOCTOR_UNSEEN, "whether a restart keeps the locks: %s",
                     f->info_why[0] ? f->info_why : "INFO does not tell");
        doctor_why(r, "locks that a restart forgets are acquired by others while they are held");
        doctor_fix(r, "run the doctor as a user that may ask INFO");
    } else if (aof) {
        check_aof(f, r);
    } else if (f->config[CONFIG_SAVE].known && !f->config[CONFIG_SAVE].text[0]) {
        doctor_found(r, "persistence", unless_quiet(f),
                     "nothing is kept over a restart (appendonly no, save \"\")");
        doctor_why(r, "a restart forgets all locks: others acquire them while they are held");
        fix_by_aof(f, r);
    } else {
        doctor_found(r, "persistence", unless_quiet(f),
                     "a restart goes back to the last snapshot (appendonly no)");
        doctor_why(r,
                   "it forgets all locks acquired since: others acquire them while they are held");
        fix_by_aof(f, r);
    }
}

static void check_uptime(const doctor_facts *f, doctor_report *r) {
    int64_t up_s;

    if (!doctor_info(f, "uptime_in_seconds", &up_s) || up_s < 0 || up_s >= YOUNG_S)
        return;
    doctor_found(r, "restart", DOCTOR_NOTE, "the server started %lld s ago", (long long)up_s);
    doctor_why(r, "what it held before is there only as far as it was kept");
    doctor_fix(
        r,
        "quiet_ms makes clients wait after a restart for as long as a lock of before may be held");
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

static void check_replica(const doctor_facts *f, doctor_report *r) {
    char host[128] = "its master";
    int64_t read_only = !doctor_before(f, 2, 6, 0); /* before, all may be written to */
    bool old = doctor_before(f, 5, 0, 0);

    (void)doctor_info_text(f, "master_host", host, sizeof host);
    (void)doctor_info(f, "slave_read_only", &read_only);
    doctor_found(r, "replica", DOCTOR_DANGER, "this server is a replica of %s, %s", host,
                 read_only ? "and read-only" : "and may be written to");
    if (read_only) {
        doctor_why(r, "no lock can be acquired here");
        doctor_fix(r, "name the master in --url (%s)", host);
    } else {
        doctor_why(
            r, "locks acquired here exclude nobody who asks the master, and are overwritten by it");
        doctor_fix(r,
                   doctor_before(f, 2, 6, 0) ? "name the master in --url (%s)"
                   : old ? "CONFIG SET slave-read-only yes, and name the master in --url (%s)"
                         : "CONFIG SET replica-read-only yes, and name the master in --url (%s)",
                   host);
    }
    if (info_is(f, "master_link_status", "down")) {
        doctor_found(r, "replication", DOCTOR_WARNING, "the replica has lost its master");
        doctor_why(r, "in a failover it would forget all locks since");
        doctor_fix(r, "look into the logs of both; %s again", old ? "SLAVEOF" : "REPLICAOF");
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

static void check_lag(const char *line, doctor_report *r) {
    char ip[80] = "?", port[16] = "?", state[32] = "?", lag[16] = "0";
    int64_t lag_s = 0;

    if (!field(line, "ip=", ip, sizeof ip) || !field(line, "port=", port, sizeof port) ||
        !field(line, "state=", state, sizeof state))
        (void)sscanf(line, "%79[^,],%15[^,],%31[^,]", ip, port, state);
    (void)field(line, "lag=", lag, sizeof lag);
    (void)tl__bytes_to_int(tl__bytes_of(lag), &lag_s);
    if (strcmp(state, "online") == 0 && lag_s <= LAG_MOST_S)
        return;
    doctor_found(r, "replication", DOCTOR_WARNING,
                 "the replica %s:%s is %s, and was heard of %lld s ago", ip, port, state,
                 (long long)lag_s);
    doctor_why(r, "in a failover to it, locks that are held are forgotten");
    doctor_fix(r, "look into its log; a larger repl-backlog-size helps one that is slow");
}

/* That it goes on granting is harmless where what it grants doesn't count, or can't be confirmed. */
static doctor_level unless_promised(const doctor_facts *f) {
    doctor_promise promise = doctor_promised(f);
    return promise == DOCTOR_ALWAYS || promise == DOCTOR_GENERAL ? DOCTOR_NOTE : DOCTOR_WARNING;
}

#define GIVEN_TWICE                                                                                \
    "a master that was cut off goes on granting locks, which its successor grants again"

static void check_old_failover(const doctor_facts *f, int64_t least, doctor_report *r) {
    const char *name = doctor_before(f, 5, 0, 0) ? "min-slaves-to-write" : "min-replicas-to-write";

    if (doctor_before(f, 2, 8, 0))
        doctor_found(
            r, "replication", unless_promised(f),
            "there are replicas, and %s has no min-slaves-to-write (2.8) and no WAIT (3.0)",
            f->product);
    else if (least > 0)
        doctor_found(r, "replication", unless_promised(f),
                     "%s is %lld, but doesn't stop scripts, which locks are, in %s", name,
                     (long long)least, f->product);
    else
        doctor_found(r, "replication", unless_promised(f),
                     "there are replicas, and %s doesn't stop scripts, which locks are, in %s",
                     name, f->product);
    doctor_why(r, GIVEN_TWICE);
    doctor_fix(r, doctor_before(f, 3, 0, 0)
                      ? "upgrade to 7.0 or newer (from 3.0 on clients can use wait_replicas)"
                      : "wait_replicas in the clients, or upgrade to 7.0 or newer (6.2.7, 6.0.17)");
}

static void check_lacking(const doctor_facts *f, int64_t good, int64_t least, doctor_report *r) {
    bool all = doctor_stops_scripts(f);

    if (good >= least)
        return;
    doctor_found(r, "replication", all ? DOCTOR_DANGER : DOCTOR_WARNING,
                 "%lld of at least %lld replicas are there", (long long)good, (long long)least);
    doctor_why(
        r, all ? "the server refuses all writes (NOREPLICAS): no lock can be acquired or renewed"
               : "the server refuses writes (NOREPLICAS), though not those of scripts: a lock "
                 "may be lost in a failover");
    doctor_fix(r, "bring the replicas back, or CONFIG SET %s %lld",
               doctor_before(f, 5, 0, 0) ? "min-slaves-to-write" : "min-replicas-to-write",
               (long long)good);
}

static void check_failover(const doctor_facts *f, int64_t replicas, doctor_report *r) {
    int64_t least = 0, good = replicas, lag_s;
    bool known = doctor_number(f, CONFIG_MIN_REPLICAS, &least);

    if (!doctor_stops_scripts(f)) {
        check_old_failover(f, least, r);
    } else if (!known) {
        doctor_found(r, "replication", DOCTOR_UNSEEN, "min-replicas-to-write");
        doctor_why(r, "without it a master that was cut off goes on granting locks that are lost");
        doctor_fix(r, "run the doctor as a user with +config|get");
    } else if (least == 0) {
        doctor_found(r, "replication", unless_promised(f),
                     "there are replicas, and min-replicas-to-write is 0");
        doctor_why(r, GIVEN_TWICE);
        doctor_fix(
            r, "CONFIG SET min-replicas-to-write 1, min-replicas-max-lag 10; and wait_replicas in "
               "the clients");
    } else if (doctor_number(f, CONFIG_MIN_LAG, &lag_s) && lag_s == 0) {
        doctor_found(r, "replication", unless_promised(f),
                     "min-replicas-max-lag is 0: min-replicas-to-write has no effect");
        doctor_why(r, GIVEN_TWICE);
        doctor_fix(r, "CONFIG SET min-replicas-max-lag 10");
    }
    if (least > 0)
        (void)doctor_info(f, "min_slaves_good_slaves", &good);
    check_lacking(f, good, least, r);
}

static bool is_sentinel(const doctor_facts *f) {
    return info_is(f, "redis_mode", "sentinel") || info_is(f, "server_mode", "sentinel");
}

static void found_sentinel(doctor_report *r) {
    doctor_found(r, "replica", DOCTOR_DANGER, "this is a Sentinel, which keeps no locks");
    doctor_why(r, "no lock can be acquired here");
    doctor_fix(r, "name the master in --url, or redis+sentinel://HOST/NAME");
}

static void check_copies(const doctor_facts *f, doctor_report *r) {
    int64_t replicas = 0, least = 0;
    char line[256], name[16];

    if (info_is(f, "role", "slave")) {
        check_replica(f, r);
        return;
    }
    (void)doctor_info(f, "connected_slaves", &replicas);
    (void)doctor_number(f, CONFIG_MIN_REPLICAS, &least);
    if (replicas > 0 || least > 0)
        check_failover(f, replicas, r);
    for (int i = 0; i < replicas && i < REPLICAS_MOST; i++) {
        (void)snprintf(name, sizeof name, "slave%d", i);
        if (doctor_info_text(f, name, line, sizeof line))
            check_lag(line, r);
    }
}

/* ---- all ------------------------------------------------------------------------------------------------------- */

static void check_unseen(const doctor_facts *f, doctor_report *r) {
    if (f->config_why[0]) {
        doctor_found(r, "config", DOCTOR_UNSEEN, "the configuration: %s", f->config_why);
        doctor_why(
            r, "save, appendfsync, timeout, tcp-keepalive and what concerns memory, replicas and "
               "protection could not be looked at, so they are not known to be fine");
        doctor_fix(r, f->config_lacks ? "look into redis.conf: CONFIG is renamed"
                                      : "run the doctor as a user with +config|get");
    }
    if (f->info_why[0]) {
        doctor_found(r, "info", DOCTOR_UNSEEN, "the state of the server: %s", f->info_why);
        doctor_why(r, "version, memory, persistence and replication could not be looked at");
        doctor_fix(r, "run the doctor as a user that may ask INFO (+info)");
    }
}

/* Who asks it as one server finds other keys nowhere. */
static void check_node(const doctor_facts *f, doctor_report *r) {
    if (f->by_cluster || !info_is(f, "redis_mode", "cluster"))
        return;
    doctor_found(r, "cluster", DOCTOR_WARNING,
                 "this is a node of a cluster, and only this one is looked at");
    doctor_why(r, "with such a URL no lock can be acquired whose slot another node has");
    doctor_fix(r, "a redis+cluster:// URL, for clients and for the doctor");
}

void doctor_check_state(const doctor_facts *f, doctor_report *r) {
    check_eviction(f, r);
    check_persistence(f, r);
    check_uptime(f, r);
    check_copies(f, r);
    doctor_check_failover(f, r);
    check_node(f, r);
    check_unseen(f, r);
}

void doctor_check(const doctor_facts *f, doctor_report *r) {
    r->count = 0;
    if (f->by_sentinels)
        doctor_check_sentinels(&f->heard, r);
    if (!f->unasked && is_sentinel(f)) {
        found_sentinel(r); /* nothing else of it matters to locks */
    } else if (!f->unasked) {
        doctor_check_state(f, r);
        doctor_check_able(f, r);
    }
    doctor_sort(r);
}

/* Worst first, else in the order in which they were found. */
void doctor_sort(doctor_report *r) {
    for (int i = 1; i < r->count; i++) {
        doctor_finding x = r->finding[i];
        int at = i;
        for (; at > 0 && r->finding[at - 1].level < x.level; at--)
            r->finding[at] = r->finding[at - 1];
        r->finding[at] = x;
    }
}
