/*
 * The reason of a verdict, and what to do. Whatever it is, hosts that are missing are named in it; and a slack that
 * rests on what nobody has said is told as that.
 */
#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "skew/judge/skew_number.h"
#include "skew/judge/skew_reason.h"

#define OLD_MS 30000 /* evidence: agents publish every ten seconds unless told otherwise */
#define NAMED_MOST 3 /* of the hosts that are missing */

/* Each thing once. */
static void advise(skew_result *r, const char *what) {
    for (int i = 0; i < r->advices; i++)
        if (GUARD(advice_once) && strcmp(r->advice[i], what) == 0)
            return;
    if (r->advices < (int)(sizeof r->advice / sizeof *r->advice))
        (void)snprintf(r->advice[r->advices++], sizeof r->advice[0], "%s", what);
}

static void append(skew_result *r, const char *text) {
    size_t n = strlen(r->reason);
    (void)snprintf(r->reason + n, sizeof r->reason - n, "%s", text);
}

/* ---- hosts that are missing ------------------------------------------------------------------- */

static int count_missing(const skew_result *r) {
    int n = 0;
    for (int i = 0; i < r->host_count; i++)
        n += r->hosts[i].missing;
    return n;
}

/* "db1, db2, db3 and 4 more" */
static const char *name_missing(const skew_result *r, char *text, size_t size) {
    int named = 0, all = count_missing(r);
    size_t n = 0;

    text[0] = '\0';
    for (int i = 0; i < r->host_count && named < NAMED_MOST; i++)
        if (r->hosts[i].missing)
            n += (size_t)snprintf(text + n, size - n, "%s%s", named++ ? ", " : "",
                                  r->hosts[i].name);
    if (all > named)
        (void)snprintf(text + n, size - n, " and %d more", all - named);
    return text;
}

/* At the end of a reason that is about something else. */
static void add_missing(skew_result *r) {
    char names[SKEW_REASON_SIZE / 2];

    if (count_missing(r) == 0)
        return;
    append(r, "; missing: ");
    append(r, name_missing(r, names, sizeof names));
}

static void advise_missing(skew_result *r) {
    char text[SKEW_REASON_SIZE], names[SKEW_REASON_SIZE / 2];

    (void)snprintf(
        text, sizeof text,
        "see that \"tidelock agent\" runs on %s; of a host that was retired say: tidelock agent "
        "--forget HOST, and leave it out of --expect",
        name_missing(r, names, sizeof names));
    advise(r, text);
}

/* ---- pairs ---------------------------------------------------------------------------------------- */

/* "when H holds, T's clock is LO to HI ms ahead, and the slack is S ms", and its source. */
static void explain(skew_result *r, const skew_pair *p, const char *what) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker];
    char lo[SKEW_NUMBER_SIZE], hi[SKEW_NUMBER_SIZE], hold[SKEW_NUMBER_SIZE], old[2][SKEW_SPAN_SIZE];
    int decimals = skew_decimals_beyond(p->gap, r->rule.slack_us);

    (void)snprintf(r->reason, sizeof r->reason,
                   "%s: %s %s%s, the clock of %s is %s to %s ms ahead, and the slack is %lld ms",
                   what, h->kind == SKEW_REDIS ? "for a lock timed by" : "when", h->name,
                   h->kind == SKEW_REDIS ? "" : " holds", t->name,
                   skew_down(lo, p->gap.lo, decimals), skew_up(hi, p->gap.hi, decimals),
                   (long long)(r->rule.slack_us / 1000));
    if (GUARD(assumed_hold_is_said) && r->rule.longest_hold_assumed && r->verdict != SKEW_SAFE) {
        append(r, " if nobody works for more than ");
        append(r, skew_exact(hold, r->rule.longest_hold_us));
        append(r, " (assumed: say --longest-hold)");
    }
    size_t n = strlen(r->reason);
    (void)snprintf(r->reason + n, sizeof r->reason - n, " (by %s, %s old, and %s, %s old)",
                   h->instrument, skew_span(old[0], h->age_ms), t->instrument,
                   skew_span(old[1], t->age_ms));
    add_missing(r);
}

/* How far a clock is from the server's at least. */
static int64_t distance(const skew_host *h) {
    return h->offset.lo > 0 ? h->offset.lo : h->offset.hi < 0 ? -h->offset.hi : 0;
}

/* Where to look: at the clock of the two that is further from the server's. */
static void advise_where(skew_result *r, const skew_pair *p) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker];
    char text[SKEW_REASON_SIZE];

    if (h->known && t->known && distance(h) != distance(t))
        (void)snprintf(
            text, sizeof text,
            "look at the time service of %s first, whose clock is further from the "
            "server's (there: chronyc tracking, timedatectl); one source should steer all "
            "hosts",
            distance(h) > distance(t) ? h->name : t->name);
    else
        (void)snprintf(text, sizeof text,
                       "look at the time services of %s and %s (there: chronyc tracking, "
                       "timedatectl); one source should steer all hosts",
                       h->name, t->name);
    advise(r, text);
}

/* What helps before the clocks are mended: against the worst gap, which is not always the pair's.
 * Of a longer life the gap takes its part: what drifts, drifts for longer. */
static void advise_until(skew_result *r) {
    int64_t gap = r->pairs[0].gap.hi, life = r->rule.lock_timeout_us,
            hold_ms = (tl__add_sat(life, -gap) - 999) / 1000,
            lacks = tl__add_sat(gap, -r->rule.slack_us),
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
    advise(r, text);
}

static void advise_clocks(skew_result *r, const skew_pair *p) {
    const skew_host *h = &r->hosts[p->holder], *t = &r->hosts[p->taker],
                    *old = h->age_ms > t->age_ms ? h : t;
    char text[SKEW_REASON_SIZE], age[SKEW_SPAN_SIZE];

    if (h->missing || t->missing) {
        advise_missing(r);
    } else if (r->verdict == SKEW_WARN && old->age_ms >= OLD_MS) {
        (void)snprintf(text, sizeof text,
                       "what is known of %s is %s old and wide by that: let its agent publish "
                       "more often (tidelock agent --every 10s)",
                       old->name, skew_span(age, old->age_ms));
        advise(r, text);
    }
    advise_where(r, p);
    advise_until(r);
}

void skew_say_theft(skew_result *r, const skew_pair *p) {
    char by[SKEW_NUMBER_SIZE], what[96];

    (void)snprintf(what, sizeof what, "a lock can be stolen at least %s ms too early",
                   skew_down(by, tl__add_sat(p->gap.lo, -r->rule.slack_us),
                             skew_decimals_beyond(p->gap, r->rule.slack_us)));
    explain(r, p, what);
    advise_clocks(r, p);
}

void skew_say_doubt(skew_result *r, const skew_pair *p) {
    explain(r, p, "a theft can't be ruled out");
    advise_clocks(r, p);
}

void skew_say_close(skew_result *r, const skew_pair *p) {
    explain(r, p, "little slack is left");
    advise_clocks(r, p);
}

void skew_say_safe(skew_result *r, const skew_pair *p) {
    char hold[SKEW_NUMBER_SIZE], what[128];

    (void)snprintf(what, sizeof what,
                   "no lock can be stolen from a holder that works for at most %s%s",
                   skew_exact(hold, r->rule.longest_hold_us),
                   GUARD(assumed_hold_is_said) && r->rule.longest_hold_assumed
                       ? " (assumed: say --longest-hold)"
                       : "");
    explain(r, p, what);
}

/* ---- evidence that is not there ------------------------------------------------------------------- */

#define ADVISE_AGENTS "run \"tidelock agent\" on every host that acquires these locks"

void skew_say_unmeasured(skew_result *r) {
    (void)snprintf(r->reason, sizeof r->reason, "no host could be measured");
    add_missing(r);
    advise(r, ADVISE_AGENTS);
}

static bool is(const skew_host *h, const char *status) {
    return strcmp(h->status, status) == 0;
}

/* What was asked of daemons and servers by an option. %1$s: the row's name. */
static const char *advice_of_asked(const skew_host *h) {
    if (h->kind == SKEW_ASIDE)
        return is(h, "silent")
                   ? "see that chronyd runs here and \"chronyc -n tracking\" answers, or leave "
                     "--chrony out"
                   : "mend this host's time service (chronyc tracking, chronyc sources), or leave "
                     "--chrony out";
    if (h->kind == SKEW_REDIS)
        return h->advice
                   ? h->advice
                   : "see that the server %1$s can be reached with this login, or leave --servers out";
    if (h->known)
        return "run \"tidelock agent\" on that host, by the name that --ntp gives it: it measures the clock "
               "that locks go by";
    return is(h, "silent")
               ? "see that %1$s answers NTP (UDP, through what firewall there is), or leave --ntp "
                 "%1$s out"
               : "mend the time service of %1$s (there: chronyc tracking, ntpq -p), or leave --ntp "
                 "%1$s out";
}

static const char *advice_of_clock(const skew_host *h) {
    if (h->relative && h->advice)
        return h->advice;
    if (h->self && !h->known)
        return "measure again when nobody sets the clock of %1$s";
    if (h->known && h->unsteady)
        return "mend the clock of %1$s, which gains or loses against the server's faster than any that is steered (there: "
               "chronyc tracking, the clock source in dmesg); where all hosts are said to, that of the server";
    if (is(h, "clash"))
        return "give one of the agents that publish as %1$s another name (tidelock agent --name)";
    if (is(h, "void"))
        return "wait for the next round of the agent on %1$s; if it stays so, see that both are given the same "
               "server (--url)";
    if (is(h, "unreadable"))
        return "run the version of tidelock on %1$s that runs here";
    if (is(h, "inconsistent"))
        return "measure again; if it stays so, look at the clock of %1$s (there: chronyc tracking)";
    return h->advice ? h->advice : ADVISE_AGENTS;
}

static void advise_lacking(skew_result *r, const skew_host *h) {
    char text[SKEW_REASON_SIZE] = "";
    const char *what = h->kind == SKEW_CLOCK ? advice_of_clock(h) : advice_of_asked(h), *name;

    if (h->missing) {
        advise_missing(r);
        return;
    }
    for (size_t n = 0; *what; what = name ? name + 4 : what + strlen(what)) {
        name = strstr(what, "%1$s");
        n += (size_t)snprintf(text + n, sizeof text - n, "%.*s%s",
                              name ? (int)(name - what) : (int)strlen(what), what,
                              name ? h->name : "");
        if (n >= sizeof text)
            break;
    }
    advise(r, text);
}

static void explain_missing(skew_result *r, const skew_host *h) {
    char names[SKEW_REASON_SIZE / 2];
    int n = count_missing(r);

    if (n == 1)
        (void)snprintf(r->reason, sizeof r->reason, "%s is missing: %s", h->name, h->detail);
    else
        (void)snprintf(r->reason, sizeof r->reason, "%d hosts are missing: %s (%s: %s)", n,
                       name_missing(r, names, sizeof names), h->name, h->detail);
}

static void explain_lacking(skew_result *r, const skew_host *h, int lacking) {
    if (h->relative)
        (void)snprintf(r->reason, sizeof r->reason, "%s", h->detail);
    else if (h->known && h->unsteady)
        (void)snprintf(r->reason, sizeof r->reason, "of %s nothing can be promised: %s", h->name,
                       h->detail);
    else if (h->known)
        (void)snprintf(
            r->reason, sizeof r->reason,
            "of %s only the time that it serves is known, which its own clock may differ "
            "from: NTP alone proves nothing",
            h->name);
    else if (h->kind == SKEW_ASIDE)
        (void)snprintf(r->reason, sizeof r->reason, "what was asked about %s is not known (%s)",
                       h->name, h->detail);
    else if (lacking > 1)
        (void)snprintf(r->reason, sizeof r->reason,
                       "there is no evidence of %d hosts, among them %s (%s)", lacking, h->name,
                       h->detail);
    else
        (void)snprintf(r->reason, sizeof r->reason, "there is no evidence of %s (%s)", h->name,
                       h->detail);
    add_missing(r);
}

void skew_say_lacking(skew_result *r, const skew_host *h, int lacking, int hosts) {
    if (h) {
        if (h->missing)
            explain_missing(r, h);
        else
            explain_lacking(r, h, lacking);
        advise_lacking(r, h);
        for (int i = 0; i < r->host_count; i++)
            if (GUARD(advice_on_all_lacking) && skew_is_lacking(&r->hosts[i]))
                advise_lacking(r, &r->hosts[i]);
    } else if (r->more) {
        (void)snprintf(r->reason, sizeof r->reason,
                       "there are more hosts than the %d that were looked at", r->host_count);
        advise(r, "forget those that were retired: tidelock agent --forget HOST");
    } else if (r->unheard) {
        (void)snprintf(r->reason, sizeof r->reason, "%s", r->unheard);
        advise(r, r->unheard_advice);
    } else if (hosts < 2) {
        (void)snprintf(r->reason, sizeof r->reason,
                       "only one host is measured: there is nothing to compare it with");
        advise(r, ADVISE_AGENTS);
    } else {
        (void)snprintf(r->reason, sizeof r->reason,
                       "%d hosts are measured, and there are to be %d at least (--min-hosts)",
                       hosts, r->rule.min_hosts);
        advise(r, ADVISE_AGENTS);
    }
}
