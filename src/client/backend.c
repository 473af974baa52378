/*
 * The rows, by the schemes of URLs.
 */
#include "client/backend.h"

const tl_backend *tl__backend_of(const char *url) {
    static const tl_backend *const rows[] = {
        [TL_URL_UNKNOWN] = &tl__backend_server,  [TL_URL_ONE] = &tl__backend_server,
        [TL_URL_LOCAL] = &tl__backend_server,    [TL_URL_SENTINELS] = &tl__backend_sentinel,
        [TL_URL_CLUSTER] = &tl__backend_cluster, [TL_URL_QUORUM] = &tl__backend_quorum,
        [TL_URL_ETCD] = &tl__backend_etcd,
    };
    bool tls;
    return rows[tl__url_kind(url, &tls)];
}
