/*
 * Which node of a cluster is which, of all that a client knows. It is known by its id: nodes may name its place in several ways,
 * by address or host name, and it may come to another place. Where no ids are told, as before Redis 4.0, it is known by its
 * place. Nodes that no map names any more are forgotten when nothing uses them and they are many.
 *
 * A place is only ever one node's: whoever is told of last has it. A wrong guess here must cost no more than time: a node that
 * hasn't a slot executes nothing, and what was built for one place is never sent to another (tl_site).
 */
#include <stdlib.h>

#include "client/cluster_inside.h"
#include "client/keeper_link.h"
#include "ground/guard.h"

#define SILENT_MS                                                                                  \
    1000 /* unreachable for so long by the name that is used, a node is asked by another */
#define BEHIND_MS                                                                                  \
    10000 /* so long some nodes may not have heard that one has come to another place */
#define FORMER_MAX                                                                                 \
    32 /* nodes that are remembered though nothing names or uses them: they may come back */

typedef tl_member member;
typedef tl_cluster cluster;

void tl__cluster_doubt(void *ctx) {
    cluster *c = ctx;
    if (!atomic_exchange(&c->doubts, true))
        tl__wake_post(c->fleet->wake);
}

void tl__cluster_hang_up(tl_cluster *c, unsigned i) {
    tl_conn *conn = c->witness[i]->conn;
    c->witness[i]->conn = NULL;
    c->witness[i] = c->witness[--c->witnesses];
    tl__conn_free(conn);
}

/* If it is a witness. */
static void hang_up(cluster *c, const member *m) {
    unsigned i = 0;
    while (i < c->witnesses && c->witness[i] != m)
        i++;
    if (i < c->witnesses)
        tl__cluster_hang_up(c, i);
}

/* ---- seats ----------------------------------------------------------------------------------- */

static member *new_member(cluster *c) {
    member *m = calloc(1, sizeof *m);
    if (!m)
        return NULL;
    tl__node_init(&m->node, c->home->client);
    tl__site_init(&m->site, tl__cluster_doubt, c);
    m->site.stays = true;
    m->site.drift_ppm = c->home->server.drift_ppm;
    m->site.settles = c->settles;
    m->of = c;
    m->backoff.random = tl__random_seed();
    m->node.site = &m->site;
    return m;
}

static bool is_text(const char *known, tl_bytes text) {
    return text.n > 0 && strncmp(known, text.p, text.n) == 0 && known[text.n] == '\0';
}

bool tl__member_is_called(const member *m, tl_bytes host, uint16_t port) {
    bool is = false;
    for (unsigned i = 0; m->port == port && i < TL_MEMBER_NAMES; i++)
        is = is || is_text(m->name[i], host);
    return is;
}

/* NULL: nobody is. */
static member *member_called(const cluster *c, tl_bytes host, uint16_t port) {
    unsigned n = atomic_load(&c->count);
    for (unsigned i = 0; i < n; i++)
        if (tl__member_is_called(tl__member(c, i), host, port))
            return tl__member(c, i);
    return NULL;
}

/* Maps tell of nodes in much the same order each time: it begins behind the one that was found last. */
static member *member_with_id(cluster *c, tl_bytes id) {
    unsigned n = id.n > 0 ? atomic_load(&c->count) : 0;
    for (unsigned i = 0; i < n; i++) {
        member *m = tl__member(c, (c->found + i) % n);
        if (!is_text(m->id, id))
            continue;
        c->found = (c->found + i + 1) % n;
        return m;
    }
    return NULL;
}

/* A free one, or one more. `beside`: so many more must be to be had. NULL: no memory, or room. */
static member *take_seat(cluster *c, unsigned beside) {
    unsigned n = atomic_load(&c->count), i = 0;
    if (TL_NODES_MAX - n + c->vacant <= beside)
        return NULL;
    while (c->vacant > 0 && i < n && !tl__member(c, i)->is_free)
        i++;
    if (c->vacant > 0 && i < n) {
        c->vacant--;
        tl__member(c, i)->is_free = false;
        return tl__member(c, i);
    }
    member *m = new_member(c);
    if (!m)
        return NULL;
    atomic_store(&c->list[n], m);
    atomic_store(&c->count, n + 1);
    return m;
}

static void give_seat(cluster *c, member *m) {
    m->id[0] = '\0';
    m->port = 0;
    memset(m->name, 0, sizeof m->name);
    m->is_free = true;
    c->vacant++;
}

/* One that nobody has told of before, and that isn't called anything yet. */
static member *new_member_at(cluster *c, tl_bytes host, uint16_t port, unsigned beside) {
    tl_endpoint at;
    if (!tl__endpoint_at(&at, &c->home->endpoint, host, port))
        return NULL;
    member *m = take_seat(c, beside);
    if (m) {
        m->node.endpoint = at;
        m->node.server = (tl_server){.drift_ppm = c->home->server.drift_ppm};
        m->silent = m->moved = (tl_mono){0};
    }
    tl__endpoint_wipe(&at);
    return m;
}

member *tl__member_at(cluster *c, tl_bytes host, uint16_t port) {
    member *m = member_called(c, host, port);
    if (m)
        return m;
    m = new_member_at(c, host, port, 0);
    if (m) {
        m->port = port;
        tl__bytes_print(m->name[0], sizeof m->name[0], host);
    }
    return m;
}

/* ---- what maps tell -------------------------------------------------------------------------- */

/* What it is called, first by what is to be asked. */
static void names_of(const cluster *c, const tl_slot_node *told, tl_bytes ret[TL_MEMBER_NAMES]) {
    ret[0] = told->host.n > 0 ? told->host : tl__bytes_of(c->asked_at.host);
    for (unsigned i = 0; i < TL_NODE_OTHERS; i++)
        ret[1 + i] = told->other[i].n < TL_HOST_SIZE ? told->other[i] : (tl_bytes){0};
}

member *tl__cluster_find(cluster *c, const tl_slot_node *told) {
    tl_bytes name[TL_MEMBER_NAMES];
    member *m = member_with_id(c, told->id);
    names_of(c, told, name);
    for (unsigned i = 0; !m && i < TL_MEMBER_NAMES; i++) {
        m = member_called(c, name[i], told->port);
        if (GUARD(other_id_is_another) && m && m->id[0] && told->id.n > 0)
            m = NULL;
    }
    return m;
}

/* A place is one node's: by what is told last. `all`: else a name of one that serves stays its own. */
static void call(cluster *c, member *m, const tl_bytes name[TL_MEMBER_NAMES], uint16_t port,
                 bool all) {
    bool same = m->port == port;
    for (unsigned i = 0; i < TL_MEMBER_NAMES; i++)
        same = same && (name[i].n > 0 ? is_text(m->name[i], name[i]) : m->name[i][0] == '\0');
    if (same)
        return;
    m->port = port;
    memset(m->name, 0, sizeof m->name);
    for (unsigned i = 0; i < TL_MEMBER_NAMES; i++) {
        member *other = member_called(c, name[i], port);
        if (other && other != m && !all && atomic_load(&other->site.generation) != 0)
            continue;
        for (unsigned k = 0; other && other != m && k < TL_MEMBER_NAMES; k++)
            if (GUARD(place_is_one_nodes) && is_text(other->name[k], name[i]))
                other->name[k][0] = '\0';
        if (other != m)
            tl__bytes_print(m->name[i], sizeof m->name[i], name[i]);
    }
}

/* A connection was lost, or not to be had, a while ago, and it hasn't answered since. */
static bool is_silent(const member *m) {
    return GUARD(silent_name_is_changed) && m->silent.ns != 0 &&
           !tl__node_heard_since(&m->node, m->silent) &&
           tl__ms_until(m->silent, tl__mono_now()) >= SILENT_MS;
}

/* A node that hasn't heard yet where it is by now tells where it was. */
static bool is_behind(const member *m, const tl_bytes name[TL_MEMBER_NAMES], uint16_t port) {
    bool lately = m->moved.ns != 0 && tl__ms_until(m->moved, tl__mono_now()) < BEHIND_MS;
    bool there = false;
    for (unsigned i = 0; port == m->before_port && i < TL_MEMBER_NAMES; i++)
        there = there || is_text(m->before, name[i]);
    for (unsigned i = 0; port == m->node.endpoint.port && i < TL_MEMBER_NAMES; i++)
        there = there && !is_text(m->node.endpoint.host, name[i]);
    const tl_endpoint *at = &m->node.endpoint; /* unless another node has been told of there */
    return lately && there && !is_silent(m) &&
           tl__member_is_called(m, tl__bytes_of(at->host), at->port);
}

/* Where it is asked is among its names, or isn't any more. It stays there if it can: all that was asked there would have to be
 * asked anew, and nodes that prefer different names would have it change each time. */
static bool is_to_move(const member *m, const tl_bytes name[TL_MEMBER_NAMES], uint16_t port) {
    bool there = false;
    for (unsigned i = 0; port == m->node.endpoint.port && i < TL_MEMBER_NAMES; i++)
        there = there || is_text(m->node.endpoint.host, name[i]);
    return !there || (!is_text(m->node.endpoint.host, name[0]) &&
                      (is_silent(m) || !GUARD(used_name_is_kept)));
}

/* It is the next generation, as if another server had taken its place: nobody knows whether it has all that it had. */
static bool move(cluster *c, member *m, tl_bytes host, uint16_t port) {
    tl_endpoint at;
    bool moved = tl__endpoint_at(&at, &c->home->endpoint, host, port) &&
                 (atomic_load(&m->site.generation) == 0 ||
                  tl__site_lead(&m->site, &at, TL_NO_EPOCH));
    if (moved) {
        hang_up(c, m);
        memcpy(m->before, m->node.endpoint.host, sizeof m->before);
        m->before_port = m->node.endpoint.port;
        m->moved = tl__mono_now();
        m->node.endpoint = at;
        m->silent = (tl_mono){0};
    }
    tl__endpoint_wipe(&at);
    return moved;
}

member *tl__member_told(cluster *c, const tl_slot_node *told, bool all, unsigned beside) {
    tl_bytes name[TL_MEMBER_NAMES];
    names_of(c, told, name);
    member *m = tl__cluster_find(c, told);
    bool known = m != NULL;
    if (!known)
        m = new_member_at(c, name[0], told->port, beside);
    if (!m)
        return NULL;
    if (!m->id[0])
        tl__bytes_print(m->id, sizeof m->id, told->id);
    if (GUARD(moved_is_not_led_back) && known && is_behind(m, name, told->port))
        return m;
    bool moves = is_to_move(m, name, told->port);
    if (moves && !all && atomic_load(&m->site.generation) != 0) {
        if (c->learning)
            atomic_store(&c->wanted, true);
        return m;
    }
    if (moves && !move(c, m, name[0], told->port))
        return NULL;
    if (told->id.n > 0 || moves || !known)
        call(c, m, name, told->port, all);
    return m;
}

void tl__cluster_ask_whom(cluster *c, member *who, tl_bytes host, uint16_t port) {
    tl__mutex_lock(tl__cluster_mutex(c));
    bool known = member_called(c, host, port) != NULL;
    tl__mutex_unlock(tl__cluster_mutex(c));
    if (known)
        return;
    atomic_store(&c->knows, who);
    atomic_store(&c->wanted, true);
}

/* ---- forgetting ------------------------------------------------------------------------------ */

/* Does anything use it, or may soon? What only has a pointer to it, and hasn't asked for a connection yet, finds that its
 * generation is over. With the keeper's mutex held, and the client's. */
static bool is_used(const cluster *c, const member *m) {
    const tl_link *link = atomic_load(&m->node.link);
    return GUARD(used_is_not_forgotten) &&
           (m->serves || m->listed || atomic_load(&m->site.generation) != 0 || c->home_at == m ||
            atomic_load(&c->knows) == m || m->question.open || m->asked > 0 ||
            atomic_load(&m->node.borrowed) > 0 || atomic_load(&m->node.sharers) > 0 ||
            (link && link->inbox.listeners > 0));
}

/* One that is gone isn't asked about others any more. */
static void forget_replicas(member *m) {
    unsigned kept = 0;
    for (unsigned i = 0; i < m->replicas; i++)
        if (!m->replica[i].who->is_free)
            m->replica[kept++] = m->replica[i];
    m->untold = m->untold || kept < m->replicas;
    m->replicas = kept;
}

void tl__cluster_forget_former(cluster *c) {
    unsigned n = atomic_load(&c->count), former = 0;
    if (n <= FORMER_MAX)
        return;
    tl__mutex_lock(tl__cluster_mutex(c));
    for (unsigned i = 0; i < n; i++)
        tl__member(c, i)->listed = false;
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; tl__member(c, i)->serves && k < tl__member(c, i)->replicas; k++)
            tl__member(c, i)->replica[k].who->listed = true;
    for (unsigned i = 0; i < n; i++)
        former += !tl__member(c, i)->is_free && !is_used(c, tl__member(c, i));
    for (unsigned i = 0; former > FORMER_MAX && i < n; i++) {
        member *m = tl__member(c, i);
        if (m->is_free || is_used(c, m))
            continue;
        hang_up(c, m);
        m->replicas = 0;
        m->untold = m->unsaid = false;
        give_seat(c, m);
    }
    for (unsigned i = 0; former > FORMER_MAX && i < n; i++)
        forget_replicas(tl__member(c, i));
    tl__mutex_unlock(tl__cluster_mutex(c));
}
