/*
 * The masters of a Redis Cluster, and which of them has a key's slot. cluster_nodes knows which node is
 * which. As long as a node is a master its connections lead to it; they end as soon as it isn't. The thread
 * that receives a redirection (MOVED) learns it at once. The whole map of slots is asked for by the keeper's
 * thread, from one node at a time, when there is reason to doubt it.
 *
 * Before there is a map, and for a slot without an owner, the client's first node is used. It leads to any
 * master, and that one reports what is wrong. No lock depends on the map being right: a node without the
 * slot executes nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/cluster_inside.h"
#include "client/keeper_link.h"
#include "ground/error.h"
#include "ground/guard.h"

#define ANSWER_MS 1000 /* the most for a reply, and for connecting */
#define AGAIN_MS 50    /* the least between requests for the map, however many redirections come */

typedef tl_member member;
typedef tl_cluster cluster;

static cluster *of(const tl_fleet *fleet) {
    return fleet->state;
}

static void want(cluster *view) {
    if (!atomic_exchange(&view->wanted, true))
        tl__wake_post(view->fleet->wake);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* Let the node's site lead to it, if it doesn't yet. A node that comes after the first map may have taken
 * over from another one: so its site begins as if it had led elsewhere before. With client.mutex held. */
static bool serve(cluster *view, member *node) {
    if (atomic_load(&node->site.generation) != 0)
        return true;
    if (node->site.last == 0 && atomic_load(&view->known))
        node->site.last = 1;
    if (!tl__site_lead(&node->site, &node->node.endpoint, TL_NO_EPOCH))
        return false;
    atomic_fetch_add(&view->serving, 1);
    return true;
}

/* With client.mutex held. */
static void leave(cluster *view, member *node) {
    if (atomic_load(&node->site.generation) == 0)
        return;
    atomic_fetch_sub(&view->serving, 1);
    tl__site_lose(&node->site, "it is no longer a master of the cluster");
    tl__pool_shrink_in(&node->node);
}

/* ---- where a key is -------------------------------------------------------------------------- */

static tl_node *node_of(const tl_fleet *fleet, tl_bytes key) {
    cluster *view = of(fleet);
    tl_node *node = key.n ? atomic_load(&view->owner[tl__hash_slot(key)]) : NULL;
    return node ? node : view->home;
}

/* The host in a redirection; if it has none, the host of the node that has sent it. */
static bool host_of(tl_node *node, const tl_slot_node *named, char host[TL_HOST_SIZE]) {
    char message[TL_SITE_MESSAGE_SIZE];
    if (named->host.n > 0 && named->host.n < TL_HOST_SIZE) {
        memcpy(host, named->host.p, named->host.n);
        host[named->host.n] = '\0';
        return true;
    }
    tl_spot *spot = tl__site_spot(node->site, message, sizeof message);
    if (!spot)
        return false;
    memcpy(host, spot->endpoint.host, TL_HOST_SIZE);
    tl__spot_give(spot);
    return true;
}

static tl_node *redirected(tl_fleet *fleet, tl_node *node, const tl_redirect *redirect) {
    cluster *view = of(fleet);
    char host[TL_HOST_SIZE];
    bool moved = redirect->kind == TL_MOVED;
    if ((!moved && redirect->kind != TL_ASK) || redirect->node.port == 0 ||
        !host_of(node, &redirect->node, host)) {
        if (GUARD(moved_is_learned) && (moved || redirect->kind == TL_CLUSTER_DOWN))
            want(view);
        return NULL;
    }
    tl__mutex_lock(tl__cluster_mutex(view));
    member *entry = tl__member_at(view, tl__bytes_of(host), redirect->node.port);
    bool led = entry && serve(view, entry);
    if (GUARD(moved_is_learned) && led && moved &&
        atomic_exchange(&view->owner[redirect->slot], &entry->node) != &entry->node) {
        atomic_store(&view->moved, true);
        atomic_store(&view->knows, entry);
    }
    tl__mutex_unlock(tl__cluster_mutex(view));
    if (GUARD(moved_is_learned) && moved)
        want(view);
    return led && !moved ? &entry->node : NULL;
}

static unsigned pooled(const tl_fleet *fleet) {
    uint64_t nodes = (uint64_t)atomic_load(&of(fleet)->serving) + GUARD(shared_by_one_at_least);
    unsigned each = (unsigned)(TL_POOLED_ALL / nodes);
    return each > TL_POOLED_MAX ? TL_POOLED_MAX : each < TL_POOLED_LEAST ? TL_POOLED_LEAST : each;
}

static tl_node *next(tl_fleet *fleet, unsigned *from) {
    cluster *view = of(fleet);
    for (unsigned n = atomic_load(&view->count); *from < n; (*from)++) {
        member *node = atomic_load(&view->list[*from]);
        if (atomic_load(&node->site.generation) != 0)
            return &node->node;
    }
    return NULL;
}

/* ---- the map --------------------------------------------------------------------------------- */

/* Find or make all masters of the map. false: no memory. With client.mutex held. */
static bool find_all(cluster *view, tl_node *ret[TL_SLOT_NODES_MAX]) {
    tl_slot_map *map = &view->map;
    for (unsigned i = 0; i < map->count; i++) {
        member *node = tl__member_reported(view, &map->node[i], true, 0);
        if (!node || !serve(view, node))
            return false;
        node->serves = true;
        ret[i] = &node->node;
    }
    return true;
}

/* Learn the replicas of the known masters. They leave room for as many masters as a map can have. With
 * client.mutex held. */
static void learn_replicas(cluster *view, tl_mono now) {
    const tl_slot_map *map = &view->map;
    member *master[TL_SLOT_NODES_MAX] = {NULL};
    for (unsigned i = 0; i < map->count; i++) {
        master[i] = tl__member_reported(view, &map->node[i], false, 0);
        if (master[i])
            master[i]->incomplete = map->incomplete[i];
    }
    for (unsigned i = 0; i < map->replicas; i++) {
        member *node = master[map->master_of[i]],
               *replica = node ? tl__member_reported(view, &map->replica[i], false,
                                                     TL_SLOT_NODES_MAX)
                               : NULL;
        if (replica)
            tl__member_learn(node, replica, now);
        else if (node)
            node->incomplete = true;
    }
    for (unsigned i = 0; i < map->count; i++)
        if (master[i])
            tl__member_forget(master[i], now);
    view->listed = view->requested;
    view->learns = false;
    tl__cluster_doubt(view); /* questions may have waited for this */
}

/* The node that has just answered, if it is a master; else any master. */
static member *any_member(cluster *view) {
    unsigned first = 0;
    for (unsigned i = 0; i < atomic_load(&view->count); i++) {
        member *node = tl__member(view, i);
        if (node->serves &&
            tl__member_is_called(node, tl__bytes_of(view->asked_at.host), view->asked_at.port))
            return node;
    }
    return (member *)next(view->fleet, &first);
}

/* Let the first node lead to a master; to the same as before if possible, as all requests would have
 * to be built anew. */
static void follow_home(cluster *view) {
    char message[TL_SITE_MESSAGE_SIZE];
    bool leads = atomic_load(&view->site.generation) != 0;
    member *node = leads && !view->astray && view->home_at->serves ? view->home_at
                                                                   : any_member(view);
    tl_spot *spot = leads ? tl__site_spot(&view->site, message, sizeof message) : NULL;
    bool there = spot && node && spot->endpoint.port == node->node.endpoint.port &&
                 strcmp(spot->endpoint.host, node->node.endpoint.host) == 0;
    tl__spot_give(spot);
    if (!node || (!there && !tl__site_lead(&view->site, &node->node.endpoint, TL_NO_EPOCH)))
        return;
    view->home_at = node;
    view->astray = false;
    if (atomic_load(&view->site.wanted))
        tl__cluster_doubt(view);
}

static bool use_map(cluster *view) {
    tl_node *node[TL_SLOT_NODES_MAX];
    unsigned n = atomic_load(&view->count);
    for (unsigned i = 0; i < n; i++)
        atomic_load(&view->list[i])->serves = false;
    tl__mutex_lock(tl__cluster_mutex(view));
    bool all = find_all(view, node);
    n = atomic_load(&view->count);
    for (unsigned i = 0; all && i < TL_SLOTS; i++)
        atomic_store(&view->owner[i],
                     view->map.node_of[i] == TL_NOBODY ? NULL : node[view->map.node_of[i]]);
    for (unsigned i = 0; all && i < n; i++)
        if (GUARD(former_master_left) && !atomic_load(&view->list[i])->serves)
            leave(view, atomic_load(&view->list[i]));
    if (all)
        learn_replicas(view, tl__mono_now());
    tl__mutex_unlock(tl__cluster_mutex(view));
    view->masters = all ? view->map.count : view->masters;
    if (all)
        atomic_store(&view->known, true);
    return all;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void failed(cluster *view, tl_err why, tl_bytes message) {
    view->why = why;
    view->lasting = view->lasting && tl__is_lasting(why);
    tl__bytes_print(view->message, sizeof view->message, message);
    tl__site_trouble(&view->site, view->message);
}

/* Does the map have other masters than are known? Then other ones, or more of them, vote in elections. */
static bool has_other_masters(cluster *view) {
    bool others = view->map.count != view->masters;
    for (unsigned i = 0; i < view->map.count; i++) {
        const member *node = tl__cluster_find(view, &view->map.node[i]);
        others = others || !node || !node->serves;
    }
    return others;
}

/* Use only the replicas of the map: a request for these may go to a node that does not know the latest
 * masters. If it reports more masters, their number counts at once, as with too small a number too few would
 * have to agree. If it reports other masters, the map is asked for. */
static bool use_replicas(cluster *view) {
    tl__mutex_lock(tl__cluster_mutex(view));
    bool others = has_other_masters(view);
    learn_replicas(view, tl__mono_now());
    tl__mutex_unlock(tl__cluster_mutex(view));
    if (GUARD(all_electors_count) && view->map.count > view->masters)
        view->masters = view->map.count;
    if (others)
        atomic_store(&view->wanted, true);
    return true;
}

static void read_error(cluster *view, tl_bytes error) {
    char message[TL_SITE_MESSAGE_SIZE], shown[128];
    tl__bytes_print(shown, sizeof shown, error);
    if (tl__bytes_has(error, "cluster support disabled"))
        (void)snprintf(message, sizeof message,
                       "%s is no node of a cluster: give its URL as redis://",
                       view->asked_at.label);
    else if (tl__bytes_has_word(error, "NOAUTH"))
        (void)snprintf(message, sizeof message, "%s: the server asks for a password",
                       view->asked_at.label);
    else if (tl__refusal(error) == TL_EUNSUPPORTED)
        (void)snprintf(message, sizeof message,
                       "%s has no CLUSTER: it is a Sentinel, older than Redis 3.0, or the command "
                       "is renamed there",
                       view->asked_at.label);
    else
        (void)snprintf(message, sizeof message, "%s: CLUSTER SLOTS: %s", view->asked_at.label,
                       shown);
    failed(view, tl__refusal(error), tl__bytes_of(message));
}

static void on_answer(void *ctx, const tl_answer *answer) {
    cluster *view = ctx;
    char message[TL_SITE_MESSAGE_SIZE];
    view->over = true;
    if (!answer->ok) {
        failed(view, answer->why, answer->message);
        return;
    }
    if (answer->reply->type == TL_REPLY_ERROR) {
        read_error(view, answer->reply->text);
        return;
    }
    (void)snprintf(message, sizeof message,
                   "%s: CLUSTER SLOTS has no slots, or there is no memory for it",
                   view->asked_at.label);
    view->asked = tl__slot_map_read(&view->map, answer->reply) && view->map.served > 0 &&
                  (view->learning ? use_replicas(view) : use_map(view));
    if (!view->asked)
        failed(view, TL_EUNAVAILABLE, tl__bytes_of(message));
}

/* Choose the node to ask: the known masters by turns, then the nodes of the URL. */
static bool choose(cluster *view, tl_endpoint *ret, tl_mono now) {
    unsigned n = atomic_load(&view->count), all = n + view->seeds.count;
    const member *knows = atomic_exchange(&view->knows, NULL);
    if (view->turn % all == 0) {
        view->round = now;
        view->lasting = true;
    }
    if (knows) {
        *ret = knows->node.endpoint;
        return true;
    }
    for (unsigned i = 0; i < all; i++) {
        unsigned k = view->turn++ % all;
        if (k >= n)
            return tl__endpoint_at(ret, &view->home->endpoint,
                                   tl__bytes_of(view->seeds.seed[k - n].host),
                                   view->seeds.seed[k - n].port);
        member *node = atomic_load(&view->list[k]);
        if (atomic_load(&node->site.generation) != 0) {
            *ret = node->node.endpoint;
            return true;
        }
    }
    return false;
}

static void ask(cluster *view, tl_mono now) {
    tl_conn_limits limits = {.connect_ms = view->limit_ms, .no_time = true};
    tl_conn_calls calls = {.answer = on_answer, .ctx = view};
    tl_send send = {.by = tl__mono_add_ms(now, view->limit_ms), .count = 1};
    view->again = tl__mono_add_ms(now, AGAIN_MS);
    view->requested = now;
    view->learning = !atomic_exchange(&view->wanted, false);
    if (!choose(view, &view->asked_at, now))
        return;
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 2};
    send.command[0].argv[0] = TL_LITERAL("CLUSTER");
    send.command[0].argv[1] = TL_LITERAL("SLOTS");
    view->over = view->asked = false;
    view->conn = tl__conn_new(&view->asked_at, &limits, &calls);
    view->asking = view->conn && tl__conn_send(view->conn, &send, NULL, now) == TL_OK;
    if (!view->asking) {
        tl__conn_free(view->conn);
        view->conn = NULL;
        view->lasting = false;
        if (!view->learning)
            atomic_store(&view->wanted, true);
    }
}

/* A request for the map has ended. With a map, listeners move to the new owners. Without one the next node is
 * asked: at once, until all have been asked. If all have refused for permanent reasons, such as a wrong
 * password, waiters fail. */
static void conclude(cluster *view, tl_mono now) {
    unsigned all = atomic_load(&view->count) + view->seeds.count;
    view->asking = false;
    tl__conn_free(view->conn);
    view->conn = NULL;
    if (view->asked)
        tl__backoff_reset(&view->backoff);
    if (view->asked && view->learning)
        return;
    if (view->asked) {
        follow_home(view);
        tl__keeper_relocate(&view->home->client->keeper);
        tl__cluster_forget_former(view);
        return;
    }
    if (view->turn % all == 0 && view->lasting)
        tl__site_refuse(&view->site, view->why, view->message, view->round);
    view->again = view->turn % all ? now : tl__mono_add_ns(now, tl__backoff_ns(&view->backoff));
    if (!view->learning)
        atomic_store(&view->wanted, true);
}

/* ---- for the keeper -------------------------------------------------------------------------- */

static unsigned fds(const tl_fleet *fleet, struct pollfd *ret) {
    const cluster *view = of(fleet);
    unsigned n = tl__cluster_ask_fds(view, ret);
    if (!view->asking)
        return n;
    ret[n] = (struct pollfd){.fd = tl__conn_fd(view->conn), .events = tl__conn_events(view->conn)};
    return n + 1;
}

static bool is_due(const cluster *view) {
    return atomic_load(&view->wanted) || view->learns;
}

static tl_mono until(const tl_fleet *fleet) {
    cluster *view = of(fleet);
    tl_mono map = view->asking ? tl__conn_until(view->conn) : is_due(view) ? view->again : TL_NEVER;
    return tl__mono_min(map, tl__cluster_ask_until(view));
}

static void drive(tl_fleet *fleet, tl_mono now) {
    cluster *view = of(fleet);
    tl__cluster_ask_drive(view, now);
    if (view->asking)
        tl__conn_drive(view->conn, now);
    if (view->asking && view->over)
        conclude(view, now);
    if (atomic_exchange(&view->moved, false))
        tl__keeper_relocate(&view->home->client->keeper);
    if (view->asking || !is_due(view) || tl__mono_before(now, view->again))
        return;
    ask(view, now);
    if (view->asking)
        tl__conn_drive(view->conn, now);
}

static void end(tl_fleet *fleet) {
    cluster *view = of(fleet);
    tl__conn_free(view->conn);
    tl__cluster_ask_end(view);
    for (unsigned i = 0; i < atomic_load(&view->count); i++) {
        member *node = atomic_load(&view->list[i]);
        tl__node_end(&node->node);
        tl__site_end(&node->site);
        free(node);
    }
    tl__site_end(&view->site);
    tl__endpoint_wipe(&view->asked_at);
    free(view);
}

/* ---- opening --------------------------------------------------------------------------------- */

tl_err tl__fleet_open_cluster(tl_fleet *fleet, tl_node *node, const tl_seeds *seeds,
                              const tl_client_options *options, tl_error *err) {
    static const tl_fleet_row row = {.fds = fds,
                                     .until = until,
                                     .drive = drive,
                                     .end = end,
                                     .node_of = node_of,
                                     .redirected = redirected,
                                     .next = next,
                                     .pooled = pooled};
    cluster *view = calloc(1, sizeof *view);
    if (!view)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    view->home = node;
    view->fleet = fleet;
    view->seeds = *seeds;
    view->limit_ms = options->attempt_ms < ANSWER_MS ? options->attempt_ms : ANSWER_MS;
    view->backoff.random = tl__random_seed();
    atomic_store(&view->wanted, true);
    view->settles = options->quiet_ms > 0;
    tl__site_init(&view->site, tl__cluster_doubt, view);
    view->site.drift_ppm = options->drift_ppm;
    view->site.settles = view->settles;
    tl__site_trouble(&view->site, "no node of the cluster has been reached yet");
    view->site.stays = true;
    fleet->row = &row;
    fleet->state = view;
    node->site = &view->site;
    return TL_OK;
}
