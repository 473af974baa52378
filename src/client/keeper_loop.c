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

void tl__keeper_ring(tl_keeper *keeper) {
    if (!keeper->rung)
        tl__wake_post(keeper->ready);
    keeper->rung = true;
}

void tl__keeper_wake_writer(tl_keeper *keeper) {
    if (!keeper->lent)
        tl__keeper_wake(keeper);
    else if (GUARD(lent_loop_writes) && keeper->polling && !keeper->turning)
        tl__keeper_ring(keeper);
}

/* Up, with nothing to do for the connection but to read when there is something to be read? */
static bool is_plain(const tl_keeper *keeper) {
    return tl__conn_up(keeper->first.conn) && tl__conn_events(keeper->first.conn) == POLLIN &&
           tl__conn_until(keeper->first.conn).ns > 0;
}

void tl__keeper_take_back(tl_keeper *keeper) {
    if (!keeper->lent)
        return;
    keeper->lent = false;
    if (GUARD(closed_leaves_loop))
        tl__gather_drop(keeper->gather, tl__conn_fd(keeper->first.conn));
    tl__keeper_wake(keeper);
}

void tl__keeper_lend(tl_keeper *keeper) {
    bool may = keeper->busy && !keeper->lent && !keeper->closing && is_plain(keeper);
    keeper->busy = false;
    if (!may || !tl__gather_add(keeper->gather, tl__conn_fd(keeper->first.conn)))
        return;
    keeper->lent = keeper->turned = true;
    keeper->look_at = tl__mono_add_ns(tl__mono_now(), LOOK_NS);
}

tl_mono tl__keeper_loop_until(const tl_keeper *keeper) {
    return GUARD(lent_loop_writes) && keeper->lent ? keeper->look_at : TL_NEVER;
}

/* `heard`: the thread has read something, which the loop should have. */
void tl__keeper_mind_loop(tl_keeper *keeper, bool heard) {
    tl_mono now = tl__mono_now();
    if (!keeper->lent || tl__mono_before(now, keeper->look_at))
        return;
    if (!is_plain(keeper) || (!keeper->turned && (heard || tl__conn_idle(keeper->first.conn))))
        tl__keeper_take_back(keeper);
    keeper->turned = false;
    keeper->look_at = tl__mono_add_ns(now, LOOK_NS);
}

static void write_all(tl_keeper *keeper) {
    tl__keeper_flush(keeper);
    tl__conn_write(keeper->first.conn, tl__mono_now());
    if (keeper->lent && !is_plain(keeper))
        tl__conn_drive(keeper->first.conn, tl__mono_now());
    if (keeper->lent && !is_plain(keeper))
        tl__keeper_take_back(keeper);
}

/* A loop that begins the next operation as soon as one has ended is worth lending to. */
void tl__keeper_began(tl_keeper *keeper) {
    if (keeper->lent || keeper->busy || keeper->reported_at.ns == 0 ||
        tl__keeper_runner(keeper)->asks_all)
        return; /* a loop is lent one connection, not several */
    keeper->busy = tl__ns_until(keeper->reported_at, tl__mono_now()) < LOOK_NS;
    if (keeper->busy)
        tl__keeper_wake(keeper);
}

unsigned tl__keeper_dispatch(tl_keeper *keeper) {
    tl__keeper_lock(keeper);
    if (keeper->rung)
        tl__wake_clear(keeper->ready);
    keeper->rung = false;
    keeper->turning = keeper->turned = true;
    if (keeper->lent) {
        tl__conn_hold(keeper->first.conn);
        tl__conn_drive(keeper->first.conn, tl__mono_now());
    }
    if (keeper->reports && !keeper->lent)
        keeper->reported_at = tl__mono_now();
    unsigned n = 0, delivered;
    do {
        if (keeper->lent)
            tl__conn_hold(keeper->first.conn);
        n += delivered = tl__keeper_deliver(keeper, PART);
        if (keeper->first.conn)
            write_all(keeper);
    } while (delivered == PART && n < PARTS * PART);
    keeper->turning = false;
    if (GUARD(lent_loop_writes) && keeper->reports)
        tl__keeper_ring(keeper);
    tl__keeper_unlock(keeper);
    return n;
}
