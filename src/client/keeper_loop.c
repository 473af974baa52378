/*
 * A turn of the caller's loop, with `dispatch`. As long as the loop's operations follow one another, the
 * keeper's connection is lent to it. In one turn the dispatching thread reads replies, calls the callbacks,
 * and writes the requests that these have caused. Only the keeper's thread lends. No loop may delay its
 * deadlines, so it looks every 2 ms: if the loop does not dispatch, the thread does what is left and takes
 * the connection back.
 *
 * Lent or not, all of it is under the keeper's mutex. The thread polls the connection only while it is not
 * lent: so no thread closes a descriptor that another one polls.
 */
#include "client/client.h"
#include "client/keeper_inside.h"
#include "ground/guard.h"
#include "ground/wait.h"

#define LOOK_NS INT64_C(2000000) /* a loop that doesn't dispatch delays a reply by at most this */
/* After so many callbacks their requests are written, so that the server works during the next ones. */
#define PART 32
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

/* Is the connection up, and must it only be read when it is readable? */
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

/* `heard`: the thread has read something that the loop should have read. */
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

/* Lend the connection to a loop that begins its next operation within LOOK_NS after one has ended. */
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
