/*
 * Asking the server, a question at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/wait.h"
#include "link/server_link.h"

#define LIMIT_MS 5000

static int status_of_error(tl_bytes text) {
    tl_err code = tl__refusal(text);

    return code == TL_EDENIED || code == TL_EUNSUPPORTED ? STATUS_REFUSED : STATUS_UNAVAILABLE;
}

/* What a cluster's node says of another, for people. */
static void take_redirect(server_link *l, tl_bytes error) {
    tl_redirect r = tl__redirect_read(error);
    tl_bytes host = r.node.host.n ? r.node.host : tl__bytes_of(l->endpoint.host);

    l->elsewhere = r.kind;
    l->to_port = host.n < sizeof l->to_host ? r.node.port : 0;
    tl__bytes_print(l->to_host, sizeof l->to_host, l->to_port ? host : (tl_bytes){0});
    if (r.kind == TL_MOVED)
        (void)snprintf(l->message, sizeof l->message,
                       "%.100s is a node of a cluster, of which another has these keys (%.60s:%u): "
                       "redis+cluster:// leads there",
                       l->endpoint.label, l->to_host, (unsigned)l->to_port);
    else if (r.kind == TL_ASK || r.kind == TL_TRY_AGAIN)
        (void)snprintf(l->message, sizeof l->message,
                       "%.100s: the slot of these keys is being moved to another node of the "
                       "cluster: try again when that is done",
                       l->endpoint.label);
    else if (r.kind == TL_CLUSTER_DOWN)
        (void)snprintf(l->message, sizeof l->message,
                       "%.100s: CLUSTERDOWN: the cluster is down, or the slot of these keys has no "
                       "master: \"tidelock doctor\" says why",
                       l->endpoint.label);
}

/* An address that isn't the user's own. */
static void blame_cluster(server_link *l) {
    size_t n = strlen(l->message);
    (void)snprintf(l->message + n, sizeof l->message - n,
                   " (an address that the cluster announces)");
}

static void answered(void *ctx, const tl_answer *answer) {
    server_link *l = ctx;
    bool error = answer->ok && answer->reply->type == TL_REPLY_ERROR;

    l->done = true;
    l->error = error;
    l->ok = answer->ok && !error && (!l->take || l->take(l->ctx, answer->reply));
    l->status = !answer->ok ? status_of(answer->why)
                : error     ? status_of_error(answer->reply->text)
                            : STATUS_UNAVAILABLE;
    tl_bytes message = !answer->ok ? answer->words
                       : error     ? answer->reply->text
                                   : TL_LITERAL("malformed reply from the server");
    tl__bytes_print(l->message, sizeof l->message, message);
    if (error)
        take_redirect(l, answer->reply->text);
    else if (!answer->ok && l->announced)
        blame_cluster(l);
    l->lacks = error && tl__refusal(answer->reply->text) == TL_EUNSUPPORTED;
    if (l->lacks)
        tl__lacks(l->message, sizeof l->message, answer->reply->text, l->needer);
}

static void connected(void *ctx, const tl_interval *bracket, tl_mono now) {
    server_link *l = ctx;
    (void)bracket;
    (void)now;
    l->ups++;
}

static bool connect_to(server_link *l) {
    tl_conn_limits limits = {.connect_ms = LIMIT_MS};
    tl_conn_calls calls = {.answer = answered, .up = connected, .ctx = l};

    tl__conn_free(l->conn);
    l->conn = tl__conn_new(&l->endpoint, &limits, &calls);
    return l->conn != NULL;
}

bool link_begin(server_link *l) {
    return connect_to(l);
}

bool link_turn(server_link *l, const char *host, uint16_t port) {
    tl_endpoint *e = &l->endpoint;

    e->path[0] = e->dir[0] = '\0';
    e->port = port;
    (void)snprintf(e->host, sizeof e->host, "%s", host);
    (void)snprintf(e->label, sizeof e->label, strchr(host, ':') ? "[%s]:%u" : "%s:%u", host,
                   (unsigned)port);
    return connect_to(l);
}

bool link_open_beside(server_link *l, const server_link *other, const char *host, uint16_t port,
                      bool stranger) {
    *l = (server_link){.endpoint = other->endpoint};
    l->endpoint.db = 0;
    if (stranger)
        tl__endpoint_make_stranger(&l->endpoint);
    return link_turn(l, host, port);
}

void link_close(server_link *l) {
    tl__conn_free(l->conn);
    l->conn = NULL;
    tl__endpoint_wipe(&l->endpoint);
    if (l->own)
        tl__secret_wipe(&l->own->secret);
    free(l->own);
    l->own = NULL;
}

static void await(server_link *l) {
    while (!l->done) {
        struct pollfd p = {.fd = tl__conn_fd(l->conn), .events = tl__conn_events(l->conn)};
        tl__wait(&p, 1, tl__conn_until(l->conn));
        tl__conn_drive(l->conn, tl__mono_now());
    }
}

static bool ask(server_link *l, const tl_bytes *request, size_t n,
                bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_mono now = tl__mono_now();
    tl_send send = {.count = 1, .by = tl__mono_add_ms(now, LIMIT_MS)};
    tl_command *c = &send.command[0];

    c->form = TL_ARGV;
    for (size_t i = 0; i < n && i < TL_ARGV_MAX; i++)
        c->argv[c->argc++] = request[i];
    l->take = take;
    l->ctx = ctx;
    l->done = l->ok = l->error = l->lacks = false;
    l->elsewhere = TL_NOT_ELSEWHERE;
    if (tl__conn_send(l->conn, &send, NULL, now) != TL_OK) {
        l->status = STATUS_INTERNAL;
        (void)snprintf(l->message, sizeof l->message, "out of memory");
        return false;
    }
    await(l);
    return l->ok;
}

#define IS_SENTINEL                                                                                \
    "this is a Sentinel, which keeps no locks: give the URL of the master, or "                    \
    "redis+sentinel://HOST/NAME" /* as the library says it */

typedef struct {
    char product[INFO_PRODUCT_SIZE], mode[16];
} kind;

static bool take_kind(void *ctx, const tl_reply *reply) {
    kind *k = ctx;
    tl_bytes info;
    if (!tl__reply_text(reply, &info))
        return false;
    (void)info_field(info, "redis_mode", k->mode, sizeof k->mode);
    return info_product(info, k->product);
}

static bool take_product(void *ctx, const tl_reply *reply) {
    tl_bytes info;
    return tl__reply_text(reply, &info) && info_product(info, ctx);
}

bool link_product(server_link *l, char product[INFO_PRODUCT_SIZE]) {
    static const char *const request[] = {"INFO", NULL};
    return link_ask(l, request, take_product, product);
}

/* Behind what the server lacks, which version it is of; all else is as that was answered. */
static void add_product(server_link *l) {
    static const char *const info[] = {"INFO", NULL};
    const tl_needer *needer = l->needer;
    kind k = {.mode = ""};
    char was[sizeof l->message];
    int status = l->status;

    memcpy(was, l->message, sizeof was);
    l->needer = NULL;
    bool known = link_ask(l, info, take_kind, &k);
    bool sentinel = strcmp(k.mode, "sentinel") == 0;
    if (sentinel)
        (void)snprintf(l->message, sizeof l->message, "%.100s: " IS_SENTINEL, l->endpoint.label);
    else
        (void)snprintf(l->message, sizeof l->message, known ? "%s; this one is %s" : "%s", was,
                       k.product);
    l->needer = needer;
    l->status = sentinel ? STATUS_INTERNAL : status; /* as the library's TL_ESERVER */
    l->ok = false;
    l->error = l->lacks = true;
}

bool link_ask_bytes(server_link *l, const tl_bytes *request, size_t n,
                    bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    bool ok = ask(l, request, n, take, ctx);

    if (l->lacks && l->needer)
        add_product(l);
    return ok;
}

bool link_ask(server_link *l, const char *const *request,
              bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_bytes argv[TL_ARGV_MAX];
    size_t n = 0;

    for (; n < TL_ARGV_MAX && request[n]; n++)
        argv[n] = tl__bytes_of(request[n]);
    if (n == TL_ARGV_MAX && request[n]) {
        l->status = STATUS_INTERNAL;
        (void)snprintf(l->message, sizeof l->message, "%s: more arguments than fit", request[0]);
        return false;
    }
    return link_ask_bytes(l, argv, n, take, ctx);
}
