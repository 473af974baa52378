#!/bin/bash
# skew on a terminal: whatever the fleet, the verdict stays on the screen. Into a pipe nothing is left out.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server
run_id=$(redis INFO server | sed -n 's/^run_id:\([0-9a-z]*\).*/\1/p')
for i in {01..24}; do # by a lease of half an hour: they stay there however slow the machine
    now=$(redis EVAL "local t = redis.call('TIME') return t[1] .. string.sub(1000000 + t[2], 2)" 0)
    us=$((10#$i * 7 % 50 * 1000 + (10#$i == 9) * 60000000))
    redis SET "{tidelock:agents}:payments-worker-$i.prod.example.com" \
        "2 beef-12 $now $((us - 20)) $((us + 20)) 0 0 0 0 8 0 0 0 600000 0 $run_id" EX 86400 >/dev/null
    redis ZADD '{tidelock:agents}' $((now + 1800000000)) "payments-worker-$i.prod.example.com" >/dev/null
done
cat >"$work/screen.py" <<'PY'
"""Runs a command on a terminal of COLUMNS by ROWS and prints what it wrote there."""
import fcntl, os, pty, struct, sys, termios
columns, rows = map(int, sys.argv[1:3])
pid, tty = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])
wrote = b""
while True:
    try:
        more = os.read(tty, 65536)
    except OSError:
        break
    if not more:
        break
    wrote += more
sys.stdout.write(wrote.decode().replace("\r\n", "\n").split("\033[H\033[2J")[-1])
_, status = os.waitpid(pid, 0)
sys.exit(os.waitstatus_to_exitcode(status))
PY
on_screen() { # status columns rows command...
    local columns=$2 rows=$3
    expect "$1" "$python" "$work/screen.py" "$columns" "$rows" "${@:4}"
    (($(wc -l <"$out") < rows)) || depth=1 fail "$(wc -l <"$out") lines on $rows: $(cat "$out")"
    ! grep -qE "^.{$((columns + 1))}" "$out" || depth=1 fail "wider than $columns: $(cat "$out")"
    grep -q '^UNSAFE: a lock can be stolen' "$out" || depth=1 fail "no verdict: $(cat "$out")"
    [[ $(tail -n 1 "$out") =~ ^(-| ) ]] || depth=1 fail "something comes after it: $(cat "$out")"
}
on_screen 2 80 24 "$tidelock" skew
grep -qE '^\.\.\. and [0-9]+ hosts more' "$out" && grep -qE '^\.\.\. and [0-9]+ pairs more' "$out" ||
    fail "it does not say what was left out: $(cat "$out")"
grep -q '! theft is possible' "$out" || fail "no legend: $(cat "$out")"
on_screen 2 80 12 "$tidelock" skew
on_screen 2 100 40 "$tidelock" skew

expect 2 "$tidelock" skew
(($(grep -c '^payments-worker-.. *[+-]\|^payments-worker-..\.prod\.example\.com *[+]' "$out") == 24)) ||
    fail "hosts are left out of a pipe: $(cat "$out")"
[[ $(grep -n '^UNSAFE: ' "$out" | cut -d: -f1) == $(($(wc -l <"$out") - 3)) ]] || fail "the verdict is not last: $(cat "$out")"
grep -q '^- payments-worker-09.prod.example.com is the cause; without it SAFE, worst pair [0-9]* ms$' "$out" ||
    fail "the cause is not named: $(cat "$out")"

# Without the cause it is what the cause's line says.
expect 2 "$tidelock" skew --json
"$python" -c 'import json, sys
d = json.load(open(sys.argv[1]))
(cause,) = d["causes"]
assert (cause["hosts"], cause["verdict"]) == (["payments-worker-09.prod.example.com"], "SAFE") and d["cause"].startswith(cause["hosts"][0] + " is"), d
assert cause["worst_gap_ms"]["lo"] <= cause["worst_gap_ms"]["hi"] < 500, cause' "$out" 2>"$err" || fail "$(head -c 1500 "$out")"
expect 0 "$tidelock" agent --forget payments-worker-09.prod.example.com
expect 0 "$tidelock" skew
! grep -q ' the cause' "$out" || fail "a cause of SAFE: $(cat "$out")"
exit 0
