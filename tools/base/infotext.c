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
    char version[32];
    const char *name = "Valkey";

    if (!info_field(info, "valkey_version", version, sizeof version)) {
        if (!info_field(info, "redis_version", version, sizeof version))
            return false;
        name = "Redis";
    }
    (void)snprintf(to, INFO_PRODUCT_SIZE, "%s %s", name, version);
    return true;
}
