/*
 * Subscriptions over one connection. Each command that is said gets exactly one reply, in
 * order: so the replies are counted, and an answer to a former subscription is never taken for one
 * to a later of the same topic.
 */
#include "transport/wakeup.h"

#include <stdlib.h>

#include "transport/topics.h"
#include "transport/watch.h"

#define SILENCE_MS 10000  /* then PING */
#define IDLE_MS 30000     /* without a topic: then close */
#define ASKED_FIRST 64    /* replies outstanding; a power of two */
#define ASKED_MAX 1048576 /* a server so far behind is of no use */

struct tl_wakeup {
    tl_wakeup_calls calls;
    int64_t attempt_ms;
    tl_watch *watch; /* of an etcd, which does all of it; NULL: of Redis */
    tl_conn *conn;
    tl_topics topics;
    /* Commands said on this connection are numbered from 1; of those from `answered` + 1 to `said`
     * the reply has not come yet. asked[number % asked_size]: the topic of a SUBSCRIBE, while it is
     * still wanted, else NULL. */
    uint64_t said, answered;
    tl_topic **asked;
    size_t asked_size;
    bool knocking; /* a connection is being made */
    bool confused; /* a reply made no sense; the next drive closes */
    bool leaving;  /* another server is the one to listen to; so it does then */
    tl_mono now;   /* of the present drive */
    tl_mono heard; /* when something came last, or began to be waited for */
    tl_mono empty; /* since when there is no topic */
};

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

static void tell(tl_wakeup *w, tl_topic *topic, bool armed) {
    topic->told = armed ? TL_TOLD_ARMED : TL_TOLD_NOT;
    w->calls.armed(w->calls.ctx, topic->name, armed);
}

static void on_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_wakeup *w = ctx;
    tl_topic *topic;
    (void)bracket, (void)now;
    w->knocking = false;
    w->heard = w->now;
    tl__topics_begin(&w->topics);
    while ((topic = tl__topics_walk(&w->topics)))
        if (!subscribe(w, topic, w->now) && topic->told != TL_TOLD_NOT)
            tell(w, topic, false);
}

static void on_down(void *ctx, tl_bytes words) {
    tl_wakeup *w = ctx;
    tl_topic *topic;
    (void)words;
    w->said = w->answered = 0;
    w->knocking = w->confused = w->leaving = false;
    for (topic = w->topics.first; topic; topic = topic->next)
        topic->asked = 0;
    tl__topics_begin(&w->topics);
    while ((topic = tl__topics_walk(&w->topics)))
        if (topic->told != TL_TOLD_NOT)
            tell(w, topic, false);
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
        tell(w, topic, true);
    else
        w->confused = true;
}

static void on_refused(tl_wakeup *w) {
    tl_topic *topic = answered(w);
    if (topic && topic->told != TL_TOLD_NOT)
        tell(w, topic, false);
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

/* ---- life -------------------------------------------------------------------------------------- */

tl_wakeup *tl__wakeup_new(const tl_endpoint *endpoint, const tl_conn_limits *limits,
                          int64_t attempt_ms, const tl_wakeup_calls *calls) {
    tl_wakeup *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    if (limits->members) {
        w->watch = tl__watch_new(limits, calls);
        if (w->watch)
            return w;
        free(w);
        return NULL;
    }
    tl_conn_calls mine = {.up = on_up, .down = on_down, .push = on_push, .ctx = w};
    tl_conn_limits subscriber = {.site = limits->site,
                                 .connect_ms = limits->connect_ms,
                                 .no_time = limits->no_time,
                                 .ask_run = limits->ask_run,
                                 .ask_id = limits->ask_id,
                                 .subscriber = true};
    w->calls = *calls;
    w->attempt_ms = attempt_ms;
    w->topics.seed = tl__random_seed();
    w->conn = tl__conn_new(endpoint, &subscriber, &mine);
    if (w->conn)
        return w;
    free(w);
    return NULL;
}

void tl__wakeup_free(tl_wakeup *wakeup) {
    if (!wakeup)
        return;
    tl__watch_free(wakeup->watch);
    tl__conn_free(wakeup->conn);
    tl__topics_clear(&wakeup->topics);
    free(wakeup->asked);
    free(wakeup);
}

/* ---- topics ------------------------------------------------------------------------------------ */

static tl_err listen_first(tl_wakeup *w, tl_bytes name, tl_mono now) {
    tl_topic *topic = name.n <= TL_TOPIC_MAX ? tl__topics_add(&w->topics, name) : NULL;
    if (!topic)
        return name.n <= TL_TOPIC_MAX ? TL_ENOMEM : TL_EINVALID;
    topic->listeners = 1;
    if (tl__conn_up(w->conn) ? subscribe(w, topic, now) : knock(w, now))
        return TL_OK;
    tl__topics_remove(&w->topics, topic);
    return TL_ENOMEM;
}

tl_err tl__wakeup_listen(tl_wakeup *wakeup, tl_bytes name, tl_mono now) {
    if (wakeup->watch)
        return tl__watch_listen(wakeup->watch, name, now);
    tl_topic *topic = tl__topics_find(&wakeup->topics, name);
    if (!topic)
        return listen_first(wakeup, name, now);
    topic->listeners++;
    if (topic->told != TL_UNTOLD)
        tell(wakeup, topic, topic->told == TL_TOLD_ARMED);
    return TL_OK;
}

void tl__wakeup_seen(tl_wakeup *wakeup, tl_bytes name, int64_t revision, tl_mono now) {
    if (wakeup->watch)
        tl__watch_seen(wakeup->watch, name, revision, now);
}

bool tl__wakeup_listens(const tl_wakeup *wakeup) {
    return wakeup->watch ? tl__watch_listens(wakeup->watch) : wakeup->topics.count > 0;
}

void tl__wakeup_forget(tl_wakeup *wakeup, tl_bytes name, tl_mono now) {
    tl_wakeup *w = wakeup;
    if (w->watch) {
        tl__watch_forget(w->watch, name);
        return;
    }
    tl_topic *topic = tl__topics_find(&w->topics, name);
    if (!topic || --topic->listeners > 0)
        return;
    bool asked = topic->asked > 0;
    if (topic->asked > w->answered)
        w->asked[topic->asked & (w->asked_size - 1)] = NULL;
    /* Should it not be said, the topic's messages find nobody. */
    if (asked)
        (void)say(w, "UNSUBSCRIBE", &topic->name, NULL, now);
    tl__topics_remove(&w->topics, topic);
    if (w->topics.count == 0)
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

void tl__wakeup_drive(tl_wakeup *wakeup, tl_mono now) {
    tl_wakeup *w = wakeup;
    if (w->watch) {
        tl__watch_drive(w->watch, now);
        return;
    }
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

int64_t tl__wakeup_id(const tl_wakeup *wakeup) {
    return wakeup->watch ? 0 : tl__conn_id(wakeup->conn);
}

uint64_t tl__wakeup_run(const tl_wakeup *wakeup) {
    return wakeup->watch ? 0 : tl__conn_run(wakeup->conn);
}

void tl__wakeup_leave(tl_wakeup *wakeup) {
    wakeup->leaving = !wakeup->watch && tl__conn_up(wakeup->conn);
}

bool tl__wakeup_up(const tl_wakeup *wakeup) {
    return wakeup->watch ? tl__watch_up(wakeup->watch) : tl__conn_up(wakeup->conn);
}

int tl__wakeup_fd(const tl_wakeup *wakeup) {
    return wakeup->watch ? tl__watch_fd(wakeup->watch) : tl__conn_fd(wakeup->conn);
}

short tl__wakeup_events(const tl_wakeup *wakeup) {
    return wakeup->watch ? tl__watch_events(wakeup->watch) : tl__conn_events(wakeup->conn);
}

tl_mono tl__wakeup_until(const tl_wakeup *wakeup) {
    const tl_mono at_once = {0};
    if (wakeup->watch)
        return tl__watch_until(wakeup->watch);
    if (wakeup->confused || wakeup->leaving)
        return at_once;
    tl_mono at = tl__mono_min(close_at(wakeup), silent_at(wakeup));
    return tl__mono_min(at, tl__conn_until(wakeup->conn));
}
