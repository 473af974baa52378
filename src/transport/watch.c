/*
 * A stream of etcd's watches, opened anew whenever there is more to watch. Nothing here waits, and what is told is only
 * ever a reason to look: to be told too much is harmless.
 */
#include "transport/watch.h"

#include <stdlib.h>

#include "ground/guard.h"
#include "ground/token.h"
#include "transport/backoff.h"
#include "transport/gateway.h"
#include "transport/login.h"
#include "transport/stream.h"
#include "transport/topics.h"

#define READ_SIZE 4096
#define READS_MAX 16                  /* in one drive */
#define LASTED_NS INT64_C(1000000000) /* a stream that ended sooner isn't opened again at once */

struct tl_watch {
    tl_wakeup_calls calls;
    tl_members *members;
    int64_t connect_ms;
    unsigned member;                                 /* that the stream goes to */
    enum { DOWN, OPENING, LOGIN, ASKING, UP } state; /* ASKING: no watch has been created yet */
    tl_stream stream;
    tl_gateway *gateway;
    tl_topics topics; /* asked: its watch id in this stream; 0: none */
    char *bytes;      /* to be written: `size` of them, `done` written */
    size_t size, done;
    tl_bytes token; /* our own; kept for the next stream, until one fails */
    tl_backoff backoff;
    tl_mono began, by, retry_at;
    tl_mono asked_at; /* when a stream was asked for last */
    tl_mono look_at;  /* a patient one may have to be asked for then */
    bool wanted;      /* there is one that is to be asked for, or was */
    bool stale;       /* there is more to watch than this stream was asked for */
    bool more;
    bool
        refused; /* a watch was: users have changed since the login, or the user may not read there */
};

/* ---- life -------------------------------------------------------------------------------------- */

tl_watch *tl__watch_new(const tl_conn_limits *limits, const tl_wakeup_calls *calls) {
    tl_watch *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->calls = *calls;
    w->members = limits->members;
    w->connect_ms = limits->connect_ms;
    w->topics.seed = tl__random_seed();
    w->backoff.random = tl__random_seed();
    w->look_at = TL_NEVER;
    tl__stream_init(&w->stream, &w->members->endpoint[0]);
    w->gateway = tl__gateway_new(w->members->prefix);
    if (w->gateway)
        return w;
    free(w);
    return NULL;
}

static void forget_bytes(tl_watch *w) {
    if (w->bytes)
        explicit_bzero(w->bytes, w->size);
    free(w->bytes);
    w->bytes = NULL;
    w->size = w->done = 0;
}

void tl__watch_free(tl_watch *watch) {
    if (!watch)
        return;
    tl__stream_free(&watch->stream);
    tl__gateway_free(watch->gateway);
    tl__topics_clear(&watch->topics);
    forget_bytes(watch);
    tl__members_forget_token(&watch->token);
    free(watch);
}

/* ---- telling ----------------------------------------------------------------------------------- */

static void tell(tl_watch *w, tl_topic *topic, bool armed) {
    topic->told = armed ? TL_TOLD_ARMED : TL_TOLD_NOT;
    w->calls.armed(w->calls.ctx, topic->name, armed);
}

static void close_stream(tl_watch *w) {
    tl__stream_close(&w->stream);
    forget_bytes(w);
    w->state = DOWN;
    w->more = w->stale = w->refused = false;
    for (tl_topic *topic = w->topics.first; topic; topic = topic->next)
        topic->asked = 0;
}

/* The member isn't to be had, or has ended the stream: the next; or this one, with another login. */
static void lose(tl_watch *w, tl_mono now) {
    bool stays = w->refused;
    tl_topic *topic;
    close_stream(w);
    tl__members_forget_token(&w->token); /* it may be what was wrong */
    if (tl__ns_until(w->began, now) >= LASTED_NS)
        tl__backoff_reset(&w->backoff);
    if (!stays)
        tl__members_pass(w->members, w->member);
    w->retry_at = tl__mono_add_ns(now, tl__backoff_ns(&w->backoff));
    tl__topics_begin(&w->topics);
    while ((topic = tl__topics_walk(&w->topics)))
        if (topic->told != TL_TOLD_NOT)
            tell(w, topic, false);
}

static tl_topic *topic_of(const tl_watch *w, int64_t id) {
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
    tl_bytes name = topic->name;
    const char *space = memchr(name.p, ' ', name.n);
    size_t n = space ? (size_t)(space - name.p) : name.n;
    if (!tl__bytes_to_int(tl__bytes(name.p, n), ret_revision))
        *ret_revision = 0;
    return tl__bytes(name.p + n + (space != NULL), name.n - n - (space != NULL));
}

/* The first revision that it hasn't been told of. */
static int64_t first_of(const tl_topic *topic) {
    int64_t revision;
    (void)key_of(topic, &revision);
    return 1 + !GUARD(watch_from_next) + (topic->revision > revision ? topic->revision : revision);
}

/* It tells of what comes after this revision. Who has looked before that may have missed something, and looks again. */
static void on_created(tl_watch *w, tl_topic *topic, int64_t revision) {
    bool missed = GUARD(missed_is_looked_up) && topic->from_now &&
                  (revision <= 0 || revision >= first_of(topic));
    if (missed)
        topic->revision = revision;
    topic->from_now = false;
    if (topic->told != TL_TOLD_ARMED)
        tell(w, topic, true);
    if (missed)
        w->calls.woken(w->calls.ctx, topic->name, (tl_bytes){0});
}

/* Of one that is canceled the revision isn't kept any more, by a compaction: its waiter looks, and asks for a later one. */
static void on_message(tl_watch *w, const tl_reply *message) {
    tl_topic *topic = topic_of(w, item(message, TL_WATCH_ID));
    w->refused = item(message, TL_WATCH_CREATED) && item(message, TL_WATCH_CANCELED);
    w->state = UP;
    if (!topic)
        return;
    if (item(message, TL_WATCH_CANCELED)) {
        topic->asked = 0;
        topic->compacted = topic->patient; /* who has seen it will see it again */
        tell(w, topic, false);
    } else if (GUARD(deletion_heard) && item(message, TL_WATCH_DELETED) > 0) {
        w->calls.woken(w->calls.ctx, topic->name, (tl_bytes){0});
    } else if (item(message, TL_WATCH_CREATED)) {
        on_created(w, topic, item(message, TL_WATCH_REVISION));
    }
}

/* ---- saying ------------------------------------------------------------------------------------ */

static tl_etcd_via via(const tl_watch *w) {
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

static bool say_login(tl_watch *w) {
    const tl_etcd_via how = via(w);
    w->state = LOGIN;
    w->bytes = malloc(TL_LOGIN_SIZE);
    if (!w->bytes)
        return false;
    size_t n = tl__members_ask_token(w->stream.endpoint, &how, w->bytes, TL_LOGIN_SIZE);
    w->size = n <= TL_LOGIN_SIZE ? n : 0;
    return w->size > 0;
}

static bool say_watch(tl_watch *w) {
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
    w->state = ASKING;
    return w->bytes != NULL;
}

/* ---- topics ------------------------------------------------------------------------------------ */

tl_err tl__watch_listen(tl_watch *watch, tl_bytes name, tl_mono now) {
    tl_topic *topic = tl__topics_find(&watch->topics, name);
    bool known = topic != NULL;
    if (name.n > TL_TOPIC_MAX)
        return TL_EINVALID;
    if (!topic)
        topic = tl__topics_add(&watch->topics, name);
    if (!topic)
        return TL_ENOMEM;
    topic->listeners++;
    watch->wanted = true;
    if (!known && watch->state >= ASKING) /* else it will be asked for with the others */
        watch->stale = true;
    if (watch->state == DOWN && watch->topics.count == 1 && watch->backoff.failures == 0)
        watch->retry_at = now;
    if (known && topic->told != TL_UNTOLD)
        tell(watch, topic, topic->told == TL_TOLD_ARMED);
    if (known && topic->told == TL_TOLD_ARMED) /* what it may have missed isn't told twice */
        watch->calls.woken(watch->calls.ctx, topic->name, (tl_bytes){0});
    return TL_OK;
}

static void await_patient(tl_watch *w, tl_topic *topic, tl_mono now) {
    topic->since = now;
    w->look_at = tl__mono_min(w->look_at, tl__mono_add_ms(now, TL_WATCH_GATHER_MS));
}

void tl__watch_seen(tl_watch *watch, tl_bytes name, int64_t revision, tl_mono now) {
    tl_topic *topic = tl__topics_find(&watch->topics, name);
    if (!topic && watch->topics.count < TL_WATCH_SEEN_MAX) {
        topic = tl__topics_add(&watch->topics, name);
        if (!topic)
            return;
        topic->listeners = 1;
        topic->patient = true;
        await_patient(watch, topic, now);
    }
    if (!topic || revision <= topic->revision)
        return;
    if (GUARD(watch_from_what_was_seen))
        topic->revision = revision;
    if (topic->compacted)
        await_patient(watch, topic, now);
    topic->compacted = false;
}

void tl__watch_forget(tl_watch *watch, tl_bytes name) {
    tl_topic *topic = tl__topics_find(&watch->topics, name);
    if (topic && --topic->listeners == 0)
        tl__topics_remove(&watch->topics, topic);
}

bool tl__watch_listens(const tl_watch *watch) {
    return watch->topics.count > 0;
}

/* ---- driving ----------------------------------------------------------------------------------- */

static void begin(tl_watch *w, tl_mono now) {
    w->member = atomic_load(&w->members->at);
    tl__stream_lead(&w->stream, &w->members->endpoint[w->member]);
    tl__gateway_reset(w->gateway);
    w->state = OPENING;
    w->began = w->asked_at = now;
    w->by = tl__mono_add_ms(now, w->connect_ms);
    tl__stream_open(&w->stream, now, w->connect_ms);
}

static bool write_bytes(tl_watch *w) {
    while (w->done < w->size) {
        ssize_t n = tl__stream_write(&w->stream, w->bytes + w->done, w->size - w->done);
        if (n <= 0)
            return n == 0;
        w->done += (size_t)n;
    }
    return true;
}

/* The answer to the login. A server without users needs no token. */
static bool on_token(tl_watch *w, const tl_reply *reply) {
    bool is_token = reply->type == TL_REPLY_STRING;
    return (!is_token || tl__members_keep_token(&w->token, reply->text)) && say_watch(w);
}

static bool take_messages(tl_watch *w) {
    tl_reply reply;
    int got = 0;
    if (w->state == LOGIN && (got = tl__gateway_next(w->gateway, TL_ETCD_AUTH, &reply)) > 0 &&
        !on_token(w, &reply))
        return false;
    while (got >= 0 && w->state >= ASKING && (got = tl__gateway_message(w->gateway, &reply)) > 0) {
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
static bool read_bytes(tl_watch *w) {
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

static bool go_on(tl_watch *w, tl_mono now) {
    if (w->state == OPENING) {
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
    return w->state == UP || tl__mono_before(now, w->by);
}

/* When the one that has waited the longest is to be asked for. */
static tl_mono patience_ends(const tl_watch *w) {
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
static void mind_patient(tl_watch *w, tl_mono now) {
    if (tl__mono_before(now, w->look_at))
        return;
    w->look_at = patience_ends(w);
    if (tl__mono_before(now, w->look_at))
        return;
    w->look_at = TL_NEVER;
    w->stale = w->state >= ASKING;
    if (!w->wanted)
        w->retry_at = now;
    w->wanted = true;
}

void tl__watch_drive(tl_watch *watch, tl_mono now) {
    tl_watch *w = watch;
    mind_patient(w, now);
    w->wanted = w->wanted && w->topics.count > 0;
    bool elsewhere = w->member != atomic_load(&w->members->at);
    if (w->state != DOWN && (!w->wanted || w->stale || elsewhere)) {
        close_stream(w);
        w->retry_at = now;
    }
    if (w->state == DOWN && w->wanted && !tl__mono_before(now, w->retry_at))
        begin(w, now);
    if (w->state != DOWN && !go_on(w, now))
        lose(w, now);
}

bool tl__watch_up(const tl_watch *watch) {
    return watch->state == UP;
}

int tl__watch_fd(const tl_watch *watch) {
    return watch->state == DOWN ? -1 : tl__stream_fd(&watch->stream);
}

short tl__watch_events(const tl_watch *watch) {
    return watch->state == DOWN ? 0 : tl__stream_events(&watch->stream, watch->done < watch->size);
}

tl_mono tl__watch_until(const tl_watch *watch) {
    const tl_mono at_once = {0};
    if (watch->state == DOWN)
        return tl__mono_min(watch->look_at, watch->wanted ? watch->retry_at : TL_NEVER);
    if (watch->more || watch->topics.count == 0 || watch->stale)
        return at_once;
    if (watch->state == OPENING)
        return tl__mono_min(watch->by, tl__stream_until(&watch->stream));
    return watch->state == UP ? watch->look_at : watch->by;
}
