/*
 * Questions to a server on this host. It must never wait for an answer without a limit.
 */
#include "lock/local_ask.h"

#include <poll.h>
#include <stdio.h>

static void answered(void *ctx, const tl_answer *answer) {
    local_line *l = ctx;
    l->done = true;
    l->ok = answer->ok && answer->reply->type != TL_REPLY_ERROR &&
            (!l->take || l->take(l->ctx, answer->reply));
    tl_bytes message = !answer->ok ? answer->words
                       : answer->reply->type == TL_REPLY_ERROR
                           ? answer->reply->text
                           : TL_LITERAL("malformed reply from the server");
    tl__bytes_print(l->message, sizeof l->message, message);
}

bool local_ask_open(local_line *l, const tl_endpoint *endpoint, bool sentinel) {
    tl_conn_limits limits = {.connect_ms = LOCAL_ANSWER_MS, .no_time = sentinel};
    tl_conn_calls calls = {.answer = answered, .ctx = l};

    *l = (local_line){.endpoint = *endpoint};
    l->conn = tl__conn_new(&l->endpoint, &limits, &calls);
    return l->conn != NULL;
}

bool local_ask_open_etcd(local_line *l, const tl_endpoint *login, const tl_seeds *seeds) {
    tl_conn_limits limits = {.connect_ms = LOCAL_ANSWER_MS};
    tl_conn_calls calls = {.answer = answered, .ctx = l};

    *l = (local_line){.members = tl__members_new(login, seeds)};
    limits.members = l->members;
    if (l->members)
        l->conn = tl__conn_new(&l->members->endpoint[0], &limits, &calls);
    if (!l->conn)
        local_ask_close(l);
    return l->conn != NULL;
}

void local_ask_close(local_line *l) {
    tl__conn_free(l->conn);
    tl__members_free(l->members);
    l->conn = NULL;
    l->members = NULL;
}

static void await(local_line *l) {
    while (!l->done) {
        tl_mono until = tl__conn_until(l->conn);
        struct pollfd p = {.fd = tl__conn_fd(l->conn), .events = tl__conn_events(l->conn)};
        int64_t ms = tl__ms_until(tl__mono_now(), until);
        (void)poll(&p, 1, ms < LOCAL_ANSWER_MS ? (int)ms + (ms > 0) : LOCAL_ANSWER_MS);
        tl__conn_drive(l->conn, tl__mono_now());
    }
}

bool local_ask(local_line *l, const char *const *request,
               bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_mono now = tl__mono_now();
    tl_send send = {.count = 1, .by = tl__mono_add_ms(now, LOCAL_ANSWER_MS)};
    tl_command *c = &send.command[0];

    c->form = TL_ARGV;
    for (; *request; request++)
        c->argv[c->argc++] = tl__bytes_of(*request);
    l->take = take;
    l->ctx = ctx;
    l->done = l->ok = false;
    if (tl__conn_send(l->conn, &send, NULL, now) != TL_OK) {
        (void)snprintf(l->message, sizeof l->message, "out of memory");
        return false;
    }
    await(l);
    return l->ok;
}
