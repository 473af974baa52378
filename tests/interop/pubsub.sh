#!/bin/bash
# tidelock beside a library whose waiters await a message of the library's own release:
#
#   pubsub.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md
#
# They keep each other out, but tidelock's release sends no such message. The lines and limits are those of
# promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
# shellcheck source=tokens_lib.sh
source "${0%/*}/tokens_lib.sh"

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    peer_takes $LONG_MS
    tidelock_waits
    peer ok release
    tidelock_got
}
peer_is_kept_out() {
    tidelock_takes $LONG_MS
    peer busy acquire $KEY $LONG_MS 0
    tidelock_has_it
}
killed_peer_frees() {
    peer_takes $SHORT_MS
    kill_peer
    tidelock_takes $LONG_MS $STEP_MS
}
peer_waits_for_a_message() { [[ $(redis PUBSUB NUMPAT) != 0 ]]; }
release_is_not_noticed() {
    local began passed
    tidelock_takes $LONG_MS
    began=$(now_ms)
    tell acquire $KEY $LONG_MS $SHORT_MS
    until_true $STEP_S peer_waits_for_a_message || fail "the peer doesn't subscribe"
    tidelock_releases
    peer_says 'ok ?*'
    passed=$(($(now_ms) - began))
    ((passed >= SHORT_MS)) || fail "it has the lock after $passed ms"
}

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
promise tidelock_is_kept_out 'while it holds, tidelock waits, and acquires after its release'
promise peer_is_kept_out 'while tidelock holds, it is refused'
promise killed_peer_frees 'killed, it leaves the lock to tidelock after its lifetime'
promise release_is_not_noticed "NO: waiting, it doesn't notice tidelock's release, and acquires at the end of its wait"
((failed == 0))
