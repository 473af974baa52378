/*
 * The script that releases locks, executed: what it leaves behind, and to whom it hands over. Where the sidecar can't
 * be written, a token can be nobody else's, but a legacy lock may hold the same bytes as ours did.
 */
#include "script_feed.h"

#define STAMP "1700000004"

static int set_up(void **state) {
    (void)serve(state);
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(STAMP), L("until"),
              L("1700000004000000"), L("fence"), L("7"));
    return 0;
}

TESTS_WITH(set_up, end_serving);

static const tl_reply *drop(void) {
    return SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
               L(TOKEN));
}

static bool is_there(void) {
    return SAY(L("GET"), L(K))->type == TL_REPLY_STRING;
}

TEST(a_stamp_stays_where_the_sidecar_can_not_be_told_that_it_is_over) {
    (void)SAY(L("SET"), L(K), L(STAMP));
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    const tl_reply *reply = drop();
    assert_int_equal(reply->type, TL_REPLY_ERROR);
    assert_true(is_there());
    fake_redis_deny(server, "HMSET", FAKE_ALLOW);
    assert_int_equal(number_of(drop()), 1);
    assert_false(is_there());
}

TEST(what_another_writes_in_the_same_words_is_not_deleted_by_the_second_drop) {
    (void)SAY(L("SET"), L(K), L(STAMP));
    assert_int_equal(number_of(drop()), 1);
    (void)SAY(L("SET"), L(K), L(STAMP));
    (void)drop();
    assert_true(is_there());
}

TEST(a_token_is_released_even_so) {
    (void)SAY(L("SET"), L(K), L(TOKEN));
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    assert_int_equal(number_of(drop()), 1);
    assert_false(is_there());
}

/* It may know an older K, or none, whatever else is refused first. */
TEST(a_replica_says_nothing_of_a_lock_though_the_sidecar_can_not_be_written) {
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    assert_int_equal(number_of(drop()), -1);
    fake_redis_set_replica(server, true);
    const tl_reply *reply = drop();
    assert_int_equal(reply->type, TL_REPLY_ERROR);
    assert_true(tl__bytes_has_word(reply->text, "READONLY"));
}

/* ---- what it leaves in the sidecar ------------------------------------------------------------- */

typedef struct {
    size_t count;
    char last[32];
} writes;

static void note_write(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc) {
    writes *w = ctx;
    (void)unit, (void)db, (void)argc;
    if (argv[0].n == 7 && memcmp(argv[0].p, "PUBLISH", 7) == 0)
        return;
    w->count++;
    (void)snprintf(w->last, sizeof w->last, "%.*s", (int)argv[0].n, argv[0].p);
}

/* From one of whom a request may still be on its way: its entry in the line, or none. */
static int64_t drop_in_vain(const char *entry) {
    return number_of(SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F),
                         L(LINE), L(TOKEN), L(""), tl__bytes_of(entry)));
}

TEST(a_release_of_what_the_sidecar_does_not_know_writes_no_more_than_the_deletion) {
    writes w = {0};
    listener waiter;
    (void)SAY(L("DEL"), L(S));
    (void)SAY(L("SET"), L(K), L(TOKEN));
    listen_to(&waiter, S);
    fake_redis_on_write(server, note_write, &w);
    assert_int_equal(number_of(drop()), 1);
    fake_redis_on_write(server, NULL, NULL);
    assert_int_equal(w.count, 1);
    assert_string_equal(w.last, "DEL");
    assert_int_equal(waiter.count, 1);
}

/* By a native take, which found out too late. */
TEST(what_was_set_beside_a_sidecar_of_another_kind_is_released) {
    for (int in_vain = 0; in_vain <= 1; in_vain++) {
        (void)SAY(L("SET"), L(S), L("a stranger's"));
        (void)SAY(L("SET"), L(K), L(TOKEN));
        assert_int_equal(in_vain ? drop_in_vain("") : number_of(drop()), 1);
        K_HOLDS(NULL);
        holds("S", SAY(L("GET"), L(S)), "a stranger's");
        assert_int_equal(number_of(SAY(L("PTTL"), L(S))), -1);
    }
}

TEST(the_sidecar_of_another_is_left_as_it_is) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER), L("spent"), L(THIRD), L("claim"), L("inbox"));
    (void)SAY(L("SET"), L(K), L(TOKEN));
    assert_int_equal(number_of(drop()), 1);
    S_HAS("token", OTHER);
    S_HAS("spent", THIRD);
    S_HAS("claim", "inbox");
}

TEST(a_token_that_the_sidecar_knows_is_spent) {
    (void)SAY(L("HMSET"), L(S), L("value"), L(TOKEN), L("claim"), L("inbox"));
    (void)SAY(L("SET"), L(K), L(TOKEN));
    assert_int_equal(number_of(drop()), 1);
    S_HAS("token", "");
    S_HAS("spent", TOKEN);
    S_HAS("claim", "");
}

TEST(a_token_that_was_asked_for_in_vain_is_spent) {
    static const char *const k[] = {NULL, TOKEN, OTHER};
    static const int64_t status[] = {-1, 1, -99};
    for (size_t i = 0; i < 3; i++) {
        (void)SAY(L("DEL"), L(S), L(K));
        if (k[i])
            (void)SAY(L("SET"), L(K), tl__bytes_of(k[i]));
        assert_int_equal(drop_in_vain(""), status[i]);
        K_HOLDS(k[i] && status[i] != 1 ? k[i] : NULL);
        S_HAS("spent", TOKEN);
        assert_int_equal(number_of(SAY(L("PTTL"), L(S))), 3600000);
    }
}

/* ---- how long the sidecar stays ------------------------------------------------------------------ */

static int64_t sidecar_left(void) {
    return number_of(SAY(L("PTTL"), L(S)));
}

/* As one who says for how long a request for the token may still come. */
static void drop_for(const char *stays_ms, const char *entry) {
    tl_bytes argv[] = {L("EVAL"),
                       tl__script_text(TL_SCRIPT_RELEASE),
                       L("4"),
                       L(K),
                       L(S),
                       L(F),
                       L(LINE),
                       L(TOKEN),
                       tl__bytes_of(stays_ms),
                       tl__bytes_of(entry ? entry : "")};
    (void)SAY(L("PEXPIRE"), L(S), L("5400000"));
    (void)say(argv, entry ? 10 : 9);
}

TEST(the_sidecar_of_a_released_lock_goes_when_no_request_can_come_any_more) {
    for (int renewed = 0; renewed <= 1; renewed++) {
        (void)SAY(L("HMSET"), L(S), L("token"), renewed ? L(TOKEN) : L(""), L("value"), L(TOKEN));
        (void)SAY(L("SET"), L(K), L(TOKEN));
        drop_for("62000", renewed ? NULL : "");
        K_HOLDS(NULL);
        S_HAS("spent", TOKEN);
        assert_int_equal(sidecar_left(), 62000);
    }
    drop_for("62000", NULL); /* repeated: it is as late as this one */
    S_HAS("spent", TOKEN);
    assert_int_equal(sidecar_left(), 62000);
}

TEST(the_sidecar_stays_where_it_is_not_known_how_late_a_request_may_come) {
    (void)SAY(L("HMSET"), L(S), L("value"), L(TOKEN));
    (void)SAY(L("SET"), L(K), L(TOKEN));
    drop_for("", NULL);
    assert_int_equal(sidecar_left(), 5400000);
    fake_redis_set_level(server, FAKE_LEVEL(2, 8, 24)); /* or where no request is too late */
    drop_for("62000", NULL);
    S_HAS("spent", TOKEN);
    assert_int_equal(sidecar_left(), 5400000);
}

TEST(who_broke_the_lock_stays_noted) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(""), L("broken"), L("host 7 operator"));
    drop_for("62000", NULL);
    assert_int_equal(sidecar_left(), 5400000);
}

TEST(a_sidecar_that_binds_another_stays) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER), L("value"), L(OTHER));
    drop_for("62000", "");
    S_HAS("spent", TOKEN);
    assert_int_equal(sidecar_left(), 5400000);
}

TEST(a_sidecar_that_says_nothing_of_the_token_stays_as_it_is) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(""), L("spent"), L(THIRD));
    (void)SAY(L("SET"), L(K), L(TOKEN));
    drop_for("62000", NULL);
    S_HAS("spent", THIRD);
    assert_int_equal(sidecar_left(), 5400000);
}

/* ---- the line ---------------------------------------------------------------------------------- */

#define A "tidelock:inbox:a"
#define ENTRY(token, inbox) token " 9000 1 " inbox " owner"

static void stand_in_line(void) {
    (void)SAY(L("ZADD"), L(LINE), L("5"), L(ENTRY(OTHER, A)));
    (void)SAY(L("HMSET"), L(S), L("line"), L(F), L("value"), L(TOKEN));
}

/* Another stands there, and hears. */
static void have_line(listener *l) {
    listen_to(l, A);
    stand_in_line();
}

TEST(who_gives_up_leaves_the_line) {
    listener a;
    have_line(&a);
    (void)SAY(L("ZADD"), L(LINE), L("4"), L(ENTRY(TOKEN, A)));
    (void)SAY(L("SET"), L(K), L(THIRD));
    (void)drop_in_vain(ENTRY(TOKEN, A));
    K_HOLDS(THIRD);
    assert_int_equal(a.count, 0);
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 1);
}

TEST(a_release_hands_the_lock_to_who_stands_in_line) {
    listener a, waiter;
    have_line(&a);
    listen_to(&waiter, S);
    (void)SAY(L("SET"), L(K), L(TOKEN));
    assert_int_equal(number_of(drop()), 1);
    K_HOLDS(OTHER);
    S_HAS("token", OTHER);
    S_HAS("spent", TOKEN);
    assert_int_equal(a.count, 1);
    assert_int_equal(waiter.count, 0); /* it is not free */
}

TEST(a_release_of_what_another_holds_hands_nothing_over) {
    listener a;
    have_line(&a);
    (void)SAY(L("HMSET"), L(S), L("token"), L(""));
    (void)SAY(L("SET"), L(K), L(THIRD));
    (void)drop();
    K_HOLDS(THIRD);
    assert_int_equal(a.count, 0);
}

/* It looked when K had been deleted, and heard only then that it had been given the lock. */
TEST(a_release_hands_nothing_to_its_own_entry) {
    listener a;
    have_line(&a);
    (void)SAY(L("ZADD"), L(LINE), L("4"), L(ENTRY(TOKEN, A)));
    assert_int_equal(number_of(drop()), -1);
    K_HOLDS(OTHER);
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 0);
}

/* A counter that can't count: the lock is free even so, and said to be. */
TEST(what_can_not_be_handed_over_is_released) {
    listener a, waiter;
    have_line(&a);
    listen_to(&waiter, S);
    (void)SAY(L("SET"), L(F), L("x"));
    (void)SAY(L("SET"), L(K), L(TOKEN));
    assert_int_equal(number_of(drop()), 1);
    K_HOLDS(NULL);
    assert_int_equal(waiter.count, 1);
}

/* Commands of the line that are forbidden to this user: after the DEL nothing may fail. */
TEST(a_release_that_may_not_look_at_the_line_is_one_even_so) {
    static const char *const denied[] = {"ZRANGE", "ZREM", "ZCARD", "HGET", "PSETEX"};
    listener a, waiter;
    listen_to(&a, A);
    listen_to(&waiter, S);
    for (size_t i = 0; i < sizeof denied / sizeof *denied; i++) {
        stand_in_line();
        waiter.count = 0;
        (void)SAY(L("SET"), L(K), L(TOKEN));
        fake_redis_deny(server, denied[i], FAKE_NOPERM);
        assert_int_equal(number_of(drop()), 1);
        fake_redis_deny(server, denied[i], FAKE_ALLOW);
        if (!is_there() && waiter.count != 1)
            fail_msg("%s: free, and nobody is told", denied[i]);
        (void)SAY(L("DEL"), L(K), L(S), L(LINE));
    }
}

/* It was lost, and has been given to nobody since: a take of it may be on its way yet. */
TEST(a_token_that_no_longer_holds_the_lock_is_spent) {
    (void)SAY(L("DEL"), L(S));
    assert_int_equal(number_of(drop()), -1);
    S_HAS("spent", TOKEN);
}

TEST(a_sidecar_stays_while_others_wait) {
    stand_in_line();
    (void)SAY(L("HMSET"), L(S), L("token"), L(""), L("line"), L(F));
    (void)SAY(L("SET"), L(K), L(THIRD));
    drop_for("62000", "");
    S_HAS("spent", TOKEN);
    assert_int_equal(sidecar_left(), 5400000);
    (void)SAY(L("DEL"), L(LINE));
    drop_for("62000", "");
    assert_int_equal(sidecar_left(), 62000);
}

/* ---- a slot on the move -------------------------------------------------------------------------- */

#define SLOTS 16384

/* What isn't there any more can't be set there. */
static void begin_to_move(const char *gone) {
    fake_redis_set_cluster(server, true);
    fake_redis_move_slots(server, 0, SLOTS - 1, FAKE_SLOTS_MIGRATING, "10.0.0.9:6379");
    fake_redis_leave_keys(server, gone);
}

TEST(what_can_not_be_set_here_any_more_is_kept_for_nobody_and_who_is_first_is_told_to_look) {
    listener a, waiter;
    have_line(&a);
    listen_to(&waiter, S);
    (void)SAY(L("SET"), L(K), L(TOKEN));
    (void)SAY(L("SET"), L(F), L("5"));
    begin_to_move(NULL);
    assert_int_equal(number_of(drop()), 1);
    fake_redis_move_slots(server, 0, 0, FAKE_SLOTS_HERE, NULL);
    K_HOLDS(NULL);
    S_HAS("token", "");
    S_HAS("claim", "");
    S_HAS("line", F);
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 1);
    assert_string_equal(a.last, "look " K);
    assert_int_equal(a.count, 1);
    assert_int_equal(waiter.count, 1);
}

/* Half of its keys are at the other node: the server rejects the whole, and the client asks key by key. */
TEST(a_release_writes_nothing_where_the_line_has_left) {
    static const char *const k[] = {THIRD, TOKEN};
    listener a;
    have_line(&a);
    (void)SAY(L("ZADD"), L(LINE), L("4"), L(ENTRY(TOKEN, A)));
    for (size_t i = 0; i < 2; i++) {
        (void)SAY(L("SET"), L(K), tl__bytes_of(k[i]));
        begin_to_move(LINE);
        const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K),
                                    L(S), L(F), L(LINE), L(TOKEN), L(""), L(ENTRY(TOKEN, A)));
        holds("reply", &(tl_reply){.type = TL_REPLY_STRING, .text = reply->text},
              "TRYAGAIN Multiple keys request during rehashing of slot");
        K_HOLDS(k[i]);
        S_HAS("spent", NULL);
    }
}
