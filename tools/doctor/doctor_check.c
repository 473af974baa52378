/*
 * The doctor's judgement of what the server permits and can do: version, commands, permissions, scripts,
 * clocks, the fencing counter, connections. Pure.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

#define CLOCK_WARN_US 100000
#define CLOCK_DANGER_US 1000000 /* the margin that clients leave by default */
#define STEP_LATELY_US (INT64_C(86400) * 1000000)
#define CLIENTS_FEW 64

/* ---- findings -------------------------------------------------------------------------------- */

const char *doctor_level_name(doctor_level level) {
    static const char *const names[] = {"note", "unseen", "warning", "danger"};
    return names[level];
}

void doctor_found(doctor_report *report, const char *id, doctor_level level, const char *format,
                  ...) {
    va_list args;

    if (report->count < DOCTOR_FINDINGS)
        report->count++;
    doctor_finding *finding = &report->finding[report->count - 1];
    *finding = (doctor_finding){.id = id, .level = level};
    va_start(args, format);
    (void)vsnprintf(finding->what, sizeof finding->what, format, args);
    va_end(args);
}

void doctor_why(doctor_report *report, const char *format, ...) {
    doctor_finding *finding = &report->finding[report->count - 1];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(finding->why, sizeof finding->why, format, args);
    va_end(args);
}

void doctor_fix(doctor_report *report, const char *format, ...) {
    doctor_finding *finding = &report->finding[report->count - 1];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(finding->fix, sizeof finding->fix, format, args);
    va_end(args);
}

void doctor_at(doctor_finding *finding, unsigned node) {
    finding->at[node / 8] |= (uint8_t)(1u << node % 8);
}

bool doctor_is_at(const doctor_finding *finding, unsigned node) {
    return finding->at[node / 8] >> node % 8 & 1;
}

/* ---- version, scripts, commands -------------------------------------------------------------- */

/* Advice for a server without scripts. */
static const char *instead(const doctor_facts *facts) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    return legacy ? legacy->instead(facts) : "";
}

static void found_version(const doctor_facts *facts, doctor_report *report, doctor_level level) {
    doctor_found(report, "version", level, "the server is %s", facts->product);
}

static void check_version(const doctor_facts *facts, doctor_report *report) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);

    if (legacy && legacy->check_age(facts, report))
        return;
    if (doctor_before(facts, 2, 6, 0)) {
        found_version(facts, report, DOCTOR_DANGER);
        doctor_why(report, "it has no scripts, which this protocol needs: no lock can be acquired");
        doctor_fix(report, "upgrade to 6.0 or newer%s", instead(facts));
    } else if (doctor_before(facts, 3, 2, 0)) {
        found_version(facts, report, DOCTOR_NOTE);
        doctor_why(
            report,
            "its scripts can't read the clock before they write: a delayed request may leave a "
            "lock behind, for its lifetime");
        doctor_fix(report, "upgrade to 6.0 or newer");
    } else if (doctor_before(facts, 6, 0, 0)) {
        found_version(facts, report, DOCTOR_NOTE);
        doctor_why(
            report,
            "from 6.0 on the server notifies the holder at once when another client changes the "
            "key");
        doctor_fix(report, "upgrade to 6.0 or newer");
    }
}

static bool says(const char *message, const char *what) {
    return strstr(message, what) != NULL;
}

#define NO_LOCK "locks are scripts: without, none can be acquired"

void doctor_fix_scripts(const doctor_facts *facts, doctor_report *report) {
    const char *else_use = facts->protocol == TL_TIMESTAMP ? "" : instead(facts);

    if (doctor_before(facts, 2, 6, 0))
        doctor_fix(report, "upgrade to 6.0 or newer%s", else_use);
    else if (facts->engineless)
        doctor_fix(report,
                   "in valkey.conf: loadmodule PATH/libvalkeylua.so, and restart (a build with "
                   "BUILD_LUA=no does not have it)%s",
                   else_use);
    else if (says(facts->script_why, "Lua scripting support disabled")) /* Garnet */
        doctor_fix(report, "start the server with --lua and --lua-transaction-mode%s", else_use);
    else
        doctor_fix(report, "remove \"rename-command EVAL ...\" from redis.conf, and restart%s",
                   else_use);
}

/* Valkey 9.1 and later may run without Lua. */
static void found_engineless(const doctor_facts *facts, bool needed, doctor_report *report) {
    doctor_found(report, "scripts", needed ? DOCTOR_DANGER : DOCTOR_NOTE,
                 "the server runs no script: its Lua module is not loaded");
    doctor_why(report, needed ? NO_LOCK : "locks use WATCH: each operation takes two round trips");
    doctor_fix_scripts(facts, report);
}

static void check_scripts(const doctor_facts *facts, doctor_report *report) {
    bool needed = doctor_users(facts) & (DOCTOR_TOKEN | DOCTOR_STAMP);

    if (facts->engineless && (needed || doctor_users(facts) & DOCTOR_WATCH))
        found_engineless(facts, needed, report);
    if (facts->script_ok || facts->engineless || !needed || doctor_before(facts, 2, 6, 0))
        return;
    doctor_found(report, "scripts", DOCTOR_DANGER, "the server runs no script: %s",
                 facts->script_why);
    if (says(facts->script_why, "BUSY")) {
        doctor_why(report,
                   "another script does not end: no lock can be acquired, renewed or released");
        doctor_fix(report, "SCRIPT KILL (as an administrator), and fix the script");
    } else if (says(facts->script_why, "NOPERM") || says(facts->script_why, "permission")) {
        doctor_why(report, NO_LOCK);
        doctor_fix(report, "ACL SETUSER %s +eval +evalsha", doctor_user(facts));
    } else {
        doctor_why(report, NO_LOCK);
        doctor_fix_scripts(facts, report);
    }
}

static bool is_older_than(const doctor_facts *facts, const doctor_command *command) {
    return doctor_before(facts, command->since / 100, command->since % 100, 0);
}

#define ENOUGH 600 /* later commands serve options only, and are reported for these */

/* One finding for all commands that the server is too old for. check_version reports those that locks can't
 * do without. */
static void check_age(const doctor_facts *facts, doctor_report *report) {
    char list[200] = "", name[DOCTOR_COMMAND_SIZE];
    size_t used = 0;

    const doctor_command *command;
    for (int i = 0; (command = doctor_command_at(i)); i++) {
        if (!(command->who & doctor_users(facts)) || command->use == DOCTOR_NEEDED ||
            !is_older_than(facts, command) || command->since > ENOUGH)
            continue;
        int n = snprintf(list + used, sizeof list - used, "%s%s (%d.%d)", used ? ", " : "",
                         doctor_command_name(command, name), command->since / 100,
                         command->since % 100);
        if (n > 0 && used + (size_t)n < sizeof list)
            used += (size_t)n;
    }
    if (!used)
        return;
    doctor_found(report, "commands", DOCTOR_NOTE, "%s is from before %s", facts->product, list);
    doctor_why(report,
               "without SCAN \"tidelock inspect\" can't list locks, without WAIT there is no "
               "wait_replicas; locks themselves need neither");
    doctor_fix(report, "upgrade to 6.0 or newer");
}

/* If the version isn't known, a missing command may be renamed, or newer than the server. */
static void found_missing(const doctor_facts *facts, const doctor_command *command,
                          doctor_report *report) {
    char name[DOCTOR_COMMAND_SIZE];
    doctor_level level = command->use == DOCTOR_NEEDED ? DOCTOR_DANGER : DOCTOR_WARNING;
    int major = command->since / 100, minor = command->since % 100;

    (void)doctor_command_name(command, name);
    if (facts->version > 0 || command->since == 0) {
        doctor_found(report, "commands", level, "the server has no %s: it is renamed or forbidden",
                     name);
        doctor_why(report, "%s", command->without);
        doctor_fix(report, "remove \"rename-command %s ...\" from redis.conf, and restart",
                   command->name);
        return;
    }
    doctor_found(report, "commands", level,
                 "the server has no %s: it is older than Redis %d.%d, or the command is renamed",
                 name, major, minor);
    doctor_why(report, "%s", command->without);
    doctor_fix(
        report,
        "upgrade to %d.%d or newer; or, if redis.conf has \"rename-command %s ...\", remove that, "
        "and restart",
        major, minor, command->name);
}

static void check_present(const doctor_facts *facts, doctor_report *report) {
    const doctor_command *command;
    for (int i = 0; (command = doctor_command_at(i)); i++) {
        if (facts->present[i] != COMMAND_MISSING || !(command->who & doctor_users(facts)) ||
            is_older_than(facts, command))
            continue;
        found_missing(facts, command, report);
    }
    if (facts->present_why[0]) {
        doctor_found(report, "commands", DOCTOR_UNSEEN, "which commands the server has: %s",
                     facts->present_why);
        doctor_why(report, "a renamed command is found only when a lock needs it");
        doctor_fix(report, "run the doctor as a user with +command");
    }
}

static void denied(const doctor_facts *facts, doctor_report *report, int i) {
    const doctor_command *command = doctor_command_at(i);
    char name[DOCTOR_COMMAND_SIZE], rule[DOCTOR_COMMAND_SIZE];
    bool of_key = !says(facts->denied[i], "to run");
    bool in_doubt = of_key && !facts->key; /* other keys may be allowed */

    (void)doctor_command_name(command, name);
    (void)snprintf(rule, sizeof rule, command->sub ? "%s|%s" : "%s", command->name, command->sub);
    doctor_found(report, "permissions",
                 in_doubt                        ? DOCTOR_UNSEEN
                 : command->use == DOCTOR_NEEDED ? DOCTOR_DANGER
                 : command->use == DOCTOR_OPTION ? DOCTOR_NOTE
                                                 : DOCTOR_WARNING,
                 "%s: %s", name, facts->denied[i]);
    if (in_doubt) {
        doctor_why(report,
                   "this user may use some keys only: whether those of locks are among them is "
                   "not known");
        doctor_fix(report, "tidelock doctor KEY, with the key of a lock");
    } else if (of_key && (command->who & (DOCTOR_LEASE | DOCTOR_SLOT))) {
        doctor_why(report, "%s", command->without);
        doctor_fix(report,
                   "give %s the keys of the phase; this command prints them with --acl %s KEY",
                   doctor_user(facts), doctor_user(facts));
    } else if (of_key) {
        doctor_why(report, "%s", command->without);
        doctor_fix(report,
                   "ACL SETUSER %s '~%s' '~tidelock:{%s}*' '~tidelock:fence:*' '&tidelock:{%s}' "
                   "'&tidelock:inbox:*' (patterns may stand for more)",
                   doctor_user(facts), facts->key, facts->key, facts->key);
    } else {
        doctor_why(report, "%s", command->without);
        doctor_fix(report, "ACL SETUSER %s +%s", doctor_user(facts), rule);
    }
}

static void check_allowed(const doctor_facts *facts, doctor_report *report) {
    bool doubted = false;

    for (int i = 0; doctor_command_at(i); i++) {
        bool in_doubt = !facts->key && !says(facts->denied[i], "to run");
        if (facts->allowed[i] != COMMAND_DENIED || (in_doubt && doubted))
            continue;
        denied(facts, report, i);
        doubted = doubted || in_doubt;
    }
    if (!facts->allowed_why[0])
        return;
    doctor_found(report, "permissions", DOCTOR_UNSEEN, "what this user may do: %s",
                 facts->allowed_why);
    doctor_why(report, "a missing permission is found only when a lock needs it");
    doctor_fix(
        report,
        doctor_before(facts, 7, 0, 0)
            ? "check that ACL LOG stays empty; `tidelock doctor --acl KEY` prints all that it needs"
            : "run the doctor as a user with +acl|whoami and +acl|dryrun");
}

/* ---- clocks ---------------------------------------------------------------------------------- */

#define STEADY_CLOCK                                                                               \
    "have chronyd slew rather than step (makestep 1 3 in chrony.conf: at its start only)"

static void check_clock(const doctor_facts *facts, doctor_report *report) {
    int64_t up_s, ago_us = facts->now_us - facts->agents_step_us;

    if (!facts->clock_watched && doctor_before(facts, 2, 6, 0)) {
        /* it has no TIME: check_version says what follows */
    } else if (!facts->clock_watched) {
        doctor_found(report, "clock", DOCTOR_UNSEEN, "the server's clock: %s", facts->clock_why);
        doctor_why(report, "if the clock is set, locks end too early or too late");
        doctor_fix(report,
                   doctor_before(facts, 6, 0, 0)
                       ? "remove \"rename-command TIME ...\" from redis.conf"
                       : "ACL SETUSER %s +time",
                   doctor_user(facts));
    } else if (facts->clock_stepped) {
        doctor_found(report, "clock", DOCTOR_DANGER,
                     "the server's clock was set while it was watched");
        doctor_why(report, "locks end by that clock: set forward, it frees what is still held");
        doctor_fix(report, "on the server: " STEADY_CLOCK);
    } else if (facts->agents_step_us > 0 && ago_us < STEP_LATELY_US) {
        doctor_found(report, "clock", DOCTOR_WARNING,
                     "an agent saw the server's clock being set %lld s ago",
                     (long long)(ago_us / 1000000));
        doctor_why(report, "locks end by that clock: set forward, it frees what is still held");
        doctor_fix(report, "on the server: " STEADY_CLOCK);
    }
    if (doctor_info(facts, "uptime_in_seconds", &up_s) && up_s < 0) {
        doctor_found(report, "uptime", DOCTOR_WARNING,
                     "the server says that it started %lld s from now", (long long)-up_s);
        doctor_why(
            report,
            "its clock was set back since then: locks acquired before that live that much longer");
        doctor_fix(report, "on the server: " STEADY_CLOCK);
    }
}

/* ---- the fencing counter --------------------------------------------------------------------- */

#define AHEAD_US INT64_C(10000000) /* a smaller lead may be the difference of two servers' clocks */
#define FENCE_END (INT64_C(1) << 53)

static void put_span(char to[32], int64_t us) {
    int64_t s = us / 1000000;
    if (s < 7200)
        (void)snprintf(to, 32, "%lld s", (long long)s);
    else if (s < 172800)
        (void)snprintf(to, 32, "%lld h", (long long)(s / 3600));
    else
        (void)snprintf(to, 32, "%lld days", (long long)(s / 86400));
}

static void check_counter(const doctor_facts *facts, doctor_report *report) {
    int64_t ahead_us = facts->counted - facts->now_us;
    char span[32];

    if (!facts->counter[0])
        return;
    if (facts->counted < 0 || facts->counted >= FENCE_END - 1) {
        doctor_found(report, "fence", DOCTOR_DANGER, "the fencing counter %s %s", facts->counter,
                     facts->counted < 0 ? "holds no number" : "is at 2^53: it has no next number");
        doctor_why(report, "no lock of the key's slot can be acquired");
        doctor_fix(
            report,
            "set it to the largest fencing number that the resources protected by locks of this "
            "slot remember; if they remember none, DEL it");
    } else if (facts->clock_watched && ahead_us > AHEAD_US) {
        put_span(span, ahead_us);
        doctor_found(report, "fence", DOCTOR_WARNING,
                     "the fencing counter %s is %s ahead of the server's clock", facts->counter,
                     span);
        doctor_why(report,
                   "the clock was ahead once. Fencing numbers go on rising, but until the clock "
                   "has caught up a failover that loses writes may repeat some");
        doctor_fix(report, "nothing, it passes; don't delete the counter, or numbers go back");
    }
}

static void check_other_clock(const skew_host *host, doctor_report *report) {
    int64_t off = host->offset.lo > 0   ? host->offset.lo
                  : host->offset.hi < 0 ? -host->offset.hi
                                        : 0;

    if (!host->known) {
        doctor_found(report, "replica-clock", DOCTOR_UNSEEN, "the clock of %s: %s", host->name,
                     host->detail);
        doctor_why(report, "after a failover that clock ends the locks");
        doctor_fix(report, "let this host reach %s, with the same login", host->name);
    } else if (off > CLOCK_WARN_US) {
        doctor_found(report, "replica-clock",
                     off > CLOCK_DANGER_US ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "the clock of %s is %lld ms %s at least", host->name, (long long)(off / 1000),
                     host->offset.lo > 0 ? "ahead" : "behind");
        doctor_why(report, "after a failover that clock ends the locks: %s",
                   host->offset.lo > 0 ? "all held locks, too early"
                                       : "all locks, later than promised");
        doctor_fix(report, "synchronize both with one time service: chronyc tracking, on either");
    }
}

static void check_other_clocks(const doctor_facts *facts, doctor_report *report) {
    for (int i = 0; i < facts->servers; i++)
        check_other_clock(&facts->server[i], report);
    if (facts->more_servers) {
        doctor_found(report, "replica-clock", DOCTOR_UNSEEN,
                     "the clocks of other servers: there are more than %d", facts->servers);
        doctor_why(report, "after a failover another clock ends the locks");
        doctor_fix(report, "tidelock skew, which compares more clocks");
    }
    if (!facts->servers_why[0])
        return;
    doctor_found(report, "replica-clock", DOCTOR_UNSEEN, "the clocks of other servers: %s",
                 facts->servers_why);
    doctor_why(report, "after a failover another clock ends the locks");
    doctor_fix(report, "run the doctor as a user that may ask INFO");
}

/* ---- connections ----------------------------------------------------------------------------- */

static void check_timeouts(const doctor_facts *facts, doctor_report *report) {
    int64_t v;

    if (doctor_number(facts, CONFIG_TIMEOUT, &v) && v > 0) {
        doctor_found(report, "timeout", DOCTOR_WARNING,
                     "the server closes connections that are idle for %lld s", (long long)v);
        doctor_why(report,
                   "the next lock pays for a new connection, and may find none when the server is "
                   "full");
        doctor_fix(report, "CONFIG SET timeout 0");
    }
    if (doctor_number(facts, CONFIG_KEEPALIVE, &v) && v == 0) {
        doctor_found(report, "tcp-keepalive", DOCTOR_WARNING,
                     "the server never checks whether a silent client still exists");
        doctor_why(report,
                   "connections of hosts that died stay for ever, and count towards maxclients");
        doctor_fix(report, "CONFIG SET tcp-keepalive 300");
    }
}

static void check_clients(const doctor_facts *facts, doctor_report *report) {
    int64_t most, now;

    if (!doctor_number(facts, CONFIG_MAXCLIENTS, &most) && !doctor_info(facts, "maxclients", &most))
        return;
    if (most == 0) /* before 2.6: only the system's limit */
        return;
    if (doctor_info(facts, "connected_clients", &now) && now * 100 > most * 80) {
        doctor_found(report, "maxclients", now * 100 > most * 95 ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "%lld of %lld connections are in use", (long long)now, (long long)most);
        doctor_why(report, "when none is left, holders can't renew and lose their locks");
        doctor_fix(report, "CONFIG SET maxclients %lld", 2 * (long long)most);
    } else if (most < CLIENTS_FEW) {
        doctor_found(report, "maxclients", DOCTOR_WARNING,
                     "the server accepts %lld connections only", (long long)most);
        doctor_why(report,
                   "each process with locks needs some; when none is left, holders can't renew");
        doctor_fix(report, "CONFIG SET maxclients 10000");
    }
}

static bool is_open_to_all(const char *bind) {
    return !bind[0] || strchr(bind, '*') || strstr(bind, "0.0.0.0") || strstr(bind, "::*") ||
           strcmp(bind, "::") == 0 || strstr(bind, " ::") == bind + strlen(bind) - 3;
}

static void check_protection(const doctor_facts *facts, doctor_report *report) {
    const doctor_setting *setting = facts->config;

    if (!facts->no_password || !setting[CONFIG_PROTECTED].known || !setting[CONFIG_BIND].known ||
        !setting[CONFIG_PORT].known || strcmp(setting[CONFIG_PORT].text, "0") == 0 ||
        strcmp(setting[CONFIG_PROTECTED].text, "no") != 0 ||
        !is_open_to_all(setting[CONFIG_BIND].text))
        return;
    doctor_found(report, "protected", DOCTOR_WARNING,
                 "port %s accepts every client without a password", setting[CONFIG_PORT].text);
    doctor_why(report, "any client that deletes a key, even by mistake, frees a held lock");
    doctor_fix(report, "%s, or CONFIG SET protected-mode yes, or bind to inner addresses",
               doctor_before(facts, 6, 0, 0) ? "requirepass" : "requirepass or ACL users");
}

void doctor_check_able(const doctor_facts *facts, doctor_report *report) {
    check_version(facts, report);
    check_scripts(facts, report);
    check_age(facts, report);
    check_present(facts, report);
    check_allowed(facts, report);
    check_clock(facts, report);
    check_other_clocks(facts, report);
    check_counter(facts, report);
    check_timeouts(facts, report);
    check_clients(facts, report);
    check_protection(facts, report);
}
