/*
 * Joins the sends of many machines into one request, and takes its answer apart again. It
 * knows the order of arguments that all such scripts have in common, and nothing of their meaning:
 * keys, head, for each lock its own, tail. Head and tail hold ideas of the time, so only sends built
 * at one instant are joined. The tail begins with until when the server may carry it out; it is
 * that of the send which may be carried out for the shortest.
 */
#include "client/batch.h"

#include <stdlib.h>

#include "ground/bytes.h"
#include "ground/guard.h"

#define ROOM 512

tl_batch *tl__batch_new(const tl_joiner *joiner, tl_batch_bytes *request) {
    tl_batch *b = calloc(1, sizeof *b);
    if (b)
        *b = (tl_batch){.joiner = joiner, .request = request};
    return b;
}

void tl__batch_free(tl_batch *b) {
    if (!b)
        return;
    free(b->keys.p);
    free(b->own.p);
    free(b->head.p);
    free(b->tail.p);
    free(b->behind.p);
    free(b);
}

void tl__batch_clear(tl_batch *b) {
    b->count = b->asked = 0;
    b->keys.n = b->own.n = b->head.n = b->tail.n = b->behind.n = 0;
    b->ops = 0;
    b->lease = 0;
}

bool tl__batch_fits(const tl_batch *b, const tl_send *send, tl_mono now) {
    int64_t left = tl__ns_until(now, send->by), whole = tl__ns_until(now, b->by);
    return b->count == 0 ||
           (b->joiner->fits(b, send, now) && left / 2 <= whole && whole / 2 <= left);
}

bool tl__batch_add(tl_batch *b, const tl_send *send, void *cookie, tl_mono now) {
    return b->joiner->add(b, send, cookie, now);
}

const tl_send *tl__batch_send(tl_batch *b) {
    return b->joiner->send(b, 0, b->count);
}

const tl_send *tl__batch_send_one(tl_batch *b, unsigned i) {
    const tl_send *send = b->joiner->send(b, i, 1);
    b->send.ticket = b->member[i].ticket;
    return send;
}

tl_batch_refusal tl__batch_refused(const tl_batch *b, const tl_event *whole) {
    return whole->kind != TL_REPLY || b->count < 2 ? TL_BATCH_ALL : b->joiner->refused(b, whole);
}

/* ---- scripts --------------------------------------------------------------------------------- */

static bool fits(const tl_batch *b, const tl_send *send, tl_mono now) {
    const tl_command *c = &send->command[0], *of = &b->send.command[0];
    return b->count < TL_BATCH_MAX && now.ns == b->now.ns && c->script == of->script &&
           c->each == of->each && c->alike == of->alike && send->count == b->send.count &&
           send->generation == b->send.generation;
}

static bool reserve(tl_batch_bytes *to, size_t more) {
    if (more <= to->room - to->n)
        return true;
    size_t room = (to->n + more) * 2 + ROOM;
    char *p = realloc(to->p, room);
    if (!p)
        return false;
    to->p = p;
    to->room = room;
    return true;
}

/* Encoded. */
bool tl__batch_append(tl_batch_bytes *to, const tl_bytes *argv, size_t count) {
    size_t before = to->n;
    for (size_t i = 0; i < count; i++) {
        size_t n = tl__argument_encode(argv[i], to->p ? to->p + to->n : NULL, to->room - to->n);
        if (n > to->room - to->n) {
            if (!reserve(to, n)) {
                to->n = before;
                return false;
            }
            n = tl__argument_encode(argv[i], to->p + to->n, n);
        }
        to->n += n;
    }
    return true;
}

static bool first(tl_batch *b, const tl_send *send, tl_mono now) {
    const tl_command *c = &send->command[0];
    tl__batch_clear(b); /* of one that could not be joined */
    b->send = *send;
    b->nkeys = c->nkeys;
    b->now = now;
    b->by = send->by;
    if (send->count > 1 &&
        !tl__batch_append(&b->behind, send->command[1].argv, send->command[1].argc))
        return false;
    return tl__batch_append(&b->head, c->argv + c->nkeys, c->head);
}

/* Of the server's time; 0 stands for no limit. */
static int64_t limit_of(tl_bytes not_after) {
    int64_t us;
    return tl__bytes_to_int(not_after, &us) && us > 0 ? us : INT64_MAX;
}

/* Is it no sooner, as the texts alone show? Of as many digits, none of them a sign, the later is the greater text. */
static bool is_no_sooner(tl_bytes limit, tl_bytes than) {
    return (limit.n == than.n || !GUARD(longer_limit_is_later)) && limit.n > 0 &&
           than.p[0] >= '1' && than.p[0] <= '9' && memcmp(limit.p, than.p, limit.n) >= 0;
}

/* The sooner limits count for all. The one by our clock and the one by the server's may be of
 * different sends: not each has until the earliest that the server's clock can show. A tail is
 * short, and finds room. */
static bool keep_tail(tl_batch *b, const tl_send *send) {
    const tl_command *c = &send->command[0];
    const tl_bytes *tail = c->argv + c->argc - TL_JOIN_TAIL;
    b->by = tl__mono_min(b->by, send->by);
    if (b->tail.n > 0 && is_no_sooner(tail[0], tl__bytes(b->limit, b->limit_n)))
        return true;
    int64_t not_after = limit_of(tail[0]);
    if (GUARD(soonest_limit_counts) && b->tail.n > 0 && not_after >= b->not_after)
        return true;
    b->tail.n = 0;
    b->not_after = not_after;
    b->limit_n = (uint8_t)(tail[0].n < sizeof b->limit ? tail[0].n : 0);
    memcpy(b->limit, tail[0].p, b->limit_n);
    return tl__batch_append(&b->tail, tail, TL_JOIN_TAIL);
}

static bool add(tl_batch *b, const tl_send *send, void *cookie, tl_mono now) {
    const tl_command *c = &send->command[0];
    size_t keys = b->keys.n, own = b->own.n;
    if ((b->count == 0 && !first(b, send, now)) || !tl__batch_append(&b->keys, c->argv, c->nkeys) ||
        !tl__batch_append(&b->own, c->argv + c->nkeys + c->head, c->each) || !keep_tail(b, send)) {
        b->keys.n = keys;
        b->own.n = own;
        return false;
    }
    b->member[b->count++] = (tl_batch_member){cookie, send->ticket, b->keys.n, b->own.n, 0};
    return true;
}

static bool put(tl_batch_bytes *to, const char *from, size_t n) {
    if (!reserve(to, n))
        return false;
    if (n > 0) /* else there may be nothing at all */
        memcpy(to->p + to->n, from, n);
    to->n += n;
    return true;
}

/* For `count` members, from `first` on. */
static const tl_send *send_for(tl_batch *b, unsigned first, unsigned count) {
    const tl_batch_member *last = &b->member[first + count - 1];
    size_t keys = first > 0 ? b->member[first - 1].keys_end : 0;
    size_t own = first > 0 ? b->member[first - 1].own_end : 0;
    tl_command *c = &b->send.command[0];
    b->request->n = 0;
    if (!put(b->request, b->keys.p + keys, last->keys_end - keys) ||
        !put(b->request, b->head.p, b->head.n) ||
        !put(b->request, b->own.p + own, last->own_end - own) ||
        !put(b->request, b->tail.p, b->tail.n))
        return NULL;
    c->nkeys = (uint16_t)(b->nkeys * count);
    c->argc = 0;
    c->more_argc = (uint16_t)(c->nkeys + c->head + c->each * count + TL_JOIN_TAIL);
    c->more = tl__bytes(b->request->p, b->request->n);
    if (b->send.count > 1) {
        tl_command *behind = &b->send.command[1];
        behind->more_argc = (uint16_t)(behind->more_argc + behind->argc);
        behind->argc = 0;
        behind->more = tl__bytes(b->behind.p, b->behind.n);
    }
    b->send.by = b->by;
    return &b->send;
}

/* Would each of them be answered with this error, too? Else it may be about one of them, or about asking for several keys at
 * once. What passes for one will for all; but keys on the move between nodes are there singly. */
static bool is_everyones(tl_bytes error) {
    return !GUARD(refusal_of_one_key) ||
           (tl__refusal(error) == TL_EUNAVAILABLE &&
            (!tl__bytes_has_word(error, "TRYAGAIN") || !GUARD(split_slot_asks_singly)) &&
            !tl__is_not_local(error));
}

/* One of a cluster's nodes that refuses keys of several slots, though they are of one, does so always. */
static tl_batch_refusal refused(const tl_batch *b, const tl_event *whole) {
    (void)b;
    if (whole->replied.reply->type != TL_REPLY_ERROR || is_everyones(whole->replied.reply->text))
        return TL_BATCH_ALL;
    return tl__bytes_has_word(whole->replied.reply->text, "CROSSSLOT") ? TL_BATCH_NEVER
                                                                       : TL_BATCH_SINGLY;
}

/* Is i among the exceptions? As if it had asked alone: NULL: it isn't; or the first number that is none. */
static const tl_reply *exception(const tl_reply *whole, unsigned i) {
    static const tl_reply own = {.type = TL_REPLY_INT, .integer = 1};
    for (size_t at = 2; at < whole->count; at++) {
        int64_t n;
        if (!tl__reply_int(&whole->items[at], &n) || n == 0)
            return &whole->items[at];
        if (n == (int64_t)i + (GUARD(exception_by_number) ? 1 : 2))
            return &own;
    }
    return NULL;
}

/* A machine reads its own answer as if it had asked alone: the TIME, then one item, or none. */
void tl__batch_reply(const tl_batch *b, const tl_reply *whole, unsigned i, tl_reply *ret,
                     tl_reply items[3]) {
    bool exceptions = b->send.command[0].exceptions;
    *ret = *whole;
    if (whole->type != TL_REPLY_ARRAY || (exceptions && whole->count < 3))
        return;
    *ret = (tl_reply){.type = TL_REPLY_NIL};
    if (exceptions ? whole->count > b->count + 2 : whole->count != b->count + 2)
        return;
    const tl_reply *own = exceptions ? exception(whole, i) : &whole->items[i + 2];
    items[0] = whole->items[0];
    items[1] = whole->items[1];
    if (own)
        items[2] = *own;
    *ret = (tl_reply){.type = TL_REPLY_ARRAY, .items = items, .count = own ? 3 : 2};
}

static tl_reply as_number(const tl_reply *item) {
    int64_t v;
    return tl__reply_int(item, &v) ? (tl_reply){.type = TL_REPLY_INT, .integer = v} : *item;
}

/* The server's time is the same for all: its text is read once, and each is given the numbers. An answer of nothing but
 * that, which all are well with, is itself what each is given. */
static void read_time(const tl_reply *first, tl_batch_part *p) {
    p->whole = *first;
    for (size_t i = 0; i < 2; i++)
        p->time[i] = as_number(tl__reply_item(first, i));
    if (first->type == TL_REPLY_ARRAY && first->count == 2)
        p->whole.items = p->time;
}

static const tl_reply *part(const tl_batch *b, const tl_event *whole, unsigned i,
                            tl_batch_part *p) {
    if (i == 0)
        read_time(whole->replied.reply, p);
    memcpy(p->reply, whole->replied.reply, whole->replied.count * sizeof *p->reply);
    tl__batch_reply(b, &p->whole, i, &p->reply[0], p->items);
    if (p->reply[0].items == p->items)
        memcpy(p->items, p->time, sizeof p->time);
    return p->reply;
}

const tl_joiner tl__joiner_of_scripts = {.most = TL_BATCH_MAX,
                                         .fits = fits,
                                         .add = add,
                                         .send = send_for,
                                         .refused = refused,
                                         .part = part};
