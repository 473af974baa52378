#!/bin/bash
# skew --ntp: servers that are right, and each way of not being evidence, side by side in one run.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server

modes=(ahead behind good second glitch forged far kiss latekiss leap3 stratum16 local exact stale client origin short jump silent closed)
if "$python" -c 'import socket; socket.socket(socket.AF_INET6, socket.SOCK_DGRAM).bind(("::1", 0))' 2>/dev/null; then
    modes+=(good@::1)
fi
mkfifo "$work/end"
: >"$work/peer"
{ "$python" "$here/tests/cli/ntp_peer.py" "${modes[@]}" <"$work/end" & } >"$work/peer" 2>"$work/peer.err"
peer=$!
exec 7>"$work/end"
has_ports() { [[ $(wc -l <"$work/peer") -ge ${#modes[@]} ]]; }
until_true 10 has_ports || fail "the peer did not start: $(cat "$work/peer.err")"
place() { awk -v m="$1" '$1 == m { print $2; exit }' "$work/peer"; }

# ---- all of them at once ---------------------------------------------------------------------------
args=()
while read -r _ at; do args+=(--ntp "$at"); done <"$work/peer"
start=$(now_ms)
expect 1 "$tidelock" skew --json "${args[@]}" --ntp nowhere.invalid --ntp "$(place good)"
(($(now_ms) - start < 50000 * slow)) || fail "it took $(($(now_ms) - start)) ms" # one after the other would take 100 s
"$python" - "$out" "$work/peer" <<'PY' || fail "the answers: $(head -c 6000 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
lines = [line.split() for line in open(sys.argv[2])]
hosts = {h["name"]: h for h in d["hosts"] if h["instrument"] == "ntp"}
assert len(hosts) == len([h for h in d["hosts"] if h["instrument"] == "ntp"]), "a row twice"
assert set(hosts) == {at for _, at in lines} | {"nowhere.invalid:123"}, set(hosts)
right = {"ahead": 250.0, "behind": -250.0, "good": 0.0, "second": 1000.0, "glitch": 4294.967, "forged": 0.0, "far": 5000.0}
wrong = {
    "kiss": ("refused", "kiss of death RATE"), "latekiss": ("refused", "kiss of death RATE"),
    "leap3": ("unsynchronised", "leap 3"), "stratum16": ("unsynchronised", "stratum 16"),
    "local": ("unsynchronised", "local"), "exact": ("unsynchronised", "dispersion 0"), "stale": ("unsynchronised", "stale"),
    "client": ("silent", "no answer in 5 s: a packet arrived that is no reply"),
    "origin": ("silent", "no answer in 5 s: a reply to another request arrived"),
    "short": ("silent", "too short"), "jump": ("inconsistent", "contradict"), "silent": ("silent", "no answer in 5 s"),
    "closed": ("silent", "refused"),
}
for mode, at in lines:
    h = hosts[at]
    if mode in right:
        o = h["offset_ms"]
        assert o and o["lo"] <= right[mode] <= o["hi"] and o["lo"] < o["hi"], (mode, h)
        assert h["status"] == "ok" and h["samples"] in (2, 3) and h["age_ms"] >= 0, (mode, h)
        assert ("leap second or smear mismatch" in h["detail"]) == (mode == "second"), (mode, h)
        assert ("2^32 ns" in h["detail"]) == (mode == "glitch"), (mode, h)
    else:
        assert h["offset_ms"] is None and h["drift_ppm"] is None and h["age_ms"] is None, (mode, h)
        assert h["status"] == wrong[mode][0] and wrong[mode][1] in h["detail"], (mode, h)
assert hosts["nowhere.invalid:123"]["offset_ms"] is None
assert d["verdict"] == "WARN"
PY

# Who has told us off, or that it is no evidence, was asked no more; who answers, three times.
exec 7>&-
wait_for "$peer" 10
counted() { awk -v m="$1" '$1 == m && $2 ~ /^[0-9]+$/ { print $2; exit }' "$work/peer"; }
for m in kiss leap3 stratum16 local exact stale; do
    [[ $(counted $m) == 1 ]] || fail "$m was asked $(counted $m) times"
done
[[ $(counted latekiss) == 2 ]] || fail "latekiss was asked $(counted latekiss) times"
# Every two seconds, and for five in all: of whom was held up for one of them the third is not asked.
for m in good silent; do
    [[ $(counted $m) == [23] ]] || fail "$m was asked $(counted $m) times"
done

# ---- again and again: who has told us off is left alone for good -----------------------------------------
modes=(kiss good)
peer_again() {
    : >"$work/peer" # at once: what the one before has left is none of its ports
    { "$python" "$here/tests/cli/ntp_peer.py" "${modes[@]}" <"$work/end" & } >"$work/peer" 2>"$work/peer.err"
    peer=$!
    exec 7>"$work/end"
    until_true 10 has_ports || depth=1 fail "the peer did not start again: $(cat "$work/peer.err")"
}
peer_again
: >"$work/rounds"
{ "$tidelock" skew --json --watch=100ms --ntp "$(place kiss)" --ntp "$(place good)" 7>&- & } >"$work/rounds" 2>"$work/rounds.err"
watch=$!
rounds() { [[ $(grep -c '"status":"refused"' "$work/rounds") -ge 4 && $(grep -c '"samples":[23],"status":"ok"' "$work/rounds") -ge 4 ]]; }
until_true 120 rounds || fail "the watch: $(head -c 2000 "$work/rounds") $(cat "$work/rounds.err")"
kill -TERM $watch
wait_for $watch 20
[[ $status == 143 ]] || fail "the watch ends with $status"
exec 7>&-
wait_for "$peer" 10
[[ $(counted kiss) == 1 ]] || fail "after a kiss of death it was asked $(counted kiss) times"
(($(counted good) >= 8)) || fail "good was asked $(counted good) times"

# ---- the verdict -----------------------------------------------------------------------------------
modes=(good far)
peer_again
expect 0 "$tidelock" agent --once --every 10m --name elsewhere
expect 0 "$tidelock" skew --slack 20s
expect 1 "$tidelock" skew --ntp "$(place good)" # as right as can be, and yet
grep -q "^WARN: only the time that $(place good) serves is known" "$out" || fail "NTP alone: $(cat "$out")"
expect 1 "$tidelock" skew --ntp "$(place far)" # nor does it prove a theft
grep -q "^WARN: a theft can't be ruled out: .* (by .*ntp" "$out" || fail "NTP far off: $(cat "$out")"
# With the host's own clock beside it, it takes nothing away: here an agent has the name that is asked.
at=$(place good)
expect 0 "$tidelock" agent --once --every 10m --name "${at%:*}"
expect 0 "$tidelock" skew --slack 20s --ntp "$at" --json
"$python" - "$out" "$at" <<'PY' || fail "beside an agent: $(head -c 2000 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert [h["status"] for h in d["hosts"] if h["name"] == sys.argv[2]] == ["ok"] and d["verdict"] == "SAFE"
PY
expect 1 "$tidelock" skew --ntp "$(place far)" # but not when the two contradict each other
expect 1 "$tidelock" skew --format prometheus --ntp "$at" --ntp "$(place far)"
grep -q "^tidelock_skew_host_known{host=\"$(place far)\",instrument=\"ntp\"} 1$" "$out" || fail "prometheus: $(cat "$out")"

# ---- wrong usage -----------------------------------------------------------------------------------
for p in '' : h: h:0 h:65536 'a b' '[::1' '[::1]x'; do expect_line 64 '--ntp' "$tidelock" skew --ntp "$p"; done
many=()
for i in {1..33}; do many+=(--ntp "127.0.0.1:$i"); done
expect_line 64 'at most 32' "$tidelock" skew "${many[@]}"
expect_line 69 'no such file' "$tidelock" --url "unix://$work/none" skew --ntp "$at"
exit 0
