#!/bin/bash
# timeout: 900
# agent and skew: a clock that begins to be slewed, while a look follows the other. No verdict is SAFE while that clock is
# further ahead than the slack, as of a moment before the look. With ALL=1 all ways to slew, and a table: when the verdict
# was WARN and UNSAFE, beside the bounds of tidelock-skew(1). Nothing is asserted about times.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
if [[ -n ${SAN:-} ]]; then echo "a preloaded clock and sanitizers don't go together" && exit 77; fi
start_server
"${CC:-cc}" -D_GNU_SOURCE -O1 -fPIC -shared "$here/tests/cli/odd_clock.c" -o "$work/odd_clock.so" || fail "it isn't built"

cat >"$work/slew.py" <<'PY'
"""Begins a slew of the clocks of tests/cli/odd_clock.c: no reader sees a moment between its beginning and the file."""
import mmap, os, struct, sys, time

raw = lambda: time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)


def begin(path, ppm, way, lasts_ns=0):
    """Returns the moment; lasts_ns 0: it goes on."""
    slew = mmap.mmap(os.open(path, os.O_RDWR), 48)
    struct.pack_into("<q", slew, 0, 1)
    since = raw()
    struct.pack_into("<qqqq", slew, 8, since, ppm, way, since + lasts_ns if lasts_ns else 0)
    struct.pack_into("<q", slew, 0, 2)
    return since


if __name__ == "__main__":
    begin(sys.argv[1], *map(int, sys.argv[2:]))
PY
cat >"$work/follow.py" <<'PY'
"""Begins to slew, looks until the verdict is UNSAFE, and compares each look with the truth at a moment before it."""
import json, subprocess, sys, time
from slew import begin, raw

tidelock, path, name, ppm, way, every, limit = sys.argv[1:4] + [int(a) for a in sys.argv[4:]]
# The clock is ahead by the slack after 6 s and more, so that a busy machine does not make a late look a wrong one.
SLACK_MS, LIFETIME_S = max(20, ppm * 6 // 1000), 2
said = {}  # when each verdict was first seen, in s, and how far the clock was then, in ms


def truth_ms(since):
    return (raw() - since) / 1e12 * ppm


def look():
    done = subprocess.run([tidelock, "skew", "--slack", "%dms" % SLACK_MS, "--lock-timeout", "%ds" % LIFETIME_S,
                           "--warn", "100%", "--json"], capture_output=True)
    answer = json.loads(done.stdout)
    host, = [h for h in answer["hosts"] if h["name"] == name]
    return answer["verdict"], host["offset_ms"]


deadline = time.time() + 60
while look()[0] != "SAFE":
    assert time.time() < deadline, "never SAFE before it is slewed"
since = begin(path, ppm, way)
while "UNSAFE" not in said:
    before = truth_ms(since)
    verdict, offset = look()
    at = (raw() - since) / 1e9
    said.setdefault(verdict, (at, before))
    if verdict == "SAFE" and before > SLACK_MS:
        sys.exit("SAFE at %.3f s with a clock that was %.3f ms ahead: %s" % (at, before, offset))
    assert at < limit, "no UNSAFE in %d s: %s, %.3f ms, %s" % (limit, said, before, offset)
# The bounds of the manual. The rate that the kernel's word allows; the longest that a round of measuring takes is 1 s.
rate = 83333 if way == 0 and ppm > 500 else ppm if way != 3 else 2 * ppm
pad_ms = LIFETIME_S * (rate + 200) / 1e3 + 1
round_s = min(every / 1e3, 1) if rate > 500 else every / 1e3
warn_s = max(0, (SLACK_MS - pad_ms) / ppm * 1e3) + 1.2
unsafe_s = (SLACK_MS + pad_ms) / ppm * 1e3 + 2 * (round_s + 1)
if way == 3:
    warn_s, unsafe_s = max(warn_s, 2 * round_s + 1.2), unsafe_s + 2 * round_s
print("%6d ppm %-9s every %5d ms  WARN after %6.2f s (bound %6.2f s)  UNSAFE after %6.2f s (bound %6.2f s)" % (
    ppm, ("ticks", "adjtime", "loop", "unsaid")[way], every, said.get("WARN", said["UNSAFE"])[0], warn_s, said["UNSAFE"][0], unsafe_s))
PY

follow() { # ppm, way, --every in ms, limit in s
    local name=slewed-$1-$2-$3 pid
    "$python" -c 'import sys; open(sys.argv[1], "wb").write(bytes(48))' "$work/slew"
    { LD_PRELOAD="$work/odd_clock.so" ODD_CLOCK_SLEW="$work/slew" "$tidelock" agent --name "$name" --every "$3ms" & } 2>"$work/$name.err"
    pid=$!
    until_true 20 published "$name" || fail "no record of $name: $(cat "$work/$name.err")"
    "$python" "$work/follow.py" "$tidelock" "$work/slew" "$name" "$@" >"$work/line" 2>"$err" || fail "$*: $(tail -n 3 "$err")"
    if [[ -n ${ALL:-}${SLEWS:-} ]]; then cat "$work/line"; fi
    kill "$pid"
    wait "$pid" 2>/dev/null
    expect 0 "$tidelock" agent --forget "$name"
}
# A correction that begins and ends between two looks: 150 ms at 83,333 ppm, of which the kernel reports nothing.
"$python" -c 'import sys; open(sys.argv[1], "wb").write(bytes(48))' "$work/slew"
: >"$work/short.err"
LD_PRELOAD="$work/odd_clock.so" ODD_CLOCK_SLEW="$work/slew" "$tidelock" agent -v --name short --every 10m 2>>"$work/short.err" &
pid=$!
rounds() { (($(grep -c ' us from the server' "$work/short.err") >= $1)); }
until_true 30 rounds 3 || fail "no rounds: $(cat "$work/short.err")"
before=$(grep -c ' us from the server' "$work/short.err")
"$python" "$work/slew.py" "$work/slew" 83333 3 150000000
until_true 30 rounds $((before + 1)) || fail "a short correction is not seen: $(cat "$work/short.err")"
# Its record has the truth, 12.5 ms, and no step of the server's clock. The first new one may be from before its end.
record() { read -r _ _ _ lo hi _ _ _ _ _ _ _ stepped _ <<<"$(redis GET '{tidelock:agents}:short')"; }
has_truth() { record && ((lo <= 12500 && hi >= 12490)); }
until_true 10 has_truth || fail "after a short correction: $lo to $hi us: $(cat "$work/short.err")"
((stepped == 0)) || fail "a short correction is a step of the server's clock: $(redis GET '{tidelock:agents}:short')"
kill "$pid"
wait "$pid" 2>/dev/null
expect 0 "$tidelock" agent --forget short

# A correction of a second during a measurement of three: it is no step of the server's clock.
"$python" -c 'import sys; open(sys.argv[1], "wb").write(bytes(48))' "$work/slew"
{ LD_PRELOAD="$work/odd_clock.so" ODD_CLOCK_SLEW="$work/slew" "$tidelock" skew --no-agents --for 3s --json & } >"$out" 2>"$err"
pid=$!
until_true 20 grep -q "$work/slew" "/proc/$pid/maps" || fail "it reads no clock"
"$python" "$work/slew.py" "$work/slew" 83333 0 1000000000
wait "$pid"
"$python" - "$out" <<'PY' || fail "a correction during the measurement: $(head -c 700 "$out")"
import json, sys
host, = json.load(open(sys.argv[1]))["hosts"]
assert "was set" not in host["detail"] and host["offset_ms"]["lo"] <= 83.4, host
PY

published() { [[ -n $(redis GET "{tidelock:agents}:$1") ]]; }

# SLEWS="ppm:way:every ..." takes others; the limit is longer than any bound of these.
slews=83333:0:10000
if [[ -n ${ALL:-} ]]; then slews="83333:0:10000 83333:0:1000 50000:2:10000 500:0:1000 500:1:1000 500:1:10000 500:3:1000"; fi
for slew in ${SLEWS:-$slews}; do
    IFS=: read -r ppm way every <<<"$slew"
    follow "$ppm" "$way" "$every" 240
done
exit 0
