/*
 * Requests and replies of a connection: the bytes, the pairing, the limits, and the ways in which a
 * server or a network can spoil them.
 */
#include "conn_world.h"

#include "wire/script.h"

#define GET_K "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

/* ---- pairing ----------------------------------------------------------------------------------- */

TEST(requests_are_sent_and_answered_in_order) {
    conn_world w;
    char copy[2][64];
    world_open(&w);
    world_ask(&w, 1, "GET k"); /* waits for the connection */
    tl_send two = {.ticket = 2, .count = 2, .by = tl__mono_add_ms(world_now(&w), LIMIT_MS)};
    two.command[0] = command_of("SET k v", copy[0], sizeof copy[0]);
    two.command[1] = command_of("WAIT 1 0", copy[1], sizeof copy[1]);
    assert_int_equal(tl__conn_send(w.conn, &two, &w, world_now(&w)), TL_OK);
    world_login(&w);
    world_ask(&w, 3, "DEL k");
    peer_expect(&w.peer, GET_K "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n"
                               "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n0\r\n"
                               "*2\r\n$3\r\nDEL\r\n$1\r\nk\r\n");
    peer_send(&w.peer, "$-1\r\n+OK\r\n");
    world_await(&w, 1);
    peer_send(&w.peer, ":1\r\n:0\r\n");
    world_await(&w, 3);
    seen_ok(&w, 0, 1, "nil");
    seen_ok(&w, 1, 2, "OK :1");
    seen_ok(&w, 2, 3, ":0");
    assert_int_equal(w.log[1].count, 2);
    assert_true(tl__conn_idle(w.conn));
    world_close(&w);
    assert_int_equal(w.seen, 3);
}

TEST(every_kind_of_reply) {
    static const char *const kinds[][2] = {
        {"$5\r\nhello\r\n", "\"hello\""},
        {"$0\r\n\r\n", "\"\""},
        {"$2\r\n\r\n\r\n", "\"\r\n\""},
        {"$-1\r\n", "nil"},
        {"*-1\r\n", "nil"},
        {":-9223372036854775808\r\n", ":-9223372036854775808"},
        {":9223372036854775807\r\n", ":9223372036854775807"},
        {"+OK\r\n", "OK"},
        {"+\r\n", ""},
        {"-ERR no\r\n", "ERR no"},
        {"*0\r\n", "[]"},
        {"*3\r\n:1\r\n*2\r\n$1\r\na\r\n-x\r\n$-1\r\n", "[:1 [\"a\" x] nil]"},
        {"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", "[[[[[[[:7]]]]]]]"},
    };
    conn_world w;
    world_open(&w);
    world_serve(&w);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        world_ask(&w, (uint16_t)i, "GET k");
        peer_expect(&w.peer, GET_K);
        peer_send(&w.peer, kinds[i][0]);
        world_await(&w, i + 2);
        seen_ok(&w, i + 1, (uint16_t)i, kinds[i][1]);
    }
    world_close(&w);
}

TEST(a_reply_split_at_every_byte) {
    static const char reply[] =
        "*4\r\n$5\r\nhello\r\n:-12\r\n*2\r\n+OK\r\n$-1\r\n-ERR x y\r\n$0\r\n\r\n";
    conn_world w;
    world_open(&w);
    world_serve(&w);
    for (size_t at = 1; at < sizeof reply - 1; at++) {
        world_ask(&w, 7, "GET k");
        world_ask(&w, 8, "GET k");
        peer_expect(&w.peer, GET_K GET_K);
        peer_send_n(&w.peer, reply, at);
        for (int i = 0; i < 3; i++)
            world_drive(&w);
        peer_send(&w.peer, reply + at);
        world_await(&w, 3);
        seen_ok(&w, 1, 7, "[\"hello\" :-12 [OK nil] ERR x y]");
        seen_ok(&w, 2, 8, "\"\"");
        w.seen = 1;
    }
    world_close(&w);
}

TEST(sent_and_received_are_read_around_the_exchange) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    tl_mono a = tl__mono_now();
    world_ask(&w, 1, "GET k"); /* idle: written at once */
    tl_mono b = tl__mono_now();
    peer_expect(&w.peer, GET_K);
    tl_mono c = tl__mono_now();
    peer_send(&w.peer, "+OK\r\n");
    world_await(&w, 2);
    tl_mono d = tl__mono_now();
    assert_true(a.ns <= w.log[1].sent.ns && w.log[1].sent.ns <= b.ns);
    assert_true(c.ns <= w.log[1].received.ns && w.log[1].received.ns <= d.ns);
    world_close(&w);
}

TEST(many_requests_at_once) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    for (size_t round = 0; round < 20; round++) {
        char line[64];
        w.seen = 0;
        for (uint16_t i = 0; i < 200; i++) {
            (void)snprintf(line, sizeof line, "ECHO %d", 1000 + i);
            world_ask(&w, i, line);
        }
        for (uint16_t i = 0; i < 200; i++) {
            (void)snprintf(line, sizeof line, "*2\r\n$4\r\nECHO\r\n$4\r\n%d\r\n", 1000 + i);
            peer_expect(&w.peer, line);
            (void)snprintf(line, sizeof line, "$4\r\n%d\r\n", 1000 + i);
            peer_send(&w.peer, line);
        }
        world_await(&w, 200);
        for (uint16_t i = 0; i < 200; i++) {
            (void)snprintf(line, sizeof line, "\"%d\"", 1000 + i);
            seen_ok(&w, i, i, line);
        }
    }
    world_close(&w);
}

static void ask_again(void *ctx, const tl_answer *answer) {
    conn_world *w = ctx;
    if (answer->ticket < 40)
        w->also_code = world_try(w, (uint16_t)(answer->ticket + 1), "GET k", LIMIT_MS);
}

TEST(an_answer_may_send_the_next_request) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    w.also = ask_again;
    world_ask(&w, 20, "GET k");
    for (uint16_t i = 20; i <= 40; i++) {
        peer_expect(&w.peer, GET_K);
        peer_send(&w.peer, "+OK\r\n");
    }
    world_await(&w, 22);
    seen_ok(&w, 21, 40, "OK");
    /* Also when the answer is that the connection was lost. */
    w.seen = 0;
    world_ask(&w, 38, "GET k");
    peer_expect(&w.peer, GET_K);
    peer_reset(&w.peer);
    world_await(&w, 1);
    world_login(&w);
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+OK\r\n");
    peer_expect(&w.peer, GET_K);
    assert_int_equal(w.downs, 1);
    w.also = NULL;
    world_close(&w);
}

/* ---- limits ------------------------------------------------------------------------------------ */

TEST(a_late_reply_is_thrown_away) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    assert_int_equal(world_try(&w, 1, "GET k", 5000), TL_OK);
    assert_int_equal(world_try(&w, 2, "GET k", 100), TL_OK);
    assert_int_equal(world_try(&w, 3, "GET k", 5000), TL_OK);
    peer_expect(&w.peer, GET_K GET_K GET_K);
    world_pass_ms(&w, 100);
    assert_true(tl__conn_until(w.conn).ns <= world_now(&w).ns);
    world_drive(&w);
    assert_int_equal(w.seen, 2);
    seen_failed(&w, 1, 2, true, TL_EUNAVAILABLE, ": no reply in 100 ms");
    peer_send(&w.peer, "+one\r\n");
    world_await(&w, 3);
    peer_send(&w.peer, "+two\r\n+three\r\n");
    world_await(&w, 4);
    seen_ok(&w, 2, 1, "one");
    seen_ok(&w, 3, 3, "three");
    assert_true(tl__conn_idle(w.conn));
    assert_int_equal(w.downs, 0);
    world_close(&w);
}

TEST(an_overdue_oldest_request_closes_the_connection) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    assert_int_equal(world_try(&w, 1, "GET k", 100), TL_OK);
    assert_int_equal(world_try(&w, 2, "GET k", 5000), TL_OK);
    peer_expect(&w.peer, GET_K GET_K);
    world_pass_ms(&w, 100);
    world_drive(&w);
    assert_int_equal(w.seen, 3);
    seen_failed(&w, 1, 1, true, TL_EUNAVAILABLE, ": no reply in 100 ms");
    seen_failed(&w, 2, 2, true, TL_EUNAVAILABLE, ": no reply in 100 ms");
    assert_int_equal(w.downs, 1);
    peer_send(&w.peer, "+late\r\n+late\r\n");
    world_ask(&w, 3, "GET k");
    world_login(&w); /* at once: the connection had served */
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+mine\r\n");
    world_await(&w, 4);
    seen_ok(&w, 3, 3, "mine");
    world_close(&w);
}

/* A request that was given up and has become the oldest is due as long after that as it was at
 * first: the server is at work. */
TEST(a_given_up_request_gets_its_time_again) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    assert_int_equal(world_try(&w, 1, "GET k", 5000), TL_OK);
    assert_int_equal(world_try(&w, 2, "GET k", 100), TL_OK);
    assert_int_equal(world_try(&w, 3, "GET k", 5000), TL_OK);
    peer_expect(&w.peer, GET_K GET_K GET_K);
    world_pass_ms(&w, 200);
    world_drive(&w);
    peer_send(&w.peer, "+one\r\n");
    world_await(&w, 3);
    assert_true(tl__conn_up(w.conn));
    world_pass_ms(&w, 200);
    world_drive(&w);
    assert_int_equal(w.seen, 4);
    seen_failed(&w, 3, 3, true, TL_EUNAVAILABLE, ": no reply in 100 ms");
    assert_false(tl__conn_up(w.conn));
    world_close(&w);
}

/* ---- shared ------------------------------------------------------------------------------------ */

#define PATIENCE_MS 1000

static void open_shared(conn_world *w) {
    world_open_with(w, "", "",
                    (tl_conn_limits){.connect_ms = CONNECT_MS, .patience_ms = PATIENCE_MS});
    world_serve(w);
}

TEST(a_shared_connection_outlives_a_request_in_haste) {
    conn_world w;
    open_shared(&w);
    assert_int_equal(world_try(&w, 1, "GET k", 100), TL_OK);
    assert_int_equal(world_try(&w, 2, "GET k", 5000), TL_OK);
    peer_expect(&w.peer, GET_K GET_K);
    world_pass_ms(&w, 100);
    world_drive(&w);
    assert_int_equal(w.seen, 2);
    seen_failed(&w, 1, 1, true, TL_EUNAVAILABLE, ": no reply in 100 ms");
    assert_true(tl__conn_until(w.conn).ns >
                world_now(&w).ns); /* it isn't looked at at once again */
    world_pass_ms(&w, PATIENCE_MS - 101);
    world_drive(&w);
    assert_true(tl__conn_up(w.conn));
    peer_send(&w.peer, "+one\r\n+two\r\n");
    world_await(&w, 3);
    seen_ok(&w, 2, 2, "two");
    assert_int_equal(world_try(&w, 3, "GET k", 100), TL_OK);
    peer_expect(&w.peer, GET_K);
    world_pass_ms(&w, PATIENCE_MS);
    world_drive(&w);
    assert_int_equal(w.downs, 1);
    seen_failed(&w, 3, 3, true, TL_EUNAVAILABLE, "");
    world_close(&w);
}

TEST(what_is_left_at_a_shared_connection_is_written_together_by_the_next_drive) {
    conn_world w;
    open_shared(&w);
    world_ask(&w, 1, "GET k");
    world_ask(&w, 2, "GET k");
    assert_true((tl__conn_events(w.conn) & POLLOUT) != 0); /* nothing has been yet */
    peer_expect(&w.peer, GET_K GET_K);
    peer_send(&w.peer, "+one\r\n+two\r\n");
    world_await(&w, 3);
    world_close(&w);
}

TEST(of_a_request_that_nobody_wants_nothing_is_written_or_told) {
    conn_world w;
    open_shared(&w);
    world_ask(&w, 1, "GET k");
    peer_expect(&w.peer, GET_K);
    world_ask(&w, 2, "GET other");
    tl__conn_forget(w.conn, &w);
    world_ask(&w, 3, "GET k");
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+one\r\n+three\r\n");
    world_await(&w, 2);
    seen_ok(&w, 1, 3, "three");
    assert_true(tl__conn_idle(w.conn));
    world_close(&w);
}

TEST(a_reply_that_is_there_at_the_limit_counts) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 1, "GET k");
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+OK\r\n");
    world_arrived(&w);
    world_pass_ms(&w, LIMIT_MS);
    world_drive(&w);
    world_await(&w, 2);
    seen_ok(&w, 1, 1, "OK");
    world_close(&w);
}

/* ---- what may have been sent ------------------------------------------------------------------- */

static tl_err ask_large(conn_world *w, uint16_t ticket, size_t n) {
    char *value = malloc(n);
    assert_non_null(value);
    memset(value, 'v', n);
    tl_send send = {.ticket = ticket, .count = 1, .by = tl__mono_add_ms(world_now(w), LIMIT_MS)};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 2};
    send.command[0].argv[0] = TL_LITERAL("ECHO");
    send.command[0].argv[1] = tl__bytes(value, n);
    tl_err code = tl__conn_send(w->conn, &send, w, world_now(w));
    free(value);
    return code;
}

/* A server that doesn't read: the first request fills every buffer, the second never begins. */
static void block_the_stream(conn_world *w, size_t n) {
    world_serve(w);
    assert_int_equal(ask_large(w, 1, n), TL_OK);
    world_ask(w, 2, "GET k");
    world_drive(w);
    assert_int_equal(tl__conn_events(w->conn), POLLIN | POLLOUT);
}

TEST(what_was_not_sent_at_its_limit_is_never_sent) {
    conn_world w;
    size_t n = 16 << 20;
    world_open(&w);
    world_serve(&w);
    tl_send send = {.ticket = 1, .count = 1, .by = TL_NEVER};
    char *value = malloc(n);
    memset(value, 'v', n);
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {{value, n}}};
    assert_int_equal(tl__conn_send(w.conn, &send, &w, world_now(&w)), TL_OK);
    assert_int_equal(world_try(&w, 2, "DEL k", 100), TL_OK);
    world_ask(&w, 3, "GET k");
    world_pass_ms(&w, 100);
    world_drive(&w);
    assert_int_equal(w.seen, 2);
    seen_failed(&w, 1, 2, false, TL_EUNAVAILABLE, ": not sent in 100 ms");
    peer_expect(&w.peer, "*1\r\n$16777216\r\n");
    peer_expect_n(&w.peer, value, n);
    peer_expect(&w.peer, "\r\n" GET_K);
    peer_send(&w.peer, "+one\r\n+three\r\n");
    world_await(&w, 4);
    seen_ok(&w, 2, 1, "one");
    seen_ok(&w, 3, 3, "three");
    free(value);
    world_close(&w);
}

/* Two commands, of which the second fills every buffer: value of it, of n bytes. */
static void ask_half(conn_world *w, char *value, size_t n) {
    tl_send send = {.ticket = 1, .count = 2, .by = TL_NEVER};
    memset(value, 'v', n);
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 2, .argv = {TL_LITERAL("GET")}};
    send.command[0].argv[1] = TL_LITERAL("k");
    send.command[1] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {{value, n}}};
    assert_int_equal(tl__conn_send(w->conn, &send, w, world_now(w)), TL_OK);
    assert_int_equal(tl__conn_events(w->conn), POLLIN | POLLOUT);
    peer_expect(&w->peer, GET_K);
}

TEST(the_first_reply_may_come_before_all_is_written) {
    conn_world w;
    size_t n = 16 << 20;
    char *value = malloc(n);
    world_open(&w);
    world_serve(&w);
    ask_half(&w, value, n);
    peer_send(&w.peer, "+one\r\n");
    world_arrived(&w);
    world_drive(&w);
    assert_int_equal(w.downs, 0);
    peer_expect(&w.peer, "*1\r\n$16777216\r\n");
    peer_expect_n(&w.peer, value, n);
    peer_expect(&w.peer, "\r\n");
    peer_send(&w.peer, "+two\r\n");
    world_await(&w, 2);
    seen_ok(&w, 1, 1, "one two");
    free(value);
    world_close(&w);
}

TEST(a_reply_to_what_is_not_wholly_written_is_none) {
    conn_world w;
    size_t n = 16 << 20;
    char *value = malloc(n);
    world_open(&w);
    world_serve(&w);
    ask_half(&w, value, n);
    peer_send(&w.peer, "+one\r\n+two\r\n");
    world_await(&w, 2);
    seen_failed(&w, 1, 1, true, TL_ESERVER, "a reply without a request");
    assert_int_equal(w.downs, 1);
    free(value);
    world_close(&w);
}

TEST(what_was_not_sent_waits_for_the_next_connection) {
    conn_world w;
    world_open(&w);
    block_the_stream(&w, 16 << 20);
    peer_reset(&w.peer);
    world_await(&w, 2);
    seen_failed(&w, 1, 1, true, TL_EUNAVAILABLE, "");
    world_login(&w);
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+OK\r\n");
    world_await(&w, 3);
    seen_ok(&w, 2, 2, "OK");
    world_close(&w);
}

TEST(a_connection_lost_while_idle_costs_nothing) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    peer_drop(&w.peer);
    world_arrived(&w);
    world_pass_ms(&w, 1500);
    world_ask(&w, 1, "GET k"); /* it looks before it writes */
    world_login(&w);
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+OK\r\n");
    world_await(&w, 2);
    seen_ok(&w, 1, 1, "OK");
    assert_int_equal(w.downs, 1);
    /* And when the owner drives it meanwhile. */
    peer_drop(&w.peer);
    world_drive_until_down(&w, 2);
    assert_int_equal(tl__conn_fd(w.conn), -1);
    assert_non_null(strstr(w.down, ": connection closed by the server"));
    assert_int_equal(w.seen, 2);
    world_close(&w);
}

/* ---- breaking ---------------------------------------------------------------------------------- */

static void check_break(size_t at, bool reset) {
    static const char replies[] = "*2\r\n$2\r\nab\r\n:1\r\n+OK\r\n$3\r\nxyz\r\n";
    static const size_t ends[] = {16, 21, 30};
    conn_world w;
    world_open(&w);
    world_serve(&w);
    for (uint16_t i = 1; i <= 3; i++)
        world_ask(&w, i, "GET k");
    peer_expect(&w.peer, GET_K GET_K GET_K);
    peer_send_n(&w.peer, replies, at);
    if (reset) {
        for (int i = 0; i < 3; i++)
            world_drive(&w);
        peer_reset(&w.peer);
    } else {
        peer_drop(&w.peer);
    }
    world_await(&w, 4);
    for (uint16_t i = 1; i <= 3; i++) {
        if (w.log[i].ok)
            assert_true(at >= ends[i - 1]);
        else
            seen_failed(&w, i, i, true, TL_EUNAVAILABLE, "127.0.0.1:");
        assert_int_equal(w.log[i].ticket, i);
        assert_true(reset || w.log[i].ok == (at >= ends[i - 1]));
    }
    world_close(&w);
    assert_int_equal(w.seen, 4);
}

TEST(broken_at_every_byte_of_the_replies) {
    for (size_t at = 0; at <= 30; at++) {
        check_break(at, false);
        check_break(at, true);
    }
}

TEST(writing_to_a_lost_peer_raises_no_signal) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    peer_reset(&w.peer);
    for (uint16_t i = 0; i < 4; i++) /* SIGPIPE would end this test */
        world_ask(&w, i, "GET k");
    tl_mono began = tl__mono_now();
    while (w.downs == 0)
        peer_turn(&w.peer, began);
    world_close(&w);
    assert_int_equal(w.seen, 5);
}

static void check_nonsense(const char *bytes, size_t n, const char *words) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 1, "GET k");
    world_ask(&w, 2, "GET k");
    peer_expect(&w.peer, GET_K GET_K);
    peer_send_n(&w.peer, bytes, n);
    world_await(&w, 3);
    seen_failed(&w, 1, 1, true, TL_ESERVER, words);
    seen_failed(&w, 2, 2, true, TL_ESERVER, words);
    assert_int_equal(w.downs, 1);
    assert_int_equal(tl__conn_fd(w.conn), -1);
    for (const char *c = w.log[1].text; *c; c++)
        assert_true(*c >= ' ' && *c <= '~');
    peer_drop(&w.peer);
    world_serve(&w); /* and the next connection is a fresh one */
    world_close(&w);
}

TEST(garbage_closes_the_connection) {
    static const char *const garbage[] = {
        "HTTP/1.1 200 OK\r\n\r\n",
        "\r\n",
        "x",
        "\x16\x03\x01",
        "$x\r\n",
        "$-2\r\n",
        ":1x\r\n",
        ":\r\n",
        ":99999999999999999999\r\n",
        "*x\r\n",
        "*-2\r\n",
        "*99999999999\r\n",
        "*2\r\n$1\r\na\r\n!\r\n",
        "*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n:7\r\n", /* 8 deep */
        ",1.5\r\n",
        "#t\r\n",
        "%1\r\n+a\r\n+b\r\n",
        "~1\r\n+a\r\n",
        ">1\r\n+a\r\n",
        "(123\r\n",
        "=5\r\ntxt:a\r\n",
        "*1\r\n,1.5\r\n",
        "*1\r\n#f\r\n",
        "|1\r\n+a\r\n+b\r\n:1\r\n",
    };
    for (size_t i = 0; i < sizeof garbage / sizeof *garbage; i++)
        check_nonsense(garbage[i], strlen(garbage[i]), "no reply of a Redis server");
    check_nonsense("*2147483647\r\n", 13, "more than 64 MiB");
    check_nonsense("*4000000\r\n", 10, "more than 64 MiB");
}

TEST(an_endless_line_is_cut_off) {
    size_t n = 200000;
    char *line = malloc(n);
    memset(line, 'x', n);
    line[0] = '+';
    check_nonsense(line, n, "a line of more than 64 KiB");
    memset(line, '1', n);
    line[0] = '$';
    check_nonsense(line, n, "a line of more than 64 KiB");
    free(line);
}

TEST(a_reply_to_nothing_closes_the_connection) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    peer_send(&w.peer, "+hello\r\n");
    world_drive_until_down(&w, 1);
    assert_non_null(strstr(w.down, "a reply without a request"));
    world_close(&w);
    /* Nor does a reply count that came before its request was sent. */
    world_open(&w);
    world_serve(&w);
    world_pass_ms(&w, 1500);
    peer_send(&w.peer, "+early\r\n");
    world_arrived(&w);
    world_ask(&w, 1, "GET k");
    world_await(&w, 2);
    seen_failed(&w, 1, 1, false, TL_ESERVER, "a reply without a request");
    world_close(&w);
}

TEST(a_large_reply_comes_whole_and_a_huge_one_does_not) {
    conn_world w;
    char head[64];
    size_t n = 8 << 20, chunk = 1 << 20;
    char *bytes = malloc(chunk);
    memset(bytes, 'x', chunk);
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 1, "GET k");
    (void)snprintf(head, sizeof head, "*2\r\n$%zu\r\n", n);
    peer_send(&w.peer, head);
    for (size_t i = 0; i < n / chunk; i++)
        peer_send_n(&w.peer, bytes, chunk);
    peer_send(&w.peer, "\r\n:5\r\n");
    world_await(&w, 2);
    assert_true(w.log[1].ok);
    assert_int_equal(tl__conn_until(w.conn).ns, TL_NEVER.ns);
    world_ask(&w, 2, "GET k");
    peer_send(&w.peer, "$100000000\r\n");
    for (size_t i = 0; i < 100 && w.seen < 3; i++)
        peer_send_n(&w.peer, bytes, chunk);
    world_await(&w, 3);
    seen_failed(&w, 2, 2, true, TL_ESERVER, "more than 64 MiB");
    free(bytes);
    world_close(&w);
}

/* ---- scripts ----------------------------------------------------------------------------------- */

static tl_send script_send(uint16_t ticket, tl_mono by) {
    tl_send send = {.ticket = ticket, .count = 1, .by = by};
    send.command[0] = (tl_command){
        .form = TL_SCRIPT, .script = TL_SCRIPT_RELEASE, .nkeys = 2, .argc = 3};
    send.command[0].argv[0] = TL_LITERAL("k");
    send.command[0].argv[1] = TL_LITERAL("");
    send.command[0].argv[2] = TL_LITERAL("a\r\nb");
    return send;
}

#define SCRIPT_TAIL "$1\r\n2\r\n$1\r\nk\r\n$0\r\n\r\n$4\r\na\r\nb\r\n"

static void by_hash(char *to, size_t size) {
    (void)snprintf(to, size, "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n" SCRIPT_TAIL,
                   tl__script_sha1(TL_SCRIPT_RELEASE).p);
}

static void by_text(char *to, size_t size) {
    tl_bytes text = tl__script_text(TL_SCRIPT_RELEASE);
    (void)snprintf(to, size, "*6\r\n$4\r\nEVAL\r\n$%zu\r\n%.*s\r\n" SCRIPT_TAIL, text.n,
                   (int)text.n, text.p);
}

#define NOSCRIPT "-NOSCRIPT No matching script. Please use EVAL.\r\n"

TEST(an_unknown_script_is_sent_by_text) {
    conn_world w;
    char hash[512], text[16384];
    by_hash(hash, sizeof hash);
    by_text(text, sizeof text);
    world_open(&w);
    world_serve(&w);
    for (size_t i = 0; i < 3; i++) { /* also with slots that are used again */
        w.seen = 0;
        tl_send send = script_send(1, tl__mono_add_ms(world_now(&w), LIMIT_MS));
        assert_int_equal(tl__conn_send(w.conn, &send, &w, world_now(&w)), TL_OK);
        world_ask(&w, 2, "GET k");
        peer_expect(&w.peer, hash);
        peer_expect(&w.peer, GET_K);
        tl_mono between = tl__mono_now();
        peer_send(&w.peer, NOSCRIPT);
        peer_expect(&w.peer, text);
        assert_int_equal(w.seen, 0);
        peer_send(&w.peer, "+two\r\n:1\r\n");
        world_await(&w, 2);
        seen_ok(&w, 0, 2, "two");
        seen_ok(&w, 1, 1, ":1");
        assert_true(w.log[1].sent.ns >= between.ns); /* the sending that was executed */
    }
    /* One that is unknown even so has its answer. */
    tl_send send = script_send(3, tl__mono_add_ms(world_now(&w), LIMIT_MS));
    assert_int_equal(tl__conn_send(w.conn, &send, &w, world_now(&w)), TL_OK);
    peer_expect(&w.peer, hash);
    peer_send(&w.peer, NOSCRIPT);
    peer_expect(&w.peer, text);
    peer_send(&w.peer, NOSCRIPT);
    world_await(&w, 3);
    seen_ok(&w, 2, 3, "NOSCRIPT No matching script. Please use EVAL.");
    world_close(&w);
}

static void ask_script(conn_world *w, uint16_t ticket) {
    tl_send send = script_send(ticket, tl__mono_add_ms(world_now(w), LIMIT_MS));
    assert_int_equal(tl__conn_send(w->conn, &send, w, world_now(w)), TL_OK);
}

/* A release that overtakes what it is to undo leaves it behind. */
TEST(in_order_a_script_goes_by_text_once_on_each_connection) {
    conn_world w;
    char hash[512], text[16384];
    by_hash(hash, sizeof hash);
    by_text(text, sizeof text);
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .in_order = true});
    for (size_t i = 0; i < 2; i++) {
        w.seen = 0;
        ask_script(&w, 1); /* while there is no connection */
        ask_script(&w, 2);
        world_login(&w);
        peer_expect(&w.peer, text);
        peer_expect(&w.peer, hash);
        ask_script(&w, 3);
        peer_expect(&w.peer, hash);
        peer_send(&w.peer, ":1\r\n:2\r\n:3\r\n");
        world_await(&w, 3);
        peer_drop(&w.peer);
        world_drive_until_down(&w, i + 1);
    }
    world_close(&w);
}

TEST(in_order_nothing_is_sent_again_behind_what_followed_it) {
    conn_world w;
    char hash[512], text[16384];
    by_hash(hash, sizeof hash);
    by_text(text, sizeof text);
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .in_order = true});
    world_serve(&w);
    ask_script(&w, 1);
    peer_expect(&w.peer, text);
    peer_send(&w.peer, ":1\r\n");
    world_await(&w, 2);
    ask_script(&w, 2); /* the server has forgotten its scripts */
    peer_expect(&w.peer, hash);
    peer_send(&w.peer, NOSCRIPT);
    peer_expect(&w.peer, text);
    peer_send(&w.peer, ":2\r\n");
    world_await(&w, 3);
    seen_ok(&w, 2, 2, ":2");
    ask_script(&w, 3); /* and again, with something of the same key behind it */
    ask_script(&w, 4);
    peer_expect(&w.peer, hash);
    peer_expect(&w.peer, hash);
    peer_send(&w.peer, NOSCRIPT NOSCRIPT);
    peer_expect(&w.peer, text);
    peer_send(&w.peer, ":4\r\n");
    world_await(&w, 5);
    seen_failed(&w, 3, 3, false, TL_EUNAVAILABLE, "its scripts were removed");
    seen_ok(&w, 4, 4, ":4");
    ask_script(&w, 5); /* what has none of its keys is not in its way */
    world_ask(&w, 6, "GET k");
    peer_expect(&w.peer, hash);
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, NOSCRIPT "+six\r\n");
    peer_expect(&w.peer, text);
    peer_send(&w.peer, ":5\r\n");
    world_await(&w, 7);
    seen_ok(&w, 5, 6, "six");
    seen_ok(&w, 6, 5, ":5");
    world_close(&w);
}

/* Where a redirection of a cluster has led: each command is preceded, and its answer is its own. */
TEST(asking_goes_before_each_command_also_by_text) {
    static const char asking[] = "*1\r\n$6\r\nASKING\r\n";
    conn_world w;
    char hash[512], text[16384];
    by_hash(hash, sizeof hash);
    by_text(text, sizeof text);
    world_open(&w);
    world_serve(&w);
    tl_send send = script_send(1, tl__mono_add_ms(world_now(&w), LIMIT_MS));
    send.asking = true;
    assert_int_equal(tl__conn_send(w.conn, &send, &w, world_now(&w)), TL_OK);
    world_ask(&w, 2, "GET k");
    peer_expect(&w.peer, asking);
    peer_expect(&w.peer, hash);
    peer_expect(&w.peer, GET_K);
    peer_send(&w.peer, "+OK\r\n" NOSCRIPT "+two\r\n");
    peer_expect(&w.peer, asking);
    peer_expect(&w.peer, text);
    peer_send(&w.peer, "+OK\r\n:1\r\n");
    world_await(&w, 3);
    seen_ok(&w, 1, 2, "two");
    seen_ok(&w, 2, 1, ":1");
    world_close(&w);
}

TEST(noscript_to_what_has_no_script_is_an_answer) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    world_ask(&w, 1, "EVALSHA 00 0");
    peer_send(&w.peer, NOSCRIPT);
    world_await(&w, 2);
    seen_ok(&w, 1, 1, "NOSCRIPT No matching script. Please use EVAL.");
    world_close(&w);
}

/* What a request lost on its way by text may have done depends on what was executed of it before. */
static void check_lost_by_text(const char *first, uint8_t count, bool maybe_sent) {
    conn_world w;
    char hash[512], copy[64];
    by_hash(hash, sizeof hash);
    world_open(&w);
    world_serve(&w);
    assert_int_equal(ask_large(&w, 0, 1), TL_OK); /* something before it, to hold it back */
    tl_send send = script_send(1, tl__mono_add_ms(world_now(&w), 100));
    send.count = count;
    send.command[1] = command_of("WAIT 1 0", copy, sizeof copy);
    assert_int_equal(tl__conn_send(w.conn, &send, &w, world_now(&w)), TL_OK);
    peer_expect(&w.peer, "*2\r\n$4\r\nECHO\r\n$1\r\nv\r\n");
    peer_expect(&w.peer, hash);
    if (count == 2)
        peer_expect(&w.peer, "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$1\r\n0\r\n");
    peer_send(&w.peer, "+one\r\n");
    world_await(&w, 2);
    assert_int_equal(ask_large(&w, 2, 16 << 20), TL_OK); /* fills the buffers */
    world_drive(&w);
    assert_int_equal(tl__conn_events(w.conn), POLLIN | POLLOUT);
    peer_send(&w.peer, first);
    world_arrived(&w);
    for (int i = 0; i < 5; i++)
        world_drive(&w);
    assert_int_equal(w.seen, 2);
    world_pass_ms(&w, 100);
    world_drive(&w);
    assert_int_equal(w.seen, 3);
    seen_failed(&w, 2, 1, maybe_sent, TL_EUNAVAILABLE, "");
    world_close(&w);
}

TEST(what_an_unknown_script_may_have_done) {
    check_lost_by_text(NOSCRIPT, 1, false);
    check_lost_by_text(NOSCRIPT ":0\r\n", 2, true);
}

TEST(large_scripts_arguments_survive) {
    conn_world w;
    size_t n = 300000;
    char *key = malloc(n), head[512];
    memset(key, 'K', n);
    world_open(&w);
    world_serve(&w);
    tl_send send = script_send(1, tl__mono_add_ms(world_now(&w), LIMIT_MS));
    send.command[0].argv[0] = tl__bytes(key, n);
    assert_int_equal(tl__conn_send(w.conn, &send, &w, world_now(&w)), TL_OK);
    memset(key, 'x', n);
    tl_bytes text = tl__script_text(TL_SCRIPT_RELEASE);
    (void)snprintf(head, sizeof head,
                   "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n$1\r\n2\r\n$300000\r\n",
                   tl__script_sha1(TL_SCRIPT_RELEASE).p);
    memset(key, 'K', n);
    for (int i = 0; i < 2; i++) {
        peer_expect(&w.peer, head);
        peer_expect_n(&w.peer, key, n);
        peer_expect(&w.peer, "\r\n$0\r\n\r\n$4\r\na\r\nb\r\n");
        peer_send(&w.peer, i == 0 ? NOSCRIPT : ":1\r\n");
        if (i == 0) {
            (void)snprintf(head, sizeof head, "*6\r\n$4\r\nEVAL\r\n$%zu\r\n", text.n);
            peer_expect(&w.peer, head);
            peer_expect_n(&w.peer, text.p, text.n);
            (void)snprintf(head, sizeof head, "\r\n$1\r\n2\r\n$300000\r\n");
        }
    }
    world_await(&w, 2);
    seen_ok(&w, 1, 1, ":1");
    free(key);
    world_close(&w);
}

/* ---- life -------------------------------------------------------------------------------------- */

static void ask_when_freed(void *ctx, const tl_answer *answer) {
    conn_world *w = ctx;
    (void)answer;
    w->also_code = world_try(w, 99, "GET k", LIMIT_MS);
}

TEST(free_answers_what_is_outstanding) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    for (uint16_t i = 1; i <= 3; i++)
        world_ask(&w, i, "GET k");
    peer_expect(&w.peer, GET_K GET_K GET_K);
    w.also = ask_when_freed;
    errno = EXDEV;
    world_close(&w);
    assert_int_equal(errno, EXDEV);
    assert_int_equal(w.seen, 4);
    for (uint16_t i = 1; i <= 3; i++)
        seen_failed(&w, i, i, true, TL_EUNAVAILABLE, "the connection is closed");
    assert_int_equal(w.also_code, TL_EUNAVAILABLE);
    assert_int_equal(w.downs, 0);
    tl__conn_free(NULL);
}

TEST(free_before_connected) {
    conn_world w;
    world_open(&w);
    world_ask(&w, 1, "GET k");
    world_close(&w);
    assert_int_equal(w.seen, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, "the connection is closed");
    world_open(&w);
    world_ask(&w, 1, "GET k");
    world_drive(&w);
    world_close(&w);
    assert_int_equal(w.seen, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, "the connection is closed");
}

TEST(close_says_the_reason) {
    conn_world w;
    world_open(&w);
    tl__conn_close(w.conn, "a whim", world_now(&w)); /* down already */
    assert_int_equal(w.downs, 0);
    world_serve(&w);
    world_ask(&w, 1, "GET k");
    tl__conn_close(w.conn, "a whim", world_now(&w));
    assert_int_equal(w.seen, 2);
    seen_failed(&w, 1, 1, true, TL_EUNAVAILABLE, ": a whim");
    assert_int_equal(w.downs, 1);
    peer_expect(&w.peer, GET_K);
    peer_expect_end(&w.peer);
    world_ask(&w, 2, "GET k");
    world_drive(&w);
    assert_int_equal(tl__conn_fd(w.conn), -1); /* a back-off */
    world_pass_ms(&w, 20);
    world_login(&w);
    peer_expect(&w.peer, GET_K);
    world_close(&w);
}

static void count_answers(void *ctx, const tl_answer *answer) {
    size_t *n = ctx;
    assert_false(answer->ok || answer->maybe_sent);
    ++*n;
}

static size_t fill(conn_world *w, tl_conn *c, tl_send *send, size_t n) {
    tl_err code;
    while ((code = tl__conn_send(c, send, NULL, world_now(w))) == TL_OK && n < 100000)
        n++;
    assert_int_equal(code, TL_EUNAVAILABLE); /* not for ever, as without memory */
    return n;
}

TEST(the_queue_is_bounded_and_has_more_room_for_renewals) {
    conn_world w;
    size_t n = 0, answers = 0;
    world_open(&w);
    tl_conn_calls calls = {.answer = count_answers, .ctx = &answers};
    tl_conn *c = tl__conn_new(&w.endpoint, &(tl_conn_limits){.connect_ms = 1}, &calls);
    tl_send send = {.ticket = 1, .count = 1, .by = TL_NEVER};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("PING")}};
    n = fill(&w, c, &send, n);
    assert_int_equal(n, 16384);
    assert_int_equal(tl__conn_say(c, &send.command[0], world_now(&w)), TL_ENOMEM);
    send.keeps = true;
    n = fill(&w, c, &send, n);
    assert_int_equal(n, 65536);
    tl__conn_free(c);
    assert_int_equal(answers, n);
    world_close(&w);
}

/* ---- reaching --------------------------------------------------------------------------------- */

static void reach(conn_world *w, uint16_t ticket, int64_t limit_ms) {
    tl_send send = {.ticket = ticket, .by = tl__mono_add_ms(world_now(w), limit_ms)};
    assert_int_equal(tl__conn_send(w->conn, &send, w, world_now(w)), TL_OK);
}

TEST(reaching_sends_nothing_and_is_answered_in_its_turn) {
    conn_world w;
    world_open(&w);
    reach(&w, 1, LIMIT_MS);
    reach(&w, 2, LIMIT_MS);
    world_login(&w);
    world_await(&w, 2);
    peer_expect_silence(&w.peer);
    world_ask(&w, 3, "GET k");
    reach(&w, 4, LIMIT_MS);
    world_ask(&w, 5, "GET k");
    reach(&w, 6, LIMIT_MS);
    peer_expect(&w.peer, GET_K GET_K);
    assert_int_equal(w.seen, 2);
    peer_send(&w.peer, "+three\r\n+five\r\n");
    world_await(&w, 6);
    for (uint16_t i = 0; i < 6; i++)
        seen_ok(&w, i, (uint16_t)(i + 1), i == 2 ? "three" : i == 4 ? "five" : "");
    reach(&w, 7, LIMIT_MS);
    world_await(&w, 7);
    assert_true(tl__conn_idle(w.conn));
    world_close(&w);
}

TEST(reaching_looks_before_it_says_so) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    peer_drop(&w.peer);
    world_arrived(&w);
    world_pass_ms(&w, 1500);
    reach(&w, 1, LIMIT_MS);
    peer_accept(&w.peer);
    peer_expect(&w.peer, TIME_ASKED);
    assert_int_equal(w.seen, 1);
    peer_send(&w.peer, TIME_TOLD);
    world_await(&w, 2);
    seen_ok(&w, 1, 1, "");
    assert_int_equal(w.ups, 2);
    world_close(&w);
}

TEST(not_reaching_ends_by_its_limit) {
    conn_world w;
    world_open(&w);
    reach(&w, 1, 100);
    world_drive(&w);
    world_pass_ms(&w, 100);
    world_await(&w, 1);
    seen_failed(&w, 0, 1, false, TL_EUNAVAILABLE, "");
    peer_close(&w.peer);
    world_pass_ms(&w, CONNECT_MS);
    world_drive_until_down(&w, 1);
    reach(&w, 2, LIMIT_MS);
    world_pass_ms(&w, 100);
    world_await(&w, 2);
    seen_failed(&w, 1, 2, false, TL_EUNAVAILABLE, "connection refused");
    world_close(&w);
}

/* ---- subscriber mode --------------------------------------------------------------------------- */

static void say(conn_world *w, const char *line) {
    char copy[256];
    tl_command c = command_of(line, copy, sizeof copy);
    assert_int_equal(tl__conn_say(w->conn, &c, world_now(w)), TL_OK);
}

TEST(a_subscriber_says_and_is_told) {
    conn_world w;
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .subscriber = true});
    say(&w, "SUBSCRIBE a");
    say(&w, "SUBSCRIBE b");
    world_login(&w);
    peer_expect(&w.peer,
                "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\na\r\n*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nb\r\n");
    assert_int_equal(w.pushes, 0); /* the login is not one */
    assert_true(tl__conn_idle(w.conn));
    peer_send(&w.peer, "*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$2\r\nhi\r\n");
    tl_mono began = tl__mono_now();
    while (w.pushes < 1)
        peer_turn(&w.peer, began);
    assert_string_equal(w.push, "[\"message\" \"a\" \"hi\"]");
    peer_reset(&w.peer);
    world_drive_until_down(&w, 1);
    assert_int_equal(w.seen, 0);
    world_drive(&w); /* what was said is forgotten, and nobody connects */
    assert_int_equal(tl__conn_fd(w.conn), -1);
    say(&w, "SUBSCRIBE c");
    world_login(&w);
    peer_expect(&w.peer, "*2\r\n$9\r\nSUBSCRIBE\r\n$1\r\nc\r\n");
    world_close(&w);
}

/* However the line comes, and whatever the limit cuts into. */
TEST(a_subscriber_may_want_the_beginning_of_lines_only) {
    static char line[300000];
    for (int more = -2; more <= 3; more++) {
        conn_world w;
        world_open_with(
            &w, "", "",
            (tl_conn_limits){.connect_ms = CONNECT_MS, .subscriber = true, .line_most = 20});
        say(&w, "MONITOR");
        world_login(&w);
        peer_expect(&w.peer, "*1\r\n$7\r\nMONITOR\r\n");
        size_t n = more == 3 ? sizeof line - 1 : (size_t)(20 + more);
        memset(line, 'x', n);
        line[0] = '+';
        peer_send_n(&w.peer, line, n);
        peer_send(&w.peer, "\r\n");
        peer_send(&w.peer, "+next\r\n");
        tl_mono began = tl__mono_now();
        while (w.pushes < 2)
            peer_turn(&w.peer, began);
        assert_int_equal(strlen(w.push), (n < 20 ? n : 20) - 1 + 4);
        assert_string_equal(w.push + strlen(w.push) - 5, "xnext");
        assert_int_equal(w.downs, 0);
        assert_true(tl__conn_bytes(w.conn) >= n + 9);
        world_close(&w);
    }
}

TEST(a_subscriber_hears_of_a_failed_connect) {
    conn_world w;
    world_open_with(&w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .subscriber = true});
    peer_close(&w.peer);
    say(&w, "SUBSCRIBE a");
    world_drive_until_down(&w, 1);
    assert_non_null(strstr(w.down, "connection refused"));
    assert_int_equal(tl__conn_until(w.conn).ns, TL_NEVER.ns);
    world_close(&w);
}
