/*
 * Asks Sentinels, each in a thread of its own, so that an unreachable one doesn't delay the others. The
 * library judges their replies.
 */
#include <stdlib.h>
#include <string.h>

#include "base/at_once.h"
#include "link/sentinels.h"

typedef struct {
    sentinels *all;
    unsigned which;
    const server_link *like;
    char run_id[64];
    char host[TL_HOST_SIZE]; /* of the master */
    char port[8];
    bool named;
    tl_sentinel_view view;
    unsigned others; /* other Sentinels that it knows */
    sentinel other[SENTINELS_MOST];
} question;

/* ---- ask one Sentinel ------------------------------------------------------------------------ */

static bool take_info(void *ctx, const tl_reply *reply) {
    question *question = ctx;
    tl_bytes text;

    return tl__reply_text(reply, &text) &&
           (info_field(text, "run_id", question->run_id, sizeof question->run_id) || true);
}

static bool take_id(void *ctx, const tl_reply *reply) {
    question *question = ctx;

    tl__sentinel_view_read_id(&question->view, reply);
    return true;
}

static bool take_address(void *ctx, const tl_reply *reply) {
    question *question = ctx;
    tl_bytes host, port;

    question->named = reply->type == TL_REPLY_ARRAY && reply->count == 2;
    if (!question->named)
        return reply->type == TL_REPLY_NIL;
    if (!tl__reply_text(&reply->items[0], &host) || !tl__reply_text(&reply->items[1], &port) ||
        host.n >= sizeof question->host || port.n >= sizeof question->port)
        return false;
    memcpy(question->host, host.p, host.n);
    memcpy(question->port, port.p, port.n);
    return true;
}

/* 0: not known. */
static int64_t number_of(const tl_reply *master, const char *field) {
    tl_bytes name, value;
    int64_t number = 0;

    for (size_t i = 0; i + 1 < master->count; i += 2)
        if (tl__reply_text(&master->items[i], &name) && tl__bytes_eq(name, tl__bytes_of(field)) &&
            tl__reply_text(&master->items[i + 1], &value))
            (void)tl__bytes_to_int(value, &number);
    return number;
}

/* Only equality matters. */
static uint64_t hash(const char *text) {
    return tl__bytes_hash(0, tl__bytes_of(text));
}

static bool take_master(void *ctx, const tl_reply *reply) {
    question *question = ctx;
    tl_reply part[2] = {{.type = TL_REPLY_STRING, .text = tl__bytes_of(question->host)},
                        {.type = TL_REPLY_STRING, .text = tl__bytes_of(question->port)}};
    tl_reply address = {.type = TL_REPLY_ARRAY, .items = part, .count = 2};

    uint64_t id = question->view.id;

    if (reply->type != TL_REPLY_ARRAY ||
        !tl__sentinel_view_read(&question->view, reply, &address,
                                question->run_id[0] ? hash(question->run_id) : 0))
        return false;
    question->view.id = id;
    question->all->of[question->which].quorum = number_of(reply, "quorum");
    question->all->of[question->which].replicas = number_of(reply, "num-slaves");
    return true;
}

static bool take_others(void *ctx, const tl_reply *reply) {
    question *question = ctx;
    tl_bytes host;
    uint16_t port;

    for (size_t i = 0; reply->type == TL_REPLY_ARRAY && i < reply->count; i++)
        if (question->others < SENTINELS_MOST &&
            tl__sentinel_view_other(&reply->items[i], &host, &port) && host.n < TL_HOST_SIZE) {
            sentinel *sentinel = &question->other[question->others++];
            memcpy(sentinel->host, host.p, host.n);
            sentinel->port = port;
        }
    return true;
}

/* A NIL means that the Sentinel doesn't know the name; so does one error of SENTINEL MASTER. */
static bool ask_for_master(question *question, server_link *link) {
    const char *name = question->all->master;
    const char *const address[] = {"SENTINEL", "GET-MASTER-ADDR-BY-NAME", name, NULL},
                      *const master[] = {"SENTINEL", "MASTER", name, NULL},
                      *const others[] = {"SENTINEL", "SENTINELS", name, NULL};

    if (!link_ask(link, address, take_address, question))
        return false;
    if (question->named && link_ask(link, master, take_master, question)) {
        question->view.alone = !link_ask(link, others, take_others, question);
        return !question->view.alone || link->error; /* refused: the rest may be permitted */
    }
    if (question->named && !(link->error && strstr(link->message, "No such master")))
        return false;
    question->view.kind = TL_VIEW_UNKNOWN;
    question->view.run = question->run_id[0] ? hash(question->run_id) : 0;
    return true;
}

/* An error reply doesn't say which Sentinel sent it, so the message does. */
static void say_why(sentinel *sentinel, const server_link *link) {
    const char *label = link->endpoint.label;

    sentinel->stranger = link->lacks;
    if (sentinel->stranger)
        sentinel->status = STATUS_INTERNAL; /* as for the library's TL_ESERVER */
    if (sentinel->stranger)
        (void)snprintf(sentinel->message, sizeof sentinel->message, "%.100s is no Sentinel", label);
    else if (link->error && strncmp(link->message, "NOAUTH", 6) == 0)
        (void)snprintf(sentinel->message, sizeof sentinel->message,
                       "%.100s: the Sentinel asks for a password", label);
    else
        (void)snprintf(sentinel->message, sizeof sentinel->message,
                       link->error ? "%.100s: %.130s" : "%.0s%.230s", label, link->message);
}

static void *ask_one(void *ctx) {
    static const char *const info[] = {"INFO", "server", NULL}, *const id[] = {"SENTINEL", "MYID",
                                                                               NULL};
    question *question = ctx;
    sentinel *sentinel = &question->all->of[question->which];
    server_link link;

    if (!link_open_beside(&link, question->like, sentinel->host, sentinel->port, false)) {
        sentinel->status = STATUS_INTERNAL;
        (void)snprintf(sentinel->message, sizeof sentinel->message, "out of memory");
        return NULL;
    }
    memcpy(sentinel->label, link.endpoint.label, sizeof sentinel->label);
    bool ok = link_ask(&link, info, take_info, question) ||
              link.error; /* refused: the rest may be permitted */
    ok = ok && (link_ask(&link, id, take_id, question) || link.error); /* not before 6.2 */
    ok = ok && ask_for_master(question, &link);
    sentinel->status = ok ? 0 : link.status;
    sentinel->message[0] = '\0';
    if (!ok)
        say_why(sentinel, &link);
    question->all->view[question->which] = ok ? question->view
                                              : (tl_sentinel_view){.kind = TL_VIEW_NONE};
    link_close(&link);
    return NULL;
}

/* ---- ask all Sentinels ----------------------------------------------------------------------- */

static bool is_known(const sentinels *all, const sentinel *sentinel) {
    for (unsigned i = 0; i < all->count; i++)
        if (all->of[i].port == sentinel->port && strcmp(all->of[i].host, sentinel->host) == 0)
            return true;
    return false;
}

static void add(sentinels *all, const sentinel *sentinel) {
    if (all->count < SENTINELS_MOST && !is_known(all, sentinel))
        all->of[all->count++] = *sentinel;
}

/* Ask the Sentinels from number `from` on. Those that they know are added at the end. */
static bool ask_from(sentinels *all, unsigned from, const server_link *like) {
    unsigned n = all->count - from;
    question *questions = calloc(n > 0 ? n : 1, sizeof *questions);

    if (!questions)
        return false;
    for (unsigned i = 0; i < n; i++)
        questions[i] = (question){.all = all, .which = from + i, .like = like};
    at_once(ask_one, questions, sizeof *questions, n);
    for (unsigned i = 0; i < n; i++)
        for (unsigned k = 0; k < questions[i].others; k++)
            add(all, &questions[i].other[k]);
    free(questions);
    return true;
}

bool sentinels_ask(sentinels *ret, const tl_endpoint *login, const tl_seeds *seeds, bool all) {
    server_link like = {.endpoint = *login};

    *ret = (sentinels){.count = 0};
    memcpy(ret->master, seeds->master, sizeof ret->master);
    for (unsigned i = 0; i < seeds->count; i++) {
        sentinel sentinel = {.port = seeds->seed[i].port};
        memcpy(sentinel.host, seeds->seed[i].host, sizeof sentinel.host);
        add(ret, &sentinel);
    }
    ret->seeds = ret->count;
    bool ok = ask_from(ret, 0, &like);
    unsigned asked = ret->seeds;
    ret->verdict = tl__sentinel_views_judge(ret->view, ret->count, ret->seeds, 0);
    if (ok && (all || !ret->verdict.sure) && ret->count > asked) {
        unsigned to = ret->count;
        ok = ask_from(ret, asked, &like);
        asked = to;
    }
    ret->count = asked;
    ret->verdict = tl__sentinel_views_judge(ret->view, asked, ret->seeds, 0);
    tl__endpoint_wipe(&like.endpoint);
    return ok;
}

/* ---- replicas -------------------------------------------------------------------------------- */

static bool is_listed(const sentinel_replicas *replicas, tl_bytes host, uint16_t port) {
    for (unsigned i = 0; i < replicas->count; i++)
        if (replicas->of[i].port == port && tl__bytes_eq(tl__bytes_of(replicas->of[i].host), host))
            return true;
    return false;
}

static bool take_replicas(void *ctx, const tl_reply *reply) {
    sentinel_replicas *replicas = ctx;
    tl_bytes host;
    uint16_t port;

    if (reply->type != TL_REPLY_ARRAY)
        return false;
    for (size_t i = 0; i < reply->count; i++) {
        if (!tl__sentinel_view_other(&reply->items[i], &host, &port) || host.n >= TL_HOST_SIZE ||
            is_listed(replicas, host, port))
            continue;
        replicas->more = replicas->more || replicas->count == SENTINELS_REPLICAS_MOST;
        if (replicas->more)
            break;
        memcpy(replicas->of[replicas->count].host, host.p, host.n);
        replicas->of[replicas->count].host[host.n] = '\0';
        replicas->of[replicas->count++].port = port;
    }
    return true;
}

/* All are asked: a replica that was added a moment ago may be known only to some. */
bool sentinels_replicas(const sentinels *sentinels, const tl_endpoint *login,
                        sentinel_replicas *ret) {
    const char *const request[] = {"SENTINEL", "SLAVES", sentinels->master, NULL};
    server_link like = {.endpoint = *login}, link;
    bool answered = false;

    *ret = (sentinel_replicas){.count = 0};
    for (unsigned i = 0; i < sentinels->count; i++) {
        if (sentinels->of[i].status ||
            !link_open_beside(&link, &like, sentinels->of[i].host, sentinels->of[i].port, false))
            continue;
        answered = link_ask(&link, request, take_replicas, ret) || answered;
        link_close(&link);
    }
    tl__endpoint_wipe(&like.endpoint);
    return answered;
}

/* The first that doesn't reply; NULL: all do. */
static const sentinel *silent(const sentinels *sentinels) {
    for (unsigned i = 0; i < sentinels->count; i++)
        if (sentinels->of[i].status)
            return &sentinels->of[i];
    return NULL;
}

/* A failure that waiting doesn't fix? */
static bool is_final(int status) {
    return status == STATUS_REFUSED || status == STATUS_INTERNAL;
}

int sentinels_trouble(const sentinels *sentinels, char *to, size_t size) {
    const tl_sentinel_verdict *verdict = &sentinels->verdict;
    const sentinel *who = silent(sentinels);

    if (verdict->answered > 0 && verdict->unknown == verdict->answered)
        (void)snprintf(to, size, "%s: the Sentinels know no master of this name; check the URL",
                       sentinels->master);
    else if (verdict->answered < verdict->majority && verdict->nameless > 0)
        (void)snprintf(to, size, "%s: " TL_SENTINELS_NAMELESS, sentinels->master);
    else if (verdict->answered < verdict->majority)
        (void)snprintf(to, size, "%s: no majority of the Sentinels: %u of %u answer (%.160s)",
                       sentinels->master, verdict->answered, verdict->total,
                       who ? who->message : "no answer");
    else
        (void)snprintf(to, size, "%s: the Sentinels don't agree yet on who is the master",
                       sentinels->master);
    return verdict->answered < verdict->majority && who && is_final(who->status)
               ? who->status
               : STATUS_UNAVAILABLE;
}
