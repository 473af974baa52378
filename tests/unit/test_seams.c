/*
 * The seams suffice: the library as it ships, linked with another system in place of the real one, takes,
 * renews, loses and releases locks there by its public functions.
 */
#include <dirent.h>

#include "seams_world.h"
#include "tests.h"
#include "thread_count.h"

#include "tidelock/tidelock.h"

#define KEY "jobs:42"
#define TTL_MS 10000
#define SHORT_MS 1500
#define MANY 1550
#define MANY_TTL_MS 60000
#define SEEDS 40
#define TURNS 3

static tl_error err;

static int descriptors_of_the_system(void) {
    DIR *dir = opendir("/proc/self/fd");
    int n = 0;
    assert_non_null(dir);
    while (readdir(dir)) // cppcheck-suppress readdirCalled ; a DIR of this thread's own
        n++;
    (void)closedir(dir);
    return n;
}

static tl_client *open_client(void) {
    tl_client *client = NULL;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = "redis://server.world");
    assert_int_equal(tl_client_open(&o, &client, &err), TL_OK);
    return client;
}

static tl_lock *make_lock(tl_client *client, const tl_lock_options *options) {
    tl_lock *lock = tl_lock_new(client, KEY, strlen(KEY), options, &err);
    assert_non_null(lock);
    return lock;
}

static bool is_in_server(void) {
    tl_bytes value;
    fake_redis_set_time(world.redis, tl__wall_now().us);
    return fake_redis_peek(world.redis, 0, TL_LITERAL(KEY), &value);
}

static void end_of_client(tl_lock *lock, tl_client *client) {
    tl_lock_free(lock);
    tl_client_close(client);
    assert_int_equal(world_left(), 0);
    world_end();
}

TEST(a_lock_is_held_for_an_hour_without_a_clock_thread_or_descriptor_of_the_system) {
    int threads = thread_count(), descriptors = descriptors_of_the_system();
    world_begin(1);
    tl_client *client = open_client();
    tl_lock *lock = make_lock(client, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    assert_int_equal(tl_lock_acquire(lock, 0, &err), TL_OK);
    assert_true(tl_lock_fence(lock) > 0);
    assert_true(is_in_server());
    tl_mono began = world.now;
    world_sleep_ms(3600000);
    assert_int_equal(tl__ms_until(began, world.now), 3600000);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    assert_true(tl_lock_remaining_ms(lock) > 0);
    assert_true(is_in_server());
    assert_int_equal(world.started, 3); /* the keeper, and who looked up its name and ours */
    assert_int_equal(thread_count(), threads);
    assert_int_equal(descriptors_of_the_system(), descriptors);
    assert_int_equal(tl_lock_release(lock, &err), TL_OK);
    assert_false(is_in_server());
    end_of_client(lock, client);
}

static void note_loss(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    (void)lock;
    if (event->state == TL_LOST)
        *(tl_lost_why *)ctx = event->why;
}

TEST(a_lock_is_lost_when_the_server_is_silent_for_its_lifetime) {
    tl_lost_why why = TL_NOT_LOST;
    world_begin(2);
    tl_client *client = open_client();
    tl_lock *lock = make_lock(
        client, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = note_loss, .ctx = &why));
    assert_int_equal(tl_lock_acquire(lock, 0, &err), TL_OK);
    world.silent = true;
    world_sleep_ms(TTL_MS);
    assert_int_equal(tl_lock_remaining_ms(lock), 0);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_int_equal(why, TL_LOST_EXPIRED);
    end_of_client(lock, client);
}

typedef struct {
    char at_risk[512], lost[512];
} heard;

static void note_details(tl_lock *lock, const tl_lock_event *event, void *ctx) {
    heard *h = ctx;
    (void)lock;
    if (event->state == TL_AT_RISK)
        (void)snprintf(h->at_risk, sizeof h->at_risk, "%s", event->detail);
    else if (event->state == TL_LOST)
        (void)snprintf(h->lost, sizeof h->lost, "%s", event->detail);
    else
        h->at_risk[0] = '\0';
}

static heard details; /* a coroutine's stack is small */

static tl_lock *lock_that_tells(tl_client *client) {
    details = (heard){{0}, {0}};
    tl_lock *lock = make_lock(
        client, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = note_details, .ctx = &details));
    assert_int_equal(tl_lock_acquire(lock, 0, &err), TL_OK);
    return lock;
}

static void assert_lost_by(const char *words) {
    static const char risk[] = KEY ": a renewal has failed: ",
                      lost[] = KEY ": no renewal succeeded in time: ";
    assert_int_equal(strncmp(details.at_risk, risk, strlen(risk)), 0);
    assert_int_equal(strncmp(details.lost, lost, strlen(lost)), 0);
    assert_non_null(strstr(details.lost, words));
}

TEST(a_loss_says_what_the_server_refused_its_renewals_for) {
    world_begin(21);
    tl_client *client = open_client();
    tl_lock *lock = lock_that_tells(client);
    fake_redis_deny(world.redis, "EVAL EVALSHA", FAKE_NOPERM);
    world_sleep_ms(TTL_MS);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_lost_by("NOPERM");
    assert_lost_by("+eval"); /* and what to do */
    end_of_client(lock, client);
}

TEST(a_loss_says_that_the_server_was_silent) {
    world_begin(22);
    tl_client *client = open_client();
    tl_lock *lock = lock_that_tells(client);
    world.silent = true;
    world_sleep_ms(TTL_MS);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_lost_by("no reply");
    end_of_client(lock, client);
}

/* What it says last is what counts, but for the silence at the very end, when there is no time left to answer. */
TEST(a_loss_says_what_was_refused_although_the_server_was_silent_afterwards) {
    world_begin(23);
    tl_client *client = open_client();
    tl_lock *lock = lock_that_tells(client);
    fake_redis_deny(world.redis, "EVAL EVALSHA", FAKE_NOPERM);
    world_sleep_ms(TTL_MS / 2);
    world.silent = true;
    world_sleep_ms(TTL_MS / 2);
    assert_int_equal(tl_lock_state(lock), TL_LOST);
    assert_lost_by("NOPERM");
    end_of_client(lock, client);
}

TEST(a_cause_that_has_passed_is_not_told_of_a_later_loss) {
    world_begin(24);
    tl_client *client = open_client();
    tl_lock *lock = lock_that_tells(client);
    fake_redis_deny(world.redis, "EVAL EVALSHA", FAKE_NOPERM);
    world_sleep_ms(TTL_MS / 2);
    assert_non_null(strstr(details.at_risk, "NOPERM"));
    fake_redis_deny(world.redis, "EVAL EVALSHA", FAKE_ALLOW);
    world_sleep_ms(TTL_MS);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    assert_string_equal(details.at_risk, "");
    world.silent = true;
    world_sleep_ms(TTL_MS);
    assert_lost_by("no reply");
    assert_null(strstr(details.lost, "NOPERM"));
    end_of_client(lock, client);
}

/* They are renewed together once: so are they from then on, but for what each has in slack. */
TEST(of_many_locks_that_are_due_at_a_time_each_request_goes_at_another_moment) {
    static tl_lock *lock[MANY];
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = MANY_TTL_MS);
    world_begin(3);
    tl_client *client = open_client();
    for (int i = 0; i < MANY; i++) {
        char key[16];
        int n = snprintf(key, sizeof key, "jobs:%d", i);
        lock[i] = tl_lock_new(client, key, (size_t)n, &options, &err);
        assert_non_null(lock[i]);
        assert_int_equal(tl_lock_acquire(lock[i], 0, &err), TL_OK);
    }
    world.ahead_us = 3000000; /* found by the next answer: then all are renewed at once */
    world_sleep_ms(SHORT_MS);
    world.scripts = world.most_at_once = 0;
    world_sleep_ms(MANY_TTL_MS);
    assert_in_range(world.scripts, 2 * MANY / 100, MANY / 10); /* for many at a time */
    assert_int_equal(world.most_at_once, 1);
    for (int i = 0; i < MANY; i++) {
        assert_int_equal(tl_lock_state(lock[i]), TL_HELD);
        if (i > 0)
            tl_lock_free(lock[i]);
    }
    end_of_client(lock[0], client);
}

/* ---- without blocking ---------------------------------------------------------------------------- */

typedef struct {
    int calls;
    tl_err code;
} outcome;

static void note_done(tl_lock *lock, tl_err code, const tl_error *why, void *ctx) {
    outcome *o = ctx;
    (void)lock, (void)why;
    o->calls++;
    o->code = code;
}

/* An event loop of one descriptor. */
static void run_loop_until(tl_client *client, const outcome *o, int calls) {
    tl_mono by = tl__mono_add_ms(world.now, 1000);
    while (o->calls < calls && tl__mono_before(world.now, by)) {
        struct pollfd p = {.fd = tl_client_fd(client), .events = POLLIN};
        tl__wait(&p, 1, by);
        if (p.revents)
            (void)tl_client_dispatch(client);
    }
    assert_int_equal(o->calls, calls);
    assert_int_equal(o->code, TL_OK);
}

TEST(an_event_loop_is_called_back_by_a_descriptor_of_the_world) {
    outcome o = {0};
    tl_client *client = NULL;
    world_begin(3);
    assert_int_equal(
        tl_client_open(&TL_CLIENT_OPTIONS(.url = "redis://server.world", .dispatch = true), &client,
                       &err),
        TL_OK);
    tl_lock *lock = make_lock(client, NULL);
    assert_int_equal(tl_lock_acquire_async(lock, 0, note_done, &o, &err), TL_OK);
    run_loop_until(client, &o, 1);
    assert_true(is_in_server());
    assert_int_equal(tl_lock_release_async(lock, note_done, &o, &err), TL_OK);
    run_loop_until(client, &o, 2);
    assert_false(is_in_server());
    end_of_client(lock, client);
}

/* ---- a clock that has stepped, as a new connection hears first ------------------------------------- */

static uint64_t renewals(void) {
    return fake_redis_count(world.redis, "EVALSHA");
}

TEST(a_step_that_a_callers_connection_finds_has_every_lock_renewed) {
    outcome o = {0};
    world_begin(6);
    tl_client *client = open_client();
    tl_lock *lock = make_lock(client, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    assert_int_equal(tl_lock_acquire_async(lock, 0, note_done, &o, &err), TL_OK);
    world_sleep_ms(100);
    assert_int_equal(o.calls, 1);
    world.ahead_us = 1000000;
    uint64_t before = renewals();
    assert_int_equal(tl_client_ping(client, &err), TL_OK); /* the first that isn't the keeper's */
    world_sleep_ms(100);
    assert_int_equal(renewals() - before, 1);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    end_of_client(lock, client);
}

/* The longer one is due for its first renewal at a second, the shorter one before that. */
TEST(a_step_that_the_keepers_connection_finds_has_every_lock_renewed) {
    world_begin(7);
    tl_client *client = open_client();
    tl_lock *lock = make_lock(client, &TL_LOCK_OPTIONS(.ttl_ms = SHORT_MS));
    tl_lock *longer = tl_lock_new(client, "other", 5, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS), &err);
    assert_int_equal(tl_lock_acquire(lock, 0, &err), TL_OK);
    assert_int_equal(tl_lock_acquire(longer, 0, &err), TL_OK);
    world.ahead_us = 1000000;
    int64_t left_ms = tl_lock_remaining_ms(longer);
    world_sleep_ms(SHORT_MS / 2); /* the keeper connects, to renew the shorter one */
    assert_true(tl_lock_remaining_ms(longer) > left_ms - SHORT_MS / 4);
    assert_int_equal(tl_lock_state(lock), TL_HELD);
    tl_lock_free(longer);
    end_of_client(lock, client);
}

/* The keeper may be kept from running for longer than a lock lives: what it then finds to have been handed to
 * one of its waiters is no lock any more. */
TEST(a_lock_that_ran_out_before_it_was_known_to_be_handed_over_is_asked_for) {
    outcome o = {0};
    tl_client *client = NULL;
    tl_client_options options = TL_CLIENT_OPTIONS(.url = "redis://server.world", .dispatch = true);
    world_begin(5);
    assert_int_equal(tl_client_open(&options, &client, &err), TL_OK);
    tl_lock *lock[3] = {make_lock(client, NULL), make_lock(client, NULL), make_lock(client, NULL)};
    for (int i = 0; i < 3; i++)
        assert_int_equal(tl_lock_acquire_async(lock[i], TL_FOREVER, note_done, &o, &err), TL_OK);
    run_loop_until(client, &o, 1);
    assert_int_equal(tl_lock_release(lock[0], &err), TL_OK);
    run_loop_until(client, &o, 2);
    assert_int_equal(tl_lock_release(lock[1], &err),
                     TL_OK); /* hands it over, and the third still waits */
    assert_true(is_in_server());
    world.now = tl__mono_add_ms(world.now, 60000);
    assert_false(is_in_server());
    run_loop_until(client, &o, 3);
    assert_true(tl_lock_remaining_ms(lock[2]) > 0);
    assert_true(tl_lock_fence(lock[2]) > tl_lock_fence(lock[1]) + 1);
    assert_true(is_in_server());
    tl_lock_free(lock[0]);
    tl_lock_free(lock[1]);
    end_of_client(lock[2], client);
}

/* ---- threads ------------------------------------------------------------------------------------- */

static struct {
    int inside, turns;
    uint64_t fence;
    bool wrong;
} contest;

/* On a stack of its own, where a failed assertion couldn't end the test: so it is noted. */
static void *contend(void *client) {
    tl_error why;
    tl_lock *lock = tl_lock_new(client, KEY, strlen(KEY), NULL, &why);
    for (int i = 0; lock && i < TURNS; i++) {
        if (tl_lock_acquire(lock, TL_FOREVER, &why))
            break;
        contest.wrong = contest.wrong || contest.inside++ > 0 ||
                        tl_lock_fence(lock) <= contest.fence;
        contest.fence = tl_lock_fence(lock);
        world_sleep_ms(i);
        contest.inside--;
        contest.turns++;
        contest.wrong = contest.wrong || tl_lock_release(lock, &why);
    }
    tl_lock_free(lock);
    return NULL;
}

/* Two threads of one client, and one of another. Returns who ran when. */
static uint64_t contest_of(uint64_t seed) {
    tl_thread thread[3];
    memset(&contest, 0, sizeof contest);
    world_begin(seed);
    tl_client *ours = open_client(), *theirs = open_client();
    for (int i = 0; i < 3; i++)
        assert_int_equal(tl__thread_start(contend, i < 2 ? ours : theirs, &thread[i]), 0);
    for (int i = 0; i < 3; i++)
        tl__thread_join(thread[i]);
    tl_client_close(ours);
    tl_client_close(theirs);
    if (contest.wrong || contest.turns != 3 * TURNS || is_in_server() || world_left() > 0)
        fail_msg("seed %llu: %d turns, wrong: %d, left: %u", (unsigned long long)seed,
                 contest.turns, contest.wrong, world_left());
    world_end();
    return world.trace;
}

TEST(threads_take_turns_in_any_order_and_each_order_can_be_repeated) {
    uint64_t before = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
        uint64_t trace = contest_of(seed);
        assert_int_not_equal(trace, before);
        assert_int_equal(trace, contest_of(seed));
        before = trace;
    }
}

/* ---- a wait that ends as it is handed a lock ----------------------------------------------------- */

#define BEGIN_MS 100
#define MOMENT_MS 200 /* when all of it happens */

static struct {
    tl_lock *lock; /* of the one whose wait ends */
    bool cancels;
    tl_err code;
    bool wrong;
} last;

static void sleep_until_ms(int64_t at) {
    world_sleep_until((tl_mono){at * TL_NS_PER_MS});
}

static void *pass_on_at_the_moment(void *client) {
    tl_error why;
    tl_lock *lock = tl_lock_new(client, KEY, strlen(KEY), NULL, &why);
    last.wrong = !lock || tl_lock_acquire(lock, TL_FOREVER, &why);
    sleep_until_ms(MOMENT_MS);
    last.wrong = last.wrong || tl_lock_release(lock, &why);
    tl_lock_free(lock);
    return NULL;
}

static void *wait_until_the_moment(void *ctx) {
    tl_error why;
    (void)ctx;
    sleep_until_ms(BEGIN_MS);
    last.code = tl_lock_acquire(last.lock, last.cancels ? TL_FOREVER : MOMENT_MS - BEGIN_MS, &why);
    last.wrong = last.wrong || (last.code == TL_OK && tl_lock_release(last.lock, &why));
    return NULL;
}

/* Three locks of one client: the second hands over to the third. */
static void end_wait_as_it_is_handed_over(uint64_t seed, bool cancels) {
    tl_thread thread[2];
    memset(&last, 0, sizeof last);
    world_begin(seed);
    world.now = (tl_mono){TL_NS_PER_MS};
    tl_client *client = open_client();
    tl_lock *lock = make_lock(client, NULL);
    last.lock = make_lock(client, NULL);
    last.cancels = cancels;
    assert_int_equal(tl_lock_acquire(lock, 0, &err), TL_OK);
    assert_int_equal(tl__thread_start(pass_on_at_the_moment, client, &thread[0]), 0);
    world_sleep_ms(10);
    assert_int_equal(tl__thread_start(wait_until_the_moment, NULL, &thread[1]), 0);
    sleep_until_ms(BEGIN_MS + 10);
    assert_int_equal(tl_lock_release(lock, &err), TL_OK);
    sleep_until_ms(MOMENT_MS);
    if (cancels)
        tl_lock_cancel(last.lock);
    for (int i = 0; i < 2; i++)
        tl__thread_join(thread[i]);
    world_sleep_ms(10);
    if (last.wrong || is_in_server())
        fail_msg("seed %llu, %s: left behind", (unsigned long long)seed, tl_err_name(last.code));
    tl_lock_free(lock);
    end_of_client(last.lock, client);
}

TEST(a_lock_that_is_handed_over_as_the_wait_ends_is_not_left_behind) {
    for (int cancels = 0; cancels < 2; cancels++) {
        unsigned had = 0, ended = 0;
        for (uint64_t seed = 1; seed <= 5 * SEEDS; seed++) {
            end_wait_as_it_is_handed_over(seed, cancels);
            had += last.code == TL_OK;
            ended += last.code == (cancels ? TL_ECANCELLED : TL_ETIMEDOUT);
        }
        assert_int_equal(had + ended, 5 * SEEDS);
        assert_true(had > 0 && ended > 0);
    }
}

/* The keeper may not have looked yet at what tells an operation that it has been handed the lock. */
static void free_as_it_is_handed_over(uint64_t seed) {
    outcome o = {0};
    tl_client *client = NULL;
    tl_client_options options = TL_CLIENT_OPTIONS(.url = "redis://server.world", .dispatch = true);
    world_begin(seed);
    assert_int_equal(tl_client_open(&options, &client, &err), TL_OK);
    tl_lock *lock[3] = {make_lock(client, NULL), make_lock(client, NULL), make_lock(client, NULL)};
    for (int i = 0; i < 3; i++)
        assert_int_equal(tl_lock_acquire_async(lock[i], TL_FOREVER, note_done, &o, &err), TL_OK);
    run_loop_until(client, &o, 1);
    assert_int_equal(tl_lock_release(lock[0], &err), TL_OK);
    run_loop_until(client, &o, 2);
    assert_int_equal(tl_lock_release(lock[1], &err), TL_OK);
    tl_lock_free(lock[2]);
    lock[2] = make_lock(client, NULL); /* where the one before was */
    assert_int_equal(tl_lock_acquire_async(lock[2], 1000, note_done, &o, &err), TL_OK);
    run_loop_until(client, &o, 3);
    assert_int_equal(tl_lock_release(lock[2], &err), TL_OK);
    assert_false(is_in_server());
    tl_lock_free(lock[0]);
    tl_lock_free(lock[1]);
    end_of_client(lock[2], client);
}

TEST(a_lock_that_is_freed_as_it_is_handed_over_is_dropped_and_heard_of_no_more) {
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        free_as_it_is_handed_over(seed);
}

/* ---- a wait for a reply that is cancelled -------------------------------------------------------- */

static void *acquire_from_the_silent(void *lock) {
    tl_error why;
    last.code = tl_lock_acquire(lock, TL_FOREVER, &why);
    return NULL;
}

/* Whoever waits for a reply polls, and whoever pauses sleeps: either is woken. */
TEST(a_cancel_ends_a_wait_for_a_reply_and_a_pause_at_once) {
    for (int pauses = 0; pauses < 2; pauses++) {
        tl_thread thread;
        world_begin(1);
        memset(&last, 0, sizeof last);
        tl_client *client = open_client(), *other = open_client();
        tl_lock *lock = make_lock(client, NULL), *held = make_lock(other, NULL);
        assert_int_equal(tl_client_ping(client, &err), TL_OK);
        if (pauses)
            assert_int_equal(tl_lock_acquire(held, 0, &err), TL_OK);
        world.silent = !pauses;
        assert_int_equal(tl__thread_start(acquire_from_the_silent, lock, &thread), 0);
        world_sleep_ms(300);
        tl_mono cancelled = world.now;
        tl_lock_cancel(lock);
        tl__thread_join(thread);
        assert_int_equal(last.code, TL_ECANCELLED);
        assert_in_range(tl__ms_until(cancelled, world.now), 0, 20);
        world.silent = false;
        tl_lock_free(held);
        tl_client_close(other);
        end_of_client(lock, client);
    }
}

/* ---- what is traced ------------------------------------------------------------------------------ */

static struct { bool without_limit, absurd; } traced;

static void note_line(tl_log_level level, const char *line, void *ctx) {
    static const char end[] = "; reaches for the server";
    size_t n = strlen(line), m = sizeof end - 1;
    (void)level, (void)ctx;
    traced.without_limit = traced.without_limit || (n > m && strcmp(line + n - m, end) == 0);
    traced.absurd = traced.absurd || strstr(line, "9223372") != NULL;
}

TEST(a_wait_without_limit_is_traced_without_one) {
    tl_client *waiting = NULL;
    outcome o = {0};
    memset(&traced, 0, sizeof traced);
    world_begin(4);
    tl_client *client = open_client();
    tl_client_options options = TL_CLIENT_OPTIONS(.url = "redis://server.world", .dispatch = true,
                                                  .trace = true, .log = note_line);
    assert_int_equal(tl_client_open(&options, &waiting, &err), TL_OK);
    tl_lock *held = make_lock(client, NULL), *lock = make_lock(waiting, NULL);
    assert_int_equal(tl_lock_acquire(held, 0, &err), TL_OK);
    assert_int_equal(tl_lock_acquire_async(lock, TL_FOREVER, note_done, &o, &err), TL_OK);
    world_sleep_ms(
        1000); /* it has been told that another holds it, and looks again at the expiry */
    assert_int_equal(tl_lock_release(held, &err), TL_OK);
    run_loop_until(waiting, &o, 1);
    assert_true(traced.without_limit);
    assert_false(traced.absurd);
    tl_lock_free(lock);
    tl_client_close(waiting);
    end_of_client(held, client);
}
