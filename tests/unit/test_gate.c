/*
 * The local queue by itself: who comes to the front and when, and which holds may pass on.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "clock_wait.h"
#include "tests.h"

#include "client/gate.h"

#define TTL_MS 1000
#define MANY 1000
#define FENCE 5000

typedef struct {
    tl_turn turn; /* first */
    int came;
} visitor;

static tl_gate gate;

static void on_turn(tl_turn *turn) {
    ((visitor *)turn)->came++;
}

static visitor visit(int64_t ttl_ms) {
    return (visitor){.turn = {.ttl_ms = ttl_ms, .on_turn = on_turn}};
}

static tl_gate_node place_on(const char *key) {
    tl_bytes bytes = tl__bytes_of(key);
    return (tl_gate_node){.key = bytes, .hash = tl__gate_hash(bytes)};
}

static tl_mono at_ms(int64_t ms) {
    return tl__mono_add_ms((tl_mono){1000000000}, ms);
}

/* A fresh one, taken at 0 ms, with as many fencing numbers as a queue gets. */
static tl_hold fresh_hold(void) {
    return (tl_hold){.token = {"the token"},
                     .deadline = at_ms(TTL_MS),
                     .fence = FENCE,
                     .passes = TL_FENCES - 1,
                     .taken = at_ms(0)};
}

static int set_up(void **state) {
    (void)state;
    return tl__gate_init(&gate) ? 0 : -1;
}

static int tear_down(void **state) {
    (void)state;
    assert_int_equal(gate.fronts, 0);
    tl__gate_end(&gate);
    return 0;
}

TESTS_WITH(set_up, tear_down);

/* ---- coming and going ------------------------------------------------------------------------ */

TEST(the_first_is_at_the_front_and_the_others_queue) {
    tl_gate_node a = place_on("k"), b = place_on("k"), c = place_on("k");
    visitor vb = visit(TTL_MS);
    assert_int_equal(tl__gate_enter(&gate, &a, NULL), TL_FRONT);
    assert_false(tl__gate_has_queue(&gate, &a));
    assert_int_equal(tl__gate_enter(&gate, &b, &vb.turn), TL_QUEUED);
    assert_true(tl__gate_has_queue(&gate, &a));
    assert_int_equal(tl__gate_enter(&gate, &c, NULL), TL_OUTSIDE);
    assert_int_equal(vb.came, 0);
    tl__gate_leave(&gate, &c); /* outside: nothing */
    assert_int_equal(vb.came, 0);
    tl__gate_leave(&gate, &a);
    assert_int_equal(vb.came, 1);
    assert_false(vb.turn.given);
    assert_int_equal(a.state, TL_OUTSIDE);
    assert_int_equal(b.state, TL_FRONT);
    tl__gate_leave(&gate, &b);
}

TEST(they_come_in_the_order_in_which_they_entered) {
    tl_gate_node places[5];
    visitor visitors[5];
    for (int i = 0; i < 5; i++) {
        places[i] = place_on("k");
        visitors[i] = visit(TTL_MS);
        assert_int_equal(tl__gate_enter(&gate, &places[i], &visitors[i].turn),
                         i == 0 ? TL_FRONT : TL_QUEUED);
    }
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 5; j++)
            assert_int_equal(visitors[j].came, j > 0 && j <= i);
        tl__gate_leave(&gate, &places[i]);
    }
}

TEST(any_one_may_leave_the_queue_and_the_others_keep_their_order) {
    for (int gone = 1; gone < 4; gone++) {
        tl_gate_node places[4];
        visitor visitors[4];
        for (int i = 0; i < 4; i++) {
            places[i] = place_on("k");
            visitors[i] = visit(TTL_MS);
            (void)tl__gate_enter(&gate, &places[i], &visitors[i].turn);
        }
        assert_true(tl__gate_quit(&gate, &places[gone]));
        assert_false(tl__gate_quit(&gate, &places[gone]));
        (void)tl__gate_enter(&gate, &places[gone], &visitors[gone].turn); /* behind all others */
        for (int i = 0; i < 4; i++) {
            if (i == gone)
                continue;
            assert_int_equal(visitors[i].came, i > 0);
            tl__gate_leave(&gate, &places[i]);
        }
        assert_int_equal(visitors[gone].came, 1);
        tl__gate_leave(&gate, &places[gone]);
    }
}

TEST(one_at_the_front_cannot_quit_the_queue) {
    tl_gate_node a = place_on("k");
    visitor va = visit(TTL_MS);
    assert_false(tl__gate_quit(&gate, &a));
    (void)tl__gate_enter(&gate, &a, &va.turn);
    assert_false(tl__gate_quit(&gate, &a));
    assert_int_equal(a.state, TL_FRONT);
    tl__gate_leave(&gate, &a);
    tl__gate_leave(&gate, &a);
    assert_int_equal(a.state, TL_OUTSIDE);
}

TEST(keys_do_not_disturb_each_other) {
    tl_gate_node *places = calloc(MANY, sizeof *places);
    char(*keys)[16] = calloc(MANY, sizeof *keys);
    assert_true(places && keys);
    for (int i = 0; i < MANY; i++) { /* the table grows */
        (void)snprintf(keys[i], sizeof keys[i], "key %d", i);
        places[i] = place_on(keys[i]);
        assert_int_equal(tl__gate_enter(&gate, &places[i], NULL), TL_FRONT);
    }
    assert_true(gate.buckets >= MANY);
    for (int i = 0; i < MANY; i++) {
        tl_gate_node other = place_on(keys[i]);
        visitor v = visit(TTL_MS);
        assert_int_equal(tl__gate_enter(&gate, &other, &v.turn), TL_QUEUED);
        tl__gate_leave(&gate, &places[(i * 7) % MANY]);
        if (!v.came)
            assert_true(tl__gate_quit(&gate, &other));
        else
            tl__gate_leave(&gate, &other);
        (void)tl__gate_enter(&gate, &places[(i * 7) % MANY], NULL);
    }
    for (int i = 0; i < MANY; i++)
        tl__gate_leave(&gate, &places[i]);
    free(places);
    free(keys);
}

TEST(the_hash_alone_does_not_make_two_keys_one) {
    tl_gate_node a = place_on("one"), b = place_on("two"), c = place_on("on");
    visitor v = visit(TTL_MS);
    b.hash = c.hash = a.hash;
    assert_int_equal(tl__gate_enter(&gate, &a, &v.turn), TL_FRONT);
    assert_int_equal(tl__gate_enter(&gate, &b, &v.turn), TL_FRONT);
    assert_int_equal(tl__gate_enter(&gate, &c, &v.turn), TL_FRONT);
    tl__gate_leave(&gate, &b);
    tl__gate_leave(&gate, &a);
    tl__gate_leave(&gate, &c);
    assert_int_equal(v.came, 0);
}

/* ---- passing on -------------------------------------------------------------------------------- */

/* Does this one, behind the front, get this hold at this moment? */
static bool passes_to(visitor v, tl_hold hold, int64_t now_ms) {
    tl_gate_node a = place_on("k"), b = place_on("k");
    (void)tl__gate_enter(&gate, &a, NULL);
    (void)tl__gate_enter(&gate, &b, &v.turn);
    bool passed = tl__gate_pass(&gate, &a, &hold, at_ms(now_ms));
    assert_int_equal(v.came, passed);
    assert_int_equal(v.turn.given, passed);
    assert_int_equal(a.state, passed ? TL_OUTSIDE : TL_FRONT);
    if (passed) {
        assert_string_equal(v.turn.hold.token.text, hold.token.text);
        assert_int_equal(v.turn.hold.fence, hold.fence ? hold.fence + 1 : 0);
        assert_int_equal(v.turn.hold.passes, hold.passes - 1);
        assert_int_equal(v.turn.hold.deadline.ns, hold.deadline.ns);
        assert_int_equal(v.turn.hold.taken.ns, hold.taken.ns);
    } else {
        assert_true(tl__gate_quit(&gate, &b));
    }
    tl__gate_leave(&gate, &a);
    tl__gate_leave(&gate, &b);
    return passed;
}

static bool passes(tl_hold hold, int64_t now_ms, int64_t ttl_ms) {
    return passes_to(visit(ttl_ms), hold, now_ms);
}

TEST(a_fresh_hold_passes_with_the_next_fence) {
    assert_true(passes(fresh_hold(), 0, TTL_MS));
}

TEST(a_hold_passes_only_when_enough_of_it_is_left) {
    assert_true(passes(fresh_hold(), TTL_MS / 2, TTL_MS));
    assert_false(passes(fresh_hold(), TTL_MS / 2 + 1, TTL_MS));
    assert_true(passes(fresh_hold(), TTL_MS - 10, 20));
    assert_false(passes(fresh_hold(), 0, 3 * TTL_MS));
    assert_false(passes(fresh_hold(), TTL_MS, 1)); /* over: not even for one who wants nothing */
    tl_hold over = fresh_hold();
    over.deadline = (tl_mono){0};
    assert_false(passes(over, 0, TTL_MS));
}

TEST(a_hold_passes_only_for_a_second_after_it_was_taken) {
    tl_hold hold = fresh_hold();
    hold.deadline = at_ms(30000); /* renewed since */
    assert_true(passes(hold, 999, TTL_MS));
    assert_false(passes(hold, 1000, TTL_MS));
    assert_false(passes(hold, 5000, TTL_MS));
}

TEST(a_hold_passes_only_while_fencing_numbers_are_reserved) {
    tl_hold hold = fresh_hold();
    hold.passes = 1;
    assert_true(passes(hold, 0, TTL_MS));
    hold.passes = 0;
    assert_false(passes(hold, 0, TTL_MS));
    hold.fence = 0; /* a lock without numbers passes as often */
    assert_false(passes(hold, 0, TTL_MS));
    hold.passes = 1;
    assert_true(passes(hold, 0, TTL_MS));
}

/* Else the server would not know that the key is held, for as long as nobody renews it. */
TEST(a_hold_that_the_server_does_not_know_passes_to_nobody_who_renews_by_hand) {
    visitor by_hand = visit(TTL_MS);
    by_hand.turn.by_hand = true;
    tl_hold hold = fresh_hold();
    assert_true(passes_to(by_hand, hold, 0));
    hold.proof.unbound = true;
    assert_false(passes_to(by_hand, hold, 0));
    assert_true(passes(hold, 0, TTL_MS));
}

TEST(nobody_is_passed_to_from_outside_or_without_a_queue) {
    tl_gate_node a = place_on("k"), b = place_on("k");
    tl_hold hold = fresh_hold();
    assert_false(tl__gate_pass(&gate, &a, &hold, at_ms(0)));
    (void)tl__gate_enter(&gate, &b, NULL);
    assert_false(tl__gate_pass(&gate, &a, &hold, at_ms(0)));
    assert_false(tl__gate_pass(&gate, &b, &hold, at_ms(0)));
    assert_int_equal(b.state, TL_FRONT);
    tl__gate_leave(&gate, &b);
}

/* ---- a caller that blocks ---------------------------------------------------------------------- */

typedef struct {
    tl_turn turn; /* first */
    tl_gate_node place;
    bool called, stop;
    int64_t wait_ms;
    bool front, given;
    atomic_bool queued;
    uint64_t fence;
} sleeper;

static tl_mutex sleepers_mutex = {PTHREAD_MUTEX_INITIALIZER};
static tl_cond sleepers_change;

static void tell_sleeper(bool *what) {
    tl__mutex_lock(&sleepers_mutex);
    *what = true;
    tl__cond_wake_all(&sleepers_change);
    tl__mutex_unlock(&sleepers_mutex);
}

static void call_sleeper(tl_turn *turn) {
    tell_sleeper(&((sleeper *)turn)->called);
}

/* As a caller that blocks does it: it leaves the queue, unless it has come to the front meanwhile. */
static void *sleep_in_queue(void *ctx) {
    sleeper *s = ctx;
    tl_mono by = tl__mono_add_ms(tl__mono_now(), s->wait_ms);
    s->front = tl__gate_enter(&gate, &s->place, &s->turn) == TL_FRONT;
    atomic_store(&s->queued, true);
    tl__mutex_lock(&sleepers_mutex);
    while (!s->front && !s->called && !s->stop)
        if (!tl__cond_wait_by(&sleepers_change, &sleepers_mutex, by))
            break;
    tl__mutex_unlock(&sleepers_mutex);
    if (!s->front)
        s->front = !tl__gate_quit(&gate, &s->place);
    s->given = s->turn.given;
    s->fence = s->turn.hold.fence;
    return NULL;
}

static pthread_t put_to_sleep(sleeper *s, int64_t wait_ms) {
    pthread_t thread;
    static bool ready;
    if (!ready)
        tl__cond_init(&sleepers_change);
    ready = true;
    *s = (sleeper){.place = place_on("k"), .wait_ms = wait_ms};
    s->turn = (tl_turn){.ttl_ms = TTL_MS, .on_turn = call_sleeper};
    assert_int_equal(pthread_create(&thread, NULL, sleep_in_queue, s), 0);
    WAIT_FOR(SOON_MS, atomic_load(&s->queued));
    return thread;
}

TEST(a_thread_that_waits_gets_the_hold) {
    tl_gate_node a = place_on("k");
    tl_hold hold = fresh_hold();
    sleeper s;
    (void)tl__gate_enter(&gate, &a, NULL);
    pthread_t thread = put_to_sleep(&s, 60000);
    assert_true(tl__gate_pass(&gate, &a, &hold, at_ms(0)));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_true(s.front && s.given);
    assert_int_equal(s.fence, FENCE + 1);
    tl__gate_leave(&gate, &s.place);
}

TEST(a_thread_that_waits_leaves_when_its_time_is_up) {
    tl_gate_node a = place_on("k");
    sleeper s;
    (void)tl__gate_enter(&gate, &a, NULL);
    assert_int_equal(pthread_join(put_to_sleep(&s, 20), NULL), 0);
    assert_false(s.front);
    assert_int_equal(s.place.state, TL_OUTSIDE);
    assert_false(tl__gate_has_queue(&gate, &a));
    tl__gate_leave(&gate, &a);
}

TEST(a_thread_that_waits_may_leave_at_any_time) {
    tl_gate_node a = place_on("k");
    sleeper s;
    (void)tl__gate_enter(&gate, &a, NULL);
    pthread_t thread = put_to_sleep(&s, 60000);
    assert_true(tl__gate_has_queue(&gate, &a));
    tell_sleeper(&s.stop);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_false(s.front);
    assert_int_equal(s.place.state, TL_OUTSIDE);
    tl__gate_leave(&gate, &a);
}

/* What is handed over is never lost: of two threads that pass and give up at the same moment, either
 * both say that it passed, or neither. */
TEST(a_gift_and_a_time_out_at_one_moment_agree) {
    int passed = 0;
    for (int i = 0; i < 200; i++) {
        tl_gate_node a = place_on("k");
        tl_hold hold = fresh_hold();
        sleeper s;
        (void)tl__gate_enter(&gate, &a, NULL);
        pthread_t thread = put_to_sleep(&s, i % 3);
        bool did = tl__gate_pass(&gate, &a, &hold, at_ms(0));
        assert_int_equal(pthread_join(thread, NULL), 0);
        assert_int_equal(s.front, did);
        assert_int_equal(s.given, did);
        tl__gate_leave(&gate, did ? &s.place : &a);
        passed += did;
    }
    print_message("passed %d times of 200\n", passed);
}

/* ---- names that nest ---------------------------------------------------------------------------- */

static bool is_there(const tl_gate_node *front) {
    return front->state == TL_FRONT;
}

static bool is_nobody(const tl_gate_node *front) {
    return front->state == TL_OUTSIDE;
}

TEST(a_name_is_blocked_by_those_below_it_where_names_nest_and_by_no_other) {
    static const char *const others[] = {"a/", "ab/c", "b/a/c", "/a/b", "a-b", "A/b"};
    tl_gate_node asked = place_on("a"), below = place_on("a/b");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        tl_gate_node other = place_on(others[i]);
        assert_int_equal(tl__gate_enter(&gate, &other, NULL), TL_FRONT);
        assert_false(tl__gate_blocks(&gate, &asked, true, is_there));
        tl__gate_leave(&gate, &other);
    }
    assert_int_equal(tl__gate_enter(&gate, &below, NULL), TL_FRONT);
    assert_true(tl__gate_blocks(&gate, &asked, true, is_there));
    assert_false(tl__gate_blocks(&gate, &asked, true, is_nobody));
    assert_false(tl__gate_blocks(&gate, &asked, false, is_there));
    assert_true(tl__gate_blocks(&gate, &below, false, is_there));
    tl__gate_leave(&gate, &below);
    assert_false(tl__gate_blocks(&gate, &asked, true, is_there));
}
