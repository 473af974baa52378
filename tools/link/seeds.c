/*
 * Asking the nodes that a URL names for the one that has a slot, each in a thread of its own: one that is cut off must not
 * hold up the others. Nothing here need be right: a node that hasn't the slot says so when it is asked for the key.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "link/seeds.h"

typedef struct {
    const server_link *like;
    const char *host;
    uint16_t port, slot;
    tl_slot_map map;
    bool whole, served; /* the map could be read; somebody has the slot: */
    char owner[TL_HOST_SIZE];
    uint16_t owner_port;
    int status; /* 0: it has answered */
    char message[240];
} question;

/* ---- one of them ----------------------------------------------------------------------------- */

static bool take_slots(void *ctx, const tl_reply *reply) {
    question *q = ctx;
    q->whole = tl__slot_map_read(&q->map, reply);
    uint16_t node = q->whole ? q->map.node_of[q->slot] : TL_NOBODY;
    if (node == TL_NOBODY)
        return q->whole;
    const tl_slot_node *n = &q->map.node[node];
    tl_bytes host = n->host.n ? n->host : tl__bytes_of(q->host);
    if (host.n >= sizeof q->owner)
        return false;
    memcpy(q->owner, host.p, host.n);
    q->owner[host.n] = '\0';
    q->owner_port = n->port;
    q->served = true;
    return true;
}

/* What it says of the slot, or why not, in words that name it. */
static bool ask_node(question *q, server_link *l) {
    static const char *const slots[] = {"CLUSTER", "SLOTS", NULL};
    q->served = false;
    if (link_ask(l, slots, take_slots, q))
        return true;
    q->status = l->status;
    if (!l->error)
        (void)snprintf(q->message, sizeof q->message, "%.230s", l->message);
    else if (strstr(l->message, "cluster support disabled")) {
        q->status = STATUS_INTERNAL; /* as the library's TL_ESERVER */
        (void)snprintf(q->message, sizeof q->message,
                       "%.120s is no node of a cluster: give its URL as redis://",
                       l->endpoint.label);
    } else if (l->lacks)
        (void)snprintf(q->message, sizeof q->message, LINK_NO_CLUSTER, l->endpoint.label);
    else
        (void)snprintf(q->message, sizeof q->message, "%.120s: CLUSTER SLOTS: %.90s",
                       l->endpoint.label, l->message);
    return false;
}

static void *ask_one(void *ctx) {
    question *q = ctx;
    server_link l;

    if (!link_open_beside(&l, q->like, q->host, q->port, false)) {
        q->status = STATUS_INTERNAL;
        (void)snprintf(q->message, sizeof q->message, "out of memory");
        return NULL;
    }
    (void)ask_node(q, &l);
    link_close(&l);
    return NULL;
}

/* ---- all of them ----------------------------------------------------------------------------- */

static void ask_all(question *q, const tl_seeds *seeds, const server_link *like, uint16_t slot) {
    for (unsigned i = 0; i < seeds->count; i++) {
        q[i].like = like;
        q[i].host = seeds->seed[i].host;
        q[i].port = seeds->seed[i].port;
        q[i].slot = slot;
    }
    at_once(ask_one, q, sizeof *q, seeds->count);
}

static bool same_owner(const question *a, const question *b) {
    return a->served && b->served && a->owner_port == b->owner_port &&
           strcmp(a->owner, b->owner) == 0;
}

/* Who names whom most of them name; NULL: nobody names one. */
static const question *best(const question *q, unsigned n) {
    const question *found = NULL;
    unsigned most = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned votes = 0;
        for (unsigned k = 0; k < n; k++)
            votes += same_owner(&q[i], &q[k]);
        if (votes > most) {
            most = votes;
            found = &q[i];
        }
    }
    return found;
}

/* Of those that don't help, who is told of: one that lets nobody in, else the first. */
static const question *worst(const question *q, unsigned n) {
    const question *found = NULL;
    for (unsigned i = 0; i < n; i++)
        if (q[i].status &&
            (!found || (q[i].status == STATUS_REFUSED && found->status != STATUS_REFUSED)))
            found = &q[i];
    return found;
}

static void tell(server_link *l, const question *q, unsigned n, uint16_t slot) {
    const question *who = worst(q, n);
    unsigned answered = 0;
    for (unsigned i = 0; i < n; i++)
        answered += q[i].status == 0;
    l->error = false;
    l->status = answered == 0 && who ? who->status : STATUS_UNAVAILABLE;
    if (answered > 0)
        (void)snprintf(l->message, sizeof l->message,
                       "slot %u of the cluster has no master: \"tidelock doctor\" says what is "
                       "wrong",
                       (unsigned)slot);
    else if (n == 1 && who)
        (void)snprintf(l->message, sizeof l->message, "%s", who->message);
    else
        (void)snprintf(l->message, sizeof l->message,
                       "none of the %u nodes in the URL leads to a cluster: %.170s", n,
                       who ? who->message : "no answer");
}

static bool turn(server_link *l, const char *host, uint16_t port) {
    l->elsewhere = TL_NOT_ELSEWHERE;
    if (link_turn(l, host, port))
        return true;
    l->status = STATUS_INTERNAL;
    (void)snprintf(l->message, sizeof l->message, "out of memory");
    return false;
}

static bool is_seed(const tl_seeds *seeds, const char *host, uint16_t port) {
    for (unsigned i = 0; i < seeds->count; i++)
        if (seeds->seed[i].port == port && strcmp(seeds->seed[i].host, host) == 0)
            return true;
    return false;
}

bool seeds_lead(server_link *l, const tl_endpoint *login, const tl_seeds *seeds, const char *key) {
    server_link like = {.endpoint = *login};
    question *q = calloc(TL_SEEDS_MAX, sizeof *q);
    uint16_t slot = tl__hash_slot(tl__bytes_of(key));

    if (!q) {
        l->status = STATUS_INTERNAL;
        (void)snprintf(l->message, sizeof l->message, "out of memory");
        return false;
    }
    ask_all(q, seeds, &like, slot);
    const question *found = best(q, seeds->count);
    bool ok = found && turn(l, found->owner, found->owner_port);
    if (ok)
        l->announced = !is_seed(seeds, found->owner, found->owner_port);
    else if (!found)
        tell(l, q, seeds->count, slot);
    free(q);
    tl__endpoint_wipe(&like.endpoint);
    return ok;
}

/* ---- later ----------------------------------------------------------------------------------- */

bool seeds_go_on(server_link *l, const char *key) {
    char host[TL_HOST_SIZE];
    uint16_t port = l->to_port;

    memcpy(host, l->to_host, sizeof host);
    if (l->elsewhere != TL_MOVED || port == 0) {
        question *q = calloc(1, sizeof *q);
        bool ok = q != NULL;
        if (ok) {
            q->host = l->endpoint.host;
            q->slot = tl__hash_slot(tl__bytes_of(key));
            ok = ask_node(q, l) && q->served;
            memcpy(host, q->owner, sizeof host);
            port = q->owner_port;
        }
        free(q);
        if (!ok)
            return false;
    }
    if (port == l->endpoint.port && strcmp(host, l->endpoint.host) == 0)
        return true;
    l->announced = true;
    return turn(l, host, port);
}
