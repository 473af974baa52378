#!/bin/bash
# What becomes of tidelock's lock beside a client that deletes the key without a look at its value:
#
#   bare.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md
#
# They keep each other out until the peer is late. Then it deletes, and two hold; tidelock notices. The lines and
# limits are those of promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
# shellcheck source=tokens_lib.sh
source "${0%/*}/tokens_lib.sh"

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    peer_takes $LONG_MS
    expect 75 "$tidelock" lock $KEY
    expect 1 "$tidelock" check $KEY
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
    peer 'done' release
    tidelock_takes $LONG_MS
}
peer_is_kept_out() {
    tidelock_takes $LONG_MS
    peer busy acquire $KEY $LONG_MS 100
    tidelock_has_it
    tidelock_releases
    peer 'ok ?*' acquire $KEY $LONG_MS $STEP_MS
}
killed_peer_frees() {
    peer_takes $SHORT_MS
    kill_peer
    tidelock_takes $LONG_MS $STEP_MS
}
constant_is_named() {
    peer_takes $LONG_MS
    expect 1 "$tidelock" check $KEY
    grep -q '(a constant: each holder writes the same' "$out" || fail "check says: $(cat "$out")"
    grep -q '^let each holder write a random value' "$out" || fail "check says: $(cat "$out")"
    expect 0 "$tidelock" inspect
    grep -q "^$KEY .* a constant: " "$out" || fail "inspect lists: $(cat "$out")"
}
# The second holder is the peer itself, which two processes of it would do alike. The job is renewed within a second.
late_peer_robs_tidelock() {
    peer_takes $SHORT_MS
    { "$tidelock" run -w ${STEP_S}s -t ${SHORT_MS}ms $KEY -- sleep $STEP_S & } 2>"$work/run"
    until_true $((2 * STEP_S)) has_changed || fail "tidelock run doesn't lock"
    peer 'done' release
    peer 'ok ?*' acquire $KEY $LONG_MS 0
    wait_for $! $STEP_S
    [[ $status == 74 ]] || fail "tidelock run: status $status: $(cat "$work/run")"
}
has_changed() { is_held $KEY && [[ $(redis GET $KEY) != "$value" ]]; }
late_extension_robs_tidelock() {
    peer_takes $SHORT_MS
    tidelock_takes $LONG_MS $STEP_MS
    peer ok extend $LONG_MS
    [[ $(redis GET $KEY) == ADDED:* ]] || fail "the key holds $(redis GET $KEY)"
    expect 2 "$tidelock" unlock $KEY "$token"
}

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
promise tidelock_is_kept_out 'while it holds, tidelock is refused, and acquires after its release'
promise peer_is_kept_out "while tidelock holds, it is refused, and acquires after tidelock's release"
promise killed_peer_frees 'killed, it leaves the lock to tidelock after its lifetime'
promise late_peer_robs_tidelock "NO: its release after its lifetime deletes tidelock's lock, two hold, and tidelock run reports the loss"
case $name in
shedlock-*) promise late_extension_robs_tidelock "NO: its extension after its lifetime overwrites tidelock's lock" ;;
*) promise constant_is_named 'check and inspect name its value as a fault, and say what to do' ;;
esac
((failed == 0))
