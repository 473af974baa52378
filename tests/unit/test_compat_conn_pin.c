/*
 * A transaction over two exchanges: it has its connection for itself, it is never closed on another
 * one, and what isn't closed leaves nothing behind for whoever comes next.
 */
#include "conn_world.h"
#include "stamp/stamp.h"

#define GET_K "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
#define WATCH_MULTI "*2\r\n$5\r\nWATCH\r\n$1\r\nk\r\n*1\r\n$5\r\nMULTI\r\n"
#define SET_EXEC "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*1\r\n$4\r\nEXEC\r\n"
#define DISCARDED "*1\r\n$7\r\nDISCARD\r\n*1\r\n$7\r\nUNWATCH\r\n"
#define DONE "+QUEUED\r\n*1\r\n+OK\r\n"

static tl_err send_two(conn_world *w, uint16_t ticket, const tl_pin *pin, const char *first,
                       const char *second) {
    char copy[2][128];
    tl_send send = {.ticket = ticket, .count = 2, .pin = pin};
    send.by = tl__mono_add_ms(world_now(w), LIMIT_MS);
    send.command[0] = command_of(first, copy[0], sizeof copy[0]);
    send.command[1] = command_of(second, copy[1], sizeof copy[1]);
    return tl__conn_send(w->conn, &send, w, world_now(w));
}

static void open_it(conn_world *w, uint16_t ticket) {
    assert_int_equal(send_two(w, ticket, &tl__pin_opens, "WATCH k", "MULTI"), TL_OK);
}

static tl_err close_it(conn_world *w, uint16_t ticket) {
    return send_two(w, ticket, &tl__pin_closes, "SET k v", "EXEC");
}

/* Within the callback of request 1: the second exchange, number 2, and a stranger's, number 3. */
static void go_on(void *world_of, const tl_answer *a) {
    conn_world *w = world_of;
    if (a->ticket != 1 || !a->ok)
        return;
    world_ask(w, 3, "GET k");
    assert_int_equal(close_it(w, 2), TL_OK);
    assert_int_equal(close_it(w, 2), TL_EUNAVAILABLE); /* once */
}

static void begin(conn_world *w) {
    world_open(w);
    world_serve(w);
    open_it(w, 1);
    peer_expect(&w->peer, WATCH_MULTI);
}

TEST(a_transaction_has_the_connection_for_itself) {
    conn_world w;
    begin(&w);
    w.also = go_on;
    world_ask(&w, 4, "GET k");
    peer_expect_silence(&w.peer);
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    peer_expect(&w.peer, SET_EXEC);
    peer_expect_silence(&w.peer);
    peer_send(&w.peer, DONE);
    peer_expect(&w.peer, GET_K GET_K);
    peer_send(&w.peer, "+a\r\n+b\r\n");
    world_await(&w, 5);
    seen_ok(&w, 1, 1, "OK OK");
    seen_ok(&w, 2, 2, "QUEUED [OK]");
    seen_ok(&w, 3, 4, "a");
    seen_ok(&w, 4, 3, "b");
    assert_true(tl__conn_idle(w.conn));
    world_close(&w);
}

TEST(one_that_somebody_else_has_disturbed_is_over_too) {
    conn_world w;
    begin(&w);
    w.also = go_on;
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    peer_expect(&w.peer, SET_EXEC);
    peer_send(&w.peer, "+QUEUED\r\n*-1\r\n");
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+a\r\n");
    world_await(&w, 4);
    seen_ok(&w, 2, 2, "QUEUED nil");
    world_close(&w);
}

TEST(what_is_not_closed_is_discarded_before_others) {
    conn_world w;
    begin(&w);
    world_ask(&w, 4, "GET k");
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    peer_expect(&w.peer, DISCARDED GET_K);
    assert_false(tl__conn_idle(w.conn));
    peer_send(&w.peer, "+OK\r\n+OK\r\n+a\r\n");
    world_await(&w, 3);
    seen_ok(&w, 2, 4, "a");
    assert_true(tl__conn_idle(w.conn));
    world_close(&w);
}

/* EXEC itself was refused: everything that follows would be queued. */
TEST(what_could_not_be_closed_is_discarded) {
    conn_world w;
    begin(&w);
    w.also = go_on;
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    peer_expect(&w.peer, SET_EXEC);
    peer_send(&w.peer, "+QUEUED\r\n-ERR unknown command 'EXEC'\r\n");
    peer_expect(&w.peer, DISCARDED GET_K);
    peer_send(&w.peer, "+OK\r\n+OK\r\n+a\r\n");
    world_await(&w, 4);
    world_close(&w);
}

TEST(one_whose_asker_has_gone_is_discarded) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 5, "GET k"); /* in time, so that the connection stays */
    world_pass_ms(&w, LIMIT_MS / 2);
    w.also = go_on;
    assert_int_equal(world_try(&w, 6, "GET k", 2 * LIMIT_MS), TL_OK);
    open_it(&w, 1);
    peer_expect(&w.peer, GET_K GET_K WATCH_MULTI);
    peer_send(&w.peer, "+a\r\n");
    world_await(&w, 2);
    world_pass_ms(&w, LIMIT_MS + 1);
    world_await(&w, 3);
    seen_failed(&w, 2, 1, true, TL_EUNAVAILABLE, "no reply");
    peer_send(&w.peer, "+b\r\n+OK\r\n+OK\r\n");
    peer_expect(&w.peer, DISCARDED);
    world_await(&w, 4);
    world_close(&w);
}

TEST(none_is_closed_on_another_connection) {
    conn_world w;
    begin(&w);
    w.also = go_on;
    world_ask(&w, 4, "GET k");
    /* The last answer and the end in one: the second exchange is queued, but can't be written. */
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    peer_drop(&w.peer);
    world_drive_until_down(&w, 1);
    world_login(&w);
    peer_expect(&w.peer, GET_K GET_K); /* the others wait for the next connection */
    peer_send(&w.peer, "+a\r\n+b\r\n");
    world_await(&w, 5);
    for (size_t i = 1; i < w.seen; i++)
        if (w.log[i].ticket == 2)
            assert_false(w.log[i].ok);
    assert_int_equal(close_it(&w, 7), TL_EUNAVAILABLE);
    world_close(&w);
}

/* Nor on one whose server says meanwhile that another is the one to ask. */
TEST(none_is_closed_where_the_server_is_left) {
    conn_world w;
    begin(&w);
    w.also = go_on;
    peer_send(&w.peer, "+OK\r\n-LOADING no\r\n");
    world_login(&w);
    peer_expect(&w.peer, GET_K);
    world_await(&w, 3);
    seen_failed(&w, 2, 2, false, TL_EUNAVAILABLE, "another server may be the master");
    world_close(&w);
}

static void only_close(void *world_of, const tl_answer *a) {
    if (a->ticket == 1 && a->ok)
        assert_int_equal(close_it(world_of, 2), TL_OK);
}

/* The peer reads nothing, and there is no room left on the way to it. What is on its way yet makes none: as soon as
 * the buffer is full it is a small one. */
static void fill(int fd) {
    static const char junk[65536];
    int least = 1; /* the system makes that a few kilobytes */
    while (send(fd, junk, sizeof junk, MSG_DONTWAIT | MSG_NOSIGNAL) > 0) {}
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    assert_true(send(fd, junk, 1, MSG_DONTWAIT | MSG_NOSIGNAL) < 0);
}

/* What could not even be written leaves a transaction open: the connection goes with it. */
TEST(one_that_is_never_written_ends_the_connection) {
    conn_world w;
    begin(&w);
    w.also = only_close;
    fill(tl__conn_fd(w.conn));
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    world_await(&w, 2);
    world_pass_ms(&w, LIMIT_MS - 1);
    world_drive(&w);
    assert_int_equal(w.seen, 2);
    world_pass_ms(&w, 1);
    world_drive(&w);
    seen_failed(&w, 2, 2, false, TL_EUNAVAILABLE, "not sent in");
    assert_int_equal(w.downs, 1);
    world_close(&w);
}

TEST(nobody_closes_what_nobody_has_opened) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    assert_int_equal(close_it(&w, 1), TL_EUNAVAILABLE);
    peer_expect_silence(&w.peer);
    world_close(&w);
}

/* A server that leaves the discarding unanswered is late as with any request. */
TEST(an_unanswered_end_closes_the_connection) {
    conn_world w;
    begin(&w);
    peer_send(&w.peer, "+OK\r\n+OK\r\n");
    peer_expect(&w.peer, DISCARDED);
    world_pass_ms(&w, CONNECT_MS - 1);
    world_drive(&w);
    assert_int_equal(w.downs, 0);
    world_pass_ms(&w, 1);
    world_drive(&w);
    assert_int_equal(w.downs, 1);
    world_close(&w);
}
