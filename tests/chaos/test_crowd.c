/*
 * Many threads of a client, each with a lock of its own that another client's threads want, too: they share a
 * connection. Nothing is held twice, whatever becomes of it, and nobody waits for longer than he said.
 */
#include <sched.h>

#include "arena.h"
#include "client/lock.h"
#include "client/share.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define CROWD 24

/* Two of each key, of one client each. */
typedef struct {
    pthread_t thread;
    tl_lock *lock;
    atomic_llong *until;
    int64_t wait_ms;
    atomic_bool *ending;
    int held, doubled;
    uint64_t fence;
    bool fences_rise;
} member;

static member crowd[2][CROWD];
static atomic_llong until[CROWD];
static atomic_bool ending;
static atomic_int held_in_all;

/* Whoever has it says until when he believes so. */
static void hold(member *m) {
    uint64_t fence = tl_lock_fence(m->lock);
    int64_t now_us = clock_us(), left_ms = tl_lock_remaining_ms(m->lock);
    m->fences_rise = m->fences_rise && fence > m->fence;
    m->fence = fence;
    m->held++;
    atomic_fetch_add(&held_in_all, 1);
    long long before = atomic_exchange(m->until, (long long)(now_us + left_ms * 1000));
    m->doubled += left_ms > 0 && before > now_us && tl_lock_remaining_ms(m->lock) > 0;
    (void)sched_yield();
    atomic_store(m->until, 0);
}

static void *take_part(void *ctx) {
    member *m = ctx;
    while (!atomic_load(m->ending))
        if (tl_lock_acquire(m->lock, m->wait_ms, NULL) == TL_OK) {
            hold(m);
            (void)tl_lock_release(m->lock, NULL);
        }
    return NULL;
}

static void begin(tl_client *const clients[2], int64_t wait_ms) {
    atomic_store(&ending, false);
    atomic_store(&held_in_all, 0);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < CROWD; i++) {
            char key[32];
            (void)snprintf(key, sizeof key, "chaos:crowd:%d", i);
            atomic_store(&until[i], 0);
            crowd[c][i] = (member){.lock = make_lock(clients[c], key, 4 * BRIEF_MS),
                                   .until = &until[i],
                                   .wait_ms = wait_ms,
                                   .ending = &ending,
                                   .fences_rise = true};
            assert_int_equal(pthread_create(&crowd[c][i].thread, NULL, take_part, &crowd[c][i]), 0);
        }
}

static int end(void) {
    int held = 0;
    atomic_store(&ending, true);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < CROWD; i++)
            assert_int_equal(pthread_join(crowd[c][i].thread, NULL), 0);
    for (int c = 0; c < 2; c++)
        for (int i = 0; i < CROWD; i++) {
            assert_int_equal(crowd[c][i].doubled, 0);
            assert_true(crowd[c][i].fences_rise);
            held += crowd[c][i].held;
        }
    return held;
}

static void rest(int64_t ms) {
    const clock_wait pause = clock_wait_begin(ms);
    while (clock_wait_more(&pause)) {}
}

static bool has_shared(tl_client *client) {
    return atomic_load(&client->node.share[0]) != NULL;
}

/* Of this shared one, which is entered in turn; 0: it isn't up yet. */
static int64_t conn_id(tl_client *client, const tl_share *share) {
    for (;;) {
        tl_share *entered = tl__share_enter(&client->node);
        tl_sharer nobody = {0};
        int64_t id = tl__conn_id(tl__share_conn(entered));
        tl__share_leave(entered, &nobody);
        if (entered == share)
            return id;
    }
}

TEST(nothing_is_held_twice_while_connections_break) {
    tl_client *clients[2] = {client_behind_gate(), client_direct()};
    begin(clients, 500);
    for (int i = 0; i < 8; i++) {
        rest(150);
        if (i % 4 == 0)
            proxy_reset(gate);
        else if (i % 4 == 1)
            proxy_break(gate, PROXY_REPLIES, 700, PROXY_RESET, 2);
        else if (i % 4 == 2)
            proxy_break(gate, PROXY_REQUESTS, 900, PROXY_RESET, 2);
        else
            run("SCRIPT FLUSH");
    }
    proxy_heal(gate);
    WAIT_FOR(4 * SOON_MS, atomic_load(&held_in_all) > 8 * CROWD);
    assert_true(has_shared(clients[0]) && has_shared(clients[1]));
    assert_true(end() > 8 * CROWD);
}

/* Nothing comes back: who asks hears of it in time, whoever it is that watches the connection. */
TEST(nobody_waits_longer_than_he_said_for_a_server_that_is_mute) {
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = proxy_url(gate),
                                                           .attempt_ms = ATTEMPT_MS,
                                                           .connect_ms = ATTEMPT_MS));
    acquiring *a[CROWD];
    tl_lock *locks[CROWD];
    for (int i = 0; i < CROWD; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "chaos:mute:%d", i);
        locks[i] = make_lock(client, key, TTL_MS);
    }
    client->crowd = 0; /* from the first on */
    ASSERT_RESULT(tl_lock_acquire(locks[0], SOON_MS, &said), TL_OK);
    release_hastily(locks[0], "chaos:mute:0");
    proxy_stop(gate);
    int64_t began_us = clock_us();
    for (int i = 0; i < CROWD; i++)
        a[i] = acquiring_begin(locks[i], i % 3 == 0 ? 0 : 300 + 50 * i);
    for (int i = 0; i < CROWD; i++) {
        int64_t wait_ms = i % 3 == 0 ? client->attempt_ms : 300 + 50 * i;
        tl_err code = acquiring_end(a[i], wait_ms + SOON_MS);
        assert_true(code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE);
        assert_true(a[i]->ended_us - began_us < (wait_ms + SLACK_MS) * 1000);
    }
    proxy_heal(gate);
    for (int i = 0; i < CROWD; i++) {
        char key[32];
        (void)snprintf(key, sizeof key, "chaos:mute:%d", i);
        ASSERT_RESULT(tl_lock_acquire(locks[i], 2 * SOON_MS, &said), TL_OK);
        release_hastily(locks[i], key);
    }
}

/* What they ask for as they are cancelled is left to nobody. */
TEST(who_is_cancelled_leaves_no_lock_behind) {
    tl_client *clients[2] = {client_direct(), client_direct()};
    clients[0]->crowd = 0;
    begin(clients, SOON_MS);
    WAIT_FOR(SOON_MS, has_shared(clients[0]));
    tl_share *share = atomic_load(&clients[0]->node.share[0]);
    int64_t id = 0;
    const clock_wait a_while = clock_wait_begin(1500), bound = clock_wait_begin(4 * SOON_MS);
    for (unsigned i = 0; clock_wait_more(&a_while) ||
                         (atomic_load(&held_in_all) <= CROWD && clock_wait_more(&bound));
         i = i * 29 + 7) {
        tl_lock_cancel(crowd[i / CROWD % 2][i % CROWD].lock);
        id = id ? id : conn_id(clients[0], share);
    }
    assert_true(end() > CROWD);
    assert_int_equal(tl__conn_id(tl__share_conn(share)), id); /* and nobody's connection is ended */
    for (int i = 0; i < CROWD; i++)
        WAIT_FOR(SOON_MS, real_redis_int(server, "EXISTS chaos:crowd:%d", i) == 0);
}

/* ---- one by one -------------------------------------------------------------------------------- */

/* Asks for the first of a list, which is not there yet, and if told to for that of another behind it. */
typedef struct {
    tl_sharer sharer;
    pthread_t thread;
    tl_client *client;
    tl_share *share;
    const char *list, *then;
    atomic_int answers;
    atomic_bool done;
} popper;

static void pop(popper *p, const char *list) {
    const tl_mono now = tl__mono_now();
    tl_send send = {.count = 1, .by = tl__mono_add_ms(now, 2 * SOON_MS)};
    send.command[0] = (tl_command){
        .form = TL_ARGV,
        .argc = 3,
        .argv = {TL_LITERAL("BLPOP"), tl__bytes_of(list), TL_LITERAL("0")}};
    assert_int_equal(tl__share_send(p->share, &p->sharer, &send, now), TL_OK);
}

static void popped(tl_sharer *sharer, const tl_answer *answer) {
    popper *p = (popper *)sharer;
    if (atomic_fetch_add(&p->answers, answer->ok) == 0 && p->then)
        pop(p, p->then);
}

static void *pop_all(void *ctx) {
    popper *p = ctx;
    int wanted = p->then ? 2 : 1;
    p->sharer = (tl_sharer){.answered = popped};
    p->share = tl__share_enter(&p->client->node);
    pop(p, p->list);
    while (atomic_load(&p->answers) < wanted)
        tl__share_await(p->share, &p->sharer, TL_NEVER);
    tl__share_leave(p->share, &p->sharer);
    atomic_store(&p->done, true);
    return NULL;
}

static void start(popper *p, tl_client *client, const char *list, const char *then) {
    size_t before = proxy_passed(gate, PROXY_REQUESTS);
    *p = (popper){.client = client, .list = list, .then = then};
    assert_int_equal(pthread_create(&p->thread, NULL, pop_all, p), 0);
    WAIT_FOR(SOON_MS, proxy_passed(gate, PROXY_REQUESTS) > before + strlen("BLPOP"));
}

/* The first sleeps, and watches for both: the second's request is written all the same, and the second is told of
 * its answer while the first waits on. */
static void two_wait(tl_client *client) {
    popper first, second;
    start(&first, client, "chaos:a", "chaos:c");
    rest(20); /* it has fallen asleep */
    start(&second, client, "chaos:b", NULL);
    rest(20);
    run("LPUSH chaos:a 1");
    WAIT_FOR(SOON_MS, atomic_load(&first.answers) == 1);
    assert_false(atomic_load(&second.done));
    rest(20);
    run("LPUSH chaos:b 1");
    WAIT_FOR(SOON_MS, atomic_load(&second.done));
    assert_false(atomic_load(&first.done));
    run("LPUSH chaos:c 1");
    assert_int_equal(pthread_join(first.thread, NULL), 0);
    assert_int_equal(pthread_join(second.thread, NULL), 0);
}

/* Who isn't woken looks by himself a second later: that is far longer than all this, but where the machine is held up. If
 * nobody were woken, no time would be shorter. */
#define LOOKS_MS 900
TEST(one_who_watches_for_all_keeps_nobody_waiting) {
    enum { TIMES = 6 };
    tl_client *client = client_behind_gate();
    client->crowd = 0;
    tl_lock *lock = make_lock(client, KEY, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK); /* it is connected */
    ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    int64_t shortest_ms = INT64_MAX;
    const clock_wait bound = clock_wait_begin(4 * SOON_MS);
    for (int i = 0; i < TIMES || (shortest_ms >= LOOKS_MS && clock_wait_more(&bound)); i++) {
        int64_t began_ms = clock_ms();
        two_wait(client);
        shortest_ms = clock_ms() - began_ms < shortest_ms ? clock_ms() - began_ms : shortest_ms;
    }
    assert_true(shortest_ms < LOOKS_MS);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
