#!/bin/bash
# migrate: Java is left behind only when nobody of it is there, and comes back only when no token is left.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server
expect 0 migrate init --keys 'jobs:*' --lease 1s --yes
token=01234567-89ab-4def-8123-456789abcdef

# ---- from 1 to 2: a stamp that nobody but an old client sets ---------------------------------------------
set_phase 1 2
redis SETNX jobs:x $(($(server_ms) + 60000)) >/dev/null
expect_refused 'advance: refused: 1 stamp stands without a sidecar: a client of the old kind set it: jobs:x \(ends in [56][0-9]\.[0-9] s\): end the clients' \
    migrate advance --yes
for odd in "550e8400-e29b-41d4-a716-446655440000:$(($(server_ms) + 60000))" $(($(server_ms) / 1000 + 60)).25; do # of other dialects
    redis SET jobs:x "$odd" >/dev/null
    expect_refused 'stands without a sidecar.*jobs:x \(ends in' migrate advance --yes
done
stamp jobs:x -60000
expect_refused 'jobs:x \(ended [0-9.]+ s ago\): they are over: tidelock migrate sweep' migrate advance --yes
redis SET jobs:x true >/dev/null # which only one dialect has for a stamp
expect_refused 'jobs:x \(has no end\)' migrate advance --yes --dialect rb-resque
redis DEL jobs:x >/dev/null
stamp elsewhere 60000 # a key of nobody's
in_phase 1 2

# A bridge lock of a service that doesn't follow the phase; the same by one that does.
expect 0 "$tidelock" lock --protocol bridge -t 30s jobs:bridge
read -r bridge _ <"$out"
expect_refused '1 lock is held by tidelock clients that don.t follow the phase: jobs:bridge by tidelock on .* \(pid [0-9]+\) \(ends in' \
    migrate advance --yes
redis HSET "$register:clients" itself "2 1 1000 $(($(server_us) + 60000000)) 0.1.0 $(redis HGET 'tidelock:{jobs:bridge}' owner)" >/dev/null
expect 0 migrate advance --yes
in_phase 2 3

# ---- from 2 to 3: no stamp is left -----------------------------------------------------------------------
no_clients
expect_refused '1 lock is held by tidelock clients that' migrate advance --yes
redis HSET "$register:clients" itself "3 2 1000 $(($(server_us) + 60000000)) 0.1.0 $(redis HGET 'tidelock:{jobs:bridge}' owner)" >/dev/null
expect_refused "1 stamp is left of tidelock's own: jobs:bridge .*: wait: each becomes a token" migrate advance --yes
no_clients
expect 0 "$tidelock" unlock --protocol bridge jobs:bridge "$bridge"
stamp jobs:y 60000
expect_refused 'jobs:y' migrate advance --yes
redis SET jobs:y $token PX 60000 >/dev/null # a token is nothing in its way
expect 0 migrate advance --yes
in_phase 3 4

# ---- back -----------------------------------------------------------------------------------------------
expect 0 migrate rollback --yes
in_phase 2 5
# 2 to 1 is written first; Java may start when the lease is over and no token is left.
redis SET jobs:z $token PX 60000 >/dev/null
migrate rollback --yes >"$work/back" 2>"$work/back.err" &
back=$!
until_true 20 grep -q 'waiting for 2 tokens' "$work/back.err" || fail "it says nothing of tokens: $(cat "$work/back" "$work/back.err")"
grep -qE 'Java may not start yet: waiting for 2 tokens: jobs:[yz] \(ends in .* jobs:[yz] \(ends in' "$work/back.err" || fail "tokens: $(cat "$work/back.err")"
in_phase 1 6
expect 0 migrate status --json
json_has "$out" java 'not yet: 2 keys hold still a token'
redis DEL jobs:y >/dev/null
! gone $back || fail "it ended with a token there"
expect_refused '1 key holds still a token, at which Java fails: jobs:z' migrate rollback --yes
redis DEL jobs:z >/dev/null
wait_for $back 30
[[ $status == 0 ]] || fail "back: $status"
grep -qx 'namespace default: no token is left: Java may start' "$work/back" || fail "back: $(cat "$work/back")"
[[ $(wc -l <"$work/back.err") == 1 ]] || fail "in a pipe it is silent: $(cat "$work/back.err")"
long_ago
expect 0 migrate status --json
json_has "$out" java 'may run'
expect 0 migrate rollback --yes
in_phase 0 7

# A signal ends that wait; the phase has changed, and it says how to find out more.
set_phase 2 10
redis SET jobs:z $token PX 60000 >/dev/null
migrate rollback --yes >"$work/back" 2>"$work/back.err" &
back=$!
until_true 20 grep -q 'waiting for 1 token' "$work/back.err" || fail "no word of tokens: $(cat "$work/back.err")"
kill -INT $back
kill -TERM $back # a shell's background jobs ignore INT
wait_for $back 30
[[ $status == 143 ]] || fail "TERM: $status"
grep -q 'Java may not start yet: tidelock migrate status' "$work/back.err" || fail "TERM: $(cat "$work/back.err")"
in_phase 1 11
redis DEL jobs:z >/dev/null

# ---- the watch -------------------------------------------------------------------------------------------
# SETNX or GETSET run by anybody during the watch, and nobody has seen on which key: doubt.
for command in "SETNX elsewhere 1" "GETSET elsewhere 1" "EVAL return(redis.call('SETNX','a','b')) 0"; do
    set_phase 1 20
    redis CONFIG RESETSTAT >/dev/null
    migrate advance --yes --watch 5m >"$work/watch" 2>&1 &
    watch=$!
    until_true 20 is_waiting || fail "it does not watch: $(cat "$work/watch")"
    # shellcheck disable=SC2086
    redis $command >/dev/null
    wait_for $watch 30 # at once, rather than after 5 min
    [[ $status == 77 ]] || fail "$command: $status: $(cat "$work/watch")"
    in_phase 1 20
done
