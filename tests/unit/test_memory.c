/*
 * What a held lock takes of the memory, and that whoever has done a thing before does it again without
 * any: counted at malloc, in a world where no test depends on the machine. The server's own doesn't count.
 */
#include <malloc.h>

#include "seams_world.h"
#include "tests.h"

#include "client/client.h"
#include "tidelock/tidelock.h"

#define LOCKS 10000
#define HELD_BYTES 512
#define OVERHEAD 8 /* of a block, in the C library's heap */
#define TTL_MS 30000
#define HANDLES 40
#define WARM 6
#define ROUNDS 5

static int64_t live; /* bytes */
static unsigned allocations;
#define ANY SIZE_MAX
static size_t refused; /* of this size there is none to be had */

/* ---- counting -------------------------------------------------------------------------------- */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define OWN_HEAP 1
#elif defined(__has_feature)
#define OWN_HEAP (__has_feature(address_sanitizer) || __has_feature(thread_sanitizer))
#else
#define OWN_HEAP 0
#endif

#if !OWN_HEAP
/* The C library's own, by the names under which it lets a program put itself before them. */
void *__libc_malloc(size_t n);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t n);
void __libc_free(void *p);

static int64_t size_of(void *p) {
    return p && !world.serving ? (int64_t)malloc_usable_size(p) + OVERHEAD : 0;
}

static void *made(void *p) {
    live += size_of(p);
    allocations += !world.serving;
    return p;
}

void *malloc(size_t size) {
    return refused && (size == refused || refused == ANY) ? NULL : made(__libc_malloc(size));
}

void *calloc(size_t nmemb, size_t size) {
    return made(__libc_calloc(nmemb, size));
}

void *realloc(void *ptr, size_t size) {
    live -= size_of(ptr);
    return made(__libc_realloc(ptr, size));
}

void free(void *ptr) {
    live -= size_of(ptr);
    __libc_free(ptr);
}
#endif

/* Sanitizers, valgrind and other C libraries have a malloc of their own. */
static void need_counts(void) {
    const char *valgrind = getenv("VALGRIND");
    if (OWN_HEAP || (valgrind && strcmp(valgrind, "1") == 0))
        skip();
}

/* ---- holding --------------------------------------------------------------------------------- */

static tl_error err;
static tl_client *client;
static tl_lock *lock[LOCKS];

static void begin_with(bool dispatch) {
    need_counts();
    world_begin(1);
    tl_client_options o = TL_CLIENT_OPTIONS(.url = "redis://server.world", .dispatch = dispatch);
    assert_int_equal(tl_client_open(&o, &client, &err), TL_OK);
}

static void begin(void) {
    begin_with(false);
}

static void end(void) {
    tl_client_close(client);
    assert_int_equal(world_left(), 0);
    world_end();
}

static tl_lock *make(const char *kind, int number, const tl_lock_options *options) {
    char key[32];
    int n = snprintf(key, sizeof key, "%s:held:%05d", kind, number);
    tl_lock *made_one = tl_lock_new(client, key, (size_t)n, options, &err);
    assert_non_null(made_one);
    return made_one;
}

static void acquire(tl_lock *one) {
    if (tl_lock_acquire(one, 0, &err))
        fail_msg("%s", err.message);
}

static void release(tl_lock *one) {
    if (tl_lock_release(one, &err))
        fail_msg("%s", err.message);
}

/* What belongs to the client: connections, the thread, what one renewal needs. */
static void warm_up(void) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    tl_lock *one = make("other", 0, &options);
    acquire(one);
    world_sleep_ms(TTL_MS);
    release(one);
    tl_lock_free(one);
}

TEST(a_held_lock_takes_512_bytes_at_most_renewed_or_not) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    begin();
    warm_up();
    int64_t before = live;
    for (int i = 0; i < LOCKS; i++) {
        lock[i] = make("bench", i, &options);
        acquire(lock[i]);
    }
    assert_in_range(live - before, LOCKS, LOCKS * HELD_BYTES);
    world_sleep_ms(TTL_MS * INT64_C(4));
    assert_in_range(live - before, LOCKS, LOCKS * HELD_BYTES);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(tl_lock_state(lock[i]), TL_HELD);
        tl_lock_free(lock[i]);
    }
    end();
}

TEST(what_a_burst_of_renewals_needs_is_given_back) {
    const tl_lock_options options = TL_LOCK_OPTIONS(.ttl_ms = TTL_MS);
    begin();
    warm_up();
    int64_t before = live;
    for (int i = 0; i < LOCKS; i++) {
        lock[i] = make("bench", i, &options);
        acquire(lock[i]);
    }
    world.ahead_us += 5000000; /* the server's clock steps: all are renewed at once */
    unsigned most = allocations;
    world_sleep_ms(TTL_MS * INT64_C(2));
    assert_true(allocations - most > LOCKS); /* it was a burst */
    assert_in_range(live - before, LOCKS, LOCKS * HELD_BYTES);
    for (int i = 0; i < LOCKS; i++) {
        assert_int_equal(tl_lock_state(lock[i]), TL_HELD);
        tl_lock_free(lock[i]);
    }
    end();
}

/* ---- rounds ---------------------------------------------------------------------------------- */

static void note(tl_lock *one, const tl_lock_event *event, void *ctx) {
    (void)one;
    (void)event;
    (void)ctx;
}

static void play_round(void) {
    for (int i = 0; i < HANDLES; i++)
        acquire(lock[i]);
    world_sleep_ms(TTL_MS); /* renewed */
    for (int i = 0; i < HANDLES; i++) {
        assert_int_equal(tl_lock_state(lock[i]), TL_HELD);
        if (i % 2 == 0 && tl_lock_extend(lock[i], TTL_MS, &err))
            fail_msg("%s", err.message);
        release(lock[i]);
    }
}

static void assert_nothing_allocated(const tl_lock_options *options) {
    begin();
    for (int i = 0; i < HANDLES; i++)
        lock[i] = make("round", i, options);
    for (int i = 0; i < WARM; i++)
        play_round();
    unsigned before = allocations;
    for (int i = 0; i < ROUNDS; i++)
        play_round();
    assert_int_equal(allocations - before, 0);
    for (int i = 0; i < HANDLES; i++)
        tl_lock_free(lock[i]);
    end();
}

TEST(warm_handles_allocate_nothing_however_often_they_are_acquired_renewed_and_released) {
    assert_nothing_allocated(&TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
}

TEST(with_a_callback_nothing_either) {
    assert_nothing_allocated(
        &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS, .on_event = note, .max_hold_ms = 10 * TTL_MS));
}

/* Handles whose operations follow one another in callbacks, of one thread and its loop. */
typedef struct {
    unsigned acquires, flights;
} loop;

static void on_acquired(tl_lock *one, tl_err code, const tl_error *why, void *ctx);

static void on_released(tl_lock *one, tl_err code, const tl_error *why, void *ctx) {
    loop *l = ctx;
    (void)why;
    assert_int_equal(code, TL_OK);
    if (l->acquires == 0) {
        l->flights--;
        return;
    }
    l->acquires--;
    assert_int_equal(tl_lock_acquire_async(one, 0, on_acquired, l, &err), TL_OK);
}

static void on_acquired(tl_lock *one, tl_err code, const tl_error *why, void *ctx) {
    (void)why;
    assert_int_equal(code, TL_OK);
    assert_int_equal(tl_lock_release_async(one, on_released, ctx, &err), TL_OK);
}

static void play_loop(unsigned acquires) {
    loop l = {.acquires = acquires - HANDLES, .flights = HANDLES};
    for (int i = 0; i < HANDLES; i++)
        assert_int_equal(tl_lock_acquire_async(lock[i], 0, on_acquired, &l, &err), TL_OK);
    while (l.flights > 0) {
        struct pollfd p = {.fd = tl_client_fd(client), .events = POLLIN};
        tl__wait(&p, 1, TL_NEVER);
        (void)tl_client_dispatch(client);
    }
}

TEST(warm_handles_without_blocking_allocate_nothing_either) {
    begin_with(true);
    for (int i = 0; i < HANDLES; i++)
        lock[i] = make("loop", i, NULL);
    play_loop(WARM * HANDLES);
    unsigned before = allocations;
    play_loop(ROUNDS * HANDLES);
    assert_int_equal(allocations - before, 0);
    for (int i = 0; i < HANDLES; i++)
        tl_lock_free(lock[i]);
    end();
}

/* ---- none left ------------------------------------------------------------------------------- */

TEST(a_lock_whose_renewal_finds_no_memory_is_at_risk_until_there_is_some) {
    begin();
    lock[0] = make("scarce", 0, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    acquire(lock[0]);
    refused = sizeof(tl_renewal);
    world_sleep_ms(TTL_MS / 2);
    assert_int_equal(tl_lock_state(lock[0]), TL_AT_RISK);
    refused = 0;
    world_sleep_ms(TTL_MS);
    assert_int_equal(tl_lock_state(lock[0]), TL_HELD);
    release(lock[0]);
    tl_lock_free(lock[0]);
    end();
}

/* Its header: "from now on the handle does not hold the lock". */
TEST(a_release_that_finds_no_memory_lets_the_lock_expire) {
    begin();
    lock[0] = make("scarce", 0, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    lock[1] = make("scarce", 0, &TL_LOCK_OPTIONS(.ttl_ms = TTL_MS));
    for (int rests = 0; rests < 2; rests++) {
        acquire(lock[rests]);
        refused = ANY;
        assert_int_equal(rests ? tl_lock_rest_async(lock[1], 1000, on_acquired, NULL, &err)
                               : tl_lock_release_async(lock[0], on_acquired, NULL, &err),
                         TL_ENOMEM);
        refused = 0;
        assert_int_equal(tl_lock_state(lock[rests]), TL_FREE);
        assert_int_equal(tl_lock_remaining_ms(lock[rests]), 0);
        assert_int_equal(tl_lock_acquire(lock[!rests], 0, &err), TL_EBUSY);
        world_sleep_ms(TTL_MS + 1000);
    }
    acquire(lock[0]);
    release(lock[0]);
    tl_lock_free(lock[0]);
    tl_lock_free(lock[1]);
    end();
}
