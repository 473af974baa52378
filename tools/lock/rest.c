/*
 * Options that let a lock rest. The library refuses a rest only when the lock is about to rest, after the
 * work. A lock that has to rest in any case is refused when it is made: such a lock is made here, and not
 * used.
 */
#include <string.h>

#include "lock/rest.h"

int rest_check(const char *option, int64_t ms) {
    if (ms != REST_NOT_GIVEN && (ms < 0 || ms > TL_REST_MAX_MS))
        return fail(STATUS_USAGE, "%s: 0s to 400d", option);
    return 0;
}

int rest_probe(const char *option, tl_client *client, const char *key,
               const tl_lock_options *options) {
    tl_lock_options rests = *options;
    tl_error err;

    rests.min_hold_ms = 1;
    tl_lock *lock = tl_lock_new(client, key, strlen(key), &rests, &err);
    tl_lock_free(lock);
    if (lock)
        return 0;
    const char *why = strstr(err.message, ": "); /* behind the name of the library's option */
    return fail(status_of(err.code), "%s: %s", option, why ? why + 2 : err.message);
}

bool rest_ends_wait(const server *where) {
    return server_protocol(where) == TL_TOKEN;
}
