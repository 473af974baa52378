/*
 * The conformance suite's frame: each test is a promise of the public header, and is run once for
 * each protocol and each kind of server. A new protocol, or kind of server, is one row in conform.c.
 *
 *     CONFORM(a_promise, c) {
 *         tl_lock *lock = conform_lock(c, conform_client(c), 30000);
 *         ...
 *     }
 *
 *     CONFORM_MAIN
 */
#pragma once

#include <hiredis/hiredis.h>

#include "locks.h"
#include "proxy.h"
#include "real_server.h"
#include "tests.h"

typedef struct conform_kind conform_kind;

/** What a test needs of a row, as bits; of a row that lacks it the test isn't asked, and it is said why. */
enum {
    CONFORM_FENCE = 1,      /**< a fencing number, and S that tells of the holder */
    CONFORM_GARBAGE = 2,    /**< K's own lifetime is the lock's */
    CONFORM_RENEWAL = 4,    /**< a lock that is renewed or extended */
    CONFORM_EXPIRY = 8,     /**< a key is free when our lifetime is over */
    CONFORM_SIDECAR = 16,   /**< a release that is announced */
    CONFORM_CLEANING = 32,  /**< whatever a lost request left is removed */
    CONFORM_OWN_TOKEN = 64, /**< no two holds have one token */
    CONFORM_ONE_STEP = 128, /**< one command releases */
    CONFORM_NO_SCRIPTS = 256,
    CONFORM_SHORT = 512,      /**< lifetimes below 2 s */
    CONFORM_RUNTIME = 1024,   /**< of the runtime: it is the same for each protocol, one shows it */
    CONFORM_REST = 2048,      /**< a lock that rests */
    CONFORM_SAYS_REST = 4096, /**< a waiter finds out that it rests */
    CONFORM_SCRIPTS = 8192    /**< the server runs scripts, by which a look finds the holder */
};
#define CONFORM_NEEDS 14

#define STRICT_TTL_MS 60000 /**< the legacy lifetime of a strict row; else TL_TTL_MAX_MS */

/** A protocol, and how it is used. */
typedef struct {
    const char *name;
    tl_protocol_id protocol;
    bool stamps, strict;
    bool engineless; /**< on a server without its Lua module; all other rows need scripts */
    int phase;       /**< TL_AUTO: of its namespace */
    unsigned lacks;
} conform_row;

typedef struct {
    tl_protocol_id protocol;
    const conform_row *row;
    const conform_kind *kind;
    void *server;
    int port;
    char url[64];
    char key[64];          /**< of this test alone */
    redisContext *context; /**< for what the test itself asks the server */
    uint64_t asked;        /**< commands of the test itself */
    proxy *proxy;
} conform;

/** A promise; `c` is what its function calls the row that it is run on. */
#define CONFORM(name, c) CONFORM_OF(name, c, 0)
#define CONFORM_OF(name, c, needs)                                                                 \
    TESTS__ON(name, __attribute__((unused)) conform *c, NULL, NULL, needs)
/** A promise of stamps alone. */
#define CONFORM_STAMPS(name, c, needs) CONFORM_OF(name, c, (needs) | CONFORM_IS_OF_STAMPS)
#define CONFORM_IS_OF_STAMPS (1U << CONFORM_NEEDS)

#define CONFORM_MAIN                                                                               \
    int main(void) {                                                                               \
        return conform_run();                                                                      \
    }

int conform_run(void);

bool conform_has(const conform *c, unsigned need);
/** Skip the test on a real server without this. */
void conform_needs_server(const conform *c, real_server_ability what);

/** A client of the row's protocol; all are freed after the test. */
tl_client *conform_client(conform *c);
tl_client *conform_client_with(conform *c, tl_client_options options);
/** On the test's key. */
tl_lock *conform_lock(conform *c, tl_client *client, int64_t ttl_ms);
tl_lock *conform_lock_with(conform *c, tl_client *client, tl_lock_options options);

/** A proxy before the server, from now to the end of the test. */
proxy *conform_proxy(conform *c);

/** Ask the server, past tidelock: a command's number, -1 when it is none. */
long long conform_int(conform *c, const char *format, ...);
/** Have it executed; an error fails the test. */
void conform_do(conform *c, const char *format, ...);
/** The key's sidecar becomes something else, in one step, so that renewals are refused; and again what it
 *  was. Protocols with a fence alone. */
void conform_spoil(conform *c);
void conform_heal(conform *c);
/** Does the key hold exactly this text? NULL: nothing at all. */
bool conform_holds(conform *c, const char *key, const char *text);

/** Commands that the server has executed for others so far, those inside of scripts not counted. */
uint64_t conform_count(conform *c);
