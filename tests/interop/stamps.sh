#!/bin/bash
# What tidelock with --protocol bridge and one legacy client promise each other on the same
# key, whose value is when the lock expires:
#
#   stamps.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md, without extend
#
# The lines and limits are those of promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
KEY=stamp:job
SKEW_MS=200 LAG_MS=100

# ---- tidelock ---------------------------------------------------------------------------------
bridge=() # the options, which come after the command
lives() { # the lifetime that both use
    life_ms=$1
    bridge=(--protocol bridge --legacy-ttl-min "$1ms" --clock-skew-max "${SKEW_MS}ms" --legacy-delay-max "${LAG_MS}ms")
}
tide() { # command more...
    timeout --foreground -k 5 $((STEP_S + 10)) "$tidelock" "$1" "${bridge[@]}" "${@:2}"
}
is_stamp() { [[ $(redis GET $KEY) =~ ^[0-9]{13}$ ]] || fail "the key holds '$(redis GET $KEY)'"; }
tidelock_takes() { # [wait]; the token is left in $token
    token=$(tide lock -w "${1:-0}ms" $KEY) || fail "tidelock lock: status $?"
    token=${token%% *}
    is_stamp
}
tidelock_runs() {
    "$tidelock" run "${bridge[@]}" $KEY -- sleep $STEP_S &
    until_true $STEP_S is_held $KEY || fail "tidelock run doesn't lock"
}
peer_sets() { redis INFO commandstats | sed -n 's/^cmdstat_setnx:calls=\([0-9]*\),.*/\1/p'; }
tried_more() { (($(peer_sets) >= $1 + 3)); }
peer_waits() {
    local before
    before=$(peer_sets)
    tell acquire $KEY "$life_ms" $STEP_MS
    until_true $STEP_S tried_more "${before:-0}" || fail "the peer doesn't wait"
    ! read -r -t 0 -u "$from_peer" || fail "the peer has a lock that tidelock holds"
}

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    lives $LONG_MS
    peer_takes $LONG_MS
    expect 75 "$tidelock" lock "${bridge[@]}" $KEY
    expect 75 "$tidelock" run "${bridge[@]}" -n $KEY -- echo never
    expect 1 "$tidelock" check "${bridge[@]}" $KEY
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
}
peer_is_kept_out() {
    lives $LONG_MS
    tidelock_takes
    value=$(redis GET $KEY)
    peer busy acquire $KEY $LONG_MS 0
    peer busy acquire $KEY $LONG_MS 100
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
}
peer_is_kept_out_by_rest() {
    local began passed
    lives $LONG_MS
    tidelock_takes
    tide unlock $KEY "$token" --rest 1h || fail "tidelock unlock: status $?"
    is_stamp
    value=$(redis GET $KEY)
    peer busy acquire $KEY $LONG_MS 0
    peer busy acquire $KEY $LONG_MS 100
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
    tide break --yes $KEY >/dev/null || fail "tidelock break: status $?"
    began=$(now_ms)
    tidelock_takes
    tide unlock $KEY "$token" --rest ${SHORT_MS}ms || fail "tidelock unlock: status $?"
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
    passed=$(($(now_ms) - began))
    ((passed >= SHORT_MS)) || fail "it has the lock after $passed ms"
}
tidelock_follows_release() {
    lives $LONG_MS
    peer_takes $LONG_MS
    { "$tidelock" lock "${bridge[@]}" -w ${STEP_S}s $KEY & } >"$work/waiter"
    waiter=$!
    expect 75 "$tidelock" lock "${bridge[@]}" $KEY
    [[ ! -s $work/waiter ]] || fail "tidelock has a lock that the peer holds"
    peer '@(ok|done)' release
    wait_for "$waiter" $STEP_S
    [[ $status == 0 ]] || fail "the waiting tidelock: status $status"
    is_stamp
}
peer_follows_release() {
    lives $LONG_MS
    tidelock_takes
    peer_waits
    tide unlock $KEY "$token" || fail "tidelock unlock: status $?"
    peer_says 'ok ?*'
}
killed_peer_frees() {
    lives $SHORT_MS
    peer_takes $SHORT_MS
    kill_peer
    tidelock_takes $STEP_MS
    (($(now_ms) > value + SKEW_MS + LAG_MS)) || fail "it was taken too early"
}
killed_tidelock_frees() {
    lives $SHORT_MS
    tidelock_runs
    kill -KILL $!
    peer 'ok ?*' acquire $KEY $SHORT_MS $STEP_MS
}
tidelocks_renewals_count() {
    lives $SHORT_MS
    tidelock_runs
    peer busy acquire $KEY $SHORT_MS $((SHORT_MS * 2))
    is_stamp
}
# Its stderr is where the failures go.
token_makes_it_throw() {
    lives $LONG_MS
    value=00000000-0000-4000-8000-000000000001
    redis SET $KEY $value PX $LONG_MS >/dev/null
    peer busy acquire $KEY $LONG_MS 0
    grep -q 'NumberFormatException.*"00000000-' "$work/why" || fail "it throws nothing"
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
}
counter_is_exact() {
    protocol=(--protocol bridge --legacy-ttl-min "${CONTEST_TTL_MS}ms")
    contest $KEY "$program"
}

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
if ! "$tidelock" check --protocol bridge $KEY >/dev/null 2>&1; then
    echo "skip  $name: this tidelock has no bridge"
    exit 0
fi
promise tidelock_is_kept_out 'while it holds, tidelock is refused'
promise peer_is_kept_out 'while tidelock holds, it is refused'
promise peer_is_kept_out_by_rest 'while a lock rests that tidelock has released, it is refused, and has it afterwards'
promise tidelock_follows_release 'a waiting tidelock has the lock after its release'
promise peer_follows_release "waiting, it has the lock after tidelock's release"
promise killed_peer_frees 'killed, it leaves the lock to tidelock after its lifetime, the skew and the lag'
promise killed_tidelock_frees 'a killed tidelock leaves the lock to it after its lifetime'
promise tidelocks_renewals_count "tidelock's renewals keep it out for longer"
promise token_makes_it_throw 'NO: while a token client holds, it throws NumberFormatException'
promise counter_is_exact 'a counter under the lock of both is exact, with never two inside'
((failed == 0))
