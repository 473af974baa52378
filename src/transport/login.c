/*
 * The first requests on a connection. A server's error may repeat what it was sent. So if that contained a
 * user or a password, the server's text gets into no message; our own text for its meaning does.
 */
#include "transport/login.h"

#include <stdio.h>
#include <string.h>

#include "ground/guard.h"
#include "wire/command.h"
#include "wire/refusal.h"

enum { AUTH, SELECT, TIME, RUN, ID, ROLE };

/* ---- requests ---------------------------------------------------------------------------------- */

static void say(tl_login *login, uint8_t step, const char *name, const char *first,
                const char *second) {
    tl_command c = {.form = TL_ARGV};
    const char *words[] = {name, first, second};
    for (size_t i = 0; i < 3 && words[i]; i++)
        c.argv[c.argc++] = tl__bytes_of(words[i]);
    login->size += tl__command_encode(&c, 0, login->bytes + login->size,
                                      sizeof login->bytes - login->size);
    login->step[login->steps++] = step;
}

void tl__login_begin(tl_login *login, const tl_endpoint *endpoint, tl_login_asks asks) {
    char db[TL_INT_SIZE];
    tl_password password = tl__password_ask(endpoint);
    tl__login_clear(login, endpoint);
    login->serves = asks.time;
    if (endpoint->user[0])
        say(login, AUTH, "AUTH", endpoint->user, password.text);
    else if (password.text[0])
        say(login, AUTH, "AUTH", password.text, NULL);
    tl__password_forget(&password);
    if (endpoint->db)
        say(login, SELECT, "SELECT", tl__bytes_from_int(db, endpoint->db).p, NULL);
    if (asks.role)
        say(login, ROLE, "ROLE", NULL, NULL);
    if (asks.time)
        say(login, TIME, "TIME", NULL, NULL);
    if (asks.run)
        say(login, RUN, "INFO", "server", NULL);
    if (asks.id)
        say(login, ID, "CLIENT", "ID", NULL);
}

void tl__login_wipe(tl_login *login) {
    explicit_bzero(login->bytes,
                   login->size < sizeof login->bytes ? login->size : sizeof login->bytes);
}

bool tl__login_write(tl_login *login, tl_stream *stream) {
    if (login->done == 0)
        login->sent = tl__mono_now();
    while (login->done < login->size) {
        ssize_t n = tl__stream_write(stream, login->bytes + login->done, login->size - login->done);
        if (n <= 0)
            return n == 0;
        login->done += (size_t)n;
    }
    return true;
}

/* ---- replies ----------------------------------------------------------------------------------- */

tl_login_outcome tl__login_fail(tl_login *login, tl_err why, const char *problem) {
    login->why = why;
    (void)snprintf(login->message, sizeof login->message, "%s: %s", login->endpoint->label,
                   problem);
    return TL_LOGIN_FAILED;
}

/* The problem, if the error means that the server can't serve at present; else NULL. */
static const char *unavailable(tl_bytes error) {
    static const struct {
        const char *begins, *problem;
    } all[] = {
        {"LOADING", "LOADING: the server is loading its data"},
        {"MASTERDOWN", "MASTERDOWN: the server is a replica without its master"},
        {"BUSY", "BUSY: the server is busy with a script"},
        {"CLUSTERDOWN", "CLUSTERDOWN: the cluster is down"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (tl__bytes_starts(error, all[i].begins))
            return all[i].problem;
    return tl__bytes_has(error, "max number of clients") ? "max number of clients reached" : NULL;
}

/* Fail with the problem, and with the server's text unless it may repeat a secret that was sent. */
static tl_login_outcome quoted(tl_login *login, tl_err why, const char *problem, tl_bytes error) {
    char server[TL_REFUSAL_SIZE], both[TL_REFUSAL_SIZE + 64];
    bool secret = GUARD(secret_is_not_quoted) &&
                  (login->endpoint->user[0] || tl__endpoint_has_password(login->endpoint));
    (void)snprintf(both, sizeof both, "%s%s%.128s", problem, secret ? "" : ": ",
                   secret ? "" : tl__refusal_message(server, error).p);
    return tl__login_fail(login, why, both);
}

static tl_login_outcome auth_error(tl_login *login, tl_bytes error) {
    bool user = login->endpoint->user[0];
    if (tl__bytes_has(error, "without any password") || tl__bytes_has(error, "no password is set"))
        return tl__login_fail(login, TL_EDENIED,
                              "a password is given, but the server asks for none");
    if (user && tl__bytes_has(error, "wrong number of arguments"))
        return tl__login_fail(
            login, TL_EDENIED,
            "the server is too old for user names: give the password alone, as in "
            "redis://:PASSWORD@HOST");
    if (tl__bytes_starts(error, "WRONGPASS"))
        return tl__login_fail(
            login, TL_EDENIED,
            user && !tl__endpoint_password(login->endpoint)[0]
                ? "login refused: WRONGPASS: wrong user or password (a password alone is "
                  "written redis://:PASSWORD@HOST)"
                : "login refused: WRONGPASS: wrong user or password");
    if (tl__bytes_has(error, "invalid password"))
        return tl__login_fail(login, TL_EDENIED, "login refused: ERR: wrong password");
    if (tl__bytes_has(error, "unknown command"))
        return tl__login_fail(login, TL_EDENIED,
                              "login refused: ERR: the server has no command AUTH");
    return tl__login_fail(login, TL_EDENIED,
                          tl__bytes_starts(error, "ERR ") ? "login refused: ERR" : "login refused");
}

static const char *command_of(uint8_t step) {
    return step == SELECT ? "select" : step == ROLE ? "role" : "time";
}

static tl_login_outcome no_permission(tl_login *login, uint8_t step) {
    char message[TL_REFUSAL_SIZE], both[TL_REFUSAL_SIZE + 32];
    (void)snprintf(both, sizeof both, "%s%s",
                   tl__refusal_of_command(message, tl__bytes_of(command_of(step))).p,
                   step == ROLE ? " (ROLE shows whether the server is the master)" : "");
    return tl__login_fail(login, TL_EDENIED, both);
}

static tl_login_outcome other_error(tl_login *login, uint8_t step, tl_bytes error) {
    char problem[64];
    if (tl__bytes_starts(error, "NOAUTH") || tl__bytes_has(error, "operation not permitted"))
        return tl__login_fail(login, TL_EDENIED, "the server asks for a password");
    if (tl__bytes_starts(error, "DENIED"))
        return tl__login_fail(
            login, TL_EDENIED,
            "DENIED: the server is in protected mode: without a password it serves only "
            "its own host");
    if (tl__is_no_permission(error))
        return no_permission(login, step);
    if (step == TIME)
        return quoted(login, TL_EUNAVAILABLE, "TIME failed", error);
    if (step == ROLE)
        return quoted(login, TL_EUNAVAILABLE, "ROLE failed", error);
    (void)snprintf(problem, sizeof problem, "database %ld cannot be selected",
                   (long)login->endpoint->db);
    return quoted(login, TL_EINVALID, problem, error);
}

static tl_login_outcome on_error(tl_login *login, uint8_t step, tl_bytes error) {
    if (step == RUN || step == ID || (step == TIME && tl__bytes_has(error, "unknown command")))
        return TL_LOGIN_DONE;
    const char *problem = unavailable(error);
    if (problem)
        return tl__login_fail(login, TL_EUNAVAILABLE, problem);
    return step == AUTH ? auth_error(login, error) : other_error(login, step, error);
}

/* A hash of the run_id, 40 hexadecimal digits that are drawn when the server starts; 0: there is none. */
static uint64_t run_in(tl_bytes info) {
    tl_bytes rest = tl__bytes_after(info, "run_id:"), line = tl__bytes_take(&rest, '\n');
    return line.p ? tl__bytes_hash(0, tl__bytes_take(&line, '\r')) : 0;
}

static tl_login_outcome on_value(tl_login *login, uint8_t step, const tl_reply *reply) {
    tl_bytes text;
    int64_t server_us;
    switch (step) {
    case TIME:
        if (!tl__reply_time(reply, 0, &server_us))
            return tl__login_fail(login, TL_ESERVER, "malformed reply to TIME");
        login->server_us = server_us;
        login->has_bracket = true;
        break;
    case ROLE:
        if (!tl__reply_text(tl__reply_item(reply, 0), &text))
            return tl__login_fail(login, TL_ESERVER, "malformed reply to ROLE");
        if (GUARD(replica_is_refused) && !tl__bytes_eq(text, TL_LITERAL("master")))
            return tl__login_fail(login, TL_EUNAVAILABLE,
                                  "it is a replica, but was named as the master");
        break;
    case RUN:
        if (!tl__reply_text(reply, &text))
            break;
        if (GUARD(sentinel_keeps_no_locks) && login->serves &&
            tl__bytes_has(text, "redis_mode:sentinel"))
            return tl__login_fail(
                login, TL_ESERVER,
                "this is a Sentinel, which keeps no locks: give the URL of the master, "
                "or redis+sentinel://HOST/NAME");
        login->run = run_in(text);
        break;
    case ID:
        if (!tl__reply_int(reply, &login->id))
            login->id = 0;
        break;
    default:
        if (!tl__reply_text(reply, &text) || !tl__bytes_eq(text, TL_LITERAL("OK")))
            return tl__login_fail(login, TL_ESERVER, "malformed reply to the login");
    }
    return TL_LOGIN_DONE;
}

const char *tl__login_stranger(tl_bytes heard) {
    if (tl__bytes_starts(heard, "\x15\x03") || tl__bytes_starts(heard, "\x16\x03"))
        return "it speaks TLS; try rediss://";
    if (tl__bytes_starts(heard, "HTTP/"))
        return "it is a web server";
    return tl__bytes_starts(heard, "SSH-") ? "it is a secure shell" : NULL;
}

tl_login_outcome tl__login_reply(tl_login *login, const tl_reply *reply, tl_mono received) {
    uint8_t step = login->step[login->answered++];
    tl_login_outcome outcome = reply->type == TL_REPLY_ERROR ? on_error(login, step, reply->text)
                                                             : on_value(login, step, reply);
    if (outcome == TL_LOGIN_FAILED)
        return outcome;
    if (login->answered < login->steps)
        return TL_LOGIN_MORE;
    if (login->has_bracket) /* the server read its clock at some moment of the whole exchange */
        login->bracket = tl__bracket(
            login->server_us, GUARD(login_counts_from_send) ? login->sent : received, received);
    return TL_LOGIN_DONE;
}
