/*
 * Which rules hold for a key: the margins, the legacy lifetime and the dialect, out of the
 * options; and which lifetimes of our own they leave. It must refuse any that leaves no validity, or
 * lets two hold at once.
 */
#include "ground/error.h"
#include "ground/glob.h"
#include "stamp/stamp.h"

#define SKEW_MS 1000
#define LEGACY_TTL_MS 60000
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

/* Each choice is checked, the first that fits counts. */
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

static tl_err check_lifetime(const tl_rules *r, int64_t ttl_ms, tl_error *err) {
    int64_t m = r->skew_ms, l = r->lag_ms, least = 2 * m + 2 * l;
    int64_t most = 2 * r->legacy_ttl_ms - 3 * m - 2 * l;
    int64_t legacy_least = 3 * m + 2 * l; /* from there on it is a lifetime, too */
    if (r->legacy_ttl_ms <= 2 * m + l || (ttl_ms == r->legacy_ttl_ms && ttl_ms > most))
        return tl__fail(err, TL_EINVALID, 0,
                        "legacy_ttl: %lld ms leave no validity with skew_max %lld ms and "
                        "legacy_lag %lld ms: at least %lld",
                        (long long)r->legacy_ttl_ms, (long long)m, (long long)l,
                        (long long)legacy_least);
    if (ttl_ms <= least)
        return tl__fail(err, TL_EINVALID, 0,
                        "ttl: more than %lld ms with skew_max %lld ms and legacy_lag %lld ms, "
                        "not %lld",
                        (long long)least, (long long)m, (long long)l, (long long)ttl_ms);
    if (ttl_ms > most) /* else equal bytes could be another's stamp */
        return tl__fail(err, TL_EINVALID, 0,
                        "ttl: at most %lld ms with legacy_ttl %lld ms, skew_max %lld ms and "
                        "legacy_lag %lld ms, not %lld",
                        (long long)most, (long long)r->legacy_ttl_ms, (long long)m, (long long)l,
                        (long long)ttl_ms);
    return TL_OK;
}

tl_err tl__stamp_rules(const tl_client_options *client, const tl_lock_options *lock, tl_bytes key,
                       tl_rules *ret, int64_t *ttl_ms, tl_error *err) {
    int64_t skew = client->skew_max_ms ? client->skew_max_ms : SKEW_MS;
    int64_t lag = client->legacy_lag_ms ? client->legacy_lag_ms : (skew + 1) / 2;
    int64_t legacy = client->legacy_ttl_ms ? client->legacy_ttl_ms : LEGACY_TTL_MS;
    const char *choices = lock && lock->dialect && *lock->dialect ? lock->dialect : client->dialect;
    if (check_number("skew_max", skew, 1, MARGIN_MAX_MS, err) ||
        check_number("legacy_lag", lag, 1, MARGIN_MAX_MS, err) ||
        check_number("legacy_ttl", legacy, TL_TTL_MIN_MS, TL_TTL_MAX_MS, err))
        return TL_EINVALID;
    *ret = (tl_rules){.skew_ms = (int32_t)skew,
                      .lag_ms = (int32_t)lag,
                      .legacy_ttl_ms = legacy,
                      .strict = client->strict,
                      .guard = (uint8_t)client->clock_guard};
    if ((unsigned)client->clock_guard > TL_GUARD_OFF)
        return tl__fail(err, TL_EINVALID, 0, "clock_guard: unknown value %d", client->clock_guard);
    if (client->strict && client->protocol != TL_TIMESTAMP)
        return tl__fail(err, TL_EINVALID, 0, "strict: only for the timestamp protocol");
    if (client->strict && client->clock_guard == TL_GUARD_REFUSE)
        return tl__fail(err, TL_EINVALID, 0,
                        "strict: the server isn't asked for its time, so no clock can be guarded");
    if (client->strict && client->wait_replicas > 0)
        return tl__fail(err, TL_EINVALID, 0, "strict: it can't wait for replicas");
    if (*ttl_ms == 0)
        *ttl_ms = legacy;
    return choose_dialect(choices, key, &ret->dialect, err) ? TL_EINVALID
                                                            : check_lifetime(ret, *ttl_ms, err);
}
