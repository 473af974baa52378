/*
 * The permissions that a user needs for locks, as a line for redis-cli. They are those of the table of
 * commands, for the protocol in use, and no others.
 */
#include <ctype.h>
#include <string.h>

#include "doctor/doctor.h"

/* Does the pattern have a character of `of`: wildcards, or the braces around what decides the slot? */
static bool has_any(const char *pattern, const char *of) {
    return pattern[strcspn(pattern, of)] != '\0';
}

static void put_names(const char *sign, const char *pattern) {
    bool tagged = has_any(pattern, "{}"), many = has_any(pattern, "*?[");

    if (!tagged || many)
        printf(" %stidelock:{%s}", sign, pattern);
    /* the sidecar of a name with a tag; a pattern with '*' at the end includes it already */
    if (tagged || (many && pattern[strlen(pattern) - 1] != '*'))
        printf(" %s%s:tidelock", sign, pattern);
}

/* The queue beside the sidecar, and the fencing counters of all slots, for the keys of a pattern. */
static void put_shared(const char *pattern) {
    bool tagged = has_any(pattern, "{}"), many = has_any(pattern, "*?[");

    if (!tagged || many)
        printf(" ~tidelock:{%s}:line", pattern);
    if (tagged || (many && pattern[strlen(pattern) - 1] != '*'))
        printf(" ~%s:tidelock:line", pattern);
    printf(" ~tidelock:fence:*");
}

static bool is_for(const doctor_facts *facts, const doctor_command *command, doctor_use to) {
    return (command->who & doctor_users(facts)) && command->use <= to &&
           !doctor_before(facts, command->since / 100, command->since % 100, 0);
}

static bool is_same(const doctor_command *a, const doctor_command *b) {
    return strcmp(a->name, b->name) == 0 && strcmp(a->sub ? a->sub : "", b->sub ? b->sub : "") == 0;
}

/* Does a row before this one permit the same command? */
static bool is_repeated(const doctor_facts *facts, int row, doctor_use to) {
    for (int i = 0; i < row; i++)
        if (is_for(facts, doctor_command_at(i), to) &&
            is_same(doctor_command_at(i), doctor_command_at(row)))
            return true;
    return false;
}

static void put_commands(const doctor_facts *facts, doctor_use from, doctor_use to) {
    const doctor_command *command;

    for (int i = 0; (command = doctor_command_at(i)); i++) {
        if (!is_for(facts, command, to) || command->use < from || is_repeated(facts, i, to))
            continue;
        printf(" +");
        for (const char *p = command->name; *p; p++)
            putchar(tolower((unsigned char)*p));
        for (const char *p = command->sub; p && *p; p++) {
            if (p == command->sub)
                putchar('|');
            putchar(tolower((unsigned char)*p));
        }
    }
}

static void put_rule(const doctor_facts *facts, const char *user, const char *pattern) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    unsigned who = doctor_users(facts) & ~(unsigned)(DOCTOR_SENTINEL | DOCTOR_CLUSTER);
    bool channels = !doctor_before(facts, 6, 2, 0); /* older: no permissions for them */

    printf("ACL SETUSER %s reset on >PASSWORD ~%s", user, pattern);
    if (who & ~DOCTOR_STRICT)
        put_names("~", pattern);
    if (who & ~DOCTOR_STRICT)
        put_shared(pattern);
    if (legacy)
        legacy->put_keys(facts, who);
    if (channels)
        printf(" resetchannels");
    if (channels && (who & ~DOCTOR_STRICT))
        put_names("&", pattern);
    if (channels && (who & ~DOCTOR_STRICT))
        printf(" &tidelock:inbox:*");
    if (channels && legacy)
        legacy->put_channels(facts, who, pattern);
    put_commands(facts, DOCTOR_NEEDED, DOCTOR_BETTER);
    printf("%s\n", facts->db ? " +select" : "");
}

static bool is_word(const char *text) {
    for (const char *p = text; *p; p++)
        if (!isgraph((unsigned char)*p) || strchr("\"'", *p))
            return false;
    return *text != '\0';
}

const char *doctor_user(const doctor_facts *facts) {
    return is_word(facts->user) && !has_any(facts->user, "\\") ? facts->user : "USER";
}

int doctor_acl_check(const char *user, const char *pattern) {
    if (is_word(user) && pattern && is_word(pattern))
        return 0;
    return fail(
        STATUS_USAGE,
        "doctor: --acl needs a user and a pattern of keys, without spaces and quotation marks: "
        "tidelock doctor --acl locker 'jobs:*'");
}

int doctor_acl(const doctor_facts *facts, const char *user, const char *pattern) {
    if (doctor_before(facts, 6, 0, 0))
        return fail(
            STATUS_REFUSED,
            "doctor: --acl: the server has no users; they need Redis 6.0 or newer, and this one is "
            "%s",
            facts->product);
    printf("# What %s needs to lock keys like %s by protocol %s, on %s. Give it to redis-cli:\n",
           user, pattern, protocol_name(facts->protocol),
           facts->product[0] ? facts->product : "this server");
    put_rule(facts, user, pattern);
    printf("# With options of the library (quiet_ms, wait_replicas, wait_fsync): ~tidelock:reign*");
    put_commands(facts, DOCTOR_OPTION, DOCTOR_OPTION);
    if (facts->by_sentinels)
        printf("\n# And what the Sentinels' login needs, on each Sentinel that has users (6.2):\n"
               "ACL SETUSER %s reset on >PASSWORD resetchannels &+switch-master +sentinel|master "
               "+sentinel|get-master-addr-by-name +sentinel|sentinels +subscribe +unsubscribe "
               "+ping +info",
               user);
    if (facts->by_cluster)
        printf("\n# On each node of the cluster, replicas too: users are not replicated.");
    printf(
        "\n# To keep it over a restart: ACL SAVE, or CONFIG REWRITE where no aclfile is set.\n# To "
        "see whether a permission is still missing: ACL LOG\n");
    return 0;
}
