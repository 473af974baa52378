/*
 * The promises of distribute_lock_util.h, on a real server, for each protocol that it may speak,
 * beside the Java rule.
 * timeout: 240
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "distribute_lock_util.h"
#include "legacy_lock.h"
#include "locks.h"
#include "real_redis.h"
#include "real_server.h"
#include "tests.h"

#define KEY "dlu:key"
#define OTHER "dlu:other"

#define SHORT_MS clock_patient_ms(2000)
#define SHORT_SKEW_MS clock_patient_ms(400)
#define SHORT_VALID_MS (SHORT_MS - SHORT_SKEW_MS * 5 / 2) /* T - 2 M - L */
#define SKEW_MS 1000                                      /* the default */
#define LAG_MS 10000 /* what strict gives a request: only what hangs takes so long */

static const struct {
    const char *name;
    tl_protocol_id protocol;
    bool strict;
} rows[] = {
    {"bridge", TL_BRIDGE, false},
    {"timestamp", TL_TIMESTAMP, false},
    {"timestamp, strict", TL_TIMESTAMP, true},
};

static unsigned row;
static real_redis *server;
static redisContext *context;
static tl_dlu *handles[8];
static int handle_count;

static tl_legacy_options legacy; /* of the options made last */

static tl_client_options options_of(int64_t legacy_ttl_min_ms, int64_t clock_skew_max_ms) {
    legacy = TL_LEGACY_OPTIONS(.strict = rows[row].strict, .legacy_ttl_min_ms = legacy_ttl_min_ms,
                               .clock_skew_max_ms = clock_skew_max_ms);
    if (!clock_skew_max_ms)
        legacy.legacy_delay_max_ms = LAG_MS;
    return TL_CLIENT_OPTIONS(.url = real_redis_url(server), .protocol = rows[row].protocol,
                             .legacy = &legacy, .attempt_ms = LAG_MS, .connect_ms = SOON_MS);
}

static tl_dlu *open_with(const tl_client_options *o) {
    tl_dlu *d = tl_dlu_open_with(o, &said);
    if (!d)
        fail_msg("tl_dlu_open_with: %s", said.message);
    handles[handle_count++] = d;
    return d;
}

static tl_dlu *open_one(void) {
    const tl_client_options o = options_of(0, 0);
    return open_with(&o);
}

/* Locks that last so long, on hosts whose clocks are at most M apart; a request may take half of that. */
static tl_dlu *open_brief(int64_t ms, int64_t clock_skew_max_ms) {
    const tl_client_options o = options_of(ms, clock_skew_max_ms);
    return open_with(&o);
}

/* To be taken, and then waited out. */
static tl_dlu *open_short(void) {
    return open_brief(SHORT_MS, SHORT_SKEW_MS);
}

static int set_up(void **state) {
    (void)state;
    freeReplyObject(real_redis_command(server, "FLUSHALL"));
    context = real_redis_connect(server);
    return 0;
}

static int tear_down(void **state) {
    while (handle_count > 0)
        tl_dlu_close(handles[--handle_count]);
    redisFree(context);
    return locks_clean_up(state);
}

TESTS_WITH(set_up, tear_down);

static bool exists(const char *key) {
    return real_redis_int(server, "EXISTS %s", key) == 1;
}

#define ASSERT_LOCKS(d, key) locks_or_fails((d), (key), __FILE__, __LINE__)
static void locks_or_fails(tl_dlu *d, const char *key, const char *file, int line) {
    if (tl_dlu_lock(d, key, &said))
        return;
    print_error("lock %s: %s: %s\n", key, tl_err_name(said.code), said.message);
    _fail(file, line);
}

/* One that gives a request little time may take some until one is answered in it. */
static void lock_at_last(tl_dlu *d, const char *key) {
    WAIT_FOR(SOON_MS, tl_dlu_lock(d, key, &said));
}

static void assert_busy(tl_dlu *d, const char *key) {
    assert_false(tl_dlu_lock(d, key, &said));
    assert_int_equal(said.code, TL_EBUSY);
}

/* ---- true and false ---------------------------------------------------------------------------- */

TEST(lock_is_true_when_free_and_false_while_held) {
    tl_dlu *a = open_one(), *b = open_one();
    legacy_lock java = legacy_lock_on(context);
    ASSERT_LOCKS(a, KEY);
    assert_busy(b, KEY);
    assert_false(legacy_lock_lock(&java, KEY));
    assert_false(java.threw);
    ASSERT_RESULT(tl_dlu_release(a, KEY, &said), TL_OK);
    assert_false(exists(KEY));
    ASSERT_LOCKS(b, KEY);
    ASSERT_RESULT(tl_dlu_release(b, KEY, &said), TL_OK);
    assert_true(legacy_lock_lock(&java, KEY));
}

TEST(what_java_holds_is_not_had_until_it_is_released) {
    tl_dlu *d = open_one();
    legacy_lock java = legacy_lock_on(context);
    assert_true(legacy_lock_lock(&java, KEY));
    assert_busy(d, KEY);
    assert_int_equal(tl_dlu_remaining_ms(d, KEY), 0);
    assert_int_equal(real_redis_int(server, "GET " KEY), java.stamp_ms);
    legacy_lock_release(&java, KEY);
    ASSERT_LOCKS(d, KEY);
}

static int64_t wall_ms(void) {
    struct timespec t;
    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

TEST(the_key_holds_what_java_writes) {
    int64_t before = wall_ms();
    ASSERT_LOCKS(open_one(), KEY);
    redisReply *stored = real_redis_command(server, "GET " KEY);
    assert_int_equal(strspn(stored->str, "0123456789"), stored->len);
    /* Parts of a millisecond may be rounded either way. */
    assert_in_range(atoll(stored->str), before + 60000 - 2, wall_ms() + 60000 + 2);
    freeReplyObject(stored);
}

TEST(nothing_but_a_stamp_that_ran_out_is_taken_over) {
    static const char *const texts[] = {"1", "words", "4f9619ff-8b86-d011-b42d-00c04fc964ff",
                                        "999999999999999999"};
    tl_dlu *d = open_one();
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        freeReplyObject(real_redis_command(server, "SET " KEY " %s", texts[i]));
        assert_busy(d, KEY);
    }
    bool had = true;
    for (int i = 0; i < 10 && had; i++) { /* again when it came later than M + L */
        int64_t stamp = wall_ms() - SKEW_MS - LAG_MS / 2;
        freeReplyObject(real_redis_command(server, "SET " KEY " %lld", (long long)stamp));
        had = tl_dlu_lock(d, KEY, &said);
        assert_true(had ? wall_ms() > stamp + SKEW_MS + LAG_MS : said.code == TL_EBUSY);
        if (had)
            (void)tl_dlu_release(d, KEY, NULL);
    }
    assert_false(had);
    freeReplyObject(real_redis_command(server, "SET " KEY " %lld",
                                       (long long)wall_ms() - SKEW_MS - LAG_MS - 500));
    ASSERT_LOCKS(d, KEY);
}

TEST(tokens_and_stamps_keep_each_other_out) {
    tl_dlu *d = open_one();
    tl_lock *token = make_lock(make_client(real_redis_url(server)), KEY, 30000);
    legacy_lock java = legacy_lock_on(context);
    ASSERT_LOCKS(d, KEY);
    ASSERT_RESULT(tl_lock_acquire(token, 0, &said), TL_EBUSY);
    ASSERT_RESULT(tl_dlu_release(d, KEY, &said), TL_OK);
    ASSERT_RESULT(tl_lock_acquire(token, 0, &said), TL_OK);
    assert_busy(d, KEY);
    assert_false(legacy_lock_lock(&java, KEY));
    assert_true(java.threw);
    ASSERT_RESULT(tl_lock_release(token, &said), TL_OK);
}

TEST(waiting_gets_what_another_releases) {
    tl_dlu *d = open_one();
    legacy_lock java = legacy_lock_on(context);
    assert_true(legacy_lock_lock(&java, KEY));
    said.code = TL_EUNCERTAIN;
    /* the limit may cut a look short, or come before the server is reached */
    for (int64_t ms = 400;
         ms <= SOON_MS && (said.code == TL_EUNCERTAIN || said.code == TL_EUNAVAILABLE); ms *= 2)
        assert_false(tl_dlu_lock_wait(d, KEY, ms, &said));
    assert_int_equal(said.code, TL_ETIMEDOUT);
    legacy_lock_release(&java, KEY);
    assert_true(tl_dlu_lock_wait(d, KEY, SOON_MS, &said));
}

/* ---- release ----------------------------------------------------------------------------------- */

static uint64_t commands_so_far(void) {
    return (uint64_t)real_redis_int(server, "EVAL %s 0",
                                    "return redis.call('INFO', 'stats'):match("
                                    "'total_commands_processed:(%d+)')");
}

TEST(release_of_what_is_not_held_sends_nothing) {
    tl_dlu *d = open_one();
    legacy_lock java = legacy_lock_on(context);
    assert_true(legacy_lock_lock(&java, KEY));
    assert_busy(d, KEY);
    uint64_t before = commands_so_far(), alone = commands_so_far() - before;
    before = commands_so_far();
    ASSERT_RESULT(tl_dlu_release(d, KEY, &said), TL_EINVALID);
    ASSERT_SAID("release " KEY ": it is not held");
    ASSERT_RESULT(tl_dlu_release_any(d, OTHER, NULL), TL_EINVALID);
    assert_int_equal(commands_so_far() - before, alone);
    assert_int_equal(real_redis_int(server, "GET " KEY), java.stamp_ms);
}

/* Java's one flag is wrong on all of these. */
TEST(each_key_is_kept_apart) {
    tl_dlu *a = open_one(), *b = open_one();
    ASSERT_LOCKS(a, KEY);
    ASSERT_LOCKS(b, OTHER);
    assert_busy(a, OTHER); /* doesn't make it forget KEY */
    ASSERT_RESULT(tl_dlu_release(a, OTHER, NULL), TL_EINVALID);
    assert_true(exists(OTHER));
    ASSERT_RESULT(tl_dlu_release(a, KEY, &said), TL_OK);
    assert_false(exists(KEY));
    ASSERT_RESULT(tl_dlu_release(a, KEY, NULL), TL_EINVALID);
    ASSERT_RESULT(tl_dlu_release(b, OTHER, &said), TL_OK);
}

typedef struct {
    tl_dlu *dlu;
    bool locked, alike;
    tl_err release;
    pid_t number;
} other_thread;

static void *lock_and_release(void *ctx) {
    other_thread *t = ctx;
    t->locked = tl_dlu_lock(t->dlu, KEY, NULL);
    t->release = tl_dlu_release(t->dlu, KEY, NULL);
    return NULL;
}

static void *release_any(void *ctx) {
    other_thread *t = ctx;
    t->release = tl_dlu_release_any(t->dlu, KEY, NULL);
    return NULL;
}

static void on_another_thread(void *(*run)(void *), other_thread *t) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, run, t), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

static void *look_and_lock(void *ctx) {
    other_thread *t = ctx;
    t->alike = tl_dlu_remaining_ms(t->dlu, KEY) > 0;
    t->locked = tl_dlu_lock_wait(t->dlu, KEY, SOON_MS, NULL);
    t->alike = t->alike || tl_dlu_remaining_ms(t->dlu, KEY) <= 0;
    return NULL;
}

/* Else a thread whose lock has expired would work on beside the next one. */
TEST(a_thread_counts_on_its_own_lock_only) {
    other_thread t = {.dlu = open_one()};
    ASSERT_LOCKS(t.dlu, KEY);
    on_another_thread(release_any, &t);
    on_another_thread(look_and_lock, &t);
    assert_true(t.locked && !t.alike);
    assert_int_equal(tl_dlu_remaining_ms(t.dlu, KEY), 0);
    on_another_thread(release_any, &t);
}

TEST(a_thread_releases_its_own_locks_only) {
    other_thread t = {.dlu = open_one()};
    ASSERT_LOCKS(t.dlu, KEY);
    on_another_thread(lock_and_release, &t);
    assert_false(t.locked);
    assert_int_equal(t.release, TL_EINVALID);
    assert_true(exists(KEY));
    assert_true(tl_dlu_remaining_ms(t.dlu, KEY) > 0);
    on_another_thread(release_any, &t);
    assert_int_equal(t.release, TL_OK);
    assert_false(exists(KEY));
    assert_int_equal(tl_dlu_remaining_ms(t.dlu, KEY), 0);
}

/* The next thread of this process, and of any other that is faster, is given the number behind this one. */
static bool ask_for_next(pid_t number) {
    FILE *f = fopen("/proc/sys/kernel/ns_last_pid", "w");
    bool ok = f && fprintf(f, "%d", (int)number - 1) > 0;
    return f && fclose(f) == 0 && ok;
}

static void *lock_and_end(void *ctx) {
    other_thread *t = ctx;
    t->number = (pid_t)syscall(SYS_gettid);
    t->locked = tl_dlu_lock(t->dlu, KEY, NULL);
    return NULL;
}

static void *release_if_alike(void *ctx) {
    other_thread *t = ctx;
    t->alike = (pid_t)syscall(SYS_gettid) == t->number;
    if (t->alike)
        t->release = tl_dlu_release(t->dlu, KEY, NULL);
    return NULL;
}

TEST(a_thread_that_is_given_the_number_of_one_that_has_ended_is_another) {
    other_thread t = {.dlu = open_one()};
    on_another_thread(lock_and_end, &t);
    assert_true(t.locked);
    for (int i = 0; i < 100 && !t.alike && ask_for_next(t.number); i++)
        on_another_thread(release_if_alike, &t);
    if (!t.alike) {
        print_message("SKIP: no thread can be given a number here: /proc/sys/kernel/ns_last_pid\n");
        skip();
    }
    assert_int_equal(t.release, TL_EINVALID);
    assert_true(exists(KEY));
    ASSERT_RESULT(tl_dlu_release_any(t.dlu, KEY, &said), TL_OK);
}

/* How often the server was asked for a lock, by whatever level, or by the keeper to confirm one. */
static int takes_so_far(void) {
    static const char *const words[] = {
        "cmdstat_evalsha:calls=", "cmdstat_setnx:calls=", "cmdstat_eval:calls="};
    const int n = real_server_has(REAL_LINE) ? 2 : 3; /* an EVALSHA may be counted as EVAL */
    redisReply *info = real_redis_command(server, "INFO commandstats");
    int takes = 0;
    for (int i = 0; i < n; i++) {
        const char *at = strstr(info->str, words[i]);
        takes += at ? atoi(at + strlen(words[i])) : 0;
    }
    freeReplyObject(info);
    return takes;
}

TEST(what_this_handle_holds_is_not_asked_for) {
    tl_dlu *d = open_one();
    int before = takes_so_far();
    ASSERT_LOCKS(d, KEY);
    int once = takes_so_far();
    assert_true(once > before);
    for (int i = 0; i < 10; i++)
        assert_busy(d, KEY);
    assert_in_range(takes_so_far(), once, once + 5);     /* the keeper, when it begins to watch */
    ASSERT_RESULT(tl_dlu_release(d, KEY, &said), TL_OK); /* of a lock within a lock */
    assert_false(exists(KEY));
}

/* ---- 60 s -------------------------------------------------------------------------------------- */

TEST(a_lock_is_believed_for_less_than_it_lasts) {
    tl_dlu *d = open_one();
    ASSERT_LOCKS(d, KEY);
    int64_t ms = tl_dlu_remaining_ms(d, KEY); /* T - 2 M - L at most */
    ASSERT_BELIEVES(ms, 60000 - 2 * SKEW_MS - LAG_MS, SLACK_MS);
    assert_int_equal(tl_dlu_remaining_ms(d, OTHER), 0);
}

TEST(a_lock_that_is_forgotten_is_not_renewed) {
    tl_dlu *a = open_short(), *b = open_short();
    lock_at_last(a, KEY);
    long long stamp = real_redis_int(server, "GET " KEY);
    WAIT_FOR(SOON_MS, tl_dlu_remaining_ms(a, KEY) == 0);
    assert_int_equal(real_redis_int(server, "GET " KEY), stamp);
    assert_true(tl_dlu_lock_wait(b, KEY, SOON_MS, &said));
    assert_true(wall_ms() > stamp + SHORT_SKEW_MS * 3 / 2); /* the end, M and L */
}

TEST(waiting_for_ones_own_lock_ends_with_it) {
    tl_dlu *d = open_short();
    lock_at_last(d, KEY);
    const int64_t left_ms = tl_dlu_remaining_ms(d, KEY), began = clock_ms();
    if (!tl_dlu_lock_wait(d, KEY, 50, &said)) /* else all stood still until it was over */
        assert_true(tl_dlu_lock_wait(d, KEY, SOON_MS, &said));
    const int64_t had = clock_ms();
    assert_true(had - began >= left_ms - 1);
    tl_err code = tl_dlu_release(d, KEY, &said);
    if (code != TL_EEXPIRED || clock_ms() - began < SHORT_VALID_MS)
        ASSERT_RESULT(code, TL_OK);
    ASSERT_RESULT(tl_dlu_release(d, KEY, NULL), TL_EINVALID);
}

TEST(a_late_release_leaves_the_successors_lock) {
    tl_dlu *a = open_short(), *b = open_brief(60000, SHORT_SKEW_MS);
    lock_at_last(a, KEY);
    WAIT_FOR(SOON_MS, tl_dlu_lock(b, KEY, NULL));
    long long stamp = real_redis_int(server, "GET " KEY);
    tl_err code = tl_dlu_release(a, KEY, &said);
    assert_int_equal(code, TL_ETAKEN);
    assert_int_equal(real_redis_int(server, "GET " KEY), stamp);
    assert_true(tl_dlu_remaining_ms(b, KEY) > 0);
}

TEST(a_thread_gets_what_another_of_its_handle_has_let_expire) {
    other_thread t = {.dlu = open_short()};
    lock_at_last(t.dlu, KEY);
    WAIT_FOR(SOON_MS, (on_another_thread(lock_and_release, &t), t.locked));
    tl_err code = tl_dlu_release(t.dlu, KEY, &said);
    if (code != TL_ETAKEN || !rows[row].strict) /* there the other's key may have stayed */
        ASSERT_RESULT(code, TL_EEXPIRED);
    ASSERT_RESULT(tl_dlu_release(t.dlu, KEY, NULL), TL_EINVALID);
}

/* This thread lets its lock expire, and `run` on another one locks the key then. Returns when it began to,
 * since it holds for a limited time. */
static int64_t let_expire_and_lock(other_thread *t, void *(*run)(void *)) {
    int64_t began = 0;
    lock_at_last(t->dlu, KEY);
    WAIT_FOR(SOON_MS, (began = clock_ms(), on_another_thread(run, t), t->locked));
    return began;
}

/* A release that came too late, while another thread holds if that began so lately. */
static void assert_late(tl_err code, int64_t began) {
    if (code != TL_EEXPIRED || clock_ms() - began < SHORT_VALID_MS)
        ASSERT_RESULT(code, TL_ETAKEN);
}

/* A release in time: the key is free, but in the strict row, which gives a request more time than is left. */
static void assert_in_time(tl_err code, int64_t began) {
    if (clock_ms() - began >= SHORT_VALID_MS)
        return;
    ASSERT_RESULT(code, TL_OK);
    assert_true(rows[row].strict || !exists(KEY));
}

TEST(a_late_release_leaves_what_the_next_thread_has_locked) {
    other_thread t = {.dlu = open_short()};
    int64_t began = let_expire_and_lock(&t, lock_and_end);
    long long stamp = real_redis_int(server, "GET " KEY);
    assert_late(tl_dlu_release(t.dlu, KEY, &said), began);
    assert_true(real_redis_int(server, "GET " KEY) >= stamp); /* later, once it is confirmed */
    ASSERT_RESULT(tl_dlu_release(t.dlu, KEY, NULL), TL_EINVALID);
    assert_in_time(tl_dlu_release_any(t.dlu, KEY, &said), began);
}

/* Nothing says whose lock is meant: the one that expired is ended first. */
TEST(a_late_release_of_any_leaves_what_the_next_thread_has_locked) {
    other_thread t = {.dlu = open_short()};
    int64_t began = let_expire_and_lock(&t, lock_and_end);
    long long stamp = real_redis_int(server, "GET " KEY);
    on_another_thread(release_any, &t);
    assert_late(t.release, began);
    assert_true(real_redis_int(server, "GET " KEY) >= stamp); /* later, once it is confirmed */
    on_another_thread(release_any, &t);
    assert_in_time(t.release, began);
}

static void *lock_and_release_any(void *ctx) {
    other_thread *t = ctx;
    t->locked = tl_dlu_lock(t->dlu, KEY, NULL);
    if (t->locked)
        t->release = tl_dlu_release_any(t->dlu, KEY, NULL);
    return NULL;
}

TEST(a_release_of_any_ends_ones_own_lock_first) {
    other_thread t = {.dlu = open_short()};
    int64_t began = let_expire_and_lock(&t, lock_and_release_any);
    assert_in_time(t.release, began);
    tl_err code = tl_dlu_release_any(t.dlu, KEY, &said);
    assert_true(code == TL_EEXPIRED || code == TL_ETAKEN);
}

/* As one thread does that locks for many which release. */
TEST(a_late_release_of_any_leaves_what_the_same_thread_has_locked_since) {
    other_thread t = {.dlu = open_short()};
    int64_t began = 0;
    lock_at_last(t.dlu, KEY);
    WAIT_FOR(SOON_MS, (began = clock_ms(), tl_dlu_lock(t.dlu, KEY, NULL)));
    long long stamp = real_redis_int(server, "GET " KEY);
    on_another_thread(release_any, &t);
    assert_late(t.release, began);
    assert_true(real_redis_int(server, "GET " KEY) >= stamp); /* later, once it is confirmed */
    on_another_thread(release_any, &t);
    assert_in_time(t.release, began);
}

/* Else a lock that was never released would cost each later one its release. */
TEST(a_release_of_any_passes_over_what_expired_long_ago) {
    other_thread t = {.dlu = open_short()};
    int64_t began = let_expire_and_lock(&t, lock_and_release);
    WAIT_FOR(SOON_MS, clock_ms() - began > 2 * SHORT_VALID_MS);
    WAIT_FOR(SOON_MS, (began = clock_ms(), on_another_thread(lock_and_end, &t), t.locked));
    on_another_thread(release_any, &t);
    assert_in_time(t.release, began);
}

/* The table has room for 16, and grows once. */
static void lock_more(tl_dlu *d) {
    char key[32];
    for (int i = 0; i < 20; i++) {
        (void)snprintf(key, sizeof key, "dlu:many:%d", i);
        (void)tl_dlu_lock(d, key, NULL);
    }
}

TEST(what_expired_a_moment_ago_is_not_forgotten) {
    tl_dlu *d = open_short();
    lock_at_last(d, KEY);
    WAIT_FOR(SOON_MS, tl_dlu_remaining_ms(d, KEY) == 0);
    int64_t began = clock_ms();
    lock_more(d);
    tl_err code = tl_dlu_release(d, KEY, &said);
    if (clock_ms() - began < SHORT_VALID_MS / 2)
        ASSERT_RESULT(code, TL_EEXPIRED);
}

TEST(a_table_that_grows_keeps_which_lock_is_the_later_one) {
    other_thread t = {.dlu = open_short()};
    int64_t began = let_expire_and_lock(&t, lock_and_end);
    lock_more(t.dlu);
    on_another_thread(release_any, &t);
    if (clock_ms() - began < SHORT_VALID_MS)
        assert_int_equal(t.release, TL_ETAKEN);
    on_another_thread(release_any, &t);
    assert_in_time(t.release, began);
}

TEST(keys_that_expired_are_forgotten) {
    enum { KEYS = 20, TAKEN = 200, MOST = 100 * TAKEN };
    tl_dlu *d = open_brief(700, 100);
    char key[32];
    int remembered = 0, taken = 0, tried = 0;
    for (; taken < TAKEN && tried < MOST; tried++) {
        (void)snprintf(key, sizeof key, "dlu:many:%d", tried);
        taken += tl_dlu_lock(d, key, NULL);
        if (tried % KEYS == KEYS - 1)
            WAIT_FOR(SOON_MS, tl_dlu_remaining_ms(d, key) == 0);
    }
    for (int i = 0; i < tried; i++) {
        (void)snprintf(key, sizeof key, "dlu:many:%d", i);
        remembered += tl_dlu_release(d, key, NULL) != TL_EINVALID;
    }
    assert_int_equal(taken, TAKEN);
    assert_in_range(remembered, 1, 8 * KEYS);
}

TEST(many_keys_are_held_at_once) {
    enum { KEYS = 300 };
    tl_dlu *d = open_one();
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "dlu:many:%d", i);
        ASSERT_LOCKS(d, key);
    }
    for (int i = 0; i < KEYS; i++) {
        (void)snprintf(key, sizeof key, "dlu:many:%d", i);
        ASSERT_RESULT(tl_dlu_release(d, key, &said), TL_OK);
    }
}

/* ---- what can't be ----------------------------------------------------------------------------- */

/* Whoever means tokens would lock by a stamp, which no token client takes over once its holder has crashed. */
TEST(a_protocol_must_be_said_and_be_none_of_tokens) {
    tl_client_options o = options_of(0, 0);
    const tl_legacy_options *const with[] = {&legacy, NULL};
    for (size_t i = 0; i < sizeof with / sizeof *with; i++) {
        o.protocol = TL_TOKEN;
        o.legacy = with[i];
        assert_null(tl_dlu_open_with(&o, &said));
        assert_int_equal(said.code, TL_EINVALID);
        ASSERT_SAID("protocol: choose TL_BRIDGE");
        ASSERT_SAID("use tl_client_open and tl_lock");
        assert_null(tl_dlu_open_with(&o, NULL));
    }
    o = TL_CLIENT_OPTIONS(.url = "etcd://10.0.0.5");
    assert_null(tl_dlu_open_with(&o, &said));
    ASSERT_SAID("protocol: choose TL_BRIDGE");
    o = TL_CLIENT_OPTIONS(.url = real_redis_url(server));
    o.size = offsetof(tl_client_options, protocol); /* so old that it can't say it */
    ASSERT_LOCKS(open_with(&o), KEY);
    tl_dlu *plain = handles[handle_count++] = tl_dlu_open(real_redis_url(server), &said);
    assert_non_null(plain);
    ASSERT_LOCKS(plain, OTHER);
}

TEST(options_that_leave_no_validity_are_refused_at_opening) {
    const tl_client_options o = options_of(3000, 1500);
    assert_null(tl_dlu_open_with(&o, &said));
    assert_int_equal(said.code, TL_EINVALID);
    ASSERT_SAID("legacy_ttl");
    assert_null(tl_dlu_open("http://nowhere", &said));
    assert_int_equal(said.code, TL_EINVALID);
}

TEST(keys_that_cannot_be_are_refused) {
    tl_dlu *d = open_one();
    char *key = calloc(1, TL_KEY_MAX + 2);
    assert_non_null(key);
    memset(key, 'k', TL_KEY_MAX + 1);
    assert_false(tl_dlu_lock(d, "", &said));
    assert_int_equal(said.code, TL_EINVALID);
    assert_false(tl_dlu_lock(d, key, &said));
    assert_int_equal(said.code, TL_EINVALID);
    assert_int_equal(tl_dlu_release(d, key, &said), TL_EINVALID);
    key[TL_KEY_MAX] = '\0';
    ASSERT_LOCKS(d, key);
    ASSERT_RESULT(tl_dlu_release(d, key, &said), TL_OK);
    free(key);
}

TEST(by_phases_it_locks_the_keys_of_its_namespaces_alone) {
    tl_client_options o = options_of(0, 0);
    o.protocol = TL_AUTO;
    legacy.strict = false;
    legacy.namespaces = "dlu:*=default";
    tl_dlu *d = open_with(&o);
    ASSERT_LOCKS(d, KEY);
    assert_false(tl_dlu_lock(d, "another", &said));
    assert_int_equal(said.code, TL_EINVALID);
    ASSERT_SAID("namespaces");
    ASSERT_RESULT(tl_dlu_release(d, KEY, &said), TL_OK);
}

TEST(without_a_server_it_is_false_in_time) {
    tl_client_options o = options_of(0, 0);
    o.url = "unix:///nowhere/redis.sock";
    o.connect_ms = 200;
    tl_dlu *d = open_with(&o);
    int64_t began = clock_ms();
    assert_false(tl_dlu_lock(d, KEY, &said));
    assert_int_equal(said.code, TL_EUNAVAILABLE);
    ASSERT_TOOK(began, 0, 200);
    assert_false(tl_dlu_lock(d, KEY, NULL));
}

TEST(a_fork_has_nothing_of_the_handle) {
    int status = -1;
    tl_dlu *d = open_one();
    ASSERT_LOCKS(d, KEY);
    pid_t child = fork();
    if (child == 0) {
        bool nothing = !tl_dlu_lock(d, OTHER, NULL) && tl_dlu_remaining_ms(d, KEY) == 0 &&
                       tl_dlu_release(d, KEY, NULL) == TL_EINVALID &&
                       tl_dlu_release_any(d, KEY, NULL) == TL_EINVALID;
        tl_dlu_close(d);
        _exit(nothing ? 0 : 1);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_true(exists(KEY));
    assert_false(exists(OTHER));
    ASSERT_RESULT(tl_dlu_release(d, KEY, &said), TL_OK);
}

typedef struct {
    tl_dlu *dlu;
    atomic_bool ending;
} onlooker;

static void *look_on(void *ctx) {
    onlooker *o = ctx;
    while (!atomic_load(&o->ending))
        (void)tl_dlu_remaining_ms(o->dlu, KEY);
    return NULL;
}

TEST(a_fork_never_hangs_on_what_another_thread_did) {
    enum { FORKS = 30 };
    static onlooker o;
    o = (onlooker){.dlu = open_one()};
    pthread_t thread;
    int well = 0, status;
    ASSERT_LOCKS(o.dlu, KEY);
    assert_int_equal(pthread_create(&thread, NULL, look_on, &o), 0);
    for (int i = 0; i < FORKS; i++) {
        pid_t child = fork();
        if (child == 0) {
            (void)alarm((unsigned)SOON_MS / 1000);
            _exit(!tl_dlu_lock(o.dlu, KEY, NULL) && tl_dlu_remaining_ms(o.dlu, KEY) == 0 ? 0 : 1);
        }
        well += waitpid(child, &status, 0) == child && status == 0;
    }
    atomic_store(&o.ending, true);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(well, FORKS);
}

TEST(closing_releases_nothing) {
    tl_dlu *d = open_one();
    ASSERT_LOCKS(d, KEY);
    tl_dlu_close(handles[--handle_count]);
    assert_true(exists(KEY));
    tl_dlu_close(NULL);
}

/* ---- what a strict one says -------------------------------------------------------------------- */

#define MESSAGE_SIZE 1024

/* The names of all commands that came by TCP, since `monitor` began. */
static void read_words(redisContext *monitor, char words[MESSAGE_SIZE]) {
    size_t n = 0;
    freeReplyObject(real_redis_command(server, "ECHO the-end"));
    for (bool ended = false; !ended;) {
        redisReply *line = NULL;
        assert_int_equal(redisGetReply(monitor, (void **)&line), REDIS_OK);
        ended = strstr(line->str, "the-end") != NULL;
        const char *word = strchr(line->str, '"');
        if (!ended && strstr(line->str, " 127.0.0.1:") && word)
            n += (size_t)snprintf(words + n, MESSAGE_SIZE - n, "%.*s ",
                                  (int)strcspn(word + 1, "\""), word + 1);
        assert_true(n < MESSAGE_SIZE);
        freeReplyObject(line);
    }
}

TEST(strict_says_setnx_get_getset_and_del_alone) {
    char words[MESSAGE_SIZE] = "";
    if (!rows[row].strict)
        return;
    redisContext *monitor = real_redis_connect(server);
    freeReplyObject(redisCommand(monitor, "MONITOR"));
    freeReplyObject(
        real_redis_command(server, "SET " OTHER " %lld", (long long)wall_ms() - 100000));
    tl_dlu *a = open_one(), *b = open_one();
    ASSERT_LOCKS(a, KEY);
    assert_busy(b, KEY);
    ASSERT_LOCKS(b, OTHER);
    ASSERT_RESULT(tl_dlu_release(a, KEY, &said), TL_OK);
    read_words(monitor, words);
    redisFree(monitor);
    assert_string_equal(words, "SETNX SETNX GET SETNX GET GETSET GET DEL ");
}

int main(void) {
    int failed = 0;
    server = real_redis_start(NULL);
    for (row = 0; row < sizeof rows / sizeof *rows; row++)
        failed += tests_run_group(rows[row].name, 0, NULL, NULL);
    return failed ? 1 : 0;
}
