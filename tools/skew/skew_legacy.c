/*
 * The options about legacy clients.
 */
#include <string.h>

#include "base/duration.h"
#include "ground/glob.h"
#include "skew/skew_legacy.h"
#include "skew/skew_self.h"

#define PASSIVE_LEAST_MS 100
#define PASSIVE_MOST_MS INT64_C(3600000)
#define LIFETIME_MOST_MS (INT64_C(366) * 86400000) /* some lock for a year */
#define POOL_WAIT_MS 5
#define POOL_WAIT_MOST_MS 60000

static int parse_lifetime(const char *text, int64_t lock_timeout_ms, int64_t *ret_us) {
    char why[DURATION_WHY];
    int64_t given_ms = lock_timeout_ms;

    if (text && strcmp(text, "auto") == 0) {
        *ret_us = SKEW_LIFETIME_UNKNOWN;
        return 0;
    }
    if (text && (given_ms = duration_parse(text, why)) < 0)
        return fail(STATUS_USAGE, "--legacy-ttl: %s; or auto", why);
    if (given_ms < 1 || given_ms > LIFETIME_MOST_MS)
        return fail(STATUS_USAGE, "--legacy-ttl: 1ms to 366d, or auto");
    *ret_us = given_ms * 1000;
    return 0;
}

static int check(const skew_legacy_options *o) {
    if (!skew_legacy_asked(o))
        return o->legacy_ttl || o->keys || o->pool_wait_ms != SKEW_NOT_GIVEN
                   ? fail(STATUS_USAGE, "--legacy-ttl, --keys and --pool-wait are about --passive: "
                                        "say that too")
                   : 0;
    if (o->passive_ms < PASSIVE_LEAST_MS || o->passive_ms > PASSIVE_MOST_MS)
        return fail(STATUS_USAGE, "--passive: 100ms to 1h");
    if (o->pool_wait_ms != SKEW_NOT_GIVEN && o->pool_wait_ms > POOL_WAIT_MOST_MS)
        return fail(STATUS_USAGE, "--pool-wait: at most 1m");
    if (o->keys && !*o->keys)
        return fail(STATUS_USAGE, "--keys: which? A glob, as in --keys 'lock:*'");
    const char *flaw = o->keys ? tl__glob_flaw(tl__bytes_of(o->keys)) : NULL;
    if (flaw)
        return fail(STATUS_USAGE, "--keys: the pattern has a %s", flaw);
    return 0;
}

int skew_legacy_make(const skew_legacy_options *o, int64_t lock_timeout_ms,
                     skew_listen_options *ret) {
    bool told = o->pool_wait_ms != SKEW_NOT_GIVEN;
    int status = check(o);

    if (status || (!skew_legacy_asked(o) && !o->dialect))
        return status;
    *ret = (skew_listen_options){
        .for_ms = o->passive_ms,
        .keys = o->keys,
        .dialect = skew_stamp_dialect(o->dialect),
        .model = {.pool_wait_us = (told ? o->pool_wait_ms : POOL_WAIT_MS) * 1000,
                  .pooled = told,
                  .rate_ppm = SKEW_DRIFT_PPM}};
    if (!ret->dialect)
        return fail(STATUS_USAGE, "--dialect: unknown name; see: tidelock help dialects");
    ret->model.unit_us = skew_stamp_resolution_us(ret->dialect);
    return parse_lifetime(o->legacy_ttl, lock_timeout_ms, &ret->model.lifetime_us);
}
