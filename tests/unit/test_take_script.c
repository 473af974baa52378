/*
 * The script that acquires a lock, executed: a take that was in flight for long finds its own token bound,
 * and K deleted meanwhile.
 */
#include <stdlib.h>

#include "script_feed.h"

#define OTHER "00000000-0000-4000-8000-0000000000bb"
#define NOW_US INT64_C(1700000000000000)
#define NOW "1700000000000000"
#define EARLIER "1699999998000000" /* 2 s */
#define NEW FAKE_LEVEL(7, 0, 0)
#define OLD FAKE_LEVEL(2, 6, 17) /* a script there can't ask for the time before it writes */

/* K has been deleted; S binds others for the token until then. */
static void begin(uint32_t level, const char *until_us) {
    server = fake_redis_new();
    fake_redis_set_level(server, level);
    conn = fake_redis_connect(server, NULL, NULL);
    fake_redis_set_time(server, NOW_US);
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(TOKEN), L("until"),
              tl__bytes_of(until_us), L("fence"), L("7"));
}

static void end(void) {
    fake_conn_close(conn);
    fake_redis_free(server);
}

/* For 4 s, by the sender's idea of the time. */
static const tl_reply *say_take(const char *token, const char *told) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_TAKE), L("2"), L(K), L(S), tl__bytes_of(token),
               L("4000"), L("0"), tl__bytes_of(told), tl__bytes_of(told), L("owner"));
}

static int64_t status_of(const tl_reply *reply) {
    int64_t status = 0;
    assert_true(tl__reply_int(tl__reply_item(reply, 0), &status));
    return status;
}

static int64_t take(const char *token, const char *told) {
    return status_of(say_take(token, told));
}

static void assert_binds_until(const char *until_us) {
    tl_bytes until = {0};
    assert_true(tl__reply_text(SAY(L("HGET"), L(S), L("until")), &until));
    assert_true(tl__bytes_eq(until, tl__bytes_of(until_us)));
}

/* Its holder believes in what it was told later: that it has been extended. */
TEST(a_late_take_of_the_same_token_moves_nothing_back) {
    static const char extended[] = "1700000060000000";
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        begin(levels[i], extended);
        assert_int_equal(take(TOKEN, EARLIER), 1);
        assert_binds_until(extended);
        (void)SAY(L("DEL"), L(K));
        assert_int_equal(take(OTHER, NOW), 0);
        end();
    }
}

/* Where the script can't ask for the time: for how long the take in flight was sent. */
TEST(a_take_of_the_same_token_binds_for_longer) {
    begin(OLD, "1700000001000000");
    assert_int_equal(take(TOKEN, EARLIER), 1);
    assert_binds_until("1700000002000000");
    end();
    begin(NEW, "1700000001000000");
    assert_int_equal(take(TOKEN, EARLIER), 1);
    assert_binds_until("1700000004000000");
    end();
}

/* It is to be had again only if S can be told, so that no other takes it should K be deleted. */
TEST(a_holder_for_longer_than_s_can_be_told_is_refused) {
    static const uint32_t levels[] = {NEW, OLD};
    for (size_t i = 0; i < sizeof levels / sizeof *levels; i++) {
        begin(levels[i], "1700000001000000");
        (void)SAY(L("PSETEX"), L(K), L("9000"), L(TOKEN));
        fake_redis_set_oom(server, true);
        if (levels[i] == OLD) {
            assert_int_equal(say_take(TOKEN, NOW)->type, TL_REPLY_ERROR);
            fake_redis_set_oom(server, false);
        }
        assert_int_equal(take(TOKEN, NOW), 1);
        assert_binds_until(levels[i] == OLD ? "1700000004000000" : "1700000001000000");
        end();
    }
}

/* Another's is not there any more when that is over. */
TEST(a_take_after_anothers_binds_for_its_own_time) {
    begin(OLD, "1699999999000000");
    assert_int_equal(take(OTHER, NOW), 1);
    assert_binds_until("1700000004000000");
    end();
}
