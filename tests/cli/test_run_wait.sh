#!/bin/bash
# run when the lock is not there for the taking: busy, too late, no server, told to stop waiting.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

hold() { # key seconds: in the background; $holder is the pid
    rm -f "$work/held"
    "$tidelock" run "$1" -- sh -c 'echo held >"$1"; exec sleep "$2"' sh "$work/held" "$2" &
    holder=$!
    wait_file "$work/held"
}
end_hold() {
    kill "$holder"
    wait_for "$holder" 10
}
# A waiter that stands in line has taken over the signals long before. It would be told of its turn.
waits() { (($(redis ZCARD 'tidelock:{k}:line') == 1)); }
await_waiter() { until_true 20 waits || depth=1 fail "nobody waits"; }
nobody_waits() { ! waits; }

# It ends by itself, far sooner than one that hangs. By how much later than it is to, on a clock of its own: unit/test_acquire_wait.
ends() { # status, pattern, command...
    local start # and leaves in $took how long it took
    start=$(now_ms)
    depth=1 expect_line "$@"
    took=$(($(now_ms) - start))
    ((took < 45000 * slow)) || depth=1 fail "it took $took ms: ${*:3:8}"
}

# ---- busy -------------------------------------------------------------------------------------
hold k 600
expect_line 75 k "$tidelock" run -n k -- echo never
expect_line 9 k "$tidelock" run -n -E 9 k -- echo never
expect 0 "$tidelock" run -n -E 0 k -- echo never
[[ ! -s $out ]] || fail "the command ran without the lock"
# What the caller has declared to be no error is not told, or cron mails it. Unless one asks.
[[ ! -s $err ]] || fail "-E 0 says something"
expect 0 "$tidelock" run -w 2s -E 0 k -- echo never
[[ ! -s $err ]] || fail "-w -E 0 says something"
expect_line 0 'another holds it' "$tidelock" run -v -n -E 0 k -- echo never
ends 75 k "$tidelock" run -w 2s k -- echo never
((took >= 2000)) || fail "-w 2s took $took ms"
expect_line 9 k "$tidelock" run -w 2s --conflict-exit-code=9 k -- echo never
expect 75 "$tidelock" run -n --json-fd 3 k -- true 3>"$work/json"
json_has "$work/json" state busy
json_has "$work/json" token None
json_has "$work/json" exit_status 75
grep -q '"service":"sh"' "$work/json" || fail "the holder is not named: $(cat "$work/json")"
# Another key is another lock.
expect 0 "$tidelock" run -n other -- true

# A waiter gets the lock when it is released.
"$tidelock" run k -- sh -c 'echo had >"$1"' sh "$work/had" &
waiter=$!
await_waiter
[[ ! -e $work/had ]] || fail "two hold the lock"
end_hold
wait_for $waiter 10
[[ $status == 0 && -s $work/had ]] || fail "the waiter did not get the lock: status $status"

# ---- a signal while waiting -------------------------------------------------------------------
hold k 600
for s in TERM:143 HUP:129 INT:130 QUIT:131; do
    # A shell ignores INT and QUIT for its background jobs: set them back.
    { env --default-signal=INT,QUIT "$tidelock" run k -- echo never & } >"$out" 2>"$err"
    waiter=$!
    await_waiter
    kill "-${s%:*}" $waiter
    wait_for $waiter 30
    [[ $status == "${s#*:}" ]] || fail "SIG${s%:*} while waiting: status $status"
    until_true 10 nobody_waits || fail "one that was told to stop still stands in line"
done 2>/dev/null # the shell has words for a death by QUIT
# What was ignored at the start stays ignored, as for nohup.
env --ignore-signal=HUP "$tidelock" run k -- sh -c 'echo had >"$1"' sh "$work/nohup" &
waiter=$!
await_waiter
kill -HUP $waiter
sleep 0.2 # for it to show, if at all
! gone $waiter || fail "HUP ended a waiter that was to ignore it"
end_hold
wait_for $waiter 10
[[ $status == 0 && -s $work/nohup ]] || fail "the waiter under nohup: status $status"
assert_free k
# Nothing is left behind by waiters that were told to stop.
expect 0 "$tidelock" run -n k -- true

# ---- no server --------------------------------------------------------------------------------
stop_server
ends 69 . "$tidelock" run -w 500ms k -- echo never
ends 69 . "$tidelock" run k -- echo never
ends 69 . "$tidelock" run -n k -- echo never
ends 69 'refused' "$tidelock" run -n --url redis://127.0.0.1:1 k -- echo never
ends 69 'no such file' "$tidelock" run -n --url "unix://$work/nothing" k -- echo never
expect_line 69 'connect' "$tidelock" run -w 500ms --url redis://127.0.0.1:1 k -- echo never
expect 69 "$tidelock" run -w 300ms --json-fd 3 k -- true 3>"$work/json"
json_has "$work/json" state unavailable
json_has "$work/json" exit_status 69
# A signal ends that wait too.
"$tidelock" run -w 10m k -- echo never 2>/dev/null &
waiter=$!
sleep 0.3
kill -TERM $waiter
wait_for $waiter 10
[[ $status == 143 ]] || fail "TERM while connecting: status $status"
