/*
 * Names: the sidecar's, and the hash slot that it shares with its key.
 */
#include <string.h>

#include "tests.h"
#include "wire/keys.h"

#define KEY_MAX 64
#define RANDOM_KEYS 200000

static void expect(const char *key, const char *sidecar, bool same_slot) {
    char to[KEY_MAX + TL_SIDECAR_EXTRA + 1];
    bool same = !same_slot;
    tl_bytes name = tl__sidecar(to, tl__bytes_of(key), &same);
    assert_ptr_equal(name.p, to);
    to[name.n] = '\0';
    assert_string_equal(to, sidecar);
    assert_int_equal(same, same_slot);
}

TEST(a_key_without_a_tag_becomes_the_tag_of_its_sidecar) {
    expect("jobs:nightly", "tidelock:{jobs:nightly}", true);
    expect("x", "tidelock:{x}", true);
    expect("{", "tidelock:{{}", true);
    expect("foo{bar", "tidelock:{foo{bar}", true);
    expect("foo{{bar", "tidelock:{foo{{bar}", true);
}

TEST(a_key_with_a_tag_keeps_it_in_its_sidecar) {
    expect("{user1000}.following", "{user1000}.following:tidelock", true);
    expect("foo{{bar}}zap", "foo{{bar}}zap:tidelock", true);
    expect("}{x}", "}{x}:tidelock", true);
    expect("foo{bar}{zap}", "foo{bar}{zap}:tidelock", true);
}

TEST(a_closing_brace_without_a_tag_has_no_name_in_the_slot) {
    expect("foo}", "foo}:tidelock", false);
    expect("}", "}:tidelock", false);
    expect("foo{}bar", "foo{}bar:tidelock", false);
    expect("foo{}{bar}", "foo{}{bar}:tidelock", false);
    expect("}foo{", "}foo{:tidelock", false);
}

TEST(a_binary_key_keeps_every_byte) {
    char to[16 + TL_SIDECAR_EXTRA];
    tl_bytes name = tl__sidecar(to, tl__bytes("a\0\xff\r\n", 5), NULL);
    assert_true(tl__bytes_eq(name, tl__bytes("tidelock:{a\0\xff\r\n}", 16)));
}

static uint16_t slot(const char *key) {
    return tl__hash_slot(tl__bytes_of(key));
}

TEST(slots_are_those_of_the_cluster_specification) {
    assert_int_equal(slot("123456789"), 12739); /* 0x31c3 */
    assert_int_equal(slot("foo"), 12182);
    assert_int_equal(slot("hash_tag"), 2515);
    assert_int_equal(slot("foo{hash_tag}"), 2515);
    assert_int_equal(slot("bar{hash_tag}"), 2515);
    assert_int_equal(slot("user1000"), 3443);
    assert_int_equal(slot("{user1000}.following"), 3443);
    assert_int_equal(slot("{user1000}.followers"), 3443);
    assert_int_equal(slot("foo{{bar}}zap"), slot("{bar"));
    assert_int_equal(slot("foo{bar}{zap}"), slot("bar"));
    assert_int_equal(slot(""), 0);
}

static bool tag_is(const char *key, const char *tag) {
    return tl__bytes_eq(tl__hash_tag(tl__bytes_of(key)), tl__bytes_of(tag));
}

TEST(an_empty_or_open_tag_is_no_tag) {
    assert_true(tag_is("foo{}{bar}", "foo{}{bar}"));
    assert_true(tag_is("foo{bar", "foo{bar"));
    assert_true(tag_is("}foo{", "}foo{"));
    assert_true(tag_is("foo{a}", "a"));
    assert_true(tag_is("{a}foo", "a"));
    assert_true(tag_is("", ""));
}

static uint32_t next(uint32_t *seed) {
    *seed = *seed * 1664525 + 1013904223;
    return *seed >> 16;
}

/* Mostly braces, so that each rule is met often. */
static tl_bytes random_key(char *key, uint32_t *seed) {
    static const char letters[] = "{}{}ab\0\xff";
    size_t n = 1 + next(seed) % 8;
    for (size_t i = 0; i < n; i++)
        key[i] = letters[next(seed) % (sizeof letters - 1)];
    return tl__bytes(key, n);
}

TEST(key_and_sidecar_share_the_slot_when_it_says_so) {
    uint32_t seed = 1;
    unsigned same_slots = 0;
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char key[8], to[8 + TL_SIDECAR_EXTRA];
        bool same = false;
        tl_bytes k = random_key(key, &seed), s = tl__sidecar(to, k, &same);
        if (same)
            assert_int_equal(tl__hash_slot(k), tl__hash_slot(s));
        bool closing = memchr(k.p, '}', k.n) != NULL;
        assert_int_equal(same, !closing || tl__hash_tag(k).n < k.n); /* never said needlessly */
        assert_false(tl__bytes_eq(k, s));
        same_slots += same;
    }
    assert_in_range(same_slots, RANDOM_KEYS / 4, RANDOM_KEYS * 3 / 4);
}

TEST(different_keys_have_different_sidecars) {
    uint32_t seed = 7;
    for (int i = 0; i < RANDOM_KEYS; i++) {
        char key[2][8], to[2][8 + TL_SIDECAR_EXTRA];
        tl_bytes a = random_key(key[0], &seed), b = random_key(key[1], &seed);
        tl_bytes sa = tl__sidecar(to[0], a, NULL), sb = tl__sidecar(to[1], b, NULL);
        assert_int_equal(tl__bytes_eq(a, b), tl__bytes_eq(sa, sb));
    }
}

/* ---- slots ----------------------------------------------------------------------------------- */

static const char letters[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/* By trying all texts of one letter, two and three, in their order: the first of each slot. */
TEST(each_slot_has_the_shortest_and_first_tag) {
    static char first[16384][4];
    unsigned found = 0, n = sizeof letters - 1;
    memset(first, 0, sizeof first);
    for (unsigned size = 1; size <= 3; size++) {
        unsigned texts = size == 1 ? n : size == 2 ? n * n : n * n * n;
        for (unsigned i = 0; i < texts; i++) {
            char text[4] = "";
            for (unsigned at = size, left = i; at-- > 0; left /= n)
                text[at] = letters[left % n];
            uint16_t slot = tl__hash_slot(tl__bytes_of(text));
            if (first[slot][0])
                continue;
            memcpy(first[slot], text, sizeof text);
            found++;
        }
    }
    assert_int_equal(found, 16384);
    for (unsigned slot = 0; slot < 16384; slot++)
        assert_string_equal(tl__slot_tag((uint16_t)slot).text, first[slot]);
}

TEST(a_counter_is_in_its_slot_and_is_known_by_its_name) {
    for (unsigned slot = 0; slot < 16384; slot += 7) {
        char name[TL_COUNTER_SIZE];
        tl_slot_tag tag = tl__slot_tag((uint16_t)slot);
        tl_bytes counter = tl__counter(name, &tag);
        assert_true(counter.n <= sizeof name);
        assert_int_equal(tl__hash_slot(counter), slot);
        assert_true(tl__is_counter(counter));
    }
}

TEST(a_name_like_a_counters_is_none) {
    static const char *const names[] = {"tidelock:fence:{}",
                                        "tidelock:fence:{zzz}",
                                        "tidelock:fence:{0DT",
                                        "tidelock:fence:{00000}",
                                        "tidelock:{0DT}",
                                        "tidelock:fence:{0DT}x",
                                        "xtidelock:fence:{0DT}",
                                        "tidelock:fencE:{0DT}",
                                        "0DT",
                                        ""};
    assert_true(tl__is_counter(TL_LITERAL("tidelock:fence:{0DT}")));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        assert_false(tl__is_counter(tl__bytes_of(names[i])));
}

TEST(a_line_is_beside_its_sidecar) {
    char side[64], line[64];
    tl_bytes name = tl__line(line, tl__sidecar(side, TL_LITERAL("jobs"), NULL));
    assert_true(tl__bytes_eq(name, TL_LITERAL("tidelock:{jobs}:line")));
    assert_int_equal(tl__hash_slot(name), tl__hash_slot(TL_LITERAL("jobs")));
    name = tl__line(line, tl__sidecar(side, TL_LITERAL("{a}b"), NULL));
    assert_true(tl__bytes_eq(name, TL_LITERAL("{a}b:tidelock:line")));
    assert_int_equal(tl__hash_slot(name), tl__hash_slot(TL_LITERAL("a")));
}
