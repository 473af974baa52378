/*
 * The history: what is written is read again, whatever bytes are in it, and anything else is refused.
 */
#include "tests.h"
#include "migrate/migrate_log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TEST(what_is_written_is_read) {
    migrate_change in = {.action = "advance",
                         .from_phase = 1,
                         .to_phase = 2,
                         .from_epoch = 4,
                         .by = "o\"neil\\@db1\tpid 7, \"to_phase\":3",
                         .evidence = "3 clients confirmed; \"at_us\":1"},
                   out;
    char line[2000];
    char *rest = migrate_change_write(&in);
    assert_non_null(rest);
    (void)snprintf(line, sizeof line, "{\"at_us\":1763700000000000,\"to_epoch\":5,%s", rest);
    free(rest);
    assert_true(migrate_change_read(tl__bytes_of(line), &out));
    assert_int_equal(out.at_us, INT64_C(1763700000000000));
    assert_int_equal(out.to_epoch, 5);
    assert_int_equal(out.from_epoch, 4);
    assert_int_equal(out.from_phase, 1);
    assert_int_equal(out.to_phase, 2);
    assert_string_equal(out.action, in.action);
    assert_string_equal(out.by, "o\"neil\\@db1?pid 7, \"to_phase\":3"); /* no control bytes */
    assert_string_equal(out.evidence, in.evidence);
    for (size_t n = 0; n < strlen(line); n++) /* cut off anywhere */
        assert_false(migrate_change_read(tl__bytes(line, n), &out));
}

TEST(a_beginning_has_no_phase_before) {
    migrate_change out;
    assert_true(migrate_change_read(
        TL_LITERAL(
            "{\"at_us\":9,\"to_epoch\":1,\"action\":\"init\",\"from_phase\":null,\"to_phase\":0}"),
        &out));
    assert_int_equal(out.from_phase, -1);
    assert_int_equal(out.to_phase, 0);
}

TEST(anything_else_is_refused) {
    static const char *const bad[] = {
        "",
        "x",
        "{}",
        "{\"at_us\":9}",
        "{\"action\":\"init\"}",
        "{\"at_us\":9,\"action\":\"init\"} x",
        "{\"at_us\":9,\"action\":\"init\",\"at_us\":9}",
        "{\"at_us\":9,\"action\":\"in\\u0000it\"}",
        "{\"at_us\":9,\"action\":[\"init\"]}",
        "{\"at_us\":9.0,\"action\":\"init\"}",
        "{\"at_us\":9,\"action\":\"init\",}",
        "{\"at_us\":9,\"action\":\"init\",\"other\":1}",
        "{\"at_us\":9,\"action\":init}",
        "{\"at_us\":\"9\",\"action\":\"init\"}",
        "{\"at_us\":1e9,\"action\":\"init\"}",
        "{\"at_us\":99999999999999999999,\"action\":\"init\"}",
        "{\"at_us\":9,\"action\":\"\\x\"}",
        "{\"at_us\":9,\"action\":\"\\u00g0\"}",
        "[\"at_us\"]",
    };
    migrate_change out;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (migrate_change_read(tl__bytes_of(bad[i]), &out))
            fail_msg("this is read: %s", bad[i]);
    assert_true(migrate_change_read(
        TL_LITERAL("{\"at_us\":9,\"action\":\"\\u001b[31m\\u00e4\",\"to_phase\":77}"), &out));
    assert_string_equal(out.action, "?[31m\xc3\xa4");
    assert_int_equal(out.to_phase, -1);
}

/* Former versions read no escape but of quotes and backslashes, and no space between. */
TEST(former_versions_read_what_is_written) {
    migrate_change in = {.action = "sweep", .from_phase = -1, .to_phase = 0};
    (void)snprintf(in.by, sizeof in.by, "a\nb\\\t\x7f\"\xc3\xa4/\xe4\x1b[0m");
    (void)snprintf(in.evidence, sizeof in.evidence, "%0*d", MIGRATE_EVIDENCE_SIZE - 1, 7);
    char *rest = migrate_change_write(&in), want[2000];
    assert_non_null(rest);
    (void)snprintf(want, sizeof want,
                   "\"action\":\"sweep\",\"from_phase\":null,\"to_phase\":0,\"from_epoch\":0,"
                   "\"by\":\"a?b\\\\?\x7f\\\"\xc3\xa4/\xc3\xa4?[0m\",\"evidence\":\"%s\"}",
                   in.evidence);
    assert_string_equal(rest, want);
    free(rest);
}

TEST(a_text_is_cut_between_characters) {
    migrate_change out;
    for (size_t odd = 0; odd < 2; odd++) {
        char line[MIGRATE_BY_SIZE + 100];
        int n = snprintf(line, sizeof line, "{\"at_us\":9,\"action\":\"init\",\"by\":\"%s",
                         odd ? "x" : "");
        for (size_t i = 0; i < MIGRATE_BY_SIZE / 2; i++)
            n += snprintf(line + n, sizeof line - (size_t)n, "\xc3\xa4");
        (void)snprintf(line + n, sizeof line - (size_t)n, "\"}");
        assert_true(migrate_change_read(tl__bytes_of(line), &out));
        assert_int_equal(strlen(out.by), odd ? MIGRATE_BY_SIZE - 1 : MIGRATE_BY_SIZE - 2);
        assert_int_equal((unsigned char)out.by[strlen(out.by) - 1], 0xa4);
    }
}
