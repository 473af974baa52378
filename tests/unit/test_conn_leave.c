/*
 * A server that says that another may be the one to ask by now: a replica after a failover, one that
 * is loading. Its connection is left, so that the next one looks the name up again.
 */
#include "conn_world.h"

#define GET_K "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

/* A script's error as servers up to 6.2 wrap it. */
#define WRAPPED                                                                                    \
    "-ERR Error running script (call to f_1): @user_script:1: -READONLY You can't write\r\n"

TEST(a_server_that_is_not_the_one_to_ask_is_left) {
    static const char *const replies[] = {"-READONLY You can't write against a replica.\r\n",
                                          "-MASTERDOWN Link with MASTER is down\r\n",
                                          "-LOADING Redis is loading the dataset in memory\r\n",
                                          "-NOREPLICAS Not enough good replicas to write.\r\n",
                                          WRAPPED};
    for (size_t i = 0; i < sizeof replies / sizeof *replies; i++) {
        conn_world w;
        world_open(&w);
        world_serve(&w);
        world_ask(&w, 1, "GET k");
        peer_expect(&w.peer, GET_K);
        peer_send(&w.peer, replies[i]);
        world_await(&w, 2);
        assert_true(w.log[1].ok);                  /* what it said is told */
        assert_int_equal(tl__conn_fd(w.conn), -1); /* in the same drive */
        assert_non_null(strstr(w.down, "another server may be the master"));
        world_ask(&w, 2, "GET k"); /* without a pause */
        world_login(&w);
        peer_expect(&w.peer, GET_K);
        peer_send(&w.peer, "+OK\r\n");
        world_await(&w, 3);
        seen_ok(&w, 2, 2, "OK");
        world_close(&w);
    }
}

TEST(other_refusals_do_not_end_a_connection) {
    static const char replies[] =
        "-OOM command not allowed\r\n-MISCONF no disk\r\n-BUSY a script\r\n"
        "-ERR READONLY is not its first word\r\n$9\r\n-READONLY\r\n";
    conn_world w;
    world_open(&w);
    world_serve(&w);
    for (uint16_t i = 1; i <= 5; i++)
        world_ask(&w, i, "GET k");
    peer_expect(&w.peer, GET_K GET_K GET_K GET_K GET_K);
    peer_send(&w.peer, replies);
    world_await(&w, 6);
    assert_int_equal(w.downs, 0);
    world_close(&w);
}

/* What was sent already is answered by the server that is left; the rest goes to the next. */
TEST(a_server_is_left_only_after_it_has_answered) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 1, "GET k");
    world_ask(&w, 2, "GET k");
    peer_expect(&w.peer, GET_K GET_K);
    peer_send(&w.peer, "-READONLY no\r\n");
    world_await(&w, 2);
    world_ask(&w, 3, "GET k");
    world_drive(&w);
    assert_int_equal(tl__conn_events(w.conn), POLLIN); /* nothing is written to it any more */
    assert_false(tl__conn_up(w.conn));
    assert_int_equal(w.downs, 0);
    peer_send(&w.peer, "+two\r\n");
    world_await(&w, 3);
    seen_ok(&w, 2, 2, "two");
    world_login(&w);
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+three\r\n");
    world_await(&w, 4);
    seen_ok(&w, 3, 3, "three");
    world_close(&w);
}

TEST(a_server_that_is_left_and_silent_costs_no_more_than_the_limit) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 1, "GET k");
    world_ask(&w, 2, "GET k");
    peer_expect(&w.peer, GET_K GET_K);
    peer_send(&w.peer, "-READONLY no\r\n");
    world_await(&w, 2);
    world_pass_ms(&w, LIMIT_MS);
    world_drive(&w);
    seen_failed(&w, 2, 2, true, TL_EUNAVAILABLE, "no reply");
    world_close(&w);
}

/* Who only wants to reach a server stands between requests that were sent. He has none of their replies. */
TEST(who_reaches_for_a_server_that_is_left_takes_no_reply_of_another) {
    for (int at_once = 0; at_once < 2; at_once++) {
        conn_world w;
        world_open(&w);
        world_serve(&w);
        world_ask(&w, 1, "GET k");
        for (uint16_t ticket = 2; ticket <= 3; ticket++) {
            tl_send reach = {.ticket = ticket, .by = tl__mono_add_ms(world_now(&w), LIMIT_MS)};
            assert_int_equal(tl__conn_send(w.conn, &reach, &w, world_now(&w)), TL_OK);
        }
        world_ask(&w, 4, "GET k");
        world_ask(&w, 5, "GET k");
        peer_expect(&w.peer, GET_K GET_K GET_K);
        peer_send(&w.peer, at_once ? "-READONLY no\r\n+four\r\n+five\r\n" : "-READONLY no\r\n");
        world_await(&w, at_once ? 4 : 2);
        if (!at_once)
            peer_send(&w.peer, "+four\r\n+five\r\n");
        world_await(&w, 4);
        seen_ok(&w, 2, 4, "four");
        seen_ok(&w, 3, 5, "five");
        assert_non_null(strstr(w.down, "another server may be the master"));
        world_login(&w); /* it is the next that they reach */
        world_await(&w, 6);
        seen_ok(&w, 4, 2, "");
        seen_ok(&w, 5, 3, "");
        world_close(&w);
    }
}
