#!/bin/bash
# timeout: 240
# run --once-per and --hold-at-least, lock and unlock --rest: a command that succeeds leaves the lock taken, a failure does not; who comes
# meanwhile is told who has done it, and a waiter stands by. A rest that is not confirmed is no success.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
me=$("$python" -c 'import socket; print(socket.gethostname())')
rests() { [[ $(redis GET "$1") == resting\ * ]]; }
# A lifetime and a rest of which a busy machine takes no more than a part.
ttl=4s

# ---- usage ---------------------------------------------------------------------------------------
for option in --once-per --hold-at-least; do
    expect_line 64 "run: $option: 0s to 400d" "$tidelock" run $option 401d k -- true
    expect_line 64 "run: $option: 0s to 400d" "$tidelock" run $option 34560000001ms k -- true
    expect_line 64 'say seconds or milliseconds' "$tidelock" run $option 30 k -- true
    expect 0 "$tidelock" run $option 0s k -- true
    assert_free k
    expect 0 "$tidelock" run $option 400d "key$option" -- true
    rests "key$option" || fail "$option 400d does not rest"
done
expect_line 64 'exclude each other' "$tidelock" run --once-per 1h --hold-at-least 1h k -- true
expect_line 64 '--once-per and --forever exclude each other' "$tidelock" run --once-per 1h --forever k -- true
expect_line 64 '--on-failure needs --once-per' "$tidelock" run --on-failure rest k -- true
expect_line 64 '--on-failure needs --once-per' "$tidelock" run --hold-at-least 1h --on-failure release k -- true
expect_line 64 'release.rest' "$tidelock" run --once-per 1h --on-failure keep k -- true
expect_line 64 '--fair needs --wait' "$tidelock" run --once-per 1h --fair k -- true
expect_line 64 'lock: --rest: 0s to 400d' "$tidelock" lock --rest 401d k
expect_line 64 'unlock: --rest: 0s to 400d' "$tidelock" unlock --rest 401d k token
assert_free k
if [[ ${COMPAT:-1} != 0 ]]; then
    for option in 'run --once-per' 'run --hold-at-least' 'lock --rest'; do
        words=(k)
        if [[ $option == run* ]]; then words+=(-- echo never); fi
        # shellcheck disable=SC2086
        expect_line 64 "^tidelock: ${option/ /: }: with strict a lock can't rest: " "$tidelock" $option 1h --protocol timestamp --strict "${words[@]}"
    done
    expect 0 "$tidelock" run --once-per 1h --protocol bridge bridge -- true
    for protocol in bridge token; do
        expect_line 75 "^tidelock: bridge: done by true on $me .*; free again in " "$tidelock" run --once-per 1h --protocol $protocol bridge -- true
    done
    expect_line 64 '--once-per with --wait needs the token protocol' "$tidelock" run --once-per 1h -w 1s --protocol auto k -- true
    expect_line 64 '--rest with --wait needs the token protocol' "$tidelock" lock --rest 1h -w 1s --protocol bridge k
    expect_line 64 'exclude each other' "$tidelock" run --once-per 1h -w 1s -n k -- true
    assert_free k
fi

# ---- once ----------------------------------------------------------------------------------------
expect 0 "$tidelock" run -v --once-per 1d nightly -- true
grep -qE 'nightly: it rests; free again in 23 h 59 min$' "$err" || fail "a success says: $(cat "$err")"
rests nightly || fail "a success leaves nothing: $(redis GET nightly)"
left=$(redis PTTL nightly)
((left > 86400000 - 120000 && left <= 86400000 + 1000)) || fail "a rest of 1d lasts for $left ms"
done="^tidelock: nightly: done by true on $me [0-9.]* (ms|s|min) ago; free again in 23 h [0-9]+ min\$"
expect_line 75 "$done" "$tidelock" run --once-per 1d nightly -- echo again
expect_line 9 "$done" "$tidelock" run --once-per 1d -E 9 nightly -- echo again
expect 0 "$tidelock" run --once-per 1d -E 0 nightly -- echo again
[[ ! -s $out && ! -s $err ]] || fail "-E 0 says: $(cat "$out" "$err")"
expect_line 0 "$done" "$tidelock" run -v --once-per 1d -E 0 nightly -- echo again
# What is no lock does not end by itself: no status of -E, and no silence, hides that the command will never run.
redis RPUSH list 1 >/dev/null
redis HSET hash a 1 >/dev/null
redis SADD set 1 >/dev/null
redis HSET redisson 01234567-89ab-4def-8123-456789abcdef:51 1 >/dev/null
for code in 0 9; do
    for key in list hash set redisson; do
        expect_line 75 "^tidelock: $key holds a .*; choose another key\$" "$tidelock" run --once-per 1d -E $code $key -- echo never
        expect_line 75 "^tidelock: $key holds a .*; choose another key\$" "$tidelock" run -n -E $code $key -- echo never
    done
done
redis DEL list hash set redisson >/dev/null
# Who doesn't know that it is to run once is not told that it is done.
rested="^tidelock: nightly: it rests; released by true on $me .* ago; free again in 23 h [0-9]+ min\$"
expect_line 75 "$rested" "$tidelock" run -n nightly -- echo again
expect_line 75 "$rested" "$tidelock" run -w 3s nightly -- echo again
expect_line 75 "$rested" "$tidelock" lock nightly
expect 75 "$tidelock" run --once-per 1d --json-fd 3 nightly -- true 3>"$work/json"
json_has "$work/json" state resting
json_has "$work/json" exit_status 75
json_has "$work/json" token None
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert 86000000 < d["remaining_ms"] <= 86401000 and "rests" in d["error"]' "$work/json" ||
    fail "JSON of a lock that rests: $(cat "$work/json")"
expect 0 "$tidelock" break --yes nightly
expect 0 "$tidelock" run --once-per 1h --json-fd 3 nightly -- echo again 3>"$work/json"
[[ $(cat "$out") == again ]] || fail "a rest that was broken is not over"
json_has "$work/json" state resting
json_has "$work/json" exit_status 0
json_has "$work/json" error None
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert 3400000 < d["remaining_ms"] <= 3600000 and d["fence"] > 0' "$work/json" ||
    fail "JSON of a run that lets it rest: $(cat "$work/json")"
expect 75 "$tidelock" run --once-per 1h --metrics "$work/k.prom" nightly -- true
grep -q 'run_state{key="nightly",state="resting"} 1' "$work/k.prom" || fail "metrics: $(cat "$work/k.prom")"
# A command that outlasts it leaves nothing.
expect 0 "$tidelock" run -v --once-per 100ms long -- sleep 0.3
grep -q 'long: released$' "$err" || fail "a rest that has passed: $(cat "$err")"
assert_free long
# The process of a job that is over may run it again when it is due: no run is around it.
expect 0 "$tidelock" run --once-per 1h bg -- sh -c '(while [ ! -e "$1/go" ]; do sleep 0.05; done; "$2" run --once-per 1h bg -- true 2>"$1/bg"; : >"$1/went") >/dev/null 2>&1 </dev/null &' sh "$work" "$tidelock"
: >"$work/go"
until_true 30 test -e "$work/went" || fail "the process in the background does not end"
grep -q '^tidelock: bg: done by sh on' "$work/bg" || fail "a process that outlives its run says: $(cat "$work/bg")"

# ---- a failure -----------------------------------------------------------------------------------
expect 3 "$tidelock" run --once-per 1h f -- sh -c 'exit 3'
assert_free f
expect 143 "$tidelock" run --once-per 1h f -- sh -c 'kill $$'
assert_free f
expect 143 "$tidelock" run --once-per 1h --max-hold 100ms f -- sleep 1000
assert_free f
expect 3 "$tidelock" run --once-per 1h --on-failure release f -- sh -c 'exit 3'
assert_free f
expect 127 "$tidelock" run --once-per 1h --on-failure rest f -- "$work/no-such-command"
assert_free f
expect 126 "$tidelock" run --once-per 1h --on-failure rest f -- "$work"
assert_free f
expect 127 "$tidelock" run --hold-at-least 1h f -- "$work/no-such-command"
assert_free f
expect 3 "$tidelock" run --once-per 1h --on-failure rest f -- sh -c 'exit 3'
rests f || fail "--on-failure rest does not rest"
expect 3 "$tidelock" run --hold-at-least 1h h -- sh -c 'exit 3'
rests h || fail "--hold-at-least does not rest after a failure"
expect_line 75 '^tidelock: h: it rests; released by sh on' "$tidelock" run -n h -- true
# The rest ends, and a waiter is there.
start=$(now_ms)
expect 0 "$tidelock" run --hold-at-least 1500ms w -- true
expect 0 "$tidelock" run -w 60s w -- true
took=$(($(now_ms) - start))
((took >= 1500)) || fail "a waiter acquires after $took ms what rests for 1500 ms"
expect 0 "$tidelock" run -n w -- true

# ---- a waiter stands by --------------------------------------------------------------------------
await_waiters() { until_true 30 has_waiters "$1" || depth=1 fail "nobody waits: $(redis ZCARD 'tidelock:{s}:line')"; }
has_waiters() { (($(redis ZCARD 'tidelock:{s}:line') == $1)); }
first() { # text of a shell, options of run...
    rm -f "$work"/{first,go}
    { "$tidelock" run "${@:2}" -t $ttl --once-per 1h s -- sh -c ": >$work/first; until [ -e $work/go ]; do sleep 0.05; done; $1" & } 2>"$work/first.err"
    first=$!
    until_true 30 test -e "$work/first" || fail "the first does not begin"
}
second() { # options of run...
    { "$tidelock" run -w 10m --once-per 1h "$@" s -- echo had & } >"$work/second" 2>"$work/second.err"
    second=$!
}
# It succeeds: all that wait end at once, also those behind the first three of the queue, which alone the server notifies.
first 'exit 0'
second && one=$second
second -E 0 && two=$second
others=()
for _ in {1..6}; do second && others+=("$second"); done
await_waiters 8
: >"$work/go"
wait_for "$first" 60
[[ $status == 0 ]] || fail "the first: status $status: $(cat "$work/first.err")"
wait_for "$one" 60
[[ $status == 75 && ! -s $work/second ]] || fail "who stands by: status $status: $(cat "$work/second" "$work/second.err")"
wait_for "$two" 60
[[ $status == 0 && ! -s $work/second ]] || fail "who stands by with -E 0: status $status"
for other in "${others[@]}"; do
    wait_for "$other" 60
    [[ $status == 75 && ! -s $work/second ]] || fail "one of many that stand by: status $status: $(cat "$work/second")"
done
# One that comes later doesn't wait, either.
expect_line 75 '^tidelock: s: done by sh on' "$tidelock" run -w 10m --once-per 1h s -- echo again
expect_line 75 '^tidelock: s: it rests; released by sh on' "$tidelock" lock -w 10m --rest 1h s
expect 0 "$tidelock" break --yes s
# It fails: one of them runs it.
first 'exit 3'
second
await_waiters 1
: >"$work/go"
wait_for "$first" 60
[[ $status == 3 ]] || fail "the first: status $status: $(cat "$work/first.err")"
wait_for "$second" 60
[[ $status == 0 && $(cat "$work/second") == had ]] || fail "who stands by a failure: status $status: $(cat "$work/second.err")"
rests s || fail "the second run does not rest"
expect 0 "$tidelock" break --yes s
# Its host dies: the same, once the lifetime has ended.
first 'exit 0'
second
await_waiters 1
{ kill -KILL "$first" && wait "$first"; } 2>/dev/null # the shell has words for it
wait_for "$second" 60
[[ $status == 0 && $(cat "$work/second") == had ]] || fail "who stands by a host that dies: status $status: $(cat "$work/second.err")"
rests s || fail "the second run does not rest"

# ---- lock and unlock -----------------------------------------------------------------------------
expect 0 "$tidelock" lock --rest 1h l
[[ ! -s $out && ! -s $err ]] || fail "lock --rest prints: $(cat "$out" "$err")"
rests l || fail "lock --rest does not rest"
expect_line 75 "^tidelock: l: it rests; released by tidelock on $me .*; free again in 59 min" "$tidelock" lock --rest 1h l
expect 75 "$tidelock" lock --json --rest 1h l
json_has "$out" state resting
expect 0 "$tidelock" lock --json --rest 1h lj
json_has "$out" state resting
json_has "$out" token None
"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert d["fence"] > 0 and 3400000 < d["remaining_ms"] <= 3601000' "$out" ||
    fail "lock --json --rest: $(cat "$out")"
expect 0 "$tidelock" lock --rest 0s l0
assert_free l0
expect 0 "$tidelock" lock -t 10m u
read -r token _ <"$out"
expect 2 "$tidelock" unlock --rest 1h u other
expect 0 "$tidelock" unlock --rest 1h u "$token"
[[ ! -s $out && ! -s $err ]] || fail "unlock --rest prints: $(cat "$out" "$err")"
rests u || fail "unlock --rest does not rest"
expect_line 1 '^tidelock: u: no longer held: it rests$' "$tidelock" unlock u "$token"
expect_line 1 '^tidelock: u: no longer held: it rests$' "$tidelock" extend u "$token" --ttl 5s
expect 0 "$tidelock" unlock --rest 1h u "$token" # again: nothing changes
rests u || fail "a second unlock ends the rest"
expect_line 1 'no longer held$' "$tidelock" unlock --rest 1h free "$token"

# ---- a rest that is not confirmed ----------------------------------------------------------------
# The promise is not kept, which the status says, unless that of the command does.
unsure() { # status, text of a shell, options...
    expect "$1" "$tidelock" run --json-fd 3 "${@:3}" u -- sh -c "$2" 3>"$work/json"
    json_has "$work/json" exit_status "$1"
}
redis DEL u 'tidelock:{u}' >/dev/null
unsure 74 "redis-cli -s $socket DEL u" --once-per 1h # the lock is lost
grep -q '^tidelock: u: the lock was lost while the command ran' "$err" || fail "a lock that was deleted: $(cat "$err")"
redis DEL u 'tidelock:{u}' >/dev/null
unsure 74 "redis-cli -s $socket SET u another" --once-per 1h
redis DEL u 'tidelock:{u}' >/dev/null
refuse="redis-cli -s $socket ACL SETUSER default -evalsha -eval" grant="ACL SETUSER default +evalsha +eval"
unsaid='^tidelock: u: the rest is not confirmed, so another host may run the command again: rest u: '
if redis ACL WHOAMI | grep -q default; then
    unsure 77 "$refuse" --once-per 1h
    redis $grant >/dev/null
    grep -q "$unsaid" "$err" || fail "a refusal: $(cat "$err")"
    json_has "$work/json" state refused
    "$python" -c 'import json, sys; assert json.load(open(sys.argv[1]))["error"].startswith("rest u: ")' "$work/json" || fail "JSON: $(cat "$work/json")"
    redis DEL u 'tidelock:{u}' >/dev/null
    unsure 77 "$refuse" --hold-at-least 1h
    redis $grant >/dev/null
    grep -q '^tidelock: u: the rest is not confirmed, so another host may acquire the lock before its end: rest u: ' "$err" || fail "a refusal: $(cat "$err")"
    redis DEL u 'tidelock:{u}' >/dev/null
    unsure 3 "$refuse; exit 3" --once-per 1h --on-failure rest
    redis $grant >/dev/null
    grep -q "$unsaid" "$err" || fail "a refusal after a failure: $(cat "$err")"
else
    part_skipped 'a rest that is refused' 'this server has no ACL'
fi
redis DEL u 'tidelock:{u}' >/dev/null
unsure 69 "kill -KILL $server_pid; while kill -0 $server_pid 2>/dev/null; do sleep 0.01; done" --once-per 1h
grep -q "$unsaid" "$err" || fail "no server: $(cat "$err")"
server_pid=
