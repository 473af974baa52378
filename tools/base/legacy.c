/*
 * What the commands know of the legacy clients: the options about them, and the list of
 * their dialects. What may be combined, and what leaves no validity, is the library's to say.
 */
#include <stdio.h>
#include <string.h>

#include "base/legacy.h"
#include "base/tool.h"

#define TTL_MS 30000
#define LEGACY_TTL_MS 60000
#define EXAMPLE_MS INT64_C(1767225600250) /* 2026-01-01 00:00:00.25 */

static int check_given(const char *who, const char *name, int64_t ms) {
    if (ms == 0)
        return fail(STATUS_USAGE, "%s: --%s: it can't be nothing; 1ms at least", who, name);
    return 0;
}

static int64_t given(int64_t ms) {
    return ms == LEGACY_NOT_GIVEN ? 0 : ms;
}

int legacy_apply(const char *who, const legacy_options *o, tl_client_options *client) {
    bool about_them = o->dialect || o->legacy_ttl_ms != LEGACY_NOT_GIVEN ||
                      o->max_skew_ms != LEGACY_NOT_GIVEN || o->legacy_lag_ms != LEGACY_NOT_GIVEN ||
                      o->guard != TL_GUARD_WARN;
    int status = check_given(who, "legacy-ttl", o->legacy_ttl_ms);

    status = status ? status : check_given(who, "max-skew", o->max_skew_ms);
    status = status ? status : check_given(who, "legacy-lag", o->legacy_lag_ms);
    if (status)
        return status;
    if (o->strict && o->protocol != TL_TIMESTAMP)
        return fail(STATUS_USAGE, "%s: --strict: only with --protocol timestamp", who);
    if (about_them && o->protocol == TL_TOKEN)
        return fail(STATUS_USAGE,
                    "%s: options about legacy clients need --protocol bridge, timestamp or auto",
                    who);
    if (o->dialect && !*o->dialect)
        return fail(STATUS_USAGE, "%s: --dialect: which? see: tidelock help dialects", who);
    if (o->namespaces && o->protocol != TL_AUTO)
        return fail(STATUS_USAGE, "%s: --namespace: only with --protocol auto", who);
    client->namespaces = o->namespaces;
    client->clock_guard = (tl_clock_guard)o->guard;
    client->protocol = (tl_protocol_id)o->protocol;
    client->dialect = o->dialect;
    client->legacy_ttl_ms = given(o->legacy_ttl_ms);
    client->skew_max_ms = given(o->max_skew_ms);
    client->legacy_lag_ms = given(o->legacy_lag_ms);
    client->strict = o->strict;
    return 0;
}

const char *const legacy_left_out[] = {
#ifndef TL_COMPAT
    "--protocol",   "--namespace", "--clock-guard", "--dialect", "--legacy-ttl", "--max-skew",
    "--legacy-lag", "--strict",    "--passive",     "--keys",    "--pool-wait",
#endif
    NULL,
};

int64_t legacy_ttl_ms(const legacy_options *o, int64_t given_ms) {
    if (given_ms != LEGACY_NOT_GIVEN)
        return given_ms;
    if (o->protocol == TL_TOKEN)
        return TTL_MS;
    return o->legacy_ttl_ms > 0 ? o->legacy_ttl_ms : LEGACY_TTL_MS;
}

const char *protocol_name(int protocol) {
    switch (protocol) {
    case TL_TOKEN: return "token";
    case TL_BRIDGE: return "bridge";
    case TL_TIMESTAMP: return "timestamp";
    case TL_AUTO: return "auto";
    default: return NULL;
    }
}

int legacy_list(void) {
    tl_dialect_info d = {.size = sizeof d};

    if (!tl_dialect_at(0, EXAMPLE_MS, &d))
        return fail(STATUS_USAGE, "help: this tidelock was built without dialects");
    printf("How legacy clients write the end of a lock's lifetime, for --dialect. The values\n"
           "are those of a lock that ends on 2026-01-01 at 00:00:00.25 UTC.\n\n"
           "  %-15s %-11s %s\n      %s\n\n",
           "NAME", "UNIT", "VALUE", "seen in");
    for (unsigned i = 0; tl_dialect_at(i, EXAMPLE_MS, &d); i++)
        printf("  %-15s %-11s %s\n      %s\n", d.name, d.unit, d.example, d.seen_in);
    printf("\nThe first is the default. For some keys another:\n"
           "  --dialect 'cron:*=redis-doc,java'\n");
    return 0;
}
