/*
 * Joining sends: the request is what one machine would have asked for all, and each member's part of
 * the answer is what it would have heard alone.
 */
#include <string.h>

#include "tests.h"
#include "client/batch.h"

/* Sanitizers: no memory is NULL, not the end of the program. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "allocator_may_return_null=1";
}
const char *__tsan_default_options(void);
const char *__tsan_default_options(void) {
    return "allocator_may_return_null=1";
}

static tl_mono at(int64_t ms) {
    return tl__mono_add_ms((tl_mono){1}, ms);
}

static tl_send member(const char *key, const char *own, const char *not_after, int64_t by_ms) {
    tl_send send = {.ticket = 7, .count = 1, .by = at(by_ms)};
    tl_command *c = &send.command[0];
    *c = (tl_command){
        .form = TL_SCRIPT, .script = TL_SCRIPT_RENEW, .nkeys = 1, .each = 1, .head = 3};
    const char *const words[] = {key, "lo", "idle", "who", own, not_after, "hi"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        c->argv[c->argc++] = tl__bytes_of(words[i]);
    return send;
}

static tl_batch_bytes request;

static tl_batch *joined(int count) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
    static int cookies[TL_BATCH_MAX];
    for (int i = 0; i < count; i++) {
        tl_send send = member(i == 0 ? "a" : "b", i == 0 ? "x" : "y", i == 0 ? "20" : "10",
                              i == 0 ? 20 : 15);
        assert_true(tl__batch_fits(b, &send, at(0)));
        assert_true(tl__batch_add(b, &send, &cookies[i], at(0)));
    }
    return b;
}

TEST(keys_and_own_arguments_line_up_and_the_earliest_limit_counts) {
    tl_batch *b = joined(2);
    const tl_send *send = tl__batch_send(b);
    assert_non_null(send);
    assert_int_equal(send->by.ns, at(15).ns);
    assert_int_equal(send->command[0].nkeys, 2);
    assert_int_equal(send->command[0].argc, 0);
    assert_int_equal(send->command[0].more_argc, 9);
    static const char text[] =
        "$1\r\na\r\n$1\r\nb\r\n$2\r\nlo\r\n$4\r\nidle\r\n$3\r\nwho\r\n$1\r\nx\r\n"
        "$1\r\ny\r\n$2\r\n10\r\n$2\r\nhi\r\n";
    assert_int_equal(send->command[0].more.n, sizeof text - 1);
    assert_memory_equal(send->command[0].more.p, text, sizeof text - 1);
    tl__batch_free(b);
}

/* One that is given until the latest that the server's clock can show doesn't prolong the time of one that is
 * bound to the earliest. */
TEST(each_of_both_limits_is_the_earliest_of_any) {
    for (int swapped = 0; swapped < 2; swapped++) {
        tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
        tl_send bound = member("a", "x", "20", 20), other = member("b", "y", "30", 15);
        assert_true(tl__batch_add(b, swapped ? &other : &bound, NULL, at(0)));
        assert_true(tl__batch_add(b, swapped ? &bound : &other, NULL, at(0)));
        const tl_send *send = tl__batch_send(b);
        assert_int_equal(send->by.ns, at(15).ns);
        static const char tail[] = "$2\r\n20\r\n$2\r\nhi\r\n";
        tl_bytes text = send->command[0].more;
        assert_memory_equal(text.p + text.n - (sizeof tail - 1), tail, sizeof tail - 1);
        tl__batch_free(b);
    }
}

/* By the numbers, of whatever length. */
TEST(the_sooner_limit_counts_though_its_text_is_the_greater) {
    static const char *const limits[][3] = {
        {"20", "9", "$1\r\n9\r\n"},   {"9", "20", "$1\r\n9\r\n"},   {"21", "20", "$2\r\n20\r\n"},
        {"20", "21", "$2\r\n20\r\n"}, {"20", "00", "$2\r\n20\r\n"}, {"-3", "20", "$2\r\n20\r\n"}};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
        for (int k = 0; k < 2; k++) {
            tl_send send = member("a", "x", limits[i][k], 20);
            assert_true(tl__batch_add(b, &send, NULL, at(0)));
        }
        tl_bytes text = tl__batch_send(b)->command[0].more;
        static const char end[] = "$2\r\nhi\r\n";
        size_t n = strlen(limits[i][2]);
        assert_memory_equal(text.p + text.n - (sizeof end - 1) - n, limits[i][2], n);
        tl__batch_free(b);
    }
}

TEST(no_limit_is_the_latest_of_all) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
    tl_send without = member("a", "x", "0", 10), with = member("b", "y", "20", 15);
    assert_true(tl__batch_add(b, &without, NULL, at(0)));
    assert_true(tl__batch_add(b, &with, NULL, at(0)));
    static const char tail[] = "$2\r\n20\r\n$2\r\nhi\r\n";
    tl_bytes text = tl__batch_send(b)->command[0].more;
    assert_memory_equal(text.p + text.n - (sizeof tail - 1), tail, sizeof tail - 1);
    tl__batch_free(b);
}

/* A key that no memory is enough for. */
TEST(one_that_could_not_be_joined_leaves_nothing_of_itself) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
    tl_send huge = member("a", "x", "5", 5), send = member("a", "x", "20", 20);
    huge.command[0].argv[0].n = SIZE_MAX / 3;
    assert_false(tl__batch_add(b, &huge, NULL, at(0)));
    assert_true(tl__batch_add(b, &send, NULL, at(0)));
    assert_false(tl__batch_add(b, &huge, NULL, at(0)));
    static const char text[] =
        "$1\r\na\r\n$2\r\nlo\r\n$4\r\nidle\r\n$3\r\nwho\r\n$1\r\nx\r\n$2\r\n20\r\n$2\r\nhi\r\n";
    const tl_command *c = &tl__batch_send(b)->command[0];
    assert_int_equal(c->more_argc, 7);
    assert_int_equal(c->more.n, sizeof text - 1);
    assert_memory_equal(c->more.p, text, sizeof text - 1);
    tl__batch_free(b);
}

TEST(the_command_behind_is_kept_whole) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
    char number[] = "3";
    tl_send send = member("a", "x", "20", 20);
    send.count = 2;
    send.command[1] = (tl_command){
        .form = TL_ARGV, .argc = 2, .argv = {TL_LITERAL("WAIT"), tl__bytes(number, 1)}};
    assert_true(tl__batch_add(b, &send, NULL, at(0)));
    number[0] = '!'; /* the machine's words last for its step alone */
    const tl_command *behind = &tl__batch_send(b)->command[1];
    assert_int_equal(behind->argc, 0);
    assert_int_equal(behind->more_argc, 2);
    static const char text[] = "$4\r\nWAIT\r\n$1\r\n3\r\n";
    assert_int_equal(behind->more.n, sizeof text - 1);
    assert_memory_equal(behind->more.p, text, sizeof text - 1);
    tl__batch_free(b);
}

static void assert_bytes(const tl_command *c, const char *text) {
    assert_int_equal(c->more.n, strlen(text));
    assert_memory_equal(c->more.p, text, c->more.n);
}

TEST(one_alone_asks_for_its_own_key_by_the_limit_of_all) {
    tl_batch *b = joined(3);
    static const char third[] =
        "$1\r\nb\r\n$2\r\nlo\r\n$4\r\nidle\r\n$3\r\nwho\r\n$1\r\ny\r\n$2\r\n10\r\n$2\r\nhi\r\n";
    static const char first[] =
        "$1\r\na\r\n$2\r\nlo\r\n$4\r\nidle\r\n$3\r\nwho\r\n$1\r\nx\r\n$2\r\n10\r\n$2\r\nhi\r\n";
    assert_int_equal(tl__batch_send(b)->command[0].nkeys, 3);
    const tl_send *send = tl__batch_send_one(b, 2);
    assert_int_equal(send->ticket, 7);
    assert_int_equal(send->by.ns, at(15).ns);
    assert_int_equal(send->command[0].nkeys, 1);
    assert_int_equal(send->command[0].more_argc, 7);
    assert_bytes(&send->command[0], third);
    assert_bytes(&tl__batch_send_one(b, 0)->command[0], first);
    tl__batch_free(b);
}

TEST(the_command_behind_is_behind_each_of_them) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
    tl_send send = member("a", "x", "20", 20);
    send.count = 2;
    send.command[1] = (tl_command){.form = TL_ARGV, .argc = 1, .argv = {TL_LITERAL("WAIT")}};
    assert_true(tl__batch_add(b, &send, NULL, at(0)));
    for (int i = 0; i < 3; i++) {
        const tl_command *behind = &tl__batch_send_one(b, 0)->command[1];
        assert_int_equal(behind->more_argc, 1);
        assert_bytes(behind, "$4\r\nWAIT\r\n");
    }
    tl__batch_free(b);
}

/* ---- on etcd ----------------------------------------------------------------------------------- */

static tl_send of_etcd(const char *key, const char *lease, const char *changed, int64_t by_s) {
    tl_send send = {.ticket = 7, .count = 2, .by = at(by_s)};
    send.command[0] = (tl_command){
        .form = TL_ARGV, .argc = 3, .each = TL_ETCD_KEEPS_EACH, .alike = 9};
    const char *const words[2][6] = {{"GRANT", lease, "9"},
                                     {"KEEP", key, "1f", "5", lease, changed}};
    for (int i = 0; i < 3; i++)
        send.command[0].argv[i] = tl__bytes_of(words[0][i]);
    send.command[1] = (tl_command){.form = TL_ARGV, .argc = 6};
    for (int i = 0; i < 6; i++)
        send.command[1].argv[i] = tl__bytes_of(words[1][i]);
    return send;
}

static tl_reply number(int64_t v) {
    return (tl_reply){.type = TL_REPLY_INT, .integer = v};
}

TEST(renewals_on_etcd_are_one_transaction_under_a_lease_above_all_of_theirs) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_etcd, &request);
    tl_send first = of_etcd("a", "100", "8", 20), second = of_etcd("bb", "90", "0", 15);
    assert_true(tl__batch_add(b, &first, NULL, at(0)));
    assert_true(tl__batch_fits(b, &second, at(1))); /* at another instant, too */
    assert_true(tl__batch_add(b, &second, NULL, at(1)));
    const tl_send *send = tl__batch_send(b);
    assert_int_equal(send->by.ns, at(15).ns);
    assert_true(tl__bytes_eq(send->command[0].argv[1], TL_LITERAL("101")));
    assert_true(tl__bytes_eq(send->command[0].argv[2], TL_LITERAL("9")));
    assert_true(tl__bytes_eq(send->command[1].argv[0], TL_LITERAL("KEEPS")));
    assert_true(tl__bytes_eq(send->command[1].argv[1], TL_LITERAL("101")));
    assert_true(tl__bytes_eq(send->command[1].more,
                             TL_LITERAL("$1\r\na\r\n$2\r\n1f\r\n$1\r\n5\r\n$1\r\n8\r\n"
                                        "$2\r\nbb\r\n$2\r\n1f\r\n$1\r\n5\r\n$1\r\n0\r\n")));
    send = tl__batch_send_one(b, 1);
    assert_true(tl__bytes_eq(send->command[1].argv[1], TL_LITERAL("90")));
    assert_int_equal(send->command[1].more_argc, TL_ETCD_KEEPS_EACH);
    tl_send longer = of_etcd("c", "1", "8", 20);
    longer.command[0].alike = 10;
    assert_false(tl__batch_fits(b, &longer, at(1)));
    tl_send later = of_etcd("d", "1", "8", 25);
    assert_true(tl__batch_add(b, &later, NULL, at(1)));
    assert_int_equal(tl__batch_send(b)->by.ns, at(15).ns); /* the earliest of all */
    tl__batch_free(b);
}

/* So many comparisons etcd takes; of one whose last change isn't known there are two. */
TEST(a_transaction_has_no_more_comparisons_than_etcd_takes) {
    for (int known = 0; known < 2; known++) {
        tl_batch *b = tl__batch_new(&tl__joiner_of_etcd, &request);
        unsigned n = 0;
        for (tl_send send = of_etcd("a", "1", known ? "8" : "0", 20);
             n < 1000 && tl__batch_fits(b, &send, at(0)); n++)
            assert_true(tl__batch_add(b, &send, NULL, at(0)));
        assert_int_equal(n, known ? 128 : 64);
        tl__batch_free(b);
    }
}

TEST(each_of_a_transaction_is_told_its_own_key_and_the_lease) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_etcd, &request);
    tl_send one = of_etcd("a", "100", "8", 20);
    assert_true(tl__batch_add(b, &one, NULL, at(0)) && tl__batch_add(b, &one, NULL, at(0)));
    tl_reply responses[] = {number(0), number(9), {.type = TL_REPLY_NIL}, number(4)};
    tl_reply replies[] = {number(9), {.type = TL_REPLY_ARRAY, .items = responses, .count = 4}};
    tl_event whole = {.kind = TL_REPLY, .replied = {.reply = replies, .count = 2}};
    tl_reply own[2], items[TL_ETCD_JOINED + 1];
    assert_false(tl__batch_refused(b, &whole));
    tl__batch_reply_of_etcd(b, &whole, 1, own, items);
    assert_int_equal(own[1].count, TL_ETCD_JOINED + 1);
    assert_int_equal(own[1].items[TL_ETCD_REVISION].integer, 9);
    assert_int_equal(own[1].items[TL_ETCD_RESPONSES].integer, 4);
    assert_int_equal(own[1].items[TL_ETCD_JOINED].integer, 101);
    replies[1].count = 3;
    tl__batch_reply_of_etcd(b, &whole, 1, own, items);
    assert_int_equal(own[1].type, TL_REPLY_NIL);
    static const struct {
        const char *text;
        bool singly;
    } errors[] = {{"ETCD 3 too many operations", true},
                  {"ETCD 7 permission denied", true},
                  {"ETCD 14 no leader", false},
                  {"ETCD 5 lease not found", false},
                  {"ETCD 8 no space", false}};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        replies[1] = (tl_reply){.type = TL_REPLY_ERROR, .text = tl__bytes_of(errors[i].text)};
        assert_int_equal(tl__batch_refused(b, &whole), errors[i].singly);
    }
    tl__batch_free(b);
}

static tl_batch_refusal refused_with(const tl_batch *b, const char *error) {
    tl_reply reply = {.type = TL_REPLY_ERROR, .text = tl__bytes_of(error)};
    return tl__batch_refused(
        b, &(tl_event){.kind = TL_REPLY, .replied = {.reply = &reply, .count = 1}});
}

TEST(only_an_error_of_the_server_is_everyones) {
    static const char *const everyones[] = {"BUSY Redis is busy", "LOADING x", "READONLY x",
                                            "OOM command not allowed", "MISCONF x"};
    static const char *const perhaps_ones[] = {
        "WRONGTYPE Operation against a key",
        "NOPERM No permissions to access a key",
        "CROSSSLOT Keys in request don't hash to the same slot",
        "ERR user_script:1: @user_script: x",
        "ERR Script attempted to access a non local key in a cluster node script: f",
        "TRYAGAIN Multiple keys request during rehashing of slot"};
    tl_batch *b = joined(2);
    for (size_t i = 0; i < sizeof everyones / sizeof *everyones; i++)
        assert_int_equal(refused_with(b, everyones[i]), TL_BATCH_ALL);
    for (size_t i = 0; i < sizeof perhaps_ones / sizeof *perhaps_ones; i++)
        assert_int_not_equal(refused_with(b, perhaps_ones[i]), TL_BATCH_ALL);
    tl__batch_free(b);
}

TEST(a_send_of_another_instant_or_hurry_or_kind_is_not_joined) {
    tl_batch *b = joined(1);
    tl_send like = member("k", "x", "1", 20), hasty = member("k", "x", "1", 9),
            slow = member("k", "x", "1", 41), other = like, with_wait = like;
    other.command[0].script = TL_SCRIPT_RELEASE;
    with_wait.count = 2;
    assert_true(tl__batch_fits(b, &like, at(0)));
    assert_false(tl__batch_fits(b, &like, at(1)));
    assert_false(tl__batch_fits(b, &hasty, at(0)));
    assert_false(tl__batch_fits(b, &slow, at(0)));
    assert_false(tl__batch_fits(b, &other, at(0)));
    assert_false(tl__batch_fits(b, &with_wait, at(0)));
    tl__batch_free(b);
}

TEST(no_more_are_joined_than_a_server_should_do_at_once) {
    tl_batch *b = joined(TL_BATCH_MAX);
    tl_send send = member("b", "y", "10", 15);
    assert_false(tl__batch_fits(b, &send, at(0)));
    tl__batch_clear(b);
    assert_true(tl__batch_fits(b, &send, at(5)));
    tl__batch_free(b);
}

TEST(each_member_hears_the_time_and_its_own_item) {
    tl_batch *b = joined(2);
    tl_reply items[4] = {{.type = TL_REPLY_INT, .integer = 11},
                         {.type = TL_REPLY_INT, .integer = 22},
                         {.type = TL_REPLY_INT, .integer = 100},
                         {.type = TL_REPLY_INT, .integer = 200}};
    tl_reply whole = {.type = TL_REPLY_ARRAY, .items = items, .count = 4}, ret, part[3];
    tl__batch_reply(b, &whole, 1, &ret, part);
    assert_int_equal(ret.count, 3);
    assert_int_equal(ret.items[0].integer, 11);
    assert_int_equal(ret.items[1].integer, 22);
    assert_int_equal(ret.items[2].integer, 200);
    tl__batch_free(b);
}

/* ---- answers that tell exceptions --------------------------------------------------------------- */

static tl_send brief(const char *key, uint32_t alike) {
    tl_send send = {.ticket = 7, .count = 1, .by = at(20)};
    tl_command *c = &send.command[0];
    *c = (tl_command){.form = TL_SCRIPT, .script = TL_SCRIPT_REFRESH, .nkeys = 1, .each = 1};
    c->alike = alike;
    c->exceptions = true;
    const char *const words[] = {key, "own", "20", "ttl"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        c->argv[c->argc++] = tl__bytes_of(words[i]);
    return send;
}

static tl_batch *briefly(int count) {
    tl_batch *b = tl__batch_new(&tl__joiner_of_scripts, &request);
    for (int i = 0; i < count; i++) {
        tl_send send = brief("k", 5);
        assert_true(tl__batch_fits(b, &send, at(0)));
        assert_true(tl__batch_add(b, &send, NULL, at(0)));
    }
    return b;
}

TEST(what_has_no_head_begins_with_what_each_has) {
    tl_batch *b = briefly(2);
    assert_bytes(&tl__batch_send(b)->command[0],
                 "$1\r\nk\r\n$1\r\nk\r\n$3\r\nown\r\n$3\r\nown\r\n$2\r\n20\r\n$3\r\nttl\r\n");
    assert_int_equal(tl__batch_send(b)->command[0].more_argc, 6);
    tl__batch_free(b);
}

TEST(only_those_are_joined_that_have_in_common_what_the_whole_says) {
    tl_batch *b = briefly(1);
    tl_send like = brief("k", 5), unlike = brief("k", 6);
    assert_true(tl__batch_fits(b, &like, at(0)));
    assert_false(tl__batch_fits(b, &unlike, at(0)));
    tl__batch_free(b);
}

static tl_reply whole_of(tl_reply *items, size_t count) {
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = count};
}

TEST(an_exception_is_told_to_that_member_as_if_it_were_the_first) {
    tl_batch *b = briefly(3);
    tl_reply items[4] = {{.type = TL_REPLY_INT, .integer = 11},
                         {.type = TL_REPLY_INT, .integer = 22},
                         {.type = TL_REPLY_INT, .integer = 1},
                         {.type = TL_REPLY_INT, .integer = 3}};
    tl_reply whole = whole_of(items, 4), ret, part[3];
    for (unsigned i = 0; i < 3; i++) {
        tl__batch_reply(b, &whole, i, &ret, part);
        assert_int_equal(ret.count, i == 1 ? 2 : 3);
        assert_int_equal(ret.items[1].integer, 22);
        if (i != 1)
            assert_int_equal(ret.items[2].integer, 1);
    }
    tl__batch_free(b);
}

TEST(what_is_no_number_of_a_member_is_told_to_all) {
    tl_batch *b = briefly(2);
    tl_reply items[4] = {{.type = TL_REPLY_INT},
                         {.type = TL_REPLY_INT},
                         {.type = TL_REPLY_INT},
                         {.type = TL_REPLY_NIL}};
    tl_reply whole = whole_of(items, 3), one = whole_of(items, 1), long_one = whole_of(items, 5),
             ret, part[3];
    for (unsigned i = 0; i < 2; i++) {
        tl__batch_reply(b, &whole, i, &ret, part);
        assert_int_equal(ret.items[2].integer, 0);
        tl__batch_reply(b, &one, i, &ret, part);
        assert_int_equal(ret.count, 1);
        tl__batch_reply(b, &long_one, i, &ret, part);
        assert_int_equal(ret.type, TL_REPLY_NIL);
    }
    items[2] = items[3];
    tl__batch_reply(b, &whole, 1, &ret, part);
    assert_int_equal(ret.count, 3);
    assert_int_equal(ret.items[2].type, TL_REPLY_NIL);
    tl__batch_free(b);
}

TEST(an_error_is_everyones_and_a_short_answer_nobodys) {
    tl_batch *b = joined(2);
    tl_reply error = {.type = TL_REPLY_ERROR, .text = TL_LITERAL("OOM")}, ret, part[3];
    tl__batch_reply(b, &error, 1, &ret, part);
    assert_int_equal(ret.type, TL_REPLY_ERROR);
    tl_reply items[3] = {{0}};
    tl_reply three = {.type = TL_REPLY_ARRAY, .items = items, .count = 3};
    tl__batch_reply(b, &three, 0, &ret, part);
    assert_int_equal(ret.type, TL_REPLY_NIL);
    tl__batch_free(b);
}
