/*
 * The rows for kinds of servers, by the schemes of URLs.
 */
#include "client/backend.h"

#define ROW(kind, name) [kind] = &tl__backend_##name,

const tl_backend *tl__backend_of(const char *url) {
    static const tl_backend *const rows[] = {TL_BACKENDS(ROW)};
    bool tls;
    return rows[tl__url_kind(url, &tls)];
}
