/*
 * A hold that is shown what its key holds, after a change that it may have made itself: it asks only when
 * that isn't what it knows.
 */
#include "stamp_feed.h"
#include "renewals.h"

#include "protocol/renew.h"

static tl_renew r;

static void hold(feed *f, const tl_protocol *protocol, tl_job *job) {
    *job = stamp_job(protocol);
    is_held(job);
    feed_init(f, &r, tl__renew_step);
    renew_begin(&r, job, job->hold.believed, TL_NEVER, false, 1);
    (void)feed_start(f);
    feed_at(f, 1000);
}

static void show(feed *f, const char *reply) {
    (void)feed_event(f, (tl_event){.kind = TL_CHANGED, .value = feed_parse(f, reply, NULL)});
}

static const char *stamp(int64_t end_ms) {
    static char text[64];
    (void)snprintf(text, sizeof text, "'%lld'", (long long)end_ms);
    return text;
}

static void kept(feed *f, int64_t end_ms) {
    (void)feed_reply(f, "[%s [1 '%lld' %d]]", feed_time(f), (long long)end_ms, GRACE_MS);
    assert_int_equal(f->status, TL_GO);
    assert_int_equal(f->out.sends, 0);
}

TEST(what_it_has_written_itself_leads_to_nothing) {
    feed f;
    tl_job job;
    hold(&f, &tl__protocol_bridge, &job);
    tl_mono due = f.out.until;
    show(&f, stamp(START_MS + T_MS));
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(f.out.until.ns, due.ns);
    (void)feed_await(&f);
    feed_assert_asked(&f, "renew");
    int64_t end_ms = START_MS + feed_since(f.now) + T_MS;
    kept(&f, end_ms);
    due = f.out.until;
    show(&f, stamp(end_ms));
    assert_int_equal(f.out.sends, 0);
    assert_int_equal(f.out.until.ns, due.ns);
}

TEST(whatever_else_is_asked_about_at_once) {
    static const char *const others[] = {
        "nil", "'somebody'", "'1'",
        "-WRONGTYPE Operation against a key holding the wrong kind of value", "[]"};
    const size_t count = sizeof others / sizeof *others;
    for (size_t i = 0; i <= count; i++) {
        feed f;
        tl_job job;
        hold(&f, &tl__protocol_timestamp, &job);
        show(&f, i < count ? others[i] : stamp(START_MS + T_MS + 1));
        feed_assert_asked(&f, "renew");
    }
}

TEST(a_refusal_tells_nothing) {
    feed f;
    tl_job job;
    hold(&f, &tl__protocol_bridge, &job);
    show(&f, "-NOPERM this user has no permissions to run the 'get' command");
    assert_int_equal(f.out.sends, 0);
}

TEST(what_is_seen_while_it_asks_is_asked_about_again) {
    feed f;
    tl_job job;
    hold(&f, &tl__protocol_bridge, &job);
    (void)feed_await(&f);
    int64_t end_ms = START_MS + feed_since(f.now) + T_MS;
    show(&f, stamp(START_MS + T_MS)); /* read before the keep: nothing new */
    assert_int_equal(f.out.sends, 0);
    kept(&f, end_ms);
    (void)feed_await(&f);
    show(&f, "nil");
    assert_int_equal(f.out.sends, 0);
    (void)feed_reply(&f, "[%s [1 '%lld' %d]]", feed_time(&f), (long long)(end_ms + 1), GRACE_MS);
    feed_assert_asked(&f, "renew");
}

/* Its own change, that too few replicas have: the next attempt has its time. */
TEST(a_renewal_that_did_not_count_is_not_hastened_by_its_own_change) {
    feed f;
    tl_job job;
    hold(&f, &tl__protocol_bridge, &job);
    r.job.wait_replicas = 1;
    for (int i = 0; i < 3; i++) {
        do
            (void)feed_await(&f);
        while (f.out.sends == 0);
        int64_t end_ms = START_MS + feed_since(f.now) + T_MS;
        (void)feed_reply(&f, "[%s [1 '%lld' %d]] 0", feed_time(&f), (long long)end_ms, GRACE_MS);
        bool at_once = f.out.sends > 0; /* the first time */
        assert_int_equal(at_once, i == 0);
        if (at_once)
            (void)feed_reply(&f, "[%s [1 '%lld' %d]] 0", feed_time(&f), (long long)end_ms,
                             GRACE_MS);
        show(&f, stamp(end_ms));
        assert_int_equal(f.out.sends, 0);
    }
}

TEST(where_it_holds_a_token_that_is_what_it_knows) {
    feed f;
    tl_job job;
    hold(&f, &tl__protocol_bridge, &job);
    r.job.hold.proof = (tl_proof){.kind = TL_PROOF_TOKEN};
    show(&f, "'" TOKEN "'");
    assert_int_equal(f.out.sends, 0);
    show(&f, stamp(START_MS + T_MS));
    feed_assert_asked(&f, "renew");
}
