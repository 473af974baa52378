#!/bin/bash
# skew: real agents on clocks that are off by a known amount; the truth is inside, the verdict is right.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
faketime=
for f in /usr/lib/faketime/libfaketime.so.1 /usr/lib/*-linux-gnu*/faketime/libfaketime.so.1; do
    if [[ -e $f ]]; then faketime=$f; fi
done
[[ -n $faketime ]] || { echo "libfaketime is not installed (Debian: libfaketime)" && exit 77; }
# A sanitizer wants to be first in a process, and so does libfaketime.
if [[ -n ${SAN:-} ]]; then echo "libfaketime and sanitizers don't go together" && exit 77; fi
start_server
me=$("$python" -c 'import re, socket; print(re.sub("[^A-Za-z0-9._:-]", "_", socket.gethostname())[:64])')

# ---- one host ----------------------------------------------------------------------------------
expect 1 "$tidelock" skew
grep -q '^WARN: only one host' "$out" || fail "one host: $(cat "$out")"
expect 1 "$tidelock" skew --no-agents --json
json_has "$out" verdict WARN
json_has "$out" worst None

# ---- a fleet -----------------------------------------------------------------------------------
agent() { # name offset options...
    local name=$1 offset=$2
    shift 2
    expect 0 env LD_PRELOAD="$faketime" FAKETIME_DONT_FAKE_MONOTONIC=1 FAKETIME="$offset" \
        "$tidelock" agent --once --every 10m --name "$name" "$@"
}
agent near +0.003
agent exact +0
expect 0 "$tidelock" skew --slack 20s
grep -q '^SAFE: ' "$out" || fail "a fleet of one time: $(cat "$out")"

# Under load the uncertainty grows: what is further apart here leaves it more than a second.
agent ahead +3.500
agent behind -1.200
agent near +0.003 # after these two: see below
expect 0 "$tidelock" skew --slack 20s
grep -q '^SAFE: ' "$out" || fail "the fleet: $(cat "$out")"
expect 0 "$tidelock" skew --slack 20s --json
"$python" - "$out" "$me" <<'PY' || fail "--json: $(head -c 1500 "$out")"
import json, sys
d, me = json.load(open(sys.argv[1])), sys.argv[2]
truth = {"ahead": 3500.0, "behind": -1200.0, "near": 3.0, "exact": 0.0, me: 0.0}
assert list(d) == ["verdict", "reason", "lock_timeout_ms", "longest_hold_ms", "longest_hold_assumed", "slack_ms", "warn_percent", "hosts", "pairs_total",
                   "pairs_listed", "pairs",
                   "worst", "cause", "causes", "advice"], list(d)
assert (d["lock_timeout_ms"], d["slack_ms"], d["verdict"], d["advice"]) == (60000, 20000, "SAFE", [])
hosts = {h["name"]: h for h in d["hosts"]}
assert set(hosts) == set(truth), hosts
for name, h in hosts.items():
    assert list(h) == ["name", "instrument", "offset_ms", "drift_ppm", "age_ms", "samples", "status", "detail",
                       "self", "missing"], list(h)
    o = h["offset_ms"]
    assert o["lo"] <= truth[name] <= o["hi"], h
    assert h["instrument"] == ("server" if name == me else "agent") and h["status"] == "ok", h
    assert h["age_ms"] >= 0 and h["samples"] > 0, h
assert len(d["pairs"]) == 20
for p in d["pairs"]:
    gap = truth[p["taker"]] - truth[p["holder"]]
    assert list(p) == ["holder", "taker", "gap_ms", "verdict"], list(p)
    assert p["gap_ms"]["lo"] <= gap - 12 and gap + 12 <= p["gap_ms"]["hi"], p
    assert p["verdict"] == "SAFE", p
assert d["worst"] == d["pairs"][0] and (d["worst"]["holder"], d["worst"]["taker"]) == ("behind", "ahead"), d["worst"]
PY

# The gap of 4700 ms, 13 ms and the uncertainty wide each way, against other slacks; the usual one is 1 s.
expect 2 "$tidelock" skew
grep -q '^UNSAFE: .*when behind holds, the clock of ahead is' "$out" || fail "unsafe: $(cat "$out")"
grep -q 'chronyc tracking' "$out" || fail "no advice: $(cat "$out")"
expect 2 "$tidelock" skew --json
json_has "$out" slack_ms 1000
expect 1 "$tidelock" skew --slack 4700ms
grep -q "^WARN: a theft can't be ruled out: when behind holds" "$out" || fail "straddling: $(cat "$out")"
expect 1 "$tidelock" skew --slack 7s
grep -q '^WARN: little slack is left' "$out" || fail "over half: $(cat "$out")"
expect 0 "$tidelock" skew --slack 7s --warn 100%
expect 2 "$tidelock" skew --lock-timeout 60s --longest-hold 59900ms --json
json_has "$out" slack_ms 100
json_has "$out" verdict UNSAFE
expect 2 "$tidelock" skew --longest-hold 61s --json # longer than the lock lives
json_has "$out" slack_ms -1000
expect_line 64 'did you mean --longest-hold?' "$tidelock" skew --max-hold 61s
expect 1 "$tidelock" skew --no-agents

# ---- the other faces ---------------------------------------------------------------------------
expect 2 "$tidelock" skew --format nagios
[[ $(wc -l <"$out") == 1 ]] || fail "nagios prints more than a line"
grep -qE '^SKEW CRITICAL - [^|]+ \| hosts=5 measured=5 missing=0 worst_gap=[45]\.[0-9]{6}s;0\.500000;1\.000000$' "$out" ||
    fail "nagios: $(cat "$out")"
expect 0 "$tidelock" skew --format nagios --slack 20s
grep -q '^SKEW OK - ' "$out" || fail "nagios: $(cat "$out")"
expect 0 "$tidelock" skew --slack 20s --format prometheus --output "$work/skew.prom"
[[ ! -s $out ]] || fail "--output writes to stdout too"
grep -qx 'tidelock_skew_verdict 0' "$work/skew.prom" || fail "prometheus: $(cat "$work/skew.prom")"
grep -qE '^tidelock_skew_offset_seconds\{host="behind",instrument="agent",edge="lo"\} -1\.[2-9]' "$work/skew.prom" ||
    fail "prometheus: $(cat "$work/skew.prom")"
[[ $(find "$work" -name 'skew.prom*' | wc -l) == 1 ]] || fail "something is left beside the output"
expect_line 78 'no-such-dir' "$tidelock" skew --output "$work/no-such-dir/x"

# ---- more than one sample ------------------------------------------------------------------------
# It tells a drift when its samples are a second apart: on a machine that stood still for the rest of the time there are no more
# than one or two, and the next look has more.
drifts() {
    expect 0 "$tidelock" skew --for 1500ms --slack 20s --json
    "$python" - "$out" "$me" <<'PY'
import json, sys
h = [h for h in json.load(open(sys.argv[1]))["hosts"] if h["name"] == sys.argv[2]][0]
d = h["drift_ppm"]
assert d is None or d["lo"] <= 0 <= d["hi"], h  # one clock
sys.exit(0 if d and h["samples"] > 3 else 9)
PY
    local came=$?
    ((came != 1)) || fail "--for: $(head -c 600 "$out")"
    return $came
}
until_true 60 drifts || fail "--for tells no drift: $(head -c 600 "$out")"
expect 0 "$tidelock" skew --samples 1 --slack 20s --json

# ---- records that are not to be believed -----------------------------------------------------------
redis COPY '{tidelock:agents}:near' saved >/dev/null
redis SET '{tidelock:agents}:near' 'nonsense' PX 600000 >/dev/null
expect 1 "$tidelock" skew --slack 20s --json
"$python" - "$out" <<'PY' || fail "a damaged record: $(head -c 900 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
h = [h for h in d["hosts"] if h["name"] == "near"][0]
assert (h["offset_ms"], h["status"], h["age_ms"]) == (None, "unreadable", None), h
assert len(d["pairs"]) == 12 and d["verdict"] == "WARN", d["reason"]
PY
expect 2 "$tidelock" skew # a certain theft stays one
# What was measured before the server's clock was set, as any agent has seen it: here by a record that says
# that it was set a moment ago.
read -r version id at rest <<<"$(redis GET saved)"
read -r -a words <<<"$rest"
words[9]=$((at + 1)) # server_stepped_us
redis SET '{tidelock:agents}:near' "$version $id $((at + 1)) ${words[*]}" PX 600000 >/dev/null
agent exact +0
expect 1 "$tidelock" skew --json
"$python" - "$out" <<'PY' || fail "a step of the server: $(head -c 1500 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
got = {h["name"]: h["status"] for h in d["hosts"] if h["instrument"] == "agent"}
assert got == {"ahead": "void", "behind": "void", "near": "ok", "exact": "ok"}, got
PY
# A record from the future: the server's clock was set back.
redis SET '{tidelock:agents}:near' "$version $id $((at + 3600000000)) $rest" PX 600000 >/dev/null
expect 1 "$tidelock" skew --slack 20s --json
grep -q '"name":"near","instrument":"agent","offset_ms":null,[^}]*"status":"void"' "$out" || fail "future: $(cat "$out")"

# ---- leases ---------------------------------------------------------------------------------------
expect 0 "$tidelock" agent --forget near --forget ahead --forget behind
expect 0 "$tidelock" skew --slack 20s --json # who was retired is not missing: test_skew_missing.sh is about those who are
[[ $(grep -o '"instrument":"agent"' "$out" | wc -l) == 1 ]] || fail "forgotten hosts count: $(cat "$out")"
# This host's own agent adds nothing, and takes nothing away; another host of our name does.
expect 0 "$tidelock" agent --once --every 10m
expect 0 "$tidelock" skew --slack 20s --json
[[ $(grep -o "\"name\":\"$me\"" "$out" | wc -l) == 1 ]] || fail "our own record counts: $(cat "$out")"
# Our agent and we contradict each other: a clock was set, and it may have been the server's.
read -r -a words <<<"$(redis GET "{tidelock:agents}:$me")"
words[3]=$((words[3] + 5000000)) words[4]=$((words[4] + 5000000))
redis SET "{tidelock:agents}:$me" "${words[*]}" PX 600000 >/dev/null
expect 1 "$tidelock" skew --json
[[ $(grep -o '"status":"void"' "$out" | wc -l) == 1 ]] || fail "a contradiction with our agent: $(cat "$out")"
redis SET "{tidelock:agents}:$me" "$version beef-1 $at $rest" PX 600000 >/dev/null
expect 1 "$tidelock" skew --json
grep -q "\"name\":\"$me\",[^}]*\"status\":\"clash\"" "$out" || fail "a host of our name: $(cat "$out")"

# ---- the server's clock is set while it is asked; another server takes over -------------------------
redis FLUSHALL >/dev/null
agent near +0.003
expect 0 "$tidelock" skew --slack 20s
proxy() { # what it changes; its URL comes into $through
    rm -f "$work/port"
    "$python" "$here/tests/cli/doctor_proxy.py" "$socket" "$work/port" "$@" &
    wait_file "$work/port"
    through=redis://127.0.0.1:$(cat "$work/port")
}
near_is() { # status, words of its detail
    grep -q "\"name\":\"near\",\"instrument\":\"agent\",\"offset_ms\":null,[^}]*\"status\":\"$1\",\"detail\":\"[^\"]*$2" "$out" ||
        depth=1 fail "near is not $*: $(cat "$out")"
}
proxy step:5000000
expect 1 "$tidelock" --url "$through" skew --samples 32 --json # however long they take: it steps at the 8th
near_is void 'before a clock was set'
proxy time:2000000 info:run_id=ffffffffffffffffffffffffffffffffffffffff # near would be 2 s ahead: a certain theft
expect 1 "$tidelock" --url "$through" skew --json
near_is void 'measured against another server'

# ---- clocks that drift and step, a server under load ---------------------------------------------------
redis FLUSHALL >/dev/null
redis-benchmark -s "$socket" -q -l -n 100000 -c 20 -P 8 -t set,get >/dev/null 2>&1 &
load=$!
set_clock() { echo "$1" >"$work/clock.new" && mv "$work/clock.new" "$work/clock"; }
lasting() { # name, then the environment of an agent
    local name=$1
    shift
    { env LD_PRELOAD="$faketime" FAKETIME_DONT_FAKE_MONOTONIC=1 "$@" \
        "$tidelock" agent -v --every 1s --name "$name" & } 2>"$work/$name.err"
}
set_clock +0.350
lasting moving FAKETIME_TIMESTAMP_FILE="$work/clock" FAKETIME_NO_CACHE=1
moving=$!
began=$(date +%s%6N)
lasting drifting FAKETIME='+0 x1.0005' # beyond the bound of what clocks do by themselves
drifting=$!
lasting racing FAKETIME='+0 x3' # it moves while it is read: that alone is said of it
racing=$!
expect_line 69 'the clock was set while it was measured' env LD_PRELOAD="$faketime" FAKETIME_DONT_FAKE_MONOTONIC=1 \
    FAKETIME='+0 x3' "$tidelock" agent --once --name once
rounds() { (($(grep -c ' us from the server' "$work/$1.err") >= $2)); }
until_true 60 rounds moving 2 && until_true 60 rounds drifting 2 || fail "no rounds: $(cat "$work/moving.err" "$work/drifting.err")"
started=$(date +%s%6N)
# Their leases are 3 s: a look finds both, unless the machine has held them up.
both_known() {
    "$tidelock" skew --json >"$out" 2>"$err"
    record=$(redis GET '{tidelock:agents}:drifting' | cut -d' ' -f3-5)
    [[ -n $record ]] && "$python" - "$out" <<'PY' 2>/dev/null
import json, sys
hosts = {h["name"]: h for h in json.load(open(sys.argv[1]))["hosts"]}
sys.exit(hosts["moving"]["status"] != "ok" or hosts["drifting"]["status"] != "unsteady" or not hosts["drifting"]["offset_ms"])
PY
}
offsets() { # ms of moving; drifting's clock is ahead by 1/2000 of its age, which is known to the time that starting it took
    until_true 60 both_known || depth=1 fail "one of the two is unknown: $(head -c 1500 "$out")"
    "$python" - "$out" "$1" "$began" "$started" "$record" <<'PY' ||
import json, sys
hosts = {h["name"]: h for h in json.load(open(sys.argv[1]))["hosts"]}
o = hosts["moving"]["offset_ms"]
assert o["lo"] <= float(sys.argv[2]) <= o["hi"], hosts["moving"]
began, started = int(sys.argv[3]), int(sys.argv[4])
at, lo, hi = map(int, sys.argv[5].split())
assert lo <= (at - began) * 0.0005 + 50 and hi >= (at - started) * 0.0005 - 50, (at - began, at - started, lo, hi)
r = hosts["racing"]
assert (r["status"], r["offset_ms"]) == ("unsteady", None), r
PY
        depth=1 fail "under load: $(head -c 1500 "$out")"
}
offsets 350
set_clock -0.650
behind() { grep ' us from the server' "$work/moving.err" | grep ' is -[0-9]\{6,\} to '; }
twice_behind() { (($(behind | wc -l) >= 2)); }
until_true 60 twice_behind || fail "it goes on no more: $(cat "$work/moving.err")"
second=$(behind | sed -n 2p)
[[ $second =~ is\ (-[0-9]+)\ to\ (-?[0-9]+)\ us ]] &&
    ((BASH_REMATCH[1] <= -1650000 && BASH_REMATCH[2] >= 350000 && BASH_REMATCH[2] < 1300000)) || # it may be set by as much again
    fail "two periods after the step: $second"
(($(redis GET '{tidelock:agents}:moving' | cut -d' ' -f11) >= 1)) || fail "no step is told: $(redis GET '{tidelock:agents}:moving')"
offsets -650
kill -0 $racing || fail "an agent of a clock that races ends: $(cat "$work/racing.err")"
kill $load $moving $drifting $racing
wait $load $moving $drifting $racing 2>/dev/null

# ---- wrong usage, and no server ---------------------------------------------------------------------
expect_line 64 'say seconds' "$tidelock" skew --lock-timeout 60
expect_line 64 '--lock-timeout' "$tidelock" skew --lock-timeout 0s
expect_line 64 'exclude each other' "$tidelock" skew --slack 1s --longest-hold 2s
expect_line 64 'exclude each other' "$tidelock" skew --samples 5 --for 2s
expect_line 64 '--all-pairs needs --format json' "$tidelock" skew --all-pairs
expect_line 64 '--all-pairs needs --format json' "$tidelock" skew --all-pairs --format html
expect_line 64 '--slack' "$tidelock" skew --slack 61s
expect_line 64 '--lock-timeout' "$tidelock" skew --lock-timeout 500ms
for w in 50 101% -1% %; do expect_line 64 '--warn' "$tidelock" skew --warn=$w; done
expect_line 64 '--format: one of' "$tidelock" skew --format pdf
expect_line 64 'too many' "$tidelock" skew more
expect_line 64 'malformed URL' "$tidelock" --url ftp://x skew
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" skew
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" skew --json
expect 3 "$tidelock" --url "unix://$work/none" skew --format nagios
grep -qE '^SKEW UNKNOWN - .*no such file' "$out" || fail "nagios without a server: $(cat "$out")"
redis CONFIG SET requirepass secret >/dev/null
expect_line 77 'password' "$tidelock" skew
export TIDELOCK_PASSWORD=secret
expect 1 "$tidelock" skew --no-agents
exit 0
