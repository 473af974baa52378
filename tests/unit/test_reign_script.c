/*
 * What is given by a server that may have forgotten what it gave last: nothing, by whichever of the two scripts that
 * acquire a lock, until it has been the same server, with the same history, for as long as the asker wants.
 */
#include "script_feed.h"

#define R "tidelock:reign"
#define QUIET_MS 30000
#define QUIET "30000"
#define INBOX "tidelock:inbox:a"
#define STAMP "1700000001000"
#define NEWEST FAKE_LEVEL(7, 0, 15)

static int64_t now_us;

static int begin(void **state) {
    (void)serve(state);
    now_us = NOW_US;
    fake_redis_set_run_id(server, 0xa);
    fake_redis_set_replid(server, 0x1);
    return 0;
}

TESTS_WITH(begin, end_serving);

static void later(int64_t ms) {
    now_us += ms * 1000;
    fake_redis_set_time(server, now_us);
}

/* ---- asking ------------------------------------------------------------------------------------- */

static const tl_reply *say_take(const char *token, const char *value, const char *quiet) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S), L(F), L(LINE),
               tl__bytes_of(token), L("4000"), L("0"), L(NOW), L(NOW), L("owner"), L("1"),
               tl__bytes_of(value), L(""), L("4000"), tl__bytes_of(quiet));
}

static const tl_reply *say_join(const char *token, const char *value, const char *quiet) {
    (void)value;
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_JOIN), L("4"), L(K), L(S), L(F), L(LINE),
               tl__bytes_of(token), L("4000"), L("0"), L("owner"), L("1"), L(INBOX), L(""),
               tl__bytes_of(quiet));
}

static const tl_reply *(*const ways[])(const char *, const char *, const char *) = {say_take,
                                                                                    say_join};
#define WAYS (sizeof ways / sizeof *ways)

/* What it says, and how many ms are left. The usual answer of a take is its fence alone. */
static int64_t status_of(const tl_reply *r, int64_t *ret_left) {
    if (r->type == TL_REPLY_ERROR)
        fail_msg("%.*s", (int)r->text.n, r->text.p);
    *ret_left = -1;
    if (r->type == TL_REPLY_STRING)
        return 1;
    *ret_left = number_of(tl__reply_item(r, 2));
    return number_of(tl__reply_item(r, 0));
}

static void withheld_for(const tl_reply *r, int64_t ms) {
    int64_t left;
    assert_int_equal(status_of(r, &left), -4);
    assert_int_equal(left, ms);
}

static void given(const tl_reply *r) {
    int64_t left;
    assert_int_equal(status_of(r, &left), 1);
}

/* Which keys these are is found by INFO alone, so the caller can't declare them. */
TEST(nothing_is_given_where_only_declared_keys_may_be_touched) {
    fake_redis_allow_undeclared(server, "");
    for (size_t i = 0; i < WAYS; i++) {
        const tl_reply *r = ways[i](TOKEN, TOKEN, QUIET);
        assert_int_equal(r->type, TL_REPLY_ERROR);
        assert_true(tl__bytes_has(r->text, "undeclared key"));
        K_HOLDS(NULL);
    }
}

/* It has been the same for long. */
static void settle(void) {
    withheld_for(say_take(OTHER, OTHER, QUIET), QUIET_MS);
    later(QUIET_MS);
}

static bool has_reign(const char *name) {
    tl_bytes text;
    return fake_redis_peek(server, 0, tl__bytes_of(name), &text);
}

/* ---- whether it is the same ----------------------------------------------------------------------- */

TEST(a_server_that_is_seen_first_gives_nothing_for_all_of_the_time) {
    for (size_t i = 0; i < WAYS; i++) {
        (void)SAY(L("FLUSHALL"));
        withheld_for(ways[i](TOKEN, TOKEN, QUIET), QUIET_MS);
        K_HOLDS(NULL);
        later(QUIET_MS - 1);
        withheld_for(ways[i](TOKEN, TOKEN, QUIET), 1);
        K_HOLDS(NULL);
        later(1);
        given(ways[i](TOKEN, TOKEN, QUIET));
        K_HOLDS(TOKEN);
    }
}

/* One began to wait before: the server hasn't changed since. */
TEST(it_is_known_since_the_first_who_asked) {
    withheld_for(say_take(OTHER, OTHER, "1000"), 1000);
    later(20000);
    for (size_t i = 0; i < WAYS; i++)
        withheld_for(ways[i](TOKEN, TOKEN, QUIET), 10000);
    later(10000);
    given(say_take(TOKEN, TOKEN, QUIET));
}

static void restarts(void) {
    fake_redis_set_run_id(server, 0xb);
}

static void has_another_history(void) {
    fake_redis_set_replid(server, 0x2);
}

static void loses_its_data(void) {
    (void)SAY(L("FLUSHALL"));
}

static void notes_are_nonsense(void) {
    (void)SAY(L("SET"), L(R), L("nonsense"));
}

static void notes_are_of_another_kind(void) {
    (void)SAY(L("DEL"), L(R));
    (void)SAY(L("RPUSH"), L(R), L("nonsense"));
}

/* Then it is unknown since when. */
static void clock_is_set_back(void) {
    later(-QUIET_MS - 1);
}

TEST(one_that_may_have_forgotten_something_gives_nothing) {
    static void (*const changes[])(void) = {
        restarts,           has_another_history,       loses_its_data,
        notes_are_nonsense, notes_are_of_another_kind, clock_is_set_back};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++)
        for (size_t way = 0; way < WAYS; way++) {
            end_serving(NULL);
            begin(NULL);
            settle();
            changes[i]();
            withheld_for(ways[way](TOKEN, TOKEN, QUIET), QUIET_MS);
            later(QUIET_MS);
            given(ways[way](TOKEN, TOKEN, QUIET));
        }
}

/* One slot of a cluster moves, and what is known of its server with it. */
TEST(a_cluster_has_one_for_each_slot) {
    settle();
    assert_true(has_reign(R));
    fake_redis_set_cluster(server, true);
    withheld_for(say_take(TOKEN, TOKEN, QUIET), QUIET_MS);
    assert_true(has_reign(R ":{6MN}"));
    later(QUIET_MS);
    given(say_take(TOKEN, TOKEN, QUIET));
}

/* ---- whether it has been the master all the time -------------------------------------------------- */

#define E R ":epoch"
#define IN(epoch) QUIET " " epoch

/* The same run, with the same history, and another was the master in between. */
TEST(a_master_that_is_named_in_a_later_epoch_gives_nothing_for_all_of_the_time) {
    for (size_t way = 0; way < WAYS; way++) {
        end_serving(NULL);
        begin(NULL);
        withheld_for(ways[way](OTHER, OTHER, IN("7")), QUIET_MS);
        later(QUIET_MS);
        given(say_take(THIRD, THIRD, IN("7")));
        (void)SAY(L("DEL"), L(K), L(S), L(LINE));
        withheld_for(ways[way](TOKEN, TOKEN, IN("9")), QUIET_MS);
        K_HOLDS(NULL);
        later(QUIET_MS - 1);
        withheld_for(ways[way](TOKEN, TOKEN, IN("9")), 1);
        later(1);
        given(ways[way](TOKEN, TOKEN, IN("9")));
    }
}

/* One that hasn't heard of the later epoch neither gets a lock nor takes time from those who have. */
TEST(who_asks_by_an_older_epoch_waits_and_keeps_nobody_waiting) {
    withheld_for(say_take(OTHER, OTHER, IN("9")), QUIET_MS);
    later(10000);
    for (size_t way = 0; way < WAYS; way++)
        withheld_for(ways[way](THIRD, THIRD, IN("7")), QUIET_MS);
    withheld_for(say_take(TOKEN, TOKEN, IN("9")), QUIET_MS - 10000);
    later(QUIET_MS - 10000);
    withheld_for(say_take(THIRD, THIRD, IN("7")), 10000);
    (void)SAY(L("DEL"), L(LINE));
    given(say_take(TOKEN, TOKEN, IN("9")));
    K_HOLDS(TOKEN);
}

/* All Sentinels are new, and count from the beginning. */
TEST(epochs_that_begin_anew_cost_one_wait) {
    withheld_for(say_take(OTHER, OTHER, IN("50")), QUIET_MS);
    later(QUIET_MS);
    for (size_t way = 0; way < WAYS; way++) {
        withheld_for(ways[way](TOKEN, TOKEN, way ? IN("0") : IN("3")), QUIET_MS);
        later(QUIET_MS);
        given(ways[way](TOKEN, TOKEN, way ? IN("0") : IN("3")));
        (void)SAY(L("DEL"), L(K));
    }
    withheld_for(say_take(TOKEN, TOKEN, IN("50")), QUIET_MS); /* it has come to that again */
}

TEST(of_two_lower_epochs_the_higher_counts_while_somebody_asks_by_it) {
    withheld_for(say_take(OTHER, OTHER, IN("50")), QUIET_MS);
    withheld_for(say_take(OTHER, OTHER, IN("4")), QUIET_MS);
    later(1000);
    withheld_for(say_take(THIRD, THIRD, IN("3")), QUIET_MS);
    withheld_for(say_take(OTHER, OTHER, IN("4")), QUIET_MS - 1000);
    later(1000);
    withheld_for(say_take(OTHER, OTHER, IN("5")), QUIET_MS);
    later(QUIET_MS - 1);
    withheld_for(say_take(THIRD, THIRD, IN("4")), QUIET_MS);
    withheld_for(say_take(OTHER, OTHER, IN("5")), 1);
    later(1); /* nobody comes back with 5 */
    withheld_for(say_take(THIRD, THIRD, IN("4")), QUIET_MS);
    later(QUIET_MS);
    given(say_take(THIRD, THIRD, IN("4")));
}

static void epoch_is_gone(void) {
    (void)SAY(L("DEL"), L(E));
}

static void epoch_is_nonsense(void) {
    (void)SAY(L("SET"), L(E), L("7"));
}

static void epoch_is_of_another_kind(void) {
    (void)SAY(L("DEL"), L(E));
    (void)SAY(L("RPUSH"), L(E), L("nonsense"));
}

TEST(one_whose_epoch_is_not_known_gives_nothing) {
    static void (*const changes[])(void) = {
        epoch_is_gone,  epoch_is_nonsense, epoch_is_of_another_kind,
        loses_its_data, clock_is_set_back, restarts};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        end_serving(NULL);
        begin(NULL);
        withheld_for(say_take(OTHER, OTHER, IN("7")), QUIET_MS);
        later(QUIET_MS);
        changes[i]();
        withheld_for(say_take(TOKEN, TOKEN, IN("7")), QUIET_MS);
        later(QUIET_MS);
        given(say_take(TOKEN, TOKEN, IN("7")));
    }
}

/* As clients of before do, and those whose URL names servers: they and the others leave each other's notes alone. */
TEST(who_knows_no_epoch_is_not_kept_waiting_by_it) {
    settle();
    withheld_for(say_take(TOKEN, TOKEN, IN("7")), QUIET_MS);
    given(say_take(OTHER, OTHER, QUIET));
    (void)SAY(L("DEL"), L(K), L(S));
    later(QUIET_MS / 2);
    withheld_for(say_take(TOKEN, TOKEN, IN("7")), QUIET_MS / 2);
    given(say_take(OTHER, OTHER, QUIET));
    (void)SAY(L("DEL"), L(K), L(S));
    later(QUIET_MS / 2);
    given(say_take(TOKEN, TOKEN, IN("7")));
}

/* ---- what may be its own ---------------------------------------------------------------------------- */

static void set_own(const char *value, bool bound) {
    (void)SAY(L("PSETEX"), L(K), L("4000"), tl__bytes_of(value));
    if (bound)
        (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), tl__bytes_of(value),
                  L("until"), L("1700000099000000"), L("fence"), L("7"));
}

static void not_believed(const tl_reply *r) {
    withheld_for(r, QUIET_MS);
    S_HAS("fence", "7"); /* no number was drawn */
}

TEST(what_an_earlier_request_was_given_is_not_confirmed) {
    for (size_t i = 0; i < WAYS; i++) {
        (void)SAY(L("FLUSHALL"));
        set_own(TOKEN, true);
        not_believed(ways[i](TOKEN, TOKEN, QUIET));
        K_HOLDS(TOKEN);
        later(QUIET_MS);
        set_own(TOKEN, true);
        given(ways[i](TOKEN, TOKEN, QUIET));
    }
}

TEST(what_a_first_request_has_set_is_not_confirmed) {
    set_own(TOKEN, false);
    withheld_for(say_take(TOKEN, TOKEN, QUIET), QUIET_MS);
    S_HAS("token", NULL);
    later(QUIET_MS);
    set_own(TOKEN, false);
    given(say_take(TOKEN, TOKEN, QUIET));
}

TEST(a_stamp_of_its_own_is_not_confirmed_and_stays_a_stamp) {
    set_own(STAMP, true);
    not_believed(say_take(TOKEN, STAMP, QUIET));
    not_believed(say_take(TOKEN, TOKEN, QUIET)); /* it would become a token */
    K_HOLDS(STAMP);
}

/* ---- beside others -------------------------------------------------------------------------------- */

TEST(what_another_holds_is_held) {
    int64_t left;
    (void)SAY(L("PSETEX"), L(K), L("4000"), L(THIRD));
    for (size_t i = 0; i < WAYS; i++) {
        assert_int_equal(status_of(ways[i](TOKEN, TOKEN, QUIET), &left), 0);
        assert_int_equal(left, 4000);
    }
}

TEST(who_waits_stands_in_line_meanwhile) {
    listener inbox;
    listen_to(&inbox, INBOX);
    withheld_for(say_join(TOKEN, TOKEN, QUIET), QUIET_MS);
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 1);
    later(QUIET_MS);
    assert_int_equal(number_of(tl__reply_item(say_take(OTHER, OTHER, QUIET), 0)), 0); /* his turn */
    K_HOLDS(TOKEN);
    given(say_join(TOKEN, TOKEN, QUIET));
    fake_conn_close(inbox.conn);
}

/* ---- servers that can't be asked ------------------------------------------------------------------ */

TEST(a_server_that_does_not_tell_who_it_is_gives_nothing) {
    static const uint32_t levels[] = {FAKE_LEVEL(2, 6, 17), FAKE_LEVEL(3, 0, 7),
                                      FAKE_LEVEL(3, 2, 13), NEWEST};
    int64_t left;
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        fake_redis_set_level(server, levels[i]);
        fake_redis_set_nameless(server, levels[i] == NEWEST);
        assert_int_equal(status_of(say_take(TOKEN, TOKEN, QUIET), &left), -5);
        K_HOLDS(NULL);
        if (levels[i] < FAKE_LEVEL(3, 2, 0))
            continue; /* there is no line */
        assert_int_equal(status_of(say_join(TOKEN, TOKEN, QUIET), &left), -5);
        K_HOLDS(NULL);
    }
}

TEST(from_4_0_on_it_can_be_had) {
    static const uint32_t levels[] = {FAKE_LEVEL(4, 0, 0), FAKE_LEVEL(5, 0, 0),
                                      FAKE_LEVEL(6, 2, 14), NEWEST};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        (void)SAY(L("FLUSHALL"));
        fake_redis_set_level(server, levels[i]);
        settle();
        for (size_t way = 0; way < WAYS; way++)
            given(ways[way](TOKEN, TOKEN, QUIET));
    }
}

/* The end of the error names the command, for those who are to allow it. */
static void refused(const char *command, const char *ends) {
    settle();
    fake_redis_deny(server, command, FAKE_NOPERM);
    for (size_t i = 0; i < WAYS; i++) {
        const tl_reply *r = ways[i](TOKEN, TOKEN, QUIET);
        assert_int_equal(r->type, TL_REPLY_ERROR);
        assert_true(r->text.n > strlen(ends));
        assert_memory_equal(r->text.p + r->text.n - strlen(ends), ends, strlen(ends));
        fake_redis_deny(server, command, FAKE_ALLOW);
        K_HOLDS(NULL);
        fake_redis_deny(server, command, FAKE_NOPERM);
    }
    fake_redis_deny(server, command, FAKE_ALLOW);
}

TEST(who_may_not_ask_gets_nothing) {
    refused("INFO", " (info)");
}

/* What can't be noted would be new each time. */
TEST(what_cannot_be_noted_is_refused) {
    restarts();
    fake_redis_set_replica(server, true);
    for (size_t i = 0; i < WAYS; i++) {
        const tl_reply *r = ways[i](TOKEN, TOKEN, QUIET);
        assert_int_equal(r->type, TL_REPLY_ERROR);
        assert_non_null(memmem(r->text.p, r->text.n, "READONLY", 8));
    }
    fake_redis_set_replica(server, false);
    settle();
}
