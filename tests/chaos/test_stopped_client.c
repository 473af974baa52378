/*
 * Faults: the process that holds the lock is stopped for longer than the lock's lifetime, or killed.
 * It knows when it goes on that the lock is lost, what it protects is not touched by what it still
 * does, and nobody waits for longer than the lifetime.
 */

/*
 * Faults and outcomes (tests/README.md says what is asserted of each):
 * - client process stopped for longer than the lifetime: `remaining` is 0, LOST, release TAKEN; fences refuse its late
 *   write; counted.
 * - client process killed: others wait for its lifetime, no longer; counted.
 */
#include <errno.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"

#define TTL_BRIEF_MS 600
#define WORKERS 3

/* ---- what the processes share ------------------------------------------------------------------ */

/* A resource that honours fences: it refuses whoever comes with an older one than it has seen. */
typedef struct {
    pthread_mutex_t mutex; /* robust: who holds it may be killed */
    uint64_t fence;
    int value, lost_updates, refused;
} resource;

typedef struct {
    resource r;
    int64_t ttl_ms; /* of the one that holds */
    atomic_bool holding, ending;
    atomic_bool woken;  /* the stopped process is about to go on */
    atomic_bool looked; /* it has gone on, and seen: */
    atomic_int remaining_ms, state, released;
} shared;

static shared *here;
static pid_t child[WORKERS];

static void enter(resource *r) {
    if (pthread_mutex_lock(&r->mutex) == EOWNERDEAD)
        (void)pthread_mutex_consistent(&r->mutex);
}

static int load(resource *r, uint64_t fence) {
    enter(r);
    r->fence = fence > r->fence ? fence : r->fence;
    int value = r->value;
    (void)pthread_mutex_unlock(&r->mutex);
    return value;
}

/* `based_on`: what it had when the new value was worked out. */
static void store(resource *r, uint64_t fence, int based_on, int value) {
    enter(r);
    if (fence < r->fence) {
        r->refused++;
    } else {
        r->fence = fence;
        r->lost_updates += r->value != based_on;
        r->value = value;
    }
    (void)pthread_mutex_unlock(&r->mutex);
}

static int value_of(resource *r) {
    enter(r);
    int value = r->value;
    (void)pthread_mutex_unlock(&r->mutex);
    return value;
}

/* ---- the processes ----------------------------------------------------------------------------- */

/* In the child: nothing of the test's own is used, and nothing is cleaned up. */
static tl_lock *lock_of_child(int64_t ttl_ms) {
    const tl_client_options co = TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                   .attempt_ms = SOON_MS, .connect_ms = SOON_MS);
    const tl_lock_options lo = TL_LOCK_OPTIONS(.ttl_ms = ttl_ms);
    tl_client *client;
    if (tl_client_open(&co, &client, NULL))
        _exit(2);
    tl_lock *lock = tl_lock_new(client, KEY, sizeof KEY - 1, &lo, NULL);
    if (!lock)
        _exit(2);
    return lock;
}

/* Holds, and looks again when it was stopped and goes on. */
static void hold(void) {
    tl_lock *lock = lock_of_child(here->ttl_ms);
    if (tl_lock_acquire(lock, SOON_MS, NULL))
        _exit(3);
    atomic_store(&here->holding, true);
    while (!atomic_load(&here->woken)) {
        const clock_wait moment = clock_wait_begin(10);
        (void)clock_wait_more(&moment);
    }
    atomic_store(&here->remaining_ms, (int)tl_lock_remaining_ms(lock));
    atomic_store(&here->state, (int)tl_lock_state(lock));
    atomic_store(&here->released, (int)tl_lock_release(lock, NULL));
    atomic_store(&here->looked, true);
    (void)pause();
}

static void count(void) {
    tl_lock *lock = lock_of_child(TTL_BRIEF_MS);
    while (!atomic_load(&here->ending)) {
        if (tl_lock_acquire(lock, 1000, NULL))
            continue;
        int value = load(&here->r, tl_lock_fence(lock));
        const clock_wait work = clock_wait_begin(2);
        while (clock_wait_more(&work)) {}
        store(&here->r, tl_lock_fence(lock), value, value + 1);
        (void)tl_lock_release(lock, NULL);
    }
    _exit(0);
}

/* Before this process has threads. */
static void begin(int i, void (*what)(void)) {
    pid_t parent = getpid();
    child[i] = fork();
    assert_true(child[i] >= 0);
    if (child[i] > 0)
        return;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent)
        what();
    _exit(1);
}

static void stop(int i) {
    assert_int_equal(kill(child[i], SIGSTOP), 0);
    assert_int_equal(waitpid(child[i], NULL, WUNTRACED), child[i]);
}

static void kill_child(int i) {
    if (child[i] <= 0)
        return;
    (void)kill(child[i], SIGKILL);
    (void)waitpid(child[i], NULL, 0);
    child[i] = 0;
}

/* ---- the tests --------------------------------------------------------------------------------- */

static int set_up(void **state) {
    pthread_mutexattr_t attr;
    (void)state;
    freeReplyObject(real_redis_command(server, "FLUSHALL"));
    forget_executed();
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    here = mmap(NULL, sizeof *here, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (here == MAP_FAILED)
        return -1;
    (void)pthread_mutexattr_init(&attr);
    (void)pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED);
    (void)pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST);
    (void)pthread_mutex_init(&here->r.mutex, &attr);
    (void)pthread_mutexattr_destroy(&attr);
    return 0;
}

static int tear_down(void **state) {
    for (int i = 0; i < WORKERS; i++)
        kill_child(i);
    int failed = locks_clean_up(state);
    (void)munmap(here, sizeof *here);
    return failed;
}

TESTS_WITH(set_up, tear_down);

TEST(a_holder_that_was_stopped_for_too_long_knows_it_at_once) {
    here->ttl_ms = TTL_BRIEF_MS;
    begin(0, hold);
    WAIT_FOR(SOON_MS, atomic_load(&here->holding));
    stop(0);
    int64_t began = clock_ms();
    tl_lock *next = by_hand(client_direct(), AGES_MS);
    ASSERT_RESULT(tl_lock_acquire(next, SOON_MS, &said), TL_OK);
    ASSERT_TOOK(began, 0, TTL_BRIEF_MS);
    const clock_wait longer = clock_wait_begin(3 * TTL_BRIEF_MS);
    while (clock_wait_more(&longer)) {}
    atomic_store(&here->woken, true);
    assert_int_equal(kill(child[0], SIGCONT), 0);
    WAIT_FOR(SOON_MS, atomic_load(&here->looked));
    assert_int_equal(atomic_load(&here->remaining_ms), 0);
    assert_int_equal(atomic_load(&here->state), TL_LOST);
    assert_int_equal(atomic_load(&here->released), TL_ETAKEN);
    ASSERT_RESULT(tl_lock_extend(next, AGES_MS, &said), TL_OK); /* it has taken nothing from us */
}

/* Is it held for longer than its lifetime, as it is renewed? A busy machine may hold up the holder for too long. */
static bool outlasts(const acquiring *waiter, int64_t ttl_ms) {
    const clock_wait renewed_for = clock_wait_begin(ttl_ms * 3 / 2);
    while (clock_wait_more(&renewed_for))
        if (atomic_load(&waiter->done))
            return false;
    return true;
}

/* In the middle of its life, and then the waiter has it by the end of that. */
TEST(a_killed_holder_is_waited_for_no_longer_than_its_lifetime) {
    const int64_t ttl_ms = clock_patient_ms(1800);
    bool outlasted = false;
    here->ttl_ms = ttl_ms;
    for (int i = 0; i < 20 && !outlasted; i++) {
        atomic_store(&here->holding, false);
        begin(0, hold);
        WAIT_FOR(SOON_MS, atomic_load(&here->holding));
        acquiring *waiter = acquiring_begin(by_hand(client_direct(), AGES_MS), TL_FOREVER);
        outlasted = outlasts(waiter, ttl_ms);
        kill_child(0);
        int64_t began = clock_ms();
        ASSERT_RESULT(acquiring_end(waiter, ttl_ms + SOON_MS), TL_OK);
        ASSERT_TOOK(began, 0, ttl_ms);
        ASSERT_RESULT(tl_lock_release(waiter->lock, &said), TL_OK);
    }
    assert_true(outlasted);
}

/* Each of the three is stopped in turn for longer than a lifetime, in the middle of whatever it
 * does; one is killed, and another comes. */
TEST(a_resource_that_honours_fences_loses_no_update) {
    for (int i = 0; i < WORKERS; i++)
        begin(i, count);
    for (int i = 0; i < 2 * WORKERS; i++) {
        int value = value_of(&here->r);
        WAIT_FOR(2 * SOON_MS, value_of(&here->r) > value + 5);
        stop(i % WORKERS);
        const clock_wait longer = clock_wait_begin(TTL_BRIEF_MS + 100);
        while (clock_wait_more(&longer)) {}
        assert_int_equal(kill(child[i % WORKERS], SIGCONT), 0);
        if (i % 2 == 0) {
            kill_child(i % WORKERS);
            begin(i % WORKERS, count);
        }
    }
    int value = value_of(&here->r);
    WAIT_FOR(2 * SOON_MS, value_of(&here->r) > value + 10);
    atomic_store(&here->ending, true);
    for (int i = 0; i < WORKERS; i++) {
        int status = -1;
        WAIT_FOR(2 * SOON_MS, waitpid(child[i], &status, WNOHANG) == child[i]);
        child[i] = 0;
        assert_int_equal(status, 0);
    }
    assert_int_equal(here->r.lost_updates, 0);
    print_message("%d updates, %d refused\n", here->r.value, here->r.refused);
    int64_t began = clock_ms();
    assert_free_soon();
    ASSERT_TOOK(began, 0, TTL_BRIEF_MS);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
