/*
 * Wake-ups: what all ways have in common, and subscriptions over one connection to a Redis server. Each command that is
 * said there gets exactly one reply, in order: so the replies are counted, and an answer to a former subscription is never
 * taken for one to a later of the same topic.
 */
#include <stdlib.h>

#include "transport/wakeup_inside.h"

#define SILENCE_MS 10000  /* then PING */
#define IDLE_MS 30000     /* without a topic: then close */
#define ASKED_FIRST 64    /* replies outstanding; a power of two */
#define ASKED_MAX 1048576 /* a server so far behind is of no use */

/* ---- all ways ---------------------------------------------------------------------------------- */

tl_wakeup *tl__wakeup_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                          int64_t attempt_ms, const tl_wakeup_calls *calls) {
    tl_wakeup *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->row = tl__codec_of(limits)->watches ? &tl__wakeup_watches : &tl__wakeup_subscribes;
    w->calls = *calls;
    w->attempt_ms = attempt_ms;
    w->topics.seed = tl__random_seed();
    if (w->row->make(w, endpoint, limits))
        return w;
    free(w);
    return NULL;
}

void tl__wakeup_free(tl_wakeup *wakeup) {
    if (!wakeup)
        return;
    wakeup->row->end(wakeup);
    tl__topics_clear(&wakeup->topics);
    free(wakeup);
}

void tl__wakeup_tell(tl_wakeup *wakeup, tl_topic *topic, bool armed) {
    topic->told = armed ? TL_TOLD_ARMED : TL_TOLD_NOT;
    if (wakeup->calls.armed)
        wakeup->calls.armed(wakeup->calls.ctx, topic->name, armed);
}

void tl__wakeup_lose(tl_wakeup *wakeup) {
    tl_topic *topic;
    tl__topics_begin(&wakeup->topics);
    while ((topic = tl__topics_walk(&wakeup->topics)))
        if (topic->told != TL_TOLD_NOT)
            tl__wakeup_tell(wakeup, topic, false);
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

/* ---- saying ------------------------------------------------------------------------------------ */

static bool asked_room(tl_wakeup *w) {
    if (w->said - w->answered < w->asked_size)
        return true;
    size_t size = w->asked_size ? w->asked_size * 2 : ASKED_FIRST;
    tl_topic **asked = size <= ASKED_MAX ? calloc(size, sizeof(tl_topic *)) : NULL;
    if (!asked)
        return false;
    for (uint64_t i = w->answered + 1; i <= w->said; i++)
        asked[i & (size - 1)] = w->asked[i & (w->asked_size - 1)];
    free(w->asked);
    w->asked = asked;
    w->asked_size = size;
    return true;
}

/* Say a command, whose reply is expected; topic: the one that waits for it. */
static bool say(tl_wakeup *w, const char *name, const tl_bytes *argument, tl_topic *topic,
                tl_mono now) {
    tl_command c = {.form = TL_ARGV, .argc = 1, .argv = {tl__bytes_of(name)}};
    if (argument)
        c.argv[c.argc++] = *argument;
    if (!asked_room(w) || tl__conn_say(w->conn, &c, now) != TL_OK)
        return false;
    if (w->said++ == w->answered)
        w->heard = now;
    w->asked[w->said & (w->asked_size - 1)] = topic;
    return true;
}

static bool subscribe(tl_wakeup *w, tl_topic *topic, tl_mono now) {
    if (!say(w, "SUBSCRIBE", &topic->name, topic, now))
        return false;
    topic->asked = w->said;
    return true;
}

/* While there is no connection nothing is said but this, which has one made. */
static bool knock(tl_wakeup *w, tl_mono now) {
    if (!w->knocking)
        w->knocking = say(w, "PING", NULL, NULL, now);
    return w->knocking;
}

/* ---- telling ----------------------------------------------------------------------------------- */

static void on_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_wakeup *w = ctx;
    tl_topic *topic;
    (void)bracket, (void)now;
    w->knocking = false;
    w->heard = w->now;
    tl__topics_begin(&w->topics);
    while ((topic = tl__topics_walk(&w->topics)))
        if (!subscribe(w, topic, w->now) && topic->told != TL_TOLD_NOT)
            tl__wakeup_tell(w, topic, false);
}

static void on_down(void *ctx, tl_bytes words) {
    tl_wakeup *w = ctx;
    (void)words;
    w->said = w->answered = 0;
    w->knocking = w->confused = w->leaving = false;
    for (tl_topic *topic = w->topics.first; topic; topic = topic->next)
        topic->asked = 0;
    tl__wakeup_lose(w);
    if (w->topics.count > 0)
        (void)knock(w, w->now);
}

/* The reply to the oldest command that has none: returns its topic, if that is still wanted. */
static tl_topic *answered(tl_wakeup *w) {
    if (w->answered == w->said) {
        w->confused = true;
        return NULL;
    }
    w->answered++;
    return w->asked[w->answered & (w->asked_size - 1)];
}

static void on_changes(tl_wakeup *w, const tl_reply *keys) {
    tl_bytes key;
    if (keys->type == TL_REPLY_NIL)
        w->calls.changed(w->calls.ctx, (tl_bytes){0});
    for (size_t i = 0; i < keys->count; i++)
        if (tl__reply_text(&keys->items[i], &key) && key.n > 0)
            w->calls.changed(w->calls.ctx, key);
}

static void on_message(tl_wakeup *w, const tl_reply *message) {
    const tl_reply *about = tl__reply_item(message, 2);
    tl_bytes name, payload;
    if (w->calls.changed && about->type != TL_REPLY_STRING &&
        tl__reply_text(tl__reply_item(message, 1), &name) && tl__bytes_eq(name, TL_TOPIC_CHANGES)) {
        on_changes(w, about);
        return;
    }
    if (!tl__reply_text(tl__reply_item(message, 1), &name) ||
        !tl__reply_text(tl__reply_item(message, 2), &payload)) {
        w->confused = true;
        return;
    }
    tl_topic *topic = tl__topics_find(&w->topics, name);
    if (topic)
        w->calls.woken(w->calls.ctx, topic->name, payload);
}

static void on_subscribed(tl_wakeup *w, const tl_reply *reply) {
    tl_topic *topic = answered(w);
    tl_bytes name;
    if (!topic)
        return;
    if (tl__reply_text(tl__reply_item(reply, 1), &name) && tl__bytes_eq(name, topic->name))
        tl__wakeup_tell(w, topic, true);
    else
        w->confused = true;
}

static void on_refused(tl_wakeup *w) {
    tl_topic *topic = answered(w);
    if (topic && topic->told != TL_TOLD_NOT)
        tl__wakeup_tell(w, topic, false);
}

static void on_push(void *ctx, const tl_reply *reply) {
    tl_wakeup *w = ctx;
    tl_bytes kind;
    w->heard = w->now;
    if (w->confused)
        return;
    if (reply->type == TL_REPLY_ERROR)
        on_refused(w);
    else if (reply->type != TL_REPLY_ARRAY)
        (void)answered(w); /* a PONG outside of subscriber mode */
    else if (!tl__reply_text(tl__reply_item(reply, 0), &kind))
        w->confused = true;
    else if (tl__bytes_eq(kind, TL_LITERAL("message")))
        on_message(w, reply);
    else if (tl__bytes_eq(kind, TL_LITERAL("subscribe")))
        on_subscribed(w, reply);
    else
        (void)answered(w); /* unsubscribe, pong */
}

/* ---- life and topics --------------------------------------------------------------------------- */

static bool make(tl_wakeup *w, const tl_endpoint *endpoint, const tl_conn_limits *limits) {
    tl_conn_calls mine = {.up = on_up, .down = on_down, .push = on_push, .ctx = w};
    tl_conn_limits subscriber = *limits;
    subscriber.subscriber = true;
    w->conn = tl__conn_new(endpoint, &subscriber, &mine);
    return w->conn != NULL;
}

static void end(tl_wakeup *w) {
    tl__conn_free(w->conn);
    free(w->asked);
}

static bool add(tl_wakeup *w, tl_topic *topic, tl_mono now) {
    if (topic->listeners == 1)
        return tl__conn_up(w->conn) ? subscribe(w, topic, now) : knock(w, now);
    if (topic->told != TL_UNTOLD)
        tl__wakeup_tell(w, topic, topic->told == TL_TOLD_ARMED);
    return true;
}

/* Should it not be said, the topic's messages find nobody. */
static void forget(tl_wakeup *w, const tl_topic *topic, tl_mono now) {
    if (topic->asked > w->answered)
        w->asked[topic->asked & (w->asked_size - 1)] = NULL;
    if (topic->asked > 0)
        (void)say(w, "UNSUBSCRIBE", &topic->name, NULL, now);
    if (w->topics.count == 1)
        w->empty = now;
}

/* ---- driving ----------------------------------------------------------------------------------- */

static tl_mono close_at(const tl_wakeup *w) {
    return w->topics.count > 0 || tl__conn_fd(w->conn) < 0 ? TL_NEVER
                                                           : tl__mono_add_ms(w->empty, IDLE_MS);
}

/* When silence means something: a reply is overdue, or it is time to ask for one. */
static tl_mono silent_at(const tl_wakeup *w) {
    if (!tl__conn_up(w->conn))
        return TL_NEVER;
    return tl__mono_add_ms(w->heard, w->said > w->answered ? w->attempt_ms : SILENCE_MS);
}

static void drive(tl_wakeup *w, tl_mono now) {
    w->now = now;
    tl__conn_drive(w->conn, now);
    if (w->confused)
        tl__conn_close(w->conn, "a malformed message to a subscriber", now);
    else if (w->leaving)
        tl__conn_close(w->conn, "another server is the one to listen to", now);
    else if (!tl__mono_before(now, close_at(w)))
        tl__conn_close(w->conn, "not needed", now);
    else if (tl__mono_before(now, silent_at(w)))
        return;
    else if (w->said > w->answered || !say(w, "PING", NULL, NULL, now))
        tl__conn_close(w->conn, "the server is silent", now);
}

static int64_t id(const tl_wakeup *w) {
    return tl__conn_id(w->conn);
}

static uint64_t run(const tl_wakeup *w) {
    return tl__conn_run(w->conn);
}

static bool is_up(const tl_wakeup *w) {
    return tl__conn_up(w->conn);
}

static int fd(const tl_wakeup *w) {
    return tl__conn_fd(w->conn);
}

static short events(const tl_wakeup *w) {
    return tl__conn_events(w->conn);
}

static tl_mono until(const tl_wakeup *w) {
    const tl_mono at_once = {0};
    if (w->confused || w->leaving)
        return at_once;
    return tl__mono_min(tl__mono_min(close_at(w), silent_at(w)), tl__conn_until(w->conn));
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
