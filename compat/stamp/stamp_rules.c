/*
 * The rules of a key, from the options: the margins, the legacy lifetime and the dialect; and the
 * range that they leave for our own lifetime. Must refuse any lifetime that leaves no validity, or
 * that allows two holders.
 */
#include "ground/error.h"
#include "ground/glob.h"
#include "ground/guard.h"
#include "stamp/stamp.h"

#define CLOCK_SKEW_MAX_MS 1000
#define LEGACY_TTL_MIN_MS 60000
#define MARGIN_MAX_MS 3600000

static tl_err check_number(const char *name, int64_t v, int64_t least, int64_t most,
                           tl_error *err) {
    if (v >= least && v <= most)
        return TL_OK;
    return tl__fail(err, TL_EINVALID, 0, "%s: %lld to %lld ms, not %lld", name, (long long)least,
                    (long long)most, (long long)v);
}

/* ---- the dialect of a key -------------------------------------------------------------------- */

static tl_err find_dialect(tl_bytes name, const tl_dialect **ret, tl_error *err) {
    char shown[64];
    *ret = tl__dialect_find(name);
    if (*ret)
        return TL_OK;
    tl__bytes_print(shown, sizeof shown, name);
    return tl__fail(err, TL_EINVALID, 0, "dialect: '%s' is unknown; see: tidelock help dialects",
                    shown);
}

static tl_err check_pattern(tl_bytes pattern, tl_error *err) {
    const char *flaw = tl__glob_flaw(pattern);
    char shown[64];
    if (!flaw)
        return TL_OK;
    tl__bytes_print(shown, sizeof shown, pattern);
    return tl__fail(err, TL_EINVALID, 0, "dialect: the pattern '%s' has a %s", shown, flaw);
}

/* Checks every choice; the first that matches the key counts. */
static tl_err choose_dialect(const char *choices, tl_bytes key, const tl_dialect **ret,
                             tl_error *err) {
    tl_bytes pattern, name;
    *ret = NULL;
    while (tl__glob_choice(&choices, &pattern, &name)) {
        const tl_dialect *dialect;
        if (find_dialect(name, &dialect, err) || check_pattern(pattern, err))
            return TL_EINVALID;
        if (!*ret && tl__glob_fits(pattern, key))
            *ret = dialect;
    }
    if (!*ret)
        *ret = tl__dialect_at(0);
    return TL_OK;
}

/* ---- lifetimes ------------------------------------------------------------------------------- */

static tl_err check_lifetime(const tl_rules *rules, int64_t ttl_ms, tl_error *err) {
    int64_t m = rules->clock_skew_max_ms, l = rules->legacy_delay_max_ms, least = 2 * m + 2 * l;
    /* a loser's stamp may end early, and so may the next client's */
    int64_t early = tl__stamp_early_ms(rules);
    int64_t most = 2 * rules->legacy_ttl_min_ms - 3 * m - 2 * l - 2 * early;
    int64_t legacy_least = 3 * m + 2 * l +
                           2 * early; /* from here on it also leaves a valid lifetime */
    if (GUARD(shortest_legacy_lifetime) && (rules->legacy_ttl_min_ms <= 2 * m + l + early ||
                                            (ttl_ms == rules->legacy_ttl_min_ms && ttl_ms > most)))
        return tl__fail(err, TL_EINVALID, 0,
                        "legacy_ttl_min: %lld ms leave no validity with clock_skew_max %lld ms and "
                        "legacy_delay_max %lld ms: at least %lld",
                        (long long)rules->legacy_ttl_min_ms, (long long)m, (long long)l,
                        (long long)legacy_least);
    if (GUARD(shortest_lifetime) && ttl_ms <= least)
        return tl__fail(
            err, TL_EINVALID, 0,
            "ttl: more than %lld ms with clock_skew_max %lld ms and legacy_delay_max %lld ms, "
            "not %lld",
            (long long)least, (long long)m, (long long)l, (long long)ttl_ms);
    /* else another client's stamp could have the same bytes */
    if (GUARD(longest_lifetime) && ttl_ms > most)
        return tl__fail(
            err, TL_EINVALID, 0,
            "ttl: at most %lld ms with legacy_ttl_min %lld ms, clock_skew_max %lld ms and "
            "legacy_delay_max %lld ms, not %lld",
            (long long)most, (long long)rules->legacy_ttl_min_ms, (long long)m, (long long)l,
            (long long)ttl_ms);
    return TL_OK;
}

static tl_err check_choices(const tl_legacy *client, tl_error *err) {
    const tl_legacy_options *options = &client->options;
    if ((unsigned)options->clock_guard > TL_GUARD_OFF)
        return tl__fail(err, TL_EINVALID, 0, "clock_guard: unknown value %d",
                        (int)options->clock_guard);
    if (options->strict && client->protocol != TL_TIMESTAMP)
        return tl__fail(err, TL_EINVALID, 0, "strict: only for the timestamp protocol");
    if (options->strict && options->clock_guard == TL_GUARD_REFUSE)
        return tl__fail(err, TL_EINVALID, 0,
                        "strict: the server isn't asked for its time, so clock_guard can't refuse");
    if (options->strict && client->wait_replicas > 0)
        return tl__fail(err, TL_EINVALID, 0, "strict: cannot be combined with wait_replicas");
    if (options->strict && client->wait_fsync)
        return tl__fail(err, TL_EINVALID, 0, "strict: cannot be combined with wait_fsync");
    return TL_OK;
}

/* The facts about legacy clients hold for all locks of a client; a lock may only choose the
 * dialect. */
static tl_err check_lock(const tl_legacy_options *options, tl_error *err) {
    bool more = options->clock_skew_max_ms || options->legacy_delay_max_ms ||
                options->legacy_ttl_min_ms || options->namespaces || options->phase_lease_ms ||
                options->fallback || options->clock_guard || options->strict;
    return more ? tl__fail(err, TL_EINVALID, 0,
                           "legacy: a lock can only set the dialect; set the rest for the client")
                : TL_OK;
}

tl_err tl__stamp_rules(const tl_legacy *client, const tl_legacy_options *lock, tl_bytes key,
                       tl_rules *ret, int64_t *ttl_ms, tl_error *err) {
    const tl_legacy_options *options = &client->options;
    int64_t m = options->clock_skew_max_ms ? options->clock_skew_max_ms : CLOCK_SKEW_MAX_MS;
    int64_t l = options->legacy_delay_max_ms ? options->legacy_delay_max_ms : (m + 1) / 2;
    int64_t least = options->legacy_ttl_min_ms ? options->legacy_ttl_min_ms : LEGACY_TTL_MIN_MS;
    const char *choices = lock && lock->dialect && *lock->dialect ? lock->dialect
                                                                  : options->dialect;
    if (check_number("clock_skew_max", m, 1, MARGIN_MAX_MS, err) ||
        check_number("legacy_delay_max", l, 1, MARGIN_MAX_MS, err) ||
        check_number("legacy_ttl_min", least, TL_TTL_MIN_MS, TL_TTL_MAX_MS, err) ||
        check_choices(client, err) || (lock && check_lock(lock, err)))
        return TL_EINVALID;
    *ret = (tl_rules){.clock_skew_max_ms = (int32_t)m,
                      .legacy_delay_max_ms = (int32_t)l,
                      .legacy_ttl_min_ms = least,
                      .strict = options->strict,
                      .clock_guard = (uint8_t)options->clock_guard};
    if (*ttl_ms == 0)
        *ttl_ms = least;
    return choose_dialect(choices, key, &ret->dialect, err) ? TL_EINVALID
                                                            : check_lifetime(ret, *ttl_ms, err);
}

const char *tl__stamp_never_renewed(const tl_rules *rules) {
    return rules->strict
               ? "with strict a lock is not renewed: SETNX, GET, GETSET and DEL can't do it safely"
               : "without EVAL and WATCH a stamp can't be renewed safely";
}

const char *tl__stamp_never_rests(const tl_rules *rules) {
    if (rules->strict)
        return "with strict a lock can't rest: SETNX, GET, GETSET and DEL can't do it safely";
    return rules->dialect->waiters_overwrite && GUARD(overwritten_never_rests)
               ? "a lock can't rest in this dialect: legacy clients that wait overwrite its stamp, "
                 "however late it ends"
               : NULL;
}
