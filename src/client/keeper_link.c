/*
 * The keeper's connections to further nodes. They are made when they are first needed, and stay: an idle one
 * costs a descriptor, and one whose node is gone none.
 */
#include "client/keeper_link.h"

#include <stdlib.h>

#include "client/client.h"
#include "client/keeper_inside.h"
#include "ground/guard.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void on_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_link *l = ctx;
    tl_keeper *k = l->keeper;
    bool first = l == &k->first;
    if (first)
        tl__keeper_joins_anew(k);
    tl__keeper_log_back(k, &l->loss, l->node, now);
    if (tl__node_up(l->node, l->conn, bracket, now) && (!first || GUARD(login_rejudges)))
        k->rejudge = true;
    if (first && k->watching)
        k->watching->anew(k);
}

/* What watches keys must be asked for again, on the next connection. */
static void on_down(void *ctx, tl_bytes words) {
    tl_link *l = ctx;
    tl_keeper *k = l->keeper;
    tl__keeper_log_lost(k, &l->loss, words);
    if (l == &k->first && k->watching)
        k->watching->anew(k);
}

static void on_answer(void *ctx, const tl_answer *answer) {
    const tl_link *l = ctx;
    tl__keeper_answered(l->keeper, l->node, answer);
}

static void on_closing(void *ctx) {
    tl__keeper_take_back(((const tl_link *)ctx)->keeper);
}

static void on_key_changed(void *ctx, tl_bytes key) {
    tl_keeper *k = ((const tl_link *)ctx)->keeper;
    k->watching->changed(k, key);
}

static void free_link(tl_link *l) {
    tl__wakeup_free(l->wakeup);
    tl__conn_free(l->conn);
    free(l);
}

/* Only the first may be lent to a loop, and watches keys. */
static bool make(tl_keeper *k, tl_link *l, tl_node *node) {
    bool first = l == &k->first;
    tl_conn_limits limits = tl__node_limits(node), asks = tl__keeper_limits(k, limits);
    tl_conn_calls calls = {.answer = on_answer,
                           .up = on_up,
                           .down = on_down,
                           .closing = first ? on_closing : NULL,
                           .ctx = l};
    tl_wakeup_calls wakes = {.woken = tl__keeper_on_woken,
                             .armed = tl__keeper_on_armed,
                             .changed = first && k->watching ? on_key_changed : NULL,
                             .ctx = l};
    l->keeper = k;
    l->node = node;
    if (!l->conn)
        l->conn = tl__conn_new(tl__node_face(node), &asks, &calls);
    if (!l->wakeup)
        l->wakeup = tl__wakeup_new(tl__node_face(node), &limits, k->client->attempt_ms, &wakes);
    return l->conn && l->wakeup;
}

bool tl__keeper_make_first(tl_keeper *k) {
    return make(k, &k->first, &k->client->node);
}

tl_link *tl__keeper_link(tl_keeper *keeper, tl_node *node) {
    tl_link *l = node == &keeper->client->node ? &keeper->first : atomic_load(&node->link);
    if (l)
        return l;
    l = calloc(1, sizeof *l);
    if (!l || !make(keeper, l, node)) {
        if (l)
            free_link(l);
        return NULL;
    }
    l->next = keeper->links;
    keeper->links = l;
    atomic_store(&node->link, l);
    return l;
}

tl_conn *tl__keeper_conn(tl_keeper *keeper, tl_node *node) {
    const tl_link *l = tl__keeper_link(keeper, node);
    return l ? l->conn : NULL;
}

void tl__links_free(tl_keeper *keeper) {
    for (tl_link *l = keeper->links, *next; l; l = next) {
        next = l->next;
        atomic_store(&l->node->link, NULL);
        free_link(l);
    }
    keeper->links = NULL;
}

/* ---- driving --------------------------------------------------------------------------------- */

unsigned tl__links_count(const tl_keeper *keeper) {
    unsigned n = 0;
    for (const tl_link *l = keeper->links; l; l = l->next)
        n++;
    return n;
}

unsigned tl__links_fds(const tl_keeper *keeper, struct pollfd *ret) {
    unsigned n = 0;
    for (const tl_link *l = keeper->links; l; l = l->next) {
        ret[n++] = (struct pollfd){.fd = tl__conn_fd(l->conn), .events = tl__conn_events(l->conn)};
        ret[n++] = (struct pollfd){.fd = tl__wakeup_fd(l->wakeup),
                                   .events = tl__wakeup_events(l->wakeup)};
    }
    return n;
}

tl_mono tl__links_until(const tl_keeper *keeper) {
    tl_mono until = TL_NEVER;
    for (const tl_link *l = keeper->links; l; l = l->next) {
        until = tl__mono_min(until, tl__conn_until(l->conn));
        until = tl__mono_min(until, tl__wakeup_until(l->wakeup));
        until = tl__mono_min(until, tl__inbox_until(&l->inbox));
    }
    return until;
}

void tl__links_drive(tl_keeper *keeper) {
    for (tl_link *l = keeper->links; l; l = l->next) {
        tl__conn_drive(l->conn, tl__mono_now());
        tl__wakeup_drive(l->wakeup, tl__mono_now());
        tl__link_leave_inbox(l, tl__mono_now());
    }
}
