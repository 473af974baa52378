/*
 * The drop-in for DistributeLockUtil among threads, processes and the Java rule: a number that only
 * the lock protects stays exact; and what crashes, fast clocks, lost replies and Java's one flag do.
 */
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"
#include "distribute_lock_util.h"
#include "legacy_lock.h"

#define OTHER "chaos:other"

/* A world with short lives, in which a slow machine still acts within L. */
#define LIFE_MS 3000
#define SKEW_MS 100
#define LAG_MS 1000
#define ROUNDS 25

static tl_dlu *handles[16];
static int handle_count;
static redisContext *contexts[8];
static int context_count;

static const tl_legacy_options brief = {.size = sizeof brief,
                                        .legacy_ttl_min_ms = LIFE_MS,
                                        .clock_skew_max_ms = SKEW_MS,
                                        .legacy_delay_max_ms = LAG_MS};
static const tl_legacy_options brief_strict = {.size = sizeof brief_strict,
                                               .legacy_ttl_min_ms = LIFE_MS,
                                               .clock_skew_max_ms = SKEW_MS,
                                               .legacy_delay_max_ms = LAG_MS,
                                               .strict = true};

/* The same M, and nothing is over meanwhile. */
#define LONG_MS 60000
static const tl_legacy_options lasting = {.size = sizeof lasting,
                                          .legacy_ttl_min_ms = LONG_MS,
                                          .clock_skew_max_ms = SKEW_MS,
                                          .legacy_delay_max_ms = LAG_MS};

/* legacy: NULL for the defaults */
static tl_dlu *open_at(const char *url, const tl_legacy_options *legacy) {
    const tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .protocol = TL_BRIDGE,
                                                  .attempt_ms = SOON_MS, .connect_ms = SOON_MS,
                                                  .legacy = legacy);
    return tl_dlu_open_with(&o, NULL);
}

static tl_dlu *open_one(const tl_legacy_options *legacy) {
    tl_dlu *d = open_at(real_redis_url(server), legacy);
    assert_non_null(d);
    handles[handle_count++] = d;
    return d;
}

static legacy_lock java(void) {
    redisContext *context = real_redis_connect(server);
    contexts[context_count++] = context;
    return legacy_lock_on(context);
}

static int tear_down(void **state) {
    while (handle_count > 0)
        tl_dlu_close(handles[--handle_count]);
    while (context_count > 0)
        redisFree(contexts[--context_count]);
    return arena_tear_down(state);
}

TESTS_WITH(arena_set_up, tear_down);

static int64_t server_ms(void) {
    redisReply *time = real_redis_command(server, "TIME");
    int64_t ms = atoll(time->element[0]->str) * 1000 + atoll(time->element[1]->str) / 1000;
    freeReplyObject(time);
    return ms;
}

/* A stamp written within M of a take may be that of one who raced for it, and lost. */
static void until_no_stamp_is_a_losers(void) {
    int64_t from = server_ms();
    WAIT_FOR(SKEW_MS + SOON_MS, server_ms() > from + SKEW_MS);
}

static long long stored(const char *key) {
    return real_redis_int(server, "GET %s", key);
}

/* What is free, however long the machine takes for an answer. */
static void take(tl_dlu *d, const char *key) {
    if (!tl_dlu_lock_wait(d, key, SOON_MS, &said))
        fail_msg("%s", said.message);
}

/* ---- a number that only the lock protects ------------------------------------------------------ */

typedef struct {
    int number;          /* no atomic */
    atomic_int inside;   /* who is in the lock */
    atomic_int overlaps; /* how often there were two */
} protected_number;

static void count_up(protected_number *p) {
    if (atomic_fetch_add(&p->inside, 1) != 0)
        atomic_fetch_add(&p->overlaps, 1);
    int n = *(volatile int *)&p->number;
    (void)sched_yield();
    *(volatile int *)&p->number = n + 1;
    atomic_fetch_sub(&p->inside, 1);
}

/* Each stops at a bound too, so that nothing hangs; then the number is too small. */
static void contend_as_ours(tl_dlu *d, protected_number *p) {
    const clock_wait wait = clock_wait_begin(12 * SOON_MS);
    for (int i = 0; i < ROUNDS && clock_wait_more(&wait);) {
        bool locked = i % 2 ? tl_dlu_lock(d, KEY, NULL) : tl_dlu_lock_wait(d, KEY, 1000, NULL);
        if (locked) {
            count_up(p);
            i++;
        }
        (void)tl_dlu_release(d, KEY, NULL); /* as in a finally */
    }
}

static void contend_as_java(redisContext *context, protected_number *p) {
    legacy_lock l = legacy_lock_on(context);
    const clock_wait wait = clock_wait_begin(12 * SOON_MS);
    for (int i = 0; i < ROUNDS && clock_wait_more(&wait);)
        if (legacy_lock_lock(&l, KEY)) {
            count_up(p);
            i++;
            legacy_lock_release(&l, KEY);
        }
}

typedef struct {
    tl_dlu *dlu; /* NULL: the Java rule */
    redisContext *context;
    protected_number *number;
} contender;

static void *contend(void *ctx) {
    contender *c = ctx;
    if (c->dlu)
        contend_as_ours(c->dlu, c->number);
    else
        contend_as_java(c->context, c->number);
    return NULL;
}

static void assert_exact(protected_number *p, int contenders) {
    assert_int_equal(atomic_load(&p->overlaps), 0);
    assert_int_equal(p->number, contenders * ROUNDS);
    assert_false(key_exists());
}

/* ---- processes --------------------------------------------------------------------------------- */

/* Those that fork come first: a child of a process with threads is less than a process. */

static void *shared_memory(size_t n) {
    // cppcheck-suppress invalidFunctionArg ; -1 is right for an anonymous mapping
    void *p = mmap(NULL, n, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(p != MAP_FAILED);
    return p;
}

/* Its own handle or connection: nothing of the parent's. */
static pid_t contend_in_a_process(bool as_java, protected_number *p) {
    pid_t pid = fork();
    if (pid != 0)
        return pid;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (as_java) {
        redisContext *context = real_redis_connect(server);
        contend_as_java(context, p);
    } else {
        tl_dlu *d = open_at(real_redis_url(server), NULL);
        contend_as_ours(d, p);
        tl_dlu_close(d);
    }
    _exit(0);
}

static void assert_ends_well(pid_t pid) {
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

TEST_WITH(processes_beside_java_count_exactly, NULL, NULL) {
    enum { OURS = 3, ALL = 6 };
    protected_number *number = shared_memory(sizeof *number);
    pid_t pid[ALL];
    for (int i = 0; i < ALL; i++)
        assert_true((pid[i] = contend_in_a_process(i >= OURS, number)) > 0);
    for (int i = 0; i < ALL; i++)
        assert_ends_well(pid[i]);
    assert_exact(number, ALL);
    (void)munmap(number, sizeof *number);
}

/* The key's own lifetime is not what frees it: Java takes over by its clock. */
TEST_WITH(a_crashed_holders_lock_is_javas_after_its_end, NULL, tear_down) {
    protected_number *told = shared_memory(sizeof *told);
    pid_t pid = fork();
    if (pid == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        tl_dlu *d = open_at(real_redis_url(server), &brief);
        atomic_store(&told->inside, tl_dlu_lock_wait(d, KEY, SOON_MS, NULL) ? 1 : 2);
        (void)pause();
    }
    WAIT_FOR(2 * SOON_MS, atomic_load(&told->inside) != 0);
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
    assert_int_equal(atomic_load(&told->inside), 1);
    (void)munmap(told, sizeof *told);
    long long end = stored(KEY);
    legacy_lock l = java();
    l.ttl_ms = LIFE_MS;
    WAIT_FOR(LIFE_MS + SOON_MS, legacy_lock_lock(&l, KEY));
    assert_true(server_ms() > end);
}

/* ---- threads --------------------------------------------------------------------------------- */

TEST(threads_of_one_handle_beside_java_count_exactly) {
    enum { OURS = 5, ALL = 7 };
    static protected_number number;
    number = (protected_number){.number = 0};
    tl_dlu *shared = open_one(NULL), *own = open_one(NULL);
    contender c[ALL];
    pthread_t thread[ALL];
    for (int i = 0; i < ALL; i++) {
        c[i] = (contender){.number = &number};
        if (i < OURS)
            c[i].dlu = i ? shared : own;
        else
            c[i].context = java().context;
        assert_int_equal(pthread_create(&thread[i], NULL, contend, &c[i]), 0);
    }
    for (int i = 0; i < ALL; i++)
        assert_int_equal(pthread_join(thread[i], NULL), 0);
    assert_exact(&number, ALL);
}

/* ---- crashes ----------------------------------------------------------------------------------- */

TEST(a_crashed_javas_lock_is_had_after_its_end_and_m_and_l) {
    legacy_lock crashed = java();
    crashed.ttl_ms = LIFE_MS;
    assert_true(legacy_lock_lock(&crashed, KEY));
    tl_dlu *d = open_one(&brief);
    if (!tl_dlu_lock(d, KEY, NULL))
        assert_true(tl_dlu_lock_wait(d, KEY, LIFE_MS + SKEW_MS + LAG_MS + SOON_MS, &said));
    assert_true(stored(KEY) - LIFE_MS > crashed.stamp_ms + SKEW_MS + LAG_MS);
}

/* ---- clocks ------------------------------------------------------------------------------------ */

TEST(within_m_a_fast_clock_takes_nothing_that_is_believed) {
    legacy_lock fast = java();
    fast.ttl_ms = LIFE_MS;
    fast.ahead_ms = SKEW_MS;
    tl_dlu *d = open_one(&brief);
    take(d, KEY);
    WAIT_FOR(LIFE_MS + SOON_MS, legacy_lock_lock(&fast, KEY));
    assert_int_equal(tl_dlu_remaining_ms(d, KEY), 0);
    assert_int_equal(tl_dlu_release(d, KEY, &said), TL_ETAKEN);
    assert_int_equal(stored(KEY), fast.stamp_ms);
}

TEST(beyond_m_a_robbed_lock_is_told_at_release_and_stays_the_robbers) {
    legacy_lock robber = java();
    robber.ahead_ms = 70000;
    tl_dlu *d = open_one(NULL);
    take(d, KEY);
    assert_true(legacy_lock_lock(&robber, KEY));
    assert_int_equal(tl_dlu_release(d, KEY, &said), TL_ETAKEN);
    assert_int_equal(stored(KEY), robber.stamp_ms);
}

#define RENEWED_MS 15000
#define AHEAD_MS 700000 /* more than all that the test may take */

/* Of a lock that is renewed it is told sooner, and how far off the clock is. */
static void tell_robber(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    _Atomic int64_t *thief_ahead_ms = ctx;
    (void)lock;
    if (event->state == TL_LOST && event->stolen)
        atomic_store(thief_ahead_ms, event->thief_ahead_ms);
}

TEST(a_lock_that_is_renewed_names_the_robbers_clock) {
    static _Atomic int64_t thief_ahead_ms;
    atomic_store(&thief_ahead_ms, 0);
    tl_client *client = make_client_with(
        TL_CLIENT_OPTIONS(.url = real_redis_url(server), .protocol = TL_BRIDGE,
                          .legacy = &TL_LEGACY_OPTIONS(.clock_skew_max_ms = SKEW_MS,
                                                       .legacy_ttl_min_ms = RENEWED_MS)));
    tl_lock *lock = make_lock_with(
        client, KEY, TL_LOCK_OPTIONS(.on_event = tell_robber, .ctx = &thief_ahead_ms));
    ASSERT_RESULT(tl_lock_acquire(lock, SOON_MS, &said), TL_OK);
    legacy_lock robber = java();
    robber.ttl_ms = RENEWED_MS;
    robber.ahead_ms = AHEAD_MS;
    assert_true(legacy_lock_lock(&robber, KEY));
    WAIT_FOR(RENEWED_MS + SOON_MS, atomic_load(&thief_ahead_ms) != 0);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_in_range(atomic_load(&thief_ahead_ms), AHEAD_MS - RENEWED_MS - SOON_MS, AHEAD_MS);
}

/* ---- Java's one flag --------------------------------------------------------------------------- */

/* The sidecar keeps tidelock's own out for as long as the holder believes. */
static void assert_kept_from(tl_dlu *other, tl_dlu *holder, const char *key) {
    bool had = tl_dlu_lock(other, key, &said);
    assert_true(!had || tl_dlu_remaining_ms(holder, key) == 0);
    assert_int_equal(tl_dlu_release(other, key, NULL), had ? TL_OK : TL_EINVALID);
}

static void assert_told_at_release(tl_dlu *d, const char *key) {
    tl_err code = tl_dlu_release(d, key, &said);
    assert_true(code == TL_EEXPIRED || code == TL_ETAKEN);
}

TEST(javas_flag_of_one_key_deletes_another_key) {
    legacy_lock l = java(), third = java();
    l.ttl_ms = third.ttl_ms = LONG_MS;
    tl_dlu *a = open_one(&lasting), *b = open_one(&lasting);
    take(a, OTHER);
    until_no_stamp_is_a_losers();
    assert_true(legacy_lock_lock(&l, KEY));
    assert_false(legacy_lock_lock(&l, OTHER));
    legacy_lock_release(&l, OTHER); /* in its finally */
    assert_int_equal(stored(OTHER), -1);
    assert_kept_from(b, a, OTHER);
    assert_true(legacy_lock_lock(&third, OTHER)); /* but nothing keeps Java out */
    assert_told_at_release(a, OTHER);
    assert_int_equal(stored(OTHER), third.stamp_ms);
    /* Its flag is spent: what it has locked itself stays, though nobody works. */
    legacy_lock_release(&l, KEY);
    assert_true(key_exists());
}

TEST(a_deleted_key_is_told_at_release) {
    tl_dlu *d = open_one(NULL);
    take(d, KEY);
    freeReplyObject(real_redis_command(server, "DEL " KEY));
    assert_int_equal(tl_dlu_release(d, KEY, &said), TL_EEXPIRED);
}

TEST(a_failed_lock_of_java_clears_the_flag_of_the_one_before) {
    legacy_lock l = java(), other = java();
    l.flag_is_result = true;
    assert_true(legacy_lock_lock(&other, OTHER));
    assert_true(legacy_lock_lock(&l, KEY));
    assert_false(legacy_lock_lock(&l, OTHER));
    legacy_lock_release(&l, KEY);
    assert_true(key_exists()); /* for 60 s, and nobody works */
}

TEST(a_late_java_deletes_its_successors_lock) {
    legacy_lock late = java(), third = java();
    late.ttl_ms = third.ttl_ms = LIFE_MS;
    assert_true(legacy_lock_lock(&late, KEY));
    tl_dlu *a = open_one(&brief), *b = open_one(&brief);
    assert_true(tl_dlu_lock_wait(a, KEY, LIFE_MS + SKEW_MS + LAG_MS + SOON_MS, &said));
    until_no_stamp_is_a_losers();
    legacy_lock_release(&late, KEY);
    assert_false(key_exists());
    assert_kept_from(b, a, KEY);
    assert_true(legacy_lock_lock(&third, KEY));
    assert_told_at_release(a, KEY);
}

TEST(threads_of_java_share_the_flag) {
    legacy_lock l = java();
    assert_true(legacy_lock_lock(&l, KEY));
    assert_false(legacy_lock_lock(&l, KEY)); /* another thread of the service */
    legacy_lock_release(&l, KEY);
    assert_false(key_exists());
}

/* ---- races ------------------------------------------------------------------------------------- */

TEST(a_racing_losers_stamp_is_no_robbery) {
    tl_dlu *d = open_one(&lasting);
    take(d, KEY);
    long long losers = stored(KEY) - 5; /* its clock was read before, its GETSET came after */
    freeReplyObject(real_redis_command(server, "GETSET " KEY " %lld", losers));
    ASSERT_RESULT(tl_dlu_release(d, KEY, &said), TL_OK);
    assert_true(!key_exists() || stored(KEY) == losers);
}

/* ---- lost replies ------------------------------------------------------------------------------ */

TEST(a_lock_without_an_answer_is_undone) {
    tl_client_options o = TL_CLIENT_OPTIONS(.url = proxy_url(gate), .protocol = TL_BRIDGE,
                                            .attempt_ms = ATTEMPT_MS, .connect_ms = CONNECT_MS);
    tl_dlu *d = handles[handle_count++] = tl_dlu_open_with(&o, &said);
    assert_non_null(d);
    take(d, OTHER); /* it is connected now */
    proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, PROXY_ALL);
    WAIT_FOR(SOON_MS, !tl_dlu_lock(d, KEY, &said) && said.code == TL_EUNCERTAIN); /* it was sent */
    assert_int_equal(tl_dlu_remaining_ms(d, KEY), 0);
    proxy_heal(gate);
    tl_dlu *next = open_one(NULL);
    assert_true(tl_dlu_lock_wait(next, KEY, 2 * SOON_MS, &said));
}

/* ---- without EVAL ------------------------------------------------------------------------------ */

static tl_dlu *open_strict(const char *url, int64_t attempt_ms) {
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .protocol = TL_TIMESTAMP,
                                            .attempt_ms = attempt_ms, .legacy = &brief_strict);
    tl_dlu *d = tl_dlu_open_with(&o, &said);
    assert_non_null(d);
    handles[handle_count++] = d;
    return d;
}

TEST(strict_a_lock_without_an_answer_is_nobodys_until_it_runs_out) {
    tl_dlu *d = open_strict(proxy_url(gate), ATTEMPT_MS), *next = open_one(&brief);
    take(d, OTHER); /* it is connected now */
    proxy_break(gate, PROXY_REPLIES, 0, PROXY_MUTE, PROXY_ALL);
    WAIT_FOR(SOON_MS, !tl_dlu_lock(d, KEY, &said) && said.code == TL_EUNCERTAIN); /* it was sent */
    proxy_heal(gate);
    WAIT_FOR(SOON_MS, stored(KEY) > 0);
    long long stamp = stored(KEY);
    assert_true(tl_dlu_lock_wait(next, KEY, LIFE_MS + SKEW_MS + LAG_MS + SOON_MS, &said));
    assert_true(server_ms() > stamp + SKEW_MS + LAG_MS);
}

TEST(strict_a_release_with_little_time_left_leaves_the_key) {
    tl_dlu *d = open_strict(real_redis_url(server), LIFE_MS / 2);
    take(d, KEY);
    long long stamp = stored(KEY);
    WAIT_FOR(LIFE_MS, tl_dlu_remaining_ms(d, KEY) < LIFE_MS / 2 - 100);
    (void)tl_dlu_release(d, KEY, NULL);
    assert_int_equal(stored(KEY), stamp);
}

int main(void) {
    server = real_redis_start(NULL);
    return tests_run();
}
