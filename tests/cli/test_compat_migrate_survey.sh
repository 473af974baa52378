#!/bin/bash
# migrate survey: legacy locks are found by pattern and dialect, with their clients and samples; what is not read is said;
# the lines that it proposes can be typed; and nothing is changed.
# timeout: 180
# shellcheck source-path=SCRIPTDIR
source "$(dirname "$0")/lib.sh"
source "$(dirname "$0")/migrate.sh"
start_server --bind 127.0.0.1 --protected-mode no # it takes other 127.0.0.x for strangers
says() { grep -qE -- "$1" "$out" || depth=1 fail "no '$1': $(cat "$out")"; }
says_not() { ! grep -qE -- "$1" "$out" || depth=1 fail "'$1': $(cat "$out")"; }
survey() { depth=1 expect 0 "$tidelock" migrate survey --watch 300ms "$@"; }

# ---- wrong usage ------------------------------------------------------------------------------------
expect_line 64 'migrate survey: --watch: at least 1ms' migrate survey --watch 0s
expect_line 64 'migrate survey: --monitor: 1h at most' migrate survey --monitor 61m
expect_line 64 'migrate survey: --phase is for init' migrate survey --phase 1
expect_line 64 'migrate status: --rate is for survey' migrate status --rate 1000
expect_line 64 '--rate' migrate survey --rate 99
expect_line 64 "--keys: the pattern has a '\['" migrate survey --keys 'a['
expect_line 64 '--dialect: one name' migrate survey --dialect 'x:*=java'

# ---- nothing there: that is no proof ------------------------------------------------------------------
survey
says '^  none was seen in 0 keys within .*; that doesn.t show that there is none: only --monitor sees locks'
says '^  M 1\.0 s: no clock of a legacy client was measured, so the default'
says '^  T 60\.0 s: no stamp was seen, so the default'
says '^namespace default is not registered; it could begin, by what was seen, in$'
says '^phase 3 \(token\): nothing blocks it$'
says 'no pattern to propose'
[[ $(redis DBSIZE) == 0 ]] || fail "it has left something"

# ---- patterns and dialects ------------------------------------------------------------------------------
ms=$(server_ms)
for i in 1 2 3; do stamp "jobs:n$i" 600000; done
stamp jobs:over -1000
redis SET "user:7:lock" "$((ms / 1000 + 90)).250000" >/dev/null
redis SET "user:8:lock" "$((ms / 1000 + 90)).250000" >/dev/null
redis SET "it's a,*lock" "550e8400-e29b-41d4-a716-446655440000:$((ms + 60000))" >/dev/null
redis SET seen:1 $((ms - 86400000)) >/dev/null
redis SET seen:2 $((ms - 86400000)) >/dev/null
redis SET tok:1 01234567-89ab-4def-8123-456789abcdef PX 3600000 >/dev/null
redis SET text:1 hello >/dev/null
before=$(redis --raw KEYS '*' | sort | while read -r k; do echo "$k $(redis GET "$k")"; done)
survey
says '^  jobs:\*$'
says '^    4 stamps without a sidecar, 1 expired; the last ends in [0-9.]+ (s|min)$'
says '^    dialect java \(or jedis-lock, node-ms: the source decides\): 4, such as jobs:'
says '^  user:\*:lock$'
says "^  it's a,\\\\\*lock$"
says '^    dialect jedis-lock-uuid: 1, such as it.s a,\*lock$'
says '^  seen:\*: 2 times, all over for more than an hour: left over by a dead service, or no locks$'
says '^  tok:\*: 1 token, 0 stamps of tidelock.s$'
says_not 'text:'
says '^phase 1 \(bridge\): nothing blocks it$'
says '^phase 2 \(drain\) is blocked:$'
says '  - 7 stamps stand without a sidecar'
says '^  tidelock migrate init --namespace jobs --keys .jobs:\*. --phase 1 --lease 30s$'
says '^  tidelock run --protocol auto --namespace .user:\*:lock=user-lock. --dialect py-float .*--legacy-ttl-min 60s KEY -- COMMAND$'
says_not '--url'
[[ $(redis --raw KEYS '*' | sort | while read -r k; do echo "$k $(redis GET "$k")"; done) == "$before" ]] || fail "it changes something"
survey --keys 'user:*'
says '^  read all [0-9]+ keys for user:\* in'
says_not 'jobs:'
says '^  tidelock migrate init --namespace default --keys .user:\*. --phase 1 --lease 30s$'

# ---- a lock that was left over is acquired again, after it was counted -----------------------------------
scans() { redis INFO commandstats | sed -n 's/^cmdstat_scan:calls=\([0-9]*\).*/\1/p'; }
scans_on() { (($(scans) >= from + 2)); } # the first of these two passes is over
from=$(scans)
{ "$tidelock" migrate survey --watch 60s --keys 'seen:*' & } >"$out" 2>&1
pid=$!
until_true 30 scans_on || fail "it doesn't scan: $(cat "$out")"
stamp seen:1 600000
from=$(scans)
until_true 30 scans_on || fail "it doesn't scan again: $(cat "$out")"
kill -TERM $pid
wait_for $pid 30
[[ $status == 143 ]] || fail "TERM: $status: $(cat "$out")"
says '^  seen:\*$'
says '^    2 stamps without a sidecar, 1 expired; the last ends in 5[0-9]{2} s$'
says_not 'left over by a dead service'
redis SET seen:1 $((ms - 86400000)) >/dev/null

# ---- JSON --------------------------------------------------------------------------------------------
survey --json
"$python" - "$out" <<'PY' || fail "--json: $(cat "$out")"
import json, sys
d = json.load(open(sys.argv[1]))
assert list(d) == ["server", "masters", "namespace", "registered", "keys", "keys_read", "keys_all", "all_keys", "passes",
    "took_ms", "monitor_ms", "not_read", "setnx_getset_calls", "patterns", "outside", "users", "connections",
    "other_connections", "clocks", "clock_skew_max", "legacy_delay_max", "legacy_ttl_min", "warning", "alarm", "slots", "phases"], list(d)
assert (d["masters"], d["registered"], d["keys"], d["all_keys"], d["not_read"]) == (1, False, "*", True, []), d
assert d["keys_read"] == d["keys_all"] == 11 and d["monitor_ms"] == 0 and d["setnx_getset_calls"] == 0, d
p = {q["pattern"]: q for q in d["patterns"]}
assert set(p) == {"jobs:*", "user:*:lock", "it's a,\\*lock", "seen:*", "tok:*"}, set(p)
assert all(list(q) == ["pattern", "legacy", "stamps", "over", "old", "odd", "oddity", "own_stamps", "tokens", "takes", "forms",
    "left_most_ms", "lifetimes", "holds", "stays", "init", "run"] for q in p.values()), p
assert (p["jobs:*"]["stamps"], p["jobs:*"]["over"], p["jobs:*"]["legacy"]) == (4, 1, True), p
assert p["jobs:*"]["forms"][0]["dialects"] == ["java", "jedis-lock", "node-ms"], p
assert p["seen:*"]["legacy"] is False and p["seen:*"]["init"] is None, p
assert p["tok:*"]["tokens"] == 1 and p["tok:*"]["legacy"] is False, p
assert [x["phase"] for x in d["phases"]] == [0, 1, 2, 3] and d["phases"][0]["blockers"] == [], d
assert list(d["clock_skew_max"]) == ["ms", "reason"] and d["clock_skew_max"]["ms"] == 1000, d
PY

# ---- the lines can be typed --------------------------------------------------------------------------
"$python" -c 'import json, sys
for p in json.load(open(sys.argv[1]))["patterns"]:
    if p["init"]:
        print(p["init"], "--yes"); print(p["run"].replace("KEY -- COMMAND", "\"$1\" -- true"))' "$out" >"$work/lines"
[[ $(wc -l <"$work/lines") == 6 ]] || fail "lines: $(cat "$work/lines")"
tidelock() { "$tidelock" "$@"; }
export -f tidelock
export tidelock
redis DEL jobs:over "it's a,*lock" >/dev/null
while read -r line; do
    case $line in
        *init*) expect 0 bash -c "$line" ;;
        *"'jobs:"*) expect 0 bash -c "$line" x jobs:new ;;
        *"'user:"*) expect 0 bash -c "$line" x user:9:lock ;;
        *) expect 0 bash -c "$line" x "it's a,*lock" ;;
    esac
done < <(grep -v "it'.*run" "$work/lines")
[[ $(redis HGET 'tidelock:phase:{user-lock}' keys) == 'user:*:lock' ]] || fail "the pattern: $(redis HGETALL 'tidelock:phase:{user-lock}')"
[[ $(redis KEYS 'tidelock:phase:{*}' | wc -l) == 3 ]] || fail "not three namespaces: $(redis KEYS 'tidelock:phase*')"

# ---- with a register ---------------------------------------------------------------------------------
survey --namespace jobs
says '^namespace jobs is in phase 1 \(bridge\), keys jobs:\*$'
says '^phase 0 \(timestamp\): nothing blocks it$'
says '  - 3 stamps stand without a sidecar'
says '^  [0-9] keys, such as .*, fit no name of the register.s keys jobs:\*: no step looks at them$'
says '^  tidelock migrate status --namespace jobs$'
says_not 'migrate init'
redis HSET 'tidelock:phase:{jobs}' keys $'jobs:\e*' >/dev/null
survey --namespace jobs
says 'keys jobs:\?\*$'
! grep -q $'\e' "$out" || fail "a terminal is told what to do"
redis FLUSHALL >/dev/null

# ---- clients at work, with MONITOR -------------------------------------------------------------------
open_port
export TIDELOCK_URL=redis://127.0.0.1:$port
cat >"$work/client.py" <<'PY'
import socket, sys, time
port, host, off_ms, key, name = int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), sys.argv[4].encode(), sys.argv[5].encode()
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
    return b"%d" % (time.time() * 1000 + off_ms + 60000)
ask(b"CLIENT", b"SETNAME", name)
n = 0
while True:
    n += 1
    if n % 10 == 0: # a takeover of a stamp that is over
        ask(b"SET", key, b"1600000000000")
    if ask(b"SETNX", key, stamp()) == b"0":
        ask(b"GET", key)
        time.sleep(0.002)
        ask(b"GETSET", key, stamp())
    time.sleep(0.01)
    ask(b"DEL", key)
PY
clients=()
client_at() { # host offset key name
    "$python" "$work/client.py" "$port" "$@" 2>>"$work/clients.err" &
    clients+=($!)
    until_true 10 speaks "$1" || fail "$1 says nothing: $(cat "$work/clients.err")"
}
speaks() { redis CLIENT LIST | grep -q " addr=$1:.* cmd=\(setnx\|get\|getset\|del\)"; }
client_at 127.0.0.2 0 jobs:a web1
client_at 127.0.0.3 400 jobs:b web2
client_at 127.0.0.4 0 cron:c batch
# On a slow machine the clients may have sent little meanwhile (3): then it is done again, for longer.
cat >"$work/check.py" <<'PY'
import json, sys
d = json.load(open(sys.argv[1]))
u = {x["name"]: x for x in d["users"]}
if set(u) != {"web1", "web2", "batch"} or any(x["takes"] < 3 for x in u.values()) or len(d["clocks"]) < 3 or \
        "no takeover" in d["legacy_delay_max"]["reason"] or \
        any(c["offset_ms"] is None or c["offset_ms"]["hi"] - c["offset_ms"]["lo"] > 390 for c in d["clocks"]) or \
        any((q["holds"] or {"count": 0})["count"] < 3 for q in d["patterns"]):
    sys.exit(3)
assert d["monitor_ms"] >= 1000 and d["not_read"] == [] and d["setnx_getset_calls"] > 10, d
p = {q["pattern"]: q for q in d["patterns"]}
assert set(p) == {"jobs:*", "cron:*"} and all(q["takes"] > 2 and q["legacy"] for q in p.values()), p
h, t = p["jobs:*"]["holds"], p["jobs:*"]["lifetimes"]
assert h["most_ms"] >= 5 and t["count"] > 2 and 0 < t["least_ms"] <= 60500, p
assert list(u["web1"]) == ["host", "name", "library", "version", "user", "connections", "command", "takes", "patterns"], u
assert (u["web1"]["host"], u["web1"]["patterns"], u["batch"]["patterns"]) == ("127.0.0.2", ["jobs:*"], ["cron:*"]), u
assert u["web2"]["takes"] > 2 and u["web2"]["connections"] == 1, u
c = {x["host"]: x for x in d["clocks"]}
assert set(c) == {"127.0.0.2", "127.0.0.3", "127.0.0.4"} and not any(x["relative"] for x in c.values()), c
assert list(c["127.0.0.2"]) == ["host", "server", "offset_ms", "relative", "stamps", "detail"], c
o = c["127.0.0.3"]["offset_ms"]
assert o["lo"] <= 400 <= o["hi"] and o["lo"] > 0, c
assert d["legacy_ttl_min"]["ms"] == 60000 and d["clock_skew_max"]["ms"] >= 1000 and d["legacy_delay_max"]["ms"] >= 500, d
assert "takeovers" in d["legacy_delay_max"]["reason"] or "takeover" in d["legacy_delay_max"]["reason"], d
PY
for time in 1s 3s 10s 30s; do
    survey --monitor $time --json --legacy-ttl-min 60s
    "$python" "$work/check.py" "$out" 2>>"$err"
    checked=$?
    ((checked == 3)) || break
done
((checked == 0)) || fail "MONITOR: $checked: $(cat "$out")"
for time in 500ms 3s 30s; do
    survey --monitor $time --keys 'cron:*'
    ! grep -q 'off the median host' "$out" || break
done
says '^  127\.0\.0\.4 called batch .*: 1 connection, .* SETNX and GETSET on cron:\*$'
says 'off the median host, by'
says_not 'on jobs:'
says '^phase 2 \(drain\) is blocked:$'
says '  - [0-9]+ SETNX and GETSET of legacy clients were seen$'
says '^    who:  127\.0\.0\.4:[0-9]+ on cron:c$'
survey
says '  - SETNX or GETSET ran [0-9]+ times meanwhile, and it is not known on which keys$'
none_monitors() { ! redis CLIENT LIST | grep -q 'flags=O'; }
until_true 10 none_monitors || fail "it goes on monitoring"

# ---- what may not be read ----------------------------------------------------------------------------
redis ACL SETUSER half on nopass '~*' '&*' +@all '-client|list' '-info' '+info|replication' '+info|server' -monitor -dbsize >/dev/null
TIDELOCK_URL=redis://half:x@127.0.0.1:$port survey --monitor 1s
for what in 'how many keys there are \(DBSIZE\): .*NOPERM' 'who is connected \(CLIENT LIST\): .*NOPERM' \
    'what clients send \(MONITOR\): .*' 'how often SETNX and GETSET ran \(INFO commandstats\)'; do
    says "^  not read: $what"
done
kill "${clients[@]}" && wait "${clients[@]}" 2>/dev/null
# A user who may read no register: the rest is read.
redis SET jobs:x 1 >/dev/null
stamp jobs:x 60000
redis ACL SETUSER other on nopass '~jobs:*' '~tidelock:{jobs*' '&*' +@all >/dev/null
TIDELOCK_URL=redis://other:x@127.0.0.1:$port expect_from 0 "$tidelock" migrate survey --keys 'jobs:*' --watch 300ms
says '^  not read: the register of namespace default'
says '^whether namespace default is registered is not known$'
says_not 'it could begin|migrate init'

# ---- a part is not the whole; a signal -------------------------------------------------------------------
redis EVAL 'for i = 1, 3000 do redis.call("SET", "k:" .. i, "text") end' 0 >/dev/null
survey --rate 1000
says '^  read about [0-9]+ of 300[0-9] keys in .*, 1000 a second at most; no MONITOR$'
says '^  not read: all keys; give more time'
says 'the scan did not reach all keys in time'
{ "$tidelock" migrate survey --watch 60s & } >"$work/survey" 2>&1
pid=$!
is_scanning() { redis CLIENT LIST | grep -q ' cmd=evalsha '; }
until_true 10 is_scanning || fail "it doesn't scan: $(cat "$work/survey")"
kill -TERM $pid
wait_for $pid 30
[[ $status == 143 ]] || fail "TERM: $status: $(cat "$work/survey")"
grep -q '^survey of' "$work/survey" || fail "TERM: what was seen isn't shown: $(cat "$work/survey")"
stop_server
expect_line 69 . "$tidelock" migrate survey --watch 300ms
