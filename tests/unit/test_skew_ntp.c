/*
 * NTP: each way in which an answer is no evidence is told apart and never becomes an offset; what is
 * evidence holds the truth, whatever the delays are. The packets are written here by hand.
 */
#include <string.h>

#include "tests.h"
#include "skew/judge/skew_track.h"
#include "skew/skew_ntp.h"

#define S INT64_C(1000000)
#define RANDOM UINT64_C(0x0123456789abcdef)
#define NOW_US INT64_C(1700000000000000)
#define RATE 200
#define EPOCH_S INT64_C(2208988800) /* 1970 less 1900, RFC 868 */

static void put(uint8_t *p, uint64_t v, int bytes) {
    for (int i = bytes - 1; i >= 0; i--, v >>= 8)
        p[i] = (uint8_t)v;
}
/* us since the epoch as a stamp, the next at or after it. */
static uint64_t stamp(int64_t us) {
    uint64_t s = (uint64_t)(us / S + EPOCH_S), part = (uint64_t)(us % S);
    return (s & 0xffffffff) << 32 | ((part << 32) + 999999) / 1000000;
}

/* A server that is all right, and 1 ms of its own after the question came. */
static void answer(uint8_t *p, int64_t came_us) {
    memset(p, 0, NTP_SIZE);
    p[0] = 4 << 3 | 4;
    p[1] = 2;
    p[3] = (uint8_t)-20;
    put(p + 4, 655, 4);  /* 9.995 ms of root delay */
    put(p + 8, 1311, 4); /* 20.005 ms of dispersion */
    put(p + 12, 0x0a000001, 4);
    put(p + 16, stamp(came_us - 64 * S), 8);
    put(p + 24, RANDOM, 8);
    put(p + 32, stamp(came_us), 8);
    put(p + 40, stamp(came_us + 1000), 8);
}

static ntp_kind read_it(const uint8_t *p, size_t n, char *why) {
    ntp_answer a;
    return ntp_read(p, n, RANDOM, NOW_US, &a, why);
}

static skew_reading at(int64_t boot_us, int64_t wall_us) {
    tl_mono t = {boot_us * 1000};
    return skew_read(t, wall_us, boot_us * 1000, t);
}

/* Sent at 100 s of the deadline clock, whose wall clock is at NOW; so long there and back. */
static bool exchange(ntp_source *s, const uint8_t *p, int64_t boot_us, int64_t took_us) {
    skew_reading sent = at(boot_us, NOW_US + boot_us),
                 received = at(boot_us + took_us, NOW_US + boot_us + took_us);
    return ntp_learn(s, p, NTP_SIZE, RANDOM, &sent, &received, RATE);
}

static skew_host judged(const ntp_source *s, int64_t boot_us) {
    skew_host h = {.known = true};
    tl_interval own = {-10, 10};
    skew_reading now = at(boot_us, NOW_US + boot_us);
    ntp_judge(s, &now, &own, RATE, &h);
    assert_string_equal(h.instrument, "ntp");
    assert_int_equal(h.kind, SKEW_SERVED);
    return h;
}

/* ---- the packet ---------------------------------------------------------------------------------- */

TEST(a_question_is_a_clients_and_tells_nothing_of_our_clock) {
    uint8_t p[NTP_SIZE];
    ntp_ask(p, RANDOM);
    assert_int_equal(p[0], 0x23);
    for (int i = 1; i < 40; i++)
        assert_int_equal(p[i], 0);
    static const uint8_t random[] = {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef};
    assert_memory_equal(p + 40, random, sizeof random);
}

TEST(a_good_answer_is_read) {
    uint8_t p[NTP_SIZE + 20] = {0};
    char why[SKEW_DETAIL_SIZE];
    ntp_answer a;
    answer(p, NOW_US + 123456);
    assert_int_equal(ntp_read(p, NTP_SIZE, RANDOM, NOW_US, &a, why), NTP_GOOD);
    assert_string_equal(why, "");
    assert_int_equal(a.received_us, NOW_US + 123456);
    assert_int_equal(a.sent_us, NOW_US + 124456);
    assert_int_equal(a.stratum, 2);
    assert_false(a.leaping);
    assert_in_range(a.root_us, 4997 + 20004, 4999 + 20006 + 2);
    assert_int_equal(ntp_read(p, sizeof p, RANDOM, NOW_US, &a, why), NTP_GOOD); /* extensions */
}

typedef struct {
    const char *words;
    ntp_kind kind;
    int at, bytes;
    uint64_t value;
} trap;

TEST(what_is_no_evidence_is_told_apart) {
    static const trap traps[] = {
        {"another request", NTP_FOREIGN, 24, 8, RANDOM + 1},
        {"another request", NTP_FOREIGN, 24, 8, 0},
        {"no reply", NTP_FOREIGN, 0, 1, 4 << 3 | 3},
        {"no reply", NTP_FOREIGN, 0, 1, 4 << 3 | 5},
        {"no reply", NTP_FOREIGN, 0, 1, 2 << 3 | 4},
        {"not synchronised", NTP_UNFIT, 1, 1, 0}, /* chronyd before its first source: no code */
        {"leap 3", NTP_UNFIT, 0, 1, 3 << 6 | 4 << 3 | 4},
        {"stratum 16", NTP_UNFIT, 1, 1, 16},
        {"stratum 16", NTP_UNFIT, 1, 1, 255},
        {"local", NTP_UNFIT, 12, 4, 0x7f7f0101},
        {"local", NTP_UNFIT, 12, 4, 0x4c4f434c},
        {"dispersion 0", NTP_UNFIT, 8, 4, 0},
        {"16 s", NTP_UNFIT, 8, 4, 16 << 16},
        {"16 s", NTP_UNFIT, 4, 4, 0xffff0000},
        {"16 s", NTP_UNFIT, 3, 1, 5},
        {"never set", NTP_UNFIT, 16, 8, 0},
        {"no time", NTP_UNFIT, 32, 8, 0},
        {"no time", NTP_UNFIT, 40, 8, 0},
    };
    for (size_t i = 0; i < sizeof traps / sizeof *traps; i++) {
        uint8_t p[NTP_SIZE];
        char why[SKEW_DETAIL_SIZE];
        answer(p, NOW_US);
        put(p + traps[i].at, traps[i].value, traps[i].bytes);
        assert_int_equal(read_it(p, NTP_SIZE, why), traps[i].kind);
        if (!strstr(why, traps[i].words))
            fail_msg("trap %zu: '%s' lacks '%s'", i, why, traps[i].words);

        ntp_source s = {.answers = 0};
        assert_int_equal(exchange(&s, p, 0, 2000), traps[i].kind != NTP_FOREIGN);
        assert_int_equal(s.over, traps[i].kind != NTP_FOREIGN); /* asked no more */
        skew_host h = judged(&s, 5000);
        assert_false(h.known);
        assert_string_not_equal(h.status, "ok");
        assert_non_null(strstr(h.detail, traps[i].words));
    }
}

TEST(a_short_packet_is_no_answer) {
    uint8_t p[NTP_SIZE];
    char why[SKEW_DETAIL_SIZE];
    answer(p, NOW_US);
    for (size_t n = 0; n < NTP_SIZE; n++)
        assert_int_equal(read_it(p, n, why), NTP_FOREIGN);
    assert_non_null(strstr(why, "too short"));
}

TEST(a_kiss_names_its_code_and_only_letters_of_it) {
    uint8_t p[NTP_SIZE];
    char why[SKEW_DETAIL_SIZE];
    answer(p, NOW_US);
    p[1] = 0;
    memcpy(p + 12, "RATE", 4);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_KISS);
    assert_non_null(strstr(why, "(kiss of death RATE)"));
    memcpy(p + 12, "D\n\"|", 4);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_KISS);
    assert_non_null(strstr(why, "(kiss of death D)"));
    put(p + 24, RANDOM ^ 1, 8); /* anybody could say that */
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_FOREIGN);
}

TEST(an_old_reference_is_stale_and_a_future_one_is_none) {
    uint8_t p[NTP_SIZE];
    char why[SKEW_DETAIL_SIZE];
    answer(p, NOW_US);
    put(p + 16, stamp(NOW_US - 8192 * S + 2000), 8);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_GOOD);
    put(p + 16, stamp(NOW_US - 8193 * S), 8);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_UNFIT);
    assert_non_null(strstr(why, "stale"));
    put(p + 16, stamp(NOW_US + S / 2), 8);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_GOOD);
    put(p + 16, stamp(NOW_US + 2 * S), 8);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_UNFIT);
    assert_non_null(strstr(why, "in the future"));
}

TEST(stamps_in_the_wrong_order_are_no_evidence) {
    uint8_t p[NTP_SIZE];
    char why[SKEW_DETAIL_SIZE];
    answer(p, NOW_US);
    put(p + 40, stamp(NOW_US - 1), 8);
    assert_int_equal(read_it(p, NTP_SIZE, why), NTP_UNFIT);
    assert_non_null(strstr(why, "before the request"));
}

/* ---- eras ---------------------------------------------------------------------------------------- */

#define ERA_1 (INT64_C(2085978496) * S) /* 2036-02-07 06:28:16 */

/* What a clock at near_us takes the stamp for. */
static int64_t unfold(uint64_t s, int64_t near_us) {
    uint8_t p[NTP_SIZE];
    char why[SKEW_DETAIL_SIZE];
    ntp_answer a;
    answer(p, NOW_US);
    put(p + 32, s, 8);
    put(p + 40, s, 8);
    (void)ntp_read(p, NTP_SIZE, RANDOM, near_us, &a, why); /* fit or not, it is read */
    assert_int_equal(a.sent_us, a.received_us);
    return a.sent_us;
}

TEST(an_era_ends_without_a_jump) {
    static const int64_t near[] = {-S, 0, 1, S, -1000 * S, 1000 * S};
    for (size_t i = 0; i < sizeof near / sizeof *near; i++)
        for (int64_t off = -2 * S; off <= 2 * S; off += 250001)
            assert_int_equal(unfold(stamp(ERA_1 + near[i] + off), ERA_1 + near[i]),
                             ERA_1 + near[i] + off);
    assert_int_equal(stamp(ERA_1) >> 32, 0);
    assert_int_equal(unfold(stamp(NOW_US - 60LL * 365 * 86400 * S), NOW_US),
                     NOW_US - 60LL * 365 * 86400 * S);
    assert_int_equal(unfold(stamp(5 * S), 0), 5 * S); /* a clock at the epoch */
    assert_int_equal(unfold(stamp(5 * S), -3 * S), 5 * S);
    int64_t late = INT64_C(9214646400) * S; /* 2262 */
    assert_int_equal(unfold(stamp(late + 7), late), late + 7);
}

TEST(a_server_beyond_the_era_is_measured_from_before_it) {
    uint8_t p[NTP_SIZE];
    char why[SKEW_DETAIL_SIZE];
    ntp_answer a;
    answer(p, ERA_1 + 500);
    assert_int_equal(ntp_read(p, NTP_SIZE, RANDOM, ERA_1 - 500, &a, why), NTP_GOOD);
    assert_int_equal(a.received_us, ERA_1 + 500);
}

/* ---- what it proves ------------------------------------------------------------------------------ */

TEST(the_truth_is_inside_whatever_the_delays) {
    static const int64_t offsets[] = {0, 250000, -250000, 5 * S, -86400 * S};
    static const int64_t delays[][2] = {{0, 0}, {50, 50}, {40000, 10}, {10, 40000}, {2 * S, 7}};
    for (size_t i = 0; i < sizeof offsets / sizeof *offsets; i++)
        for (size_t k = 0; k < sizeof delays / sizeof *delays; k++) {
            ntp_source s = {.answers = 0};
            uint8_t p[NTP_SIZE];
            int64_t took = delays[k][0] + 1000 + delays[k][1];
            answer(p, NOW_US + offsets[i] + delays[k][0]);
            assert_true(exchange(&s, p, 0, took));
            assert_false(s.over);
            skew_host h = judged(&s, took);
            assert_true(h.known);
            int64_t width = delays[k][0] + delays[k][1] + 2 * 25005 + 20;
            assert_true(h.offset.lo <= offsets[i] - 10 && offsets[i] + 10 <= h.offset.hi);
            assert_true(h.offset.hi - h.offset.lo >= width); /* delay, twice the distance, ours */
            assert_true(h.offset.hi - h.offset.lo <= width + 30 + 2 * (took / 5000 + 1));
        }
}

TEST(samples_are_intersected_and_age) {
    ntp_source s = {.answers = 0};
    uint8_t p[NTP_SIZE];
    answer(p, NOW_US + 40000);
    assert_true(exchange(&s, p, 0, 41000)); /* all of the delay on the way there: -40 to 0 ms */
    answer(p, NOW_US + S);
    assert_true(exchange(&s, p, S, 41000)); /* and on the way back */
    skew_host h = judged(&s, S + 41000);
    assert_int_equal(h.samples, 2);
    assert_true(h.offset.hi - h.offset.lo < 2 * (25007 + 10 + 300));
    skew_host later = judged(&s, 101 * S);
    assert_true(later.age_ms >= 99000);
    assert_true(later.offset.hi - h.offset.hi >= 19000 && h.offset.lo - later.offset.lo >= 19000);
}

TEST(contradictory_answers_are_no_offset) {
    static const int64_t jumps[] = {S, -S, 4294967, 30000};
    for (size_t i = 0; i < sizeof jumps / sizeof *jumps; i++) {
        ntp_source s = {.answers = 0};
        uint8_t p[NTP_SIZE];
        answer(p, NOW_US);
        assert_true(exchange(&s, p, 0, 1100));
        answer(p, NOW_US + S + jumps[i]);
        assert_true(exchange(&s, p, S, 1100));
        assert_true(s.over);
        skew_host h = judged(&s, S + 5000);
        assert_false(h.known);
        assert_string_equal(h.status, "inconsistent");
    }
}

/* The answer's two stamps are 1 ms apart; the exchange took half of that. */
TEST(a_server_that_took_longer_than_the_exchange_is_no_evidence) {
    ntp_source s = {.answers = 0};
    uint8_t p[NTP_SIZE];
    answer(p, NOW_US);
    assert_true(exchange(&s, p, 0, 500));
    assert_true(s.over);
    assert_string_equal(judged(&s, 1000).status, "inconsistent");
}

TEST(odd_distances_are_named) {
    static const struct {
        int64_t off_us;
        const char *words;
    } odd[] = {{S, "leap second or smear mismatch"},
               {-S, "leap second or smear mismatch"},
               {4294967, "2^32 ns"},
               {-4294967, "2^32 ns"}};
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        ntp_source s = {.answers = 0};
        uint8_t p[NTP_SIZE];
        answer(p, NOW_US + odd[i].off_us);
        assert_true(exchange(&s, p, 0, 1100));
        skew_host h = judged(&s, 2000);
        assert_true(h.known && h.offset.lo <= odd[i].off_us && odd[i].off_us <= h.offset.hi);
        assert_non_null(strstr(h.detail, odd[i].words));
    }
    ntp_source s = {.answers = 0};
    uint8_t p[NTP_SIZE];
    answer(p, NOW_US + 250000);
    p[0] |= 1 << 6;
    assert_true(exchange(&s, p, 0, 1100));
    skew_host h = judged(&s, 2000);
    assert_null(strstr(h.detail, "mismatch"));
    assert_non_null(strstr(h.detail, "leap second is near"));
}

TEST(a_step_of_our_own_clock_voids_it) {
    ntp_source s = {.answers = 0};
    uint8_t p[NTP_SIZE];
    skew_host h = {.known = true};
    tl_interval own = {0, 1};
    answer(p, NOW_US);
    assert_true(exchange(&s, p, 0, 1100));
    skew_reading now = at(5000, NOW_US + 5000 + 700000);
    ntp_judge(&s, &now, &own, RATE, &h);
    assert_false(h.known);
    assert_string_equal(h.status, "void");
    now = at(5000, NOW_US + 5000);
    ntp_judge(&s, &now, NULL, RATE, &h); /* against what? */
    assert_false(h.known);
    ntp_judge(&s, &now, &own, RATE, &h);
    assert_true(h.known);
}

TEST(a_watch_asks_no_more_often_than_daemons_and_never_after_a_kiss) {
    ntp_source s = {.answers = 0};
    uint8_t p[NTP_SIZE];
    tl_mono asked = {0};
    skew_reading soon = at(63 * S, NOW_US + 63 * S), later = at(64 * S, NOW_US + 64 * S),
                 set = at(5 * S, NOW_US + 6 * S);
    answer(p, NOW_US);
    assert_true(exchange(&s, p, 0, 1100));
    assert_false(ntp_due(&s, asked, false, &soon));
    assert_true(ntp_due(&s, asked, true, &soon)); /* on this machine */
    assert_true(ntp_due(&s, asked, false, &later));
    assert_true(ntp_due(&s, asked, false, &set)); /* what is known is void */
    p[1] = 0;
    memcpy(p + 12, "DENY", 4);
    assert_true(exchange(&s, p, 0, 1100));
    assert_false(ntp_due(&s, asked, true, &later));
    assert_false(ntp_due(&s, asked, false, &set));
}

/* ---- places -------------------------------------------------------------------------------------- */

TEST(places) {
    static const struct {
        const char *text, *host, *name;
        int port;
    } good[] = {
        {"time.example.org", "time.example.org", "time.example.org:123", 123},
        {"10.0.0.1:1123", "10.0.0.1", "10.0.0.1:1123", 1123},
        {"h:65535", "h", "h:65535", 65535},
        {"::1", "::1", "[::1]:123", 123},
        {"[::1]", "::1", "[::1]:123", 123},
        {"[fe80::1%eth0]:99", "fe80::1%eth0", "[fe80::1%eth0]:99", 99},
    };
    static const char *const bad[] = {"",      ":123",   "h:",      "h:0",  "h:65536", "h:x",
                                      "[::1",  "[::1]x", "[::1]:",  "[]:1", "a b",     "h:12x",
                                      "-h:12", "h,i",    "h/i:123", "h:+1", "h\n",     "h:000123"};
    char host[NTP_HOST_SIZE], name[SKEW_NAME_SIZE], longest[300];
    uint16_t port;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(ntp_place(good[i].text, host, &port, name));
        assert_string_equal(host, good[i].host);
        assert_string_equal(name, good[i].name);
        assert_int_equal(port, good[i].port);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (ntp_place(bad[i], host, &port, name))
            fail_msg("'%s' is a place", bad[i]);
    memset(longest, 'h', sizeof longest);
    longest[253] = '\0';
    assert_true(ntp_place(longest, host, &port, name));
    assert_string_equal(name + 57, ":123");
    longest[253] = 'h';
    longest[254] = '\0';
    assert_false(ntp_place(longest, host, &port, name));
}
