/*
 * Wake-ups: the common part, and subscriptions over one connection to a Redis server. Each command on it gets
 * exactly one reply, in order. So the replies are counted, and the reply to an earlier subscription is never
 * taken for that of a later one to the same topic.
 */
#include <stdlib.h>

#include "transport/wakeup_inside.h"

#define SILENCE_MS 10000  /* after so long without a message: PING */
#define IDLE_MS 30000     /* after so long without a topic: close */
#define ASKED_FIRST 64    /* room for replies outstanding at first; a power of two */
#define ASKED_MAX 1048576 /* with so many outstanding, the server is too far behind */

/* ---- the common part --------------------------------------------------------------------------- */

tl_wakeup *tl__wakeup_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                          int64_t attempt_ms, const tl_wakeup_calls *calls) {
    tl_wakeup *wakeup = calloc(1, sizeof *wakeup);
    if (!wakeup)
        return NULL;
    wakeup->row = tl__codec_of(limits)->watches ? &tl__wakeup_watches : &tl__wakeup_subscribes;
    wakeup->calls = *calls;
    wakeup->attempt_ms = attempt_ms;
    wakeup->topics.seed = tl__random_seed();
    if (wakeup->row->make(wakeup, endpoint, limits))
        return wakeup;
    free(wakeup);
    return NULL;
}

void tl__wakeup_free(tl_wakeup *wakeup) {
    if (!wakeup)
        return;
    wakeup->row->end(wakeup);
    tl__topics_clear(&wakeup->topics);
    free(wakeup);
}

void tl__wakeup_report(tl_wakeup *wakeup, tl_topic *topic, bool armed) {
    topic->reported = armed ? TL_REPORTED_ARMED : TL_REPORTED_UNARMED;
    if (wakeup->calls.armed)
        wakeup->calls.armed(wakeup->calls.ctx, topic->name, armed);
}

void tl__wakeup_lose(tl_wakeup *wakeup) {
    tl_topic *topic;
    tl__topics_begin(&wakeup->topics);
    while ((topic = tl__topics_walk(&wakeup->topics)))
        if (topic->reported != TL_REPORTED_UNARMED)
            tl__wakeup_report(wakeup, topic, false);
}

tl_err tl__wakeup_listen(tl_wakeup *wakeup, tl_bytes name, tl_mono now) {
    tl_topic *topic = tl__topics_find(&wakeup->topics, name);
    if (name.n > TL_TOPIC_MAX)
        return TL_EINVALID;
    if (!topic)
        topic = tl__topics_add(&wakeup->topics, name);
    if (!topic)
        return TL_ENOMEM;
    topic->listeners++;
    if (wakeup->row->listen(wakeup, topic, now))
        return TL_OK;
    tl__topics_remove(&wakeup->topics, topic);
    return TL_ENOMEM;
}

void tl__wakeup_seen(tl_wakeup *wakeup, tl_bytes name, int64_t revision, tl_mono now) {
    if (wakeup->row->seen)
        wakeup->row->seen(wakeup, name, revision, now);
}

bool tl__wakeup_listens(const tl_wakeup *wakeup) {
    return wakeup->topics.count > 0;
}

void tl__wakeup_forget(tl_wakeup *wakeup, tl_bytes name, tl_mono now) {
    tl_topic *topic = tl__topics_find(&wakeup->topics, name);
    if (!topic || --topic->listeners > 0)
        return;
    if (wakeup->row->forget)
        wakeup->row->forget(wakeup, topic, now);
    tl__topics_remove(&wakeup->topics, topic);
}

int64_t tl__wakeup_id(const tl_wakeup *wakeup) {
    return wakeup->row->id ? wakeup->row->id(wakeup) : 0;
}

uint64_t tl__wakeup_run(const tl_wakeup *wakeup) {
    return wakeup->row->run ? wakeup->row->run(wakeup) : 0;
}

void tl__wakeup_leave(tl_wakeup *wakeup) {
    wakeup->leaving = tl__wakeup_up(wakeup);
}

bool tl__wakeup_up(const tl_wakeup *wakeup) {
    return wakeup->row->up(wakeup);
}

int tl__wakeup_fd(const tl_wakeup *wakeup) {
    return wakeup->row->fd(wakeup);
}

short tl__wakeup_events(const tl_wakeup *wakeup) {
    return wakeup->row->events(wakeup);
}

tl_mono tl__wakeup_until(const tl_wakeup *wakeup) {
    return wakeup->row->until(wakeup);
}

void tl__wakeup_drive(tl_wakeup *wakeup, tl_mono now) {
    wakeup->row->drive(wakeup, now);
}

/* ---- sending ----------------------------------------------------------------------------------- */

static bool asked_room(tl_wakeup *wakeup) {
    if (wakeup->said - wakeup->answered < wakeup->asked_size)
        return true;
    size_t size = wakeup->asked_size ? wakeup->asked_size * 2 : ASKED_FIRST;
    tl_topic **asked = size <= ASKED_MAX ? calloc(size, sizeof(tl_topic *)) : NULL;
    if (!asked)
        return false;
    for (uint64_t i = wakeup->answered + 1; i <= wakeup->said; i++)
        asked[i & (size - 1)] = wakeup->asked[i & (wakeup->asked_size - 1)];
    free(wakeup->asked);
    wakeup->asked = asked;
    wakeup->asked_size = size;
    return true;
}

/* Send a command that has a reply; topic: the one that waits for it. */
static bool say(tl_wakeup *wakeup, const char *name, const tl_bytes *argument, tl_topic *topic,
                tl_mono now) {
    tl_command c = {.form = TL_ARGV, .argc = 1, .argv = {tl__bytes_of(name)}};
    if (argument)
        c.argv[c.argc++] = *argument;
    if (!asked_room(wakeup) || tl__conn_say(wakeup->conn, &c, now) != TL_OK)
        return false;
    if (wakeup->said++ == wakeup->answered)
        wakeup->heard = now;
    wakeup->asked[wakeup->said & (wakeup->asked_size - 1)] = topic;
    return true;
}

static bool subscribe(tl_wakeup *wakeup, tl_topic *topic, tl_mono now) {
    if (!say(wakeup, "SUBSCRIBE", &topic->name, topic, now))
        return false;
    topic->asked = wakeup->said;
    return true;
}

/* Have a connection made: without one, only this command is queued. */
static bool knock(tl_wakeup *wakeup, tl_mono now) {
    if (!wakeup->knocking)
        wakeup->knocking = say(wakeup, "PING", NULL, NULL, now);
    return wakeup->knocking;
}

/* ---- receiving --------------------------------------------------------------------------------- */

static void on_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_wakeup *wakeup = ctx;
    tl_topic *topic;
    (void)bracket, (void)now;
    wakeup->knocking = false;
    wakeup->heard = wakeup->now;
    tl__topics_begin(&wakeup->topics);
    while ((topic = tl__topics_walk(&wakeup->topics)))
        if (!subscribe(wakeup, topic, wakeup->now) && topic->reported != TL_REPORTED_UNARMED)
            tl__wakeup_report(wakeup, topic, false);
}

static void on_down(void *ctx, tl_bytes message) {
    tl_wakeup *wakeup = ctx;
    (void)message;
    wakeup->said = wakeup->answered = 0;
    wakeup->knocking = wakeup->confused = wakeup->leaving = false;
    for (tl_topic *topic = wakeup->topics.first; topic; topic = topic->next)
        topic->asked = 0;
    tl__wakeup_lose(wakeup);
    if (wakeup->topics.count > 0)
        (void)knock(wakeup, wakeup->now);
}

/* Count the reply to the oldest command that has none; returns its topic, if that is still wanted. */
static tl_topic *answered(tl_wakeup *wakeup) {
    if (wakeup->answered == wakeup->said) {
        wakeup->confused = true;
        return NULL;
    }
    wakeup->answered++;
    return wakeup->asked[wakeup->answered & (wakeup->asked_size - 1)];
}

static void on_changes(tl_wakeup *wakeup, const tl_reply *keys) {
    tl_bytes key;
    if (keys->type == TL_REPLY_NIL)
        wakeup->calls.changed(wakeup->calls.ctx, (tl_bytes){0});
    for (size_t i = 0; i < keys->count; i++)
        if (tl__reply_text(&keys->items[i], &key) && key.n > 0)
            wakeup->calls.changed(wakeup->calls.ctx, key);
}

static void on_message(tl_wakeup *wakeup, const tl_reply *message) {
    const tl_reply *about = tl__reply_item(message, 2);
    tl_bytes name, payload;
    if (wakeup->calls.changed && about->type != TL_REPLY_STRING &&
        tl__reply_text(tl__reply_item(message, 1), &name) && tl__bytes_eq(name, TL_TOPIC_CHANGES)) {
        on_changes(wakeup, about);
        return;
    }
    if (!tl__reply_text(tl__reply_item(message, 1), &name) ||
        !tl__reply_text(tl__reply_item(message, 2), &payload)) {
        wakeup->confused = true;
        return;
    }
    tl_topic *topic = tl__topics_find(&wakeup->topics, name);
    if (topic)
        wakeup->calls.woken(wakeup->calls.ctx, topic->name, payload);
}

static void on_subscribed(tl_wakeup *wakeup, const tl_reply *reply) {
    tl_topic *topic = answered(wakeup);
    tl_bytes name;
    if (!topic)
        return;
    if (tl__reply_text(tl__reply_item(reply, 1), &name) && tl__bytes_eq(name, topic->name))
        tl__wakeup_report(wakeup, topic, true);
    else
        wakeup->confused = true;
}

static void on_refused(tl_wakeup *wakeup) {
    tl_topic *topic = answered(wakeup);
    if (topic && topic->reported != TL_REPORTED_UNARMED)
        tl__wakeup_report(wakeup, topic, false);
}

static void on_push(void *ctx, const tl_reply *reply) {
    tl_wakeup *wakeup = ctx;
    tl_bytes kind;
    wakeup->heard = wakeup->now;
    if (wakeup->confused)
        return;
    if (reply->type == TL_REPLY_ERROR)
        on_refused(wakeup);
    else if (reply->type != TL_REPLY_ARRAY)
        (void)answered(wakeup); /* a PONG outside of subscriber mode */
    else if (!tl__reply_text(tl__reply_item(reply, 0), &kind))
        wakeup->confused = true;
    else if (tl__bytes_eq(kind, TL_LITERAL("message")))
        on_message(wakeup, reply);
    else if (tl__bytes_eq(kind, TL_LITERAL("subscribe")))
        on_subscribed(wakeup, reply);
    else
        (void)answered(wakeup); /* unsubscribe, pong */
}

/* ---- life and topics --------------------------------------------------------------------------- */

static bool make(tl_wakeup *wakeup, const tl_endpoint *endpoint, const tl_conn_limits *limits) {
    tl_conn_calls mine = {.up = on_up, .down = on_down, .push = on_push, .ctx = wakeup};
    tl_conn_limits subscriber = *limits;
    subscriber.subscriber = true;
    wakeup->conn = tl__conn_new(endpoint, &subscriber, &mine);
    return wakeup->conn != NULL;
}

static void end(tl_wakeup *wakeup) {
    tl__conn_free(wakeup->conn);
    free(wakeup->asked);
}

static bool add(tl_wakeup *wakeup, tl_topic *topic, tl_mono now) {
    if (topic->listeners == 1)
        return tl__conn_up(wakeup->conn) ? subscribe(wakeup, topic, now) : knock(wakeup, now);
    if (topic->reported != TL_UNREPORTED)
        tl__wakeup_report(wakeup, topic, topic->reported == TL_REPORTED_ARMED);
    return true;
}

/* If the UNSUBSCRIBE can't be sent, the topic's messages are ignored. */
static void forget(tl_wakeup *wakeup, const tl_topic *topic, tl_mono now) {
    if (topic->asked > wakeup->answered)
        wakeup->asked[topic->asked & (wakeup->asked_size - 1)] = NULL;
    if (topic->asked > 0)
        (void)say(wakeup, "UNSUBSCRIBE", &topic->name, NULL, now);
    if (wakeup->topics.count == 1)
        wakeup->empty = now;
}

/* ---- driving ----------------------------------------------------------------------------------- */

static tl_mono close_at(const tl_wakeup *wakeup) {
    return wakeup->topics.count > 0 || tl__conn_fd(wakeup->conn) < 0
               ? TL_NEVER
               : tl__mono_add_ms(wakeup->empty, IDLE_MS);
}

/* When to act on silence: a reply is overdue, or it is time to request one. */
static tl_mono silent_at(const tl_wakeup *wakeup) {
    if (!tl__conn_up(wakeup->conn))
        return TL_NEVER;
    return tl__mono_add_ms(wakeup->heard,
                           wakeup->said > wakeup->answered ? wakeup->attempt_ms : SILENCE_MS);
}

static void drive(tl_wakeup *wakeup, tl_mono now) {
    wakeup->now = now;
    tl__conn_drive(wakeup->conn, now);
    if (wakeup->confused)
        tl__conn_close(wakeup->conn, "a malformed message to a subscriber", now);
    else if (wakeup->leaving)
        tl__conn_close(wakeup->conn, "another server sends the notifications now", now);
    else if (!tl__mono_before(now, close_at(wakeup)))
        tl__conn_close(wakeup->conn, "no longer needed", now);
    else if (tl__mono_before(now, silent_at(wakeup)))
        return;
    else if (wakeup->said > wakeup->answered || !say(wakeup, "PING", NULL, NULL, now))
        tl__conn_close(wakeup->conn, "the server is silent", now);
}

static int64_t id(const tl_wakeup *wakeup) {
    return tl__conn_id(wakeup->conn);
}

static uint64_t run(const tl_wakeup *wakeup) {
    return tl__conn_run(wakeup->conn);
}

static bool is_up(const tl_wakeup *wakeup) {
    return tl__conn_up(wakeup->conn);
}

static int fd(const tl_wakeup *wakeup) {
    return tl__conn_fd(wakeup->conn);
}

static short events(const tl_wakeup *wakeup) {
    return tl__conn_events(wakeup->conn);
}

static tl_mono until(const tl_wakeup *wakeup) {
    const tl_mono at_once = {0};
    if (wakeup->confused || wakeup->leaving)
        return at_once;
    return tl__mono_min(tl__mono_min(close_at(wakeup), silent_at(wakeup)),
                        tl__conn_until(wakeup->conn));
}

const tl_wakeup_row tl__wakeup_subscribes = {
    .make = make,
    .end = end,
    .listen = add,
    .forget = forget,
    .id = id,
    .run = run,
    .up = is_up,
    .fd = fd,
    .events = events,
    .until = until,
    .drive = drive,
};
