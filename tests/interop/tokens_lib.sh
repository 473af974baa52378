# shellcheck shell=bash
# tidelock with tokens, as the promises of token clients and of those that share no lock well use it.
# shellcheck disable=SC2034,SC2154
tide() { timeout --foreground -k 5 $((STEP_S + 10)) "$tidelock" "$@"; }
tidelock_takes() { # lifetime [wait]; the token is left in $token
    token=$(tide lock $KEY -t "$1ms" -w "${2:-0}ms") || fail "tidelock lock: status $?"
    token=${token%% *}
    tidelock_has_it
}
tidelock_has_it() { [[ $(redis GET $KEY) == "$token" ]] || fail "the key doesn't hold tidelock's token"; }
tidelock_releases() { expect 0 "$tidelock" unlock $KEY "$token"; }
# In the background, until tidelock_got: with its output in $work/waiter.
tidelock_waits() {
    { "$tidelock" lock $KEY -t ${LONG_MS}ms -w ${STEP_S}s & } >"$work/waiter"
    waiter=$!
    until_true $STEP_S somebody_listens || fail "tidelock doesn't wait"
    [[ ! -s $work/waiter ]] || fail "tidelock has a lock that the peer holds"
}
tidelock_got() {
    wait_for "$waiter" $STEP_S
    [[ $status == 0 ]] || fail "the waiting tidelock: status $status"
    token=$(cut -d' ' -f1 "$work/waiter")
    tidelock_has_it
}
somebody_listens() { [[ -n $(redis PUBSUB CHANNELS) ]]; }

