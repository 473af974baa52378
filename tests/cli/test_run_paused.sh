#!/bin/bash
# timeout: 120
# run on a virtual machine that was paused, moved or restored, as its VMClock shows: the command is stopped while the
# lock is in doubt. It goes on once a renewal has succeeded, and is killed if the lock is lost.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
# A sanitizer wants to be first in a process.
if [[ -n ${SAN:-} ]]; then echo "a preloaded file and sanitizers don't go together" && exit 77; fi
start_server
"${CC:-cc}" -D_GNU_SOURCE -O1 -fPIC -shared "$here/tests/cli/vmclock_file.c" -o "$work/vmclock.so" || fail "it isn't built"
page() { # marker, generation
    "$python" -c 'import os, struct, sys
fd = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY, 0o600)
page = struct.pack("<IIHBBIQQ", 0x4b4c4356, 4096, 1, 0, 0, 0, int(sys.argv[2]), 1 << 8)
os.pwrite(fd, page.ljust(104, b"\0") + struct.pack("<Q", int(sys.argv[3])), 0)
os.ftruncate(fd, 4096)' "$work/page" "$1" "$2"
}
# The command and what it starts, in a process group of its own, write a line each 10 ms until the file `enough` is there.
cat >"$work/worker" <<'PY'
import os, sys, time
work = sys.argv[1]
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
with open(work + ("/child" if child == 0 else "/parent"), "w", buffering=1) as log:
    log.write("%d\n" % os.getpid())
    while not os.path.exists(work + "/enough"):
        log.write("at work\n")
        time.sleep(0.01)
if child:
    os.waitpid(child, 0)
PY
lines() { wc -l <"$work/$1"; }
works() { [[ $(lines parent) -gt $1 && $(lines child) -gt $2 ]]; }
goes_on() { until_true 20 works "$(lines parent)" "$(lines child)" || depth=1 fail "the command does not go on: $(cat "$err")"; }
is_halted() {
    local name
    for name in parent child; do grep -q '^State:.T' "/proc/$(head -n 1 "$work/$name")/status" || return 1; done
}
begin() { # options of run
    page 1 1
    rm -f "$work/enough"
    : >"$work/parent" && : >"$work/child"
    { LD_PRELOAD="$work/vmclock.so" VMCLOCK_FILE="$work/page" "$tidelock" run -v -t 60s "$@" k -- "$python" "$work/worker" "$work" & } >"$out" 2>"$err"
    run=$!
    goes_on
}
ends_with() { # status
    local got
    wait "$run"
    got=$?
    [[ $got == "$1" ]] || depth=1 fail "status $got instead of $1: $(cat "$err")"
}
# A renewal sets the key's end again, which the test has moved before. Reports of a short doubt may be left out.
disrupt() { redis PEXPIRE k 40000 >/dev/null && page "$1" 1; } # marker
is_renewed() { [[ $(redis PTTL k) -gt 50000 ]]; }

# ---- the lock is still ours: the command goes on, however soon its CONT follows its STOP -----------------
begin
for marker in {2..9}; do
    disrupt "$marker"
    until_true 20 is_renewed || fail "it is not renewed: $(cat "$err")"
    goes_on
done

# ---- the server answers only after a while: meanwhile the command is stopped -------------------------
redis PEXPIRE k 40000 >/dev/null
kill -STOP "$server_pid"
page 10 1
until_true 20 is_halted || fail "the command is not stopped: $(cat "$err")"
kill -CONT "$server_pid"
until_true 60 is_renewed || fail "it is not renewed: $(cat "$err")"
goes_on
grep -q 'k: at risk, 0 ms left: this machine was paused, moved or restored' "$err" || fail "the risk: $(cat "$err")"
: >"$work/enough"
ends_with 0
grep -q 'k: the command is stopped until the lock is renewed' "$err" || fail "nothing of the stop: $(cat "$err")"
grep -q 'k: the command is continued' "$err" || fail "nothing of the end of the stop: $(cat "$err")"
assert_free k

# ---- another client has the lock: the command does not go on ------------------------------------------
begin
redis SET k thief >/dev/null
page 2 1
ends_with 74
grep -q 'k: KILL sent to the command' "$err" || fail "it is not killed: $(cat "$err")"
[[ $(redis GET k) == thief ]] || fail "the thief's key is gone"
redis DEL k >/dev/null

# ---- this machine may be a copy: the lock is lost, and not released ------------------------------------
begin
token=$(redis GET k)
page 2 2
ends_with 74
[[ $token && $(redis GET k) == "$token" ]] || fail "the lock of the image is not held any more"
redis DEL k >/dev/null

# ---- who lets its command go on after a loss lets it go on in doubt -------------------------------------
begin --on-lost continue
kill -STOP "$server_pid"
page 2 1
until_true 20 grep -q 'at risk' "$err" || fail "the risk: $(cat "$err")"
goes_on
kill -CONT "$server_pid"
goes_on
: >"$work/enough"
ends_with 0
