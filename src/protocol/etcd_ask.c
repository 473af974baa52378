/*
 * Questions about locks on etcd. Any client may have written the keys and values: they are cut, made
 * printable and never trusted. A break deletes only the key that it has just seen to hold the lock.
 */
#include "protocol/etcd_ask.h"

#include <stdio.h>

#include "ground/glob.h"
#include "ground/guard.h"
#include "protocol/look.h"

#define AT_ONCE 50   /* keys in one step of a scan */
#define LISTED 100   /* keys of a lock that are listed, without their values */
#define READ_AGAIN 8 /* keys of a lock that are read again with their values */
#define AGAIN_MAX 2  /* how many other members it asks */

enum { REACH = 1, FIRST, SECOND, THIRD }; /* exchanges, and their tickets */

static tl_status no_sense(tl_etcd_ask *ask, tl_out *out) {
    return tl__end(ask, TL_ESERVER, TL_LITERAL("malformed reply from etcd"), out);
}

static tl_send *ask(tl_etcd_ask *asking, const tl_event *event, tl_out *out) {
    asking->exchange++;
    tl_mono by = tl__mono_min(tl__mono_add_ms(event->now, asking->attempt_ms), asking->limit);
    return tl__out_send(out, asking->exchange, by);
}

static void add_ttl(tl_send *send, int64_t lease, tl_out *out) {
    tl_command *command = tl__try_command(send);
    TL_ADD(command, TL_LITERAL("TTL"), tl__out_int(out, lease));
}

static tl_status first(tl_etcd_ask *asking, const tl_event *event, tl_out *out) {
    tl_send *send = ask(asking, event, out);
    switch (asking->question) {
    case TL_ETCD_PING: tl__try_add(tl__try_command(send), TL_LITERAL("STATUS")); break;
    case TL_ETCD_LOOKS:
        tl__etcd_see(send, asking->key, (int64_t)asking->most + 1, LISTED, out);
        break;
    case TL_ETCD_BREAKS: tl__etcd_see(send, asking->key, 1, LISTED, out); break;
    case TL_ETCD_SCANS:
        tl__etcd_say(send, TL_LITERAL("SCAN"), tl__out_int(out, (int64_t)asking->cursor),
                     tl__out_int(out, AT_ONCE));
    }
    return TL_GO;
}

/* ---- describing a key ------------------------------------------------------------------------ */

/* The number of K's contenders behind the first key. Keys beyond the listed ones count as contenders. */
static int64_t count_behind(tl_bytes k, const tl_reply *answer) {
    tl_etcd_found f;
    int64_t n = tl__add_sat(tl__etcd_count(answer, 0), -1);
    for (size_t i = 1; n > 0 && tl__etcd_find_name(answer, 1, i, &f); i++)
        n -= !tl__etcd_contends(k, &f);
    return n > 0 ? n : 0;
}

/* Describe a key that blocks K. If it is another lock's, show only that lock's name: the rest of the key is
 * its token. */
static void tell_obstacle(tl_lock_info *info, const tl_etcd_found *found, tl_bytes k) {
    tl_bytes lock = tl__etcd_lock_of(found);
    info->protocol = -1;
    tl__bytes_print(
        info->value, sizeof info->value,
        tl__etcd_suffix_of(lock.n > k.n && GUARD(token_is_not_told) ? lock : found->key, k));
    tl__etcd_obstacle(info->oddity, k, found);
}

_Static_assert(sizeof((tl_lock_info *)0)->oddity == TL_ETCD_OBSTACLE,
               "an obstacle fits into oddity");

/* Describe the holder, or the last one of a lock that rests. A tidelock client has written its owner into the key's
 * value. */
static void tell_holder(tl_lock_info *info, const tl_etcd_found *found, tl_bytes k) {
    char shown[TL_ETCD_SUFFIX_SIZE + 8];
    tl_bytes owner;
    info->rests = tl__etcd_rests(k, found, &owner);
    tl__bytes_print(shown, sizeof shown, tl__etcd_suffix_of(found->key, k));
    (void)snprintf(info->value, sizeof info->value, "%s%s.%lld", info->rests ? "resting " : "",
                   shown, (long long)found->created);
    info->by_tidelock = tl__etcd_is_ours(k, found);
    info->guessed = !info->by_tidelock;
    if (info->by_tidelock)
        tl__look_owner(info->rests ? owner : found->value, info->host, &info->pid, info->service);
}

static void tell_free(tl_lock_info *info) {
    *info = (tl_lock_info){.size = sizeof *info,
                           .remaining_ms = -1,
                           .held_ms = -1,
                           .protocol = -1,
                           .stamp_left_ms = INT64_MIN,
                           .free_at_ms = -1,
                           .rested_ms = -1,
                           .rest_end_ms = -1};
}

static void tell(tl_lock_info *info, const tl_etcd_found *found, tl_bytes k, int64_t waiters) {
    tell_free(info);
    info->held = true;
    info->fence = found->created > 0 ? (uint64_t)found->created : 0;
    info->protocol = TL_TOKEN;
    info->waiters = info->in_line = waiters;
    if (tl__etcd_contends(k, found))
        tell_holder(info, found, k);
    else
        tell_obstacle(info, found, k);
}

static void tell_line(const tl_etcd_ask *ask, const tl_reply *answer) {
    tl_etcd_found f;
    int64_t place = 0;
    for (uint32_t i = 1; i <= ask->most && tl__etcd_find(answer, 0, i, &f); i++) {
        if (!tl__etcd_contends(ask->key, &f))
            continue;
        place++;
        tl_waiting w = {.size = sizeof w, .place = place, .waited_ms = -1, .fair = true};
        tl__look_owner(f.value, w.host, &w.pid, w.service);
        ask->on_waiting(&w, ask->ctx);
    }
}

static void tell_left(tl_lock_info *info, const tl_reply *ttl) {
    int64_t s;
    if (tl__reply_int(tl__reply_item(ttl, 0), &s) && s >= 0)
        info->remaining_ms = tl__mul_sat(s, 1000);
}

/* ---- replies --------------------------------------------------------------------------------- */

static tl_status pinged(tl_etcd_ask *ask, const tl_reply *status, tl_out *out) {
    int64_t leader;
    if (!tl__reply_int(tl__reply_item(status, 1), &leader))
        return no_sense(ask, out);
    return leader != 0 ? TL_END
                       : tl__end(ask, TL_EUNAVAILABLE, TL_LITERAL("etcd has no leader now"), out);
}

static tl_status looked(tl_etcd_ask *asking, const tl_event *event, tl_out *out) {
    tl_etcd_found f;
    if (!tl__etcd_find(event->replied.reply, 0, 0, &f)) {
        tell_free(&asking->info);
        return TL_END;
    }
    tell(&asking->info, &f, asking->key, count_behind(asking->key, event->replied.reply));
    tell_line(asking, event->replied.reply);
    if (f.lease == 0)
        return TL_END;
    add_ttl(ask(asking, event, out), f.lease, out);
    return TL_GO;
}

static tl_status breaks(tl_etcd_ask *asking, const tl_event *event, tl_out *out) {
    tl_etcd_found f;
    if (!tl__etcd_find(event->replied.reply, 0, 0, &f))
        return tl__end(asking, TL_EEXPIRED, TL_LITERAL("nobody holds it"), out);
    if (GUARD(removes_what_was_seen) && asking->seen && asking->seen->fence != (uint64_t)f.created)
        return tl__end(asking, TL_ETAKEN, TL_LITERAL("another holds it by now"), out);
    if (GUARD(unseen_is_not_removed) && !asking->seen && !tl__etcd_contends(asking->key, &f)) {
        char obstacle[TL_ETCD_OBSTACLE];
        tl__etcd_obstacle(obstacle, asking->key, &f);
        return tl__end(asking, TL_EINVALID, tl__bytes_of(obstacle), out);
    }
    tl_bytes suffix = tl__etcd_suffix_of(f.key, asking->key);
    if (suffix.n > sizeof asking->room)
        return tl__end(asking, TL_EINVALID,
                       TL_LITERAL("the key that blocks the lock is too long to be removed"), out);
    asking->room_n = suffix.n; /* the reply is freed before this is sent */
    memcpy(asking->room, suffix.p, suffix.n);
    tl_send *send = ask(asking, event, out);
    tl__etcd_say(send, TL_LITERAL("DROP"), asking->key, tl__bytes(asking->room, asking->room_n));
    tl__etcd_add_int(send, f.created, out);
    return TL_GO;
}

static tl_status broken(tl_etcd_ask *ask, const tl_event *event, tl_out *out) {
    tl_etcd_found f;
    if (tl__etcd_succeeded(event->replied.reply))
        return TL_END;
    return tl__etcd_find(event->replied.reply, 1, 0, &f) && tl__etcd_contends(ask->key, &f)
               ? tl__end(ask, TL_ETAKEN, TL_LITERAL("another holds it by now"), out)
               : tl__end(ask, TL_EEXPIRED, TL_LITERAL("nobody holds it"), out);
}

/* Could this key be a contender for a lock that fits the pattern? *ret is that lock's name. */
static bool is_contender(const tl_etcd_ask *ask, const tl_etcd_found *found, tl_bytes *ret) {
    *ret = tl__etcd_lock_of(found);
    return ret->n > 0 && tl__glob_fits(ask->pattern, *ret);
}

/* Ask about the lock of the first possible contender. The next step of the scan begins behind that key. */
static tl_status scanned(tl_etcd_ask *asking, const tl_event *event, tl_out *out) {
    tl_etcd_found f;
    tl_bytes k;
    size_t i = 0;
    asking->cursor = 0;
    for (; tl__etcd_find_name(event->replied.reply, 0, i, &f); i++) {
        asking->cursor = (uint64_t)f.created + 1;
        if (!is_contender(asking, &f, &k))
            continue;
        tl_send *send = ask(asking, event, out);
        asking->room_n = k.n;
        memcpy(asking->room, k.p, k.n);
        tl__etcd_see(send, tl__bytes(asking->room, asking->room_n), 1, LISTED, out);
        if (f.lease != TL_ETCD_NO_LEASE_KNOWN)
            add_ttl(send, f.lease, out);
        return TL_GO;
    }
    if (i < AT_ONCE)
        asking->cursor = 0;
    return TL_END;
}

/* The first of K's contenders: after the first key by name and lease alone. */
static bool find_contender(const tl_reply *answer, tl_bytes k, tl_etcd_found *ret) {
    bool found = tl__etcd_find(answer, 0, 0, ret);
    for (size_t i = 1; found && !tl__etcd_contends(k, ret); i++)
        found = tl__etcd_find_name(answer, 1, i, ret);
    return found;
}

static bool is_seen_last(const tl_etcd_ask *ask, const tl_etcd_found *found) {
    return (uint64_t)found->created + 1 == ask->cursor;
}

/* Its place among the first keys, behind the very first; 0: it is none of them. */
static uint32_t place_of_last(const tl_etcd_ask *ask, const tl_reply *reply) {
    tl_etcd_found f;
    for (uint32_t i = 1; i < READ_AGAIN && tl__etcd_find_name(reply, 1, i, &f); i++)
        if (is_seen_last(ask, &f))
            return i;
    return 0;
}

/* Etcd has left out the leases behind the first key, and a name alone may be others' data. So read all up to the
 * key that was seen last again, with values and leases. Values may be large: so only a few are read. */
static tl_status read_again(tl_etcd_ask *asking, uint32_t last, const tl_event *event,
                            tl_out *out) {
    asking->listed = last + 1;
    tl__etcd_see(ask(asking, event, out), tl__bytes(asking->room, asking->room_n), asking->listed,
                 LISTED, out);
    return TL_GO;
}

static tl_status found_listed(tl_etcd_ask *ask, const tl_event *event) {
    tl_etcd_found f, first;
    const tl_reply *reply = event->replied.reply;
    tl_bytes k = tl__bytes(ask->room, ask->room_n);
    size_t i = 0;
    while (event->replied.count > 0 && tl__etcd_find(reply, 0, i, &first) &&
           !tl__etcd_contends(k, &first))
        i++;
    if (event->replied.count == 0 || !tl__etcd_find(reply, 0, i, &first) ||
        !is_seen_last(ask, &first) || !tl__etcd_find(reply, 0, 0, &f))
        return TL_END;
    tell(&ask->info, &f, k, count_behind(k, reply));
    ask->found(k.p, k.n, &ask->info, ask->ctx);
    return TL_END;
}

/* The last key seen is the contender whose lock was asked about. Report the lock only if that contender is
 * its first one: the others would report the same lock again. A key that blocks the lock is reported with
 * it. */
static tl_status found(tl_etcd_ask *asking, const tl_event *event, tl_out *out) {
    tl_etcd_found f, first;
    const tl_reply *reply = event->replied.reply;
    if (!tl__etcd_find(reply, 0, 0, &f))
        return TL_END;
    tl_bytes k = tl__bytes(asking->room, asking->room_n);
    bool any = find_contender(reply, k, &first);
    uint32_t last = any && first.lease == TL_ETCD_NO_LEASE_KNOWN ? place_of_last(asking, reply) : 0;
    if (last > 0 && GUARD(names_are_read_again))
        return read_again(asking, last, event, out);
    if (!any || !is_seen_last(asking, &first))
        return TL_END;
    tell(&asking->info, &f, k, count_behind(k, reply));
    bool own = f.created == first.created;
    if (own && event->replied.count == 1) { /* the scan didn't know the lease */
        add_ttl(ask(asking, event, out), f.lease, out);
        return TL_GO;
    }
    if (own)
        tell_left(&asking->info, &reply[1]);
    asking->found(k.p, k.n, &asking->info, asking->ctx);
    return TL_END;
}

static tl_status found_left(tl_etcd_ask *ask, const tl_event *event) {
    if (event->replied.count > 0)
        tell_left(&ask->info, event->replied.reply);
    ask->found(ask->room, ask->room_n, &ask->info, ask->ctx);
    return TL_END;
}

static tl_status reach(tl_etcd_ask *ask, tl_mono by, tl_out *out) {
    ask->exchange = REACH;
    tl__out_send(out, REACH, by);
    return TL_GO;
}

/* A member can't serve, and the connection leads to another one now. May the question be asked again? The
 * first question changes nothing, and nothing has been reported yet. */
static bool asks_another(tl_etcd_ask *ask, const tl_event *event) {
    return ask->exchange == FIRST && tl__mono_before(event->now, ask->limit) &&
           ask->again++ < AGAIN_MAX;
}

static bool is_elsewhere(const tl_event *event) {
    return event->replied.count > 0 && event->replied.reply->type == TL_REPLY_ERROR &&
           tl__etcd_asks_elsewhere(event->replied.reply->text);
}

static tl_status answered(tl_etcd_ask *ask, const tl_event *event, tl_out *out) {
    bool second = ask->exchange == SECOND;
    if (ask->exchange == REACH)
        return first(ask, event, out);
    if (ask->exchange == THIRD)
        return ask->listed > 0 ? found_listed(ask, event) : found_left(ask, event);
    if (is_elsewhere(event) && asks_another(ask, event))
        return reach(ask, ask->limit, out);
    if (event->replied.count < 1)
        return no_sense(ask, out);
    if (event->replied.reply->type == TL_REPLY_ERROR && second && ask->question == TL_ETCD_LOOKS)
        return TL_END; /* the remaining lifetime stays unknown */
    if (event->replied.reply->type == TL_REPLY_ERROR) {
        tl_err code = tl__etcd_refusal(event->replied.reply->text, out);
        bool changes = second && ask->question == TL_ETCD_BREAKS;
        ask->result.code = code == TL_EUNCERTAIN && !changes ? TL_EUNAVAILABLE : code;
        return TL_END;
    }
    if (ask->question == TL_ETCD_PING)
        return pinged(ask, event->replied.reply, out);
    if (second && ask->question == TL_ETCD_LOOKS) {
        tell_left(&ask->info, event->replied.reply);
        return TL_END;
    }
    if (event->replied.reply->type != TL_REPLY_ARRAY ||
        tl__etcd_revision(event->replied.reply) == 0)
        return no_sense(ask, out);
    switch (ask->question) {
    case TL_ETCD_LOOKS: return looked(ask, event, out);
    case TL_ETCD_BREAKS: return second ? broken(ask, event, out) : breaks(ask, event, out);
    default: return second ? found(ask, event, out) : scanned(ask, event, out);
    }
}

static tl_status failed(tl_etcd_ask *ask, const tl_event *event, tl_out *out) {
    bool changes = ask->exchange == SECOND && ask->question == TL_ETCD_BREAKS;
    if (event->failed.maybe_sent && event->failed.why == TL_EUNAVAILABLE &&
        asks_another(ask, event))
        return reach(ask, ask->limit, out);
    return tl__end_failed(ask, event, changes, out);
}

/* A message about a member's failure begins with its address. */
static tl_status answered_by(tl_etcd_ask *ask, const tl_event *event, tl_out *out) {
    tl_status status = answered(ask, event, out);
    bool of_server = tl__is_of_server(ask->result.code) || ask->result.code == TL_EUNCERTAIN;
    if (status == TL_END && of_server)
        tl__out_place(out, event->replied.place);
    return status;
}

tl_status tl__etcd_ask_step(void *machine, const tl_event *event, tl_out *out) {
    tl_etcd_ask *ask = machine;
    switch (event->kind) {
    case TL_START:
        ask->limit = tl__mono_add_ms(tl__mono_add_ms(event->now, ask->connect_ms), ask->attempt_ms);
        return reach(ask, tl__mono_add_ms(event->now, ask->connect_ms), out);
    case TL_REPLY:
        return event->asked.ticket == ask->exchange ? answered_by(ask, event, out) : TL_GO;
    case TL_FAILED: return event->asked.ticket == ask->exchange ? failed(ask, event, out) : TL_GO;
    case TL_CANCEL: return tl__end_cancelled(ask, out);
    default: return TL_GO;
    }
}
