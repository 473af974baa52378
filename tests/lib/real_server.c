/*
 * What the redis-server on the PATH is, as it says itself, and what its version lacks.
 */
#include "real_server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SKIP 77
#define NAME_SIZE 48
#define COMMAND_SIZE 4200

/* Valkey and Redict are as Redis 7.2 was when they left, KeyDB as Redis 6.2. */
static const struct {
    const char *says, *name;
    unsigned as; /* what it is, of Redis' versions; 0: it says so itself */
} products[] = {
    {"Valkey ", "Valkey", 70200},
    {"Redict ", "Redict", 70200},
    {"KeyDB ", "KeyDB", 60200},
    {"", "Redis", 0},
};

static const struct {
    unsigned since;
    const char *what;
} abilities[REAL_ABILITIES] = {
    [REAL_ANY] = {0, "anything"},
    [REAL_SCAN] = {20812, "SCAN, PUBSUB or CLIENT KILL TYPE"},
    [REAL_WAIT] = {30000, "WAIT"},
    [REAL_MOVES_KEYS] = {40007, "MIGRATE with a password"},
    [REAL_LINE] = {30200, "a clock for scripts that write, and with it the line"},
    [REAL_RUN_ID] = {40000, "a history's name, which quiet_ms needs"},
    [REAL_GLOBS] = {50000, "globs as they are read today"},
    [REAL_CONNECTION_ID] = {50000, "CLIENT ID"},
    [REAL_USERS] = {60000, "users, or tracking"},
    [REAL_CHANNEL_RULES] = {60200, "users with channels, or tracking as of today"},
    [REAL_PAUSE_WRITES] = {60200, "CLIENT PAUSE WRITE, or a bind address that can be changed"},
    [REAL_STOPS_SCRIPTS] = {60207, "min-replicas-to-write that stops scripts"},
    [REAL_SEVEN] = {70000, "what the test counts or sets up"},
};

static char name[NAME_SIZE];
static unsigned version; /* 70015 */
static const char *used; /* the server's path, if not the one on the PATH */

void real_server_use(const char *path) {
    used = path && *path ? path : NULL;
}

const char *real_server_used(void) {
    return used;
}

/* "Redis server v=7.0.15 sha=...", "Valkey server v=8.0.1 ..." */
static void read_version(const char *line) {
    unsigned v[3] = {0};
    const char *at = strstr(line, "v=");
    if (!at || sscanf(at, "v=%u.%u.%u", &v[0], &v[1], &v[2]) != 3)
        return;
    size_t i = 0;
    while (strncmp(line, products[i].says, strlen(products[i].says)) != 0)
        i++;
    (void)snprintf(name, sizeof name, "%s %u.%u.%u", products[i].name, v[0], v[1], v[2]);
    version = products[i].as ? products[i].as : v[0] * 10000 + v[1] * 100 + v[2];
}

static void ask(void) {
    char line[256] = "", command[COMMAND_SIZE];
    if (name[0])
        return;
    (void)snprintf(name, sizeof name, "none");
    (void)snprintf(command, sizeof command, "'%s' --version 2>/dev/null",
                   used ? used : "redis-server");
    FILE *f = popen(command, "re"); // NOLINT(cert-env33-c): a test's own line
    if (f) {
        if (fgets(line, sizeof line, f))
            read_version(line);
        (void)pclose(f);
    }
}

const char *real_server_name(void) {
    ask();
    return name;
}

bool real_server_is_seven_zero(void) {
    ask();
    return strncmp(name, "Redis 7.0.", 10) == 0;
}

bool real_server_has(real_server_ability what) {
    ask();
    return version >= abilities[what].since;
}

bool real_server_shows(real_server_ability what) {
    if (real_server_has(what))
        return true;
    print_message("SKIP: %s lacks %s: Redis %u.%u\n", name, abilities[what].what,
                  abilities[what].since / 10000, abilities[what].since / 100 % 100);
    return false;
}

const char *real_server_replica(void) {
    ask();
    return version >= 50000 ? "replica" : "slave";
}

bool real_server_shows_group(real_server_ability what, const char *group) {
    bool shows = real_server_shows(what);
    if (!shows)
        print_message("[  SKIPPED ] %s\n", group);
    return shows;
}

void real_server_need(real_server_ability what) {
    ask();
    if (strcmp(name, "none") != 0 && !real_server_shows(what))
        exit(SKIP);
}
