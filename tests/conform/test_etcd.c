/*
 * Locks on a real etcd: the promises of the header, and one line with `etcdctl lock`.
 *
 * timeout: 180
 */
#include "tests.h"

#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <tidelock/inspect.h>
#include <tidelock/tidelock.h>
#include <time.h>
#include <unistd.h>

#include "clock_wait.h"
#include "real_etcd.h"

#define TTL_MS 30000
#define LASTING_MS clock_patient_ms(10000) /* a renewal saves it, whoever is stopped for seconds */
#define WATCHED_MS 1500                    /* until there is a stream, most likely */
#define FLOOR_MS 5000 /* after so long who waits and isn't told looks by himself */
#define LEAST 9 / 11  /* of a lifetime */

static real_etcd *etcd;
static tl_client *client;

static int64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void pause_ms(long ms) {
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
}

static tl_client *open_url(const char *url) {
    tl_client *c;
    tl_error err;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = url, .service = "conform", .attempt_ms = SOON_MS,
                                            .connect_ms = SOON_MS);
    if (tl_client_open(&o, &c, &err))
        fail_msg("%s", err.message);
    return c;
}

static int set_up(void **state) {
    (void)state;
    if (!etcd)
        etcd = real_etcd_start(1);
    client = open_url(real_etcd_url(etcd));
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tl_client_close(client);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static tl_lock *new_lock(tl_client *c, const char *key, tl_lock_options o) {
    tl_error err;
    tl_lock *lock = tl_lock_new(c, key, strlen(key), &o, &err);
    if (!lock)
        fail_msg("%s", err.message);
    return lock;
}

static tl_lock *plain(const char *key) {
    return new_lock(client, key, TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
}

static void acquire(tl_lock *lock, int64_t wait_ms) {
    tl_error err;
    if (tl_lock_acquire(lock, wait_ms, &err))
        fail_msg("%s", err.message);
}

static void release(tl_lock *lock) {
    tl_error err;
    if (tl_lock_release(lock, &err))
        fail_msg("%s", err.message);
}

/* What isn't to be had. The limit may cut short the last look, which then can't say: it waits anew, each time for twice as long. */
static void assert_times_out(tl_lock *lock, int64_t ms) {
    tl_err code = TL_EUNCERTAIN;
    for (; ms <= SOON_MS && (code == TL_EUNCERTAIN || code == TL_EUNAVAILABLE); ms *= 2)
        code = tl_lock_acquire(lock, ms, NULL);
    assert_int_equal(code, TL_ETIMEDOUT);
}

static uint64_t renewals(void) {
    tl_stats s = {.size = sizeof s};
    assert_int_equal(tl_client_stats(client, &s, NULL), TL_OK);
    return s.renewals;
}

/* How many keys there are below K/. */
static unsigned contenders(const char *key) {
    char arguments[200];
    (void)snprintf(arguments, sizeof arguments, "get --prefix --keys-only %s/", key);
    const char *text = real_etcd_ctl(etcd, arguments);
    unsigned n = 0;
    assert_non_null(text);
    for (; *text; text++)
        n += *text == '/';
    return n;
}

static void await_contenders(const char *key, unsigned count) {
    WAIT_FOR(SOON_MS, contenders(key) == count);
}

/* ---- one lock ---------------------------------------------------------------------------------- */

TEST(a_lock_is_held_by_one_and_then_by_the_next_with_a_larger_fence) {
    tl_lock *a = plain("one"), *b = plain("one");
    acquire(a, 0);
    assert_true(tl_lock_remaining_ms(a) > TTL_MS / 2 && tl_lock_remaining_ms(a) <= TTL_MS * LEAST);
    assert_int_equal(tl_lock_acquire(b, 0, NULL), TL_EBUSY);
    uint64_t fence = tl_lock_fence(a);
    assert_true(fence > 0);
    release(a);
    acquire(b, 0);
    assert_true(tl_lock_fence(b) > fence);
    release(b);
    assert_int_equal(contenders("one"), 0);
    assert_int_equal(tl_lock_release(b, NULL), TL_EINVALID);
    tl_lock_free(a);
    tl_lock_free(b);
}

/* It tells no time: nothing is known of its clock. */
TEST(what_was_done_is_counted) {
    tl_lock *a = new_lock(client, "counted", TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS)),
            *b = plain("counted");
    tl_stats s = {.size = sizeof s};
    acquire(a, 0);
    assert_int_equal(tl_lock_acquire(b, 0, NULL), TL_EBUSY);
    assert_int_equal(tl_lock_extend(a, LASTING_MS, NULL), TL_OK);
    WAIT_FOR(SOON_MS, renewals() > 0);
    release(a);
    acquire(b, SOON_MS);
    release(b);
    assert_int_equal(tl_client_stats(client, &s, NULL), TL_OK);
    assert_true(s.renewals >= 1);
    assert_int_equal(s.acquires[TL_OK], 2);
    assert_int_equal(s.acquires[TL_EBUSY], 1);
    assert_int_equal(s.extends[TL_OK], 1);
    assert_int_equal(s.releases[TL_OK], 2);
    assert_int_equal(s.wait.count, 2);
    assert_int_equal(s.waited + s.handed_over, 0);
    assert_in_range(s.round_trips.count, 6, 40);
    assert_int_equal(s.clocks, 0);
    tl_lock_free(a);
    tl_lock_free(b);
}

TEST(a_held_lock_outlives_its_lifetime_and_loses_it_when_its_key_goes) {
    tl_lock *a = new_lock(client, "kept", TL_LOCK_OPTIONS(.ttl_ms = LASTING_MS));
    acquire(a, 0);
    for (int64_t end = now_ms() + LASTING_MS + 500; now_ms() < end; pause_ms(50))
        assert_true(tl_lock_remaining_ms(a) > 0);
    assert_int_equal(contenders("kept"), 1);
    assert_non_null(real_etcd_ctl(etcd, "del --prefix kept/"));
    WAIT_FOR(SOON_MS, tl_lock_state(a) == TL_LOST);
    assert_int_equal(tl_lock_remaining_ms(a), 0);
    assert_int_equal(tl_lock_release(a, NULL), TL_EEXPIRED);
    tl_lock_free(a);
}

/* Long before it is renewed. */
static void is_lost_by(const tl_lock *lock, const char *ctl) {
    assert_non_null(real_etcd_ctl(etcd, ctl));
    WAIT_FOR(SOON_MS, tl_lock_state(lock) == TL_LOST);
}

/* A lifetime of which a third is longer than anything here may take. */
TEST(a_key_that_somebody_deletes_is_noticed_at_once) {
    enum { LENGTHY_MS = 300000 };
    tl_lock *a = new_lock(client, "noticed", TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS)),
            *b = new_lock(client, "noticed/b", TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS)),
            *by_hand = new_lock(client, "noticed/c",
                                TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS, .manual_renew = true));
    acquire(b, 0);
    acquire(by_hand, 0);
    assert_int_equal(tl_lock_acquire(a, 0, NULL), TL_EBUSY); /* names nest */
    pause_ms(WATCHED_MS);
    is_lost_by(b, "del --prefix noticed/b/");
    is_lost_by(by_hand, "del --prefix noticed/c/");
    acquire(a, 0); /* deleted before there is a stream: from its revision on */
    is_lost_by(a, "del --prefix noticed/");
    acquire(a, 0);
    pause_ms(WATCHED_MS);
    char revoke[64];
    const char *leases = real_etcd_ctl(etcd, "get --prefix noticed/ -w fields");
    const char *lease = leases ? strstr(leases, "\"Lease\" : ") : NULL;
    assert_non_null(lease);
    (void)snprintf(revoke, sizeof revoke, "lease revoke %llx",
                   strtoull(lease + strlen("\"Lease\" : "), NULL, 10));
    is_lost_by(a, revoke);
    tl_lock_free(a);
    tl_lock_free(b);
    tl_lock_free(by_hand);
}

static uint64_t revision(void) {
    tl_lock *lock = plain("asks");
    acquire(lock, 0);
    uint64_t at = tl_lock_fence(lock);
    release(lock);
    tl_lock_free(lock);
    return at;
}

/* Each transaction is a revision. One that is gone costs the others nothing. */
static atomic_int stalled, lost_stalled;

static void note_stall(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock, (void)ctx;
    if (event->state == TL_AT_RISK && event->why == TL_RISK_STALLED)
        atomic_fetch_add(&stalled, 1);
    if (event->state == TL_LOST && event->why == TL_LOST_STALLED)
        atomic_fetch_add(&lost_stalled, 1);
}

/* A machine that stops the renewal thread for nearly a lifetime notices only the deadline: then it is tried again. */
TEST(a_holder_without_a_sign_of_life_loses_it_and_another_acquires_it) {
    atomic_store(&stalled, 0);
    atomic_store(&lost_stalled, 0);
    for (int i = 0; i < 20 && !atomic_load(&stalled); i++) {
        tl_lock *lock = new_lock(
            client, "hung",
            TL_LOCK_OPTIONS(.ttl_ms = 2000, .stall_ms = 20, .on_event = note_stall));
        tl_lock *other = plain("hung");
        acquire(lock, SOON_MS);
        acquire(other, SOON_MS);
        assert_int_equal(tl_lock_state(lock), TL_LOST);
        assert_int_equal(tl_lock_remaining_ms(lock), 0);
        WAIT_FOR(SOON_MS, !atomic_load(&stalled) || atomic_load(&lost_stalled) == 1);
        release(other);
        tl_lock_free(lock);
        tl_lock_free(other);
    }
    assert_int_equal(atomic_load(&stalled), 1);
}

TEST(many_locks_are_renewed_in_few_transactions_and_one_loses_alone) {
    enum { N = 300, GONE = 17, LIFE_MS = 20000 };
    static tl_lock *lock[N];
    for (int i = 0; i < N; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "many%d", i);
        lock[i] = new_lock(client, key, TL_LOCK_OPTIONS(.ttl_ms = LIFE_MS));
        acquire(lock[i], 0);
    }
    uint64_t before = revision(), renewed = renewals();
    WAIT_FOR(SOON_MS, renewals() >= renewed + 2 * N); /* two renewals of each */
    uint64_t used = revision() - before;
    assert_true(used > 3 && used < N);
    is_lost_by(lock[GONE], "del --prefix many17/"); /* at once: the next test */
    renewed = renewals();
    WAIT_FOR(SOON_MS, renewals() >= renewed + N - 1);
    for (int i = 0; i < N; i++)
        assert_true(i == GONE || tl_lock_state(lock[i]) != TL_LOST);
    for (int i = 0; i < N; i++) {
        assert_int_equal(tl_lock_release(lock[i], NULL), i == GONE ? TL_EEXPIRED : TL_OK);
        tl_lock_free(lock[i]);
    }
}

/* Long before a renewal: one request asks for all these watches, and etcd answers to the first before it has read the last. */
TEST(of_many_locks_each_hears_at_once_that_its_key_is_deleted) {
    enum { N = 900, LENGTHY_MS = 200000, MOMENT_MS = 5000 };
    static tl_lock *lock[N];
    for (int i = 0; i < N; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "each%d", i);
        lock[i] = new_lock(client, key, TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS));
        acquire(lock[i], 0);
    }
    pause_ms(MOMENT_MS); /* until they are watched */
    assert_non_null(real_etcd_ctl(etcd, "del --prefix each"));
    const int64_t began = now_ms();
    for (int i = 0; i < N; i++) {
        WAIT_FOR(began + SOON_MS - now_ms(), tl_lock_state(lock[i]) == TL_LOST);
        tl_lock_free(lock[i]);
    }
}

/* The number behind the word in what etcdctl has said. */
static long long number_behind(const char *text, const char *word) {
    const char *at = text ? strstr(text, word) : NULL;
    assert_non_null(at);
    return strtoll(at + strlen(word), NULL, 10);
}

/* Before its answer is there, and if none comes, its holder counts on what it had. */
TEST(an_extension_for_less_shortens_no_lease) {
    char arguments[100];
    tl_error err;
    tl_lock *a = new_lock(client, "less", TL_LOCK_OPTIONS(.ttl_ms = 60000, .manual_renew = true));
    acquire(a, 0);
    if (tl_lock_extend(a, TTL_MS, &err))
        fail_msg("%s", err.message);
    assert_true(tl_lock_remaining_ms(a) <= TTL_MS);
    long long lease = number_behind(real_etcd_ctl(etcd, "get --prefix less/ -w json"),
                                    "\"lease\":");
    (void)snprintf(arguments, sizeof arguments, "lease timetolive %llx", lease);
    assert_int_equal(number_behind(real_etcd_ctl(etcd, arguments), "TTL("), 60);
    release(a);
    tl_lock_free(a);
}

static unsigned leases(void) {
    unsigned n = 0;
    const char *text = real_etcd_ctl(etcd, "lease list");
    assert_non_null(text);
    for (text = strchr(text, '\n'); text && text[1]; text = strchr(text + 1, '\n'))
        n++;
    return n;
}

/* Of lifetimes that are long, so that none of them expires meanwhile. */
TEST(a_thousand_pairs_leave_few_leases) {
    enum { LENGTHY_MS = 600000, N = 1000, TOO_MANY = 8 };
    tl_lock *lock[2];
    unsigned before = leases();
    for (int i = 0; i < 2; i++)
        lock[i] = new_lock(client, i ? "pair/b" : "pair/a", TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS));
    for (int i = 0; i < N; i++) {
        acquire(lock[i % 2], 0);
        release(lock[i % 2]);
    }
    acquire(lock[0], 0);
    tl_lock *tries = new_lock(client, "pair/a", TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS));
    for (int i = 0; i < N / 10; i++) /* nor do those in vain */
        assert_int_equal(tl_lock_acquire(tries, 0, NULL), TL_EBUSY);
    for (int i = 0; i < 5; i++)
        assert_times_out(tries, 100);
    release(lock[0]);
    unsigned so_far = leases();
    for (int i = 0; i < 10; i++) { /* nor clients that acquire one lock, and go */
        tl_client *brief = open_url(real_etcd_url(etcd));
        tl_lock *once = new_lock(brief, "pair/a", TL_LOCK_OPTIONS(.ttl_ms = LENGTHY_MS));
        acquire(once, SOON_MS);
        release(once);
        tl_lock_free(once);
        tl_client_close(brief);
    }
    assert_in_range(leases(), 0, so_far + 2);
    WAIT_FOR(SOON_MS, /* what those have left who gave up is revoked in the background */
             leases() < before + TOO_MANY);
    for (int i = 0; i < 2; i++)
        tl_lock_free(lock[i]);
    tl_lock_free(tries);
}

TEST(a_lock_that_nobody_renews_expires_no_sooner_than_is_believed) {
    tl_lock *a = new_lock(client, "left", TL_LOCK_OPTIONS(.ttl_ms = 2000, .manual_renew = true));
    tl_lock *b = plain("left");
    acquire(a, 0);
    tl_err code;
    while ((code = tl_lock_acquire(b, 0, NULL)) == TL_EBUSY && tl_lock_remaining_ms(a) > 0)
        pause_ms(20);
    assert_int_equal(tl_lock_remaining_ms(a), 0);
    if (code != TL_OK) {
        assert_int_equal(code, TL_EBUSY);
        acquire(b, SOON_MS);
    }
    assert_int_equal(tl_lock_state(a), TL_LOST);
    assert_true(tl_lock_fence(b) > tl_lock_fence(a));
    release(b);
    tl_lock_free(a);
    tl_lock_free(b);
}

TEST(an_extension_lasts_and_a_token_is_adopted_by_another_process_of_it) {
    tl_lock *a = new_lock(client, "adopted",
                          TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .manual_renew = true));
    acquire(a, 0);
    assert_int_equal(tl_lock_extend(a, 2 * TTL_MS, NULL), TL_OK);
    assert_true(tl_lock_remaining_ms(a) > 2 * TTL_MS * LEAST - SLACK_MS);
    tl_client *other = open_url(real_etcd_url(etcd));
    tl_lock *b = new_lock(other, "adopted", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    assert_int_equal(tl_lock_adopt(b, tl_lock_token(a), NULL), TL_OK);
    assert_int_equal(tl_lock_extend(b, 4 * TTL_MS, NULL), TL_OK);
    assert_true(tl_lock_remaining_ms(b) > 4 * TTL_MS * LEAST - SLACK_MS);
    release(b);
    assert_int_equal(tl_lock_release(a, NULL), TL_EEXPIRED);
    assert_int_equal(tl_lock_adopt(b, "no-such-token", NULL), TL_OK);
    assert_int_equal(tl_lock_release(b, NULL), TL_EEXPIRED);
    tl_lock_free(b);
    tl_client_close(other);
    tl_lock_free(a);
}

TEST(keys_of_any_bytes_and_the_longest_are_locks_of_their_own) {
    static char longest[16384];
    memset(longest, 'x', sizeof longest);
    tl_error err;
    const tl_lock_options o = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *odd = tl_lock_new(client, "a\0\xff\"b", 5, &o, &err);
    tl_lock *lengthy = tl_lock_new(client, longest, sizeof longest, &o, &err);
    tl_lock *again = tl_lock_new(client, longest, sizeof longest, &o, &err);
    assert_true(odd && lengthy && again);
    acquire(odd, 0);
    acquire(lengthy, 0);
    assert_times_out(again, 2000);
    release(lengthy);
    acquire(again, SOON_MS);
    release(again);
    release(odd);
    tl_lock_free(odd);
    tl_lock_free(lengthy);
    tl_lock_free(again);
}

TEST(keys_below_a_prefix_are_apart) {
    char url[300];
    (void)snprintf(url, sizeof url, "%s/team", real_etcd_url(etcd));
    tl_client *other = open_url(url);
    tl_lock *a = plain("p"), *b = new_lock(other, "p", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    acquire(a, 0);
    acquire(b, 0);
    assert_int_equal(contenders("p"), 1);
    assert_int_equal(contenders("team/p"), 2); /* of which one slash is the prefix's */
    release(a);
    release(b);
    tl_lock_free(a);
    tl_lock_free(b);
    tl_client_close(other);
}

/* ---- waiting ----------------------------------------------------------------------------------- */

typedef struct {
    tl_lock *lock;
    int order;
    tl_err code;
} waiting;

static int arrived;

static void done(tl_lock *lock, tl_err code, const tl_error *err, void *ctx) {
    waiting *w = ctx;
    (void)lock, (void)err;
    w->code = code;
    w->order = arrived + 1; /* one thread tells all of them */
    __atomic_add_fetch(&arrived, 1, __ATOMIC_SEQ_CST);
}

static void await_arrived(int count) {
    WAIT_FOR(SOON_MS, __atomic_load_n(&arrived, __ATOMIC_SEQ_CST) >= count);
    assert_int_equal(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST), count);
}

TEST(who_waits_gets_it_in_order_and_at_once) {
    enum { N = 5 };
    tl_lock *holder = plain("line");
    waiting w[N] = {{0}};
    arrived = 0;
    acquire(holder, 0);
    for (int i = 0; i < N; i++) {
        w[i].lock = plain("line");
        assert_int_equal(tl_lock_acquire_async(w[i].lock, TL_FOREVER, done, &w[i], NULL), TL_OK);
        await_contenders("line", (unsigned)i + 2);
    }
    pause_ms(300); /* the watches are there */
    int64_t began = now_ms();
    release(holder);
    for (int i = 0; i < N; i++) {
        await_arrived(i + 1);
        assert_int_equal(w[i].order, i + 1);
        assert_int_equal(w[i].code, TL_OK);
        release(w[i].lock);
    }
    assert_true(now_ms() - began < N * FLOOR_MS); /* who looks by himself takes longer */
    for (int i = 0; i < N; i++)
        tl_lock_free(w[i].lock);
    tl_lock_free(holder);
    await_contenders("line", 0);
}

TEST(who_gives_up_leaves_the_line_to_those_behind) {
    tl_lock *holder = plain("quits"), *second = plain("quits"), *third = plain("quits");
    waiting w[2] = {{.lock = second}, {.lock = third}};
    arrived = 0;
    acquire(holder, 0);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(tl_lock_acquire_async(w[i].lock, TL_FOREVER, done, &w[i], NULL), TL_OK);
        await_contenders("quits", (unsigned)i + 2);
    }
    tl_lock_cancel(second);
    await_arrived(1);
    assert_int_equal(w[0].code, TL_ECANCELLED);
    await_contenders("quits", 2);
    release(holder);
    await_arrived(2);
    assert_int_equal(w[1].code, TL_OK);
    release(third);
    assert_int_equal(tl_lock_acquire(holder, 0, NULL), TL_OK);
    assert_times_out(second, 200);
    await_contenders("quits", 1);
    release(holder);
    tl_lock_free(holder);
    tl_lock_free(second);
    tl_lock_free(third);
}

TEST(a_waiter_outlives_its_lifetime_in_line) {
    const int64_t life_ms = clock_patient_ms(6000);
    tl_lock *a = plain("patient"),
            *b = new_lock(client, "patient", TL_LOCK_OPTIONS(.ttl_ms = life_ms));
    waiting w = {.lock = b};
    arrived = 0;
    acquire(a, 0);
    assert_int_equal(tl_lock_acquire_async(b, TL_FOREVER, done, &w, NULL), TL_OK);
    pause_ms(life_ms * 5 / 4);
    assert_int_equal(contenders("patient"), 2);
    release(a);
    await_arrived(1);
    assert_int_equal(w.code, TL_OK);
    release(b);
    tl_lock_free(a);
    tl_lock_free(b);
}

/* ---- other processes --------------------------------------------------------------------------- */

/* Three processes acquire one lock ten times each; what it protects is a counter in a file. */
TEST(three_processes_count_to_thirty) {
    char path[] = "/tmp/tidelock-count-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    pid_t pid[3];
    for (int p = 0; p < 3; p++) {
        pid[p] = fork();
        if (pid[p] == 0) {
            tl_client *mine = open_url(real_etcd_url(etcd));
            tl_lock *lock = new_lock(mine, "count", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
            for (int i = 0; i < 10; i++) {
                int n = 0;
                if (tl_lock_acquire(lock, 120000, NULL) || pread(fd, &n, sizeof n, 0) < 0)
                    _exit(1);
                pause_ms(5);
                n++;
                if (pwrite(fd, &n, sizeof n, 0) != sizeof n || tl_lock_release(lock, NULL))
                    _exit(2);
            }
            tl_lock_free(lock);
            tl_client_close(mine);
            _exit(0);
        }
    }
    for (int p = 0; p < 3; p++) {
        int status;
        waitpid(pid[p], &status, 0);
        assert_int_equal(status, 0);
    }
    int n = 0;
    assert_int_equal(pread(fd, &n, sizeof n, 0), sizeof n);
    assert_int_equal(n, 30);
    close(fd);
    unlink(path);
}

static tl_lock_info look_at(const char *key) {
    tl_lock_info info = {.size = sizeof info};
    assert_int_equal(tl_client_look(client, key, strlen(key), &info, NULL), TL_OK);
    return info;
}

/* etcdctl holds it until somebody writes to the pipe that its command reads. */
TEST(etcdctl_waits_behind_us_and_we_behind_it) {
    char dir[] = "/tmp/tidelock-pipe-XXXXXX", fifo[64], command[128];
    tl_lock *a = plain("both");
    waiting w = {.lock = a};
    int status, end = -1;
    arrived = 0;
    assert_non_null(mkdtemp(dir));
    (void)snprintf(fifo, sizeof fifo, "%s/fifo", dir);
    (void)snprintf(command, sizeof command, "lock --ttl=60 both cat %s", fifo);
    assert_int_equal(mkfifo(fifo, 0600), 0);
    acquire(a, 0);
    pid_t ctl = real_etcd_ctl_start(etcd, command);
    await_contenders("both", 2);
    pause_ms(300);
    assert_int_equal(waitpid(ctl, NULL, WNOHANG), 0);
    assert_true(look_at("both").by_tidelock);
    release(a);
    WAIT_FOR(SOON_MS, (end = open(fifo, O_WRONLY | O_NONBLOCK | O_CLOEXEC)) >= 0); /* it is read */
    tl_lock_info info = look_at("both");
    assert_true(info.held);
    assert_false(info.by_tidelock);
    assert_int_equal(tl_lock_acquire(a, 0, NULL), TL_EBUSY);
    assert_int_equal(tl_lock_acquire_async(a, TL_FOREVER, done, &w, NULL), TL_OK);
    await_contenders("both", 2);
    assert_int_equal(__atomic_load_n(&arrived, __ATOMIC_SEQ_CST), 0);
    (void)close(end); /* its command ends */
    await_arrived(1);
    assert_int_equal(w.code, TL_OK);
    waitpid(ctl, &status, 0);
    release(a);
    tl_lock_free(a);
    (void)unlink(fifo);
    (void)rmdir(dir);
}

/* ---- looking ----------------------------------------------------------------------------------- */

typedef struct {
    unsigned found;
    bool expected;
} seen;

static void on_found(const void *key, size_t n, const tl_lock_info *info, void *ctx) {
    seen *s = ctx;
    s->found++;
    s->expected = n == 6 && memcmp(key, "looked", 6) == 0 && info->held && info->waiters == 1;
}

static void on_waiting(const tl_waiting *w, void *ctx) {
    *(int64_t *)ctx += w->place == 1 && strcmp(w->service, "conform") == 0 && w->pid == getpid();
}

TEST(a_look_tells_who_holds_it_and_who_waits) {
    tl_lock *a = plain("looked"), *b = plain("looked");
    tl_lock_info info = {.size = sizeof info};
    int64_t told = 0;
    waiting w = {.lock = b};
    arrived = 0;
    assert_int_equal(tl_client_look(client, "looked", 6, &info, NULL), TL_OK);
    assert_false(info.held);
    acquire(a, 0);
    assert_int_equal(tl_lock_acquire_async(b, TL_FOREVER, done, &w, NULL), TL_OK);
    await_contenders("looked", 2);
    assert_int_equal(tl_client_look_line(client, "looked", 6, &info, 10, on_waiting, &told, NULL),
                     TL_OK);
    assert_true(info.held && info.by_tidelock);
    assert_int_equal(info.fence, tl_lock_fence(a));
    assert_int_equal(info.pid, getpid());
    assert_string_equal(info.service, "conform");
    assert_int_equal(info.in_line, 1);
    assert_int_equal(told, 1);
    assert_true(info.remaining_ms > 0 && info.remaining_ms <= TTL_MS);
    seen s = {0};
    uint64_t cursor = 0;
    do {
        assert_int_equal(tl_client_scan(client, "look*", &cursor, on_found, &s, NULL), TL_OK);
    } while (cursor != 0);
    assert_int_equal(s.found, 1); /* its waiter isn't one */
    assert_true(s.expected);
    tl_lock_cancel(b);
    await_arrived(1);
    release(a);
    tl_lock_free(a);
    tl_lock_free(b);
}

TEST(a_broken_lock_is_lost_and_only_the_one_that_was_seen_is_broken) {
    tl_lock *a = plain("broken");
    tl_lock_info info = {.size = sizeof info};
    assert_int_equal(tl_client_break(client, "broken", 6, NULL, NULL), TL_EEXPIRED);
    acquire(a, 0);
    assert_int_equal(tl_client_look(client, "broken", 6, &info, NULL), TL_OK);
    release(a);
    acquire(a, 0);
    assert_int_equal(tl_client_break(client, "broken", 6, &info, NULL), TL_ETAKEN);
    assert_int_equal(tl_client_look(client, "broken", 6, &info, NULL), TL_OK);
    assert_int_equal(tl_client_break(client, "broken", 6, &info, NULL), TL_OK);
    WAIT_FOR(SOON_MS, tl_lock_state(a) == TL_LOST);
    tl_lock_free(a);
}

/* ---- what can't be had ------------------------------------------------------------------------- */

static void refused(const tl_client_options *o, const char *words) {
    tl_client *c;
    tl_error err;
    assert_int_equal(tl_client_open(o, &c, &err), TL_EINVALID);
    if (!strstr(err.message, words))
        fail_msg("%s", err.message);
}

TEST(what_etcd_has_no_use_for_is_refused_in_one_line) {
    const char *url = real_etcd_url(etcd);
    refused(&TL_CLIENT_OPTIONS(.url = url, .wait_replicas = 1), "wait_replicas: not with");
    refused(&TL_CLIENT_OPTIONS(.url = url, .wait_fsync = true), "wait_fsync: not with");
    refused(&TL_CLIENT_OPTIONS(.url = url, .quiet_ms = 5000), "quiet_ms: not with");
    refused(&TL_CLIENT_OPTIONS(.url = url, .protocol = TL_TIMESTAMP), "must be token");
    refused(&TL_CLIENT_OPTIONS(.url = url, .password = "x"), "etcd has none without a user");
    refused(&TL_CLIENT_OPTIONS(.url = "etcd://:x@127.0.0.1"), "no password without a user");
    refused(&TL_CLIENT_OPTIONS(.url = "etcd://127.0.0.1/a?db=1"), "only /PREFIX may follow");
    tl_error err;
    const tl_lock_options brief = TL_LOCK_OPTIONS(.ttl_ms = 1999);
    assert_null(tl_lock_new(client, "k", 1, &brief, &err));
    assert_non_null(strstr(err.message, "at least 2000 ms"));
}

TEST(nobody_there_is_told_within_the_limit) {
    tl_client *c;
    tl_error err;
    const tl_client_options o = TL_CLIENT_OPTIONS(.url = "etcd://127.0.0.1:1,127.0.0.1:2",
                                                  .connect_ms = 2000);
    assert_int_equal(tl_client_open(&o, &c, NULL), TL_OK);
    tl_lock *lock = new_lock(c, "k", TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    int64_t began = now_ms();
    assert_int_equal(tl_lock_acquire(lock, 0, &err), TL_EUNAVAILABLE);
    assert_true(now_ms() - began < 2000 + SLACK_MS);
    assert_non_null(strstr(err.message, "127.0.0.1"));
    tl_lock_free(lock);
    tl_client_close(c);
}
