/*
 * A shared connection: for how long a request waits for those of callers that have a reply and have not run
 * since. Two callers, both played by one thread, in a small world with a near server.
 */
#define LATENCY_NS 20000

#include "seams_world.h"
#include "tests.h"

#include "client/client.h"
#include "client/share.h"
#include "tidelock/tidelock.h"

#define GATHER_NS 100000
#define READY_NS 30000
#define LIMIT_MS 1000
#define OTHERS 8 /* so many that a caller looks for longer than the wait may last */

typedef struct {
    tl_sharer sharer;
    unsigned answers;
} caller;

static tl_client *client;
static tl_share *share;
static caller first, second;

static void answered(tl_sharer *sharer, const tl_answer *answer) {
    assert_true(answer->ok);
    ((caller *)sharer)->answers++;
}

static void ask(caller *c) {
    tl_send send = {.count = 1, .by = tl__mono_add_ms(world.now, LIMIT_MS)};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("PING")}};
    assert_int_equal(tl__share_send(share, &c->sharer, &send, world.now), TL_OK);
}

static void await(caller *c, unsigned answers) {
    while (c->answers < answers)
        tl__share_await(share, &c->sharer, TL_NEVER);
}

/* Both have a reply, the second for so long; the first has run since. */
static void begin(int64_t ready_ns) {
    tl_error err;
    tl_client_options o = TL_CLIENT_OPTIONS(.url = "redis://server.world");
    world_begin(1);
    assert_int_equal(tl_client_open(&o, &client, &err), TL_OK);
    client->crowd = 0;
    first = second = (caller){.sharer = {.answered = answered}};
    share = tl__share_enter(&client->node);
    assert_non_null(share);
    atomic_fetch_add(&client->node.sharers, OTHERS);
    ask(&first);
    await(&first, 1); /* the connection is up */
    ask(&first);
    ask(&second);
    await(&first, 2);
    assert_int_equal(second.answers, 1);
    world.now = tl__mono_add_ns(world.now, ready_ns);
}

static void end(void) {
    atomic_fetch_sub(&client->node.sharers, OTHERS);
    tl__share_leave(share, &first.sharer);
    tl_client_close(client);
    assert_int_equal(world_left(), 0);
    world_end();
}

/* The first caller asks again: for how long does its request wait? */
static int64_t wait_ns(void) {
    tl_mono asked = world.now;
    ask(&first);
    await(&first, 3);
    return tl__ns_until(asked, world.sent);
}

TEST(a_request_waits_a_moment_for_a_caller_that_has_its_reply) {
    begin(READY_NS);
    assert_in_range(wait_ns(), GATHER_NS, GATHER_NS + 2 * YIELD_NS);
    end();
}

TEST(a_request_waits_for_nobody_who_had_no_time_to_run_yet) {
    begin(READY_NS / 2);
    assert_int_equal(wait_ns(), 0);
    end();
}

TEST(a_request_waits_for_nobody_once_that_caller_has_run) {
    begin(READY_NS);
    tl__share_await(share, &second.sharer, TL_NEVER);
    assert_int_equal(wait_ns(), 0);
    end();
}

TEST(both_requests_are_sent_together_once_that_caller_has_asked) {
    begin(READY_NS);
    ask(&first);
    tl__share_await(share, &second.sharer, TL_NEVER);
    tl_mono asked = world.now;
    ask(&second);
    await(&second, 2);
    assert_int_equal(tl__ns_until(asked, world.sent), 0);
    assert_int_equal(first.answers, 3);
    end();
}

TEST(a_request_waits_for_nobody_once_that_caller_has_left) {
    begin(READY_NS);
    tl__share_leave(share, &second.sharer);
    atomic_store(&client->node.turn, 0); /* to the same connection again */
    assert_ptr_equal(tl__share_enter(&client->node), share);
    assert_int_equal(wait_ns(), 0);
    end();
}

TEST(a_reply_to_a_caller_that_has_left_is_dropped) {
    begin(0);
    ask(&second);
    tl__share_leave(share, &second.sharer);
    atomic_store(&client->node.turn, 0); /* to the same connection again */
    assert_ptr_equal(tl__share_enter(&client->node), share);
    ask(&first);
    await(&first, 3);
    assert_int_equal(second.answers, 1);
    end();
}
