/*
 * The keeper's connections to further nodes. They are made when they are first needed, and stay. An idle one
 * costs a descriptor; one whose site leads nowhere costs none.
 */
#include "client/keeper_link.h"

#include <stdlib.h>

#include "client/client.h"
#include "client/keeper_inside.h"
#include "ground/guard.h"

/* ---- life ------------------------------------------------------------------------------------ */

static void on_up(void *ctx, const tl_interval *bracket, tl_mono now) {
    tl_link *link = ctx;
    tl_keeper *keeper = link->keeper;
    bool first = link == &keeper->first;
    if (first)
        tl__keeper_joins_anew(keeper);
    tl__keeper_log_back(keeper, &link->loss, link->node, now);
    if (tl__node_up(link->node, link->conn, bracket, now) && (!first || GUARD(login_rejudges)))
        keeper->rejudge = true;
    if (first && keeper->watching)
        keeper->watching->anew(keeper);
}

/* The server watches keys for one connection only: so watching begins again on the next one. */
static void on_down(void *ctx, tl_bytes message) {
    tl_link *link = ctx;
    tl_keeper *keeper = link->keeper;
    tl__keeper_log_lost(keeper, &link->loss, message);
    if (link == &keeper->first && keeper->watching)
        keeper->watching->anew(keeper);
}

static void on_answer(void *ctx, const tl_answer *answer) {
    const tl_link *link = ctx;
    tl__keeper_answered(link->keeper, link->node, answer);
}

static void on_closing(void *ctx) {
    tl__keeper_take_back(((const tl_link *)ctx)->keeper);
}

static void on_key_changed(void *ctx, tl_bytes key) {
    tl_keeper *keeper = ((const tl_link *)ctx)->keeper;
    keeper->watching->changed(keeper, key);
}

static void free_link(tl_link *link) {
    tl__wakeup_free(link->wakeup);
    tl__conn_free(link->conn);
    free(link);
}

/* Make the connections that the link lacks. Only the first node's link is lent to a loop,
 * and watches keys. */
static bool make(tl_keeper *keeper, tl_link *link, tl_node *node) {
    bool first = link == &keeper->first;
    tl_conn_limits limits = tl__node_limits(node), asks = tl__keeper_limits(keeper, limits);
    tl_conn_calls calls = {.answer = on_answer,
                           .up = on_up,
                           .down = on_down,
                           .closing = first ? on_closing : NULL,
                           .ctx = link};
    tl_wakeup_calls wakes = {.woken = tl__keeper_on_woken,
                             .armed = tl__keeper_on_armed,
                             .changed = first && keeper->watching ? on_key_changed : NULL,
                             .ctx = link};
    link->keeper = keeper;
    link->node = node;
    if (!link->conn)
        link->conn = tl__conn_new(tl__node_face(node), &asks, &calls);
    if (!link->wakeup)
        link->wakeup = tl__wakeup_new(tl__node_face(node), &limits, keeper->client->attempt_ms,
                                      &wakes);
    return link->conn && link->wakeup;
}

bool tl__keeper_make_first(tl_keeper *keeper) {
    return make(keeper, &keeper->first, &keeper->client->node);
}

tl_link *tl__keeper_link(tl_keeper *keeper, tl_node *node) {
    tl_link *link = node == &keeper->client->node ? &keeper->first : atomic_load(&node->link);
    if (link)
        return link;
    link = calloc(1, sizeof *link);
    if (!link || !make(keeper, link, node)) {
        if (link)
            free_link(link);
        return NULL;
    }
    link->next = keeper->links;
    keeper->links = link;
    atomic_store(&node->link, link);
    return link;
}

tl_conn *tl__keeper_conn(tl_keeper *keeper, tl_node *node) {
    const tl_link *link = tl__keeper_link(keeper, node);
    return link ? link->conn : NULL;
}

void tl__links_free(tl_keeper *keeper) {
    for (tl_link *link = keeper->links, *next; link; link = next) {
        next = link->next;
        atomic_store(&link->node->link, NULL);
        free_link(link);
    }
    keeper->links = NULL;
}

/* ---- driving --------------------------------------------------------------------------------- */

unsigned tl__links_count(const tl_keeper *keeper) {
    unsigned n = 0;
    for (const tl_link *link = keeper->links; link; link = link->next)
        n++;
    return n;
}

unsigned tl__links_fds(const tl_keeper *keeper, struct pollfd *ret) {
    unsigned n = 0;
    for (const tl_link *link = keeper->links; link; link = link->next) {
        ret[n++] = (struct pollfd){.fd = tl__conn_fd(link->conn),
                                   .events = tl__conn_events(link->conn)};
        ret[n++] = (struct pollfd){.fd = tl__wakeup_fd(link->wakeup),
                                   .events = tl__wakeup_events(link->wakeup)};
    }
    return n;
}

tl_mono tl__links_until(const tl_keeper *keeper) {
    tl_mono until = TL_NEVER;
    for (const tl_link *link = keeper->links; link; link = link->next) {
        until = tl__mono_min(until, tl__conn_until(link->conn));
        until = tl__mono_min(until, tl__wakeup_until(link->wakeup));
        until = tl__mono_min(until, tl__inbox_until(&link->inbox));
    }
    return until;
}

void tl__links_drive(tl_keeper *keeper) {
    for (tl_link *link = keeper->links; link; link = link->next) {
        tl__conn_drive(link->conn, tl__mono_now());
        tl__wakeup_drive(link->wakeup, tl__mono_now());
        tl__link_leave_inbox(link, tl__mono_now());
    }
}
