#!/bin/bash
# The Java class that follows a migration (compat/java), in a cluster: each lock by the register of its own slot, while slots
# are moved by hand, and where a client library repeats requests.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/../cli/lib.sh"
if [[ ${VALGRIND:-} == 1 ]]; then echo "there is nothing for valgrind to see" && exit 77; fi
classes=$here/${BUILD:-build}/java
[[ -d $classes/io ]] || { echo "no JDK (Debian: default-jdk-headless)" && exit 77; }

start_node() { # socket, slots
    claim_port
    redis-server --port "$claimed" --unixsocket "$1" --dir "$work" --save '' --appendonly no --loglevel warning --cluster-enabled yes \
        --cluster-config-file "$claimed.conf" --cluster-node-timeout 60000 >>"$work/server.log" 2>&1 &
    until_true 30 answers "$1" || fail "redis-server did not start: $(cat "$work/server.log")"
    # shellcheck disable=SC2046 # a word each; Redis 7.0 has ADDSLOTSRANGE
    [[ $(redis-cli -s "$1" CLUSTER ADDSLOTS $(seq "$2" "$3")) == OK ]] || fail "no slots"
}
answers() { [[ $(redis-cli -s "$1" PING 2>/dev/null) == PONG ]]; }
is_up() { redis-cli -s "$1" CLUSTER INFO | tr -d '\r' | grep -c -e cluster_state:ok -e cluster_known_nodes:2 | grep -q 2; }

cd "$here" || exit 1
javac -Xlint:all -Werror -cp "$classes" -d "$work/tests" tests/java/io/tidelock/*.java tests/java/*.java \
    tests/legacy/{RespSocket,DistributeLockUtil}.java >"$out" 2>&1 || fail "javac: $(cat "$out")"
start_node "$work/one.sock" 0 16382
one=$claimed
start_node "$work/other.sock" 16383 16383 # one that loses its last slot would become a replica
other=$claimed
redis-cli -s "$work/one.sock" CLUSTER MEET 127.0.0.1 "$other" >/dev/null
for each in one other; do until_true 30 is_up "$work/$each.sock" || fail "no cluster: $(redis-cli -s "$work/$each.sock" CLUSTER INFO)"; done
java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -cp "$work/tests:$classes" ClusterTests "$one" "$other" >"$out" 2>&1 ||
    fail "$(cat "$out")"
