/*
 * The keeper's connections to further nodes. They are made when they are first needed, and stay: an idle one
 * costs a descriptor, and one whose node is gone none.
 */
#include "client/keeper_link.h"

#include <stdlib.h>

#include "client/client.h"
#include "client/keeper_inside.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void on_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_link *l = ctx;
    tl__keeper_log_back(l->keeper, &l->loss, l->node, now);
    if (tl__node_up(l->node, l->conn, bracket, now))
        l->keeper->rejudge = true;
}

static void on_down(void *ctx, tl_bytes words) {
    tl_link *l = ctx;
    tl__keeper_log_lost(l->keeper, &l->loss, words);
}

static void on_answer(void *ctx, const tl_answer *answer) {
    const tl_link *l = ctx;
    tl__keeper_answered(l->keeper, l->node, answer);
}

static void free_link(tl_link *l) {
    tl__wakeup_free(l->wakeup);
    tl__conn_free(l->conn);
    free(l);
}

static tl_link *new_link(tl_keeper *k, tl_node *node) {
    tl_link *l = calloc(1, sizeof *l);
    if (!l)
        return NULL;
    tl_conn_limits limits = tl__node_limits(node);
    tl_conn_calls calls = {.answer = on_answer, .up = on_up, .down = on_down, .ctx = l};
    tl_wakeup_calls wakes = {
        .woken = tl__keeper_on_link_woken, .armed = tl__keeper_on_link_armed, .ctx = l};
    l->keeper = k;
    l->node = node;
    tl_conn_limits asks = tl__keeper_limits(k, limits);
    l->conn = tl__conn_new(tl__node_face(node), &asks, &calls);
    l->wakeup = tl__wakeup_new(tl__node_face(node), &limits, k->client->attempt_ms, &wakes);
    if (l->conn && l->wakeup)
        return l;
    free_link(l);
    return NULL;
}

tl_link *tl__keeper_link(tl_keeper *keeper, tl_node *node, bool *ret_ok) {
    tl_link *l = atomic_load(&node->link);
    *ret_ok = true;
    if (l || node == &keeper->client->node)
        return l;
    l = new_link(keeper, node);
    *ret_ok = l != NULL;
    if (!l)
        return NULL;
    l->next = keeper->links;
    keeper->links = l;
    atomic_store(&node->link, l);
    return l;
}

tl_conn *tl__keeper_conn(tl_keeper *keeper, tl_node *node) {
    bool ok;
    tl_link *l = tl__keeper_link(keeper, node, &ok);
    return l ? l->conn : ok ? keeper->conn : NULL;
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
        tl__keeper_leave_link_inbox(l, tl__mono_now());
    }
}
