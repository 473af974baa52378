/*
 * What a cluster's node says of slots: redirections in the words of each server, and CLUSTER SLOTS, beside a second
 * way to read the same.
 */
#include "feed.h"

#include "wire/slots.h"

#define MAPS 2000

/* ---- an error ---------------------------------------------------------------------------------- */

static void expect(const char *error, tl_redirect_kind kind, int slot, const char *host, int port) {
    tl_redirect r = tl__redirect_read(tl__bytes_of(error));
    bool right = r.kind == kind && r.slot == slot && r.node.port == port &&
                 tl__bytes_eq(r.node.host, tl__bytes_of(host));
    if (!right)
        fail_msg("%s: kind %d, slot %d, '%.*s' port %d", error, (int)r.kind, (int)r.slot,
                 (int)r.node.host.n, r.node.host.p, (int)r.node.port);
}

TEST(a_redirection_names_slot_and_node) {
    expect("MOVED 3999 127.0.0.1:6381", TL_MOVED, 3999, "127.0.0.1", 6381);
    expect("MOVED 0 node-2.example:1", TL_MOVED, 0, "node-2.example", 1);
    expect("ASK 16383 10.0.0.6:65535", TL_ASK, 16383, "10.0.0.6", 65535);
}

TEST(a_redirection_may_name_an_address_of_ipv6) {
    expect("MOVED 3999 ::1:6381", TL_MOVED, 3999, "::1", 6381);
    expect("ASK 7 2001:db8::7:12:6381", TL_ASK, 7, "2001:db8::7:12", 6381);
    expect("ASK 7 [2001:db8::7]:6381", TL_ASK, 7, "2001:db8::7", 6381);
}

TEST(a_redirection_without_a_host_is_to_another_port_of_the_host_that_was_asked) {
    expect("MOVED 3999 :6381", TL_MOVED, 3999, "", 6381);
    expect("ASK 3999 :6381", TL_ASK, 3999, "", 6381);
}

TEST(a_redirection_that_is_not_understood_names_nobody) {
    const char *const rest[] = {"",
                                "3999",
                                "3999 ",
                                "3999 host",
                                "3999 host:",
                                "3999 host:0",
                                "-1 h:1",
                                "16384 h:1",
                                "x h:1",
                                "3999  h:1",
                                "3999 h:65536",
                                "3999 h:65537",
                                "3999 h:1 ",
                                "3999 :",
                                "3999 h i:1",
                                "3999 h\x01:1",
                                "3999 ?:6381",
                                "3999 h:-1",
                                "3999 h:1x",
                                "99999999999999999999 h:1"};
    char error[64];
    for (size_t i = 0; i < sizeof rest / sizeof *rest; i++) {
        (void)snprintf(error, sizeof error, "MOVED %s", rest[i]);
        expect(error, TL_MOVED, TL_NOBODY, "", 0);
        (void)snprintf(error, sizeof error, "ASK %s", rest[i]);
        expect(error, TL_ASK, TL_NOBODY, "", 0);
    }
    expect("MOVED", TL_MOVED, TL_NOBODY, "", 0);
}

TEST(a_host_may_be_as_long_as_names_are_and_no_longer) {
    char error[TL_NODE_NAME_MAX + 32];
    for (int n = TL_NODE_NAME_MAX; n <= TL_NODE_NAME_MAX + 1; n++) {
        (void)snprintf(error, sizeof error, "MOVED 1 %0*d:6381", n, 7);
        tl_redirect r = tl__redirect_read(tl__bytes_of(error));
        assert_int_equal(r.kind, TL_MOVED);
        assert_int_equal(r.node.host.n, n == TL_NODE_NAME_MAX ? n : 0);
        assert_int_equal(r.node.port, n == TL_NODE_NAME_MAX ? 6381 : 0);
    }
}

TEST(what_no_node_can_do_now_is_told_from_other_errors) {
    expect("TRYAGAIN Multiple keys request during rehashing of slot", TL_TRY_AGAIN, TL_NOBODY, "",
           0);
    expect("CLUSTERDOWN The cluster is down", TL_CLUSTER_DOWN, TL_NOBODY, "", 0);
    expect("CLUSTERDOWN Hash slot not served", TL_CLUSTER_DOWN, TL_NOBODY, "", 0);
    const char *const others[] = {
        "",     "ERR no",         "MOVEDNESS 1 h:1", "ASKING 1 h:1", "moved 1 h:1", " MOVED 1 h:1",
        "MOVE", "CROSSSLOT Keys", "ERR MOVED 1 h:1"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        expect(others[i], TL_NOT_ELSEWHERE, TL_NOBODY, "", 0);
}

/* ---- CLUSTER SLOTS ----------------------------------------------------------------------------- */

static tl_slot_map map;

static bool reads(const char *text) {
    static feed f;
    return tl__slot_map_read(&map, feed_parse(&f, text, NULL));
}

static void expect_slot(unsigned slot, const char *host, int port) {
    assert_int_not_equal(map.node_of[slot], TL_NOBODY);
    const tl_slot_node *node = &map.node[map.node_of[slot]];
    assert_true(tl__bytes_eq(node->host, tl__bytes_of(host)));
    assert_int_equal(node->port, port);
}

TEST(each_slot_is_its_masters) {
    assert_true(reads("[[5461 10922 ['10.0.0.2' 7001 'id2' []] ['10.0.0.5' 7004 'id5' []]]"
                      " [0 5460 ['10.0.0.1' 7000 'id1' []]]"
                      " [10923 16382 ['h.example' 7002 'id3' ['ip' '10.0.0.3']]]"
                      " [16383 16383 ['10.0.0.2' 7001 'id2' []]]]"));
    assert_int_equal(map.count, 3); /* masters only, and each once */
    assert_int_equal(map.served, 16384);
    expect_slot(0, "10.0.0.1", 7000);
    expect_slot(5460, "10.0.0.1", 7000);
    expect_slot(5461, "10.0.0.2", 7001);
    expect_slot(10922, "10.0.0.2", 7001);
    expect_slot(10923, "h.example", 7002);
    expect_slot(16382, "h.example", 7002);
    expect_slot(16383, "10.0.0.2", 7001);
}

TEST(a_node_that_does_not_know_its_host_is_at_the_one_that_was_asked) {
    assert_true(reads("[[0 9 ['' 7000 'id']] [10 19 [nil 7001 'id']] [20 29 ['::1' 7002]]]"));
    expect_slot(9, "", 7000);
    expect_slot(10, "", 7001);
    expect_slot(20, "::1", 7002);
    assert_int_equal(map.served, 30);
    assert_int_equal(map.node_of[30], TL_NOBODY);
}

TEST(a_node_without_a_name_goes_by_its_address_if_that_is_told) {
    assert_true(reads("[[0 9 ['?' 7000 'id' ['ip' '10.0.0.1']]] [10 19 ['?' 7001 'id' []]]"
                      " [20 29 ['?' 7001]] [30 39 ['10.0.0.2' 0 'id']]]"));
    expect_slot(0, "10.0.0.1", 7000);
    assert_int_equal(map.count, 1);
    assert_int_equal(map.served, 10);
    for (unsigned slot = 10; slot < 40; slot++)
        assert_int_equal(map.node_of[slot], TL_NOBODY);
}

TEST(a_cluster_without_slots_serves_none) {
    assert_true(reads("[]"));
    assert_int_equal(map.served, 0);
    assert_int_equal(map.count, 0);
}

TEST(replicas_are_told_of_with_their_master_once) {
    assert_true(reads("[[0 9 ['a' 7000 'id1'] ['b' 7001 'id2'] ['' 7002 'id3']]"
                      " [10 19 ['c' 7000 'id4'] ['d' 7001 'id5']]"
                      " [20 29 ['a' 7000 'id1'] ['b' 7001 'id2'] ['' 7002 'id3']]"
                      " [30 39 ['e' 7000 'id6'] ['?' 7001 'id7'] 7]"
                      " [40 49 ['f' 7000 'id8']]]"));
    assert_int_equal(map.replicas, 3);
    assert_int_equal(map.master_of[0], 0);
    assert_true(tl__bytes_eq(map.replica[0].host, TL_LITERAL("b")));
    assert_int_equal(map.replica[1].port, 7002);
    assert_int_equal(map.master_of[2], 1);
    for (unsigned i = 0; i < map.count; i++)
        assert_int_equal(map.incomplete[i], i == 2); /* one whose place isn't known */
}

TEST(a_malformed_map_is_refused) {
    const char *const bad[] = {"nil",
                               "7",
                               "-ERR This instance has cluster support disabled",
                               "'x'",
                               "[7]",
                               "[[]]",
                               "[[0 9]]",
                               "[[0 9 []]]",
                               "[[0 9 ['h']]]",
                               "[[0 9 'h']]",
                               "[[0 9 ['h' 'x']]]",
                               "[[0 9 ['h' -1]]]",
                               "[[0 9 ['h' 65536]]]",
                               "[[0 9 [7 7000]]]",
                               "[[0 9 ['h i' 7000]]]",
                               "[[9 0 ['h' 7000]]]",
                               "[[-1 9 ['h' 7000]]]",
                               "[[0 16384 ['h' 7000]]]",
                               "[[nil 9 ['h' 7000]]]",
                               "[[0 9 ['h' 7000]] [9 12 ['i' 7000]]]",
                               "[[0 9 ['h' 7000]] [0 9 ['h' 7000]]]"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (reads(bad[i]))
            fail_msg("not refused: %s", bad[i]);
}

/* ---- random maps, beside a second reader --------------------------------------------------------- */

#define RANGES_MAX 1100

typedef struct {
    tl_reply top, range[RANGES_MAX], part[RANGES_MAX][3], place[RANGES_MAX][2];
} tree;

static tree t;

static tl_reply integer(int64_t v) {
    return (tl_reply){.type = TL_REPLY_INT, .integer = v};
}

static tl_reply array(const tl_reply *items, size_t n) {
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = n};
}

static void put_range(unsigned i, int64_t first, int64_t last, const char *host, int64_t port) {
    t.place[i][0] = (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(host)};
    t.place[i][1] = integer(port);
    t.part[i][0] = integer(first);
    t.part[i][1] = integer(last);
    t.part[i][2] = array(t.place[i], 2);
    t.range[i] = array(t.part[i], 3);
}

TEST(as_many_nodes_as_a_cluster_may_have_and_no_more) {
    for (unsigned i = 0; i < RANGES_MAX; i++)
        put_range(i, i, i, "h", 7000 + i);
    t.top = array(t.range, TL_SLOT_NODES_MAX);
    assert_true(tl__slot_map_read(&map, &t.top));
    assert_int_equal(map.count, TL_SLOT_NODES_MAX);
    expect_slot(TL_SLOT_NODES_MAX - 1, "h", 7000 + TL_SLOT_NODES_MAX - 1);
    t.top.count++;
    assert_false(tl__slot_map_read(&map, &t.top));
    t.part[TL_SLOT_NODES_MAX][2] = array(t.place[0], 2); /* one that is known already */
    assert_true(tl__slot_map_read(&map, &t.top));
}

/* Mostly in order and apart, at times overlapping or beyond the end. */
static void make_ranges(uint64_t *random, unsigned n) {
    static const char *const hosts[] = {"a", "b", "", "?", "c d", "10.0.0.1"};
    int64_t at = 0;
    for (unsigned i = 0; i < n; i++) {
        int64_t first = at + (int64_t)(tl__random_next(random) % 40) - (i % 16 == 15);
        int64_t last = first + (int64_t)(tl__random_next(random) % 4000) - (i % 32 == 31);
        put_range(i, first, last, hosts[tl__random_next(random) % (n > 6 ? 4 : 6)],
                  (int64_t)(tl__random_next(random) % 3));
        at = last + 1;
    }
    t.top = array(t.range, n);
}

static bool has(unsigned i, int64_t slot) {
    return slot >= t.part[i][0].integer && slot <= t.part[i][1].integer;
}

static bool has_place(unsigned i) {
    return t.place[i][1].integer > 0 && !tl__bytes_eq(t.place[i][0].text, TL_LITERAL("?"));
}

/* By slots, where the reader goes by ranges. */
static bool is_right(unsigned n) {
    for (unsigned i = 0; i < n; i++)
        if (t.part[i][0].integer < 0 || t.part[i][1].integer >= TL_SLOTS ||
            t.part[i][1].integer < t.part[i][0].integer ||
            tl__bytes_eq(t.place[i][0].text, TL_LITERAL("c d")))
            return false;
    for (int64_t slot = 0; slot < TL_SLOTS; slot++) {
        int owners = 0;
        for (unsigned i = 0; i < n; i++)
            owners += has(i, slot) && has_place(i);
        if (owners > 1)
            return false;
    }
    return true;
}

static void expect_owners(unsigned n) {
    unsigned served = 0;
    for (int64_t slot = 0; slot < TL_SLOTS; slot++) {
        uint16_t found = map.node_of[slot];
        bool owned = false;
        for (unsigned i = 0; i < n; i++)
            if (has(i, slot) && has_place(i)) {
                assert_true(found < map.count &&
                            tl__bytes_eq(map.node[found].host, t.place[i][0].text));
                assert_int_equal(map.node[found].port, t.place[i][1].integer);
                owned = true;
            }
        served += owned;
        assert_true(owned || found == TL_NOBODY);
    }
    assert_int_equal(served, map.served);
}

TEST(random_maps_are_read_as_a_second_reader_reads_them) {
    uint64_t random = 20;
    unsigned right = 0;
    for (unsigned i = 0; i < MAPS; i++) {
        unsigned n = (unsigned)(tl__random_next(&random) % 10);
        make_ranges(&random, n);
        bool expected = is_right(n);
        assert_int_equal(tl__slot_map_read(&map, &t.top), expected);
        right += expected;
        if (expected)
            expect_owners(n);
    }
    assert_in_range(right, MAPS / 5, MAPS * 4 / 5);
}
