/*
 * Removing another's lock: what is asked, what an answer means, and that it is asked once.
 */
#include "feed.h"

#include "protocol/break.h"

static tl_break m;

static void begin(feed *f, const tl_lock_info *seen) {
    feed_init(f, &m, tl__break_step);
    m = (tl_break){
        .key = TL_LITERAL(KEY), .sidecar = TL_LITERAL(SIDECAR), .who = TL_LITERAL(OWNER)};
    m.line = TL_LITERAL(LINE);
    m.slot = tl__slot_tag(tl__hash_slot(m.key));
    m.seen = seen;
    m.attempt_ms = ATTEMPT_MS;
    m.connect_ms = CONNECT_MS;
    assert_int_equal(feed_start(f), TL_GO);
    feed_assert_asked(f, "");
    feed_at(f, 30);
    (void)feed_reached(f);
    feed_assert_asked(f, "break");
    assert_int_equal(feed_since(f->last.by), 30 + ATTEMPT_MS);
}

TEST(what_was_seen_is_what_may_be_removed) {
    feed f;
    tl_lock_info seen = {.size = sizeof seen, .value = TOKEN, .fence = 41, .by_tidelock = true};
    begin(&f, &seen);
    assert_string_equal(f.text[0], KEY);
    assert_string_equal(f.text[1], SIDECAR);
    assert_string_equal(f.text[2], COUNTER);
    assert_string_equal(f.text[3], LINE);
    assert_string_equal(f.text[4], "=" TOKEN);
    assert_string_equal(f.text[5], "41");
    assert_string_equal(f.text[6], OWNER);
    seen.by_tidelock = false; /* its sidecar, which was another's then, may know it by now */
    begin(&f, &seen);
    assert_string_equal(f.text[4], "=" TOKEN);
    assert_string_equal(f.text[5], "");
    begin(&f, NULL);
    assert_string_equal(f.text[4], "");
    assert_string_equal(f.text[5], "");
}

TEST(each_answer_has_its_code) {
    const struct {
        const char *reply;
        tl_err code;
    } known[] = {
        {"[1]", TL_OK},          {"[0]", TL_ETAKEN},
        {"[-1]", TL_EEXPIRED},   {"[-2]", TL_EINVALID},
        {"[2]", TL_ESERVER},     {"[]", TL_ESERVER},
        {"nil", TL_ESERVER},     {"-NOPERM no permissions", TL_EDENIED},
        {"-ERR no", TL_ESERVER}, {"-LOADING Redis is loading", TL_EUNAVAILABLE},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        feed f;
        begin(&f, NULL);
        (void)feed_reply(&f, "%s", known[i].reply);
        assert_int_equal(f.status, TL_END);
        assert_int_equal(m.result.code, known[i].code);
        assert_int_equal(f.out.message[0] != '\0', known[i].code != TL_OK);
    }
}

TEST(a_lost_answer_is_never_asked_for_again) {
    feed f;
    begin(&f, NULL);
    unsigned sends = f.sends;
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "no answer");
    assert_int_equal(f.status, TL_END);
    assert_int_equal(m.result.code, TL_EUNCERTAIN);
    assert_int_equal(f.sends, sends);
    begin(&f, NULL);
    (void)feed_failed(&f, false, TL_EDENIED, "refused");
    assert_int_equal(m.result.code, TL_EDENIED);
    begin(&f, NULL);
    (void)feed_cancel(&f);
    assert_int_equal(m.result.code, TL_ECANCELLED);
}
