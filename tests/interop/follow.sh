#!/bin/bash
# The drop-in for Java (compat/java) over one client library, beside tidelock with --protocol auto, in each phase:
#
#   follow.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md, without extend
#
# The lines and limits are those of promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
NS=interop

begin() { # phase, lifetime
    forget_all
    protocol=(--protocol auto --namespace "mutex:*=$NS" --legacy-ttl-min "$2ms" --clock-skew-max 100ms --legacy-delay-max 50ms)
    expect 0 "$tidelock" migrate init --namespace $NS --keys 'mutex:*' --phase "$1" --lease 1s --yes
}
is_of_phase() { # phase
    value=$(redis GET $KEY)
    if (($1 < 2)); then [[ $value =~ ^[0-9]{13}$ ]]; else [[ ${#value} == 36 ]]; fi || fail "phase $1: the key holds '$value'"
}

# ---- promises ---------------------------------------------------------------------------------
each_keeps_the_other_out() {
    local phase token
    for phase in 0 1 2 3; do
        begin $phase $LONG_MS
        peer_takes $LONG_MS
        is_of_phase $phase
        expect 75 "$tidelock" lock "${protocol[@]}" $KEY
        peer ok release
        token=$("$tidelock" lock "${protocol[@]}" $KEY) || fail "phase $phase: tidelock lock: status $?"
        is_of_phase $phase
        peer busy acquire $KEY $LONG_MS 0
        peer busy acquire $KEY $LONG_MS 100
        expect 0 "$tidelock" unlock "${protocol[@]}" $KEY "${token%% *}"
        peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
        peer ok release
        [[ -z $(redis GET $KEY) ]] || fail "phase $phase: the key holds '$(redis GET $KEY)'"
        kill_peer # it knows this register, and would refuse the next one, which is older
        peer_begin
    done
}
killed_peer_frees() {
    local phase
    for phase in 1 3; do
        begin $phase $SHORT_MS
        peer_takes $SHORT_MS
        kill_peer
        timeout -k 5 $((STEP_S + 10)) "$tidelock" lock "${protocol[@]}" -w ${STEP_S}s $KEY >"$out" || fail "phase $phase: status $?"
        peer_begin
    done
}
counter_is_exact() {
    local phase
    for phase in 1 3; do
        begin $phase $CONTEST_TTL_MS
        contest $KEY "$program"
    done
}

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
if ! "$tidelock" check --protocol bridge $KEY >/dev/null 2>&1; then
    echo "skip  $name: this tidelock has no phases"
    exit 0
fi
promise each_keeps_the_other_out 'in each phase: it and tidelock keep each other out, and acquire after a release'
promise killed_peer_frees 'in phases 1 and 3: killed, it leaves the lock to tidelock after its lifetime'
promise counter_is_exact 'in phases 1 and 3: a counter under the lock of both is exact, with never two inside'
((failed == 0))
