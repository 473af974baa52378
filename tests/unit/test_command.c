/*
 * A command's bytes on the wire.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "wire/command.h"

#define ROOM 8192

static void expect(const tl_command *c, int by_text, const char *bytes, size_t n) {
    char to[ROOM];
    size_t used = tl__command_encode(c, by_text, to, sizeof to);
    assert_int_equal(used, n);
    assert_memory_equal(to, bytes, n);
}

TEST(a_plain_command_is_its_words) {
    tl_command c = {.form = TL_ARGV, .argc = 3};
    c.argv[0] = TL_LITERAL("WAIT");
    c.argv[1] = TL_LITERAL("1");
    c.argv[2] = TL_LITERAL("1000");
    const char want[] = "*3\r\n$4\r\nWAIT\r\n$1\r\n1\r\n$4\r\n1000\r\n";
    expect(&c, 0, want, sizeof want - 1);
    expect(&c, 1, want, sizeof want - 1); /* text is for scripts only */
}

TEST(words_may_be_empty_or_hold_any_byte) {
    tl_command c = {.form = TL_ARGV, .argc = 2};
    c.argv[0] = TL_LITERAL("");
    c.argv[1] = tl__bytes("\0\r\n\xff", 4);
    const char want[] = "*2\r\n$0\r\n\r\n$4\r\n\0\r\n\xff\r\n";
    expect(&c, 0, want, sizeof want - 1);
}

static tl_command look(void) {
    tl_command c = {.form = TL_SCRIPT, .script = TL_SCRIPT_LOOK, .nkeys = 2, .argc = 3};
    c.argv[0] = TL_LITERAL("k");
    c.argv[1] = TL_LITERAL("s");
    c.argv[2] = TL_LITERAL("arg");
    return c;
}

TEST(a_script_goes_by_its_sha1) {
    tl_command c = look();
    char want[ROOM];
    int n = snprintf(want, sizeof want,
                     "*6\r\n$7\r\nEVALSHA\r\n$40\r\n%.40s\r\n$1\r\n2\r\n$1\r\nk\r\n$1\r\ns\r\n"
                     "$3\r\narg\r\n",
                     tl__script_sha1(TL_SCRIPT_LOOK).p);
    expect(&c, 0, want, (size_t)n);
}

TEST(or_by_its_text) {
    tl_command c = look();
    tl_bytes text = tl__script_text(TL_SCRIPT_LOOK);
    char want[ROOM];
    int n = snprintf(want, sizeof want,
                     "*6\r\n$4\r\nEVAL\r\n$%zu\r\n%.*s\r\n$1\r\n2\r\n$1\r\nk\r\n$1\r\ns\r\n"
                     "$3\r\narg\r\n",
                     text.n, (int)text.n, text.p);
    assert_true(n > 0 && (size_t)n < sizeof want);
    expect(&c, 1, want, (size_t)n);
}

TEST(the_size_needed_is_told_and_nothing_is_written_past_the_end) {
    tl_command c = look();
    size_t need = tl__command_encode(&c, 0, NULL, 0);
    assert_true(need > 40);
    for (size_t size = 0; size <= need; size++) {
        char *to = malloc(size + 1); /* the sanitizer watches the rest */
        assert_non_null(to);
        to[size] = '#';
        assert_int_equal(tl__command_encode(&c, 0, to, size), need);
        assert_int_equal(to[size], '#');
        free(to);
    }
}

TEST(each_script_has_a_name_a_text_and_a_sha1) {
    const char *const names[TL_SCRIPTS] = {
        [TL_SCRIPT_BIND] = "bind",     [TL_SCRIPT_NUMBER] = "number",
        [TL_SCRIPT_BREAK] = "break",   [TL_SCRIPT_RELEASE] = "release",
        [TL_SCRIPT_FREE] = "free",     [TL_SCRIPT_HOLD] = "hold",
        [TL_SCRIPT_JOIN] = "join",     [TL_SCRIPT_RENEW] = "renew",
        [TL_SCRIPT_LOOK] = "look",     [TL_SCRIPT_REFRESH] = "refresh",
        [TL_SCRIPT_SCAN] = "scan",     [TL_SCRIPT_ACQUIRE] = "acquire",
        [TL_SCRIPT_UNVOTE] = "unvote", [TL_SCRIPT_UNBIND] = "unbind",
        [TL_SCRIPT_VOTE] = "vote",     [TL_SCRIPT_LEAVE] = "leave",
        [TL_SCRIPT_REST] = "rest",
#ifdef TL_COMPAT
        [TL_SCRIPT_NOTE] = "note",     [TL_SCRIPT_PHASE] = "phase",
        [TL_SCRIPT_SWAP] = "swap",
#endif
    };
    for (int i = 0; i < TL_SCRIPTS; i++) {
        tl_script s = (tl_script)i;
        assert_true(tl__bytes_eq(tl__script_name(s), tl__bytes_of(names[i])));
        assert_true(tl__script_text(s).n > 100);
        tl_bytes sha1 = tl__script_sha1(s);
        assert_int_equal(sha1.n, 40);
        assert_int_equal(strspn(sha1.p, "0123456789abcdef"), 40);
        for (int j = 0; j < i; j++)
            assert_false(tl__bytes_eq(sha1, tl__script_sha1((tl_script)j)));
    }
}
