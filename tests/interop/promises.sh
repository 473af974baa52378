#!/bin/bash
# What tidelock and one client of another language promise each other on the same key:
#
#   promises.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md
#
# Each promise is a line "ok NAME: promise", or "FAIL NAME: promise" with why below. No step may
# take longer than STEP_S, and none begins after LIMIT_S.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
# shellcheck source=tokens_lib.sh
source "${0%/*}/tokens_lib.sh"


LINE="tidelock:{$KEY}:line" # those who wait in line

# What the peer sent for a lock so far: it waits when that goes on.
tries() {
    redis INFO commandstats |
        awk -F '[:=,]' '$1 ~ /^cmdstat_(set|eval|evalsha)$/ { n += $3 } END { print n + 0 }'
}
tried_more() { (($(tries) >= $1 + 3)); }
peer_waits() {
    local before
    before=$(tries)
    tell acquire $KEY $LONG_MS $STEP_MS
    until_true $STEP_S tried_more "$before" || fail "the peer doesn't wait"
    ! read -r -t 0 -u "$from_peer" || fail "the peer has a lock that tidelock holds"
}

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    peer_takes $LONG_MS
    expect 75 "$tidelock" lock $KEY
    expect 75 "$tidelock" run -n $KEY -- echo never
    expect 1 "$tidelock" check $KEY
    grep -Eq '^held by (a client (that is not tidelock|known only by its token .*)|ShedLock on .*), expires in' "$out" || fail "check says: $(cat "$out")"
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
}
peer_is_kept_out() {
    tidelock_takes $LONG_MS
    peer busy acquire $KEY $LONG_MS 0
    peer busy acquire $KEY $LONG_MS 100
    tidelock_has_it
}
peer_is_kept_out_by_rest() {
    local began passed
    tidelock_takes $LONG_MS
    expect 0 "$tidelock" unlock $KEY "$token" --rest 1h
    peer busy acquire $KEY $LONG_MS 0
    peer busy acquire $KEY $LONG_MS 100
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
    tidelock_waits
    peer '@(ok|done)' release
    tidelock_got
}
tidelock_follows_expiry() {
    peer_takes $SHORT_MS
    tidelock_takes $LONG_MS $STEP_MS
}
peer_follows_release() {
    tidelock_takes $LONG_MS
    peer_waits
    tidelock_releases
    peer_says 'ok ?*'
}
peer_follows_expiry() {
    tidelock_takes $SHORT_MS
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
}
peers_extension_counts() {
    peer_takes $((LONG_MS / 3))
    peer ok extend $LONG_MS
    (($(redis PTTL $KEY) > LONG_MS / 3)) || fail "the lifetime is $(redis PTTL $KEY) ms"
    expect 75 "$tidelock" lock $KEY
    peer '@(ok|done)' release
    tidelock_takes $LONG_MS
}
# Of a library whose renewal only begins the same lifetime again. A part of the first one has passed.
peers_renewal_counts() {
    peer_takes $LONG_MS
    redis PEXPIRE $KEY $((LONG_MS / 3)) >/dev/null
    peer ok extend $LONG_MS
    (($(redis PTTL $KEY) > LONG_MS / 3)) || fail "the lifetime is $(redis PTTL $KEY) ms"
    expect 75 "$tidelock" lock $KEY
}
# Spring's, where it was given a task scheduler; without one tidelock_follows_expiry shows that it doesn't renew.
peers_own_renewals_count() {
    peer ok renew
    peer_takes $SHORT_MS
    expect 75 "$tidelock" lock -w $((2 * SHORT_MS))ms $KEY
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
}
# ShedLock's lockAtLeastFor: its release leaves the key until then.
peers_rest_counts() {
    peer ok rest $LONG_MS
    peer_takes $((2 * LONG_MS))
    peer done release
    (($(redis PTTL $KEY) <= LONG_MS)) || fail "the lifetime is $(redis PTTL $KEY) ms"
    expect 75 "$tidelock" lock $KEY
    expect 1 "$tidelock" check $KEY
    grep -q '^held by ShedLock on ' "$out" || fail "check says: $(cat "$out")"
}
tidelocks_renewals_count() {
    "$tidelock" run -t ${SHORT_MS}ms $KEY -- sleep $STEP_S &
    until_true $STEP_S is_held $KEY || fail "tidelock run doesn't lock"
    peer busy acquire $KEY $LONG_MS $((SHORT_MS * 2))
}
late_peer_leaves_tidelocks() {
    peer_takes $SHORT_MS
    tidelock_takes $LONG_MS $STEP_MS
    peer '@(lost|done)' release
    tidelock_has_it
    tidelock_releases
}
robbed_peer_leaves_tidelocks() {
    peer_takes $LONG_MS
    redis DEL $KEY >/dev/null
    tidelock_takes $LONG_MS
    peer lost extend $LONG_MS
    tidelock_has_it
    peer '@(lost|done)' release
    tidelock_has_it
    tidelock_releases
}
late_tidelock_leaves_peers() {
    tidelock_takes $SHORT_MS
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
    value=${answer#ok }
    expect 2 "$tidelock" extend $KEY "$token" -t ${LONG_MS}ms
    expect 2 "$tidelock" unlock $KEY "$token"
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
    peer '@(ok|done)' release
    is_free $KEY || fail "the peer's release left the key"
}
killed_peer_frees() {
    peer_takes $SHORT_MS
    kill_peer
    tidelock_takes $LONG_MS $STEP_MS
}
killed_tidelock_frees() {
    "$tidelock" run -t ${SHORT_MS}ms $KEY -- sleep $STEP_S &
    until_true $STEP_S is_held $KEY || fail "tidelock run doesn't lock"
    kill -KILL $!
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
}
# Two of tidelock's stand in line behind it, and have the lock in the order of their coming.
in_line() { [[ $(redis ZCARD $LINE) == "$1" ]]; }
line_follows_release() {
    local first
    peer_takes $LONG_MS
    { "$tidelock" lock --fair $KEY -t ${LONG_MS}ms -w ${STEP_S}s & } >"$work/first"
    first=$!
    until_true $STEP_S in_line 1 || fail "the first of tidelock's is not in line"
    { "$tidelock" lock --fair $KEY -t ${LONG_MS}ms -w ${STEP_S}s & } >"$work/waiter"
    waiter=$!
    until_true $STEP_S in_line 2 || fail "the second of tidelock's is not in line"
    peer busy acquire $KEY $LONG_MS 0
    peer '@(ok|done)' release
    wait_for "$first" $STEP_S
    [[ $status == 0 ]] || fail "the first in line: status $status"
    token=$(cut -d' ' -f1 "$work/first")
    tidelock_has_it
    [[ ! -s $work/waiter ]] || fail "both in line have the lock"
    tidelock_releases
    tidelock_got
    tidelock_releases
    is_free $KEY || fail "the last release left the key"
}
# After 200 turns the lock is left free until the next in line has looked (../../src/wire/README.md). Here
# those turns are only noted, and the next is held up, so that the peer surely asks before it.
peer_has_a_turn() {
    local found
    tidelock_takes $LONG_MS
    tidelock_waits
    until_true $STEP_S in_line 1 || fail "tidelock is not in line"
    redis HSET "tidelock:{$KEY}" row 200 >/dev/null
    kill -STOP "$waiter"
    peer_waits
    tidelock_releases
    found=$(redis GET $KEY)
    peer_says 'ok ?*'
    [[ -z $found || $found == "${answer#ok }" ]] || fail "tidelock has passed the lock on to the next in line"
    kill -CONT "$waiter"
    in_line 1 || fail "tidelock has left the line"
    peer '@(ok|done)' release
    tidelock_got
}
counter_is_exact() { contest $KEY "$program"; }

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
promise tidelock_is_kept_out 'while it holds, tidelock is refused, and says that another client holds'
promise peer_is_kept_out 'while tidelock holds, it is refused'
promise peer_is_kept_out_by_rest 'while a lock rests that tidelock has released, it is refused, and has it afterwards'
promise tidelock_follows_release 'a waiting tidelock has the lock after its release'
promise tidelock_follows_expiry 'a waiting tidelock has the lock after its lifetime'
promise peer_follows_release "waiting, it has the lock after tidelock's release"
promise peer_follows_expiry "waiting, it has the lock after tidelock's lifetime"
case $name in
spring)
    promise peers_renewal_counts 'its renewal keeps tidelock out for longer'
    promise peers_own_renewals_count 'with a task scheduler it renews by itself, and keeps tidelock out'
    ;;
*) promise peers_extension_counts 'its extension keeps tidelock out for longer' ;;
esac
if [[ $name == shedlock ]]; then promise peers_rest_counts 'released before its least time it keeps tidelock out until then'; fi
promise tidelocks_renewals_count "tidelock's renewals keep it out for longer"
promise late_peer_leaves_tidelocks "its release after its lifetime leaves tidelock's lock alone"
promise robbed_peer_leaves_tidelocks 'a lock that tidelock has taken meanwhile it can neither extend nor release'
promise late_tidelock_leaves_peers "tidelock's release and extension after the lifetime leave its lock alone"
promise killed_peer_frees 'killed, it leaves the lock to tidelock after its lifetime'
promise killed_tidelock_frees 'a killed tidelock leaves the lock to it after its lifetime'
promise line_follows_release 'a line of tidelock has the lock after its release, each in turn'
promise peer_has_a_turn 'waiting, it has its turn after 200 of tidelock in a row'
promise counter_is_exact 'a counter under the lock of both is exact, with never two inside'
((failed == 0))
