/*
 * The reason of a verdict, and what to do. Every reason names missing hosts, and says so if the
 * slack rests on an assumption.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/judge/skew_alarm.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_reason.h"

#define OLD_MS 30000 /* ms; old evidence: agents publish every ten seconds by default */
#define NAMED_MOST 3 /* most missing hosts that are named */

/* Adds each advice only once. */
static void advise(skew_result *result, const char *what) {
    for (int i = 0; i < result->advices; i++)
        if (GUARD(advice_once) && strcmp(result->advice[i], what) == 0)
            return;
    if (result->advices < (int)(sizeof result->advice / sizeof *result->advice))
        (void)snprintf(result->advice[result->advices++], sizeof result->advice[0], "%s", what);
}

static void append(skew_result *result, const char *text) {
    size_t n = strlen(result->reason);
    (void)snprintf(result->reason + n, sizeof result->reason - n, "%s", text);
}

/* ---- hosts that are missing ------------------------------------------------------------------- */

static int count_missing(const skew_result *result) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++)
        n += result->hosts[i].missing;
    return n;
}

/* "db1, db2, db3 and 4 more" */
static const char *name_missing(const skew_result *result, char *text, size_t size) {
    int named = 0, all = count_missing(result);
    size_t n = 0;

    text[0] = '\0';
    for (int i = 0; i < result->host_count && named < NAMED_MOST; i++)
        if (result->hosts[i].missing)
            n += (size_t)snprintf(text + n, size - n, "%s%s", named++ ? ", " : "",
                                  result->hosts[i].name);
    if (all > named)
        (void)snprintf(text + n, size - n, " and %d more", all - named);
    return text;
}

/* Adds the missing hosts to another reason. */
static void add_missing(skew_result *result) {
    char names[SKEW_REASON_SIZE / 2];

    if (count_missing(result) == 0)
        return;
    append(result, "; missing: ");
    append(result, name_missing(result, names, sizeof names));
}

static void advise_missing(skew_result *result) {
    char text[SKEW_REASON_SIZE], names[SKEW_REASON_SIZE / 2];

    (void)snprintf(
        text, sizeof text,
        "check that \"tidelock agent\" runs on %s; for a retired host run: tidelock agent --forget "
        "HOST, and leave it out of --expect",
        name_missing(result, names, sizeof names));
    advise(result, text);
}

/* ---- pairs ---------------------------------------------------------------------------------------- */

/* Writes "when H holds, T's clock is LO to HI ms ahead, and the slack is S ms", and the sources. */
static void explain(skew_result *result, const skew_pair *pair, const char *what) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker];
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], hold[SKEW_NUMBER_SIZE], old[2][SKEW_SPAN_SIZE];
    int decimals = skew_decimals_beyond(pair->gap, result->rule.slack_us);

    (void)snprintf(result->reason, sizeof result->reason,
                   "%s: %s %s%s, the clock of %s is %s to %s ms ahead, and the slack is %lld ms",
                   what, host->kind == SKEW_REDIS ? "for a lock timed by" : "when", host->name,
                   host->kind == SKEW_REDIS ? "" : " holds", taker->name,
                   skew_down(lo, pair->gap.lo, decimals), skew_up(hi, pair->gap.hi, decimals),
                   (long long)(result->rule.slack_us / 1000));
    if (GUARD(assumed_hold_is_said) && result->rule.longest_hold_assumed &&
        result->verdict != SKEW_SAFE) {
        append(result, " if nobody works for more than ");
        append(result, skew_exact(hold, result->rule.longest_hold_us));
        append(result, " (assumed: say --longest-hold)");
    }
    size_t n = strlen(result->reason);
    (void)snprintf(result->reason + n, sizeof result->reason - n,
                   " (by %s, %s old, and %s, %s old)", host->instrument,
                   skew_span(old[0], host->age_ms), taker->instrument,
                   skew_span(old[1], taker->age_ms));
    add_missing(result);
}

/* The least distance of a clock from the server's. */
static int64_t distance(const skew_host *host) {
    return host->offset.lo > 0   ? host->offset.lo
           : host->offset.hi < 0 ? tl__mul_sat(host->offset.hi, -1)
                                 : 0;
}

/* Advises where to look: at the clock of the pair that is further from the server's. */
static void advise_where(skew_result *result, const skew_pair *pair) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker];
    char text[SKEW_REASON_SIZE];

    if (host->known && taker->known && distance(host) != distance(taker))
        (void)snprintf(
            text, sizeof text,
            "look at the time service of %s first, whose clock is further from the "
            "server's (there: chronyc tracking, timedatectl); one source should steer all "
            "hosts",
            distance(host) > distance(taker) ? host->name : taker->name);
    else
        (void)snprintf(text, sizeof text,
                       "look at the time services of %s and %s (there: chronyc tracking, "
                       "timedatectl); one source should steer all hosts",
                       host->name, taker->name);
    result->advice_where = result->advices;
    advise(result, text);
}

void skew_say_cause(skew_result *result) {
    const skew_cause *cause = result->cause;
    char names[SKEW_CAUSE_MOST * (SKEW_NAME_SIZE + 5)] = "";
    size_t n = 0;

    if (result->advice_where < 0)
        return;
    for (int i = 0; i < cause->hosts; i++)
        n += (size_t)snprintf(names + n, sizeof names - n, "%s%s",
                              i == 0                  ? ""
                              : i == cause->hosts - 1 ? " and "
                                                      : ", ",
                              result->hosts[cause->host[i]].name);
    (void)snprintf(
        result->advice[result->advice_where], sizeof result->advice[0],
        "look at the time service of %s first (there: chronyc tracking, timedatectl); one "
        "source should steer all hosts",
        names);
}

/* Advises what helps until the clocks are fixed, against the worst gap, which is not always this
 * pair's. With a longer lifetime the gap grows too, because clocks drift for longer. */
static void advise_until(skew_result *result) {
    int64_t gap = result->pairs[0].gap.hi, life = result->rule.lock_timeout_us,
            hold_ms = (tl__add_sat(life, -gap) - 999) / 1000,
            lacks = tl__add_sat(gap, -result->rule.slack_us),
            longer_ms = tl__add_sat(life, tl__add_sat(lacks, lacks / 5)) / 1000 + 2;
    char text[SKEW_REASON_SIZE], lived[SKEW_NUMBER_SIZE];

    if (hold_ms <= 0)
        (void)snprintf(
            text, sizeof text,
            "until then no hold is short enough for locks that live %s: let them live for %lld ms",
            skew_exact(lived, life), (long long)longer_ms);
    else if (lacks > 0)
        (void)snprintf(
            text, sizeof text,
            "until then let no holder work for more than %lld ms (--longest-hold), or let the "
            "locks live for %lld ms",
            (long long)hold_ms, (long long)longer_ms);
    else
        (void)snprintf(text, sizeof text,
                       "until then let no holder work for more than %lld ms (--longest-hold)",
                       (long long)hold_ms);
    advise(result, text);
}

static void advise_clocks(skew_result *result, const skew_pair *pair) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker],
                    *old = host->age_ms > taker->age_ms ? host : taker;
    char text[SKEW_REASON_SIZE], age[SKEW_SPAN_SIZE];

    if (host->missing || taker->missing) {
        advise_missing(result);
    } else if (result->verdict == SKEW_WARN && old->age_ms >= OLD_MS) {
        (void)snprintf(
            text, sizeof text,
            "the measurement of %s is %s old and therefore wide: let its agent publish more often "
            "(tidelock agent --every 10s)",
            old->name, skew_span(age, old->age_ms));
        advise(result, text);
    }
    advise_where(result, pair);
    advise_until(result);
}

void skew_say_theft(skew_result *result, const skew_pair *pair) {
    char by[SKEW_NUMBER_SIZE], what[96];

    (void)snprintf(what, sizeof what, "a lock can be stolen at least %s ms too early",
                   skew_down(by, tl__add_sat(pair->gap.lo, -result->rule.slack_us),
                             skew_decimals_beyond(pair->gap, result->rule.slack_us)));
    explain(result, pair, what);
    advise_clocks(result, pair);
}

void skew_say_doubt(skew_result *result, const skew_pair *pair) {
    explain(result, pair, "a theft can't be ruled out");
    advise_clocks(result, pair);
}

void skew_say_close(skew_result *result, const skew_pair *pair) {
    explain(result, pair, "little slack is left");
    advise_clocks(result, pair);
}

/* The host whose clock may be further from the server's than the slack, if that clock is in no pair:
 * tidelock's own clients time the locks by it. */
static const skew_host *far_from_server(const skew_result *result) {
    const skew_host *found = NULL;
    int64_t most_us = result->rule.slack_us;

    for (int i = 0; i < result->host_count; i++) {
        const skew_host *host = &result->hosts[i];
        if (host->kind == SKEW_REDIS || !GUARD(far_server_is_said))
            return NULL;
        if (host->kind != SKEW_CLOCK || !host->known)
            continue;
        tl_interval gap = skew_widened_by(&result->rule, skew_extra_ppm(&result->rule, host),
                                          host->offset);
        int64_t behind_us = tl__mul_sat(gap.lo, -1),
                far_us = gap.hi > behind_us ? gap.hi : behind_us;
        if (far_us > most_us) {
            most_us = far_us;
            found = host;
        }
    }
    return found;
}

/* SAFE is about the pairs. A user would take the server's clock for judged, too. */
static void add_far_server(skew_result *result) {
    const skew_host *host = far_from_server(result);
    char text[SKEW_REASON_SIZE];

    if (!host)
        return;
    (void)snprintf(text, sizeof text,
                   "; but the server's clock, by which tidelock's own clients time locks, is not "
                   "judged, and may be too far from that of %s: judge it by --servers",
                   host->name);
    append(result, text);
}

/* A client that is delayed between reading its clock and GETSET leaves an old stamp, as if its clock were behind by
 * as much. No clock shows that. */
static void add_left_for_delays(skew_result *result, const skew_pair *pair) {
    int64_t used_us = pair->gap.hi > 0 ? pair->gap.hi : 0;
    char left[SKEW_NUMBER_SIZE], text[SKEW_REASON_SIZE];

    (void)snprintf(text, sizeof text, "; %s ms are left for legacy clients' delays",
                   skew_down(left, tl__add_sat(result->rule.slack_us, -used_us),
                             skew_decimals_beyond(pair->gap, result->rule.slack_us)));
    append(result, text);
}

void skew_say_safe(skew_result *result, const skew_pair *pair) {
    char hold[SKEW_NUMBER_SIZE], what[128];

    (void)snprintf(what, sizeof what,
                   "no lock can be stolen from a holder that works for at most %s%s",
                   skew_exact(hold, result->rule.longest_hold_us),
                   GUARD(assumed_hold_is_said) && result->rule.longest_hold_assumed
                       ? " (assumed: say --longest-hold)"
                       : "");
    explain(result, pair, what);
    add_left_for_delays(result, pair);
    if (GUARD(assumed_hosts_are_said) && result->rule.hosts_assumed)
        append(result, "; a host that was not seen is not judged: name all by --expect");
    add_far_server(result);
}

void skew_say_pad(skew_result *result) {
    const skew_rule *rule = &result->rule;
    int64_t pad = skew_widening_by(rule, 0), warn = rule->warn_percent,
            least = warn == 0 ? 0 : (tl__mul_sat(pad, 100) + warn - 1) / warn;
    char text[SKEW_REASON_SIZE], slack[SKEW_NUMBER_SIZE], life[SKEW_NUMBER_SIZE],
        used[SKEW_NUMBER_SIZE], needed[SKEW_NUMBER_SIZE];

    if (!skew_is_beyond(result, pad))
        return;
    size_t n = (size_t)snprintf(
        text, sizeof text,
        "with a slack of %s the verdict can never be SAFE: drift in %s and the rounding of stamps use "
        "%s ms in any case; ",
        skew_exact(slack, rule->slack_us), skew_exact(life, rule->lock_timeout_us),
        skew_up(used, pad, 3));
    if (warn == 0)
        (void)snprintf(text + n, sizeof text - n, "with --warn 0%% no slack is enough");
    else
        (void)snprintf(text + n, sizeof text - n, "with --warn %d%% it takes %s ms", (int)warn,
                       skew_up(needed, least, 3));
    advise(result, text);
}

/* ---- alarms --------------------------------------------------------------------------------- */

static int count_alarms(const skew_result *result) {
    int n = 0;
    for (int i = 0; i < result->host_count; i++)
        n += result->hosts[i].kind == SKEW_CLOCK && result->hosts[i].alarm != SKEW_NO_ALARM;
    return n;
}

static bool is_of_disruption(const skew_host *host) {
    return host->alarm == SKEW_SOON || host->alarm == SKEW_IMMINENT;
}

static void advise_alarm(skew_result *result, const skew_host *host) {
    char text[SKEW_REASON_SIZE];

    (void)snprintf(text, sizeof text,
                   is_of_disruption(host)
                       ? "let %s acquire none of these locks until its disruption is over and its "
                         "clock is measured again"
                       : "let the time service of %s follow another source than the hypervisor "
                         "(there: chronyc sources), or have the hypervisor's clock fixed",
                   host->name);
    advise(result, text);
}

/* A verdict that is SAFE but for the alarm has a reason of why it is safe: the alarm replaces it. */
void skew_say_alarm(skew_result *result, const skew_host *host) {
    char more[64] = "";
    int others = count_alarms(result) - 1;

    if (result->alarmed)
        result->reason[0] = '\0';
    if (others > 0)
        (void)snprintf(more, sizeof more, " (%d host%s more ha%s such an alarm)", others,
                       others == 1 ? "" : "s", others == 1 ? "s" : "ve");
    size_t n = strlen(result->reason);
    (void)snprintf(
        result->reason + n, sizeof result->reason - n,
        "%sthe hypervisor of %s %s: the clock of %s %s%s", n ? "; " : "", host->name,
        skew_alarm_says(host->alarm), host->name,
        is_of_disruption(host) ? "may jump then" : "may be wrong where it follows that one", more);
    advise_alarm(result, host);
}

/* ---- missing evidence ----------------------------------------------------------------------- */

#define ADVISE_AGENTS "run \"tidelock agent\" on every host that acquires these locks"

void skew_say_unmeasured(skew_result *result) {
    (void)snprintf(result->reason, sizeof result->reason, "no host could be measured");
    add_missing(result);
    advise(result, ADVISE_AGENTS);
}

static bool is(const skew_host *host, const char *status) {
    return strcmp(host->status, status) == 0;
}

/* Advice for rows that an option requested, of daemons and servers. %1$s: the row's name. */
static const char *advice_of_asked(const skew_host *host) {
    if (host->kind == SKEW_ASIDE && host->advice)
        return host->advice;
    if (host->kind == SKEW_ASIDE)
        return is(host, "silent")
                   ? "check that chronyd runs here and that \"chronyc -n tracking\" responds, or "
                     "leave out --chrony"
                   : "fix this host's time service (chronyc tracking, chronyc sources), or leave "
                     "out --chrony";
    if (host->kind == SKEW_REDIS)
        return host->advice
                   ? host->advice
                   : "check that the server %1$s can be reached with this login, or leave out "
                     "--servers";
    if (host->known)
        return "run \"tidelock agent\" on that host, under the name that --ntp gives it: it "
               "measures the clock that locks depend on";
    return is(host, "silent")
               ? "check that %1$s answers NTP (UDP, through every firewall), or leave out --ntp "
                 "%1$s"
               : "fix the time service of %1$s (there: chronyc tracking, ntpq -p), or leave out "
                 "--ntp %1$s";
}

static const char *advice_of_clock(const skew_host *host) {
    if (host->relative && host->advice)
        return host->advice;
    if (host->self && !host->known)
        return "measure again while the clock of %1$s is not being set";
    if (host->known && host->unsteady)
        return "fix the clock of %1$s, which gains or loses against the server's faster than any "
               "synchronised clock (there: chronyc tracking, the clock source in dmesg); if all "
               "hosts are reported so, fix the server's clock";
    if (is(host, "clash"))
        return "give one of the agents that publish as %1$s another name (tidelock agent --name)";
    if (is(host, "void"))
        return "wait for the next round of the agent on %1$s; if that does not help, check that "
               "both use the same server (--url)";
    if (is(host, "unreadable"))
        return "run the version of tidelock on %1$s that runs here";
    if (is(host, "inconsistent"))
        return "measure again; if that does not help, check the clock of %1$s (there: chronyc "
               "tracking)";
    return host->advice ? host->advice : ADVISE_AGENTS;
}

static void advise_lacking(skew_result *result, const skew_host *host) {
    char text[SKEW_REASON_SIZE] = "";
    const char *what = host->kind == SKEW_CLOCK ? advice_of_clock(host) : advice_of_asked(host),
               *name;

    if (host->missing) {
        advise_missing(result);
        return;
    }
    for (size_t n = 0; *what; what = name ? name + 4 : what + strlen(what)) {
        name = strstr(what, "%1$s");
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s%s",
                              name ? (int)(name - what) : (int)strlen(what), what,
                              name ? host->name : "");
        if (n >= sizeof text)
            break;
    }
    advise(result, text);
}

static void explain_missing(skew_result *result, const skew_host *host) {
    char names[SKEW_REASON_SIZE / 2];
    int n = count_missing(result);

    if (n == 1)
        (void)snprintf(result->reason, sizeof result->reason, "%s is missing: %s", host->name,
                       host->detail);
    else
        (void)snprintf(result->reason, sizeof result->reason, "%d hosts are missing: %s (%s: %s)",
                       n, name_missing(result, names, sizeof names), host->name, host->detail);
}

static void explain_lacking(skew_result *result, const skew_host *host, int lacking) {
    if (host->relative)
        (void)snprintf(result->reason, sizeof result->reason, "%s", host->detail);
    else if (host->known && host->unsteady)
        (void)snprintf(result->reason, sizeof result->reason,
                       "nothing can be promised about %s: %s", host->name, host->detail);
    else if (host->known)
        (void)snprintf(
            result->reason, sizeof result->reason,
            "only the time that %s serves is known, and its own clock may differ from that: NTP "
            "alone proves nothing",
            host->name);
    else if (host->kind == SKEW_ASIDE)
        (void)snprintf(result->reason, sizeof result->reason,
                       "the requested measurement of %s is not available (%s)", host->name,
                       host->detail);
    else if (lacking > 1)
        (void)snprintf(result->reason, sizeof result->reason,
                       "there is no evidence of %d hosts, among them %s (%s)", lacking, host->name,
                       host->detail);
    else
        (void)snprintf(result->reason, sizeof result->reason, "there is no evidence of %s (%s)",
                       host->name, host->detail);
    add_missing(result);
}

void skew_say_lacking(skew_result *result, const skew_host *host, int lacking, int hosts) {
    if (host) {
        if (host->missing)
            explain_missing(result, host);
        else
            explain_lacking(result, host, lacking);
        advise_lacking(result, host);
        for (int i = 0; i < result->host_count; i++)
            if (GUARD(advice_on_all_lacking) && skew_is_lacking(&result->hosts[i]))
                advise_lacking(result, &result->hosts[i]);
    } else if (result->more) {
        (void)snprintf(result->reason, sizeof result->reason,
                       "there are more hosts than the %d that were checked", result->host_count);
        advise(result, "remove retired hosts: tidelock agent --forget HOST");
    } else if (result->unheard) {
        (void)snprintf(result->reason, sizeof result->reason, "%s", result->unheard);
        advise(result, result->unheard_advice);
    } else if (hosts < 2) {
        (void)snprintf(result->reason, sizeof result->reason,
                       "only one host is measured: there is nothing to compare it with");
        advise(result, ADVISE_AGENTS);
    } else {
        (void)snprintf(result->reason, sizeof result->reason,
                       "%d hosts are measured, and at least %d are required (--min-hosts)", hosts,
                       result->rule.min_hosts);
        advise(result, ADVISE_AGENTS);
    }
}
