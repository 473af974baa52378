/*
 * Servers that understand the commands of Redis and are something else: how INFO names them, and what is known of locks
 * there. The facts are from their documentation; no test of tidelock ran on them. Pure.
 */
#include <string.h>

#include "doctor/doctor.h"

#define UNTESTED "; tidelock's tests did not run on it"
#define LOSES "a failover loses the last writes, as Redis's does"

typedef struct {
    /** This field of INFO is there, and begins with this text ("": any). */
    const char *field, *begins;
    doctor_level level;
    const char *what, *why, *fix;
} kind_row;

/* The first row that fits counts. UNSEEN: not known to be safe. */
static const kind_row kinds[] = {
    {"role", "active-replica", DOCTOR_DANGER,
     "the server is KeyDB in active-replica mode: not safe for locks",
     "both servers grant locks at the same time, and of two writes to a key the newer one stays: "
     "two clients hold one lock",
     "set active-replica no and multi-master no, and let one server be a plain replica of the "
     "other"},
    {"mvcc_depth", "", DOCTOR_UNSEEN, "the server is KeyDB: not known to be safe for locks",
     "it came from Redis 6, and one lock keeps its threads apart, so a script is atomic; " LOSES
         UNTESTED,
     "never use active-replica or multi-master; Redis and Valkey are tested"},
    {"dragonfly_version", "", DOCTOR_UNSEEN,
     "the server is Dragonfly: not known to be safe for locks",
     "it runs a script atomically over the keys that the script declares, unless it has the flag "
     "disable-atomicity; " LOSES UNTESTED,
     "start it without disable-atomicity in --default_lua_flags; --quiet works only with "
     "allow-undeclared-keys there; Redis and Valkey are tested"},
    {"garnet_version", "", DOCTOR_UNSEEN, "the server is Garnet: not known to be safe for locks",
     "by default it runs no scripts; with --lua alone scripts run side by side, and two clients "
     "may acquire one lock" UNTESTED,
     "start it with --lua and --lua-transaction-mode; Redis and Valkey are tested"},
    {"kvrocks_version", "", DOCTOR_UNSEEN, "the server is Kvrocks: not known to be safe for locks",
     "it has several threads, and keeps scripts apart in a way that its version and "
     "lua-strict-key-accessing decide; " LOSES UNTESTED,
     "read its release notes on EVAL; Redis and Valkey are tested"},
    {"upstash_version", "", DOCTOR_UNSEEN, "the server is Upstash: not known to be safe for locks",
     "a script is atomic, but replicas elect a leader, and after a network partition the last "
     "writer wins: a granted lock may be forgotten" UNTESTED,
     "store the fence beside the data and compare it; where that is impossible, use another server"},
    {"rlec_version", "", DOCTOR_UNSEEN,
     "the server is Redis Software or Redis Cloud: not known to be safe for locks",
     "an Active-Active database accepts writes in several places: two clients hold one lock. Else " LOSES
         UNTESTED,
     "never keep locks in an Active-Active database; Redis and Valkey are tested"},
    {"os", "Amazon MemoryDB", DOCTOR_UNSEEN,
     "the server is Amazon MemoryDB: not known to be safe for locks",
     "it confirms a write only when a log in several zones has it, so a failover forgets no "
     "lock" UNTESTED,
     "use redis+cluster:// where it is a cluster; Redis and Valkey are tested"},
    {"os", "Amazon ElastiCache", DOCTOR_UNSEEN,
     "the server is Amazon ElastiCache: not known to be safe for locks",
     "its engine is Redis or Valkey, without CONFIG; unless its writes are synchronous a failover "
     "loses the last of them" UNTESTED,
     "choose synchronous writes, or --quiet; a serverless cache runs no script without keys, so "
     "`inspect` needs a key there"},
};

static bool fits(const doctor_facts *facts, const kind_row *row) {
    char text[64];

    return doctor_info_text(facts, row->field, text, sizeof text) &&
           strncmp(text, row->begins, strlen(row->begins)) == 0;
}

void doctor_check_kind(const doctor_facts *facts, doctor_report *report) {
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fits(facts, &kinds[i])) {
            doctor_found(report, "server", kinds[i].level, "%s", kinds[i].what);
            doctor_why(report, "%s", kinds[i].why);
            doctor_fix(report, "%s", kinds[i].fix);
            return;
        }
}
