/*
 * The history: what is written is read again, whatever bytes are in it, and anything else is refused.
 */
#include "tests.h"
#include "base/jsonout.h"
#include "migrate/migrate_log.h"

#include <stdlib.h>

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
        "{\"at_us\":9,\"action\":\"init\"} ",
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
    assert_string_equal(out.action, "?[31m\xe4");
    assert_int_equal(out.to_phase, -1);
}
