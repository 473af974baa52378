#!/bin/bash
# The Java class sends what the library sends in the same situation and phase: the same scripts, keys and arguments.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../cli/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then echo "there is nothing for valgrind to see" && exit 77; fi
build=$here/${BUILD:-build}
[[ -d $build/java/io ]] || { echo "no JDK (Debian: default-jdk-headless)" && exit 77; }
"$python" -c 'import redis' 2>/dev/null || { echo "no redis-py (Debian: python3-redis)" && exit 77; }

cluster_is_up() { redis CLUSTER INFO | grep -q cluster_state:ok; }

cd "$here" || exit 1
javac -Xlint:all -Werror -cp "$build/java" -d "$work/classes" tests/java/WirePeer.java \
    tests/legacy/{RespSocket,DistributeLockUtil}.java >"$out" 2>&1 || fail "javac: $(cat "$out")"
# shellcheck disable=SC2086 # words
"${CC:-cc}" -std=c11 -Wall -Wextra -Werror ${SAN:+"-fsanitize=$SAN"} -Iinclude tests/java/wire_peer.c -o "$work/peer" \
    -L"$build" -ltidelock -Xlinker -rpath -Xlinker "$build" >"$out" 2>&1 || fail "cc: $(cat "$out")"
compare() { # scheme
    "$python" tests/java/wire.py "$port" "$build/gen" "$work/peer" "$1://127.0.0.1:$port" -- \
        java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -cp "$work/classes:$build/java" WirePeer "$port" >"$out" 2>"$err" ||
        fail "$1: $(cat "$out")"
}
start_server
open_port
compare redis

# In a cluster, of one node.
stop_server
claim_port
port=$claimed
start_server --port "$port" --cluster-enabled yes --cluster-config-file "$work/nodes.conf"
[[ $(redis CLUSTER ADDSLOTSRANGE 0 16383) == OK ]] || fail "no slots: $(redis CLUSTER INFO)"
until_true 10 cluster_is_up
compare redis+cluster
