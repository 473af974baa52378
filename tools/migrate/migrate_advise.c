/*
 * M and L are rounded up, T is rounded down: larger M and L and a smaller T are always safe, and cost
 * validity. MIGRATION.md, section 4, has the rules.
 */
#include <stdio.h>

#include "ground/guard.h"
#include "migrate/migrate_advise.h"

#define SKEW_MS 1000
#define TTL_MS 60000
#define TTL_LEAST_MS 100
#define TTL_MOST_MS INT64_C(86400000)
#define SECOND_MS 1000
#define NEARLY_MS                                                                                  \
    100 /* a lifetime so much below a whole second is that second: requests take time */

#define SAY(member, ...) ((void)snprintf((member), sizeof(member), __VA_ARGS__))

static int64_t round_up(int64_t ms, int64_t step) {
    return (ms + step - 1) / step * step;
}

static int64_t larger(int64_t a, int64_t b) {
    return a > b ? a : b;
}

/* Twice the worst clock, as MIGRATION.md says. */
static void advise_skew(const survey_facts *facts, survey_advice *ret) {
    char off[DURATION_SHOWN];
    int64_t twice_ms = round_up(2 * ((facts->off_most_us + 999) / 1000), SECOND_MS / 2);

    ret->skew_ms = SKEW_MS;
    if (facts->clocks == 0) {
        SAY(ret->skew_why,
            "no clock of a legacy client was measured%s, so the default; tidelock skew measures "
            "clocks",
            facts->vague ? " closely enough" : "");
        return;
    }
    if (GUARD(suggested_skew_covers))
        ret->skew_ms = larger(SKEW_MS, twice_ms);
    SAY(ret->skew_why,
        "%d %s of legacy clients %s off by %s at most%s; twice that, and not below the default%s",
        facts->clocks, facts->clocks == 1 ? "clock" : "clocks", facts->clocks == 1 ? "was" : "were",
        show_ms(off, (facts->off_most_us + 999) / 1000),
        facts->relative ? " from each other (what all have in common needs --legacy-ttl-min)" : "",
        facts->vague ? "; other hosts were not measured closely enough" : "");
}

/* Time-outs of sockets and garbage collections can't be seen from the server. */
static void advise_delay(const survey_facts *facts, survey_advice *ret) {
    char most[DURATION_SHOWN];
    int64_t half_ms = ret->skew_ms / 2;

    ret->delay_ms = half_ms;
    if (facts->delays.count == 0) {
        SAY(ret->delay_why,
            "no takeover (GETSET) was seen, so the default, half of M; it must cover time-outs and "
            "pauses too: see MIGRATION.md, section 4");
        return;
    }
    if (GUARD(suggested_delay_covers))
        ret->delay_ms = larger(half_ms, round_up(2 * facts->delays.most_ms, SECOND_MS / 4));
    SAY(ret->delay_why,
        "the slowest of %lld takeover%s took %s from SETNX to GETSET; twice that, and not below "
        "half of M; it must cover time-outs and pauses too: see MIGRATION.md, section 4",
        (long long)facts->delays.count, facts->delays.count == 1 ? "" : "s",
        show_ms(most, facts->delays.most_ms));
}

static int64_t round_down(int64_t ms) {
    int64_t whole = (ms + NEARLY_MS) / SECOND_MS * SECOND_MS;

    return GUARD(suggested_ttl_is_short) && whole >= SECOND_MS ? whole : ms;
}

static void advise_ttl(const survey_facts *facts, survey_advice *ret) {
    char least[DURATION_SHOWN], most[DURATION_SHOWN];

    ret->ttl_ms = facts->given_ttl_ms ? facts->given_ttl_ms : TTL_MS;
    if (facts->given_ttl_ms) {
        SAY(ret->ttl_why, "as --legacy-ttl-min says");
    } else if (facts->lifetimes.count > 0) {
        ret->ttl_ms = round_down(facts->lifetimes.least_ms);
        SAY(ret->ttl_why,
            "the shortest of %lld lifetime%s was %s (the longest at most %s), by clocks that may be "
            "ahead; the constant in the source decides, also of jobs that did not run meanwhile",
            (long long)facts->lifetimes.count, facts->lifetimes.count == 1 ? "" : "s",
            show_ms(least, facts->lifetimes.least_ms), show_ms(most, facts->lifetimes.most_ms));
    } else if (facts->left_most_ms > 0) {
        SAY(ret->ttl_why,
            "no stamp was seen as it was written, so the default; one had %s left; the constant in "
            "the source decides",
            show_ms(most, facts->left_most_ms));
    } else {
        SAY(ret->ttl_why, "no stamp was seen, so the default; the constant in the source decides");
    }
    ret->ttl_ms = ret->ttl_ms < TTL_LEAST_MS  ? TTL_LEAST_MS
                  : ret->ttl_ms > TTL_MOST_MS ? TTL_MOST_MS
                                              : ret->ttl_ms;
}

static void warn(const survey_facts *facts, survey_advice *ret) {
    int64_t least_ms = 3 * ret->skew_ms + 2 * ret->delay_ms,
            job_ms = ret->ttl_ms - 2 * ret->skew_ms - ret->delay_ms;
    char ttl[DURATION_SHOWN], least[DURATION_SHOWN], hold[DURATION_SHOWN], job[DURATION_SHOWN];

    if (ret->ttl_ms < least_ms)
        SAY(ret->warning,
            "T of %s leaves no validity beside these M and L: at least %s is needed; bring the "
            "clocks closer together, or lengthen the lifetime in the source",
            show_ms(ttl, ret->ttl_ms), show_ms(least, least_ms));
    else if (facts->holds.count > 0 && facts->holds.most_ms > job_ms)
        SAY(ret->warning,
            "a lock was held for %s: a Java job may take T - 2 M - L, %s, or two may work at once",
            show_ms(hold, facts->holds.most_ms), show_ms(job, job_ms));
}

void survey_advise(const survey_facts *facts, survey_advice *ret) {
    *ret = (survey_advice){.warning = ""};
    advise_skew(facts, ret);
    advise_delay(facts, ret);
    advise_ttl(facts, ret);
    warn(facts, ret);
}
