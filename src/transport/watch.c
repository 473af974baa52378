/*
 * Wake-ups by a stream of etcd's watches, one for all that a client's waiters wait for. A topic is "REVISION KEY": told is
 * the deletion of the key after that revision. Nothing here waits, and what is told is only ever a reason to look: to be told
 * too much is harmless.
 *
 * A stream can't be added to: where a topic is new the next is opened, with all of them. One that is new there is told of from
 * now on, and its listeners are woken at once if something has happened since its revision; the others from where they were. So
 * nothing is missed meanwhile. It goes to the member that the client's requests go to.
 *
 * A topic that is only seen is patient: it is asked for when it has been one for TL_WATCH_GATHER_MS, together with others, and
 * no sooner than the last time is TL_WATCH_EACH_MS ago for each that there is; there are TL_WATCH_SEEN_MAX at most.
 */
#include <stdlib.h>

#include "ground/guard.h"
#include "ground/token.h"
#include "transport/login.h"
#include "transport/wakeup_inside.h"

#define READ_SIZE 4096
#define READS_MAX 16                  /* in one drive */
#define LASTED_NS INT64_C(1000000000) /* a stream that ended sooner isn't opened again at once */

/* ---- life -------------------------------------------------------------------------------------- */

static bool make(tl_wakeup *w, const tl_endpoint *endpoint, const tl_conn_limits *limits) {
    w->members = limits->members;
    w->connect_ms = limits->connect_ms;
    w->backoff.random = tl__random_seed();
    w->look_at = TL_NEVER;
    tl__stream_init(&w->stream, endpoint);
    w->gateway = tl__gateway_new(w->members->prefix);
    return w->gateway != NULL;
}

static void forget_bytes(tl_wakeup *w) {
    if (w->bytes)
        explicit_bzero(w->bytes, w->size);
    free(w->bytes);
    w->bytes = NULL;
    w->size = w->done = 0;
}

static void end(tl_wakeup *w) {
    tl__stream_free(&w->stream);
    tl__gateway_free(w->gateway);
    forget_bytes(w);
    tl__members_forget_token(&w->token);
}

static void close_stream(tl_wakeup *w) {
    tl__stream_close(&w->stream);
    forget_bytes(w);
    w->state = TL_WATCH_DOWN;
    w->more = w->stale = w->refused = false;
    for (tl_topic *topic = w->topics.first; topic; topic = topic->next)
        topic->asked = 0;
}

/* The member isn't to be had, or has ended the stream: the next; or this one, with another login. */
static void lose(tl_wakeup *w, tl_mono now) {
    bool stays = w->refused;
    close_stream(w);
    tl__members_forget_token(&w->token); /* it may be what was wrong */
    if (tl__ns_until(w->began, now) >= LASTED_NS)
        tl__backoff_reset(&w->backoff);
    if (!stays)
        tl__members_pass(w->members, w->member);
    w->retry_at = tl__mono_add_ns(now, tl__backoff_ns(&w->backoff));
    tl__wakeup_lose(w);
}

static tl_topic *topic_of(const tl_wakeup *w, int64_t id) {
    for (tl_topic *topic = w->topics.first; topic && id > 0; topic = topic->next)
        if (topic->asked == (uint64_t)id)
            return topic;
    return NULL;
}

static int64_t item(const tl_reply *message, size_t i) {
    int64_t v;
    return tl__reply_int(tl__reply_item(message, i), &v) ? v : 0;
}

/* "REVISION KEY" */
static tl_bytes key_of(const tl_topic *topic, int64_t *ret_revision) {
    tl_bytes key = topic->name;
    if (!tl__bytes_to_int(tl__bytes_take(&key, ' '), ret_revision))
        *ret_revision = 0;
    return key;
}

/* The first revision that it hasn't been told of. */
static int64_t first_of(const tl_topic *topic) {
    int64_t revision;
    (void)key_of(topic, &revision);
    return 1 + !GUARD(watch_from_next) + (topic->revision > revision ? topic->revision : revision);
}

/* It tells of what comes after this revision. Who has looked before that may have missed something, and looks again. */
static void on_created(tl_wakeup *w, tl_topic *topic, int64_t revision) {
    bool missed = GUARD(missed_is_looked_up) && topic->from_now &&
                  (revision <= 0 || revision >= first_of(topic));
    if (missed)
        topic->revision = revision;
    topic->from_now = false;
    if (topic->told != TL_TOLD_ARMED)
        tl__wakeup_tell(w, topic, true);
    if (missed)
        w->calls.woken(w->calls.ctx, topic->name, (tl_bytes){0});
}

/* Of one that is canceled the revision isn't kept any more, by a compaction: its waiter looks, and asks for a later one. */
static void on_message(tl_wakeup *w, const tl_reply *message) {
    tl_topic *topic = topic_of(w, item(message, TL_WATCH_ID));
    w->refused = item(message, TL_WATCH_CREATED) && item(message, TL_WATCH_CANCELED);
    w->state = TL_WATCH_UP;
    if (!topic)
        return;
    if (item(message, TL_WATCH_CANCELED)) {
        topic->asked = 0;
        topic->compacted = topic->patient; /* who has seen it will see it again */
        tl__wakeup_tell(w, topic, false);
    } else if (GUARD(deletion_heard) && item(message, TL_WATCH_DELETED) > 0) {
        w->calls.woken(w->calls.ctx, topic->name, (tl_bytes){0});
    } else if (item(message, TL_WATCH_CREATED)) {
        on_created(w, topic, item(message, TL_WATCH_REVISION));
    }
}

/* ---- saying ------------------------------------------------------------------------------------ */

static tl_etcd_via via(const tl_wakeup *w) {
    return (tl_etcd_via){.host = tl__bytes_of(w->stream.endpoint->label),
                         .prefix = w->members->prefix,
                         .token = w->token,
                         .timeout_ms = w->connect_ms};
}

/* Etcd catches up with watches that begin in the past every 100 ms only. So a waiter's begins now; but for one that was told
 * of already, which would have to look again whenever another comes. */
static tl_etcd_watched watched(tl_topic *topic) {
    int64_t revision;
    topic->from_now = GUARD(watch_begins_now) && !topic->patient && topic->told != TL_TOLD_ARMED;
    return (tl_etcd_watched){.key = key_of(topic, &revision),
                             .revision = topic->from_now ? 0 : first_of(topic)};
}

static bool say_login(tl_wakeup *w) {
    const tl_etcd_via how = via(w);
    w->state = TL_WATCH_LOGIN;
    w->bytes = malloc(TL_LOGIN_SIZE);
    if (!w->bytes)
        return false;
    size_t n = tl__members_ask_token(w->stream.endpoint, &how, w->bytes, TL_LOGIN_SIZE);
    w->size = n <= TL_LOGIN_SIZE ? n : 0;
    return w->size > 0;
}

static bool say_watch(tl_wakeup *w) {
    size_t n = 0;
    const tl_etcd_via how = via(w);
    tl_etcd_watched *all = malloc((w->topics.count + 1) * sizeof *all);
    if (!all)
        return false;
    for (tl_topic *topic = w->topics.first; topic; topic = topic->next) {
        all[n++] = watched(topic);
        topic->asked = n;
    }
    forget_bytes(w);
    w->size = tl__etcd_encode_watch(all, n, &how, NULL, 0);
    w->bytes = malloc(w->size);
    if (w->bytes)
        w->size = tl__etcd_encode_watch(all, n, &how, w->bytes, w->size);
    free(all);
    w->stale = false;
    w->state = TL_WATCH_ASKING;
    return w->bytes != NULL;
}

/* ---- topics ------------------------------------------------------------------------------------ */

static bool add(tl_wakeup *w, tl_topic *topic, tl_mono now) {
    bool known = topic->listeners > 1;
    w->wanted = true;
    if (!known && w->state >= TL_WATCH_ASKING) /* else it will be asked for with the others */
        w->stale = true;
    if (w->state == TL_WATCH_DOWN && w->topics.count == 1 && w->backoff.failures == 0)
        w->retry_at = now;
    if (known && topic->told != TL_UNTOLD)
        tl__wakeup_tell(w, topic, topic->told == TL_TOLD_ARMED);
    if (known && topic->told == TL_TOLD_ARMED) /* what it may have missed isn't told twice */
        w->calls.woken(w->calls.ctx, topic->name, (tl_bytes){0});
    return true;
}

static void await_patient(tl_wakeup *w, tl_topic *topic, tl_mono now) {
    topic->since = now;
    w->look_at = tl__mono_min(w->look_at, tl__mono_add_ms(now, TL_WATCH_GATHER_MS));
}

static void seen(tl_wakeup *w, tl_bytes name, int64_t revision, tl_mono now) {
    tl_topic *topic = tl__topics_find(&w->topics, name);
    if (!topic && w->topics.count < TL_WATCH_SEEN_MAX) {
        topic = tl__topics_add(&w->topics, name);
        if (!topic)
            return;
        topic->listeners = 1;
        topic->patient = true;
        await_patient(w, topic, now);
    }
    if (!topic || revision <= topic->revision)
        return;
    if (GUARD(watch_from_what_was_seen))
        topic->revision = revision;
    if (topic->compacted)
        await_patient(w, topic, now);
    topic->compacted = false;
}

/* ---- driving ----------------------------------------------------------------------------------- */

static void begin(tl_wakeup *w, tl_mono now) {
    w->member = atomic_load(&w->members->at);
    tl__stream_lead(&w->stream, &w->members->endpoint[w->member]);
    tl__gateway_reset(w->gateway);
    w->state = TL_WATCH_OPENING;
    w->began = w->asked_at = now;
    w->by = tl__mono_add_ms(now, w->connect_ms);
    tl__stream_open(&w->stream, now, w->connect_ms);
}

static bool write_bytes(tl_wakeup *w) {
    while (w->done < w->size) {
        ssize_t n = tl__stream_write(&w->stream, w->bytes + w->done, w->size - w->done);
        if (n <= 0)
            return n == 0;
        w->done += (size_t)n;
    }
    return true;
}

/* The answer to the login. A server without users needs no token. */
static bool on_token(tl_wakeup *w, const tl_reply *reply) {
    bool is_token = reply->type == TL_REPLY_STRING;
    return (!is_token || tl__members_keep_token(&w->token, reply->text)) && say_watch(w);
}

static bool take_messages(tl_wakeup *w) {
    tl_reply reply;
    int got = 0;
    if (w->state == TL_WATCH_LOGIN &&
        (got = tl__gateway_next(w->gateway, TL_ETCD_AUTH, &reply)) > 0 && !on_token(w, &reply))
        return false;
    while (got >= 0 && w->state >= TL_WATCH_ASKING &&
           (got = tl__gateway_message(w->gateway, &reply)) > 0) {
        if (reply.type == TL_REPLY_ERROR)
            return false;
        on_message(w, &reply);
        tl__gateway_release(w->gateway);
        if (GUARD(refused_watch_ends) && w->refused)
            return false;
    }
    return got >= 0;
}

/* false: it is over. */
static bool read_bytes(tl_wakeup *w) {
    char buffer[READ_SIZE];
    w->more = true;
    for (int i = 0; i < READS_MAX && w->more; i++) {
        ssize_t n = tl__stream_read(&w->stream, buffer, sizeof buffer, &w->more);
        if (n <= 0)
            return n == 0;
        tl__gateway_feed(w->gateway, buffer, (size_t)n);
        if (!take_messages(w))
            return false;
    }
    return true;
}

static bool go_on(tl_wakeup *w, tl_mono now) {
    if (w->state == TL_WATCH_OPENING) {
        tl__stream_drive(&w->stream, now);
        if (w->stream.state == TL_STREAM_FAILED)
            return false;
        if (w->stream.state != TL_STREAM_OPEN)
            return true;
        if (!(w->stream.endpoint->user[0] && !w->token.p ? say_login(w) : say_watch(w)))
            return false;
    }
    if (!write_bytes(w) || !read_bytes(w) || !write_bytes(w))
        return false;
    return w->state == TL_WATCH_UP || tl__mono_before(now, w->by);
}

/* When the one that has waited the longest is to be asked for. */
static tl_mono patience_ends(const tl_wakeup *w) {
    tl_mono oldest = TL_NEVER;
    for (const tl_topic *topic = w->topics.first; topic; topic = topic->next)
        if (topic->patient && topic->asked == 0 && !topic->compacted)
            oldest = tl__mono_min(oldest, topic->since);
    if (oldest.ns == TL_NEVER.ns)
        return TL_NEVER;
    int64_t pause_ms = (int64_t)w->topics.count * TL_WATCH_EACH_MS;
    return tl__mono_max(tl__mono_add_ms(oldest, TL_WATCH_GATHER_MS),
                        tl__mono_add_ms(w->asked_at, pause_ms));
}

/* Those that are held for a moment only come and go unheard. */
static void mind_patient(tl_wakeup *w, tl_mono now) {
    if (tl__mono_before(now, w->look_at))
        return;
    w->look_at = patience_ends(w);
    if (tl__mono_before(now, w->look_at))
        return;
    w->look_at = TL_NEVER;
    w->stale = w->state >= TL_WATCH_ASKING;
    if (!w->wanted)
        w->retry_at = now;
    w->wanted = true;
}

static void drive(tl_wakeup *w, tl_mono now) {
    mind_patient(w, now);
    w->wanted = w->wanted && w->topics.count > 0;
    bool elsewhere = w->member != atomic_load(&w->members->at);
    if (w->state != TL_WATCH_DOWN && (!w->wanted || w->stale || elsewhere)) {
        close_stream(w);
        w->retry_at = now;
    }
    if (w->state == TL_WATCH_DOWN && w->wanted && !tl__mono_before(now, w->retry_at))
        begin(w, now);
    if (w->state != TL_WATCH_DOWN && !go_on(w, now))
        lose(w, now);
}

static bool is_up(const tl_wakeup *w) {
    return w->state == TL_WATCH_UP;
}

static int fd(const tl_wakeup *w) {
    return w->state == TL_WATCH_DOWN ? -1 : tl__stream_fd(&w->stream);
}

static short events(const tl_wakeup *w) {
    return w->state == TL_WATCH_DOWN ? 0 : tl__stream_events(&w->stream, w->done < w->size);
}

static tl_mono until(const tl_wakeup *w) {
    const tl_mono at_once = {0};
    if (w->state == TL_WATCH_DOWN)
        return tl__mono_min(w->look_at, w->wanted ? w->retry_at : TL_NEVER);
    if (w->more || w->topics.count == 0 || w->stale)
        return at_once;
    if (w->state == TL_WATCH_OPENING)
        return tl__mono_min(w->by, tl__stream_until(&w->stream));
    return w->state == TL_WATCH_UP ? w->look_at : w->by;
}

const tl_wakeup_row tl__wakeup_watches = {
    .make = make,
    .end = end,
    .listen = add,
    .seen = seen,
    .up = is_up,
    .fd = fd,
    .events = events,
    .until = until,
    .drive = drive,
};
