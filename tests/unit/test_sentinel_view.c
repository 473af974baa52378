/*
 * What Sentinels say of a master, and who is believed.
 */
#include "client/sentinel_view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tests.h"

#define SENTINELS 3

static tl_sentinel_view view(uint64_t run, int64_t epoch, int32_t others, const char *host) {
    tl_sentinel_view v = {
        .kind = TL_VIEW_NAMED, .run = run, .epoch = epoch, .others = others, .port = 6379};
    (void)snprintf(v.host, sizeof v.host, "%s", host);
    return v;
}

static const tl_sentinel_view silent = {.kind = TL_VIEW_NONE};
static const tl_sentinel_view ignorant = {.kind = TL_VIEW_UNKNOWN, .run = 9};

/* "host", "host?" when it isn't sure, "" for nobody. */
static void judged_after(unsigned former, const tl_sentinel_view *views, unsigned n, unsigned seeds,
                         const char *expected) {
    char said[TL_HOST_SIZE + 1];
    tl_sentinel_verdict v = tl__sentinel_views_judge(views, n, seeds, former);
    (void)snprintf(said, sizeof said, "%s%s", v.master ? v.master->host : "",
                   v.master && !v.sure ? "?" : "");
    assert_string_equal(said, expected);
    assert_true(!v.sure || v.master);
    assert_int_equal(v.majority, v.total / 2 + 1);
}

static void judged(const tl_sentinel_view *views, unsigned n, unsigned seeds,
                   const char *expected) {
    judged_after(0, views, n, seeds, expected);
}

TEST(a_majority_that_agrees_is_sure) {
    const tl_sentinel_view all[] = {view(1, 7, 2, "a"), view(2, 7, 2, "a"), view(3, 7, 2, "a")};
    const tl_sentinel_view two[] = {view(1, 7, 2, "a"), silent, view(3, 7, 2, "a")};
    judged(all, 3, 3, "a");
    judged(two, 3, 3, "a");
}

TEST(fewer_than_a_majority_say_nothing) {
    const tl_sentinel_view one[] = {view(1, 7, 2, "a"), silent, silent};
    const tl_sentinel_view two_of_five[] = {view(1, 7, 4, "a"), view(2, 7, 4, "a"), silent};
    judged(one, 3, 3, "");
    judged(two_of_five, 3, 3, "");
    judged(one, 1, 1, ""); /* the URL names it alone, but it knows of two others */
    judged(&silent, 1, 1, "");
}

TEST(a_sentinel_that_forgot_the_others_is_no_majority) {
    const tl_sentinel_view restarted[] = {view(1, 0, 0, "a"), silent, silent};
    judged(restarted, 3, 3, "");
}

/* Who leads a failover knows first; until the others do it isn't sure. */
TEST(the_latest_epoch_counts_and_is_not_sure_alone) {
    const tl_sentinel_view first[] = {view(1, 8, 2, "b"), view(2, 7, 2, "a"), view(3, 7, 2, "a")};
    const tl_sentinel_view then[] = {view(1, 8, 2, "b"), view(2, 8, 2, "b"), view(3, 7, 2, "a")};
    judged(first, 3, 3, "b?");
    judged(then, 3, 3, "b");
}

TEST(in_one_epoch_the_one_that_most_name) {
    const tl_sentinel_view apart[] = {view(1, 0, 2, "a"), view(2, 0, 2, "b"), view(3, 0, 2, "b")};
    judged(apart, 3, 3, "b");
}

TEST(one_sentinel_by_two_addresses_counts_once) {
    const tl_sentinel_view twice[] = {view(1, 7, 2, "a"), view(1, 7, 2, "a"), silent, silent};
    const tl_sentinel_view alone[] = {view(1, 7, 0, "a"), view(1, 7, 0, "a")};
    judged(twice, 4, 3, "");
    judged(alone, 2, 2, "a"); /* there is but that one */
}

static tl_sentinel_view view_by_id(uint64_t id, int64_t epoch, int32_t others, const char *host) {
    tl_sentinel_view v = view(0, epoch, others, host);
    v.id = id;
    return v;
}

/* Whose user may not run INFO. */
TEST(one_sentinel_by_two_addresses_counts_once_by_its_id) {
    const tl_sentinel_view twice[] = {view_by_id(1, 7, 2, "a"), silent, silent,
                                      view_by_id(1, 7, 2, "a"), silent},
                           two[] = {view_by_id(1, 7, 2, "a"), view_by_id(2, 7, 2, "a"), silent,
                                    view_by_id(1, 7, 2, "a"), silent};
    judged(twice, 5, 3, "");
    judged(two, 5, 3, "a");
    assert_int_equal(tl__sentinel_views_judge(twice, 5, 3, 0).answered, 1);
    assert_int_equal(tl__sentinel_views_judge(twice, 5, 3, 0).total, 3);
}

TEST(who_does_not_say_who_it_is_counts_while_it_must_be_another) {
    tl_sentinel_view two[] = {view(0, 7, 2, "a"), view(0, 7, 2, "a"), silent, silent};
    judged(two, 3, 3, "a");
    assert_int_equal(tl__sentinel_views_judge(two, 3, 3, 0).nameless, 0);
    judged(two, 4, 3, ""); /* more places than Sentinels: both may be one */
    assert_int_equal(tl__sentinel_views_judge(two, 4, 3, 0).nameless, 2);
    assert_int_equal(tl__sentinel_views_judge(two, 4, 3, 0).answered, 0);
    two[1].alone = true; /* the others may have places that aren't known */
    judged(two, 3, 3, "");
    const tl_sentinel_view alone = view(0, 7, 0, "a");
    judged(&alone, 1, 1, "a");
}

/* A run and an id can't be compared: by which more of them tell, the others are nameless. */
TEST(those_that_tell_something_else_are_not_told_apart_from_the_rest) {
    const tl_sentinel_view mixed[] = {view(1, 7, 2, "a"), view_by_id(5, 7, 2, "a"), silent, silent},
                           ids[] = {view(1, 7, 2, "a"), view_by_id(5, 7, 2, "a"),
                                    view_by_id(6, 7, 2, "a"), silent};
    judged(mixed, 4, 3, "");
    judged(ids, 4, 3, "a");
    assert_int_equal(tl__sentinel_views_judge(ids, 4, 3, 0).nameless, 1);
}

/* The URL's own names are so many Sentinels, whatever they have forgotten. */
TEST(one_that_was_reset_and_is_known_by_two_addresses_is_no_majority) {
    const tl_sentinel_view reset[] = {view(1, 7, 0, "a"), silent, silent, view(1, 7, 0, "a"),
                                      silent};
    judged(reset, 5, 3, "");
    assert_int_equal(tl__sentinel_views_judge(reset, 5, 3, 0).total, 3);
}

/* It forgets the others for a time, also where the URL names it alone. */
TEST(fewer_sentinels_than_before_are_believed_by_a_majority_of_those) {
    const tl_sentinel_view reset[] = {view(1, 7, 0, "a"), silent, silent},
                           two[] = {view(1, 7, 1, "a"), view(2, 7, 1, "a"), silent};
    judged_after(3, reset, 3, 1, "");
    judged_after(5, two, 3, 1, "");
    judged_after(3, two, 3, 1, "a");
    assert_int_equal(tl__sentinel_views_judge(two, 3, 1, 3).total, 2);
    judged_after(0, reset, 3, 1, "a");
}

TEST(an_address_is_host_and_port) {
    tl_sentinel_view apart[] = {view(1, 7, 2, "a"), view(2, 7, 2, "a"), silent};
    apart[1].port = 6380;
    judged(apart, 3, 3, "a?");
}

TEST(who_knows_no_such_master_is_counted_and_names_nobody) {
    const tl_sentinel_view some[] = {ignorant, view(2, 7, 2, "a"), view(3, 7, 2, "a")};
    judged(some, 3, 3, "a");
    judged(&ignorant, 1, 1, "");
    assert_int_equal(tl__sentinel_views_judge(&ignorant, 1, 1, 0).unknown, 1);
}

/* ---- reading --------------------------------------------------------------------------------- */

static tl_reply text(const char *s) {
    return (tl_reply){.type = TL_REPLY_STRING, .text = tl__bytes_of(s)};
}

#define LIST(of)                                                                                   \
    ((tl_reply){.type = TL_REPLY_ARRAY, .items = (of), .count = sizeof(of) / sizeof *(of)})

static bool reads(const char *epoch, const char *others, const char *host, const char *port,
                  tl_sentinel_view *ret) {
    tl_reply fields[] = {
        text("name"), text("m"), text("config-epoch"), text(epoch), text("num-other-sentinels"),
        text(others)};
    tl_reply address[] = {text(host), text(port)};
    tl_reply a = LIST(fields), b = LIST(address);
    return tl__sentinel_view_read(ret, &a, &b, 5);
}

TEST(a_vote_is_read) {
    tl_sentinel_view v;
    assert_true(reads("12", "2", "10.0.0.5", "6380", &v));
    assert_int_equal(v.kind, TL_VIEW_NAMED);
    assert_int_equal(v.epoch, 12);
    assert_int_equal(v.others, 2);
    assert_int_equal(v.port, 6380);
    assert_int_equal(v.run, 5);
    assert_string_equal(v.host, "10.0.0.5");
}

TEST(what_is_malformed_is_no_vote) {
    char longest[TL_HOST_SIZE + 1];
    tl_sentinel_view v;
    memset(longest, 'a', sizeof longest);
    longest[sizeof longest - 1] = '\0';
    assert_false(reads("x", "2", "h", "1", &v));
    assert_false(reads("-1", "2", "h", "1", &v));
    assert_false(reads("1", "-1", "h", "1", &v));
    assert_false(reads("1", "2147483647", "h", "1", &v));
    assert_false(reads("1", "2", "", "1", &v));
    assert_false(reads("1", "2", longest, "1", &v));
    assert_false(reads("1", "2", "h", "0", &v));
    assert_false(reads("1", "2", "h", "65536", &v));
    const tl_reply error = {.type = TL_REPLY_ERROR, .text = TL_LITERAL("NOPERM no")};
    assert_false(tl__sentinel_view_read(&v, &error, &error, 0));
    assert_int_equal(v.kind, TL_VIEW_NONE);
}

TEST(no_such_master_is_a_vote_of_its_own) {
    const tl_reply error = {.type = TL_REPLY_ERROR,
                            .text = TL_LITERAL("ERR No such master with that name")},
                   nil = {.type = TL_REPLY_NIL};
    tl_sentinel_view v;
    assert_true(tl__sentinel_view_read(&v, &error, &nil, 7));
    assert_int_equal(v.kind, TL_VIEW_UNKNOWN);
    assert_int_equal(v.run, 7);
}

TEST(others_are_read) {
    tl_reply fields[] = {text("name"), text("x"),    text("ip"),
                         text("::1"),  text("port"), text("26380")};
    const tl_reply item = LIST(fields), none = text("x");
    tl_bytes host;
    uint16_t port;
    assert_true(tl__sentinel_view_other(&item, &host, &port));
    assert_true(tl__bytes_eq(host, TL_LITERAL("::1")));
    assert_int_equal(port, 26380);
    assert_false(tl__sentinel_view_other(&none, &host, &port));
}
