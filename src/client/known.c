/*
 * The state of a node that all threads of a client share: its clock, since when it has not answered, what it
 * can do. Also the log, and random numbers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "client/backend.h"
#include "client/client.h"
#include "ground/guard.h"

#define WARN_AGAIN_MS 60000

void tl__log(tl_client *client, tl_log_level level, const char *format, ...) {
    if (!client->log)
        return;
    char line[512];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(line, sizeof line, format, args);
    va_end(args);
    client->log(level, line, client->log_ctx);
}

/* Read the wall clock, with the error that follows from the time since `before`. */
static void read_wall(tl_server *server, tl_mono before) {
    int64_t us = tl__wall_now().us;
    tl_mono after = tl__mono_now();
    server->wall_us = us - after.ns / 1000 - 1;
    server->wall_wide_us = (after.ns - before.ns) / 1000 + 2;
}

void tl__node_changed(tl_node *node) {
    atomic_fetch_add(&node->changes, 1);
}

/* Copy what is known. Returns which change it was the latest of. */
static unsigned copy_server(tl_node *node, tl_server *to) {
    tl__mutex_lock(&node->client->mutex);
    *to = node->server;
    memcpy(to->kept, node->client->node.server.kept, sizeof to->kept);
    unsigned changes = atomic_load(&node->changes);
    tl__mutex_unlock(&node->client->mutex);
    return changes;
}

/* The keeper's copy is as new as one that is made now, if nothing has changed since. */
const tl_server *tl__node_server(tl_node *node, tl_mono now, tl_server *room) {
    if (room)
        (void)copy_server(node, room);
    else if (node->seen_changes == 0 ||
             (GUARD(copy_is_renewed) && node->seen_changes != atomic_load(&node->changes)))
        node->seen_changes = copy_server(node, &node->seen);
    tl_server *server = room ? room : &node->seen;
    server->disrupted = tl__disrupted_at(&node->client->disruptions);
    if (node->client->protocol->reads_wall)
        read_wall(server, now);
    return server;
}

void tl__node_level(tl_node *node, uint8_t level, uint32_t generation) {
    tl__mutex_lock(&node->client->mutex);
    if (generation == node->server.generation)
        node->server.level = level;
    tl__node_changed(node);
    tl__mutex_unlock(&node->client->mutex);
}

void tl__client_warn(tl_client *client, const char *message, tl_mono now) {
    int64_t last = atomic_load(&client->warned_ns);
    if (last != 0 && now.ns - last < WARN_AGAIN_MS * TL_NS_PER_MS)
        return;
    if (atomic_compare_exchange_strong(&client->warned_ns, &last, now.ns))
        tl__log(client, TL_LOG_WARNING, "%s", message);
}

void tl__node_asked(tl_node *node, tl_mono now) {
    int64_t none = 0;
    if (atomic_load(&node->mute_ns) != 0)
        return; /* the usual case, if very many locks are renewed */
    (void)atomic_compare_exchange_strong(&node->mute_ns, &none, now.ns);
}

void tl__node_answered(tl_node *node, tl_mono now) {
    atomic_store_explicit(&node->heard_ns, now.ns, memory_order_release);
    if (atomic_load(&node->mute_ns) != 0)
        atomic_store(&node->mute_ns, 0);
}

bool tl__node_heard_since(const tl_node *node, tl_mono since) {
    return atomic_load(&node->heard_ns) >= since.ns;
}

int64_t tl__node_mute_ms(tl_node *node, tl_mono since, tl_mono now) {
    tl_mono mute = {atomic_load(&node->mute_ns)};
    if (mute.ns == 0 || tl__node_heard_since(node, since))
        return 0;
    return tl__ms_until(tl__mono_max(mute, since), now) + 1;
}

/* Only another node than the client's first can be one of a cluster's nodes. The first node keeps its name,
 * even if its site leads elsewhere. */
bool tl__node_moves(const tl_node *node) {
    return node->site && node != &node->client->node;
}

const tl_endpoint *tl__node_face(const tl_node *node) {
    static const tl_endpoint former = {.label = "a former node of the cluster"};
    return tl__node_moves(node) ? &former : &node->endpoint;
}

const char *tl__node_label(const tl_node *node, char label[TL_LABEL_SIZE]) {
    (void)snprintf(label, TL_LABEL_SIZE, "%s", tl__node_face(node)->label);
    if (tl__node_moves(node))
        tl__site_label(node->site, label, TL_LABEL_SIZE);
    return label;
}

static void warn_of_step(tl_node *node) {
    char label[TL_LABEL_SIZE];
    tl__log(node->client, TL_LOG_WARNING,
            "%s: the server's clock has stepped, or another server answers",
            tl__node_label(node, label));
}

/* After a disruption our clock shows less than passed. So a reading of the server's clock that was asked for before
 * counts no longer, and the first one after it replaces all that was known. */
static bool is_recent(const tl_node *node, tl_anchor *anchor, tl_interval bracket, tl_mono now) {
    tl_mono disrupted = tl__disrupted_at(&node->client->disruptions);
    tl_mono asked = tl__mono_add_ns(now, (bracket.lo - bracket.hi) * TL_NS_PER_US);
    bool recent = !tl__is_disrupted(asked, disrupted) || !GUARD(clock_after_disruption);
    if (recent && tl__is_disrupted(anchor->at, disrupted) && GUARD(clock_known_anew))
        anchor->known = false;
    return recent;
}

bool tl__node_learn(tl_node *node, tl_interval bracket, uint32_t generation, tl_mono now) {
    tl_client *client = node->client;
    tl_anchor *anchor = &node->server.anchor;
    tl__mutex_lock(&client->mutex);
    bool stepped = generation == node->server.generation && is_recent(node, anchor, bracket, now) &&
                   tl__anchor_learn(anchor, bracket, now, client->drift_ppm);
    tl__node_changed(node);
    tl__mutex_unlock(&client->mutex);
    if (stepped)
        warn_of_step(node);
    return stepped;
}

/* Note the server of a new generation, whose clock is not known yet. True: it has taken over from another
 * one. With client.mutex held. */
static bool is_next(tl_node *node, uint32_t generation, int64_t epoch) {
    tl_server *server = &node->server;
    bool next = server->generation != generation, former = server->generation != 0;
    if (!next)
        return false;
    server->generation = generation;
    server->has_epoch = epoch != TL_NO_EPOCH;
    server->epoch = server->has_epoch ? epoch : 0;
    server->anchor.known = false;
    return former;
}

bool tl__node_up(tl_node *node, const tl_conn *conn, const tl_interval *bracket, tl_mono now) {
    tl_client *client = node->client;
    tl__mutex_lock(&client->mutex);
    uint32_t generation = tl__conn_generation(conn);
    if (node->site && !tl__site_is(node->site, generation)) { /* its generation is over already */
        tl__mutex_unlock(&client->mutex);
        return false;
    }
    tl_anchor *anchor = &node->server.anchor;
    bool next = is_next(node, generation, tl__conn_epoch(conn));
    bool stepped = bracket && is_recent(node, anchor, *bracket, now) &&
                   tl__anchor_renew(anchor, *bracket, now, client->drift_ppm);
    if (!bracket) /* the server has no TIME: the clock known so far may be another server's */
        anchor->known = false;
    node->server.level = 0;
    tl__node_changed(node);
    tl__mutex_unlock(&client->mutex);
    tl__node_answered(node, now);
    tl__count_connection(&client->counts);
    if (stepped)
        warn_of_step(node);
    return stepped || next;
}

uint64_t tl__client_seed(tl_client *client) {
    tl__mutex_lock(&client->mutex);
    uint64_t seed = tl__random_draw(&client->random);
    tl__mutex_unlock(&client->mutex);
    return seed;
}

tl_conn_limits tl__node_limits(const tl_node *node) {
    const tl_client *client = node->client;
    bool lines = client->protocol->lines && !client->legacy.options.strict;
    bool native = client->protocol->binds_late; /* ended by the connection's id where it is lost */
    return (tl_conn_limits){.site = node->site,
                            .codec = client->backend->codec,
                            .members = client->members,
                            .connect_ms = client->connect_ms,
                            .no_time = client->legacy.options.strict,
                            .ask_run = lines || client->backend->runner->asks_all,
                            .ask_id = native ||
                                      (client->keeper.watching && !client->legacy.options.strict)};
}
