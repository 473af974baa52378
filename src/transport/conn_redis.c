/*
 * One connection to one Redis server. Requests wait in one queue in the order of sending,
 * and replies go to the oldest. It must never let a reply reach another request than its own, and
 * never wait.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

#define QUEUE_MAX 16384  /* requests outstanding */
#define READ_SIZE 16384  /* one read */
#define WRITE_SIZE 16384 /* small requests are gathered up to this for one write */
#define READS_MAX 64     /* in one drive */
#define STALE_MS 1000    /* after being idle for this long, look before writing */

/* ---- life -------------------------------------------------------------------------------------- */

tl_conn *tl__conn_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                      const tl_conn_calls *calls) {
    tl_conn *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    if (limits->members)
        c->gateway = tl__gateway_new(limits->members->prefix);
    else
        c->resp = tl__resp_new();
    if (!c->resp && !c->gateway) {
        free(c);
        return NULL;
    }
    c->endpoint = endpoint;
    c->limits = *limits;
    c->calls = *calls;
    c->soonest = TL_NEVER;
    c->backoff.random = tl__random_seed();
    tl__stream_init(&c->stream, endpoint);
    return c;
}

void tl__conn_end_login(tl_conn *conn) {
    if (conn->login)
        tl__login_wipe(conn->login);
    free(conn->login);
    conn->login = NULL;
}

void tl__conn_close(tl_conn *conn, const char *reason, tl_mono now) {
    conn->now = now;
    conn->served = false; /* whoever closes is not in haste to have the next one */
    if (conn->state != TL_CONN_DOWN)
        tl__conn_lose_at_place(conn, TL_EUNAVAILABLE, reason);
}

void tl__conn_free(tl_conn *conn) {
    if (!conn)
        return;
    conn->freeing = true;
    tl__conn_lose_at_place(conn, TL_EUNAVAILABLE, "the connection is closed");
    tl__stream_free(&conn->stream);
    tl__spot_give(conn->spot);
    tl__resp_free(conn->resp);
    tl__gateway_free(conn->gateway);
    tl__conn_forget_token(conn);
    tl__slots_clear(&conn->slots);
    free(conn);
}

/* ---- answers ----------------------------------------------------------------------------------- */

void tl__conn_enqueue(tl_conn *conn, tl_slot *slot) {
    tl__slots_put(&conn->slots, slot);
    conn->soonest = tl__mono_min(conn->soonest, slot->by);
}

void tl__conn_answer(tl_conn *conn, tl_slot *slot, tl_answer answer) {
    bool wanted = !slot->given_up && !slot->quiet;
    tl__slot_free(&conn->slots, slot);
    if (wanted)
        conn->calls.answer(conn->calls.ctx, &answer);
}

/* Is what a script has raised at `at` no further behind the clock at `now` than INCR may be? */
static bool lately(tl_mono at, tl_mono now) {
    return tl__ns_until(at, now) < TL_RAISED_MS * TL_NS_PER_MS || !GUARD(native_in_its_window);
}

static tl_answer success(const tl_conn *c, const tl_slot *s, tl_mono received) {
    return (tl_answer){.cookie = s->cookie,
                       .ticket = s->ticket,
                       .ok = true,
                       .sent = s->sent,
                       .received = received,
                       .reply = c->reply,
                       .count = s->count,
                       .run = c->run,
                       .generation = tl__conn_generation(c),
                       .maybe_sent = true,
                       .native = s->native,
                       .stale = GUARD(late_native_is_stale) && s->native &&
                                !lately(s->raised, received),
                       .unnamed = tl__conn_is_unnamed(c, received),
                       .words = tl__bytes_of(c->endpoint->label)};
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* What was not begun when the connection is to be left is for the next one, as is what was queued
 * when the generation was over; and what is
 * pinned has the connection to itself. */
static bool has_to_write(const tl_conn *c) {
    bool pinned = GUARD(pin_holds_others_back) && (c->pinned || c->slots.pin);
    return c->slots.unsent && !pinned && tl__conn_is_current(c) &&
           !(c->leaving && tl__slot_unsent(c->slots.unsent));
}

/* As far as the stream takes it. false: it broke. */
static bool write_slots(tl_conn *c) {
    char buffer[WRITE_SIZE];
    while (has_to_write(c)) {
        tl_bytes next = tl__slots_next(&c->slots, buffer, sizeof buffer);
        tl_mono before = tl__mono_now();
        if (c->endpoint->tls)
            tl__slots_offer(&c->slots, next.n, before);
        ssize_t n = tl__stream_write(&c->stream, next.p, next.n);
        if (n <= 0)
            return n == 0;
        tl__slots_written(&c->slots, (size_t)n, before);
        if (c->gateway)
            c->soonest = tl__mono_min(c->soonest, tl__conn_hurries_at(c));
        while (c->slots.head && c->slots.head->quiet && c->slots.head != c->slots.unsent)
            tl__slot_free(&c->slots, tl__slots_cut(&c->slots, NULL));
    }
    return true;
}

_Static_assert(TL_SCRIPTS <= 64, "a bit for each");

static uint64_t scripts_of(const tl_slot *s) {
    uint64_t bits = 0;
    for (size_t i = 0; s->scripts && i < s->count; i++)
        if (s->command[i].form == TL_SCRIPT)
            bits |= UINT64_C(1) << s->command[i].script;
    return bits;
}

/* limits.in_order: each script goes by its text once on a connection, as one that the server doesn't know would be sent
 * again, behind what has followed it. false: out of memory. */
static bool know_scripts(tl_conn *c, tl_slot *s) {
    uint64_t needed = scripts_of(s);
    if ((needed & ~c->texts) == 0)
        return true;
    c->texts |= needed;
    return s->by_text || tl__slot_by_text(s);
}

static bool know_queued_scripts(tl_conn *c) {
    c->texts = 0;
    bool known = true;
    for (tl_slot *s = c->slots.head; known && s && c->limits.in_order; s = s->next)
        known = know_scripts(c, s);
    return known;
}

/* A slot with its request; NULL: out of memory. */
static tl_slot *make_slot(tl_conn *c, const tl_command *command, uint8_t count, bool asking,
                          tl_mono by, tl_mono now) {
    tl_slot *s = c->slots.count < QUEUE_MAX ? tl__slot_new(&c->slots) : NULL;
    if (!s)
        return NULL;
    s->queued = now;
    s->asking = asking;
    s->via = c->gateway ? &c->via : NULL;
    s->timeout_ms = c->gateway && by.ns != TL_NEVER.ns ? tl__ms_until(now, by) : 0;
    if (tl__slot_fill(s, command, count) &&
        (!c->limits.in_order || !tl__conn_up(c) || know_scripts(c, s)))
        return s;
    tl__slot_free(&c->slots, s);
    return NULL;
}

/* Before those that wait for the end of a transaction. */
static void put_first(tl_conn *c, tl_slot *s) {
    tl__slots_put_first(&c->slots, s);
    c->soonest = tl__mono_min(c->soonest, s->by);
}

/* ---- replies ----------------------------------------------------------------------------------- */

static bool is_noscript(const tl_reply *reply) {
    static const char word[] = "NOSCRIPT";
    return reply->type == TL_REPLY_ERROR && reply->text.n >= sizeof word - 1 &&
           memcmp(reply->text.p, word, sizeof word - 1) == 0;
}

static bool has_key(const tl_slot *s, tl_bytes key) {
    bool has = false;
    for (size_t i = 0; s->scripts && i < s->count; i++)
        for (size_t k = 0; k < s->command[i].nkeys; k++)
            has = has || tl__bytes_eq(s->command[i].argv[k], key);
    return has;
}

/* Is anything of its keys behind it, the oldest request? It would be carried out first. */
static bool is_overtaken(const tl_conn *c, const tl_slot *s) {
    bool is = false;
    for (const tl_slot *t = c->slots.head; t && !is; t = t->next)
        for (size_t i = 0; i < s->count; i++)
            for (size_t k = 0; k < s->command[i].nkeys; k++)
                is = is || has_key(t, s->command[i].argv[k]);
    return is;
}

/* The server doesn't know the request's scripts: send it again by text? true: that is done, or it was refused. */
static bool again_by_text(tl_conn *c, tl_slot *s) {
    size_t unknown = 0;
    for (size_t i = 0; i < s->count; i++)
        unknown += is_noscript(&c->reply[i]);
    if (!s->scripts || s->by_text || s->given_up || unknown == 0)
        return false;
    bool executed = unknown < s->count; /* the request's other command was */
    c->texts = 0;                       /* perhaps it knows no other either */
    if (GUARD(overtaken_is_refused) && c->limits.in_order && is_overtaken(c, s)) {
        char words[TL_STREAM_WORDS];
        (void)snprintf(words, sizeof words, "%s: its scripts were removed (SCRIPT FLUSH)",
                       c->endpoint->label);
        s->done = 0;
        s->effect = executed;
        tl__conn_refuse(c, s, TL_EUNAVAILABLE, words);
        return true;
    }
    if (!tl__slot_by_text(s))
        return false;
    c->texts = scripts_of(s);
    s->effect = executed;
    tl__conn_enqueue(c, s);
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
    s->queued = s->sent = c->now;
    c->soonest = tl__mono_min(c->soonest, s->by);
}

/* Do the replies say that another server is the one to ask? */
static bool asks_elsewhere(tl_conn *c, const tl_reply *reply, size_t count) {
    bool does = false;
    if (c->gateway)
        return tl__conn_leaves_member(c, reply, count);
    for (size_t i = 0; i < count; i++)
        does = does || (GUARD(wrong_server_is_left) && reply[i].type == TL_REPLY_ERROR &&
                        tl__asks_elsewhere(reply[i].text));
    return does;
}

/* Was a transaction begun that was neither executed nor discarded, as where EXEC alone is forbidden below 7.0? All
 * that followed on this connection would only be queued. */
static bool is_left_open(const tl_slot *s, const tl_reply *reply) {
    static const char discarded[] = "EXECABORT";
    tl_bytes begun;
    if (!s->native || !tl__reply_text(&reply[0], &begun) || !tl__bytes_eq(begun, TL_LITERAL("OK")))
        return false;
    bool over = false;
    for (size_t i = 0; i < s->count; i++)
        over = over || reply[i].type == TL_REPLY_ARRAY ||
               (reply[i].type == TL_REPLY_ERROR && tl__bytes_has_word(reply[i].text, discarded));
    return !over;
}

/* The answer has not been followed by what closes: others must find nothing of it. false: out of memory. */
static bool undo(tl_conn *c, const tl_pin *pin) {
    tl_slot *s = make_slot(c, pin->undo, pin->undos, false, TL_NEVER, c->now);
    if (!s)
        return false;
    s->by = tl__mono_add_ms(c->now, c->limits.connect_ms);
    s->given_up = true; /* nobody waits for it */
    put_first(c, s);
    return true;
}

static void release(tl_conn *c) {
    if (c->gateway)
        tl__gateway_release(c->gateway);
    else
        tl__resp_release(c->resp);
}

static void feed(tl_conn *c, const char *bytes, size_t n) {
    if (c->gateway)
        tl__gateway_feed(c->gateway, bytes, n);
    else
        tl__resp_feed(c->resp, bytes, n);
}

/* This server is left: who only wants to know that it has been reached waits for the next, behind what was
 * sent: the replies that are still to come are not his. */
static void put_off_reached(tl_conn *c) {
    for (size_t n = c->slots.count; n > 0 && c->slots.head->count == 0; n--)
        tl__slots_put(&c->slots, tl__slots_cut(&c->slots, NULL));
}

/* The oldest request has all its replies. false: the connection is over. */
static bool complete(tl_conn *c, tl_mono received) {
    tl_slot *s = tl__slots_cut(&c->slots, NULL);
    c->leaving = asks_elsewhere(c, c->reply, s->count) || c->leaving || is_left_open(s, c->reply);
    if (GUARD(reached_is_put_off) && c->leaving)
        put_off_reached(c);
    head_again(c);
    c->pinned = s->pin && s->pin->is_open(c->reply, s->count) ? s->pin : NULL;
    if (!again_by_text(c, s))
        tl__conn_answer(c, s, success(c, s, received));
    bool clean = !c->pinned || undo(c, c->pinned);
    c->pinned = NULL;
    release(c);
    if (!clean)
        tl__conn_lose_at_place(c, TL_ENOMEM, "out of memory");
    return clean;
}

/* Is the oldest request one that only wants to know that the server has been reached? */
static bool has_reached(const tl_conn *c) {
    return c->state == TL_CONN_UP && !c->leaving && c->slots.head && c->slots.head->count == 0 &&
           (GUARD(waits_beside_queue) || tl__conn_is_named(c, c->now));
}

/* Where the server is still to be named they wait beside the queue: what others have asked behind them is sent and
 * answered meanwhile. */
static void answer_reached(tl_conn *c) {
    while (has_reached(c)) {
        tl_slot *s = tl__slots_cut(&c->slots, NULL);
        head_again(c);
        if (!tl__conn_is_named(c, c->now)) {
            tl__conn_await_name(c, s);
            continue;
        }
        s->sent = tl__mono_now();
        tl__conn_answer(c, s, success(c, s, s->sent));
    }
}

/* The login is complete. */
static void come_up(tl_conn *c, tl_mono received) {
    tl_login *l = c->login;
    tl_interval bracket = l->bracket;
    bool known = l->has_bracket;
    c->id = l->id;
    if (GUARD(run_of_this_login) || l->run)
        c->run = l->run;
    tl__conn_end_login(c);
    if (c->gateway ? !tl__conn_dress(c) : !know_queued_scripts(c)) {
        tl__conn_lose_at_place(c, TL_ENOMEM, "out of memory");
        return;
    }
    c->state = TL_CONN_UP;
    tl__conn_opened(c);
    if (c->calls.up)
        c->calls.up(c->calls.ctx, known ? &bracket : NULL, received);
    if (GUARD(foreign_is_refused))
        tl__conn_refuse_foreign(c);
}

static bool on_login(tl_conn *c, const tl_reply *reply, tl_mono received) {
    tl_login_outcome outcome = c->gateway ? tl__conn_token_reply(c, reply)
                                          : tl__login_reply(c->login, reply, received);
    release(c);
    if (outcome == TL_LOGIN_FAILED)
        tl__conn_lose(c, c->login->why, c->login->words, false);
    else if (outcome == TL_LOGIN_DONE)
        come_up(c, received);
    return outcome != TL_LOGIN_FAILED;
}

/* A reply in its turn: the server is at work. */
static void served(tl_conn *c) {
    c->served = true;
    tl__backoff_reset(&c->backoff);
}

static void push(tl_conn *c, const tl_reply *reply) {
    served(c);
    if (c->calls.push)
        c->calls.push(c->calls.ctx, reply);
    release(c);
}

/* false: the connection is over. */
static bool on_reply(tl_conn *c, const tl_reply *reply, tl_mono received) {
    if (c->state == TL_CONN_LOGIN)
        return on_login(c, reply, received);
    if (c->limits.subscriber) {
        push(c, reply);
        return true;
    }
    answer_reached(c);
    tl_slot *s = c->slots.head;
    if (!s || (GUARD(no_reply_unasked) && !tl__slot_is_asked(s))) {
        tl__conn_lose_nonsense(c, "a reply without a request");
        return false;
    }
    served(c);
    bool asked = s->asking && s->got % 2 == 0; /* of ASKING: what follows says whether it did */
    if (!asked)
        c->reply[s->asking ? s->got / 2 : s->got] = *reply;
    s->got++;
    return s->got < tl__slot_replies(s) || complete(c, received);
}

/* Of a line that is too long the rest is thrown away. Returns how many bytes are left. */
static size_t cut_lines(tl_conn *c, char *bytes, size_t n) {
    size_t kept = 0;
    if (c->limits.line_most == 0 || c->state != TL_CONN_UP)
        return n;
    for (size_t i = 0; i < n; i++) {
        bool end = bytes[i] == '\r' || bytes[i] == '\n';
        if (end || c->line_n < c->limits.line_most)
            bytes[kept++] = bytes[i];
        c->line_n = bytes[i] == '\n' ? 0 : c->line_n + 1;
    }
    return kept;
}

static int next_reply(tl_conn *c, tl_reply *ret) {
    if (!c->gateway)
        return tl__resp_next(c->resp, ret);
    answer_reached(c); /* of what is answered the request says what it means */
    return tl__conn_next_answer(c, ret);
}

/* Why that is no reply. */
static const char *nonsense(const tl_conn *c, tl_bytes heard) {
    if (c->gateway)
        return tl__gateway_words(c->gateway);
    const char *who = c->state == TL_CONN_LOGIN ? tl__login_stranger(heard) : NULL;
    return who ? who : tl__resp_words(c->resp);
}

static bool is_out_of_memory(const tl_conn *c) {
    return c->gateway ? tl__gateway_is_out_of_memory(c->gateway)
                      : tl__resp_is_out_of_memory(c->resp);
}

static bool read_replies(tl_conn *c) {
    char buffer[READ_SIZE];
    c->more = true;
    for (int i = 0; i < READS_MAX && c->more; i++) {
        ssize_t n = tl__stream_read(&c->stream, buffer, sizeof buffer, &c->more);
        if (n == 0)
            return true;
        if (n < 0) {
            tl__conn_lose_stream(c);
            return false;
        }
        tl_mono received = tl__mono_now();
        c->heard = c->now;
        c->bytes += (uint64_t)n;
        feed(c, buffer, cut_lines(c, buffer, (size_t)n));
        tl_reply reply;
        int result;
        while ((result = next_reply(c, &reply)) > 0)
            if (!on_reply(c, &reply, received))
                return false;
        if (GUARD(no_memory_is_no_fault) && result < 0 && is_out_of_memory(c)) {
            tl__conn_lose_at_place(c, TL_ENOMEM, "out of memory for a reply");
            return false;
        }
        if (result < 0) {
            tl__conn_lose_nonsense(c, nonsense(c, tl__bytes(buffer, (size_t)n)));
            return false;
        }
    }
    return true;
}

/* ---- requests ---------------------------------------------------------------------------------- */

static bool is_stale(const tl_conn *c, tl_mono now) {
    return tl__ns_until(c->heard, now) >= STALE_MS * TL_NS_PER_MS;
}

/* Queue it; write it at once if nothing is in flight. */
static void submit(tl_conn *c, tl_slot *s, tl_mono now) {
    bool idle = tl__conn_idle(c);
    tl__conn_enqueue(c, s);
    if (!idle || c->held || c->limits.patience_ms > 0)
        return;
    c->stale = is_stale(c, now);
    c->broken = !c->stale && !write_slots(c);
}

void tl__conn_hold(tl_conn *conn) {
    conn->held = true;
}

void tl__conn_write(tl_conn *conn, tl_mono now) {
    conn->held = false;
    if (!tl__conn_up(conn) || !has_to_write(conn))
        return;
    conn->stale = conn->stale || is_stale(conn, now);
    conn->broken = !conn->stale && !write_slots(conn);
}

static tl_raised *raised_set(tl_conn *c, tl_slot_tag slot) {
    unsigned char a = (unsigned char)slot.text[0], b = (unsigned char)slot.text[1],
                  d = (unsigned char)slot.text[2];
    return c->raised[GUARD(raised_by_slot) * (a * 31U + b * 7U + d) % TL_RAISED_SETS];
}

/* NULL: it isn't known to have been. */
static const tl_raised *raised_at(tl_conn *c, tl_slot_tag slot) {
    const tl_raised *set = raised_set(c, slot);
    for (int i = 0; i < TL_RAISED_WAYS; i++)
        if (memcmp(set[i].slot.text, slot.text, sizeof slot.text) == 0 || !GUARD(raised_by_slot))
            return &set[i];
    return NULL;
}

/* In place of what was known of this slot, or of the one that was raised longest ago. */
void tl__conn_raised(tl_conn *conn, tl_slot_tag slot, tl_mono sent) {
    tl_raised *set = raised_set(conn, slot), *to = set;
    for (int i = 0; i < (GUARD(raised_for_a_crowd) ? TL_RAISED_WAYS : 1); i++) {
        if (memcmp(set[i].slot.text, slot.text, sizeof slot.text) == 0) {
            to = &set[i];
            break;
        }
        if (tl__mono_before(set[i].at, to->at))
            to = &set[i];
    }
    *to = (tl_raised){slot, sent};
}

static const tl_raised *goes_native(tl_conn *c, const tl_send *send, tl_mono now) {
    const tl_raised *r = send->native > 0 && tl__conn_up(c) ? raised_at(c, send->slot) : NULL;
    return r && lately(r->at, now) ? r : NULL;
}

tl_err tl__conn_send(tl_conn *conn, const tl_send *send, void *cookie, tl_mono now) {
    bool closes = send->pin && send->pin->closes;
    bool confirms = send->confirm && conn->limits.site;
    bool here = send->here || confirms;
    if (conn->freeing ||
        (GUARD(bound_to_connection) && ((closes && !conn->pinned) || (here && !tl__conn_up(conn)))))
        return TL_EUNAVAILABLE;
    if (GUARD(foreign_is_refused) && tl__conn_is_foreign(conn, send->generation) &&
        tl__conn_is_current(conn))
        return TL_EELSEWHERE;
    const tl_raised *raised = goes_native(conn, send, now);
    bool native = raised != NULL;
    tl_slot *s = make_slot(conn, send->command + (native ? send->count : 0),
                           native ? send->native : send->count, send->asking, send->by, now);
    if (!s)
        return TL_ENOMEM;
    s->native = native;
    s->raised = native && GUARD(window_to_the_answer) ? raised->at : now;
    s->here = native || send->here;
    s->cookie = cookie;
    s->ticket = send->ticket;
    s->by = send->by;
    s->pin = send->pin;
    s->generation = send->generation;
    if (confirms) {
        s->confirms = true;
        tl__conn_await_name(conn, s);
        return TL_OK;
    }
    if (!closes) {
        submit(conn, s, now);
        return TL_OK;
    }
    put_first(conn, s);
    conn->pinned = NULL;
    return TL_OK;
}

void tl__conn_forget(tl_conn *conn, const void *cookie) {
    tl_slot *s = conn->slots.head, *before = NULL;
    while (s) {
        tl_slot *next = s->next;
        if (s->cookie == cookie && tl__slot_unsent(s)) {
            tl__slot_free(&conn->slots, tl__slots_cut(&conn->slots, before));
        } else {
            s->given_up = s->given_up || s->cookie == cookie;
            before = s;
        }
        s = next;
    }
    if (GUARD(forgotten_while_naming))
        tl__conn_forget_naming(conn, cookie);
}

tl_err tl__conn_say(tl_conn *conn, const tl_command *command, tl_mono now) {
    tl_slot *s = conn->freeing ? NULL : make_slot(conn, command, 1, false, TL_NEVER, now);
    if (!s)
        return TL_ENOMEM;
    s->by = TL_NEVER;
    s->quiet = true;
    submit(conn, s, now);
    return TL_OK;
}

bool tl__conn_up(const tl_conn *conn) {
    return conn->state == TL_CONN_UP && !conn->broken && !conn->leaving &&
           tl__conn_is_current(conn);
}

bool tl__conn_is_native(const tl_conn *conn) {
    return conn->slots.tail && conn->slots.tail->native;
}

int64_t tl__conn_id(const tl_conn *conn) {
    return conn->id;
}

uint64_t tl__conn_run(const tl_conn *conn) {
    return conn->state == TL_CONN_UP ? conn->run : 0;
}

uint64_t tl__conn_bytes(const tl_conn *conn) {
    return conn->bytes;
}

bool tl__conn_idle(const tl_conn *conn) {
    return tl__conn_up(conn) && !conn->slots.head;
}

bool tl__conn_lively(const tl_conn *conn, tl_mono now) {
    return tl__conn_up(conn) && !is_stale(conn, now) && tl__conn_is_named(conn, now);
}

bool tl__conn_fresh(const tl_conn *conn, tl_mono now) {
    return tl__conn_idle(conn) && !conn->more && !is_stale(conn, now) &&
           tl__conn_is_named(conn, now);
}

/* ---- driving ----------------------------------------------------------------------------------- */

static bool reset(tl_conn *c) {
    if (!c->gateway)
        return tl__resp_reset(c->resp);
    tl__gateway_reset(c->gateway);
    return true;
}

static void begin(tl_conn *c, tl_mono now) {
    if (!tl__conn_lead(c))
        return;
    if (c->gateway)
        tl__conn_lead_member(c);
    c->login = malloc(sizeof *c->login);
    if (!c->login || !reset(c)) {
        tl__conn_lose_at_place(c, TL_ENOMEM, "out of memory");
        return;
    }
    const tl_login_asks asks = {.time = !c->limits.no_time,
                                .run = c->limits.ask_run,
                                .id = c->limits.ask_id,
                                .role = c->limits.site != NULL};
    int64_t limit_ms = c->limits.connect_ms;
    if (!c->gateway) {
        tl__login_begin(c->login, c->endpoint, asks);
    } else {
        limit_ms = (limit_ms + c->limits.members->count - 1) / c->limits.members->count;
        if (!tl__conn_ask_token(c)) {
            tl__conn_lose_at_place(c, TL_EINVALID, "user and password are too long");
            return;
        }
    }
    c->login_by = tl__mono_add_ms(now, limit_ms);
    c->line_n = 0;
    c->state = TL_CONN_OPENING;
    tl__stream_open(&c->stream, now, limit_ms);
}

static void drive_opening(tl_conn *c, tl_mono now) {
    tl__stream_drive(&c->stream, now);
    if (c->stream.state == TL_STREAM_FAILED)
        tl__conn_lose_stream(c);
    else if (c->stream.state == TL_STREAM_OPEN)
        c->state = TL_CONN_LOGIN;
    if (c->state == TL_CONN_LOGIN && c->login->steps == 0)
        come_up(c, now);
}

static void drive_login(tl_conn *c, tl_mono now) {
    if (!tl__login_write(c->login, &c->stream))
        tl__conn_lose_stream(c);
    else if (read_replies(c) && c->state == TL_CONN_LOGIN && !tl__mono_before(now, c->login_by))
        tl__conn_lose_late(c, "no reply to the login", c->limits.connect_ms);
}

void tl__conn_drive(tl_conn *conn, tl_mono now) {
    conn->now = now;
    if (conn->state != TL_CONN_DOWN && !tl__conn_is_current(conn))
        tl__conn_lose_master(conn);
    if (conn->state == TL_CONN_DOWN && conn->slots.head && !tl__mono_before(now, conn->retry_at))
        begin(conn, now);
    if (conn->state == TL_CONN_OPENING)
        drive_opening(conn, now);
    if (conn->state == TL_CONN_LOGIN)
        drive_login(conn, now);
    else if (conn->state == TL_CONN_UP && read_replies(conn))
        conn->stale = false;
    if (conn->state == TL_CONN_UP && (conn->broken || !write_slots(conn)))
        tl__conn_lose_stream(conn);
    if (conn->leaving)
        tl__conn_leave(conn);
    if (!conn->stale)
        answer_reached(conn);
    tl__conn_drive_naming(conn);
    tl__conn_expire(conn, now);
}

int tl__conn_fd(const tl_conn *conn) {
    return conn->state == TL_CONN_DOWN ? -1 : tl__stream_fd(&conn->stream);
}

short tl__conn_events(const tl_conn *conn) {
    if (conn->state == TL_CONN_DOWN)
        return 0;
    bool writing = conn->state == TL_CONN_LOGIN ? conn->login->done < conn->login->size
                                                : has_to_write(conn);
    return tl__stream_events(&conn->stream, writing);
}

/* Without what waits to be named. */
static tl_mono until(const tl_conn *conn) {
    switch (conn->state) {
    case TL_CONN_DOWN:
        return conn->slots.head ? tl__mono_min(conn->retry_at, conn->soonest) : TL_NEVER;
    case TL_CONN_OPENING:
        return tl__mono_min(tl__stream_until(&conn->stream), tl__conn_led_until(conn));
    case TL_CONN_LOGIN: return tl__mono_min(conn->login_by, tl__conn_led_until(conn));
    default: return conn->soonest;
    }
}

tl_mono tl__conn_until(const tl_conn *conn) {
    const tl_mono at_once = {0};
    if (conn->broken || conn->more || conn->stale || has_reached(conn))
        return at_once;
    return tl__mono_min(until(conn), tl__conn_naming_until(conn));
}
