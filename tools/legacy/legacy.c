/*
 * Legacy clients in the commands that acquire locks: their options, how their locks are shown, and the
 * list of their dialects. The library decides which options can be combined, and which leave no validity.
 */
#include <stdio.h>
#include <string.h>
#include <tidelock/legacy.h>

#include "legacy/legacy.h"

#define LEGACY_TTL_MIN_MS 60000
#define EXAMPLE_MS INT64_C(1767225600250) /* 2026-01-01 00:00:00.25 */

/* ---- options ---------------------------------------------------------------------------------- */

#define AT(member) offsetof(legacy_options, member)
static const opt table[] = {
    OPT_RARE_FOLLOW,
    {0, "", OPT_HEADING, 0, NULL, "For locks that are shared with legacy clients:", 0, 0},
    {0, "protocol", OPT_CHOICE, AT(protocol), "token|bridge|timestamp|auto",
     "how the lock is stored (token, which no legacy client reads)", 0, 0},
    {0, "namespace", OPT_TEXT, AT(namespaces), "NAME",
     "auto: the namespace whose phase decides, see: tidelock help migrate (default)", 0, 0},
    {0, "dialect", OPT_TEXT, AT(dialect), "NAME",
     "how legacy clients write stamps, see: tidelock help dialects (java)", 0, 0},
    {0, "legacy-ttl-min", OPT_DURATION, AT(legacy_ttl_min_ms), "D",
     "the shortest lifetime that legacy clients use (60s), and --ttl unless it is given", 0, 0},
    {0, "clock-skew-max", OPT_DURATION, AT(clock_skew_max_ms), "D",
     "how far legacy clients' clocks may be off the server's (1s)", 0, 0},
    {0, "legacy-delay-max", OPT_DURATION, AT(legacy_delay_max_ms), "D",
     "how long a legacy client may take for one step (half of --clock-skew-max)", 0, 0},
    {0, "clock-guard", OPT_CHOICE, AT(clock_guard), "warn|refuse|off",
     "what to do when a clock is further off than --clock-skew-max (warn)", 0, 0},
    {0, "strict", OPT_FLAG, AT(strict), NULL, "timestamp: use only SETNX, GET, GETSET and DEL", 0,
     0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};

static const legacy_options to_lock = {LEGACY_DEFAULTS},
                            to_list = {LEGACY_DEFAULTS,
                                       .never_strict = "its commands can't list locks",
                                       .only_looks = true},
                            to_break = {LEGACY_DEFAULTS,
                                        .never_strict = "its commands can't compare what was seen"};

const opt_part legacy_lock_part = {table, &to_lock, sizeof to_lock},
               legacy_inspect_part = {table, &to_list, sizeof to_list},
               legacy_break_part = {table, &to_break, sizeof to_break};

static int check_given(const char *who, const char *name, int64_t ms) {
    if (ms == 0)
        return fail(STATUS_USAGE, "%s: --%s: at least 1ms", who, name);
    return 0;
}

static int64_t given(int64_t ms) {
    return ms == LEGACY_NOT_GIVEN ? 0 : ms;
}

static int apply(const char *who, const void *values, tl_client_options *client) {
    static tl_legacy_options made; /* the library copies it */
    const legacy_options *options = values;
    int protocol = options->protocol;
    bool stamps = options->dialect || options->legacy_ttl_min_ms != LEGACY_NOT_GIVEN ||
                  options->clock_skew_max_ms != LEGACY_NOT_GIVEN ||
                  options->legacy_delay_max_ms != LEGACY_NOT_GIVEN;

    if (options->strict && options->never_strict)
        return fail(STATUS_USAGE, "%s: --strict: %s: leave it out", who, options->never_strict);
    int status = check_given(who, "legacy-ttl-min", options->legacy_ttl_min_ms);
    status = status ? status : check_given(who, "clock-skew-max", options->clock_skew_max_ms);
    status = status ? status : check_given(who, "legacy-delay-max", options->legacy_delay_max_ms);
    if (status)
        return status;
    if (options->only_looks && stamps && protocol == TL_TOKEN)
        protocol = TL_BRIDGE; /* --dialect is not a guess: read as a legacy client would */
    if (options->strict && protocol != TL_TIMESTAMP)
        return fail(STATUS_USAGE, "%s: --strict: only with --protocol timestamp", who);
    if ((stamps || options->clock_guard != TL_GUARD_WARN) && protocol == TL_TOKEN)
        return fail(STATUS_USAGE,
                    "%s: options about legacy clients need --protocol bridge, timestamp or auto",
                    who);
    if (options->dialect && !*options->dialect)
        return fail(STATUS_USAGE, "%s: --dialect: the name is empty; see: tidelock help dialects",
                    who);
    if (options->namespaces && protocol != TL_AUTO)
        return fail(STATUS_USAGE, "%s: --namespace: only with --protocol auto", who);
    client->protocol = (tl_protocol_id)protocol;
    if (protocol == TL_TOKEN)
        return 0;
    made = TL_LEGACY_OPTIONS(.clock_skew_max_ms = given(options->clock_skew_max_ms),
                             .legacy_delay_max_ms = given(options->legacy_delay_max_ms),
                             .legacy_ttl_min_ms = given(options->legacy_ttl_min_ms),
                             .dialect = options->dialect, .namespaces = options->namespaces,
                             .clock_guard = (tl_clock_guard)options->clock_guard,
                             .strict = options->strict);
    client->legacy = &made;
    return 0;
}

static int64_t ttl_ms(const void *values) {
    const legacy_options *options = values;

    if (options->protocol == TL_TOKEN)
        return SERVER_TTL_MS;
    return options->legacy_ttl_min_ms > 0 ? options->legacy_ttl_min_ms : LEGACY_TTL_MIN_MS;
}

static int protocol_of(const void *options) {
    return ((const legacy_options *)options)->protocol;
}

/* ---- how their locks are shown ------------------------------------------------------------------ */

static const char *name_of(int id) {
    switch (id) {
    case TL_BRIDGE: return "bridge";
    case TL_TIMESTAMP: return "timestamp";
    case TL_AUTO: return "auto";
    default: return NULL;
    }
}

static bool show_who(char *buf, size_t size, const tl_lock_info *info) {
    if (info->protocol != TL_TIMESTAMP)
        return false;
    (void)snprintf(buf, size,
                   info->value_only
                       ? "a client known only by its stamp (%s%s): a legacy client, or tidelock"
                       : "a legacy client (%s%s)",
                   info->dialect, info->guessed ? "?" : "");
    return true;
}

/* Shows when the stamp ends for legacy clients. In a guessed dialect tidelock acquires no such
 * lock. */
static bool show_end(char *buf, size_t size, const tl_lock_info *info) {
    bool stamp = info->protocol == TL_BRIDGE || info->protocol == TL_TIMESTAMP;
    char left[DURATION_SHOWN];
    int64_t ms = info->stamp_left_ms;

    if (!stamp || (info->remaining_ms >= 0 && info->by_tidelock))
        return false;
    if (info->remaining_ms >= 0)
        (void)snprintf(buf, size, "free in %s", show_ms(left, info->remaining_ms));
    else if (ms == INT64_MIN)
        return false;
    else if (ms >= 0)
        (void)snprintf(buf, size, "its stamp expires in %s", show_ms(left, ms));
    else
        (void)snprintf(buf, size, "its stamp expired %s ago", show_ms(left, -ms));
    return true;
}

/* A client with tokens never takes a stamp over, so a stamp that stays blocks all of them for
 * ever. */
static const char *advise(const tl_lock_info *info) {
    bool stamp = info->protocol == TL_BRIDGE || info->protocol == TL_TIMESTAMP;

    if (!info->held || !stamp)
        return NULL;
    if (info->stamp_left_ms >= 0)
        return "clients with tokens never take over a stamp, not even an expired one: they wait "
               "until its holder releases it";
    return "clients with tokens never take over a stamp, so none of them acquires this lock; if no "
           "client with stamps is left (Java, the bridge, the drop-in), remove it: tidelock break";
}

const legacy_locks_hooks legacy_locks = {
    .apply = apply,
    .ttl_ms = ttl_ms,
    .protocol = protocol_of,
    .protocol_name = name_of,
    .who = show_who,
    .end = show_end,
    .advice = advise,
    .full =
        ", and no lock shared with legacy clients (bridge, timestamp) can be renewed: it is lost "
        "when its lifetime ends; tokens are renewed"};

/* ---- dialects ------------------------------------------------------------------------------------- */

static int list_dialects(void) {
    tl_dialect_info dialect = {.size = sizeof dialect};

    if (!tl_dialect_at(0, EXAMPLE_MS, &dialect))
        return fail(STATUS_USAGE, "help: this tidelock was built without dialects");
    printf("How legacy clients write the end of a lock's lifetime, for --dialect. The values\n"
           "are those of a lock that ends on 2026-01-01 at 00:00:00.25 UTC.\n\n"
           "  %-15s %-11s %s\n      %s\n\n",
           "NAME", "UNIT", "VALUE", "seen in");
    for (unsigned i = 0; tl_dialect_at(i, EXAMPLE_MS, &dialect); i++)
        printf("  %-15s %-11s %s\n      %s\n", dialect.name, dialect.unit, dialect.example,
               dialect.seen_in);
    printf("\nThe first is the default. For some keys another:\n"
           "  --dialect 'cron:*=redis-doc,java'\n");
    return 0;
}

static bool dialect_values(const char *name, FILE *out) {
    tl_dialect_info dialect = {.size = sizeof dialect};

    if (strcmp(name, "dialect") != 0)
        return false;
    for (unsigned i = 0; tl_dialect_at(i, EXAMPLE_MS, &dialect); i++)
        (void)fprintf(out, "%s%s", i > 0 ? " " : "", dialect.name);
    return true;
}

const help_topic legacy_dialects = {.name = "dialects",
                                    .about = "how legacy clients write locks",
                                    .print = list_dialects,
                                    .values = dialect_values};
