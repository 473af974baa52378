#!/bin/bash
# timeout: 180
# run and what the command starts: all of it ends on a loss, nothing else does, and what a normal end leaves
# is left alone. Every signal ends the command first, and the lock is free then.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

is_stopped() { grep -q '^State:.T' "/proc/$1/status"; }
pids_in() { cat "$work/pids" 2>/dev/null; }
has_pids() { (($(pids_in | wc -l) >= $1)); }
# It has taken over the signals, TERM among them.
is_caught() { [[ $(cat "/proc/$1/comm") == tidelock && $((16#$(sed -n 's/^SigBlk:\s*//p' "/proc/$1/status") >> 14 & 1)) == 1 ]]; }
all_gone() { local p; for p in $(pids_in); do gone "$p" || return 1; done; }

# Of each kind that leaves its parent, its group or its session; then the command itself, which is PID-less: "$@".
cat >"$work/tree" <<'S'
echo $$ >>"$1"
timeout 600 sh -c 'echo $$ >>"$1"; trap "" TERM; sleep 600 & wait; sleep 600' sh "$1" &
setsid sh -c 'echo $$ >>"$1"; exec sleep 600' sh "$1" &
(setsid sh -c '(echo $$ >>"$1"; exec sleep 600) & exit' sh "$1" &)
python3 -c '
import os, sys, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
open(sys.argv[1], "a").write("%d\n" % os.getpid())
time.sleep(600)' "$1"
wait
sleep 600
S
start_tree() { # $run, and the pids of what runs
    rm -f "$work/pids"
    { "$tidelock" run -t 10s k -- sh "$work/tree" "$work/pids" & } 2>"$err"
    run=$!
    until_true 20 has_pids 5 || depth=1 fail "the command did not start all"
}

# ---- a loss ends all of it, and nothing else ----------------------------------------------------
# A child that was there before, as the shell has started it that then became tidelock, is none of the command's.
rm -f "$work/pids"
{ bash -c 'sleep 600 & echo $! >"$1"; shift; exec "$@"' bash "$work/bystander" \
    "$tidelock" run -t 10s k -- sh "$work/tree" "$work/pids" & } 2>"$err"
run=$!
until_true 20 has_pids 5 || fail "the command did not start all"
redis DEL k >/dev/null
wait_for $run 30
[[ $status == 74 ]] || fail "loss: status $status"
all_gone || fail "what the command started outlives the lock"
! gone "$(cat "$work/bystander")" || fail "a process was ended that the command hasn't started"
kill "$(cat "$work/bystander")"

# So does --max-hold.
rm -f "$work/pids"
{ "$tidelock" run --max-hold 6s k -- sh "$work/tree" "$work/pids" & } 2>"$err"
run=$!
wait_for $run 60
has_pids 1 || fail "the command did not start"
all_gone || fail "what the command started outlives --max-hold"
assert_free k

# And a KILL of tidelock itself.
start_tree
disown $run
kill -KILL $run
until_true 10 all_gone || fail "what the command started outlives tidelock"
left=$(redis PTTL k) # or -2: it is over
((left != -1 && left <= 10000)) || fail "the lock outlives its lifetime: $left ms"
redis DEL k >/dev/null

# A tidelock that is stopped can't renew the lock. Its command is ended all the same, before another has the lock.
start_tree
kill -STOP $run
until_true 10 is_stopped $run || fail "STOP does not stop tidelock"
expect 0 "$tidelock" run k -- true
all_gone || fail "the command of a tidelock that is stopped outlives the lock"
kill -CONT $run
wait_for $run 10
[[ $status == 74 ]] || fail "stopped itself: status $status"

# ---- a normal end leaves alone what still runs --------------------------------------------------
rm -f "$work/pids"
expect 7 "$tidelock" run k -- sh -c 'setsid sh -c "echo \$\$ >>\$1; exec sleep 600" sh "$1" >/dev/null 2>&1 &
    until [ -s "$1" ]; do sleep 0.02; done; exit 7' sh "$work/pids"
! all_gone || fail "what the command left was ended"
assert_free k
kill "$(cat "$work/pids")"

# ---- signals --------------------------------------------------------------------------------------
# Every one, sent to tidelock alone: the lock is free when it has ended, and the command has ended before.
cat >"$work/signals.py" <<'PY'
"""Send a signal to tidelock, and see what came of the command and the lock."""
import os, signal, subprocess, sys, time
tidelock, work = sys.argv[1:3]
passive = (signal.SIGPIPE, signal.SIGXFSZ)         # of our own writing
harmless = (signal.SIGCHLD, signal.SIGURG, signal.SIGWINCH, signal.SIGCONT)  # by their default action
stopping = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
reserved = (32, 33)                                # of the C library
runs = []
def held(n):
    return subprocess.call([tidelock, "check", "s%d" % n], stdout=subprocess.DEVNULL) == 1
for n in range(1, 65):
    if n in (signal.SIGKILL, signal.SIGSTOP):
        continue
    ready, told = os.pipe()
    p = subprocess.Popen([tidelock, "run", "-t", "5m", "s%d" % n, "--", "sh", "-c", "ulimit -c 0; echo $$ >/dev/fd/%d; exec sleep 600" % told],
                         pass_fds=(told,), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    os.close(told)
    runs.append((n, p, os.fdopen(ready)))
bad = []
for n, p, ready in runs:
    command = int(ready.readline())
    p.send_signal(n)
    if n in passive or n in harmless or n in stopping or n in reserved:
        time.sleep(0.01)
        if p.poll() is not None or not held(n):
            bad.append("%d ended it" % n)
        p.send_signal(signal.SIGCONT)
        p.terminate()
        want = (143,)
    else:
        want = (128 + n, -n) if n in (signal.SIGINT, signal.SIGQUIT) else (128 + n,)
    try:
        status = p.wait(30)
    except subprocess.TimeoutExpired:
        bad.append("%d: tidelock does not end" % n)
        continue
    if status not in want:
        bad.append("%d: status %d" % (n, status))
    if os.path.exists("/proc/%d" % command):
        bad.append("%d: the command is left" % n)
    if held(n):
        bad.append("%d: the lock is left" % n)
sys.exit("; ".join(bad) or 0)
PY
timeout $((400 * slow)) "$python" "$work/signals.py" "$tidelock" "$work" 2>"$err" || fail "signals: status $?"

# While it waits for the lock, those whose default action ends a process end the wait.
expect 0 "$tidelock" lock -t 10m k
read -r token _ <"$out"
for s in ALRM PROF ABRT SEGV; do
    "$tidelock" run k -- echo never 2>/dev/null &
    run=$!
    until_true 10 is_caught $run || fail "SIG$s: it doesn't start"
    kill -$s $run
    wait_for $run 10
    [[ $status == $((128 + $(kill -l $s))) ]] || fail "SIG$s to one that waits: status $status"
done
expect 0 "$tidelock" unlock k "$token"

# A service manager sends TERM to each process at once, so the command has it twice. It has its time all the same:
# once is for its own cleaning up, and nothing else is sent. It ends a second later, and not before it has been looked at.
cat >"$work/cleaner" <<'PY'
import os, signal, sys, time
begun = 0
def term(number, frame):
    global begun
    begun = begun or time.time()
signal.signal(signal.SIGTERM, term)
open(sys.argv[1], "w").write("%d" % os.getpid())
while not begun or time.time() < begun + 1 or not os.path.exists(sys.argv[2]):
    time.sleep(0.02)
sys.exit(9)
PY
rm -f "$work/pid"
"$tidelock" run -t 1m k -- "$python" "$work/cleaner" "$work/pid" "$work/seen" &
run=$!
wait_file "$work/pid"
for _ in 1 2; do kill -TERM $run "$(cat "$work/pid")" $(pgrep -P $run); done
assert_held k
: >"$work/seen"
wait_for $run 20
[[ $status == 9 ]] || fail "TERM to all of it, twice: status $status"
assert_free k

# ---- process 1 ------------------------------------------------------------------------------------
if unshare --pid --fork --mount-proc true 2>/dev/null; then
    # Orphans of the command, and of a stranger that enters the container, are collected; while it waits, too.
    expect 0 unshare --pid --fork --mount-proc --kill-child "$tidelock" run k -- sh -c '
        for i in 1 2 3; do sh -c "(sleep 0.05; echo >>\"\$1\") & exit 0" sh "$1"; done
        until [ "$(wc -l <"$1")" = 3 ]; do sleep 0.02; done
        sleep 0.1
        for i in $(seq 500); do grep -qs "^State:.Z" /proc/[0-9]*/status || exit 0; sleep 0.05; done
        exit 1' sh "$work/orphans"
    # TERM ends it, though by default no signal ends process 1.
    unshare --pid --fork --mount-proc --kill-child "$tidelock" run k -- sh -c 'echo >"$1"; exec sleep 600' sh "$work/one" &
    run=$!
    wait_file "$work/one"
    one=$(pgrep -P $run)
    # Who enters from outside leaves an orphan: it is collected.
    nsenter -t "$one" -p -m -r sh -c 'sh -c "(sleep 0.05; echo >\"\$1\") & exit" sh "$1"' sh "$work/orphan"
    wait_file "$work/orphan"
    has_zombie() { grep -qs "^State:.Z" $(sed 's/.*/\/proc\/&\/status/' <(pgrep -P "$one")); }
    no_zombie() { ! has_zombie; }
    nap 0.1
    until_true 30 no_zombie || fail "process 1 leaves zombies"
    kill -TERM "$one"
    wait_for $run 10
    assert_free k
else
    part_skipped "process 1 of a container" "no right to make a PID namespace"
fi

# ---- what keeps a message from being written keeps nothing else -----------------------------------
# A limit of file sizes is reached by what tidelock writes.
head -c 2048 /dev/zero >"$work/log"
(ulimit -f 0; exec "$tidelock" run --metrics "$work/m.prom" k -- sh -c 'exit 7') 2>"$err"
[[ $? == 7 ]] || fail "--metrics beyond the limit of file sizes: not the command's status"
(ulimit -f 2; exec "$tidelock" run -v k -- sh -c ':>"$1"' sh "$work/ran") 2>>"$work/log"
[[ $? == 0 && -e $work/ran ]] || fail "-v beyond the limit of file sizes"
assert_free k
# Nobody reads stderr, which is full when the lock is acquired: -v waits for nobody, nor does the release.
mkfifo "$work/full"
exec 8<>"$work/full"
timeout 1 yes >&8
"$tidelock" run -vv k -- sh -c ': >"$1"' sh "$work/unread" 2>&8 &
run=$!
wait_file_made() { [[ -e $work/unread ]]; }
until_true 10 wait_file_made || fail "nobody reads stderr, and the command isn't started"
until_true 10 is_free k || fail "the lock is held for nobody while stderr is full"
cat <&8 >/dev/null &
reader=$!
wait_for $run 20
[[ $status == 0 ]] || fail "stderr that is full: status $status"
kill $reader
exec 8>&-
