/*
 * What stands in the server about a namespace's phase: its register, and a record for each client that
 * follows it. Pure: reading these texts, which come from others and are never trusted.
 */
#pragma once

#include "transport/conn.h" /* tl_bytes, tl_reply */

enum { PHASE_TIMESTAMP, PHASE_BRIDGE, PHASE_DRAIN, PHASE_TOKEN, PHASES };

/** "timestamp" and so on; "?" for what is no phase. */
const char *migrate_phase_name(int phase);

#define MIGRATE_NAME_MAX 64
#define MIGRATE_KEY_SIZE (MIGRATE_NAME_MAX + 32)
#define MIGRATE_KEYS_SIZE 513
#define MIGRATE_BY_SIZE 400
#define MIGRATE_LEASE_LEAST_MS 1000 /**< that is given; one that was is read from 1 ms on */
#define MIGRATE_LEASE_MOST_MS 600000
#define MIGRATE_CLIENT_LEASE_MOST_MS                                                               \
    3600000              /**< what a client may want where no register says less */
#define MIGRATE_LEASES 3 /**< a client that has missed so many is gone */

/** 1 to 64 letters, digits and any of _ . - */
bool migrate_name_ok(const char *name);

/** "tidelock:phase:{NAME}" and the suffix, as ":clients". Returns buf. */
const char *migrate_key(char buf[MIGRATE_KEY_SIZE], const char *name, const char *suffix);

typedef struct {
    bool there;
    bool readable; /**< else only `there` means something */
    int phase;
    int from; /**< the phase before; -1: it is not known */
    int64_t epoch, lease_ms, since_us;
    char keys[MIGRATE_KEYS_SIZE];
    char by[MIGRATE_BY_SIZE];
} migrate_register;

/** From fields and values in turn, as HGETALL answers them. */
void migrate_register_read(const tl_reply *fields, migrate_register *ret);

/** A client's record: "EPOCH PHASE LEASE_MS SEEN_US VERSION HOST PID SERVICE", a tab, its pattern. */
typedef struct {
    char id[48];
    bool readable; /**< else only id and text mean something */
    int64_t
        epoch; /**< the one that it acts by, or the latest that it knows; 0: it has found no register */
    int phase; /**< the one that it acts in */
    int64_t lease_ms, seen_us, pid;
    char version[24], host[256], service[64];
    char keys[MIGRATE_KEYS_SIZE]; /**< the pattern of the names that it takes; "": not known */
    char text[96];                /**< the record as it stands there, cut */
} migrate_client;

void migrate_client_read(tl_bytes id, tl_bytes text, migrate_client *ret);

/** Has it missed so many leases that it is gone? One that can't be read never is. */
bool migrate_client_is_gone(const migrate_client *client, int64_t now_us);

#define MIGRATE_WHO_SIZE 400

/** "nightly on db1 (pid 812)". Returns buf. */
const char *migrate_client_who(char buf[MIGRATE_WHO_SIZE], const migrate_client *client);
