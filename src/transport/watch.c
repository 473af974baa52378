/*
 * Wake-ups by a stream of etcd's watches, one stream for all topics of a client. A topic is "REVISION KEY":
 * its listeners are notified when the key is deleted after that revision. Nothing here waits. A notification
 * is only a reason to look, so one too many is harmless.
 *
 * No watch can be added to a stream. For a new topic the stream is replaced by one that watches all topics.
 * The new topic is watched from now on, and its listeners are woken at once if something has happened since
 * its revision. The other topics are watched from where they were, so nothing is missed meanwhile. The stream
 * goes to the member that the client's requests go to.
 *
 * A stream that is replaced before it has reported anything is of no use. So a new topic waits while the
 * stream owes something to another that is still listened to: that its watch has begun, or, if it was armed
 * already, what happened since its revision, within TL_WATCH_CATCH_UP_MS. Its waiter polls meanwhile.
 *
 * A topic that was only seen is patient: it is watched after TL_WATCH_GATHER_MS, together with others.
 * Between two streams there are also at least TL_WATCH_EACH_MS for each topic. None is added beyond
 * TL_WATCH_SEEN_MAX topics.
 */
#include <stdlib.h>

#include "ground/guard.h"
#include "ground/token.h"
#include "transport/grpc_reply.h"
#include "transport/login.h"
#include "transport/wakeup_inside.h"

#define READ_SIZE 4096
#define READS_MAX 16                  /* in one drive, at most */
#define LASTED_NS INT64_C(1000000000) /* after a stream that ended sooner the back-off grows */

/* ---- life -------------------------------------------------------------------------------------- */

static bool make(tl_wakeup *wakeup, const tl_endpoint *endpoint, const tl_conn_limits *limits) {
    wakeup->members = limits->members;
    wakeup->connect_ms = limits->connect_ms;
    wakeup->backoff.random = tl__random_seed();
    wakeup->look_at = TL_NEVER;
    tl__stream_init(&wakeup->stream, endpoint);
    wakeup->gateway = tl__gateway_new(wakeup->members->prefix);
    bool calls = tl__codec_of(limits)->calls && tl__grpc_works();
    wakeup->grpc = calls ? tl__grpc_new() : NULL;
    return wakeup->gateway && (wakeup->grpc || !calls);
}

static void forget_bytes(tl_wakeup *wakeup) {
    if (wakeup->bytes)
        explicit_bzero(wakeup->bytes, wakeup->size);
    free(wakeup->bytes);
    wakeup->bytes = NULL;
    wakeup->size = wakeup->done = 0;
}

static void end(tl_wakeup *wakeup) {
    tl__stream_free(&wakeup->stream);
    tl__gateway_free(wakeup->gateway);
    tl__grpc_free(wakeup->grpc);
    tl__reply_room_free(&wakeup->room);
    forget_bytes(wakeup);
    tl__members_forget_token(&wakeup->token);
}

static void close_stream(tl_wakeup *wakeup) {
    tl__stream_close(&wakeup->stream);
    forget_bytes(wakeup);
    wakeup->state = TL_WATCH_DOWN;
    wakeup->call = NULL;
    wakeup->more = wakeup->stale = wakeup->refused = wakeup->blocked = false;
    for (tl_topic *topic = wakeup->topics.first; topic; topic = topic->next)
        topic->asked = 0;
}

/* The member is unavailable, or has ended the stream: try the next one; or this one, with a new login. */
static void lose(tl_wakeup *wakeup, tl_mono now) {
    bool stays = wakeup->refused;
    close_stream(wakeup);
    tl__members_forget_token(&wakeup->token); /* it may be the cause */
    if (tl__ns_until(wakeup->began, now) >= LASTED_NS)
        tl__backoff_reset(&wakeup->backoff);
    if (!stays)
        tl__members_pass(wakeup->members, wakeup->member);
    wakeup->retry_at = tl__mono_add_ns(now, tl__backoff_ns(&wakeup->backoff));
    tl__wakeup_lose(wakeup);
}

static tl_topic *topic_of(const tl_wakeup *wakeup, int64_t id) {
    for (tl_topic *topic = wakeup->topics.first; topic && id > 0; topic = topic->next)
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

/* The first revision that is not reported yet. */
static int64_t first_of(const tl_topic *topic) {
    int64_t revision;
    (void)key_of(topic, &revision);
    return tl__add_sat(topic->revision > revision ? topic->revision : revision,
                       1 + !GUARD(watch_from_next));
}

/* The watch reports changes after this revision. A waiter that looked before may have missed one, and looks
 * again. */
static void on_created(tl_wakeup *wakeup, tl_topic *topic, int64_t revision) {
    bool missed = GUARD(missed_is_looked_up) && topic->from_now &&
                  (revision <= 0 || revision >= first_of(topic));
    if (missed)
        topic->revision = revision;
    topic->owed = topic->owed && !topic->from_now;
    topic->from_now = false;
    if (topic->reported != TL_REPORTED_ARMED)
        tl__wakeup_report(wakeup, topic, true);
    if (missed)
        wakeup->calls.woken(wakeup->calls.ctx, topic->name, (tl_bytes){0});
}

/* Until when this stream is not replaced, as topics wait for what it owes them; TL_NEVER: until it is up. */
static tl_mono owes_until(const tl_wakeup *wakeup) {
    const tl_mono past = {0};
    for (const tl_topic *topic = wakeup->topics.first; topic; topic = topic->next)
        if (GUARD(stream_reports_first) && topic->asked > 0 && topic->owed)
            return wakeup->state == TL_WATCH_UP ? wakeup->caught_up_at : TL_NEVER;
    return past;
}

/* A canceled watch: a compaction has removed its revision. Its waiter looks, and then watches from a later
 * revision. */
static void on_message(tl_wakeup *wakeup, const tl_reply *message) {
    tl_topic *topic = topic_of(wakeup, item(message, TL_WATCH_ID));
    wakeup->refused = item(message, TL_WATCH_CREATED) && item(message, TL_WATCH_CANCELED);
    wakeup->state = TL_WATCH_UP;
    if (!topic)
        return;
    if (item(message, TL_WATCH_CANCELED)) {
        topic->asked = 0;
        topic->compacted = topic->patient; /* its client will see it again */
        tl__wakeup_report(wakeup, topic, false);
    } else if (GUARD(deletion_heard) && item(message, TL_WATCH_DELETED) > 0) {
        topic->owed = false;
        wakeup->calls.woken(wakeup->calls.ctx, topic->name, (tl_bytes){0});
    } else if (item(message, TL_WATCH_CREATED)) {
        on_created(wakeup, topic, item(message, TL_WATCH_REVISION));
    }
}

/* ---- sending ----------------------------------------------------------------------------------- */

static tl_etcd_via via(const tl_wakeup *wakeup) {
    return (tl_etcd_via){.host = tl__bytes_of(wakeup->stream.endpoint->label),
                         .prefix = wakeup->members->prefix,
                         .token = wakeup->token,
                         .timeout_ms = wakeup->connect_ms};
}

/* etcd catches up with watches that begin in the past only every 100 ms. So a waiter's watch begins now. A
 * topic that is armed already continues from its revision, since its waiter would have to look again whenever
 * another topic is added. */
static tl_etcd_watched watched(tl_topic *topic) {
    int64_t revision;
    topic->from_now = GUARD(watch_begins_now) && !topic->patient &&
                      topic->reported != TL_REPORTED_ARMED;
    return (tl_etcd_watched){.key = key_of(topic, &revision),
                             .revision = topic->from_now ? 0 : first_of(topic)};
}

/* Make a call with the bytes. false: out of memory */
static bool call(tl_wakeup *wakeup, tl_etcd_kind kind) {
    const tl_endpoint *endpoint = wakeup->stream.endpoint;
    bool stream = kind == TL_ETCD_WATCH;
    const tl_grpc_request request = {.method = tl__etcd_method(kind),
                                     .host = tl__bytes_of(endpoint->label),
                                     .token = wakeup->token,
                                     .timeout_ms = stream ? 0 : wakeup->connect_ms,
                                     .messages = {wakeup->bytes, wakeup->size},
                                     .tls = endpoint->tls,
                                     .stream = stream};
    wakeup->call = tl__grpc_call(wakeup->grpc, &request);
    return wakeup->call != NULL;
}

static bool say_login(tl_wakeup *wakeup) {
    const tl_etcd_via how = via(wakeup);
    wakeup->state = TL_WATCH_LOGIN;
    wakeup->bytes = malloc(TL_LOGIN_SIZE);
    if (!wakeup->bytes)
        return false;
    if (wakeup->by_grpc) {
        wakeup->size = tl__members_ask_token(wakeup->stream.endpoint, &how, tl__etcd_encode_proto,
                                             wakeup->bytes, TL_LOGIN_SIZE);
        return wakeup->size <= TL_LOGIN_SIZE && call(wakeup, TL_ETCD_AUTH);
    }
    size_t n = tl__members_ask_token(wakeup->stream.endpoint, &how, tl__etcd_encode, wakeup->bytes,
                                     TL_LOGIN_SIZE);
    wakeup->size = n <= TL_LOGIN_SIZE ? n : 0;
    return wakeup->size > 0;
}

static bool say_watch(tl_wakeup *wakeup) {
    size_t n = 0;
    const tl_etcd_via how = via(wakeup);
    tl_etcd_watched *all = malloc((wakeup->topics.count + 1) * sizeof *all);
    if (!all)
        return false;
    for (tl_topic *topic = wakeup->topics.first; topic; topic = topic->next) {
        all[n++] = watched(topic);
        topic->asked = n;
        topic->owed = true;
    }
    size_t (*encode)(const tl_etcd_watched *watched, size_t count, const tl_etcd_via *via, char *to,
                     size_t size) = wakeup->by_grpc ? tl__etcd_encode_watch_proto
                                                    : tl__etcd_encode_watch;
    forget_bytes(wakeup);
    wakeup->size = encode(all, n, &how, NULL, 0);
    wakeup->bytes = malloc(wakeup->size);
    if (wakeup->bytes)
        wakeup->size = encode(all, n, &how, wakeup->bytes, wakeup->size);
    free(all);
    wakeup->stale = false;
    wakeup->state = TL_WATCH_ASKING;
    return wakeup->bytes && (!wakeup->by_grpc || call(wakeup, TL_ETCD_WATCH));
}

/* ---- topics ------------------------------------------------------------------------------------ */

static bool add(tl_wakeup *wakeup, tl_topic *topic, tl_mono now) {
    bool known = topic->listeners > 1;
    wakeup->wanted = true;
    /* Otherwise it will be watched with the others. */
    if (!known && wakeup->state >= TL_WATCH_ASKING)
        wakeup->stale = true;
    if (wakeup->state == TL_WATCH_DOWN && wakeup->topics.count == 1 &&
        wakeup->backoff.failures == 0)
        wakeup->retry_at = now;
    if (known && topic->reported != TL_UNREPORTED)
        tl__wakeup_report(wakeup, topic, topic->reported == TL_REPORTED_ARMED);
    /* A change that it may have missed is not reported twice. */
    if (known && topic->reported == TL_REPORTED_ARMED)
        wakeup->calls.woken(wakeup->calls.ctx, topic->name, (tl_bytes){0});
    return true;
}

static void await_patient(tl_wakeup *wakeup, tl_topic *topic, tl_mono now) {
    topic->since = now;
    wakeup->look_at = tl__mono_min(wakeup->look_at, tl__mono_add_ms(now, TL_WATCH_GATHER_MS));
}

static void seen(tl_wakeup *wakeup, tl_bytes name, int64_t revision, tl_mono now) {
    tl_topic *topic = tl__topics_find(&wakeup->topics, name);
    if (!topic && wakeup->topics.count < TL_WATCH_SEEN_MAX) {
        topic = tl__topics_add(&wakeup->topics, name);
        if (!topic)
            return;
        topic->listeners = 1;
        topic->patient = true;
        await_patient(wakeup, topic, now);
    }
    if (!topic || revision <= topic->revision)
        return;
    if (GUARD(watch_from_what_was_seen))
        topic->revision = revision;
    if (topic->compacted)
        await_patient(wakeup, topic, now);
    topic->compacted = false;
}

/* ---- driving ----------------------------------------------------------------------------------- */

static void begin(tl_wakeup *wakeup, tl_mono now) {
    wakeup->member = atomic_load(&wakeup->members->at);
    tl__stream_lead(&wakeup->stream, &wakeup->members->endpoint[wakeup->member]);
    tl__gateway_reset(wakeup->gateway);
    wakeup->by_grpc = wakeup->grpc && !wakeup->http1 &&
                      !tl__members_is_http1(wakeup->members, wakeup->member);
    wakeup->http1 = false;
    wakeup->stream.offers_http2 = wakeup->by_grpc;
    if (wakeup->by_grpc)
        (void)tl__grpc_reset(wakeup->grpc); /* what fails is reported by tl__grpc_problem */
    wakeup->state = TL_WATCH_OPENING;
    wakeup->began = wakeup->asked_at = now;
    wakeup->by = tl__mono_add_ms(now, wakeup->connect_ms);
    tl__stream_open(&wakeup->stream, now, wakeup->connect_ms);
}

static bool write_calls(tl_wakeup *wakeup) {
    tl_bytes bytes;
    wakeup->blocked = false;
    while (!wakeup->blocked && (bytes = tl__grpc_output(wakeup->grpc)).n > 0) {
        ssize_t n = tl__stream_write(&wakeup->stream, bytes.p, bytes.n);
        if (n < 0)
            return false;
        wakeup->blocked = n == 0;
        tl__grpc_wrote(wakeup->grpc, (size_t)n);
    }
    return true;
}

static bool write_bytes(tl_wakeup *wakeup) {
    if (wakeup->by_grpc)
        return write_calls(wakeup);
    while (wakeup->done < wakeup->size) {
        ssize_t n = tl__stream_write(&wakeup->stream, wakeup->bytes + wakeup->done,
                                     wakeup->size - wakeup->done);
        if (n <= 0)
            return n == 0;
        wakeup->done += (size_t)n;
    }
    return true;
}

/* The reply to the login. A server without users needs no token. */
static bool on_token(tl_wakeup *wakeup, const tl_reply *reply) {
    bool is_token = reply->type == TL_REPLY_STRING;
    return (!is_token || tl__members_keep_token(&wakeup->token, reply->text)) && say_watch(wakeup);
}

static bool take_messages(tl_wakeup *wakeup) {
    tl_reply reply;
    int got = 0;
    if (wakeup->state == TL_WATCH_LOGIN &&
        (got = tl__gateway_next(wakeup->gateway, TL_ETCD_AUTH, &reply)) > 0 &&
        !on_token(wakeup, &reply))
        return false;
    while (got >= 0 && wakeup->state >= TL_WATCH_ASKING &&
           (got = tl__gateway_message(wakeup->gateway, &reply)) > 0) {
        if (reply.type == TL_REPLY_ERROR)
            return false;
        on_message(wakeup, &reply);
        tl__gateway_release(wakeup->gateway);
        if (GUARD(refused_watch_ends) && wakeup->refused)
            return false;
    }
    return got >= 0;
}

/* The reply to a login that has ended. */
static bool on_login_call(tl_wakeup *wakeup) {
    tl_reply reply = {.type = TL_REPLY_ERROR};
    tl_bytes message;
    if (wakeup->call->code == 0 &&
        (!tl__grpc_take(wakeup->grpc, wakeup->call, &message) ||
         tl__grpc_read(&wakeup->room, TL_ETCD_AUTH, message, wakeup->members->prefix, &reply)))
        return false;
    tl_grpc_call *login = wakeup->call;
    bool fine = on_token(wakeup, &reply);
    tl__grpc_drop(wakeup->grpc, login);
    tl__reply_room_release(&wakeup->room);
    return fine;
}

/* As take_messages, by gRPC. A member that doesn't speak it is asked once more, by its gateway. */
static bool take_calls(tl_wakeup *wakeup) {
    tl_bytes message;
    tl_reply reply;
    if (tl__grpc_is_other(wakeup->grpc)) {
        wakeup->http1 = true;
        wakeup->refused = true;
        return false;
    }
    if (wakeup->state == TL_WATCH_LOGIN && wakeup->call->done && !on_login_call(wakeup))
        return false;
    while (wakeup->state >= TL_WATCH_ASKING &&
           tl__grpc_take(wakeup->grpc, wakeup->call, &message)) {
        if (tl__grpc_read(&wakeup->room, TL_ETCD_WATCH, message, wakeup->members->prefix, &reply))
            return false;
        on_message(wakeup, &reply);
        tl__reply_room_release(&wakeup->room);
        if (GUARD(refused_watch_ends) && wakeup->refused)
            return false;
    }
    return !tl__grpc_problem(wakeup->grpc) && !wakeup->call->done && !tl__grpc_closes(wakeup->grpc);
}

static bool take_fed(tl_wakeup *wakeup, const char *bytes, size_t n) {
    if (wakeup->by_grpc)
        tl__grpc_feed(wakeup->grpc, bytes, n);
    else
        tl__gateway_feed(wakeup->gateway, bytes, n);
    return wakeup->by_grpc ? take_calls(wakeup) : take_messages(wakeup);
}

/* false: the stream has ended. */
static bool read_bytes(tl_wakeup *wakeup) {
    char buffer[READ_SIZE];
    wakeup->more = true;
    for (int i = 0; i < READS_MAX && wakeup->more; i++) {
        ssize_t n = tl__stream_read(&wakeup->stream, buffer, sizeof buffer, &wakeup->more);
        if (n <= 0)
            return n == 0;
        if (!take_fed(wakeup, buffer, (size_t)n))
            return false;
    }
    return true;
}

static bool go_on(tl_wakeup *wakeup, tl_mono now) {
    if (wakeup->state == TL_WATCH_OPENING) {
        tl__stream_drive(&wakeup->stream, now);
        if (wakeup->stream.state == TL_STREAM_FAILED)
            return false;
        if (wakeup->stream.state != TL_STREAM_OPEN)
            return true;
        if (!(wakeup->stream.endpoint->user[0] && !wakeup->token.p ? say_login(wakeup)
                                                                   : say_watch(wakeup)))
            return false;
    }
    bool was_up = wakeup->state == TL_WATCH_UP;
    if (!write_bytes(wakeup) || !read_bytes(wakeup) || !write_bytes(wakeup))
        return false;
    if (!was_up && wakeup->state == TL_WATCH_UP)
        wakeup->caught_up_at = tl__mono_add_ms(now, TL_WATCH_CATCH_UP_MS);
    return wakeup->state == TL_WATCH_UP || tl__mono_before(now, wakeup->by);
}

/* When the patient topic that has waited longest is to be watched. */
static tl_mono patience_ends(const tl_wakeup *wakeup) {
    tl_mono oldest = TL_NEVER;
    for (const tl_topic *topic = wakeup->topics.first; topic; topic = topic->next)
        if (topic->patient && topic->asked == 0 && !topic->compacted)
            oldest = tl__mono_min(oldest, topic->since);
    if (oldest.ns == TL_NEVER.ns)
        return TL_NEVER;
    int64_t pause_ms = (int64_t)wakeup->topics.count * TL_WATCH_EACH_MS;
    return tl__mono_max(tl__mono_add_ms(oldest, TL_WATCH_GATHER_MS),
                        tl__mono_add_ms(wakeup->asked_at, pause_ms));
}

/* Watch the patient topics when it is time. A lock that is held only briefly never gets so far. */
static void mind_patient(tl_wakeup *wakeup, tl_mono now) {
    if (tl__mono_before(now, wakeup->look_at))
        return;
    wakeup->look_at = patience_ends(wakeup);
    if (tl__mono_before(now, wakeup->look_at))
        return;
    wakeup->look_at = TL_NEVER;
    wakeup->stale = wakeup->state >= TL_WATCH_ASKING;
    if (!wakeup->wanted)
        wakeup->retry_at = now;
    wakeup->wanted = true;
}

static void drive(tl_wakeup *wakeup, tl_mono now) {
    mind_patient(wakeup, now);
    wakeup->wanted = wakeup->wanted && wakeup->topics.count > 0;
    bool elsewhere = wakeup->member != atomic_load(&wakeup->members->at);
    bool over = wakeup->stale && !tl__mono_before(now, owes_until(wakeup));
    if (wakeup->state != TL_WATCH_DOWN && (!wakeup->wanted || over || elsewhere)) {
        close_stream(wakeup);
        wakeup->retry_at = now;
    }
    if (wakeup->state == TL_WATCH_DOWN && wakeup->wanted && !tl__mono_before(now, wakeup->retry_at))
        begin(wakeup, now);
    if (wakeup->state != TL_WATCH_DOWN && !go_on(wakeup, now))
        lose(wakeup, now);
}

static bool is_up(const tl_wakeup *wakeup) {
    return wakeup->state == TL_WATCH_UP;
}

static int fd(const tl_wakeup *wakeup) {
    return wakeup->state == TL_WATCH_DOWN ? -1 : tl__stream_fd(&wakeup->stream);
}

static short events(const tl_wakeup *wakeup) {
    bool writing = wakeup->by_grpc ? wakeup->blocked || tl__grpc_has_output(wakeup->grpc)
                                   : wakeup->done < wakeup->size;
    return wakeup->state == TL_WATCH_DOWN ? 0 : tl__stream_events(&wakeup->stream, writing);
}

static tl_mono until(const tl_wakeup *wakeup) {
    const tl_mono at_once = {0};
    if (wakeup->state == TL_WATCH_DOWN)
        return tl__mono_min(wakeup->look_at, wakeup->wanted ? wakeup->retry_at : TL_NEVER);
    if (wakeup->more || wakeup->topics.count == 0)
        return at_once;
    if (wakeup->state == TL_WATCH_OPENING)
        return tl__mono_min(wakeup->by, tl__stream_until(&wakeup->stream));
    return tl__mono_min(wakeup->state == TL_WATCH_UP ? wakeup->look_at : wakeup->by,
                        wakeup->stale ? owes_until(wakeup) : TL_NEVER);
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
