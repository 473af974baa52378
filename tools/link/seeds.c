/*
 * Asks the nodes that a URL names for the owner of a slot, each in a thread of its own, so that an
 * unreachable one doesn't delay the others. The result need not be right: a node that doesn't have the slot
 * says so when it is asked for the key.
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
    bool whole, served; /* the map could be read; a node has the slot: */
    char owner[TL_HOST_SIZE];
    uint16_t owner_port;
    int status; /* 0: it has replied */
    char message[240];
} question;

/* ---- ask one node ---------------------------------------------------------------------------- */

static bool take_slots(void *ctx, const tl_reply *reply) {
    question *question = ctx;
    question->whole = tl__slot_map_read(&question->map, reply);
    uint16_t owner = question->whole ? question->map.node_of[question->slot] : TL_NOBODY;
    if (owner == TL_NOBODY)
        return question->whole;
    const tl_slot_node *node = &question->map.node[owner];
    tl_bytes host = node->host.n ? node->host : tl__bytes_of(question->host);
    if (host.n >= sizeof question->owner)
        return false;
    memcpy(question->owner, host.p, host.n);
    question->owner[host.n] = '\0';
    question->owner_port = node->port;
    question->served = true;
    return true;
}

/* Ask which node has the slot. False: the message says why not, and names the node that was asked. */
static bool ask_node(question *question, server_link *link) {
    static const char *const slots[] = {"CLUSTER", "SLOTS", NULL};
    question->served = false;
    if (link_ask(link, slots, take_slots, question))
        return true;
    question->status = link->status;
    if (!link->error)
        (void)snprintf(question->message, sizeof question->message, "%.230s", link->message);
    else if (strstr(link->message, "cluster support disabled")) {
        question->status = STATUS_INTERNAL; /* as for the library's TL_ESERVER */
        (void)snprintf(question->message, sizeof question->message,
                       "%.120s is no node of a cluster: give its URL as redis://",
                       link->endpoint.label);
    } else if (link->lacks)
        (void)snprintf(question->message, sizeof question->message, LINK_NO_CLUSTER,
                       link->endpoint.label);
    else
        (void)snprintf(question->message, sizeof question->message, "%.120s: CLUSTER SLOTS: %.90s",
                       link->endpoint.label, link->message);
    return false;
}

static void *ask_one(void *ctx) {
    question *question = ctx;
    server_link link;

    if (!link_open_beside(&link, question->like, question->host, question->port, false)) {
        question->status = STATUS_INTERNAL;
        (void)snprintf(question->message, sizeof question->message, "out of memory");
        return NULL;
    }
    (void)ask_node(question, &link);
    link_close(&link);
    return NULL;
}

/* ---- ask all nodes --------------------------------------------------------------------------- */

static void ask_all(question *question, const tl_seeds *seeds, const server_link *like,
                    uint16_t slot) {
    for (unsigned i = 0; i < seeds->count; i++) {
        question[i].like = like;
        question[i].host = seeds->seed[i].host;
        question[i].port = seeds->seed[i].port;
        question[i].slot = slot;
    }
    at_once(ask_one, question, sizeof *question, seeds->count);
}

static bool same_owner(const question *one, const question *other) {
    return one->served && other->served && one->owner_port == other->owner_port &&
           strcmp(one->owner, other->owner) == 0;
}

/* A reply that names the same owner as most replies; NULL: none names one. */
static const question *best(const question *questions, unsigned n) {
    const question *found = NULL;
    unsigned most = 0;
    for (unsigned i = 0; i < n; i++) {
        unsigned votes = 0;
        for (unsigned k = 0; k < n; k++)
            votes += same_owner(&questions[i], &questions[k]);
        if (votes > most) {
            most = votes;
            found = &questions[i];
        }
    }
    return found;
}

/* Which failure to report: that of a node that refuses the login, else the first. */
static const question *worst(const question *questions, unsigned n) {
    const question *found = NULL;
    for (unsigned i = 0; i < n; i++)
        if (questions[i].status &&
            (!found || (questions[i].status == STATUS_REFUSED && found->status != STATUS_REFUSED)))
            found = &questions[i];
    return found;
}

static void tell(server_link *link, const question *questions, unsigned n, uint16_t slot) {
    const question *who = worst(questions, n);
    unsigned answered = 0;
    for (unsigned i = 0; i < n; i++)
        answered += questions[i].status == 0;
    link->error = false;
    link->status = answered == 0 && who ? who->status : STATUS_UNAVAILABLE;
    if (answered > 0)
        (void)snprintf(link->message, sizeof link->message,
                       "slot %u of the cluster has no master: \"tidelock doctor\" says what is "
                       "wrong",
                       (unsigned)slot);
    else if (n == 1 && who)
        (void)snprintf(link->message, sizeof link->message, "%s", who->message);
    else
        (void)snprintf(link->message, sizeof link->message,
                       "none of the %u nodes in the URL leads to a cluster: %.170s", n,
                       who ? who->message : "no answer");
}

static bool turn(server_link *link, const char *host, uint16_t port) {
    link->elsewhere = TL_NOT_ELSEWHERE;
    if (link_turn(link, host, port))
        return true;
    link->status = STATUS_INTERNAL;
    (void)snprintf(link->message, sizeof link->message, "out of memory");
    return false;
}

static bool is_seed(const tl_seeds *seeds, const char *host, uint16_t port) {
    for (unsigned i = 0; i < seeds->count; i++)
        if (seeds->seed[i].port == port && strcmp(seeds->seed[i].host, host) == 0)
            return true;
    return false;
}

bool seeds_lead(server_link *link, const tl_endpoint *login, const tl_seeds *seeds,
                const char *key) {
    server_link like = {.endpoint = *login};
    question *questions = calloc(TL_SEEDS_MAX, sizeof *questions);
    uint16_t slot = tl__hash_slot(tl__bytes_of(key));

    if (!questions) {
        link->status = STATUS_INTERNAL;
        (void)snprintf(link->message, sizeof link->message, "out of memory");
        return false;
    }
    ask_all(questions, seeds, &like, slot);
    const question *found = best(questions, seeds->count);
    bool ok = found && turn(link, found->owner, found->owner_port);
    if (ok)
        link->announced = !is_seed(seeds, found->owner, found->owner_port);
    else if (!found)
        tell(link, questions, seeds->count, slot);
    free(questions);
    tl__endpoint_wipe(&like.endpoint);
    return ok;
}

/* ---- follow a later change ------------------------------------------------------------------- */

bool seeds_go_on(server_link *link, const char *key) {
    char host[TL_HOST_SIZE];
    uint16_t port = link->to_port;

    memcpy(host, link->to_host, sizeof host);
    if (link->elsewhere != TL_MOVED || port == 0) {
        question *question = calloc(1, sizeof *question);
        bool ok = question != NULL;
        if (ok) {
            question->host = link->endpoint.host;
            question->slot = tl__hash_slot(tl__bytes_of(key));
            ok = ask_node(question, link) && question->served;
            memcpy(host, question->owner, sizeof host);
            port = question->owner_port;
        }
        free(question);
        if (!ok)
            return false;
    }
    if (port == link->endpoint.port && strcmp(host, link->endpoint.host) == 0)
        return true;
    link->announced = true;
    return turn(link, host, port);
}
