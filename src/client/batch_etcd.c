/*
 * Joined renewals on etcd: a new lease, and one transaction that puts all keys under it, or none. The lease's
 * number is higher than those that the sends were built with. A renewal that is sent alone uses the lease
 * that it was built with.
 */
#include "client/batch.h"
#include "ground/bytes.h"
#include "ground/guard.h"

#define OWN_MAX ((size_t)96 << 10) /* bytes of keys; each is in the transaction three times */

/* Arguments, as protocol_etcd builds them: GRANT lease seconds; KEEP K suffix revision lease changed. */
enum { LEASE = 1, SECONDS, MINE = 1, OF_KEEP = 4, CHANGED = 5 };

/* Comparisons of a renewal: one if it is known when the key was changed last, else two. */
static unsigned ops_of(const tl_send *send) {
    return tl__bytes_eq(send->command[1].argv[CHANGED], TL_LITERAL("0")) ? 2 : 1;
}

static bool fits(const tl_batch *batch, const tl_send *send, tl_mono now) {
    size_t n = send->command[1].argv[MINE].n;
    (void)now;
    return (!GUARD(fits_transaction) ||
            (batch->count < TL_BATCH_ETCD_MAX && batch->ops + ops_of(send) <= TL_ETCD_OPS_MAX)) &&
           batch->own.n + n <= OWN_MAX && send->command[0].alike == batch->send.command[0].alike;
}

static void first_key(tl_batch *batch, const tl_send *send, tl_mono now) {
    const tl_bytes *argv = send->command[0].argv;
    tl__batch_clear(batch);
    batch->send = *send;
    batch->now = now;
    batch->by = send->by;
    tl__bytes_print(batch->seconds, sizeof batch->seconds, argv[SECONDS]);
}

static bool add(tl_batch *batch, const tl_send *send, void *cookie, tl_mono now) {
    const tl_bytes *argv = send->command[1].argv;
    const tl_bytes mine[TL_ETCD_KEEPS_EACH] = {argv[MINE], argv[MINE + 1], argv[MINE + 2],
                                               argv[CHANGED]};
    int64_t lease;
    if (batch->count == 0)
        first_key(batch, send, now);
    if (!tl__bytes_to_int(argv[OF_KEEP], &lease) ||
        !tl__batch_append(&batch->own, mine, TL_ETCD_KEEPS_EACH))
        return false;
    batch->by = tl__mono_min(batch->by, send->by);
    batch->lease = lease > batch->lease ? lease : batch->lease;
    batch->ops += ops_of(send);
    batch->member[batch->count++] = (tl_batch_member){cookie, send->ticket, .own_end = batch->own.n,
                                                      .lease = lease};
    return true;
}

static const tl_send *transaction_for(tl_batch *batch, unsigned first, unsigned count) {
    size_t from = first > 0 ? batch->member[first - 1].own_end : 0;
    int64_t lease = count > 1 ? batch->lease + 1 : batch->member[first].lease;
    tl_bytes text = tl__bytes_from_int(batch->lease_text, lease);
    batch->send.count = 2;
    batch->send.command[0] = (tl_command){
        .form = TL_ARGV,
        .argc = 3,
        .alike = batch->send.command[0].alike,
        .argv = {TL_LITERAL("GRANT"), text, tl__bytes_of(batch->seconds)}};
    batch->send.command[1] = (tl_command){
        .form = TL_ARGV,
        .argc = 2,
        .argv = {TL_LITERAL("KEEPS"), text},
        .more_argc = (uint16_t)(count * TL_ETCD_KEEPS_EACH),
        .more = tl__bytes(batch->own.p + from, batch->member[first + count - 1].own_end - from)};
    batch->send.by = batch->by;
    return &batch->send;
}

/* The member's own response, as in the reply to a request of its own, and the lease. */
void tl__batch_reply_of_etcd(const tl_batch *batch, const tl_event *whole, unsigned i,
                             tl_reply ret[2], tl_reply items[TL_BATCH_ITEMS]) {
    ret[0] = whole->replied.reply[0];
    ret[1] = whole->replied.reply[whole->replied.count - 1];
    if (ret[1].type != TL_REPLY_ARRAY || batch->count < 2)
        return;
    if (ret[1].count != TL_ETCD_RESPONSES + batch->count) {
        ret[1] = (tl_reply){.type = TL_REPLY_NIL};
        return;
    }
    for (unsigned k = 0; k < TL_ETCD_RESPONSES; k++)
        items[k] = ret[1].items[k];
    items[TL_ETCD_RESPONSES] = ret[1].items[TL_ETCD_RESPONSES + GUARD(own_etcd_response) * i];
    items[TL_ETCD_JOINED] = (tl_reply){.type = TL_REPLY_INT, .integer = batch->lease + 1};
    ret[1].items = items;
    ret[1].count = TL_ETCD_JOINED + 1;
}

static const tl_reply *part(const tl_batch *batch, const tl_event *whole, unsigned i,
                            tl_batch_part *p) {
    if (whole->replied.count != 2)
        return whole->replied.reply;
    tl__batch_reply_of_etcd(batch, whole, i, p->reply, p->items);
    return p->reply;
}

static tl_batch_refusal refused(const tl_batch *batch, const tl_event *whole) {
    const tl_reply *last = &whole->replied.reply[whole->replied.count - 1];
    (void)batch;
    bool singly = last->type == TL_REPLY_ERROR && GUARD(one_etcd_keys_refusal) &&
                  tl__etcd_is_of_request(last->text);
    return singly ? TL_BATCH_SINGLY : TL_BATCH_ALL;
}

const tl_joiner tl__joiner_of_etcd = {.most = TL_BATCH_ETCD_MAX,
                                      .fits = fits,
                                      .add = add,
                                      .send = transaction_for,
                                      .refused = refused,
                                      .part = part};
