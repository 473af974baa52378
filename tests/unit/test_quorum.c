/*
 * The arithmetic of a majority: which deadline, which fencing number, which proposal.
 */
#include "quorum_feed.h"
#include "renewals.h"

static tl_ballots ballots_of(unsigned count, const int64_t *ms) {
    tl_ballots b = {.count = (uint8_t)count};
    for (unsigned i = 0; i < count; i++)
        b.until[i] = ms[i] ? feed_ms(ms[i]) : (tl_mono){0};
    return b;
}

/* ---- deadlines -------------------------------------------------------------------------------- */

TEST(a_majority_lasts_as_long_as_the_last_of_it_to_hold) {
    static const struct {
        unsigned count;
        int64_t ms[Q_MAX], deadline;
    } rows[] = {
        {3, {30, 10, 20}, 20},         {3, {30, 0, 20}, 20},         {3, {0, 30, 0}, 0},
        {5, {10, 50, 30, 20, 40}, 30}, {5, {50, 0, 0, 20, 40}, 20},  {5, {50, 50, 0, 0, 0}, 0},
        {7, {7, 6, 5, 4, 3, 2, 1}, 4}, {7, {0, 6, 5, 0, 3, 2, 0}, 2}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tl_ballots b = ballots_of(rows[i].count, rows[i].ms);
        int64_t expected = rows[i].deadline ? feed_ms(rows[i].deadline).ns : 0;
        assert_int_equal(tl__ballots_deadline(&b).ns, expected);
        if (expected) { /* until then, and no longer, there is a majority */
            tl_mono at = tl__ballots_deadline(&b);
            assert_true(ballots_live(&b, at) < tl__quorum_of(b.count));
            assert_true(ballots_live(&b, tl__mono_add_ns(at, -1)) >= tl__quorum_of(b.count));
        }
    }
}

TEST(a_majority_of_any_two_of_which_meet) {
    for (unsigned n = TL_QUORUM_MIN; n <= TL_QUORUM_MAX; n += 2) {
        assert_true(2 * tl__quorum_of(n) == n + 1);
        for (unsigned a = 0; a < 1U << n; a++)
            for (unsigned b = 0; b < 1U << n; b++)
                assert_true(tl__quorum_bits(a) < tl__quorum_of(n) ||
                            tl__quorum_bits(b) < tl__quorum_of(n) || a & b);
    }
}

TEST(a_majority_is_free_when_so_many_servers_are) {
    tl_mono free[] = {feed_ms(30), feed_ms(10), TL_NEVER, {0}, feed_ms(20)};
    assert_int_equal(tl__quorum_free_at(free, 5).ns, feed_ms(20).ns);
    free[4] = TL_NEVER;
    assert_int_equal(tl__quorum_free_at(free, 5).ns, feed_ms(30).ns);
    free[0] = TL_NEVER;
    assert_int_equal(tl__quorum_free_at(free, 5).ns, INT64_MAX);
}

/* ---- fencing numbers --------------------------------------------------------------------------- */

static unsigned at_least(const uint64_t *numbers, unsigned n, uint64_t what) {
    unsigned k = 0;
    for (unsigned i = 0; i < n; i++)
        k += numbers[i] >= what;
    return k;
}

static void check_fence(const uint64_t *numbers, unsigned n) {
    tl_quorum_fence f = tl__quorum_fence(numbers, n);
    uint64_t most = 0, common = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned same = 0;
        for (unsigned j = 0; j < n; j++)
            same += numbers[j] == numbers[i];
        common = same >= tl__quorum_of(n) && numbers[i] ? numbers[i] : common;
        most = numbers[i] > most ? numbers[i] : most;
    }
    assert_int_equal(f.number, common ? common : most);
    for (unsigned i = 0; i < n; i++) {
        bool less = !common && numbers[i] > 0 && numbers[i] < most;
        assert_int_equal(f.raise >> i & 1, less);
    }
    if (f.raise == 0 && at_least(numbers, n, 1) >= tl__quorum_of(n))
        assert_true(at_least(numbers, n, f.number) >= tl__quorum_of(n));
}

/* Every mixture of four numbers and servers that haven't voted. */
TEST(a_number_counts_when_a_majority_gave_it_and_else_the_greatest_is_raised) {
    for (unsigned n = TL_QUORUM_MIN; n <= TL_QUORUM_MAX; n += 2) {
        unsigned mixtures = 1;
        for (unsigned i = 0; i < n; i++)
            mixtures *= 5;
        for (unsigned m = 0; m < mixtures; m++) {
            uint64_t numbers[Q_MAX];
            for (unsigned i = 0, rest = m; i < n; i++, rest /= 5)
                numbers[i] = rest % 5;
            check_fence(numbers, n);
        }
    }
}

/* ---- proposals --------------------------------------------------------------------------------- */

TEST(a_proposal_is_the_latest_that_any_clock_can_show_and_beyond_what_was_seen) {
    q_feed f;
    q_init(&f, 3, NULL, NULL);
    uint64_t now = (uint64_t)FEED_SERVER_US;
    assert_int_equal(tl__quorum_proposal(f.server, 3, f.now, 0), now);
    assert_int_equal(tl__quorum_proposal(f.server, 3, f.now, now + 41), now + 42);
    f.server[1].anchor.offset.hi += 7000; /* not known to the ms */
    assert_int_equal(tl__quorum_proposal(f.server, 3, f.now, now), now + 7000);
    f.server[1].anchor.known = false;
    assert_int_equal(tl__quorum_proposal(f.server, 3, f.now, 0), now);
    for (unsigned i = 0; i < 3; i++)
        f.server[i].anchor.known = false;
    assert_int_equal(tl__quorum_proposal(f.server, 3, f.now, 0), 1);
}

/* Else the numbers of all servers would run ahead with it. */
TEST(a_clock_that_is_far_ahead_of_the_others_proposes_nothing) {
    static const int64_t day = INT64_C(86400000000);
    q_feed f;
    q_init(&f, 5, NULL, NULL);
    f.server[3].anchor.offset.lo += 2 * day;
    f.server[3].anchor.offset.hi += 2 * day;
    assert_int_equal(tl__quorum_proposal(f.server, 5, f.now, 0), FEED_SERVER_US);
    f.server[3].anchor.offset.hi -= 2 * day - day / 4;
    f.server[3].anchor.offset.lo -= 2 * day - day / 4;
    assert_int_equal(tl__quorum_proposal(f.server, 5, f.now, 0), FEED_SERVER_US + day / 4);
}

TEST(all_agree_on_the_first_server_of_a_key) {
    unsigned seen = 0;
    for (int i = 0; i < 100; i++) {
        char key[16];
        (void)snprintf(key, sizeof key, "key:%d", i);
        unsigned first = tl__quorum_first(tl__bytes_of(key), 5);
        assert_true(first < 5 && first == tl__quorum_first(tl__bytes_of(key), 5));
        seen |= 1U << first;
    }
    assert_int_equal(seen, 31); /* none of them does it all */
}
