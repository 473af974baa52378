#!/bin/bash
# skew report: from logs with a known truth to drift, history and the time until it is unsafe; damaged,
# hostile and missing logs.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
log=$work/skew.log

# A fleet by the minute: name, offset in ms at the end, drift in ppm; intervals half a ms wide, anywhere
# around the truth. The verdict and the gaps are as the tool would have said them.
make_log() { # minutes slack-ms "name:offset:drift"...
    "$python" - "$@" <<'PY'
import json, random, sys
random.seed(7)
minutes, slack = int(sys.argv[1]), int(sys.argv[2])
fleet = [(n, float(o), float(d)) for n, o, d in (a.split(":") for a in sys.argv[3:])]
end = 1795300000000
for m in range(minutes):
    at = end - (minutes - 1 - m) * 60000
    hosts = []
    for name, offset, drift in fleet:
        truth, before = offset - drift * (end - at) / 1e6, random.random() * 0.5
        hosts.append(dict(name=name, instrument="agent", drift_ppm=None, age_ms=5, samples=8, status="ok", detail="",
                          slew_ppm=0, offset_ms=dict(lo=round(truth - before - 0.001, 3), hi=round(truth + 0.501 - before, 3))))
    pairs = [dict(holder=h["name"], taker=t["name"], gap_ms=dict(lo=round(t["offset_ms"]["lo"] - h["offset_ms"]["hi"] - 13, 3),
                  hi=round(t["offset_ms"]["hi"] - h["offset_ms"]["lo"] + 13, 3))) for h in hosts for t in hosts if h is not t]
    for p in pairs:
        p["verdict"] = "SAFE" if p["gap_ms"]["hi"] <= slack else "UNSAFE" if p["gap_ms"]["lo"] > slack else "WARN"
    pairs.sort(key=lambda p: -p["gap_ms"]["hi"])
    verdict = max((p["verdict"] for p in pairs), key=["SAFE", "WARN", "UNSAFE"].index)
    print(json.dumps(dict(at_ms=at, verdict=verdict, reason="as made", lock_timeout_ms=60000, slack_ms=slack, hosts=hosts,
                          pairs=pairs, worst=pairs[0], advice=["look at it"] if verdict != "SAFE" else [])))
PY
}
story() { # what Python holds against the report, as d
    "$python" -c "import json, sys
d = json.load(open(sys.argv[1]))
hosts = {h['name']: h for h in d['hosts']}
u = d['time_to_unsafe']
$1" "$out" 2>"$err" || depth=1 fail "$(head -c 1500 "$out")"
}

# ---- drift, and the time to unsafe ------------------------------------------------------------------
# fast gains 80 ppm on the others: (500 - 100 - 13) ms at 80 ppm are 4838 s, the truth of the edge that is judged.
make_log 120 500 steady:0:0 fast:100:60 slow:0:-20 >"$log"
expect 0 "$tidelock" skew report --json "$log"
story 'for name, truth in dict(steady=0, fast=60, slow=-20).items():
    p, o = hosts[name]["drift_ppm"], hosts[name]["offset_ms"]
    assert p["lo"] <= truth <= p["hi"] and p["hi"] - p["lo"] < 0.3, hosts[name]
    assert o["hi"] - o["lo"] < 0.6 and hosts[name]["drift_over_ms"] == 119 * 60000, hosts[name]
    assert hosts[name]["known"] == 120 and hosts[name]["unknown"] == 0 and len(hosts[name]["over_time"]) == 120, name
assert (u["state"], u["holder"], u["taker"], u["unknown_hosts"]) == ("drifting", "slow", "fast", 0), u
assert u["earliest_ms"] < 4838e3 < u["latest_ms"] and u["earliest_ms"] > 4700e3 and u["latest_ms"] < 5300e3, u
assert (d["verdict"], d["runs"], d["skipped"], d["to_ms"] - d["from_ms"]) == ("SAFE", 120, 0, 119 * 60000)
assert d["verdicts"] == {"SAFE": 120, "WARN": 0, "UNSAFE": 0, "UNKNOWN": 0} and len(d["history"]) == 1'
expect 0 "$tidelock" skew report "$log"
grep -q '^SAFE: as made' "$out" || fail "$(cat "$out")"
grep -qE '^Time to unsafe: in [0-9]+ min at the earliest, in [0-9]+ min at the latest, .*slow holds and fast takes' "$out" || fail "$(cat "$out")"
grep -qE '^fast +\+99\.[0-9]+ +\+100\.[0-9]+ +59\.[0-9]+ to 60\.[0-9]+ +119 min +agent$' "$out" || fail "$(cat "$out")"

# Nothing drifts apart; too little is known.
make_log 120 500 one:10:5 other:-10:5 >"$log"
expect 0 "$tidelock" skew report --json "$log"
story 'assert u["latest_ms"] is None and (u["earliest_ms"] is None or u["earliest_ms"] > 864e5), u'
head -n 1 "$log" >"$work/one"
expect 0 "$tidelock" skew report --json "$work/one"
story 'assert (u["state"], u["earliest_ms"], u["latest_ms"]) == ("unknown", None, None) and hosts["one"]["drift_ppm"] is None, d'
expect 0 "$tidelock" skew report "$work/one"
grep -q '^Time to unsafe: unknown' "$out" || fail "$(cat "$out")"

# A clock that was set: the drift of before says nothing, nor does the jump.
make_log 60 500 a:0:0 b:0:10 >"$log"
"$python" - "$log" <<'PY' >"$work/stepped"
import json, sys
for i, line in enumerate(open(sys.argv[1])):
    d = json.loads(line)
    if i < 30:
        for k in "lo", "hi":
            d["hosts"][1]["offset_ms"][k] -= 200
    print(json.dumps(d))
PY
expect 0 "$tidelock" skew report --json "$work/stepped"
story 'assert hosts["b"]["drift_over_ms"] == 29 * 60000 and hosts["b"]["drift_ppm"]["lo"] <= 10 <= hosts["b"]["drift_ppm"]["hi"], hosts["b"]
assert hosts["a"]["drift_over_ms"] == 59 * 60000'
expect 0 "$tidelock" skew report "$work/stepped"
grep -q '^b .*drifted otherwise before' "$out" || fail "$(cat "$out")"

# A host that is unknown now: the earliest is no promise.
"$python" - "$log" <<'PY' >"$work/gone"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
lines[-1]["hosts"].append(dict(lines[-1]["hosts"][0], name="mute", offset_ms=None, drift_ppm=None))
lines[-1]["verdict"] = "WARN"
lines[3]["hosts"].append(dict(lines[3]["hosts"][0], name="left"))
print("\n".join(map(json.dumps, lines)))
PY
expect 1 "$tidelock" skew report --json "$work/gone"
story 'assert u["unknown_hosts"] == 1 and u["earliest_ms"] is None and "mute" in u["detail"], u
assert hosts["left"]["offset_ms"] is None and hosts["mute"]["unknown"] == 1
assert [h["verdict"] for h in d["history"]] == ["SAFE", "WARN"]'
expect 1 "$tidelock" skew report "$work/gone"
grep -q '^left .*not seen since 2026-' "$out" || fail "$(cat "$out")"
grep -qE '^  \[-+ *-*\?\]  - safe' "$out" || fail "no strip: $(cat "$out")"

# The clock that is furthest ahead has no drift, and the others drift apart: there is no earliest moment.
make_log 60 500 a:0:0 far:300:0 b:0:10 c:5:0 >"$log"
"$python" - "$log" <<'PY' >"$work/undriven"
import json, sys
lines = [json.loads(l) for l in open(sys.argv[1])]
for d in lines[:-1]:
    d["hosts"][1]["offset_ms"] = None
print("\n".join(map(json.dumps, lines)))
PY
expect 0 "$tidelock" skew report "$work/undriven"
grep -E '^Time to unsafe: ' "$out" | grep -q 'at the earliest' && fail "an earliest moment: $(cat "$out")"
grep -qE '^Time to unsafe: .*no earliest moment can be given: .* 1 of the clocks go, among them that of far\.$' "$out" ||
    fail "$(cat "$out")"

# Unsafe now, and possible now.
make_log 10 500 a:0:0 b:600:0 >"$log"
expect 2 "$tidelock" skew report --json "$log"
story 'assert (u["state"], u["earliest_ms"], u["latest_ms"], u["holder"]) == ("unsafe", 0, 0, "a") and d["advice"] == ["look at it"], u'
make_log 60 500 a:0:0 b:495:50 >"$log"
expect 1 "$tidelock" skew report --json "$log"
story 'assert (u["state"], u["earliest_ms"]) == ("doubt", 0) and 300e3 < u["latest_ms"] < 600e3, u'

# ---- several files, in any order; lines that are none of ours ---------------------------------------
make_log 100 500 a:0:0 b:30:10 >"$log"
tail -n 50 "$log" >"$work/second"
head -n 50 "$log" >"$work/first"
expect 0 "$tidelock" skew report --json "$work/second" "$work/first"
story 'assert (d["runs"], hosts["b"]["drift_over_ms"]) == (100, 99 * 60000)'
{
    head -n 2 "$log"
    echo
    echo 'no json'
    head -n 1 "$log" | cut -c 1-200
    head -n 1 "$log" | sed 's/"at_ms": [0-9]*, //'
    head -n 1 "$log" | sed 's/"SAFE"/"FINE"/'
    head -n 1 "$log" | sed 's/"lo": [-0-9.]*/"lo": 1e99/'
    head -n 1 "$log" | sed 's/"slack_ms": 500/"slack_ms": 999999999999/'
    head -c 5000000 /dev/zero | tr '\0' '['
    echo
    head -c 300 /dev/urandom | tr '\n' ' '
    echo
    tail -n 1 "$log" | tr -d '\n' # without its newline
} >"$work/damaged"
expect 0 "$tidelock" skew report --json "$work/damaged"
[[ $(wc -l <"$err") == 6 ]] || fail "one line for each of the first five, and one for all"
grep -q 'damaged line 4: it is not JSON; skipped' "$err" || fail "the line is not named"
grep -q 'damaged: 8 lines skipped in all' "$err" || fail "the count is not told"
"$python" - "$out" <<'PY' || fail "damaged: $(head -c 400 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert (d["runs"], d["skipped"], d["hosts"][1]["known"]) == (3, 8, 3), d["runs"]
PY
expect_line 3 'no line of' "$tidelock" skew report /dev/null
expect_line 78 'none: No such file' "$tidelock" skew report "$work/none"
expect_line 78 'Is a directory' "$tidelock" skew report "$work"

# A page of numbers goes as it came: names with what a shell or a terminal might heed are harmless.
head -n 1 "$log" | sed 's/"name": "b"/"name": "<b>\\u001b[2J\&"/; s/"taker": "b"/"taker": "<b>\\u001b[2J\&"/' >"$work/hostile"
expect 0 "$tidelock" skew report "$work/hostile"
grep -q $'\e' "$out" && fail "an escape reaches the terminal"
grep -q '^<b>?\[2J&' "$out" || fail "$(cat "$out")"

expect 0 "$tidelock" skew report --format html "$work/hostile"
grep -q '<b>?\[2J' "$out" && fail "a name is markup"
grep -q '&lt;b&gt;?\[2J&amp;' "$out" || fail "a name is not there"
grep -qiE '<link|<img|<iframe|url\(http|@import|src=|href="[^#]' "$out" && fail "the page is not all there is"
[[ $(grep -o '<script' "$out" | wc -l) == 1 ]] || fail "another script than the page's own"

# ---- the page ------------------------------------------------------------------------------------------
# Two hours up to 22:26:40 UTC, of a server that the log names. All clocks are on one scale, with the line where
# the slack ends; where that is far off, the page says so.
page() { "$python" -c "import re, sys
page = open(sys.argv[1]).read()
charts = re.findall(r'<div class=\"graph\">(.*?)</div>\n', page, re.S)
hosts = [c for c in charts if 'plot chart' in c]
y = [re.search(r'<div class=\"y\">.*?</div>', c).group() for c in hosts]
x = [re.findall(r'>([^<]+)</span>', c[c.index('<div class=\"x'):]) for c in charts]
$1" "$out" 2>"$err" || depth=1 fail "the page: $(head -c 300 "$out")"; }
make_log 120 500 steady:0:0 fast:300:60 slow:-40:-20 | sed 's/^{/{"server": "redis-a.example.com:6379", /' >"$log"
expect 0 "$tidelock" skew report --format html "$log"
page 'assert "<dt>Server</dt><dd>redis-a.example.com:6379</dd>" in page and "<title>SAFE: " in page
assert "datetime=\"2026-11-21T22:26:40Z\">2026-11-21 22:26:40 UTC</time>" in page
assert "From <time datetime=\"2026-11-21T20:27:40Z\">" in page
assert len(hosts) == 3 and len(charts) == 5 and len(set(y)) == 1, len(charts)
assert all(t == ["20:30", "21:00", "21:30", "22:00"] for t in x), x
assert all(c.count("class=\"edge\"") == 2 for c in hosts) and charts[0].count("class=\"edge\"") == 1
assert "0 ms" in y[0] and "500 ms" in y[0], y[0]
names = [n for n in re.findall(r"<div class=\"what\"><b>(.*?)</b>", page)]
assert names == ["fast", "steady", "slow"] == re.findall(r"<th scope=\"row\"><span>(.*?)</span>", page), names'
expect 0 "$tidelock" skew report --format html <(sed 's/"slack_ms": 500/"slack_ms": 50000/' "$log")
page 'assert len(set(y)) == 1 and not any("class=\"edge\"" in c for c in hosts)
assert "The slack of 50 s ends far off this scale." in page and charts[0].count("class=\"edge\"") == 1'

# One clock that is too far off colours no other.
expect 2 "$tidelock" skew report --format html <(make_log 10 500 a:0:0 b:600:0 c:10:0 d:20:0)
page 'names = re.findall(r"<div class=\"what\"><b>(.*?)</b>", page)
assert [n for n, c in zip(names, hosts) if "class=\"over\" d=\"M" in c] == ["b"] and len(names) == 4, names'

# It counts for as long as three runs usually take, 15 min at least, or as it is told. One of something old says
# so itself; of something new the script may find it.
expect 0 "$tidelock" skew report --format html "$log"
grep -q 'data-good="900000"' "$out" || fail "runs by the minute: $(grep -o 'data-good=[^ ]*' "$out")"
awk 'NR % 20 == 0' "$log" >"$work/rare"
expect 0 "$tidelock" skew report --format html "$work/rare"
grep -q 'data-good="3600000"' "$out" || fail "runs every 20 min: $(grep -o 'data-good=[^ ]*' "$out")"
expect 0 "$tidelock" skew report --format html --stale-after 2h "$work/rare"
grep -q 'data-good="7200000"' "$out" || fail "--stale-after: $(grep -o 'data-good=[^ ]*' "$out")"
shift_log() { "$python" -c 'import json, sys, time
last = int(time.time() * 1000) - int(sys.argv[1])
lines = [json.loads(line) for line in sys.stdin]
for d in lines:
    d["at_ms"] += last - lines[-1]["at_ms"] if d is not lines[-1] else 0
lines[-1]["at_ms"] = last
print("\n".join(map(json.dumps, lines)))' "$1" <"$log" >"$work/shifted"; }
shift_log 7200000
expect 0 "$tidelock" skew report --format html "$work/shifted"
grep -q '<div id="stale" role="alert"><b>Stale:</b> <span>it was made of something measured [0-9]* [a-z]* before' "$out" ||
    fail "an old log: $(grep -o '<div id="stale.*' "$out")"
shift_log 60000
expect 0 "$tidelock" skew report --format html "$work/shifted"
grep -q '<div id="stale" role="alert" hidden>' "$out" || fail "a new log: $(grep -o '<div id="stale.*' "$out")"

# ---- byte by byte, beside golden/; after a change that is meant, SKEW_GOLDEN=write writes them anew -----
golden=$here/tests/unit/golden
for face in text json html; do
    expect 2 "$tidelock" skew report --format $face "$golden/skew-report.log"
    sed -i 's|^\(<div id="stale" role="alert"\).*|\1 hidden><b>Stale:</b> <span></span></div>|' "$out" # it depends on today
    if [[ -n ${SKEW_GOLDEN:-} ]]; then cp "$out" "$golden/skew-report.$face"; fi
    cmp "$out" "$golden/skew-report.$face" >"$err" 2>&1 || fail "another $face than golden/"
done

# ---- output, and wrong usage ------------------------------------------------------------------------
expect 0 "$tidelock" skew report --output "$work/told" "$log"
[[ ! -s $out ]] && grep -q '^SAFE: ' "$work/told" || fail "--output: $(head "$work/told")"
if [[ -w /dev/full ]]; then
    "$tidelock" skew report "$log" >/dev/full 2>"$err"
    [[ $? == 70 ]] || fail "a report into a full device succeeds"
fi
expect_line 64 'missing' "$tidelock" skew report
expect_line 64 'its only options are --format' "$tidelock" skew report --slack 1s "$log"
expect_line 64 'its only options are --format' "$tidelock" skew report --watch "$log"
expect_line 64 'one of text' "$tidelock" skew report --format nagios "$log"
expect_line 64 '--stale-after needs --format html' "$tidelock" skew report --stale-after 1h "$log"
expect_line 64 '1m to 30d' "$tidelock" skew report --format html --stale-after 59s "$log"
expect_line 64 'too many arguments' "$tidelock" skew repot "$log"

# ---- from a real log ---------------------------------------------------------------------------------
start_server
for i in 1 2 3; do "$tidelock" skew --log "$work/real" >/dev/null; done
expect 1 "$tidelock" skew report --json "$work/real"
story 'assert d["runs"] == 3 and d["skipped"] == 0 and d["hosts"][0]["instrument"] == "server", d
p = d["hosts"][0]["drift_ppm"]
assert p["lo"] <= 0 <= p["hi"] and u["state"] == "unknown", d'
# So does what comes over a pipe.
"$tidelock" skew report --json - <"$work/real" >"$out" 2>"$err" || [[ $? == 1 ]] || fail "from standard input"
story 'assert d["runs"] == 3 and d["skipped"] == 0, d'
exit 0
