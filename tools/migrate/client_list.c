/*
 * Lines of CLIENT LIST: "id=3 addr=10.0.0.7:4001 name=web cmd=setnx user=default lib-name=jedis lib-ver=5.1.0".
 * Neither a name nor a library has a blank: the server rejects that.
 */
#include <stdio.h>
#include <string.h>

#include "migrate/client_list.h"

/* The value of "name=" in a line, cut to fit. */
static void value_of(tl_bytes line, const char *name, char *to, size_t size) {
    size_t n = strlen(name);

    to[0] = '\0';
    for (size_t i = 0; i + n < line.n; i++) {
        if ((i > 0 && line.p[i - 1] != ' ') || memcmp(line.p + i, name, n) != 0 ||
            line.p[i + n] != '=')
            continue;
        const char *from = line.p + i + n + 1;
        size_t rest = line.n - (i + n + 1);
        const char *blank = memchr(from, ' ', rest);
        tl__bytes_print(to, size, tl__bytes(from, blank ? (size_t)(blank - from) : rest));
        return;
    }
}

bool client_list_next(tl_bytes *list, client_row *ret) {
    while (list->n > 0) {
        tl_bytes line = tl__bytes_take(list, '\n');
        if (line.n > 0 && line.p[line.n - 1] == '\r')
            line.n--;
        value_of(line, "addr", ret->address, sizeof ret->address);
        value_of(line, "name", ret->name, sizeof ret->name);
        value_of(line, "lib-name", ret->library, sizeof ret->library);
        value_of(line, "lib-ver", ret->version, sizeof ret->version);
        value_of(line, "user", ret->user, sizeof ret->user);
        value_of(line, "cmd", ret->command, sizeof ret->command);
        if (ret->address[0])
            return true;
    }
    return false;
}

static bool is_one(const char *word, const char *const *list) {
    for (; *list; list++)
        if (strcmp(word, *list) == 0)
            return true;
    return false;
}

bool client_may_be_ours(const client_row *row) {
    static const char *const ours[] = {
        "eval",    "evalsha",    "time",        "wait", "auth",   "hello",
        "select",  "subscribe",  "unsubscribe", "ping", "info",   "client",
        "monitor", "replconf",   "psync",       "sync", "NULL",   "script",
        "echo",    "psubscribe", "cluster",     "role", "asking", NULL};
    char head[sizeof row->command];

    (void)snprintf(head, sizeof head, "%s", row->command);
    head[strcspn(head, "|")] = '\0';
    return is_one(head, ours);
}

bool client_is_suspect(const client_row *row) {
    static const char *const theirs[] = {"setnx", "getset", NULL};
    return is_one(row->command, theirs);
}

const char *client_show(char buf[CLIENT_SHOWN], const client_row *row) {
    const struct {
        const char *before, *text, *behind;
    } parts[] = {{"", row->address, ""},
                 {" called ", row->name, ""},
                 {" (", row->library, row->version[0] ? "" : ")"},
                 {" ", row->library[0] ? row->version : "", ")"},
                 {" as user ", row->user, ""},
                 {", last command ", row->command, ""}};
    size_t n = 0;

    buf[0] = '\0';
    for (size_t i = 0; i < sizeof parts / sizeof *parts && n < CLIENT_SHOWN; i++)
        if (parts[i].text[0])
            n += (size_t)snprintf(buf + n, CLIENT_SHOWN - n, "%s%.40s%s", parts[i].before,
                                  parts[i].text, parts[i].behind);
    return buf;
}
