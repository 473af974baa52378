/*
 * The clients of a survey: which connections lock as legacy clients do, and what their commands in MONITOR say
 * of lifetimes, holds and delays. Pure except for memory.
 */
#pragma once

#include "legacy/skew_monitor.h"
#include "legacy/skew_stamp.h"
#include "migrate/client_list.h"
#include "migrate/migrate_found.h"

#define HEARD_CLIENTS 500
#define HEARD_KEYS 4
#define HEARD_ATTEMPTS 4096

/** A connection that was seen to use a legacy clients' command. */
typedef struct {
    client_row row;              /**< row.name and so on: only if listed */
    char host[SKEW_CLIENT_SIZE]; /**< the address without its port */
    bool listed;
    int64_t takes; /**< SETNX and GETSET with a stamp, read from MONITOR */
    int keys;
    char key[HEARD_KEYS][KEY_SHOWN]; /**< of different families */
    int64_t registered;              /**< of the takes, those on keys of the register */
    char registered_key[KEY_SHOWN];  /**< of the last of these */
} heard_client;

/** An attempt of a connection to lock a key: when it began, and its last command that may have acquired. */
typedef struct {
    uint64_t id;
    int64_t began_us, take_us;
} heard_attempt;

typedef struct {
    const char *keys;            /**< a glob; NULL: any */
    const migrate_register *reg; /**< of the namespace, if it is readable */
    const skew_dialect *dialect; /**< as the caller says; NULL: guess */
    heard_client *client;        /**< HEARD_CLIENTS of them */
    int clients, more;
    heard_client rest;      /**< takes of connections that don't fit */
    heard_attempt *attempt; /**< HEARD_ATTEMPTS; a later attempt may take the place of another */
    found_samples delays;   /**< from SETNX to GETSET of the same connection */
    int64_t others; /**< connections whose last command is none of tidelock's, at the last look */
    int64_t connections; /**< all, likewise */
} heard;

/** False: out of memory. */
bool heard_begin(heard *all, const migrate_register *reg);
void heard_end(heard *all);

/** Learn from a command of MONITOR. */
void heard_learn(heard *all, found *found, const skew_heard *command);

/** Learn who is connected, from CLIENT LIST; `begin`: of the first server. */
void heard_list(heard *all, tl_bytes list, bool begin);
