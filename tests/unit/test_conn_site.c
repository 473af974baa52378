/*
 * A connection whose place may change: it leads where the site says, to a master, ends with that, and sends nothing
 * that was built for another server.
 */
#include "conn_world.h"
#include "names_as.h"

#define ROLE_ASKED "*1\r\n$4\r\nROLE\r\n"
#define MASTER "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
#define REPLICA "*5\r\n$5\r\nslave\r\n$1\r\nh\r\n:1\r\n$9\r\nconnected\r\n:0\r\n"
#define GET_K "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n"

typedef struct {
    conn_world w; /* first */
    tl_site site;
    unsigned wants;
    tl_endpoint first, second;
} site_world;

static void want(void *ctx) {
    ((site_world *)ctx)->wants++;
}

static void open_site(site_world *s) {
    char url[64];
    memset(s, 0, sizeof *s);
    tl__site_init(&s->site, want, s);
    world_open_with(&s->w, "", "", (tl_conn_limits){.connect_ms = CONNECT_MS, .site = &s->site});
    (void)snprintf(url, sizeof url, "redis://127.0.0.1:%u", (unsigned)s->w.peer.port);
    assert_int_equal(tl__endpoint_parse(&s->first, NULL, url, NULL), TL_OK);
    names_as(names_of_loopback);
    (void)snprintf(url, sizeof url, "redis://also.test:%u", (unsigned)s->w.peer.port);
    assert_int_equal(tl__endpoint_parse(&s->second, NULL, url, NULL), TL_OK);
}

static void close_site(site_world *s) {
    world_close(&s->w);
    assert_null(s->site.opened);
    tl__site_end(&s->site);
}

/* It leads there, and that has been confirmed just now. */
static void lead(site_world *s, const tl_endpoint *to) {
    assert_true(tl__site_lead(&s->site, to, TL_NO_EPOCH));
    tl__site_named(&s->site, world_now(&s->w));
}

static void log_in(site_world *s, const char *role) {
    peer_accept(&s->w.peer);
    peer_expect(&s->w.peer, ROLE_ASKED TIME_ASKED);
    peer_send(&s->w.peer, role);
    peer_send(&s->w.peer, TIME_TOLD);
}

static tl_err ask_for(site_world *s, uint16_t ticket, const char *line, uint32_t generation,
                      bool confirm) {
    char copy[64];
    tl_send send = {.ticket = ticket,
                    .count = line ? 1 : 0,
                    .generation = generation,
                    .confirm = confirm,
                    .by = tl__mono_add_ms(world_now(&s->w), LIMIT_MS)};
    if (line)
        send.command[0] = command_of(line, copy, sizeof copy);
    return tl__conn_send(s->w.conn, &send, &s->w, world_now(&s->w));
}

/* Up, and one request answered: ticket 0. */
static void serve(site_world *s) {
    lead(s, &s->first);
    assert_int_equal(ask_for(s, 0, "GET k", 0, false), TL_OK);
    log_in(s, MASTER);
    peer_expect(&s->w.peer, GET_K);
    peer_send(&s->w.peer, "+one\r\n");
    world_await(&s->w, 1);
    seen_ok(&s->w, 0, 0, "one");
}

static void drive_until_looked_again(site_world *s) {
    world_pass_ms(&s->w, 50);
    world_drive(&s->w);
}

TEST(a_connection_waits_until_somebody_knows_where_to) {
    site_world s;
    open_site(&s);
    assert_int_equal(ask_for(&s, 1, "GET k", 0, false), TL_OK);
    world_drive(&s.w);
    assert_int_equal(tl__conn_fd(s.w.conn), -1);
    assert_int_equal(s.wants, 1);
    assert_true(tl__site_wanted(&s.site));
    lead(&s, &s.first);
    drive_until_looked_again(&s);
    log_in(&s, MASTER);
    peer_expect(&s.w.peer, GET_K);
    peer_send(&s.w.peer, "+OK\r\n");
    world_await(&s.w, 1);
    seen_ok(&s.w, 0, 1, "OK");
    assert_int_equal(tl__conn_generation(s.w.conn), 1);
    close_site(&s);
}

TEST(a_wait_for_a_master_ends_at_its_limit_and_says_why) {
    site_world s;
    open_site(&s);
    tl__site_lose(&s.site, "m: no majority of the Sentinels: 1 of 3 answer");
    assert_int_equal(ask_for(&s, 1, "GET k", 0, false), TL_OK);
    world_drive(&s.w);
    world_pass_ms(&s.w, LIMIT_MS);
    world_drive(&s.w);
    seen_failed(&s.w, 0, 1, false, TL_EUNAVAILABLE, "m: no majority of the Sentinels: 1 of 3");
    close_site(&s);
}

/* Who asks later wants to know anew: the password may be another by then. */
TEST(who_has_waited_is_told_of_a_refusal_and_who_comes_later_is_not) {
    site_world s;
    open_site(&s);
    tl_mono before = tl__mono_add_ms(world_now(&s.w), -1);
    assert_int_equal(ask_for(&s, 1, "GET k", 0, false), TL_OK);
    tl__site_refuse(&s.site, TL_EDENIED, "h: wrong password", before);
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 0);
    tl__site_refuse(&s.site, TL_EDENIED, "h: another wrong password", world_now(&s.w));
    drive_until_looked_again(&s);
    seen_failed(&s.w, 0, 1, false, TL_EDENIED, "h: another wrong password");
    world_pass_ms(&s.w, 1);
    assert_int_equal(ask_for(&s, 2, "GET k", 0, false), TL_OK);
    drive_until_looked_again(&s);
    assert_int_equal(s.w.seen, 1);
    lead(&s, &s.first);
    tl__site_lose(&s.site, "nobody knows");
    world_pass_ms(&s.w, LIMIT_MS);
    world_drive(&s.w);
    seen_failed(&s.w, 1, 2, false, TL_EUNAVAILABLE, "nobody knows");
    close_site(&s);
}

/* A cluster's master that isn't one any more: who has it in mind asks elsewhere, at once. */
TEST(nobody_waits_for_a_node_that_was_left) {
    site_world s;
    open_site(&s);
    s.site.stays = true;
    serve(&s);
    assert_true(
        tl__conn_lively(s.w.conn, world_now(&s.w))); /* it needn't be named again and again */
    tl__site_lose(&s.site, "it is no longer a master of the cluster");
    world_drive(&s.w);
    assert_int_equal(ask_for(&s, 1, "GET k", 0, false), TL_OK);
    world_await(&s.w, 2);
    seen_failed(&s.w, 1, 1, false, TL_EELSEWHERE, "it is no longer a master of the cluster");
    lead(&s, &s.first); /* and is one again */
    assert_int_equal(ask_for(&s, 2, "GET k", 0, false), TL_OK);
    drive_until_looked_again(&s);
    log_in(&s, MASTER);
    peer_expect(&s.w.peer, GET_K);
    peer_send(&s.w.peer, "+two\r\n");
    world_await(&s.w, 3);
    seen_ok(&s.w, 2, 2, "two");
    close_site(&s);
}

TEST(a_replica_is_never_asked) {
    site_world s;
    open_site(&s);
    lead(&s, &s.first);
    assert_int_equal(ask_for(&s, 1, "GET k", 0, false), TL_OK);
    log_in(&s, REPLICA);
    world_await(&s.w, 1);
    seen_failed(&s.w, 0, 1, false, TL_EUNAVAILABLE, "it is a replica");
    assert_true(tl__site_wanted(&s.site)); /* somebody had better ask again */
    close_site(&s);
}

TEST(a_connection_ends_at_once_when_the_master_is_another) {
    site_world s;
    open_site(&s);
    serve(&s);
    assert_int_equal(ask_for(&s, 1, "GET k", 1, false), TL_OK);
    peer_expect(&s.w.peer, GET_K);
    lead(&s, &s.second);
    world_arrived(&s.w); /* whoever polls it is woken */
    world_await(&s.w, 2);
    seen_failed(&s.w, 1, 1, true, TL_EUNAVAILABLE, "another server is the master now");
    peer_expect_end(&s.w.peer);
    close_site(&s);
}

/* No server has failed: who reaches for one, and what none has been sent of, waits for the next. */
TEST(what_waits_for_a_login_waits_for_the_next_master) {
    site_world s;
    open_site(&s);
    lead(&s, &s.first);
    assert_int_equal(ask_for(&s, 1, NULL, 0, false), TL_OK);
    assert_int_equal(ask_for(&s, 2, "GET k", 0, false), TL_OK);
    world_drive(&s.w);
    peer_accept(&s.w.peer);
    peer_expect(&s.w.peer, ROLE_ASKED TIME_ASKED);
    lead(&s, &s.second);
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 0);
    peer_expect_end(&s.w.peer);
    log_in(&s, MASTER); /* at once */
    peer_expect(&s.w.peer, GET_K);
    peer_send(&s.w.peer, "+OK\r\n");
    world_await(&s.w, 2);
    seen_ok(&s.w, 0, 1, "");
    seen_ok(&s.w, 1, 2, "OK");
    assert_int_equal(tl__conn_generation(s.w.conn), 2);
    close_site(&s);
}

TEST(a_former_generation_is_not_taken_for_up) {
    site_world s;
    open_site(&s);
    serve(&s);
    assert_true(tl__conn_up(s.w.conn));
    assert_true(tl__conn_fresh(s.w.conn, world_now(&s.w)));
    tl__site_lose(&s.site, "m: a failover is in progress");
    assert_false(tl__conn_up(s.w.conn));
    assert_false(tl__conn_fresh(s.w.conn, world_now(&s.w)));
    close_site(&s);
}

TEST(what_was_built_for_another_server_is_never_sent) {
    site_world s;
    open_site(&s);
    serve(&s);
    lead(&s, &s.second);
    assert_int_equal(ask_for(&s, 1, "GET k", 1, false), TL_OK); /* it isn't up: it finds out */
    assert_int_equal(ask_for(&s, 2, "GET k", 2, false), TL_OK);
    log_in(&s, MASTER);
    peer_expect(&s.w.peer, GET_K); /* one */
    peer_send(&s.w.peer, "+OK\r\n");
    world_await(&s.w, 3);
    seen_failed(&s.w, 1, 1, false, TL_EELSEWHERE, "the master has changed");
    seen_ok(&s.w, 2, 2, "OK");
    assert_int_equal(ask_for(&s, 3, "GET k", 1, false), TL_EELSEWHERE);
    peer_expect_silence(&s.w.peer);
    close_site(&s);
}

TEST(who_reaches_for_the_server_waits_until_it_is_named_again) {
    site_world s;
    open_site(&s);
    serve(&s);
    world_pass_ms(&s.w, TL_NAMED_MS + 1);
    (void)tl__site_wanted(&s.site);
    assert_int_equal(ask_for(&s, 1, NULL, 0, false), TL_OK);
    world_drive(&s.w);
    assert_true(tl__site_wanted(&s.site));
    assert_int_equal(s.w.seen, 1);
    assert_true(tl__ms_until(world_now(&s.w), tl__conn_until(s.w.conn)) < 10); /* it looks again */
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    seen_ok(&s.w, 1, 1, "");
    close_site(&s);
}

/* Both on one connection, as callers share it: the reply that comes is that of the one who has asked something. */
TEST(who_waits_for_a_name_takes_no_reply_of_anothers) {
    site_world s;
    open_site(&s);
    serve(&s);
    world_pass_ms(&s.w, TL_NAMED_MS + 1);
    assert_int_equal(ask_for(&s, 1, NULL, 0, false), TL_OK);
    assert_int_equal(ask_for(&s, 2, "GET k", 1, false), TL_OK);
    world_drive(&s.w);
    peer_expect(&s.w.peer, GET_K);
    peer_send(&s.w.peer, "+two\r\n");
    world_await(&s.w, 2);
    seen_ok(&s.w, 1, 2, "two");
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    seen_ok(&s.w, 2, 1, "");
    close_site(&s);
}

TEST(who_waits_for_a_name_waits_for_the_next_connection_too) {
    site_world s;
    open_site(&s);
    serve(&s);
    world_pass_ms(&s.w, TL_NAMED_MS + 1);
    assert_int_equal(ask_for(&s, 1, NULL, 0, false), TL_OK);
    world_drive(&s.w);
    lead(&s, &s.second);
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 1);
    log_in(&s, MASTER);
    world_await(&s.w, 2);
    seen_ok(&s.w, 1, 1, "");
    assert_int_equal(tl__conn_generation(s.w.conn), 2);
    close_site(&s);
}

TEST(who_has_gone_is_not_told_of_a_name) {
    site_world s;
    open_site(&s);
    serve(&s);
    world_pass_ms(&s.w, TL_NAMED_MS + 1);
    assert_int_equal(ask_for(&s, 1, NULL, 0, false), TL_OK);
    assert_int_equal(ask_for(&s, 2, NULL, 1, true), TL_OK);
    world_drive(&s.w);
    tl__conn_forget(s.w.conn, &s.w);
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 1);
    close_site(&s);
}

TEST(somebody_is_asked_before_the_name_grows_stale) {
    site_world s;
    open_site(&s);
    serve(&s);
    (void)tl__site_wanted(&s.site);
    world_pass_ms(&s.w, TL_NAMED_MS / 2 + 1);
    assert_true(tl__site_is_fresh(&s.site, world_now(&s.w)));
    assert_true(tl__site_wanted(&s.site));
    close_site(&s);
}

/* Whoever has reached it may have been stopped before he asked. */
TEST(who_was_asked_long_after_it_was_named_is_told_so) {
    site_world s;
    open_site(&s);
    serve(&s);
    for (uint16_t i = 1; i <= 3; i++) {
        tl_mono now = world_now(&s.w); /* no later than what is sent */
        tl__site_named(&s.site, tl__mono_add_ms(now, i == 2 ? -TL_NAMED_MS - 1 : 60000));
        assert_int_equal(ask_for(&s, i, "GET k", 1, false), TL_OK);
        peer_expect(&s.w.peer, GET_K);
        peer_send(&s.w.peer, "+OK\r\n");
        world_await(&s.w, i + 1U);
        seen_ok(&s.w, i, i, "OK");
        assert_int_equal(s.w.log[i].unnamed, i == 2);
    }
    close_site(&s);
}

/* It leads to whom the first of the Sentinels names, before most of them do: by then it has changed. */
TEST(what_was_asked_of_another_server_is_known_for_that) {
    site_world s;
    open_site(&s);
    lead(&s, &s.first);
    tl_mono asked = world_now(&s.w);
    assert_false(tl__site_has_changed(&s.site, asked));
    tl__site_lose(&s.site, "m: a failover is in progress");
    assert_true(tl__site_has_changed(&s.site, asked));
    assert_true(tl__site_lead(&s.site, &s.second, TL_NO_EPOCH));
    assert_true(tl__site_has_changed(&s.site, asked));
    world_pass_ms(&s.w, 1);
    tl__site_named(&s.site, world_now(&s.w));
    assert_true(tl__site_has_changed(&s.site, asked));
    assert_false(tl__site_has_changed(&s.site, world_now(&s.w)));
    close_site(&s);
}

TEST(a_confirmation_is_by_a_question_asked_later) {
    site_world s;
    open_site(&s);
    serve(&s);
    tl_mono before = world_now(&s.w);
    world_pass_ms(&s.w, 1);
    assert_int_equal(ask_for(&s, 1, NULL, 1, true), TL_OK);
    assert_true(tl__site_wanted(&s.site));
    tl__site_named(&s.site, before); /* by one that was asked before */
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 1);
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    seen_ok(&s.w, 1, 1, "");
    close_site(&s);
}

/* It isn't asked of the server: what is behind it goes on. */
TEST(a_confirmation_keeps_nobody_waiting) {
    site_world s;
    open_site(&s);
    serve(&s);
    world_pass_ms(&s.w, 1);
    assert_int_equal(ask_for(&s, 1, NULL, 1, true), TL_OK);
    assert_int_equal(ask_for(&s, 2, "GET k", 1, false), TL_OK);
    peer_expect(&s.w.peer, GET_K);
    peer_send(&s.w.peer, "+OK\r\n");
    world_await(&s.w, 2);
    seen_ok(&s.w, 1, 2, "OK");
    world_pass_ms(&s.w, LIMIT_MS);
    tl__site_trouble(&s.site, "m: no majority of the Sentinels");
    world_drive(&s.w);
    seen_failed(&s.w, 2, 1, false, TL_EUNAVAILABLE, "no majority of the Sentinels");
    close_site(&s);
}

/* One that was cut off with the former server may acquire a lock there for as long, which is held here no less. */
TEST(what_is_renewed_after_a_change_counts_when_the_former_server_is_over_for_all) {
    site_world s;
    open_site(&s);
    s.site.settles = true;
    serve(&s);
    lead(&s, &s.second);
    assert_int_equal(ask_for(&s, 1, "GET k", 0, false), TL_OK);
    world_drive(&s.w);
    log_in(&s, MASTER);
    peer_expect(&s.w.peer, GET_K);
    peer_send(&s.w.peer, "+two\r\n");
    world_await(&s.w, 2);
    assert_int_equal(ask_for(&s, 2, NULL, 2, true), TL_OK);
    world_pass_ms(&s.w, TL_NAMED_MS - 1);
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 2);
    world_pass_ms(&s.w, 1);
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 2); /* that was named too early */
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    seen_ok(&s.w, 2, 2, "");
    close_site(&s);
}

/* What this client acquired is of this server, as it has led to no other. */
TEST(what_is_renewed_at_the_first_server_counts_at_once) {
    site_world s;
    open_site(&s);
    s.site.settles = true;
    serve(&s);
    world_pass_ms(&s.w, 1);
    assert_int_equal(ask_for(&s, 1, NULL, 1, true), TL_OK);
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    seen_ok(&s.w, 1, 1, "");
    close_site(&s);
}

/* Another process may have acquired it at a former server, before this client opened. */
TEST(an_adopted_lock_is_renewed_when_a_server_before_the_first_one_is_over_for_all) {
    site_world s;
    open_site(&s);
    s.site.settles = true;
    serve(&s);
    const tl_send send = {.ticket = 1,
                          .generation = 1,
                          .confirm = true,
                          .adopted = true,
                          .by = tl__mono_add_ms(world_now(&s.w), 2 * TL_NAMED_MS)};
    assert_int_equal(tl__conn_send(s.w.conn, &send, &s.w, world_now(&s.w)), TL_OK);
    world_pass_ms(&s.w, TL_NAMED_MS - 1);
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    assert_int_equal(s.w.seen, 1);
    world_pass_ms(&s.w, 1);
    tl__site_named(&s.site, world_now(&s.w));
    world_drive(&s.w);
    seen_ok(&s.w, 1, 1, "");
    close_site(&s);
}

static unsigned unnamed;

static void note_unnamed(void *world, const tl_answer *answer) {
    (void)world;
    unnamed += answer->ok && answer->unnamed;
}

static void answer_named_before(site_world *s, size_t seen, int64_t ms) {
    assert_int_equal(ask_for(s, 1, "GET k", 1, false), TL_OK);
    peer_expect(&s->w.peer, GET_K);
    tl__site_named(&s->site, tl__mono_add_ms(tl__mono_now(), -ms));
    peer_send(&s->w.peer, "+OK\r\n");
    world_await(&s->w, seen);
}

/* By any clock: one that is as slow as may be waits for less. */
TEST(an_answer_tells_whether_its_server_is_named_still) {
    site_world s;
    open_site(&s);
    s.site.drift_ppm = 500000;
    serve(&s);
    s.w.also = note_unnamed;
    unnamed = 0;
    answer_named_before(&s, 2, -60000); /* however late it is answered */
    assert_int_equal(unnamed, 0);
    answer_named_before(&s, 3, TL_NAMED_MS / 3 + 1);
    assert_int_equal(unnamed, 1);
    close_site(&s);
}

TEST(a_confirmation_ends_with_its_connection) {
    site_world s;
    open_site(&s);
    serve(&s);
    world_pass_ms(&s.w, 1);
    assert_int_equal(ask_for(&s, 1, NULL, 1, true), TL_OK);
    lead(&s, &s.second); /* which is confirmed; but that is another server */
    world_await(&s.w, 2);
    seen_failed(&s.w, 1, 1, false, TL_EUNAVAILABLE, "another server is the master now");
    assert_int_equal(ask_for(&s, 2, NULL, 1, true), TL_EUNAVAILABLE);
    close_site(&s);
}

/* ---- doubts ---------------------------------------------------------------------------------- */

/* One who finds that it leads nowhere wants to know more. Once it leads somewhere that is no reason to lead elsewhere. */
TEST(a_doubt_of_before_says_nothing_against_the_next_server) {
    site_world s;
    char words[TL_SITE_MESSAGE_SIZE];
    open_site(&s);
    assert_null(tl__site_spot(&s.site, words, sizeof words));
    assert_int_equal(s.wants, 1);
    lead(&s, &s.first);
    assert_false(tl__site_doubted(&s.site));
    tl_spot *spot = tl__site_spot(&s.site, words, sizeof words);
    assert_non_null(spot);
    tl__site_doubt(&s.site, spot->generation);
    assert_true(tl__site_doubted(&s.site));
    lead(&s, &s.second);
    tl__site_doubt(&s.site,
                   spot->generation); /* it was closed a moment before, and that comes late */
    assert_false(tl__site_doubted(&s.site));
    tl__spot_give(spot);
    close_site(&s);
}
