/*
 * Three masters and three replicas of a Redis Cluster for SOAK_SECONDS (an hour): one fault after the other, drawn at random,
 * while contenders count up a number under a lock, and another lock of the same slot is held all the time. In each round the
 * number is exact, no two were sure of the lock at one moment, and fences went up; the held lock is lost only where a
 * failover may forget it, and then it is told. Where a former master wakes and answers afterwards, nothing but the
 * fence is promised: there it is counted what comes of it. So may it be where a machine is so busy that a
 * master was replaced that nobody struck: such a round counts as one of these. It prints how often each fault struck, and for how long there was
 * no service.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cluster_faults.h"
#include "contest.h"
#include "real_server.h"
#include "soak.h"
#include "tests.h"

#define SECONDS 3600
#define CONTENDERS 6
#define FAULTS_MOST 3 /* in a round */
#define KINDS 16
#define HOLD_MS 2 /* so that a round is no more holds than a contest remembers */
#define TTL_MS clock_patient_ms(1000)
#define QUIET_MS (3 * TTL_MS) /* the longest lifetime of those that have it */
#define DOWN_MS 2000          /* a busy machine makes a node late without a fault */
#define SERVICE_MS 120000     /* until it is there again, on a busy machine */
#define KEY "{soak}number"
#define HELD "{soak}held"

/* Of a kind of rounds: by what their faults may do at most. */
typedef struct {
    int rounds, losses;
    contest_result all;
} sum;

static real_fleet *fleet;
static soak_tally tallies[KINDS];
static sum sums[CLUSTER_ANSWERS_AFTERWARDS + 1];
static int kinds;   /* of faults that this server has */
static int unmeant; /* rounds that count as of worse faults than were meant */

static int tear_down(void **state) {
    contest_abandon();
    int failed = locks_clean_up(state);
    real_fleet_free(fleet);
    return failed;
}

TESTS_WITH(NULL, tear_down);

static tl_client *client_with(int64_t quiet_ms) {
    return make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet), .quiet_ms = quiet_ms));
}

/* Where nothing is forgotten it outlasts a CLUSTER FAILOVER that comes to nothing and is begun again: each time clients are
 * paused for up to ten seconds. */
static int64_t held_ms(cluster_harm harm) {
    return harm == CLUSTER_FORGETS_NOTHING ? 40 * TTL_MS : QUIET_MS;
}

static void let_go(cluster_harm harm) {
    int why;
    bool lost = soak_let_go(&why);
    if (lost && harm == CLUSTER_FORGETS_NOTHING)
        fail_msg("a held lock was lost where nothing is forgotten: why %d", why);
    sums[harm].losses += lost;
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static void begin(tl_lock **locks, tl_client **clients, cluster_harm harm) {
    for (int i = 0; i < CONTENDERS; i++)
        locks[i] = make_lock(clients[i / 2], KEY, TTL_MS);
    soak_hold(clients[0], HELD, held_ms(harm), SERVICE_MS);
    contest_start(locks, CONTENDERS, 2 * TTL_MS, HOLD_MS);
    WAIT_FOR(SERVICE_MS, contest_counted() > CONTENDERS);
}

static void end(tl_lock **locks, cluster_harm harm) {
    sum *s = &sums[harm];
    const contest_result result = contest_tally();
    if (harm != CLUSTER_ANSWERS_AFTERWARDS)
        contest_demand(&result);
    s->rounds++;
    s->all.counted += result.counted;
    s->all.overlaps += result.overlaps;
    s->all.fences_back += result.fences_back;
    s->all.overwritten += result.overwritten;
    let_go(harm);
    for (int i = 0; i < CONTENDERS; i++)
        drop_lock(locks[i]);
}

static bool struck_more_than_meant(const cluster_fault *fault, unsigned before) {
    return __builtin_popcount(before & ~cluster_masters(fleet)) > fault->replaces;
}

/* What came of it, at worst, in a round that is for so much. */
static cluster_harm strike(int kind, cluster_harm harm) {
    const cluster_fault *fault = cluster_fault_at(fleet, kind);
    const unsigned before = cluster_masters(fleet);
    (void)contest_pause_ms();
    if (getenv("V"))
        print_message("%lld: %s, %d counted\n", (long long)clock_ms(), fault->name,
                      contest_counted());
    fault->strike(fleet, KEY);
    soak_look_at_held();
    const int counted = contest_counted();
    const clock_wait wait = clock_wait_begin(SERVICE_MS);
    while (contest_counted() <= counted + CONTENDERS) {
        soak_look_at_held();
        if (!clock_wait_more(&wait))
            fail_msg("%s: no service for %d ms, %d counted: %s", fault->name, SERVICE_MS,
                     contest_counted(), contest_said());
    }
    soak_struck(&tallies[kind], contest_pause_ms());
    real_fleet_mend(fleet);
    return struck_more_than_meant(fault, before) ? CLUSTER_ANSWERS_AFTERWARDS : harm;
}

static int count_kinds(void) {
    int n = 0;
    while (n < KINDS && cluster_fault_at(fleet, n))
        n++;
    return n;
}

/* One that does no more harm than this round is for; where a former master wakes that one comes first. */
static int draw_kind(cluster_harm harm, bool first) {
    int kind;
    do
        kind = (int)(random() % kinds);
    while (cluster_fault_at(fleet, kind)->harm > harm ||
           (first && cluster_fault_at(fleet, kind)->harm != harm));
    return kind;
}

static void play(tl_lock **locks, tl_client *clients[2][CONTENDERS / 2]) {
    const cluster_harm harm = (cluster_harm)(random() % (CLUSTER_ANSWERS_AFTERWARDS + 1));
    cluster_harm came = harm;
    begin(locks, clients[harm != CLUSTER_FORGETS_NOTHING], harm);
    for (int n = 1 + (int)(random() % FAULTS_MOST), i = 0; i < n; i++)
        came = strike(draw_kind(harm, i == 0), came);
    unmeant += came != harm;
    end(locks, came);
}

static void print_tallies(void) {
    static const char *const words[] = {"nothing was forgotten", "something was forgotten",
                                        "a former master answered"};
    for (int i = 0; i < kinds; i++)
        soak_print(cluster_fault_at(fleet, i)->name, &tallies[i]);
    for (int i = 0; i <= CLUSTER_ANSWERS_AFTERWARDS; i++)
        print_message(
            "%4d rounds in which %s: %d times held, %d twice at one moment, %d fences back, "
            "%d times a held lock was lost\n",
            sums[i].rounds, words[i], sums[i].all.counted, sums[i].all.overlaps,
            sums[i].all.fences_back, sums[i].losses);
    print_message(
        "%4d rounds of the last kind because of a busy machine alone; %d keys at two nodes\n",
        unmeant, real_fleet_doubles(fleet));
    soak_sum(
        "%d rounds, %d times held; where nothing was forgotten %d twice at one moment, %d lost",
        sums[0].rounds + sums[1].rounds + sums[2].rounds,
        sums[0].all.counted + sums[1].all.counted + sums[2].all.counted, sums[0].all.overlaps,
        sums[0].losses);
}

TEST(the_number_is_exact_over_mixed_faults) {
    const int64_t until_ms = clock_ms() + 1000 * soak_number("SOAK_SECONDS", SECONDS);
    const real_fleet_options options = {
        .password = "pw",
        .config = "save \"\"\nrepl-timeout 10\nrepl-ping-replica-period 1",
        .down_ms = DOWN_MS};
    tl_client *clients[2][CONTENDERS / 2];
    tl_lock *locks[CONTENDERS];

    soak_seed();
    real_server_use(getenv("CLUSTER_SERVER"));
    fleet = real_fleet_start_cluster(&options);
    kinds = count_kinds();
    for (int i = 0; i < CONTENDERS; i++)
        clients[i % 2][i / 2] = client_with(i % 2 ? QUIET_MS : 0);
    do {
        play(locks, clients);
    } while (clock_ms() < until_ms);
    print_tallies();
}
