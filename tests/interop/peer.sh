# shellcheck shell=bash
# What the promises share: a peer program that is spoken to in lines, and promises that
# are kept or not. Called with NAME PROGRAM, as they are.
# shellcheck source-path=SCRIPTDIR disable=SC2034
source "${BASH_SOURCE[0]%/*}/lib.sh"
STEP_S=20 STEP_MS=20000 LIMIT_S=240
KEY=mutex:env:job # redis-semaphore puts "mutex:" before every name; Spring and ShedLock have prefixes, too
LONG_MS=60000 # no promise that holds for so long ends by it
SHORT_MS=3000
name=$1 program=$2 failed=0

# ---- the peer ---------------------------------------------------------------------------------
peer_begin() {
    coproc PEER { exec "$program" "$port"; }
    # shellcheck disable=SC2153
    peer_pid=$PEER_PID from_peer=${PEER[0]} to_peer=${PEER[1]}
    peer_says ready
}
peer_says() { # pattern; the answer is left in $answer
    read -r -t $((STEP_S + 10)) -u "$from_peer" answer || fail "the peer has ended, or is silent"
    # shellcheck disable=SC2254
    case $answer in $1) ;; *) fail "the peer said '$answer' instead of '$1'" ;; esac
}
tell() { printf '%s\n' "$*" >&"$to_peer"; }
peer() { # pattern request...
    local want=$1
    shift
    tell "$@"
    peer_says "$want"
}
peer_takes() { # lifetime
    peer 'ok ?*' acquire $KEY "$1" 0
    value=${answer#ok }
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key doesn't hold what the peer says"
}
now_ms() { date +%s%3N; } # the server's clock is this host's
kill_peer() {
    kill -KILL "$peer_pid"
    until_true $STEP_S gone "$peer_pid" || fail "the peer can't be killed"
}

# ---- run --------------------------------------------------------------------------------------
end_promise() {
    exec 2>/dev/null
    # shellcheck disable=SC2046
    kill -KILL $(jobs -p) "${peer_pid:-}"
    wait
}
one_promise() { # function; in a shell of its own, with a peer of its own
    shopt -s extglob
    trap end_promise EXIT
    peer_begin
    "$1"
}
forget_all() { redis FLUSHALL >/dev/null; }
promise() { # function promise
    forget_all
    : >"$err"
    ((SECONDS < LIMIT_S)) || echo "not begun after $LIMIT_S s" >"$work/why"
    if ((SECONDS < LIMIT_S)) && (one_promise "$1") >"$work/why" 2>&1; then
        echo "ok    $name: $2"
    else
        failed=$((failed + 1))
        echo "FAIL  $name: $2"
        tail -n 20 "$work/why" | sed 's/^/      | /'
    fi
}
