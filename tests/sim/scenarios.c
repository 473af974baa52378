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

static bool two_and_lost(const sim_stats *s) {
    return s->two_holders > 0 && s->lost_taken + s->lost_gone > 0;
}

/* ---- or remedied ------------------------------------------------------------------------------- */

static bool quiet_helps(const sim_stats *s) {
    return s->two_holders == 0 && s->restarts > 0 && s->quiet_refused > 0;
}

static bool replicas_help(const sim_stats *s) {
    return s->two_holders == 0 && s->failovers > 0 && s->too_few > 0;
}

/* ---- legacy clients ---------------------------------------------------------------------------- */

static bool java_is_safe(const sim_stats *s) {
    return s->java_takes > 0 && s->java_robberies == 0 && s->java_overstays == 0;
}

static bool java_robs(const sim_stats *s) {
    return s->java_robberies > 0;
}

static bool java_meets_tokens(const sim_stats *s) {
    return s->java_throws > 0 && s->takes > 0 && s->java_takes > 0 && s->two_holders == 0;
}

static bool java_robs_tokens(const sim_stats *s) {
    return s->mixed_robberies > 0 && s->lost_taken + s->lost_gone > 0 && s->two_holders == 0;
}

/* ---- the token protocol alone ------------------------------------------------------------------ */

static bool shares_with_plain(const sim_stats *s) {
    return s->plain_takes > 0 && s->takes > 0;
}

static bool sidecar_binds(const sim_stats *s) {
    return s->deletes > 0 && s->bound_refused > 0 && s->lost_gone > 0;
}

static bool late_takes_are_refused(const sim_stats *s) {
    return s->late_refused > 0 && s->spent_refused > 0;
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

const sim_scenario sim_scenarios[] = {
    {"slow-clocks", "hosts' clocks lose 0.5 %: a holder believes for too long; the anchor sees it",
     1, 100,
     "slow-clocks=5000 ttl=8000 delay-us=200 until=60000 cast=tA0tB0tC0 off=all server-pause=100",
     two_and_drift_seen},
    {"clock-jump", "the server's clock jumps forward: a lock is given twice; the holder is told", 1,
     200, "jump=200 cast=tA0tB0tC0", two_and_step_seen},
    {"failover-loses", "a replica without the last writes takes over: a lock is given twice", 1,
     400, "lossy=150 replicas=1 wait-replicas=0 quiet=0 cast=tA0tB0tC0", two_and_lost},
    {"failover-confirmed", "the same, but every replica confirms each lock: it is given once", 1,
     400,
     "lossy=60 replicas=2 level=458767 delay-us=500 ttl=3000 wait-replicas=2 wait-ms=200 attempt=600 "
     "quiet=0 cast=tA0tB0tC0",
     replicas_help},
    {"restart-forgets", "a server without persistence restarts: a lock is given twice", 1, 200,
     "forget=300 quiet=0 cast=tA0tB0tC0", two_and_lost},
    {"restart-quiet", "the same, but nothing is granted until it is up for a lifetime", 1, 400,
     "forget=300 ttl=300 delay-us=500 attempt=200 wait-replicas=0 quiet=600 cast=tA0tB0tC0",
     quiet_helps},
    {"java-alone", "Java clients whose clocks agree, nothing stops, one key each: no robbery", 1,
     300,
     "off=all straight-walls one-java-key=1 java-ttl=60000 ttl=1000 hold=2000 until=60000 "
     "cast=jA0jB0jC0jD0",
     java_is_safe},
    {"java-skew", "Java clients whose clocks differ rob each other", 1, 100,
     "off=all cast=jA0jB0jC0jD0", java_robs},
    {"java-flag", "one flag for all keys: a client that failed deletes another's lock", 1, 100,
     "off=all straight-walls one-java-key=0 java-ttl=60000 ttl=1000 hold=2000 until=60000 "
     "cast=jA0jA1jB0jB1jC0",
     java_robs},
    {"java-and-tokens", "on one key: Java throws, tokens wait, no two tokens", 1, 300,
     "cast=tA0tB0jC0jD0 level=458767", java_meets_tokens},
    {"java-robs-tokens", "a late DEL takes a token away; its holder is told, S keeps others out", 1,
     400, "cast=tA0tB0jC0jD0jC1 one-java-key=0 level=458767", java_robs_tokens},
    {"plain-and-tokens", "SET NX PX clients and tokens exclude each other", 1, 300,
     "cast=tA0pB0tC0pD0", shares_with_plain},
    {"deleted-by-hand", "K is deleted: S keeps other tokens out while the holder believes", 1, 200,
     "delete=100 cast=tA0tB0tC0", sidecar_binds},
    {"stuck-requests", "requests lie in buffers: the late ones are refused", 1, 300,
     "stuck=40000 reset=20000 level=458767", late_takes_are_refused},
    {"cut-off", "a holder is cut off: at risk, saved or lost in time", 1, 200,
     "off=all partition=150 cast=tA0tB0tC0", cut_off_is_lost},
    {"sent-again-by-text", "before 3.2: a take sent again by its text still binds for long enough",
     35022, 1, "", NULL},
    {"executed-late", "before 3.2: so does one that was executed late, and asked for again", 138169,
     1, "", NULL},
    {"seen-at-reconnecting",
     "a clock that is another's after a reconnect: every lock is judged anew", 899, 1, "", NULL},
    {"prompt", "nothing goes wrong: a released lock passes on at once, by announcement", 1, 400,
     "off=all ttl=8000 hold=100 idle=50 delay-us=20000 attempt=2000 connect=5000 until=30000 wait-replicas=0 cast=tA0tB0tC0tD0",
     announced},
    {"old-server",
     "before 3.2 S binds by the sender's idea of the time: late enough, also for a script "
     "that was sent again",
     1, 600, "level=132625 delete=60 flush=100 slow=50000 cast=tA0tB0tC0", sidecar_binds},
    {"crashes", "holders crash: their locks are taken over", 1, 100, "off=all crash=200",
     crashed_is_succeeded},
};

const size_t sim_scenario_count = sizeof sim_scenarios / sizeof *sim_scenarios;

const sim_scenario *sim_scenario_named(const char *name) {
    for (size_t i = 0; i < sim_scenario_count; i++)
        if (strcmp(sim_scenarios[i].name, name) == 0)
            return &sim_scenarios[i];
    return NULL;
}
