#!/bin/bash
# run --forever: a hot standby for a job that should always run once.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

starts() { cat "$work/starts" 2>/dev/null | wc -l; }
has_starts() { (($(starts) >= $1)); }

# Runs again, at least 1 s after the start before, with another fence each time; TERM ends it. A command can't say when it was to
# be started, but between what: after the lock was acquired, five minutes before it ends, and before the command looks at the time.
# Once the lock was renewed, on a slow machine, its end tells nothing of the acquire: 0.
acquired="if redis.call('HGET', 'tidelock:{k}', 'token') == ARGV[1] then return '0' end local t = redis.call('TIME') return string.format('%.0f', t[1] * 1e6 + t[2] - (300000 - redis.call('PTTL', KEYS[1])) * 1000)"
{ "$tidelock" run --forever -t 5m --json-fd 3 k -- sh -c 'echo "$TIDELOCK_FENCE $(redis-cli -s "$2" EVAL "$3" 1 k "$TIDELOCK_TOKEN") $(date +%s%6N)" >>"$1"; exit 3' \
    sh "$work/starts" "$socket" "$acquired" & } 3>"$work/json"
run=$!
until_true 15 has_starts 3 || fail "the command was started $(starts) times"
kill -TERM $run
wait_for $run 10
[[ $status == 143 || $status == 3 ]] || fail "TERM to --forever: status $status"
before=0 at=0
while read -r fence since time; do
    ((fence > before)) || fail "the fence does not grow: $before, $fence"
    ((since == 0 || (since > at && time + 2000 > since))) || fail "no times: $(cat "$work/starts")"
    ((at == 0 || time - at + 2000 >= 1000000)) || fail "started again after $((time - at)) us at most"
    before=$fence at=$since
done <"$work/starts"
(($(wc -l <"$work/json") >= 2)) || fail "there is no line of JSON for each round"
while read -r line; do "$python" -m json.tool <<<"$line" >/dev/null || fail "not JSON: $line"; done <"$work/json"
assert_free k

# TERM while the command runs reaches it, and it is not started again.
rm -f "$work/starts"
"$tidelock" run --forever k -- sh -c 'echo >>"$1"; exec sleep 600' sh "$work/starts" &
run=$!
until_true 10 has_starts 1 || fail "not started"
kill -TERM $run
wait_for $run 10
[[ $status == 143 && $(starts) == 1 ]] || fail "TERM to the command of --forever: status $status, $(starts) starts"
assert_free k

# The standby takes over when the leader is killed with its tidelock.
rm -f "$work/starts"
for name in a b; do
    ttl=1m
    if [[ $name == b ]]; then ttl=10s; fi # so long its command lives after the server
    { "$tidelock" run --forever -t $ttl k -- sh -c 'echo "$2 $$" >>"$1"; exec sleep 600' sh "$work/starts" $name & } 2>"$work/$name.err"
    eval "$name=\$!"
    until_true 10 has_starts 1 || fail "nobody leads"
done
stands_by() { (($(redis ZCARD 'tidelock:{k}:line') == 1)); }
until_true 20 stands_by || fail "nobody waits for the lead"
[[ $(cut -d' ' -f1 "$work/starts") == a ]] || fail "two lead, or the wrong one: $(cat "$work/starts")"
# shellcheck disable=SC2154
disown "$a"
kill -KILL "$a"
until_true 30 gone "$a" || fail "a KILL does not end tidelock"
redis PEXPIRE k 100 >/dev/null # what is left of a minute is not waited for
until_true 20 has_starts 2 || fail "the standby did not take over"
read -r name leader <<<"$(tail -n 1 "$work/starts")"
[[ $name == b ]] || fail "who leads: $(cat "$work/starts")"

# An outage ends the command, not the standby: it leads again when the server is back.
stop_server KILL
until_true 20 gone "$leader" || fail "the command outlives the lock"
# shellcheck disable=SC2154
! gone "$b" || fail "an outage ended --forever"
start_server
until_true 20 has_starts 3 || fail "no new start after the outage"
kill -TERM "$b"
wait_for "$b" 20

# It ends where going on is of no use.
expect 127 "$tidelock" run --forever k -- no-such-command
expect 64 "$tidelock" run --forever '' -- true
redis SET k another PX 600000 >/dev/null
expect 75 "$tidelock" run --forever -n k -- true
expect 75 "$tidelock" run --forever -w 2s k -- true
