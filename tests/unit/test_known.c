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
