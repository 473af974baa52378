/*
 * Questions to a server on this host. It must never wait for a reply without a limit.
 */
#include "lock/local_ask.h"

#include <poll.h>
#include <stdio.h>

static void answered(void *ctx, const tl_answer *answer) {
    local_line *line = ctx;
    line->done = true;
    line->ok = answer->ok && answer->reply->type != TL_REPLY_ERROR &&
               (!line->take || line->take(line->ctx, answer->reply));
    tl_bytes message = !answer->ok ? answer->message
                       : answer->reply->type == TL_REPLY_ERROR
                           ? answer->reply->text
                           : TL_LITERAL("malformed reply from the server");
    tl__bytes_print(line->message, sizeof line->message, message);
}

bool local_ask_open(local_line *line, const tl_endpoint *endpoint, bool sentinel) {
    tl_conn_limits limits = {.connect_ms = LOCAL_ANSWER_MS, .no_time = sentinel};
    tl_conn_calls calls = {.answer = answered, .ctx = line};

    *line = (local_line){.endpoint = *endpoint};
    line->conn = tl__conn_new(&line->endpoint, &limits, &calls);
    return line->conn != NULL;
}

bool local_ask_open_etcd(local_line *line, const tl_endpoint *login, const tl_seeds *seeds) {
    tl_conn_limits limits = {.codec = &tl__codec_etcd, .connect_ms = LOCAL_ANSWER_MS};
    tl_conn_calls calls = {.answer = answered, .ctx = line};

    *line = (local_line){.members = tl__members_new(login, seeds)};
    limits.members = line->members;
    if (line->members)
        line->conn = tl__conn_new(&line->members->endpoint[0], &limits, &calls);
    if (!line->conn)
        local_ask_close(line);
    return line->conn != NULL;
}

void local_ask_close(local_line *line) {
    tl__conn_free(line->conn);
    tl__members_free(line->members);
    line->conn = NULL;
    line->members = NULL;
}

static void await(local_line *line) {
    while (!line->done) {
        tl_mono until = tl__conn_until(line->conn);
        struct pollfd p = {.fd = tl__conn_fd(line->conn), .events = tl__conn_events(line->conn)};
        int64_t ms = tl__ms_until(tl__mono_now(), until);
        (void)poll(&p, 1, ms < LOCAL_ANSWER_MS ? (int)ms + (ms > 0) : LOCAL_ANSWER_MS);
        tl__conn_drive(line->conn, tl__mono_now());
    }
}

bool local_ask(local_line *line, const char *const *request,
               bool (*take)(void *ctx, const tl_reply *reply), void *ctx) {
    tl_mono now = tl__mono_now();
    tl_send send = {.count = 1, .by = tl__mono_add_ms(now, LOCAL_ANSWER_MS)};
    tl_command *command = &send.command[0];

    command->form = TL_ARGV;
    for (; *request; request++)
        command->argv[command->argc++] = tl__bytes_of(*request);
    line->take = take;
    line->ctx = ctx;
    line->done = line->ok = false;
    if (tl__conn_send(line->conn, &send, NULL, now) != TL_OK) {
        (void)snprintf(line->message, sizeof line->message, "out of memory");
        return false;
    }
    await(line);
    return line->ok;
}
