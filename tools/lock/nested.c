/*
 * A run within a run. TIDELOCK_HELD has a word for each lock that is held around the command, the innermost
 * last: the key's hash, and what identifies the holder. If the key has a slash, another word has the whole
 * key, since on etcd a held a/b blocks a. The environment may be older than the lock, so the server's reply
 * decides.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "ground/bytes.h"
#include "lock/nested.h"

#define HELD_MAX 32768 /* a longer value isn't passed on: nobody nests so deep */
#define WORD_SIZE 96
#define ALL ":all:"
#define ALL_SIZE (24 + sizeof ALL + 3 * (size_t)TL_KEY_MAX) /* the size of such a word */

static unsigned long long hash_of(const char *key) {
    return tl__bytes_hash(0, tl__bytes_of(key));
}

/* " HASH:all:KEY", where bytes that are not in `plain` are two digits after a '%'; "" for a key without a
 * slash. */
static const char *all_of(const char *key, char word[ALL_SIZE]) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789/-._:";
    size_t n;

    word[0] = '\0';
    if (!strchr(key, '/') || strlen(key) > TL_KEY_MAX)
        return word;
    n = (size_t)snprintf(word, ALL_SIZE, " %016llx" ALL, hash_of(key));
    for (; *key; key++)
        n += (size_t)snprintf(word + n, ALL_SIZE - n, strchr(plain, *key) ? "%c" : "%%%02x",
                              (unsigned char)*key);
    return word;
}

/* A lock by four commands has no fence; then its token is in the value. */
char *nested_value(const char *key, const char *token, uint64_t fence) {
    const char *outer = getenv(NESTED_NAME);
    char *text, all[ALL_SIZE];

    if (!outer || strlen(outer) > HELD_MAX)
        outer = "";
    int n = fence ? asprintf(&text, "%s%s%016llx:fence:%llu:%016llx%s", outer, *outer ? " " : "",
                             hash_of(key), (unsigned long long)fence, hash_of(token),
                             all_of(key, all))
                  : asprintf(&text, "%s%s%016llx:token:%s%s", outer, *outer ? " " : "",
                             hash_of(key), token, all_of(key, all));
    return n < 0 ? NULL : text;
}

/* Does the word, without its hash, identify this holder? Before the lock's first renewal only the token in
 * its key identifies the holder. */
static bool is_holder(const char *word, const tl_lock_info *info) {
    const char *token = strchr(word, ':') ? strchr(strchr(word, ':') + 1, ':') : NULL;
    if (strncmp(word, "fence:", 6) == 0 && !info->by_tidelock)
        return token && strtoull(token + 1, NULL, 16) == hash_of(info->value);
    if (strncmp(word, "fence:", 6) == 0)
        return info->fence == strtoull(word + 6, NULL, 10);
    return strncmp(word, "token:", 6) == 0 && word[6] && strstr(info->value, word + 6);
}

/* The rest of the next word that begins with `start`; *at moves past it. */
static bool next_word(const char **at, const char *start, char word[WORD_SIZE]) {
    while (**at) {
        const char *begin = *at;
        size_t n = strcspn(begin, " ");
        *at = begin + n + strspn(begin + n, " ");
        if (n < WORD_SIZE && n > strlen(start) && strncmp(begin, start, strlen(start)) == 0) {
            (void)snprintf(word, WORD_SIZE, "%.*s", (int)(n - strlen(start)),
                           begin + strlen(start));
            return true;
        }
    }
    return false;
}

/* Is this lock held, at this moment, by a run around this process? */
static bool is_held_around(tl_client *client, const char *key) {
    tl_lock_info info = {.size = sizeof info};
    const char *at = getenv(NESTED_NAME);
    char start[24], word[WORD_SIZE];
    bool looked = false;

    (void)snprintf(start, sizeof start, "%016llx:", hash_of(key));
    while (at && next_word(&at, start, word)) {
        if (!looked && tl_client_look(client, key, strlen(key), &info, NULL))
            return false;
        looked = true;
        if (info.held && !info.rests && is_holder(word, &info))
            return true;
    }
    return false;
}

/* The key of a word that all_of() wrote. False: it is another word. */
static bool read_all(const char *word, size_t n, char key[TL_KEY_MAX + 1]) {
    const char *end = word + n, *from = word + 16 + sizeof ALL - 1;
    size_t used = 0;

    if (n >= ALL_SIZE || from >= end || memcmp(word + 16, ALL, sizeof ALL - 1) != 0)
        return false;
    for (; from < end && used < TL_KEY_MAX; from++) {
        unsigned byte = (unsigned char)*from;
        if (*from == '%' && (end - from < 3 || sscanf(from + 1, "%2x", &byte) != 1))
            return false;
        from += *from == '%' ? 2 : 0;
        key[used++] = (char)byte;
    }
    key[used] = '\0';
    return from >= end;
}

/* The next key in the list that is below this one (KEY/...); *at moves past it. */
static bool next_below(const char **at, const char *key, char below[TL_KEY_MAX + 1]) {
    size_t n = strlen(key);

    while (**at) {
        const char *begin = *at;
        size_t size = strcspn(begin, " ");
        *at = begin + size + strspn(begin + size, " ");
        if (read_all(begin, size, below) && strncmp(below, key, n) == 0 && below[n] == '/')
            return true;
    }
    return false;
}

bool nested_holds(const server *where, tl_client *client, const char *key, tl_error *err) {
    const char *at = server_by_etcd(where) ? getenv(NESTED_NAME) : NULL;
    char below[TL_KEY_MAX + 1], shown[KEY_SHOWN], shown_below[KEY_SHOWN];

    *err = (tl_error){.code = TL_EBUSY};
    if (is_held_around(client, key)) {
        (void)snprintf(
            err->message, sizeof err->message,
            "acquire %s: a tidelock run around this command holds it already; waiting for it would "
            "never end",
            show_key(shown, key));
        return true;
    }
    while (at && next_below(&at, key, below)) {
        if (!is_held_around(client, below))
            continue;
        (void)snprintf(
            err->message, sizeof err->message,
            "acquire %s: a tidelock run around this command holds %s, which is below it; waiting "
            "for it would never end",
            show_key(shown, key), show_key(shown_below, below));
        return true;
    }
    *err = (tl_error){.code = TL_OK};
    return false;
}
