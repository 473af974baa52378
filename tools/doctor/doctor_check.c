/*
 * The doctor's judgement of what the server may do and is able to: its version, commands, permissions,
 * scripts, connections, clocks. Pure.
 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "doctor/doctor.h"

#define CLOCK_WARN_US 100000
#define CLOCK_DANGER_US 1000000 /* the margin that clients leave unless told otherwise */
#define STEP_LATELY_US (INT64_C(86400) * 1000000)
#define CLIENTS_FEW 64

/* ---- findings -------------------------------------------------------------------------------------------- */

const char *doctor_level_name(doctor_level level) {
    static const char *const names[] = {"note", "unseen", "warning", "danger"};
    return names[level];
}

void doctor_found(doctor_report *r, const char *id, doctor_level level, const char *format, ...) {
    va_list args;

    if (r->count < DOCTOR_FINDINGS)
        r->count++;
    doctor_finding *f = &r->finding[r->count - 1];
    *f = (doctor_finding){.id = id, .level = level};
    va_start(args, format);
    (void)vsnprintf(f->what, sizeof f->what, format, args);
    va_end(args);
}

void doctor_why(doctor_report *r, const char *format, ...) {
    doctor_finding *f = &r->finding[r->count - 1];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(f->why, sizeof f->why, format, args);
    va_end(args);
}

void doctor_fix(doctor_report *r, const char *format, ...) {
    doctor_finding *f = &r->finding[r->count - 1];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(f->fix, sizeof f->fix, format, args);
    va_end(args);
}

void doctor_at(doctor_finding *f, unsigned node) {
    f->at[node / 8] |= (uint8_t)(1u << node % 8);
}

bool doctor_is_at(const doctor_finding *f, unsigned node) {
    return f->at[node / 8] >> node % 8 & 1;
}

/* ---- version, scripts, commands ---------------------------------------------------------------------------- */

/* What else there is for a server without scripts. */
static const char *instead(void) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);
    return legacy ? legacy->instead : "";
}

static void found_version(const doctor_facts *f, doctor_report *r, doctor_level level) {
    doctor_found(r, "version", level, "the server is %s", f->product);
}

static void check_version(const doctor_facts *f, doctor_report *r) {
    const doctor_legacy_hooks *legacy = FROM_LEGACY(doctor_legacy);

    if (legacy && legacy->check_age(f, r))
        return;
    if (doctor_before(f, 2, 6, 0)) {
        found_version(f, r, DOCTOR_DANGER);
        doctor_why(
            r,
            "it knows no scripts, which locks of this protocol are made of: none can be acquired");
        doctor_fix(r, "upgrade to 6.0 or newer%s", instead());
    } else if (doctor_before(f, 3, 2, 0)) {
        found_version(f, r, DOCTOR_NOTE);
        doctor_why(r,
                   "its scripts can't read the clock before they write: a request that was stuck "
                   "on its way may leave a lock behind, for its lifetime");
        doctor_fix(r, "upgrade to 6.0 or newer");
    } else if (doctor_before(f, 6, 0, 0)) {
        found_version(f, r, DOCTOR_NOTE);
        doctor_why(r, "from 6.0 on it tells at once when a key that is held is changed by another");
        doctor_fix(r, "upgrade to 6.0 or newer");
    }
}

static bool says(const char *message, const char *what) {
    return strstr(message, what) != NULL;
}

static void check_scripts(const doctor_facts *f, doctor_report *r) {
    bool needed = doctor_users(f) & (DOCTOR_TOKEN | DOCTOR_STAMP);

    if (f->script_ok || !needed || doctor_before(f, 2, 6, 0))
        return;
    doctor_found(r, "scripts", DOCTOR_DANGER, "the server runs no script: %s", f->script_why);
    if (says(f->script_why, "BUSY")) {
        doctor_why(r, "another script runs and runs: no lock can be acquired, renewed or released");
        doctor_fix(r, "SCRIPT KILL (as an administrator), and mend the script");
    } else if (says(f->script_why, "NOPERM") || says(f->script_why, "permission")) {
        doctor_why(r, "locks are scripts: without, none can be acquired");
        doctor_fix(r, "ACL SETUSER %s +eval +evalsha", f->user[0] ? f->user : "USER");
    } else {
        doctor_why(r, "locks are scripts: without, none can be acquired");
        doctor_fix(r, "take \"rename-command EVAL ...\" out of redis.conf, and restart%s",
                   instead());
    }
}

static bool is_older_than(const doctor_facts *f, const doctor_command *c) {
    return doctor_before(f, c->since / 100, c->since % 100, 0);
}

#define ENOUGH 600 /* what came later is an option's, and said of those who want it */

/* What is missing by the server's age, in one finding; what must be there, check_version says. */
static void check_age(const doctor_facts *f, doctor_report *r) {
    char list[200] = "", name[DOCTOR_COMMAND_SIZE];
    size_t used = 0;

    const doctor_command *c;
    for (int i = 0; (c = doctor_command_at(i)); i++) {
        if (!(c->who & doctor_users(f)) || c->use == DOCTOR_NEEDED || !is_older_than(f, c) ||
            c->since > ENOUGH)
            continue;
        int n = snprintf(list + used, sizeof list - used, "%s%s (%d.%d)", used ? ", " : "",
                         doctor_command_name(c, name), c->since / 100, c->since % 100);
        if (n > 0 && used + (size_t)n < sizeof list)
            used += (size_t)n;
    }
    if (!used)
        return;
    doctor_found(r, "commands", DOCTOR_NOTE, "%s is from before %s", f->product, list);
    doctor_why(r, "without SCAN \"tidelock inspect\" can't list locks, without WAIT there is no "
                  "wait_replicas; locks themselves need none of it");
    doctor_fix(r, "upgrade to 6.0 or newer");
}

/* Where the version isn't known, what is missing may have been renamed, or never have been there. */
static void found_missing(const doctor_facts *f, const doctor_command *c, doctor_report *r) {
    char name[DOCTOR_COMMAND_SIZE];
    doctor_level level = c->use == DOCTOR_NEEDED ? DOCTOR_DANGER : DOCTOR_WARNING;
    int major = c->since / 100, minor = c->since % 100;

    (void)doctor_command_name(c, name);
    if (f->version > 0 || c->since == 0) {
        doctor_found(r, "commands", level, "the server has no %s: it is renamed", name);
        doctor_why(r, "%s", c->without);
        doctor_fix(r, "take \"rename-command %s ...\" out of redis.conf, and restart", c->name);
        return;
    }
    doctor_found(r, "commands", level,
                 "the server has no %s: it is older than Redis %d.%d, or the command is renamed",
                 name, major, minor);
    doctor_why(r, "%s", c->without);
    doctor_fix(
        r,
        "upgrade to %d.%d or newer; or, if redis.conf has \"rename-command %s ...\", take it "
        "out, and restart",
        major, minor, c->name);
}

static void check_present(const doctor_facts *f, doctor_report *r) {
    const doctor_command *c;
    for (int i = 0; (c = doctor_command_at(i)); i++) {
        if (f->present[i] != COMMAND_MISSING || !(c->who & doctor_users(f)) || is_older_than(f, c))
            continue;
        found_missing(f, c, r);
    }
    if (f->present_why[0]) {
        doctor_found(r, "commands", DOCTOR_UNSEEN, "which commands the server has: %s",
                     f->present_why);
        doctor_why(r, "a command that is renamed is found when a lock needs it");
        doctor_fix(r, "run the doctor as a user with +command");
    }
}

static void denied(const doctor_facts *f, doctor_report *r, int i) {
    const doctor_command *c = doctor_command_at(i);
    char name[DOCTOR_COMMAND_SIZE], rule[DOCTOR_COMMAND_SIZE];
    bool of_key = !says(f->denied[i], "to run");
    bool in_doubt = of_key && !f->key; /* other keys may be allowed */

    (void)doctor_command_name(c, name);
    (void)snprintf(rule, sizeof rule, c->sub ? "%s|%s" : "%s", c->name, c->sub);
    doctor_found(r, "permissions",
                 in_doubt                  ? DOCTOR_UNSEEN
                 : c->use == DOCTOR_NEEDED ? DOCTOR_DANGER
                 : c->use == DOCTOR_OPTION ? DOCTOR_NOTE
                                           : DOCTOR_WARNING,
                 "%s: %s", name, f->denied[i]);
    if (in_doubt) {
        doctor_why(r, "this user may use some keys only: whether those of locks are among them is "
                      "not known");
        doctor_fix(r, "tidelock doctor KEY, with the key of a lock");
    } else if (of_key) {
        doctor_why(r, "%s", c->without);
        doctor_fix(r,
                   "ACL SETUSER %s '~%s' '~tidelock:{%s}*' '~tidelock:fence:*' '&tidelock:{%s}' "
                   "'&tidelock:inbox:*' (patterns may stand for more)",
                   f->user, f->key, f->key, f->key);
    } else {
        doctor_why(r, "%s", c->without);
        doctor_fix(r, "ACL SETUSER %s +%s", f->user, rule);
    }
}

static void check_allowed(const doctor_facts *f, doctor_report *r) {
    bool doubted = false;

    for (int i = 0; doctor_command_at(i); i++) {
        bool in_doubt = !f->key && !says(f->denied[i], "to run");
        if (f->allowed[i] != COMMAND_DENIED || (in_doubt && doubted))
            continue;
        denied(f, r, i);
        doubted = doubted || in_doubt;
    }
    if (!f->allowed_why[0])
        return;
    doctor_found(r, "permissions", DOCTOR_UNSEEN, "what this user may do: %s", f->allowed_why);
    doctor_why(r, "a permission that is lacking is found when a lock needs it");
    doctor_fix(r,
               doctor_before(f, 7, 0, 0)
                   ? "see that ACL LOG stays empty; `tidelock doctor --acl KEY` prints all it needs"
                   : "run the doctor as a user with +acl|whoami and +acl|dryrun");
}

/* ---- clocks ------------------------------------------------------------------------------------------------- */

#define STEADY_CLOCK                                                                               \
    "have chronyd slew rather than step (makestep 1 3 in chrony.conf: at its start only)"

static void check_clock(const doctor_facts *f, doctor_report *r) {
    int64_t up_s, ago_us = f->now_us - f->agents_step_us;

    if (!f->clock_watched && doctor_before(f, 2, 6, 0)) {
        /* it doesn't tell: check_version says what comes of it */
    } else if (!f->clock_watched) {
        doctor_found(r, "clock", DOCTOR_UNSEEN, "the server's clock: %s", f->clock_why);
        doctor_why(r, "a clock that is set ends locks before their time, or too late");
        doctor_fix(r,
                   doctor_before(f, 6, 0, 0) ? "take \"rename-command TIME ...\" out of redis.conf"
                                             : "ACL SETUSER %s +time",
                   f->user[0] ? f->user : "USER");
    } else if (f->clock_stepped) {
        doctor_found(r, "clock", DOCTOR_DANGER, "the server's clock was set while it was watched");
        doctor_why(r, "locks end by that clock: set forward, it frees what is still held");
        doctor_fix(r, "on the server: " STEADY_CLOCK);
    } else if (f->agents_step_us > 0 && ago_us < STEP_LATELY_US) {
        doctor_found(r, "clock", DOCTOR_WARNING,
                     "an agent saw the server's clock being set %lld s ago",
                     (long long)(ago_us / 1000000));
        doctor_why(r, "locks end by that clock: set forward, it frees what is still held");
        doctor_fix(r, "on the server: " STEADY_CLOCK);
    }
    if (doctor_info(f, "uptime_in_seconds", &up_s) && up_s < 0) {
        doctor_found(r, "uptime", DOCTOR_WARNING, "the server says that it started %lld s from now",
                     (long long)-up_s);
        doctor_why(r, "its clock was set back since: locks of then live that much longer");
        doctor_fix(r, "on the server: " STEADY_CLOCK);
    }
}

/* ---- the fencing counter ------------------------------------------------------------------------------------ */

#define AHEAD_US INT64_C(10000000) /* less may be the difference of two servers' clocks */
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

static void check_counter(const doctor_facts *f, doctor_report *r) {
    int64_t ahead_us = f->counted - f->now_us;
    char span[32];

    if (!f->counter[0])
        return;
    if (f->counted < 0 || f->counted >= FENCE_END - 1) {
        doctor_found(r, "fence", DOCTOR_DANGER, "the fencing counter %s %s", f->counter,
                     f->counted < 0 ? "holds no number" : "is at 2^53: it has no next number");
        doctor_why(r, "no lock of the key's slot can be acquired");
        doctor_fix(r,
                   "set it to the largest fencing number that was given for locks of this slot, as "
                   "what they protect remembers it; if none does, DEL it");
    } else if (f->clock_watched && ahead_us > AHEAD_US) {
        put_span(span, ahead_us);
        doctor_found(r, "fence", DOCTOR_WARNING,
                     "the fencing counter %s is %s ahead of the server's clock", f->counter, span);
        doctor_why(r, "the clock was ahead once. Fencing numbers go on rising, but until the clock "
                      "has caught up a failover that loses writes may repeat some");
        doctor_fix(r, "nothing, it passes; don't delete the counter: numbers would go back");
    }
}

static void check_other_clock(const skew_host *h, doctor_report *r) {
    int64_t off = h->offset.lo > 0 ? h->offset.lo : h->offset.hi < 0 ? -h->offset.hi : 0;

    if (!h->known) {
        doctor_found(r, "replica-clock", DOCTOR_UNSEEN, "the clock of %s: %s", h->name, h->detail);
        doctor_why(r, "after a failover that clock ends the locks");
        doctor_fix(r, "let this host reach %s, with the same login", h->name);
    } else if (off > CLOCK_WARN_US) {
        doctor_found(r, "replica-clock", off > CLOCK_DANGER_US ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "the clock of %s is %lld ms %s at least", h->name, (long long)(off / 1000),
                     h->offset.lo > 0 ? "ahead" : "behind");
        doctor_why(r, "after a failover that clock ends the locks: %s",
                   h->offset.lo > 0 ? "all that are held, too early" : "all, later than was said");
        doctor_fix(r, "let one time service steer both: chronyc tracking, on either");
    }
}

static void check_other_clocks(const doctor_facts *f, doctor_report *r) {
    for (int i = 0; i < f->servers; i++)
        check_other_clock(&f->server[i], r);
    if (!f->servers_why[0])
        return;
    doctor_found(r, "replica-clock", DOCTOR_UNSEEN, "the clocks of other servers: %s",
                 f->servers_why);
    doctor_why(r, "after a failover another clock ends the locks");
    doctor_fix(r, "run the doctor as a user that may ask INFO");
}

/* ---- connections ---------------------------------------------------------------------------------------------- */

static void check_timeouts(const doctor_facts *f, doctor_report *r) {
    int64_t v;

    if (doctor_number(f, CONFIG_TIMEOUT, &v) && v > 0) {
        doctor_found(r, "timeout", DOCTOR_WARNING,
                     "the server closes connections that are idle for %lld s", (long long)v);
        doctor_why(r,
                   "the next lock pays for a new connection, and may find none when the server is "
                   "full");
        doctor_fix(r, "CONFIG SET timeout 0");
    }
    if (doctor_number(f, CONFIG_KEEPALIVE, &v) && v == 0) {
        doctor_found(r, "tcp-keepalive", DOCTOR_WARNING,
                     "the server never asks whether a silent client is still there");
        doctor_why(r, "connections of hosts that died stay for ever, and count towards maxclients");
        doctor_fix(r, "CONFIG SET tcp-keepalive 300");
    }
}

static void check_clients(const doctor_facts *f, doctor_report *r) {
    int64_t most, now;

    if (!doctor_number(f, CONFIG_MAXCLIENTS, &most) && !doctor_info(f, "maxclients", &most))
        return;
    if (most == 0) /* before 2.6: no limit but the system's */
        return;
    if (doctor_info(f, "connected_clients", &now) && now * 100 > most * 80) {
        doctor_found(r, "maxclients", now * 100 > most * 95 ? DOCTOR_DANGER : DOCTOR_WARNING,
                     "%lld of %lld connections are in use", (long long)now, (long long)most);
        doctor_why(r, "when there is none left, holders can't renew and lose their locks");
        doctor_fix(r, "CONFIG SET maxclients %lld", 2 * (long long)most);
    } else if (most < CLIENTS_FEW) {
        doctor_found(r, "maxclients", DOCTOR_WARNING, "the server accepts %lld connections only",
                     (long long)most);
        doctor_why(
            r, "each process with locks has some; when there is none left, holders can't renew");
        doctor_fix(r, "CONFIG SET maxclients 10000");
    }
}

static bool is_open_to_all(const char *bind) {
    return !bind[0] || strchr(bind, '*') || strstr(bind, "0.0.0.0") || strstr(bind, "::*") ||
           strcmp(bind, "::") == 0 || strstr(bind, " ::") == bind + strlen(bind) - 3;
}

static void check_protection(const doctor_facts *f, doctor_report *r) {
    const doctor_setting *c = f->config;

    if (!f->no_password || !c[CONFIG_PROTECTED].known || !c[CONFIG_BIND].known ||
        !c[CONFIG_PORT].known || strcmp(c[CONFIG_PORT].text, "0") == 0 ||
        strcmp(c[CONFIG_PROTECTED].text, "no") != 0 || !is_open_to_all(c[CONFIG_BIND].text))
        return;
    doctor_found(r, "protected", DOCTOR_WARNING,
                 "everybody who reaches port %s is let in, without a password",
                 c[CONFIG_PORT].text);
    doctor_why(r, "whoever deletes a key, by mistake even, frees a lock that is held");
    doctor_fix(r, "%s, or CONFIG SET protected-mode yes, or bind to inner addresses",
               doctor_before(f, 6, 0, 0) ? "requirepass" : "requirepass or ACL users");
}

void doctor_check_able(const doctor_facts *f, doctor_report *r) {
    check_version(f, r);
    check_scripts(f, r);
    check_age(f, r);
    check_present(f, r);
    check_allowed(f, r);
    check_clock(f, r);
    check_other_clocks(f, r);
    check_counter(f, r);
    check_timeouts(f, r);
    check_clients(f, r);
    check_protection(f, r);
}
