/*
 * Feeding the machines of a majority by hand: the test plays the driver and all servers. What was asked of each server
 * last stands in `at`, with its words; the test answers which of them it likes, in whatever order.
 */
#pragma once

#include "feed.h"

#include "protocol/quorum.h"

#define Q_MAX TL_QUORUM_MAX

typedef struct {
    bool open; /* asked, and neither answered nor failed */
    tl_mono sent, by;
    uint16_t ticket;
    char script[16]; /* "": it is only reached */
    char arg[TL_ARGV_MAX][80];
    unsigned argc, nkeys;
} q_asked;

typedef struct {
    void *machine;
    tl_step step;
    unsigned count;
    tl_server server[Q_MAX];
    tl_out out;
    tl_status status;
    tl_mono now;
    q_asked at[Q_MAX];
    unsigned asked; /* requests so far, without those that only reach */
    unsigned arms, notes;
    tl_note note[8];
    feed parser;
} q_feed;

static inline void q_init(q_feed *f, unsigned count, void *machine, tl_step step) {
    memset(f, 0, sizeof *f);
    f->machine = machine;
    f->step = step;
    f->count = count;
    f->now = feed_ms(0);
    for (unsigned i = 0; i < count; i++) {
        f->server[i].drift_ppm = FEED_DRIFT_PPM;
        f->server[i].anchor.known = true;
        f->server[i].anchor.offset = (tl_interval){FEED_OFFSET_US, FEED_OFFSET_US};
        f->server[i].anchor.at = f->now;
    }
    tl__out_clear(&f->out);
}

static inline void q_note_send(q_feed *f) {
    const tl_send *send = &f->out.send;
    assert_int_equal(__builtin_popcount(send->to), 1);
    q_asked *a = &f->at[__builtin_ctz(send->to)];
    assert_true((unsigned)__builtin_ctz(send->to) < f->count);
    assert_false(a->open && a->ticket == send->ticket);
    *a = (q_asked){.open = true, .sent = f->now, .by = send->by, .ticket = send->ticket};
    if (send->count == 0)
        return;
    const tl_command *c = &send->command[0];
    f->asked++;
    a->nkeys = c->nkeys;
    a->argc = c->argc;
    tl_bytes name = c->form == TL_SCRIPT ? tl__script_name((tl_script)c->script) : c->argv[0];
    (void)snprintf(a->script, sizeof a->script, "%.*s", (int)name.n, name.p);
    for (unsigned i = 0; i < c->argc; i++)
        (void)snprintf(a->arg[i], sizeof a->arg[i], "%.*s", (int)c->argv[i].n, c->argv[i].p);
}

/* And timers for as long as it wants one at once. */
static inline tl_status q_event(q_feed *f, tl_event e) {
    f->notes = 0;
    for (unsigned n = 0;; n++) {
        assert_true(n < 50);
        e.now = f->now;
        e.server = f->server;
        e.servers = f->server;
        tl__out_clear(&f->out);
        f->status = f->step(f->machine, &e, &f->out);
        for (unsigned i = 0; i < f->out.notes; i++)
            f->note[f->notes++] = f->out.note[i];
        assert_true(f->out.sends <= 1 && (f->status == TL_GO || f->out.sends == 0));
        f->arms += f->out.arm;
        if (f->out.sends > 0)
            q_note_send(f);
        if (f->status != TL_GO || tl__mono_before(f->now, f->out.until))
            return f->status;
        e = (tl_event){.kind = TL_TIMER};
    }
}

static inline tl_status q_start(q_feed *f) {
    return q_event(f, (tl_event){.kind = TL_START});
}

static inline tl_status q_timer(q_feed *f) {
    return q_event(f, (tl_event){.kind = TL_TIMER});
}

static inline void q_later(q_feed *f, int64_t ms) {
    f->now = tl__mono_add_ms(f->now, ms);
}

static inline void q_later_us(q_feed *f, int64_t us) {
    f->now = tl__mono_add_ns(f->now, us * 1000);
}

static inline tl_status q_await(q_feed *f) {
    assert_true(f->out.until.ns != INT64_MAX);
    f->now = tl__mono_max(f->now, f->out.until);
    return q_timer(f);
}

/* ---- answers ---------------------------------------------------------------------------------- */

static inline tl_status q_say_to(q_feed *f, unsigned i, q_asked asked, const char *text) {
    tl_event e = {.kind = TL_REPLY,
                  .from = (uint8_t)i,
                  .asked = {.ticket = asked.ticket, .sent = asked.sent}};
    e.replied.reply = feed_parse(&f->parser, text, &e.replied.count);
    return q_event(f, e);
}

static inline tl_status q_say(q_feed *f, unsigned i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static inline tl_status q_say(q_feed *f, unsigned i, const char *format, ...) {
    static char text[FEED_TEXT_MAX];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    assert_true(f->at[i].open);
    q_asked asked = f->at[i];
    f->at[i].open = false;
    return q_say_to(f, i, asked, text);
}

static inline tl_status q_reached(q_feed *f, unsigned i) {
    assert_string_equal(f->at[i].script, "");
    return q_say(f, i, "%s", "");
}

static inline void q_reach_all(q_feed *f) {
    for (unsigned i = 0; i < f->count; i++)
        (void)q_reached(f, i);
}

static inline const char *q_time(const q_feed *f) {
    f = (const q_feed *)f;
    static char text[64];
    int64_t us = FEED_OFFSET_US + f->now.ns / 1000;
    (void)snprintf(text, sizeof text, "'%lld' '%lld'", (long long)(us / 1000000),
                   (long long)(us % 1000000));
    return text;
}

static inline tl_status q_voted(q_feed *f, unsigned i, int64_t number, int64_t left_ms) {
    assert_string_equal(f->at[i].script, "vote");
    return q_say(f, i, "[1 '%s' %lld '%lld' %s 1 0]", f->at[i].arg[3], (long long)left_ms,
                 (long long)number, q_time(f));
}

/* K was the token's before. */
static inline tl_status q_raised(q_feed *f, unsigned i, int64_t number, int64_t left_ms) {
    assert_string_equal(f->at[i].script, "vote");
    return q_say(f, i, "[1 '%s' %lld '%lld' %s 1 1]", f->at[i].arg[3], (long long)left_ms,
                 (long long)number, q_time(f));
}

static inline tl_status q_busy(q_feed *f, unsigned i, const char *holder, int64_t left_ms,
                               bool announced) {
    assert_string_equal(f->at[i].script, "vote");
    return q_say(f, i, "[0 '%s' %lld '0' %s 1 %d]", holder, (long long)left_ms, q_time(f),
                 announced);
}

static inline tl_status q_withheld(q_feed *f, unsigned i, int64_t left_ms) {
    return q_say(f, i, "[-4 nil %lld '0' %s 1 0]", (long long)left_ms, q_time(f));
}

static inline tl_status q_kept(q_feed *f, unsigned i, int64_t left_ms) {
    assert_string_equal(f->at[i].script, "renew");
    return q_say(f, i, "[%s [1 'x' %lld]]", q_time(f), (long long)left_ms);
}

/* status 0 another's, -1 absent. */
static inline tl_status q_not_kept(q_feed *f, unsigned i, int status) {
    assert_string_equal(f->at[i].script, "renew");
    return q_say(f, i, "[%s [%d nil -1]]", q_time(f), status);
}

static inline tl_status q_fail(q_feed *f, unsigned i, bool maybe_sent, tl_err why) {
    assert_true(f->at[i].open);
    f->at[i].open = false;
    return q_event(f, (tl_event){.kind = TL_FAILED,
                                 .asked = {.ticket = f->at[i].ticket, .sent = f->at[i].sent},
                                 .failed = {.maybe_sent = maybe_sent,
                                            .why = why,
                                            .message = TL_LITERAL("h: no reply in time")}});
}

/* The request left, and no answer came within its limit. */
static inline tl_status q_lost(q_feed *f, unsigned i) {
    f->now = tl__mono_max(f->now, f->at[i].by);
    return q_fail(f, i, true, TL_EUNAVAILABLE);
}

static inline tl_status q_refused(q_feed *f, unsigned i) {
    return q_fail(f, i, false, TL_EUNAVAILABLE);
}

static inline tl_status q_called(q_feed *f, unsigned i) {
    return q_event(f, (tl_event){.kind = TL_WOKEN, .from = (uint8_t)i});
}

static inline tl_status q_armed(q_feed *f, unsigned i, bool armed) {
    return q_event(f, (tl_event){.kind = TL_ARMED, .from = (uint8_t)i, .armed = armed});
}

/* ---- reading out ------------------------------------------------------------------------------- */

/* Argument i, from 0, behind the keys of what a server was asked. */
static inline const char *q_arg(const q_feed *f, unsigned i, unsigned arg) {
    assert_true(f->at[i].nkeys + arg < f->at[i].argc);
    return f->at[i].arg[f->at[i].nkeys + arg];
}

static inline int64_t q_arg_int(const q_feed *f, unsigned i, unsigned arg) {
    int64_t v = 0;
    assert_true(tl__bytes_to_int(tl__bytes_of(q_arg(f, i, arg)), &v));
    return v;
}

/* Is this what it is asked at present? NULL: nothing. */
static inline void q_assert_asked(const q_feed *f, unsigned i, const char *script) {
    if (!script && f->at[i].open)
        fail_msg("server %u is asked '%s'", i, f->at[i].script);
    if (script && (!f->at[i].open || strcmp(f->at[i].script, script) != 0))
        fail_msg("server %u is asked %s, not %s", i, f->at[i].open ? f->at[i].script : "nothing",
                 script);
}

static inline void q_assert_waits_between(const q_feed *f, int64_t least_ms, int64_t most_ms) {
    assert_int_equal(f->status, TL_GO);
    assert_in_range(f->out.until.ns, feed_ms(least_ms).ns, feed_ms(most_ms).ns);
}

static inline void q_assert_note(const q_feed *f, tl_note_kind kind, tl_lost_why why) {
    assert_int_equal(f->notes, 1);
    assert_int_equal(f->note[0].kind, kind);
    assert_int_equal(f->note[0].why, why);
}
