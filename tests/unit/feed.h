/*
 * Feeding a step machine by hand: the test plays the driver and the server. It says what happens
 * and when, in milliseconds after the start, and reads what the machine asks for. Replies are
 * written as text: 7 an integer, 'x' a string, +x a status, -x an error to the end of the line, nil,
 * [ ... ] an array.
 */
#pragma once

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests.h"
#include "protocol/protocol.h"

#define FEED_ITEMS_MAX 64
#define FEED_TEXT_MAX 1024
#define FEED_START_NS INT64_C(5000000000000)     /* the deadline clock when a test begins */
#define FEED_OFFSET_US INT64_C(1700000000000000) /* the server's clock less the deadline clock */
#define FEED_SERVER_US (FEED_OFFSET_US + FEED_START_NS / 1000) /* the server's clock then */
#define FEED_DRIFT_PPM 100                                     /* of each clock */

#define KEY "jobs:nightly"
#define SIDECAR "tidelock:{jobs:nightly}"
#define LINE SIDECAR ":line"
#define COUNTER "tidelock:fence:{0DT}"
#define TOKEN "00000000-0000-4000-8000-000000000001"
#define OWNER "host 42 demo"
#define TTL_MS 30000
#define ATTEMPT_MS 2000
#define CONNECT_MS 5000
/* What the drift bound takes from each validity: of a duration d on a clock that is fast, one that is slow shows
 * d (1 - drift) / (1 + drift), so 2 drift / (1 + drift) of it are missing; rounded up. */
#define FEED_LOSS_NS(ns)                                                                           \
    (((ns)*2 * FEED_DRIFT_PPM + 1000000 + FEED_DRIFT_PPM - 1) / (1000000 + FEED_DRIFT_PPM))
#define FEED_LOSS_OF(ms) FEED_LOSS_NS((int64_t)(ms)*TL_NS_PER_MS)
#define DRIFT_NS FEED_LOSS_OF(TTL_MS)
#define FEED_LEAST_OF(ms) ((int64_t)(ms)*TL_NS_PER_MS - FEED_LOSS_OF(ms))
/* And the most that one shows while the other shows so much; rounded up. */
#define FEED_MOST_OF(ms)                                                                           \
    ((int64_t)(ms)*TL_NS_PER_MS +                                                                  \
     ((int64_t)(ms)*TL_NS_PER_MS * 2 * FEED_DRIFT_PPM + 999999 - FEED_DRIFT_PPM) /                 \
         (1000000 - FEED_DRIFT_PPM))
#define FEED_GAIN_MS 7 /* what a fast clock gains in TTL_MS on one that is slow: 6.0006 ms */

typedef struct {
    void *machine;
    tl_step step;
    tl_server server;
    tl_out out;
    tl_status status;
    tl_mono now;
    tl_mono sent; /* when the last send was asked for */
    tl_send last; /* the last send; its words are copied to `text` */
    char text[TL_ARGV_MAX * 4][FEED_TEXT_MAX];
    unsigned sends;   /* how many so far, without those that only reach the server */
    unsigned reaches; /* and those */
    unsigned arms;
    const char *place; /* who replies, or NULL */
    uint64_t run;      /* which server replies; 0: not known */
    uint32_t asked;    /* the generation of whom is asked; 0: no other takes its place */
    bool unnamed;      /* it wasn't named lately when it was asked */
    tl_reply items[FEED_ITEMS_MAX];
    size_t items_used;
    char words[FEED_TEXT_MAX * 2]; /* text of the present reply */
} feed;

/* ---- time ------------------------------------------------------------------------------------ */

static inline tl_mono feed_ms(int64_t ms) {
    return tl__mono_add_ms((tl_mono){FEED_START_NS}, ms);
}

static inline void feed_at(feed *f, int64_t ms) {
    f->now = feed_ms(ms);
}

static inline void feed_later(feed *f, int64_t ms) {
    f->now = tl__mono_add_ms(f->now, ms);
}

/* ms after the start, rounded down; INT64_MAX for never. */
static inline int64_t feed_since(tl_mono t) {
    return t.ns == INT64_MAX ? INT64_MAX : (t.ns - FEED_START_NS) / TL_NS_PER_MS;
}

/* The server's clock ms after the start. */
static inline int64_t feed_server_us(int64_t ms) {
    return FEED_SERVER_US + ms * 1000;
}

/* ---- setting up ------------------------------------------------------------------------------ */

static inline tl_job feed_job(void) {
    tl_job job = {.protocol = &tl__protocol_token,
                  .key = TL_LITERAL(KEY),
                  .sidecar = TL_LITERAL(SIDECAR),
                  .line = TL_LITERAL(LINE),
                  .slot = tl__slot_tag(tl__hash_slot(TL_LITERAL(KEY))),
                  .owner = TL_LITERAL(OWNER),
                  .ttl_ms = TTL_MS,
                  .attempt_ms = ATTEMPT_MS};
    memcpy(job.token.text, TOKEN, sizeof TOKEN);
    return job;
}

/* The server's clock is known exactly at the start. */
static inline void feed_init(feed *f, void *machine, tl_step step) {
    memset(f, 0, sizeof *f);
    f->machine = machine;
    f->step = step;
    f->now = feed_ms(0);
    f->server.drift_ppm = FEED_DRIFT_PPM;
    f->server.anchor.known = true;
    f->server.anchor.offset = (tl_interval){FEED_OFFSET_US, FEED_OFFSET_US};
    f->server.anchor.at = f->now;
    tl__out_clear(&f->out);
}

/* ---- events ---------------------------------------------------------------------------------- */

static inline void feed_keep_send(feed *f, const tl_send *send) {
    size_t line = 0;
    f->last = *send;
    f->sent = f->now;
    if (send->count == 0)
        f->reaches++;
    else
        f->sends++;
    for (uint8_t i = 0; i < send->count + send->native; i++)
        for (uint8_t j = 0; j < send->command[i].argc; j++, line++) {
            tl_bytes arg = send->command[i].argv[j];
            assert_true(line < sizeof f->text / sizeof *f->text && arg.n < FEED_TEXT_MAX);
            memcpy(f->text[line], arg.p, arg.n);
            f->text[line][arg.n] = '\0';
            f->last.command[i].argv[j] = tl__bytes(f->text[line], arg.n);
        }
}

static inline tl_status feed_event(feed *f, tl_event e) {
    e.now = f->now;
    e.server = &f->server;
    tl__out_clear(&f->out);
    f->status = f->step(f->machine, &e, &f->out);
    assert_true(f->out.sends <= 1 && f->out.notes <= TL_NOTE_MAX);
    assert_true(f->status == TL_GO || f->out.sends == 0);
    if (f->out.sends > 0)
        feed_keep_send(f, &f->out.send);
    f->arms += f->out.arm;
    return f->status;
}

static inline tl_status feed_start(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_START});
}

static inline tl_status feed_timer(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_TIMER});
}

static inline tl_status feed_woken(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_WOKEN});
}

static inline tl_status feed_armed(feed *f, bool armed) {
    return feed_event(f, (tl_event){.kind = TL_ARMED, .armed = armed});
}

static inline tl_status feed_cancel(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_CANCEL});
}

/* Time passes until the machine's own timer, which there must be, and it is told. */
static inline tl_status feed_await(feed *f) {
    assert_true(f->out.until.ns != INT64_MAX);
    f->now = tl__mono_max(f->now, f->out.until);
    return feed_timer(f);
}

/* The server has been reached: the answer to a send without commands. */
static inline tl_status feed_reached(feed *f) {
    assert_int_equal(f->last.count, 0);
    return feed_event(
        f, (tl_event){.kind = TL_REPLY, .asked = {.ticket = f->last.ticket, .sent = f->sent}});
}

static inline tl_status feed_failed(feed *f, bool maybe_sent, tl_err why, const char *words) {
    return feed_event(
        f, (tl_event){
               .kind = TL_FAILED,
               .asked = {.ticket = f->last.ticket, .sent = f->sent, .generation = f->asked},
               .failed = {.maybe_sent = maybe_sent, .why = why, .message = tl__bytes_of(words)}});
}

/* The request left, and no answer came within its limit. */
static inline tl_status feed_lost(feed *f) {
    f->now = tl__mono_max(f->now, f->last.by);
    return feed_failed(f, true, TL_EUNAVAILABLE, "no reply in time");
}

static inline tl_status feed_refused(feed *f) {
    return feed_failed(f, false, TL_EUNAVAILABLE, "connection refused");
}

/* Nobody is there to connect to. */
static inline tl_status feed_absent(feed *f) {
    return feed_event(f, (tl_event){.kind = TL_FAILED,
                                    .asked = {.ticket = f->last.ticket},
                                    .failed = {.why = TL_EUNAVAILABLE,
                                               .sys_errno = ECONNREFUSED,
                                               .absent = true,
                                               .message = TL_LITERAL("connection refused")}});
}

/* ---- replies --------------------------------------------------------------------------------- */

static inline tl_bytes feed_word(const char **at, const char *ends) {
    tl_bytes word = tl__bytes(*at, strcspn(*at, ends));
    *at += word.n;
    return word;
}

static inline tl_reply feed_read(feed *f, const char **at);

static inline tl_reply feed_array(feed *f, const char **at) {
    tl_reply items[16] = {{0}};
    size_t n = 0;
    for (*at += strspn(*at, " "); **at != ']'; *at += strspn(*at, " \n")) {
        assert_true(n < 16 && **at != '\0');
        items[n++] = feed_read(f, at);
    }
    ++*at;
    assert_true(f->items_used + n <= FEED_ITEMS_MAX);
    tl_reply *to = &f->items[f->items_used];
    memcpy(to, items, n * sizeof *items);
    f->items_used += n;
    return (tl_reply){.type = TL_REPLY_ARRAY, .items = to, .count = n};
}

static inline tl_reply feed_read(feed *f, const char **at) {
    tl_reply r = {.type = TL_REPLY_NIL};
    switch (*(*at)++) {
    case '[': return feed_array(f, at);
    case '\'':
        r.type = TL_REPLY_STRING;
        r.text = feed_word(at, "'");
        ++*at;
        return r;
    case '+':
        r.type = TL_REPLY_STATUS;
        r.text = feed_word(at, " ]");
        return r;
    case '-':
        if (**at < '0' || **at > '9') {
            r.type = TL_REPLY_ERROR;
            r.text = feed_word(at, "\n");
            return r;
        }
        break;
    default: break;
    }
    --*at;
    tl_bytes word = feed_word(at, " ]");
    if (!tl__bytes_eq(word, TL_LITERAL("nil"))) {
        r.type = TL_REPLY_INT;
        assert_true(tl__bytes_to_int(word, &r.integer));
    }
    return r;
}

/* Write a reply, or several with a space between, as text; returns the first. */
static inline const tl_reply *feed_parse(feed *f, const char *text, uint8_t *ret_count) {
    static tl_reply top[TL_COMMANDS_MAX];
    uint8_t n = 0;
    f->items_used = 0;
    for (const char *at = text + strspn(text, " "); *at; at += strspn(at, " \n")) {
        assert_true(n < TL_COMMANDS_MAX);
        top[n++] = feed_read(f, &at);
    }
    if (ret_count)
        *ret_count = n;
    return top;
}

static inline tl_status feed_reply_to(feed *f, uint16_t ticket, const char *text) {
    tl_event e = {.kind = TL_REPLY, .asked = {.ticket = ticket, .sent = f->sent, .run = f->run}};
    e.replied.unnamed = f->unnamed;
    e.replied.reply = feed_parse(f, text, &e.replied.count);
    e.replied.place = f->place ? tl__bytes_of(f->place) : (tl_bytes){0};
    return feed_event(f, e);
}

/* As the connection does it that chooses the native form of the last send. */
static inline tl_status feed_native_reply(feed *f, const char *text) {
    tl_event e = {.kind = TL_REPLY,
                  .asked = {.ticket = f->last.ticket, .sent = f->sent, .native = true}};
    assert_int_not_equal(f->last.native, 0);
    e.replied.reply = feed_parse(f, text, &e.replied.count);
    assert_int_equal(e.replied.count, f->last.native);
    return feed_event(f, e);
}

static inline tl_status feed_reply(feed *f, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static inline tl_status feed_reply(feed *f, const char *format, ...) {
    va_list args;
    va_start(args, format);
    (void)vsnprintf(f->words, sizeof f->words, format, args);
    va_end(args);
    return feed_reply_to(f, f->last.ticket, f->words);
}

/* The server's clock now, as the two items of TIME. */
static inline const char *feed_time(const feed *f) {
    static char text[64];
    int64_t us = FEED_OFFSET_US + f->now.ns / 1000;
    (void)snprintf(text, sizeof text, "'%lld' '%lld'", (long long)(us / 1000000),
                   (long long)(us % 1000000));
    return text;
}

/* ---- answers of the scripts ------------------------------------------------------------------ */

static inline tl_status feed_taken(feed *f, int64_t left_ms) {
    return feed_reply(f, "[1 '" TOKEN "' %lld '77' %s 1 1]", (long long)left_ms, feed_time(f));
}

/* As usual: the server's time is the fence, and nothing else needs to be said. */
static inline tl_status feed_just_taken(feed *f) {
    return feed_reply(f, "'%lld'", (long long)(FEED_OFFSET_US + f->now.ns / 1000));
}

/* Another holds it. left_ms -1: no lifetime. */
static inline tl_status feed_busy(feed *f, int64_t left_ms, bool announced) {
    return feed_reply(f, "[0 'another' %lld '77' %s 1 %d]", (long long)left_ms, feed_time(f),
                      announced);
}

static inline tl_status feed_too_late(feed *f) {
    return feed_reply(f, "[-1 nil -1 '77' %s 1 0]", feed_time(f));
}

/* Nothing is given there for so long yet. */
static inline tl_status feed_withheld(feed *f, int64_t left_ms) {
    return feed_reply(f, "[-4 nil %lld '77' %s 1 0]", (long long)left_ms, feed_time(f));
}

/* Was the short way of a renewal asked for? */
static inline bool feed_refreshes(const feed *f) {
    const tl_command *c = &f->last.command[0];
    return f->last.count > 0 && c->form == TL_SCRIPT && c->script == TL_SCRIPT_REFRESH;
}

/* It is well with the lock, or its number is told. */
static inline tl_status feed_refreshed(feed *f, bool well) {
    return feed_reply(f, "[%s%s]", feed_time(f), well ? "" : " 1");
}

/* As the server has it: the short way finds that it is for less than is left, or more, and leads to the long one. */
static inline tl_status feed_kept(feed *f, int64_t left_ms) {
    if (feed_refreshes(f) && tl__bytes_eq(f->last.command[0].argv[4], tl__bytes_of("30000")) &&
        left_ms == TTL_MS)
        return feed_refreshed(f, true);
    if (feed_refreshes(f))
        (void)feed_refreshed(f, false);
    return feed_reply(f, "[%s [1 '" TOKEN "' %lld]]", feed_time(f), (long long)left_ms);
}

/* status 0 another's, -1 absent. */
static inline tl_status feed_not_kept(feed *f, int status) {
    if (feed_refreshes(f))
        (void)feed_refreshed(f, false);
    return feed_reply(f, "[%s [%d nil -1]]", feed_time(f), status);
}

/* status 1 deleted, 0 another's, -1 absent. */
static inline tl_status feed_dropped(feed *f, int status) {
    return feed_reply(f, "%d", status);
}

/* ---- reading out ----------------------------------------------------------------------------- */

/* The last send is this script; "" for one that only reaches the server. */
static inline void feed_assert_asked(const feed *f, const char *script) {
    if (*script == '\0') {
        assert_int_equal(f->last.count, 0);
        return;
    }
    assert_true(f->last.count >= 1);
    assert_int_equal(f->last.command[0].form, TL_SCRIPT);
    tl_bytes name = tl__script_name((tl_script)f->last.command[0].script);
    assert_true(tl__bytes_eq(name, tl__bytes_of(script)));
}

/* Argument i, from 0, behind the keys of the last script sent, which are two at least. */
static inline const char *feed_arg(const feed *f, unsigned i) {
    const tl_command *c = &f->last.command[0];
    i += c->nkeys > 2 ? c->nkeys : 2;
    assert_true(f->last.count >= 1 && i < c->argc);
    return c->argv[i].p;
}

static inline int64_t feed_arg_int(const feed *f, unsigned i) {
    int64_t v = 0;
    assert_true(tl__bytes_to_int(tl__bytes_of(feed_arg(f, i)), &v));
    return v;
}

/* The step before asked for nothing but a timer at `ms`. */
static inline void feed_assert_waits_until(const feed *f, int64_t ms) {
    assert_int_equal(f->status, TL_GO);
    assert_int_equal(f->out.sends, 0);
    assert_int_equal(f->out.until.ns, feed_ms(ms).ns);
}

static inline void feed_assert_waits_between(const feed *f, int64_t least_ms, int64_t most_ms) {
    assert_int_equal(f->status, TL_GO);
    assert_int_equal(f->out.sends, 0);
    assert_in_range(f->out.until.ns, feed_ms(least_ms).ns, feed_ms(most_ms).ns);
}
