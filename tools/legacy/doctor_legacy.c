/*
 * Legacy clients in tidelock doctor: the protocols that share locks with them, what these need of a
 * server, and the permissions that their user needs. Pure.
 */
#include <string.h>

#include "doctor/doctor.h"
#include "ground/glob.h"
#include "legacy/migrate_record.h"

/* ---- options ---------------------------------------------------------------------------------------- */

typedef struct {
    int protocol;
    const char *namespaces;
    bool strict;
} doctor_legacy_options;

#define AT(member) offsetof(doctor_legacy_options, member)
static const opt table[] = {
    OPT_RARE_FOLLOW,
    {0, "", OPT_HEADING, 0, NULL, "For locks that are shared with legacy clients:", 0, 0},
    {0, "protocol", OPT_CHOICE, AT(protocol), "token|bridge|timestamp|auto",
     "how locks are stored (token)", 0, 0},
    {0, "namespace", OPT_TEXT, AT(namespaces), "NAME",
     "auto: the namespace whose phase decides (default)", 0, 0},
    {0, "strict", OPT_FLAG, AT(strict), NULL, "timestamp: use only SETNX, GET, GETSET and DEL", 0,
     0},
    {0, NULL, OPT_FLAG, 0, NULL, NULL, 0, 0},
};
static const doctor_legacy_options defaults = {.protocol = TL_TOKEN};
const opt_part doctor_legacy_part = {table, &defaults, sizeof defaults};

static bool are_names(const char *namespaces) {
    char text[MIGRATE_NAME_MAX + 1];
    tl_bytes pattern, name;

    while (tl__glob_choice(&namespaces, &pattern, &name)) {
        (void)snprintf(text, sizeof text, "%.*s", (int)name.n, name.p);
        if (name.n > MIGRATE_NAME_MAX || !migrate_name_ok(text))
            return false;
    }
    return true;
}

static bool is_named_twice(const char *namespaces) {
    tl_bytes pattern, name, other;

    while (tl__glob_choice(&namespaces, &pattern, &name))
        for (const char *rest = namespaces; tl__glob_choice(&rest, &pattern, &other);)
            if (tl__bytes_eq(name, other))
                return true;
    return false;
}

static int take(const void *values, doctor_facts *facts) {
    const doctor_legacy_options *options = values;
    const char *spaces = options->namespaces ? options->namespaces : "default";
    tl_bytes pattern, name = TL_LITERAL("default");

    if (options->strict && options->protocol != TL_TIMESTAMP)
        return fail(STATUS_USAGE, "doctor: --strict: only with --protocol timestamp");
    if (options->namespaces && (options->protocol != TL_AUTO || !*options->namespaces))
        return fail(STATUS_USAGE, "doctor: --namespace: a name, and only with --protocol auto");
    if (options->namespaces && !are_names(options->namespaces))
        return fail(STATUS_USAGE,
                    "doctor: --namespace: NAME or PATTERN=NAME, with commas between; a name: "
                    "1 to %d letters, digits and any of _ . -",
                    MIGRATE_NAME_MAX);
    if (options->namespaces && is_named_twice(options->namespaces))
        return fail(STATUS_USAGE, "doctor: --namespace: a namespace is named twice");
    facts->protocol = options->protocol;
    facts->strict = options->strict;
    facts->namespaces = options->namespaces;
    (void)tl__glob_choice(&spaces, &pattern, &name);
    int n = (int)(name.n < MIGRATE_NAME_MAX ? name.n : MIGRATE_NAME_MAX);
    (void)snprintf(facts->clients, sizeof facts->clients, "tidelock:phase:{%.*s}:clients", n,
                   name.p);
    (void)snprintf(facts->slot_register, sizeof facts->slot_register,
                   "tidelock:phase:slot:{0}:%.*s", n, name.p);
    return 0;
}

/* ---- commands --------------------------------------------------------------------------------------- */

#define NOTIFIED DOCTOR_NOTIFIED
#define STRICT DOCTOR_STRICT
#define WATCHING DOCTOR_WATCH
#define LEASES DOCTOR_LEASE

#define NO_LOCK "no lock can be acquired"
#define NO_TELLING "changes of a key by legacy clients are noticed late"
#define NO_PHASE "the phase of a namespace can't be read: no lock can be acquired"
#define NO_WATCH "without EVAL nothing is renewed, and fences are 0"

#define AS(...) ((const char *const[]){__VA_ARGS__, NULL})
static const doctor_command commands[] = {
    {"SETNX", NULL, 0, STRICT, DOCTOR_NEEDED, NO_LOCK, AS("K", "v")},
    {"GETSET", NULL, 0, STRICT, DOCTOR_NEEDED, "no expired stamp can be taken over", AS("K", "v")},
    {"WATCH", NULL, 202, WATCHING, DOCTOR_BETTER, NO_WATCH, AS("K", "S")},
    {"EVAL", NULL, 206, DOCTOR_SLOT, DOCTOR_NEEDED, NO_PHASE, AS("return 1", "1", "R")},
    {"HSET", NULL, 200, LEASES, DOCTOR_NEEDED, NO_PHASE, AS("C", "f", "v")},
    {"HGETALL", NULL, 200, LEASES, DOCTOR_NEEDED, NO_PHASE, AS("C")},
    {"HDEL", NULL, 200, LEASES | WATCHING, DOCTOR_BETTER,
     "clients that have ended stay in the list", AS("C", "f")},
    {"CLIENT", "ID", 500, NOTIFIED, DOCTOR_BETTER, NO_TELLING, NULL},
    {"CLIENT", "TRACKING", 600, NOTIFIED, DOCTOR_BETTER, NO_TELLING, AS("on")},
};

static const doctor_command *command_at(int i) {
    return i < (int)(sizeof commands / sizeof commands[0]) ? &commands[i] : NULL;
}

/* In a cluster no client is notified of changes by others, and none has a lease on a phase. */
static unsigned users(const doctor_facts *facts, bool evals) {
    const unsigned stamps = DOCTOR_STAMP | (facts->by_cluster ? 0 : DOCTOR_NOTIFIED);
    const unsigned phases = DOCTOR_AUTO | (facts->by_cluster ? DOCTOR_SLOT : DOCTOR_LEASE);

    switch (facts->protocol) {
    case TL_BRIDGE: return stamps;
    case TL_TIMESTAMP:
        return facts->strict ? DOCTOR_STRICT : evals || facts->by_cluster ? stamps : DOCTOR_WATCH;
    case TL_AUTO: return DOCTOR_TOKEN | stamps | phases;
    default: return DOCTOR_TOKEN | DOCTOR_LINE;
    }
}

/* ---- the server's version --------------------------------------------------------------------------- */

static bool check_age(const doctor_facts *facts, doctor_report *report) {
    bool scripts = !doctor_before(facts, 2, 6, 0), watch = !doctor_before(facts, 2, 2, 0);

    if (facts->protocol != TL_TIMESTAMP || scripts)
        return false;
    doctor_found(report, "version", watch ? DOCTOR_NOTE : DOCTOR_WARNING, "the server is %s",
                 facts->product);
    doctor_why(
        report,
        watch ? "it has no scripts and no TIME: locks use WATCH, and --clock-skew-max bounds this "
                "host's clock, too"
              : "it has no scripts and no WATCH: nothing is renewed, and fences are 0");
    doctor_fix(report, "upgrade to 6.0 or newer");
    return true;
}

/* ---- permissions ------------------------------------------------------------------------------------ */

/* Prints the keys of each namespace: its register, its clients, and the verdict of tidelock
 * skew. In a cluster: the register of each slot. */
static void put_keys(const doctor_facts *facts, unsigned who) {
    const char *namespaces = facts->namespaces ? facts->namespaces : "default";
    tl_bytes pattern, name;

    while ((who & DOCTOR_AUTO) && tl__glob_choice(&namespaces, &pattern, &name))
        if (who & DOCTOR_SLOT)
            printf(" ~tidelock:phase:slot:{*}:%.*s", (int)name.n, name.p);
        else
            printf(" ~tidelock:phase:{%.*s} ~tidelock:phase:{%.*s}:clients ~tidelock:skew:{%.*s}",
                   (int)name.n, name.p, (int)name.n, name.p, (int)name.n, name.p);
}

static void put_channels(const doctor_facts *facts, unsigned who, const char *pattern) {
    if (who & DOCTOR_NOTIFIED)
        printf(" &__redis__:invalidate &__keyspace@%ld__:%s", facts->db, pattern);
}

/* In a cluster all locks are scripts. */
static const char *instead(const doctor_facts *facts) {
    return facts->by_cluster ? "" : ", or use --protocol timestamp, which works there";
}

const doctor_legacy_hooks doctor_legacy = {
    .take = take,
    .command_at = command_at,
    .users = users,
    .check_age = check_age,
    .instead = instead,
    .put_keys = put_keys,
    .put_channels = put_channels,
};
