/*
 * Joins the sends of many machines into one request, and splits its reply again.
 *
 * It knows the order of arguments that all these scripts share, but not their meaning: keys, head, for each
 * lock its own arguments, tail. Head and tail contain times, so only sends built at the same instant are
 * joined. The tail begins with not_after, until when the server may execute the request. The joined request
 * has the tail of the send with the earliest not_after.
 */
#include "client/batch.h"

#include <stdlib.h>

#include "ground/bytes.h"
#include "ground/guard.h"

#define ROOM 512

tl_batch *tl__batch_new(const tl_joiner *joiner, tl_batch_bytes *request) {
    tl_batch *batch = calloc(1, sizeof *batch);
    if (batch)
        *batch = (tl_batch){.joiner = joiner, .request = request};
    return batch;
}

void tl__batch_free(tl_batch *batch) {
    if (!batch)
        return;
    free(batch->keys.p);
    free(batch->own.p);
    free(batch->head.p);
    free(batch->tail.p);
    free(batch->behind.p);
    free(batch);
}

void tl__batch_clear(tl_batch *batch) {
    batch->count = batch->asked = 0;
    batch->keys.n = batch->own.n = batch->head.n = batch->tail.n = batch->behind.n = 0;
    batch->ops = 0;
    batch->lease = 0;
}

bool tl__batch_fits(const tl_batch *batch, const tl_send *send, tl_mono now) {
    int64_t left = tl__ns_until(now, send->by), whole = tl__ns_until(now, batch->by);
    return batch->count == 0 ||
           (batch->joiner->fits(batch, send, now) && left / 2 <= whole && whole / 2 <= left);
}

bool tl__batch_add(tl_batch *batch, const tl_send *send, void *cookie, tl_mono now) {
    return batch->joiner->add(batch, send, cookie, now);
}

const tl_send *tl__batch_send(tl_batch *batch) {
    return batch->joiner->send(batch, 0, batch->count);
}

const tl_send *tl__batch_send_one(tl_batch *batch, unsigned i) {
    const tl_send *send = batch->joiner->send(batch, i, 1);
    batch->send.ticket = batch->member[i].ticket;
    return send;
}

tl_batch_refusal tl__batch_refused(const tl_batch *batch, const tl_event *whole) {
    return whole->kind != TL_REPLY || batch->count < 2 ? TL_BATCH_ALL
                                                       : batch->joiner->refused(batch, whole);
}

/* ---- scripts --------------------------------------------------------------------------------- */

static bool fits(const tl_batch *batch, const tl_send *send, tl_mono now) {
    const tl_command *command = &send->command[0], *of = &batch->send.command[0];
    return batch->count < TL_BATCH_MAX && now.ns == batch->now.ns &&
           command->script == of->script && command->each == of->each &&
           command->alike == of->alike && send->count == batch->send.count &&
           send->generation == batch->send.generation;
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

static bool first(tl_batch *batch, const tl_send *send, tl_mono now) {
    const tl_command *command = &send->command[0];
    tl__batch_clear(batch); /* a send that could not be joined may have left something */
    batch->send = *send;
    batch->nkeys = command->nkeys;
    batch->now = now;
    batch->by = send->by;
    if (send->count > 1 &&
        !tl__batch_append(&batch->behind, send->command[1].argv, send->command[1].argc))
        return false;
    return tl__batch_append(&batch->head, command->argv + command->nkeys, command->head);
}

/* not_after in us of the server's clock; 0 means no limit. */
static int64_t limit_of(tl_bytes not_after) {
    int64_t us;
    return tl__bytes_to_int(not_after, &us) && us > 0 ? us : INT64_MAX;
}

/* Is `limit` no earlier than `than`, as a comparison of the texts shows? With equally many digits and no
 * sign, the later one is the greater text. */
static bool is_no_sooner(tl_bytes limit, tl_bytes than) {
    return (limit.n == than.n || !GUARD(longer_limit_is_later)) && limit.n > 0 &&
           than.p[0] >= '1' && than.p[0] <= '9' && memcmp(limit.p, than.p, limit.n) >= 0;
}

/* The earliest limits count for all. The limit by our clock and the limit by the server's clock may come from
 * different sends. Another tail needs no more memory: a tail is short, and fits the room of the first. */
static bool keep_tail(tl_batch *batch, const tl_send *send) {
    const tl_command *command = &send->command[0];
    const tl_bytes *tail = command->argv + command->argc - TL_JOIN_TAIL;
    batch->by = tl__mono_min(batch->by, send->by);
    if (batch->tail.n > 0 && is_no_sooner(tail[0], tl__bytes(batch->limit, batch->limit_n)))
        return true;
    int64_t not_after = limit_of(tail[0]);
    if (GUARD(soonest_limit_counts) && batch->tail.n > 0 && not_after >= batch->not_after)
        return true;
    batch->tail.n = 0;
    batch->not_after = not_after;
    batch->limit_n = (uint8_t)(tail[0].n < sizeof batch->limit ? tail[0].n : 0);
    memcpy(batch->limit, tail[0].p, batch->limit_n);
    return tl__batch_append(&batch->tail, tail, TL_JOIN_TAIL);
}

static bool add(tl_batch *batch, const tl_send *send, void *cookie, tl_mono now) {
    const tl_command *command = &send->command[0];
    size_t keys = batch->keys.n, own = batch->own.n;
    if ((batch->count == 0 && !first(batch, send, now)) ||
        !tl__batch_append(&batch->keys, command->argv, command->nkeys) ||
        !tl__batch_append(&batch->own, command->argv + command->nkeys + command->head,
                          command->each) ||
        !keep_tail(batch, send)) {
        batch->keys.n = keys;
        batch->own.n = own;
        return false;
    }
    batch->member[batch->count++] = (tl_batch_member){cookie, send->ticket, batch->keys.n,
                                                      batch->own.n, 0};
    return true;
}

static bool put(tl_batch_bytes *to, const char *from, size_t n) {
    if (!reserve(to, n))
        return false;
    if (n > 0) /* else both pointers may be NULL */
        memcpy(to->p + to->n, from, n);
    to->n += n;
    return true;
}

static const tl_send *send_for(tl_batch *batch, unsigned first, unsigned count) {
    const tl_batch_member *last = &batch->member[first + count - 1];
    size_t keys = first > 0 ? batch->member[first - 1].keys_end : 0;
    size_t own = first > 0 ? batch->member[first - 1].own_end : 0;
    tl_command *command = &batch->send.command[0];
    batch->request->n = 0;
    if (!put(batch->request, batch->keys.p + keys, last->keys_end - keys) ||
        !put(batch->request, batch->head.p, batch->head.n) ||
        !put(batch->request, batch->own.p + own, last->own_end - own) ||
        !put(batch->request, batch->tail.p, batch->tail.n))
        return NULL;
    command->nkeys = (uint16_t)(batch->nkeys * count);
    command->argc = 0;
    command->more_argc = (uint16_t)(command->nkeys + command->head + command->each * count +
                                    TL_JOIN_TAIL);
    command->more = tl__bytes(batch->request->p, batch->request->n);
    if (batch->send.count > 1) {
        tl_command *behind = &batch->send.command[1];
        behind->more_argc = (uint16_t)(behind->more_argc + behind->argc);
        behind->argc = 0;
        behind->more = tl__bytes(batch->behind.p, batch->behind.n);
    }
    batch->send.by = batch->by;
    return &batch->send;
}

/* Would each member alone get this error too? Else the error may be about one member, or about asking for
 * several keys at once. An error that passes with time is the same for all. Except while a slot is moved: its
 * keys are found one by one. */
static bool is_everyones(tl_bytes error) {
    return !GUARD(refusal_of_one_key) ||
           (tl__refusal(error) == TL_EUNAVAILABLE &&
            (!tl__bytes_has_word(error, "TRYAGAIN") || !GUARD(split_slot_asks_singly)) &&
            !tl__is_not_local(error));
}

/* A server that says CROSSSLOT will always do so; a cluster's node too, though there a batch has
 * keys of one slot. */
static tl_batch_refusal refused(const tl_batch *batch, const tl_event *whole) {
    (void)batch;
    if (whole->replied.reply->type != TL_REPLY_ERROR || is_everyones(whole->replied.reply->text))
        return TL_BATCH_ALL;
    return tl__bytes_has_word(whole->replied.reply->text, "CROSSSLOT") ? TL_BATCH_NEVER
                                                                       : TL_BATCH_SINGLY;
}

/* Member i's own item if it is among the exceptions, as in the reply to a request of its own; NULL: it isn't.
 * If an item is no valid number, that item. */
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

/* A machine reads its part like the reply to a request of its own: the two items of TIME, then
 * one item, or none. */
void tl__batch_reply(const tl_batch *batch, const tl_reply *whole, unsigned i, tl_reply *ret,
                     tl_reply items[3]) {
    bool exceptions = batch->send.command[0].exceptions;
    *ret = *whole;
    if (whole->type != TL_REPLY_ARRAY || (exceptions && whole->count < 3))
        return;
    *ret = (tl_reply){.type = TL_REPLY_NIL};
    if (exceptions ? whole->count > batch->count + 2 : whole->count != batch->count + 2)
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

/* The server's time is the same for all members: read its text once, and give each the numbers. A reply with
 * only the time, which means success for all, is every member's part as it is. */
static void read_time(const tl_reply *first, tl_batch_part *p) {
    p->whole = *first;
    for (size_t i = 0; i < 2; i++)
        p->time[i] = as_number(tl__reply_item(first, i));
    if (first->type == TL_REPLY_ARRAY && first->count == 2)
        p->whole.items = p->time;
}

static const tl_reply *part(const tl_batch *batch, const tl_event *whole, unsigned i,
                            tl_batch_part *p) {
    if (i == 0)
        read_time(whole->replied.reply, p);
    memcpy(p->reply, whole->replied.reply, whole->replied.count * sizeof *p->reply);
    tl__batch_reply(batch, &p->whole, i, &p->reply[0], p->items);
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
