/*
 * Floor 3: the first words on a connection. What a server says about AUTH may repeat what it was
 * sent, so its words reach a message only after they were searched for the secrets.
 */
#include "login.h"

#include <stdio.h>
#include <string.h>

#include "command.h"

enum { AUTH, SELECT, TIME, INFO, ID };

#define SERVER_WORDS 128 /* as much of the server's own words as a message repeats */
#define UPTIME_MAX_S (INT64_C(36500) * 86400) /* a century: more is nonsense */

/* ---- asking ------------------------------------------------------------------------------------ */

static void say(tl_login *l, uint8_t step, const char *name, const char *first,
                const char *second) {
    tl_command c = {.form = TL_ARGV};
    const char *words[] = {name, first, second};
    for (size_t i = 0; i < 3 && words[i]; i++)
        c.argv[c.argc++] = tl__bytes_of(words[i]);
    l->size += tl__command_encode(&c, 0, l->bytes + l->size, sizeof l->bytes - l->size);
    l->step[l->steps++] = step;
}

void tl__login_begin(tl_login *login, const tl_endpoint *endpoint, tl_login_asks asks) {
    char db[TL_INT_SIZE];
    *login = (tl_login){.uptime_us = -1};
    if (endpoint->user[0])
        say(login, AUTH, "AUTH", endpoint->user, endpoint->password);
    else if (endpoint->password[0])
        say(login, AUTH, "AUTH", endpoint->password, NULL);
    if (endpoint->db)
        say(login, SELECT, "SELECT", tl__bytes_from_int(db, endpoint->db).p, NULL);
    if (asks.time)
        say(login, TIME, "TIME", NULL, NULL);
    if (asks.uptime)
        say(login, INFO, "INFO", "server", NULL);
    if (asks.id)
        say(login, ID, "CLIENT", "ID", NULL);
}

void tl__login_wipe(tl_login *login) {
    explicit_bzero(login->bytes, sizeof login->bytes);
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

/* ---- answers ----------------------------------------------------------------------------------- */

typedef struct {
    const tl_endpoint *endpoint;
    tl_err *why;
    char *words;
    size_t size;
} report;

static tl_login_outcome failed(const report *r, tl_err why, const char *problem,
                               const char *server) {
    *r->why = why;
    (void)snprintf(r->words, r->size, "%s: %s%s%s", r->endpoint->label, problem,
                   server[0] ? ": " : "", server);
    return TL_LOGIN_FAILED;
}

static bool begins(tl_bytes text, const char *with) {
    size_t n = strlen(with);
    return text.n >= n && memcmp(text.p, with, n) == 0;
}

static bool has(tl_bytes text, const char *part) {
    return memmem(text.p, text.n, part, strlen(part)) != NULL;
}

/* Up to where `part`, if it is anything, begins. */
static tl_bytes before(tl_bytes text, const char *part) {
    const char *at = part[0] ? memmem(text.p, text.n, part, strlen(part)) : NULL;
    return at ? tl__bytes(text.p, (size_t)(at - text.p)) : text;
}

/* The server's words up to where they repeat what it was sent. */
static void quote(char *to, const tl_endpoint *e, tl_bytes text) {
    size_t n = before(text, e->user).n, other = before(text, e->password).n;
    text = before(tl__bytes(text.p, n < other ? n : other), ", with args");
    tl__bytes_print(to, SERVER_WORDS, text);
}

/* The server can't serve anybody now. */
static bool unavailable(tl_bytes error) {
    return begins(error, "LOADING") || begins(error, "MASTERDOWN") || begins(error, "BUSY") ||
           begins(error, "CLUSTERDOWN") || has(error, "max number of clients");
}

static tl_login_outcome auth_error(const report *r, tl_bytes error, const char *server) {
    if (has(error, "without any password") || has(error, "no password is set"))
        return failed(r, TL_EDENIED, "a password is given, but the server asks for none", "");
    if (r->endpoint->user[0] && has(error, "wrong number of arguments"))
        return failed(r, TL_EDENIED,
                      "the server is too old for user names: give the password alone", "");
    return failed(r, TL_EDENIED, "login refused", server);
}

static tl_login_outcome other_error(const report *r, uint8_t step, tl_bytes error,
                                    const char *server) {
    char problem[64];
    if (begins(error, "NOAUTH") || has(error, "operation not permitted"))
        return failed(r, TL_EDENIED, "the server asks for a password", "");
    if (begins(error, "NOPERM") || begins(error, "DENIED"))
        return failed(r, TL_EDENIED, "refused", server);
    if (step == TIME)
        return failed(r, TL_EUNAVAILABLE, "TIME failed", server);
    (void)snprintf(problem, sizeof problem, "database %ld cannot be selected",
                   (long)r->endpoint->db);
    return failed(r, TL_EINVALID, problem, server);
}

static tl_login_outcome on_error(const report *r, uint8_t step, tl_bytes error) {
    char server[SERVER_WORDS];
    if (step == INFO || step == ID || (step == TIME && has(error, "unknown command")))
        return TL_LOGIN_DONE;
    quote(server, r->endpoint, error);
    if (unavailable(error))
        return failed(r, TL_EUNAVAILABLE, "the server cannot serve now", server);
    return step == AUTH ? auth_error(r, error, server) : other_error(r, step, error, server);
}

static int64_t uptime_in(tl_bytes info) {
    static const char name[] = "uptime_in_seconds:";
    const char *at = memmem(info.p, info.n, name, sizeof name - 1);
    int64_t s = 0;
    if (!at)
        return -1;
    at += sizeof name - 1;
    const char *end = at;
    while (end < info.p + info.n && *end >= '0' && *end <= '9')
        end++;
    bool ok = tl__bytes_to_int(tl__bytes(at, (size_t)(end - at)), &s) && s <= UPTIME_MAX_S;
    return ok ? s * 1000000 : -1;
}

static tl_login_outcome on_value(tl_login *l, const report *r, uint8_t step, const tl_reply *reply,
                                 tl_mono received) {
    tl_bytes text;
    int64_t stamp_us;
    switch (step) {
    case TIME:
        if (!tl__reply_time(reply, 0, &stamp_us))
            return failed(r, TL_ESERVER, "TIME was answered with something else", "");
        l->bracket = tl__bracket(stamp_us, l->sent, received);
        l->has_bracket = true;
        break;
    case INFO:
        if (tl__reply_text(reply, &text))
            l->uptime_us = uptime_in(text);
        break;
    case ID:
        if (!tl__reply_int(reply, &l->id))
            l->id = 0;
        break;
    default:
        if (!tl__reply_text(reply, &text) || !tl__bytes_eq(text, TL_LITERAL("OK")))
            return failed(r, TL_ESERVER, "the login was answered with something else", "");
    }
    return TL_LOGIN_DONE;
}

const char *tl__login_stranger(tl_bytes heard) {
    if (begins(heard, "\x15\x03") || begins(heard, "\x16\x03"))
        return "it speaks TLS; try rediss://";
    if (begins(heard, "HTTP/"))
        return "it is a web server";
    return begins(heard, "SSH-") ? "it is a secure shell" : NULL;
}

tl_login_outcome tl__login_reply(tl_login *login, const tl_endpoint *endpoint,
                                 const tl_reply *reply, tl_mono received, tl_err *ret_why,
                                 char *words, size_t size) {
    const report r = {endpoint, ret_why, words, size};
    uint8_t step = login->step[login->answered++];
    tl_login_outcome outcome = reply->type == TL_REPLY_ERROR
                                   ? on_error(&r, step, reply->text)
                                   : on_value(login, &r, step, reply, received);
    if (outcome == TL_LOGIN_FAILED)
        return outcome;
    return login->answered < login->steps ? TL_LOGIN_MORE : TL_LOGIN_DONE;
}
