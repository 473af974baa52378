/*
 * Reads MONITOR's lines: STAMP [DB CLIENT] "WORD" "WORD" ..., with the server's escapes. Only as
 * much of a line as fits is kept, and nothing is guessed.
 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "legacy/skew_monitor.h"

#define SECONDS_DIGITS 11 /* to the year 5138 */
#define STAMP_DIGITS 6

/* ---- bytes ------------------------------------------------------------------------------------ */

static bool take_one(tl_bytes *rest, char c) {
    if (rest->n == 0 || rest->p[0] != c)
        return false;
    *rest = tl__bytes(rest->p + 1, rest->n - 1);
    return true;
}

/* Reads up to `most` digits at the front. */
static size_t take_number(tl_bytes *rest, size_t most, int64_t *ret) {
    size_t n = 0;

    *ret = 0;
    for (; n < most && n < rest->n && rest->p[n] >= '0' && rest->p[n] <= '9'; n++)
        *ret = *ret * 10 + (rest->p[n] - '0');
    *rest = tl__bytes(rest->p + n, rest->n - n);
    return n;
}

static tl_bytes take_until(tl_bytes *rest, const char *end, bool *ret_found) {
    size_t n = strlen(end);
    const char *at = rest->n ? memmem(rest->p, rest->n, end, n) : NULL;
    tl_bytes head = tl__bytes(rest->p, at ? (size_t)(at - rest->p) : rest->n);
    size_t used = at ? head.n + n : head.n;

    *rest = tl__bytes(rest->p + used, rest->n - used);
    *ret_found = at != NULL;
    return head;
}

/* ---- the client ----------------------------------------------------------------------------- */

static bool copy(char to[SKEW_CLIENT_SIZE], tl_bytes from) {
    if (from.n == 0 || from.n >= SKEW_CLIENT_SIZE || memchr(from.p, '\0', from.n))
        return false;
    memcpy(to, from.p, from.n);
    to[from.n] = '\0';
    return true;
}

/* Reads "host:port" or "[host]:port". */
static bool read_address(tl_bytes client, skew_heard *ret) {
    const char *colon = memrchr(client.p, ':', client.n);
    tl_bytes host = tl__bytes(client.p, colon ? (size_t)(colon - client.p) : 0);
    tl_bytes port = tl__bytes(client.p + host.n + 1, client.n - host.n - 1);
    int64_t number;

    if (take_number(&port, 5, &number) == 0 || port.n != 0)
        return false;
    if (host.n > 2 && host.p[0] == '[' && host.p[host.n - 1] == ']')
        host = tl__bytes(host.p + 1, host.n - 2);
    return copy(ret->host, host) && copy(ret->client, client);
}

static bool read_client(tl_bytes client, skew_heard *ret) {
    ret->client[0] = ret->host[0] = '\0';
    ret->by = SKEW_BY_TCP;
    if (tl__bytes_eq(client, TL_LITERAL("lua")))
        ret->by = SKEW_BY_SCRIPT;
    else if (tl__bytes_starts(client, "unix:"))
        ret->by = SKEW_BY_UNIX;
    else
        return client.n > 0 && memchr(client.p, ':', client.n) && read_address(client, ret);
    return true;
}

/* ---- words ------------------------------------------------------------------------------------ */

static int hex(char c) {
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Reads an escape after its backslash: one letter, or x and two digits. */
static bool take_escape(tl_bytes *rest, char *ret) {
    static const char letters[] = "nrtab\\\"", meant[] = "\n\r\t\a\b\\\"";
    const char *at = rest->n && rest->p[0] ? strchr(letters, rest->p[0]) : NULL;
    size_t used = 1;

    if (at) {
        *ret = meant[at - letters];
    } else if (rest->n >= 3 && rest->p[0] == 'x' && hex(rest->p[1]) >= 0 && hex(rest->p[2]) >= 0) {
        *ret = (char)(hex(rest->p[1]) * 16 + hex(rest->p[2]));
        used = 3;
    } else {
        return false;
    }
    *rest = tl__bytes(rest->p + used, rest->n - used);
    return true;
}

static void keep(skew_word *word, char c) {
    if (word->n < sizeof word->bytes)
        word->bytes[word->n++] = c;
    else
        word->cut = true;
}

/* Reads a word in quotation marks. A word without an end belongs to a line that was cut. */
static bool take_word(tl_bytes *rest, skew_word *word) {
    word->n = 0;
    word->cut = false;
    if (!take_one(rest, '"'))
        return false;
    while (rest->n > 0 && rest->p[0] != '"') {
        char c = rest->p[0];
        *rest = tl__bytes(rest->p + 1, rest->n - 1);
        if (c == '\\' && !take_escape(rest, &c)) {
            bool cut = rest->n < 3;
            *rest = tl__bytes(rest->p + rest->n, 0);
            word->cut = true;
            return cut;
        }
        keep(word, c);
    }
    if (!take_one(rest, '"'))
        word->cut = true;
    return true;
}

/* ---- the line --------------------------------------------------------------------------------- */

bool skew_monitor_read(tl_bytes line, skew_heard *ret) {
    int64_t seconds, us, db;
    bool found;

    if (take_number(&line, SECONDS_DIGITS, &seconds) == 0 || !take_one(&line, '.') ||
        take_number(&line, STAMP_DIGITS, &us) != STAMP_DIGITS || !take_one(&line, ' ') ||
        !take_one(&line, '[') || take_number(&line, 9, &db) == 0 || !take_one(&line, ' '))
        return false;
    ret->stamp_us = seconds * 1000000 + us;
    ret->words = 0;
    tl_bytes client = take_until(&line, "] ", &found);
    if (!found || !read_client(client, ret))
        return false;
    while (ret->words < SKEW_WORDS && take_word(&line, &ret->word[ret->words])) {
        ret->words++;
        if (line.n == 0)
            return true;
        if (!take_one(&line, ' '))
            return false;
    }
    return ret->words == SKEW_WORDS;
}

bool skew_heard_is(const skew_heard *heard, const char *name) {
    size_t n = strlen(name);
    return heard->words > 0 && !heard->word[0].cut && heard->word[0].n == n &&
           strncasecmp(heard->word[0].bytes, name, n) == 0;
}

/* ---- CLIENT LIST ------------------------------------------------------------------------------ */

/* The number after " name="; -1: none. */
static int64_t field(tl_bytes line, const char *name) {
    bool found;
    int64_t v;

    (void)take_until(&line, name, &found);
    return found && take_number(&line, 15, &v) > 0 ? v : -1;
}

/* Flag O: the client is in MONITOR. */
static bool monitors(tl_bytes line) {
    bool found, end;

    (void)take_until(&line, " flags=", &found);
    tl_bytes flags = take_until(&line, " ", &end);
    return found && flags.n > 0 && memchr(flags.p, 'O', flags.n);
}

int64_t skew_monitor_backlog(tl_bytes list, int64_t id) {
    int64_t most = 0;

    while (list.n > 0) {
        bool found;
        tl_bytes line = take_until(&list, "\n", &found);
        bool ours = id > 0 ? tl__bytes_starts(line, "id=") && field(line, "id=") == id
                           : monitors(line);
        int64_t v = ours ? field(line, " omem=") : -1;
        most = v > most ? v : most;
    }
    return most;
}
