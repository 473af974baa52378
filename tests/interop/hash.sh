#!/bin/bash
# tidelock beside Redisson, whose lock is a hash that no other client can share:
#
#   hash.sh NAME PROGRAM    PROGRAM speaks the protocol of README.md
#
# The lines and limits are those of promises.sh.
# shellcheck source-path=SCRIPTDIR
source "${0%/*}/peer.sh"
# shellcheck source=tokens_lib.sh
source "${0%/*}/tokens_lib.sh"

peer_takes() { # lifetime
    peer 'ok ?*' acquire $KEY "$1" 0
    value=${answer#ok }
    [[ $(redis HKEYS $KEY) == "$value" ]] || fail "the key doesn't hold what the peer says"
}

# ---- promises ---------------------------------------------------------------------------------
tidelock_is_kept_out() {
    local says="$KEY holds a lock of Redisson, which only Redisson can share; choose another key"
    peer_takes $LONG_MS
    expect 75 "$tidelock" lock $KEY
    [[ $(cat "$err") == "tidelock: $says" ]] || fail "lock says: $(cat "$err")"
    expect 1 "$tidelock" check $KEY
    [[ $(cat "$out") == "$says" ]] || fail "check says: $(cat "$out")"
    expect 0 "$tidelock" inspect
    grep -q "^$KEY .* holds a lock of Redisson" "$out" || fail "inspect lists: $(cat "$out")"
    ! grep -q "${value%%:*}" "$out" || fail "inspect shows the owner"
    [[ $(redis HKEYS $KEY) == "$value" ]] || fail "the key has changed"
}
tidelock_follows_release() {
    peer_takes $LONG_MS
    tidelock_waits
    peer ok release
    tidelock_got
}
killed_peer_frees() {
    peer_takes $SHORT_MS
    kill_peer
    tidelock_takes $LONG_MS $STEP_MS
}
peers_renewals_count() {
    peer_takes $SHORT_MS
    expect 75 "$tidelock" lock -w $((2 * SHORT_MS))ms $KEY
    [[ $(redis HKEYS $KEY) == "$value" ]] || fail "the key has changed"
}
peer_fails() {
    tidelock_takes $LONG_MS
    peer 'error *WRONGTYPE*' acquire $KEY $LONG_MS $STEP_MS
    tidelock_has_it
}
stamp_fails_peer() {
    value=$(($(now_ms) - 3600000))
    redis SET $KEY "$value" >/dev/null
    peer 'error *WRONGTYPE*' acquire $KEY $LONG_MS 0
    [[ $(redis GET $KEY) == "$value" ]] || fail "the key has changed"
}
late_peer_fails() {
    peer_takes $LONG_MS
    redis DEL $KEY >/dev/null
    tidelock_takes $LONG_MS
    tell release
    peer_says 'error *'
    tidelock_has_it
}

# ---- run --------------------------------------------------------------------------------------
start_tcp_server
promise tidelock_is_kept_out 'while it holds, tidelock is refused, and check and inspect name Redisson'
promise tidelock_follows_release 'a waiting tidelock has the lock after its release'
promise killed_peer_frees 'killed, it leaves the lock to tidelock after its lifetime'
promise peers_renewals_count 'its renewals keep tidelock out for longer'
promise peer_fails "NO: while tidelock holds, it throws WRONGTYPE instead of waiting; tidelock's lock stays"
promise stamp_fails_peer 'NO: while a stamp of a dead Java service is in the key, it throws WRONGTYPE'
promise late_peer_fails "NO: it throws at the release of a lock that tidelock has by now; tidelock's lock stays"
((failed == 0))
