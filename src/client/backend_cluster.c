/*
 * Locks on a Redis Cluster, where each key is on one of several nodes.
 */
#include "client/backend.h"
#include "client/driver.h"
#include "ground/error.h"
#include "wire/keys.h"

#define CURSOR_BITS 53 /* bits of a node's cursor; the bits above have the node's number */
#define CURSOR_MAX ((UINT64_C(1) << CURSOR_BITS) - 1)
_Static_assert(TL_NODES_MAX <= 1 << (64 - CURSOR_BITS), "room for a node's number");

static tl_err open_cluster(tl_client *client, const tl_seeds *seeds,
                           const tl_client_options *options, tl_error *err) {
    return tl__fleet_open_cluster(&client->fleet, &client->node, seeds, options, err);
}

/* `strict` uses only the commands of legacy clients. A late command that an ASK redirected makes a key on a
 * node that no longer has the slot, and no other key says that it doesn't count. So with `strict` no lock is
 * acquired. Looking reads only the key itself, so the name need not have a {tag}. */
static tl_err check_key(const tl_client *client, tl_bytes key, bool looks, tl_error *err) {
    char sidecar[TL_KEY_MAX + TL_SIDECAR_EXTRA];
    bool one_slot = true, strict = client->legacy.options.strict;
    if (strict && looks)
        return TL_OK;
    if (strict)
        return tl__fail(err, TL_EINVALID, 0,
                        "strict: with a URL that begins with redis+cluster:// locks can be looked "
                        "at, but not acquired: that needs scripts there");
    (void)tl__sidecar(sidecar, key, &one_slot);
    return one_slot ? TL_OK
                    : tl__fail(err, TL_EINVALID, 0,
                               "key: it has a '}' and no {tag}, so the lock's other keys can't be "
                               "in its slot of the cluster; add a {tag}");
}

/* One scan step at one node. The cursor has the node's number in its upper bits. */
static tl_err scan(tl_client *client, tl_scan *scanning, uint64_t *cursor, tl_error *err) {
    tl_fleet *fleet = &client->fleet;
    unsigned number = (unsigned)(*cursor >> CURSOR_BITS), at = number;
    tl_node *node = fleet->row->next(fleet, &at);
    tl_err code = node ? TL_OK : tl__server_reach(client, "scan", err); /* no node is known yet */
    node = node || code ? node : fleet->row->next(fleet, &at);
    if (code || !node)
        return code ? code
                    : tl__fail(err, TL_EUNAVAILABLE, 0, "scan: no node of the cluster is known");
    scanning->cursor = at == number ? *cursor & CURSOR_MAX : 0;
    code = tl__inquire(client, node, (tl_bytes){0}, scanning, tl__scan_step, "scan", err);
    char label[TL_LABEL_SIZE];
    if (!code && scanning->cursor > CURSOR_MAX)
        code = tl__fail(err, TL_ESERVER, 0, "scan: %s: the server's cursor is too large",
                        tl__node_label(node, label));
    if (code)
        return code;
    at += scanning->cursor == 0;
    bool more = fleet->row->next(fleet, &at) != NULL;
    *cursor = more ? (uint64_t)at << CURSOR_BITS | scanning->cursor : 0;
    return TL_OK;
}

const tl_backend tl__backend_cluster = {
    .scheme = "redis+cluster://",
    .slotted = true,
    .open = open_cluster,
    .check_key = check_key,
    .ping = tl__server_ping,
    .look = tl__server_look,
    .scan = scan,
    .remove = tl__server_remove,
    TL_BACKEND_OF_ONE,
};
