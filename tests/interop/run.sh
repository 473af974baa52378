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
'
FETCH_S=45 PREPARE_S=110 # both together; the promises take half a minute
SKIP=77
into=$here/build/interop
passed=0 failed=0 skipped=0

# ---- which ------------------------------------------------------------------------------------
wanted() { # words of a row
    local w
    [[ -n ${PEERS:-} ]] || return 0
    for w in $PEERS; do [[ " $* " != *" $w "* ]] || return 0; done
    return 1
}
check_wanted() {
    local w
    for w in ${PEERS:-}; do
        grep -qE "(^| )$w( |$)" <<<"$peers" && continue
        echo "make interop: no peer '$w'; there are:" >&2
        sed '/^$/d; s/^/  /' <<<"$peers" >&2
        exit 1
    done
}
languages() { while read -r row; do [[ -z $row ]] || ! wanted "$row" || awk '{ print $2 }' <<<"$row"; done <<<"$peers" | sort -u; }

# ---- fetch and build --------------------------------------------------------------------------
# Each of these says in one line why it can't, and ends with SKIP or with 1.
needs() { # command, the language's name
    command -v "$1" >/dev/null || { echo "$2 is absent (no $1)" && exit $SKIP; }
}
at_least() { # version wanted, found, of what
    [[ $(printf '%s\n' "$1" "$2" | sort -V | head -n 1) == "$1" ]] || { echo "$3 $2 is older than $1" && exit $SKIP; }
}
fetch() { # registry's name, log, command...
    local registry=$1 log=$2 status
    shift 2
    timeout --foreground -k 5 $FETCH_S "$@" >"$log" 2>&1 </dev/null
    status=$?
    if ((status == 0)); then return; fi
    if grep -qiE 'EINTEGRITY|checksum mismatch|SECURITY ERROR' "$log"; then
        echo "$registry has other bytes than those pinned (${log#"$here/"})"
        exit 1
    fi
    if ((status == 124 || status == 137)); then
        echo "$registry did not answer within $FETCH_S s"
    else
        echo "$registry is not reachable (${log#"$here/"})"
    fi
    exit $SKIP
}
# What a compiler has finished it keeps, so that a build that took too long gets further next time.
build() { # log command...
    local log=$1 status
    shift
    timeout --foreground -k 5 $((PREPARE_S - SECONDS)) "$@" >"$log" 2>&1 </dev/null
    status=$?
    if ((status == 0)); then return; fi
    if ((status == 124 || status == 137)); then
        echo "not built within $PREPARE_S s: try again"
        exit $SKIP
    fi
    echo "does not build: $(tail -n 1 "$log") (${log#"$here/"})"
    exit 1
}
# A program for each peer, which takes the port.
program() { # name, command...
    printf '#!/bin/bash\nexec %s "$@"\n' "$(printf '%q ' "${@:2}")" >"$into/bin/$1"
    chmod 755 "$into/bin/$1"
}

prepare_node() {
    needs node Node && needs npm Node
    at_least 18 "$(node -p process.versions.node)" Node
    if ! cmp -s "$interop/node/package-lock.json" "$into/node/fetched"; then
        cp "$interop"/node/package*.json "$into/node"
        fetch "npm's registry" "$into/node/log" npm ci --prefix "$into/node" --prefer-offline --ignore-scripts --no-audit \
            --no-fund --no-update-notifier --fetch-retries=1 --fetch-timeout=20000
        cp "$interop/node/package-lock.json" "$into/node/fetched"
    fi
}
program_node() { program "$1" env "NODE_PATH=$into/node/node_modules" node "$interop/node/peer.js" "$2"; }

# No other toolchain than the one that is here is fetched.
prepare_go() {
    export GOTOOLCHAIN=local GOFLAGS=-mod=readonly GOWORK=off
    needs go Go
    at_least go1.22 "$(go env GOVERSION)" Go
    cd "$interop/go" || exit 1
    fetch "Go's module proxy" "$into/go/log" go mod download
    build "$into/go/build.log" go build -o "$into/go/peer" .
}
program_go() { program "$1" "$into/go/peer" "$2"; }

prepare_java() {
    needs java Java && needs javac Java
    if ! jars_are_there; then
        needs mvn Maven
        rm -rf "$into/java/jars"
        fetch "Maven's repository" "$into/java/log" mvn -B -f "$interop/java/pom.xml" \
            org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies "-DoutputDirectory=$into/java/jars"
        jars_are_there || { echo "Maven's repository has other bytes than those pinned" && exit 1; }
    fi
    build "$into/java/build.log" javac -cp "$into/java/jars/*" -d "$into/java/classes" "$interop"/java/*.java \
        "$here/tests/legacy/DistributeLockUtil.java"
}
jars_are_there() { (cd "$into/java/jars" && sha256sum --quiet -c "$interop/java/jars.sha256") >/dev/null 2>&1; }
program_java() {
    program "$1" java -XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xmx64m -cp "$into/java/classes:$into/java/jars/*" Peer "$2"
}

prepare() { # language; leaves why and the status in $work
    mkdir -p "$into/$1" "$into/bin"
    ("prepare_$1") >"$work/$1.why"
    echo $? >"$work/$1.status"
}

# Those that lock in the old way have promises of their own, and don't mix with tokens.
promises_of() { # name
    case $1 in *-stamps) echo "$interop/stamps.sh" ;; *) echo "$interop/promises.sh" ;; esac
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
together() {
    local says="all of them: a counter under one lock is exact, with never two inside"
    (($# >= 2)) || return
    start_tcp_server
    if (contest mutex:all "$@") >"$work/why" 2>&1; then
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
rows=() pids=() programs=()
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
    if [[ $name != *-stamps ]] && grep -q '^ok ' "$work/$name.lines"; then programs+=("$into/bin/$name"); fi
done
together "${programs[@]}" >"$work/together" &
wait $!
report "$work/together"

tail=
((skipped == 0)) || tail=", $skipped skipped"
echo "$passed passed, $failed failed$tail"
((failed == 0))
