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
jedis-bare       java  jedis     BareLock
stackexchange    java  jedis     ConditionLock
spring           java-libraries  spring-integration  SpringSpin
spring-pubsub    java-libraries  spring-integration  SpringPubSub
shedlock         java-libraries  shedlock  ShedLock
shedlock-bare    java-libraries  shedlock  ShedLockDefault
redisson-hash    java-libraries  redisson  RedissonLock
jedis-follow     java-follow  jedis    JedisEval
lettuce-follow   java-follow  lettuce  LettuceEval
spring-follow    java-follow  spring-data-redis  SpringEval
etcd-mutex       go-etcd  clientv3  Mutex
etcd-etcdctl     etcdctl  etcdctl   lock
'
goal=interop from=$interop into=$here/build/interop
# shellcheck source=fetch.sh
source "$interop/fetch.sh"
# shellcheck source=etcd_lib.sh
source "$interop/etcd_lib.sh"
prepare_java() { java_module java "$from"/java/*.java "$here/tests/legacy/DistributeLockUtil.java"; }
prepare_java-libraries() { java_module java-libraries "$from"/java/Peer.java "$from"/java-libraries/*.java; }
prepare_java-follow() {
    [[ -d $here/build/java/io ]] || { echo "the drop-in for Java is not built" && exit $SKIP; }
    java_module java-follow "$from"/java-follow/*.java "$here"/compat/java/examples/*.java "$here"/compat/java/io/tidelock/*.java
}
passed=0 failed=0 skipped=0

# ---- what their languages start ---------------------------------------------------------------
program_node() { program "$1" env "NODE_PATH=$into/node/node_modules" node "$interop/node/peer.js" "$2"; }
program_go() { program "$1" "$into/go/peer" "$2"; }
java_program() { # name, folder, class
    program "$1" java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx96m -cp "$into/$2/classes:$into/$2/jars/*" Peer "$3"
}
program_java() { java_program "$1" java "$2"; }
program_java-libraries() { java_program "$1" java-libraries "$2"; }
program_java-follow() { # its scripts are beside the classes that the Makefile has built
    program "$1" java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx96m \
        -cp "$into/java-follow/classes:$here/build/java:$into/java-follow/jars/*" FollowPeer "$2"
}

program_go-etcd() { program "$1" "$into/go-etcd/peer"; }
program_etcdctl() { program "$1" "$interop/etcdctl.sh"; }

# What a peer promises, by its name. All but those of token clients don't mix with tokens.
promises_of() { # name
    case $1 in
    etcd-*) echo etcd ;;
    *-stamps) echo stamps ;;
    *-bare) echo bare ;;
    *-hash) echo hash ;;
    *-pubsub) echo pubsub ;;
    *-follow) echo follow ;;
    *) echo promises phases ;;
    esac
}

# ---- run --------------------------------------------------------------------------------------
promises() { # name, which
    local status
    "$interop/$2.sh" "$1" "$into/bin/$1"
    status=$?
    if ((status > 1)); then echo "FAIL  $1: $2.sh ended with status $status"; fi
}
# The promises of one peer, or why there are none; the lines go to $work/NAME.lines.
run_peer() { # name language library argument
    local status why of
    read -r status <"$work/$2.status"
    why=$(tail -n 1 "$work/$2.why")
    case $status in
    0)
        "program_$2" "$1" "$4"
        for of in $(promises_of "$1"); do
            { promises "$1" "$of" & } >"$work/$1.$of" 2>&1
        done
        wait
        for of in $(promises_of "$1"); do cat "$work/$1.$of"; done
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
    if ("$3" mutex:env:all "${@:4}") >"$work/why" 2>&1; then
        echo "ok    $says"
    else
        echo "FAIL  $says"
        tail -n 20 "$work/why" | sed 's/^/      | /'
    fi
}

# tidelock's holds are stamps.
start_in_phase_1() {
    start_tcp_server
    protocol=(--protocol auto --namespace 'mutex:*=interop' --legacy-ttl-min "${CONTEST_TTL_MS}ms")
    "$tidelock" migrate init --namespace interop --keys 'mutex:*' --phase 1 --lease 1s --yes >/dev/null
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

# Lifetimes of a few seconds are too short where everybody waits for a processor.
AT_ONCE=$((4 * $(nproc)))
has_room() { (($(jobs -rp | wc -l) < AT_ONCE)); }

check_wanted
for language in $(languages); do prepare "$language" & done
wait
rows=() pids=() programs=() at_etcd=()
while read -r row; do
    if [[ -n $row ]] && wanted "$row"; then rows+=("$row"); fi
done <<<"$peers"
# shellcheck disable=SC2086
for row in "${rows[@]}"; do
    until_true 600 has_room
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
    *-stamps | *-bare | *-hash | *-pubsub | *-follow) ;;
    *) programs+=("$into/bin/$name") ;;
    esac
done
{ together "all of them" start_tcp_server contest "${programs[@]}" & } >"$work/together"
wait $!
report "$work/together"
{ together "all of them, and tidelock in phase 1" start_in_phase_1 contest "${programs[@]}" & } >"$work/together"
wait $!
report "$work/together"
{ together "all of them at etcd" start_etcd etcd_contest "${at_etcd[@]}" & } >"$work/together"
wait $!
report "$work/together"

tail=
((skipped == 0)) || tail=", $skipped skipped"
echo "$passed passed, $failed failed$tail"
[[ ${PEERS:-} ]] || "$here/tests/record.sh" "$here/tests/README.md" runs "| \`make interop\` | $passed passed, $failed failed$tail | $(date -u +%F) |"
((failed == 0))
