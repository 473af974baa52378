/*
 * Which of its two forms a request takes on a connection: the native one counts on a counter that was raised lately
 * over this very connection, and is sent over no other. And what tells one connection, and one server, from another.
 */
#include "conn_world.h"

#define SCRIPT "*2\r\n$4\r\nECHO\r\n$6\r\nscript\r\n"
#define NATIVE "*2\r\n$4\r\nINCR\r\n$1\r\nf\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"
static const tl_slot_tag SLOT = {"6MN"};

/* One command, or two natively. */
static tl_err try_either(conn_world *w, uint16_t ticket, tl_slot_tag slot) {
    char copies[3][64];
    tl_send send = {.ticket = ticket,
                    .count = 1,
                    .native = 2,
                    .slot = slot,
                    .by = tl__mono_add_ms(world_now(w), LIMIT_MS)};
    send.command[0] = command_of("ECHO script", copies[0], sizeof copies[0]);
    send.command[1] = command_of("INCR f", copies[1], sizeof copies[1]);
    send.command[2] = command_of("GET k", copies[2], sizeof copies[2]);
    tl_err code = tl__conn_send(w->conn, &send, w, world_now(w));
    memset(copies, 'x', sizeof copies);
    return code;
}

static void goes_by_script(conn_world *w, tl_slot_tag slot) {
    size_t seen = w->seen;
    assert_int_equal(try_either(w, 7, slot), TL_OK);
    peer_expect(&w->peer, SCRIPT);
    peer_send(&w->peer, "+OK\r\n");
    world_await(w, seen + 1);
    seen_ok(w, seen, 7, "OK");
    assert_false(w->log[seen].native || w->log[seen].stale);
}

static void goes_native(conn_world *w, tl_slot_tag slot) {
    size_t seen = w->seen;
    assert_int_equal(try_either(w, 8, slot), TL_OK);
    peer_expect(&w->peer, NATIVE);
    peer_send(&w->peer, ":5\r\n$1\r\nv\r\n");
    world_await(w, seen + 1);
    seen_ok(w, seen, 8, ":5 \"v\"");
    assert_true(w->log[seen].native);
}

/* A script that was sent now has raised the counter. */
static void raise_counter(conn_world *w, tl_slot_tag slot) {
    tl__conn_raised(w->conn, slot, world_now(w));
}

/* Where EXEC alone is forbidden a server below 7.0 refuses it, and goes on to queue all that follows. */
TEST(a_connection_whose_transaction_stays_open_is_left) {
    static const struct {
        const char *replies;
        bool left;
    } rows[] = {{"+OK\r\n-NOPERM this user has no permissions to run the 'exec' command\r\n", true},
                {"+OK\r\n-EXECABORT Transaction discarded because of previous errors.\r\n", false},
                {"+OK\r\n*1\r\n+OK\r\n", false},
                {"-NOPERM\r\n-ERR EXEC without MULTI\r\n", false}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        conn_world w;
        world_open(&w);
        world_serve(&w);
        raise_counter(&w, SLOT);
        assert_int_equal(try_either(&w, 8, SLOT), TL_OK);
        peer_expect(&w.peer, NATIVE);
        peer_send(&w.peer, rows[i].replies);
        world_await(&w, 2);
        assert_true(tl__conn_up(w.conn) != rows[i].left);
        world_close(&w);
    }
}

TEST(it_is_native_only_within_a_second_of_a_script) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    goes_by_script(&w, SLOT);
    raise_counter(&w, SLOT);
    goes_native(&w, SLOT);
    world_pass_ms(&w, TL_RAISED_MS - 1);
    goes_native(&w, SLOT);
    world_pass_ms(&w, 1);
    goes_by_script(&w, SLOT);
    raise_counter(&w, SLOT);
    goes_native(&w, SLOT);
    world_close(&w);
}

/* Its number may be as far behind the clock as it took; when an answer comes the clock tells, not the test. */
static bool is_stale_if_raised(int64_t since_ns) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    tl__conn_raised(w.conn, SLOT, (tl_mono){world_now(&w).ns + since_ns});
    goes_native(&w, SLOT);
    bool stale = w.log[1].stale;
    world_close(&w);
    return stale;
}

TEST(an_answer_that_comes_after_the_second_says_so) {
    const int64_t ms = TL_NS_PER_MS;
    assert_true(is_stale_if_raised(1 - TL_RAISED_MS * ms));
    assert_false(is_stale_if_raised(3600 * 1000 * ms));
}

TEST(it_is_native_only_in_the_slot_that_was_raised) {
    static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
    conn_world w;
    world_open(&w);
    world_serve(&w);
    raise_counter(&w, SLOT);
    for (size_t i = 0; letters[i]; i++) { /* some of them share its place */
        tl_slot_tag other = SLOT;
        other.text[2] = letters[i];
        if (letters[i] != SLOT.text[2])
            goes_by_script(&w, other);
    }
    goes_native(&w, SLOT);
    world_close(&w);
}

/* More than a crowd asks for at a time. */
TEST(a_hundred_slots_that_were_raised_are_known) {
    enum { SLOTS = 100 };
    conn_world w;
    tl_slot_tag tag[SLOTS];
    world_open(&w);
    world_serve(&w);
    for (uint16_t i = 0; i < SLOTS; i++) {
        tag[i] = tl__slot_tag((uint16_t)(i * 163));
        raise_counter(&w, tag[i]);
    }
    for (uint16_t i = 0; i < SLOTS; i++)
        goes_native(&w, tag[i]);
    world_close(&w);
}

TEST(the_next_connection_knows_nothing_of_it) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    raise_counter(&w, SLOT);
    peer_drop(&w.peer);
    world_drive_until_down(&w, 1);
    assert_int_equal(try_either(&w, 1, SLOT), TL_OK); /* for the next: it waits */
    world_login(&w);
    peer_expect(&w.peer, SCRIPT);
    peer_send(&w.peer, "+OK\r\n");
    world_await(&w, 2);
    assert_false(w.log[1].native);
    goes_by_script(&w, SLOT);
    world_close(&w);
}

/* A server that doesn't read: the first request, ticket 1, fills every buffer. */
static void block_the_stream(conn_world *w) {
    static char value[16 << 20];
    tl_send send = {.ticket = 1, .count = 1, .by = TL_NEVER};
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {{value, sizeof value}}};
    assert_int_equal(tl__conn_send(w->conn, &send, w, world_now(w)), TL_OK);
    world_drive(w);
    assert_int_equal(tl__conn_events(w->conn), POLLIN | POLLOUT);
}

/* The connection is lost before anything of it is written: another request would wait for the next one. */
TEST(in_its_native_form_it_goes_over_no_other_connection) {
    conn_world w;
    world_open(&w);
    world_serve(&w);
    raise_counter(&w, SLOT);
    world_pass_ms(&w, TL_RAISED_MS - 1);
    block_the_stream(&w);
    assert_int_equal(try_either(&w, 8, SLOT), TL_OK);
    world_ask(&w, 9, "PING");
    peer_reset(&w.peer);
    world_await(&w, 3);
    seen_failed(&w, 1, 1, true, TL_EUNAVAILABLE, "");
    seen_failed(&w, 2, 8, false, TL_EUNAVAILABLE, "");
    assert_true(w.log[2].native);
    world_login(&w);
    peer_expect(&w.peer, "*1\r\n$4\r\nPING\r\n");
    peer_send(&w.peer, "+PONG\r\n");
    world_await(&w, 4);
    seen_ok(&w, 3, 9, "PONG");
    world_close(&w);
}

/* ---- here or not at all ------------------------------------------------------------------------ */

static tl_err try_here(conn_world *w, uint16_t ticket) {
    char copy[64];
    tl_send send = {
        .ticket = ticket, .count = 1, .here = true, .by = tl__mono_add_ms(world_now(w), LIMIT_MS)};
    send.command[0] = command_of("PING", copy, sizeof copy);
    return tl__conn_send(w->conn, &send, w, world_now(w));
}

TEST(what_belongs_to_a_connection_is_refused_without_it) {
    conn_world w;
    world_open(&w);
    assert_int_equal(try_here(&w, 1), TL_EUNAVAILABLE);
    assert_int_equal(tl__conn_fd(w.conn), -1); /* nor is one made for it */
    world_serve(&w);
    assert_int_equal(try_here(&w, 2), TL_OK);
    peer_expect(&w.peer, "*1\r\n$4\r\nPING\r\n");
    peer_send(&w.peer, "+PONG\r\n");
    world_await(&w, 2);
    seen_ok(&w, 1, 2, "PONG");
    peer_drop(&w.peer);
    world_drive_until_down(&w, 1);
    assert_int_equal(try_here(&w, 3), TL_EUNAVAILABLE);
    assert_int_equal(w.seen, 2);
    world_close(&w);
}

/* ---- which server, which connection ------------------------------------------------------------ */

static void log_in(conn_world *w, const char *info, const char *id) {
    peer_accept(&w->peer);
    peer_expect(&w->peer, TIME_ASKED "*2\r\n$4\r\nINFO\r\n$6\r\nserver\r\n"
                                     "*2\r\n$6\r\nCLIENT\r\n$2\r\nID\r\n");
    peer_send(&w->peer, TIME_TOLD);
    peer_send(&w->peer, info);
    peer_send(&w->peer, id);
    peer_expect(&w->peer, "*1\r\n$4\r\nPING\r\n");
    peer_send(&w->peer, "+PONG\r\n");
    world_await(w, w->seen + 1);
    assert_true(w->log[w->seen - 1].ok);
}

static void open_asking(conn_world *w) {
    world_open_with(w, "", "",
                    (tl_conn_limits){.connect_ms = CONNECT_MS, .ask_run = true, .ask_id = true});
}

#define RUN_1 "$59\r\n# Server\r\nrun_id:0123456789012345678901234567890123456789\r\n\r\n"
#define RUN_2 "$59\r\n# Server\r\nrun_id:0123456789012345678901234567890123456780\r\n\r\n"

static uint64_t run_after(conn_world *w, const char *info, const char *id) {
    world_ask(w, 1, "PING");
    log_in(w, info, id);
    assert_int_equal(w->log[w->seen - 1].run, tl__conn_run(w->conn));
    peer_drop(&w->peer);
    uint64_t run = tl__conn_run(w->conn);
    world_drive_until_down(w, w->downs + 1);
    return run;
}

TEST(a_restart_of_the_server_is_told_by_its_run_id) {
    conn_world w;
    open_asking(&w);
    uint64_t first = run_after(&w, RUN_1, ":7\r\n");
    assert_int_equal(tl__conn_id(w.conn), 7);
    assert_true(first != 0);
    assert_true(run_after(&w, RUN_1, ":8\r\n") == first);
    assert_int_equal(tl__conn_id(w.conn), 8);
    uint64_t other = run_after(&w, RUN_2, ":7\r\n");
    assert_true(other != 0 && other != first);
    world_close(&w);
}

TEST(a_server_that_tells_neither_is_done_without) {
    static const char *const infos[] = {
        "-NOPERM this user has no permissions to run the 'info' command\r\n",
        "-ERR unknown command 'INFO'\r\n",
        "-ERR wrong number of arguments for 'info' command\r\n",
        "$-1\r\n",
        "$10\r\n# Server\r\n\r\n",
        ":1\r\n",
    };
    static const char *const ids[] = {
        "-NOPERM this user has no permissions to run the 'client|id' command\r\n",
        "-ERR unknown subcommand 'ID'. Try CLIENT HELP.\r\n",
        "-ERR Syntax error, try CLIENT (LIST | KILL ip:port)\r\n",
        "$-1\r\n",
        "$1\r\nx\r\n",
        "+OK\r\n",
    };
    for (size_t i = 0; i < sizeof infos / sizeof *infos; i++) {
        conn_world w;
        open_asking(&w);
        /* What the connection before has told counts no longer. */
        assert_true(run_after(&w, RUN_1, ":7\r\n") != 0);
        assert_true(run_after(&w, infos[i], ids[i]) == 0);
        assert_int_equal(tl__conn_id(w.conn), 0);
        world_close(&w);
    }
}
