/*
 * The conformance suite's frame: each test is a promise of the public header, and is run once for
 * each protocol and each kind of server. A new protocol, or kind of server, is one row in conform.c.
 *
 *     static void test_a_promise(void **state) {
 *         conform *c = *state;
 *         tl_lock *lock = conform_lock(c, conform_client(c), 30000);
 *         ...
 *     }
 *
 *     static const conform_test tests[] = {CONFORM(test_a_promise)};
 *     CONFORM_MAIN(tests)
 */
#ifndef CONFORM_H
#define CONFORM_H

#include <hiredis/hiredis.h>

#include "locks.h"
#include "proxy.h"

typedef struct conform_kind conform_kind;

typedef struct {
    tl_protocol_id protocol;
    const conform_kind *kind;
    void *server;
    int port;
    char url[64];
    char key[64];          /**< of this test alone */
    redisContext *context; /**< for what the test itself asks the server */
    uint64_t asked;        /**< commands of the test itself */
    proxy *proxy;
} conform;

typedef struct {
    const char *name;
    void (*run)(void **state);
} conform_test;

#define CONFORM(function)                                                                          \
    { #function, function }
#define CONFORM_MAIN(tests)                                                                        \
    int main(int argc, char **argv) {                                                              \
        return conform_run(tests, sizeof(tests) / sizeof *(tests), argc > 1 ? argv[1] : NULL);     \
    }
/** `only`: a pattern of test names, or NULL. */
int conform_run(const conform_test *tests, size_t count, const char *only);

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
/** Does the key hold exactly this text? NULL: nothing at all. */
bool conform_holds(conform *c, const char *key, const char *text);

/** Commands that the server has executed for others so far, those inside of scripts not counted. */
uint64_t conform_count(conform *c);

#endif
