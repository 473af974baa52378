/*
 * The machines of a majority on five real servers, over real connections: servers killed, restarted empty one after the
 * other, stopped while a vote is on its way, and a crowd that waits while the first server is stopped. Whatever happens,
 * no two believe, and numbers increase.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - two of five independent servers killed: held; three killed: LOST in time, and no other client acquires it.
 * - all restarted empty in turn: held, and no other client acquires it.
 * - one stopped with a vote in flight: nothing is left over.
 * - the first one stopped while twenty wait: each acquires, and fences only rise.
 */
#include <poll.h>
#include <stdlib.h>

#include "clock_wait.h"
#include "protocol/quorum_acquire.h"
#include "protocol/quorum_renew.h"
#include "protocol/quorum_settle.h"
#include "real_redis.h"
#include "real_server.h"
#include "tests.h"
#include "transport/conn.h"

#define SERVERS 5
#define PEERS 20
#define KEY "quorum"
#define SIDECAR "tidelock:{quorum}"
#define DRIFT_PPM 1000

typedef enum { IDLE, ACQUIRING, HOLDING, RELEASING } state;

typedef struct peer peer;

typedef struct {
    peer *of;
    unsigned index;
    tl_conn *conn;
} link;

struct peer {
    link links[SERVERS];
    tl_server server[SERVERS];
    state state;
    union {
        tl_quorum_acquisition acquire;
        tl_quorum_renewal renew;
        tl_quorum_settlement settle;
    } m;
    tl_job job;
    tl_ballots ballots;
    uintptr_t serial; /* of the machine */
    tl_mono until;
    bool detached;
    tl_err code;
    tl_mono deadline;
};

static real_redis *servers[SERVERS];
static tl_endpoint endpoints[SERVERS];
static peer peers[PEERS];
static uint64_t last_fence;
static int64_t attempt_ms; /* of all that is asked */
static unsigned holds, requests, losses;

/* ---- what must hold --------------------------------------------------------------------------------- */

/* Who takes back, in the background, what is left of other votes, holds the lock meanwhile. */
static bool has(const peer *p) {
    return p->state == HOLDING || (p->state == ACQUIRING && p->detached && p->code == TL_OK);
}

static bool believes(const peer *p, tl_mono now) {
    return has(p) && tl__mono_before(now, p->deadline);
}

static void check_alone(const peer *p) {
    tl_mono now = tl__mono_now();
    for (unsigned i = 0; i < PEERS; i++)
        if (&peers[i] != p && believes(&peers[i], now))
            fail_msg("two hold it");
}

/* ---- running a machine -------------------------------------------------------------------------------- */

static void run(peer *p, tl_event e);

static void begin_machine(peer *p, state s) {
    p->state = s;
    p->detached = false;
    p->serial++;
    run(p, (tl_event){.kind = TL_START});
}

static void hold(peer *p) {
    const tl_quorum_acquisition *a = &p->m.acquire;
    assert_true(a->result.acquire.fence > last_fence);
    last_fence = a->result.acquire.fence;
    holds++;
    p->job = a->job;
    p->job.hold.fence = a->result.acquire.fence;
    p->job.hold.proof = a->result.proof;
    p->ballots = a->ballots;
    p->deadline = a->result.deadline;
    check_alone(p);
}

/* It isn't renewed before the acquisition is over: here a peer runs one machine at a time. */
static void keep(peer *p) {
    if (!tl__mono_before(tl__mono_now(), p->deadline)) {
        p->state = IDLE;
        p->code = TL_ELOST;
        losses++;
        return;
    }
    tl__quorum_renew_init(&p->m.renew, &p->job, &p->ballots, TL_NEVER, false, 7);
    begin_machine(p, HOLDING);
}

static void told(peer *p) {
    p->code = ((const tl_result *)&p->m)->code;
    if (p->state == ACQUIRING && p->code == TL_OK)
        hold(p);
}

static void ended(peer *p) {
    if (!p->detached)
        told(p);
    p->until = TL_NEVER;
    losses += p->state == HOLDING;
    if (p->state == ACQUIRING && p->code == TL_OK)
        keep(p);
    else
        p->state = IDLE;
}

static void ask(peer *p, const tl_send *send, tl_mono now) {
    unsigned i = (unsigned)__builtin_ctz(send->to);
    requests += send->count > 0;
    if (tl__conn_send(p->links[i].conn, send, (void *)p->serial, now))
        fail_msg("a request can't be queued");
}

static void run(peer *p, tl_event e) {
    tl_step step = p->state == ACQUIRING ? tl__quorum_acquire_step
                   : p->state == HOLDING ? tl__quorum_renew_step
                                         : tl__quorum_settle_step;
    tl_out out;
    for (;;) {
        e.now = e.now.ns ? e.now : tl__mono_now();
        e.server = e.servers = p->server;
        tl__out_clear(&out);
        tl_status status = step(&p->m, &e, &out);
        if (out.has_bracket)
            (void)tl__anchor_learn(&p->server[e.from].anchor, out.bracket, e.now, DRIFT_PPM);
        if (p->state == HOLDING)
            p->deadline = p->m.renew.result.deadline;
        if (status == TL_END) {
            ended(p);
            return;
        }
        if (status == TL_DETACH) {
            told(p);
            p->detached = true;
            p->serial++;
        }
        if (out.sends > 0)
            ask(p, &out.send, e.now);
        p->until = out.until;
        if (tl__mono_before(e.now, p->until))
            return;
        e = (tl_event){.kind = TL_TIMER, .now = e.now};
    }
}

static void answered(void *ctx, const tl_answer *a) {
    link *l = ctx;
    if (a->cookie != (void *)l->of->serial || l->of->state == IDLE)
        return;
    tl_event e = {.kind = a->ok ? TL_REPLY : TL_FAILED,
                  .now = a->ok ? a->received : tl__mono_now(),
                  .from = (uint8_t)l->index,
                  .asked = {.ticket = a->ticket, .sent = a->sent}};
    if (a->ok)
        e.replied = (tl_replied){.reply = a->reply, .count = a->count};
    else
        e.failed = (tl_failure){.maybe_sent = a->maybe_sent,
                                .why = a->why,
                                .sys_errno = a->sys_errno,
                                .absent = a->absent,
                                .message = a->message};
    run(l->of, e);
}

static void up(void *ctx, const tl_interval *bracket, tl_mono now) {
    link *l = ctx;
    if (bracket)
        (void)tl__anchor_renew(&l->of->server[l->index].anchor, *bracket, now, DRIFT_PPM);
}

/* ---- the loop ------------------------------------------------------------------------------------------ */

static void turn(tl_mono limit) {
    struct pollfd fds[PEERS * SERVERS];
    unsigned n = 0;
    tl_mono now = tl__mono_now(), until = limit;
    for (unsigned i = 0; i < PEERS; i++) {
        until = tl__mono_min(until, peers[i].state == IDLE ? TL_NEVER : peers[i].until);
        for (unsigned j = 0; j < SERVERS; j++, n++) {
            const tl_conn *c = peers[i].links[j].conn;
            fds[n] = (struct pollfd){.fd = tl__conn_fd(c), .events = tl__conn_events(c)};
            until = tl__mono_min(until, tl__conn_until(c));
        }
    }
    int64_t ms = tl__ms_until(now, until);
    (void)poll(fds, n, ms < 0 ? 0 : ms > 20 ? 20 : (int)ms);
    for (unsigned i = 0; i < n; i++)
        tl__conn_drive(peers[i / SERVERS].links[i % SERVERS].conn, tl__mono_now());
    for (unsigned i = 0; i < PEERS; i++)
        if (peers[i].state != IDLE && !tl__mono_before(tl__mono_now(), peers[i].until))
            run(&peers[i], (tl_event){.kind = TL_TIMER});
}

static void pass(int64_t ms) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), ms);
    while (tl__mono_before(tl__mono_now(), end))
        turn(end);
}

/* It ends, or has an answer that is final: who has acquired, and takes back what is left of votes, holds it when that is over. */
static void settle(const peer *p, state s) {
    tl_mono end = tl__mono_add_ms(tl__mono_now(), 4 * SOON_MS);
    while (p->state == s && !(p->detached && !(s == ACQUIRING && p->code == TL_OK))) {
        assert_true(tl__mono_before(tl__mono_now(), end));
        turn(end);
    }
}

/* ---- what is done ---------------------------------------------------------------------------------------- */

static void acquire(peer *p, int64_t ttl_ms, int64_t quiet_ms, int64_t wait_ms) {
    static const tl_retry retry = {.kind = TL_RETRY_AUTO};
    p->job = (tl_job){.key = TL_LITERAL(KEY),
                      .sidecar = TL_LITERAL(SIDECAR),
                      .slot = tl__slot_tag(tl__hash_slot(TL_LITERAL(KEY))),
                      .owner = TL_LITERAL("host 1 test"),
                      .ttl_ms = ttl_ms,
                      .attempt_ms = attempt_ms,
                      .acquire = {.quiet_ms = quiet_ms}};
    p->job.token = tl__token_draw();
    tl__quorum_acquire_init(&p->m.acquire, &p->job, SERVERS, &retry, wait_ms, 2000,
                            (uint64_t)tl__mono_now().ns);
    begin_machine(p, ACQUIRING);
}

static void release(peer *p) {
    tl_job job = p->job;
    tl_ballots ballots = p->m.renew.ballots;
    job.hold.believed = p->deadline;
    tl__quorum_settle_init(&p->m.settle, &job, &ballots, TL_RELEASE, 7);
    begin_machine(p, RELEASING);
}

static void have(peer *p, int64_t ttl_ms, int64_t quiet_ms) {
    acquire(p, ttl_ms, quiet_ms, 2 * SOON_MS);
    settle(p, ACQUIRING);
    assert_int_equal(p->state, HOLDING);
}

static void give(peer *p) {
    release(p);
    settle(p, RELEASING);
    assert_int_equal(p->code, TL_OK);
}

static unsigned first(void) {
    return tl__quorum_first(TL_LITERAL(KEY), SERVERS);
}

static int set_up(void **state) {
    (void)state;
    tl_error err;
    last_fence = 0;
    attempt_ms = SOON_MS;
    for (unsigned i = 0; i < SERVERS; i++) {
        servers[i] = real_redis_start(NULL);
        assert_int_equal(tl__endpoint_parse(&endpoints[i], NULL, real_redis_url(servers[i]), &err),
                         TL_OK);
    }
    for (unsigned i = 0; i < PEERS; i++)
        for (unsigned j = 0; j < SERVERS; j++) {
            link *l = &peers[i].links[j];
            const tl_conn_limits limits = {.connect_ms = SOON_MS};
            const tl_conn_calls calls = {.answer = answered, .up = up, .ctx = l};
            *l = (link){.of = &peers[i], .index = j};
            l->conn = tl__conn_new(&endpoints[j], &limits, &calls);
            assert_non_null(l->conn);
            peers[i].server[j].drift_ppm = DRIFT_PPM;
        }
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    for (unsigned i = 0; i < PEERS; i++) {
        peers[i].serial++;
        for (unsigned j = 0; j < SERVERS; j++)
            tl__conn_free(peers[i].links[j].conn);
    }
    memset(peers, 0, sizeof peers);
    for (unsigned i = 0; i < SERVERS; i++)
        real_redis_free(servers[i]);
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* ---- what happens ------------------------------------------------------------------------------------------ */

/* It is asked of all servers that it be renewed, and is. */
static void renew(peer *p) {
    const tl_mono before = p->deadline;
    const clock_wait wait = clock_wait_begin(SOON_MS);
    for (uint8_t i = 0; i < SERVERS; i++)
        run(p, (tl_event){.kind = TL_WOKEN, .from = i});
    while (p->state == HOLDING && !tl__mono_before(before, p->deadline)) {
        assert_true(clock_wait_more(&wait));
        turn(tl__mono_add_ms(tl__mono_now(), 20));
    }
    assert_int_equal(p->state, HOLDING);
}

#define SAFE_MS clock_patient_ms(30000) /* whatever stands still for seconds */

/* It holds the lock by each server's vote, not by those of the majority that answered first. */
static void renew_all(peer *p) {
    const clock_wait wait = clock_wait_begin(SOON_MS);
    unsigned missing;
    do {
        assert_true(clock_wait_more(&wait));
        renew(p);
        missing = 0;
        for (unsigned i = 0; i < SERVERS; i++)
            missing += !tl__mono_before(tl__mono_now(), p->m.renew.ballots.until[i]) ||
                       real_redis_int(servers[i], "EXISTS %s", KEY) != 1;
    } while (missing > 0);
}

TEST(two_of_five_may_be_killed) {
    have(&peers[0], SAFE_MS, 0);
    real_redis_kill(servers[1]);
    real_redis_kill(servers[3]);
    renew(&peers[0]);
    acquire(&peers[1], SAFE_MS, 0, 0);
    settle(&peers[1], ACQUIRING);
    assert_int_equal(peers[1].code, TL_EBUSY);
    give(&peers[0]);
    have(&peers[2], SAFE_MS, 0);
    give(&peers[2]);
}

TEST(with_three_of_five_killed_it_is_lost_in_time_and_nobody_gets_it) {
    const clock_wait limit = clock_wait_begin(2 * SOON_MS);
    attempt_ms = clock_patient_ms(500);
    do { /* until it isn't over as soon as it is had, on a busy machine */
        assert_true(clock_wait_more(&limit));
        acquire(&peers[0], 1000, 0, SOON_MS);
        settle(&peers[0], ACQUIRING);
    } while (peers[0].state != HOLDING);
    tl_mono killed = tl__mono_now();
    for (unsigned i = 0; i < 3; i++)
        real_redis_kill(servers[i]);
    settle(&peers[0], HOLDING);
    assert_int_equal(peers[0].code, TL_ELOST);
    assert_true(tl__ms_until(killed, tl__mono_now()) <= 1000 + SLACK_MS);
    acquire(&peers[1], 1000, 0, 300);
    settle(&peers[1], ACQUIRING);
    assert_int_not_equal(peers[1].code, TL_OK);
}

/* Each forgets all. The holder has each vote for it anew; who contends gets nothing of a server that has forgotten. */
TEST(all_may_be_restarted_empty_in_turn) {
    NEEDS_SERVER(REAL_RUN_ID);
    have(&peers[0], SAFE_MS, 0);
    renew_all(&peers[0]);
    acquire(&peers[1], SAFE_MS, SAFE_MS, 20 * SOON_MS);
    for (unsigned i = 0; i < SERVERS; i++) {
        real_redis_kill(servers[i]);
        real_redis_restart(servers[i]);
        assert_int_equal(real_redis_int(servers[i], "DBSIZE"), 0);
        renew_all(&peers[0]);
    }
    assert_int_equal(peers[1].state, ACQUIRING);
    give(&peers[0]);
    assert_int_equal(peers[1].state, ACQUIRING);
    run(&peers[1], (tl_event){.kind = TL_CANCEL});
    settle(&peers[1], ACQUIRING);
    have(&peers[2], SAFE_MS, clock_patient_ms(1000)); /* who waits for less has it sooner */
    give(&peers[2]);
}

/* By a server that is stopped with the vote in its sockets; false: it was asked too soon or too late for that. */
static bool is_held_in_doubt(void) {
    do { /* until its connection is there */
        have(&peers[0], 30000, 0);
        give(&peers[0]);
    } while (peers[0].ballots.until[2].ns == 0);
    real_redis_freeze(servers[2]);
    have(&peers[0], 30000, 0);
    if (peers[0].ballots.doubted & 4)
        return true;
    real_redis_thaw(servers[2]);
    give(&peers[0]);
    return false;
}

/* The vote is carried out when all is over, and leaves nothing. */
TEST(a_vote_that_is_carried_out_after_its_release_leaves_nothing) {
    attempt_ms = clock_patient_ms(500);
    for (unsigned i = 0; i < 3; i++) {
        const clock_wait wait = clock_wait_begin(4 * SOON_MS);
        while (!is_held_in_doubt())
            assert_true(clock_wait_more(&wait));
        release(&peers[0]);
        settle(&peers[0], RELEASING);
        assert_true(peers[0].code == TL_OK || peers[0].code == TL_EUNCERTAIN); /* in haste */
        if (i > 0)
            pass(600); /* longer than an attempt: the connection is another by then */
        real_redis_thaw(servers[2]);
        tl_mono end = tl__mono_add_ms(tl__mono_now(), 2 * SOON_MS);
        while (peers[0].state != IDLE && tl__mono_before(tl__mono_now(), end))
            turn(end);
        assert_int_equal(peers[0].state, IDLE);
        pass(100);
        assert_int_equal(real_redis_int(servers[2], "EXISTS %s", KEY), 0);
    }
}

TEST(twenty_get_it_one_after_the_other_while_the_first_server_is_stopped) {
    unsigned asked = requests, left = PEERS;
    have(&peers[0], SAFE_MS, 0);
    give(&peers[0]);
    attempt_ms = clock_patient_ms(500);
    real_redis_freeze(servers[first()]);
    tl_mono began = tl__mono_now(), end = tl__mono_add_ms(began, 2 * SOON_MS);
    for (unsigned i = 0; i < PEERS; i++)
        acquire(&peers[i], SAFE_MS, 0, 20 * SOON_MS);
    while (left > 0) {
        const unsigned before = left;
        assert_true(tl__mono_before(tl__mono_now(), end));
        turn(end);
        for (unsigned i = 0; i < PEERS; i++)
            if (peers[i].state == HOLDING) {
                left--;
                release(&peers[i]);
            } else if (peers[i].state == IDLE && peers[i].code == TL_ELOST) {
                left--;
                peers[i].code = TL_OK;
            }
        if (left < before)
            end = tl__mono_add_ms(tl__mono_now(), 2 * SOON_MS);
    }
    print_message("20 in %lld ms, %u requests\n", (long long)tl__ms_until(began, tl__mono_now()),
                  requests - asked);
    real_redis_thaw(servers[first()]);
    pass(500);
}
