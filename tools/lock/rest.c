/*
 * Options that let a lock rest.
 */
#include <string.h>

#include "lock/rest.h"

int rest_check(const char *option, int64_t ms) {
    if (ms != REST_NOT_GIVEN && (ms < 0 || ms > TL_REST_MAX_MS))
        return fail(STATUS_USAGE, "%s: 0s to 400d", option);
    return 0;
}

int rest_fail(const char *option, const tl_error *err) {
    static const char will_rest[] = "will_rest: "; /* the name of the library's option */
    size_t n = sizeof will_rest - 1;

    if (strncmp(err->message, will_rest, n) == 0)
        return fail(status_of(err->code), "%s: %s", option, err->message + n);
    return fail(status_of(err->code), "%s", err->message);
}

bool rest_ends_wait(const server *where) {
    return server_protocol(where) == TL_TOKEN;
}
