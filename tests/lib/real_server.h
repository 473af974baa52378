/*
 * Which redis-server is on the PATH, and what not every server has: by its version, in one table (real_server.c).
 * A test that needs more than there is says so in a line, and is skipped.
 */
#pragma once

#include <stdbool.h>

#include "tests.h"

typedef enum {
    REAL_ANY,  /**< what every server has */
    REAL_SCAN, /**< SCAN, CLIENT KILL by type, PUBSUB, a local: server */
    REAL_WAIT, /**< WAIT */
    REAL_LINE, /**< a script that reads the clock before it writes, without which there is no line */
    REAL_RUN_ID,        /**< the run and the history of data, which quiet_ms compares */
    REAL_MOVES_KEYS,    /**< a cluster whose keys are moved by a password */
    REAL_GLOBS,         /**< globs as they are read today */
    REAL_CONNECTION_ID, /**< CLIENT ID, by which a connection is ended */
    REAL_USERS,         /**< users, and tracking */
    REAL_CHANNEL_RULES, /**< users, and channels that they may use; tracking */
    REAL_STOPS_SCRIPTS, /**< min-replicas-to-write stops scripts, too */
    REAL_PAUSE_WRITES,  /**< CLIENT PAUSE WRITE; a bind address that can be changed */
    REAL_SEVEN, /**< counts by subcommand, a source address, rules for reading, a cluster's port, slow loading */
    REAL_ABILITIES
} real_server_ability;

/** Before any server is started: tests of this program use the server at this path, not the one on the PATH. NULL changes nothing. */
void real_server_use(const char *path);
/** The path given to it; NULL: none. */
const char *real_server_used(void);

/** "Redis 7.0.15", "Valkey 8.0.1". Without a redis-server: "none". */
const char *real_server_name(void);
/** Is it Redis 7.0.x, whose words are known? */
bool real_server_is_seven_zero(void);
bool real_server_has(real_server_ability what);
/** The same, and if not, the line that says so is printed. */
bool real_server_shows(real_server_ability what);

/** What it calls a replica, in commands and settings: "replica" or "slave". */
const char *real_server_replica(void);
/** For a group of tests, which is then skipped as one. */
bool real_server_shows_group(real_server_ability what, const char *group);

/** In a test: skip it without this. */
#define NEEDS_SERVER(what)                                                                         \
    do {                                                                                           \
        if (!real_server_shows(what))                                                              \
            skip();                                                                                \
    } while (0)

/** In main(): the whole program is skipped without this. */
void real_server_need(real_server_ability what);
