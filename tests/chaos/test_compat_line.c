/*
 * The waiting line while a fleet migrates: clients by phase stand there beside clients of tokens, as long as the phase
 * is that of tokens. Whatever becomes of the phase meanwhile, none of them is given a token where legacy clients may
 * run, and none waits in vain.
 * timeout: 240
 */
#include <time.h>

#include "arena.h"
#include "client/lock.h"
#include "wire/keys.h"
#include "wire/script.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define LEASE_MS 1000
#define FLOOR_MS 5000 /* who stands among the first looks so often, told or not */
#define PHASE "tidelock:phase:{default}"
#define LINE "tidelock:{" KEY "}:line"

static tl_client *client_by_phase_at(const char *url) {
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .protocol = TL_AUTO, .attempt_ms = SOON_MS,
                          .connect_ms = SOON_MS,
                          .legacy = &TL_LEGACY_OPTIONS(.clock_skew_max_ms = 1,
                                                       .legacy_delay_max_ms = 1,
                                                       .phase_lease_ms = LEASE_MS)));
}

static tl_client *client_by_phase(void) {
    return client_by_phase_at(real_redis_url(server));
}

static void set_phase(int phase, int epoch) {
    freeReplyObject(
        real_redis_command(server, "HMSET " PHASE " phase %d epoch %d lease_ms %d since 1 keys *",
                           phase, epoch, LEASE_MS));
}

/* Every client's record says that it has been told of this epoch. */
static bool have_confirmed(int epoch) {
    redisReply *reply = real_redis_command(server, "HVALS " PHASE ":clients");
    bool have = reply->elements > 0;
    for (size_t i = 0; i < reply->elements; i++)
        have = have && atoi(reply->element[i]->str) == epoch;
    freeReplyObject(reply);
    return have;
}

static void move_to(int phase, int epoch) {
    set_phase(phase, epoch);
    WAIT_FOR(SOON_MS, have_confirmed(epoch));
    const clock_wait lease = clock_wait_begin(LEASE_MS + 100);
    while (clock_wait_more(&lease)) {}
}

static int length(void) {
    return (int)real_redis_int(server, "ZCARD " LINE);
}

static tl_lock *lock_of(tl_client *client) {
    return make_lock(client, KEY, TTL_MS);
}

static tl_lock *held_by(tl_client *client) {
    tl_lock *lock = lock_of(client);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    return lock;
}

static acquiring *join(tl_lock *lock, int n) {
    acquiring *a = acquiring_begin(lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, length() == n);
    return a;
}

static void release(tl_lock *lock) {
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
}

static void has_turn(acquiring *a) {
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_OK);
}

/* What K holds: nothing, a stamp, or a token. */
static enum { NOTHING, STAMP, A_TOKEN } found(void) {
    redisReply *reply = real_redis_command(server, "GET " KEY);
    int is = reply->type != REDIS_REPLY_STRING                        ? NOTHING
             : strspn(reply->str, "0123456789") == strlen(reply->str) ? STAMP
                                                                      : A_TOKEN;
    freeReplyObject(reply);
    return is;
}

/* ---- in the phase of tokens ---------------------------------------------------------------------- */

TEST(clients_by_phase_and_of_tokens_come_in_the_order_of_their_joining) {
    enum { WAITERS = 6 };
    tl_lock *locks[WAITERS];
    acquiring *a[WAITERS];
    set_phase(3, 1);
    for (int by_phase = 0; by_phase <= 1; by_phase++) { /* the holder, too */
        tl_lock *holder = held_by(by_phase ? client_by_phase() : client_direct());
        uint64_t fence = tl_lock_fence(holder);
        for (int i = 0; i < WAITERS; i++) {
            locks[i] = lock_of(i / 2 % 2 ? client_direct() : client_by_phase());
            a[i] = join(locks[i], i + 1);
        }
        release(holder);
        for (int i = 0; i < WAITERS; i++) {
            has_turn(a[i]);
            for (int j = i + 1; j < WAITERS; j++)
                assert_false(atomic_load(&a[j]->done));
            assert_int_equal(found(), A_TOKEN);
            assert_belief_is_true(locks[i]);
            assert_true(tl_lock_fence(locks[i]) > fence);
            fence = tl_lock_fence(locks[i]);
            release(locks[i]);
        }
        assert_int_equal(length(), 0);
        assert_int_equal(found(), NOTHING);
        drop_lock(holder);
    }
}

TEST(a_process_by_phase_passes_nothing_on_past_another_in_line) {
    set_phase(3, 1);
    tl_client *one = client_by_phase();
    tl_lock *holder = held_by(client_direct()), *other = lock_of(client_direct());
    tl_lock *first = lock_of(one), *second = lock_of(one);
    acquiring *a = join(first, 1), *b = acquiring_begin(second, TL_FOREVER);
    acquiring *c = join(other, 2);
    release(holder);
    has_turn(a);
    release(first);
    has_turn(c);
    assert_false(atomic_load(&b->done));
    release(other);
    has_turn(b);
}

TEST(who_gives_up_leaves_the_line) {
    set_phase(3, 1);
    tl_lock *holder = held_by(client_direct());
    tl_lock *first = lock_of(client_by_phase()), *second = lock_of(client_by_phase());
    acquiring *a = join(first, 1), *b = join(second, 2);
    tl_lock_cancel(first);
    ASSERT_RESULT(acquiring_end(a, SOON_MS), TL_ECANCELLED);
    WAIT_FOR(SOON_MS, length() == 1);
    release(holder);
    has_turn(b);
    assert_int_equal(length(), 0);
}

TEST(who_is_called_and_does_not_come_costs_a_few_seconds_once) {
    set_phase(3, 1);
    tl_lock *holder = held_by(client_direct()), *next = lock_of(client_direct());
    tl_client *dead = connected(client_by_phase_at(proxy_url(gate)));
    acquiring *a = join(lock_of(dead), 1), *b = join(next, 2);
    proxy_stop(gate);
    release(holder);
    int kept = found(); /* free for him, as long as he has to come */
    assert_true(kept == NOTHING || (kept == A_TOKEN && tl_lock_remaining_ms(next) > 0));
    ASSERT_RESULT(acquiring_end(b, FLOOR_MS + 2 * SOON_MS), TL_OK);
    proxy_heal(gate);
    release(next);
    ASSERT_RESULT(acquiring_end(a, 2 * SOON_MS), TL_OK);
}

/* ---- beside one that can only poll ---------------------------------------------------------------- */

/* As the drop-in for Java does: it has EVAL alone, and hears nothing. */
typedef struct {
    const char *token;
    char place[64]; /* and when it was told so */
} poller;

static redisReply *eval(tl_script name, const char *token, const char *rest[6]) {
    char fence[TL_COUNTER_SIZE], sidecar[64];
    tl_bytes text = tl__script_text(name), key = tl__bytes_of(KEY);
    tl_slot_tag tag = tl__slot_tag(tl__hash_slot(key));
    tl_bytes s = tl__sidecar(sidecar, key, NULL), f = tl__counter(fence, &tag);
    redisReply *reply = real_redis_command(
        server, "EVAL %b 4 %b %b %b %s %s %s %s %s %s %s %s", text.p, text.n, key.p, key.n, s.p,
        s.n, f.p, f.n, LINE, token, rest[0], rest[1], rest[2], rest[3], rest[4], rest[5]);
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        fail_msg("%s", reply ? reply->str : "no reply");
    return reply;
}

/* Has it the lock by now? */
static bool polls(poller *p) {
    redisReply *r = eval(TL_SCRIPT_JOIN, p->token,
                         (const char *[]){"30000?", "0", "db1 7 java", "50", "poll", p->place});
    bool has = r->element[0]->integer == 1;
    (void)snprintf(p->place, sizeof p->place, "%s %s%06d", r->element[6]->str, r->element[4]->str,
                   atoi(r->element[5]->str));
    freeReplyObject(r);
    return has;
}

TEST(one_that_polls_comes_in_the_order_of_its_joining) {
    poller p = {.token = "00000000-0000-4000-8000-0000000000aa"};
    set_phase(3, 1);
    tl_lock *holder = held_by(client_by_phase()), *next = lock_of(client_by_phase());
    assert_false(polls(&p));
    acquiring *a = join(next, 2);
    release(holder);
    if (!polls(&p)) { /* more than its second has passed, on a busy machine: it is the first yet */
        has_turn(a);
        release(next);
        WAIT_FOR(SOON_MS, polls(&p));
        a = join(next, 1);
    }
    assert_int_equal(found(), A_TOKEN);
    assert_false(atomic_load(&a->done));
    freeReplyObject(
        eval(TL_SCRIPT_RELEASE, p.token, (const char *[]){"62000", "", "", "", "", ""}));
    has_turn(a);
    assert_int_equal(length(), 0);
}

TEST(one_that_polls_no_more_costs_its_turn_at_most) {
    poller p = {.token = "00000000-0000-4000-8000-0000000000aa"};
    poller q = {.token = "00000000-0000-4000-8000-0000000000bb"};
    set_phase(3, 1);
    tl_lock *holder = held_by(client_by_phase()), *next = lock_of(client_by_phase());
    assert_false(polls(&p));
    assert_false(polls(&q));
    acquiring *a = join(next, 3);
    release(holder);
    has_turn(a);
    assert_int_equal(length(), 0);
}

/* ---- when the phase changes ---------------------------------------------------------------------- */

TEST(when_the_phase_comes_who_waits_goes_on_in_line) {
    set_phase(2, 1);
    tl_lock *holder = held_by(client_by_phase()), *waiter = lock_of(client_by_phase());
    acquiring *a = acquiring_begin(waiter, TL_FOREVER);
    WAIT_FOR(SOON_MS, have_confirmed(1) && real_redis_int(server, "HLEN " PHASE ":clients") == 2);
    assert_int_equal(length(), 0);
    set_phase(3, 2);
    WAIT_FOR(FLOOR_MS + 2 * SOON_MS, length() == 1);
    release(holder);
    has_turn(a);
}

/* Nobody who waits knows yet, when the lock is released: he is called as if nothing had happened, and looks. */
TEST(who_waits_in_line_while_the_phase_goes_back_goes_on_by_stamps) {
    enum { WAITERS = 4 };
    tl_lock *locks[WAITERS];
    acquiring *a[WAITERS];
    for (int phase = 1, epoch = 0; phase >= 0; phase--) {
        set_phase(3, ++epoch);
        tl_lock *holder = held_by(client_by_phase());
        for (int i = 0; i < WAITERS; i++) {
            locks[i] = lock_of(client_by_phase());
            a[i] = join(locks[i], i + 1);
        }
        for (int to = 2; to >= phase; to--)
            move_to(to, ++epoch);
        bool unaware = length() == WAITERS;
        release(holder);
        for (int left = WAITERS, i = 0; left > 0; i = (i + 1) % WAITERS) {
            assert_int_not_equal(found(), A_TOKEN);
            if (!a[i]->running || !atomic_load(&a[i]->done))
                continue;
            ASSERT_RESULT(acquiring_end(a[i], SOON_MS), TL_OK);
            for (int j = 0; j < WAITERS; j++)
                assert_true(i == j || tl_lock_remaining_ms(locks[j]) == 0);
            release(locks[i]);
            left--;
        }
        assert_true(unaware);
        WAIT_FOR(SOON_MS, length() == 0);
        for (int i = 0; i < WAITERS; i++)
            drop_lock(locks[i]);
        drop_lock(holder);
    }
}

/* Nothing that was said in line is in the way of those who write no token and read none. */
TEST(a_legacy_client_finds_the_key_free_that_is_kept_for_one_in_line) {
    set_phase(3, 1);
    tl_lock *holder = held_by(client_by_phase());
    tl_client *dead = connected(client_by_phase_at(proxy_url(gate)));
    acquiring *a = join(lock_of(dead), 1);
    proxy_stop(gate);
    const clock_wait lease = clock_wait_begin(LEASE_MS + 100);
    while (clock_wait_more(&lease)) {}
    run("DEL " PHASE ":clients"); /* he has been given up */
    set_phase(2, 2);
    set_phase(1, 3);
    release(holder);
    char until[32];
    (void)snprintf(until, sizeof until, "%lld", (long long)time(NULL) * 1000 + TTL_MS);
    assert_int_equal(real_redis_int(server, "SETNX " KEY " %s", until), 1);
    proxy_heal(gate);
    const clock_wait a_while = clock_wait_begin(300);
    while (clock_wait_more(&a_while)) {
        assert_int_equal(found(), STAMP);
        assert_false(atomic_load(&a->done));
    }
    run("DEL " KEY);
    ASSERT_RESULT(acquiring_end(a, FLOOR_MS + 2 * SOON_MS), TL_OK);
    assert_int_equal(found(), STAMP);
}

int main(void) {
    real_server_need(REAL_LINE);
    server = real_redis_start(NULL);
    int failed = tests_run();
    real_redis_free(server);
    return failed;
}
