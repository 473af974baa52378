/*
 * Five independent servers for SOAK_SECONDS (an hour): one fault after the other, drawn at random, while contenders count up
 * a number under a lock of a majority, and another lock is held all the time. A server that is killed has forgotten all. In
 * each round the number is exact, no two were sure of the lock at one moment, and fences went up; the held lock is lost only
 * where fewer than a majority could be asked, and then it is told. It prints how often each fault struck, and for how long
 * there was no service.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "contest.h"
#include "real_redis.h"
#include "soak.h"
#include "tests.h"

#define SECONDS 3600
#define SERVERS 5
#define CONTENDERS 6
#define FAULTS_MOST 3 /* in a round */
#define HOLD_MS 2     /* so that a round is no more holds than a contest remembers */
#define TTL_MS clock_patient_ms(1000)
#define QUIET_MS (4 * TTL_MS) /* the lifetime of the lock that is held all the time */
#define SERVICE_MS 120000     /* until it is there again, on a busy machine */
#define KEY "number"
#define HELD "held"
#define URL_SIZE 256

static real_redis *servers[SERVERS];
static char url[URL_SIZE];

static int tear_down(void **state) {
    contest_abandon();
    int failed = locks_clean_up(state);
    for (int i = 0; i < SERVERS; i++)
        real_redis_free(servers[i]);
    return failed;
}

TESTS_WITH(NULL, tear_down);

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait))
        soak_look_at_held();
}

/* ---- the lock that is held ----------------------------------------------------------------------- */

static int64_t longest_partial_ms;

/* The first server that doesn't have it; SERVERS: all do. */
static int without(void) {
    int i = 0;
    while (i < SERVERS && real_redis_int(servers[i], "EXISTS " HELD) == 1)
        i++;
    return i;
}

/* What has just been acquired may have a majority's votes and no more, and so may what others have forgotten. Who kills two of
 * that majority kills the lock. */
static void await_all_votes(const char *after) {
    const int64_t began_ms = clock_ms();
    const clock_wait wait = clock_wait_begin(SERVICE_MS);
    for (int i; !soak_is_lost() && (i = without()) < SERVERS;) {
        soak_look_at_held();
        if (!clock_wait_more(&wait))
            fail_msg("%s: server %d of %d does not have the held lock again after %d ms", after, i,
                     SERVERS, (int)SERVICE_MS);
    }
    const int64_t took_ms = clock_ms() - began_ms;
    longest_partial_ms = took_ms > longest_partial_ms ? took_ms : longest_partial_ms;
}

/* ---- faults -------------------------------------------------------------------------------------- */

/* So many, from one that is drawn on. */
static real_redis *victim(int first, int i) {
    return servers[(first + i) % SERVERS];
}

static int draw(void) {
    return (int)(random() % SERVERS);
}

static void kill_some(int count) {
    const int first = draw();
    for (int i = 0; i < count; i++)
        real_redis_kill(victim(first, 2 * i)); /* neighbours and others */
}

static void stop_some(int count) {
    const int first = draw();
    for (int i = 0; i < count; i++)
        real_redis_freeze(victim(first, i));
}

static void kill_one(void) {
    kill_some(1);
}

static void kill_two(void) {
    kill_some(2);
}

static void stop_one(void) {
    stop_some(1);
    let_pass(2 * TTL_MS);
}

static void stop_two(void) {
    stop_some(2);
    let_pass(2 * TTL_MS);
}

/* They wake with what was asked of them meanwhile. */
static void stop_two_for_a_moment(void) {
    stop_some(2);
    let_pass(random() % TTL_MS);
}

static void stop_three(void) {
    stop_some(3);
    let_pass(2 * QUIET_MS);
    for (int i = 0; i < SERVERS; i++)
        real_redis_thaw(servers[i]);
}

static void restart_all_in_turn(void) {
    for (int i = 0; i < SERVERS; i++) {
        real_redis_restart(servers[i]);
        let_pass(QUIET_MS + QUIET_MS / 2); /* until it may vote again */
        await_all_votes("restarted");
    }
}

/* Each is stopped for as long as its votes take, and carries out what others have done without. */
static void stop_each_for_a_moment(void) {
    for (int i = 0; i < 3 * SERVERS; i++) {
        real_redis_freeze(victim(i, 0));
        let_pass(random() % 40);
        real_redis_thaw(victim(i, 0));
        let_pass(random() % 10);
    }
}

static void end_all_connections(void) {
    for (int i = 0; i < SERVERS; i++)
        freeReplyObject(real_redis_command(servers[i], "CLIENT KILL TYPE normal"));
}

static void forget_all_scripts(void) {
    for (int i = 0; i < SERVERS; i++)
        freeReplyObject(real_redis_command(servers[i], "SCRIPT FLUSH"));
}

/* Of the lock that has them all. What is held for a moment may have a majority's, of which each counts. */
static void delete_two_votes(void) {
    const int first = draw();
    for (int i = 0; i < 2; i++)
        freeReplyObject(real_redis_command(victim(first, i), "DEL " HELD));
}

static void let_two_be_slow(void) {
    const int first = draw();
    for (int i = 0; i < 2; i++)
        freeReplyObject(real_redis_command(victim(first, i), "CLIENT PAUSE %d", (int)(TTL_MS / 2)));
}

static const struct {
    const char *name;
    void (*strike)(void);
    bool loses; /* what is held, as fewer than a majority can be asked */
} faults[] = {
    {"one is killed, and has forgotten all", kill_one, false},
    {"two are killed, and have forgotten all", kill_two, false},
    {"one is stopped", stop_one, false},
    {"two are stopped", stop_two, false},
    {"two are stopped for a moment", stop_two_for_a_moment, false},
    {"three are stopped", stop_three, true},
    {"all are restarted empty, one after the other", restart_all_in_turn, false},
    {"each is stopped for a moment, three times", stop_each_for_a_moment, false},
    {"all connections end", end_all_connections, false},
    {"all scripts are forgotten", forget_all_scripts, false},
    {"two votes are deleted by hand", delete_two_votes, false},
    {"two answer late", let_two_be_slow, false},
};
#define KINDS ((int)(sizeof faults / sizeof *faults))

static soak_tally tallies[KINDS];

/* All run, and vote; also for what is held, if it isn't lost. */
static void mend(void) {
    bool forgot = false;
    for (int i = 0; i < SERVERS; i++) {
        forgot = forgot || real_redis_pid(servers[i]) < 0;
        if (real_redis_pid(servers[i]) < 0)
            real_redis_restart(servers[i]);
        else
            real_redis_thaw(servers[i]);
    }
    let_pass(forgot ? QUIET_MS + QUIET_MS / 2
                    : QUIET_MS / 2); /* a missing vote is noticed at a third */
    await_all_votes("mended");
}

/* ---- rounds -------------------------------------------------------------------------------------- */

static void begin(tl_lock **locks, tl_client **clients) {
    for (int i = 0; i < CONTENDERS; i++)
        locks[i] = make_lock(clients[i / 2], KEY, TTL_MS);
    soak_hold(clients[0], HELD, QUIET_MS, SERVICE_MS);
    await_all_votes("acquired");
    contest_start(locks, CONTENDERS, 2 * TTL_MS, HOLD_MS);
    WAIT_FOR(SERVICE_MS, contest_counted() > CONTENDERS);
}

static void strike(int kind) {
    (void)contest_pause_ms();
    if (getenv("V"))
        print_message("%lld: %s, %d counted\n", (long long)clock_ms(), faults[kind].name,
                      contest_counted());
    faults[kind].strike();
    const int counted = contest_counted();
    const clock_wait wait = clock_wait_begin(SERVICE_MS);
    while (contest_counted() <= counted + CONTENDERS) {
        soak_look_at_held();
        if (!clock_wait_more(&wait))
            fail_msg("%s: no service for %d ms, %d counted: %s", faults[kind].name, SERVICE_MS,
                     contest_counted(), contest_said());
    }
    soak_struck(&tallies[kind], contest_pause_ms());
    mend();
}

/* true: the lock that was held all the time has been lost. */
static bool end(tl_lock **locks, bool may_lose) {
    int why;
    contest_end();
    const bool lost = soak_let_go(&why);
    if (lost && !may_lose)
        fail_msg("a held lock was lost though a majority could be asked: why %d", why);
    for (int i = 0; i < CONTENDERS; i++)
        drop_lock(locks[i]);
    return lost;
}

static void start_all(void) {
    (void)snprintf(url, sizeof url, "redis+quorum://");
    for (int i = 0; i < SERVERS; i++) {
        const size_t n = strlen(url);
        servers[i] = real_redis_start(NULL);
        (void)snprintf(url + n, sizeof url - n, "%s127.0.0.1:%d", i > 0 ? "," : "",
                       real_redis_port(servers[i]));
    }
}

TEST(the_number_is_exact_over_mixed_faults) {
    const int64_t until_ms = clock_ms() + 1000 * soak_number("SOAK_SECONDS", SECONDS);
    tl_client *clients[CONTENDERS / 2];
    tl_lock *locks[CONTENDERS];
    int rounds = 0, losses = 0;
    int64_t counted = 0;

    soak_seed();
    start_all();
    for (int i = 0; i < CONTENDERS / 2; i++)
        clients[i] = make_client_with(
            TL_CLIENT_OPTIONS(.url = url, .quiet_ms = QUIET_MS, .attempt_ms = TTL_MS / 2));
    do {
        bool may_lose = false;
        begin(locks, clients);
        for (int n = 1 + (int)(random() % FAULTS_MOST); n > 0; n--) {
            const int kind = (int)(random() % KINDS);
            may_lose = may_lose || faults[kind].loses;
            strike(kind);
        }
        counted += contest_counted();
        losses += end(locks, may_lose);
        rounds++;
    } while (clock_ms() < until_ms);
    for (int i = 0; i < KINDS; i++)
        soak_print(faults[i].name, &tallies[i]);
    soak_sum(
        "%d rounds, %lld times held, %d times a held lock was lost; else all had it again after %lld ms at "
        "most",
        rounds, (long long)counted, losses, (long long)longest_partial_ms);
}
