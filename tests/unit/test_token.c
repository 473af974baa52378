/*
 * Tokens and seeds: unique, well formed, and none of the program's own randomness.
 */
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "ground/token.h"

#define MANY 4096

static int compare(const void *a, const void *b) {
    return memcmp(a, b, sizeof(tl_token));
}

TEST(a_tokens_bytes_are_its_text) {
    tl_token token = tl__token_draw();
    tl_bytes b = tl__token_bytes(&token);
    assert_int_equal(b.n, TL_TOKEN_SIZE - 1);
    assert_ptr_equal(b.p, token.text);
}

TEST(seeds_differ_in_both_halves) {
    uint64_t differ = 0, first = tl__random_seed();
    for (int i = 0; i < 256; i++)
        differ |= first ^ tl__random_seed();
    assert_true(differ == UINT64_MAX); /* each bit has been seen both ways */
}

/* ---- tokens ---------------------------------------------------------------------------------- */

TEST(a_drawn_token_is_a_random_uuid_in_lower_case) {
    for (int k = 0; k < MANY; k++) {
        tl_token token = tl__token_draw();
        assert_int_equal(strspn(token.text, "0123456789abcdef-"), TL_TOKEN_SIZE - 1);
        for (size_t i = 0; i < TL_TOKEN_SIZE - 1; i++)
            assert_int_equal(token.text[i] == '-', i == 8 || i == 13 || i == 18 || i == 23);
        assert_int_equal(token.text[14], '4');
        assert_non_null(strchr("89ab", token.text[19]));
    }
}

TEST(no_token_is_drawn_twice) {
    static tl_token all[MANY];
    for (size_t i = 0; i < MANY; i++)
        all[i] = tl__token_draw();
    qsort(all, MANY, sizeof *all, compare);
    for (size_t i = 1; i < MANY; i++)
        assert_memory_not_equal(&all[i - 1], &all[i], sizeof *all);
}

/* ---- fetched ahead --------------------------------------------------------------------------- */

TEST(what_was_drawn_is_kept_nowhere) {
    static const uint8_t nothing[TL_RANDOM_SIZE];
    tl_random random = {.left = 0};
    size_t before = TL_RANDOM_SIZE;
    for (int k = 0; k < 20; k++) {
        (void)tl__random_draw(&random);
        assert_true(random.left < before);
        before = random.left;
        assert_memory_equal(random.bytes, nothing, sizeof nothing - random.left);
    }
}

TEST(drawn_seeds_differ_in_each_bit) {
    tl_random random = {.left = 0};
    uint64_t differ = 0, first = tl__random_draw(&random);
    for (int i = 0; i < 256; i++)
        differ |= first ^ tl__random_draw(&random);
    assert_true(differ == UINT64_MAX);
}

/* It is the program's own. */
TEST(the_programs_random_goes_on_undisturbed) {
    srandom(42);
    long first = random(), second = random();
    srandom(42);
    assert_int_equal(random(), first);
    tl_random own = {.left = 0};
    (void)tl__token_draw();
    (void)tl__random_draw(&own);
    (void)tl__random_seed();
    assert_int_equal(random(), second);
}
