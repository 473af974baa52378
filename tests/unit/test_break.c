/*
 * Removing another's lock: what is asked, what an answer means, and that it is asked once.
 */
#include "feed.h"

#include "protocol/break.h"
#include "protocol/transaction.h"

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

/* ---- servers that run no scripts ------------------------------------------------------------- */

#define ENGINELESS "-ERR Could not find scripting engine 'lua'"

/* The last send as one line. */
static const char *sent(const feed *f) {
    static char line[1024];
    size_t n = 0;
    for (uint8_t i = 0; i < f->last.count; i++)
        for (uint8_t j = 0; j < f->last.command[i].argc; j++)
            n += (size_t)snprintf(line + n, sizeof line - n, "%s%.*s",
                                  j   ? " "
                                  : i ? "; "
                                      : "",
                                  (int)f->last.command[i].argv[j].n, f->last.command[i].argv[j].p);
    return line;
}

static void begin_reading(feed *f, const tl_lock_info *seen, const char *error) {
    begin(f, seen);
    m.transacts = true;
    feed_at(f, 40);
    assert_int_equal(feed_reply(f, "%s", error), TL_GO);
    assert_string_equal(sent(f), "WATCH " KEY " " SIDECAR "; GET " KEY "; HMGET " SIDECAR
                                 " token value fence; MULTI");
    assert_ptr_equal(f->last.pin, &tl__pin_opens);
    assert_int_equal(feed_since(f->last.by), 30 + ATTEMPT_MS); /* all of it in one attempt's time */
}

#define UNBIND "; HMSET " SIDECAR " token  value  until 0 broken " OWNER " claim "
#define LIVES "; EXPIRE " SIDECAR " 3600" /* also if it expired meanwhile */
#define END "; EXEC; PUBLISH " SIDECAR " "

static void ends(const feed *f, tl_err code) {
    assert_int_equal(f->status, TL_END);
    assert_int_equal(m.result.code, code);
    assert_int_equal(f->out.message[0] != '\0', code != TL_OK);
}

/* No node executes the script then, for it has several keys. */
TEST(in_a_slot_that_is_being_moved_nothing_is_removed) {
    static const tl_redirect_kind kinds[] = {TL_ASK, TL_TRY_AGAIN, TL_MOVED};
    for (size_t i = 0; i < 3; i++) {
        feed f;
        begin(&f, NULL);
        tl_status status = feed_event(
            &f, (tl_event){.kind = TL_FAILED,
                           .asked = {.ticket = f.last.ticket, .sent = f.sent},
                           .failed = {.why = TL_EELSEWHERE, .redirect = (uint8_t)kinds[i]}});
        if (kinds[i] == TL_MOVED) {
            assert_int_equal(status, TL_GO);
            feed_assert_asked(&f, "break");
            continue;
        }
        assert_int_equal(status, TL_END);
        assert_int_equal(m.result.code, TL_EUNAVAILABLE);
        assert_non_null(strstr(f.out.message, "nothing is removed until it has moved; wait, or "));
    }
}

TEST(without_scripts_a_lock_is_removed_by_a_transaction) {
    static const char *const errors[] = {ENGINELESS, "-ERR unknown command 'EVALSHA'"};
    tl_lock_info seen = {.size = sizeof seen, .value = "1700000060000"};
    feed f;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        begin_reading(&f, &seen, errors[i]);
        (void)feed_reply(&f, "+OK '1700000060000' ['" TOKEN "' '1700000060000' '7'] +OK");
        assert_string_equal(sent(&f), "DEL " KEY UNBIND " spent " TOKEN LIVES END);
        assert_ptr_equal(f.last.pin, &tl__pin_closes);
        (void)feed_reply(&f, "+QUEUED +QUEUED [1 +OK] 0");
        ends(&f, TL_OK);
    }
    begin_reading(&f, NULL,
                  ENGINELESS); /* another library's, which no sidecar knows: none is made */
    (void)feed_reply(&f, "+OK 'x' [nil nil nil] +OK");
    assert_string_equal(sent(&f), "DEL " KEY END);
    begin_reading(&f, NULL, ENGINELESS); /* one that rests, and whose key was deleted */
    (void)feed_reply(&f, "+OK nil ['resting 12 " TOKEN "' 'resting 12 " TOKEN "' '7'] +OK");
    assert_string_equal(sent(&f), "DEL " KEY UNBIND " spent " TOKEN LIVES END);
}

TEST(a_transaction_removes_only_what_was_seen) {
    tl_lock_info seen = {.size = sizeof seen, .value = "resting " TOKEN, .fence = 7};
    feed f;
    begin_reading(&f, &seen, ENGINELESS);
    (void)feed_reply(&f, "+OK 'resting 99 " TOKEN "' [nil nil '8'] +OK");
    assert_int_equal(f.status, TL_GO);
    seen.by_tidelock = true; /* then the fence must be the same, too */
    begin_reading(&f, &seen, ENGINELESS);
    (void)feed_reply(&f, "+OK 'resting 99 " TOKEN "' [nil nil '8'] +OK");
    ends(&f, TL_ETAKEN);
    begin_reading(&f, &seen, ENGINELESS);
    (void)feed_reply(&f, "+OK 'resting 99 " TOKEN "x' [nil nil '7'] +OK");
    ends(&f, TL_ETAKEN);
    begin_reading(&f, &seen, ENGINELESS);
    (void)feed_reply(&f, "+OK nil ['' '' '7'] +OK");
    ends(&f, TL_EEXPIRED);
    begin_reading(&f, &seen, ENGINELESS);
    (void)feed_reply(&f, "+OK -WRONGTYPE Operation against a key holding the wrong kind of value\n "
                         "[nil nil nil] +OK");
    ends(&f, TL_EINVALID);
}

/* Without MULTI the writes would be executed one by one, and at once. */
TEST(a_transaction_that_is_refused_writes_nothing) {
    static const struct {
        const char *reads;
        tl_err code;
    } refused[] = {
        {"+OK 'x' [nil nil nil] -ERR unknown command 'MULTI'\n", TL_EUNSUPPORTED},
        {"-ERR unknown command 'WATCH'\n 'x' [nil nil nil] +OK", TL_EUNSUPPORTED},
        {"+OK -NOPERM no\n [nil nil nil] +OK", TL_EDENIED},
        {"+OK 'x' -LOADING no\n +OK", TL_EUNAVAILABLE},
        {"+OK 'x' [nil nil] +OK", TL_ESERVER},
        {"+OK 'x' [nil nil nil]", TL_ESERVER},
    };
    feed f;
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        begin_reading(&f, NULL, ENGINELESS);
        (void)feed_reply(&f, "%s", refused[i].reads);
        ends(&f, refused[i].code);
    }
}

TEST(a_transaction_that_did_nothing_has_removed_nothing) {
    static const struct {
        const char *writes;
        tl_err code;
    } all[] = {
        {"+QUEUED +QUEUED nil 0",
         TL_ETAKEN}, /* another client has touched the key or its sidecar */
        {"+QUEUED -OOM no\n -EXECABORT Transaction discarded\n 0", TL_EUNAVAILABLE},
        {"+QUEUED +QUEUED [1 -WRONGTYPE no\n] 0", TL_ESERVER},
        {"+QUEUED -OOM no\n +QUEUED [1 1] 0",
         TL_EUNAVAILABLE}, /* below 2.6.5 EXEC runs the others */
        {"+QUEUED +QUEUED", TL_ESERVER},
        {"+QUEUED +QUEUED [1 +OK] -NOPERM no\n", TL_OK}, /* nobody is told: it is removed */
    };
    feed f;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        begin_reading(&f, NULL, ENGINELESS);
        (void)feed_reply(&f, "+OK 'x' ['" TOKEN "' 'x' '7'] +OK");
        (void)feed_reply(&f, "%s", all[i].writes);
        ends(&f, all[i].code);
    }
    begin_reading(&f, NULL, ENGINELESS);
    (void)feed_failed(&f, true, TL_EUNAVAILABLE,
                      "no answer"); /* to the reads: nothing is in doubt */
    ends(&f, TL_EUNAVAILABLE);
    begin_reading(&f, NULL, ENGINELESS);
    (void)feed_reply(&f, "+OK 'x' [nil nil nil] +OK");
    (void)feed_failed(&f, true, TL_EUNAVAILABLE, "no answer");
    ends(&f, TL_EUNCERTAIN);
}

TEST(in_a_cluster_no_lock_is_removed_without_scripts) {
    feed f;
    begin(&f, NULL);
    (void)feed_reply(&f, ENGINELESS);
    ends(&f, TL_EUNSUPPORTED);
}
