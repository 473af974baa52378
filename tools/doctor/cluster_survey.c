/*
 * Asks all nodes of a cluster, a wave at a time. Each node is asked in a thread of its own, so that many
 * silent ones take no longer than one. The nodes that a wave names are the next wave.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "doctor/cluster_survey.h"
#include "skew/judge/skew_topology.h"

#define SAMPLES 8
#define WAVES (CLUSTER_NODES_MOST / AT_ONCE + 4)

int cluster_survey_find(const cluster_survey *survey, const char *id) {
    for (unsigned i = 0; i < survey->count; i++)
        if (id[0] && !survey->of[i].twice && strcmp(survey->of[i].id, id) == 0)
            return (int)i;
    return -1;
}

static void name(cluster_node *node) {
    if (node->port)
        (void)snprintf(node->label, sizeof node->label,
                       strchr(node->host, ':') ? "[%s]:%u" : "%s:%u", node->host,
                       (unsigned)node->port);
    else
        (void)snprintf(node->label, sizeof node->label, "node %.40s", node->id);
}

/* A node without an address has port 0. */
static cluster_node *add(cluster_survey *survey, const char *host, uint16_t port) {
    if (survey->count == CLUSTER_NODES_MOST) {
        survey->more = true;
        return NULL;
    }
    cluster_node *node = &survey->of[survey->count++];
    *node = (cluster_node){.port = port};
    (void)snprintf(node->host, sizeof node->host, "%s", host);
    name(node);
    return node;
}

typedef struct {
    char id[NODE_ID_SIZE];
    redis_place place;
} node_place;

/* ---- the reply to CLUSTER NODES -------------------------------------------------------------- */

/* One line of CLUSTER NODES: ID IP:PORT@BUS[,NAME] FLAGS MASTER PING PONG EPOCH LINK SLOTS... */
typedef struct {
    char id[NODE_ID_SIZE], of[NODE_ID_SIZE];
    redis_place place; /* port 0: not known */
    tl_bytes flags;
    int64_t epoch;
    bool linked;
    tl_bytes slots;
} line;

static bool has_flag(tl_bytes flags, const char *flag) {
    while (flags.n)
        if (tl__bytes_eq(tl__bytes_take(&flags, ','), tl__bytes_of(flag)))
            return true;
    return false;
}

static bool copy_id(char to[NODE_ID_SIZE], tl_bytes id) {
    if (id.n >= NODE_ID_SIZE)
        return false;
    tl__bytes_print(to, NODE_ID_SIZE, id);
    return true;
}

static bool read_line(tl_bytes text, line *ret) {
    if (text.n && text.p[text.n - 1] == '\r')
        text.n--;
    tl_bytes id = tl__bytes_take(&text, ' '), at = tl__bytes_take(&text, ' ');
    *ret = (line){.flags = tl__bytes_take(&text, ' ')};
    tl_bytes of = tl__bytes_take(&text, ' '), where = tl__bytes_take(&at, '@');
    (void)tl__bytes_take(&text, ' ');
    (void)tl__bytes_take(&text, ' ');
    tl_bytes epoch = tl__bytes_take(&text, ' ');
    ret->linked = tl__bytes_eq(tl__bytes_take(&text, ' '), TL_LITERAL("connected"));
    ret->slots = text;
    if (has_flag(ret->flags, "noaddr") || !place_read(where.p, where.n, &ret->place))
        ret->place.port = 0;
    return id.n > 0 && copy_id(ret->id, id) && copy_id(ret->of, of) &&
           tl__bytes_to_int(epoch, &ret->epoch);
}

static bool is_there(const cluster_survey *survey, const char *host, uint16_t port) {
    for (unsigned i = 0; i < survey->count; i++)
        if (survey->of[i].port == port && strcmp(survey->of[i].host, host) == 0)
            return true;
    return false;
}

/* The URL may have another address of this node than the one that nodes announce, to which clients go. */
static void learn_place(cluster_survey *survey, const char *id, const redis_place *place) {
    cluster_node *node = place->port && !is_there(survey, place->host, place->port)
                             ? add(survey, place->host, place->port)
                             : NULL;
    if (node)
        memcpy(node->led_to, id, sizeof node->led_to);
}

/* The node that the line is about, new or not. A seed that hasn't replied is known by its address alone. */
static cluster_node *find(cluster_survey *survey, const line *line) {
    int i = cluster_survey_find(survey, line->id);
    if (i >= 0) {
        learn_place(survey, line->id, &line->place);
        return &survey->of[i];
    }
    cluster_node *node = NULL;
    for (unsigned k = 0; k < survey->count && !node; k++)
        if (!survey->of[k].id[0] && survey->of[k].port == line->place.port &&
            strcmp(survey->of[k].host, line->place.host) == 0)
            node = &survey->of[k];
    if (!node)
        node = add(survey, line->place.port ? line->place.host : "", line->place.port);
    if (!node)
        return NULL;
    memcpy(node->id, line->id, sizeof node->id);
    if (!node->port)
        name(node);
    return node;
}

/* "[5461->-ID]": the slot leaves this node; "[5461-<-ID]": it comes to this node. */
static void learn_open(cluster_node *node, tl_bytes word) {
    open_slot open = {.leaves = false};
    tl_bytes rest = tl__bytes(word.p + 1, word.n - (word.n > 1) - (word.n > 2)),
             number = tl__bytes_take(&rest, '-');
    int64_t slot;
    if (rest.n < 3 || !tl__bytes_to_int(number, &slot) || slot < 0 || slot >= TL_SLOTS ||
        !copy_id(open.other, tl__bytes(rest.p + 2, rest.n - 2)))
        return;
    open.slot = (uint16_t)slot;
    open.leaves = rest.p[0] == '>';
    if (node->open < NODE_OPEN_MOST)
        node->opened[node->open] = open;
    node->open++;
}

static void learn_slots(cluster_node *by, cluster_node *node, uint16_t number, tl_bytes slots) {
    while (slots.n) {
        tl_bytes word = tl__bytes_take(&slots, ' '), last = word,
                 first = tl__bytes_take(&last, '-');
        int64_t from, to;
        if (word.n && word.p[0] == '[') {
            learn_open(node, word);
            continue;
        }
        if (!tl__bytes_to_int(first, &from) || from < 0 || from >= TL_SLOTS)
            continue;
        to = from;
        if (last.n && (!tl__bytes_to_int(last, &to) || to < from || to >= TL_SLOTS))
            continue;
        for (; from <= to; from++)
            by->owner[from] = number;
    }
}

/* An address for clients (CLUSTER SLOTS) overrides the one that nodes use for each other. */
static void use_place(line *line, const node_place *led, unsigned leds) {
    for (unsigned i = 0; i < leds; i++)
        if (strcmp(led[i].id, line->id) == 0)
            line->place = led[i].place;
}

static void learn_of(cluster_survey *survey, unsigned who, const line *line) {
    bool self = has_flag(line->flags, "myself");
    cluster_node *by = &survey->of[who], *node = self ? by : find(survey, line);

    if (!node || has_flag(line->flags, "handshake"))
        return;
    if (self || !node->asked || node->status) {
        node->master = has_flag(line->flags, "master");
        memcpy(node->of, line->of, sizeof node->of);
    }
    if (self) {
        node->epoch = line->epoch;
    } else {
        node->named++;
        node->linked += line->linked;
        node->failing = node->failing || has_flag(line->flags, "fail") ||
                        has_flag(line->flags, "fail?");
    }
    learn_slots(by, node, (uint16_t)(node - survey->of), line->slots);
}

static bool learn(cluster_survey *survey, unsigned who, tl_bytes text, const node_place *led,
                  unsigned leds) {
    cluster_node *by = &survey->of[who];
    line line;

    by->owner = malloc(TL_SLOTS * sizeof *by->owner);
    if (!by->owner)
        return false;
    for (unsigned i = 0; i < TL_SLOTS; i++)
        by->owner[i] = TL_NOBODY;
    while (text.n)
        if (read_line(tl__bytes_take(&text, '\n'), &line)) {
            use_place(&line, led, leds);
            learn_of(survey, who, &line);
        }
    return true;
}

bool cluster_survey_learn(cluster_survey *survey, unsigned who, tl_bytes text) {
    return learn(survey, who, text, NULL, 0);
}

/* Which node it is. A node that is in the list already, by another address, is there twice. */
static void learn_self(cluster_survey *survey, unsigned who, tl_bytes text) {
    cluster_node *node = &survey->of[who];
    line line;

    while (text.n)
        if (read_line(tl__bytes_take(&text, '\n'), &line) && has_flag(line.flags, "myself")) {
            int same = cluster_survey_find(survey, line.id);
            node->twice = strcmp(node->led_to, line.id) == 0;
            if (node->twice)
                return;
            if (node->led_to[0] || (node->id[0] && strcmp(node->id, line.id) != 0)) {
                node->status = STATUS_UNAVAILABLE;
                (void)snprintf(node->message, sizeof node->message, "%.150s is another node",
                               node->label);
                return;
            }
            node->twice = same >= 0 && same != (int)who;
            memcpy(node->id, line.id, sizeof node->id);
        }
}

/* ---- ask one node ---------------------------------------------------------------------------- */

typedef struct {
    cluster_survey *all;
    unsigned which;
    const server_link *like;
    int32_t rate_ppm;
    char *nodes;     /* CLUSTER NODES; NULL: it hasn't replied */
    node_place *led; /* CLUSTER SLOTS: the addresses to which clients are sent */
    unsigned leds;
} visit;

/* [host, port, ID, ...], from 4.0 on. An empty host is the one that was asked; "?" means that it isn't
 * known. */
static void take_place(visit *visit, const tl_reply *node) {
    tl_bytes host = {0}, id;
    int64_t port;
    if (!tl__reply_text(tl__reply_item(node, 2), &id) || visit->leds == CLUSTER_NODES_MOST ||
        !tl__reply_int(tl__reply_item(node, 1), &port) || port < 1 || port > UINT16_MAX)
        return;
    (void)tl__reply_text(tl__reply_item(node, 0), &host);
    node_place *place = &visit->led[visit->leds];
    if (host.n >= sizeof place->place.host || tl__bytes_eq(host, TL_LITERAL("?")) ||
        !copy_id(place->id, id))
        return;
    place->place.port = (uint16_t)port;
    if (host.n)
        tl__bytes_print(place->place.host, sizeof place->place.host, host);
    else
        memcpy(place->place.host, visit->all->of[visit->which].host, sizeof place->place.host);
    visit->leds++;
}

static bool take_slots(void *ctx, const tl_reply *reply) {
    visit *visit = ctx;
    visit->led = calloc(CLUSTER_NODES_MOST, sizeof *visit->led);
    for (size_t i = 0; visit->led && reply->type == TL_REPLY_ARRAY && i < reply->count; i++)
        for (size_t k = 2; k < reply->items[i].count; k++)
            take_place(visit, &reply->items[i].items[k]);
    return visit->led && reply->type == TL_REPLY_ARRAY;
}

static bool take_nodes(void *ctx, const tl_reply *reply) {
    visit *visit = ctx;
    tl_bytes text;
    if (!tl__reply_text(reply, &text))
        return false;
    visit->nodes = strndup(text.p, text.n);
    return visit->nodes != NULL;
}

static bool take_state(void *ctx, const tl_reply *reply) {
    cluster_node *node = ctx;
    char state[16] = "";
    tl_bytes text;
    if (!tl__reply_text(reply, &text) || !info_field(text, "cluster_state", state, sizeof state))
        return false;
    node->ok = strcmp(state, "ok") == 0;
    return true;
}

static bool take_info(void *ctx, const tl_reply *reply) {
    cluster_node *node = ctx;
    tl_bytes text;
    return tl__reply_text(reply, &text) && info_product(text, node->product);
}

static bool take_coverage(void *ctx, const tl_reply *reply) {
    cluster_node *node = ctx;
    tl_bytes text;
    if (reply->type == TL_REPLY_ARRAY && tl__reply_text(tl__reply_item(reply, 1), &text))
        tl__bytes_print(node->coverage, sizeof node->coverage, text);
    return true;
}

/* INFO and CONFIG may be refused, and then stay unknown; the other questions must be answered. */
static bool ask_all(visit *visit, server_link *link) {
    static const char
        *const nodes[] = {"CLUSTER", "NODES", NULL},
               *const slots[] = {"CLUSTER", "SLOTS", NULL},
               *const state[] = {"CLUSTER", "INFO", NULL}, *const info[] = {"INFO", "server", NULL},
               *const coverage[] = {"CONFIG", "GET", "cluster-require-full-coverage", NULL};
    cluster_node *node = &visit->all->of[visit->which];

    if (!link_ask(link, nodes, take_nodes, visit) || !link_ask(link, slots, take_slots, visit) ||
        !link_ask(link, state, take_state, node) ||
        (!link_ask(link, info, take_info, node) && !link->error) ||
        (!link_ask(link, coverage, take_coverage, node) && !link->error))
        return false;
    for (int i = 0; i < SAMPLES; i++)
        if (!skew_sample(link, &node->track, visit->rate_ppm))
            return link->error;
    return true;
}

static void *ask_one(void *ctx) {
    visit *visit = ctx;
    cluster_node *node = &visit->all->of[visit->which];
    server_link link;

    node->status = STATUS_INTERNAL;
    (void)snprintf(node->message, sizeof node->message, "out of memory");
    if (!link_open_beside(&link, visit->like, node->host, node->port, false))
        return NULL;
    node->status = ask_all(visit, &link) ? 0 : link.status;
    node->stranger = node->status && link.error && strstr(link.message, "cluster support disabled");
    if (node->status && link.lacks && strstr(link.message, " CLUSTER"))
        (void)snprintf(node->message, sizeof node->message, LINK_NO_CLUSTER, node->label);
    else
        (void)snprintf(node->message, sizeof node->message,
                       link.error ? "%.100s: %.130s" : "%.0s%.230s", node->label,
                       node->status ? link.message : "");
    link_close(&link);
    return NULL;
}

/* ---- ask all nodes --------------------------------------------------------------------------- */

static bool learn_all(cluster_survey *survey, const visit *visit, unsigned n) {
    bool ok = true;

    for (unsigned i = 0; i < n; i++)
        if (survey->of[visit[i].which].status == 0)
            learn_self(survey, visit[i].which, tl__bytes_of(visit[i].nodes));
    for (unsigned i = 0; i < n; i++)
        if (survey->of[visit[i].which].status == 0 && !survey->of[visit[i].which].twice)
            ok = learn(survey, visit[i].which, tl__bytes_of(visit[i].nodes), visit[i].led,
                       visit[i].leds) &&
                 ok;
    return ok;
}

/* As many as there is room for, of those that were not asked yet. *ret_n 0: all were. */
static bool send_some(cluster_survey *survey, const server_link *like, int32_t rate_ppm,
                      unsigned *ret_n) {
    visit v[AT_ONCE];
    unsigned n = 0;

    for (unsigned i = 0; i < survey->count && n < AT_ONCE; i++)
        if (!survey->of[i].asked && survey->of[i].port) {
            survey->of[i].asked = true;
            v[n++] = (visit){.all = survey, .which = i, .like = like, .rate_ppm = rate_ppm};
        }
    at_once(ask_one, v, sizeof *v, n);
    bool ok = learn_all(survey, v, n);
    for (unsigned i = 0; i < n; i++) {
        free(v[i].nodes);
        free(v[i].led);
    }
    *ret_n = n;
    return ok;
}

static void conclude(cluster_survey *survey, int32_t rate_ppm) {
    skew_reading now = skew_reading_now();
    survey->answered = 0;
    for (unsigned i = 0; i < survey->count; i++) {
        cluster_node *node = &survey->of[i];
        if (!node->asked && !node->status)
            node->status = STATUS_UNAVAILABLE;
        survey->answered += node->status == 0 && !node->twice;
        node->track.known = node->track.known && skew_unbroken(&node->track, &now);
        if (node->track.known)
            node->offset = skew_offset(&node->track, now.after, rate_ppm);
    }
}

bool cluster_survey_ask(cluster_survey *ret, const tl_endpoint *login, const tl_seeds *seeds,
                        int32_t rate_ppm) {
    server_link like = {.endpoint = *login};
    unsigned n = 1;
    bool ok;

    *ret = (cluster_survey){.of = calloc(CLUSTER_NODES_MOST, sizeof *ret->of)};
    ok = ret->of != NULL;
    for (unsigned i = 0; ok && i < seeds->count; i++) {
        cluster_node *node = is_there(ret, seeds->seed[i].host, seeds->seed[i].port)
                                 ? NULL
                                 : add(ret, seeds->seed[i].host, seeds->seed[i].port);
        if (node)
            node->seed = true;
    }
    for (int i = 0; ok && n > 0 && i < WAVES; i++)
        ok = send_some(ret, &like, rate_ppm, &n);
    if (ok)
        conclude(ret, rate_ppm);
    tl__endpoint_wipe(&like.endpoint);
    return ok;
}

void cluster_survey_end(cluster_survey *survey) {
    for (unsigned i = 0; survey->of && i < survey->count; i++)
        free(survey->of[i].owner);
    free(survey->of);
    *survey = (cluster_survey){.of = NULL};
}

int cluster_survey_trouble(const cluster_survey *survey, char *to, size_t size) {
    const cluster_node *who = survey->of;

    for (unsigned i = 0; i < survey->count; i++)
        if (survey->of[i].status == STATUS_REFUSED && who->status != STATUS_REFUSED)
            who = &survey->of[i];
    if (who->stranger)
        (void)snprintf(to, size, "%.150s is no node of a cluster: give its URL as redis://",
                       who->label);
    else if (survey->count == 1)
        (void)snprintf(to, size, "%s", who->message);
    else
        (void)snprintf(to, size, "none of the %u nodes in the URL leads to a cluster: %.170s",
                       survey->count, who->message);
    return who->stranger ? STATUS_INTERNAL : who->status; /* as the library's TL_ESERVER */
}
