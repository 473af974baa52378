/*
 * The keeper's renewals of many locks, joined into one request. If the server refuses the request, its
 * members are sent one by one. So a problem with one key, or with asking for several at once, costs no other
 * lock its renewal.
 */
#include <stdlib.h>

#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "client/run.h"
#include "ground/guard.h"
#include "wire/keys.h"

#define OPEN_MAX 16      /* slots for which renewals are gathered at a time */
#define SINGLES_MAX 1024 /* single members in flight; the others wait until one is answered */

/* ---- joining --------------------------------------------------------------------------------- */

static void give_batch(tl_keeper *keeper, tl_batch *batch) {
    if (keeper->batches_spared > tl__keeper_spares_max(keeper) / TL_BATCH_MAX) {
        tl__batch_free(batch);
        return;
    }
    tl__batch_clear(batch);
    keeper->batches_spared++;
    batch->next = keeper->spare_batches;
    keeper->spare_batches = batch;
}

static tl_batch *take_batch(tl_keeper *keeper) {
    tl_batch *batch = keeper->spare_batches;
    if (!batch)
        return tl__batch_new(keeper->client->backend->joiner, &keeper->request);
    keeper->spare_batches = batch->next;
    keeper->batches_spared--;
    return batch;
}

/* The batch for a send to this node. In a cluster a batch has keys of one slot. If the send doesn't fit, or
 * there are OPEN_MAX batches, send all batches and begin a new one. NULL: out of memory. */
static tl_batch *batch_for(tl_keeper *keeper, tl_node *node, uint16_t slot, const tl_send *send,
                           tl_mono now) {
    unsigned open = 0;
    tl_batch *batch = keeper->batch;
    for (; batch && (batch->node != node || batch->slot != slot); batch = batch->next)
        open++;
    if (batch && tl__batch_fits(batch, send, now))
        return batch;
    if (batch || open == OPEN_MAX)
        tl__keeper_flush(keeper); /* if that fails, a machine may send again and join here */
    batch = take_batch(keeper);
    if (!batch)
        return NULL;
    batch->node = node;
    batch->slot = slot;
    batch->next = keeper->batch;
    keeper->batch = batch;
    return batch;
}

bool tl__keeper_join(tl_keeper *keeper, tl_node *node, const tl_send *send, tl_exchange *member,
                     tl_mono now) {
    uint16_t slot = keeper->client->backend->slotted ? tl__hash_slot(send->command[0].argv[0]) : 0;
    tl_batch *batch = batch_for(keeper, node, slot, send, now);
    return batch && tl__batch_add(batch, send, member, now);
}

/* Our own write ends the watching of a key: read the keys behind it, so that they are watched again. */
static void look_again(tl_keeper *keeper, const tl_batch *batch) {
    for (unsigned i = 0; keeper->watching && i < batch->count; i++) {
        const tl_exchange *exchange = batch->member[i].cookie;
        if (exchange->task)
            keeper->watching->look(keeper, exchange->task);
    }
}

/* ---- replies --------------------------------------------------------------------------------- */

/* Give a member its part of the reply. Its task may have ended by now. node NULL: the node
 * that has its key. */
static void tell(tl_keeper *keeper, tl_batch *batch, unsigned i, tl_event e, tl_node *node) {
    tl_exchange *exchange = batch->member[i].cookie;
    tl_task *task = exchange->task;
    tl__keeper_give_exchange(keeper, exchange);
    if (GUARD(ended_member) && !task)
        return;
    task->exchange = NULL;
    e.asked.ticket = batch->member[i].ticket;
    tl__keeper_run_at(keeper, task, &e, node);
}

/* Prefetch a member's task: with very many locks, each is out of the cache. */
static void fetch_soon(const tl_batch *batch, unsigned i) {
    const tl_exchange *exchange = i < batch->count ? batch->member[i].cookie : NULL;
    if (exchange && exchange->task)
        tl__task_fetch(exchange->task);
}

static void tell_unsent(tl_keeper *keeper, tl_batch *batch, unsigned i, tl_mono now, tl_err why,
                        tl_bytes message) {
    tl_event failed = {.kind = TL_FAILED, .now = now, .failed = {.why = why, .message = message}};
    tell(keeper, batch, i, failed, NULL);
}

/* Give all members their parts. A step of one member may end the task of another. */
static void tell_all(tl_keeper *keeper, tl_batch *batch, const tl_event *whole, tl_node *node) {
    tl_batch_part room;
    for (unsigned i = 0; i < batch->count; i++) {
        tl_event e = *whole;
        fetch_soon(batch, i + 2);
        if (e.kind == TL_REPLY)
            e.replied.reply = batch->joiner->part(batch, whole, i, &room);
        tell(keeper, batch, i, e, node);
    }
    give_batch(keeper, batch);
}

/* ---- one by one ------------------------------------------------------------------------------ */

static void ask_one(tl_keeper *keeper, tl_batch *batch, unsigned i) {
    tl_exchange *exchange = batch->member[i].cookie;
    tl_task *task = exchange->task;
    if (!task) {
        tl__keeper_give_exchange(keeper, exchange);
        return;
    }
    tl_mono now = tl__mono_now();
    const tl_send *send = tl__batch_send_one(batch, i);
    tl_conn *conn = tl__keeper_conn(keeper, batch->node);
    tl_err code = send && conn ? tl__conn_send(conn, send, exchange, now) : TL_ENOMEM;
    if (code) {
        tell_unsent(keeper, batch, i, now, code,
                    send ? tl__run_refused(send, code, now).failed.message
                         : TL_LITERAL("out of memory"));
        return;
    }
    *exchange = (tl_exchange){.task = task, .single = true};
    keeper->singles++;
    if (keeper->watching)
        keeper->watching->look(keeper, task);
    tl__keeper_wake_writer(keeper);
}

/* Send single members. That may run a machine, which may add more of them: so read the
 * list anew each time. */
static void ask_singly(tl_keeper *keeper) {
    while (keeper->singly && keeper->singles < SINGLES_MAX) {
        tl_batch *batch = keeper->singly;
        if (batch->asked < batch->count) {
            ask_one(keeper, batch, batch->asked++);
            continue;
        }
        keeper->singly = batch->next;
        if (!keeper->singly)
            keeper->singly_end = &keeper->singly;
        give_batch(keeper, batch);
    }
}

static void begin_singly(tl_keeper *keeper, tl_batch *batch) {
    batch->asked = 0;
    batch->next = NULL;
    *keeper->singly_end = batch;
    keeper->singly_end = &batch->next;
    ask_singly(keeper);
}

void tl__keeper_asked_one(tl_keeper *keeper) {
    keeper->singles--;
    ask_singly(keeper);
}

tl_mono tl__keeper_singly_until(const tl_keeper *keeper) {
    tl_mono until = TL_NEVER;
    for (const tl_batch *batch = keeper->singly; batch; batch = batch->next)
        if (batch->asked < batch->count)
            until = tl__mono_min(until, batch->by);
    return until;
}

static tl_batch *find_overdue(const tl_keeper *keeper, tl_mono now) {
    tl_batch *batch = keeper->singly;
    while (batch && (batch->asked == batch->count || tl__mono_before(now, batch->by)))
        batch = batch->next;
    return batch;
}

void tl__keeper_expire_singly(tl_keeper *keeper, tl_mono now) {
    for (tl_batch *batch; (batch = find_overdue(keeper, now));)
        tell_unsent(keeper, batch, batch->asked++, now, TL_EUNAVAILABLE,
                    TL_LITERAL("not sent in time"));
    ask_singly(keeper); /* takes finished batches out of the list */
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_batch(tl_keeper *keeper, tl_batch *batch) {
    if (keeper->apart && batch->count > 1) {
        begin_singly(keeper, batch);
        return;
    }
    const tl_send *send = batch->count > 0 ? tl__batch_send(batch) : NULL;
    tl_conn *conn = tl__keeper_conn(keeper, batch->node);
    tl_exchange *exchange = send && conn ? tl__keeper_take_exchange(keeper) : NULL;
    tl_mono now = tl__mono_now();
    tl_err why = TL_ENOMEM;
    if (exchange) {
        *exchange = (tl_exchange){.batch = batch};
        why = tl__conn_send(conn, send, exchange, now);
        if (why == TL_OK) {
            look_again(keeper, batch);
            tl__keeper_wake_writer(keeper);
            return;
        }
        tl__keeper_give_exchange(keeper, exchange);
    }
    tl_event failed = send ? tl__run_refused(send, why, now)
                           : (tl_event){.kind = TL_FAILED,
                                        .now = now,
                                        .failed = {.why = TL_ENOMEM,
                                                   .message = TL_LITERAL("out of memory")}};
    tell_all(keeper, batch, &failed, NULL);
}

void tl__keeper_flush(tl_keeper *keeper) {
    tl_batch *list = keeper->batch;
    keeper->batch = NULL;
    for (tl_batch *batch = list, *next; batch; batch = next) {
        next = batch->next;
        send_batch(keeper, batch);
    }
}

static void part(tl_keeper *keeper, const tl_event *refused) {
    keeper->apart = true;
    keeper->apart_run = refused->asked.run;
    keeper->apart_generation = refused->asked.generation;
}

/* A server that has refused a joined request will do so over any connection. A server that doesn't report
 * its run may be the same one. In a cluster a batch has keys of one slot: if a node refuses even that, no
 * node gets one again. */
void tl__keeper_joins_anew(tl_keeper *keeper) {
    if (GUARD(cluster_stays_apart) && keeper->client->backend->slotted)
        return;
    uint64_t run = tl__conn_run(keeper->first.conn);
    bool other = run != keeper->apart_run ||
                 tl__conn_generation(keeper->first.conn) != keeper->apart_generation;
    keeper->apart = keeper->apart && !other;
}

void tl__keeper_deal_out(tl_keeper *keeper, tl_batch *batch, const tl_event *whole, tl_node *node) {
    tl_batch_refusal refusal = tl__batch_refused(batch, whole);
    if (refusal == TL_BATCH_NEVER)
        part(keeper, whole);
    if (refusal == TL_BATCH_ALL)
        tell_all(keeper, batch, whole, node);
    else
        begin_singly(keeper, batch);
}

void tl__keeper_free_batches(tl_keeper *keeper) {
    for (tl_batch *batch = keeper->singly; batch; batch = batch->next)
        while (batch->asked < batch->count)
            free(batch->member[batch->asked++].cookie);
    tl_batch *const lists[] = {keeper->singly, keeper->spare_batches};
    free(keeper->request.p);
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        for (tl_batch *batch = lists[i], *next; batch; batch = next) {
            next = batch->next;
            tl__batch_free(batch);
        }
}
