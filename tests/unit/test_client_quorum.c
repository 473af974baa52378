/*
 * What a client of several independent servers says of their clocks.
 */
#include <stdio.h>

#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/run.h"
#include "tests.h"

#define SERVERS 5
#define HOUR_US INT64_C(3600000000)

static char said[TL_MESSAGE_SIZE];
static int lines;

static void note(tl_log_level level, const char *line, void *ctx) {
    (void)ctx;
    assert_int_equal(level, TL_LOG_WARNING);
    (void)snprintf(said, sizeof said, "%s", line);
    lines++;
}

/* The clocks of the first `known` of them are ahead by so many hours. A client warns once in a minute: each time it is
 * another. */
static void compare(const int ahead_h[SERVERS], int known) {
    tl_client *client;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = "redis+quorum://a,b,c,d,e",
                                                        .log = note);
    tl_server all[SERVERS] = {0};
    tl_mono now = tl__mono_now();
    assert_int_equal(tl_client_open(&options, &client, NULL), TL_OK);
    for (int i = 0; i < SERVERS; i++) {
        int64_t us = INT64_C(1700000000000000) + ahead_h[i] * HOUR_US;
        all[i].anchor = (tl_anchor){.known = i < known, .offset = {us, us + 1000}, .at = now};
    }
    lines = 0;
    said[0] = '\0';
    tl__run_compare_clocks(client, all, now);
    tl__run_compare_clocks(client, all, now);
    tl_client_close(client);
}

TEST(a_clock_that_is_far_from_the_others_is_told) {
    compare((int[]){0, 0, 0, 13, 0}, SERVERS);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, "d:6379: its clock is 13 h ahead of that of most servers"));
    compare((int[]){0, -30, 1, 2, 3}, SERVERS);
    assert_int_equal(lines, 1);
    assert_non_null(strstr(said, "b:6379: its clock is 31 h behind that of most servers"));
}

TEST(clocks_that_are_apart_by_less_or_unknown_are_not) {
    compare((int[]){0, 3, 6, 9, 12}, SERVERS);
    assert_int_equal(lines, 0);
    compare((int[]){0, 13, 0, 0, 0}, 2); /* which of the two is wrong? */
    assert_int_equal(lines, 0);
    compare((int[]){0, 0, 0, 13, 13}, 3);
    assert_int_equal(lines, 0);
}

/* ---- who is who ------------------------------------------------------------------------------ */

static tl_event judge(tl_client *client, unsigned place, uint64_t run) {
    tl_event e = {.kind = TL_REPLY, .replied = {.count = 1}};
    client->backend->runner->judge(&client->keeper, place, run, &e);
    assert_int_equal(e.from, place);
    return e;
}

TEST(a_vote_counts_of_a_server_that_is_known_to_be_another) {
    tl_client *client;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = "redis+quorum://a,b,c");
    assert_int_equal(tl_client_open(&options, &client, NULL), TL_OK);
    assert_int_equal(judge(client, 0, 7).kind, TL_REPLY);
    assert_int_equal(judge(client, 1, 8).kind, TL_REPLY);
    tl_event same = judge(client, 2, 7), nameless = judge(client, 2, 0);
    assert_int_equal(same.kind, TL_FAILED);
    assert_int_equal(same.failed.why, TL_EINVALID);
    assert_int_equal(nameless.kind, TL_FAILED);
    assert_int_equal(nameless.failed.why, TL_EDENIED);
    assert_true(nameless.failed.maybe_sent);
    assert_non_null(memmem(nameless.failed.message.p, nameless.failed.message.n, "INFO", 4));
    assert_int_equal(judge(client, 0, 7).kind, TL_REPLY);
    tl_client_close(client);
}

/* ---- connections ----------------------------------------------------------------------------- */

/* How a client of this URL asks, where its node has these limits. */
static tl_conn_limits asks(const char *url) {
    tl_client *client;
    const tl_client_options options = TL_CLIENT_OPTIONS(.url = url, .attempt_ms = 300);
    assert_int_equal(tl_client_open(&options, &client, NULL), TL_OK);
    tl_conn_limits limits = tl__keeper_limits(&client->keeper, (tl_conn_limits){.connect_ms = 700});
    tl_client_close(client);
    return limits;
}

/* A vote that was sent again behind the release that takes it back would stand there for a lifetime. */
TEST(of_several_servers_what_is_asked_of_each_keeps_its_order_and_may_be_slow) {
    tl_conn_limits several = asks("redis+quorum://a,b,c"), one = asks("redis://a");
    assert_true(several.in_order);
    assert_int_equal(several.patience_ms, 150);
    assert_int_equal(several.connect_ms, 700);
    assert_false(one.in_order);
    assert_int_equal(one.patience_ms, 0);
}
