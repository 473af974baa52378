/*
 * One thread, one epoll loop, several clients and many locks in it: what they protect stays exact,
 * also while the server's connections are reset, and the loop is never held up.
 */
#include <sys/epoll.h>
#include <unistd.h>

#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define CLIENTS 4
#define KEYS 6
#define LOCKS (CLIENTS * KEYS * 2)
#define ROUNDS 15
#define LIFE_MS 30000
#define STILL_MS 120000 /* so long nobody's turn has ended: they hang */

/* Of one key: who is inside. */
typedef struct {
    int inside, counted, rounds;
    uint64_t last_fence;
} room;

/* Who acquires, counts and releases, again and again. */
typedef struct {
    room *room;
    int rounds;
    bool ended, holds;
} walker;

static room rooms[KEYS];
static walker walkers[LOCKS];
static int faults, failures, left, turns;

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx);

static void end(walker *w) {
    left -= !w->ended;
    w->ended = true;
}

static void on_acquired(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    walker *w = ctx;
    (void)err;
    if (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE) { /* when connections are reset */
        failures++;
        if (tl_lock_acquire_async(lock, TL_FOREVER, on_acquired, w, NULL))
            end(w);
        return;
    }
    faults += code != TL_OK || w->room->inside != 0 || tl_lock_fence(lock) <= w->room->last_fence;
    w->room->last_fence = tl_lock_fence(lock);
    w->room->inside++;
    w->room->counted++;
    w->holds = true;
    /* Released when the loop comes round again: others have their chance to be wrong. */
}

static void on_released(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    walker *w = ctx;
    (void)err;
    failures += code != TL_OK;
    turns++;
    if (++w->rounds == ROUNDS || tl_lock_acquire_async(lock, TL_FOREVER, on_acquired, w, NULL))
        end(w);
}

static void go_on(tl_lock *lock, walker *w) {
    if (!w->holds)
        return;
    w->holds = false;
    w->room->inside--;
    if (tl_lock_release_async(lock, on_released, w, NULL)) {
        faults++;
        end(w);
    }
}

static void add(int loop, tl_client *client) {
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = client};
    assert_int_equal(epoll_ctl(loop, EPOLL_CTL_ADD, tl_client_fd(client), &event), 0);
}

static void begin(tl_client **clients, tl_lock **locks) {
    left = LOCKS;
    faults = failures = turns = 0;
    for (int i = 0; i < LOCKS; i++) {
        char key[32];
        int number = i % KEYS;
        (void)snprintf(key, sizeof key, "chaos:room:%d", number);
        if (i < KEYS)
            rooms[i] = (room){0};
        walkers[i] = (walker){.room = &rooms[number]};
        locks[i] = make_lock(clients[i / KEYS % CLIENTS], key, LIFE_MS);
        ASSERT_RESULT(tl_lock_acquire_async(locks[i], TL_FOREVER, on_acquired, &walkers[i], &said),
                      TL_OK);
    }
}

/* `disturb` is called now and then. */
static void run_loop(tl_client **clients, void (*disturb)(int turn)) {
    tl_lock *locks[LOCKS];
    int loop = epoll_create1(EPOLL_CLOEXEC);
    assert_true(loop >= 0);
    for (int i = 0; i < CLIENTS; i++)
        add(loop, clients[i]);
    begin(clients, locks);
    int64_t moved_ms = clock_ms();
    for (int turn = 1; left > 0; turn++) {
        const int before = turns;
        struct epoll_event event[CLIENTS];
        int n = epoll_wait(loop, event, CLIENTS, 1000);
        for (int i = 0; i < n; i++)
            assert_true(tl_client_dispatch(event[i].data.ptr) >= 0);
        for (int i = 0; i < LOCKS; i++)
            go_on(locks[i], &walkers[i]);
        if (disturb)
            disturb(turn);
        if (turns > before)
            moved_ms = clock_ms();
        else if (clock_ms() - moved_ms > clock_patient_ms(STILL_MS))
            fail_msg("%d have not ended", left);
    }
    (void)close(loop);
    assert_int_equal(faults, 0);
    for (int i = 0; i < LOCKS; i++)
        assert_int_equal(walkers[i].rounds, ROUNDS);
    for (int i = 0; i < KEYS; i++)
        assert_int_equal(rooms[i].counted, ROUNDS * LOCKS / KEYS);
}

TEST(many_locks_of_several_clients_share_one_loop) {
    tl_client *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                        .attempt_ms = SOON_MS, .dispatch = true));
    run_loop(clients, NULL);
    assert_int_equal(failures, 0);
    assert_int_equal(real_redis_int(server, "DEL chaos:room:0 chaos:room:1 chaos:room:2"), 0);
}

static void reset_often(int turn) {
    if (turn % 7 == 0)
        proxy_reset(gate);
}

TEST(one_loop_goes_on_though_connections_are_reset) {
    tl_client *clients[CLIENTS];
    for (int i = 0; i < CLIENTS; i++)
        clients[i] = make_client_with(
            TL_CLIENT_OPTIONS(.url = proxy_url(gate), .attempt_ms = 2000, .dispatch = true));
    run_loop(clients, reset_often);
    print_message("%d operations failed and were done again\n", failures);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
