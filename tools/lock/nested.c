/*
 * A run within a run. TIDELOCK_HELD has a word for each lock that is held around the command, the
 * innermost last: the key's hash, and what its holder can be told by. The server's answer decides,
 * never the environment alone, which may be older than the lock.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/tool.h"
#include "lock/nested.h"

#define HELD_MAX 32768 /* longer than that it isn't passed on: nobody nests so deep */
#define WORD_SIZE 96

static unsigned long long hash_of(const char *key) {
    unsigned long long h = 14695981039346656037U;

    for (; *key; key++)
        h = (h ^ (unsigned char)*key) * 1099511628211U;
    return h;
}

/* Without a fence, which a lock by four commands hasn't, the token is in the value. */
char *nested_value(const char *key, const char *token, uint64_t fence) {
    const char *outer = getenv(NESTED_NAME);
    char *text;

    if (!outer || strlen(outer) > HELD_MAX)
        outer = "";
    int n = fence ? asprintf(&text, "%s%s%016llx:fence:%llu:%016llx", outer, *outer ? " " : "",
                             hash_of(key), (unsigned long long)fence, hash_of(token))
                  : asprintf(&text, "%s%s%016llx:token:%s", outer, *outer ? " " : "", hash_of(key),
                             token);
    return n < 0 ? NULL : text;
}

/* Is this what the word, behind its hash, tells of the holder? Before the lock's first renewal the token in its key
 * alone tells who has it. */
static bool is_holder(const char *word, const tl_lock_info *info) {
    const char *token = strchr(word, ':') ? strchr(strchr(word, ':') + 1, ':') : NULL;
    if (strncmp(word, "fence:", 6) == 0 && !info->by_tidelock)
        return token && strtoull(token + 1, NULL, 16) == hash_of(info->value);
    if (strncmp(word, "fence:", 6) == 0)
        return info->fence == strtoull(word + 6, NULL, 10);
    return strncmp(word, "token:", 6) == 0 && word[6] && strstr(info->value, word + 6);
}

/* The next word of the list that begins with this; *at moves behind it. */
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

bool nested_holds(tl_client *client, const char *key, tl_error *err) {
    tl_lock_info info = {.size = sizeof info};
    const char *at = getenv(NESTED_NAME);
    char start[24], word[WORD_SIZE], shown[KEY_SHOWN];
    bool looked = false;

    (void)snprintf(start, sizeof start, "%016llx:", hash_of(key));
    while (at && next_word(&at, start, word)) {
        if (!looked && tl_client_look(client, key, strlen(key), &info, NULL))
            return false;
        looked = true;
        if (!info.held || !is_holder(word, &info))
            continue;
        *err = (tl_error){.code = TL_EBUSY};
        (void)snprintf(
            err->message, sizeof err->message,
            "acquire %s: a tidelock run around this command holds it already; waiting for it would "
            "never end",
            show_key(shown, key));
        return true;
    }
    return false;
}
