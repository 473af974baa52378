#!/bin/bash
# tidelock beside other libraries' locks: 100 clients that want one lock again and again (../README.md).
#
#   make bench-peers                              with all that can be had here
#   make bench-peers PEERS="redislock java"       with some: by name or language
#   make bench-peers REGIME=delay ROUNDS=15
#
# A peer that can't be had is left out, and a line says why.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/../../cli/lib.sh"

# name, language
peers='
redislock    go
redsync      go
rueidislock  go
redisson     java
redis-py     python
redlock      node
rslock       rust
etcd-mutex   go-etcd
'
goal=bench-peers from=$here/tests/bench/peers into=$here/build/bench-peers
# shellcheck source=../../interop/fetch.sh
source "$here/tests/interop/fetch.sh"
# shellcheck disable=SC2034
PREPARE_S=300 # rslock brings TLS along

# Debian's packages, which `make check` installs.
prepare_python() {
    "$python" -c 'import redis' 2>/dev/null || { echo "redis-py is absent (Debian: python3-redis)" && exit $SKIP; }
}
# The loop of the other Go peers, in a module of its own: what etcd's client brings along would change theirs.
prepare_go-etcd() {
    needs etcd etcd && needs etcdctl etcd
    mkdir -p "$into/go-etcd/src"
    cp "$from/go/loop.go" "$from"/go-etcd/* "$into/go-etcd/src" && go_module go-etcd "$into/go-etcd/src"
}
program_go() { program "$1" "$into/go/peer" "$1"; }
# Not among those at Redis.
program_go-etcd() {
    program "$1" "$into/go-etcd/peer" "$1"
    mkdir -p "$into/etcd" && mv "$into/bin/$1" "$into/etcd/$1"
}
program_java() { program "$1" java -XX:+UseSerialGC -Xmx1g -cp "$into/java/classes:$into/java/jars/*" Loop; }
# The lock file leaves out what cargo calls its own registry: cargo says it.
prepare_rust() {
    local registry log=$into/rust/log
    needs cargo Rust
    mkdir -p "$into/rust/src"
    cp "$from/rust/Cargo.toml" "$into/rust" && cp "$from/rust/src/main.rs" "$into/rust/src"
    cd "$into/rust" || exit 1
    registry=$(cargo metadata --no-deps --offline --format-version 1 2>"$log" | grep -o '"registry+[^"]*"' | head -n 1)
    [[ -n $registry ]] || { echo "cargo names no registry (${log#"$here/"})" && exit $SKIP; }
    sed "s|\"@REGISTRY@\"|$registry|" "$from/rust/Cargo.lock.in" >Cargo.lock
    fetch "cargo's registry" "$log" cargo fetch --locked
    build "$into/rust/build.log" cargo build --release --locked --offline
}
program_node() { program "$1" env "NODE_PATH=$into/node/node_modules" node "$from/node/loop.js"; }
program_rust() { program "$1" "$into/rust/target/release/peer"; }
program_python() { program "$1" "$python" "$from/loop.py"; }

check_wanted
rm -rf "${into:?}/bin" "$into/etcd"
for language in $(languages); do prepare "$language" & done
wait
while read -r name language; do
    if [[ -z $name ]] || ! wanted "$name" "$language"; then continue; fi
    read -r status <"$work/$language.status"
    case $status in
    0) "program_$language" "$name" ;;
    "$SKIP") echo "skip  $name: $(tail -n 1 "$work/$language.why")" ;;
    *) fail "$name: $(tail -n 1 "$work/$language.why")" ;;
    esac
done <<<"$peers"
rows=()
if ls "$into/bin"/* >/dev/null 2>&1; then rows+=(peers); fi
if wanted etcd-mutex go-etcd; then rows+=(etcd-peers); fi
BENCH="${rows[*]:-peers}" BENCH_PEERS=$into/bin BENCH_ETCD=$into/etcd/etcd-mutex BENCH_JSON=$here/${BUILD:-build}/bench-peers.json "$here/${BUILD:-build}/bench"
