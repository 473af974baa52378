/*
 * Every interleaving, up to a bound, of a tidelock client's requests on one lock with what others do to it:
 * a choice is a digit, a run is played from the start by the digits so far, and the next run counts one up.
 * The client is the shipped machines, the server the fake one; the referee knows who may believe to hold the
 * lock until when. Times in microseconds are the server's; no clock but the legacy clients' is off.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fake_redis.h"
#include "tests.h"
#include "protocol/acquire.h"
#include "protocol/renew.h"
#include "protocol/settle.h"
#include "stamp/stamp.h"
#include "wire/script.h"

#define M_MS 1000
#define L_MS 500
#define LEGACY_MS 60000
#define ATTEMPT_MS 2000
#define DRIFT_PPM 200
#define OFFSET_US INT64_C(1700000000000000) /* the server's clock less the deadline clock */
#define START_US (OFFSET_US + INT64_C(5000000000))
#define KEY "jobs:nightly"
#define SIDECAR "tidelock:{jobs:nightly}"

#define CHOICES_MAX 96
#define ARGS_MAX 64
#define TEXT_SIZE 8192
#define ITEMS_MAX 64
#define ZOMBIES 2

/* ---- choices --------------------------------------------------------------------------------- */

typedef struct {
    uint8_t at[CHOICES_MAX], of[CHOICES_MAX];
    unsigned n, depth;
} choices;

/* The next choice of this run, one of `of`. */
static inline unsigned choose(choices *c, unsigned of) {
    if (c->depth == c->n) {
        assert_true(c->n < CHOICES_MAX && of > 0 && of < 256);
        c->at[c->n] = 0;
        c->of[c->n++] = (uint8_t)of;
    }
    return c->at[c->depth++];
}

/* Make ready for the next run; false: there is none. */
static inline bool choose_next(choices *c) {
    c->n = c->depth; /* a run that was cut short */
    while (c->n > 0 && c->at[c->n - 1] + 1 == c->of[c->n - 1])
        c->n--;
    c->depth = 0;
    if (c->n > 0)
        c->at[c->n - 1]++;
    return c->n > 0;
}

/* ---- the world ------------------------------------------------------------------------------- */

/* A request, with its words. */
typedef struct {
    tl_send send;
    char text[TEXT_SIZE / 4];
    bool writes;
} request;

typedef struct {
    union {
        tl_result result;
        tl_acquisition acquire;
        tl_renew renew;
        tl_settle settle;
        tl_attempt attempt;
    } machine;
    tl_step step; /* NULL: the attempt alone, of `job` */
    tl_job job;
    tl_server server;
    tl_out out;
    tl_status status;
    request asked;
    bool waits; /* for the answer */
    tl_mono sent;
    fake_conn *conn;
    bool open; /* a transaction, on conn */
    char name;
    uint8_t holder;
} actor;

/* A legacy client. */
typedef struct {
    int64_t off_ms; /* its clock less the server's */
    bool looked;    /* and found it free: its GETSET is still to come */
    int64_t looked_us, end_ms;
    char found[TL_STAMP_SIZE];
    size_t found_n;
    bool holds; /* and has not deleted it */
} legacy;

enum { HOLDER_A, HOLDER_B, HOLDER_J, HOLDERS = HOLDER_J + 2 };

/* A server, and what is spoken to it. */
typedef struct {
    const char *name;
    const tl_protocol *protocol;
    const char *dialect;
    int64_t ttl_ms;
    uint32_t server; /* its version; 0: as new as can be. A 2.4 tells no time */
    uint8_t level;   /* what is known of it when a connection is new */
    bool no_scripts; /* EVAL is renamed away */
    bool mixed;      /* the server was given its Lua module: A's first connection is older */
    bool strict;
    int16_t off_ms; /* A's wall clock less the server's, and B's the other way: where they count */
} kind;

/* Which events may happen, and how many at most: in all, and of each sort. */
typedef struct {
    const char *name;
    uint32_t may;
    uint8_t events, others, faults, waits;
    uint8_t beginnings; /* of K: one bit each */
    uint8_t renewals;   /* how many: one bit each */
    int64_t rest_ms;    /* from its acquire on A's lock rests; 0: it is released */
} suite;

typedef struct {
    const kind *kind;
    const suite *suite;
    choices choice;
    fake_redis *redis;
    fake_conn *legacy_conn;
    int64_t now_us;
    actor a, b;
    legacy j[2];
    struct {
        fake_conn *conn;
        request asked;
    } zombie[ZOMBIES];
    unsigned zombies;
    unsigned others, faults, waits; /* left */
    unsigned events;
    bool by_hand; /* K has been deleted by hand: no legacy client may come any more */
    bool stolen;  /* since A had it, another has */
    bool cut;     /* this run is another one over again */
    bool tells;
    const char *wrong;
    int64_t until_us[HOLDERS];          /* who may believe so until when */
    uint64_t fence;                     /* the largest that was had */
    uint64_t held, lost, raced, rested; /* how often, over all runs */
    tl_reply items[ITEMS_MAX];
    char text[TEXT_SIZE];
    size_t items_n, text_n;
} explore_world;

static explore_world w;

static inline tl_mono now(void) {
    return (tl_mono){(w.now_us - OFFSET_US) * 1000};
}

/* Rounded up. */
static inline int64_t server_us(tl_mono t) {
    return t.ns == INT64_MAX ? INT64_MAX : (t.ns + 999) / 1000 + OFFSET_US;
}

static inline void go_to(int64_t us) {
    if (us > w.now_us)
        w.now_us = us;
    fake_redis_set_time(w.redis, w.now_us);
}

static inline void tell(const char *format, ...) __attribute__((format(printf, 1, 2)));
static inline void tell(const char *format, ...) {
    char line[512];
    va_list args;
    if (!w.tells)
        return;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    print_message("[%9lld] %s\n", (long long)((w.now_us - START_US) / 1000), line);
}

static inline void wrong(const char *why) {
    tell("WRONG: %s", why);
    if (!w.wrong)
        w.wrong = why;
}

/* ---- the referee ------------------------------------------------------------------------------ */

static inline const tl_dialect *dialect(void) {
    return tl__dialect_find(tl__bytes_of(w.kind->dialect));
}

static inline tl_stamp read_stamp(tl_bytes text) {
    return tl__dialect_read(dialect(), text, w.now_us / 1000);
}

static inline bool is_legacy(unsigned who) {
    return who >= HOLDER_J;
}

static inline bool is_believed(unsigned who) {
    return w.until_us[who] > w.now_us;
}

/* Of two legacy clients the first one's lock is stolen, which is for them to see to. */
static inline void believes(unsigned who, int64_t until_us) {
    for (unsigned i = 0; i < HOLDERS; i++) {
        if (i == who || until_us <= w.now_us || !is_believed(i))
            continue;
        if (is_legacy(i) && is_legacy(who))
            w.until_us[i] = 0;
        else
            wrong("two hold it");
    }
    w.stolen = who != HOLDER_A;
    w.until_us[who] = until_us;
    tell("%c may believe for %lld ms", "ABJK"[who], (long long)(until_us - w.now_us) / 1000);
}

static inline tl_bytes field(const char *name) {
    tl_bytes v = {0};
    (void)fake_redis_peek_field(w.redis, 0, TL_LITERAL(SIDECAR), tl__bytes_of(name), &v);
    return v;
}

static inline tl_bytes value(void) {
    tl_bytes v = {0};
    (void)fake_redis_peek(w.redis, 0, TL_LITERAL(KEY), &v);
    return v;
}

static inline bool keeps_s(void) {
    return !w.kind->strict && w.kind->level != TL_LEVEL_PLAIN;
}

static inline bool is_bound(const actor *x) {
    return tl__bytes_eq(field("token"), tl__token_bytes(&x->job.token));
}

/* Never beyond what its stamp leaves where the slowest old clock that reads it is M ahead. */
static inline void check_belief(const actor *x, tl_mono deadline) {
    tl_stamp stamp = read_stamp(field("value"));
    if (keeps_s() && is_bound(x) && server_us(deadline) > (stamp.end_ms - M_MS) * 1000)
        wrong("it believes longer than its stamp lets it");
    believes(x->holder, server_us(deadline));
}

/* A lock that was just had: fences rise, and S is bound to it. */
static inline void had(const actor *x, const tl_result *r) {
    if (keeps_s() && r->acquire.fence <= w.fence)
        wrong("its fence is not beyond those before");
    if (keeps_s() && !is_bound(x))
        wrong("S doesn't name its holder");
    w.fence = r->acquire.fence;
    check_belief(x, r->deadline);
}

/* What a request of x has done to K while another believes: with S nothing, without it no more than a legacy
 * client does. `was`: what K held before; n 0: nothing. */
static inline void check_touched(unsigned who, tl_bytes was) {
    tl_bytes is = value();
    for (unsigned i = 0; i < HOLDERS; i++) {
        if (i == who || !is_believed(i))
            continue;
        if (was.n > 0 && is.n == 0)
            wrong("it has deleted another's");
        if (keeps_s() && !tl__bytes_eq(was, is))
            wrong("it has overwritten another's");
    }
}

/* ---- talking to the server -------------------------------------------------------------------- */

static inline tl_reply copy_reply(const tl_reply *r) {
    tl_reply copy = *r;
    if (r->text.p) {
        assert_true(w.text_n + r->text.n < TEXT_SIZE);
        memcpy(w.text + w.text_n, r->text.p, r->text.n);
        copy.text.p = w.text + w.text_n;
        w.text_n += r->text.n;
    }
    if (r->type != TL_REPLY_ARRAY)
        return copy;
    tl_reply *items = w.items + w.items_n;
    w.items_n += r->count;
    assert_true(w.items_n <= ITEMS_MAX);
    for (size_t i = 0; i < r->count; i++)
        items[i] = copy_reply(&r->items[i]);
    copy.items = items;
    return copy;
}

static inline const tl_reply *say(fake_conn *conn, const tl_command *c) {
    tl_bytes argv[TL_ARGV_MAX + 3];
    char keys[TL_INT_SIZE];
    size_t n = 0;
    if (c->form == TL_SCRIPT) {
        argv[n++] = TL_LITERAL("EVAL");
        argv[n++] = tl__script_text((tl_script)c->script);
        argv[n++] = tl__bytes_from_int(keys, c->nkeys);
    }
    memcpy(argv + n, c->argv, c->argc * sizeof *argv);
    return fake_conn_command(conn, argv, n + c->argc);
}

/* All of it, for this holder. */
static inline const tl_reply *execute(unsigned who, fake_conn *conn, const request *q) {
    char text[TL_STAMP_SIZE];
    tl_bytes was = value();
    assert_true(was.n < sizeof text);
    if (was.n > 0)
        memcpy(text, was.p, was.n);
    w.text_n = 0;
    w.items_n = q->send.count;
    for (uint8_t i = 0; i < q->send.count; i++)
        w.items[i] = copy_reply(say(conn, &q->send.command[i]));
    check_touched(who, tl__bytes(text, was.n));
    return w.items;
}

static inline bool is_write(const tl_send *s) {
    static const char *const reads[] = {"GET", "WATCH"};
    const tl_command *c = &s->command[0];
    for (unsigned i = 0; i < 2 && c->form == TL_ARGV; i++)
        if (tl__bytes_eq(c->argv[0], tl__bytes_of(reads[i])))
            return false;
    return s->count > 0;
}

static inline void keep_request(request *q, const tl_send *send) {
    size_t used = 0;
    q->send = *send;
    q->writes = is_write(send);
    for (uint8_t i = 0; i < send->count; i++)
        for (uint8_t j = 0; j < send->command[i].argc; j++) {
            tl_bytes arg = send->command[i].argv[j];
            assert_true(used + arg.n < sizeof q->text);
            memcpy(q->text + used, arg.p, arg.n);
            q->send.command[i].argv[j].p = q->text + used;
            used += arg.n;
        }
}

static inline void tell_request(const actor *x, const char *what) {
    char line[400];
    size_t n = 0;
    if (!w.tells)
        return;
    line[0] = '\0';
    for (uint8_t i = 0; i < x->asked.send.count; i++) {
        const tl_command *c = &x->asked.send.command[i];
        tl_bytes word = c->form == TL_SCRIPT ? tl__script_name((tl_script)c->script) : c->argv[0];
        n += (size_t)snprintf(line + n, sizeof line - n, " %.*s", (int)word.n, word.p);
    }
    tell("%c%s: %s", x->name, line, what);
}

static inline void step(actor *x, tl_event e) {
    e.now = now();
    e.server = &x->server;
    tl__out_clear(&x->out);
    x->status = x->step ? x->step(&x->machine, &e, &x->out)
                        : tl__attempt_step(&x->machine, &x->job, &e, &x->out);
    if (x->out.has_bracket)
        (void)tl__anchor_learn(&x->server.anchor, x->out.bracket, e.now, DRIFT_PPM);
    if (x->out.level)
        x->server.level = x->out.level;
    assert_true(x->out.sends <= 1 && (x->status == TL_GO || x->out.sends == 0));
    if (x->status != TL_GO)
        x->waits = false;
    if (x->out.sends > 0) {
        keep_request(&x->asked, &x->out.send);
        x->waits = true;
        x->sent = e.now;
    }
}

static inline void connect(actor *x) {
    bool knows = w.kind->mixed && (x != &w.a || x->conn); /* it may run scripts by now */
    x->conn = fake_redis_connect(w.redis, NULL, NULL);
    x->open = false;
    x->server.level = knows ? TL_LEVEL_UNKNOWN : w.kind->level;
}

static inline void fail_request(actor *x, bool maybe_sent) {
    x->waits = false;
    step(x, (tl_event){.kind = TL_FAILED,
                       .asked = {.ticket = x->asked.send.ticket, .sent = x->sent},
                       .failed = {.maybe_sent = maybe_sent,
                                  .why = TL_EUNAVAILABLE,
                                  .message = TL_LITERAL("no answer in time")}});
}

/* The server executes what was asked for. False: there is no transaction any more that it could end. */
static inline bool perform(actor *x) {
    const tl_pin *pin = x->asked.send.pin;
    bool closes = pin && pin->closes;
    if (closes && !x->open)
        return false;
    if (!closes && x->open)
        (void)fake_conn_say(x->conn, "DISCARD");
    const tl_reply *r = execute(x->holder, x->conn, &x->asked);
    uint8_t n = x->asked.send.count;
    x->open = pin && !closes && r[n - 1].type != TL_REPLY_ERROR;
    w.raced += closes && r[n - 1].type == TL_REPLY_NIL;
    return true;
}

static inline void answer(actor *x) {
    x->waits = false;
    step(x, (tl_event){.kind = TL_REPLY,
                       .asked = {.ticket = x->asked.send.ticket, .sent = x->sent},
                       .replied = {.reply = w.items, .count = x->asked.send.count}});
}

/* To its end, undisturbed. */
static inline void run_alone(actor *x) {
    while (x->status == TL_GO) {
        assert_true(x->waits);
        tell_request(x, "executed");
        if (perform(x))
            answer(x);
        else
            fail_request(x, false);
    }
}
