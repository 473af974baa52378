#!/bin/bash
# What tidelock and another client of an etcd promise each other on the same key, which both keep as etcd's own lock does:
#
#   etcd.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md, without extend and with turn
#
# The lines and limits are those of promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
source "$interop/etcd_lib.sh"
KEY=mutex-job
forget_all() {
    ctl del --prefix '' >/dev/null
    rm -rf "$file"*
}

# ---- both -------------------------------------------------------------------------------------
first_is() { [[ $(contenders $KEY | head -n 1) == "$1" ]]; }
peer_takes() { # lifetime
    peer 'ok ?*' acquire $KEY "$1" 0
    value=${answer#ok }
    first_is "$value" || fail "the peer says $value, and the first there is $(contenders $KEY | head -n 1)"
}
tidelock_takes() { # lifetime [wait]; the token is left in $token
    token=$(timeout --foreground -k 5 $((STEP_S + 10)) "$tidelock" lock $KEY -t "$1ms" -w "${2:-0}ms") ||
        fail "tidelock lock: status $?"
    token=${token%% *}
    tidelock_has_it
}
tidelock_has_it() { first_is "$KEY/${token%.*}" || fail "the first there is not tidelock's key $token: $(contenders $KEY)"; }
tidelock_waits() { # name; until it stands there, behind so many
    "$tidelock" run -w ${STEP_S}s $KEY -- sh -c "echo $1 >>'$file'" &
    waiter=$!
    until_true $STEP_S stand_there $KEY "$2" || fail "tidelock doesn't stand in line: $(contenders $KEY)"
}
peer_waits() { # behind so many
    tell acquire $KEY $LONG_MS $STEP_MS
    until_true $STEP_S stand_there $KEY "$1" || fail "the peer doesn't stand in line: $(contenders $KEY)"
    ! read -r -t 0 -u "$from_peer" || fail "the peer has a lock that tidelock holds"
}

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    peer_takes $LONG_MS
    expect 75 "$tidelock" lock $KEY
    expect 75 "$tidelock" run -n $KEY -- echo never
    expect 75 "$tidelock" run -w 1s $KEY -- echo never
    expect 1 "$tidelock" check $KEY
    [[ $(contenders $KEY) == "$value" ]] || fail "the keys have changed: $(contenders $KEY)"
}
peer_is_kept_out() {
    tidelock_takes $LONG_MS
    peer busy acquire $KEY $LONG_MS 0
    peer busy acquire $KEY $LONG_MS 1000
    [[ $(contenders $KEY) == "$KEY/${token%.*}" ]] || fail "the keys have changed: $(contenders $KEY)"
}
peer_is_kept_out_by_rest() {
    local began passed
    tidelock_takes $LONG_MS
    expect 0 "$tidelock" unlock $KEY "$token" --rest 1h
    peer busy acquire $KEY $LONG_MS 0
    peer busy acquire $KEY $LONG_MS 1000
    expect 0 "$tidelock" break --yes $KEY
    began=$(now_ms)
    tidelock_takes $LONG_MS
    expect 0 "$tidelock" unlock $KEY "$token" --rest ${SHORT_MS}ms
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
    passed=$(($(now_ms) - began))
    ((passed >= SHORT_MS)) || fail "it has the lock after $passed ms"
}
tidelock_follows_release() {
    peer_takes $LONG_MS
    tidelock_waits got 2
    [[ ! -e $file ]] || fail "tidelock has a lock that the peer holds"
    peer ok release
    wait_for "$waiter" $STEP_S
    [[ $status == 0 && $(<"$file") == got ]] || fail "the waiting tidelock: status $status"
}
peer_follows_release() {
    tidelock_takes $LONG_MS
    peer_waits 2
    expect 0 "$tidelock" unlock $KEY "$token"
    peer_says 'ok ?*'
    first_is "${answer#ok }" || fail "the first there is not the peer"
}
peers_renewals_count() {
    peer_takes $SHORT_MS
    sleep $((SHORT_MS * 2 / 1000))
    expect 75 "$tidelock" lock $KEY
    first_is "$value" || fail "the peer's key is gone"
}
tidelocks_renewals_count() {
    "$tidelock" run -t ${SHORT_MS}ms $KEY -- sleep $STEP_S &
    until_true $STEP_S stand_there $KEY 1 || fail "tidelock run doesn't lock"
    peer busy acquire $KEY $LONG_MS $((SHORT_MS * 2))
    stand_there $KEY 1 || fail "the keys have changed: $(contenders $KEY)"
}
late_tidelock_leaves_peers() {
    tidelock_takes $LONG_MS
    peer_waits 2
    expect 0 "$tidelock" break --yes $KEY
    peer_says 'ok ?*'
    value=${answer#ok }
    expect 2 "$tidelock" extend $KEY "$token" -t ${LONG_MS}ms
    expect 2 "$tidelock" unlock $KEY "$token"
    first_is "$value" || fail "the peer's key is gone"
}
broken_peer_leaves_tidelocks() {
    peer_takes $LONG_MS
    expect 0 "$tidelock" break --yes $KEY
    tidelock_takes $LONG_MS
    peer ok release
    tidelock_has_it
}
killed_peer_frees() {
    peer_takes $SHORT_MS
    kill_peer
    tidelock_takes $LONG_MS $STEP_MS
}
killed_tidelock_frees() {
    "$tidelock" run -t ${SHORT_MS}ms $KEY -- sleep $STEP_S &
    until_true $STEP_S stand_there $KEY 1 || fail "tidelock run doesn't lock"
    kill -KILL $!
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
}
# Each begins when the one before stands in line.
line_keeps_order() {
    local i others=()
    tidelock_takes $LONG_MS
    for i in 2 4 6; do
        timeout $STEP_S "$program" "$port" <<<"turn $KEY $LONG_MS $file peer$i" >/dev/null &
        others+=($!)
        until_true $STEP_S stand_there $KEY $i || fail "the peer doesn't stand in line: $(contenders $KEY)"
        tidelock_waits tidelock$((i + 1)) $((i + 1))
        others+=("$waiter")
    done
    [[ ! -e $file ]] || fail "one of them has a lock that is held: $(<"$file")"
    expect 0 "$tidelock" unlock $KEY "$token"
    for i in "${others[@]}"; do wait "$i" || fail "one in line has failed: $(xargs <"$file")"; done
    [[ $(xargs <"$file") == "peer2 tidelock3 peer4 tidelock5 peer6 tidelock7" ]] || fail "the order was: $(xargs <"$file")"
}
counter_is_exact() { etcd_contest $KEY "$program"; }

# ---- run --------------------------------------------------------------------------------------
start_etcd
if ! "$tidelock" check $KEY >/dev/null 2>"$work/why"; then
    echo "skip  $name: $(cut -d ' ' -f 2- "$work/why")"
    exit 0
fi
promise tidelock_is_kept_out 'while it holds, tidelock is refused'
promise peer_is_kept_out 'while tidelock holds, it is refused'
promise peer_is_kept_out_by_rest 'while a lock rests that tidelock has released, it is refused, and has it afterwards'
promise tidelock_follows_release 'a waiting tidelock has the lock after its release'
promise peer_follows_release "waiting, it has the lock after tidelock's release"
promise peers_renewals_count 'its renewals keep tidelock out for longer'
promise tidelocks_renewals_count "tidelock's renewals keep it out for longer"
promise late_tidelock_leaves_peers "a tidelock whose lock was removed can neither extend nor release the lock that it has meanwhile"
promise broken_peer_leaves_tidelocks "its release of a lock that was removed leaves tidelock's alone"
promise killed_peer_frees 'killed, it leaves the lock to tidelock after its lifetime'
promise killed_tidelock_frees 'a killed tidelock leaves the lock to it after its lifetime'
promise line_keeps_order 'three of its and three of tidelock, one behind the other in line, have the lock in this order'
promise counter_is_exact 'a counter under the lock of both is exact, with never two inside'
((failed == 0))
