/*
 * What is known of a server: the keeper has a copy of it, which is renewed when any thread has learned more.
 */
#include "client/client.h"
#include "tests.h"

#define LEVEL 3

static tl_client client;
static tl_node node;

static int set_up(void **state) {
    (void)state;
    client = (tl_client){.protocol = &tl__protocol_token};
    node = (tl_node){0};
    tl__mutex_init(&client.mutex);
    tl__node_init(&node, &client);
    return 0;
}

static int tear_down(void **state) {
    (void)state;
    tl__node_end(&node);
    tl__mutex_end(&client.mutex);
    return 0;
}

TESTS_WITH(set_up, tear_down);

static const tl_server *known_to_the_keeper(void) {
    return tl__node_server(&node, tl__mono_now(), NULL);
}

TEST(the_keeper_knows_a_level_that_was_learned_after_its_last_step) {
    assert_int_equal(known_to_the_keeper()->level, 0);
    tl__node_level(&node, LEVEL, 0);
    assert_int_equal(known_to_the_keeper()->level, LEVEL);
}

TEST(the_keeper_knows_a_clock_that_was_learned_after_its_last_step) {
    assert_false(known_to_the_keeper()->anchor.known);
    assert_false(tl__node_learn(&node, (tl_interval){1000, 2000}, 0, tl__mono_now()));
    assert_true(known_to_the_keeper()->anchor.known);
}

TEST(a_caller_that_blocks_gets_a_copy_of_its_own) {
    tl_server room;
    tl__node_level(&node, LEVEL, 0);
    assert_ptr_equal(tl__node_server(&node, tl__mono_now(), &room), &room);
    assert_int_equal(room.level, LEVEL);
}

/* ---- the server's clock after a pause of this machine ---------------------------------------- */

static const tl_vmclock page = {.sequence = 2};
static const tl_interval wide = {0, 100000};

static void paused_at(tl_mono at) {
    client.disruptions.page = &page;
    client.disruptions.at_ns = at.ns;
}

/* Our clock stood still in between: the server's clock is ahead of what the reply says. */
TEST(a_clock_that_was_asked_for_before_a_disruption_is_not_learned) {
    tl_mono now = tl__mono_now();
    paused_at(tl__mono_add_ms(now, -50));
    (void)tl__node_learn(&node, wide, 0, now);
    assert_false(known_to_the_keeper()->anchor.known);
    (void)tl__node_learn(&node, (tl_interval){0, 40000}, 0, now);
    assert_true(known_to_the_keeper()->anchor.known);
}

TEST(the_first_reading_after_a_disruption_replaces_the_ones_before_it) {
    tl_mono now = tl__mono_now();
    (void)tl__node_learn(&node, wide, 0, now);
    paused_at(tl__mono_add_ms(now, 1));
    assert_false(tl__node_learn(&node, (tl_interval){60000, 160000}, 0, tl__mono_add_ms(now, 200)));
    assert_true(known_to_the_keeper()->anchor.offset.hi >= 160000);
}
