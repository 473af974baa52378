/*
 * fork: in the child the handles refuse at once and harm nothing, whatever the parent was doing with
 * them; the parent goes on as if nothing had happened, and the child may open a client of its own.
 */
#include <dirent.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "arena.h"

TESTS_WITH(arena_set_up, arena_tear_down);

#define CHILD_LIMIT_S 120 /* what hangs in the child ends it, and the test fails */
#define CHURN_THREADS 4
#define FORKS 40

/* Another thread may be inside AddressSanitizer's allocator when the process forks: then a child that
 * allocates waits for ever, in compilers of this time. */
#if defined(__SANITIZE_ADDRESS__)
#define CHILD_MAY_ALLOCATE false
#elif defined(__has_feature)
#define CHILD_MAY_ALLOCATE !__has_feature(address_sanitizer)
#else
#define CHILD_MAY_ALLOCATE true
#endif

/* ThreadSanitizer ends a child that starts a thread after a fork of many. */
#if defined(__SANITIZE_THREAD__)
#define CHILD_MAY_THREAD false
#elif defined(__has_feature)
#define CHILD_MAY_THREAD !__has_feature(thread_sanitizer)
#else
#define CHILD_MAY_THREAD true
#endif

typedef struct {
    tl_client *client;
    tl_lock *lock;
} handles;

static void never(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock;
    (void)code;
    (void)err;
    (void)ctx;
    _exit(99); /* nothing may be told in the child */
}

/* The number of the first promise that the child finds broken, or 0. */
static int look_around(const handles *h) {
    tl_lock_info info = {.size = sizeof info};
    tl_error err;
    if (tl_lock_acquire(h->lock, TL_FOREVER, &err) != TL_EINVALID || !strstr(err.message, "parent"))
        return 1;
    if (tl_lock_release(h->lock, NULL) != TL_EINVALID)
        return 2;
    if (tl_lock_extend(h->lock, TTL_MS, NULL) != TL_EINVALID)
        return 3;
    if (tl_lock_adopt(h->lock, "token", NULL) != TL_EINVALID)
        return 4;
    if (tl_lock_acquire_async(h->lock, TL_FOREVER, never, NULL, &err) != TL_EINVALID)
        return 5;
    if (tl_lock_release_async(h->lock, never, NULL, &err) != TL_EINVALID)
        return 6;
    if (tl_client_fd(h->client) != -1 || tl_client_dispatch(h->client) != 0)
        return 7;
    tl_state state = tl_lock_state(h->lock);
    if (state == TL_HELD || state == TL_AT_RISK || tl_lock_remaining_ms(h->lock) != 0)
        return 8;
    if (tl_client_ping(h->client, NULL) != TL_EINVALID ||
        tl_client_look(h->client, KEY, sizeof KEY - 1, &info, NULL) != TL_EINVALID)
        return 9;
    if (tl_acquire(h->client, KEY, 0, NULL))
        return 10;
    tl_lock_cancel(h->lock);
    return 0;
}

/* A thread that the child's handles started would use up what wakes the parent's. */
static bool has_other_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *task; tasks && (task = readdir(tasks));)
        n += task->d_name[0] != '.';
    (void)closedir(tasks);
    return n > 1;
}

static int open_ones_own(void) {
    if (!CHILD_MAY_THREAD)
        return 0;
    tl_client_options options = TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                  .attempt_ms = SOON_MS);
    tl_client *client;
    if (tl_client_open(&options, &client, NULL))
        return 11;
    tl_lock *lock = tl_acquire(client, "chaos:child", 60000, NULL);
    int broken = lock && tl_release(lock, NULL) == TL_OK ? 0 : 12;
    tl_client_close(client);
    return broken;
}

static void assert_child_is_content(const handles *h, int count) {
    const pid_t parent = getpid();
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)alarm(CHILD_LIMIT_S);
        if (getppid() != parent)
            _exit(98);
        int broken = 0;
        for (int i = 0; i < count && !broken; i++)
            broken = look_around(&h[i]);
        if (CHILD_MAY_THREAD && !broken && has_other_threads())
            broken = 13;
        for (int i = 0; i < count; i++) {
            tl_lock_free(h[i].lock);
            tl_client_close(h[i].client);
        }
        _exit(broken ? broken : open_ones_own());
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (WIFSIGNALED(status))
        fail_msg("the child was ended by signal %d", WTERMSIG(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- each phase ---------------------------------------------------------------------------------- */

typedef struct {
    atomic_int told;
    tl_err code;
} outcome;

static outcome outcomes[2];

static void note(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    outcome *o = ctx;
    (void)lock;
    (void)err;
    o->code = code;
    atomic_fetch_add(&o->told, 1);
}

static outcome *begin(tl_lock *lock, int which) {
    outcome *o = &outcomes[which];
    *o = (outcome){0};
    ASSERT_RESULT(tl_lock_acquire_async(lock, TL_FOREVER, note, o, &said), TL_OK);
    return o;
}

TEST(a_client_whose_thread_has_not_begun_starts_none_in_the_child) {
    tl_client *client = client_direct();
    handles h = {client, make_lock(client, KEY, TTL_MS)};
    assert_child_is_content(&h, 1);
    ASSERT_RESULT(tl_lock_acquire(h.lock, 0, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(h.lock, &said), TL_OK);
}

TEST(a_held_lock_stays_the_parents) {
    lock_events *events = make_events();
    tl_client *client = client_direct();
    handles h = {client,
                 make_lock_with(
                     client, KEY,
                     TL_LOCK_OPTIONS(.ttl_ms = 12000, .on_event = lock_events_add, .ctx = events))};
    ASSERT_RESULT(tl_lock_acquire(h.lock, 0, &said), TL_OK);
    assert_child_is_content(&h, 1);
    forget_executed();
    WAIT_FOR(SOON_MS, has_executed("evalsha", 1)); /* renewed */
    ASSERT_GOES_ON(h.lock);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    ASSERT_RESULT(tl_lock_extend(h.lock, TTL_MS, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(h.lock, &said), TL_OK);
}

TEST(a_thread_that_waits_goes_on_in_the_parent) {
    tl_client *client = client_direct();
    handles h[3];
    for (int i = 0; i < 3; i++)
        h[i] = (handles){i ? client : client_direct(), NULL};
    for (int i = 0; i < 3; i++)
        h[i].lock = make_lock(h[i].client, KEY, TTL_MS);
    ASSERT_RESULT(tl_lock_acquire(h[0].lock, 0, &said), TL_OK);
    forget_executed();
    acquiring *front = acquiring_begin(h[1].lock, TL_FOREVER);
    WAIT_FOR(SOON_MS, has_executed("subscribe", 1));
    acquiring *queued = acquiring_begin(h[2].lock, TL_FOREVER);
    assert_child_is_content(h, 3);
    ASSERT_RESULT(tl_lock_release(h[0].lock, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(front, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(h[1].lock, &said), TL_OK);
    ASSERT_RESULT(acquiring_end(queued, SOON_MS), TL_OK);
    ASSERT_RESULT(tl_lock_release(h[2].lock, &said), TL_OK);
}

static void operations_go_on_in_the_parent(bool dispatch) {
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                           .attempt_ms = SOON_MS,
                                                           .dispatch = dispatch));
    tl_lock *holder = by_hand(client_direct(), AGES_MS);
    handles h[2] = {{client, make_lock(client, KEY, TTL_MS)},
                    {client, make_lock(client, KEY, TTL_MS)}};
    ASSERT_RESULT(tl_lock_acquire(holder, 0, &said), TL_OK);
    outcome *contends = begin(h[0].lock, 0), *queues = begin(h[1].lock, 1);
    assert_child_is_content(h, 2);
    ASSERT_RESULT(tl_lock_release(holder, &said), TL_OK);
    if (dispatch) { /* completed, and untold */
        struct pollfd fd = {.fd = tl_client_fd(client), .events = POLLIN};
        assert_int_equal(poll(&fd, 1, SOON_MS), 1);
        assert_child_is_content(h, 2);
    }
    WAIT_FOR(SOON_MS, tl_client_dispatch(client) >= 0 && atomic_load(&contends->told) == 1);
    ASSERT_RESULT(contends->code, TL_OK);
    assert_int_equal(atomic_load(&queues->told), 0);
    ASSERT_RESULT(tl_lock_release(h[0].lock, &said), TL_OK);
    WAIT_FOR(SOON_MS, tl_client_dispatch(client) >= 0 && atomic_load(&queues->told) == 1);
    ASSERT_RESULT(queues->code, TL_OK);
    ASSERT_RESULT(tl_lock_release(h[1].lock, &said), TL_OK);
    assert_free_soon();
}

TEST(operations_told_by_the_keeper_go_on_in_the_parent) {
    operations_go_on_in_the_parent(false);
}

TEST(operations_told_by_dispatch_go_on_in_the_parent) {
    operations_go_on_in_the_parent(true);
}

/* ---- while the renewal thread has its mutex ------------------------------------------------------- */

static struct {
    pthread_t caller;
    atomic_bool armed, there, may_go;
} stop;

/* `log` runs with the mutex of the renewal thread locked. That thread stays in it. */
static void stop_in_log(tl_log_level level, const char *line, void *ctx) {
    (void)level;
    (void)line;
    (void)ctx;
    if (!atomic_load(&stop.armed) || pthread_equal(pthread_self(), stop.caller))
        return;
    atomic_store(&stop.there, true);
    WAIT_FOR(SOON_MS, atomic_load(&stop.may_go));
}

TEST(a_fork_while_the_renewal_thread_has_its_mutex_hangs_nobody) {
    tl_client *client = make_client_with(TL_CLIENT_OPTIONS(.url = real_redis_url(server),
                                                           .attempt_ms = SOON_MS,
                                                           .log = stop_in_log, .trace = true));
    handles h = {client, make_lock(client, KEY, TTL_MS)};
    tl_lock *other = make_lock(client, KEY ":other", TTL_MS);
    stop.caller = pthread_self();
    ASSERT_RESULT(tl_lock_acquire(h.lock, 0, &said), TL_OK);
    atomic_store(&stop.armed, true);
    outcome *acquires = begin(other, 0);
    WAIT_FOR(SOON_MS, atomic_load(&stop.there));
    assert_child_is_content(&h, 1);
    atomic_store(&stop.armed, false);
    atomic_store(&stop.may_go, true);
    WAIT_FOR(SOON_MS, atomic_load(&acquires->told) == 1);
    ASSERT_RESULT(acquires->code, TL_OK);
    ASSERT_RESULT(tl_lock_release(h.lock, &said), TL_OK);
    ASSERT_RESULT(tl_lock_release(other, &said), TL_OK);
}

/* ---- at any moment --------------------------------------------------------------------------------- */

typedef struct {
    handles h;
    atomic_bool *ending;
    int faults;
} churner;

static void *churn(void *ctx) {
    churner *w = ctx;
    while (!atomic_load(w->ending))
        w->faults += tl_lock_acquire(w->h.lock, 60000, NULL) || tl_lock_release(w->h.lock, NULL);
    return NULL;
}

/* Whatever mutex another thread held when the parent forked is held for ever in the child. */
TEST(a_fork_at_any_moment_hangs_nobody) {
    tl_client *client = client_direct();
    churner churners[CHURN_THREADS];
    pthread_t threads[CHURN_THREADS];
    handles h[CHURN_THREADS];
    atomic_bool ending = false;
    for (int i = 0; i < CHURN_THREADS; i++) {
        h[i] = (handles){client, make_lock(client, KEY, TTL_MS)};
        churners[i] = (churner){.h = h[i], .ending = &ending};
        assert_int_equal(pthread_create(&threads[i], NULL, churn, &churners[i]), 0);
    }
    for (int i = 0; i < FORKS; i++)
        assert_child_is_content(h, CHURN_THREADS);
    atomic_store(&ending, true);
    for (int i = 0; i < CHURN_THREADS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(churners[i].faults, 0);
    }
    assert_free_soon();
}

int main(void) {
    if (!CHILD_MAY_ALLOCATE) {
        (void)puts("AddressSanitizer's allocator doesn't outlive a fork");
        return 77;
    }
    server = real_redis_start(NULL);
    return tests_run();
}
