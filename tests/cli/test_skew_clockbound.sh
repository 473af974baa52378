#!/bin/bash
# skew beside ClockBound: a file as its daemon writes it, in both versions, of each status, and each way in which it is no
# evidence. It never makes a verdict better.
# shellcheck source-path=SCRIPTDIR
# On a machine that has just started, no file is 1001 s old: then the test runs where the time since the start is another.
read -r up _ </proc/uptime
older=(unshare --map-root-user --time --monotonic 2000 --boottime 2000)
if ((${up%.*} < 1100)) && "${older[@]}" true 2>/dev/null; then exec "${older[@]}" "$0" "$@"; fi
source "$(dirname "$0")/lib.sh"
machine=$("${CC:-cc}" -dumpmachine)
[[ $machine == x86_64-* || $machine == aarch64-* ]] || { echo "ClockBound runs on no $machine" && exit 77; }
start_server
"${CC:-cc}" -D_GNU_SOURCE -O1 "$here/tests/cli/clockbound_writer.c" -o "$work/writer" || fail "it isn't built"
umask 022
shm=$work/shm
write() { # as clockbound_writer.c, without the file
    rm -f "$shm"
    "$work/writer" "$shm" "$@" || depth=1 fail "not written: $*"
}
expect 0 "$tidelock" agent --once --every 10m --name elsewhere

row() { # status lo hi words: the bounds of the row contain lo and hi, in ms, and not 50 ms more; null: there are none
    "$python" - "$out" "$@" <<'PY' || depth=1 fail "the row: $(head -c 1500 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
_, status, lo, hi, words = sys.argv[1:]
h, = [h for h in d["hosts"] if h["instrument"] == "clockbound"]
own, = [h for h in d["hosts"] if h["instrument"] == "server"]
assert h["name"] == own["name"] and h["status"] == status and words in h["detail"], h
o = h["offset_ms"]
assert (o is None) == (lo == "null"), h
assert o is None or (float(lo) - 50 <= o["lo"] <= float(lo) and float(hi) <= o["hi"] <= float(hi) + 50), h
assert len(d["pairs"]) == 2, d["pairs"]
PY
}
believed() { # lo hi words -- what is written
    local lo=$1 hi=$2 words=$3
    shift 4
    write "$@"
    expect 0 "$tidelock" skew --slack 20s --json --clockbound="$shm"
    row ok "$lo" "$hi" "$words"
}
refused() { # status words -- what is written
    local status=$1 words=$2
    shift 3
    write "$@"
    expect 1 "$tidelock" skew --slack 20s --json --clockbound="$shm"
    row "$status" null null "$words"
}

# ---- both versions, all statuses -----------------------------------------------------------------------
old=1 counted=1
((${up%.*} > 1001)) || old=
[[ -n $old ]] || part_skipped stale "this machine runs for less than the 1001 s after which a file is stale"
case $(uname -m) in x86_64 | aarch64) ;; *) counted= ;; esac
believed -40 40 "as ClockBound believes:" -- 2 1 40000
believed -40 40 "(free-running)" -- 2 2 40000
believed -40.4 40.4 "" -- 2 1 40000 2000 # two seconds old, in which the clock may have moved by 200 ppm
versions=2
if [[ -n $counted ]]; then
    versions="2 3"
    believed -40 40 "as ClockBound believes:" -- 3 1 40000
    believed -40 40 "(free-running)" -- 3 2 40000
    believed 260 340 "" -- 3 1 40000 0 300000
    believed -340 -260 "; the server then" -- 3 1 40000 0 -300000
    if [[ -n $old ]]; then refused stale "written nothing for 1001 s" -- 3 1 40000 1001000; fi
else
    part_skipped version_3 "this processor has no counter that is known"
fi
for version in $versions; do
    refused unsynchronised "does not know the time" -- "$version" 0 40000
    refused disrupted "paused, moved or restored" -- "$version" 3 40000
    refused unreadable "malformed" -- "$version" 4 40000
    refused unreadable "at each of 10 tries" -- "$version" 1 40000 0 0 3
    refused unsynchronised "nothing yet" -- "$version" 1 40000 0 0 0
done
if [[ -n $old ]]; then refused stale "written nothing for 100" -- 2 1 40000 1001000; fi
refused void "before a restart" -- 2 1 40000 -60000
refused unreadable "version 4 " -- 4 1 40000
refused unreadable "version 1 " -- 1 1 40000

# ---- the file ------------------------------------------------------------------------------------------
write 2 1 40000
truncate -s 40 "$shm"
expect 1 "$tidelock" skew --slack 20s --json --clockbound="$shm"
row unreadable null null "shorter"
chmod 666 "$shm"
expect 1 "$tidelock" skew --slack 20s --json --clockbound="$shm"
row refused null null "every user"
json_has "$out" advice "[\"let only ClockBound's daemon write its file, or leave out --clockbound\"]"
rm "$shm"
expect 1 "$tidelock" skew --slack 20s --json --clockbound="$shm"
row silent null null "No such file"
json_has "$out" advice "[\"check that ClockBound's daemon runs here and knows the time, or leave out --clockbound\"]"
expect 1 "$tidelock" skew --slack 20s --clockbound="$shm"
grep -q '^WARN: ' "$out" || fail "the verdict: $(cat "$out")"

# ---- beside other witnesses ----------------------------------------------------------------------------
# chronyd says that the clock is 250 ms behind.
mkdir "$work/bin"
printf '#!/bin/sh\nprintf "%s\\n" $(date +%%s)\n' \
    '7F000002,127.0.0.2,6,%s.5,0.250,0.0,0.0,0.0,0.0,0.0,0.0001,0.001,64.0,Normal' >"$work/bin/chronyc"
chmod +x "$work/bin/chronyc"
PATH=$work/bin:$PATH
believes_both() { # what is written: the two agree
    write "$@"
    expect 0 "$tidelock" skew --slack 20s --json --chrony --clockbound="$shm"
}
believes_both 2 1 300000
write 2 1 40000
expect 1 "$tidelock" skew --slack 20s --json --chrony --clockbound="$shm"
row inconsistent null null "and chronyd -25"
if [[ -n $counted ]]; then
    believes_both 3 1 40000 0 -250000
    write 3 1 40000 0 250000
    expect 1 "$tidelock" skew --slack 20s --json --chrony --clockbound="$shm"
    row inconsistent null null "and chronyd -25"
fi

# ---- every form of the output --------------------------------------------------------------------------
write 2 1 40000
expect 0 "$tidelock" skew --slack 20s --clockbound="$shm" --log "$work/log" --metrics "$work/metrics"
grep -qE ' clockbound: from the true time, as ClockBound believes' "$out" || fail "text: $(cat "$out")"
grep -q 'instrument="clockbound"' "$work/metrics" || fail "metrics: $(cat "$work/metrics")"
expect 0 "$tidelock" skew report "$work/log"
grep -q 'clockbound' "$out" || fail "report: $(cat "$out")"
# Whatever ClockBound believes, it rescues nobody: a clock without other evidence stays without.
expect 1 "$tidelock" skew --slack 20s --no-agents --clockbound="$shm"
grep -q '^WARN: only one host' "$out" || fail "ClockBound alone: $(cat "$out")"
expect 1 "$tidelock" skew --slack 20s --expect elsewhere,nobody --clockbound="$shm"
expect 64 "$tidelock" skew report "$work/log" --clockbound
exit 0
