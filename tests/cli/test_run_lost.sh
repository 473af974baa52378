#!/bin/bash
# timeout: 240
# run when the lock is lost, or is about to be: the command ends before the deadline, status 74.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

# A process that writes the time to a file every 10 ms, so that its end can be seen; it notes TERM
# as well, and ends by it unless it is told to be deaf.
cat >"$work/worker" <<'PY'
import os, signal, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(what):
    os.write(log, b"%s %d\n" % (what, time.time() * 1000))
def term(number, frame):
    note(b"term")
    if sys.argv[2] != "deaf":
        sys.exit(3)
signal.signal(signal.SIGTERM, term)
while True:
    note(b"alive")
    time.sleep(0.01)
PY
alive() { sed -n 's/^alive //p' "$work/log" | tail -n 1; }
term() { sed -n 's/^term //p' "$work/log" | head -n 1; }

# $ttl, options and the worker's manner; $run is the pid, $work/log what it writes.
begin() { # manner options...
    local manner=$1
    shift
    rm -f "$work/log" "$work/json"
    "$tidelock" run -t "$ttl"ms --json-fd 3 "$@" k -- "$python" "$work/worker" "$work/log" "$manner" \
        3>"$work/json" 2>"$err" &
    run=$!
    wait_file "$work/log"
}
finish() { # longest time in ms
    local start
    start=$(now_ms)
    until_true $((($1 + 999) / 1000)) gone "$run" || fail "tidelock still runs after $1 ms"
    wait "$run"
    status=$?
}

# ---- the server stops: the last renewal may be ttl/3 old, so ttl is the longest ---------------
ttl=4000
begin polite
stop_at=$(now_ms)
stop_server STOP
finish $((ttl + 6000))
[[ $status == 74 ]] || fail "server stopped: status $status"
(($(alive) - stop_at < ttl)) || fail "the command lived $(($(alive) - stop_at)) ms, longer than $ttl"
[[ -n $(term) ]] || fail "no TERM before the end"
json_has "$work/json" state lost
json_has "$work/json" exit_status 74
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# Deaf to TERM: KILL comes before the deadline.
begin deaf
stop_at=$(now_ms)
stop_server STOP
finish $((ttl + 6000))
[[ $status == 74 ]] || fail "server stopped, deaf command: status $status"
(($(alive) - stop_at < ttl)) || fail "a deaf command lived $(($(alive) - stop_at)) ms, longer than $ttl"
grace=$(($(alive) - $(term)))
((grace > 300 && grace < 1100)) || fail "between TERM and KILL were $grace ms instead of about $((ttl / 4 - 100))"
json_has "$work/json" signal 9
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# What the command leaves of its group is killed before the deadline as well.
ttl=2000
rm -f "$work/log"
"$tidelock" run -t "$ttl"ms k -- sh -c '"$1" "$2" "$3" deaf & wait' sh "$python" "$work/worker" "$work/log" 2>"$err" &
run=$!
wait_file "$work/log"
stop_at=$(now_ms)
stop_server STOP
finish $((ttl + 6000))
[[ $status == 74 ]] || fail "server stopped, deaf grandchild: status $status"
sleep 0.1
last=$(alive)
(($(now_ms) - last >= 90 && last - stop_at < ttl)) || fail "a deaf grandchild lives beyond the deadline"
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# kill: no TERM at all.
begin polite --on-lost kill
stop_at=$(now_ms)
stop_server STOP
finish $((ttl + 6000))
[[ $status == 74 && -z $(term) ]] || fail "--on-lost kill: status $status, TERM '$(term)'"
(($(alive) - stop_at < ttl)) || fail "--on-lost kill: the command lived too long"
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# continue: it runs on, and the status is 74 all the same.
ttl=1000
rm -f "$work/log"
"$tidelock" run -t 1s --on-lost continue k -- sh -c 'echo >"$1"; sleep 2; exit 5' sh "$work/log" 2>"$err" &
run=$!
wait_file "$work/log"
start=$(now_ms)
stop_server STOP
finish 15000
took=$(($(now_ms) - start))
[[ $status == 74 ]] || fail "--on-lost continue: status $status"
((took >= 1800)) || fail "--on-lost continue: the command was ended after $took ms"
stop_server CONT
until_true 10 is_free k || fail "the lock outlives its lifetime"

# ---- a short outage is nothing to the command -------------------------------------------------
ttl=6000
begin polite
stop_server STOP
sleep 1
stop_server CONT
sleep 1
! gone $run || fail "an outage of 1 s of 6 s ended the command"
kill -TERM $run
finish 5000
[[ $status == 3 ]] || fail "after an outage: status $status"

# ---- the key is deleted, or taken by another: at once ----------------------------------------
ttl=1500
for taken in DEL SET; do
    begin polite
    if [[ $taken == DEL ]]; then redis DEL k >/dev/null; else redis SET k another PX 60000 >/dev/null; fi
    finish $((ttl + 3000))
    [[ $status == 74 ]] || fail "$taken of the key: status $status"
    json_has "$work/json" state lost
    # What another holds is left alone.
    [[ $taken == DEL || $(redis GET k) == another ]] || fail "another's lock was touched"
    redis DEL k >/dev/null
done
# Even when the command ends before a renewal could tell.
expect 74 "$tidelock" run k -- sh -c 'redis-cli -s "$1" DEL k' sh "$socket"
grep -q 'lost' "$err" || fail "nothing is said of the loss"

# ---- what might keep tidelock from its duty ---------------------------------------------------
# Nobody reads its stderr, which the command has filled.
ttl=2000
mkfifo "$work/stuck"
sleep 60 <"$work/stuck" &
reader=$!
rm -f "$work/log"
"$tidelock" run -v -t "$ttl"ms k -- sh -c 'trap "" TERM; echo $$ >"$1"; yes >&2' sh "$work/log" 2>"$work/stuck" &
run=$!
wait_file "$work/log"
sleep 0.3
stop_at=$(now_ms)
stop_server STOP
until_true 10 gone "$(cat "$work/log")" || fail "a stuck stderr keeps the command alive"
(($(now_ms) - stop_at < ttl + 100)) || fail "stuck stderr: the command lived $(($(now_ms) - stop_at)) ms"
stop_server CONT
disown $reader
kill $reader
finish 8000
[[ $status == 74 ]] || fail "stuck stderr: status $status"
until_true 10 is_free k || fail "the lock outlives its lifetime"
# It was stopped itself, for longer than the lifetime: the command ends as soon as it goes on.
ttl=1000
begin polite
kill -STOP $run
sleep 1.5
kill -CONT $run
finish 5000
[[ $status == 74 ]] || fail "stopped itself: status $status"

# ---- the longest hold -------------------------------------------------------------------------
ttl=4000
begin polite --max-hold 500ms
start=$(now_ms)
finish 8000
[[ $status == 3 && -n $(term) ]] || fail "--max-hold: status $status"
(($(now_ms) - start < 3000 * slow)) || fail "--max-hold 500ms took $(($(now_ms) - start)) ms"
grep -q 'max-hold' "$err" || fail "nothing is said of --max-hold"
assert_free k
json_has "$work/json" state free
begin deaf --max-hold 500ms
finish 10000
[[ $status == 137 ]] || fail "--max-hold, deaf command: status $status"
grace=$(($(alive) - $(term)))
((grace > 700 && grace < 1500 * slow)) || fail "--max-hold: $grace ms between TERM and KILL instead of 1000"
assert_free k
rm -f "$work/log"
expect 143 "$tidelock" run --max-hold 300ms k -- sleep 60
expect 0 "$tidelock" run --max-hold 20s k -- true

# ---- the server dies, for good ----------------------------------------------------------------
ttl=2000
begin polite
stop_at=$(now_ms)
stop_server KILL
finish $((ttl + 6000))
[[ $status == 74 ]] || fail "server killed: status $status"
(($(alive) - stop_at < ttl)) || fail "server killed: the command lived $(($(alive) - stop_at)) ms"
