/*
 * Joins the sends of many machines into one request, and takes its answer apart again. It
 * knows the order of arguments that all such scripts have in common, and nothing of their meaning:
 * keys, head, for each lock its own, tail. Head and tail hold ideas of the time, so only sends built
 * at one instant are joined. The tail begins with until when the server may carry it out; it is
 * that of the send which may be carried out for the shortest.
 *
 * On etcd it is a lease, and one transaction that puts all keys under it, or none: its number is higher than those that the
 * sends were built with. A renewal that is asked singly has the one that it was built with.
 */
#include "client/batch.h"

#include <stdlib.h>

#include "ground/bytes.h"
#include "ground/guard.h"

#define ROOM 512
#define OWN_MAX ((size_t)96 << 10) /* of a transaction's keys, each of which is in it three times */

tl_batch *tl__batch_new(tl_batch_bytes *request) {
    tl_batch *b = calloc(1, sizeof *b);
    if (b)
        b->request = request;
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
    b->of_etcd = false;
    b->ops = 0;
    b->lease = 0;
}

static bool is_of_etcd(const tl_send *send) {
    return send->command[0].form == TL_ARGV;
}

/* As protocol_etcd builds it: GRANT lease seconds; KEEP K suffix revision lease changed. */
enum { LEASE = 1, SECONDS, MINE = 1, OF_KEEP = 4, CHANGED = 5 };

/* One where it is known when the key was changed last. */
static unsigned ops_of(const tl_send *send) {
    return tl__bytes_eq(send->command[1].argv[CHANGED], TL_LITERAL("0")) ? 2 : 1;
}

static bool fits_transaction(const tl_batch *b, const tl_send *send) {
    size_t n = send->command[1].argv[MINE].n;
    return b->of_etcd &&
           (!GUARD(fits_transaction) ||
            (b->count < TL_BATCH_ETCD_MAX && b->ops + ops_of(send) <= TL_ETCD_OPS_MAX)) &&
           b->own.n + n <= OWN_MAX && send->command[0].alike == b->send.command[0].alike;
}

bool tl__batch_fits(const tl_batch *b, const tl_send *send, tl_mono now) {
    if (b->count == 0)
        return true;
    const tl_command *c = &send->command[0], *of = &b->send.command[0];
    int64_t left = tl__ns_until(now, send->by), whole = tl__ns_until(now, b->by);
    if (is_of_etcd(send))
        return fits_transaction(b, send) && left / 2 <= whole && whole / 2 <= left;
    return b->count < TL_BATCH_MAX && now.ns == b->now.ns && c->script == of->script &&
           c->each == of->each && c->alike == of->alike && send->count == b->send.count &&
           send->generation == b->send.generation && left / 2 <= whole && whole / 2 <= left;
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
static bool append(tl_batch_bytes *to, const tl_bytes *argv, size_t count) {
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
    if (send->count > 1 && !append(&b->behind, send->command[1].argv, send->command[1].argc))
        return false;
    return append(&b->head, c->argv + c->nkeys, c->head);
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
    return append(&b->tail, tail, TL_JOIN_TAIL);
}

static void first_key(tl_batch *b, const tl_send *send, tl_mono now) {
    const tl_bytes *argv = send->command[0].argv;
    tl__batch_clear(b);
    b->send = *send;
    b->of_etcd = true;
    b->now = now;
    b->by = send->by;
    tl__bytes_print(b->seconds, sizeof b->seconds, argv[SECONDS]);
}

static bool add_key(tl_batch *b, const tl_send *send, void *cookie, tl_mono now) {
    const tl_bytes *argv = send->command[1].argv;
    const tl_bytes mine[TL_ETCD_KEEPS_EACH] = {argv[MINE], argv[MINE + 1], argv[MINE + 2],
                                               argv[CHANGED]};
    int64_t lease;
    if (b->count == 0)
        first_key(b, send, now);
    if (!tl__bytes_to_int(argv[OF_KEEP], &lease) || !append(&b->own, mine, TL_ETCD_KEEPS_EACH))
        return false;
    b->by = tl__mono_min(b->by, send->by);
    b->lease = lease > b->lease ? lease : b->lease;
    b->ops += ops_of(send);
    b->member[b->count++] = (tl_batch_member){cookie, send->ticket, .own_end = b->own.n,
                                              .lease = lease};
    return true;
}

bool tl__batch_add(tl_batch *b, const tl_send *send, void *cookie, tl_mono now) {
    const tl_command *c = &send->command[0];
    if (is_of_etcd(send))
        return add_key(b, send, cookie, now);
    size_t keys = b->keys.n, own = b->own.n;
    if ((b->count == 0 && !first(b, send, now)) || !append(&b->keys, c->argv, c->nkeys) ||
        !append(&b->own, c->argv + c->nkeys + c->head, c->each) || !keep_tail(b, send)) {
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

static const tl_send *transaction_for(tl_batch *b, unsigned first, unsigned count) {
    size_t from = first > 0 ? b->member[first - 1].own_end : 0;
    int64_t lease = count > 1 ? b->lease + 1 : b->member[first].lease;
    tl_bytes text = tl__bytes_from_int(b->lease_text, lease);
    b->send.count = 2;
    b->send.command[0] = (tl_command){
        .form = TL_ARGV,
        .argc = 3,
        .alike = b->send.command[0].alike,
        .argv = {TL_LITERAL("GRANT"), text, tl__bytes_of(b->seconds)}};
    b->send.command[1] = (tl_command){
        .form = TL_ARGV,
        .argc = 2,
        .argv = {TL_LITERAL("KEEPS"), text},
        .more_argc = (uint16_t)(count * TL_ETCD_KEEPS_EACH),
        .more = tl__bytes(b->own.p + from, b->member[first + count - 1].own_end - from)};
    b->send.by = b->by;
    return &b->send;
}

/* For `count` members, from `first` on. */
static const tl_send *send_for(tl_batch *b, unsigned first, unsigned count) {
    const tl_batch_member *last = &b->member[first + count - 1];
    size_t keys = first > 0 ? b->member[first - 1].keys_end : 0;
    size_t own = first > 0 ? b->member[first - 1].own_end : 0;
    tl_command *c = &b->send.command[0];
    if (b->of_etcd)
        return transaction_for(b, first, count);
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

const tl_send *tl__batch_send(tl_batch *b) {
    return send_for(b, 0, b->count);
}

const tl_send *tl__batch_send_one(tl_batch *b, unsigned i) {
    const tl_send *send = send_for(b, i, 1);
    b->send.ticket = b->member[i].ticket;
    return send;
}

/* What passes for one will for all; but keys on the move between nodes are there singly. */
bool tl__batch_is_everyones(tl_bytes error) {
    return !GUARD(refusal_of_one_key) ||
           (tl__refusal(error) == TL_EUNAVAILABLE &&
            (!tl__bytes_has_word(error, "TRYAGAIN") || !GUARD(split_slot_asks_singly)) &&
            !tl__is_not_local(error));
}

bool tl__batch_asks_singly(const tl_batch *b, const tl_event *whole) {
    if (whole->kind != TL_REPLY || b->count < 2)
        return false;
    const tl_reply *decides = &whole->reply[b->of_etcd ? whole->count - 1 : 0];
    if (decides->type != TL_REPLY_ERROR)
        return false;
    return b->of_etcd ? GUARD(one_etcd_keys_refusal) && tl__etcd_is_of_request(decides->text)
                      : !tl__batch_is_everyones(decides->text);
}

/* Its own response, as if it had asked alone, and the lease. */
void tl__batch_reply_of_etcd(const tl_batch *b, const tl_event *whole, unsigned i, tl_reply ret[2],
                             tl_reply items[TL_ETCD_JOINED + 1]) {
    ret[0] = whole->reply[0];
    ret[1] = whole->reply[whole->count - 1];
    if (ret[1].type != TL_REPLY_ARRAY || b->count < 2)
        return;
    if (ret[1].count != TL_ETCD_RESPONSES + b->count) {
        ret[1] = (tl_reply){.type = TL_REPLY_NIL};
        return;
    }
    for (unsigned k = 0; k < TL_ETCD_RESPONSES; k++)
        items[k] = ret[1].items[k];
    items[TL_ETCD_RESPONSES] = ret[1].items[TL_ETCD_RESPONSES + GUARD(own_etcd_response) * i];
    items[TL_ETCD_JOINED] = (tl_reply){.type = TL_REPLY_INT, .integer = b->lease + 1};
    ret[1].items = items;
    ret[1].count = TL_ETCD_JOINED + 1;
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
