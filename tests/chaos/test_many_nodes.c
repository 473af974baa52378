/*
 * A cluster of a hundred masters: what a client needs of descriptors and threads is bounded, as src/client/README.md says, while it
 * takes, renews and waits for locks on all of them; and all it needs is given back. The nodes are fake servers in a child
 * process, so that what is counted here is the client's.
 * Only in make check-all: it starts many servers.
 */
#include "arena.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>

#include "client/client.h"
#include "fake_tcp.h"
#include "thread_count.h"

#define NODES 100
#define LIFE_MS clock_patient_ms(4000)
#define WAITERS 150
#define OWN 5              /* the keeper's, and what a wait for room may open */
#define KEEPER (2 * NODES) /* to each node one for requests, one for messages */
#define WITNESSES 61       /* who are asked about others, and for the map */
#define THREADS 8

static uint16_t ports[NODES];
static pid_t nodes;
static int heard, told; /* by pipes from and to them */

/* ---- the nodes ------------------------------------------------------------------------------- */

static fake_tcp *node[NODES];

/* The first `n` have all slots. */
static void share_out(unsigned n) {
    for (unsigned i = 0; i < NODES; i++) {
        fake_redis *r = fake_tcp_lock(node[i]);
        fake_redis_set_cluster(r, true);
        fake_redis_set_nodes(r, ports, n, i);
        fake_tcp_unlock(node[i]);
    }
}

/* Each byte that comes leaves half of them. */
__attribute__((noreturn)) static void serve(int to, int from) {
    char byte;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < NODES; i++) {
        node[i] = fake_tcp_start(NULL);
        ports[i] = (uint16_t)fake_tcp_port(node[i]);
    }
    share_out(NODES);
    if (write(to, ports, sizeof ports) != (ssize_t)sizeof ports)
        _exit(1);
    while (read(from, &byte, 1) == 1) {
        share_out(NODES / 2);
        if (write(to, "", 1) != 1)
            _exit(1);
    }
    _exit(0);
}

static void read_all(void *to, size_t size) {
    size_t n = 0;
    for (ssize_t more; n < size; n += (size_t)more) {
        more = read(heard, (char *)to + n, size - n);
        assert_true(more > 0);
    }
}

static void leave_half(void) {
    char byte;
    assert_int_equal(write(told, "", 1), 1);
    read_all(&byte, 1);
}

static int set_up(void **state) {
    int up[2], down[2];
    (void)state;
    assert_int_equal(pipe(up), 0);
    assert_int_equal(pipe(down), 0);
    nodes = fork();
    if (nodes == 0)
        serve(up[1], down[0]);
    (void)close(up[1]);
    (void)close(down[0]);
    heard = up[0];
    told = down[1];
    read_all(ports, sizeof ports);
    return 0;
}

static int tear_down(void **state) {
    int failed = locks_clean_up(state);
    (void)kill(nodes, SIGKILL);
    (void)waitpid(nodes, NULL, 0);
    (void)close(heard);
    (void)close(told);
    return failed;
}

TESTS_WITH(set_up, tear_down);

/* ---- counting -------------------------------------------------------------------------------- */

static int fd_count(void) {
    DIR *fds = opendir("/proc/self/fd");
    int count = -3; /* the folder itself, the one above, and what it is read by */
    assert_non_null(fds);
    while (readdir(fds)) // cppcheck-suppress readdirCalled ; a DIR of this thread's own
        count++;
    (void)closedir(fds);
    return count;
}

/* A key of node i. */
static const char *key_of(char key[32], int i, const char *what) {
    for (int n = 0;; n++) {
        (void)snprintf(key, 32, "%s:%d", what, n * NODES + i);
        if ((int)(tl__hash_slot(tl__bytes_of(key)) * NODES / TL_SLOTS) == i)
            return key;
    }
}

static tl_client *client_of_all(void) {
    char url[64];
    (void)snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%u", (unsigned)ports[NODES / 2]);
    return make_client_with(
        TL_CLIENT_OPTIONS(.url = url, .attempt_ms = SOON_MS, .connect_ms = SOON_MS));
}

typedef struct {
    pthread_t thread;
    tl_client *client;
    int from;
    tl_err worst;
} caller;

/* One lock on each node, one after the other. */
static void *call(void *ctx) {
    caller *c = ctx;
    for (int i = 0; i < NODES && !c->worst; i++) {
        char key[32], what[16];
        (void)snprintf(what, sizeof what, "of%d", c->from);
        (void)key_of(key, (i + c->from) % NODES, what);
        tl_lock *lock = tl_lock_new(c->client, key, strlen(key), NULL, NULL);
        c->worst = tl_lock_acquire(lock, TL_FOREVER, NULL);
        if (!c->worst)
            c->worst = tl_lock_release(lock, NULL);
        tl_lock_free(lock);
    }
    return NULL;
}

/* ---- the tests ------------------------------------------------------------------------------- */

static void let_pass(int64_t ms) {
    const clock_wait wait = clock_wait_begin(ms);
    while (clock_wait_more(&wait)) {}
}

static void count_end(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    (void)lock, (void)err;
    atomic_fetch_add((atomic_int *)ctx + (code != TL_OK), 1);
}

static void *nothing(void *ctx) {
    return ctx;
}

/* A sanitizer has a thread of its own from the first that is started on. */
static int threads_before(void) {
    pthread_t one;
    assert_int_equal(pthread_create(&one, NULL, nothing, NULL), 0);
    assert_int_equal(pthread_join(one, NULL), 0);
    return thread_count();
}

TEST(a_hundred_nodes_cost_a_bounded_number_of_descriptors_and_two_threads) {
    const int threads = threads_before(), fds = fd_count();
    atomic_int ended[2] = {0};
    lock_events *events = make_events();
    tl_client *client = client_of_all(), *other = client_of_all();
    tl_lock *held[NODES], *waits[WAITERS];
    char key[32];
    for (int i = 0; i < NODES; i++) {
        held[i] = make_lock_with(
            client, key_of(key, i, "held"),
            TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS, .on_event = lock_events_add, .ctx = events));
        ASSERT_RESULT(tl_lock_acquire(held[i], 0, &said), TL_OK);
    }
    let_pass(LIFE_MS + LIFE_MS / 4);
    const int alone = fd_count() - fds;
    print_message("one caller, a lock on each node: %d descriptors\n", alone);
    assert_in_range(alone, NODES, OWN + KEEPER + WITNESSES + NODES);
    assert_in_range(thread_count() - threads, 1, 1); /* the renewal thread */
    for (int i = 0; i < WAITERS; i++) {
        waits[i] = make_lock(other, key_of(key, i % NODES, "held"), LIFE_MS);
        ASSERT_RESULT(tl_lock_acquire_async(waits[i], TL_FOREVER, count_end, ended, &said), TL_OK);
    }
    let_pass(LIFE_MS);
    const int both = fd_count() - fds;
    print_message("and another client, that waits on each: %d\n", both);
    assert_in_range(both - alone, 0, OWN + KEEPER + WITNESSES);
    assert_in_range(thread_count() - threads, 2, 2);
    assert_int_equal(lock_events_count_of(events, TL_LOST), 0);
    for (int i = 0; i < NODES; i++) {
        ASSERT_GOES_ON(held[i]);
        ASSERT_RESULT(tl_lock_release(held[i], &said), TL_OK);
    }
    for (int i = 0; i < NODES; i++)
        WAIT_FOR(SOON_MS, tl_lock_state(waits[i]) == TL_HELD);
    assert_int_equal(ended[1], 0);
}

static void hold_on_each(tl_client *client, const char *what) {
    for (int i = 0; i < NODES; i++) {
        char key[32];
        tl_lock *lock = make_lock_with(client, key_of(key, i, what),
                                       TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS));
        ASSERT_RESULT(tl_lock_acquire(lock, TL_FOREVER, &said), TL_OK);
        ASSERT_RESULT(tl_lock_release(lock, &said), TL_OK);
    }
}

TEST(a_node_that_has_gone_costs_nothing) {
    const int fds = fd_count();
    tl_client *client = client_of_all();
    hold_on_each(client, "before");
    hold_on_each(client, "again");
    const int all = fd_count() - fds;
    leave_half();
    hold_on_each(client, "after");
    WAIT_FOR(SOON_MS, fd_count() - fds <= all - NODES / 2);
    print_message("of %d descriptors %d are left\n", all, fd_count() - fds);
}

TEST(callers_that_block_share_what_connections_there_are) {
    const int fds = fd_count();
    tl_client *client = client_of_all();
    caller callers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        callers[i] = (caller){.client = client, .from = i};
        assert_int_equal(pthread_create(&callers[i].thread, NULL, call, &callers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        assert_int_equal(pthread_join(callers[i].thread, NULL), 0);
        assert_int_equal(callers[i].worst, TL_OK);
    }
    const int all = fd_count() - fds;
    print_message("%d callers: %d descriptors\n", THREADS, all);
    assert_in_range(all, NODES, OWN + KEEPER + WITNESSES + THREADS + NODES * TL_POOLED_LEAST);
    drop_client(client);
    assert_int_equal(fd_count(), fds);
}
