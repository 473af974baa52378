/* What of a text of a server reaches a terminal. */
#include "tests.h"

#include <string.h>

#include "base/printable.h"

static void assert_shown(const char *text, const char *want) {
    char shown[64];
    size_t n = printable(shown, text, strlen(text));

    assert_int_equal(n, strlen(want));
    assert_memory_equal(shown, want, n);
}

TEST(text_stays_as_it_is) {
    static const char wide[] = "\xc2\xa0\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80";

    assert_shown("", "");
    assert_shown("jobs:nightly {x} ~", "jobs:nightly {x} ~");
    assert_shown(wide, wide);
}

TEST(control_characters_are_replaced) {
    char zero[] = {'a', '\0', 'b'};

    assert_shown("\x01\n\x1b[2J\x7f", "???[2J?");
    assert_shown("\xc2\x9b"
                 "2J\xc2\x80\xc2\x9f",
                 "?2J??");
    assert_int_equal(printable(zero, zero, sizeof zero), 3);
    assert_memory_equal(zero, "a?b", 3);
}

TEST(bytes_that_are_no_utf8_are_replaced) {
    assert_shown("\x9b"
                 "31m\x85",
                 "?31m?");
    assert_shown("\xc3", "?");
    assert_shown("\xc3(", "?(");
    assert_shown("\xe2\x82", "??");
    assert_shown("\xe2\x9b\x1b", "???");
    assert_shown("\xc0\x9b\xe0\x82\x9b\xf0\x80\x82\x9b", "?????????"); /* longer than it need be */
    assert_shown("\xed\xa0\x80", "???");                               /* half of a pair */
    assert_shown("\xf4\x90\x80\x80\xf5\xff", "??????");                /* there are none so high */
}

TEST(a_cut_is_between_characters) {
    assert_int_equal(printable_cut("ab", 2), 2);
    assert_int_equal(printable_cut("a\xc3\xa9", 2), 1);
    assert_int_equal(printable_cut("a\xc3\xa9", 3), 3);
    assert_int_equal(printable_cut("a\xf0\x9f\x98\x80", 4), 1);
    assert_int_equal(printable_cut("a\xf0\x9f\x98\x80", 5), 5);
    assert_int_equal(printable_cut("\xc3", 1), 1);
    assert_int_equal(printable_cut("\x9b\x9b\x9b\x9b\x9b", 5), 5);
}
