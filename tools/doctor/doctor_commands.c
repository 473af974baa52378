/*
 * The commands that tidelock sends or runs in its scripts, and who needs which. The doctor looks for them,
 * and prints them as a user's permissions. The rows that only protocols of legacy clients need follow from
 * tools/legacy.
 */
#include <string.h>

#include "doctor/doctor.h"

#define TOKENS DOCTOR_TOKEN
#define LINE DOCTOR_LINE
#define SCRIPTS (DOCTOR_TOKEN | DOCTOR_STAMP)
#define STRICT DOCTOR_STRICT
#define WATCHING DOCTOR_WATCH
#define PHASES DOCTOR_AUTO
#define ALL (SCRIPTS | STRICT | WATCHING | PHASES)
#define WAITERS (SCRIPTS | WATCHING) /* they listen for a release */

#define NO_LOCK "no lock can be acquired"
#define NO_LOOK "\"tidelock check\" and \"inspect\" can't look at keys"

#define NO_LINE "waiters poll instead of queueing"
#define LATE "a delayed request may set a key that nobody uses, for one lifetime"
#define SLOWER "each repeated acquisition of a lock costs a script"

#define NO_REDISSON "a lock of Redisson is shown as some hash"
#define COSTLIER "each renewal costs the server several times as much"

#define AS(...) ((const char *const[]){__VA_ARGS__, NULL})
static const doctor_command commands[] = {
    {"EVAL", NULL, 206, SCRIPTS, DOCTOR_NEEDED, NO_LOCK, AS("return 1", "2", "K", "S")},
    {"EVALSHA", NULL, 206, SCRIPTS, DOCTOR_NEEDED, NO_LOCK,
     AS("0000000000000000000000000000000000000000", "2", "K", "S")},
    {"GET", NULL, 0, ALL, DOCTOR_NEEDED, NO_LOCK, AS("K")},
    {"SET", NULL, 0, SCRIPTS, DOCTOR_NEEDED, NO_LOCK, AS("K", "v")},
    {"PSETEX", NULL, 206, SCRIPTS, DOCTOR_NEEDED, NO_LOCK, AS("K", "1", "v")},
    {"PTTL", NULL, 206, SCRIPTS, DOCTOR_NEEDED, "the end of a lock's lifetime stays unknown",
     AS("K")},
    {"PEXPIRE", NULL, 206, SCRIPTS, DOCTOR_NEEDED, "no lock can be renewed", AS("K", "1")},
    {"DEL", NULL, 0, ALL, DOCTOR_NEEDED, "no lock can be released", AS("K")},
    {"HMGET", NULL, 200, SCRIPTS | WATCHING, DOCTOR_NEEDED, NO_LOCK, AS("S", "f")},
    {"HMSET", NULL, 200, SCRIPTS | WATCHING, DOCTOR_NEEDED, NO_LOCK, AS("S", "f", "v")},
    {"TIME", NULL, 206, SCRIPTS, DOCTOR_NEEDED, "the server's clock stays unknown", NULL},
    {"ROLE", NULL, 208, DOCTOR_SENTINEL | DOCTOR_CLUSTER, DOCTOR_NEEDED,
     "a client that finds the server by Sentinels or by other nodes can't confirm that it is a "
     "master, and acquires nothing",
     NULL},
    {"CLUSTER", "SLOTS", 300, DOCTOR_CLUSTER, DOCTOR_NEEDED,
     "clients don't know which node has a lock", NULL},
    {"CLUSTER", "INFO", 300, DOCTOR_CLUSTER, DOCTOR_BETTER,
     "a reply from a master that was demoted and promoted again meanwhile is trusted", NULL},
    {"ASKING", NULL, 300, DOCTOR_CLUSTER, DOCTOR_NEEDED,
     "locks are lost while their slot is being moved", NULL},
    {"MULTI", NULL, 200, TOKENS, DOCTOR_BETTER, SLOWER, NULL},
    {"EXEC", NULL, 200, TOKENS, DOCTOR_BETTER, SLOWER, NULL},
    {"INCR", NULL, 0, TOKENS, DOCTOR_BETTER, SLOWER, AS("F")},
    {"INCRBY", NULL, 0, TOKENS, DOCTOR_BETTER, SLOWER, AS("F", "2")},
    {"MGET", NULL, 100, TOKENS, DOCTOR_BETTER, COSTLIER, AS("K")},
    {"HSET", NULL, 200, LINE | PHASES, DOCTOR_BETTER, COSTLIER, AS("S", "f", "v")},
    {"HGET", NULL, 200, SCRIPTS, DOCTOR_NEEDED, "not every lock can be released", AS("S", "f")},
    {"ZADD", NULL, 120, LINE | PHASES, DOCTOR_BETTER, NO_LINE, AS("L", "1", "m")},
    {"ZCARD", NULL, 120, TOKENS, DOCTOR_BETTER, NO_LINE, AS("L")},
    {"ZRANGE", NULL, 120, TOKENS, DOCTOR_BETTER, NO_LINE, AS("L", "0", "0")},
    {"ZRANK", NULL, 200, LINE | PHASES, DOCTOR_BETTER, NO_LINE, AS("L", "m")},
    {"ZREM", NULL, 120, SCRIPTS, DOCTOR_BETTER,
     "a former master that has become a replica is trusted, and waiters don't queue", AS("L", "m")},
    {"ZSCORE", NULL, 120, LINE | PHASES, DOCTOR_BETTER, NO_LINE, AS("L", "m")},
    {"PUBLISH", NULL, 200, SCRIPTS | WATCHING, DOCTOR_BETTER, "a release does not wake waiters",
     AS("S", "m")},
    {"SUBSCRIBE", NULL, 200, WAITERS, DOCTOR_BETTER, "waiters poll instead", AS("S", "I")},
    {"UNSUBSCRIBE", NULL, 200, WAITERS, DOCTOR_BETTER, "former waiters still receive notifications",
     NULL},
    {"PING", NULL, 0, WAITERS, DOCTOR_BETTER, "a connection is not known to be alive", NULL},
    {"TYPE", NULL, 0, SCRIPTS, DOCTOR_BETTER, NO_LOOK, AS("K")},
    {"PUBSUB", "NUMSUB", 208, SCRIPTS, DOCTOR_BETTER,
     "the number of waiters stays unknown, and no waiter is notified of its turn", AS("S")},
    {"SCAN", NULL, 208, SCRIPTS, DOCTOR_BETTER, "\"tidelock inspect\" can't list locks", AS("0")},
    {"STRLEN", NULL, 202, SCRIPTS, DOCTOR_BETTER, "\"tidelock inspect\" can't look at keys",
     AS("K")},
    {"HLEN", NULL, 200, SCRIPTS, DOCTOR_BETTER, NO_REDISSON, AS("K")},
    {"HKEYS", NULL, 200, SCRIPTS, DOCTOR_BETTER, NO_REDISSON, AS("K")},
    {"INFO", NULL, 0, LINE, DOCTOR_BETTER,
     "a waiter that is granted the lock sends one request more to confirm it", NULL},
    {"INFO", NULL, 0, PHASES, DOCTOR_BETTER,
     "a waiter may listen to a server that is no longer master", NULL},
    {"INFO", NULL, 0, DOCTOR_CLUSTER, DOCTOR_BETTER,
     "locks of a master are reported as at risk when it imports a slot", NULL},
    {"CLIENT", "ID", 500, LINE, DOCTOR_BETTER, LATE, NULL},
    {"CLIENT", "KILL", 500, LINE, DOCTOR_BETTER, LATE, AS("id", "1")},
    {"INFO", NULL, 0, ALL & ~LINE, DOCTOR_OPTION, "quiet_ms is not available", NULL},
    {"WAIT", NULL, 300, SCRIPTS, DOCTOR_OPTION, "wait_replicas is not available", AS("0", "0")},
    {"WAITAOF", NULL, 702, SCRIPTS, DOCTOR_OPTION, "wait_fsync is not available",
     AS("1", "0", "0")},
};

#define COMMANDS ((int)(sizeof commands / sizeof commands[0]))

const doctor_command *doctor_command_at(int i) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);

    if (i < COMMANDS)
        return &commands[i];
    return legacy ? legacy->command_at(i - COMMANDS) : NULL;
}

unsigned doctor_users(const doctor_facts *facts) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    bool evals = facts->present[0] != COMMAND_MISSING && facts->present[1] != COMMAND_MISSING &&
                 !facts->engineless &&
                 !doctor_before(facts, 2, 6, 0); /* EVAL and EVALSHA are the first rows */

    return (legacy && facts->protocol != TL_TOKEN ? legacy->users(facts, evals)
                                                  : DOCTOR_TOKEN | DOCTOR_LINE) |
           (facts->by_sentinels ? DOCTOR_SENTINEL : 0) | (facts->by_cluster ? DOCTOR_CLUSTER : 0);
}

const char *doctor_command_name(const doctor_command *command, char to[DOCTOR_COMMAND_SIZE]) {
    (void)snprintf(to, DOCTOR_COMMAND_SIZE, command->sub ? "%s %s" : "%s", command->name,
                   command->sub);
    return to;
}

bool doctor_before(const doctor_facts *facts, int major, int minor, int patch) {
    return facts->version > 0 && facts->version < DOCTOR_VERSION(major, minor, patch);
}
