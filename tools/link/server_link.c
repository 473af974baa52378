/*
 * Asks the server, one question at a time.
 */
#include <stdlib.h>
#include <string.h>

#include "ground/guard.h"
#include "ground/wait.h"
#include "link/server_link.h"

#define LIMIT_MS 5000
#define MANY_IN_FLIGHT 512

static int status_of_error(tl_bytes text) {
    tl_err code = tl__refusal(text);

    return code == TL_EDENIED || code == TL_EUNSUPPORTED ? STATUS_REFUSED : STATUS_UNAVAILABLE;
}

/* Note to which node a cluster's node redirects, and write a message about it. */
static void take_redirect(server_link *link, tl_bytes error) {
    tl_redirect redirect = tl__redirect_read(error);
    tl_bytes host = redirect.node.host.n ? redirect.node.host : tl__bytes_of(link->endpoint.host);

    link->elsewhere = redirect.kind;
    link->to_port = host.n < sizeof link->to_host ? redirect.node.port : 0;
    tl__bytes_print(link->to_host, sizeof link->to_host, link->to_port ? host : (tl_bytes){0});
    if (redirect.kind == TL_MOVED)
        (void)snprintf(link->message, sizeof link->message,
                       "%.100s is a node of a cluster, of which another has these keys (%.60s:%u): "
                       "redis+cluster:// leads there",
                       link->endpoint.label, link->to_host, (unsigned)link->to_port);
    else if (redirect.kind == TL_ASK || redirect.kind == TL_TRY_AGAIN)
        (void)snprintf(link->message, sizeof link->message,
                       "%.100s: the slot of these keys is being moved to another node of the "
                       "cluster: try again when that is done",
                       link->endpoint.label);
    else if (redirect.kind == TL_CLUSTER_DOWN)
        (void)snprintf(link->message, sizeof link->message,
                       "%.100s: CLUSTERDOWN: the cluster is down, or the slot of these keys has no "
                       "master: \"tidelock doctor\" says why",
                       link->endpoint.label);
}

/* Add that the address isn't one of the user's. */
static void blame_cluster(server_link *link) {
    size_t n = strlen(link->message);
    (void)snprintf(link->message + n, sizeof link->message - n,
                   " (an address that the cluster announces)");
}

/* Results come in the order of the requests. */
static void answered_many(server_link *link, const tl_answer *answer) {
    link_many *many = link->many;
    size_t i = many->done++;

    if (answer->ok) {
        many->take(many->ctx, i, answer->reply);
        return;
    }
    if (link->ok)
        tl__bytes_print(link->message, sizeof link->message, answer->message);
    if (link->ok && link->announced)
        blame_cluster(link);
    link->status = link->ok ? status_of(answer->why) : link->status;
    link->ok = false;
}

static void answered(void *ctx, const tl_answer *answer) {
    server_link *link = ctx;
    if (link->many) {
        answered_many(link, answer);
        return;
    }
    bool error = answer->ok && answer->reply->type == TL_REPLY_ERROR;

    link->done = true;
    link->error = error;
    link->ok = answer->ok && !error && (!link->take || link->take(link->ctx, answer->reply));
    link->status = !answer->ok ? status_of(answer->why)
                   : error     ? status_of_error(answer->reply->text)
                               : STATUS_UNAVAILABLE;
    tl_bytes message = !answer->ok ? answer->message
                       : error     ? answer->reply->text
                                   : TL_LITERAL("malformed reply from the server");
    tl__bytes_print(link->message, sizeof link->message, message);
    if (error)
        take_redirect(link, answer->reply->text);
    else if (!answer->ok && link->announced)
        blame_cluster(link);
    link->lacks = error && tl__refusal(answer->reply->text) == TL_EUNSUPPORTED;
    link->engineless = error && tl__is_without_engine(answer->reply->text);
    if (link->lacks)
        tl__lacks(link->message, sizeof link->message, answer->reply->text, link->needer);
}

static void connected(void *ctx, const tl_interval *bracket, tl_mono now) {
    server_link *link = ctx;
    (void)bracket;
    (void)now;
    link->ups++;
}

static bool connect_to(server_link *link) {
    tl_conn_limits limits = {.connect_ms = LIMIT_MS};
    tl_conn_calls calls = {.answer = answered, .up = connected, .ctx = link};

    tl__conn_free(link->conn);
    link->conn = tl__conn_new(&link->endpoint, &limits, &calls);
    return link->conn != NULL;
}

bool link_begin(server_link *link) {
    return connect_to(link);
}

bool link_turn(server_link *link, const char *host, uint16_t port) {
    tl_endpoint *endpoint = &link->endpoint;

    endpoint->path[0] = endpoint->dir[0] = '\0';
    endpoint->port = port;
    (void)snprintf(endpoint->host, sizeof endpoint->host, "%s", host);
    (void)snprintf(endpoint->label, sizeof endpoint->label, strchr(host, ':') ? "[%s]:%u" : "%s:%u",
                   host, (unsigned)port);
    return connect_to(link);
}

bool link_open_beside(server_link *link, const server_link *other, const char *host, uint16_t port,
                      bool stranger) {
    *link = (server_link){.endpoint = other->endpoint};
    link->endpoint.db = 0;
    if (stranger)
        tl__endpoint_make_stranger(&link->endpoint);
    return link_turn(link, host, port);
}

bool link_open_same(server_link *link, const server_link *other, const char *host, uint16_t port) {
    *link = (server_link){.endpoint = other->endpoint};
    if (!GUARD(same_database_is_read))
        link->endpoint.db = 0;
    return link_turn(link, host, port);
}

void link_close(server_link *link) {
    tl__conn_free(link->conn);
    link->conn = NULL;
    tl__endpoint_wipe(&link->endpoint);
    if (link->own)
        tl__secret_wipe(&link->own->secret);
    free(link->own);
    link->own = NULL;
}

static void await(server_link *link) {
    while (!link->done) {
        struct pollfd p = {.fd = tl__conn_fd(link->conn), .events = tl__conn_events(link->conn)};
        tl__wait(&p, 1, tl__conn_until(link->conn));
        tl__conn_drive(link->conn, tl__mono_now());
    }
}

static bool ask(server_link *link, const tl_bytes *request, size_t n,
                bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_mono now = tl__mono_now();
    tl_send send = {.count = 1, .by = tl__mono_add_ms(now, LIMIT_MS)};
    tl_command *command = &send.command[0];

    command->form = TL_ARGV;
    for (size_t i = 0; i < n && i < TL_ARGV_MAX; i++)
        command->argv[command->argc++] = request[i];
    link->take = take;
    link->ctx = ctx;
    link->done = link->ok = link->error = link->lacks = link->engineless = false;
    link->elsewhere = TL_NOT_ELSEWHERE;
    if (tl__conn_send(link->conn, &send, NULL, now) != TL_OK) {
        link->status = STATUS_INTERNAL;
        (void)snprintf(link->message, sizeof link->message, "out of memory");
        return false;
    }
    await(link);
    return link->ok;
}

static bool send_one(server_link *link, size_t i, tl_mono now) {
    link_many *many = link->many;
    tl_send send = {.count = 1, .by = tl__mono_add_ms(now, LIMIT_MS)};

    send.command[0].form = TL_ARGV;
    send.command[0].argc = (uint8_t)many->request(many->ctx, i, send.command[0].argv);
    return tl__conn_send(link->conn, &send, many, now) == TL_OK;
}

/* Queue as many as may be in flight. */
static bool send_some(server_link *link) {
    link_many *many = link->many;
    tl_mono now = tl__mono_now();

    tl__conn_hold(link->conn);
    while (many->sent < many->count && many->sent - many->done < MANY_IN_FLIGHT) {
        if (!send_one(link, many->sent, now))
            return false;
        many->sent++;
    }
    tl__conn_write(link->conn, now);
    return true;
}

bool link_ask_many(server_link *link, link_many *many) {
    many->sent = many->done = 0;
    link->many = many;
    link->ok = true;
    link->error = link->lacks = link->engineless = false;
    link->elsewhere = TL_NOT_ELSEWHERE;
    while (link->ok && many->done < many->count) {
        if (!send_some(link)) {
            link->status = STATUS_INTERNAL;
            (void)snprintf(link->message, sizeof link->message, "out of memory");
            link->ok = false;
            break;
        }
        struct pollfd p = {.fd = tl__conn_fd(link->conn), .events = tl__conn_events(link->conn)};
        tl__wait(&p, 1, tl__conn_until(link->conn));
        tl__conn_drive(link->conn, tl__mono_now());
    }
    tl__conn_forget(link->conn, many); /* after a failure the others are in flight still */
    link->many = NULL;
    return link->ok;
}

#define IS_SENTINEL                                                                                \
    "this is a Sentinel, which keeps no locks: give the URL of the master, or "                    \
    "redis+sentinel://HOST/NAME" /* the same as the library's */

typedef struct {
    char product[INFO_PRODUCT_SIZE], mode[16];
} kind;

static bool take_kind(void *ctx, const tl_reply *reply) {
    kind *kind = ctx;
    tl_bytes info;
    if (!tl__reply_text(reply, &info))
        return false;
    (void)info_field(info, "redis_mode", kind->mode, sizeof kind->mode);
    return info_product(info, kind->product);
}

static bool take_product(void *ctx, const tl_reply *reply) {
    tl_bytes info;
    return tl__reply_text(reply, &info) && info_product(info, ctx);
}

bool link_product(server_link *link, char product[INFO_PRODUCT_SIZE]) {
    static const char *const request[] = {"INFO", NULL};
    return link_ask(link, request, take_product, product);
}

/* Add the server's version to the message about a command that it lacks; a Sentinel has a message of its
 * own. The other results stay those of the command. */
static void add_product(server_link *link) {
    static const char *const info[] = {"INFO", NULL};
    const tl_needer *needer = link->needer;
    kind kind = {.mode = ""};
    char was[sizeof link->message];
    int status = link->status;

    memcpy(was, link->message, sizeof was);
    link->needer = NULL;
    bool known = link_ask(link, info, take_kind, &kind);
    bool sentinel = strcmp(kind.mode, "sentinel") == 0;
    if (sentinel)
        (void)snprintf(link->message, sizeof link->message, "%.100s: " IS_SENTINEL,
                       link->endpoint.label);
    else
        (void)snprintf(link->message, sizeof link->message, known ? "%s; this one is %s" : "%s",
                       was, kind.product);
    link->needer = needer;
    link->status = sentinel ? STATUS_INTERNAL : status; /* as for the library's TL_ESERVER */
    link->ok = false;
    link->error = link->lacks = true;
}

bool link_ask_bytes(server_link *link, const tl_bytes *request, size_t n,
                    bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    bool ok = ask(link, request, n, take, ctx);

    if (link->lacks && link->needer)
        add_product(link);
    return ok;
}

bool link_ask(server_link *link, const char *const *request,
              bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_bytes argv[TL_ARGV_MAX];
    size_t n = 0;

    for (; n < TL_ARGV_MAX && request[n]; n++)
        argv[n] = tl__bytes_of(request[n]);
    if (n == TL_ARGV_MAX && request[n]) {
        link->status = STATUS_INTERNAL;
        (void)snprintf(link->message, sizeof link->message, "%s: more arguments than fit",
                       request[0]);
        return false;
    }
    return link_ask_bytes(link, argv, n, take, ctx);
}
