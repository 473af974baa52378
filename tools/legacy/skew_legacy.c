/*
 * Legacy clients in tidelock skew: their options, listening to them, and publishing the verdict to
 * a namespace's clients.
 */
#include <stdlib.h>
#include <string.h>

#include "base/duration.h"
#include "ground/glob.h"
#include "legacy/migrate_record.h"
#include "legacy/skew_listen.h"
#include "legacy/skew_publish.h"

#define NOT_GIVEN INT64_MIN
#define PASSIVE_MS 5000
#define PASSIVE_LEAST_MS 100
#define PASSIVE_MOST_MS INT64_C(3600000)
#define LIFETIME_MOST_MS (INT64_C(366) * 86400000) /* a year: some locks are that long */
#define POOL_WAIT_MS 5
#define POOL_WAIT_MOST_MS 60000

typedef struct {
    int64_t passive_ms, pool_wait_ms;
    const char *legacy_ttl, *dialect, *keys, *publish;
} skew_legacy_options;

#define AT(member) offsetof(skew_legacy_options, member)
static const opt table[] = {
    OPT_RARE_FOLLOW,
    {0, "", OPT_HEADING, 0, NULL, "About legacy clients:", 0, 0},
    {0, "passive", OPT_EVERY, AT(passive_ms), "[=D]",
     "also measure legacy clients, by MONITOR for D (5s)", PASSIVE_MS, 0},
    {0, "legacy-ttl", OPT_TEXT, AT(legacy_ttl), "D|auto",
     "the lifetime that legacy clients use (that of --lock-timeout)", 0, 0},
    {0, "dialect", OPT_TEXT, AT(dialect), "NAME",
     "how legacy clients write stamps, see: tidelock help dialects (java)", 0, 0},
    {0, "keys", OPT_TEXT, AT(keys), "PATTERN",
     "the keys of legacy clients' locks, as a glob (every key that holds a stamp)", 0, 0},
    {0, "pool-wait", OPT_DURATION, AT(pool_wait_ms), "D",
     "how long a legacy client waits for a connection after it has read its clock (5ms for those "
     "that PING first)",
     0, 0},
    {0, "publish", OPT_TEXT, AT(publish), "NS",
     "publish the verdict to the clients of namespace NS", 0, 0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const skew_legacy_options defaults = {.passive_ms = NOT_GIVEN, .pool_wait_ms = NOT_GIVEN};
const opt_part skew_legacy_part = {table, &defaults, sizeof defaults};

/* ---- options ---------------------------------------------------------------------------------- */

static bool listens(const void *options) {
    return ((const skew_legacy_options *)options)->passive_ms != NOT_GIVEN;
}

static bool any(const void *values) {
    const skew_legacy_options *options = values;

    return listens(options) || options->legacy_ttl || options->dialect || options->keys ||
           options->publish || options->pool_wait_ms != NOT_GIVEN;
}

static int parse_lifetime(const char *text, int64_t lock_timeout_ms, int64_t *ret_us) {
    char why[DURATION_WHY];
    int64_t given_ms = lock_timeout_ms;

    if (text && strcmp(text, "auto") == 0) {
        *ret_us = SKEW_LIFETIME_UNKNOWN;
        return 0;
    }
    if (text && (given_ms = duration_parse(text, why)) < 0)
        return fail(STATUS_USAGE, "skew: --legacy-ttl: %s; or auto", why);
    if (given_ms < 1 || given_ms > LIFETIME_MOST_MS)
        return fail(STATUS_USAGE, "skew: --legacy-ttl: 1ms to 366d, or auto");
    *ret_us = given_ms * 1000;
    return 0;
}

static int check_values(const skew_legacy_options *options) {
    if (options->publish && !migrate_name_ok(options->publish))
        return fail(STATUS_USAGE,
                    "skew: --publish: a namespace's name: 1 to %d letters, digits, _ . -",
                    MIGRATE_NAME_MAX);
    if (!listens(options))
        return options->legacy_ttl || options->keys || options->pool_wait_ms != NOT_GIVEN
                   ? fail(STATUS_USAGE,
                          "skew: --legacy-ttl, --keys and --pool-wait require --passive")
                   : 0;
    if (options->passive_ms < PASSIVE_LEAST_MS || options->passive_ms > PASSIVE_MOST_MS)
        return fail(STATUS_USAGE, "skew: --passive: 100ms to 1h");
    if (options->pool_wait_ms != NOT_GIVEN && options->pool_wait_ms > POOL_WAIT_MOST_MS)
        return fail(STATUS_USAGE, "skew: --pool-wait: at most 1m");
    if (options->keys && !*options->keys)
        return fail(STATUS_USAGE, "skew: --keys: the glob is empty; as in --keys 'lock:*'");
    const char *flaw = options->keys ? tl__glob_flaw(tl__bytes_of(options->keys)) : NULL;
    if (flaw)
        return fail(STATUS_USAGE, "skew: --keys: the pattern has a %s", flaw);
    return 0;
}

/* Without --passive the other options are not allowed either. The dialect is: stamps are compared
 * however clocks are measured. ret->dialect is NULL if none is given. */
static int make(const skew_legacy_options *options, int64_t lock_timeout_ms,
                skew_listen_options *ret) {
    bool given = options->pool_wait_ms != NOT_GIVEN;
    int status = check_values(options);

    if (status || (!listens(options) && !options->dialect))
        return status;
    *ret = (skew_listen_options){
        .passive_ms = options->passive_ms,
        .keys = options->keys,
        .dialect = skew_stamp_dialect(options->dialect),
        .model = {.pool_wait_us = (given ? options->pool_wait_ms : POOL_WAIT_MS) * 1000,
                  .pooled = given,
                  .rate_ppm = SKEW_DRIFT_PPM}};
    if (!ret->dialect)
        return fail(STATUS_USAGE, "skew: --dialect: unknown name; see: tidelock help dialects");
    ret->model.unit_us = skew_stamp_resolution_us(ret->dialect);
    return parse_lifetime(options->legacy_ttl, lock_timeout_ms, &ret->model.legacy_ttl_us);
}

static int check(const void *options, skew_rule *rule) {
    skew_listen_options made = {.dialect = NULL};
    int status = make(options, rule->lock_timeout_us / 1000, &made);

    if (status == 0 && made.dialect) {
        tl_interval over = skew_stamp_over_us(made.dialect);
        rule->early_us = -over.lo;
        rule->late_us = over.hi;
    }
    return status;
}

/* ---- listening -------------------------------------------------------------------------------- */

static skew_listen *begin(const void *options, const skew_rule *rule) {
    skew_listen_options made = {.dialect = NULL};
    skew_listen *listening = malloc(sizeof *listening);

    if (listening && make(options, rule->lock_timeout_us / 1000, &made) == 0 &&
        skew_listen_begin(listening, &made))
        return listening;
    free(listening);
    return NULL;
}

static void end(skew_listen *listening) {
    if (listening)
        skew_listen_end(listening);
    free(listening);
}

static int hosts_of(const skew_listen *listening, int64_t now_us, int64_t stepped_us,
                    skew_host *hosts, int count, bool *ret_more) {
    return skew_passive_hosts(&listening->passive, now_us, stepped_us, hosts, count, ret_more);
}

static void judge(const skew_listen *listening, skew_host *hosts, int count) {
    skew_passive_judge(&listening->options.model, hosts, count);
}

static void tell(const skew_listen *listening, skew_result *result) {
    result->cost = listening->message;
    if (listening->aborted) {
        result->unheard = "listening was aborted early, so some commands were not seen";
        result->unheard_advice =
            "listen when the server is less busy, or run \"tidelock agent\" on the hosts instead";
    } else if (listening->passive.sources == 0) {
        result->unheard = "no legacy client acquired a lock during --passive";
        result->unheard_advice =
            "listen for longer (--passive=1m); or, if there are none, leave out --passive";
    }
}

/* ---- publishing ------------------------------------------------------------------------------- */

static bool publishes(const void *options) {
    return ((const skew_legacy_options *)options)->publish;
}

static int publish(const void *options, server_link *link, const skew_result *result,
                   int64_t watch_ms) {
    return skew_publish(link, ((const skew_legacy_options *)options)->publish, result, watch_ms);
}

static const char *not_in_cluster(const void *options) {
    if (listens(options))
        return "--passive listens to one server, and a cluster has several: use it with each "
               "master's own URL, redis://HOST:PORT, and with --no-agents";
    return publishes(options)
               ? "--publish: in a cluster no client reads the verdict: leave it out, and act on the "
                 "exit status"
               : NULL;
}

const skew_legacy_hooks skew_legacy = {.check = check,
                                       .any = any,
                                       .not_in_cluster = not_in_cluster,
                                       .listens = listens,
                                       .begin = begin,
                                       .listen = skew_listen_run,
                                       .hosts = hosts_of,
                                       .judge = judge,
                                       .tell = tell,
                                       .end = end,
                                       .publishes = publishes,
                                       .publish = publish};
