#!/bin/bash
# Locks on one key between tidelock and the real clients of other languages (README.md).
#
#   make interop                        with all peers that can be had here
#   make interop PEERS="redsync node"   with some: by name, language or client library
#
# A peer that can't be had is skipped, and a line says why. Ends with "N passed, N failed".
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/lib.sh"

# name, language, client library, what its language's peer program calls it
peers='
redlock          node  ioredis   redlock
redis-semaphore  node  ioredis   redis_semaphore
redsync          go    go-redis  redsync
redislock        go    go-redis  redislock
jedis            java  jedis     TokenLock
jedis-stamps     java  jedis     StampLock
etcd-mutex       go-etcd  clientv3  Mutex
etcd-etcdctl     etcdctl  etcdctl   lock
'
goal=interop from=$interop into=$here/build/interop
# shellcheck source=fetch.sh
source "$interop/fetch.sh"
# shellcheck source=etcd_lib.sh
source "$interop/etcd_lib.sh"
java_more=("$here/tests/legacy/DistributeLockUtil.java")
passed=0 failed=0 skipped=0

# ---- what their languages start ---------------------------------------------------------------
program_node() { program "$1" env "NODE_PATH=$into/node/node_modules" node "$interop/node/peer.js" "$2"; }
program_go() { program "$1" "$into/go/peer" "$2"; }
program_java() {
    program "$1" java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -cp "$into/java/classes:$into/java/jars/*" Peer "$2"
}

program_go-etcd() { program "$1" "$into/go-etcd/peer"; }
program_etcdctl() { program "$1" "$interop/etcdctl.sh"; }

# Those that lock in the old way have promises of their own, and don't mix with tokens; nor do those at an etcd.
promises_of() { # name
    case $1 in etcd-*) echo "$interop/etcd.sh" ;; *-stamps) echo "$interop/stamps.sh" ;; *) echo "$interop/promises.sh" ;; esac
}

# ---- run --------------------------------------------------------------------------------------
# The promises of one peer, or why there are none; the lines go to $work/NAME.lines.
run_peer() { # name language library argument
    local status why
    read -r status <"$work/$2.status"
    why=$(tail -n 1 "$work/$2.why")
    case $status in
    0)
        "program_$2" "$1" "$4"
        "$(promises_of "$1")" "$1" "$into/bin/$1"
        status=$?
        if ((status > 1)); then echo "FAIL  $1: ended with status $status"; fi
        ;;
    "$SKIP") echo "skip  $1: $why" ;;
    *) echo "FAIL  $1: $why" ;;
    esac >"$work/$1.lines" 2>&1
}
report() { # file with lines
    cat "$1"
    passed=$((passed + $(grep -c '^ok ' "$1")))
    failed=$((failed + $(grep -c '^FAIL ' "$1")))
    skipped=$((skipped + $(grep -c '^skip ' "$1")))
}

# All that ran, at once, on one lock.
together() { # who they are, what starts the server, the contest, programs...
    local says="$1: a counter under one lock is exact, with never two inside"
    (($# >= 5)) || return
    "$2"
    if ("$3" mutex:all "${@:4}") >"$work/why" 2>&1; then
        echo "ok    $says"
    else
        echo "FAIL  $says"
        tail -n 20 "$work/why" | sed 's/^/      | /'
    fi
}

# Each job is a process group, so that nothing of it is left when this ends early.
stop_all() {
    local group
    for group in $(jobs -p); do kill -TERM -- "-$group"; done
    until_true 5 all_ended
    for group in $(jobs -p); do kill -KILL -- "-$group"; done
    clean_up
} 2>/dev/null
all_ended() { [[ -z $(jobs -rp) ]]; }
trap stop_all EXIT
set -m

check_wanted
for language in $(languages); do prepare "$language" & done
wait
rows=() pids=() programs=() at_etcd=()
while read -r row; do
    if [[ -n $row ]] && wanted "$row"; then rows+=("$row"); fi
done <<<"$peers"
# shellcheck disable=SC2086
for row in "${rows[@]}"; do
    run_peer $row &
    pids+=($!)
done
for i in "${!rows[@]}"; do
    name=${rows[i]%% *}
    wait "${pids[i]}"
    report "$work/$name.lines"
    if ! grep -q '^ok ' "$work/$name.lines"; then continue; fi
    case $name in
    etcd-*) at_etcd+=("$into/bin/$name") ;;
    *-stamps) ;;
    *) programs+=("$into/bin/$name") ;;
    esac
done
together "all of them" start_tcp_server contest "${programs[@]}" >"$work/together" &
wait $!
report "$work/together"
together "all of them at etcd" start_etcd etcd_contest "${at_etcd[@]}" >"$work/together" &
wait $!
report "$work/together"

tail=
((skipped == 0)) || tail=", $skipped skipped"
echo "$passed passed, $failed failed$tail"
((failed == 0))
