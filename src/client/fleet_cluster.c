/*
 * The masters of a Redis Cluster, and which of them has a key's slot; which node is which is cluster_nodes' matter. As long as
 * one is a master its connections lead there, and end as soon as it isn't any more. What a node says of
 * a single slot (MOVED) is learned at once, by whoever is told; the whole is asked for by the keeper's thread, one node at a
 * time, when somebody has reason to doubt what is known.
 *
 * Until it is known, and for a slot that nobody has, the first node stands in, which leads to any master: that one says
 * what is wrong. Nothing here needs to be right for a lock to be safe: a node that hasn't the slot executes nothing.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "client/client.h"
#include "client/cluster_inside.h"
#include "client/keeper_link.h"
#include "ground/error.h"
#include "ground/guard.h"

#define ANSWER_MS 1000 /* an answer may take, and a connection */
#define AGAIN_MS 50    /* it isn't asked more often, however many are sent elsewhere */
#define LEARN_MS 10000 /* while masters are asked about, their replicas are learned of so often */

typedef tl_member member;
typedef tl_cluster cluster;

static cluster *of(const tl_fleet *fleet) {
    return fleet->state;
}

static void want(cluster *c) {
    if (!atomic_exchange(&c->wanted, true))
        tl__wake_post(c->fleet->wake);
}

/* ---- nodes ----------------------------------------------------------------------------------- */

/* One that comes later may be the successor of one of before: as if it had led elsewhere. */
static bool serve(cluster *c, member *m) {
    if (atomic_load(&m->site.generation) != 0)
        return true;
    if (m->site.last == 0 && atomic_load(&c->known))
        m->site.last = 1;
    if (!tl__site_lead(&m->site, &m->node.endpoint, TL_NO_EPOCH))
        return false;
    atomic_fetch_add(&c->serving, 1);
    return true;
}

/* With the mutex held. */
static void leave(cluster *c, member *m) {
    if (atomic_load(&m->site.generation) == 0)
        return;
    atomic_fetch_sub(&c->serving, 1);
    tl__site_lose(&m->site, "it is no master of the cluster any more");
    tl__pool_shrink_in(&m->node);
}

/* ---- where a key is -------------------------------------------------------------------------- */

static tl_node *node_of(const tl_fleet *fleet, tl_bytes key) {
    cluster *c = of(fleet);
    tl_node *node = key.n ? atomic_load(&c->owner[tl__hash_slot(key)]) : NULL;
    return node ? node : c->home;
}

/* The host of who has said so, where none is named. */
static bool host_of(tl_node *node, const tl_slot_node *named, char host[TL_HOST_SIZE]) {
    char words[TL_SITE_WORDS];
    if (named->host.n > 0 && named->host.n < TL_HOST_SIZE) {
        memcpy(host, named->host.p, named->host.n);
        host[named->host.n] = '\0';
        return true;
    }
    tl_spot *spot = tl__site_spot(node->site, words, sizeof words);
    if (!spot)
        return false;
    memcpy(host, spot->endpoint.host, TL_HOST_SIZE);
    tl__spot_give(spot);
    return true;
}

static tl_node *redirected(tl_fleet *fleet, tl_node *node, const tl_redirect *redirect) {
    cluster *c = of(fleet);
    char host[TL_HOST_SIZE];
    bool moved = redirect->kind == TL_MOVED;
    if ((!moved && redirect->kind != TL_ASK) || redirect->node.port == 0 ||
        !host_of(node, &redirect->node, host)) {
        if (GUARD(moved_is_learned) && (moved || redirect->kind == TL_CLUSTER_DOWN))
            want(c);
        return NULL;
    }
    tl__mutex_lock(tl__cluster_mutex(c));
    member *m = tl__member_at(c, tl__bytes_of(host), redirect->node.port);
    bool led = m && serve(c, m);
    if (GUARD(moved_is_learned) && led && moved &&
        atomic_exchange(&c->owner[redirect->slot], &m->node) != &m->node) {
        atomic_store(&c->moved, true);
        atomic_store(&c->knows, m);
    }
    tl__mutex_unlock(tl__cluster_mutex(c));
    if (GUARD(moved_is_learned) && moved)
        want(c);
    return led && !moved ? &m->node : NULL;
}

static unsigned pooled(const tl_fleet *fleet) {
    uint64_t nodes = (uint64_t)atomic_load(&of(fleet)->serving) + GUARD(shared_by_one_at_least);
    unsigned each = (unsigned)(TL_POOLED_ALL / nodes);
    return each > TL_POOLED_MAX ? TL_POOLED_MAX : each < TL_POOLED_LEAST ? TL_POOLED_LEAST : each;
}

static tl_node *next(tl_fleet *fleet, unsigned *from) {
    cluster *c = of(fleet);
    for (unsigned n = atomic_load(&c->count); *from < n; (*from)++) {
        member *m = atomic_load(&c->list[*from]);
        if (atomic_load(&m->site.generation) != 0)
            return &m->node;
    }
    return NULL;
}

/* ---- the map --------------------------------------------------------------------------------- */

/* All that it tells, or nothing for want of memory. With the mutex held. */
static bool find_all(cluster *c, tl_node *ret[TL_SLOT_NODES_MAX]) {
    tl_slot_map *map = &c->map;
    for (unsigned i = 0; i < map->count; i++) {
        member *m = tl__member_told(c, &map->node[i], true, 0);
        if (!m || !serve(c, m))
            return false;
        m->serves = true;
        ret[i] = &m->node;
    }
    return true;
}

/* The replicas of those who are known to be masters. Masters have room left for all that a cluster has of them. With the mutex
 * held. */
static void learn_replicas(cluster *c, tl_mono now) {
    const tl_slot_map *map = &c->map;
    member *master[TL_SLOT_NODES_MAX] = {NULL};
    for (unsigned i = 0; i < map->count; i++) {
        master[i] = tl__member_told(c, &map->node[i], false, 0);
        if (master[i])
            master[i]->untold = map->untold[i];
    }
    for (unsigned i = 0; i < map->replicas; i++) {
        member *m = master[map->master_of[i]],
               *replica = m ? tl__member_told(c, &map->replica[i], false, TL_SLOT_NODES_MAX) : NULL;
        if (replica)
            tl__member_learn(m, replica, now);
        else if (m)
            m->untold = true;
    }
    for (unsigned i = 0; i < map->count; i++)
        if (master[i])
            tl__member_forget(master[i], now);
    c->learn = tl__mono_add_ms(now, LEARN_MS);
    c->learns = false;
}

/* To who has just answered, if that is a master. */
static member *any_member(cluster *c) {
    unsigned first = 0;
    for (unsigned i = 0; i < atomic_load(&c->count); i++) {
        member *m = tl__member(c, i);
        if (m->serves && tl__member_is_called(m, tl__bytes_of(c->asked_at.host), c->asked_at.port))
            return m;
    }
    return (member *)next(c->fleet, &first);
}

/* Nowhere else without need: what was asked there would have to be asked anew. */
static void follow_home(cluster *c) {
    char words[TL_SITE_WORDS];
    bool leads = atomic_load(&c->site.generation) != 0;
    member *m = leads && !c->astray && c->home_at->serves ? c->home_at : any_member(c);
    tl_spot *spot = leads ? tl__site_spot(&c->site, words, sizeof words) : NULL;
    bool there = spot && m && spot->endpoint.port == m->node.endpoint.port &&
                 strcmp(spot->endpoint.host, m->node.endpoint.host) == 0;
    tl__spot_give(spot);
    if (!m || (!there && !tl__site_lead(&c->site, &m->node.endpoint, TL_NO_EPOCH)))
        return;
    c->home_at = m;
    c->astray = false;
    if (atomic_load(&c->site.wanted))
        tl__cluster_doubt(c);
}

static bool use_map(cluster *c) {
    tl_node *node[TL_SLOT_NODES_MAX];
    unsigned n = atomic_load(&c->count);
    for (unsigned i = 0; i < n; i++)
        atomic_load(&c->list[i])->serves = false;
    tl__mutex_lock(tl__cluster_mutex(c));
    bool all = find_all(c, node);
    n = atomic_load(&c->count);
    for (unsigned i = 0; all && i < TL_SLOTS; i++)
        atomic_store(&c->owner[i], c->map.node_of[i] == TL_NOBODY ? NULL : node[c->map.node_of[i]]);
    for (unsigned i = 0; all && i < n; i++)
        if (GUARD(former_master_left) && !atomic_load(&c->list[i])->serves)
            leave(c, atomic_load(&c->list[i]));
    if (all)
        learn_replicas(c, tl__mono_now());
    tl__mutex_unlock(tl__cluster_mutex(c));
    c->masters = all ? c->map.count : c->masters;
    if (all)
        atomic_store(&c->known, true);
    return all;
}

/* ---- asking ---------------------------------------------------------------------------------- */

static void failed(cluster *c, tl_err why, tl_bytes words) {
    c->why = why;
    c->lasting = c->lasting && tl__is_lasting(why);
    tl__bytes_print(c->words, sizeof c->words, words);
    tl__site_trouble(&c->site, c->words);
}

/* Other masters than are known have slots: so more of them, or others, elect whoever takes another's place. */
static bool has_other_masters(cluster *c) {
    bool others = c->map.count != c->masters;
    for (unsigned i = 0; i < c->map.count; i++) {
        const member *m = tl__cluster_find(c, &c->map.node[i]);
        others = others || !m || !m->serves;
    }
    return others;
}

/* Of replicas alone: who only asks for these may ask a node that knows nothing new of masters. Of what it says of those that
 * there are more is believed at once, since the less have to agree the less it means; the rest is asked for. */
static bool use_replicas(cluster *c) {
    tl__mutex_lock(tl__cluster_mutex(c));
    bool others = has_other_masters(c);
    learn_replicas(c, tl__mono_now());
    tl__mutex_unlock(tl__cluster_mutex(c));
    if (GUARD(all_electors_count) && c->map.count > c->masters)
        c->masters = c->map.count;
    if (others)
        atomic_store(&c->wanted, true);
    return true;
}

static void read_error(cluster *c, tl_bytes error) {
    char words[TL_SITE_WORDS], shown[128];
    tl__bytes_print(shown, sizeof shown, error);
    if (tl__bytes_has(error, "cluster support disabled"))
        (void)snprintf(words, sizeof words, "%s is no node of a cluster: give its URL as redis://",
                       c->asked_at.label);
    else if (tl__bytes_has_word(error, "NOAUTH"))
        (void)snprintf(words, sizeof words, "%s: the server asks for a password",
                       c->asked_at.label);
    else if (tl__refusal(error) == TL_EUNSUPPORTED)
        (void)snprintf(words, sizeof words,
                       "%s has no CLUSTER: it is a Sentinel, older than Redis 3.0, or the command "
                       "is renamed there",
                       c->asked_at.label);
    else
        (void)snprintf(words, sizeof words, "%s: CLUSTER SLOTS: %s", c->asked_at.label, shown);
    failed(c, tl__refusal(error), tl__bytes_of(words));
}

static void on_answer(void *ctx, const tl_answer *answer) {
    cluster *c = ctx;
    char words[TL_SITE_WORDS];
    c->over = true;
    if (!answer->ok) {
        failed(c, answer->why, answer->words);
        return;
    }
    if (answer->reply->type == TL_REPLY_ERROR) {
        read_error(c, answer->reply->text);
        return;
    }
    (void)snprintf(words, sizeof words, "%s: the cluster has no slots, or can't be kept in memory",
                   c->asked_at.label);
    c->asked = tl__slot_map_read(&c->map, answer->reply) && c->map.served > 0 &&
               (c->learning ? use_replicas(c) : use_map(c));
    if (!c->asked)
        failed(c, TL_EUNAVAILABLE, tl__bytes_of(words));
}

/* Who has the turn: masters that are known, then those of the URL. */
static bool choose(cluster *c, tl_endpoint *ret, tl_mono now) {
    unsigned n = atomic_load(&c->count), all = n + c->seeds.count;
    const member *knows = atomic_exchange(&c->knows, NULL);
    if (c->turn % all == 0) {
        c->round = now;
        c->lasting = true;
    }
    if (knows) {
        *ret = knows->node.endpoint;
        return true;
    }
    for (unsigned i = 0; i < all; i++) {
        unsigned k = c->turn++ % all;
        if (k >= n)
            return tl__endpoint_at(ret, &c->home->endpoint, tl__bytes_of(c->seeds.seed[k - n].host),
                                   c->seeds.seed[k - n].port);
        member *m = atomic_load(&c->list[k]);
        if (atomic_load(&m->site.generation) != 0) {
            *ret = m->node.endpoint;
            return true;
        }
    }
    return false;
}

static void ask(cluster *c, tl_mono now) {
    tl_conn_limits limits = {.connect_ms = c->limit_ms, .no_time = true};
    tl_conn_calls calls = {.answer = on_answer, .ctx = c};
    tl_send send = {.by = tl__mono_add_ms(now, c->limit_ms), .count = 1};
    c->again = tl__mono_add_ms(now, AGAIN_MS);
    c->learning = !atomic_exchange(&c->wanted, false);
    if (!choose(c, &c->asked_at, now))
        return;
    send.command[0] = (tl_command){.form = TL_ARGV, .argc = 2};
    send.command[0].argv[0] = TL_LITERAL("CLUSTER");
    send.command[0].argv[1] = TL_LITERAL("SLOTS");
    c->over = c->asked = false;
    c->conn = tl__conn_new(&c->asked_at, &limits, &calls);
    c->asking = c->conn && tl__conn_send(c->conn, &send, NULL, now) == TL_OK;
    if (!c->asking) {
        tl__conn_free(c->conn);
        c->conn = NULL;
        c->lasting = false;
        if (!c->learning)
            atomic_store(&c->wanted, true);
    }
}

/* The keeper knows where to listen now. Where nobody could tell, the next is asked: at once, until all have been. When all of
 * them have refused, for reasons that stay, as for a wrong password, who waits is told. */
static void conclude(cluster *c, tl_mono now) {
    unsigned all = atomic_load(&c->count) + c->seeds.count;
    c->asking = false;
    tl__conn_free(c->conn);
    c->conn = NULL;
    if (c->asked)
        tl__backoff_reset(&c->backoff);
    if (c->asked && c->learning)
        return;
    if (c->asked) {
        follow_home(c);
        tl__keeper_relocate(&c->home->client->keeper);
        tl__cluster_forget_former(c);
        return;
    }
    if (c->turn % all == 0 && c->lasting)
        tl__site_refuse(&c->site, c->why, c->words, c->round);
    c->again = c->turn % all ? now : tl__mono_add_ns(now, tl__backoff_ns(&c->backoff));
    if (!c->learning)
        atomic_store(&c->wanted, true);
}

/* ---- for the keeper -------------------------------------------------------------------------- */

static unsigned fds(const tl_fleet *fleet, struct pollfd *ret) {
    const cluster *c = of(fleet);
    unsigned n = tl__cluster_ask_fds(c, ret);
    if (!c->asking)
        return n;
    ret[n] = (struct pollfd){.fd = tl__conn_fd(c->conn), .events = tl__conn_events(c->conn)};
    return n + 1;
}

static bool is_due(const cluster *c) {
    return atomic_load(&c->wanted) || c->learns;
}

static tl_mono until(const tl_fleet *fleet) {
    cluster *c = of(fleet);
    tl_mono map = c->asking ? tl__conn_until(c->conn) : is_due(c) ? c->again : TL_NEVER;
    return tl__mono_min(map, tl__cluster_ask_until(c));
}

static void drive(tl_fleet *fleet, tl_mono now) {
    cluster *c = of(fleet);
    tl__cluster_ask_drive(c, now);
    if (c->asking)
        tl__conn_drive(c->conn, now);
    if (c->asking && c->over)
        conclude(c, now);
    if (atomic_exchange(&c->moved, false))
        tl__keeper_relocate(&c->home->client->keeper);
    if (c->asking || !is_due(c) || tl__mono_before(now, c->again))
        return;
    ask(c, now);
    if (c->asking)
        tl__conn_drive(c->conn, now);
}

static void end(tl_fleet *fleet) {
    cluster *c = of(fleet);
    tl__conn_free(c->conn);
    tl__cluster_ask_end(c);
    for (unsigned i = 0; i < atomic_load(&c->count); i++) {
        member *m = atomic_load(&c->list[i]);
        tl__node_end(&m->node);
        tl__site_end(&m->site);
        free(m);
    }
    tl__site_end(&c->site);
    tl__endpoint_wipe(&c->asked_at);
    free(c);
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
    cluster *c = calloc(1, sizeof *c);
    if (!c)
        return tl__fail(err, TL_ENOMEM, ENOMEM, "open a client: out of memory");
    c->home = node;
    c->fleet = fleet;
    c->seeds = *seeds;
    c->limit_ms = options->attempt_ms < ANSWER_MS ? options->attempt_ms : ANSWER_MS;
    c->backoff.random = tl__random_seed();
    atomic_store(&c->wanted, true);
    c->settles = options->quiet_ms > 0;
    tl__site_init(&c->site, tl__cluster_doubt, c);
    c->site.drift_ppm = options->drift_ppm;
    c->site.settles = c->settles;
    tl__site_trouble(&c->site, "no node of the cluster has been reached yet");
    c->site.stays = true;
    fleet->row = &row;
    fleet->state = c;
    node->site = &c->site;
    return TL_OK;
}
