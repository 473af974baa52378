/*
 * A master, two replicas and three Sentinels for SOAK_SECONDS (an hour): one fault after the other, drawn at random, while
 * contenders count up a number under a lock. In each round the number is exact, no two were sure of the lock at one
 * moment, and fences went up. It prints how often each fault struck, and for how long there was no service.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contest.h"
#include "sentinel_faults.h"
#include "soak.h"
#include "tests.h"

#define SECONDS 3600
#define CONTENDERS 6
#define FAULTS_MOST 3 /* in a round */
#define KINDS 16
#define HOLD_MS 2 /* so that a round is no more holds than a contest remembers */
#define TTL_MS clock_patient_ms(1000)
#define SERVICE_MS 120000 /* until it is there again, on a busy machine */

static real_fleet *fleet;
static soak_tally tallies[KINDS];

static int tear_down(void **state) {
    contest_abandon();
    int failed = locks_clean_up(state);
    real_fleet_free(fleet);
    return failed;
}

TESTS_WITH(NULL, tear_down);

static void begin(tl_lock **locks) {
    tl_client *client = NULL;
    for (int i = 0; i < CONTENDERS; i++) {
        if (i % 2 == 0)
            client = make_client_with(TL_CLIENT_OPTIONS(.url = real_fleet_url(fleet),
                                                        .sentinel_password = "spw",
                                                        .quiet_ms = SENTINEL_QUIET_MS(TTL_MS)));
        locks[i] = make_lock(client, "soak", TTL_MS);
    }
}

static void strike(int kind) {
    const sentinel_fault *fault = sentinel_fault_at(kind);
    (void)contest_pause_ms();
    if (getenv("V"))
        print_message("%lld: %s, %d counted\n", (long long)clock_ms(), fault->name,
                      contest_counted());
    fault->strike(fleet);
    const int counted = contest_counted();
    const clock_wait wait = clock_wait_begin(SERVICE_MS);
    while (contest_counted() <= counted + CONTENDERS)
        if (!clock_wait_more(&wait))
            fail_msg("%s: no service for %d ms, %d counted: %s", fault->name, SERVICE_MS,
                     contest_counted(), contest_said());
    soak_struck(&tallies[kind], contest_pause_ms());
    real_fleet_mend(fleet);
}

static int count_kinds(void) {
    int n = 0;
    while (n < KINDS && sentinel_fault_at(n))
        n++;
    return n;
}

static void print_tallies(int rounds, int64_t counted) {
    for (int i = 0; i < count_kinds(); i++)
        soak_print(sentinel_fault_at(i)->name, &tallies[i]);
    soak_sum("%d rounds, %lld times held", rounds, (long long)counted);
}

TEST(the_number_is_exact_over_mixed_faults) {
    const int64_t until_ms = clock_ms() + 1000 * soak_number("SOAK_SECONDS", SECONDS);
    const real_fleet_options options = {
        .gates = true, .password = "pw", .sentinel_password = "spw"};
    tl_lock *locks[CONTENDERS];
    int rounds = 0;
    int64_t counted = 0;

    soak_seed();
    fleet = real_fleet_start_sentinels(&options);
    begin(locks);
    do {
        contest_start(locks, CONTENDERS, 2 * TTL_MS, HOLD_MS);
        WAIT_FOR(SERVICE_MS, contest_counted() > CONTENDERS);
        for (int n = 1 + (int)(random() % FAULTS_MOST); n > 0; n--)
            strike((int)(random() % count_kinds()));
        counted += contest_counted();
        contest_end();
        rounds++;
    } while (clock_ms() < until_ms);
    print_tallies(rounds, counted);
}
