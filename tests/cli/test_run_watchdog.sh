#!/bin/bash
# timeout: 240
# run --watchdog: a command that gives no sign of life loses the lock, by the rules of any loss; one that gives signs keeps it.
# Signs come from libsystemd's sd_notify(3), systemd-notify(1) and tidelock alive; all else goes on to the socket around the run.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
unset NOTIFY_SOCKET WATCHDOG_USEC WATCHDOG_PID
export tidelock work

# A lifetime of which a busy machine takes no more than a part; it is waited out.
ttl=4s
says() { grep -qE -- "$1" "$err"; }
await() { until_true 30 says "$1" || depth=1 fail "stderr lacks '$1'"; }
# The command's part is a shell's; its files are in $work.
begin() { # options of run... -- text of a shell
    local options=()
    while [[ $1 != -- ]]; do options+=("$1") && shift; done
    rm -f "$work"/{risk,done,env,json}
    : >"$err" # at once: what the last run has said is not taken for this one's
    { "$tidelock" run -v --json-fd 3 "${options[@]}" k -- sh -c "$2" & } 3>"$work/json" 2>"$err"
    run=$!
}
ends() { # status
    wait_for "$run" 60
    [[ $status == "$1" ]] || depth=1 fail "status $status instead of $1"
}

# One datagram, or several, to a socket, as sd_notify(3) of any language sends them.
cat >"$work/send" <<'PY'
import os, socket, sys
name = os.environ["NOTIFY_SOCKET"]
to = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
to.connect("\0" + name[1:] if name[0] == "@" else name)
for text in sys.argv[1:]:
    to.send(text.encode())
PY
export python

# ---- usage ---------------------------------------------------------------------------------------
expect_line 64 'watchdog: 10ms to 1d' "$tidelock" run --watchdog 9ms k -- true
expect_line 64 'watchdog: 10ms to 1d' "$tidelock" run --watchdog 2d k -- true
expect_line 78 'NOTIFY_SOCKET is not set' "$tidelock" alive
expect_line 78 'neither a path nor' env NOTIFY_SOCKET=vsock:2:1 "$tidelock" alive
expect_line 69 'has its reader ended' env NOTIFY_SOCKET=@tidelock-nobody-is-here "$tidelock" alive
expect_line 69 'has its reader ended' env NOTIFY_SOCKET="$work/nothing" "$tidelock" alive
expect_line 64 . "$tidelock" alive now
expect 0 "$tidelock" run --watchdog 1d k -- true
expect 3 "$tidelock" run --watchdog 1m k -- sh -c 'exit 3'

# ---- the environment -----------------------------------------------------------------------------
expect 0 "$tidelock" run --watchdog 90s k -- sh -c 'echo "$NOTIFY_SOCKET $WATCHDOG_USEC $WATCHDOG_PID $$"'
read -r name usec pid own <"$out"
[[ $name == @* && $usec == 90000000 && $pid == "$own" ]] || fail "the environment: $(cat "$out")"
# Without a watchdog it is the caller's.
expect 0 env NOTIFY_SOCKET=/outer WATCHDOG_USEC=5 WATCHDOG_PID=7 "$tidelock" run k -- sh -c 'echo "$NOTIFY_SOCKET $WATCHDOG_USEC $WATCHDOG_PID"'
[[ $(cat "$out") == '/outer 5 7' ]] || fail "without a watchdog: $(cat "$out")"

# ---- a shell loop --------------------------------------------------------------------------------
# It hangs until it is at risk, and then feeds until it is held again: whatever the machine does meanwhile.
revives() { # what feeds, or a failure
    begin -t 60s --watchdog 300ms -- "until [ -e $work/risk ]; do sleep 0.05; done
        until [ -e $work/done ]; do $1 || exit 9; sleep 0.02; done"
    await 'k: at risk, .* left: stalled: no sign of life for 300 ms$'
    : >"$work/risk"
    await 'k: renewed again'
    : >"$work/done"
    ends 0
    json_has "$work/json" state free
}
revives "\"$tidelock\" alive"
if command -v systemd-notify >/dev/null; then
    revives 'systemd-notify WATCHDOG=1'
else
    part_skipped systemd-notify 'no systemd-notify: package systemd'
fi

# ---- libsystemd's own client ---------------------------------------------------------------------
# What is around the run: each message that comes, and from whom.
cat >"$work/outer" <<'PY'
import array, os, socket, struct, sys
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
s.bind(sys.argv[1])
while True:
    text, control, _, _ = s.recvmsg(4096, 4096)
    pid, fds = 0, array.array("i")
    for _, kind, data in control:
        if kind == socket.SCM_CREDENTIALS:
            pid = struct.unpack("3i", data)[0]
        elif kind == socket.SCM_RIGHTS:
            fds.frombytes(data)
    print(pid, len(fds), text.decode().replace("\n", "|"), flush=True)
    for fd in fds:
        os.close(fd)
PY
{ "$python" "$work/outer" "$work/outer.sock" & } >"$work/outer.log"
until_true 30 test -S "$work/outer.sock" || fail "no socket around"
cat >"$work/service" <<'PY'
import ctypes, os, sys
lib = ctypes.CDLL("libsystemd.so.0")
notify = lambda text: lib.sd_notify(0, text)
usec = ctypes.c_uint64()
ok = lib.sd_watchdog_enabled(0, ctypes.byref(usec)) > 0 and usec.value == int(sys.argv[1])
ok = ok and notify(b"READY=1\nSTATUS=at work") > 0 and notify(b"MAINPID=%d" % os.getpid()) > 0
ok = ok and notify(b"WATCHDOG=1") > 0 and notify(b"STATUS=fed\nWATCHDOG=1") > 0
ok = ok and notify(b"WATCHDOG_USEC=1000") > 0 and notify(b"EXTEND_TIMEOUT_USEC=77") > 0
ok = ok and lib.sd_notify_barrier(0, ctypes.c_uint64(60000000)) >= 0
ok = ok and notify(b"STOPPING=1") > 0
sys.exit(0 if ok else 5)
PY
# What is around may hang: a sign of life waits for the run alone.
cat >"$work/deaf" <<'PY'
import socket, sys, time
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
time.sleep(3600)
PY
"$python" "$work/deaf" "$work/deaf.sock" &
until_true 30 test -S "$work/deaf.sock" || fail "no socket around that hangs"
expect 0 env NOTIFY_SOCKET="$work/deaf.sock" WATCHDOG_USEC=5000000 "$tidelock" run --watchdog 1h k -- "$tidelock" alive
passed() { cut -d' ' -f"${1:-3-}" "$work/outer.log"; }
if "$python" -c 'import ctypes; ctypes.CDLL("libsystemd.so.0")' 2>/dev/null; then
    { env NOTIFY_SOCKET="$work/outer.sock" "$tidelock" run -v --watchdog 1h k -- "$python" "$work/service" 3600000000 & } 2>"$err"
    run=$!
    ends 0
    until_true 30 grep -q STOPPING=1 "$work/outer.log" || fail "the last message does not come"
    [[ $(passed | sed 's/MAINPID=[0-9]*/MAINPID=N/' | tr '\n' ' ') == 'READY=1|STATUS=at work MAINPID=N STATUS=fed| EXTEND_TIMEOUT_USEC=77 BARRIER=1 STOPPING=1 ' ]] ||
        fail "passed on: $(passed)"
    [[ $(passed 1 | sort -u) == "$run" ]] || fail "a unit's main process is $run, and the messages come from $(passed 1 | sort -u)"
    [[ $(passed 2- | grep -c '^1 BARRIER=1$') == 1 ]] || fail "the barrier has lost its descriptor"
    says 'WATCHDOG_USEC of the command is ignored' || fail "nothing is said of WATCHDOG_USEC"
    # A barrier ends although nothing is around.
    expect 0 "$tidelock" run --watchdog 1h k -- "$python" "$work/service" 3600000000
    # A watchdog around is fed through; the shorter time counts.
    : >"$work/outer.log"
    expect 0 env NOTIFY_SOCKET="$work/outer.sock" WATCHDOG_USEC=5000000 "$tidelock" run --watchdog 1h k -- "$python" "$work/service" 5000000
    until_true 30 grep -q STOPPING=1 "$work/outer.log" || fail "the last message does not come"
    [[ $(passed | grep -c WATCHDOG=1) == 2 && $(passed) != *WATCHDOG_USEC* ]] || fail "a watchdog around receives: $(passed)"
    # Nested: the command sees the nearest socket, and all goes through both.
    : >"$work/outer.log"
    expect 0 env NOTIFY_SOCKET="$work/outer.sock" "$tidelock" run --watchdog 7s a -- \
        "$tidelock" run --watchdog 1h k -- "$python" "$work/service" 7000000
    until_true 30 grep -q STOPPING=1 "$work/outer.log" || fail "the last message does not come through both"
    [[ $(passed) == *'READY=1|STATUS=at work'* && $(passed) != *WATCHDOG* ]] || fail "through both come: $(passed)"
else
    part_skipped libsystemd 'no libsystemd.so.0: package libsystemd0'
fi
expect 0 "$tidelock" run --watchdog 1h a -- sh -c 'echo "$NOTIFY_SOCKET"; "$tidelock" run --watchdog 1h k -- printenv NOTIFY_SOCKET; "$tidelock" run b -- printenv NOTIFY_SOCKET'
mapfile -t names <"$out"
[[ ${names[0]} != "${names[1]}" && ${names[0]} == "${names[2]}" ]] || fail "nested runs see: ${names[*]}"

# ---- a command that hangs --------------------------------------------------------------------------
# The message is another one if the machine has stopped tidelock for nearly a lifetime: then it is tried again.
hangs() { # pattern, options... -- text
    local pattern=$1 _
    shift
    for _ in 1 2 3 4 5; do
        begin "$@"
        ends 74
        json_has "$work/json" state lost
        until_true 30 is_free k || depth=1 fail "the lock outlives the command"
        if says "$pattern"; then return; fi
    done
    depth=1 fail "stderr lacks '$pattern'"
}
hangs 'k: stalled: no sign of life for 100 ms; the command was ended$' -t $ttl --watchdog 100ms -- "exec sleep 1000"
json_has "$work/json" error 'stalled: no sign of life for 100 ms'
hangs 'k: stalled: ' -t $ttl --watchdog 100ms --on-lost kill -- "exec sleep 1000"
# It may clean up, and is fed in vain: TERM has been sent.
hangs 'k: stalled: ' -t $ttl --watchdog 100ms -- "trap '\"$tidelock\" alive; : >$work/done; exit 0' TERM; sleep 1000 & wait"
[[ -e $work/done ]] || fail "a command that hangs gets no TERM"
hangs 'k: stalled: the command says so itself; the command was ended$' -t $ttl --watchdog 1h -- \
    "\"$python\" $work/send WATCHDOG=trigger; while :; do \"$tidelock\" alive; sleep 0.05; done"

# Another host has the lock while the command goes on, if it wants to.
begin -t $ttl --watchdog 100ms --on-lost continue -- "echo >$work/env; until [ -e $work/done ]; do sleep 0.05; done"
until_true 30 has_file "$work/env" || fail "the command does not begin"
expect 0 "$tidelock" lock -w 60s k
read -r token _ <"$out"
gone "$run" && fail "the command was ended"
: >"$work/done"
ends 74
expect 0 "$tidelock" unlock k "$token"

# It was fed again, but now the server is down: the message says that.
for _ in 1 2 3 4 5; do
    begin -t 8s --watchdog 300ms -- "until [ -e $work/risk ]; do sleep 0.05; done
        while :; do \"$tidelock\" alive; sleep 0.02; done"
    await 'k: at risk, .* left: stalled: '
    stop_server STOP
    : >"$work/risk"
    ends 74
    stop_server CONT
    until_true 30 is_free k || fail "the lock outlives the command"
    if says 'k: the lock could not be renewed, so the command was ended'; then break; fi
done
says 'k: the lock could not be renewed, so the command was ended' || fail "a command that was fed again is called stalled"

# The lock was at risk before the command stalled: the message says both.
for _ in 1 2 3 4 5; do
    begin -t 8s --watchdog 2s -- "echo >$work/env; exec sleep 1000"
    until_true 30 has_file "$work/env" || fail "the command does not begin"
    stop_server
    ends 74
    start_server
    if says 'k: at risk, .*: a renewal has failed' && says 'k: stalled: no sign of life for 2.0 s \(a renewal has failed: .*\); the command was ended'; then break; fi
done
says 'k: stalled: no sign of life for 2.0 s \(a renewal' || fail "a command that stalls while the server is down is not called stalled"

# ---- what a command has sent last ----------------------------------------------------------------------
# While tidelock is stopped, and more than it reads in one go. The socket has as much room as where systemd is at work.
if unshare -n sh -c 'echo 512 >/proc/sys/net/unix/max_dgram_qlen' 2>/dev/null; then
    rm -f "$work"/{risk,done,env}
    # shellcheck disable=SC2016 # the inner shell's
    { unshare -n sh -c 'echo 512 >/proc/sys/net/unix/max_dgram_qlen; exec "$tidelock" run --watchdog 1h k -- sh -c "
        echo >$work/env; until [ -e $work/risk ]; do sleep 0.05; done
        \"$python\" $work/send $(seq -s " " -f STATUS=%g 200) WATCHDOG_USEC=7; : >$work/done"' & } 2>"$err"
    run=$!
    until_true 30 has_file "$work/env" || fail "the command does not begin"
    kill -STOP "$run"
    : >"$work/risk"
    until_true 30 test -e "$work/done" || fail "the messages don't fit"
    kill -CONT "$run"
    ends 0
    says 'WATCHDOG_USEC of the command is ignored' || fail "the last message of a command is not read"
else
    part_skipped max_dgram_qlen 'needs root: a network namespace'
fi

# ---- strangers -------------------------------------------------------------------------------------
# Who is not of the command feeds nothing, also with the same user.
begin -t $ttl --watchdog 200ms -- "echo \"\$NOTIFY_SOCKET\" >$work/env; exec sleep 1000"
until_true 30 has_file "$work/env" || fail "the command does not begin"
until gone "$run"; do
    NOTIFY_SOCKET=$(cat "$work/env") "$tidelock" alive 2>/dev/null
done
ends 74
says 'k: a notification of process [0-9]* is ignored: the command has not started it' || fail "nothing is said of a stranger"

# ---- tidelock itself is stopped -----------------------------------------------------------------------
# Beyond the deadline: the command is killed, and only then another has the lock.
begin -t $ttl --watchdog 1h -- "echo \$\$ >$work/env; while :; do sleep 0.05; done"
until_true 30 has_file "$work/env" || fail "the command does not begin"
kill -STOP "$run"
expect 0 "$tidelock" lock -w 60s k
gone "$(cat "$work/env")" || fail "two hold the lock"
read -r token _ <"$out"
kill -CONT "$run"
ends 74
expect 0 "$tidelock" unlock k "$token"
