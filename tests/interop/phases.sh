#!/bin/bash
# A token client beside tidelock that follows a phase (compat/MIGRATION.md), in each phase:
#
#   phases.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md
#
# The lines and limits are those of promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
SHORT_MS=1500
NS=interop

auto=() # the options, which come after the command
begin() { # phase, lifetime
    forget_all
    auto=(--protocol auto --namespace "mutex:*=$NS" --legacy-ttl-min "$2ms" --clock-skew-max 100ms --legacy-delay-max 50ms)
    expect 0 "$tidelock" migrate init --namespace $NS --keys 'mutex:*' --phase "$1" --lease 1s --yes
}
tidelock_takes() { # phase, [wait]
    token=$(timeout -k 5 $((STEP_S + 10)) "$tidelock" lock "${auto[@]}" -w "${2:-0}ms" $KEY) || fail "phase $1: tidelock lock: status $?"
    token=${token%% *}
    value=$(redis GET $KEY)
    case $1 in
    0 | 1) [[ $value =~ ^[0-9]{13}$ ]] || fail "phase $1: the key holds no stamp" ;;
    *) [[ $value == "$token" ]] || fail "phase $1: the key doesn't hold tidelock's token" ;;
    esac
}
is_unchanged() { [[ $(redis GET $KEY) == "$value" ]] || fail "phase $1: the key has changed"; }

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    local phase
    for phase in 0 1 2 3; do
        begin $phase $LONG_MS
        peer_takes $LONG_MS
        expect 75 "$tidelock" lock "${auto[@]}" $KEY
        expect 75 "$tidelock" run "${auto[@]}" -n $KEY -- echo never
        is_unchanged $phase
        peer '@(ok|done)' release
        tidelock_takes $phase
    done
}
peer_is_kept_out() {
    local phase
    for phase in 0 1 2 3; do
        begin $phase $LONG_MS
        tidelock_takes $phase
        peer busy acquire $KEY $LONG_MS 0
        peer busy acquire $KEY $LONG_MS 100
        is_unchanged $phase
        expect 0 "$tidelock" unlock "${auto[@]}" $KEY "$token"
        peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
        peer '@(ok|done)' release
    done
}
# It doesn't release, as if it were dead.
dead_peer_frees() {
    local phase
    for phase in 0 1 2 3; do
        begin $phase $SHORT_MS
        peer_takes $SHORT_MS
        tidelock_takes $phase $STEP_MS
    done
}
kill_holder() { # phase
    begin "$1" $SHORT_MS
    "$tidelock" run "${auto[@]}" $KEY -- sleep $STEP_S &
    until_true $STEP_S is_held $KEY || fail "phase $1: tidelock run doesn't lock"
    kill -KILL $!
}
killed_tidelock_frees() {
    local phase
    for phase in 2 3; do
        kill_holder $phase
        peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
        peer '@(ok|done)' release
    done
}
# A stamp stays an hour longer than it counts: for Java, which reads it, the key's lifetime means nothing.
killed_tidelock_keeps_peer_out() {
    local phase
    for phase in 0 1; do
        kill_holder $phase
        peer busy acquire $KEY $SHORT_MS $((2 * SHORT_MS))
        (($(redis PTTL $KEY) > 3000000)) || fail "phase $phase: the lifetime is $(redis PTTL $KEY) ms"
        tidelock_takes $phase $STEP_MS
    done
}
# Java's has no lifetime of its own.
old_stamp_keeps_peer_out() {
    local phase
    for phase in 0 1 2 3; do
        begin $phase $LONG_MS
        value=$(($(now_ms) - 3600000))
        redis SET $KEY "$value" >/dev/null
        peer busy acquire $KEY $LONG_MS 0
        peer busy acquire $KEY $LONG_MS 100
        is_unchanged $phase
        if ((phase < 3)); then
            tidelock_takes $phase
        else
            expect 75 "$tidelock" lock "${auto[@]}" $KEY
            is_unchanged $phase
        fi
    done
}

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
if ! "$tidelock" check --protocol bridge $KEY >/dev/null 2>&1; then
    echo "skip  $name: this tidelock has no phases"
    exit 0
fi
promise tidelock_is_kept_out 'in each phase: while it holds, tidelock is refused, and acquires after its release'
promise peer_is_kept_out "in each phase: while tidelock holds, it is refused, and acquires after tidelock's release"
promise dead_peer_frees 'in each phase: dead, it leaves the lock to tidelock after its lifetime'
promise killed_tidelock_frees 'in phases 2 and 3: a killed tidelock leaves the lock to it after its lifetime'
promise killed_tidelock_keeps_peer_out 'NO, in phases 0 and 1: a killed tidelock keeps it out for an hour more'
promise old_stamp_keeps_peer_out 'NO, in each phase: a dead Java service keeps it out for good, and in phase 3 tidelock, too'
((failed == 0))
