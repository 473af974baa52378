/*
 * The data of a namespace's phase on the server: its register, and a record for each client that
 * follows it. Reads these texts, which other programs write, and never trusts them. Pure.
 */
#pragma once

#include "transport/conn.h" /* tl_bytes, tl_reply */

enum { PHASE_TIMESTAMP, PHASE_BRIDGE, PHASE_DRAIN, PHASE_TOKEN, PHASES };

/** The phase's name, such as "timestamp"; "?": not a phase. */
const char *migrate_phase_name(int phase);

#define MIGRATE_NAME_MAX 64
#define MIGRATE_KEY_SIZE (MIGRATE_NAME_MAX + 40)
#define MIGRATE_KEYS_SIZE 513
#define MIGRATE_BY_SIZE 400
/** least lease that can be set; existing ones are read from 1 ms on */
#define MIGRATE_LEASE_LEAST_MS 1000
#define MIGRATE_LEASE_MOST_MS 600000
#define MIGRATE_CLIENT_LEASE_MOST_MS                                                               \
    3600000              /**< longest lease that a client may want without a register */
#define MIGRATE_LEASES 3 /**< a client's record expires after so many missed leases */

/** 1 to 64 letters, digits and any of _ . - */
bool migrate_name_ok(const char *name);

/** Write "tidelock:phase:{NAME}" and the suffix, such as ":clients". Returns buf. */
const char *migrate_key(char buf[MIGRATE_KEY_SIZE], const char *name, const char *suffix);
/** The same in a cluster, where no client follows this key: "tidelock:phase:cluster:{NAME}". */
const char *migrate_cluster_key(char buf[MIGRATE_KEY_SIZE], const char *name, const char *suffix);

typedef struct {
    bool there;
    bool readable; /**< else only `there` is valid */
    int phase;
    int from; /**< the former phase; -1: not known */
    int64_t epoch, lease_ms, since_us;
    char keys[MIGRATE_KEYS_SIZE];
    char by[MIGRATE_BY_SIZE];
} migrate_register;

/** Read the fields and values of an HGETALL reply. */
void migrate_register_read(const tl_reply *fields, migrate_register *ret);

/** A client's record: "EPOCH PHASE LEASE_MS SEEN_US VERSION HOST PID SERVICE", a tab, its pattern. */
typedef struct {
    char id[48];
    bool readable; /**< else only id and text are valid */
    /** the epoch that it acts by, or the latest that it knows; 0: it found no register */
    int64_t epoch;
    int phase; /**< the phase that it acts in */
    int64_t lease_ms, seen_us, pid;
    char version[24], host[256], service[64];
    char keys[MIGRATE_KEYS_SIZE]; /**< the pattern of its locks' names; "": not known */
    char text[96];                /**< the record's text, cut */
} migrate_client;

void migrate_client_read(tl_bytes id, tl_bytes text, migrate_client *ret);

/** Has the client's record expired? An unreadable record never has. */
bool migrate_client_is_gone(const migrate_client *client, int64_t now_us);

#define MIGRATE_WHO_SIZE 400

/** Write "nightly on db1 (pid 812)". Returns buf. */
const char *migrate_client_who(char buf[MIGRATE_WHO_SIZE], const migrate_client *client);
