#!/bin/bash
# skew --passive: clients of the old kind, each on an address and with a clock of its own, are measured by what
# they tell the server.
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
port=$("$python" -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
start_server --port "$port" --bind 127.0.0.1 --protected-mode no # it takes other 127.0.0.x for strangers
export TIDELOCK_URL=redis://127.0.0.1:$port

# A service of the old kind: SETNX, GET, perhaps GETSET, DEL. Its clock is off by so many ms.
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

# Each known host's offset is where it was put, and no wider than that.
cat >"$work/check.py" <<'PY'
import json, sys
d, most = json.load(open(sys.argv[1])), float(sys.argv[2])
hosts = {h["name"]: h for h in d["hosts"] if h["instrument"] == "passive"}
truth = dict(w.split("=") for w in sys.argv[3:])
assert set(hosts) == set(truth), (sorted(hosts), d["reason"])
for name, t in truth.items():
    h = hosts[name]
    if t[0].isalpha():
        assert h["status"] == t and h["offset_ms"] is None, h
        continue
    o, t = h["offset_ms"], float(t)
    assert h["status"] == "ok" and o["lo"] <= t <= o["hi"], h
    assert o["hi"] - o["lo"] <= most, h
    assert h["samples"] > 0 and h["age_ms"] >= 0, h
assert d["cost"].startswith("MONITOR ran for ") or "given up" in d["cost"], d["cost"]
PY
measures() { # most host=offset...
    "$python" "$work/check.py" "$out" "$@" || depth=1 fail "$(head -c 2000 "$out")"
}

# ---- what stamps are rounded by counts however clocks are measured ------------------------------------
expect 0 "$tidelock" agent --once --name beside --every 10m
expect 0 "$tidelock" skew --slack 900ms --warn 100%
expect 1 "$tidelock" skew --slack 900ms --warn 100% --dialect php-s # two clocks that agree, a lock that ends 1 s early
grep -q "^WARN: a theft can't be ruled out" "$out" || fail "whole seconds: $(cat "$out")"
redis DEL '{tidelock:agents}:beside' >/dev/null

# ---- two hosts, and what isn't one -----------------------------------------------------------------
client 127.0.0.2 350
client 127.0.0.3 -120 script
expect 0 "$tidelock" skew --warn 100% --passive=500ms --json
measures 200 127.0.0.2=350 127.0.0.3=-120
[[ $(redis CLIENT LIST | grep -c 'flags=O') == 0 ]] || fail "it goes on monitoring"
expect 2 "$tidelock" skew --passive=500ms --slack 100ms
grep -q '^UNSAFE: .*when 127.0.0.3 holds, the clock of 127.0.0.2 is' "$out" || fail "unsafe: $(cat "$out")"

# ---- a lifetime that isn't theirs: no plausible number, but gaps ------------------------------------
expect 2 "$tidelock" skew --passive=500ms --json --legacy-ttl 30s --slack 100ms # a certain theft stays one
measures 0 127.0.0.2=model-mismatch 127.0.0.3=model-mismatch
"$python" - "$out" <<'PY' || fail "gaps: $(head -c 2000 "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
gaps = {(p["holder"], p["taker"]): p["gap_ms"] for p in d["pairs"]}
assert set(gaps) == {("127.0.0.2", "127.0.0.3"), ("127.0.0.3", "127.0.0.2")}, gaps
g = gaps["127.0.0.3", "127.0.0.2"]
assert g["lo"] <= 470 <= g["hi"] and g["hi"] - g["lo"] < 400, g
PY
expect 1 "$tidelock" skew --passive=500ms --json --legacy-ttl 62s
measures 0 127.0.0.2=model-mismatch 127.0.0.3=model-mismatch
grep -q '"reason":"MODEL-MISMATCH: .* wrong by -2[0-9]*\.[0-9]* to -1[0-9]*\.' "$out" || fail "reason: $(cat "$out")"
expect 1 "$tidelock" skew --passive=500ms --json --dialect php-s
measures 0 127.0.0.2=model-mismatch 127.0.0.3=model-mismatch
expect 1 "$tidelock" skew --passive=500ms --json --legacy-ttl auto
measures 0 127.0.0.2=relative 127.0.0.3=relative
grep -q 'the lifetime seems to be 60[0-9]\{3\} ms' "$out" || fail "auto: $(cat "$out")"
expect 0 "$tidelock" skew --warn 100% --passive=500ms --json --lock-timeout 60s --keys 'lock:*.2' --max-hold 59s
measures 200 127.0.0.2=350
expect 0 "$tidelock" skew --warn 100% --passive=500ms --json --pool-wait 20ms
measures 200 127.0.0.2=350 127.0.0.3=-120
none

# ---- pools, seconds, several lifetimes ---------------------------------------------------------------
client 127.0.0.4 20 pool
expect 0 "$tidelock" skew --warn 100% --passive=500ms --json
measures 200 127.0.0.4=20
grep -q 'wait in a pool' "$out" || fail "a pool: $(cat "$out")"
none
client 127.0.0.5 10 seconds
expect 0 "$tidelock" skew --passive=1500ms --json --dialect php-s --slack 30s --warn 100%
measures 2200 127.0.0.5=10
expect 1 "$tidelock" skew --passive=500ms --json # taken for milliseconds
measures 0 127.0.0.5=model-mismatch
none
client 127.0.0.6 0 mixed
expect 1 "$tidelock" skew --passive=500ms --json
measures 0 127.0.0.6=model-mismatch
grep -q '"status":"model-mismatch","detail":"MODEL-MISMATCH: its stamps contradict each other' "$out" || fail "$(cat "$out")"
none
exit 0
