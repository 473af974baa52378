/*
 * The script that lets a lock rest, executed: what it leaves in K and S, what it replies, and that no late request of
 * the token that rests ends the rest, shortens it or makes it longer.
 */
#include <stdlib.h>

#include "protocol/protocol.h"
#include "script_feed.h"

#define OWNER "host 42 demo"
#define RESTS "resting " NOW " " TOKEN
#define D_MS 600000              /* for so long from now on */
#define END "1700000600000000"   /* until then */
#define OLD FAKE_LEVEL(2, 6, 17) /* a script there can't ask for the time before it writes */

TESTS_WITH(serve, end_serving);

typedef struct {
    const char *left_ms, *latest, *sender, *fence, *whole, *entry;
    bool alone; /* K alone */
} request;

static const tl_reply *rest_as(request r) {
    tl_bytes argv[16] = {L("EVAL"), tl__script_text(TL_SCRIPT_REST), r.alone ? L("1") : L("3"),
                         L(K)};
    size_t n = 4;
    if (!r.alone) {
        argv[n++] = L(S);
        argv[n++] = L(LINE);
    }
    argv[n++] = L(TOKEN);
    argv[n++] = tl__bytes_of(r.left_ms ? r.left_ms : "600000");
    argv[n++] = tl__bytes_of(r.latest ? r.latest : "0");
    argv[n++] = tl__bytes_of(r.sender ? r.sender : NOW);
    argv[n++] = L(OWNER);
    argv[n++] = tl__bytes_of(r.fence ? r.fence : "0");
    if (r.whole || r.entry)
        argv[n++] = tl__bytes_of(r.whole ? r.whole : "");
    if (r.entry)
        argv[n++] = tl__bytes_of(r.entry);
    return say(argv, n);
}

static int64_t rest(void) {
    return number_of(rest_as((request){0}));
}

/* For 4 s more. */
static void have_k(void) {
    (void)SAY(L("PSETEX"), L(K), L("4000"), L(TOKEN));
}

/* As the first renewal leaves it. */
static void have_s(void) {
    (void)SAY(L("HMSET"), L(S), L("token"), L(TOKEN), L("value"), L(TOKEN), L("until"),
              L("1700000004000000"), L("fence"), L("7"), L("since"), L("1699999998000000"),
              L("owner"), L("of S"));
}

static void have(void) {
    have_k();
    have_s();
}

static int64_t pttl(const char *key) {
    return number_of(SAY(L("PTTL"), tl__bytes_of(key)));
}

/* It rests until END, and 1 ms longer in K than S binds. */
static void assert_rests(void) {
    K_HOLDS(RESTS);
    assert_int_equal(pttl(K), D_MS + 1);
    S_HAS("token", RESTS);
    S_HAS("value", RESTS);
    S_HAS("until", END);
    S_HAS("spent", TOKEN);
    S_HAS("claim", "");
}

static void assert_refused_with(const tl_reply *reply, const char *word) {
    assert_int_equal(reply->type, TL_REPLY_ERROR);
    assert_true(tl__bytes_has_word(reply->text, word));
}

/* ---- each case ----------------------------------------------------------------------------------- */

TEST(what_is_ours_rests) {
    have();
    assert_int_equal(rest(), 1);
    assert_rests();
    S_HAS("fence", "7");
    S_HAS("since", "1699999998000000");
    S_HAS("owner", "of S");
    assert_int_equal(pttl(S), D_MS + 5400000);
}

/* The first renewal has not come yet, or what S says is of another hold. */
TEST(what_is_ours_rests_without_a_sidecar) {
    static const char *const fence[] = {"0", "1699999999000000", "1800000000000000"};
    static const char *const since[] = {NOW, "1699999999000000", NOW};
    for (size_t i = 0; i < 3; i++) {
        (void)SAY(L("DEL"), L(S));
        have_k();
        assert_int_equal(number_of(rest_as((request){.fence = fence[i]})), 1);
        assert_rests();
        S_HAS("fence", fence[i]);
        S_HAS("since", since[i]);
        S_HAS("owner", OWNER);
    }
}

TEST(of_an_older_holder_in_the_sidecar_only_a_greater_number_stays) {
    static const char *const fence[] = {"6", "8"};
    for (size_t i = 0; i < 2; i++) {
        have();
        (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER), L("value"), L(OTHER));
        assert_int_equal(number_of(rest_as((request){.fence = fence[i]})), 1);
        assert_rests();
        S_HAS("fence", i == 0 ? "7" : "8");
        S_HAS("owner", OWNER);
    }
}

TEST(another_s_lock_does_not_rest) {
    listener waiter;
    listen_to(&waiter, S);
    have_s();
    (void)SAY(L("HMSET"), L(S), L("token"), L(OTHER), L("value"), L(OTHER));
    (void)SAY(L("PSETEX"), L(K), L("4000"), L(OTHER));
    assert_int_equal(rest(), 0);
    K_HOLDS(OTHER);
    assert_int_equal(pttl(K), 4000);
    S_HAS("token", OTHER);
    S_HAS("until", "1700000004000000");
    assert_int_equal(waiter.count, 0);
}

TEST(a_rest_of_another_is_another_s) {
    (void)SAY(L("PSETEX"), L(K), L("4000"), L("resting " NOW " " OTHER));
    assert_int_equal(rest(), 0);
    K_HOLDS("resting " NOW " " OTHER);
    assert_int_equal(pttl(K), 4000);
}

/* An acquire for the token may be in flight yet. */
TEST(what_is_absent_does_not_rest_and_its_token_is_spent) {
    assert_int_equal(rest(), -1);
    K_HOLDS(NULL);
    S_HAS("spent", TOKEN);
    S_HAS("token", NULL);
    assert_int_equal(pttl(S), 3600000);
    assert_int_equal(number_of(rest_as((request){.alone = true})), -1);
}

/* Somebody deleted K. S would keep others out for nobody. */
TEST(a_sidecar_that_names_us_binds_nobody_once_the_key_is_gone) {
    static const char *const k[] = {NULL, OTHER};
    listener waiter;
    listen_to(&waiter, S);
    for (size_t i = 0; i < 2; i++) {
        have_s();
        if (k[i])
            (void)SAY(L("SET"), L(K), tl__bytes_of(k[i]));
        assert_int_equal(rest(), k[i] ? 0 : -1);
        K_HOLDS(k[i]);
        S_HAS("token", "");
        S_HAS("spent", TOKEN);
        assert_int_equal(waiter.count, i + 1);
    }
}

TEST(a_stamp_that_the_sidecar_knows_rests) {
    have_s();
    (void)SAY(L("HSET"), L(S), L("value"), L("1700000004"));
    (void)SAY(L("SET"), L(K), L("1700000004"));
    assert_int_equal(rest(), 1);
    assert_rests();
}

/* ---- repeated ------------------------------------------------------------------------------------ */

typedef struct {
    size_t count;
    char text[512];
} writes;

static void note_write(void *ctx, uint64_t unit, int db, const tl_bytes *argv, size_t argc) {
    writes *w = ctx;
    (void)unit, (void)db, (void)argc;
    if (tl__bytes_eq(argv[0], L("PUBLISH")))
        return;
    size_t n = strlen(w->text);
    w->count++;
    (void)snprintf(w->text + n, sizeof w->text - n, "%.*s %.*s;", (int)argv[0].n, argv[0].p,
                   (int)argv[1].n, argv[1].p);
}

/* Its reply was lost. WAIT behind it needs a write to wait for. */
TEST(a_repeated_rest_moves_nothing_and_writes) {
    for (int alone = 0; alone <= 1; alone++) {
        writes w = {0};
        have();
        fake_redis_set_time(server, NOW_US);
        assert_int_equal(number_of(rest_as((request){.alone = alone})), 1);
        fake_redis_set_time(server, NOW_US + 2000000);
        fake_redis_on_write(server, note_write, &w);
        assert_int_equal(number_of(rest_as((request){.alone = alone})), 1);
        fake_redis_on_write(server, NULL, NULL);
        assert_int_not_equal(w.count, 0);
        fake_redis_set_time(server, NOW_US);
        K_HOLDS(RESTS);
        assert_int_equal(pttl(K), D_MS + 1);
        if (!alone)
            assert_rests();
    }
}

/* The first request was of K alone, or S has been evicted. */
TEST(a_repeated_rest_writes_the_sidecar) {
    static const bool names_us[] = {true, false};
    for (size_t i = 0; i < 2; i++) {
        have();
        assert_int_equal(number_of(rest_as((request){.alone = true})), 1);
        if (!names_us[i])
            (void)SAY(L("DEL"), L(S));
        assert_int_equal(rest(), 1);
        assert_rests();
        S_HAS("owner", names_us[i] ? "of S" : OWNER);
    }
}

TEST(a_rest_that_is_over_is_absent) {
    have();
    assert_int_equal(rest(), 1);
    fake_redis_set_time(server, NOW_US + (D_MS + 2) * INT64_C(1000));
    assert_int_equal(rest(), -1);
    K_HOLDS(NULL);
}

/* ---- refusals ------------------------------------------------------------------------------------ */

/* What it has may be old. */
TEST(a_replica_says_nothing_of_a_rest) {
    static const char *const k[] = {TOKEN, RESTS, OTHER, NULL};
    for (size_t i = 0; i < 4; i++)
        for (int alone = 0; alone <= 1; alone++)
            for (int named = 0; named <= 1; named++) {
                fake_redis_set_replica(server, false);
                (void)SAY(L("DEL"), L(K), L(S));
                if (k[i])
                    (void)SAY(L("PSETEX"), L(K), L("4000"), tl__bytes_of(k[i]));
                if (named)
                    have_s();
                fake_redis_set_replica(server, true);
                assert_refused_with(rest_as((request){.alone = alone}), "READONLY");
                K_HOLDS(k[i]);
            }
}

TEST(where_memory_is_full_it_does_not_rest_and_nothing_has_changed) {
    have();
    fake_redis_set_oom(server, true);
    assert_refused_with(rest_as((request){0}), "OOM");
    K_HOLDS(TOKEN);
    assert_int_equal(pttl(K), 4000);
    S_HAS("token", TOKEN);
    S_HAS("spent", NULL);
}

TEST(where_memory_is_full_a_repeated_rest_is_one) {
    have();
    assert_int_equal(rest(), 1);
    fake_redis_set_oom(server, true);
    assert_int_equal(rest(), 1);
    fake_redis_set_oom(server, false);
    assert_rests();
}

TEST(a_sidecar_of_another_kind_is_left_as_it_is) {
    (void)SAY(L("SET"), L(S), L("a stranger's"));
    have_k();
    for (int i = 0; i < 2; i++) {
        assert_int_equal(rest(), 1);
        K_HOLDS(RESTS);
        assert_int_equal(pttl(K), D_MS + 1);
        holds("S", SAY(L("GET"), L(S)), "a stranger's");
        assert_int_equal(pttl(S), -1);
    }
}

TEST(a_key_of_another_kind_is_another_s) {
    (void)SAY(L("RPUSH"), L(K), L("x"));
    assert_int_equal(rest(), 0);
    assert_int_equal(number_of(SAY(L("LLEN"), L(K))), 1);
}

TEST(what_may_not_be_read_says_nothing) {
    static const char *const denied[] = {"GET", "HMGET"};
    have();
    for (size_t i = 0; i < 2; i++) {
        fake_redis_deny(server, denied[i], FAKE_NOPERM);
        assert_int_equal(rest_as((request){0})->type, TL_REPLY_ERROR);
        fake_redis_deny(server, denied[i], FAKE_ALLOW);
        K_HOLDS(TOKEN);
    }
}

/* K is enough by itself. */
TEST(where_the_sidecar_can_not_be_written_it_rests_even_so) {
    have();
    fake_redis_deny(server, "HMSET ZRANGE ZREM PUBLISH", FAKE_NOPERM);
    assert_int_equal(rest(), 1);
    K_HOLDS(RESTS);
    assert_int_equal(pttl(K), D_MS + 1);
}

TEST(where_the_sidecar_can_not_be_told_that_the_key_is_gone_it_is_gone_even_so) {
    have_s();
    fake_redis_deny(server, "HMSET", FAKE_NOPERM);
    assert_int_equal(rest(), -1);
}

/* ---- the end ------------------------------------------------------------------------------------- */

static void assert_ends(int64_t ms) {
    char until[32];
    (void)snprintf(until, sizeof until, "%lld", (long long)(NOW_US + ms * 1000));
    K_HOLDS(RESTS);
    assert_int_equal(pttl(K), ms + 1);
    S_HAS("until", until);
}

TEST(it_ends_by_the_server_s_clock_at_the_latest) {
    have();
    (void)rest_as((request){.latest = "1700000500000000"});
    assert_ends(500000);
    (void)SAY(L("DEL"), L(K));
    have();
    (void)rest_as((request){.latest = "1700000700000000"}); /* its clock has been set back */
    assert_ends(D_MS);
    (void)SAY(L("DEL"), L(K));
    have();
    (void)rest_as((request){.latest = "1600000000000000"}); /* it is over */
    assert_ends(0);
}

/* The holder was told the token by another process. */
TEST(it_counts_from_the_acquire_that_the_server_has_noted) {
    have(); /* 2 s ago, or up to a second later */
    (void)rest_as((request){.whole = "300000"});
    assert_ends(299000);
    (void)SAY(L("DEL"), L(K), L(S));
    have_k(); /* it has noted none: from the adoption */
    (void)rest_as((request){.whole = "300000"});
    assert_ends(D_MS);
    (void)SAY(L("DEL"), L(K), L(S));
    have();
    (void)SAY(L("HSET"), L(S), L("token"), L(OTHER)); /* of another */
    (void)rest_as((request){.whole = "300000"});
    assert_ends(D_MS);
    (void)SAY(L("DEL"), L(K), L(S));
    have();
    (void)SAY(L("HSET"), L(S), L("since"), L("x"));
    (void)rest_as((request){.whole = "300000"});
    assert_ends(D_MS);
}

/* The sender takes the server's clock for later than it is, by more than it did when it acquired. */
TEST(below_3_2_it_ends_no_earlier_than_the_sender_s_clock_says) {
    static const char sender[] = "1700000003000000";
    have();
    fake_redis_set_level(server, OLD);
    assert_int_equal(number_of(rest_as((request){.latest = END, .sender = sender})), 1);
    K_HOLDS("resting 1700000003000000 " TOKEN);
    assert_true(pttl(K) >= D_MS && pttl(K) <= D_MS + 1);
    S_HAS("until", "1700000603000000");
}

/* ---- late requests of the old token -------------------------------------------------------------- */

/* Each as it was sent while the token held the lock. Lifetimes shorter and longer than the rest. */
static void acquire_again(const char *px) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S), L(F), L(LINE),
              L(TOKEN), tl__bytes_of(px), L("0"), L(NOW), L(NOW), L(OWNER));
}

static void set_nx(const char *px) {
    (void)SAY(L("SET"), L(K), L(TOKEN), L("NX"), L("PX"), tl__bytes_of(px));
}

static void renew(const char *px) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RENEW), L("2"), L(K), L(S), L(NOW), L("5400000"),
              L(OWNER), L(TOKEN), L(TOKEN), tl__bytes_of(px), tl__bytes_of(px), L("7"), L("0"),
              L(NOW));
}

static void refresh(const char *px) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_REFRESH), L("2"), L(K), L(S), L(TOKEN), L("0"),
              tl__bytes_of(px));
}

static void join(const char *px) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_JOIN), L("4"), L(K), L(S), L(F), L(LINE),
              L(TOKEN), tl__bytes_of(px), L("0"), L(OWNER), L("1"), L("tidelock:inbox:a"), L(""));
}

static void release(const char *px) {
    (void)px;
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
              L(TOKEN));
}

static void release_in_vain(const char *px) {
    (void)px;
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
              L(TOKEN), L(""), L(""));
}

static void unvote(const char *px) {
    (void)px;
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_UNVOTE), L("3"), L(K), L(S), L(LINE), L(TOKEN));
}

static void unvote_in_vain(const char *px) {
    (void)px;
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_UNVOTE), L("3"), L(K), L(S), L(LINE), L(TOKEN),
              L(""), L(""));
}

static void vote(const char *px) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_VOTE), L("3"), L(K), L(S), L(F), L(TOKEN),
              tl__bytes_of(px), L("0"), L(NOW), L(NOW), L(OWNER), L("1"), L("1"), L("0"));
}

static void hold(const char *px, const char *how) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_HOLD), L("1"), L(K), L(TOKEN), tl__bytes_of(px),
              L("0"), tl__bytes_of(how));
}

static void hold_take(const char *px) {
    hold(px, "take");
}

static void hold_keep(const char *px) {
    hold(px, "keep");
}

static void bind(const char *px) {
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_BIND), L("1"), L(S), L(TOKEN), tl__bytes_of(px),
              L(NOW), L(NOW), L("9"), L(OWNER));
}

static void unbind(const char *px) {
    (void)px;
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_UNBIND), L("1"), L(S), L(TOKEN));
}

static void free_it(const char *px) {
    (void)px;
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_FREE), L("1"), L(K), L(TOKEN), L(S));
}

static void rest_again(const char *px) {
    (void)rest_as((request){.left_ms = px});
}

/* Another client looks. */
static int64_t others_take(void) {
    const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_ACQUIRE), L("4"), L(K), L(S),
                                L(F), L(LINE), L(OTHER), L("4000"), L("0"), L(NOW), L(NOW), L(""));
    return reply->type == TL_REPLY_STRING ? 1 : number_of(tl__reply_item(reply, 0));
}

static void rest_outlasts(void (*late)(const char *px)) {
    static const char *const px[] = {"1000", "9000000"};
    for (size_t i = 0; i < 2; i++)
        for (int deleted = 0; deleted <= 1; deleted++) {
            fake_redis_set_time(server, NOW_US);
            (void)SAY(L("DEL"), L(K), L(S), L(LINE), L(F));
            have();
            assert_int_equal(rest(), 1);
            if (deleted) /* by a person; S still keeps others out */
                (void)SAY(L("DEL"), L(K));
            late(px[i]);
            if (!deleted)
                assert_rests();
            if (deleted && SAY(L("GET"), L(K))->type == TL_REPLY_NIL) {
                S_HAS("token", RESTS);
                S_HAS("until", END);
            }
            /* Not before its end, and then at once. */
            fake_redis_set_time(server, NOW_US + D_MS * INT64_C(1000));
            assert_int_equal(others_take(), 0);
            if (deleted)
                continue;
            fake_redis_set_time(server, NOW_US + (D_MS + 2) * INT64_C(1000));
            assert_int_equal(others_take(), 1);
        }
}

#define OUTLASTS(late)                                                                             \
    TEST(a_rest_outlasts_a_late_##late) {                                                          \
        rest_outlasts(late);                                                                       \
    }

OUTLASTS(acquire_again)
OUTLASTS(set_nx)
OUTLASTS(renew)
OUTLASTS(refresh)
OUTLASTS(join)
OUTLASTS(release)
OUTLASTS(release_in_vain)
OUTLASTS(unvote)
OUTLASTS(unvote_in_vain)
OUTLASTS(vote)
OUTLASTS(hold_take)
OUTLASTS(hold_keep)
OUTLASTS(bind)
OUTLASTS(unbind)
OUTLASTS(free_it)
OUTLASTS(rest_again)

/* ---- waiters ------------------------------------------------------------------------------------- */

#define A "tidelock:inbox:a"
#define ENTRY(token, inbox) token " 9000 1 " inbox " owner"

static void stand_in_line(void) {
    (void)SAY(L("ZADD"), L(LINE), L("5"), L(ENTRY(OTHER, A)));
    (void)SAY(L("HMSET"), L(S), L("line"), L(F));
}

/* Nothing is granted before the rest ends; who queues is told to look, and those outside the queue hear S. */
TEST(waiters_are_told_to_look) {
    listener a, waiter;
    listen_to(&a, A);
    listen_to(&waiter, S);
    have();
    stand_in_line();
    assert_int_equal(rest(), 1);
    assert_rests();
    assert_int_equal(a.count, 1);
    assert_string_equal(a.last, "look " K);
    assert_int_equal(waiter.count, 1);
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 1);
    S_HAS("line", F);
}

/* The first waiter is granted the lock when it looks at the end, and not before. */
TEST(a_waiter_in_the_queue_acquires_at_the_end) {
    listener a;
    listen_to(&a, A);
    have();
    stand_in_line();
    assert_int_equal(rest(), 1);
    for (int i = 0; i < 2; i++) {
        fake_redis_set_time(server, NOW_US + (D_MS + 2 * i) * INT64_C(1000));
        const tl_reply *reply = SAY(L("EVAL"), tl__script_text(TL_SCRIPT_JOIN), L("4"), L(K), L(S),
                                    L(F), L(LINE), L(OTHER), L("9000"), L("0"), L("owner"), L("1"),
                                    L(A), L("5"));
        assert_int_equal(number_of(tl__reply_item(reply, 0)), i);
        assert_int_equal(number_of(tl__reply_item(reply, 2)), i == 0 ? 1 : 9000);
    }
    K_HOLDS(OTHER);
}

/* An entry of the token itself may have come back. `spent` alone would not keep it from a grant for long. */
TEST(its_own_entry_leaves_the_queue) {
    have();
    stand_in_line();
    (void)SAY(L("ZADD"), L(LINE), L("4"), L(ENTRY(TOKEN, A)));
    assert_int_equal(number_of(rest_as((request){.entry = ENTRY(TOKEN, A)})), 1);
    assert_rests();
    assert_int_equal(number_of(SAY(L("ZCARD"), L(LINE))), 1);
}

/* Somebody deleted K. Another's release and its grant heed S. */
TEST(nothing_is_granted_from_the_queue_while_it_rests_though_the_key_is_gone) {
    listener a;
    listen_to(&a, A);
    have();
    stand_in_line();
    assert_int_equal(rest(), 1);
    (void)SAY(L("DEL"), L(K));
    (void)SAY(L("EVAL"), tl__script_text(TL_SCRIPT_RELEASE), L("4"), L(K), L(S), L(F), L(LINE),
              L(THIRD), L(""), L(""));
    K_HOLDS(NULL);
    S_HAS("token", RESTS);
    assert_int_equal(others_take(), 0);
}
