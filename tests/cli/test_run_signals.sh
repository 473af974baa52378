#!/bin/bash
# run passes signals on, ends with its command, and leaves the lock free.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

# Notes each signal that it gets in a file; USR1 and USR2 let it go on, the others end it with 40.
cat >"$work/listener" <<'PY'
import os, signal, sys, time
log = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
def note(number, frame):
    os.write(log, signal.Signals(number).name.encode() + b"\n")
    if number not in (signal.SIGUSR1, signal.SIGUSR2):
        os._exit(40)
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2):
    signal.signal(number, note)
os.write(log, b"ready\n")
while True:
    time.sleep(0.1)  # short: a signal that comes just before it does not end it
PY

begin() { # command...: under the lock, in the background; $run is the pid
    rm -f "$work/log"
    { "$tidelock" run -t "$ttl" k -- "$@" & } >"$out" 2>"$err"
    run=$!
    wait_file "$work/log"
}
ttl=1m
heard() { grep -qx "$1" "$work/log"; }

for s in INT TERM HUP QUIT; do
    begin "$python" "$work/listener" "$work/log"
    kill -$s $run
    wait_for $run 10
    [[ $status == 40 ]] || fail "SIG$s passed on: status $status"
    heard SIG$s || fail "SIG$s did not reach the command"
    assert_free k
done
begin "$python" "$work/listener" "$work/log"
for s in USR1 USR2; do
    kill -$s $run
    until_true 10 heard SIG$s || fail "SIG$s did not reach the command"
done
assert_held k
kill -TERM $run
wait_for $run 10

# A command with no handler dies of the signal: 128 + n, and the lock is free.
begin sh -c 'echo >"$1"; exec sleep 600' sh "$work/log"
kill -TERM $run
wait_for $run 10
[[ $status == 143 ]] || fail "TERM to tidelock: status $status"
assert_free k

# The whole group hears it.
begin sh -c 'sleep 601 & echo $! >"$1"; wait' sh "$work/log"
inner=$(cat "$work/log")
kill -TERM $run
wait_for $run 10
until_true 5 gone "$inner" || fail "a process of the command's group did not get the signal"

# kill -9 of tidelock takes the command along, and the lock ends with its lifetime.
ttl=12s
begin sh -c 'echo $$ >"$1"; exec sleep 600' sh "$work/log"
inner=$(cat "$work/log")
assert_held k
disown $run
kill -KILL $run
until_true 5 gone "$inner" || fail "the command outlives tidelock"
assert_held k
until_true 30 is_free k || fail "the lock outlives its lifetime"

# A command that is stopped from outside keeps the lock: only a terminal's job takes us along.
rm -f "$work/log"
setsid "$tidelock" run -t 10s k -- sh -c 'echo $$ >"$1"; exec sleep 600' sh "$work/log" &
run=$!
wait_file "$work/log"
inner=$(cat "$work/log")
is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
left=0 renewals=0
see_renewals() { # two: the first may have been on its way
    local before=$left
    left=$(redis PTTL k)
    renewals=$((renewals + (left > before)))
    ((renewals > 2)) # the first look counts as one
}
kill -STOP "$inner"
until_true 10 is_stopped "$inner" || fail "STOP does not stop the command"
until_true 60 see_renewals || fail "the lock of a command that was stopped is not renewed"
is_stopped "$inner" || fail "the command goes on by itself"
! is_stopped $run || fail "tidelock stopped with its command"
kill -CONT "$inner"
kill -TERM $run
wait_for $run 10
[[ $status == 143 ]] || fail "after a stop: status $status"

# What the command leaves in the background does not keep the lock.
expect 0 "$tidelock" run k -- sh -c 'sleep 600 >/dev/null 2>&1 & echo $! >"$1"' sh "$work/log" # it is not waited for
assert_free k
! gone "$(cat "$work/log")" || fail "what the command left in the background was killed"
kill "$(cat "$work/log")"

# ---- a signal between the acquire and the command --------------------------------------------------
# A sanitizer wants to be first in a process.
if [[ -n ${SAN:-} ]]; then
    part_skipped "a signal between the acquire and the command" "what is preloaded and sanitizers don't go together"
    exit 0
fi
"${CC:-cc}" -D_GNU_SOURCE -O1 -fPIC -shared "$here/tests/cli/signal_late.c" -o "$work/signal_late.so" || fail "it isn't built"
for s in TERM HUP; do
    rm -f "$work/log"
    expect $((128 + $(kill -l $s))) env LD_PRELOAD="$work/signal_late.so" SIGNAL_LATE="$(kill -l $s)" \
        "$tidelock" run --forever --watchdog 1m --json-fd 3 k -- sh -c 'trap "" TERM HUP; echo >"$1"' sh "$work/log" 3>"$work/json"
    [[ ! -e $work/log ]] || fail "SIG$s before the start: the command is started"
    json_has "$work/json" state cancelled
    json_has "$work/json" token None
    assert_free k
done
