/*
 * Which node of a cluster is which, of all that a client knows. A node is known by its id: other nodes may
 * name its address in several ways, by IP address or host name, and it may move to another address. Where no
 * ids are reported, as before Redis 4.0, it is known by its address. Former nodes, which no map names, are
 * forgotten when nothing uses them and there are many.
 *
 * An address belongs to one node only: to the one that was reported last. A wrong guess here must cost no
 * more than time. A node without the slot executes nothing, and a request built for one address is never sent
 * to another (tl_site).
 */
#include <stdlib.h>

#include "client/cluster_inside.h"
#include "client/keeper_link.h"
#include "ground/guard.h"

#define SILENT_MS                                                                                  \
    1000 /* A node that is unreachable for so long is asked by another of its names. */
#define BEHIND_MS 10000 /* For so long other nodes may not know that a node has moved. */
#define FORMER_MAX 32   /* Unused former nodes that are remembered, since they may come back. */

typedef tl_member member;
typedef tl_cluster cluster;

void tl__cluster_doubt(void *ctx) {
    cluster *view = ctx;
    if (!atomic_exchange(&view->doubts, true))
        tl__wake_post(view->fleet->wake);
}

void tl__cluster_hang_up(tl_cluster *cluster, unsigned i) {
    tl_conn *conn = cluster->witness[i]->conn;
    cluster->witness[i]->conn = NULL;
    cluster->witness[i] = cluster->witness[--cluster->witnesses];
    tl__conn_free(conn);
}

/* Close the connection to this node, if it is a witness. */
static void hang_up(cluster *view, const member *node) {
    unsigned i = 0;
    while (i < view->witnesses && view->witness[i] != node)
        i++;
    if (i < view->witnesses)
        tl__cluster_hang_up(view, i);
}

/* ---- seats ----------------------------------------------------------------------------------- */

static member *new_member(cluster *view) {
    member *node = calloc(1, sizeof *node);
    if (!node)
        return NULL;
    tl__node_init(&node->node, view->home->client);
    tl__site_init(&node->site, tl__cluster_doubt, view);
    node->site.stays = true;
    node->site.drift_ppm = view->home->server.drift_ppm;
    node->site.settles = view->settles;
    node->of = view;
    node->backoff.random = tl__random_seed();
    node->node.site = &node->site;
    return node;
}

static bool is_text(const char *known, tl_bytes text) {
    return text.n > 0 && strncmp(known, text.p, text.n) == 0 && known[text.n] == '\0';
}

bool tl__member_is_called(const member *node, tl_bytes host, uint16_t port) {
    bool is = false;
    for (unsigned i = 0; node->port == port && i < TL_MEMBER_NAMES; i++)
        is = is || is_text(node->name[i], host);
    return is;
}

/* NULL: no node has this name. */
static member *member_called(const cluster *view, tl_bytes host, uint16_t port) {
    unsigned n = atomic_load(&view->count);
    for (unsigned i = 0; i < n; i++)
        if (tl__member_is_called(tl__member(view, i), host, port))
            return tl__member(view, i);
    return NULL;
}

/* Maps list nodes in much the same order each time, so the search begins after the node
 * that was found last. */
static member *member_with_id(cluster *view, tl_bytes id) {
    unsigned n = id.n > 0 ? atomic_load(&view->count) : 0;
    for (unsigned i = 0; i < n; i++) {
        member *node = tl__member(view, (view->found + i) % n);
        if (!is_text(node->id, id))
            continue;
        view->found = (view->found + i + 1) % n;
        return node;
    }
    return NULL;
}

/* A free seat, or a new one. `beside`: so many more must be left after that. NULL: no memory, or no room. */
static member *take_seat(cluster *view, unsigned beside) {
    unsigned n = atomic_load(&view->count), i = 0;
    if (TL_NODES_MAX - n + view->vacant <= beside)
        return NULL;
    while (view->vacant > 0 && i < n && !tl__member(view, i)->is_free)
        i++;
    if (view->vacant > 0 && i < n) {
        view->vacant--;
        tl__member(view, i)->is_free = false;
        return tl__member(view, i);
    }
    member *node = new_member(view);
    if (!node)
        return NULL;
    atomic_store(&view->list[n], node);
    atomic_store(&view->count, n + 1);
    return node;
}

static void give_seat(cluster *view, member *node) {
    node->id[0] = '\0';
    node->port = 0;
    memset(node->name, 0, sizeof node->name);
    node->is_free = true;
    view->vacant++;
}

/* A node that was never reported before; it has no names yet. */
static member *new_member_at(cluster *view, tl_bytes host, uint16_t port, unsigned beside) {
    tl_endpoint at;
    if (!tl__endpoint_at(&at, &view->home->endpoint, host, port))
        return NULL;
    member *node = take_seat(view, beside);
    if (node) {
        node->node.endpoint = at;
        node->node.server = (tl_server){.drift_ppm = view->home->server.drift_ppm};
        tl__node_changed(&node->node);
        node->silent = node->moved = (tl_mono){0};
    }
    tl__endpoint_wipe(&at);
    return node;
}

member *tl__member_at(cluster *view, tl_bytes host, uint16_t port) {
    member *node = member_called(view, host, port);
    if (node)
        return node;
    node = new_member_at(view, host, port, 0);
    if (node) {
        node->port = port;
        tl__bytes_print(node->name[0], sizeof node->name[0], host);
    }
    return node;
}

/* ---- what maps report ------------------------------------------------------------------------ */

/* The names of a reported node. The first one is the host at which it is to be asked. */
static void names_of(const cluster *view, const tl_slot_node *reported,
                     tl_bytes ret[TL_MEMBER_NAMES]) {
    ret[0] = reported->host.n > 0 ? reported->host : tl__bytes_of(view->asked_at.host);
    for (unsigned i = 0; i < TL_NODE_OTHERS; i++)
        ret[1 + i] = reported->other[i].n < TL_HOST_SIZE ? reported->other[i] : (tl_bytes){0};
}

member *tl__cluster_find(cluster *view, const tl_slot_node *reported) {
    tl_bytes name[TL_MEMBER_NAMES];
    member *node = member_with_id(view, reported->id);
    names_of(view, reported, name);
    for (unsigned i = 0; !node && i < TL_MEMBER_NAMES; i++) {
        node = member_called(view, name[i], reported->port);
        if (GUARD(other_id_is_another) && node && node->id[0] && reported->id.n > 0)
            node = NULL;
    }
    return node;
}

/* Set the node's names, and take them away from other nodes: an address belongs to the node that was reported
 * last. Without `all`, a node that serves keeps its names. */
static void call(cluster *view, member *node, const tl_bytes name[TL_MEMBER_NAMES], uint16_t port,
                 bool all) {
    bool same = node->port == port;
    for (unsigned i = 0; i < TL_MEMBER_NAMES; i++)
        same = same && (name[i].n > 0 ? is_text(node->name[i], name[i]) : node->name[i][0] == '\0');
    if (same)
        return;
    node->port = port;
    memset(node->name, 0, sizeof node->name);
    for (unsigned i = 0; i < TL_MEMBER_NAMES; i++) {
        member *other = member_called(view, name[i], port);
        if (other && other != node && !all && atomic_load(&other->site.generation) != 0)
            continue;
        for (unsigned k = 0; other && other != node && k < TL_MEMBER_NAMES; k++)
            if (GUARD(place_is_one_nodes) && is_text(other->name[k], name[i]))
                other->name[k][0] = '\0';
        if (other != node)
            tl__bytes_print(node->name[i], sizeof node->name[i], name[i]);
    }
}

/* A connection was lost, or could not be made, SILENT_MS ago or earlier, and the node has
 * not answered since. */
static bool is_silent(const member *node) {
    return GUARD(silent_name_is_changed) && node->silent.ns != 0 &&
           !tl__node_heard_since(&node->node, node->silent) &&
           tl__ms_until(node->silent, tl__mono_now()) >= SILENT_MS;
}

/* The report has the node's former address: its sender does not know yet that the node has moved. Or the node
 * has moved back: then it says so itself when it is asked. */
static bool is_behind(const member *node, const tl_bytes name[TL_MEMBER_NAMES], uint16_t port) {
    bool lately = node->moved.ns != 0 && tl__ms_until(node->moved, tl__mono_now()) < BEHIND_MS;
    bool there = false;
    for (unsigned i = 0; port == node->before_port && i < TL_MEMBER_NAMES; i++)
        there = there || is_text(node->before, name[i]);
    for (unsigned i = 0; port == node->node.endpoint.port && i < TL_MEMBER_NAMES; i++)
        there = there && !is_text(node->node.endpoint.host, name[i]);
    const tl_endpoint *at = &node->node.endpoint; /* unless another node was reported there */
    return lately && there && !is_silent(node) &&
           tl__member_is_called(node, tl__bytes_of(at->host), at->port);
}

/* Does the map come from the node itself? Then the node is at its former address again. */
static bool is_by_itself(const cluster *view, const member *node) {
    return tl__member_is_called(node, tl__bytes_of(view->asked_at.host), view->asked_at.port);
}

/* Must the node be asked at another address? It keeps its present one while that is among the reported names,
 * unless it is silent there. A change would make all requests be built anew, and nodes that prefer different
 * names would cause one each time. */
static bool is_to_move(const member *node, const tl_bytes name[TL_MEMBER_NAMES], uint16_t port) {
    bool there = false;
    for (unsigned i = 0; port == node->node.endpoint.port && i < TL_MEMBER_NAMES; i++)
        there = there || is_text(node->node.endpoint.host, name[i]);
    return !there || (!is_text(node->node.endpoint.host, name[0]) &&
                      (is_silent(node) || !GUARD(used_name_is_kept)));
}

/* Move the node to another address. That is a new generation, as if another server had taken over: nobody
 * knows whether the node still has all its data. */
static bool move(cluster *view, member *node, tl_bytes host, uint16_t port) {
    tl_endpoint at;
    bool moved = tl__endpoint_at(&at, &view->home->endpoint, host, port) &&
                 (atomic_load(&node->site.generation) == 0 ||
                  tl__site_lead(&node->site, &at, TL_NO_EPOCH));
    if (moved) {
        hang_up(view, node);
        memcpy(node->before, node->node.endpoint.host, sizeof node->before);
        node->before_port = node->node.endpoint.port;
        node->moved = tl__mono_now();
        node->node.endpoint = at;
        node->silent = (tl_mono){0};
    }
    tl__endpoint_wipe(&at);
    return moved;
}

member *tl__member_reported(cluster *view, const tl_slot_node *reported, bool all,
                            unsigned beside) {
    tl_bytes name[TL_MEMBER_NAMES];
    names_of(view, reported, name);
    member *node = tl__cluster_find(view, reported);
    bool known = node != NULL;
    if (!known)
        node = new_member_at(view, name[0], reported->port, beside);
    if (!node)
        return NULL;
    if (!node->id[0])
        tl__bytes_print(node->id, sizeof node->id, reported->id);
    if (GUARD(moved_is_not_led_back) && known && is_behind(node, name, reported->port) &&
        !(is_by_itself(view, node) && GUARD(node_knows_its_address))) {
        atomic_store(&view->knows, node);
        atomic_store(&view->wanted, true);
        return node;
    }
    bool moves = is_to_move(node, name, reported->port);
    if (moves && !all && atomic_load(&node->site.generation) != 0) {
        if (view->learning)
            atomic_store(&view->wanted, true);
        return node;
    }
    if (moves && !move(view, node, name[0], reported->port))
        return NULL;
    if (reported->id.n > 0 || moves || !known)
        call(view, node, name, reported->port, all);
    return node;
}

void tl__cluster_ask_whom(cluster *view, member *who, tl_bytes host, uint16_t port) {
    tl__mutex_lock(tl__cluster_mutex(view));
    bool known = member_called(view, host, port) != NULL;
    tl__mutex_unlock(tl__cluster_mutex(view));
    if (known)
        return;
    atomic_store(&view->knows, who);
    atomic_store(&view->wanted, true);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* Is the node used, or may it be used soon? Code that only has a pointer to it and has not asked for a
 * connection yet will find that its generation is over. With keeper.mutex and client.mutex held. */
static bool is_used(const cluster *view, const member *node) {
    const tl_link *link = atomic_load(&node->node.link);
    return GUARD(used_is_not_forgotten) &&
           (node->serves || node->listed || atomic_load(&node->site.generation) != 0 ||
            view->home_at == node || atomic_load(&view->knows) == node || node->question.open ||
            node->asked > 0 || atomic_load(&node->node.borrowed) > 0 ||
            atomic_load(&node->node.sharers) > 0 || (link && link->inbox.listeners > 0));
}

/* Remove forgotten nodes from the replicas of a member. */
static void forget_replicas(member *node) {
    unsigned kept = 0;
    for (unsigned i = 0; i < node->replicas; i++)
        if (!node->replica[i].who->is_free)
            node->replica[kept++] = node->replica[i];
    node->incomplete = node->incomplete || kept < node->replicas;
    node->replicas = kept;
}

void tl__cluster_forget_former(cluster *view) {
    unsigned n = atomic_load(&view->count), former = 0;
    if (n <= FORMER_MAX)
        return;
    tl__mutex_lock(tl__cluster_mutex(view));
    for (unsigned i = 0; i < n; i++)
        tl__member(view, i)->listed = false;
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; tl__member(view, i)->serves && k < tl__member(view, i)->replicas; k++)
            tl__member(view, i)->replica[k].who->listed = true;
    for (unsigned i = 0; i < n; i++)
        former += !tl__member(view, i)->is_free && !is_used(view, tl__member(view, i));
    for (unsigned i = 0; former > FORMER_MAX && i < n; i++) {
        member *node = tl__member(view, i);
        if (node->is_free || is_used(view, node))
            continue;
        hang_up(view, node);
        node->replicas = 0;
        node->incomplete = node->unsaid = false;
        give_seat(view, node);
    }
    for (unsigned i = 0; former > FORMER_MAX && i < n; i++)
        forget_replicas(tl__member(view, i));
    tl__mutex_unlock(tl__cluster_mutex(view));
}
