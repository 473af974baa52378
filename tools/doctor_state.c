/*
 * The doctor's judgement of what becomes of a lock in the server: whether it is evicted, forgotten in a
 * restart, lost in a failover, refused. Pure.
 */
#include <stdlib.h>
#include <string.h>

#include "doctor.h"

#define LAG_MOST_S 10
#define YOUNG_S 60
#define REPLICAS_MOST 20

static bool setting(const doctor_facts *f, int which, int64_t *ret) {
    return f->config[which].known && tl__bytes_to_int(tl__bytes_of(f->config[which].text), ret);
}

static bool info_is(const doctor_facts *f, const char *name, const char *value) {
    char text[64];
    return doctor_info_text(f, name, text, sizeof text) && strcmp(text, value) == 0;
}

/* ---- memory ----------------------------------------------------------------------------------------------- */

static void check_eviction(const doctor_facts *f, doctor_report *r) {
    char policy[64];
    int64_t most = 0, used = 0;

    if (!doctor_info_text(f, "maxmemory_policy", policy, sizeof policy)) {
        if (!f->config[CONFIG_POLICY].known) {
            doctor_found(r, "eviction", DOCTOR_UNSEEN, "the eviction policy");
            doctor_why(r,
                       "with any but noeviction a server that is full deletes locks that are held");
            doctor_fix(r, "run the doctor as a user with +info or +config|get");
            return;
        }
        (void)snprintf(policy, sizeof policy, "%.60s", f->config[CONFIG_POLICY].text);
    }
    bool limited = !doctor_info(f, "maxmemory", &most) || most > 0;
    if (strcmp(policy, "noeviction") != 0) {
        doctor_found(r, "eviction", limited ? DOCTOR_DANGER : DOCTOR_WARNING,
                     limited ? "maxmemory-policy is %s"
                             : "maxmemory-policy is %s, though maxmemory is not set yet",
                     policy);
        doctor_why(r,
                   "when its memory is full the server deletes locks that are held: another takes "
                   "them at once");
        doctor_fix(r, "CONFIG SET maxmemory-policy noeviction, and in redis.conf: maxmemory-policy "
                      "noeviction");
    } else if (most > 0 && doctor_info(f, "used_memory", &used) && used > most / 10 * 9) {
        doctor_found(r, "memory", used >= most ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "%lld of %lld MB of maxmemory are used", (long long)(used >> 20),
                     (long long)(most >> 20));
        doctor_why(r, "when it is full the server refuses to write: no lock can be taken");
        doctor_fix(r, "CONFIG SET maxmemory %lld, or delete something", 2 * (long long)most);
    }
}

/* ---- persistence -------------------------------------------------------------------------------------------- */

#define AOF_ON                                                                                     \
    "CONFIG SET appendonly yes, CONFIG REWRITE; or let clients wait with restart_quiet_ms"

static void check_aof(const doctor_facts *f, doctor_report *r) {
    const char *fsync = f->config[CONFIG_APPENDFSYNC].text;

    if (info_is(f, "aof_last_write_status", "err")) {
        doctor_found(r, "persistence", DOCTOR_DANGER, "the append-only file can't be written");
        doctor_why(r, "the server refuses all writes (MISCONF): no lock can be taken or renewed");
        doctor_fix(r, "make room on the server's disk");
    }
    if (strcmp(fsync, "no") == 0) {
        doctor_found(r, "persistence", DOCTOR_WARNING, "appendfsync is no");
        doctor_why(
            r,
            "when the machine dies, locks of the last half a minute are forgotten while they are "
            "held");
        doctor_fix(r, "CONFIG SET appendfsync everysec (or always)");
    } else if (strcmp(fsync, "everysec") == 0) {
        doctor_found(r, "persistence", DOCTOR_NOTE, "appendfsync is everysec");
        doctor_why(r, "when the machine dies, locks of the last second or two may be forgotten");
        doctor_fix(r, "CONFIG SET appendfsync always, or let clients wait with restart_quiet_ms");
    }
}

static void check_persistence(const doctor_facts *f, doctor_report *r) {
    int64_t aof;

    if (info_is(f, "rdb_last_bgsave_status", "err")) {
        doctor_found(r, "persistence", DOCTOR_DANGER, "the last save failed");
        doctor_why(r,
                   "the server may refuse all writes (MISCONF): no lock can be taken or renewed");
        doctor_fix(r, "look into the server's log; make room on its disk; BGSAVE");
    }
    if (!doctor_info(f, "aof_enabled", &aof)) {
        doctor_found(r, "persistence", DOCTOR_UNSEEN, "whether a restart keeps the locks: %s",
                     f->info_why[0] ? f->info_why : "INFO does not tell");
        doctor_why(r, "locks that a restart forgets are taken by others while they are held");
        doctor_fix(r, "run the doctor as a user with +info");
    } else if (aof) {
        check_aof(f, r);
    } else if (f->config[CONFIG_SAVE].known && !f->config[CONFIG_SAVE].text[0]) {
        doctor_found(r, "persistence", DOCTOR_WARNING,
                     "nothing is kept over a restart (appendonly no, save \"\")");
        doctor_why(r, "a restart forgets all locks: others take them while they are held");
        doctor_fix(r, AOF_ON);
    } else {
        doctor_found(r, "persistence", DOCTOR_WARNING,
                     "a restart goes back to the last snapshot (appendonly no)");
        doctor_why(r, "it forgets all locks taken since: others take them while they are held");
        doctor_fix(r, AOF_ON);
    }
}

static void check_uptime(const doctor_facts *f, doctor_report *r) {
    int64_t up_s;

    if (!doctor_info(f, "uptime_in_seconds", &up_s) || up_s < 0 || up_s >= YOUNG_S)
        return;
    doctor_found(r, "restart", DOCTOR_NOTE, "the server started %lld s ago", (long long)up_s);
    doctor_why(r, "what it held before is there only as far as it was kept");
    doctor_fix(r, "restart_quiet_ms makes clients wait after a restart");
}

/* ---- copies --------------------------------------------------------------------------------------------------- */

static void check_replica(const doctor_facts *f, doctor_report *r) {
    char host[128] = "its master";
    int64_t read_only = 1;

    (void)doctor_info_text(f, "master_host", host, sizeof host);
    (void)doctor_info(f, "slave_read_only", &read_only);
    doctor_found(r, "replica", DOCTOR_DANGER, "this server is a replica of %s, %s", host,
                 read_only ? "and read-only" : "and may be written to");
    if (read_only) {
        doctor_why(r, "no lock can be taken here");
        doctor_fix(r, "name the master in --url (%s)", host);
    } else {
        doctor_why(
            r, "locks taken here exclude nobody who asks the master, and are overwritten by it");
        doctor_fix(r, "CONFIG SET replica-read-only yes, and name the master in --url (%s)", host);
    }
    if (info_is(f, "master_link_status", "down")) {
        doctor_found(r, "replication", DOCTOR_WARNING, "the replica has lost its master");
        doctor_why(r, "in a failover it would forget all locks since");
        doctor_fix(r, "look into the logs of both; REPLICAOF again");
    }
}

/* "slave0:ip=10.0.0.2,port=6379,state=online,offset=1,lag=0" */
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

    (void)field(line, "ip=", ip, sizeof ip);
    (void)field(line, "port=", port, sizeof port);
    (void)field(line, "state=", state, sizeof state);
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

static void check_failover(const doctor_facts *f, int64_t replicas, doctor_report *r) {
    int64_t least = 0, good = replicas, lag_s;

    if (!setting(f, CONFIG_MIN_REPLICAS, &least)) {
        doctor_found(r, "replication", DOCTOR_UNSEEN, "min-replicas-to-write");
        doctor_why(r, "without it a master that was cut off goes on giving locks that are lost");
        doctor_fix(r, "run the doctor as a user with +config|get");
    } else if (least == 0) {
        doctor_found(r, "replication", DOCTOR_WARNING,
                     "there are replicas, and min-replicas-to-write is 0");
        doctor_why(
            r, "a master that was cut off goes on giving locks, which its successor gives again");
        doctor_fix(
            r, "CONFIG SET min-replicas-to-write 1, min-replicas-max-lag 10; and wait_replicas in "
               "the clients");
    }
    if (setting(f, CONFIG_MIN_LAG, &lag_s) && least > 0 && lag_s == 0) {
        doctor_found(r, "replication", DOCTOR_WARNING,
                     "min-replicas-max-lag is 0: min-replicas-to-write has no effect");
        doctor_why(
            r, "a master that was cut off goes on giving locks, which its successor gives again");
        doctor_fix(r, "CONFIG SET min-replicas-max-lag 10");
    }
    if (least > 0)
        (void)doctor_info(f, "min_slaves_good_slaves", &good);
    if (good < least) {
        doctor_found(r, "replication", DOCTOR_DANGER, "%lld of at least %lld replicas are there",
                     (long long)good, (long long)least);
        doctor_why(r,
                   "the server refuses all writes (NOREPLICAS): no lock can be taken or renewed");
        doctor_fix(r, "bring the replicas back, or CONFIG SET min-replicas-to-write %lld",
                   (long long)good);
    }
}

static void check_copies(const doctor_facts *f, doctor_report *r) {
    int64_t replicas = 0, least = 0;
    char line[256], name[16];

    if (f->info[0] && info_is(f, "redis_mode", "sentinel")) {
        doctor_found(r, "replica", DOCTOR_DANGER, "this is a Sentinel, which keeps no locks");
        doctor_why(r, "no lock can be taken here");
        doctor_fix(r, "name the master in --url");
        return;
    }
    if (info_is(f, "role", "slave")) {
        check_replica(f, r);
        return;
    }
    (void)doctor_info(f, "connected_slaves", &replicas);
    (void)setting(f, CONFIG_MIN_REPLICAS, &least);
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
            r,
            "save, appendfsync, min-replicas, timeout, tcp-keepalive, protected-mode could not be "
            "looked at, so they are not known to be fine");
        doctor_fix(r, "run the doctor as a user with +config|get");
    }
    if (f->info_why[0]) {
        doctor_found(r, "info", DOCTOR_UNSEEN, "the state of the server: %s", f->info_why);
        doctor_why(r, "version, memory, persistence and replication could not be looked at");
        doctor_fix(r, "run the doctor as a user with +info");
    }
}

void doctor_check_state(const doctor_facts *f, doctor_report *r) {
    check_eviction(f, r);
    check_persistence(f, r);
    check_uptime(f, r);
    check_copies(f, r);
    check_unseen(f, r);
}

/* Worst first, else in the order in which they were found. */
void doctor_check(const doctor_facts *f, doctor_report *r) {
    r->count = 0;
    doctor_check_state(f, r);
    doctor_check_able(f, r);
    for (int i = 1; i < r->count; i++) {
        doctor_finding x = r->finding[i];
        int at = i;
        for (; at > 0 && r->finding[at - 1].level < x.level; at--)
            r->finding[at] = r->finding[at - 1];
        r->finding[at] = x;
    }
}
