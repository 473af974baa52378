#!/bin/bash
# skew --passive: legacy clients, each on an address and with a clock of its own, are measured by what
# they tell the server.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
start_server --bind 127.0.0.1 --protected-mode no # it takes other 127.0.0.x for strangers
open_port
export TIDELOCK_URL=redis://127.0.0.1:$port

# A legacy service: SETNX, GET, perhaps GETSET, DEL. Its clock is off by so many ms.
cat >"$work/client.py" <<'PY'
import socket, sys, time
port, host, off_ms, how, key, life_ms = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4], sys.argv[5], 60000
s = socket.create_connection(("127.0.0.1", port), source_address=(host, 0))
s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
replies = s.makefile("rb")
def ask(*words):
    s.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
    line = replies.readline()
    if not line:
        sys.exit(0)
    return replies.read(int(line[1:]) + 2)[:-2] if line[:1] == b"$" and line[1:2] != b"-" else line[1:-2]
def stamp():
    t = time.time() * 1000 + off_ms + life_ms
    if how == "seconds":
        return b"%d" % (t / 1000)
    return b"%d" % t
k = key.encode()
while True:
    if how == "pool":
        v = stamp()
        ask(b"PING")
    elif how == "mixed":
        life_ms = 90000 - life_ms # now 30 s, now 60 s
        v = stamp()
    else:
        v = stamp()
    if ask(b"SETNX", k, v) == b"1":
        ask(b"DEL", k)
    else:
        ask(b"GET", k)
    if how == "script":
        ask(b"EVAL", b"return redis.call('SETNX', KEYS[1], ARGV[1])", b"1", b"in-script", b"%d" % (time.time() * 1000))
    time.sleep(0.003)
PY
clients=()
client() { # host offset how key
    "$python" "$work/client.py" "$port" "$1" "$2" "${3:-plain}" "${4:-lock:$1}" 2>>"$work/clients.err" &
    clients+=($!)
    until_true 10 speaks "$1" || fail "$1 says nothing: $(cat "$work/clients.err")"
}
speaks() { redis CLIENT LIST | grep -q " addr=$1:.* cmd=\(setnx\|get\|del\|ping\|eval\)"; }
none() {
    kill "${clients[@]}" && wait "${clients[@]}" 2>/dev/null
    clients=()
}

# Each known host's offset is where it was put, and no wider than that. Of n stamps that it made one after the other
# within a time there are some whose edges are off by no more than the n-th part of that: where stalls have left too few
# there is nothing to check (3).
cat >"$work/check.py" <<'PY'
import json, re, sys
d, most = json.load(open(sys.argv[1])), float(sys.argv[2])
hosts = {h["name"]: h for h in d["hosts"] if h["instrument"] == "passive"}
truth = dict(w.split("=") for w in sys.argv[3:])
assert set(hosts) <= set(truth), (sorted(hosts), d["reason"])
took_ms = float(re.search(r"([0-9.]+) s: ", d["cost"]).group(1)) * 1000 + 100
stamps = [hosts[name]["samples"] if name in hosts else 1 for name in truth] # 0: of another dialect
if any(n > 0 and 2 * took_ms > 130 * (n - 1) for n in stamps):
    sys.exit(3)
for name, t in truth.items():
    h = hosts[name]
    if t[0].isalpha():
        assert h["status"] == t and h["offset_ms"] is None, h
        continue
    o, t = h["offset_ms"], float(t)
    assert h["status"] == "ok" and o["lo"] <= t <= o["hi"], h
    assert o["hi"] - o["lo"] <= most, h
    assert h["samples"] > 0 and h["age_ms"] >= 0, h
assert d["cost"].startswith("MONITOR ran for ") or "aborted" in d["cost"], d["cost"]
PY
listen() { # status most host=offset... -- options...; again, while there is too little to check
    local want=$1 most=$2 truth=() got checked try
    shift 2
    while [[ $1 != -- ]]; do
        truth+=("$1")
        shift
    done
    shift
    for try in {1..100}; do
        rm -f "$work/log"
        timeout -k 5 $run_limit "$tidelock" skew "$@" --log "$work/log" >"$out" 2>"$err" </dev/null
        got=$?
        "$python" "$work/check.py" "$work/log" "$most" "${truth[@]}" 2>>"$err"
        checked=$?
        ((checked == 3)) || break
    done
    ((checked == 0)) || depth=1 fail "$checked after $try tries: $(head -c 2000 "$work/log")"
    [[ $got == "$want" ]] || depth=1 fail "status $got instead of $want: $* $(head -c 2000 "$work/log")"
}

# ---- what stamps are rounded by counts however clocks are measured ------------------------------------
expect 0 "$tidelock" agent --once --name beside --every 10m
expect 0 "$tidelock" skew --slack 900ms --warn 100%
expect 1 "$tidelock" skew --slack 900ms --warn 100% --dialect php-s # two clocks that agree, a lock that ends 1 s early
grep -q "^WARN: a theft can't be ruled out" "$out" || fail "whole seconds: $(cat "$out")"
expect 0 "$tidelock" agent --forget beside

# ---- two hosts, and what isn't one -----------------------------------------------------------------
client 127.0.0.2 350
client 127.0.0.3 -120 script
both=(127.0.0.2=350 127.0.0.3=-120)
listen 0 200 "${both[@]}" -- --warn 100% --passive=500ms --json
none_monitors() { ! redis CLIENT LIST | grep -q 'flags=O'; }
until_true 10 none_monitors || fail "it goes on monitoring"
listen 2 200 "${both[@]}" -- --passive=500ms --slack 100ms
grep -q '^UNSAFE: .*when 127.0.0.3 holds, the clock of 127.0.0.2 is' "$out" || fail "unsafe: $(cat "$out")"

# ---- a lifetime that isn't theirs: no plausible number, but gaps ------------------------------------
wrong=(127.0.0.2=model-mismatch 127.0.0.3=model-mismatch)
listen 2 0 "${wrong[@]}" -- --passive=500ms --json --legacy-ttl 30s --slack 100ms # a certain theft stays one
"$python" - "$out" <<'PY' || fail "gaps: $(head -c 2000 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
gaps = {(p["holder"], p["taker"]): p["gap_ms"] for p in d["pairs"]}
assert set(gaps) == {("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")}, gaps
g = gaps["127.0.0.3", "127.0.0.2"]
assert g["lo"] <= 470 <= g["hi"] and g["hi"] - g["lo"] < 400, g
PY
listen 1 0 "${wrong[@]}" -- --passive=500ms --json --legacy-ttl 62s
grep -q '"reason":"MODEL-MISMATCH: .* wrong by -2[0-9]*\.[0-9]* to -1[0-9]*\.' "$out" || fail "reason: $(cat "$out")"
listen 1 0 "${wrong[@]}" -- --passive=500ms --json --dialect php-s
listen 1 0 127.0.0.2=relative 127.0.0.3=relative -- --passive=500ms --json --legacy-ttl auto
grep -q 'the lifetime seems to be 60[0-9]\{3\} ms' "$out" || fail "auto: $(cat "$out")"
listen 0 200 127.0.0.2=350 -- --warn 100% --passive=500ms --json --lock-timeout 60s --keys 'lock:*.2' --longest-hold 59s
listen 0 200 "${both[@]}" -- --warn 100% --passive=500ms --json --pool-wait 20ms
none

# ---- pools, seconds, several lifetimes ---------------------------------------------------------------
client 127.0.0.4 20 pool
listen 0 200 127.0.0.4=20 -- --warn 100% --passive=500ms --json
grep -q 'wait in a pool' "$out" || fail "a pool: $(cat "$out")"
none
client 127.0.0.5 10 seconds
listen 0 2200 127.0.0.5=10 -- --passive=1500ms --json --dialect php-s --slack 30s --warn 100%
listen 1 0 127.0.0.5=model-mismatch -- --passive=500ms --json # taken for milliseconds
none
client 127.0.0.6 0 mixed
listen 1 0 127.0.0.6=model-mismatch -- --passive=500ms --json
grep -q '"status":"model-mismatch","detail":"MODEL-MISMATCH: its stamps contradict each other' "$out" || fail "$(cat "$out")"
none
exit 0
