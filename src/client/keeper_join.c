/*
 * The keeper's renewals of many locks, joined into one request. Where the server refuses it,
 * its members are asked one by one: whatever is wrong with one key, or with asking for several at
 * once, must cost no other lock its renewal.
 */
#include <stdlib.h>

#include "client/backend.h"
#include "client/client.h"
#include "client/keeper_inside.h"
#include "client/keeper_link.h"
#include "client/run.h"
#include "ground/guard.h"
#include "wire/keys.h"

#define OPEN_MAX 16      /* slots whose renewals are gathered at a time */
#define SINGLES_MAX 1024 /* in flight at once; the others wait their turn */

/* ---- joining --------------------------------------------------------------------------------- */

static void give_batch(tl_keeper *k, tl_batch *batch) {
    if (k->batches_spared > tl__keeper_spares_max(k) / TL_BATCH_MAX) {
        tl__batch_free(batch);
        return;
    }
    tl__batch_clear(batch);
    k->batches_spared++;
    batch->next = k->spare_batches;
    k->spare_batches = batch;
}

static tl_batch *take_batch(tl_keeper *k) {
    tl_batch *batch = k->spare_batches;
    if (!batch)
        return tl__batch_new(k->client->backend->joiner, &k->request);
    k->spare_batches = batch->next;
    k->batches_spared--;
    return batch;
}

/* Of several nodes a request is for keys of one slot: the first of each is one of its own. What is full or doesn't fit is sent, and
 * the others with it. */
static tl_batch *batch_for(tl_keeper *k, tl_node *node, uint16_t slot, const tl_send *send,
                           tl_mono now) {
    unsigned open = 0;
    tl_batch *batch = k->batch;
    for (; batch && (batch->node != node || batch->slot != slot); batch = batch->next)
        open++;
    if (batch && tl__batch_fits(batch, send, now))
        return batch;
    if (batch || open == OPEN_MAX)
        tl__keeper_flush(k); /* where it fails, those who are told may ask anew */
    batch = take_batch(k);
    if (!batch)
        return NULL;
    batch->node = node;
    batch->slot = slot;
    batch->next = k->batch;
    k->batch = batch;
    return batch;
}

bool tl__keeper_join(tl_keeper *k, tl_node *node, const tl_send *send, tl_exchange *member,
                     tl_mono now) {
    uint16_t slot = k->client->backend->slotted ? tl__hash_slot(send->command[0].argv[0]) : 0;
    tl_batch *batch = batch_for(k, node, slot, send, now);
    return batch && tl__batch_add(batch, send, member, now);
}

/* A key that we write ourselves is watched no longer: read it, right behind. */
static void look_again(tl_keeper *k, const tl_batch *batch) {
    for (unsigned i = 0; k->watching && i < batch->count; i++) {
        const tl_exchange *x = batch->member[i].cookie;
        if (x->task)
            k->watching->look(k, x->task);
    }
}

/* ---- what comes of it ------------------------------------------------------------------------ */

/* A member's part. Its task may be gone by now. NULL: the node that has its key. */
static void tell(tl_keeper *k, tl_batch *batch, unsigned i, tl_event e, tl_node *node) {
    tl_exchange *x = batch->member[i].cookie;
    tl_task *task = x->task;
    tl__keeper_give_exchange(k, x);
    if (GUARD(ended_member) && !task)
        return;
    task->exchange = NULL;
    e.asked.ticket = batch->member[i].ticket;
    tl__keeper_run_at(k, task, &e, node);
}

/* Where there are very many locks each of them is out of the cache. */
static void fetch_soon(const tl_batch *batch, unsigned i) {
    const tl_exchange *x = i < batch->count ? batch->member[i].cookie : NULL;
    if (x && x->task)
        tl__task_fetch(x->task);
}

static void tell_unsent(tl_keeper *k, tl_batch *batch, unsigned i, tl_mono now, tl_err why,
                        tl_bytes words) {
    tl_event failed = {.kind = TL_FAILED, .now = now, .failed = {.why = why, .message = words}};
    tell(k, batch, i, failed, NULL);
}

/* Others may go while one is told. */
static void tell_all(tl_keeper *k, tl_batch *batch, const tl_event *whole, tl_node *node) {
    tl_batch_part room;
    for (unsigned i = 0; i < batch->count; i++) {
        tl_event e = *whole;
        fetch_soon(batch, i + 2);
        if (e.kind == TL_REPLY)
            e.replied.reply = batch->joiner->part(batch, whole, i, &room);
        tell(k, batch, i, e, node);
    }
    give_batch(k, batch);
}

/* ---- one by one ------------------------------------------------------------------------------ */

static void ask_one(tl_keeper *k, tl_batch *batch, unsigned i) {
    tl_exchange *x = batch->member[i].cookie;
    tl_task *task = x->task;
    if (!task) {
        tl__keeper_give_exchange(k, x);
        return;
    }
    tl_mono now = tl__mono_now();
    const tl_send *send = tl__batch_send_one(batch, i);
    tl_conn *conn = tl__keeper_conn(k, batch->node);
    tl_err code = send && conn ? tl__conn_send(conn, send, x, now) : TL_ENOMEM;
    if (code) {
        tell_unsent(k, batch, i, now, code, TL_LITERAL("out of memory"));
        return;
    }
    *x = (tl_exchange){.task = task, .single = true};
    k->singles++;
    if (k->watching)
        k->watching->look(k, task);
    tl__keeper_wake_writer(k);
}

/* Telling one may lead to more of them: nothing here is remembered over it. */
static void ask_singly(tl_keeper *k) {
    while (k->singly && k->singles < SINGLES_MAX) {
        tl_batch *batch = k->singly;
        if (batch->asked < batch->count) {
            ask_one(k, batch, batch->asked++);
            continue;
        }
        k->singly = batch->next;
        if (!k->singly)
            k->singly_end = &k->singly;
        give_batch(k, batch);
    }
}

static void begin_singly(tl_keeper *k, tl_batch *batch) {
    batch->asked = 0;
    batch->next = NULL;
    *k->singly_end = batch;
    k->singly_end = &batch->next;
    ask_singly(k);
}

void tl__keeper_asked_one(tl_keeper *k) {
    k->singles--;
    ask_singly(k);
}

tl_mono tl__keeper_singly_until(const tl_keeper *k) {
    tl_mono until = TL_NEVER;
    for (const tl_batch *batch = k->singly; batch; batch = batch->next)
        if (batch->asked < batch->count)
            until = tl__mono_min(until, batch->by);
    return until;
}

static tl_batch *find_overdue(const tl_keeper *k, tl_mono now) {
    tl_batch *batch = k->singly;
    while (batch && (batch->asked == batch->count || tl__mono_before(now, batch->by)))
        batch = batch->next;
    return batch;
}

void tl__keeper_expire_singly(tl_keeper *k, tl_mono now) {
    for (tl_batch *batch; (batch = find_overdue(k, now));)
        tell_unsent(k, batch, batch->asked++, now, TL_EUNAVAILABLE, TL_LITERAL("not sent in time"));
    ask_singly(k); /* takes out those that nobody waits in any more */
}

/* ---- sending --------------------------------------------------------------------------------- */

static void send_batch(tl_keeper *k, tl_batch *batch) {
    if (k->apart && batch->count > 1) {
        begin_singly(k, batch);
        return;
    }
    const tl_send *send = batch->count > 0 ? tl__batch_send(batch) : NULL;
    tl_conn *conn = tl__keeper_conn(k, batch->node);
    tl_exchange *x = send && conn ? tl__keeper_take_exchange(k) : NULL;
    tl_mono now = tl__mono_now();
    tl_err why = TL_ENOMEM;
    if (x) {
        *x = (tl_exchange){.batch = batch};
        why = tl__conn_send(conn, send, x, now);
        if (why == TL_OK) {
            look_again(k, batch);
            tl__keeper_wake_writer(k);
            return;
        }
        tl__keeper_give_exchange(k, x);
    }
    tl_event failed = send ? tl__run_refused(send, why, now)
                           : (tl_event){.kind = TL_FAILED,
                                        .now = now,
                                        .failed = {.why = TL_ENOMEM,
                                                   .message = TL_LITERAL("out of memory")}};
    tell_all(k, batch, &failed, NULL);
}

void tl__keeper_flush(tl_keeper *k) {
    tl_batch *list = k->batch;
    k->batch = NULL;
    for (tl_batch *batch = list, *next; batch; batch = next) {
        next = batch->next;
        send_batch(k, batch);
    }
}

static void part(tl_keeper *k, const tl_event *refused) {
    k->apart = true;
    k->apart_run = refused->asked.run;
    k->apart_generation = refused->asked.generation;
}

/* The same server, over whatever connection, will refuse the next, too. One that doesn't tell its run may be the same. Of several
 * nodes one that does so for keys of one slot is beyond us: none is asked so any more. */
void tl__keeper_joins_anew(tl_keeper *k) {
    if (GUARD(cluster_stays_apart) && k->client->backend->slotted)
        return;
    uint64_t run = tl__conn_run(k->first.conn);
    bool other = run != k->apart_run || tl__conn_generation(k->first.conn) != k->apart_generation;
    k->apart = k->apart && !other;
}

void tl__keeper_deal_out(tl_keeper *k, tl_batch *batch, const tl_event *whole, tl_node *node) {
    tl_batch_refusal refusal = tl__batch_refused(batch, whole);
    if (refusal == TL_BATCH_NEVER)
        part(k, whole);
    if (refusal == TL_BATCH_ALL)
        tell_all(k, batch, whole, node);
    else
        begin_singly(k, batch);
}

void tl__keeper_free_batches(tl_keeper *k) {
    for (tl_batch *batch = k->singly; batch; batch = batch->next)
        while (batch->asked < batch->count)
            free(batch->member[batch->asked++].cookie);
    tl_batch *const lists[] = {k->singly, k->spare_batches};
    free(k->request.p);
    for (unsigned i = 0; i < sizeof lists / sizeof *lists; i++)
        for (tl_batch *batch = lists[i], *next; batch; batch = next) {
            next = batch->next;
            tl__batch_free(batch);
        }
}
