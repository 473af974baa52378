#!/bin/bash
# Only in make check-all: it is about the project's own sources.
# Nothing outside the rows asks which kind of server it is, and each way of asking is shown to be found.
set -u
cd "$(dirname "$0")/../.." || exit 1
lint=$PWD/tests/lint/kinds.sh
failed=0

"$lint" || failed=1

tree=$(mktemp -d) || exit 1
trap 'rm -rf "$tree"' EXIT
mkdir -p "$tree"/src/{client,transport}

bites() { # a line of code, a file's name
    local file=src/${2:-client/hold}.c
    rm -f "$tree"/src/*/*
    printf '/* A hold. */\n%s\n' "$1" >"$tree/$file"
    if "$lint" "$tree" >"$tree/out" || ! grep -q "^$file:2: " "$tree/out"; then
        echo "not noticed: $1"
        failed=1
    fi
}
passes() { # a line of code, a file's name
    rm -f "$tree"/src/*/*
    printf '%s\n' "$1" >"$tree/src/${2:-client/hold}.c"
    "$lint" "$tree" || { echo "refused for nothing: $1" && failed=1; }
}

bites 'if (client->members != NULL)'
bites 'if (client->members)'
bites 'bool on_etcd = lock->client->members && fresh;'
bites 'unsigned n = !c->members;'
bites 'if (client->fleet.servers > 1)'
bites 'if (fleet->servers == 1)'
bites 'if (lock->client->backend == &tl__backend_server)'
bites 'if (holder != other)'
bites 'switch (kind) { case TL_URL_CLUSTER: break; }'
bites 'if (is_quorum(lock))'
bites 'return lock->etcd.result;'
bites 'if (conn->gateway)' transport/conn
bites 'if (limits->members)' transport/wakeup
bites 'if (conn->codec == other)' transport/conn
passes 'if (client->members)' client/fleet_cluster
passes 'c->others = c->limits.members->count - 1;' transport/codec_etcd
passes 'for (unsigned i = 0; i < fleet->servers; i++) /* of a quorum */'
passes 'tl__fail(err, "not on etcd"); tl__members_free(client->members);'
passes 'if (GUARD(cluster_stays_apart) && backend->slotted && o->sentinel_user)'
passes 'if (backend->watches && strcmp(name, "etcd"))'
((failed == 0))
