/*
 * Named scenarios: each assumption broken on purpose must lead to what is documented, and be noticed
 * as documented; each remedy must help; and seeds that have found bugs stay here.
 */
#include <string.h>

#include "sim.h"

/* ---- an assumption is broken ------------------------------------------------------------------- */

static bool two_and_step_seen(const sim_stats *s) {
    return s->two_holders > 0 && s->steps_seen > 0 && s->lost_taken + s->lost_gone > 0;
}

static bool two_and_drift_seen(const sim_stats *s) {
    return s->two_holders > 0 && s->steps_seen > 0;
}

static bool fence_goes_back(const sim_stats *s) {
    return s->fences_back > 0;
}

static bool two_and_lost(const sim_stats *s) {
    return s->two_holders > 0 && s->lost_taken + s->lost_gone > 0;
}

static bool rates_tell(const sim_stats *s) {
    return two_and_drift_seen(s) && two_and_lost(s) && s->fences_back == 0;
}

static bool beyond_is_told(const sim_stats *s) {
    return s->off_rates > 0 && two_and_drift_seen(s) && s->lost_expired > 0 && s->fences_back == 0;
}

static bool forks_harm_nobody(const sim_stats *s) {
    return s->forks > 0 && s->forked_locks > 0 && s->takes > 0 && s->passed > 0 &&
           s->two_holders == 0;
}

static bool forbidden_is_endured(const sim_stats *s) {
    return s->denies > 0 && s->forbidden > 0 && s->takes > 0 && s->two_holders == 0;
}

static bool asks_apart(const sim_stats *s) {
    return s->crossslot > 0 && s->keeps > 0 && s->two_holders == 0;
}

static bool moves_are_told(const sim_stats *s) {
    return s->moves > 0 && s->moved > 0 && s->takes > 0 && s->two_holders == 0;
}

static bool moves_harm_nobody(const sim_stats *s) {
    return s->moves > 0 && s->moved > 0 && s->split > 0 && s->takes > 0 && s->saved > 0 &&
           s->lost_expired > 0 && s->two_holders == 0;
}

/* That whoever could renew its lock keeps it is checked in each run. */
static bool others_are_kept(const sim_stats *s) {
    return s->moves + s->key_denies > 0 && s->joined > 0 && s->keeps > 0 && s->lost_expired > 0 &&
           s->two_holders == 0;
}

static bool keys_are_asked_for(const sim_stats *s) {
    return s->key_denies > 0 && s->keys_forbidden > 0 && s->takes > 0 && s->two_holders == 0;
}

static bool nothing_is_had(const sim_stats *s) {
    return s->keys_forbidden > 0 && s->takes == 0 && s->releases == 0;
}

static bool stalls_are_told(const sim_stats *s) {
    return s->stalls > 0 && s->revived > 0 && s->lost_stalled > 0 && s->two_holders == 0;
}

static bool rests_last(const sim_stats *s) {
    return s->rests > 0 && s->rests_again > 0 && s->rests_over > 0 && s->rests_end_waits > 0 &&
           s->two_holders == 0;
}

static bool rests_last_alone(const sim_stats *s) {
    return rests_last(s) && s->rests_alone > 0;
}

static bool paused_is_told(const sim_stats *s) {
    return s->freezes > 0 && two_and_lost(s) && s->fences_back == 0;
}

static bool paused_is_noticed(const sim_stats *s) {
    return s->freezes > 0 && s->lost_disrupted > 0 && s->saved > 0 && s->two_holders == 0 &&
           s->fences_back == 0;
}

static bool paused_with_all(const sim_stats *s) {
    return s->freezes > 0 && s->lost_disrupted > 0;
}

static bool ahead_is_seen(const sim_stats *s) {
    return s->promoted_ahead > 0 && two_and_drift_seen(s) && s->fences_back == 0;
}

static bool back_harms_nobody(const sim_stats *s) {
    return s->promoted_behind > 0 && s->steps_seen > 0 && s->two_holders == 0 &&
           s->fences_back == 0;
}

static bool distance_harms_nobody(const sim_stats *s) {
    return s->unequal > 0 && s->takes > 0 && s->passed > 0 && s->two_holders == 0;
}

static bool repeated_in_vain(const sim_stats *s) {
    return s->stays > 0 && s->repeated > s->runs && s->grants_told > 0 && s->two_holders == 0;
}

/* ---- Sentinels --------------------------------------------------------------------------------- */

static bool survives(const sim_stats *s) {
    return s->switched > 0 && s->takes > 0 && s->saved > 0 && s->overlaps == 0;
}

static bool dead_is_succeeded(const sim_stats *s) {
    return s->died > 0 && s->died == s->switched && s->quiet_refused > 0 && s->takes > 0 &&
           s->overlaps == 0 && s->fences_back == 0;
}

static bool woken_is_not_believed(const sim_stats *s) {
    return s->woke > 0 && s->former_keeps > 0 && s->unconfirmed_keeps > 0 && survives(s);
}

static bool parted_harms_nobody(const sim_stats *s) {
    return s->parted > 0 && s->former_takes > 0 && s->former_believed > 0 && survives(s);
}

static bool switch_is_heard(const sim_stats *s) {
    return s->there_and_back > 0 && s->switches_read > 0 && s->foreign > 0 && s->takes > 0 &&
           s->overlaps == 0;
}

static bool unfollowed_is_another(const sim_stats *s) {
    return s->unfollowed > 0 && s->takes > 0 && s->overlaps == 0;
}

static bool former_overlaps(const sim_stats *s) {
    return s->former_takes > 0 && s->overlaps > 0 && s->lost_taken + s->lost_gone > 0;
}

static bool confirmed_is_kept(const sim_stats *s) {
    return s->switched > 0 && s->too_few > 0 && s->takes > 0 && s->overlaps == 0;
}

/* ---- an etcd ------------------------------------------------------------------------------------- */

static bool in_line(const sim_stats *s) {
    return s->takes > 0 && s->releases > 0 && s->etcd_waits > 0 && s->overlaps == 0 &&
           s->fences_back == 0;
}

static bool line_is_calm(const sim_stats *s) {
    return in_line(s) && s->woken > 0 && s->lost_gone == 0 && s->etcd_timeouts == 0;
}

static bool killed_is_succeeded(const sim_stats *s) {
    return in_line(s) && s->restarts > 0 && s->etcd_elections > 0 && s->saved > 0;
}

static bool woken_harms_nobody(const sim_stats *s) {
    return in_line(s) && s->etcd_stale > 0 && s->etcd_timeouts > 0 && s->saved > 0;
}

static bool unled_is_lost(const sim_stats *s) {
    return in_line(s) && s->etcd_unled > 0 && s->lost_expired > 0 && s->saved > 0;
}

static bool unled_is_told(const sim_stats *s) {
    return s->takes == 0 && s->unavailable + s->uncertain > 0 && s->overlaps == 0;
}

static bool doubts_are_cleared(const sim_stats *s) {
    return in_line(s) && s->etcd_doubts > 0 && s->etcd_orphans > 0 && s->cleaned > 0;
}

static bool last_space_is_cleared(const sim_stats *s) {
    return in_line(s) && s->etcd_crossed > 0 && s->cleaned > 0;
}

static bool compacted_is_looked_at(const sim_stats *s) {
    return in_line(s) && s->etcd_compactions > 0 && s->disarmed > 0;
}

static bool logins_are_made_again(const sim_stats *s) {
    return in_line(s) && s->etcd_logins > 0;
}

static bool refused_and_doubted(const sim_stats *s) {
    return s->etcd_logins > 0 && s->etcd_doubts > 0 && s->releases > 0;
}

static bool wedged_is_looked_at(const sim_stats *s) {
    return in_line(s) && s->etcd_wedges > 0 && s->lost_gone == 0;
}

static bool dead_are_passed_over(const sim_stats *s) {
    return in_line(s) && s->crashes > 0 && s->etcd_expired > 0 && s->takeovers > 0;
}

static bool rates_are_allowed_for(const sim_stats *s) {
    return in_line(s) && s->slews > 0 && s->etcd_expired > 0;
}

static bool less_is_kept(const sim_stats *s) {
    return in_line(s) && s->extends > 0 && s->lost_replies > 0;
}

#ifdef TL_COMPAT
static bool stamps_rest(const sim_stats *s) {
    return s->rests > 0 && s->rests_over > 0 && s->java_takeovers > 0;
}
#endif

static bool etcd_rests(const sim_stats *s) {
    return in_line(s) && s->rests > 0 && s->rests_over > 0 && s->rests_end_waits > 0;
}

#define ETCD                                                                                       \
    "etcd off=all members=3 users=0 ttl=4000 hold=1500 idle=300 delay-us=1000 attempt=1000 "       \
    "connect=4000 until=40000 by-name=0 "

/* ---- a quorum ------------------------------------------------------------------------------------ */

static bool all_is_calm(const sim_stats *s) {
    return s->takes > 0 && s->releases > 0 && s->votes_back > 0 && s->lost_kept == 0 &&
           s->votes_late == s->votes_cancelled && s->fences_back == 0;
}

/* A lock that a majority gives to a client that has just been cancelled is held by nobody. */
static bool two_are_spared(const sim_stats *s) {
    return s->shared > 0 && s->extends > 0 && s->shared <= s->takes &&
           s->shared + s->cancelled >= s->takes && s->at_risk > 0 && s->lost_kept == 0 &&
           s->fences_back == 0;
}

static bool nobody_has_it(const sim_stats *s) {
    return s->takes == 0 && s->unavailable > 0 && s->busy + s->timedout == 0;
}

static bool in_turn_is_kept(const sim_stats *s) {
    return s->emptied > 0 && s->votes_again > 0 && s->takes > 0 && s->overlaps == 0 &&
           s->lost_kept == 0 && s->fences_back == 0;
}

static bool emptied_harms_nobody(const sim_stats *s) {
    return s->emptied > 0 && s->votes_withheld > 0 && s->takes > 0 && s->lost_kept > 0 &&
           s->overlaps == 0;
}

static bool forgotten_overlaps(const sim_stats *s) {
    return s->emptied > 0 && s->overlaps > 0 && s->lost_kept > 0;
}

static bool late_votes_harm_nobody(const sim_stats *s) {
    return s->votes_late > 0 && s->votes_orphaned > 0 && s->late_refused > 0 &&
           s->spent_refused > 0 && s->takes > 0 && s->overlaps == 0;
}

static bool apart_is_lost(const sim_stats *s) {
    return s->apart > 0 && s->saved > 0 && s->lost_expired > 0 && s->shared > 0 &&
           s->overlaps == 0 && s->fences_back == 0;
}

static bool same_votes_once(const sim_stats *s) {
    return s->same > 0 && s->takes > 0 && s->overlaps == 0;
}

static bool deleted_is_given_again(const sim_stats *s) {
    return s->deletes > 0 && s->votes_again > 0 && s->takes > 0 && s->saved > 0;
}

/* ---- a cluster ----------------------------------------------------------------------------------- */

static bool moved_is_kept(const sim_stats *s) {
    return s->slots_closed > 0 && s->split > 0 && s->alone_takes > 0 && s->alone_keeps > 0 &&
           s->alone_drops > 0 && s->lost_gone + s->lost_taken == 0 && s->fences_back == 0;
}

static bool late_is_nobodys(const sim_stats *s) {
    return s->slots_closed > 0 && s->alone_late > 0 && s->late_counts > 0 && s->overlaps == 0;
}

static bool led_is_kept(const sim_stats *s) {
    return s->led > 0 && s->led == s->switched && s->slots_closed > 0 &&
           s->lost_gone + s->lost_taken == 0 && s->overlaps == 0 && s->fences_back == 0;
}

static bool forgotten_is_waited_for(const sim_stats *s) {
    return s->died > 0 && s->parted > 0 && s->cluster_down > 0 && s->quiet_refused > 0 &&
           s->takes > 0 && s->overlaps == 0;
}

static bool woken_is_believed(const sim_stats *s) {
    return s->woke > 0 && s->former_commands > 0 && s->overlaps > 0;
}

static bool woken_is_waited_for(const sim_stats *s) {
    return s->woke > 0 && s->former_commands > 0 && s->quiet_refused > 0 && s->takes > 0 &&
           s->overlaps == 0;
}

static bool open_is_forgotten(const sim_stats *s) {
    return s->led == s->switched && s->astray > 0 && s->overlaps > 0;
}

static bool open_is_waited_for(const sim_stats *s) {
    return s->led == s->switched && s->slots_closed > 0 && s->quiet_refused > 0 && s->overlaps == 0;
}

static bool moves_at_once(const sim_stats *s) {
    return s->atomic > 0 && s->postponed > 0 && s->keeps > 0 && s->joins > 0 && s->at_risk == 0 &&
           s->lost_gone + s->lost_taken == 0 && s->astray == 0 && s->overlaps == 0 &&
           s->fences_back == 0;
}

static bool stays_at_once(const sim_stats *s) {
    return s->atomic > 0 && s->atomic_failed > 0 && s->postponed > 0 && s->switched > 0 &&
           s->lost_gone + s->lost_taken == 0 && s->astray == 0 && s->overlaps == 0 &&
           s->fences_back == 0;
}

static bool moves_at_once_quietly(const sim_stats *s) {
    return s->atomic > 0 && s->died > 0 && s->quiet_refused > 0 && s->takes > 0 && s->overlaps == 0;
}

static bool doubt_overlaps(const sim_stats *s) {
    return s->atomic > 0 && s->doubted > 0 && s->astray > 0 && s->overlaps > 0;
}

static bool doubt_is_waited_for(const sim_stats *s) {
    return s->atomic > 0 && s->doubted > 0 && s->astray > 0 && s->quiet_refused > 0 &&
           s->overlaps == 0;
}

static bool behind_comes_back(const sim_stats *s) {
    return s->atomic > 0 && s->keys_back > 0 && s->takes > 0 && s->overlaps == 0 &&
           s->fences_back == 0;
}

static bool emptied_is_waited_for(const sim_stats *s) {
    return s->atomic > 0 && s->restarts > 0 && s->quiet_refused > 0 && s->takes > 0 &&
           s->overlaps == 0;
}

static bool emptied_overlaps(const sim_stats *s) {
    return s->atomic > 0 && s->restarts > 0 && s->overlaps > 0;
}

static bool uphill_overlaps(const sim_stats *s) {
    return s->atomic > 0 && s->doubted == 0 && s->astray == 0 && s->overlaps > 0;
}

/* ---- or remedied ------------------------------------------------------------------------------- */

static bool quiet_helps(const sim_stats *s) {
    return s->two_holders == 0 && s->restarts > 0 && s->quiet_refused > 0;
}

static bool quiet_helps_failover(const sim_stats *s) {
    return s->two_holders == 0 && s->failovers > 0 && s->quiet_refused > 0 && s->takes > 0;
}

static bool replicas_help(const sim_stats *s) {
    return s->two_holders == 0 && s->failovers > 0 && s->too_few > 0;
}

static bool fence_holds(const sim_stats *s) {
    return s->fences_back == 0 && s->failovers > 0 && s->takeovers > 0;
}

/* ---- legacy clients ---------------------------------------------------------------------------- */

static bool java_is_safe(const sim_stats *s) {
    return s->java_takes > 0 && s->java_robberies == 0 && s->java_overstays == 0;
}

static bool java_robs(const sim_stats *s) {
    return s->java_robberies > 0;
}

/* Nobody works beyond his stamp in these. */
static bool java_robs_in_time(const sim_stats *s) {
    return java_robs(s) && s->java_overstays == 0;
}

static bool java_undercuts(const sim_stats *s) {
    return java_robs_in_time(s) && s->java_undercuts > 0;
}

static bool java_races(const sim_stats *s) {
    return java_undercuts(s) && s->java_orphans > 0;
}

static bool java_deletes_late(const sim_stats *s) {
    return java_robs(s) && s->java_overstays > 0 && s->java_undercuts == 0;
}

static bool java_is_in_time(const sim_stats *s) {
    return java_is_safe(s) && s->java_takeovers > 0 && s->java_undercuts > 0;
}

static bool java_meets_tokens(const sim_stats *s) {
    return s->java_throws > 0 && s->takes > 0 && s->java_takes > 0 && s->two_holders == 0;
}

static bool java_robs_tokens(const sim_stats *s) {
    return s->mixed_robberies > 0 && s->lost_taken + s->lost_gone > 0 && s->two_holders == 0;
}

/* ---- stamps --------------------------------------------------------------------------------------- */
#ifdef TL_COMPAT

static bool open_stamps_are_kept(const sim_stats *s) {
    return s->slots_closed > 0 && s->split > 0 && s->stamps_swapped > 0 && s->stamps_freed > 0 &&
           s->java_takes > 0 && s->takes > 0 && s->lost_gone + s->lost_taken == 0 &&
           s->overlaps + s->two_holders == 0;
}

static bool stamps_survive_failovers(const sim_stats *s) {
    return s->stamps_promoted > 0 && s->java_takes > 0 && s->takes > 0 && s->two_holders == 0 &&
           s->legacy_two == 0 && s->fences_back == 0;
}

static bool seconds_are_shared(const sim_stats *s) {
    return s->dialect_takes > 0 && s->dialect_takes == s->java_takes && s->java_takeovers > 0 &&
           s->stamps_over + s->expiries + s->takeovers > 0 && s->takes > 0 && s->two_holders == 0 &&
           s->legacy_two == 0 && s->fences_back == 0;
}

static bool polls_harm_nobody(const sim_stats *s) {
    return s->java_overwrites > 0 && s->dialect_takes == s->java_takes && s->java_takeovers > 0 &&
           s->stamps_over > 0 && s->stolen == 0 && s->two_holders == 0 && s->legacy_two == 0;
}

static bool polls_are_known(const sim_stats *s) {
    return polls_harm_nobody(s) && s->reclaims > 0 && s->lost_taken == 0 && s->fences_back == 0;
}

static bool stamps_are_lost(const sim_stats *s) {
    return s->stamps_promoted > 0 && s->two_holders > 0;
}

static bool stamps_are_confirmed(const sim_stats *s) {
    return s->stamps_promoted > 0 && s->stamps_too_few > 0 && s->two_holders == 0;
}

static bool stamps_are_shared(const sim_stats *s) {
    return s->takes > 0 && s->java_takes > 0 && s->stamp_takes > 0 && s->stamps_over > 0 &&
           s->lost_expired > 0 && s->releases > 0;
}

static bool stamps_are_served(const sim_stats *s) {
    return s->releases > 100;
}

static bool stamps_are_shared_by_script(const sim_stats *s) {
    return s->takes > 0 && s->java_takes > 0 && s->stamps_over > 0 && s->reclaims > 0;
}

static bool nobody_is_robbed(const sim_stats *s) {
    return s->takes + s->stamp_takes > 0 && s->java_takes > 0 && s->java_takeovers > 0 &&
           s->legacy_two == 0 && s->stolen == 0;
}

static bool transactions_hold(const sim_stats *s) {
    return s->watch_takes > 0 && s->watch_keeps > 0 && s->watch_raced > 0 &&
           s->java_takeovers > 0 && s->stamp_takes == 0 && s->legacy_two == 0;
}

static bool late_transactions_do_nothing(const sim_stats *s) {
    return transactions_hold(s) && s->watch_late > 0 && s->orphans == 0;
}

static bool parts_are_undone(const sim_stats *s) {
    return transactions_hold(s) && s->watch_parts > 0 && s->ooms > 0;
}

static bool losers_are_known(const sim_stats *s) {
    return nobody_is_robbed(s) && s->reclaims > 0 && s->stolen_back == 0;
}

static bool legacy_two_at_once(const sim_stats *s) {
    return s->legacy_two > 0 && s->two_holders == 0;
}

/* Told, and nothing is stolen back: these hosts are always beyond M. */
static bool robbed_and_told(const sim_stats *s) {
    return legacy_two_at_once(s) && s->stolen > 0 && s->stolen_back == 0;
}

static bool stolen_back(const sim_stats *s) {
    return s->stolen_back > 0 && s->two_holders == 0;
}

static bool late_dels_let_in(const sim_stats *s) {
    return legacy_two_at_once(s) && s->lost_gone > 0 && s->bound_refused > 0;
}

static bool two_at_once(const sim_stats *s) {
    return s->two_holders > 0;
}

static bool plain_is_exclusive(const sim_stats *s) {
    return s->stamp_takes > 0 && s->two_holders == 0 && s->legacy_two == 0;
}

/* ---- migrations -------------------------------------------------------------------------------------- */

/* Who waits for a free key gets it as soon as ever: the checks of prompt taking see to that. */
static bool migrates_without_outage(const sim_stats *s) {
    return s->planned == s->runs && s->takes_0 > 0 && s->takes_1 > 0 && s->takes_2 > 0 &&
           s->takes_3 > 0 && s->drained > 0 && s->java_takes > 0 && s->denied == 0 &&
           s->unavailable <
               s->runs / 2; /* whose time is up while they connect and read the register */
}

static bool begins_next_door(const sim_stats *s) {
    return s->steps_early > 0 && s->two_holders == 0 && s->legacy_two == 0;
}

static bool begins_with_leases(const sim_stats *s) {
    return s->planned > 0 && s->takes_0 > 0 && s->takes_2 > 0;
}

static bool gone_is_refused(const sim_stats *s) {
    return s->denied > 0 && s->steps_on > 0;
}

static bool survives_failovers(const sim_stats *s) {
    return s->failovers > s->runs && s->planned > s->runs / 2 && s->drained > 0 &&
           s->java_takes > 0 && s->denied == 0 && s->epochs_undone == 0;
}

static bool undone_is_refused(const sim_stats *s) {
    return s->epochs_undone > 0 && s->denied > 0 && s->remade > 0 && s->two_holders == 0 &&
           s->legacy_two == 0;
}

static bool led_on_from_here(const sim_stats *s) {
    return s->epochs_undone > 0 && s->steps_raced > 0 && s->unconfirmed > 0;
}

static bool undone_beside_java(const sim_stats *s) {
    return s->epochs_undone > 0 && s->java_takes > 0 && s->denied > 0 && s->unconfirmed > 0;
}

static bool missed_is_read(const sim_stats *s) {
    return s->phases_missed > 0 && s->two_holders == 0 && s->legacy_two == 0;
}

static bool rivals_are_told(const sim_stats *s) {
    return s->steps_raced > 0 && s->two_holders == 0 && s->legacy_two == 0;
}

/* Two holders end a run, unless a failover that loses writes has broken an assumption on purpose. */
static bool overtaken_is_kept(const sim_stats *s) {
    return s->phases_overtaken > 0;
}

static bool late_is_refused(const sim_stats *s) {
    return s->late_phases > 0 && s->two_holders == 0 && s->legacy_two == 0;
}
#endif

/* ---- the token protocol alone ------------------------------------------------------------------ */

/* That nobody holds a lock twice is checked in each run. */
static bool slewing_harms_nobody(const sim_stats *s) {
    return s->slews > s->runs && s->takes > 0 && s->releases > 0;
}

static bool shares_with_plain(const sim_stats *s) {
    return s->plain_takes > 0 && s->takes > 0;
}

static bool sidecar_binds(const sim_stats *s) {
    return s->deletes > 0 && s->bound_refused > 0 && s->lost_gone > 0;
}

static bool late_takes_are_refused(const sim_stats *s) {
    return s->late_refused > 0 && s->spent_refused > 0;
}

static bool sidecars_go(const sim_stats *s) {
    return s->sidecars_gone > 0 && s->joins > 0 && s->late_refused > 0 && s->fences_back == 0;
}

static bool spent_is_forgotten(const sim_stats *s) {
    return s->orphans > 0 && s->spent_refused > 0;
}

static bool asks_again_late(const sim_stats *s) {
    return s->reasked > 0 && s->late_refused > 0;
}

static bool cut_off_is_lost(const sim_stats *s) {
    return s->lost_expired > 0 && s->at_risk > 0 && s->saved > 0;
}

static bool announced(const sim_stats *s) {
    return s->woken > 0 && s->takes > 0 && s->lost_expired == 0;
}

static bool crashed_is_succeeded(const sim_stats *s) {
    return s->takeovers > 0;
}

#ifdef TL_COMPAT
static bool slots_have_phases(const sim_stats *s) {
    return s->steps_on > 0 && s->steps_back > 0 && s->joins_leased > 0;
}

static bool drop_ins_in_slots(const sim_stats *s) {
    return slots_have_phases(s) && s->drop_in_phases > s->runs && s->drop_in_turns > 0 &&
           s->drop_in_takeovers > 0 && s->drop_in_renewals > 0;
}

/* ---- by the shipped command ---------------------------------------------------------------------------- */

static bool the_tool_migrates(const sim_stats *s) {
    return s->planned > 0 && s->tool_inits > 0 && s->tool_steps > 3 * s->runs &&
           s->tool_sweeps > 0 && s->tool_java_waits > 0 && s->tool_named == 0;
}

static bool drop_ins_follow(const sim_stats *s) {
    return s->planned == s->runs && s->drop_in_takes > 0 && s->drop_in_phases > s->runs &&
           s->drop_in_drains > 0 && s->drop_in_turns > 0 && s->drop_in_takeovers > 0 &&
           s->java_takes > 0 && s->drop_in_throws == 0 && s->two_holders == 0 && s->legacy_two == 0;
}

/* How many are given the lock before one that polls is checked in each run. */
static bool pollers_have_turns(const sim_stats *s) {
    return s->drop_in_turns > 10 * s->runs && s->calls > s->drop_in_turns && s->two_holders == 0;
}

static bool drop_ins_race(const sim_stats *s) {
    return s->drop_in_takes_back > 0 && s->java_undercuts > 0 && s->drop_in_lost == 0 &&
           s->two_holders == 0 && s->legacy_two == 0;
}

static bool drop_ins_are_beside(const sim_stats *s) {
    return s->drop_in_takes > 0 && s->drop_in_takeovers > 0 && s->java_takes > 0 &&
           s->two_holders == 0 && s->legacy_two == 0;
}

static bool drop_ins_are_late(const sim_stats *s) {
    return late_is_refused(s) && s->drop_in_throws > 0 && s->drop_in_undoes > 0 &&
           s->drop_in_turns > 0;
}

static bool drop_ins_survive(const sim_stats *s) {
    return s->pauses > 0 && s->drop_in_takes > 0 && s->drop_in_phases > 0 && s->two_holders == 0 &&
           s->legacy_two == 0;
}

static bool drop_ins_fail_over(const sim_stats *s) {
    return s->failovers > s->runs && s->planned > s->runs / 2 && s->drop_in_takes > 0 &&
           s->drop_in_refuses == 0 && s->two_holders == 0 && s->legacy_two == 0;
}

/* No replica confirms its locks: a failover may lose them, as those of the Java class. */
static bool drop_ins_refuse(const sim_stats *s) {
    return s->epochs_undone > 0 && s->remade > 0 && s->drop_in_refuses > 0 && s->drop_in_takes > 0;
}

static bool drop_ins_with_tool(const sim_stats *s) {
    return the_tool_migrates(s) && s->drop_in_takes > 0 && s->drop_in_phases > s->runs &&
           s->two_holders == 0;
}

static bool the_tool_sees_it(const sim_stats *s) {
    return s->tool_named > 0 && s->tool_doubts > 0 && s->tool_strays > 0 && s->tool_unseen > 0;
}

static bool the_tool_tells_keys_apart(const sim_stats *s) {
    return s->tool_doubts > 0 && s->tool_named == 0 && s->tool_steps > 0;
}

static bool monitor_decides(const sim_stats *s) {
    return s->tool_by_monitor > 0;
}

static bool the_step_is_meant(const sim_stats *s) {
    return s->tool_stale > 0;
}

static bool the_tools_race(const sim_stats *s) {
    return s->steps_raced > 0 && s->tool_stale > 0 && s->tool_killed > 0 &&
           s->tool_interrupted > 0 && s->tool_waits > 0 && s->tool_behind > 0 &&
           s->tool_unreached > 0 && s->tool_strangers > 0;
}

static bool the_tool_sets_right(const sim_stats *s) {
    return s->epochs_undone > 0 && s->unconfirmed > 0 && s->tool_set_back > 0 && s->seen_anew > 0;
}
#endif

/* Four Java services on one key, each with a host and an offset of its own. In these the M of the
 * model is `skew`; L is 7.5 times the delay, and a DEL takes 1.5 times as long. */
#define JAVA                                                                                       \
    "off=all crash=300 one-java-key=1 java-ttl=3000 ttl=1000 idle=300 attempt=4000 connect=5000 "  \
    "late-us=0 until=60000 cast=jA0jB0jC0jD0 "

/* Stamps: M = 50 ms, L = 60 ms, T_legacy = 1.5 s, unless said otherwise behind it. */
#define BRIDGE                                                                                     \
    "tame stamps off=all crash=300 pause=150 level=458767 no-eval=0 no-time=0 margin=50 walls=50 " \
    "lag=60 java-ttl=1500 java-writes=1500 java-slack=160 own-ttl=1500 late-dels=0 slow-javas=0 "  \
    "ttl=1500 hold=1500 idle=200 delay-us=6000 attempt=300 connect=1000 late-us=0 quiet=0 "        \
    "until=20000 java-sleep=20 cast=bA0bB0jC0jD0 "
#define RACES                                                                                      \
    BRIDGE "by-hand=1 margin=60 walls=60 lag=350 java-slack=470 delay-us=50000 hold=2500 "         \
           "attempt=600 idle=900 crash=100 pause=0 java-sleep=1200 until=40000 "
/* Leases of 0.5 s, lifetimes of 2 s; two services, one of them on two hosts, and Java. */
#define MIGRATION                                                                                      \
    "tame migration off=all level=458767 no-eval=0 no-time=0 margin=20 walls=20 lag=40 java-ttl=2000 " \
    "java-writes=2000 java-slack=100 ttl=2000 own-ttl=0 late-dels=0 slow-javas=0 delay-us=2000 "       \
    "attempt=300 connect=1000 late-us=100 quiet=0 hold=600 idle=100 java-sleep=20 lease=500 "          \
    "own-lease=500 first-phase=0 fallback=0 until=30000 "
/* Without an operator. */
#define IN_BRIDGE                                                                                  \
    MIGRATION "plan=1 first-phase=1 fallback=1 crash=300 pause=150 margin=50 walls=50 lag=60 "     \
              "java-ttl=1500 java-writes=1500 java-slack=160 ttl=1500 hold=1500 idle=200 "         \
              "delay-us=6000 lease=2000 own-lease=2000 until=20000 "
/* By the shipped command, which knows no lease below a second. */
#define TOOL                                                                                                \
    "tame migration=tool off=all level=458767 no-eval=0 no-time=0 margin=20 walls=20 lag=40 java-ttl=2000 " \
    "java-writes=2000 java-slack=100 ttl=2000 own-ttl=0 late-dels=0 slow-javas=0 delay-us=2000 "            \
    "attempt=300 connect=1000 late-us=100 quiet=0 hold=300 idle=200 java-sleep=20 lease=1000 "              \
    "own-lease=1000 first-phase=1 fallback=1 outside=0 forgets=0 until=60000 "
#define STRICT BRIDGE "cast=rA0rB0jC0 "
/* Legacy clients whose waiters overwrite at each poll (ms-pipe). */
#define PIPE                                                                                       \
    BRIDGE "dialect=3 java-ttl=2000 java-writes=2000 ttl=2000 own-ttl=2000 idle=3000 "             \
           "java-sleep=700 until=40000 cast=bA0bB0jC0jD0 "
/* The same far from the server, near which the tidelock clients are, so that they compare late. */
#define PIPE_FAR                                                                                   \
    PIPE "margin=60 walls=60 lag=500 java-slack=620 hold=2500 delay-us=100000 attempt=600 "        \
         "connect=3000 until=60000 java-sleep=1700 distances=3,100,100,100 crash=0 pause=0 "       \
         "cast=bA0jB0jC0 "
/* Servers of 2.4, which don't tell their time. */
#define WATCH BRIDGE "no-eval=1 level=132114 own-ttl=0 cast=sA0sB0jC0jD0 "

/* Locks of 300 ms at most, but that they are extended to 600; so quiet_ms is to be 600, or 1600. */
#define SENTINEL                                                                                    \
    "sentinel off=all level=458767 ttl=300 hold=900 idle=60 attempt=200 connect=2000 delay-us=500 " \
    "late-us=100 wait-replicas=0 replicas=2 seeds=3 "                                               \
    "until=20000 cast=tA0tB0tC0tD0tA1TB1 "

#define CLUSTER                                                                                    \
    "cluster-fleet off=all level=458767 ttl=300 hold=900 idle=60 attempt=200 connect=2000 "        \
    "delay-us=500 late-us=100 wait-replicas=0 one-slot=0 seeds=3 quiet=0 "                         \
    "until=20000 forgets-open=0 cast=tA0tB0tC0tD0tA1TB1 "

#define ATOMIC                                                                                     \
    "cluster-atomic off=all level=458767 ttl=3000 hold=6000 idle=60 attempt=1000 connect=2000 "    \
    "delay-us=500 late-us=100 wait-replicas=0 one-slot=0 seeds=3 quiet=0 doubtful=0 uphill=0 "     \
    "hand-over=600 until=40000 cast=tA0tB0tC0tD0tA1TB1 "

#define DOUBT "same-clocks ttl=300 hold=900 hand-over=100 until=20000 move=60 doubtful drains=1 "

#define DEAF                                                                                       \
    "same-clocks ttl=6000 hold=20000 hand-over=100 until=60000 move=300 doubtful drains=1 "        \
    "quiet=7000 clears-reign "

#define BEHIND "ttl=300 hold=900 hand-over=600 until=2000 move=60 "

#define EMPTIES "same-clocks ttl=300 hold=900 hand-over=100 until=20000 move=60 empties "

#define CLUSTER_STAMPS                                                                                        \
    "cluster-stamps dialect=0 off=all level=458767 ttl=1200 java-ttl=1200 java-writes=1200 margin=60 lag=40 " \
    "java-slack=160 hold=3000 idle=60 attempt=300 connect=2000 delay-us=500 late-us=100 seeds=3 "             \
    "until=20000 forgets-open=0 quiet=0 same-clocks cast=bA0sB0jC0bD0sA1jB1 walls=30 "

#define QUORUM                                                                                     \
    "quorum off=all level=458767 voters=5 same-clocks twice=0 unused=0 ttl=300 hold=300 idle=60 "  \
    "attempt=300 connect=2000 delay-us=500 late-us=100 quiet=600 until=8000 "

const sim_scenario sim_scenarios[] = {
    {"slow-clocks", "hosts' clocks lose 2 %: a holder believes for too long; the anchor sees it",
     101, 200,
     "slow-clocks=20000 ttl=8000 delay-us=200 until=60000 cast=tA0tB0tC0 off=all server-pause=100",
     two_and_drift_seen},
    {"clocks-slewed", "clocks are slewed to and fro within the bound: nobody believes for too long",
     1, 300, "drift-ppm=101500 slew=30 cast=tA0tB0tC0pD0 off=lossy,quick,jump,forget",
     slewing_harms_nobody},
    {"clock-jump", "the server's clock jumps forward: a lock is given twice; the holder is told", 1,
     200, "jump=200 cast=tA0tB0tC0", two_and_step_seen},
    {"failover-loses", "a replica without the last writes takes over: a lock is given twice", 1,
     400, "lossy=150 replicas=1 wait-replicas=0 quiet=0 cast=tA0tB0tC0", two_and_lost},
    {"failover-confirmed", "the same, but every replica confirms each lock: it is given once", 1,
     400,
     "tame lossy=60 replicas=2 level=458767 delay-us=500 ttl=3000 wait-replicas=2 wait-ms=200 attempt=600 "
     "quiet=0 cast=tA0tB0tC0 off=quick,jump,forget",
     replicas_help},
    {"failover-quick",
     "the same, before the new server's clock shows what the old one's did: the fence goes back", 1,
     400,
     "off=all quick=300 replicas=1 ttl=2000 idle=20 hold=20 delay-us=20000 attempt=500 connect=1000 "
     "wait-replicas=0 quiet=0 level=458767 cast=tA0tB0tC0",
     fence_goes_back},
    {"failover-ahead",
     "new clients that know the time badly, and failovers: the fence never goes back", 1, 500,
     "tame off=all lossy=200 crash=100 slow=100000 replicas=1 ttl=300 idle=10 hold=10 delay-us=3000 "
     "attempt=2000 connect=5000 until=10000 wait-replicas=0 quiet=0 level=458767 "
     "cast=tA0tB0tC0tD0",
     fence_holds},
    {"failover-stays",
     "the old master becomes a replica, and repeats to those who listen there what the new one says: it is given once",
     1, 100,
     "tame stays off=all failover=150 starve=10000 replicas=1 level=458767 ttl=1000 delay-us=1000 attempt=300 connect=600 late-us=100 "
     "wait-replicas=0 quiet=0 hold=150 idle=30 until=20000 own-clients=0 cast=tA0tB0tC0tD0",
     repeated_in_vain},
    {"failover-stays-late",
     "the same where threads run late, and ask the old master again for what it has given them: it confirms nothing",
     1, 40,
     "tame stays off=all failover=60 pause=60 starve=100000 replicas=1 level=458767 ttl=300 delay-us=1000 attempt=2000 connect=600 "
     "late-us=100 wait-replicas=0 quiet=0 hold=150 idle=30 until=20000 own-clients=0 cast=tA0tB0tC0tD0",
     repeated_in_vain},
    {"sentinel-dies", "Sentinels have another take over from a master that is dead: quiet_ms T", 1,
     10, SENTINEL "ways=1 switch=600 aside=600 quiet=600", dead_is_succeeded},
    {"sentinel-wakes", "the master is stopped, and wakes: what it then answers counts no more", 1,
     20, SENTINEL "ways=4 switch=400 quiet=1600", woken_is_not_believed},
    {"sentinel-parted", "it is cut off with some hosts, which go on asking it for a second", 1, 20,
     SENTINEL "ways=8 switch=400 quiet=1600", parted_harms_nobody},
    {"sentinel-back", "it is led to be a replica, and promoted again: each switch is heard", 1, 20,
     SENTINEL "ways=16 switch=400 replicas=1 ends-conns=0 quiet=1600", switch_is_heard},
    {"sentinel-unfollowed",
     "it is stopped, or cut off, and named again before it was made a replica: quiet_ms T and a second",
     1, 20, SENTINEL "ways=12 switch=200 replicas=1 unfollowed quiet=1600 until=40000",
     unfollowed_is_another},
    {"sentinel-unquiet", "the same failovers without quiet_ms: a lock is given twice", 1, 12,
     SENTINEL "ways=30 switch=300 aside=600 quiet=0", former_overlaps},
    {"sentinel-confirmed", "all replicas confirm each lock: it is given once", 1, 12,
     SENTINEL "ways=31 switch=400 quiet=0 wait-replicas=2 wait-ms=100", confirmed_is_kept},
    {"cluster", "nodes of a Redis Cluster, as they are drawn", 1, 40, "cluster-fleet", NULL},
    {"cluster-moves", "slots are moved key by key, and stay open for lifetimes: no lock is lost", 1,
     20, CLUSTER "move=100", moved_is_kept},
    {"cluster-line", "who stands in line when a slot is opened is called all the same", 1, 10,
     CLUSTER "ttl=6000 hold=600 idle=100 move=20 until=40000", moved_is_kept},
    {"cluster-late",
     "threads run late while slots move to and fro: a key at two nodes, where one is nobody's", 721,
     80, CLUSTER "hold=300 idle=30 attempt=600 move=5 starve=100000 cast=tA0tB0tC0tD0",
     late_is_nobodys},
    {"cluster-quick",
     "slots move all the time, and locks are held for moments only: none stays bound for nobody",
     61, 20, CLUSTER "ttl=2000 hold=60 idle=10 move=10 until=10000 cast=tA0tB0tC0", moved_is_kept},
    {"cluster-led", "replicas take over as is asked for, also while slots are open: nor here", 1,
     20, CLUSTER "move=200 switch=300 ways=16", led_is_kept},
    {"cluster-dies", "masters die, or are parted from the others and stop: quiet_ms T", 1, 20,
     CLUSTER "move=200 switch=300 aside=600 ways=11 quiet=600", forgotten_is_waited_for},
    {"cluster-wakes",
     "a master is stopped, wakes, and answers, quiet_ms T and little more: a lock is held twice",
     121, 60, CLUSTER "switch=200 ways=4 quiet=600", woken_is_believed},
    {"cluster-wakes-quiet", "the same with quiet_ms T and a second: what it answers counts no more",
     1, 40, CLUSTER "switch=200 ways=4 quiet=1600", woken_is_waited_for},
    {"cluster-forgets-open",
     "who takes over doesn't know that a slot is open: a lock is held twice", 1, 20,
     CLUSTER "move=100 switch=300 ways=16 forgets-open", open_is_forgotten},
    {"cluster-forgets-quiet", "the same with quiet_ms T: it is not", 1, 20,
     CLUSTER "move=100 switch=300 ways=16 forgets-open quiet=600", open_is_waited_for},
    {"restart-forgets", "a server without persistence restarts: a lock is given twice", 1, 200,
     "forget=300 quiet=0 cast=tA0tB0tC0", two_and_lost},
    {"failover-quiet",
     "a replica without the last writes takes over, and gives nothing for a lifetime: a lock is given once",
     1, 150,
     "tame lossy=150 ttl=300 delay-us=500 attempt=200 replicas=1 level=458767 wait-replicas=0 quiet=600 "
     "cast=tA0tB0tC0 off=quick,jump,forget",
     quiet_helps_failover},
    {"restart-quiet", "the same, but nothing is granted until it is up for a lifetime", 1, 200,
     "tame forget=300 ttl=300 delay-us=500 attempt=200 level=458767 wait-replicas=0 quiet=600 "
     "cast=tA0tB0tC0 off=lossy,quick,jump",
     quiet_helps},
    {"java-alone", "Java clients whose clocks agree, nothing stops, one key each: no theft", 1, 150,
     "off=all straight-walls one-java-key=1 java-ttl=60000 ttl=1000 hold=2000 until=60000 "
     "cast=jA0jB0jC0jD0",
     java_is_safe},
    {"java-in-time", "jobs end 2M + L before their stamp: no theft, though losers undercut", 1, 300,
     JAVA "skew=100 delay-us=20000 java-slack=385", java_is_in_time},
    {"java-skew-steal", "no slack, clocks that differ: the fast one steals from the slow one", 1,
     100, JAVA "skew=500 delay-us=100 java-slack=2", java_robs_in_time},
    {"java-race",
     "slack for a DEL, clocks that agree: losers of a race undercut, and leave orphans", 1, 200,
     JAVA "skew=0 delay-us=60000 java-slack=100", java_races},
    {"java-slack", "slack for 2M or for L, but not for both", 1, 400,
     JAVA "skew=100 delay-us=20000 java-slack=205", java_undercuts},
    {"java-late-del", "jobs outlast their stamp: their DEL lets a third one in", 1, 100,
     JAVA "skew=0 delay-us=100 java-slack=-500", java_deletes_late},
    {"java-beyond-m", "slack for 2M + L, and clocks beyond M", 1, 100,
     JAVA "skew=600 delay-us=20000 java-slack=385", java_robs_in_time},
    {"java-beyond-l", "slack for 2M + L, and attempts slower than L", 1, 400,
     JAVA "skew=100 delay-us=150000 java-slack=430", java_undercuts},
    {"java-steps-short", "slack for 2M + L, and clocks that step within M during a job", 1, 400,
     JAVA "skew=300 delay-us=20000 java-slack=780 step=30", java_undercuts},
    {"java-skew", "Java clients whose clocks differ steal from each other", 1, 100,
     "off=all cast=jA0jB0jC0jD0", java_robs},
    {"java-flag", "one flag for all keys: a client that failed deletes another's lock", 1, 100,
     "off=all straight-walls one-java-key=0 java-ttl=60000 ttl=1000 hold=2000 until=60000 "
     "cast=jA0jA1jB0jB1jC0",
     java_robs},
#ifdef TL_COMPAT
    {"stamps-rest", "locks with stamps rest, and no Java client acquires them before the end", 1,
     300, "stamps rests", stamps_rest},
    {"stamps", "clients of every kind share keys with Java clients", 1, 1000, "stamps",
     stamps_are_shared},
    {"cluster-stamps", "stamps and Java services in a Redis Cluster, as they are drawn", 1, 60,
     "cluster-stamps", NULL},
    {"cluster-phases", "clients follow the phase of their slot, up and down, while slots move", 1,
     150, "cluster-phases", slots_have_phases},
    {"cluster-phases-drop-in", "the same with services that have the drop-in for Java", 1, 150,
     "cluster-phases drop-ins", drop_ins_in_slots},
    {"cluster-atomic-phases", "the same where slots move at one moment", 1, 40,
     "cluster-atomic=phases", NULL},
    {"cluster-stamps-moves", "the slots of stamps stay open for lifetimes: none is lost", 1, 20,
     CLUSTER_STAMPS "move=100", open_stamps_are_kept},
    {"cluster-stamps-lossy", "the same where answers are lost", 1, 40,
     CLUSTER_STAMPS "move=100 lose-reply=10000 reset=5000 starve=2000", open_stamps_are_kept},
    {"cluster-stamps-late",
     "threads run late while slots move to and fro: no stamp is lost by that", 1, 60,
     CLUSTER_STAMPS "own-ttl=1200 hold=1500 idle=30 attempt=600 move=4 starve=100000",
     open_stamps_are_kept},
    {"cluster-stamps-alike", "the same in whole seconds, where stamps of several are alike", 81, 40,
     CLUSTER_STAMPS
     "java-ttl=3000 ttl=3000 own-ttl=3000 java-writes=3000 hold=150 idle=15 dialect=12 "
     "java-sleep=10 move=40 lose-reply=30000 reset=10000",
     open_stamps_are_kept},
    {"stamps-slewed", "the same with stamps", 1, 150,
     "stamps drift-ppm=101500 slew=30 off=lossy,quick,jump,forget", slewing_harms_nobody},
    {"bridge-losers", "racing losers overwrite a holder's stamp: known, and taken back", 1, 150,
     BRIDGE, losers_are_known},
    {"bridge-to-the-end", "beside one Java client whose jobs run up to their stamp", 1, 300,
     BRIDGE "cast=bA0bB0jC0 java-slack=0 lag=10 delay-us=800", nobody_is_robbed},
    {"bridge-beyond-m", "clocks beyond M: locks are stolen, and their holders are told", 1, 100,
     BRIDGE "walls=700 ahead", robbed_and_told},
    {"bridge-thief-gone", "clocks that step beyond M: the next stamp looks like a loser's", 1, 400,
     BRIDGE "walls=400 step=20", stolen_back},
    {"bridge-beyond-l", "attempts slower than L: a loser undercuts the cap", 1, 200,
     BRIDGE "slow-javas=1 slow=100000", legacy_two_at_once},
    {"bridge-shorter-java", "Java lifetimes shorter than T_legacy: a loser undercuts the cap", 1,
     400, RACES "java-writes=900 cast=bA0jB0jC0jD0jD0", legacy_two_at_once},
    {"bridge-by-hand", "nobody renews: what a loser leaves is all that holds the lock", 1, 500,
     RACES "cast=bA0jB0jC0jD0jD0", nobody_is_robbed},
    {"bridge-by-hand-crowd", "the same among many, and messages that take long", 1, 100,
     RACES "cast=bA0jB0jC0jD0jD0jB0jC0 own-ttl=2100 hold=6000 idle=300 java-sleep=1600 crash=300 "
           "delay-us=20000 slow=100000",
     nobody_is_robbed},
    {"bridge-equal-long", "an own lifetime of more than twice T_legacy would be asked for", 1, 400,
     BRIDGE "java-ttl=60 java-writes=60 ttl=60 margin=1 walls=1 lag=8 java-slack=10 own-ttl=125 "
            "delay-us=700 attempt=12 connect=100 hold=15 idle=5 java-sleep=3 until=4000 crash=100 "
            "pause=0 lose-reply=200000 cast=bA0jB0jC0jD0jB0",
     stamps_are_shared_by_script},
    {"bridge-short", "an own lifetime that leaves no validity would be asked for", 1, 100,
     BRIDGE "own-ttl=45", stamps_are_served},
    {"bridge-late-del", "late DELs let Java clients in; S keeps tidelock clients apart", 1, 200,
     BRIDGE "late-dels=1", late_dels_let_in},
    {"watch", "without EVAL, by WATCH, on their own clocks, beside Java clients", 1, 200, WATCH,
     transactions_hold},
    {"watch-late",
     "transactions that lie in buffers: what has touched the sidecar meanwhile stops them", 1, 400,
     WATCH "stuck=60000 reset=60000 lose-reply=40000 idle=20 hold=300 cast=sA0sB0sC0jD0",
     late_transactions_do_nothing},
    {"watch-parts", "memory is full for a while: transactions are executed in part", 1, 200,
     WATCH "oom=100", parts_are_undone},
    {"watch-to-the-end", "beside one Java client whose jobs run up to their stamp", 1, 300,
     WATCH "cast=sA0sB0jC0 java-slack=0 hold=4000", nobody_is_robbed},
    {"watch-by-hand", "nobody renews: what a loser leaves is all that holds the lock", 1, 300,
     RACES "no-eval=1 level=132114 cast=sA0jB0jC0jD0jD0 own-ttl=2100 hold=6000", nobody_is_robbed},
    {"plain-strict", "without scripts: SETNX, GET, GETSET and DEL beside Java clients", 1, 300,
     STRICT, plain_is_exclusive},
    {"plain-races", "slow attempts: what a loser leaves is all that holds the lock", 1, 500,
     RACES "cast=rA0jB0jC0jD0jD0", plain_is_exclusive},
    {"plain-to-the-end", "beside one Java client whose jobs run up to their stamp", 1, 300,
     STRICT "cast=rA0jC0 java-slack=0", plain_is_exclusive},
    {"plain-same-moment", "clients whose clocks agree write the same bytes", 1, 600,
     STRICT "walls=0 margin=1 delay-us=30000 lag=400 java-slack=402 own-ttl=1500 idle=50 hold=50 "
            "cast=rA0rB0rC0rD0",
     plain_is_exclusive},
    {"plain-sent-late", "requests in flight for longer than L", 1, 500,
     RACES "lag=120 java-slack=240 delay-us=18000 slow=100000 attempt=1000 cast=rA0rB0rC0rD0",
     plain_is_exclusive},
    {"plain-own-lag", "our own GETSET is executed later than L", 1, 600,
     STRICT "slow-own=1 stuck=60000 reset=60000 cast=rA0rB0rC0rD0", two_at_once},
    {"phases", "migrations of all kinds, without what few seeds have", 1, 100, "tame migration",
     NULL},
    {"migration", "from stamps to tokens and back, step by step: nobody waits for it", 1, 30,
     MIGRATION "plan=12321 until=60000 cast=oA0aA0aB0jC0aC1jD1aD1", migrates_without_outage},
    {"phase-slewed", "clocks are slewed to and fro within the bound: no lease outlasts its phase",
     1, 50,
     MIGRATION "drift-ppm=101500 slew=30 plan=123210123210 pause=300 stuck=60000 "
               "cast=oA0aB0aC0jD0",
     slewing_harms_nobody},
    {"phase-begin-anywhere", "a register that begins two phases away from a client is refused", 1,
     40, MIGRATION "first-phase=-1 plan=3 cast=oA0aB0aC0aD0", begins_next_door},
    {"phase-begin",
     "leases without a register are longer than its own, and answers are lost: no step too early",
     1, 100,
     MIGRATION "first-phase=-1 own-lease=5000 plan=123 lose-reply=50000 partition=100 until=10000 "
               "cast=oA0oD0aB0aC0aD0",
     begins_with_leases},
    {"phase-vanished", "a server without persistence restarts: clients refuse to lock", 1, 40,
     MIGRATION "forget=300 cast=oA0aB0aC0jD0", gone_is_refused},
    {"phase-failover", "replicas that have everything take over: nobody is refused, nobody waits",
     1, 20,
     MIGRATION
     "replicas=2 failover=300 wait-replicas=0 plan=123210 until=60000 cast=oA0aA0aB0jC0aC1jD1aD1",
     survives_failovers},
    {"phase-undone",
     "replicas without the last step take over: refused, until the register is made again", 1, 80,
     MIGRATION "replicas=1 lossy=300 wait-replicas=1 wait-ms=100 cast=oA0oB0aA0aB0aC0aD0",
     undone_is_refused},
    {"phase-undone-rivals",
     "the same with four operators: none leads on from what it saw at another server", 1, 100,
     MIGRATION "replicas=1 lossy=700 ttl=300 wait-replicas=0 cast=oA0oB0oC0oD0aC0aD0",
     led_on_from_here},
    {"phase-undone-java", "the same with Java: it starts when the replicas have what lets it", 1,
     200,
     MIGRATION
     "replicas=1 lossy=17 ttl=6000 wait-replicas=0 first-phase=2 lease=150 own-lease=150 cast=oA0aB0jC0",
     undone_beside_java},
    {"phase-missed", "cut off while the register moves two steps: it is read before anything else",
     1, 60, MIGRATION "partition=200 plan=123210123210 cast=oA0aB0aC0aD0", missed_is_read},
    {"phase-late-take", "takes that were in flight when the phase changed come too late", 1, 160,
     MIGRATION "pause=300 stuck=60000 reset=20000 slow=60000 plan=123210123210 attempt=2000 "
               "cast=oA0aB0aC0aD0",
     late_is_refused},
    {"phase-overtaken",
     "while an attempt goes on another thread reads a later phase, for a lease that is over: it acts by its own",
     251, 50, "migration", overtaken_is_kept},
    {"phase-answers-lost",
     "a take by token goes unanswered, and by stamp it finds itself the holder: with new fences",
     460, 1,
     MIGRATION "lease=300 own-lease=300 attempt=200 first-phase=3 lose-reply=300000 slow=200000 "
               "plan=12321232123212321 cast=oA0oB0aB0aC0aD0",
     NULL},
    {"phase-rivals", "two operators of different minds: of two steps from one epoch one is made", 1,
     40, MIGRATION "slow=60000 cast=oA0oB0oC0oD0aC0aD0", rivals_are_told},
    {"phase-deaf",
     "clients whose requests arrive and who hear nothing: a confirmed epoch is not enough", 1, 100,
     MIGRATION "partition=100 lose-reply=100000 slow=200000 plan=123210123210 attempt=200 "
               "cast=oA0oB0aB0aC0aD0",
     missed_is_read},
    {"tool", "from stamps to tokens and back with the shipped command, as the runbook says", 1, 60,
     TOOL "first-phase=-1 plan=12321 cast=oA0oB0aA0jB0aC1jD1aD1", the_tool_migrates},
    {"tool-forgotten",
     "a Java service that nobody stops: the command names it, and moves only while it doesn't run",
     1, 60, TOOL "idle=4000 forgets=2 cast=oA0jB0aC0aD0", the_tool_sees_it},
    {"tool-elsewhere",
     "SETNX on keys of others: doubt, unless MONITOR is read throughout, which names nobody", 1, 60,
     TOOL "outside=1 idle=1000 cast=oA0aB0aC0jD1", the_tool_tells_keys_apart},
    {"tool-rivals", "commands crash, are held up and interrupted, and have rivals", 1, 50,
     TOOL "crash=300 stuck=60000 reset=30000 slow=60000 pause=300 cast=oA0oB0oC0aA0jB0bB0aC0tD0jC0",
     the_tools_race},
    {"tool-counts-lost",
     "the watch begins anew, then an answer with the counts is lost: MONITOR decides, read throughout",
     1251, 50, "migration=tool", monitor_decides},
    {"tool-stale",
     "who has looked before a colleague's step says where to go: the step after that isn't made",
     40000001, 20, "migration", the_step_is_meant},
    {"tool-failovers", "failovers lose steps that weren't confirmed: registers are made again", 1,
     60, TOOL "replicas=2 lossy=150 cast=oA0oB0oC0aA0jB0aC0aD0", the_tool_sets_right},
    {"tool-first-look", "the watch lasts from its first look at the counts, however late that is",
     1616, 1,
     TOOL "slow=200000 lose-request=20000 hold=30 idle=2000 delay-us=10000 forgets=2 cast=oA0jB0",
     NULL},
    {"drop-in", "migrations of all kinds with Java's drop-in, and all that may go wrong with them",
     1, 300, "migration drop-ins", NULL},
    {"drop-in-follows",
     "services with the drop-in go from stamps to tokens and back, beside C and Java", 1, 30,
     MIGRATION "plan=12321 hold=1500 until=60000 cast=oA0dA0aB0jC0aC1jD1dD1dB0", drop_ins_follow},
    {"drop-in-queue",
     "services that hear nothing poll in the queue: each has its turn, and C its own", 1, 40,
     MIGRATION "first-phase=3 plan=3 cast=oA0dA0dB0dC0aA0aB0aC0aD0", pollers_have_turns},
    {"drop-in-races", "legacy clients that lose a race leave their stamp: a renewal replaces it", 1,
     200,
     MIGRATION
     "plan=1 first-phase=1 margin=60 walls=60 lag=350 java-slack=470 delay-us=50000 hold=2500 "
     "attempt=600 java-sleep=1200 idle=900 until=40000 crash=100 lease=2000 own-lease=2000 "
     "cast=dA0dA0jB0jC0jD0jD0",
     drop_ins_race},
    {"drop-in-losers", "the same with quick clients, and holders that count on a lock to its end",
     1, 150, IN_BRIDGE "cast=dA0dB0jC0jD0", drop_ins_are_beside},
    {"drop-in-to-the-end", "beside one Java client whose jobs run up to their stamp", 1, 300,
     IN_BRIDGE "cast=dA0dB0jC0 java-slack=0 lag=10 delay-us=800", drop_ins_are_beside},
    {"drop-in-late", "garbage is collected between request and reply, and answers are lost", 1, 150,
     MIGRATION "pause=300 stuck=60000 reset=20000 slow=60000 lose-reply=50000 plan=123210123210 "
               "attempt=2000 cast=oA0dA0dB0aC0dD0jC0",
     drop_ins_are_late},
    {"drop-in-suspended",
     "machines are suspended, and System.nanoTime stands still: the wall clock counts", 1, 200,
     MIGRATION "suspends=1 pause=500 drift-ppm=101500 plan=123210123210 cast=oA0dA0dB0dC0dD0aC0",
     drop_ins_survive},
    {"drop-in-failover", "replicas that have everything take over: nobody loses a lock", 1, 20,
     MIGRATION "replicas=2 failover=300 wait-replicas=0 plan=123210 until=60000 "
               "cast=oA0dA0aA0dB0jC0dC1jD1aD1",
     drop_ins_fail_over},
    {"drop-in-undone",
     "failovers lose the last step: a service that knows it refuses the one before", 1, 80,
     MIGRATION "replicas=1 lossy=300 wait-replicas=1 wait-ms=100 cast=oA0oB0dA0aA0dB0aC0dD0",
     drop_ins_refuse},
    {"drop-in-tool", "the same with the shipped command, as the runbook says", 1, 60,
     TOOL "first-phase=-1 plan=12321 cast=oA0oB0dA0jB0aC1jD1dD1dC0", drop_ins_with_tool},
#endif
    {"quorum", "three, five or seven independent servers, and all that may go wrong with them", 1,
     100, "quorum", NULL},
    {"quorum-flushed", "the same where servers lose their scripts all the time", 1, 30,
     "quorum flush=40", NULL},
    {"quorum-calm",
     "nothing goes wrong: each gets it soon, and few requests about votes are needed", 1, 40,
     QUORUM "twice=0 cast=tA0tB0tC0tD0tA0TB0", all_is_calm},
    {"quorum-two-down", "two of five servers are dead: locks are given, kept and extended at risk",
     1, 40, QUORUM "dead=2 cast=tA0tB0tC0tA1", two_are_spared},
    {"quorum-three-down", "three of five are dead: nobody is given a lock, and all are told so", 1,
     40, QUORUM "dead=3 cast=tA0tB0tC0TA1", nobody_has_it},
    {"quorum-in-turn", "all restart empty, one after the other, long enough apart: no lock is lost",
     1, 30, QUORUM "forget=100 in-turn=1 quiet=600 ttl=300 hold=6000 until=20000 cast=tA0tB0tC0tA1",
     in_turn_is_kept},
    {"quorum-emptied",
     "any of them restart empty, with quiet_ms: locks are lost, none is held twice", 1, 50,
     QUORUM "forget=60 quiet=600 ttl=300 hold=2000 until=20000 cast=tA0tB0tC0tA1",
     emptied_harms_nobody},
    {"quorum-forgets", "the same without quiet_ms: a lock is held twice, and its holders are told",
     1, 50, QUORUM "forget=60 quiet=0 ttl=300 hold=2000 until=20000 cast=tA0tB0tC0tA1",
     forgotten_overlaps},
    {"quorum-late",
     "votes lie in buffers, and come after the drops that take them back: what may come is refused",
     1, 80,
     QUORUM "stuck=40000 reset=20000 slow=60000 lose-request=10000 ttl=2000 attempt=300 idle=50 "
            "hold=100 cast=tA0tB0tC0TA0",
     late_votes_harm_nobody},
    {"quorum-apart",
     "hosts and servers are cut off from each other: at risk, saved or lost in time", 1, 50,
     QUORUM "aside=60 cast=tA0tB0tC0TD0", apart_is_lost},
    {"quorum-twice", "two places of the URL lead to one server: that votes once", 1, 40,
     QUORUM "twice=2 reset=10000 server-pause=200 cast=tA0tB0tC0", same_votes_once},
    {"quorum-deleted", "keys are deleted by hand at one server: holders get that vote again", 1, 60,
     QUORUM "delete=50 hold=8000 cast=tA0tB0tC0", deleted_is_given_again},
    {"etcd", "an etcd of one, three or five members, and all that may go wrong with it", 1, 100,
     "etcd", NULL},
    {"etcd-calm", "nothing goes wrong: who is first in line has the lock at once", 1, 40,
     ETCD "cast=tA0tB0tC0tD0tA0TB0", line_is_calm},
    {"etcd-killed", "members die, the leader too, and come back: what is held stays held", 1, 40,
     ETCD "restart=60 hold=6000 cast=tA0tB0tC0TA0", killed_is_succeeded},
    {"etcd-woken",
     "members stop, also for longer than a lease, and wake with requests queued: nobody is harmed",
     1, 80, ETCD "server-pause=60 hold=6000 cast=tA0tB0tC0TA0", woken_harms_nobody},
    {"etcd-alone", "two of three are dead or cut off for a while, with watches open", 1, 60,
     ETCD "restart=25 aside=40 hold=6000 cast=tA0tB0tC0TA0", unled_is_lost},
    {"etcd-two-down", "two of three are dead: nobody is given a lock, and all are told so", 1, 20,
     ETCD "dead=2 cast=tA0tB0TC0", unled_is_told},
    {"etcd-doubt", "errors of what is executed later: nothing is left behind, nobody is harmed", 1,
     80, ETCD "doubt=60 cast=tA0tB0tC0TA0", doubts_are_cleared},
    {"etcd-full", "no space is left for a while: what was done with the last of it is undone", 1,
     80, ETCD "oom=60 cast=tA0tB0tC0TA0", last_space_is_cleared},
    {"etcd-compacted", "the history is compacted between a key and the watch of it", 1, 60,
     ETCD "flush=3 slow=20000 delay-us=5000 cast=tA0tB0tC0tD0", compacted_is_looked_at},
    {"etcd-logins", "tokens of logins run out: who asks logs in again", 1, 40,
     ETCD "users=1 deny=40 cast=tA0tB0tC0TA0", logins_are_made_again},
    {"etcd-refused-then-doubt",
     "what was refused is asked again, and told as an error but executed later: no lease that is "
     "being revoked is the next lock's",
     1, 20, ETCD "users=1 hold=500 idle=100 doubt=150 deny=150 cast=tA0tB0", refused_and_doubted},
    {"etcd-wedged", "streams of watches go silent: who waits looks now and then", 1, 40,
     ETCD "wedge=30 cast=tA0tB0tC0tD0", wedged_is_looked_at},
    {"etcd-rates", "clocks at either edge of the bound, and slewed: no lease ends too soon", 1, 40,
     ETCD "drift-ppm=101500 slew=30 server-pause=150 hold=6000 cast=tA0tB0tC0TA0",
     rates_are_allowed_for},
    {"etcd-line", "many stand in line, and some of them die there", 1, 40,
     ETCD "crash=150 hold=600 idle=100 cast=tA0tB0tC0tD0tA0tB0tC0tD0TA0", dead_are_passed_over},
    {"etcd-crowd", "callers share a connection, and threads get the processor late", 181, 20,
     ETCD "starve=60000 slow=40000 crowds=1 own-clients=0 attempt=300 cast=tA0tA0tA0tA1tB0tB1",
     in_line},
    {"etcd-rests", "locks rest on etcd: no request that comes late ends that or moves its end", 1,
     40, "etcd rests", etcd_rests},
    {"etcd-for-less",
     "extensions for less whose answers are lost: the key lasts as long as is believed", 1, 60,
     ETCD "ttl=8000 lose-reply=60000 slow=60000 reset=20000 hold=6000 cast=tA0tB0tC0TA0",
     less_is_kept},
    {"java-and-tokens", "on one key: Java throws, tokens wait, no two tokens", 1, 300,
     "cast=tA0tB0jC0jD0 level=458767 off=lossy,forget,quick,jump", java_meets_tokens},
    {"java-robs-tokens", "a late DEL takes a token away; its holder is told, S keeps others out", 1,
     400, "cast=tA0tB0jC0jD0jC1 one-java-key=0 level=458767 off=lossy,forget,quick,jump",
     java_robs_tokens},
    {"plain-and-tokens", "SET NX PX clients and tokens exclude each other", 1, 300,
     "cast=tA0pB0tC0pD0", shares_with_plain},
    {"deleted-by-hand", "K is deleted: S keeps other tokens out while the holder believes", 1, 200,
     "delete=100 cast=tA0tB0tC0", sidecar_binds},
    {"extended-for-less",
     "a first renewal is an extension for less than is left, and the key is deleted by hand", 7251,
     1, "", NULL},
    {"stuck-requests", "requests lie in buffers: the late ones are refused", 1, 300,
     "stuck=40000 reset=20000 level=458767", late_takes_are_refused},
    {"spent-forgotten",
     "a take in a buffer, its drop and then another's: `spent` has forgotten it, an orphan", 1, 200,
     "off=all stuck=60000 reset=60000 level=458767 ttl=1000 hold=20 idle=20 attempt=1000 "
     "delay-us=2000 wait-replicas=0 quiet=0 cast=tA0tB0tC0tD0",
     spent_is_forgotten},
    {"sidecars-go",
     "hours of a lock that is seldom wanted: its sidecar goes, late takes are refused", 1, 200,
     "until=600000 ttl=5000 hold=3000 idle=150000 attempt=2000 stuck=60000 reset=20000 off=flush,restart,delete,forget "
     "level=458767 quiet=0 cast=tA0tB0tC0",
     sidecars_go},
    {"tight-limits", "limits hardly longer than a round trip: who asks again hears that it holds",
     1, 300,
     "off=all lose-reply=60000 crash=300 delay-us=20000 attempt=40 connect=400 ttl=1000 until=10000 "
     "wait-replicas=0 quiet=0 level=458767 cast=tA0tB0tC0",
     asks_again_late},
    {"cut-off", "a holder is cut off: at risk, saved or lost in time", 1, 200,
     "off=all partition=150 cast=tA0tB0tC0", cut_off_is_lost},
    {"prompt", "nothing goes wrong: a released lock passes on at once, by announcement", 1, 210,
     "tame off=all ttl=8000 hold=100 idle=50 delay-us=20000 attempt=2000 connect=5000 until=30000 wait-replicas=0 cast=tA0tB0tC0tD0",
     announced},
    {"old-server",
     "before 3.2 S binds by the sender's idea of the time: late enough, also for a script "
     "that was sent again",
     1, 600, "level=132625 delete=60 flush=100 slow=50000 cast=tA0tB0tC0", sidecar_binds},
    {"crashes", "holders crash: their locks are taken over", 1, 100, "off=all crash=200",
     crashed_is_succeeded},
    {"server-fast", "the server's clock gains 40 %: keys expire while their holders believe", 1, 80,
     "rate=S400000 drift-ppm=100 ttl=8000 delay-us=200 until=60000 idle=100 cast=tA0tB0tC0tD0 off=all "
     "partition=100",
     rates_tell},
    {"clocks-beyond", "clocks are slewed beyond the bound: fences hold, and holders are told", 1,
     200, "off=all beyond=50 partition=200 drift-ppm=100 cast=tA0tB0tC0", beyond_is_told},
    {"forks", "processes fork while threads wait, renew and hand over: children are refused", 1, 60,
     "off=all fork=200 own-clients=0 cast=tA0tA0tA0tB0TA0", forks_harm_nobody},
    {"forbidden", "commands are forbidden for a while: nobody is harmed, and all goes on", 1, 150,
     "off=all deny=100 lacks=0 cast=tA0tB0tC0pD0", forbidden_is_endured},
    {"cluster", "a cluster's node refuses renewals of several keys at once: they are asked apart",
     1, 200,
     "off=all cluster=1 level=458767 own-clients=0 hold=8000 ttl=3000 delay-us=1000 "
     "cast=tA0tA1tB0tB1tA0",
     asks_apart},
    {"slots-moved",
     "a cluster's slots go elsewhere and come back: held locks are told, others wait", 1, 300,
     "off=all move=100 cluster=1 level=458767 ttl=3000 delay-us=1000 cast=tA0tB0tC0TA1pD1",
     moves_harm_nobody},
    {"slots-elsewhere",
     "they are elsewhere, or on the way, when clients begin: also to old servers", 1, 200,
     "off=all slots=1 cluster=1 level=328206 cast=tA0tB0tC0tA1TB1", moves_are_told},
    {"slot-with-others",
     "some keys of a slot have left, and their neighbours' renewals are asked for apart: they are kept",
     1, 300,
     "off=all move=100 cluster=1 one-slot=1 level=458767 own-clients=0 hold=8000 ttl=3000 "
     "late-us=0 delay-us=1000 wait-replicas=0 cast=tA0tA1tA2tB0tB1",
     others_are_kept},
    {"refused-at-its-limit", "who is refused just when its time is up is told what by", 1063, 1,
     "off=all cast=tA0tB0tC0tA1TB1pD0 cluster=1 level=458767 move=100", NULL},
    {"keys-withheld", "keys are forbidden for a while: nobody is harmed, and all goes on", 1, 300,
     "off=all withhold=100 touches=0 level=458767 cast=tA0tB0tC0TA1pD1", keys_are_asked_for},
    {"keys-of-others",
     "the keys of one lock are forbidden: the others' renewals are asked for apart, and kept", 1,
     300,
     "off=all withhold=100 touches=0 level=458767 own-clients=0 hold=8000 ttl=3000 "
     "late-us=0 delay-us=1000 wait-replicas=0 cast=tA0tA1tA2tB0tB1",
     others_are_kept},
    {"keys-of-others-shared", "the same where callers share a connection", 1, 300,
     "off=all withhold=100 touches=0 level=458767 own-clients=0 crowds=1 hold=8000 ttl=3000 "
     "late-us=0 delay-us=1000 wait-replicas=0 cast=tA0tA1tA2tB0tB1",
     others_are_kept},
    {"sidecar-withheld", "a user may touch K, but not its sidecar: no lock is had", 1, 100,
     "off=all touches=1 level=458767 cast=tA0tB0TC0tA1", nothing_is_had},
    {"machine-paused",
     "a virtual machine is paused, its clocks too: it believes for longer, and is told; fences hold",
     1, 200, "off=all freeze=300 cast=tA0tB0tC0", paused_is_told},
    {"paused-and-noticed", "the same with a VMClock: nobody believes for longer", 1, 300,
     "off=all freeze=300 vmclock=1 cast=tA0tB0tC0", paused_is_noticed},
    {"paused-any", "with a VMClock a pause breaks no promise, whatever else goes wrong", 1, 300,
     "freeze=1000 vmclock=1", paused_with_all},
    {"paused-sentinel", "the same behind Sentinels", 1, 300, "sentinel freeze=1000 vmclock=1",
     paused_with_all},
    {"paused-quorum", "the same with a majority of servers", 1, 300, "quorum freeze=1000 vmclock=1",
     paused_with_all},
    {"paused-etcd", "the same on etcd", 1, 1000, "etcd freeze=1000 vmclock=1", paused_with_all},
    {"paused-stamps", "the same with stamps", 1, 1500, "stamps freeze=1000 vmclock=1",
     paused_with_all},
    {"paused-migration", "the same in a migration", 1, 300, "migration freeze=1000 vmclock=1",
     paused_with_all},
    {"one-is-far", "one host is far from the server, the others are near: nobody is harmed", 1, 300,
     "distances=100,3,3,3 own-clients=0 cast=tA0tA0tB0tC0tD0 off=lossy,quick,jump,forget,freeze",
     distance_harms_nobody},
    {"promoted-ahead",
     "who takes over has a clock that is ahead: a lock is given twice; it is seen", 1, 300,
     "off=all failover=300 replicas=2 ttl=3000 ahead-us=6000000 wait-replicas=0 cast=tA0tB0tC0",
     ahead_is_seen},
    {"promoted-behind", "who takes over has a clock that is behind, and is there at once: no harm",
     1, 300,
     "off=all failover=300 replicas=2 ttl=3000 goes-back=1 wait-replicas=0 ahead-us=0 "
     "cast=tA0tB0tC0",
     back_harms_nobody},
    {"stalled",
     "a holder that gives no sign of life loses its lock in time; one that does keeps it", 1, 60,
     "stall=700000", stalls_are_told},
    {"stalled-quorum", "and where a majority of servers has it", 1, 60, "quorum stall=700000",
     stalls_are_told},
    {"stalled-etcd", "and on etcd", 1, 60, "etcd stall=700000", stalls_are_told},
    {"rests", "a lock that rests is acquired by nobody before its end, and soon after", 1, 300,
     "rests", rests_last},
    {"rests-quorum", "and where a majority of servers says so", 1, 100, "quorum rests", rests_last},
    {"rests-cluster", "and while slots move and masters fail over", 1, 200, "cluster-fleet rests",
     rests_last_alone},
#ifdef TL_COMPAT
    {"stamps-forbidden",
     "a renewal may not write the sidecar: K is left as S knows it, and the lock is free in time",
     16, 1, "stamps", NULL},
    {"stamps-denied", "commands are forbidden for a while, with stamps: nobody is harmed", 1, 100,
     BRIDGE "deny=100 lacks=0", forbidden_is_endured},
    {"stamps-moved", "a cluster's slots go elsewhere and come back, with stamps: nobody is harmed",
     1, 150, BRIDGE "move=100 cluster=1 cast=bA0sB0bA1jC0jD1", moves_harm_nobody},
    {"stamps-withheld", "keys are forbidden for a while, with stamps: nobody is harmed", 1, 150,
     BRIDGE "withhold=100 touches=0 cast=bA0sB0bA1jC0jD1", keys_are_asked_for},
    {"stamps-failover", "replicas that have everything take over: stamps hold beside Java", 1, 200,
     BRIDGE "replicas=2 failover=300 ahead-us=0 wait-replicas=0 cast=bA0sB0bA0jC0jD0",
     stamps_survive_failovers},
    {"stamps-failover-loses", "a replica without the last writes takes over: given twice", 1, 300,
     BRIDGE "replicas=1 lossy=50 ahead-us=0 wait-replicas=0 cast=bA0bB0bC0", stamps_are_lost},
    {"stamps-confirmed", "the same, but every replica confirms each lock: it is given once", 1, 300,
     BRIDGE "replicas=1 lossy=50 ahead-us=0 wait-replicas=1 wait-ms=200 cast=bA0bB0bC0",
     stamps_are_confirmed},
    {"pipe", "waiters that overwrite at each poll (ms-pipe): known, and taken back", 1, 200, PIPE,
     polls_are_known},
    {"pipe-far", "they compare late with what they have overwritten: no lock is stolen", 1, 200,
     PIPE_FAR "by-hand=1", polls_are_known},
    {"pipe-short",
     "the same, with the least lifetime of one's own, by holders that stop now and then", 1, 400,
     PIPE_FAR "own-ttl=1121 pause=40 slow=50000 hold=5000 java-sleep=500 until=8000 "
              "cast=bA0jB0jC0jD0jB0",
     polls_are_known},
    {"pipe-short-crowd", "a poll soon after a renewal, by a fast clock, is no theft", 17617, 1,
     "stamps dialect=3", NULL},
    {"pipe-watch", "the same by WATCH, by clocks of one's own", 1, 400,
     PIPE_FAR "no-eval=1 level=132114 by-hand=1 cast=sA0jB0jC0", polls_harm_nobody},
    {"pipe-watch-short", "and by the server's clock, with the least lifetime", 1, 400,
     PIPE_FAR "no-eval=1 own-ttl=1121 pause=40 slow=50000 hold=5000 java-sleep=500 "
              "until=8000 cast=sA0jB0jC0jD0jB0",
     polls_harm_nobody},
    {"pipe-strict", "and with the four commands alone", 1, 400, PIPE_FAR "cast=rA0jB0jC0",
     polls_harm_nobody},
    {"pipe-beyond-m", "and with clocks beyond M: locks are stolen, and their holders are told", 1,
     200, PIPE "walls=1500 ahead", robbed_and_told},
    {"stamps-in-seconds",
     "legacy clients whose times are whole seconds, rounded down (php-s): no lock is stolen", 1,
     400, BRIDGE "dialect=12 java-ttl=4000 java-writes=4000 ttl=4000 own-ttl=4000",
     seconds_are_shared},
    {"released-by-two",
     "a release outlasts its time while the keeper releases what it has lost: one goes on",
     40016936, 1, "stamps", NULL},
    {"stamps-in-the-same-words",
     "a legacy client of the same host writes the very second that ours was refused", 40010008, 1,
     "stamps", NULL},
    {"cluster-atomic-stamps", "stamps and Java services while slots change masters at one moment",
     1, 60, "cluster-atomic=stamps", NULL},
#endif
    {"cluster-atomic", "slots that change masters at one moment, as they are drawn", 1, 60,
     "cluster-atomic", NULL},
    {"cluster-atomic-moves",
     "nothing else goes wrong, and lifetimes are longer than the pause: no lock is lost, nor at risk",
     1, 20, ATOMIC "same-clocks ttl=32000 hold=40000 move=2 until=60000", moves_at_once},
    {"cluster-atomic-led",
     "replicas take over at either end, as is asked for: the slot stays or moves, and no lock is lost",
     1, 40,
     ATOMIC "same-clocks ttl=300 hold=900 hand-over=300 until=8000 move=60 switch=100 ways=16",
     stays_at_once},
    {"cluster-atomic-dies", "masters die, or are parted from the others and stop: quiet_ms T", 1,
     40,
     ATOMIC
     "same-clocks ttl=300 hold=900 hand-over=300 until=20000 move=60 switch=200 ways=11 quiet=600",
     moves_at_once_quietly},
    {"cluster-atomic-doubt",
     "the source writes again before it has heard of the target: a lock is held twice", 1, 60,
     ATOMIC DOUBT, doubt_overlaps},
    {"cluster-atomic-returns",
     "the same with quiet_ms T and a second, to a master that had the slot before: its reign goes on",
     91, 60, ATOMIC DOUBT "quiet=1600", doubt_overlaps},
    {"cluster-atomic-reign",
     "the same where operators delete the reign keys: no lock is held twice", 1, 60,
     ATOMIC DOUBT "quiet=1600 clears-reign", doubt_is_waited_for},
    {"cluster-atomic-deaf",
     "the same, and the source hears nothing for 15 s, though clients reach it: one is held twice",
     1, 100, ATOMIC DEAF "deaf=15000", doubt_overlaps},
    {"cluster-atomic-empty",
     "the target restarts without data in the midst of a move: with quiet_ms T no lock is held twice",
     1, 60, ATOMIC EMPTIES "quiet=600", emptied_is_waited_for},
    {"cluster-atomic-emptied", "the same without quiet_ms: a lock is held twice", 1, 60,
     ATOMIC EMPTIES, emptied_overlaps},
    {"cluster-atomic-behind",
     "the target's clock is behind, and locks that expire in the pause come back there: for a while",
     1, 400, ATOMIC BEHIND, behind_comes_back},
    {"cluster-atomic-ahead", "the target's clock is ahead, and locks end early: one is held twice",
     1, 60, ATOMIC "move=60 uphill", uphill_overlaps},
};

const size_t sim_scenario_count = sizeof sim_scenarios / sizeof *sim_scenarios;

const sim_scenario *sim_scenario_named(const char *name) {
    for (size_t i = 0; i < sim_scenario_count; i++)
        if (strcmp(sim_scenarios[i].name, name) == 0)
            return &sim_scenarios[i];
    return NULL;
}
