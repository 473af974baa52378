#!/bin/bash
# skew --log, --watch and --output: whole lines from several writers, a watch that ends as it is told, and
# nothing half written wherever it goes.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
log=$work/skew.log

lines() { wc -l <"$log"; }
whole_lines() { # number: each an object with a time and hosts
    "$python" - "$log" "$1" <<'PY' || depth=1 fail "the log: $(head -c 600 "$log")"
import json, sys
lines = open(sys.argv[1]).read().splitlines()
assert len(lines) == int(sys.argv[2]), len(lines)
for line in lines:
    d = json.loads(line)
    assert list(d)[:2] == ["at_ms", "verdict"] and d["at_ms"] > 1600000000000, line[:200]
    assert all("slew_ppm" in h for h in d["hosts"]) and len(d["hosts"]) == 1, line[:200]
PY
}

# ---- log -----------------------------------------------------------------------------------------
expect 1 "$tidelock" skew --log "$log"
grep -q '^WARN: ' "$out" || fail "--log hides the verdict: $(cat "$out")"
expect 1 "$tidelock" skew --log "$log" --json
whole_lines 2
writers=()
for i in 1 2 3 4 5 6; do
    (for j in 1 2 3 4; do "$tidelock" skew --samples 2 --log "$log" >/dev/null 2>&1; (($? == 1)) || exit 9; done) &
    writers[i]=$!
done
for i in 1 2 3 4 5 6; do
    wait_for "${writers[i]}" 120
    [[ $status == 0 ]] || fail "a writer failed"
done
whole_lines 26

# Somebody was killed in the middle of a line: the next one is whole all the same.
printf '{"at_ms":17' >>"$log"
expect 1 "$tidelock" skew --log "$log"
[[ $(lines) == 28 ]] || fail "$(lines) lines"
tail -n 1 "$log" | "$python" -c 'import json, sys; json.loads(sys.stdin.read())' || fail "joined to a torn line"

# What can't be measured is logged too.
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" skew --log "$log"
tail -n 1 "$log" | grep -q '"verdict":"UNKNOWN",.*no such file' || fail "not logged: $(tail -n 1 "$log")"

# No room: it is told, the verdict is still said, and what there was stays as it was.
if [[ -w /dev/full ]]; then
    expect 78 "$tidelock" skew --log /dev/full
    grep -q -- '--log /dev/full: No space left' "$err" || fail "a full disk is not told"
    grep -q '^WARN: ' "$out" || fail "a full disk hides the verdict"
fi
head -c 900 "$log" | tr -d '\n' >"$work/small" && echo >>"$work/small"
cp "$work/small" "$work/before"
(
    trap '' XFSZ
    ulimit -f 1
    "$tidelock" skew --log "$work/small" >"$work/told" 2>"$err" # stdout has room for 1024 bytes, as the log
)
grep -q -- '--log .*: File too large' "$err" || fail "a file that is full is not told"
cmp -s "$work/small" "$work/before" || fail "half a line is left: $(tail -c 200 "$work/small")"
expect 78 "$tidelock" skew --log "$work/no-such-dir/x"
grep -q 'no-such-dir/x: No such file' "$err" || fail "a directory that is not there"

# Another that keeps the file locked is not waited for without an end.
exec 8>>"$log"
flock 8
expect 78 "$tidelock" skew --log "$log"
grep -q 'keeps it locked' "$err" || fail "a lock that is kept"
exec 8>&-

# ---- output --------------------------------------------------------------------------------------
echo old >"$work/real"
ln -s real "$work/link"
expect 1 "$tidelock" skew --output "$work/link"
[[ -L $work/link ]] || fail "--output replaces a link"
grep -q '^WARN' "$work/real" || fail "--output does not follow a link"
mkfifo "$work/pipe"
{ cat "$work/pipe" & } >"$work/piped"
reader=$!
expect 1 "$tidelock" skew --output "$work/pipe"
wait_for $reader 10
[[ -p $work/pipe ]] || fail "--output replaces a pipe"
grep -q '^WARN' "$work/piped" || fail "--output does not write to a pipe"
if [[ -w /dev/full ]]; then
    expect_line 78 'No space left' "$tidelock" skew --output /dev/full
    [[ -c /dev/full ]] || fail "--output replaces a device"
fi
# A monitor's file does not go on saying what was.
expect 1 "$tidelock" skew --format prometheus --output "$work/skew.prom"
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" skew --format prometheus --output "$work/skew.prom"
grep -qx 'tidelock_skew_verdict 3' "$work/skew.prom" || fail "an old verdict stays: $(cat "$work/skew.prom")"

# ---- watch ---------------------------------------------------------------------------------------
expect_line 64 'at least 1ms' "$tidelock" skew --watch=0s
heeding_int() { exec "$python" -c 'import os, signal, sys
signal.signal(signal.SIGINT, signal.SIG_DFL)
os.execv(sys.argv[1], sys.argv[1:])' "$@"; }
said() { (($(grep -c "$1" "$work/watch") >= $2)); }
rm -f "$log"
for sig in INT TERM; do
    : >"$work/watch" # or what the one before said is read
    { heeding_int "$tidelock" skew --watch=20ms --log "$log" & } >"$work/watch" 2>"$err"
    watch=$!
    until_true 10 said '^WARN: ' 3 || fail "no third round: $(cat "$work/watch")"
    grep -qE '^20[0-9-]+ [0-9:]+ UTC$' "$work/watch" || fail "no time: $(head -n 3 "$work/watch")"
    grep -q $'\e' "$work/watch" && fail "a pipe gets what is for terminals"
    kill -$sig $watch
    wait_for $watch 10
    want=1
    [[ $sig == INT ]] || want=143
    [[ $status == "$want" ]] || fail "$sig ends a watch with $status"
    [[ ! -s $err ]] || fail "a watch in a pipe shows progress"
done
(($(lines) >= 6)) || fail "a watch logs each round"
# One object a line; and a server that goes away is a round like others.
{ heeding_int "$tidelock" skew --watch=20ms --json & } >"$work/watch" 2>"$err"
watch=$!
until_true 10 said '"verdict":"WARN"' 2 || fail "no second round: $(cat "$work/watch")"
stop_server
until_true 20 said '"verdict":"UNKNOWN"' 1 || fail "the end of the server is not seen: $(tail -n 1 "$work/watch")"
kill -INT $watch
wait_for $watch 20
[[ $status == 3 ]] || fail "INT after UNKNOWN ends with $status"
"$python" -c 'import json, sys; [json.loads(l) for l in sys.stdin]' <"$work/watch" || fail "no JSON lines"
expect_line 69 'no such file|refused' "$tidelock" skew --watch=20ms # never reached: wrong from the start
start_server

# ---- on a terminal -------------------------------------------------------------------------------
cat >"$work/terminal.py" <<'PY'
"""A watch on a terminal: each round takes the place of the one before, q ends it, the terminal is as before."""
import os, pty, re, select, sys, termios, time
tidelock, slow, mode = sys.argv[1], int(sys.argv[2]), sys.argv[3]
ours, theirs = pty.openpty()
before = termios.tcgetattr(theirs)
pid = os.fork()
if pid == 0:
    os.setsid()
    import fcntl
    fcntl.ioctl(theirs, termios.TIOCSCTTY, 0)
    for fd in 0, 1, 2:
        os.dup2(theirs, fd)
    args = {"watch": ["skew", "--watch=50ms"], "for": ["skew", "--for", "2500ms"]}[mode]
    os.execv(tidelock, [tidelock] + args)
screen = ""
def see(pattern, seconds=60):
    global screen
    end = time.time() + seconds * slow
    while not re.search(pattern, screen, re.S):
        left = end - time.time()
        if left <= 0 or not select.select([ours], [], [], left)[0]:
            sys.exit("no %r on the screen: %r" % (pattern, screen[-500:]))
        screen += os.read(ours, 4096).decode(errors="replace")
if mode == "watch":
    see(r"q or Ctrl-C ends.*\x1b\[2J.*\x1b\[2J.*WARN: ")
    os.write(ours, b"xq")
else:
    see(r"measuring: [0-9] of 2 s.*\x1b\[K.*WARN: ")
end = time.time() + 60 * slow
while True:  # what it still says is read, or it could not end
    if select.select([ours], [], [], 0.05)[0]:
        os.read(ours, 4096)
    done, status = os.waitpid(pid, os.WNOHANG)
    if done:
        break
    if time.time() > end:
        sys.exit("q does not end it")
if os.WEXITSTATUS(status) != 1 or not os.WIFEXITED(status):
    sys.exit("status %r" % status)
if termios.tcgetattr(theirs)[3] != before[3]:
    sys.exit("the terminal is left as it was not")
PY
for mode in watch for; do
    timeout $((200 * slow)) "$python" "$work/terminal.py" "$tidelock" "$slow" $mode >"$err" 2>&1 </dev/null || fail "on a terminal ($mode)"
done
exit 0
