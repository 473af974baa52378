/*
 * One connection to one server. Requests wait in one queue, in the order of sending; a reply belongs to the
 * oldest. This file must never pair a reply with another request than its own, and never wait.
 */
#include <stdio.h>
#include <stdlib.h>

#include "ground/guard.h"
#include "transport/conn_inside.h"

#define QUEUE_MAX 16384  /* requests outstanding, at most; */
#define KEEPS_MAX 65536  /* with renewals */
#define READ_SIZE 16384  /* one read */
#define WRITE_SIZE 16384 /* small requests are gathered up to this size for one write */
#define READS_MAX 64     /* in one drive */
#define STALE_MS 1000    /* after so long without a reply, look before writing */

/* ---- life -------------------------------------------------------------------------------------- */

tl_conn *tl__conn_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                      const tl_conn_calls *calls) {
    tl_conn *conn = calloc(1, sizeof *conn);
    if (!conn)
        return NULL;
    conn->endpoint = endpoint;
    conn->limits = *limits;
    conn->calls = *calls;
    conn->codec = tl__codec_of(limits);
    if (!conn->codec->make(conn)) {
        free(conn);
        return NULL;
    }
    conn->soonest = TL_NEVER;
    conn->backoff.random = tl__random_seed();
    tl__stream_init(&conn->stream, endpoint);
    return conn;
}

void tl__conn_end_login(tl_conn *conn) {
    if (conn->login)
        tl__login_wipe(conn->login);
    free(conn->login);
    conn->login = NULL;
}

void tl__conn_close(tl_conn *conn, const char *reason, tl_mono now) {
    conn->now = now;
    conn->served = false; /* so that the next connection waits for the back-off */
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
    conn->codec->end(conn);
    tl__slots_clear(&conn->slots);
    free(conn);
}

/* ---- results ----------------------------------------------------------------------------------- */

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

/* Is the counter, raised at `at`, still close enough to the server's clock at `now` for INCR? */
static bool lately(tl_mono at, tl_mono now) {
    return tl__ns_until(at, now) < TL_RAISED_MS * TL_NS_PER_MS || !GUARD(native_in_its_window);
}

static tl_answer success(const tl_conn *conn, const tl_slot *slot, tl_mono received) {
    return (tl_answer){.cookie = slot->cookie,
                       .ticket = slot->ticket,
                       .ok = true,
                       .sent = slot->sent,
                       .received = received,
                       .reply = conn->reply,
                       .count = slot->count,
                       .run = conn->run,
                       .generation = tl__conn_generation(conn),
                       .maybe_sent = true,
                       .native = slot->native,
                       .stale = GUARD(late_native_is_stale) && slot->native &&
                                !lately(slot->raised, received),
                       .unnamed = tl__conn_is_unnamed(conn, received),
                       .message = tl__bytes_of(conn->endpoint->label)};
}

/* ---- writing ----------------------------------------------------------------------------------- */

/* While the connection is being left, requests that were not begun stay for the next one; the same when its
 * generation is over. An open transaction has the connection to itself. */
bool tl__conn_has_to_write(const tl_conn *conn) {
    bool pinned = GUARD(pin_holds_others_back) && (conn->pinned || conn->slots.pin);
    return conn->slots.unsent && !pinned && tl__conn_is_current(conn) &&
           !(conn->leaving && tl__slot_unsent(conn->slots.unsent));
}

/* false: the stream broke. */
static bool write_by_codec(tl_conn *conn) {
    bool fine = conn->codec->write(conn);
    conn->soonest = tl__mono_min(conn->soonest, tl__conn_hurries_at(conn));
    return fine;
}

/* Write as much as the stream accepts. false: the stream broke. */
static bool write_slots(tl_conn *conn) {
    char buffer[WRITE_SIZE];
    if (conn->codec->write)
        return write_by_codec(conn);
    while (tl__conn_has_to_write(conn)) {
        tl_bytes next = tl__slots_next(&conn->slots, buffer, sizeof buffer);
        tl_mono before = tl__mono_now();
        if (conn->endpoint->tls)
            tl__slots_offer(&conn->slots, next.n, before);
        ssize_t n = tl__stream_write(&conn->stream, next.p, next.n);
        if (n <= 0)
            return n == 0;
        tl__slots_written(&conn->slots, (size_t)n, before);
        conn->soonest = tl__mono_min(conn->soonest, tl__conn_hurries_at(conn));
        while (conn->slots.head && conn->slots.head->quiet &&
               conn->slots.head != conn->slots.unsent)
            tl__slot_free(&conn->slots, tl__slots_cut(&conn->slots, NULL));
    }
    return true;
}

/* Make a slot with its request; NULL: out of memory. */
static tl_slot *make_slot(tl_conn *conn, const tl_command *command, uint8_t count, bool asking,
                          tl_mono by, tl_mono now) {
    tl_slot *slot = tl__slot_new(&conn->slots);
    if (!slot)
        return NULL;
    slot->queued = now;
    slot->by = by;
    slot->asking = asking;
    slot->encode = conn->codec->encode;
    if (conn->codec->fill(conn, slot, command, count))
        return slot;
    tl__slot_free(&conn->slots, slot);
    return NULL;
}

/* Put it before the requests that wait for the end of a transaction. */
static void put_first(tl_conn *conn, tl_slot *slot) {
    tl__slots_put_first(&conn->slots, slot);
    conn->soonest = tl__mono_min(conn->soonest, slot->by);
}

/* ---- replies ----------------------------------------------------------------------------------- */

/* The new oldest request may have failed by its limit already. While the server answered earlier requests it
 * was not late with this one: so from now on it gets the request's full time again. */
static void head_again(tl_conn *conn) {
    tl_slot *slot = conn->slots.head;
    if (!slot)
        conn->soonest = TL_NEVER;
    if (!slot || !slot->given_up)
        return;
    slot->by = tl__mono_add_ns(conn->now, tl__ns_until(slot->queued, slot->by));
    slot->queued = slot->sent = conn->now;
    conn->soonest = tl__mono_min(conn->soonest, slot->by);
}

/* The transaction was opened, but not closed from the callback: undo it, so that it can't affect other
 * requests. false: out of memory. */
static bool undo(tl_conn *conn, const tl_pin *pin) {
    tl_slot *slot = make_slot(conn, pin->undo, pin->undos, false,
                              tl__mono_add_ms(conn->now, conn->limits.connect_ms), conn->now);
    if (!slot)
        return false;
    slot->given_up = true; /* it needs no result */
    put_first(conn, slot);
    return true;
}

/* This server is being left. Requests that only wait until a server is reached wait for the next one. They go
 * behind what was sent, since the replies to come belong to that. */
static void put_off_reached(tl_conn *conn) {
    for (size_t n = conn->slots.count; n > 0 && conn->slots.head->count == 0; n--)
        tl__slots_put(&conn->slots, tl__slots_cut(&conn->slots, NULL));
}

/* The oldest request has all its replies. false: the connection has ended. */
static bool complete(tl_conn *conn, tl_mono received) {
    tl_slot *slot = tl__slots_cut(&conn->slots, NULL);
    const char *leaving = conn->codec->leaves(conn, slot);
    if (leaving)
        conn->leaving = leaving;
    if (GUARD(reached_is_put_off) && conn->leaving)
        put_off_reached(conn);
    head_again(conn);
    conn->pinned = slot->pin && slot->pin->is_open(conn->reply, slot->count) ? slot->pin : NULL;
    if (!conn->codec->again || !conn->codec->again(conn, slot))
        tl__conn_answer(conn, slot, success(conn, slot, received));
    bool clean = !conn->pinned || undo(conn, conn->pinned);
    conn->pinned = NULL;
    conn->codec->release(conn);
    if (!clean)
        tl__conn_lose_at_place(conn, TL_ENOMEM, "out of memory");
    return clean;
}

/* Does the oldest request only wait until the server is reached? */
static bool has_reached(const tl_conn *conn) {
    return conn->state == TL_CONN_UP && !conn->leaving && conn->slots.head &&
           conn->slots.head->count == 0 &&
           (GUARD(waits_beside_queue) || tl__conn_is_named(conn, conn->now));
}

/* If the master is not confirmed yet they wait beside the queue: so later requests are sent and answered
 * meanwhile. */
void tl__conn_answer_reached(tl_conn *conn) {
    while (has_reached(conn)) {
        tl_slot *slot = tl__slots_cut(&conn->slots, NULL);
        head_again(conn);
        if (!tl__conn_is_named(conn, conn->now)) {
            tl__conn_await_name(conn, slot);
            continue;
        }
        slot->sent = tl__mono_now();
        tl__conn_answer(conn, slot, success(conn, slot, slot->sent));
    }
}

/* Encode the queued requests for this connection. false: out of memory. */
static bool dress_queued(tl_conn *conn) {
    for (tl_slot *slot = conn->slots.head; slot; slot = slot->next)
        if (!conn->codec->dress(conn, slot))
            return false;
    return true;
}

/* The login is complete. */
static void come_up(tl_conn *conn, tl_mono received) {
    tl_login *login = conn->login;
    tl_interval bracket = login->bracket;
    bool known = login->has_bracket;
    conn->id = login->id;
    if (GUARD(run_of_this_login) || login->run)
        conn->run = login->run;
    tl__conn_end_login(conn);
    if (!dress_queued(conn)) {
        tl__conn_lose_at_place(conn, TL_ENOMEM, "out of memory");
        return;
    }
    conn->state = TL_CONN_UP;
    tl__conn_opened(conn);
    if (conn->calls.up)
        conn->calls.up(conn->calls.ctx, known ? &bracket : NULL, received);
    if (GUARD(foreign_is_refused))
        tl__conn_refuse_foreign(conn);
}

static bool on_login(tl_conn *conn, const tl_reply *reply, tl_mono received) {
    tl_login_outcome outcome = conn->codec->on_login(conn, reply, received);
    conn->codec->release(conn);
    if (outcome == TL_LOGIN_FAILED)
        tl__conn_lose(conn, conn->login->why, conn->login->message, false);
    else if (outcome == TL_LOGIN_DONE)
        come_up(conn, received);
    return outcome != TL_LOGIN_FAILED;
}

/* A reply has come in its turn: the server works. */
static void served(tl_conn *conn) {
    conn->served = true;
    tl__backoff_reset(&conn->backoff);
}

static void push(tl_conn *conn, const tl_reply *reply) {
    served(conn);
    if (conn->calls.push)
        conn->calls.push(conn->calls.ctx, reply);
    conn->codec->release(conn);
}

/* false: the connection has ended. */
static bool on_reply(tl_conn *conn, const tl_reply *reply, tl_mono received) {
    if (conn->state == TL_CONN_LOGIN)
        return on_login(conn, reply, received);
    if (conn->limits.subscriber) {
        push(conn, reply);
        return true;
    }
    tl__conn_answer_reached(conn);
    tl_slot *slot = conn->slots.head;
    if (!slot || (GUARD(no_reply_unasked) && !tl__slot_is_asked(slot))) {
        tl__conn_lose_nonsense(conn, "a reply without a request");
        return false;
    }
    served(conn);
    /* The reply to ASKING: the command's own reply shows whether it worked. */
    bool asked = slot->asking && slot->got % 2 == 0;
    if (!asked)
        conn->reply[slot->asking ? slot->got / 2 : slot->got] = *reply;
    slot->got++;
    return slot->got < tl__slot_replies(slot) || complete(conn, received);
}

static bool read_replies(tl_conn *conn) {
    char buffer[READ_SIZE];
    conn->more = true;
    for (int i = 0; i < READS_MAX && conn->more; i++) {
        ssize_t n = tl__stream_read(&conn->stream, buffer, sizeof buffer, &conn->more);
        if (n == 0)
            return true;
        if (n < 0) {
            tl__conn_lose_stream(conn);
            return false;
        }
        tl_mono received = tl__mono_now();
        conn->heard = conn->now;
        conn->bytes += (uint64_t)n;
        conn->codec->feed(conn, buffer, (size_t)n);
        tl_reply reply;
        int result;
        while ((result = conn->codec->next(conn, &reply)) > 0)
            if (!on_reply(conn, &reply, received))
                return false;
        if (GUARD(no_memory_is_no_fault) && result < 0 && conn->codec->is_out_of_memory(conn)) {
            tl__conn_lose_at_place(conn, TL_ENOMEM, "out of memory for a reply");
            return false;
        }
        if (result < 0) {
            tl__conn_lose_nonsense(conn, conn->codec->problem(conn, tl__bytes(buffer, (size_t)n)));
            return false;
        }
    }
    return true;
}

/* ---- requests ---------------------------------------------------------------------------------- */

static bool is_stale(const tl_conn *conn, tl_mono now) {
    return tl__ns_until(conn->heard, now) >= STALE_MS * TL_NS_PER_MS;
}

/* Queue it; write it at once if nothing is outstanding. */
static void submit(tl_conn *conn, tl_slot *slot, tl_mono now) {
    bool idle = tl__conn_idle(conn);
    tl__conn_enqueue(conn, slot);
    if (!idle || conn->held || conn->limits.patience_ms > 0)
        return;
    conn->stale = is_stale(conn, now);
    conn->broken = !conn->stale && !write_slots(conn);
}

void tl__conn_hold(tl_conn *conn) {
    conn->held = true;
}

void tl__conn_write(tl_conn *conn, tl_mono now) {
    conn->held = false;
    if (!tl__conn_up(conn) || !tl__conn_has_to_write(conn))
        return;
    conn->stale = conn->stale || is_stale(conn, now);
    conn->broken = !conn->stale && !write_slots(conn);
}

static tl_raised *raised_set(tl_conn *conn, tl_slot_tag slot) {
    unsigned char a = (unsigned char)slot.text[0], b = (unsigned char)slot.text[1],
                  d = (unsigned char)slot.text[2];
    return conn->raised[GUARD(raised_by_slot) * (a * 31U + b * 7U + d) % TL_RAISED_SETS];
}

/* NULL: not known to have been raised. */
static const tl_raised *raised_at(tl_conn *conn, tl_slot_tag slot) {
    const tl_raised *set = raised_set(conn, slot);
    for (int i = 0; i < TL_RAISED_WAYS; i++)
        if (memcmp(set[i].slot.text, slot.text, sizeof slot.text) == 0 || !GUARD(raised_by_slot))
            return &set[i];
    return NULL;
}

/* Replaces the entry of this slot, else the oldest entry of the set. */
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

static const tl_raised *goes_native(tl_conn *conn, const tl_send *send, tl_mono now) {
    const tl_raised *r = send->native > 0 && tl__conn_up(conn) ? raised_at(conn, send->slot) : NULL;
    return r && lately(r->at, now) ? r : NULL;
}

/* Is there no room for more requests? A hold ends without its renewal, but any other request can wait. */
static bool is_full(const tl_conn *conn, bool keeps) {
    return conn->slots.count >= (keeps && GUARD(renewal_has_room) ? KEEPS_MAX : QUEUE_MAX);
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
    if (!closes && !confirms && is_full(conn, send->keeps)) /* these two don't wait in the queue */
        return TL_EUNAVAILABLE;
    const tl_raised *raised = goes_native(conn, send, now);
    bool native = raised != NULL;
    tl_slot *slot = make_slot(conn, send->command + (native ? send->count : 0),
                              native ? send->native : send->count, send->asking, send->by, now);
    if (!slot)
        return TL_ENOMEM;
    slot->native = native;
    slot->raised = native && GUARD(window_to_the_answer) ? raised->at : now;
    slot->here = native || send->here;
    slot->cookie = cookie;
    slot->ticket = send->ticket;
    slot->pin = send->pin;
    slot->generation = send->generation;
    if (confirms) {
        slot->confirms = true;
        slot->adopted = send->adopted;
        tl__conn_await_name(conn, slot);
        return TL_OK;
    }
    if (!closes) {
        submit(conn, slot, now);
        return TL_OK;
    }
    put_first(conn, slot);
    conn->pinned = NULL;
    return TL_OK;
}

void tl__conn_forget(tl_conn *conn, const void *cookie) {
    tl_slot *slot = conn->slots.head, *before = NULL;
    while (slot) {
        tl_slot *next = slot->next;
        if (slot->cookie == cookie && tl__slot_unsent(slot)) {
            tl__slot_free(&conn->slots, tl__slots_cut(&conn->slots, before));
        } else {
            slot->given_up = slot->given_up || slot->cookie == cookie;
            before = slot;
        }
        slot = next;
    }
    if (GUARD(forgotten_while_naming))
        tl__conn_forget_naming(conn, cookie);
}

tl_err tl__conn_say(tl_conn *conn, const tl_command *command, tl_mono now) {
    bool fits = !conn->freeing && !is_full(conn, false);
    tl_slot *slot = fits ? make_slot(conn, command, 1, false, TL_NEVER, now) : NULL;
    if (!slot)
        return TL_ENOMEM;
    slot->quiet = true;
    submit(conn, slot, now);
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

static void begin(tl_conn *conn, tl_mono now) {
    if (!conn->codec->lead(conn))
        return;
    conn->login = malloc(sizeof *conn->login);
    tl_err why = conn->login ? conn->codec->begin(conn) : TL_ENOMEM;
    if (why) {
        tl__conn_lose_at_place(
            conn, why, why == TL_ENOMEM ? "out of memory" : "user and password are too long");
        return;
    }
    int64_t limit_ms = (conn->limits.connect_ms + conn->others) / (conn->others + 1);
    conn->login_by = tl__mono_add_ms(now, limit_ms);
    conn->state = TL_CONN_OPENING;
    tl__stream_open(&conn->stream, now, limit_ms);
}

static void drive_opening(tl_conn *conn, tl_mono now) {
    tl__stream_drive(&conn->stream, now);
    if (conn->stream.state == TL_STREAM_FAILED)
        tl__conn_lose_stream(conn);
    else if (conn->stream.state == TL_STREAM_OPEN)
        conn->state = TL_CONN_LOGIN;
    if (conn->state == TL_CONN_LOGIN && conn->login->steps == 0)
        come_up(conn, now);
}

static void drive_login(tl_conn *conn, tl_mono now) {
    if (!tl__login_write(conn->login, &conn->stream))
        tl__conn_lose_stream(conn);
    else if (read_replies(conn) && conn->state == TL_CONN_LOGIN &&
             !tl__mono_before(now, tl__conn_login_until(conn)))
        tl__conn_lose_late(conn, "no reply to the login",
                           tl__mono_before(now, conn->login_by)
                               ? tl__ms_until(conn->login->sent, now)
                               : conn->limits.connect_ms);
}

/* `writes`: write the queued requests, too. */
static void drive(tl_conn *conn, tl_mono now, bool writes) {
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
    if (conn->state == TL_CONN_UP && (conn->broken || (writes && !write_slots(conn))))
        tl__conn_lose_stream(conn);
    if (conn->leaving)
        tl__conn_leave(conn);
    if (!conn->stale)
        tl__conn_answer_reached(conn);
    tl__conn_drive_naming(conn);
    tl__conn_expire(conn, now);
}

void tl__conn_drive(tl_conn *conn, tl_mono now) {
    drive(conn, now, true);
}

void tl__conn_read(tl_conn *conn, tl_mono now) {
    drive(conn, now, false);
}

int tl__conn_fd(const tl_conn *conn) {
    return conn->state == TL_CONN_DOWN ? -1 : tl__stream_fd(&conn->stream);
}

short tl__conn_events(const tl_conn *conn) {
    if (conn->state == TL_CONN_DOWN)
        return 0;
    bool writing = conn->state == TL_CONN_LOGIN ? conn->login->done < conn->login->size
                                                : tl__conn_has_to_write(conn);
    if (conn->state == TL_CONN_UP && conn->codec->has_output)
        writing = writing || conn->codec->has_output(conn);
    return tl__stream_events(&conn->stream, writing);
}

/* Leaves out the requests that wait for the master's confirmation. */
static tl_mono until(const tl_conn *conn) {
    switch (conn->state) {
    case TL_CONN_DOWN:
        return conn->slots.head ? tl__mono_min(conn->retry_at, conn->soonest) : TL_NEVER;
    case TL_CONN_OPENING:
        return tl__mono_min(tl__stream_until(&conn->stream), tl__conn_led_until(conn));
    case TL_CONN_LOGIN: return tl__mono_min(tl__conn_login_until(conn), tl__conn_led_until(conn));
    default: return conn->soonest;
    }
}

tl_mono tl__conn_until(const tl_conn *conn) {
    const tl_mono at_once = {0};
    if (conn->broken || conn->more || conn->stale || has_reached(conn))
        return at_once;
    return tl__mono_min(until(conn), tl__conn_naming_until(conn));
}
