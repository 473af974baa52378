/*
 * Floor 3: one connection to one Redis server. Requests wait in one queue in the order of sending,
 * and replies go to the oldest. It must never let a reply reach another request than its own, and
 * never wait.
 */
#include "conn.h"

#include <stdio.h>
#include <stdlib.h>

#include "login.h"
#include "resp.h"
#include "slot.h"
#include "stream.h"

#define QUEUE_MAX 16384      /* requests outstanding */
#define READ_SIZE 16384      /* one read */
#define WRITE_SIZE 16384     /* small requests are gathered up to this for one write */
#define READS_MAX 64         /* in one drive */
#define BACKOFF_FIRST_MS 20  /* after a failed connect */
#define BACKOFF_LAST_MS 1000 /* after many */
#define STALE_MS 1000        /* after being idle for this long, look before writing */

struct tl_conn {
    const tl_endpoint *endpoint;
    tl_conn_limits limits;
    tl_conn_calls calls;
    enum { DOWN, OPENING, LOGIN, UP } state;
    bool broken; /* found while sending; the next drive tells */
    bool more;   /* perhaps there is more to read than poll shows */
    bool stale;  /* has been idle: look whether the server has closed before writing */
    bool served; /* this connection has answered something */
    bool freeing;
    tl_stream stream;
    tl_resp *resp;
    tl_login *login; /* while logging in */
    size_t login_done;
    tl_mono login_sent, login_by;
    tl_interval bracket;
    tl_slots slots;
    tl_mono now;       /* of the present drive: all limits go by it */
    tl_mono soonest;   /* no limit of a request passes before */
    tl_mono heard;     /* when something was read last */
    tl_mono retry_at;  /* connect not before */
    unsigned failures; /* attempts to connect since one served */
    uint64_t random;
    tl_err why; /* with words: of the last failure */
    char words[TL_STREAM_WORDS];
    tl_reply reply[TL_SLOT_COMMANDS]; /* of the oldest request */
};

/* ---- life -------------------------------------------------------------------------------------- */

tl_conn *tl__conn_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                      const tl_conn_calls *calls) {
    tl_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->resp = tl__resp_new();
    if (!c->resp) {
        free(c);
        return NULL;
    }
    c->endpoint = endpoint;
    c->limits = *limits;
    c->calls = *calls;
    c->soonest = TL_NEVER;
    c->random = tl__random_seed();
    tl__stream_init(&c->stream, endpoint);
    return c;
}

static void close_stream(tl_conn *c) {
    tl__stream_close(&c->stream);
    if (c->login)
        tl__login_wipe(c->login);
    free(c->login);
    c->login = NULL;
    c->state = DOWN;
    c->broken = c->more = c->stale = c->served = false;
}

/* ---- answers ----------------------------------------------------------------------------------- */

static tl_answer failure(const tl_slot *s, tl_err why, const char *words) {
    return (tl_answer){.cookie = s->cookie,
                       .ticket = s->ticket,
                       .sent = s->sent,
                       .count = s->count,
                       .maybe_sent = !tl__slot_unsent(s) || s->effect,
                       .why = why,
                       .words = tl__bytes_of(words)};
}

static tl_answer success(const tl_conn *c, const tl_slot *s, tl_mono received) {
    return (tl_answer){.cookie = s->cookie,
                       .ticket = s->ticket,
                       .ok = true,
                       .sent = s->sent,
                       .received = received,
                       .reply = c->reply,
                       .count = s->count,
                       .maybe_sent = true};
}

/* The slot, which is in no queue, is done with: free it first, so that what the answer leads to can
 * use it again. */
static void answer(tl_conn *c, tl_slot *s, tl_answer a) {
    bool wanted = !s->given_up && !s->quiet;
    tl__slot_free(&c->slots, s);
    if (wanted)
        c->calls.answer(c->calls.ctx, &a);
}

static void enqueue(tl_conn *c, tl_slot *s) {
    tl__slots_put(&c->slots, s);
    c->soonest = tl__mono_min(c->soonest, s->by);
}

/* ---- the end of a connection ------------------------------------------------------------------- */

static uint64_t next_random(tl_conn *c) {
    uint64_t z = c->random += UINT64_C(0x9E3779B97F4A7C15); /* splitmix64 */
    z = (z ^ (z >> 30)) * UINT64_C(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94D049BB133111EB);
    return z ^ (z >> 31);
}

static int64_t backoff_ns(tl_conn *c) {
    int64_t ms = BACKOFF_FIRST_MS;
    for (unsigned i = 1; i < c->failures && ms < BACKOFF_LAST_MS; i++)
        ms *= 2;
    int64_t half = (ms < BACKOFF_LAST_MS ? ms : BACKOFF_LAST_MS) * TL_NS_PER_MS / 2;
    return half + (int64_t)(next_random(c) % (uint64_t)half);
}

/* Queue again those of the list that can wait for the next connection; the others are left. */
static tl_slot *requeue(tl_conn *c, tl_slot *list) {
    tl_slot *left = NULL, **end = &left;
    while (list) {
        tl_slot *s = list;
        list = s->next;
        if (tl__slot_unsent(s) && !s->effect && !s->quiet && !s->given_up) {
            enqueue(c, s);
            continue;
        }
        *end = s;
        end = &s->next;
    }
    *end = NULL;
    return left;
}

/* The connection is over, or was not to be had. After one that had served, the next begins at once,
 * and `wait`: requests of which nothing was sent wait for it. */
static void lose(tl_conn *c, tl_err why, const char *problem, bool wait) {
    char words[TL_STREAM_WORDS];
    bool served = c->served;
    (void)snprintf(words, sizeof words, "%s", problem);
    memcpy(c->words, words, sizeof words);
    c->why = why;
    c->failures = served ? 0 : c->failures + 1;
    c->retry_at = served ? c->now : tl__mono_add_ns(c->now, backoff_ns(c));
    close_stream(c);
    tl_slot *list = tl__slots_cut_all(&c->slots);
    c->soonest = TL_NEVER;
    if (served && wait)
        list = requeue(c, list);
    if (c->calls.down && !c->freeing)
        c->calls.down(c->calls.ctx, tl__bytes_of(words));
    while (list) {
        tl_slot *s = list;
        list = s->next;
        answer(c, s, failure(s, why, words));
    }
}

static void lose_stream(tl_conn *c) {
    lose(c, c->stream.why, c->stream.words, true);
}

static void lose_at_place(tl_conn *c, tl_err why, const char *problem) {
    char words[TL_STREAM_WORDS];
    (void)snprintf(words, sizeof words, "%s: %s", c->endpoint->label, problem);
    lose(c, why, words, false);
}

static void lose_nonsense(tl_conn *c, const char *what) {
    char problem[200];
    (void)snprintf(problem, sizeof problem, "this is not what a Redis server answers: %s", what);
    lose_at_place(c, TL_ESERVER, problem);
}

static void lose_late(tl_conn *c, const char *doing, int64_t limit_ms) {
    char problem[64];
    (void)snprintf(problem, sizeof problem, "%s in %lld ms", doing, (long long)limit_ms);
    lose_at_place(c, TL_EUNAVAILABLE, problem);
}

void tl__conn_close(tl_conn *conn, const char *reason, tl_mono now) {
    conn->now = now;
    if (conn->state != DOWN)
        lose_at_place(conn, TL_EUNAVAILABLE, reason);
}

void tl__conn_free(tl_conn *conn) {
    if (!conn)
        return;
    conn->freeing = true;
    lose_at_place(conn, TL_EUNAVAILABLE, "the connection is closed");
    tl__stream_free(&conn->stream);
    tl__resp_free(conn->resp);
    tl__slots_clear(&conn->slots);
    free(conn);
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* As far as the stream takes it. false: it broke. */
static bool write_slots(tl_conn *c) {
    char buffer[WRITE_SIZE];
    while (c->slots.unsent) {
        if (c->slots.unsent->size == 0) { /* asks for nothing but to get here */
            c->slots.unsent = c->slots.unsent->next;
            continue;
        }
        tl_bytes next = tl__slots_next(&c->slots, buffer, sizeof buffer);
        tl_mono before = tl__mono_now();
        if (c->endpoint->tls)
            tl__slots_offer(&c->slots, next.n, before);
        ssize_t n = tl__stream_write(&c->stream, next.p, next.n);
        if (n <= 0)
            return n == 0;
        tl__slots_written(&c->slots, (size_t)n, before);
        while (c->slots.head && c->slots.head->quiet && c->slots.head != c->slots.unsent)
            tl__slot_free(&c->slots, tl__slots_cut(&c->slots, NULL));
    }
    return true;
}

static bool write_login(tl_conn *c) {
    while (c->login_done < c->login->size) {
        if (c->login_done == 0)
            c->login_sent = tl__mono_now();
        ssize_t n = tl__stream_write(&c->stream, c->login->bytes + c->login_done,
                                     c->login->size - c->login_done);
        if (n <= 0)
            return n == 0;
        c->login_done += (size_t)n;
    }
    return true;
}

/* ---- replies ----------------------------------------------------------------------------------- */

static bool is_noscript(const tl_reply *reply) {
    static const char word[] = "NOSCRIPT";
    return reply->type == TL_REPLY_ERROR && reply->text.n >= sizeof word - 1 &&
           memcmp(reply->text.p, word, sizeof word - 1) == 0;
}

/* The server doesn't know the request's scripts: send it again by text? */
static bool again_by_text(tl_conn *c, tl_slot *s) {
    size_t unknown = 0;
    for (size_t i = 0; i < s->count; i++)
        unknown += is_noscript(&c->reply[i]);
    if (!s->scripts || s->by_text || s->given_up || unknown == 0 || !tl__slot_by_text(s))
        return false;
    s->effect = unknown < s->count; /* the request's other command was executed */
    enqueue(c, s);
    return true;
}

/* Its replies were thrown away in advance. As long as others before it were answered the server is
 * not late with them: from now it has the time that the request was given. */
static void head_again(tl_conn *c) {
    tl_slot *s = c->slots.head;
    if (!s)
        c->soonest = TL_NEVER;
    if (!s || !s->given_up)
        return;
    s->by = tl__mono_add_ns(c->now, tl__ns_until(s->queued, s->by));
    s->queued = c->now;
    c->soonest = tl__mono_min(c->soonest, s->by);
}

/* The oldest request has all its replies. */
static void complete(tl_conn *c, tl_mono received) {
    tl_slot *s = tl__slots_cut(&c->slots, NULL);
    head_again(c);
    if (!again_by_text(c, s))
        answer(c, s, success(c, s, received));
    tl__resp_release(c->resp);
}

/* Is the oldest request one that only wants to know that the server has been reached? */
static bool has_reached(const tl_conn *c) {
    return c->state == UP && c->slots.head && c->slots.head->count == 0;
}

static void answer_reached(tl_conn *c) {
    while (has_reached(c)) {
        tl_slot *s = tl__slots_cut(&c->slots, NULL);
        s->sent = tl__mono_now();
        head_again(c);
        answer(c, s, success(c, s, s->sent));
    }
}

static bool on_login(tl_conn *c, const tl_reply *reply, tl_mono received) {
    tl_err why = TL_OK;
    char words[TL_STREAM_WORDS];
    tl_login *l = c->login;
    tl_login_outcome outcome = tl__login_reply(l, c->endpoint, reply, &why, words, sizeof words);
    tl__resp_release(c->resp);
    if (outcome == TL_LOGIN_FAILED) {
        lose(c, why, words, false);
        return false;
    }
    if (tl__login_was_time(l) && l->stamp_us >= 0)
        c->bracket = tl__bracket(l->stamp_us, c->login_sent, received);
    if (outcome == TL_LOGIN_MORE)
        return true;
    int64_t uptime_us = l->uptime_us;
    const tl_interval *bracket = l->stamp_us >= 0 ? &c->bracket : NULL;
    tl__login_wipe(l);
    free(l);
    c->login = NULL;
    c->state = UP;
    if (c->calls.up)
        c->calls.up(c->calls.ctx, bracket, uptime_us, received);
    return true;
}

/* false: the connection is over. */
static bool on_reply(tl_conn *c, const tl_reply *reply, tl_mono received) {
    if (c->state == LOGIN)
        return on_login(c, reply, received);
    answer_reached(c);
    tl_slot *s = c->slots.head;
    c->served = true;
    c->failures = 0;
    if (c->limits.subscriber) {
        if (c->calls.push)
            c->calls.push(c->calls.ctx, reply);
        tl__resp_release(c->resp);
    } else if (!s || s->done < s->size) {
        lose_nonsense(c, "a reply to nothing");
        return false;
    } else {
        c->reply[s->got++] = *reply;
        if (s->got == s->count)
            complete(c, received);
    }
    return true;
}

static bool read_replies(tl_conn *c) {
    char buffer[READ_SIZE];
    c->more = true;
    for (int i = 0; i < READS_MAX && c->more; i++) {
        ssize_t n = tl__stream_read(&c->stream, buffer, sizeof buffer, &c->more);
        if (n == 0)
            return true;
        if (n < 0) {
            lose_stream(c);
            return false;
        }
        tl_mono received = tl__mono_now();
        c->heard = c->now;
        tl__resp_feed(c->resp, buffer, (size_t)n);
        tl_reply reply;
        int result;
        while ((result = tl__resp_next(c->resp, &reply)) > 0)
            if (!on_reply(c, &reply, received))
                return false;
        if (result < 0) {
            lose_nonsense(c, tl__resp_words(c->resp));
            return false;
        }
    }
    return true;
}

/* ---- limits ------------------------------------------------------------------------------------ */

/* The time that a request was given, for a message: who set the limit did so a little before. */
static int64_t limit_ms_of(const tl_slot *s) {
    return tl__ms_until(s->queued, tl__mono_add_ns(s->by, TL_NS_PER_MS - 1));
}

/* Why there is no reply to a request yet. */
static void describe(const tl_conn *c, const tl_slot *s, char *words, size_t size) {
    int64_t limit_ms = limit_ms_of(s);
    if (c->state == DOWN)
        (void)snprintf(words, size, "%s", c->words);
    else if (c->state == OPENING)
        tl__stream_describe(&c->stream, limit_ms, words, size);
    else
        (void)snprintf(words, size, "%s: %s in %lld ms", c->endpoint->label,
                       c->state == LOGIN    ? "no reply to the login"
                       : tl__slot_unsent(s) ? "not sent"
                                            : "no reply",
                       (long long)limit_ms);
}

/* Answer a request whose limit has passed. One that was sent stays, so that its reply finds it. */
static void give_up(tl_conn *c, tl_slot *s, tl_slot *before) {
    char words[TL_STREAM_WORDS];
    describe(c, s, words, sizeof words);
    tl_answer a = failure(s, c->state == DOWN ? c->why : TL_EUNAVAILABLE, words);
    if (tl__slot_unsent(s)) {
        answer(c, tl__slots_cut(&c->slots, before), a);
        return;
    }
    s->given_up = true;
    c->calls.answer(c->calls.ctx, &a);
}

static void expire(tl_conn *c, tl_mono now) {
    if (tl__mono_before(now, c->soonest))
        return;
    tl_slot *s = c->slots.head, *before = NULL;
    c->soonest = TL_NEVER;
    while (s) {
        tl_slot *next = s->next;
        bool counts = !s->given_up || s == c->slots.head;
        bool late = counts && !tl__mono_before(now, s->by);
        if (late && s == c->slots.head && !tl__slot_unsent(s)) {
            lose_late(c, "no reply", limit_ms_of(s));
            return;
        }
        bool goes = late && tl__slot_unsent(s);
        if (late)
            give_up(c, s, before);
        else if (counts)
            c->soonest = tl__mono_min(c->soonest, s->by);
        if (!goes) {
            before = s;
            next = s->next; /* an answer may have sent more */
        }
        s = next;
    }
}

/* ---- requests ---------------------------------------------------------------------------------- */

static tl_err submit(tl_conn *c, const tl_command *command, uint8_t count, tl_slot like,
                     tl_mono now) {
    if (c->freeing)
        return TL_EUNAVAILABLE;
    tl_slot *s = c->slots.count < QUEUE_MAX ? tl__slot_new(&c->slots) : NULL;
    if (!s)
        return TL_ENOMEM;
    s->cookie = like.cookie;
    s->ticket = like.ticket;
    s->by = like.by;
    s->quiet = like.quiet;
    s->queued = now;
    if (!tl__slot_fill(s, command, count)) {
        tl__slot_free(&c->slots, s);
        return TL_ENOMEM;
    }
    bool idle = tl__conn_idle(c);
    enqueue(c, s);
    if (!idle)
        return TL_OK;
    c->stale = tl__ms_until(c->heard, now) >= STALE_MS;
    c->broken = !c->stale && !write_slots(c);
    return TL_OK;
}

tl_err tl__conn_send(tl_conn *conn, const tl_send *send, void *cookie, tl_mono now) {
    return submit(conn, send->command, send->count,
                  (tl_slot){.cookie = cookie, .ticket = send->ticket, .by = send->by}, now);
}

tl_err tl__conn_say(tl_conn *conn, const tl_command *command, tl_mono now) {
    return submit(conn, command, 1, (tl_slot){.by = TL_NEVER, .quiet = true}, now);
}

bool tl__conn_up(const tl_conn *conn) {
    return conn->state == UP && !conn->broken;
}

bool tl__conn_idle(const tl_conn *conn) {
    return tl__conn_up(conn) && !conn->slots.head;
}

/* ---- driving ----------------------------------------------------------------------------------- */

static void begin(tl_conn *c, tl_mono now) {
    c->login = malloc(sizeof *c->login);
    if (!c->login || !tl__resp_reset(c->resp)) {
        lose_at_place(c, TL_ENOMEM, "out of memory");
        return;
    }
    tl__login_begin(c->login, c->endpoint, c->limits.ask_uptime);
    c->login_done = 0;
    c->login_by = tl__mono_add_ms(now, c->limits.connect_ms);
    c->state = OPENING;
    tl__stream_open(&c->stream, now, c->limits.connect_ms);
}

static void drive_opening(tl_conn *c, tl_mono now) {
    tl__stream_drive(&c->stream, now);
    if (c->stream.state == TL_STREAM_FAILED)
        lose_stream(c);
    else if (c->stream.state == TL_STREAM_OPEN)
        c->state = LOGIN;
}

static void drive_login(tl_conn *c, tl_mono now) {
    if (!write_login(c))
        lose_stream(c);
    else if (read_replies(c) && c->state == LOGIN && !tl__mono_before(now, c->login_by))
        lose_late(c, "no reply to the login", c->limits.connect_ms);
}

void tl__conn_drive(tl_conn *conn, tl_mono now) {
    conn->now = now;
    if (conn->state == DOWN && conn->slots.head && !tl__mono_before(now, conn->retry_at))
        begin(conn, now);
    if (conn->state == OPENING)
        drive_opening(conn, now);
    if (conn->state == LOGIN)
        drive_login(conn, now);
    else if (conn->state == UP && read_replies(conn))
        conn->stale = false;
    if (conn->state == UP && (conn->broken || !write_slots(conn)))
        lose_stream(conn);
    if (!conn->stale)
        answer_reached(conn);
    expire(conn, now);
}

int tl__conn_fd(const tl_conn *conn) {
    return conn->state == DOWN ? -1 : tl__stream_fd(&conn->stream);
}

short tl__conn_events(const tl_conn *conn) {
    if (conn->state == DOWN)
        return 0;
    bool writing = conn->state == LOGIN ? conn->login_done < conn->login->size
                                        : conn->slots.unsent != NULL;
    return tl__stream_events(&conn->stream, writing);
}

tl_mono tl__conn_until(const tl_conn *conn) {
    const tl_mono at_once = {0};
    if (conn->broken || conn->more || conn->stale || has_reached(conn))
        return at_once;
    switch (conn->state) {
    case DOWN: return conn->slots.head ? tl__mono_min(conn->retry_at, conn->soonest) : TL_NEVER;
    case OPENING: return tl__mono_min(tl__stream_until(&conn->stream), conn->soonest);
    case LOGIN: return tl__mono_min(conn->login_by, conn->soonest);
    default: return conn->soonest;
    }
}
