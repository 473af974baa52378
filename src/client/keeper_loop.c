/*
 * A turn of the caller's loop, with `dispatch`. While its operations follow one another the connection is lent to it:
 * in one turn it reads what was answered, tells it, and writes what has been asked since, on the thread that
 * dispatches. The keeper's thread, which alone lends and whose deadlines no loop may hold up, looks now and then
 * meanwhile: it does what a loop that doesn't turn has left, and takes the connection back.
 *
 * Lent or not, all of it is under the keeper's mutex. The thread polls the connection only while it isn't lent, so that
 * nobody closes a descriptor that another waits for.
 */
#include "client/client.h"
#include "client/keeper_inside.h"
#include "ground/guard.h"
#include "ground/wait.h"

#define LOOK_NS INT64_C(2000000) /* a loop that doesn't turn costs an answer no more than this */
#define PART                                                                                       \
    32 /* so many are told before what they have asked for is written: the server works meanwhile */
#define PARTS 2

void tl__keeper_ring(tl_keeper *k) {
    if (!k->rung)
        tl__wake_post(k->ready);
    k->rung = true;
}

void tl__keeper_wake_writer(tl_keeper *k) {
    if (!k->lent)
        tl__keeper_wake(k);
    else if (GUARD(lent_loop_writes) && k->polling && !k->turning)
        tl__keeper_ring(k);
}

/* Up, with nothing to do for the connection but to read when there is something to be read? */
static bool is_plain(const tl_keeper *k) {
    return tl__conn_up(k->first.conn) && tl__conn_events(k->first.conn) == POLLIN &&
           tl__conn_until(k->first.conn).ns > 0;
}

void tl__keeper_take_back(tl_keeper *k) {
    if (!k->lent)
        return;
    k->lent = false;
    if (GUARD(closed_leaves_loop))
        tl__gather_drop(k->gather, tl__conn_fd(k->first.conn));
    tl__keeper_wake(k);
}

void tl__keeper_lend(tl_keeper *k) {
    bool may = k->busy && !k->lent && !k->closing && is_plain(k);
    k->busy = false;
    if (!may || !tl__gather_add(k->gather, tl__conn_fd(k->first.conn)))
        return;
    k->lent = k->turned = true;
    k->look_at = tl__mono_add_ns(tl__mono_now(), LOOK_NS);
}

tl_mono tl__keeper_loop_until(const tl_keeper *k) {
    return GUARD(lent_loop_writes) && k->lent ? k->look_at : TL_NEVER;
}

/* `heard`: the thread has read something, which the loop should have. */
void tl__keeper_mind_loop(tl_keeper *k, bool heard) {
    tl_mono now = tl__mono_now();
    if (!k->lent || tl__mono_before(now, k->look_at))
        return;
    if (!is_plain(k) || (!k->turned && (heard || tl__conn_idle(k->first.conn))))
        tl__keeper_take_back(k);
    k->turned = false;
    k->look_at = tl__mono_add_ns(now, LOOK_NS);
}

static void write_all(tl_keeper *k) {
    tl__keeper_flush(k);
    tl__conn_write(k->first.conn, tl__mono_now());
    if (k->lent && !is_plain(k))
        tl__conn_drive(k->first.conn, tl__mono_now());
    if (k->lent && !is_plain(k))
        tl__keeper_take_back(k);
}

/* A loop that begins the next operation as soon as one has ended is worth lending to. */
void tl__keeper_began(tl_keeper *k) {
    if (k->lent || k->busy || k->told_at.ns == 0 || tl__keeper_runner(k)->asks_all)
        return; /* a loop is lent one connection, not several */
    k->busy = tl__ns_until(k->told_at, tl__mono_now()) < LOOK_NS;
    if (k->busy)
        tl__keeper_wake(k);
}

unsigned tl__keeper_dispatch(tl_keeper *k) {
    tl__keeper_lock(k);
    if (k->rung)
        tl__wake_clear(k->ready);
    k->rung = false;
    k->turning = k->turned = true;
    if (k->lent) {
        tl__conn_hold(k->first.conn);
        tl__conn_drive(k->first.conn, tl__mono_now());
    }
    if (k->reports && !k->lent)
        k->told_at = tl__mono_now();
    unsigned n = 0, told;
    do {
        if (k->lent)
            tl__conn_hold(k->first.conn);
        n += told = tl__keeper_deliver(k, PART);
        if (k->first.conn)
            write_all(k);
    } while (told == PART && n < PARTS * PART);
    k->turning = false;
    if (GUARD(lent_loop_writes) && k->reports)
        tl__keeper_ring(k);
    tl__keeper_unlock(k);
    return n;
}
