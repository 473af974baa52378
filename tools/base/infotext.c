/*
 * The text of INFO. It is not trusted: values are cut and made printable.
 */
#include "base/infotext.h"

#include <stdio.h>
#include <string.h>

bool info_field(tl_bytes info, const char *name, char *to, size_t size) {
    size_t n = strlen(name);

    for (size_t i = 0; i + n < info.n; i++) {
        if ((i > 0 && info.p[i - 1] != '\n') || memcmp(info.p + i, name, n) != 0 ||
            info.p[i + n] != ':')
            continue;
        size_t from = i + n + 1, len = 0;
        while (from + len < info.n && info.p[from + len] != '\r' && info.p[from + len] != '\n')
            len++;
        tl__bytes_print(to, size, tl__bytes(info.p + from, len));
        return true;
    }
    return false;
}

bool info_product(tl_bytes info, char to[INFO_PRODUCT_SIZE]) {
    /* All of them resemble some Redis, and say which. */
    static const struct {
        const char *field, *name;
    } products[] = {{"valkey_version", "Valkey"},   {"dragonfly_version", "Dragonfly"},
                    {"garnet_version", "Garnet"},   {"kvrocks_version", "Kvrocks"},
                    {"upstash_version", "Upstash"}, {"redict_version", "Redict"},
                    {"redis_version", "Redis"}};
    char version[32], depth[32];
    size_t i = 0, n = sizeof products / sizeof *products;

    while (i < n && !info_field(info, products[i].field, version, sizeof version))
        i++;
    if (i == n)
        return false;
    bool keydb = i == n - 1 && info_field(info, "mvcc_depth", depth, sizeof depth);
    (void)snprintf(to, INFO_PRODUCT_SIZE, "%s %s", keydb ? "KeyDB" : products[i].name, version);
    return true;
}
