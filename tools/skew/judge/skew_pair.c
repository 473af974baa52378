/*
 * One pair: its gap widened for the lifetime, its verdict and its mark.
 */
#include "ground/guard.h"
#include "skew/judge/skew_judge.h"

#define EARLY_US 1000 /* most stamps count in milliseconds */

skew_verdict skew_judge_gap(tl_interval gap, int64_t slack_us) {
    if ((GUARD(safe_by_upper_edge) ? gap.hi : gap.lo) <= slack_us)
        return SKEW_SAFE;
    return (GUARD(theft_by_lower_edge) ? gap.lo : gap.hi) > slack_us ? SKEW_UNSAFE : SKEW_WARN;
}

/* Its daemon may slew it; or an observed rate is certainly more than drift. */
int64_t skew_extra_ppm(const skew_rule *rule, const skew_host *host) {
    int64_t extra = host->slew_ppm, usual = (int64_t)rule->drift_ppm * 1000;
    if (host->has_drift && (host->drift_ppb.lo > usual || host->drift_ppb.hi < -usual)) {
        int64_t seen = host->drift_ppb.lo > usual ? host->drift_ppb.hi : -host->drift_ppb.lo;
        if (seen / 1000 + 1 > extra)
            extra = seen / 1000 + 1;
    }
    return extra > 1000000 ? 1000000 : extra;
}

int64_t skew_widening_by(const skew_rule *rule, int64_t extra_ppm) {
    int64_t ppm = rule->drift_ppm + extra_ppm;
    int64_t by = tl__mul_sat(rule->lock_timeout_us / 1000 + 1, ppm) / 1000 + 1;
    return tl__add_sat(by, rule->early_us ? rule->early_us : EARLY_US);
}

tl_interval skew_widened_by(const skew_rule *rule, int64_t extra_ppm, tl_interval gap) {
    int64_t by = skew_widening_by(rule, extra_ppm),
            early = rule->early_us ? rule->early_us : EARLY_US,
            more = rule->late_us > early ? rule->late_us - early : 0;

    return (tl_interval){tl__add_sat(tl__add_sat(gap.lo, -by), -more), tl__add_sat(gap.hi, by)};
}

int64_t skew_widening_us(const skew_rule *rule, const skew_host *a, const skew_host *b) {
    return skew_widening_by(rule, skew_extra_ppm(rule, a) + skew_extra_ppm(rule, b));
}

tl_interval skew_widened(const skew_rule *rule, const skew_host *a, const skew_host *b,
                         tl_interval gap) {
    return skew_widened_by(rule, skew_extra_ppm(rule, a) + skew_extra_ppm(rule, b), gap);
}

/* ---- pairs ----------------------------------------------------------------------------------- */

bool skew_is_close(const skew_result *result, const skew_pair *pair) {
    return GUARD(close_is_warned) &&
           tl__mul_sat(pair->gap.hi, 100) >
               tl__mul_sat(result->rule.slack_us, result->rule.warn_percent);
}

bool skew_is_beyond(const skew_result *result, int64_t gap_us) {
    const skew_pair pair = {.gap = {gap_us, gap_us}};
    return gap_us > result->rule.slack_us || skew_is_close(result, &pair);
}

/* Is the host's evidence too weak to prove safety? So it is for a missing host's last record, and
 * for a clock that runs wrong. The time that a daemon serves may not be its host's: alone it proves
 * neither safety nor theft. */
static bool is_in_doubt(const skew_host *host) {
    return (GUARD(missing_is_doubt) && host->missing) ||
           (GUARD(unsteady_is_doubt) && host->unsteady);
}

skew_verdict skew_pair_verdict(const skew_result *result, const skew_pair *pair) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker];
    skew_verdict v = skew_judge_gap(pair->gap, result->rule.slack_us);
    bool served = host->kind == SKEW_SERVED || taker->kind == SKEW_SERVED;
    bool alone = (host->kind == SKEW_SERVED && !host->covered) ||
                 (taker->kind == SKEW_SERVED && !taker->covered);

    if (v == SKEW_SAFE && (is_in_doubt(host) || is_in_doubt(taker) || skew_is_close(result, pair)))
        return SKEW_WARN;
    return (GUARD(ntp_proves_no_safety) && alone) ||
                   (GUARD(ntp_proves_no_theft) && served && v == SKEW_UNSAFE)
               ? SKEW_WARN
               : v;
}

/* A warning may have two causes: the pair is close to the slack, or something is not known. */
char skew_mark(const skew_result *result, const skew_pair *pair) {
    const skew_host *host = &result->hosts[pair->holder], *taker = &result->hosts[pair->taker];

    if (pair->verdict != SKEW_WARN)
        return pair->verdict == SKEW_SAFE ? ' ' : '!';
    return pair->gap.hi > result->rule.slack_us || is_in_doubt(host) || is_in_doubt(taker) ||
                   host->kind == SKEW_SERVED || taker->kind == SKEW_SERVED
               ? '?'
               : '~';
}
